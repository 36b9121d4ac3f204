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

import mpmath
import numpy as np
import pytest
from conftest import mostly_slow
from hyperbolic import Hyperbolic, from_vertex, raised
from scipy.optimize import minimize
from tables import BALLS, POINT, POLE, SHAPE, unit

from spdlib._parallel import by_blocks
from spdlib.spaces import (AffineInvariant, Euclidean, KendallPlanar, LogEuclidean, Sphere,
                           TangentSpace, means)
from spdlib.spaces.functions import cosine, sinc
from spdlib.spd import expm, invvecd, random_spd, vecd


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


def on_the_hyperboloid(space, n, rng):
    return from_vertex(rng.standard_normal((n, 2)))


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


def lorentz_maps(space, rng):
    """A boost, a turn of the plane, and a reflection."""
    Q, M = orthogonal(2, rng), from_vertex(rng.standard_normal(2))
    return (lambda X: raised(M, X), lambda X: np.concatenate([X[..., :1], X[..., 1:] @ Q], axis=-1),
            lambda X: X * [1, -1, 1])


def none_known(space, rng):
    return ()


class Turned:
    """A space whose frame at an array is turned, by a matrix that jumps from array to array.

    Volumes and curvature are told without a point: turns have to be isometries of the space.
    """

    def _turns(self, M):
        entry = M[(..., *len(self.shape) * (0,))].real
        return self.turns[np.floor(1e3 * entry).astype(int) % 2]

    def _turn(self, M, v, back=False):
        return np.einsum("...ij,...i->...j" if back else "...ij,...j->...i", self._turns(M), v)

    def _step(self, M, X):
        return self._turn(M, self.plain._step(M, X))

    def _end(self, M, v):
        return self.plain._end(M, self._turn(M, v, back=True))

    def carried(self, M, v, w, there=None):
        v, w = (self._turn(M, x, back=True) for x in (v, w))
        there = self.points(self.plain._end(M, v)) if there is None else there
        return self._turn(there, self.plain.carried(M, v, w, there))

    def frame(self, M):
        M = self.points(M)
        plain = self.plain.frame(M)
        columns = plain.reshape(*plain.shape[:-len(self.shape)], -1)
        return np.einsum("...ij,...jk->...ik", self._turns(M), columns).reshape(plain.shape)


