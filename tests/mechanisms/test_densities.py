"""Densities on a ball: the laws of the exact sampler, its envelopes, and what is promised.

What the laws are compared with is written here a second time, by other formulas, on grids.
"""

import math
from types import SimpleNamespace

import numpy as np
import pytest
from conftest import mostly_slow
from scipy.stats import gamma, kstest
from tables import BALLS, POINT, POLE, steps_within

from spdlib.mechanisms import KNormGradient, TruncatedLoss, densities
from spdlib.mechanisms.densities import gradient_sensitivity, hessian_bounds, largest_volume
from spdlib.queries import FrechetMean
from spdlib.samplers import ball_steps, laplace_steps, sample_by_boxes, sample_by_chains
from spdlib.spaces import (AffineInvariant, Ball, Euclidean, KendallPlanar, LogEuclidean, Sphere,
                           TangentSpace)

TRIANGLE = KendallPlanar(3).points(np.array([1, 1j, -1 - 1j]))
CUT = math.pi


def query(ball, steps):
    """What a mechanism asks of a Fréchet mean, made of steps that lie in the ball."""
    one, space = bare_query(ball, steps), ball.space
    one.points, one.step = space.exp(ball.center, steps), space.mean(ball.center, steps, 1e-12)
    return one


def bare_query(ball, steps):
    """One that is not asked for its mean, which such records need not have."""
    return SimpleNamespace(ball=ball, radius=ball.radius, space=ball.space, steps=steps,
                           n=len(steps))


def on_sphere(steps, radius):
    return query(Ball(radius, POLE, Sphere(2)), steps)


def sphere_grid(radius, rings=160, rays=160):
    """Steps from the pole, points and volumes of a grid on a ball of S² (Gauss by trapezium)."""
    t, w = np.polynomial.legendre.leggauss(rings)
    t, w = (t + 1) * radius / 2, w * radius / 2
    phi = 2 * math.pi * (np.arange(rays) + 0.5) / rays
    t, phi = (a.ravel() for a in np.meshgrid(t, phi, indexing="ij"))
    volume = np.repeat(w, rays) * np.sin(t) * 2 * math.pi / rays
    flat = t[:, None] * np.stack([np.cos(phi), np.sin(phi)], axis=1)
    points = np.stack([np.sin(t) * np.cos(phi), np.sin(t) * np.sin(phi), np.cos(t)], axis=1)
    return flat, points, volume


def spd_grid(radius, nodes=48):
    """Steps from the identity, points and volumes of a grid on a ball of SPD(2)."""
    t, w = np.polynomial.legendre.leggauss(nodes)
    s, ws = (t + 1) * radius / 2, w * radius / 2
    phi = math.pi * (np.arange(2 * nodes) + 0.5) / nodes
    s, z, phi = (a.ravel() for a in np.meshgrid(s, t, phi, indexing="ij"))
    volume = np.repeat(ws, 2 * nodes**2) * np.tile(np.repeat(w, 2 * nodes), nodes) * s**2
    volume *= math.pi / nodes
    # the trace and the two other coordinates of a symmetric matrix, orthonormal in Frobenius
    across = s * np.sqrt(1 - z**2)
    a, b, c = s * z, across * np.cos(phi), across * np.sin(phi)
    V = np.stack([(a + b), c, c, (a - b)], axis=-1).reshape(-1, 2, 2) / math.sqrt(2)
    half = across / math.sqrt(2)  # half the difference of the eigenvalues
    volume *= np.sinh(half) / np.where(half > 0, half, 1)
    return V, power(V, np.exp), volume


def power(X, function):
    values, vectors = np.linalg.eigh(X)
    return vectors * function(values)[..., None, :] @ np.swapaxes(vectors, -2, -1)


def sphere_residuals(Y, X):
    """Vectors at the points Y of S² towards the points X, in space, shape (m, n, 3)."""
    across = X - (Y @ X.T)[..., None] * Y[:, None]
    sine = np.linalg.norm(across, axis=-1)
    return across * (np.arctan2(sine, Y @ X.T) / np.maximum(sine, 1e-300))[..., None]


def spd_residuals(Y, X):
    """Log(Y^-1/2 X Y^-1/2) as vectors of all entries, shape (m, n, k²)."""
    root = power(Y, lambda v: 1 / np.sqrt(v))[:, None]
    return power(root @ X @ root, np.log).reshape(len(Y), len(X), -1)


def clipped_mean(residuals, clip):
    length = np.linalg.norm(residuals, axis=-1, keepdims=True)
    clipped = residuals * np.minimum(1, clip / (length + 1e-300))
    return np.linalg.norm(clipped.mean(axis=1), axis=1)


def truncated(residuals, clip):
    return np.minimum(np.linalg.norm(residuals, axis=-1) / clip, 1) ** 2


def largest_log_ratio(f, g, volume):
    """Of the two normalised densities exp(-f) and exp(-g)."""
    def normalised(f):
        return -f - np.log((volume * np.exp(f.min() - f)).sum()) + f.min()

    return np.abs(normalised(f) - normalised(g)).max()


