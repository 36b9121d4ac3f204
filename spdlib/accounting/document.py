"""What a fitted estimator leaves to be published.

A document holds the release, what is public of the data set, the promise, and the versions of what
made it. But for the release itself no field of it depends on a record.
"""

import contextlib
import dataclasses
import functools
import importlib.metadata
import json
import math
import platform
import sys
import warnings
from typing import Any

import numpy as np

from .._checks import choice, flag, integer, positive
from ..mechanisms import public_of
from ..spaces.ball import POLICIES, Ball, FoundBall, ball_radius
from . import fields, regions
from .account import Group, group_label
from .fields import Document, may, must

SCHEMA, VERSION = "spdlib.release", 2
ADJACENCY = "one of n records replaced by any other"
WITHIN_CLASSES = ADJACENCY + " of its class"  # where labels are public
PACKAGES = "numpy", "scipy", "opendp"
# Of the fields of each kind of release a document has all or none.
TOGETHER = (("mean", "step", "statistic", "largest_share"), ("means", "steps", "labels", "counts"),
            ("point", "velocity", "x_range", "speed"), ("spread",), ("count",))
FIRST = (  # the fields of version 1, which only PrivateFrechetMean wrote
    "mean step log_mean statistic mechanism on_invalid noise epsilon delta mu rho privacy adjacency"
    " n space center radius largest_share shrink group seeded versions").split()


@dataclasses.dataclass(frozen=True, eq=False, kw_only=True)
class ReleasedBall(Document):
    """The ball of a release: radius, centre, how the space is written, and who knows it.

    `private` says that it was found privately, at a share of the budget or by another release;
    else it is public.
    """

    radius: float = must(lambda value, name: ball_radius(value))
    center: np.ndarray = must(fields.point)
    space: str = must(fields.text)
    private: bool = must(flag)


def _labels_of(value, name):
    """Labels of classes, as a tuple."""
    sound = isinstance(value, list) and {*map(type, value)} <= {bool, int, float, str} and all(
        fields.writable(each) if isinstance(each, str) else abs(each) < math.inf for each in value)
    if not sound or not 0 < len(set(value)) == len(value):
        raise ValueError(f"{name} is {value!r}; accepted are one or more texts that UTF-8 can "
                         "write, or finite numbers, no two alike")
    return tuple(value)


def _balls_of(value, name):
    """Balls of classes, as a tuple."""
    if not isinstance(value, list) or not value:
        raise ValueError(f"{name} is {value!r}; accepted is a list of balls")
    return tuple(fields.read(ReleasedBall, each, name) for each in value)


