"""Geodesic regression, its private release, and the error to expect of the release."""

import math
from typing import Any, NamedTuple, Self

import numpy as np
from numpy.typing import ArrayLike

from .._checks import Seed, choice, finite, generator, integer, number, positive
from ..accounting import document
from ..accounting.account import Account, Group
from ..mechanisms import CURVES, Choice, CurveName, Mechanism, chosen
from ..queries import CurveQuery
from ..queries.mean import checked_ball
from ..regression import fitted, predict
from ..samplers import ball_steps
from ..spaces import Ball, Space
from .base import Estimator, named, paid

GRID = 33  # points at which curves are compared


class GeodesicRegression(Estimator):
    """The geodesic x ↦ exp(p, x v) with the least energy (Fletcher 2011), many fits at once.

    On a flat space by its formula; on a curved one by the method of Levenberg and Marquardt with
    exact gradients, from the record in the middle of x. It ends where the gradient vanishes and
    the energy has only fallen; there may be other such geodesics. The fit is not private.

    Parameters
    ----------
    space : Space
    tolerance : float
        How long the gradient may be, in units of the spread of the records, with x from -1 to 1.

    Attributes
    ----------
    point_ : array of shape (..., *space.shape)
        The point p of the curve at x = 0.
    velocity_ : array of shape (..., dim)
        The velocity v there, in the frame at `point_`.
    energy_ : array of shape (...)
        Half the mean squared residual.
    residuals_ : array of shape (..., n, dim)
        Steps from the curve to the records, in the frames at `predict(x)`.
    """

    SUPERVISED, MOVED = True, {}

    def __init__(self, space: Space | None = None, tolerance: float = 1e-9):
        self.space, self.tolerance = space, tolerance

    @np.errstate(over="ignore")  # `finite` says what has overflowed
    def fit(self, x: ArrayLike, Y: ArrayLike) -> Self:
        """Fit the curve, or one to each data set; returns itself.

        Parameters
        ----------
        x : array of shape (..., n)
            Where on the curve the records belong; n ≥ 2 numbers, not all equal.
        Y : array of shape (..., n, *space.shape)
            The records. Leading axes are data sets, each with a fit of its own.

        Raises
        ------
        ValueError
            For invalid records, for x that are all equal, and where a fit has not converged.
        """
        self._forget()
        space = self.space
        if not isinstance(space, Space):
            raise ValueError(f"space is {space!r}; accepted is a Space, such as Sphere(2)")
        middle, point, v, steps, energy = fitted(space, x, Y, positive(self.tolerance, "tolerance"))
        back = -middle * v
        self.point_, self.velocity_ = space.exp(point, back), space.transport(point, back, v)
        self.energy_, self.residuals_ = energy, steps
        self._anchor_ = middle, point, v  # from where float64 holds the curve best
        return self

    def predict(self, x: ArrayLike) -> np.ndarray:
        """The points of the curve at `x`, shape `(..., m)`; they are `(..., m, *space.shape)`."""
        middle, point, v = self._anchor_
        return predict(self.space, point, v, finite(x, "x") - middle)


