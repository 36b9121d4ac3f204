"""Blocks of a batch on threads, with one BLAS thread each."""

import contextlib
import functools
import os
import threading
from concurrent.futures import ThreadPoolExecutor

CORES = os.cpu_count() or 1
_ALONE = threading.RLock()


def blockwise(function, n, size, threads):
    """Call `function(block)` for the slices of this size that make up `range(n)`, on threads.

    Their number leaves the blocks, and so all roundings, as they are.
    """
    starts = iter(range(0, n, size))  # shared by the threads

    def work(_):
        for start in starts:
            function(slice(start, start + size))

    if n <= size or threads == 1:
        work(0)
        return
    with ThreadPoolExecutor(threads - 1) as pool:
        others = pool.map(work, range(threads - 1))
        work(0)
    list(others)  # so that their exceptions are raised here


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
    try:
        from threadpoolctl import ThreadpoolController
    except ImportError:
        return None
    return ThreadpoolController()
