"""One account of all that is spent: it never promises less, is never exceeded, never becomes two.

The references are quadrature over the noise, the law of randomized response by enumeration, and
the rule of mu, which is exact where all noise is Gaussian.
"""

import concurrent.futures
import copy
import enum
import itertools
import json
import math
import os
import pickle
import signal
import sys

import joblib
import mpmath
import numpy as np
import pytest
from mechanism_table import MEANS
from tables import BALLS, in_ball

from spdlib import (Ball, PrivateClassMeans, PrivateFrechetMean, PrivateGeodesicRegression,
                    TangentGaussian, random_spd)
from spdlib.accounting import BudgetAccountant, compose
from spdlib.calibration import gaussian_delta, gaussian_epsilon, gdp_mu, pure_delta
from spdlib.estimators import private_clipped_count
from spdlib.mechanisms import (DiscreteGaussian, DiscreteLaplace, L2Mechanism, NoisyDescent,
                               RiemannianLaplace, TruncatedCurveLoss, TruncatedLoss)
from spdlib.queries import ClassSums, FrechetMean, RunningMean

X = random_spd(100, 2, 1.0, rng=0)
BALL, SPHERE = Ball(2.0, np.eye(2)), BALLS["sphere 2"].of_radius(0.3)
POINTS = in_ball(SPHERE, 40, np.random.default_rng(0))
CLIPPED = NoisyDescent.with_options(clip=0.2)


def gaussian(epsilon, delta=1e-6):
    return TangentGaussian(1.0, epsilon, delta)


def spend(account, mechanism, d=3, group=None):
    with account.spending(mechanism, d, group):
        pass


def spent(*mechanisms, budget=(2.0, 1e-6)):
    account = BudgetAccountant(*budget)
    for mechanism in mechanisms:
        spend(account, mechanism)
    return account


def two_responses(a, b, epsilon):
    """delta of randomized response at a, then at b, outcome by outcome."""
    delta = 0.0
    for s, t in itertools.product((1, -1), repeat=2):
        p = 1 / (1 + math.exp(-s * a)) / (1 + math.exp(-t * b))
        q = 1 / (1 + math.exp(s * a)) / (1 + math.exp(t * b))
        delta += max(p - math.exp(epsilon) * q, 0)
    return delta


def test_what_gaussian_noise_spends_is_the_root_of_the_sum_of_squares():
    account = spent(gaussian(0.3), gaussian(0.5), gaussian(0.8, 1e-8))
    mu = math.hypot(gdp_mu(0.3, 1e-6), gdp_mu(0.5, 1e-6), gdp_mu(0.8, 1e-8))
    assert account.total() == pytest.approx(gaussian_epsilon(1, 1e-6, mu), rel=1e-8)
    assert account.total() >= gaussian_epsilon(1, 1e-6, mu)


def test_a_pure_promise_costs_at_most_what_randomized_response_costs():
    for loss, epsilon in itertools.product((1e-6, 0.3, 2.0, 40.0, 900.0), (0, 0.1, 1.0, 39.0)):
        with mpmath.workdps(60):
            p, e = mpmath.exp(loss) / (1 + mpmath.exp(loss)), mpmath.exp(epsilon)
            exact = max(p - e * (1 - p), 0)
            assert exact <= pure_delta(loss, epsilon) <= exact * (1 + mpmath.mpf("2e-15"))


@pytest.mark.parametrize("epsilon", [0.0, 0.2, 0.55, 0.79])
def test_two_pure_promises_compose_as_two_randomized_responses(epsilon):
    two = [RiemannianLaplace(0.1, e, SPHERE.space, SPHERE.of_radius(0.5)) for e in (0.3, 0.5)]
    exact, found = two_responses(0.3, 0.5, epsilon), compose(two, 2).delta(epsilon)
    assert exact <= found <= exact + 1e-3


def test_pure_promises_add_up_to_no_more_than_their_sum():
    account = spent(*[RiemannianLaplace(1.0, 0.5)] * 2, budget=(1.0, 0))
    assert 1 - 1e-14 < account.total() <= 1
    assert account.remaining() == 0.0
    assert spent(*[RiemannianLaplace(1.0, 0.1)] * 3, budget=(0.3, 0)).total() <= 0.3
    many = spent(*[RiemannianLaplace(1.0, 0.02)] * 50, budget=(1.0, 1e-6))
    assert many.total() < 0.9  # in one dimension or more, where delta is allowed


