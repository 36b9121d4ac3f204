"""What all mechanisms share: an answer in two turns, options, and what is public of a mechanism.

`rng` is everywhere a `numpy.random.Generator` or a seed; None takes fresh entropy from the system.
NumPy's generators are not cryptographic, and the low-order bits of float64 noise tell inputs apart
(Mironov 2012; Haney et al. 2022): promises are those of noise in real numbers, but where `exact`
says that a mechanism's holds for the floats themselves.
"""

import dataclasses
import inspect
import math
from collections.abc import Callable
from typing import Any, ClassVar

import numpy as np

from .._checks import HUGE, LONGEST, SHORTEST, array, finite, generator, integer, number
from ..calibration import gaussian_delta
from ..spaces import Ball, LogEuclidean, Space

ENTRIES = 2**18  # numbers, or records times points, that are looked at together
LEAST, SAMPLE = 1e-3, 2048  # share that rejection accepts, at least, and draws that judge it


class Mechanism:
    """Private answers to queries, with a promise. A class of your own inherits from this.

    It says what follows, and defines `of(query, epsilon, delta, **options)`, a class method which
    makes the mechanism for a query, and `_prepared(query)`: that refuses whatever is to be refused,
    looks at the records, and returns the function of a Generator and a shape that draws answers.

    Attributes
    ----------
    name : str
        What estimators and documents call it.
    public : tuple of str
        Names of attributes that may be published: numbers, or a Ball, of which that is the radius.
    law : {"gaussian", "l2", "pure"}
        What is known of its privacy loss: that of Gaussian noise, that of noise with density
        exp(-‖x‖/s) on R^d, or no more than the largest.
    loss : float
        The parameter mu of Gaussian differential privacy, else the largest privacy loss.
    exact : bool
        Whether the promise holds for the floats that leave.
    each : bool
        Whether it asks for each record, and not for their sum alone.
    curves : bool
        Whether it answers with geodesics, and not with means.
    pure : bool
        Whether δ has to be 0.
    below : float
        Its theorem is stated for smaller ε only.
    in_chart : bool
        Whether its noise is added in the chart, so that a projection there does no harm.
    """

    name: ClassVar[str] = ""
    public: ClassVar[tuple[str, ...]] = ()
    law: ClassVar[str] = "pure"
    exact: ClassVar[bool] = False
    each: ClassVar[bool] = False
    curves: ClassVar[bool] = False
    pure: ClassVar[bool] = False
    below: ClassVar[float] = math.inf
    in_chart: ClassVar[bool] = False
    source = staticmethod(generator)  # what `rng` stands for

    @classmethod
    def with_options(cls, **options) -> "Choice":
        """The mechanism with options of its own, as estimators take it."""
        return Choice(cls, tuple(sorted(options.items())))

    def answer(self, query, rng=None, size=None) -> np.ndarray:
        """Private answers to the query, in its coordinates.

        Parameters
        ----------
        query : Query
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
        rng, size = self.source(rng), batch(size)  # refused before a record is looked at
        return self.prepared(query)(rng, size)

    @np.errstate(all="ignore")
    def prepared(self, query) -> Callable[..., np.ndarray]:
        """The function of `rng` and `size` that draws `answer(query, rng, size)`.

        It holds what is not private, and each answer that it draws costs the promise. ValueError as
        of `answer`. Whatever has to be refused is refused here, before anything is drawn, so that a
        budget may be given back if this fails, and never after it.
        """
        public_of(self)  # refuses what could not be published later
        draw = self._prepared(query)

        @np.errstate(all="ignore")
        def answers(rng=None, size=None):
            return draw(self.source(rng), batch(size))

        return answers

    def is_proved(self, query) -> bool:
        """Whether answers have the law that the promise is about; no data are looked at."""
        return True

    def __repr__(self):
        public = ", ".join(f"{name}={value!r}" for name, value in public_of(self).items())
        return f"{type(self).__name__}({public})"


@dataclasses.dataclass(frozen=True, repr=False)
class Choice:
    """A mechanism with options; it does not change, and two of equal options are equal.

    `Mechanism.with_options` makes it. ValueError for an option that the mechanism does not have.
    """

    mechanism: type[Mechanism]
    options: tuple[tuple[str, Any], ...] = ()

    def __post_init__(self):
        if not hasattr(kind := self.mechanism, "of"):
            raise ValueError(f"mechanism is {kind!r}; accepted is a class that defines `of`")
        known = [*inspect.signature(kind.of).parameters][3:]
        for name, value in self.options:
            if name not in known:
                raise ValueError(f"{name} is {value!r}; accepted with {kind.name!r} are the "
                                 f"options {known}")

    def of(self, query, epsilon, delta):
        """The mechanism for this query."""
        return self.mechanism.of(query, epsilon, delta, **dict(self.options))

    def __repr__(self):
        options = ", ".join(f"{name}={value!r}" for name, value in self.options)
        return f"{self.mechanism.__name__}.with_options({options})"


def chosen(mechanism, named):
    """The Choice that is meant: by one of the names, by a class, or already one.

    `named` is a dict from names to classes, whose `curves` say what is asked for.
    """
    curves = next(iter(named.values())).curves
    if isinstance(mechanism, str) and mechanism in named:
        return Choice(named[mechanism])
    if isinstance(mechanism, type) and issubclass(mechanism, Mechanism):
        mechanism = Choice(mechanism)
    if not isinstance(mechanism, Choice) or mechanism.mechanism.curves != curves:
        raise ValueError(f"mechanism is {mechanism!r}; accepted are {sorted(named)}, a class of a "
                         f"mechanism for {'curves' if curves else 'means'}, and one with_options")
    return mechanism


def public_of(mechanism):
    """The numbers that may be published of a mechanism, by name; its class lists them.

    ValueError for what is none.
    """
    values = {}
    for name in type(mechanism).public:
        if not hasattr(mechanism, name):
            raise ValueError(f"{name}, which is public, is no attribute of a "
                             f"{type(mechanism).__name__}; accepted are names of those that it has")
        value = getattr(mechanism, name)
        value = value.radius if isinstance(value, Ball) else value
        if value is not None:
            number(value, f"{name}, which is public,", -HUGE, HUGE, "finite numbers")
            values[name] = value
    return values


class Noise(Mechanism):
    """Noise that is added in a flat space, or in a chart; heirs say of which law, for what promise.

    They define `_noise(shape, rng)`, and in R^d `error(d)` and `delta(epsilon, d)`. Answers are
    steps from the query's public centre. They are bare: not projected onto the ball that holds the
    records.

    Attributes
    ----------
    sensitivity : float
        Of the queries that it may answer, at most.
    """

    in_chart = True
    sensitivity: float

    def _prepared(self, query):
        check_sensitivity(self, query.chart_sensitivity)
        query.ball.hold()
        y = finite(query.step, "step")
        self._noise((0, *y.shape), np.random.default_rng(0))  # refuses what it would refuse later
        return lambda rng, shape: self.perturb(y, rng, shape)

    @np.errstate(all="ignore")
    def perturb(self, y, rng=None, size=None) -> np.ndarray:
        """Coordinates `y`, shape `(..., dim)`, with fresh noise, shape `(*size, ..., dim)`.

        ValueError where `y` is not finite.
        """
        y, rng = finite(y, "y"), generator(rng)
        if y.ndim == 0:
            raise ValueError("y has shape (); accepted is (..., d)")
        return y + self._noise((*batch(size), *y.shape), rng)

    @np.errstate(all="ignore")
    def release(self, M, rng=None, size=None, space: Space | None = None) -> np.ndarray:
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

    def error(self, d: int):
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
        raise NotImplementedError(f"{type(self).__name__} defines no error, which a plan asks for")

    def delta(self, epsilon: float, d: int) -> float:
        """The smallest δ at which an answer in R^d is (ε, δ)-DP, rounded up.

        Parameters
        ----------
        epsilon : float
            0, or from 1e-6 to 1e3.
        d : int
            Dimension of the space, k(k+1)/2 for matrices of size k.
        """
        raise NotImplementedError(f"{type(self).__name__} defines no delta, which a plan asks for")


class GaussianNoise(Noise):
    """Normal noise of the standard deviation `sigma` in each coordinate, whose promise is `mu`."""

    law = "gaussian"
    sigma: float
    mu: float

    @property
    def loss(self):
        """The parameter of Gaussian differential privacy."""
        return self.mu

    def error(self, d):
        from scipy.stats import chi  # here, for it takes as long to load as all the rest

        return chi(integer(d, "d", 1, 5050), scale=self.sigma)

    def delta(self, epsilon, d):
        integer(d, "d", 1, 5050)  # the same δ in all of them
        return gaussian_delta(1.0, epsilon, self.mu)

    def _noise(self, shape, rng):
        return self.sigma * rng.standard_normal(shape)


def gamma_law(d, scale):
    """Law of the length of noise with density exp(-‖x‖/scale) on R^d."""
    from scipy.stats import gamma

    return gamma(d, scale=scale)


def checked_domain(domain, space, least=SHORTEST):
    """`domain`, if it is a ball that the chart at its centre covers once, and float64 holds."""
    if not isinstance(domain, Ball) or domain.space != space:
        raise ValueError(f"domain is {domain!r}; accepted is a Ball of {space!r}")
    most = min(LONGEST, space.injectivity_radius)
    number(domain.radius, "domain", least, most, f"balls of radii from {least:.6g} to {most:.6g}")
    domain.hold(name="domain", points=True)
    return domain


def concentric(domain, ball, least=SHORTEST):
    """The same about the centre of the records' ball, since a document shows no other."""
    checked_domain(domain, ball.space, least)
    if not np.array_equal(domain.center, ball.center):
        raise ValueError(f"domain is {domain!r}; accepted is a ball about the centre of the "
                         f"records' ball, {ball.center.tolist()!r}")
    return domain


def check_sensitivity(mechanism, moves, what="sensitivity"):
    """Refuse a query of which one record moves the answer by more than it was made for."""
    if moves > mechanism.sensitivity:
        raise ValueError(f"query has {what} {moves:.6g}; accepted are those up to "
                         f"{mechanism.sensitivity:.6g}, the mechanism's own")


def loss_of(sensitivity, scale):
    """The largest privacy loss, the ε at δ = 0, or the mu of Gaussian noise, rounded up.

    More promises less.
    """
    return math.nextafter(sensitivity / scale, math.inf)


def batch(size):
    """A number or a shape of draws as a tuple of ints."""
    return tuple(integer(m, "size", 0) for m in (() if size is None else np.atleast_1d(size)))
