"""Densities on a public domain of geodesics: two mechanisms, and bounds of them on boxes.

A geodesic is a point p and a velocity v there, and lives in a public domain: p in a ball about the
centre, v no longer than the speed. Its coordinates are u = (a, w), the step a from the centre to p,
and w, which becomes v when it is carried along that step without turning.
"""

import math

import numpy as np

from .._checks import EPS, flag, number, positive, size
from ..calibration import laplace_scale
from ..samplers import ball_steps
from ..spaces.ball import project_to_ball
from ..spaces.components import lengths
from ..spaces.functions import cosine, sinc
from ..spaces.means import largest_radius
from .base import check_sensitivity
from .densities import DensityMechanism, hessian_bounds, largest_volume, needed

NEAR = 0.9  # of the injectivity radius: no residual is longer


class CurveDensity(DensityMechanism):
    """What both densities share: the domain, and how far a geodesic moves within a box.

    An exact draw takes longer for more records, and longest where they lie near no geodesic or
    where all of them have one x, at an end of the range: then minutes for 1000 records at ε = 1. It
    is cheap to draw many at once.
    """

    curves = True
    boxes = 256, 2.0

    def __init__(self, epsilon: float, clip: float, approximate: bool = False):
        self.scale = laplace_scale(2 * self.sensitivity, epsilon)
        self.clip, self.approximate = size(clip, "clip"), flag(approximate, "approximate")

    def log_density(self, query, u, reach=0.0):
        """Log density in the coordinates `u`, shape `(m, 2 dim)`, up to a constant.

        Its largest value on the part of the domain that is within `reach` of `u`, in a and in w,
        shape `(m, 2)`, or more. The coordinates have to be those of points of the domain.
        """
        a = u[:, :query.dim]
        reach = np.broadcast_to(reach, (len(u), 2))
        volume = largest_volume(query.space, a, lengths(a), reach[:, 0])
        return self._scores(query, u, reach) + volume

    def _check(self, query):
        """Refuse a domain with which a residual may come near a cut point; by no data."""
        space, limit = query.space, 2 * largest_radius(query.space)
        longest = self._longest(query)
        if not (longest <= NEAR * limit and query.radius < limit / 2):
            raise ValueError(f"2 radius + speed + clip is {longest:.6g}; accepted are numbers up "
                             f"to {NEAR * limit:.6g}, {NEAR} times the injectivity radius, so that "
                             "no residual is near a cut point")
        if space.curvature != (0.0, 0.0):  # else `_residuals` stay in coordinates
            query.domain.hold(query.radius + longest, "3 radius + speed + clip")  # reflections

    def _longest(self, query):
        """What no residual at a geodesic of the domain exceeds: see `_residuals`."""
        return 2 * query.radius + query.speed + self.clip

    def _uniform(self, query, m, rng):
        z = rng.standard_normal((m, query.dim))
        length = query.speed * rng.random(m)**(1 / query.dim)
        w = z * (length / lengths(z))[:, None]
        return np.concatenate([ball_steps(query.space, query.radius, m, rng), w], axis=-1)

    def _radii(self, query):
        return np.array([query.radius, query.speed])

    def _box(self, query, u, reach):
        """How far p and v move within the boxes, B and Z, and the largest ‖v‖, shape (m,)."""
        a, w = u[:, :query.dim], u[:, query.dim:]
        low, high = query.space.curvature
        radius = np.minimum(lengths(a) + reach[:, 0], query.radius)
        speed = np.minimum(lengths(w) + reach[:, 1], query.speed)
        root = math.sqrt(max(high, 0))
        half = np.tan(root * radius / 2) / root if root else radius / 2
        B = sinc(min(low, 0) * radius**2) * reach[:, 0]
        Z = reach[:, 1] + _bending(query.space) * half * B * speed
        return B, Z, speed


