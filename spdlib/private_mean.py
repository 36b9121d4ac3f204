"""The private release of a Fréchet mean."""

import functools
import math

import numpy as np

from ._checks import choice, is_lazy, number, records
from ._estimator import Estimator
from .accounting import document, in_words, spending
from .clipping import ball_radius, project_to_ball, public_center, shrink_to_center
from .densities import KNormGradient, TruncatedLoss
from .discrete import DiscreteGaussian
from .frechet import FrechetMean, RunningMean
from .mechanisms import L2Mechanism, RiemannianLaplace, TangentGaussian
from .spaces import LogEuclidean, TangentSpace

MECHANISMS = {
    "gaussian": TangentGaussian.of,
    "classical gaussian": functools.partial(TangentGaussian.of, calibration="classical"),
    "l2": L2Mechanism.of,
    "laplace": RiemannianLaplace.of,
}
EXACT = {"discrete gaussian": DiscreteGaussian.of}  # errs as "gaussian" does
DENSITIES = {"k-norm gradient": KNormGradient.of, "truncated loss": TruncatedLoss.of}
OPTIONS = {"laplace": {"domain"}, "k-norm gradient": {"clip", "domain", "approximate"},
           "truncated loss": {"clip", "domain", "approximate"}}
STATISTICS = "frechet", "tangent"
NORMAL = "gaussian", "classical gaussian", "discrete gaussian"  # those that can be shrunk


