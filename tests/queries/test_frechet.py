"""The private mean: clipping and sensitivity in exact arithmetic, the noise, the release."""

import contextlib
import math
import re
from fractions import Fraction

import numpy as np
import pytest

from spdlib import (Ball, FrechetMean, L2Mechanism, PrivateFrechetMean, RiemannianLaplace,
                    TangentGaussian)
from spdlib.calibration import sigma_analytic, sigma_classical
from spdlib.mechanisms import ClassicalGaussian
from spdlib.queries import frechet_sensitivity
from spdlib.spaces import Euclidean, LogEuclidean
from spdlib.spaces.ball import clip_to_ball, project_to_ball
from spdlib.spd import (distance_logeuclid, expm, invvecd, logm, mean_logeuclid, odot, ominus,
                        oplus, random_spd, vecd)

RADII = [1e-280, 1e-3, 0.1, 1.0, math.pi, math.nextafter(2, 0), 1e280]
every_radius = pytest.mark.parametrize("radius", RADII)
every_calibration = pytest.mark.parametrize("mechanism, calibrated", [
    (TangentGaussian, sigma_analytic), (ClassicalGaussian, sigma_classical)])


def exact(rows):
    """Rows of floats as rows of exact fractions."""
    return [[Fraction(entry) for entry in row] for row in np.asarray(rows).tolist()]


def norm2(row):
    return sum(entry * entry for entry in row)


def distance2(a, b):
    return norm2([p - q for p, q in zip(a, b, strict=True)])


def adversarial(d, radius, rng):
    """Records of every scale and direction: on both sides of the sphere, denormal, zero."""
    uneven = 10.0 ** rng.uniform(-300, 0, (5, d))
    plain = rng.standard_normal((10, d))
    directions = np.concatenate([np.eye(d)[:2], -np.ones((1, d)), plain, uneven])
    directions /= np.abs(directions).max(axis=1, keepdims=True)
    directions /= np.linalg.norm(directions, axis=1, keepdims=True)
    near = 1 + np.arange(-12, 13)[:, None, None] * 2.0**-53
    scales = np.array([5e-324, 1e-310, 1e-300, 1e-200, 1e-3, 1.0, 1e3, 1e200, 1e300, 1.7e308])
    parts = near * radius * directions, scales[:, None, None] * directions, np.zeros((1, d))
    return np.concatenate([part.reshape(-1, d) for part in parts])


# sensitivity

@every_radius
def test_the_sensitivity_is_2r_over_n_rounded_up(radius):
    for n in [1, 2, 3, 7, 1000, 10**6 + 1, 2**53 + 1, 10**30, np.int64(5)]:
        bound, sensitivity = 2 * Fraction(radius) / int(n), Fraction(frechet_sensitivity(n, radius))
        top = bound * (1 + Fraction(int(n) + 1, 2**50)) + Fraction(5e-324)
        assert bound < sensitivity <= top, n


@pytest.mark.parametrize("n", [0, -1, 2.0, True, "3", None, math.nan])
def test_a_number_of_records_that_is_none_is_refused(n):
    with pytest.raises(ValueError, match="n is .*; accepted are integers from 1"):
        frechet_sensitivity(n, 1.0)


NO_RADIUS = [0, -1.0, math.nan, math.inf, 1e-281, 1e281, True, "1", None, 1j]


@pytest.mark.parametrize("function", [
    lambda r: frechet_sensitivity(3, r), lambda r: clip_to_ball(np.ones((1, 2)), r),
    lambda r: project_to_ball(np.ones(2), r), lambda r: Ball(r, np.eye(2)),
    lambda r: Ball(1.0, np.eye(2)).of_radius(r),
], ids=["sensitivity", "clip", "project", "ball", "another ball"])
def test_a_radius_that_is_none_is_refused(function):
    message = "radius is .*; accepted are numbers from 1e-280 to 1e280"
    for radius in [*NO_RADIUS, np.float32(0), np.float32(math.inf)]:
        with pytest.raises(ValueError, match=message):
            pytest.fail(f"{radius!r} gives {function(radius)}")


