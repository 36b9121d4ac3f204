"""Calibration against multiple precision: on the safe side, and no further than stated."""

import itertools
import math
from fractions import Fraction

import mpmath as mp
import numpy as np
import pytest
from conftest import mostly_slow
from hypothesis import assume, example, given, settings, strategies as st

from spdlib import calibration
from spdlib.calibration import (SLACK, gaussian_delta, gaussian_epsilon, gdp_mu, l2_delta, l2_scale,
                                laplace_scale, sigma_analytic, sigma_classical)

TINY = math.ulp(0.0)
# The two terms of delta may agree in ten digits here, 1 - delta needs 20, and epsilon/mu - mu/2
# loses up to 50.
mp.mp.dps = 80

EPSILONS = [1e-6, 1e-4, 0.01, 0.5, 1.0, 3.0, 30.0, 1e3]
DELTAS = [1e-300, 1e-200, 1e-100, 1e-30, 1e-9, 1e-6, 1e-3, 0.1, 0.3, 0.5]

sampled = settings(max_examples=150, deadline=None, derandomize=True, database=None)
epsilons = st.floats(-6, 3).map(lambda e: min(max(10**e, 1e-6), 1e3))
deltas = st.one_of(st.floats(-300, -1).map(lambda e: max(10**e, 1e-300)), st.floats(1e-3, 0.5))
scales = st.floats(-12, 12).map(lambda e: 10**e)


def exact_delta(mu, epsilon):
    """Phi(mu/2 - epsilon/mu) - e^epsilon Phi(-mu/2 - epsilon/mu), as written, in 80 digits."""
    mu, epsilon = mp.mpf(mu), mp.mpf(epsilon)

    def phi(t):
        return mp.erfc(-t / mp.sqrt(2)) / 2

    return phi(mu / 2 - epsilon / mu) - mp.exp(epsilon) * phi(-mu / 2 - epsilon / mu)


def safe_and_minimal(sigma, sensitivity, epsilon, delta):
    """delta(sigma) <= delta < delta(sigma (1 - 1e-9)) in multiple precision: claim SP-11."""
    mu = mp.mpf(sensitivity) / mp.mpf(sigma)
    return exact_delta(mu, epsilon) <= delta < exact_delta(mu / (1 - mp.mpf("1e-9")), epsilon)


@pytest.mark.slow
@pytest.mark.parametrize(("mu", "epsilon"), [
    (0.1, 0.0), (0.1, 0.3), (1.0, 1.0), (5.0, 2.0), (0.5, 3.0),
])
def test_the_reference_is_the_hockey_stick_divergence(mu, epsilon):
    mu, epsilon = mp.mpf(mu), mp.mpf(epsilon)
    start = epsilon / mu + mu / 2  # where the densities of N(mu, 1) and e^epsilon N(0, 1) cross
    points = [start, start + 0.2, start + 1, start + 4, start + 10, start + 40]
    with mp.workdps(40):
        integral = mp.quad(lambda t: mp.npdf(t, mu) - mp.exp(epsilon) * mp.npdf(t), points,
                           method="gauss-legendre")
    assert abs(integral / exact_delta(mu, epsilon) - 1) < 1e-25


def test_the_analytic_scale_is_safe_and_minimal_on_a_grid_with_its_corners():
    for promise in itertools.product(EPSILONS, DELTAS):
        assert safe_and_minimal(sigma_analytic(1.0, *promise), 1.0, *promise), promise


@pytest.mark.slow
@sampled
@given(scales, epsilons, deltas)
def test_the_analytic_scale_is_safe_and_minimal(sensitivity, epsilon, delta):
    sigma = sigma_analytic(sensitivity, epsilon, delta)
    assert safe_and_minimal(sigma, sensitivity, epsilon, delta)


@pytest.mark.slow
@sampled
@given(epsilons, st.floats(1e-12, 1e3))
def test_the_analytic_scale_is_safe_and_minimal_where_delta_is_tiny(epsilon, ratio):
    delta = min(max(epsilon * ratio * 1e-6, 1e-300), 0.5)
    assert safe_and_minimal(sigma_analytic(1.0, epsilon, delta), 1.0, epsilon, delta)


