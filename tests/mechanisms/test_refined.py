"""A ball that is drawn closer: what each part costs, what one record moves, and what is found."""

import copy
import math
import pickle
from fractions import Fraction

import numpy as np
import pytest
from hypothesis import given, settings, strategies as st

from spdlib import (Ball, DiscreteGaussian, KendallPlanar, LogEuclidean, PrivateClassMeans,
                    PrivateFrechetMean, PrivateGeodesicRegression, Release, Sphere, TangentGaussian,
                    distance_logeuclid, expm, invvecd, mean_logeuclid)
from spdlib.accounting import BudgetAccountant
from spdlib.calibration import gdp_mu
from spdlib.mechanisms.refined import MOST_ROUNDS, Refined, refined
from spdlib.queries import ClassSums, FrechetMean
from spdlib.queries.passes import Passes
from spdlib.spaces import Euclidean

WIDE = Ball.from_bounds(1e-3, 1e3, 3)


def data(n, spread, rng, shift=1.0):
    return expm(invvecd(shift + spread * rng.standard_normal((n, 6))))


@pytest.fixture
def parts(monkeypatch):
    """The parts of which releases were made: (radius of the question, μ)."""
    seen = []
    for kind in TangentGaussian, DiscreteGaussian:
        def with_mu(cls, query, mu, made=kind.with_mu.__func__):
            mechanism = made(cls, query, mu)
            seen.append((query.radius, mechanism.mu))
            return mechanism

        monkeypatch.setattr(kind, "with_mu", classmethod(with_mu))
    return seen


@pytest.mark.parametrize("mechanism", ["gaussian", "discrete gaussian"])
@pytest.mark.parametrize("rounds", [1, 3])
@pytest.mark.parametrize("labels", [None, "private", "public"])
def test_all_parts_together_cost_the_promise_and_no_more(parts, mechanism, rounds, labels):
    pytest.importorskip("opendp")
    X = data(300, 0.3, np.random.default_rng(0))
    if labels is None:
        made = PrivateFrechetMean(1.0, 1e-6, WIDE, mechanism, refine=rounds).fit(X)
    else:
        made = PrivateClassMeans(1.0, 1e-6, WIDE, [0, 1], mechanism, labels=labels,
                                 refine=rounds).fit(X, np.arange(300) % 2)
    whole = made.mechanism_
    assert len(parts) == rounds * (1 + whole.halvings) + 1
    together = sum(Fraction(mu)**2 for _, mu in parts)
    promised = gdp_mu(1.0, 1e-6)
    assert Fraction(promised)**2 * Fraction(1 - 1e-9) < together <= Fraction(promised)**2
    assert whole.mu == whole.loss == promised and sum(whole.shares.values()) == 1
    numbers = math.sqrt(0.5) if labels == "private" else 0.5
    assert {round(radius, 12) for radius, _ in parts} == {1.0, round(numbers, 12)}


FAR = st.floats(-1e3, 1e3)


@pytest.mark.slow
@settings(max_examples=60, deadline=None, derandomize=True, database=None)
@given(st.lists(FAR, min_size=6, max_size=6), st.integers(0, 1), st.integers(0, 1),
       st.integers(0, 2**32), st.sampled_from(["plain", "nan", "on the edge"]))
