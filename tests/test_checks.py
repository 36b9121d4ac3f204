"""One door for values: each is converted to float64 without loss, or refused by name."""

import math
import re
import warnings
from array import array
from collections import deque
from fractions import Fraction

import mpmath
import numpy as np
import pytest

from spdlib import _kernel, calibration
from spdlib.audit import audit
from spdlib.calibration import sigma_analytic
from spdlib.descriptors import covariance_descriptors, descriptor_ball, feature_bounds
from spdlib.estimators import PrivateFrechetMean
from spdlib.mechanisms import ClassicalGaussian, L2Mechanism, RiemannianLaplace, TangentGaussian
from spdlib.queries import FrechetMean, frechet_sensitivity
from spdlib.samplers import ball_steps, laplace_steps, metropolis, sample_laplace
from spdlib.spaces import Ball, Euclidean, LogEuclidean
from spdlib.spaces.ball import clip_to_ball, project_to_ball, shrink_to_center
from spdlib.spd import expm, invvecd, is_spd, logm, mean_logeuclid, odot, powm, random_spd, vecd

X = random_spd(6, 2, 0.5, 0)
GREY = np.zeros((1, 3, 3))
BALL = Ball(1.0, np.eye(2))


def fit(**parameters):
    good = {"epsilon": 0.5, "delta": 2.0**-12, "ball": BALL}
    return PrivateFrechetMean(**good | parameters).fit(X, rng=0).log_mean_


def told(mechanism):
    """What a mechanism was told and has found, numbers by name."""
    return {name: value for name, value in vars(mechanism).items() if value is not None}


def audited(**numbers):
    a, b = np.random.default_rng(0).standard_normal((2, 100, 2)) + [[[0]], [[3]]]
    return audit(a, b, **{"delta": 0.125} | numbers)


