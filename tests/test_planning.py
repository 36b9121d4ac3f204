"""The expected error of a release, against multiple precision, draws and closed forms."""

import math
from types import SimpleNamespace

import mpmath as mp
import numpy as np
import pytest
from conftest import mostly_slow, pieces
from mechanism_table import MEANS, NOISES, noise
from scipy.stats import chi, gamma

from spdlib import (Ball, DiscreteGaussian, FrechetMean, LogEuclidean, PrivateFrechetMean,
                    TangentGaussian, expected_error, expm, invvecd, plan, printed as paper,
                    random_spd, records_needed)
from spdlib.mechanisms.refined import ROUNDS, Refined
from spdlib.planning import _mean, worst_error, worth_refining
from spdlib.queries import frechet_sensitivity
from spdlib.spaces.ball import project_to_ball

GAUSSIAN, LAPLACE = (noise(name, 1.0, 1.0, 1e-6) for name in ("gaussian", "laplace"))
DIMENSIONS = [1, 2, 3, 6, 36, 465, 5050]


def mechanisms(d):
    return [GAUSSIAN, noise("classical gaussian", 1.0, 0.5, 1e-6), LAPLACE,
            noise("l2", 1.0, 1.0, 1e-6, d)]


def scale(mechanism):
    return mechanism.sigma if isinstance(mechanism, TangentGaussian) else mechanism.scale


def length(mechanism, d):
    """Density of the length of the noise in R^d, as written, in multiple precision."""
    s = mp.mpf(scale(mechanism))
    if isinstance(mechanism, TangentGaussian):
        return lambda R: (2 * mp.exp((d - 1) * mp.log(R / s) - (R / s) ** 2 / 2 - mp.loggamma(
            mp.mpf(d) / 2) - d * mp.log(2) / 2) / s)
    return lambda R: mp.exp((d - 1) * mp.log(R / s) - R / s - mp.loggamma(d)) / s


# bare noise

@pytest.mark.parametrize("d", DIMENSIONS)
def test_bare_noise_has_the_moments_of_chi_and_of_gamma(d):
    for mechanism in mechanisms(d):
        s = mp.mpf(scale(mechanism))
        if isinstance(mechanism, TangentGaussian):
            mean = s * mp.sqrt(2) * mp.gammaprod([mp.mpf(d + 1) / 2], [mp.mpf(d) / 2])
            square, rival = d * s**2, s * mp.sqrt(d)
        else:
            mean, square, rival = d * s, d * (d + 1) * s**2, s * mp.sqrt(d * (d + 1))
        assert abs(expected_error(mechanism, d) / mean - 1) < 1e-11
        assert abs(expected_error(mechanism, d, power=2) / square - 1) < 1e-11
        assert abs(rival / mean - 1) > 1e-5  # the root of the mean square is no mean


@pytest.mark.parametrize("d", DIMENSIONS)
def test_the_papers_formulas_are_met(d):
    sigma, s = GAUSSIAN.sigma, LAPLACE.scale
    assert expected_error(GAUSSIAN, d) == pytest.approx(paper.gaussian_mean_distance(d, sigma))
    assert expected_error(LAPLACE, d, power=2) == pytest.approx(paper.laplace_mean_square(d, s))


@pytest.mark.parametrize("d", mostly_slow(DIMENSIONS, 1, 2, 6, 465))
@pytest.mark.parametrize("q", [1e-9, 0.05, 0.5, 0.95, 1 - 1e-9])
def test_the_law_of_the_error_has_its_quantiles(d, q):
    for mechanism in mechanisms(d):
        x = mp.mpf(mechanism.error(d).ppf(q)) / scale(mechanism)
        gaussian = isinstance(mechanism, TangentGaussian)
        shape, end = (mp.mpf(d) / 2, x * x / 2) if gaussian else (d, x)
        assert abs(mp.gammainc(shape, 0, end, regularized=True) / q - 1) < 1e-11


# projected releases

def at_the_centre(mechanism, d, radius, power):
    """E min(R, r)^p in closed form: the incomplete moments are those of dimension d + p."""
    law = mechanism.error(d)
    next_law = chi if isinstance(mechanism, TangentGaussian) else gamma
    inside = law.moment(power) * next_law(d + power, scale=scale(mechanism)).cdf(radius)
    return inside + radius**power * law.sf(radius)


