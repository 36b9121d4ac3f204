"""Both auditors pass what is sound and show what is broken; the bounds are as sure as they say."""

import contextlib
import functools
import math
from unittest.mock import patch

import numpy as np
import pytest
from conftest import mostly_slow
from mechanism_table import MEANS, noise
from tables import BALLS, POLE

from spdlib import Ball, DiscreteGaussian, PrivateClassMeans, PrivateFrechetMean
from spdlib.audit import adversaries, audit, replay
from spdlib.calibration import sigma_analytic
from spdlib.queries import FrechetMean, frechet_sensitivity
from spdlib.spaces import Euclidean, LogEuclidean, Sphere
from spdlib.spaces.ball import project_to_ball
from spdlib.spd import distance_logeuclid, invvecd, logm, mean_logeuclid, random_spd, vecd

D, SIZE, SURE = 3, 40_000, 1 - 1e-6
SHIFT = np.eye(D)[0]
PROMISED = {"tangent Gaussian": "gaussian", "l2": "l2", "Laplace": "laplace",
            "extrinsic": "gaussian"}


def loss_order(x):
    """Increasing in the log-likelihood ratio, for noise of which only the length counts."""
    return np.linalg.norm(x - SHIFT, axis=1) - np.linalg.norm(x, axis=1)


@pytest.mark.parametrize("score", [
    pytest.param(None, marks=pytest.mark.slow), loss_order], ids=["learnt", "likelihood"])
@pytest.mark.parametrize("name", PROMISED)
def test_it_stays_below_the_promise_and_exceeds_it_for_noise_of_half_the_scale(name, score):
    kind, rng, epsilon = PROMISED[name], np.random.default_rng(1), 1.0
    delta = MEANS[kind].delta(0.1)

    def sample(mechanism, centre):
        if name == "extrinsic":  # noise on the matrix itself
            return vecd(mechanism.release(invvecd(centre), rng, SIZE, Euclidean(2)))
        return mechanism.perturb(centre, rng, SIZE)

    def shown(sensitivity):
        mechanism = noise(kind, sensitivity, epsilon, delta, D)
        releases, neighbours = sample(mechanism, 0 * SHIFT), sample(mechanism, SHIFT)
        return audit(releases, neighbours, delta, SURE, score)

    assert 0.4 * epsilon < shown(1.0) <= epsilon < shown(0.5)


@pytest.mark.slow
def test_a_share_of_bounds_as_large_as_stated_is_true():
    rng, epsilon = np.random.default_rng(2), math.log(3)
    # randomised response: the best event shows ε exactly
    answers = rng.random((2000, 200, 1)) < 0.75, rng.random((2000, 200, 1)) < 0.25
    bounds = [audit(a.astype(int), b.astype(int), 0, 0.8, score=lambda x: x[:, 0])
              for a, b in zip(*answers, strict=True)]
    assert np.mean(np.array(bounds) > epsilon) < 0.2


def test_equal_laws_show_nothing():
    x = np.random.default_rng(3).standard_normal((2, 4000, 2))
    assert audit(x[0], x[1], 0, SURE) == 0


def test_an_event_that_only_one_data_set_produces_shows_what_the_sample_can():
    epsilon = audit(np.ones((1000, 1)), np.zeros((1000, 1)), 0)
    assert 4 < epsilon < math.log(500)


@pytest.mark.parametrize("arguments, message", [
    ({"delta": 1}, "delta is 1; accepted"), ({"delta": math.nan}, "delta is nan"),
    ({"delta": "x"}, "delta is 'x'; accepted"),
    ({"confidence": 1}, "confidence is 1; accepted"), ({"confidence": True}, "confidence is True"),
    ({"releases": np.zeros((8, 3))}, r"shapes \(8, 3\) and \(8, 2\)"),
    ({"releases": np.full((8, 2), np.nan)}, r"releases\[0, 0\] is nan"),
    ({"releases": np.ones((8, 2), bool)}, "releases is an array of dtype bool"),
    ({"score": lambda x: x},
     r"score returns shape \(4, 2\) for releases of shape \(4, 2\); accepted is \(4,\)"),
    ({"score": lambda x: np.full(len(x), np.nan)}, r"score\[0\] is nan"),
    ({"releases": np.zeros((3, 2)), "neighbours": np.zeros((3, 2))}, "m ≥ 4"),
])
def test_bad_input_is_named(arguments, message):
    good = {"releases": np.zeros((8, 2)), "neighbours": np.zeros((8, 2)), "delta": 0.1}
    with pytest.raises(ValueError, match=message):
        audit(**good | arguments)