# every public argument that is a real number: what is called, the name, a value that every type has
NUMBERS = {
    "sigma_classical sensitivity": (lambda v: calibration.sigma_classical(v, 0.5, 0.1), 2.0),
    "sigma_classical epsilon": (lambda v: calibration.sigma_classical(1.0, v, 0.1), 0.5),
    "sigma_classical delta": (lambda v: calibration.sigma_classical(1.0, 0.5, v), 0.125),
    "sigma_analytic sensitivity": (lambda v: sigma_analytic(v, 0.5, 0.1), 2.0),
    "sigma_analytic epsilon": (lambda v: sigma_analytic(1.0, v, 0.1), 0.5),
    "sigma_analytic delta": (lambda v: sigma_analytic(1.0, 0.5, v), 0.125),
    "laplace_scale sensitivity": (lambda v: calibration.laplace_scale(v, 0.5), 2.0),
    "laplace_scale epsilon": (lambda v: calibration.laplace_scale(1.0, v), 0.5),
    "gdp_mu epsilon": (lambda v: calibration.gdp_mu(v, 0.1), 0.5),
    "gdp_mu delta": (lambda v: calibration.gdp_mu(0.5, v), 0.125),
    "gaussian_delta sigma": (lambda v: calibration.gaussian_delta(v, 0.5), 2.0),
    "gaussian_delta epsilon": (lambda v: calibration.gaussian_delta(1.0, v), 0.5),
    "gaussian_delta sensitivity": (lambda v: calibration.gaussian_delta(1.0, 0.5, v), 2.0),
    "gaussian_epsilon sigma": (lambda v: calibration.gaussian_epsilon(v, 0.1), 2.0),
    "gaussian_epsilon delta": (lambda v: calibration.gaussian_epsilon(1.0, v), 0.125),
    "gaussian_epsilon sensitivity": (lambda v: calibration.gaussian_epsilon(1.0, 0.1, v), 2.0),
    "l2_delta scale": (lambda v: calibration.l2_delta(v, 0.25, 3), 2.0),
    "l2_delta epsilon": (lambda v: calibration.l2_delta(1.0, v, 3), 0.5),
    "l2_delta sensitivity": (lambda v: calibration.l2_delta(1.0, 0.5, 3, v), 2.0),
    "l2_scale sensitivity": (lambda v: calibration.l2_scale(v, 0.5, 0.1, 3), 2.0),
    "l2_scale epsilon": (lambda v: calibration.l2_scale(1.0, v, 0.1, 3), 0.5),
    "l2_scale delta": (lambda v: calibration.l2_scale(1.0, 0.5, v, 3), 0.125),
    "TangentGaussian sensitivity": (lambda v: told(TangentGaussian(v, 0.5, 0.1)), 2.0),
    "TangentGaussian epsilon": (lambda v: told(TangentGaussian(1.0, v, 0.1)), 0.5),
    "TangentGaussian delta": (lambda v: told(TangentGaussian(1.0, 0.5, v)), 0.125),
    "RiemannianLaplace sensitivity": (lambda v: told(RiemannianLaplace(v, 0.5)), 2.0),
    "RiemannianLaplace epsilon": (lambda v: told(RiemannianLaplace(1.0, v)), 0.5),
    "L2Mechanism sensitivity": (lambda v: told(L2Mechanism(v, 0.5, 0.1, 3)), 2.0),
    "L2Mechanism epsilon": (lambda v: told(L2Mechanism(1.0, v, 0.1, 3)), 0.5),
    "L2Mechanism delta": (lambda v: told(L2Mechanism(1.0, 0.5, v, 3)), 0.125),
    "frechet_sensitivity radius": (lambda v: frechet_sensitivity(3, v), 2.0),
    "clip_to_ball radius": (lambda v: clip_to_ball(np.ones((2, 3)), v), 0.5),
    "project_to_ball radius": (lambda v: project_to_ball(np.ones(3), v), 0.5),
    "shrink_to_center sigma": (lambda v: shrink_to_center(np.ones(3), v), 0.5),
    "Ball radius": (lambda v: Ball(v, np.eye(2)).radius, 0.5),
    "Ball of_radius radius": (lambda v: BALL.of_radius(v).radius, 0.5),
    "FrechetMean ball radius": (lambda v: FrechetMean(X, Ball(v, np.eye(2))).step, 0.5),
    "PrivateFrechetMean epsilon": (lambda v: fit(epsilon=v), 0.5),
    "PrivateFrechetMean delta": (lambda v: fit(delta=v), 0.125),
    "PrivateFrechetMean ball radius": (lambda v: fit(ball=Ball(v, np.eye(2))), 0.5),
    "laplace_steps scale": (lambda v: laplace_steps(LogEuclidean(2), v, 3, 0), 0.5),
    "ball_steps radius": (lambda v: ball_steps(LogEuclidean(2), v, 3, 0), 0.5),
    "powm a": (lambda v: powm(X, v), 0.5),
    "random_spd r": (lambda v: random_spd(2, 2, v, 0), 0.5),
    "Ball.from_bounds low": (lambda v: Ball.from_bounds(v, 8.0, 2).radius, 0.5),
    "Ball.from_bounds high": (lambda v: Ball.from_bounds(0.25, v, 2).radius, 0.5),
    "covariance_descriptors eta": (lambda v: covariance_descriptors(GREY, v), 0.5),
    "descriptor_ball eta": (lambda v: descriptor_ball(1, v).radius, 0.5),
    "audit delta": (lambda v: audited(delta=v), 0.125),
    "audit confidence": (lambda v: audited(confidence=v), 0.5),
}
TYPES = [np.float16, np.float32, np.float64, np.longdouble, Fraction]


def assert_same(one, other, argument):
    if isinstance(one, dict):
        assert one == other and all(type(value) in (float, int) for value in one.values()), argument
    else:
        assert np.array_equal(one, other) and np.asarray(one).dtype == float, argument


def not_refused(call, values, message):
    """Those of the values at which no ValueError is raised whose message begins with this one."""
    taken = []
    for value in values:
        try:
            call(value)
        except ValueError as error:
            if re.match(message, str(error), re.DOTALL):
                continue
        taken.append(value)
    return taken


