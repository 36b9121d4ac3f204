"""Audits of a mechanism as a black box, which is told no more than whoever runs it is.

`audit` says how large ε must be, from releases alone. `replay` sees no law and needs no counting:
at equal noise, releases of neighbours differ by what their answers differ by.
"""

import math

import numpy as np
from scipy.stats import beta

from ._checks import choice, finite, integer, number, of_numbers, positive
from .queries.mean import checked_ball, ends
from .spaces import Ball
from .spaces.ball import POLICIES

THRESHOLDS = 200  # candidates for the event; more of them gain nothing that can be seen


def audit(releases, neighbours, delta, confidence=0.95, score=None):
    """Lower bound on the ε at `delta` of the mechanism that made these releases.

    The first half of each sample chooses the event `score > t` or `score < t` that shows most, the
    second half tests it. A bound far below the promise shows nothing: rare events, as those behind
    a small `delta`, are beyond counting.

    Parameters
    ----------
    releases, neighbours : arrays of shape (m, d)
        Independent releases for one data set and for a neighbour of it, m ≥ 4, in any coordinates.
    delta : float
        In [0, 1).
    confidence : float
        In (0, 1): how often the bound holds at least.
    score : function from (m, d) to (m,), optional
        Orders releases from the neighbour's side to the other; its best choice is the
        log-likelihood ratio. Without it Fisher's linear discriminant is learnt from the first half.

    Returns
    -------
    float
        At least 0.

    Raises
    ------
    ValueError
        For a value outside its range, shapes that do not fit, releases or scores that are not
        finite.
    """
    delta = number(delta, "delta", 0, math.nextafter(1, 0), "numbers in [0, 1)")
    confidence = number(confidence, "confidence", math.ulp(0), math.nextafter(1, 0),
                        "numbers in (0, 1)")
    a, b = finite(releases, "releases"), finite(neighbours, "neighbours")
    if a.ndim != 2 or a.shape != b.shape or len(a) < 4:
        raise ValueError(f"releases and neighbours have shapes {a.shape} and {b.shape}; accepted "
                         "is (m, d) for both, m ≥ 4")
    half = len(a) // 2
    score = score or _discriminant(a[:half], b[:half])
    a_first, a_second = _scored(score, a[:half]), _scored(score, a[half:])
    b_first, b_second = _scored(score, b[:half]), _scored(score, b[half:])
    thresholds = np.quantile(np.concatenate([a_first, b_first]), np.linspace(0, 1, THRESHOLDS))
    above = _lower_bound(a_first, b_first, thresholds, delta, confidence)
    below = _lower_bound(-b_first, -a_first, -thresholds, delta, confidence)
    if below.max() > above.max():
        above, thresholds, a_second, b_second = below, -thresholds, -b_second, -a_second
    best = thresholds[above.argmax()]
    return float(_lower_bound(a_second, b_second, best, delta, confidence))


def replay(release, studies, seed=0):
    """The largest distance of two releases at equal noise, in units of the sensitivity told.

    Where noise is added to an answer in coordinates, one seed gives it to all data sets alike. So
    the distance is that of the answers, or less where a release is projected, and above 1 (by more
    than rounding) the sensitivity is wrong (claim SP-32). What the noise is worth, a replay does
    not see. It is not for noise drawn on a curved space, for densities, or after `shrink=True`,
    which keeps the promise but may take releases apart.

    Parameters
    ----------
    release : function from (study, seed) to (array of shape (d,), float)
        The release, in coordinates in which the noise is added, and the sensitivity that scaled it.
    studies : iterable of data sets
        Each a neighbour of all the others, as `adversaries` makes them.
    seed : int

    Returns
    -------
    float
        Infinity where they are told apart without noise, by another sensitivity or another shape.

    Raises
    ------
    ValueError
        For fewer than two studies, releases that are no pairs, not finite or no vectors, and a
        sensitivity that is not positive; what `release` raises is raised.
    """
    runs = [release(study, seed) for study in studies]
    if len(runs) < 2:
        raise ValueError(f"studies are {len(runs)} in number; accepted are 2 or more")
    for run in runs:
        if not isinstance(run, (tuple, list)) or len(run) != 2:
            raise ValueError(f"release returns {type(run).__name__} {run!r:.40}; accepted is a "
                             "pair, an array of shape (d,) and the sensitivity")
    steps = [finite(step, "release") for step, _ in runs]
    told = {positive(sensitivity, "sensitivity") for _, sensitivity in runs}
    if any(step.ndim != 1 for step in steps):
        raise ValueError(f"release has shape {steps[0].shape}; accepted is (d,)")
    if len(told) > 1 or len({step.shape for step in steps}) > 1:
        return math.inf
    steps, unit = np.array(steps), told.pop()
    with np.errstate(all="ignore"):  # beyond the floats it is infinite
        return float(max(np.linalg.norm((steps - step) / unit, axis=1).max() for step in steps))


