"""Private geodesic regression: noisy descent on a curve, and the estimator that releases one."""

import math
from typing import NamedTuple

import numpy as np

from ._checks import choice, finite, generator, integer, number, records
from ._estimator import Estimator
from .accounting import in_words, spending
from .calibration import sigma_analytic
from .clipping import clip_to_ball, project_to_ball, public_center
from .curve_densities import CurveKNormGradient, CurveQuery, TruncatedCurveLoss
from .frechet import frechet_sensitivity
from .mechanisms import Answers, hold_ball
from .regression import _among, _carried_back, _Chart, _curve, _fields, predict
from .sampling import MOST, ball_steps
from .spaces import LogEuclidean

EVEN = math.sqrt(12)  # one over the standard deviation of t, for records spread evenly
SHARE = 1 / 6  # of the way to the farthest curve of the domain: the clip by default
SLOWEST = 1 / 12  # length of the last step, in gradients; that of the first is 1
SUMS = (1 - SLOWEST) / math.log(1 / SLOWEST)  # mean length of the steps
AGAIN = 2.5  # so many times the steps together lead as far as the farthest curve
FEWEST = 8  # steps
FINEST = 1e-3  # of the way: the least clip
ENTRIES = 2**18  # numbers that are looked at together
FLAT = 14.0  # square roots of curvature times distance, up to which float64 tells points apart
TURNS = 1e6  # injectivity radii that a curve may be long
GRID = 33  # points at which curves are compared


