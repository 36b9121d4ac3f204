"""The samplers draw the laws they name, and R̂ sees what chains do."""

import itertools
import math
from functools import cache

import numpy as np
import pytest
from conftest import mostly_slow
from scipy.integrate import cumulative_simpson
from scipy.interpolate import CubicSpline
from scipy.special import k1e, logsumexp, modstruve
from scipy.stats import beta, gamma, kstest, norm

from spdlib.samplers import (ball_steps, laplace_steps, laplace_threshold, metropolis, radial,
                             radial_law, sample_laplace, split_rhat)
from spdlib.spaces import (AffineInvariant, Euclidean, KendallPlanar, LogEuclidean, Sphere,
                           TangentSpace)
from spdlib.spd import invvecd

SPACES = [LogEuclidean(2), Sphere(1, 2.0), Sphere(2), Sphere(5, 0.3), KendallPlanar(3),
          KendallPlanar(6), AffineInvariant(1), AffineInvariant(2), AffineInvariant(3)]
LAST_BEFORE_THE_THRESHOLD = math.nextafter(laplace_threshold(AffineInvariant(2)), 0)
every_space = pytest.mark.parametrize("space", SPACES, ids=repr)


# laws, by quadrature that owes nothing to the module

def cdf_of(log_density, top):
    """Distribution function on [0, top] of a density known up to a constant."""
    x = np.linspace(0, top, 20_001)
    with np.errstate(divide="ignore"):
        logs = log_density(x)
    total = cumulative_simpson(np.exp(logs - logs.max()), x=x, initial=0)
    cdf = CubicSpline(x, total / total[-1])
    return lambda rho: cdf(np.clip(rho, 0, top))


def sphere_law(d, kappa, scale, top=math.inf):
    """Law of the distance on a sphere: sin^(d-1) exp(-ρ/scale)."""
    root = math.sqrt(kappa)
    top = min(top, math.pi / root, (d + 9 * math.sqrt(d) + 80) * scale)
    if d == 1:
        return cdf_of(lambda rho: -rho / scale, top)
    return cdf_of(lambda rho: (d - 1) * np.log(np.sin(root * rho).clip(0)) - rho / scale, top)


def shape_law(landmarks, scale, top=math.pi / 2):
    """Law of the distance on planar shapes: sin^(2n-1) cos exp(-ρ/scale), n = landmarks - 2."""
    power = 2 * landmarks - 5
    return cdf_of(lambda rho: power * np.log(np.sin(rho)) + np.log(np.cos(rho).clip(0))
                  - rho / scale, min(top, 90 * scale * power, math.pi / 2))


def flat_law(d, scale, top):
    """Law of the length in R^d within a ball."""
    return lambda rho: gamma(d, scale=scale).cdf(rho) / gamma(d, scale=scale).cdf(top)


def spd2_law(scale, top=math.inf):
    """Law of the distance on SPD(2): ρ L₀(ρ/√2) exp(-ρ/scale), with Struve's function."""
    rate = 1 / scale - 1 / math.sqrt(2)
    top = min(top, 60 / rate) if rate > 0 else top
    return cdf_of(lambda rho: np.log(rho * modstruve(0, rho / math.sqrt(2))) - rho / scale, top)


def directions_and_logs(k, rho):
    """Eigenvalues of 30,000 random unit matrices, and log J at the multiples `rho` of each."""
    S = np.random.default_rng(1).standard_normal((30_000, k, k))
    S = S + S.swapaxes(1, 2)
    eigenvalues = np.linalg.eigvalsh(S / np.linalg.norm(S, axis=(1, 2))[:, None, None])
    logs = 0
    for i, j in itertools.combinations(range(k), 2):
        half = (eigenvalues[:, j] - eigenvalues[:, i])[:, None] / 2 * rho
        logs = logs + np.log(np.sinh(half) / half)
    return eigenvalues, logs


