"""The ball from bounds on eigenvalues holds all of them, and is no larger."""

import math

import mpmath
import numpy as np
import pytest

from spdlib import Ball, LogEuclidean

BOUNDS = [(1.0, 1.0), (0.01, 100.0), (1e-6, 14.0), (5e-324, 1.7e308), (1e-310, 1e-300), (3e5, 7e5)]


@pytest.mark.parametrize("k", [1, 2, 9])
@pytest.mark.parametrize("low, high", BOUNDS)
def test_the_ball_from_bounds_holds_all_eigenvalues_between_and_is_no_larger(low, high, k):
    ball = Ball.from_bounds(low, high, k)
    center, radius = ball.center, ball.radius
    assert ball.space == LogEuclidean(k)
    assert np.array_equal(center, center[0, 0] * np.eye(k)) and type(radius) is float
    with mpmath.workdps(60):
        middle = mpmath.log(mpmath.mpf(float(center[0, 0])))
        ends = [mpmath.log(mpmath.mpf(end)) for end in (low, high)]
        needed = mpmath.sqrt(k) * max(abs(end - middle) for end in ends)
        unit = mpmath.mpf(2) ** -53 * (1 + sum(map(abs, ends)))
        assert needed <= radius <= mpmath.sqrt(k) * ((ends[1] - ends[0]) / 2 + 40 * unit)


@pytest.mark.parametrize("low, high, message", [
    (2.0, 1.0, "^high is 1.0; accepted are finite numbers from low = 2.0 on"),
    (1.0, math.inf, "^high is inf; accepted"), (0, 1.0, "^low is 0; accepted are finite numbers"),
])
def test_bounds_that_hold_nothing_are_refused(low, high, message):
    with pytest.raises(ValueError, match=message):
        Ball.from_bounds(low, high, 2)
