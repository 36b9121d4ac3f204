"""Mechanisms: noise of a calibrated scale, added in the coordinates where the metric is the ordinary one."""

import math

import numpy as np

from .calibration import sigma_analytic, sigma_classical
from .spd import _finite, expm, invvecd, logm, vecd

SIGMA = {"analytic": sigma_analytic, "classical": sigma_classical}


class TangentGaussian:
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

    def perturb(self, y, rng=None):
        """Coordinates `y` of shape `(..., d)` with fresh noise, same shape. ValueError where `y` is not finite.

        `rng` is a `numpy.random.Generator` or a seed; None takes fresh entropy from the system. NumPy's generators are
        not cryptographic, and float64 noise is not proof against an attack on its low-order bits (Mironov 2012).
        """
        y = _finite(y, "y")
        return y + self.sigma * np.random.default_rng(rng).standard_normal(y.shape)

    def release(self, M, rng=None):
        """Private version of the summary `M`, SPD, shape `(..., k, k)`; every matrix of a batch gets noise of its own."""
        return expm(invvecd(self.perturb(vecd(logm(M)), rng)))
