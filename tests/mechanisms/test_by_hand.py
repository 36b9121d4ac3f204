"""A mechanism written by hand, one class of a few lines, works wherever those of spdlib do."""

import inspect
import json
import math
import pickle
import re
import struct

import numpy as np
import pytest
from conftest import mostly_slow
from scipy.stats import erlang, gamma, kstest
from tables import BALLS, FAST, POLE, in_ball

from spdlib import (Ball, BudgetAccountant, PrivateClassMeans, PrivateFrechetMean,
                    PrivateGeodesicRegression, Release, Sphere, TangentGaussian, expected_error,
                    plan, records_needed)
from spdlib.accounting import compose
from spdlib.audit import adversaries, audit, replay
from spdlib.calibration import l2_delta, sigma_analytic
from spdlib.mechanisms import GaussianNoise, Noise
from spdlib.planning import worst_error
from spdlib.queries import FrechetMean
from spdlib.samplers import sample_laplace
from spdlib.spaces.ball import project_to_ball


class WideGaussian(GaussianNoise):
    """Normal noise of some times the least scale, by default twice."""

    name, public = "wide gaussian", ("sensitivity", "sigma", "mu")

    def __init__(self, sensitivity, epsilon, delta, times=2.0):
        self.sensitivity = sensitivity
        self.sigma = times * sigma_analytic(sensitivity, epsilon, delta)
        self.mu = math.nextafter(sensitivity / self.sigma, math.inf)  # more promises less

    @classmethod
    def of(cls, query, epsilon, delta, times=2.0):
        return cls(query.chart_sensitivity, epsilon, delta, times)


class WideLaplace(Noise):
    """Noise of density exp(-‖x‖/s) for half of the promised ε, added in a chart."""

    name, law, pure, public = "wide laplace", "l2", True, ("sensitivity", "scale")

    def __init__(self, sensitivity, epsilon):
        self.sensitivity, self.scale = sensitivity, 2 * sensitivity / epsilon

    @property
    def loss(self):
        return math.nextafter(self.sensitivity / self.scale, math.inf)  # more promises less

    @classmethod
    def of(cls, query, epsilon, delta):
        return cls(query.chart_sensitivity, epsilon)

    def error(self, d):
        return gamma(d, scale=self.scale)

    def delta(self, epsilon, d):
        return l2_delta(self.scale, epsilon, d, self.sensitivity)

    def _noise(self, shape, rng):
        return self.scale * sample_laplace(shape, rng)


BY_HAND = {"gaussian": WideGaussian, "laplace": WideLaplace}
both = pytest.mark.parametrize("kind", BY_HAND.values(), ids=BY_HAND)
BALL = Ball(1.0, np.eye(3))
X = in_ball(BALL, 40, np.random.default_rng(0))
Y = [0, 1] * 20


def delta_of(kind):
    return 0 if kind.pure else 1e-6


def private(kind, ball=BALL, epsilon=1.0, **options):
    return PrivateFrechetMean(epsilon, delta_of(kind), ball, kind, **options)


def wide(mechanism, **options):
    """A mean by a Gaussian mechanism, named in any way."""
    return PrivateFrechetMean(1.0, 1e-6, BALL, mechanism, **options)


def noise(kind):
    """The mechanism for a mean of which one of 40 records moves 2/40."""
    return kind.of(FrechetMean(X, BALL), 1.0, delta_of(kind))


@both
def test_it_is_one_class_of_under_40_lines(kind):
    assert len(inspect.getsource(kind).splitlines()) < 40


# means

@both
@pytest.mark.parametrize("name", mostly_slow(BALLS, *FAST))
def test_a_mean_is_released_in_the_ball_of_any_space(name, kind):
    ball = BALLS[name]
    records = in_ball(ball, 9, np.random.default_rng(1))
    for statistic in "frechet", "tangent":
        for seed in range(5):
            made = private(kind, ball, 0.1, statistic=statistic).fit(records, rng=seed)
            far = ball.space.dist(ball.center, made.mean_)
            assert far <= ball.radius * (1 + 1e-9) and type(made.mechanism_) is kind


