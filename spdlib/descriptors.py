"""Covariance descriptors of images (Sec. 6.2) and a ball that holds them.

The paper is silent on three choices; they are made here. *Border*: the edge pixel is replicated, so
that no false edge appears and the bounds of Lemma A.6 hold at the border too. *arctan(|Ix| / |Iy|)*
is 0 at 0/0 and pi/2 at a/0. *RGB*: derivatives are taken of the mean of the three channels, a
convex combination, so the bounds hold for it.
"""

import math

import numpy as np

from ._checks import as_array, at, first, integer, is_lazy, positive, renumbered
from ._parallel import CORES, blockwise, one_blas_thread, whole_items
from .spaces import Ball

# The printed kernels of Lemma A.6 are products of a smoothing across and a difference along, over a
# power of two. The sign, which tells a convolution from a correlation, falls to the absolute value.
SOBEL = (1, 2, 1), (1, 0, -1), 4
SECOND = (1, 4, 6, 4, 1), (1, 0, -2, 0, 1), 32

ACCEPTED = ("accepted are (n, h, w), (n, h, w, 1) or (n, h, w, 3), h, w >= 1, of uint8 or of "
            "floats in [0, 1]")
BLOCK = 2**20  # floats of features held at a time, by all threads: 8 MiB; smaller blocks queue