@pytest.mark.parametrize("ball", [None, 1.0, np.float64(1), "1", (1.0, [[1.0]]), Ball])
def test_a_query_whose_ball_is_none_is_refused(ball):
    with pytest.raises(ValueError, match=f"^ball is {re.escape(repr(ball))}; accepted is a Ball"):
        FrechetMean(np.eye(2)[None], ball)


# clipping

@pytest.mark.slow
@every_radius
@pytest.mark.parametrize("d", [1, 2, 6, 45])
def test_the_exact_norm_of_every_clipped_record_is_at_most_the_radius(d, radius):
    rows = adversarial(d, radius, np.random.default_rng(d))
    one_by_one = np.concatenate([clip_to_ball(row[None], radius) for row in rows])  # finer digits
    for clipped in (clip_to_ball(rows, radius), one_by_one):
        assert max(map(norm2, exact(clipped))) <= Fraction(radius) ** 2


@every_radius
@pytest.mark.parametrize("d, n", [
    (1, 1), *(pytest.param(d, n, marks=pytest.mark.slow) for d, n in [(3, 1), (10, None)]),
    (3, None)])
def test_a_record_in_the_ball_moves_by_no_more_than_the_cut_of_its_digits(d, n, radius):
    rows = adversarial(d, radius, np.random.default_rng(d))
    inside = [norm2(row) <= Fraction(radius) ** 2 for row in exact(rows)]
    rows = rows[inside]
    ulp = Fraction(2) ** -52 * Fraction(radius)
    for part in [rows] if n is None else np.split(rows, len(rows)):
        cut2 = d * (len(part) * 2 * ulp) ** 2  # square of √d n radius 2⁻⁵¹
        margin = 2 * (d + 8) * ulp  # of the sphere, where a record may be taken for one outside
        for before, after in zip(exact(part), exact(clip_to_ball(part, radius)), strict=True):
            if norm2(before) <= (Fraction(radius) - margin) ** 2:
                assert distance2(before, after) < cut2
            else:
                assert distance2(before, after) < 2 * (cut2 + margin ** 2)


@every_radius
def test_a_record_outside_moves_along_its_ray_to_the_sphere(radius):
    y = np.random.default_rng(0).standard_normal((5, 4))
    y /= np.linalg.norm(y, axis=1, keepdims=True)
    for scale in (1 + 1e-12, 10, 1e4):
        clipped = clip_to_ball(scale * radius * y, radius)
        np.testing.assert_allclose(clipped / radius, y, rtol=1e-11, atol=1e-13)


@every_radius
@pytest.mark.parametrize("spread", [
    lambda rng: rng.standard_normal((1000, 2)), lambda rng: 10.0 ** rng.uniform(-20, 0, (999, 2)),
    lambda rng: 1 - 1e-3 * rng.random((1023, 1)),
], ids=["around", "all scales", "one side"])
def test_sums_of_clipped_records_are_exact_in_any_order(radius, spread):
    rng = np.random.default_rng(0)
    rows = clip_to_ball(radius * spread(rng), radius)
    totals = [sum(column) for column in zip(*exact(rows), strict=True)]
    n = len(rows)
    for order in [np.arange(n), np.argsort(rows[:, 0]), *(rng.permutation(n) for _ in range(5))]:
        assert [Fraction(total) for total in rows[order].sum(axis=0).tolist()] == totals
        assert [Fraction(sum(column)) for column in rows[order].T.tolist()] == totals


@pytest.mark.filterwarnings("ignore:invalid value")
@pytest.mark.parametrize("bad", [math.nan, math.inf, -math.inf])
def test_records_that_are_not_finite_are_refused(bad):
    with pytest.raises(ValueError, match=r"y\[1, 0\] is"):
        clip_to_ball(np.array([[0.0, 1.0], [bad, 1.0]]), 1.0)


# the query

def change2(one, other, ball):
    """Exact squared distance between the floats that are the means of two data sets."""
    return distance2(*exact([FrechetMean(X, ball).step for X in (one, other)]))


