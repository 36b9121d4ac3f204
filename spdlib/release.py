"""What a fitted estimator leaves to be published, and the one diagnostic that may stand beside it.

A document holds the release, what is public of the data set, the promise, and the versions of what
made it. But for the release itself no field of it depends on a record.
"""

import dataclasses
import fractions
import importlib.metadata
import json
import math
import platform
import random
import sys

import numpy as np

from ._checks import TINY, choice, generator, integer, number, positive
from .accounting import group_label, json_of, spending, writable
from .calibration import laplace_scale
from .clipping import POLICIES, _unit, ball_radius
from .discrete import DiscreteGaussian
from .frechet import FrechetMean
from .mechanisms import Answers, public_of

SCHEMA, VERSION = "spdlib.release", 1
ADJACENCY = "one of n records replaced by any other"
ARRAYS = "mean", "step", "log_mean", "center"
PACKAGES = "numpy", "scipy", "opendp"


@dataclasses.dataclass(frozen=True, eq=False, kw_only=True)
class Release:
    """What leaves: a mean with its promise, and nothing else that depends on a record.

    Fields are not assigned to and arrays are read-only, in copies too. The two dicts are plain ones
    and can be written to; what has been published is the text of `to_json`.

    Attributes
    ----------
    mean : array of shape space.shape
        The release, `mean_` of the estimator.
    step : array of shape (dim,)
        Its coordinates: the step from the centre to it, before float64 drew it closer.
    log_mean : array of shape (dim,) or None
        `log_mean_`, in the log-Euclidean distance.
    statistic, mechanism, on_invalid : str
        As the estimator was told.
    noise : dict of str to float
        What is public of the mechanism, by its own names: `sensitivity`, `sigma` or `scale`, ….
    epsilon, delta : float
        The promise.
    mu, rho : float or None
        Parameters of Gaussian and of zero-concentrated differential privacy, where they are known.
    privacy : str
        The promise in words.
    adjacency : str
        What neighbours are.
    n : int
        Number of records.
    space : str
        How the space is written.
    center : array of shape space.shape
    radius : float
        The public ball.
    largest_share : float
        What the heaviest record weighs of all, 1/n without weights.
    shrink : bool
        Whether the release was shrunk towards the centre, which costs no privacy.
    group : str, int or None
        Public label of the people whom it is about.
    seeded : bool
        Whether the noise came from a generator that somebody gave, and who knows its seed can take
        away.
    versions : dict of str to str
        Of what made it.
    """

    mean: np.ndarray
    step: np.ndarray
    log_mean: np.ndarray | None
    statistic: str
    mechanism: str
    on_invalid: str
    noise: dict
    epsilon: float
    delta: float
    mu: float | None
    rho: float | None
    privacy: str
    adjacency: str
    n: int
    space: str
    center: np.ndarray
    radius: float
    largest_share: float
    shrink: bool
    group: str | int | None
    seeded: bool
    versions: dict

    def to_dict(self):
        """The document, of what JSON knows: an array is a nested list.

        One of complex numbers is a dict of two, "real" and "imag".
        """
        content = {"schema": SCHEMA, "version": VERSION}
        for name in FIELDS:
            value = getattr(self, name)
            content[name] = _listed(value) if isinstance(value, np.ndarray) else (
                dict(value) if isinstance(value, dict) else value)
        return content

    def to_json(self):
        """The document as text, from which `from_json` reads the same bits."""
        return json.dumps(self.to_dict(), allow_nan=False, ensure_ascii=False, indent=1)

    @classmethod
    def from_dict(cls, content):
        """The release that a document holds. ValueError for another document, naming the field."""
        try:
            return cls(**_read(content))
        except RecursionError:
            raise ValueError("document is nested too deeply; accepted is what to_dict has made"
                             ) from None

    @classmethod
    def from_json(cls, text):
        """The release that the text of a document holds. ValueError as `from_dict`."""
        try:
            content = json_of(text)
        except (TypeError, ValueError) as error:
            raise ValueError(f"document is no JSON ({error}); accepted is what to_json has made"
                             ) from error
        return cls.from_dict(content)

    def __setstate__(self, state):  # of a copy or a pickle, whose arrays are new
        self.__dict__.update({name: _kept(value) if isinstance(value, np.ndarray) else value
                              for name, value in state.items()})

    def __eq__(self, other):
        return isinstance(other, Release) and self.to_json() == other.to_json()

    __hash__ = None


FIELDS = tuple(field.name for field in dataclasses.fields(Release))


