"""What a user holds gives nothing away, and what has been drawn is returned.

Two attacks are tried on everything that a user can hold: stepping a generator that is found in it
back over the noise, and comparing the noise of two copies. An estimator that keeps its generator
shows that the attacks work. The rest searches for neighbours that are told apart, in exact
arithmetic, and for settings at which a draw would be lost.
"""

import contextlib
import copy
import io
import math
import pickle
import warnings
from fractions import Fraction

import joblib
import numpy as np
import pytest
import sklearn.base
from conftest import mostly_slow
from mechanism_table import MEANS, NOISES
from sklearn.exceptions import NotFittedError
from sklearn.pipeline import Pipeline, make_pipeline
from sklearn.utils.validation import check_is_fitted

from spdlib import (Ball, BudgetAccountant, FrechetMean, LogEuclidean, PrivateFrechetMean, expm,
                    invvecd, logm, random_spd, vecd)
from spdlib.descriptors import descriptor_ball
from spdlib.queries import frechet_sensitivity
from spdlib.spaces.ball import clip_to_ball, project_to_ball
from spdlib.spd import LOG_MAX, LOG_MIN, is_spd, widest_spread

K, D, N = 3, 6, 400
RECORDS = random_spd(N, K, 0.5, 0)
OTHERS = random_spd(N, K, 0.5, 1)
BALL = Ball(1.0, np.eye(K))
GENERATORS = np.random.Generator, np.random.BitGenerator, np.random.RandomState


class KeepsGenerator(PrivateFrechetMean):
    """What the estimator was once: it keeps the generator that it is given."""

    def __init__(self, epsilon, delta, ball, rng=None):
        super().__init__(epsilon, delta, ball)
        self.rng = np.random.default_rng(rng)

    def fit(self, X, y=None, *, rng=None):
        return super().fit(X, rng=self.rng)


class KeepsSeed(PrivateFrechetMean):
    """The same with a seed."""

    def __init__(self, epsilon, delta, ball, seed=None):
        super().__init__(epsilon, delta, ball)
        self.seed = seed

    def fit(self, X, y=None, *, rng=None):
        return super().fit(X, rng=self.seed)


class KeepsClosure(PrivateFrechetMean):
    """The same, hidden in a function."""

    def fit(self, X, y=None, *, rng=None):
        rng = np.random.default_rng(rng)
        super().fit(X, rng=rng)
        self.again = lambda: super(KeepsClosure, self).fit(X, rng=rng)
        return self


# the attack on what one user holds

def reachable(thing):
    """Every object that is reached from this one, through attributes, containers and closures."""
    seen, stack = {}, [thing]
    while stack:
        found = stack.pop()
        if id(found) in seen or isinstance(found, type):
            continue
        seen[id(found)] = found
        stack += getattr(found, "__dict__", {}).values()
        stack += (getattr(found, name) for kind in type(found).__mro__
                  for name in getattr(kind, "__slots__", ()) if hasattr(found, name))
        if isinstance(found, dict):
            stack += [*found, *found.values()]
        elif isinstance(found, (list, tuple, set, frozenset)):
            stack += found
        elif isinstance(found, np.ndarray):
            stack += [] if found.base is None else [found.base]
            stack += found.ravel().tolist() if found.dtype == object else []
        for name in ("__self__", "__func__", "func", "args", "keywords", "__closure__"):
            stack.append(getattr(found, name, None))
        if hasattr(found, "cell_contents"):
            stack.append(found.cell_contents)
    return list(seen.values())


def generators(thing):
    """Generators that are reached, and those that the integers among it seed, from their start."""
    for found in reachable(thing):
        if isinstance(found, GENERATORS):
            yield np.random.default_rng(copy.deepcopy(found))
        elif isinstance(found, (int, np.integer)) and not isinstance(found, bool) and found >= 0:
            yield np.random.default_rng(found)


def recovered(thing, fitted):
    """How near one comes to the mean without noise by the generators found in this thing.

    Each is stepped back by as many draws as a release takes, and more, and the noise is taken away.
    """
    release, sigma = fitted.log_mean_, fitted.mechanism_.sigma
    guesses = [release]
    for rng in generators(thing):
        for steps in range(3 * D):
            trial = copy.deepcopy(rng)
            trial.bit_generator.advance(-steps)
            guesses.append(release - sigma * trial.standard_normal(D))
    truth = FrechetMean(RECORDS, BALL).step
    return min(np.abs(guess - truth).max() for guess in guesses)


