"""Exact sums of clipped records: in memory, in batches, and where one machine is not enough.

Each chunk of a dask array becomes its exact sum, a few hundred bytes, where the chunk is; these are
added in a tree. Being exact, they make the same bits in any chunks, on any number of workers. They
are not private: the cluster and its scheduler are inside the walls within which the records are.
"""

import functools
import math
from itertools import pairwise

import numpy as np

from .._checks import is_lazy, of_numbers, records, renumbered
from .._kernel import DIVIDES, kernel_path
from .._parallel import CORES, blockwise, squares, whole_items
from ..spaces.ball import clip_to_ball, drawn_in, finest_grid, outside_ball, project_to_ball

MOST_AT_ONCE, MOST_NUMBERS = 2**16, 2**18  # records that are looked at together, numbers
FAN = 8  # sums of chunks that are added by one task


class ClippedSum:
    """The exact sum of the steps from a public centre to clipped records of a flat space.

    All that is said of it at the start is public. What it holds is not private.

    Parameters
    ----------
    ball : Ball
        Of a flat space; records outside of it are clipped to it.
    n : int
        How many records there may be at most.
    on_invalid : {"raise", "center"}
        What happens to a record that is no point of the space.
    grid : float, optional
        The power of two of which all entries are multiples; the finest that n records allow.

    Attributes
    ----------
    total : array of shape (dim,)
        The sum so far.
    count : int
        Number of records in it.
    """

    def __init__(self, ball, n, on_invalid="raise", grid=None):
        self.ball, self.n, self.on_invalid = ball, n, on_invalid
        self.grid = finest_grid(ball.radius, n) if grid is None else grid
        self.path = _path()
        self.total, self.count = np.zeros(ball.space.dim), 0

    def add(self, X, weights=None):
        """Itself, with the records `X`, shape `(m, *space.shape)`, each times its weight up to 1.

        All of them or, on a ValueError for a bad record or one too many, none. A dask array is
        computed by what dask is told to: threads, processes, or a cluster with a client. Each of
        its chunks is computed once, and nothing is kept. A task is a pure function, so that it can
        run again elsewhere when its worker dies. There is a ValueError, too, for a chunk that is
        not of the shape that the array says.
        """
        if self.count + len(X) > self.n:
            raise ValueError(f"X has {len(X)} records after {self.count}; accepted are "
                             f"{self.n} in all")
        if is_lazy(X):
            return self.merge(_of_chunks(self._empty(), X, weights))
        sums = self.over_blocks(lambda _, steps: np.ones(len(steps)) @ steps, X, weights)
        self.total, self.count = sum(sums, self.total), self.count + len(X)
        return self

    def over_blocks(self, function, X, weights=None):
        """`function(block, steps)` of slices of the records `X` and the clipped steps to them.

        A list in any order, made on threads; nothing is added. ValueError for the first bad record.
        """
        shape = self.ball.space.shape
        k, made, size = shape[-1], [], min(MOST_AT_ONCE, max(MOST_NUMBERS // math.prod(shape), 1))

        def work(block):
            try:
                y, _ = self.ball.seen(X[block], self.on_invalid)
            except ValueError as error:
                raise renumbered(error, "X", block.start) from None
            each = 1.0 if weights is None else weights[block, None]
            made.append(function(block, clip_to_ball(y, self.ball.radius, self.grid, each)))

        blockwise(work, len(X), size, CORES if k < DIVIDES else 1)  # else BLAS has threads itself
        return made

    def merge(self, other):
        """Itself, with the records of another sum of the same kind."""
        if self.count + other.count > self.n or self.grid != other.grid:
            raise ValueError(f"other has {other.count} records on a grid of {other.grid!r}; "
                             f"accepted are {self.n - self.count} on one of {self.grid!r}")
        self.total, self.count = self.total + other.total, self.count + other.count
        return self

    def _empty(self):
        """A sum of the same kind, of no records."""
        return ClippedSum(self.ball, self.n, self.on_invalid, self.grid)


class ClassSum(ClippedSum):
    """The exact sums of a pass, shape `(classes, dim)`.

    Without a grid, numbers within the radii, and with `means` squared distances from these, shape
    `(classes,)`. Steps are in units of the `radii`, and clipped to the length `most`. `raw` says
    whether it is given records, and not the steps from the ball's centre; `sound`, whether numbers
    leave out what is no point and counts as the centre elsewhere.
    """

    def __init__(self, ball, n, on_invalid, grid, about, radii, means=None, most=1.0, raw=True,
                 sound=False):
        super().__init__(ball, n, on_invalid, grid)
        self.about, self.radii, self.means = about, radii, means
        self.most, self.raw, self.near, self.sound = most, raw, grid is None, sound
        single = self.near or means is not None
        self.total = np.zeros(len(radii) if single else about.shape)

    def add(self, X, codes):
        """Itself, with the records `X`, of classes with these numbers; -1 is none."""
        if is_lazy(X):
            return super().add(X, codes)
        made, shape = [], self.ball.space.shape
        size = min(MOST_AT_ONCE, max(MOST_NUMBERS // math.prod(shape), 1))

        def work(block):
            made.append(self._of(self._seen(X, block) if self.raw else X[block], codes[block]))

        blockwise(work, len(X), size, CORES if shape[-1] < DIVIDES else 1)
        self.total, self.count = sum(made, self.total), self.count + len(X)
        return self

    def _seen(self, X, block):
        """Steps to the records of a block, NaN where one is none."""
        try:
            steps, sound = self.ball.seen(X[block], self.on_invalid)
        except ValueError as error:
            raise renumbered(error, "X", block.start) from None
        steps[~sound] = np.nan
        return steps

    def _of(self, steps, codes):
        """The sums, or the numbers, of a block."""
        radii = self.radii[codes]
        off = np.where(np.isnan(steps), 0, steps - self.about[codes])
        y = off / radii[:, None]
        far = ~np.isfinite(y).all(axis=1)  # in this unit
        y[far] = drawn_in(off[far], 2 * radii[far]) / radii[far, None]
        if self.near:
            within = ~outside_ball(off, radii[:, None])
            if self.sound:
                within &= ~np.isnan(steps).any(axis=1)
            return np.bincount(codes[within & (codes >= 0)], minlength=len(self.radii)) * 1.0
        if self.means is not None:
            y = project_to_ball(y, 1.0) - (self.means / self.radii[:, None])[codes]
            squared = np.trunc(np.minimum(squares(y), 1) / self.grid) * self.grid
            return np.bincount(codes, squared, minlength=len(self.radii))
        y = clip_to_ball(y, self.most, self.grid)
        return np.array([y[codes == i].sum(axis=0) for i in range(len(self.radii))])

    def _empty(self):
        return ClassSum(self.ball, self.n, self.on_invalid, None if self.near else self.grid,
                        self.about, self.radii, self.means, self.most, self.raw, self.sound)


def read_records(X, space, on_invalid="raise"):
    """The records as an array of numbers of the space, or as a dask array that can be summed.

    A sequence in which a bad record is replaced may hold such of other shapes.
    """
    read = of_numbers(space.numbers)
    if not is_lazy(X):
        return records(X, "X", read, space.shape if on_invalid == "center" else None)
    read(np.empty(0, X.dtype), "X")
    return whole_items(X, "X")


def _of_chunks(empty, X, weights):
    """The sum of the records of a dask array; the error of the first chunk that has one."""
    from dask import delayed

    ends = [0, *np.cumsum(X.chunks[0]).tolist()]
    part, together = (delayed(function, pure=False) for function in (_part, _together))
    parts = [
        part(empty, chunk, start, stop, None if weights is None else weights[start:stop])
        for chunk, (start, stop) in zip(X.to_delayed().flat, pairwise(ends), strict=True)
    ]
    while len(parts) > 1:
        parts = [together(parts[i:i + FAN]) for i in range(0, len(parts), FAN)]
    total = parts[0].compute()
    if isinstance(total, ValueError):
        raise total
    return total


@np.errstate(all="ignore")  # a task runs in a state of its own
def _part(empty, X, start, stop, weights):
    """The sum of one chunk, or its error: of one that is raised a worker tells its log."""
    if empty.path != _path():
        return ValueError(f"a worker computes by {_path()!r}; accepted is {empty.path!r}, as here, "
                          "since last bits of a record differ between the two. With "
                          "SPDLIB_KERNEL=0 in its environment each computes by 'numpy'")
    try:
        X = records(X, "X", of_numbers(empty.ball.space.numbers))
        expected = stop - start, *empty.ball.space.shape
        if X.shape != expected:
            raise ValueError(f"X has a chunk of shape {X.shape}; accepted is {expected}, as it "
                             "says itself")
        return empty._empty().add(X, weights)  # on every run of the task the first one
    except ValueError as error:
        return renumbered(error, "X", start)


def _path():
    """What computes functions of matrices here, at whatever level: that changes no bit."""
    return kernel_path().partition(" ")[0]


def _together(parts):
    """The sum of sums, or the first error among them."""
    errors = (part for part in parts if isinstance(part, ValueError))
    return next(errors, None) or functools.reduce(ClippedSum.merge, parts, parts[0]._empty())