@pytest.mark.slow
@pytest.mark.parametrize("mechanism, budget", [
    (gaussian(1.0), (1.0, 1e-6)),
    (L2Mechanism(1.0, 1.0, 1e-9, 3), (1.0, 1e-9)),
    (L2Mechanism(0.3, 0.7, 1e-200, 3), (0.7, 1e-200)),
    (RiemannianLaplace(0.7, 1.0), (1.0, 1e-12)),
    (RiemannianLaplace(0.7, 1.0), (1.0, 0)),
])
def test_the_whole_budget_can_be_spent_at_once_and_then_nothing_is_left(mechanism, budget):
    account = spent(mechanism, budget=budget)
    assert account.total() == pytest.approx(budget[0], rel=2e-3)
    assert account.total() <= budget[0]
    for again in mechanism, RiemannianLaplace(1.0, 0.01):
        with pytest.raises(ValueError, match="^mechanism is .*; accepted are releases that"):
            spend(account, again)
    assert account.remaining() == 0.0


@pytest.mark.parametrize("before, delta", [
    ([], None), ([gaussian(0.5)], None), ([gaussian(0.5)], 1e-9), ([gaussian(0.5)], 1e-3),
    pytest.param([RiemannianLaplace(1.0, 0.4)], 0, marks=pytest.mark.slow), ([], 0),
    pytest.param([gaussian(0.5), L2Mechanism(1, 0.4, 1e-7, 3)], None, marks=pytest.mark.slow),
])
def test_a_release_at_what_remains_is_accepted_and_one_a_hundredth_above_is_not(before, delta):
    account = spent(*before, budget=(1.0, 1e-6))
    left = account.remaining(delta)
    assert left > 0.1

    def one(epsilon):
        if delta == 0:
            return RiemannianLaplace(1.0, epsilon, SPHERE.space, SPHERE)  # known by ε alone
        return gaussian(epsilon, delta or 1e-6)

    total = account.total()
    with pytest.raises(ValueError, match="^mechanism is"):
        spend(account, one(1.01 * left))
    assert account.total() == total
    spend(account, one(left))
    assert total < account.total() <= 1.0


@pytest.mark.slow
def test_noise_of_several_kinds_costs_what_the_composition_says():
    kinds = [gaussian(0.3), L2Mechanism(1, 0.4, 1e-7, 3), RiemannianLaplace(1, 0.2)]
    account = spent(*kinds)
    assert account.total() == pytest.approx(compose(kinds, 3).epsilon(1e-6), rel=1e-3)
    assert account.total() > spent(*kinds[:2]).total() > spent(kinds[0]).total()


@pytest.mark.slow
def test_losses_that_are_hardly_ever_finite_compose_to_no_promise_at_all():
    kinds = [RiemannianLaplace(1.0, e) for e in (518.0, 518.5)]  # each finite with 1.5e-8 at most
    for lost in kinds, [kinds[0]] * 3 + [gaussian(0.5)], [gaussian(999.0), kinds[0]]:
        together = compose(lost, 3)
        assert (together.delta(1.0), together.epsilon(0.3)) == (1.0, math.inf)


@pytest.mark.slow
def test_an_account_of_such_losses_refuses_in_its_own_words():
    account = spent(RiemannianLaplace(1.0, 0.1), budget=(1000, 1e-6))
    with pytest.raises(ValueError, match="^mechanism is 'gaussian'; accepted are releases"):
        spend(account, gaussian(950.0))
    with pytest.raises(ValueError, match="^mechanism is 'laplace'"):
        spend(account, RiemannianLaplace(1.0, 1000.0))
    assert 0.09 < account.total() <= 0.1


@pytest.mark.slow
def test_an_account_accepts_an_l2_entry_of_the_dimension_that_it_was_made_for():
    noise = L2Mechanism(1.0, 0.5, 1e-6, 10)
    account = BudgetAccountant(0.5, 1e-6)
    with pytest.raises(ValueError, match="^mechanism is 'l2'"):
        spend(account, noise, d=2)  # in which the same scale promises less
    spend(account, noise, d=10)
    assert 0.499 < account.total() <= 0.5
    again = BudgetAccountant.take_over(account.hand_over())
    assert 0.499 < again.total() <= 0.5 and again.remaining() == 0


