"""A ball is public and does not change: neither it, nor its copies, nor what is made of it."""

import copy
import dataclasses
import math
import pickle

import numpy as np
import pytest
import sklearn.base
from conftest import mostly_slow
from tables import BALLS, FAST, FLAT, POINT, POLE, SHAPE, SPD, in_ball, private

from spdlib import (AffineInvariant, Ball, Euclidean, KendallPlanar, LogEuclidean, Sphere,
                    TangentSpace)

each_ball = pytest.mark.parametrize("name", mostly_slow(BALLS, *FAST))
COPIES = {
    "copy": copy.copy, "deepcopy": copy.deepcopy,
    "clone of scikit-learn": lambda ball: sklearn.base.clone(ball, safe=False),
    "clone of an estimator": lambda ball: sklearn.base.clone(private(ball)).ball,
    "copy of an estimator": lambda ball: copy.deepcopy(private(ball)).ball,
    "of its own radius": lambda ball: ball.of_radius(ball.radius),
} | {f"pickle {i}": lambda ball, i=i: pickle.loads(pickle.dumps(ball, i))
     for i in range(pickle.HIGHEST_PROTOCOL + 1)}


def is_the_same(ball, other):
    """Whether they are equal to the last bit, and the other one cannot change either."""
    assert other == ball and hash(other) == hash(ball) and repr(other) == repr(ball)
    assert other.center.tobytes() == ball.center.tobytes()
    assert other.center.dtype == ball.center.dtype == ball.space.numbers
    assert not other.center.flags.writeable and not ball.center.flags.writeable
    return type(other) is Ball and type(other.radius) is float and other.space == ball.space


# what it is

@each_ball
@pytest.mark.parametrize("how", COPIES)
def test_a_copy_is_the_same_ball_to_the_last_bit(name, how):
    assert is_the_same(BALLS[name], COPIES[how](BALLS[name]))


@pytest.mark.slow
@pytest.mark.parametrize("landmarks", [3, 4, 9])
def test_copies_of_a_ball_of_shapes_keep_bits_that_another_look_at_the_centre_would_alter(
        landmarks):
    space, rng, altered = KendallPlanar(landmarks), np.random.default_rng(0), 0
    for _ in range(50):
        x, y = rng.standard_normal((2, landmarks))
        ball = Ball(0.2, 100 * (x + 1j * y) + 50, space)
        altered += not np.array_equal(space.points(ball.center), ball.center)
        for made in COPIES.values():
            assert is_the_same(ball, made(ball))
        assert ball.tangent().center.tobytes() == ball.center.tobytes()
    assert altered > 10


@each_ball
def test_it_shows_the_call_that_makes_it(name):
    ball = BALLS[name]
    read = eval(repr(ball))
    assert read == ball or np.abs(read.center - ball.center).max() < 1e-15  # of shapes
    assert repr(Ball(0.5, [0, 0, 1], Sphere(2))) == "Ball(0.5, [0.0, 0.0, 1.0], Sphere(2, 1.0))"


def test_nothing_of_it_can_be_set():
    ball = Ball(0.5, POLE, Sphere(2))
    for name in ("radius", "center", "space", "other"):
        with pytest.raises(dataclasses.FrozenInstanceError):
            setattr(ball, name, 1.0)
        with pytest.raises(dataclasses.FrozenInstanceError):
            delattr(ball, name)
    for twin in (ball, ball.of_radius(1.0), ball.tangent(), copy.deepcopy(ball)):
        with pytest.raises(ValueError, match="read-only"):
            twin.center[0] = 7
    assert repr(ball) == "Ball(0.5, [0.0, 0.0, 1.0], Sphere(2, 1.0))"


@each_ball
def test_it_does_not_move_with_the_array_of_which_it_was_made_nor_that_with_it(name):
    center = np.array(BALLS[name].center)
    ball = Ball(0.1, center, BALLS[name].space)
    kept = ball.center.copy()
    assert center.flags.writeable
    center[:] = 7
    assert np.array_equal(ball.center, kept) and not np.shares_memory(center, ball.center)


def test_balls_of_the_same_radius_centre_and_space_are_equal_and_others_are_not():
    ball = Ball(0.5, POLE, Sphere(2))
    for other in (Ball(np.float32(0.5), [0, 0, 1], Sphere(2, 1.0)),
                  Ball(0.5, [-0.0, 0, 1], Sphere(2))):
        assert ball == other and hash(ball) == hash(other)
    others = [Ball(0.6, POLE, Sphere(2)), Ball(0.5, POINT, Sphere(2)),
              Ball(0.5, POLE, Sphere(2, 4.0)), ball.tangent(), Ball(0.5, np.eye(3)),
              (0.5, POLE, Sphere(2)), repr(ball), None]
    assert all(ball != other for other in others)
    assert len({ball, copy.deepcopy(ball), *others[:5]}) == 6
    assert len({made: name for name, made in BALLS.items()}) == len(BALLS)


