"""Class means: what one record moves, with its label or without, and what leaks besides."""

import copy
import itertools
import os
import pathlib
import pickle
import warnings
from fractions import Fraction

import numpy as np
import pytest
import sklearn.base
from conftest import mostly_slow

from spdlib import (AffineInvariant, Ball, BudgetAccountant, FrechetMean, LogEuclidean,
                    PrivateClassMeans, PrivateFrechetMean, Release, Sphere, TangentGaussian,
                    TangentSpace, distance_logeuclid, expm, invvecd, random_spd)
from spdlib.audit import audit
from spdlib.mechanisms import DiscreteGaussian, L2Mechanism
from spdlib.queries import ClassSums
from spdlib.spd import is_spd

K, N, R = 3, 60, 1.5
BALL = Ball(R, np.eye(K))
RECORDS = random_spd(N, K, 0.5, 0)
CLASSES = ["a", "b", "c"]
LABELS = np.array(CLASSES)[np.arange(N) % 3]
BOTH = pytest.mark.parametrize("labels", ["private", "public"])


def private(labels="private", **options):
    options = {"epsilon": 1.0, "delta": 1e-6, "ball": BALL, "classes": CLASSES} | options
    return PrivateClassMeans(labels=labels, **options)


def squared_change(first, second, grid=None):
    """Squared Euclidean distance of two answers, exact."""
    pairs = zip(first.total(grid).tolist(), second.total(grid).tolist(), strict=True)
    return sum((Fraction(a) - Fraction(b)) ** 2 for a, b in pairs)


def replaced(X, y, i, record, label):
    X, y = X.copy(), list(y)
    X[i], y[i] = record, label
    return X, y


def strange_records(rng):
    """Records in the ball, on its sphere, far outside, and none at all."""
    direction = rng.standard_normal(6)
    direction /= np.linalg.norm(direction)
    for length in (0.0, R / 3, R, 1.001 * R, 15.0):
        yield expm(invvecd(length * direction))
        yield expm(invvecd(-length * direction))
    yield from (np.full((K, K), np.nan), np.zeros((K, K)), -np.eye(K), np.full((K, K), 1e300))


# what one record moves

@pytest.mark.parametrize("grid", mostly_slow([None, 2.0**-9, 0.25], None, 0.25))
@pytest.mark.parametrize("radius", mostly_slow([R, 0.1, 1.5000000000000002], R))
def test_no_record_moves_the_answer_by_more_than_2r_whatever_label_it_brings(radius, grid):
    strange = itertools.cycle(["none of them", None, float("nan"), 3, ["a"]])
    ball = BALL.of_radius(radius)
    first = ClassSums(RECORDS, LABELS, CLASSES, ball, "center")
    for record in strange_records(np.random.default_rng(1)):
        for label in (LABELS[4], "c", next(strange)):
            X, y = replaced(RECORDS, LABELS, 4, record, label)
            second = ClassSums(X, y, CLASSES, ball, "center")
            assert squared_change(first, second, grid) <= (2 * Fraction(radius)) ** 2


def test_within_its_class_no_record_moves_the_sums_by_more_than_2r():
    for record in strange_records(np.random.default_rng(2)):
        X, y = replaced(RECORDS, LABELS, 4, record, LABELS[4])
        queries = [ClassSums(Z, y, CLASSES, BALL, "center", "public") for Z in (RECORDS, X)]
        assert squared_change(*queries) <= (2 * Fraction(R)) ** 2


def sharp(labels, moves):
    """Two neighbours on the line as far apart as there are, and the queries of both."""
    X, y = np.full((4, 1, 1), np.exp(R)), ["a", "a", "b", "b"]
    other = X.copy()
    other[0] = np.exp(-R)
    return [ClassSums(Z, z, ["a", "b"], Ball(R, np.eye(1)), labels=labels)
            for Z, z in ((X, y), (other, ["b", *y[1:]] if moves else y))]


@pytest.mark.parametrize("labels, moves", [("public", False), ("private", False),
                                           ("private", True)])
