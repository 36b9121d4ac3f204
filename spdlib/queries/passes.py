"""Records that are looked at more than once: sums and numbers about centres found on the way.

Records of a flat space stand in classes; those of a mean are all in one. A pass knows for each
class a centre, as a step from that of the public ball, and a radius, both of them public by then.
It gives the exact sums of the steps from these centres, in units of the radii and clipped to length
1; or the numbers of records within the radii; or the sums of the squared distances of the clipped
records from means in these balls, clipped once more, about the means. What is no point of the space
counts as the centre of its class, wherever that is by then.
"""

import math

import numpy as np

from .._checks import is_lazy
from ..spaces.ball import finest_grid
from .classes import ClassSums
from .sums import ClassSum


class Asked:
    """What a pass is asked for: a vector that one record moves by twice the `radius` at most."""

    divisor = 1

    def __init__(self, ball, n, radius, total):
        self.ball, self.space, self.n, self.radius, self.total = ball, ball.space, n, radius, total
        self.sensitivity = self.chart_sensitivity = 2 * radius

    @property
    def step(self):
        """The vector. It is not private."""
        return self.total()


class Passes:
    """The records of a query, which may be asked several times.

    A dask array is computed anew by each pass; of an array in memory the steps from the public
    centre are kept. From the first draw on `on_invalid` has to be "center": nothing may be refused.

    Parameters
    ----------
    query : FrechetMean or ClassSums
        On a flat space, and without weights.

    Attributes
    ----------
    private : bool
        Whether labels are private: then the numbers of records are asked for with the sums.
    counts : array of shape (classes,)
        Numbers of records; not private where labels are.

    Raises
    ------
    ValueError
        For a bad record or label.
    """

    def __init__(self, query):
        self.query, classed = query, isinstance(query, ClassSums)
        self.private = classed and query.labels == "private"
        self._codes = query.codes if classed else np.zeros(query.n, np.int8)
        self.counts = query.counts if classed else np.array([query.n])
        self._X, self.on_invalid = query.as_read, query.on_invalid
        if not is_lazy(self._X):
            self._X, sound = query.ball.seen(self._X, query.on_invalid)
            self._X[~sound] = np.nan

    def sums(self, about, radii):
        """Sums and, where labels are private, numbers of records: `Asked`.

        One record, replaced by any other, moves them by 2 at most: that of its class by 2 or, into
        another class, two sums and two numbers by 1 each.
        """

        def total(grid=None):
            grid = finest_grid(1.0, self.query.n) if grid is None else grid
            sums = self._pass(about, radii, grid).ravel()
            return np.append(sums, self.counts * 1.0) if self.private else sums

        return Asked(self.query.ball, self.query.n, 1.0, total)

    def near(self, about, radii, sound=False):
        """Numbers of records within the radii, of those that are `sound` or of all: `Asked`.

        One record moves one of them by 1 or, where labels are private, two.
        """
        moved = math.nextafter(math.sqrt(0.5), 1) if self.private else 0.5
        return Asked(self.query.ball, self.query.n, moved,
                     lambda grid=None: self._pass(about, radii, None, sound=sound))

    def spread(self, about, radii, means):
        """Sums of squared distances, of at most a radius, from `means`, steps from the centres.

        In units of squared radii one record moves one of them by 1 at most: `Asked`. ValueError
        where labels are private, so that it moves two.
        """
        if self.private:
            raise ValueError("labels is 'private'; accepted with a spread is 'public'")

        def total(grid=None):
            grid = finest_grid(0.5, self.query.n) if grid is None else grid
            return self._pass(about, radii, grid, means)

        return Asked(self.query.ball, self.query.n, 0.5, total)

    def means(self, answer, radii):
        """What an answer to `sums` says: steps from the centres to the means, and numbers."""
        size = len(radii) * self.query.space.dim
        counts = answer[size:] if self.private else self.counts
        there = np.asarray(radii) * (self.private | (counts > 0))  # of nobody it is the centre
        steps = answer[:size].reshape(len(radii), -1) / np.maximum(counts, 1)[:, None]
        return steps * there[:, None], counts

    def _pass(self, about, radii, grid, means=None, sound=False):
        query = self.query
        empty = ClassSum(query.ball, query.n, self.on_invalid, grid, about, radii, means,
                         raw=is_lazy(self._X), sound=sound)
        return empty.add(self._X, self._codes).total
