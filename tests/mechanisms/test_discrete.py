"""Noise in integers: the law that is drawn, the promise that is kept, and what is refused."""

import copy
import math
import pickle
import sys
from fractions import Fraction

import mpmath
import numpy as np
import pytest
from scipy.special import log_ndtr, ndtr
from scipy.stats import chi, chi2, norm

from spdlib import (AffineInvariant, Ball, DiscreteGaussian, Euclidean, FrechetMean, LogEuclidean,
                    PrivateFrechetMean, Sphere, TangentGaussian, TangentSpace, random_spd)
from spdlib.accounting import compose
from spdlib.calibration import gaussian_delta, sigma_analytic
from spdlib.mechanisms.integers import BITS, MOST_RECORDS, SMOOTHING
from spdlib.queries import RunningMean
from spdlib.queries.sums import ClippedSum
from spdlib.spaces.ball import clip_to_ball, finest_grid

pytest.importorskip("opendp")

LEVEL = 1e-6
PROMISES = [(e, d) for e in (1e-6, 0.1, 1.0, 30.0, 1e3) for d in (1e-300, 1e-6, 0.5)]
LINE = Ball(1.0, [[0.0]], Euclidean(1))
NUMBERS = [1, 3, 400, 10**6, 10**9, 10**12]


def band(n):
    """Half the width of the Dvoretzky–Kiefer–Wolfowitz band."""
    return math.sqrt(math.log(2 / LEVEL) / (2 * n))


def distance(x, cdf):
    """Largest distance between the empirical distribution of x and a continuous one."""
    F, n = cdf(np.sort(x)), len(x)
    return max((np.arange(1, n + 1) / n - F).max(), (F - np.arange(n) / n).max())


def masses(s, reach):
    """The discrete Gaussian law on -reach, …, reach, from its definition."""
    z = np.arange(-reach, reach + 1)
    p = np.exp(-(z**2) / (2 * s**2))
    return z, p / p.sum()


def exact_delta(s, shift, epsilon):
    """δ of the discrete law and of the same moved by an integer, summed over all places."""
    z, p = masses(s, int(40 * s) + shift)
    q = np.exp(-((z - shift) ** 2) / (2 * s**2)) / np.exp(-(z**2) / (2 * s**2)).sum()
    return np.maximum(p - math.exp(epsilon) * q, 0).sum()


def smoothing_bound(s, shift, epsilon, t, d=1):
    """What the proof says for a given t: e^a δ(ε - 2a; √(s² - t²))."""
    eta = 2 * sum(math.exp(-2 * (math.pi * t * j) ** 2) for j in range(1, 20))
    a = d * math.log((1 + eta) / (1 - eta))
    if 2 * a > epsilon:
        return 1.0
    return math.exp(a) * gaussian_delta(math.sqrt(s * s - t * t), epsilon - 2 * a, shift)


def small(scale, radius=1.0):
    """A mechanism whose noise has a scale that one can count at."""
    mechanism = DiscreteGaussian(radius, 1, 1.0, 1e-6)
    mechanism.scale, mechanism.rho = scale, math.inf
    return mechanism


def on_a_line(n):
    """A query on the line, of records at the centre of the ball of radius 1."""
    return FrechetMean(np.zeros((n, 1, 1)), LINE)


# the law

@pytest.mark.parametrize("scale", [pytest.param(0.7, marks=pytest.mark.slow), 3.0])
def test_the_noise_has_the_discrete_gaussian_law(scale):
    draws = np.array(small(scale)._sampler()([0] * 20_000))
    z, p = masses(scale, 12)
    often = 20_000 * p > 10
    seen = (draws[:, None] == z[often]).sum(axis=0)
    rest, expected = 20_000 - seen.sum(), 20_000 * p[often]
    statistic = ((seen - expected) ** 2 / expected).sum()
    statistic += (rest - 20_000 + expected.sum()) ** 2 / (20_000 - expected.sum())
    assert chi2.sf(statistic, often.sum()) > LEVEL


