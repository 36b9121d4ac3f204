"""Audit of a mechanism as a black box: how large its ε must be, from its releases alone."""

import math

import numpy as np
from scipy.stats import beta

from ._checks import finite, number

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
    if above.max() >= below.max():
        best = thresholds[above.argmax()]
        return float(_lower_bound(a_second, b_second, best, delta, confidence))
    best = thresholds[below.argmax()]
    return float(_lower_bound(-b_second, -a_second, -best, delta, confidence))


def _lower_bound(p, q, t, delta, confidence):
    """ln((P[p > t] - delta) / P[q > t]) or 0, from below, at each threshold t.

    Both shares are bounded as Clopper and Pearson do.
    """
    n, tail = len(p), (1 - confidence) / 2
    hits = n - np.searchsorted(np.sort(p), t, side="right")
    misses = n - np.searchsorted(np.sort(q), t, side="right")
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
