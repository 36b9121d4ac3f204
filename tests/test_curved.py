"""Means on curved spaces: what moves them, and what a release of them keeps."""

import copy
import math
import pickle

import numpy as np
import pytest
from scipy.stats import kstest

from spdlib import (
    AffineInvariant,
    FrechetMean,
    KendallPlanar,
    LogEuclidean,
    PrivateFrechetMean,
    RiemannianLaplace,
    Sphere,
    TangentGaussian,
    TangentSpace,
    frechet_mean,
    random_spd,
)
from spdlib.frechet import DENSITIES, frechet_sensitivity, largest_radius, project_to_ball
from spdlib.sampling import ball_steps

NORTH = np.array([0.0, 0.0, 1.0])
PENTAGON = np.exp(2j * np.pi * np.arange(5) / 5)
# name: a space, a centre, and a radius at which its curvature is felt
BALLS = {
    "affine-invariant 2": (AffineInvariant(2), np.array([[2.0, 0.5], [0.5, 1.0]]), 2.0),
    "affine-invariant 1": (AffineInvariant(1), np.eye(1), 2.0),
    "sphere": (Sphere(2), NORTH, 1.2),
    "small sphere": (Sphere(2, 9.0), NORTH, 0.25),
    "three-sphere": (Sphere(3), np.eye(4)[1], 0.7),
    "circle": (Sphere(1, 2.0), np.array([0.6, 0.8]), 0.8),
    "pentagons": (KendallPlanar(5), PENTAGON, 0.6),
    "triangles": (KendallPlanar(3), np.array([0, 1, 1j]), 0.35),
}
ball = pytest.mark.parametrize("space, center, radius", BALLS.values(), ids=BALLS)


def records(space, center, radius, n, rng):
    """Points in a ball, half of them at its edge."""
    v = ball_steps(space, radius, n, rng)
    v[::2] *= radius / np.linalg.norm(v[::2], axis=-1, keepdims=True)
    return space.exp(center, v)


@ball
def test_one_record_moves_the_mean_by_no_more_than_the_sensitivity(space, center, radius):
    rng = np.random.default_rng(0)
    for n in (1, 2, 3, 8, 21):
        X = records(space, center, radius, n + 1, rng)
        cluster = np.concatenate([np.repeat(X[:1], n - 1, axis=0), X[1:2]])
        for data in (X[:n], cluster):
            other = data.copy()
            other[-1] = X[n]
            one, two = (FrechetMean(D, center, radius, space) for D in (data, other))
            moved = space.dist(space.exp(center, one.step), space.exp(center, two.step))
            assert moved <= one.sensitivity
            assert np.linalg.norm(one.step - two.step) <= one.chart_sensitivity
            assert np.linalg.norm(one.step) <= radius


