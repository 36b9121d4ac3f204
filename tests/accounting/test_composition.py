"""What several releases cost together: Gaussian ones by mu^2 = sum mu_i^2, others by their losses.

The references are the accountant of Gopi, Lee and Wutschitz (2021), another one than the module
uses, and integrals over the noise.
"""

import functools
import math
import sys
import types

import numpy as np
import pytest
from conftest import mostly_slow
from prv_accountant import PRVAccountant
from prv_accountant.privacy_random_variables import (GaussianMechanism, LaplaceMechanism,
                                                     PrivacyRandomVariable)
from scipy.integrate import cumulative_trapezoid
from scipy.special import kve

from spdlib import Ball, PrivateFrechetMean
from spdlib.accounting import Composition, compose, composition
from spdlib.accounting.composition import Cost
from spdlib.calibration import gaussian_delta, gaussian_epsilon, gdp_mu
from spdlib.mechanisms import (GaussianNoise, L2Mechanism, Mechanism, Noise, RiemannianLaplace,
                               TangentGaussian)

ERROR = 1e-3  # how far the accountant lets its epsilon be off; it returns a lower and an upper end
RIVALS = {
    "their sum": sum,
    "the largest": max,
    "a third more in μ²": lambda mus: 1.15 * math.hypot(*mus),
}


def accountant(mus):
    return PRVAccountant([GaussianMechanism(1 / mu) for mu in mus], ERROR, 1e-13, [1] * len(mus))


@pytest.mark.slow
@pytest.mark.parametrize("mus", mostly_slow(
    [[0.5, 0.5], [0.3, 0.5, 0.8], [0.1, 1.5], [0.2] * 4], [0.5, 0.5], [0.1, 1.5]))
@pytest.mark.parametrize("delta", mostly_slow([1e-3, 1e-6, 1e-9], 1e-6))
def test_squares_add_as_the_accountant_finds(mus, delta):
    low, _, high = accountant(mus).compute_epsilon(delta, [1] * len(mus))
    assert low <= gaussian_epsilon(1, delta, math.hypot(*mus)) <= high
    for rival in RIVALS.values():
        assert not low <= gaussian_epsilon(1, delta, rival(mus)) <= high


@pytest.mark.slow
@pytest.mark.parametrize("epsilon", mostly_slow([0.1, 0.5, 1.0], 1.0))
def test_so_do_deltas(epsilon):
    mus = 0.3, 0.5
    low, _, high = accountant(mus).compute_delta(epsilon, [1, 1])
    assert low <= gaussian_delta(1, epsilon, math.hypot(*mus)) <= high
    for rival in RIVALS.values():
        assert not low <= gaussian_delta(1, epsilon, rival(mus)) <= high


@pytest.mark.parametrize("epsilon, delta", mostly_slow(
    [(0.5, 1e-5), (1.0, 1e-7), (3.0, 1e-9)], (1.0, 1e-7)))
@pytest.mark.parametrize("m", mostly_slow([2, 4], 2))
def test_m_releases_with_noise_that_is_root_m_stronger_cost_what_one_does(m, epsilon, delta):
    # the sigma for sensitivity 1, times the root of m
    mechanism = TangentGaussian(math.sqrt(m), epsilon, delta)
    low, _, high = accountant([1 / mechanism.sigma] * m).compute_epsilon(delta, [1] * m)
    assert low <= epsilon <= high


@pytest.mark.slow
@pytest.mark.parametrize("size", [2, 178, 8000])
def test_a_record_that_changes_its_class_costs_two_releases_and_no_more(size):
    mu = TangentGaussian(1, 0.5, 1e-5).mu
    # one class loses the record, one of equal size gains it
    moves = np.array([1, size / (size + 1)])
    low, _, high = accountant(mu * moves).compute_epsilon(1e-5, [1, 1])
    assert low <= gaussian_epsilon(1, 1e-5, mu * math.hypot(*moves)) <= high
    assert 0.5 < low <= gaussian_epsilon(1, 1e-5, math.sqrt(2) * mu)