@dataclasses.dataclass(frozen=True, eq=False, kw_only=True)
class Release(Document):
    """What leaves: a release with its promise, and nothing else that depends on a record.

    Fields are not assigned to and arrays are read-only, in copies too. The dicts are plain ones and
    can be written to; what has been published is the text of `to_json`. What a document does not
    have is None.

    Attributes
    ----------
    estimator : str
        What made it, such as "PrivateFrechetMean".
    mean : array of shape space.shape
        The release, `mean_` of the estimator.
    step : array of shape (dim,)
        Its coordinates: the step from the centre to it, before float64 drew it closer.
    log_mean : array of shape (dim,)
        `log_mean_`, in the log-Euclidean distance.
    means, steps : arrays of shapes (classes, *space.shape) and (classes, dim)
        The same of class means.
    labels, counts : tuple, and array of shape (classes,)
        Their labels, and numbers of records: noisy ones unless labels are public.
    point, velocity : arrays of shapes space.shape and (dim,)
        The curve x ↦ exp(point, (x - middle) velocity) of a regression, from the middle of
        `x_range`.
    spread : float
        The mean squared distance of records, clipped about the mean.
    mean_off_by : float
        How far `mean` is from what was drawn, where float64 does not hold that; regions allow for
        it.
    count : int
        How many records were clipped, or were no points of the space.
    regions : dict of str to float
        By their levels, radii about the mean of balls that hold the mean of the population.
    mechanism, statistic, on_invalid : str
        As the estimator was told.
    noise : dict of str to float
        What is public of the mechanism, by its own names: `sensitivity`, `sigma` or `scale`, ….
    noises : dict of str to such dicts
        The same of each further part: the spread, the count, the steps to a private ball.
    epsilon, delta : float
        The promise.
    mu, rho : float
        Parameters of Gaussian and of zero-concentrated differential privacy, where they are known.
    shares : dict of str to float
        Of the budget, what each part had, where there are several.
    privacy : str
        The promise in words.
    adjacency : str
        What neighbours are.
    n : int
        Number of records.
    ball : ReleasedBall
        The ball to which records were clipped, or of which the search for others began.
    balls : tuple of ReleasedBall
        Of class means, the balls that were found for the classes.
    x_range, speed : array of shape (2,), and float
        Of a regression: where x lies, and how far a curve may go from one end to the other.
    bias : float
        How far clipping moves the mean of the population at most, as somebody has declared it;
        without it regions are about the population clipped to the ball.
    largest_share : float
        What the heaviest record weighs of all, 1/n without weights.
    shrink : bool
        Whether the release was shrunk towards the centre, which costs no privacy.
    group : str or int
        Public label of the people whom it is about; without it all.
    seeded : bool
        Whether the noise came from a generator that somebody gave, and who knows its seed can take
        away.
    versions : dict of str to str
        Of what made it.
    """

    estimator: str = must(fields.text)
    mean: np.ndarray | None = may(fields.point)
    step: np.ndarray | None = may(fields.array)
    log_mean: np.ndarray | None = may(fields.array)
    means: np.ndarray | None = may(fields.point)
    steps: np.ndarray | None = may(fields.array)
    labels: tuple | None = may(_labels_of)
    counts: np.ndarray | None = may(fields.array)
    point: np.ndarray | None = may(fields.point)
    velocity: np.ndarray | None = may(fields.array)
    spread: float | None = may(fields.size)
    mean_off_by: float | None = may(positive)
    count: int | None = may(lambda value, name: integer(value, name, 0))
    regions: dict | None = may(fields.dict_of(positive))
    mechanism: str = must(fields.text)
    statistic: str | None = may(fields.text)
    on_invalid: str = must(lambda value, name: choice(value, name, POLICIES))
    noise: dict = must(fields.dict_of(fields.finite))
    noises: dict | None = may(fields.dict_of(fields.dict_of(fields.finite)))
    epsilon: float = must(fields.epsilon)
    delta: float = must(fields.delta)
    mu: float | None = may(positive)
    rho: float | None = may(positive)
    shares: dict | None = may(fields.dict_of(fields.share))
    privacy: str = must(fields.text)
    adjacency: str = must(lambda value, name: choice(value, name, (ADJACENCY, WITHIN_CLASSES)))
    n: int = must(lambda value, name: integer(value, name, 1, 2**53))
    ball: ReleasedBall = must(lambda value, name: fields.read(ReleasedBall, value, name))
    balls: tuple | None = may(_balls_of)
    x_range: np.ndarray | None = may(fields.array)
    speed: float | None = may(fields.size)
    bias: float | None = may(fields.size)
    largest_share: float | None = may(fields.share)
    shrink: bool = must(flag)
    group: Group = may(lambda value, name: group_label(value))
    seeded: bool = must(flag)
    versions: dict = must(fields.dict_of(fields.text))

    def within(self, level: float = 0.95) -> float:
        """How far the mean of the clipped records may be, over the noise alone.

        With this probability it is no further from the release, projected and shrunk ones included
        (claim SP-37). For a mean on a flat space, with noise whose law does not depend on the data.

        Parameters
        ----------
        level : float
            From 0.5 to 0.9999.

        Returns
        -------
        float
            In the distance of the space; in that of the chart for a tangent mean.
        """
        return regions.within(self, level)

    def region(self, level: float = 0.95, bias: float = 0.0) -> float:
        """How far the mean of the population, clipped to `ball`, may be: noise and sampling.

        With about this probability it is no further from the release, by the central limit theorem
        and for the worst covariance of the trace that the spread tells (claim SP-37). About records
        that lie outside of the ball it knows nothing, but for what `bias` says.

        Parameters
        ----------
        level : float
            From 0.5 to 0.9999.
        bias : float
            How far clipping moves the mean of the population at most, as you declare it; with it
            the region is about the mean without clipping.

        Returns
        -------
        float
            In the distance of the space; in that of the chart for a tangent mean.

        Raises
        ------
        ValueError
            For a release without a `spread`.
        """
        if self.count is not None and self.count > self.n / 2 and not bias:
            warnings.warn(
                f"{self.count} of {self.n} records lie outside of the ball or are no points of the "
                "space, as far as the noisy count can tell, and the region is about clipped "
                "records only; is the ball in the unit of the data, are its bounds too tight, or "
                "are many records singular?", stacklevel=2)
        return regions.region(self, level, bias)

    def with_region(self, level: float = 0.95, bias: float = 0.0) -> "Release":
        """The same document with `region(level, bias)` in it.

        Parameters and errors are those of `region`. ValueError, too, where the document has regions
        with another bias.
        """
        if self.regions and bias != (self.bias or 0.0):
            raise ValueError(f"bias is {bias!r}; accepted beside the regions of the document is "
                             f"{self.bias or 0.0!r}, as theirs")
        regions = (self.regions or {}) | {str(float(level)): self.region(level, bias)}
        return dataclasses.replace(self, regions=regions, bias=float(bias) or None)

    def apart(self, other: "Release", level: float = 0.95) -> float:
        """How far the means of two populations, clipped to one ball, are apart at least.

        The releases are about different people, each with a `spread`, in one ball, which may have
        been found on all of them together; they are not shrunk. Where the means are equal, the
        answer is above 0 with a probability of about 1 - level at most.

        Parameters
        ----------
        other : Release
        level : float
            From 0.5 to 0.9999.

        Returns
        -------
        float
            In the distance of the space, 0 where noise and sampling may explain all; in that of the
            chart for tangent means.

        Raises
        ------
        ValueError
            For a release in another ball, without a `spread`, or shrunk.
        """
        return regions.apart(self, other, level)

    def to_dict(self) -> dict:
        """The document, of what JSON knows: an array is a nested list, and None is left out.

        An array of complex numbers is a dict of two, "real" and "imag".
        """
        return {"schema": SCHEMA, "version": VERSION} | fields.plain(self)

    def to_json(self) -> str:
        """The document as text, from which `from_json` reads the same bits."""
        return json.dumps(self.to_dict(), allow_nan=False, ensure_ascii=False, indent=1)

    @classmethod
    def from_dict(cls, content: dict) -> "Release":
        """The release that a document holds. ValueError for another document, naming the field.

        One of version 1 is read, too.
        """
        try:
            version, content = fields.headed(content, SCHEMA, 1, VERSION)
            return _agreeing(fields.read(cls, _of_first(content) if version == 1 else content))
        except RecursionError:
            raise ValueError(
                "document is nested too deeply; accepted is what to_dict has made") from None

    @classmethod
    def from_json(cls, text: str) -> "Release":
        """The release that the text of a document holds. ValueError as `from_dict`."""
        try:
            content = fields.json_of(text)
        except (TypeError, ValueError) as error:
            raise ValueError(
                f"document is no JSON ({error}); accepted is what to_json has made") from error
        return cls.from_dict(content)