def test_a_budget_without_delta_holds_pure_promises_only():
    account = BudgetAccountant(1.0, 0)
    for mechanism in gaussian(1e-6), gaussian(0.5):
        with pytest.raises(ValueError, match="^mechanism is 'gaussian'"):
            spend(account, mechanism)
    with pytest.raises(ValueError, match="^mechanism is 'l2'"):
        spend(account, L2Mechanism(1.0, 0.9, 0.2, 3))  # whose largest loss is above 1
    spend(account, RiemannianLaplace(1.0, 0.5))
    spend(account, L2Mechanism(1.0, 0.1, 1e-9, 3))
    assert 0.6 < account.total() < 1 and 0 < account.remaining() < 0.4


def test_a_group_without_room_is_refused_while_another_still_has_some():
    account = BudgetAccountant(1.0, 1e-6)
    spend(account, gaussian(0.9), group="a")
    spend(account, gaussian(0.3), group="b")
    for label in "a", None:
        with pytest.raises(ValueError, match="mechanism is 'gaussian'"):
            spend(account, gaussian(0.6), group=label)
    spend(account, gaussian(0.6), group="b")
    mu = math.hypot(gdp_mu(0.3, 1e-6), gdp_mu(0.6, 1e-6))
    assert account._total("b") == pytest.approx(gaussian_epsilon(1, 1e-6, mu), rel=1e-6)
    assert account._total("a") == account.total() == pytest.approx(0.9)


def test_what_each_group_has_lost_is_what_one_would_list():
    account, rng = BudgetAccountant(1000.0, 1e-6), np.random.default_rng(0)
    labels = [None, "a", "b", 1, "1"]
    for label in rng.permutation(np.repeat(np.arange(5), 4)):
        spend(account, gaussian(float(rng.uniform(0.1, 1.0))), group=labels[label])
    for group in (*labels[1:], "new"):
        costs = sorted(s.cost for s in account._spent if s.group in (None, group))
        assert account._histories(group) == {tuple(costs)}
    about_all = tuple(sorted(s.cost for s in account._spent if s.group is None))
    assert account._histories() == {about_all}.union(*map(account._histories, labels[1:]))
    assert BudgetAccountant(1.0, 1e-6)._histories() == set()


def test_the_losses_of_many_groups_are_listed_in_time_that_grows_with_the_releases():
    account = BudgetAccountant(1.0, 1e-6)
    looks = 0

    class Counted(list):
        def __iter__(self):
            nonlocal looks
            looks += 1
            return super().__iter__()

    for label in range(200):
        spend(account, gaussian(0.5), group=label)
    account._spent = Counted(account._spent)
    account._histories()
    assert looks == 1


def test_what_would_exceed_the_budget_is_refused_before_a_record_is_looked_at():
    account = BudgetAccountant(1.0, 1e-6)
    bad = np.full((100, 2, 2), np.nan)
    private = PrivateFrechetMean(1.1, 1e-6, BALL)
    with pytest.raises(ValueError, match="^mechanism is"):
        private.fit(bad, accountant=account)
    assert not hasattr(private, "mean_")
    assert account.total() == 0


@pytest.mark.parametrize("name, ball, statistic", [
    ("gaussian", BALL, "frechet"), ("classical gaussian", BALL, "frechet"),
    pytest.param("l2", BALL, "frechet", marks=pytest.mark.slow),
    pytest.param("laplace", BALL, "frechet", marks=pytest.mark.slow),
    ("laplace", SPHERE, "frechet"), ("k-norm gradient", SPHERE, "frechet"),
    ("truncated loss", SPHERE, "frechet"), ("gaussian", BALLS["triangles"], "tangent"),
])
def test_a_bad_record_costs_nothing_and_leaves_the_generator_as_it_was(name, ball, statistic):
    good, row = in_ball(ball, 40, np.random.default_rng(0)), MEANS[name]
    bad = np.array(good)
    bad[1] = np.nan
    private = PrivateFrechetMean(0.9, row.delta(1e-6), ball, row.choice(ball.radius),
                                 statistic=statistic)
    account, rng = BudgetAccountant(1.0, 1e-6), np.random.default_rng(0)
    before = rng.bit_generator.state
    with pytest.raises(ValueError):
        private.fit(bad, rng=rng, accountant=account)
    assert rng.bit_generator.state == before
    assert account.total() == 0 and "0 releases" in repr(account)
    private.fit(good, rng=rng, accountant=account)
    assert 0.5 < account.total() <= 0.9 * (1 + 1e-3)
    with pytest.raises(ValueError, match="^mechanism is"):
        private.fit(good, rng=rng, accountant=account)


ENDS = [ValueError, KeyboardInterrupt, MemoryError, RuntimeError, SystemExit]


