"""Sums of several classes: the query."""

import functools

import numpy as np

from .._checks import choice, is_lazy, unmasked
from .mean import FrechetMean, check_flat
from .sums import ClassSum

LABELS = "private", "public"


class ClassSums(FrechetMean):
    """The query: sums of the steps to the clipped records of each class, and how many they are.

    One record, replaced by any other, moves all of it together by at most twice the radius: within
    its class one sum by 2r; from a class to another two sums by r each and, in units of at most r,
    two numbers by one each, √(2r² + 2r²) = 2r (claim SP-31). So the numbers cost nothing.

    Parameters
    ----------
    X, ball, on_invalid
        As `FrechetMean`; the space is flat.
    y : sequence of n labels
        Each is looked at by itself, and not before the sums are asked for.
    classes : sequence
        The public labels.
    labels : {"private", "public"}
        Whether a record's label may be replaced with it. With "public" the numbers are left out.

    Raises
    ------
    ValueError
        For what is none of these; no record and no label is looked at for it.
    """

    divisor = 1

    def __init__(self, X, y, classes, ball, on_invalid="raise", labels="private"):
        super().__init__(X, ball, on_invalid)
        check_flat(self.space)
        self.classes, self.labels = public_classes(classes), choice(labels, "labels", LABELS)
        self._y = _labels(y, self.n, self.classes)

    @property
    def sensitivity(self):
        """How far the answer moves at most when one record is replaced; nothing is rounded."""
        return 2 * self.radius

    @property
    def dim(self):
        """Number of coordinates of the answer."""
        return len(self.classes) * (self.space.dim + (self.labels == "private"))

    @functools.cached_property
    def codes(self):
        """Index of each record's class, -1 where its label is none, shape `(n,)`. Not private.

        ValueError for a label that is none, but where labels are private and `on_invalid` is
        "center".
        """
        index = {label: i for i, label in enumerate(self.classes.tolist())}
        codes = np.fromiter((_code(label, index) for label in self._y), int, self.n)
        i = int(codes.argmin())
        if codes[i] < 0 and not (self.labels == "private" and self.on_invalid == "center"):
            raise ValueError(f"y[{i}] is {self._y[i]!r}; accepted are {self.classes.tolist()}")
        return codes

    @property
    def counts(self):
        """Number of records of each class, shape `(classes,)`. Not private where labels are."""
        return np.bincount(self.codes[self.codes >= 0], minlength=len(self.classes))

    def unit(self, grid=None):
        """The length that stands for one record of a class: the radius, cut to the grid."""
        grid = self._empty(grid).grid
        return np.floor(self.radius / grid) * grid

    def total(self, grid=None):
        """The sums and, where labels are private, the numbers in their unit, shape `(dim,)`; exact.

        It is not private. ValueError for a bad record or label.
        """
        shape = len(self.classes), self.space.dim
        empty = ClassSum(self.ball, self.n, self.on_invalid,
                         self._empty(grid).grid, np.zeros(shape), np.ones(shape[0]),
                         most=self.radius)
        sums = empty.add(self._X, self.codes).total
        if self.labels == "public":
            return sums.ravel()
        return np.concatenate([sums.ravel(), self.counts * self.unit(grid)])

    def means(self, answer, grid=None):
        """Steps to the means that an answer of shape `(..., dim)` tells of, and the numbers.

        Shapes `(..., classes, space.dim)` and `(..., classes)`. The steps are bare, not projected
        onto the ball; where a number is below 1 it counts as 1. Of public numbers nothing is told
        but themselves, and without records the step is 0.
        """
        size = len(self.classes) * self.space.dim
        sums = answer[..., :size].reshape(*answer.shape[:-1], len(self.classes), self.space.dim)
        if self.labels == "public":
            counts = self.counts
            sums = sums * (counts > 0)[:, None]
        else:
            counts = answer[..., size:] / self.unit(grid)
        return sums / np.maximum(counts, 1)[..., None], counts


def public_classes(classes):
    """Public labels as an array of shape (classes,). ValueError where two of them are alike."""
    unmasked(classes, "classes")
    try:
        given = list(classes)
        labels = np.asarray(given)
        distinct = labels.tolist() == given and 0 < len(set(given)) == len(given)
    except (TypeError, ValueError):
        distinct = False
    sound = distinct and labels.dtype.kind in "biufU" and (all(map(
        _writable, labels.tolist())) if labels.dtype.kind == "U" else np.isfinite(
            labels.astype(float)).all())
    if not sound or isinstance(classes, str):
        raise ValueError(f"classes is {classes!r}; accepted are one or more labels, all of them "
                         "finite numbers or all of them strings that UTF-8 can write, no two alike")
    return labels


def _writable(text):
    return not any("\ud800" <= letter <= "\udfff" for letter in text)


def _labels(y, n, classes):
    """The labels one by one, a list: in an array that is made of all, one might turn the others."""
    if is_lazy(y):
        raise ValueError("y is a dask array; accepted are labels in memory, as y.compute() makes")
    if hasattr(y, "dtype"):  # an array, or what holds its entries in one type as well
        y, words = np.asanyarray(y), classes.dtype.kind
        if (words in "iu" and y.dtype.kind == "f"
                and classes.astype(y.dtype).astype(object).tolist() != classes.tolist()):
            raise ValueError(f"y is an array of dtype {y.dtype}, in which {classes.tolist()} are "
                             "not all themselves; accepted are integers, or a list")
        if y.dtype.kind != "O" and (y.dtype.kind in "US") != (words in "US"):
            raise ValueError(f"y is an array of dtype {y.dtype}; accepted are labels such as "
                             f"{classes.tolist()}")
        shape, hidden, y = y.shape, np.ma.getmask(y), y.tolist()
        if np.ndim(hidden) == 1:  # one by one, as np.ma.masked in a list: no label at all
            y = [np.ma.masked if h else label for label, h in zip(y, hidden.tolist(), strict=True)]
    else:
        try:
            y = list(y)
        except TypeError:
            raise ValueError(f"y is {y!r}; accepted are {n} labels, one a record") from None
        shape = len(y),
    if shape != (n,):
        raise ValueError(f"y has shape {shape}; accepted is ({n},), one label a record")
    return y


def _code(label, index):
    """Index of a label, -1 of what is none: a list, or whatever cannot be compared."""
    try:
        return index.get(label, -1)
    except Exception:
        return -1
