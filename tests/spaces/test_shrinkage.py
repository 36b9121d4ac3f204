"""Shrinking a Gaussian release towards the public centre: what it does, and what it saves."""

import math
import warnings

import mpmath as mp
import numpy as np
import pytest
from conftest import mostly_slow, pieces
from tables import private

from spdlib import (Ball, L2Mechanism, PrivateFrechetMean, RiemannianLaplace, Sphere,
                    TangentGaussian, expected_error, expm, invvecd, random_spd)
from spdlib.mechanisms import DiscreteGaussian
from spdlib.planning import worst_error
from spdlib.spaces.ball import project_to_ball, shrink_to_center

GAUSSIAN = TangentGaussian(1.0, 1.0, 1e-6)
SIGMA = GAUSSIAN.sigma
PLACES = [0.0, 0.3, 1.0, 3.0, 10.0]  # of the mean, in units of sigma


# the map

@pytest.mark.parametrize("d", [3, 6, 45])
def test_a_release_is_multiplied_by_the_positive_part_of_james_and_stein(d):
    y = np.random.default_rng(d).standard_normal((200, d)) * np.geomspace(0.1, 30, 200)[:, None]
    exact = np.maximum(0, 1 - (d - 2) * 0.7**2 / (y**2).sum(axis=1))[:, None] * y
    assert (exact == 0).all(axis=1).any() and (exact != 0).all(axis=1).any()
    np.testing.assert_allclose(shrink_to_center(y, 0.7), exact, rtol=1e-12, atol=1e-15)
    batch = y.reshape(10, 20, d)
    assert np.array_equal(shrink_to_center(batch, 0.7), shrink_to_center(y, 0.7).reshape(10, 20, d))


@pytest.mark.parametrize("size", [0.0, 5e-324, 1e-200, 1.0, 1e200, 1e308])
@pytest.mark.parametrize("sigma", [5e-324, 1e-200, 1.0, 1e200, 1.7e308])
def test_no_size_of_release_or_of_noise_overflows(size, sigma):
    y = np.full(5, size)
    with warnings.catch_warnings():
        warnings.simplefilter("error")
        shrunk = shrink_to_center(y, sigma)
    ratio = mp.mpf(sigma) / mp.mpf(size) if size else mp.inf
    assert np.allclose(shrunk, float(max(0, 1 - 3 * ratio**2 / 5)) * y, rtol=1e-14, atol=0)


@pytest.mark.parametrize(("y", "sigma", "message"), [
    (np.ones(2), 1.0, r"y has shape \(2,\); accepted is \(\.\.\., d\) with d from 3 on"),
    (np.ones((7, 1)), 1.0, r"y has shape \(7, 1\)"),
    (3.0, 1.0, r"y has shape \(\)"),
    (np.ones(3), 0, "sigma is 0; accepted are finite numbers above 0"),
    ([1, math.nan, 1], 1.0, r"y\[1\] is nan; accepted are finite numbers"),
])
def test_what_cannot_be_shrunk_is_refused(y, sigma, message):
    with pytest.raises(ValueError, match=f"^{message}"):
        shrink_to_center(y, sigma)


# its risk

def poisson(a):
    """Weights of the mixture of central laws of chi square that is the non-central one."""
    rate = mp.mpf(a) ** 2 / 2
    return [mp.exp(-rate) * rate**j / mp.factorial(j) for j in range(int(rate + 12 * a) + 60)]


def inverse_moment(d, a, power=1):
    """E ‖y‖^(-2 power) for y normal about a point at the distance a, with σ = 1."""
    return sum(w / mp.fprod(d + 2 * j - 2 * i - 2 for i in range(power))
               for j, w in enumerate(poisson(a)))


def risk_without_positive_part(d, a):
    """d − (d−2)² E ‖y‖⁻², in units of σ²."""
    return d - (d - 2) ** 2 * inverse_moment(d, a)


def risk(d, a):
    """The exact mean square in units of σ²: what the positive part takes off the risk above.

    It is E[(1−t)² ‖y‖² − 2 (1−t) y·m; t > 1] with t = (d−2)/‖y‖². Given j of the Poisson law, ‖y‖²
    has the law of chi square with d + 2j degrees of freedom, and the mean of y·m is 2j.
    """
    c, saved = mp.mpf(d - 2), mp.mpf(0)
    for j, weight in enumerate(poisson(a)):
        def below(power, degrees=d + 2 * j):  # E[q^power; q < c] for q of that law
            half = mp.mpf(degrees) / 2
            return (2**power * mp.gammainc(half + power, 0, c / 2) / mp.gamma(half))

        square = below(1) - 2 * c * below(0) + c**2 * below(-1)
        saved += weight * (square - 2 * 2 * j * (below(0) - c * below(-1)))
    return risk_without_positive_part(d, a) - saved


