"""Vectors whose components come first, so that loops run over the batch that stands behind them."""

import math

import numpy as np

SHORT = 16  # an axis along which no loop should run


def components_first(*arrays):
    """Arrays with their last axis first, of one rank, so that what follows it broadcasts.

    In memory, too, where that axis is short.
    """
    rank = max(A.ndim for A in arrays)
    moved = (np.moveaxis(A.reshape((1,) * (rank - A.ndim) + A.shape), -1, 0) for A in arrays)
    return [np.ascontiguousarray(A) if len(A) < SHORT else A for A in moved]


def components_last(A):
    """An array with its first axis last, in memory, too."""
    return np.ascontiguousarray(np.moveaxis(A, 0, -1))


def inner(V, W):
    """Inner products of vectors whose components come first, antilinear in the first."""
    return np.einsum("i...,i...->...", V.conj(), W)


def norm(V):
    """Lengths of vectors whose components come first."""
    parts = (V.real, V.imag) if V.dtype.kind == "c" else (V,)
    return np.sqrt(sum(np.einsum("i...,i...->...", part, part) for part in parts))


def phase(z):
    """z/|z|, 1 where z is 0, and |z|."""
    size = np.abs(z)
    return np.where(size > 0, z / np.where(size > 0, size, 1), 1), size


def pivot(M):
    """Index of a component of the unit vectors `M` whose phase is no accident of rounding.

    It is 0, or that of the first component which exceeds a bound that no regular figure meets.
    """
    small = np.abs(M[0]) < 0.01 / math.sqrt(len(M))
    if not small.any():
        return None
    return np.where(small, np.argmax(np.abs(M) > math.sqrt(0.3718 / len(M)), axis=0), 0)


def exchanged(V, pivot):
    """Vectors whose components 0 and `pivot` have changed places."""
    if pivot is None:
        return V
    here = np.arange(len(V)).reshape((-1,) + (1,) * pivot.ndim) == pivot
    swapped = np.where(here, V[0], V)
    swapped[0] = np.where(here, V, 0).sum(axis=0)
    return swapped


def basis(v):
    """Lengths of the vectors `v`, and orthonormal bases, in columns, that begin along them.

    The bases have the batch first, shape `(..., components, components)`. Of 0 it is any.
    """
    length = norm(v)
    ahead = np.where(length > 0, v, 0) / np.where(length > 0, length, 1)
    ahead[0] += length == 0
    turn, size = phase(ahead[0])
    mirror = ahead.copy()
    mirror[0] += turn
    columns = np.multiply(mirror[:, None], mirror.conj()) / (-1 - size)
    columns[range(len(v)), range(len(v))] += 1
    columns[:, 0] = ahead
    return length, np.moveaxis(columns, (0, 1), (-2, -1))
