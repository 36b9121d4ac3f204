"""The private mean: clipping and sensitivity in exact arithmetic, the noise, and what leaves with a release."""

import contextlib
import math
from fractions import Fraction

import numpy as np
import pytest

from spdlib import L2Mechanism, PrivateFrechetMean, RiemannianLaplace, TangentGaussian
from spdlib.calibration import sigma_analytic, sigma_classical
from spdlib.frechet import clip_to_ball, frechet_sensitivity
from spdlib.spd import distance_logeuclid, expm, invvecd, logm, mean_logeuclid, odot, ominus, oplus, random_spd, vecd

RADII = [1e-280, 1e-3, 0.1, 1.0, math.pi, math.nextafter(2, 0), 1e280]
every_radius = pytest.mark.parametrize("radius", RADII)
every_calibration = pytest.mark.parametrize("calibration", ["analytic", "classical"])


def exact(rows):
    """Rows of floats as rows of exact fractions."""
    return [[Fraction(entry) for entry in row] for row in np.asarray(rows).tolist()]


def norm2(row):
    return sum(entry * entry for entry in row)


def distance2(a, b):
    return norm2([p - q for p, q in zip(a, b)])


def adversarial(d, radius, rng):
    """Records of every scale and direction: inside, outside, within a few ulps of the sphere, denormal, zero."""
    uneven = 10.0 ** rng.uniform(-300, 0, (5, d))
    directions = np.concatenate([np.eye(d)[:2], -np.ones((1, d)), rng.standard_normal((10, d)), uneven])
    directions /= np.abs(directions).max(axis=1, keepdims=True)
    directions /= np.linalg.norm(directions, axis=1, keepdims=True)
    near = 1 + np.arange(-12, 13)[:, None, None] * 2.0**-53
    scales = np.array([5e-324, 1e-310, 1e-300, 1e-200, 1e-3, 1.0, 1e3, 1e200, 1e300, 1.7e308])[:, None, None]
    rows = np.concatenate([part.reshape(-1, d) for part in (near * radius * directions, scales * directions)])
    return np.concatenate([rows, np.zeros((1, d))])


# sensitivity

@every_radius
@pytest.mark.parametrize("n", [1, 2, 3, 7, 1000, 10**6 + 1, 2**53 + 1, 10**30, np.int64(5)])
def test_the_sensitivity_is_2r_over_n_rounded_up(n, radius):
    bound, sensitivity = 2 * Fraction(radius) / int(n), Fraction(frechet_sensitivity(n, radius))
    assert bound < sensitivity <= bound * (1 + Fraction(int(n) + 1, 2**50)) + Fraction(5e-324)


@pytest.mark.parametrize("n", [0, -1, 2.0, True, "3", None, math.nan])
def test_a_number_of_records_that_is_none_is_refused(n):
    with pytest.raises(ValueError, match="n is .*; accepted are integers ≥ 1"):
        frechet_sensitivity(n, 1.0)


@pytest.mark.parametrize("radius", [0, -1.0, math.nan, math.inf, 1e-281, 1e281, True, "1", None, 1j])
@pytest.mark.parametrize("function", [lambda r: frechet_sensitivity(3, r), lambda r: clip_to_ball(np.ones((1, 2)), r),
                                      lambda r: PrivateFrechetMean(1.0, 1e-5, r)], ids=["sensitivity", "clip", "mean"])
def test_a_radius_that_is_none_is_refused(function, radius):
    with pytest.raises(ValueError, match="radius is .*; accepted are numbers in"):
        function(radius)


# clipping

@every_radius
@pytest.mark.parametrize("d", [1, 2, 6, 45])
def test_the_exact_norm_of_every_clipped_record_is_at_most_the_radius(d, radius):
    rows = adversarial(d, radius, np.random.default_rng(d))
    one_by_one = np.concatenate([clip_to_ball(row[None], radius) for row in rows])  # the fewer, the finer the digits
    for clipped in (clip_to_ball(rows, radius), one_by_one):
        assert max(map(norm2, exact(clipped))) <= Fraction(radius) ** 2