def test_a_scale_off_by_1e_9_is_either_unsafe_or_not_minimal():
    for promise in itertools.product(EPSILONS, DELTAS):
        sigma = sigma_analytic(1.0, *promise)
        assert not safe_and_minimal(sigma * (1 - 1e-9), 1.0, *promise), promise
        assert not safe_and_minimal(sigma * (1 + 1e-9), 1.0, *promise), promise


@pytest.mark.slow
@sampled
@given(epsilons, deltas)
def test_mu_is_rounded_down_and_maximal(epsilon, delta):
    mu = mp.mpf(gdp_mu(epsilon, delta))
    assert exact_delta(mu, epsilon) <= delta < exact_delta(mu * (1 + mp.mpf("1e-9")), epsilon)
    assert abs(exact_delta(mu, epsilon) / delta - 1 + 2 * SLACK) < SLACK / 10


@pytest.mark.slow
@sampled
@given(scales, epsilons, st.floats(-9, 39))
def test_delta_is_rounded_up_by_slack_to_within_a_tenth(sigma, epsilon, x):
    y = math.hypot(x, math.sqrt(2 * epsilon))
    sensitivity = sigma * (y - x if x < 0 else 2 * epsilon / (y + x))
    exact = exact_delta(mp.mpf(sensitivity) / mp.mpf(sigma), epsilon)
    delta = gaussian_delta(sigma, epsilon, sensitivity)
    assert exact <= delta <= 1
    assume(exact > 1e-305)  # below it a unit in the last place is more than SLACK
    assert delta == 1 or abs(delta / exact - 1 - SLACK) < SLACK / 10
    assert delta < 1 or exact > 1 - 2 * SLACK


@pytest.mark.slow
@sampled
@given(epsilons, st.floats(-12, 2).map(lambda e: 10**e))
@example(1e3, 20.0)
@example(1e-6, 2.6e-8)
def test_delta_is_never_zero_and_never_below_the_exact_one(epsilon, mu):
    delta, exact = gaussian_delta(1.0, epsilon, mu), exact_delta(mu, epsilon)
    assert TINY <= delta and exact <= delta
    assert delta - exact <= 2e-10 * exact + 2 * mp.mpf(TINY)


@pytest.mark.parametrize("epsilon", [0.0, 1e-6, 0.1, 1.0, 10.0, 700.0])
def test_the_integral_and_the_difference_meet_at_mu_one(epsilon):
    below = gaussian_delta(math.nextafter(1.0, 2.0), epsilon)
    above = gaussian_delta(1 - 1e-15, epsilon)
    assert below == pytest.approx(above, rel=1e-11)


@pytest.mark.slow
@sampled
@given(scales, deltas, st.floats(-12, 3).map(lambda e: 10**e))
def test_epsilon_is_rounded_up_and_minimal(sigma, delta, mu):
    sensitivity = mu * sigma
    epsilon = gaussian_epsilon(sigma, delta, sensitivity)
    exact_mu = mp.mpf(sensitivity) / mp.mpf(sigma)
    less = epsilon - mp.mpf("1e-9") * (epsilon + exact_mu)
    assert exact_delta(exact_mu, epsilon) <= delta
    assert less < 0 or delta < exact_delta(exact_mu, less)


@pytest.mark.slow
@sampled
@given(st.floats(1, 2), deltas, st.floats(3, 25).map(lambda e: 10**e))
@example(1.623489452797505, 5.5e-05, 1.7085009232308858e17)  # every rounding on the way goes down
def test_epsilon_is_rounded_up_where_an_ulp_is_worth_more_than_slack(sigma, delta, sensitivity):
    epsilon, mu = gaussian_epsilon(sigma, delta, sensitivity), mp.mpf(sensitivity) / mp.mpf(sigma)
    assert exact_delta(mu, epsilon) <= delta < exact_delta(mu, epsilon * (1 - mp.mpf("1e-9")))


@pytest.mark.slow
@settings(sampled, max_examples=60)
@given(deltas, st.floats(-9, 0))
def test_epsilon_is_right_where_it_is_about_to_vanish(delta, distance):
    vanishing = float(2 * mp.sqrt(2) * mp.erfinv(delta))  # the mu with delta(mu, 0) = delta, nearly
    sigma = 1 / (vanishing * (1 + 10**distance))
    epsilon, mu = gaussian_epsilon(sigma, delta), 1 / mp.mpf(sigma)
    with mp.workdps(700):  # mu may be 1e-300
        assert epsilon > 0 and exact_delta(mu, epsilon) <= delta
        less = epsilon - mp.mpf("1e-9") * (epsilon + mu)
        assert less < 0 or delta < exact_delta(mu, less)


