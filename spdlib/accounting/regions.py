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
equal eigenvalues are looked at, and the worst counts. Without noise no other covariance is worse
(Székely and Bakirov 2003); with noise this is taken over without a proof.

Of two groups in one ball, m_i - theta_i + Z_i are independent, their difference has the sum of the
traces and of the variances, and the projection onto the one ball takes no two points further apart.
So the distance of two releases is at most |theta_1 - theta_2| and the length of that difference.
"""

import functools
import math

import numpy as np
from scipy.optimize import brentq
from scipy.special import chdtr, chdtri, gammainccinv, ndtri

from .._checks import number
from ..mechanisms.integers import BITS
from ..spaces.ball import finest_grid

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
        if release.mechanism in ("l2", "laplace", "discrete laplace") and "scale" in noise:
            return gamma(d, scale=noise["scale"])
    raise ValueError(f"mechanism is {release.mechanism!r} on {release.ball.space}; accepted is "
                     "noise of a known length on a flat space; on a curved one the tangent mean "
                     "has it, statistic='tangent' with 'gaussian' or 'discrete gaussian'")


def within(release, level):
    """How far the mean of the clipped records is, at this level, over the noise alone."""
    return float(noise_law(release).ppf(checked_level(level))) * (1 + 1e-9) + _lost(release)


def region(release, level, bias=0.0):
    """How far the mean of the population is, at this level, over noise and sampling."""
    noise_law(release)
    level, d = checked_level(level), np.size(release.step)
    bias = number(bias, "bias", 0, 1e300, "finite numbers from 0 on")
    bias, tenth = bias + _lost(release), (1 - level) / 10
    trace = _trace(release, tenth)
    level = 1 - 8 * tenth
    if not release.shrink:
        return bias + _longest(trace, release.noises["means"]["sigma"], d, level)
    halves = 1 - (1 - level) / 2
    return bias + _longest(trace, 0.0, d, halves) + float(noise_law(release).ppf(halves))


def apart(one, other, level):
    """How far the means of two populations are apart, at least and at this level."""
    level, trace, cut, tenth = checked_level(level), 0.0, 0.0, (1 - level) / 10
    for release in one, other:
        noise_law(release)
        cut += _lost(release)
        trace += _trace(release, tenth)
        if release.shrink:
            raise ValueError("shrink is True; accepted for a distance is False, since it may take "
                             "releases further apart")
    first, second = one.ball, other.ball
    if (first.radius, first.space, first.center.tolist()) != (second.radius, second.space,
                                                              second.center.tolist()):
        raise ValueError(f"other has a ball of radius {second.radius:.6g} in {second.space}; "
                         f"accepted is the ball of this release, of radius {first.radius:.6g} in "
                         f"{first.space} and of the same centre, since in balls of their own equal "
                         "populations have other means. One can be found on both groups together")
    sigma = math.hypot(*(release.noises["means"]["sigma"] for release in (one, other)))
    far = _longest(trace, sigma, np.size(one.step), 1 - 6 * tenth)
    return max(float(np.linalg.norm(one.step - other.step)) - far - cut, 0.0)


def _lost(release):
    """How far floats move the release at most: records are cut to the grid on which they are added,
    and where float64 does not hold what was drawn, the mean is another point.
    """
    noise, n = (release.noises or {}).get("means", release.noise), release.n
    grid = release.ball.radius * finest_grid(1.0, n)  # of parts; that of a lone mean is no coarser
    if release.mechanism.startswith("discrete"):
        grid = max(grid, noise.get("sigma", noise.get("scale")) * n * 2.0**(1 - BITS))
    cut = math.sqrt(np.size(release.step)) * grid * n * release.largest_share
    return cut + (release.mean_off_by or 0.0)


def _trace(release, tenth):
    """Of the covariance of a mean of clipped records, at most, but in two cases of this rate."""
    if release.spread is None:
        raise ValueError("spread is None; accepted is a release with one, as "
                         "PrivateFrechetMean(..., spread=True) makes it")
    n, radius = release.n, release.ball.radius
    off = min(float(np.linalg.norm(release.step)) / radius, 1.0)
    trace = release.spread - ndtri(tenth) * release.noises["spread"]["sigma"]
    few = math.log(1 / tenth) / (2 * n)
    trace = (math.sqrt(trace / radius**2 + few) + math.sqrt(few))**2
    return min(trace, 1.0) * (radius * (1 + off))**2 / n


def _longest(trace, sigma, d, level):
    """The largest quantile of the length over all ways to share a trace out among directions."""
    shapes = {m for m in (1, 2, 3, 4, 6, 8, 11, 14, 18, d) if m <= d}
    return max(_quantile(trace, m, sigma, d, level) for m in shapes)


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
