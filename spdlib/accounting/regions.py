"""How far a release may be from the truth: from what the document shows, and from nothing else.

Let m be the mean of the n clipped records, theta the mean of the population clipped to the same
ball, Z the noise, normal with the standard deviation sigma in each coordinate. The ball is convex
and holds m and theta, so a projection takes no release further from them: |release - m| <= |Z| and
|release - theta| <= |m - theta + Z|. A release that is shrunk before may be further away than the
bare one, but not more often further than a quantile of |Z| at a level of 1/2 and more: in 3
dimensions and more the ball about the positive part of James and Stein's estimator covers at least
as often as that about the normal point itself (Hwang and Casella 1982; claim SP-37 searches).

By the central limit theorem m - theta is normal with a covariance C/n. The spread S tells the trace
of C, and no more: what is clipped to a distance R is by at most the factor (1 + t/R)^2 shorter, in
squares, than what was in the ball, t the distance of the release from its centre. The noise of S is
allowed for at a tenth of what the level leaves, and that S was computed from n records at another
tenth: few records may hold none of those far out. A mean of n independent numbers from 0 to R^2 is
less than its expectation w by R sqrt(2 w l/n) with a probability of exp(-l) at most (Maurer 2003),
hence sqrt(w) <= sqrt(S + R^2 l/2n) + R sqrt(l/2n). Of all covariances of that trace those with m
equal eigenvalues are looked at, and the worst counts.
"""

import functools
import math

import numpy as np
from scipy.optimize import brentq
from scipy.special import chdtr, chdtri, gammainccinv, ndtri

from .._checks import number

FLAT_SPACES = "LogEuclidean(", "Euclidean(", "TangentSpace("  # how flat spaces are written
MIDPOINTS = 200  # of the quadrature over a law
ROUNDED = 1 + 1e-3  # more than the quadrature may miss


def checked_level(level):
    """`level`, if it is one at which regions are known."""
    return number(level, "level", 0.5, 0.9999, "numbers from 0.5 to 0.9999")


def noise_law(release):
    """The law of the length of the noise of the mean, a frozen one of SciPy."""
    from scipy.stats import chi, gamma

    noise, d = (release.noises or {}).get("means", release.noise), np.size(release.step)
    if release.mean is None:
        raise ValueError(f"estimator is {release.estimator!r}; accepted are releases of one mean")
    if release.ball.space.startswith(FLAT_SPACES):
        if "sigma" in noise:
            return chi(d, scale=noise["sigma"])
        if release.mechanism in ("l2", "laplace", "discrete laplace"):
            return gamma(d, scale=noise["scale"])
    raise ValueError(f"mechanism is {release.mechanism!r} on {release.ball.space}; accepted is "
                     "noise of a known length on a flat space")


def within(release, level):
    """How far the mean of the clipped records is, at this level, over the noise alone."""
    return float(noise_law(release).ppf(checked_level(level))) * (1 + 1e-9)


def region(release, level, bias=0.0):
    """How far the mean of the population is, at this level, over noise and sampling."""
    noise_law(release)
    level, d, n = checked_level(level), np.size(release.step), release.n
    bias = number(bias, "bias", 0, 1e300, "finite numbers from 0 on")
    if release.spread is None:
        raise ValueError("spread is None; accepted is a release with one, as "
                         "PrivateFrechetMean(..., spread=True) makes it")
    noises, radius, tenth = release.noises, release.ball.radius, (1 - level) / 10
    off = min(float(np.linalg.norm(release.step)) / radius, 1.0)
    trace = release.spread - ndtri(tenth) * noises["spread"]["sigma"]
    few = math.log(1 / tenth) / (2 * n)
    trace = (math.sqrt(trace / radius**2 + few) + math.sqrt(few))**2
    trace = min(trace, 1.0) * (radius * (1 + off))**2
    level = 1 - 8 * tenth
    sigma = noises["means"]["sigma"]
    if not release.shrink:
        return bias + max(_quantile(trace / n, m, sigma, d, level) for m in _shapes(d))
    halves = 1 - (1 - level) / 2
    return bias + max(_quantile(trace / n, m, 0.0, d, halves) for m in _shapes(d)) \
        + float(noise_law(release).ppf(halves))


def _shapes(d):
    """Numbers of directions among which a trace is shared out."""
    return sorted({m for m in (1, 2, 3, 4, 6, d) if m <= d})


def _quantile(trace, m, sigma, d, level):
    """Quantile of the length of a normal point whose m first coordinates have one trace more."""
    others, weights = _tails(d - m) if m < d else (np.zeros(1), np.ones(1))
    unit = math.hypot(math.sqrt(trace / m), sigma)  # so that all is of the order of 1
    if unit == 0:
        return 0.0
    others = (sigma / unit)**2 * others

    def excess(x):
        return weights @ chdtr(m, np.maximum(x - others, 0)) - level

    most = chdtri(m, (1 - level) / 4) + np.max(others) * 2
    return unit * math.sqrt(brentq(excess, 0.0, most, rtol=1e-9)) * ROUNDED


@functools.lru_cache(maxsize=64)
def _tails(m):
    """Points and weights for the law of chi-squared with m degrees of freedom, fine in its tail."""
    v = (np.arange(MIDPOINTS) + 0.5) / MIDPOINTS  # of which the fourth power is a tail's
    return 2 * gammainccinv(m / 2, v**4), v**3 / np.sum(v**3)