def in_words(promise, mechanism, seeded):
    """The words of a promise, with those on what it is not about."""
    if not isinstance(mechanism, DiscreteGaussian):
        promise += "; proved of draws in real numbers, not of the last bits of floats"
    return promise + "; not private against anyone who knows the seed" * seeded


def document(private, query, mechanism, step, group, seeded):
    """The Release of a fitted estimator; of the data it sees the step of the release only."""
    noise = {name: float(value) for name, value in public_of(mechanism).items()}
    mu = noise.get("mu")
    rho = None if mu is None else noise.get("rho", math.nextafter(mu * mu / 2, math.inf))
    return Release(
        mean=_kept(private.mean_), step=_kept(step),
        center=_kept(query.center.astype(complex if np.iscomplexobj(query.center) else float)),
        log_mean=_kept(private.log_mean_) if hasattr(private, "log_mean_") else None,
        statistic=private.statistic, mechanism=private.mechanism, on_invalid=query.on_invalid,
        noise=noise, epsilon=float(private.epsilon), delta=float(private.delta),
        mu=mu, rho=rho,
        privacy=private.privacy_, adjacency=ADJACENCY, n=query.n, space=repr(query.space),
        radius=query.radius, shrink=bool(private.shrink),
        largest_share=1 / query.divisor,  # the largest weight is 1
        group=group_label(group), seeded=seeded, versions=_versions())


def _versions():
    versions = {"spdlib": sys.modules[__package__].__version__, "python": platform.python_version()}
    for name in PACKAGES:
        try:
            versions[name] = importlib.metadata.version(name)
        except importlib.metadata.PackageNotFoundError:
            pass
    return versions


def _kept(array):
    """A copy that nobody can write to."""
    array = np.array(array)
    array.flags.writeable = False
    return array


def _listed(array):
    if array.dtype.kind == "c":
        return {"real": array.real.tolist(), "imag": array.imag.tolist()}
    return array.tolist()


def _read(content):
    """The fields of a document, each read by itself, and those that have to agree."""
    if not isinstance(content, dict):
        raise ValueError(f"document is {content!r}; accepted is a dict")
    schema, version = content.get("schema"), content.get("version")
    if (schema, version) != (SCHEMA, VERSION) or type(version) is not int:
        raise ValueError(f"document has the schema {schema!r}, version {version!r}; accepted is "
                         f"{SCHEMA!r}, version {VERSION}")
    named, known = set(content) - {"schema", "version"}, set(FIELDS)
    if missing := sorted(known - named):
        raise ValueError(f"document lacks {missing}; accepted is one with all fields")
    if unknown := sorted(named - known, key=str):
        raise ValueError(f"document has {unknown}; accepted are no other fields than {FIELDS}")
    read = {name: _READ[name](content[name], name) for name in FIELDS}
    if read["mean"].shape != read["center"].shape:
        raise ValueError(f"mean has shape {read['mean'].shape}; accepted is "
                         f"{read['center'].shape}, that of the centre")
    if (step := read["step"]).ndim != 1:
        raise ValueError(f"step has shape {step.shape}; accepted is (dim,)")
    if read["log_mean"] is not None and read["log_mean"].shape != step.shape:
        raise ValueError(f"log_mean has shape {read['log_mean'].shape}; accepted is {step.shape}, "
                         "that of step")
    return read


def _array(value, name):
    """The array that was listed; every entry a finite real number."""
    try:
        listed = np.array(value, dtype=object)  # no bool and no str becomes a number
        sound = isinstance(value, list) and {*map(type, listed.ravel())} <= {int, float}
        array = listed.astype(float) if sound else np.array(math.nan)
    except (OverflowError, ValueError):
        array = np.array(math.nan)
    if not np.isfinite(array).all() or not (array == listed).all():
        raise ValueError(f"{name} is {value!r}; accepted are nested lists of finite numbers")
    return _kept(array)


def _point(value, name):
    """The array that was listed, of complex numbers in two parts."""
    if not isinstance(value, dict) or set(value) != {"real", "imag"}:
        return _array(value, name)
    real, imag = _array(value["real"], name), _array(value["imag"], name)
    if real.shape != imag.shape:
        raise ValueError(f"{name} has parts of shapes {real.shape} and {imag.shape}; accepted are "
                         "two of one shape")
    return _kept(real + 1j * imag)


def _number(value, name):
    return number(value, name, -1e308, 1e308, "finite numbers")


def _epsilon(value, name):
    return number(value, name, 1e-6, 1e3, "numbers from 1e-6 to 1e3")


def _delta(value, name):
    return number(value, name, 1e-300, 0.5, "0 and numbers from 1e-300 to 1/2", also=0)


def _share(value, name):
    return number(value, name, TINY, 1, "numbers above 0 up to 1")


