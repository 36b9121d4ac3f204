"""How far the truth may be: over the noise alone, and over noise and sampling."""

import math

import numpy as np
import pytest
from scipy.stats import binomtest, chi, chi2, gamma

from spdlib import Ball, PrivateClassMeans, PrivateFrechetMean, Release, Sphere, invvecd, logm, vecd
from spdlib.accounting import regions
from spdlib.queries import FrechetMean
from spdlib.spaces import Euclidean

BALL = Ball(2.0, np.zeros((2, 2)), Euclidean(2))
D = 3


def release(Y, rng=0, **told):
    told = {"epsilon": 5.0, "delta": 1e-6, "ball": BALL} | told
    return PrivateFrechetMean(**told).fit(invvecd(Y), rng=rng).release_


SMALL = 0.1 * np.random.default_rng(0).standard_normal((50, D))


def test_the_noise_alone_has_its_law_by_every_name():
    for mechanism, delta in [("gaussian", 1e-6), ("classical gaussian", 1e-6), ("l2", 1e-6),
                             ("laplace", 0)]:
        found = release(SMALL, mechanism=mechanism, delta=delta, epsilon=0.5)
        law = chi(D, scale=found.noise["sigma"]) if "sigma" in found.noise else \
            gamma(D, scale=found.noise["scale"])
        for level in (0.5, 0.95, 0.9999):
            assert found.within(level) == pytest.approx(law.ppf(level), rel=1e-8)


def test_it_is_read_off_the_document_and_nothing_else():
    found = release(SMALL, spread=True, refine=1)
    again = Release.from_json(found.to_json())
    assert (again.within(0.9), again.region(0.9)) == (found.within(0.9), found.region(0.9))
    assert found.region(0.9, bias=1.0) == pytest.approx(1 + found.region(0.9), rel=1e-12)
    assert found.within(0.9) < found.region(0.9) < found.region(0.99)


def test_a_region_has_the_unit_of_the_data_and_all_levels():
    near = release(SMALL, spread=True)
    for unit in 1e-3, 1e-6, 1e-10, 1e-100, 1e100:
        far = release(SMALL * unit, spread=True, ball=Ball(2.0 * unit, np.zeros((2, 2)),
                                                          Euclidean(2)))
        for level in 0.5, 0.95, 0.9999:
            assert far.region(level) == pytest.approx(unit * near.region(level), rel=1e-6)
    assert release(SMALL, spread=True, shrink=True).region(0.9999) > near.region(0.99)


def test_regions_allow_for_a_mean_that_float64_does_not_hold():
    X = np.stack([1e-290 * np.diag([1.0, 6e-16])] * 400)
    found = PrivateFrechetMean(100.0, 1e-6, Ball.from_bounds(1e-306, 1e-200, k=2),
                               spread=True).fit(X, rng=0).release_
    away = np.linalg.norm(vecd(logm(found.mean)) - vecd(logm(X[0])))
    alone = chi(D, scale=found.noises["means"]["sigma"]).ppf(0.9999)
    moved = np.linalg.norm(vecd(logm(found.mean)) - found.log_mean)
    assert found.mean_off_by == pytest.approx(moved)
    assert found.mean_off_by > 1 and alone < away < found.within(0.9999) < found.region(0.9999)
    assert Release.from_json(found.to_json()).within(0.9) == found.within(0.9)
    assert release(SMALL).mean_off_by is None


@pytest.mark.slow
@pytest.mark.parametrize("tried, sound", [
    ([1, 2, 3, 4, 6, 8, 11, 14, 18], True), ([1, 2, 3, 4, 6], False)])
def test_the_numbers_of_directions_that_are_left_out_are_within_what_is_rounded_up(tried, sound):
    missed = []
    for d in 7, 10, 36:
        for level in 0.5, 0.55, 0.6, 0.65, 0.7, 0.8, 0.95:
            for sigma in 0.0, 0.1, 0.3:
                of = [regions._quantile(1.0, m, sigma, d, level) for m in range(1, d + 1)]
                if sound:
                    assert regions._longest(1.0, sigma, d, level) == max(
                        of[m - 1] for m in {*tried, d} if m <= d)
                missed.append(max(of) / max(of[m - 1] for m in {*tried, d} if m <= d))
    assert (max(missed) < regions.ROUNDED) == sound