@pytest.mark.slow
@both
def test_a_mean_is_released_in_a_ball_onto_which_it_may_do_harm_to_project(kind):
    """The noise is added in the chart, where the ball is convex."""
    ball = Ball(1.3, POLE, Sphere(2))
    assert not ball.harmless
    records = in_ball(ball, 9, np.random.default_rng(1))
    far = [ball.space.dist(POLE, private(kind, ball, 0.1).fit(records, rng=seed).mean_)
           for seed in range(20)]
    assert max(far) == pytest.approx(1.3) and kind.in_chart


@both
def test_a_release_is_the_mean_with_noise_of_the_law_projected(kind):
    made, step = private(kind).fit(X, rng=3), FrechetMean(X, BALL).step
    noisy = made.mechanism_.perturb(step, 3)
    assert np.array_equal(made.log_mean_, project_to_ball(noisy, 1.0))
    drawn = np.linalg.norm(made.mechanism_.answer(FrechetMean(X, BALL), 5, 20_000) - step, axis=1)
    law = made.mechanism_.error(6)
    band = np.sqrt(np.log(2e9) / 40_000)
    assert kstest(drawn, law.cdf).statistic < band
    assert kstest(drawn / 1.1, law.cdf).statistic > band


@both
def test_an_opponent_moves_it_by_the_sensitivity_and_counts_no_more_than_it_promises(kind):
    studies = adversaries(X, BALL)

    def release(study, seed):
        made = private(kind).fit(study, rng=seed)
        return made.log_mean_, made.mechanism_.sensitivity

    assert 1 - 1e-9 < replay(release, studies) <= 1 + 1e-9
    mechanism, rng, shift = noise(kind), np.random.default_rng(0), np.eye(6)[0]
    sample = [mechanism.perturb(mechanism.sensitivity * s * shift, rng, 40_000) for s in (0, 1)]
    assert 0 < audit(*sample, delta_of(kind), 1 - 1e-6) <= 1.0


@both
def test_weights_and_batches_are_taken_in_as_by_any_other(kind):
    weighted = private(kind).fit(X, sample_weight=np.arange(40), rng=1)
    assert weighted.mechanism_.sensitivity == pytest.approx(2 * 39 / np.arange(40).sum())
    batches = private(kind, n=40).partial_fit(X[25:]).partial_fit(X[:25]).release(rng=1)
    assert np.array_equal(batches.mean_, private(kind).fit(X, rng=1).mean_)


def test_options_are_its_own_and_known_by_name():
    three = WideGaussian.with_options(times=3.0)
    named = "gaussian", WideGaussian.with_options(times=1.0), WideGaussian, three
    fits = [wide(mechanism).fit(X, rng=0) for mechanism in named]
    least = fits[0].mechanism_.sigma
    assert [made.mechanism_.sigma / least for made in fits] == pytest.approx([1, 1, 2, 3])
    assert np.array_equal(fits[0].mean_, fits[1].mean_)
    assert repr(three) == "WideGaussian.with_options(times=3.0)" and repr(three) in repr(fits[3])
    words = r"^clip is 1; accepted with 'wide gaussian' are the options \['times'\]$"
    with pytest.raises(ValueError, match=words):
        WideGaussian.with_options(clip=1)


def test_what_is_gaussian_is_shrunk_and_what_is_not_is_refused():
    made, bare = (private(WideGaussian, shrink=s).fit(X, rng=2) for s in (True, False))
    assert np.linalg.norm(made.log_mean_) < np.linalg.norm(bare.log_mean_)
    with pytest.raises(ValueError, match="accepted is False with '.*', whose noise is not"):
        private(WideLaplace, shrink=True).fit(X)


def test_means_of_classes_have_its_noise_and_ask_for_a_gaussian_one():
    made, least = (PrivateClassMeans(1.0, 1e-6, BALL, [0, 1], kind).fit(X, Y, rng=0)
                   for kind in (WideGaussian, "gaussian"))
    assert type(made.mechanism_) is WideGaussian
    assert made.mechanism_.sigma == 2 * least.mechanism_.sigma
    np.testing.assert_allclose(made.counts_ - 20, 2 * (least.counts_ - 20))  # the same draws, twice
    assert BALL.space.dist(np.eye(3), made.means_).max() <= 1 + 1e-9
    for mechanism in WideLaplace, WideLaplace.with_options():
        with pytest.raises(ValueError, match="^mechanism is .*; accepted are those of Gaussian"):
            PrivateClassMeans(1.0, 0, BALL, [0, 1], mechanism).fit(X, Y)


