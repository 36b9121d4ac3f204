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

Of a mechanism that is known to be epsilon-DP, and no more, the delta is at most that of randomized
response (Kairouz, Oh and Viswanath 2015), whose losses are epsilon and -epsilon.

What is chosen on the way is another matter: an account refuses a release by what was spent before,
and the scale of a release may have been chosen by what earlier ones have shown. Where all noise is
Gaussian, a limit on the sum of the mu_i^2 promises no less for that (Smith and Thakurta 2022), and
where all promises are pure, neither does one on the sum of the epsilon_i (Rogers et al. 2016). For
mixtures, and for pure promises composed by their losses, a limit on the composition may promise
less ("f-Differential Privacy Filters", arXiv 2602.06756): there the scales have to be settled
beforehand, which includes that they follow a public rule such as what remains.
"""

import collections
import math
from collections.abc import Callable, Iterable, Sequence
from typing import Any, NamedTuple

import numpy as np

from .._checks import EPS, choice, integer, number
from ..calibration import gaussian_delta, gaussian_epsilon, l2_delta, pure_delta

POINTS = 2048  # of the grid of losses of a single release, up to about the largest that matters
FINEST = 1e-6  # distance of two of them: the least epsilon that a mechanism knows
HIGHEST = 500.0  # epsilon of the last; a larger loss counts as infinite
TAIL = 1e-13  # probability of losses that count as infinite, in all
# Added to every delta for the rounding of the Fourier transforms, and for tails that are cut off on
# the way, 1e-15 a time. The rounding grows with the number of releases: where the tests convolve as
# written it is about 1e-16 a release, hence in proportion more for over a thousand of them.
ROUNDING = 1e-12


class Cost(NamedTuple):
    """What a release costs: the law of its privacy loss.

    Attributes
    ----------
    law : {"gaussian", "l2", "pure"}
        Gaussian noise of parameter mu, noise of density exp(-‖x‖/s) on R^d, or a mechanism of which
        no more than the largest loss is known.
    loss : float
        mu, or the largest loss.
    d : int
        Dimension, for "l2"; else 0.
    """

    law: str
    loss: float
    d: int = 0

    @classmethod
    def of(cls, mechanism: Any, d: int, name: str = "mechanism") -> "Cost":
        """That of a mechanism that answers in R^d. ValueError where it does not say."""
        d = integer(d, "d", 1)
        if not (hasattr(mechanism, "law") and hasattr(mechanism, "loss")):
            raise ValueError(f"{name} is {mechanism!r}; accepted are mechanisms, such as the "
                             "mechanism_ of an estimator, that say their law and loss")
        return cls.checked(mechanism.law, mechanism.loss, d if mechanism.law == "l2" else 0)

    @classmethod
    def checked(cls, law: str, loss: float, d: int) -> "Cost":
        """One of these, if what is computed with it stays within float64."""
        loss = number(loss, "loss", 1e-100, 5e4, "numbers from 1e-100 to 5e4")
        law = choice(law, "law", ("gaussian", "l2", "pure"))
        return cls(law, loss, integer(d, "d", int(law == "l2"), 5050))

    def delta(self, epsilon: float) -> float:
        """The δ at which the release is (ε, δ)-DP."""
        if self.law == "gaussian":
            return gaussian_delta(1.0, epsilon, self.loss)
        if self.law == "l2":
            return l2_delta(1.0, epsilon, self.d, self.loss)
        return pure_delta(self.loss, epsilon)


class Composition:
    """What several releases cost together, rounded up; `compose` makes it.

    Attributes
    ----------
    mu : float or None
        Where all noise is Gaussian, the parameter of Gaussian differential privacy of them all.
    """

    def __init__(self, mu: float | None, losses: Any = None, rounding: float = ROUNDING):
        # Without mu and losses it is as good as certain that the loss counts as infinite.
        self.mu, self._losses, self._rounding = mu, losses, rounding

    def delta(self, epsilon: float) -> float:
        """The δ at which all releases together are (ε, δ)-DP.

        ValueError for an ε neither 0 nor from 1e-6 to 1e3.
        """
        if self.mu is not None:
            return gaussian_delta(1.0, epsilon, self.mu)
        epsilon = number(epsilon, "epsilon", FINEST, 1e3, "0 and numbers from 1e-6 to 1e3", also=0)
        if self._losses is None:
            return 1.0
        return min(float(self._losses.get_delta_for_epsilon(epsilon)) + self._rounding, 1.0)

    def epsilon(self, delta: float) -> float:
        """The ε at which all releases together are (ε, δ)-DP; infinite if none is found.

        Where not all noise is Gaussian, a loss of a single release beyond 500 counts as infinite,
        and an ε above 700 may. ValueError for a δ outside [1e-300, 1/2], and outside [1e-10, 1/2]
        where not all noise is Gaussian, [1e-13 m, 1/2] for m > 1000 releases.
        """
        if self.mu is not None:
            return gaussian_epsilon(1.0, delta, self.mu)
        least = 100 * self._rounding
        delta = number(delta, "delta", least, 0.5, f"numbers from {least:g} to 1/2, as not all "
                       "noise is Gaussian")
        if self._losses is None:
            return math.inf
        with np.errstate(over="ignore"):  # at an ε so large that e^-ε is no float
            return float(self._losses.get_epsilon_for_delta(delta - self._rounding))


def compose(mechanisms: Iterable[Any], d: int | Sequence[int]) -> Composition:
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
    try:
        dimensions = np.broadcast_to(d, len(mechanisms)).tolist()
    except ValueError:
        raise ValueError(f"d is {d!r}; accepted are an integer, or one for each of the "
                         f"{len(mechanisms)} mechanisms") from None
    costs = []
    for i, (mechanism, dimension) in enumerate(zip(mechanisms, dimensions, strict=True)):
        integer(dimension, "d", 1, 5050)
        if (own := getattr(mechanism, "d", dimension)) != dimension:
            raise ValueError(f"d is {dimension}; accepted is {own}, the mechanism's own")
        costs.append(Cost.of(mechanism, dimension, f"mechanisms[{i}]"))
    return composed(costs)


def composed(costs: Sequence[Cost]) -> Composition:
    """The Composition of what several releases cost."""
    mus = [cost.loss for cost in costs if cost.law == "gaussian"]
    mu = math.hypot(*mus) * (1 + 4 * EPS)  # more promises less
    times = collections.Counter(cost for cost in costs if cost.law != "gaussian")
    if not times:
        return Composition(mu)
    if mus:
        times[Cost("gaussian", mu)] = 1
    rounding = ROUNDING * max(1, times.total() / 1000)
    return Composition(None, _losses([cost.delta for cost in times], [*times.values()]), rounding)


def _losses(curves: Sequence[Callable[[float], float]], times: Sequence[int]) -> Any:
    """The privacy loss of them all, for the δ of each as a function of ε, and how often it is.

    None where it is as good as certain that it counts as infinite.
    """
    try:
        from dp_accounting.pld import pld_pmf
    except ImportError as error:
        raise ImportError("noise that is not Gaussian is composed by dp-accounting: pip install "
                          "'spdlib[accounting]'") from error

    # For each an ε, at most twice the smallest one, from which on δ is next to nothing.
    doubled, tail = (FINEST * 2.0**np.arange(29)).tolist(), TAIL / sum(times)
    ends = [next((end for end in doubled if curve(end) <= tail), HIGHEST) for curve in curves]
    # A loss is moved by gap²/12, hence more points for more releases.
    gap = max(math.hypot(*np.sqrt(times) * ends) / (POINTS * sum(times)**0.25), FINEST)
    total, finite = None, 1.0  # the composed losses, and the probability that they are finite
    for curve, end, count in zip(curves, ends, times, strict=True):
        last = math.ceil(end / gap)
        grid = np.arange(last + 1) * gap
        above = np.array([curve(epsilon) for epsilon in grid.tolist()])
        finite *= (1 - above[-1])**count
        if finite < TAIL:  # of which dp-accounting would cut off the rest
            return None
        below = 1 - np.exp(-grid[1:]) * (1 - above[1:])
        losses = pld_pmf.create_pmf_pessimistic_connect_dots_fixed_gap(
            gap, -last, last, np.concatenate([below[::-1], above])).to_dense_pmf()
        losses = losses.self_compose(count) if count > 1 else losses
        total = total.compose(losses, 1e-15) if total else losses
    return total
