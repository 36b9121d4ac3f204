"""Fréchet means: the query, and its sensitivity."""

import copy
import functools
import math

import numpy as np

from ._checks import EPS, array, choice, finite, integer, is_lazy, number, positive, records
from .clipping import (
    POLICIES,
    ClippedSum,
    ball_radius,
    clip_to_ball,
    numbers_of,
    public_center,
    seen_from,
    shape_of,
)
from .spaces import LogEuclidean

MARGIN = 1e-4  # share of the radius by which a mean that is found numerically may miss the ball
WIDEST = 20.0  # logarithm of what curvature may make of a rounding error
TRIED = 0.99  # share of r* from which on a descent to the mean may take too many steps


def frechet_sensitivity(n, radius, space=None, tolerance=0, weights=None):
    """Sensitivity of the mean of `n` records in a ball, of which one is replaced; rounded up.

    On a flat space, and where the curvature is ≤ 0, it is `2 radius / n` (Theorem 3 of the first
    paper, Theorem 2 of Reimherr et al. 2021). Where the curvature is ≤ κ, κ > 0, it is the sharper
    `2 tan(radius √κ) / (n √κ)` of claim SP-27, for every radius below r* = min(inj, π/√κ)/2, up to
    which the mean is the only one; and never above the diameter of the ball.

    With public `weights`, shape `(n,)`, on a flat space only, it is `2 radius max w / Σ w`. With a
    `tolerance` it is that of means at which the gradient is no longer than this. On a flat space it
    covers the rounding of a mean whose sum is exact, as that of `clip_to_ball` is.
    ValueError for an `n`, a `radius` or a `tolerance` that is none, and from r* on (with a
    tolerance, from a little below it).
    """
    n, radius = integer(n, "n", 1, 1e300), ball_radius(radius)
    tolerance = number(tolerance, "tolerance", 0, 1e280, "numbers from 0 to 1e280")
    _check_weighted(space, weights)
    if weights is not None:
        share = 1 / math.fsum(public_weights(weights, n)) * (1 + 4 * EPS)
        return 2 * radius * share + 4 * radius * EPS + 2 * tolerance
    if space is None or space.flat:  # the first may underflow
        return max(2 * radius / n * (1 + 2 * n * EPS), 4 * radius * EPS) + 2 * tolerance
    largest = _largest_radius(space) / (1 + 2 * MARGIN if tolerance else 1)
    if not radius < largest:
        raise ValueError(f"radius is {radius!r}; accepted are numbers below {largest:.6g} = r*, "
                         f"half the least of the injectivity radius and π/√κ of {space!r}, up to "
                         "which the mean is the only one")
    root = math.sqrt(max(space.curvature[1], 0))
    bound = 2 * math.tan(radius * root) / n / root if root else 2 * radius / n
    widest = 2 * radius if tolerance == 0 else 2 * (radius * (1 + MARGIN) + tolerance)
    return min(bound + 2 * _miss(radius, root, tolerance), widest) * (1 + 1e-12)


def frechet_mean(X, space, tolerance=None):
    """Fréchet means of sets of points, not private; thousands of small sets at once.

    Parameters
    ----------
    X : array of shape (..., n, *space.shape)
        The points; the mean is taken over the axis before those of a point.
    space : LogEuclidean, Euclidean, TangentSpace, AffineInvariant, Sphere or KendallPlanar
    tolerance : float, optional
        How long the gradient, the mean step from a mean to its points, may be; on a curved space by
        default 1e-10, times inj/π where that is finite.

    Returns
    -------
    array of shape (..., *space.shape)

    Raises
    ------
    ValueError
        For what is no point; where the descent ends at a longer gradient; and where the points are
        so far apart that what was found need not be the mean: not all within min(inj, π/√κ)/2 of
        it, a ball in which there is no other (Afsari 2011).
    """
    tail = (slice(None),) * len(space.shape)
    X = numbers_of(space)(X, "X")
    if X.shape[-len(tail):] != space.shape or X.ndim == len(tail) or X.shape[-1 - len(tail)] == 0:
        raise ValueError(f"X has shape {X.shape}; accepted is (..., n, {shape_of(space)}), n ≥ 1")
    if space.flat:
        return space.point(space.mean(None, space.coordinates(X)))
    tolerance = positive(1e-10 * _unit_of(space) if tolerance is None else tolerance, "tolerance")
    X = space.points(X, "X")
    M = X[(..., 0, *tail)]
    step = space.mean(M, space.log(M[(..., None, *tail)], X), tolerance)
    mean, reach = space.exp(M, step), _largest_radius(space)
    far = space.dist(mean[(..., None, *tail)], X).max(initial=0)
    if not far < reach:
        raise ValueError(f"X has a point {far:.6g} away from where the gradient vanishes; accepted "
                         f"are points within {reach:.6g}, where that is sure to be the mean")
    return mean