@pytest.mark.slow
@sampled
@given(scales, epsilons, deltas)
def test_a_calibrated_scale_keeps_below_what_was_asked(sensitivity, epsilon, delta):
    sigma = sigma_analytic(sensitivity, epsilon, delta)
    assert gaussian_delta(sigma, epsilon, sensitivity) <= delta
    assert gaussian_epsilon(sigma, delta, sensitivity) <= epsilon


@pytest.mark.slow
@sampled
@given(scales, epsilons, deltas)
def test_there_and_back(sensitivity, epsilon, delta):
    sigma = sigma_analytic(sensitivity, epsilon, delta)
    mu = sensitivity / sigma
    assert mu == pytest.approx(gdp_mu(epsilon, delta), rel=1e-15)
    assert gaussian_delta(sigma, epsilon, sensitivity) == pytest.approx(delta, rel=2e-10)
    assert abs(gaussian_epsilon(sigma, delta, sensitivity) - epsilon) < 1e-9 * (epsilon + mu)


@pytest.mark.parametrize("delta", DELTAS)
def test_the_analytic_scale_falls_with_epsilon(delta):
    scales = [sigma_analytic(1.0, epsilon, delta) for epsilon in np.logspace(-6, 3, 60)]
    assert np.all(np.diff(scales) < 0)


@pytest.mark.parametrize("epsilon", EPSILONS)
def test_the_analytic_scale_falls_with_delta(epsilon):
    grid = np.append(np.logspace(-300, -1, 60), [0.2, 0.3, 0.4, 0.5])
    assert np.all(np.diff([sigma_analytic(1.0, epsilon, delta) for delta in grid]) < 0)


def test_delta_falls_with_epsilon_and_with_sigma():
    of_epsilon = [gaussian_delta(1.0, epsilon) for epsilon in np.linspace(0, 36, 200)[1:]]
    of_sigma = [gaussian_delta(sigma, 1.0) for sigma in np.logspace(-0.7, 1.5, 200)]
    assert np.all(np.diff(of_epsilon) < 0) and np.all(np.diff(of_sigma) < 0)


def test_epsilon_falls_with_delta_and_with_sigma():
    of_delta = [gaussian_epsilon(1.0, delta) for delta in np.logspace(-300, -0.5, 200)]
    of_sigma = [gaussian_epsilon(sigma, 1e-6) for sigma in np.logspace(-20, 4, 200)]
    assert np.all(np.diff(of_delta) < 0) and np.all(np.diff(of_sigma) < 0)


@pytest.mark.parametrize("scale", [sigma_analytic, sigma_classical])
def test_a_scale_is_proportional_to_the_sensitivity(scale):
    for sensitivity in (3e-300, 1e-9, 7.0, 1e250):
        ratio = scale(sensitivity, 0.3, 1e-6) / sensitivity
        assert ratio == pytest.approx(scale(1.0, 0.3, 1e-6), rel=1e-14)


@pytest.mark.slow
@sampled
@given(scales, st.floats(-6, -1e-9).map(lambda e: max(10**e, 1e-6)), deltas)
def test_the_classical_scale_is_its_formula_rounded_up(sensitivity, epsilon, delta):
    exact = mp.mpf(sensitivity) * mp.sqrt(2 * mp.log(mp.mpf(1.25) / delta)) / epsilon
    assert exact <= sigma_classical(sensitivity, epsilon, delta) <= exact * (1 + mp.mpf("3e-15"))


@pytest.mark.slow
@sampled
@given(scales, epsilons)
def test_the_laplace_scale_is_its_formula_rounded_up(sensitivity, epsilon):
    exact = Fraction(sensitivity) / Fraction(epsilon)
    assert exact <= laplace_scale(sensitivity, epsilon) <= exact * (1 + Fraction(3, 10**15))


