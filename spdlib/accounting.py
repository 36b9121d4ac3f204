"""What several releases of one data set cost together: their joint (epsilon, delta).

Where all noise is Gaussian this is exact: releases that are mu_i-GDP are together mu-GDP, with mu^2
the sum of the mu_i^2 (Dong, Roth and Su 2022). For other noise that is wrong, whatever one takes
for mu_i, and so is the largest epsilon with the sum of the deltas. What adds up there is the
privacy loss. A shift costs the more the longer it is, so that the worst one is as long as the
sensitivity, for every epsilon at once. At this shift the mechanism's delta is known for all
epsilon >= 0, and it is the same for both orders of the two data sets, so that

    delta(-epsilon) = 1 - e^-epsilon (1 - delta(epsilon)).

From these values Google's dp-accounting makes a pair of discrete laws that is told apart no less at
any epsilon (Doroshenko et al. 2022), and convolves the losses. Pairs that dominate two mechanisms
dominate the two together even where the second query was chosen after the first answer was seen
(Zhu, Dong and Wang 2022), as long as noise and sensitivity were fixed beforehand.
"""

import collections
import functools
import math

import numpy as np

from ._checks import EPS, integer, number
from .calibration import gaussian_delta, gaussian_epsilon

POINTS = 2048  # of the grid of losses of a single release, up to about the largest that matters
FINEST = 1e-6  # distance of two of them: the least epsilon that a mechanism knows
HIGHEST = 500.0  # epsilon of the last; a larger loss counts as infinite
TAIL = 1e-13  # probability of losses that count as infinite, in all
# Added to every delta for the rounding of the Fourier transforms, and for tails that are cut off on
# the way, 1e-15 a time. The rounding grows with the number of releases: where the tests convolve as
# written it is about 1e-16 a release, hence in proportion more for over a thousand of them.
ROUNDING = 1e-12


class Composition:
    """What several releases cost together, rounded up; `compose` makes it.

    Attributes
    ----------
    mu : float or None
        Where all noise is Gaussian, the parameter of Gaussian differential privacy of them all.
    """

    def __init__(self, mu, losses=None, rounding=ROUNDING):
        self.mu, self._losses, self._rounding = mu, losses, rounding

    def delta(self, epsilon):
        """The δ at which all releases together are (ε, δ)-DP.

        ValueError for an ε neither 0 nor from 1e-6 to 1e3.
        """
        if self._losses is None:
            return gaussian_delta(1.0, epsilon, self.mu)
        epsilon = number(epsilon, "epsilon", FINEST, 1e3, "0 and numbers from 1e-6 to 1e3", also=0)
        return min(float(self._losses.get_delta_for_epsilon(epsilon)) + self._rounding, 1.0)

    def epsilon(self, delta):
        """The ε at which all releases together are (ε, δ)-DP; infinite if none is found.

        Where not all noise is Gaussian, a loss of a single release beyond 500 counts as infinite,
        and an ε above 700 may. ValueError for a δ outside [1e-300, 1/2], and outside [1e-10, 1/2]
        where not all noise is Gaussian, [1e-13 m, 1/2] for m > 1000 releases.
        """
        if self._losses is None:
            return gaussian_epsilon(1.0, delta, self.mu)
        least = 100 * self._rounding
        delta = number(delta, "delta", least, 0.5, f"numbers from {least:g} to 1/2, as not all "
                       "noise is Gaussian")
        with np.errstate(over="ignore"):  # at an ε so large that e^-ε is no float
            return float(self._losses.get_epsilon_for_delta(delta - self._rounding))


