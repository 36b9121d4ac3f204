"""Mechanisms: noise of a calibrated scale, added in coordinates with the ordinary metric.

`rng` is everywhere a `numpy.random.Generator` or a seed; None takes fresh entropy from the system.
NumPy's generators are not cryptographic, and the low-order bits of float64 noise tell inputs apart
(Mironov 2012; Haney et al. 2022): the promises below are those of noise in real numbers.
"""

import math

import numpy as np

from ._checks import array, choice, finite, generator, integer, number, positive
from .calibration import (
    gaussian_delta,
    l2_delta,
    l2_scale,
    laplace_scale,
    sigma_analytic,
    sigma_classical,
)
from .sampling import sample_laplace
from .spaces import LogEuclidean

SIGMA = {"analytic": sigma_analytic, "classical": sigma_classical}


class Mechanism:
    """Noise for a query on a flat space; its heirs say of which law, and what that promises.

    They define `_noise(shape, rng)`, and in R^d `error(d)` and `delta(epsilon, d)`.
    """

    def answer(self, query, rng=None, size=None):
        """Private answers to the query, steps from its public centre.

        They are bare: not projected onto the ball that holds the records.

        Parameters
        ----------
        query : FrechetMean
            With a sensitivity of at most that of the mechanism.
        rng : Generator, int or None
        size : int or tuple, optional
            Number or shape of the answers; each has noise of its own, and costs the promise again.

        Returns
        -------
        array of shape (*size, dim)

        Raises
        ------
        ValueError
            Where the query is more sensitive, or a record is not sound; nothing was drawn then.
        """
        if query.sensitivity > self.sensitivity:
            raise ValueError(f"query has sensitivity {query.sensitivity:.6g}; accepted are those "
                             f"up to {self.sensitivity:.6g}, the mechanism's own")
        rng = generator(rng)
        return self.perturb(query.step, rng, size)

    def perturb(self, y, rng=None, size=None):
        """Coordinates `y`, shape `(..., dim)`, with fresh noise, shape `(*size, ..., dim)`.

        ValueError where `y` is not finite.
        """
        y, rng = finite(y, "y"), generator(rng)
        size = () if size is None else np.atleast_1d(size)
        return y + self._noise((*(integer(m, "size", 0) for m in size), *y.shape), rng)

    def release(self, M, rng=None, size=None, space=None):
        """Private versions of a summary of your own, points of shape `(*size, ..., k, k)`.

        Every matrix of a batch gets noise of its own. The summary's sensitivity is yours to know,
        and with it the promise; no ball is known to which the release could be projected.

        Parameters
        ----------
        M : array of shape (..., k, k)
            The summary.
        rng : Generator, int or None
        size : int or tuple, optional
            Number or shape of the releases, each with noise of its own.
        space : optional
            The flat space in which the sensitivity is measured, `LogEuclidean(k)` by default. In
            `Euclidean(k)` this is the extrinsic mechanism (Sec. 6.1), whose releases need not be
            SPD.

        Raises
        ------
        ValueError
            Where `M` is no point of the space, or float64 cannot hold the release as one.
        """
        shape = array(M, "M").shape
        if len(shape) < 2:
            raise ValueError(f"M has shape {shape}; accepted is (..., k, k)")
        space = space or LogEuclidean(shape[-1])
        return space.point(self.perturb(space.coordinates(M), rng, size))

    def error(self, d):
        """Law of the distance between an answer in R^d and the truth, before any projection.

        It depends on the mechanism alone, not on the data: `.mean()`, `.ppf(0.95)`, `.moment(2)`.

        Parameters
        ----------
        d : int
            Dimension of the space, k(k+1)/2 for matrices of size k.

        Returns
        -------
        scipy.stats.rv_continuous_frozen
        """
        raise NotImplementedError

    def delta(self, epsilon, d):
        """The smallest δ at which an answer in R^d is (ε, δ)-DP, rounded up.

        Parameters
        ----------
        epsilon : float
            0, or from 1e-6 to 1e3.
        d : int
            Dimension of the space, k(k+1)/2 for matrices of size k.
        """
        raise NotImplementedError

    def __repr__(self):
        public = ", ".join(f"{name}={value!r}" for name, value in vars(self).items())
        return f"{type(self).__name__}({public})"


