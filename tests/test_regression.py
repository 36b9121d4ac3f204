"""Geodesic regression against finite differences, least squares, SciPy, and what it must find."""

import math
from types import SimpleNamespace

import numpy as np
import pytest
from conftest import mostly_slow
from scipy.optimize import least_squares
from tables import BALLS, POLE, unit

from spdlib import (AffineInvariant, Ball, Euclidean, GeodesicRegression, KendallPlanar, Sphere,
                    regression)
from spdlib.regression import energy, gradients, predict, residuals
from spdlib.spaces import components as rows

LANDMARKS = np.arange(12) + 1j * (np.arange(12) % 5)
SPACES = BALLS | {
    "tiny sphere 3": Ball(1e-4, [0.5, 0.5, -0.5, 0.5], Sphere(3, 1e6)),
    "shapes of 12 landmarks": Ball(0.3, LANDMARKS, KendallPlanar(12)),  # where frames are carried
}
CURVED = [name for name, ball in SPACES.items() if not ball.space.flat]
FAST = "Euclidean 2", "chart of a sphere", "sphere 2", "affine-invariant 2", "triangles"
each_space = pytest.mark.parametrize("name", mostly_slow(SPACES, *FAST))
each_curved_space = pytest.mark.parametrize("name", mostly_slow(CURVED, *FAST))


def fitted(x, Y, space, **options):
    return GeodesicRegression(space, **options).fit(x, Y)


def drawn(name, fits=3, n=12, length=0.7, noise=0.1, seed=0):
    """Space, points, velocities, x, and records scattered about the curves."""
    rng, space, M = np.random.default_rng(seed), SPACES[name].space, SPACES[name].center
    start = 0.2 * unit(space) * rng.standard_normal((fits, space.dim)) / math.sqrt(space.dim)
    point, v = space.exp(M, start), rng.standard_normal((fits, space.dim))
    v *= length * unit(space) / np.linalg.norm(v, axis=-1, keepdims=True)
    x = np.sort(rng.random((fits, n)))
    spread = noise * unit(space) / math.sqrt(space.dim)
    steps = spread * rng.standard_normal((fits, n, space.dim))
    return space, point, v, x, space.exp(predict(space, point, v, x), steps)


def moved(space, point, v, a, b):
    """Where the change (a, b) of point and velocity leads."""
    if space.flat:
        return space.exp(point, a), v + b
    return space.exp(point, a), space.transport(point, a, v + b)


def derivative(function, dim, h):
    """Central differences of function(a, b) by all coordinates of a and of b at 0."""
    zero = np.zeros(dim)
    return [np.stack([(function(*(h * e if i == j else zero for j in range(2)))
                       - function(*(-h * e if i == j else zero for j in range(2)))) / (2 * h)
                      for e in np.eye(dim)], axis=-1) for i in range(2)]


# energy, residuals and gradients ------------------------------------------------------------------
@each_space
def test_residuals_lead_from_the_curve_to_the_records(name):
    space, point, v, x, Y = drawn(name)
    curve = predict(space, point, v, x)
    steps = residuals(space, point, v, x, Y)
    assert curve.shape == Y.shape and steps.shape == (*x.shape, space.dim)
    assert (space.dist(space.exp(curve, steps), Y) <= 1e-10 * unit(space)).all()
    np.testing.assert_allclose(energy(space, point, v, x, Y),
                               (space.dist(curve, Y)**2).mean(axis=-1) / 2, rtol=1e-9)


@each_space
def test_gradients_are_the_derivatives_of_the_energy(name):
    space, point, v, x, Y = drawn(name)
    found = gradients(space, point, v, x, Y)

    def at(a, b):
        return energy(space, *moved(space, point, v, a, b), x, Y)

    for g, numeric in zip(found, derivative(at, space.dim, 1e-5 * unit(space)), strict=True):
        assert g.shape == v.shape
        np.testing.assert_allclose(g / unit(space), numeric / unit(space), rtol=0, atol=1e-8)


