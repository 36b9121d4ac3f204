"""Noisy descent on a curve: geodesic regression with Gaussian noise in each step."""

import math

import numpy as np

from .._checks import LONGEST, integer, number
from ..calibration import sigma_analytic
from ..queries.mean import frechet_sensitivity
from ..regression import carried_back, curve_points, jacobi_fields
from ..spaces.ball import clip_to_ball, project_to_ball
from ..spaces.components import lengths
from .base import ENTRIES, Mechanism, loss_of

EVEN = math.sqrt(12)  # one over the standard deviation of t, for records spread evenly
SHARE = 1 / 6  # of the way to the farthest curve of the domain: the clip by default
AGAIN = 1.5  # so many times the whole steps together lead as far as the farthest curve
AVERAGED = 2  # for each whole step so many follow that are shorter and shorter
ALTERNATIONS = 10  # in which a step is brought back into the domain
LOOK = 0.1  # share of mu² that the look at x costs
PRIOR = 1 / 4  # noise of the look at which it is trusted as much as that x spreads evenly
CALM = 1 / 12  # spread over the noise of the look above which fewer records are clipped
LEAST_CLIP = 1e-3  # of the way: the least clip
FLAT = 14.0  # square roots of curvature times distance, up to which float64 tells points apart
TURNS = 1e6  # injectivity radii that a curve may be long


