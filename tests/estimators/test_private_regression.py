"""Private geodesic regression: the promise of noisy descent, and what the estimator gives away."""

import copy
import math
import os
import pathlib
import pickle

import numpy as np
import pytest
import sklearn.base
from conftest import mostly_slow
from tables import BALLS, POLE, SHAPE

from spdlib import (Ball, GeodesicRegression, PrivateFrechetMean, PrivateGeodesicRegression,
                    Release, expected_curve_error)
from spdlib.audit import audit
from spdlib.calibration import gaussian_delta, gdp_mu
from spdlib.estimators.base import Estimator
from spdlib.mechanisms import CurveKNormGradient, NoisyDescent, TruncatedCurveLoss
from spdlib.mechanisms.descent import _seen, _spread, _turn
from spdlib.queries import CurveQuery
from spdlib.regression import gradients, predict
from spdlib.spaces import (AffineInvariant, Euclidean, KendallPlanar, LogEuclidean, Sphere,
                           TangentSpace)
from spdlib.spd import random_spd

# name: the ball of the domain, and its speed
DOMAINS = {
    "log-Euclidean 2": (BALLS["log-Euclidean 2"].of_radius(0.5), 1.0),
    "chart of a sphere": (BALLS["chart of a sphere"], 1.0),
    "affine-invariant 2": (BALLS["affine-invariant 2"].of_radius(0.5), 1.0),
    "circle": (BALLS["circle"], 2.0),
    "sphere": (Ball(0.5, POLE, Sphere(2)), 1.0),
    "sphere behind": (Ball(0.5, [-0.6, 0.0, 0.8], Sphere(2)), 1.0),
    "sphere on the edge": (Ball(0.5, [0.0, 1.0, 0.0], Sphere(2)), 1.0),
    "small sphere 3": (BALLS["small sphere 3"], 0.3),
    "triangles": (BALLS["triangles"], 0.4),
    "quadrilaterals": (Ball(0.3, [0, 1, 1 + 1j, 0.3 + 2j], KendallPlanar(4)), 0.5),
}
each_space = pytest.mark.parametrize("name", mostly_slow(
    DOMAINS, "log-Euclidean 2", "affine-invariant 2", "sphere", "triangles"))
PUBLIC = {"epsilon": 1.0, "delta": 1e-6, "domain": DOMAINS["sphere"][0], "speed": 1.0}
LEARNT = {"point_", "velocity_", "middle_", "mechanism_", "privacy_", "release_"}


def anywhere(name, n, rng):
    """Records at places that no curve of the domain comes near, some of them cut points."""
    domain, _ = DOMAINS[name]
    space, center = domain.space, domain.center
    if isinstance(space, (LogEuclidean, AffineInvariant)):
        wild = [1e300 * np.eye(2), 1e-300 * np.eye(2), np.diag([1e-6, 1e6]), center]
        return np.concatenate([wild, random_spd(n - 4, 2, 3.0, rng)])
    Y = rng.standard_normal((n, *space.shape)) + 0j
    if isinstance(space, KendallPlanar):
        return np.concatenate([[center, center.conj()], Y[2:] + 1j * Y[2:].real[::-1]])
    Y = Y.real / np.linalg.norm(Y.real, axis=-1, keepdims=True)
    return np.concatenate([[center, -center], Y[2:]])


def parts_of(name):
    """Space, centre, radius and speed of a domain."""
    domain, speed = DOMAINS[name]
    return domain.space, domain.center, domain.radius, speed


def about_a_curve(name, n, noise, rng, share=0.6):
    """A true curve of the domain (p, v), x in [0, 1], and records about it."""
    space, center, radius, speed = parts_of(name)
    a, v = rng.standard_normal((2, space.dim))
    p = space.exp(center, share * radius * a / np.linalg.norm(a))
    v = share * speed * v / np.linalg.norm(v)
    x = rng.random(n)
    return p, v, x, space.exp(predict(space, p, v, x - 0.5),
                              noise * rng.standard_normal((n, space.dim)))


def private(name, epsilon=1.0, delta=1e-6, **options):
    return PrivateGeodesicRegression(epsilon, delta, *DOMAINS[name], **options)


def descent(clip):
    return NoisyDescent.with_options(clip=clip)


def query_of(name, x, Y, **options):
    return CurveQuery(x, Y, *DOMAINS[name], **options)


def distance(fitted, space, p, v):
    """Root mean square distance of the released curve from that of (p, v) at 1/2."""
    t = np.linspace(-0.5, 0.5, 21)
    return np.sqrt(np.mean(space.dist(fitted.predict(t + 0.5), predict(space, p, v, t))**2))


# the promise of noisy descent

@pytest.mark.slow
@each_space
def test_one_record_moves_the_clipped_gradient_by_2_clip_over_n_at_every_curve(name):
    space, _, radius, speed = parts_of(name)
    rng, n, largest = np.random.default_rng(0), 5, 0
    for clip in (0.01, 0.1, 1.0):
        one, other = anywhere(name, n, rng), anywhere(name, n, rng)[rng.permutation(n)]
        for i in range(n):
            x = rng.choice([0, 1, 0.5, rng.random(), -9, 7], n)
            near = one.copy()
            near[i], moved = other[i], x.copy()
            moved[i] = rng.choice([0, 1, 0.5])
            queries = query_of(name, x, one), query_of(name, moved, near)
            mechanism = NoisyDescent.of(queries[0], 1.0, 1e-6, clip)
            u, w = rng.standard_normal((2, 40, space.dim))
            u *= (rng.random((40, 1)) * radius) / np.linalg.norm(u, axis=-1, keepdims=True)
            w *= (rng.random((40, 1)) * speed) / np.linalg.norm(w, axis=-1, keepdims=True)
            looks = (rng.choice([-0.5, 0, 0.3, 0.5], (40, 1)),
                     rng.choice([1e-6, 0.1, 0.5, 1], (40, 1)))
            g = []
            for query in queries:
                center, Y = _seen(query, clip)
                center = np.broadcast_to(center, (40, *space.inner))
                p, v = space.ends(center, u), space.carried(center, u, w)
                g.append(np.concatenate(mechanism._gradient(space, p, v, query.times, Y, *looks),
                                        -1))
            change = np.linalg.norm(g[0] - g[1], axis=-1).max()
            assert change <= mechanism.sensitivity
            largest = max(largest, change / (2 * clip / n))
    assert largest > 0.95  # the search comes close: clip/n would have been exceeded