def turned(space):
    """The space with other frames."""
    rng, other = np.random.default_rng(9), copy.copy(space)
    other.__class__ = type("Turned", (Turned, type(space)), {})
    other.plain, other.turns = space, np.array([orthogonal(space.dim, rng) for _ in range(2)])
    if isinstance(space, AffineInvariant):
        Q, basis = orthogonal(space.k, rng), invvecd(np.eye(space.dim))
        other.turns = np.array([np.eye(space.dim), vecd(Q @ basis @ Q.T).T])
    if isinstance(space, KendallPlanar):
        x, y = rng.standard_normal((2, 2, space.dim // 2, space.dim // 2))
        U = np.linalg.qr(x + 1j * y)[0]
        other.turns = np.block([[U.real, -U.imag], [U.imag, U.real]])
    return other


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
    "sphere 10": (Sphere(10), unit_vectors, orthogonal_maps),
    "small sphere 3": (Sphere(3, 1e6), unit_vectors, orthogonal_maps),
    "large sphere 2": (Sphere(2, 1e-6), unit_vectors, orthogonal_maps),
    "triangles": (KendallPlanar(3), landmarks, similarities_of_the_plane),
    "quadrilaterals": (KendallPlanar(4), landmarks, similarities_of_the_plane),
    "hexagons": (KendallPlanar(6), landmarks, similarities_of_the_plane),
    "hyperbolic": (Hyperbolic(), on_the_hyperboloid, lorentz_maps),
    "turned affine-invariant 3": (turned(AffineInvariant(3)), spd, congruences),
    "turned sphere 3": (turned(Sphere(3)), unit_vectors, orthogonal_maps),
    "turned pentagons": (turned(KendallPlanar(5)), landmarks, similarities_of_the_plane),
    "chart of SPD": (BALLS["chart of SPD"].space, spd, none_known),
    "chart of a sphere": (TangentSpace(Sphere(2), POINT), near_the_centre, none_known),
    "chart of shapes": (TangentSpace(KendallPlanar(4), SHAPE[:4]), near_the_centre, none_known),
}
CURVED = {name: row for name, row in SPACES.items() if not row[0].flat}
FAST = ("Euclidean 3", "log-Euclidean 1", "affine-invariant 2", "circle", "sphere 2", "triangles",
        "quadrilaterals", "hyperbolic", "turned sphere 3", "chart of a sphere")
each_space = pytest.mark.parametrize("name", mostly_slow(SPACES, *FAST))
each_curved_space = pytest.mark.parametrize("name", mostly_slow(CURVED, *FAST))


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
    assert (length(space.log(p.M, p.M)) <= 1e-13 * unit(space)).all()


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
    assert (space.dist(p.M, p.M) <= 1e-13 * unit(space)).all()
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
    if not hasattr(space, "frame"):  # for nothing but a look at vectors
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
    alone = [space.log_volume(v) for v in p.v]
    assert np.array_equal(space.log_volume(p.v), alone)
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


def jacobi_fields_are_the_derivatives_of_geodesics(space, p):
    """By the velocity, J(0) = 0, and by the point, J'(0) = 0, in the frame that transport carries.

    One field in each direction of the frame, against central differences.
    """
    curving, axes = space.jacobi(p.v)
    assert curving.shape == p.v.shape and axes.shape == (*p.v.shape, space.dim)
    np.testing.assert_allclose(axes.swapaxes(1, 2) @ axes, [np.eye(space.dim)] * p.n, atol=1e-13)
    along = np.einsum("nij,ni->nj", axes, p.v)
    np.testing.assert_allclose(along * curving / unit(space), 0, rtol=0, atol=1e-13)
    M, v, h = p.M[:, None], p.v[:, None], 1e-4 * unit(space)
    carried = space.transport(M, v, np.eye(space.dim))

    def field(f):
        return np.einsum("nij,nj,nkj,nil->nkl", axes, f(curving), axes, carried)

    def moved(h):
        e = h * np.eye(space.dim)
        return space.log(space.exp(p.M, p.v)[:, None],
                         space.exp(space.exp(M, e), space.transport(M, e, v)))

    by_point = (moved(h) - moved(-h)) / (2 * h)
    np.testing.assert_allclose(field(cosine), by_point, rtol=0, atol=1e-7)
    by_velocity = derivative_of_exp(space, p.M, p.v).swapaxes(1, 2)
    np.testing.assert_allclose(field(sinc), by_velocity, rtol=0, atol=1e-7)


def at_rest_nothing_bends(space, p):
    curving, axes = space.jacobi(0 * p.v[None])
    np.testing.assert_array_equal(curving, np.zeros((1, *p.v.shape)))
    np.testing.assert_allclose(axes.swapaxes(2, 3) @ axes, [[np.eye(space.dim)] * p.n], atol=1e-15)


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

    def energy(steps):
        at = space.exp(p.M[0], steps * unit(space))[..., None, *len(space.shape) * (slice(None),)]
        return (space.dist(at, X)**2).sum(axis=-1) / unit(space)**2

    def slopes(step):
        h = 1e-4 * np.eye(space.dim)
        return (energy(step + h) - energy(step - h)) / 2e-4

    found = minimize(energy, np.zeros(space.dim), jac=slopes, tol=1e-9)
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
    jacobi_fields_are_the_derivatives_of_geodesics, at_rest_nothing_bends,
    steps_follow_one_another, transport_is_a_linear_isometry,
    transport_keeps_the_direction_of_its_own_step, transport_back_along_the_geodesic_undoes_it,
    transport_is_that_of_the_pole_ladder, the_geodesic_symmetries_are_isometries,
    known_isometries_keep_distances_and_geodesics, the_mean_balances_the_steps,
    the_mean_has_the_least_energy, the_mean_does_not_depend_on_where_the_steps_start,
    points_are_points, what_is_called_flat_is_flat,
]


@pytest.mark.slow
@each_space
def test_the_laws_hold(name):
    for law in LAWS:  # six hundred tests would cost more than what they look at
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
                  jacobi=lambda v: space.jacobi(v / factor),
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
    "a curvature of the same in all directions": (
        Faulty(SHAPES, jacobi=Sphere(4).jacobi), jacobi_fields_are_the_derivatives_of_geodesics),
    "a curvature that is doubled": (
        Faulty(AFFINE, jacobi=lambda v: (2 * AFFINE.jacobi(v)[0], AFFINE.jacobi(v)[1])),
        jacobi_fields_are_the_derivatives_of_geodesics),
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


def test_only_the_pole_ladder_and_jacobi_fields_notice_a_reflection():
    space = reflected(Sphere(2))
    p = sample(space, unit_vectors, orthogonal_maps)
    for law in LAWS:
        if law not in (transport_is_that_of_the_pole_ladder,
                       jacobi_fields_are_the_derivatives_of_geodesics):
            law(space, p)


# what no law says ---------------------------------------------------------------------------------
@pytest.mark.parametrize("name", ["affine-invariant 3", "sphere 2", "quadrilaterals"])
def test_no_point_depends_on_the_frame(name):
    space, other = SPACES[name][0], turned(SPACES[name][0])
    p = sample(*SPACES[name])
    v = other.log(p.M, space.exp(p.M, p.v))
    assert not np.allclose(v, p.v)
    np.testing.assert_allclose(other.log_volume(v), space.log_volume(p.v), atol=1e-12)
    np.testing.assert_allclose(length(v), length(p.v))
    np.testing.assert_array_equal(other.dist(p.M, p.X), space.dist(p.M, p.X))
    means = [s.exp(p.M[0], s.mean(p.M[0], s.log(p.M[0], space.exp(p.M[0], p.v)), 1e-12))
             for s in (space, other)]
    assert space.dist(*means) <= 1e-11