class FrechetMean:
    """The query: the Fréchet mean of records that are clipped to a ball about a public centre.

    Parameters
    ----------
    X : array or, on a flat space, dask.array of shape (n, k, k), or (n, *space.shape)
        The records. They are looked at when the mean is asked for, not before. Those outside the
        ball move onto it along the geodesic to the centre; for one at a cut point of the centre it
        is a fixed one.
    center : array of shape (k, k), or space.shape, or None
        Public centre; None is the space's own, the identity for matrices.
    radius : float
        Public radius, in the distance of the space, and below its injectivity radius. On a curved
        space float64 sets limits, too: from 1e-6 (of inj/π, where that is finite), and on
        `AffineInvariant(k)`, k ≥ 2, below 7.07.
    space : optional
        The space of the records, by default the log-Euclidean one of their size.
    on_invalid : {"raise", "center"}
        What happens to a record that is no point of the space.
    weights : array of shape (n,), optional
        Public weights of the records, at least 0 and not all 0; on a flat space.

    Attributes
    ----------
    n : int
        Number of records, public.
    tolerance : float
        How long the gradient of a mean may be that is found numerically, its rounding included.
        It is public: a function of the space and the radius.
    sensitivity : float
        How far the mean moves at most when one record is replaced by any other. ValueError where
        the ball is too large for a mean that is the only one, or so close to it that descents have
        been seen not to end; below 0.99 of it none took half of its steps, which is no proof.
    chart_sensitivity : float
        How far its coordinates in the chart at the centre move. They are stretched by
        radius √κ / sin(radius √κ) at most where the curvature is ≤ κ, κ > 0, else not at all.

    Raises
    ------
    ValueError
        For a radius, a centre or a shape that is none; no record is looked at for it.
    """

    def __init__(self, X, center, radius, space=None, on_invalid="raise", weights=None):
        read = array if space is None else numbers_of(space)
        known = np.shape(center) or None if space is None else space.shape
        self._X = _records(X, read, known if on_invalid == "center" else None)
        shape = self._X.shape
        if space is None:
            if len(shape) != 3 or 0 in shape or shape[1] != shape[2]:
                raise ValueError(f"X has shape {shape}; accepted is (n, k, k) with n ≥ 1 and k ≥ 1")
            space = LogEuclidean(shape[1])
        elif shape[1:] != space.shape or 0 in shape:
            raise ValueError(f"X has shape {shape}; accepted is (n, {shape_of(space)}) with n ≥ 1, "
                             f"points of {space!r}")
        if is_lazy(self._X) and not space.flat:
            raise ValueError(f"space is {space!r}; accepted for records that are a dask array are "
                             "flat spaces, such as its TangentSpace at a public centre")
        self._about(shape[0], center, radius, space, on_invalid)
        _check_weighted(space, weights)
        self.weights = None if weights is None else public_weights(weights, self.n)

    def _about(self, n, center, radius, space, on_invalid):
        """What is public."""
        self.n, self.space, self.radius = n, space, ball_radius(radius)
        self.on_invalid = choice(on_invalid, "on_invalid", POLICIES)
        self.center, self.tolerance = public_center(center, space), _tolerance(space, self.radius)

    @property
    def sensitivity(self):
        largest = TRIED * _largest_radius(self.space)
        if not self.radius < largest:  # whether a descent ends would tell of the data
            raise ValueError(f"radius is {self.radius!r}; accepted are numbers below {largest:.6g} "
                             f"= {TRIED} r*, up to which the descent to a mean ended in all that "
                             "was tried; r* is half the least of the injectivity radius and π/√κ "
                             f"of {self.space!r}, up to which the mean is the only one")
        return frechet_sensitivity(self.n, self.radius, self.space, self.tolerance, self.weights)

    @property
    def chart_sensitivity(self):
        sensitivity = self.sensitivity
        high = 0.0 if self.space.flat else self.space.curvature[1]
        if high <= 0:
            return sensitivity
        angle = self.radius * (1 + MARGIN) * math.sqrt(high)
        return sensitivity * angle / math.sin(angle) * (1 + 1e-12)

    @functools.cached_property
    def steps(self):
        """Steps from the centre to the clipped records, shape `(n, dim)`. They are not private.

        ValueError for a bad record.
        """
        return clip_to_ball(self._bare_steps(), self.radius)

    def _bare_steps(self):
        """The same, before any record is clipped."""
        if not isinstance(self._X, np.ndarray):
            raise ValueError("the records are a dask array or came in batches; accepted where each "
                             "of them is asked for is an array in memory, as X.compute() makes")
        if self.weights is not None:
            raise ValueError("the records have weights; accepted where each of them is asked for "
                             "is None")
        return seen_from(self.center, self._X, self.space, self.on_invalid)[0]

    @functools.cached_property
    def points(self):
        """The clipped records, shape `(n, *space.shape)`. They are not private."""
        return self.space.exp(self.center, self.steps)

    def total(self, grid=None):
        """Sum of the steps to the clipped records, on a flat space, shape `(dim,)`, exact.

        Each is times its weight, and cut to multiples of the grid, by default the finest. It is not
        private. ValueError for a bad record.
        """
        sum = ClippedSum(self.space, self.center, self.radius, self.n, self.on_invalid, grid)
        return _add(sum, self._X, self.weights).total

    @property
    def divisor(self):
        """Number of records, or sum of their weights, by which the sum is divided."""
        return self.n if self.weights is None else math.fsum(self.weights)

    @functools.cached_property
    def step(self):
        """The step from the centre to the mean, shape `(dim,)`. It is not private.

        ValueError for a bad record, and where the descent to the mean does not end.
        """
        if self.space.flat:
            return self.total() / self.divisor
        step = self.space.mean(self.center, self.steps, self.tolerance / 2)
        if not np.linalg.norm(step) <= self.radius * (1 + MARGIN) + self.tolerance:
            raise ValueError("the descent to the mean has left the ball of the records")
        return step


