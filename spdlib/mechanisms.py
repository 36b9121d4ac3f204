"""Mechanisms: noise of a calibrated scale, added in the coordinates where the metric is the ordinary one.

`rng` is everywhere a `numpy.random.Generator` or a seed; None takes fresh entropy from the system. NumPy's generators
are not cryptographic, and float64 noise is not proof against an attack on its low-order bits (Mironov 2012).
"""

import math

import numpy as np

from .calibration import _epsilon, _positive, _scale, l2_scale, sigma_analytic, sigma_classical
from .sampling import sample_laplace
from .spd import _finite, expm, invvecd, logm, vecd

SIGMA = {"analytic": sigma_analytic, "classical": sigma_classical}


class _Tangent:
    """Noise in the log-Euclidean coordinates, where every mechanism below but the last has its sensitivity."""

    def perturb(self, y, rng=None):
        """Coordinates `y` of shape `(..., d)` with fresh noise, same shape. ValueError where `y` is not finite."""
        y = _finite(y, "y")
        return y + self._noise(y.shape, np.random.default_rng(rng))

    def release(self, M, rng=None):
        """Private version of the summary `M`, SPD, shape `(..., k, k)`; every matrix of a batch gets noise of its own."""
        return expm(invvecd(self.perturb(vecd(logm(M)), rng)))


class TangentGaussian(_Tangent):
    """The tangent Gaussian mechanism (Definition 2, Algorithm 1), (ε, δ)-DP for an SPD-valued summary.

    `sensitivity` is that of the summary in log-Euclidean distance. `sigma`, in the same unit, is the standard deviation
    of the noise in each of the `d` coordinates, and `mu = sensitivity / sigma` its Gaussian-DP parameter.
    `calibration` is "analytic" (Theorem 2.2, any ε) or "classical" (Theorem 2.1, ε < 1, never the smaller noise).
    """

    def __init__(self, sensitivity, epsilon, delta, calibration="analytic"):
        if calibration not in SIGMA:
            raise ValueError(f"calibration is {calibration!r}; accepted are {sorted(SIGMA)}")
        self.sigma = SIGMA[calibration](sensitivity, epsilon, delta)
        self.mu = math.nextafter(sensitivity / self.sigma, math.inf)  # a larger mu promises less

    def _noise(self, shape, rng):
        return self.sigma * rng.standard_normal(shape)


class RiemannianLaplace(_Tangent):
    """The Riemannian Laplace mechanism (eq. 25; Reimherr et al. 2021), ε-DP, under the log-Euclidean metric, sampled exactly.

    The log density falls by `1 / scale` per unit of distance. Its constant does not depend on the footpoint here, so
    `scale = sensitivity / epsilon` is enough.
    """

    def __init__(self, sensitivity, epsilon):
        self.scale = _scale(_positive("sensitivity", sensitivity), 1 / _epsilon(epsilon) * (1 + 1e-15))

    def _noise(self, shape, rng):
        return self.scale * sample_laplace(shape, rng)


class L2Mechanism(_Tangent):
    """Noise with the density of the Riemannian Laplace mechanism, but the `scale` that (ε, δ)-DP asks for (Joseph et al. 2025).

    The scale depends on the dimension `d = k(k+1)/2`. It is never above that of `RiemannianLaplace`.
    """

    def __init__(self, sensitivity, epsilon, delta, d):
        self.scale, self.d = l2_scale(sensitivity, epsilon, delta, d), d

    def _noise(self, shape, rng):
        if shape[-1:] != (self.d,):
            raise ValueError(f"y has shape {shape}; accepted is (..., {self.d}), the d of this mechanism")
        return self.scale * sample_laplace(shape, rng)


class ExtrinsicGaussian(TangentGaussian):
    """The Gaussian mechanism on the matrix itself (Sec. 6.1), (ε, δ)-DP; `sensitivity` is that in Frobenius distance.

    What it releases is symmetric, but need not be SPD.
    """

    def release(self, M, rng=None):
        """Private version of the summary `M`, symmetric, shape `(..., k, k)`."""
        return invvecd(self.perturb(vecd(M), rng))
