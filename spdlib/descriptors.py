"""Covariance descriptors of images (Sec. 6.2) and the ball about I that holds them (Lemma A.6, Theorem A.7).

The paper is silent on three choices; they are made here. *Border*: the edge pixel is replicated, so that no false
edge appears and the bounds of Lemma A.6 hold at the border too. *arctan(|Ix| / |Iy|)* is 0 at 0/0 and pi/2 at a/0.
*RGB*: derivatives are taken of the mean of the three channels, a convex combination, so the bounds hold for it.
"""

import math
from numbers import Real

import numpy as np
from scipy.ndimage import correlate1d

# The printed kernels of Lemma A.6 are products of a smoothing across and a difference along. Every factor is a
# dyadic fraction, and the sign, which tells a convolution from a correlation, falls to the absolute value.
SOBEL = np.array([1, 2, 1]) / 4, np.array([1, 0, -1])
SECOND = np.array([1, 4, 6, 4, 1]) / 32, np.array([1, 0, -2, 0, 1])

BLOCK = 2**17  # floats in the features of one block: 1 MiB, which stays in the cache


def covariance_descriptors(images, eta=1e-6):
    """Covariance descriptors R_eta (Sec. 6.2), shape (n, k, k), k = 9 for grey and 11 for RGB images.

    `images` has shape (n, h, w) or (n, h, w, 1) for grey and (n, h, w, 3) for RGB; its values are unsigned 8-bit
    integers, read as v/255, or floats in [0, 1]. Beside its input and result it needs memory for twice the features
    of one block, which are 1 MiB, or those of one image where that is more.

    The result is exactly symmetric. Its smallest eigenvalue is at least eta but for rounding, which is below
    (h w + 2) 2^-53 trace(R_eta); an eta below that bound promises nothing.
    Raises ValueError for other images and for an eta that is not a finite number > 0.
    """
    images, eta = _checked_images(images), _checked_eta(eta)
    n, h, w, channels = images.shape
    k = channels + 8
    R = np.empty((n, k, k))
    size = max(1, BLOCK // (k * h * w))
    for start in range(0, n, size):
        block = slice(start, start + size)
        R[block] = _covariances(_features(images[block])) + eta * np.eye(k)
    return R


def features(images):
    """Feature vectors phi of every pixel, row by row (Sec. 6.2), shape (n, k, h w); images as for the descriptors.

    phi = [x, y, channels, |Ix|, |Iy|, |Ixx|, |Iyy|, sqrt(Ix^2 + Iy^2), arctan(|Ix| / |Iy|)] with x = column/(w - 1)
    and y = row/(h - 1), which are 0 where there is one pixel only. Every feature keeps to `feature_bounds`.
    Derivatives of 8-bit images are exact before they are scaled, so their 0/0 is found exactly; floats that stand
    for v/255 may miss it by rounding.
    """
    return _features(_checked_images(images))


def feature_bounds(channels):
    """Upper bounds a_i of the features, which are all >= 0 (Lemma A.6), shape (k,)."""
    return np.array([1, 1] + [1] * _checked_channels(channels) + [1, 1, 1, 1, math.sqrt(2), math.pi / 2])


def descriptor_radius(channels, eta):
    """Radius of the log-Euclidean ball about I that holds every R_eta (Theorem A.7), rounded up.

    It is sqrt(k) max(|ln eta|, |ln(L + eta)|), with k = 9, L = 12 for one channel and k = 11, L = 14 for three
    (Theorem 5 prints 14 and 16). A descriptor as computed can leave the ball by its rounding.
    """
    channels, eta = _checked_channels(channels), _checked_eta(eta)
    radius = math.sqrt(channels + 8) * max(abs(math.log(eta)), math.log(channels + 11 + eta))
    return radius * (1 + 2**-50)  # its roundings sum to less than 3 * 2^-52: never below the true value


def _features(images):
    n, h, w, channels = images.shape
    white = 255 if images.dtype == np.uint8 else 1
    phi = np.empty((n, channels + 8, h, w))
    phi[:, 0] = np.arange(w) / max(w - 1, 1)
    phi[:, 1] = np.arange(h)[:, None] / max(h - 1, 1)
    phi[:, 2:-6] = np.moveaxis(images, -1, 1)
    total = phi[:, 2:-6].sum(axis=1)  # white and the mean divide last: whole numbers lose nothing before
    phi[:, 2:-6] /= white
    for row, kernel, axis in (-6, SOBEL, 2), (-5, SOBEL, 1), (-4, SECOND, 2), (-3, SECOND, 1):
        np.abs(_derivative(total, kernel, axis), out=phi[:, row])
    phi[:, -6:-2] /= white * channels
    I_x, I_y = phi[:, -6], phi[:, -5]
    phi[:, -2] = np.sqrt(I_x**2 + I_y**2)
    phi[:, -1] = np.arctan2(I_x, I_y)
    return phi.reshape(n, channels + 8, h * w)


def _derivative(intensity, kernel, axis):
    smoothing, difference = kernel
    smooth = correlate1d(intensity, smoothing, axis=3 - axis, mode="nearest")
    return correlate1d(smooth, difference, axis=axis, mode="nearest")


def _covariances(phi):
    phi -= phi.mean(axis=-1, keepdims=True)  # centred first: a Gram matrix loses no digits to the mean
    C = phi @ phi.swapaxes(1, 2) / phi.shape[-1]
    return (C + C.swapaxes(1, 2)) / 2


def _checked_images(images):
    accepted = "accepted are (n, h, w), (n, h, w, 1) or (n, h, w, 3), h, w >= 1, of uint8 or of floats in [0, 1]"
    try:
        images = np.asarray(images)
    except ValueError as error:
        raise ValueError(f"images: no array ({error}); {accepted}") from error
    stack = images[..., None] if images.ndim == 3 else images
    if stack.ndim != 4 or stack.shape[-1] not in (1, 3) or 0 in stack.shape[1:]:
        raise ValueError(f"images: shape {images.shape}; {accepted}")
    if stack.dtype == np.uint8:
        return stack
    if not np.issubdtype(stack.dtype, np.floating):
        raise ValueError(f"images: type {stack.dtype}; {accepted}")
    low, high = stack.min(axis=(1, 2, 3)), stack.max(axis=(1, 2, 3))
    bad = ~((low >= 0) & (high <= 1))  # NaN fails every comparison
    if bad.any():
        i = int(bad.argmax())
        raise ValueError(f"images: image {i} has values from {low[i]} to {high[i]}; {accepted}")
    return stack


def _checked_channels(channels):
    if channels not in (1, 3):
        raise ValueError(f"channels: {channels!r}; accepted are 1 (grey) and 3 (RGB)")
    return int(channels)


def _checked_eta(eta):
    if not isinstance(eta, Real) or isinstance(eta, bool) or not 0 < eta < math.inf:
        raise ValueError(f"eta: {eta!r}; accepted is a finite number > 0")
    return float(eta)
