"""Mechanisms: noise of a calibrated scale.

It is added in coordinates with the ordinary metric: on a curved space in those of the chart at the
query's public centre, or, for the Laplace mechanism, by steps from the summary itself.

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
from .sampling import laplace_steps, laplace_threshold, radial_law, sample_laplace
from .spaces import LogEuclidean, Sphere

SIGMA = {"analytic": sigma_analytic, "classical": sigma_classical}


class Mechanism:
    """Noise for a query; its heirs say of which law, and what that promises.

    They define `_noise(shape, rng)`, and in R^d `error(d)` and `delta(epsilon, d)`.
    """

    def _sensitivity(self, query):
        """How far one record moves what gets the noise: the mean in the chart at the centre."""
        return query.chart_sensitivity

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
        if self._sensitivity(query) > self.sensitivity:
            raise ValueError(f"query has sensitivity {self._sensitivity(query):.6g}; accepted are "
                             f"those up to {self.sensitivity:.6g}, the mechanism's own")
        rng = generator(rng)
        return self._answer(query, rng, size)

    def _answer(self, query, rng, size):
        return self.perturb(query.step, rng, size)

    def perturb(self, y, rng=None, size=None):
        """Coordinates `y`, shape `(..., dim)`, with fresh noise, shape `(*size, ..., dim)`.

        ValueError where `y` is not finite.
        """
        y, rng = finite(y, "y"), generator(rng)
        return y + self._noise((*_shape(size), *y.shape), rng)

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
            SPD; in `TangentSpace(space, center)` the noise is added in the chart at the centre.

        Raises
        ------
        ValueError
            Where `M` is no point of the space, or float64 cannot hold the release as one.
        """
        if space is None:
            shape = array(M, "M").shape
            if len(shape) < 2:
                raise ValueError(f"M has shape {shape}; accepted is (..., k, k)")
            space = LogEuclidean(shape[-1])
        if not space.flat:
            raise ValueError(f"space is {space!r}; accepted are flat spaces, such as "
                             f"TangentSpace({space!r}, center) with a public centre")
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
        return cls(query.chart_sensitivity, epsilon, delta, calibration)

    def error(self, d):
        from scipy.stats import chi  # here, for it takes as long to load as all the rest

        return chi(integer(d, "d", 1, 5050), scale=self.sigma)

    def delta(self, epsilon, d):
        integer(d, "d", 1, 5050)  # the same δ in all of them
        return gaussian_delta(self.sigma, epsilon, self.sensitivity)

    def _noise(self, shape, rng):
        return self.sigma * rng.standard_normal(shape)


