"""What tests of many spaces share: a ball of each, what is drawn in it, and an estimator."""

import math

import numpy as np

from spdlib import (AffineInvariant, Ball, Euclidean, KendallPlanar, LogEuclidean,
                    PrivateFrechetMean, Sphere, TangentSpace)
from spdlib.mechanisms import MEANS, chosen

POLE, POINT = np.array([0.0, 0, 1]), np.array([2.0, -1, 2]) / 3
SPD = np.array([[2.0, 0.5, 0], [0.5, 1, 0.2], [0, 0.2, 1]])
SHAPE = np.array([0, 1, 1j, 3 + 2j, -1])
PURE = {name for name, mechanism in MEANS.items() if mechanism.pure}

# Radii are about a third of that from which on a mean need not be the only one; projecting onto
# these balls is harmless.
BALLS = {
    "Euclidean 2": Ball(1.0, SPD[:2, :2], Euclidean(2)),
    "log-Euclidean 1": Ball(1.0, [[2.0]], LogEuclidean(1)),
    "log-Euclidean 2": Ball(1.0, np.diag([2.0, 1]), LogEuclidean(2)),
    "chart of SPD": Ball(1.0, SPD, TangentSpace(AffineInvariant(3), SPD)),
    "chart of a sphere": Ball(0.5, POLE, TangentSpace(Sphere(2), POLE)),
    "affine-invariant 1": Ball(1.5, [[2.0]], AffineInvariant(1)),
    "affine-invariant 2": Ball(1.5, SPD[:2, :2], AffineInvariant(2)),
    "affine-invariant 3": Ball(1.5, SPD, AffineInvariant(3)),
    "affine-invariant 4": Ball(2.0, np.diag([1.0, 2, 3, 4]), AffineInvariant(4)),
    "circle": Ball(1.0, [0.6, -0.8], Sphere(1, 0.25)),
    "sphere 2": Ball(0.4, POINT, Sphere(2)),
    "small sphere 3": Ball(0.2, np.eye(4)[3], Sphere(3, 9.0)),
    "large sphere 5": Ball(0.8, np.eye(6)[0], Sphere(5, 0.3)),
    "triangles": Ball(0.25, SHAPE[:3], KendallPlanar(3)),
    "quadrilaterals": Ball(0.3, SHAPE[:4], KendallPlanar(4)),
    "pentagons": Ball(0.3, SHAPE, KendallPlanar(5)),
}
FLAT = [name for name, ball in BALLS.items() if ball.space.flat]
CURVED = [name for name, ball in BALLS.items() if not ball.space.flat]
FAST = "log-Euclidean 2", "affine-invariant 2", "sphere 2", "triangles"


def unit(space):
    """The length in which the curvature is at most 1; 1 where there is none."""
    steepest = max(map(abs, space.curvature))
    return 1 / math.sqrt(steepest) if steepest else 1.0


def steps_within(radius, n, dim, rng):
    """Steps of all lengths up to the radius, shape `(n, dim)`, a few of them nearly as long."""
    v = rng.standard_normal((n, dim))
    length = radius * (1 - 1e-12) * np.minimum(1.05 * rng.random((n, 1)), 1)
    return length * v / np.linalg.norm(v, axis=1, keepdims=True)


def in_ball(ball, n, rng):
    """Points at random places of the ball, a few of them nearly on its sphere."""
    return ball.space.exp(ball.center, steps_within(ball.radius, n, ball.space.dim, rng))


def private(ball, mechanism="gaussian", epsilon=1.0, **options):
    """A private mean by this mechanism, with a δ that it accepts."""
    delta = 0 if chosen(mechanism, MEANS).mechanism.pure else 1e-6
    return PrivateFrechetMean(epsilon, delta, ball, mechanism, **options)
