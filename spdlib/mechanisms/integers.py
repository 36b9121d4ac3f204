"""Noise in integers: mechanisms whose promise holds for the very floats.

Clipped records are cut to multiples of a grid g, a power of two, so their sum is g I with a vector
I of integers, and I moves by at most D = 2 radius/g in Euclidean length when a record is replaced.
OpenDP adds to I noise Z of the discrete Gaussian law, of probability proportional to exp(-z^2 / 2
s^2) at every integer z of every coordinate, exactly and from the system's entropy. The answer is
(I + Z) g / divisor. Nothing is rounded between clipping and noise, and what comes after I + Z
cannot undo the promise, be it rounded or not.

It is rho-zCDP with rho = D^2 / 2 s^2 (Canonne, Kamath and Steinke 2022). For (epsilon,
delta), let Q_v be the law of a vector that is drawn in two turns: y from the continuous normal law
N(v, (s^2 - t^2) I), then each coordinate from the discrete Gaussian of scale t about that of y. The
sum of exp(-(z - y)^2 / 2 t^2) over all integers z is t sqrt(2 pi) (1 + e(y)), where |e(y)| <= eta =
2 sum exp(-2 pi^2 t^2 j^2) over j >= 1 (Poisson). Hence the law P_v of v + Z, for a vector v of
integers, has P_v / Q_v between e^-a and e^a everywhere, a = d ln((1 + eta) / (1 - eta)). And Q is
what the continuous mechanism of the scale sqrt(s^2 - t^2) gives, processed further. So if that one
is (epsilon, delta)-DP, P is (epsilon + 2a, e^a delta)-DP. With t = 8 and d up to a million a is
below 1e-541. The calibrations keep 1e-10 in ln delta, which moves by less than 1e11 per unit of
epsilon: a is covered, and `delta` and `mu` are those of the continuous law. What t costs is
t^2 / 2 s^2 of the noise.

The sampler's running time may depend on what it draws, and memory and exceptions are the caller's
to guard: that is beside the promise.
"""

import fractions
import importlib.metadata
import math
import re

import numpy as np

from .._checks import EPS, integer, positive
from ..calibration import laplace_scale, sigma_analytic
from ..spaces.ball import ball_radius, finest_grid
from .base import GaussianNoise, Mechanism, loss_of

SMOOTHING = 8.0  # t: below 1e-541, a is less than any float can tell
BITS = 40  # the noise is about this many bits of the grid
MOST_RECORDS = 2**40  # more make the grid so coarse that t costs too much


class OnGrid:
    """What mechanisms share that add integers to exact sums of records on a grid of their own."""

    exact = True
    name: str
    radius: float
    n: int
    divisor: float
    grid: float

    @staticmethod
    def source(rng):
        if rng is not None:
            raise ValueError(f"rng is {rng!r}; accepted is None: exact noise comes from the "
                             "system's entropy and cannot be seeded")

    def perturb(self, y, rng=None, size=None):
        """ValueError: how far floats of your own move in units of the grid is not known."""
        raise ValueError(f'"{self.name}" knows only sums of records on its own grid; accepted is '
                         "answer(query)")

    def release(self, M, rng=None, size=None, space=None):
        """ValueError, as `perturb`."""
        self.perturb(M)

    @classmethod
    def check_flat(cls, query):
        """ValueError for a query on a curved space."""
        if not query.space.flat:
            raise ValueError(f"space is {query.space!r}; accepted with \"{cls.name}\" are flat "
                             "spaces, where a mean is a sum: statistic=\"tangent\" makes a chart "
                             "of one")

    def counts(self, query):
        """The query's sum in units of the grid, integers; not private. ValueError for another."""
        self.check_flat(query)
        if query.radius > self.radius or query.n > self.n or query.divisor != self.divisor:
            raise ValueError(
                f"query has n = {query.n}, radius {query.radius:.6g} and divisor "
                f"{query.divisor:.6g}; accepted are n up to {self.n}, radii up to "
                f"{self.radius:.6g} and the divisor {self.divisor:.6g}, the mechanism's own")
        total = query.total(self.grid) / self.grid
        counts = total.astype(np.int64)  # they are integers below 2⁵³
        if (counts != total).any():
            raise ValueError("the query's sum is off the grid; accepted are sums on it")
        return counts