class RunningMean(FrechetMean):
    """The same query on a flat space, of at most `n` records that come in batches.

    Records that do not come count as the centre. Memory is bounded by that of a batch; the order
    of the records and their partition do not matter, to the last bit.
    """

    _X = weights = None

    def __init__(self, n, center, radius, space, on_invalid="raise"):
        if not space.flat:
            raise ValueError(f"space is {space!r}; accepted for records that come in batches are "
                             "flat spaces, such as its TangentSpace at a public centre")
        self._about(integer(n, "n", 1), center, radius, space, on_invalid)
        self.center = self.center.copy()  # it may change there between two batches
        self._sum = None

    def add(self, X, grid=None):
        """Itself, with the records `X`, an array or dask.array of shape `(m, *space.shape)`, m ≥ 0.

        The first batch fixes the `grid`, by default the finest. On a ValueError for a bad record or
        one too many, none of the batch is added.
        """
        known = self.space.shape if self.on_invalid == "center" else None
        X = _records(X, numbers_of(self.space), known)
        if X.shape[1:] != self.space.shape or X.ndim == 0:
            raise ValueError(f"X has shape {X.shape}; accepted is (m, {shape_of(self.space)}), "
                             f"points of {self.space!r}")
        vars(self).pop("step", None)  # of a release that was refused before
        with np.errstate(all="ignore"):
            sum = _add(copy.copy(self._sum) or self._empty(grid), X)
        self._sum = sum  # all of the batch or none of it, whenever an interrupt comes
        return self

    def total(self, grid=None):
        sum = self._sum or self._empty(grid)
        if grid not in (None, sum.grid):
            raise ValueError(f"grid is {grid!r}; accepted is {sum.grid!r}, that of the first batch")
        return sum.total

    def _empty(self, grid):
        return ClippedSum(self.space, self.center, self.radius, self.n, self.on_invalid, grid)


