"""Covariance descriptors: Sec. 6.2 and Lemma A.6 of the paper, what it leaves open, their ball."""

import math
import tracemalloc

import mpmath
import numpy as np
import pytest
from conftest import mostly_slow

from spdlib import Ball, descriptors
from spdlib.descriptors import covariance_descriptors, descriptor_ball, feature_bounds, features
from spdlib.estimators import PrivateFrechetMean
from spdlib.spaces.ball import clip_to_ball
from spdlib.spd import logm, vecd

# The kernels as Lemma A.6 prints them, with the integer in front of each that divides it.
PRINTED = {
    "x": (4, [[1, 0, -1], [2, 0, -2], [1, 0, -1]]),
    "y": (4, [[1, 2, 1], [0, 0, 0], [-1, -2, -1]]),
    "xx": (32, [[1, 0, -2, 0, 1], [4, 0, -8, 0, 4], [6, 0, -12, 0, 6], [4, 0, -8, 0, 4],
                [1, 0, -2, 0, 1]]),
    "yy": (32, [[1, 4, 6, 4, 1], [0, 0, 0, 0, 0], [-2, -8, -12, -8, -2], [0, 0, 0, 0, 0],
                [1, 4, 6, 4, 1]]),
}
I_X, I_Y, I_XX, I_YY, MAGNITUDE, ANGLE = range(-6, 0)


def convolve_at(image, row, column, kernel):
    """Convolution of one pixel's neighbourhood, term by term.

    Positions outside the image are moved to its edge.
    """
    divisor, entries = kernel
    (height, width), reach = image.shape, len(entries) // 2
    total = 0
    for u in range(-reach, reach + 1):
        for v in range(-reach, reach + 1):
            pixel = image[min(max(row - u, 0), height - 1), min(max(column - v, 0), width - 1)]
            total += entries[u + reach][v + reach] * pixel.item()
    return abs(total) / divisor


def slow_features(image):
    """Features of one (h, w, c) image, pixel by pixel, shape (k, h w).

    Python's integers are exact for bytes.
    """
    height, width, channels = image.shape
    white = 255 if image.dtype == np.uint8 else 1
    total = image.sum(axis=-1, dtype=int if white == 255 else float)
    columns = []
    for row in range(height):
        for column in range(width):
            I = {name: convolve_at(total, row, column, kernel) / (white * channels)
                 for name, kernel in PRINTED.items()}
            angle = math.atan(I["x"] / I["y"]) if I["y"] > 0 else (math.pi / 2 if I["x"] > 0 else 0)
            position = [column / (width - 1) if width > 1 else 0,
                        row / (height - 1) if height > 1 else 0]
            magnitude = math.sqrt(I["x"] ** 2 + I["y"] ** 2)
            columns.append([*position, *image[row, column] / white, *I.values(), magnitude, angle])
    return np.array(columns).T


def random_images(seed, *shape, dtype=np.uint8, levels=256):
    images = np.random.default_rng(seed).integers(levels, size=shape)
    return images.astype(np.uint8) if dtype == np.uint8 else (images / 255).astype(dtype)