class NoNoise:
    """A generator whose normal draws are 0: what is left is what noise is added to."""

    def standard_normal(self, shape):
        return np.zeros(shape)


@pytest.mark.slow
def test_one_record_moves_what_is_seen_of_x_by_2_over_n_and_the_noise_is_as_stated():
    rng, n = np.random.default_rng(0), 5
    Y = np.stack([np.eye(2)] * n)
    ends = [-7, 0, 1e-17, 0.25, 0.5, 0.75, 1 - 1e-16, 1, 9]

    def moments(mechanism, x):
        query = query_of("log-Euclidean 2", x, Y)
        return np.ravel(mechanism._look(query.times, 1, NoNoise())[:2])

    mechanism, largest = NoisyDescent.of(query_of("log-Euclidean 2", np.zeros(n), Y), 1, 1e-6), 0
    for _ in range(200):
        x = rng.choice(ends, n)
        near = x.copy()
        near[rng.integers(n)] = rng.choice(ends)
        change = np.linalg.norm(moments(mechanism, x) - moments(mechanism, near))
        assert change <= 2 / n * (1 + 1e-12)
        largest = max(largest, change)
    assert largest > 0.99 * 2 / n
    tau = mechanism.sensitivity / mechanism.clip / (math.sqrt(0.1) * mechanism.mu)
    first, second, stated = mechanism._look(np.full(n, 0.1), 20000, rng)
    assert stated == pytest.approx(tau)
    np.testing.assert_allclose([first.std(), second.std()], tau, rtol=0.03)
    assert abs(first.mean() - 0.2) < tau / 20 and abs(second.mean() - 0.04) < tau / 20


@pytest.mark.parametrize("tau, middle, square", [(1e-9, 0.3, 0.02), (1e9, 0.0, 1 / 12)])
def test_what_is_seen_of_x_counts_where_it_is_clear_and_x_counts_as_even_where_it_is_not(
        tau, middle, square):
    told = _spread(np.array([[0.6]]), np.array([[4 * (0.02 + 0.3**2)]]), tau)
    np.testing.assert_allclose(np.ravel(told), [middle, 0.8 if middle else square**0.5, square],
                               rtol=1e-6, atol=1e-9)


@pytest.mark.parametrize("n", [1, 3, 1000, 10**9])
@pytest.mark.parametrize("epsilon, delta", [(1e-3, 1e-9), (1.0, 1e-6), (20.0, 0.1)])
def test_all_steps_together_cost_what_was_promised(n, epsilon, delta):
    mechanism = NoisyDescent(epsilon, delta, n, 0.1, 0.6)
    assert mechanism.sensitivity >= 2 * 0.1 / n
    steps = math.sqrt(mechanism.steps) * 2 * mechanism.clip / n
    whole = math.hypot(steps, steps / 3)  # a tenth of the sum of squares is for the look at x
    assert whole / mechanism.sigma <= mechanism.mu <= gdp_mu(epsilon, delta) * (1 + 1e-9)
    assert gaussian_delta(mechanism.sigma, epsilon, whole) <= delta
    assert gaussian_delta(mechanism.sigma, epsilon, whole * 1.001) > delta


@pytest.mark.parametrize("clip", [0.01, 0.1, 0.5, 3.0])
def test_the_steps_can_lead_across_the_domain_and_are_chosen_before_a_record_is_looked_at(clip):
    query = query_of("sphere", [math.nan] * 5000, np.full((5000, 3), math.nan))
    mechanism = NoisyDescent.of(query, 100.0, 1e-6, clip)
    assert mechanism.steps // 3 * clip >= 1.4 * math.hypot(0.5, 1 / math.sqrt(12))
    assert NoisyDescent(0.1, 1e-6, 2, clip, 1.0).steps <= mechanism.steps // 3


def test_a_query_of_fewer_records_is_refused_by_the_mechanism_of_more():
    rng = np.random.default_rng(0)
    _, _, x, Y = about_a_curve("sphere", 20, 0.1, rng)
    mechanism = NoisyDescent.of(query_of("sphere", x, Y), 1.0, 1e-6)
    state = rng.bit_generator.state
    with pytest.raises(ValueError, match="query has 19 records; accepted are at least 20"):
        mechanism.answer(query_of("sphere", x[1:], Y[1:]), rng)
    assert rng.bit_generator.state == state


@pytest.mark.slow
def test_an_audit_of_releases_stays_below_the_promise_and_sees_noise_that_is_too_small():
    epsilon, delta, m = 4.0, 1e-2, 10000
    domain = Ball(1.0, np.eye(1))
    queries = [CurveQuery([0.5], math.exp(far) * np.ones((1, 1, 1)), domain, 0.01)
               for far in (50, -50)]  # it pulls one way at every step
    mechanism = NoisyDescent.of(queries[0], epsilon, delta, 0.3)

    def found():
        answers = [mechanism.answer(query, i, m)[:, :1] for i, query in enumerate(queries)]
        return audit(*answers, delta)

    assert 1 < found() <= epsilon
    mechanism.sigma /= 3
    assert found() > epsilon


def test_each_step_has_the_noise_that_the_mechanism_states():
    query = CurveQuery([0.2, 0.7], np.stack([np.eye(2)] * 2), Ball(1e3, np.eye(2)), 1e3)
    mechanism = NoisyDescent.of(query, 1000.0, 0.1, 10.0)
    mechanism.steps = 1  # whose share is 1; the gradients are 0
    mechanism._look = lambda t, m, rng: (0.0, 1.0, 1e-12)  # x at both ends
    u = mechanism.answer(query, 0, 20000) / mechanism.sigma
    assert np.linalg.norm(u[:, :3], axis=-1).max() * mechanism.sigma < 1e3  # none is projected
    spread = u.std(axis=0)
    np.testing.assert_allclose(spread[:3], 1, rtol=0.03)
    np.testing.assert_allclose(spread[3:], 2, rtol=0.03)


