"""Noise on the integer lattice whose promise is pure, and holds for the very floats.

Clipped records are cut to multiples of a grid g, a power of two, so their sum is g I with a vector
I of d integers, and I moves by at most D = 2 radius/g in Euclidean length when a record is
replaced. The answer is (I + Z) g / divisor, where a vector z of integers has probability
exp(-‖z‖ √d/t) / C, exactly and from the system's entropy. It is the law of exp(-‖z‖/s) with
s = t/√d, and t is a float that is at least √d D/ε, as fractions have it.

The promise. C is a sum over all vectors of integers, and a shift by one of them permutes these, so
that C is the same whatever I is. For sums I and I' of neighbours and any v, P(I + Z = v) /
P(I' + Z = v) = exp((‖v - I'‖ - ‖v - I‖) √d/t), at most exp(D √d/t) <= e^ε by the triangle
inequality. So I + Z is ε-DP, and what comes after it cannot undo that, be it rounded or not.

The draws. One coordinate has the probability ∝ exp(-|z|/t). For m > 1 coordinates halves of h and
k are drawn, x ∝ exp(-√h ‖x‖/t) and y ∝ exp(-√k ‖y‖/t), each by the same rule, and together they
are kept with probability exp(-γ), γ = (√m ‖(x, y)‖ - √h ‖x‖ - √k ‖y‖)/t, else both are drawn anew.
What is kept has probability ∝ exp(-√m ‖(x, y)‖/t), and γ >= 0 by the inequality of Cauchy and
Schwarz. This is rejection from d independent coordinates, taken by halves: all are kept at once
with the share that one comparison of ‖z‖/s with ‖z‖₁/t would keep, 6.5e-4 at d = 28. But a half
that fails does not take the other halves with it, and the work grows like d^1.5 only.

No float decides. t is a fraction p/q. True with probability exp(-a/b) is drawn by integers below bk
(Canonne, Kamath and Steinke 2020, Algorithm 1), and with it the whole part of an exponential
variable E of mean t (their Algorithm 2). Kept is where E + √(h ‖x‖²) + √(k ‖y‖²) > √(m ‖(x, y)‖²).
These are roots of integers: `math.isqrt` encloses them to any number of binary digits, and digits
of E are drawn as they are asked for, until the two sides are apart. The digit of the value r is 1
with probability 1 / (1 + exp(r/t)), whatever those before it are, for E has no memory.

For (ε', δ), compare I + Z with continuous noise of density ∝ exp(-‖x‖/s), rounded to the closest
integers. Rounding moves x by at most √d/2, so both the mass of each vector and C are those of the
continuous law up to a factor between exp(-√d/2s) and exp(√d/2s). Hence the two laws have a ratio
between e^-a and e^a, a = √d/s = d/t, and δ(ε') <= e^a δ'(ε' - 2a), with δ' of the continuous law.

The sampler's running time depends on Z alone; memory and exceptions are the caller's to guard.
"""

import fractions
import math
import random

import numpy as np

from .._checks import EPS, integer, number, positive
from ..calibration import l2_delta, laplace_scale, pure_delta
from ..spaces.ball import ball_radius, finest_grid
from .base import Noise, gamma_law
from .integers import BITS, MOST_RECORDS, OnGrid

MOST_COORDINATES = 210  # matrices of size 20, for which a draw takes a tenth of a second