@each_space
def test_points_and_steps_broadcast(name):
    space, points, _ = SPACES[name]
    rng = np.random.default_rng(0)
    for at, steps in itertools.product([(), (1,), (4, 1)], [(), (3,), (4, 3)]):
        both = np.broadcast_shapes(at, steps)
        M = points(space, math.prod(at), rng).reshape(*at, *space.shape)
        v = 0.1 * unit(space) * rng.standard_normal((*steps, space.dim)) / space.dim
        X = space.exp(M, v)
        assert X.shape == (*both, *space.shape) and space.dist(M, X).shape == both
        agree(space, space.log(M, X), np.broadcast_to(v, (*both, space.dim)))
        assert space.transport(M, v, v).shape == (*both, space.dim)
        assert space.log_volume(v).shape == steps and space.contains(X).shape == both


@each_space
def test_a_large_batch_is_what_its_parts_are(name):
    space, points, _ = SPACES[name]
    rng, n = np.random.default_rng(0), 400
    M, X = points(space, n, rng), points(space, n, rng)
    many = np.tile(np.arange(n), 10)
    v = space.log(M, X)
    agree(space, space.log(M[many], X[many]), v[many])
    agree(space, space.dist(M[:, None], X[None, :10])[3], space.dist(M[3], X[:10]))
    same(space, space.exp(M[many], v[many]), X[many], 1e-7)


@pytest.mark.slow
@pytest.mark.parametrize("space, points", [
    pytest.param(Sphere(2), unit_vectors, id="S²"),
    pytest.param(Sphere(10), unit_vectors, id="S¹⁰"),
    pytest.param(KendallPlanar(5), landmarks, id="shapes"),
])
def test_a_record_has_the_same_bits_whatever_stands_beside_it(space, points):
    """Alone, in a pair, and in a batch of several blocks; also near, and nearly opposite."""
    rng, n = np.random.default_rng(0), 50_000
    M, X = points(space, 2, rng)[0], points(space, n, rng)
    lengths = np.array([[1e-9], [0.1], [0.3], [0.5], [1.1], [1.5]])
    X[:6] = space.exp(M, lengths * np.eye(space.dim)[0])
    v = space.log(M, X)
    of_all = v, space.exp(M, v), space.dist(M, X)
    for size in 1, 2:
        for i in range(0, 60, size):
            part = slice(i, i + size)
            some = space.log(M, X[part]), space.exp(M, v[part]), space.dist(M, X[part])
            for one, other in zip(some, of_all, strict=True):
                np.testing.assert_array_equal(one, other[part])
    for i in range(20):
        np.testing.assert_array_equal(space.dist(M, X[i]), of_all[2][i])


def test_distances_of_many_components_are_those_of_the_chords():
    """Also where they come from the inner product; to a few units of rounding."""
    space, rng = Sphere(10, 2.0), np.random.default_rng(0)
    ends = math.pi - np.array([1e-9, 1e-6, 1e-3, 0.1])
    angles = np.concatenate([math.pi - ends, np.linspace(0.1, 3, 100), ends])
    M, v = unit_vectors(space, 50, rng)[:, None], rng.standard_normal((50, len(angles), 10))
    v *= (angles / math.sqrt(2) / length(v))[..., None]
    X = space.exp(M, v)
    np.testing.assert_allclose(space.dist(M, X), super(Sphere, space).distances(M, X), rtol=8e-15)


@pytest.mark.parametrize("size", [1, 3, 7, 1000])
@pytest.mark.parametrize("threads", [1, 2])
def test_blocks_of_a_batch_make_up_the_whole(size, threads):
    def difference(x, y):
        return x - y

    rng = np.random.default_rng(0)
    for left, right in [((), (5,)), ((7, 1), (4,)), ((1, 11), (2, 1)), ((6, 1, 2), (6, 9, 1))]:
        x, y = rng.standard_normal((*left, 3)), rng.standard_normal((*right, 3))
        made = by_blocks(difference, (x, y), (1, 1), np.empty(3), size, threads)
        np.testing.assert_array_equal(made, x - y)