class RiemannianLaplace(Mechanism):
    """The Riemannian Laplace mechanism (Reimherr et al. 2021, Definition 3, Theorem 1): ε-DP.

    It is sampled exactly. The log density with respect to the volume of the space falls by
    `1 / scale` per unit of distance from the summary. On all of a homogeneous space, as each space
    of spdlib is, its constant does not depend on the footpoint, so `scale = sensitivity / epsilon`
    is enough. Confined to a ball it does, which costs a factor of 2.

    Parameters
    ----------
    sensitivity : float
        Of the summary, in the distance of its space (log-Euclidean, unless you name another).
    epsilon : float
        The promise.
    space : optional
        A curved space; None stands for any flat one.
    domain : float, optional
        Radius of the ball about a query's public centre to which the law is confined.

    Attributes
    ----------
    scale : float
        In the unit of the sensitivity.
    rate : str
        How the scale follows from the promise, and why.

    Raises
    ------
    ValueError
        For a sensitivity that is not positive and finite, an ε outside [1e-6, 1e3], or a scale at
        which the law has no finite constant on the whole space.
    """

    def __init__(self, sensitivity, epsilon, space=None, domain=None):
        self.sensitivity = positive(sensitivity, "sensitivity")
        self.scale = laplace_scale(self.sensitivity * (1 if domain is None else 2), epsilon)
        self.space = None if space is None or space.flat else space
        self.domain = None if domain is None else positive(domain, "domain")
        if self.space is not None and domain is None:
            threshold = laplace_threshold(self.space)
            if not self.scale < threshold:
                raise ValueError(f"sensitivity / epsilon is {self.scale:.6g}; accepted are numbers "
                                 f"below {threshold:.6g}, from which on the law does not exist on "
                                 f"all of {self.space!r}, unless a domain confines it")

    @classmethod
    def of(cls, query, epsilon, delta=0):
        """The mechanism for this query; its promise is pure, so `delta` has to be 0.

        On the whole space; on the ball that holds the records, where there is no law on the whole
        space, or where projecting an answer onto the ball may take it away from the mean.
        """
        number(delta, "delta", 0, 0, '0 with "laplace", whose promise is pure')
        space = query.space
        whole = space.flat or (laplace_scale(query.sensitivity, epsilon) < laplace_threshold(space)
                               and query.radius <= _harmless_radius(space))
        return cls(query.sensitivity, epsilon, space, None if whole else query.radius)

    @property
    def rate(self):
        if self.domain is None:
            return ("sensitivity / epsilon: on the whole of a homogeneous space the constant is "
                    "free of the footpoint")
        return "2 sensitivity / epsilon: on a ball the constant depends on the footpoint"

    def release(self, M, rng=None, size=None, space=None):
        """Private versions of a summary of your own, as `Mechanism.release`.

        `space` is that of the mechanism where it has a curved one. ValueError where the law is
        confined to a ball, whose centre is a query's to know.
        """
        if self.space is None:
            return super().release(M, rng, size, space)
        if space not in (None, self.space) or self.domain is not None:
            raise ValueError(f"space is {space!r}, the mechanism {self!r}; accepted is its own "
                             "space, as a whole")
        M, rng = self.space.points(M, "M"), generator(rng)
        batch = M.shape[:M.ndim - len(self.space.shape)]
        return self.space.exp(M, self._noise((*_shape(size), *batch, self.space.dim), rng))

    def error(self, d):
        if self.space is None:
            return _gamma(integer(d, "d", 1, 5050), self.scale)
        if self.domain is not None or integer(d, "d", 1, 5050) != self.space.dim:
            raise ValueError(f"d is {d!r}, the mechanism {self!r}; accepted is the dimension of "
                             "its space, where the law is that of the whole space")
        return radial_law(self.space, self.scale)

    def delta(self, epsilon, d):
        if self.space is not None:
            raise ValueError(f"the mechanism's space is {self.space!r}; accepted are flat spaces, "
                             "on which the δ of a smaller ε is known")
        return l2_delta(self.scale, epsilon, d, self.sensitivity)

    def _sensitivity(self, query):
        return query.sensitivity

    def _answer(self, query, rng, size):
        space = query.space
        if space.flat and self.space is None and self.domain is None:
            return self.perturb(query.step, rng, size)
        if space != self.space:
            raise ValueError(f"query is on {space!r}; accepted is {self.space!r}, the mechanism's "
                             "space")
        step, shape = finite(query.step, "step"), _shape(size)
        if self.domain is None:
            return space.chart(query.center, step, self._noise((*shape, space.dim), rng))
        kept, missing = [np.empty((0, space.dim))], math.prod(shape)
        while missing:  # what falls outside the ball is drawn again, exactly as conditioning asks
            v = laplace_steps(space, self.scale, missing, rng,
                              within=self.domain + np.linalg.norm(step))
            y = space.chart(query.center, step, v)
            kept.append(y[np.linalg.norm(y, axis=-1) <= self.domain])
            missing -= len(kept[-1])
        return np.concatenate(kept).reshape(*shape, space.dim)

    def _noise(self, shape, rng):
        if self.space is None:
            return self.scale * sample_laplace(shape, rng)
        return laplace_steps(self.space, self.scale, shape[:-1], rng)


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
        return cls(query.chart_sensitivity, epsilon, delta, query.space.dim)

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


def _harmless_radius(space):
    """Up to this radius the projection onto a ball takes no point further from a point of the ball.

    The angle at the projected point is at least π/2, for the ball is convex. So the law of cosines
    says it, in Hadamard spaces and, for r ≤ π/(4√κ), in spaces in which triangles are no fatter
    than on the sphere of curvature κ: those are the compact ones here, none of whose closed
    geodesics is shorter than 2π/√κ (Bridson and Haefliger 1999, II.4.16). On a sphere a point
    beyond the antipode is nearest to the far side of the ball: r ≤ π/(3√κ) is enough, and needed.
    """
    return space.injectivity_radius / (3 if isinstance(space, Sphere) else 4)


def _shape(size):
    """Shape of the answers that `size` asks for."""
    return () if size is None else tuple(integer(m, "size", 0) for m in np.atleast_1d(size))


def _gamma(d, scale):
    """Law of the length of noise with density exp(-‖x‖/scale) on R^d."""
    from scipy.stats import gamma

    return gamma(d, scale=scale)