def in_words(promise: str, mechanism: Any, query: Any, seeded: bool) -> str:
    """The words of a promise, with those on what it is not about."""
    if not mechanism.is_proved(query):
        return (f"not proved to be private: a chain has approximated a law that is {promise}; a "
                "chain certifies no δ")
    if not mechanism.exact:
        promise += "; proved of draws in real numbers, not of the last bits of floats"
    if seeded:
        promise += "; not private against anyone who knows the seed"
    return promise


def released_ball(ball: Ball) -> ReleasedBall:
    """A ball as a document shows it."""
    return ReleasedBall(radius=ball.radius, center=ball.center, space=repr(ball.space),
                        private=isinstance(ball, FoundBall))


@functools.cache
def installed() -> dict[str, str]:
    """Versions of spdlib, of Python, and of those packages that say which they are."""
    versions = {"spdlib": sys.modules["spdlib"].__version__, "python": platform.python_version()}
    for name in PACKAGES:
        for package in importlib.metadata.distributions(name=name):
            with contextlib.suppress(OSError, LookupError):  # what an upgrade left behind
                if said := package.version:
                    versions.setdefault(name, said)
    return versions


def document(private: Any, query: Any, mechanism: Any, *, group: Group, seeded: bool, ball: Ball,
             **released: Any) -> Release:
    """The Release of a fitted estimator; `released` are the fields that only its kind has.

    Nothing but these depends on a record, and the `ball` where it was found privately.
    """
    noise = {name: float(value) for name, value in public_of(mechanism).items()}
    mu = noise.get("mu")
    rho = None if mu is None else noise.get("rho", math.nextafter(mu * mu / 2, math.inf))
    labels = getattr(query, "labels", "private")
    return Release(estimator=type(private).__name__, mechanism=mechanism.name,
                   on_invalid=query.on_invalid, noise=noise, epsilon=float(private.epsilon),
                   delta=float(private.delta), mu=mu, rho=rho, privacy=private.privacy_,
                   adjacency=WITHIN_CLASSES if labels == "public" else ADJACENCY, n=query.n,
                   ball=released_ball(ball), group=group_label(group), seeded=seeded,
                   versions=dict(installed()), **released)


