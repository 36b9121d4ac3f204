"""Exact samplers of steps for every space, and the law of their length.

A step from a point is a tangent vector there. A law of steps with the density of the Laplace law
times the volume, `exp(-‖v‖/scale + log_volume(v))`, is Laplace about the point on the space itself.
"""

import math

import numpy as np
from numpy.polynomial import Chebyshev
from numpy.polynomial.legendre import leggauss
from scipy.special import xlogy

from .._checks import EPS, LONGEST, at, finite, first, generator, integer, positive, real, size
from ..spaces import Space

DRAWS_AT_ONCE = 2**20  # so many numbers has a batch of proposals at most, or memory would go
PILOT = 256  # proposals from which the share that is accepted is estimated
HOPELESS = 1e-6  # share below which nothing is drawn
NATS = 40.0  # what is less likely than the likeliest by more than e^40 is not resolved
CELLS = 512  # of the hat over what is
DEGREE = 127  # of the polynomial that stands for a radial density
BISECTIONS = 52  # of its interval, for a quantile
COVER = 1e-9  # more than rounding: what covers the density goes on covering it
NODES, WEIGHTS = leggauss(DEGREE + 1)  # of Gauss's quadrature on [-1, 1]


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


def laplace_threshold(space) -> float:
    """Supremum of the scales at which exp(-distance/scale) has a finite integral over the space.

    1/growth: with β = √(k(k² - 1)/12) it is 1/β on `AffineInvariant(k)`, infinite where the
    curvature is nowhere negative. ValueError for what is no space.
    """
    if not isinstance(space, Space):
        raise ValueError(f"space is {space!r}; accepted is a space, such as Sphere(2)")
    return 1 / space.growth if space.growth > 0 else math.inf


