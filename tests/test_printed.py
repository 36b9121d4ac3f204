"""The papers' formulas against numbers worked out by hand, independent integrals and limits."""

import ast
import math
import pathlib

import numpy as np
import pytest
from scipy.integrate import quad
from scipy.stats import chi, gamma, norm

from spdlib import printed


def close(value, expected, rtol=1e-12):
    return np.testing.assert_allclose(value, expected, rtol=rtol)


def test_it_imports_nothing_of_spdlib():
    tree = ast.parse(pathlib.Path(printed.__file__).read_text(encoding="utf-8"))
    names = set()
    for node in ast.walk(tree):
        if isinstance(node, ast.Import):
            names |= {alias.name.split(".")[0] for alias in node.names}
        elif isinstance(node, ast.ImportFrom):
            assert node.level == 0, "a relative import is one of spdlib"
            names.add(node.module.split(".")[0])
    assert names == {"math", "numpy", "scipy"}


def test_the_classical_scale_is_the_square_root_of_two_logarithms():
    # 1.25/δ = e² gives √(2 · 2) = 2
    close(printed.sigma_classical(3, 0.5, 1.25 * math.exp(-2)), 12)


@pytest.mark.parametrize(("mu", "epsilon"), [(0.3, 0.1), (1.0, 0.5), (2.0, 3.0), (4.0, 1.0)])
def test_the_corrected_condition_is_the_hockey_stick_divergence_of_two_normal_laws(mu, epsilon):
    start = mu / 2 + epsilon / mu  # from here on the one density exceeds e^ε times the other
    gain = quad(lambda y: norm.pdf(y, mu) - math.exp(epsilon) * norm.pdf(y), start, 40,
                points=[mu + 1], epsabs=0, epsrel=1e-12)[0]
    close(printed.delta_corrected(mu, epsilon), gain, rtol=1e-10)


def test_the_printed_condition_is_never_positive_so_that_any_scale_fulfils_it():
    mu, epsilon = np.meshgrid(np.geomspace(0.01, 100, 50), np.geomspace(0.01, 10, 50))
    assert (printed.delta_printed(mu, epsilon) <= 0).all()
    close(printed.delta_printed(1.0, 0.5), 0.5 * (1 - math.exp(0.5)))  # both Φ are Φ(0) = 1/2


def test_both_conditions_take_a_whole_array_of_epsilons_negative_ones_too():
    # for ε → −∞ the δ is that of any law, 1 − e^ε; for ε = 0 it is the total variation
    close(printed.delta_corrected(1.0, np.array([-30.0, 0.0])),
          [1 - math.exp(-30), 2 * norm.cdf(0.5) - 1])


@pytest.mark.parametrize("epsilon", [0.01, 0.5, 1.0, 10.0, 100.0])
@pytest.mark.parametrize("delta", [1e-12, 1e-6, 0.01, 0.5])
def test_the_analytic_scale_solves_the_condition(epsilon, delta):
    sigma = printed.sigma_analytic(0.02, epsilon, delta)
    close(printed.delta_corrected(0.02 / sigma, epsilon), delta, rtol=1e-9)


def test_the_analytic_scale_has_its_closed_form_at_epsilon_zero():
    # δ = 2Φ(1/2σ) − 1
    close(printed.sigma_analytic(1, 0, 0.1), 1 / (2 * norm.ppf(0.55)))


def test_only_the_corrected_tail_bound_holds_for_a_wide_law():
    # Φ(−4) = 3.167e-5; with σ = 0.1 the printed bound is 1.07e-5, the corrected one 3.346e-5
    close(printed.tail_bound_printed(0.4, 0.1), 1.0678e-5, rtol=1e-4)
    close(printed.tail_bound_corrected(0.4, 0.1), 3.3458e-5, rtol=1e-4)
    ratio = printed.tail_bound_corrected(1000.0, 40.0) / norm.sf(25)
    assert 1 < ratio < 1 + 25**-2 * 1.01  # Mills: t(1 − Φ(t))/φ(t) lies between 1 − t⁻² and 1


def test_the_curvature_factor_is_one_on_flat_and_negatively_curved_spaces_and_near_them():
    assert printed.curvature_factor(3.0, 0) == printed.curvature_factor(3.0, -1) == 1
    close(printed.curvature_factor(0.5, 1e-12), 1)
    close(printed.curvature_factor(math.pi / 8, 1), math.pi / 4)  # 2r = π/4, where cot is 1
    close(printed.curvature_factor(math.pi / 16, 4), math.pi / 4)


def test_the_sensitivity_of_a_mean():
    assert printed.sensitivity(1.5, 20) == 0.15
    h = math.pi / 4
    close(printed.sensitivity(math.pi / 8, 10, 1), math.pi / 40 * (2 - h) / h)
    close(printed.sensitivity(np.array([1.0, 2.0]), 4), [0.5, 1.0])


def test_the_extrinsic_sensitivity_in_numbers():
    r = math.log(2)
    close(printed.extrinsic_sensitivity_printed(r, 500), 2 / 500)
    close(printed.extrinsic_sensitivity_attained(r, 1), 3 / 2)  # the records 2 and 1/2
    close(printed.extrinsic_sensitivity_corrected(r, 1), 2)


def test_what_is_attained_lies_between_the_printed_sensitivity_and_the_corrected_bound():
    r, n = np.meshgrid(np.geomspace(0.01, 5, 30), [3, 10, 500, 10**5])
    attained = printed.extrinsic_sensitivity_attained(r, n)
    assert (printed.extrinsic_sensitivity_printed(r, n) < attained).all()
    assert (attained < printed.extrinsic_sensitivity_corrected(r, n)).all()