def _of_first(content):
    """The fields of a document of version 1, as they are named now."""
    now = fields.named(content, "document", FIRST, FIRST) | {"estimator": "PrivateFrechetMean"}
    now["ball"] = {name: now.pop(name) for name in ("radius", "center", "space")}
    now["ball"]["private"] = False
    for name in "log_mean", "mu", "rho", "group":  # null where there is none
        if now[name] is None:
            del now[name]
    return now


def _agreeing(one):
    """The release, if its fields fit each other."""
    have = {name: value for name, value in vars(one).items() if value is not None}
    needed = [name for names in TOGETHER if have.keys() & {*names} for name in names]
    fields.named(have, "document", needed)
    if not needed:
        raise ValueError("document has no release; accepted is one with some of "
                         f"{[names[0] for names in TOGETHER]}")
    center, classes = one.ball.center.shape, (len(one.labels or ()),)
    for name in have.keys() & {"step", "velocity"}:
        if have[name].ndim != 1:
            raise ValueError(f"{name} has shape {have[name].shape}; accepted is (dim,)")
    shapes = {
        "mean": (center, "that of the centre"),
        "point": (center, "that of the centre"),
        "log_mean": (np.shape(one.step), "that of step"),
        "x_range": ((2,), "two ends"),
        "means": (classes + center, "a point for each label"),
        "counts": (classes, "one for each label"),
        "balls": (classes, "one for each label"),
    }
    for name, (accepted, why) in shapes.items():
        if name in have and np.shape(have[name]) != accepted:
            shape = np.shape(have[name])
            raise ValueError(f"{name} has shape {shape}; accepted is {accepted}, {why}")
    if "steps" in have and have["steps"].shape[:-1] != classes:
        raise ValueError(f"steps has shape {have['steps'].shape}; accepted is "
                         f"{(*classes, 'dim')}, one for each label")
    if any(ball.center.shape != center for ball in one.balls or ()):
        raise ValueError(f"balls have centres of other shapes; accepted is {center}, that of the "
                         "centre")
    if math.fsum((one.shares or {}).values()) > 1 + 1e-9:
        raise ValueError(f"shares is {one.shares!r}; accepted are those of one budget")
    for part in ("means", "spread") if "spread" in have and "mean" in have else ():
        if not (one.noises or {}).get(part, {}).get("sigma", -1) >= 0:
            raise ValueError(f"noises is {one.noises!r}; accepted beside a spread are those with "
                             "the sigma of 'means' and of 'spread'")
    return one