def test_a_document_without_a_scale_of_noise_has_no_law():
    edited = release(SMALL, mechanism="l2").to_dict() | {"noise": {}}
    with pytest.raises(ValueError, match="mechanism is 'l2'"):
        Release.from_dict(edited).within(0.9)


def covered(hits, level):
    """Whether so many hits are no sign of a smaller share."""
    return binomtest(int(np.sum(hits)), len(hits)).proportion_ci(1 - 1e-4).high >= level


@pytest.mark.slow
@pytest.mark.parametrize("shrink", [False, True])
def test_the_mean_of_the_clipped_records_is_within_after_projection_and_shrinkage(shrink):
    Y = np.random.default_rng(1).standard_normal((9, D))
    clipped = Y * np.minimum(1, 2 / np.linalg.norm(Y, axis=1, keepdims=True))
    hits = []
    for seed in range(1500):
        found = release(Y, seed, shrink=shrink, epsilon=1.0)
        hits.append(np.linalg.norm(vecd(found.mean) - clipped.mean(axis=0)) <= found.within(0.9))
    assert covered(hits, 0.9)


def population(kind, n, rng):
    if kind == "on a line":
        return np.outer(rng.standard_normal(n), [0.3, 0, 0])
    Y = 0.3 * rng.standard_normal((n, D))
    if kind == "heavy tails":
        return Y / np.sqrt(rng.chisquare(3, (n, 1)) / 3)
    if kind == "skewed":
        return 0.3 * rng.exponential(size=(n, D))
    if kind == "far out":
        Y[rng.random(n) < 0.05] += [6, 0, 0]
    return Y


@pytest.mark.slow
@pytest.mark.parametrize("kind", ["normal", "on a line", "heavy tails", "skewed", "far out"])
@pytest.mark.parametrize("n", [15, 300])
def test_the_mean_of_the_clipped_population_is_in_the_region(kind, n):
    many = population(kind, 10**6, np.random.default_rng(0))
    truth = (many * np.minimum(1, 2 / np.linalg.norm(many, axis=1, keepdims=True))).mean(axis=0)
    hits, noise = [], []
    for seed in range(400):
        rng = np.random.default_rng(seed)
        found = release(population(kind, n, rng), rng, spread=True, epsilon=100.0)
        error = np.linalg.norm(vecd(found.mean) - truth)
        hits.append(error <= found.region(0.9))
        noise.append(error <= found.within(0.9))
    assert covered(hits, 0.9) and not covered(noise, 0.9)


@pytest.mark.slow
def test_the_quantile_is_that_of_the_law_of_the_sum():
    rng = np.random.default_rng(2)
    for m, d in (1, 3), (2, 6), (6, 6):
        y = rng.standard_normal((10**6, d))
        y[:, :m] *= math.sqrt(2 / m + 0.3**2) / 0.3
        lengths = 0.3 * np.linalg.norm(y, axis=1)
        assert regions._quantile(2.0, m, 0.3, d, 0.95) == pytest.approx(
            np.quantile(lengths, 0.95), rel=5e-3)


@pytest.mark.parametrize("told, message", [
    ({"level": 0.4}, "level is 0.4; accepted are numbers from 0.5 to 0.9999"),
    ({"level": 1}, "level is 1; accepted are"),
    ({"level": 0.9, "bias": -1}, "bias is -1; accepted are finite numbers from 0 on"),
])
def test_what_is_no_level_or_no_bias_is_refused(told, message):
    with pytest.raises(ValueError, match=message):
        release(SMALL, spread=True).region(**told)


def test_releases_of_which_it_is_not_known_are_refused():
    with pytest.raises(ValueError, match="spread is None; accepted is a release with one"):
        release(SMALL).region()
    curved = PrivateFrechetMean(1.0, 0, Ball(0.5, [0, 0, 1.0], Sphere(2)), "laplace").fit(
        np.tile([0, 0, 1.0], (9, 1)), rng=0).release_
    with pytest.raises(ValueError, match="mechanism is 'laplace' on Sphere"):
        curved.within()
    classes = PrivateClassMeans(1.0, 1e-6, BALL, [0]).fit(invvecd(SMALL), [0] * 50, rng=0)
    with pytest.raises(ValueError, match="accepted are releases of one mean"):
        classes.release_.within()


