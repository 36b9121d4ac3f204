"""Fréchet means: the query, its sensitivity, and the private release."""

import functools
import math

import numpy as np

from ._checks import EPS, array, choice, complex_array, finite, generator, integer, number, positive
from ._estimator import Estimator
from .densities import KNormGradient, TruncatedLoss
from .mechanisms import L2Mechanism, RiemannianLaplace, TangentGaussian
from .spaces import KendallPlanar, LogEuclidean, TangentSpace

MECHANISMS = {
    "gaussian": TangentGaussian.of,
    "classical gaussian": functools.partial(TangentGaussian.of, calibration="classical"),
    "l2": L2Mechanism.of,
    "laplace": RiemannianLaplace.of,
}
DENSITIES = {"k-norm gradient": KNormGradient.of, "truncated loss": TruncatedLoss.of}
OPTIONS = {"laplace": {"domain"}, "k-norm gradient": {"clip", "domain", "approximate"},
           "truncated loss": {"clip", "domain", "approximate"}}
POLICIES = "raise", "center"
STATISTICS = "frechet", "tangent"
MARGIN = 1e-4  # share of the radius by which a mean that is found numerically may miss the ball
WIDEST = 20.0  # logarithm of what curvature may make of a rounding error
TRIED = 0.99  # share of r* from which on a descent to the mean may take too many steps


def frechet_sensitivity(n, radius, space=None, tolerance=0):
    """Sensitivity of the mean of `n` records in a ball, of which one is replaced; rounded up.

    On a flat space, and where the curvature is ≤ 0, it is `2 radius / n` (Theorem 3 of the first
    paper, Theorem 2 of Reimherr et al. 2021). Where the curvature is ≤ κ, κ > 0, it is the sharper
    `2 tan(radius √κ) / (n √κ)` of claim SP-27, for every radius below r* = min(inj, π/√κ)/2, up to
    which the mean is the only one; and never above the diameter of the ball.

    With a `tolerance` it is that of means at which the gradient is no longer than this. On a flat
    space it covers the rounding of a mean whose sum is exact, as that of `clip_to_ball` is.
    ValueError for an `n`, a `radius` or a `tolerance` that is none, and from r* on (with a
    tolerance, from a little below it).
    """
    n, radius = integer(n, "n", 1, 1e300), _radius(radius)
    tolerance = number(tolerance, "tolerance", 0, 1e280, "numbers from 0 to 1e280")
    if space is None or space.flat:  # the first may underflow
        return max(2 * radius / n * (1 + 2 * n * EPS), 4 * radius * EPS) + 2 * tolerance
    largest = _largest_radius(space) / (1 + 2 * MARGIN if tolerance else 1)
    if not radius < largest:
        raise ValueError(f"radius is {radius!r}; accepted are numbers below {largest:.6g} = r*, "
                         f"half the least of the injectivity radius and π/√κ of {space!r}, up to "
                         "which the mean is the only one")
    root = math.sqrt(max(space.curvature[1], 0))
    bound = 2 * math.tan(radius * root) / n / root if root else 2 * radius / n
    widest = 2 * radius if tolerance == 0 else 2 * (radius * (1 + MARGIN) + tolerance)
    return min(bound + 2 * _miss(radius, root, tolerance), widest) * (1 + 1e-12)


def frechet_mean(X, space, tolerance=None):
    """Fréchet means of sets of points, not private; thousands of small sets at once.

    Parameters
    ----------
    X : array of shape (..., n, *space.shape)
        The points; the mean is taken over the axis before those of a point.
    space : LogEuclidean, Euclidean, TangentSpace, AffineInvariant, Sphere or KendallPlanar
    tolerance : float, optional
        How long the gradient, the mean step from a mean to its points, may be; on a curved space by
        default 1e-10, times inj/π where that is finite.

    Returns
    -------
    array of shape (..., *space.shape)

    Raises
    ------
    ValueError
        For what is no point; where the descent ends at a longer gradient; and where the points are
        so far apart that what was found need not be the mean: not all within min(inj, π/√κ)/2 of
        it, a ball in which there is no other (Afsari 2011).
    """
    tail = (slice(None),) * len(space.shape)
    X = _numbers(space)(X, "X")
    if X.shape[-len(tail):] != space.shape or X.ndim == len(tail) or X.shape[-1 - len(tail)] == 0:
        raise ValueError(f"X has shape {X.shape}; accepted is (..., n, {_shape(space)}), n ≥ 1")
    if space.flat:
        y = space.coordinates(X)
        return space.point(y.sum(axis=-2) / y.shape[-2])
    tolerance = positive(1e-10 * _unit_of(space) if tolerance is None else tolerance, "tolerance")
    X = space.points(X, "X")
    M = X[(..., 0, *tail)]
    step = space.mean(M, space.log(M[(..., None, *tail)], X), tolerance)
    mean, reach = space.exp(M, step), _largest_radius(space)
    far = space.dist(mean[(..., None, *tail)], X).max(initial=0)
    if not far < reach:
        raise ValueError(f"X has a point {far:.6g} away from where the gradient vanishes; accepted "
                         f"are points within {reach:.6g}, where that is sure to be the mean")
    return mean