@pytest.mark.slow
def test_a_number_of_any_type_counts_as_the_float_that_it_is():
    for argument, (call, value) in NUMBERS.items():
        expected = call(value)
        for kind in TYPES:
            assert_same(call(kind(value)), expected, argument)


def test_what_is_no_finite_number_is_refused_by_name():
    for argument, (call, _) in NUMBERS.items():
        message = f"{argument.split()[-1]} is .*; accepted are "
        assert not_refused(call, NO_NUMBERS, message) == [], argument


NO_NUMBERS = [
    True, False, np.True_, "0.5", b"1", None, 0.5j, np.complex128(0.5), [0.5], (0.5,),
    np.array(0.5), np.array([0.5]), np.ma.masked, np.ma.masked_equal([0.5], 0.5),
    np.array(0.5, object), math.nan, np.float32(math.nan), math.inf, -math.inf,
    np.float32(math.inf), 10**400, np.longdouble("1e4000"), object(),
]


def test_a_number_that_float64_does_not_hold_is_refused():
    between = [Fraction(1, 3), np.longdouble(0.375) + np.longdouble(2.0) ** -60]
    between = [value for value in between if float(value) != value]  # longdouble may be float64
    for argument, (call, _) in NUMBERS.items():
        name = argument.split()[-1]
        message = rf"{name} is .*; accepted are numbers that float64 holds exactly, such as float\("
        assert not_refused(call, between, message) == [], argument


WHOLE = {
    "frechet_sensitivity n": (lambda v: frechet_sensitivity(v, 1.0), 3),
    "random_spd n": (lambda v: random_spd(v, 2, 1.0, 0), 3),
    "random_spd k": (lambda v: random_spd(2, v, 1.0, 0), 3),
    "Ball.from_bounds k": (lambda v: Ball.from_bounds(0.5, 2.0, v).radius, 3),
    "L2Mechanism d": (lambda v: told(L2Mechanism(1.0, 0.5, 0.1, v)), 3),
    "l2_scale d": (lambda v: calibration.l2_scale(1.0, 0.5, 0.1, v), 3),
    "l2_delta d": (lambda v: calibration.l2_delta(1.0, 0.5, v), 3),
    "LogEuclidean k": (lambda v: float(LogEuclidean(v).dim), 3),
    "Euclidean k": (lambda v: float(Euclidean(v).dim), 3),
    "sample_laplace d": (lambda v: sample_laplace((2, v), 0), 3),
    "laplace_steps shape": (lambda v: laplace_steps(LogEuclidean(2), 0.5, (2, v), 0), 3),
    "ball_steps shape": (lambda v: ball_steps(LogEuclidean(2), 0.5, (2, v), 0), 3),
    "metropolis steps": (
        lambda v: metropolis(lambda x: -x, lambda x, rng: x + rng.random(2), np.zeros(2), v, 0)[0],
        3),
    "feature_bounds channels": (feature_bounds, 3),
    "descriptor_ball channels": (lambda v: descriptor_ball(v, 0.5).radius, 3),
}


@pytest.mark.parametrize("argument", WHOLE)
def test_an_integer_of_any_type_counts_as_the_int_that_it_is(argument):
    call, value = WHOLE[argument]
    for kind in (np.int8, np.uint8, np.int64):
        assert_same(call(kind(value)), call(value), argument)


@pytest.mark.parametrize("argument", WHOLE)
def test_what_is_no_integer_is_refused_by_name(argument):
    call, name = WHOLE[argument][0], argument.split()[-1]
    values = [True, np.True_, 3.0, np.float64(3), "3", None, Fraction(3), [3], np.array(3),
              math.nan, -1, np.int64(-1), np.ma.masked]
    assert not_refused(call, values, f"{name}.* is .*; accepted are integers (≥|from) ") == []


# narrow types lose nothing (they once made promises that were not kept)