def pickled(thing):
    return pickle.loads(pickle.dumps(thing))


def dumped(thing):
    file = io.BytesIO()
    joblib.dump(thing, file)
    file.seek(0)
    return joblib.load(file)


WAYS = {
    "itself": lambda fitted: fitted, "copy": copy.copy, "deepcopy": copy.deepcopy,
    "pickle": pickled, "joblib": dumped, "pipeline": lambda fitted: Pipeline([("mean", fitted)]),
    "vars": lambda fitted: dict(vars(fitted)), "bound method": lambda fitted: fitted.fit,
}


@pytest.mark.parametrize("way", WAYS)
@pytest.mark.parametrize("make", [KeepsGenerator, KeepsSeed])
def test_the_attack_finds_the_mean_behind_an_estimator_that_keeps_its_generator(way, make):
    fitted = make(1.0, 1e-5, BALL, 5).fit(RECORDS)
    assert recovered(WAYS[way](fitted), fitted) < 1e-10


def test_the_attack_looks_into_functions():
    fitted = KeepsClosure(1.0, 1e-5, BALL).fit(RECORDS, rng=5)
    assert recovered(fitted, fitted) < 1e-10


@pytest.mark.parametrize("way", WAYS)
@pytest.mark.parametrize("rng", [5, None, "generator", "state"])
def test_the_attack_finds_nothing_in_what_a_user_holds(way, rng):
    rng = {"generator": np.random.default_rng(5), "state": np.random.RandomState(5)}.get(rng, rng)
    fitted = PrivateFrechetMean(1.0, 1e-5, BALL).fit(RECORDS, rng=rng)
    held = WAYS[way](fitted)
    assert recovered(held, fitted) > fitted.mechanism_.sigma / 100
    assert not [found for found in reachable(held) if isinstance(found, GENERATORS)]


@pytest.mark.parametrize("name", NOISES)
def test_no_generator_is_reached_from_an_estimator_or_its_parts(name):
    rng, row = np.random.default_rng(5), MEANS[name]
    unfitted = PrivateFrechetMean(0.5, row.delta(1e-5), BALL, row.choice())
    fitted = copy.deepcopy(unfitted).fit(RECORDS, rng=rng)
    query = FrechetMean(RECORDS, BALL)
    fitted.mechanism_.answer(query, rng)
    fitted.mechanism_.release(np.eye(K), rng)
    for held in (unfitted, fitted, fitted.mechanism_, query, sklearn.base.clone(fitted),
                 sklearn.base.clone(unfitted), fitted.get_params(), fitted.privacy_):
        assert not [found for found in reachable(held) if isinstance(found, GENERATORS)]
    for held in (unfitted, fitted, fitted.mechanism_):
        stored = pickle.dumps(held)
        assert not any(word in stored for word in (b"random", b"Generator", b"PCG64"))


# the attack on two releases

def difference_of_means():
    return FrechetMean(RECORDS, BALL).step - FrechetMean(OTHERS, BALL).step


def two_releases(one, other):
    """How far the difference of two groups' releases is from that of their means."""
    difference = one.fit(RECORDS).log_mean_ - other.fit(OTHERS).log_mean_
    return np.abs(difference - difference_of_means()).max()


COPIES = {"copy": copy.copy, "deepcopy": copy.deepcopy, "pickle": pickled, "joblib": dumped}


@pytest.mark.parametrize("way", COPIES)
def test_copies_of_an_estimator_that_keeps_its_generator_release_with_equal_noise(way):
    one = KeepsGenerator(1.0, 1e-5, BALL, rng=5)
    other = COPIES["deepcopy" if way == "copy" else way](one)
    assert two_releases(one, other) < 1e-10


@pytest.mark.parametrize("way", [*COPIES, "clone"])
@pytest.mark.parametrize("fitted", [False, True])
def test_copies_release_with_noise_of_their_own(way, fitted):
    one = PrivateFrechetMean(1.0, 1e-5, BALL)
    if fitted:
        one.fit(RECORDS, rng=5)
    other = (COPIES | {"clone": sklearn.base.clone})[way](one)
    sigma = copy.copy(one).fit(RECORDS).mechanism_.sigma
    assert two_releases(one, other) > sigma / 100