@pytest.mark.parametrize("error", ENDS)
def test_what_ends_in_a_context_that_refunds_is_given_back_and_else_kept(error):
    account = BudgetAccountant(1.0, 1e-6)
    with pytest.raises(error), account.spending(gaussian(0.6), 3, refund=True):
        raise error
    assert account.total() == 0
    with pytest.raises(error), account.spending(gaussian(0.6), 3):
        raise error
    assert account.total() == pytest.approx(0.6)


def test_of_two_equal_releases_a_refund_gives_back_one():
    account = spent(gaussian(0.3))
    with pytest.raises(KeyboardInterrupt), account.spending(gaussian(0.3), 3, refund=True):
        raise KeyboardInterrupt
    assert "1 release," in repr(account)
    account = spent(gaussian(0.8), budget=(1.0, 1e-6))
    with pytest.raises(ValueError), account.spending(gaussian(0.8), 3, refund=True):
        pass  # it is refused: there is nothing to give back
    assert "1 release," in repr(account)


MEAN = PrivateFrechetMean(0.9, 1e-6, BALL)
EXACT_MEAN = PrivateFrechetMean(0.9, 1e-6, BALL, mechanism="discrete gaussian")
CLASSES = PrivateClassMeans(0.9, 1e-6, BALL, [0, 1])
CURVE = PrivateGeodesicRegression(0.9, 1e-6, SPHERE, 1.0, mechanism=CLIPPED)
FITS = {
    "mean": lambda account: MEAN.fit(X, accountant=account),
    "exact mean": lambda account: EXACT_MEAN.fit(X, accountant=account),
    "class means": lambda account: CLASSES.fit(X, np.arange(len(X)) % 2, accountant=account),
    "curve": lambda account: CURVE.fit(np.linspace(0, 1, 40), POINTS, accountant=account),
    "count": lambda account: private_clipped_count(X, BALL, 0.9, accountant=account),
}
# where each looks at the records, and where it draws
LOOKS = {"count": (FrechetMean, "outside"), "curve": (NoisyDescent, "_check"),
         "class means": (ClassSums, "total")}
DRAWS = {"count": (DiscreteLaplace, "draw"), "curve": (NoisyDescent, "_descend")}


@pytest.mark.slow
@pytest.mark.parametrize("error", ENDS)
@pytest.mark.parametrize("name", FITS)
def test_before_a_draw_nothing_is_spent_and_after_it_nothing_is_refunded(name, error, monkeypatch):
    if name == "exact mean":
        pytest.importorskip("opendp")

    def end(*_, **__):
        raise error

    account = BudgetAccountant(1.0, 1e-6)
    with monkeypatch.context() as patched:
        patched.setattr(*LOOKS.get(name, (FrechetMean, "total")), end)
        with pytest.raises(error):
            FITS[name](account)
    assert account.total() == 0
    with monkeypatch.context() as patched:
        patched.setattr(*DRAWS.get(name, (TangentGaussian, "perturb")), end)
        patched.setattr(DiscreteGaussian, "_sampler", lambda mechanism: end)
        with pytest.raises(error):
            FITS[name](account)
    assert account.total() == pytest.approx(0.9, rel=1e-3)


@pytest.mark.parametrize("error", ENDS)
def test_a_sum_of_batches_is_kept_until_a_draw_begins_and_then_forgotten(error, monkeypatch):
    private = PrivateFrechetMean(0.6, 1e-6, BALL, n=100).partial_fit(X)
    account = BudgetAccountant(1.0, 1e-6)

    def end(*_):
        raise error

    with monkeypatch.context() as patched:
        patched.setattr(RunningMean, "total", end)
        with pytest.raises(error):
            private.release(accountant=account)
    assert private._running is not None and account.total() == 0
    with monkeypatch.context() as patched:
        patched.setattr(TangentGaussian, "perturb", end)
        with pytest.raises(error):
            private.release(accountant=account)
    assert private._running is None and account.total() == pytest.approx(0.6)
    with pytest.raises(ValueError, match="no batch has come in"):
        private.release()
    pickle.dumps(private)


def test_a_refund_gives_back_its_own_release_and_no_other():
    account = spent(gaussian(0.3))
    with pytest.raises(ValueError, match="bad record"):
        with account.spending(gaussian(0.5), 3, refund=True):
            spend(account, gaussian(0.7))
            raise ValueError("bad record")
    assert account.total() == spent(gaussian(0.3), gaussian(0.7)).total()