class NoisyDescent(Answers):
    """Riemannian gradient descent with clipped gradients and Gaussian noise: (ε, δ)-DP.

    It starts at the curve that stays at the public centre. At each step a record has the gradient
    (J*ε, √12 K*ε), where ε is its residual, and J and K take a change of the point and one of
    the velocity to where the record belongs on the curve. Its length is clipped to `clip`, so the
    mean of all moves by at most 2 clip/n when a record is replaced, at every curve and whatever the
    records are. Normal noise is added to that mean, and the curve moves by a share of it, within
    the domain. The number of steps and their shares are public: from 1 down to 1/12, so that early
    steps cross the domain and late ones average the noise, and so many of them that they could
    cross it more than twice.

    The √12 makes of the velocity a coordinate in which a record weighs as much as in the point: t
    runs from -1/2 to 1/2, and its standard deviation is 1/√12 where the records are spread
    evenly. It alters no promise.

    The steps together are what one Gaussian mechanism would be with the noise of one of them and a
    sensitivity √steps times as large, also though each step depends on those before it (Dong, Roth
    and Su 2022, Corollary 2).

    Parameters
    ----------
    epsilon, delta : float
        The promise: ε from 1e-6 to 1e3, δ from 1e-300 to 1/2.
    n : int
        Number of records.
    clip : float
        Longest gradient of a record. It is between one and two times the residual, in a flat space.
    way : float
        How far it may be from the start to a curve of the domain: the root of
        radius² + speed²/12.

    Attributes
    ----------
    steps : int
        Their number.
    sensitivity : float
        Of the mean gradient, at each step.
    sigma : float
        Standard deviation of the noise in each coordinate, at each step.
    mu : float
        √steps sensitivity / sigma, the parameter of Gaussian differential privacy of all steps.

    Raises
    ------
    ValueError
        For a promise that is none, or a clip that is too short for the way.
    """

    name, law, exact = "noisy descent", "gaussian", False
    public = "n", "clip", "steps", "sensitivity", "sigma", "mu"

    def __init__(self, epsilon, delta, n, clip, way):
        self.n, self.clip = integer(n, "n", 1), number(
            clip, "clip", FINEST * way, MOST, f"numbers from {FINEST * way:.6g}, {FINEST} of the "
            f"way that the steps may have to go, to {MOST:g}")
        number(delta, "delta", 1e-300, 0.5, "numbers from 1e-300 to 1/2 with \"noisy descent\"")
        self.steps = max(math.ceil(AGAIN / SUMS * way / self.clip), FEWEST)
        self.sensitivity = frechet_sensitivity(self.n, self.clip)
        whole = math.sqrt(self.steps) * self.sensitivity * (1 + 1e-15)
        self.sigma = sigma_analytic(whole, epsilon, delta)
        self.mu = math.nextafter(whole / self.sigma, math.inf)  # more promises less

    @property
    def loss(self):
        """The parameter of Gaussian differential privacy of all steps."""
        return self.mu

    @classmethod
    def of(cls, query, epsilon, delta, clip=None):
        """The mechanism for this query; `clip` is a sixth of the way by default.

        The squared error grows with clip × way, as long as few of the gradients near the truth are
        longer: three standard deviations of the records about their curve is a good clip.
        """
        way = math.hypot(query.radius, query.speed / EVEN)
        made = cls(epsilon, delta, query.n, SHARE * way if clip is None else clip, way)
        made._check(query)
        return made

    def is_exact(self, query):
        """Whether answers have the law that the promise is about: always."""
        return True

    def _prepared(self, query):
        self._check(query)
        space = query.space
        core, center, Y = _seen(query, self.clip)
        most = max(ENTRIES // (query.n * space.dim**2), 1)

        def answers(rng, shape):
            size = math.prod(shape)
            draws = [np.empty((0, 2 * space.dim))]
            for done in range(0, size, most):
                m = min(size - done, most)
                draws.append(self._descend(core, center, query, Y, m, rng))
            return np.concatenate(draws).reshape(*shape, 2 * space.dim)

        return answers

    def _check(self, query):
        """Refuse what moves the gradient by more, and what float64 does not hold; by no data."""
        if query.n < self.n:
            raise ValueError(f"query has {query.n} records; accepted are at least {self.n}, for "
                             "which the mechanism was made")
        space, reach = query.space, query.space.injectivity_radius
        if not query.radius < reach:
            raise ValueError(f"radius is {query.radius!r}; accepted are numbers below {reach:.6g}, "
                             f"the injectivity radius of {space!r}")
        if not query.speed <= TURNS * reach:
            raise ValueError(f"speed is {query.speed!r}; accepted are numbers up to "
                             f"{TURNS * reach:.6g}, {TURNS:g} times the injectivity radius of "
                             f"{space!r}, up to which float64 tells where a curve leads")
        bend, far = math.sqrt(max(-space.curvature[0], 0)), _farthest(query, self.clip)
        if not bend * far < FLAT:
            raise ValueError(f"radius + speed/2 + clip is {far:.6g}; accepted are numbers below "
                             f"{FLAT / bend:.6g} on {space!r}, where float64 tells points apart")
        hold_ball(query, max(3 * query.radius, far), "the larger of 3 radius, which a step may "
                   "reach before it is projected, and radius + speed/2 + clip")

    def _descend(self, core, center, query, Y, m, rng):
        """The last curves of `m` descents at once, in the query's coordinates."""
        dim, center = core.dim, np.broadcast_to(center, (m, *core.shape))
        u, w = np.zeros((2, m, dim))
        for pace in SLOWEST ** np.linspace(0, 1, self.steps):
            p = core._exp(center, u)
            turn = _turn(core, center, u, p)
            v = np.einsum("mj,mji->mi", w, turn)
            along, across = self._gradient(core, p, v, query.times, Y)
            noise = self.sigma * rng.standard_normal((2, m, dim))
            step = project_to_ball(pace * (along + noise[0]), 2 * query.radius)
            u = project_to_ball(core._log(center, core._exp(p, step)), query.radius)
            w = w + pace * EVEN * np.einsum("mji,mi->mj", turn, across + noise[1])
            w = project_to_ball(w, query.speed)
        return np.concatenate([u, w], axis=-1)

    def _gradient(self, core, p, v, t, Y):
        """Mean of the clipped gradients, downhill, in the frames at `p`, two of shape (m, dim)."""
        axes, *fields = _fields(core, v, t)
        curve = _curve(core, p, v, t)
        residuals = _carried_back(core, p, v, t, axes, curve, core._log(curve, Y))
        each = np.stack([fields[0] * residuals, EVEN * fields[1] * residuals], axis=-2)
        each = np.einsum("mij,mncj->mnci", axes, each)  # before they are clipped: it rounds
        clipped = clip_to_ball(each.reshape(-1, 2 * core.dim), self.clip).reshape(each.shape)
        return np.moveaxis(clipped.sum(axis=1) / each.shape[1], 1, 0)


def _seen(query, clip):
    """The space as computations want it, and in it the query's centre and records.

    A record further from the centre than any curve of the domain, by more than `clip`, is moved to
    that distance, each by itself: float64 may not hold the way to it.
    """
    steps = project_to_ball(query.steps, _farthest(query, clip))
    space = query.space
    if space.flat:
        return _Chart(space), np.zeros(space.dim), steps
    center = space.alike(query.center)  # about an ill-conditioned one float64 holds fewer points
    return space, center, space.exp(center, steps)


def _farthest(query, clip):
    """How far from the centre a curve of the domain may lead, and `clip` more."""
    return query.radius + query.speed / 2 + clip


def _turn(core, M, u, there):
    """The frame at `M`, carried along the steps `u` to `there`: a row for each of its vectors."""
    return core._carry(_among(core, M), u[:, None], np.eye(core.dim), _among(core, there))


MECHANISMS = {
    "truncated loss": TruncatedCurveLoss.of,
    "k-norm gradient": CurveKNormGradient.of,
    "noisy descent": NoisyDescent.of,
}


class PrivateGeodesicRegression(Estimator):
    """Differentially private geodesic regression: a curve through records (x, y) of any space.

    The curve is x ↦ exp(p, (x - middle) v), where `middle` is that of the public range of x. The
    point p and the velocity v are released together, by one mechanism. Neighbours differ in one
    record (x, y), replaced by any other; the number of records is public. Nothing is read off the
    data: x outside the range is clipped to it, y may be anywhere, and no residual has to be short.

    Parameters
    ----------
    epsilon, delta : float
        The promise: ε from 1e-6 to 1e3, δ from 1e-300 to 1/2 for "noisy descent", 0 for the others.
    radius : float
        Of the ball about the centre in which p is looked for, in the distance of the space. Choose
        it, the centre and all that follows without looking at the data.
    speed : float
        The longest curve that is looked for, in length over the whole range of x.
    center : array of shape space.shape, optional
        Centre of the ball; for matrices the identity by default.
    x_range : (float, float)
        The public range of x, its ends.
    clip : float, optional
        How much a record counts at most. With "truncated loss" it is the distance from the curve
        from which on a record is not felt, with the other two the longest gradient that it has.
        Three standard deviations of the records about their curve are a good one. Only "noisy
        descent" has one by default, a sixth of the way to the farthest curve of the domain.
    space : optional
        The space of the records, `LogEuclidean(k)` by default.
    mechanism : {None, "truncated loss", "k-norm gradient", "noisy descent"}
        None is "truncated loss" where δ is 0 and "noisy descent" else. Noisy descent is (ε, δ)-DP
        in any dimension, in milliseconds. The other two are ε-DP, and drawn exactly where the space
        has dimension 1 or 2. On S² at ε = 1 truncated loss errs least up to a few hundred records,
        and the other two from a thousand on.
    on_invalid : {"raise", "center"}
        What happens to a record whose x is not finite, or whose y is no point of the space. "raise"
        refuses the data set, and the exception speaks of the data: keep it inside. "center" puts
        the middle of the range and the public centre in its place: each record is mapped by itself,
        so n stays public and the promise stands.
    approximate : bool
        Whether Metropolis chains may answer where nothing samples exactly. No promise is proved for
        a chain.

    Attributes
    ----------
    point_ : array of shape space.shape
        The curve's point p at `middle_`, a point of the space. Where float64 does not hold it, it
        is drawn towards the centre until it does, which costs no privacy.
    velocity_ : array of shape (dim,)
        Its derivative by x there, in the frame of the space at `point_`: `speed` over the length of
        the range at most.
    middle_ : float
        The middle of the range of x.
    space_ : LogEuclidean, Euclidean, TangentSpace, AffineInvariant, Sphere or KendallPlanar
        The space of the records.
    mechanism_ : TruncatedCurveLoss, CurveKNormGradient or NoisyDescent
        What made them, with the scale of its noise.
    privacy_ : str
        The promise in words.

    Notes
    -----
    Parameters are validated by `fit`, before a record is looked at. Each call of `fit` is a release
    of its own and costs its own (ε, δ); what is computed from the curve costs nothing. The
    estimator keeps no generator, and nothing of the data but the release.

    A release of too few records is a curve somewhere in the domain, and nothing about it tells.
    `expected_curve_error` says beforehand, without data, how far it will be from the truth.

    The promise is that of noise in real numbers. The low-order bits of float64 noise can tell two
    data sets apart (Mironov 2012; Haney et al. 2022). Round a release before it leaves the house;
    that is no proof. NumPy's generators are not cryptographic either: who can guess a seed can take
    the noise away, so give `rng` for experiments only.

    Examples
    --------
    >>> import numpy as np
    >>> from spdlib import PrivateGeodesicRegression, Sphere
    >>> x = np.linspace(0, 1, 400)
    >>> Y = np.stack([np.sin(x - 0.5), 0 * x, np.cos(x - 0.5)], axis=-1)
    >>> private = PrivateGeodesicRegression(epsilon=1.0, delta=1e-6, radius=0.5, speed=2.0,
    ...                                     center=[0, 0, 1], clip=0.1, space=Sphere(2))
    >>> private.fit(x, Y, rng=0).predict([0.0, 0.5, 1.0]).shape
    (3, 3)
    >>> bool(np.linalg.norm(private.point_ - [0, 0, 1]) < 0.1)
    True
    """

    def __init__(self, epsilon, delta, radius, speed, center=None, x_range=(0, 1), clip=None,
                 space=None, mechanism=None, on_invalid="raise", approximate=False):
        self.epsilon, self.delta, self.radius, self.speed = epsilon, delta, radius, speed
        self.center, self.x_range, self.clip, self.space = center, x_range, clip, space
        self.mechanism, self.on_invalid, self.approximate = mechanism, on_invalid, approximate

    @np.errstate(all="ignore")
    def fit(self, x, Y, *, rng=None, accountant=None, group=None):
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
            For a parameter, a shape or a record that is none. Then nothing has been drawn, and no
            attribute of an earlier fit is left.
        """
        self._forget()
        seeded, rng, query = rng is not None, generator(rng), self._query(x, Y)
        mechanism = self._mechanism(query)
        space, center, dim = query.space, query.center, query.space.dim
        with spending(accountant, mechanism, 2 * dim, group):
            draw = mechanism.prepared(query)
        u = draw(rng)
        step = space.within_reach(center, u[:dim])
        low, high = query.x_range
        self.point_ = space.exp(center, step)
        self.velocity_ = space.transport(center, step, u[dim:]) / (high - low)
        self.middle_ = low + (high - low) / 2
        self.space_ = space
        self.mechanism_ = mechanism
        promise = (
            f"({self.epsilon}, {self.delta})-differentially private when one of n = {query.n} "
            f"records (x, y) is replaced; n, the range {self.x_range} of x, the centre, the radius "
            f"{self.radius} and the speed {self.speed} are public")
        if mechanism.is_exact(query):
            self.privacy_ = in_words(promise, mechanism, seeded)
        else:
            self.privacy_ = (f"not proved to be private: a chain has approximated a law that is "
                             f"{promise}; a chain certifies no δ")
        return self

    def predict(self, x):
        """Points of the released curve at `x`, of any shape `(...)`: shape `(..., *space.shape)`.

        Outside of the range the curve goes on as a geodesic. ValueError where float64 does not hold
        a point.
        """
        x, space = finite(x, "x"), self.space_
        points = predict(space, self.point_, self.velocity_, x.ravel() - self.middle_)
        return points.reshape(*x.shape, *space.shape)

    def _query(self, x, Y):
        space = self.space
        if space is None:
            Y = records(Y, "Y")
            shape = Y.shape
            if len(shape) != 3 or 0 in shape or shape[1] != shape[2]:
                raise ValueError(f"Y has shape {shape}; accepted is (n, k, k) with n ≥ 1 and k ≥ 1")
            space = LogEuclidean(shape[1])
        return CurveQuery(x, Y, self.center, self.radius, self.speed, space, self.x_range,
                          self.on_invalid)

    def _mechanism(self, query):
        """The mechanism for the query, by public parameters alone."""
        name = self.mechanism
        if name is None:
            pure = number(self.delta, "delta", 0, 0.5, "0 and numbers from 1e-300 to 1/2") == 0
            name = "truncated loss" if pure else "noisy descent"
        make = MECHANISMS[choice(name, "mechanism", MECHANISMS)]
        if not isinstance(self.approximate, (bool, np.bool_)):
            raise ValueError(f"approximate is {self.approximate!r}; accepted are True and False")
        if name == "noisy descent":
            return make(query, self.epsilon, self.delta, clip=self.clip)
        if self.clip is None:
            raise ValueError(f"clip is None; accepted are numbers above 0 with {name!r}, how much "
                             "a record counts at most")
        return make(query, self.epsilon, self.delta, clip=self.clip,
                    approximate=bool(self.approximate))


class CurveError(NamedTuple):
    """Root mean square distances from a true curve, over the range of x.

    `released` is that of a release, `centre` that of the curve that stays at the public centre, for
    which no data are needed. A release that is not much nearer is of no use.
    """

    released: float
    centre: float


@np.errstate(all="ignore")
def expected_curve_error(private, n, noise=0.0, draws=20, rng=0):
    """How far the curve that this estimator releases will be from the truth: a `CurveError`.

    Found by trial, on data that are made up. The true curves are drawn from the public domain,
    evenly; x is spread evenly over the range, and the records lie about the curve, normal in each
    coordinate. No record of yours is looked at, and to know it costs no privacy.

    Parameters
    ----------
    private : PrivateGeodesicRegression
        With a `space`. It is not fitted by this.
    n : int
        Number of records.
    noise : float
        Standard deviation of the records about the curve, a public guess.
    draws : int
        Number of curves, each with records and a release of its own.
    rng : Generator, int or None

    Raises
    ------
    ValueError
        For a parameter that is none, and where the estimator would refuse to fit.

    Examples
    --------
    >>> from spdlib import PrivateGeodesicRegression, Sphere
    >>> from spdlib.private_regression import expected_curve_error
    >>> private = PrivateGeodesicRegression(epsilon=1.0, delta=1e-6, radius=0.5, speed=1.0,
    ...                                     center=[0, 0, 1], clip=0.1, space=Sphere(2))
    >>> few, many = (expected_curve_error(private, n, noise=0.03, draws=10) for n in (20, 400))
    >>> few.released > 0.5 * few.centre  # hardly nearer than a curve that knows no data
    True
    >>> many.released < 0.05 * many.centre
    True
    """
    n, draws = integer(n, "n", 1), integer(draws, "draws", 1)
    noise = number(noise, "noise", 0, 1e280, "numbers from 0 to 1e280")
    space, rng = private.space, generator(rng)
    if space is None:
        raise ValueError("space is None; accepted is the space of the records")
    blank = np.broadcast_to(public_center(private.center, space), (n, *space.shape))
    query = private._query(np.zeros(n), blank)
    private._mechanism(query)
    low, high = query.x_range
    t, at = (np.arange(n) + 0.5) / n - 0.5, np.linspace(-0.5, 0.5, GRID)
    errors = []
    for _ in range(draws):
        truth = query.curve(np.concatenate([
            ball_steps(space, query.radius, (), rng),
            query.speed * _in_unit_ball(space.dim, rng)]))
        Y = space.exp(predict(space, *truth, t), noise * rng.standard_normal((n, space.dim)))
        trial = private._query(low + (t + 0.5) * (high - low), Y)
        u = private._mechanism(trial).answer(trial, rng)
        curves = (predict(space, *trial.curve(c), at) for c in (u, 0 * u))
        errors.append([np.mean(space.dist(predict(space, *truth, at), curve)**2)
                       for curve in curves])
    return CurveError(*np.sqrt(np.mean(errors, axis=0)).tolist())


def _in_unit_ball(dim, rng):
    z = rng.standard_normal(dim)
    return z / np.linalg.norm(z) * rng.random() ** (1 / dim)