@each_space
def test_gradients_are_clipped_record_by_record(name):
    """Those of Σ h(ρ_i), h(ρ) = ρ²/2 up to the clip and clip ρ - clip²/2 from there."""
    space, point, v, x, Y = drawn(name, noise=0.3)
    rho = np.linalg.norm(residuals(space, point, v, x, Y), axis=-1)
    clip = float(np.median(rho))

    def huber(a, b):
        rho = space.dist(predict(space, *moved(space, point, v, a, b), x), Y)
        return np.where(rho <= clip, rho**2 / 2, clip * rho - clip**2 / 2).mean(axis=-1)

    numeric = derivative(huber, space.dim, 1e-5 * unit(space))
    for g, other in zip(gradients(space, point, v, x, Y, clip=clip), numeric, strict=True):
        np.testing.assert_allclose(g / unit(space), other / unit(space), rtol=0, atol=1e-7)
    far = gradients(space, point, v, x, Y, clip=2 * rho.max())
    np.testing.assert_array_equal(far, gradients(space, point, v, x, Y))


@pytest.mark.parametrize("name", ["sphere 2", "affine-invariant 2", "pentagons"])
def test_many_curves_meet_the_same_records(name):
    space, point, v, x, Y = drawn(name, fits=4)
    together = gradients(space, point, v, x[0], Y[0])
    for i in range(4):
        for one, all_ in zip(gradients(space, point[i], v[i], x[0], Y[0]), together, strict=True):
            np.testing.assert_allclose(one, all_[i], rtol=0, atol=1e-14)
    assert residuals(space, point, v, x[0], Y[0]).shape == (4, 12, space.dim)
    assert energy(space, point[0], v[0], x[0], Y).shape == (4,)


def test_the_clipped_gradient_of_a_record_at_a_cut_point_has_full_length():
    """A mechanism needs it for records wherever they are."""
    g, _ = gradients(Sphere(2), POLE, np.zeros(2), [0.5], -POLE[None], clip=0.1)
    assert math.isclose(np.linalg.norm(g), 0.1)


@pytest.mark.parametrize("few", [0, 100])
@each_curved_space
def test_residuals_or_axes_are_carried_to_the_same_effect(name, few, monkeypatch):
    space, point, v, x, Y = drawn(name)
    expected = gradients(space, point, v, x, Y)
    monkeypatch.setattr(regression, "FEW_DIMENSIONS", few)
    for g, other in zip(gradients(space, point, v, x, Y), expected, strict=True):
        np.testing.assert_allclose(g / unit(space), other / unit(space), rtol=0, atol=1e-13)


# the fit ------------------------------------------------------------------------------------------
@pytest.mark.parametrize("few", [0, 100])
@pytest.mark.parametrize("start", [
    *(pytest.param(start, marks=pytest.mark.slow) for start in (0.0, -0.0, 1e-17)), -1e-17])
def test_where_rounding_turns_a_frame_residuals_are_still_carried_to_the_frame_at_the_point(
        few, start, monkeypatch):
    monkeypatch.setattr(regression, "FEW_DIMENSIONS", few)
    rng, space, x = np.random.default_rng(3), Sphere(20), np.linspace(-0.5, 0.5, 5)
    for _ in range(3):
        M = rng.standard_normal(21)
        M[0] = 0
        M /= np.linalg.norm(M)
        M[0] = start
        v = 0.2 * rng.standard_normal(20)
        Y = space.exp(predict(space, M, v, x), 0.05 * rng.standard_normal((5, 20)))
        by_hand = derivative(lambda a, b, M=M, v=v, Y=Y: energy(space, *moved(space, M, v, a, b),
                                                              x, Y), 20, 1e-6)
        np.testing.assert_allclose(gradients(space, M, v, x, Y), by_hand, atol=1e-9)


