"""Before any data are touched: how far a release will be from the mean, and of how many records.

A query on a flat space is answered with noise of a law that does not depend on the data. So the
error is known beforehand, and to know it costs no privacy.

Let m be the mean of the clipped records, at the distance a from the centre of a ball of radius r,
and let the noise have the length R and the angle t to the ray from the centre through m. The bare
answer is R away from m. It is outside of the ball where

    cos(t) > (r^2 - a^2 - R^2) / 2aR,

and seen from the centre it makes with m the angle psi = atan2(R sin(t), a + R cos(t)). Projected,
it is then |r e^(i psi) - a| away. The law of R belongs to the mechanism, and t has a density
proportional to sin(t)^(d-2) on [0, pi].

An answer with normal noise may be shrunk first, by an amount that depends on its distance rho from
the centre. Then rho and psi are the coordinates: their density is proportional to
rho^(d-1) sin(psi)^(d-2) exp(-|rho e^(i psi) - a|^2 / 2 sigma^2), and what is left of rho is g, the
smaller of r and max(0, rho - (d-2) sigma^2 / rho). The release is |g e^(i psi) - a| away.
"""

import math
from collections.abc import Iterable
from typing import Any, NamedTuple

import numpy as np
from scipy.optimize import minimize_scalar
from scipy.special import beta, betainc

from ._checks import HUGE, flag, integer, number, positive
from .mechanisms import MEANS, Choice, DiscreteGaussian, Noise, TangentGaussian, chosen
from .mechanisms.refined import ROUNDS, Refined
from .queries import Mean, check_flat
from .queries.mean import checked_ball
from .spaces import Ball

# The tanh-sinh rule on [0, 1]. Its nodes crowd at both ends, by powers: what an integrand does
# there, on whatever scale, is seen.
_T = np.linspace(-3.2, 3.2, 129)
_SHARES = 1 / (1 + np.exp(-np.pi * np.sinh(_T)))
_MASSES = (_T[1] - _T[0]) * np.pi * np.cosh(_T) * _SHARES * _SHARES[::-1]
MOST_PLANNED = 10**12
NOISES = "gaussian", "classical gaussian", "l2", "laplace"


class Row(NamedTuple):
    """What one mechanism would do; distances are those to the clipped records' mean.

    On a curved space that of noise which is added in the chart is measured there.
    `scale` is that of the noise, σ or s, None for a mechanism of your own that has neither `sigma`
    nor `scale`; `delta` is the promise's, 0 for Laplace noise. `bare` is the mean distance of the
    noise and `quantile` the one that it keeps within in 95 of 100 cases. `centre` and `worst` are
    mean distances of the projected release where the mean of the records is the ball's centre, and
    where it is anywhere in the ball, in the worst place. The last two are those of a release that
    is shrunk before it is projected; None for noise that is not Gaussian, and in fewer than 3
    dimensions. On curved spaces all four are None, but for the tangent mean.
    """

    mechanism: str
    delta: float
    scale: float | None
    bare: float
    quantile: float
    centre: float | None = None
    worst: float | None = None
    shrunk_centre: float | None = None
    shrunk_worst: float | None = None


def expected_error(mechanism: Noise, d: int, radius: float | None = None, at: float = 0.0,
                   power: int = 1, shrink: bool = False) -> float:
    """Mean distance of a release from the mean of the clipped records, or that of its square.

    Exact, whatever the data are: a closed form for bare noise, quadrature for a release that is
    projected or shrunk. Tests in multiple precision find less than 1e-9 of itself between it and
    the true value.

    Parameters
    ----------
    mechanism : Mechanism
    d : int
        Dimension of the space, k(k+1)/2 for matrices of size k.
    radius : float, optional
        That of the public ball onto which the release is projected; without it the release is bare.
    at : float
        Distance of the mean from the ball's centre, from 0 to `radius`; it matters to a release
        that is projected or shrunk.
    power : {1, 2}
        Of the distance: 1 for its mean, 2 for the mean of its square, Theorem 4's utility.
    shrink : bool
        Whether the release, of Gaussian noise and in 3 dimensions or more, is first shrunk towards
        the centre, as `PrivateFrechetMean` does it with this option.

    Returns
    -------
    float
        In the unit of the sensitivity, or its square.

    Raises
    ------
    ValueError
        For a dimension that is not the mechanism's, a radius or a place that is none; for noise
        that is not to be shrunk.

    Examples
    --------
    >>> from spdlib import TangentGaussian, expected_error
    >>> mechanism = TangentGaussian(0.01, epsilon=1.0, delta=1e-6)
    >>> round(expected_error(mechanism, d=36), 4)
    0.2517
    >>> round(expected_error(mechanism, d=36, radius=0.25), 4)
    0.239
    >>> round(expected_error(mechanism, d=36, radius=0.25, shrink=True), 4)
    0.0274
    """
    law, power = mechanism.error(d), integer(power, "power", 1, 2)
    if not getattr(getattr(mechanism, "space", None), "flat", True) and radius is not None:
        raise ValueError(f"mechanism is {mechanism!r}; accepted with a radius are those on flat "
                         "spaces, where it is known how much a projection saves")
    if radius is not None:
        radius = positive(radius, "radius")
        at = number(at, "at", 0, radius, f"numbers from 0 to {radius!r}, the radius")
    if flag(shrink, "shrink"):
        return _shrunk(mechanism, d, radius, at, power)
    if radius is None:
        number(at, "at", 0, 0, "0 without a radius, since bare noise is the same everywhere")
        return float(law.moment(power))
    low, high = law.ppf(1e-18), law.isf(1e-18)
    across = math.sqrt((radius - at) * (radius + at))
    # Between these ends the integrand is smooth.
    lengths, weights = _nodes(np.clip([low, radius - at, across, radius + at, high], low, high))
    # In units of the radius; what lies beyond 1e50 of them lands as what lies there. So no power of
    # a length overflows.
    left = _left(np.minimum(lengths, 1e50 * radius) / radius, at / radius, d, power)
    return float(radius**power * ((weights * law.pdf(lengths)) @ left))