def test_parallel_fits_release_with_noise_of_their_own():
    one = PrivateFrechetMean(1.0, 1e-5, BALL)
    fits = joblib.Parallel(n_jobs=4, prefer="threads")(
        joblib.delayed(copy.copy(one).fit)(RECORDS) for _ in range(8))
    assert len({fitted.log_mean_.tobytes() for fitted in fits}) == 8


# scikit-learn

SIGNALS = np.random.default_rng(0).standard_normal((50, 4, 200))


def covariances():
    from pyriemann.estimation import Covariances  # here, since it takes a second

    return Covariances()


def pipeline():
    return make_pipeline(covariances(), PrivateFrechetMean(1.0, 1e-5, Ball(2.0, np.eye(4))))


@pytest.mark.slow
def test_a_pipeline_after_covariances_releases_their_mean():
    fitted = pipeline().fit(SIGNALS, privatefrechetmean__rng=3)
    alone = PrivateFrechetMean(1.0, 1e-5, fitted[-1].ball)
    alone.fit(covariances().transform(SIGNALS), rng=3)
    assert np.array_equal(fitted[-1].mean_, alone.mean_)
    assert not np.array_equal(fitted[-1].mean_, pipeline().fit(SIGNALS)[-1].mean_)


@pytest.mark.slow
@pytest.mark.parametrize("way", WAYS)
def test_the_attack_finds_nothing_in_a_fitted_pipeline(way):
    held = WAYS[way](pipeline().fit(SIGNALS, privatefrechetmean__rng=3))
    assert not [found for found in reachable(held) if isinstance(found, GENERATORS)]
    assert 3 not in [found for found in reachable(held) if type(found) is int]


def test_parameters_are_got_and_set_as_scikit_learn_does():
    ball = Ball(2.0, 2 * np.eye(2))
    private = PrivateFrechetMean(1.0, 1e-5, ball, mechanism="l2")
    assert private.get_params() == {
        "epsilon": 1.0, "delta": 1e-5, "ball": ball, "mechanism": "l2", "on_invalid": "raise",
        "statistic": "frechet", "shrink": False, "refine": None, "spread": None,
        "count": None, "n": None}
    assert private.get_params()["ball"] is ball and private.get_params(deep=False)
    assert private.set_params(epsilon=0.5, ball=-1) is private
    assert (private.epsilon, private.ball) == (0.5, -1)  # refused by fit, not before
    for name in ("rng", "sigma", "mean_"):
        with pytest.raises(ValueError, match=f"parameter is '{name}'; accepted are .*'epsilon'"):
            private.set_params(**{name: 1})


@pytest.mark.slow
def test_a_pipeline_sets_and_gets_the_parameters_of_its_steps():
    steps = pipeline().set_params(privatefrechetmean__epsilon=0.25)
    assert steps.get_params()["privatefrechetmean__epsilon"] == 0.25
    assert steps[-1].epsilon == 0.25


def test_a_clone_has_the_parameters_and_no_release():
    fitted = PrivateFrechetMean(1.0, 1e-5, BALL).fit(RECORDS)
    clone = sklearn.base.clone(fitted)
    assert repr(clone) == repr(fitted) and not hasattr(clone, "mean_")
    assert clone.ball == fitted.ball and clone.ball.center is not fitted.ball.center


def test_the_representation_names_what_is_not_a_default():
    private = PrivateFrechetMean(1.0, 1e-5, BALL)
    expected = f"PrivateFrechetMean(epsilon=1.0, delta=1e-05, ball={BALL!r})"
    assert repr(private) == repr(pickled(private)) == repr(private.fit(RECORDS)) == expected
    other = PrivateFrechetMean(1.0, 0, Ball(2, np.eye(1)), "laplace", "center")
    assert repr(other) == repr(pickled(other)) == (
        "PrivateFrechetMean(epsilon=1.0, delta=0, ball=Ball(2.0, [[1.0]], LogEuclidean(1)), "
        "mechanism='laplace', on_invalid='center')")


@pytest.mark.slow
def test_scikit_learn_shows_a_pipeline_and_knows_whether_it_is_fitted():
    steps = pipeline()
    for shown in (repr(steps), steps._repr_html_(), repr(steps.fit(SIGNALS))):
        assert "PrivateFrechetMean" in shown
    check_is_fitted(steps)
    check_is_fitted(steps[-1])
    for unfitted in (pipeline(), PrivateFrechetMean(1.0, 1e-5, BALL)):
        with pytest.raises(NotFittedError):
            check_is_fitted(unfitted)