@pytest.mark.parametrize("d", mostly_slow([3, 6, 45], 3))
@pytest.mark.parametrize("a", mostly_slow(PLACES, 0.0, 1.0, 3.0))
def test_the_mean_square_is_that_of_the_series(d, a):
    value = expected_error(GAUSSIAN, d, at=a * SIGMA, power=2, shrink=True) / SIGMA**2
    assert abs(value / risk(d, a) - 1) < 1e-10


@pytest.mark.parametrize("d", [3, 4, 6, 45, 465])
def test_the_risk_is_below_that_without_the_positive_part_which_is_below_that_of_the_noise(d):
    for a in PLACES:
        value = expected_error(GAUSSIAN, d, at=a * SIGMA, power=2, shrink=True) / SIGMA**2
        plain = float(risk_without_positive_part(d, a))
        assert value <= plain * (1 + 1e-12) and plain < d * (1 - 1e-3)
        if a <= 1:
            assert value < 0.99 * plain


def test_with_d_for_d_minus_2_nothing_is_saved_in_3_and_4_dimensions():
    for d in (3, 4):  # d − (2 (d−2) c − c²) E ‖y‖⁻² at c = d
        assert all(d - (2 * (d - 2) * d - d**2) * inverse_moment(d, a) >= d for a in PLACES)


@pytest.mark.slow
@pytest.mark.parametrize(("d", "radius", "place"), [
    (3, None, 2.0), (6, None, 0.0), (45, None, 6.0), (3, 0.7, 0.7), (6, 3.0, 1.0), (45, 5.0, 4.0),
    (45, 30.0, 12.0),
])
def test_it_is_the_mean_of_draws_that_are_shrunk_and_projected(d, radius, place):
    size, rng = 20_000, np.random.default_rng(d)
    m = place * SIGMA * np.eye(d)[0]
    released = shrink_to_center(GAUSSIAN.perturb(m, rng, size), SIGMA)
    if radius is not None:
        radius *= SIGMA
        released = project_to_ball(released, radius)
    errors = np.linalg.norm(released - m, axis=1)
    for power in (1, 2):
        exact = expected_error(GAUSSIAN, d, radius, place * SIGMA, power, shrink=True)
        spread = (errors**power).std() / math.sqrt(size)
        assert abs(np.mean(errors**power) - exact) < 6 * spread


@pytest.mark.slow
@pytest.mark.parametrize(("d", "radius", "a"), [
    (3, 1.5, 0.8), (4, 2.5, 2.5), (6, 9.0, 2.0), (6, None, 1.0), (45, 7.0, 7.0), (45, 5.0, 0.5),
])
def test_it_errs_by_the_integral_over_the_length_and_the_angle_of_the_noise(d, radius, a):
    c, r = d - 2, math.inf if radius is None else radius
    kinks = [math.sqrt(c)] + ([] if radius is None else [(r + math.sqrt(r * r + 4 * c)) / 2])
    law = TangentGaussian(1.0, 1.0, 1e-6).error(d)
    low, high = law.ppf(1e-16) / SIGMA, law.isf(1e-16) / SIGMA
    cuts = {abs(q - a) for q in kinks} | {q + a for q in kinks}
    cuts |= {math.sqrt(abs(q * q - a * a)) for q in kinks}
    lengths, at_lengths = pieces(sorted({low, high, *(x for x in cuts if low < x < high)}))
    means = []
    for R in lengths:
        turns = {math.acos(max(-1, min(1, (q * q - a * a - R * R) / (2 * a * R)))) for q in kinks}
        t, weights = pieces(sorted({0.0, math.pi / 2, math.pi} | turns))
        weights = weights * np.sin(t) ** (d - 2)
        along, across = a + R * np.cos(t), R * np.sin(t)
        rho = np.hypot(along, across)
        factor = np.minimum(np.maximum(1 - c / rho**2, 0), r / rho)
        error = np.hypot(factor * along - a, factor * across)
        means.append([weights @ error**power / weights.sum() for power in (1, 2)])
    exact = (at_lengths * law.pdf(lengths * SIGMA) * SIGMA) @ np.array(means)
    ball = None if radius is None else radius * SIGMA
    for power in (1, 2):
        value = expected_error(GAUSSIAN, d, ball, a * SIGMA, power, shrink=True)
        assert value / SIGMA**power == pytest.approx(exact[power - 1], rel=1e-9)