# descent finds the curve

@each_space
@pytest.mark.parametrize("seed", [
    0, *(pytest.param(seed, marks=pytest.mark.slow) for seed in (1, 2))])
def test_of_1000_records_the_release_is_near_the_truth(name, seed):
    space, _, radius, _ = parts_of(name)
    rng = np.random.default_rng(seed)
    p, v, x, Y = about_a_curve(name, 1000, 0.05 * radius, rng)
    fitted = private(name).fit(x, Y, rng=rng)
    assert distance(fitted, space, p, v) < 0.06 * radius


@pytest.mark.slow
@each_space
def test_without_much_noise_the_release_is_the_curve_of_the_records(name):
    space, _, radius, _ = parts_of(name)
    rng = np.random.default_rng(5)
    p, v, x, Y = about_a_curve(name, 2000, 0.0, rng)
    fitted = private(name, 1000.0, 0.1, mechanism=descent(radius / 2)).fit(x, Y, rng=rng)
    assert distance(fitted, space, p, v) < 2e-3 * radius
    assert space.dist(fitted.point_, p) < 2e-3 * radius
    assert np.linalg.norm(fitted.velocity_) == pytest.approx(np.linalg.norm(v), rel=0.01)


@each_space
def test_the_mean_of_gradients_too_short_to_be_clipped_is_the_gradient_of_the_energy(name):
    space, center, radius, speed = parts_of(name)
    rng = np.random.default_rng(6)
    _, _, x, Y = about_a_curve(name, 20, 0.2 * radius, rng)
    query = query_of(name, x, Y)
    mechanism = NoisyDescent.of(query, 1.0, 1e-6, 10.0)
    u, w = rng.standard_normal((2, 1, space.dim)) * 0.2 * radius
    start, records = _seen(query, 10.0)
    p, v = space.ends(start[None], u), space.carried(start[None], u, w)
    by_p, by_v = mechanism._gradient(space, p, v, query.times, records)
    if space.flat:
        p, records = space.point(space.coordinates(center) + u), Y
    g_p, g_v = gradients(space, p, v, query.times, records)
    np.testing.assert_allclose(by_p, -g_p, atol=1e-12)
    np.testing.assert_allclose(by_v / 2, -g_v, atol=1e-12)


@pytest.mark.slow
def test_on_a_flat_space_the_descent_ends_at_least_squares():
    rng = np.random.default_rng(7)
    _, _, x, Y = about_a_curve("log-Euclidean 2", 3000, 0.1, rng)
    fitted = private("log-Euclidean 2", 1000.0, 0.1, mechanism=descent(2.0)).fit(x, Y, rng=rng)
    least = GeodesicRegression(LogEuclidean(2)).fit(x, Y)
    t = np.linspace(0, 1, 5)
    assert LogEuclidean(2).dist(fitted.predict(t), least.predict(t)).max() < 2e-3


def test_the_frame_of_the_centre_is_carried_without_turning():
    for name in ("sphere", "quadrilaterals"):
        space, center, radius, _ = parts_of(name)
        u, w = np.random.default_rng(8).standard_normal((2, 6, space.dim)) * radius / 2
        centers = np.broadcast_to(space.points(center), (6, *space.shape))
        there = space.exp(centers, u)
        carried = np.einsum("mj,mji->mi", w, _turn(space, centers, u, there))
        np.testing.assert_allclose(carried, space.transport(center, u, w), atol=1e-12)


def poles(name):
    """Ages and poles of a real set, those of the south turned to the north."""
    path = pathlib.Path(os.environ.get("SPDLIB_DATA", ""), "sphere.npz")
    if not path.is_file():
        pytest.skip("SPDLIB_DATA names no folder with sphere.npz")
    with np.load(path) as file:
        age, Y = file[f"{name}_age"], file[f"{name}_xyz"]
    return age, np.where(Y[:, 2:] < 0, -Y, Y)


def of_poles(age, epsilon):
    return PrivateGeodesicRegression(epsilon, 1e-6, Ball(0.6, POLE, Sphere(2)), 1.2,
                                     (age.min(), age.max()), descent(0.4))


def errors(made, x, Y, p, v, draws):
    """Distances of releases from the curve (p, v) at the middle, over the range of x, in degrees.

    Root mean square, and twice its standard error.
    """
    space, query, t = made.domain.space, made._query(x, Y), np.linspace(-0.5, 0.5, 33)
    true = predict(space, p, v, t)
    released = zip(*query.curve(made._mechanism(query).answer(query, 0, draws)), strict=True)
    squares = [np.mean(space.dist(predict(space, *curve, t), true)**2) for curve in released]
    root = math.sqrt(np.mean(squares))
    return math.degrees(root), math.degrees(np.std(squares, ddof=1) / math.sqrt(draws) / root)


def fitted(space, x, Y, low=0, high=1):
    """Point and velocity of least squares, at the middle of the range and over its length."""
    least = GeodesicRegression(space).fit((x - low) / (high - low) - 0.5, Y)
    return least.point_, least.velocity_


@pytest.mark.slow
@pytest.mark.parametrize("name", ["vaes", "eifel"])
def test_of_real_poles_the_error_falls_to_nothing_and_a_plan_by_their_ages_is_not_below_it(name):
    age, Y = poles(name)
    p, v = fitted(Sphere(2), age, Y, age.min(), age.max())
    found = []
    for epsilon in (1.0, 10.0, 1000.0):
        made = of_poles(age, epsilon)
        error, doubt = errors(made, age, Y, p, v, 32)
        plan = expected_curve_error(made, len(age), 0.14, draws=32, x=age)
        assert error - doubt <= math.degrees(plan.released + plan.doubt)
        found.append(error)
    assert found[2] < found[1] < found[0] < 6 and found[2] < 0.3


def law_of_x(law, n, rng):
    return {
        "even": (np.arange(n) + 0.5) / n,
        "skewed": rng.beta(1, 6, n),
        "clustered": np.where(np.arange(n) % 5 == 0, 0.9, 0.1) + 0.03 * rng.standard_normal(n),
        "constant": np.full(n, 0.8),
    }[law].clip(0, 1)