@pytest.mark.slow
@sampled
@given(st.floats(-6, -1e-9).map(lambda e: max(10**e, 1e-6)), deltas)
@example(math.nextafter(1.0, 0.0), 0.5)
@example(math.nextafter(1.0, 0.0), 1e-300)
def test_the_classical_scale_is_never_below_the_analytic_one(epsilon, delta):
    assert sigma_classical(1.0, epsilon, delta) > sigma_analytic(1.0, epsilon, delta)


@pytest.mark.parametrize(("sigma", "sensitivity", "epsilon", "delta"), [
    (1, 1, 1, 0.12693674), (2, 2, 1, 0.12693674), (1, 3, 1, 0.78760074), (2, 6, 1, 0.78760074),
    (5, 5, 2, 0.02092364),
])
def test_the_values_that_dp_accounting_publishes(sigma, sensitivity, epsilon, delta):
    assert abs(gaussian_delta(sigma, epsilon, sensitivity) - delta) <= 0.5e-8 + SLACK


@pytest.mark.parametrize(("epsilon", "delta"), [(1, 0.12693674), (2, 0.02092364)])
def test_epsilon_inverts_the_values_that_dp_accounting_publishes(epsilon, delta):
    assert gaussian_epsilon(1.0, delta) == pytest.approx(epsilon, abs=1e-6)


@pytest.mark.parametrize("mu", [1e-300, 1e-9, 1e-3, 0.3, 1.0, 4.0, 15.0])
def test_at_epsilon_zero_delta_is_the_total_variation_distance(mu):
    assert gaussian_delta(1.0, 0, mu) == pytest.approx(math.erf(mu / math.sqrt(8)), rel=2e-10)


@pytest.mark.parametrize("delta", [0.01, 0.1, 0.5])
def test_as_epsilon_vanishes_the_scale_tends_to_that_of_the_total_variation_distance(delta):
    limit = 1 / float(mp.sqrt(8) * mp.erfinv(delta))
    assert sigma_analytic(1.0, 1e-6, delta) == pytest.approx(limit, rel=2e-4)


def test_delta_runs_from_the_smallest_float_to_one():
    for arguments in (1.0, 1e3), (1e308, 1e-6), (1e308, 0, TINY):
        assert gaussian_delta(*arguments) == TINY
    for arguments in (1e-3, 1.0), (TINY, 1e3), (TINY, 0, 1e308):
        assert gaussian_delta(*arguments) == 1.0


def test_epsilon_is_zero_exactly_where_delta_pays_for_everything():
    total = math.erf(0.2 / math.sqrt(8))
    assert gaussian_epsilon(5.0, total * (1 + 2e-10)) == 0.0
    assert gaussian_epsilon(5.0, total * (1 - 1e-9)) > 0.0


@pytest.mark.parametrize("mu", [1e3, 1e8, 1e100, 9.9e153])
@pytest.mark.parametrize("delta", [1e-300, 1e-6, 0.5])
def test_far_out_epsilon_is_half_mu_squared_and_a_quantile(mu, delta):
    start = mp.sqrt(-2 * mp.log(delta)) - 1
    x = mp.findroot(lambda x: mp.log(mp.erfc(x / mp.sqrt(2)) / 2 / delta), start)
    limit = mp.mpf(mu) * (x + mp.mpf(mu) / 2)
    # The second term of delta, phi(x) R(y), takes about R(y) = 1/mu from x, hence 1 from epsilon.
    assert limit - 1.1 < gaussian_epsilon(1.0, delta, mu) < limit * (1 + mp.mpf("1e-14"))


def test_the_smallest_sensitivity_gets_noise_that_is_rounded_up():
    for sigma in (sigma_analytic(TINY, 0.5, 0.1), sigma_classical(TINY, 0.5, 0.1)):
        assert sigma >= TINY
    for epsilon in (0.5, 900.0):
        mu = mp.mpf(TINY) / mp.mpf(sigma_analytic(TINY, epsilon, 0.1))
        assert exact_delta(mu, epsilon) <= 0.1


@pytest.mark.parametrize("kind", [float, np.float64, np.float32, Fraction])
def test_any_real_scalar_is_taken_and_a_float_returned(kind):
    half, one = kind(0.5), kind(1)
    for value in (
        sigma_classical(one, half, half),
        sigma_analytic(one, half, half),
        gdp_mu(half, half),
        gaussian_delta(one, half, half),
        gaussian_epsilon(half, half, one),
        laplace_scale(one, half),
    ):
        assert type(value) is float
    assert sigma_analytic(one, half, half) == sigma_analytic(1.0, 0.5, 0.5)