def test_without_a_space_it_is_the_log_euclidean_one():
    ball = Ball(1.0, SPD)
    assert ball.space == LogEuclidean(3) and ball == Ball(1.0, SPD, LogEuclidean(3))
    assert Ball.from_bounds(0.5, 2.0, 3).space == LogEuclidean(3)


@pytest.mark.parametrize("read", [
    list, *(lambda center, dtype=dtype: np.array(center, dtype)
            for dtype in (int, np.float16, np.float32, np.longdouble))])
def test_a_centre_of_another_type_is_one_of_float64(read):
    given = read([[2, 1], [1, 2]])
    for space in (None, Euclidean(2), AffineInvariant(2)):
        assert is_the_same(Ball(1.0, [[2.0, 1], [1, 2]], space), Ball(1, given, space))


def test_a_centre_that_rounding_has_made_unsymmetric_is_one():
    Q = np.linalg.qr(np.random.default_rng(0).standard_normal((4, 4)))[0]
    for condition in (10, 1e6):
        center = (Q * np.geomspace(1, condition, 4)) @ Q.T
        for space in (None, Euclidean(4), AffineInvariant(4)):
            for given in (center, (center / 10).astype(np.float32)):
                ball = Ball(1.0, given, space)
                assert is_the_same(ball, pickle.loads(pickle.dumps(ball)))
                np.testing.assert_allclose(ball.center, given, rtol=1e-5, atol=1e-6 * condition)


@each_ball
def test_the_callers_treatment_of_floating_point_errors_changes_nothing(name):
    ball = BALLS[name]
    with np.errstate(all="raise"):
        again = Ball(ball.radius, ball.center, ball.space)
        assert again.space.dist(again.center, ball.center) < 1e-14
        assert ball.tangent() == BALLS[name].tangent()
        Ball(1.0, 1e-300 * np.eye(2)).tangent()


# what is made of it

@each_ball
def test_a_ball_of_another_radius_has_the_same_centre_and_space(name):
    ball = BALLS[name]
    other = ball.of_radius(3)
    assert (other.radius, type(other.radius), other.space) == (3.0, float, ball.space)
    assert other != ball and is_the_same(ball, other.of_radius(ball.radius))
    with pytest.raises(ValueError, match="^radius is 0; accepted are numbers from 1e-280 to 1e280"):
        ball.of_radius(0)


@each_ball
def test_its_tangent_is_the_same_ball_in_the_chart_at_its_centre(name):
    ball = BALLS[name]
    chart = ball.tangent()
    assert (chart is ball) == ball.space.flat and chart.space.flat
    assert chart.radius == ball.radius and chart.tangent() is chart
    assert is_the_same(chart, copy.deepcopy(chart)) and chart.harmless
    if not ball.space.flat:
        assert chart == Ball(ball.radius, chart.center, TangentSpace(ball.space, ball.center))
    X = in_ball(ball, 20, np.random.default_rng(0))
    (steps, _), (seen, _) = ball.seen(X), chart.seen(X)
    np.testing.assert_allclose(np.linalg.norm(seen, axis=1), np.linalg.norm(steps, axis=1))
    assert np.linalg.norm(steps, axis=1).max() <= ball.radius


def test_a_chart_reaches_as_far_as_it_covers_the_space_once():
    for space, center in ((Sphere(2, 4.0), POLE), (KendallPlanar(4), SHAPE[:4])):
        reach = space.injectivity_radius
        assert Ball(math.nextafter(reach, 0), center, space).tangent().radius < reach
        for radius in (reach, 2 * reach):
            message = f"^radius is {radius!r}; accepted are numbers below {reach:.6g}, the inject"
            with pytest.raises(ValueError, match=message):
                Ball(radius, center, space).tangent()
    assert Ball(50.0, np.eye(2), AffineInvariant(2)).tangent().radius == 50


@each_ball
def test_centre_and_edge_are_seen_where_they_are_and_a_bad_record_at_the_centre(name):
    ball = BALLS[name]
    space = ball.space
    v = ball.radius * np.eye(space.dim)
    X = np.concatenate([[ball.center], space.exp(ball.center, v), [np.nan * ball.center]])
    steps, sound = ball.seen(X, "center")
    assert sound.tolist() == [*[True] * (space.dim + 1), False]
    np.testing.assert_allclose(steps[1:-1], v, atol=1e-12 * (1 + ball.radius))
    assert not steps[-1].any() and np.abs(steps[0]).max() < 1e-14
    with pytest.raises(ValueError, match=rf"^X\[{space.dim + 1}"):
        ball.seen(X)
    with pytest.raises(ValueError, match=rf"^Y\[{space.dim + 1}"):
        ball.seen(X, name="Y")


