"""Fréchet means: the query, and its sensitivity."""

import functools
import math

import numpy as np
from numpy.typing import ArrayLike

from .._checks import EPS, choice, finite, integer, is_lazy, number
from ..spaces import Space
from ..spaces.ball import POLICIES, Ball, ball_radius, clip_to_ball, outside_ball
from ..spaces.means import largest_radius, unit
from .sums import ClippedSum, read_records

MARGIN = 1e-4  # share of the radius by which a mean that is found numerically may miss the ball
WIDEST = 20.0  # logarithm of what curvature may make of a rounding error
TRIED = 0.99  # share of r* from which on a descent to the mean may take too many steps


def frechet_sensitivity(n: int, radius: float, space: Space | None = None, tolerance: float = 0,
                        weights: ArrayLike | None = None) -> float:
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
    if weights is not None:
        share = 1 / math.fsum(public_weights(weights, n, space)) * (1 + 4 * EPS)
        return 2 * radius * share + 4 * radius * EPS + 2 * tolerance
    if space is None or space.flat:  # the first may underflow
        return max(2 * radius / n * (1 + 2 * n * EPS), 4 * radius * EPS) + 2 * tolerance
    largest = largest_radius(space) / (1 + 2 * MARGIN if tolerance else 1)
    if not radius < largest:
        raise ValueError(f"radius is {radius!r}; accepted are numbers below {largest:.6g} = r*, "
                         f"half the least of the injectivity radius and π/√κ of {space!r}, up to "
                         "which the mean is the only one")
    root = math.sqrt(max(space.curvature[1], 0))
    bound = 2 * math.tan(radius * root) / n / root if root else 2 * radius / n
    widest = 2 * radius if tolerance == 0 else 2 * (radius * (1 + MARGIN) + tolerance)
    return min(bound + 2 * _miss(radius, root, tolerance), widest) * (1 + 1e-12)


class Mean:
    """What is public of the Fréchet mean of `n` records in a ball; planning knows no more of it.

    Parameters
    ----------
    n : int
        Number of records.
    radius : float
        Of the ball, in the distance of the space, and below its injectivity radius. On a curved
        space float64 sets limits, too: from 1e-6 (of inj/π, where that is finite), and below
        5/√-κ where the curvature is ≥ κ, κ < 0.
    space : Space

    Attributes
    ----------
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
    divisor : float
        Number of records, or sum of their weights, by which the sum is divided on a flat space.
    """

    weights = None

    def __init__(self, n: int, radius: float, space):
        self.n, self.space, self.radius = n, space, ball_radius(radius)
        self.tolerance = _tolerance(space, self.radius)

    @property
    def sensitivity(self) -> float:
        largest = TRIED * largest_radius(self.space)
        if not self.radius < largest:  # whether a descent ends would tell of the data
            raise ValueError(f"radius is {self.radius!r}; accepted are numbers below {largest:.6g} "
                             f"= {TRIED} r*, up to which the descent to a mean ended in all that "
                             "was tried; r* is half the least of the injectivity radius and π/√κ "
                             f"of {self.space!r}, up to which the mean is the only one. The "
                             "tangent mean, statistic='tangent', takes larger balls")
        return frechet_sensitivity(self.n, self.radius, self.space, self.tolerance, self.weights)

    @property
    def chart_sensitivity(self) -> float:
        sensitivity, high = self.sensitivity, self.space.curvature[1]
        if high <= 0:
            return sensitivity
        angle = self.radius * (1 + MARGIN) * math.sqrt(high)
        return sensitivity * angle / math.sin(angle) * (1 + 1e-12)

    @property
    def divisor(self) -> float:
        return self.n if self.weights is None else math.fsum(self.weights)