def test_both_kinds_of_neighbour_reach_2r(labels, moves):
    change = squared_change(*sharp(labels, moves))
    assert (2 * R * (1 - 1e-13)) ** 2 <= change <= (2 * R) ** 2


def test_the_sensitivity_is_2r_whatever_the_classes_and_their_sizes():
    for y in (LABELS, ["a"] * N):
        for labels in ("private", "public"):
            query = ClassSums(RECORDS, y, CLASSES, BALL, labels=labels)
            assert query.sensitivity == query.chart_sensitivity == 2 * R


@pytest.mark.parametrize("n", [1, 3, 1000])
@pytest.mark.parametrize("radius", [1e-280, 0.1, np.nextafter(2, 3), 1e280])
def test_a_record_counts_as_at_most_the_radius_and_as_whole_steps_of_the_grid(radius, n):
    query = ClassSums(np.ones((n, 1, 1)), ["a"] * n, CLASSES, Ball(radius, np.eye(1)))
    for grid in (None, 2.0 ** np.floor(np.log2(radius) - 3)):
        step = query._empty(grid).grid
        assert radius - step < query.unit(grid) <= radius
        assert Fraction(query.unit(grid)) % Fraction(step) == 0


def test_the_answer_without_noise_is_the_means_and_the_numbers():
    query = ClassSums(RECORDS, LABELS, CLASSES, BALL)
    wanted = [FrechetMean(RECORDS[LABELS == c], BALL).step for c in CLASSES]
    for grid in (None, 2.0**-20):
        for answer in (query.total(grid), np.stack([query.total(grid)] * 4).reshape(2, 2, -1)):
            steps, counts = query.means(answer, grid)
            assert (counts == 20).all() and counts.shape == (*answer.shape[:-1], 3)
            wide = np.broadcast_to(wanted, steps.shape)
            assert steps == pytest.approx(wide, abs=1e-5 if grid else 1e-13)