def test_batches_are_paid_for_when_they_are_released_and_stay_where_the_budget_refuses():
    private = PrivateFrechetMean(0.6, 1e-6, BALL, n=100)
    private.partial_fit(X[:50]).partial_fit(X[50:])
    poor, account = BudgetAccountant(0.1, 1e-6), BudgetAccountant(1.0, 1e-6)
    with pytest.raises(ValueError, match="^mechanism is"):
        private.release(accountant=poor)
    private.release(accountant=account)
    assert account.total() == pytest.approx(0.6)


def test_a_chain_is_refused_since_no_promise_is_proved_of_it():
    chain = TruncatedLoss.with_options(clip=0.3, approximate=True)
    private = PrivateFrechetMean(0.5, 0, SPHERE, chain)
    account = BudgetAccountant(1.0, 1e-6)
    with pytest.raises(ValueError, match="^approximate is True; accepted is False"):
        private.fit(POINTS, accountant=account)
    assert account.total() == 0


def test_a_regression_is_paid_for_like_a_mean():
    account, x = BudgetAccountant(1.0, 1e-6), np.linspace(0, 1, 40)
    private = PrivateGeodesicRegression(0.5, 1e-6, SPHERE, 1.0, mechanism=CLIPPED)
    private.fit(x, POINTS, accountant=account)
    assert account.total() == pytest.approx(0.5)
    exact = PrivateGeodesicRegression(0.6, 0, SPHERE, 1.0,
                                      mechanism=TruncatedCurveLoss.with_options(clip=0.2))
    with pytest.raises(ValueError, match="^mechanism is 'truncated loss'"):
        exact.fit(x, POINTS, accountant=account)


def test_groups_lose_in_parallel_and_what_is_about_all_counts_for_each():
    account = BudgetAccountant(1.0, 1e-6)
    for label in "a", "b", np.str_("c"), 4, np.int64(5):
        spend(account, gaussian(0.8), group=label)
    assert account.total() == pytest.approx(0.8)
    spend(account, gaussian(0.3))
    mu = math.hypot(gdp_mu(0.8, 1e-6), gdp_mu(0.3, 1e-6))
    assert account.total() == pytest.approx(gaussian_epsilon(1, 1e-6, mu), rel=1e-6)
    spend(account, gaussian(0.8), group="late")  # of whom nobody has lost but the release about all
    for label in "a", 5, None:
        with pytest.raises(ValueError, match="mechanism is"):
            spend(account, gaussian(0.8), group=label)
    assert account.remaining(group="new") == pytest.approx(
        spent(gaussian(0.3), budget=(1.0, 1e-6)).remaining(), rel=1e-12)
    assert account.remaining(group="a") == account.remaining() < account.remaining(group="new")


def test_a_mean_its_batches_and_a_regression_are_about_their_group_alone():
    account, mean = BudgetAccountant(1.0, 1e-6), PrivateFrechetMean(0.5, 1e-6, BALL, n=100)
    curve = PrivateGeodesicRegression(0.5, 1e-6, SPHERE, 1.0, mechanism=CLIPPED)
    mean.fit(X, accountant=account, group="a")
    mean.partial_fit(X).release(accountant=account, group="b")
    curve.fit(np.linspace(0, 1, 40), POINTS, accountant=account, group="c")
    assert [entry.group for entry in account._spent] == ["a", "b", "c"]
    assert account.total() == pytest.approx(0.5)


class Ward(str, enum.Enum):
    WEST = "west"


class Number(enum.IntEnum):
    ONE = 1


class Loud(str):
    def __str__(self):
        return self.upper()

    def __iter__(self):
        return iter("another")


def test_a_label_of_another_class_is_the_group_of_its_value():
    account = BudgetAccountant(1.0, 1e-6)
    for label, value in ((Ward.WEST, "west"), (Number.ONE, 1), (Loud("a"), "a")):
        spend(account, gaussian(1.0), group=label)
        assert type(account._spent[-1].group) is type(value) and account._spent[-1].group == value
        for again in label, value:
            with pytest.raises(ValueError, match=f"^group {value!r}: mechanism is"):
                spend(account, gaussian(0.1), group=again)
    private = PrivateFrechetMean(0.5, 1e-6, BALL).fit(X, group=Ward.WEST)
    assert private.release_.group == "west"
    with pytest.raises(ValueError, match="^group is"):
        spend(account, gaussian(0.5), group=Loud("\ud800"))