N = 20
WEIGHTS = np.array([4.0] + (N - 1) * [1.0])
RECORDS = random_spd(N, 2, 0.5, 0)
BALL = Ball(1.0, np.eye(2))
STUDIES = adversaries(RECORDS, BALL, "center")
ROUNDING = 1e-9


def released(X, rng, size=None, mechanism="gaussian", ball=BALL, weights=None):
    """What `fit` releases, many times where `size` asks for it, and the sensitivity it was told."""
    query, row = FrechetMean(X, ball, "center", weights), MEANS[mechanism]
    made = row.kind.of(query, 1.0, row.delta(0.1))
    steps = project_to_ball(made.answer(query, rng, size), ball.radius)
    return query.space.coordinates(ball.center) + steps, made.sensitivity


def valid(X):
    return X[LogEuclidean(2).contains(X)]


def own_radius(X, rng, size=None):
    return released(X, rng, size,
                    ball=Ball(distance_logeuclid(valid(X), np.eye(2)).max(), np.eye(2)))


def own_center(X, rng, size=None):
    return released(X, rng, size, ball=Ball(1.0, mean_logeuclid(valid(X))))


def dropped(X, rng, size=None):
    return released(valid(X), rng, size)


def batches(X, rng):
    private = PrivateFrechetMean(1.0, 0.1, BALL, on_invalid="center", n=N)
    for part in np.array_split(X, 3):
        private.partial_fit(part)
    private.release(rng=rng)
    return private.log_mean_, private.mechanism_.sensitivity


weighted = functools.partial(released, weights=WEIGHTS)
SOUND = {
    "gaussian": released,
    "classical gaussian": lambda X, rng: fitted(X, rng, 0.9, 1e-6, "classical gaussian"),
    "gaussian, fit": lambda X, rng: fitted(X, rng, 1.0, 1e-6, "gaussian"),
    "l2": functools.partial(released, mechanism="l2"),
    "laplace": functools.partial(released, mechanism="laplace"),
    "weights": weighted,
    "batches": batches,
}


def fitted(X, rng, epsilon, delta, mechanism):
    private = PrivateFrechetMean(epsilon, delta, BALL, mechanism, on_invalid="center")
    private.fit(X, rng=rng)
    return private.log_mean_, private.mechanism_.sensitivity


def without_weights(n, radius, space=None, tolerance=0, weights=None):
    return frechet_sensitivity(n, radius, space, tolerance)


def half_sigma(*promise):
    return sigma_analytic(*promise) / 2


def not_clipped(y, radius, grid=None, weights=1.0):
    return y * weights


BROKEN = {  # program, fault, the auditors that see it
    "no clipping": (released, ("spdlib.queries.sums.clip_to_ball", not_clipped), "both"),
    "weights forgotten": (weighted, ("spdlib.queries.mean.frechet_sensitivity", without_weights),
                          "both"),
    "radius read off": (own_radius, None, "both"),
    "σ/2": (released, ("spdlib.mechanisms.TangentGaussian.calibrated", staticmethod(half_sigma)),
            "audit"),
    "mean over n - 1": (released, ("spdlib.queries.FrechetMean.divisor", N - 1), "replay"),
    "centre read off": (own_center, None, "replay"),
    "bad record dropped": (dropped, None, "replay"),
}


def faulty(fault):
    """The module with one name changed, if there is a fault."""
    return patch(*fault) if fault else contextlib.nullcontext()


def verdicts(program, fault=None, delta=0.1):
    """Whether the audit and the replay refuse the program, each by itself."""
    with faulty(fault):
        moved = replay(program, STUDIES)
        rng = np.random.default_rng(4)
        shown = [audit(*(program(STUDIES[i], rng, 20_000)[0] for i in pair), delta, SURE)
                 for pair in [(1, 2), (5, 6), (0, 5)]]
    return max(shown) > 1, moved > 1 + ROUNDING


