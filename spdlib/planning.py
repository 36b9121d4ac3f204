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
"""

import math
import types
from typing import NamedTuple

import numpy as np
from scipy.optimize import minimize_scalar
from scipy.special import beta, betainc

from ._checks import choice, integer, number, positive
from .frechet import frechet_sensitivity
from .private_mean import MECHANISMS
from .spaces import LogEuclidean

# The tanh-sinh rule on [0, 1]. Its nodes crowd at both ends, by powers: what an integrand does
# there, on whatever scale, is seen.
_T = np.linspace(-3.2, 3.2, 129)
_NODES = 1 / (1 + np.exp(-np.pi * np.sinh(_T)))
_WEIGHTS = (_T[1] - _T[0]) * np.pi * np.cosh(_T) * _NODES * _NODES[::-1]
MOST_RECORDS = 10**12


class Row(NamedTuple):
    """What one mechanism would do; distances are log-Euclidean ones to the clipped records' mean.

    `scale` is that of the noise, σ or s, and `delta` the promise's, 0 for Laplace noise. `bare` is
    the mean distance of the noise and `quantile` the one that it keeps within in 95 of 100 cases.
    `centre` and `worst` are mean distances of the projected release where the mean of the records
    is the ball's centre, and where it is anywhere in the ball, in the worst place.
    """

    mechanism: str
    delta: float
    scale: float
    bare: float
    quantile: float
    centre: float
    worst: float


def expected_error(mechanism, d, radius=None, at=0.0, power=1):
    """Mean distance of a release from the mean of the clipped records, or that of its square.

    Exact, whatever the data are: a closed form for bare noise, quadrature for a projected release.
    Tests in multiple precision find less than 1e-9 of itself between it and the true value.

    Parameters
    ----------
    mechanism : Mechanism
    d : int
        Dimension of the space, k(k+1)/2 for matrices of size k.
    radius : float, optional
        That of the public ball onto which the release is projected; without it the release is bare.
    at : float
        Distance of the mean from the ball's centre, from 0 to `radius`; it matters to a projected
        release only.
    power : {1, 2}
        Of the distance: 1 for its mean, 2 for the mean of its square, Theorem 4's utility.

    Returns
    -------
    float
        In the unit of the sensitivity, or its square.

    Raises
    ------
    ValueError
        For a dimension that is not the mechanism's, a radius or a place that is none.

    Examples
    --------
    >>> from spdlib import TangentGaussian, expected_error
    >>> mechanism = TangentGaussian(0.01, epsilon=1.0, delta=1e-6)
    >>> round(expected_error(mechanism, d=36), 4)
    0.2517
    >>> round(expected_error(mechanism, d=36, radius=0.25), 4)
    0.239
    """
    law, power = mechanism.error(d), integer(power, "power", 1, 2)
    if not getattr(getattr(mechanism, "space", None), "flat", True) and radius is not None:
        raise ValueError(f"mechanism is {mechanism!r}; accepted with a radius are those on flat "
                         "spaces, where it is known how much a projection saves")
    if radius is None:
        number(at, "at", 0, 0, "0 without a radius, since bare noise is the same everywhere")
        return float(law.moment(power))
    radius = positive(radius, "radius")
    at = number(at, "at", 0, radius, f"numbers from 0 to {radius!r}, the radius")
    low, high = law.ppf(1e-18), law.isf(1e-18)
    ends = np.clip([low, radius - at, math.sqrt((radius - at) * (radius + at)), radius + at, high],
                   low, high)  # between which the integrand is smooth
    lengths = (ends[:-1] + np.diff(ends) * _NODES[:, None]).ravel()
    weights = (np.diff(ends) * _WEIGHTS[:, None]).ravel() * law.pdf(lengths)
    # In units of the radius; what lies beyond 1e50 of them lands as what lies there. So no power of
    # a length overflows.
    left = _left(np.minimum(lengths, 1e50 * radius) / radius, at / radius, d, power)
    return float(radius**power * (weights @ left))


def _left(R, a, d, power):
    """Mean error, to a power, of noise of the lengths R after projection onto the unit ball.

    With a the distance of m from the centre.
    """
    if d == 1:  # either away from the centre or towards it
        return (np.minimum(R, 1 - a) ** power + np.minimum(R, 1 + a) ** power) / 2
    turn = np.arctan2(np.sqrt(np.maximum((R + a - 1) * (R + a + 1) * (1 - R + a) * (1 + R - a), 0)),
                      (1 - R) * (1 + R) - a * a)  # arccos((1 - a^2 - R^2) / 2aR), or its end
    first = max(0.0, math.pi / 2 - 9 / math.sqrt(d))  # below it sin(t)^(d-2) is less than e^-39
    last = min(math.pi, math.pi / 2 + 9 / math.sqrt(d))
    width = np.clip(turn, first, last) - first
    t = first + width * _NODES[:, None]
    weights = width * _WEIGHTS[:, None] * np.sin(t) ** (d - 2) / beta(0.5, (d - 1) / 2)
    psi = np.arctan2(R * np.sin(t), a + R * np.cos(t))
    error = np.hypot(1 - a, 2 * math.sqrt(a) * np.sin(psi / 2))  # |e^(i psi) - a|
    inside = betainc((d - 1) / 2, (d - 1) / 2,
                     np.where(turn < math.pi, np.cos(turn / 2) ** 2, 0))
    return inside * R**power + (weights * error**power).sum(axis=0)


def worst_error(mechanism, d, radius):
    """Mean distance of a projected release where the mean is in the worst place of the ball.

    Found by a search over the distance of the mean from the centre.
    """
    def at(share):
        return expected_error(mechanism, d, radius, share * radius)

    shares = np.linspace(0, 1, 9)
    errors = [at(share) for share in shares]
    best = shares[np.argmax(errors)]
    refined = minimize_scalar(lambda share: -at(share), method="bounded",
                              bounds=(max(best - 1 / 8, 0), min(best + 1 / 8, 1)),
                              options={"maxiter": 12})
    return float(max(*errors, -refined.fun))


def plan(k, n, radius, epsilon, delta):
    """What each mechanism would do for the mean of n records of size k in a ball: a list of `Row`.

    The classical Gaussian noise is there for ε < 1 only, where its theorem is stated. Laplace noise
    has δ = 0, a stronger promise than the others'.

    Parameters
    ----------
    k, n : int
        Size of the matrices, up to 100, and number of records.
    radius : float
        Of the public ball.
    epsilon, delta : float
        The promise.

    Raises
    ------
    ValueError
        For a size, a number, a radius or a promise that is none.

    Examples
    --------
    >>> from spdlib import plan
    >>> for row in plan(k=3, n=400, radius=2.0, epsilon=1.0, delta=1e-6):
    ...     print(f"{row.mechanism:10} {row.bare:.3f} {row.quantile:.3f} {row.worst:.3f}")
    gaussian   0.099 0.150 0.099
    l2         0.059 0.103 0.059
    laplace    0.060 0.105 0.060
    """
    query, rows = _query(k, n, radius), []
    for name in MECHANISMS:
        if name == "classical gaussian" and epsilon >= 1:
            continue
        promised = 0 if name == "laplace" else delta
        mechanism, d = MECHANISMS[name](query, epsilon, promised), query.space.dim
        law = mechanism.error(d)
        rows.append(Row(name, promised, law.kwds["scale"], float(law.mean()), float(law.ppf(0.95)),
                        expected_error(mechanism, d, radius), worst_error(mechanism, d, radius)))
    return rows


def records_needed(k, radius, epsilon, delta, wanted, mechanism="gaussian"):
    """The smallest n at which the mean distance of the bare release is at most `wanted`.

    Parameters
    ----------
    k : int
        Size of the matrices, up to 100.
    radius : float
        Of the public ball.
    epsilon, delta : float
        The promise; δ is 0 for "laplace".
    wanted : float
        Mean log-Euclidean distance to the mean of the clipped records.
    mechanism : {"gaussian", "classical gaussian", "l2", "laplace"}
        The noise.

    Raises
    ------
    ValueError
        For a size, a radius or a promise that is none, or an error that takes over 10¹² records.

    Examples
    --------
    >>> from spdlib import records_needed
    >>> records_needed(k=3, radius=2.0, epsilon=1.0, delta=1e-6, wanted=0.05)
    795
    """
    make = MECHANISMS[choice(mechanism, "mechanism", MECHANISMS)]
    wanted = positive(wanted, "wanted")

    def error(n):
        query = _query(k, n, radius)
        return expected_error(make(query, epsilon, delta), query.space.dim)

    # The error is that of one record over n, and a little more, for the sensitivity is rounded up
    # by 4 radius EPS; the loops settle the last digits of this division.
    n = math.ceil(min(error(1) / wanted, 2 * MOST_RECORDS))
    if n > MOST_RECORDS:
        raise ValueError(f"wanted is {wanted!r}; accepted are numbers from "
                         f"{error(MOST_RECORDS):.4g}, the error of 10¹² records")
    while error(n) > wanted:
        n += max(1, round(n * (error(n) / wanted - 1)))
    while n > 1 and error(n - 1) <= wanted:
        n -= 1
    return n


def _query(k, n, radius):
    """What a mechanism asks of a mean before there are records: its space and its sensitivity."""
    sensitivity = frechet_sensitivity(n, radius)
    return types.SimpleNamespace(space=LogEuclidean(integer(k, "k", 1, 100)),
                                 sensitivity=sensitivity, chart_sensitivity=sensitivity)
