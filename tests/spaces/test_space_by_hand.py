"""A space by hand has means, samplers, mechanisms and regression, by closed forms and on SPD(2).

SPD matrices of determinant 1 are a hyperbolic plane in which distances are √2 times as long.
"""

import copy
import math
import pathlib
import pickle

import hyperbolic
import numpy as np
import pytest
import sklearn.base
from conftest import mostly_slow
from hyperbolic import Hyperbolic, from_vertex
from mechanism_table import CURVES, DENSITIES, MEANS
from scipy.integrate import cumulative_simpson
from scipy.stats import kstest
from tables import in_ball, private

from spdlib import (AffineInvariant, Ball, FrechetMean, GeodesicRegression, PrivateClassMeans,
                    PrivateFrechetMean, PrivateGeodesicRegression, Release, RiemannianLaplace,
                    expected_curve_error, expected_error, private_clipped_count)
from spdlib.calibration import gdp_mu
from spdlib.regression import predict
from spdlib.samplers import ball_steps, laplace_steps, laplace_threshold, radial_law
from spdlib.spaces import Curved, Space, TangentSpace, frechet_mean

SPACE = Hyperbolic()
BALL = Ball(1.0, from_vertex(np.array([0.6, -0.3])), SPACE)
CENTER = BALL.center
NAMES = [name for name in MEANS if "discrete" not in name]  # which are for flat spaces


def as_matrices(X):
    """The matrices of determinant 1 that stand for points of the plane."""
    height, x, y = np.moveaxis(X, -1, 0)
    return np.stack([height + x, y, y, height - x], axis=-1).reshape(*height.shape, 2, 2)


def records(n=60, ball=BALL):
    return in_ball(ball, n, np.random.default_rng(0))


def furthest(sample, cdf):
    """Kolmogorov's distance of a sample from a law, in units of what it surely is below."""
    return kstest(sample, cdf).statistic / math.sqrt(math.log(2e6) / (2 * len(sample)))


def cdf_of(log_density, top):
    """Distribution function on [0, top] of a density known up to a constant."""
    x = np.linspace(0, top, 20_001)
    total = cumulative_simpson(np.exp(log_density(x)), x=x, initial=0)
    return lambda rho: np.interp(rho, x, total / total[-1])


def laplace_law(scale):
    """Law of the distance: density sinh ρ exp(-ρ/scale)."""
    return lambda rho: 1 - np.exp(-rho / scale) * (np.cosh(rho) + np.sinh(rho) / scale)


# the space

def test_it_takes_less_than_sixty_lines_and_lacks_nothing_of_a_space():
    source = pathlib.Path(hyperbolic.__file__).read_text(encoding="utf-8")
    assert sum(bool(line.strip()) for line in source.splitlines()) < 60
    bare = [name for name in ("log", "exp", "dist", "transport", "jacobi", "mean", "chart")
            if getattr(type(SPACE), name) is getattr(Space, name)]
    assert not bare and "curvature" in Space.__annotations__
    assert all(hasattr(SPACE, name) for name in Space.__annotations__)


def test_distances_and_volumes_are_those_of_the_closed_forms():
    X, Y = records(40), in_ball(BALL.of_radius(4.0), 40, np.random.default_rng(1))
    products = X[:, 0] * Y[:, 0] - (X[:, 1:] * Y[:, 1:]).sum(axis=1)
    np.testing.assert_allclose(SPACE.dist(X, Y), np.arccosh(products), rtol=1e-9)
    rho = np.linspace(0.1, 9, 40)
    logs = np.log(np.sinh(rho) / rho)
    np.testing.assert_allclose(SPACE.log_volume(rho[:, None] * [0.6, 0.8]), logs, rtol=1e-12)
    np.testing.assert_allclose(SPACE.mean_volume(rho), logs, rtol=1e-12)
    np.testing.assert_allclose(SPACE.volume_bound(rho), logs, rtol=1e-12)
    assert laplace_threshold(SPACE) == SPACE.growth == 1


