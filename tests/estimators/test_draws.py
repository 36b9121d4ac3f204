"""Whatever is refused is refused before the first draw, and nothing is raised after it.

A search over spaces, public parameters and mechanisms. A caller's treatment of floating-point
errors, and of warnings, changes nothing of it.
"""

import importlib.util
import math
import re
import warnings

import numpy as np
import pytest
from mechanism_table import CURVES, DENSITIES, MEANS
from tables import PURE

from spdlib import (Ball, KendallPlanar, PrivateClassMeans, PrivateFrechetMean,
                    PrivateGeodesicRegression, Sphere, TangentGaussian, private_clipped_count)
from spdlib.accounting import BudgetAccountant
from spdlib.queries import FrechetMean
from spdlib.spaces import AffineInvariant, Euclidean, LogEuclidean, TangentSpace

RADII = 1e-6, 1e-3, 0.3, 1.0, 3.0, 7.0, 12.0, 20.0, 24.0, 35.0, 100.0, 300.0, 700.0, 720.0, 2000.0
EXACT = ["discrete gaussian"] * (importlib.util.find_spec("opendp") is not None)
EXACT += ["discrete laplace"]


class Enough(Exception):
    """So many draws that the rest of them shows nothing new."""


class Watched(np.random.Generator):
    """A generator that knows whether something was drawn, and ends what draws too often."""

    drew = False

    def __init__(self, seed, most):
        super().__init__(np.random.PCG64(seed))
        self.left = most


def watched(name):
    draw = getattr(np.random.Generator, name)

    def drawn(self, *arguments, **options):
        made = draw(self, *arguments, **options)
        if np.size(made):
            self.drew, self.left = True, self.left - 1
            if self.left < 0:
                raise Enough
        return made

    return drawn


for each in "random", "standard_normal", "standard_exponential", "standard_gamma", "uniform":
    setattr(Watched, each, watched(each))
Watched.bytes = lambda self, n: setattr(self, "drew", True) or np.random.Generator.bytes(self, n)


def random_space(rng):
    """A space and a public centre, some of them hardly held by float64."""
    k, d = int(rng.integers(1, 4)), int(rng.choice([1, 2, 5]))
    turn = np.linalg.qr(rng.standard_normal((k, k)))[0]
    worse = (turn * np.exp(rng.uniform(-8, 8, k))) @ turn.T
    matrix = [np.eye(k), 1e-300 * np.eye(k), 1e300 * np.eye(k), (worse + worse.T) / 2][
        rng.choice(4, p=[0.5, 0.1, 0.1, 0.3])]
    unit, shape = rng.standard_normal(d + 1), rng.standard_normal((4, 2)) @ [1, 1j]
    shapes, curved = KendallPlanar(4 - k % 2), [
        (AffineInvariant(k), matrix), (AffineInvariant(1), matrix[:1, :1]),
        (Sphere(d, float(rng.choice([1e-4, 1.0, 1e4]))), unit / np.linalg.norm(unit))]
    curved.append((shapes, shapes.points(shape[:shapes.landmarks])))
    space, center = curved[rng.choice(4, p=[0.4, 0.2, 0.3, 0.1])]
    flat = [(LogEuclidean(k), matrix), (Euclidean(k), matrix),
            (TangentSpace(space, center), center)]
    return (space, center) if rng.random() < 0.6 else flat[rng.integers(3)]


def sound_records(space, center, n, rng):
    """Points of the space, near and far."""
    space = getattr(space, "space", space)
    if isinstance(space, KendallPlanar):
        return space.points(rng.standard_normal((n, space.landmarks, 2)) @ [1, 1j])
    if isinstance(space, Sphere):
        X = rng.standard_normal((n, space.dim + 1))
        return np.concatenate([X / np.linalg.norm(X, axis=-1, keepdims=True), [-center]])[-n:]
    logs = rng.standard_normal((n, space.k)) * rng.choice([0.1, 3.0, 300.0], (n, 1))
    X = np.exp(logs.clip(-650, 650))[..., None] * np.eye(space.k)
    return np.where(space.contains(X)[:, None, None], X, center)