def test_labels_of_two_types_or_spellings_are_two_groups():
    account = BudgetAccountant(1.0, 1e-6)
    for label in 1, "1", " 1":
        spend(account, gaussian(1.0), group=label)
    with pytest.raises(ValueError, match="^group 1: mechanism is"):
        spend(account, gaussian(0.1), group=1)


COPIES = {
    "copy": copy.copy,
    "deepcopy": copy.deepcopy,
    "pickle": lambda account: pickle.loads(pickle.dumps(account)),
    "in a container": lambda account: copy.deepcopy({"account": [account]})["account"][0],
    "a copy of a copy": lambda account: copy.copy(copy.copy(account)),
}


@pytest.mark.parametrize("name", COPIES)
def test_a_copy_refuses_to_spend_and_to_tell(name):
    account = spent(gaussian(0.5))
    other = COPIES[name](account)
    for ask in (lambda: spend(other, gaussian(0.1)), other.total, other.remaining, other.hand_over):
        with pytest.raises(ValueError, match="^accountant is a copy; accepted is the one account"):
            ask()
    assert repr(other) == "BudgetAccountant(2.0, 1e-06): is a copy"
    spend(account, gaussian(0.5))  # and the account goes on


def test_joblib_restores_a_copy(tmp_path):
    joblib.dump(spent(gaussian(0.5)), tmp_path / "account")
    with pytest.raises(ValueError, match="^accountant is a copy"):
        joblib.load(tmp_path / "account").total()


@pytest.mark.skipif(not hasattr(os, "fork"), reason="no processes by fork")
def test_a_forked_process_has_a_copy_even_while_the_lock_is_held():
    account = spent(gaussian(0.5))
    read, write = os.pipe()
    account._lock.acquire()
    if (child := os.fork()) == 0:
        try:
            account.total()
        except ValueError as error:
            os.write(write, str(error).encode())
        finally:
            os._exit(0)
    account._lock.release()
    os.waitpid(child, 0)
    assert os.read(read, 1000).startswith(b"accountant is a copy of another process")
    os.close(read), os.close(write)


@pytest.mark.slow
def test_an_account_that_is_handed_over_is_the_same_elsewhere_and_closed_here():
    account = spent(gaussian(0.5), L2Mechanism(1, 0.2, 1e-7, 3), RiemannianLaplace(1, 0.1))
    spend(account, gaussian(0.3), group="a")
    total, remaining = account.total(), account.remaining(0, group="a")
    document = account.hand_over()
    for ask in (lambda: spend(account, gaussian(0.1)), account.total, account.hand_over):
        with pytest.raises(ValueError, match="^accountant has been handed over; accepted is"):
            ask()
    other = BudgetAccountant.take_over(document)
    assert (other.total(), other.remaining(0, group="a")) == (total, remaining)
    assert json.loads(document)["releases"][-1][-1] == "a"


def test_no_interrupt_leaves_an_account_locked():
    mechanism, interrupts, rung, rng = gaussian(0.001), 0, [], np.random.default_rng(0)

    def interrupt(*_):
        rung.append(1)
        raise KeyboardInterrupt

    before = signal.signal(signal.SIGALRM, interrupt)
    try:
        for _ in range(3000):
            account = BudgetAccountant(1.0, 1e-6)
            try:  # who waits for the lock hears a second signal
                signal.setitimer(signal.ITIMER_REAL, rng.uniform(1e-6, 1.2e-4), 5)
                while True:
                    with account.spending(mechanism, 3, refund=True):
                        account.total()
            except KeyboardInterrupt:
                interrupts += 1
            signal.setitimer(signal.ITIMER_REAL, 0)
            assert not account._lock.locked() and len(rung) == interrupts
    finally:
        signal.setitimer(signal.ITIMER_REAL, 0)
        signal.signal(signal.SIGALRM, before)
    assert interrupts == 3000


def test_a_document_is_taken_over_once():
    document = spent(gaussian(0.5)).hand_over()
    account = BudgetAccountant.take_over(document)
    with pytest.raises(ValueError, match="^document has been taken over before"):
        BudgetAccountant.take_over(document)
    assert BudgetAccountant.take_over(account.hand_over()).total() == pytest.approx(0.5)


def test_what_is_being_released_while_the_account_leaves_counts_as_spent():
    account = BudgetAccountant(1.0, 1e-6)
    with pytest.raises(ValueError, match="bad record"):
        with account.spending(gaussian(0.5), 3):
            document = account.hand_over()
            raise ValueError("bad record")
    assert BudgetAccountant.take_over(document).total() == pytest.approx(0.5)