@pytest.mark.slow
@pytest.mark.parametrize("d", DIMENSIONS)
@pytest.mark.parametrize("share", [1e-9, 1e-3, 0.3, 0.9, 1.0, 1.1, 3.0, 1e3, 1e9])
@pytest.mark.parametrize("power", [1, 2])
def test_at_the_centre_it_is_the_mean_of_the_smaller_of_noise_and_radius(d, share, power):
    for mechanism in mechanisms(d):
        radius = share * mechanism.error(d).mean()
        exact = at_the_centre(mechanism, d, radius, power)
        assert expected_error(mechanism, d, radius, 0, power) == pytest.approx(exact, rel=2e-11)
        near = expected_error(mechanism, d, radius, 1e-10 * radius, power)
        assert near == pytest.approx(exact, rel=1e-9)


@pytest.mark.slow
@pytest.mark.parametrize("mechanism", [GAUSSIAN, LAPLACE], ids=["gaussian", "laplace"])
@pytest.mark.parametrize("share", [1e-3, 0.7, 4.0])
@pytest.mark.parametrize("place", [0.2, 1.0])
def test_on_the_line_it_is_an_integral_over_both_sides(mechanism, share, place):
    radius, density = share * scale(mechanism), length(mechanism, 1)
    near, far = mp.mpf(radius) * (1 - mp.mpf(place)), mp.mpf(radius) * (1 + mp.mpf(place))
    points = [0, near, far, far + 5 * scale(mechanism), far + 60 * scale(mechanism)]
    exact = mp.quad(lambda R: density(R) * (min(R, near) + min(R, far)) / 2, points)
    value = expected_error(mechanism, 1, radius, place * radius)
    assert abs(value / exact - 1) < 1e-9


def landing(a, r, R, t):
    """How far from m a release with noise of length R and angle t lands, from its two coordinates.

    For one place in multiple precision or for many in float64.
    """
    cos, sin, root, least = (
        (np.cos, np.sin, np.sqrt, np.minimum) if isinstance(t, np.ndarray)
        else (mp.cos, mp.sin, mp.sqrt, min))
    along, across = a + R * cos(t), R * sin(t)
    shrink = least(1, r / root(along**2 + across**2))
    return root((shrink * along - a) ** 2 + (shrink * across) ** 2)


def edge(a, r, R):
    """The angle at which noise of length R ends on the sphere, or the nearest one."""
    return math.acos(max(-1, min(1, (r * r - a * a - R * R) / (2 * a * R))))


@pytest.mark.slow
@pytest.mark.parametrize(("mechanism", "share", "place"), [
    (GAUSSIAN, 0.7, 0.3), (LAPLACE, 1.0, 0.97),
])
def test_a_projected_release_in_three_dimensions_errs_as_in_multiple_precision(
        mechanism, share, place):
    density, radius = length(mechanism, 3), share * mechanism.error(3).mean()
    a, high = place * radius, mechanism.error(3).isf(1e-14)
    cuts = 0, radius - a, math.sqrt(radius**2 - a**2), radius + a, mechanism.error(3).mean()
    ends = sorted({x for x in cuts if x < high} | {high})

    def mean(R):
        turns = [0, edge(a, radius, R), mp.pi]
        return mp.quad(lambda t: mp.sin(t) * landing(a, radius, R, t), turns, maxdegree=4) / 2

    with mp.workdps(15):
        exact = mp.quad(lambda R: density(R) * mean(R), ends, maxdegree=4)
    assert abs(expected_error(mechanism, 3, radius, a) / exact - 1) < 1e-9


@pytest.mark.slow
@pytest.mark.parametrize("d", [2, 3, 6, 36, 465, 5050])
@pytest.mark.parametrize("share", [0.5, 1.0, 1.5])
@pytest.mark.parametrize("place", [0.1, 0.9, 1.0])
@pytest.mark.parametrize("power", [1, 2])
def test_a_projected_release_errs_by_the_integral_over_length_and_angle(d, share, place, power):
    for mechanism in (GAUSSIAN, LAPLACE):
        law = mechanism.error(d)
        radius = share * law.mean()
        a, low, high = place * radius, law.ppf(1e-16), law.isf(1e-16)
        cuts = (1 - place) * radius, math.sqrt(1 - place**2) * radius, (1 + place) * radius
        R, at_R = pieces(sorted({low, law.mean(), high, *(x for x in cuts if low < x < high)}))
        first, last = max(0, math.pi / 2 - 9 / d**0.5), min(math.pi, math.pi / 2 + 9 / d**0.5)
        means = []
        for one in R:
            turn = min(max(edge(a, radius, one), first), last)
            t, at_t = pieces(sorted({first, turn, last}))
            weights = at_t * np.sin(t) ** (d - 2)
            means.append(weights @ landing(a, radius, one, t) ** power / weights.sum())
        exact = (at_R * law.pdf(R)) @ means
        value = expected_error(mechanism, d, radius, a, power)
        assert value == pytest.approx(exact, rel=1e-9)


