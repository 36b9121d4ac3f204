"""Geodesic regression: the query."""

import functools

import numpy as np

from .._checks import LONGEST, SHORTEST, choice, finite, number, of_numbers, real, records, size
from ..spaces.ball import POLICIES, Ball
from .mean import checked_ball, ends


class CurveQuery:
    """The query: which geodesic describes records (x, y) best, on a public domain.

    The geodesic is `t ↦ exp(p, t v)` with t = (x - mid)/(hi - lo), from -1/2 to 1/2 over the range
    of x: p is its point at the middle, and ‖v‖ its length over the range. The domain holds the
    pairs with p in the ball `domain` and ‖v‖ ≤ `speed`, measured by the volume times Lebesgue
    measure in the fibre. Whether a record lies near the domain is not asked.

    Parameters
    ----------
    x : array of shape (n,)
        Moved into `x_range` if they are outside.
    Y : array of shape (n, *space.shape)
        The records at x. They are looked at when an answer is asked for, not before.
    domain : Ball
        The public ball that holds p.
    speed : float
        The public bound of ‖v‖, in the distance of the space.
    x_range : (float, float)
        Public range of x.
    on_invalid : {"raise", "center"}
        What happens to a record whose x is not finite, or whose y is no point of the space.

    Attributes
    ----------
    n : int
        Number of records, public.
    dim : int
        That of the space; a geodesic has twice as many coordinates.

    Raises
    ------
    ValueError
        For public parameters or shapes that are none; no record is looked at for it.
    """

    def __init__(self, x, Y, domain: Ball, speed: float, x_range=(0, 1), on_invalid="raise"):
        self.domain, space = checked_ball(domain, "domain"), domain.space
        self.radius, self.speed = size(domain.radius, "radius"), size(speed, "speed")
        self.x_range = _range(x_range)
        self.on_invalid = choice(on_invalid, "on_invalid", POLICIES)
        point, x_shape = (space.shape, ()) if on_invalid == "center" else (None, None)
        self._x = real(records(x, "x", shape=x_shape), "x").copy()  # the caller may change theirs
        self._Y = records(Y, "Y", of_numbers(space.numbers), point).copy()
        if (self._x.ndim != 1 or len(self._x) == 0
                or self._Y.shape != (len(self._x), *space.shape)):
            raise ValueError(f"x and Y have shapes {self._x.shape} and {self._Y.shape}; accepted "
                             f"are (n,) and (n, {ends(space)}) with n ≥ 1, Y points of {space!r}")
        self.space, self.n, self.dim = space, len(self._x), space.dim

    @property
    def times(self):
        """The t of the records, from -1/2 to 1/2, shape `(n,)`. They are not private."""
        return self._seen[0]

    @property
    def steps(self):
        """Steps from the centre to the records, shape `(n, dim)`. They are not private.

        ValueError for a bad record, whether its x or its y is.
        """
        return self._seen[1]

    @functools.cached_property
    @np.errstate(all="ignore")
    def _seen(self):
        """Both; a bad record stands in the middle of the range and at the centre."""
        (low, high), sound = self.x_range, np.isfinite(self._x)
        if self.on_invalid == "raise":
            finite(self._x, "x")
        steps, points = self.domain.seen(self._Y, self.on_invalid, "Y")
        x = np.clip(np.where(sound, self._x, low), low, high)
        t = np.clip((x - low) / (high - low) - 0.5, -0.5, 0.5)
        sound &= points
        return np.where(sound, t, 0), np.where(sound[:, None], steps, 0)

    def farthest(self, clip):
        """How far from the centre a geodesic of the domain may lead, and `clip` more."""
        return self.radius + self.speed / 2 + clip

    def curve(self, u):
        """Points p, and velocities in the frames there, of coordinates `u`, shape (..., 2 dim)."""
        a, w = np.split(finite(u, "u"), 2, axis=-1)
        center = self.domain.center
        return self.space.exp(center, a), self.space.transport(center, a, w)


def _range(x_range):
    """The ends of a range whose length and its quotients are floats."""
    if np.shape(x_range) != (2,):
        raise ValueError(f"x_range is {x_range!r}; accepted are two finite numbers, the lower "
                         "one first")
    span = -LONGEST, LONGEST, f"numbers from {-LONGEST:g} to {LONGEST:g}"
    low, high = (number(end, f"x_range[{i}]", *span) for i, end in enumerate(x_range))
    if not high - low >= SHORTEST:
        raise ValueError(f"x_range is {x_range!r}; accepted are two finite numbers, the lower "
                         f"one first, at least {SHORTEST:g} apart")
    return low, high
