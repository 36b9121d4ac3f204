"""The means of several classes, released together at one promise."""

from typing import Any, Self

import numpy as np
from numpy.typing import ArrayLike

from .._checks import Seed
from ..accounting import document, released_ball
from ..accounting.account import Account, Group
from ..mechanisms import MEANS, Choice, Mechanism, chosen
from ..mechanisms.refined import Refined, refined
from ..queries import ClassSums
from ..spaces.ball import Ball, project_to_ball, shrink_to_center
from .base import Estimator, check_shrinks, named, paid


class PrivateClassMeans(Estimator):
    """(ε, δ)-DP Fréchet means of several classes together, on a flat space.

    All of them are one release, with the promise of one. `labels` says for which neighbours it
    holds. Neighbours differ in one record, replaced by any other. With private labels its label is
    replaced with it, so that it may leave one class for another; the numbers of records in the
    classes are private then, and are released with the means at no cost. With public labels it
    stays in its class, and labels and numbers are public. The total number is public, and so are
    the classes and the ball, to which records outside of it are clipped.

    Parameters
    ----------
    epsilon, delta : float
        The promise, of all means together: ε from 1e-6 to 1e3, δ from 1e-300 to 1/2.
    ball : Ball
        The public ball, of a flat space, chosen without a look at the data. A curved space has a
        flat one at each public centre: `ball.tangent()`.
    classes : sequence
        The possible labels, numbers or strings, in the order of the means. Public: name the labels
        that might occur, not the labels that did.
    mechanism : str, class of a Mechanism, or one `with_options`
        "gaussian", "classical gaussian", "discrete gaussian", or one of your own.
        Noise is added to the sums of all classes as to one vector. So it has to be Gaussian: the
        price of other noise grows with the number of classes. With "discrete gaussian" the promise
        holds for the floats that are published; use it for every release that you publish.
    on_invalid : {"raise", "center"}
        What happens to a record that is not a point of the space and, with private labels, to a
        label that is not one of the classes. "raise" refuses the data set, and the exception speaks
        of the data: do not publish it. "center" puts the public centre in the record's place, and
        counts a record without a class in no class. A public label that is not one of the classes
        is always refused.
    labels : {"private", "public"}
        Whether a neighbour may have another label.
    shrink : bool
        Whether each mean is drawn towards the centre, by an amount that depends on the noise of its
        sum, before it is projected, as in `PrivateFrechetMean`; on spaces of 3 dimensions and more.
        The mean of a class that is small beside the noise then often is the centre.
    refine : None, "auto" or int
        As of `PrivateFrechetMean`: here each class gets a ball of its own.

    Attributes
    ----------
    means_ : array of shape (classes, k, k), or (classes, *space.shape)
        The releases, points of the ball.
    classes_ : array of shape (classes,)
        The labels, as they were given.
    balls_ : list of Ball
        The balls to which the records of the classes were clipped: the public one, or those that
        `refine` has found.
    counts_ : array of shape (classes,)
        Numbers of records: noisy ones with private labels, which may be below 0, exact public ones
        with public labels.
    mechanism_ : Mechanism
        What made it. Its scale is the scale of the noise on the sums; the scale of the noise on a
        mean is this divided by the number of records in its class.
    privacy_ : str
        The promise in words.
    release_ : Release
        All of this as a document that may be published.

    Notes
    -----
    A mean is the noisy sum over the noisy number, or over 1 where that is less, and projected onto
    the ball. Where a class is small beside the noise, this is noise: some point of the ball, mostly
    far from its centre. `counts_` shows this, if it is compared with the scale of its own noise,
    `mechanism_.sigma / radius`. A class without records is such a class and leaks nothing; if
    labels are public, its mean is the centre. What `PrivateFrechetMean` says of `rng` and of noise
    in floating point is true here, too.

    Examples
    --------
    >>> import numpy as np
    >>> from spdlib import Ball, PrivateClassMeans, random_spd
    >>> covariances, y = random_spd(400, 3, 1.0, rng=0), np.arange(400) % 2
    >>> private = PrivateClassMeans(1.0, 1e-6, Ball.from_bounds(0.3, 3.0, k=3), classes=[0, 1])
    >>> private.fit(covariances, y).means_.shape
    (2, 3, 3)
    """

    SUPERVISED = True

    def __init__(self, epsilon: float, delta: float, ball: Ball | None = None,
                 classes: ArrayLike | None = None,
                 mechanism: str | type[Mechanism] | Choice = "gaussian", on_invalid: str = "raise",
                 *, labels: str = "private", shrink: bool = False, refine: int | str | None = None,
                 **moved: Any):
        self._refuse(moved)
        self.epsilon, self.delta, self.ball, self.classes = epsilon, delta, ball, classes
        self.mechanism, self.on_invalid = mechanism, on_invalid
        self.labels, self.shrink, self.refine = labels, shrink, refine

    @np.errstate(all="ignore")
    def fit(self, X: ArrayLike, y: ArrayLike, *, rng: Seed = None, accountant: Account = None,
            group: Group = None) -> Self:
        """Release the means of the classes.

        Parameters
        ----------
        X : array or dask.array of shape (n, k, k), or (n, *space.shape)
            Points of the space; a dask array as of `PrivateFrechetMean.fit`, with labels in memory.
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
            For an invalid parameter, shape, record or label. Then nothing has been drawn, and no
            attribute of an earlier fit is left.
        """
        self._forget()
        query = ClassSums(X, y, self.classes, self.ball, self.on_invalid, self.labels)
        asked = chosen(self.mechanism, MEANS)
        parts = refined(asked, query, self.epsilon, self.delta, self.refine, self.shrink)
        mechanism = named(parts or asked.of(query, self.epsilon, self.delta))
        if mechanism.law != "gaussian":
            raise ValueError(f"mechanism is {self.mechanism!r}; accepted are those of Gaussian "
                             "noise, whose price does not grow with the number of classes")
        check_shrinks(self.shrink, query, mechanism)
        draw = paid(self.delta, mechanism, query, query.dim, rng, accountant, group)
        answer, space, center, found = draw(), query.space, query.ball.center, {}
        if isinstance(mechanism, Refined):
            about, radii, steps, counts, *_ = mechanism.found(answer)
            counts = query.counts if self.labels == "public" else counts  # as whole numbers
            found["shares"] = mechanism.shares
        else:
            steps, counts = query.means(answer, getattr(mechanism, "grid", None))
            if self.shrink:
                noise = mechanism.sigma / np.maximum(counts, 1)
                steps = [shrink_to_center(*each) for each in zip(steps, noise, strict=True)]
            steps = project_to_ball(steps, query.radius)
            about, radii = np.zeros_like(steps), np.full(len(steps), query.radius)
        self.balls_ = [query.ball] * len(steps)
        if found:
            self.balls_ = [query.ball.moved(*each) for each in zip(about, radii, strict=True)]
        self.means_ = np.stack(
            [space.exp(center, space.within_reach(center, step)) for step in about + steps])
        self.classes_, self.counts_ = query.classes, counts
        replaced = f"one of n = {query.n} records is replaced, with its label; n"
        if self.labels == "public":
            replaced = "one record is replaced within its class; labels, and so sizes of classes"
        words = (f", all means together, when {replaced}, the classes and the ball of radius "
                 f"{query.radius} are public")
        if found:
            found["balls"] = tuple(map(released_ball, self.balls_))
            words += "; the balls of the classes are part of what is released"
        self._promise(words, mechanism, query, rng is not None)
        self.release_ = document(self, query, mechanism, group=group, seeded=rng is not None,
                                 ball=query.ball, means=self.means_, steps=about + steps,
                                 labels=tuple(self.classes_.tolist()),
                                 counts=np.asarray(counts, float), shrink=self.shrink, **found)
        return self

    @np.errstate(all="ignore")
    def predict(self, X: ArrayLike) -> np.ndarray:
        """The label of the nearest mean for each record of shape `(n, *space.shape)`.

        What it says of records that were not fitted costs no privacy.
        """
        if not hasattr(self, "means_"):
            raise ValueError("no means have been released; accepted is a prediction after fit")
        space = self.balls_[0].space
        distances = np.stack([space.dist(X, mean) for mean in self.means_])
        return self.classes_[distances.argmin(axis=0)]
