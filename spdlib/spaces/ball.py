"""Public balls: centre, radius and space in one object, and what they do to records.

Sums of multiples of one power of two are exact in float64 as long as they are below 2⁵³ of it. So
clipped records are cut to a grid, and their sums have the same bits in any order and any partition.
"""

import dataclasses
import math

import numpy as np

from .._checks import EPS, HUGE, array, finite, integer, number, of_numbers, positive, real
from .._parallel import squares
from .base import Space
from .flat import LogEuclidean, TangentSpace

POLICIES = "raise", "center"


@dataclasses.dataclass(frozen=True, eq=False, repr=False)
class Ball:
    """A public ball of a space: what is promised of records is promised whatever lies outside.

    Choose it without a look at the data. It does not change, neither do copies and pickles, and two
    of the same radius, centre and space are equal.

    Parameters
    ----------
    radius : float
        In the distance of the space, from 1e-280 to 1e280.
    center : array of shape space.shape
    space : Space, optional
        By default the log-Euclidean one, `LogEuclidean(k)`, of the centre's size.

    Raises
    ------
    ValueError
        For a radius that is none, and for a centre that is no point of the space.

    Examples
    --------
    >>> from spdlib import Ball, Sphere
    >>> Ball(0.5, [0, 0, 1], Sphere(2))
    Ball(0.5, [0.0, 0.0, 1.0], Sphere(2, 1.0))
    """

    radius: float
    center: np.ndarray
    space: Space | None = None

    @np.errstate(all="ignore")  # the caller's treatment of errors decides nothing
    def __post_init__(self):
        space, center = self.space, self.center
        if space is None:
            shape = array(center, "center").shape
            if len(shape) != 2 or shape[0] != shape[1] or shape[0] == 0:
                raise ValueError(f"center has shape {shape}; accepted without a space is (k, k), "
                                 "an SPD matrix")
            space = LogEuclidean(shape[0])
        if not isinstance(space, Space):
            raise ValueError(f"space is {space!r}; accepted is a space, such as Sphere(2)")
        center = of_numbers(space.numbers)(center, "center")
        if center.shape != space.shape:
            raise ValueError(f"center has shape {center.shape}; accepted is {space.shape}, that of "
                             f"points of {space!r}")
        center = space.evened(np.array(center, space.numbers))
        if not space.flat:
            center = space.points(center, "center")
        else:
            try:
                space.exp(center)
            except ValueError as error:
                raise ValueError(f"center is no point that float64 can hold: {error}") from None
        self.__setstate__({"radius": ball_radius(self.radius), "center": center, "space": space})

    def __setstate__(self, state):
        center = state["center"].copy()
        center.flags.writeable = False
        vars(self).update(state | {"center": center})

    @classmethod
    def from_bounds(cls, low: float, high: float, k: int) -> "Ball":
        """The log-Euclidean ball about √(low high) I of radius √k ln(high/low)/2.

        It holds every matrix with eigenvalues from `low` to `high`, and no ball about another
        centre that does is smaller. The radius is rounded up, by more than the centre is off; the
        eigenvalues of a matrix as computed can miss a bound by their rounding.

        Parameters
        ----------
        low, high : float
            Bounds on all eigenvalues, known without a look at the data: 0 < low ≤ high, in the unit
            of the matrices.
        k : int
            Size of the matrices.

        Examples
        --------
        >>> from spdlib import Ball
        >>> ball = Ball.from_bounds(0.01, 100, k=4)
        >>> float(ball.center[0, 0]), round(ball.radius, 2)
        (1.0, 9.21)
        """
        low, k = positive(low, "low"), integer(k, "k", 1)
        high = number(high, "high", low, HUGE, f"finite numbers from low = {low!r} on")
        log_low, log_high = math.log(low), math.log(high)
        slack = 2**-48 * (1 + abs(log_low) + abs(log_high))  # 32 units of rounding, of at most 25
        radius = math.sqrt(k) * ((log_high - log_low) / 2 + slack)
        center = math.sqrt(low) * math.sqrt(high)  # the product itself could underflow
        return cls(radius, center * np.eye(k))

    def __eq__(self, other):
        return (isinstance(other, Ball) and self.radius == other.radius
                and self.space == other.space and np.array_equal(self.center, other.center))

    def __hash__(self):
        return hash((self.radius, repr(self.space), self.center.shape))

    def __repr__(self):
        return f"Ball({self.radius!r}, {self.center.tolist()!r}, {self.space!r})"

    def of_radius(self, radius: float) -> "Ball":
        """The ball of another radius about the same centre."""
        return self._about_the_same(ball_radius(radius), self.space)

    @np.errstate(all="ignore")
    def tangent(self) -> "Ball":
        """The ball in the chart at its centre, a flat space; of a flat space it is itself."""
        if self.space.flat:
            return self
        if not self.radius < (reach := self.space.injectivity_radius):
            raise ValueError(f"radius is {self.radius!r}; accepted are numbers below {reach:.6g}, "
                             f"the injectivity radius of {self.space!r}")
        return self._about_the_same(self.radius, TangentSpace(self.space, self.center))

    def _about_the_same(self, radius, space):
        """A ball whose centre has the same bits: to normalise it again might alter the last."""
        ball = object.__new__(Ball)
        ball.__setstate__({"radius": radius, "center": self.center, "space": space})
        return ball

    def moved(self, step: np.ndarray, radius: float) -> "FoundBall":
        """The ball of this radius about the point to which a step from the centre leads.

        Nothing is refused: the step and the radius are what a release has found.
        """
        center = self.space.exp(self.center, step)
        return _found({"radius": float(radius), "center": center, "space": self.space})

    @property
    def harmless(self) -> bool:
        """Whether projecting any point onto the ball never takes it further from one of the ball.

        It is so in a flat space and on a Hadamard manifold, where the ball is convex; on the circle
        and the sphere of constant curvature where its radius is at most a third of the distance of
        opposite points; and, where it is at most π/(4√κ), in a CAT(κ) space: one of curvature ≤ κ
        without closed geodesics shorter than 2π/√κ. There the angle at the projected point is not
        acute.
        """
        low, high = self.space.curvature
        reach = self.space.injectivity_radius
        if high <= 0 and reach == math.inf:
            return True
        if self.space.dim == 1:
            return self.radius <= reach / 3
        if reach * (root := math.sqrt(max(high, 0))) < math.pi - 1e-9:  # a closed geodesic is short
            return False
        return self.radius <= (reach / 3 if low == high else math.pi / (4 * root))

    def hold(self, reach: float | None = None, name: str = "radius", *, points: bool = False,
             here: bool = False) -> None:
        """ValueError where float64 does not hold all points of a ball, of this radius by default.

        They are seen from where all looks alike or, with `here`, from the centre itself. On a flat
        space coordinates are enough, unless `points` are made of them. Nothing but what is public
        decides.
        """
        space, reach = self.space, self.radius if reach is None else reach
        if space.flat and not (points or here):
            return
        if reach > (held := space.held(self.center if here else space.alike(self.center))):
            raise ValueError(f"{name} is {reach!r}; accepted are radii up to {held:.6g}, of balls "
                             "all of whose points float64 holds")

    @np.errstate(all="ignore")
    def seen(self, X: np.ndarray, on_invalid: str = "raise",
             name: str = "X") -> tuple[np.ndarray, np.ndarray]:
        """Steps from the centre to the records `X`, shape `(n, dim)`, and which are points, `(n,)`.

        All records of all estimators come this way. They are read once, as float64 into memory in C
        order, and whether one is a point of the space is asked of its numbers alone, not of the
        type of the array, in which all stand. For what is none the centre stands in its place, with
        a step of length 0, or, where `on_invalid` is "raise", there is a ValueError. So a batch
        keeps its size and its layout, and the step to a record has the same bits alone and in any
        batch, whatever the others are. It is not clipped.
        """
        space = self.space
        X = space.evened(np.array(X, complex if X.dtype.kind == "c" else float, order="C"))
        steps, sound = space.where_log(self.center, X)
        if on_invalid == "raise" and not sound.all():
            space.points(X, name)  # says what is wrong
            raise ValueError(f"{name}[{sound.argmin()}] is none; accepted are points of {space!r}")
        return steps, sound


