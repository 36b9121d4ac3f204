"""Spaces: the geometry of the data in orthonormal coordinates, one interface for all of them.

A space has a dimension `dim`, the `shape` of a point, bounds `curvature = (low, high)` on its
sectional curvature, and an `injectivity_radius`; it is `flat`, and `homogeneous`, or not; `origin`
is the public centre that suggests itself, or None. Points are what the data are; tangent vectors at
a point are coordinates in an orthonormal frame there, shape `(..., dim)`. A step from a point is a
tangent vector at it. The frame goes with the array that stands for the point; nothing that a user
can see of points depends on it.
"""

import math

import numpy as np
from scipy.linalg import helmert
from scipy.linalg.lapack import dgejsv

from ._checks import at, complex_finite, finite, first, integer, positive
from .spd import (
    LOG_MAX,
    LOG_MIN,
    expm,
    invvecd,
    is_spd,
    is_symmetric,
    logm,
    powm,
    vecd,
    widest_spread,
)

OFF = 1e-6  # so far from length 1 may a unit vector be
CUT = 1e-8  # so close, in radians, to the cut locus a direction means nothing
STEPS = 1000  # of a descent to a mean


class _Flat:
    """A space that one chart, `coordinates` and its inverse `point`, maps onto R^dim isometrically.

    Steps are added in the chart first, and the sum comes down once.
    """

    flat = homogeneous = True
    curvature = (0.0, 0.0)
    injectivity_radius = math.inf

    def log(self, M, X):
        """Steps that lead from `M` to the points `X`, shape `(..., dim)`."""
        return self.coordinates(X) - self.coordinates(M)

    def exp(self, M, *steps):
        """Points to which the steps lead from `M`, one after the other."""
        return self.point(self.coordinates(M) + sum(steps))

    def dist(self, X, Y):
        """Distances of points, shape `(...)`."""
        return np.linalg.norm(self.log(X, Y), axis=-1)

    def log_volume(self, v):
        """Logarithm of the volume that `exp` makes of the unit of volume at the vectors `v`: 0."""
        return np.zeros(np.shape(v)[:-1])

    def transport(self, M, v, w):
        """Vectors `w` at `M`, carried along the steps `v` without turning."""
        return np.broadcast_to(w, np.broadcast_shapes(np.shape(v), np.shape(w)))

    def mean(self, M, y, tolerance=0):
        """Step from `M` to the Fréchet mean of the points to which the steps `y` lead: exact."""
        return y.sum(axis=-2) / y.shape[-2]

    def chart(self, M, *steps):
        """Coordinates at `M` of the point to which the steps lead from it: their sum."""
        return sum(steps)

    def within_reach(self, M, v):
        """The step `v`, or the part of it after which float64 holds the point: here all of it."""
        return v


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
        return vecd(logm(X))

    def point(self, y):
        """The SPD matrices with coordinates `y`, shape `(..., k, k)`."""
        return expm(invvecd(y))

    def contains(self, X):
        """Which matrices are points of the space, booleans of shape `(...)`."""
        return is_spd(X)

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
        return vecd(X)

    def point(self, y):
        """The symmetric matrices with coordinates `y`, shape `(..., k, k)`."""
        return invvecd(y)

    def contains(self, X):
        """Which matrices are points of the space, booleans of shape `(...)`."""
        return is_symmetric(X)


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
        self.space, self.origin = space, space.points(center, "center")
        self.dim, self.shape = space.dim, space.shape

    def __repr__(self):
        return f"TangentSpace({self.space!r}, {self.origin.tolist()!r})"

    def coordinates(self, X):
        """Steps that lead from the centre to `X`, shape `(..., dim)`."""
        return self.space._log(self.origin, self.space.points(X, "X"))

    def point(self, y):
        """The points to which the steps `y` lead from the centre."""
        return self.space.exp(self.origin, y)

    def contains(self, X):
        """Which arrays are points of the space, booleans of shape `(...)`."""
        return self.space.contains(X)

    def within_reach(self, M, v):
        """The step `v`, or the part of it after which float64 holds the point."""
        return self.space.within_reach(M, v)