@pytest.mark.slow
@pytest.mark.parametrize("size", [2, 178, 8000])
def test_noisy_class_sizes_cost_one_release_more(size):
    mechanism, histogram = TangentGaussian(1, 0.5, 1e-5), TangentGaussian(math.sqrt(2), 0.5, 1e-5)
    # two sizes move by one each, so that the vector of them moves by the root of two
    moves = [mechanism.mu, mechanism.mu * size / (size + 1), math.sqrt(2) / histogram.sigma]
    low, _, high = accountant(moves).compute_epsilon(1e-5, [1] * 3)
    assert low <= gaussian_epsilon(1, 1e-5, math.hypot(*moves)) <= high
    for rival in (moves[:2], [*moves[:2], 1 / histogram.sigma]):
        assert not low <= gaussian_epsilon(1, 1e-5, math.hypot(*rival)) <= high


def test_composed_gaussians_are_one_whose_mu_is_rounded_up():
    mechanisms = [TangentGaussian(1, e, 1e-6) for e in (0.3, 0.5, 0.8)]
    mu = math.hypot(*(mechanism.mu for mechanism in mechanisms))
    together = compose(mechanisms, 6)
    assert mu < together.mu < mu * (1 + 2e-15)
    assert together.epsilon(1e-300) == gaussian_epsilon(1, 1e-300, together.mu)
    assert together.delta(0) == gaussian_delta(1, 0, together.mu)


# noise that is not Gaussian

L2_SIZES = {2: 0.012, 3: 7.8e-4, 5: 2.1e-5, 8: 3.5e-6}  # k: what two releases really cost


def dimension(k):
    return k * (k + 1) // 2


def loss(mechanism):
    return mechanism.sensitivity / mechanism.scale


class Loss(PrivacyRandomVariable):
    """The privacy loss of the l2 mechanism at the worst shift, 2 alpha cos(phi), for the peer."""

    def __init__(self, mechanism, d):
        alpha, v = loss(mechanism) / 2, d / 2 - 1
        phi = np.linspace(math.pi, 0, 200_001)
        ratio = (d - 1) * kve(v + 1, alpha) / (alpha * kve(v, alpha))
        w = np.exp(alpha * np.cos(phi)) * np.sin(phi) ** (d - 2) * (np.sin(phi) ** 2 + ratio)
        below = cumulative_trapezoid(w, -phi, initial=0)
        self.losses, self.below = 2 * alpha * np.cos(phi), below / below[-1]

    def cdf(self, t):
        t = np.asarray(t, float)  # the peer asks in extended precision
        return np.interp(t, self.losses, self.below, left=0, right=1)

    def rdp(self, alpha):
        masses = np.diff(self.below)
        return np.log(masses @ np.exp((alpha - 1) * self.losses[1:])) / (alpha - 1)


def polar(mechanism, d, nodes=1000):
    """Values of the loss of noise of density exp(-|x|/s), with weights: from length and angle."""
    x, w = np.polynomial.legendre.leggauss(nodes)
    low, high = mechanism.error(d).ppf(1e-15), mechanism.error(d).isf(1e-15)
    R, t = low + (high - low) * (x + 1) / 2, np.pi * (x + 1) / 2
    weights = np.outer(w * mechanism.error(d).pdf(R), w * np.sin(t) ** (d - 2)).ravel()
    s, shift = mechanism.scale, mechanism.sensitivity
    far = np.sqrt(R[:, None] ** 2 + 2 * shift * R[:, None] * np.cos(t) + shift**2)
    losses = ((far - R[:, None]) / s).ravel()
    order = np.argsort(losses)
    return losses[order], weights[order] / weights.sum()


def two(first, second, epsilon):
    """delta of two independent losses, each as values with weights: E (1 - e^(eps - L1 - L2))_+."""
    losses, weights = second
    above = np.append(np.cumsum(weights[::-1])[::-1], 0)
    swapped = np.append(np.cumsum((weights * np.exp(-losses))[::-1])[::-1], 0)
    values, shares = first
    place = np.searchsorted(losses, epsilon - values, side="right")
    return shares @ (above[place] - np.exp(epsilon - values) * swapped[place])