@pytest.mark.slow
@pytest.mark.parametrize("few", mostly_slow([0, 100], 0))
def test_where_shapes_change_the_landmark_of_their_frame_residuals_are_carried_alike(
        few, monkeypatch):
    monkeypatch.setattr(regression, "FEW_DIMENSIONS", few)
    rng, space, x = np.random.default_rng(0), KendallPlanar(12), np.linspace(-0.5, 0.5, 5)
    for _ in range(2):
        M = rows.without_mean(space.points(rng.standard_normal(12) + 1j * rng.standard_normal(12)))
        M /= np.linalg.norm(M[1:])
        edge = 0.01 / math.sqrt(len(M))  # of what `pivot` takes for an accident
        M *= math.sqrt(1 - edge**2)
        M[0] *= edge / abs(M[0])
        M, v = rows.with_mean(M), 0.1 * rng.standard_normal(20)
        Y = space.exp(predict(space, M, v, x), 0.05 * rng.standard_normal((5, 20)))
        g = gradients(space, M, v, x, Y)
        by_hand = derivative(lambda a, b, M=M, v=v, Y=Y: energy(
            space, space.exp(M, a), space.transport(M, a, v + b), x, Y), 20, 1e-6)
        lengths = [np.linalg.norm(each) for each in (g, by_hand)]
        assert lengths[0] == pytest.approx(lengths[1], rel=1e-6)


@pytest.mark.parametrize("space", [Sphere(3), KendallPlanar(4), AffineInvariant(2)])
@pytest.mark.parametrize("size", [1e-320, 1e-160, 1e-100, 1e100])
def test_axes_are_orthonormal_along_the_shortest_and_the_longest_velocities(space, size):
    axes = space.jacobi(size * np.linspace(-1, 2, space.dim))[1]
    np.testing.assert_allclose(axes.T @ axes, np.eye(space.dim), atol=1e-14)


@each_space
def test_the_gradient_vanishes_at_the_fit_and_the_truth_is_no_better(name):
    space, point, v, x, Y = drawn(name, fits=20)
    fit = fitted(x, Y, space)
    for g in gradients(space, fit.point_, fit.velocity_, x, Y):
        assert (np.linalg.norm(g, axis=-1) <= 1e-8 * unit(space)).all()
    assert (fit.energy_ <= energy(space, point, v, x, Y)).all()
    least = energy(space, fit.point_, fit.velocity_, x, Y)
    np.testing.assert_allclose(fit.energy_, least, rtol=1e-9)
    curve = fit.predict(x)
    again = predict(space, fit.point_, fit.velocity_, x)
    assert (space.dist(curve, again) <= 1e-10 * unit(space)).all()
    assert (space.dist(space.exp(curve, fit.residuals_), Y) <= 1e-10 * unit(space)).all()


@pytest.mark.parametrize("name", ["Euclidean 2", "log-Euclidean 2", "chart of a sphere"])
def test_in_a_flat_space_it_is_ordinary_least_squares(name):
    space, _, _, x, Y = drawn(name, fits=1)
    fit = fitted(x, Y, space)
    y = space.coordinates(Y[0])
    design = np.stack([np.ones_like(x[0]), x[0]], axis=1)
    (p, v), squares, _, _ = np.linalg.lstsq(design, y)
    np.testing.assert_allclose(space.coordinates(fit.point_[0]), p, atol=1e-12)
    np.testing.assert_allclose(fit.velocity_[0], v, atol=1e-12)
    assert math.isclose(fit.energy_[0], squares.sum() / (2 * 12), rel_tol=1e-9)


@pytest.mark.parametrize("name", mostly_slow(
    ["sphere 2", "affine-invariant 2", "triangles", "pentagons"], "sphere 2", "triangles"))
@pytest.mark.parametrize("noise", [0.05, pytest.param(0.4, marks=pytest.mark.slow)])
def test_scipy_finds_no_lower_energy(name, noise):
    """Its least_squares is told nothing but the residuals."""
    space, point, v, x, Y = drawn(name, fits=3, noise=noise)
    fit = fitted(x, Y, space)
    for i in range(3):
        def flat_residuals(u, i=i):
            here = moved(space, point[i], v[i], *np.split(u, 2))
            return residuals(space, *here, x[i], Y[i]).ravel()

        found = least_squares(flat_residuals, np.zeros(2 * space.dim), xtol=1e-12, gtol=1e-12)
        assert math.isclose(fit.energy_[i], found.cost / 12, rel_tol=1e-6)