class TruncatedCurveLoss(CurveDensity):
    """The exponential mechanism on a truncated loss, for geodesics on any space: ε-DP.

    Its density on the domain is proportional to exp(-(ε/2) Σ min(ρ(γ(t_i), y_i)²/b², 1)) with b =
    `clip`. One record moves the sum by at most 1 at every geodesic, and the constant by the factor
    that follows. It is drawn exactly on spaces of dimension 1 and 2.

    Parameters
    ----------
    epsilon : float
        The promise.
    clip : float
        The distance b from which on a record is not felt.
    approximate : bool
        Whether chains may answer where nothing samples exactly; without a proof of the promise.

    Raises
    ------
    ValueError
        For a parameter that is not positive, or an ε outside [1e-6, 1e3].
    """

    name, public, unit = "truncated loss", ("scale", "clip"), np.array([1.0, 3.5])

    @classmethod
    def of(cls, query, epsilon, delta=0, clip=None, approximate=False):
        """The mechanism for this query; its promise is pure, so `delta` has to be 0."""
        number(delta, "delta", 0, 0, '0 with "truncated loss", whose promise is pure')
        made = cls(epsilon, needed(clip, cls), approximate)
        made._check(query)
        return made

    def _score(self, query, u, reach):
        r, cos, sin = _residuals(query, u, self.clip)
        distance, b, t = np.sqrt(sum(part * part for part in r)), self.clip, query.times
        if not reach.any():
            return -((np.minimum(distance, b) / b)**2).sum(axis=-1) / self.scale
        space = query.space
        B, Z, speed = self._box(query, u, reach)
        moved = _moved(space, t, B, Z, speed)
        near = np.maximum(distance - moved, 0)
        far = np.minimum(distance + moved, self._longest(query))
        # min(ρ², b²) is concave in ρ²: above its chord, and the slopes of ρ² cancel in the sum
        low, high, cap = near**2, far**2, b * b
        straddles = (low < cap) & (cap < high)
        chord = np.where(straddles, (cap - low) / np.where(straddles, high - low, 1), high <= cap)
        slopes = _gradients(r, cos, sin, t, chord)
        least = (np.minimum(low, cap) + chord * (distance**2 - low)).sum(axis=-1)
        bends = self._bends(space, t, B, Z, speed, far, chord)
        least = sum(map(_lowest, bends, slopes, (B, Z)), least)
        least = np.maximum(least, np.minimum(low, cap).sum(axis=-1))
        return -least / cap / self.scale

    def _bends(self, space, t, B, Z, speed, far, chord):
        """Coefficients of ‖b‖² and ‖z‖² below half the second derivative of Σ chord ρ²."""
        growth, bent = _factors(space, speed)
        h = chord * hessian_bounds(space, far)[0]
        up, down = _moments(np.maximum(h, 0), t), 2 * growth**2 * _moments(np.maximum(-h, 0), t)
        E_bb, E_bz, E_zz = _acceleration(space, _moments(chord * far, t), speed)
        bend_b = up[0] - bent * up[2] - down[0] - E_bb
        bend_z = up[2] - bent / 3 * up[4] - down[2] - E_zz
        mixed = np.abs(np.maximum(h, 0) @ t) + E_bz / 2
        mixed += 2 / 3 * bent * up[3] + (growth**2 - 1) * up[1]
        bends = np.minimum(bend_b, bend_z) > 0
        either = bends | (B == 0) | (Z == 0)  # where one does not move, any share will do
        share = np.where(bends, np.sqrt(np.where(bends, bend_b, 1) / np.where(bends, bend_z, 1)),
                         np.where(either, 1, Z) / np.where(either, 1, B))
        return bend_b - mixed * share, bend_z - mixed / share