def _left(R, a, d, power):
    """Mean error, to a power, of noise of the lengths R after projection onto the unit ball.

    With a the distance of m from the centre.
    """
    if d == 1:  # either away from the centre or towards it
        return (np.minimum(R, 1 - a)**power + np.minimum(R, 1 + a)**power) / 2
    turn = np.arctan2(np.sqrt(np.maximum((R + a - 1) * (R + a + 1) * (1 - R + a) * (1 + R - a), 0)),
                      (1 - R) * (1 + R) - a * a)  # arccos((1 - a^2 - R^2) / 2aR), or its end
    # outside of these sin(t)^(d-2) is less than e^-39
    first, last = np.clip(math.pi / 2 + np.array([-9, 9]) / math.sqrt(d), 0, math.pi)
    t, weights = _nodes(np.array([first + 0 * turn, np.clip(turn, first, last)]))
    weights = weights * np.sin(t)**(d - 2) / beta(0.5, (d - 1) / 2)
    psi = np.arctan2(R * np.sin(t), a + R * np.cos(t))
    error = np.hypot(1 - a, 2 * math.sqrt(a) * np.sin(psi / 2))  # |e^(i psi) - a|
    inside = betainc((d - 1) / 2, (d - 1) / 2, np.where(turn < math.pi, np.cos(turn / 2)**2, 0))
    return inside * R**power + (weights * error**power).sum(axis=0)


def _shrunk(mechanism, d, radius, at, power):
    """Mean error, to a power, of a release that is shrunk and, with a radius, projected."""
    sigma = getattr(mechanism, "sigma", None)
    if sigma is None:
        raise ValueError(f"mechanism is {mechanism!r}; accepted with shrink are those whose noise "
                         "is Gaussian")
    c = integer(d, "d", 3, 5050) - 2
    if radius is None:
        at, radius = number(at, "at", 0, HUGE, "finite numbers from 0 on"), math.inf
    room = (radius - at) / sigma
    a = min(at / sigma, 1e12)  # from further away the centre is at infinity
    x, weights = _nodes(_distances(a, room, c))  # x = rho - a
    rho = np.maximum(a + x, 1e-100)
    psi, turns = _nodes(_directions(a * rho, c))
    density = ((c + 1) * np.log(rho / (a + math.sqrt(c))) - x**2 / 2 + c * np.log(np.sin(psi))
               - 2 * a * rho * np.sin(psi / 2)**2)
    weights = weights * turns * np.exp(density - density.max())
    along = np.clip(x - c / rho, -a, room)  # g - a
    across = 2 * math.sqrt(a) * np.sqrt(a + along) * np.sin(psi / 2)
    error = sigma * np.hypot(along, across)
    return float((weights * error**power).sum() / weights.sum())


def _distances(a, room, c):
    """Ends of pieces of rho - a between which the integrand is smooth, in units of sigma.

    The distance of a normal point from anywhere is rarely 9 from its mean, which lies between
    sqrt(a^2 + d - 1) and sqrt(a^2 + d). The pieces meet where g leaves 0, passes a, and is r.
    """
    low = max((c + 1) / (a + math.hypot(a, math.sqrt(c + 1))) - 9, -a)
    high = (c + 2) / (a + math.hypot(a, math.sqrt(c + 2))) + 9

    def longer(g):
        return 2 * c / (g + math.hypot(g, 2 * math.sqrt(c)))  # rho - g, where g > 0 is left of rho

    ends = [low, math.sqrt(c) - a, longer(a), room + longer(a + room), high]
    return np.unique(np.clip(ends, low, high))


