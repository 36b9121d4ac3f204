"""A pure release that tells how many records were clipped: two parts of one promise."""

from fractions import Fraction

import numpy as np
import pytest

from spdlib import Ball, BudgetAccountant, PrivateFrechetMean, Release, random_spd
from spdlib.mechanisms import LatticeLaplace, TruncatedLoss
from spdlib.spaces import Euclidean, Sphere

X, BALL = random_spd(60, 2, 1.0, rng=0), Ball(1.0, np.eye(2))
POLE = np.array([0.0, 0.0, 1.0])
PURE = "laplace", "discrete laplace", "k-norm gradient", TruncatedLoss.with_options(clip=0.1)


def private(mechanism="laplace", count=True, epsilon=1.0, ball=BALL, **parameters):
    return PrivateFrechetMean(epsilon, 0, ball, mechanism, count=count, **parameters)


@pytest.mark.parametrize("mechanism", PURE, ids=str)
def test_the_number_is_that_of_the_clipped_records_where_it_costs_much(mechanism):
    outside = int((BALL.space.dist(BALL.center, X) > 1).sum())
    made = private(mechanism, count=0.4, epsilon=1000.0).fit(X)
    assert 0 < outside < 60 and made.count_ == outside == made.release_.count


@pytest.mark.parametrize("mechanism", PURE, ids=str)
def test_a_fit_spends_its_epsilon_and_no_more(mechanism):
    account = BudgetAccountant(epsilon=1.0, delta=0)
    made = private(mechanism).fit(X, accountant=account)
    assert 1 - 1e-12 < made.mechanism_.loss <= 1
    with pytest.raises(ValueError, match="is spent"):
        private(mechanism).fit(X, accountant=account)


@pytest.mark.slow
def test_both_parts_together_promise_at_most_what_was_asked_for():
    rng = np.random.default_rng(0)
    for epsilon, share in zip(10**rng.uniform(-1, 2.9, 200), 10**rng.uniform(-4, -0.4, 200),
                              strict=True):
        made = private(count=share, epsilon=epsilon).fit(X, rng=0).mechanism_
        whole = Fraction(made.base.loss) + Fraction(made.counter.loss)
        assert whole <= made.loss <= epsilon
        assert made.counter.scale == pytest.approx(1 / (share * epsilon), rel=1e-9)
        assert made.base.loss == pytest.approx((1 - share) * epsilon)


def test_the_document_shows_both_parts_and_reads_back():
    made = private(count=0.1).fit(X)
    read = Release.from_json(made.release_.to_json())
    assert read.count == made.count_ and read.shares == {"means": 0.9, "count": 0.1}
    assert read.noises["means"]["scale"] == pytest.approx(2 / 60 / 0.9)
    assert read.noises["count"]["scale"] == pytest.approx(10)
    without = private(count=None, epsilon=0.9).fit(X)
    assert read.within(0.95) == pytest.approx(without.release_.within(0.95))


def test_the_mean_has_the_bits_that_it_has_without_a_number():
    rng = np.random.default_rng(0)
    rng.bytes(32)  # what the number takes
    alone = private(count=None, epsilon=0.9).fit(X, rng=rng)
    np.testing.assert_array_equal(private(count=0.1).fit(X, rng=0).mean_, alone.mean_)


def test_on_a_sphere_and_beside_bad_records():
    sphere = Sphere(2)
    Y = sphere.exp(POLE, 0.5 * np.random.default_rng(0).standard_normal((50, 2)))
    ball, bad = Ball(0.3, POLE, sphere), Y.copy()
    bad[:5] = np.nan
    counts = [private(count=0.4, epsilon=1000.0, ball=ball, on_invalid="center").fit(each).count_
              for each in (Y, bad)]
    far = [int((sphere.dist(POLE, each) > 0.3).sum()) for each in (Y, Y[5:])]
    assert counts == [far[0], far[1] + 5]


def test_the_number_stays_between_nobody_and_all():
    counts = [private(count=1e-3, epsilon=0.1).fit(X, rng=seed).count_ for seed in range(20)]
    assert {*counts} == {0, 60}  # the noise is 10,000 records wide


@pytest.mark.parametrize("parameters, words", [
    ({"mechanism": "l2"}, "whose promise is pure"),
    ({"spread": True}, "accepted with spread are 'gaussian'"),
    ({"refine": 1}, "accepted with refine are 'gaussian'"),
    ({"count": 0.5}, "count is 0.5"),
])
def test_what_cannot_be_had_is_refused(parameters, words):
    with pytest.raises(ValueError, match=words):
        private(**parameters).fit(X)


def test_weights_and_batches_are_refused_and_nothing_is_spent():
    account = BudgetAccountant(epsilon=1.0, delta=0)
    with pytest.raises(ValueError, match="weights"):
        private().fit(X, sample_weight=np.ones(60), accountant=account)
    with pytest.raises(ValueError, match="count is True"):
        private(n=60).partial_fit(X)
    assert account.remaining() == 1.0


def test_an_exact_mechanism_stays_exact_and_takes_no_seed():
    made = private("discrete laplace").fit(X)
    assert made.mechanism_.exact and isinstance(made.mechanism_.base, LatticeLaplace)
    with pytest.raises(ValueError, match="rng"):
        private("discrete laplace").fit(X, rng=0)


@pytest.mark.parametrize("mechanism", PURE, ids=str)
def test_a_document_reads_back_as_it_is(mechanism):
    made = private(mechanism).fit(X).release_
    assert Release.from_json(made.to_json()) == made
    assert Release.from_json(made.to_json()).to_json() == made.to_json()


def test_a_share_that_leaves_too_little_is_refused_by_its_name():
    for epsilon, share in (1.0, 1e-6), (1e-5, True):
        with pytest.raises(ValueError, match="count times epsilon is"):
            private(epsilon=epsilon, count=share).fit(X)


def test_a_record_at_the_edge_counts_as_one_with_every_noise():
    """Norms that divided by the radius round to more than 1."""
    rng, plane = np.random.default_rng(0), Euclidean(2)
    for v in rng.standard_normal((300, 3)):
        ball = Ball(float(np.linalg.norm(v)), np.zeros((2, 2)), plane)
        X = np.tile(plane.point(v), (20, 1, 1))
        counts = [PrivateFrechetMean(100.0, delta, ball, name, count=0.4).fit(X, rng=0).count_
                  for name, delta in (("gaussian", 1e-9), ("laplace", 0))]
        assert counts[0] == counts[1]