class CurveKNormGradient(CurveDensity):
    """The K-norm gradient mechanism for geodesics, with clipped gradients: ε-DP.

    Its density on the domain is proportional to exp(-‖g‖ / scale), where g is the mean of the
    records' vectors (dp† r, t dv† r), the gradient of half the squared distance by p and v: r is
    the residual, shortened to `clip` if it is longer, and the vector is so again. One record moves
    g by at most 2 clip / n, whatever the data and the curvature are, and the constant by the factor
    that follows: `scale = 2 sensitivity / epsilon`. It is drawn exactly on spaces of dimension 1
    and 2.

    Parameters
    ----------
    sensitivity : float
        Of g: 2 clip / n.
    epsilon : float
        The promise.
    clip : float
        Longest vector of a record.
    approximate : bool
        Whether chains may answer where nothing samples exactly; without a proof of the promise.

    Raises
    ------
    ValueError
        For a parameter that is not positive, or an ε outside [1e-6, 1e3].
    """

    name, public = "k-norm gradient", ("sensitivity", "scale", "clip")
    unit = np.array([1.0, 5.0])

    def __init__(self, sensitivity: float, epsilon: float, clip: float, approximate: bool = False):
        self.sensitivity = positive(sensitivity, "sensitivity")
        super().__init__(epsilon, clip, approximate)

    @classmethod
    def of(cls, query, epsilon, delta=0, clip=None, approximate=False):
        """The mechanism for this query; its promise is pure, so `delta` has to be 0."""
        number(delta, "delta", 0, 0, '0 with "k-norm gradient", whose promise is pure')
        clip = size(needed(clip, cls), "clip")
        made = cls(_gradient_sensitivity(query.n, clip), epsilon, clip, approximate)
        made._check(query)
        return made

    def _check(self, query):
        """Refuse a query that moves g by more than the mechanism was made for, too."""
        super()._check(query)
        moves = _gradient_sensitivity(query.n, self.clip)
        check_sensitivity(self, moves, "a gradient of sensitivity")

    def _deepest(self, query):
        """How far the log density falls at most: g is no longer than the clip."""
        return self.clip / self.scale

    def _score(self, query, u, reach):
        r, cos, sin = _residuals(query, u, self.clip)
        square, clip, t = sum(part * part for part in r), self.clip, query.times
        distance = np.sqrt(square)
        parts = zip(r, cos, sin, strict=True)
        longer = np.sqrt(sum((c * c + t**2 * (s * s)) * (part * part) for part, c, s in parts))
        # the first clip makes the residual as long as this, the second the vector
        first = clip / np.maximum(distance, clip)
        share = first * (clip / np.maximum(first * longer, clip))
        g_p, g_v = (part / query.n for part in _gradients(r, cos, sin, t, share))
        if not reach.any():
            return -np.hypot(g_p, g_v) / self.scale
        d_p, d_v, rest = self._changes(query, u, reach, distance)
        least = np.hypot(np.maximum(g_p - d_p, 0), np.maximum(g_v - d_v, 0)) - rest
        return -np.maximum(least, 0) / self.scale

    def _changes(self, query, u, reach, distance):
        """How much, on the boxes, both parts of g change at most, and by clipped records besides.

        Carried along, that is. A record that is clipped nowhere in a box has a smooth part in g; of
        any other it is the length of the change that is bounded.
        """
        space, t, clip = query.space, query.times, self.clip
        B, Z, speed = self._box(query, u, reach)
        growth, bent = _factors(space, speed)
        moved = _moved(space, t, B, Z, speed)
        far = np.minimum(distance + moved, self._longest(query))
        low, high = hessian_bounds(space, far)
        steep = np.maximum(high, -low)
        smooth = far * growth[:, None] < clip / np.sqrt(1 + t * t)
        turns = _drift(space, _moments(np.where(smooth, far, 0), t), B, Z, speed)
        others = _drift(space, _moments(np.where(smooth, 0, clip), t), B, Z, speed)
        steepness = growth**2 * _moments(np.where(smooth, steep, 0), t)
        unlike = _moments(np.where(smooth, np.maximum(high - 1, 1 - low), 0), t)[1] * growth**2
        among = _moments(smooth, t)
        mixed = np.abs(smooth @ t) + unlike + (growth**2 - 1) * among[1] + 2 / 3 * bent * among[3]
        change = steep * (clip / np.maximum(distance - moved, clip)) * moved * growth[:, None]
        rest = np.where(smooth, 0, np.minimum(change, 2 * clip)) @ np.sqrt(1 + t * t)
        d_p, d_v = steepness[0] * B + mixed * Z + turns[0], steepness[2] * Z + mixed * B + turns[1]
        return d_p / query.n, d_v / query.n, (rest + others[0] + others[1]) / query.n


def _gradient_sensitivity(n, clip):
    """How much one of n records moves the mean of vectors no longer than `clip`, rounded up."""
    return 2 * clip / n * (1 + 64 * EPS)


def _residuals(query, u, clip):
    """Residuals at the geodesics `u`, carried back to p, and the factors of their Jacobi fields.

    Lists of what broadcasts to shape (m, n), in orthonormal axes at p along which R(·, v)v is
    diagonal: J(t) is `cos` b + t `sin` z for J(0) = b, J'(0) = z. A record further from the
    centre than any geodesic of the domain can come, by more than `clip`, is moved to that
    distance, each by itself.

    What has no curvature is a line or a plane, as far as the domain reaches; what has dimension 2
    and constant curvature above 0 is a sphere, whose formulas are short. In general, the product of
    the reflections in γ(t/2) and in p carries along the geodesic.
    """
    space, t, steps = query.space, query.times, project_to_ball(query.steps, query.farthest(clip))
    a, w = u[:, :query.dim], u[:, query.dim:]
    if space.curvature == (0.0, 0.0):
        r = [steps[:, i] - a[:, i, None] - w[:, i, None] * t for i in range(query.dim)]
        return r, [1.0] * query.dim, [1.0] * query.dim
    low, high = space.curvature
    if space.dim == 2 and low == high > 0:
        return _on_sphere(math.sqrt(high), a, w, t, steps)
    center = space.alike(query.domain.center)
    p, v = space.exp(center, a), space.transport(center, a, w)
    middle = space.exp(space.among(p), v[:, None] * t[:, None] / 2)
    beyond = space.exp(middle, -space.steps(middle, space.exp(center, steps)[None]))
    curving, axes = space.jacobi(v)
    curving = curving.T[:, :, None] * t**2
    r = np.moveaxis(-space.steps(space.among(p), beyond) @ axes, -1, 0)
    return list(r), list(cosine(curving)), list(sinc(curving))


