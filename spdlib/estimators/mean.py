"""The private release of a Fréchet mean."""

import math
from typing import Any, Self

import numpy as np
from numpy.typing import ArrayLike

from .._checks import Seed, choice, flag
from ..accounting import document
from ..accounting.account import Account, Group
from ..mechanisms import MEANS, Choice, MeanName, Mechanism, chosen
from ..mechanisms.counted import Counted
from ..mechanisms.refined import Refined, refined
from ..queries.mean import FrechetMean, RunningMean, checked_ball
from ..spaces import Ball, LogEuclidean
from ..spaces.ball import project_to_ball, shrink_to_center
from .base import Estimator, check_shrinks, named, paid

LEAST_OFF = 1e-9  # share of the radius; what is less is rounding, of which a document has no word


class PrivateFrechetMean(Estimator):
    """(ε, δ)-DP Fréchet mean, of SPD matrices in the log-Euclidean distance or on another space.

    Neighbours differ in one record, replaced by any other; the number of records is public. Records
    outside of the ball are clipped to it, so the promise holds for any data. The release lies in
    the same ball, which holds the mean of the clipped records. Where a projection onto the ball
    never takes a release further from that mean, the release is projected, which costs no privacy;
    elsewhere it is drawn in the ball.

    Parameters
    ----------
    epsilon, delta : float
        The promise: ε from 1e-6 to 1e3, δ from 1e-300 to 1/2, or 0 for the pure ones: "laplace",
        "k-norm gradient" and "truncated loss".
    ball : Ball
        The public ball: choose it without looking at the data. `Ball.from_bounds` makes one from
        bounds on eigenvalues.
    mechanism : str, class of a Mechanism, or one `with_options`
        "gaussian" or "classical gaussian", the tangent Gaussian with its analytic or its classical
        scale, and "l2", the ℓ2 mechanism, are (ε, δ)-DP; on a curved space their noise is added in
        the chart at the centre. "laplace", the Riemannian Laplace, "k-norm gradient" and
        "truncated loss" are ε-DP; the last needs the distance beyond which a record has no further
        effect, as in `TruncatedLoss.with_options(clip=0.1)`. Which of the four that add noise errs
        least on a flat space depends on the dimension, ε and δ, not on the data. "discrete
        gaussian", on flat spaces and for the tangent mean, errs as "gaussian" does up to some ten
        million records, and its promise holds for the floats that are published: with OpenDP
        (`spdlib[hardened]`), use it for every release that you publish.
    on_invalid : {"raise", "center"}
        What happens to a record that is not a point of the space, that is masked, or that has
        entries which are not numbers. "raise" refuses the data set, and the exception speaks of the
        data: do not publish it. "center" puts the public centre in its place: each record is mapped
        by itself, so n stays public and the sensitivity does not change. It is meant for a few
        records: with `refine` a bad one counts as the centre of the ball as found. With `count` the
        release tells how many were bad or clipped, with noise; else nothing does.
    statistic : {"frechet", "tangent"}
        What is released: the Fréchet mean, or the tangent mean, the point to which the mean of the
        steps from the centre leads. That is a mean in a flat space, `ball.tangent()`: no curvature
        enters its sensitivity, 2 radius/n, and any radius below the injectivity radius will do.
    shrink : bool
        Whether a release with Gaussian noise is drawn towards the centre before it is projected
        (`shrink_to_center`), in a flat space of 3 dimensions or more. That costs no privacy, and
        makes the mean squared distance from the mean of the clipped records smaller than the mean
        square of the noise, wherever that mean lies; much smaller where the noise is as large as
        the ball. It may be larger than after projection alone by up to 8% (1% at d = 45), for a
        mean near the sphere of a ball that is larger than the noise. `expected_error` knows both.
    refine : None, "auto" or int
        Rounds in which a small share of the budget finds a smaller ball about the records before
        the rest of it goes to their mean (`spdlib.mechanisms.refined`): with "gaussian" and
        "discrete gaussian", in a flat space or for the tangent mean, without weights. Where bounds
        are honest and wide, errors are several times as small. "auto" is three rounds where there
        are enough records for a first centre, and none otherwise.
    spread : None, True or float
        Share of the budget (of μ²; True is 0.05) for the mean squared distance of the records from
        the release, in the ball and again about the release clipped to its radius R: one record
        moves it by R²/n (claim SP-36). It is available where `refine` is.
    count : None, True or float
        Share of the budget (True is 0.02; of μ², or of ε where the promise is pure) for the number
        of records outside of the ball, which tells whether the ball was chosen well. It is
        available where `refine` is, and with a pure mechanism on any space.
    n : int, optional
        Public number of the records that come in batches; used by `partial_fit` only.

    Attributes
    ----------
    mean_ : array of shape (k, k), or space.shape
        The release, a point of the space. Where float64 does not hold it, it is drawn towards the
        centre until it does, which costs no privacy either.
    log_mean_ : array of shape (d,)
        In the log-Euclidean distance only: `vecd` of the release's logarithm, centre included; of a
        matrix that float64 does not hold, for which `mean_` is one nearer to the centre.
    ball_ : Ball
        The ball to which records were clipped: the public one, or the one that `refine` has found,
        which is private output as the release is.
    count_ : int
        With `count`, the noisy number of records that are outside of `ball_` or no points.
    spread_ : float
        With `spread`, the noisy mean squared distance of the records from the release.
    mechanism_ : Mechanism
        What made it, with the scale of its noise: `mechanism_.sigma` and `.mu`, or `.scale`; with
        `refine`, `spread` and `count` the scales of the parts are in `release_.noises`.
    privacy_ : str
        The promise in words.
    release_ : Release
        All of this as a document that may be published, `release_.to_json()`; what a chain has
        drawn gets none.

    Notes
    -----
    Parameters are validated by `fit`, before a record is looked at; what has been drawn is always
    returned. Each call of `fit` is a release of its own and costs its own (ε, δ). The estimator
    keeps no generator, and nothing of the data but the release.

    The promise of all but "discrete gaussian" is a promise for noise in real numbers. The low-order
    bits of float64 noise can tell two data sets apart (Mironov 2012; Haney et al. 2022): take the
    answers 0 and 1, released at ε = 1 and δ = 1e-6 with sensitivity 1. In over 1% of its releases
    one of them shows last bits that the other never shows, and rounding such a release proves
    nothing. NumPy's generators are not cryptographic either: anyone who can guess a seed can remove
    the noise, so give `rng` for experiments only. "discrete gaussian" adds exact noise to exact
    sums, in integers and from the system's entropy, and takes no `rng` (claim SP-21). How long that
    takes, what stays in memory and an exception that mentions a record are outside of any promise.

    Examples
    --------
    >>> from spdlib import Ball, PrivateFrechetMean, random_spd
    >>> covariances = random_spd(400, 3, 1.0, rng=0)
    >>> ball = Ball.from_bounds(0.3, 3.0, k=3)
    >>> private = PrivateFrechetMean(epsilon=1.0, delta=1e-6, ball=ball).fit(covariances)
    >>> private.mean_.shape
    (3, 3)
    >>> private.mechanism_.sigma < 0.05
    True
    """

    MOVED = Estimator.MOVED | {
        "clip": "mechanism=TruncatedLoss.with_options(clip=...)",
        "domain": "mechanism=RiemannianLaplace.with_options(domain=Ball(...))",
        "approximate": "mechanism=KNormGradient.with_options(approximate=True)"
    }

    def __init__(self, epsilon: float, delta: float, ball: Ball | None = None,
                 mechanism: MeanName | type[Mechanism] | Choice = "gaussian",
                 on_invalid: str = "raise", *, statistic: str = "frechet", shrink: bool = False,
                 refine: int | str | None = None, spread: float | bool | None = None,
                 count: float | bool | None = None, n: int | None = None, **moved: Any):
        self._refuse(moved)
        self.epsilon, self.delta, self.ball, self.mechanism = epsilon, delta, ball, mechanism
        self.on_invalid, self.statistic, self.shrink = on_invalid, statistic, shrink
        self.refine, self.spread, self.count, self.n = refine, spread, count, n

    _running = None  # a query that takes in batches, its mechanism, and the parameters of both

    def __getstate__(self):
        if self._running is not None:
            raise TypeError("the estimator holds a sum of records, which is not private; accepted "
                            "for a copy or a pickle is one whose release has been made")
        return vars(self).copy()

    @np.errstate(all="ignore")
    def fit(self, X: ArrayLike, y: None = None, *, sample_weight: ArrayLike | None = None,
            rng: Seed = None, accountant: Account = None, group: Group = None) -> Self:
        """Release the mean of the records.

        Parameters
        ----------
        X : array or dask.array of shape (n, k, k), or (n, *space.shape)
            Points of the space. A dask array (`spdlib[dask]`) is summed on its cluster, each chunk
            where it is, and the release has the same bits as here: on log-Euclidean matrices up to
            size 64 on any processors, by the kernel; otherwise, and for matrices that border on not
            being SPD, where all workers have the same processors and versions. Workers that compute
            by another `kernel_path` are refused. On flat spaces, and not for "k-norm gradient" and
            "truncated loss", which ask for each record.
        y : None
            Not used.
        sample_weight : array of shape (n,), optional
            Public weights of the records, at least 0 and not all 0; on flat spaces.
        rng : Generator, int or None
            For experiments: a `numpy.random.Generator` or a seed; None takes fresh entropy from the
            system. It is not kept. "discrete gaussian" takes None only.
        accountant : BudgetAccountant, optional
            Enters what is spent before a record is looked at, or refuses it.
        group : str or int, optional
            Public label of a group of people, none of whom is in another group.

        Returns
        -------
        PrivateFrechetMean
            Itself.

        Raises
        ------
        ValueError
            For an invalid parameter, shape or record, and for what the space cannot keep.
            Then nothing has been drawn, and no attribute of an earlier fit is left; nor is the sum
            of batches that have not been released.
        ImportError
            For "discrete gaussian" without OpenDP, before a record is looked at.
        """
        self._forget()
        query = FrechetMean(X, self._ball(), self.on_invalid, sample_weight)
        mechanism = self._mechanism(query)
        draw = paid(self.delta, mechanism, query, query.space.dim, rng, accountant, group)
        return self._release(query, mechanism, draw, rng is not None, group)

    def partial_fit(self, X: ArrayLike, y: None = None) -> Self:
        """Add a batch of the `n` records that were announced to the constructor; returns itself.

        Any order and any partition of them give the same sum, to the last bit (claim SP-22); memory
        is bounded by the size of a batch. Until `release` the estimator holds that sum, which is
        not private, and neither a copy nor a pickle can be made of it; `fit` forgets it. The
        parameters are fixed by the first batch, and stay so until the release.

        Parameters
        ----------
        X : array or dask.array of shape (m, k, k), or (m, *space.shape)
        y : None
            Not used.

        Raises
        ------
        ValueError
            As `fit`; for one record too many; for a parameter that has changed; on a curved space,
            except for the tangent mean; for "k-norm gradient" and "truncated loss", which ask for
            each record. Then none of the batch is added.
        """
        with np.errstate(all="ignore"):
            query, mechanism, _ = running = self._running or self._begin()
            self._unchanged(running)
        query.add(X, getattr(mechanism, "grid", None))
        self._running = running  # nothing may come after it that an interrupt could end
        return self

    @np.errstate(all="ignore")
    def release(self, rng: Seed = None, *, accountant: Account = None, group: Group = None,
                fewer: bool = False) -> Self:
        """Release the mean of the records that came in batches, forget their sum, return itself.

        Where fewer records came than the n that was announced to the constructor, the release is
        refused, unless `fewer` says that this is intended: the missing records then count as the
        centre. A call that ends before anything is drawn, however it ends, leaves the sum as it is;
        once a draw begins the sum is forgotten. Of several threads that ask for one sum, one gets
        it; but only accounts are thread-safe, and `partial_fit` is not.
        """
        running = None
        try:
            running = vars(self).pop("_running", None)  # in one step: only one thread gets it
            if running is None:
                raise ValueError("no batch has come in; accepted is a release after partial_fit")
            self._unchanged(running)
            query, mechanism, _ = running
            if query.count < query.n and not flag(fewer, "fewer"):
                raise ValueError(
                    f"{query.count} records have come in of n = {query.n}; accepted "
                    "is a release of all of them, or with fewer=True, where the others "
                    "count as the centre")
            draw = paid(self.delta, mechanism, query, query.space.dim, rng, accountant, group)
        except BaseException:
            if running is not None:
                self._running = running
            raise
        query.forget()
        return self._release(query, mechanism, draw, rng is not None, group)

    def _forget(self):
        super()._forget()
        if (running := vars(self).pop("_running", None)) is not None:
            running[0].forget()

    def _begin(self):
        """The query without a record, its mechanism, and the parameters that they are made from."""
        self._forget()
        if self.n is None:
            raise ValueError("n is None; accepted for records that come in batches is their public "
                             "number, an integer ≥ 1")
        for name in "refine", "spread", "count":
            if (told := getattr(self, name)) is not None:
                raise ValueError(f"{name} is {told!r}; accepted for records that come in batches "
                                 "is None, since it takes several passes")
        query = RunningMean(self.n, self._ball(), self.on_invalid)
        mechanism = self._mechanism(query)
        if mechanism.each:
            raise ValueError(f"mechanism is {self.mechanism!r}; accepted for records that come in "
                             "batches are those that ask for no more than their sum")
        return query, mechanism, self.get_params()

    def _unchanged(self, running):
        """ValueError where a parameter is no longer what it was when the first batch came in."""
        for name, value in running[-1].items():
            if (now := getattr(self, name)) != value:
                raise ValueError(f"{name} is {now!r}; accepted until the release is {value!r}, as "
                                 "it was when the first batch came in")

    def _ball(self):
        """The ball in which the statistic is a Fréchet mean: for the tangent mean, the chart."""
        tangent = choice(self.statistic, "statistic", ("frechet", "tangent")) == "tangent"
        if isinstance(self.delta, Ball) and self.ball is None:
            raise ValueError(f"delta is {self.delta!r}; accepted is a number, and then the ball")
        ball = checked_ball(self.ball)
        return ball.tangent() if tangent else ball

    def _mechanism(self, query):
        """The mechanism for this query. ValueError for invalid parameters."""
        asked = chosen(self.mechanism, MEANS)
        parts = refined(asked, query, self.epsilon, self.delta, self.refine, self.shrink,
                        self.spread, self.count)
        mechanism = named(parts or asked.of(query, self.epsilon, self.delta))
        check_shrinks(self.shrink, query, mechanism)
        if mechanism.each and query.weights is not None:
            raise ValueError(f"weights are given with {mechanism.name!r}; accepted is None, since "
                             "it asks for each record and not for a weighted sum")
        return mechanism

    def _release(self, query, mechanism, draw, seeded, group):
        """Itself, with a release of what is drawn; nothing is refused any more."""
        space, center, step, found = query.space, query.ball.center, draw(), {}
        self.ball_, way = query.ball, 0.0
        words = (f" when one of n = {query.n} records is replaced; n and the ball of radius "
                 f"{query.radius} are public")
        if isinstance(mechanism, Refined):
            (way, step), words, found = self._of_parts(query, mechanism, step, words)
        else:
            if isinstance(mechanism, Counted):
                step, self.count_ = step[:-1], int(step[-1])
                found = {
                    "count": self.count_,
                    "shares": mechanism.shares,
                    "noises": mechanism.noises
                }
            if self.shrink:
                step = shrink_to_center(step, mechanism.sigma)
            if mechanism.in_chart or query.ball.harmless:
                step = project_to_ball(step, query.radius)
        goal = space.coordinates(center) + way + step if space.flat else None
        if isinstance(space, LogEuclidean):
            self.log_mean_ = goal
        self.mean_ = space.exp(center, space.within_reach(center, way + step))
        if space.flat:
            there, _ = space.sound(self.mean_)  # which refuses nothing
            off = math.hypot(*(there - goal))  # of numbers whose squares no float may hold
            found["mean_off_by"] = off if off > LEAST_OFF * self.ball_.radius else None
        self._promise(words, mechanism, query, seeded)
        if mechanism.is_proved(query):
            self.release_ = document(self, query, mechanism, group=group, seeded=seeded,
                                     ball=self.ball_, mean=self.mean_, step=step, **found,
                                     log_mean=getattr(self, "log_mean_", None),
                                     statistic=self.statistic, shrink=self.shrink,
                                     largest_share=1 / query.divisor)  # the largest weight is 1
        return self

    def _of_parts(self, query, mechanism, answer, words):
        """Steps to the centre found and on to the mean, words, and fields of a document."""
        found = mechanism.found(answer)
        (way,), (radius,), (step,), (spread,) = found.about, found.radii, found.steps, found.spread
        fields = {"shares": mechanism.shares, "noises": mechanism.noises(radius)}
        if mechanism.rounds:
            self.ball_ = query.ball.moved(way, radius)
            words += f"; the ball of radius {radius:.6g} is part of what is released"
        if "spread" in mechanism.shares:
            self.spread_ = fields["spread"] = float(spread)
        if "count" in mechanism.shares:
            self.count_ = fields["count"] = int(found.clipped[0])
        return (way, step), words, fields