@pytest.mark.parametrize("d", [3, 45, 5050])
def test_far_from_the_centre_nothing_is_saved_and_in_a_small_ball_what_the_ball_saves(d):
    bare = expected_error(GAUSSIAN, d, power=2)
    for a in (1e9, 1e300):
        assert expected_error(GAUSSIAN, d, at=a, power=2, shrink=True) == pytest.approx(bare)
    tiny = [expected_error(GAUSSIAN, d, 1e-200, place * 1e-200, shrink=True) for place in (0, 1)]
    share = tiny[0] / 1e-200  # that of releases which are not moved to the centre itself
    assert 0.5 < share < 0.85
    assert 1 < tiny[1] / 1e-200 < math.sqrt(2)


def ratio(d, share, place):
    """Mean square of shrunk and projected releases over that of projected ones.

    In a ball whose radius is this share of the noise, √d σ, with the mean at this share of it.
    """
    radius = share * math.sqrt(d) * SIGMA
    given = GAUSSIAN, d, radius, place * radius, 2
    return expected_error(*given, shrink=True) / expected_error(*given)


@pytest.mark.slow
@pytest.mark.parametrize("d", [3, 6, 45, 465])
def test_where_the_noise_drowns_the_ball_shrinking_before_the_projection_saves_everywhere(d):
    for share in (0.1, 0.5, 0.9):
        assert max(ratio(d, share, place) for place in (0, 0.5, 0.9, 1)) < 0.98


@pytest.mark.slow
@pytest.mark.parametrize(("d", "most"), [(3, 1.08), (6, 1.065), (45, 1.01), (465, 1.001)])
def test_at_the_sphere_of_a_larger_ball_it_costs_a_little(d, most):
    at_sphere = max(ratio(d, share, 1) for share in np.geomspace(0.5, 60, 25))
    assert 1 + (most - 1) / 2 < at_sphere < most
    assert max(ratio(d, share, 0.5) for share in np.geomspace(0.5, 60, 9)) < 1


@pytest.mark.slow
def test_the_worst_place_of_a_shrunk_release_is_looked_for_with_its_own_error():
    radius = 3 * SIGMA
    errors = [expected_error(GAUSSIAN, 6, radius, share * radius, shrink=True)
              for share in np.linspace(0, 1, 9)]
    assert max(errors) * (1 - 1e-9) <= worst_error(GAUSSIAN, 6, radius, shrink=True) \
        <= max(errors) * (1 + 1e-3)


def test_a_single_release_may_be_further_away_after_it():
    m, y = np.array([3.0, 0, 0]), np.array([2.0, 0, 0])
    assert np.linalg.norm(shrink_to_center(y, 1.0) - m) == 1.5 > np.linalg.norm(y - m)


@pytest.mark.parametrize(("arguments", "message"), [
    ({"mechanism": RiemannianLaplace(1.0, 1.0)}, "mechanism is RiemannianLaplace.*; accepted with "
     "shrink are those whose noise is Gaussian"),
    ({"mechanism": L2Mechanism(1.0, 1.0, 1e-6, 6)}, "mechanism is L2Mechanism"),
    ({"d": 2}, "d is 2; accepted are integers from 3 to 5050"),
    ({"at": -1}, "at is -1; accepted are finite numbers from 0 on"),
    ({"radius": 1.0, "at": 2.0}, "at is 2.0; accepted are numbers from 0 to 1.0, the radius"),
    ({"shrink": 1}, "shrink is 1; accepted are True and False"),
])
def test_an_error_that_is_not_known_is_refused(arguments, message):
    with pytest.raises(ValueError, match=f"^{message}"):
        expected_error(**{"mechanism": GAUSSIAN, "d": 6, "shrink": True} | arguments)


# the estimator