def _directions(k, c):
    """Ends of pieces that hold all of the density exp(k cos(psi)) sin(psi)^c but 1e-12 of it.

    They meet at the mode, where the logarithm's second derivative is the root of c^2 + 4k^2.
    """
    bend = np.hypot(c, 2 * k)
    mode, width = np.arctan2(np.sqrt(2 * c * (bend + c)), 2 * k), 14 / np.sqrt(bend)
    return np.array([np.maximum(mode - width, 0), mode, np.minimum(mode + width, math.pi - 1e-12)])


def _nodes(ends):
    """Nodes and weights of the rule on all pieces between ends, shape `(pieces + 1, ...)`."""
    width = np.diff(ends, axis=0)
    both = ends[:-1] + np.multiply.outer(_SHARES, width), np.multiply.outer(_MASSES, width)
    return (each.reshape(-1, *width.shape[1:]) for each in both)


def worst_error(mechanism: Noise, d: int, radius: float, shrink: bool = False) -> float:
    """Mean distance of a projected release where the mean is in the worst place of the ball.

    Found by a search over the distance of the mean from the centre.
    """

    def at(share):
        return expected_error(mechanism, d, radius, share * radius, shrink=shrink)

    shares = np.linspace(0, 1, 9)
    errors = [at(share) for share in shares]
    near = np.clip(shares[np.argmax(errors)] + np.array([-1, 1]) / 8, 0, 1)  # the shares beside it
    refined = minimize_scalar(lambda share: -at(share), bounds=near, options={"maxiter": 12})
    return float(max(*errors, -refined.fun))


def plan(ball: Ball, n: int, epsilon: float, delta: float, mechanisms: Iterable[Any] = NOISES,
         spread: float | None = None) -> list[Row]:
    """What each mechanism would do for the mean of n records in a ball: a list of `Row`.

    A mechanism is there only at an ε for which its theorem is stated, the classical Gaussian for
    ε < 1, and on a curved space only where its error is known. Laplace noise has δ = 0, a stronger
    promise than the others'. With a guess of the spread "gaussian, refined" is there, too: the
    estimator's `refine="auto"`, whose error depends on it.

    Parameters
    ----------
    ball : Ball
        The public one; for the tangent mean `ball.tangent()`.
    n : int
        Number of records.
    epsilon, delta : float
        The promise.
    mechanisms : sequence
        Names or classes of mechanisms, or such `with_options`, whose noise is added to coordinates.
    spread : float, optional
        A guess of the root mean squared distance of the records from their mean, which is not read
        off the data; on a flat space.

    Raises
    ------
    ValueError
        For a ball, a number, a promise or a spread that is none, and where no error is known.

    Examples
    --------
    >>> from spdlib import Ball, plan
    >>> import numpy as np
    >>> for row in plan(Ball(2.0, np.eye(3)), n=400, epsilon=1.0, delta=1e-6):
    ...     print(f"{row.mechanism:10} {row.bare:.3f} {row.quantile:.3f} {row.worst:.3f}")
    gaussian   0.099 0.150 0.099
    l2         0.059 0.103 0.059
    laplace    0.060 0.105 0.060
    """
    query, rows, refused = _mean(ball, n), [], None
    for asked in mechanisms:
        name, each = chosen(asked, MEANS).mechanism.name, _noise(asked)
        if epsilon >= each.mechanism.below:
            continue
        promised = 0 if each.mechanism.pure else delta
        try:
            rows.append(_row(name, each.of(query, epsilon, promised), promised, query))
        except ValueError as error:
            if query.space.flat:
                raise
            refused = error
    if refused and not rows:
        raise refused
    return rows if spread is None else [*rows, _refined(query, epsilon, delta, spread)]


def _row(name, mechanism, delta, query):
    """What this mechanism would do for a mean before there are records."""
    d, radius, errors = query.space.dim, query.radius, []
    law, both = mechanism.error(d), (expected_error, worst_error)
    if query.space.flat:
        errors = [error(mechanism, d, radius) for error in both]
        if mechanism.law == "gaussian" and d >= 3:
            errors += [error(mechanism, d, radius, shrink=True) for error in both]
    scale = getattr(mechanism, "sigma", None) or getattr(mechanism, "scale", None)
    return Row(name, delta, scale, float(law.mean()), float(law.ppf(0.95)), *errors)


