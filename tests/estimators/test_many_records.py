"""Many records: the same bits in any batch, any order and any partition."""

import copy
import functools
import io
import pickle
import types
from concurrent.futures import ThreadPoolExecutor
from fractions import Fraction

import numpy as np
import pytest
from conftest import mostly_slow

import spdlib.estimators.mean
from spdlib import (Ball, BudgetAccountant, PrivateFrechetMean, TangentGaussian, TruncatedLoss,
                    random_spd)
from spdlib.estimators.base import paid
from spdlib.queries import FrechetMean, RunningMean, frechet_sensitivity
from spdlib.queries.sums import MOST_NUMBERS, ClippedSum
from spdlib.spaces import AffineInvariant, Euclidean, LogEuclidean
from spdlib.spaces.ball import clip_to_ball, finest_grid
from spdlib.spd import invvecd, is_spd, logm


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


@pytest.mark.parametrize("dtype", mostly_slow([np.float64, np.float32], np.float64))
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


# the sum

K, N, RADIUS, CENTER = 3, 700, 1.0, np.diag([1.0, 1.5, 0.7])
BALL, CURVED = Ball(RADIUS, CENTER), Ball(RADIUS, CENTER, AffineInvariant(K))
BALLS = {"log-Euclidean": BALL, "Euclidean": Ball(RADIUS, CENTER, Euclidean(K)),
         "tangent": CURVED.tangent()}
TRUNCATED = TruncatedLoss.with_options(clip=1.0)


def private(mechanism="gaussian", n=N, ball=BALL, **others):
    return PrivateFrechetMean(1.0, 0 if mechanism in PURE else 1e-6, ball, mechanism, n=n, **others)


PURE = "laplace", "k-norm gradient", TRUNCATED
X = random_spd(N, K, 2.0, 0)  # some lie outside the ball


def bits(estimator):
    return estimator.log_mean_.tobytes(), estimator.mean_.tobytes()


def batches(X, rng):
    """The records in another order, in batches of many sizes, some of them empty."""
    cuts = np.sort(rng.integers(0, len(X) + 1, rng.integers(1, 40)))
    return np.split(X[rng.permutation(len(X))], cuts)


@pytest.mark.parametrize("ball", [
    pytest.param(ball, id=name, marks=[pytest.mark.slow] if name == "tangent" else [])
    for name, ball in BALLS.items()])
def test_the_sum_has_the_same_bits_in_any_order_and_partition_on_any_machines(ball):
    expected = FrechetMean(X, ball).total()
    grid = finest_grid(RADIUS, N)
    steps = clip_to_ball(ball.space.log(CENTER, X), RADIUS, grid)
    exact = [sum(map(Fraction, column)) for column in steps.T.tolist()]
    assert [Fraction(entry) for entry in expected.tolist()] == exact
    rng = np.random.default_rng(1)
    for _ in range(10):
        running = RunningMean(N, ball)
        machines = [ClippedSum(ball, N) for _ in range(3)]
        for batch in batches(X, rng):
            running.add(batch)
            machines[rng.integers(3)].add(batch)
        merged = machines[2].merge(machines[0]).merge(machines[1])
        assert running.total().tobytes() == merged.total.tobytes() == expected.tobytes()
        assert merged.count == N


def test_a_sum_of_records_that_are_not_cut_depends_on_their_order():
    steps, rng = clip_to_ball(LogEuclidean(K).log(CENTER, X), RADIUS, 2.0**-1000), \
        np.random.default_rng(0)
    assert len({steps[rng.permutation(N)].sum(axis=0).tobytes() for _ in range(20)}) > 1


def test_sums_on_two_grids_or_of_too_many_records_are_not_merged():
    sums = [ClippedSum(BALL, n).add(X[:4]) for n in (7, 99)]
    with pytest.raises(ValueError, match="other has 4 records on a grid"):
        sums[0].merge(sums[1])
    with pytest.raises(ValueError, match="accepted are 3 on one of"):
        sums[0].merge(ClippedSum(BALL, 7).add(X[:4]))
    assert sums[0].count == 4


def test_a_grid_coarser_than_the_ball_and_records_at_the_ends_of_float64_are_summed():
    y = np.array([[1e308, -1e308], [5e-324, 0.3], [0.1, -0.0], [1e-200, 1e200]])
    coarse = clip_to_ball(y, 1.0, 4.0)
    assert np.array_equal(coarse, np.zeros((4, 2)))
    for radius in (1e-280, 1.0, 1e280):
        alone = [clip_to_ball(row[None], radius, finest_grid(radius, 4))[0] for row in y]
        assert np.array_equal(clip_to_ball(y, radius), alone)
        assert np.array_equal(clip_to_ball(np.asfortranarray(y), radius), alone)