CASES = {
    "sphere": (Sphere(2), POLE, math.pi / 4, sphere_grid, sphere_residuals, 6),
    "spd": (AffineInvariant(2), np.eye(2), 1.2, spd_grid, spd_residuals, 6),
}


@pytest.mark.slow
@pytest.mark.parametrize("name", CASES)
@pytest.mark.parametrize("mechanism", ["k-norm gradient", "clipped", "truncated loss"])
def test_the_sampler_has_the_law_of_the_density_and_a_scale_off_by_5_percent_is_seen(name,
                                                                                     mechanism):
    space, center, radius, grid, residuals, n = CASES[name]
    rng = np.random.default_rng(7)
    data = query(Ball(radius, center, space), steps_within(radius, n, space.dim, rng))
    if mechanism == "truncated loss":
        made, width = TruncatedLoss.of(data, 8.0, clip=radius), radius
    else:
        clip = radius / 2 if mechanism == "clipped" else None
        made, width = KNormGradient.of(data, 12.0, clip=clip), clip or math.inf

    def exponent(Y):
        if mechanism == "truncated loss":
            return truncated(residuals(Y, data.points), width).sum(axis=1) * 8.0 / 2
        return clipped_mean(residuals(Y, data.points), width) / made.scale

    def levels(draws):
        return exponent(space.exp(center, draws))

    _, Y, volume = grid(radius)
    on_grid = exponent(Y)
    order = np.argsort(on_grid)
    draws = made.answer(data, rng, 60_000)
    seen, band = np.sort(levels(draws)), math.sqrt(math.log(2e6) / 2 / 60_000)

    def distance(factor):
        weight = (volume * np.exp(factor * (on_grid.min() - on_grid)))[order]
        cdf = np.interp(seen, on_grid[order], np.cumsum(weight) / weight.sum())
        empirical = np.arange(1, len(seen) + 1) / len(seen)
        return np.abs(cdf - empirical).max()

    resolution = 0.003  # of the grid
    assert distance(1.0) < band + resolution
    assert min(distance(1 / 1.05), distance(1.05)) > band + resolution


@pytest.mark.slow
def test_the_direction_of_the_draws_is_right_too():
    """The mean of the draws on S², to the standard error, against the grid."""
    rng = np.random.default_rng(3)
    radius = math.pi / 3
    data = on_sphere(np.array([[0.9, 0.1], [0.8, -0.2], [-0.3, 0.6]]), radius)
    for made in (KNormGradient.of(data, 9.0), TruncatedLoss.of(data, 6.0, clip=0.5)):
        flat, _, _ = sphere_grid(radius)
        density = np.exp(made.log_density(data, flat))
        _, _, volume = sphere_grid(radius)
        weight = density / np.sinc(np.linalg.norm(flat, axis=1) / math.pi) * volume
        mean = (weight[:, None] * flat).sum(axis=0) / weight.sum()
        draws = made.answer(data, rng, 40_000)
        assert np.abs(draws.mean(axis=0) - mean).max() < 5 * draws.std() / 200


def widest(ball):
    """The same as far as its chart reaches, or 3."""
    reach = ball.space.injectivity_radius
    return ball.of_radius(reach if reach < math.inf else 3.0)


WIDEST = {name: widest(BALLS[name]) for name in (
    "sphere 2", "small sphere 3", "circle", "affine-invariant 2", "affine-invariant 3",
    "log-Euclidean 2", "triangles", "quadrilaterals")}


@pytest.mark.slow
@pytest.mark.parametrize("name", WIDEST)
def test_the_envelope_lies_above_the_density_up_to_the_cut_locus_and_across(name):
    wide, rng = WIDEST[name], np.random.default_rng(11)
    for _ in range(60):
        radius, domain = np.sort(wide.radius * rng.choice([1, 0.5, 0.2], 2)) * [0.999, 1]
        steps = steps_within(radius, rng.integers(1, 9), wide.space.dim, rng)
        data = query(wide.of_radius(radius), steps)
        clip = wide.radius * rng.choice([1e-3, 0.1, 0.5, 1])
        public = {"clip": clip, "domain": data.ball.of_radius(domain)}
        for made in (KNormGradient.of(data, 5.0, **public), TruncatedLoss.of(data, 5.0, **public)):
            v = steps_within(domain, 40, wide.space.dim, rng)
            reach = domain * 10 ** rng.uniform(-4, 0.5, 40)
            ceiling = made.log_density(data, v, reach)
            for _ in range(3):
                near = v + reach[:, None] * steps_within(1, 40, wide.space.dim, rng)
                inside = np.linalg.norm(near, axis=1) <= domain
                assert (made.log_density(data, near[inside]) <= ceiling[inside] + 1e-9).all()


def test_the_envelope_closes_upon_the_density():
    rng = np.random.default_rng(5)
    for wide in WIDEST.values():
        ball, clip = wide.of_radius(0.4 * wide.radius), 0.3 * wide.radius
        steps, v = (steps_within(ball.radius, n, ball.space.dim, rng) for n in (5, 50))
        data = query(ball, steps)
        for made in (KNormGradient.of(data, 5.0), TruncatedLoss.of(data, 5.0, clip=clip)):
            loose = made.log_density(data, v, np.full(50, 1e-7)) - made.log_density(data, v)
            assert loose.max() < 1e-4