@both
def test_it_is_refused_for_curves(kind):
    curve = PrivateGeodesicRegression(1.0, delta_of(kind), BALL, 1.0, mechanism=kind)
    with pytest.raises(ValueError, match="^mechanism is .* of a mechanism for curves"):
        curve.fit(np.linspace(0, 1, 40), X)


# planning

@pytest.mark.slow
@both
@pytest.mark.parametrize("at", [0.0, 0.4, 1.0])
def test_the_error_that_is_foreseen_is_that_of_its_releases(kind, at):
    mechanism, rng = noise(kind), np.random.default_rng(0)
    truth = at * np.eye(6)[0]
    released = project_to_ball(mechanism.perturb(truth, rng, 20_000), 1.0)
    errors = np.linalg.norm(released - truth, axis=1)
    exact = expected_error(mechanism, 6, 1.0, at)
    assert exact == pytest.approx(errors.mean(), abs=5 * errors.std() / math.sqrt(20_000))
    assert exact <= worst_error(mechanism, 6, 1.0) * (1 + 1e-6)
    assert expected_error(mechanism, 6) == pytest.approx(mechanism.error(6).mean())


@pytest.mark.slow
def test_twice_the_scale_errs_twice_as_much_and_takes_twice_as_many_records():
    pairs = [(WideGaussian, "gaussian", 1e-6), (WideLaplace, "laplace", 0)]
    for kind, least, delta in pairs:
        wide, near = plan(Ball(1.0, np.eye(3)), 40, 1.0, 1e-6, [kind, least])
        assert (wide.mechanism, wide.delta) == (kind.name, delta)
        assert (wide.scale, wide.bare, wide.quantile) == pytest.approx(
            (2 * near.scale, 2 * near.bare, 2 * near.quantile))
        assert wide.centre > near.centre and wide.worst > near.worst
        assert (wide.shrunk_worst is None) == (kind is WideLaplace)
        n, of_least = (records_needed(Ball(1.0, np.eye(3)), 1.0, delta, 0.05, each)
                       for each in (kind, least))
        assert n == pytest.approx(2 * of_least, abs=1)


def test_a_plan_takes_names_classes_and_options_together():
    rows = plan(Ball(1.0, np.eye(1)), 40, 1.0, 1e-6, [
        "gaussian", TangentGaussian, WideGaussian, WideGaussian.with_options(times=1.0)])
    assert rows[0] == rows[1] and rows[3] == rows[0]._replace(mechanism="wide gaussian")
    assert rows[2].scale == 2 * rows[3].scale
    asked = Ball(1.0, np.eye(3)), 1.0, 1e-6, 0.05
    assert records_needed(*asked, WideGaussian.with_options(times=1.0)) == records_needed(*asked)


class Summed(WideLaplace):
    """The same noise, whose length is the sum of d lengths of one dimension."""

    def error(self, d):
        return erlang(d, 0, self.scale)


@pytest.mark.slow
def test_a_plan_asks_the_law_of_an_error_for_what_all_laws_tell():
    summed, laplace = plan(Ball(1.0, np.eye(3)), 40, 1.0, 1e-6, [Summed, WideLaplace])
    assert summed[2:7] == pytest.approx(laplace[2:7])


@pytest.mark.parametrize("mechanism", ["k-norm gradient", "truncated loss", "noisy descent", 3])
def test_a_plan_of_what_adds_no_noise_is_refused_by_name(mechanism):
    with pytest.raises(ValueError, match=f"^mechanism is {mechanism!r}; accepted are "):
        plan(Ball(1.0, np.eye(3)), 40, 1.0, 1e-6, [mechanism])


# accounting