@pytest.mark.slow
def test_the_law_that_is_drawn_is_of_the_scale_and_of_none_12_percent_off():
    s, n = 2.0, 40_000
    draws = np.array(small(s)._sampler()([0] * n))
    reach = 40  # a value beyond it has a probability below 1e-80
    share = np.cumsum(np.bincount(draws + reach, minlength=2 * reach + 1)) / n
    off = {scale: np.abs(share - np.cumsum(masses(scale, reach)[1])).max()
           for scale in (s, s / 1.12, 1.12 * s)}
    assert [distance <= band(n) for distance in off.values()] == [True, False, False]


@pytest.mark.slow
def test_at_the_scale_of_a_release_it_is_normal_to_the_band_and_not_of_a_scale_5_percent_off():
    mechanism, n = DiscreteGaussian.of(on_a_line(1), 1.0, 1e-6), 250_000
    x = mechanism.answer(on_a_line(1), size=n)[:, 0]
    assert distance(x, norm(scale=mechanism.sigma).cdf) <= band(n)
    for off in (0.95, 1.05):
        assert distance(x, norm(scale=off * mechanism.sigma).cdf) > band(n)


@pytest.mark.slow
def test_its_last_bits_are_those_of_a_coin():
    mechanism = DiscreteGaussian.of(on_a_line(1), 1.0, 1e-6)
    counts = mechanism.answer(on_a_line(1), size=20_000)[:, 0] / mechanism.grid
    seen = np.bincount(counts.astype(np.int64) % 64, minlength=64)
    assert chi2.sf(((seen - 20_000 / 64) ** 2 / (20_000 / 64)).sum(), 63) > LEVEL


def test_coordinates_and_answers_have_noise_of_their_own():
    query = FrechetMean(random_spd(5, 3, 1.0, 0), Ball(2.0, np.eye(3)))
    y = DiscreteGaussian.of(query, 1.0, 1e-6).answer(query, size=(7, 2))
    assert y.shape == (7, 2, 6) and len(np.unique(y)) == y.size


# nothing but integers

@pytest.mark.parametrize("n", [1, 7, 400])
def test_an_answer_is_an_integer_times_the_grid_over_n_bit_for_bit(n):
    query = FrechetMean(random_spd(n, 3, 1.0, 0), Ball(2.0, np.eye(3)))
    mechanism = DiscreteGaussian.of(query, 1.0, 1e-6)
    y = mechanism.answer(query, size=50)
    counts = np.rint(y * n / mechanism.grid)
    assert (counts * mechanism.grid / n == y).all()
    other = TangentGaussian.of(query, 1.0, 1e-6).answer(query, 0, 50)  # noise off the grid
    assert (np.rint(other * n / mechanism.grid) * mechanism.grid / n != other).mean() > 0.9


def test_the_answer_is_the_exact_sum_where_the_noise_is_taken_away(monkeypatch):
    X = random_spd(60, 3, 2.0, 0)
    query = FrechetMean(X, Ball(1.0, np.eye(3)), weights=np.arange(60))
    mechanism = DiscreteGaussian.of(query, 1.0, 1e-6)
    monkeypatch.setattr(mechanism, "_sampler", lambda: list)
    y = LogEuclidean(3).coordinates(X)
    weights = (np.arange(60) / 59)[:, None]
    rows = clip_to_ball(y, 1.0, mechanism.grid, weights) / mechanism.grid
    sums = [sum(map(int, column)) for column in rows.T]
    exact = np.array([float(Fraction(each)) for each in sums]) * mechanism.grid
    assert (mechanism.answer(query) == exact / math.fsum(weights[:, 0])).all()


def test_a_sum_off_the_grid_is_refused():
    query = on_a_line(1)
    mechanism = DiscreteGaussian.of(query, 1.0, 1e-6)
    query.total = lambda grid: np.array([grid / 2])
    with pytest.raises(ValueError, match="off the grid; accepted are sums on it"):
        mechanism.answer(query)


@pytest.mark.parametrize("n", NUMBERS)
@pytest.mark.parametrize("radius", [1e-280, 0.3, 1.0, 1e280])
def test_the_grid_is_as_coarse_as_the_noise_allows_and_holds_the_sum(n, radius):
    for epsilon, delta in PROMISES:
        mechanism = DiscreteGaussian(radius, n, epsilon, delta)
        assert math.frexp(mechanism.grid)[0] == 0.5
        assert n * Fraction(radius) < 2**53 * Fraction(mechanism.grid)
        assert mechanism.scale <= 2.0**BITS
        assert mechanism.scale >= 2.0 ** (BITS - 1) or mechanism.grid == finest_grid(radius, n)
        assert mechanism.scale > 5 * SMOOTHING  # what t costs is below 2% of the noise