def test_the_densities_about_a_centre_of_any_condition_are_those_about_the_identity():
    """Residuals that rounding had made as long as it liked broke the promise by a factor of 2."""
    space, radius, rng = AffineInvariant(2), 1e-3, np.random.default_rng(0)
    turn = np.array([[0.6, -0.8], [0.8, 0.6]])
    center = turn * [1e-7, 1e7] @ turn.T
    X = space.exp(center, steps_within(radius, 5, 3, rng))
    there = FrechetMean(X, Ball(radius, center, space))
    here = FrechetMean(space.exp(np.eye(2), there.steps), Ball(radius, np.eye(2), space))
    v = steps_within(radius, 50, 3, rng)
    for made in (KNormGradient.of(there, 1.0), TruncatedLoss.of(there, 1.0, clip=radius)):
        one, other = (made.log_density(about, v) for about in (there, here))
        np.testing.assert_allclose(one, other, atol=1e-6)


@pytest.mark.slow
@pytest.mark.parametrize("domain", [math.pi / 8, math.pi / 2, math.pi])
@pytest.mark.parametrize("clip", [None, math.pi / 16, 1e-4])
def test_no_pair_of_data_sets_on_the_sphere_breaks_the_promise(domain, clip):
    """Records on one great circle and off it, everywhere in the ball, one of them replaced."""
    radius, rng = math.pi / 8, np.random.default_rng(0)
    _, Y, volume = sphere_grid(domain, 80, 80)
    for n in (1, 2, 5):
        for trial in range(25):
            steps = steps_within(radius, n + 1, 2, rng)
            steps[:, 1] *= trial % 3 == 0  # else on one great circle
            if trial % 2:
                steps *= radius / np.linalg.norm(steps, axis=1, keepdims=True)
            data = on_sphere(steps, radius)
            residuals = sphere_residuals(Y, data.points)
            pair = np.r_[0:n], np.r_[1:n + 1]
            mean = KNormGradient(gradient_sensitivity(n, radius, data.space, clip or CUT, domain),
                                 1.0, data.ball.of_radius(domain), clip or CUT)
            f, g = (clipped_mean(residuals[:, i], mean.clip) / mean.scale for i in pair)
            assert largest_log_ratio(f, g, volume) <= 1
            b = clip or radius
            f, g = (truncated(residuals[:, i], b).sum(axis=1) / 2 for i in pair)
            assert largest_log_ratio(f, g, volume) <= 1


def test_the_printed_scale_breaks_its_promise_on_the_ball_and_on_the_whole_sphere():
    """Section 2.4.2: Δ/ε with Δ = 2r(2 - h)/n, on a pair that a search found."""
    radius, n = math.pi / 8, 100
    h = 2 * radius / math.tan(2 * radius)
    edge = radius * np.array([[math.cos(0.1), math.sin(0.1)], [1.0, 0.0], [-1.0, 0.0]])
    for domain, at_least in ((radius, 1.1), (math.pi, 5.0)):
        _, Y, volume = sphere_grid(domain)
        rest, x, moved = np.moveaxis(sphere_residuals(Y, Sphere(2).exp(POLE, edge)), 1, 0)
        lengths = (np.linalg.norm(((n - 1) * rest + one) / n, axis=1) for one in (x, moved))
        f, g = (length * n / (2 * radius * (2 - h)) for length in lengths)
        assert largest_log_ratio(f, g, volume) > at_least


def test_half_of_the_promise_pays_for_the_constant_and_a_pair_on_a_line_spends_nearly_all():
    """Nearly all of the domain is on one side of the records, and the density falls there."""
    epsilon, n, radius, clip = 1.0, 10, 1.0, 1e-3
    line = LogEuclidean(1)
    sensitivity = gradient_sensitivity(n, radius, line, clip, radius)
    sigma = KNormGradient(sensitivity, epsilon, Ball(radius, np.eye(1)), clip).scale
    y = np.linspace(-1, 1, 200_001)[:, None, None]
    first = np.array([-1.0, *[-0.99] * (n - 1)])[None, :, None]
    second = np.array([1.0, *[-0.99] * (n - 1)])[None, :, None]
    f, g = (clipped_mean(x - y, clip) / sigma for x in (first, second))
    assert 0.95 * epsilon < largest_log_ratio(f, g, np.full(len(y), 1e-5)) <= epsilon


@pytest.mark.parametrize("clip, change", [(0.1, 0.2), (5.0, 2.0), (1e9, 2.0)])
def test_the_sensitivity_of_the_gradient_is_the_least_of_what_is_proved(clip, change):
    for space in (AffineInvariant(2), LogEuclidean(2)):
        bound = gradient_sensitivity(10, 1.0, space, clip, 1.5)
        assert change / 10 <= bound <= change / 10 * (1 + 1e-12)
    for radius, domain in ((0.4, 0.4), (0.4, 0.2), (0.1, 0.3)):
        theta = 2 * (radius + domain)  # as κ = 4
        change = min(2 * radius * theta / math.sin(theta), math.tan(2 * max(radius, domain)))
        bound = gradient_sensitivity(10, radius, Sphere(2, 4.0), 9.0, domain)
        assert bound == pytest.approx(change / 10, rel=1e-12)
    for domain, longest in ((2.6, 3.1), (2.7, math.pi), (math.pi, math.pi)):
        bound = gradient_sensitivity(10, 0.5, Sphere(2), 9.0, domain)
        assert bound == pytest.approx(min(2 * longest, 3.1 / math.sin(3.1)) / 10, rel=1e-12)