def test_it_is_the_plane_of_matrices_of_determinant_1():
    X, Y = records(40), records(40)[::-1]
    space, P, Q = AffineInvariant(2), as_matrices(X), as_matrices(Y)
    np.testing.assert_allclose(space.dist(P, Q), math.sqrt(2) * SPACE.dist(X, Y), atol=1e-12)
    halfway = SPACE.exp(X, SPACE.log(X, Y) / 2)
    np.testing.assert_allclose(as_matrices(halfway), space.exp(P, space.log(P, Q) / 2), rtol=1e-10)


def test_what_is_no_point_is_refused_by_its_index_or_gives_way_to_the_centre():
    bad = [[1.0, 2, 3], [-1, 0, 0], [np.nan, 0, 0], [1e300, 1e300, 0], [np.inf, np.inf, 0]]
    assert not SPACE.contains(bad).any() and SPACE.contains(from_vertex(np.array([300.0, 0])))
    for record in bad:
        X = np.vstack([records(), [record]])
        with pytest.raises(ValueError, match=r"^X\[60\] is none; accepted are points of Hyperbol"):
            private(BALL).fit(X, rng=0)
        given = private(BALL, on_invalid="center").fit(X, rng=0)
        instead = private(BALL).fit(np.vstack([records(), [CENTER]]), rng=0)
        assert np.array_equal(given.mean_, instead.mean_)
    with pytest.raises(ValueError, match=r"^X has shape \(3, 4\); accepted is \(n, 3\) with n ≥ 1"):
        private(BALL).fit(np.ones((3, 4)))
    with pytest.raises(ValueError, match="^center is none; accepted are points of Hyperbolic"):
        Ball(1.0, [1.0, 1, 1], SPACE)


@pytest.mark.parametrize("away, radius", [(0.0, 4.9), (2.0, 3.9), (4.9, 1.0), (5.8, 0.1)])
def test_no_centre_that_is_accepted_keeps_the_descent_from_the_mean(away, radius):
    """Else it would depend on the data whether there is a release."""
    ball = Ball(radius, from_vertex(np.array([away, 0.1])), SPACE)
    rng = np.random.default_rng(0)
    opposite = SPACE.exp(ball.center, radius * np.array([[1.0, 0], [-1, 0], [-1, 0.01]]))
    for X in (np.tile(ball.center, (9, 1)), in_ball(ball, 9, rng), opposite, records(9)):
        assert np.linalg.norm(FrechetMean(X, ball).step) <= radius
        assert SPACE.contains(private(ball).fit(X).mean_)


def test_a_ball_that_float64_does_not_hold_is_refused_before_anything_is_drawn():
    far = Ball(1.0, from_vertex(np.array([5.5, 0])), SPACE)
    rng = np.random.default_rng(0)
    with pytest.raises(ValueError, match="^radius is 1.0; accepted are radii up to 0.5, of balls"):
        private(far).fit(np.tile(far.center, (5, 1)), rng=rng)
    with pytest.raises(ValueError, match=r"is 7\.5; accepted are radii up to 5.3.*, of balls all"):
        PrivateGeodesicRegression(1.0, 1e-6, BALL.of_radius(2.5), 1.0).fit(
            np.zeros(5), records(5), rng=rng)
    with pytest.raises(ValueError, match="^radius is 5.1; .* to below 5 on Hyperbolic"):
        private(BALL.of_radius(5.1)).fit(records(), rng=rng)
    assert rng.bit_generator.state == np.random.default_rng(0).bit_generator.state


def test_what_depends_on_curvature_that_varies_is_asked_for():
    space = Hyperbolic()
    space.curvature = (-1.0, -0.5)
    with pytest.raises(NotImplementedError, match="^Hyperbolic defines no jacobi, which depends"):
        space.log_volume([1.0, 0])
    assert space.dist(CENTER, CENTER) == 0


# means