# what has been drawn is returned

def near(value):
    """Floats that approach the value from below, to its last bits."""
    return [value - 10.0**-e for e in (0, 6, 9, 12, 13)] + [math.nextafter(value, 0), value]


def centres(k, rng):
    """Centres at the limits of float64: of their size, and of the spread of their eigenvalues."""
    logs = [np.full(k, end) for end in (*near(LOG_MAX), *(-top for top in near(-LOG_MIN)))]
    for spread in near(widest_spread(k)) if k > 1 else ():
        logs += [low + spread * np.linspace(0, 1, k) for low in (0, LOG_MIN, LOG_MAX - spread)]
    for eigenvalues in np.exp(logs):
        for Q in (np.eye(k), np.linalg.qr(rng.standard_normal((k, k)))[0]):
            C = (Q * eigenvalues) @ Q.T
            yield C / 2 + C.T / 2


def room(L):
    """How far the eigenvalues of a logarithm are from the ends of what float64 holds."""
    eigenvalues = np.linalg.eigvalsh(L)
    low, high = eigenvalues[0], eigenvalues[-1]
    return min(LOG_MAX - high, low - LOG_MIN, widest_spread(len(L)) - (high - low))


def assert_returned(fitted, center):
    """What every fit leaves: a release in the ball, and a matrix that stands for it."""
    k, radius = len(center), fitted.ball.radius
    assert np.array_equal(fitted.mean_, fitted.mean_.T) and np.isfinite(fitted.mean_).all()
    logm(fitted.mean_)  # does not raise: it is positive definite
    start = vecd(logm(center))
    step, unit = fitted.log_mean_ - start, max(radius, 1.0)
    rounding = 1e-15 * np.linalg.norm(fitted.log_mean_ / unit)  # of the centre's coordinates
    assert np.linalg.norm(step / unit) <= radius / unit * (1 + 1e-12) + rounding
    if room(invvecd(fitted.log_mean_)) > 2e-6:  # float64 holds it
        assert np.array_equal(fitted.mean_, expm(invvecd(fitted.log_mean_)))
    else:  # on the segment from the centre to the release
        part = LogEuclidean(k).within_reach(center, step)
        largest = np.abs(step).argmax()
        along = part[largest] / step[largest] if step.any() else 0.0
        assert 0 <= along <= 1
        np.testing.assert_allclose(part, along * step, rtol=1e-12, atol=1e-300)
        scale = np.abs(fitted.mean_).max()
        end = expm(invvecd(start + part))
        np.testing.assert_allclose(fitted.mean_ / scale, end / scale, rtol=0, atol=1e-9)


SETTINGS = [
    {"k": 8, "epsilon": 0.5, "n": 50, "radius": 13.0},
    {"k": 11, "epsilon": 0.1, "n": 178, "radius": descriptor_ball(3, 1e-6).radius},
    {"k": 11, "epsilon": 1e-3, "n": 10, "radius": descriptor_ball(3, 1e-6).radius},
    {"k": 3, "epsilon": 1e-6, "n": 1, "radius": 24.9},
    {"k": 1, "epsilon": 1e-3, "n": 2, "radius": 900.0},
    {"k": 2, "epsilon": 1e-3, "n": 5, "radius": 1e5},
    {"k": 5, "epsilon": 1.0, "n": 5, "radius": 1e280},
    {"k": 2, "epsilon": 1.0, "n": 3, "radius": 1e-280},
]


@pytest.mark.slow
@pytest.mark.parametrize("setting", mostly_slow(SETTINGS, *SETTINGS[::4]),
                         ids=lambda s: "-".join(map(str, s.values())))
@pytest.mark.parametrize("mechanism", mostly_slow(["gaussian", "laplace", "l2"], "gaussian"))
def test_every_fit_returns_what_it_drew(setting, mechanism):
    k, n = setting["k"], setting["n"]
    promise = setting["epsilon"], MEANS[mechanism].delta(1e-6)
    X = random_spd(n, k, 2.0, 0)
    for center in (np.eye(k), descriptor_ball(3, 1e-6).center[:k, :k], random_spd(1, k, 2.0, 1)[0]):
        private = PrivateFrechetMean(*promise, Ball(setting["radius"], center), mechanism)
        for seed in range(8):
            assert_returned(private.fit(X, rng=seed), center)