@each_space
@pytest.mark.parametrize("length", [0.0, 0.7, 1.4])
def test_records_on_a_geodesic_give_it_back(name, length):
    space, point, v, x, Y = drawn(name, length=length, noise=0)
    fit = fitted(x, Y, space)
    assert (space.dist(fit.point_, point) <= 1e-8 * unit(space)).all()
    assert (space.dist(fit.predict(x), Y) <= 1e-8 * unit(space)).all()
    assert (np.abs(np.linalg.norm(fit.velocity_, axis=-1) - length * unit(space))
            <= 1e-8 * unit(space)).all()


@each_space
def test_through_two_records_runs_the_geodesic_that_joins_them(name):
    space, _, _, x, Y = drawn(name, n=2)
    fit = fitted(x, Y, space)
    speed = space.dist(Y[:, 0], Y[:, 1]) / (x[:, 1] - x[:, 0])
    np.testing.assert_allclose(np.linalg.norm(fit.velocity_, axis=-1), speed, rtol=1e-8)
    assert (fit.energy_ <= 1e-15 * unit(space)**2).all()


@each_space
def test_records_at_one_point_have_a_fit_that_stands_still(name):
    space, M = SPACES[name].space, SPACES[name].center
    fit = fitted([0, 1, 2], [M, M, M], space)
    assert space.dist(fit.point_, M) <= 4e-15 * unit(space)
    assert (np.abs(fit.velocity_) <= 1e-15 * unit(space)).all() and fit.energy_ <= 1e-30


def test_a_long_arc_of_a_great_circle_is_followed():
    x = np.linspace(-1, 1, 41)
    Y = predict(Sphere(2), POLE, [2.9, 0.0], x)
    rng = np.random.default_rng(0)
    fit = fitted(x, Sphere(2).exp(Y, 0.05 * rng.standard_normal((41, 2))), Sphere(2))
    np.testing.assert_allclose(np.linalg.norm(fit.velocity_), 2.9, atol=0.05)


@pytest.mark.slow
@each_space
def test_many_fits_are_those_that_each_data_set_has_alone(name):
    space, _, _, x, Y = drawn(name, fits=6, noise=0.3)
    together = fitted(x.reshape(2, 3, -1), Y.reshape(2, 3, *Y.shape[1:]), space)
    assert together.point_.shape == (2, 3, *space.shape) and together.energy_.shape == (2, 3)
    assert together.velocity_.shape == (2, 3, space.dim)
    for i in range(6):
        alone, index = fitted(x[i], Y[i], space), np.unravel_index(i, (2, 3))
        assert space.dist(alone.point_, together.point_[index]) <= 1e-12 * unit(space)
        np.testing.assert_allclose(alone.energy_, together.energy_[index], rtol=1e-12)


def test_one_x_serves_many_data_sets():
    space, _, _, x, Y = drawn("sphere 2", fits=4)
    together = fitted(x[0], Y, space)
    assert together.energy_.shape == (4,)
    assert math.isclose(together.energy_[2], fitted(x[0], Y[2], space).energy_)


def test_blocks_of_fits_make_up_the_whole(monkeypatch):
    space, _, _, x, Y = drawn("pentagons", fits=7)
    whole = fitted(x, Y, space)
    monkeypatch.setattr(regression, "BATCH", 1)
    np.testing.assert_allclose(fitted(x, Y, space).velocity_, whole.velocity_, atol=1e-12)


ISOMETRIES = {
    "sphere 2": lambda rng: (Q := np.linalg.qr(rng.standard_normal((3, 3)))[0], lambda X: X @ Q)[1],
    "affine-invariant 3": lambda rng: (
        A := rng.standard_normal((3, 3)), lambda X: A @ X @ A.T)[1],
    "pentagons": lambda rng: (
        turns := np.exp(2j * math.pi * rng.random((3, 12, 1))), lambda X: 5 * X * turns + 1j)[1],
}


