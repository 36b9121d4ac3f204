"""Fréchet means and mechanisms on curved spaces: sensitivity, promise, and what is returned."""

import copy
import itertools
import math
import pickle
import re

import numpy as np
import pytest
import sklearn.base
from conftest import mostly_slow
from mechanism_table import DENSITIES, MEANS
from scipy.integrate import quad
from tables import BALLS, CURVED, FAST, POLE, SHAPE, in_ball, private

from spdlib import Ball, FrechetMean, PrivateFrechetMean, expected_error
from spdlib.calibration import gdp_mu
from spdlib.mechanisms import (KNormGradient, L2Mechanism, RiemannianLaplace, TangentGaussian,
                               TruncatedLoss)
from spdlib.queries import frechet_sensitivity
from spdlib.samplers import laplace_threshold
from spdlib.spaces import (AffineInvariant, Euclidean, KendallPlanar, LogEuclidean, Sphere,
                           TangentSpace, frechet_mean)
from spdlib.spd import expm, invvecd, log_congruent, logm, powm, random_spd, vecd

SQUARE = SHAPE[:4]
each_space = pytest.mark.parametrize("name", mostly_slow(CURVED, "affine-invariant 1", *FAST))


def parts(name):
    """A ball of the table, and what it is made of."""
    ball = BALLS[name]
    return ball, ball.space, ball.center, ball.radius


def norm(v):
    return np.linalg.norm(v, axis=-1)


# means

@each_space
def test_the_mean_step_from_a_mean_is_as_short_as_the_public_tolerance(name):
    ball, space, _, radius = parts(name)
    rng = np.random.default_rng(0)
    for n in (1, 2, 7, 50):
        query = FrechetMean(in_ball(ball, n, rng), ball)
        mean = space.exp(query.ball.center, query.step)
        gradient = space.log(mean, query.points).mean(axis=0)
        assert norm(gradient) <= query.tolerance
        assert query.tolerance < 1e-8 * radius
        far = norm(space.log(query.ball.center, mean))
        assert far <= radius


@each_space
def test_many_means_at_once_are_those_of_each_set_and_do_not_need_a_centre(name):
    ball, space, center, _ = parts(name)
    rng = np.random.default_rng(1)
    X = np.stack([in_ball(ball, 5, rng) for _ in range(6)])
    means = frechet_mean(X.reshape(2, 3, 5, *space.shape), space)
    assert means.shape == (2, 3, *space.shape)
    for records, mean in zip(X, means.reshape(6, *space.shape), strict=True):
        assert space.dist(frechet_mean(records, space), mean) < 1e-8
        query = FrechetMean(records, ball)
        assert space.dist(space.exp(center, query.step), mean) < 1e-8
        assert norm(space.log(mean, records).mean(axis=0)) < 1e-9


def test_the_mean_of_two_matrices_is_their_geometric_mean():
    A, B = random_spd(2, 3, 1.0, 0)
    half = powm(A, 0.5)
    geometric = half @ powm(powm(A, -0.5) @ B @ powm(A, -0.5), 0.5) @ half
    np.testing.assert_allclose(frechet_mean(np.stack([A, B]), AffineInvariant(3)), geometric,
                               rtol=1e-8)


def test_on_flat_spaces_the_mean_is_that_of_the_coordinates():
    X = random_spd(12, 3, 1.0, 0).reshape(3, 4, 3, 3)
    np.testing.assert_allclose(frechet_mean(X, LogEuclidean(3)), expm(logm(X).mean(axis=1)))
    np.testing.assert_allclose(frechet_mean(X, Euclidean(3)), X.mean(axis=1))


def test_what_need_not_be_the_mean_is_not_returned():
    equator = np.array([[1.0, 0, 0], [-0.5, 0.75**0.5, 0], [-0.5, -(0.75**0.5), 0]])
    with pytest.raises(ValueError, match="accepted are points within 1.5708"):
        frechet_mean(equator, Sphere(2))
    with pytest.raises(ValueError, match=r"^X\[0, 2\] is nan"):
        frechet_mean(np.array([[0.0, 0, np.nan], [0, 0, 1]]), Sphere(2))
    with pytest.raises(ValueError, match=r"X\[1\] is a cut point"):
        frechet_mean(np.array([[0.0, 0, 1], [0, 0, -1]]), Sphere(2))
    with pytest.raises(ValueError, match=r"accepted is \(..., n, 3\), n ≥ 1"):
        frechet_mean(np.ones((0, 3)), Sphere(2))
    with pytest.raises(ValueError, match="tolerance is 0; accepted"):
        frechet_mean(equator[:1], Sphere(2), 0)


# sensitivity

@pytest.mark.parametrize("kappa", [0.25, 1.0, 9.0])
def test_the_sensitivity_is_twice_the_tangent_over_n_and_no_more_than_the_diameter(kappa):
    for n, share in itertools.product([1, 2, 50, 1000], [0.1, 0.5, 0.9, 0.999]):
        root, r = math.sqrt(kappa), share * math.pi / math.sqrt(kappa) / 2
        found = frechet_sensitivity(n, r, Sphere(2, kappa))
        expected = min(2 * math.tan(r * root) / (n * root), 2 * r)
        assert expected < found <= expected * (1 + 1e-11), (n, share)
        at_a_tolerance = frechet_sensitivity(n, r, Sphere(2, kappa), 1e-9 * r)
        assert found < at_a_tolerance * (1 + 1e-11) < found * 1.01, (n, share)


