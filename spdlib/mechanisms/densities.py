"""Mechanisms that draw a mean from a density on a ball about the public centre.

The density is known up to its constant, which the data may move: half of the promise pays for that.
"""

import math

import numpy as np

from .._checks import EPS, LONGEST, SHORTEST, flag, integer, number, positive
from ..calibration import laplace_scale
from ..samplers import ball_steps, laplace_steps, sample_by_boxes, sample_by_chains
from ..spaces import Ball
from ..spaces.components import lengths
from ..spaces.functions import log_sinhc
from ..spaces.means import largest_radius, unit
from .base import ENTRIES, LEAST, SAMPLE, Mechanism, check_sensitivity, concentric, loss_of

BY_BOXES = 4  # dimensions in which boxes are few enough
PROPOSALS, CHAINS = 32, 16  # at least so many at once


class DensityMechanism(Mechanism):
    """A density for a query on any space, on a ball about its public centre.

    Heirs define `_score`, the log density with respect to the volume. One whose domain is another,
    a product of balls, says what their radii are, `_radii`, and how boxes are cut, and overrides
    what refuses and draws, `_check` and `_uniform`, and `log_density`.

    Answers are drawn exactly, by rejection, in dimensions up to 4, and in higher ones where an
    envelope is close: where the space bends little over the domain, or the density is nearly flat.
    Elsewhere the query is refused or, with `approximate` set, Metropolis chains from uniform starts
    are run until their split-R̂ says that they agree, with a ValueError where they do not. No bound
    is known between the law of their last states and the density, so the promise is not proved for
    them.

    The number of proposals, and with it the time that an answer takes, depends on the data: who can
    measure it may learn more than the promise says.
    """

    pure = each = True
    sensitivity = 1.0  # of what stands in the exponent over the scale
    unit: float | np.ndarray = 1.0  # how long, in each ball, is a box whose sides cost as much
    boxes: tuple = ()  # proposals of a round of boxes, and boxes looked at for each

    def __init__(self, epsilon: float, domain: Ball, clip: float, approximate: bool = False):
        self.scale = laplace_scale(2 * self.sensitivity, epsilon)
        self.domain, self.clip = domain, positive(clip, "clip")
        self.approximate = flag(approximate, "approximate")

    @property
    def loss(self):
        """The largest privacy loss, the ε at δ = 0. ValueError where a chain may answer."""
        if self.approximate:
            raise ValueError("approximate is True; accepted is False where a promise is asked for, "
                             "since none is proved for a chain")
        return loss_of(2 * self.sensitivity, self.scale)

    def _prepared(self, query):
        self._check(query)
        dim = self._dim(query)
        share, draw = self._envelope(query)
        if share < LEAST:
            draw = self._by_boxes if dim <= BY_BOXES else self._last_states
        if not (self.approximate or self.is_proved(query)):
            raise ValueError(f"query has dimension {dim}; accepted are those up to {BY_BOXES}, in "
                             "which the exact sampler ends, unless approximate=True lets chains "
                             "run, of which no promise is proved")
        _ = query.steps  # refuses a bad record
        draw(query, 0, np.random.default_rng(0))  # refuses what it would refuse later

        def answers(rng, shape):
            size = math.prod(shape)
            made = draw(query, size, rng)[:size].copy()  # without those beyond, which none pays for
            return made.reshape(*shape, dim)

        return answers

    def _check(self, query):
        """Refuse a domain that the chart at the centre does not cover once, or float64 not all."""
        query.ball.hold()
        concentric(self.domain, query.ball, query.radius)

    def _dim(self, query):
        return np.size(self._radii(query)) * query.space.dim

    def _radii(self, query):
        return self.domain.radius

    def _uniform(self, query, m, rng):
        """Points uniform on the domain, by the volume, shape (m, dim)."""
        return ball_steps(query.space, self.domain.radius, m, rng)

    def _by_boxes(self, query, size, rng):
        units = np.repeat(self.unit, query.space.dim)
        draws, _ = sample_by_boxes(
            lambda z, reach: self.log_density(query, z * units, reach * self.unit),
            self._radii(query) / self.unit, self._dim(query), size, rng, *self.boxes)
        return draws * units

    def _last_states(self, query, size, rng):
        start = self._uniform(query, max(size, CHAINS) if size else 0, rng)
        if not size:
            return start
        return sample_by_chains(lambda v: self.log_density(query, v), start, self._radii(query),
                                rng)

    def is_proved(self, query):
        """Whether answers are drawn exactly, not by a chain; no data are looked at."""
        return self._dim(query) <= BY_BOXES or self._envelope(query)[0] >= LEAST

    def _deepest(self, query):
        """How far the log density falls at most: that of a sum of terms from 0 to 1."""
        return query.n / self.scale

    def _envelope(self, query):
        """A sampler by rejection, and about the least share that it accepts; by no data."""
        return math.exp(-self._deepest(query)), self._from_uniform

    def _from_uniform(self, query, size, rng):
        """Exact draws by rejection from the uniform law, shape (at least size, dim)."""
        draws = [self._uniform(query, 0, rng)]
        while (missing := size - sum(map(len, draws))) > 0:
            m = min(max(PROPOSALS, 2 * missing), ENTRIES)
            v = self._uniform(query, m, rng)
            draws.append(v[rng.standard_exponential(m) > -self._scores(query, v, np.zeros(m))])
        return np.concatenate(draws)

    def log_density(self, query, v, reach=0.0):
        """Log density in the chart at the centre, up to a constant, at steps `v`, shape `(m, dim)`.

        Its largest value on the part of the domain that is within `reach`, shape `(m,)`, of `v`, or
        more. The steps have to lie in the domain.
        """
        space, length = query.space, lengths(v)
        reach = np.broadcast_to(reach, length.shape)
        bend = math.sqrt(max(-space.curvature[0], 0))  # a step of the chart may be longer below
        stretch = np.exp(log_sinhc(bend * np.minimum(length + reach, self.domain.radius)))
        return self._scores(query, v, reach * stretch) + largest_volume(space, v, length, reach)

    def _scores(self, query, v, reach):
        """`_score`, of so many steps at once that memory holds them."""
        batch = max(ENTRIES // query.n, 1)
        parts = [slice(i, i + batch) for i in range(0, len(v), batch)]
        return np.concatenate([np.empty(0), *(self._score(query, v[i], reach[i]) for i in parts)])


class KNormGradient(DensityMechanism):
    """The K-norm gradient mechanism (Soto et al. 2022) with clipped residuals: ε-DP.

    Its density on the ball of radius `domain` about the centre, with respect to the volume of the
    space, is proportional to `exp(-‖g(y)‖ / scale)`, where g(y) is the mean of the steps from y to
    the records, each no longer than `clip`. At a cut point any of the shortest ways is taken. One
    record moves ‖g(y)‖ by at most `sensitivity` at every y of the domain, and the constant by the
    factor that follows: `scale = 2 sensitivity / epsilon` is enough whatever the data are.

    Parameters
    ----------
    sensitivity : float
        Of g on the domain: `gradient_sensitivity`.
    epsilon : float
        The promise.
    domain : Ball
        On which the density lives, about the centre of the ball that holds the records.
    clip : float
        Longest residual.
    approximate : bool
        Whether chains may answer where nothing samples exactly; without a proof of the promise.

    Attributes
    ----------
    scale : float
        In the unit of the sensitivity.

    Raises
    ------
    ValueError
        For a parameter that is not positive, or an ε outside [1e-6, 1e3].
    """

    name, public = "k-norm gradient", ("sensitivity", "scale", "domain", "clip")

    def __init__(self, sensitivity: float, epsilon: float, domain: Ball, clip: float,
                 approximate: bool = False):
        self.sensitivity = positive(sensitivity, "sensitivity")
        super().__init__(epsilon, domain, clip, approximate)

    @classmethod
    def of(cls, query, epsilon, delta=0, clip=None, domain=None, approximate=False):
        """The mechanism for this query; its promise is pure, so `delta` has to be 0.

        The domain is the ball that holds the records, if no larger one is named. By default no
        residual is so long that it is clipped: then g vanishes at the mean. A smaller `clip` makes
        the scale smaller, and the error where many records lie closer together than that. With few
        records it errs more, since the log density then falls by n ε/4 at most, however far from
        them; where they are skewed it costs a bias that no number of records takes away.
        """
        number(delta, "delta", 0, 0, '0 with "k-norm gradient", whose promise is pure')
        domain = query.ball if domain is None else concentric(domain, query.ball, query.radius)
        if clip is None:
            clip = min(domain.radius + query.radius, query.space.injectivity_radius)
        sensitivity = gradient_sensitivity(query.n, query.radius, query.space, clip, domain.radius)
        return cls(sensitivity, epsilon, domain, clip, approximate)

    def _check(self, query):
        """Refuse a query that moves g by more than the mechanism was made for, too."""
        super()._check(query)
        moves = gradient_sensitivity(query.n, query.radius, query.space, self.clip,
                                     self.domain.radius)
        check_sensitivity(self, moves, "a gradient of sensitivity")

    def _score(self, query, v, reach):
        residuals = _residuals(query, v)
        length = lengths(residuals)
        share = self.clip / np.maximum(length, self.clip)
        gradient = lengths((share[:, None] @ residuals)[:, 0]) / query.n
        if reach.any():
            gradient -= self._change(query.space, length, reach[:, None]).mean(axis=-1)
        return -np.maximum(gradient, 0) / self.scale

    def _deepest(self, query):
        """How far the log density falls at most: no residual is longer than its way or the clip."""
        return min(self.clip, self.domain.radius + query.radius) / self.scale

    def _envelope(self, query):
        """The uniform law, or a Laplace law about the mean, of which draws may miss the domain."""
        low, high = self._slopes(query)
        uniform = super()._envelope(query)
        if not low > 0:
            return uniform
        # most of them would about a mean on the rim
        edge = min(query.radius, self.domain.radius) * np.eye(1, query.space.dim)[0]
        w = laplace_steps(query.space, self.scale / low, SAMPLE, np.random.default_rng(0),
                          self.domain.radius + edge[0])
        inside = lengths(query.space.chart(query.ball.center, edge, w)) <= self.domain.radius
        about = (low / high)**query.space.dim * inside.mean(), self._about_the_mean
        return max(uniform, about, key=lambda envelope: envelope[0])

    def _slopes(self, query):
        """Bounds of ‖g(y)‖ per unit of distance between y and the mean (Lemma 1).

        They hold where nothing is clipped and the ball that holds the records and the domain is
        convex; no record is further than `reach` from any of its points.
        """
        wider = max(self.domain.radius, query.radius)
        reach = wider + query.radius
        if self.clip < reach or wider >= query.space.injectivity_radius / 2:
            return -math.inf, math.inf
        return (float(slope) for slope in hessian_bounds(query.space, np.array(reach)))

    def _about_the_mean(self, query, size, rng):
        """Exact draws by rejection from a Laplace law about the mean, shape (at least size, dim).

        What the upper bound of ‖g‖ accepts already is not computed.
        """
        space, (low, high) = query.space, self._slopes(query)
        rest = self._norms(query, query.step[None])[0]
        within = self.domain.radius + lengths(query.step)
        draws = [laplace_steps(space, self.scale / low, 0, rng, within)]
        while (missing := size - sum(map(len, draws))) > 0:
            m = min(max(PROPOSALS, 2 * missing), ENTRIES)
            w = laplace_steps(space, self.scale / low, m, rng, within)
            v = space.chart(query.ball.center, query.step, w)
            distance, inside = lengths(w), lengths(v) <= self.domain.radius
            below = low * distance - rest + self.scale * rng.standard_exponential(m)
            accepted = inside & (high * distance + rest < below)
            unsure = inside & ~accepted
            accepted[unsure] = self._norms(query, v[unsure]) < below[unsure]
            draws.append(v[accepted])
        return np.concatenate(draws)

    def _norms(self, query, v):
        """‖g‖ at the steps `v`, shape (m,)."""
        return -self.scale * self._scores(query, v, np.zeros(len(v)))

    def _change(self, space, length, reach):
        """How much a clipped residual of this length changes at most on a way as long as `reach`.

        Clipping divides by length / clip what is across the way to the record, and leaves nothing
        of what is along.
        """
        near, far = length - reach, length + reach
        lowest, largest = hessian_bounds(space, far)
        largest = np.maximum(largest, -lowest)
        largest = largest * self.clip / np.maximum(near, self.clip)
        return np.minimum(largest * reach, 2 * self.clip)


class TruncatedLoss(DensityMechanism):
    """The exponential mechanism on a truncated loss, for means on any space: ε-DP.

    Its density on the ball of radius `domain` about the centre, with respect to the volume of the
    space, is proportional to exp(-(ε/2) Σ min(ρ(y, x_i)²/b², 1)) with b = `clip`. One record moves
    the sum by at most 1 at every y, and the constant by the factor that follows.

    Parameters
    ----------
    epsilon : float
        The promise.
    domain : Ball
        On which the density lives, about the centre of the ball that holds the records.
    clip : float
        The distance b from which on a record is not felt.
    approximate : bool
        Whether chains may answer where nothing samples exactly; without a proof of the promise.

    Raises
    ------
    ValueError
        For a parameter that is not positive, or an ε outside [1e-6, 1e3].
    """

    name, public = "truncated loss", ("scale", "domain", "clip")

    @classmethod
    def of(cls, query, epsilon, delta=0, clip=None, domain=None, approximate=False):
        """The mechanism for this query; its promise is pure, so `delta` has to be 0.

        The domain is the ball that holds the records, if no larger one is named.
        """
        number(delta, "delta", 0, 0, '0 with "truncated loss", whose promise is pure')
        domain = query.ball if domain is None else concentric(domain, query.ball, query.radius)
        return cls(epsilon, domain, needed(clip, cls), approximate)

    def _score(self, query, v, reach):
        residuals = _residuals(query, v)
        distance, b, reach = lengths(residuals), self.clip, reach[:, None]
        if not reach.any():
            return -((np.minimum(distance, b) / b)**2).sum(axis=-1) / self.scale
        # a record that is felt everywhere has a smooth loss, in whose sum the slopes cancel
        smooth = distance + reach < min(b, query.space.injectivity_radius)
        bend = np.where(smooth, hessian_bounds(query.space, distance + reach)[0], 0).sum(axis=-1)
        slope = lengths((smooth[:, None].astype(float) @ residuals)[:, 0])
        t = reach[:, 0]
        t = np.where(bend * t > slope, slope / np.where(bend > 0, bend, 1), t)
        least = (np.where(smooth, distance, 0)**2).sum(axis=-1) + bend * t**2 - 2 * slope * t
        others = (np.clip(distance - reach, 0, b) / b)**2
        return -(np.maximum(least, 0) / b / b + (others * ~smooth).sum(axis=-1)) / self.scale


def gradient_sensitivity(n: int, radius: float, space, clip: float, domain: float) -> float:
    """How much one of `n` records in a ball moves the mean clipped residual at most on the domain.

    The least of what is proved, rounded up. A residual is never longer than `clip`, nor than
    `domain + radius`, nor than the injectivity radius, and moves by twice that at most. Where the
    curvature is ≤ 0 it moves by `2 radius`. Where it is ≤ κ, κ > 0, it moves by `2 tan(R √κ) / √κ`,
    R the larger of both radii, if that is below min(inj, π/√κ)/2 (step 3 of claim SP-27); and by
    `2 radius θ/sin θ`, θ = (domain + radius)√κ, as long as no record can be a cut point and the
    ball that holds the records is convex.
    """
    n, radius, clip = integer(n, "n", 1, 1e300), positive(radius, "radius"), positive(clip, "clip")
    most = min(LONGEST, space.injectivity_radius)
    domain = number(domain, "domain", SHORTEST, most, f"numbers from {SHORTEST:g} to {most:.6g}")
    root, reach = math.sqrt(max(space.curvature[1], 0)), space.injectivity_radius
    moves = [2 * min(clip, domain + radius, reach)]
    straight = 2 * largest_radius(space)
    if radius + domain < straight and radius < straight / 2:
        theta = (radius + domain) * root
        moves.append(2 * radius * (theta / math.sin(theta) if theta else 1))
    if root and (wider := max(radius, domain)) < straight / 2:
        moves.append(2 * math.tan(wider * root) / root)
    rounding = 64 * EPS * unit(space) if any(space.curvature) else 0  # of the points of short ways
    return (min(moves) * (1 + 64 * EPS) + rounding) / n


def _residuals(query, v):
    """Steps from the points to which `v`, shape (m, dim), leads to the records, (m, n, dim).

    An isometry takes the space's origin, if it has one, to the centre, and frame to frame. There
    rounding is not multiplied by the condition of the centre, and what is proved of residuals holds
    for what is computed.
    """
    space = query.space
    if space.flat:
        return query.steps - v[:, None]
    center = space.alike(query.ball.center)  # about an ill-conditioned one fewer points are held
    y = space.exp(center, v)
    return space.steps(space.among(y), space.exp(center, query.steps))


def hessian_bounds(space, distance):
    """Bounds of the eigenvalues of the Hessian of half the squared distance, up to this distance.

    By comparison s √κ cot(s √κ) and s √-κ coth(s √-κ) for the bounds κ of the curvature, or 1 if
    that is below it or above; infinite where there may be cut points.
    """
    low, high = space.curvature
    s = math.sqrt(max(-low, 0)) * distance
    largest = np.where(s > 0, s / np.tanh(np.where(s > 0, s, 1)), 1)
    s = np.minimum(math.sqrt(max(high, 0)) * distance, math.pi)
    smallest = np.where(s > 0, s / np.tan(np.where(s > 0, s, 1)), 1)
    uncut = distance < space.injectivity_radius
    return np.where(uncut, smallest, -math.inf), np.where(uncut, largest, math.inf)


def largest_volume(space, v, length, reach):
    """Largest log volume of exp within `reach` of the steps `v`, or more.

    On a space of curvature ≥ 0 it falls along the rays from 0 and is the same in all directions;
    elsewhere the growth of the volume is a Lipschitz constant.
    """
    if space.growth > 0:
        return space.log_volume(v) + reach * space.growth
    nearer = np.maximum(length - reach, 0) / np.where(length > 0, length, 1)
    return space.log_volume(v * nearer[:, None])


def needed(clip, mechanism):
    """`clip`, if there is one."""
    if clip is None:
        raise ValueError(f"clip is None; accepted with {mechanism.name!r} are numbers above 0, as "
                         f"of {mechanism.__name__}.with_options(clip=...)")
    return clip
