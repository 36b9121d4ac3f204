"""Mechanisms: noise of a calibrated scale, added in coordinates with the ordinary metric.

On a curved space these are the coordinates in the chart at the public centre. Only the Riemannian
Laplace mechanism draws on the space itself.

`rng` is everywhere a `numpy.random.Generator` or a seed; None takes fresh entropy from the system.
NumPy's generators are not cryptographic, and the low-order bits of float64 noise tell inputs apart
(Mironov 2012; Haney et al. 2022): the promises below are those of noise in real numbers. That of
`spdlib.discrete` holds for the floats themselves.
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
from .sampling import ball_steps, laplace_steps, laplace_threshold, radial_law, sample_laplace
from .spaces import AffineInvariant, LogEuclidean, TangentSpace
from .spd import LOG_MAX, LOG_MIN, widest_spread

LEAST = 1e-3  # share that an envelope accepts, at least
SAMPLE = 2048  # proposals by which that is judged
SIGMA = {"analytic": sigma_analytic, "classical": sigma_classical}


class Answers:
    """What all mechanisms share: an answer in two turns, and what is public of a mechanism.

    Heirs list in `public` the names of attributes that may be published, numbers or a ball's centre
    and radius. They define `_prepared(query)`: it refuses whatever is to be refused, looks at the
    records, and returns the function of a Generator and a shape that draws the answers.
    """

    public = ()
    _source = staticmethod(generator)  # what `rng` stands for

    @np.errstate(all="ignore")
    def answer(self, query, rng=None, size=None):
        """Private answers to the query, in its coordinates.

        Parameters
        ----------
        query
            At most as sensitive as the mechanism allows.
        rng : Generator, int or None
        size : int or tuple, optional
            Number or shape of the answers, independent draws; each costs the promise again.

        Returns
        -------
        array of shape (*size, number of coordinates)

        Raises
        ------
        ValueError
            Where the query is too sensitive, float64 cannot hold what its public parameters ask
            for, or a record is not sound; nothing was drawn then.
        """
        rng, size = self._source(rng), _batch(size)
        return self.prepared(query)(rng, size)

    @np.errstate(all="ignore")
    def prepared(self, query):
        """The function of `rng` and `size` that draws `answer(query, rng, size)`.

        It holds what is not private, and each answer that it draws costs the promise. ValueError as
        of `answer`. Whatever has to be refused is refused here, before anything is
        drawn, so that a budget may be given back if this fails, and never after it.
        """
        draw = self._prepared(query)

        @np.errstate(all="ignore")
        def answers(rng=None, size=None):
            return draw(self._source(rng), _batch(size))

        return answers

    def __repr__(self):
        public = ", ".join(f"{name}={value!r}" for name, value in public_of(self).items())
        return f"{type(self).__name__}({public})"


def public_of(mechanism):
    """The numbers that may be published of a mechanism, by name; its class lists them."""
    values = {name: getattr(mechanism, name) for name in type(mechanism).public}
    return {name: value[1] if isinstance(value, tuple) else value  # the radius of a ball
            for name, value in values.items() if value is not None}


class Mechanism(Answers):
    """Noise for a query in a flat space, or in a chart; heirs say of which law, for what promise.

    They define `_noise(shape, rng)`, and in R^d `error(d)` and `delta(epsilon, d)`. Answers are
    steps from the query's public centre. They are bare: not projected onto the ball that holds the
    records.
    """

    def _prepared(self, query):
        self._check(query.chart_sensitivity)
        hold_ball(query)
        y = finite(query.step, "step")
        self._noise((0, *y.shape), np.random.default_rng(0))  # refuses what it would refuse later
        return lambda rng, shape: self.perturb(y, rng, shape)

    @np.errstate(all="ignore")
    def perturb(self, y, rng=None, size=None):
        """Coordinates `y`, shape `(..., dim)`, with fresh noise, shape `(*size, ..., dim)`.

        ValueError where `y` is not finite.
        """
        y, rng = finite(y, "y"), generator(rng)
        if y.ndim == 0:
            raise ValueError("y has shape (); accepted is (..., d)")
        return y + self._noise((*_batch(size), *y.shape), rng)

    @np.errstate(all="ignore")
    def release(self, M, rng=None, size=None, space=None):
        """Private versions of a summary of your own, points of shape `(*size, ..., *shape)`.

        Every point of a batch gets noise of its own. The summary's sensitivity is yours to know,
        and with it the promise; no ball is known to which the release could be projected.

        Parameters
        ----------
        M : array of shape (..., k, k), or (..., *space.shape)
            The summary.
        rng : Generator, int or None
        size : int or tuple, optional
            Number or shape of the releases, each with noise of its own.
        space : optional
            The flat space in which the sensitivity is measured, `LogEuclidean(k)` by default. In
            `Euclidean(k)` this is the extrinsic mechanism (Sec. 6.1), whose releases need not be
            SPD. A curved space has a flat one at every public centre, its `TangentSpace`.

        Raises
        ------
        ValueError
            Where `M` is no point of the space, the space is curved, or float64 cannot hold the
            release as one.
        """
        if space is None and len(shape := array(M, "M").shape) < 2:
            raise ValueError(f"M has shape {shape}; accepted is (..., k, k)")
        space = space or LogEuclidean(np.shape(M)[-1])
        if not space.flat:
            raise ValueError(f"space is {space!r}; accepted are flat spaces, such as its "
                             "TangentSpace at a public centre, with the sensitivity there")
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

    def _check(self, sensitivity):
        if sensitivity > self.sensitivity:
            raise ValueError(f"query has sensitivity {sensitivity:.6g}; accepted are those up to "
                             f"{self.sensitivity:.6g}, the mechanism's own")


class TangentGaussian(Mechanism):
    """The tangent Gaussian mechanism (Definition 2, Algorithm 1): (ε, δ)-DP.

    On a curved space the tangent space is that at the public centre: there the promise asks for the
    sensitivity of the answer's coordinates, a query's `chart_sensitivity`.

    Parameters
    ----------
    sensitivity : float
        Of the summary, in the distance of its space (log-Euclidean, unless you name another), or
        in the chart at a public centre.
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

    name, law, exact = "gaussian", "gaussian", False
    public = "sensitivity", "sigma", "mu"

    def __init__(self, sensitivity, epsilon, delta, calibration="analytic"):
        calibrated = SIGMA[choice(calibration, "calibration", SIGMA)]
        self.name = "gaussian" if calibration == "analytic" else "classical gaussian"
        self.sensitivity = positive(sensitivity, "sensitivity")
        self.sigma = calibrated(self.sensitivity, epsilon, delta)
        self.mu = math.nextafter(self.sensitivity / self.sigma, math.inf)  # more promises less

    @property
    def loss(self):
        """The parameter of Gaussian differential privacy."""
        return self.mu

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
    """The Riemannian Laplace mechanism (eq. 25; Reimherr et al. 2021, Theorem 1): ε-DP.

    It is sampled exactly. Its log density falls by `1 / scale` per unit of distance. On a whole
    homogeneous space the constant of the density is the same for every footpoint, because an
    isometry takes one to the other, and `scale = sensitivity / epsilon` is enough. On a ball the
    constant depends on the footpoint, and the scale is twice as large; in many dimensions the
    sampler would not end there, and `answer` and `release` say so before they draw.

    Parameters
    ----------
    sensitivity : float
        Of the summary, in the distance of its space (log-Euclidean, unless you name another).
    epsilon : float
        The promise.
    space : optional
        The space of the summary; without it, a flat one.
    domain : (array of shape space.shape, float), optional
        Centre and radius of a public ball: the law is conditioned on it, and the promise stands for
        summaries in it.

    Attributes
    ----------
    scale : float
        In the unit of the sensitivity.
    rate : str
        "Δ/ε" or "2Δ/ε", what the scale is.
    reason : str
        Why that is enough.

    Raises
    ------
    ValueError
        For a sensitivity that is not positive and finite, or an ε outside [1e-6, 1e3]; for a scale
        at which the law does not exist on the space, or a ball that is none.
    """

    name, exact = "laplace", False
    public = "sensitivity", "scale", "domain"
    space = domain = None

    def __init__(self, sensitivity, epsilon, space=None, domain=None):
        self.sensitivity = positive(sensitivity, "sensitivity")
        if domain is None:
            self.scale = laplace_scale(self.sensitivity, epsilon)
            threshold = math.inf if space is None else laplace_threshold(space)
            if not self.scale < threshold:
                raise ValueError(
                    f"the scale {self.rate} is {self.scale:.6g}; accepted are those below "
                    f"{threshold:.6g}, from which on the law has no finite integral over {space!r}:"
                    " more records, a larger epsilon, or a ball for the domain")
        else:
            self.scale = laplace_scale(2 * self.sensitivity, epsilon)
            self.domain = _ball(space, *domain)
        if space is not None:
            self.space = space

    @classmethod
    def of(cls, query, epsilon, delta=0, domain=None):
        """The mechanism for this query; its promise is pure, so `delta` has to be 0.

        `domain` is the radius of a ball about the query's centre, if there is to be one.
        """
        number(delta, "delta", 0, 0, '0 with "laplace", whose promise is pure')
        if domain is not None:
            domain = query.center, domain
        space = None if query.space.flat and domain is None else query.space
        return cls(query.sensitivity, epsilon, space, domain)

    @property
    def law(self):
        """Whether its privacy loss is that of "l2" noise, or no more is known than its `loss`."""
        whole = self.domain is None and (self.space is None or self.space.flat)
        return "l2" if whole else "pure"

    @property
    def loss(self):
        """The largest privacy loss, the ε at δ = 0."""
        times = 1 if self.domain is None else 2
        return math.nextafter(times * self.sensitivity / self.scale, math.inf)

    @property
    def rate(self):
        return "Δ/ε" if self.domain is None else "2Δ/ε"

    @property
    def reason(self):
        if self.domain is None:
            return ("the space is homogeneous and the law lives on all of it, so its constant does "
                    "not depend on the footpoint")
        return ("the law is conditioned on a ball, so its constant depends on the footpoint, and "
                "moves by as much as the density")

    def _prepared(self, query):
        if self.space is None and query.space.flat:
            return super()._prepared(query)
        if self.space != query.space:
            raise ValueError(f"query is on {query.space!r}; accepted is the mechanism's own space, "
                             f"{self.space!r}")
        self._check(query.sensitivity)
        hold_ball(query)
        if self.domain is None:
            self._steps((0,), np.random.default_rng(0))  # refuses what it would refuse later
            draw, step = self._steps, query.step
        else:
            center, radius = self.domain
            _hold(query.space, query.center, query.radius, "radius")
            _inside(query.space.dist(center, query.center) + query.radius, radius, "query")
            draw, step = self._within(query.space.exp(query.center, query.step)), query.step
        return lambda rng, shape: query.space.chart(query.center, step, draw(shape, rng))

    @np.errstate(all="ignore")
    def release(self, M, rng=None, size=None, space=None):
        if self.space is None:
            return super().release(M, rng, size, space)
        if space is not None and space != self.space:
            raise ValueError(f"space is {space!r}; accepted is {self.space!r}, the mechanism's own")
        space, rng, shape = self.space, generator(rng), _batch(size)
        M = space.exp(M, np.zeros(space.dim))
        if self.domain is not None:
            _hold(space, *self.domain)
            _inside(space.dist(self.domain[0], M).max(initial=0), self.domain[1], "M")
        M = np.broadcast_to(M, (*shape, *M.shape))
        if self.domain is None:
            return space.exp(M, self._steps(M.shape[:-len(space.shape)], rng))
        return space.exp(M, self._within(M)((), rng))

    def error(self, d):
        d = integer(d, "d", 1, 5050)
        if self.domain is not None:
            raise ValueError("the law is conditioned on a ball, and so depends on where the truth "
                             "lies in it; accepted are mechanisms on a whole space")
        if self.space is None or self.space.flat:
            return _gamma(d, self.scale)
        if d != self.space.dim:
            raise ValueError(f"d is {d!r}; accepted is {self.space.dim}, that of {self.space!r}")
        return radial_law(self.space, self.scale)

    def delta(self, epsilon, d):
        if self.domain is not None or not (self.space is None or self.space.flat):
            raise ValueError(f"the mechanism is on {self.space!r}, where nothing smaller is known "
                             "than its ε at δ = 0; accepted are mechanisms on a whole flat space")
        return l2_delta(self.scale, epsilon, d, self.sensitivity)

    def _steps(self, shape, rng):
        """Steps of the law on the whole space, shape `(*shape, dim)`."""
        return laplace_steps(self.space, self.scale, shape, rng)

    def _within(self, M):
        """What draws steps from the points `M`, shape `(...)`, to releases in the domain.

        A function of a shape and a Generator that makes arrays of shape `(*shape, ..., dim)`.
        """
        space, (center, radius) = self.space, self.domain
        ways = _toward(space, center, M)
        if not space.flat:  # seen from where all points of the ball are held by float64
            center = space.alike(center)
            M = space.exp(center, ways)
        self._refuse_what_would_not_end(center)

        def draw(shape, rng):  # by turns from the law about M and from the uniform one on the ball
            batch = *shape, *ways.shape[:-1]
            way = np.broadcast_to(ways, (*batch, space.dim)).reshape(-1, space.dim)
            start = np.broadcast_to(M, (*batch, *space.shape)).reshape(-1, *space.shape)
            steps, left = np.empty(way.shape), np.arange(len(way))
            while left.size:
                v = laplace_steps(space, self.scale, len(left), rng, within=2 * radius)
                kept = np.linalg.norm(space.chart(center, way[left], v), axis=-1) <= radius
                steps[left[kept]] = v[kept]
                left = left[~kept]
                Y = space.exp(center, ball_steps(space, radius, len(left), rng))
                kept = rng.standard_exponential(len(left)) > space.dist(start[left], Y) / self.scale
                steps[left[kept]] = _toward(space, start[left[kept]], Y[kept])
                left = left[~kept]
            return steps.reshape(*batch, space.dim)

        return draw

    def _refuse_what_would_not_end(self, center):
        """ValueError where too few turns would end at a point on the sphere of the ball, the worst.

        The ball is that about `center`. By the public parameters and numbers of its own: in many
        dimensions most of a law about a point there is outside, and most of the ball far from it.
        """
        space, rng, edge = self.space, np.random.default_rng(0), np.zeros(self.space.dim)
        edge[0] = self.domain[1]
        v = laplace_steps(space, self.scale, SAMPLE, rng, within=2 * edge[0])
        inside = np.linalg.norm(space.chart(center, edge, v), axis=-1) <= edge[0]
        Y = space.exp(center, ball_steps(space, edge[0], SAMPLE, rng))
        share = (inside + np.exp(-space.dist(space.exp(center, edge), Y) / self.scale)).mean()
        if share < LEAST:
            raise ValueError(f"the share of draws in the domain may be {share:.1g} for the scale "
                             f"{self.scale:.6g} within {edge[0]:.6g} on {space!r}; accepted are "
                             f"shares from {LEAST:g}, which smaller dimensions have, and laws on "
                             "the whole space do without")

    def _noise(self, shape, rng):
        if not (self.space is None or self.space.flat) or self.domain is not None:
            raise ValueError(f"the mechanism is on {self.space!r}, where noise is not added to "
                             "coordinates; accepted are release and answer")
        return self.scale * sample_laplace(shape, rng)