@pytest.mark.slow
@pytest.mark.parametrize("k", mostly_slow([1, 2, 3, 8], 1))
def test_a_centre_that_fits_by_itself_is_enough(k):
    drawn = refused = 0
    for i, center in enumerate(centres(k, np.random.default_rng(k))):
        try:
            ball = Ball([1e-12, 1.0, 24.9, 1e280][i % 4], center)
        except ValueError as error:
            assert str(error).startswith("center is no point that float64 can hold")
            with contextlib.suppress(ValueError):  # else it has no logarithm at all
                assert room(logm(center)) < 1e-11
            refused += 1
        else:
            private = PrivateFrechetMean(0.1, 1e-6, ball)
            assert_returned(private.fit(np.tile(np.eye(k), (3, 1, 1)), rng=i), center)
            drawn += 1
    assert drawn > 10 and (refused > 0) == (k > 1)


@pytest.mark.slow
def test_a_release_that_float64_can_hold_is_not_moved_by_coming_down():
    space, rng = LogEuclidean(3), np.random.default_rng(0)
    for _ in range(200):
        M, v = random_spd(1, 3, 1.0, rng)[0], 3 * rng.standard_normal(6)
        assert np.array_equal(space.within_reach(M, v), v)
        far = 1e3 * v
        cut = space.within_reach(M, far)
        np.testing.assert_allclose(cut / np.linalg.norm(cut), v / np.linalg.norm(v), rtol=1e-9)
        logm(space.exp(M, cut))  # does not raise
        cut = space.within_reach(np.eye(3), far)
        space.exp(np.eye(3), cut)
        with pytest.raises(ValueError):  # from the identity no more of it would do
            space.exp(np.eye(3), (1 + 1e-6) * cut)


@pytest.mark.slow
def test_from_a_ball_found_at_the_edge_of_float64_one_can_go_on():
    ball, moved = Ball.from_bounds(1e-20, 1e3, k=3), 0
    for seed in range(60):
        Q = np.linalg.qr(np.random.default_rng(seed).standard_normal((3, 3)))[0]
        x = Q * [1, 3e-8, 7e-16] @ Q.T
        X = np.stack([x / 2 + x.T / 2] * 200)
        if is_spd(X).all():
            found = PrivateFrechetMean(100.0, 1e-6, ball, refine=2).fit(X, rng=seed).ball_
            assert is_spd(PrivateFrechetMean(100.0, 1e-6, found).fit(X, rng=seed).mean_)
            moved += 1
    assert moved > 20


def test_an_interruption_on_the_way_down_leaves_the_release_and_nothing_older(monkeypatch):
    def interrupted(*arguments):
        raise KeyboardInterrupt

    private = PrivateFrechetMean(1.0, 1e-5, BALL)
    expected = private.fit(RECORDS, rng=5).log_mean_
    private.fit(OTHERS, rng=6)
    monkeypatch.setattr(LogEuclidean, "within_reach", interrupted)
    with pytest.raises(KeyboardInterrupt):
        private.fit(RECORDS, rng=5)
    assert np.array_equal(private.log_mean_, expected)
    assert not hasattr(private, "mean_") and not hasattr(private, "mechanism_")


@pytest.mark.slow
@pytest.mark.parametrize("k", mostly_slow([1, 2, 3], 2))
def test_coming_down_never_makes_a_step_longer(k):
    space, rng, cut = LogEuclidean(k), np.random.default_rng(k), 0
    for trial in range(400):
        gap = 10.0 ** rng.uniform(-13, -6)
        eigenvalues = np.full(k, LOG_MAX - gap)
        if k > 1 and trial % 2:
            eigenvalues = np.linspace(0, widest_spread(k) - gap, k)
        center = np.diag(np.exp(eigenvalues))
        v = rng.standard_normal(space.dim) * 10.0 ** rng.uniform(-14, 1)
        part = space.within_reach(center, v)
        along = part / v
        assert along.min() >= 0 and along.max() <= 1 and np.ptp(along) < 1e-15
        assert np.isfinite(space.exp(center, part)).all()
        cut += along[0] < 1
    assert cut > 50


# the projection

def exact2(a, b):
    """Exact squared distance of two rows of floats."""
    pairs = zip(a.tolist(), b.tolist(), strict=True)
    return sum((Fraction(p) - Fraction(q)) ** 2 for p, q in pairs)


