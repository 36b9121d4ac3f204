"""Batches: in blocks, on threads with one BLAS thread each."""

import contextlib
import functools
import math
import os
import threading
from concurrent.futures import ThreadPoolExecutor

import numpy as np

CORES = os.cpu_count() or 1


def _lock_for_forks():
    """A lock for which a fork waits: a child has neither it, nor a limit of BLAS, for ever."""
    lock = threading.RLock()
    if hasattr(os, "register_at_fork"):
        os.register_at_fork(before=lock.acquire, after_in_parent=lock.release,
                            after_in_child=lock.release)
    return lock


_ALONE = _lock_for_forks()


def blockwise(function, n, size, threads):
    """Call `function(block)` for the slices of this size that make up `range(n)`, on threads.

    Their number leaves the blocks, and so all roundings, as they are; on one of them a call starts
    no others. Each computes in a floating-point error state of its own, whatever that of the caller
    is.
    """

    @np.errstate(all="ignore")
    def work(start):
        function(slice(start, start + size))

    starts = range(0, n, size)
    if n <= size or threads == 1 or threading.current_thread().name.startswith(__name__):
        for start in starts:
            work(start)
        return
    with ThreadPoolExecutor(threads, __name__) as pool:
        list(pool.map(work, starts))  # so that their exceptions are raised here


def by_blocks(function, arrays, tails, made, size, threads=1):
    """`function(*arrays)`, in blocks of about `size` items, so that what it needs stays in a cache.

    An array's last axes, `tails` of them, are those of one item; the rest broadcast. `made` is an
    empty array for one result. Blocks are cut along the longest axis of the batch. An item that is
    alone is computed beside a copy of itself: else its components would be added up in another
    order.
    """
    pairs = list(zip(arrays, tails, strict=True))
    batch = np.broadcast_shapes(*(A.shape[:A.ndim - tail] for A, tail in pairs))
    n = math.prod(batch)
    if n == 1:
        *shared, last = (A.reshape(A.shape[A.ndim - tail:]) for A, tail in pairs)
        return function(*shared, np.stack([last, last]))[0].reshape(batch + made.shape)
    if n <= size:
        return np.asarray(function(*arrays), order="C")
    axis = int(np.argmax(batch)) - len(batch)
    result = np.empty(batch + made.shape, made.dtype)

    def cut(A, tail, block):
        at = A.ndim + axis - tail
        return A[(slice(None),) * at + (block,)] if at >= 0 and A.shape[at] > 1 else A

    size = max(size * batch[axis] // n, 1)

    def work(block):
        parts = [cut(A, tail, block) for A, tail in pairs]
        cut(result, made.ndim, block)[...] = by_blocks(function, parts, tails, made, n)

    blockwise(work, batch[axis], size, threads)
    return result


def whole_items(X, name):
    """The dask array `X`, each of whose chunks then holds whole items of its first axis.

    ValueError where nobody knows how many items there are.
    """
    if any(math.isnan(size) for size in X.shape):
        raise ValueError(f"{name} has shape {X.shape}; accepted are dask arrays whose sizes are "
                         f"known, as those of {name}.compute_chunk_sizes() are")
    return X.rechunk({axis: -1 for axis in range(1, X.ndim)})


@contextlib.contextmanager
def one_blas_thread():
    """Context in which BLAS starts no threads, which would fight with ours; needs threadpoolctl.

    The limit is that of the whole process. Of two calls that overlap, the later would take the
    limit of the earlier for the original one and leave it behind, so they wait for each other.
    """
    if (controller := _blas()) is None:
        yield
    else:
        with _ALONE, controller.limit(limits=1, user_api="blas"):
            yield


@functools.cache
def _blas():
    """What limits the threads of BLAS, or None where there is no threadpoolctl."""
    with contextlib.suppress(ImportError):
        from threadpoolctl import ThreadpoolController
        return ThreadpoolController()


def squares(v):
    """Squared lengths along the last axis, shape `(...)`, each added up as in a batch.

    A lone row of more than 8192 numbers NumPy adds up in another order than two of them.
    """
    if 0 < v.size == v.shape[-1]:
        return squares(np.stack([v, v]))[0]
    return np.einsum("...i,...i->...", v, v)
