"""Spaces: the geometry of the data in orthonormal coordinates, one interface for all of them.

A space has a dimension `dim`, the `shape` of a point, bounds `curvature = (low, high)` on its
sectional curvature, and an `injectivity_radius`; it is `flat`, and `homogeneous`, or not; `origin`
is the public centre that suggests itself, or None. Points are what the data are; tangent vectors at
a point are coordinates in an orthonormal frame there, shape `(..., dim)`. A step from a point is a
tangent vector at it. The frame goes with the array that stands for the point; nothing that a user
can see of points depends on it.

`jacobi(v)` says what bends the Jacobi fields along a geodesic `t ↦ exp(M, t v)`, from every `M`:
`curving`, shape `(..., dim)`, the eigenvalues of R(·, v)v, which are ‖v‖² times sectional
curvatures, and 0 along v; and `axes`, `(..., dim, dim)`, its eigenvectors, in columns. All these
spaces are symmetric, so transport along the geodesic keeps them. In the frame that it carries,
`axes @ diag(f) @ axes.T` maps u to J(1): f is `cosine(curving)` for J(0) = u and J'(0) = 0, and
`sinc(curving)` for J(0) = 0 and J'(0) = u.
"""

import math

import numpy as np

from . import _components as rows
from ._checks import EPS, array, at, complex_array, finite, first, integer, number, positive, real
from ._components import components_first, components_last, lengths
from ._descent import descent
from ._functions import log_sinc, log_sinhc
from ._parallel import by_blocks
from .spd import (
    DIVIDES,
    LARGEST,
    LOG_MAX,
    LOG_MIN,
    blocks,
    cholesky,
    congruent,
    eigenvalues,
    expm,
    function_of,
    gram,
    inverse_triangular,
    invvecd,
    is_spd,
    log_congruent,
    logm,
    positive_definite,
    product,
    relative_distance,
    relative_log,
    symmetric,
    upper,
    where_logm,
    where_spd,
    where_symmetric,
    widest_spread,
)

OFF = 1e-6  # so far from length 1 may a unit vector be
CUT = 1e-8  # so close, in radians, to the cut locus a direction means nothing
MANY = 6  # dimensions, from which a pass over the components costs more than all else
FARTHEST = 1e8  # radians, after which rounding has moved the end of a step by CUT


class _Space:
    """What all spaces share; two of the same name and parameters are equal.

    Heirs define `_sound`, which asks each array alone whether it is a point: it returns what the
    maps take for it, in a flat space its coordinates, and booleans of shape `(...)`.
    """

    def __eq__(self, other):
        return type(self) is type(other) and repr(self) == repr(other)

    def __hash__(self):
        return hash(repr(self))

    def contains(self, X):
        """Which arrays are points of the space, booleans of shape `(...)`; each is asked alone."""
        return self._sound(X)[1]

    def within_reach(self, M, v):
        """The step `v`, or the part of it after which float64 holds the point: here all of it."""
        return v

    def _vectors(self, v, name):
        """`v` as float64 coordinates, shape `(..., dim)`."""
        v = finite(v, name)
        if v.shape[-1:] != (self.dim,):
            raise ValueError(f"{name} has shape {v.shape}; accepted is (..., {self.dim})")
        return v

    def _shaped(self, X, name, read=array):
        """`X` as an array whose last axes are those of a point."""
        X = read(X, name)
        if X.shape[-len(self.shape):] != self.shape:
            ends = ", ".join(map(str, self.shape))
            raise ValueError(f"{name} has shape {X.shape}; accepted is (..., {ends})")
        return X