@each_space
def test_single_precision_lists_and_integers_are_taken(name):
    space, points, _ = SPACES[name]
    X = points(space, 3, np.random.default_rng(0))
    narrow = X.astype(np.complex64 if np.iscomplexobj(X) else np.float32)
    same(space, X, narrow, 1e-5)
    assert space.contains(narrow).all() and space.log(narrow, X).dtype == np.float64
    agree(space, space.dist(X[0].tolist(), X.tolist()), space.dist(X[0], X))
    whole = np.zeros(space.shape, int)
    whole.flat[::space.shape[0] + 1] = 1  # I, the first axis, one landmark apart
    agree(space, space.dist(whole, whole.astype(float)), 0)


@each_space
def test_a_space_can_be_copied_compared_and_read(name):
    space = SPACES[name][0]
    if not isinstance(space, Turned):
        for other in copy.copy(space), copy.deepcopy(space), pickle.loads(pickle.dumps(space)):
            assert other == space and hash(other) == hash(space) and repr(other) == repr(space)
        read = eval(repr(space))
        assert read == space or space.dist(read.origin, space.origin) < 1e-15
    assert [other for other, _, _ in SPACES.values() if other == space] == [space]
    assert space != repr(space)


@pytest.mark.parametrize("make, wrong, accepted", [
    (LogEuclidean, "k", "≥ 1"), (Euclidean, "k", "≥ 1"), (AffineInvariant, "k", "≥ 1"),
    (Sphere, "d", "≥ 1"), (KendallPlanar, "landmarks", "≥ 3"),
])
def test_a_space_has_a_size(make, wrong, accepted):
    assert make(np.int64(4)) == make(4)
    for size in (0, -1, 2.0, True, "3", None):
        with pytest.raises(ValueError, match=f"{wrong} is .*; accepted are integers {accepted}"):
            make(size)


def test_dimensions_are_those_of_the_books():
    assert [AffineInvariant(k).dim for k in (1, 2, 5)] == [1, 3, 15]
    assert [KendallPlanar(m).dim for m in (3, 4, 50)] == [2, 4, 96]
    assert Sphere(7).dim == 7 and Sphere(7).shape == (8,)


@pytest.mark.parametrize("kappa", [0, -1.0, math.inf, math.nan, "1", None, 1e-160, 1e160])
def test_a_sphere_has_a_curvature_above_0_of_which_lengths_have_squares(kappa):
    with pytest.raises(ValueError, match="kappa is .*; accepted are 1e-150 to 1e150"):
        Sphere(2, kappa)


def test_the_functions_of_curvature_pass_smoothly_from_one_sign_to_the_other():
    c = np.array([-9, -1e-3, -1e-12, -1e-300, 0, 1e-300, 1e-12, 1e-3, 9])
    root = np.sqrt(c.astype(complex))
    np.testing.assert_allclose(cosine(c), np.cos(root).real, rtol=1e-15)
    np.testing.assert_allclose(sinc(c), np.sinc(root / math.pi).real, rtol=1e-14)
    assert cosine(-4) == math.cosh(2) and sinc(0) == 1 and sinc(c[:0]).shape == (0,)