@cache
def mean_of_volume(k, top):
    """Logarithm of the mean of J over random directions, a cubic spline in the length."""
    rho = np.linspace(0, top, 41)[1:]
    logs = logsumexp(directions_and_logs(k, rho)[1], axis=0) - math.log(30_000)
    return CubicSpline(np.append(0, rho), np.append(0, logs))


def spd_law(k, scale, top):
    """Law of the distance on SPD(k), with the mean of J over random directions."""
    d = k * (k + 1) // 2
    return cdf_of(lambda x: mean_of_volume(k, top)(x) + (d - 1) * np.log(x) - x / scale, top)


# what is called, scale, law at a scale
LAWS = {
    "circle": (lambda s, *a: laplace_steps(Sphere(1, 2.0), s, *a), 0.5,
               lambda s: sphere_law(1, 2.0, s)),
    "sphere": (lambda s, *a: laplace_steps(Sphere(2), s, *a), 0.3, lambda s: sphere_law(2, 1, s)),
    "sphere, wide": (lambda s, *a: laplace_steps(Sphere(2), s, *a), 1.0,
                     lambda s: sphere_law(2, 1, s)),
    "sphere, narrow": (lambda s, *a: laplace_steps(Sphere(2), s, *a), 1e-6,
                       lambda s: sphere_law(2, 1, s)),
    "sphere, flat": (lambda s, *a: laplace_steps(Sphere(3, 1e-4), s, *a), 2.0,
                     lambda s: sphere_law(3, 1e-4, s)),
    "sphere, small": (lambda s, *a: laplace_steps(Sphere(7, 1e4), s, *a), 2e-3,
                      lambda s: sphere_law(7, 1e4, s)),
    "sphere, within": (lambda s, *a: laplace_steps(Sphere(2), s, *a, within=1.0), 0.2,
                       lambda s: sphere_law(2, 1, s, 1.0)),
    "triangles": (lambda s, *a: laplace_steps(KendallPlanar(3), s, *a), 0.2,
                  lambda s: shape_law(3, s)),
    "shapes": (lambda s, *a: laplace_steps(KendallPlanar(6), s, *a), 0.1,
               lambda s: shape_law(6, s)),
    "shapes, within": (lambda s, *a: laplace_steps(KendallPlanar(6), s, *a, within=0.9), 0.1,
                       lambda s: shape_law(6, s, 0.9)),
    "flat, within": (lambda s, *a: laplace_steps(LogEuclidean(2), s, *a, within=2.0), 0.5,
                     lambda s: flat_law(3, s, 2.0)),
    "SPD(1)": (lambda s, *a: laplace_steps(AffineInvariant(1), s, *a), 5.0,
               lambda s: gamma(1, scale=s).cdf),
    "SPD(2)": (lambda s, *a: laplace_steps(AffineInvariant(2), s, *a), 0.4, spd2_law),
    "SPD(2), near the threshold": (lambda s, *a: laplace_steps(AffineInvariant(2), s, *a), 1.2,
                                   spd2_law),
    "SPD(2), beyond it": (lambda s, *a: laplace_steps(AffineInvariant(2), s, *a, within=9.0), 1.6,
                          lambda s: spd2_law(s, 9.0)),
    "SPD(3)": (lambda s, *a: laplace_steps(AffineInvariant(3), s, *a), 0.4,
               lambda s: spd_law(3, s, 14.0)),
    "SPD(4)": (lambda s, *a: laplace_steps(AffineInvariant(4), s, *a), 0.2,
               lambda s: spd_law(4, s, 9.0)),
    "SPD(4), within": (lambda s, *a: laplace_steps(AffineInvariant(4), s, *a, within=2.5), 0.2,
                       lambda s: spd_law(4, s, 2.5)),
}


def surely(n, alpha=1e-6):
    """What the empirical law of n draws stays within of the true one (Dvoretzky et al.)."""
    return math.sqrt(math.log(2 / alpha) / (2 * n))