@pytest.mark.parametrize("space, largest", [
    (Sphere(2), math.pi / 2), (Sphere(3, 4.0), math.pi / 4), (Sphere(1), math.pi / 2),
    (KendallPlanar(3), math.pi / 4), (KendallPlanar(5), math.pi / 4),
])
def test_a_radius_from_which_on_a_mean_is_not_the_only_one_is_refused(space, largest):
    message = re.escape(f"accepted are numbers below {largest:.6g} = r*")
    for radius in (largest, 2 * largest):
        with pytest.raises(ValueError, match=message):
            frechet_sensitivity(5, radius, space)
    assert frechet_sensitivity(5, largest * (1 - 1e-9), space) > 0
    assert frechet_sensitivity(5, 1e6, AffineInvariant(2)) == pytest.approx(4e5)
    X = np.broadcast_to(np.eye(space.shape[0])[0], (3, *space.shape))
    query = FrechetMean(X, Ball(largest, X[0], space))
    with pytest.raises(ValueError, match="= r*"):
        TangentGaussian.of(query, 1.0, 1e-6)


@each_space
def test_the_mean_moves_by_no_more_than_the_sensitivity_and_comes_close(name):
    """The worst pair: all others across the line on which the record is replaced."""
    ball, space, center, radius = parts(name)
    bend, along = space.curvature[1] > 0, np.eye(space.dim)[0]
    turned = space.dim // 2 if isinstance(space, KendallPlanar) else 1  # the plane that bends most
    across = np.eye(space.dim)[turned] if bend else along
    others = np.tile([radius * across, -radius * across], (20, 1))
    steps = np.concatenate([others, [radius * along]])
    queries = [FrechetMean(space.exp(center, s), ball) for s in (
        steps, np.concatenate([others, -steps[-1:]]))]
    means = [space.exp(query.ball.center, query.step) for query in queries]
    share = space.dist(*means) / queries[0].sensitivity
    assert share <= 1 and share > (0.93 if bend else 1 - 1e-6)
    apart = norm(queries[0].step - queries[1].step)
    assert apart <= queries[0].chart_sensitivity
    assert (queries[0].chart_sensitivity > queries[0].sensitivity) == bend


@pytest.mark.slow
@pytest.mark.parametrize("name", mostly_slow(CURVED, "affine-invariant 1", "sphere 2"))
def test_no_pair_of_data_sets_found_at_random_moves_the_mean_by_more(name):
    ball, space, _, radius = parts(name)
    rng, largest = np.random.default_rng(2), 0
    for _ in range(25):
        n = int(rng.integers(1, 5))
        X = in_ball(ball.of_radius(1.5 * radius), n + 1, rng)
        one, other = (FrechetMean(np.delete(X, i, 0), ball) for i in (0, n))
        moved = space.dist(*(space.exp(q.ball.center, q.step) for q in (one, other)))
        assert moved <= one.sensitivity
        assert norm(one.step - other.step) <= one.chart_sensitivity
        largest = max(largest, moved / one.sensitivity)
    assert largest > 0.3


def test_the_chart_stretches_by_no_more_than_the_angle_over_its_sine_and_comes_close():
    space, center, radius = Sphere(2), np.eye(3)[2], 1.2
    query = FrechetMean(center[None], Ball(radius, center, space))
    stretch = query.chart_sensitivity / query.sensitivity
    exact = radius / math.sin(radius)
    assert exact < stretch < exact * (1 + 1e-3)
    v = radius * np.array([[1, 0], [math.cos(1e-4), math.sin(1e-4)]])
    assert norm(v[0] - v[1]) / space.dist(*space.exp(center, v)) > exact * (1 - 1e-6)


def test_the_tangent_mean_pays_for_no_curvature():
    for space, center in ((Sphere(2), POLE), (KendallPlanar(4), SQUARE)):
        ball = Ball(1.2, center, space)
        X = in_ball(ball.of_radius(1.0), 9, np.random.default_rng(0))
        query = FrechetMean(X, ball.tangent())
        assert query.sensitivity == query.chart_sensitivity == frechet_sensitivity(9, 1.2)
        np.testing.assert_allclose(query.step, space.log(center, X).mean(axis=0), atol=1e-12)


# the projection