class PrivateGeodesicRegression(Estimator):
    """Differentially private geodesic regression: a curve through records (x, y) of any space.

    The curve is x ↦ exp(p, (x - middle) v), where `middle` is the middle of the range of x. The
    point p and the velocity v are released together, by one mechanism. Neighbours differ in one
    record (x, y), replaced by any other; the number of records is public. Nothing is read off the
    data: x outside the range is clipped to it, y may be anywhere, and no residual has to be short.

    Parameters
    ----------
    epsilon, delta : float
        The promise: ε from 1e-6 to 1e3, δ from 1e-300 to 1/2 for "noisy descent", 0 for the others.
    domain : Ball
        The public ball in which p is looked for. Choose it and all that follows without looking at
        the data.
    speed : float
        The longest curve that is looked for, in length over the whole range of x.
    x_range : (float, float)
        The public range of x, its ends.
    mechanism : str, class of a Mechanism, or one `with_options`, optional
        By default "truncated loss" where δ is 0 and "noisy descent" otherwise. The latter is
        (ε, δ)-DP in any dimension, in a fraction of a second. "truncated loss" and "k-norm
        gradient" are ε-DP, and drawn exactly where the space has dimension 1 or 2. On S² at ε = 1
        truncated loss errs least up to a few hundred records, and the other two from a thousand on.
        The option `clip`, as in `TruncatedCurveLoss.with_options(clip=0.1)`, limits how much a
        record counts: with "truncated loss" it is the distance from the curve beyond which a record
        has no further effect, with the other two the longest gradient that it can have. Three
        standard deviations of the records about their curve are a good choice. Only "noisy descent"
        has a default, a sixth of the way to the farthest curve of the domain.
    on_invalid : {"raise", "center"}
        What happens to a record whose x is not finite, or whose y is not a point of the space.
        "raise" refuses the data set, and the exception speaks of the data: do not publish it.
        "center" puts the middle of the range and the public centre in its place: each record is
        mapped by itself, so n stays public and the promise holds.

    Attributes
    ----------
    point_ : array of shape space.shape
        The curve's point p at `middle_`, a point of the space. Where float64 does not hold it, it
        is drawn towards the centre until it does, which costs no privacy.
    velocity_ : array of shape (dim,)
        The derivative of the curve by x there, in the frame of the space at `point_`; its length is
        at most `speed` over the length of the range.
    middle_ : float
        The middle of the range of x.
    mechanism_ : TruncatedCurveLoss, CurveKNormGradient or NoisyDescent
        What made them, with the scale of its noise.
    privacy_ : str
        The promise in words.
    release_ : Release
        All of this as a document that may be published; what a chain has drawn gets none.

    Notes
    -----
    Parameters are validated by `fit`, before a record is looked at. Each call of `fit` is a release
    of its own and costs its own (ε, δ); what is computed from the curve costs nothing. The
    estimator keeps no generator, and nothing of the data but the release.

    A release of too few records is a curve somewhere in the domain, and nothing about it shows it.
    `expected_curve_error` says beforehand, without data, how far it will be from the truth.

    The promise is for noise in real numbers. The low-order bits of float64 noise can tell two data
    sets apart (Mironov 2012; Haney et al. 2022). Round a release before you publish it, though this
    proves nothing. NumPy's generators are not cryptographic either: anyone who can guess a seed can
    remove the noise, so give `rng` for experiments only.

    Examples
    --------
    >>> import numpy as np
    >>> from spdlib import Ball, NoisyDescent, PrivateGeodesicRegression, Sphere
    >>> x = np.linspace(0, 1, 400)
    >>> Y = np.stack([np.sin(x - 0.5), 0 * x, np.cos(x - 0.5)], axis=-1)
    >>> private = PrivateGeodesicRegression(
    ...     epsilon=1.0, delta=1e-6, domain=Ball(0.5, [0, 0, 1], Sphere(2)), speed=2.0,
    ...     mechanism=NoisyDescent.with_options(clip=0.1))
    >>> private.fit(x, Y, rng=0).predict([0.0, 0.5, 1.0]).shape
    (3, 3)
    >>> bool(np.linalg.norm(private.point_ - [0, 0, 1]) < 0.1)
    True
    """

    MOVED = dict.fromkeys(Estimator.MOVED, "domain=Ball(radius, center, space)") | {
        "clip": "mechanism=TruncatedCurveLoss.with_options(clip=...)",
        "approximate": "mechanism=CurveKNormGradient.with_options(clip=..., approximate=True)"
    }

    def __init__(self, epsilon: float, delta: float, domain: Ball | None = None,
                 speed: float | None = None, x_range: ArrayLike = (0, 1),
                 mechanism: CurveName | type[Mechanism] | Choice | None = None,
                 on_invalid: str = "raise", **moved: Any):
        self._refuse(moved)
        self.epsilon, self.delta, self.domain, self.speed = epsilon, delta, domain, speed
        self.x_range, self.mechanism, self.on_invalid = x_range, mechanism, on_invalid

    @np.errstate(all="ignore")
    def fit(self, x: ArrayLike, Y: ArrayLike, *, rng: Seed = None, accountant: Account = None,
            group: Group = None) -> Self:
        """Release the curve through the records.

        Parameters
        ----------
        x : array of shape (n,)
            Where on the curve the records belong.
        Y : array of shape (n, k, k), or (n, *space.shape)
            Points of the space.
        rng, accountant, group
            As of `PrivateFrechetMean.fit`.

        Returns
        -------
        PrivateGeodesicRegression
            Itself.

        Raises
        ------
        ValueError
            For an invalid parameter, shape or record. Then nothing has been drawn, and no attribute
            of an earlier fit is left.
        """
        self._forget()
        query = self._query(x, Y)
        mechanism = self._mechanism(query)
        space, center, dim = query.space, query.domain.center, query.space.dim
        u = paid(self.delta, mechanism, query, 2 * dim, rng, accountant, group)()
        step = space.within_reach(center, u[:dim])
        low, high = query.x_range
        self.point_ = space.exp(center, step)
        carried = space.carried(space.points(center, "center"), step, u[dim:], self.point_)
        self.velocity_ = carried / (high - low)
        self.middle_ = low + (high - low) / 2
        words = (f" when one of n = {query.n} records (x, y) is replaced; n, the range "
                 f"{self.x_range} of x, the ball of radius {query.radius} and the speed "
                 f"{self.speed} are public")
        self._promise(words, mechanism, query, rng is not None)
        if mechanism.is_proved(query):
            self.release_ = document(self, query, mechanism, group=group, seeded=rng is not None,
                                     ball=query.domain, point=self.point_, velocity=self.velocity_,
                                     shrink=False, x_range=np.array([low, high]), speed=query.speed)
        return self

    def predict(self, x: ArrayLike) -> np.ndarray:
        """Points of the released curve at `x`, of any shape `(...)`: shape `(..., *space.shape)`.

        Outside of the range the curve goes on as a geodesic. ValueError where float64 does not hold
        a point.
        """
        x, space = finite(x, "x"), self.domain.space
        points = predict(space, self.point_, self.velocity_, x.ravel() - self.middle_)
        return points.reshape(*x.shape, *space.shape)

    def _query(self, x, Y):
        return CurveQuery(x, Y, self.domain, self.speed, self.x_range, self.on_invalid)

    def _mechanism(self, query):
        """The mechanism for the query, by public parameters alone."""
        mechanism = self.mechanism
        if mechanism is None:
            pure = number(self.delta, "delta", 0, 0.5, "0 and numbers from 1e-300 to 1/2") == 0
            mechanism = "truncated loss" if pure else "noisy descent"
        return named(chosen(mechanism, CURVES).of(query, self.epsilon, self.delta))