class TangentGaussian(Mechanism):
    """The tangent Gaussian mechanism (Definition 2, Algorithm 1): (ε, δ)-DP.

    Parameters
    ----------
    sensitivity : float
        Of the summary, in the distance of its space (log-Euclidean, unless you name another).
    epsilon, delta : float
        The promise.
    calibration : {"analytic", "classical"}
        "analytic" is Theorem 2.2, for any ε; "classical" is Theorem 2.1, for ε < 1, and never the
        smaller noise.

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

    def __init__(self, sensitivity, epsilon, delta, calibration="analytic"):
        calibrated = SIGMA[choice(calibration, "calibration", SIGMA)]
        self.sensitivity = positive(sensitivity, "sensitivity")
        self.sigma = calibrated(self.sensitivity, epsilon, delta)
        self.mu = math.nextafter(self.sensitivity / self.sigma, math.inf)  # more promises less

    @classmethod
    def of(cls, query, epsilon, delta, calibration="analytic"):
        """The mechanism for this query."""
        return cls(query.sensitivity, epsilon, delta, calibration)

    def error(self, d):
        from scipy.stats import chi  # here, for it takes as long to load as all the rest

        return chi(integer(d, "d", 1, 5050), scale=self.sigma)

    def delta(self, epsilon, d):
        integer(d, "d", 1, 5050)  # the same δ in all of them
        return gaussian_delta(self.sigma, epsilon, self.sensitivity)

    def _noise(self, shape, rng):
        return self.sigma * rng.standard_normal(shape)


class RiemannianLaplace(Mechanism):
    """The Riemannian Laplace mechanism (eq. 25; Reimherr et al. 2021) on a flat space: ε-DP.

    It is sampled exactly. The log density falls by `1 / scale` per unit of distance. Its constant
    does not depend on the footpoint on a flat space, so `scale = sensitivity / epsilon` is enough.

    Parameters
    ----------
    sensitivity : float
        Of the summary, in the distance of its space (log-Euclidean, unless you name another).
    epsilon : float
        The promise.

    Attributes
    ----------
    scale : float
        In the unit of the sensitivity.

    Raises
    ------
    ValueError
        For a sensitivity that is not positive and finite, or an ε outside [1e-6, 1e3].
    """

    def __init__(self, sensitivity, epsilon):
        self.sensitivity = positive(sensitivity, "sensitivity")
        self.scale = laplace_scale(self.sensitivity, epsilon)

    @classmethod
    def of(cls, query, epsilon, delta=0):
        """The mechanism for this query; its promise is pure, so `delta` has to be 0."""
        number(delta, "delta", 0, 0, '0 with "laplace", whose promise is pure')
        return cls(query.sensitivity, epsilon)

    def error(self, d):
        return _gamma(integer(d, "d", 1, 5050), self.scale)

    def delta(self, epsilon, d):
        return l2_delta(self.scale, epsilon, d, self.sensitivity)

    def _noise(self, shape, rng):
        return self.scale * sample_laplace(shape, rng)


class L2Mechanism(Mechanism):
    """The ℓ2 mechanism (Joseph, Kulesza and Yu 2025): (ε, δ)-DP.

    Its noise has the density of the Riemannian Laplace mechanism, but the scale that (ε, δ) asks
    for, which depends on the dimension and is never above that of the pure promise.

    Parameters
    ----------
    sensitivity : float
        Of the summary, in the distance of its space (log-Euclidean, unless you name another).
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

    def __init__(self, sensitivity, epsilon, delta, d):
        self.sensitivity = positive(sensitivity, "sensitivity")
        self.scale, self.d = l2_scale(self.sensitivity, epsilon, delta, d), int(d)

    @classmethod
    def of(cls, query, epsilon, delta):
        """The mechanism for this query."""
        return cls(query.sensitivity, epsilon, delta, query.space.dim)

    def error(self, d):
        return _gamma(self._own(d), self.scale)

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


def _gamma(d, scale):
    """Law of the length of noise with density exp(-‖x‖/scale) on R^d."""
    from scipy.stats import gamma

    return gamma(d, scale=scale)