def compose(mechanisms, d):
    """What several releases of one data set cost together, each by a mechanism of its own.

    Neighbours differ in one record, replaced by any other, and every release may see it. A query
    may depend on earlier answers. The mechanisms may not: their number, their noise and the
    sensitivities must be settled before the first answer is seen.

    Parameters
    ----------
    mechanisms : sequence of Mechanism
        One for each release: what is released three times with the same noise stands here three
        times.
    d : int or sequence of int
        Dimension of the answers, k(k+1)/2 for matrices of size k; one for all or one for each.

    Returns
    -------
    Composition
        Exact where all noise is Gaussian, otherwise never too small, and in ε no more than about a
        thousandth too large, for up to 100 000 releases.

    Raises
    ------
    ImportError
        Where not all noise is Gaussian and `spdlib[accounting]` is not installed.
    ValueError
        For no mechanism at all, what is none, or a dimension that is not the mechanism's.

    Examples
    --------
    >>> from spdlib import TangentGaussian
    >>> from spdlib.accounting import compose
    >>> mechanism = TangentGaussian(0.01, epsilon=1.0, delta=1e-6)
    >>> round(compose([mechanism, mechanism], d=36).epsilon(1e-6), 3)
    1.455
    """
    try:
        mechanisms = list(mechanisms)
    except TypeError:
        raise ValueError(f"mechanisms is {mechanisms!r}; accepted is a sequence of them") from None
    if not mechanisms:
        raise ValueError("mechanisms is []; accepted are one or more of them")
    for i, mechanism in enumerate(mechanisms):
        if not callable(getattr(mechanism, "delta", None)):
            raise ValueError(f"mechanisms[{i}] is {mechanism!r}; accepted are mechanisms, such as "
                             "the mechanism_ of an estimator")
    try:
        dimensions = np.broadcast_to(d, len(mechanisms)).tolist()
    except ValueError:
        raise ValueError(f"d is {d!r}; accepted are an integer, or one for each of the "
                         f"{len(mechanisms)} mechanisms") from None
    mus = [mechanism.mu for mechanism in mechanisms if hasattr(mechanism, "mu")]
    mu = math.hypot(*mus) * (1 + 4 * EPS)  # more promises less
    curves, times = {}, collections.Counter()
    for mechanism, dimension in zip(mechanisms, dimensions, strict=True):
        integer(dimension, "d", 1, 5050)
        if not hasattr(mechanism, "mu"):
            name = repr(mechanism), dimension
            curves[name] = functools.partial(mechanism.delta, d=dimension)
            times[name] += 1
    if not curves:
        return Composition(mu)
    if mus:
        curves["gaussian"] = functools.partial(gaussian_delta, 1.0, sensitivity=mu)
        times["gaussian"] = 1
    rounding = ROUNDING * max(1, sum(times.values()) / 1000)
    return Composition(None, _losses(list(curves.values()), list(times.values())), rounding)


def _losses(curves, times):
    """The privacy loss of them all, for the δ of each as a function of ε, and how often it is."""
    try:
        from dp_accounting.pld import pld_pmf
    except ImportError as error:
        raise ImportError("noise that is not Gaussian is composed by dp-accounting: pip install "
                          "'spdlib[accounting]'") from error

    ends = [_end(curve, TAIL / sum(times)) for curve in curves]
    # A loss is moved by gap²/12, hence more points for more releases.
    gap = max(math.hypot(*np.sqrt(times) * ends) / (POINTS * sum(times) ** 0.25), FINEST)
    total = None
    for curve, end, count in zip(curves, ends, times, strict=True):
        last = math.ceil(end / gap)
        grid = np.arange(last + 1) * gap
        above = np.array([curve(epsilon) for epsilon in grid.tolist()])
        below = 1 - np.exp(-grid[1:]) * (1 - above[1:])
        losses = pld_pmf.create_pmf_pessimistic_connect_dots_fixed_gap(
            gap, -last, last, np.concatenate([below[::-1], above])).to_dense_pmf()
        losses = losses.self_compose(count) if count > 1 else losses
        total = total.compose(losses, 1e-15) if total else losses
    return total


def _end(curve, tail):
    """An ε, at most twice the smallest one, from which on δ is at most `tail`; or HIGHEST."""
    end = FINEST
    while end < HIGHEST and curve(end) > tail:
        end = min(2 * end, HIGHEST)
    return end