def test_one_record_moves_no_answer_by_more_than_it_says(step, old, new, seed, kind):
    rng = np.random.default_rng(seed)
    space, n = Euclidean(3), 7
    Y = invvecd(rng.standard_normal((n, 6)) * 10.0**rng.uniform(-3, 3))
    about, radii = rng.standard_normal((2, 6)), 10.0**rng.uniform(-3, 2, 2)
    Z, y = Y.copy(), np.array([old, *rng.integers(0, 2, n - 1)])
    other = np.array([new, *y[1:]])
    Z[0] = math.nan if kind == "nan" else invvecd(step)
    if kind == "on the edge":
        direction = np.asarray(step) + 1e-3
        Z[0] = invvecd(about[new] + radii[new] * direction / np.linalg.norm(direction))
    ball = Ball(1.0, np.zeros((3, 3)), space)
    for labels, z in [("private", other), ("public", y)]:
        asked = [Passes(ClassSums(X, which, [0, 1], ball, "center", labels))
                 for X, which in ((Y, y), (Z, z))]
        questions = {"sums": (about, radii), "near": (about, radii)}
        if labels == "public":
            means = rng.standard_normal((2, 6))
            means *= radii[:, None] / np.linalg.norm(means, axis=1, keepdims=True)
            questions["spread"] = about, radii, means  # on the edge of the ball
        for question, told in questions.items():
            first, second = (getattr(one, question)(*told) for one in asked)
            moved = sum((Fraction(a) - Fraction(b))**2 for a, b in zip(
                first.total().tolist(), second.total().tolist(), strict=True))
            assert moved <= Fraction(first.sensitivity)**2, (labels, question)


def test_the_numbers_that_one_record_moves_are_two_where_labels_are_private():
    ball, X = Ball(1.0, np.zeros((1, 1)), Euclidean(1)), np.zeros((3, 1, 1))
    about, radii = np.zeros((2, 1)), np.ones(2)
    first, second = (Passes(ClassSums(X, y, [0, 1], ball)).near(about, radii).total()
                     for y in ([0, 0, 1], [1, 0, 1]))
    assert np.linalg.norm(first - second) == math.sqrt(2)


@pytest.mark.slow
@pytest.mark.parametrize("mechanism", ["gaussian", "discrete gaussian"])
def test_it_finds_the_records_in_a_wide_ball_and_errs_several_times_less(mechanism):
    pytest.importorskip("opendp")
    rng, errors = np.random.default_rng(1), {None: [], "auto": []}
    for _ in range(8):
        X = data(2000, 0.3, rng)
        for refine in errors:
            made = PrivateFrechetMean(1.0, 1e-6, WIDE, mechanism, refine=refine).fit(X)
            errors[refine].append(distance_logeuclid(made.mean_, mean_logeuclid(X)))
            assert (made.ball_ == WIDE) == (refine is None)
    assert np.mean(errors["auto"]) < np.mean(errors[None]) / 4


@pytest.mark.slow
def test_a_radius_holds_about_the_share_that_it_is_to_hold():
    rng = np.random.default_rng(2)
    X = data(200_000, 0.3, rng)
    made = PrivateFrechetMean(1.0, 1e-6, WIDE, refine=3).fit(X, rng=3)
    steps, _ = made.ball_.seen(X)
    share = np.mean(np.linalg.norm(steps, axis=1) <= made.ball_.radius)
    assert made.mechanism_.quantile - 0.01 < share


@pytest.mark.parametrize("mechanism", ["gaussian", "discrete gaussian"])
@pytest.mark.parametrize("refine", [None, 3])
def test_the_spread_is_that_of_records_clipped_about_the_release(mechanism, refine):
    pytest.importorskip("opendp")
    X = data(4000, 0.2, np.random.default_rng(7))
    narrow = Ball(1.0, expm(invvecd(np.full(6, 0.9))))
    made = PrivateFrechetMean(300.0, 1e-6, narrow, mechanism, refine=refine, spread=True).fit(X)
    steps = made.ball_.seen(X)[0]
    lengths = np.linalg.norm(steps, axis=1, keepdims=True)
    steps = steps * np.minimum(made.ball_.radius / lengths, 1)
    off = np.linalg.norm(steps - made.release_.step, axis=1)
    truth = np.mean(np.minimum(off, made.ball_.radius)**2)
    sigma = made.release_.noises["spread"]["sigma"]
    assert sigma == pytest.approx(
        made.ball_.radius**2 / 4000 / gdp_mu(300.0, 1e-6) / math.sqrt(0.05), rel=1e-9)
    assert abs(made.spread_ - truth) < 5 * sigma and sigma < truth / 10
    assert made.release_.spread == made.spread_
    assert made.release_.shares["spread"] == 0.05 and sum(made.release_.shares.values()) == \
        pytest.approx(1, abs=1e-15)