def test_the_mean_of_points_that_turn_into_one_another_is_their_centre():
    for m in (2, 3, 7):
        angle = 2 * math.pi * np.arange(m) / m
        X = SPACE.exp(CENTER, 0.9 * np.stack([np.cos(angle), np.sin(angle)], axis=1))
        assert SPACE.dist(frechet_mean(X, SPACE), CENTER) < 1e-9
        for ball in (BALL, BALL.tangent()):
            assert np.linalg.norm(FrechetMean(X, ball).step) < 1e-9


def test_the_mean_of_two_points_is_the_middle_of_their_chord_on_the_hyperboloid():
    X = records(2)
    chord = X.sum(axis=0)
    middle = chord / math.sqrt(chord[0]**2 - (chord[1:]**2).sum())
    np.testing.assert_allclose(frechet_mean(X, SPACE), middle, rtol=1e-9)


def test_means_are_those_of_matrices_of_determinant_1():
    X = records(24).reshape(4, 6, 3)
    means = frechet_mean(as_matrices(X), AffineInvariant(2))
    np.testing.assert_allclose(as_matrices(frechet_mean(X, SPACE)), means, rtol=1e-8)


def test_the_tangent_mean_is_the_mean_of_the_steps():
    X = records()
    chart = BALL.tangent()
    assert chart.space == TangentSpace(SPACE, CENTER)
    query = FrechetMean(X, chart)
    np.testing.assert_allclose(query.step, SPACE.log(CENTER, X).mean(axis=0), atol=1e-12)
    assert query.sensitivity == pytest.approx(2 / 60, rel=1e-9)


def test_one_record_moves_the_mean_by_no_more_than_2r_over_n_and_comes_close():
    ends = SPACE.exp(CENTER, np.array([[1.0, 0], [-1, 0]]) * (1 - 1e-12))
    for n in (1, 2, 9):
        X = np.tile(ends[0], (n, 1))
        Y = np.vstack([X[1:], ends[1:]])
        one, other = (FrechetMean(Z, BALL) for Z in (X, Y))
        moved = SPACE.dist(*(SPACE.exp(CENTER, query.step) for query in (one, other)))
        assert moved == pytest.approx(2 / n) and moved <= one.sensitivity <= 2 / n * (1 + 1e-6)


# samplers

@pytest.mark.parametrize("scale", [0.05, 0.3, 0.8])
def test_steps_of_the_laplace_law_have_the_density_sinh_times_exponential(scale):
    v = laplace_steps(SPACE, scale, 20_000, 0)
    rho = np.linalg.norm(v, axis=-1)
    assert furthest(rho, laplace_law(scale)) < 1 < furthest(rho, laplace_law(0.9 * scale))
    turn = np.arctan2(v[:, 1], v[:, 0]) / (2 * math.pi) + 0.5
    assert furthest(turn, lambda u: u) < 1
    x = np.linspace(0.01, 2, 30)
    np.testing.assert_allclose(radial_law(SPACE, scale).cdf(x), laplace_law(scale)(x), atol=1e-9)


def test_points_uniform_on_a_disc_have_the_distances_that_its_area_gives_them():
    rho = np.linalg.norm(ball_steps(SPACE, 3.0, 20_000, 0), axis=-1)
    assert furthest(rho, lambda r: (np.cosh(r) - 1) / (math.cosh(3) - 1)) < 1
    assert furthest(rho, lambda r: (r / 3)**2) > 1


def test_from_the_scale_1_on_there_is_no_law_but_on_a_disc():
    for call in (laplace_steps, radial_law):
        with pytest.raises(ValueError, match="^scale is 1.0; accepted are those below 1, from"):
            call(SPACE, 1.0)
    with pytest.raises(ValueError, match="or a ball for the domain"):
        RiemannianLaplace(1.0, 1.0, SPACE)
    rho = np.linalg.norm(laplace_steps(SPACE, 2.0, 20_000, 0, within=1.5), axis=-1)
    assert furthest(rho, cdf_of(lambda r: np.log(np.sinh(r) + 1e-300) - r / 2, 1.5)) < 1