def test_on_the_grid_the_largest_sum_that_there_can_be_loses_no_bit():
    n, radius = MOST_RECORDS - 1, 0.999
    mechanism = DiscreteGaussian(radius, n, 1.0, 1e-6)
    sum = ClippedSum(LINE.of_radius(radius), n, grid=mechanism.grid)
    one = int(clip_to_ball(np.array([[5.0]]), radius, mechanism.grid)[0, 0] / mechanism.grid)
    sum.total, sum.count = np.array([(n - 3) * one * mechanism.grid]), n - 3
    sum.add(np.full((3, 1, 1), 5.0))
    assert int(sum.total[0] / mechanism.grid) == n * one < 2**53


# the sensitivity

def adversarial(rng, n, k):
    """Records of which many are clipped, some barely, of lengths from tiny to huge."""
    y = rng.standard_normal((n, k, k)) * 10.0 ** rng.uniform(-12, 12, (n, 1, 1))
    y[rng.random(n) < 0.5] *= 1e6
    y = (y + y.swapaxes(1, 2)) / 2
    return y.astype(np.float32) if rng.random() < 0.3 else y


@pytest.mark.slow
def test_no_replaced_record_moves_the_integers_by_more_than_the_sensitivity():
    rng, largest = np.random.default_rng(0), 0.0
    for trial in range(300):
        k, n = int(rng.integers(1, 4)), int(rng.integers(1, 30))
        radius = float(10.0 ** rng.uniform(-6, 3))
        X = adversarial(rng, n, k)
        Y = X.copy()
        i = int(rng.integers(n))
        Y[i] = -X[i] if trial % 2 else adversarial(rng, 1, k)[0]
        mechanism = DiscreteGaussian(radius, NUMBERS[trial % len(NUMBERS)] + n, 1.0, 1e-6)
        ball = Ball(radius, np.zeros((k, k)), Euclidean(k))
        totals = [RunningMean(n, ball).add(each, mechanism.grid).total() for each in (X, Y)]
        moved = [int(a / mechanism.grid) - int(b / mechanism.grid)
                 for a, b in zip(*totals, strict=True)]
        bound = (2 * Fraction(radius) / Fraction(mechanism.grid)) ** 2
        assert sum(m * m for m in moved) <= bound
        largest = max(largest, sum(m * m for m in moved) / bound)
    assert largest > 0.999  # so a smaller one would be wrong


def test_weights_of_which_the_largest_is_1_keep_it():
    X, weights = np.full((3, 1, 1), 9.0), [5.0, 2.0, 0.5]
    mechanism = DiscreteGaussian.of(FrechetMean(X, LINE, weights=weights), 1.0, 1e-6)
    assert mechanism.divisor == 1.5 and mechanism.sensitivity == pytest.approx(2 / 1.5, rel=1e-14)
    totals = [FrechetMean(Y, LINE, weights=weights).total(mechanism.grid)
              for Y in (X, np.array([-9.0, 9.0, 9.0])[:, None, None])]
    assert 0.999 < (totals[0] - totals[1])[0] / 2 <= 1


def test_the_cut_moves_a_mean_by_less_than_the_grid_times_n_over_the_divisor():
    n = 1000
    weights = np.append(1.0, np.random.default_rng(1).uniform(1e-6, 2e-6, n - 1))
    query = FrechetMean(np.full((n, 1, 1), 0.7), LINE, weights=weights)
    mechanism = DiscreteGaussian.of(query, 1.0, 1e-6)
    grid, divisor = Fraction(mechanism.grid), Fraction(mechanism.divisor)
    exact = Fraction(0.7) * sum(map(Fraction, weights.tolist()))
    moved = (exact - Fraction(query.total(mechanism.grid)[0])) / divisor
    assert grid < moved < grid * n / divisor  # so the grid alone would be no bound


# the promise