CROWDED = {  # a ball of the domain, speed, clip and noise
    "sphere": (Ball(0.6, POLE, Sphere(2)), 1.2, 0.4, 0.15),
    "affine-invariant 2": (Ball(1.0, np.diag([1.0, 2.0]), AffineInvariant(2)), 1.5, 0.4, 0.1),
    "pentagons": (Ball(0.3, np.exp(0.4j * math.pi * np.arange(5)) * np.linspace(1, 1.4, 5),
                       KendallPlanar(5)), 0.5, 0.3, 0.04),
}


@pytest.mark.slow
@pytest.mark.parametrize("law", ["even", "skewed", "clustered", "constant"])
@pytest.mark.parametrize("name", mostly_slow(CROWDED, "affine-invariant 2"))
def test_however_x_spreads_the_release_reaches_the_curve_where_there_are_records(name, law):
    domain, speed, clip, noise = CROWDED[name]
    space, rng, n = domain.space, np.random.default_rng(3), 400
    x, (a, w) = law_of_x(law, n, rng), rng.standard_normal((2, space.dim))
    a *= 0.8 * domain.radius / np.linalg.norm(a)
    w *= 0.8 * speed / np.linalg.norm(w)
    p, v = space.exp(domain.center, a), space.transport(domain.center, a, w)
    Y = space.exp(predict(space, p, v, x - 0.5), noise * rng.standard_normal((n, space.dim)))
    true = predict(space, p, v, x - 0.5)
    if law != "constant":
        true = predict(space, *fitted(space, x, Y), x - 0.5)
    found = []
    for epsilon in (1.0, 1000.0):
        made = PrivateGeodesicRegression(epsilon, 1e-6, domain, speed, mechanism=descent(clip))
        made.fit(x, Y, rng=0)
        found.append(np.sqrt(np.mean(space.dist(made.predict(x), true)**2)))
    assert found[0] < 0.2 * domain.radius
    most = 3 * noise * math.sqrt(2 * space.dim / n) if law == "constant" else 0.005
    assert found[1] < most  # the truth of one x is known up to the records' own noise


@pytest.mark.slow
def test_a_descent_does_not_stop_at_the_edge_of_the_domain_before_the_curve():
    rng, n = np.random.default_rng(3), 400
    domain, speed, clip, _ = CROWDED["sphere"]
    x, u = rng.beta(1, 6, n), np.array([0.15, 0.46, -0.53, -0.80])
    query = CurveQuery(x, np.broadcast_to(POLE, (n, 3)), domain, speed)
    Y = predict(Sphere(2), *query.curve(u), x - 0.5)
    query = CurveQuery(x, Y, domain, speed)
    mechanism = NoisyDescent.of(query, 1.0, 1e-6, clip)
    mechanism._look = lambda t, m, rng: tuple(np.full((m, 1), c) for c in (-0.43, 0.18, 0.033))
    far = np.linalg.norm(mechanism.answer(query, 0, 20) - u, axis=-1)
    assert np.median(far) < 0.4 and far.max() < 1.0


# where the records and the centre are

@pytest.mark.slow
def test_a_congruence_of_records_and_centre_carries_the_release_along():
    rng = np.random.default_rng(9)
    space, center, radius, speed = parts_of("affine-invariant 2")
    _, _, x, Y = about_a_curve("affine-invariant 2", 100, 0.1, rng)
    L = np.array([[3.0, 0.0], [-2.0, 0.5]])  # it takes Cholesky factors to Cholesky factors
    domain = Ball(radius, L @ center @ L.T, space)
    there = PrivateGeodesicRegression(1.0, 1e-6, domain, speed)
    here = private("affine-invariant 2").fit(x, Y, rng=0).predict([0, 0.3, 1])
    there = there.fit(x, L @ Y @ L.T, rng=0).predict([0, 0.3, 1])
    np.testing.assert_allclose(there, L @ here @ L.T, rtol=1e-6)


@pytest.mark.slow
@pytest.mark.parametrize("name", ["sphere", "sphere behind", "small sphere 3"])
def test_a_turn_of_records_and_centre_turns_what_little_noise_leaves(name):
    rng = np.random.default_rng(10)
    space, center, radius, speed = parts_of(name)
    _, _, x, Y = about_a_curve(name, 2000, 0.05 * radius, rng)
    Q = np.linalg.qr(rng.standard_normal((space.dim + 1,) * 2))[0]
    here = private(name, 1000.0, 0.1).fit(x, Y, rng=0).predict([0, 0.3, 1])
    there = PrivateGeodesicRegression(1000.0, 0.1, Ball(radius, Q @ center, space), speed)
    there = there.fit(x, Y @ Q.T, rng=0).predict([0, 0.3, 1])
    assert space.dist(there, here @ Q.T).max() < 1e-3 * radius


@pytest.mark.slow
@each_space
@pytest.mark.parametrize("epsilon", mostly_slow([1e-3, 1e3], 1e3))
@pytest.mark.filterwarnings("error")
def test_records_anywhere_never_raise_and_the_release_lies_in_the_domain(name, epsilon):
    space, center, radius, speed = parts_of(name)
    rng = np.random.default_rng(11)
    for mechanism in ("noisy descent", descent(3 * radius)):
        x, Y = rng.choice([-1e300, 0, 0.3, 1, 1e300], 9), anywhere(name, 9, rng)
        fitted = private(name, epsilon, mechanism=mechanism).fit(x, Y, rng=rng)
        assert space.dist(center, fitted.point_) <= radius * (1 + 1e-7)
        assert np.linalg.norm(fitted.velocity_) <= speed * (1 + 1e-12)
        assert np.isfinite(fitted.predict([0, 0.5, 1])).all()


def test_a_record_that_float64_does_not_hold_as_seen_from_the_centre_does_no_harm():
    center, far = np.diag([1e-6, 1e6]), np.diag([1e6, 1e-6])
    fitted = PrivateGeodesicRegression(1.0, 1e-6, Ball(0.5, center, AffineInvariant(2)), 1.0)
    assert np.isfinite(fitted.fit([0, 0.5, 1], [far, far, center], rng=0).point_).all()