CALLS = {
    sigma_classical: {"sensitivity": 1.0, "epsilon": 0.5, "delta": 1e-6},
    sigma_analytic: {"sensitivity": 1.0, "epsilon": 0.5, "delta": 1e-6},
    gdp_mu: {"epsilon": 0.5, "delta": 1e-6},
    gaussian_delta: {"sigma": 1.0, "epsilon": 0.5, "sensitivity": 1.0},
    gaussian_epsilon: {"sigma": 1.0, "delta": 1e-6, "sensitivity": 1.0},
    l2_scale: {"sensitivity": 1.0, "epsilon": 0.5, "delta": 1e-6, "d": 3},
    l2_delta: {"scale": 1.0, "epsilon": 0.5, "d": 3, "sensitivity": 1.0},
    laplace_scale: {"sensitivity": 1.0, "epsilon": 0.5},
}
NOT_REAL = [True, np.True_, "1", None, 1j, [1.0], np.array(0.3), np.array([0.3])]
NOT_ACCEPTED = [math.nan, math.inf, -math.inf, np.float32(math.inf), np.float64(math.nan), -0.1]
OUTSIDE = {
    "epsilon": [9.9e-7, 1000.1, 10**400, TINY],
    "delta": [0, 9e-301, 0.50001, 1],
    "sigma": [0, -0.0, np.float32(0), Fraction(1, 10**400), 10**400],
    "sensitivity": [0, -0.0, np.float32(0), Fraction(1, 10**400), 10**400],
    "scale": [0, -0.0, np.float32(0), Fraction(1, 10**400), 10**400],
    "d": [0, 5051, 2.0],
}
ACCEPTED = {
    "epsilon": r"1e-6 to (1e3|below 1)",
    "delta": "numbers from 1e-300 to 1/2",
    "sigma": "finite numbers above 0",
    "sensitivity": "finite numbers above 0",
    "scale": "finite numbers above 0",
    "d": "integers from 1 to 5050",
}


@pytest.mark.parametrize(("function", "name"), [
    (f, name) for f, arguments in CALLS.items() for name in arguments
])
def test_bad_input_is_named_with_its_value_and_what_is_accepted(function, name):
    for value in NOT_REAL + NOT_ACCEPTED + OUTSIDE[name]:
        message = f"^{name} is .*; accepted are .*{ACCEPTED[name]}"
        with pytest.raises(ValueError, match=message) as error:
            function(**CALLS[function] | {name: value})
        assert str(error.value).startswith(f"{name} is {value!r}; ")


@pytest.mark.parametrize("function", [
    sigma_classical, sigma_analytic, gdp_mu, gaussian_epsilon, l2_scale, laplace_scale,
])
def test_the_ends_of_the_ranges_are_accepted(function):
    top = math.nextafter(1.0, 0.0) if function is sigma_classical else 1e3
    for name, ends in {"epsilon": (1e-6, top), "delta": (1e-300, 0.5)}.items():
        for end in ends if name in CALLS[function] else ():
            assert 0 <= function(**CALLS[function] | {name: end}) < math.inf


@pytest.mark.parametrize("epsilon", [1, 1.0, 2.0, 1e3])
def test_the_classical_scale_refuses_epsilon_from_one_on(epsilon):
    message = f"^epsilon is {epsilon!r}; accepted are .* below 1, where Theorem 2.1"
    with pytest.raises(ValueError, match=message):
        sigma_classical(1.0, epsilon, 1e-6)


@pytest.mark.parametrize("scale", [
    sigma_classical, sigma_analytic, lambda *arguments: l2_scale(*arguments, 3),
    lambda sensitivity, epsilon, delta: laplace_scale(sensitivity, epsilon),
])
def test_a_scale_that_overflows_is_refused(scale):
    message = r"^sensitivity is 1e\+308; accepted are numbers below .*, for a finite scale"
    with pytest.raises(ValueError, match=message):
        scale(1e308, 1e-6, 1e-300)


def test_an_epsilon_that_overflows_is_refused():
    message = r"^sensitivity / sigma is .*e\+200; accepted are numbers below 1e154"
    with pytest.raises(ValueError, match=message):
        gaussian_epsilon(1e-200, 1e-6)


