"""Fréchet means: the query, its sensitivity, and the private release."""

import functools
import inspect
import math

import numpy as np

from ._checks import EPS, array, choice, finite, generator, integer, number, positive
from .densities import KNormGradient, TruncatedLoss
from .mechanisms import L2Mechanism, RiemannianLaplace, TangentGaussian
from .spaces import LogEuclidean, TangentSpace

MECHANISMS = {
    "gaussian": TangentGaussian.of,
    "classical gaussian": functools.partial(TangentGaussian.of, calibration="classical"),
    "l2": L2Mechanism.of,
    "laplace": RiemannianLaplace.of,
}
DENSITIES = {"k-norm gradient": KNormGradient.of, "truncated loss": TruncatedLoss.of}
POLICIES = "raise", "center"
STATISTICS = "frechet", "tangent"
TOLERANCE = 1e-11  # of the radius: how long a gradient may be at what counts as the mean


def largest_radius(space):
    """Radius min(inj, π/√κ)/2 (Afsari 2011), below which a ball has but one mean of its records."""
    high = space.curvature[1]
    half = math.pi / math.sqrt(high) if high > 0 else math.inf
    return min(space.injectivity_radius, half) / 2


def frechet_sensitivity(n, radius, space=None, tolerance=0.0):
    """Sensitivity of the Fréchet mean of `n` records in a ball, if one of them is replaced.

    It is `2 radius / n` where no curvature is positive (Theorem 3; Reimherr et al. 2021, Theorem
    2), and 2 tan(r√κ)/(n√κ) where the curvature is at most κ > 0 (SP-27). Rounded up: on a flat
    space it also covers the rounding of a mean whose sum is exact, as that of `clip_to_ball` is.

    Parameters
    ----------
    n : int
    radius : float
        Below `largest_radius(space)`.
    space : optional
        A flat one by default.
    tolerance : float
        Length of the gradient at what counts as the mean. That may be as far as tolerance/h from
        the mean; h = 1 where no curvature is positive, else see `_bend`.

    Raises
    ------
    ValueError
        For an `n` or a `radius` that is none, or for which nothing is proved.
    """
    n, radius = integer(n, "n", 1, 1e300), _radius(radius)
    tolerance = number(tolerance, "tolerance", 0, math.inf, "numbers from 0")
    bound = 2 * radius / n
    if space is not None and not radius < largest_radius(space):
        raise ValueError(f"radius is {radius!r}; accepted are those below "
                         f"{largest_radius(space):.6g}, up to which the mean on {space!r} is known "
                         'to be one point and its sensitivity is proved; statistic="tangent" has '
                         "no such bound")
    if space is not None and (high := space.curvature[1]) > 0:
        t = radius * math.sqrt(high) * (1 + 8 * EPS)
        bound = min(2 * math.tan(t) / math.sqrt(high) / n, 2 * radius)
    if tolerance:
        bound += 2 * tolerance / _bend(radius, space, tolerance)
    return max(bound * (1 + 2 * n * EPS), 4 * radius * EPS)  # the first may underflow


def _bend(radius, space, tolerance):
    """A number h such that a point of the ball with a gradient of at most t is t/h from the mean.

    It is the mean of the same records and one more, of weight t/δ at distance δ: take δ half the
    way to the largest radius. While that weight goes to 0, the mean moves along H⁻¹ log z with
    H ≥ h' = r'√κ cot(r'√κ), r' = radius + δ (SP-27), so h = h' - t/δ.
    """
    if space is None or not space.curvature[1] > 0:
        return 1.0
    delta = (largest_radius(space) - radius) / 2
    t = (radius + delta) * math.sqrt(space.curvature[1])
    h = t / math.tan(t) - tolerance / delta
    if not h > 0:
        raise ValueError(f"radius is {radius!r}; accepted are those further below "
                         f"{largest_radius(space):.6g}, to which a mean can be found")
    return h