def furthest(sample, cdf):
    """Kolmogorov's distance of a sample from a law."""
    return kstest(sample, cdf).statistic


@pytest.mark.slow
@pytest.mark.parametrize("law", LAWS)
def test_the_length_of_a_step_has_its_law_and_a_scale_five_per_cent_off_is_told_apart(law):
    draw, scale, make = LAWS[law]
    true, *others = (make(s) for s in (scale, 0.95 * scale, 1.05 * scale))
    grid = np.quantile(np.linalg.norm(draw(scale, 2000, 1), axis=-1), np.linspace(0.01, 0.99, 99))
    apart = min(np.abs(other(grid) - true(grid)).max() for other in others)
    n = math.ceil(math.log(2e6) / (2 * (apart / 2.5) ** 2))
    rho = np.linalg.norm(draw(scale, n, 2), axis=-1)
    assert furthest(rho, true) < surely(n)
    assert all(furthest(rho, other) > surely(n) for other in others)


@pytest.mark.parametrize("d", mostly_slow([1, 2, 6, 465], 1, 2, 6))
def test_the_laplace_sampler_has_a_gamma_radius_and_a_uniform_direction(d):
    x = sample_laplace((20_000, d), 0)
    radius = np.linalg.norm(x, axis=1)
    assert kstest(radius, gamma(d).cdf).pvalue > 1e-6
    share = (x[:, 0] / radius) ** 2  # of a uniform direction: Beta(1/2, (d-1)/2)
    if d == 1:
        assert np.allclose(share, 1)
    else:
        assert kstest(share, beta(1 / 2, (d - 1) / 2).cdf).pvalue > 1e-6
    assert abs((x > 0).mean() - 0.5) < 0.02


def test_the_laplace_sampler_takes_any_shape_and_a_seed_repeats_it():
    assert sample_laplace((3,), 0).shape == (3,)
    assert sample_laplace((2, 4, 3), 0).shape == (2, 4, 3)
    from_generator = sample_laplace((2, 3), np.random.default_rng(5))
    assert np.array_equal(sample_laplace((2, 3), 5), from_generator)


@pytest.mark.parametrize("shape", [(0,), (3, 0), (3, -1), (2.0,)])
def test_the_laplace_sampler_refuses_a_dimension_below_1(shape):
    message = "d, the last entry of shape, is .*; accepted are integers ≥ 1"
    with pytest.raises(ValueError, match=message):
        sample_laplace(shape)


UNIFORM = {
    "flat": (LogEuclidean(2), 2.0, lambda rho: (rho / 2) ** 3),
    "circle": (Sphere(1, 4.0), 9.0, lambda rho: rho / (math.pi / 2)),
    "cap": (Sphere(2), 1.0, lambda rho: (1 - np.cos(rho)) / (1 - math.cos(1))),
    "sphere": (Sphere(2, 4.0), math.pi / 2, lambda rho: (1 - np.cos(2 * rho)) / 2),
    "more than the sphere": (Sphere(2), 4.0, lambda rho: (1 - np.cos(rho)) / 2),
    "shapes": (KendallPlanar(4), 1.0, lambda rho: (np.sin(rho) / math.sin(1)) ** 4),
    "SPD(2)": (AffineInvariant(2), 4.0, lambda rho: spd2_law(1e9, 4.0)(rho)),
    "SPD(3)": (AffineInvariant(3), 3.0, lambda rho: spd_law(3, 1e9, 3.0)(rho)),
}


@pytest.mark.slow
@pytest.mark.parametrize("law", UNIFORM)
def test_points_uniform_on_a_ball_have_the_distances_that_its_volume_gives_them(law):
    space, radius, cdf = UNIFORM[law]
    rho = np.linalg.norm(ball_steps(space, radius, 40_000, 0), axis=-1)
    assert furthest(rho, cdf) < surely(len(rho))
    assert rho.max() <= min(radius, space.injectivity_radius)
    at_once = laplace_steps(space, 1e9, 40_000, 1, within=radius)
    assert furthest(np.linalg.norm(at_once, axis=-1), cdf) < surely(len(rho))