def in_ball(m, radius):
    return sum(Fraction(entry) ** 2 for entry in m.tolist()) <= Fraction(radius) ** 2


RADII = [1e-280, 1e-3, 1.0, math.pi, 24.9, 1e280]


@pytest.mark.parametrize("radius", RADII)
@pytest.mark.parametrize("d", mostly_slow([1, 2, 6, 36], 1, 2, 6))
def test_the_projection_is_never_further_from_a_point_of_the_ball(d, radius):
    rng = np.random.default_rng(d)
    for trial in range(60):
        y = rng.standard_normal(d) / math.sqrt(d) * 10.0 ** rng.uniform(-1, 4)
        if trial % 3 == 0:
            y = y / np.linalg.norm(y) * (1 + 10.0 ** rng.uniform(-7, 0))
        m = {0: y / np.linalg.norm(y), 1: rng.standard_normal(d), 2: np.eye(d)[0]}[trial % 3]
        y, m = radius * y, clip_to_ball(radius * m[None], radius)[0]
        assert in_ball(m, radius)
        projected = project_to_ball(y, radius)
        if in_ball(y, radius * (1 - 1e-12)):
            assert np.array_equal(projected, y)
        else:
            assert exact2(projected, m) <= exact2(y, m)


@pytest.mark.parametrize("radius", RADII)
@pytest.mark.parametrize("d", [1, 2, 6, 36])
def test_at_the_sphere_the_projection_moves_a_release_by_its_rounding_only(d, radius):
    rng = np.random.default_rng(d)
    for _ in range(60):
        y = rng.standard_normal(d)
        y = radius * (y / np.linalg.norm(y)) * (1 + int(rng.integers(-40, 41)) * 2.0**-53)
        projected = project_to_ball(y, radius)
        rounding = (d + 50) * Fraction(2) ** -52 * Fraction(radius)
        assert exact2(projected, y) <= rounding**2


@pytest.mark.parametrize("radius", RADII)
@pytest.mark.parametrize("shape", [(6,), (50, 6), (5, 10, 6)])
def test_what_lies_in_the_ball_stays_and_what_does_not_goes_to_the_sphere(shape, radius):
    y = np.random.default_rng(0).standard_normal(shape)
    y *= np.random.default_rng(1).uniform(0.1, 3, (*shape[:-1], 1)) / 2
    norm = np.linalg.norm(y, axis=-1, keepdims=True)
    projected = project_to_ball(radius * y, radius)
    inside = np.broadcast_to(norm < 1 - 1e-12, shape)
    assert np.array_equal(projected[inside], (radius * y)[inside])
    np.testing.assert_allclose(projected / radius, y / np.maximum(norm, 1), rtol=1e-14, atol=1e-300)


@pytest.mark.slow
def test_the_projection_saves_most_of_the_error_where_the_noise_is_large():
    k, n, radius = 8, 50, 13.0
    X = random_spd(n, k, 1.0, 0)
    ball = Ball(radius, np.eye(k))
    query, private = FrechetMean(X, ball), PrivateFrechetMean(0.5, 1e-6, ball)
    bare = projected = 0.0
    for seed in range(50):
        fitted = private.fit(X, rng=seed)
        bare += np.linalg.norm(fitted.mechanism_.answer(query, seed) - query.step)
        projected += np.linalg.norm(fitted.log_mean_ - query.step)
    assert projected < bare


# records that are none take the place of the centre

def bad_records(k, rng):
    """Records that are no SPD matrices, and some that nearly are not."""
    identity, A = np.eye(k), rng.standard_normal((k, k))
    return [
        np.nan * np.ones((k, k)), np.diag([np.inf] + [1.0] * (k - 1)), -identity, 0 * identity,
        A - A.T + np.triu(np.ones((k, k))), np.diag([0.0] + [1.0] * (k - 1)),
        np.triu(np.full((k, k), 1e308)) - np.tril(np.full((k, k), 1e308), -1),
    ]