@pytest.mark.parametrize("name", ISOMETRIES)
def test_the_curve_moves_with_the_records(name):
    """For shapes each record is turned by itself: any landmarks may stand for a shape."""
    space, _, _, x, Y = drawn(name)
    isometry = ISOMETRIES[name](np.random.default_rng(1))
    fit, other = fitted(x, Y, space), fitted(x, isometry(Y), space)
    np.testing.assert_allclose(other.energy_, fit.energy_, rtol=1e-9)
    assert (space.dist(other.predict(x), isometry(fit.predict(x))) <= 1e-8).all()


@pytest.mark.parametrize("name", ["Euclidean 2", "sphere 2", "affine-invariant 2", "pentagons"])
@pytest.mark.parametrize("shift, factor", [(0, 1e-150), (0, 1e150), (3, 1), (-2000, 1000)])
def test_x_in_other_units_gives_the_same_curve(name, shift, factor):
    space, _, _, x, Y = drawn(name)
    fit, other = fitted(x, Y, space), fitted(shift + factor * x, Y, space)
    np.testing.assert_allclose(other.energy_, fit.energy_, rtol=1e-10)
    assert (space.dist(fit.predict(x), other.predict(shift + factor * x)) <= 1e-9).all()
    x = shift + factor * x
    assert (space.dist(other.predict(x), predict(space, other.point_, other.velocity_, x))
            <= 1e-9).all()


@pytest.mark.parametrize("scale", [1e-200, 1e-6, 1e7, 1e100])
@pytest.mark.parametrize("shift", [0, 1e6])
def test_flat_records_of_any_size_have_a_fit(scale, shift):
    space, _, _, x, Y = drawn("Euclidean 2")
    fit, large = fitted(x, Y, space), fitted(x, scale * (Y + shift), space)
    np.testing.assert_allclose(large.velocity_, scale * fit.velocity_, atol=1e-9 * scale)
    np.testing.assert_allclose(large.point_, scale * (fit.point_ + shift), rtol=1e-9)


@pytest.mark.parametrize("spread", [1e-6, 1e-3])
@pytest.mark.parametrize("name", CURVED)
def test_records_close_together_have_a_fit_to_as_many_digits(name, spread):
    space, point, v, x, Y = drawn(name, length=spread, noise=spread / 9)
    fit = fitted(x, Y, space)
    for g in gradients(space, fit.point_, fit.velocity_, x, Y):
        assert (np.linalg.norm(g, axis=-1) <= 1e-8 * spread * unit(space)).all()


@pytest.mark.parametrize("condition", [1e4, 1e10])
def test_ill_conditioned_matrices_have_the_fit_of_the_others(condition):
    """By congruence, an isometry: the computation is made about the identity."""
    space, _, _, x, Y = drawn("affine-invariant 3")
    A = np.diag([1, condition**-0.25, condition**-0.5])
    fit, other = fitted(x, Y, space), fitted(x, A @ Y @ A, space)
    np.testing.assert_allclose(other.energy_, fit.energy_, rtol=1e-6)
    np.testing.assert_allclose(other.velocity_, fit.velocity_, atol=1e-6)


@pytest.mark.parametrize("name", ["sphere 2", "affine-invariant 2", "triangles", "pentagons"])
def test_records_all_over_the_space_have_a_fit(name):
    """Residuals so long bend: the last steps are Newton's."""
    space, rng = SPACES[name].space, np.random.default_rng(0)
    reach = min(space.injectivity_radius, 3.0)
    y = rng.standard_normal((10, 8, space.dim))
    Y = space.exp(SPACES[name].center, reach * rng.random((10, 8, 1)) * y
                  / np.linalg.norm(y, axis=-1, keepdims=True))
    fit = fitted(np.arange(8), Y, space)
    for g in gradients(space, fit.point_, fit.velocity_, np.arange(8), Y):
        assert (np.linalg.norm(g, axis=-1) <= 1e-7).all()


