"""Gaussian noise in a flat space, or in a chart."""

from .._checks import positive
from ..calibration import sigma_analytic, sigma_classical
from .base import GaussianNoise, loss_of


class TangentGaussian(GaussianNoise):
    """The tangent Gaussian mechanism (Definition 2, Algorithm 1): (ε, δ)-DP, for any ε.

    Its scale is that of Theorem 2.2. On a curved space the tangent space is that at the public
    centre: there the promise asks for the sensitivity of the answer's coordinates, a query's
    `chart_sensitivity`.

    Parameters
    ----------
    sensitivity : float
        Of the summary, in the distance of its space (log-Euclidean, unless you name another), or
        in the chart at a public centre.
    epsilon, delta : float
        The promise.

    Attributes
    ----------
    sigma : float
        Standard deviation of the noise in each coordinate, in the unit of the sensitivity.
    mu : float
        `sensitivity / sigma`, the parameter of Gaussian differential privacy.

    Raises
    ------
    ValueError
        Where the promise is none that the calibration knows.
    """

    name, public = "gaussian", ("sensitivity", "sigma", "mu")
    calibrated = staticmethod(sigma_analytic)

    def __init__(self, sensitivity: float, epsilon: float, delta: float):
        self.sensitivity = positive(sensitivity, "sensitivity")
        self.sigma = self.calibrated(self.sensitivity, epsilon, delta)
        self.mu = loss_of(self.sensitivity, self.sigma)

    @classmethod
    def of(cls, query, epsilon, delta):
        """The mechanism for this query."""
        return cls(query.chart_sensitivity, epsilon, delta)

    @classmethod
    def with_mu(cls, query, mu):
        """That of this parameter of Gaussian differential privacy, for one part of a release."""
        made = cls.__new__(cls)
        made.sensitivity, made.sigma = query.chart_sensitivity, query.chart_sensitivity / mu
        made.mu = loss_of(made.sensitivity, made.sigma)
        return made


class ClassicalGaussian(TangentGaussian):
    """The same with the scale of Theorem 2.1, for ε < 1, which is never the smaller one."""

    name, below = "classical gaussian", 1.0
    calibrated = staticmethod(sigma_classical)