# harmless

@pytest.mark.parametrize("space, center, most", [
    (LogEuclidean(2), SPD[:2, :2], math.inf), (Euclidean(2), SPD[:2, :2], math.inf),
    (AffineInvariant(1), [[2.0]], math.inf), (AffineInvariant(3), SPD, math.inf),
    (TangentSpace(Sphere(2), POLE), POLE, math.inf),
    (Sphere(1), [0, 1], math.pi / 3), (Sphere(1, 4.0), [0, 1], math.pi / 6),
    (Sphere(2), POLE, math.pi / 3), (Sphere(5, 9.0), np.eye(6)[0], math.pi / 9),
    (KendallPlanar(3), SHAPE[:3], math.pi / 6), (KendallPlanar(4), SHAPE[:4], math.pi / 8),
    (KendallPlanar(5), SHAPE, math.pi / 8),
], ids=repr)
def test_up_to_which_radius_projecting_is_harmless(space, center, most):
    """By curvature and injectivity radius alone; that it is, is seen beside the means."""
    assert Ball(min(most, 1e280) * (1 - 1e-12), center, space).harmless
    if most < math.inf:
        assert not Ball(most * (1 + 1e-12), center, space).harmless


def test_a_space_with_short_closed_geodesics_has_no_harmless_ball():
    """It is not known to be CAT(κ), nor the angle at the projected point."""
    space = KendallPlanar(4)
    space.injectivity_radius = math.pi / 4
    assert not Ball(0.01, SHAPE[:4], space).harmless


# what float64 holds

@pytest.mark.parametrize("name", BALLS)
def test_balls_of_the_table_are_held(name):
    ball = BALLS[name]
    ball.hold()
    ball.hold(points=True)
    ball.hold(2 * ball.radius, here=True)


def test_a_ball_with_points_that_float64_does_not_hold_is_refused_where_points_are_made():
    flat, curved = (Ball(30.0, np.eye(2), space(2)) for space in (LogEuclidean, AffineInvariant))
    flat.hold()  # coordinates are enough
    message = r"^radius is 30.0; accepted are radii up to 24.0163, of balls all of whose points fl"
    for call in (lambda: flat.hold(points=True), lambda: flat.hold(here=True), curved.hold,
                 lambda: Ball(30.0, np.eye(2), TangentSpace(AffineInvariant(2), np.eye(2))).hold(
                     points=True)):
        with pytest.raises(ValueError, match=message):
            call()
    with pytest.raises(ValueError, match="^domain is 25; accepted are radii up to 24.0163"):
        curved.hold(25, "domain")
    curved.hold(24)
    flat.of_radius(24).hold(points=True)


def test_it_is_held_from_where_all_looks_alike_or_from_the_centre_itself():
    ball = Ball(20.0, np.diag([1e3, 1]), AffineInvariant(2))
    ball.hold()
    with pytest.raises(ValueError, match="^radius is 20.0; accepted are radii up to 19.1318"):
        ball.hold(here=True)
    for space, center in ((Sphere(2), POLE), (KendallPlanar(4), SHAPE[:4])):
        Ball(1e280, center, space).hold(points=True, here=True)


# what is refused