class CurveError(NamedTuple):
    """Root mean square distances from a true curve, over the range of x.

    `released` is the distance of a release, `centre` the distance of the curve that stays at the
    public centre, for which no data are needed. A release that is not much nearer is of no use.
    `doubt` is twice the standard error of `released`, which is found by trial; for a single trial
    it is infinite.
    """

    released: float
    centre: float
    doubt: float = math.inf


@np.errstate(all="ignore")
def expected_curve_error(private: PrivateGeodesicRegression, n: int, noise: float = 0.0,
                         draws: int = 20, rng: Seed = 0, x: ArrayLike = "even") -> CurveError:
    """How far the curve that this estimator releases will be from the truth: a `CurveError`.

    Found by trial, on data that are made up. The true curves are drawn from the public domain,
    evenly, and the records lie about the curve, normal in each coordinate. No record of yours is
    looked at, and knowing this error costs no privacy. Much depends on how x spreads: where all
    crowd in one place, the curve is known there and nowhere else.

    Parameters
    ----------
    private : PrivateGeodesicRegression
        It is not fitted by this.
    n : int
        Number of records.
    noise : float
        Standard deviation of the records about the curve, a public guess.
    draws : int
        Number of curves, each with records and a release of its own.
    rng : Generator, int or None
    x : {"even", "worst"} or array of shape (m,)
        The law of x, a public guess. "even" is spread evenly over the range. From an array each
        trial draws its n, with replacement; it has to be public, such as the x of an older study.
        "worst" is the largest error of three laws: evenly, nine in ten at the lower end, and all of
        them there.

    Raises
    ------
    ValueError
        For an invalid parameter, and where the estimator would refuse to fit.

    Examples
    --------
    >>> from spdlib import Ball, NoisyDescent, PrivateGeodesicRegression, Sphere
    >>> from spdlib import expected_curve_error
    >>> private = PrivateGeodesicRegression(
    ...     epsilon=1.0, delta=1e-6, domain=Ball(0.5, [0, 0, 1], Sphere(2)), speed=1.0,
    ...     mechanism=NoisyDescent.with_options(clip=0.1))
    >>> few, many = (expected_curve_error(private, n, noise=0.03, draws=10) for n in (20, 400))
    >>> few.released > 0.5 * few.centre  # hardly nearer than a curve that knows no data
    True
    >>> many.released < 0.05 * many.centre
    True
    """
    n, draws = integer(n, "n", 1), integer(draws, "draws", 1)
    noise = number(noise, "noise", 0, 1e280, "numbers from 0 to 1e280")
    space, rng = checked_ball(private.domain, "domain").space, generator(rng)
    query = private._query(np.zeros(n), np.broadcast_to(private.domain.center, (n, *space.shape)))
    mechanism = private._mechanism(query)
    low, high = query.x_range
    even, at = (np.arange(n) + 0.5) / n - 0.5, np.linspace(-0.5, 0.5, GRID)
    crowded = np.where(np.arange(n) % 10 > 0, -0.5, even)
    if isinstance(x, str):
        choice(x, "x", ("even", "worst"))
        laws = [even] if x == "even" else [even, crowded, np.full(n, -0.5)]
    else:
        x = finite(x, "x")
        if x.ndim != 1 or len(x) == 0:
            raise ValueError(f'x has shape {x.shape}; accepted are "even", "worst" and (m,) with '
                             "m ≥ 1")
        laws = [np.clip((np.clip(x, low, high) - low) / (high - low) - 0.5, -0.5, 0.5)]
    errors = np.empty((len(laws), draws, 2))
    for i, j in np.ndindex(len(laws), draws):
        t = rng.choice(laws[i], n) if not isinstance(x, str) else laws[i]
        p, z = ball_steps(space, query.radius, (), rng), rng.standard_normal(space.dim)
        v = query.speed * (z / np.linalg.norm(z) * rng.random()**(1 / space.dim))
        truth = query.curve(np.concatenate([p, v]))
        Y = space.exp(predict(space, *truth, t), noise * rng.standard_normal((n, space.dim)))
        trial = private._query(low + (t + 0.5) * (high - low), Y)
        u, true = mechanism.answer(trial, rng), predict(space, *truth, at)
        curves = (predict(space, *trial.curve(c), at) for c in (u, 0 * u))
        errors[i, j] = [np.mean(space.dist(true, curve)**2) for curve in curves]
    squares = max(errors, key=lambda law: law[:, 0].mean())
    released, centre = np.sqrt(squares.mean(axis=0)).tolist()
    if draws == 1:
        return CurveError(released, centre)
    doubt = float(squares[:, 0].std(ddof=1)) / math.sqrt(draws) / released
    return CurveError(released, centre, doubt)