class FoundBall(Ball):
    """A ball that a release has found: it is known, and it has had a price of its own.

    It equals the `Ball` of the same numbers. Documents of what is released in it say that it is
    private.
    """

    def _about_the_same(self, radius, space):
        return _found(vars(super()._about_the_same(radius, space)))


def _found(state):
    """The FoundBall of this radius, centre and space."""
    ball = object.__new__(FoundBall)
    ball.__setstate__(state)
    return ball


def ball_radius(radius):
    """`radius` as a float, if it is one that all the package knows."""
    return number(radius, "radius", 1e-280, 1e280, "numbers from 1e-280 to 1e280")


def finest_grid(reach, n):
    """The smallest power of two of which `n` entries up to `reach` make less than 2⁵³ together."""
    return 2.0**(math.frexp(reach)[1] + math.frexp(n)[1] - 53)


@np.errstate(all="ignore")  # what is too large, or NaN, is looked at below
def clip_to_ball(y, radius, grid=None, weights=1.0):
    """Coordinates `y`, shape `(n, d)`, each record moved radially into the ball about 0.

    The *exact* norm of each row returned is at most `radius` (times its weight, if records have
    `weights`, shape `(n, 1)`), and all sums of rows are exact in float64: entries are cut, towards
    zero, to multiples of a `grid`, a power of two, by default one so large that n entries cannot
    outgrow 53 bits. That cut moves a record by less than `√d n radius` times 2⁻⁵¹; one within
    (d + 8) 2⁻⁵² of the sphere goes as far inside.
    """
    y, radius = real(y, "y"), ball_radius(radius)
    if y.ndim != 2:
        raise ValueError(f"y has shape {y.shape}; accepted is (n, d)")
    n, d = y.shape
    grid = finest_grid(radius * np.max(weights), n) if grid is None else grid
    limit = radius * (1 - (d + 8) * EPS)  # by more than the rounding of norms and quotients
    cut = np.divide(y, grid, order="C")
    norm = np.sqrt(squares(cut))  # below 1 it may underflow: entries get 0
    cut *= np.minimum(limit / grid / norm, 1)[:, None]
    odd = ~np.isfinite(norm)
    if odd.any():
        finite(y, "y")
        cut[odd] = _into_ball(np.ascontiguousarray(y[odd]), limit) / grid
    cut *= weights
    return np.trunc(cut, out=cut) * grid