@pytest.mark.parametrize("share", [(0.24, 0.24), (0.24, 0.05), (0.1, 0.6)])
@pytest.mark.parametrize("name", WIDEST)
def test_no_record_moves_the_gradient_by_more_than_the_sensitivity(name, share):
    """The records on the rim of their ball, as far as can be seen from the rim of the domain."""
    wide, rng = WIDEST[name], np.random.default_rng(2)
    space, widest = wide.space, wide.radius
    radius, domain = (part * widest for part in share)
    data, y = (space.exp(wide.center, length * _directions(rng, m, space.dim))
               for m, length in ((4000, radius), (2000, domain)))
    pairs = (space.log(y, data[i]) for i in (np.s_[:2000], np.s_[2000:]))
    change = np.linalg.norm(np.subtract(*pairs), axis=1)
    assert change.max() <= gradient_sensitivity(1, radius, space, widest, domain)


def _directions(rng, m, dim):
    v = rng.standard_normal((m, dim))
    return v / np.linalg.norm(v, axis=1, keepdims=True)


@pytest.mark.slow
def test_the_sensitivity_of_the_gradient_is_nearly_reached_on_a_small_ball():
    ring = 0.2 * np.stack([np.cos(turn := np.linspace(0, 6.3, 3000)), np.sin(turn)], axis=1)
    rim = Sphere(2).exp(POLE, ring)
    seen = Sphere(2).log(rim[0], rim)
    change = np.linalg.norm(seen[:, None] - seen, axis=-1).max()
    bound = gradient_sensitivity(1, 0.2, Sphere(2), 9.0, 0.2)
    assert 0.99 * bound < change <= bound


@pytest.mark.parametrize("steps", [
    np.zeros((1, 2)), pytest.param(np.zeros((50, 2)), marks=pytest.mark.slow),
    np.array([[0.3, 0.0]] * 30 + [[-0.39, 0.0]] * 5),
])
@pytest.mark.parametrize("clip", [1e-12, pytest.param(1e-3, marks=pytest.mark.slow), 10.0])
@pytest.mark.parametrize("epsilon, domain", [
    (1e-6, 0.39), (1e3, 0.39), (1e-6, math.pi), pytest.param(1e3, 2.7, marks=pytest.mark.slow),
    *(pytest.param(1.0, domain, marks=pytest.mark.slow) for domain in (0.39, math.pi)),
])
def test_extreme_data_and_parameters_are_sampled_on_any_domain(steps, clip, epsilon, domain):
    data = on_sphere(steps, 0.39)
    public = {"clip": clip, "domain": data.ball.of_radius(domain)}
    for made in (KNormGradient.of(data, epsilon, **public),
                 TruncatedLoss.of(data, epsilon, **public)):
        draws = made.answer(data, 0, (3, 2))
        assert draws.shape == (3, 2, 2)
        assert (np.linalg.norm(draws, axis=-1) <= domain).all()


@pytest.mark.filterwarnings("error")
@pytest.mark.parametrize("clip, as_for", [(1e-320, 1e-12), (1e-170, 1e-12), (1e170, 1e12)])
def test_a_clip_whose_square_is_no_float_is_one_that_feels_nobody_or_bends_nothing(clip, as_for):
    data = on_sphere(steps_within(0.3, 200, 2, np.random.default_rng(0)), 0.4)
    one, other = (TruncatedLoss.of(data, 1.0, clip=b).answer(data, 0, 20) for b in (clip, as_for))
    np.testing.assert_allclose(one, other, atol=1e-12)


def test_a_seed_repeats_the_answer_and_no_size_is_one_answer():
    data = on_sphere(steps_within(0.4, 5, 2, np.random.default_rng(0)), 0.4)
    made = TruncatedLoss.of(data, 1.0, clip=0.4)
    assert made.answer(data, 5).shape == (2,)
    assert np.array_equal(made.answer(data, 5), made.answer(data, np.random.default_rng(5)))
    assert made.answer(data, 5, 0).shape == (0, 2)


