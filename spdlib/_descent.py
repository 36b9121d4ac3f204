"""Fréchet means on curved spaces, by gradient descent for many data sets at once."""

import math

import numpy as np

from ._components import lengths

STEPS = 1000  # at most


def descent(space, M, y, tolerance):
    """Step from `M` to the mean of the points to which the steps `y` lead: see `space.mean`."""
    flat = np.einsum("...nd->...d", y) / y.shape[-2]  # to the mean, were the space flat
    start, X = space._exp(M, flat), space._reached(space._exp(space._among(M), y))
    x, before = start.reshape(-1, *space.shape), space._carry(M, flat, flat)
    X, before = X.reshape(-1, y.shape[-2], *space.shape), before.reshape(-1, space.dim)
    active, pace = np.arange(len(x)), None
    for _ in range(STEPS):
        steps = space._log(space._among(x[active]), X)
        gradient = np.einsum("...nd->...d", steps) / y.shape[-2]
        size = lengths(gradient)
        far = ~(size <= tolerance)
        if not far.any():
            return space._log(M, x.reshape(start.shape))
        if pace is None:
            pace, (least, most) = 1.0, paces(space.curvature, lengths(steps))
        left = (before * gradient).sum(axis=-1) / np.maximum(lengths(before)**2, 1e-300)
        pace = np.clip(pace / np.maximum(1 - left, 0.1), least, most)
        if 2 * far.sum() < len(far):  # else it costs more than it saves
            active, X, gradient = active[far], X[far], gradient[far]
            pace, least, most = pace[far], least[far], most[far]
        step = pace[:, None] * gradient
        before = space._carry(x[active], step, gradient)
        x[active] = space._exp(x[active], step)
    raise ValueError(f"the descent to the mean stands at a gradient of {size.max():.6g} after "
                     f"{STEPS} steps; accepted is {tolerance:.6g}")


def paces(curvature, rho):
    """Lengths, in gradients, between which a step of descent converges for these distances.

    A record's Hessian has its eigenvalues between √κρ cot √κρ and √-κρ coth √-κρ, with the upper
    and the lower bound for κ (comparison); that of all, between the means of these.
    """
    low, high = curvature
    s, t = math.sqrt(max(-low, 0)) * rho, math.sqrt(max(high, 0)) * rho
    with np.errstate(invalid="ignore", divide="ignore"):
        most = np.where(s > 0, s / np.tanh(s), 1).mean(axis=-1)
        least = np.where(t > 0, t / np.tan(t), 1).mean(axis=-1)
    return 1 / most, np.minimum(1 / np.clip(least, 0.1, 1), 1.9 / most)
