"""Many records: the same bits in any batch, any order and any partition."""

import numpy as np
import pytest

from spdlib.spaces import LogEuclidean
from spdlib.spd import is_spd, logm


def matrices(n, k, seed, spread=6):
    """SPD matrices of all conditions, (n, k, k), some diagonal, some with equal eigenvalues."""
    rng = np.random.default_rng(seed)
    eigenvalues = 10 ** rng.uniform(-spread, 3, (n, k))
    eigenvalues[::3, 0] = eigenvalues[::3, -1]
    Q = np.linalg.qr(rng.standard_normal((n, k, k)))[0]
    X = (Q * eigenvalues[:, None]) @ Q.swapaxes(1, 2)
    X = X / 2 + X.swapaxes(1, 2) / 2
    X[3::50] = np.diag(np.arange(1.0, k + 1))
    X[4::50] = np.eye(k) + 1e-6 * np.ones((k, k))
    X[5::50] = np.ones((k, k)) + 1e-6 * np.eye(k)  # on which rotations stall
    return X


def layouts(X):
    """The same matrices, stored in other ways."""
    yield np.asfortranarray(X)
    yield np.moveaxis(np.ascontiguousarray(np.moveaxis(X, 0, -1)), -1, 0)
    yield np.repeat(np.repeat(X, 2, axis=0), 3, axis=2)[::2, :, ::3]
    yield X[::-1].copy()[::-1]
    unaligned = np.ndarray(X.shape, X.dtype, bytearray(X.nbytes + 3), offset=3)
    unaligned[...] = X
    yield unaligned


@pytest.mark.parametrize("dtype", [np.float64, np.float32])
@pytest.mark.parametrize("k, n", [(1, 2**14 + 1), (2, 2**14 + 1), (3, 2**14 + 1), (4, 2100),
                                  (9, 1100), (30, 60)])
def test_the_logarithm_of_a_record_has_the_same_bits_alone_and_in_any_batch(k, n, dtype, tmp_path):
    X = matrices(n, k, k).astype(dtype)
    X[~is_spd(X)] = np.eye(k)
    chart, rng = LogEuclidean(k).coordinates, np.random.default_rng(0)
    expected = chart(X)
    for m in (1, 2, 9, 10, 11, 511, 513, 2**14):
        if m <= n:
            start, some = rng.integers(n - m + 1), rng.permutation(n)[:m]
            assert np.array_equal(chart(X[start:start + m]), expected[start:start + m])
            assert np.array_equal(chart(X[some]), expected[some])
    for i in range(7):
        assert np.array_equal(chart(X[i]), expected[i])
    few = X[:550]
    few.tofile(tmp_path / "X")
    for Y in *layouts(few), np.memmap(tmp_path / "X", dtype, "r", shape=few.shape):
        assert np.array_equal(Y, few) and np.array_equal(chart(Y), expected[:550])


def test_few_small_matrices_meet_the_same_limits_of_float64_as_many():
    huge = np.array([np.diag([1e300, 1e-300]), [[1e307, 1e-320], [1e-320, 1e307]], np.eye(2)])
    with np.errstate(all="raise"):
        for X in huge:
            alone = np.array_equal(is_spd(X), is_spd(np.tile(X, (20, 1, 1)))[0])
            assert alone and (not is_spd(X) or np.array_equal(
                logm(X), logm(np.tile(X, (20, 1, 1)))[3]))