class L2Mechanism(Mechanism):
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

    name, exact = "l2", False
    law = "l2"  # what is known of its privacy loss
    public = "sensitivity", "scale", "d"

    def __init__(self, sensitivity, epsilon, delta, d):
        self.sensitivity = positive(sensitivity, "sensitivity")
        self.scale, self.d = l2_scale(self.sensitivity, epsilon, delta, d), int(d)

    @property
    def loss(self):
        """The largest privacy loss, the ε at δ = 0."""
        return math.nextafter(self.sensitivity / self.scale, math.inf)

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


def _gamma(d, scale):
    """Law of the length of noise with density exp(-‖x‖/scale) on R^d."""
    from scipy.stats import gamma

    return gamma(d, scale=scale)


def _batch(size):
    """A number or a shape of draws as a tuple of ints."""
    return tuple(integer(m, "size", 0) for m in (() if size is None else np.atleast_1d(size)))


def _ball(space, center, radius):
    """Centre and radius of a ball of the space, of which they have to be."""
    if space is None:
        raise ValueError("space is None; accepted is the space of the ball that is the domain")
    center = space.exp(center, np.zeros(space.dim))
    number(radius, "domain", 1e-100, space.injectivity_radius,
           f"radii above 0 and up to {space.injectivity_radius:.6g}")
    _hold(space, center if space.flat else space.alike(center), radius)  # where draws are made
    return center, float(radius)