def odd_records(k, rng):
    """SPD matrices at the edge of what float64 holds."""
    identity, A = np.eye(k), rng.standard_normal((k, k))
    A = A @ A.T + identity
    Q = np.linalg.qr(A)[0]
    steep = (Q * 10.0 ** rng.uniform(-12, 0, k)) @ Q.T
    return [
        A + 1e-11 * np.triu(A, 1), 1.5e-323 * identity, 1e-310 * A, 1e300 * A / np.abs(A).max(),
        1.7e308 * identity, np.diag(10.0 ** rng.uniform(-7, 7, k)), steep / 2 + steep.T / 2,
    ]


@pytest.mark.parametrize("dtype", mostly_slow(
    [np.float64, np.float32, np.float16, np.int64], np.float64))
@pytest.mark.parametrize("k", [2, *(pytest.param(k, marks=pytest.mark.slow) for k in (3, 5))])
@pytest.mark.parametrize("center", ["identity", "given"])
def test_a_bad_record_is_replaced_by_the_centre(k, dtype, center):
    rng = np.random.default_rng(k)
    center = np.eye(k) if center == "identity" else np.diag(np.arange(2.0, k + 2))  # in any dtype
    X = random_spd(9, k, 1.0, rng) if dtype != np.int64 else np.tile(3 * np.eye(k), (9, 1, 1))
    X = X.astype(dtype)
    private = PrivateFrechetMean(1.0, 1e-5, Ball(2.0, center), on_invalid="center")
    strict = PrivateFrechetMean(1.0, 1e-5, Ball(2.0, center))
    with np.errstate(all="ignore"):
        bads = [bad.astype(dtype) for bad in bad_records(k, rng)]
    bads = [bad for bad in bads if not is_spd(bad)]  # as integers not all are bad
    assert len(bads) >= 5
    for i, bad in enumerate(bads):
        one, other = X.copy(), X.copy()
        one[i], other[i] = bad, center
        with pytest.raises(ValueError, match=rf"X\[{i}"):
            strict.fit(one)
        assert np.array_equal(private.fit(one, rng=i).log_mean_, strict.fit(other, rng=i).log_mean_)
        assert np.array_equal(private.mean_, strict.mean_)
        assert repr(private.mechanism_) == repr(strict.mechanism_)
        assert private.privacy_ == strict.privacy_ and "n = 9" in private.privacy_
    for release in (private.fit(X, rng=0), strict.fit(X, rng=0)):
        assert np.array_equal(release.mean_, strict.mean_)


@pytest.mark.parametrize("k, n", [(1, 9), (2, 9), (3, 520), (5, 60)])
@pytest.mark.parametrize("dtype", [np.float64, np.float32])
def test_records_of_any_bits_have_a_mean(k, n, dtype):
    rng, width = np.random.default_rng(n), np.dtype(dtype).itemsize
    rows, columns = np.tril_indices(k, -1)
    for _ in range(20):
        X = rng.integers(0, 256, (n, k, k * width), dtype=np.uint8).view(dtype)
        X[:, columns, rows] = X[:, rows, columns]
        X[::3] = np.where(np.eye(k) == 1, X[::3], 0)
        with warnings.catch_warnings():
            warnings.simplefilter("error")
            step = FrechetMean(np.abs(X), Ball(2.0, np.eye(k)), "center").step
        assert np.linalg.norm(step) <= 2.0


def test_a_data_set_of_bad_records_releases_the_centre_with_noise():
    X, ball = np.full((5, 3, 3), np.nan), Ball(1.0, 2 * np.eye(3))
    assert not FrechetMean(X, ball, "center").step.any()
    PrivateFrechetMean(1.0, 1e-5, ball, on_invalid="center").fit(X)


