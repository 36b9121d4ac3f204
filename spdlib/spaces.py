"""Spaces: the geometry of the data in orthonormal coordinates, one interface for all of them.

A space has a dimension `dim`, bounds `curvature = (low, high)` on its sectional curvature, and an
`injectivity_radius`; it is `flat`, and `homogeneous`, or not. Points are what the data are; tangent
vectors at a point are coordinates in an orthonormal frame there, shape `(..., dim)`. A step from a
point is a tangent vector at it.
"""

import math

import numpy as np

from ._checks import integer
from .spd import LOG_MAX, LOG_MIN, expm, invvecd, is_spd, is_symmetric, logm, vecd, widest_spread


class _Flat:
    """A space that one chart, `coordinates` and its inverse `point`, maps onto R^dim isometrically.

    Steps are added in the chart first, and the sum comes down once.
    """

    flat = homogeneous = True
    curvature = (0.0, 0.0)
    injectivity_radius = math.inf

    def __init__(self, k):
        self.k = integer(k, "k", 1)
        self.dim = self.k * (self.k + 1) // 2

    def __repr__(self):
        return f"{type(self).__name__}({self.k})"

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

    def mean(self, M, y):
        """Step from `M` to the Fréchet mean of the points to which the steps `y` lead."""
        return y.sum(axis=-2) / y.shape[-2]

    def within_reach(self, M, v):
        """The step `v`, or the part of it after which float64 holds the point: here all of it."""
        return v


class LogEuclidean(_Flat):
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


class Euclidean(_Flat):
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