class _Flat(_Space):
    """A space that one chart, `coordinates` and its inverse `point`, maps onto R^dim isometrically.

    Steps are added in the chart first, and the sum comes down once.
    """

    flat = homogeneous = True
    curvature = (0.0, 0.0)
    injectivity_radius = math.inf

    def log(self, M, X):
        """Steps that lead from `M` to the points `X`, shape `(..., dim)`."""
        return self.coordinates(X) - self.coordinates(M)

    def where_log(self, M, X):
        """Steps from `M` to the records `X`, 0 for what is no point, and which are points."""
        y, sound = self._sound(X)
        y = y - self.coordinates(M)
        y[~sound] = 0
        return y, sound

    def exp(self, M, *steps):
        """Points to which the steps lead from `M`, one after the other."""
        return self.point(self.coordinates(M) + sum(self._vectors(v, "step") for v in steps))

    def dist(self, X, Y):
        """Distances of points, shape `(...)`."""
        return np.linalg.norm(self.log(X, Y), axis=-1)

    def log_volume(self, v):
        """Logarithm of the volume that `exp` makes of the unit of volume at the vectors `v`: 0."""
        return np.zeros(np.shape(v)[:-1])

    def transport(self, M, v, w):
        """Vectors `w` at `M`, carried along the steps `v` without turning."""
        v, w = self._vectors(v, "v"), self._vectors(w, "w")
        batch = np.shape(M)[:-len(self.shape)]
        return np.broadcast_to(w, np.broadcast_shapes((*batch, self.dim), v.shape, w.shape))

    def jacobi(self, v):
        """The curvature ‖v‖² times it, along orthonormal axes: zeros, and those of the frame."""
        zeros = 0 * self._vectors(v, "v")
        return zeros, zeros[..., None] + np.eye(self.dim)

    def mean(self, M, y, tolerance=0):
        """Step from `M` to the Fréchet mean of the points to which the steps `y` lead: exact."""
        return y.sum(axis=-2) / y.shape[-2]

    def chart(self, M, u, v):
        """Coordinates at `M` of the point to which `u` and then `v` lead: their sum."""
        return u + v


class _Matrices:
    """What the spaces of k × k matrices share."""

    def __init__(self, k):
        self.k = integer(k, "k", 1)
        self.dim = self.k * (self.k + 1) // 2
        self.shape = (self.k, self.k)

    def __repr__(self):
        return f"{type(self).__name__}({self.k})"

    @property
    def origin(self):
        """The identity, shape `(k, k)`."""
        return np.eye(self.k)


class LogEuclidean(_Matrices, _Flat):
    """SPD matrices under the log-Euclidean metric (Sec. 3), points of shape `(..., k, k)`.

    Parameters
    ----------
    k : int
        Size of the matrices.

    Attributes
    ----------
    dim : int
        k(k+1)/2.
    """

    def coordinates(self, X):
        """`vecd(logm(X))`, shape `(..., dim)`."""
        return upper(logm(self._shaped(X, "X")))

    def point(self, y):
        """The SPD matrices with coordinates `y`, shape `(..., k, k)`."""
        return expm(invvecd(y))

    def _sound(self, X):
        L, sound = where_logm(self._shaped(X, "X"))
        return upper(L), sound

    def within_reach(self, M, v):
        """The step `v`, shape `(dim,)`, or the part of it after which float64 holds the point.

        Along a step the largest eigenvalue of the logarithm, and the spread of all, are convex.
        """
        start = self.coordinates(M)
        before, after = (np.linalg.eigvalsh(invvecd(y)) for y in (start, start + v))
        here = np.array([before[-1], -before[0], before[-1] - before[0]])
        there = np.array([after[-1], -after[0], after[-1] - after[0]])
        most = np.array([LOG_MAX, -LOG_MIN, widest_spread(self.k)]) - 1e-9  # more than rounding
        beyond = there > most
        if (here >= most)[beyond].any():  # at the very edge
            return 0 * v
        return v * ((most - here)[beyond] / (there - here)[beyond]).min(initial=1.0)


class Euclidean(_Matrices, _Flat):
    """Symmetric matrices under the Frobenius distance, points of shape `(..., k, k)`.

    Parameters
    ----------
    k : int
        Size of the matrices.

    Attributes
    ----------
    dim : int
        k(k+1)/2.
    """

    def coordinates(self, X):
        """`vecd(X)`, shape `(..., dim)`."""
        return upper(symmetric(self._shaped(X, "X"), "X"))

    def point(self, y):
        """The symmetric matrices with coordinates `y`, shape `(..., k, k)`."""
        return invvecd(y)

    def _sound(self, X):
        S, sound, _ = where_symmetric(self._shaped(X, "X"))
        return upper(S), sound & (np.abs(S).max(axis=(-2, -1)) <= LARGEST)


