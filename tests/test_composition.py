"""What several releases cost together, mu^2 = sum mu_i^2.

The reference is the accountant of Gopi, Lee and Wutschitz (2021).
"""

import math

import numpy as np
import pytest
from prv_accountant import PRVAccountant
from prv_accountant.privacy_random_variables import GaussianMechanism

from spdlib.calibration import gaussian_delta, gaussian_epsilon
from spdlib.mechanisms import TangentGaussian

ERROR = 1e-3  # how far the accountant lets its epsilon be off; it returns a lower and an upper end
RIVALS = {
    "their sum": sum,
    "the largest": max,
    "a third more in μ²": lambda mus: 1.15 * math.hypot(*mus),
}


def accountant(mus):
    return PRVAccountant([GaussianMechanism(1 / mu) for mu in mus], ERROR, 1e-13, [1] * len(mus))


@pytest.mark.parametrize("mus", [(0.5, 0.5), (0.3, 0.5, 0.8), (0.1, 1.5), (0.2,) * 4])
@pytest.mark.parametrize("delta", [1e-3, 1e-6, 1e-9])
def test_squares_add_as_the_accountant_finds(mus, delta):
    low, _, high = accountant(mus).compute_epsilon(delta, [1] * len(mus))
    assert low <= gaussian_epsilon(1, delta, math.hypot(*mus)) <= high
    for rival in RIVALS.values():
        assert not low <= gaussian_epsilon(1, delta, rival(mus)) <= high


@pytest.mark.parametrize("epsilon", [0.1, 0.5, 1.0])
def test_so_do_deltas(epsilon):
    mus = 0.3, 0.5
    low, _, high = accountant(mus).compute_delta(epsilon, [1, 1])
    assert low <= gaussian_delta(1, epsilon, math.hypot(*mus)) <= high
    for rival in RIVALS.values():
        assert not low <= gaussian_delta(1, epsilon, rival(mus)) <= high


@pytest.mark.parametrize("epsilon, delta", [(0.5, 1e-5), (1.0, 1e-7), (3.0, 1e-9)])
@pytest.mark.parametrize("m", [2, 4])
def test_m_releases_with_noise_that_is_root_m_stronger_cost_what_one_does(m, epsilon, delta):
    # the sigma for sensitivity 1, times the root of m
    mechanism = TangentGaussian(math.sqrt(m), epsilon, delta)
    low, _, high = accountant([1 / mechanism.sigma] * m).compute_epsilon(delta, [1] * m)
    assert low <= epsilon <= high


@pytest.mark.parametrize("size", [2, 178, 8000])
def test_a_record_that_changes_its_class_costs_two_releases_and_no_more(size):
    mu = TangentGaussian(1, 0.5, 1e-5).mu
    # one class loses the record, one of equal size gains it
    moves = np.array([1, size / (size + 1)])
    low, _, high = accountant(mu * moves).compute_epsilon(1e-5, [1, 1])
    assert low <= gaussian_epsilon(1, 1e-5, mu * math.hypot(*moves)) <= high
    assert 0.5 < low <= gaussian_epsilon(1, 1e-5, math.sqrt(2) * mu)


@pytest.mark.parametrize("size", [2, 178, 8000])
def test_noisy_class_sizes_cost_one_release_more(size):
    mechanism, histogram = TangentGaussian(1, 0.5, 1e-5), TangentGaussian(math.sqrt(2), 0.5, 1e-5)
    # two sizes move by one each, so that the vector of them moves by the root of two
    moves = [mechanism.mu, mechanism.mu * size / (size + 1), math.sqrt(2) / histogram.sigma]
    low, _, high = accountant(moves).compute_epsilon(1e-5, [1] * 3)
    assert low <= gaussian_epsilon(1, 1e-5, math.hypot(*moves)) <= high
    for rival in (moves[:2], [*moves[:2], 1 / histogram.sigma]):
        assert not low <= gaussian_epsilon(1, 1e-5, math.hypot(*rival)) <= high