SQUARE = np.array([1, 1j, -1, -1j])
EQUILATERAL = np.exp(2j * math.pi * np.arange(3) / 3)
REFUSED = {
    "a matrix that is not SPD": (
        lambda: AFFINE.log(np.eye(2), [np.eye(2), np.diag([1, -3.0])]),
        r"X\[1\] is not positive definite: its smallest eigenvalue is -3"),
    "a singular matrix": (
        lambda: AFFINE.exp([np.eye(2), np.ones((2, 2))], np.zeros(3)), r"M\[1\] is not positive"),
    "a matrix that is not symmetric": (
        lambda: AFFINE.dist(np.eye(2), [[1, 0.1], [0, 1]]), "Y is not symmetric"),
    "NaN in a matrix": (
        lambda: AFFINE.log(np.full((3, 2, 2), np.nan), np.eye(2)), r"M\[0, 0, 0\] is nan"),
    "a matrix of another size": (
        lambda: AFFINE.log(np.eye(3), np.eye(2)), r"M has shape \(3, 3\); .* \(..., 2, 2\)"),
    "a matrix for a flat space of another size": (
        lambda: LogEuclidean(2).log(np.eye(2), np.eye(3)), r"X has shape \(3, 3\)"),
    "a complex matrix": (lambda: AFFINE.log(np.eye(2), 1j * np.eye(2)), "X is an array of dtype c"),
    "a masked matrix": (
        lambda: AFFINE.log(np.eye(2), np.ma.masked_equal(np.eye(2), 0)), "X is .* masked entries"),
    "a step out of the floats": (
        lambda: AFFINE.exp(np.eye(2), [[1, 1, 0], [9e3, 0, 0]]), r"step\[1\] leads where float64"),
    "a step to the edge of the cone": (
        lambda: AFFINE.exp(np.eye(2), [40.0, 0, 0]), "step leads where float64 holds no SPD"),
    "a step that is no number": (
        lambda: AFFINE.exp(np.eye(2), [1, math.nan, 0]), r"step\[1\] is nan"),
    "a step of another dimension": (
        lambda: BALL.exp([1, 0, 0, 0], [1.0, 2]), r"step has shape \(2,\); .* \(..., 3\)"),
    "a step of another dimension in a flat space": (
        lambda: LogEuclidean(2).exp(np.eye(2), np.ones(6)), r"step has shape \(6,\)"),
    "a vector of another dimension": (
        lambda: BALL.transport([1, 0, 0, 0], np.ones(3), np.ones(4)), r"w has shape \(4,\)"),
    "a volume of another dimension": (lambda: BALL.log_volume(np.ones(4)), r"v has shape \(4,\)"),
    "antipodes": (
        lambda: Sphere(2).log(POLE, [[1, 0, 0], -POLE]), r"X\[1\] is a cut point of M.*3.14159"),
    "antipodes, nearly": (
        lambda: Sphere(2, 4.0).log(POLE, [1e-9, 0, -1]), "X is a cut point of M.* 1.5708"),
    "a point off the sphere": (
        lambda: Sphere(2).log([POLE, 2 * POLE], POLE), r"M\[1\] has length 2; .* unit vectors"),
    "a complex vector": (lambda: Sphere(2).log(POLE, 1j * POLE), "X is an array of dtype complex"),
    "NaN on the sphere": (lambda: Sphere(2).dist(POLE, [0, math.nan, 1]), r"Y\[1\] is nan"),
    "a step many times around": (
        lambda: Sphere(2).exp(POLE, [1e200, 0]), "step has length .*; accepted are those up to"),
    "landmarks that all coincide": (
        lambda: SHAPES.log(SQUARE, [SQUARE, np.full(4, 7 + 1j)]), r"X\[1\] has landmarks that all"),
    "landmarks that all but coincide": (
        lambda: SHAPES.dist(SQUARE, 1e9 + SQUARE), "Y has landmarks that all coincide"),
    "the mirror image of an equilateral triangle": (
        lambda: KendallPlanar(3).log(EQUILATERAL, EQUILATERAL.conj()), "X is a cut point of M"),
    "another number of landmarks": (
        lambda: SHAPES.dist(SQUARE, EQUILATERAL), r"Y has shape \(3,\); accepted is \(..., 4\)"),
    "landmarks that are no numbers": (
        lambda: SHAPES.points(list("abcd")), "X is an array of dtype <U1"),
    "infinite landmarks": (lambda: SHAPES.points([1, 1j, 0, math.inf]), r"X\[3\] is"),
    "a mean of nothing": (
        lambda: AFFINE.mean(np.eye(2), np.ones((0, 3)), 1e-9), r"y has shape \(0, 3\).* n ≥ 1"),
    "a mean of points out of the floats": (
        lambda: AFFINE.mean(np.eye(2), [[[1, 0, 0], [2, 0, 0]], [[1, 1, 0], [9e3, 0, 0]]], 1e-9),
        r"step\[1, 1\] leads where float64"),
    "a mean to no tolerance": (
        lambda: AFFINE.mean(np.eye(2), np.ones((4, 3)), 0), "tolerance is 0; accepted are"),
    "a centre that is no point": (
        lambda: TangentSpace(Sphere(2), [0, 0, 2.0]), "center has length 2"),
    "several centres": (
        lambda: TangentSpace(Sphere(2), np.eye(3)), r"center has shape \(3, 3\); acc"),
    "the chart of a flat space": (
        lambda: TangentSpace(LogEuclidean(2), np.eye(2)), r"space is LogEuclidean\(2\).*accepted"),
    "a matrix of which the distance is infinite": (
        lambda: Euclidean(2).log(np.eye(2), [np.eye(2), [[0, 1.5e308], [1.5e308, 0]]]),
        r"X\[1, 0, 1\] is 1.5e\+308; accepted are entries up to 4.49"),
    "a volume out of the floats": (
        lambda: Sphere(1).log_volume([1e200]), "a step has length inf; accepted are those up to"),
    "a volume of shapes out of the floats": (
        lambda: KendallPlanar(3).log_volume([1e200, 0]), "a step has length inf; accepted"),
}


@pytest.mark.parametrize("name", REFUSED)
def test_what_is_refused_is_named(name):
    call, message = REFUSED[name]
    with pytest.raises(ValueError, match=message):
        call()


@each_curved_space
def test_no_data_sets_have_no_means_and_one_record_is_its_own(name):
    space, points, _ = SPACES[name]
    M, y = points(space, 1, np.random.default_rng(0))[0], 0.1 * unit(space) * np.ones(space.dim)
    assert space.mean(M, np.ones((0, 5, space.dim)), 1e-9).shape == (0, space.dim)
    agree(space, space.mean(M, y[None] / space.dim, 1e-12 * unit(space)), y / space.dim)


