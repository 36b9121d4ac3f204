"""SPD matrices: the eigen kernel, the coordinates, the vector space, the metric."""

import math
import multiprocessing
import os
import pathlib
import re
import threading
import time

import mpmath
import numpy as np
import pytest
import scipy.linalg
from conftest import mostly_slow
from hypothesis import given, settings, strategies as st
from scipy.stats import beta

from spdlib import AffineInvariant, Ball, _kernel, spd
from spdlib._kernel import block_size, spectral
from spdlib._parallel import one_blas_thread
from spdlib.spd import (LOG_MAX, LOG_MIN, SYMMETRY, distance_logeuclid, expm, invvecd, is_spd, logm,
                        mean_logeuclid, odot, ominus, oplus, powm, random_spd, vecd)

close = {"rtol": 1e-10, "atol": 1e-10}
properties = settings(max_examples=25, deadline=None, database=None, derandomize=True)


@st.composite
def spd_matrices(draw, n):
    """Shape (n, k, k), k up to 5."""
    k, r, seed = draw(st.integers(1, 5)), draw(st.floats(0.01, 2)), draw(st.integers(0, 2**32))
    return random_spd(n, k, r, seed)


scalars = st.floats(-1.5, 1.5)


# logarithm, exponential, powers

@pytest.mark.slow
@pytest.mark.parametrize("k", range(1, 7))
def test_functions_agree_with_scipy(k):
    for X in random_spd(5, k, 1.5, k):
        np.testing.assert_allclose(logm(X), scipy.linalg.logm(X), **close)
        np.testing.assert_allclose(expm(X), scipy.linalg.expm(X), **close)
        power = scipy.linalg.fractional_matrix_power(X, -0.3)
        np.testing.assert_allclose(powm(X, -0.3), power, **close)


@properties
@given(spd_matrices(2))
def test_logarithm_and_exponential_are_inverse(X):
    np.testing.assert_allclose(expm(logm(X)), X, **close)
    np.testing.assert_allclose(logm(expm(X)), X, **close)


@properties
@given(spd_matrices(2), scalars, scalars)
def test_powers_add_and_multiply(X, a, b):
    np.testing.assert_allclose(powm(X, a) @ powm(X, b), powm(X, a + b), **close)
    np.testing.assert_allclose(powm(powm(X, a), b), powm(X, a * b), **close)
    np.testing.assert_allclose(powm(X, 1), X, **close)


@pytest.mark.parametrize("function", [
    logm, expm, lambda X: powm(X, 0.5), lambda X: oplus(X, X[..., ::-1, ::-1]),
])
def test_results_are_symmetric_to_the_last_bit(function):
    Y = function(random_spd(20, 5, 1, 0))
    assert np.array_equal(Y, Y.swapaxes(-2, -1))


@pytest.mark.parametrize("eigenvalues", [
    [3, 3], [2, 2, 2], [2, 2, 5], [1, 1 + 1e-15, 1 + 1e-14], [1e-4, 1, 1, 1e4],
])
def test_repeated_eigenvalues_do_no_harm(eigenvalues):
    Q, _ = np.linalg.qr(np.random.default_rng(0).standard_normal((len(eigenvalues),) * 2))
    X = (Q * eigenvalues) @ Q.T
    np.testing.assert_allclose(logm(X), (Q * np.log(eigenvalues)) @ Q.T, rtol=1e-7, atol=1e-7)
    np.testing.assert_allclose(expm(logm(X)), X, rtol=1e-7, atol=1e-7)


def test_a_matrix_of_size_1_is_a_number():
    X = np.array([[[0.5]], [[2.0]]])
    np.testing.assert_allclose(logm(X), np.log(X))
    np.testing.assert_allclose(expm(X), np.exp(X))
    assert np.array_equal(vecd(X), X[..., 0])


