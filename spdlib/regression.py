"""Geodesic regression: the curve exp(p, x v) that runs closest to records, by least squares.

Where a change of (p, v) takes the points of the curve is told by Jacobi fields. Along the axes of
`space.jacobi(v)` they part into one problem of two unknowns for each axis, so that no matrix is
ever inverted.
"""

import math
from types import SimpleNamespace

import numpy as np

from ._checks import EPS, at, finite, first, positive
from .spaces.components import lengths
from .spaces.functions import cosine, sinc

FEW_DIMENSIONS = 16  # up to which the axes are carried to the records, not these to the axes
MOST_STEPS, PATIENCE = 300, 15  # of a fit, and after how many of Gauss it takes those of Newton
BATCH = 2**16  # numbers that are looked at together
FREE, FIRM = 1e-15, 0.1  # damping, in units of the information on a straight line


def predict(space, point, velocity, x):
    """The points exp(point, x velocity), shape `(..., n, *space.shape)`, for x `(..., n)`."""
    x, velocity = finite(x, "x"), finite(velocity, "velocity")
    point = np.expand_dims(space.exp(point), -1 - len(space.shape))  # as many as x
    return space.exp(point, x[..., None] * velocity[..., None, :])


def energy(space, point, velocity, x, Y):
    """Half the mean squared distance of the records `Y` from the curve (eq. 3), shape `(...)`."""
    return _square(residuals(space, point, velocity, x, Y)) / 2


def residuals(space, point, velocity, x, Y):
    """Steps that lead from the curve to the records, shape `(..., n, dim)`.

    In the frames at `predict(space, point, velocity, x)`. To a cut point leads one of the shortest.
    """
    return _seen(space, point, velocity, x, Y)[-1]


def gradients(space, point, velocity, x, Y, clip=None):
    """The gradients of the energy in the point and in the velocity (eq. 5 and 6).

    Both have shape `(..., dim)` and are in the frame at `point`. With `clip`, residuals that are
    longer are shortened to this length first.
    """
    point, velocity, x, curve, steps = _seen(space, point, velocity, x, Y)
    if clip is not None:
        size = lengths(steps)[..., None]
        steps = steps * np.minimum(positive(clip, "clip") / np.where(size > 0, size, 1), 1)
    axes, _, _, fall = _falls(space, point, velocity, x, curve, steps)
    return tuple(np.moveaxis(-np.einsum("...ij,...cj->...ci", axes, fall), -2, 0))


def fitted(space, x, Y, tolerance):
    """The geodesics with the least energy: `predict` takes them at x less their middle.

    Returns the middles, shape (..., 1), points and velocities there, the steps from the curves to
    the records, and the energies. On a flat space by the formula; on a curved one by the method of
    Levenberg and Marquardt with exact gradients, from the record in the middle of x.
    """
    x, Y = _records(space, x, Y)
    batch, n = x.shape[:-1], x.shape[-1]
    middle = (x / n).sum(axis=-1, keepdims=True)
    t = (x - middle).reshape(-1, n)
    scale = np.abs(t).max(axis=-1, keepdims=True)
    point, v = _fitted(space, t / scale, Y.reshape(-1, n, *space.inner), tolerance, batch)
    v = finite(v / scale, "velocity").reshape(*batch, space.dim)
    point = point.reshape(*batch, *space.shape)
    steps = space.steps(space.points(predict(space, point, v, x - middle)), Y)
    return middle, point, v, steps, finite(_square(steps) / 2, "energy")


def _seen(space, point, velocity, x, Y):
    """Point, velocity and x, checked, the points of the curve, and the residuals there.

    Points are as the unchecked maps take them.
    """
    velocity, x = space.vectors(velocity, "velocity"), finite(x, "x")
    point, Y, d = space.points(point, "point"), space.points(Y, "Y"), len(space.inner)
    if x.ndim == 0 or Y.ndim <= d or not 0 < x.shape[-1] == Y.shape[-1 - d]:
        raise ValueError(f"x has shape {x.shape}; accepted is (..., n) with n ≥ 1, one number for "
                         "each record")
    batches = point.shape[:-d], velocity.shape[:-1], x.shape[:-1], Y.shape[:-1 - d]
    try:
        np.broadcast_shapes(*batches)
    except ValueError:
        raise ValueError(f"the batches of point, velocity, x and Y have shapes {batches}; accepted "
                         "are shapes that broadcast") from None
    curve = space.reached(curve_points(space, point, velocity, x))
    return point, velocity, x, curve, space.steps(curve, Y)