@pytest.mark.slow
def test_a_radius_in_single_precision_has_a_sensitivity_that_covers_it():
    rng = np.random.default_rng(0)
    for _ in range(1000):
        n, radius = int(rng.integers(1, 1000)), np.float32(10.0 ** rng.uniform(-3, 3))
        exact = 2 * Fraction(float(radius)) / n
        assert Fraction(float(frechet_sensitivity(n, radius))) >= exact
        query = FrechetMean(np.ones((n, 1, 1)), Ball(radius, np.eye(1)))
        assert Fraction(float(query.sensitivity)) >= exact


def test_a_sensitivity_in_single_precision_has_a_mu_that_covers_it():
    rng = np.random.default_rng(0)
    for _ in range(500):
        sensitivity = np.float32(10.0 ** rng.uniform(-3, 3))
        for kind in (TangentGaussian, ClassicalGaussian):
            mechanism = kind(sensitivity, 0.5, 1e-6)
            exact = Fraction(float(sensitivity)) / Fraction(mechanism.sigma)
            assert Fraction(mechanism.mu) >= exact


# arrays

MATRICES = {
    "logm": (logm, "X"), "expm": (expm, "S"), "vecd": (vecd, "S"), "is_spd": (is_spd, "X"),
    "mean_logeuclid": (mean_logeuclid, "X"), "powm": (lambda A: powm(A, 0.5), "X"),
    "odot": (lambda A: odot(2, A), "X"),
    "fit": (lambda A: PrivateFrechetMean(1.0, 1e-5, BALL).fit(A, rng=0).mean_, "X"),
    "query": (lambda A: FrechetMean(A, BALL).step, "X"),
    "center": (lambda A: fit(ball=Ball(1.0, A[0])), "center"),
    "center of a space": (lambda A: Ball(1.0, A[0], Euclidean(2)).center, "center"),
    "release": (lambda A: TangentGaussian(1.0, 0.5, 1e-5).release(A, 0), "M"),
    "perturb": (lambda A: TangentGaussian(1.0, 0.5, 1e-5).perturb(A, 0), "y"),
    "invvecd": (lambda A: invvecd(A[..., 0, 1:]), "y"),
    "clip_to_ball": (lambda A: clip_to_ball(A[0], 1.0), "y"),
    "project_to_ball": (lambda A: project_to_ball(A, 1.0), "y"),
    "shrink_to_center": (lambda A: shrink_to_center(A.reshape(len(A), -1), 1.0), "y"),
    "audit": (lambda A: audit(A[:, 0], A[:, 1], 0.1), "releases"),
}
every_matrix = pytest.mark.parametrize("argument", MATRICES)
SOUND = np.tile([[2.0, 0.5], [0.5, 1.0]], (4, 1, 1))


class Wrapped:
    """What has an array, but is none: neither a length nor an index."""

    def __init__(self, A):
        self.A = A

    def __array__(self, dtype=None, copy=None):
        return self.A


FORMS = [
    lambda A: A.astype(np.float16), lambda A: A.astype(np.float32), lambda A: A.astype(">f8"),
    lambda A: A.astype(np.longdouble), np.asfortranarray, lambda A: A[::-1],
    lambda A: np.ma.masked_array(A, mask=False), lambda A: np.pad(A, 1)[1:-1, 1:-1, 1:-1],
]


@every_matrix
def test_an_array_of_any_real_type_and_layout_counts_as_float64(argument):
    call, _ = MATRICES[argument]
    for form in FORMS:
        given = form(SOUND)
        before = np.array(given)
        given.flags.writeable = False
        result = call(given)
        assert np.array_equal(result, call(SOUND)), before.dtype
        assert np.asarray(result).dtype == bool or np.asarray(result).dtype == float
        assert type(result) is not np.ma.MaskedArray and np.array_equal(given, before)