@pytest.mark.parametrize("change", [
    {"schema": "spdlib.release"}, {"version": 2}, {"epsilon": math.nan}, {"delta": 0.7},
    {"releases": [["gaussian", -1.0, 0, None]]}, {"releases": [["normal", 1.0, 0, None]]},
    {"releases": [["l2", 1.0, 0, None]]}, {"releases": [["l2", 1.0, 3]]}, {"releases": None},
    {"releases": [["pure", 1.0, 0, [1]]]}, {"version": True}, {"version": 1.0},
    {"releases": [["gaussian", 1e308, 0, None]]}, {"releases": [["pure", 1e308, 0, None]]},
    {"releases": [["l2", 1e6, 3, None]]}, {"releases": [["l2", 1e-320, 3, None]]},
    {"releases": [["pure", 10**400, 0, None]]}, {"releases": [["pure", True, 0, None]]},
    {"releases": [["gaussian", 1.0, 0, 2**63]]}, {"releases": [["gaussian", 1.0, 0, "\ud800"]]},
    {"releases": ""}, {"releases": {}}, {"token": 1}, {"token": None}, {"note": "spent"},
])
def test_a_document_that_is_none_is_refused(change):
    document = json.loads(spent(gaussian(0.5)).hand_over())
    with pytest.raises(ValueError, match="^document is no account .*; accepted is what hand_over"):
        BudgetAccountant.take_over(json.dumps(document | change))
    for key in document:
        part = {name: value for name, value in document.items() if name != key}
        with pytest.raises(ValueError, match="^document is no account"):
            BudgetAccountant.take_over(json.dumps(part))


@pytest.mark.parametrize("text, message", [
    ("[" * 100_000, "nested too deeply"), ('{"schema": 1, "schema": 2}', r"\['schema'\] stands"),
    (None, "the JSON object"), ("{", "Expecting"),
], ids=["deep", "twice", "none", "cut"])
def test_a_text_that_is_no_document_is_refused(text, message):
    with pytest.raises(ValueError, match=rf"^document is no account \(.*{message}"):
        BudgetAccountant.take_over(text)


def test_the_dimension_of_an_l2_entry_starts_at_1():
    document = json.loads(spent(gaussian(0.5)).hand_over()) | {"releases": [["l2", 1.0, 0, None]]}
    with pytest.raises(ValueError, match="d is 0; accepted are integers from 1 to 5050"):
        BudgetAccountant.take_over(json.dumps(document))


@pytest.mark.parametrize("law, d, loss", [
    *itertools.product(["gaussian", "pure"], [0], [1e-100, 5e4]),
    ("l2", 1, 1e-100), ("l2", 1, 5e4), ("l2", 5050, 1e-100),
    pytest.param("l2", 5050, 5e4, marks=pytest.mark.slow),
])
def test_every_loss_that_a_document_may_hold_has_a_total(law, d, loss):
    document = json.loads(spent(gaussian(0.5)).hand_over()) | {"releases": [[law, loss, d, None]]}
    account = BudgetAccountant.take_over(json.dumps(document))
    assert 0 <= account.total() <= 2 and repr(account)
    account.hand_over()


class Unknown:
    def __init__(self, law, loss):
        self.law, self.loss = law, loss


def test_what_no_document_could_hold_is_not_spent():
    account = BudgetAccountant(1.0, 1e-6)
    for law, loss, message in (("normal", 0.1, "law is 'normal'"), ("pure", 1e-310, "loss is 1e-"),
                               ("pure", math.inf, "loss is inf")):
        with pytest.raises(ValueError, match=f"^{message}"):
            spend(account, Unknown(law, loss))
    assert account.total() == 0


@pytest.mark.slow
def test_threads_together_never_spend_more_than_there_is():
    account = BudgetAccountant(1.0, 1e-6)
    one = gaussian(0.05)

    def try_to_spend(_):
        try:
            spend(account, one)
            return 1
        except ValueError:
            return 0

    old = sys.getswitchinterval()
    sys.setswitchinterval(1e-6)
    try:
        with concurrent.futures.ThreadPoolExecutor(8) as pool:
            done = sum(pool.map(try_to_spend, range(400)))
    finally:
        sys.setswitchinterval(old)
    most = math.floor((gdp_mu(1.0, 1e-6) / one.mu) ** 2)
    assert done == most and f"{done} releases" in repr(account)
    assert gaussian_delta(1, 1.0, one.mu * math.sqrt(done)) <= 1e-6