class FrechetMean(Mean):
    """The query: the Fréchet mean of records that are clipped to a public ball.

    Parameters
    ----------
    X : array or, on a flat space, dask.array of shape (n, k, k), or (n, *space.shape)
        The records. They are looked at when the mean is asked for, not before. Those outside the
        ball move onto it along the geodesic to the centre; for one at a cut point of the centre it
        is a fixed one.
    ball : Ball
    on_invalid : {"raise", "center"}
        What happens to a record that is no point of the space.
    weights : array of shape (n,), optional
        Public weights of the records, at least 0 and not all 0; on a flat space.

    Raises
    ------
    ValueError
        For a ball or a shape that is none; no record is looked at for it.
    """

    def __init__(self, X: ArrayLike, ball: Ball, on_invalid: str = "raise",
                 weights: ArrayLike | None = None):
        self.ball, space = checked_ball(ball), ball.space
        self.on_invalid = choice(on_invalid, "on_invalid", POLICIES)
        self._X = read_records(X, space, on_invalid)
        shape = self._X.shape
        if shape[1:] != space.shape or 0 in shape:
            raise ValueError(f"X has shape {shape}; accepted is (n, {ends(space)}) with n ≥ 1, "
                             f"points of {space!r}")
        if is_lazy(self._X):
            check_flat(space, " for records that are a dask array")
        super().__init__(shape[0], ball.radius, space)
        self.weights = None if weights is None else public_weights(weights, self.n, space)

    @functools.cached_property
    def steps(self):
        """Steps from the centre to the clipped records, shape `(n, dim)`. They are not private.

        ValueError for a bad record.
        """
        return clip_to_ball(self.bare_steps(), self.radius)

    def bare_steps(self) -> np.ndarray:
        """The same, before any record is clipped, shape `(n, dim)`. They are not private."""
        return self._seen()[0]

    def outside(self) -> int:
        """How many records are outside of the ball or no points. It is not private."""
        steps, sound = self._seen()
        return int((outside_ball(steps, self.radius) | ~sound).sum())

    def _seen(self):
        """Steps to the records, and which are points."""
        if not isinstance(self._X, np.ndarray):
            raise ValueError("the records are a dask array or came in batches; accepted where each "
                             "of them is asked for is an array in memory, as X.compute() makes")
        if self.weights is not None:
            raise ValueError("the records have weights; accepted where each of them is asked for "
                             "is None")
        return self.ball.seen(self._X, self.on_invalid)

    @property
    def as_read(self) -> ArrayLike:
        """The records as they were read, an array or dask.array. They are not private."""
        return self._X

    @functools.cached_property
    def points(self):
        """The clipped records, shape `(n, *space.shape)`. They are not private."""
        return self.space.exp(self.ball.center, self.steps)

    def total(self, grid: float | None = None) -> np.ndarray:
        """Sum of the steps to the clipped records, on a flat space, shape `(dim,)`, exact.

        Each is times its weight, and cut to multiples of the grid, by default the finest. It is not
        private. ValueError for a bad record.
        """
        return self._empty(grid).add(self._X, self.weights).total

    @functools.cached_property
    def step(self):
        """The step from the centre to the mean, shape `(dim,)`. It is not private.

        ValueError for a bad record, and where the descent to the mean does not end.
        """
        if self.space.flat:
            return self.total() / self.divisor
        step = self.space.mean(self.ball.center, self.steps, self.tolerance / 2)
        if not np.linalg.norm(step) <= self.radius * (1 + MARGIN) + self.tolerance:
            raise ValueError("the descent to the mean has left the ball of the records")
        return step

    def _empty(self, grid):
        return ClippedSum(self.ball, self.n, self.on_invalid, grid)