@pytest.mark.parametrize("k, n", [(2, 1100), (3, 1100), (9, 40)])
def test_a_record_that_goes_to_another_class_changes_no_bit_of_the_others(k, n):
    X, y = random_spd(n, k, 0.5, 3), np.arange(n) % 2
    y[n // 2:] = 2
    moved = y.copy()
    moved[0] = 2
    ball = Ball(0.7 * k, np.eye(k))
    first, second = (ClassSums(X, z, [0, 1, 2], ball) for z in (y, moved))
    change = (first.total() - second.total())[:-3].reshape(3, -1)
    assert (change[0] == -change[2]).all() and change[0].any() and not change[1].any()


def test_the_price_is_that_of_one_release_and_an_audit_of_both_neighbours_finds_no_more():
    epsilon, delta = 1.0, 0.1
    for labels, moves in (("public", False), ("private", False), ("private", True)):
        first, second = sharp(labels, moves)
        sound = TangentGaussian.of(first, epsilon, delta)
        broken = TangentGaussian(2 * R / np.sqrt(2), epsilon, delta)
        found = [audit(*(mechanism.perturb(query.step, seed, 40_000)
                         for seed, query in enumerate((first, second))), delta)
                 for mechanism in (sound, broken)]
        assert 0.6 < found[0] <= epsilon < found[1]


# the release

@BOTH
def test_means_are_points_of_the_ball_and_near_the_truth_where_noise_is_small(labels):
    ball, space = Ball.from_bounds(0.3, 3.0, K), LogEuclidean(K)
    fit = private(labels, epsilon=500.0, ball=ball).fit(RECORDS, LABELS, rng=0)
    for c, mean, count in zip(CLASSES, fit.means_, fit.counts_, strict=True):
        truth = space.coordinates(RECORDS[LABELS == c]).mean(axis=0)
        assert np.linalg.norm(space.coordinates(mean) - truth) < 0.1
        assert abs(count - 20) < 1
    assert fit.classes_.tolist() == CLASSES


@pytest.mark.parametrize("epsilon", [1e-6, 0.1, 1e3])
@BOTH
def test_every_release_is_one_point_of_the_ball_a_class(labels, epsilon):
    for y in (LABELS, ["b"] * N, ["c", *["b"] * (N - 1)]):
        fit = private(labels, epsilon=epsilon).fit(RECORDS, y, rng=0)
        steps = LogEuclidean(K).log(np.eye(K), fit.means_)
        assert is_spd(fit.means_).all() and fit.means_.shape == (3, K, K)
        assert (np.linalg.norm(steps, axis=-1) <= R * (1 + 1e-9)).all()
        assert np.isfinite(fit.counts_).all()


def test_a_public_class_without_records_has_the_centre_for_a_mean():
    fit = private("public").fit(RECORDS, ["b"] * N, rng=0)
    assert fit.counts_.tolist() == [0, N, 0]
    assert fit.means_[[0, 2]] == pytest.approx(np.array([np.eye(K)] * 2), abs=1e-15)


def test_a_private_class_without_records_looks_like_a_small_one():
    empty, small = (private().fit(RECORDS, [*["a"] * few, *["b"] * (N - few)], rng=7)
                    for few in (0, 1))
    assert abs(empty.counts_[0]) > 0.1 and empty.counts_[0] + 1 == pytest.approx(small.counts_[0])
    assert np.linalg.norm(LogEuclidean(K).coordinates(empty.means_[0])) == pytest.approx(R)


def test_one_public_class_is_released_as_its_mean_alone():
    fit = private("public", classes=["a"]).fit(RECORDS, ["a"] * N, rng=3)
    alone = PrivateFrechetMean(1.0, 1e-6, BALL).fit(RECORDS, rng=3)
    assert fit.means_[0] == pytest.approx(alone.mean_, rel=1e-9)
    assert fit.mechanism_.sigma == pytest.approx(N * alone.mechanism_.sigma, rel=1e-9)


@pytest.mark.slow
def test_the_noise_is_that_of_the_mechanism_and_the_count_is_over_the_radius():
    fits = [private().fit(RECORDS[:3], CLASSES, rng=seed) for seed in range(60)]
    spread = np.std([fit.counts_ for fit in fits], axis=0)
    assert spread == pytest.approx(fits[0].mechanism_.sigma / R, rel=0.35)


def test_a_seed_repeats_a_release_and_without_one_no_two_are_alike():
    fits = [private().fit(RECORDS, LABELS, rng=rng) for rng in (5, np.random.default_rng(5))]
    assert (fits[0].means_ == fits[1].means_).all()
    fits = [private().fit(RECORDS, LABELS) for _ in range(2)]
    assert (fits[0].means_ != fits[1].means_).any() and (fits[0].counts_ != fits[1].counts_).all()


@BOTH
def test_nothing_but_means_and_private_numbers_depends_on_the_data(labels):
    neighbours = [(RECORDS, LABELS), replaced(RECORDS, LABELS, 0, np.eye(K), LABELS[0])]
    if labels == "private":
        neighbours.append(replaced(RECORDS, LABELS, 0, np.eye(K), "b"))
    said = []
    for X, y in neighbours:
        fit = private(labels).fit(X, y, rng=0)
        rest = {name: value for name, value in vars(fit).items() if name.endswith("_")}
        assert set(rest) == {"means_", "classes_", "counts_", "mechanism_", "privacy_", "balls_",
                             "release_"}
        rest["mechanism_"] = vars(rest["mechanism_"])
        shown = rest["release_"] = rest["release_"].to_dict()
        assert Release.from_dict(shown) == fit.release_
        assert shown.pop("means") == rest["means_"].tolist() and shown.pop("steps")
        assert shown.pop("counts") == rest["counts_"].tolist()
        rest["classes_"] = rest["classes_"].tolist()
        rest.pop("means_")
        if labels == "private":
            rest.pop("counts_")
        else:
            rest["counts_"] = rest["counts_"].tolist()
        said.append(rest)
    assert all(rest == said[0] for rest in said)


def test_the_promise_names_its_neighbours():
    words = {labels: private(labels).fit(RECORDS, LABELS, rng=0).privacy_
             for labels in ("private", "public")}
    assert "with its label" in words["private"] and "n = 60" in words["private"]
    neighbours = {labels: private(labels).fit(RECORDS, LABELS, rng=0).release_.adjacency
                  for labels in words}
    assert neighbours["public"] == neighbours["private"] + " of its class"
    assert "within its class" in words["public"] and "sizes" in words["public"]
    assert words["public"].endswith("last bits of floats; not private against anyone who knows "
                                    "the seed")
    assert private().fit(RECORDS, LABELS).privacy_.endswith("not of the last bits of floats")


@pytest.mark.slow
@BOTH
def test_exact_noise_gives_the_same_law_on_its_own_grid(labels):
    options = {"epsilon": 300.0, "labels": labels}
    first, second = (private(mechanism=name, **options).fit(RECORDS, LABELS)
                     for name in ("gaussian", "discrete gaussian"))
    assert second.mechanism_.sigma == pytest.approx(first.mechanism_.sigma, rel=1e-6)
    assert second.means_ == pytest.approx(first.means_, abs=0.1)
    assert second.counts_ == pytest.approx(first.counts_, abs=1)
    query = ClassSums(RECORDS, LABELS, CLASSES, BALL, labels=labels)
    answers = second.mechanism_.answer(query, size=500)
    noise = (answers - query.total(second.mechanism_.grid)) / second.mechanism_.sigma
    assert noise.shape == (500, query.dim) and noise.std() == pytest.approx(1, abs=0.05)
    assert (answers % second.mechanism_.grid == 0).all()
    with pytest.raises(ValueError, match="rng is 0; accepted is None"):
        private(mechanism="discrete gaussian", **options).fit(RECORDS, LABELS, rng=0)


@pytest.mark.slow
def test_what_is_shrunk_is_nearer_where_noise_is_strong_also_for_a_class_that_is_missing():
    space, y = LogEuclidean(K), [*["a"] * 50, *["b"] * (N - 50)]
    truth = np.stack([FrechetMean(RECORDS[:50], BALL).step,
                      FrechetMean(RECORDS[50:], BALL).step, np.zeros(6)])
    error = {shrink: np.mean([
        ((space.log(np.eye(K), private(shrink=shrink).fit(RECORDS, y, rng=seed).means_)
          - truth) ** 2).sum(axis=1) for seed in range(40)], axis=0) for shrink in (False, True)}
    assert (error[True] < 0.8 * error[False]).all()


def test_each_mean_is_shrunk_by_the_noise_of_its_sum_over_its_number_and_then_projected():
    ball = BALL.of_radius(1.0)
    fit = private(shrink=True, epsilon=20.0, ball=ball).fit(RECORDS, LABELS, rng=0)
    query = ClassSums(RECORDS, LABELS, CLASSES, ball)
    steps, counts = query.means(fit.mechanism_.answer(query, 0))
    t = 4 * (fit.mechanism_.sigma / counts) ** 2 / (steps**2).sum(axis=1)
    assert (counts > 1).all() and (0.01 < t).all() and (t < 1).all()
    wanted = (1 - t)[:, None] * steps
    wanted /= np.maximum(np.linalg.norm(wanted, axis=1), 1.0)[:, None]
    assert LogEuclidean(K).coordinates(fit.means_) == pytest.approx(wanted, abs=1e-12)


def test_all_classes_are_one_entry_of_an_account_written_before_a_label_is_looked_at():
    account = BudgetAccountant(1.0, 1e-6)
    with pytest.raises(ValueError, match="y"):  # nothing was drawn, so it is given back
        private().fit(RECORDS, ["x"] * N, accountant=account)
    assert account.total() == 0
    private().fit(RECORDS, LABELS, accountant=account)
    assert account.total() == pytest.approx(1.0)
    with pytest.raises(ValueError, match="epsilon 1 is spent and 0 remains"):
        private(epsilon=0.1).fit(RECORDS, ["x"] * N, accountant=account)


def test_a_record_is_of_the_class_whose_mean_is_nearest():
    fit = private(epsilon=50.0).fit(RECORDS, LABELS, rng=0)
    assert fit.predict(fit.means_).tolist() == fit.classes_.tolist()
    distances = np.stack([distance_logeuclid(RECORDS, mean) for mean in fit.means_])
    assert (fit.predict(RECORDS) == fit.classes_[distances.argmin(axis=0)]).all()
    with pytest.raises(ValueError, match="no means have been released"):
        private().predict(RECORDS)


def test_without_refinement_the_balls_are_the_public_one_and_predictions_keep_it():
    ball = Ball(R, random_spd(1, K, 0.5, 3)[0])
    fit = PrivateClassMeans(1.0, 1e-6, ball, CLASSES).fit(RECORDS, LABELS, rng=0)
    assert all(each == ball for each in fit.balls_)
    before = fit.predict(RECORDS)
    assert (fit.set_params(ball=None).predict(RECORDS) == before).all()


@pytest.mark.parametrize("classes", [[b"a", b"b"], [float("inf"), 1.0], ["\ud800", "a"]])
def test_labels_that_no_document_can_hold_are_refused(classes):
    with pytest.raises(ValueError, match="accepted are one or more labels, all of them finite num"):
        PrivateClassMeans(1.0, 1e-6, Ball(R, np.eye(K)), classes).fit(RECORDS, [classes[0]] * N)


@pytest.mark.slow
def test_any_number_of_classes_is_one_entry():
    account, many = BudgetAccountant(1.0, 1e-6), range(800)
    fit = private(classes=many).fit(RECORDS, range(N), accountant=account)
    assert fit.means_.shape == (800, K, K) and account.total() == pytest.approx(1.0)


def test_disjoint_groups_of_people_spend_side_by_side():
    account = BudgetAccountant(1.0, 1e-6)
    for group in ("here", "there"):
        private("public").fit(RECORDS, LABELS, accountant=account, group=group)
    assert account.total() == pytest.approx(1.0)


# labels

@pytest.mark.parametrize("classes, y", [
    ([0, 1], [0, 1, 1, 0]),
    ([0, 1], np.array([0, 1, 1, 0], np.uint8)),
    ([0, 1], np.array([0.0, 1.0, 1.0, 0.0])),
    ([0, 1], [False, True, True, False]),
    ([False, True], np.array([0, 1, 1, 0])),
    (["x", "longer"], ["x", "longer", "longer", "x"]),
    (["x", "longer"], np.array(["x", "longer", "longer", "x"])),
    (np.array(["x", "longer"]), np.array(["x", "longer", "longer", "x"], object)),
    ([0.5, 1e300], [0.5, 1e300, 1e300, 0.5]),
])
def test_labels_may_be_numbers_or_strings_in_a_list_or_an_array(classes, y):
    query = ClassSums(RECORDS[:4], y, classes, BALL)
    assert query.codes.tolist() == [0, 1, 1, 0] and query.counts.tolist() == [2, 2]


def test_a_label_is_looked_at_by_itself_whatever_stands_beside_it():
    for label in ("x", None, float("nan"), [1], {}, 2**70, 1j, b"1", np.nan, np.zeros(2)):
        query = ClassSums(RECORDS[:4], [0, 1, 1, label], [0, 1], BALL, "center")
        assert query.codes.tolist() == [0, 1, 1, -1]


@BOTH
@pytest.mark.parametrize("label", ["d", "A", "", None, float("nan"), 0, ["a"]])
def test_a_label_that_is_no_class_is_refused_before_the_draw(labels, label):
    rng = np.random.default_rng(0)
    before = copy.deepcopy(rng.bit_generator.state)
    y = list(LABELS)
    y[2] = label
    with pytest.raises(ValueError, match=r"y\[2\] is .*; accepted are \['a', 'b', 'c'\]"):
        private(labels).fit(RECORDS, y, rng=rng)
    assert rng.bit_generator.state == before


def test_a_record_whose_private_label_is_no_class_may_count_in_none():
    y = [*LABELS[:-1], "d"]
    query = ClassSums(RECORDS, y, CLASSES, BALL, "center")
    without = ClassSums(RECORDS[:-1], y[:-1], CLASSES, BALL)
    assert query.counts.tolist() == [20, 20, 19]
    assert query.total(2.0**-30) == pytest.approx(without.total(2.0**-30), abs=0)
    fit = private(on_invalid="center").fit(RECORDS, y, rng=0)
    assert fit.means_.shape == (3, K, K)
    with pytest.raises(ValueError, match=r"y\[59\] is 'd'"):
        private("public", on_invalid="center").fit(RECORDS, y, rng=0)


@pytest.mark.parametrize("classes", [[], "abc", 3, None, ["a", "a"], ["a", 1], [0, False], [1, 1.0],
                                     [float("nan")], [None], [["a"], ["b"]], [[1, 2]], [{}], [1j],
                                     np.zeros((2, 2))])
def test_classes_that_are_none_are_refused(classes):
    with pytest.raises(ValueError, match="(?s)^classes is .*; accepted are one or more labels"):
        private(classes=classes).fit(RECORDS, LABELS, rng=0)


@pytest.mark.parametrize("classes", [
    np.ma.masked_array([0, 1, 2], [0, 1, 0]), np.ma.masked_array(CLASSES, [0, 1, 0]),
    ["a", np.ma.masked], (1.0, np.ma.masked)])
def test_masked_classes_are_refused_without_a_warning(classes):
    with warnings.catch_warnings():
        warnings.simplefilter("error")
        with pytest.raises(ValueError, match="^classes is an array with masked entries; accepted"):
            private(classes=classes).fit(RECORDS, LABELS, rng=0)


def test_a_masked_label_in_a_list_counts_in_no_class():
    y = LABELS.tolist()
    y[5] = "none of them"
    wanted = ClassSums(RECORDS, y, CLASSES, BALL, "center").total()
    for masked in (np.ma.masked, np.ma.masked_array("a", True), np.ma.masked_array(["a"], [True])):
        y[5] = masked
        query = ClassSums(RECORDS, y, CLASSES, BALL, "center")
        assert query.codes[5] == -1 and (query.total() == wanted).all()
        private(on_invalid="center").fit(RECORDS, y, rng=0)
        for options in ({}, {"labels": "public"}, {"labels": "public", "on_invalid": "center"}):
            with pytest.raises(ValueError, match=r"(?s)y\[5\] is .*; accepted are \['a'"):
                private(**options).fit(RECORDS, y, rng=0)


@pytest.mark.parametrize("dtype", ["U1", object])
def test_a_masked_label_in_an_array_counts_in_no_class(dtype):
    hidden = np.arange(N) % 7 == 3
    y = np.ma.masked_array(LABELS.astype(dtype), hidden)
    wanted = np.where(hidden, "none of them", LABELS.astype(object))
    query, other = (ClassSums(RECORDS, each, CLASSES, BALL, "center") for each in (y, wanted))
    assert (query.codes == other.codes).all() and (query.codes[hidden] == -1).all()
    assert (query.total() == other.total()).all()
    private(on_invalid="center").fit(RECORDS, y, rng=0)
    for options in ({}, {"labels": "public"}, {"labels": "public", "on_invalid": "center"}):
        with pytest.raises(ValueError, match=r"^y\[3\] is masked; accepted are \['a'"):
            private(**options).fit(RECORDS, y, rng=0)
    whole = np.ma.masked_array(LABELS, False)
    assert (ClassSums(RECORDS, whole, CLASSES, BALL).codes >= 0).all()


@pytest.mark.parametrize("error", [ZeroDivisionError, RecursionError, AttributeError, KeyError])
@pytest.mark.parametrize("method", ["__hash__", "__eq__"])
def test_a_label_that_cannot_be_compared_counts_in_no_class(method, error):
    def fail(*_):
        raise error

    methods = {"__hash__": lambda self: hash("a"), "__eq__": lambda self, other: True}
    label = type("Label", (), methods | {method: fail})()
    y = LABELS.tolist()
    y[5] = label
    query = ClassSums(RECORDS, y, CLASSES, BALL, "center")
    assert query.codes[5] == -1
    private(on_invalid="center").fit(RECORDS, y, rng=0)
    for options in ({}, {"labels": "public"}, {"labels": "public", "on_invalid": "center"}):
        with pytest.raises(ValueError, match=r"^y\[5\] is <.*; accepted are \['a'"):
            private(**options).fit(RECORDS, y, rng=0)


# what is refused

@pytest.mark.parametrize("options, y, words", [
    ({}, LABELS[:-1], r"y has shape \(59,\); accepted is \(60,\)"),
    ({}, LABELS[:, None], r"y has shape \(60, 1\)"),
    ({}, None, "y is None; accepted are 60 labels"),
    ({}, 3, "y is 3; accepted are 60 labels"),
    ({}, np.arange(N), "y is an array of dtype int64; accepted are labels such as"),
    ({}, np.ma.masked_array(LABELS, np.arange(N) == 3), r"y\[3\] is masked; accepted are \['a'"),
    ({"labels": "secret"}, LABELS, "labels is 'secret'; accepted are"),
    ({"mechanism": "l2"}, LABELS, "mechanism is 'l2'; accepted are"),
    ({"mechanism": L2Mechanism}, LABELS, "mechanism is <class .*L2Mechanism'>; accepted are"),
    ({"mechanism": DiscreteGaussian.with_options}, LABELS, "mechanism is <bound .*; accepted are"),
    ({"ball": None}, LABELS, "ball is None; accepted is a Ball"),
    ({"ball": R}, LABELS, "ball is 1.5; accepted is a Ball"),
    ({"epsilon": 0.0}, LABELS, "epsilon is 0.0"),
    ({"delta": 0.0}, LABELS, "delta is 0"),
    ({"on_invalid": "drop"}, LABELS, "on_invalid is 'drop'"),
    ({"ball": Ball(R, np.eye(K), AffineInvariant(K))}, LABELS, "accepted are flat spaces"),
    ({"shrink": 1}, LABELS, "shrink is 1; accepted are True and False"),
    ({"accountant": 3}, LABELS, "accountant is 3"),
    ({"ball": Ball(R, np.eye(2))}, LABELS, r"X has shape \(60, 3, 3\); accepted is \(n, 2, 2\)"),
])
def test_a_refusal_names_the_argument_and_comes_before_the_draw(options, y, words):
    rng = np.random.default_rng(0)
    before = copy.deepcopy(rng.bit_generator.state)
    accountant = options.get("accountant")
    options = {name: value for name, value in options.items() if name != "accountant"}
    with pytest.raises(ValueError, match=words):
        private(**options).fit(RECORDS, y, rng=rng, accountant=accountant)
    assert rng.bit_generator.state == before


def test_a_plane_is_too_small_to_shrink_in():
    ball = Ball(R, [0.0, 0.0, 1.0], Sphere(2)).tangent()
    with pytest.raises(ValueError, match="shrink is True; accepted is False on TangentSpace"):
        private(ball=ball, shrink=True).fit([[0.0, 0.0, 1.0]] * 2, ["a", "b"], rng=0)


@BOTH
def test_a_record_that_is_none_is_refused_by_its_index_or_counts_as_the_centre(labels):
    X, y = replaced(RECORDS, LABELS, 5, -np.eye(K), LABELS[5])
    with pytest.raises(ValueError, match=r"X\[5\]"):
        private(labels).fit(X, y, rng=0)
    X[5] = np.eye(K)
    wanted = ClassSums(X, y, CLASSES, BALL, labels=labels).total()
    X[5] = np.nan
    query = ClassSums(X, y, CLASSES, BALL, "center", labels)
    assert (query.total() == wanted).all()


def test_a_refused_fit_leaves_nothing_of_an_earlier_one():
    estimator = private().fit(RECORDS, LABELS, rng=0)
    with pytest.raises(ValueError, match="rng"):
        estimator.fit(RECORDS, LABELS, rng="x")
    assert not [name for name in vars(estimator) if name.endswith("_")]


# what others ask of it

def test_a_clone_has_the_parameters_and_a_pickle_the_release():
    fit = private(on_invalid="center").fit(RECORDS, LABELS, rng=0)
    clone = sklearn.base.clone(fit)
    assert clone.get_params() == fit.get_params() and not hasattr(clone, "means_")
    again = pickle.loads(pickle.dumps(fit))
    assert (again.means_ == fit.means_).all() and again.privacy_ == fit.privacy_
    assert eval(repr(fit)).get_params() == fit.get_params()
    assert not any(isinstance(value, np.random.Generator) for value in vars(fit).values())


@pytest.mark.parametrize("space, X", [
    (TangentSpace(Sphere(2), [0.0, 0.0, 1.0]),
     Sphere(2).exp(np.array([0.0, 0, 1]), np.random.default_rng(0).normal(0, 0.2, (N, 2)))),
    (TangentSpace(AffineInvariant(K), np.eye(K)), RECORDS),
])
def test_a_curved_space_lends_its_tangent_space(space, X):
    fit = private(ball=Ball(R, space.origin, space), epsilon=300.0).fit(X, LABELS, rng=0)
    truth = [space.coordinates(X[LABELS == c]).mean(axis=0) for c in CLASSES]
    assert space.coordinates(fit.means_) == pytest.approx(np.array(truth), abs=0.1)


@pytest.mark.slow
def test_minimum_distance_to_mean_classifies_with_the_release():
    X = np.concatenate([random_spd(200, 2, 0.3, 0), 20 * random_spd(200, 2, 0.3, 1)])
    y = np.repeat(["near", "far"], 200)
    fit = private(ball=Ball(4.0, np.eye(2)), classes=["near", "far"]).fit(X, y, rng=0)
    from pyriemann.classification import MDM  # here, since it takes a second

    classifier = MDM(metric="logeuclid").fit(fit.means_, fit.classes_)
    assert (classifier.predict(X) == y).mean() > 0.95


def test_nothing_warns():
    with warnings.catch_warnings():
        warnings.simplefilter("error")
        for y in (LABELS, list(LABELS), ["a"] * N):
            private().fit(RECORDS, y, rng=0)


def test_gestures_of_real_hands_still_classify_at_a_large_epsilon_and_not_at_a_small_one():
    path = pathlib.Path(os.environ.get("SPDLIB_DATA", ""), "emg_cov8.npz")
    if not path.is_file():
        pytest.skip("SPDLIB_DATA names no folder with emg_cov8.npz")
    with np.load(path) as file:
        X, y = file["mats"], file["labels"]
    ball = Ball.from_bounds(1 / 12, 128.0**2, 8)
    space, center = ball.space, ball.center
    test, classes = np.arange(len(y)) % 3 == 0, np.unique(y)
    x, mine = space.log(center, X[test]), space.log(center, X[~test])

    def accuracy(means):
        near = ((means**2).sum(axis=1) - 2 * x @ means.T).argmin(axis=1)
        return 100 * (classes[near] == y[test]).mean()

    without = accuracy(np.stack([mine[y[~test] == c].mean(axis=0) for c in classes]))
    for labels in ("private", "public"):
        lost = [without - accuracy(space.log(center, private(
            labels, epsilon=epsilon, ball=ball, classes=classes).fit(
                X[~test], y[~test], rng=0).means_)) for epsilon in (8, 0.25)]
        assert lost[0] < 5 < 15 < lost[1]


def test_labels_of_a_type_that_runs_classes_together_are_refused():
    big = [2**53, 2**53 + 1]
    with pytest.raises(ValueError, match="y is an array of dtype float64, in which"):
        private(classes=big).fit(RECORDS[:4], np.array([*big, 1, 0.5]))
    listed = private(classes=big, on_invalid="center")
    assert listed.fit(RECORDS[:4], [*big, 1, 0.5], rng=0).counts_.shape == (2,)


def test_labels_in_a_column_of_one_type_are_those_of_an_array():
    class Column:  # as pandas makes them
        dtype = np.dtype(float)

        def __array__(self, dtype=None, copy=None):
            return np.array([np.nan, 2**53, 2**53])

        def __iter__(self):
            return iter(self.__array__())

    X = np.broadcast_to(np.eye(2), (3, 2, 2))
    with pytest.raises(ValueError, match="y is an array of dtype float64, in which"):
        ClassSums(X, Column(), [2**53, 2**53 + 1], Ball(1.0, np.eye(2)))