@pytest.mark.parametrize("argument", ["logm", "mean_logeuclid", "fit", "query", "expm", "vecd"])
@pytest.mark.parametrize("form", [np.ndarray.tolist, list, memoryview, Wrapped])
def test_what_can_be_made_an_array_counts_as_one(argument, form):
    call, _ = MATRICES[argument]
    assert np.array_equal(call(form(SOUND)), call(SOUND))


OTHERS = [
    (SOUND * 1j, "is an array of dtype complex128; accepted are real numbers"),
    (SOUND + 0j, "is an array of dtype complex128; accepted are real numbers"),
    (SOUND.astype(bool), "is an array of dtype bool; accepted are real numbers"),
    (SOUND.astype(object), "is an array of dtype object; accepted are real numbers"),
    (SOUND.astype(str), "is an array of dtype <U32; accepted are real numbers"),
    (SOUND.astype("M8[s]"), "is an array of dtype datetime64.*; accepted are real numbers"),
    (np.ma.masked_equal(SOUND, 0.5), "is an array with masked entries; accepted are arrays"),
    (np.ma.masked_all((4, 2, 2)), "is an array with masked entries; accepted are arrays"),
]


RECORDS = "fit", "query"  # in which what is masked or no number is a bad record


@every_matrix
def test_an_array_of_anything_else_is_refused_by_name(argument):
    call, name = MATRICES[argument]
    for bad, message in OTHERS:
        if argument in RECORDS and (bad.dtype == object or np.ma.is_masked(bad)):
            continue
        with pytest.raises(ValueError, match=f"^{name} {message}"):
            call(bad)


class Foreign:
    """What another library has for an array."""

    def __array__(self, dtype=None, copy=None):
        return SOUND[1].astype(np.float32)


@pytest.mark.parametrize("argument", ["logm", "mean_logeuclid", "fit", "query", "expm", "is_spd"])
def test_a_list_of_arrays_is_refused_where_one_is_masked_or_of_another_precision(argument):
    call, name = MATRICES[argument]
    masked = [SOUND[0], np.ma.masked_equal(SOUND[1], 0.5)]
    mixed = [SOUND[0], SOUND[1].astype(np.float32)]
    halves = [SOUND[0].tolist(), SOUND[1].astype(np.float32)]
    scalars = [SOUND[0].tolist(), [[*map(np.float32, row)] for row in SOUND[1]]]
    rows = [SOUND[0].tolist(), [array("f", row) for row in SOUND[1]]]
    buffer = [SOUND[0].tolist(), memoryview(SOUND[1].astype(np.float32))]
    foreign = [SOUND[0].tolist(), Foreign()]
    for several in (masked, deque(masked)) if argument not in RECORDS else ():
        with pytest.raises(ValueError, match=f"^{name} is an array with masked entries"):
            call(several)
    every = mixed, mixed[::-1], deque(mixed), halves, scalars, rows, buffer, foreign
    for several in every if argument not in RECORDS else ():
        message = f"^{name} is made of arrays of dtypes float32 and float64; accepted are those of"
        with pytest.raises(ValueError, match=message):
            call(several)
    call([SOUND[0], np.array([[2, 1], [1, 2]])])  # integers are as precise


def test_the_type_of_one_record_does_not_decide_whether_another_is_sound():
    """Else a single record of another type could move all of them in or out of the mean."""
    V = np.linalg.qr(np.random.default_rng(0).standard_normal((50, 3, 3)))[0].astype(np.float32)
    narrow = (V * np.array([9, 4, 2], np.float32)) @ V.swapaxes(1, 2)  # symmetric to its rounding
    narrow[7], ball = np.diag([1e-9, 1, 1]).astype(np.float32), Ball(9.0, np.eye(3))
    assert not np.array_equal(narrow, narrow.swapaxes(1, 2))
    expected = FrechetMean(narrow, ball, "center").bare_steps()
    assert np.linalg.norm(expected, axis=1).min() > 1
    for other in (np.full((3, 3), np.nan), np.eye(3, dtype=int), np.eye(3, dtype=np.longdouble),
                  np.eye(3).tolist(), np.full((3, 3), None), np.full((3, 3), "x"),
                  np.full((3, 3), 1j), np.eye(3, dtype=bool), np.eye(3, dtype=np.float16)):
        listed = [other, *narrow[1:]]
        ways = [listed, deque(listed), [np.asarray(each).tolist() for each in listed]]
        if np.asarray(other).dtype.kind in "iufO":  # np.array makes one type of all
            ways.append(np.array(listed))
        for X in ways:
            steps = FrechetMean(X, ball, "center").bare_steps()
            assert steps[1:].tobytes() == expected[1:].tobytes()


