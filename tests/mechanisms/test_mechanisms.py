"""The laws of the noise, and what the mechanisms refuse."""

import re

import mechanism_table
import numpy as np
import pytest
from mechanism_table import noise
from scipy.stats import gamma, kstest
from tables import POLE, in_ball

from spdlib import mechanisms
from spdlib.calibration import l2_scale, sigma_analytic, sigma_classical
from spdlib.mechanisms import ClassicalGaussian, L2Mechanism, RiemannianLaplace, TangentGaussian
from spdlib.queries import CurveQuery, FrechetMean
from spdlib.spaces import Ball, Euclidean, LogEuclidean, Sphere
from spdlib.spd import expm, invvecd, random_spd, vecd


def test_the_table_of_the_tests_has_all_mechanisms_that_estimators_know_by_name():
    for here, there in ((mechanism_table.MEANS, mechanisms.MEANS),
                        (mechanism_table.CURVES, mechanisms.CURVES)):
        assert {name: row.kind for name, row in here.items()} == there


def test_scales_are_those_of_the_calibration():
    assert 2.0 < RiemannianLaplace(1.0, 0.5).scale <= 2.0 * (1 + 3e-15)
    assert L2Mechanism(1.0, 0.5, 1e-6, 6).scale == l2_scale(1.0, 0.5, 1e-6, 6) < 2.0
    assert TangentGaussian(1.0, 0.5, 1e-6).sigma == sigma_analytic(1.0, 0.5, 1e-6)
    assert ClassicalGaussian(1.0, 0.5, 1e-6).sigma == sigma_classical(1.0, 0.5, 1e-6)


@pytest.mark.parametrize("mechanism", [noise("laplace"), noise("l2")])
def test_noise_of_laplace_form_has_the_scale_of_its_mechanism(mechanism):
    radius = np.linalg.norm(mechanism.perturb(np.zeros((20_000, 6)), 0), axis=1)
    assert kstest(radius / mechanism.scale, gamma(6).cdf).pvalue > 1e-6


def test_the_extrinsic_release_adds_the_noise_to_the_matrix_and_need_not_be_spd():
    M = random_spd(500, 3, 0.2, 0)
    mechanism = TangentGaussian(1.0, 0.5, 1e-6)
    release = mechanism.release(M, 7, space=Euclidean(3))
    assert np.array_equal(release, release.swapaxes(1, 2))
    noise = mechanism.sigma * np.random.default_rng(7).standard_normal((500, 6))
    np.testing.assert_allclose(vecd(release) - vecd(M), noise)
    assert (np.linalg.eigvalsh(release)[:, 0] < 0).mean() > 0.5


def test_the_dimension_of_the_l2_mechanism_is_held():
    with pytest.raises(ValueError, match=r"y has shape \(4, 3\); accepted is \(..., 6\)"):
        L2Mechanism(0.2, 1.0, 1e-6, 6).perturb(np.zeros((4, 3)))


@pytest.mark.parametrize("make", [
    lambda s: RiemannianLaplace(s, 1.0), lambda s: L2Mechanism(s, 1.0, 1e-6, 3),
    lambda s: TangentGaussian(s, 1.0, 1e-6), lambda s: ClassicalGaussian(s, 0.5, 1e-6),
])
@pytest.mark.parametrize("sensitivity", [0, -1.0, np.nan, np.inf, "1"])
def test_a_sensitivity_that_is_none_is_refused(make, sensitivity):
    with pytest.raises(ValueError, match="^sensitivity is .*; accepted are finite numbers above 0"):
        make(sensitivity)


# what a mechanism knows of its query

MECHANISMS = {name: noise(name) for name in mechanism_table.NOISES}
every_mechanism = pytest.mark.parametrize("mechanism", MECHANISMS.values(), ids=MECHANISMS)


def query(radius=0.5, n=10):
    return FrechetMean(random_spd(n, 3, 0.2, 0), Ball(radius, np.eye(3)))


