"""Fréchet means that are not private; on curved spaces by gradient descent, many at once."""

import math
from typing import Any

import numpy as np
from numpy.typing import ArrayLike

from .._checks import of_numbers, positive
from .components import lengths

STEPS = 1000  # at most


def frechet_mean(X: ArrayLike, space: Any, tolerance: float | None = None) -> np.ndarray:
    """Fréchet means of sets of points, not private; thousands of small sets at once.

    Parameters
    ----------
    X : array of shape (..., n, *space.shape)
        The points; the mean is taken over the axis before those of a point.
    space : Space
    tolerance : float, optional
        How long the gradient, the mean step from a mean to its points, may be; on a curved space by
        default 1e-10, times inj/π where that is finite.

    Returns
    -------
    array of shape (..., *space.shape)

    Raises
    ------
    ValueError
        For what is no point; where the descent ends at a longer gradient; and where the points are
        so far apart that what was found need not be the mean: not all within min(inj, π/√κ)/2 of
        it, a ball in which there is no other (Afsari 2011).
    """
    X, d = of_numbers(space.numbers)(X, "X"), len(space.shape)
    if X.shape[-d:] != space.shape or X.ndim == d or X.shape[-1 - d] == 0:
        ends = ", ".join(map(str, space.shape))
        raise ValueError(f"X has shape {X.shape}; accepted is (..., n, {ends}), n ≥ 1")
    if space.flat:
        return space.point(space.mean(None, space.coordinates(X)))
    tolerance = positive(1e-10 * unit(space) if tolerance is None else tolerance, "tolerance")
    X = space.points(X, "X")
    M = np.take(X, 0, axis=-1 - d)
    step = space.mean(M, space.log(space.among(M), X), tolerance)
    mean, reach = space.exp(M, step), largest_radius(space)
    far = space.dist(space.among(mean), X).max(initial=0)
    if not far < reach:
        raise ValueError(f"X has a point {far:.6g} away from where the gradient vanishes; accepted "
                         f"are points within {reach:.6g}, where that is sure to be the mean")
    return mean


def largest_radius(space):
    """r*: in a smaller ball a mean is the only one, and geodesics stay inside (Afsari 2011)."""
    high = space.curvature[1]
    return min(space.injectivity_radius, math.pi / math.sqrt(high) if high > 0 else math.inf) / 2


def unit(space):
    """A length in which the space looks curved, but no more."""
    reach = space.injectivity_radius
    return reach / math.pi if reach < math.inf else 1.0


def descent(space, M, y, tolerance):
    """Step from `M` to the mean of the points to which the steps `y` lead: see `space.mean`."""
    flat = np.einsum("...nd->...d", y) / y.shape[-2]  # to the mean, were the space flat
    start, X = space.ends(M, flat), space.reached(space.ends(space.among(M), y))
    x, before = start.reshape(-1, *space.shape), space.carried(M, flat, flat)
    X, before = X.reshape(-1, y.shape[-2], *space.shape), before.reshape(-1, space.dim)
    active, pace = np.arange(len(x)), None
    for _ in range(STEPS):
        steps = space.steps(space.among(x[active]), X)
        gradient = np.einsum("...nd->...d", steps) / y.shape[-2]
        size = lengths(gradient)
        far = ~(size <= tolerance)
        if not far.any():
            return space.steps(M, x.reshape(start.shape))
        if pace is None:
            pace, (least, most) = 1.0, paces(space.curvature, lengths(steps))
        left = (before * gradient).sum(axis=-1) / np.maximum(lengths(before)**2, 1e-300)
        pace = np.clip(pace / np.maximum(1 - left, 0.1), least, most)
        if 2 * far.sum() < len(far):  # else it costs more than it saves
            active, X, gradient = active[far], X[far], gradient[far]
            pace, least, most = pace[far], least[far], most[far]
        step = pace[:, None] * gradient
        before = space.carried(x[active], step, gradient)
        x[active] = space.ends(x[active], step)
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