# noise of density exp(-|x|/s)

def spheres(loss, epsilon, d, panels=8):
    """delta of the l2 mechanism with sensitivity/s = loss, by integrating over spheres.

    They are spheres about both centres in turn. From the centre of the first law the event {L >
    epsilon} is R < c / (a + cos t), or all R where that is not positive, and from that of the
    second R > c / (-a - cos t), where R is a Gamma(d) radius, t the angle between x and the shift,
    a = epsilon / loss and c = (1 - a^2) loss / 2.
    """
    loss, epsilon = mp.mpf(loss), mp.mpf(epsilon)
    a = epsilon / loss
    c, turn = (1 - a * a) * loss / 2, mp.acos(-a)

    def mean(inside, start, end):
        points = mp.linspace(start, end, panels + 1)
        return mp.quad(lambda t: mp.sin(t) ** (d - 2) * inside(t), points, method="gauss-legendre")

    def below(t):
        return mp.gammainc(d, 0, c / (a + mp.cos(t)), regularized=True)

    def above(t):
        return mp.gammainc(d, c / (-a - mp.cos(t)), mp.inf, regularized=True)

    first = mean(below, 0, turn) + mean(lambda t: 1, turn, mp.pi)
    second = mean(above, turn, mp.pi)
    return (first - mp.exp(epsilon) * second) / mean(lambda t: 1, 0, mp.pi)


@pytest.mark.slow
@pytest.mark.parametrize(("d", "epsilon", "delta"), [
    (2, 1.0, 0.1), (3, 0.1, 0.3), (3, 1.0, 1e-3), (6, 0.5, 1e-6), (6, 5.0, 1e-4), (10, 2.0, 1e-2),
])
def test_the_l2_scale_is_safe_and_minimal_against_an_integral_over_spheres(d, epsilon, delta):
    with mp.workdps(25):
        s = mp.mpf(l2_scale(1.0, epsilon, delta, d))
        smaller = s * (1 - mp.mpf("1e-9"))
        assert spheres(1 / s, epsilon, d) <= delta < spheres(1 / smaller, epsilon, d)


def by_angle(loss, epsilon, d):
    """The same in elliptic coordinates, as the module has it, but in multiple precision."""
    loss, epsilon, v = mp.mpf(loss), mp.mpf(epsilon), mp.mpf(d) / 2 - 1
    alpha = loss / 2
    if loss <= epsilon:
        return mp.mpf(0)
    K = mp.besselk(v, alpha)
    r = (d - 1) * mp.besselk(v + 1, alpha) / (alpha * K)
    log_z = (mp.log(mp.pi) / 2 + v * mp.log(2 / alpha) + mp.loggamma(v + mp.mpf(1) / 2)
             + mp.log((d - 1) / (alpha**2 * K)))

    def density(phi):
        sine = mp.sin(phi)
        log_w = alpha * mp.cos(phi) + (d - 2) * mp.log(sine) - log_z
        return mp.exp(log_w) * (sine**2 + r) * -mp.expm1(epsilon - loss * mp.cos(phi))

    end = mp.acos(epsilon / loss)
    points = mp.linspace(0, end, 9)
    unit = max(map(density, points[1:-1]))  # mpmath stops where an error is small beside 1
    return unit * mp.quad(lambda phi: density(phi) / unit, points, method="gauss-legendre")


@pytest.mark.slow
@pytest.mark.parametrize(("d", "epsilon", "loss"), [(3, 0.5, 1.3), (6, 1.0, 4.0), (2, 0.1, 0.7)])
def test_the_two_integrals_agree(d, epsilon, loss):
    with mp.workdps(25):
        assert abs(by_angle(loss, epsilon, d) / spheres(loss, epsilon, d) - 1) < 1e-15
        assert abs(by_angle(loss, 0, d) / spheres(loss, 0, d) - 1) < 1e-15


@pytest.mark.slow
@pytest.mark.parametrize(("d", "epsilon"), [
    *((d, e) for d in (2, 3, 6, 55) for e in (1e-6, 0.5, 1e3)), (465, 1e-6), (465, 0.5),
])
@pytest.mark.parametrize("delta", [1e-300, 1e-30, 1e-6, 0.5])
def test_the_l2_scale_is_safe_and_minimal_at_the_corners(d, epsilon, delta):
    with mp.workdps(25):
        s = mp.mpf(l2_scale(1.0, epsilon, delta, d))
        smaller = s * (1 - mp.mpf("1e-9"))
        assert by_angle(1 / s, epsilon, d) <= delta < by_angle(1 / smaller, epsilon, d)