@pytest.mark.parametrize("d", [6, 36])
def test_near_misses_are_told_apart(d):
    for mechanism in (GAUSSIAN, LAPLACE):
        bare = expected_error(mechanism, d)
        error = expected_error(mechanism, d, bare, 0.6 * bare)
        rivals = {
            "at the centre": expected_error(mechanism, d, bare),
            "the smaller of bare error and radius": bare,
            "d − 1": expected_error(mechanism, d - 1, bare, 0.6 * bare),
            "half the ball": expected_error(mechanism, d, bare / 2, 0.3 * bare),
            "the root of the mean square": math.sqrt(
                expected_error(mechanism, d, bare, 0.6 * bare, 2)),
        }
        for rival in rivals.values():
            assert abs(rival / error - 1) > 1e-3


@pytest.mark.slow
@pytest.mark.parametrize("d", [1, 2, 6, 36])
@pytest.mark.parametrize("share", [0.2, 1.0, 5.0])
def test_it_is_the_mean_of_draws_that_are_projected(d, share):
    # By Hoeffding, errors lie in [0, 2r], and squares in [0, 4r²]: level 1e-9 each.
    size, rng = 20_000, np.random.default_rng(d)
    within = math.sqrt(math.log(2e9) / (2 * size))
    for mechanism in mechanisms(d):
        radius = share * mechanism.error(d).mean()
        for place in (0.0, 0.6, 1.0):
            m = place * radius * np.eye(d)[0]
            released = project_to_ball(mechanism.perturb(m, rng, size), radius)
            errors = np.linalg.norm(released - m, axis=1)
            for power in (1, 2):
                exact = expected_error(mechanism, d, radius, place * radius, power)
                assert abs(np.mean(errors**power) - exact) < within * (2 * radius) ** power


@pytest.mark.slow
@pytest.mark.parametrize("d", DIMENSIONS)
@pytest.mark.parametrize("place", [0.0, 0.3, 1.0])
def test_a_projected_release_never_errs_more_than_a_bare_one_or_than_the_ball_allows(d, place):
    for mechanism in mechanisms(d):
        bare = expected_error(mechanism, d)
        for share in (1e-6, 0.1, 1.0, 2.0, 1e6):
            radius = share * bare
            error = expected_error(mechanism, d, radius, place * radius)
            assert error <= min(bare, (1 + place) * radius) * (1 + 1e-10)


@pytest.mark.parametrize("d", mostly_slow(DIMENSIONS, 1, 6, 465))
def test_far_from_the_sphere_nothing_is_saved_and_on_a_flat_one_half(d):
    for mechanism in mechanisms(d):
        bare = expected_error(mechanism, d, power=2)
        radius = 1e7 * math.sqrt(bare)
        for place in (0.0, 0.5, 0.999):
            assert expected_error(mechanism, d, radius, place * radius, 2) == pytest.approx(bare)
        # one coordinate of d is lost, on one side
        edge = expected_error(mechanism, d, radius, radius, 2)
        assert edge == pytest.approx(bare * (1 - 1 / (2 * d)), rel=1e-6)


@pytest.mark.parametrize("d", mostly_slow([2, 36, 5050], 2, 36))
def test_noise_much_larger_than_the_ball_leaves_a_point_of_the_sphere_at_random(d):
    for mechanism in mechanisms(d):
        radius = 1e-7 * mechanism.error(d).mean()
        for place in (0.0, 0.5, 1.0):
            square = expected_error(mechanism, d, radius, place * radius, 2)
            assert square == pytest.approx(radius**2 * (1 + place**2), rel=1e-5)


