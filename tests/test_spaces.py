"""One suite of laws for every space; a space that joins is one line of `SPACES`.

Points and tangent vectors are drawn at random, and whatever is asked of a space is asked through
the interface that all spaces share. Points are compared by their distance, for many arrays may
stand for one point. Lengths are in a unit in which the curvature is at most 1.
"""

import copy
import itertools
import math
import pickle
from types import SimpleNamespace

import numpy as np
import pytest
from pyriemann.geometry.distance import distance_riemann
from pyriemann.geometry.mean import mean_riemann
from pyriemann.geometry.tangentspace import exp_map_riemann, log_map_riemann
from scipy.optimize import minimize

from spdlib.spaces import (
    AffineInvariant,
    Euclidean,
    KendallPlanar,
    LogEuclidean,
    Sphere,
    TangentSpace,
)
from spdlib.spd import expm, invvecd, random_spd

RIDGE = np.array([[2.0, 0.5], [0.5, 1.0]])


# points and isometries, at random: functions of the space, their number, the generator -----------
def symmetric(space, n, rng):
    return invvecd(rng.standard_normal((n, space.dim)))


def spd(space, n, rng):
    return random_spd(n, space.shape[0], 1.0, rng)


def unit_vectors(space, n, rng):
    X = rng.standard_normal((n, *space.shape))
    return X / np.linalg.norm(X, axis=-1, keepdims=True)


def landmarks(space, n, rng):
    x, y = rng.standard_normal((2, n, *space.shape))
    return 100 * (x + 1j * y) + 50


def near_the_centre(space, n, rng):
    v = rng.standard_normal((n, space.dim))
    return space.point(v / length(v)[:, None] / 2)


def orthogonal(k, rng):
    return np.linalg.qr(rng.standard_normal((k, k)))[0]


def rigid_motions(space, rng):
    Q, shift = orthogonal(space.shape[0], rng), symmetric(space, 1, rng)
    return lambda X: Q @ X @ Q.T, lambda X: X + shift, lambda X: -X


def similarities(space, rng):
    Q = orthogonal(space.shape[0], rng)
    return lambda X: Q @ X @ Q.T, np.linalg.inv, lambda X: 1e-3 * X


def congruences(space, rng):
    A = rng.standard_normal(space.shape)
    return lambda X: A @ X @ A.T, np.linalg.inv, lambda X: 1e-3 * X


def orthogonal_maps(space, rng):
    Q = orthogonal(space.shape[0], rng)
    return lambda X: X @ Q, lambda X: -X


def similarities_of_the_plane(space, rng):
    """Also reflection, and the unitary maps that leave the constants where they are."""
    n = space.shape[0]
    A = rng.standard_normal((n, n - 1)) + 1j * rng.standard_normal((n, n - 1))
    basis = np.linalg.qr(np.column_stack([np.ones(n), A]))[0][:, 1:]
    unitary = basis @ np.linalg.qr(A[1:])[0] @ basis.conj().T
    turns = np.exp(2j * math.pi * rng.random((20, 1))) * rng.uniform(0.1, 9, (20, 1))
    return lambda X: X * turns[:len(X)] + (5 - 1j), np.conj, lambda X: X @ unitary.T


def none_known(space, rng):
    return ()


CENTRES = {
    "SPD": random_spd(1, 3, 1.0, 7)[0],
    "sphere": np.array([2.0, -1, 2]) / 3,
    "shape": np.array([0, 1, 1j, 3 + 2j]),
}