class RunningMean(Mean):
    """The same query on a flat space, of at most `n` records that come in batches.

    Records that do not come count as the centre. Memory is bounded by that of a batch; the order
    of the records and their partition do not matter, to the last bit.
    """

    def __init__(self, n: int, ball: Ball, on_invalid: str = "raise"):
        self.ball, space = checked_ball(ball), ball.space
        check_flat(space, " for records that come in batches")
        super().__init__(integer(n, "n", 1, 2**53), ball.radius, space)
        self.on_invalid, self._sum = choice(on_invalid, "on_invalid", POLICIES), None

    def add(self, X, grid=None):
        """Itself, with the records `X`, an array or dask.array of shape `(m, *space.shape)`, m ≥ 0.

        The first batch fixes the `grid`, by default the finest. On a ValueError for a bad record or
        one too many, none of the batch is added.
        """
        X = read_records(X, self.space, self.on_invalid)
        if X.shape[1:] != self.space.shape or X.ndim == 0:
            raise ValueError(f"X has shape {X.shape}; accepted is (m, {ends(self.space)}), points "
                             f"of {self.space!r}")
        sum = self._empty(self._sum.grid if self._sum else grid)
        sum.count = self.count  # not the sum so far, which the error of a bad batch would keep
        with np.errstate(all="ignore"):
            sum.add(X)
        if self._sum:
            sum.total = sum.total + self._sum.total
        self._sum = sum  # all of the batch or none of it, whenever an interrupt comes
        return self

    def forget(self):
        """Drop the sum: errors of refused releases may still hold the query."""
        self._sum = None

    @property
    def count(self) -> int:
        """Number of records so far."""
        return self._sum.count if self._sum else 0

    def total(self, grid=None):
        """Sum of the steps to the clipped records so far, as that of `FrechetMean`."""
        sum = self._sum or self._empty(grid)
        if grid not in (None, sum.grid):
            raise ValueError(f"grid is {grid!r}; accepted is {sum.grid!r}, that of the first batch")
        return sum.total

    @property
    def step(self):
        """The step from the centre to the mean, shape `(dim,)`. It is not private."""
        return self.total() / self.n

    _empty = FrechetMean._empty


def checked_ball(ball, name="ball"):
    """`ball`, if it is one."""
    if not isinstance(ball, Ball):
        raise ValueError(f"{name} is {ball!r}; accepted is a Ball, such as Ball(radius, center, "
                         "space) or Ball.from_bounds(low, high, k)")
    return ball


def check_flat(space, use=""):
    """Refuse a curved space for this use of it."""
    if not space.flat:
        raise ValueError(f"space is {space!r}; accepted{use} are flat spaces, such as its "
                         "TangentSpace at a public centre")


def ends(space):
    """The shape of a point in words."""
    shape = ", ".join(map(str, space.shape))
    return f"{shape} complex numbers" if space.numbers is complex else shape


def public_weights(weights, n, space):
    """Weights of n records of a flat space, shape `(n,)`, divided by the largest of them."""
    if not (space is None or space.flat):
        raise ValueError(f"weights are given on {space!r}; accepted are those of flat spaces, such "
                         "as its TangentSpace at a public centre")
    weights = finite(weights, "weights")
    if weights.shape != (n,):
        raise ValueError(f"weights has shape {weights.shape}; accepted is ({n},), one a record")
    if not weights.min() >= 0 or not weights.max() > 0:
        raise ValueError(f"weights has entries from {weights.min():.6g} to {weights.max():.6g}; "
                         "accepted are those from 0 on, one of them above 0")
    return weights / weights.max()


def _tolerance(space, radius):
    """How long a gradient may be, its own rounding included, for means in a ball of the space.

    Public: 1e-11 radii, and what rounding may be where curvature below 0 lets it grow.
    """
    if space.flat:
        return 0.0
    scale, root = unit(space), math.sqrt(max(-space.curvature[0], 0))
    most = min(space.injectivity_radius, WIDEST / (4 * root) if root else math.inf)
    if not 1e-6 * scale <= radius < most:
        raise ValueError(f"radius is {radius!r}; accepted are numbers from {1e-6 * scale:.6g} to "
                         f"below {most:.6g} on {space!r}, where float64 tells points apart")
    return 1e-11 * radius + 64 * EPS * scale * math.exp(4 * radius * root)


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