@pytest.mark.parametrize("d", mostly_slow([1, 6, 5050], 1, 6))
@pytest.mark.parametrize("radius", [1e-200, 5e-324])
def test_noise_that_outgrows_the_ball_by_any_factor_leaves_a_number(d, radius):
    for mechanism in mechanisms(d):
        for place in (0.0, 1.0):
            error = expected_error(mechanism, d, radius, place * radius)
            assert radius * (1 - 1e-9) <= error <= 2 * radius
            assert expected_error(mechanism, d, radius, place * radius, 2) == 0  # no smaller float


@pytest.mark.slow
@pytest.mark.parametrize("d", [1, 6, 465])
@pytest.mark.parametrize("share", [0.01, 0.5, 1.0, 1.5, 4.0])
def test_no_place_in_the_ball_is_worse_than_the_worst(d, share):
    for mechanism in mechanisms(d):
        radius = share * mechanism.error(d).mean()
        worst = worst_error(mechanism, d, radius)
        errors = [expected_error(mechanism, d, radius, place * radius)
                  for place in np.linspace(0, 1, 41)]
        assert max(errors) <= worst * (1 + 1e-6)
        assert worst <= expected_error(mechanism, d) * (1 + 1e-10)


@pytest.mark.parametrize(("arguments", "message"), [
    ((GAUSSIAN, 0), "d is 0; accepted are integers from 1 to 5050"),
    ((GAUSSIAN, 5051), "d is 5051"),
    ((noise("l2", d=3), 6), "d is 6; accepted is 3, the mechanism's own"),
    ((GAUSSIAN, 3, 0), "radius is 0; accepted are finite numbers above 0"),
    ((GAUSSIAN, 3, 1.0, 1.1), r"at is 1.1; accepted are numbers from 0 to 1.0, the radius"),
    ((GAUSSIAN, 3, None, 0.5), "at is 0.5; accepted are 0 without a radius"),
    ((GAUSSIAN, 3, 1.0, 0, 3), "power is 3; accepted are integers from 1 to 2"),
])
def test_a_question_that_is_none_is_refused(arguments, message):
    with pytest.raises(ValueError, match=f"^{message}"):
        expected_error(*arguments)


# the plan

@pytest.mark.slow
@pytest.mark.parametrize("epsilon", [0.5, 1.0])
def test_the_plan_is_that_of_the_mechanisms_of_the_query(epsilon):
    k, n, radius, delta = 3, 20, 1.5, 1e-5
    query = FrechetMean(random_spd(n, k, 0.2, 0), Ball(radius, np.eye(k)))
    rows = {row.mechanism: row for row in plan(query.ball, n, epsilon, delta)}
    assert set(NOISES) - set(rows) == ({"classical gaussian"} if epsilon >= 1 else set())
    for name, row in rows.items():
        promised = MEANS[name].delta(delta)
        mechanism = MEANS[name].kind.of(query, epsilon, promised)
        assert (row.delta, row.scale) == (promised, scale(mechanism))
        assert row.bare == expected_error(mechanism, query.space.dim)
        assert mechanism.error(6).cdf(row.quantile) == pytest.approx(0.95)
        assert row.centre == expected_error(mechanism, 6, radius)
        assert row.worst == worst_error(mechanism, 6, radius)
        if isinstance(mechanism, TangentGaussian):
            assert row.shrunk_centre == expected_error(mechanism, 6, radius, shrink=True)
            assert row.shrunk_worst == worst_error(mechanism, 6, radius, shrink=True)
        else:
            assert (row.shrunk_centre, row.shrunk_worst) == (None, None)


@pytest.mark.slow
@pytest.mark.parametrize("k, n", [(1, 1), (1, 10**9), (100, 1), (100, 10**6)])
def test_the_plan_knows_all_sizes_and_numbers(k, n):
    for row in plan(Ball(2.0, np.eye(k)), n, 0.5, 1e-6):
        shrunk = row[7:]
        assert (None in shrunk) == (k == 1 or row.mechanism in ("l2", "laplace"))
        assert all(0 < value < math.inf for value in row[2:] if value is not None)
        assert row.worst <= min(row.bare, 4.0) * (1 + 1e-10)


