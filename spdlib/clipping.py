"""Records clipped to a public ball, cut to a grid, and summed without rounding.

Sums of multiples of one power of two are exact in float64 as long as they are below 2⁵³ of it. So
they have the same bits in any order and any partition of the records, on one machine or on many.
"""

import math

import numpy as np

from ._checks import EPS, array, complex_array, finite, number, positive, real, renumbered
from ._parallel import CORES, blockwise
from .spaces import KendallPlanar
from .spd import DIVIDES, blocks

POLICIES = "raise", "center"
BLOCK, ENTRIES = 2**16, 2**20  # at most so many records are looked at together, of so many numbers


def ball_radius(radius):
    """`radius` as a float, if it is one that all the package knows."""
    return number(radius, "radius", 1e-280, 1e280, "numbers from 1e-280 to 1e280")


def finest_grid(reach, n):
    """The smallest power of two of which `n` entries up to `reach` make less than 2⁵³ together."""
    return 2.0 ** (math.frexp(reach)[1] + math.frexp(n)[1] - 53)


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
    norm = np.sqrt(np.einsum("ij,ij->i", cut, cut))  # below 1 it may underflow: entries get 0
    cut *= np.minimum(limit / grid / norm, 1)[:, None]
    odd = ~np.isfinite(norm)
    if odd.any():
        if not np.isfinite(y[odd]).all():
            finite(y, "y")
        cut[odd] = _into_ball(np.ascontiguousarray(y[odd]), limit) / grid
    if np.ndim(weights):
        cut *= weights
    np.trunc(cut, out=cut)
    cut *= grid
    return cut


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


