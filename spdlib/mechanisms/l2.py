"""The ℓ2 mechanism."""

from .._checks import integer, positive
from ..calibration import l2_delta, l2_scale
from ..samplers import sample_laplace
from .base import Noise, gamma_law, loss_of


class L2Mechanism(Noise):
    """The ℓ2 mechanism (Joseph, Kulesza and Yu 2025): (ε, δ)-DP.

    Its noise has the density of the Riemannian Laplace mechanism, but the scale that (ε, δ) asks
    for, which depends on the dimension and is never above that of the pure promise. On a curved
    space it is added in the chart at the public centre, as that of `TangentGaussian`.

    Parameters
    ----------
    sensitivity : float
        Of the summary, in the distance of its space (log-Euclidean, unless you name another), or
        in the chart at a public centre.
    epsilon, delta : float
        The promise.
    d : int
        Dimension of the space, k(k+1)/2 for matrices of size k.

    Attributes
    ----------
    scale : float
        In the unit of the sensitivity.

    Raises
    ------
    ValueError
        For a promise or a dimension that the calibration does not know.
    """

    name, law, public = "l2", "l2", ("sensitivity", "scale", "d")

    def __init__(self, sensitivity: float, epsilon: float, delta: float, d: int):
        self.sensitivity = positive(sensitivity, "sensitivity")
        self.scale, self.d = l2_scale(self.sensitivity, epsilon, delta, d), int(d)
        self.loss = loss_of(self.sensitivity, self.scale)

    @classmethod
    def of(cls, query, epsilon, delta):
        """The mechanism for this query."""
        return cls(query.chart_sensitivity, epsilon, delta, query.space.dim)

    def error(self, d):
        return gamma_law(self._own(d), self.scale)

    def delta(self, epsilon, d):
        return l2_delta(self.scale, epsilon, self._own(d), self.sensitivity)

    def _own(self, d):
        if integer(d, "d", 1, 5050) != self.d:
            raise ValueError(f"d is {d!r}; accepted is {self.d}, the mechanism's own")
        return self.d

    def _noise(self, shape, rng):
        if shape[-1:] != (self.d,):
            raise ValueError(f"y has shape {shape}; accepted is (..., {self.d}), the mechanism's d")
        return self.scale * sample_laplace(shape, rng)