@pytest.mark.parametrize("mechanism", NOISES)
@pytest.mark.parametrize("wanted", [1e9, 3.7, 0.05, 1e-5])
def test_it_takes_no_fewer_records(mechanism, wanted):
    k, radius, epsilon = 2, 2.0, 0.5
    delta = MEANS[mechanism].delta(1e-6)
    n = records_needed(Ball(radius, np.eye(k)), epsilon, delta, wanted, mechanism)

    def error(n):
        sensitivity = frechet_sensitivity(n, radius)
        query = SimpleNamespace(space=LogEuclidean(k), sensitivity=sensitivity,
                                chart_sensitivity=sensitivity)
        return expected_error(MEANS[mechanism].kind.of(query, epsilon, delta), query.space.dim)

    assert error(n) <= wanted and (n == 1 or error(n - 1) > wanted)
    assert wanted < 1e9 or n == 1


def test_exact_noise_takes_as_many_records():
    ball = Ball(2.0, np.eye(3))
    n = records_needed(ball, 1.0, 1e-6, 0.05, "discrete gaussian")
    assert n == records_needed(ball, 1.0, 1e-6, 0.05)
    first, second = (expected_error(DiscreteGaussian(2.0, people, 1.0, 1e-6), 6)
                     for people in (n - 1, n))
    assert second <= 0.05 * (1 + 1e-12) < first


def test_a_plan_has_a_row_of_its_name_for_exact_noise():
    exact, gaussian = plan(Ball(1.0, np.eye(1)), 40, 1.0, 1e-6, ["discrete gaussian", "gaussian"])
    assert exact == gaussian._replace(mechanism="discrete gaussian")


def test_the_rounding_of_the_sensitivity_is_paid_for():
    n = records_needed(Ball(1.0, np.eye(1)), 1.0, 0, 2e-9, "laplace")
    assert n > 10**9  # which it would be if nothing were rounded up
    assert frechet_sensitivity(n, 1.0) <= 2e-9 < frechet_sensitivity(n - 1, 1.0)


@pytest.mark.parametrize("wanted, message", [
    (0, "wanted is 0; accepted are finite numbers above 0"),
    (1e-13, "wanted is 1e-13; accepted are numbers from .*, the error of 10¹² records"),
    (1e-320, "wanted is 1e-320; accepted are numbers from .*, the error of 10¹² records"),
])
def test_an_error_that_cannot_be_had_is_refused(wanted, message):
    with pytest.raises(ValueError, match=f"^{message}"):
        records_needed(Ball(2.0, np.eye(3)), 1.0, 1e-6, wanted)


@pytest.mark.slow
@pytest.mark.parametrize("n", [500, 2000])
def test_what_refining_saves_is_foreseen_for_a_guess_of_the_spread(n):
    ball, rng = Ball.from_bounds(1e-3, 1e3, 3), np.random.default_rng(n)
    row = plan(ball, n, 1.0, 1e-6, (), spread=0.3 * math.sqrt(6))[0]
    assert row.mechanism == "gaussian, refined"
    errors = []
    for _ in range(40):
        Y = 1 + 0.3 * rng.standard_normal((n, 6))
        made = PrivateFrechetMean(1.0, 1e-6, ball, refine="auto").fit(expm(invvecd(Y)), rng=rng)
        errors.append(np.linalg.norm(made.log_mean_ - Y.mean(axis=0)))
    assert 0.7 < np.mean(errors) / row.bare < 1.4


@pytest.mark.slow
def test_refining_is_foreseen_to_pay_from_some_number_of_records_on():
    ball = Ball(12.0, np.eye(3))
    n = worth_refining(ball, 1.0, 1e-6, 0.7)
    for m, pays in (n - 1, False), (n, True):
        direct, refined = plan(ball, m, 1.0, 1e-6, ["gaussian"], spread=0.7)
        assert (refined.bare < direct.bare) == pays
    wide = Ball.from_bounds(1.0, 1e4, 12)  # here it pays as soon as there are rounds at all
    n = worth_refining(wide, 0.5, 1e-6, 3.6)
    assert [Refined(TangentGaussian, _mean(wide, m), 0.5, 1e-6, ROUNDS).worth
            for m in (n - 1, n)] == [False, True]
    with pytest.raises(ValueError, match="spread is 1000.0; accepted are those at which it pays"):
        worth_refining(ball, 1.0, 1e-6, 1000.0)
    with pytest.raises(ValueError, match="spread is -1; accepted are finite numbers from 0 on"):
        plan(ball, 400, 1.0, 1e-6, spread=-1)
