"""Fréchet means: the query, its sensitivity, and the private release."""

import functools
import inspect
import math

import numpy as np

from ._checks import EPS, array, choice, finite, generator, integer, number
from .mechanisms import L2Mechanism, RiemannianLaplace, TangentGaussian
from .spaces import LogEuclidean

MECHANISMS = {
    "gaussian": TangentGaussian.of,
    "classical gaussian": functools.partial(TangentGaussian.of, calibration="classical"),
    "l2": L2Mechanism.of,
    "laplace": RiemannianLaplace.of,
}
POLICIES = "raise", "center"


def frechet_sensitivity(n, radius):
    """Sensitivity `2 radius / n` of the mean of `n` records in a ball of a flat space (Theorem 3).

    One record is replaced. Rounded up: it also covers the rounding of a mean whose sum is exact, as
    that of `clip_to_ball` is. ValueError for an `n` or a `radius` that is none.
    """
    n, radius = integer(n, "n", 1, 1e300), _radius(radius)
    return max(2 * radius / n * (1 + 2 * n * EPS), 4 * radius * EPS)  # the first may underflow


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
    X : array of shape (n, k, k)
        The records. They are looked at when the mean is asked for, not before.
    center : array of shape (k, k) or None
        Public centre; None is the identity.
    radius : float
        Public radius, in the distance of the space.
    space : LogEuclidean, optional
        The space of the records, by default that of their size.
    on_invalid : {"raise", "center"}
        What happens to a record that is no point of the space.

    Attributes
    ----------
    n : int
        Number of records, public.
    sensitivity : float
        How far the mean moves at most when one record is replaced by any other.

    Raises
    ------
    ValueError
        For a radius, a centre or a shape that is none; no record is looked at for it.
    """

    def __init__(self, X, center, radius, space=None, on_invalid="raise"):
        self.radius, self._X = _radius(radius), array(X, "X")
        self._on_invalid = choice(on_invalid, "on_invalid", POLICIES)
        shape = self._X.shape
        if len(shape) != 3 or 0 in shape or shape[1] != shape[2]:
            raise ValueError(f"X has shape {shape}; accepted is (n, k, k) with n ≥ 1 and k ≥ 1")
        self.space = space or LogEuclidean(shape[1])
        if self.space.k != shape[1]:
            raise ValueError(f"space is {self.space!r}; accepted are those of k = {shape[1]}, the "
                             "records' size")
        self.center = np.eye(shape[1]) if center is None else array(center, "center")
        if self.center.shape != shape[1:]:
            raise ValueError(f"center has shape {self.center.shape}; accepted is {shape[1:]}, as "
                             "the records have")
        try:
            self.space.exp(self.center)
        except ValueError as error:
            raise ValueError(f"center is no point that float64 can hold: {error}") from None
        self.n = shape[0]
        self.sensitivity = frechet_sensitivity(self.n, radius)

    @functools.cached_property
    def step(self):
        """The step from the centre to the mean, shape `(dim,)`. It is not private.

        ValueError for a bad record.
        """
        X, invalid = self._X, np.zeros(len(self._X), bool)
        if self._on_invalid == "center":  # none is left out: a batch is computed by its size
            invalid = ~self.space.contains(X)
            X = np.where(invalid[:, None, None], np.eye(self.space.k, dtype=X.dtype), X)
        y = self.space.log(self.center, X)
        y[invalid] = 0
        return self.space.mean(self.center, clip_to_ball(y, self.radius))


class PrivateFrechetMean:
    """(ε, δ)-DP log-Euclidean Fréchet mean of SPD matrices (Algorithm 1).

    Neighbours differ in one record, replaced by any other; the number of records is public. Records
    further than `radius` from `center` are clipped to that ball, so the promise holds for any data.
    The release is projected onto the same ball, which holds the mean of the clipped records: that
    costs no privacy and never takes it further from that mean.

    Parameters
    ----------
    epsilon, delta : float
        The promise: ε from 1e-6 to 1e3, δ from 1e-300 to 1/2, or 0 with "laplace".
    radius : float
        Radius of the ball, in log-Euclidean distance. Choose it and the centre without looking at
        the data: `ball_from_bounds` makes both of bounds on the eigenvalues.
    center : array of shape (k, k), optional
        Centre of the ball, SPD; the identity by default.
    mechanism : {"gaussian", "classical gaussian", "l2", "laplace"}
        The noise: the tangent Gaussian with its analytic or its classical scale, the ℓ2 mechanism,
        or the Riemannian Laplace, which is ε-DP and takes `delta=0`. Which of them errs least
        depends on k, ε and δ, not on the data.
    on_invalid : {"raise", "center"}
        What happens to a record that is not SPD. "raise" refuses the data set, and the exception
        speaks of the data: keep it inside. "center" puts the public centre in its place: each
        record is mapped by itself, so n stays public and the sensitivity stands.

    Attributes
    ----------
    mean_ : array of shape (k, k)
        The release, SPD. Where float64 holds no SPD matrix with the logarithm `log_mean_`, it is
        drawn from there towards the centre until it does, which costs no privacy either.
    log_mean_ : array of shape (d,)
        `vecd` of the release's logarithm, centre included.
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
                 on_invalid="raise"):
        self.epsilon, self.delta, self.radius, self.center = epsilon, delta, radius, center
        self.mechanism, self.on_invalid = mechanism, on_invalid

    def fit(self, X, y=None, *, rng=None):
        """Release the mean of the records.

        Parameters
        ----------
        X : array of shape (n, k, k)
            SPD matrices.
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
            For a parameter, a shape or a record that is none. Then nothing has been drawn, and no
            attribute of an earlier fit is left.
        """
        for name in ("mean_", "log_mean_", "mechanism_", "privacy_"):
            vars(self).pop(name, None)
        make, rng = MECHANISMS[choice(self.mechanism, "mechanism", MECHANISMS)], generator(rng)
        query = FrechetMean(X, self.center, self.radius, on_invalid=self.on_invalid)
        mechanism = make(query, self.epsilon, self.delta)
        step = project_to_ball(mechanism.answer(query, rng), query.radius)
        space, center = query.space, query.center
        self.log_mean_ = space.coordinates(center) + step
        self.mean_ = space.exp(center, space.within_reach(center, step))
        self.mechanism_ = mechanism
        self.privacy_ = (
            f"({self.epsilon}, {self.delta})-differentially private when one of n = {query.n} "
            f"records is replaced; n, the radius {self.radius} and the centre are public")
        return self

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


def _radius(radius):
    return number(radius, "radius", 1e-280, 1e280, "numbers from 1e-280 to 1e280")


def _unit(y):
    """Rows divided by their largest entry, the norm of that, 0 or from 1 to √d, and the entry."""
    largest = np.abs(y).max(axis=-1, keepdims=True)
    unit = y / np.where(largest > 0, largest, 1)
    return unit, np.linalg.norm(unit, axis=-1, keepdims=True), largest