# name: the space, random points of it, isometries that are known
SPACES = {
    "Euclidean 1": (Euclidean(1), symmetric, rigid_motions),
    "Euclidean 3": (Euclidean(3), symmetric, rigid_motions),
    "log-Euclidean 1": (LogEuclidean(1), spd, similarities),
    "log-Euclidean 3": (LogEuclidean(3), spd, similarities),
    "affine-invariant 1": (AffineInvariant(1), spd, congruences),
    "affine-invariant 2": (AffineInvariant(2), spd, congruences),
    "affine-invariant 3": (AffineInvariant(3), spd, congruences),
    "affine-invariant 4": (AffineInvariant(4), spd, congruences),
    "circle": (Sphere(1, 0.3), unit_vectors, orthogonal_maps),
    "sphere 2": (Sphere(2), unit_vectors, orthogonal_maps),
    "small sphere 3": (Sphere(3, 1e6), unit_vectors, orthogonal_maps),
    "large sphere 2": (Sphere(2, 1e-6), unit_vectors, orthogonal_maps),
    "triangles": (KendallPlanar(3), landmarks, similarities_of_the_plane),
    "quadrilaterals": (KendallPlanar(4), landmarks, similarities_of_the_plane),
    "hexagons": (KendallPlanar(6), landmarks, similarities_of_the_plane),
    "chart of SPD": (TangentSpace(AffineInvariant(3), CENTRES["SPD"]), spd, none_known),
    "chart of a sphere": (TangentSpace(Sphere(2), CENTRES["sphere"]), near_the_centre, none_known),
    "chart of shapes":
        (TangentSpace(KendallPlanar(4), CENTRES["shape"]), near_the_centre, none_known),
}
CURVED = {name: row for name, row in SPACES.items() if not row[0].flat}
each_space = pytest.mark.parametrize("name", SPACES)
each_curved_space = pytest.mark.parametrize("name", CURVED)


def unit(space):
    """The length in which the curvature is at most 1; 1 where there is none."""
    steepest = max(map(abs, space.curvature))
    return 1 / math.sqrt(steepest) if steepest else 1.0


def sample(space, points, isometries, n=12):
    """What the laws are given: points, and tangent vectors at the first of them.

    The vectors are shorter than a quarter of the way to the next cut point, and than half a unit.
    """
    rng = np.random.default_rng(0)
    reach = min(0.25 * space.injectivity_radius, 0.5 * unit(space))
    M, X, Y = (points(space, n, rng) for _ in range(3))
    v, w = rng.standard_normal((2, n, space.dim))
    v, w = (x * rng.uniform(0.3, 1, (n, 1)) * reach / length(x)[:, None] for x in (v, w))
    return SimpleNamespace(M=M, X=X, Y=Y, v=v, w=w, n=n, isometries=isometries(space, rng))


def length(v):
    return np.linalg.norm(v, axis=-1)


def inner(v, w):
    return (v * w).sum(axis=-1)


def agree(space, v, w, tolerance=1e-9):
    """Numbers or coordinates agree, in the unit of the space."""
    np.testing.assert_allclose(v / unit(space), w / unit(space), rtol=tolerance, atol=tolerance)


def same(space, X, Y, tolerance=1e-9):
    """Points are the same, up to rounding."""
    assert (space.dist(X, Y) <= tolerance * unit(space)).all()