class PrivateFrechetMean(Estimator):
    """(ε, δ)-DP Fréchet mean, of SPD matrices in the log-Euclidean distance or on another space.

    Neighbours differ in one record, replaced by any other; the number of records is public. Records
    further than `radius` from `center` are clipped to that ball, so the promise holds for any data.
    The release lies in the same ball, which holds the mean of the clipped records: it is projected
    onto it where that is sure never to take it further from that mean, which costs no privacy, and
    is drawn in it elsewhere.

    Parameters
    ----------
    epsilon, delta : float
        The promise: ε from 1e-6 to 1e3, δ from 1e-300 to 1/2, or 0 for the pure ones: "laplace",
        "k-norm gradient" and "truncated loss".
    radius : float
        Radius of the ball, in the distance of the space. Choose it and the centre without looking
        at the data: `ball_from_bounds` makes both of bounds on the eigenvalues.
    center : array of shape (k, k), or space.shape, optional
        Centre of the ball; for matrices the identity by default.
    mechanism : str
        "gaussian" or "classical gaussian", the tangent Gaussian with its analytic or its classical
        scale, and "l2", the ℓ2 mechanism, are (ε, δ)-DP; on a curved space their noise is added in
        the chart at the centre. "laplace", the Riemannian Laplace, "k-norm gradient" and
        "truncated loss" are ε-DP. Which of the four that add noise errs least on a flat space
        depends on the dimension, ε and δ, not on the data. "discrete gaussian", on flat spaces and
        for the tangent mean, errs as "gaussian" does up to some ten million records, and its
        promise holds for the floats that leave: with OpenDP (`spdlib[hardened]`), take it for every
        release that leaves the house.
    on_invalid : {"raise", "center"}
        What happens to a record that is no point of the space, that is masked, or that has entries
        which are no numbers. "raise" refuses the data set, and the exception speaks of the data:
        keep it inside. "center" puts the public centre in its place: each record is mapped by
        itself, so n stays public and the sensitivity stands.
    space : optional
        The space of the records, `LogEuclidean(k)` by default.
    statistic : {"frechet", "tangent"}
        What is released: the Fréchet mean, or the tangent mean, the point to which the mean of the
        steps from the centre leads. That is a mean in a flat space, `TangentSpace(space, center)`:
        no curvature enters its sensitivity, 2 radius/n, and any radius below the injectivity radius
        will do.
    clip : float, optional
        Longest residual of "k-norm gradient"; distance from which on "truncated loss" does not feel
        a record, and then required.
    domain : float, optional
        Radius of the ball about the centre on which a pure mechanism's law lives, `radius` by
        default; "laplace" lives on the whole space where the projection is proved to do no harm. In
        a larger ball releases may stay outside the smaller one, where a projection might harm.
    approximate : bool
        Whether Metropolis chains may answer where nothing samples exactly. No promise is proved for
        a chain.
    shrink : bool
        Whether a release with Gaussian noise is drawn towards the centre before it is projected
        (`spdlib.clipping.shrink_to_center`), in a flat space of 3 dimensions or more. That costs no
        privacy, and the mean squared distance from the mean of the clipped records gets smaller
        than that of the noise, wherever it lies; much smaller where the noise is as large as the
        ball. It may get larger than that of the projection alone by up to 8% (1% at d = 45), for a
        mean near the sphere of a ball that is larger than the noise. `expected_error` knows both.
    n : int, optional
        Public number of the records that come in batches; used by `partial_fit` only.

    Attributes
    ----------
    mean_ : array of shape (k, k), or space.shape
        The release, a point of the space. Where float64 does not hold it, it is drawn towards the
        centre until it does, which costs no privacy either.
    log_mean_ : array of shape (d,)
        In the log-Euclidean distance only: `vecd` of the release's logarithm, centre included.
    mechanism_ : Mechanism
        What made it, with the scale of its noise: `mechanism_.sigma` and `.mu`, or `.scale`.
    privacy_ : str
        The promise in words.
    release_ : Release
        All of this as a document that may be published, `release_.to_json()`; none of a chain's.

    Notes
    -----
    Parameters are validated by `fit`, before a record is looked at; what has been drawn is always
    returned. Each call of `fit` is a release of its own and costs its own (ε, δ). The estimator
    keeps no generator, and nothing of the data but the release.

    The promise of all but "discrete gaussian" is that of noise in real numbers. The low-order bits
    of float64 noise can tell two data sets apart (Mironov 2012; Haney et al. 2022): of the answers
    0 and 1, released at ε = 1 and δ = 1e-6 with sensitivity 1, the one shows last bits in over 1%
    of its releases that the other never shows, and rounding such a release is no proof. NumPy's
    generators are not cryptographic either: who can guess a seed can take the noise away, so give
    `rng` for experiments only. "discrete gaussian" adds exact noise to exact sums, in integers and
    from the system's entropy, and takes no `rng` (claim SP-21). How long that takes, what stays in
    memory and an exception that speaks of a record are outside of any promise.

    Examples
    --------
    >>> import numpy as np
    >>> from spdlib import PrivateFrechetMean, ball_from_bounds, random_spd
    >>> covariances = random_spd(400, 3, 1.0, rng=0)
    >>> center, radius = ball_from_bounds(0.3, 3.0, k=3)
    >>> private = PrivateFrechetMean(epsilon=1.0, delta=1e-6, radius=radius, center=center)
    >>> private.fit(covariances).mean_.shape
    (3, 3)
    >>> private.mechanism_.sigma < 0.05
    True
    """

    def __init__(self, epsilon, delta, radius, center=None, mechanism="gaussian",
                 on_invalid="raise", *, space=None, statistic="frechet", clip=None, domain=None,
                 approximate=False, shrink=False, n=None):
        self.epsilon, self.delta, self.radius, self.center = epsilon, delta, radius, center
        self.mechanism, self.on_invalid, self.space = mechanism, on_invalid, space
        self.statistic, self.clip, self.domain = statistic, clip, domain
        self.approximate, self.shrink, self.n = approximate, shrink, n

    _running = None  # a query that takes in batches, its mechanism, and the parameters of both

    def __getstate__(self):
        if self._running is not None:
            raise TypeError("the estimator holds a sum of records, which is not private; accepted "
                            "for a copy or a pickle is one whose release has been made")
        return vars(self).copy()

    @np.errstate(all="ignore")
    def fit(self, X, y=None, *, sample_weight=None, rng=None, accountant=None, group=None):
        """Release the mean of the records.

        Parameters
        ----------
        X : array or dask.array of shape (n, k, k), or (n, *space.shape)
            Points of the space. A dask array (`spdlib[dask]`) is summed on its cluster, each chunk
            where it is, and the release has the bits that it has here if all workers have the same
            processors and versions; on flat spaces, and not for "k-norm gradient" and "truncated
            loss", which ask for each record.
        y : None
            Not used.
        sample_weight : array of shape (n,), optional
            Public weights of the records, at least 0 and not all 0; on flat spaces.
        rng : Generator, int or None
            For experiments: a `numpy.random.Generator` or a seed; None takes fresh entropy from the
            system. It is not kept. "discrete gaussian" takes None only.
        accountant : BudgetAccountant, optional
            What is spent is written down there before a record is looked at, or refused.
        group : str or int, optional
            Public label of a group of people, of whom nobody is in another.

        Returns
        -------
        PrivateFrechetMean
            Itself.

        Raises
        ------
        ValueError
            For a parameter, a shape or a record that is none, and for what the space cannot keep.
            Then nothing has been drawn, and no attribute of an earlier fit is left; nor is the sum
            of batches that have not been released.
        ImportError
            For "discrete gaussian" without OpenDP, before a record is looked at.
        """
        self._forget()
        query = FrechetMean(X, self.center, self.radius, self._space(), self.on_invalid,
                            sample_weight)
        mechanism = self._mechanism(query)
        draw = self._paid(query, mechanism, rng, accountant, group)
        return self._release(query, mechanism, draw, rng is not None, group)

    def partial_fit(self, X, y=None):
        """Take in a batch of the `n` records of which the constructor was told; returns itself.

        Any order and any partition of them give the same sum, to the last bit (claim SP-22); memory
        is bounded by that of a batch. Until `release` the estimator holds that sum, which is not
        private, and neither a copy nor a pickle can be made of it; `fit` forgets it. The parameters
        are those of the first batch, and stay so until the release.

        Parameters
        ----------
        X : array or dask.array of shape (m, k, k), or (m, *space.shape)
        y : None
            Not used.

        Raises
        ------
        ValueError
            As `fit`; for one record too many; for a parameter that is another now; on a curved
            space, but for the tangent mean; for "k-norm gradient" and "truncated loss", which ask
            for each record. Then none of the batch is added.
        """
        with np.errstate(all="ignore"):
            query, mechanism, _ = running = self._running or self._begin(X)
            self._unchanged(running)
        query.add(X, getattr(mechanism, "grid", None))
        self._running = running  # nothing may come after it that an interrupt could end
        return self

    @np.errstate(all="ignore")
    def release(self, rng=None, *, accountant=None, group=None):
        """Release the mean of the records that came in batches, and forget their sum; itself.

        Fewer records than n count as the centre. What ends before anything is drawn, however it
        ends, leaves the sum as it is; once a draw begins the sum is forgotten. Of several threads
        that ask for one sum, one gets it; but only accounts are made for threads, and `partial_fit`
        is not.
        """
        running = vars(self).pop("_running", None)  # in one step: only one thread gets it
        if running is None:
            raise ValueError("no batch has come in; accepted is a release after partial_fit")
        try:
            self._unchanged(running)
            query, mechanism, _ = running
            draw = self._paid(query, mechanism, rng, accountant, group)
        except BaseException:
            self._running = running
            raise
        return self._release(query, mechanism, draw, rng is not None, group)

    def _forget(self):
        super()._forget()
        vars(self).pop("_running", None)

    def _begin(self, X):
        """The query without a record, its mechanism, and the parameters of which they are made."""
        self._forget()
        if self.n is None:
            raise ValueError("n is None; accepted for records that come in batches is their public "
                             "number, an integer ≥ 1")
        if self.mechanism in DENSITIES:
            raise ValueError(f"mechanism is {self.mechanism!r}; accepted for records that come in "
                             f"batches are {sorted(MECHANISMS | EXACT)}, which ask for no more "
                             "than their sum")
        space = self._space()
        if space is None:
            shape = X.shape if is_lazy(X) else records(X, "X").shape
            if len(shape) != 3 or shape[1] != shape[2]:
                raise ValueError(f"X has shape {shape}; accepted is (m, k, k)")
            space = LogEuclidean(shape[1])
        query = RunningMean(self.n, self.center, self.radius, space, self.on_invalid)
        return query, self._mechanism(query), self.get_params()

    def _unchanged(self, running):
        """ValueError where a parameter is no longer what it was when the first batch came in."""
        for name, value in running[-1].items():
            if not np.array_equal(now := getattr(self, name), value):
                raise ValueError(f"{name} is {now!r}; accepted until the release is {value!r}, as "
                                 "it was when the first batch came in")

    def _mechanism(self, query):
        """The mechanism for this query. ValueError for parameters that are none."""
        makers = MECHANISMS | EXACT | DENSITIES
        make = makers[choice(self.mechanism, "mechanism", makers)]
        if self.mechanism in DENSITIES and query.weights is not None:
            raise ValueError(f"weights are given with {self.mechanism!r}; accepted is None, since "
                             "it asks for each record and not for a weighted sum")
        return make(query, self.epsilon, self.delta, **self._options(query))

    def _paid(self, query, mechanism, rng, accountant, group):
        """What draws the step, once it is paid for; all that can be refused is refused here."""
        rng = mechanism._source(rng)
        with spending(accountant, mechanism, query.space.dim, group):
            draw = mechanism.prepared(query)
        return functools.partial(draw, rng)

    def _release(self, query, mechanism, draw, seeded, group):
        """Itself, with a release of what is drawn; nothing is refused any more."""
        space, center, step = query.space, query.center, draw()
        if self.shrink:
            step = shrink_to_center(step, mechanism.sigma)
        if self.mechanism in ("gaussian", "classical gaussian", "l2") or _harmless(query):
            step = project_to_ball(step, query.radius)
        if isinstance(space, LogEuclidean):
            self.log_mean_ = space.coordinates(center) + step
        self.mean_ = space.exp(center, space.within_reach(center, step))
        self.mechanism_ = mechanism
        promise = (
            f"({self.epsilon}, {self.delta})-differentially private when one of n = {query.n} "
            f"records is replaced; n, the radius {self.radius} and the centre are public")
        if self.mechanism in DENSITIES and not mechanism.is_exact(query):
            self.privacy_ = (f"not proved to be private: a chain has approximated a law that is "
                             f"{promise}; a chain certifies no δ")
        else:
            self.privacy_ = in_words(promise, mechanism, seeded)
            self.release_ = document(
                self, query, mechanism, group=group, seeded=seeded, mean=self.mean_, step=step,
                log_mean=getattr(self, "log_mean_", None), statistic=self.statistic,
                largest_share=1 / query.divisor,  # the largest weight is 1
                shrink=bool(self.shrink))
        return self

    def _space(self):
        """The space in which the statistic is a Fréchet mean; of matrices, None is log-Euclidean.

        For the tangent mean it is the chart.
        """
        tangent = choice(self.statistic, "statistic", STATISTICS) == "tangent"
        if not tangent or self.space is None or self.space.flat:
            return self.space
        reach, radius = self.space.injectivity_radius, ball_radius(self.radius)
        if not radius < reach:
            raise ValueError(f"radius is {radius!r}; accepted are numbers below {reach:.6g}, the "
                             f"injectivity radius of {self.space!r}")
        return TangentSpace(self.space, public_center(self.center, self.space))

    def _options(self, query):
        """What the mechanism takes besides its promise; ValueError for what it does not take."""
        given = {"clip": self.clip, "domain": self.domain}
        for name in "approximate", "shrink":
            if not isinstance(value := getattr(self, name), (bool, np.bool_)):
                raise ValueError(f"{name} is {value!r}; accepted are True and False")
        if self.shrink and self.mechanism not in NORMAL:
            raise ValueError(f"shrink is True; accepted is False with {self.mechanism!r}, whose "
                             "noise is not Gaussian")
        if self.shrink and not (query.space.flat and query.space.dim >= 3):
            raise ValueError(f"shrink is True; accepted is False on {query.space!r}, since only in "
                             "flat spaces of 3 dimensions and more is it known to be better")
        known = OPTIONS.get(self.mechanism, ())
        for name, value in given.items():
            if name not in known and value is not None:
                raise ValueError(f"{name} is {value!r}; accepted is None with {self.mechanism!r}")
        if self.mechanism == "truncated loss" and self.clip is None:
            raise ValueError('clip is None; accepted are numbers above 0 with "truncated loss", '
                             "the distance from which on it does not feel a record")
        if self.domain is not None:
            reach = query.space.injectivity_radius
            number(self.domain, "domain", query.radius, reach,
                   f"numbers from {query.radius:.6g}, the radius, to {reach:.6g}")
        elif self.mechanism == "laplace" and not _harmless(query):
            given["domain"] = query.radius
        given["approximate"] = bool(self.approximate)
        return {name: given[name] for name in known}


def _harmless(query):
    """Whether the projection of any point onto the ball is never further from a point of the ball.

    It is so in a flat space and on a Hadamard manifold, where the ball is convex; on the circle and
    the sphere of constant curvature where its radius is at most a third of the distance of opposite
    points; and, where it is at most π/(4√κ), in a CAT(κ) space: one of curvature ≤ κ without closed
    geodesics shorter than 2π/√κ. There the angle at the projected point is not acute.
    """
    space, radius = query.space, query.radius
    low, high = space.curvature
    reach = space.injectivity_radius
    if high <= 0 and reach == math.inf:
        return True
    if low == high:
        return radius <= reach / 3
    return radius <= math.pi / (4 * math.sqrt(high)) and reach * math.sqrt(high) >= math.pi - 1e-9