class ClippedSum:
    """The exact sum of the steps from a public centre to clipped records of a flat space.

    All that is said of it at the start is public. What it holds is not private.

    Parameters
    ----------
    space
        A flat space.
    center : array of shape space.shape
    radius : float
        Records outside the ball are clipped to it.
    n : int
        How many records there may be at most.
    on_invalid : {"raise", "center"}
        What happens to a record that is no point of the space.
    grid : float, optional
        The power of two of which all entries are multiples; the finest that n records allow.

    Attributes
    ----------
    total : array of shape (dim,)
        The sum so far.
    count : int
        Number of records in it.
    """

    def __init__(self, space, center, radius, n, on_invalid="raise", grid=None):
        self.space, self.center, self.radius, self.n = space, center, radius, n
        self.on_invalid = on_invalid
        self.grid = finest_grid(radius, n) if grid is None else grid
        self.total, self.count = np.zeros(space.dim), 0

    def add(self, X, weights=None):
        """Itself, with the records `X`, shape `(m, *space.shape)`, each times its weight up to 1.

        All of them or, on a ValueError for a bad record or one too many, none.
        """
        self.admit(X)
        sums = self.over_blocks(lambda _, steps: np.ones(len(steps)) @ steps, X, weights)
        self.total, self.count = sum(sums, self.total), self.count + len(X)
        return self

    def over_blocks(self, function, X, weights=None):
        """`function(block, steps)` of slices of the records `X` and the clipped steps to them.

        A list in any order, made on threads; nothing is added. ValueError for the first bad record.
        """
        k, size = self.space.shape[-1], max(ENTRIES // math.prod(self.space.shape), 1)
        size, threads = min(BLOCK, size), CORES if k < DIVIDES else 1  # else BLAS has its own
        if 3 < k < DIVIDES:  # one thread of LAPACK a block, that stays in a cache
            size = blocks(k)[0]
        made, errors = [], {}

        def work(block):
            try:
                y, _ = seen_from(self.center, X[block], self.space, self.on_invalid)
            except ValueError as error:
                errors[block.start] = error
                return
            each = 1.0 if weights is None else weights[block, None]
            made.append(function(block, clip_to_ball(y, self.radius, self.grid, each)))

        blockwise(work, len(X), size, threads)
        if errors:
            raise renumbered(errors[min(errors)], "X", min(errors)) from None
        return made

    def admit(self, X):
        """ValueError where these would be more records than there may be."""
        if self.count + len(X) > self.n:
            raise ValueError(f"X has {len(X)} records after {self.count}; accepted are "
                             f"{self.n} in all")

    def merge(self, other):
        """Itself, with the records of another sum of the same kind."""
        if self.count + other.count > self.n or self.grid != other.grid:
            raise ValueError(f"other has {other.count} records on a grid of {other.grid!r}; "
                             f"accepted are {self.n - self.count} on one of {self.grid!r}")
        self.total, self.count = self.total + other.total, self.count + other.count
        return self


@np.errstate(all="ignore")
def seen_from(center, X, space, on_invalid="raise", name="X"):
    """Steps from the centre to the records `X`, shape `(n, dim)`, and which are points, `(n,)`.

    All records of all estimators come this way. They are read once, as float64 into memory in C
    order, and whether one is a point of the space is asked of its numbers alone, not of the type of
    the array, in which all stand. For what is none the centre stands in its place, with a step of
    length 0, or, where `on_invalid` is "raise", there is a ValueError. So a batch keeps its size
    and its layout, and the step to a record has the same bits alone and in any batch, whatever the
    others are. It is not clipped.
    """
    X = np.array(X, complex if X.dtype.kind == "c" else float, order="C")
    if len(space.shape) == 2:
        X = _evened(X)
    steps, sound = space.where_log(center, X)
    if on_invalid == "raise" and not sound.all():
        space.coordinates(X) if space.flat else space.points(X, name)  # says what is wrong
        raise ValueError(f"{name}[{sound.argmin()}] is none; accepted are points of {space!r}")
    return steps, sound


def _evened(X):
    """The matrices `X`, of which those of float32 numbers are symmetric if they nearly are.

    By at most 16 units of float32's rounding of the largest entry. In an array of float32 that one
    float64 record has widened, the others have float32 numbers all the same.
    """
    transpose = X.swapaxes(-2, -1)
    narrow = (X != transpose).any(axis=(-2, -1))
    if not narrow.any():
        return X
    narrow &= (X == X.astype(np.float32)).all(axis=(-2, -1))
    most = 16 * np.finfo(np.float32).eps * np.abs(X).max(axis=(-2, -1))
    narrow &= np.abs(X - transpose).max(axis=(-2, -1)) <= most
    return np.where(narrow[:, None, None], X / 2 + transpose / 2, X)


def numbers_of(space):
    """What reads an array of numbers of which points of the space are made."""
    planar = isinstance(getattr(space, "space", space), KendallPlanar)
    return complex_array if planar else array


def shape_of(space):
    """The shape of a point in words."""
    return ", ".join(map(str, space.shape))


def public_center(center, space):
    """A public centre that is a point of the space, or the space's own."""
    if center is None:
        if space.origin is None:
            raise ValueError(f"center is None; accepted is a point of {space!r}, which has none "
                             "that suggests itself")
        center = space.origin
    center = numbers_of(space)(center, "center")
    if center.shape != space.shape:
        accepted = f"({shape_of(space)}{',' if len(space.shape) == 1 else ''})"
        raise ValueError(f"center has shape {center.shape}; accepted is {accepted}, as the records "
                         "have")
    if not space.flat:
        return space.points(center, "center")
    try:
        space.exp(center)
    except ValueError as error:
        raise ValueError(f"center is no point that float64 can hold: {error}") from None
    return center


def _into_ball(y, radius):
    """`y` moved radially into the ball about 0; what lies in it stays as it is."""
    unit, norm, largest = _unit(y)
    outside = largest > radius / np.maximum(norm, 1)
    return np.where(outside, unit * (radius / np.maximum(norm, 1)), y)


def _unit(y):
    """Rows divided by their largest entry, the norm of that, 0 or from 1 to √d, and the entry."""
    largest = np.abs(y).max(axis=-1, keepdims=True)
    unit = y / np.where(largest > 0, largest, 1)
    return unit, np.linalg.norm(unit, axis=-1, keepdims=True), largest