def clip_to_ball(y, radius):
    """Coordinates `y`, shape `(n, d)`, each record moved radially into the ball about 0.

    The *exact* norm of each row returned is at most `radius`, and all sums of rows are exact in
    float64: entries are cut, towards zero, to multiples of one power of two so large that n entries
    cannot outgrow 53 bits. The cut moves a record by less than `√d n radius` times 2⁻⁵¹; one within
    (d + 8) 2⁻⁵² of the sphere goes as far inside.
    """
    y, radius = finite(y, "y"), _radius(radius)
    if y.ndim != 2:
        raise ValueError(f"y has shape {y.shape}; accepted is (n, d)")
    n, d = y.shape
    unit, norm, largest = _unit(y)
    limit = radius * (1 - (d + 8) * EPS)  # by more than the rounding of norm and quotient
    outside = largest > limit / np.maximum(norm, 1)
    y = np.where(outside, unit * (limit / np.maximum(norm, 1)), y)
    grid = 2.0 ** (math.frexp(radius)[1] + math.frexp(n)[1] - 53)
    return np.trunc(y / grid) * grid


def project_to_ball(y, radius):
    """Coordinates `y`, shape `(..., d)`, moved radially into the ball of this radius about 0.

    What lies in the ball stays as it is, to the last bit.
    """
    y, radius = finite(y, "y"), _radius(radius)
    unit, norm, largest = _unit(y)
    outside = largest > radius / np.maximum(norm, 1)
    return np.where(outside, unit * (radius / np.maximum(norm, 1)), y)


