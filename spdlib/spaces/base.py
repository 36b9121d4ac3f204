"""Spaces: the geometry of the data in orthonormal coordinates, one interface for all of them.

Points are what the data are. Tangent vectors at a point are coordinates in an orthonormal frame
there, shape `(..., dim)`; a step from a point is a tangent vector at it. The frame goes with the
array that stands for the point; nothing that a user can see of points depends on it.

A space of your own inherits from `Curved`, says its numbers and defines four maps: see there.
"""

import bisect
import contextlib
import functools
import inspect
import math

import numpy as np

from .._checks import at, finite, first, of_numbers, positive
from .._parallel import by_blocks
from . import components as rows
from .components import components_first, lengths
from .functions import log_sinc, log_sinhc
from .means import descent

CUT = 1e-8  # so close, in radians, to the cut locus a direction means nothing


class Space:
    """What all spaces share, and all that queries, mechanisms and samplers ask of one.

    Parameters are kept under the names that they have in `__init__`; two spaces of the same name
    and parameters are equal. Heirs of `Flat` and of `Curved` define `sound(X)`, which asks each
    array alone whether it is a point: it returns what the unchecked maps take for it, in a flat
    space its coordinates, and booleans of shape `(...)`.

    Attributes
    ----------
    dim : int
        Its dimension.
    shape : tuple of int
        The shape of a point.
    flat, homogeneous : bool
        Whether one chart is an isometry onto R^dim; whether isometries take any point to any other.
    curvature : (float, float)
        Bounds of the sectional curvature.
    injectivity_radius : float
    diameter : float
        The largest distance of two points; infinite where nobody knows it.
    growth : float
        A β with `log_volume(v) ≤ β‖v‖` for all v, which is a Lipschitz constant, too.
    origin : array of shape `shape`, or None
        The point that suggests itself as a public centre.
    numbers : type
        Of what numbers points are made, float or complex.
    """

    dim: int
    shape: tuple[int, ...]
    flat: bool
    homogeneous: bool
    curvature: tuple[float, float]
    injectivity_radius: float
    diameter: float = math.inf
    origin: np.ndarray | None
    numbers: type = float

    @property
    def inner(self):
        """Shape of a point as the unchecked maps take it: in a flat space of its coordinates."""
        return (self.dim,) if self.flat else self.shape

    def __eq__(self, other):
        return type(self) is type(other) and repr(self) == repr(other)

    def __hash__(self):
        return hash(repr(self))

    def __repr__(self):
        given = (repr(getattr(self, name)) for name in inspect.signature(type(self)).parameters)
        return f"{type(self).__name__}({', '.join(given)})"

    @functools.cached_property
    def growth(self) -> float:
        """A β with `log_volume(v) ≤ β‖v‖` for all v: that of the lowest curvature (Bishop)."""
        return (self.dim - 1) * math.sqrt(max(0, -self.curvature[0]))

    def log(self, M, X) -> np.ndarray:
        """Steps that lead from `M` to the points `X`, shape `(..., dim)`."""

    def exp(self, M, *steps) -> np.ndarray:
        """Points to which the steps lead from `M`, each in the frame at the point reached."""

    def where_log(self, M, X) -> tuple[np.ndarray, np.ndarray]:
        """Steps from `M` to the records `X`, 0 for what is no point, and which are points.

        In a curved space `M` is one that `points` has returned; of several shortest ways it takes
        one. What is no point is replaced in its place by `M`, so that a batch keeps its size and
        its layout.
        """
        X, sound = self.sound(X)
        here = sound[(..., *len(self.inner) * (None,))]
        steps = self.steps(M, np.where(here, X, M))
        steps[~sound] = 0
        return steps, sound

    def dist(self, X, Y) -> np.ndarray:
        """Distances of points, shape `(...)`."""

    def contains(self, X) -> np.ndarray:
        """Which arrays are points, booleans of shape `(...)`; each is asked by itself."""
        return self.sound(X)[1]

    def transport(self, M, v, w) -> np.ndarray:
        """Vectors `w` at `M`, carried along the steps `v` without turning."""

    def jacobi(self, v) -> tuple[np.ndarray, np.ndarray]:
        """What bends the Jacobi fields along the geodesic t ↦ exp(M, t v): `curving` and `axes`.

        Eigenvalues of R(·, v)v, shape `(..., dim)`, which are ‖v‖² times sectional curvatures, and
        0 along v; and its eigenvectors, in columns, `(..., dim, dim)`. These spaces are symmetric,
        so transport along the geodesic keeps both. In the frame that it carries,
        `axes @ diag(f) @ axes.T` maps u to J(1): f is `cosine(curving)` for J(0) = u and J'(0) = 0,
        and `sinc(curving)` for J(0) = 0 and J'(0) = u.
        """

    def log_volume(self, v) -> np.ndarray:
        """Logarithm of the volume that `exp` makes of the unit of volume at the vectors `v`."""
        low, high = self.curvature
        if low == high:
            return self.volume_bound(lengths(self.vectors(v, "v")))
        curving, _ = self.jacobi(v)
        root = np.sqrt(np.abs(curving))
        return np.where(curving > 0, log_sinc(root), log_sinhc(root)).sum(axis=-1)

    def volume_bound(self, rho) -> np.ndarray:
        """What `log_volume` nowhere exceeds at this length; it makes a log-concave density.

        Here that of the lowest curvature κ (Bishop), (sin(√κ ρ)/√κ ρ)^(dim - 1), with sinh for
        κ < 0.
        """
        kappa, _ = self.curvature
        density = log_sinc if kappa > 0 else log_sinhc
        return (self.dim - 1) * density(math.sqrt(abs(kappa)) * rho)

    def mean_volume(self, rho) -> np.ndarray:
        """Logarithm of the mean volume over all directions, at this length."""
        return self.log_volume(np.multiply.outer(rho, np.eye(1, self.dim)[0]))

    def mean(self, M, y, tolerance) -> np.ndarray:
        """Step from `M` to the Fréchet mean of the points to which the steps `y` lead."""

    def chart(self, M, u, v) -> np.ndarray:
        """Coordinates at `M` of the point to which `u` and then `v` lead."""

    def held(self, M) -> float:
        """Radius up to which a ball about `M` has only points that float64 holds; here any."""
        return math.inf

    def within_reach(self, M, v) -> np.ndarray:
        """The step `v`, or the part of it after which float64 holds the point; here by trial."""

        def leads(cuts):
            with contextlib.suppress(ValueError):
                self.exp(M, v * 0.9**cuts)
                return True
            return False

        return v if leads(0) else v * 0.9**bisect.bisect_left(range(15_000), True, key=leads)

    def evened(self, X) -> np.ndarray:
        """Arrays in which what is rounding of a narrower type has been mended; here they stay."""
        return X

    def alike(self, M) -> np.ndarray:
        """Points from which all looks, in coordinates, as it does from `M`; here themselves."""
        return M

    def reached(self, X) -> np.ndarray:
        """What `ends` has made, checked."""
        return X

    def among(self, M) -> np.ndarray:
        """Checked points with an axis more, along which they meet many points or vectors."""
        return np.expand_dims(M, -1 - len(self.inner))

    def vectors(self, v, name) -> np.ndarray:
        """`v` as float64 coordinates, shape `(..., dim)`."""
        return _ending(finite(v, name), (self.dim,), name)

    def shaped(self, X, name) -> np.ndarray:
        """`X` as an array whose last axes are those of a point."""
        return _ending(of_numbers(self.numbers)(X, name), self.shape, name)