def project_to_ball(y, radius):
    """Coordinates `y`, shape `(..., d)`, moved radially into the ball of this radius about 0.

    What lies in the ball stays as it is, to the last bit.
    """
    return _into_ball(finite(y, "y"), ball_radius(radius))


def shrink_to_center(y, sigma):
    """Coordinates `y` with normal noise of this `sigma` in each, moved towards the centre 0.

    The positive part of the estimator of James and Stein (1961): with t = (d-2) σ²/‖y‖², a point is
    multiplied by 1 - t, and where that is negative it becomes the centre. Whatever the mean of `y`
    is, the mean squared distance from it gets smaller. A single point may get further away. Balle
    and Wang (2018) call it denoising.

    Parameters
    ----------
    y : array of shape (..., d)
        From 3 coordinates on; with fewer nothing of the kind is known to be better everywhere.
    sigma : float
        Standard deviation of the noise in each coordinate, which is normal and independent.

    Returns
    -------
    array of shape (..., d)

    Raises
    ------
    ValueError
        For fewer than 3 coordinates, a number that is not finite, a scale that is none.
    """
    y, sigma = finite(y, "y"), positive(sigma, "sigma")
    if y.ndim == 0 or y.shape[-1] < 3:
        raise ValueError(f"y has shape {y.shape}; accepted is (..., d) with d from 3 on")
    _, norm, largest = _unit(y)
    reach = math.sqrt(y.shape[-1] - 2) * sigma / np.maximum(norm, 1)
    share = np.minimum(reach, largest) / np.where(largest > 0, largest, 1)
    return y * ((1 - share) * (1 + share))


def drawn_in(y, radii):
    """Rows `y`, shape `(n, d)`, moved radially into balls of these radii about 0, one for each."""
    return _into_ball(y, radii[:, None])


def _into_ball(y, radius):
    """`y` moved radially into the ball about 0; what lies in it stays as it is."""
    unit, norm, _ = _unit(y)
    return np.where(outside_ball(y, radius)[..., None], unit * (radius / np.maximum(norm, 1)), y)


def outside_ball(y, radius):
    """Which coordinates `y`, shape `(..., d)`, are outside the ball about 0, shape `(...)`."""
    _, norm, largest = _unit(y)
    return (largest > radius / np.maximum(norm, 1))[..., 0]


def _unit(y):
    """Rows divided by their largest entry, the norm of that, 0 or from 1 to √d, and the entry."""
    largest = np.abs(y).max(axis=-1, keepdims=True)
    unit = y / np.where(largest > 0, largest, 1)
    return unit, np.linalg.norm(unit, axis=-1, keepdims=True), largest
