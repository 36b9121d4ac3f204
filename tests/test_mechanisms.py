"""The laws of the noise and of the chains, and what the mechanisms refuse."""

import numpy as np
import pytest
from scipy.stats import beta, gamma, kstest, norm

from spdlib.calibration import l2_scale, sigma_analytic
from spdlib.mechanisms import ExtrinsicGaussian, L2Mechanism, RiemannianLaplace, TangentGaussian
from spdlib.sampling import metropolis, sample_laplace
from spdlib.spd import random_spd, vecd


@pytest.mark.parametrize("d", [1, 2, 6, 465])
def test_the_laplace_sampler_has_a_gamma_radius_and_a_uniform_direction(d):
    x = sample_laplace((20_000, d), 0)
    radius = np.linalg.norm(x, axis=1)
    assert kstest(radius, gamma(d).cdf).pvalue > 1e-6
    share = (x[:, 0] / radius) ** 2  # of a uniform direction: Beta(1/2, (d-1)/2)
    assert np.allclose(share, 1) if d == 1 else kstest(share, beta(1 / 2, (d - 1) / 2).cdf).pvalue > 1e-6
    assert abs((x > 0).mean() - 0.5) < 0.02


def test_the_laplace_sampler_takes_any_shape_and_a_seed_repeats_it():
    assert sample_laplace((3,), 0).shape == (3,)
    assert sample_laplace((2, 4, 3), 0).shape == (2, 4, 3)
    assert np.array_equal(sample_laplace((2, 3), 5), sample_laplace((2, 3), np.random.default_rng(5)))


def normal_chain(x, steps, rng):
    return metropolis(lambda x: -(x[:, 0] ** 2) / 2, lambda x, rng: x + 2 * rng.standard_normal(x.shape), x, steps, rng)


def test_chains_started_from_the_target_stay_in_it_and_others_reach_it():
    rng = np.random.default_rng(1)
    for start in (rng.standard_normal((20_000, 1)), np.full((20_000, 1), 3.0)):
        x, acceptance = normal_chain(start, 40, rng)
        assert kstest(x[:, 0], norm.cdf).pvalue > 1e-6
    assert acceptance.shape == (20_000,)
    assert acceptance.mean() == pytest.approx(2 / np.pi * np.arctan(2 / 2), abs=0.01)  # (2/π) arctan(2/step), exact


def test_a_chain_does_not_touch_its_start_and_counts_a_rejection_as_a_step():
    start = np.zeros((5, 1))
    x, acceptance = metropolis(lambda x: np.where(x[:, 0] == 0, 0, -np.inf), lambda x, rng: x + 1, start, 7, 0)
    assert np.array_equal(x, start) and not acceptance.any()
    x, acceptance = metropolis(lambda x: x[:, 0], lambda x, rng: x + 1, start, 7, 0)
    assert (x == 7).all() and (acceptance == 1).all() and not start.any()
    assert metropolis(lambda x: x[:, 0], lambda x, rng: x, start, 0)[1].tolist() == [0] * 5


def test_scales_are_those_of_the_calibration():
    assert 2.0 < RiemannianLaplace(1.0, 0.5).scale <= 2.0 * (1 + 3e-15)
    assert L2Mechanism(1.0, 0.5, 1e-6, 6).scale == l2_scale(1.0, 0.5, 1e-6, 6) < 2.0
    assert ExtrinsicGaussian(1.0, 0.5, 1e-6).sigma == sigma_analytic(1.0, 0.5, 1e-6)


@pytest.mark.parametrize("mechanism", [RiemannianLaplace(0.2, 1.0), L2Mechanism(0.2, 1.0, 1e-6, 6)])
def test_noise_of_laplace_form_has_the_scale_of_its_mechanism(mechanism):
    radius = np.linalg.norm(mechanism.perturb(np.zeros((20_000, 6)), 0), axis=1)
    assert kstest(radius / mechanism.scale, gamma(6).cdf).pvalue > 1e-6


def test_the_extrinsic_release_adds_the_noise_to_the_matrix_and_need_not_be_spd():
    M = random_spd(500, 3, 0.2, 0)
    mechanism = ExtrinsicGaussian(1.0, 0.5, 1e-6)
    release = mechanism.release(M, 7)
    assert np.array_equal(release, release.swapaxes(1, 2))
    np.testing.assert_allclose(vecd(release) - vecd(M), mechanism.sigma * np.random.default_rng(7).standard_normal((500, 6)))
    assert (np.linalg.eigvalsh(release)[:, 0] < 0).mean() > 0.5


def test_the_dimension_of_the_l2_mechanism_is_held():
    with pytest.raises(ValueError, match=r"y has shape \(4, 3\); accepted is \(..., 6\)"):
        L2Mechanism(0.2, 1.0, 1e-6, 6).perturb(np.zeros((4, 3)))


@pytest.mark.parametrize("make", [lambda s: RiemannianLaplace(s, 1.0), lambda s: L2Mechanism(s, 1.0, 1e-6, 3), lambda s: TangentGaussian(s, 1.0, 1e-6)])
@pytest.mark.parametrize("sensitivity", [0, -1.0, np.nan, np.inf, "1"])
def test_a_sensitivity_that_is_none_is_refused(make, sensitivity):
    with pytest.raises(ValueError, match="^sensitivity: got"):
        make(sensitivity)