def derivative_of_exp(space, M, v):
    """D exp at the vectors v of the points M, from the frame there to that at the array exp(M, v).

    By central differences, shape (n, dim, dim).
    """
    h = 1e-4 * unit(space)
    M, v = np.repeat(M, space.dim, axis=0), np.repeat(v, space.dim, axis=0)
    e = np.tile(np.eye(space.dim), (len(v) // space.dim, 1))
    X = space.exp(M, v)
    columns = space.log(X, space.exp(M, v + h * e)) - space.log(X, space.exp(M, v - h * e))
    return (columns / (2 * h)).reshape(-1, space.dim, space.dim).swapaxes(1, 2)


# the laws -----------------------------------------------------------------------------------------
def exp_and_log_are_inverse(space, p):
    assert p.v.shape == (p.n, space.dim)
    agree(space, space.log(p.M, space.exp(p.M, p.v)), p.v)
    same(space, space.exp(p.M, space.log(p.M, p.X)), p.X)
    assert (length(space.log(p.M, p.M)) <= 1e-14 * unit(space)).all()


def far_steps_are_found_again(space, p):
    far = min(0.999 * space.injectivity_radius, 6.0)
    v = p.v * (far / length(p.v))[:, None]
    if not isinstance(space, TangentSpace):  # whose chart may end earlier
        agree(space, space.log(p.M, space.exp(p.M, v)), v, 1e-8)


def no_step_leads_nowhere(space, p):
    same(space, space.exp(p.M), p.M)
    same(space, space.exp(p.M, 0 * p.v), p.M)


def the_distance_is_the_length_of_the_step(space, p):
    agree(space, space.dist(p.M, p.X), length(space.log(p.M, p.X)))
    agree(space, space.dist(p.M, space.exp(p.M, p.v)), length(p.v))
    assert space.dist(p.M, p.X).shape == (p.n,)


def the_distance_is_a_metric(space, p):
    assert (space.dist(p.M, p.M) <= 1e-15 * unit(space)).all()
    assert (space.dist(p.M, p.X) > 1e-6 * unit(space)).all()
    agree(space, space.dist(p.M, p.X), space.dist(p.X, p.M))
    detour = space.dist(p.M, p.Y) + space.dist(p.Y, p.X)
    assert (space.dist(p.M, p.X) <= detour + 1e-12 * unit(space)).all()


def short_distances_have_five_digits(space, p):
    v = p.v * (1e-9 * unit(space) / length(p.v))[:, None]
    X = space.exp(p.M, v)
    np.testing.assert_allclose(space.dist(p.M, X), 1e-9 * unit(space), rtol=1e-5)
    np.testing.assert_allclose(space.log(p.M, X), v, rtol=0, atol=1e-14 * unit(space))


def distances_near_the_cut_locus_are_exact(space, p):
    if space.injectivity_radius < math.inf:
        rest = 1e-9 * unit(space)
        v = p.v * ((space.injectivity_radius - rest) / length(p.v))[:, None]
        agree(space, space.injectivity_radius - space.dist(p.M, space.exp(p.M, v)), rest, 1e-14)


def coordinates_are_orthonormal(space, p):
    """To first order; what is left is of third order, since geodesics have no acceleration."""
    h = 1e-5
    moved = space.dist(space.exp(p.M, h * p.v), space.exp(p.M, h * p.w)) / h
    agree(space, moved, length(p.v - p.w), 1e-6)


def the_frame_is_the_derivative_of_exp(space, p):
    if space.flat:
        return
    h, e = 1e-5 * unit(space), np.eye(space.dim)
    M = np.stack([space.exp(p.M)] * space.dim, axis=1)
    slopes = (space.exp(M, h * e) - space.exp(M, -h * e)) / (2 * h)
    frame = space.frame(p.M)
    assert frame.shape == (p.n, space.dim, *space.shape)
    np.testing.assert_allclose(frame * unit(space), slopes * unit(space), rtol=0, atol=1e-7)


def squared_distances_of_geodesics_err_in_the_fourth_order(space, p):
    """dist² = h²|v - w|² - h⁴ Rm(v, w, w, v)/3 + O(h⁶): the slope, and the curvature in it."""
    h = np.array([[0.2], [0.1], [0.05]])
    v, w = h[..., None] * p.v, h[..., None] * p.w
    error = space.dist(space.exp(p.M, v), space.exp(p.M, w))**2 - length(v - w)**2
    area = inner(p.v, p.v) * inner(p.w, p.w) - inner(p.v, p.w)**2
    if not any(space.curvature):
        return agree(space, error / unit(space), 0, 1e-12)
    curved = np.abs(error[-1] / h[-1]**4) > 1e-3 * area / unit(space)**2
    assert curved.sum() > p.n / 2
    slopes = np.diff(np.log(np.abs(error[:, curved])), axis=0) / np.diff(np.log(h), axis=0)
    assert (np.abs(slopes - 4) < 0.01).all()
    curvature = -3 * error[-1] / (h[-1]**4 * area)
    low, high = np.array(space.curvature) + np.array([-1e-3, 1e-3]) / unit(space)**2
    assert (low <= curvature).all() and (curvature <= high).all()


def radial_directions_stay_perpendicular(space, p):
    """The Gauss lemma: D exp at v keeps inner products with v."""
    outward = -space.log(space.exp(p.M, p.v), p.M)
    carried = np.einsum("nij,nj->ni", derivative_of_exp(space, p.M, p.v), p.w)
    agree(space, inner(outward, carried) / unit(space), inner(p.v, p.w) / unit(space), 1e-7)


def log_volume_is_the_log_determinant_of_the_derivative_of_exp(space, p):
    log_det = np.linalg.slogdet(derivative_of_exp(space, p.M, p.v))[1]
    np.testing.assert_allclose(space.log_volume(p.v), log_det, rtol=0, atol=1e-6)
    assert (np.abs(space.log_volume(1e-9 * p.v)) <= 1e-15).all()
    assert space.log_volume(p.v[None]).shape == (1, p.n)


def jacobi_fields_lie_between_those_of_the_curvature_bounds_and_reach_them(space, p):
    """Across v, the singular values of D exp at v are those of constant curvatures.

    There is one for each plane of a basis through v, since the space is symmetric, and they lie
    between the bounds. Turning v into the plane of the largest, or of the smallest, and looking
    again leads to a bound itself.
    """
    if space.dim == 1:
        assert space.curvature == (0, 0)
        return
    r = 0.8 * min(unit(space), space.injectivity_radius / 2)
    longest, shortest = (jacobi_field(kappa, r) for kappa in space.curvature)
    for end, bound in (0, longest), (-1, shortest):
        v = p.v * (r / length(p.v))[:, None]
        for _ in range(4):
            across = np.linalg.svd(v[:, None])[2][:, 1:].swapaxes(1, 2)
            _, stretch, turned = np.linalg.svd(derivative_of_exp(space, p.M, v) @ across)
            assert (shortest - 1e-6 <= stretch).all() and (stretch <= longest + 1e-6).all()
            v = r * np.einsum("nij,nj->ni", across, turned[:, end])
        np.testing.assert_allclose(stretch[:, end], bound, rtol=0, atol=1e-4)


def jacobi_field(kappa, r):
    """Length at r, over r, of the Jacobi field that starts at 0 with unit speed."""
    t = math.sqrt(abs(kappa)) * r
    return 1.0 if t == 0 else math.sin(t) / t if kappa > 0 else math.sinh(t) / t


def steps_follow_one_another(space, p):
    there = space.exp(p.M, p.v)
    same(space, space.exp(p.M, p.v, p.w), space.exp(there, p.w))
    if space.flat:
        same(space, space.exp(p.M, p.v, p.w), space.exp(p.M, p.w, p.v))


def transport_is_a_linear_isometry(space, p):
    carried, other = (space.transport(p.M, p.v, w) for w in (p.w, p.v))
    assert carried.shape == p.w.shape
    agree(space, inner(carried, other) / unit(space), inner(p.w, p.v) / unit(space))
    agree(space, length(carried), length(p.w))
    agree(space, space.transport(p.M, p.v, 2 * p.v - 3 * p.w), 2 * other - 3 * carried)


def transport_keeps_the_direction_of_its_own_step(space, p):
    agree(space, space.transport(p.M, p.v, p.v), -space.log(space.exp(p.M, p.v), p.M))


def transport_back_along_the_geodesic_undoes_it(space, p):
    """Seen where the vectors lead, for the frame at the array that comes back may be another."""
    there = space.exp(p.M, p.v)
    back = space.log(there, p.M)
    returned = space.transport(there, back, space.transport(p.M, p.v, p.w))
    same(space, space.exp(there, back, returned), space.exp(p.M, p.w))


def transport_is_that_of_the_pole_ladder(space, p):
    """The ladder, exact on a symmetric space, mirrors the end of w in the midpoint of the step."""
    there, middle, end = (space.exp(p.M, v) for v in (p.v, p.v / 2, p.w))
    mirrored = space.exp(end, 2 * space.log(end, middle))
    agree(space, space.transport(p.M, p.v, p.w), -space.log(there, mirrored))


def the_geodesic_symmetries_are_isometries(space, p):
    def mirrored(v):
        return space.exp(p.M, -v)

    before = space.dist(space.exp(p.M, p.v), space.exp(p.M, p.w))
    agree(space, space.dist(mirrored(p.v), mirrored(p.w)), before)


def known_isometries_keep_distances_and_geodesics(space, p):
    for isometry in p.isometries:
        M, X = isometry(p.M), isometry(p.X)
        agree(space, space.dist(M, X), space.dist(p.M, p.X))
        halfway = space.exp(p.M, space.log(p.M, p.X) / 2)
        same(space, isometry(halfway), space.exp(M, space.log(M, X) / 2))


def the_mean_balances_the_steps(space, p):
    y = np.stack([p.v, p.w], axis=1).reshape(3, -1, space.dim)
    mean = space.exp(p.M[:3], space.mean(p.M[:3], y, 1e-11 * unit(space)))
    points = space.exp(p.M[:3, None], y)
    gradient = space.log(mean[:, None], points).mean(axis=1)
    assert (length(gradient) <= 1e-10 * unit(space)).all()


def the_mean_has_the_least_energy(space, p):
    """Against a general minimiser, which knows nothing but distances."""
    y, few = np.concatenate([p.v, p.w]), slice(0, None, 4)
    X = space.exp(p.M[0], y[few])

    def energy(step):
        return (space.dist(space.exp(p.M[0], step * unit(space)), X)**2).sum() / unit(space)**2

    found = minimize(energy, np.zeros(space.dim), tol=1e-14)
    agree(space, space.mean(p.M[0], y[few], 1e-11 * unit(space)), found.x * unit(space), 1e-6)


def the_mean_does_not_depend_on_where_the_steps_start(space, p):
    X = space.exp(p.M[0], p.v)
    starts = space.exp(p.M[0], p.w)
    y = space.log(starts[:, None], X)
    means = space.exp(starts, space.mean(starts, y, 1e-12 * unit(space)))
    same(space, means, means[0])


def points_are_points(space, p):
    assert p.M.shape == (p.n, *space.shape) and space.contains(p.M).all()
    assert space.contains(space.exp(p.M, p.v)).all()
    if space.origin is not None:
        assert space.origin.shape == space.shape and space.contains(space.origin).all()


def what_is_called_flat_is_flat(space, p):
    low, high = space.curvature
    assert low <= high and space.injectivity_radius > 0
    if space.flat:
        assert low == high == 0 and space.homogeneous and space.injectivity_radius == math.inf


LAWS = [
    exp_and_log_are_inverse, far_steps_are_found_again, no_step_leads_nowhere,
    the_distance_is_the_length_of_the_step, the_distance_is_a_metric,
    short_distances_have_five_digits, distances_near_the_cut_locus_are_exact,
    coordinates_are_orthonormal, the_frame_is_the_derivative_of_exp,
    squared_distances_of_geodesics_err_in_the_fourth_order, radial_directions_stay_perpendicular,
    log_volume_is_the_log_determinant_of_the_derivative_of_exp,
    jacobi_fields_lie_between_those_of_the_curvature_bounds_and_reach_them,
    steps_follow_one_another, transport_is_a_linear_isometry,
    transport_keeps_the_direction_of_its_own_step, transport_back_along_the_geodesic_undoes_it,
    transport_is_that_of_the_pole_ladder, the_geodesic_symmetries_are_isometries,
    known_isometries_keep_distances_and_geodesics, the_mean_balances_the_steps,
    the_mean_has_the_least_energy, the_mean_does_not_depend_on_where_the_steps_start,
    points_are_points, what_is_called_flat_is_flat,
]


@each_space
@pytest.mark.parametrize("law", LAWS, ids=lambda law: law.__name__)
def test_the_laws_hold(name, law):
    law(SPACES[name][0], sample(*SPACES[name]))


# every law is there for a reason ------------------------------------------------------------------
class Faulty:
    """A space, but for one fault, which a law has to notice."""

    def __init__(self, space, **faults):
        self._space = space
        for name, fault in faults.items():
            setattr(self, name, fault)

    def __getattr__(self, name):
        return getattr(self._space, name)


SHEAR = np.array([[1.0, 0.3, 0], [0, 1, 0], [0, 0, 1]])


def sheared(space):
    """The frame is not orthonormal."""
    back = np.linalg.inv(SHEAR)
    return Faulty(space, log=lambda M, X: space.log(M, X) @ SHEAR,
                  exp=lambda M, *steps: space.exp(M, *(v @ back for v in steps)))


def stretched(space, factor):
    """The metric in another scale; the curvature is not told."""
    return Faulty(space, log=lambda M, X: factor * space.log(M, X),
                  exp=lambda M, *steps: space.exp(M, *(v / factor for v in steps)),
                  dist=lambda X, Y: factor * space.dist(X, Y),
                  log_volume=lambda v: space.log_volume(v / factor),
                  transport=lambda M, v, w: space.transport(M, v / factor, w),
                  mean=lambda M, y, t: factor * space.mean(M, y / factor, t))


def reflected(space):
    """Transport ends with a reflection in the geodesic, which the way back undoes."""
    def transport(M, v, w):
        carried, ahead = space.transport(M, v, w), space.transport(M, v, v)
        return 2 * (inner(ahead, carried) / inner(v, v))[..., None] * ahead - carried

    return Faulty(space, transport=transport)


def by_cosine(space):
    """The distance as the arc cosine of an inner product."""
    return Faulty(space, dist=lambda X, Y: np.arccos(np.clip(inner(X, Y), -1, 1)))


def mean_of_steps(space):
    return Faulty(space, mean=lambda M, y, tolerance: y.mean(axis=-2))


def retracted(space):
    """Straight ahead and back to the sphere: right to first order only."""
    def exp(M, *steps):
        for v in steps:
            X = M + np.einsum("...i,...ij->...j", v, space.frame(M))
            M = X / np.linalg.norm(X, axis=-1, keepdims=True)
        return M

    return Faulty(space, exp=exp)


AFFINE, BALL, SHAPES = AffineInvariant(2), Sphere(3), KendallPlanar(4)
FAULTS = {
    "a frame that is no unit vectors": (sheared(AFFINE), coordinates_are_orthonormal),
    "a metric of another scale": (
        stretched(AFFINE, math.sqrt(2)),
        jacobi_fields_lie_between_those_of_the_curvature_bounds_and_reach_them),
    "a curvature bound that is not reached": (
        Faulty(SHAPES, curvature=(0.5, 4.0)),
        jacobi_fields_lie_between_those_of_the_curvature_bounds_and_reach_them),
    "a curvature without its ½": (
        Faulty(AFFINE, curvature=(-0.25, 0.0)),
        squared_distances_of_geodesics_err_in_the_fourth_order),
    "a transport with a reflection": (
        reflected(Sphere(2)), transport_is_that_of_the_pole_ladder),
    "a transport that does nothing": (
        Faulty(BALL, transport=lambda M, v, w: w), transport_keeps_the_direction_of_its_own_step),
    "a transport of the chart": (
        Faulty(AFFINE, transport=lambda M, v, w: AFFINE.log(
            AFFINE.exp(M, v), AFFINE.exp(M, v + 1e-6 * w)) / 1e-6), transport_is_a_linear_isometry),
    "a volume without its power": (
        Faulty(BALL, log_volume=lambda v: BALL.log_volume(v) / 2),
        log_volume_is_the_log_determinant_of_the_derivative_of_exp),
    "a volume of another space": (
        Faulty(SHAPES, log_volume=lambda v: Sphere(4).log_volume(v)),
        log_volume_is_the_log_determinant_of_the_derivative_of_exp),
    "an arc cosine": (by_cosine(BALL), short_distances_have_five_digits),
    "an arc cosine near the cut locus": (by_cosine(BALL), distances_near_the_cut_locus_are_exact),
    "a squared distance": (
        Faulty(BALL, dist=lambda X, Y: BALL.dist(X, Y)**2), the_distance_is_a_metric),
    "a retraction for exp": (retracted(BALL), exp_and_log_are_inverse),
    "a mean of steps": (mean_of_steps(AFFINE), the_mean_balances_the_steps),
    "a mean that is none": (mean_of_steps(BALL), the_mean_has_the_least_energy),
    "a space that is not flat": (
        Faulty(LogEuclidean(2), curvature=(-1.0, 0.0)), what_is_called_flat_is_flat),
}
POINTS = {AffineInvariant: spd, LogEuclidean: spd, Sphere: unit_vectors, KendallPlanar: landmarks}


@pytest.mark.parametrize("name", FAULTS)
def test_a_law_notices_a_fault(name):
    space, law = FAULTS[name]
    p = sample(space._space, POINTS[type(space._space)], none_known)
    law(space._space, p)
    with pytest.raises(AssertionError):
        law(space, p)


def test_only_the_pole_ladder_notices_a_reflection():
    space = reflected(Sphere(2))
    p = sample(space, unit_vectors, orthogonal_maps)
    for law in LAWS:
        if law is not transport_is_that_of_the_pole_ladder:
            law(space, p)