@pytest.mark.parametrize("mechanism", ["gaussian", "discrete gaussian"])
def test_the_count_is_that_of_the_records_outside_of_the_ball_found(mechanism):
    pytest.importorskip("opendp")
    X = data(4000, 0.3, np.random.default_rng(8))
    made = PrivateFrechetMean(100.0, 1e-6, WIDE, mechanism, refine=3, count=True).fit(X)
    outside = np.linalg.norm(made.ball_.seen(X)[0], axis=1) > made.ball_.radius
    sigma = 1 / (gdp_mu(100.0, 1e-6) * math.sqrt(0.02))
    assert abs(made.count_ - outside.sum()) <= 5 * sigma + 1
    assert made.release_.count == made.count_ and type(made.count_) is int
    assert made.release_.shares["count"] == 0.02
    none = PrivateFrechetMean(1.0, 1e-6, WIDE, mechanism, count=0.1).fit(X)
    assert 0 <= none.count_ <= 4000 and none.ball_ == WIDE and not none.release_.ball.private


@pytest.mark.parametrize("refine", [None, 3])
@pytest.mark.parametrize("chunks", [None, 700])
def test_the_count_has_what_is_no_matrix_though_it_lies_at_the_centre(refine, chunks):
    X = data(3000, 0.3, np.random.default_rng(8))
    X[:1600] = -np.eye(3)
    if chunks:
        X = pytest.importorskip("dask.array").from_array(X, (chunks, 3, 3))
    made = PrivateFrechetMean(100.0, 1e-6, WIDE, on_invalid="center", refine=refine, count=True,
                              spread=True).fit(X)
    sigma = made.release_.noises["count"]["sigma"]
    assert 1600 - 5 * sigma < made.count_ < 1600 + (140 if refine else 0) + 5 * sigma
    with pytest.warns(UserWarning, match="are many records singular"):
        made.release_.region()


def test_a_ball_that_was_found_is_private_in_what_is_released_in_it():
    X = data(3000, 0.3, np.random.default_rng(8))
    ball = PrivateFrechetMean(1.0, 1e-6, WIDE, refine=3).fit(X).ball_
    wider = ball.of_radius(2 * ball.radius)
    assert ball == Ball(ball.radius, ball.center) and ball.tangent() is ball
    for found in ball, wider, copy.deepcopy(wider), pickle.loads(pickle.dumps(wider)):
        made = PrivateFrechetMean(1.0, 1e-6, found).fit(X)
        classes = PrivateClassMeans(1.0, 1e-6, found, [0, 1]).fit(X, np.arange(3000) % 2)
        curve = PrivateGeodesicRegression(1.0, 1e-6, found, 1.0, (0, 1)).fit(np.ones(3000) / 2, X)
        for each in made, classes, curve:
            assert each.release_.ball.private
            assert "another release has found that ball" in each.release_.privacy
        public = PrivateFrechetMean(1.0, 1e-6, Ball(found.radius, found.center)).fit(X)
        assert not public.release_.ball.private and "another release" not in public.privacy_


def test_a_record_that_is_none_is_the_release_s_centre_found_and_has_its_distance():
    query = FrechetMean(np.full((1, 3, 3), np.nan), WIDE, "center")
    means = np.full((1, 6), 0.1)
    asked = Passes(query).spread(np.ones((1, 6)), np.array([2.0]), means)
    assert asked.total()[0] * 4 == pytest.approx(0.06) and asked.sensitivity == 1


def test_the_tangent_mean_has_one_chart_and_its_ball_lies_there():
    rng = np.random.default_rng(3)
    for space, center in (Sphere(2), [0, 0, 1.0]), (KendallPlanar(4), np.array([0, 1, 1j, 3 + 2j])):
        ball = Ball(0.4 * space.injectivity_radius, center, space)
        X = space.exp(ball.center, 0.3 + 0.02 * rng.standard_normal((3000, space.dim)))
        made = PrivateFrechetMean(1.0, 1e-6, ball, statistic="tangent", refine="auto").fit(X, rng=0)
        assert made.ball_.space == ball.tangent().space
        assert made.ball_.radius < ball.radius / 3
        truth = space.exp(ball.center, space.log(ball.center, X).mean(axis=0))
        assert space.dist(made.mean_, truth) < 0.02