class TangentSpace(_Flat):
    """The chart of a space at a public centre, seen as a flat space of its own.

    Its points are those of the space, its distance is that of their coordinates `log(center, X)`.
    `LogEuclidean(k)` is the tangent space of `AffineInvariant(k)` at the identity.

    Parameters
    ----------
    space : AffineInvariant, Sphere or KendallPlanar
    center : array of shape space.shape
    """

    def __init__(self, space, center):
        if space.flat or np.shape(center) != space.shape:
            raise ValueError(f"space is {space!r}, and center has shape {np.shape(center)}; "
                             "accepted are a curved space and one point of it")
        self.space, self.origin = space, space.points(center, "center").copy()  # may change there
        self.dim, self.shape = space.dim, space.shape

    def __repr__(self):
        return f"TangentSpace({self.space!r}, {self.origin.tolist()!r})"

    def coordinates(self, X):
        """Steps that lead from the centre to `X`, shape `(..., dim)`."""
        return self.space._log(self.origin, self.space.points(X, "X"))

    def point(self, y):
        """The points to which the steps `y` lead from the centre."""
        return self.space.exp(self.origin, y)

    def _sound(self, X):
        return self.space.where_log(self.origin, X)

    def within_reach(self, M, v):
        """The step `v`, or the part of it after which float64 holds the point."""
        return _held(self, M, v)


