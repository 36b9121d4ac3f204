"""The hyperbolic plane, written by hand: a space of which spdlib knows nothing."""

import math

import numpy as np

from spdlib.spaces import Curved


class Hyperbolic(Curved):
    """The hyperbolic plane, points (√(1 + ‖x‖²), x) of R³, a sheet of a hyperboloid.

    The boost that takes the vertex to M takes the frame there to that at M.
    """

    dim, shape, curvature = 2, (3,), (-1.0, -1.0)
    injectivity_radius, homogeneous = math.inf, True
    origin = np.array([1.0, 0, 0])

    def sound(self, X):
        X = self.shaped(X, "X").astype(float)
        x = np.where((np.abs(X) < 1e150).all(axis=-1, keepdims=True), X[..., 1:], np.nan)
        height = np.sqrt(1 + (x * x).sum(axis=-1))
        sound = np.abs(X[..., 0] - height) <= 1e-6 * height
        return np.concatenate([height[..., None], x], axis=-1), sound

    def held(self, M):
        return 6 - float(np.arccosh(M[0]))  # rounding grows with the square of the height

    def _step(self, M, X):
        x = lowered(M, X)
        sine = np.linalg.norm(x, axis=-1, keepdims=True)
        return x * np.divide(np.arcsinh(sine), sine, out=np.ones_like(sine), where=sine > 0)

    def _end(self, M, v):
        return raised(M, from_vertex(v))

    def carried(self, M, v, w, there=None):
        there = self._end(M, v) if there is None else there
        across = np.concatenate([np.zeros_like(w[..., :1]), w], axis=-1)
        return lowered(there, raised(M, raised(from_vertex(v), across)))


def from_vertex(v):
    """The points to which the steps `v` lead from the vertex, those of longer ones at 300."""
    rho = np.linalg.norm(v, axis=-1, keepdims=True)
    reach = np.minimum(rho, 300)  # the Laplace law has draws that float64 does not hold
    sine = np.divide(np.sinh(reach), rho, out=np.ones_like(rho), where=rho > 0)
    return np.concatenate([np.cosh(reach), v * sine], axis=-1)


def raised(M, X):
    """What the boost that takes the vertex to `M` makes of vectors, shape `(..., 3)`."""
    m, along = M[..., 1:], (M[..., 1:] * X[..., 1:]).sum(axis=-1, keepdims=True)
    rest = X[..., 1:] + (X[..., :1] + along / (1 + M[..., :1])) * m
    return np.concatenate([M[..., :1] * X[..., :1] + along, rest], axis=-1)


def lowered(M, X):
    """What the boost that takes `M` to the vertex makes of vectors, but for their height."""
    return raised(M * [1, -1, -1], X)[..., 1:]