@pytest.mark.parametrize("d", [1, 2, 7, 8, 9, 45, 465])
def test_a_row_is_clipped_to_the_same_bits_alone_and_in_any_batch(d):
    rng = np.random.default_rng(d)
    y = rng.standard_normal((1030, d)) * 10.0 ** rng.uniform(-3, 1, (1030, 1)) / np.sqrt(d)
    expected = clip_to_ball(y, 1.0, 2.0**-40)
    for Y in np.asfortranarray(y), np.repeat(y, 2, axis=1)[:, ::2]:
        assert np.array_equal(clip_to_ball(Y, 1.0, 2.0**-40), expected)
    for m in (1, 2, 3, 8, 513):
        some = rng.permutation(len(y))[:m]
        assert np.array_equal(clip_to_ball(y[some], 1.0, 2.0**-40), expected[some])


@pytest.mark.parametrize("i", [3, 2**14 + 5])
@pytest.mark.parametrize("ball", BALLS.values(), ids=BALLS)
def test_a_bad_record_is_named_by_its_place_among_all(ball, i):
    many = np.broadcast_to(np.eye(K), (2**14 + 9, K, K)).copy()
    many[i] = np.nan
    with pytest.raises(ValueError, match=rf"X\[{i}"):
        FrechetMean(many, ball).total()


