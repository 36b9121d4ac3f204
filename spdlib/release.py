"""The count of clipped records, with noise in integers."""

import fractions
import math
import random

import numpy as np

from ._checks import generator
from .accounting import spending
from .calibration import laplace_scale
from .clipping import _unit
from .frechet import FrechetMean
from .mechanisms import Answers


class DiscreteLaplace:
    """Integer noise that takes z with probability proportional to exp(-|z|/scale): ε-DP.

    For a count, which one record moves by 1. It is drawn exactly, with integers only (Canonne,
    Kamath and Steinke 2020, Algorithm 2).

    Attributes
    ----------
    scale : float
        1/ε, rounded up.
    """

    name, exact = "discrete laplace", True
    law = "pure"  # that of randomized response, here not only as a bound
    public = "scale",

    def __init__(self, epsilon):
        self.scale = laplace_scale(1.0, epsilon)

    @property
    def loss(self):
        """The largest privacy loss, the ε at δ = 0."""
        return math.nextafter(1 / self.scale, math.inf)

    def draw(self, source):
        """One draw, an int, by a `random.Random`."""
        t, s = fractions.Fraction(self.scale).as_integer_ratio()
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

    __repr__ = Answers.__repr__


@np.errstate(all="ignore")  # a warning, where a square is no float, would speak of the data
def private_clipped_count(X, center, radius, epsilon, *, space=None, on_invalid="raise", rng=None,
                          accountant=None, group=None):
    """How many records are outside the public ball, with noise: a release of its own that costs ε.

    How many records a mean clips is a fact about the data and stays inside; this count, ε-DP where
    one of n records is replaced by any other, may leave. The noise is an integer, drawn exactly
    from the system's entropy; its standard deviation is about √2/ε.

    Parameters
    ----------
    X : array of shape (n, k, k), or (n, *space.shape)
    center, radius, space, on_invalid
        As of `PrivateFrechetMean`.
    epsilon : float
        What it costs, from 1e-6 to 1e3.
    rng, accountant, group
        As of `PrivateFrechetMean.fit`.

    Returns
    -------
    int
        From 0 to n.

    Raises
    ------
    ValueError
        For a parameter or a record that is none, or what the budget does not hold; nothing was
        drawn then.

    Examples
    --------
    >>> from spdlib import random_spd
    >>> from spdlib.release import private_clipped_count
    >>> covariances = random_spd(400, 3, 1.0, rng=0)
    >>> private_clipped_count(covariances, None, 0.5, epsilon=1.0) > 300
    True
    """
    query = FrechetMean(X, center, radius, space, on_invalid)
    mechanism, rng = DiscreteLaplace(epsilon), None if rng is None else generator(rng)
    with spending(accountant, mechanism, 1, group):
        _, norm, largest = _unit(query._bare_steps())
        count = int((largest > query.radius / np.maximum(norm, 1)).sum())
    source = random.SystemRandom() if rng is None else random.Random(rng.bytes(32))
    return min(max(count + mechanism.draw(source), 0), query.n)


def _decays(gamma, source):
    """True with probability exp(-γ), exactly, for a fraction γ from 0 to 1."""
    k = 1
    while source.randrange(gamma.denominator * k) < gamma.numerator:
        k += 1
    return k % 2 == 1