def _check_weighted(space, weights):
    if weights is not None and not (space is None or space.flat):
        raise ValueError(f"weights are given on {space!r}; accepted are those of flat spaces, such "
                         "as its TangentSpace at a public centre")


def public_weights(weights, n):
    """Weights of n records, shape `(n,)`, divided by the largest of them."""
    weights = finite(weights, "weights")
    if weights.shape != (n,):
        raise ValueError(f"weights has shape {weights.shape}; accepted is ({n},), one a record")
    if not weights.min() >= 0 or not weights.max() > 0:
        raise ValueError(f"weights has entries from {weights.min():.6g} to {weights.max():.6g}; "
                         "accepted are those from 0 on, one of them above 0")
    return weights / weights.max()


def _records(X, read, shape=None):
    """The records as an array, or, where they are a dask array, as one that can be summed.

    Where the `shape` of one is known, a sequence may hold others, which are none.
    """
    if is_lazy(X):
        from .cluster import lazy_records
        return lazy_records(X, read)
    return records(X, "X", read, shape)


def _add(sum, X, weights=None):
    """The sum with the records, wherever they are."""
    if is_lazy(X):
        from .cluster import add
        return add(sum, X, weights)
    return sum.add(X, weights)


def _largest_radius(space):
    """r*: in a smaller ball a mean is the only one, and geodesics stay inside (Afsari 2011)."""
    high = space.curvature[1]
    return min(space.injectivity_radius, math.pi / math.sqrt(high) if high > 0 else math.inf) / 2


def _unit_of(space):
    """A length in which the space looks curved, but no more."""
    reach = space.injectivity_radius
    return reach / math.pi if reach < math.inf else 1.0


def _tolerance(space, radius):
    """How long a gradient may be, its own rounding included, for means in a ball of the space.

    Public: 1e-11 radii, and what rounding may be where curvature below 0 lets it grow.
    """
    if space.flat:
        return 0.0
    unit, root = _unit_of(space), math.sqrt(max(-space.curvature[0], 0))
    reach = space.injectivity_radius
    most = min(reach, WIDEST / (4 * root) if root else math.inf)
    if not 1e-6 * unit <= radius < most:
        raise ValueError(f"radius is {radius!r}; accepted are numbers from {1e-6 * unit:.6g} to "
                         f"below {most:.6g} on {space!r}, where float64 tells points apart")
    return 1e-11 * radius + 64 * EPS * unit * math.exp(4 * radius * root)


def _miss(radius, root, tolerance):
    """How far a point with so short a gradient may be from the mean, for curvature ≤ root².

    It is itself a mean: of the records and, at the distance s, of one more of the weight
    tolerance/s. At means of data in the ball of radius r that is larger by 2s the Hessian is at
    least h = r √κ cot(r √κ); the mean moves by at most e = (tolerance + e tolerance/s) / h.
    """
    if tolerance == 0 or root == 0:
        return tolerance
    angle = radius * (1 + 2 * MARGIN) * root
    h = angle / math.tan(angle) - tolerance / (MARGIN * radius)
    return tolerance / h if h > 0 else math.inf