@pytest.mark.slow
@pytest.mark.parametrize("k", L2_SIZES)
def test_two_l2_releases_cost_far_more_than_the_rule_of_mu_would_have_it(k):
    d = dimension(k)
    mechanism = L2Mechanism(1, 1, 1e-6, d)
    together = compose([mechanism] * 2, d)
    promised = gaussian_epsilon(1, 1e-6, math.sqrt(2) * gdp_mu(1, 1e-6))
    assert promised == pytest.approx(1.45, abs=0.005)
    spent = together.delta(promised)
    assert spent == pytest.approx(L2_SIZES[k], rel=0.03)
    exact = two(*[polar(mechanism, d)] * 2, promised)
    assert exact * (1 - 1e-4) <= spent <= exact * (1 + 2e-3)
    # nor do the deltas add up at the larger epsilon
    assert together.delta(1.0) > 3e-6


@pytest.mark.slow
@pytest.mark.parametrize("k, times, delta", [(2, 2, 1e-6), (3, 10, 1e-8), (8, 4, 1e-3)])
def test_another_accountant_finds_the_same_for_l2_noise(k, times, delta):
    d = dimension(k)
    mechanism = L2Mechanism(1, 0.5, 1e-6, d)
    epsilon = compose([mechanism] * times, d).epsilon(delta)
    peer = PRVAccountant([Loss(mechanism, d)], ERROR, delta / 1000, [times])
    low, _, high = peer.compute_epsilon(delta, [times])
    assert low <= epsilon <= high * (1 + 1e-3)
    rivals = (math.sqrt(times) * gdp_mu(0.5, 1e-6), math.sqrt(times) * gdp_mu(0.5, delta))
    for mu in rivals:
        assert not low <= gaussian_epsilon(1, delta, mu) <= high


@pytest.mark.parametrize("epsilon", [0.2, 1.0])
@pytest.mark.parametrize("target", [0.0, 0.1, 0.3, 1.0, 1.5, 1.9])
def test_two_laplace_releases_on_the_line_cost_what_the_closed_form_says(epsilon, target):
    mechanism = RiemannianLaplace(1, epsilon)
    L, e = loss(mechanism), target * epsilon
    # the loss is L with probability 1/2, -L with e^-L/2, and has density e^((l-L)/2)/4 between

    def one(e):
        return 0 if e >= L else 1 - math.exp((e - L) / 2) if e > -L else 1 - math.exp(e)

    start = max(e - L, -L)  # below it nothing is over e; over it, up to L, e - l is within (-L, L)
    between = (math.exp(0) - math.exp((start - L) / 2)) / 2  # mass of the density from start on
    between -= (L - start) / 4 * math.exp((e - 2 * L) / 2)
    exact = one(e - L) / 2 + math.exp(-L) / 2 * one(e + L) + between
    spent = compose([mechanism] * 2, 1).delta(e)
    assert exact <= spent <= exact + 2e-3 * epsilon * (1 - target / 2)


@pytest.mark.slow
def test_another_accountant_finds_the_same_for_laplace_noise_on_the_line():
    mechanism = RiemannianLaplace(1, 0.3)
    together = compose([mechanism] * 20, 1)
    peer = PRVAccountant([LaplaceMechanism(loss(mechanism))], ERROR, 1e-9, [20])
    for delta in (1e-6, 1e-3):
        low, _, high = peer.compute_epsilon(delta, [20])
        assert low <= together.epsilon(delta) <= high * (1 + 1e-3)


def cost(epsilon, mu):
    """delta of Gaussian noise at any epsilon, below 0, too."""
    if epsilon < 0:
        return 1 - math.exp(epsilon) * (1 - cost(-epsilon, mu))
    return gaussian_delta(1, epsilon if epsilon >= 1e-6 else 0, mu)