def _hold(space, center, reach, name="domain"):
    """Refuse a ball that has points which float64 does not hold, before anything is drawn."""
    if reach > (held := _held(space, center)):
        raise ValueError(f"{name} is {reach!r}; accepted are radii up to {held:.6g}, of balls all "
                         "of whose points float64 holds")


def hold_ball(query, reach=None, name="radius"):
    """Refuse a query whose ball, or one of the radius `reach`, float64 does not hold.

    On a flat space coordinates are enough. On a curved one points are made of them, as they are
    seen from where all looks alike.
    """
    if not query.space.flat:
        center = query.space.alike(query.center)
        _hold(query.space, center, query.radius if reach is None else reach, name)


def _held(space, center):
    """Radius up to which a ball about the centre has only points that float64 holds.

    At the distance ρ the logarithm of an eigenvalue may be larger or smaller by ρ, and that of the
    ratio of two by √2 ρ.
    """
    if isinstance(space, TangentSpace):
        return _held(space.space, space.origin) - float(space.dist(space.origin, center))
    if not isinstance(space, (AffineInvariant, LogEuclidean)):
        return math.inf
    logs = np.log(np.linalg.eigvalsh(center))
    rest = (widest_spread(space.k) - (logs[-1] - logs[0])) / math.sqrt(2)
    return float(min(rest, LOG_MAX - logs[-1], logs[0] - LOG_MIN)) - 1e-6  # more than rounding


def _inside(distance, radius, name):
    if distance > radius * (1 + 1e-9):
        raise ValueError(f"{name} lies up to {distance:.6g} from the centre of the domain; "
                         f"accepted is up to {radius:.6g}, its radius")


def _toward(space, M, Y):
    """Steps from `M` to `Y`, also where that is a cut point."""
    return space.log(M, Y) if space.flat else space._log(M, Y)