class NoisyDescent(Mechanism):
    """Riemannian gradient descent with clipped gradients and Gaussian noise: (ε, δ)-DP.

    It starts at the curve that stays at the public centre. First it looks at x: the means of s and
    s², s = 2t, with normal noise, tell about where the x are, m, and how far they spread, d. At
    each step a record has the gradient (J*ε, (K - m J)*ε/r), where ε is its residual, and J and K
    take a change of the point and one of the velocity to where the record belongs on the curve; r
    is a length between d and that of the farthest t from m. Its length is clipped to `clip`, so the
    mean of all moves by at most 2 clip/n when a record is replaced, at every curve, for all m and r
    and whatever the records are. Normal noise is added to that mean.

    The curve turns about its point at m, and the velocity moves by r/d² times its part: so the
    second derivative is about 1 in all directions, also where the x crowd. Where curvature may make
    it larger, the step is shorter by as much. A step that leaves the domain is brought back in the
    same metric. The whole steps are so many that they lead half again as far as the farthest curve,
    and come as near as the noise is large; they are fewer where the noise of a step is as long as
    the clip. Twice as many follow, of lengths 2/2, 2/3, 2/4, ..., that average it. All of this is
    public, or computed from what has been released with noise.

    The smaller r, the less noise is in the velocity, and the more records are clipped that are far
    from m: r is d where there is much noise, and the largest where there is little.

    Look and steps together are what one Gaussian mechanism would be: the squares of their
    sensitivities over their noise add up, also though each depends on those before it (Dong, Roth
    and Su 2022, Corollary 2). The look has a tenth of the sum.

    Parameters
    ----------
    epsilon, delta : float
        The promise: ε from 1e-6 to 1e3, δ from 1e-300 to 1/2.
    n : int
        Number of records.
    clip : float
        Longest gradient of a record. It is at least the residual, in a flat space, and at most
        √2 times as long where there is little noise.
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
        √(steps / 0.9) sensitivity / sigma, the parameter of Gaussian differential privacy of all
        steps and of the look at x.

    Raises
    ------
    ValueError
        For a promise that is none, or a clip that is too short for the way.
    """

    name, law, curves, each = "noisy descent", "gaussian", True, True
    public = "n", "clip", "steps", "sensitivity", "sigma", "mu"

    def __init__(self, epsilon: float, delta: float, n: int, clip: float, way: float):
        self.n, least = integer(n, "n", 1), LEAST_CLIP * way
        self.clip = number(
            clip, "clip", least, LONGEST, f"numbers from {least:.6g}, {LEAST_CLIP} of "
            f"the way that the steps may have to go, to {LONGEST:g}")
        number(delta, "delta", 1e-300, 0.5, "numbers from 1e-300 to 1/2 with \"noisy descent\"")
        self.sensitivity = frechet_sensitivity(self.n, self.clip)
        single = sigma_analytic(self.sensitivity, epsilon, delta)  # noise, if there were one step
        steps = AGAIN * way / self.clip + 2 * math.log1p(self.clip / single)
        loud = math.sqrt((1 + AVERAGED) * steps) * single / self.clip
        self.steps = (1 + AVERAGED) * math.ceil(steps / (1 + 2 * loud))
        whole = math.sqrt(self.steps / (1 - LOOK)) * self.sensitivity * (1 + 1e-15)
        self.sigma = sigma_analytic(whole, epsilon, delta)
        self.mu = self.loss = loss_of(whole, self.sigma)

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

    def _prepared(self, query):
        self._check(query)
        space = query.space
        center, Y = _seen(query, self.clip)
        most = max(ENTRIES // (query.n * space.dim**2), 1)

        def answers(rng, shape):
            draws = np.empty((math.prod(shape), 2 * space.dim))
            for i in range(0, len(draws), most):
                draws[i:i + most] = self._descend(center, query, Y, len(draws[i:i + most]), rng)
            return draws.reshape(*shape, 2 * space.dim)

        return answers

    def _check(self, query):
        """Refuse what moves the gradient by more, and what float64 does not hold; by no data."""
        if query.n < self.n:
            raise ValueError(f"query has {query.n} records; accepted are at least {self.n}, for "
                             "which the mechanism was made")
        space, reach = query.space, query.space.injectivity_radius
        query.domain.tangent()  # refuses what the chart at the centre does not cover once
        if not query.speed <= TURNS * reach:
            raise ValueError(f"speed is {query.speed!r}; accepted are numbers up to "
                             f"{TURNS * reach:.6g}, {TURNS:g} times the injectivity radius of "
                             f"{space!r}, up to which float64 tells where a curve leads")
        bend, far = math.sqrt(max(-space.curvature[0], 0)), query.farthest(self.clip)
        if not bend * far < FLAT:
            raise ValueError(f"radius + speed/2 + clip is {far:.6g}; accepted are numbers below "
                             f"{FLAT / bend:.6g} on {space!r}, where float64 tells points apart")
        query.domain.hold(
            max(3 * query.radius, far), "the larger of 3 radius, which a step may "
            "reach before it is projected, and radius + speed/2 + clip")

    def _descend(self, center, query, Y, m, rng):
        """The last curves of `m` descents at once, in the query's coordinates."""
        space, dim = query.space, query.space.dim
        center = np.broadcast_to(center, (m, *space.inner))
        u, w = np.zeros((2, m, dim))
        middle, unit, square = _spread(*self._look(query.times, m, rng))
        whole = self.steps // (1 + AVERAGED)
        for i in range(self.steps):
            p = space.ends(center, u)
            turn = _turn(space, center, u, p)
            v = np.einsum("mj,mji->mi", w, turn)
            fall = np.stack(self._gradient(space, p, v, query.times, Y, middle, unit))
            fall += self.sigma * rng.standard_normal((2, m, dim))
            along, across = 2 / (2 + max(i - whole, 0)) / self._steepest(space, w) * fall
            across *= unit / square
            along -= middle * across
            step = project_to_ball(along, 2 * query.radius)
            u = space.steps(center, space.ends(p, step))
            w = w + np.einsum("mji,mi->mj", turn, across)
            u, w = _within(query, u, w, middle, square)
        return np.concatenate([u, w], axis=-1)

    def _look(self, t, m, rng):
        """Means of 2t and of 4t² with noise, each of shape (m, 1), and how much noise is in each.

        The vectors (2t, 4t²) are 2 apart at most, so their mean moves by the sensitivity over the
        clip.
        """
        tau = self.sigma / self.clip * math.sqrt((1 - LOOK) / LOOK / self.steps)
        seen = clip_to_ball(np.stack([2 * t, 4 * t * t], axis=-1), math.sqrt(2)).sum(axis=0)
        first, second = seen[:, None, None] / len(t) + tau * rng.standard_normal((2, m, 1))
        return first, second, tau

    def _steepest(self, space, w):
        """How much larger curvature makes the second derivative at most, at curves of velocity `w`.

        The factors of the Hessian of half the squared distance, up to the clip, and of the squares
        of the Jacobi fields at the ends of the curve; shape (m, 1).
        """
        bend = math.sqrt(max(-space.curvature[0], 0))
        far = bend * self.clip
        return (far / math.tanh(far) if far else 1) * np.cosh(bend * lengths(w)[:, None] / 2)**2

    def _gradient(self, space, p, v, t, Y, middle=0.0, unit=0.5):
        """Mean of the clipped gradients, downhill, in the frames at `p`, two of shape (m, dim)."""
        axes, *fields = jacobi_fields(space, v, t)
        curve = curve_points(space, p, v, t)
        residuals = carried_back(space, p, v, t, axes, curve, space.steps(curve, Y))
        middle, unit = np.reshape(middle, (-1, 1, 1)), np.reshape(unit, (-1, 1, 1))
        turning = (fields[1] - middle * fields[0]) / unit
        each = np.stack([fields[0] * residuals, turning * residuals], axis=-2)
        each = np.einsum("mij,mncj->mnci", axes, each)  # before they are clipped: it rounds
        clipped = clip_to_ball(each.reshape(-1, 2 * space.dim), self.clip).reshape(each.shape)
        return np.moveaxis(clipped.sum(axis=1) / each.shape[1], 1, 0)


def _seen(query, clip):
    """The query's centre and records, as the unchecked maps take them.

    A record further from the centre than any curve of the domain, by more than `clip`, is moved to
    that distance, each by itself: float64 may not hold the way to it.
    """
    steps = project_to_ball(query.steps, query.farthest(clip))
    space = query.space
    if space.flat:
        return np.zeros(space.dim), steps
    center = space.alike(query.domain.center)  # about an ill-conditioned one fewer points are held
    return center, space.exp(center, steps)


def _spread(first, second, tau):
    """Where the x are, the unit of the velocity there, and the square of their spread.

    From means of 2t and of 4t² with noise `tau`. The noisier they are, the less are they trusted: x
    that spread evenly take their place. A spread that is too large costs steps, one that is too
    small makes them too long: a quarter of the noise is added to the square.
    """
    trust = 1 / (1 + (tau / PRIOR)**2)
    middle = np.clip(first / 2, -0.5, 0.5)
    square = np.clip(second / 4 - middle**2, 0, 1 / 4)
    middle, square = trust * middle, trust * (square + tau / 4) + (1 - trust) / EVEN**2
    unit = np.clip(CALM * square / tau, np.sqrt(square), 0.5 + np.abs(middle))
    return middle, unit, square


def _within(query, a, b, middle, square):
    """Coordinates of the domain that are near `a` and `b`, in the metric of the steps.

    That is |u - a + middle (w - b)|² + square |w - b|², made smaller in u and in w by turns. Point
    and velocity projected each by itself could hold a descent at the domain's edge, where it takes
    both to go on.
    """
    w = project_to_ball(b, query.speed)
    for _ in range(ALTERNATIONS):
        before, u = w, project_to_ball(a - middle * (w - b), query.radius)
        w = project_to_ball(b - middle / (middle**2 + square) * (u - a), query.speed)
        if (w == before).all():  # as all turns to come would leave it
            break
    return u, w


def _turn(space, M, u, there):
    """The frame at `M`, carried along the steps `u` to `there`: a row for each of its vectors."""
    return space.carried(space.among(M), u[:, None], np.eye(space.dim), space.among(there))