class _Curved:
    """A homogeneous space; heirs define the maps on checked points.

    They are `_log`, which is total (at a cut point it takes one of the shortest geodesics),
    `_exp`, `_dist` and `_carry`, and `points`, which checks.
    """

    flat, homogeneous, origin = False, True, None

    def log(self, M, X):
        """Steps that lead from `M` to the points `X` on the shortest way, shape `(..., dim)`.

        ValueError where there is more than one.
        """
        M, X = self.points(M, "M"), self.points(X, "X")
        reach = self.injectivity_radius * (1 - CUT)
        if (bad := ~(self._dist(M, X) < reach)).any():
            index = first(bad)
            raise ValueError(f"X{at(index)} is a cut point of M: no shortest way there is the only "
                             f"one; accepted are points nearer than {self.injectivity_radius:.6g}")
        return self._log(M, X)

    def exp(self, M, *steps):
        """Points to which the steps lead from `M`, each in the frame at the point reached."""
        M = self.points(M, "M")
        for v in steps:
            M = self._exp(M, finite(v, "step"))
        return M

    def dist(self, X, Y):
        """Distances of points, shape `(...)`."""
        return self._dist(self.points(X, "X"), self.points(Y, "Y"))

    def transport(self, M, v, w):
        """Vectors `w` at `M`, carried along the steps `v`, in the frame at `exp(M, v)`."""
        return self._carry(self.points(M, "M"), finite(v, "v"), finite(w, "w"))

    def frame(self, M):
        """The orthonormal vectors of the frame at `M`, shape `(..., dim, *shape)`."""
        M = self.points(M, "M")
        return self._ambient(M[(..., None) + len(self.shape) * (slice(None),)], np.eye(self.dim))

    def mean(self, M, y, tolerance):
        """Step from `M` to the Fréchet mean of the points to which the steps `y` lead.

        By gradient descent, for many data sets at once: `M` has shape `(..., *shape)`, `y` has
        shape `(..., n, dim)`. The length of the step is the best one for the bounds between which
        comparison puts the eigenvalues of the Hessian; the descent ends where the gradient is no
        longer than `tolerance`. ValueError where it is after `STEPS` steps.
        """
        M = self.points(M, "M")
        points = (slice(None),) * len(self.shape)
        X = self._exp(M[(..., None) + points], y)
        x = np.broadcast_to(M, X.shape[:-1 - len(self.shape)] + M.shape[-len(self.shape):]).copy()
        batch = x.shape[:-len(self.shape)]
        x, X = x.reshape(-1, *self.shape), X.reshape(-1, *X.shape[-1 - len(self.shape):])
        active = np.arange(len(x))
        for _ in range(STEPS):
            steps = self._log(x[active][(slice(None), None) + points], X[active])
            gradient = steps.mean(axis=-2)
            size = np.linalg.norm(gradient, axis=-1)
            far = ~(size <= tolerance)
            if not far.any():
                return self._log(M, x.reshape(batch + self.shape))
            active, steps, gradient = active[far], steps[far], gradient[far]
            s = math.sqrt(max(-self.curvature[0], 0)) * np.linalg.norm(steps, axis=-1).max(axis=-1)
            highest = np.divide(s, np.tanh(s), where=s > 0, out=np.ones_like(s))
            x[active] = self._exp(x[active], gradient * (2 / (1 + highest))[:, None])
        raise ValueError(f"the descent to the mean stands at a gradient of {size.max():.6g} after "
                         f"{STEPS} steps; accepted is {tolerance:.6g}")

    def chart(self, M, *steps):
        """Coordinates at `M` of the point to which the steps lead from it, one after the other.

        They are there for all steps, also where the point is a cut point, or beyond float64.
        """
        M = self.points(M, "M")
        return self._log(M, self.exp(M, *steps))

    def sees(self, M, X):
        """Which arrays are points of the space with coordinates at `M`, booleans of shape (...)."""
        return self.contains(X)

    def within_reach(self, M, v):
        """The step `v`, or the part of it after which float64 holds the point: here all of it."""
        return v


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

    @property
    def curvature(self):
        return (-0.5, 0.0) if self.k > 1 else (0.0, 0.0)

    def points(self, X, name="X"):
        """`X` as SPD matrices; ValueError where it is none."""
        X = np.asarray(X)
        if X.shape[-2:] != self.shape:
            raise ValueError(f"{name} has shape {X.shape}; accepted is (..., {self.k}, {self.k})")
        return powm(X, 1)

    def contains(self, X):
        """Which matrices are points of the space, booleans of shape `(...)`."""
        return is_spd(X)

    def log_volume(self, v):
        """Logarithm of the volume that `exp` makes of the unit of volume at the vectors `v`.

        The product of sinh(t)/t, t = |λ_i - λ_j|/2, over the pairs of eigenvalues of `invvecd(v)`.
        """
        eigenvalues = np.linalg.eigvalsh(invvecd(v))
        i, j = np.triu_indices(self.k, 1)
        t = np.abs(eigenvalues[..., j] - eigenvalues[..., i]) / 2
        return log_sinhc(t).sum(axis=-1)

    def chart(self, M, u, v):
        """Coordinates at `M` of the point to which the steps `u` and `v` lead from it.

        With A Aᵀ = exp U, that is the logarithm of A exp(V) Aᵀ: by the singular values of
        A Q exp(Λ/2), V = Q Λ Qᵀ, where they are far apart by Jacobi's method, to which columns of
        any size are equal. From e^1400 on a ratio of eigenvalues is no float, and counts as that.
        """
        A = np.linalg.cholesky(expm(invvecd(u)))
        eigenvalues, Q = np.linalg.eigh(invvecd(v))
        top = eigenvalues[..., -1:]
        columns = A @ Q * np.exp(np.maximum(eigenvalues - top, -1400) / 2)[..., None, :]
        W, s, _ = np.linalg.svd(columns)
        for i in map(tuple, np.argwhere(s[..., 0] > 1e4 * s[..., -1])):
            s[i], W[i] = _jacobi(columns[i])
        logarithm = (W * (top + 2 * np.log(s))[..., None, :]) @ np.swapaxes(W, -2, -1)
        return vecd(logarithm / 2 + np.swapaxes(logarithm, -2, -1) / 2)

    def sees(self, M, X):
        """Which matrices are SPD, and are so to a float64 that measures them by `M`."""
        sound = self.contains(X)
        X = np.where(sound[..., None, None], np.asarray(X, float), np.eye(self.k))
        L = np.linalg.inv(np.linalg.cholesky(self.points(M, "M")))
        with np.errstate(all="ignore"):
            return sound & is_spd(_congruent(L, X))

    def within_reach(self, M, v):
        """The steps `v`, shape (..., dim), or the parts after which float64 holds the points.

        Along a step neither the logarithm of the largest eigenvalue nor the spread of all grows
        faster than that of the step itself.
        """
        ends = np.log(np.linalg.eigvalsh(self.points(M, "M")))[[0, -1]]
        low, high = np.linalg.eigvalsh(invvecd(v))[..., [0, -1]].T
        here = np.array([ends[1], -ends[0], ends[1] - ends[0]])
        most = np.array([LOG_MAX, -LOG_MIN, widest_spread(self.k)]) - 1e-9  # more than rounding
        growth = np.stack([high, -low, high - low], axis=-1)
        room = np.maximum(most - here, 0)
        share = np.where(growth > room, room / np.where(growth > room, growth, 1), 1)
        return v * share.min(axis=-1)[..., None]

    def _log(self, M, X):
        L = np.linalg.inv(np.linalg.cholesky(M))
        return vecd(logm(_congruent(L, X)))

    def _exp(self, M, v):
        return _congruent(np.linalg.cholesky(M), expm(invvecd(v)))

    def _dist(self, X, Y):
        return np.linalg.norm(self._log(X, Y), axis=-1)

    def _carry(self, M, v, w):
        L, half = np.linalg.cholesky(M), expm(invvecd(v) / 2)
        there = np.linalg.inv(np.linalg.cholesky(_congruent(L, half @ half)))
        return vecd(_congruent(there @ L @ half, invvecd(w)))

    def _ambient(self, M, v):
        return _congruent(np.linalg.cholesky(M), invvecd(v))