def test_the_corrected_utility_is_d_times_the_squared_classical_scale():
    d, n, r, epsilon, delta = 6, 100, 1.5, 0.5, 1e-6
    sigma = printed.sigma_classical(printed.sensitivity(r, n), epsilon, delta)
    close(printed.utility_corrected(d, n, r, epsilon, delta), d * sigma**2)
    # ln(1.25/δ) = 2, r/(nε) = 1: 4 · 2 · 3
    close(printed.utility_printed(3, 4, 2.0, 0.5, 1.25 * math.exp(-2)), 24)


@pytest.mark.parametrize("d", [1, 3, 45, 465])
def test_the_moments_of_the_distance(d):
    close(printed.gaussian_mean_distance(d, 0.3), chi(d, scale=0.3).mean(), rtol=1e-10)
    close(printed.laplace_mean_square(d, 0.3), gamma(d, scale=0.3).moment(2), rtol=1e-10)


def test_where_the_constant_does_not_vary_the_rate_is_the_sensitivity_over_epsilon():
    assert printed.laplace_rate_homogeneous(0.02, 0.5) == 0.04


def test_the_corrected_acceptance_ratio_is_that_of_the_densities():
    current, candidate, sigma = 0.3, 0.7, 0.1
    target = gamma(1, scale=sigma).pdf  # exp(−ρ/σ)/σ
    close(printed.acceptance_corrected(current / sigma, candidate / sigma),
          target(candidate) / target(current))
    close(printed.acceptance_printed(2.0, 3.0), math.exp(-1))


def test_the_settings_of_the_synthetic_experiment():
    k = np.array([4, 9, 25])
    close(printed.synthetic_radius(k), [1 / 2, 3 / 4, 5 / 4])
    close(printed.synthetic_sensitivity(k), printed.sensitivity(printed.synthetic_radius(k), 500))


def test_the_bound_on_the_logarithm_is_the_largest_norm_in_the_box():
    # the largest of Σ s_i² over ln ℓ ≤ s_i ≤ ln L lies in a corner
    for low, high in ((0.01, 2.0), (0.5, 100.0)):
        corners = np.log([low, high])[np.indices((2, 2, 2))]
        largest = np.sqrt((corners**2).sum(axis=0)).max()
        close(printed.log_norm_bound(3, low, high), largest)


def test_the_bounds_on_descriptors_in_numbers():
    assert printed.descriptor_norm_bound(1, 0.5) == 12.5
    assert printed.descriptor_norm_bound(3, 0.5) == 14.5
    close(printed.descriptor_radius(1, 1e-6), 3 * 6 * math.log(10))
    close(printed.descriptor_radius(3, 1e-6), math.sqrt(11) * 6 * math.log(10))
    eta = np.array([0.5, 2.0])  # where the upper end is the farther one
    close(printed.descriptor_radius(1, eta), 3 * np.log(14 + eta))
    close(printed.descriptor_radius_appendix(3, eta), math.sqrt(11) * np.log(14 + eta))


def test_the_jacobi_functions_solve_the_equation_of_constant_curvature():
    s, h = np.linspace(0.1, 2, 20), 1e-4
    for kappa in (2.0, 0.0, -0.5):
        for f, start, slope in ((printed.jacobi_cosine, 1, 0), (printed.jacobi_sine, 0, 1)):
            second = (f(s + h, kappa) - 2 * f(s, kappa) + f(s - h, kappa)) / h**2
            np.testing.assert_allclose(second, -kappa * f(s, kappa), atol=1e-6)
            np.testing.assert_allclose(f(0.0, kappa), start, atol=1e-15)
            np.testing.assert_allclose((f(h, kappa) - f(-h, kappa)) / (2 * h), slope, atol=1e-8)


def test_a_curve_is_no_longer_than_four_tau_where_the_ball_is_as_wide_as_the_residuals():
    close(printed.curve_length(0.5, 0.5), 2.0)


def test_the_sensitivities_of_a_curve_are_two_tau_over_n_without_negative_curvature():
    for kappa in (0, 1.0):
        assert printed.curve_sensitivity_point(0.5, 10, kappa, 3.0) == 0.1
        assert printed.curve_sensitivity_velocity(0.5, 10, kappa, 3.0) == 0.1
        assert printed.curve_sensitivity_velocity_printed(0.5, 10, kappa) == 0.1


def test_the_sensitivities_of_a_curve_at_curvature_minus_one():
    # 2(τ_m + τ) = ln 2, where cosh is 5/4 and sinh is 3/4; at τ = ln 2 alone sinh is 3/4 too
    tau = math.log(2) / 4
    close(printed.curve_sensitivity_point(tau, 5, -1, tau), 0.4 * tau * 1.25)
    close(printed.curve_sensitivity_velocity(tau, 5, -1, tau), 0.4 * tau * 0.75 / math.log(2))
    close(printed.curve_sensitivity_velocity_printed(4 * tau, 5, -1), 1.6 * tau * 0.75)


def test_only_the_bound_of_the_theorem_on_the_velocity_depends_on_the_unit_of_length():
    # distances times 3, curvatures by 9, so that a gradient is times 3
    point, velocity = (
        f(0.6, 10, -1 / 9, 3.0) / f(0.2, 10, -1, 1.0)
        for f in (printed.curve_sensitivity_point, printed.curve_sensitivity_velocity)
    )
    close([point, velocity], 3)
    statement = printed.curve_sensitivity_velocity_printed
    close(statement(0.6, 10, -1 / 9) / statement(0.2, 10, -1), 9)