def _one_of(*names):
    return lambda value, name: choice(value, name, names)


def _text(value, name):
    if not writable(value):
        raise ValueError(f"{name} is {value!r}; accepted is a str that UTF-8 can write")
    return value


def _flag(value, name):
    if not isinstance(value, bool):
        raise ValueError(f"{name} is {value!r}; accepted are True and False")
    return value


def _dict_of(read):
    def mapped(value, name):
        if not isinstance(value, dict):
            raise ValueError(f"{name} is {value!r}; accepted is a dict")
        return {_text(key, name): read(each, f"{name}[{key!r}]") for key, each in value.items()}
    return mapped


def _or_none(read):
    return lambda value, name: None if value is None else read(value, name)


_READ = dict.fromkeys(FIELDS, _text) | {
    "mean": _point, "step": _array, "center": _point, "log_mean": _or_none(_array),
    "on_invalid": _one_of(*POLICIES), "adjacency": _one_of(ADJACENCY),
    "noise": _dict_of(_number), "epsilon": _epsilon, "delta": _delta, "mu": _or_none(positive),
    "rho": _or_none(positive), "n": lambda value, name: integer(value, name, 1),
    "radius": lambda value, name: ball_radius(value), "largest_share": _share, "shrink": _flag,
    "group": lambda value, name: group_label(value), "seeded": _flag, "versions": _dict_of(_text),
}


class DiscreteLaplace:
    """Integer noise that takes z with probability proportional to exp(-|z|/scale): ε-DP.

    For a count, which one record moves by 1. It is drawn exactly, with integers only (Canonne,
    Kamath and Steinke 2020, Algorithm 2).

    Attributes
    ----------
    scale : float
        1/ε, rounded up.
    """

    law = "pure"  # that of randomized response, here not only as a bound
    public = "scale",

    def __init__(self, epsilon):
        self.scale = laplace_scale(1.0, epsilon)

    @property
    def loss(self):
        """The largest privacy loss, the ε at δ = 0."""
        return math.nextafter(1 / self.scale, math.inf)

    def draw(self, source):
        """One draw, an int, by a `random.Random`."""
        t, s = fractions.Fraction(self.scale).as_integer_ratio()
        while True:
            u = source.randrange(t)
            if not _decays(fractions.Fraction(u, t), source):
                continue
            v = 0
            while _decays(fractions.Fraction(1), source):
                v += 1
            sign, size = source.choice((-1, 1)), (u + t * v) // s
            if (sign, size) != (-1, 0):  # or else 0 would come twice as often
                return sign * size

    __repr__ = Answers.__repr__


@np.errstate(all="ignore")  # a warning, where a square is no float, would speak of the data
def private_clipped_count(X, center, radius, epsilon, *, space=None, on_invalid="raise", rng=None,
                          accountant=None, group=None):
    """How many records are outside the public ball, with noise: a release of its own that costs ε.

    How many records a mean clips is a fact about the data and stays inside; this count, ε-DP where
    one of n records is replaced by any other, may leave. The noise is an integer, drawn exactly
    from the system's entropy; its standard deviation is about √2/ε.

    Parameters
    ----------
    X : array of shape (n, k, k), or (n, *space.shape)
    center, radius, space, on_invalid
        As of `PrivateFrechetMean`.
    epsilon : float
        What it costs, from 1e-6 to 1e3.
    rng, accountant, group
        As of `PrivateFrechetMean.fit`.

    Returns
    -------
    int
        From 0 to n.

    Raises
    ------
    ValueError
        For a parameter or a record that is none, or what the budget does not hold; nothing was
        drawn then.

    Examples
    --------
    >>> from spdlib import random_spd
    >>> from spdlib.release import private_clipped_count
    >>> covariances = random_spd(400, 3, 1.0, rng=0)
    >>> private_clipped_count(covariances, None, 0.5, epsilon=1.0) > 300
    True
    """
    query = FrechetMean(X, center, radius, space, on_invalid)
    mechanism, rng = DiscreteLaplace(epsilon), None if rng is None else generator(rng)
    with spending(accountant, mechanism, 1, group):
        _, norm, largest = _unit(query._bare_steps())
        count = int((largest > query.radius / np.maximum(norm, 1)).sum())
    source = random.SystemRandom() if rng is None else random.Random(rng.bytes(32))
    return min(max(count + mechanism.draw(source), 0), query.n)


def _decays(gamma, source):
    """True with probability exp(-γ), exactly, for a fraction γ from 0 to 1."""
    k = 1
    while source.randrange(gamma.denominator * k) < gamma.numerator:
        k += 1
    return k % 2 == 1