def covariance_descriptors(images, eta=1e-6):
    """Covariance descriptors R_eta (Sec. 6.2), shape (n, k, k), k = 9 for grey and 11 for RGB.

    `images` has shape (n, h, w) or (n, h, w, 1) for grey and (n, h, w, 3) for RGB; its values are
    unsigned 8-bit integers, read as v/255, or floats in [0, 1]. Beside its input and result it
    needs memory for twice the features of one block, which are 8 MiB, or those of one image where
    that is more. Of a dask array it is one, too, with the same bits; nothing is computed yet, and
    what is wrong with an image is said when it is.

    The result is exactly symmetric. Its smallest eigenvalue is at least eta but for rounding, which
    is below (h w + 2) 2^-53 trace(R_eta); an eta below that bound promises nothing. Raises
    ValueError for other images and for an eta that is not a finite number > 0.
    """
    eta = positive(eta, "eta")
    if is_lazy(images):
        return _lazily(images, eta)
    images = _checked_images(images)
    n, h, w, channels = images.shape
    k = channels + 8
    R = np.empty((n, k, k))

    def compute(block):
        phi = _features(images[block])
        phi -= phi.mean(axis=-1, keepdims=True)  # first: no digits are lost to it
        C = phi @ phi.swapaxes(1, 2) / (h * w)
        R[block] = (C + C.swapaxes(1, 2)) / 2 + eta * np.eye(k)

    at_a_time = max(1, BLOCK // (k * h * w))
    threads = min(CORES, at_a_time)
    with one_blas_thread():
        blockwise(compute, n, at_a_time // threads, threads)
    return R


def features(images):
    """Feature vectors phi of every pixel, row by row (Sec. 6.2), shape (n, k, h w).

    phi = [x, y, channels, |Ix|, |Iy|, |Ixx|, |Iyy|, sqrt(Ix^2 + Iy^2), arctan(|Ix| / |Iy|)] with x
    = column/(w - 1) and y = row/(h - 1), which are 0 where there is one pixel only. Every feature
    keeps to `feature_bounds`. Derivatives of 8-bit images are exact before they are scaled, so
    their 0/0 is found exactly; floats that stand for v/255 may miss it by rounding.
    """
    return _features(_checked_images(images))


def feature_bounds(channels):
    """Upper bounds a_i of the features, which are all >= 0 (Lemma A.6), shape (k,)."""
    if (channels := integer(channels, "channels", 1, 3)) == 2:
        raise ValueError("channels is 2; accepted are 1 (grey) and 3 (RGB)")
    return np.array([1, 1, *channels * [1], 1, 1, 1, 1, math.sqrt(2), math.pi / 2])


def descriptor_ball(channels: int, eta: float) -> Ball:
    """The ball about sqrt(eta L) I of radius sqrt(k) ln(L/eta) / 2, which holds every R_eta.

    Distances are log-Euclidean. L = sum a_i^2 / 4 + eta with the bounds a_i of the features: a
    variance on [0, a] is at most a^2/4, and their sum, the trace, bounds the largest eigenvalue;
    the smallest is at least eta. The radius is rounded up, by more than the centre is off. A
    descriptor as computed can leave the ball by its own rounding.
    """
    a, eta = feature_bounds(channels), positive(eta, "eta")
    return Ball.from_bounds(eta, a @ a / 4 + eta, len(a))


def _lazily(images, eta):
    images = whole_items(_stack(images), "images")
    k = images.shape[-1] + 8
    return images.map_blocks(_part, eta, chunks=(images.chunks[0], (k,), (k,)), drop_axis=3,
                             meta=np.empty((0, k, k)))


def _part(images, eta, block_info):
    try:
        return covariance_descriptors(images, eta)
    except ValueError as error:
        start = block_info[0]["array-location"][0][0]
        raise renumbered(error, "images", start) from None


def _features(images):
    n, h, w, channels = images.shape
    white = 255 if images.dtype == np.uint8 else 1
    phi = np.empty((n, channels + 8, h, w))
    phi[:, 0] = np.arange(w) / max(w - 1, 1)
    phi[:, 1] = np.arange(h)[:, None] / max(h - 1, 1)
    np.divide(np.moveaxis(images, -1, 1), white, out=phi[:, 2:-6])
    exact = np.int16 if white == 255 else float  # of 8-bit images no derivative exceeds 24480
    total = sum(channel.astype(exact) for channel in np.moveaxis(images, -1, 0))
    for row, kernel, axis in (-6, SOBEL, 2), (-5, SOBEL, 1), (-4, SECOND, 2), (-3, SECOND, 1):
        smoothing, difference, scale = kernel
        derivative = _correlate(_correlate(total, smoothing, 3 - axis), difference, axis)
        np.divide(np.abs(derivative), scale * white * channels, out=phi[:, row])
    I_x, I_y = phi[:, -6], phi[:, -5]
    phi[:, -2] = np.sqrt(I_x**2 + I_y**2)
    with np.errstate(divide="ignore", invalid="ignore"):
        phi[:, -1] = np.arctan(I_x / I_y)
    phi[:, -1][I_x == 0] = 0  # 0/0 too
    return phi.reshape(n, channels + 8, h * w)


def _correlate(a, weights, axis):
    """Weighted sums of neighbours along an axis, the edge replicated, in the type of `a`."""
    first = np.arange(a.shape[axis]) - len(weights) // 2
    return sum(weight * a.take(first + i, axis, mode="clip") for i, weight in enumerate(weights)
               if weight)


def _checked_images(images):
    stack = _stack(as_array(images, "images", ACCEPTED))
    if stack.dtype != np.uint8:
        low, high = stack.min(axis=(1, 2, 3)), stack.max(axis=(1, 2, 3))
        bad = ~((low >= 0) & (high <= 1))  # NaN fails every comparison
        if (i := first(bad)) is not None:
            raise ValueError(f"images{at(i)} has values from {low[i]} to {high[i]}; {ACCEPTED}")
    return stack


def _stack(images):
    """Images as an array of shape (n, h, w, channels), if shape and type are those of images."""
    stack = images[..., None] if images.ndim == 3 else images
    if stack.ndim != 4 or stack.shape[-1] not in (1, 3) or 0 in stack.shape[1:]:
        raise ValueError(f"images has shape {images.shape}; {ACCEPTED}")
    if stack.dtype != np.uint8 and not np.issubdtype(stack.dtype, np.floating):
        raise ValueError(f"images has dtype {stack.dtype}; {ACCEPTED}")
    return stack