def test_what_the_exact_sampler_cannot_reach_is_refused_before_anything_is_drawn():
    six = query(Ball(1.0, np.eye(3), AffineInvariant(3)), np.zeros((4, 6)))
    rng = np.random.default_rng(0)
    state = rng.bit_generator.state
    for made in (KNormGradient.of(six, 20.0, clip=0.5), TruncatedLoss.of(six, 20.0, clip=1.0)):
        with pytest.raises(ValueError, match="dimension 6; accepted are those up to 4"):
            made.answer(six, rng)
    fewer, more = (on_sphere(np.zeros((n, 2)), 0.4) for n in (4, 5))
    with pytest.raises(ValueError, match="gradient of sensitivity"):
        KNormGradient.of(more, 1.0).answer(fewer, rng)
    KNormGradient.of(fewer, 1.0).answer(more, 0)
    wide = fewer.ball.of_radius(3.2)
    with pytest.raises(ValueError, match="domain is 3.2; accepted are balls of radii .* 3.14159"):
        TruncatedLoss.of(fewer, 1.0, clip=1.0, domain=wide).answer(fewer, rng)
    with pytest.raises(ValueError, match='delta is 1e-06; accepted are 0 with "k-norm gradient"'):
        KNormGradient.of(fewer, 1.0, 1e-6)
    assert rng.bit_generator.state == state


@pytest.mark.parametrize("kind", [KNormGradient, TruncatedLoss])
@pytest.mark.parametrize("domain, message", [
    (1.0, "domain is 1.0; accepted is a Ball of Sphere"),
    (Ball(1.0, POLE, Sphere(2, 2.0)), "domain is Ball.*; accepted is a Ball of Sphere.2, 1.0"),
    (Ball(0.39, POLE, Sphere(2)), "domain is 0.39; accepted are balls of radii from 0.4 to 3.14"),
    (Ball(1.0, POINT, Sphere(2)), "domain is Ball.*; accepted is a ball about the centre of"),
])
def test_a_domain_is_a_ball_about_the_centre_of_the_records_ball_and_no_smaller(
        kind, domain, message):
    """Whether the mechanism is made for the query, or by itself and then asked."""
    data = on_sphere(np.zeros((4, 2)), 0.4)
    made = kind.of(data, 1.0, clip=0.5)
    made.domain = domain
    for refused in (lambda: kind.of(data, 1.0, clip=0.5, domain=domain),
                    lambda: made.answer(data, 0)):
        with pytest.raises(ValueError, match=f"^{message}"):
            refused()


@pytest.mark.parametrize("m, n, step", mostly_slow(
    [(13, 29, 0.0), (8, 40, 0.19), (8, 200, 0.19), (4, 40, 0.2)], (8, 40, 0.19), (4, 40, 0.2)))
def test_an_envelope_accepts_no_smaller_a_share_than_it_says(m, n, step):
    shapes, radius = KendallPlanar(m), 0.2
    steps = np.zeros((n, shapes.dim))
    steps[:, 0] = step
    records = query(Ball(radius, np.exp(2j * np.pi * np.arange(m) / m), shapes), steps)
    for made in (KNormGradient.of(records, 1.0), KNormGradient.of(records, 1.0, clip=0.02),
                 TruncatedLoss.of(records, 0.2, clip=0.3)):
        share, sampler = made._envelope(records)
        rng = np.random.default_rng(0)
        v = ball_steps(shapes, radius, 4000, rng)
        if sampler == made._from_uniform:
            assert np.exp(made._scores(records, v, np.zeros(4000))).mean() >= share
        elif share > 1e-3:
            assert np.isfinite(sampler(records, 50, rng)).all()


@pytest.mark.slow
def test_beyond_the_boxes_the_envelope_about_the_mean_is_exact():
    """On a flat space nothing is refused but what leaves the domain, on SPD(3) less than 9 of 10.

    The length of g over the scale is then Gamma distributed; on SPD(3) its law is compared with
    that of draws which are weighted, from the Laplace law about the mean.
    """
    rng = np.random.default_rng(1)
    flat = query(Ball(1.0, np.eye(3)), steps_within(0.3, 40, 6, rng))
    made = KNormGradient.of(flat, 20.0)
    length = np.linalg.norm(made.answer(flat, 2, 20_000) - flat.step, axis=1) / made.scale
    assert kstest(length, gamma(6).cdf).pvalue > 1e-6
    space = AffineInvariant(3)
    data = query(Ball(1.0, np.eye(3), space), steps_within(1.0, 10, 6, rng))
    made = KNormGradient.of(data, 12.0)
    w = laplace_steps(space, made.scale, 40_000, rng, within=2.0)
    Y = space.exp(np.eye(3), data.step, w)
    norm = clipped_mean(spd_residuals(Y, data.points), math.inf) / made.scale
    inside = space.dist(np.eye(3), Y) <= 1.0
    weight = np.exp(np.linalg.norm(w, axis=1) / made.scale - norm) * inside
    draws = space.exp(np.eye(3), made.answer(data, rng, 10_000))
    seen = clipped_mean(spd_residuals(draws, data.points), math.inf) / made.scale
    effective = weight.sum() ** 2 / (weight**2).sum()
    mean = (weight * norm).sum() / weight.sum()
    assert seen.mean() == pytest.approx(mean, abs=5 * seen.std() * (1e-4 + 1 / effective) ** 0.5)
    assert seen.mean() != pytest.approx(0.95 * mean, abs=0.02 * mean)


@pytest.mark.slow
def test_chains_reach_a_law_that_is_known():
    def log_density(v):
        return -10 * np.linalg.norm(v, axis=1)

    start = steps_within(3.0, 500, 6, np.random.default_rng(0))
    draws = sample_by_chains(log_density, start, 3.0, np.random.default_rng(1))
    assert kstest(10 * np.linalg.norm(draws, axis=1), gamma(6).cdf).pvalue > 1e-6