@pytest.mark.slow
@pytest.mark.parametrize("d", [3, 36])
def test_gaussian_and_other_noise_compose(d):
    gaussian, l2 = TangentGaussian(1, 0.5, 1e-6), L2Mechanism(1, 0.7, 1e-5, d)
    together = compose([gaussian, l2, gaussian], d)
    losses, weights = polar(l2, d)
    mu = math.sqrt(2) * gaussian.mu
    grid = np.linspace(losses[0], losses[-1], 2001)
    for epsilon in (0.5, 0.8, 1.1, 1.4):
        exact = weights @ np.interp(losses, grid, [cost(epsilon - x, mu) for x in grid])
        more = exact * (1 + 2e-3) + 2 * composition.ROUNDING
        assert exact * (1 - 1e-4) <= together.delta(epsilon) <= more
    assert together.mu is None


@pytest.mark.parametrize("times", [1, 2, 10, 100, 1000])
@pytest.mark.parametrize("epsilon, delta", [(1.0, 1e-6), (0.1, 1e-5), (5.0, 1e-10)])
def test_losses_on_a_grid_err_to_the_safe_side_and_little(times, epsilon, delta):
    mu = gdp_mu(epsilon, delta)
    losses = composition._losses([lambda e: gaussian_delta(1, e, mu)], [times])
    exact = gaussian_epsilon(1, delta, mu * math.sqrt(times))
    assert exact <= Composition(None, losses).epsilon(delta) <= exact * (1 + 1e-3)


@pytest.mark.slow
@pytest.mark.parametrize("times", [2, 5])
def test_the_rounding_of_the_transforms_is_far_below_what_is_added(times, monkeypatch):
    from dp_accounting.pld import pld_pmf

    made, make = [], pld_pmf.create_pmf_pessimistic_connect_dots_fixed_gap

    def recorded(gap, low, high, deltas):
        made.append((gap, low, make(gap, low, high, deltas).to_dense_pmf()))
        return made[-1][2]

    monkeypatch.setattr(pld_pmf, "create_pmf_pessimistic_connect_dots_fixed_gap", recorded)
    together = composition._losses([lambda epsilon: gaussian_delta(1, epsilon, 0.3)], [times])
    ((gap, low, single),) = made
    law = functools.reduce(np.convolve, [single._probs] * times)
    losses = (np.arange(len(law)) + times * low) * gap
    for epsilon in (0.0, 0.5, 1.0, 2.0):
        over = losses > epsilon
        exact = law[over] @ -np.expm1(epsilon - losses[over])
        assert abs(together.get_delta_for_epsilon(epsilon) - exact) < composition.ROUNDING / 2


class Disguised(Cost):
    """Gaussian noise that does not say so, to be composed by its losses."""

    def delta(self, epsilon):
        return gaussian_delta(1, epsilon, self.loss)


def disguised(mu, times):
    return composition.composed([Disguised("pure", mu)] * times)


@pytest.mark.slow
@pytest.mark.parametrize("times", [2**7, 2**13, 2**19])
def test_however_many_releases_there_are_they_never_cost_more_than_is_said(times):
    mu = 3e-3 * math.sqrt(times)
    together = disguised(3e-3, times)
    for delta in (1e-2, 1e-6, 1e-10):
        epsilon = gaussian_epsilon(1, delta, mu)
        most = gaussian_delta(1, epsilon * (1 - 3e-3), mu) + max(2e-12, 2e-15 * times)
        assert delta * (1 - 1e-6) <= together.delta(epsilon) <= most
    least = max(1e-10, 1e-13 * times)
    assert together.epsilon(least * 1.001) > 0
    with pytest.raises(ValueError, match=f"^delta is .*; accepted are numbers from {least:g} to"):
        together.epsilon(least * 0.999)


def test_a_cost_whose_power_of_e_is_no_float_is_found_or_infinite_without_a_warning(recwarn):
    for times in (1000, 1040, 1200):  # about e^-709, where floats lose digits
        together = disguised(1.0, times)
        assert together.epsilon(1e-9) >= gaussian_epsilon(1, 1e-9, math.sqrt(times))
    assert not recwarn