@pytest.mark.slow
def test_a_wide_domain_of_matrices_is_refused_by_public_numbers_or_holds_every_draw():
    wild = anywhere("affine-invariant 2", 20, np.random.default_rng(12))
    x, domain = np.linspace(0, 1, 20), Ball(7.0, np.eye(2), AffineInvariant(2))
    for seed in range(10):
        PrivateGeodesicRegression(1e-3, 1e-6, domain, 14.0).fit(x, wild, rng=seed)
    with pytest.raises(ValueError, match=r"radius \+ speed/2 \+ clip is .*; accepted are numbers "
                                         "below 19.799"):
        PrivateGeodesicRegression(1.0, 1e-6, domain.of_radius(14.0), 28.0).fit(x, wild)


@pytest.mark.slow
def test_x_outside_of_the_range_counts_as_its_end_and_the_unit_of_x_is_the_users():
    rng = np.random.default_rng(13)
    _, _, x, Y = about_a_curve("sphere", 300, 0.03, rng)
    far = np.where(x > 0.9, 1e300, np.where(x < 0.1, -np.array(7.0), x))
    ends = np.where(x > 0.9, 1.0, np.where(x < 0.1, 0.0, x))
    one, other = (private("sphere").fit(each, Y, rng=0) for each in (far, ends))
    assert np.array_equal(one.point_, other.point_)
    years = private("sphere", x_range=(1990, 2010)).fit(1990 + 20 * ends, Y, rng=0)
    np.testing.assert_allclose(years.predict([1990.0, 2005]), other.predict([0, 0.75]), atol=1e-12)
    np.testing.assert_allclose(years.velocity_, other.velocity_ / 20, atol=1e-12)
    assert years.middle_ == 2000 and other.middle_ == 0.5


@pytest.mark.slow
def test_the_velocity_is_the_derivative_of_the_curve_at_the_middle():
    rng = np.random.default_rng(14)
    _, _, x, Y = about_a_curve("quadrilaterals", 500, 0.02, rng)
    fitted = private("quadrilaterals", x_range=(-1, 3)).fit(4 * x - 1, Y, rng=0)
    ahead = fitted.predict(fitted.middle_ + 1e-4)
    step = KendallPlanar(4).log(fitted.point_, ahead) / 1e-4
    np.testing.assert_allclose(step, fitted.velocity_, atol=1e-7)
    assert KendallPlanar(4).dist(fitted.predict(1.0), fitted.point_) < 1e-12
    assert fitted.predict(np.zeros((2, 3))).shape == (2, 3, 4)


# what comes in

@pytest.mark.slow
def test_lists_and_narrower_floats_are_read_as_what_they_hold():
    rng = np.random.default_rng(15)
    _, _, x, Y = about_a_curve("sphere", 60, 0.03, rng)
    x32, Y32 = x.astype(np.float32), Y.astype(np.float32)
    expected = private("sphere").fit(x32.astype(float), Y32.astype(float), rng=0)
    domain = Ball(np.float32(1 / 2), [0, 0, 1], Sphere(2))
    listed = PrivateGeodesicRegression(np.float32(1), 1e-6, domain, np.int64(1), [0, 1])
    for x, Y in ((x32, Y32), (x32.tolist(), Y32.tolist()), (x32, [*Y32])):
        fitted = listed.fit(x, Y, rng=0)
        np.testing.assert_allclose(fitted.point_, expected.point_, atol=1e-12)
        assert fitted.point_.dtype == fitted.velocity_.dtype == float


@pytest.mark.parametrize("options, words", [
    ({"epsilon": 0}, "epsilon is 0"), ({"epsilon": 1e4}, "epsilon is"),
    ({"epsilon": "1"}, "epsilon is '1'"), ({"delta": -1}, "delta is -1"),
    ({"delta": 0.7}, "delta is 0.7"), ({"delta": None}, "delta is None"),
    ({"delta": 0, "mechanism": "noisy descent"}, "delta is 0"),
    ({"mechanism": TruncatedCurveLoss.with_options(clip=0.1)}, "delta is 1e-06; accepted are 0"),
    ({"mechanism": CurveKNormGradient.with_options(clip=0.1)}, "delta is 1e-06; accepted are 0"),
    ({"delta": 0}, r"clip is None; accepted .*TruncatedCurveLoss.with_options\(clip="),
    ({"delta": 0, "mechanism": "k-norm gradient"}, "clip is None"),
    ({"radius": 0}, "radius is 0"), ({"radius": math.nan}, "radius is nan"),
    ({"radius": math.pi}, "radius is .*; accepted are numbers below 3.14159"),
    ({"speed": -1}, "speed is -1"), ({"speed": math.inf}, "speed is inf"),
    ({"speed": None}, "speed is None"), ({"speed": 1e9}, "speed is 1000000000.0"),
    ({"mechanism": descent(0)}, "clip is 0"), ({"mechanism": descent(math.nan)}, "clip is nan"),
    ({"mechanism": descent(1e-5)}, "clip is 1e-05; accepted are numbers from"),
    ({"mechanism": descent(math.inf)}, "clip is inf"), ({"mechanism": descent(1e300)}, "clip is 1"),
    ({"x_range": (1, 0)}, "x_range"), ({"x_range": 3}, "x_range is 3"),
    ({"x_range": (0, math.inf)}, "x_range"), ({"x_range": (0, 5e-324)}, "x_range is"),
    ({"x_range": (-1e308, 1e308)}, r"x_range\[0\] is -1e\+308"),
    ({"x_range": ("a", "b")}, r"x_range\[0\] is 'a'"), ({"x_range": (0, 1j)}, "x_range"),
    ({"x_range": (0, 10**400)}, "x_range"),
    ({"delta": 0, "mechanism": "noisy descent"}, "delta is 0.*with \"noisy descent\"$"),
    ({"domain": None}, "domain is None; accepted is a Ball"),
    ({"domain": 0.5}, "domain is 0.5; accepted is a Ball"), ({"center": None}, "center is"),
    ({"center": [0, 0, 2]}, "center has length 2"), ({"center": [1, 0]}, "center has shape"),
    ({"mechanism": "gaussian"}, "mechanism is 'gaussian'"), ({"mechanism": 3}, "mechanism is 3"),
    ({"on_invalid": "drop"}, "on_invalid is 'drop'"),
    ({"center": np.eye(3), "space": None}, "x and Y have shapes"),
    ({"mechanism": TruncatedCurveLoss.with_options(clip=0.1, approximate=1), "delta": 0},
     "approximate is 1"),
])
def test_a_refusal_names_the_argument_and_comes_before_a_record_is_looked_at(options, words):
    nowhere = np.full((9, 3), math.nan)
    rng = np.random.default_rng(0)
    state = rng.bit_generator.state
    ball = {"radius": 0.5, "center": POLE, "space": Sphere(2)}
    given = {name: options.get(name, value) for name, value in ball.items()}
    options = {name: value for name, value in options.items() if name not in ball}
    with pytest.raises(ValueError, match=words):
        PrivateGeodesicRegression(**PUBLIC | {"domain": Ball(**given)} | options).fit(
            np.full(9, math.nan), nowhere, rng=rng)
    assert rng.bit_generator.state == state