def test_a_mean_that_is_not_reached_is_none(monkeypatch):
    monkeypatch.setattr(means, "STEPS", 9)
    with pytest.raises(ValueError, match="the descent .* after 9 steps; accepted is 1e-300"):
        AFFINE.mean(np.eye(2), np.vander([0.1, 2], 3), 1e-300)


def test_what_a_space_contains():
    sound = np.array([[2.0, 1], [1, 2]])
    for bad in (np.nan * sound, -sound, np.ones((2, 2)), np.triu(sound), np.diag([1, np.inf])):
        for space in (LogEuclidean(2), AFFINE):
            assert space.contains(np.stack([sound, bad])).tolist() == [True, False]
    assert Sphere(2).contains([POLE, 2 * POLE, np.nan * POLE]).tolist() == [True, False, False]
    shapes = [SQUARE, np.ones(4), [1, 0, 1j, np.inf]]
    assert SHAPES.contains(shapes).tolist() == [True, False, False]
    assert Euclidean(2).contains([sound, 5e307 * sound, np.nan * sound]).tolist() == [
        True, False, False]


@pytest.mark.filterwarnings("error")
@pytest.mark.parametrize("scale", [5e-324, 1e-315, 1e-300, 1e300])
def test_landmarks_of_any_scale_are_a_shape_or_none_without_a_warning(scale):
    """Below the normal floats they are taken for landmarks that coincide."""
    assert SHAPES.contains(scale * SQUARE) == (scale >= 1e-300)
    assert scale < 1e-300 or SHAPES.dist(scale * SQUARE, SQUARE) < 1e-15


@pytest.mark.parametrize("space, M, X", [
    (Sphere(2, 4.0), POLE, -POLE), (SHAPES, SQUARE, SQUARE.conj()),
    (KendallPlanar(3), EQUILATERAL, EQUILATERAL.conj()),
])
def test_at_a_cut_point_there_is_a_step_of_full_length_all_the_same(space, M, X):
    """Of the unchecked map: the clipped residual of a density has to be something there."""
    step = space.steps(space.points(M), space.points(X))
    assert math.isclose(length(step), space.injectivity_radius, rel_tol=1e-12)
    assert space.dist(space.exp(M, step), X) < 1e-12 or space.dim > 2


@pytest.mark.parametrize("n", [5, 20])
def test_the_frame_at_a_shape_is_no_accident_of_rounding(n):
    """Not where the first component of the unit vector that stands for the shape is all but 0."""
    space, rng = KendallPlanar(n), np.random.default_rng(0)
    M = landmarks(space, 40, rng)
    M -= M.mean(axis=1, keepdims=True)
    M[:, 1] = M[:, 0] / (math.sqrt(n) + 1)
    M[:, 2:] -= M.sum(axis=1, keepdims=True) / (n - 2)
    M = 7 * np.exp(1j) * M + 3
    v = rng.standard_normal((40, space.dim)) / 20
    X = space.exp(M, v)
    agree(space, np.array([space.log(m, x) for m, x in zip(M, X, strict=True)]), v)
    agree(space, space.log(M, X), v)


@pytest.mark.parametrize("k", [1, 2, 3, 4])
@pytest.mark.parametrize("scale", [1.0, 1e-150, 1e-300])
def test_matrices_of_any_scale_have_a_distance(k, scale):
    """Up to 2 ln 1e300 √k, seen from the one and from the other."""
    space, X = AffineInvariant(k), random_spd(5, k, 1.0, rng=0)
    Y, apart = X / scale, -math.log(scale) * math.sqrt(k)
    Z = X * scale
    np.testing.assert_allclose(space.dist(X, Y), apart, rtol=1e-12, atol=1e-14)
    np.testing.assert_allclose(space.dist(Z, Y), 2 * apart, rtol=1e-12, atol=1e-14)
    assert (space.dist(space.exp(Z, space.log(Z, Y)), Y) < 1e-11).all()


@pytest.mark.parametrize("k", [2, 3, 4])
def test_ill_conditioned_matrices_are_seen_from_one_another(k):
    """Each of condition 1e8, of condition 1e16 as the other sees it."""
    space, Q = AffineInvariant(k), orthogonal(k, np.random.default_rng(1))
    spectrum = np.geomspace(1e-8, 1, k)
    M, X = ((Q * s) @ Q.T for s in (spectrum, spectrum[::-1]))
    M, X = (M + M.T) / 2, (X + X.T) / 2
    apart = np.linalg.norm(np.log(spectrum / spectrum[::-1]))
    for distance in (space.dist(M, X), space.dist(X, M), length(space.log(M, X))):
        assert math.isclose(distance, apart, rel_tol=1e-8)
    np.testing.assert_allclose(space.exp(M, space.log(M, X)), X, rtol=1e-9, atol=1e-12)