# private means

@pytest.mark.slow
@pytest.mark.parametrize("statistic", ["frechet", "tangent"])
@pytest.mark.parametrize("name", NAMES)
def test_a_release_lies_in_the_ball_and_one_that_costs_much_is_near_the_truth(name, statistic):
    ball = BALL.tangent() if statistic == "tangent" else BALL
    X = records(200)
    truth = SPACE.exp(CENTER, FrechetMean(X, ball).step)
    choice, far = MEANS[name].choice(3.0), []
    for epsilon in (0.1, 0.9 if name == "classical gaussian" else 900.0):
        made = private(BALL, choice, epsilon, statistic=statistic)
        means = np.array([made.fit(X, rng=seed).mean_ for seed in range(9)])
        assert SPACE.contains(means).all() and SPACE.dist(CENTER, means).max() <= 1 + 1e-9
        far.append(SPACE.dist(truth, means).mean())
        assert made.privacy_.startswith(f"({epsilon}, ")
    assert far[1] < 0.3 * far[0] and (far[1] < 0.01 or name == "classical gaussian")


def test_noise_in_the_chart_has_the_scale_of_the_flat_one():
    query = FrechetMean(records(), BALL)
    mechanism = MEANS["gaussian"].kind.of(query, 1.0, 1e-6)
    assert query.chart_sensitivity == query.sensitivity
    assert mechanism.sigma == pytest.approx(query.sensitivity / gdp_mu(1.0, 1e-6), rel=1e-6)


def test_laplace_answers_have_their_law_about_the_mean_on_the_whole_plane():
    query = FrechetMean(records(20), BALL)
    mechanism = RiemannianLaplace.of(query, 0.5)
    assert mechanism.domain is None and mechanism.scale == pytest.approx(0.2)
    answers = SPACE.exp(CENTER, mechanism.answer(query, 0, 20_000))
    rho = SPACE.dist(SPACE.exp(CENTER, query.step), answers)
    assert furthest(rho, laplace_law(0.2)) < 1 < furthest(rho, laplace_law(0.18))
    assert mechanism.error(2).mean() == pytest.approx(rho.mean(), rel=0.02)
    assert expected_error(mechanism, 2) == pytest.approx(rho.mean(), rel=0.02)


@pytest.mark.parametrize("name", DENSITIES)
def test_a_density_for_one_record_at_the_centre_has_its_closed_form(name):
    query = FrechetMean(CENTER[None], BALL)
    mechanism = MEANS[name].choice(0.8).of(query, 12.0, 0)
    rho = np.linalg.norm(mechanism.answer(query, 0, 4000), axis=-1)

    def law(scale):
        clip = mechanism.clip
        score = {"k-norm gradient": lambda r: np.minimum(r, clip),
                 "truncated loss": lambda r: np.minimum(r / clip, 1)**2}[name]
        return cdf_of(lambda r: np.log(np.sinh(r) + 1e-300) - score(r) / scale, 1.0)

    assert furthest(rho, law(mechanism.scale)) < 1 < furthest(rho, law(0.7 * mechanism.scale))


@pytest.mark.slow
def test_a_draw_further_than_float64_holds_has_a_release_in_the_ball():
    """Near the threshold most draws are."""
    X = records(150)
    for seed in range(20):
        made = private(BALL, "laplace", 0.01334).fit(X, rng=seed)
        assert made.mechanism_.scale > 0.999 and SPACE.dist(CENTER, made.mean_) <= 1 + 1e-9