@every_radius
@pytest.mark.parametrize("d, n", [(1, 1), (3, 1), (3, None), (10, None)])
def test_a_record_in_the_ball_moves_by_no_more_than_the_cut_of_its_digits(d, n, radius):
    rows = adversarial(d, radius, np.random.default_rng(d))
    inside = [row for row, exact_row in zip(rows, exact(rows)) if norm2(exact_row) <= Fraction(radius) ** 2]
    rows = np.array(inside)
    ulp = Fraction(2) ** -52 * Fraction(radius)
    for part in [rows] if n is None else np.split(rows, len(rows)):
        cut2 = d * (len(part) * 2 * ulp) ** 2  # square of √d n radius 2⁻⁵¹
        margin = 2 * (d + 8) * ulp  # of the sphere, where a record may be taken for one outside
        for before, after in zip(exact(part), exact(clip_to_ball(part, radius))):
            if norm2(before) <= (Fraction(radius) - margin) ** 2:
                assert distance2(before, after) < cut2
            else:
                assert distance2(before, after) < 2 * (cut2 + margin ** 2)


@every_radius
def test_a_record_outside_moves_along_its_ray_to_the_sphere(radius):
    y = np.random.default_rng(0).standard_normal((5, 4))
    y /= np.linalg.norm(y, axis=1, keepdims=True)
    for scale in (1 + 1e-12, 10, 1e4):
        np.testing.assert_allclose(clip_to_ball(scale * radius * y, radius) / radius, y, rtol=1e-11, atol=1e-13)


@every_radius
@pytest.mark.parametrize("spread", [
    lambda rng: rng.standard_normal((1000, 2)), lambda rng: 10.0 ** rng.uniform(-20, 0, (999, 2)),
    lambda rng: 1 - 1e-3 * rng.random((1023, 1)),
], ids=["around", "all scales", "one side"])
def test_sums_of_clipped_records_are_exact_in_any_order(radius, spread):
    rng = np.random.default_rng(0)
    rows = clip_to_ball(radius * spread(rng), radius)
    totals = [sum(column) for column in zip(*exact(rows))]
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

@pytest.fixture
def means(monkeypatch):
    """The means, without noise, of the estimators that are fitted."""
    taken = []
    monkeypatch.setattr(TangentGaussian, "perturb", lambda self, y, rng=None: taken.append(y) or y)
    return taken


def change2(means, one, other, radius):
    """Exact squared distance between the means of two data sets, as `fit` computes them, before the noise."""
    for X in (one, other):
        PrivateFrechetMean(1.0, 1e-5, radius).fit(X)
    return distance2(*exact([means.pop(), means.pop()]))