class _Curved(_Space):
    """A homogeneous space; heirs define the maps, and `points`, which checks.

    The maps take checked points, in blocks that stay in the cache: `_step`, which is total (at a
    cut point it takes one of the shortest geodesics), `_end`, `_far`, `_carry` and `_ambient`.
    `_block` says how many points are in a block, and how many threads work on blocks. Where the
    points to which `_carry` leads are at hand it is given them: to the frame at what it finds
    itself, rounding may make a difference.
    """

    flat, homogeneous, origin = False, True, None
    numbers = float

    def log(self, M, X):
        """Steps that lead from `M` to the points `X` on the shortest way, shape `(..., dim)`.

        ValueError where there is more than one.
        """
        steps = self._log(self.points(M, "M"), self.points(X, "X"))
        reach = self.injectivity_radius
        if reach < math.inf and (bad := ~(lengths(steps) < reach * (1 - CUT))).any():
            index = first(bad)
            raise ValueError(f"X{at(index)} is a cut point of M: no shortest way there is the only "
                             f"one; accepted are points nearer than {reach:.6g}")
        return steps

    def where_log(self, M, X):
        """Steps from `M` to the records `X`, 0 for what is no point, and which are points.

        `M` is one that `points` has returned. Of several shortest ways it takes one. What is no
        point is replaced in its place by `M`, so that a batch keeps its size and its layout.
        """
        X, sound = self._sound(X)
        here = sound[(..., *len(self.shape) * (None,))]
        steps = self._log(M, np.where(here, X, M))
        steps[~sound] = 0
        return steps, sound

    def exp(self, M, *steps):
        """Points to which the steps lead from `M`, each in the frame at the point reached."""
        M = self.points(M, "M")
        for v in steps:
            M = self._reached(self._exp(M, self._vectors(v, "step")))
        return M

    def chart(self, M, u, v):
        """Coordinates at `M` of the point to which `u` and then `v` lead, also of a cut point."""
        M = self.points(M, "M")
        return self._log(M, self.exp(M, u, v))

    def alike(self, M):
        """Points from which all looks, in coordinates, as it does from `M`.

        From the identity it does so for matrices: X ↦ L⁻¹X L⁻ᵀ is an isometry and takes `M` there.
        Rounding does not grow there with the condition number of `M`.
        """
        return M if self.origin is None else np.broadcast_to(self.origin, M.shape)

    def dist(self, X, Y):
        """Distances of points, shape `(...)`."""
        return self._dist(self.points(X, "X"), self.points(Y, "Y"))

    def transport(self, M, v, w):
        """Vectors `w` at `M`, carried along the steps `v`, in the frame at `exp(M, v)`."""
        v, w = self._vectors(v, "v"), self._vectors(w, "w")
        return self._carry(self.points(M, "M"), v, w)

    def frame(self, M):
        """The orthonormal vectors of the frame at `M`, shape `(..., dim, *shape)`.

        They are the derivatives of `exp` by the coordinates of the step, at 0.
        """
        return self._ambient(self._among(self.points(M, "M")), np.eye(self.dim))

    def mean(self, M, y, tolerance):
        """Step from `M` to the Fréchet mean of the points to which the steps `y` lead.

        By gradient descent, for many data sets at once: `M` has shape `(..., *shape)`, `y` has
        shape `(..., n, dim)`. A step is as long as the last one has shown the Hessian to ask for,
        within bounds under which the descent converges. It ends where the gradient, in the mean
        over the records, is no longer than `tolerance`: at the mean, where the records lie in a
        ball that has but one. ValueError where it is still longer after 1000 steps.
        """
        M, y = self.alike(self.points(M, "M")), self._vectors(y, "y")
        if y.ndim < 2 or y.shape[-2] == 0:
            raise ValueError(f"y has shape {y.shape}; accepted is (..., n, {self.dim}) with n ≥ 1")
        return descent(self, M, y, positive(tolerance, "tolerance"))

    _ends = 1  # by how much smaller blocks are of ends of steps

    def _log(self, M, X):
        tails = 2 * (len(self.shape),)
        return by_blocks(self._step, (M, X), tails, np.empty(self.dim), *self._block)

    def _exp(self, M, v):
        tails, made = (len(self.shape), 1), np.empty(self.shape, self.numbers)
        size, threads = self._block
        return by_blocks(self._end, (M, v), tails, made, max(size // self._ends, 1), threads)

    def _dist(self, X, Y):
        tails = 2 * (len(self.shape),)
        return by_blocks(self._far, (X, Y), tails, np.empty(()), *self._block)

    def _among(self, M):
        """Points with an axis more, along which they meet many points or vectors."""
        return M[(..., None) + len(self.shape) * (slice(None),)]

    def _reached(self, X):
        """The points that `_exp` has reached."""
        return X


class AffineInvariant(_Matrices, _Curved):
    """SPD matrices under the affine-invariant metric tr(M⁻¹V M⁻¹W), points of shape `(..., k, k)`.

    Reimherr, Bharath and Soto (2021), Sec. 5.1. A step is `vecd` of L⁻¹V L⁻ᵀ, with M = L Lᵀ the
    Cholesky decomposition.

    Parameters
    ----------
    k : int
        Size of the matrices.

    Attributes
    ----------
    dim : int
        k(k+1)/2.
    curvature : (float, float)
        (-1/2, 0), and (0, 0) where k = 1.
    """

    injectivity_radius = math.inf

    def __init__(self, k):
        super().__init__(k)
        self.curvature = (-0.5, 0.0) if self.k > 1 else (0.0, 0.0)
        self._block = blocks(k) if k < DIVIDES else (2**60, 1)  # large ones have their own

    def points(self, X, name="X"):
        """`X` as float64 SPD matrices; ValueError where one is none."""
        return positive_definite(self._shaped(X, name), name)

    def _sound(self, X):
        return where_spd(self._shaped(X, "X"))

    def log_volume(self, v):
        """Logarithm of the volume that `exp` makes of the unit of volume at the vectors `v`.

        The product of sinh(t)/t over the pairs of eigenvalues of `invvecd(v)`, t half their
        difference.
        """
        spectrum = eigenvalues(invvecd(self._vectors(v, "v")))
        i, j = np.triu_indices(self.k, 1)
        return log_sinhc(np.abs(spectrum[..., j] - spectrum[..., i]) / 2).sum(axis=-1)

    def jacobi(self, v):
        """What bends Jacobi fields along `v`.

        -(λ_i - λ_j)²/4 for a pair of eigenvalues of `invvecd(v)`, towards q_i q_jᵀ + q_j q_iᵀ.
        """
        spectrum, Q = np.linalg.eigh(invvecd(self._vectors(v, "v")))
        i, j = np.triu_indices(self.k, 1)
        bent = -(spectrum[..., j] - spectrum[..., i])**2 / 4
        axes = upper(congruent(Q[..., None, :, :], invvecd(np.eye(self.dim))))
        return np.concatenate([0 * spectrum, bent], axis=-1), axes.swapaxes(-2, -1)

    def chart(self, M, u, v):
        """Coordinates at `M` of the point to which `u` and then `v` lead, held by float64 or not.

        With A Aᵀ = exp U they are the logarithm of A exp(V) Aᵀ.
        """
        return upper(log_congruent(cholesky(expm(invvecd(u))), invvecd(v)))

    def within_reach(self, M, v):
        """The step `v`, or the part of it after which float64 holds the point."""
        return _held(self, M, v)

    def _step(self, M, X):
        return upper(relative_log(M, X))

    def _far(self, X, Y):
        return relative_distance(X, Y)

    def _end(self, M, v):
        with np.errstate(all="ignore"):  # what float64 does not hold, `_reached` refuses
            half, _, _ = function_of(lambda t: np.exp(t / 2), invvecd(v))
            return gram(product(cholesky(M), half))

    def _reached(self, X):
        try:
            return positive_definite(X, "X")
        except ValueError:
            index = first(~is_spd(X))
            raise ValueError(f"step{at(index)} leads where float64 holds no SPD matrix; accepted "
                             "are shorter steps") from None

    def _carry(self, M, v, w, there=None):
        half, _, _ = function_of(lambda t: np.exp(t / 2), invvecd(v))
        half = product(cholesky(M), half)
        there = self._reached(gram(half) if there is None else there)
        turn = product(inverse_triangular(cholesky(there)), half)
        return upper(congruent(turn, invvecd(w)))

    def _ambient(self, M, v):
        return congruent(cholesky(M), invvecd(v))


class _Round(_Curved):
    """Unit vectors of a real or a complex space; heirs say what of them a point is.

    Inside, the components come first, shape `(components, ...)`, so that loops run over the batch.
    The Householder reflection that turns the unit vector `M` onto the first axis turns the tangent
    vectors there into those with first entry 0: the others are their coordinates.
    """

    _ends = 4  # more memory would be asked for each time anew

    @property
    def _block(self):
        return max(2**17 // (self.dim + 1), 1), 1

    def _step(self, M, X):
        M, X = rows.ahead(M, X)
        M, X = self._inside(np.ascontiguousarray(M), X)
        chord = np.subtract(self._turned(M, X), M, order="C")  # in memory, too, on the way
        drop = rows.inner(chord, chord).real / 2  # 1 - cos of the angle
        W = self._lower(M, chord, -drop)
        sine = rows.norm(W)
        W[0] += (sine == 0) & (drop > 1)  # at a cut point, some direction
        W *= np.arctan2(sine, 1 - drop) / (math.sqrt(self._kappa) * np.where(sine > 0, sine, 1))
        return rows.behind(W)

    def _end(self, M, v):
        M, v = components_first(M, v)
        M, = self._inside(M)
        length = rows.norm(v)
        angle = self._angle(length)
        X = self._raise(M, v * (np.sin(angle) / np.where(length > 0, length, 1)))
        X += np.cos(angle) * M
        return rows.behind(self._landmarks(X))

    def _far(self, X, Y):
        """From the chords, which are exact near 0 and near π."""
        X, Y = self._inside(*components_first(X, Y))
        Y = self._turned(X, Y)
        return 2 / math.sqrt(self._kappa) * np.arctan2(rows.norm(Y - X), rows.norm(Y + X))

    def _carry(self, M, v, w, there=None):
        """What lies across the geodesic stays as it is, what lies along it turns with it."""
        if there is None:
            there = self.points(self._end(M, v), "exp(M, v)")
        M, there, v, w = components_first(M, there, v, w)
        M, there = self._inside(M, there)
        length = rows.norm(v)
        angle = self._angle(length)
        ahead, W = self._raise(M, v / np.where(length > 0, length, 1)), self._raise(M, w)
        W = W + rows.inner(ahead, W) * ((np.cos(angle) - 1) * ahead - np.sin(angle) * M)
        return components_last(self._lower(there, W, rows.inner(there, W)))

    def _ambient(self, M, v):
        M, v = components_first(M, v)
        W = self._landmarks(self._raise(*self._inside(M), v))
        return math.sqrt(self._kappa) * components_last(W)

    def _angle(self, length):
        """The angles that steps of this length cover."""
        angle = math.sqrt(self._kappa) * length
        if not (angle < FARTHEST).all():
            raise ValueError(f"a step has length {length.max():.6g}; accepted are those up to "
                             f"{FARTHEST / math.sqrt(self._kappa):.6g}, whose end float64 can tell")
        return angle

    def _lower(self, M, W, along):
        """The coordinates of what of the vectors `W` is across `M`; `along` are their products."""
        return rows.lowered(M, W, along)

    def _raise(self, M, v):
        """The tangent vectors at `M` with coordinates `v`."""
        return rows.raised(M, v)


class Sphere(_Round):
    """The sphere S^d of curvature κ, its points unit vectors of shape `(..., d + 1)`.

    Reimherr, Bharath and Soto (2021), Sec. 5.2. Distances are those on the sphere of radius 1/√κ:
    the angle over √κ. The circle, d = 1, is flat, and κ says only how long it is.

    Parameters
    ----------
    d : int
        Dimension.
    kappa : float
        Curvature κ > 0.

    Attributes
    ----------
    dim : int
        d.
    curvature : (float, float)
        (κ, κ), and (0, 0) for the circle.
    injectivity_radius : float
        π/√κ.
    """

    def __init__(self, d, kappa=1.0):
        self.dim, self.shape = integer(d, "d", 1), (int(d) + 1,)
        self.kappa = self._kappa = number(kappa, "kappa", 1e-150, 1e150, "1e-150 to 1e150")
        self.curvature = (self.kappa, self.kappa) if self.dim > 1 else (0.0, 0.0)
        self.injectivity_radius = math.pi / math.sqrt(self.kappa)

    def __repr__(self):
        return f"Sphere({self.dim}, {self.kappa!r})"

    def points(self, X, name="X"):
        """`X` as unit vectors, divided by their length; ValueError where that is not nearly 1."""
        P, sound = self._sound(X, name)
        if not sound.all():
            index, length = first(~sound), lengths(finite(X, name))
            raise ValueError(f"{name}{at(index)} has length {length[index]:.6g}; accepted are unit "
                             "vectors")
        return P

    def _sound(self, X, name="X"):
        X = self._shaped(X, name, real)
        with np.errstate(all="ignore"):
            square = np.einsum("...i,...i->...", X, X)
            sound = np.abs(square - 1) <= 2 * OFF
            exact = ~sound | (np.abs(square - 1) <= 8 * EPS)
            if not exact.all():
                X = np.where(exact[..., None], X, X / np.sqrt(square)[..., None])
        return X, sound

    def log_volume(self, v):
        """Logarithm of the volume that `exp` makes of the unit of volume at the vectors `v`."""
        angle = self._angle(lengths(self._vectors(v, "v")))
        return (self.dim - 1) * log_sinc(angle)

    def jacobi(self, v):
        """What bends Jacobi fields along `v`, κ‖v‖² across it."""
        length, axes = rows.basis(*components_first(self._vectors(v, "v")))
        return self.kappa * length[..., None]**2 * (np.arange(self.dim) > 0), axes

    def _dist(self, X, Y):
        """From the chords; of many components from the inner product, where that tells enough."""
        if self.dim < MANY:
            return super()._dist(X, Y)
        return rows.arcs(X, Y, 1 / math.sqrt(self._kappa), super()._dist)

    def _inside(self, *arrays):
        return arrays

    def _landmarks(self, X):
        return X

    def _turned(self, M, X):
        return X


class KendallPlanar(_Round):
    """Kendall's space of planar shapes, points complex arrays of shape `(..., landmarks)`.

    A shape is what is left of the landmarks when position, scale and rotation are put aside; any
    landmarks with that shape stand for it, and `exp` gives landmarks that are centred, of length
    1, and turned as those it started from. The space is the complex projective space of dimension
    `landmarks - 2`; distances are those of Kendall (1984), from 0 to π/2.

    Parameters
    ----------
    landmarks : int
        Number of landmarks, at least 3.

    Attributes
    ----------
    dim : int
        2 landmarks - 4.
    curvature : (float, float)
        (1, 4), and (4, 4) for triangles.
    injectivity_radius : float
        π/2.
    """

    injectivity_radius, numbers, _kappa = math.pi / 2, complex, 1.0

    def __init__(self, landmarks):
        self.landmarks = integer(landmarks, "landmarks", 3)
        self.dim, self.shape = 2 * self.landmarks - 4, (self.landmarks,)
        self.curvature = (1.0 if self.landmarks > 3 else 4.0, 4.0)

    def __repr__(self):
        return f"KendallPlanar({self.landmarks})"

    def points(self, X, name="X"):
        """`X` as centred landmarks of length 1; ValueError where all landmarks coincide."""
        P, sound = self._sound(X, name)
        if not sound.all():
            finite(X, name, complex_array)
            raise ValueError(f"{name}{at(first(~sound))} has landmarks that all coincide; accepted "
                             "are those that have a shape, at least two of them apart")
        return P

    def _sound(self, X, name="X"):
        X = self._shaped(X, name, complex_array)
        X = np.where(np.isfinite(X).all(axis=-1, keepdims=True), X, 0)
        X = by_blocks(self._preshape, (X,), (1,), np.empty(self.shape, complex), *self._block)
        return X, X.any(axis=-1)

    def log_volume(self, v):
        """Logarithm of the volume that `exp` makes of the unit of volume at the vectors `v`."""
        angle = self._angle(lengths(self._vectors(v, "v")))
        return log_sinc(2 * angle) + (self.dim - 2) * log_sinc(angle)

    def jacobi(self, v):
        """What bends Jacobi fields along `v`, 4‖v‖² along i v and ‖v‖² else.

        Coordinates are real parts, then imaginary parts, and transport commutes with i.
        """
        v, = components_first(self._vectors(v, "v"))
        half, axis = self.dim // 2, np.arange(self.dim)
        length, U = rows.basis(v[:half] + 1j * v[half:])
        axes = np.block([[U.real, -U.imag], [U.imag, U.real]])
        return length[..., None]**2 * np.select([axis == 0, axis == half], [0, 4], 1), axes

    def _preshape(self, X):
        """Landmarks about their mean, of length 1; 0 where all of them coincide."""
        X = rows.centred(*components_first(X))
        size = rows.norm(X)
        return rows.behind(np.where(size > OFF, X / np.where(size > OFF, size, 1), 0))

    def _inside(self, *arrays):
        """Unit vectors of dimension `landmarks - 1`, of centred landmarks of length 1."""
        return map(rows.without_mean, arrays)

    def _landmarks(self, X):
        """The centred landmarks that `_inside` maps to `X`."""
        return rows.with_mean(X)

    def _turned(self, M, X):
        """`X` turned towards `M`."""
        return X * rows.phase(rows.inner(X, M))[0]

    def _lower(self, M, W, along):
        pivot = rows.pivot(M)
        c = super()._lower(rows.exchanged(M, pivot), rows.exchanged(W, pivot), along)
        return np.concatenate([c.real, c.imag])

    def _raise(self, M, v):
        pivot, half = rows.pivot(M), self.dim // 2
        V = super()._raise(rows.exchanged(M, pivot), v[:half] + 1j * v[half:])
        return rows.exchanged(V, pivot)


def _held(space, M, v):
    """The step `v`, or the part of it after which float64 holds the point, by trial."""
    while v.any():
        try:
            space.exp(M, v)
            break
        except ValueError:
            v = v * 0.9
    return v