@pytest.mark.parametrize("space, scale", [
    (Sphere(1), 0.5), (Sphere(2), 0.5), (Sphere(4, 2.0), 0.5),
    pytest.param(KendallPlanar(5), 0.1, marks=pytest.mark.slow)])
def test_directions_are_uniform_where_the_volume_depends_on_the_length_alone(space, scale):
    v = laplace_steps(space, scale, 40_000, 0)
    rho = np.linalg.norm(v, axis=-1)
    for part in (v[rho < np.median(rho)], v[rho > np.median(rho)]):
        assert np.abs((part > 0).mean(axis=0) - 0.5).max() < surely(len(part))
        if space.dim > 1:
            share = (part / np.linalg.norm(part, axis=-1, keepdims=True)) ** 2
            law = beta(1 / 2, (space.dim - 1) / 2).cdf
            assert all(furthest(column, law) < surely(len(part)) for column in share.T)


@pytest.mark.slow
def test_distance_and_gap_of_eigenvalues_have_their_joint_law_on_spd2():
    """With x = ρ/√2, r = |λ₁ - λ₂|/√2 = ρ sin φ: φ has density ∝ sinh(x sin φ), given ρ."""
    scale, n = 0.7, 50_000
    eigenvalues = np.linalg.eigvalsh(invvecd(laplace_steps(AffineInvariant(2), scale, n, 0)))
    r = (eigenvalues[:, 1] - eigenvalues[:, 0]) / math.sqrt(2)
    marginal = cdf_of(lambda r: np.log(r * k1e((r + 1e-9) / scale) * np.sinh(r / math.sqrt(2)))
                      - r / scale, 60)
    assert furthest(r, marginal) < surely(n)
    t, rho = eigenvalues.sum(axis=1) / math.sqrt(2), np.linalg.norm(eigenvalues, axis=1)
    phi = np.linspace(0, math.pi, 513)
    density = np.sinh(rho[:, None] / math.sqrt(2) * np.sin(phi))
    part = np.concatenate([0 * t[:, None], np.cumsum(density[:, 1:] + density[:, :-1], 1)], axis=1)
    index = np.arctan2(r, t) / phi[1]
    whole = index.astype(int)
    rows = np.arange(n)
    level = part[rows, whole] + (index - whole) * (part[rows, whole + 1] - part[rows, whole])
    level /= part[:, -1]
    for near in (rho < np.median(rho), rho > np.median(rho)):
        assert furthest(level[near], lambda u: u) < surely(near.sum())
    evenly = (1 - np.cos(np.arctan2(r, t))) / 2  # as if directions were uniform
    assert furthest(evenly, lambda u: u) > surely(n)


@pytest.mark.slow
def test_the_shape_of_the_spectrum_has_its_law_on_spd3_and_eigenvectors_are_uniform():
    scale, n, rho = 0.45, 50_000, np.linspace(0.1, 20, 100)
    eigenvalues, vectors = np.linalg.eigh(invvecd(laplace_steps(AffineInvariant(3), scale, n, 0)))
    spread = (eigenvalues[:, 2] - eigenvalues[:, 0]) / np.linalg.norm(eigenvalues, axis=1)
    unit, logs = directions_and_logs(3, rho)
    weights = np.exp(logsumexp(logs + 5 * np.log(rho) - rho / scale, axis=1))
    order = np.argsort(unit[:, 2] - unit[:, 0])
    levels = np.cumsum(weights[order]) / weights.sum()
    effective = weights.sum() ** 2 / (weights**2).sum()  # directions as good as so many draws

    def law(x):
        return np.interp(x, (unit[:, 2] - unit[:, 0])[order], levels)

    assert furthest(spread, law) < surely(n) + surely(effective)
    evenly = np.sort(unit[:, 2] - unit[:, 0])
    uniform = np.linspace(0, 1, len(evenly))
    assert furthest(spread, lambda x: np.interp(x, evenly, uniform)) > 2 * surely(n)
    entries = vectors[:, 0, :] ** 2
    assert all(furthest(column, beta(0.5, 1).cdf) < surely(n) for column in entries.T)