@pytest.mark.parametrize("x, Y, words", [
    (np.zeros(3), np.stack([POLE] * 4), "x and Y have shapes"),
    (np.zeros((4, 1)), np.stack([POLE] * 4), "x and Y have shapes"),
    (np.zeros(0), np.zeros((0, 3)), "x and Y have shapes"),
    (["a"] * 4, np.stack([POLE] * 4), r"x\[0\] is nan"),
    (np.ma.masked_less(np.arange(4.0), 2), np.stack([POLE] * 4), r"x\[0\] is nan"),
    ([0, 1, math.nan, 2], np.stack([POLE] * 4), r"x\[2\] is nan"),
    (np.zeros(4), np.stack([POLE, POLE, 2 * POLE, POLE]), r"Y\[2\] has length 2"),
])
def test_a_record_that_is_none_is_refused_before_anything_is_drawn(x, Y, words):
    earlier = PrivateGeodesicRegression(**PUBLIC)
    earlier.fit(np.arange(4) / 4, np.stack([POLE] * 4), rng=0)
    rng = np.random.default_rng(0)
    state = rng.bit_generator.state
    with pytest.raises(ValueError, match=words):
        earlier.fit(x, Y, rng=rng)
    assert rng.bit_generator.state == state
    assert not LEARNT & set(vars(earlier))


@pytest.mark.parametrize("space, center, radius, speed", [
    pytest.param(Sphere(2), POLE, 3.1, 3e6, marks=pytest.mark.slow),
    pytest.param(Sphere(1), POLE[1:], 3.1, 3e6, marks=pytest.mark.slow),
    pytest.param(KendallPlanar(4), SHAPE[:4], 1.5, 1.5e6, marks=pytest.mark.slow),
    (TangentSpace(Sphere(2), POLE), POLE, 1e9, 1e100),
    pytest.param(TangentSpace(AffineInvariant(2), np.eye(2)), 1e-300 * np.eye(2), 600.0, 1.0,
                 marks=pytest.mark.slow),
    (LogEuclidean(2), np.diag([1e-300, 1e-290]), 1e100, 1e100),
    (Euclidean(2), 4e307 * np.eye(2), 1e100, 1e100),
])
@pytest.mark.parametrize("epsilon, delta", [
    (1e-6, 1e-300), pytest.param(1e3, 0.5, marks=pytest.mark.slow)])
def test_nothing_is_raised_once_noise_is_drawn_in_the_widest_domains(
        space, center, radius, speed, epsilon, delta):
    Y = np.stack([center] * 3)
    for seed in range(5):
        made = PrivateGeodesicRegression(epsilon, delta, Ball(radius, center, space), speed)
        assert np.isfinite(made.fit([0, 0.5, 1], Y, rng=seed).point_).all()


def test_x_beyond_float64_gives_way_to_the_middle_like_other_x_that_are_not_finite():
    x = np.array([0, 1, "1e4000"], np.longdouble)
    query = query_of("sphere", x, np.stack([POLE] * 3), on_invalid="center")
    assert query.times.tolist() == [-0.5, 0.5, 0.0]


@pytest.mark.parametrize("rng", [True, "seed", [], -1])
def test_a_seed_that_is_none_is_refused(rng):
    with pytest.raises(ValueError, match="rng is"):
        PrivateGeodesicRegression(**PUBLIC).fit([0.5], POLE[None], rng=rng)


@pytest.mark.parametrize("name", mostly_slow(DOMAINS, "log-Euclidean 2", "sphere"))
def test_an_invalid_record_can_count_as_one_at_the_centre_in_the_middle(name):
    space, center, _, _ = parts_of(name)
    _, _, x, Y = about_a_curve(name, 8, 0.05, np.random.default_rng(16))
    replaced, at = Y.copy(), x.copy()
    replaced[[2, 5]], at[[2, 5]] = space.exp(center, np.zeros(space.dim)), 0.5
    bad, out = Y.copy(), x.copy()
    bad[2], out[5] = np.nan, np.inf
    for mechanism, options in ((NoisyDescent, {}), (TruncatedCurveLoss, {"clip": 0.1})):
        query = query_of(name, out, bad, on_invalid="center")
        np.testing.assert_allclose(query.steps, query_of(name, at, replaced).steps, atol=1e-12)
        assert np.array_equal(query.times, query_of(name, at, replaced).times)
        made = mechanism.of(query, 1.0, 1e-6 if mechanism is NoisyDescent else 0, **options)
        assert np.isfinite(made.answer(query, 0)).all() or space.dim > 2
    fitted = private(name, on_invalid="center").fit(out, bad, rng=0)
    expected = private(name).fit(at, replaced, rng=0)
    np.testing.assert_allclose(fitted.velocity_, expected.velocity_, atol=1e-7)
    nothing = private(name, on_invalid="center").fit(out + math.nan, bad, rng=0)
    assert np.isfinite(nothing.predict([0, 1])).all()
    with pytest.raises(ValueError, match=r"x\[5\] is inf"):
        private(name).fit(out, Y, rng=0)


