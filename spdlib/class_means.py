"""The means of several classes, released together at one promise."""

import functools

import numpy as np

from ._checks import choice, is_lazy, unmasked
from ._estimator import Estimator
from .accounting import in_words, spending
from .clipping import ClippedSum, project_to_ball, shrink_to_center
from .frechet import FrechetMean
from .private_mean import EXACT, MECHANISMS, NORMAL

LABELS = "private", "public"


class ClassSums(FrechetMean):
    """The query: sums of the steps to the clipped records of each class, and how many they are.

    One record, replaced by any other, moves all of it together by at most twice the radius: within
    its class one sum by 2r; from a class to another two sums by r each and, in units of at most r,
    two numbers by one each, √(2r² + 2r²) = 2r (claim SP-31). So the numbers cost nothing.

    Parameters
    ----------
    X, center, radius, space, on_invalid
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

    def __init__(self, X, y, classes, center, radius, space=None, on_invalid="raise",
                 labels="private"):
        super().__init__(X, center, radius, space, on_invalid)
        if not isinstance(self._X, np.ndarray):
            raise ValueError("X is a dask array; accepted are records in memory")
        if not self.space.flat:
            raise ValueError(f"space is {self.space!r}; accepted are flat spaces, such as its "
                             "TangentSpace at a public centre")
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
        silent = self.labels == "private" and self.on_invalid == "center"
        if not silent and (codes < 0).any():
            i = int((codes < 0).argmax())
            raise ValueError(f"y[{i}] is {self._y[i]!r}; accepted are {self.classes.tolist()}")
        return codes

    @property
    def counts(self):
        """Number of records of each class, shape `(classes,)`. Not private where labels are."""
        return np.bincount(self.codes[self.codes >= 0], minlength=len(self.classes))

    def unit(self, grid=None):
        """The length that stands for one record of a class: the radius, cut to the grid."""
        grid = self._sum(grid).grid
        return np.floor(self.radius / grid) * grid

    def total(self, grid=None):
        """The sums and, where labels are private, the numbers in their unit, shape `(dim,)`; exact.

        It is not private. ValueError for a bad record or label.
        """
        names, _ = range(len(self.classes)), self.codes  # looked at once, before threads ask

        def by_class(block, steps):
            return np.array([steps[self.codes[block] == i].sum(axis=0) for i in names])

        sums = sum(self._sum(grid).over_blocks(by_class, self._X))
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

    def _sum(self, grid):
        return ClippedSum(self.space, self.center, self.radius, self.n, self.on_invalid, grid)


class PrivateClassMeans(Estimator):
    """(ε, δ)-DP Fréchet means of several classes together, on a flat space.

    All of them are one release, with the promise of one. What it holds for is named by `labels`.
    Neighbours differ in one record, replaced by any other. With private labels its label goes with
    it, so that it may leave one class for another; the numbers of records in the classes are
    private then, and are released with the means at no cost. With public labels it stays in its
    class, and labels and numbers are public. The total number is public, and so are the classes,
    the radius and the centre; records further than `radius` from `center` are clipped to that ball.

    Parameters
    ----------
    epsilon, delta : float
        The promise, of all means together: ε from 1e-6 to 1e3, δ from 1e-300 to 1/2.
    radius : float
        Radius of the ball, in the distance of the space, chosen without a look at the data.
    classes : sequence
        The labels that there may be, numbers or strings, in the order of the means. Public: name
        those that might occur, not those that did.
    center : array of shape (k, k), or space.shape, optional
        Centre of the ball; for matrices the identity by default.
    mechanism : {"gaussian", "classical gaussian", "discrete gaussian"}
        Noise is added to the sums of all classes as to one vector. So it has to be Gaussian: the
        price of other noise grows with the number of classes. With "discrete gaussian" the promise
        holds for the floats that leave; take it for every release that leaves the house.
    on_invalid : {"raise", "center"}
        What happens to a record that is no point of the space and, with private labels, to a label
        that is none of the classes. "raise" refuses the data set, and the exception speaks of the
        data: keep it inside. "center" puts the public centre in the record's place, and counts a
        record without a class in none. A public label that is none is always refused.
    labels : {"private", "public"}
        Whether a neighbour may have another label.
    space : optional
        The space of the records, `LogEuclidean(k)` by default. A curved one has a flat one at each
        public centre, its `TangentSpace`.
    shrink : bool
        Whether each mean is drawn towards the centre by what the noise of its sum says, before it
        is projected, as `PrivateFrechetMean` does it; on spaces of 3 dimensions and more. The mean
        of a class that is small beside the noise then often is the centre.

    Attributes
    ----------
    means_ : array of shape (classes, k, k), or (classes, *space.shape)
        The releases, points of the ball.
    classes_ : array of shape (classes,)
        The labels, as they were given.
    counts_ : array of shape (classes,)
        Numbers of records: noisy ones with private labels, which may be below 0, exact public ones
        with public labels.
    mechanism_ : Mechanism
        What made it. Its scale is that of the noise on the sums: that on a mean is as many times
        smaller as its class has records.
    privacy_ : str
        The promise in words.

    Notes
    -----
    A mean is the noisy sum over the noisy number, or over 1 where that is less, and projected onto
    the ball. Where a class is small beside the noise, this is noise: some point of the ball, mostly
    far from its centre. `counts_` tells, beside the scale of its own noise,
    `mechanism_.sigma / radius`. A class that is missing is one of these and leaks nothing; if
    labels are public, its mean is the centre. What `PrivateFrechetMean` says of `rng` and of noise
    in floating point is true here, too.

    Examples
    --------
    >>> import numpy as np
    >>> from spdlib import PrivateClassMeans, ball_from_bounds, random_spd
    >>> covariances, y = random_spd(400, 3, 1.0, rng=0), np.arange(400) % 2
    >>> center, radius = ball_from_bounds(0.3, 3.0, k=3)
    >>> private = PrivateClassMeans(1.0, 1e-6, radius, classes=[0, 1], center=center)
    >>> private.fit(covariances, y).means_.shape
    (2, 3, 3)
    """

    def __init__(self, epsilon, delta, radius, classes, center=None, mechanism="gaussian",
                 on_invalid="raise", *, labels="private", space=None, shrink=False):
        self.epsilon, self.delta, self.radius, self.classes = epsilon, delta, radius, classes
        self.center, self.mechanism, self.on_invalid = center, mechanism, on_invalid
        self.labels, self.space, self.shrink = labels, space, shrink

    @np.errstate(all="ignore")
    def fit(self, X, y, *, rng=None, accountant=None, group=None):
        """Release the means of the classes.

        Parameters
        ----------
        X : array of shape (n, k, k), or (n, *space.shape)
            Points of the space.
        y : sequence of n labels
        rng, accountant, group
            As of `PrivateFrechetMean.fit`. The budget is spent once for all classes; with public
            labels on neighbours within a class only.

        Returns
        -------
        PrivateClassMeans
            Itself.

        Raises
        ------
        ValueError
            For a parameter, a shape, a record or a label that is none. Then nothing has been drawn,
            and no attribute of an earlier fit is left.
        """
        self._forget()
        query = ClassSums(X, y, self.classes, self.center, self.radius, self.space,
                          self.on_invalid, self.labels)
        make = (MECHANISMS | EXACT)[choice(self.mechanism, "mechanism", NORMAL)]
        mechanism = make(query, self.epsilon, self.delta)
        self._check_shrink(query)
        seeded, rng = rng is not None, mechanism._source(rng)
        with spending(accountant, mechanism, query.dim, group):
            draw = mechanism.prepared(query)
        answer = draw(rng)
        steps, counts = query.means(answer, getattr(mechanism, "grid", None))
        if self.shrink:
            noise = mechanism.sigma / np.maximum(counts, 1)
            steps = np.stack([shrink_to_center(*each) for each in zip(steps, noise, strict=True)])
        steps = project_to_ball(steps, query.radius)
        space, center = query.space, query.center
        self.means_ = np.stack([
            space.exp(center, space.within_reach(center, step)) for step in steps])
        self.classes_, self.counts_, self.mechanism_ = query.classes, counts, mechanism
        self.privacy_ = in_words(self._promise(query.n), mechanism, seeded)
        return self

    def _promise(self, n):
        replaced = {
            "private": f"one of n = {n} records is replaced, with its label; n",
            "public": "one record is replaced within its class; labels, and so sizes of classes",
        }
        return (f"({self.epsilon}, {self.delta})-differentially private, all means together, when "
                f"{replaced[self.labels]}, the classes, the radius {self.radius} and the centre "
                "are public")

    def _check_shrink(self, query):
        if not isinstance(self.shrink, (bool, np.bool_)):
            raise ValueError(f"shrink is {self.shrink!r}; accepted are True and False")
        if self.shrink and query.space.dim < 3:
            raise ValueError(f"shrink is True; accepted is False on {query.space!r}, since only in "
                             "3 dimensions and more is it known to be better")

    def __sklearn_tags__(self):
        tags = super().__sklearn_tags__()
        tags.target_tags.required = True
        return tags


def public_classes(classes):
    """Public labels as an array of shape (classes,). ValueError where two of them are alike."""
    unmasked(classes, "classes")
    try:
        given = list(classes)
        labels = np.asarray(given)
        distinct = labels.tolist() == given and 0 < len(set(given)) == len(given)
        distinct = distinct and not isinstance(classes, str)
    except (TypeError, ValueError):
        distinct = False
    if not distinct or labels.dtype.kind not in "biufUS":
        raise ValueError(f"classes is {classes!r}; accepted are one or more labels, all of them "
                         "numbers or all of them strings, no two alike")
    return labels


def _labels(y, n, classes):
    """The labels one by one, a list: in an array that is made of all, one might turn the others."""
    if is_lazy(y):
        raise ValueError("y is a dask array; accepted are labels in memory, as y.compute() makes")
    if isinstance(y, np.ndarray):
        words = classes.dtype.kind
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
