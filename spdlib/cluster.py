"""The same sums where one machine is not enough: of the records of a dask array, on a cluster.

Each chunk becomes its exact sum, a few hundred bytes, where the chunk is; these are added in a
tree. Being exact, they make the same bits in any chunks, on any number of workers. They are not
private: the cluster and its scheduler are inside the walls within which the records are.
"""

import functools
from itertools import pairwise

import numpy as np

from ._checks import records, renumbered
from ._parallel import whole_items
from .clipping import ClippedSum, numbers_of

FAN = 8  # sums that are added by one task


def lazy_records(X, read):
    """The dask array `X` of records, whole ones in each chunk; `read` knows the types of numbers.

    ValueError for another type, and where the number of records is not known; nothing is computed.
    """
    read(np.empty(0, X.dtype), "X")
    return whole_items(X, "X")


def add(sum, X, weights=None):
    """The `ClippedSum` itself, with the records of a dask array, each times its weight.

    What computes is what dask is told to: threads, processes, or a cluster with a client. Each
    chunk is computed once, and nothing is kept. A task is a pure function, so that it can run again
    elsewhere when its worker dies.

    Parameters
    ----------
    sum : ClippedSum
    X : dask.array of shape (m, *space.shape)
    weights : array of shape (m,), optional

    Raises
    ------
    ValueError
        For a bad record, by its index in `X`, the first that a chunk finds in the first such chunk;
        for one too many; for a chunk that is not of the shape that `X` says. Then none is added.
    """
    from dask import delayed

    X = lazy_records(X, numbers_of(sum.space))
    sum.admit(X)
    empty, ends = _empty(sum), [0, *np.cumsum(X.chunks[0]).tolist()]
    parts = [delayed(_part, pure=False)(empty, chunk, start, stop,
                                        None if weights is None else weights[start:stop])
             for chunk, (start, stop) in zip(X.to_delayed().flat, pairwise(ends), strict=True)]
    while len(parts) > 1:
        parts = [delayed(_together, pure=False)(parts[i:i + FAN])
                 for i in range(0, len(parts), FAN)]
    total = parts[0].compute()
    if isinstance(total, ValueError):
        raise total
    return sum.merge(total)


def _empty(sum):
    """A sum of the same kind, of no records."""
    return ClippedSum(sum.space, sum.center, sum.radius, sum.n, sum.on_invalid, sum.grid)


@np.errstate(all="ignore")  # a task runs in a state of its own
def _part(empty, X, start, stop, weights):
    """The sum of one chunk, or its error: of one that is raised a worker tells its log."""
    try:
        X = records(X, "X", numbers_of(empty.space))
        expected = stop - start, *empty.space.shape
        if X.shape != expected:
            raise ValueError(f"X has a chunk of shape {X.shape}; accepted is {expected}, as it "
                             "says itself")
        return _empty(empty).add(X, weights)  # on every run of the task the first one
    except ValueError as error:
        return renumbered(error, "X", start)


def _together(parts):
    """The sum of sums, or the first error among them."""
    errors = (part for part in parts if isinstance(part, ValueError))
    return next(errors, None) or functools.reduce(ClippedSum.merge, parts, _empty(parts[0]))