# what goes out

def test_nothing_but_the_release_depends_on_the_data():
    fits = []
    for seed in (0, 1):
        _, _, x, Y = about_a_curve("sphere", 50, 0.1, np.random.default_rng(seed))
        fits.append(vars(private("sphere").fit(x, Y, rng=0)))
    first, second = fits
    assert set(first) == set(PrivateGeodesicRegression(**PUBLIC).get_params()) | LEARNT
    for release in ("point_", "velocity_"):
        assert not np.array_equal(first.pop(release), second.pop(release))
    assert vars(first.pop("mechanism_")) == vars(second.pop("mechanism_"))
    documents = [each.pop("release_").to_dict() for each in (first, second)]
    assert {name for name in documents[0] if documents[0][name] != documents[1][name]} == {
        "point", "velocity"}
    assert repr(first) == repr(second)


def test_a_document_holds_the_curve_and_where_it_was_looked_for():
    _, _, x, Y = about_a_curve("sphere", 50, 0.1, np.random.default_rng(0))
    fitted = private("sphere").fit(x, Y, rng=0)
    release = Release.from_json(fitted.release_.to_json())
    assert release == fitted.release_ and release.estimator == "PrivateGeodesicRegression"
    np.testing.assert_array_equal(release.point, fitted.point_)
    np.testing.assert_array_equal(release.velocity, fitted.velocity_)
    assert release.x_range.tolist() == list(map(float, fitted.x_range))
    assert (release.ball.radius, release.speed) == (fitted.domain.radius, fitted.speed)
    assert release.mean is None and not release.ball.private and release.privacy == fitted.privacy_


@pytest.mark.parametrize("options", [
    {}, {"delta": 0, "mechanism": TruncatedCurveLoss.with_options(clip=0.3)},
    {"delta": 0, "mechanism": CurveKNormGradient.with_options(clip=0.3)}])
def test_neither_records_nor_a_generator_are_kept(options):
    _, _, x, Y = about_a_curve("sphere", 500, 0.1, np.random.default_rng(0))
    options = {"epsilon": 1e-3} | options
    fitted = PrivateGeodesicRegression(**PUBLIC | options).fit(x, Y, rng=np.random.default_rng(5))
    for held in (fitted, copy.deepcopy(fitted), copy.copy(fitted), sklearn.base.clone(fitted)):
        stored = pickle.dumps(held)
        assert len(stored) < 3000  # 500 records take more
        assert not any(word in stored for word in (b"random", b"Generator", b"PCG64"))
        assert Y.tobytes()[:24] not in stored and x.tobytes()[:8] not in stored
    again = pickle.loads(pickle.dumps(fitted))
    assert np.array_equal(again.predict([0, 0.5]), fitted.predict([0, 0.5]))


@pytest.mark.slow
def test_fits_without_a_seed_have_noise_of_their_own_and_a_seed_repeats_it():
    _, _, x, Y = about_a_curve("sphere", 50, 0.1, np.random.default_rng(0))
    points = [private("sphere").fit(x, Y, rng=rng).point_ for rng in (None, None, 3, 3)]
    assert not np.array_equal(*points[:2]) and np.array_equal(*points[2:])


def test_the_mechanism_by_default_is_told_by_delta_alone():
    _, _, x, Y = about_a_curve("sphere", 10, 0.1, np.random.default_rng(0))
    assert type(private("sphere").fit(x, Y, rng=0).mechanism_) is NoisyDescent
    with pytest.raises(ValueError, match="clip is None.*TruncatedCurveLoss"):
        private("sphere", delta=0).fit(x, Y, rng=0)


def test_the_words_of_the_promise_name_the_neighbours_and_the_seed():
    _, _, x, Y = about_a_curve("sphere", 10, 0.1, np.random.default_rng(0))
    for options, kind in (({}, NoisyDescent), ({"mechanism": descent(0.1)}, NoisyDescent), *(
            ({"delta": 0, "mechanism": kind.with_options(clip=0.3)}, kind)
            for kind in (TruncatedCurveLoss, CurveKNormGradient))):
        fitted = PrivateGeodesicRegression(**PUBLIC | options).fit(x, Y, rng=0)
        assert type(fitted.mechanism_) is kind
        assert f"(1.0, {options.get('delta', 1e-6)})-differentially private" in fitted.privacy_
        assert "n = 10 records (x, y)" in fitted.privacy_
        assert fitted.privacy_.endswith("last bits of floats; not private against anyone "
                                        "who knows the seed")


@pytest.mark.slow
def test_where_nothing_samples_exactly_a_chain_has_to_be_asked_for():
    _, _, x, Y = about_a_curve("affine-invariant 2", 200, 0.1, np.random.default_rng(0))
    with pytest.raises(ValueError, match="approximate=True"):
        private("affine-invariant 2", delta=0, mechanism=TruncatedCurveLoss.with_options(clip=0.1)
                ).fit(x, Y, rng=0)
    fitted = private("affine-invariant 2").fit(x, Y, rng=0)
    assert fitted.privacy_.startswith("(1.0, 1e-06)-differentially private")


def test_both_estimators_share_what_scikit_learn_asks_for():
    assert issubclass(PrivateFrechetMean, Estimator)
    made = PrivateGeodesicRegression(**PUBLIC, mechanism=descent(0.1))
    assert repr(made) == (
        "PrivateGeodesicRegression(epsilon=1.0, delta=1e-06, domain=Ball(0.5, [0.0, 0.0, 1.0], "
        "Sphere(2, 1.0)), speed=1.0, mechanism=NoisyDescent.with_options(clip=0.1))")
    assert sklearn.base.clone(made).get_params() == made.get_params()
    assert made.set_params(speed=0.2) is made and made.speed == 0.2
    with pytest.raises(ValueError, match="parameter is 'clipp'"):
        made.set_params(clipp=1)
    assert made.__sklearn_tags__().estimator_type is None