@pytest.mark.slow
def test_chains_answer_beyond_the_envelopes_if_they_may():
    steps = steps_within(0.3, 20, 6, np.random.default_rng(1))
    data = query(Ball(1.0, np.eye(3), AffineInvariant(3)), steps)
    for made in (KNormGradient.of(data, 4.0, clip=0.5, approximate=True),
                 TruncatedLoss.of(data, 4.0, clip=0.5, approximate=True)):
        draws = made.answer(data, 2, 3)
        assert draws.shape == (3, 6) and (np.linalg.norm(draws, axis=1) <= 1).all()


@pytest.mark.slow
def test_boxes_sample_a_density_that_is_known():
    """A Gaussian on the unit disc whose log density is 1/s times what a Lipschitz bound knows."""
    def log_density(v, reach):
        length = np.maximum(np.linalg.norm(v - 0.5, axis=1) - reach, 0)
        return -(length**2) / 2 / 0.01

    draws, proposals = sample_by_boxes(log_density, 1.0, 2, 20_000, np.random.default_rng(0))
    assert draws.shape == (20_000, 2) and proposals < 60_000
    weight = np.linalg.norm(draws - 0.5, axis=1) ** 2 / 2 / 0.01
    assert np.linalg.norm(draws, axis=1).max() <= 1
    x = np.linspace(-1, 1, 2001)
    X, Y = np.meshgrid(x, x)
    level, inside = ((X - 0.5) ** 2 + (Y - 0.5) ** 2) / 0.02, np.hypot(X, Y) <= 1
    density = np.exp(-level) * inside
    assert weight.mean() == pytest.approx((level * density).sum() / density.sum(), abs=0.03)


# bounds, searched for a point above them ----------------------------------------------------------
def highest(log_density, at, reach, radii, rng, chains=12, rounds=30):
    """The largest log density that a climb finds near `at`, within `reach` and the domain.

    `at` has shape (parts, dim): each part moves in a ball about it, and stays in one of `radii`
    about 0; what moves not at all has reach 0. Chains climb by random steps, which shorten where
    they fail, from the rim along and against the gradient, from random points of the rim, and from
    the centre.
    """
    def into(u):
        step = u - at
        size = np.linalg.norm(step, axis=-1, keepdims=True)
        u = at + step * np.minimum(1, reach[:, None] / np.maximum(size, 1e-300))
        size = np.linalg.norm(u, axis=-1, keepdims=True)
        return u * np.minimum(1, radii[:, None] / np.maximum(size, 1e-300))

    wide = reach[:, None]
    nudges = 1e-6 * np.eye(at.size).reshape(-1, *at.shape) * wide
    gradient = (log_density(into(at + nudges)) - log_density(into(at - nudges))).reshape(at.shape)
    starts = rng.standard_normal((chains, *at.shape))
    starts[0], starts[1], starts[2] = gradient, -gradient, 0
    starts /= np.maximum(np.linalg.norm(starts, axis=-1, keepdims=True), 1e-300)
    x = into(at + starts * wide)
    y, width, chain = log_density(x), np.full(chains, 0.7), np.arange(chains)
    for _ in range(rounds):
        step = rng.standard_normal((chains, 6, *at.shape))
        step *= rng.choice([0, 1, 1], (chains, 6, len(at), 1))  # at times one part alone
        tried = into(x[:, None] + width[:, None, None, None] * wide * step)
        found = log_density(tried.reshape(-1, *at.shape)).reshape(chains, 6)
        best = found.argmax(axis=1)
        better = found[chain, best] > y
        x[better], y[better] = tried[chain, best][better], found[chain, best][better]
        width = np.where(better, np.minimum(1.3 * width, 1), 0.6 * width)
    return y.max()


def too_low(part, share):
    """The Hessian's bounds, of which one is off by 1 - `share` to the wrong side."""
    def made(space, distance):
        low, high = hessian_bounds(space, distance)
        return (low + (1 - share) * np.abs(low), high) if part == "low" else (low, share * high)
    return made


# space, centre, how far one may go, and two axes in whose plane all of the curvature is
CURVATURES = {
    "positive": (Sphere(2), POLE, 3.0, np.eye(2)),
    "positive, triangles": (KendallPlanar(3), TRIANGLE, 1.5, np.eye(2)),
    "none": (LogEuclidean(2), np.eye(2), 3.0, np.eye(3)[:2]),
    "none, Euclidean": (Euclidean(2), np.eye(2), 3.0, np.eye(3)[:2]),
    "none, tangent": (TangentSpace(Sphere(2), POLE), POLE, 1.5, np.eye(2)),
    "negative": (AffineInvariant(2), np.eye(2), 3.0,
                 np.array([[math.sqrt(0.5), -math.sqrt(0.5), 0], [0, 0, 1]])),
}