@pytest.mark.slow
def test_what_is_released_once_costs_what_its_mechanism_promises():
    for d in (1, 6, 465):
        assert compose([L2Mechanism(1, 0.5, 1e-6, d)], d).epsilon(1e-6) \
            == pytest.approx(0.5, rel=1e-3)
    pure = compose([RiemannianLaplace(0.1, 0.5)] * 3, 6)
    assert pure.epsilon(1e-10) <= 1.5 * (1 + 1e-3)


@pytest.mark.slow
def test_order_and_grouping_do_not_matter():
    a, b = L2Mechanism(1, 0.5, 1e-6, 6), L2Mechanism(0.2, 1, 1e-5, 6)
    assert compose([a, b, a], 6).epsilon(1e-6) == pytest.approx(
        compose([b, a, a], [6, 6, 6]).epsilon(1e-6), rel=1e-6)


@pytest.mark.slow
def test_a_loss_beyond_the_grid_counts_as_infinite():
    assert compose([RiemannianLaplace(1, 900)], 3).epsilon(1e-6) == math.inf


@pytest.mark.parametrize("mechanisms, d, message", [
    ([], 3, r"mechanisms is \[\]; accepted are one or more"),
    ([L2Mechanism(1, 0.5, 1e-6, 6)], 3, "d is 3; accepted is 6"),
    ([TangentGaussian(1, 0.5, 1e-6)], 0, "d is 0; accepted are integers from 1 to 5050"),
    ([TangentGaussian(1, 0.5, 1e-6)], [3, 3], r"d is \[3, 3\]; accepted are an integer, or one"),
    (TangentGaussian(1, 0.5, 1e-6), 3, "mechanisms is TangentGaussian.*; accepted is a sequence"),
    ([RiemannianLaplace(1, 1), PrivateFrechetMean(1.0, 1e-6, Ball(2.0, np.eye(2)))], 3,
     r"mechanisms\[1\] is PrivateFrechetMean.*; accepted are mechanisms, such as the mechanism_"),
])
def test_a_composition_that_is_none_is_refused(mechanisms, d, message):
    with pytest.raises(ValueError, match=f"^{message}"):
        compose(mechanisms, d)


class Silent(GaussianNoise):
    """Noise of which it is not said what it promises."""


@pytest.mark.parametrize("mechanism", [
    None, Mechanism(), Noise(), Silent(),
    types.SimpleNamespace(law="gaussian"), types.SimpleNamespace(loss=1.0),
])
def test_what_does_not_say_its_law_and_its_loss_has_no_cost(mechanism):
    with pytest.raises(ValueError, match="^mechanism is .*; accepted are mechanisms, such as"):
        Cost.of(mechanism, 3)
    with pytest.raises(ValueError, match=r"^mechanisms\[1\] is .*; accepted are mechanisms"):
        compose([TangentGaussian(1, 0.5, 1e-6), mechanism], 3)
    for law, loss, wrong in ((None, 1.0, "law"), ("pure", None, "loss"), ([], 1.0, "law")):
        with pytest.raises(ValueError, match=f"^{wrong} is .*; accepted are"):
            Cost.of(types.SimpleNamespace(law=law, loss=loss), 3)


@pytest.mark.slow
@pytest.mark.parametrize("delta", [0, 9e-11, 0.6, True, math.nan])
def test_a_delta_below_what_the_transforms_can_tell_is_refused(delta):
    together = compose([RiemannianLaplace(1, 0.5)], 3)
    with pytest.raises(ValueError, match="^delta is .*; accepted are numbers from 1e-10 to 1/2"):
        together.epsilon(delta)
    with pytest.raises(ValueError, match="^epsilon is -1; accepted are 0 and numbers from 1e-6"):
        together.delta(-1)


def test_without_the_extra_gaussian_noise_composes_and_other_noise_names_it(monkeypatch):
    monkeypatch.setitem(sys.modules, "dp_accounting", None)
    monkeypatch.setitem(sys.modules, "dp_accounting.pld", None)
    assert compose([TangentGaussian(1, 0.5, 1e-6)] * 4, 3).epsilon(1e-6) > 0.5
    with pytest.raises(ImportError, match=r"pip install 'spdlib\[accounting\]'"):
        compose([RiemannianLaplace(1, 0.5)], 3)
