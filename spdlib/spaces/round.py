"""Round spaces: the sphere, and Kendall's space of planar shapes."""

import math

import numpy as np

from .._checks import EPS, complex_array, finite, integer, number, real
from .._parallel import by_blocks, squares
from . import components as rows
from .base import Curved
from .components import components_first, lengths
from .functions import log_sinc

OFF = 1e-6  # so far from length 1 may a unit vector be
CLEAR = 0.95  # cosines below it have all digits of their angle
MANY = 6  # dimensions, from which a pass over the components costs more than all else
FARTHEST = 1e8  # radians, after which rounding has moved the end of a step by 1e-8


class Round(Curved):
    """Unit vectors of a real or a complex space; heirs say what of them a point is.

    Inside, the components come first, shape `(components, ...)`, so that loops run over the batch.
    The Householder reflection that turns the unit vector `M` onto the first axis turns the tangent
    vectors there into those with first entry 0: the others are their coordinates.
    """

    homogeneous = True

    @property
    def block(self):
        return max(2**15 // (self.dim + 1), 1), 1

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

    def carried(self, M, v, w, there=None):
        """What lies across the geodesic stays as it is, what lies along it turns with it."""
        if there is None:
            there = self.points(self._end(M, v), "exp(M, v)")
        M, there, v, w = components_first(M, there, v, w)
        M, there = self._inside(M, there)
        length = rows.norm(v)
        angle = self._angle(length)
        ahead, W = self._raise(M, v / np.where(length > 0, length, 1)), self._raise(M, w)
        W = W + rows.inner(ahead, W) * ((np.cos(angle) - 1) * ahead - np.sin(angle) * M)
        w = self._lower(there, W, rows.inner(there, W))
        return np.asarray(rows.behind(w), order="C")

    def log_volume(self, v):
        """Logarithm of the volume that `exp` makes of the unit of volume at the vectors `v`."""
        length = lengths(self.vectors(v, "v"))
        self._angle(length)
        return self.volume_bound(length)

    def frame(self, M):
        """The orthonormal vectors of the frame at `M`, shape `(..., dim, *shape)`.

        They are the derivatives of `exp` by the coordinates of the step, at 0.
        """
        M, v = components_first(self.among(self.points(M, "M")), np.eye(self.dim))
        W = self._landmarks(self._raise(*self._inside(M), v))
        return math.sqrt(self._kappa) * np.asarray(rows.behind(W), order="C")

    def _angle(self, length):
        """The angles that steps of this length cover."""
        angle = math.sqrt(self._kappa) * length
        if not (angle < FARTHEST).all():
            raise ValueError(f"a step has length {length.max():.6g}; accepted are those up to "
                             f"{FARTHEST / math.sqrt(self._kappa):.6g}, whose end float64 can tell")
        return angle

    def _lower(self, M, W, along):
        """The coordinates of what of the vectors `W` is across `M`; `along` are their products."""
        turn, size = rows.phase(M[0])
        coordinates = M[1:] * ((along + np.conj(turn) * W[0]) / (-1 - size))
        coordinates += W[1:]
        return coordinates

    def _raise(self, M, v):
        """The tangent vectors at `M` with coordinates `v`."""
        turn, size = rows.phase(M[0])
        share = rows.inner(M[1:], v) / (1 + size)
        return np.concatenate([-((M[0] + turn) * share)[None], v - M[1:] * share])


class Sphere(Round):
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

    def __init__(self, d: int, kappa: float = 1.0):
        self.d = self.dim = integer(d, "d", 1)
        self.shape = (self.dim + 1,)
        self.kappa = self._kappa = number(kappa, "kappa", 1e-150, 1e150, "1e-150 to 1e150")
        self.curvature = (self.kappa, self.kappa) if self.dim > 1 else (0.0, 0.0)
        self.injectivity_radius = self.diameter = math.pi / math.sqrt(self.kappa)

    def sound(self, X):
        X = real(self.shaped(X, "X"), "X")
        with np.errstate(all="ignore"):
            square = squares(X)
            sound = np.abs(square - 1) <= 2 * OFF
            exact = ~sound | (np.abs(square - 1) <= 8 * EPS)
            if not exact.all():
                X = np.where(exact[..., None], X, X / np.sqrt(square)[..., None])
        return X, sound

    def _amiss(self, X, name, index):
        length = lengths(finite(X, name))[index]
        return f"has length {length:.6g}; accepted are unit vectors"

    def distances(self, X, Y):
        """From the chords; of many components from the inner product, where that tells enough."""
        chords = super().distances
        if self.dim < MANY:
            return chords(X, Y)
        cosine = np.einsum("...i,...i->...", X, Y)  # towards 1 and -1 it has ever fewer digits
        clear = np.abs(cosine) < CLEAR
        distance = 1 / math.sqrt(self._kappa) * np.arccos(np.where(clear, cosine, 0))
        return distance if clear.all() else np.where(clear, distance, chords(X, Y))

    def _inside(self, *arrays):
        return arrays

    def _landmarks(self, X):
        return X

    def _turned(self, M, X):
        return X


class KendallPlanar(Round):
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

    injectivity_radius = diameter = math.pi / 2
    numbers, _kappa = complex, 1.0

    def __init__(self, landmarks: int):
        self.landmarks = integer(landmarks, "landmarks", 3)
        self.dim, self.shape = 2 * self.landmarks - 4, (self.landmarks,)
        self.curvature = (1.0 if self.landmarks > 3 else 4.0, 4.0)

    def sound(self, X):
        X = self.shaped(X, "X")
        X = np.where(np.isfinite(X).all(axis=-1, keepdims=True), X, 0)
        X = by_blocks(self._preshape, (X,), (1,), np.empty(self.shape, complex), *self.block)
        return X, X.any(axis=-1)

    def _amiss(self, X, name, index):
        finite(X, name, complex_array)
        return ("has landmarks that all coincide; accepted are those that have a shape, at least "
                "two of them apart")

    def volume_bound(self, rho):
        """`log_volume` at this length, in all directions."""
        return log_sinc(2 * rho) + (self.dim - 2) * log_sinc(rho)

    def jacobi(self, v):
        """What bends Jacobi fields along `v`, 4‖v‖² along i v and ‖v‖² else.

        Coordinates are real parts, then imaginary parts, and transport commutes with i.
        """
        v, = components_first(self.vectors(v, "v"))
        half, axis = self.dim // 2, np.arange(self.dim)
        length, U = rows.basis(v[:half] + 1j * v[half:])
        axes = np.block([[U.real, -U.imag], [U.imag, U.real]])
        return length[..., None]**2 * np.select([axis == 0, axis == half], [0, 4], 1), axes

    def _preshape(self, X):
        """Landmarks about their mean, of length 1; 0 where all of them coincide."""
        X, = components_first(X)
        largest = np.maximum(np.abs(X.real).max(axis=0), np.abs(X.imag).max(axis=0))
        X = X / np.maximum(largest, 2.0**-1022)  # quotients of finer ones may be infinite
        X = X - rows.total(X) / len(X)
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