@pytest.mark.parametrize("shape", [(), (1,), (7,), (2, 3), (0,), (2, 1, 3)])
def test_any_batch_equals_one_by_one(shape):
    X = random_spd(math.prod(shape), 3, 1, 0).reshape(shape + (3, 3))
    for function, tail in [
        (logm, (3, 3)), (expm, (3, 3)), (vecd, (6,)), (lambda Y: powm(Y, 2), (3, 3)),
        (lambda Y: invvecd(vecd(Y)), (3, 3)), (lambda Y: odot(0.5, Y), (3, 3)),
        (lambda Y: distance_logeuclid(Y, np.eye(3)), ()), (is_spd, ()),
    ]:
        Y = function(X)
        assert Y.shape == shape + tail
        for index in np.ndindex(shape):
            np.testing.assert_allclose(Y[index], function(X[index]), rtol=1e-13, atol=1e-13)


def test_integers_and_single_precision_are_computed_in_double():
    X = [[2, 1], [1, 2]]
    for Y in (X, np.array(X, np.uint8), np.array(X, np.float32)):
        assert logm(Y).dtype == float and np.array_equal(logm(Y), logm(np.array(X, float)))


def test_inputs_are_left_alone():
    X = random_spd(3, 2, 1, 0)
    before = X.copy()
    logm(X), expm(X), vecd(X), mean_logeuclid(X), invvecd(vecd(X))
    assert np.array_equal(X, before)


# where exponentials end

@pytest.mark.parametrize("k", [1, 2, 6])
@pytest.mark.parametrize("exponent", [709.7, 709.0, -708.3, LOG_MAX - 1e-9, LOG_MIN + 1e-9])
def test_an_exponential_close_to_the_end_of_the_range_is_finite_and_spd(k, exponent):
    S = exponent * np.eye(k)
    X = expm(S)
    assert np.isfinite(X).all()
    np.testing.assert_allclose(logm(X), S, rtol=1e-14)


@pytest.mark.parametrize("S, extremes", [
    ([[709.8]], "from 709.8 to 709.8"), ([[-708.4]], "from -708.4 to -708.4"),
    ([[0, 800], [800, 0]], "from -800 to 800"),
])
def test_an_exponential_that_leaves_the_range_is_refused(S, extremes):
    batch = np.stack([0 * np.array(S), S, S])
    with pytest.raises(ValueError, match=rf"S\[1\] has eigenvalues {extremes}"):
        expm(batch)


def test_a_power_that_overflows_is_refused():
    with pytest.raises(ValueError, match="has eigenvalues"):
        powm(np.diag([1e10, 1]), 40)


# what is no SPD matrix

readers = pytest.mark.parametrize("function, name", [
    (logm, "X"), (expm, "S"), (vecd, "S"), (mean_logeuclid, "X"),
])


@readers
@pytest.mark.parametrize("A, message", [
    (np.eye(2) * 1j, "is an array of dtype complex128; accepted are real"),
    (np.eye(2, dtype=bool), "dtype bool"),
    (np.array([[1, None], [None, 1]]), "dtype object"), ("one", "dtype <U3"),
    ([[[1, 0], [0, 1]], [[1]]], "is no array .*; accepted are real numbers"),
    (1.0, r"has shape \(\)"), (np.ones(3), r"has shape \(3,\)"),
    (np.ones((2, 3)), r"has shape \(2, 3\); accepted is \(\.\.\., (n, )?k, k\)"),
    (np.ones((4, 0, 0)), r"has shape \(4, 0, 0\)"),
    ([[[1, np.nan], [np.nan, 1]]], r"\[0, 0, 1\] is nan"),
    (np.stack([np.eye(2), np.diag([1, np.inf])]), r"\[1, 1, 1\] is inf"),
])
def test_what_is_no_batch_of_real_square_matrices_is_refused_by_name(function, name, A, message):
    with pytest.raises(ValueError, match=name + ".*" + message):
        function(A)


@readers
def test_asymmetry_is_tolerated_up_to_a_share_of_the_largest_entry(function, name):
    A = np.array([[4.0, 1, 0.5], [1, 5, 0], [0.5, 0, 6]])
    skew = SYMMETRY * 6 * np.array([[0, 0.5, 0], [-0.5, 0, 0], [0, 0, 0]])
    np.testing.assert_allclose(function((A + 0.99 * skew)[None]), function(A[None]), rtol=1e-15)
    with pytest.raises(ValueError, match=rf"{name}\[1\] is not symmetric: it differs from its "):
        function(np.stack([A, A + 1.01 * skew]))