@pytest.mark.slow
def test_in_blocks_each_record_has_its_own_weight_and_the_first_bad_one_is_named():
    n = 2 * MOST_NUMBERS // 16 + 9
    weights = np.random.default_rng(0).random(n)
    many = random_spd(n, 4, 1.0, 0)
    steps = clip_to_ball(LogEuclidean(4).log(np.eye(4), many), 1.0, None,
                         (weights / weights.max())[:, None])
    ball = Ball(1.0, np.eye(4))
    total = FrechetMean(many, ball, weights=weights).total()
    assert total.tobytes() == steps.sum(axis=0).tobytes()
    many[[n // 2, n - 1]] = np.nan
    with pytest.raises(ValueError, match=rf"^X\[{n // 2}\b"):
        FrechetMean(many, ball).total()


@pytest.mark.parametrize("ball", BALLS.values(), ids=BALLS)
def test_bad_records_give_way_to_the_centre_and_move_no_bit_of_another(ball):
    Z = X.copy()
    Z[::7], Z[1] = np.nan, [[0, 1, 0], [0, 1, 0], [0, 0, 1]]
    good = np.ones(N, bool)
    good[::7] = good[1] = False
    query = FrechetMean(Z, ball, "center")
    expected = RunningMean(N, ball).add(X[good]).total()
    assert query.total().tobytes() == expected.tobytes()
    none = FrechetMean(Z[:1], ball, "center").total()
    assert np.array_equal(none, np.zeros(ball.space.dim))


# the release of batches

@pytest.mark.slow
@pytest.mark.parametrize("mechanism", ["gaussian", "classical gaussian", "l2", "laplace"])
def test_a_release_of_batches_has_the_bits_of_a_fit(mechanism):
    estimator = private(mechanism)
    estimator.epsilon = 0.5
    expected = bits(estimator.fit(X, rng=7))
    for seed in range(3):
        for batch in batches(X, np.random.default_rng(seed)):
            assert estimator.partial_fit(batch) is estimator
        assert estimator.release(rng=7) is estimator
        assert bits(estimator) == expected and f"n = {N} records" in estimator.privacy_


def test_records_that_do_not_come_count_as_the_centre():
    with_centres = private().fit(np.concatenate([X[:500], np.tile(CENTER, (200, 1, 1))]), rng=0)
    assert bits(private().partial_fit(X[:500]).release(0, fewer=True)) == bits(with_centres)
    few = private().partial_fit(X[:500])
    with pytest.raises(ValueError, match="500 records have come in of n = 700; accepted is a rel"):
        few.release(0)
    assert bits(few.release(0, fewer=True)) == bits(with_centres)


def test_one_record_too_many_or_a_bad_one_is_refused_and_nothing_of_its_batch_is_added():
    estimator = private()
    bad = X[:5].copy()
    bad[4] = -np.eye(K)
    with pytest.raises(ValueError, match=r"X\[4\] is not positive definite"):
        estimator.partial_fit(bad)  # of the first batch, nor
    estimator.partial_fit(X[:300])
    for refused, message in ((bad, r"X\[4\]"), (X[:401], "401 records after 300; accepted are 700"),
                             (X[:5, :2, :2], "X has shape"), (X[0, 0, 0], "X has shape")):
        with pytest.raises(ValueError, match=message):
            estimator.partial_fit(refused)
    assert bits(estimator.partial_fit(X[300:]).release(1)) == bits(private().fit(X, rng=1))


@pytest.mark.parametrize("change, message", [
    ({"n": None}, "n is None; accepted for records that come in batches"),
    ({"n": 0}, "n is 0"), ({"n": 2.0}, "n is 2.0"),
    ({"mechanism": "k-norm gradient", "delta": 0}, "accepted for records that come in batches are"),
    ({"mechanism": TRUNCATED, "delta": 0}, "accepted for records that come"),
    ({"ball": CURVED}, "flat spaces, such as its TangentSpace"),
    ({"epsilon": 0}, "epsilon is 0"), ({"ball": -1}, "ball is -1"),
    ({"mechanism": "none"}, "mechanism is 'none'"), ({"shrink": 1}, "shrink is 1"),
])
def test_what_cannot_come_in_batches_is_refused_before_a_record_is_looked_at(change, message):
    estimator = private().set_params(**change)
    with pytest.raises(ValueError, match=message):
        estimator.partial_fit(np.full((1, K, K), np.nan))
    assert "_running" not in vars(estimator)


def test_the_tangent_mean_of_a_curved_space_comes_in_batches():
    estimator = private(ball=CURVED, statistic="tangent")
    expected = estimator.fit(X, rng=3).mean_
    assert np.array_equal(estimator.partial_fit(X[9:]).partial_fit(X[:9]).release(3).mean_,
                          expected)


@pytest.mark.slow
def test_while_the_sum_is_held_there_is_no_copy_of_it():
    import joblib
    from sklearn.base import clone

    estimator = private().partial_fit(X[:5])
    for made in (copy.copy, copy.deepcopy, pickle.dumps, joblib.hash,
                 lambda e: joblib.dump(e, io.BytesIO())):
        with pytest.raises((TypeError, pickle.PicklingError), match="a sum of records"):
            made(estimator)
    assert set(vars(clone(estimator))) == set(vars(private()))
    estimator.release(0, fewer=True)
    for twin in (copy.copy(estimator), copy.deepcopy(estimator),
                 pickle.loads(pickle.dumps(estimator))):
        assert bits(twin) == bits(estimator)


def test_parameters_stay_what_they_were_when_the_first_batch_came_in():
    center = CENTER.copy()
    estimator = private(ball=Ball(RADIUS, center)).partial_fit(X[:500])
    for name, value in [("epsilon", 2.0), ("n", 5), ("mechanism", "l2"), ("shrink", True),
                        ("ball", BALL.of_radius(9.0)), ("ball", Ball(RADIUS, np.eye(K))),
                        ("ball", BALLS["Euclidean"]), ("on_invalid", "center")]:
        before = estimator.get_params()[name]
        for go_on in (lambda: estimator.partial_fit(X[500:]), estimator.release):
            estimator.set_params(**{name: value})
            with pytest.raises(ValueError, match=f"(?s){name} is .*; accepted until the release"):
                go_on()
            estimator.set_params(**{name: before})
    center[:] = 0
    released = estimator.partial_fit(X[500:]).release(0)
    assert bits(released) == bits(private().fit(X, rng=0))


def test_the_sum_is_gone_after_a_release_and_after_a_fit_and_kept_where_a_release_is_refused():
    estimator = private().partial_fit(X)
    before = set(vars(private().fit(X, rng=0)))
    with pytest.raises(ValueError, match="rng is"):
        estimator.release(rng=-1)
    assert bits(estimator.release(0)) == bits(private().fit(X, rng=0))
    assert set(vars(estimator)) == before
    held = [leaf for leaf in vars(estimator.mechanism_).values() if isinstance(leaf, np.ndarray)]
    assert not held and not hasattr(estimator.mechanism_, "query")
    with pytest.raises(ValueError, match="no batch has come in"):
        estimator.release()
    assert set(vars(estimator.partial_fit(X[:3]).fit(X, rng=0))) == before
    with pytest.raises(ValueError, match="no batch has come in"):
        estimator.release()


def test_what_comes_after_a_refused_release_counts(monkeypatch):
    estimator = private().partial_fit(X[:60])
    with monkeypatch.context() as patch:
        patch.setattr(TangentGaussian, "_noise", refuse)
        with pytest.raises(ValueError, match="no noise"):
            estimator.release(0, fewer=True)
    assert bits(estimator.partial_fit(X[60:]).release(0)) == bits(private().fit(X, rng=0))


def refuse(*arguments):
    raise ValueError("no noise")


def test_of_two_threads_that_ask_for_one_sum_one_draws(monkeypatch):
    estimator, draws, refused = private().partial_fit(X), [], []
    perturb = TangentGaussian.perturb

    def interrupted(mechanism, *arguments):
        draws.append(1)
        if len(draws) == 1:  # another thread asks before this one has its noise
            with ThreadPoolExecutor(1) as pool:
                refused.append(pool.submit(estimator.release, 1).exception())
        return perturb(mechanism, *arguments)

    monkeypatch.setattr(TangentGaussian, "perturb", interrupted)
    released = bits(estimator.release(0))
    assert len(draws) == 1 and "no batch has come in" in str(refused[0])
    assert released == bits(private().fit(X, rng=0))


def test_a_sum_whose_release_ends_in_the_middle_is_gone(monkeypatch):
    def interrupted(*_):
        raise KeyboardInterrupt

    estimator = private().partial_fit(X)
    with monkeypatch.context() as patch:
        patch.setattr(TangentGaussian, "perturb", interrupted)  # it may have drawn its noise
        with pytest.raises(KeyboardInterrupt):
            estimator.release(0)
    with pytest.raises(ValueError, match="no batch has come in"):
        estimator.release(0)


def kept_sums(error):
    """What the frames of an exception hold of sums, once the release is made."""
    trace = error.__traceback__
    while trace:
        for value in trace.tb_frame.f_locals.values():
            if isinstance(value, RunningMean):
                yield value.total()
            elif isinstance(value, ClippedSum):
                yield value.total
        trace = trace.tb_next


def test_errors_of_a_refused_release_or_batch_keep_no_sum():
    estimator, kept = private().partial_fit(X[:-1]), []
    for refused in (lambda: estimator.release(accountant=BudgetAccountant(1e-6, 0)),
                    lambda: estimator.partial_fit(np.full((1, K, K), np.nan))):
        with pytest.raises(ValueError) as error:
            refused()
        kept.append(error.value)
    estimator.partial_fit(X[-1:]).release()
    found = [total for error in kept for total in kept_sums(error)]
    assert found and not any(total.any() for total in found)


def test_the_error_of_a_refused_release_keeps_no_sum_once_another_fit_forgets_it():
    estimator = private().partial_fit(X)
    with pytest.raises(ValueError) as error:
        estimator.release(accountant=BudgetAccountant(1e-6, 0))
    estimator.fit(X[::-1])
    found = [*kept_sums(error.value)]
    assert found and not any(total.any() for total in found)


def holdings(value):
    """What a function holds: in its closure, in what is called there, and in lists."""
    if isinstance(value, functools.partial):
        yield from holdings([value.func, *value.args])
    elif isinstance(value, list | tuple):
        for part in value:
            yield from holdings(part)
    elif isinstance(value, types.FunctionType):
        yield from holdings([cell.cell_contents for cell in value.__closure__ or ()])
    else:
        yield value


@pytest.mark.parametrize("mechanism", ["gaussian", "discrete gaussian"])
def test_an_interrupt_after_the_draw_keeps_nothing_of_what_it_was_drawn_from(
        mechanism, monkeypatch):
    def interrupted(*_, **__):
        raise KeyboardInterrupt

    if mechanism.startswith("discrete"):
        pytest.importorskip("opendp", reason="OpenDP is not installed")
    estimator = private(mechanism=mechanism).partial_fit(X)
    drawn = [*holdings(paid(1e-6, *estimator._running[1::-1], 6, None, None, None))]
    monkeypatch.setattr(spdlib.estimators.mean, "document", interrupted)
    with pytest.raises(KeyboardInterrupt) as error:
        estimator.release()
    assert hasattr(estimator, "mean_") and any(isinstance(one, np.ndarray) for one in drawn)
    trace = error.value.__traceback__
    while trace:
        for one in holdings(trace.tb_frame.f_locals.get("draw")):
            assert not isinstance(one, np.ndarray | np.random.Generator)
        trace = trace.tb_next


def test_a_ragged_or_a_masked_first_batch_is_named_and_leaves_nothing():
    masked = np.ma.masked_array(X[:3], X[:3] > 1)
    for batch, message in [([np.eye(3).tolist(), [[1.0]]], "X is no array .*; accepted are"),
                           ([["a"]], r"X has shape \(1, 1\); accepted is \(m, 3, 3\)"),
                           (masked, r"X\[0, 0, 0\] is nan; accepted are finite"),
                           (1.0, r"X has shape \(\); accepted is \(m, 3, 3\)")]:
        estimator = private()
        with pytest.raises(ValueError, match=message):
            estimator.partial_fit(batch)
        with pytest.raises(ValueError, match="no batch has come in"):
            estimator.release()


# public weights

@pytest.mark.parametrize("weights", [
    np.arange(5.0), [1e-300, 1e300, 1.0, 0, 1e299], np.array([1, 2, 3, 1, 1], np.float32) / 3,
    [3, 1, 4, 1, 5], [1e-320, 0, 0, 0, 0], [1e308] * 5, np.array([2**63, 1, 7, 9, 3], np.uint64),
], ids=str)
def test_a_weighted_mean_moves_by_at_most_its_sensitivity_when_any_record_is_replaced(weights):
    radius, rng = 0.7, np.random.default_rng(0)
    ball = Ball(radius, np.eye(2), Euclidean(2))
    y = 10.0 ** rng.uniform(-2, 6, (5, 1)) * rng.standard_normal((5, 3))
    far = np.linalg.qr(rng.standard_normal((3, 3)))[0] * 1e5
    bound = Fraction(frechet_sensitivity(5, radius, weights=weights)) ** 2

    def mean(y):
        query = FrechetMean(invvecd(y), ball, weights=weights)
        return [Fraction(entry) for entry in query.step.tolist()]

    share, nearest = max(map(Fraction, map(float, weights))), 0
    share = 2 * Fraction(radius) * share / sum(map(Fraction, map(float, weights)))
    for i in range(5):
        for point in far:
            one, other = y.copy(), y.copy()
            one[i], other[i] = point, -point
            moved = sum((a - b) ** 2 for a, b in zip(mean(one), mean(other), strict=True))
            assert moved <= bound
            nearest = max(nearest, moved)
    assert nearest >= (share * (1 - Fraction(1, 10**9))) ** 2  # and it is no larger than it has to
    assert bound <= (share * (1 + Fraction(1, 10**9))) ** 2


def test_integer_weights_are_records_that_are_repeated():
    weights = np.random.default_rng(0).integers(0, 4, N)
    repeated = FrechetMean(np.repeat(X, weights, axis=0), BALL)
    np.testing.assert_allclose(FrechetMean(X, BALL, weights=weights).step, repeated.step,
                               rtol=0, atol=1e-13)
    assert frechet_sensitivity(N, RADIUS, weights=weights) == pytest.approx(
        3 * repeated.sensitivity)


def test_the_weighted_sum_has_the_same_bits_in_any_order():
    weights, rng = np.random.default_rng(0).random(N), np.random.default_rng(1)
    expected = FrechetMean(X, BALL, weights=weights).total()
    for _ in range(10):
        order = rng.permutation(N)
        total = FrechetMean(X[order], BALL, weights=weights[order]).total()
        assert total.tobytes() == expected.tobytes()


@pytest.mark.parametrize("weights, others, message", [
    (np.ones(N), {"ball": CURVED}, "weights are given on AffineInvariant"),
    (np.ones(N), {"mechanism": "k-norm gradient"}, "weights are given with 'k-norm gradient'"),
    (np.ones(N), {"mechanism": TRUNCATED}, "weights are given with 'trunc"),
    (np.ones(N - 1), {}, "weights has shape"), (np.zeros(N), {}, "weights has entries from 0"),
    (-np.ones(N), {}, "weights has entries"), (np.full(N, np.nan), {}, r"weights\[0\] is nan"),
    (np.full(N, np.inf), {}, r"weights\[0\] is inf"),
])
def test_weights_that_cannot_be_kept_are_refused_before_a_record_is_looked_at(weights, others,
                                                                             message):
    with pytest.raises(ValueError, match=message):
        private(**others).fit(np.full((N, K, K), np.nan), sample_weight=weights)


def test_who_asks_for_each_record_is_not_given_them_without_their_weights():
    query = FrechetMean(X, BALL, weights=np.ones(N))
    for asked in ("steps", "points"):
        with pytest.raises(ValueError, match="the records have weights"):
            getattr(query, asked)
