"""The count of clipped records, with noise in integers: what it says, what it costs, its law."""

import math
import random
from fractions import Fraction

import numpy as np
import pytest

from spdlib import PrivateFrechetMean, Sphere, TangentGaussian, random_spd
from spdlib.accounting import BudgetAccountant, compose
from spdlib.clipping import seen_from
from spdlib.release import DiscreteLaplace, private_clipped_count
from spdlib.spaces import LogEuclidean

X = random_spd(60, 3, 1.0, rng=0)
POINTS = np.random.default_rng(0).standard_normal((2, 30, 3)) + [0, 0, 4]
POINTS /= np.linalg.norm(POINTS, axis=-1, keepdims=True)


def outside(records, center, radius):
    steps, _ = seen_from(np.eye(3) if center is None else center, records, LogEuclidean(3))
    return int((np.linalg.norm(steps, axis=1) > radius).sum())


def test_the_count_of_clipped_records_is_that_of_those_outside_the_ball():
    for radius in (0.3, 1.5, 2.0, 50.0):
        exact = outside(X, None, radius)
        found = [private_clipped_count(X, None, radius, 40.0, rng=seed) for seed in range(3)]
        assert found == [exact] * 3  # noise of e^-40
    assert 0 < outside(X, None, 1.5) < 60
    center, bad = np.diag([1.0, 2.0, 5.0]), X.copy()
    bad[:20] = math.nan
    assert outside(X, center, 1.5) != outside(X, None, 1.5)
    assert private_clipped_count(X, center, 1.5, 40.0, rng=0) == outside(X, center, 1.5)
    assert private_clipped_count(bad, None, 0.3, 40.0, on_invalid="center", rng=0) \
        == outside(X[20:], None, 0.3) < outside(X, None, 0.3)


@pytest.mark.filterwarnings("error")
def test_the_count_is_right_where_squares_are_no_floats_and_nothing_warns():
    class Plain:  # whose records are their own steps
        flat, dim, shape, origin = True, 2, (2,), np.zeros(2)

        def where_log(self, center, X):
            return X, np.ones(len(X), bool)

        def exp(self, center):
            return center

    records = np.array([[1e308, 1e308], [1e200, 0], [0, 0], [3e-200, 4e-200], [5e-324, 0]])
    for radius, exact in ((1e-201, 3), (6e-200, 2), (1.0, 2), (1e250, 1), (1e280, 1), (1e-280, 3)):
        for seed in range(3):
            assert private_clipped_count(records, None, radius, 40.0, space=Plain(),
                                         rng=seed) == exact


def test_ragged_records_are_refused_by_the_name_of_what_they_are():
    with pytest.raises(ValueError, match="^X is no array"):
        private_clipped_count([np.eye(3).tolist(), np.eye(2).tolist()], None, 1.0, 1.0)
    assert private_clipped_count(X.tolist(), None, 50.0, 40.0, rng=0) == 0


def test_a_count_stays_between_0_and_n_and_its_noise_comes_from_the_system():
    found = {private_clipped_count(X[:3], None, 0.01, 0.1) for _ in range(60)}
    assert found <= {0, 1, 2, 3} and {0, 3} <= found


def test_a_count_spends_its_epsilon_and_is_refused_before_a_record_is_looked_at():
    account, bad = BudgetAccountant(1.0, 1e-6), X.copy()
    bad[3, 0, 0] = math.nan
    with pytest.raises(ValueError, match=r"X\[3"):
        private_clipped_count(bad, None, 1.0, 0.4, accountant=account)
    assert account.total() == 0
    private_clipped_count(X, None, 1.0, 0.4, accountant=account)
    assert 0.39 < account.total() <= 0.4
    with pytest.raises(ValueError, match="^mechanism is DiscreteLaplace"):
        private_clipped_count(bad, None, 1.0, 0.7, accountant=account)
    assert account.total() <= 0.4
    PrivateFrechetMean(0.6, 1e-6, 1.0).fit(X, accountant=account)
    apart = BudgetAccountant(1.0, 0)
    for group in "a", "b":
        private_clipped_count(X, None, 1.0, 0.8, accountant=apart, group=group)
    assert apart.total() <= 0.8


@pytest.mark.parametrize("arguments, message", [
    (dict(epsilon=0), "epsilon is 0"), (dict(radius=0), "radius is 0"),
    (dict(center=np.eye(2)), "center has shape"), (dict(on_invalid="skip"), "on_invalid is"),
    (dict(X=X[0]), r"X has shape \(3, 3\); accepted is \(n, k, k\)"), (dict(rng=-1), "rng is -1"),
    (dict(space=Sphere(2), center=[0, 0, 1]), r"X has shape \(60, 3, 3\); accepted is \(n, 3\)"),
    (dict(X=POINTS[0], space=Sphere(2), center=[0, 0, 1], radius=4.0), "radius is 4.0"),
])
def test_a_count_that_is_none_is_refused(arguments, message):
    given = dict(X=X, center=None, radius=1.0, epsilon=1.0) | arguments
    with pytest.raises(ValueError, match=f"^{message}"):
        private_clipped_count(**given)


@pytest.mark.slow
@pytest.mark.parametrize("epsilon", [0.3, 1.0, 2.5])
def test_the_noise_of_a_count_has_the_law_of_which_the_promise_is_proved(epsilon):
    m, q, source = 40_000, math.exp(-epsilon), random.Random(0)
    mechanism = DiscreteLaplace(epsilon)
    draws = np.array([mechanism.draw(source) for _ in range(m)])

    def cdf(z):
        return np.where(z < 0, q ** -np.minimum(z, 0.0) / (1 + q), 1 - q ** (z + 1.0) / (1 + q))

    z = np.arange(-60, 61)
    band = math.sqrt(math.log(2 / 1e-6) / (2 * m))
    found = np.searchsorted(np.sort(draws), z, side="right") / m
    assert np.abs(found - cdf(z)).max() < band
    assert np.abs(found - np.where(z < 0, cdf(z), cdf(z) * (1 + q) / (1 + 2 * q))).max() > band


def test_the_scale_of_a_count_is_rounded_to_the_safe_side():
    for epsilon in (1e-6, 0.1, 1 / 3, 1.0, 7.7, 1e3, *np.linspace(0.2, 0.9, 50)):
        mechanism = DiscreteLaplace(epsilon)
        assert 1 / Fraction(mechanism.scale) <= mechanism.loss <= epsilon  # exact, no 53 bits


def test_two_counts_cost_what_their_laws_say():
    a, b = 0.3, 0.5
    size = np.arange(-400, 401)
    laws = []
    for epsilon in (a, b):
        p = np.exp(-epsilon * np.abs(size))
        laws.append((p / p.sum(), np.exp(-epsilon * np.abs(size - 1)) / p.sum()))
    together = compose([DiscreteLaplace(a), DiscreteLaplace(b)], 1)
    for epsilon in (0.1, 0.4, 0.7):
        exact = sum(np.maximum(np.multiply.outer(*(law[i] for law in laws)) - math.exp(epsilon)
                    * np.multiply.outer(*(law[1 - i] for law in laws)), 0).sum() for i in (0, 1))
        assert exact / 2 <= together.delta(epsilon) * (1 + 1e-9) <= exact / 2 + 2e-3


def test_counts_and_means_share_an_account():
    account = BudgetAccountant(1.0, 1e-6)
    for mechanism in DiscreteLaplace(0.2), TangentGaussian(1.0, 0.5, 1e-6):
        with account.spending(mechanism, 1):
            pass
    assert 0.5 < account.total() < 0.7