def test_many_answers_at_once_have_their_own_noise_and_any_shape():
    _, _, x, Y = about_a_curve("sphere", 50, 0.05, np.random.default_rng(0))
    query = query_of("sphere", x, Y)
    mechanism = NoisyDescent.of(query, 1.0, 1e-6)
    draws = mechanism.answer(query, 0, (2, 3))
    assert draws.shape == (2, 3, 4) and len(np.unique(draws[..., 0])) == 6
    assert mechanism.answer(query, 0).shape == (4,)
    assert mechanism.answer(query, 0, 0).shape == (0, 4)
    assert mechanism.is_proved(query)
    p, v = query.curve(draws)
    assert Sphere(2).dist(POLE, p).max() <= 0.5 + 1e-12


# how far a release will be from the truth

@pytest.mark.slow
def test_the_errors_on_the_sphere_are_those_that_the_book_states():
    made = private("sphere", mechanism=descent(0.1))
    for n, most in ((50, 0.2), (100, 0.06), (1000, 0.006)):
        plan = expected_curve_error(made, n, 0.032, draws=200)
        assert plan.released + plan.doubt < most


@pytest.mark.slow
def test_the_expected_error_says_that_10_records_are_too_few_and_needs_no_data():
    made = private("sphere", mechanism=descent(0.1))
    few, many = (expected_curve_error(made, n, 0.03, draws=3) for n in (10, 500))
    assert few.released > 0.6 * few.centre and many.released < 0.05 * many.centre
    assert expected_curve_error(made, 10, 0.03, draws=3) == few
    assert not LEARNT & set(vars(made))


@pytest.mark.slow
@pytest.mark.parametrize("law", ["even", "skewed", "clustered"])
def test_what_is_found_is_not_above_the_plan_for_that_law_of_x_nor_that_above_the_worst(law):
    domain, speed, clip, noise = CROWDED["sphere"]
    n, rng = 300, np.random.default_rng(4)
    made = PrivateGeodesicRegression(1.0, 1e-6, domain, speed, mechanism=descent(clip))
    guess, worst = (expected_curve_error(made, n, noise, 12, x=x)
                    for x in (law_of_x(law, 500, rng), "worst"))
    assert guess.released - guess.doubt <= worst.released + worst.doubt
    x, u = law_of_x(law, n, rng), np.array([0.3, -0.3, 0.6, 0.7])
    query = CurveQuery(x, np.broadcast_to(POLE, (n, 3)), domain, speed)
    p, v = query.curve(u)
    Y = Sphere(2).exp(predict(Sphere(2), p, v, x - 0.5), noise * rng.standard_normal((n, 2)))
    error, doubt = errors(made, x, Y, p, v, 12)
    assert error - doubt <= math.degrees(guess.released + guess.doubt)


@pytest.mark.slow
def test_a_plan_says_that_a_budget_is_too_small_and_that_x_in_one_place_tells_no_velocity():
    domain, speed, clip, noise = CROWDED["sphere"]
    little = PrivateGeodesicRegression(0.01, 1e-6, domain, speed, mechanism=descent(clip))
    plan = expected_curve_error(little, 100, noise, draws=10)
    assert plan.released > 0.7 * plan.centre
    much = PrivateGeodesicRegression(1000.0, 1e-6, domain, speed, mechanism=descent(clip))
    plans = [expected_curve_error(much, 100, noise, draws=10, x=x)
             for x in ("even", "worst", np.zeros(7))]
    assert plans[0].released + plans[0].doubt < 0.1 * plans[0].centre
    assert min(plan.released for plan in plans[1:]) > 0.4 * plans[0].centre
    assert expected_curve_error(much, 100, noise, draws=1).doubt == math.inf


@pytest.mark.parametrize("arguments, words", [
    ({"x": "odd"}, "x is 'odd'; accepted are"), ({"x": []}, r"x has shape \(0,\)"),
    ({"x": [math.nan]}, "x"), ({"n": 0}, "n is 0"), ({"noise": -1.0}, "noise is -1.0"),
    ({"draws": 0}, "draws is 0"),
])
def test_the_expected_error_names_what_it_refuses(arguments, words):
    with pytest.raises(ValueError, match=words):
        expected_curve_error(private("sphere"), **{"n": 5} | arguments)
    with pytest.raises(ValueError, match="domain is None; accepted is a Ball"):
        expected_curve_error(PrivateGeodesicRegression(1.0, 1e-6, speed=1.0), 5)


def test_skulls_of_real_rats_have_a_private_trend():
    path = pathlib.Path(os.environ.get("SPDLIB_DATA", ""), "cran_shapes.npz")
    if not path.is_file():
        pytest.skip("SPDLIB_DATA names no folder with cran_shapes.npz")
    with np.load(path) as file:
        Y = np.moveaxis(file["rats_x"][:, 0] + 1j * file["rats_x"][:, 1], -1, 0)
        x = np.log(file["rats_time"])
    space, ages = KendallPlanar(8), np.log([7.0, 33.0, 150.0])
    best = GeodesicRegression(space).fit(x, Y)
    made = PrivateGeodesicRegression(1.0, 1e-6, Ball(0.2, Y[0], space), 0.4,
                                     (np.log(7), np.log(150)), descent(0.05))
    off = [space.dist(made.fit(x, Y, rng=seed).predict(ages), best.predict(ages))
           for seed in range(20)]
    length = np.linalg.norm(best.velocity_) * np.ptp(x)
    assert 0.01 * length < np.sqrt(np.mean(np.square(off))) < 0.3 * length


@pytest.mark.slow
def test_a_curve_about_a_centre_at_the_edge_of_float64_is_returned_once_it_is_drawn():
    drawn = 0
    for seed in range(60):
        Q = np.linalg.qr(np.random.default_rng(seed).standard_normal((3, 3)))[0]
        center = Q * [1, 1, 1e-15] @ Q.T
        try:
            ball = Ball(0.5, (center + center.T) / 2, AffineInvariant(3))
        except ValueError:  # it is no centre
            continue
        made = PrivateGeodesicRegression(1.0, 1e-6, ball, 1.0, mechanism=descent(0.3))
        assert made.fit([0, 0.5, 1], np.stack([ball.center] * 3), rng=seed) is made
        drawn += 1
    assert drawn > 10
