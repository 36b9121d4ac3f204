"""Laws that hold in every space; a space that joins is one line of `SPACES`.

Points are drawn at random, tangent vectors too; whatever is asked of a space, it is asked through
the interface that all spaces share.
"""

import itertools
import math
from types import SimpleNamespace

import numpy as np
import pytest

from spdlib.spaces import Euclidean, LogEuclidean
from spdlib.spd import expm, invvecd, random_spd

close = {"rtol": 1e-9, "atol": 1e-9}


def symmetric(n, k, rng):
    return invvecd(rng.standard_normal((n, k * (k + 1) // 2)))


# name: the space, and n random points of it
SPACES = {
    "log-Euclidean 1": (LogEuclidean(1), lambda n, rng: random_spd(n, 1, 1.0, rng)),
    "log-Euclidean 3": (LogEuclidean(3), lambda n, rng: random_spd(n, 3, 1.0, rng)),
    "Euclidean 1": (Euclidean(1), lambda n, rng: symmetric(n, 1, rng)),
    "Euclidean 3": (Euclidean(3), lambda n, rng: symmetric(n, 3, rng)),
}


def exp_and_log_are_inverse(space, p):
    assert p.v.shape == p.M.shape[:1] + (space.dim,)
    np.testing.assert_allclose(space.log(p.M, space.exp(p.M, p.v)), p.v, **close)
    np.testing.assert_allclose(space.exp(p.M, space.log(p.M, p.X)), p.X, **close)


def no_step_leads_nowhere(space, p):
    np.testing.assert_allclose(space.exp(p.M), p.M, **close)
    np.testing.assert_allclose(space.exp(p.M, 0 * p.v), p.M, **close)


def the_distance_is_the_length_of_the_step(space, p):
    distance = space.dist(p.M, p.X)
    np.testing.assert_allclose(distance, np.linalg.norm(space.log(p.M, p.X), axis=-1), **close)
    assert distance.shape == p.M.shape[:1]


def the_distance_is_a_metric(space, p):
    assert (space.dist(p.M, p.M) <= 1e-9).all() and (space.dist(p.M, p.X) > 1e-6).all()
    np.testing.assert_allclose(space.dist(p.M, p.X), space.dist(p.X, p.M), **close)
    detour = space.dist(p.M, p.Y) + space.dist(p.Y, p.X)
    assert (space.dist(p.M, p.X) <= detour + 1e-12).all()


def coordinates_are_orthonormal(space, p):
    h = 1e-5
    moved = space.dist(space.exp(p.M, h * p.v), space.exp(p.M, h * p.w)) / h
    apart = np.linalg.norm(p.v - p.w, axis=-1)
    np.testing.assert_allclose(moved, apart, rtol=1e-4)
    if space.flat:
        far = space.dist(space.exp(p.M, p.v), space.exp(p.M, p.w))
        np.testing.assert_allclose(far, apart, **close)


def steps_follow_one_another(space, p):
    there = space.exp(p.M, p.v)
    np.testing.assert_allclose(space.exp(p.M, p.v, p.w), space.exp(there, p.w), **close)
    if space.flat:
        np.testing.assert_allclose(space.exp(p.M, p.v, p.w), space.exp(p.M, p.w, p.v), **close)


def transport_is_a_linear_isometry(space, p):
    carried, other = space.transport(p.M, p.v, p.w), space.transport(p.M, p.v, p.v)
    assert carried.shape == p.w.shape
    before, after = (p.v * p.w).sum(axis=-1), (carried * other).sum(axis=-1)
    np.testing.assert_allclose(after, before, **close)
    lengths = [np.linalg.norm(v, axis=-1) for v in (carried, p.w)]
    np.testing.assert_allclose(*lengths, **close)
    combined = space.transport(p.M, p.v, 2 * p.v - 3 * p.w)
    np.testing.assert_allclose(combined, 2 * other - 3 * carried, **close)


def transport_keeps_the_direction_of_its_own_step(space, p):
    back = space.log(space.exp(p.M, p.v), p.M)
    np.testing.assert_allclose(space.transport(p.M, p.v, p.v), -back, **close)


def log_volume_is_the_log_determinant_of_the_derivative_of_exp(space, p):
    h = 1e-4
    ends = space.exp(p.M[:1], p.v[:1])  # directions there, seen in the frame at that point
    columns = []
    for e in np.eye(space.dim):
        plus, minus = (space.exp(p.M[:1], p.v[:1] + sign * h * e) for sign in (1, -1))
        columns.append((space.log(ends, plus) - space.log(ends, minus)) / (2 * h))
    sign, log_det = np.linalg.slogdet(np.concatenate(columns).T)
    assert abs(sign) == 1
    np.testing.assert_allclose(space.log_volume(p.v[0]), log_det, atol=1e-6)
    assert space.log_volume(p.v).shape == p.v.shape[:-1]


def the_mean_balances_the_steps(space, p):
    y = space.log(p.M[0], p.X)
    mean = space.exp(p.M[0], space.mean(p.M[0], y))
    to_records = space.log(mean, p.X)
    np.testing.assert_allclose(to_records.sum(axis=0), 0, atol=1e-8)


def what_is_called_flat_is_flat(space, p):
    low, high = space.curvature
    assert low <= high and space.flat == (low == high == 0)
    assert space.injectivity_radius > 0
    if space.flat:
        assert space.homogeneous and space.injectivity_radius == math.inf


LAWS = [
    exp_and_log_are_inverse, no_step_leads_nowhere, the_distance_is_the_length_of_the_step,
    the_distance_is_a_metric, coordinates_are_orthonormal, steps_follow_one_another,
    transport_is_a_linear_isometry, transport_keeps_the_direction_of_its_own_step,
    log_volume_is_the_log_determinant_of_the_derivative_of_exp, the_mean_balances_the_steps,
    what_is_called_flat_is_flat,
]


def sample(space, points):
    """Points and tangent vectors at the first of them, for the laws."""
    rng, n = np.random.default_rng(0), 20
    M, X, Y = (points(n, rng) for _ in range(3))
    v, w = rng.standard_normal((2, n, space.dim)) / math.sqrt(space.dim)
    return SimpleNamespace(M=M, X=X, Y=Y, v=v, w=w)


@pytest.mark.parametrize("name", SPACES)
@pytest.mark.parametrize("law", LAWS, ids=lambda law: law.__name__)
def test_the_laws_hold(name, law):
    space, points = SPACES[name]
    law(space, sample(space, points))


class Faulty(LogEuclidean):
    """A space with one of these faults, which a law has to notice."""

    def __init__(self, fault):
        super().__init__(3)
        self.fault = fault

    def point(self, y):
        return expm(invvecd(2 * y if self.fault == "exp" else y))

    def coordinates(self, X):
        y = super().coordinates(X)
        if self.fault == "metric":  # no √2 off the diagonal
            y[..., self.k:] /= math.sqrt(2)
        return y

    def dist(self, X, Y):
        distance = super().dist(X, Y)
        return distance**2 if self.fault == "squared" else distance

    def log_volume(self, v):
        return super().log_volume(v) + (1e-3 if self.fault == "volume" else 0)

    def transport(self, M, v, w):
        carried = super().transport(M, v, w)
        if self.fault == "stretch":
            return 1.01 * carried
        return carried[..., ::-1] if self.fault == "turn" else carried

    def mean(self, M, y):
        return super().mean(M, y) * (1.01 if self.fault == "mean" else 1)


@pytest.mark.parametrize("fault, law", [
    ("exp", exp_and_log_are_inverse), ("metric", exp_and_log_are_inverse),
    ("squared", the_distance_is_the_length_of_the_step),
    ("volume", log_volume_is_the_log_determinant_of_the_derivative_of_exp),
    ("stretch", transport_is_a_linear_isometry),
    ("turn", transport_keeps_the_direction_of_its_own_step), ("mean", the_mean_balances_the_steps),
])
def test_a_law_notices_a_fault(fault, law):
    with pytest.raises(AssertionError):
        law(Faulty(fault), sample(*(Faulty(fault), SPACES["log-Euclidean 3"][1])))


@pytest.mark.parametrize("kind", [LogEuclidean, Euclidean])
def test_a_space_has_a_size(kind):
    assert [kind(k).dim for k in (1, 2, 5)] == [1, 3, 15]
    assert repr(kind(np.int64(4))) == f"{kind.__name__}(4)"
    for k in (0, -1, 2.0, True, "3", None):
        with pytest.raises(ValueError, match="k is .*; accepted are integers ≥ 1"):
            kind(k)


@pytest.mark.parametrize("kind", [LogEuclidean, Euclidean])
@pytest.mark.parametrize("shape", [
    *itertools.product([(), (1,), (4, 1)], [(), (3,), (4, 3)]),
])
def test_points_and_steps_broadcast(kind, shape):
    space, rng = kind(2), np.random.default_rng(0)
    M = random_spd(math.prod(shape[0]), 2, 1.0, rng).reshape(*shape[0], 2, 2)
    v = rng.standard_normal((*shape[1], 3))
    both = np.broadcast_shapes(*shape)
    X = space.exp(M, v)
    assert X.shape == (*both, 2, 2) and space.log(M, X).shape == (*both, 3)
    assert space.dist(M, X).shape == both
    np.testing.assert_allclose(space.log(M, X), np.broadcast_to(v, (*both, 3)), **close)


def test_a_log_euclidean_space_contains_what_has_a_logarithm():
    space, sound = LogEuclidean(2), np.array([[2.0, 1], [1, 2]])
    for bad in (np.nan * sound, -sound, np.ones((2, 2)), np.triu(sound), np.diag([1, np.inf])):
        assert space.contains(np.stack([sound, bad])).tolist() == [True, False]
