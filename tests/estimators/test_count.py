"""The count of clipped records, with noise in integers."""

import math

import numpy as np
import pytest
from tables import POLE

from spdlib import (Ball, BudgetAccountant, PrivateFrechetMean, Sphere, private_clipped_count,
                    random_spd)
from spdlib.spaces import Flat

X = random_spd(60, 3, 1.0, rng=0)
BALL = Ball(1.0, np.eye(3))
POINTS = np.random.default_rng(0).standard_normal((30, 3)) + [0, 0, 4]
POINTS /= np.linalg.norm(POINTS, axis=-1, keepdims=True)


def outside(records, ball):
    steps, _ = ball.seen(records)
    return int((np.linalg.norm(steps, axis=1) > ball.radius).sum())


def test_the_count_of_clipped_records_is_that_of_those_outside_the_ball():
    for radius in (0.3, 1.5, 2.0, 50.0):
        ball = BALL.of_radius(radius)
        found = [private_clipped_count(X, ball, 40.0, rng=seed) for seed in range(3)]
        assert found == [outside(X, ball)] * 3  # noise of e^-40
    ball, elsewhere = BALL.of_radius(1.5), Ball(1.5, np.diag([1.0, 2.0, 5.0]))
    small, bad = BALL.of_radius(0.3), X.copy()
    bad[:20] = math.nan
    assert 0 < outside(X, ball) < 60 and outside(X, elsewhere) != outside(X, ball)
    assert private_clipped_count(X, elsewhere, 40.0, rng=0) == outside(X, elsewhere)
    assert private_clipped_count(bad, small, 40.0, on_invalid="center", rng=0) \
        == 20 + outside(X[20:], small) < 20 + outside(X, small)


class Plane(Flat):
    """The plane, whose points are their own coordinates."""

    dim, shape, origin = 2, (2,), np.zeros(2)

    def coordinates(self, X):
        return X

    point = coordinates

    def sound(self, X):
        return X.copy(), np.ones(len(X), bool)


@pytest.mark.filterwarnings("error")
def test_the_count_is_right_where_squares_are_no_floats_and_nothing_warns():
    records = np.array([[1e308, 1e308], [1e200, 0], [0, 0], [3e-200, 4e-200], [5e-324, 0]])
    for radius, exact in ((1e-201, 3), (6e-200, 2), (1.0, 2), (1e250, 1), (1e280, 1), (1e-280, 3)):
        ball = Ball(radius, Plane.origin, Plane())
        for seed in range(3):
            assert private_clipped_count(records, ball, 40.0, rng=seed) == exact


def test_ragged_records_are_refused_by_the_name_of_what_they_are():
    with pytest.raises(ValueError, match="^X is no array"):
        private_clipped_count([np.eye(3).tolist(), np.eye(2).tolist()], BALL, 1.0)
    assert private_clipped_count(X.tolist(), BALL.of_radius(50.0), 40.0, rng=0) == 0


def test_a_count_stays_between_0_and_n_and_its_noise_comes_from_the_system():
    found = {private_clipped_count(X[:3], BALL.of_radius(0.01), 0.1) for _ in range(60)}
    assert found <= {0, 1, 2, 3} and {0, 3} <= found


def test_a_count_spends_its_epsilon_and_is_refused_before_a_record_is_looked_at():
    account, bad = BudgetAccountant(1.0, 1e-6), X.copy()
    bad[3, 0, 0] = math.nan
    with pytest.raises(ValueError, match=r"X\[3"):
        private_clipped_count(bad, BALL, 0.4, accountant=account)
    assert account.total() == 0
    private_clipped_count(X, BALL, 0.4, accountant=account)
    assert 0.39 < account.total() <= 0.4
    with pytest.raises(ValueError, match="^mechanism is 'discrete laplace count'"):
        private_clipped_count(bad, BALL, 0.7, accountant=account)
    assert account.total() <= 0.4
    PrivateFrechetMean(0.6, 1e-6, BALL).fit(X, accountant=account)
    apart = BudgetAccountant(1.0, 0)
    for group in "a", "b":
        private_clipped_count(X, BALL, 0.8, accountant=apart, group=group)
    assert apart.total() <= 0.8


@pytest.mark.parametrize("arguments, message", [
    (dict(epsilon=0), "epsilon is 0"), (dict(ball=None), "ball is None; accepted is a Ball"),
    (dict(ball=1.0), "ball is 1.0; accepted is a Ball"), (dict(on_invalid="skip"), "on_invalid is"),
    (dict(ball=Ball(1.0, np.eye(2))), r"X has shape \(60, 3, 3\); accepted is \(n, 2, 2\)"),
    (dict(X=X[0]), r"X has shape \(3, 3\); accepted is \(n, 3, 3\)"), (dict(rng=-1), "rng is -1"),
    (dict(ball=Ball(1.0, POLE, Sphere(2))), r"X has shape \(60, 3, 3\); accepted is \(n, 3\)"),
    (dict(X=POINTS, ball=Ball(4.0, POLE, Sphere(2))), "radius is 4.0"),
])
def test_a_count_that_is_none_is_refused(arguments, message):
    given = dict(X=X, ball=BALL, epsilon=1.0) | arguments
    with pytest.raises(ValueError, match=f"^{message}"):
        private_clipped_count(**given)