def opposite_ends(space, radius, rng, n=4000):
    """Pairs: a point anywhere, and one in the ball about e, both as steps from there."""
    reach = min(space.injectivity_radius * (1 - 1e-6), 8.0)
    v, w = rng.standard_normal((2, n, space.dim))
    v *= (radius + (reach - radius) * rng.random((n, 1)) ** 0.2) / norm(v)[:, None]
    w *= radius * rng.random((n, 1)) ** 0.1 / norm(w)[:, None]
    w[: n // 2] = -v[: n // 2] * (norm(w) / norm(v))[: n // 2, None]
    return v, w


@pytest.mark.parametrize("space, center, harmless", [
    (Sphere(2), np.eye(3)[0], math.pi / 3), (Sphere(3, 4.0), np.eye(4)[0], math.pi / 6),
    (Sphere(1), np.eye(2)[0], math.pi / 3), (KendallPlanar(4), SQUARE, math.pi / 8),
    (KendallPlanar(3), SHAPE[:3], math.pi / 6), (AffineInvariant(2), np.eye(2), math.inf),
])
def test_a_projection_that_is_called_harmless_leads_away_from_no_point_of_the_ball(
        space, center, harmless):
    for radius in (min(harmless, 3.0) * (1 - 1e-9), min(harmless, 3.0) / 3):
        assert Ball(radius, center, space).harmless
        v, w = opposite_ends(space, radius, np.random.default_rng(0))
        Y, Z, X = (space.exp(center, u) for u in (v, v * radius / norm(v)[:, None], w))
        assert (space.dist(Z, X) <= space.dist(Y, X) + 1e-9).all()
    if harmless < math.inf:
        assert not Ball(1.001 * harmless, center, space).harmless
    if isinstance(space, Sphere):  # a projection can harm from there on
        v, w = opposite_ends(space, 1.2 * harmless, np.random.default_rng(0))
        Y, X = space.exp(center, v), space.exp(center, w)
        Z = space.exp(center, v * 1.2 * harmless / norm(v)[:, None])
        assert (space.dist(Z, X) > space.dist(Y, X)).any()


# Laplace

def test_the_rate_of_laplace_noise_is_said():
    whole = RiemannianLaplace(0.1, 0.5, Sphere(2))
    assert (whole.rate, whole.scale) == ("Δ/ε", RiemannianLaplace(0.1, 0.5).scale)
    within = RiemannianLaplace(0.1, 0.5, Sphere(2), Ball(0.7, POLE, Sphere(2)))
    assert within.rate == "2Δ/ε" and within.scale == pytest.approx(2 * whole.scale)


@pytest.mark.parametrize("k", [2, 3])
def test_a_scale_at_which_the_law_does_not_exist_is_refused_unless_on_a_ball(k):
    space = AffineInvariant(k)
    threshold = laplace_threshold(space)
    with pytest.raises(ValueError, match="accepted are those below .* no finite integral"):
        RiemannianLaplace(threshold, 1.0, space)
    RiemannianLaplace(0.99 * threshold, 1.0, space)
    ball = Ball(0.5, np.eye(k), space)
    drawn = RiemannianLaplace(2 * threshold, 1.0, space, ball).release(np.eye(k), 0, 99)
    assert space.dist(np.eye(k), drawn).max() <= 0.5 * (1 + 1e-9)


def arc_density(footpoint, radius, scale):
    """Density on [-radius, radius] of Laplace noise about a point, conditioned on that arc."""
    total = quad(lambda y: math.exp(-abs(y - footpoint) / scale), -radius, radius,
                 points=[footpoint])[0]
    return lambda y: math.exp(-abs(y - footpoint) / scale) / total


def test_on_an_arc_the_promise_is_kept_at_twice_the_scale_and_not_at_the_scale():
    epsilon, radius, n = 1.0, 1.3, 4
    sensitivity = frechet_sensitivity(n, radius, Sphere(1))
    arc = Ball(radius, np.eye(2)[0], Sphere(1))
    kept = RiemannianLaplace(sensitivity, epsilon, Sphere(1), arc).scale
    for share, most in ((1.0, epsilon), (0.5, 2 * epsilon)):
        losses = []
        for m in np.linspace(-radius, radius - sensitivity, 30):
            p, q = (arc_density(x, radius, share * kept) for x in (m, m + sensitivity))
            losses += [abs(math.log(p(y) / q(y))) for y in np.linspace(-radius, radius, 101)]
        assert max(losses) <= most
    assert max(losses) > epsilon  # at half the scale, that of a whole space


def sphere_constant(away, radius, scale, m=200):
    """Integral of exp(-distance/scale) over a ball of S², by quadrature about its centre."""
    nodes, weights = np.polynomial.legendre.leggauss(m)
    theta, phi = radius * (nodes + 1) / 2, math.pi * (nodes + 1) / 2
    cosine = (math.cos(away) * np.cos(theta)[:, None]
              + math.sin(away) * np.sin(theta)[:, None] * np.cos(phi))
    density = np.exp(-np.arccos(cosine.clip(-1, 1)) / scale)
    return 2 * (weights * radius / 2 * np.sin(theta)) @ density @ (weights * math.pi / 2)


@pytest.mark.slow
def test_on_a_ball_of_the_sphere_the_promise_is_kept_at_twice_the_scale_and_not_at_the_scale():
    epsilon, radius, n = 1.0, 1.2, 20
    sensitivity = frechet_sensitivity(n, radius, Sphere(2))
    cap = Ball(radius, POLE, Sphere(2))
    kept = RiemannianLaplace(sensitivity, epsilon, Sphere(2), cap).scale
    worst = {1.0: 0.0, 0.5: 0.0}
    for share in worst:  # along a ray the density changes by all of the distance somewhere
        scale = share * kept
        for m in np.linspace(0, radius - sensitivity, 10):
            ends = m, m + sensitivity
            constants = [math.log(sphere_constant(x, radius, scale)) for x in ends]
            worst[share] = max(worst[share], sensitivity / scale + abs(np.diff(constants)[0]))
    assert worst[1.0] <= epsilon < worst[0.5]


def test_on_a_whole_space_the_loss_is_the_distance_over_the_scale_for_every_pair():
    for name in ("circle", "sphere 2", "quadrilaterals", "affine-invariant 2"):
        ball, space, center, _ = parts(name)
        mechanism = RiemannianLaplace(0.3, 0.5, space)
        M = space.exp(center, np.eye(space.dim)[0] * 0.3)
        wide = ball.of_radius(min(space.injectivity_radius, 4.0))
        Y = np.concatenate([in_ball(wide, 2000, np.random.default_rng(0)), [center, M]])
        loss = np.abs(space.dist(center, Y) - space.dist(M, Y)) / mechanism.scale
        assert 0.5 * (1 - 1e-9) <= loss.max() <= 0.5 * (1 + 1e-12)


def test_a_conditioned_release_has_the_law_of_its_density():
    """Against quadrature on the arc; the band of Dvoretzky, Kiefer, Wolfowitz and Massart."""
    space, center, radius, size = Sphere(1), np.eye(2)[0], 1.3, 20_000
    M = space.exp(center, [1.1])
    band = math.sqrt(math.log(2e9) / (2 * size))
    for epsilon in (0.5, 8.0):
        mechanism = RiemannianLaplace(0.5, epsilon, space, Ball(radius, center, space))
        y = np.sort(space.log(center, mechanism.release(M, 0, size))[:, 0])
        at = space.log(center, M)[0]
        far = {}
        for share in (1.0, 1.2):
            density = arc_density(at, radius, share * mechanism.scale)
            grid = np.linspace(-radius, radius, 400)
            cdf = np.array([quad(density, -radius, g, points=[min(at, g)])[0] for g in grid])
            far[share] = np.abs(np.searchsorted(y, grid) / size - cdf).max()
        assert far[1.0] < band
        if epsilon == 8.0:
            assert far[1.2] > band


@each_space
def test_an_answer_is_the_step_in_the_chart_to_a_release_about_the_mean(name):
    ball, space, center, _ = parts(name)
    query = FrechetMean(in_ball(ball, 200, np.random.default_rng(0)), ball)
    mechanism = RiemannianLaplace.of(query, 1.0)
    answers = mechanism.answer(query, 3, (2, 3))
    assert answers.shape == (2, 3, space.dim)
    mean = space.exp(query.ball.center, query.step)
    far = space.dist(space.exp(center, answers), mechanism.release(mean, 3, (2, 3)))
    assert far.max() < 1e-7
    assert mechanism.answer(query, 3).shape == (space.dim,)


@pytest.mark.parametrize("k", [2, 3, 4])
@pytest.mark.parametrize("size", [10.0, 1e3, 3e3, 1e5])
def test_the_chart_of_a_point_however_far_tells_nothing_of_the_step_before(k, size):
    """Determinants are multiplied, and the way back leads back."""
    space, rng = AffineInvariant(k), np.random.default_rng(0)
    u, v = rng.standard_normal((2, 20, space.dim))
    v *= size / norm(v)[:, None]
    traces = (u + v)[:, :k].sum(axis=1)
    chart = space.chart(np.eye(k), u, v)
    np.testing.assert_allclose(chart[:, :k].sum(axis=1), traces, atol=1e-12 * (1 + size))
    inverse = np.linalg.inv(np.linalg.cholesky(expm(invvecd(u))))
    back = vecd(log_congruent(inverse, invvecd(chart)))
    np.testing.assert_allclose(back, v, atol=1e-11 * (1 + size))


@pytest.mark.slow
def test_an_answer_far_beyond_float64_has_coordinates():
    space = AffineInvariant(2)
    ball = Ball(1.0, np.eye(2), space)
    query = FrechetMean(random_spd(3, 2, 0.5, 0), ball)
    mechanism = RiemannianLaplace(query.sensitivity, query.sensitivity / 1.3, space)
    answers = mechanism.answer(query, 0, 500)
    assert np.isfinite(answers).all() and norm(answers).max() > 50
    estimator = private(ball, "laplace", query.sensitivity / 1.3)
    for seed in range(30):
        mean = estimator.fit(random_spd(3, 2, 0.5, 0), rng=seed).mean_
        assert space.dist(np.eye(2), mean) < 1.0001


def test_a_mechanism_answers_on_its_own_space_only_and_adds_noise_to_coordinates_on_flat_ones():
    query = FrechetMean(np.eye(3), Ball(0.4, np.eye(3)[0], Sphere(2)))
    flat = FrechetMean(np.eye(2)[None], Ball(0.01, np.eye(2)))
    within = RiemannianLaplace(9.0, 1.0, Sphere(2), Ball(0.2, np.eye(3)[0], Sphere(2)))
    with pytest.raises(ValueError, match=r"query is on Sphere\(2, 1.0\); accepted is .* None"):
        RiemannianLaplace(9.0, 1.0).answer(query, 0)
    with pytest.raises(ValueError, match=r"query is on LogEuclidean\(2\); accepted is"):
        RiemannianLaplace(9.0, 1.0, Sphere(2)).answer(flat, 0)
    with pytest.raises(ValueError, match="query has sensitivity .*; accepted are .* 0.001"):
        RiemannianLaplace(0.001, 1.0, Sphere(2)).answer(query, 0)
    with pytest.raises(ValueError, match="noise is not added to coordinates"):
        RiemannianLaplace(0.1, 1.0, Sphere(2)).perturb([0.0, 0.0], 0)
    with pytest.raises(ValueError, match=r"space is Sphere\(2, 1.0\); accepted are flat spaces"):
        TangentGaussian(0.1, 1.0, 1e-6).release(np.eye(3)[0], 0, space=Sphere(2))
    with pytest.raises(ValueError, match="nothing smaller is known"):
        RiemannianLaplace(0.1, 1.0, Sphere(2)).delta(0.5, 2)
    with pytest.raises(ValueError, match="from the centre of the domain; accepted is up to 0.2"):
        within.release(np.eye(3)[1], 0)
    with pytest.raises(ValueError, match="from the centre of the domain; accepted is up to 0.2"):
        within.answer(query, 0)
    Y = TangentGaussian(0.1, 1.0, 1e-6).release(np.eye(3)[0], 0, 9,
                                                TangentSpace(Sphere(2), np.eye(3)[0]))
    assert Sphere(2).contains(Y).all()


def test_the_error_of_laplace_noise_on_a_sphere_is_its_radial_law():
    mechanism, pole = RiemannianLaplace(0.3, 1.0, Sphere(2)), np.eye(3)[0]
    far = np.sort(Sphere(2).dist(pole, mechanism.release(pole, 0, 20_000)))
    cdf = mechanism.error(2).cdf(far)
    assert np.abs(cdf - np.arange(1, 20_001) / 20_000).max() < math.sqrt(math.log(2e9) / 40_000)
    with pytest.raises(ValueError, match="d is 3; accepted is 2"):
        mechanism.error(3)
    assert expected_error(mechanism, 2) == pytest.approx(far.mean(), rel=0.02)
    with pytest.raises(ValueError, match="accepted with a radius are those on flat spaces"):
        expected_error(mechanism, 2, radius=0.5)


# noise in the chart

@each_space
@pytest.mark.parametrize("make", [TangentGaussian.of, L2Mechanism.of])
def test_noise_in_the_chart_has_the_scale_of_the_sensitivity_there(name, make):
    ball = BALLS[name]
    X = in_ball(ball, 30, np.random.default_rng(0))
    query = FrechetMean(X, ball)
    mechanism = make(query, 0.5, 1e-5)
    assert mechanism.sensitivity == query.chart_sensitivity
    np.testing.assert_array_equal(mechanism.answer(query, 4), mechanism.perturb(query.step, 4))
    if make == TangentGaussian.of:
        assert mechanism.mu <= gdp_mu(0.5, 1e-5) * (1 + 1e-9)
    with pytest.raises(ValueError, match="query has sensitivity"):
        mechanism.answer(FrechetMean(X[:29], ball), 4)


@pytest.mark.parametrize("space", [
    Sphere(2), Sphere(3, 1e12), pytest.param(KendallPlanar(4), marks=pytest.mark.slow)])
def test_no_data_keep_the_descent_from_the_mean_up_to_the_largest_radius_that_is_accepted(space):
    """Records at two opposite places of the sphere of the ball, nearly: the Hessian almost goes."""
    planar = isinstance(space, KendallPlanar)
    center = space.points(SQUARE if planar else np.eye(space.dim + 1)[0])
    largest = space.injectivity_radius / 2
    y, rng = np.zeros((3, space.dim)), np.random.default_rng(0)
    y[:, 0] = 1, 1, -1
    y += 1e-3 * rng.standard_normal(y.shape)
    X = space.exp(center, largest * y / norm(y)[:, None])
    query = FrechetMean(X, Ball(0.9899 * largest, center, space))
    assert query.sensitivity > 0 and norm(query.step) <= query.radius
    with pytest.raises(ValueError, match=r"= 0.99 r\*, up to which the descent .* in all that was"):
        _ = FrechetMean(X, Ball(0.991 * largest, center, space)).sensitivity


@pytest.mark.parametrize("radius", [1e-6, 0.5, 7.0])
def test_no_centre_keeps_the_descent_from_the_mean(radius):
    """Not even one whose condition is that of the worst matrix that float64 can tell."""
    turn = np.linalg.qr(np.random.default_rng(1).standard_normal((3, 3)))[0]
    center = turn * [1e-7, 1.0, 1e7] @ turn.T
    space, center = AffineInvariant(3), (center + center.T) / 2
    X = random_spd(20, 3, 3.0, rng=0)
    assert norm(FrechetMean(X, Ball(radius, center, space), "center").step) <= radius


@pytest.mark.slow
@pytest.mark.parametrize("record", [[0.0, 0.0, 1 + 5e-7], [0.0, 0.0, -1.0], [np.nan, 0, 0]])
def test_no_bit_of_a_point_of_the_sphere_depends_on_another(record):
    rng = np.random.default_rng(0)
    ball = Ball(0.5, POLE, Sphere(2))
    for _ in range(100):
        X = Sphere(2).exp(POLE, rng.standard_normal((2, 2)) / 5)
        Y = np.stack([X[0], record])
        one, other = (FrechetMean(Z, ball, "center").points[0] for Z in (X, Y))
        assert np.array_equal(one, other)


@pytest.mark.parametrize("layout", [
    np.asfortranarray, lambda X: np.repeat(X, 2, axis=1)[:, ::2], lambda X: X[:, ::-1],
])
def test_a_record_hardly_a_point_is_one_or_none_in_every_layout(layout):
    """A vector as long as is just accepted: its square, summed in another order, is longer."""
    X = np.random.default_rng(0).standard_normal((2000, 4))
    X *= math.sqrt(1 + 2e-6) / norm(X)[:, None]
    for records in np.split(X, 50):
        ball = Ball(0.5, np.eye(4)[0], Sphere(3))
        steps = FrechetMean(layout(records), ball, "center").steps
        assert norm(steps).max() <= 0.5


# the release

KINDS = [name for name in MEANS if "discrete" not in name]  # which are for flat spaces


def estimator(kind, name, **options):
    return private(BALLS[name], MEANS[kind].choice(BALLS[name].radius), 0.9, **options)


@each_space
@pytest.mark.parametrize("kind", mostly_slow(KINDS, "gaussian", "laplace", "k-norm gradient"))
@pytest.mark.parametrize("statistic", ["frechet", pytest.param("tangent", marks=pytest.mark.slow)])
@pytest.mark.filterwarnings("error")
def test_a_release_is_a_point_of_the_ball_and_nothing_else_depends_on_the_data(
        name, kind, statistic):
    ball, space, center, radius = parts(name)
    if kind in DENSITIES and (space.dim > 4 or name == "quadrilaterals"):
        pytest.skip("chains and boxes in four dimensions are tested beside the densities")
    rng = np.random.default_rng(0)
    fits = []
    for spread in (0.5, 3.0):
        X = in_ball(ball.of_radius(spread * radius), 60, rng)
        fits.append(estimator(kind, name, statistic=statistic).fit(X, rng=5))
        assert space.contains(fits[-1].mean_) and not hasattr(fits[-1], "log_mean_")
        assert space.dist(center, fits[-1].mean_) <= radius * (1 + 1e-6)
    one, other = fits
    assert not np.array_equal(one.mean_, other.mean_)
    assert repr(one.mechanism_) == repr(other.mechanism_) and one.privacy_ == other.privacy_
    assert "differentially private when one of n = 60" in one.privacy_
    for made in (pickle.loads(pickle.dumps(one)), copy.deepcopy(one)):
        assert np.array_equal(made.mean_, one.mean_)
    clone = sklearn.base.clone(one)
    assert clone.ball == ball and not hasattr(clone, "mean_") and repr(clone) == repr(one)
    assert np.array_equal(clone.fit(X, rng=5).mean_, other.mean_)


@pytest.mark.slow
def test_more_records_make_every_release_better():
    ball, space, center, _ = parts("sphere 2")
    X = in_ball(ball, 3000, np.random.default_rng(0))
    for kind in KINDS:
        far = []
        for n in (30, 3000):
            truth = space.exp(center, FrechetMean(X[:n], ball).step)
            releases = [estimator(kind, "sphere 2").fit(X[:n], rng=seed).mean_
                        for seed in range(8 if kind in DENSITIES else 40)]
            far.append(space.dist(truth, np.array(releases)).mean())
        assert far[1] < 0.3 * far[0]


@pytest.mark.slow
@pytest.mark.parametrize("space, center, radius", [
    (Sphere(1), np.eye(2)[0], 1.3), (Sphere(2), np.eye(3)[0], 1.3), (KendallPlanar(4), SQUARE, 0.6),
])
def test_where_a_projection_might_harm_the_law_lives_on_the_ball_at_twice_the_scale(
        space, center, radius):
    ball = Ball(radius, center, space)
    X, estimator = in_ball(ball, 40, np.random.default_rng(0)), private(ball, "laplace")
    for seed in range(20):
        fitted = estimator.fit(X, rng=seed)
        assert fitted.mechanism_.rate == "2Δ/ε" and fitted.mechanism_.domain == ball
        assert space.dist(center, fitted.mean_) <= radius * (1 + 1e-9)
    smaller = private(ball.of_radius(radius / 3), "laplace").fit(X, rng=0)
    assert smaller.mechanism_.rate == "Δ/ε"


def test_a_ball_for_the_domain_keeps_a_promise_for_which_there_is_no_law_on_the_whole_space():
    ball, space, center, radius = parts("affine-invariant 4")
    X, domain = in_ball(ball, 5, np.random.default_rng(0)), ball.of_radius(1.2 * radius)
    with pytest.raises(ValueError, match="or a ball for the domain"):
        estimator("laplace", "affine-invariant 4").fit(X)
    fitted = private(ball, RiemannianLaplace.with_options(domain=domain), 0.9).fit(X, rng=0)
    assert fitted.mechanism_.rate == "2Δ/ε" and fitted.mechanism_.domain == domain
    assert space.dist(center, fitted.mean_) <= radius * (1 + 1e-9)


@pytest.mark.parametrize("space, center, most", [
    (AffineInvariant(2), np.eye(2), 24.0163), (AffineInvariant(2), np.diag([1e3, 1]), 19.1318),
    pytest.param(AffineInvariant(3), np.eye(3), 23.7296, marks=pytest.mark.slow),
    (LogEuclidean(2), np.eye(2), 24.0163),
    (AffineInvariant(1), np.array([[1e300]]), 19.0072),
    (TangentSpace(AffineInvariant(2), np.eye(2)), math.e**2 * np.eye(2), 21.1879),
])
def test_a_domain_is_a_ball_all_of_whose_points_float64_holds(space, center, most):
    """Else it would depend on the data and on the draw whether there is a release."""
    law = RiemannianLaplace(1.0, 1e-3, space, Ball(0.999 * most, center, space))
    assert space.contains(law.release(center, 0, 500)).all()
    rng = np.random.default_rng(0)
    with pytest.raises(ValueError, match=f"up to {most}, of balls all of whose points float64"):
        ball = Ball(1.001 * most, center, space)
        RiemannianLaplace(1.0, 1e-3, space, ball).release(center, rng)
    assert rng.bit_generator.state == np.random.default_rng(0).bit_generator.state


@pytest.mark.parametrize("space, radius, n", [
    (Sphere(200), 1.2, 300), (KendallPlanar(30), 0.6, 100),
])
def test_a_law_on_a_ball_whose_draws_would_not_end_is_refused_for_all_data(space, radius, n):
    """In many dimensions, records on the sphere of the ball once kept the sampler for ever."""
    center = space.points(np.exp(1j * np.arange(30) ** 2) if space.dim == 56 else np.eye(201)[0])
    edge = space.exp(center, radius * np.eye(space.dim)[0])
    rng = np.random.default_rng(0)
    for record in (edge, center):
        with pytest.raises(ValueError, match="^the share of draws in the domain may be"):
            private(Ball(radius, center, space), "laplace").fit(np.tile(record, (n, 1)), rng=rng)
    assert rng.bit_generator.state == np.random.default_rng(0).bit_generator.state


WRONG = [
    ({"space": None}, r"^center has shape \(3,\); accepted without a space is \(k, k\), an SPD"),
    ({"center": None}, "^center is an array of dtype object; accepted are real numbers"),
    ({"center": np.eye(3)}, r"^center has shape \(3, 3\); accepted is \(3,\)"),
    ({"center": np.ones(3)}, "^center has length 1.732"),
    ({"center": np.full(3, np.nan)}, r"^center\[0\] is nan"),
    ({"radius": 1.6}, r"^radius is 1.6; accepted are numbers below 1.55509 = 0.99 r\*"),
    ({"radius": 3.2}, "^radius is 3.2; accepted are numbers from 1e-06 to below 3.14159"),
    ({"radius": 3.2, "statistic": "tangent"}, "^radius is 3.2; accepted are numbers below 3.14159"),
    ({"radius": 1e-9}, "^radius is 1e-09; accepted are numbers from 1e-06"),
    ({"statistic": "median"}, r"^statistic is 'median'; accepted are \['frechet', 'tangent'\]"),
    ({"options": (TangentGaussian, {"clip": 0.2})}, "^clip is 0.2; accepted with 'gaussian' are"),
    ({"options": (TangentGaussian, {"domain": 0.9})}, "^domain is 0.9; accepted with 'gaussian'"),
    ({"options": (KNormGradient, {"approximate": 1}), "delta": 0},
     "^approximate is 1; accepted are True and False"),
    ({"mechanism": "laplace"}, '^delta is 1e-05; accepted are 0 with "laplace"'),
    ({"options": (RiemannianLaplace, {"domain": 0.1}), "delta": 0},
     "^domain is 0.1; accepted is a Ball of Sphere"),
    ({"options": (RiemannianLaplace, {"domain": Ball(0.1, np.eye(3)[0], Sphere(2))}), "delta": 0},
     "^query lies up to 0.4 from the centre of the domain; accepted is up to 0.1, its radius"),
    ({"mechanism": "truncated loss", "delta": 0}, "^clip is None; accepted .* numbers above 0"),
    ({"mechanism": "k-norm gradient"}, '^delta is 1e-05; accepted are 0 with "k-norm gradient"'),
    ({"space": AffineInvariant(2), "center": np.eye(2), "radius": 7.2},
     "^radius is 7.2; accepted are numbers from 1e-06 to below 7.07107"),
    ({"space": AffineInvariant(2), "center": np.eye(2), "radius": 5.0, "mechanism": "laplace",
      "delta": 0}, "^the scale Δ/ε is .* no finite integral"),
    ({"space": KendallPlanar(6), "center": np.arange(6) ** 2 + 1j,
      "options": (TruncatedLoss, {"clip": 0.1}), "delta": 0, "epsilon": 50.0},
     "^query has dimension 8; accepted .* approximate=True"),
]


@pytest.mark.parametrize("arguments, message", WRONG)
def test_what_a_space_cannot_keep_is_refused_before_anything_is_drawn(arguments, message):
    given = {"epsilon": 0.5, "delta": 1e-5, "radius": 0.4, "space": Sphere(2),
             "center": np.eye(3)[0]} | arguments
    X = np.ones((3, *(given["space"] or Sphere(2)).shape))
    X = {3: np.eye(3), 6: np.tile(np.arange(6) ** 2 + 1j, (3, 1))}.get(
        X.shape[1], random_spd(3, 2, 0.5, 0))
    rng, parts, made = np.random.default_rng(0), ("radius", "center", "space"), []
    with pytest.raises(ValueError, match=message):
        ball = Ball(*(given.pop(part) for part in parts))
        if "options" in given:
            mechanism, options = given.pop("options")
            given["mechanism"] = mechanism.with_options(**options)
        made.append(PrivateFrechetMean(ball=ball, **given))
        made[0].fit(X, rng=rng)
    assert rng.bit_generator.state == np.random.default_rng(0).bit_generator.state
    assert not (made and hasattr(made[0], "mechanism_"))


@each_space
@pytest.mark.parametrize("kind", mostly_slow(["gaussian", "laplace"], "gaussian"))
def test_a_bad_record_is_refused_before_anything_is_drawn_or_gives_way_to_the_centre(name, kind):
    ball, space, center, _ = parts(name)
    good = in_ball(ball, 40, np.random.default_rng(0))
    for bad in (np.nan, np.inf, 0.0):
        X, other = good.copy(), good.copy()
        X[2], other[2] = bad, center
        rng = np.random.default_rng(0)
        with pytest.raises(ValueError, match=r"X\[2"):
            estimator(kind, name).fit(X, rng=rng)
        assert rng.bit_generator.state == np.random.default_rng(0).bit_generator.state
        mean = estimator(kind, name, on_invalid="center").fit(X, rng=3).mean_
        assert space.dist(mean, estimator(kind, name).fit(other, rng=3).mean_) < 1e-9
    X[:] = np.nan
    assert norm(FrechetMean(X, ball, "center").step) < 1e-14
    estimator(kind, name, on_invalid="center").fit(X)


@pytest.mark.parametrize("name", ["circle", "sphere 2", "triangles", "quadrilaterals"])
def test_a_record_at_the_cut_point_of_the_centre_moves_onto_the_ball_in_a_fixed_direction(name):
    ball, space, center, radius = parts(name)
    end = space.injectivity_radius
    cut = np.stack([space.exp(center, end * v) for v in np.eye(space.dim)])
    query = FrechetMean(cut, ball)
    np.testing.assert_allclose(norm(query.steps), radius, rtol=1e-9)
    assert np.array_equal(query.steps, FrechetMean(cut, ball).steps)
    estimator("laplace", name).fit(cut)


@pytest.mark.parametrize("dtype", [np.float32, np.float16, np.int64])
@pytest.mark.parametrize("policy", ["raise", "center"])
def test_records_of_other_types_have_means(dtype, policy):
    X, ball = np.eye(3).astype(dtype), Ball(1.0, [0.6, 0.8, 0], Sphere(2))
    query, exact = FrechetMean(X, ball, policy), FrechetMean(np.eye(3), ball)
    np.testing.assert_allclose(query.step, exact.step, atol=1e-12)
    X = np.array([[[2, 1], [1, 2]], [[3, 0], [0, 1]]]).astype(dtype)
    ball = Ball(1.0, np.eye(2), AffineInvariant(2))
    query, exact = FrechetMean(X, ball, policy), FrechetMean(X.astype(float), ball)
    np.testing.assert_allclose(query.step, exact.step, atol=1e-12)
    broken = np.stack([*X, -X[0]])
    query = FrechetMean(broken, Ball(1.0, [[2.5, 0.1], [0.1, 1]], AffineInvariant(2)), "center")
    assert 0 < norm(query.step) < 1 and not query.steps[2].any()


@pytest.mark.filterwarnings("error")  # which would speak of the data
@pytest.mark.parametrize("statistic", ["frechet", "tangent"])
def test_a_record_whose_square_is_no_float_is_replaced_without_a_warning(statistic):
    X = np.tile([0.0, 0.0, 1.0], (20, 1))
    X[3] = 1e308
    ball = Ball(0.5, POLE, Sphere(2))
    made = private(ball, statistic=statistic, on_invalid="center").fit(X)
    assert Sphere(2).contains(made.mean_)


@pytest.mark.slow
@pytest.mark.filterwarnings("error::RuntimeWarning")
def test_matrices_at_the_edge_of_float64_have_a_private_mean():
    for X in (1e300 * np.eye(2), 1e-300 * np.eye(2), np.diag([1e300, 1e290]), np.diag([1, 1e-15]),
              1.5e308 * np.eye(2)):
        X = np.stack([X, np.eye(2)])
        for kind in ("gaussian", "laplace"):
            logm(private(Ball(0.1, np.eye(2), AffineInvariant(2)), kind, 0.9).fit(X).mean_)
    edge = private(Ball(7.0, 1e305 * np.eye(2), AffineInvariant(2)), epsilon=1e-3)
    for seed in range(20):  # about a centre at the edge itself
        logm(edge.fit(X, rng=seed).mean_)


@pytest.mark.slow
@pytest.mark.parametrize("kind", ["gaussian", "laplace", "k-norm gradient", "truncated loss"])
@pytest.mark.parametrize("condition", [1e6, 1e14])
def test_about_an_ill_conditioned_centre_all_data_have_a_private_mean(kind, condition):
    space, center = AffineInvariant(2), np.array([[4.0, 2], [2, 1 + 4 / condition]])
    far = space.exp(center, np.random.default_rng(0).standard_normal((20, 3)) / 3)
    estimator = private(Ball(4.0, center, space), MEANS[kind].choice(0.5), 5.0, on_invalid="center")
    for X in (np.tile(center, (20, 1, 1)), far):
        assert space.contains(estimator.fit(X, rng=0).mean_)


@pytest.mark.slow
@pytest.mark.parametrize("center, domain", [(np.diag([1, 1e-14]), 3.0), (np.eye(2), 20.0)])
def test_on_a_ball_a_proposal_out_of_the_floats_is_a_proposal_out_of_the_ball(center, domain):
    ball = Ball(1.0, center, AffineInvariant(2))
    law = RiemannianLaplace.with_options(domain=ball.of_radius(domain))
    for seed in range(10):
        mean = private(ball, law, 0.05).fit(np.tile(center, (10, 1, 1)), rng=seed).mean_
        assert ball.space.contains(mean)


def test_a_record_at_the_edge_of_rounding_gives_way_to_the_centre_or_does_not_but_never_raises():
    """Whichever way its eigenvalues are computed, in a large batch or alone."""
    space, rng, X = AffineInvariant(3), np.random.default_rng(0), np.tile(np.eye(3), (600, 1, 1))
    for share in rng.uniform(0.5, 2, 40):
        Q = np.linalg.qr(rng.standard_normal((3, 3)))[0]
        A = (Q * [1, 1, share * 3 * 2.0**-52]) @ Q.T
        X[3] = (A + A.T) / 2
        assert norm(FrechetMean(X, Ball(1.0, np.eye(3), space).tangent(), "center").step) < 1


@pytest.mark.parametrize("radius", [1e-14, 1e-20])
def test_in_a_tiny_ball_of_a_chart_the_mean_moves_by_no_more_than_the_sensitivity(radius):
    """Not even where a record that is no unit vector stands beside those that nearly are."""
    rng = np.random.default_rng(0)
    for center in rng.standard_normal((30, 3)):
        space, center = Sphere(2), center / norm(center)
        X = np.tile(space.exp(center, 1e-15 * np.ones(2)), (1000, 1))
        Y = X.copy()
        Y[0] = -center * (1 + 1e-9)
        chart = Ball(radius, center, space).tangent()
        x, y = (FrechetMean(records, chart) for records in (X, Y))
        assert norm(x.step - y.step) <= x.sensitivity


@pytest.mark.slow
def test_a_chain_is_asked_for_and_said():
    ball, space, center, radius = parts("pentagons")
    X = in_ball(ball, 40, np.random.default_rng(0))
    exact = private(ball, TruncatedLoss.with_options(clip=0.2))
    with pytest.raises(ValueError, match="approximate=True"):
        exact.fit(X, rng=0)
    asked = TruncatedLoss.with_options(clip=0.2, approximate=True)
    chain = exact.set_params(mechanism=asked).fit(X, rng=0)
    assert chain.privacy_.startswith("not proved to be private: a chain has approximated a law")
    assert space.dist(center, chain.mean_) <= radius * (1 + 1e-9)