def test_gauss_and_newton_end_at_the_same_curve(monkeypatch):
    space, _, _, x, Y = drawn("sphere 2", fits=10, noise=0.3)
    fit = fitted(x, Y, space)
    monkeypatch.setattr(regression, "PATIENCE", 2)
    other = fitted(x, Y, space)
    np.testing.assert_allclose(other.energy_, fit.energy_, rtol=1e-12)
    assert (space.dist(other.predict(x), fit.predict(x)) <= 1e-7).all()


def under_way(space, x, Y, point, velocity, damping):
    """Fits at this point and velocity, as a step of the descent finds them."""
    Y = space.points(Y)
    curve = regression.curve_points(space, point, velocity, x)
    steps = space.steps(curve, Y)
    axes, f, s, fall = regression._falls(space, point, velocity, x, curve, steps)
    return space, SimpleNamespace(
        x=x, Y=Y, point=point, velocity=velocity, curve=curve, steps=steps, axes=axes, f=f, s=s,
        fall=fall, energy=regression._square(steps) / 2, damping=damping,
        farthest=np.linalg.norm(steps, axis=-1).max(axis=-1))


def test_damping_shortens_a_step_on_straight_lines_alike_in_point_and_velocity():
    """It is in units of the information there: the point's is 1, the velocity's the mean of x²."""
    space, _, _, x, Y = drawn("Euclidean 2")
    t = x - x.mean(axis=-1, keepdims=True)
    t /= np.abs(t).max(axis=-1, keepdims=True)
    start = np.zeros((2, len(t), space.dim))
    full, damped = (
        regression._gauss(*under_way(space, t, Y, *start, np.full(len(t), damping)))[0]
        for damping in (0.0, 3.0))
    np.testing.assert_allclose(damped, full / 4, rtol=1e-12)


def test_a_step_is_no_longer_than_twice_what_the_records_are_far_in_the_velocity_either():
    """Else one that goes once around the sphere is taken: it moves no point at x = -1, 0 and 1."""
    space, x, v = Sphere(2), np.array([[-1.0, 0, 1]]), np.array([[0.3, 0.0]])
    Y = space.exp(predict(space, POLE[None], v, x), np.array([[0, 0.1], [0, -0.2], [0, 0.1]]))
    _, fits = under_way(space, x, Y, POLE[None], v.copy(), np.ones(1))
    around = np.array([[[0, 0], [2 * math.pi, 0]]])
    regression._move(space, fits, around, np.zeros(1), np.zeros(1))
    assert np.linalg.norm(fits.velocity - v) <= 2 * fits.farthest[0] < 1


def test_no_data_sets_have_no_fits():
    fit = fitted(np.ones((0, 5)), np.ones((0, 5, 3)), Sphere(2))
    assert fit.point_.shape == (0, 3) and fit.residuals_.shape == (0, 5, 2)


def test_the_records_stay_as_they_are():
    space, _, _, x, Y = drawn("sphere 2")
    kept = x.copy(), Y.copy()
    fitted(x, Y, space)
    np.testing.assert_array_equal(x, kept[0])
    np.testing.assert_array_equal(Y, kept[1])


