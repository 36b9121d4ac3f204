"""Noise on the integer lattice: its law, its pure promise, and that no float decides."""

import ast
import copy
import functools
import inspect
import itertools
import math
import pickle
import random
from fractions import Fraction
from types import SimpleNamespace

import mpmath
import numpy as np
import pytest
from scipy.stats import chi2, gamma

from spdlib import (AffineInvariant, Ball, Euclidean, FrechetMean, LogEuclidean, PrivateFrechetMean,
                    RiemannianLaplace, Sphere, plan, random_spd)
from spdlib.accounting import compose
from spdlib.calibration import l2_delta
from spdlib.mechanisms import lattice
from spdlib.mechanisms.lattice import BITS, MOST_RECORDS, LatticeLaplace
from spdlib.queries.sums import ClippedSum
from spdlib.spaces.ball import clip_to_ball, finest_grid

LEVEL = 1e-6
AWAY = 4.9  # standard deviations that chance goes beyond with probability LEVEL
LINE = Ball(1.0, [[0.0]], Euclidean(1))
SHARES = {3: 0.605, 6: 0.269, 10: 0.090, 21: 0.0045, 28: 6.5e-4}
CASES = [(d, s) for d in (1, 2, 3) for s in (1, 2)]
cases = pytest.mark.parametrize("d, s", [
    pytest.param(d, s, marks=[pytest.mark.slow] * (d > 1)) for d, s in CASES])


def width(d, s):
    """t for a scale s, as the sampler takes it."""
    return lattice._root_up(d * Fraction(s)**2).as_integer_ratio()