@pytest.mark.parametrize("d", mostly_slow([2, 3, 6, 55, 465], 2, 465))
@pytest.mark.parametrize("loss", mostly_slow([1e-6, 1e-3, 0.3, 2.0, 30.0], 1e-6, 0.3, 30.0))
def test_at_epsilon_zero_the_l2_delta_is_the_total_variation_distance(d, loss):
    with mp.workdps(25):
        exact = by_angle(loss, 0, d)
        assert exact <= l2_delta(1.0, 0, d, sensitivity=loss) <= exact * (1 + mp.mpf("1e-9"))
    assert l2_delta(1.0, 0, d, loss) >= l2_delta(1.0, 1e-6, d, loss)


@pytest.mark.parametrize("d", [1, 2, 3, 21, 465, 5050])
@pytest.mark.parametrize("epsilon", [1e-6, 1e-2, 1.0, 30.0, 1e3])
def test_the_law_of_the_l2_loss_has_total_mass_one(d, epsilon):
    largest = 4 * (epsilon + d) + 40  # the loss exceeds epsilon nearly always
    assert -0.06 < calibration._log_l2_delta(largest, epsilon, d) < SLACK / 2
    assert d < 6 or calibration._log_l2_delta(largest, epsilon, d) > -1e-3


@pytest.mark.slow
@pytest.mark.parametrize("d", [2, 3, 6, 55, 465, 5050])
@pytest.mark.parametrize("epsilon", [1e-6, 1e-2, 1.0, 30.0, 1e3])
def test_the_bound_of_the_quadrature_error_is_far_below_the_slack(d, epsilon, monkeypatch):
    def without(*arguments):
        return 0.0

    for delta in (1e-300, 1e-30, 1e-6, 0.5):
        excess = 1 / l2_scale(1.0, epsilon, delta, d) * (1 + 1e-9) - epsilon
        bounded = calibration._log_l2_delta(excess, epsilon, d)
        with monkeypatch.context() as patch:
            patch.setattr(calibration, "_l2_error", without)
            assert 0 <= bounded - calibration._log_l2_delta(excess, epsilon, d) < SLACK / 100


@pytest.mark.parametrize("d", mostly_slow([1, 2, 3, 6, 21, 465], 1, 6))
@pytest.mark.parametrize("delta", [1e-300, 1e-12, 1e-6, 1e-2, 0.5])
def test_the_l2_scale_and_delta_are_inverse_and_never_worse_than_the_pure_scale(d, delta):
    for epsilon in EPSILONS:
        s = l2_scale(1.0, epsilon, delta, d)
        assert s <= (1 + 3e-15) / epsilon
        assert l2_delta(s, epsilon, d) <= delta < l2_delta(s * (1 - 1e-9), epsilon, d)


def test_in_one_dimension_delta_is_that_of_laplace():
    for loss, epsilon in (2.0, 0.5), (1.0, 0.999), (0.01, 1e-6):
        exact = 1 - mp.exp((mp.mpf(epsilon) - mp.mpf(loss)) / 2)
        assert exact <= l2_delta(1.0, epsilon, 1, sensitivity=loss) <= exact * (1 + mp.mpf("1e-9"))


def test_a_loss_that_never_exceeds_epsilon_costs_no_delta():
    assert l2_delta(1.0, 1.0, 3, sensitivity=1 - 1e-15) == 0
    assert l2_delta(1.0, 1.0, 3, sensitivity=1 + 1e-15) > 0


def test_a_smaller_shift_costs_less():
    costs = [l2_delta(1.0, 0.3, 6, sensitivity=shift) for shift in (0.31, 0.5, 1, 2, 4, 8)]
    assert costs == sorted(costs) and costs[0] < costs[-1]


def test_a_loss_beyond_the_range_is_refused():
    message = r"^sensitivity / scale is .*e\+200; accepted are numbers up to 1e5"
    with pytest.raises(ValueError, match=message):
        l2_delta(1e-200, 1.0, 3)