def test_class_means_have_balls_of_their_own():
    rng = np.random.default_rng(4)
    y = np.arange(9000) % 3
    X = expm(invvecd(np.array([0, 1.0, -2])[y][:, None] + np.array([0.1, 0.2, 0.8])[y][:, None]
                     * rng.standard_normal((9000, 6))))
    truth = [mean_logeuclid(X[y == i]) for i in range(3)]
    for labels in "private", "public":
        made = PrivateClassMeans(1.0, 1e-6, WIDE, [0, 1, 2], labels=labels, refine=3).fit(X, y,
                                                                                      rng=0)
        assert (distance_logeuclid(made.means_, truth) < 0.1).all()
        assert made.balls_[0].radius < made.balls_[2].radius < WIDE.radius / 2
        assert made.counts_.dtype.kind == ("i" if labels == "public" else "f")


NOTHING = {
    "one record": (np.eye(3)[None], {}),
    "equal records": (np.tile(np.diag([1.0, 2, 3]), (50, 1, 1)), {}),
    "bad ones alone": (np.full((50, 3, 3), np.nan), {}),
    "at the ends": (np.array([1e-3, 1e3] * 25)[:, None, None] * np.eye(3), {}),
    "beyond": (np.tile(1e300 * np.eye(3), (50, 1, 1)), {}),
    "a huge ball": (np.tile(np.eye(3), (50, 1, 1)), {"ball": Ball(1e280, np.eye(3))}),
    "a minute ball": (np.tile(np.eye(3), (50, 1, 1)), {"ball": Ball(1e-280, np.eye(3))}),
    "hardly a promise": (np.tile(np.eye(3), (50, 1, 1)), {"epsilon": 1e-6, "delta": 1e-300}),
    "no privacy": (np.tile(np.eye(3), (50, 1, 1)), {"epsilon": 1e3, "delta": 0.5}),
}


@pytest.mark.slow
@pytest.mark.parametrize("mechanism", ["gaussian", "discrete gaussian"])
@pytest.mark.parametrize("name", NOTHING)
@pytest.mark.parametrize("rounds", [1, MOST_ROUNDS])
def test_nothing_is_refused_once_it_draws(name, rounds, mechanism):
    pytest.importorskip("opendp")
    X, other = NOTHING[name]
    told = {"epsilon": 1.0, "delta": 1e-6, "ball": WIDE} | other
    made = PrivateFrechetMean(**told, mechanism=mechanism, on_invalid="center", refine=rounds)
    for shrink in False, True:
        spread = None if name in ("a huge ball", "a minute ball") else True
        made.set_params(shrink=shrink, spread=spread).fit(X)
        assert LogEuclidean(3).contains(made.mean_) and made.ball_.radius <= told["ball"].radius
        assert Release.from_json(made.release_.to_json()) == made.release_
    classes = PrivateClassMeans(**told, classes=[0, 1], mechanism=mechanism, on_invalid="center",
                                refine=rounds).fit(X, np.zeros(len(X), int))
    assert LogEuclidean(3).contains(classes.means_).all()


@pytest.mark.slow
@pytest.mark.parametrize("n, radius, rounds, far", [
    (2000, 1.0, 8, 4e307), (100, 1e-100, 1, 1e250), (2, 1e-3, 3, 1e300)])
