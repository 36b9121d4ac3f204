"""Blocks of a batch on threads, with one BLAS thread each."""

import contextlib
import functools
import os
from concurrent.futures import ThreadPoolExecutor

CORES = os.cpu_count() or 1


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


def one_blas_thread():
    """Context in which BLAS starts no threads, which would fight with ours; needs threadpoolctl."""
    controller = _blas()
    return controller.limit(limits=1, user_api="blas") if controller else contextlib.nullcontext()


@functools.cache
def _blas():
    try:
        from threadpoolctl import ThreadpoolController
    except ImportError:
        return None
    return ThreadpoolController()