def extreme_images(height, width):
    """Grey images at the ends of the range.

    Constant, one pixel lit, stripes and chequers, half saturated.
    """
    rows, columns = np.indices((height, width))
    patterns = {
        "black": rows < 0,
        "white": rows >= 0,
        "one pixel lit": (rows == height // 2) & (columns == width // 2),
        "chequers": (rows + columns) % 2 == 0,
        "chequers of two": (rows // 2 + columns // 2) % 2 == 0,
        "left half": columns < width // 2,
        "upper half": rows < height // 2,
        "stripes of two": columns // 2 % 2 == 0,
    }
    return np.stack([255 * pattern.astype(np.uint8) for pattern in patterns.values()])


def rounding(images, R):
    """A bound on how far rounding moves an eigenvalue of each descriptor.

    A Gram matrix of S = h w floats errs entry by entry by less than (S + 2) u |A| |A|^T / S
    (u = 2^-53, to first order), whose norm its trace bounds; the exact Gram matrix is positive
    semidefinite however A was rounded. The eigenvalues themselves are found to a small multiple of
    k u times the norm, for which k^2 is allowed.
    """
    S, k = images.shape[1] * images.shape[2], R.shape[-1]
    return (S + 2 + k**2) * 2**-53 * np.trace(R, axis1=1, axis2=2)


SAMPLES = [
    extreme_images(8, 8), extreme_images(28, 28), extreme_images(1, 1), extreme_images(1, 9),
    extreme_images(9, 1), extreme_images(2, 3), np.stack([extreme_images(7, 6)] * 3, axis=-1),
    random_images(1, 40, 28, 28),
    random_images(2, 40, 12, 12, 3), random_images(3, 40, 8, 8, dtype=np.float64),
    random_images(4, 40, 9, 9, 3, levels=2) * 255,
]


@pytest.mark.parametrize("dtype", [np.uint8, np.float64])
@pytest.mark.parametrize("shape", [(6, 7, 1), (5, 4, 3), (1, 1, 1), (1, 6, 3), (3, 1, 1)])
def test_features_are_those_of_the_printed_kernels(shape, dtype):
    images = random_images(5, 3, *shape, dtype=dtype)
    expected = np.stack([slow_features(image) for image in images])
    np.testing.assert_allclose(features(images), expected, rtol=0, atol=1e-14)


@pytest.mark.parametrize("shape", [(6, 7, 1), (5, 4, 3)])
def test_descriptor_is_the_covariance_over_S_plus_eta(shape):
    images, eta = random_images(6, 3, *shape), 1e-3
    expected = [np.cov(slow_features(image), bias=True) + eta * np.eye(shape[2] + 8)
                for image in images]
    np.testing.assert_allclose(covariance_descriptors(images, eta), expected, rtol=0, atol=1e-14)


@pytest.mark.parametrize("images", SAMPLES)
def test_descriptor_is_symmetric_positive_definite_with_eigenvalues_above_eta(images):
    eta = 1e-6
    R = covariance_descriptors(images, eta)
    smallest = np.linalg.eigvalsh(R)[:, 0]
    assert R.shape == (len(images), *2 * [9 if images.ndim == 3 else 11]) and R.dtype == np.float64
    assert (R == R.swapaxes(1, 2)).all()
    assert (rounding(images, R) < eta / 1000).all()
    assert (smallest >= eta - rounding(images, R)).all()


@pytest.mark.parametrize("images", SAMPLES)
def test_descriptors_lie_in_the_ball(images):
    for eta in (1e-9, 1e-6, 0.5, 30.0):
        R = covariance_descriptors(images, eta)
        ball = descriptor_ball(R.shape[-1] - 8, eta)
        eigenvalues = np.linalg.eigvalsh(R)
        # The centre is a multiple of I, and rounding weighs most in the smallest eigenvalue.
        distances = np.linalg.norm(np.log(eigenvalues / ball.center[0, 0]), axis=1)
        relative = rounding(images, R) / eigenvalues[:, 0]
        assert (distances <= ball.radius + np.sqrt(R.shape[-1]) * relative).all(), eta


@pytest.mark.parametrize("images", SAMPLES)
def test_the_trace_keeps_to_a_quarter_of_the_squared_bounds(images):
    covariances = covariance_descriptors(images, 1e-300)
    a = feature_bounds(covariances.shape[-1] - 8)
    assert (np.diagonal(covariances, axis1=1, axis2=2) <= a**2 / 4 * (1 + 1e-12)).all()


@pytest.mark.parametrize("images", SAMPLES)
def test_features_keep_to_the_bounds_of_lemma_A6(images):
    phi, a = features(images), feature_bounds(1 if images.ndim == 3 else 3)
    assert (phi >= 0).all() and (phi <= a[:, None]).all()


def test_bounds_of_lemma_A6_are_those_printed_and_sum_to_12_and_14():
    last = [math.sqrt(2), math.pi / 2]
    np.testing.assert_array_equal(feature_bounds(1), [1, 1, 1, 1, 1, 1, 1, *last])
    np.testing.assert_array_equal(feature_bounds(3), [1, 1, 1, 1, 1, 1, 1, 1, 1, *last])
    assert 11 < (feature_bounds(1) ** 2).sum() <= 12 and 13 < (feature_bounds(3) ** 2).sum() <= 14


def test_each_bound_on_a_derivative_is_attained():
    edge = 255 * np.array([0, 0, 0, 1, 1, 1], np.uint8)
    ridge = 255 * np.array([1, 1, 0, 0, 1, 1], np.uint8)
    for line, feature in (edge, I_X), (ridge, I_XX):
        upright = np.tile(line, (6, 1))
        assert features(upright[None])[0, feature].max() == 1
        assert features(upright.T[None])[0, feature + 1].max() == 1


def test_border_pixels_are_replicated():
    ramp = np.tile([0, 0.25, 0.5, 0.75, 1], (4, 1))
    phi = features(ramp[None])[0].reshape(9, 4, 5)
    np.testing.assert_array_equal(phi[I_X], np.tile([0.25, 0.5, 0.5, 0.5, 0.25], (4, 1)))
    np.testing.assert_array_equal(phi[I_XX], np.tile([0.25, 0.125, 0, 0.125, 0.25], (4, 1)))
    np.testing.assert_array_equal(phi[[I_Y, I_YY]], 0)


def test_a_constant_image_has_no_edge_and_angle_0_at_0_over_0():
    constant = np.full((1, 5, 6), 0.3)
    np.testing.assert_array_equal(features(constant)[0, I_X:], 0)


def test_angle_is_right_at_a_over_0_at_0_over_a_and_at_a_over_a():
    def angle(image):
        return features(image[None])[0, ANGLE].reshape(image.shape)

    upright = np.tile([0.0, 0, 1, 1], (4, 1))
    rows, columns = np.indices((5, 5))
    np.testing.assert_array_equal(angle(upright), np.tile([0, math.pi / 2, math.pi / 2, 0], (4, 1)))
    np.testing.assert_array_equal(angle(upright.T), 0)
    assert angle((rows + columns) / 8)[2, 2] == math.pi / 4


@pytest.mark.slow
@pytest.mark.parametrize("channels", [1, 3])
def test_derivatives_of_bytes_that_vanish_are_found_to_vanish(channels):
    images = 100 + random_images(7, 200, 12, 12, channels, levels=3)
    total = images.sum(axis=-1, dtype=int)
    flat = np.zeros(total.shape, bool)
    for index in np.ndindex(total.shape):
        derivatives = [convolve_at(total[index[0]], *index[1:], PRINTED[name]) for name in "xy"]
        flat[index] = derivatives == [0, 0]
    angle = features(images)[:, ANGLE].reshape(total.shape)
    divided_first = features(images / 255)[:, ANGLE].reshape(total.shape)
    assert flat.any() and (angle[flat] == 0).all()
    # rounding does spoil these pixels where v/255 comes first
    assert (divided_first[flat] > 0).any()


def test_derivatives_of_rgb_are_those_of_the_mean_of_the_channels():
    def middle(*channels):
        return features(np.stack(channels, axis=-1)[None])[0, I_X].reshape(4, 4)[1, 1]

    step = np.tile(np.array([0, 0, 255, 255], np.uint8), (4, 1))
    black = np.zeros_like(step)
    assert middle(step, black, black) == middle(black, black, step) == 1 / 3
    assert middle(step, 255 - step, black) == 0
    assert middle(step, step, step) == 1


def test_rgb_image_with_equal_channels_has_the_derivatives_of_the_grey_image():
    grey = random_images(8, 5, 9, 7)
    rgb = np.stack([grey] * 3, axis=-1)
    np.testing.assert_array_equal(features(rgb)[:, I_X:], features(grey)[:, I_X:])


@pytest.mark.parametrize("shape", [(37, 8, 8), (37, 8, 8, 3)])
@pytest.mark.parametrize("block", [1, 5000, descriptors.BLOCK])
def test_a_batch_of_any_size_equals_its_images_one_by_one(shape, block, monkeypatch):
    images = random_images(9, *shape)
    single = np.concatenate([covariance_descriptors(image[None]) for image in images])
    monkeypatch.setattr(descriptors, "BLOCK", block)
    for n in 0, 1, 7, 37:
        R = covariance_descriptors(images[:n])
        np.testing.assert_allclose(R, single[:n], rtol=0, atol=1e-15)
        assert features(images[:n]).shape == (n, single.shape[-1], 64)


@pytest.mark.slow
@pytest.mark.parametrize("shape", [(4000, 28, 28), (3, 400, 300, 3)])
@pytest.mark.parametrize("dtype", mostly_slow([np.uint8, np.float32], np.uint8))
def test_memory_stays_within_twice_the_features_of_a_block(shape, dtype):
    images = np.zeros(shape, dtype)
    one = 8 * np.prod(shape[1:3]) * (9 if len(shape) == 3 else 11)
    tracemalloc.start()
    R = covariance_descriptors(images)
    peak = tracemalloc.get_traced_memory()[1]
    tracemalloc.stop()
    assert peak - R.nbytes < 2 * max(8 * descriptors.BLOCK, one)


def test_equal_images_of_every_accepted_form_have_equal_descriptors():
    images = random_images(10, 4, 6, 5, levels=2) * 255
    expected = covariance_descriptors(images)
    scaled = images / 255
    forms = [images[..., None], scaled, scaled.astype(np.float32), scaled.tolist(),
             np.asfortranarray(images), images[:, ::-1][:, ::-1], scaled.astype(">f8")]
    for form in forms:
        np.testing.assert_allclose(covariance_descriptors(form), expected, rtol=0, atol=1e-15)


def test_input_is_left_as_it_was():
    images = random_images(11, 3, 5, 5, dtype=np.float64)
    before = images.copy()
    features(images), covariance_descriptors(images)
    np.testing.assert_array_equal(images, before)


ETAS = [5e-324, 1e-310, 1e-300, 1e-6, 0.05, 0.5, 1.0, 2, 1e6, 1e16, 1e308, 1.7976931348623157e308]


@pytest.mark.slow
@pytest.mark.parametrize("channels, k", mostly_slow([(1, 9), (3, 11)], (3, 11)))
def test_ball_holds_all_eigenvalues_from_eta_to_L_and_is_no_larger_than_it_must(channels, k):
    with mpmath.workdps(400):
        L0 = (k + mpmath.pi**2 / 4) / 4
        for eta in ETAS + list(np.exp(np.random.default_rng(12).uniform(-700, 700, 300))):
            ball = descriptor_ball(channels, eta)
            center, radius = ball.center, ball.radius
            low, middle = (mpmath.log(mpmath.mpf(float(x))) for x in (eta, center[0, 0]))
            high = mpmath.log(L0 + mpmath.mpf(float(eta)))
            unit = mpmath.mpf(2) ** -53 * (1 + abs(low) + abs(high))
            assert (center == center[0, 0] * np.eye(k)).all()
            assert radius >= mpmath.sqrt(k) * max(high - middle, middle - low)
            assert radius <= mpmath.sqrt(k) * ((high - low) / 2 + 40 * unit)


@pytest.mark.parametrize("channels", [1, 3])
@pytest.mark.parametrize("eta", [1e-6, 0.5, 30.0])
def test_radius_is_attained_by_an_image_of_one_pixel(channels, eta):
    R = covariance_descriptors(np.full((1, 1, 1, channels), 77, np.uint8), eta)[0]
    ball = descriptor_ball(channels, eta)
    np.testing.assert_array_equal(R, eta * np.eye(channels + 8))
    distance = np.linalg.norm(np.log(np.diag(R) / np.diag(ball.center)))
    assert distance * (1 - 1e-12) <= ball.radius <= distance * (1 + 1e-12)


@pytest.mark.parametrize("channels", [1, 3])
@pytest.mark.parametrize("eta", [1e-300, 1e-6, 0.5, 1e16])
def test_the_ball_of_the_descriptors_is_that_from_their_bounds(channels, eta):
    a = feature_bounds(channels)
    assert descriptor_ball(channels, eta) == Ball.from_bounds(eta, a @ a / 4 + eta, len(a))


@pytest.mark.parametrize("channels", [1, 3])
@pytest.mark.parametrize("eta", ETAS)
def test_ball_is_accepted_by_the_private_mean(channels, eta):
    ball = descriptor_ball(channels, eta)
    X = np.stack([eta * np.eye(channels + 8), ball.center])
    private = PrivateFrechetMean(1.0, 1e-6, ball).fit(X)
    origin = vecd(logm(ball.center))
    rounding_of_the_sum = 2**-52 * np.linalg.norm(private.log_mean_)
    distance = np.linalg.norm(private.log_mean_ - origin)
    assert distance <= ball.radius * (1 + 1e-12) + rounding_of_the_sum
    logm(private.mean_)  # does not raise


@pytest.mark.parametrize("images", SAMPLES)
def test_private_mean_clips_no_descriptor(images):
    R = covariance_descriptors(images, 1e-6)
    ball = descriptor_ball(R.shape[-1] - 8, 1e-6)
    x, origin = vecd(logm(R)), vecd(logm(ball.center))
    np.testing.assert_allclose(origin + clip_to_ball(x - origin, ball.radius), x, rtol=0, atol=1e-6)


def bad_image(value):
    images = np.full((4, 3, 3), 0.5)
    images[2, 1, 0] = value
    return images


@pytest.mark.parametrize("function", [features, covariance_descriptors])
@pytest.mark.parametrize("images, found", [
    (np.zeros((3, 3)), r"shape \(3, 3\)"),
    (np.zeros((1, 3, 3, 2)), r"shape \(1, 3, 3, 2\)"),
    (np.zeros((1, 3, 3, 4)), r"shape \(1, 3, 3, 4\)"),
    (np.zeros((1, 1, 3, 3, 1)), r"shape \(1, 1, 3, 3, 1\)"),
    (np.zeros((2, 0, 3)), r"shape \(2, 0, 3\)"),
    (np.zeros((2, 3, 0, 3)), r"shape \(2, 3, 0, 3\)"),
    (None, r"shape \(\)"),
    ([np.zeros((2, 2)), np.zeros((3, 3))], "no array"),
    (np.zeros((1, 3, 3), int), "dtype int64"),
    (np.zeros((1, 3, 3), np.int8), "dtype int8"),
    (np.zeros((1, 3, 3), np.uint16), "dtype uint16"),
    (np.zeros((1, 3, 3), bool), "dtype bool"),
    (np.zeros((1, 3, 3), complex), "dtype complex128"),
    (np.full((1, 3, 3), "a"), "dtype <U1"),
    (np.full((1, 3, 3), None), "dtype object"),
    (bad_image(np.nan), r"\[2\] has values from nan"),
    (bad_image(np.inf), r"\[2\] has values from 0.5 to inf"),
    (bad_image(-np.inf), r"\[2\] has values from -inf"),
    (bad_image(-1e-9), r"\[2\] has values from -1e-09"),
    (bad_image(1 + 2**-52), r"\[2\] has values from 0.5 to 1.0000000000000002"),
    (bad_image(255.0), r"\[2\] has values from 0.5 to 255.0"),
])
def test_other_images_are_refused_by_name_value_and_what_is_accepted(function, images, found):
    with pytest.raises(ValueError, match=rf"^images.*{found}.*accepted are"):
        function(images)


@pytest.mark.parametrize("eta", [
    0, -1e-6, np.nan, np.inf, -np.inf, True, "1e-6", None, np.array([1e-6]), 1j])
def test_eta_that_is_no_finite_positive_number_is_refused(eta):
    image = np.zeros((1, 2, 2))
    for call in (lambda: covariance_descriptors(image, eta), lambda: descriptor_ball(1, eta)):
        with pytest.raises(ValueError, match="^eta is .*; accepted are finite numbers above 0"):
            call()


@pytest.mark.parametrize("channels", [0, 2, 4, -1, 1.5, "3", None])
def test_channels_other_than_1_and_3_are_refused(channels):
    for call in (lambda: feature_bounds(channels), lambda: descriptor_ball(channels, 1e-6)):
        with pytest.raises(ValueError, match="^channels is .*; accepted are "):
            call()