def _ending(A, shape, name):
    """`A`, if its last axes have this shape."""
    if A.shape[-len(shape):] != shape:
        ends = ", ".join(map(str, shape))
        raise ValueError(f"{name} has shape {A.shape}; accepted is (..., {ends})")
    return A


class Flat(Space):
    """A space that one chart, `coordinates` and its inverse `point`, maps onto R^dim isometrically.

    Steps are added in the chart first, and the sum comes down once. To the unchecked maps
    coordinates are points.
    """

    flat = homogeneous = True
    curvature = (0.0, 0.0)
    injectivity_radius = math.inf

    def log(self, M, X):
        """Steps that lead from `M` to the points `X`, shape `(..., dim)`."""
        return self.coordinates(X) - self.coordinates(M)

    def where_log(self, M, X):
        """Steps from `M` to the records `X`, 0 for what is no point, and which are points."""
        return super().where_log(self.coordinates(M), X)

    def exp(self, M, *steps):
        """Points to which the steps lead from `M`, one after the other."""
        return self.point(self.coordinates(M) + sum(self.vectors(v, "step") for v in steps))

    def dist(self, X, Y):
        """Distances of points, shape `(...)`."""
        return np.linalg.norm(self.log(X, Y), axis=-1)

    def transport(self, M, v, w):
        """Vectors `w` at `M`, carried along the steps `v` without turning."""
        v, w = self.vectors(v, "v"), self.vectors(w, "w")
        batch = np.shape(M)[:-len(self.shape)]
        return np.broadcast_to(w, np.broadcast_shapes((*batch, self.dim), v.shape, w.shape))

    def jacobi(self, v):
        """The curvature ‖v‖² times it, along orthonormal axes: zeros, and those of the frame."""
        zeros = 0 * self.vectors(v, "v")
        return zeros, zeros[..., None] + np.eye(self.dim)

    def mean(self, M, y, tolerance=0):
        """Step from `M` to the Fréchet mean of the points to which the steps `y` lead: exact."""
        return y.sum(axis=-2) / y.shape[-2]

    def chart(self, M, u, v):
        """Coordinates at `M` of the point to which `u` and then `v` lead: their sum."""
        return u + v

    def points(self, X, name="X"):
        """What the unchecked maps take for the points `X`: their coordinates, finite."""
        return self.coordinates(finite(X, name, of_numbers(self.numbers)))

    def steps(self, M, X):
        """`log`, unchecked."""
        return X - M

    def ends(self, M, v):
        """`exp`, unchecked."""
        return M + v

    def carried(self, M, v, w, there=None):
        """`transport`, unchecked."""
        return np.broadcast_to(w, np.broadcast_shapes(v.shape, w.shape))