@pytest.mark.parametrize("k", [2, 3, 4, 7])
def test_the_bounds_on_the_volume_hold_for_steps_of_every_kind(k):
    space, rng = AffineInvariant(k), np.random.default_rng(k)
    a = np.arange(k) - (k - 1) / 2
    one_gap = [np.where(np.arange(k) < l, 1 - l / k, -l / k) for l in range(1, k)]
    spectra = np.concatenate([rng.standard_normal((300, k)), a + 0.1 * rng.standard_normal((99, k)),
                              [a], one_gap])
    spectra /= np.linalg.norm(spectra, axis=1, keepdims=True)
    for rho in np.geomspace(1e-4, 1e3, 30):
        v = np.zeros((len(spectra), space.dim))
        v[:, :k] = rho * spectra
        room = space.volume_bound(np.full(len(v), rho)) - space.log_volume(v)
        assert room.min() > -1e-12 * (1 + rho)
        if k == 2:
            assert room[-1] == pytest.approx(0, abs=1e-12 * (1 + rho))
    growth = space.log_volume(np.append(1e5 * a / np.linalg.norm(a), np.zeros(space.dim - k))) / 1e5
    assert growth * laplace_threshold(space) == pytest.approx(1, abs=1e-2)


@every_space
def test_the_density_of_the_length_is_log_concave_with_the_bound_for_the_volume(space):
    rho = np.linspace(0, min(space.injectivity_radius, 50.0), 5002)[1:-1]
    logs = radial._radial_density(space, 0.0, space.volume_bound)(rho)
    assert np.diff(logs, 2).max() < 1e-10


@every_space
@pytest.mark.parametrize("scale", [1e-6, 0.2, 0.5])
def test_the_hat_is_nowhere_below_the_density_and_little_above_it_where_that_counts(space, scale):
    g = radial._radial_density(space, 1 / scale, space.volume_bound)
    end = min(space.injectivity_radius, 1e3)
    edges, hat = radial._hat(g, *radial._support(g, space, 1 / scale, end), end)
    assert edges[0] == 0 and edges[-1] == end and (np.diff(edges) > 0).all()
    width = np.diff(edges)
    logs = g(edges[:-1] + width * np.linspace(0.001, 0.999, 50)[:, None])
    assert (hat - logs).min() > 0
    accepted = (np.exp(logs - hat.max()).mean(axis=0) * width).sum()
    assert accepted > 0.95 * (np.exp(hat - hat.max()) * width).sum()


@every_space
def test_steps_have_the_shape_that_is_asked_for_and_a_seed_repeats_them(space):
    for draw in (lambda *a: laplace_steps(space, 0.2, *a),
                 lambda *a: laplace_steps(space, 0.2, *a, within=0.3),
                 lambda *a: ball_steps(space, 0.3, *a)):
        assert draw((), 0).shape == (space.dim,)
        assert draw(5, 0).shape == (5, space.dim)
        assert draw((2, 0, 3), 0).shape == (2, 0, 3, space.dim)
        assert np.array_equal(draw((2, 3), 5), draw((2, 3), np.random.default_rng(5)))
        assert not np.array_equal(draw(2, 5), draw(2, 6))