def _on_sphere(root, a, w, t, steps):
    """`_residuals` on the sphere of curvature root², seen in space with the centre at the pole."""

    def point(v):
        angle = root * lengths(v)[:, None]
        return np.concatenate([root * np.sinc(angle / math.pi) * v, np.cos(angle)], axis=-1)

    def unit(v):
        length = lengths(v)[:, None]
        return np.where(length > 0, v, [1.0, 0.0]) / np.where(length > 0, length, 1)

    p, towards, ahead = point(a), unit(a), unit(w)
    along = (ahead * towards).sum(axis=-1, keepdims=True)
    sine = (p[:, :2] * towards).sum(axis=-1, keepdims=True)
    ahead = np.concatenate([ahead + along * (p[:, 2:] - 1) * towards, -along * sine], axis=-1)
    height, front, side = np.stack([p, ahead, np.cross(p, ahead)]) @ point(steps).T
    angle = root * lengths(w)[:, None] * t
    tangent = np.tan(angle / 2)  # cos and sin of the angle cost more
    c, s = (1 - tangent**2) / (1 + tangent**2), 2 * tangent / (1 + tangent**2)
    height, front = c * height + s * front, c * front - s * height
    sine = np.sqrt(front**2 + side**2)
    stretch = np.arctan2(sine, height) / root / np.where(sine > 0, sine, 1)
    factor = np.where(angle == 0, 1, s) / np.where(angle == 0, 1, angle)
    return [front * stretch, side * stretch], [1.0, c], [1.0, factor]


def _gradients(r, cos, sin, t, weight):
    """Lengths of the weighted sums of dp† r and of t dv† r, shape (m,) each."""
    weighted = [weight * part for part in r]

    def total(factors, power):
        pairs = zip(weighted, factors, strict=True)
        return lengths(np.stack([(factor * part) @ power for part, factor in pairs], axis=-1))

    return total(cos, np.ones(len(t))), total(sin, t)


def _bending(space):
    """A bound of ‖R(X, Y)Z‖ for unit vectors; 4/3 by polarisation, where curvature varies."""
    low, high = space.curvature
    return abs(high) if low == high else 4 / 3 * max(-low, high)


def _moments(part, t):
    """Sums over the records of `part`, shape (m, n), times the powers of ‖t‖ from 0 to 4."""
    return (part @ np.abs(t)[:, None]**np.arange(5)).T


def _factors(space, speed):
    """What `cosine` and `sinc` of Jacobi fields are at most, and the curvature of the fastest.

    With x = curvature t² they are at least 1 - x/2 and 1 - x/6.
    """
    low, high = space.curvature
    return cosine(min(low, 0) * speed**2 / 4), max(high, 0) * speed**2


def _moved(space, t, B, Z, speed):
    """How far the geodesics move at t, shape (m, n)."""
    growth, _ = _factors(space, speed)
    return (growth * B)[:, None] + np.abs(t) * (growth * Z)[:, None]


def _acceleration(space, far, speed):
    """Bounds, by ‖b‖², ‖b‖‖z‖ and ‖z‖², of Σ ρ times the covariant acceleration of the geodesics.

    `far` are the moments of ρ.
    """
    factor, q = _turning(space, speed)
    mixed = 2 * far[2] + q * far[4] / 3
    return factor * (far[1] + 2 / 3 * q * far[3]), factor * mixed, factor * 2 / 3 * far[3]


def _drift(space, far, B, Z, speed):
    """Bounds of how much Jacobi fields of unit J(0), and J'(0), turn as p and v move, times Σ ρ.

    `far` are the moments of ρ.
    """
    factor, q = _turning(space, speed)
    own, mixed = far[1] + 2 / 3 * q * far[3], far[2] + q * far[4] / 6
    return factor * (B * own + Z * mixed), factor * (B * mixed + Z * 2 / 3 * far[3])


def _turning(space, speed):
    """‖R(·, v)·‖ at the speed, times what negative curvature makes grow, and q of both bounds."""
    low, high = space.curvature
    growth, _ = _factors(space, speed)
    return _bending(space) * speed * growth**3, max(-low, high) * speed**2


def _lowest(bend, slope, length):
    """Least value of bend s² - 2 slope s for s from 0 to `length`."""
    inside = bend * length > slope
    s = np.where(inside, slope / np.where(inside, bend, 1), length)
    return bend * s**2 - 2 * slope * s