def test_a_law_on_a_larger_disc_keeps_a_promise_for_which_there_is_none_on_the_plane():
    X, domain = records(5), BALL.of_radius(1.5)
    with pytest.raises(ValueError, match="accepted are those below 1, .* or a ball for the domain"):
        private(BALL, "laplace", 0.3).fit(X)
    fitted = private(BALL, RiemannianLaplace.with_options(domain=domain), 0.3).fit(X, rng=0)
    assert fitted.mechanism_.rate == "2Δ/ε" and SPACE.dist(CENTER, fitted.mean_) <= 1 + 1e-9


def test_copies_and_documents_of_a_release_are_the_release():
    made = private(BALL).fit(records(), rng=0)
    for twin in (copy.deepcopy(made), pickle.loads(pickle.dumps(made))):
        assert np.array_equal(twin.mean_, made.mean_) and twin.ball == BALL
    clone = sklearn.base.clone(made)
    assert clone.ball == BALL and np.array_equal(clone.fit(records(), rng=0).mean_, made.mean_)
    text = made.release_.to_json()
    assert "Hyperbolic()" in text and Release.from_json(text) == made.release_


def test_counts_batches_and_classes_are_there_too():
    X = records(40)
    outside = (SPACE.dist(CENTER, X) > 0.5).sum()
    assert private_clipped_count(X, BALL.of_radius(0.5), 900.0, rng=0) == outside
    batches = private(BALL, statistic="tangent", n=40).partial_fit(X[:7]).partial_fit(X[7:])
    whole = private(BALL, statistic="tangent").fit(X, rng=0)
    assert np.array_equal(batches.release(rng=0).mean_, whole.mean_)
    classes = PrivateClassMeans(900.0, 1e-6, BALL.tangent(), ["a", "b"])
    means = classes.fit(X, ["a", "b"] * 20, rng=0).means_
    exact = [SPACE.exp(CENTER, SPACE.log(CENTER, X[i::2]).mean(axis=0)) for i in (0, 1)]
    assert SPACE.dist(means, exact).max() < 0.05


# geodesics

def about_a_curve(n, noise, rng):
    """Point and velocity of a curve in the middle of [0, 1], and records about it."""
    p, v = SPACE.exp(CENTER, [0.2, 0.1]), np.array([0.6, -0.3])
    x = rng.random(n)
    points = predict(SPACE, p, v, x - 0.5)
    return p, v, x, SPACE.exp(points, noise * rng.standard_normal((n, 2)))


def apart(first, second):
    """Root mean square distance of two curves, functions of x, on [0, 1]."""
    x = np.linspace(0, 1, 21)
    return math.sqrt(np.mean(SPACE.dist(first(x), second(x))**2))


def test_records_on_a_geodesic_give_it_back():
    p, v, x, Y = about_a_curve(12, 0, np.random.default_rng(0))
    fit = GeodesicRegression(SPACE).fit(x - 0.5, Y)
    assert SPACE.dist(fit.point_, p) < 1e-9
    np.testing.assert_allclose(fit.velocity_, v, atol=1e-9)
    assert fit.energy_ < 1e-18


class Alike(Hyperbolic):
    """Boosts take all points to the vertex, but turn the frames elsewhere."""

    def alike(self, M):
        return np.broadcast_to(self.origin, M.shape)


def test_about_the_point_from_which_all_looks_alike_there_are_the_same_means_and_geodesics():
    _, _, x, Y = about_a_curve(12, 0.3, np.random.default_rng(0))
    fit, other = (GeodesicRegression(space).fit(x, Y) for space in (SPACE, Alike()))
    assert SPACE.dist(fit.predict(x), other.predict(x)).max() < 1e-8
    far = Ball(1.0, from_vertex(np.array([16.0, 0])), Alike())  # where the plane has no ball
    for X in (np.tile(far.center, (9, 1)), in_ball(far, 9, np.random.default_rng(0))):
        assert np.linalg.norm(FrechetMean(X, far).step) <= 1
    one, two = (FrechetMean(Y, Ball(1.0, CENTER, space)).step for space in (SPACE, Alike()))
    np.testing.assert_allclose(one, two, atol=1e-10)