def clipped_mean(X, radius, center):
    """The mean of the clipped records, without noise."""
    query = FrechetMean(X, Ball(radius, center))
    return query.space.exp(query.ball.center, query.step)


@pytest.mark.slow
def test_the_mean_moves_by_at_most_the_sensitivity_when_a_record_is_replaced():
    rng, largest = np.random.default_rng(0), 0
    for _ in range(300):
        n, k = int(rng.integers(1, 9)), int(rng.integers(1, 4))
        radius = float(rng.choice([1e-9, 0.1, 1.0, 2.7, 10.0]))
        y = rng.standard_normal((n + 1, k * (k + 1) // 2)) * rng.choice([0.1, 1, 2])
        y[n] = -y[0] * rng.choice([1, 1, 1, 0.5])
        y *= rng.choice([0.99, 1, 1.01]) * radius / np.linalg.norm(y, axis=1, keepdims=True)
        X = expm(invvecd(y))
        replaced = np.concatenate([X[1:n], X[n:]])
        ball = Ball(radius, np.eye(k))
        sensitivity = FrechetMean(X[:n], ball).sensitivity
        assert sensitivity == frechet_sensitivity(n, radius)
        share = change2(X[:n], replaced, ball) / Fraction(sensitivity) ** 2
        assert share <= 1
        largest = max(largest, share)
    assert largest > 1 - Fraction(1, 10**6)  # the search comes close: r/n would have been exceeded


def test_any_outlier_moves_the_mean_by_at_most_2r_over_n():
    X, bound = random_spd(5, 3, 0.5, 0), Fraction(frechet_sensitivity(5, 2.0))
    ball = Ball(2.0, np.eye(3))
    for outlier in (1e-300 * np.eye(3), 1e300 * np.eye(3), np.diag([1e-7, 1, 1e7])):
        assert change2(X, np.concatenate([outlier[None], X[1:]]), ball) <= bound**2


def test_within_the_ball_the_mean_is_the_frechet_mean():
    X = random_spd(20, 3, 1.0, 0)
    np.testing.assert_allclose(clipped_mean(X, 2.0, np.eye(3)), mean_logeuclid(X), rtol=1e-12)


def test_records_are_clipped_to_the_ball_about_the_centre():
    C, X = random_spd(2, 3, 1.0, 1)[0], random_spd(6, 3, 1.5, 0)
    shifted = clipped_mean(ominus(X, C), 0.7, np.eye(3))
    assert distance_logeuclid(shifted, mean_logeuclid(ominus(X, C))) > 0.1  # some were outside
    np.testing.assert_allclose(clipped_mean(X, 0.7, C), oplus(shifted, C), rtol=1e-10)
    assert distance_logeuclid(clipped_mean(odot(10, X), 0.7, C), C) <= 0.7 * (1 + 1e-12)


def test_the_release_is_the_answer_to_the_query_projected_and_brought_down():
    C, X = random_spd(2, 3, 1.0, 1)[0], random_spd(6, 3, 1.5, 0)
    ball = Ball(0.7, C)
    query = FrechetMean(X, ball)
    mechanism = TangentGaussian.of(query, 0.5, 1e-5)
    for seed in range(10):
        fitted = PrivateFrechetMean(0.5, 1e-5, ball).fit(X, rng=seed)
        step = project_to_ball(mechanism.answer(query, seed), 0.7)
        assert np.array_equal(fitted.log_mean_, vecd(logm(C)) + step)
        assert np.array_equal(fitted.mean_, query.space.exp(C, step))


# the release

@every_calibration
def test_the_release_is_the_mean_with_the_noise_of_the_seed(mechanism, calibrated):
    X, sensitivity = random_spd(100, 3, 0.5, 0), frechet_sensitivity(100, 1.0)
    ball = Ball(1.0, np.eye(3))
    fitted = PrivateFrechetMean(0.5, 1e-5, ball, mechanism.name).fit(X, rng=7)
    sigma = calibrated(sensitivity, 0.5, 1e-5)
    noise = sigma * np.random.default_rng(7).standard_normal(6)
    expected = vecd(logm(mean_logeuclid(X))) + noise
    assert np.linalg.norm(expected) < 1  # it lies in the ball, where nothing is projected
    for found in (vecd(logm(fitted.mean_)), fitted.log_mean_):
        np.testing.assert_allclose(found, expected, rtol=1e-10, atol=1e-12)
    assert fitted.mechanism_.sigma == sigma
    assert Fraction(sensitivity) / Fraction(sigma) <= Fraction(fitted.mechanism_.mu)
    assert fitted.mechanism_.mu == pytest.approx(sensitivity / sigma, rel=1e-12)
    assert np.array_equal(fitted.mean_, fitted.mean_.T) and np.linalg.eigvalsh(fitted.mean_)[0] > 0


@pytest.mark.parametrize("mechanism, delta, made", [
    ("l2", 1e-5, lambda sensitivity: L2Mechanism(sensitivity, 0.5, 1e-5, 6)),
    ("laplace", 0, lambda sensitivity: RiemannianLaplace(sensitivity, 0.5)),
])
def test_the_release_has_the_noise_of_the_mechanism_that_was_asked_for(mechanism, delta, made):
    X = random_spd(60, 3, 0.5, 0)
    fitted = PrivateFrechetMean(0.5, delta, Ball(1.0, np.eye(3)), mechanism).fit(X, rng=7)
    expected = made(frechet_sensitivity(60, 1.0))
    assert vars(fitted.mechanism_) == vars(expected)
    released = expected.release(mean_logeuclid(X), rng=7)
    assert distance_logeuclid(released, np.eye(3)) < 1  # it lies in the ball
    np.testing.assert_allclose(fitted.mean_, released, rtol=1e-10)


def test_nothing_but_the_release_depends_on_the_data():
    private = [PrivateFrechetMean(1.0, 1e-5, Ball(1.5, 2 * np.eye(2))) for _ in range(2)]
    first, second = (vars(one.fit(random_spd(9, 2, r, 1), rng=0))
                     for one, r in zip(private, (0.2, 2), strict=True))
    parameters = set(vars(PrivateFrechetMean(1.0, 1e-5)))
    assert set(first) == parameters | {"mean_", "log_mean_", "mechanism_", "privacy_",
                                       "release_", "ball_"}
    documents = [each.pop("release_").to_dict() for each in (first, second)]
    assert {name for name in documents[0] if documents[0][name] != documents[1][name]} == {
        "mean", "log_mean", "step"}
    for release in ("mean_", "log_mean_"):
        assert not np.array_equal(first.pop(release), second.pop(release))
    assert vars(first.pop("mechanism_")) == vars(second.pop("mechanism_"))
    np.testing.assert_equal(first, second)


def test_the_promise_is_said_in_words():
    private = PrivateFrechetMean(0.5, 1e-5, Ball(1.5, np.eye(2)))
    words = private.fit(random_spd(9, 2, 1, 1)).privacy_
    for part in ("(0.5, 1e-05)", "replaced", "n = 9", "radius 1.5"):
        assert part in words


BALL = Ball(1.0, np.eye(2))
PRIVATE = PrivateFrechetMean(1.0, 1e-5, BALL)


def test_a_generator_repeats_its_releases_but_no_release_repeats_another():
    X = random_spd(9, 2, 0.5, 0)
    one, other = np.random.default_rng(3), np.random.default_rng(3)
    first = PRIVATE.fit(X, rng=one).mean_
    assert np.array_equal(first, PRIVATE.fit(X, rng=other).mean_)
    assert np.array_equal(first, PRIVATE.fit(X, rng=3).mean_)
    assert not np.array_equal(first, PRIVATE.fit(X, rng=one).mean_)


def test_without_a_seed_every_release_has_fresh_noise():
    X = random_spd(9, 2, 0.5, 0)
    one, other = PrivateFrechetMean(1.0, 1e-5, BALL), PrivateFrechetMean(1.0, 1e-5, BALL)
    releases = [one.fit(X).mean_, one.fit(X).mean_, other.fit(X, rng=None).mean_]
    assert len({release.tobytes() for release in releases}) == 3


NO_MECHANISM = (r"accepted are \['classical gaussian', 'discrete gaussian', "
                "'discrete laplace', 'gaussian', 'k-norm gradient', 'l2', ")
NO_BALL = r"; accepted is a Ball, such as Ball\(radius, center, space\) or "
WRONG = {"mechanism": "exact", "epsilon": 0, "delta": 1, "ball": 1.0, "on_invalid": "drop",
         "rng": True}


@pytest.mark.parametrize("arguments, message", [
    ({"mechanism": "exact"}, "^mechanism is 'exact'; " + NO_MECHANISM),
    ({"mechanism": ["l2"]}, r"^mechanism is \['l2'\]; " + NO_MECHANISM),
    ({"mechanism": None}, "^mechanism is None; " + NO_MECHANISM),
    ({"mechanism": "laplace"}, '^delta is 1e-05; accepted are 0 with "laplace"'),
    ({"mechanism": "l2", "delta": 0}, "^delta is 0; accepted are .*laplace"),
    ({"mechanism": "classical gaussian", "epsilon": 1.0}, "^epsilon is 1.0; accepted are"),
    ({"epsilon": 0}, "^epsilon is 0; accepted are"), ({"epsilon": math.nan}, "^epsilon is nan; "),
    ({"delta": 0}, "^delta is 0; accepted are .*laplace"),
    ({"delta": 0.6}, "^delta is 0.6; accepted are"),
    ({"ball": None}, "^ball is None" + NO_BALL), ({"ball": 1.0}, "^ball is 1.0" + NO_BALL),
    ({"ball": (1.0, [[1.0]])}, r"^ball is \(1.0, \[\[1.0\]\]\)" + NO_BALL),
    ({"on_invalid": "drop"}, r"^on_invalid is 'drop'; accepted are \['center', 'raise'\]"),
    ({"on_invalid": True}, "^on_invalid is True; accepted are"),
    ({"rng": True}, "^rng is True; accepted are"), ({"rng": "x"}, "^rng is 'x'; accepted are"),
    ({"rng": -1}, "^rng is -1; accepted are"),
])
def test_a_wrong_parameter_is_refused_by_fit_before_the_records(arguments, message):
    arguments = dict(arguments)
    rng = arguments.pop("rng", 0)
    private = PrivateFrechetMean(**{"epsilon": 0.5, "delta": 1e-5, "ball": BALL} | arguments)
    for records in random_spd(3, 2, 1, 0), np.full((3, 2, 2), np.nan):
        with pytest.raises(ValueError, match=message):
            pytest.fail(f"of {records} {private.fit(records, rng=rng)} makes a release")


NO_CENTRE = "center is no point that float64 can hold: "


@pytest.mark.parametrize("center, message", [
    (np.eye(3), r"^center has shape \(3, 3\); accepted is \(2, 2\)"),
    (np.eye(2)[None], r"^center has shape \(1, 2, 2\); accepted is \(2, 2\)"),
    (-np.eye(2), NO_CENTRE + ".*is not positive definite"),
    (np.array([[1, 0.5], [0, 1]]), NO_CENTRE + ".*is not symmetric"),
    (np.diag([1, math.nan]), NO_CENTRE + ".*is nan"),
    (1j * np.eye(2), "^center is an array of dtype complex128"),
    (np.ma.masked_equal(np.eye(2), 0), "^center is an array with masked entries"),
    ("I", "^center is an array of dtype <U1"), (None, "^center is an array of dtype object"),
])
def test_a_centre_that_is_none_is_refused(center, message):
    with pytest.raises(ValueError, match=message):
        Ball(1.0, center, LogEuclidean(2))
    if np.shape(center) == (2, 2):  # without a space, one of the centre's size is meant
        with pytest.raises(ValueError, match=message):
            Ball(1.0, center)


@pytest.mark.parametrize("center", [np.eye(2)[None], np.ones(2), np.ones((2, 3)), 2.0, "I", None])
def test_without_a_space_a_centre_that_is_no_square_is_refused(center):
    message = r"^center (has shape \(.*; accepted .* is \(k, k\)|is an array of dtype .*; accepted)"
    with pytest.raises(ValueError, match=message):
        Ball(1.0, center)


@pytest.mark.parametrize("name", WRONG)
@pytest.mark.parametrize("mechanism", ["gaussian", "classical gaussian", "l2", "laplace"])
def test_parameters_are_refused_before_anything_is_drawn(name, mechanism):
    rng = np.random.default_rng(0)
    good = {"epsilon": 0.5, "delta": 0 if mechanism == "laplace" else 1e-5, "ball": BALL,
            "mechanism": mechanism}
    private = PrivateFrechetMean(**good)
    if name != "rng":
        private.set_params(**{name: WRONG[name]})
    with pytest.raises(ValueError, match=f"^{name} "):
        private.fit(np.full((3, 2, 2), np.nan), rng=True if name == "rng" else rng)
    assert rng.bit_generator.state == np.random.default_rng(0).bit_generator.state


def test_a_wrong_record_is_refused_before_anything_is_drawn():
    rng = np.random.default_rng(0)
    with pytest.raises(ValueError, match=r"X\[1\] is not positive definite"):
        PRIVATE.fit([np.eye(2), -np.eye(2)], rng=rng)
    assert rng.bit_generator.state == np.random.default_rng(0).bit_generator.state


@pytest.mark.parametrize("name", ["record", "shape", *WRONG])
def test_a_fit_that_fails_leaves_no_attribute_of_an_earlier_one(name):
    X = random_spd(3, 2, 1, 0)
    private = PrivateFrechetMean(0.5, 1e-5, BALL).fit(X)
    parameters = set(vars(PrivateFrechetMean(0.5, 1e-5)))
    rng = True if name == "rng" else None
    if name in parameters:
        private.set_params(**{name: WRONG[name]})
    X = {"record": -X, "shape": X[0]}.get(name, X)
    with pytest.raises(ValueError):
        private.fit(X, rng=rng)
    assert set(vars(private)) == parameters


@pytest.mark.parametrize("X, message", [
    (np.eye(2), r"X has shape \(2, 2\); accepted is \(n, 2, 2\) with n ≥ 1"),
    (np.ones((0, 2, 2)), "X has shape"),
    (np.ones((1, 1, 2, 2)) + np.eye(2), "X has shape"), (np.ones((2, 2, 3)), "X has shape"),
    (np.ones((2, 0, 0)), "X has shape"), ([], r"X has shape \(0,\)"), (3.0, r"X has shape \(\)"),
    (None, r"X has shape \(\)"), ("X", "X is an array of dtype <U1"),
    ([[[1, 0], [0, 1]], [[1]]], "X is no array .*; accepted are records of one shape"),
    (1j * np.ones((2, 2, 2)), "X is an array of dtype complex128; accepted are real numbers"),
    (np.ones((2, 2, 2), bool), "X is an array of dtype bool; accepted are real numbers"),
    (np.ma.masked_equal(np.tile(np.eye(2), (2, 1, 1)), 0), r"X\[0, 0, 1\] is nan"),
    ([np.eye(2).tolist(), [[1.0, None], [0.0, 1.0]]], r"X\[1, 0, 1\] is nan"),
    (np.stack([np.eye(2), -np.eye(2)]), r"X\[1\] is not positive definite"),
    (np.full((1, 2, 2), np.nan), r"X\[0, 0, 0\] is nan"),
])
def test_records_that_are_none_are_refused(X, message):
    with pytest.raises(ValueError, match=message):
        PRIVATE.fit(X)


# the mechanism

@every_calibration
def test_the_noise_is_normal_of_the_calibrated_scale(mechanism, calibrated):
    mechanism = mechanism(0.2, 0.5, 1e-5)
    assert mechanism.sigma == calibrated(0.2, 0.5, 1e-5)
    y = np.arange(12.0).reshape(4, 3)
    noise = mechanism.sigma * np.random.default_rng(5).standard_normal((4, 3))
    assert np.array_equal(mechanism.perturb(y, 5), y + noise)
    released = mechanism.release(expm(invvecd(y / 10)), 5)
    np.testing.assert_allclose(released, expm(invvecd(y / 10 + noise)), rtol=1e-9)


def test_every_matrix_of_a_batch_has_noise_of_its_own():
    M = TangentGaussian(0.2, 0.5, 1e-5).release(np.tile(np.eye(2), (2, 3, 1, 1)), 0)
    assert M.shape == (2, 3, 2, 2)
    assert len({matrix.tobytes() for matrix in M.reshape(6, 2, 2)}) == 6
    assert np.array_equal(M, M.swapaxes(-2, -1)) and (np.linalg.eigvalsh(M) > 0).all()


def test_a_release_under_much_noise_is_spd_or_refused():
    mechanism = TangentGaussian(4.0, 0.5, 1e-5)
    for seed in range(50):
        with contextlib.suppress(ValueError):
            assert np.linalg.eigvalsh(mechanism.release(np.eye(3), seed))[0] > 0


@pytest.mark.parametrize("bad", [math.nan, math.inf])
def test_coordinates_that_are_not_finite_are_not_released(bad):
    with pytest.raises(ValueError, match=r"y\[1\] is"):
        TangentGaussian(0.2, 0.5, 1e-5).perturb([0.0, bad, 1.0], 0)


def test_an_outlier_that_float64_cannot_tell_from_a_singular_matrix_is_refused():
    private = PrivateFrechetMean(1.0, 1e-5, Ball(2.0, np.eye(3)))
    with pytest.raises(ValueError, match=r"X\[0\] is not positive definite"):
        private.fit([np.diag([1e-200, 1, 1e200]), np.eye(3)])


def test_a_mechanism_without_a_seed_has_fresh_noise():
    mechanism = TangentGaussian(0.2, 0.5, 1e-5)
    assert not np.array_equal(mechanism.perturb(np.zeros(3)), mechanism.perturb(np.zeros(3)))


def test_the_analytic_noise_is_smaller_and_only_it_goes_beyond_epsilon_1():
    classical = ClassicalGaussian(1.0, 0.99, 1e-5)
    assert TangentGaussian(1.0, 0.99, 1e-5).sigma < classical.sigma
    assert TangentGaussian(1.0, 3.0, 1e-5).sigma > 0
    with pytest.raises(ValueError, match="epsilon"):
        ClassicalGaussian(1.0, 1.0, 1e-5)


@pytest.mark.parametrize("arguments, message", [
    ((0, 0.5, 1e-5), "sensitivity"), ((math.inf, 0.5, 1e-5), "sensitivity"),
    ((0.2, 0.5, 0.7), "delta"),
])
def test_a_mechanism_that_keeps_no_promise_is_refused(arguments, message):
    with pytest.raises(ValueError, match=message):
        TangentGaussian(*arguments)


def test_a_space_of_another_size_is_refused():
    message = r"X has shape \(3, 2, 2\); accepted is \(n, 4, 4\) .* points of LogEuclidean\(4\)"
    with pytest.raises(ValueError, match=message):
        FrechetMean(random_spd(3, 2, 1, 0), Ball(1.0, np.eye(4)))


def test_in_the_euclidean_space_a_record_that_is_no_point_gives_way_to_the_centre():
    X = random_spd(4, 2, 0.5, 0)
    repaired, broken = X.copy(), X.copy()
    repaired[1], broken[1] = np.eye(2), [[1, 2], [3, 4]]
    infinite = X.copy()
    infinite[1] = [[0, 1.5e308], [1.5e308, 0]]  # in its coordinates
    ball = Ball(9.0, np.eye(2), Euclidean(2))
    steps = [FrechetMean(records, ball, "center").step for records in (repaired, broken, infinite)]
    assert np.array_equal(*steps[:2]) and np.array_equal(*steps[1:])