def hostile(dim, widest, clip, rng):
    """Steps to few records or many: in one point, opposite, as far as they go, at the clip."""
    n = rng.choice([1, 2, 3, 40])
    direction = _directions(rng, n, dim)
    if (kind := rng.integers(4)) == 0:
        return np.tile(direction[0] * widest * rng.random(), (n, 1))
    if kind == 1:
        return widest * rng.random() * direction[0] * rng.choice([-1, 1], (n, 1))
    if kind == 2:
        return direction * min(clip * rng.choice([1, 0.9, 1.1, 1.01]), widest)
    return direction * widest


def climbed(made, data, v, reach, rng):
    """The log density at `v`, the largest that is found near it, and the ceiling."""
    top = highest(lambda x: made.log_density(data, x[:, 0]), v[None], np.array([reach]),
                  np.array([made.domain.radius]), rng)
    ceiling = made.log_density(data, v[None], np.array([reach]))[0]
    here = made.log_density(data, v[None])[0]
    assert top <= ceiling + 1e-11 * max(1, abs(ceiling), abs(here))
    return here, top, ceiling


@pytest.mark.parametrize("trials", [4, pytest.param(40, marks=pytest.mark.slow)])
@pytest.mark.parametrize("name", CURVATURES)
def test_a_climb_finds_no_point_of_a_ball_above_its_ceiling(name, trials):
    space, center, widest, _ = CURVATURES[name]
    rng = np.random.default_rng(20)
    for _ in range(trials):
        radius, domain = np.sort(widest * rng.choice([0.1, 0.4, 0.99], 2))
        clip = widest * rng.choice([0.01, 0.1, 0.3, 0.9])
        steps = hostile(space.dim, radius, clip, rng)
        data = bare_query(Ball(radius, center, space), steps)
        v = steps_within(domain, 1, space.dim, rng)[0] * rng.choice([0, 1])
        reach = domain * rng.choice([1e-3, 0.03, 0.3, 1.5])
        public = {"clip": clip, "domain": data.ball.of_radius(domain)}
        for made in (KNormGradient.of(data, 900.0, **public),
                     TruncatedLoss.of(data, 900.0, **public)):
            climbed(made, data, v, reach, rng)


# where a bound is reached: the mechanism, the bound of the Hessian, how far 400 records stand, half
# of them on either side, how far others stand across, and how many those are; clip and reach
CLOSE = {
    "longest gradient": (KNormGradient, "high", 0.05, 1e-3, 1, 0.5, 1e-8),
    "longest gradient, far": (KNormGradient, "high", 2.0, 1e-3, 1, 2.5, 1e-8),
    "longest gradient, beyond the equator": (KNormGradient, "low", 2.4, 1e-3, 1, 2.9, 1e-8),
    "clipped gradient": (KNormGradient, "high", 0.05, 0.05, 1, 1e-3, 1e-6),
    "least loss": (TruncatedLoss, "low", 0.8, 1e-2, 400, 1.2, 1e-2),
    "loss at the clip": (TruncatedLoss, None, 0.3, 0.3, 0, 0.3, 1e-3),
}
NOT_THERE = {"positive": "longest gradient, far", "positive, triangles": "longest gradient, far"}


@pytest.mark.slow
@pytest.mark.parametrize("where, name", [
    (where, name) for where in CURVATURES for name in CLOSE
    if name != NOT_THERE.get(where, "longest gradient, beyond the equator")])
def test_a_ceiling_or_a_bound_of_the_hessian_that_is_lower_by_1_percent_is_seen(where, name,
                                                                               monkeypatch):
    """A point near the centre is above a ceiling whose height over the centre is 1% less."""
    space, center, _, (one, other) = CURVATURES[where]
    mechanism, part, far, across, others, clip, reach = CLOSE[name]
    unit = 0.5 if where == "positive, triangles" else 1.0
    if where == "negative" and part == "low":
        other = one  # where nothing bends
    steps = np.concatenate([np.outer([far, -far] * 200 if others else [far], one),
                            np.tile(across * other, (others, 1))]) * unit
    data = bare_query(Ball(2.5 * unit, center, space), steps)
    made = mechanism.of(data, 900.0, clip=clip * unit)
    v, reach = np.zeros(space.dim), reach * unit
    here, top, ceiling = climbed(made, data, v, reach, np.random.default_rng(21))
    assert top > here + 0.99 * (ceiling - here)
    if part:
        monkeypatch.setattr(densities, "hessian_bounds", too_low(part, 0.99))
        assert top > made.log_density(data, v[None], np.array([reach]))[0]


# boxes in which more counts than the first order at the centre: the mechanism, the curvatures, the
# records (along, across), clip, how far along the box stands, its reach, and the share of its
# ceiling's height that is reached
LARGE = {
    "through half of the records": (KNormGradient, "positive none negative", [(0.3, 0), (1.5, 0)],
                                    0.01, 0.0, 0.32, 0.99),
    "over half of the cut points": (KNormGradient, "positive", [(-2.85, 0), (-1.5, 0)],
                                    1.0, 0.0, 0.3, 0.99),
    "where the chart is narrow": (KNormGradient, "negative", [(2.8, 0.4)] * 100,
                                  2.9, 2.8, 1e-4, 0.9),
    "loss where the chart is narrow": (TruncatedLoss, "negative", [(2.8, 0.4)] * 100,
                                       2.9, 2.8, 1e-4, 0.98),
}


