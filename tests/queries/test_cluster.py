"""Records on a cluster: the bits of one machine, whatever the chunks and whoever computes them."""

import os
import signal
import time
from functools import partial

import numpy as np
import pytest
from conftest import mostly_slow

from spdlib import AffineInvariant, Ball, Euclidean, PrivateFrechetMean, random_spd
from spdlib.descriptors import covariance_descriptors, descriptor_ball
from spdlib.queries import FrechetMean, sums

dask = pytest.importorskip("dask", reason="dask is not installed")
da = pytest.importorskip("dask.array", reason="dask is not installed")

K, N = 4, 300
BALL = Ball.from_bounds(0.1, 10.0, K)
CURVED = Ball(BALL.radius, BALL.center, AffineInvariant(K))
SMALL = Ball(1.0, np.eye(1))
X = random_spd(N, K, 1.0, rng=0)
WEIGHTS = np.linspace(0, 3, N)
on_a_cluster = pytest.mark.xdist_group("cluster")


def chunked(X, rng):
    """The array in chunks at random, some of them empty, whose records are in pieces, too."""
    cuts = np.sort(rng.integers(0, len(X) + 1, rng.integers(0, 30)))
    sizes = np.diff([0, *cuts, len(X)]).tolist()
    return da.from_array(X, chunks=(tuple(sizes), *(-(-size // 2) for size in X.shape[1:])))


def private(ball=BALL, **options):
    return PrivateFrechetMean(1.0, 1e-6, ball, **options)


def query(X, weights=None, **options):
    return FrechetMean(X, BALL, weights=weights, **options)


@pytest.fixture(autouse=True)
def in_this_thread():
    """Chunks are computed here, one after another, unless a test says otherwise."""
    with dask.config.set(scheduler="synchronous"):
        yield


@pytest.mark.slow
@pytest.mark.parametrize("scheduler", mostly_slow(["synchronous", "threads"], "threads"))
@pytest.mark.parametrize("weights", [None, WEIGHTS], ids=["plain", "weighted"])
def test_the_sum_of_a_dask_array_has_the_bits_of_one_machine(weights, scheduler):
    rng, total = np.random.default_rng(0), query(X, weights).total()
    with dask.config.set(scheduler=scheduler):
        for _ in range(5):
            assert np.array_equal(query(chunked(X, rng), weights).total(), total)
        coarse = query(chunked(X, rng), weights).total(2.0**-20)
    assert np.array_equal(coarse, query(X, weights).total(2.0**-20)) and (coarse != total).any()


@pytest.mark.slow
def test_no_chunk_is_lost_on_the_way_up_the_tree():
    records, ball = np.arange(1.0, 74.0)[:, None], Ball(100.0, [[0.0]], Euclidean(1))
    for n in (1, 2, 7, 8, 9, 16, 17, 63, 64, 65, 73):
        X = da.from_array(records[:n, None], chunks=(1, 1, 1))
        assert FrechetMean(X, ball).total() == n * (n + 1) / 2


@pytest.mark.parametrize("options", [
    {}, {"mechanism": "l2"}, {"statistic": "tangent", "ball": CURVED}])
def test_a_release_has_the_bits_of_one_machine(options):
    lazy = chunked(X, np.random.default_rng(1))
    there = private(**options).fit(lazy, rng=1)
    assert np.array_equal(there.mean_, private(**options).fit(X, rng=1).mean_)


def test_weights_may_be_a_dask_array():
    lazy = da.from_array(WEIGHTS, chunks=7)
    assert np.array_equal(query(chunked(X, np.random.default_rng(2)), lazy).total(),
                          query(X, WEIGHTS).total())


def test_batches_may_be_dask_arrays():
    rng = np.random.default_rng(3)
    batches = [chunked(X[:100], rng), X[100:120], chunked(X[120:], rng)]
    there = private(n=N)
    for batch in batches:
        there.partial_fit(batch)
    assert np.array_equal(there.release(rng=1).mean_, private().fit(X, rng=1).mean_)


def test_each_chunk_is_computed_once():
    seen = []

    def watched(block, block_info=None):
        seen.append(block_info[0]["chunk-location"][0])
        return block

    lazy = da.from_array(X, chunks=(60, K, K)).map_blocks(watched, meta=np.empty((0, K, K)))
    private().fit(lazy)
    assert sorted(seen) == [0, 1, 2, 3, 4]


def test_a_task_that_runs_again_counts_no_record_twice(monkeypatch):
    """As where a worker has died and another one makes its sums anew."""
    for name in "_part", "_together":
        once = getattr(sums, name)
        monkeypatch.setattr(sums, name, lambda *args, once=once: (once(*args), once(*args))[1])
    lazy = da.from_array(X, chunks=(20, K, K))
    assert np.array_equal(query(lazy).total(), query(X).total())


# what is refused

def spoilt(*places):
    bad = X.copy()
    bad[list(places), 0, 0] = -1
    return bad


@pytest.mark.parametrize("chunk", mostly_slow([60, 7, 1, N], 60, 7, N))
def test_a_bad_record_is_named_by_its_index_in_the_whole(chunk):
    bad = da.from_array(spoilt(131, 240), chunks=(chunk, K, K))
    with pytest.raises(ValueError, match=r"^X\[131\] is not positive definite: "):
        private().fit(bad)


def test_of_a_batch_with_a_bad_record_none_is_added():
    there = private(n=N).partial_fit(X[:150])
    with pytest.raises(ValueError, match=r"^X\[33\] is not"):
        there.partial_fit(da.from_array(spoilt(183)[150:], chunks=(20, K, K)))
    there.partial_fit(da.from_array(X[150:], chunks=(20, K, K)))
    assert np.array_equal(there.release(rng=1).mean_, private().fit(X, rng=1).mean_)


def test_a_bad_record_may_count_as_the_centre():
    bad = spoilt(0, 1, 2, 3, 131, 299)
    lazy = da.from_array(bad, chunks=(4, K, K))  # the first chunk holds no other
    assert np.array_equal(query(lazy, on_invalid="center").total(),
                          query(bad, on_invalid="center").total())


def lazy(X=X):
    return da.from_array(X, chunks=(60, *X.shape[1:]))


def no_computing(*_):
    raise AssertionError("a record was looked at")


@pytest.mark.parametrize("refused, message", [
    (lambda: private().fit(lazy()[lazy()[:, 0, 0] > 1]),
     r"X has shape \(nan, 4, 4\); accepted are dask arrays whose sizes are known, as those of "
     r"X.compute_chunk_sizes\(\) are"),
    (lambda: private().fit(lazy().astype(bool)), "X is an array of dtype bool; accepted are real"),
    (lambda: private().fit(lazy().astype(complex)), "X is an array of dtype complex128"),
    (lambda: private().fit(lazy()[:, :3]), r"X has shape \(300, 3, 4\); accepted is \(n, 4, 4\)"),
    (lambda: private(CURVED).fit(lazy()),
     r"space is AffineInvariant\(4\); accepted for records that are a dask array are flat"),
    (lambda: private(n=299).partial_fit(lazy()), "X has 300 records after 0; accepted are 299 in"),
    (lambda: private(n=9).partial_fit(lazy()[:, :, 0]), r"X has shape \(300, 4\); accepted is"),
    (lambda: query(lazy()).steps, "the records are a dask array or came in batches; accepted"),
    (lambda: PrivateFrechetMean(1.0, 0, SMALL, "k-norm gradient").fit(lazy(X[:, :1, :1])),
     "the records are a dask array or came in batches; accepted"),
    (lambda: PrivateFrechetMean(1.0, 0, SMALL, "k-norm gradient", n=N)
     .partial_fit(X[:, :1, :1]), "mechanism is 'k-norm gradient'; accepted for records that come"),
    (lambda: covariance_descriptors(lazy(np.ones((60, 5, 5, 2)))), r"images has shape \(60, 5"),
    (lambda: covariance_descriptors(lazy(np.ones((60, 5, 5), int))), "images has dtype int64"),
    (lambda: covariance_descriptors(lazy(np.ones((60, 5, 5))), eta=0), "eta is 0; accepted are"),
])
def test_what_cannot_be_summed_is_refused_before_a_record_is_looked_at(refused, message):
    with dask.config.set(scheduler=no_computing), pytest.raises(ValueError, match=f"^{message}"):
        refused()


def test_a_chunk_of_another_shape_than_it_says_is_refused():
    """Else records that are not there would count as the centre, in silence."""
    fewer = lazy().map_blocks(lambda block: block[1:], meta=np.empty((0, K, K)))
    with pytest.raises(ValueError, match=r"^X has a chunk of shape \(59, 4, 4\); accepted is"):
        private().fit(fewer)


def test_a_chunk_of_another_precision_than_it_says_counts_for_what_it_holds():
    told = lazy().astype(np.float32)
    finer = told.map_blocks(lambda block: block.astype(float), dtype=told.dtype)
    assert private().fit(finer, rng=0).mean_.tobytes() == private().fit(
        told, rng=0).mean_.tobytes()


# descriptors

@pytest.mark.parametrize("images", [
    np.random.default_rng(0).integers(0, 256, (40, 9, 8, 3), np.uint8),
    pytest.param(np.random.default_rng(1).random((40, 9, 8)), marks=pytest.mark.slow),
], ids=["RGB", "grey"])
def test_descriptors_of_a_dask_array_are_lazy_and_have_the_bits_of_one_machine(images):
    R = covariance_descriptors(images)
    chunks = chunked(images, np.random.default_rng(2))
    with dask.config.set(scheduler=no_computing):
        there = covariance_descriptors(chunks)
    assert there.shape == R.shape and np.array_equal(there.compute(), R)
    ball = descriptor_ball(images.ndim * 2 - 5, 1e-6)
    fits = [private(ball).fit(Y, rng=1) for Y in (there, R)]
    assert np.array_equal(fits[0].mean_, fits[1].mean_)


def test_a_bad_image_is_named_by_its_index_in_the_whole():
    images = np.ones((40, 5, 5))
    images[33, 2, 2] = 2
    with pytest.raises(ValueError, match=r"^images\[33\] has values from 1.0 to 2.0"):
        covariance_descriptors(da.from_array(images, chunks=(7, 3, 3))).compute()


def test_a_worker_that_computes_in_another_way_is_refused(monkeypatch):
    total = sums.ClippedSum(BALL, N)
    assert total.path in ("compiled", "numpy")
    assert np.array_equal(sums._part(total, X, 0, N, None).total, query(X).total())
    monkeypatch.setattr(sums, "kernel_path", lambda: "compiled (baseline)")
    total.path = "numpy"
    error = sums._part(total, X, 0, N, None)
    assert str(error).startswith("a worker computes by 'compiled'; accepted is 'numpy', as here")


# processes

@pytest.mark.slow
def test_processes_make_the_bits_of_one_machine_and_name_a_bad_record():
    with dask.config.set(scheduler="processes", num_workers=2):
        total = query(chunked(X, np.random.default_rng(4)), WEIGHTS).total()
        with pytest.raises(ValueError, match=r"^X\[131\] is not") as refused:
            query(lazy(spoilt(131))).total()
    assert np.array_equal(total, query(X, WEIGHTS).total())
    assert type(refused.value) is ValueError and "Traceback" not in str(refused.value)


def deadly(block, marker, block_info=None):
    """The block; the first process that comes to the fourth one is killed."""
    if block_info[0]["chunk-location"][0] == 4:
        try:
            marker.touch(exist_ok=False)
        except FileExistsError:
            return block
        os.kill(os.getpid(), signal.SIGKILL)
    return block


@on_a_cluster
@pytest.mark.slow
def test_a_worker_that_dies_in_the_middle_leaves_no_trace(cluster, tmp_path):
    from distributed import Client

    marker, here = tmp_path / "killed", private().fit(X, rng=1)
    deaths = lazy().rechunk((11, K, K)).map_blocks(partial(deadly, marker=marker),
                                                   meta=np.empty((0, K, K)))
    with Client(cluster) as client, dask.config.set(scheduler=client):
        there = private().fit(deaths, rng=1)
        assert marker.exists()
        assert np.array_equal(there.mean_, here.mean_)
        assert np.array_equal(query(deaths, WEIGHTS).total(), query(X, WEIGHTS).total())
        assert kept(client) == {}


def kept(client):
    """What the workers still hold, after a while."""
    end = time.monotonic() + 10
    while (held := client.who_has()) and time.monotonic() < end:
        time.sleep(0.05)
    return held


@on_a_cluster
@pytest.mark.slow
def test_a_bad_record_on_a_cluster_is_named_to_its_owner_and_in_no_log(cluster):
    from distributed import Client

    with Client(cluster) as client, dask.config.set(scheduler=client):
        with pytest.raises(ValueError, match=r"^X\[131\] is not positive definite") as refused:
            private().fit(lazy(spoilt(131)))
        assert type(refused.value) is ValueError
        assert kept(client) == {}
        with pytest.raises(ZeroDivisionError):
            client.submit(divmod, 131, 0).result()  # one that is raised, to see that logs are read
        logs = str(client.get_worker_logs()) + str(client.get_scheduler_logs())
    assert "ZeroDivisionError" in logs and "not positive definite" not in logs
