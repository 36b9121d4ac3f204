"""Fréchet means, their sensitivity, and their private release."""

import math
import numbers

import numpy as np

from .mechanisms import L2Mechanism, RiemannianLaplace, TangentGaussian
from .spd import EPS, _finite, _logm, expm, invvecd, logm, vecd

MECHANISMS = {
    "gaussian": lambda sensitivity, epsilon, delta, d: TangentGaussian(sensitivity, epsilon, delta),
    "classical gaussian": lambda sensitivity, epsilon, delta, d: TangentGaussian(sensitivity, epsilon, delta, "classical"),
    "l2": L2Mechanism,
    "laplace": lambda sensitivity, epsilon, delta, d: RiemannianLaplace(sensitivity, epsilon),
}


def frechet_sensitivity(n, radius):
    """Log-Euclidean sensitivity `2 radius / n` of the mean of `n` records in a ball, one record replaced (Theorem 3).

    Rounded up: it also covers the rounding of a mean whose sum is exact, as that of `clip_to_ball` is.
    """
    if isinstance(n, bool) or not isinstance(n, numbers.Integral) or n < 1:
        raise ValueError(f"n is {n!r}; accepted are integers ≥ 1")
    _radius(radius)
    return 2 * radius / n * (1 + 2 * n * EPS)


def clip_to_ball(y, radius):
    """Coordinates `y` of shape `(n, d)`, each record moved radially into the ball of this radius about 0, shape `(n, d)`.

    The *exact* norm of each row returned is at most `radius`, and all sums of rows are exact in float64: entries
    are cut, towards zero, to multiples of one power of two so large that n entries cannot outgrow 53 bits.
    The cut moves a record by less than `√d n radius` times 2⁻⁵¹; one within (d + 8) 2⁻⁵² of the sphere goes as far inside.
    """
    _radius(radius)
    y = _finite(y, "y")
    n, d = y.shape
    largest = np.abs(y).max(axis=1, keepdims=True)
    unit = y / np.where(largest > 0, largest, 1)
    norm = np.linalg.norm(unit, axis=1, keepdims=True)  # 0, or between 1 and √d: no overflow, no underflow
    limit = radius * (1 - (d + 8) * EPS)  # below the radius by more than the rounding of norm and quotient
    outside = largest > limit / np.maximum(norm, 1)
    y = np.where(outside, unit * (limit / np.maximum(norm, 1)), y)
    grid = 2.0 ** (math.frexp(radius)[1] + math.frexp(n)[1] - 53)
    return np.trunc(y / grid) * grid


class PrivateFrechetMean:
    """(ε, δ)-DP log-Euclidean Fréchet mean of SPD matrices (Algorithm 1).

    Neighbours differ in one record, replaced by any other; the number of records is public. Records further than
    `radius` from `center` (log-Euclidean distance; the identity by default) are clipped to that ball, so the
    promise holds for any data. `radius` and `center` must be chosen without looking at the data.

    `mechanism` is "gaussian" (the tangent Gaussian with its analytic scale), "classical gaussian", "l2" or "laplace"; the
    last is ε-DP and takes `delta=0`. Which of them errs least depends on k, ε and δ, not on the data.

    `rng` is a `numpy.random.Generator` or a seed; None takes fresh entropy from the system. NumPy's generators are not
    cryptographic: who can guess the seed can take the noise away. Each call of `fit` is a release of its own and costs
    its own (ε, δ). After `fit(X)`:

    `mean_`       the release, SPD, shape (k, k)
    `mechanism_`  what made it, with the scale of its noise: `mechanism_.sigma` and `.mu`, or `mechanism_.scale`
    `privacy_`    the promise in words

    Nothing else that depends on the data is kept. An exception about a bad record speaks of the data: keep it inside.
    """

    def __init__(self, epsilon, delta, radius, center=None, mechanism="gaussian", rng=None):
        _radius(radius)
        if mechanism not in MECHANISMS:
            raise ValueError(f"mechanism is {mechanism!r}; accepted are {sorted(MECHANISMS)}")
        if mechanism == "laplace" and delta != 0:
            raise ValueError(f"delta is {delta!r}; accepted with \"laplace\" is 0, for its promise is pure")
        MECHANISMS[mechanism](1.0, epsilon, delta, 1)  # refuses what it cannot keep, before there are data
        self.epsilon, self.delta, self.radius, self.mechanism = epsilon, delta, float(radius), mechanism
        self.center = None if center is None else np.array(center, float)
        if center is not None:
            _logm(self.center, "center")
        self.rng = None if rng is None else np.random.default_rng(rng)  # a seed must not give two fits the same noise

    def fit(self, X):
        """Release the mean of `X`, shape `(n, k, k)`; returns self. ValueError where a record is not SPD."""
        log_X = vecd(logm(X))
        if log_X.ndim != 2 or len(log_X) == 0:
            raise ValueError(f"X has shape {np.shape(X)}; accepted is (n, k, k) with n ≥ 1")
        n, d = log_X.shape
        center = np.zeros(d) if self.center is None else vecd(_logm(self.center, "center"))
        if center.shape != (d,):
            raise ValueError(f"center has shape {self.center.shape}; accepted is {np.shape(X)[1:]}, as the records have")
        mechanism = MECHANISMS[self.mechanism](frechet_sensitivity(n, self.radius), self.epsilon, self.delta, d)
        mean = clip_to_ball(log_X - center, self.radius).sum(axis=0) / n
        self.mean_ = expm(invvecd(center + mechanism.perturb(mean, self.rng)))
        self.mechanism_ = mechanism
        self.privacy_ = (f"({self.epsilon}, {self.delta})-differentially private when one of n = {n} records is replaced; "
                         f"n, the radius {self.radius} and the centre are public")
        return self


def _radius(radius):
    if isinstance(radius, bool) or not isinstance(radius, numbers.Real) or not 1e-280 <= radius <= 1e280:
        raise ValueError(f"radius is {radius!r}; accepted are numbers in [1e-280, 1e280]")