class FrechetMean:
    """The query: the Fréchet mean of records that are clipped to a ball about a public centre.

    Parameters
    ----------
    X : array of shape (n, k, k), or (n, *space.shape)
        The records. They are looked at when the mean is asked for, not before. Those outside the
        ball move onto it along the geodesic to the centre; for one at a cut point of the centre it
        is a fixed one.
    center : array of shape (k, k), or space.shape, or None
        Public centre; None is the space's own, the identity for matrices.
    radius : float
        Public radius, in the distance of the space, and below its injectivity radius. On a curved
        space float64 sets limits, too: from 1e-6 (of inj/π, where that is finite), and on
        `AffineInvariant(k)`, k ≥ 2, below 7.07.
    space : optional
        The space of the records, by default the log-Euclidean one of their size.
    on_invalid : {"raise", "center"}
        What happens to a record that is no point of the space.

    Attributes
    ----------
    n : int
        Number of records, public.
    tolerance : float
        How long the gradient of a mean may be that is found numerically, its rounding included.
        It is public: a function of the space and the radius.
    sensitivity : float
        How far the mean moves at most when one record is replaced by any other. ValueError where
        the ball is too large for a mean that is the only one, or so close to it that descents have
        been seen not to end; below 0.99 of it none took half of its steps, which is no proof.
    chart_sensitivity : float
        How far its coordinates in the chart at the centre move. They are stretched by
        radius √κ / sin(radius √κ) at most where the curvature is ≤ κ, κ > 0, else not at all.

    Raises
    ------
    ValueError
        For a radius, a centre or a shape that is none; no record is looked at for it.
    """

    def __init__(self, X, center, radius, space=None, on_invalid="raise"):
        self.radius = _radius(radius)
        self._X = array(X, "X") if space is None else _numbers(space)(X, "X")
        self._on_invalid = choice(on_invalid, "on_invalid", POLICIES)
        shape = self._X.shape
        if space is None:
            if len(shape) != 3 or 0 in shape or shape[1] != shape[2]:
                raise ValueError(f"X has shape {shape}; accepted is (n, k, k) with n ≥ 1 and k ≥ 1")
            space = LogEuclidean(shape[1])
        elif shape[1:] != space.shape or 0 in shape:
            raise ValueError(f"X has shape {shape}; accepted is (n, {_shape(space)}) with n ≥ 1, "
                             f"points of {space!r}")
        self.space, self.n = space, shape[0]
        self.center, self.tolerance = _center(center, space), _tolerance(space, self.radius)

    @property
    def sensitivity(self):
        largest = TRIED * _largest_radius(self.space)
        if not self.radius < largest:  # whether a descent ends would tell of the data
            raise ValueError(f"radius is {self.radius!r}; accepted are numbers below {largest:.6g} "
                             f"= {TRIED} r*, up to which the descent to a mean ended in all that "
                             "was tried; r* is half the least of the injectivity radius and π/√κ "
                             f"of {self.space!r}, up to which the mean is the only one")
        return frechet_sensitivity(self.n, self.radius, self.space, self.tolerance)

    @property
    def chart_sensitivity(self):
        sensitivity = self.sensitivity
        high = 0.0 if self.space.flat else self.space.curvature[1]
        if high <= 0:
            return sensitivity
        angle = self.radius * (1 + MARGIN) * math.sqrt(high)
        return sensitivity * angle / math.sin(angle) * (1 + 1e-12)

    @functools.cached_property
    def steps(self):
        """Steps from the centre to the clipped records, shape `(n, dim)`. They are not private.

        ValueError for a bad record.
        """
        X, invalid = self._X, np.zeros(self.n, bool)
        if self._on_invalid == "center":  # none is left out: a batch is computed by its size
            X = X.copy()  # in one layout: a sum in another order is another sum
            invalid = ~self.space.contains(X)
            if invalid.all():
                return np.zeros((self.n, self.space.dim))
            X[invalid] = X[~invalid][0]
        if self.space.flat:
            y = self.space.log(self.center, X)
        else:
            y = self.space._log(self.center, self.space.points(X, "X"))
        y[invalid] = 0
        return clip_to_ball(y, self.radius)

    @functools.cached_property
    def points(self):
        """The clipped records, shape `(n, *space.shape)`. They are not private."""
        return self.space.exp(self.center, self.steps)

    @functools.cached_property
    def step(self):
        """The step from the centre to the mean, shape `(dim,)`. It is not private.

        ValueError for a bad record, and where the descent to the mean does not end.
        """
        if self.space.flat:
            return self.space.mean(self.center, self.steps)
        step = self.space.mean(self.center, self.steps, self.tolerance / 2)
        if not np.linalg.norm(step) <= self.radius * (1 + MARGIN) + self.tolerance:
            raise ValueError("the descent to the mean has left the ball of the records")
        return step


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
        "truncated loss" are ε-DP. On a flat space, which of the first four errs least depends on
        the dimension, ε and δ, not on the data.
    on_invalid : {"raise", "center"}
        What happens to a record that is no point of the space. "raise" refuses the data set, and
        the exception speaks of the data: keep it inside. "center" puts the public centre in its
        place: each record is mapped by itself, so n stays public and the sensitivity stands.
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

    Notes
    -----
    Parameters are validated by `fit`, before a record is looked at; what has been drawn is always
    returned. Each call of `fit` is a release of its own and costs its own (ε, δ). The estimator
    keeps no generator, and nothing of the data but the release.

    The promise is that of noise in real numbers. The low-order bits of float64 noise can tell two
    data sets apart (Mironov 2012; Haney et al. 2022): of the answers 0 and 1, released at ε = 1 and
    δ = 1e-6 with sensitivity 1, the one shows last bits in over 1% of its releases that the other
    never shows. Round a release before it leaves the house; that is no proof. NumPy's generators
    are not cryptographic either: who can guess a seed can take the noise away, so give `rng` for
    experiments only.

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
                 approximate=False):
        self.epsilon, self.delta, self.radius, self.center = epsilon, delta, radius, center
        self.mechanism, self.on_invalid, self.space = mechanism, on_invalid, space
        self.statistic, self.clip, self.domain = statistic, clip, domain
        self.approximate = approximate

    def fit(self, X, y=None, *, rng=None):
        """Release the mean of the records.

        Parameters
        ----------
        X : array of shape (n, k, k), or (n, *space.shape)
            Points of the space.
        y : None
            Not used.
        rng : Generator, int or None
            For experiments: a `numpy.random.Generator` or a seed; None takes fresh entropy from the
            system. It is not kept.

        Returns
        -------
        PrivateFrechetMean
            Itself.

        Raises
        ------
        ValueError
            For a parameter, a shape or a record that is none, and for what the space cannot keep.
            Then nothing has been drawn, and no attribute of an earlier fit is left.
        """
        self._forget()
        makers = MECHANISMS | DENSITIES
        make, rng = makers[choice(self.mechanism, "mechanism", makers)], generator(rng)
        query = FrechetMean(X, self.center, self.radius, self._space(), self.on_invalid)
        mechanism = make(query, self.epsilon, self.delta, **self._options(query))
        space, center, step = query.space, query.center, mechanism.answer(query, rng)
        if self.mechanism in ("gaussian", "classical gaussian", "l2") or _harmless(query):
            step = project_to_ball(step, query.radius)
        if isinstance(space, LogEuclidean):
            self.log_mean_ = space.coordinates(center) + step
        self.mean_ = space.exp(center, space.within_reach(center, step))
        self.mechanism_ = mechanism
        self.privacy_ = (
            f"({self.epsilon}, {self.delta})-differentially private when one of n = {query.n} "
            f"records is replaced; n, the radius {self.radius} and the centre are public")
        if self.mechanism in DENSITIES and not mechanism.is_exact(query):
            self.privacy_ = (f"not proved to be private: a chain has approximated a law that is "
                             f"{self.privacy_}; a chain certifies no δ")
        return self

    def _space(self):
        """The space in which the statistic is a Fréchet mean; of matrices, None is log-Euclidean.

        For the tangent mean it is the chart.
        """
        tangent = choice(self.statistic, "statistic", STATISTICS) == "tangent"
        if not tangent or self.space is None or self.space.flat:
            return self.space
        reach, radius = self.space.injectivity_radius, _radius(self.radius)
        if not radius < reach:
            raise ValueError(f"radius is {radius!r}; accepted are numbers below {reach:.6g}, the "
                             f"injectivity radius of {self.space!r}")
        return TangentSpace(self.space, _center(self.center, self.space))

    def _options(self, query):
        """What the mechanism takes besides its promise; ValueError for what it does not take."""
        given = {"clip": self.clip, "domain": self.domain}
        if not isinstance(self.approximate, (bool, np.bool_)):
            raise ValueError(f"approximate is {self.approximate!r}; accepted are True and False")
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