@pytest.mark.parametrize("epsilon, delta", PROMISES)
def test_the_scale_is_on_the_safe_side_and_costs_next_to_nothing(epsilon, delta):
    """With a margin in δ that is more than what the proof's a may take, 1e-541 per unit of ε."""
    for n in (1, 10**6, 10**12):
        mechanism = DiscreteGaussian(1.0, n, epsilon, delta)
        with mpmath.workdps(60):
            moved = 2 / mpmath.mpf(mechanism.grid)
            mu = moved / mpmath.sqrt(mpmath.mpf(mechanism.scale) ** 2 - SMOOTHING**2)
            x, y = epsilon / mu - mu / 2, epsilon / mu + mu / 2
            real = mpmath.ncdf(-x) - mpmath.exp(epsilon) * mpmath.ncdf(-y)
            assert real < delta * (1 - mpmath.mpf("5e-11"))
            assert mu <= mechanism.mu <= mu * (1 + mpmath.mpf("1e-14"))
            rho = (moved / mechanism.scale) ** 2 / 2
            assert rho <= mechanism.rho <= rho * (1 + mpmath.mpf("1e-14"))
        assert real < mechanism.delta(epsilon, 3) <= delta
        ideal = TangentGaussian(2.0, epsilon, delta).sigma / n
        cost = mechanism.sigma / ideal - 1
        assert 0 <= cost < 1e-9 + SMOOTHING**2 / (2 * (mechanism.scale**2 - SMOOTHING**2))


@pytest.mark.parametrize("s, shift, t", [(2.0, 1, 0.8), (4.0, 2, 1.0), (16.0, 5, 2.0),
                                         (40.0, 30, 8.0)])
def test_the_exact_delta_of_the_discrete_law_is_below_the_bound(s, shift, t):
    above_same_scale = 0
    for epsilon in np.linspace(0.01, 3.5, 60) * shift / s:
        exact = exact_delta(s, shift, epsilon)
        assert exact <= smoothing_bound(s, shift, epsilon, t) * (1 + 1e-10)
        above_same_scale += exact > gaussian_delta(s, epsilon, shift) * (1 + 1e-6)
    assert above_same_scale  # so t = 0 would be wrong


def test_what_smoothing_adds_is_below_1e_541_in_up_to_a_million_dimensions():
    with mpmath.workdps(600):
        eta = 2 * mpmath.nsum(lambda j: mpmath.exp(-2 * (mpmath.pi * SMOOTHING * j) ** 2), [1, 5])
        a = 10**6 * mpmath.log((1 + eta) / (1 - eta))
        assert mpmath.mpf("1e-544") < a < mpmath.mpf("1e-541")


def test_on_a_grid_of_promises_ln_delta_moves_by_less_than_the_proof_takes_for_granted():
    for epsilon in 10.0 ** np.arange(-6, 4):
        for delta in (1e-300, 1e-100, 1e-10, 0.5):
            mu = 1 / sigma_analytic(1.0, epsilon, delta)
            rate = math.exp(epsilon + log_ndtr(-epsilon / mu - mu / 2) - math.log(delta))
            assert 0 < rate < 1e11  # -d ln δ / d ε


def test_in_two_dimensions_too_and_no_direction_is_worse_than_the_bound():
    s, epsilon, t = 6.0, 0.7, 1.5
    z = np.arange(-80, 90)
    square = z[:, None] ** 2 + z**2
    p = np.exp(-square / (2 * s**2))
    for a, b in ((5, 0), (3, 4), (4, -3), (1, 1)):
        q = np.exp(-((z[:, None] - a) ** 2 + (z - b) ** 2) / (2 * s**2))
        exact = np.maximum(p - math.exp(epsilon) * q, 0).sum() / p.sum()
        assert exact <= smoothing_bound(s, math.hypot(a, b), epsilon, t, d=2) * (1 + 1e-10)


def test_zcdp_is_that_of_the_renyi_divergences_and_opendp_promises_it():
    s, shift = 5.0, 3
    z, p = masses(s, 60)
    q = np.exp(-((z - shift) ** 2) / (2 * s**2)) / np.exp(-(z**2) / (2 * s**2)).sum()
    for order in (1.5, 2, 5):
        divergence = math.log((p**order * q ** (1 - order)).sum()) / (order - 1)
        assert divergence == pytest.approx(order * shift**2 / (2 * s**2), rel=1e-9)
    mechanism = small(s)
    moved = 2 / mechanism.grid
    assert mechanism._sampler().map(moved) == pytest.approx((moved / s) ** 2 / 2, rel=1e-12)


