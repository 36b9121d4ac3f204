"""Flat spaces: SPD matrices in the log-Euclidean metric, symmetric matrices, charts."""

import numpy as np
from numpy.typing import ArrayLike

from ..spd import (LARGEST, LOG_MAX, LOG_MIN, expm, invvecd, log_of, symmetric, upper, where_log,
                   where_symmetric, widest_spread)
from .base import Flat, Space
from .matrices import Matrices, radius_held


class LogEuclidean(Matrices, Flat):
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
        return log_of(self.shaped(X, "X"), "X", "coordinates")

    def point(self, y):
        """The SPD matrices with coordinates `y`, shape `(..., k, k)`."""
        return expm(invvecd(y))

    def sound(self, X):
        return where_log(self.shaped(X, "X"), "coordinates")

    held = radius_held

    def within_reach(self, M, v):
        """The step `v`, shape `(dim,)`, or the part of it after which float64 holds the point.

        Along a step the largest eigenvalue of the logarithm, and the spread of all, are convex.
        """
        start = self.coordinates(M)
        spectra = (np.linalg.eigvalsh(invvecd(y)) for y in (start, start + v))
        here, there = (np.array([s[-1], -s[0], s[-1] - s[0]]) for s in spectra)
        most = np.array([LOG_MAX, -LOG_MIN, widest_spread(self.k)]) - 1e-9  # more than rounding
        beyond = there > most
        if (here >= most)[beyond].any():  # at the very edge
            return 0 * v
        return v * ((most - here)[beyond] / (there - here)[beyond]).min(initial=1.0)


class Euclidean(Matrices, Flat):
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
        return upper(symmetric(self.shaped(X, "X"), "X"))

    def point(self, y):
        """The symmetric matrices with coordinates `y`, shape `(..., k, k)`."""
        return invvecd(y)

    def sound(self, X):
        S, sound, _ = where_symmetric(self.shaped(X, "X"))
        return upper(S), sound & (np.abs(S).max(axis=(-2, -1)) <= LARGEST)


class TangentSpace(Flat):
    """The chart of a space at a public centre, seen as a flat space of its own.

    Its points are those of the space, its distance is that of their coordinates `log(center, X)`.
    `LogEuclidean(k)` is the tangent space of `AffineInvariant(k)` at the identity.

    Parameters
    ----------
    space : AffineInvariant, Sphere or KendallPlanar
    center : array of shape space.shape
    """

    def __init__(self, space: Space, center: ArrayLike):
        if space.flat or np.shape(center) != space.shape:
            raise ValueError(f"space is {space!r}, and center has shape {np.shape(center)}; "
                             "accepted are a curved space and one point of it")
        self.dim, self.shape, self.numbers = space.dim, space.shape, space.numbers
        self.__setstate__({"space": space, "origin": space.points(center, "center")})

    def __setstate__(self, state):  # of a copy or a pickle, too, whose arrays are new
        vars(self).update(state | {"origin": state["origin"].copy()})
        self.origin.flags.writeable = False

    def __repr__(self):
        return f"TangentSpace({self.space!r}, {self.origin.tolist()!r})"

    def coordinates(self, X):
        """Steps that lead from the centre to `X`, shape `(..., dim)`."""
        return self.space.steps(self.origin, self.space.points(X, "X"))

    def point(self, y):
        """The points to which the steps `y` lead from the centre."""
        return self.space.exp(self.origin, y)

    def sound(self, X):
        return self.space.where_log(self.origin, X)

    def evened(self, X):
        """Arrays in which what is rounding of a narrower type has been mended."""
        return self.space.evened(X)

    def held(self, M):
        """Radius up to which a ball about `M` has only points that float64 holds."""
        return self.space.held(self.origin) - float(self.space.dist(self.origin, M))