class DiscreteGaussian(OnGrid, GaussianNoise):
    """The discrete Gaussian mechanism for the mean of clipped records on a flat space: (ε, δ)-DP.

    Its promise holds for the floats that leave, not only for noise in real numbers: records on a
    grid, an exact sum, exact noise on the same grid (claim SP-21). It is calibrated without OpenDP
    and draws with it (`spdlib[hardened]`), from the system's entropy: it cannot be seeded. A query
    is on a flat space, with the mechanism's divisor, no more records and no larger radius.

    Parameters
    ----------
    radius : float
        Of the public ball to which records are clipped.
    n : int
        Number of records, public, up to 2⁴⁰.
    epsilon, delta : float
        The promise: ε from 1e-6 to 1e3, δ from 1e-300 to 1/2.
    divisor : float, optional
        What the sum is divided by: `n`, or the sum of public weights of which the largest is 1.

    Attributes
    ----------
    sensitivity : float
        Of the mean, 2 radius/divisor.
    sigma : float
        Standard deviation of the noise of the mean in each coordinate, in the unit of the radius.
    grid : float
        The power of two of which all records, their sum and its noise are multiples: as coarse as
        the noise allows, so that its scale is 2³⁹ to 2⁴⁰ of them; coarser where a sum of n records
        would not be exact. The cut of the records to it moves the mean by less than √d `grid` n /
        `divisor`.
    scale : float
        Scale s of the noise, in units of the grid.
    mu : float
        Parameter of Gaussian differential privacy, rounded up.
    rho : float
        Parameter of zero-concentrated differential privacy, rounded up.

    Raises
    ------
    ValueError
        For a radius, a number or a promise that is none.
    """

    name = "discrete gaussian"
    public = ("radius", "n", "divisor", "grid", "scale", "mu", "rho", "sensitivity", "sigma")

    def __init__(self, radius: float, n: int, epsilon: float, delta: float,
                 divisor: float | None = None):
        radius, n = ball_radius(radius), integer(n, "n", 1, MOST_RECORDS)
        divisor = positive(n if divisor is None else divisor, "divisor")
        self._take(radius, n, divisor, sigma_analytic(2 * radius, epsilon, delta))

    def _take(self, radius, n, divisor, noise):
        """`noise` is the standard deviation that a sum of continuous noise would have."""
        self.radius, self.n, self.divisor = radius, n, divisor
        by_noise = 2.0**(math.frexp(noise)[1] - BITS)
        self.grid = max(by_noise, finest_grid(self.radius, self.n))
        self.scale = math.hypot(noise / self.grid, SMOOTHING) * (1 + 1e-12)  # more than rounding
        moved = 2 * self.radius / self.grid
        smooth = math.sqrt((self.scale - SMOOTHING) * (self.scale + SMOOTHING))
        self.mu = moved / smooth * (1 + 4 * EPS)
        self.rho = (moved / self.scale)**2 / 2 * (1 + 4 * EPS)
        self.sensitivity = 2 * self.radius / self.divisor * (1 + 2 * EPS)
        self.sigma = self.scale * self.grid / self.divisor

    @classmethod
    def of(cls, query, epsilon, delta):
        """The mechanism for this query, on a flat space. ImportError where OpenDP is missing."""
        cls.check_flat(query)
        _opendp()
        return cls(query.radius, query.n, epsilon, delta, query.divisor)

    @classmethod
    def with_mu(cls, query, mu):
        """That of this parameter of Gaussian differential privacy, for one part of a release."""
        made = cls.__new__(cls)
        made._take(query.radius, query.n, query.divisor, 2 * query.radius / mu)
        return made

    def _prepared(self, query):
        """The floats that are drawn stand for integers, divided."""
        self.check_flat(query)
        draw, counts = self._sampler(), self.counts(query)

        def answers(_, size):
            shape = *size, *counts.shape
            noisy = np.array(draw(np.broadcast_to(counts, shape).ravel().tolist()), dtype=np.int64)
            return noisy.reshape(shape) * self.grid / self.divisor

        return answers

    def _sampler(self):
        """What adds the noise to integers, a list: OpenDP, if it promises what is promised here."""
        dp = _opendp()
        dp.enable_features("contrib")
        vectors = dp.vector_domain(dp.atom_domain(T=dp.i64)), dp.l2_distance(T=float)
        draw = dp.m.make_gaussian(*vectors, scale=self.scale)
        if not draw.map(2 * self.radius / self.grid) <= self.rho * (1 + 1e-12):
            raise RuntimeError("OpenDP promises less zCDP than the mechanism; nothing was drawn")
        return draw


def _opendp():
    try:
        import opendp.prelude as dp
        version = importlib.metadata.version("opendp")
    except ImportError as error:
        raise ImportError("exact noise is drawn by OpenDP: pip install 'spdlib[hardened]'") \
            from error
    if tuple(map(int, re.findall(r"\d+", version)[:2])) < (0, 16):
        raise ImportError("OpenDP before 0.16 may draw biased noise (its issue 2638): "
                          "pip install 'spdlib[hardened]'")
    return dp


class DiscreteLaplace(Mechanism):
    """Integer noise that takes z with probability proportional to exp(-|z|/scale): ε-DP.

    For a count, which one record moves by 1. It is drawn exactly, with integers only (Canonne,
    Kamath and Steinke 2020, Algorithm 2).

    Attributes
    ----------
    scale : float
        1/ε, rounded up.
    """

    name, exact, public = "discrete laplace count", True, ("scale",)

    def __init__(self, epsilon: float):
        self.scale = laplace_scale(1.0, epsilon)
        self.loss = loss_of(1, self.scale)

    def draw(self, source) -> int:
        """One draw, by a `random.Random`."""
        t, s = self.scale.as_integer_ratio()
        while True:
            u = source.randrange(t)
            if not _decays(fractions.Fraction(u, t), source):
                continue
            v = 0
            while _decays(fractions.Fraction(1), source):
                v += 1
            sign, size = source.choice((-1, 1)), (u + t * v) // s
            if (sign, size) != (-1, 0):  # or else 0 would come twice as often
                return sign * size


def _decays(gamma, source):
    """True with probability exp(-γ), exactly, for a fraction γ from 0 to 1."""
    k = 1
    while source.randrange(gamma.denominator * k) < gamma.numerator:
        k += 1
    return k % 2 == 1