def laplace_steps(space, scale, shape=(), rng=None, within=None):
    """Exact draws of steps that are Riemannian Laplace (Definition 3 of Reimherr et al. 2021).

    The steps have density proportional to `exp(-‖v‖/scale + log_volume(v))`, on all vectors shorter
    than the injectivity radius; `space.exp(M, v)` then has density proportional to
    exp(-distance from M/scale), for any M, on what is no further from there: on the whole space, if
    its diameter is not larger.

    Parameters
    ----------
    space : Space
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
    if within is None and math.isinf(space.injectivity_radius) and space.growth == 0:
        return scale * sample_laplace((*shape, space.dim), rng)
    return _draw(space, *_law(space, scale, within), shape, rng)


def ball_steps(space, radius, shape=(), rng=None):
    """Exact draws of steps to points that are uniform on the ball of that radius, by its volume.

    An array of shape `(*shape, dim)`; `rng` is a `numpy.random.Generator` or a seed. ValueError as
    in `laplace_steps`, whose law within the ball this is for an infinite scale.
    """
    radius = min(size(radius, "radius"), space.injectivity_radius)
    return _draw(space, 0.0, radius, _shape(shape), generator(rng))


def radial_law(space, scale: float, within: float | None = None) -> "RadialLaw":
    """Law of the length of `laplace_steps(space, scale, within=within)`; a `RadialLaw`.

    An infinite `scale` is that of `ball_steps`. ValueError where the law does not exist, and where
    `space.mean_volume` is not known, as on `AffineInvariant(k)` for k above 4.
    """
    rate, radius = _law(space, scale, within)
    log_density = _radial_density(space, rate, space.mean_volume)
    return RadialLaw(log_density, *_support(log_density, space, rate, radius))


class RadialLaw:
    """A law on [low, high] by the logarithm of a density, known up to a constant.

    What a frozen law of SciPy does: `pdf`, `cdf`, `ppf`, `moment`, `mean`, to ten digits of the
    density given. That is analytic, so a polynomial through its values at Chebyshev's nodes stands
    for it.
    """

    def __init__(self, log_density, low, high):
        self.low, self.high = low, high
        self._nodes = low + (high - low) * (NODES + 1) / 2
        logs = log_density(self._nodes)
        top = logs.max()
        self._weights = WEIGHTS * np.exp(logs - top)
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
        if (index := first((q < 0) | (q > 1))) is not None:
            raise ValueError(f"q{at(index)} is {q[index]}; accepted are numbers from 0 to 1")
        x = np.full(q.shape, self.low)
        for step in (self.high - self.low) * 2.0**-np.arange(1, BISECTIONS + 1):
            x = np.where(self.cdf(x + step) < q, x + step, x)
        return x[()]

    def moment(self, m):
        """Mean of the `m`-th power."""
        return float(self._weights @ self._nodes**m)

    def mean(self):
        return self.moment(1)


def _shape(shape):
    """A shape as a list of ints."""
    shape = shape if isinstance(shape, (tuple, list)) else [shape]
    return [integer(m, "shape", 0) for m in shape]


def _law(space, scale, within):
    """Rate and radius of the law with density exp(-rate ‖v‖ + log_volume(v)) for ‖v‖ < radius."""
    scale = size(scale, "scale", also=math.inf)
    if within is None:
        threshold = laplace_threshold(space)
        if math.isinf(space.injectivity_radius) and not scale < threshold:
            raise ValueError(f"scale is {scale!r}; accepted are those below {threshold:.6g}, from "
                             f"which on exp(-distance/scale) has no finite integral over {space!r}"
                             ", except within a ball")
        return 1 / scale, space.injectivity_radius
    return 1 / scale, min(size(within, "within"), space.injectivity_radius)


def _draw(space, rate, radius, shape, rng):
    """Steps of the law that `_law` describes, shape `(*shape, dim)`: one sampler for all spaces.

    A length from the density with the bound on the volume in place of the volume, a uniform
    direction, and acceptance with the ratio of the two. What share is accepted is estimated before
    the draw, from numbers of its own.
    """
    bound = space.volume_bound
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
    most = max(DRAWS_AT_ONCE // space.dim, 1)
    kept, missing, tried, accepted = [np.empty((0, space.dim))], math.prod(shape), 1, 1
    while missing > 0:
        m = min(int(1.1 * missing * tried / accepted) + 16, most)
        v, loss = propose(m, rng)
        v = v[rng.standard_exponential(len(v)) > loss]
        kept.append(v[:missing])
        missing, tried, accepted = missing - len(kept[-1]), tried + m, accepted + len(v)
    return np.concatenate(kept).reshape(*shape, space.dim)


def _radial_density(space, rate, volume):
    """Logarithm of the density of the length, up to a constant, for a volume that depends on it."""
    return lambda rho: xlogy(space.dim - 1, rho) - rate * rho + volume(rho)


def _support(log_density, space, rate, radius):
    """Interval of lengths outside which the density is below its largest value by e^-NATS.

    Volume grows by the factor e^βρ at most, so the density decreases faster than that of a Gamma
    law of rate 1/scale - β, which beyond `top` is far below that. Where it is not so, nothing is
    wrong with a draw: it takes longer.
    """
    d, rate = space.dim, rate - space.growth
    top = min(radius, (d + 9 * math.sqrt(d) + 2 * NATS) / rate) if rate > 0 else radius
    x = top * (np.arange(128) + 0.5) / 128
    logs = log_density(x)
    near = x[logs >= logs.max() - NATS]
    return max(near[0] - top / 128, 0.0), min(near[-1] + top / 128, top)


def _log_concave(g, space, rate, radius):
    """The sampler of lengths in (0, radius) with density exp(g), g concave: `f(m, rng)`.

    It draws from m proposals those accepted. On flat spaces g is (d - 1) log ρ - rate ρ, in
    constant curvature (d - 1) log sin(ρ√κ) - rate ρ or the like with sinh, on shapes
    (d - 1) log sin ρ + log cos ρ - rate ρ; on `AffineInvariant(k)` see its `volume_bound`.
    """
    end = min(radius, LONGEST)  # what is longer is less likely than any float
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
    return edges, hat.min(axis=0) + COVER