@pytest.mark.parametrize("made, expected", [
    (lambda q: TangentGaussian.of(q, 0.5, 1e-5), lambda s: TangentGaussian(s, 0.5, 1e-5)),
    (lambda q: ClassicalGaussian.of(q, 0.5, 1e-5), lambda s: ClassicalGaussian(s, 0.5, 1e-5)),
    (lambda q: L2Mechanism.of(q, 0.5, 1e-5), lambda s: L2Mechanism(s, 0.5, 1e-5, 6)),
    (lambda q: RiemannianLaplace.of(q, 0.5), lambda s: RiemannianLaplace(s, 0.5)),
    (lambda q: RiemannianLaplace.of(q, 0.5, 0), lambda s: RiemannianLaplace(s, 0.5)),
])
def test_the_mechanism_of_a_query_has_its_sensitivity_and_its_dimension(made, expected):
    mechanism = made(query())
    assert vars(mechanism) == vars(expected(query().sensitivity))
    assert mechanism.sensitivity == query().sensitivity


@pytest.mark.parametrize("delta", [1e-5, 1, True, None, "0", np.nan])
def test_a_delta_for_laplace_noise_other_than_0_is_refused(delta):
    with pytest.raises(ValueError, match=f'delta is {delta!r}; accepted are 0 with "laplace"'):
        RiemannianLaplace.of(query(), 0.5, delta)


@pytest.mark.parametrize("make", [
    lambda: TangentGaussian(1.0, 0.5, 0), lambda: TangentGaussian.of(query(), 0.5, 0),
    lambda: ClassicalGaussian(1.0, 0.5, 0), lambda: L2Mechanism(1.0, 0.5, 0, 3),
])
def test_a_delta_of_0_points_to_laplace_noise(make):
    with pytest.raises(ValueError, match=r'^delta is 0; accepted are .*\(mechanism="laplace"\)'):
        make()


@every_mechanism
def test_a_query_that_is_more_sensitive_than_the_mechanism_is_not_answered(mechanism):
    message = "query has sensitivity 0.25; accepted are those up to 0.2"
    with pytest.raises(ValueError, match=message):
        mechanism.answer(query(radius=1.25))
    assert mechanism.answer(query(radius=0.99)).shape == (6,)


@every_mechanism
def test_an_answer_is_the_step_with_the_noise_of_the_seed_and_is_not_projected(mechanism):
    narrow = query(radius=1e-3)
    assert np.array_equal(mechanism.answer(narrow, 4), mechanism.perturb(narrow.step, 4))
    assert (np.linalg.norm(mechanism.answer(narrow, 4, 50), axis=1) > 1e-3).any()


@pytest.mark.parametrize("size", [None, 3])
@pytest.mark.parametrize("table, name", [(table, name) for table in ("MEANS", "CURVES")
                                         for name in getattr(mechanism_table, table)])
def test_an_answer_holds_no_draw_beyond_those_that_are_paid_for(table, name, size):
    row, ball = getattr(mechanism_table, table)[name], Ball(0.5, POLE, Sphere(2))
    if table == "CURVES":
        asked = CurveQuery(np.linspace(0, 1, 12), in_ball(ball, 12, np.random.default_rng(0)),
                           ball, 1.0)
    else:
        asked = FrechetMean(random_spd(12, 2, 0.2, 0), Ball(0.5, np.eye(2)))
    if row.kind.exact:
        pytest.importorskip("opendp", reason="OpenDP is not installed")
    made = row.choice(0.5).of(asked, 0.5, row.delta(1e-6))
    answer = made.answer(asked, None, size)
    assert answer.base is None or answer.base.size == answer.size


@every_mechanism
@pytest.mark.parametrize("size", [None, 1, 4, 0, (), (2,), (2, 3), np.int64(3), np.array([2, 2])])
def test_several_draws_are_those_of_as_many_copies(mechanism, size):
    batch = () if size is None else tuple(np.atleast_1d(size))
    y = np.arange(12.0).reshape(2, 6) / 10
    copies = np.broadcast_to(y, (*batch, 2, 6))
    drawn = mechanism.perturb(y, 3, size)
    assert drawn.shape == copies.shape and np.array_equal(drawn, mechanism.perturb(copies, 3))
    one = query()
    assert np.array_equal(mechanism.answer(one, 3, size), mechanism.perturb(one.step, 3, size))
    M = expm(invvecd(y))
    for space in (None, LogEuclidean(3), Euclidean(3)):
        released = mechanism.release(M, 3, size, space)
        tiled = np.broadcast_to(M, (*batch, 2, 3, 3))
        assert np.array_equal(released, mechanism.release(tiled, 3, space=space))
        noise = mechanism.perturb(np.zeros((2, 6)), 3, size)
        space = space or LogEuclidean(3)
        np.testing.assert_allclose(space.coordinates(released) - space.coordinates(M), noise,
                                   rtol=1e-9, atol=1e-9)