@every_space
def test_no_step_leaves_the_ball_by_rounding(space):
    radius = min(space.injectivity_radius, 0.7)
    for within in (radius, space.injectivity_radius):
        v = laplace_steps(space, 0.4, 20_000, 0, within=within if math.isfinite(within) else 9.0)
        assert np.linalg.norm(v, axis=-1).max() <= min(within, 9.0)
    assert np.linalg.norm(ball_steps(space, radius, 20_000, 1), axis=-1).max() <= radius


@pytest.mark.parametrize("space", [LogEuclidean(2), Euclidean(3), TangentSpace(Sphere(2), [0, 0, 1])
                                   ], ids=["LogEuclidean", "Euclidean", "TangentSpace"])
def test_on_flat_spaces_the_draws_are_those_of_the_laplace_sampler(space):
    expected = 0.3 * sample_laplace((4, 5, space.dim), 7)
    assert np.array_equal(laplace_steps(space, 0.3, (4, 5), 7), expected)


@pytest.mark.parametrize("wrong", [Sphere, 3, None])
def test_a_threshold_of_what_is_no_space_is_refused(wrong):
    with pytest.raises(ValueError, match="^space is .*; accepted is a space, such as Sphere"):
        laplace_threshold(wrong)


def test_the_threshold_is_the_inverse_growth_of_the_volume():
    thresholds = [laplace_threshold(AffineInvariant(k)) for k in (1, 2, 3, 5)]
    assert thresholds == pytest.approx([math.inf, math.sqrt(2), 1 / math.sqrt(2), 10**-0.5])
    assert all(laplace_threshold(space) == math.inf for space in SPACES[:6])


def test_a_law_that_does_not_exist_is_refused():
    for k in (2, 3, 4):
        space = AffineInvariant(k)
        scale = laplace_threshold(space)
        message = f"^scale is {scale}; accepted are those below {scale:.6g}"
        for call in (laplace_steps, radial_law):
            with pytest.raises(ValueError, match=message):
                call(space, scale)
        laplace_steps(space, scale, 10, 0, within=0.5)
    with pytest.raises(ValueError, match="^scale is inf; accepted are"):
        radial_law(LogEuclidean(2), math.inf)


class Counting(np.random.Generator):
    """A generator that records how many numbers were asked for at once."""

    def __init__(self, seed):
        super().__init__(np.random.PCG64(seed))
        self.asked = []

    def random(self, size=None):
        self.asked.append(size)
        return super().random(size)


@pytest.mark.parametrize("draw", [
    lambda rng: laplace_steps(AffineInvariant(10), 0.108, 5, rng),
    lambda rng: ball_steps(AffineInvariant(10), 60.0, 5, rng),
    lambda rng: ball_steps(AffineInvariant(2), 1e100, 5, rng),
    lambda rng: laplace_steps(AffineInvariant(2), LAST_BEFORE_THE_THRESHOLD, 5, rng)])
def test_where_next_to_nothing_would_be_accepted_nothing_is_drawn(draw):
    rng = Counting(0)
    with pytest.raises(ValueError, match="^the share of proposals to accept is .*; accepted are"):
        draw(rng)
    assert rng.asked == []


@pytest.mark.slow
def test_batches_of_proposals_are_capped(monkeypatch):
    space, rng = AffineInvariant(3), Counting(0)
    monkeypatch.setattr(radial, "DRAWS_AT_ONCE", 6000)
    v = laplace_steps(space, 0.6, 3000, rng)
    assert v.shape == (3000, 6) and max(rng.asked) == 1000
    assert furthest(np.linalg.norm(v, axis=1), spd_law(3, 0.6, 60.0)) < surely(3000) + 0.01


# the law of the length