def random_case(rng, exact=()):
    """What releases something of random records: a function of a generator and an account."""
    (space, center), n = random_space(rng), int(rng.choice([1, 2, 5]))
    X, unit = sound_records(space, center, n, rng), min(space.injectivity_radius / math.pi, 1)
    radius, epsilon = unit * float(rng.choice(RADII)), float(rng.choice([1e-6, 0.05, 1.0, 1e3]))
    ball, public = Ball(radius, center, space), {"on_invalid": str(rng.choice(["raise", "center"]))}
    kind = rng.choice(["mean", "tangent", "batches", "classes", "curve", "count"],
                      p=[0.4, 0.1, 0.1, 0.1, 0.25, 0.05])
    noise, delta = ["gaussian", *exact], float(rng.choice([1e-300, 1e-6, 0.4]))
    if kind == "count":
        return lambda rng, account: private_clipped_count(
            X, ball, epsilon, rng=rng, accountant=account, **public)
    if kind == "curve":
        row = CURVES[str(rng.choice([*CURVES]))]
        clip = [None, 0.1 * radius, radius, 50 * radius][rng.integers(row.kind.pure, 4)]
        private = PrivateGeodesicRegression(
            epsilon, row.delta(delta), ball, unit * float(rng.choice(RADII)),
            mechanism=row.kind.with_options(clip=clip), **public)
        x = rng.random(n)
        return lambda rng, account: private.fit(x, X, rng=rng, accountant=account)
    if kind == "classes":
        mechanism, y = str(rng.choice(noise)), rng.integers(0, 2, n)
        private = PrivateClassMeans(epsilon, delta, ball, [0, 1], mechanism, **public)
        return lambda rng, account: private.fit(
            X, y, rng=None if mechanism in exact else rng, accountant=account)
    pure = sorted(PURE) if kind != "batches" else []
    name = str(rng.choice([*noise, "l2", *pure]))
    row, options = MEANS[name], {}
    domain = [None, radius, 2 * radius, 35.0, 2000.0][rng.integers(5)] if row.kind.pure else None
    if name == "truncated loss":
        options["clip"] = radius * float(rng.choice([0.1, 1.0, 50.0]))

    def fit(rng, account):
        if domain is not None:
            about = ball.tangent() if kind == "tangent" else ball
            options["domain"] = about.of_radius(domain)
        private = PrivateFrechetMean(epsilon, row.delta(delta), ball,
                                     row.kind.with_options(**options), n=2 * n, **public)
        private.set_params(statistic="tangent" if kind == "tangent" else "frechet")
        rng = None if name in exact else rng
        if kind != "batches":
            return private.fit(X, rng=rng, accountant=account)
        return private.partial_fit(X).release(rng=rng, accountant=account)

    return fit


def outcome(fit, seed=0, most=10):
    """The words of a refusal, or "drawn"; nothing else may happen, and no refusal after a draw."""
    rng, account = Watched(seed, most), BudgetAccountant(1e3, 0.5)
    with np.errstate(all="raise"), warnings.catch_warnings():
        warnings.simplefilter("error")
        warnings.simplefilter("default", UserWarning)  # of public parameters
        try:
            fit(rng, account)
        except Enough:
            pass
        except ValueError as error:
            assert not rng.drew and not account._spent, error
            return str(error)
    assert len(account._spent) == 1
    return "drawn"


def search(seed, size, most, exact=()):
    rng = np.random.default_rng(seed)
    found = [outcome(random_case(rng, exact), i, most) for i in range(size)]
    assert size / 4 < found.count("drawn") < 3 * size / 4


@pytest.mark.slow
def test_what_is_refused_is_refused_before_the_first_draw():
    search(0, 60, 10)


@pytest.mark.slow
@pytest.mark.parametrize("seed", [1, 2])
def test_what_is_refused_in_a_larger_search_is_refused_before_the_first_draw(seed):
    search(seed, 250, 200, EXACT)


def mean(space, name, radius, records=1.0, delta=0, domain=None, **options):
    """What releases a mean of records at the identity, or of another multiple of it."""
    ball = Ball(radius, np.eye(space.k), space)
    if domain is not None:
        options["domain"] = ball.of_radius(domain)
    private = PrivateFrechetMean(1.0, delta, ball, MEANS[name].kind.with_options(**options))
    X = np.multiply.outer(np.broadcast_to(records, 3), np.eye(space.k))
    return lambda rng, account: private.fit(X, rng=rng, accountant=account)


def curve(space, name, radius, speed, clip, delta=0):
    """What releases a curve through records at the identity."""
    private = PrivateGeodesicRegression(0.05, delta, Ball(radius, np.eye(space.k), space), speed,
                                        mechanism=CURVES[name].kind.with_options(clip=clip))
    X = np.broadcast_to(np.eye(space.k), (3, *space.shape))
    return lambda rng, account: private.fit([0, 0.5, 1], X, rng=rng, accountant=account)