@pytest.mark.parametrize("name", SOUND)
def test_at_equal_noise_an_opponent_moves_a_release_by_the_sensitivity_and_no_further(name):
    assert 1 - ROUNDING < replay(SOUND[name], STUDIES) <= 1 + ROUNDING


@pytest.mark.slow
@pytest.mark.parametrize("statistic", mostly_slow(["frechet", "tangent"], "tangent"))
@pytest.mark.parametrize("name", ["sphere 2", "affine-invariant 2", "quadrilaterals"])
def test_on_a_curved_space_no_further_in_the_chart_at_the_centre(name, statistic):
    ball, rng = BALLS[name], np.random.default_rng(5)
    space, center = ball.space, ball.center
    X = space.exp(center, 0.5 * ball.radius * rng.standard_normal((N, space.dim)))
    private = PrivateFrechetMean(1.0, 0.1, ball, statistic=statistic, on_invalid="center")

    def release(study, seed):
        private.fit(study, rng=seed)
        return space.log(center, private.mean_), private.mechanism_.sensitivity

    assert 0.8 < replay(release, adversaries(X, ball, "center")) <= 1 + ROUNDING


@pytest.mark.slow
def test_two_auditors_that_know_nothing_of_each_other_agree():
    sound = {name: SOUND[name] for name in ("gaussian", "l2", "weights")}
    assert not any(any(verdicts(program)) for program in sound.values())
    assert not any(verdicts(SOUND["laplace"], delta=0.0))
    seen = {name: verdicts(program, fault) for name, (program, fault, _) in BROKEN.items()}
    words = {(True, True): "both", (True, False): "audit", (False, True): "replay"}
    assert {name: words[each] for name, each in seen.items()} \
        == {name: by for name, (*_, by) in BROKEN.items()}


@pytest.mark.parametrize("name", [name for name in BROKEN if BROKEN[name][2] != "audit"])
def test_a_wrong_sensitivity_is_seen_in_two_releases(name):
    program, fault, _ = BROKEN[name]
    with faulty(fault):
        assert replay(program, STUDIES) > 1.04


def test_another_shape_or_another_sensitivity_tells_data_sets_apart():
    assert replay(lambda study, seed: (np.zeros(study), 1.0), [2, 3]) == math.inf
    assert replay(lambda study, seed: (np.zeros(2), study), [1.0, math.nextafter(1, 2)]) == math.inf


@pytest.mark.parametrize("unit", [1e-280, 1.0, 1e280])
def test_a_distance_is_seen_whatever_the_unit_of_length_is(unit):
    steps = {1: np.zeros(3), 2: np.array([1.5, 2.0, 0.0]) * unit}
    with np.errstate(all="raise"):
        assert replay(lambda study, seed: (steps[study], unit), [1, 2]) == pytest.approx(2.5)
        far = {1: np.full(3, -1.7e308), 2: np.full(3, 1.7e308)}
        assert replay(lambda study, seed: (far[study], unit), [1, 2]) > 1e28


@pytest.mark.parametrize("dtype", [int, np.int8, np.float32])
def test_opponents_of_integers_and_of_narrow_floats_are_not_cut(dtype):
    X = np.tile(np.eye(2), (4, 1, 1))
    for narrow, wide in zip(adversaries(X.astype(dtype), BALL), adversaries(X, BALL),
                            strict=True):
        assert narrow.dtype == float and np.array_equal(narrow, wide)


def test_adversaries_differ_in_one_record_and_leave_the_others_as_they_are():
    X = RECORDS.copy()
    studies = adversaries(X, BALL, on_invalid="center", index=3)
    for study in studies:
        assert (np.delete(study, 3, 0) == np.delete(X, 3, 0)).all()
    assert (X == RECORDS).all()
    distances = distance_logeuclid([study[3] for study in studies[:9]], np.eye(2))
    assert np.allclose(distances, [0, 1, 1, 1, 1, 3, 3, 3, 3])
    assert not LogEuclidean(2).contains(np.array([study[3] for study in studies[10:]])).any()
    assert len(adversaries(X, BALL)) == 10 and (studies[9][3] == X[4]).all()
    assert len({study[3].tobytes() for study in studies}) == 13
    on_sphere = adversaries(np.eye(3), Ball(1.2, POLE, Sphere(2)))  # none goes round it
    assert Sphere(2).dist(POLE, [study[0] for study in on_sphere[5:9]]) == pytest.approx(math.pi)