REFUSED = {
    "a radius of 0": (lambda: Ball(0, np.eye(2)), "radius is 0; accepted are numbers from 1e-280"),
    "a negative radius": (lambda: Ball(-1.0, np.eye(2)), "radius is -1.0; accepted are numbers"),
    "a tiny radius": (lambda: Ball(1e-281, np.eye(2)), "radius is 1e-281; accepted are numbers"),
    "a huge radius": (lambda: Ball(1e281, np.eye(2)), r"radius is 1e\+281; accepted are numbers"),
    "no radius": (lambda: Ball(None, np.eye(2)), "radius is None; accepted are numbers from"),
    "a radius that is a truth": (lambda: Ball(True, np.eye(2)), "radius is True; accepted are"),
    "a radius that is a word": (lambda: Ball("1", np.eye(2)), "radius is '1'; accepted are num"),
    "a radius that is NaN": (lambda: Ball(math.nan, np.eye(2)), "radius is nan; accepted are num"),
    "a radius and a centre the other way round": (
        lambda: Ball(np.eye(2), 1.0), r"center has shape \(\); accepted without a space is \(k, k"),
    "no centre": (
        lambda: Ball(1.0, None), "center is an array of dtype object; accepted are real numbers"),
    "a centre without a space that is no matrix": (
        lambda: Ball(1.0, POLE), r"center has shape \(3,\); accepted without a space is \(k, k\)"),
    "a centre that is not square": (
        lambda: Ball(1.0, np.ones((2, 3))), r"center has shape \(2, 3\); accepted without a space"),
    "an empty centre": (
        lambda: Ball(1.0, np.ones((0, 0))), r"center has shape \(0, 0\); accepted without a space"),
    "a centre of another size": (
        lambda: Ball(1.0, np.eye(3), LogEuclidean(2)),
        r"center has shape \(3, 3\); accepted is \(2, 2\), that of points of LogEuclidean\(2\)"),
    "several centres": (
        lambda: Ball(1.0, [POLE, POLE], Sphere(2)), r"center has shape \(2, 3\); accepted is \(3"),
    "a matrix for a unit vector": (
        lambda: Ball(1.0, np.eye(3), Sphere(2)), r"center has shape \(3, 3\); accepted is \(3,\)"),
    "a centre that is not SPD": (
        lambda: Ball(1.0, -np.eye(2)), "center is no point that float64 can hold: .*not positive"),
    "a singular centre": (
        lambda: Ball(1.0, np.ones((2, 2)), AffineInvariant(2)), "center is not positive definite"),
    "a centre that is not symmetric": (
        lambda: Ball(1.0, [[1, 0.1], [0, 1]], AffineInvariant(2)), "center is not symmetric"),
    "a centre that is not symmetric, flat": (
        lambda: Ball(1.0, [[1, 0.1], [0, 1]]), "center is no point that float64 can .*symmetric"),
    "NaN in a centre": (lambda: Ball(1.0, np.nan * np.eye(2)), r"center.*\[0, 0\] is nan"),
    "NaN in a centre of a curved space": (
        lambda: Ball(1.0, np.nan * POLE, Sphere(2)), r"center\[0\] is nan"),
    "no unit vector": (
        lambda: Ball(1.0, 2 * POLE, Sphere(2)), "center has length 2; accepted are unit vectors"),
    "a complex centre": (
        lambda: Ball(1.0, 1j * np.eye(2)), "center is an array of dtype complex128; accepted are"),
    "landmarks that all coincide": (
        lambda: Ball(1.0, np.ones(4), KendallPlanar(4)), "center has landmarks that all coincide"),
    "another number of landmarks": (
        lambda: Ball(1.0, SHAPE, KendallPlanar(4)), r"center has shape \(5,\); accepted is \(4,\)"),
    "a masked centre": (
        lambda: Ball(1.0, np.ma.masked_equal(np.eye(2), 0)), "center .*masked"),
    "a centre that float64 does not hold": (
        lambda: Ball(1.0, np.diag([1e300, 1e-300])), "center is no point that float64 can hold"),
    "a centre of symmetric matrices that is too large": (
        lambda: Ball(1.0, 1e308 * np.eye(2), Euclidean(2)), "center is no point that float64 can"),
    "a centre of a chart that the chart does not reach": (
        lambda: Ball(1.0, 2 * POLE, TangentSpace(Sphere(2), POLE)), "center .*has length 2"),
}


@pytest.mark.parametrize("name", REFUSED)
def test_what_is_no_ball_is_refused(name):
    call, message = REFUSED[name]
    with pytest.raises(ValueError, match=f"^{message}"):
        call()


@pytest.mark.parametrize("name", FLAT)
def test_a_bad_centre_of_a_flat_space_is_refused_as_center(name):
    space = BALLS[name].space
    with pytest.raises(ValueError, match="^center"):
        Ball(1.0, np.nan * BALLS[name].center, space)


# what a user writes into

def test_an_origin_that_is_written_into_is_the_callers_own():
    space, M = AffineInvariant(2), np.diag([3e6, 2e-7])
    space.origin[...] = M
    assert (space.origin == np.eye(2)).all() and (space.alike(M) == np.eye(2)).all()


@pytest.mark.parametrize("how", ["made", "copy", "deepcopy", "pickle"])
def test_the_centre_of_a_chart_cannot_be_written_into(how):
    chart = Ball(1.0, np.eye(2), AffineInvariant(2)).tangent().space
    copies = {"made": chart, "copy": copy.copy(chart), "deepcopy": copy.deepcopy(chart),
              "pickle": pickle.loads(pickle.dumps(chart))}
    assert copies[how] == chart and not copies[how].origin.flags.writeable