@pytest.mark.slow
@pytest.mark.parametrize("k", mostly_slow([2, 3], 2))
@pytest.mark.parametrize("reach", mostly_slow([15.0, 22.0], 22.0))
def test_the_chart_has_the_points_that_float64_does_not_hold(k, reach):
    """Held against 60 digits; a triangular factor with entries far apart once broke LAPACK."""
    space, rng = AffineInvariant(k), np.random.default_rng(0)
    for _ in range(30):
        u, v = rng.standard_normal((2, space.dim))
        u, v = reach * u / length(u), 2 * reach * v / length(v)
        with mpmath.workdps(60):
            L = mpmath.matrix(np.linalg.cholesky(expm(invvecd(u))).tolist())
            X = L * mpmath.expm(mpmath.matrix(invvecd(v).tolist())) * L.T
            logs = [float(mpmath.log(value)) for value in mpmath.eigsy(X, eigvals_only=True)]
        found = np.linalg.eigvalsh(invvecd(space.chart(np.eye(k), u, v)))
        np.testing.assert_allclose(found, sorted(logs), rtol=0, atol=0.01)


@pytest.mark.parametrize("k", [2, 3])
@pytest.mark.parametrize("condition", [1e2, 1e8, 1e14])
def test_the_step_to_a_mean_is_the_same_from_a_matrix_of_any_condition(k, condition):
    """Else it would depend on the data whether the descent ends."""
    space, rng = AffineInvariant(k), np.random.default_rng(0)
    Q, spectrum = orthogonal(k, rng), np.geomspace(1, 1 / condition, k)
    M, y = (Q * spectrum) @ Q.T, rng.standard_normal((20, space.dim)) / 2
    M = (M + M.T) / 2
    np.testing.assert_array_equal(space.mean(M, y, 1e-12), space.mean(np.eye(k), y, 1e-12))
    assert space.mean(np.stack([M, M]), y, 1e-12).shape == (2, space.dim)


@pytest.mark.parametrize("k", [2, 3, 4])
@pytest.mark.parametrize("n", [2, 600])
def test_a_matrix_that_is_contained_is_a_point_whatever_the_size_of_the_batch(k, n):
    space, rng = AffineInvariant(k), np.random.default_rng(0)
    for share in rng.uniform(0.5, 2, 40):
        Q, spectrum = orthogonal(k, rng), np.ones(k)
        spectrum[-1] = share * k * 2.0**-52
        A = (Q * spectrum) @ Q.T
        X = np.stack([(A + A.T) / 2] + (n - 1) * [np.eye(k)])
        if space.contains(X).all():
            space.points(X)
        else:
            with pytest.raises(ValueError, match=r"X\[0\] is not positive definite"):
                space.points(X)


def test_a_unit_vector_is_the_same_point_whatever_stands_beside_it():
    X = np.random.default_rng(0).standard_normal((100, 3))
    X /= length(X)[:, None]
    beside = Sphere(2).points(np.concatenate([X, [[0, 0, 1 + 1e-9]]]))
    np.testing.assert_array_equal(beside[:-1], Sphere(2).points(X))
    np.testing.assert_array_equal(beside[-1], POLE)


def test_a_chart_does_not_move_with_the_array_of_its_centre():
    center = POLE.copy()
    chart = TangentSpace(Sphere(2), center)
    center[:] = [1, 0, 0]
    np.testing.assert_array_equal(chart.origin, POLE)


@pytest.mark.parametrize("kappa", [0.1, 1.0, 2.0, 3.0])
def test_the_volume_of_a_circle_is_its_length_all_around(kappa):
    space = Sphere(1, kappa)
    steps = space.injectivity_radius * np.array([[0.0], [0.5], [1], [1.5], [7]])
    np.testing.assert_array_equal(space.log_volume(steps), 0)


def test_volumes_beyond_a_cut_point_are_those_of_the_geodesics():
    assert math.isclose(Sphere(3).log_volume([4.0, 0, 0]), 2 * math.log(-math.sin(4) / 4))
    expected = math.log(math.sin(8) / 8)
    assert math.isclose(KendallPlanar(3).log_volume([4.0, 0]), expected)


@pytest.mark.parametrize("k", [2, 3, 4])
def test_a_step_within_reach_leads_to_a_point(k):
    space, rng = AffineInvariant(k), np.random.default_rng(0)
    M = random_spd(1, k, 1.0, rng)[0]
    for size in (1.0, 50.0, 1e4, 1e300):
        v = rng.standard_normal(space.dim)
        v *= size / length(v)
        part = space.within_reach(M, v)
        assert space.contains(space.exp(M, part))
        if size == 1:
            np.testing.assert_array_equal(part, v)
        assert min(size, 5) <= 1.01 * length(part) < 2e3
        np.testing.assert_allclose(part / length(part), v / size)