# what is refused ----------------------------------------------------------------------------------
Y3 = np.array([[0, 0, 1.0], [0, 0.6, 0.8], [0, 0.8, 0.6]])
REFUSED = {
    "equal x": (lambda: fitted([1, 1, 1], Y3, Sphere(2)), "x is 1 for all records"),
    "equal x of one data set": (
        lambda: fitted([[0, 1, 2], [7, 7, 7]], [Y3, Y3], Sphere(2)), r"x\[1\] is 7"),
    "x that rounding makes equal": (
        lambda: fitted(1e16 + np.array([0, 0, 2.0]), Y3, Sphere(2)), "x is 1e[+]16"),
    "one record": (lambda: fitted([1.0], Y3[:1], Sphere(2)), "with n ≥ 2"),
    "no record": (lambda: fitted([], np.ones((0, 3)), Sphere(2)), "with n ≥ 2"),
    "fewer x than records": (lambda: fitted([0, 1], Y3, Sphere(2)),
                             r"x has shape \(2,\) and Y has shape \(3, 3\)"),
    "x that is one number": (lambda: fitted(1.0, Y3, Sphere(2)), r"x has shape \(\)"),
    "records of another space": (
        lambda: fitted([0, 1, 2], Y3, Sphere(3)), r"Y has shape \(3, 3\); .* 4\)"),
    "NaN among x": (lambda: fitted([0, 1, math.nan], Y3, Sphere(2)), r"x\[2\] is nan"),
    "NaN among records": (
        lambda: fitted([0, 1, 2], math.nan * Y3, Sphere(2)), r"Y\[0, 0\] is nan"),
    "an infinite record": (
        lambda: fitted([0, 1], [[[1.0]], [[math.inf]]], Euclidean(1)), "is inf"),
    "records that are no points": (
        lambda: fitted([0, 1, 2], 2 * Y3, Sphere(2)), r"Y\[0\] has length 2"),
    "a tolerance of 0": (
        lambda: fitted([0, 1, 2], Y3, Sphere(2), tolerance=0), "tolerance is 0"),
    "a fit that float64 does not hold": (
        lambda: fitted([0, 1e-320], Y3[:2], Sphere(2)), "velocity.* is inf"),
    "an energy that float64 does not hold": (
        lambda: fitted([0, 1, 2], [[[-1e200]], [[1e200]], [[1e200]]], Euclidean(1)),
        "energy is inf"),
    "masked records": (
        lambda: fitted([0, 1, 2], np.ma.masked_equal(Y3, 0), Sphere(2)), "masked"),
    "complex matrices": (
        lambda: fitted([0, 1], 1j * np.ones((2, 1, 1)), Euclidean(1)), "dtype complex"),
    "a clip of 0": (
        lambda: gradients(Sphere(2), POLE, [0, 0], [0, 1, 2], Y3, clip=0), "clip is 0"),
    "energy of x that are too few": (
        lambda: energy(Sphere(2), POLE, [0, 0], [0, 1], Y3), r"x has shape \(2,\)"),
    "energy of no records": (lambda: energy(Sphere(2), POLE, [0, 0], [], Y3[:0]), "n ≥ 1"),
    "data sets that do not go with x": (
        lambda: fitted(np.zeros((2, 3)), [Y3] * 3, Sphere(2)),
        r"x has shape \(2, 3\) and Y is \(3, 3\) points"),
    "a curve that float64 does not hold": (
        lambda: gradients(AffineInvariant(2), np.eye(2), [2e3, 0, 0], [0, 1], [np.eye(2)] * 2),
        "holds no SPD matrix"),
    "records too far apart for float64": (
        lambda: fitted([0, 1], [1e300 * np.eye(2), 1e-300 * np.eye(2)],
                                   AffineInvariant(2)), "Y has records whose distance is 1953"),
    "records too far apart, from above": (
        lambda: fitted([0, 1], [1e-300 * np.eye(2), 1e300 * np.eye(2)],
                                   AffineInvariant(2)), "Y has records whose distance is 1953"),
    "a velocity of another dimension": (
        lambda: residuals(Sphere(2), POLE, [0, 0, 1], [0, 1, 2], Y3), r"velocity has shape \(3,\)"),
    "batches that do not broadcast": (
        lambda: gradients(Sphere(2), POLE, np.zeros((2, 2)), np.zeros((3, 3)), Y3),
        r"the batches of point, velocity, x and Y have shapes \(\(\), \(2,\), \(3,\), \(\)\)"),
}


@pytest.mark.parametrize("name", REFUSED)
def test_what_is_refused_is_named(name):
    call, message = REFUSED[name]
    with pytest.raises(ValueError, match=message):
        call()


def test_a_fit_that_has_not_converged_is_none(monkeypatch):
    space, _, _, x, Y = drawn("sphere 2", fits=6, noise=0.5)
    monkeypatch.setattr(regression, "MOST_STEPS", 2)
    with pytest.raises(ValueError, match=r"the fit\[0, 0\] stands at a gradient of .* after 2"):
        fitted(x.reshape(2, 3, -1), Y.reshape(2, 3, -1, 3), space)