@pytest.mark.parametrize("size", [-1, 2.0, True, "3", (2, -1), (2, 1.5)])
def test_a_size_that_is_none_is_refused(size):
    with pytest.raises(ValueError, match="size is .*; accepted are integers ≥ 0"):
        TangentGaussian(0.2, 0.5, 1e-5).perturb(np.zeros(3), 0, size)


@every_mechanism
@pytest.mark.parametrize("draw", [
    lambda mechanism, rng: mechanism.perturb(np.zeros(6), rng),
    lambda mechanism, rng: mechanism.release(np.eye(3), rng),
    lambda mechanism, rng: mechanism.answer(query(), rng),
], ids=["perturb", "release", "answer"])
def test_a_generator_that_is_none_is_refused_by_name(mechanism, draw):
    for rng in True, False, np.True_, "x", -1, 1.5, [1, -1]:
        message = f"^rng is {re.escape(repr(rng))}; accepted are a numpy.random.Generator, a seed"
        with pytest.raises(ValueError, match=message):
            draw(mechanism, rng)


@every_mechanism
def test_a_mechanism_shows_its_scale(mechanism):
    name = "sigma" if isinstance(mechanism, TangentGaussian) else "scale"
    scale = f"{name}={getattr(mechanism, name)!r}"
    assert repr(mechanism).startswith(f"{type(mechanism).__name__}(sensitivity=0.2, {scale}")


@pytest.mark.parametrize("M", [1.0, np.ones(3), "M", np.ones((2, 2)) * 1j])
def test_a_summary_that_is_no_matrix_is_refused_by_name(M):
    with pytest.raises(ValueError, match="^M (has shape|is an array of dtype)"):
        TangentGaussian(0.2, 0.5, 1e-5).release(M)


@every_mechanism
def test_what_a_mechanism_costs_is_what_it_was_made_for_and_no_more(mechanism):
    pure = isinstance(mechanism, RiemannianLaplace)
    classical = mechanism is MECHANISMS["classical gaussian"]
    delta = mechanism.delta(0.5, 6)
    assert delta <= (1e-15 if pure else 1e-5)
    assert classical or pure or delta > 1e-5 * (1 - 1e-8)
    assert mechanism.delta(0.49, 6) > (delta if classical or pure else 1e-5)
    assert mechanism.delta(0, 6) > mechanism.delta(0.4, 6)


@every_mechanism
def test_the_law_of_the_error_is_that_of_the_draws(mechanism):
    drawn = np.linalg.norm(mechanism.perturb(np.zeros(6), 5, 20_000), axis=-1)
    law, other = mechanism.error(6), mechanism.error(6).args
    # the band of Dvoretzky, Kiefer, Wolfowitz and Massart at level 1e-9
    band = np.sqrt(np.log(2e9) / 40_000)
    assert other == (6,) and kstest(drawn, law.cdf).statistic < band
    for rival in (law.dist(5, **law.kwds), law.dist(7, **law.kwds),
                  law.dist(6, scale=1.1 * law.kwds["scale"])):
        assert kstest(drawn, rival.cdf).statistic > band


def test_a_mechanism_of_one_dimension_knows_no_other():
    for asked in (lambda: MECHANISMS["l2"].error(3), lambda: MECHANISMS["l2"].delta(0.5, 3)):
        with pytest.raises(ValueError, match="^d is 3; accepted is 6, the mechanism's own"):
            asked()


@pytest.mark.parametrize("mechanism",
                         [TangentGaussian(1.0, 1.0, 1e-6), RiemannianLaplace(1.0, 1.0)],
                         ids=repr)
def test_a_single_number_is_no_vector_of_coordinates(mechanism):
    """Several draws for one would be the entries of one draw in as many dimensions."""
    for size in (None, 4):
        with pytest.raises(ValueError, match=r"^y has shape \(\); accepted is \(..., d\)"):
            mechanism.perturb(1.0, 0, size)