def _refined(query, epsilon, delta, spread):
    """The row of a ball that is drawn closer about records of this spread."""
    from scipy.stats import chi

    spread = number(spread, "spread", 0, HUGE, "finite numbers from 0 on")
    check_flat(query.space, " with spread")
    mechanism = Refined(TangentGaussian, query, epsilon, delta, ROUNDS)
    found = mechanism.foreseen(query.radius, spread) if mechanism.worth else query.radius
    if not mechanism.worth:
        mechanism = Refined(TangentGaussian, query, epsilon, delta, 0)
    sigma = mechanism.noises(found)["means"]["sigma"]
    law = chi(query.space.dim, scale=sigma)
    mean = float(law.mean())
    return Row("gaussian, refined", delta, sigma, mean, float(law.ppf(0.95)), mean, mean)


def worth_refining(ball: Ball, epsilon: float, delta: float, spread: float) -> int:
    """The number of records from which on `refine="auto"` draws a ball closer and errs less.

    As `plan` foresees it for a guess of the spread; ValueError where it takes over 10¹² records.

    Examples
    --------
    >>> from spdlib import Ball
    >>> from spdlib.planning import worth_refining
    >>> import numpy as np
    >>> worth_refining(Ball(12.0, np.eye(3)), epsilon=1.0, delta=1e-6, spread=0.7)
    440
    """

    def pays(n):
        query = _mean(ball, n)
        if not Refined(TangentGaussian, query, epsilon, delta, ROUNDS).worth:
            return False  # both err alike, up to rounding
        direct = expected_error(TangentGaussian.of(query, epsilon, delta), query.space.dim)
        return _refined(query, epsilon, delta, spread).bare < direct

    low, high = 0, 1
    while not pays(high):
        low, high = high, 2 * high
        if high > MOST_PLANNED:
            raise ValueError(f"spread is {spread!r}; accepted are those at which it pays below "
                             "10¹² records, much smaller than the radius")
    while high - low > 1:
        middle = (low + high) // 2
        low, high = (low, middle) if pays(middle) else (middle, high)
    return high


def records_needed(ball: Ball, epsilon: float, delta: float, wanted: float,
                   mechanism: str | type[Noise] | Choice = "gaussian") -> int:
    """The smallest n at which the mean distance of the bare release is at most `wanted`.

    Parameters
    ----------
    ball : Ball
        The public one; for the tangent mean `ball.tangent()`.
    epsilon, delta : float
        The promise; δ is 0 for "laplace".
    wanted : float
        Mean distance to the mean of the clipped records, as `Row` has it.
    mechanism : str or class of a Mechanism
        Whose noise is added to coordinates. The discrete Gaussian errs as "gaussian", up to some
        ten million records and at an ε up to 10; what the cut to its grid adds is not counted.

    Raises
    ------
    ValueError
        For a ball or a promise that is none, or an error that takes over 10¹² records.

    Examples
    --------
    >>> from spdlib import Ball, records_needed
    >>> import numpy as np
    >>> records_needed(Ball(2.0, np.eye(3)), epsilon=1.0, delta=1e-6, wanted=0.05)
    795
    """
    make, wanted = _noise(mechanism), positive(wanted, "wanted")

    def error(n):
        query = _mean(ball, n)
        return expected_error(make.of(query, epsilon, delta), query.space.dim)

    # The error is that of one record over n, and a little more, for the sensitivity is rounded up
    # by 4 radius EPS; the loops settle the last digits of this division.
    n = math.ceil(min(error(1) / wanted, 2 * MOST_PLANNED))
    if n > MOST_PLANNED:
        raise ValueError(f"wanted is {wanted!r}; accepted are numbers from "
                         f"{error(MOST_PLANNED):.4g}, the error of 10¹² records")
    while error(n) > wanted:
        n += max(1, round(n * (error(n) / wanted - 1)))
    while n > 1 and error(n - 1) <= wanted:
        n -= 1
    return n


def _noise(mechanism):
    """The Choice of a mechanism whose error is known beforehand."""
    made = chosen(mechanism, MEANS)
    if made.mechanism is DiscreteGaussian:  # which is made only where OpenDP is at hand
        return TangentGaussian.with_options()
    if not issubclass(made.mechanism, Noise):
        raise ValueError(f"mechanism is {mechanism!r}; accepted are those of noise that is added "
                         "to coordinates")
    return made


def _mean(ball, n):
    """A mean before there are records."""
    query = Mean(integer(n, "n", 1), checked_ball(ball).radius, ball.space)
    query.ball = ball
    return query
