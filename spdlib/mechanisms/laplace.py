"""The Riemannian Laplace mechanism."""

import functools
import math

import numpy as np

from .._checks import generator, integer, number, positive
from ..calibration import l2_delta, laplace_scale
from ..samplers import ball_steps, laplace_steps, laplace_threshold, radial_law, sample_laplace
from ..spaces import Ball, Space
from ..spaces.components import lengths
from .base import (LEAST, SAMPLE, Noise, batch, check_sensitivity, checked_domain, concentric,
                   gamma_law, loss_of)


class RiemannianLaplace(Noise):
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
    domain : Ball, optional
        A public ball of that space: the law is conditioned on it, and the promise stands for
        summaries in it.

    Attributes
    ----------
    scale : float
        In the unit of the sensitivity.
    rate : str
        "Δ/ε" or "2Δ/ε", what the scale is.

    Raises
    ------
    ValueError
        For a sensitivity that is not positive and finite, or an ε outside [1e-6, 1e3]; for a scale
        at which the law does not exist on the space, or a ball that is none.
    """

    name, pure, in_chart = "laplace", True, False
    public = ("sensitivity", "scale", "domain")

    def __init__(self, sensitivity: float, epsilon: float, space: Space | None = None,
                 domain: Ball | None = None):
        self.sensitivity = positive(sensitivity, "sensitivity")
        self.space, self.domain = space, domain
        if domain is None:
            if not (space is None or space.homogeneous and reaches_all(space)):
                raise ValueError(f"space is {space!r}; accepted without a domain are homogeneous "
                                 "spaces, on which the law's constant is the same everywhere, no "
                                 "wider than their injectivity radius, within which it is drawn")
            self.scale = laplace_scale(self.sensitivity, epsilon)
            threshold = math.inf if space is None else laplace_threshold(space)
            if not self.scale < threshold:
                raise ValueError(
                    f"the scale {self.rate} is {self.scale:.6g}; accepted are those below "
                    f"{threshold:.6g}, from which on the law has no finite integral over {space!r}:"
                    " more records, a larger epsilon, or a ball for the domain")
        else:
            self.scale = laplace_scale(2 * self.sensitivity, epsilon)
            self.space = checked_domain(domain, space or domain.space).space
            if not (reaches_all(self.space) or 2 * domain.radius <= self.space.injectivity_radius):
                raise ValueError(
                    f"domain is {domain!r}; accepted are balls of radii up to half the "
                    "injectivity radius, within which the law is drawn")
        self.loss = loss_of((1 if domain is None else 2) * self.sensitivity, self.scale)

    @classmethod
    def of(cls, query, epsilon, delta=0, domain=None):
        """The mechanism for this query; its promise is pure, so `delta` has to be 0.

        The law lives on the whole space where it is proved that projecting its draws onto the
        query's ball does no harm, and else on that ball, unless a larger one about the same centre
        is named: there releases may stay outside the smaller one.
        """
        number(delta, "delta", 0, 0, '0 with "laplace", whose promise is pure')
        ball = getattr(query, "ball", None)  # a plan's query has none
        if domain is None and ball and not ball.harmless:
            domain = ball
        elif domain is not None and ball:
            concentric(domain, ball)
        space = None if query.space.flat and domain is None else query.space
        return cls(query.sensitivity, epsilon, space, domain)

    @property
    def law(self):
        """Whether its privacy loss is that of "l2" noise, or no more is known than its `loss`."""
        whole = self.domain is None and (self.space is None or self.space.flat)
        return "l2" if whole else "pure"

    @property
    def rate(self):
        return "Δ/ε" if self.domain is None else "2Δ/ε"

    def _prepared(self, query):
        if self.space is None and query.space.flat:
            return super()._prepared(query)
        if self.space != query.space:
            raise ValueError(f"query is on {query.space!r}; accepted is the mechanism's own space, "
                             f"{self.space!r}")
        check_sensitivity(self, query.sensitivity)
        query.ball.hold()
        space, center = query.space, query.ball.center
        if self.domain is None:
            draw = functools.partial(laplace_steps, space, self.scale)
            draw((0,), np.random.default_rng(0))  # refuses what it would refuse later
        else:
            query.ball.hold(here=True)
            self._inside(space.dist(self.domain.center, center) + query.radius, "query")
            draw = self._within(space.exp(center, query.step))
        step = query.step
        return lambda rng, shape: space.chart(center, step, draw(shape, rng))

    @np.errstate(all="ignore")
    def release(self, M, rng=None, size=None, space=None):
        if self.space is None:
            return super().release(M, rng, size, space)
        if space is not None and space != self.space:
            raise ValueError(f"space is {space!r}; accepted is {self.space!r}, the mechanism's own")
        space, rng, shape = self.space, generator(rng), batch(size)
        M = space.exp(M, np.zeros(space.dim))
        if self.domain is not None:
            self.domain.hold(name="domain", here=True)
            self._inside(space.dist(self.domain.center, M).max(initial=0), "M")
        M = np.broadcast_to(M, (*shape, *M.shape))
        if self.domain is None:
            return space.exp(M, laplace_steps(space, self.scale, M.shape[:-len(space.shape)], rng))
        return space.exp(M, self._within(M)((), rng))

    def error(self, d):
        d = integer(d, "d", 1, 5050)
        if self.domain is not None:
            raise ValueError("the law is conditioned on a ball, and so depends on where the truth "
                             "lies in it; accepted are mechanisms on a whole space")
        if self.law == "l2":
            return gamma_law(d, self.scale)
        if d != self.space.dim:
            raise ValueError(f"d is {d!r}; accepted is {self.space.dim}, that of {self.space!r}")
        return radial_law(self.space, self.scale)

    def delta(self, epsilon, d):
        if self.law != "l2":
            raise ValueError(f"the mechanism is on {self.space!r}, where nothing smaller is known "
                             "than its ε at δ = 0; accepted are mechanisms on a whole flat space")
        return l2_delta(self.scale, epsilon, d, self.sensitivity)

    def _within(self, M):
        """What draws steps from the points `M`, shape `(...)`, to releases in the domain.

        A function of a shape and a Generator that makes arrays of shape `(*shape, ..., dim)`.
        """
        space, center, radius = self.space, self.domain.center, self.domain.radius
        ways = _toward(space, center, M)
        if not space.flat:  # seen from where all points of the ball are held by float64
            center = space.alike(center)
            M = space.exp(center, ways)
        self._refuse_what_would_not_end(center)

        def draw(shape, rng):  # by turns from the law about M and from the uniform one on the ball
            whole = *shape, *ways.shape[:-1]
            way = np.broadcast_to(ways, (*whole, space.dim)).reshape(-1, space.dim)
            start = np.broadcast_to(M, (*whole, *space.shape)).reshape(-1, *space.shape)
            steps, left = np.empty(way.shape), np.arange(len(way))
            while left.size:
                v = laplace_steps(space, self.scale, len(left), rng, within=2 * radius)
                kept = lengths(space.chart(center, way[left], v)) <= radius
                steps[left[kept]] = v[kept]
                left = left[~kept]
                Y = space.exp(center, ball_steps(space, radius, len(left), rng))
                kept = rng.standard_exponential(len(left)) > space.dist(start[left], Y) / self.scale
                steps[left[kept]] = _toward(space, start[left[kept]], Y[kept])
                left = left[~kept]
            return steps.reshape(*whole, space.dim)

        return draw

    def _refuse_what_would_not_end(self, center):
        """ValueError where too few turns would end at a point on the sphere of the ball, the worst.

        The ball is that about `center`. By the public parameters and numbers of its own: in many
        dimensions most of a law about a point there is outside, and most of the ball far from it.
        """
        space, rng, edge = self.space, np.random.default_rng(0), np.zeros(self.space.dim)
        edge[0] = self.domain.radius
        v = laplace_steps(space, self.scale, SAMPLE, rng, within=2 * edge[0])
        inside = lengths(space.chart(center, edge, v)) <= edge[0]
        Y = space.exp(center, ball_steps(space, edge[0], SAMPLE, rng))
        share = (inside + np.exp(-space.dist(space.exp(center, edge), Y) / self.scale)).mean()
        if share < LEAST:
            raise ValueError(f"the share of draws in the domain may be {share:.1g} for the scale "
                             f"{self.scale:.6g} within {edge[0]:.6g} on {space!r}; accepted are "
                             f"shares from {LEAST:g}, which smaller dimensions have, and laws on "
                             "the whole space do without")

    def _noise(self, shape, rng):
        if self.law != "l2":
            raise ValueError(f"the mechanism is on {self.space!r}, where noise is not added to "
                             "coordinates; accepted are release and answer")
        return self.scale * sample_laplace(shape, rng)

    def _inside(self, distance, name):
        if distance > self.domain.radius * (1 + 1e-9):
            raise ValueError(f"{name} lies up to {distance:.6g} from the centre of the domain; "
                             f"accepted is up to {self.domain.radius:.6g}, its radius")


def _toward(space, M, Y):
    """Steps from `M` to `Y`, also where that is a cut point."""
    return space.log(M, Y) if space.flat else space.steps(M, Y)


def reaches_all(space):
    """Whether no point is further from another than the injectivity radius, as on a sphere."""
    return space.diameter <= space.injectivity_radius