def _radius(radius):
    return number(radius, "radius", 1e-280, 1e280, "numbers from 1e-280 to 1e280")


def _numbers(space):
    """What reads an array of numbers of which points of the space are made."""
    planar = isinstance(getattr(space, "space", space), KendallPlanar)
    return complex_array if planar else array


def _shape(space):
    return ", ".join(map(str, space.shape))


def _center(center, space):
    """A public centre that is a point of the space, or the space's own."""
    if center is None:
        if space.origin is None:
            raise ValueError(f"center is None; accepted is a point of {space!r}, which has none "
                             "that suggests itself")
        center = space.origin
    center = _numbers(space)(center, "center")
    if center.shape != space.shape:
        accepted = f"({_shape(space)}{',' if len(space.shape) == 1 else ''})"
        raise ValueError(f"center has shape {center.shape}; accepted is {accepted}, as the records "
                         "have")
    if not space.flat:
        return space.points(center, "center")
    try:
        space.exp(center)
    except ValueError as error:
        raise ValueError(f"center is no point that float64 can hold: {error}") from None
    return center


def _largest_radius(space):
    """r*: in a smaller ball a mean is the only one, and geodesics stay inside (Afsari 2011)."""
    high = space.curvature[1]
    return min(space.injectivity_radius, math.pi / math.sqrt(high) if high > 0 else math.inf) / 2


def _unit_of(space):
    """A length in which the space looks curved, but no more."""
    reach = space.injectivity_radius
    return reach / math.pi if reach < math.inf else 1.0


def _tolerance(space, radius):
    """How long a gradient may be, its own rounding included, for means in a ball of the space.

    Public: 1e-11 radii, and what rounding may be where curvature below 0 lets it grow.
    """
    if space.flat:
        return 0.0
    unit, root = _unit_of(space), math.sqrt(max(-space.curvature[0], 0))
    reach = space.injectivity_radius
    most = min(reach, WIDEST / (4 * root) if root else math.inf)
    if not 1e-6 * unit <= radius < most:
        raise ValueError(f"radius is {radius!r}; accepted are numbers from {1e-6 * unit:.6g} to "
                         f"below {most:.6g} on {space!r}, where float64 tells points apart")
    return 1e-11 * radius + 64 * EPS * unit * math.exp(4 * radius * root)


def _miss(radius, root, tolerance):
    """How far a point with so short a gradient may be from the mean, for curvature ≤ root².

    It is itself a mean: of the records and, at the distance s, of one more of the weight
    tolerance/s. At means of data in the ball of radius r that is larger by 2s the Hessian is at
    least h = r √κ cot(r √κ); the mean moves by at most e = (tolerance + e tolerance/s) / h.
    """
    if tolerance == 0 or root == 0:
        return tolerance
    angle = radius * (1 + 2 * MARGIN) * root
    h = angle / math.tan(angle) - tolerance / (MARGIN * radius)
    return tolerance / h if h > 0 else math.inf


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


def _unit(y):
    """Rows divided by their largest entry, the norm of that, 0 or from 1 to √d, and the entry."""
    largest = np.abs(y).max(axis=-1, keepdims=True)
    unit = y / np.where(largest > 0, largest, 1)
    return unit, np.linalg.norm(unit, axis=-1, keepdims=True), largest