@pytest.mark.slow
def test_a_radial_law_is_that_of_the_closed_form():
    x = np.linspace(0.01, 1.4, 50)
    flat, true = radial_law(LogEuclidean(2), 0.3), gamma(3, scale=0.3)
    np.testing.assert_allclose(flat.cdf(x), true.cdf(x), rtol=0, atol=1e-12)
    np.testing.assert_allclose(flat.pdf(x), true.pdf(x), rtol=0, atol=1e-11)
    assert flat.mean() == pytest.approx(0.9, rel=1e-12)
    assert flat.moment(2) == pytest.approx(12 * 0.09, rel=1e-12)
    circle = radial_law(Sphere(1), 0.7)
    assert circle.mean() == pytest.approx(0.7 - math.pi / math.expm1(math.pi / 0.7), rel=1e-12)
    cap = radial_law(Sphere(2), math.inf, within=1.4)
    np.testing.assert_allclose(cap.cdf(x), (1 - np.cos(x)) / (1 - math.cos(1.4)), atol=1e-13)
    spd2 = radial_law(AffineInvariant(2), 0.4)
    np.testing.assert_allclose(spd2.cdf(x), spd2_law(0.4)(x), rtol=0, atol=1e-9)
    spd3 = radial_law(AffineInvariant(3), 0.4)
    np.testing.assert_allclose(spd3.cdf(x), spd_law(3, 0.4, 14.0)(x), rtol=0, atol=3e-3)


@every_space
def test_quantiles_undo_the_distribution_function(space):
    law = radial_law(space, 0.4)
    q = np.array([1e-9, 0.001, 0.5, 0.9, 1 - 1e-9])
    np.testing.assert_allclose(law.cdf(law.ppf(q)), q, rtol=1e-9, atol=1e-14)
    assert law.ppf(0) < law.ppf(0.5) < law.ppf(1) and law.cdf(1e9) == 1 and law.cdf(0) == 0
    assert law.pdf(-1) == law.pdf(1e9) == 0
    with pytest.raises(ValueError, match=r"q\[1\] is 1.5; accepted are numbers from 0 to 1"):
        law.ppf([0.5, 1.5])


def test_the_law_of_a_length_is_out_of_reach_on_large_matrices():
    with pytest.raises(ValueError, match="^k is 5; accepted are integers from 1 to 4"):
        radial_law(AffineInvariant(5), 0.1)


# chains

def normal_chain(x, steps, rng, watch=None):
    def log_density(x):
        return -(np.abs(x[:, 0]) ** 2) / 2

    def propose(x, rng):
        y = x + 2 * rng.standard_normal(x.shape)
        return y + 2j * rng.standard_normal(x.shape) if np.iscomplexobj(x) else y

    return metropolis(log_density, propose, x, steps, rng, watch)


def test_chains_started_from_the_target_stay_in_it_and_others_reach_it():
    rng = np.random.default_rng(1)
    for start in (rng.standard_normal((20_000, 1)), np.full((20_000, 1), 3.0)):
        x, acceptance = normal_chain(start, 40, rng)
        assert kstest(x[:, 0], norm.cdf).pvalue > 1e-6
    assert acceptance.shape == (20_000,)
    exact = 2 / np.pi * np.arctan(2 / 2)  # (2/π) arctan(2/step)
    assert acceptance.mean() == pytest.approx(exact, abs=0.01)


def test_a_chain_does_not_touch_its_start_and_counts_a_rejection_as_a_step():
    start = np.zeros((5, 1))

    def only_zero(x):
        return np.where(x[:, 0] == 0, 0, -np.inf)

    x, acceptance = metropolis(only_zero, lambda x, rng: x + 1, start, 7, 0)
    assert np.array_equal(x, start) and not acceptance.any()
    x, acceptance = metropolis(lambda x: x[:, 0], lambda x, rng: x + 1, start, 7, 0)
    assert (x == 7).all() and (acceptance == 1).all() and not start.any()
    assert metropolis(lambda x: x[:, 0], lambda x, rng: x, start, 0)[1].tolist() == [0] * 5