def test_it_draws_nothing_where_opendp_promises_less():
    query = on_a_line(1)
    mechanism = DiscreteGaussian.of(query, 1.0, 1e-6)
    mechanism.rho *= 1 - 1e-9
    with pytest.raises(RuntimeError, match="OpenDP promises less"):
        mechanism.answer(query)


def test_the_accountant_takes_it_for_gaussian():
    mechanism = DiscreteGaussian(1.0, 10, 1.0, 1e-6)
    assert compose([mechanism] * 4, 3).mu == pytest.approx(2 * mechanism.mu, rel=1e-14)
    assert compose([mechanism], 3).epsilon(1e-6) == pytest.approx(1.0, rel=1e-9)
    assert mechanism.sensitivity / mechanism.sigma == pytest.approx(mechanism.mu, rel=1e-12)


def test_its_error_is_that_of_normal_noise():
    mechanism = DiscreteGaussian(1.0, 10, 1.0, 1e-6)
    assert mechanism.error(6).mean() == chi(6, scale=mechanism.sigma).mean()
    with pytest.raises(ValueError, match="d is 0; accepted are integers from 1 to 5050"):
        mechanism.error(0)


# the estimator

def private(center, space=None, **options):
    ball = Ball(1.0, center, space)
    return PrivateFrechetMean(1.0, 1e-6, ball, "discrete gaussian", **options)


def test_a_release_lies_in_the_ball_and_no_two_are_alike():
    X = random_spd(4, 3, 2.0, 0)
    fits = [private(np.eye(3)).fit(X) for _ in range(5)]
    assert all(np.linalg.norm(fit.log_mean_) <= 1 + 1e-12 for fit in fits)
    assert len({fit.mean_.tobytes() for fit in fits}) == 5
    one = fits[0].release_
    assert (one.rho, one.seeded) == (fits[0].mechanism_.rho, False) and one.rho < one.mu**2 / 2


def test_batches_and_the_whole_have_one_sum():
    X = random_spd(50, 3, 1.0, 0)
    estimator = private(np.eye(3), n=50).partial_fit(X[30:]).partial_fit(X[:30])
    query, mechanism, _ = estimator._running
    assert (query.total() == FrechetMean(X, estimator.ball).total(mechanism.grid)).all()
    assert isinstance(estimator.release().mechanism_, DiscreteGaussian)


@pytest.mark.slow
def test_the_largest_matrices_have_their_release():
    zeros = np.zeros((2, 100, 100))
    assert private(zeros[0], Euclidean(100)).fit(zeros).mechanism_.n == 2


def test_the_tangent_mean_of_a_curved_space_has_one():
    X = random_spd(30, 2, 1.0, 0)
    mean = private(np.eye(2), AffineInvariant(2), statistic="tangent").fit(X).mean_
    assert AffineInvariant(2).dist(np.eye(2), mean) <= 1 + 1e-9


def test_a_mechanism_is_copied_with_all_that_it_is():
    mechanism = DiscreteGaussian(1.0, 10, 1.0, 1e-6)
    for other in (pickle.loads(pickle.dumps(mechanism)), copy.deepcopy(mechanism)):
        assert repr(other) == repr(mechanism)
        query = on_a_line(10)
        assert other.answer(query).shape == (1,)


# what is refused

BAD = np.full((3, 2, 2), np.nan)  # records that raise when they are looked at
PLANE = Ball(1.0, np.eye(2))


def test_a_seed_is_refused_before_a_record_is_looked_at():
    with pytest.raises(ValueError, match="rng is 7; accepted is None: exact noise comes from"):
        private(np.eye(2)).fit(BAD, rng=7)
    query = FrechetMean(BAD, PLANE)
    with pytest.raises(ValueError, match="rng is .*Generator.*; accepted is None"):
        DiscreteGaussian.of(query, 1.0, 1e-6).answer(query, np.random.default_rng(0))


def test_without_opendp_it_says_so_before_a_record_is_looked_at(monkeypatch):
    monkeypatch.setitem(sys.modules, "opendp.prelude", None)
    for look in (private(np.eye(2)).fit, private(np.eye(2), n=3).partial_fit):
        with pytest.raises(ImportError, match=r"pip install 'spdlib\[hardened\]'"):
            look(BAD)
    mechanism = DiscreteGaussian(1.0, 3, 1.0, 1e-6)  # is calibrated all the same
    with pytest.raises(ImportError, match="OpenDP"):
        mechanism.answer(FrechetMean(BAD, PLANE))