@pytest.mark.parametrize("where, name", [
    (where, name) for where in CURVATURES for name, case in LARGE.items()
    if where.split(",")[0] in case[1].split()])
def test_a_ceiling_counts_what_a_box_holds_besides_its_centre(where, name):
    """Records within the box are passed, cut points crossed, steps longer than in the chart.

    Not seen is a loss that is bounded by the Hessian at the centre of the box, `hessian_bounds` of
    (space, distance), for that bounds it as well. Where the curvature is at most κ > 0, cos(√κ ρ)
    stays below what it is on a sphere of that curvature (Rauch), and ρ² is convex and falling in
    it, hence above its tangent there. On a way of length t the tangent is the mean of the bound's
    parabola over a random step in [-t, t], of mean sin(√κ t)/√κ and mean square 2(1 - cos √κ t)/κ.
    """
    space, center, widest, axes = CURVATURES[where]
    mechanism, _, records, clip, along, reach, share = LARGE[name]
    unit = widest / 3
    data = bare_query(Ball(widest, center, space), unit * np.array(records) @ axes)
    made = mechanism.of(data, 900.0, clip=clip * unit)
    here, top, ceiling = climbed(made, data, along * unit * axes[0], reach * unit,
                                 np.random.default_rng(21))
    assert top > here + share * (ceiling - here)


VOLUMES = [("positive", 2.4, 0.99), ("positive, triangles", 1.2, 0.99), ("negative", 0.0, 0.0),
           ("negative", 3.0, 0.55), ("negative", 300.0, 0.99)]


@pytest.mark.parametrize("where, length, share", VOLUMES)
def test_a_ceiling_of_the_volume_is_reached_to_a_share_of_its_height(where, length, share):
    """Where curvature is negative it is a line: all slack at the centre, half of it at 3."""
    space, _, _, (one, _) = CURVATURES[where]
    v, reach = length * one[None], np.array([1e-3])
    around = v + reach * np.array([[0.0], [1], [-1]]) * one
    here, *near = space.log_volume(around)
    ceiling = largest_volume(space, v, np.array([length]), reach)[0]
    assert here + share * (ceiling - here) <= max(near) <= ceiling + 1e-12


SLOPES = [("positive", 0.23, 0.99), ("none", 0.99, 0.99), ("negative", 0.99, 0.25)]


@pytest.mark.slow
@pytest.mark.parametrize("where, of_low, of_high", SLOPES)
def test_slopes_of_an_envelope_are_reached_to_a_share(where, of_low, of_high):
    """Two groups of records, and y, climb to where ‖g(y)‖ is longest or shortest of its distance.

    A slope of 1 is reached. Of how far another is from 1 a quarter is found, for it is that of
    records at the other end of the ball, and the mean lies among them: a slope that is too close to
    1 by less than that is not seen here, but the bound that it is made of is, above.
    """
    space, center, *_ = CURVATURES[where]
    radius, rng = 0.7, np.random.default_rng(22)
    data = bare_query(Ball(radius, center, space), np.zeros((2, space.dim)))
    low, high = KNormGradient.of(data, 1.0)._slopes(data)
    size = np.full(3, radius)

    def slope(x):
        mean = space.exp(center, space.mean(center, x[:, :2], 1e-10))
        y, records = space.exp(center, x[:, 2]), space.exp(center, x[:, :2])
        gradient = space.log(y[(slice(None), None)], records).mean(axis=1)
        far = space.dist(y, mean)
        return np.linalg.norm(gradient, axis=1) / np.maximum(far, 1e-3), far > 1e-3

    at = 1e-2 * _directions(rng, 3, space.dim)
    largest = highest(lambda x: np.where((found := slope(x))[1], found[0], 0), at, size, size, rng)
    least = -highest(lambda x: np.where((found := slope(x))[1], -found[0], -9), at, size, size, rng)
    assert low - 1e-9 <= least <= 1 - of_low * (1 - low) + 1e-2
    assert 1 + of_high * (high - 1) - 1e-2 <= largest <= high + 1e-9


@pytest.mark.slow
@pytest.mark.parametrize("name", ["spd", "spd 3", "triangles"])
def test_in_small_balls_the_sensitivity_covers_the_rounding_of_points(name):
    space = {"spd": AffineInvariant(2), "spd 3": AffineInvariant(3), "triangles": KendallPlanar(3)}
    space, rng, R = space[name], np.random.default_rng(0), 1.1e-6
    center = np.array([1, 0, -1]) if name == "triangles" else np.eye(space.shape[0])
    ball = Ball(R, center, space)
    for _ in range(50):
        v = rng.standard_normal((1, space.dim))
        v *= R / np.linalg.norm(v)
        pair = [FrechetMean(space.exp(ball.center, np.concatenate([v, side * v])), ball)
                for side in (1, -1)]
        made = KNormGradient.of(pair[0], 1.0, 0, approximate=True)
        y = np.linspace(-0.95, -0.05, 40)[:, None] * v
        moved = np.subtract(*(made.log_density(query, y) for query in pair)) * made.scale
        assert (np.abs(moved) <= made.sensitivity).all()
