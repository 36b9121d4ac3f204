"""Samplers: exact ones for every space, and Metropolis chains, many at once, with diagnostics.

A step from a point is a tangent vector there. A law of steps with the density of the Laplace law
times the volume, `exp(-‖v‖/scale + log_volume(v))`, is Laplace about the point on the space itself.
"""

import math
from functools import cache

import numpy as np
from numpy.polynomial import Chebyshev
from numpy.polynomial.legendre import leggauss
from scipy.special import logsumexp, xlogy

from ._checks import EPS, at, finite, first, generator, integer, number, positive, real
from ._functions import log_sinhc
from .spaces import AffineInvariant, KendallPlanar, Sphere

LEAST, MOST = 1e-100, 1e100  # scales and radii whose squares and quotients are floats
BATCH = 2**20  # so many numbers has a batch of proposals at most, or memory would go
PILOT = 256  # proposals from which the share that is accepted is estimated
HOPELESS = 1e-6  # share below which nothing is drawn
NATS = 40.0  # what is less likely than the likeliest by more than e^40 is not resolved
CELLS = 512  # of the hat over what is
DEGREE = 127  # of the polynomial that stands for a radial density
BISECTIONS = 52  # of its interval, for a quantile
SLACK = 1e-9  # more than rounding: what covers the density goes on covering it
MOST_K = 4  # up to which size the volume is averaged over all directions


def sample_laplace(shape, rng=None):
    """Draws with density proportional to exp(-‖x‖) on R^d, `shape = (..., d)`.

    A Gamma(d) radius times a uniform direction. `rng` is a `numpy.random.Generator` or a seed.
    ValueError where `d` is not at least 1.
    """
    *batch, d = shape
    d, rng = integer(d, "d, the last entry of shape,", 1), generator(rng)
    z = rng.standard_normal((*batch, d))
    z /= np.linalg.norm(z, axis=-1, keepdims=True)
    return z * rng.standard_gamma(d, (*batch, 1))


def laplace_threshold(space):
    """Supremum of the scales at which exp(-distance/scale) has a finite integral over the space.

    1/β with β = √(k(k² - 1)/12) on `AffineInvariant(k)`, infinite on the other spaces.
    """
    growth = _growth(space)
    return 1 / growth if growth > 0 else math.inf


def laplace_steps(space, scale, shape=(), rng=None, within=None):
    """Exact draws of steps that are Riemannian Laplace (Definition 3 of Reimherr et al. 2021).

    The steps have density proportional to `exp(-‖v‖/scale + log_volume(v))`, on all vectors shorter
    than the injectivity radius; `space.exp(M, v)` then has density proportional to
    exp(-distance from M/scale), for any M.

    Parameters
    ----------
    space : LogEuclidean, Euclidean, TangentSpace, AffineInvariant, Sphere or KendallPlanar
    scale : float
        In the unit of the distance; below `laplace_threshold(space)` where `within` is None.
    shape : int or tuple of int
        Of the batch.
    rng : Generator, int or None
    within : float, optional
        Radius of the ball about the footpoint to which the law is confined.

    Returns
    -------
    array of shape (*shape, dim)
        No longer than `within`.

    Raises
    ------
    ValueError
        Where the law does not exist, or not one proposal in a million would be accepted. Nothing
        was drawn then.
    """
    scale, shape, rng = positive(scale, "scale"), _shape(shape), generator(rng)
    boundless = within is None and math.isinf(space.injectivity_radius)
    if boundless and _growth(space) == 0:
        return scale * sample_laplace((*shape, space.dim), rng)
    return _draw(space, *_law(space, scale, within), shape, rng)


def ball_steps(space, radius, shape=(), rng=None):
    """Exact draws of steps to points that are uniform on the ball of that radius, by its volume.

    An array of shape `(*shape, dim)`; `rng` is a `numpy.random.Generator` or a seed. ValueError as
    in `laplace_steps`, whose law within the ball this is for an infinite scale.
    """
    radius = min(_size(radius, "radius"), space.injectivity_radius)
    return _draw(space, 0.0, radius, _shape(shape), generator(rng))