def frechet_mean(X, space, center=None, tolerance=1e-10):
    """Fréchet means of many data sets at once, not private.

    By gradient descent from the centre. Where the records of a data set lie in a ball of a radius
    below `largest_radius(space)`, there is one mean in it, and it is found.

    Parameters
    ----------
    X : array of shape (..., n, *space.shape)
        The records of each data set.
    space : AffineInvariant, Sphere, KendallPlanar, LogEuclidean, Euclidean or TangentSpace
    center : array of shape space.shape, optional
        Where the descent starts; the first record of each data set by default.
    tolerance : float
        Length of the gradient, the mean of the steps to the records, at which it ends.

    Returns
    -------
    array of shape (..., *space.shape)

    Raises
    ------
    ValueError
        Where a record is no point of the space, or a descent does not end.
    """
    tolerance, ndim = positive(tolerance, "tolerance"), 1 + len(space.shape)
    X = space.arrays(X, "X")
    if X.ndim < ndim or X.shape[-ndim] == 0:
        raise ValueError(f"X has shape {X.shape}; accepted is (..., n, *{space.shape}) with n ≥ 1")
    index = (..., 0) + (slice(None),) * len(space.shape)
    M = X[index] if center is None else np.asarray(center)
    among = M[(..., None) + (slice(None),) * len(space.shape)]
    y = _coordinates(space, among, X)
    return space.exp(M, space.mean(M, y, tolerance))


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
    X : array of shape (n, *space.shape)
        The records. They are looked at when the mean is asked for, not before.
    center : array of shape space.shape or None
        Public centre; None is the identity for matrices, and refused elsewhere.
    radius : float
        Public radius, in the distance of the space.
    space : optional
        The space of the records, by default `LogEuclidean` of their size.
    on_invalid : {"raise", "center"}
        What happens to a record that is no point of the space.

    Attributes
    ----------
    n : int
        Number of records, public.
    sensitivity : float
        How far the mean moves at most when one record is replaced by any other, in the distance of
        the space.
    chart_sensitivity : float
        The same in the chart at the centre.

    Raises
    ------
    ValueError
        For a radius, a centre or a shape that is none; no record is looked at for it.
    """

    def __init__(self, X, center, radius, space=None, on_invalid="raise"):
        self.radius = _radius(radius)
        self._on_invalid = choice(on_invalid, "on_invalid", POLICIES)
        if space is None:
            X = array(X, "X")
            if X.ndim != 3 or 0 in X.shape or X.shape[1] != X.shape[2]:
                raise ValueError(f"X has shape {X.shape}; accepted is (n, k, k) with n ≥ 1 and "
                                 "k ≥ 1")
            space = LogEuclidean(X.shape[1])
        self.space, self._X = space, space.arrays(X, "X")
        if self._X.ndim != 1 + len(space.shape) or len(self._X) == 0:
            raise ValueError(f"X has shape {self._X.shape}; accepted is (n, *{space.shape}) with "
                             "n ≥ 1")
        if center is None and space.origin is None:
            raise ValueError(f"center is None; accepted is a public point of {space!r}")
        center = space.origin if center is None else center
        self.center = space.read(center, "center")
        if self.center.shape != space.shape:
            raise ValueError(f"center has shape {self.center.shape}; accepted is {space.shape}, as "
                             "the records have")
        try:
            space.exp(self.center)
        except ValueError as error:
            raise ValueError(f"center is no point that float64 can hold: {error}") from None
        self.n = len(self._X)
        tolerance = 0.0 if space.flat else TOLERANCE * self.radius
        self.sensitivity = frechet_sensitivity(self.n, radius, space, tolerance)
        self.chart_sensitivity = self.sensitivity * _stretch(space, self.radius)

    @functools.cached_property
    def steps(self):
        """The clipped records, steps from the centre, shape `(n, dim)`. They are not private.

        ValueError for a bad record.
        """
        X, invalid = self._X, np.zeros(len(self._X), bool)
        if self._on_invalid == "center":  # none is left out: a batch is computed by its size
            invalid = ~self.space.contains(X)
            filler = self.center if self.space.origin is None else self.space.origin
            filler = filler.astype(X.dtype) if X.dtype.kind in "fc" else filler
            X = np.where(invalid.reshape(-1, *(1 for _ in self.space.shape)), filler, X)
        y = _coordinates(self.space, self.center, X)
        y[invalid] = 0
        return clip_to_ball(y, self.radius)

    @functools.cached_property
    def points(self):
        """The clipped records as points, shape `(n, *space.shape)`. They are not private."""
        return self.space.exp(self.center, self.steps)

    @functools.cached_property
    def step(self):
        """The step from the centre to the mean, shape `(dim,)`. It is not private.

        On a curved space it is found to a tolerance that depends on the radius alone, and that the
        sensitivity covers. ValueError for a bad record, or where it is not found in the ball.
        """
        step = self.space.mean(self.center, self.steps, TOLERANCE * self.radius)
        if not self.space.flat and np.linalg.norm(step) > self.radius:
            raise ValueError("the descent to the mean has left the ball of radius "
                             f"{self.radius!r}; accepted are records whose mean it finds")
        return step


class PrivateFrechetMean:
    """Differentially private Fréchet mean of SPD matrices (Algorithm 1), or on any space of spdlib.

    Neighbours differ in one record, replaced by any other; the number of records is public. Records
    further than `radius` from `center` are moved onto that ball, along the geodesic from its
    centre, so the promise holds for any data. The release is projected onto the same ball, which
    holds the mean of the clipped records: that costs no privacy and never takes it further from
    that mean.

    Parameters
    ----------
    epsilon, delta : float
        The promise: ε from 1e-6 to 1e3, δ from 1e-300 to 1/2, or 0 with the pure mechanisms.
    radius : float
        Radius of the ball, in the distance of the space. Choose it and the centre without looking
        at the data: `ball_from_bounds` makes both of bounds on the eigenvalues.
    center : array of shape space.shape, optional
        Centre of the ball; the identity by default for SPD matrices, required elsewhere.
    mechanism : str
        "gaussian" and "classical gaussian" are the tangent Gaussian with its analytic or its
        classical scale, "l2" is the ℓ2 mechanism, in the chart at the centre. Of the pure ones
        (`delta=0`), "laplace" is the Riemannian Laplace, about the mean itself; "k-norm gradient"
        and "truncated loss" are densities on the ball. Which of them errs least depends on the
        space, n, ε and δ, and for the last two on the data.
    on_invalid : {"raise", "center"}
        What happens to a record that is no point of the space. "raise" refuses the data set, and
        the exception speaks of the data: keep it inside. "center" puts the public centre in its
        place: each record is mapped by itself, so n stays public and the sensitivity stands.
    space : LogEuclidean, AffineInvariant, Sphere, KendallPlanar, …, optional
        `LogEuclidean` of the records' size by default.
    statistic : {"frechet", "tangent"}
        "tangent" is the point to which the mean of the clipped steps from the centre leads; its
        sensitivity is `2 radius / n` on every space, whatever the radius. On flat spaces the two
        are one.
    clip : float, optional
        With "k-norm gradient" the longest residual; with "truncated loss", which requires it, the
        distance from which on a record is not felt.
    domain : float, optional
        Radius of the ball on which these two have their density; `radius` by default.
    approximate : bool
        Whether chains may draw from a density that nothing samples exactly, in dimensions above 4:
        the promise is not proved for them.

    Attributes
    ----------
    mean_ : array of shape space.shape
        The release. Where float64 does not hold the point, it is drawn from there towards the
        centre until it does, which costs no privacy either.
    log_mean_ : array of shape (d,)
        Under the log-Euclidean metric, `vecd` of the release's logarithm, centre included.
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
    >>> from spdlib import PrivateFrechetMean, Sphere, ball_from_bounds, random_spd
    >>> covariances = random_spd(400, 3, 1.0, rng=0)
    >>> center, radius = ball_from_bounds(0.3, 3.0, k=3)
    >>> private = PrivateFrechetMean(epsilon=1.0, delta=1e-6, radius=radius, center=center)
    >>> private.fit(covariances).mean_.shape
    (3, 3)
    >>> private.mechanism_.sigma < 0.05
    True

    Directions in space, within 20° of the north:

    >>> north = np.array([0.0, 0.0, 1.0])
    >>> steps = np.random.default_rng(0).uniform(-0.2, 0.2, (200, 2))
    >>> directions = Sphere(2).exp(north, steps)
    >>> private = PrivateFrechetMean(1.0, 0, 0.35, north, "laplace", space=Sphere(2))
    >>> private.fit(directions).mean_.shape
    (3,)
    """

    def __init__(self, epsilon, delta, radius, center=None, mechanism="gaussian",
                 on_invalid="raise", *, space=None, statistic="frechet", clip=None, domain=None,
                 approximate=False):
        self.epsilon, self.delta, self.radius, self.center = epsilon, delta, radius, center
        self.mechanism, self.on_invalid = mechanism, on_invalid
        self.space, self.statistic = space, statistic
        self.clip, self.domain, self.approximate = clip, domain, approximate

    def fit(self, X, y=None, *, rng=None):
        """Release the mean of the records.

        Parameters
        ----------
        X : array of shape (n, *space.shape)
            SPD matrices, or points of the space.
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
        for name in ("mean_", "log_mean_", "mechanism_", "privacy_"):
            vars(self).pop(name, None)
        make, rng = self._make(), generator(rng)
        query = FrechetMean(X, self.center, self.radius, self._space(), self.on_invalid)
        mechanism = make(query, self.epsilon, self.delta)
        step = project_to_ball(mechanism.answer(query, rng), query.radius)
        space, center = query.space, query.center
        if isinstance(space, LogEuclidean):
            self.log_mean_ = space.coordinates(center) + step
        self.mean_ = space.exp(center, space.within_reach(center, step))
        self.mechanism_ = mechanism
        self.privacy_ = (
            f"({self.epsilon}, {self.delta})-differentially private when one of n = {query.n} "
            f"records is replaced; n, the radius {self.radius} and the centre are public")
        if getattr(mechanism, "chains", False):
            self.privacy_ = ("drawn by a chain, which certifies no δ; by draws from its limit it "
                             f"would be {self.privacy_}")
        return self

    def _make(self):
        """The maker of the mechanism, with the parameters that it alone has."""
        choice(self.mechanism, "mechanism", {**MECHANISMS, **DENSITIES})
        options = {"clip": self.clip, "domain": self.domain}
        given = {name: value for name, value in options.items() if value is not None}
        if self.mechanism in MECHANISMS:
            for name, value in given.items():
                raise ValueError(f'{name} is {value!r}; accepted is None with "{self.mechanism}"')
            return MECHANISMS[self.mechanism]
        if self.mechanism == "truncated loss" and self.clip is None:
            raise ValueError('clip is None; accepted with "truncated loss" is the distance from '
                             "which on a record is not felt")
        if not isinstance(self.approximate, bool):
            raise ValueError(f"approximate is {self.approximate!r}; accepted are True and False")
        return functools.partial(DENSITIES[self.mechanism], **given, approximate=self.approximate)

    def _space(self):
        """The space of the query; None for that of the records' size."""
        if choice(self.statistic, "statistic", STATISTICS) == "frechet" or self.space is None:
            return self.space
        if self.space.flat:
            return self.space
        if self.center is None and self.space.origin is None:
            raise ValueError(f"center is None; accepted is a public point of {self.space!r}")
        return TangentSpace(self.space, self.space.origin if self.center is None else self.center)

    def get_params(self, deep=True):
        """The parameters, a dict, as scikit-learn expects."""
        return {name: getattr(self, name) for name in inspect.signature(type(self)).parameters}

    def set_params(self, **parameters):
        """Set parameters by name; returns itself. ValueError for an unknown name."""
        for name, value in parameters.items():
            setattr(self, choice(name, "parameter", self.get_params()), value)
        return self

    def __sklearn_tags__(self):
        """What scikit-learn asks of an estimator that it shows or checks."""
        from sklearn.utils import InputTags, Tags, TargetTags

        return Tags(estimator_type=None, target_tags=TargetTags(required=False),
                    input_tags=InputTags(two_d_array=False, three_d_array=True))

    def __repr__(self):
        parameters = inspect.signature(type(self)).parameters
        given = (f"{name}={value!r}" for name, value in self.get_params().items()
                 if repr(value) != repr(parameters[name].default))
        return f"{type(self).__name__}({', '.join(given)})"


def _coordinates(space, M, X):
    """Steps from `M` to the points `X`, some of them also where there are several shortest ones."""
    return space.log(M, X) if space.flat else space._log(space.points(M, "M"), space.points(X, "X"))


def _stretch(space, radius):
    """Lipschitz constant of log at the centre of a ball (SP-24), rounded up.

    It is 1 where no curvature is positive, and t/sin(t), t = radius √κ, where it is at most κ: by
    comparison of Jacobi fields along the rays, on a ball that is convex.
    """
    t = radius * (1 + 2 * TOLERANCE) * math.sqrt(max(space.curvature[1], 0))
    return t / math.sin(t) * (1 + 8 * EPS) if t else 1.0


def _radius(radius):
    return number(radius, "radius", 1e-280, 1e280, "numbers from 1e-280 to 1e280")


def _unit(y):
    """Rows divided by their largest entry, the norm of that, 0 or from 1 to √d, and the entry."""
    largest = np.abs(y).max(axis=-1, keepdims=True)
    unit = y / np.where(largest > 0, largest, 1)
    return unit, np.linalg.norm(unit, axis=-1, keepdims=True), largest