@pytest.mark.parametrize("mechanism", ["gaussian", "discrete gaussian"])
def test_a_record_as_far_as_float64_goes_is_clipped_and_not_refused(n, radius, rounds, far,
                                                                    mechanism):
    pytest.importorskip("opendp")
    X = np.zeros((n, 2, 2))
    X[0] = far * np.eye(2)
    told = dict(delta=1e-6, ball=Ball(radius, np.zeros((2, 2)), Euclidean(2)), refine=rounds,
                mechanism=mechanism, on_invalid="center")
    for epsilon in 1.0, 1e3:
        made = PrivateFrechetMean(epsilon, **told, spread=True, count=True).fit(X)
        assert np.linalg.norm(made.mean_) <= 2 * radius and 0 <= made.spread_ <= radius**2
        PrivateClassMeans(epsilon, **told, classes=[0, 1]).fit(X, np.arange(n) % 2)


@pytest.mark.slow
def test_records_of_chunks_are_looked_at_before_anything_is_spent():
    da = pytest.importorskip("dask.array", reason="dask is not installed")
    X = data(60, 0.3, np.random.default_rng(5))
    X[33] = np.nan
    for chunks in X, da.from_array(X, chunks=(20, 3, 3)):
        account = BudgetAccountant(1.0, 1e-6)
        with pytest.raises(ValueError, match=r"X\[33, 0, 0\] is nan"):
            PrivateFrechetMean(1.0, 1e-6, WIDE, refine=2).fit(chunks, accountant=account)
        assert account.total() == 0


@pytest.mark.slow
def test_in_a_chart_what_is_found_stays_where_the_chart_covers_its_space_once():
    rng, ball = np.random.default_rng(6), Ball(3.1, [0, 0, 1.0], Sphere(2))
    X = ball.space.exp(ball.center, [3.0, 0] + 0.02 * rng.standard_normal((300, 2)))
    for seed in range(40):
        made = PrivateFrechetMean(1.0, 1e-6, ball, statistic="tangent", refine=4).fit(X, rng=seed)
        chart, release = made.ball_.space, made.release_
        expected = chart.coordinates(made.ball_.center) + release.step
        np.testing.assert_allclose(chart.coordinates(made.mean_), expected, atol=1e-6)
        assert np.linalg.norm(chart.coordinates(made.ball_.center)) <= 3.1 + 1e-9


def test_a_spread_of_classes_with_private_labels_is_refused():
    query = ClassSums(np.eye(3)[None], [0], [0, 1], WIDE)
    with pytest.raises(ValueError, match="labels is 'private'; accepted with a spread is 'public'"):
        Passes(query).spread(np.zeros((2, 6)), np.ones(2), np.zeros((2, 6)))


def test_a_document_says_what_was_found_and_what_each_part_had():
    made = PrivateFrechetMean(1.0, 1e-6, WIDE, refine=2).fit(
        data(2000, 0.3, np.random.default_rng(5)), rng=0)
    release = made.release_
    assert release.ball.private and release.ball.radius == made.ball_.radius
    np.testing.assert_array_equal(release.ball.center, made.ball_.center)
    assert release.shares == {"centres": 0.06, "radii": 0.06, "means": 0.88}
    assert release.mu == made.mechanism_.mu == gdp_mu(1.0, 1e-6)
    assert release.noises["means"]["sigma"] == pytest.approx(
        2 * made.ball_.radius / 2000 / (gdp_mu(1.0, 1e-6) * math.sqrt(0.88)))
    expected = made.ball_.space.exp(made.ball_.center, release.step)
    np.testing.assert_allclose(release.mean, expected, rtol=1e-12)
    assert "the ball of radius" in made.privacy_ and "part of what is released" in made.privacy_


def test_it_is_one_entry_of_an_account_and_is_given_back_where_a_record_is_bad():
    account = BudgetAccountant(1.0, 1e-6)
    X = data(2000, 0.3, np.random.default_rng(5))
    private, bad = PrivateFrechetMean(1.0, 1e-6, WIDE, refine=2), X.copy()
    bad[7] = np.nan
    with pytest.raises(ValueError, match=r"X\[7, 0, 0\] is nan"):
        private.fit(bad, accountant=account)
    assert account.total() == 0
    private.fit(X, accountant=account)
    assert account.total() == pytest.approx(1.0, rel=1e-6) and account.remaining() == 0
    with pytest.raises(ValueError, match="accepted are releases that"):
        private.fit(X, accountant=account)