def adversaries(X, ball: Ball, on_invalid: str = "raise", index: int = 0) -> list:
    """Data sets that differ in one record, chosen by an opponent; each a neighbour of all others.

    In the place of that record come the centre, both ends of two diameters of the ball, the same
    ends far outside it, and a copy of the next record; where `on_invalid` is "center", what is no
    point of the space as well: zeros, NaN and infinity.

    Parameters
    ----------
    X : array of shape (n, k, k), or (n, *space.shape)
        The records, n ≥ 2; integers and narrower floats become float64.
    ball, on_invalid
        As of `PrivateFrechetMean`.
    index : int
        Which record the opponent is.

    Returns
    -------
    list of arrays of the shape of X

    Raises
    ------
    ValueError
        For a value outside its range, a shape that does not fit, and where float64 holds no record
        so far from the centre.
    """
    space, center, radius = checked_ball(ball).space, ball.center, ball.radius
    X = of_numbers(space.numbers)(X, "X")
    X = X.astype(np.result_type(X, float))  # an opponent's record is neither cut nor rounded
    if X.ndim == 0 or X.shape[1:] != space.shape or len(X) < 2:
        raise ValueError(f"X has shape {X.shape}; accepted is (n, {ends(space)}) with n ≥ 2")
    index = integer(index, "index", 0, len(X) - 1)
    axes = np.eye(space.dim)[[0, -1]]
    reaches = radius, min(3 * radius, space.injectivity_radius)
    steps = [sign * reach * axis for reach in reaches for axis in axes for sign in (1, -1)]
    records = [center, *(space.exp(center, step) for step in steps), X[(index + 1) % len(X)]]
    if choice(on_invalid, "on_invalid", POLICIES) == "center":
        records += [np.full(space.shape, value) for value in (0.0, math.nan, math.inf)]
    studies = np.repeat(X[None], len(records), axis=0)
    studies[:, index] = records
    return list(studies)


def _lower_bound(p, q, t, delta, confidence):
    """ln((P[p > t] - delta) / P[q > t]) or 0, from below, at each threshold t.

    Both shares are bounded as Clopper and Pearson do.
    """
    n, tail = len(p), (1 - confidence) / 2
    hits, misses = (n - np.searchsorted(np.sort(x), t, side="right") for x in (p, q))
    low = np.where(hits > 0, beta.ppf(tail, np.maximum(hits, 1), n - hits + 1), 0)
    high = np.where(misses < n, beta.isf(tail, misses + 1, np.maximum(n - misses, 1)), 1)
    return np.log(np.maximum((low - delta) / high, 1))


def _scored(score, x):
    scores = finite(score(x), "score")
    if scores.shape != (len(x),):
        raise ValueError(f"score returns shape {scores.shape} for releases of shape {x.shape}; "
                         f"accepted is ({len(x)},)")
    return scores


def _discriminant(a, b):
    """Fisher's linear discriminant of two samples: a function that is larger on the side of `a`."""
    shift = a.mean(axis=0) - b.mean(axis=0)
    spread = np.atleast_2d(np.cov(a, rowvar=False) + np.cov(b, rowvar=False))
    spread += 1e-9 * (np.trace(spread) + shift @ shift) * np.eye(len(shift))  # never singular
    direction = np.linalg.lstsq(spread, shift)[0]
    return lambda x: x @ direction