class Curved(Space):
    """A space without such a chart; heirs define the maps, and inherit everything else.

    They say `dim`, `shape`, `curvature`, `injectivity_radius` and, where it is so, `homogeneous`;
    a compact one may say its `diameter`.
    They define maps of checked points, which are float64 or complex, broadcast, and in which each
    item is computed by itself:

    - `sound(X)`: see `Space`;
    - `_step(M, X)`: `log`, total: at a cut point it takes one of the shortest geodesics;
    - `_end(M, v)`: `exp`, of steps of any length, since a draw may go far; it returns numbers;
    - `carried(M, v, w, there=None)`: `transport`, to the frame at `there`, which is `_end(M, v)` if
      it is at hand: to the frame at what it finds itself, rounding may make a difference.

    Those whose curvature is not constant define `jacobi` and `mean_volume`, too, and may know a
    smaller `growth` and `volume_bound`. Where float64 does not hold all points, or not equally
    well, they define `held` and `reached`, and `alike`: the same point for all `M`, if an isometry
    takes `M` and the frame there to it and the frame there. Descents run about it.
    """

    flat, homogeneous, origin = False, False, None
    block = 2**14, 1  # points in a block, which should stay in a cache, and threads that work

    def points(self, X, name="X"):
        """`X` as checked points; ValueError where one is none."""
        P, sound = self.sound(self.shaped(X, name))
        if (index := first(~sound)) is not None:
            raise ValueError(f"{name}{at(index)} {self._amiss(X, name, index)}")
        return P

    def _amiss(self, X, name, index):
        """What is wrong with the array at this index, which is no point."""
        return f"is none; accepted are points of {self!r}"

    def log(self, M, X):
        """Steps that lead from `M` to the points `X` on the shortest way, shape `(..., dim)`.

        ValueError where there is more than one.
        """
        steps = self.steps(self.points(M, "M"), self.points(X, "X"))
        reach = self.injectivity_radius
        if reach < math.inf and (bad := ~(lengths(steps) < reach * (1 - CUT))).any():
            raise ValueError(f"X{at(first(bad))} is a cut point of M: no shortest way there is the "
                             f"only one; accepted are points nearer than {reach:.6g}")
        return steps

    def exp(self, M, *steps):
        """Points to which the steps lead from `M`, each in the frame at the point reached."""
        M = self.points(M, "M")
        for v in steps:
            M = self.reached(self.ends(M, self.vectors(v, "step")))
        return M

    def chart(self, M, u, v):
        """Coordinates at `M` of the point to which `u` and then `v` lead, also of a cut point."""
        M = self.points(M, "M")
        return self.steps(M, self.exp(M, u, v))

    def dist(self, X, Y):
        """Distances of points, shape `(...)`."""
        return self.distances(self.points(X, "X"), self.points(Y, "Y"))

    def transport(self, M, v, w):
        """Vectors `w` at `M`, carried along the steps `v`, in the frame at `exp(M, v)`."""
        v, w = self.vectors(v, "v"), self.vectors(w, "w")
        return self.carried(self.points(M, "M"), v, w)

    def jacobi(self, v):
        """What bends Jacobi fields along `v`; of constant curvature κ, it is κ‖v‖² across it."""
        low, high = self.curvature
        if low != high:
            raise NotImplementedError(f"{type(self).__name__} defines no jacobi, which depends on "
                                      "more than one curvature")
        length, axes = rows.basis(*components_first(self.vectors(v, "v")))
        return low * length[..., None]**2 * (np.arange(self.dim) > 0), axes

    def mean(self, M, y, tolerance):
        """Step from `M` to the Fréchet mean of the points to which the steps `y` lead.

        By gradient descent, for many data sets at once: `M` has shape `(..., *shape)`, `y` has
        shape `(..., n, dim)`. A step is as long as the last one has shown the Hessian to ask for,
        within bounds under which the descent converges. It ends where the gradient, in the mean
        over the records, is no longer than `tolerance`: at the mean, where the records lie in a
        ball that has but one. ValueError where it is still longer after 1000 steps.
        """
        M, y = self.alike(self.points(M, "M")), self.vectors(y, "y")
        if y.ndim < 2 or y.shape[-2] == 0:
            raise ValueError(f"y has shape {y.shape}; accepted is (..., n, {self.dim}) with n ≥ 1")
        return descent(self, M, y, positive(tolerance, "tolerance"))

    def steps(self, M, X):
        """`log`, unchecked and total."""
        return by_blocks(self._step, (M, X), 2 * [len(self.shape)], np.empty(self.dim), *self.block)

    def ends(self, M, v):
        """`exp`, unchecked: `reached` checks what it makes."""
        tails, made = (len(self.shape), 1), np.empty(self.shape, self.numbers)
        return by_blocks(self._end, (M, v), tails, made, *self.block)

    def distances(self, X, Y):
        """`dist`, unchecked."""
        return by_blocks(self._far, (X, Y), 2 * [len(self.shape)], np.empty(()), *self.block)

    def _far(self, X, Y):
        return lengths(self._step(X, Y))