def test_four_releases_of_twice_the_scale_cost_what_one_of_the_least_does():
    mechanism, least = noise(WideGaussian), TangentGaussian.of(FrechetMean(X, BALL), 1.0, 1e-6)
    assert compose([mechanism] * 4, 6).mu == pytest.approx(least.mu, rel=1e-12)
    account = BudgetAccountant(1.0, 1e-6 * (1 + 1e-6))
    for seed in range(4):
        private(WideGaussian).fit(X, rng=seed, accountant=account)
    assert 0.999 < account.total() <= 1.0
    with pytest.raises(ValueError, match="^mechanism is 'wide gaussian'; accepted are"):
        private(WideGaussian).fit(X, accountant=account)
    assert "4 releases" in repr(account)


@pytest.mark.slow
def test_two_releases_at_half_of_their_promise_cost_it_once():
    pytest.importorskip("dp_accounting")
    account = BudgetAccountant(1.0 + 1e-9, 0)
    for seed in range(2):
        private(WideLaplace).fit(X, rng=seed, accountant=account)
    assert account.total() == pytest.approx(1.0)
    with pytest.raises(ValueError, match="^mechanism is 'wide laplace'; accepted"):
        private(WideLaplace).fit(X, accountant=account)
    together = compose([noise(WideLaplace)] * 2 + [noise(WideGaussian)], 6)
    assert 1e-9 < together.delta(0.7) < together.delta(0.3)
    assert BudgetAccountant.take_over(account.hand_over()).total() == pytest.approx(1.0)


# the document

@both
def test_the_document_has_its_name_and_its_public_numbers_and_comes_back(kind):
    made = private(kind).fit(X, rng=0)
    mechanism, document = made.mechanism_, made.release_
    assert document.mechanism == kind.name
    assert document.noise == {name: getattr(mechanism, name) for name in kind.public}
    assert document.mu == getattr(mechanism, "mu", None)
    assert Release.from_json(document.to_json()) == document
    shown = ", ".join(f"{name}={value!r}" for name, value in document.noise.items())
    assert repr(mechanism) == f"{kind.__name__}({shown})"
    assert "(1.0, " in document.privacy and "not of the last bits of floats" in document.privacy
    copied = pickle.loads(pickle.dumps(made))
    for other in (copied, copied.fit(X, rng=0)):
        assert other.release_ == document and repr(other) == repr(made)


class Keeps:
    """What makes a mechanism keep something private, under a name that is not listed."""

    @classmethod
    def of(cls, query, epsilon, delta):
        made = super().of(query, epsilon, delta)
        made.norm = float(np.linalg.norm(query.step))
        return made

    def _prepared(self, query):
        self.distance = float(query.step[-1])
        return super()._prepared(query)


class KeepsGaussian(Keeps, WideGaussian):
    pass


class KeepsLaplace(Keeps, WideLaplace):
    pass


def traces(thing, secrets):
    """The secrets that stand in a text or in bytes, as digits or as floats of either order."""
    found = []
    for secret in secrets:
        digits = re.escape(f"{abs(secret):.5g}"[:6])
        floats = [struct.pack(order, sign * secret) for order in "<d >d".split()
                  for sign in (1, -1)]
        raw = thing if isinstance(thing, bytes) else thing.encode()
        if any(each in raw for each in floats) or re.search(digits, raw.decode("latin-1")):
            found.append(secret)
    return found


@pytest.mark.slow
@pytest.mark.parametrize("kind", [KeepsGaussian, KeepsLaplace])
def test_a_private_number_that_is_not_listed_appears_nowhere(kind):
    made, account = private(kind), BudgetAccountant(5.0, 1e-4)
    made.fit(X, rng=0, accountant=account)
    mechanism = made.mechanism_
    secrets = mechanism.norm, mechanism.distance
    assert secrets == pytest.approx((np.linalg.norm(FrechetMean(X, BALL).step),
                                     FrechetMean(X, BALL).step[-1]))
    assert traces(repr(vars(mechanism)), secrets) == list(secrets)  # one that looks finds it
    assert traces(pickle.dumps(vars(mechanism)), secrets) == list(secrets)
    document, small = made.release_, BudgetAccountant(0.01, 1e-6 if delta_of(kind) else 0)
    with pytest.raises(ValueError) as refused:
        private(kind).fit(X, accountant=small)
    assert f"mechanism is {mechanism.name!r}" in str(refused.value)
    told = {
        "document": document.to_json(), "dict": json.dumps(document.to_dict()),
        "its repr": repr(document), "its pickle": pickle.dumps(document), "mechanism":
        repr(mechanism), "estimator": repr(made), "words": made.privacy_, "str": str(mechanism),
        "refusal": str(refused.value), "account": repr(account), "handed over": account.hand_over(),
        "params": repr(made.get_params()),
    }
    assert {name: traces(text, secrets) for name, text in told.items()} == dict.fromkeys(told, [])
    assert not {"norm", "distance"} & set(document.noise)


