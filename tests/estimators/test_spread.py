"""The private spread: what it says, how much noise is in it, and what is refused."""

import math

import numpy as np
import pytest
from tables import BALLS

from spdlib import Ball, BudgetAccountant, PrivateFrechetMean, private_spread, random_spd
from spdlib.calibration import gdp_mu
from spdlib.spaces import Euclidean

PROMISE = {"epsilon": 1.0, "delta": 1e-6}
LINE = Ball(2.0, [[0.0]], Euclidean(1))


def records(name, n=400, seed=0):
    """Records of which some are outside of the ball, and the mean square of their distances."""
    ball, rng = BALLS[name], np.random.default_rng(seed)
    steps = rng.standard_normal((n, ball.space.dim))
    far = ball.radius * np.linspace(0.1, 1.3, n)
    steps *= (far / np.linalg.norm(steps, axis=1))[:, None]
    steps = steps[far < 0.99 * ball.space.injectivity_radius]
    lengths = np.minimum(np.linalg.norm(steps, axis=1), ball.radius)
    return ball, ball.space.exp(ball.center, steps), (lengths**2).mean()


@pytest.mark.parametrize("name", ["Euclidean 2", "sphere 2", "affine-invariant 2"])
def test_it_is_the_mean_square_of_clipped_distances_from_the_centre(name):
    ball, X, exact = records(name)
    told = private_spread(X, ball, 1000.0, 1e-2, rng=0)
    assert math.isclose(told, exact, rel_tol=0.01)


@pytest.mark.slow
def test_its_noise_is_that_of_radius_squared_over_n():
    X = np.ones((50, 1, 1))
    told = [private_spread(X, LINE, 5.0, 1e-2, rng=seed) for seed in range(2000)]
    assert math.isclose(np.std(told), 4 / 50 / gdp_mu(5.0, 1e-2), rel_tol=0.05)
    assert abs(np.mean(told) - 1) < 4 * np.std(told) / math.sqrt(2000)


def test_a_bad_record_counts_as_the_centre_or_is_refused():
    X = np.array([2.0, np.nan, 2.0, 2.0]).reshape(4, 1, 1)
    assert math.isclose(private_spread(X, LINE, 1000.0, 1e-2, on_invalid="center", rng=0), 3,
                        rel_tol=0.2)
    account = BudgetAccountant(1.0, 1e-6)
    with pytest.raises(ValueError, match=r"X\[1"):
        private_spread(X, LINE, **PROMISE, accountant=account)
    assert account.total() == 0


@pytest.mark.parametrize("bad, words", [
    ({"epsilon": 0}, "epsilon is 0"), ({"delta": 0}, "delta is 0"),
    ({"mechanism": "laplace"}, "mechanism is 'laplace'"), ({"on_invalid": 1}, "on_invalid is 1"),
    ({"ball": 2.0}, "ball is 2.0")])
def test_what_is_invalid_is_refused_by_name(bad, words):
    with pytest.raises(ValueError, match=words):
        private_spread(**{"X": np.ones((5, 1, 1)), "ball": LINE} | PROMISE | bad)


def test_it_is_written_down_and_answers_from_0_to_the_squared_radius():
    account = BudgetAccountant(1.0, 1e-6)
    told = private_spread(np.ones((1, 1, 1)), LINE, 0.5, 1e-7, accountant=account, group="a")
    assert 0 <= told <= 4 and 0 < account.total() <= 0.5


def test_integers_are_drawn_where_opendp_is_there():
    pytest.importorskip("opendp")
    told = private_spread(np.ones((4000, 1, 1)), LINE, **PROMISE, mechanism="discrete gaussian")
    assert math.isclose(told, 1, rel_tol=0.05)


def test_a_delta_that_is_hardly_a_promise_is_warned_of_in_the_line_of_the_call():
    X = random_spd(40, 2, 1.0, rng=0)
    with pytest.warns(UserWarning, match="delta is 0.1 with n = 40 records") as warned:
        private_spread(X, Ball(1.0, np.eye(2)), 1.0, 0.1, rng=0)
    assert [each.filename for each in warned] == [__file__]


def test_beside_a_released_mean_it_says_what_the_option_says():
    X = np.random.default_rng(0).standard_normal((5000, 1, 1))
    fitted = PrivateFrechetMean(100.0, 1e-3, LINE, spread=0.4).fit(X, rng=0)
    about = LINE.__class__(LINE.radius, fitted.mean_, LINE.space)
    again = private_spread(LINE.center + np.clip(X, -2, 2), about, 100.0, 1e-3, rng=1)
    assert math.isclose(again, fitted.spread_, rel_tol=0.02)


def test_no_record_is_looked_at_before_it_is_paid_for_and_nothing_is_refused_after_a_draw():
    ball, X = Ball(1.0, np.zeros((1, 1)), Euclidean(1)), np.full((10, 1, 1), 0.3)
    account = BudgetAccountant(1.0, 1e-6)
    private_spread(X, ball, 1.0, 1e-6, accountant=account)
    X[7] = np.nan
    with pytest.raises(ValueError, match="is spent"):
        private_spread(X, ball, 1.0, 1e-6, accountant=account)
    with pytest.raises(ValueError, match="epsilon is -1"):
        private_spread(X, ball, -1, 1e-6)
    fresh = BudgetAccountant(1.0, 1e-6)
    for radius in 1e200, 1e-200:
        with pytest.raises(ValueError, match="radius is"):
            private_spread(X, ball.of_radius(radius), 1.0, 1e-6, accountant=fresh)
    with pytest.raises(ValueError, match="nan"):  # nothing was drawn, so it is given back
        private_spread(X, ball, 1.0, 1e-6, accountant=fresh)
    assert fresh.total() == 0