def _records(space, x, Y):
    """x and the records, of one shape, if a geodesic can be fitted to them."""
    x, d = finite(x, "x"), len(space.shape)
    if np.ndim(Y) <= d or x.ndim == 0 or x.shape[-1] != np.shape(Y)[-1 - d] or x.shape[-1] < 2:
        raise ValueError(f"x has shape {x.shape} and Y has shape {np.shape(Y)}; accepted are (..., "
                         f"n) and (..., n, {', '.join(map(str, space.shape))}) with n ≥ 2")
    Y, d = space.points(Y, "Y"), len(space.inner)
    try:
        batch = np.broadcast_shapes(x.shape, Y.shape[:-d])
    except ValueError:
        raise ValueError(f"x has shape {x.shape} and Y is {Y.shape[:-d]} points; accepted are "
                         "leading axes that broadcast") from None
    x, Y = np.broadcast_to(x, batch).copy(), np.broadcast_to(Y, (*batch, *space.inner))
    low, high = x.min(axis=-1) / 2, x.max(axis=-1) / 2
    apart = high - low > 8 * EPS * np.maximum(np.abs(low), np.abs(high))
    if (index := first(~apart)) is not None:
        raise ValueError(f"x{at(index)} is {2 * low[index]:.6g} for all records; accepted are x "
                         "that differ")
    return x, Y