@pytest.mark.parametrize("smallest", [0.0, -2.0])
def test_the_first_matrix_that_is_not_positive_definite_is_named(smallest):
    X = np.tile(np.eye(3), (2, 3, 1, 1))
    X[1, 0] = np.diag([1, smallest, 1])
    X[1, 2] = np.diag([1, -7, 1])
    message = (rf"X\[1, 0\] is not positive definite: its smallest eigenvalue is {smallest:g}; "
               "accepted are those above 6.66134e-16")
    for function in (logm, mean_logeuclid, lambda X: powm(X, 2)):
        with pytest.raises(ValueError, match=message):
            function(X)


@pytest.mark.parametrize("function", [oplus, ominus, distance_logeuclid])
def test_an_error_names_the_second_argument_where_that_is_wrong(function):
    with pytest.raises(ValueError, match="^Y is not positive definite"):
        function(np.eye(2), -np.eye(2))


# coordinates

def test_the_coordinates_are_the_diagonal_then_root_2_times_the_upper_triangle_by_rows():
    S = np.array([[1, 11, 12, 13], [11, 2, 14, 15], [12, 14, 3, 16], [13, 15, 16, 4]])
    assert np.array_equal(vecd(S), [1, 2, 3, 4, *(math.sqrt(2) * np.arange(11, 17))])


@properties
@given(spd_matrices(2))
def test_the_coordinates_are_an_isometry(X):
    A, B = logm(X)
    assert vecd(A) @ vecd(B) == pytest.approx(np.sum(A * B), rel=1e-12, abs=1e-12)
    assert np.linalg.norm(vecd(A)) == pytest.approx(np.linalg.norm(A, "fro"), rel=1e-12)
    np.testing.assert_allclose(invvecd(vecd(A)), A, rtol=1e-15)