@pytest.mark.parametrize("draw", [
    lambda rng: random_spd(2, 2, 1.0, rng), lambda rng: sample_laplace((2,), rng),
    lambda rng: metropolis(lambda x: -x, lambda x, rng: x, np.zeros(2), 1, rng),
    lambda rng: laplace_steps(LogEuclidean(2), 0.5, 3, rng),
    lambda rng: ball_steps(LogEuclidean(2), 0.5, 3, rng),
    lambda rng: TangentGaussian(1.0, 0.5, 1e-5).perturb(np.zeros(2), rng),
    lambda rng: PrivateFrechetMean(1.0, 1e-5, BALL).fit(X, rng=rng),
], ids=["random_spd", "sample_laplace", "metropolis", "laplace_steps", "ball_steps", "perturb",
        "fit"])
def test_a_generator_that_is_none_is_refused_by_name(draw):
    values = [True, False, np.True_, "x", "0", -1, 1.5, math.nan, [1, -1], [], (), b"1", {},
              object(), np.random]
    assert not_refused(draw, values, "rng is .*; accepted are a numpy.random.Generator") == []


def test_equal_generators_draw_the_same():
    expected = random_spd(2, 2, 1.0, 5)
    for rng in (np.int64(5), np.random.default_rng(5), np.random.PCG64(5),
                np.random.SeedSequence(5)):
        assert np.array_equal(random_spd(2, 2, 1.0, rng), expected)
    assert not np.array_equal(random_spd(2, 2, 1.0, None), random_spd(2, 2, 1.0, None))


# what counts as symmetric and as positive definite depends on the type

def average_referenced(dtype, n=300, channels=16):
    """Covariances of signals from which the mean of the channels was taken: rank-deficient."""
    signals = np.random.default_rng(0).standard_normal((n, channels, 200)).astype(dtype)
    signals -= signals.mean(axis=1, keepdims=True)
    return signals @ signals.swapaxes(1, 2) / dtype(200)


@pytest.mark.slow
@pytest.mark.parametrize("dtype", [np.float32, np.float64])
def test_rank_deficient_records_are_refused_all_of_them(dtype):
    C = average_referenced(dtype)
    assert C.dtype == dtype and not is_spd(C).any()
    for i in range(len(C)):
        with pytest.raises(ValueError, match="is not positive definite: .* shrinkage estimate"):
            logm(C[i])
    with pytest.raises(ValueError, match=r"X\[0\] is not positive definite: .* shrinkage"):
        PrivateFrechetMean(1.0, 1e-5, Ball(1.0, np.eye(16))).fit(C)


@pytest.mark.parametrize("dtype", [np.float32, np.float64])
def test_the_remedies_that_errors_name_work(dtype):
    C = average_referenced(dtype, 20)
    a, k = dtype(0.05), C.shape[-1]
    scale = np.trace(C, axis1=1, axis2=2)[:, None, None] / k
    shrunk = (1 - a) * C + a * scale * np.eye(k, dtype=dtype)
    assert shrunk.dtype == dtype and is_spd(shrunk).all()
    skew = shrunk + 1e-3 * np.triu(shrunk).astype(dtype)
    with pytest.raises(ValueError, match=r"X\[0\] is not symmetric: .* \(X \+ Xᵀ\)/2 is symmetric"):
        logm(skew)
    logm((skew + skew.swapaxes(1, 2)) / 2)