@pytest.mark.parametrize("told, message", [
    ({"refine": 0}, "refine is 0; accepted are integers from 1 to 8"),
    ({"refine": 9}, "refine is 9; accepted are integers from 1 to 8"),
    ({"refine": True}, "refine is True"),
    ({"spread": ""}, "spread is ''; accepted are None, True, and shares"),
    ({"count": np.ones(2)}, r"count is array\(\[1., 1.\]\); accepted are None, True, and"),
    ({"refine": np.ones(2)}, r"refine is array\(\[1., 1.\]\); accepted are None, 'auto' and"),
    ({"refine": "often"}, "refine is 'often'; accepted are None, 'auto' and rounds from 1 to 8"),
    ({"refine": 2, "mechanism": "laplace", "delta": 0},
     "mechanism is 'laplace'; accepted with refine are"),
    ({"refine": 2, "mechanism": "classical gaussian", "epsilon": 0.5},
     "mechanism is 'classical gaussian'; accepted with refine are"),
    ({"spread": 0.9}, "spread is 0.9; accepted are None, True, and shares from 1e-6 to 0.4"),
    ({"spread": True, "mechanism": "l2"}, "mechanism is 'l2'; accepted with spread are"),
    ({"spread": True, "ball": Ball(1e200, np.eye(3))}, "radius is 1e.200; accepted are numbers fr"),
    ({"refine": 2, "ball": Ball(0.5, [0, 0, 1.0], Sphere(2))}, r"accepted with refine are flat sp"),
])
def test_what_cannot_be_refined_is_refused_before_a_record_is_looked_at(told, message):
    told = {"epsilon": 1.0, "delta": 1e-6, "ball": WIDE} | told
    X = np.full((9, *told["ball"].space.shape), np.nan)
    with pytest.raises(ValueError, match=message):
        PrivateFrechetMean(**told).fit(X)


def test_weights_and_batches_are_refused():
    X = np.full((9, 3, 3), np.nan)
    with pytest.raises(ValueError, match="weights are given with refine; accepted is None"):
        PrivateFrechetMean(1.0, 1e-6, WIDE, refine="auto").fit(X, sample_weight=np.ones(9))
    with pytest.raises(ValueError, match="refine is 2; accepted for records that come in batches"):
        PrivateFrechetMean(1.0, 1e-6, WIDE, refine=2, n=9).partial_fit(X)


def test_auto_is_off_where_a_centre_would_be_noise():
    query, choice = FrechetMean(np.empty((60, 3, 3)), WIDE), TangentGaussian.with_options()
    assert refined(choice, query, 1.0, 1e-6, "auto") is None
    assert refined(choice, query, 1.0, 1e-6, "auto", spread=True).rounds == 0
    assert isinstance(refined(choice, query, 1.0, 1e-6, 3), Refined)
    many = FrechetMean(np.empty((2000, 3, 3)), WIDE)
    assert refined(choice, many, 1.0, 1e-6, "auto").rounds == 3
    made = PrivateFrechetMean(1.0, 1e-6, WIDE, refine="auto").fit(np.tile(np.eye(3), (60, 1, 1)))
    assert made.ball_ == WIDE and made.mechanism_.name == "gaussian"
    assert not made.release_.ball.private and made.release_.shares is None


def test_a_release_at_a_seed_is_the_same_and_draws_are_independent():
    X = data(500, 0.3, np.random.default_rng(6))
    mechanism = refined(TangentGaussian.with_options(), FrechetMean(X, WIDE), 1.0, 1e-6, 2)
    several = mechanism.answer(FrechetMean(X, WIDE), 0, 3)
    assert several.shape == (3, 1, 16) and len(np.unique(several[:, 0, 0])) == 3
    np.testing.assert_array_equal(several, mechanism.answer(FrechetMean(X, WIDE), 0, 3))