@pytest.mark.parametrize("call, message", [
    (lambda: replay(released, STUDIES[:1]), "studies are 1 in number; accepted are 2 or more"),
    (lambda: replay(lambda *_: (0.0, 1.0), STUDIES), r"release has shape \(\); accepted is \(d,\)"),
    (lambda: replay(lambda *_: ([math.nan], 1.0), STUDIES), r"release\[0\] is nan"),
    (lambda: replay(lambda *_: ([0.0], 0.0), STUDIES), "sensitivity is 0.0; accepted"),
    (lambda: replay(lambda *_: np.zeros(2), STUDIES), "release returns ndarray .*; accepted is a"),
    (lambda: replay(lambda *_: 1.0, STUDIES), "release returns float 1.0; accepted is a pair"),
    (lambda: replay(lambda *_: ([0.0], 1.0, 2), STUDIES), "release returns tuple .*; accepted is"),
    (lambda: adversaries(1.0, BALL), r"X has shape \(\); accepted is \(n, 2, 2\) with n ≥ 2"),
    (lambda: adversaries(RECORDS[:1], BALL), r"X has shape \(1, 2, 2\); accepted is \(n, 2"),
    (lambda: adversaries(RECORDS[:, :1], BALL), r"X has shape \(20, 1, 2\); accepted is"),
    (lambda: adversaries(RECORDS, Ball(1.0, POLE, Sphere(2))), r"accepted is \(n, 3\) with n"),
    (lambda: adversaries([[[1.0]], [[1.0], [2.0]]], BALL), "X is no array"),
    (lambda: adversaries(RECORDS, 1.0), "ball is 1.0; accepted is a Ball"),
    (lambda: adversaries(RECORDS, BALL, index=N), "index is 20; accepted are integers from 0"),
    (lambda: adversaries(RECORDS, BALL, "drop"), "on_invalid is 'drop'; accepted"),
    (lambda: adversaries(RECORDS, Ball(1.0, np.eye(3))), r"X has shape .*; accepted is \(n, 3, 3"),
])
def test_bad_input_of_a_replay_is_named(call, message):
    with pytest.raises(ValueError, match=message):
        call()


class Silent(np.random.Generator):
    """A generator whose normal draws are all 0."""

    def standard_normal(self, size=None):
        return np.zeros(size)


SILENCE = Silent(np.random.PCG64(0))


@pytest.mark.slow
@pytest.mark.parametrize("labels", ["private", "public"])
def test_the_means_of_classes_move_together_by_their_sensitivity_and_no_further(labels):
    private = PrivateClassMeans(1.0, 0.1, BALL, ["a", "b"], on_invalid="center", labels=labels)
    others = ["a", "b"] * (N // 2)

    def release(study, seed):
        X, label = study
        private.fit(X, [label, *others[1:]], rng=SILENCE)
        sums = vecd(logm(private.means_)) * private.counts_[:, None]
        return np.append(sums, private.counts_), private.mechanism_.sensitivity

    studies = [(X, label) for X in STUDIES for label in ("a", "b")[:1 + (labels == "private")]]
    assert 1 - ROUNDING < replay(release, studies) <= 1 + ROUNDING


@pytest.mark.slow
def test_noise_in_integers_is_replayed_with_its_sampler_frozen():
    private = PrivateFrechetMean(1.0, 1e-6, BALL, "discrete gaussian", on_invalid="center")
    noise = np.random.default_rng(6).integers(-2**40, 2**40, 3).tolist()

    def release(X, seed):
        with patch.object(DiscreteGaussian, "_sampler", lambda _: frozen):
            private.fit(X)
        return private.log_mean_, private.mechanism_.sensitivity

    def frozen(counts):
        return [count + each for count, each in zip(counts, noise, strict=True)]

    assert 1 - ROUNDING < replay(release, STUDIES) <= 1 + ROUNDING