@pytest.mark.parametrize("mechanism", ["gaussian", "classical gaussian"])
@pytest.mark.parametrize("epsilon", [0.01, 0.9])
def test_the_estimator_shrinks_what_it_drew_and_then_projects_it(mechanism, epsilon):
    X = random_spd(30, 3, 2.0, 0)
    ball = Ball(1.5, expm(invvecd(np.arange(6) / 10)))
    center = ball.space.coordinates(ball.center)
    released = PrivateFrechetMean(epsilon, 1e-6, ball, mechanism, shrink=True).fit(X, rng=5)
    query_step = PrivateFrechetMean(1e3, 1e-6, ball).fit(X, rng=5)
    noise = released.mechanism_.sigma * np.random.default_rng(5).standard_normal(6)
    step = (query_step.log_mean_ - center
            - query_step.mechanism_.sigma * np.random.default_rng(5).standard_normal(6))
    wanted = project_to_ball(shrink_to_center(step + noise, released.mechanism_.sigma), 1.5)
    np.testing.assert_allclose(released.log_mean_ - center, wanted, atol=1e-12)
    plain = PrivateFrechetMean(epsilon, 1e-6, ball, mechanism).fit(X, rng=5)
    assert np.linalg.norm(wanted) < np.linalg.norm(plain.log_mean_ - center)


def test_a_mean_in_the_chart_of_a_curved_space_can_be_shrunk():
    ball = Ball(0.5, np.eye(4)[0], Sphere(3))
    X = ball.space.exp(ball.center, np.random.default_rng(0).normal(0, 0.1, (50, 3)))
    shrunk, plain = (private(ball, statistic="tangent", shrink=shrink).fit(X, rng=0).mean_
                     for shrink in (True, False))
    assert ball.space.dist(shrunk, ball.center) < ball.space.dist(plain, ball.center)


NOT_GAUSSIAN = "shrink is True; accepted is False with '.*', whose noise is not Gaussian"


@pytest.mark.parametrize(("options", "message"), [
    ({"shrink": 1}, "shrink is 1; accepted are True and False"),
    ({"shrink": None}, "shrink is None; accepted are True and False"),
    ({"mechanism": "l2"}, NOT_GAUSSIAN), ({"mechanism": "laplace", "delta": 0}, NOT_GAUSSIAN),
    ({"mechanism": "k-norm gradient", "delta": 0}, NOT_GAUSSIAN),
])
def test_what_is_not_to_be_shrunk_is_refused_before_a_record_is_looked_at(options, message):
    bad = np.full((5, 3, 3), np.nan)  # as a record it would be refused by name
    ball = Ball(1.0, np.eye(3))
    given = {"epsilon": 0.5, "delta": 1e-6, "ball": ball, "shrink": True} | options
    with pytest.raises(ValueError, match=f"^{message}"):
        PrivateFrechetMean(**given).fit(bad)


@pytest.mark.parametrize("ball", [
    Ball(1.0, np.eye(1)), Ball(1.0, np.eye(3)[0], Sphere(2)), Ball(1.0, np.eye(4)[0], Sphere(3)),
])
def test_a_space_on_which_shrinking_is_not_known_to_be_better_is_refused(ball):
    bad = np.full((5, *ball.space.shape), np.nan)
    with pytest.raises(ValueError, match="^shrink is True; accepted is False on .*only in flat"):
        private(ball, shrink=True).fit(bad)


def test_exact_noise_is_shrunk_by_its_own_scale(monkeypatch):
    drawn = np.array([0.9, -0.4, 0.1, 0.3, 0.0, 0.2])
    monkeypatch.setattr(DiscreteGaussian, "prepared", lambda self, query: lambda rng: drawn)
    shrunk = private(Ball(2.0, np.eye(3)), "discrete gaussian", 0.5, shrink=True)
    released = shrunk.fit(random_spd(150, 3, 1.0, 0))
    sigma = released.mechanism_.sigma
    wanted = drawn * (1 - 4 * sigma**2 / (drawn @ drawn))
    assert 0 < np.linalg.norm(wanted) < 0.95 * np.linalg.norm(drawn)
    np.testing.assert_allclose(released.log_mean_, wanted, rtol=1e-12)


def test_exact_noise_errs_as_that_in_real_numbers():
    exact = DiscreteGaussian(1.0, 50, 0.5, 1e-6)
    real = TangentGaussian(exact.sensitivity, 0.5, 1e-6)
    errors = [expected_error(made, 6, 1.0, 0.4, shrink=True) for made in (exact, real)]
    assert errors[0] == pytest.approx(errors[1], rel=1e-9)