@pytest.mark.parametrize("k", range(1, 6))
def test_coordinates_and_matrices_are_inverse_and_linear(k):
    y = np.eye(k * (k + 1) // 2)
    np.testing.assert_allclose(vecd(invvecd(y)), y, rtol=1e-15)
    combined = 3 * invvecd(y[0]) - 2 * invvecd(y)
    np.testing.assert_allclose(invvecd(3 * y[0] - 2 * y), combined, rtol=1e-15)


@pytest.mark.parametrize("d", [0, 2, 4, 5, 7, 9, 11, 54, 56])
def test_a_number_of_coordinates_that_no_matrix_has_is_refused(d):
    with pytest.raises(ValueError, match=rf"y has {d} coordinates; accepted are k\(k\+1\)/2"):
        invvecd(np.zeros((2, d)))


@pytest.mark.parametrize("y, message", [
    (1.0, "y has 0 coordinates"), ([1, np.nan, 0], r"y\[1\] is nan"),
    ([True], "y is an array of dtype bool"),
])
def test_coordinates_that_are_none_are_refused(y, message):
    with pytest.raises(ValueError, match=message):
        invvecd(y)


# the vector space (Table 2)

@pytest.mark.slow
@properties
@given(spd_matrices(3), scalars, scalars)
def test_spd_matrices_are_a_vector_space(X, a, b):
    X, Y, Z = X
    identity = np.eye(len(X))
    for left, right in [
        (oplus(X, Y), oplus(Y, X)), (oplus(oplus(X, Y), Z), oplus(X, oplus(Y, Z))),
        (oplus(X, identity), X), (oplus(X, odot(-1, X)), identity), (odot(1, X), X),
        (odot(a, odot(b, X)), odot(a * b, X)),
        (odot(a, oplus(X, Y)), oplus(odot(a, X), odot(a, Y))),
        (odot(a + b, X), oplus(odot(a, X), odot(b, X))),
        (ominus(X, Y), oplus(X, odot(-1, Y))), (odot(a, X), powm(X, a)),
    ]:
        np.testing.assert_allclose(logm(left), logm(right), **close)


def test_a_batch_of_matrices_takes_a_batch_of_multipliers():
    X, a = random_spd(6, 2, 1, 0).reshape(2, 3, 2, 2), np.arange(6.0).reshape(2, 3)
    for index in np.ndindex(2, 3):
        np.testing.assert_allclose(odot(a, X)[index], powm(X[index], a[index]), **close)


# metric and mean

@pytest.mark.slow
@properties
@given(spd_matrices(3), scalars)
def test_the_distance_is_a_metric_that_shifts_and_scales(X, a):
    X, Y, Z = X
    distance = distance_logeuclid(X, Y)
    assert distance == pytest.approx(np.linalg.norm(vecd(logm(X)) - vecd(logm(Y))))
    assert distance == distance_logeuclid(Y, X) and distance_logeuclid(X, X) == 0
    assert distance <= distance_logeuclid(X, Z) + distance_logeuclid(Z, Y) + 1e-12
    assert distance_logeuclid(oplus(X, Z), oplus(Y, Z)) == pytest.approx(distance)
    assert distance_logeuclid(odot(a, X), odot(a, Y)) == pytest.approx(abs(a) * distance, abs=1e-9)


def test_the_mean_of_one_is_that_one():
    X = random_spd(1, 4, 1, 0)
    np.testing.assert_allclose(mean_logeuclid(X), X[0], **close)


def test_the_mean_of_diagonal_matrices_is_the_geometric_mean():
    mean = mean_logeuclid([np.diag([1, 4]), np.diag([9, 4])])
    np.testing.assert_allclose(mean, np.diag([3, 4]), **close)


@properties
@given(spd_matrices(6))
def test_the_mean_is_the_point_from_which_the_differences_add_to_0(X):
    M = mean_logeuclid(X)
    np.testing.assert_allclose(logm(ominus(X, M)).sum(axis=0), 0, atol=1e-9)
    others = X[0], oplus(M, 1.01 * np.eye(len(M)))
    energy = [np.sum(distance_logeuclid(X, C)**2) for C in (M, *others)]
    assert energy[0] == min(energy)


def test_means_are_taken_over_the_axis_before_the_matrices():
    X = random_spd(12, 2, 1, 0).reshape(3, 4, 2, 2)
    np.testing.assert_allclose(mean_logeuclid(X), [mean_logeuclid(part) for part in X])


@pytest.mark.parametrize("X", [np.eye(2), np.ones((0, 2, 2)), np.ones((3, 0, 2, 2))])
def test_a_mean_of_nothing_is_refused(X):
    message = r"X has shape .*; accepted is \(\.\.\., n, k, k\) with n ≥ 1"
    with pytest.raises(ValueError, match=message):
        mean_logeuclid(X)


# random matrices (Sec. 6.1)

def test_random_matrices_come_from_the_seed_or_the_generator():
    generator = np.random.default_rng(3)
    assert np.array_equal(random_spd(4, 3, 1, 3), random_spd(4, 3, 1, generator))
    assert not np.array_equal(random_spd(4, 3, 1, 3), random_spd(4, 3, 1, generator))


@pytest.mark.parametrize("k, r", [(1, 0.1), (3, 1.0), (8, 2.0)])
def test_random_matrices_lie_in_their_ball(k, r):
    X = random_spd(500, k, r, 0)
    assert X.shape == (500, k, k) and np.array_equal(X, X.swapaxes(-2, -1))
    distance = distance_logeuclid(X, np.eye(k))
    assert distance.max() <= math.sqrt(k) * r * (1 + 1e-12)


def kolmogorov(values, cdf):
    """Largest distance of the empirical distribution from `cdf`, in DKW bands of level 1e-6."""
    F, n = cdf(np.sort(values, axis=None)), np.size(values)
    steps = np.arange(n + 1) / n
    return max((steps[1:] - F).max(), (F - steps[:-1]).max()) / math.sqrt(math.log(2e6) / (2 * n))


def uniform_qr(n, k, rng):
    """Orthogonal matrices that are not Haar distributed."""
    return np.linalg.qr(rng.random((n, k, k)))[0]


def test_eigenvectors_are_haar_distributed_and_a_rival_is_told_apart():
    n, k, r = 4000, 3, 1.0
    one_direction = beta(1 / 2, (k - 1) / 2).cdf  # law of a squared coordinate of a direction
    directions = np.array([[1, 0, 0], [0, 0, 1], [1, 1, 1] / np.sqrt(3)])
    Q = uniform_qr(n, k, np.random.default_rng(1))
    eigenvalues = np.random.default_rng(2).uniform(math.exp(-r), math.exp(r), (n, 1, k))

    def worst(X):
        V = np.linalg.eigh(X)[1]
        return max(kolmogorov((V[..., j] @ u)**2, one_direction)
                   for u in directions for j in range(k))

    assert worst(random_spd(n, k, r, 0)) <= 1 < 2 < worst((Q * eigenvalues) @ Q.swapaxes(-2, -1))


def test_eigenvalues_are_uniform_and_a_rival_is_told_apart():
    eigenvalues = np.linalg.eigvalsh(random_spd(3000, 2, 1.0, 0))
    low, high = math.exp(-1), math.exp(1)
    assert kolmogorov(eigenvalues, lambda t: (t - low) / (high - low)) <= 1
    assert kolmogorov(eigenvalues, lambda t: (np.log(t) + 1) / 2) > 2


def test_a_singular_matrix_is_refused_whatever_its_rounding_makes_of_it():
    rng = np.random.default_rng(0)
    for k in (2, 3, 8):
        A = rng.standard_normal((200, k, k - 1))
        for X in A @ A.swapaxes(1, 2):
            with pytest.raises(ValueError, match="not positive definite"):
                logm(X)


# many at once

def many(n, k, spread, seed):
    """Matrices with eigenvalues spread over so many powers of ten, some repeated, (n, k, k)."""
    rng = np.random.default_rng(seed)
    eigenvalues = 10 ** rng.uniform(-spread, 0, (n, k))
    eigenvalues[::3, 0] = eigenvalues[::3, -1]
    eigenvalues[::9] = eigenvalues[::9, :1]
    Q = np.linalg.qr(rng.standard_normal((n, k, k)))[0]
    X = (Q * eigenvalues[:, None]) @ Q.swapaxes(1, 2)
    return X / 2 + X.swapaxes(1, 2) / 2


def exact_log(X):
    """The logarithm of one matrix, found with 60 digits and rounded."""
    with mpmath.workdps(60):
        eigenvalues, Q = mpmath.eigsy(mpmath.matrix(X.tolist()))
        L = Q * mpmath.diag([mpmath.log(value) for value in eigenvalues]) * Q.T
        return np.array(L.tolist(), float).reshape(X.shape)


several_blocks = pytest.mark.parametrize("k", [1, 2, 3, 4, 30])


@pytest.mark.parametrize("scale", mostly_slow([1e-150, 1, 1e150], 1))
@pytest.mark.parametrize("k", [2, 3, pytest.param(5, marks=pytest.mark.slow)])
def test_logarithms_of_many_are_as_exact_as_the_condition_allows(k, scale):
    X = many(600, k, 3, k) * scale
    X[1:9] = np.diag([1.0, 2, 2, 3, 5][:k]) * scale
    for i, off_diagonal in enumerate([0, 1e-310, 1e-200, 1e-16, 1e-15, 1e-8, 1e-3, 0.5]):
        X[1 + i, 0, 1] = X[1 + i, 1, 0] = off_diagonal * scale
    L = logm(X)
    for i in range(60):
        truth, condition = exact_log(X[i]), np.linalg.cond(X[i])
        assert np.linalg.norm(L[i] - truth) <= 4 * k * 2**-52 * (condition + np.linalg.norm(truth))


@pytest.mark.parametrize("k", [2, 3])
def test_small_matrices_of_every_condition_are_decomposed_no_worse_than_rounding(k):
    X = many(4000, k, 13, 10 + k)
    again, _, _, largest = spectral(X, "identity")
    assert (np.linalg.norm(again - X, axis=(1, 2)) <= 20 * 2**-52 * largest).all()
    ones, *_ = spectral(X, "exp", 0.0)
    assert (np.linalg.norm(ones - np.eye(k), axis=(1, 2)) <= 20 * 2**-52).all()
    eigenvalues, *_ = spectral(X, "identity", form="values")
    error = np.abs(np.sort(eigenvalues) - np.linalg.eigvalsh(X)).max(axis=1)
    assert (error <= 20 * 2**-52 * largest).all()


@pytest.mark.slow
@pytest.mark.parametrize("k, n", [(1, 7), (5, 7), (5, 4000)])
def test_a_matrix_on_which_lapack_gives_up_is_refused_and_no_other(k, n, monkeypatch):
    monkeypatch.setattr(_kernel, "_LIBRARY", None)
    X, eigh = random_spd(n, k, 1, 0), np.linalg.eigh
    before, given_up = logm(X), X[1].copy()

    def gives_up(A):
        if (A == given_up).all(axis=(-2, -1)).any():
            raise np.linalg.LinAlgError("Eigenvalues did not converge")
        return eigh(A)

    monkeypatch.setattr(np.linalg, "eigh", gives_up)
    expected = np.arange(n) != 1
    assert np.array_equal(is_spd(X), expected)
    with pytest.raises(ValueError, match=r"X\[1\] is not positive definite"):
        logm(X)
    with pytest.raises(ValueError, match=r"S\[1\] has eigenvalues from nan to nan; accepted"):
        expm(X)
    logarithms, _, smallest, _ = spectral(X, "log")
    assert np.isnan(smallest[1]) and np.isfinite(smallest[expected]).all()
    assert np.array_equal(logarithms[expected], before[expected])  # no bit of another moved


@several_blocks
def test_results_are_the_same_bits_on_any_number_of_cores(k, monkeypatch):
    X = many(2 * block_size(k) + 7, k, 2, 0)
    one = logm(X), mean_logeuclid(X)
    for cores in (1, 3):
        monkeypatch.setattr(_kernel, "CORES", cores)
        assert np.array_equal(logm(X), one[0]) and np.array_equal(mean_logeuclid(X), one[1])


@several_blocks
def test_a_batch_of_several_blocks_equals_its_parts_and_is_left_alone(k):
    n = 2 * block_size(k) + 7
    X = np.asfortranarray(many(n, k, 2, 1))  # the layout in which small matrices are decomposed
    before = X.copy()
    L = logm(X)
    assert np.array_equal(X, before)
    for i in (0, block_size(k) - 1, block_size(k), n - 1):
        np.testing.assert_allclose(L[i], logm(X[i]), rtol=1e-12, atol=1e-12)


@pytest.mark.parametrize("k", [2, 9])
def test_the_bad_matrix_of_a_later_block_is_named(k):
    n = 2 * block_size(k) + 7
    bads = [(-np.eye(k), "positive definite"), (np.triu(np.ones((k, k))), "symmetric"),
            (np.nan * np.eye(k), "is nan")]
    for bad, message in bads:
        X = np.tile(np.eye(k), (n, 1, 1))
        X[n - 2] = bad
        with pytest.raises(ValueError, match=rf"X\[{n - 2}.*{message}"):
            logm(X)


def test_the_mean_of_many_equal_matrices_is_that_matrix():
    X = np.tile(np.diag([math.exp(0.1), math.exp(0.3)]), (100_000, 1, 1))
    np.testing.assert_allclose(mean_logeuclid(X), X[0], rtol=1e-14)


@pytest.mark.parametrize("n", [1, 2, 3, 4, 10, 99, 100, 101])
def test_the_mean_takes_every_matrix_once(n):
    X = random_spd(3 * n, 2, 1, n).reshape(3, n, 2, 2)
    np.testing.assert_allclose(logm(mean_logeuclid(X)), logm(X).mean(axis=1), **close)


def test_blas_starts_no_threads_while_ours_run():
    with one_blas_thread():
        assert blas_threads() == {1}


def blas_threads():
    threadpoolctl = pytest.importorskip("threadpoolctl")
    return {library["num_threads"] for library in threadpoolctl.threadpool_info()
            if library["user_api"] == "blas"}


def test_blas_has_its_threads_back_when_several_threads_have_used_it():
    before, may_leave = blas_threads(), [threading.Event(), threading.Event()]

    def use(event):
        with one_blas_thread():
            event.wait()

    users = [threading.Thread(target=use, args=[event]) for event in may_leave]
    for user in users:
        user.start()
        time.sleep(0.05)  # so that the second comes before the first has left
    for event in may_leave:
        event.set()
        time.sleep(0.05)
    for user in users:
        user.join()
    assert blas_threads() == before


def forked(work):
    """Exit code of a forked child that does the work, None where it is still at it after 30 s."""
    child = multiprocessing.get_context("fork").Process(target=work)
    child.start()
    child.join(30)
    child.kill()
    return child.exitcode


@pytest.mark.slow
@pytest.mark.skipif(not hasattr(os, "fork"), reason="there is no fork")
@pytest.mark.filterwarnings("ignore:.*fork.*:DeprecationWarning")
def test_a_child_that_is_forked_while_a_thread_holds_blas_can_use_it():
    inside, done = threading.Event(), threading.Event()

    def hold():
        while not done.is_set():
            with one_blas_thread():
                inside.set()
                time.sleep(0.01)

    thread = threading.Thread(target=hold)
    thread.start()
    inside.wait()
    try:
        codes = [forked(lambda: logm(np.eye(70))) for _ in range(5)]
    finally:
        done.set()
        thread.join()
    assert codes == [0] * 5


def conditioned(k, decades, rng):
    """A matrix of size k whose eigenvalues go down by so many powers of ten."""
    Q = np.linalg.qr(rng.standard_normal((k, k)))[0]
    A = (Q * 10.0**np.linspace(-decades, 0, k)) @ Q.T
    return (A + A.T) / 2


@pytest.mark.slow
@pytest.mark.parametrize("decades", [1, 9])
def test_steps_to_large_matrices_do_not_depend_on_the_threads_of_blas(decades):
    threadpoolctl, rng = pytest.importorskip("threadpoolctl"), np.random.default_rng(0)
    ball = Ball(1.0, conditioned(100, 1, rng), AffineInvariant(100)).tangent()
    X = conditioned(100, decades, rng)[None]
    steps = []
    for threads in 1, 2:
        with threadpoolctl.threadpool_limits(threads, "blas"):
            steps.append(ball.seen(X)[0])
    np.testing.assert_array_equal(*steps)


def test_the_page_on_speed_has_the_markers_between_which_the_benchmark_writes():
    root = pathlib.Path(__file__).resolve().parent.parent
    page = (root / "book/speed.md").read_text(encoding="utf-8")
    benchmark = (root / "benchmarks/run.py").read_text(encoding="utf-8")
    begin, end = re.findall("<!-- .*? -->", benchmark)
    assert page.count(begin) == page.count(end) == 1 and page.index(begin) < page.index(end)


@pytest.mark.parametrize("k", [3, 5])
def test_one_matrix_that_is_indefinite_by_rounding_moves_no_bit_of_the_roots_of_others(k):
    X = random_spd(40, k, 3.0, 0)
    v = np.arange(1.0, k + 1) / 7
    bad = np.outer(v, v) - 1e-18 * np.eye(k)
    with pytest.raises(np.linalg.LinAlgError):
        np.linalg.cholesky(bad)
    alone = spd.cholesky(bad)
    assert np.allclose(alone @ alone.T, bad, atol=1e-7) and (np.triu(alone, 1) == 0).all()
    roots = spd.cholesky(X)
    with_bad = spd.cholesky(np.insert(X, 7, bad, axis=0))
    assert np.array_equal(np.delete(with_bad, 7, axis=0), roots)
    assert np.array_equal(with_bad[7], alone)
    many = spd.cholesky(np.stack([X, np.tile(bad, (40, 1, 1))]))
    assert np.array_equal(many[0], roots) and np.array_equal(many[1, 3], alone)