@functools.cache
def draws(d, s, n=None):
    """Vectors by a seeded source, of which only tests know."""
    source, t = random.Random(d), width(d, s)
    return np.array([lattice.vector(d, t, source) for _ in range(n or 60_000 // d)])


def law(d, s, weight=lambda z, d, s: np.exp(-np.sqrt((z**2).sum(axis=0)) / s)):
    """All probabilities on a box of the lattice, beyond which there is less than 1e-8."""
    reach = 20 * s + 5
    p = weight(np.indices((2 * reach + 1, ) * d) - reach, d, s)
    return p / p.sum(), reach


def chance(x, p, reach):
    """Probability of a chi-square as large as that of these draws, were p their law."""
    seen = np.zeros(p.shape)
    np.add.at(seen, tuple(np.clip(x + reach, 0, 2 * reach).T), 1)
    often = len(x) * p > 10
    seen, expected = seen[often], len(x) * p[often]
    rest = len(x) - expected.sum()
    statistic = ((seen - expected)**2 / expected).sum()
    statistic += (len(x) - seen.sum() - rest)**2 / max(rest, 1)
    return chi2.sf(statistic, often.sum())


def away(x, s):
    """Standard deviations between the mean length of draws and that of noise of scale s."""
    z = np.indices((81, ) * x.shape[1]) - 40
    length = np.sqrt((z**2).sum(axis=0))
    p = np.exp(-length / s)
    p /= p.sum()
    mean = (p * length).sum()
    sd = math.sqrt((p * (length - mean)**2).sum() / len(x))
    return abs(np.sqrt((x**2).sum(axis=1)).mean() - mean) / sd


def with_seed(monkeypatch, seed=0):
    """Draws of mechanisms that are the same whenever a test runs."""
    seeded = random.Random(seed)
    monkeypatch.setattr(lattice, "random", SimpleNamespace(SystemRandom=lambda: seeded))


def on_a_line(n):
    """A query on the line, of records at the centre of the ball of radius 1."""
    return FrechetMean(np.zeros((n, 1, 1)), LINE)


# the law

@pytest.mark.slow
@cases
def test_the_noise_has_the_law_of_which_the_promise_is_proved(d, s):
    assert chance(draws(d, s), *law(d, s)) > LEVEL


def of_own_coordinates(z, d, s):
    return np.exp(-np.abs(z).sum(axis=0) / (math.sqrt(d) * s))


def with_0_twice(z, d, s):
    return np.exp(-np.sqrt((z**2).sum(axis=0)) / s) * 2.0**(z == 0).sum(axis=0)


def normal(z, d, s):
    return np.exp(-(z**2).sum(axis=0) / (2 * (d + 1) * s**2))


def of_the_square(z, d, s):
    return np.exp(-np.abs(z).max(axis=0) / s)


@cases
@pytest.mark.parametrize("rival", [of_own_coordinates, with_0_twice, normal, of_the_square])
def test_it_has_no_law_that_somebody_could_take_for_it(d, s, rival):
    if d == 1 and rival in (of_own_coordinates, of_the_square):
        assert np.allclose(law(d, s, rival)[0], law(d, s)[0], rtol=1e-12)
    else:
        assert chance(draws(d, s), *law(d, s, rival)) < LEVEL


@cases
def test_it_is_of_the_scale_and_of_none_5_percent_off(d, s):
    x = draws(d, s)
    assert away(x, s) < AWAY
    for off in (0.95, 1.05):
        assert away(x, off * s) > AWAY


@pytest.mark.slow
@pytest.mark.parametrize("d, n", [(6, 4000), (28, 600)])
def test_at_the_scale_of_a_release_its_length_is_that_of_continuous_noise(d, n):
    s = 0.7 * 2**BITS
    x = draws(d, s, n).astype(float) / s
    length = np.sort(np.sqrt((x**2).sum(axis=1)))
    F = gamma(d).cdf(length)
    assert np.abs(F - np.arange(n) / n).max() < math.sqrt(math.log(2 / LEVEL) / (2 * n)) + 1 / n
    for scale, near in (1.0, True), (0.95, False), (1.05, False):
        assert (abs(length.mean() / (scale * d) - 1) * math.sqrt(d * n) < AWAY) == near
    square = (x**2).mean(axis=0) / (d + 1)  # E xᵢ² = (d + 1) s²
    assert np.abs(square - 1).max() < 5 * AWAY / math.sqrt(n)
    mixed = (x.T @ x / n / (d + 1))[np.triu_indices(d, 1)]
    assert np.abs(mixed).max() < 3 * AWAY / math.sqrt(n)


@pytest.mark.slow
def test_its_last_bits_are_those_of_a_coin():
    seen = np.bincount(draws(1, 0.7 * 2**BITS, 20_000)[:, 0] % 64, minlength=64)
    assert chi2.sf(((seen - 20_000 / 64)**2 / (20_000 / 64)).sum(), 63) > LEVEL


# what is drawn on the way, all ways that a source can take

class Script(random.Random):
    """A source that says what it is told, and asks for more when it comes to the end."""

    def __init__(self, words):
        super().__init__(0)
        self.words, self.at, self.asked = words, 0, None

    def randrange(self, n):
        if self.at == len(self.words):
            self.asked = n
            raise EOFError
        self.at += 1
        return self.words[self.at - 1]

    def getrandbits(self, k):
        return self.randrange(2**k)


def outcomes(program, least):
    """Exact probabilities of what a program returns, and of all that is less likely than `least`.

    All words of its source are tried.
    """
    found, left, open = {}, Fraction(0), [((), Fraction(1))]
    while open:
        words, p = open.pop()
        source = Script(words)
        try:
            value = program(source)
            found[value] = found.get(value, 0) + p
        except EOFError:
            if p < least:
                left += p
            else:
                open += [((*words, word), p / source.asked) for word in range(source.asked)]
    assert sum(found.values()) + left == 1
    return found, left


def holds(found, left, value, p, rival):
    """Whether the exact probability is that one, as far as is known, and not the rival."""
    low = found.get(value, Fraction(0))
    return low <= p <= low + left and not low <= rival <= low + left


@pytest.mark.parametrize("a, b", [(0, 1), (1, 1), (1, 2), (2, 3), (1, 5)])
def test_an_exponential_decides_with_its_probability(a, b):
    found, left = outcomes(lambda source: lattice.decays(a, b, source), 1e-4)
    assert left < 0.004 and holds(found, left, True, math.exp(-a / b), 0.98 * math.exp(-a / b))


@pytest.mark.parametrize("a, b", [(1, 1), (1, 2), (1, 8)])
def test_a_digit_is_1_with_its_probability(a, b):
    found, left = outcomes(lambda source: lattice._digit(a, b, source), 1e-5)
    p = 1 / (1 + math.exp(a / b))
    assert left < 0.02 and holds(found, left, 1, p, p + 0.021)


@pytest.mark.slow
def test_a_size_and_a_coordinate_have_their_laws():
    share = math.exp(-1)
    for draw, zero in (lattice.geometric, 1 - share), (lattice._signed, (1 - share) / (1 + share)):
        found, left = outcomes(lambda source, draw=draw: draw((1, 1), source), 1e-5)
        assert left < 0.04
        for z in range(3):
            assert holds(found, left, z, zero * share**z, zero * share**z + 0.041)


# no float decides

def root_sum(parts, whole):
    return mpmath.sqrt(whole) - sum(map(mpmath.sqrt, parts))


def digits_of(monkeypatch, value, bits):
    """An E that begins with these binary digits of a value, then has 0s; how many were drawn."""
    drawn, whole = [], int(mpmath.floor(value * mpmath.mpf(2)**bits))

    def digit(*_):
        drawn.append((whole << 400 >> bits + 400 - len(drawn) - 1) & 1)
        return drawn[-1]

    monkeypatch.setattr(lattice, "geometric", lambda *_: whole >> bits)
    monkeypatch.setattr(lattice, "_digit", digit)
    return Fraction(whole, 2**bits), drawn


NEAR_TIES = [((9, 16), 50), ((0, 4), 8), ((2 * 10**24 + 1, 10**24), 3 * (2 * 10**24)), ((3, 3), 13),
             ((7 * 2**80 + 1, 5 * 2**80), 30 * 2**80), ((4, 9), 36)]


@pytest.mark.parametrize("parts, whole", NEAR_TIES)
@pytest.mark.parametrize("bits", [1, 30, 60, 200])
def test_two_sides_that_agree_in_200_digits_are_told_apart(parts, whole, bits, monkeypatch):
    with mpmath.workdps(200):
        gap = root_sum(parts, whole)
        for off in (-1, 0, 1, 2):  # of the last digit
            value = gap + off * mpmath.mpf(2)**-bits
            if value < 0:
                continue
            E, drawn = digits_of(monkeypatch, value, bits)
            exact = mpmath.mpf(E.numerator) / E.denominator
            if exact == gap:  # E has that value with probability 0
                continue
            assert lattice.kept(parts, whole, (5, 2), None) == (exact > gap)
            assert len(drawn) <= bits + 16


def test_where_both_sides_are_integers_the_first_digit_decides(monkeypatch):
    for E, kept in (0, True), (3, True):
        monkeypatch.setattr(lattice, "geometric", lambda *_, E=E: E)
        monkeypatch.setattr(lattice, "_digit", lambda *_: 1)
        assert lattice.kept((9, 9), 36, (5, 2), None) == kept  # 3 + 3 = 6, and E > 0
    monkeypatch.setattr(lattice, "geometric", lambda *_: 2)
    monkeypatch.setattr(lattice, "_digit", lambda *_: 0)
    assert not lattice.kept((9, 9), 81, (5, 2), None)  # 3 + 3 + 2.00…₂ < 9


@pytest.mark.slow
@pytest.mark.parametrize("parts, whole, t", [((9, 16), 50, 1.0), ((0, 4), 8, 0.5),
                                             ((1, 0, 0), 9, 3.0), ((9, 9), 36, 0.7)])
def test_what_is_kept_is_kept_with_its_probability(parts, whole, t):
    source, n = random.Random(1), 20_000
    share = sum(lattice.kept(parts, whole, t.as_integer_ratio(), source) for _ in range(n)) / n
    with mpmath.workdps(30):
        p = float(mpmath.exp(-root_sum(parts, whole) / t))
    assert abs(share - p) <= AWAY * math.sqrt(p * (1 - p) / n)


SAMPLER = (lattice.vector, lattice._drawn, lattice.kept, lattice.geometric, lattice.decays,
           lattice._digit, lattice._signed)


def test_the_sampler_computes_with_integers_only(monkeypatch):
    for function in SAMPLER:
        for node in ast.walk(ast.parse(inspect.getsource(function))):
            assert not isinstance(node, ast.Div | ast.Pow)
            assert not isinstance(getattr(node, "value", None), float)
            assert not (isinstance(node, ast.Name) and node.id in ("float", "np", "EPS"))
    monkeypatch.setattr(lattice, "math", SimpleNamespace(isqrt=math.isqrt))
    monkeypatch.setattr(lattice, "np", None)

    class Whole(random.Random):
        """A source that has no floats."""

        def random(self):
            raise AssertionError

        uniform = gauss = expovariate = random

        def getrandbits(self, k):
            return super().getrandbits(k)

    for t in (1.0, 0.7 * 2**BITS):
        z = lattice.vector(7, t.as_integer_ratio(), Whole(0))
        assert [type(each) for each in z] == [int] * 7


# what rejection keeps

def share_of_all(d):
    """What one rejection from independent coordinates keeps: the constants' ratio."""
    log = math.lgamma(d + 1) + d / 2 * math.log(math.pi) - math.lgamma(d / 2 + 1)
    return math.exp(log - d * math.log(2 * math.sqrt(d)))


def test_the_shares_are_those_that_were_stated():
    for d, share in SHARES.items():
        assert share_of_all(d) == pytest.approx(share, rel=0.02)


@pytest.mark.slow
def test_independent_coordinates_are_kept_all_at_once_with_this_share():
    source, n = random.Random(2), 3000

    def at_once(m, t):
        """The sum of squares of m independent coordinates, None where a half is not kept."""
        if m == 1:
            return lattice._signed(t, source)**2
        h = m // 2
        a, b = at_once(h, t), at_once(m - h, t)
        if None in (a, b) or not lattice.kept((h * a, (m - h) * b), m * (a + b), t, source):
            return None
        return a + b

    for d in (3, 6, 10):
        t, p = width(d, 2.0**BITS), SHARES[d]
        share = sum(at_once(d, t) is not None for _ in range(n)) / n
        assert abs(share - p) < AWAY * math.sqrt(p * (1 - p) / n) + 5e-4


@pytest.mark.slow
def test_halves_are_kept_with_shares_that_make_up_the_whole(monkeypatch):
    asked, kept, decide = {}, {}, lattice.kept
    sizes = []

    def counted(parts, whole, t, source):
        m = sizes[-1]
        asked[m] = asked.get(m, 0) + 1
        yes = decide(parts, whole, t, source)
        kept[m] = kept.get(m, 0) + yes
        return yes

    def drawn(m, t, source, draw=lattice._drawn):
        sizes.append(m)
        value = draw(m, t, source)
        sizes.pop()
        return value

    monkeypatch.setattr(lattice, "kept", counted)
    monkeypatch.setattr(lattice, "_drawn", drawn)
    for d in SHARES:
        asked.clear(), kept.clear()
        for seed in range(300):
            lattice.vector(d, width(d, 2.0**BITS), random.Random(seed))

        def share(m):
            return kept[m] / asked[m] * share(m // 2) * share(m - m // 2) if m > 1 else 1.0

        def of_halves(m):
            return share_of_all(m) / share_of_all(m // 2) / share_of_all(m - m // 2)

        for m in asked:
            p = of_halves(m)
            assert abs(kept[m] / asked[m] - p) < AWAY * math.sqrt(p * (1 - p) / asked[m])
            assert p > 0.7  # so that twice the coordinates are less than three times the work
        assert share(d) == pytest.approx(SHARES[d], rel=0.3)


# the promise

PROMISES = [1e-6, 0.1, 1 / 3, 1.0, 7.7, 30.0, 1e3]
NUMBERS = [1, 3, 400, 10**6, 10**9, MOST_RECORDS]


@pytest.mark.parametrize("n", NUMBERS)
@pytest.mark.parametrize("radius", [1e-280, 0.3, 1.0, 1e280])
def test_the_spread_is_enough_in_fractions_and_the_grid_holds_the_sum(n, radius):
    for epsilon, d in itertools.product(PROMISES, (1, 3, 28)):
        mechanism = LatticeLaplace(radius, n, epsilon, d)
        assert math.frexp(mechanism.grid)[0] == 0.5
        assert n * Fraction(radius) < 2**53 * Fraction(mechanism.grid)
        moved = 2 * Fraction(radius) / Fraction(mechanism.grid)
        least = d * (moved / Fraction(epsilon))**2
        assert least <= Fraction(mechanism.width)**2 <= least * (1 + Fraction(1, 2**50))
        s = mechanism.width / math.sqrt(d)
        assert 4 <= s <= 2.0**BITS * (1 + 1e-15)
        assert s >= 2.0**(BITS - 1) or mechanism.grid == finest_grid(radius, n)
        assert mechanism.loss == epsilon


@pytest.mark.slow
@pytest.mark.parametrize("d, moves", [(1, (4, )), (2, (3, 2)), (2, (4, 0)), (3, (2, 2, 2)),
                                      (3, (0, 3, -2))])
def test_no_neighbour_makes_a_vector_more_likely_than_the_promise_says(d, moves):
    """To 40 digits, for all vectors of a box."""
    epsilon, square = Fraction(4, 5), sum(move * move for move in moves)
    t = Fraction(lattice._root_up(d * square / epsilon**2))
    worst = mpmath.mpf(0)
    with mpmath.workdps(40):
        for v in itertools.product(range(-9, 10), repeat=d):
            a, b = sum(x * x for x in v), sum((x - y)**2 for x, y in zip(v, moves, strict=True))
            ratio = (mpmath.sqrt(d * b) - mpmath.sqrt(d * a)) * t.denominator / t.numerator
            assert ratio <= mpmath.mpf(4) / 5
            worst = max(worst, ratio)
        assert worst > mpmath.mpf("0.79999")  # so a width that is smaller would be wrong


def test_a_shift_by_integers_leaves_the_constant_and_one_by_a_half_does_not():
    """At s = 1/4, since at the scales of a release no sum in floats could tell."""
    z = np.arange(-60, 61)
    sums = [np.exp(-4 * np.abs(z - shift)).sum() for shift in (0, 3, 0.5)]
    assert sums[0] == pytest.approx(sums[1], rel=1e-14) and abs(sums[2] / sums[0] - 1) > 0.5


@pytest.mark.parametrize("d, s, moves", [(1, 2.0, (1, )), (1, 6.0, (5, )), (2, 3.0, (2, 1)),
                                         (2, 8.0, (4, -3))])
def test_what_the_lattice_adds_to_delta_is_less_than_is_proved(d, s, moves):
    z = np.indices((401 if d == 1 else 201, ) * d) - (200 if d == 1 else 100)
    far = z - np.reshape(moves, (d, *[1] * d))
    p, q = (np.exp(-np.sqrt((each**2).sum(axis=0)) / s) for each in (z, far))
    C, moved, a = p.sum(), math.hypot(*moves), math.sqrt(d) / s
    above = 0
    for epsilon in np.linspace(0.05, 1.0, 12) * moved / s:
        exact = np.maximum(p - math.exp(epsilon) * q, 0).sum() / C
        less = epsilon - 2 * a
        bound = math.exp(a) * l2_delta(s, less if less > 1e-6 else 0, d, moved)
        assert exact <= bound * (1 + 1e-9) + 1e-7
        above += exact > l2_delta(s, epsilon, d, moved) * (1 + 1e-6) + 1e-7
    assert above or d > 1  # so that of continuous noise would be wrong


def test_on_the_coarsest_grid_its_delta_covers_that_of_the_lattice():
    mechanism = LatticeLaplace(1.0, MOST_RECORDS, 1e3, 1)
    s, D = mechanism.width, int(2 / mechanism.grid)
    z = np.arange(-200, D + 200)
    p = np.exp(-np.abs(z) / s) * math.tanh(1 / (2 * s))
    loss = (np.abs(z - D) - np.abs(z)) / s
    for epsilon in (990.0, 998.0, 999.0, 999.9):
        exact = (p * -np.expm1(np.minimum(epsilon - loss, 0))).sum()
        assert exact <= mechanism.delta(epsilon, 1)
    assert exact > 1.05 * l2_delta(s, epsilon, 1, D)  # so that of continuous noise would be wrong


@pytest.mark.parametrize("n, d", [(1, 1), (400, 6), (10**6, 28), (MOST_RECORDS, 6)])
def test_its_delta_is_0_at_its_epsilon_and_near_that_of_continuous_noise(n, d):
    mechanism = LatticeLaplace(1.0, n, 1.0, d)
    continuous = RiemannianLaplace(mechanism.sensitivity, 1.0)
    assert mechanism.delta(1.0, d) == mechanism.delta(2.0, d) == 0
    previous = 1.0
    for epsilon in (0, 1e-6, 0.1, 0.5, 0.9, 0.999):
        delta = mechanism.delta(epsilon, d)
        assert 0 < continuous.delta(epsilon, d) * (1 - 1e-9) < delta <= previous
        if n <= 400:
            assert delta < continuous.delta(epsilon, d) * (1 + 1e-4)
        previous = delta
    with pytest.raises(ValueError, match=f"d is {d + 1}; accepted"):
        mechanism.delta(0.5, d + 1)


def test_an_account_takes_it_for_pure():
    mechanism = LatticeLaplace(1.0, 10, 0.5, 3)
    assert (mechanism.law, mechanism.loss, mechanism.pure) == ("pure", 0.5, True)
    assert compose([mechanism] * 2, 3).epsilon(1e-6) <= 1.001


@pytest.mark.slow
def test_its_error_is_that_of_the_laplace_mechanism_and_a_plan_takes_it():
    mechanism = LatticeLaplace(2.0, 400, 1.0, 6)
    same = RiemannianLaplace(4.0 / 400, 1.0)
    assert mechanism.error(6).mean() == pytest.approx(same.error(6).mean(), rel=1e-11)
    assert mechanism.scale == pytest.approx(same.scale, rel=1e-11)
    exact, real = plan(Ball(2.0, np.eye(3)), 400, 1.0, 1e-6, [LatticeLaplace, "laplace"])
    assert exact[1:] == pytest.approx(real[1:], rel=1e-9, nan_ok=True)
    with pytest.raises(ValueError, match="d is 3; accepted is 6, the mechanism's own"):
        mechanism.error(3)


# nothing but integers

@pytest.mark.parametrize("n", [1, 7, 400])
def test_an_answer_is_an_integer_times_the_grid_over_n_bit_for_bit(n, monkeypatch):
    with_seed(monkeypatch)
    query = FrechetMean(random_spd(n, 3, 1.0, 0), Ball(2.0, np.eye(3)))
    mechanism = LatticeLaplace.of(query, 1.0)
    y = mechanism.answer(query, size=50)
    assert (np.rint(y * n / mechanism.grid) * mechanism.grid / n == y).all()
    other = RiemannianLaplace.of(query, 1.0).answer(query, 0, 50)  # noise off the grid
    assert (np.rint(other * n / mechanism.grid) * mechanism.grid / n != other).mean() > 0.9


def test_the_answer_is_the_exact_sum_where_the_noise_is_taken_away(monkeypatch):
    X = random_spd(60, 3, 2.0, 0)
    query = FrechetMean(X, Ball(1.0, np.eye(3)), weights=np.arange(60))
    mechanism = LatticeLaplace.of(query, 1.0)
    monkeypatch.setattr(lattice, "vector", lambda d, t, source: [0] * d)
    y, weights = LogEuclidean(3).coordinates(X), (np.arange(60) / 59)[:, None]
    rows = clip_to_ball(y, 1.0, mechanism.grid, weights) / mechanism.grid
    sums = [sum(map(int, column)) for column in rows.T]
    exact = np.array([float(each) for each in sums]) * mechanism.grid / math.fsum(weights[:, 0])
    assert (mechanism.answer(query) == exact).all()
    monkeypatch.setattr(lattice, "vector", lambda d, t, source: [1] + [0] * (d - 1))
    step = mechanism.answer(query) - exact
    assert 0 < step[0] < 2 * mechanism.grid and not step[1:].any()


def test_on_the_grid_the_largest_sum_that_there_can_be_loses_no_bit():
    n, radius = MOST_RECORDS - 1, 0.999
    mechanism = LatticeLaplace(radius, n, 1e3, 1)
    sum = ClippedSum(LINE.of_radius(radius), n, grid=mechanism.grid)
    one = int(clip_to_ball(np.array([[5.0]]), radius, mechanism.grid)[0, 0] / mechanism.grid)
    sum.total, sum.count = np.array([(n - 3) * one * mechanism.grid]), n - 3
    sum.add(np.full((3, 1, 1), 5.0))
    assert int(sum.total[0] / mechanism.grid) == n * one < 2**53


def test_a_sum_off_the_grid_is_refused_before_anything_is_drawn(monkeypatch):
    query = on_a_line(1)
    mechanism = LatticeLaplace.of(query, 1.0)
    monkeypatch.setattr(lattice, "vector", pytest.fail)
    for off in (0.5, np.nan):
        query.total = lambda grid, off=off: np.array([off * grid])
        with pytest.raises(ValueError, match="off the grid; accepted are sums on it"):
            mechanism.answer(query)


def test_coordinates_and_answers_have_noise_of_their_own():
    query = FrechetMean(random_spd(5, 3, 1.0, 0), Ball(2.0, np.eye(3)))
    mechanism = LatticeLaplace.of(query, 1.0)
    y = mechanism.answer(query, size=(7, 2))
    assert y.shape == (7, 2, 6) and len(np.unique(y)) == y.size
    assert mechanism.answer(query, size=0).shape == (0, 6)


@pytest.mark.slow
def test_answers_lie_about_the_mean_as_far_as_their_law_says(monkeypatch):
    with_seed(monkeypatch)
    X, ball, n = random_spd(40, 2, 1.0, 0), Ball(2.0, np.eye(2)), 3000
    query = FrechetMean(X, ball)
    mechanism = LatticeLaplace.of(query, 2.0)
    y = mechanism.answer(query, size=n) - query.total() / query.divisor
    length, error = np.linalg.norm(y, axis=1), mechanism.error(3)
    assert abs(length.mean() / error.mean() - 1) < AWAY / math.sqrt(3 * n)
    assert np.linalg.norm(y.mean(axis=0)) < 3 * AWAY * mechanism.scale / math.sqrt(n)


# the estimator

def private(center, space=None, **options):
    return PrivateFrechetMean(1.0, 0, Ball(1.0, center, space), LatticeLaplace, **options)


def test_a_release_lies_in_the_ball_and_no_two_are_alike():
    X = random_spd(4, 3, 2.0, 0)
    fits = [private(np.eye(3)).fit(X) for _ in range(5)]
    assert all(np.linalg.norm(fit.log_mean_) <= 1 + 1e-12 for fit in fits)
    assert len({fit.mean_.tobytes() for fit in fits}) == 5
    one = fits[0].release_
    assert (one.delta, one.seeded) == (0, False) and "last bits" not in str(one)


def test_the_tangent_mean_of_a_curved_space_has_one():
    X = random_spd(30, 2, 1.0, 0)
    mean = private(np.eye(2), AffineInvariant(2), statistic="tangent").fit(X).mean_
    assert AffineInvariant(2).dist(np.eye(2), mean) <= 1 + 1e-9


def test_a_mechanism_is_copied_with_all_that_it_is():
    mechanism = LatticeLaplace(1.0, 10, 1.0, 1)
    for other in (pickle.loads(pickle.dumps(mechanism)), copy.deepcopy(mechanism)):
        assert repr(other) == repr(mechanism)
        assert other.answer(on_a_line(10)).shape == (1, )


# what is refused

BAD = np.full((3, 2, 2), np.nan)  # records that raise when they are looked at
PLANE = Ball(1.0, np.eye(2))


def test_a_seed_is_refused_before_a_record_is_looked_at():
    with pytest.raises(ValueError, match="rng is 7; accepted is None: exact noise comes from"):
        private(np.eye(2)).fit(BAD, rng=7)
    query = FrechetMean(BAD, PLANE)
    for rng in (np.random.default_rng(0), random.Random(0)):
        with pytest.raises(ValueError, match="rng is .*; accepted is None"):
            LatticeLaplace.of(query, 1.0).answer(query, rng)


def test_a_bad_record_is_refused_before_anything_is_drawn(monkeypatch):
    query = FrechetMean(BAD, PLANE)
    mechanism = LatticeLaplace.of(query, 1.0)
    monkeypatch.setattr(lattice, "vector", pytest.fail)
    with pytest.raises(ValueError, match="X"):
        mechanism.answer(query)


@pytest.mark.parametrize("space", [AffineInvariant(2), Sphere(2)])
def test_a_curved_space_is_refused_with_what_to_do(space):
    X = np.broadcast_to(np.eye(2) if space.shape == (2, 2) else np.eye(3)[0], (3, *space.shape))
    ball = Ball(0.5, X[0], space)
    with pytest.raises(ValueError, match='are flat spaces, .*statistic="tangent"'):
        LatticeLaplace.of(FrechetMean(X, ball), 1.0)
    assert LatticeLaplace.of(FrechetMean(X, ball.tangent()), 1.0)


def test_matrices_that_are_too_large_are_refused_before_a_record_is_looked_at():
    assert LatticeLaplace.of(FrechetMean(np.full((3, 20, 20), np.nan), Ball(1.0, np.eye(20))), 1.0)
    query = FrechetMean(np.full((3, 21, 21), np.nan), Ball(1.0, np.eye(21)))
    with pytest.raises(ValueError, match="^d is 231; accepted are integers from 1 to 210$"):
        LatticeLaplace.of(query, 1.0)


@pytest.mark.parametrize("query", [on_a_line(11), on_a_line(9),
                                   FrechetMean(np.zeros((11, 1, 1)), LINE,
                                               weights=[1] * 9 + [0.5] * 2),
                                   FrechetMean(np.zeros((10, 1, 1)), LINE.of_radius(1.5))])
def test_a_query_of_other_records_is_refused(query):
    with pytest.raises(ValueError, match="accepted are n up to 10, radii up to 1 and the divisor"):
        LatticeLaplace(1.0, 10, 1.0, 1).answer(query)


def test_a_query_of_another_dimension_is_refused():
    with pytest.raises(ValueError, match="d is 1; accepted is 3, the mechanism's own"):
        LatticeLaplace(1.0, 10, 1.0, 3).answer(on_a_line(10))


def test_floats_of_ones_own_are_refused():
    mechanism = LatticeLaplace(1.0, 10, 1.0, 2)
    for attempt in (mechanism.perturb, mechanism.release):
        with pytest.raises(ValueError, match="only sums of records on its own grid; accepted is"):
            attempt(np.zeros((2, 2)))


def test_a_delta_is_refused():
    with pytest.raises(ValueError, match='^delta is 1e-06; accepted are 0 with "discrete laplace"'):
        LatticeLaplace.of(on_a_line(3), 1.0, 1e-6)


@pytest.mark.parametrize("options, message", [
    ({"radius": 0}, "radius is 0; accepted are"),
    ({"n": 0}, "n is 0; accepted are integers from 1 to 1099511627776"),
    ({"n": MOST_RECORDS + 1}, "n is 1099511627777; accepted are integers from 1"),
    ({"d": 0}, "d is 0; accepted are integers from 1 to 210"),
    ({"d": 211}, "d is 211; accepted are integers from 1 to 210"),
    ({"epsilon": 2e3}, "epsilon is 2000.0; accepted are"),
    ({"epsilon": 0}, "epsilon is 0; accepted are"),
    ({"divisor": 0}, "divisor is 0; accepted are finite numbers above 0"),
])
def test_parameters_that_are_none_are_refused(options, message):
    with pytest.raises(ValueError, match=message):
        LatticeLaplace(**{"radius": 1.0, "n": 3, "epsilon": 1.0, "d": 3} | options)