def test_regression_is_that_of_matrices_of_determinant_1():
    _, _, x, Y = about_a_curve(30, 0.3, np.random.default_rng(0))
    fit = GeodesicRegression(SPACE).fit(x, Y)
    other = GeodesicRegression(AffineInvariant(2)).fit(x, as_matrices(Y))
    assert other.energy_ == pytest.approx(2 * fit.energy_, rel=1e-9)
    np.testing.assert_allclose(as_matrices(fit.predict(x)), other.predict(x), rtol=1e-6)


@pytest.mark.slow
@pytest.mark.parametrize("name", mostly_slow(CURVES, "noisy descent"))
def test_a_private_curve_lies_in_its_domain_and_one_that_costs_much_is_near_the_truth(name):
    rng, domain = np.random.default_rng(0), BALL.of_radius(0.5)
    p, v, x, Y = about_a_curve(40, 0.05, rng)
    Y[:2] = SPACE.exp(CENTER, [[5.0, 3], [0, -4]])  # which no curve comes near
    mechanism, far = CURVES[name].choice(), []
    for epsilon in (0.5, 500.0):
        delta = CURVES[name].delta(1e-6)
        made = PrivateGeodesicRegression(epsilon, delta, domain, 1.0, mechanism=mechanism)
        made.fit(x, Y, rng=0)
        assert SPACE.dist(CENTER, made.point_) <= 0.5 + 1e-9
        assert np.linalg.norm(made.velocity_) <= 1 + 1e-9
        far.append(apart(made.predict, lambda t: predict(SPACE, p, v, t - 0.5)))
    assert far[1] < 0.05 and far[1] < 0.5 * far[0]
    with pytest.raises(ValueError, match=r"^Y\[3\] is none; accepted are points of Hyperbolic"):
        made.fit(x, np.where(np.arange(40)[:, None] == 3, np.nan, Y), rng=0)


@pytest.mark.slow
def test_the_error_of_a_private_curve_is_found_by_trial():
    made = PrivateGeodesicRegression(1.0, 1e-6, BALL.of_radius(0.5), 1.0)
    error = expected_curve_error(made, 300, 0.05, draws=5)
    assert error.released < 0.2 * error.centre


class Cylinder(Curved):
    """A circle of length 3 times a line: it is wider than its injectivity radius."""

    dim, shape, homogeneous = 2, (2,), True
    curvature, injectivity_radius = (0.0, 0.0), 1.5

    def sound(self, X):
        X = np.asarray(X, float)
        return X, (X[..., 0] >= 0) & (X[..., 0] < 3) & np.isfinite(X[..., 1])

    def _step(self, M, X):
        v = X - M
        v[..., 0] -= 3 * np.round(v[..., 0] / 3)
        return v

    def _end(self, M, v):
        X = M + v
        X[..., 0] %= 3
        return X

    def carried(self, M, v, w, there=None):
        return w + 0 * (M + v)

    def held(self, M):
        return math.inf


def test_noise_that_reaches_no_further_than_a_cut_point_keeps_to_a_ball_without_one():
    """On the whole cylinder what is drawn about one mean may lie where no draw about another is."""
    ball = Ball(0.5, [1.0, 0.0], Cylinder())
    with pytest.raises(ValueError, match="accepted without a domain are homogeneous spaces.* no "):
        RiemannianLaplace(0.5, 0.3, Cylinder())
    with pytest.raises(ValueError, match="accepted are balls of radii up to half the injectivity"):
        RiemannianLaplace(0.5, 0.3, domain=ball.of_radius(0.76))
    assert RiemannianLaplace(0.5, 0.3, domain=ball.of_radius(0.75)).rate == "2Δ/ε"
    assert not ball.of_radius(1e-3).harmless
    private = PrivateFrechetMean(1, 0, ball, "laplace").fit([[1.0, 0.5], [1.2, -0.3]], rng=0)
    assert private.mechanism_.domain == ball and private.mechanism_.rate == "2Δ/ε"
