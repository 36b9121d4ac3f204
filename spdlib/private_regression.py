"""Private geodesic regression: noisy descent on a curve, and the estimator that releases one."""

import math

import numpy as np

from ._checks import generator, integer, number
from .calibration import sigma_analytic
from .frechet import clip_to_ball, frechet_sensitivity, project_to_ball
from .mechanisms import Mechanism
from .regression import _carried_back, _Chart, _curve, _fields

EVEN = math.sqrt(12)  # one over the standard deviation of t, for records spread evenly
SHARE = 1 / 6  # of the way to the farthest curve of the domain: the clip by default
SLOWEST = 0.1  # length of the last step, in gradients; that of the first is 1
SUMS = (1 - SLOWEST) / math.log(1 / SLOWEST)  # mean length of the steps
AGAIN = 2.2  # so often the steps lead as far as the farthest curve
FEWEST = 8  # steps
FINEST = 1e-3  # of the way: the least clip
ENTRIES = 2**18  # numbers that are looked at together


class NoisyDescent:
    """Riemannian gradient descent with clipped gradients and Gaussian noise: (ε, δ)-DP.

    It starts at the curve that stays at the public centre. At each step a record has the gradient
    (J*ε, √12 K*ε), where ε is its residual, and J and K take a change of the point and one of
    the velocity to where the record belongs on the curve. Its length is clipped to `clip`, so the
    mean of all moves by at most 2 clip/n when a record is replaced, at every curve and whatever the
    records are. Normal noise is added to that mean, and the curve moves by a share of it, within
    the domain. The number of steps and their shares are public: from 1 down to 1/10, so that early
    steps cross the domain and late ones average the noise, and so many of them that they could
    cross it twice.

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

    def __init__(self, epsilon, delta, n, clip, way):
        self.n, self.clip = integer(n, "n", 1), number(
            clip, "clip", FINEST * way, math.inf, f"numbers from {FINEST * way:.6g}, {FINEST} of "
            "the way that the steps may have to go")
        self.steps = max(math.ceil(AGAIN / SUMS * way / self.clip), FEWEST)
        self.sensitivity = frechet_sensitivity(self.n, self.clip)
        whole = math.sqrt(self.steps) * self.sensitivity * (1 + 1e-15)
        self.sigma = sigma_analytic(whole, epsilon, delta)
        self.mu = math.nextafter(whole / self.sigma, math.inf)  # more promises less

    @classmethod
    def of(cls, query, epsilon, delta, clip=None):
        """The mechanism for this query; `clip` is a sixth of the way by default.

        The squared error grows with clip × way, as long as few of the gradients near the truth are
        longer: three standard deviations of the records about their curve is a good clip.
        """
        way = math.hypot(query.radius, query.speed / EVEN)
        return cls(epsilon, delta, query.n, SHARE * way if clip is None else clip, way)

    __repr__ = Mechanism.__repr__

    def is_exact(self, query):
        """Whether answers have the law that the promise is about: always."""
        return True

    def answer(self, query, rng=None, size=None):
        """Private answers to the query, the last curves of descents, in its coordinates.

        Parameters
        ----------
        query : CurveQuery
            Of as many records as the mechanism was made for.
        rng : Generator, int or None
        size : int or tuple, optional
            Number or shape of the answers, independent descents; each costs the promise again.

        Returns
        -------
        array of shape (*size, 2 dim)

        Raises
        ------
        ValueError
            Where the query has fewer records, or one is not sound; nothing was drawn then.
        """
        if query.n < self.n:
            raise ValueError(f"query has {query.n} records; accepted are at least {self.n}, for "
                             "which the mechanism was made")
        rng, space = generator(rng), query.space
        core, center, Y = _seen(query)
        shape = () if size is None else tuple(integer(m, "size", 0) for m in np.atleast_1d(size))
        left = math.prod(shape)
        most = max(ENTRIES // (query.n * space.dim**2), 1)
        draws = [np.empty((0, 2 * space.dim))]
        while left > 0:
            m = min(left, most)
            draws.append(self._descend(core, center, query, Y, m, rng))
            left -= m
        return np.concatenate(draws).reshape(*shape, 2 * space.dim)

    def _descend(self, core, center, query, Y, m, rng):
        """The last curves of `m` descents at once, in the query's coordinates."""
        dim, center = core.dim, np.broadcast_to(center, (m, *core.shape))
        u, w = np.zeros((2, m, dim))
        for pace in SLOWEST ** np.linspace(0, 1, self.steps):
            p, turn = core._exp(center, u), _turn(core, center, u)
            v = np.einsum("mj,mji->mi", w, turn)
            along, across = self._gradient(core, p, v, query.t, Y)
            noise = self.sigma * rng.standard_normal((2, m, dim))
            u = core._log(center, core._exp(p, pace * (along + noise[0])))
            u = project_to_ball(u, query.radius)
            w = w + pace * EVEN * np.einsum("mji,mi->mj", turn, across + noise[1])
            w = project_to_ball(w, query.speed)
        return np.concatenate([u, w], axis=-1)

    def _gradient(self, core, p, v, t, Y):
        """Mean of the clipped gradients, downhill, in the frames at `p`, two of shape (m, dim)."""
        axes, *fields = _fields(core, v, t)
        curve = _curve(core, p, v, t)
        residuals = _carried_back(core, p, v, t, axes, curve, core._log(curve, Y))
        each = np.concatenate([fields[0] * residuals, EVEN * fields[1] * residuals], axis=-1)
        clipped = clip_to_ball(each.reshape(-1, 2 * core.dim), self.clip).reshape(each.shape)
        mean = clipped.sum(axis=1) / each.shape[1]
        return (np.einsum("mij,mj->mi", axes, part) for part in np.split(mean, 2, axis=-1))


def _seen(query):
    """The space as computations want it, and in it the query's centre and records."""
    space = query.space
    if space.flat:
        return _Chart(space), np.zeros(space.dim), query.steps
    center = space.alike(query.center)  # about an ill-conditioned one float64 holds fewer points
    return space, center, space.exp(center, query.steps)


def _turn(core, M, u):
    """The frame at the points `M`, carried along the steps `u`: a row for each of its vectors."""
    tail = len(core.shape) * (slice(None),)
    return core._carry(M[(slice(None), None, *tail)], u[:, None], np.eye(core.dim))