def two_groups(kinds, n, seed, **told):
    """Releases about two groups, in one ball that was found on both of them together."""
    rng = np.random.default_rng(seed)
    groups = [population(kind, n, rng) for kind in kinds]
    wide = Ball(20.0, np.zeros((2, 2)), Euclidean(2))
    both = PrivateFrechetMean(20.0, 1e-6, wide, refine="auto")
    ball = both.fit(invvecd(np.concatenate(groups)), rng=rng).ball_
    told = {"ball": ball, "spread": True, "epsilon": 20.0} | told
    return [release(Y, rng, **told) for Y in groups]


@pytest.mark.slow
@pytest.mark.parametrize("kind", ["normal", "on a line", "heavy tails", "skewed", "far out"])
@pytest.mark.parametrize("n", [40, 300])
def test_groups_of_one_population_are_rarely_told_apart(kind, n):
    told = [one.apart(other, 0.8) > 0 for one, other in (two_groups([kind] * 2, n, seed)
                                                         for seed in range(120))]
    assert covered(np.logical_not(told), 0.8)


def test_groups_of_two_populations_are_told_apart_and_by_no_more_than_they_are():
    one, other = two_groups(["normal", "skewed"], 3000, 0)
    assert 0 < one.apart(other) < 0.3 * math.sqrt(D)
    assert one.apart(other) == other.apart(one) < one.apart(other, 0.5)
    assert one.apart(one) == 0


def test_groups_that_cannot_be_compared_are_refused():
    one, other = release(SMALL, spread=True), release(SMALL, spread=True, ball=BALL.of_radius(1))
    with pytest.raises(ValueError, match="other has a ball of radius 1 .* of radius 2 "):
        one.apart(other)
    with pytest.raises(ValueError, match="shrink is True; accepted for a distance is False"):
        one.apart(release(SMALL, spread=True, shrink=True))
    with pytest.raises(ValueError, match="spread is None"):
        release(SMALL).apart(one)


def test_a_document_holds_the_regions_that_are_written_into_it():
    made = release(SMALL, spread=True)
    read = Release.from_json(made.with_region(0.95).with_region(0.5).to_json())
    assert read.regions == {"0.95": made.region(0.95), "0.5": made.region(0.5)}
    assert made.regions is None and read.bias is None
    declared = made.with_region(0.9, bias=0.1)
    assert declared.bias == 0.1 and declared.regions == {"0.9": made.region(0.9, 0.1)}
    with pytest.raises(ValueError, match="bias is 0.0; accepted beside"):
        declared.with_region(0.95)
    with pytest.raises(ValueError, match="spread is None"):
        release(SMALL).with_region()


def test_the_cut_of_records_to_their_grid_is_allowed_for():
    """Of equal records of three binary digits too many each is cut by nearly the same."""
    n, ball = 2**22, Ball(1.0, [[0.0]], Euclidean(1))
    X = np.full((n, 1, 1), 1 / 3)
    made = PrivateFrechetMean(1000.0, 1e-6, ball).fit(X, rng=0)
    cut = 1 / 3 - FrechetMean(X, ball).total()[0] / n
    noise = chi(1, scale=made.mechanism_.sigma).ppf(0.95)
    assert cut > 0 and noise + cut <= made.release_.within(0.95) < noise + 4 * cut


@pytest.mark.parametrize("d", [28, 105, 210])
def test_no_other_number_of_equal_directions_is_worse(d):
    for level in 0.6, 0.8, 0.96:
        worst = max((chi2.ppf(level, m) / m) ** 0.5 for m in range(1, d + 1))
        assert worst <= regions._longest(1.0, 0.0, d, level) <= 1.002 * worst


def test_a_region_about_clipped_records_only_says_so():
    ball = Ball(1e-3, np.zeros((2, 2)), Euclidean(2))
    far = release(SMALL, spread=True, count=True, ball=ball, epsilon=100.0)
    with pytest.warns(UserWarning, match="50 of 50 records lie outside"):
        far.region()
    assert far.noises["count"]["sigma"] < 5


def test_the_smallest_balls_that_are_found_have_a_region():
    ball = Ball(1e-149, [[0.0]], Euclidean(1))
    private = PrivateFrechetMean(1e3, 0.4, ball, refine=8, spread=True)
    made = private.fit(np.zeros((500, 1, 1)), rng=0)
    assert made.ball_.radius >= 1e-150 and made.release_.region() < 1e-148