@pytest.mark.slow
@pytest.mark.parametrize("k", [1, 2, 3, 4])
@pytest.mark.parametrize("n", [1, 2, 5, 64])
def test_the_mean_moves_by_at_most_the_sensitivity_when_a_record_goes_bad(k, n):
    rng = np.random.default_rng(n)
    for radius in (1e-9, 0.3, 2.7, 24.9):
        X = random_spd(n, k, 2.0, rng)
        X[n // 2] = 1e3 * np.eye(k)  # on the sphere
        bound = Fraction(frechet_sensitivity(n, radius))
        for record in (*bad_records(k, rng), *odd_records(k, rng), 1e-3 * np.eye(k)):
            Y = X.copy()
            Y[n // 2] = record
            ball = Ball(radius, np.eye(k))
            one, other = (FrechetMean(Z, ball, "center").step for Z in (X, Y))
            assert exact2(one, other) <= bound**2


@pytest.mark.parametrize("k, n", mostly_slow([
    (1, 40), (2, 40), (3, 40), (4, 40), (2, 511), (2, 512), (2, 513), (3, 511), (3, 512), (3, 600),
], (1, 40), (2, 40), (4, 40), (2, 512), (3, 512)))
def test_a_record_is_mapped_by_itself_whatever_stands_beside_it(k, n):
    """The mean is the sum of what each record gives where all others are bad, exactly.

    So replacing a record changes no other one's share by a bit: around n = 512, where small
    matrices begin to be decomposed together, and beside huge, tiny and bad ones.
    """
    rng, radius = np.random.default_rng(n), 2.7
    X = random_spd(n, k, 1.5, rng)
    odd = [*bad_records(k, rng), *odd_records(k, rng)]
    X[1:2 * len(odd):2] = odd

    def step(rows):
        Y = np.full_like(X, np.nan)
        Y[rows] = X[rows]
        return FrechetMean(Y, Ball(radius, np.eye(k)), "center").step

    chosen = sorted({*range(2 * len(odd)), n - 1} if n > 100 else range(n))
    total = [Fraction(0)] * (k * (k + 1) // 2)
    for i in chosen:
        alone = step([i])
        total = [a + share(b, n, radius) for a, b in zip(total, alone.tolist(), strict=True)]
    together = [share(b, n, radius) for b in step(chosen).tolist()]
    assert together == total


def share(entry, n, radius):
    """What was summed, exactly: the multiple of the grid of `clip_to_ball` nearest to n entries."""
    grid = Fraction(2) ** (math.frexp(radius)[1] + math.frexp(n)[1] - 53)
    return round(Fraction(entry) * n / grid) * grid


def by_the_largest(X):
    """Logarithms after a division by the largest entry of all: what a batch must not do."""
    largest = np.abs(X).max()
    return vecd(logm(X / largest) + math.log(largest) * np.eye(X.shape[-1]))


def moved(coordinates, k, n):
    """How many odd records change a bit of another record's coordinates."""
    rng = np.random.default_rng(n)
    X = random_spd(n, k, 1.5, rng)
    before, changed = coordinates(X), 0
    for i, record in enumerate(odd_records(k, rng)):
        Y = X.copy()
        Y[i] = record
        changed += not np.array_equal(np.delete(coordinates(Y), i, 0), np.delete(before, i, 0))
    return changed


@pytest.mark.parametrize("k, n", mostly_slow([
    (1, 40), (2, 40), (3, 40), (4, 40), (30, 40), (2, 511), (2, 512), (3, 511), (3, 512), (3, 600),
], (1, 40), (2, 40), (4, 40), (2, 512), (3, 512)))
def test_no_bit_of_a_record_depends_on_another(k, n):
    assert moved(LogEuclidean(k).coordinates, k, n) == 0
    assert moved(by_the_largest, k, n) >= 2  # the two huge ones are seen at least


@pytest.mark.parametrize(("private", "said"), [
    (dict(delta=0.1), "delta is 0.1 with n = 40 records; choose it far below 1/n"),
    (dict(epsilon=0.01), "the noise is .* long, on average, and the radius of the ball 1"),
    (dict(epsilon=0.01, spread=True), "the noise is .* long"),
    (dict(epsilon=0.01, refine=1, count=True), "the noise is .* long"),
    (dict(epsilon=0.01, delta=0.0, mechanism="laplace"), "the noise is .* long")])
def test_public_numbers_at_which_a_release_is_hardly_worth_it_are_warned_of_before_it_is_paid(
        private, said):
    ball, X = Ball(1.0, np.eye(2)), random_spd(40, 2, 1.0, rng=0)
    estimator = PrivateFrechetMean(**{"epsilon": 50.0, "delta": 1e-6, "ball": ball} | private)
    with pytest.warns(UserWarning, match=said) as warned:
        estimator.fit(X, rng=0)
    assert [each.filename for each in warned] == [__file__]
    account = BudgetAccountant(100.0, 0.5)
    with warnings.catch_warnings(), pytest.raises(UserWarning):
        warnings.simplefilter("error")
        estimator.fit(X, rng=0, accountant=account)
    assert account.remaining() == 100.0
    with warnings.catch_warnings():
        warnings.simplefilter("error")
        PrivateFrechetMean(50.0, 1e-6, ball).fit(X, rng=0)