def _fitted(space, t, Y, tolerance, batch):
    """Points and velocities at t = 0 of the fits, in blocks of fits."""
    if space.flat:  # the line of least squares, since the t of a fit have the mean 0
        weights, y = t / t.shape[-1], Y - Y[:, :1]
        v = np.einsum("mn,mnd->md", weights, y) / np.einsum("mn,mn->m", weights, t)[:, None]
        return space.point(Y[:, 0] + (y / t.shape[-1]).sum(axis=1)), v
    size = max(BATCH // (t.shape[-1] * space.dim * min(space.dim, FEW_DIMENSIONS)), 1)
    starts = range(0, max(len(t), 1), size)
    parts = [_descent(space, t[i:i + size], Y[i:i + size], tolerance, (i, batch)) for i in starts]
    return tuple(np.concatenate(part) for part in zip(*parts, strict=True))


def _descent(space, x, Y, tolerance, place):
    """Points and velocities at which the energy is least, for a batch of data sets."""
    index = np.arange(len(x))
    start = Y[index, np.abs(x).argmin(axis=-1)]
    steps, point = space.steps(space.among(start), Y), start.copy()
    if (seen_from := space.alike(start)) is not start:  # where a condition number costs no digits
        point[:] = seen_from
        Y, axes = space.ends(space.among(point), steps), (*range(2, 2 + len(space.inner)),)
        if (bad := ~np.isfinite(Y).all(axis=axes) | ~Y.any(axis=axes)).any():
            raise ValueError(f"Y has records whose distance is {lengths(steps)[bad].max():.6g}; "
                             "accepted are those of which float64 holds one as seen from another")
    spread, velocity = np.sqrt(_square(steps)), np.zeros((len(x), space.dim))
    found_p, found_v = np.empty_like(point), np.empty_like(velocity)
    fits = SimpleNamespace(  # those under way: arrays whose first axis is that of the fits
        index=index, x=x, Y=Y, point=point, velocity=velocity, steps=steps,
        curve=np.broadcast_to(space.among(point),
                              Y.shape).copy(), energy=spread**2 / 2, damping=np.full(len(x), FREE),
        farthest=lengths(steps).max(axis=-1), goal=tolerance * spread + 16 * EPS * _unit(space))
    for i in range(MOST_STEPS):
        fits.axes, fits.f, fits.s, fits.fall = _falls(space, fits.point, fits.velocity, fits.x,
                                                      fits.curve, fits.steps)
        size = np.sqrt(np.einsum("mci,mci->m", fits.fall, fits.fall))
        done = size <= fits.goal
        found_p[fits.index[done]] = fits.point[done]
        found_v[fits.index[done]] = fits.velocity[done]
        if done.all():
            break
        if done.any():
            fits = SimpleNamespace(**{name: A[~done] for name, A in vars(fits).items()})
        step = _newton if i >= PATIENCE and space.dim <= FEW_DIMENSIONS else _gauss
        _move(space, fits, *step(space, fits))
    else:
        name = at(np.unravel_index(place[0] + fits.index[0], place[1]))
        raise ValueError(
            f"the fit{name} stands at a gradient of {size[~done][0]:.6g} after {MOST_STEPS}"
            f" steps; accepted is {fits.goal[0]:.6g}")
    if seen_from is not start:  # an isometry takes the one, and the frame there, to the other
        step = space.steps(seen_from, found_p)
        back = -space.carried(seen_from, step, step, found_p)
        found_v = space.carried(found_p, back, found_v, seen_from)
        found_p = space.ends(start, step)
        found_v = space.carried(start, step, found_v, found_p)
    return found_p, found_v


def _gauss(space, fits):
    """The step of Gauss and Newton, damped: along each axis two equations in two unknowns.

    Returns the changes of point and velocity, shape (fits, 2, dim), what the energy falls by along
    them, to first order, and its second derivative, as far as the residuals do not bend.
    """
    f, s, n = fits.f, fits.s, fits.x.shape[-1]
    F, G, H = (np.einsum("mnd,mnd->md", A, B) / n for A, B in ((f, f), (f, s), (s, s)))
    P = F + fits.damping[:, None]
    V = H + (fits.damping * np.mean(fits.x**2, axis=-1))[:, None]
    p, v = fits.fall[:, 0], fits.fall[:, 1]
    a, b = (V * p - G * v) / (P * V - G * G), (P * v - G * p) / (P * V - G * G)
    change = np.einsum("mij,mkj->mki", fits.axes, np.stack([a, b], axis=1))
    bend = F * a * a + 2 * G * a * b + H * b * b
    return change, (a * p + b * v).sum(axis=-1), bend.sum(axis=-1)


def _newton(space, fits):
    """The step of Newton, damped, downhill at saddles, too: for residuals so long that they bend.

    The second derivatives are differences of gradients. Returns what `_gauss` does.
    """
    dim, h = space.dim, 1e-5 * _unit(space)
    a, b = np.split(h * np.kron([[1], [-1]], np.eye(2 * dim)), 2, axis=1)  # a row for each way
    M, x, Y = space.among(fits.point), fits.x[:, None], fits.Y[:, None]
    point = space.ends(M, a)
    velocity = space.carried(M, a, fits.velocity[:, None] + b, point)
    curve = curve_points(space, point, velocity, x)
    axes, _, _, fall = _falls(space, point, velocity, x, curve, space.steps(curve, Y))
    back = space.carried(space.among(M), a[:, None], np.eye(dim), space.among(point))
    fall = np.einsum("mwij,mwjk,mwck->mwci", back, axes, fall).reshape(len(x), 4 * dim, 2 * dim)
    H = (fall[:, 2 * dim:] - fall[:, :2 * dim]) / (2 * h)
    fall = np.einsum("mij,mcj->mci", fits.axes, fits.fall).reshape(len(x), 2 * dim)
    # Units in which the information on a straight line is 1.
    unit = np.where(np.arange(2 * dim) < dim, 1, 1 / np.sqrt(np.mean(fits.x**2, axis=-1))[:, None])
    H = unit[:, :, None] * (H + H.swapaxes(1, 2)) / 2 * unit[:, None]
    curving, Q = np.linalg.eigh(H)
    firm = np.maximum(np.abs(curving), 1e-6 * np.abs(curving).max(axis=-1, keepdims=True))
    along = np.einsum("mji,mj->mi", Q, unit * fall)
    step = along / (firm + fits.damping[:, None])
    change = (unit * np.einsum("mij,mj->mi", Q, step)).reshape(len(x), 2, dim)
    return change, (along * step).sum(axis=-1), (curving * step * step).sum(axis=-1)


def _move(space, fits, change, slope, bend):
    """Make the step where the energy falls, and choose how much to damp the next one."""
    longest = np.sqrt((change * change).sum(axis=-1).max(axis=-1))
    share = np.minimum(2 * fits.farthest / np.maximum(longest, 1e-300), 1)
    a, b = np.moveaxis(share[:, None, None] * change, 1, 0)
    hoped = share * slope - share**2 * bend / 2
    point = space.ends(fits.point, a)
    velocity = space.carried(fits.point, a, fits.velocity + b, point)
    curve = curve_points(space, point, velocity, fits.x)
    # Where volume grows, a curve may leave what float64 holds.
    held = space.contains(curve).all(axis=-1) if space.growth > 0 else np.ones(len(fits.x), bool)
    curve[~held] = fits.curve[~held]
    steps = space.steps(curve, fits.Y)
    gain = np.where(held, fits.energy - _square(steps) / 2, -np.inf)
    # of the squares, and of steps that are short beside the points between which they lead
    rounding = 1e-12 * fits.energy + 16 * EPS * _unit(space) * np.sqrt(2 * fits.energy)
    better = gain >= -rounding
    for name, A in dict(point=point, velocity=velocity, curve=curve, steps=steps).items():
        getattr(fits, name)[better] = A[better]
    fits.energy = np.where(better, fits.energy - gain, fits.energy)
    told = hoped > 100 * rounding
    good, bad = told & (gain > 0.75 * hoped), told & (gain < 0.25 * hoped) | ~better
    fits.damping = np.where(good, np.maximum(fits.damping / 10, FREE), fits.damping)
    fits.damping = np.where(bad, np.maximum(4 * fits.damping, FIRM), fits.damping)


def _falls(space, point, velocity, x, curve, steps):
    """The axes at the point, the two Jacobi fields, and what the energy falls by along them.

    The last is minus its gradients in the point and in the velocity, shape (..., 2, dim).
    """
    axes, f, s = jacobi_fields(space, velocity, x)
    steps = carried_back(space, point, velocity, x, axes, curve, steps)
    return axes, f, s, np.stack([np.mean(f * steps, axis=-2), np.mean(s * steps, axis=-2)], axis=-2)


def jacobi_fields(space, velocity, x):
    """The axes at the point, and the two Jacobi fields along each of them at `x`.

    Those of J(0) = u, J'(0) = 0 and those of J(0) = 0, J'(0) = u, both of shape (..., n, dim).
    """
    curving, axes = space.jacobi(velocity)
    c = (x * x)[..., None] * curving[..., None, :]
    return axes, cosine(c), x[..., None] * sinc(c)


def carried_back(space, point, velocity, x, axes, curve, steps):
    """The residuals, carried back to the point, along the axes there.

    From the frames at `curve` to that at `point`: those at equal points may differ by a turn, where
    rounding tells whether their first component is positive.
    """
    point, way = space.among(point), x[..., None] * velocity[..., None, :]
    if space.dim <= FEW_DIMENSIONS:
        there = space.carried(space.among(point), way[..., None, :],
                              axes.swapaxes(-2, -1)[..., None, :, :], space.among(curve))
        return np.einsum("...ij,...j->...i", there, steps)
    back = -space.carried(point, way, way, curve)
    return np.einsum("...ij,...ni->...nj", axes, space.carried(curve, back, steps, point))


def curve_points(space, point, velocity, x):
    return space.ends(space.among(point), x[..., None] * velocity[..., None, :])


def _square(steps):
    """Mean squared lengths of the residuals."""
    return np.einsum("...nd,...nd->...", steps, steps) / steps.shape[-2]


def _unit(space):
    """A length of the order of points' own, of which rounding is a share."""
    steepest = max(map(abs, space.curvature))
    return 1 / math.sqrt(steepest) if steepest else 1.0