HELD = "of balls all of whose points float64 holds"


@pytest.mark.parametrize("case, words", [
    *[(mean(AffineInvariant(k), mechanism, radius, domain=domain, clip=1.0), f"domain is .* {HELD}")
      for mechanism in DENSITIES
      for k, radius, domain in ((2, 1.0, 35.0), (3, 1.0, 25.0), (2, 1.0, 1e6), (1, 300.0, 720.0))],
    *[(mean(AffineInvariant(1), mechanism, radius, records, clip=1.0), f"radius is .* {HELD}")
      for mechanism in DENSITIES for radius in (720.0, 2000.0) for records in (1.0, 1e300)],
    *[(mean(AffineInvariant(1), "gaussian", 720.0, records, delta=1e-6), f"radius is 720.* {HELD}")
      for records in (1.0, 1e300)],
    (mean(AffineInvariant(1), "laplace", 720.0), f"radius is 720.* {HELD}"),
    (mean(AffineInvariant(2), "laplace", 1.0, domain=35.0), f"domain is 35.* {HELD}"),
    *[(curve(AffineInvariant(2), mechanism, *public), rf"3 radius \+ speed \+ clip is .* {HELD}")
      for mechanism in DENSITIES for public in ((8.0, 0.1, 0.1), (0.1, 25.0, 0.1), (0.1, 0.1, 24))],
    *[(curve(AffineInvariant(1), "noisy descent", *public, 1e-6), f"the larger of .* {HELD}")
      for public in ((300.0, 1.0, None), (1.0, 1500.0, None), (1.0, 1.0, 710.0))],
    (curve(AffineInvariant(2), "noisy descent", 8.1, 0.1, 0.1, 1e-6), f"the larger of .* {HELD}"),
])
def test_a_ball_that_float64_does_not_hold_is_refused_by_public_parameters(case, words):
    assert re.search(words, outcome(case))


WILD = np.stack([np.diag([x, x]) for x in (1e-310, 1e-300, 1.0, 1e300, math.inf, math.nan)])
WIDE, NEAR, CENTER = Ball(1e3, np.eye(2)), Ball(1.0, np.eye(2)), {"on_invalid": "center"}
ENTRIES = {
    "fit": lambda: PrivateFrechetMean(1.0, 1e-6, WIDE, **CENTER).fit(WILD, rng=0).mean_,
    "fit on a curved space": lambda: PrivateFrechetMean(
        1.0, 0, Ball(1.0, np.eye(2), AffineInvariant(2)), "laplace", **CENTER)
    .fit(WILD, rng=0).mean_,
    "batches": lambda: PrivateFrechetMean(
        1.0, 1e-6, Ball(1e3, np.eye(2), Euclidean(2)), n=9, **CENTER)
    .partial_fit(WILD).release(rng=0, fewer=True).mean_,
    "classes": lambda: PrivateClassMeans(1.0, 1e-6, WIDE, [0, 1], **CENTER)
    .fit(WILD, [0, 1, 0, 1, 0, None], rng=0).means_,
    "count": lambda: private_clipped_count(WILD, NEAR, epsilon=1.0, rng=0, **CENTER),
    "curve": lambda: PrivateGeodesicRegression(1.0, 1e-6, NEAR, 1.0, **CENTER)
    .fit([0, 1, 2, math.inf, math.nan, -1e300], WILD, rng=0).point_,
    "a ball": lambda: Ball(1.0, 1e-300 * np.eye(2), AffineInvariant(2)).tangent().center,
    "answer": lambda: TangentGaussian(9.0, 1.0, 1e-6).answer(
        FrechetMean(WILD, NEAR, "center"), 0),
    "a draw": lambda: TangentGaussian(9.0, 1.0, 1e-6).prepared(
        FrechetMean(WILD, NEAR, "center"))(0),
    "perturb": lambda: TangentGaussian(1e300, 1.0, 1e-6).perturb([1e308, 5e-324], 0),
}


@pytest.mark.parametrize("name", ENTRIES)
def test_a_callers_treatment_of_floating_point_errors_changes_nothing(name):
    def called(*_):
        raise AssertionError("a caller's function was told of an error")

    with warnings.catch_warnings():
        warnings.simplefilter("error")
        warnings.simplefilter("default", UserWarning)  # of public parameters
        expected = ENTRIES[name]()
        for how in {"all": "raise"}, {"all": "warn"}, {"all": "call", "call": called}:
            with np.errstate(**how):
                np.testing.assert_array_equal(ENTRIES[name](), expected)