@pytest.mark.parametrize("kappa", [0.5, 1.0, 4.0])
def test_the_cross_reaches_the_sensitivity_on_a_sphere(kappa):
    space, n = Sphere(2, kappa), 2001
    radius = 0.9 / math.sqrt(kappa)
    across, along = radius * np.array([[1.0, 0], [-1, 0]]), radius * np.array([[0, 1.0], [0, -1]])
    stay = np.repeat(across, n // 2, axis=0)
    means = [FrechetMean(space.exp(NORTH, np.vstack([stay, last])), NORTH, radius, space).step
             for last in along]
    moved = space.dist(*space.exp(NORTH, np.array(means)))
    assert 0.99 <= moved / frechet_sensitivity(n, radius, space) <= 1
    root = math.sqrt(kappa)
    np.testing.assert_allclose(frechet_sensitivity(n, radius, space),
                               2 * math.tan(0.9) / (n * root), rtol=1e-9)


def test_the_sensitivity_is_that_of_a_flat_space_where_no_curvature_is_positive():
    for space in (None, LogEuclidean(2), AffineInvariant(3), AffineInvariant(1), Sphere(1)):
        assert frechet_sensitivity(10, 1.0, space) == frechet_sensitivity(10, 1.0)
    assert frechet_sensitivity(10, 1.0, AffineInvariant(2), 1e-3) == pytest.approx(0.202)


def test_nothing_is_promised_for_a_ball_that_may_have_two_means():
    for space, most in ((Sphere(2), math.pi / 2), (Sphere(4, 4.0), math.pi / 4),
                        (Sphere(1), math.pi / 2), (KendallPlanar(4), math.pi / 4)):
        assert largest_radius(space) == pytest.approx(most)
        frechet_sensitivity(5, 0.99 * most, space, 1e-12)
        for radius in (most, 1.01 * most):
            with pytest.raises(ValueError, match=f"radius is {radius!r}; .* {most:.6g}"):
                frechet_sensitivity(5, radius, space)
    assert largest_radius(AffineInvariant(3)) == math.inf


def test_means_of_many_data_sets_are_found_at_once():
    rng = np.random.default_rng(1)
    space = AffineInvariant(2)
    X = random_spd(60, 2, 1.0, rng).reshape(3, 20, 2, 2)
    means = frechet_mean(X, space)
    assert means.shape == (3, 2, 2)
    assert np.abs(space.log(means[:, None], X).mean(axis=1)).max() < 1e-9
    np.testing.assert_allclose(frechet_mean(X[1], space, center=np.eye(2)), means[1], atol=1e-9)
    flat = LogEuclidean(2)
    np.testing.assert_allclose(frechet_mean(X, flat)[2], frechet_mean(X[2], flat), atol=1e-12)
    with pytest.raises(ValueError, match="X has shape"):
        frechet_mean(X[0, 0], space)


@ball
def test_a_point_found_is_as_near_to_the_mean_as_the_sensitivity_says(space, center, radius):
    rng = np.random.default_rng(2)
    X = records(space, center, radius, 9, rng)
    y = FrechetMean(X, center, radius, space).steps
    exact = space.exp(center, space.mean(center, y, 1e-12 * radius))
    for tolerance in (1e-2 * radius, 1e-3 * radius):
        found = space.exp(center, space.mean(center, y, tolerance))
        extra = frechet_sensitivity(9, radius, space, tolerance)
        slack = (extra - frechet_sensitivity(9, radius, space)) / 2
        assert space.dist(exact, found) <= slack + 1e-10


@ball
@pytest.mark.parametrize("mechanism, delta", [
    ("gaussian", 1e-6), ("l2", 1e-6), ("laplace", 0), ("k-norm gradient", 0),
    ("truncated loss", 0)])
@pytest.mark.parametrize("statistic", ["frechet", "tangent"])
def test_a_release_is_a_point_of_the_ball(space, center, radius, mechanism, delta, statistic):
    X = records(space, center, 2 * radius, 40, np.random.default_rng(3))
    private = PrivateFrechetMean(
        1.0, delta, radius, center, mechanism, space=space, statistic=statistic,
        clip=radius / 2 if mechanism == "truncated loss" else None, approximate=True)
    if space.dim > 4 and mechanism in DENSITIES:
        pytest.skip("chains have tests of their own")
    private.fit(X, rng=0)
    assert private.mean_.shape == space.shape and space.contains(private.mean_).all()
    assert space.dist(center, private.mean_) <= radius * (1 + 1e-9)
    assert "40 records" in private.privacy_ and not hasattr(private, "log_mean_")
    again = PrivateFrechetMean(**private.get_params()).fit(X, rng=0)
    assert np.array_equal(again.mean_, private.mean_)
    for twin in (copy.deepcopy(private), pickle.loads(pickle.dumps(private))):
        assert np.array_equal(twin.mean_, private.mean_)
        assert repr(twin.mechanism_) == repr(private.mechanism_)


def farthest_gain(space, center, radius, rng, n=4000):
    """How much further the projection onto the ball takes a point from a point of the ball."""
    everywhere = min(space.injectivity_radius, 5.0)
    x, z = ball_steps(space, everywhere, n, rng), ball_steps(space, radius, n, rng)
    x[: n // 2] *= (everywhere * (1 - 1e-9)
                    / np.linalg.norm(x[: n // 2], axis=-1, keepdims=True))
    z *= radius / np.linalg.norm(z, axis=-1, keepdims=True)
    X, Z = space.exp(center, x), space.exp(center, z)
    projected = space.exp(center, project_to_ball(x, radius))
    return (space.dist(projected, Z) - space.dist(X, Z)).max()


@pytest.mark.parametrize("space, center, radius", [
    (AffineInvariant(2), np.eye(2), 1.5), (Sphere(2), NORTH, math.pi / 3),
    (Sphere(3, 4.0), np.eye(4)[0], math.pi / 6), (Sphere(1), np.array([1.0, 0]), math.pi / 3),
    (KendallPlanar(5), PENTAGON, math.pi / 8), (KendallPlanar(3), [0, 1, 1j], math.pi / 8),
])
def test_projection_onto_the_ball_takes_no_point_further_from_the_mean(space, center, radius):
    rng = np.random.default_rng(4)
    assert farthest_gain(space, center, radius, rng) <= 1e-9
    query = FrechetMean(records(space, center, radius, 9, rng), center, radius, space)
    assert RiemannianLaplace.of(query, 1.0).domain is None


def test_projection_onto_a_larger_ball_of_a_sphere_may_so_the_law_is_confined_to_it():
    rng = np.random.default_rng(5)
    assert farthest_gain(Sphere(2), NORTH, 1.2, rng) > 0.1
    query = FrechetMean(records(Sphere(2), NORTH, 1.2, 9, rng), NORTH, 1.2, Sphere(2))
    mechanism = RiemannianLaplace.of(query, 1.0)
    assert mechanism.domain == 1.2 and mechanism.rate.startswith("2 sensitivity / epsilon")
    assert mechanism.scale == pytest.approx(2 * query.sensitivity)
    y = mechanism.answer(query, 0, 500)
    assert (np.linalg.norm(y, axis=-1) <= 1.2).all()


def test_the_confined_law_has_its_density():
    space, radius = Sphere(2), 1.2
    X = space.exp(NORTH, np.array([[1.1, 0], [0.9, 0.3], [1.0, -0.2]]))
    query = FrechetMean(X, NORTH, radius, space)
    mechanism = RiemannianLaplace(query.sensitivity, 4.0, space, domain=radius)
    y = mechanism.answer(query, 7, 20_000)
    rho = (np.arange(400) + 0.5) / 400 * radius
    angle = 2 * np.pi * (np.arange(400) + 0.5) / 400
    v = rho[:, None, None] * np.stack([np.cos(angle), np.sin(angle)], axis=-1)
    mean = space.exp(NORTH, query.step)
    mass = np.exp(-space.dist(mean, space.exp(NORTH, v)) / mechanism.scale) * np.sin(rho)[:, None]
    cdf = np.concatenate([[0], mass.sum(axis=1).cumsum() / mass.sum()])

    def law(x):
        return np.interp(x, np.linspace(0, radius, 401), cdf)

    distance = np.linalg.norm(y, axis=-1)
    assert kstest(distance, law).pvalue > 1e-6
    assert kstest(1.05 * distance, law).pvalue < 1e-6


def test_laplace_on_a_homogeneous_space_has_the_rate_of_a_flat_one():
    for space in (Sphere(2), KendallPlanar(4), AffineInvariant(2)):
        mechanism = RiemannianLaplace(0.1, 0.5, space)
        assert mechanism.scale == RiemannianLaplace(0.1, 0.5).scale
        assert mechanism.rate.startswith("sensitivity / epsilon: ")
    assert RiemannianLaplace(0.1, 0.5, Sphere(2), domain=1.0).scale == pytest.approx(0.4)
    with pytest.raises(ValueError, match=r"sensitivity / epsilon is 2; accepted .* below 1\.41421"):
        RiemannianLaplace(2.0, 1.0, AffineInvariant(2))
    assert RiemannianLaplace(0.1, 0.5, AffineInvariant(2)).error(3).mean() > 0.6
    with pytest.raises(ValueError, match="accepted are flat spaces"):
        RiemannianLaplace(0.1, 0.5, Sphere(2)).delta(0.1, 2)


def test_released_points_are_laplace_about_the_summary():
    space = Sphere(2, 4.0)
    mechanism = RiemannianLaplace(0.1, 0.5, space)
    points = mechanism.release(NORTH, 3, 20_000)
    law = mechanism.error(2)
    assert points.shape == (20_000, 3)
    assert kstest(space.dist(NORTH, points), law.cdf).pvalue > 1e-6
    assert kstest(1.05 * space.dist(NORTH, points), law.cdf).pvalue < 1e-6


def test_answers_near_the_threshold_are_there_however_far_they_lie():
    space = AffineInvariant(2)
    X = random_spd(50, 2, 1.0, 0)
    query = FrechetMean(X, None, 3.0, space)
    mechanism = RiemannianLaplace(1.0, 1 / 1.35, space)
    query.sensitivity = 1.0
    y = mechanism.answer(query, 0, 500)
    assert np.isfinite(y).all() and np.linalg.norm(y, axis=-1).max() > 20
    private = PrivateFrechetMean(0.09, 0, 3.0, mechanism="laplace", space=space)
    assert space.contains(private.fit(X, rng=0).mean_)


def test_the_way_in_the_chart_is_that_of_two_steps():
    rng = np.random.default_rng(6)
    for space, center, _ in BALLS.values():
        u, v = rng.standard_normal((2, 30, space.dim)) / 4
        center = space.points(center)
        walked = space.log(center, space.exp(center, u, v))
        np.testing.assert_allclose(space.chart(center, u, v), walked, atol=1e-9)


@ball
def test_a_record_without_a_direction_or_off_the_space_is_no_way_to_fail(space, center, radius):
    X = records(space, center, radius, 6, np.random.default_rng(7))
    if isinstance(space, Sphere):
        X[0] = -np.asarray(center)  # the antipode: any direction will do
        query = FrechetMean(X, center, radius, space)
        assert np.linalg.norm(query.steps[0]) == pytest.approx(radius)
    bad = X.copy()
    bad[1] = np.nan
    with pytest.raises(ValueError, match=r"X\[1"):
        _ = FrechetMean(bad, center, radius, space).step
    tolerant = FrechetMean(bad, center, radius, space, on_invalid="center")
    assert np.array_equal(tolerant.steps[1], np.zeros(space.dim))
    if space.numbers is float:
        rough = FrechetMean(X.astype(np.float32), center, radius, space)
        exact = FrechetMean(X, center, radius, space)
        np.testing.assert_allclose(rough.step, exact.step, atol=1e-4)


@ball
def test_nothing_is_drawn_where_a_fit_fails(space, center, radius):
    X = records(space, center, radius, 6, np.random.default_rng(8))
    bad = X.copy()
    bad[1] = np.nan
    for parameters, data in (({}, bad), ({"radius": -1}, X), ({"epsilon": 0}, X),
                             ({"clip": 1.0}, X), ({"statistic": "median"}, X),
                             ({"mechanism": "truncated loss"}, X)):
        rng = np.random.default_rng(0)
        before = copy.deepcopy(rng.bit_generator.state)
        good = {"epsilon": 1.0, "delta": 0, "radius": radius, "center": center,
                "mechanism": "laplace", "space": space}
        private = PrivateFrechetMean(**good | parameters)
        with pytest.raises(ValueError, match="accepted|X"):
            private.fit(data, rng=rng)
        assert rng.bit_generator.state == before and not hasattr(private, "mean_")


def test_the_tangent_mean_is_the_mean_in_the_chart_at_the_centre():
    space, radius = Sphere(2), 2.0  # beyond any ball that has but one Fréchet mean
    X = records(space, NORTH, 3.0, 30, np.random.default_rng(9))
    query = FrechetMean(X, NORTH, radius, TangentSpace(space, NORTH))
    y = space.log(NORTH, X)
    y *= np.minimum(1, radius / np.linalg.norm(y, axis=-1, keepdims=True))
    np.testing.assert_allclose(query.step, y.mean(axis=0), atol=1e-9)
    assert query.sensitivity == query.chart_sensitivity == frechet_sensitivity(30, radius)
    flat = LogEuclidean(2)
    S = random_spd(9, 2, 1.0, 0)
    tangent, frechet = (PrivateFrechetMean(1.0, 1e-6, 1.0, space=flat, statistic=statistic)
                        .fit(S, rng=0).mean_ for statistic in ("tangent", "frechet"))
    assert np.array_equal(tangent, frechet)


def test_the_log_euclidean_space_is_the_chart_of_the_affine_invariant_one():
    S = random_spd(9, 3, 1.0, 0)
    chart = PrivateFrechetMean(1.0, 1e-6, 1.0, space=AffineInvariant(3), statistic="tangent")
    plain = PrivateFrechetMean(1.0, 1e-6, 1.0)
    np.testing.assert_allclose(chart.fit(S, rng=0).mean_, plain.fit(S, rng=0).mean_, rtol=1e-9)


def test_the_chart_pays_for_the_stretch_of_the_logarithm():
    query = FrechetMean(records(Sphere(2), NORTH, 1.0, 9, np.random.default_rng(0)), NORTH, 1.0,
                        Sphere(2))
    stretch = 1.0 / math.sin(1.0)
    assert query.chart_sensitivity == pytest.approx(stretch * query.sensitivity, rel=1e-9)
    assert TangentGaussian.of(query, 1.0, 1e-6).sensitivity == query.chart_sensitivity
    with pytest.raises(ValueError, match="accepted are those up to"):
        TangentGaussian(query.sensitivity, 1.0, 1e-6).answer(query, 0)


def test_a_space_says_what_it_needs():
    X = Sphere(2).exp(NORTH, np.zeros((4, 2)))
    with pytest.raises(ValueError, match=r"center is None; accepted is a public point"):
        FrechetMean(X, None, 0.5, Sphere(2))
    with pytest.raises(ValueError, match=r"center is None; accepted is a public point"):
        PrivateFrechetMean(1.0, 0, 0.5, space=Sphere(2), statistic="tangent").fit(X)
    with pytest.raises(ValueError, match=r"X has shape \(4, 3\)"):
        FrechetMean(X, np.eye(4)[0], 0.5, Sphere(3))
    with pytest.raises(ValueError, match="center is no point that float64 can hold"):
        FrechetMean(X, np.ones(3), 0.5, Sphere(2))
    with pytest.raises(ValueError, match="space is Sphere.*accepted are flat spaces"):
        TangentGaussian(0.1, 1.0, 1e-6).release(NORTH, 0, space=Sphere(2))
    noisy = TangentGaussian(0.1, 1.0, 1e-6).release(NORTH, 0, 5, TangentSpace(Sphere(2), NORTH))
    assert noisy.shape == (5, 3)