def test_a_number_that_is_listed_is_published():
    """So the list is what decides, and nothing else."""
    listed = type("Lists", (KeepsGaussian,), {"public": (*WideGaussian.public, "norm")})
    made = private(listed).fit(X, rng=0)
    assert made.release_.noise["norm"] == made.mechanism_.norm


# what is wrong with a class is said before anything is drawn or spent

class Drawn(np.random.Generator):
    """A generator that is not to be asked for anything."""

    def standard_normal(self, size=None):
        if size is not None and 0 in np.atleast_1d(size):
            return np.zeros(size)
        raise AssertionError("something was drawn")


RELEASES = {
    "mean": lambda kind, **paid: private(kind).fit(X, **paid),
    "batches": lambda kind, **paid: private(kind, n=40).partial_fit(X).release(**paid),
    "classes": lambda kind, **paid: PrivateClassMeans(1.0, 1e-6, BALL, [0, 1], kind)
    .fit(X, Y, **paid),
}


@pytest.mark.parametrize("wrong, words", [
    ({"public": ("none",)}, "none, which is public, is no attribute of a Wrong; accepted are"),
    ({"public": ("rate",), "rate": "Δ/ε"}, "rate, which is public, is 'Δ/ε'; accepted are finite"),
    ({"public": ("rate",), "rate": np.eye(2)}, "rate, which is public, is array"),
    ({"public": ("rate",), "rate": math.nan}, "rate, which is public, is nan; accepted are finite"),
    ({"loss": None}, "loss is None; accepted are"),
    ({"law": "normal"}, "(law|mechanism) is .*; accepted are"),
])
@pytest.mark.parametrize("name", RELEASES)
def test_a_class_that_says_something_wrong_is_refused_before_a_draw_and_before_it_costs(
        wrong, words, name):
    kind, account = type("Wrong", (WideGaussian,), wrong), BudgetAccountant(1.0, 1e-6)
    with pytest.raises(ValueError, match=f"^{words}"):
        RELEASES[name](kind, rng=Drawn(np.random.PCG64(0)), accountant=account)
    assert "0 releases" in repr(account)
    with pytest.raises(AssertionError, match="something was drawn"):  # by one that is right
        RELEASES[name](WideGaussian, rng=Drawn(np.random.PCG64(0)), accountant=account)


def test_a_public_name_that_is_missing_is_named_with_its_class_where_the_mechanism_is_shown():
    wrong = type("Wrong", (WideGaussian,), {"public": ("sensitivity", "spread")})(1.0, 1.0, 1e-6)
    with pytest.raises(ValueError, match="^spread, which is public, is no attribute of a Wrong; "):
        repr(wrong)


def test_noise_that_has_no_error_or_no_loss_says_so():
    class Silent(Noise):
        name, sensitivity = "silent", 1.0

        @classmethod
        def of(cls, query, epsilon, delta):
            return cls()

        def _noise(self, shape, rng):
            return np.zeros(shape)

    with pytest.raises(NotImplementedError):
        plan(Ball(1.0, np.eye(3)), 40, 1.0, 1e-6, [Silent])
    account = BudgetAccountant(1.0, 1e-6)
    for asked in (lambda: compose([Silent()], 6),
                  lambda: private(Silent).fit(X, accountant=account)):
        with pytest.raises((ValueError, AttributeError), match="loss"):
            asked()
    assert "0 releases" in repr(account)