def radial_law(space, scale, within=None):
    """Law of the length of `laplace_steps(space, scale, within=within)`; a `RadialLaw`.

    An infinite `scale` is that of `ball_steps`. ValueError where the law does not exist, and on
    `AffineInvariant(k)` for k above 4, where the integral over all directions is out of reach.
    """
    if isinstance(space, AffineInvariant):
        integer(space.k, "k", 1, MOST_K)
    rate, radius = _law(space, scale, within)
    volume = _mean_volume(space.k) if _growth(space) > 0 else _volume_bound(space)
    log_density = _radial_density(space, rate, volume)
    return RadialLaw(log_density, *_support(log_density, space, rate, radius))


class RadialLaw:
    """A law on [low, high] by the logarithm of a density, known up to a constant.

    What a frozen law of SciPy does: `pdf`, `cdf`, `ppf`, `moment`, `mean`, to ten digits of the
    density given. That is analytic, so a polynomial through its values at Chebyshev's nodes stands
    for it.
    """

    def __init__(self, log_density, low, high):
        self.low, self.high = low, high
        nodes, weights = _gauss(DEGREE + 1)
        self._nodes = low + (high - low) * (nodes + 1) / 2
        logs = log_density(self._nodes)
        top = logs.max()
        self._weights = weights * np.exp(logs - top)
        self._weights /= self._weights.sum()
        density = Chebyshev.interpolate(lambda x: np.exp(log_density(x) - top), DEGREE, [low, high])
        integral = density.integ(lbnd=low)
        self._density, self._integral = density / integral(high), integral / integral(high)

    def pdf(self, x):
        """The density at `x`."""
        x = real(x, "x")
        inside = (x >= self.low) & (x <= self.high)
        return np.where(inside, self._density(np.clip(x, self.low, self.high)).clip(0), 0.0)[()]

    def cdf(self, x):
        """Probability of being at most `x`."""
        x = real(x, "x")
        inside = self._integral(np.clip(x, self.low, self.high)).clip(0, 1)
        return np.where(x <= self.low, 0.0, np.where(x >= self.high, 1.0, inside))[()]

    def ppf(self, q):
        """The quantiles at `q`, from 0 to 1."""
        q = finite(q, "q")
        if (bad := (q < 0) | (q > 1)).any():
            index = first(bad)
            raise ValueError(f"q{at(index)} is {q[index]}; accepted are numbers from 0 to 1")
        below, above = np.full(q.shape, self.low), np.full(q.shape, self.high)
        for _ in range(BISECTIONS):
            middle = (below + above) / 2
            less = self.cdf(middle) < q
            below, above = np.where(less, middle, below), np.where(less, above, middle)
        return ((below + above) / 2)[()]

    def moment(self, m):
        """Mean of the `m`-th power."""
        return float(self._weights @ self._nodes**m)

    def mean(self):
        return self.moment(1)


@cache
def _gauss(n):
    """Nodes and weights of Gauss's quadrature on [-1, 1]."""
    return leggauss(n)


def _shape(shape):
    """A shape as a list of ints."""
    shape = shape if isinstance(shape, (tuple, list)) else [shape]
    return [integer(m, "shape", 0) for m in shape]


def _growth(space):
    """The smallest β with log_volume(v) ≤ β‖v‖ for all v: see `_volume_bound`."""
    if isinstance(space, AffineInvariant):
        return math.sqrt(space.k * (space.k**2 - 1) / 12)
    if space.flat or isinstance(space, (Sphere, KendallPlanar)):
        return 0.0
    raise ValueError(f"space is {space!r}; accepted are those of spdlib.spaces")


def _law(space, scale, within):
    """Rate and radius of the law with density exp(-rate ‖v‖ + log_volume(v)) for ‖v‖ < radius."""
    scale = _size(scale, "scale", also=math.inf)
    if within is None:
        threshold = laplace_threshold(space)
        if math.isinf(space.injectivity_radius) and not scale < threshold:
            raise ValueError(f"scale is {scale!r}; accepted are those below {threshold:.6g}, from "
                             f"which on exp(-distance/scale) has no finite integral over {space!r}"
                             ", except within a ball")
        return 1 / scale, space.injectivity_radius
    return 1 / scale, min(_size(within, "within"), space.injectivity_radius)


def _size(value, name, also=None):
    """`value` as a float whose square and quotients are floats."""
    return number(value, name, LEAST, MOST, f"numbers from {LEAST:g} to {MOST:g}", also)


