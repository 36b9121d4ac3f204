"""Vectors whose components come first, so that loops run over the batch that stands behind them."""

import math

import numpy as np

from .._parallel import squares

SHORT = 16  # an axis along which no loop should run


def ahead(*arrays):
    """Arrays with their last axis first, of one rank, so that what follows it broadcasts."""
    rank = max(A.ndim for A in arrays)
    order = rank - 1, *range(rank - 1)  # np.moveaxis takes longer than all else for few vectors
    return [A.reshape((1,) * (rank - A.ndim) + A.shape).transpose(order) for A in arrays]


def components_first(*arrays):
    """The same, in memory, too, where that axis is short."""
    return [np.ascontiguousarray(A) if len(A) < SHORT else A for A in ahead(*arrays)]


def behind(A):
    """An array with its first axis last."""
    return A.transpose(*range(1, A.ndim), 0)


def total(V):
    """Sums of components."""
    return np.einsum("i...->...", V)


def inner(V, W):
    """Inner products of vectors whose components come first, antilinear in the first."""
    return np.einsum("i...,i...->...", V.conj(), W)


def norm(V):
    """Lengths of vectors whose components come first."""
    if V.dtype.kind == "c":
        return np.sqrt(inner(V.real, V.real) + inner(V.imag, V.imag))
    return np.sqrt(inner(V, V))


def without_mean(X):
    """Centred vectors with a component less, by the reflection of constants to the first axis."""
    return np.subtract(X[1:], X[0] / (math.sqrt(len(X)) + 1), order="C")


def with_mean(X):
    """The centred vectors that `without_mean` maps to `X`."""
    root, whole = math.sqrt(len(X) + 1), total(X)
    return np.concatenate([-(whole / root)[None], X - whole / (root * (root + 1))])


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
    largest = np.abs(v).max(axis=0)
    unit = 2.0**np.clip(np.frexp(largest)[1], -1021, 1023)  # so that squares are floats
    v = v / unit
    length = norm(v)
    ahead = np.where(length > 0, v, 0) / np.where(length > 0, length, 1)
    ahead[0] += length == 0
    turn, size = phase(ahead[0])
    mirror = ahead.copy()
    mirror[0] += turn
    columns = np.multiply(mirror[:, None], mirror.conj()) / (-1 - size)
    columns[range(len(v)), range(len(v))] += 1
    columns[:, 0] = ahead
    return length * unit, np.moveaxis(columns, (0, 1), (-2, -1))


def lengths(v):
    """Lengths of coordinates, which come last here, shape `(...)`."""
    return np.sqrt(squares(v))
