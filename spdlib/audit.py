"""Audit of a mechanism as a black box: how large its ε must be, from nothing but what it releases."""

import numpy as np
from scipy.stats import beta

from .spd import _finite

THRESHOLDS = 200  # candidates for the event; more of them gain nothing that can be seen


def audit(releases, neighbours, delta, confidence=0.95, score=None):
    """Lower bound on the ε at `delta` of the mechanism that made these releases, a float ≥ 0; it holds with this confidence.

    `releases` and `neighbours`, shape `(m, d)`, are independent releases for one data set and for a neighbour of it, in
    any coordinates. `score`, a function from `(m, d)` to `(m,)`, orders them from the neighbour's side to the other;
    its best choice is the log-likelihood ratio. Without it Fisher's linear discriminant is learnt. The first half of
    each sample chooses the event `score > t` or `score < t` that shows most, the second half tests it.

    A bound far below the promise shows nothing: rare events, as those behind a small `delta`, are beyond counting.
    """
    if not 0 <= delta < 1:
        raise ValueError(f"delta is {delta!r}; accepted are numbers in [0, 1)")
    if not 0 < confidence < 1:
        raise ValueError(f"confidence is {confidence!r}; accepted are numbers in (0, 1)")
    a, b = _finite(releases, "releases"), _finite(neighbours, "neighbours")
    if a.ndim != 2 or a.shape != b.shape or len(a) < 4:
        raise ValueError(f"releases and neighbours have shapes {a.shape} and {b.shape}; accepted is (m, d) for both, m ≥ 4")
    half = len(a) // 2
    score = score or _discriminant(a[:half], b[:half])
    first, second = ([_scored(score, x[part]) for x in (a, b)] for part in (slice(half), slice(half, None)))
    thresholds = np.quantile(np.concatenate(first), np.linspace(0, 1, THRESHOLDS))
    sides = (1, *first), (-1, *first[::-1])  # the event score > t, which the releases make likely, and score < t
    shown = [_lower_bound(sign * p, sign * q, sign * thresholds, delta, confidence) for sign, p, q in sides]
    side, best = np.unravel_index(np.argmax(shown), np.shape(shown))
    sign, p, q = ((1, *second), (-1, *second[::-1]))[side]
    return float(_lower_bound(sign * p, sign * q, sign * thresholds[best], delta, confidence))


def _lower_bound(p, q, t, delta, confidence):
    """ln((P[p > t] - delta) / P[q > t]) or 0, from below, at each threshold t: Clopper and Pearson for both shares."""
    n, tail = len(p), (1 - confidence) / 2
    hits, misses = (n - np.searchsorted(np.sort(x), t, side="right") for x in (p, q))
    low = np.where(hits > 0, beta.ppf(tail, np.maximum(hits, 1), n - hits + 1), 0)
    high = np.where(misses < n, beta.isf(tail, misses + 1, np.maximum(n - misses, 1)), 1)
    return np.log(np.maximum((low - delta) / high, 1))


def _scored(score, x):
    scores = _finite(score(x), "score")
    if scores.shape != (len(x),):
        raise ValueError(f"score returns shape {scores.shape} for releases of shape {x.shape}; accepted is ({len(x)},)")
    return scores


def _discriminant(a, b):
    """Fisher's linear discriminant of two samples: a function that is larger on the side of `a`."""
    shift = a.mean(axis=0) - b.mean(axis=0)
    spread = np.atleast_2d(np.cov(a, rowvar=False) + np.cov(b, rowvar=False))
    spread += 1e-9 * (np.trace(spread) + shift @ shift) * np.eye(len(shift))  # where nothing spreads, a shift tells all
    direction = np.linalg.lstsq(spread, shift)[0]
    return lambda x: x @ direction