def test_the_mean_in_floating_point_changes_by_at_most_the_sensitivity_when_a_record_is_replaced(means):
    rng, largest = np.random.default_rng(0), 0
    for trial in range(300):
        n, k, radius = int(rng.integers(1, 9)), int(rng.integers(1, 4)), float(rng.choice([1e-9, 0.1, 1.0, 2.7, 10.0]))
        y = rng.standard_normal((n + 1, k * (k + 1) // 2)) * rng.choice([0.1, 1, 2])
        y[n] = -y[0] * rng.choice([1, 1, 1, 0.5])
        y *= rng.choice([0.99, 1, 1.01]) * radius / np.linalg.norm(y, axis=1, keepdims=True)
        X = expm(invvecd(y))
        replaced = np.concatenate([X[1:n], X[n:]])
        share = change2(means, X[:n], replaced, radius) / Fraction(frechet_sensitivity(n, radius)) ** 2
        assert share <= 1
        largest = max(largest, share)
    assert largest > 1 - Fraction(1, 10**6)  # the search comes close: r/n would have been exceeded


def test_any_outlier_moves_the_mean_by_at_most_2r_over_n(means):
    X, bound = random_spd(5, 3, 0.5, 0), Fraction(frechet_sensitivity(5, 2.0))
    for outlier in (1e-300 * np.eye(3), 1e300 * np.eye(3), np.diag([1e-7, 1, 1e7])):
        assert change2(means, X, np.concatenate([outlier[None], X[1:]]), 2.0) <= bound**2


def test_within_the_ball_the_mean_is_the_frechet_mean(means):
    X = random_spd(20, 3, 1.0, 0)
    np.testing.assert_allclose(PrivateFrechetMean(1.0, 1e-5, 2.0).fit(X).mean_, mean_logeuclid(X), rtol=1e-12)


def test_records_are_clipped_to_the_ball_about_the_centre(means):
    C, X = random_spd(2, 3, 1.0, 1)[0], random_spd(6, 3, 1.5, 0)
    shifted = PrivateFrechetMean(1.0, 1e-5, 0.7).fit(ominus(X, C)).mean_
    assert distance_logeuclid(shifted, mean_logeuclid(ominus(X, C))) > 0.1  # some records were outside
    np.testing.assert_allclose(PrivateFrechetMean(1.0, 1e-5, 0.7, center=C).fit(X).mean_, oplus(shifted, C), rtol=1e-10)
    far = PrivateFrechetMean(1.0, 1e-5, 0.7, center=C).fit(odot(10, X)).mean_
    assert distance_logeuclid(far, C) <= 0.7 * (1 + 1e-12)


# the release

@every_calibration
def test_the_release_is_the_mean_with_the_noise_of_the_seed(calibration):
    X, sensitivity = random_spd(20, 3, 0.5, 0), frechet_sensitivity(20, 1.0)
    mechanism = {"analytic": "gaussian", "classical": "classical gaussian"}[calibration]
    fitted = PrivateFrechetMean(0.5, 1e-5, 1.0, mechanism=mechanism, rng=7).fit(X)
    sigma = {"analytic": sigma_analytic, "classical": sigma_classical}[calibration](sensitivity, 0.5, 1e-5)
    noise = sigma * np.random.default_rng(7).standard_normal(6)
    np.testing.assert_allclose(vecd(logm(fitted.mean_)), vecd(logm(mean_logeuclid(X))) + noise, rtol=1e-10, atol=1e-12)
    assert fitted.mechanism_.sigma == sigma
    assert Fraction(sensitivity) / Fraction(sigma) <= Fraction(fitted.mechanism_.mu)
    assert fitted.mechanism_.mu == pytest.approx(sensitivity / sigma, rel=1e-12)
    assert np.array_equal(fitted.mean_, fitted.mean_.T) and np.linalg.eigvalsh(fitted.mean_)[0] > 0


@pytest.mark.parametrize("mechanism, delta, made", [
    ("l2", 1e-5, lambda sensitivity: L2Mechanism(sensitivity, 0.5, 1e-5, 6)),
    ("laplace", 0, lambda sensitivity: RiemannianLaplace(sensitivity, 0.5)),
])
def test_the_release_has_the_noise_of_the_mechanism_that_was_asked_for(mechanism, delta, made):
    X = random_spd(20, 3, 0.5, 0)
    fitted = PrivateFrechetMean(0.5, delta, 1.0, mechanism=mechanism, rng=7).fit(X)
    expected = made(frechet_sensitivity(20, 1.0))
    assert vars(fitted.mechanism_) == vars(expected)
    np.testing.assert_allclose(fitted.mean_, expected.release(mean_logeuclid(X), rng=7), rtol=1e-10)


def test_nothing_but_the_release_depends_on_the_data():
    first, second = (vars(PrivateFrechetMean(1.0, 1e-5, 1.5, center=2 * np.eye(2), rng=0).fit(random_spd(9, 2, r, 1)))
                     for r in (0.2, 2))
    parameters = {"epsilon", "delta", "radius", "center", "mechanism", "rng"}
    assert set(first) == parameters | {"mean_", "mechanism_", "privacy_"}
    assert not np.array_equal(first.pop("mean_"), second.pop("mean_"))
    assert first.pop("rng").bit_generator.state == second.pop("rng").bit_generator.state
    assert vars(first.pop("mechanism_")) == vars(second.pop("mechanism_"))
    np.testing.assert_equal(first, second)


def test_the_promise_is_said_in_words():
    words = PrivateFrechetMean(0.5, 1e-5, 1.5).fit(random_spd(9, 2, 1, 1)).privacy_
    for part in ("(0.5, 1e-05)", "replaced", "n = 9", "radius 1.5"):
        assert part in words


def release(rng):
    return PrivateFrechetMean(1.0, 1e-5, 1.0, rng=rng)


def test_a_seed_repeats_the_fits_of_an_estimator_but_no_fit_repeats_another():
    X = random_spd(9, 2, 0.5, 0)
    one, other = release(3), release(3)
    first = one.fit(X).mean_
    assert np.array_equal(first, other.fit(X).mean_)
    assert not np.array_equal(first, one.fit(X).mean_)


def test_without_a_seed_every_release_has_fresh_noise():
    X = random_spd(9, 2, 0.5, 0)
    one = release(None)
    assert len({estimator.fit(X).mean_.tobytes() for estimator in (one, one, release(None))}) == 3


@pytest.mark.parametrize("arguments, message", [
    (dict(mechanism="exact"), r"mechanism is 'exact'; accepted are \['classical gaussian', 'gaussian', 'l2', 'laplace'\]"),
    (dict(mechanism="laplace"), r"delta is 1e-05; accepted with \"laplace\" is 0"), (dict(mechanism="l2", delta=0), "delta"),
    (dict(mechanism="classical gaussian", epsilon=1.0), "epsilon"), (dict(epsilon=0), "epsilon"),
    (dict(epsilon=math.nan), "epsilon"), (dict(delta=0), "delta"), (dict(delta=0.6), "delta"),
])
def test_a_promise_that_cannot_be_kept_is_refused_before_there_are_data(arguments, message):
    with pytest.raises(ValueError, match=message):
        PrivateFrechetMean(**dict(epsilon=0.5, delta=1e-5, radius=1.0) | arguments)


@pytest.mark.parametrize("X, message", [
    (np.eye(2), r"X has shape \(2, 2\); accepted is \(n, k, k\) with n ≥ 1"), (np.ones((0, 2, 2)), "X has shape"),
    (np.ones((1, 1, 2, 2)) + np.eye(2), "X has shape"),
    (np.stack([np.eye(2), -np.eye(2)]), r"X\[1\] is not positive definite"),
    (np.full((1, 2, 2), np.nan), r"X\[0, 0, 0\] is nan"),
])
def test_records_that_are_none_are_refused(X, message):
    with pytest.raises(ValueError, match=message):
        release(0).fit(X)


@pytest.mark.parametrize("center, message", [
    (np.eye(3), r"center has shape \(3, 3\); accepted is \(2, 2\)"), (np.eye(2)[None], r"center has shape \(1, 2, 2\)"),
    (-np.eye(2), "^center is not positive definite"),
])
def test_a_centre_that_is_none_is_refused(center, message):
    with pytest.raises(ValueError, match=message):
        PrivateFrechetMean(1.0, 1e-5, 1.0, center=center).fit(random_spd(3, 2, 1, 0))


# the mechanism

@every_calibration
def test_the_noise_is_normal_of_the_calibrated_scale(calibration):
    mechanism = TangentGaussian(0.2, 0.5, 1e-5, calibration)
    y = np.arange(12.0).reshape(4, 3)
    noise = mechanism.sigma * np.random.default_rng(5).standard_normal((4, 3))
    assert np.array_equal(mechanism.perturb(y, 5), y + noise)
    np.testing.assert_allclose(mechanism.release(expm(invvecd(y / 10)), 5), expm(invvecd(y / 10 + noise)), rtol=1e-9)


def test_every_matrix_of_a_batch_has_noise_of_its_own():
    M = TangentGaussian(0.2, 0.5, 1e-5).release(np.tile(np.eye(2), (2, 3, 1, 1)), 0)
    assert M.shape == (2, 3, 2, 2) and len({matrix.tobytes() for matrix in M.reshape(6, 2, 2)}) == 6
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
    with pytest.raises(ValueError, match=r"X\[0\] is not positive definite"):
        PrivateFrechetMean(1.0, 1e-5, 2.0).fit([np.diag([1e-200, 1, 1e200]), np.eye(3)])


def test_a_mechanism_without_a_seed_has_fresh_noise():
    mechanism = TangentGaussian(0.2, 0.5, 1e-5)
    assert not np.array_equal(mechanism.perturb(np.zeros(3)), mechanism.perturb(np.zeros(3)))


def test_the_analytic_noise_is_smaller_and_only_it_goes_beyond_epsilon_1():
    assert TangentGaussian(1.0, 0.99, 1e-5).sigma < TangentGaussian(1.0, 0.99, 1e-5, "classical").sigma
    assert TangentGaussian(1.0, 3.0, 1e-5).sigma > 0
    with pytest.raises(ValueError, match="epsilon"):
        TangentGaussian(1.0, 1.0, 1e-5, "classical")


@pytest.mark.parametrize("arguments, message", [
    ((0.2, 0.5, 1e-5, "exact"), "calibration is 'exact'"), ((0, 0.5, 1e-5), "sensitivity"),
    ((math.inf, 0.5, 1e-5), "sensitivity"), ((0.2, 0.5, 0.7), "delta"),
])
def test_a_mechanism_that_keeps_no_promise_is_refused(arguments, message):
    with pytest.raises(ValueError, match=message):
        TangentGaussian(*arguments)