def _draw(space, rate, radius, shape, rng):
    """Steps of the law that `_law` describes, shape `(*shape, dim)`: one sampler for all spaces.

    A length from the density with the bound on the volume in place of the volume, a uniform
    direction, and acceptance with the ratio of the two. What share is accepted is estimated before
    the draw, from numbers of its own.
    """
    bound = _volume_bound(space)
    lengths = _log_concave(_radial_density(space, rate, bound), space, rate, radius)

    def propose(m, rng):
        rho = lengths(m, rng)
        z = rng.standard_normal((len(rho), space.dim))
        v = z * (rho / np.linalg.norm(z, axis=-1))[:, None]
        return v, bound(rho) - space.log_volume(v)

    share = np.exp(-propose(PILOT, np.random.default_rng(0))[1]).sum() / PILOT
    if share < HOPELESS:
        scale = 1 / rate if rate > 0 else math.inf
        raise ValueError(f"the share of proposals to accept is {share:.1g} for scale {scale:.6g} "
                         f"within {radius:.6g} on {space!r}; accepted are shares from "
                         f"{HOPELESS:g}, which smaller scales and radii have")
    most = max(BATCH // space.dim, 1)
    kept, missing, tried, accepted = [np.empty((0, space.dim))], math.prod(shape), 1, 1
    while missing > 0:
        m = min(int(1.1 * missing * tried / accepted) + 16, most)
        v, loss = propose(m, rng)
        v = v[rng.standard_exponential(len(v)) > loss]
        kept.append(v[:missing])
        missing, tried, accepted = missing - len(kept[-1]), tried + m, accepted + len(v)
    return np.concatenate(kept).reshape(*shape, space.dim)


def _volume_bound(space):
    """A function of the length of steps that `log_volume` nowhere exceeds.

    On spheres and on shapes the volume depends on the length alone: it is `log_volume` itself. On
    `AffineInvariant(k)` it is J = ∏ s(t_ij), s(t) = sinh(t)/t, t_ij = (λ_i - λ_j)/2, over the pairs
    i < j of the eigenvalues λ_1 ≥ … ≥ λ_k, with Σ λ_i² = ρ². Two bounds hold.

    1. J ≤ s(βρ/(k - 1))^(k - 1), β = √(k(k² - 1)/12). Write log s(t) = t - ψ(t). Log s is convex
       with a slope below 1, so ψ is concave and increasing, from ψ(0) = 0. The t_ij are sums of the
       gaps g_l = (λ_l - λ_(l+1))/2 ≥ 0, each of which is in l(k - l) of them. Where
       T = Σ t_ij = Σ l(k - l) g_l is given, Σ ψ(t_ij), concave in the gaps, is least at a vertex,
       where only one gap is not 0: there it is n ψ(T/n) with n = l(k - l) ≥ k - 1, which increases
       in n. So log J ≤ T - (k - 1) ψ(T/(k - 1)) = (k - 1) log s(T/(k - 1)). And T = Σ a_i λ_i ≤
       ‖a‖ρ = βρ by Cauchy and Schwarz, with a = ((k - 1)/2, …, -(k - 1)/2). It grows as e^βρ, and
       J does so along a: no smaller β will do.
    2. J ≤ s(ρ/√(2(k - 1)))^(k(k - 1)/2), the better one for small ρ. Log s(√y) is concave, since
       s(√y) = ∏ (1 + y/(nπ)²), so Jensen's inequality holds for the mean of the k(k - 1)/2 values
       t_ij², which is at most ρ²/(2(k - 1)) since Σ t_ij² = (kρ² - (Σ λ_i)²)/4.

    With both, and with the lesser of both, the density of the length has a concave logarithm.
    """
    if _growth(space) == 0:
        axis = np.eye(1, space.dim)[0]
        return lambda rho: space.log_volume(rho[..., None] * axis)
    k, beta = space.k, _growth(space)
    pairs = k * (k - 1) / 2

    def bound(rho):
        small = pairs * log_sinhc(rho / math.sqrt(2 * (k - 1)))
        return np.minimum(small, (k - 1) * log_sinhc(beta * rho / (k - 1)))

    return bound


def _radial_density(space, rate, volume):
    """Logarithm of the density of the length, up to a constant, for a volume that depends on it."""
    return lambda rho: xlogy(space.dim - 1, rho) - rate * rho + volume(rho)


def _support(log_density, space, rate, radius):
    """Interval of lengths outside which the density is below its largest value by e^-NATS.

    Volume grows by the factor e^βρ at most, so the density decreases faster than that of a Gamma
    law of rate 1/scale - β, which beyond `top` is far below that. Where it is not so, nothing is
    wrong with a draw: it takes longer.
    """
    d, rate = space.dim, rate - _growth(space)
    top = min(radius, (d + 9 * math.sqrt(d) + 2 * NATS) / rate) if rate > 0 else radius
    x = top * (np.arange(128) + 0.5) / 128
    logs = log_density(x)
    near = x[logs >= logs.max() - NATS]
    return max(near[0] - top / 128, 0.0), min(near[-1] + top / 128, top)


def _log_concave(g, space, rate, radius):
    """The sampler of lengths in (0, radius) with density exp(g), g concave: `f(m, rng)`.

    It draws from m proposals those accepted. On flat spaces g is (d - 1) log ρ - rate ρ, on spheres
    (d - 1) log sin(ρ√κ) - rate ρ, on shapes (d - 1) log sin ρ + log cos ρ - rate ρ. With either
    bound on `AffineInvariant(k)` it is (d - 1 - n) log ρ + n log sinh(cρ) - rate ρ with n < d.
    """
    end = min(radius, MOST)  # what is longer, where there is no end, is less likely than any float
    edges, hat = _hat(g, *_support(g, space, rate, radius), end)
    width = np.diff(edges)
    mass = np.cumsum(width * np.exp(hat - hat.max()))
    longest = end * (1 - 16 * EPS)  # a step is no longer, however its length is rounded

    def lengths(m, rng):
        cell = np.searchsorted(mass, mass[-1] * rng.random(m), side="right")
        rho = np.minimum(edges[cell] + width[cell] * rng.random(m), longest)
        return rho[rng.standard_exponential(m) > hat[cell] - g(rho)]

    return lengths


def _hat(g, low, high, end):
    """Edges of cells that cover (0, end), and for each a number that concave g does not exceed.

    A concave function lies below each of its secants outside the interval of that secant. So on
    each cell g lies below the secants of the cells before and behind it, and the number is the
    greater end of one of them, the less of the two. That holds for any cells, wherever the mode is.
    Those between low and high are narrow, so that most proposals there are accepted; beyond, they
    double.
    """
    x = np.linspace(low, high, CELLS + 1)[1:-1]
    doublings = np.arange(1, math.ceil(math.log2(end) - math.log2(x[-1])))
    x = np.append(x, x[-1] * 2.0**doublings)
    edges = np.concatenate([[0.0], x, [end]])
    width, heights = np.diff(edges), g(x)
    slopes = np.diff(heights) / np.diff(x)
    hat = np.full((2, len(width)), math.inf)
    hat[0, 2:] = heights[1:] + np.maximum(slopes, 0) * width[2:]
    hat[1, :-2] = heights[:-1] + np.maximum(-slopes, 0) * width[:-2]
    return edges, hat.min(axis=0) + SLACK


def _mean_volume(k):
    """Logarithm of the mean of J over the steps of one length on `AffineInvariant(k)`, a function.

    Eigenvalues in increasing order are cos φ/√k each, plus sin φ times a unit vector whose gaps
    are a multiple of a point of the simplex; the density of directions has the factor
    ∏ (λ_j - λ_i) (Muirhead 1982, Theorem 3.2.17). Everything is analytic: with Gauss's nodes it
    is right to nine digits for lengths up to 50.
    """
    t, w = _gauss(24)
    t, w = (t + 1) / 2, w / 2
    phi, *cuts = (axis.ravel() for axis in np.meshgrid(*(k - 1) * [t], indexing="ij"))
    weight = np.prod(np.meshgrid(*(k - 1) * [w], indexing="ij"), axis=0).ravel()
    phi, gaps, rest = phi * math.pi / 2, [], np.ones_like(phi)
    for left, cut in zip(range(k - 2, 0, -1), cuts, strict=True):
        gaps.append(rest * cut)
        weight, rest = weight * (1 - cut) ** (left - 1), rest * (1 - cut)
    levels = np.cumsum([0 * phi, *gaps, rest], axis=0)
    levels -= levels.mean(axis=0)
    length = np.linalg.norm(levels, axis=0)
    i, j = np.triu_indices(k, 1)
    spread = np.sin(phi) * (levels[j] - levels[i]) / length
    logs = np.log(weight) - (k - 1) * np.log(length) + (k - 2) * np.log(np.sin(phi))
    logs += np.log(spread).sum(axis=0)
    logs -= logsumexp(logs)

    def mean_volume(rho):
        rho = np.asarray(rho)
        volumes = sum(log_sinhc(rho[..., None] * pair / 2) for pair in spread)
        return logsumexp(volumes + logs, axis=-1)

    return mean_volume


def metropolis(log_density, propose, x, steps, rng=None, watch=None):
    """Chains of Metropolis from the states `x`, shape `(n, ...)`: last states and acceptance.

    `log_density(x)`, shape `(n,)`, is that of the target up to a constant; `propose(x, rng)` draws
    candidates from a *symmetric* proposal. Each chain is `steps` long; its acceptance, shape
    `(n,)`, is the share of candidates that it accepted. A rejected candidate leaves the chain where
    it is, and that counts as a step. `rng` is a `numpy.random.Generator` or a seed. `watch(x)`
    is called with the states after each step, which the next one overwrites.
    """
    rng, steps = generator(rng), integer(steps, "steps", 0)
    x = np.array(x, complex if np.iscomplexobj(x) else float)
    log_p = log_density(x)
    accepted = np.zeros(len(x), int)
    for _ in range(steps):
        candidate = propose(x, rng)
        log_q = log_density(candidate)
        accept = rng.standard_exponential(len(x)) > log_p - log_q
        x[accept], log_p = candidate[accept], np.where(accept, log_q, log_p)
        accepted += accept
        if watch is not None:
            watch(x)
    return x, accepted / max(steps, 1)


def split_rhat(chains):
    """The potential scale reduction R̂ of chains, shape `(steps, n, ...)`: an array `(...)`.

    Each chain is split into halves (Gelman et al. 2013, Sec. 11.4; without the ranks of Vehtari
    et al. 2021). It is near 1 where the halves agree, and infinite where they stay apart and none
    moves. ValueError for fewer than 4 steps, or where all values are one and the same.
    """
    halves = _halves(chains, "chains")
    within, both = _variances(halves)
    return np.sqrt(np.divide(both, within, where=within > 0, out=np.full_like(both, math.inf)))[()]


def effective_sample_size(chains):
    """So many independent draws have a mean as precise as that of the chains, `(steps, n, ...)`.

    An array `(...)`, by the autocorrelations of the split chains, summed in pairs while these are
    positive and made to decrease (Vehtari et al. 2021, Sec. 3.2, without ranks; Geyer 1992). At
    most S log10(S) for S draws in all. ValueError as in `split_rhat`.
    """
    halves = _halves(chains, "chains")
    within, both = _variances(halves)
    length, n = halves.shape[:2]
    centred = halves - halves.mean(axis=0)
    spectrum = np.abs(np.fft.rfft(centred, 2 * length, axis=0)) ** 2
    covariance = np.fft.irfft(spectrum, 2 * length, axis=0)[:length].mean(axis=1) / length
    rho = 1 - (within - covariance) / both
    rho[0] = 1.0
    pairs = rho[: length // 2 * 2].reshape(-1, 2, *rho.shape[1:]).sum(axis=1)
    ended = np.logical_or.accumulate(pairs < 0, axis=0)
    pairs = np.minimum.accumulate(np.where(ended, 0, pairs), axis=0)
    size = length * n
    tau = np.maximum(2 * pairs.sum(axis=0) - 1, 1 / math.log10(size))
    return (size / tau)[()]


def _halves(chains, name):
    """First and last halves of chains as chains of their own, shape `(steps // 2, 2n, ...)`."""
    chains = finite(chains, name)
    if chains.ndim < 2 or len(chains) < 4 or chains.shape[1] < 1:
        raise ValueError(f"{name} has shape {chains.shape}; accepted is (steps, n, ...) with at "
                         "least 4 steps of at least one chain")
    constant = (chains == chains[0, 0]).all(axis=(0, 1))
    if constant.any():
        index = first(constant)
        raise ValueError(f"{name}{at((0, 0) + index)} is {chains[(0, 0) + index]}, and all values "
                         "that follow it are the same; accepted are chains that move")
    chains = np.ldexp(chains, -np.frexp(np.abs(chains).max(axis=(0, 1)))[1])  # squares are floats
    half = len(chains) // 2
    return np.concatenate([chains[:half], chains[-half:]], axis=1)


def _variances(halves):
    """Mean variance within chains, and the estimate of the target's from within and between."""
    length = len(halves)
    within = halves.var(axis=0, ddof=1).mean(axis=0)
    between = halves.mean(axis=0).var(axis=0, ddof=1)
    return within, within * (length - 1) / length + between