class LatticeLaplace(OnGrid, Noise):
    """The ℓ2-Laplace mechanism on the integer lattice, for a mean on a flat space: ε-DP.

    Its promise is pure, as that of `RiemannianLaplace`, and holds for the floats that leave, as
    that of `DiscreteGaussian`: records on a grid, an exact sum, exact noise on the same grid. It
    draws from the system's entropy and cannot be seeded. A query is on a flat space of d
    dimensions, with the mechanism's divisor, no more records and no larger radius.

    Parameters
    ----------
    radius : float
        Of the public ball to which records are clipped.
    n : int
        Number of records, public, up to 2⁴⁰.
    epsilon : float
        The promise: ε from 1e-6 to 1e3.
    d : int
        Dimension of the space, k(k+1)/2 for matrices of size k, up to 210.
    divisor : float, optional
        What the sum is divided by: `n`, or the sum of public weights of which the largest is 1.

    Attributes
    ----------
    sensitivity : float
        Of the mean, 2 radius/divisor.
    scale : float
        Scale of the noise of the mean, in the unit of the radius.
    grid : float
        The power of two of which all records, their sum and its noise are multiples: as coarse as
        the noise allows, so that its scale is 2³⁹ to 2⁴⁰ of them; coarser where a sum of n records
        would not be exact. The cut of the records to it moves the mean by less than √d `grid` n /
        `divisor`.
    width : float
        √d times the scale s of the noise in units of the grid, rounded up.

    Raises
    ------
    ValueError
        For a radius, a number, a dimension or a promise that is none.
    """

    name, pure = "discrete laplace", True
    public = ("radius", "n", "d", "divisor", "grid", "width", "sensitivity", "scale")

    def __init__(self, radius: float, n: int, epsilon: float, d: int, divisor: float | None = None):
        self.radius, self.n = ball_radius(radius), integer(n, "n", 1, MOST_RECORDS)
        self.d = integer(d, "d", 1, MOST_COORDINATES)
        self.divisor = positive(n if divisor is None else divisor, "divisor")
        noise = laplace_scale(2 * self.radius, epsilon)
        by_noise = 2.0**(math.frexp(noise)[1] - BITS)
        self.grid = max(by_noise, finest_grid(self.radius, self.n))
        self.loss = float(epsilon)
        moved = fractions.Fraction(2 * self.radius) / fractions.Fraction(self.grid)
        self.width = _root_up(self.d * (moved / fractions.Fraction(self.loss))**2)
        self.sensitivity = 2 * self.radius / self.divisor * (1 + 2 * EPS)
        self.scale = self.width / math.sqrt(self.d) * self.grid / self.divisor

    @classmethod
    def of(cls, query, epsilon, delta=0):
        """The mechanism for this query, on a flat space; `delta` has to be 0."""
        number(delta, "delta", 0, 0, '0 with "discrete laplace", whose promise is pure')
        cls.check_flat(query)
        return cls(query.radius, query.n, epsilon, query.space.dim, query.divisor)

    def _prepared(self, query):
        """The floats that are drawn stand for integers, divided."""
        self.check_flat(query)
        self._own(query.space.dim)
        counts, t = self.counts(query).tolist(), self.width.as_integer_ratio()

        def answers(_, size):
            source = random.SystemRandom()
            noisy = [[
                count + z for count, z in zip(counts, vector(self.d, t, source), strict=True)
            ] for _ in range(math.prod(size))]
            return np.array(noisy, float).reshape(*size, self.d) * self.grid / self.divisor

        return answers

    def error(self, d):
        """That of continuous noise, from which the lattice's is some d/`width` of itself off."""
        return gamma_law(self._own(d), self.scale)

    def delta(self, epsilon, d):
        """At least the smallest δ: that of continuous noise, and what the lattice may add."""
        most, a = pure_delta(self.loss, epsilon), self._own(d) / self.width
        less = epsilon - 3 * a  # by one a more than is proved, and so below, for what is rounded
        less = less if less >= 1e-6 else 0
        continuous = l2_delta(self.scale * (1 - 4 * EPS), less, self.d, self.sensitivity)
        return min(most, math.exp(2 * a) * continuous)

    def _own(self, d):
        if integer(d, "d", 1, MOST_COORDINATES) != self.d:
            raise ValueError(f"d is {d!r}; accepted is {self.d}, the mechanism's own")
        return self.d


def vector(d, t, source):
    """d integers z with probability ∝ exp(-√d ‖z‖/t), drawn exactly by a `random.Random`.

    t is a pair (p, q) that stands for p/q, at least 1/2.
    """
    return _drawn(d, t, source)[0]


def _drawn(m, t, source):
    """The same, and their sum of squares."""
    if m == 1:
        z = _signed(t, source)
        return [z], z * z
    h = m // 2
    while True:
        (x, a), (y, b) = _drawn(h, t, source), _drawn(m - h, t, source)
        if kept((h * a, (m - h) * b), m * (a + b), t, source):
            return x + y, a + b


def kept(parts, whole, t, source):
    """True with probability exp(-γ), γ = (√whole - Σ √parts)/t, for integers with γ ≥ 0.

    That is whether E + Σ √parts > √whole for an exponential E of mean t, of which as many binary
    digits are drawn as it takes.
    """
    E, digits = geometric(t, source), 0  # E, and all roots below, in units of 2^-digits
    while True:
        low = E + sum(math.isqrt(part << 2 * digits) for part in parts)
        root = math.isqrt(whole << 2 * digits)
        if low > root:  # and √whole < root + 1
            return True
        if low + 1 + len(parts) <= root:  # for each of E and √parts is less than 1 above
            return False
        digits += 1
        E = 2 * E + _digit(t[1], t[0] << digits, source)


def geometric(t, source):
    """An integer z ≥ 0 with probability ∝ exp(-z/t): the whole part of an exponential of mean t."""
    p, q = t
    z = source.randrange(p)
    while not decays(z, p, source):
        z = source.randrange(p)
    while decays(1, 1, source):
        z += p
    return z // q


def decays(a, b, source):
    """True with probability exp(-a/b), for integers 0 ≤ a ≤ b."""
    k = 1
    while source.randrange(b * k) < a:
        k += 1
    return k % 2 == 1


def _digit(a, b, source):
    """1 with probability 1 / (1 + exp(a/b)), else 0."""
    while source.getrandbits(1):
        if decays(a, b, source):
            return 1
    return 0


def _signed(t, source):
    """An integer with probability ∝ exp(-|z|/t)."""
    while True:
        z = geometric(t, source)
        if source.getrandbits(1):
            return z
        if z:  # or else 0 would come twice as often
            return -z


def _root_up(square):
    """A float whose square is at least this fraction, and none that is needlessly large."""
    root = math.sqrt(square)
    while fractions.Fraction(root)**2 < square:
        root = math.nextafter(root, math.inf)
    return root