def test_covariances_of_full_rank_in_single_precision_pass():
    signals = np.random.default_rng(0).standard_normal((300, 16, 200)).astype(np.float32)
    C = signals @ signals.swapaxes(1, 2) / np.float32(200)
    assert C.dtype == np.float32 and is_spd(C).all()
    np.testing.assert_array_equal(logm(C), logm(C.astype(float)))


def test_asymmetry_is_judged_by_the_type():
    A = np.array([[1.0, 0.3], [0.3, 1.0]])
    off = A + np.array([[0, 1.5e-8], [0, 0]])
    single = np.array([[1.0, 0.3], [np.nextafter(np.float32(0.3), np.float32(0)), 1.0]], np.float32)
    assert 1e-8 < abs(single[0, 1] - single[1, 0]) < 1e-7
    logm(single), expm(single), vecd(single)
    for function in (logm, vecd):
        with pytest.raises(ValueError, match="is not symmetric"):
            function(off)
        with pytest.raises(ValueError, match="is not symmetric"):
            function(off.astype(np.float32).astype(float) + [[0, 1e-8], [0, 0]])


def test_a_tiny_matrix_that_is_symmetric_to_the_rounding_of_1_has_an_exponential():
    S = np.array([[0, 1e-9], [1e-9 + 9.7e-18, 0]])
    np.testing.assert_allclose(expm(S), np.eye(2) + S, rtol=0, atol=1e-15)
    tiny = np.array([[1e-20, 3e-17], [0, 1e-18]])
    np.testing.assert_allclose(expm(tiny), np.eye(2), atol=1e-16)
    with pytest.raises(ValueError, match="S is not symmetric"):
        expm(np.array([[0, 1e-9], [0, 0]]))
    with pytest.raises(ValueError, match="S is not symmetric"):
        vecd(tiny)  # its unit is the largest entry


def test_huge_records_warn_of_nothing():
    huge = np.array([[1.0, 1e308], [-1e308, 1.0]])
    beyond = np.full((2, 2, 2), np.longdouble("1e4000"))
    with warnings.catch_warnings():
        warnings.simplefilter("error")
        assert not is_spd(huge)
        FrechetMean(huge[None], BALL, "center").step  # noqa: B018
        if np.isfinite(beyond).all():
            FrechetMean(beyond, BALL, "center").step  # noqa: B018


# powers

@pytest.mark.parametrize("k", [1, 2, 3, 5])
@pytest.mark.parametrize("a", [-2, -0.5, 1 / 3, 0.5, 1, 3])
def test_powers_agree_with_multiple_precision(k, a):
    for A in random_spd(3, k, 1.5, k):
        with mpmath.workdps(40):
            eigenvalues, Q = mpmath.eigsy(mpmath.matrix(A.tolist()))
            power = Q * mpmath.diag([value**mpmath.mpf(a) for value in eigenvalues]) * Q.T
            exact = np.array(power.tolist(), float).reshape(k, k)
        assert np.abs(powm(A, a) - exact).max() <= 1e-12 * np.abs(exact).max()


def test_a_power_takes_one_decomposition(monkeypatch):
    taken, decompose = [], np.linalg.eigh
    monkeypatch.setattr(_kernel, "_LIBRARY", None)
    monkeypatch.setattr(np.linalg, "eigh", lambda A: taken.append(len(A)) or decompose(A))
    powm(X, 0.5)
    assert taken == [len(X)]


@pytest.mark.parametrize("a", [math.inf, -math.inf, math.nan, "2", None, True, 1j])
def test_a_power_that_is_no_finite_number_is_refused(a):
    with pytest.raises(ValueError, match="^a is .*; accepted are finite numbers"):
        powm(np.eye(2), a)


def test_masked_images_are_refused():
    with pytest.raises(ValueError, match="^images is an array with masked entries"):
        covariance_descriptors(np.ma.masked_equal(np.zeros((2, 3, 3)), 0))