@pytest.mark.parametrize("k", [25, 26, 30])
def test_steps_to_large_matrices_lead_there(k):
    space, X = AffineInvariant(k), random_spd(4, k, 0.5, 0)
    assert np.abs(space.exp(X[0], space.log(X[0], X)) - X).max() < 1e-12
    assert np.abs(space.exp(X[0], np.zeros(space.dim)) - X[0]).max() < 1e-13


def test_the_chart_of_affine_invariant_matrices_at_the_identity_is_log_euclidean():
    X, Y = random_spd(9, 3, 1.0, rng=0), random_spd(9, 3, 1.0, rng=1)
    chart, space = TangentSpace(AffineInvariant(3), np.eye(3)), LogEuclidean(3)
    np.testing.assert_allclose(chart.dist(X, Y), space.dist(X, Y))
    np.testing.assert_allclose(chart.coordinates(X), space.coordinates(X), atol=1e-14)


def test_triangles_are_a_sphere_of_radius_one_half():
    space, sphere, rng = KendallPlanar(3), Sphere(2, 4.0), np.random.default_rng(0)
    M, X, Y = landmarks(space, 3, rng)
    steps = space.log(M, [X, Y])
    twins = sphere.exp(POLE, steps)
    assert math.isclose(space.dist(X, Y), sphere.dist(*twins), rel_tol=1e-12)


def test_known_distances():
    assert math.isclose(AffineInvariant(3).dist(np.eye(3), math.e * np.eye(3)), math.sqrt(3))
    assert math.isclose(Sphere(2, 0.25).dist(POLE, [1, 0, 0]), math.pi)
    assert math.isclose(SHAPES.dist(SQUARE, SQUARE.conj()), math.pi / 2)


@pytest.mark.slow
@pytest.mark.parametrize("k", [2, 3, 5])
def test_affine_invariant_matrices_are_those_of_pyriemann(k):
    from pyriemann.geometry.distance import distance_riemann  # here, since it takes a second
    from pyriemann.geometry.mean import mean_riemann
    from pyriemann.geometry.tangentspace import exp_map_riemann, log_map_riemann

    space, M, X = AffineInvariant(k), random_spd(1, k, 1.0, 0)[0], random_spd(30, k, 1.0, 1)
    np.testing.assert_allclose(space.dist(M, X), distance_riemann(X, np.broadcast_to(M, X.shape)))
    v = space.log(M, X)
    ambient = np.einsum("ni,ijk->njk", v, space.frame(M))
    np.testing.assert_allclose(ambient, log_map_riemann(X, M, C12=True), atol=1e-12)
    np.testing.assert_allclose(space.exp(M, v), exp_map_riemann(ambient, M, Cm12=True), rtol=1e-9)
    mean = space.exp(M, space.mean(M, v, 1e-12))
    np.testing.assert_allclose(mean, mean_riemann(X, tol=1e-12, maxiter=200), rtol=1e-9)


@pytest.mark.parametrize("space, M", [(Sphere(2), POLE), (Sphere(2, 4.0), POLE),
                                      (KendallPlanar(4), SQUARE)])
@pytest.mark.parametrize("radians, refused", [(0.9e-8, True), (1.2e-8, False)])
def test_a_point_is_taken_for_a_cut_point_within_a_hundred_millionth(space, M, radians, refused):
    """Of the way there. At this distance itself either will do: no more than a float tells them
    apart, and the margin is a choice."""
    step = np.zeros(space.dim)
    step[0] = space.injectivity_radius * (1 - radians)
    X = space.exp(M, step)
    if refused:
        with pytest.raises(ValueError, match="is a cut point of M"):
            space.log(M, X)
    else:
        assert length(space.log(M, X)) == pytest.approx(step[0], rel=1e-9)


@pytest.mark.parametrize("space, M, axis, rho", [
    (Sphere(2), POINT, [1, 0], 0.5), (Sphere(2, 4.0), POINT, [1, 0], 0.3),
    (Sphere(2, 0.25), POINT, [1, 0], 1.0), (AFFINE, np.eye(2), [0.5**0.5, -0.5**0.5, 0], 2.0)])
def test_the_paces_of_a_descent_are_those_of_the_hessian_which_two_records_reach(
        space, M, axis, rho):
    """Its eigenvalues by differences of the gradient, for records opposite one another."""
    X = space.exp(M, rho * np.array([axis, np.negative(axis)]))

    def gradient(v):
        there = space.exp(M, v)
        seen = space.log(there[:, None], X).mean(axis=1)
        return space.transport(there, space.log(there, M), seen)

    h = 1e-5 * np.eye(space.dim)
    largest = np.linalg.eigvalsh((gradient(-h) - gradient(h)) / 2e-5)
    paces = means.paces(space.curvature, np.full(2, rho))
    np.testing.assert_allclose(paces, (1 / largest[-1], 1 / largest[0]), rtol=1e-6)