def test_an_account_shows_its_budget_what_is_spent_and_how_often():
    account = spent(gaussian(0.5), budget=(1.0, 1e-6))
    assert repr(account) == "BudgetAccountant(1.0, 1e-06): 1 release, at most 0.5 spent"
    assert repr(BudgetAccountant(1, 0)) == "BudgetAccountant(1.0, 0.0): 0 releases, at most 0 spent"


def test_no_estimator_holds_the_account():
    account = BudgetAccountant(1.0, 1e-6)
    private = PrivateFrechetMean(0.5, 1e-6, BALL).fit(X, accountant=account)
    assert not any(value is account for value in vars(private).values())
    pickle.dumps(private)


@pytest.mark.parametrize("epsilon, delta, message", [
    (0, 1e-6, "epsilon is 0; accepted are numbers from 1e-6 to 1e3"),
    (math.nan, 1e-6, "epsilon is nan"), (2e3, 1e-6, "epsilon is 2000.0"),
    (1.0, 0.6, "delta is 0.6; accepted are 0 and numbers from 1e-300 to 1/2"),
    (1.0, True, "delta is True"), (1.0, -1e-6, "delta is -1e-06"),
])
def test_a_budget_that_is_none_is_refused(epsilon, delta, message):
    with pytest.raises(ValueError, match=f"^{message}"):
        BudgetAccountant(epsilon, delta)


@pytest.mark.slow
def test_what_is_no_mechanism_no_account_and_no_label_is_refused():
    account = BudgetAccountant(1.0, 1e-6)
    with pytest.raises(ValueError, match="^mechanism is None; accepted are mechanisms"):
        spend(account, None)
    with pytest.raises(ValueError, match="^d is 0; accepted are integers ≥ 1"):
        spend(account, gaussian(0.5), 0)
    with pytest.raises(ValueError, match="^d is 5051; accepted are integers from 1 to 5050"):
        spend(account, L2Mechanism(1.0, 0.5, 1e-6, 5050), 5051)
    for label in True, 1.5, ("a",), [1], 2**63, -(2**63), "a\ud800":
        with pytest.raises(ValueError, match="^group is .*; accepted are a str that"):
            spend(account, gaussian(0.5), group=label)
        with pytest.raises(ValueError, match="^group is"):  # before anything is drawn
            PrivateFrechetMean(0.5, 1e-6, BALL).fit(X, group=label)
        with pytest.raises(ValueError, match="^group is"):
            PrivateClassMeans(0.5, 1e-6, BALL, [0]).fit(X, [0] * len(X), group=label)
        with pytest.raises(ValueError, match="^group is"):
            private_clipped_count(X, BALL, 0.5, group=label)
    with pytest.raises(ValueError, match="^accountant is 1.0; accepted are a BudgetAccountant"):
        PrivateFrechetMean(0.5, 1e-6, BALL).fit(X, accountant=1.0)
    assert account.total() == 0


def test_all_that_is_left_of_the_largest_budget_is_told():
    for budget, delta in ((1e3, 1e-6), (999.5, 1e-6), (1e3, 0)):
        assert budget <= BudgetAccountant(budget, delta).remaining() <= 1e3


def test_without_the_extra_the_account_keeps_gaussian_noise_and_refuses_mixtures(monkeypatch):
    monkeypatch.setitem(sys.modules, "dp_accounting", None)
    monkeypatch.setitem(sys.modules, "dp_accounting.pld", None)
    account = spent(gaussian(0.5), gaussian(0.2))
    with pytest.raises(ImportError, match=r"pip install 'spdlib\[accounting\]'"):
        spend(account, L2Mechanism(0.5, 0.987, 1e-7, 4), d=4)
    assert "2 releases" in repr(account)


def test_a_context_that_is_left_open_and_forgotten_gives_nothing_back():
    account = BudgetAccountant(1.0, 1e-6)

    def abandoned():
        with account.spending(gaussian(0.3), 3, refund=True):
            yield

    next(abandoned())
    assert account.total() > 0.2


def test_a_label_that_compares_as_it_likes_is_seen_as_the_integer_that_it_is():
    class Agreeable(int):
        __le__ = __ge__ = lambda self, other: True

    account = BudgetAccountant(1.0, 1e-6)
    with pytest.raises(ValueError, match=f"group is {2**70}; accepted are a str"):
        account.remaining(group=Agreeable(2**70))