@pytest.mark.parametrize("version, sound", [
    ("0.15.1", False), ("0.9.0rc2", False), ("0.0.0+development", False), ("unknown", False),
    ("0.16.0rc1", True), ("0.16.0", True), ("0.17", True), ("1.0.0", True), ("1", True),
])
def test_a_version_whose_noise_may_be_biased_is_refused(version, sound, monkeypatch):
    monkeypatch.setattr("importlib.metadata.version", lambda name: version)
    if sound:
        assert DiscreteGaussian.of(on_a_line(1), 1.0, 1e-6)
        return
    message = r"OpenDP before 0.16 may draw biased noise .*: pip install 'spdlib\[hardened\]'"
    for look in (private(np.eye(2)).fit, private(np.eye(2), n=3).partial_fit):
        with pytest.raises(ImportError, match=message):
            look(BAD)


def test_a_bad_record_is_refused_before_anything_is_drawn(monkeypatch):
    query = FrechetMean(BAD, PLANE)
    mechanism = DiscreteGaussian.of(query, 1.0, 1e-6)
    monkeypatch.setattr(mechanism, "_sampler", lambda: pytest.fail)
    with pytest.raises(ValueError, match="X"):
        mechanism.answer(query)


@pytest.mark.parametrize("space", [AffineInvariant(2), Sphere(2)])
def test_a_curved_space_is_refused_with_what_to_do(space):
    X = np.broadcast_to(np.eye(2) if space.shape == (2, 2) else np.eye(3)[0], (3, *space.shape))
    ball = Ball(0.5, X[0], space)
    query = FrechetMean(X, ball)
    with pytest.raises(ValueError, match='are flat spaces, .*statistic="tangent"'):
        DiscreteGaussian.of(query, 1.0, 1e-6)
    assert ball.tangent().space == TangentSpace(space, X[0])
    assert DiscreteGaussian.of(FrechetMean(X, ball.tangent()), 1.0, 1e-6)


@pytest.mark.parametrize("query", [on_a_line(11), on_a_line(9),
                                   FrechetMean(np.zeros((11, 1, 1)), LINE,
                                               weights=[1] * 9 + [0.5] * 2),
                                   FrechetMean(np.zeros((10, 1, 1)), LINE.of_radius(1.5))])
def test_a_query_of_other_records_is_refused(query):
    with pytest.raises(ValueError, match="accepted are n up to 10, radii up to 1 and the divisor"):
        DiscreteGaussian(1.0, 10, 1.0, 1e-6).answer(query)


def test_floats_of_ones_own_are_refused():
    mechanism = DiscreteGaussian(1.0, 10, 1.0, 1e-6)
    for attempt in (mechanism.perturb, mechanism.release):
        with pytest.raises(ValueError, match="only sums of records on its own grid; accepted is"):
            attempt(np.zeros((2, 2)))


@pytest.mark.parametrize("options, message", [
    ({"radius": 0}, "radius is 0; accepted are"),
    ({"n": 0}, "n is 0; accepted are integers from 1 to 1099511627776"),
    ({"n": MOST_RECORDS + 1}, "n is 1099511627777; accepted are integers from 1"),
    ({"delta": 0}, "delta is 0; accepted are numbers from 1e-300 to 1/2"),
    ({"epsilon": 2e3}, "epsilon is 2000.0; accepted are"),
    ({"divisor": 0}, "divisor is 0; accepted are finite numbers above 0"),
])
def test_parameters_that_are_none_are_refused(options, message):
    with pytest.raises(ValueError, match=message.replace("(", r"\(")):
        DiscreteGaussian(**{"radius": 1.0, "n": 3, "epsilon": 1.0, "delta": 1e-6} | options)


def test_the_band_tells_two_scales_apart():
    """The check on the law itself: at its numbers of draws 5% are seen, and 0% are not."""
    x = np.linspace(-4, 4, 2001)
    assert np.abs(ndtr(x) - ndtr(x / 1.05)).max() > 2 * band(250_000)