class _Round(_Curved):
    """Unit vectors of a real or complex space; heirs say what of them a point is.

    The Householder reflection that turns the vector onto the first axis turns the tangent vectors
    there into those with first entry 0: the other entries are the coordinates.
    """

    def _unit_step(self, M, v):
        """Angle of the step `v`, shape (..., 1), and its direction, a unit vector at `M`."""
        angle = math.sqrt(self._kappa) * np.linalg.norm(v, axis=-1, keepdims=True)
        unit = v * math.sqrt(self._kappa) / np.where(angle > 0, angle, 1)
        return angle, self._raise(M, unit)

    def _move(self, M, v):
        angle, direction = self._unit_step(M, v)
        X = np.cos(angle) * M + np.sin(angle) * direction
        return X / np.linalg.norm(X, axis=-1, keepdims=True)

    def _turn(self, M, v, w):
        """Vectors `w` at `M` after the step `v`: what lies across the geodesic stays as it is."""
        angle, direction = self._unit_step(M, v)
        W = self._raise(M, w)
        along = (direction.conj() * W).sum(axis=-1, keepdims=True)
        return W + along * ((np.cos(angle) - 1) * direction - np.sin(angle) * M)

    def _raise(self, M, v):
        """The tangent vectors at `M` with coordinates `v`."""
        c = self._from_real(v)
        c = np.concatenate([np.zeros_like(c[..., :1]), c], axis=-1)
        return _reflect(M, c)

    def _lower(self, M, W):
        """The coordinates of tangent vectors at `M`."""
        return self._to_real(_reflect(M, W)[..., 1:])


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
    injectivity_radius : float
        π/√κ.
    """

    def __init__(self, d, kappa=1.0):
        self.dim, self.kappa = integer(d, "d", 1), positive(kappa, "kappa")
        self.shape, self._kappa = (self.dim + 1,), self.kappa
        self.curvature = (self.kappa, self.kappa) if self.dim > 1 else (0.0, 0.0)
        self.injectivity_radius = math.pi / math.sqrt(self.kappa)

    def __repr__(self):
        return f"Sphere({self.dim}, {self.kappa!r})"

    def points(self, X, name="X"):
        """`X` as unit vectors, divided by their length; ValueError where that is not nearly 1."""
        X = finite(X, name)
        if X.shape[-1:] != self.shape:
            raise ValueError(f"{name} has shape {X.shape}; accepted is (..., {self.dim + 1})")
        length = np.linalg.norm(X, axis=-1, keepdims=True)
        if (bad := np.abs(length[..., 0] - 1) > OFF).any():
            index = first(bad)
            raise ValueError(f"{name}{at(index)} has length {length[index][0]:.6g}; accepted are "
                             "unit vectors")
        return X / length

    def contains(self, X):
        """Which arrays are points of the space, booleans of shape `(...)`."""
        X = np.asarray(X, float)
        with np.errstate(all="ignore"):
            return np.abs(np.linalg.norm(X, axis=-1) - 1) <= OFF

    def log_volume(self, v):
        """Logarithm of the volume that `exp` makes of the unit of volume at the vectors `v`."""
        angle = math.sqrt(self.kappa) * np.linalg.norm(v, axis=-1)
        return (self.dim - 1) * log_sinc(angle)

    def _log(self, M, X):
        W = self._lower(M, X)
        length = np.linalg.norm(W, axis=-1, keepdims=True)
        W = np.where(length > 0, W / np.where(length > 0, length, 1), np.eye(self.dim)[0])
        return self._dist(M, X)[..., None] * W

    def _exp(self, M, v):
        return self._move(M, v)

    def _dist(self, X, Y):
        chords = (np.linalg.norm(Z, axis=-1) for Z in (X - Y, X + Y))
        return 2 * np.arctan2(*chords) / math.sqrt(self.kappa)

    def _carry(self, M, v, w):
        return self._lower(self._move(M, v), self._turn(M, v, w))

    def _ambient(self, M, v):
        return self._raise(M, v)

    def _from_real(self, v):
        return v

    _to_real = _from_real


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

    injectivity_radius, _kappa = math.pi / 2, 1.0

    def __init__(self, landmarks):
        self.landmarks = integer(landmarks, "landmarks", 3)
        self.dim, self.shape = 2 * self.landmarks - 4, (self.landmarks,)
        self.curvature = (1.0 if self.landmarks > 3 else 4.0, 4.0)
        self._helmert = helmert(self.landmarks)

    def __repr__(self):
        return f"KendallPlanar({self.landmarks})"

    def points(self, X, name="X"):
        """`X` as centred landmarks of length 1; ValueError where all landmarks coincide."""
        X = complex_finite(X, name)
        if X.shape[-1:] != self.shape:
            raise ValueError(f"{name} has shape {X.shape}; accepted is (..., {self.landmarks})")
        size = np.abs(X).max(axis=-1, keepdims=True)
        X = X / np.where(size > 0, size, 1)
        X = X - X.mean(axis=-1, keepdims=True)
        length = np.linalg.norm(X, axis=-1, keepdims=True)
        if (bad := ~(length[..., 0] > OFF)).any():
            raise ValueError(f"{name}{at(first(bad))} has coinciding landmarks; accepted are those "
                             "that have a shape, at least two of them apart")
        return X / length

    def contains(self, X):
        """Which arrays are points of the space, booleans of shape `(...)`."""
        X = np.asarray(X, complex)
        with np.errstate(all="ignore"):
            apart = np.abs(X - X.mean(axis=-1, keepdims=True)).max(axis=-1)
            return np.isfinite(X).all(axis=-1) & (apart > OFF * np.abs(X).max(axis=-1))

    def log_volume(self, v):
        """Logarithm of the volume that `exp` makes of the unit of volume at the vectors `v`."""
        angle = np.linalg.norm(v, axis=-1)
        return log_sinc(2 * angle) + (self.dim - 2) * log_sinc(angle)

    def _log(self, M, X):
        M, X = self._preshape(M), self._preshape(X)
        across, distance = self._aligned(M, X)
        length = np.linalg.norm(across, axis=-1, keepdims=True)
        unit = np.where(length > 0, across / np.where(length > 0, length, 1), np.eye(self.dim)[0])
        return distance[..., None] * unit

    def _exp(self, M, v):
        return self._move(self._preshape(M), v) @ self._helmert

    def _dist(self, X, Y):
        return self._aligned(self._preshape(X), self._preshape(Y))[1]

    def _carry(self, M, v, w):
        M = self._preshape(M)
        return self._lower(self._move(M, v), self._turn(M, v, w))

    def _ambient(self, M, v):
        return self._raise(self._preshape(M), v) @ self._helmert

    def _preshape(self, X):
        """Unit vectors in the coordinates of centred landmarks, shape `(..., landmarks - 1)`."""
        return X @ self._helmert.T

    def _aligned(self, M, X):
        """What of the preshapes `X`, turned towards `M`, is across `M`, and their distance."""
        inner = (M.conj() * X).sum(axis=-1, keepdims=True)
        size = np.abs(inner)
        phase = np.where(size > 0, inner.conj() / np.where(size > 0, size, 1), 1)
        across = self._lower(M, X * phase)
        return across, np.arctan2(np.linalg.norm(across, axis=-1), size[..., 0])

    def _from_real(self, v):
        return v[..., :self.dim // 2] + 1j * v[..., self.dim // 2:]

    def _to_real(self, c):
        return np.concatenate([c.real, c.imag], axis=-1)


def log_sinc(t):
    """log(sin(t)/t) for t from 0 to π, -∞ at π."""
    with np.errstate(divide="ignore"):
        return np.log(np.maximum(np.sinc(np.asarray(t) / math.pi), 0))


def log_sinhc(t):
    """log(sinh(t)/t) for t ≥ 0, where neither overflows."""
    t = np.asarray(t)
    positive = np.where(t > 0, t, 1)
    return np.where(t > 0, t + np.log(-np.expm1(-2 * positive) / (2 * positive)), 0)


def _jacobi(A):
    """Singular values of a matrix, and the vectors on its left; small ones to as many digits."""
    s, W, _, scale, _, info = dgejsv(A, joba=0, jobv=3, jobr=0, jobt=1, jobp=1)
    if info:
        raise ValueError(f"the singular values of {A!r} were not found")
    return s * scale[0] / scale[1], W


def _congruent(A, X):
    """A X Aᵀ, symmetric to the last bit."""
    product = A @ X @ np.swapaxes(A, -2, -1)
    return product / 2 + np.swapaxes(product, -2, -1) / 2


def _reflect(M, W):
    """`W` under the reflection that turns the unit vectors `M` onto the first axis."""
    size = np.abs(M[..., :1])
    phase = np.where(size > 0, M[..., :1] / np.where(size > 0, size, 1), 1)
    axis = M + np.eye(M.shape[-1])[0] * phase
    return W - axis * ((axis.conj() * W).sum(axis=-1, keepdims=True) / (1 + size))