def test_chains_of_complex_states_keep_their_imaginary_parts():
    rng = np.random.default_rng(0)
    start = rng.standard_normal((20_000, 1)) + 1j * rng.standard_normal((20_000, 1))
    x, _ = normal_chain(start, 10, rng)
    assert furthest(x[:, 0].real, norm.cdf) < surely(len(x))
    assert furthest(x[:, 0].imag, norm.cdf) < surely(len(x))
    assert (x.imag != start.imag).mean() > 0.5


def test_states_may_be_points_of_any_shape():
    start = np.zeros((6, 2, 3), int)
    x, acceptance = metropolis(lambda x: -np.abs(x).sum(axis=(1, 2)),
                               lambda x, rng: x + rng.standard_normal(x.shape), start, 20, 0)
    assert x.shape == start.shape and x.dtype == float and (0 < acceptance).any()


def test_who_watches_sees_every_state_and_changes_none():
    seen = []
    x, _ = normal_chain(np.zeros((3, 1)), 25, 0, lambda x: seen.append(x.copy()))
    assert len(seen) == 25 and np.array_equal(seen[-1], x)
    assert np.array_equal(x, normal_chain(np.zeros((3, 1)), 25, 0)[0])


def autoregressive(phi, steps, n, rng):
    x = np.empty((steps, n))
    x[0] = rng.standard_normal(n)
    for t in range(1, steps):
        x[t] = phi * x[t - 1] + math.sqrt(1 - phi**2) * rng.standard_normal(n)
    return x


@pytest.mark.parametrize("phi", [-0.3, 0.0, 0.5, 0.9])
def test_long_chains_of_one_law_have_an_rhat_of_one_however_correlated(phi):
    x = autoregressive(phi, 4000, 20, np.random.default_rng(0))
    assert split_rhat(x) == pytest.approx(1, abs=0.01)


def test_chains_apart_and_chains_that_drift_have_a_large_rhat():
    x = np.random.default_rng(0).standard_normal((1000, 4))
    for bad in (x + [0, 0, 0, 5], x + np.linspace(0, 5, 1000)[:, None]):
        assert split_rhat(bad) > 1.3


def test_rhat_is_the_formula_of_gelman_and_others():
    x = autoregressive(0.6, 301, 3, np.random.default_rng(1))
    halves = np.concatenate([x[:150], x[151:]], axis=1)
    n, m = halves.shape
    means = halves.mean(axis=0)
    B = n / (m - 1) * ((means - means.mean()) ** 2).sum()
    s2 = ((halves - means) ** 2).sum(axis=0) / (n - 1)
    var_plus = (n - 1) / n * s2.mean() + B / n
    assert split_rhat(x) == pytest.approx(math.sqrt(var_plus / s2.mean()), rel=1e-12)


def test_rhat_takes_many_quantities_at_once():
    x = np.random.default_rng(0).standard_normal((100, 4, 3, 2))
    together = split_rhat(x)
    assert together.shape == (3, 2)
    assert together[2, 1] == pytest.approx(split_rhat(x[..., 2, 1]), rel=1e-12)


@pytest.mark.parametrize("unit", [2.0**-900, 2.0**900])
def test_rhat_knows_no_unit(unit):
    x = np.random.default_rng(0).standard_normal((100, 4))
    assert split_rhat(unit * x) == split_rhat(x)


def test_chains_that_stand_still_apart_never_agree():
    assert split_rhat(np.tile([0.0, 1.0], (10, 1))) == math.inf


@pytest.mark.parametrize("bad, message", [
    (np.zeros((10, 2)), r"chains\[0, 0\] is 0.0, and all values that follow it are the same"),
    (np.zeros(10), r"chains has shape \(10,\); accepted is"),
    (np.zeros((3, 2)), r"chains has shape \(3, 2\); accepted is"),
    (np.full((10, 2), math.nan), r"chains\[0, 0\] is nan; accepted are finite"),
])
def test_what_is_no_record_of_chains_is_refused(bad, message):
    with pytest.raises(ValueError, match=message):
        split_rhat(bad)
