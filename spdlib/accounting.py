"""What several releases of one data set cost together: their joint (epsilon, delta).

Where all noise is Gaussian this is exact: releases that are mu_i-GDP are together mu-GDP, with mu^2
the sum of the mu_i^2 (Dong, Roth and Su 2022). For other noise that is wrong, whatever one takes
for mu_i, and so is the largest epsilon with the sum of the deltas. What adds up there is the
privacy loss. A shift costs the more the longer it is, so that the worst one is as long as the
sensitivity, for every epsilon at once. At this shift the mechanism's delta is known for all
epsilon >= 0, and it is the same for both orders of the two data sets, so that

    delta(-epsilon) = 1 - e^-epsilon (1 - delta(epsilon)).

From these values Google's dp-accounting makes a pair of discrete laws that is told apart no less at
any epsilon (Doroshenko et al. 2022), and convolves the losses. Pairs that dominate two mechanisms
dominate the two together even where the second query was chosen after the first answer was seen
(Zhu, Dong and Wang 2022), as long as noise and sensitivity were fixed beforehand.

Of a mechanism that is known to be epsilon-DP, and no more, the delta is at most that of randomized
response (Kairouz, Oh and Viswanath 2015), whose losses are epsilon and -epsilon.

What is chosen on the way is another matter: an account refuses a release by what was spent before,
and the scale of a release may have been chosen by what earlier ones have shown. Where all noise is
Gaussian, a limit on the sum of the mu_i^2 promises no less for that (Smith and Thakurta 2022), and
where all promises are pure, neither does one on the sum of the epsilon_i (Rogers et al. 2016). For
mixtures, and for pure promises composed by their losses, a limit on the composition may promise
less ("f-Differential Privacy Filters", arXiv 2602.06756): there the scales have to be settled
beforehand, which includes that they follow a public rule such as what remains.
"""

import collections
import contextlib
import fractions
import functools
import json
import math
import numbers
import os
import secrets
import threading
from typing import NamedTuple

import numpy as np

from ._checks import EPS, choice, integer, number
from .calibration import gaussian_delta, gaussian_epsilon, gdp_mu, l2_delta, pure_delta

POINTS = 2048  # of the grid of losses of a single release, up to about the largest that matters
FINEST = 1e-6  # distance of two of them: the least epsilon that a mechanism knows
HIGHEST = 500.0  # epsilon of the last; a larger loss counts as infinite
TAIL = 1e-13  # probability of losses that count as infinite, in all
# Added to every delta for the rounding of the Fourier transforms, and for tails that are cut off on
# the way, 1e-15 a time. The rounding grows with the number of releases: where the tests convolve as
# written it is about 1e-16 a release, hence in proportion more for over a thousand of them.
ROUNDING = 1e-12
NEAR = 1e-3  # share by which `remaining` may be below the largest epsilon that would be accepted
LAWS = "gaussian", "l2", "pure"  # of privacy losses that an account knows
SCHEMA, VERSION = "spdlib.account", 1  # of the document in which an account is handed over
FIELDS = {"schema", "version", "epsilon", "delta", "token", "releases"}


class Composition:
    """What several releases cost together, rounded up; `compose` makes it.

    Attributes
    ----------
    mu : float or None
        Where all noise is Gaussian, the parameter of Gaussian differential privacy of them all.
    """

    def __init__(self, mu, losses=None, rounding=ROUNDING):
        self.mu, self._losses, self._rounding = mu, losses, rounding

    def delta(self, epsilon):
        """The δ at which all releases together are (ε, δ)-DP.

        ValueError for an ε neither 0 nor from 1e-6 to 1e3.
        """
        if self._losses is None:
            return gaussian_delta(1.0, epsilon, self.mu)
        epsilon = number(epsilon, "epsilon", FINEST, 1e3, "0 and numbers from 1e-6 to 1e3", also=0)
        return min(float(self._losses.get_delta_for_epsilon(epsilon)) + self._rounding, 1.0)

    def epsilon(self, delta):
        """The ε at which all releases together are (ε, δ)-DP; infinite if none is found.

        Where not all noise is Gaussian, a loss of a single release beyond 500 counts as infinite,
        and an ε above 700 may. ValueError for a δ outside [1e-300, 1/2], and outside [1e-10, 1/2]
        where not all noise is Gaussian, [1e-13 m, 1/2] for m > 1000 releases.
        """
        if self._losses is None:
            return gaussian_epsilon(1.0, delta, self.mu)
        least = 100 * self._rounding
        delta = number(delta, "delta", least, 0.5, f"numbers from {least:g} to 1/2, as not all "
                       "noise is Gaussian")
        with np.errstate(over="ignore"):  # at an ε so large that e^-ε is no float
            return float(self._losses.get_epsilon_for_delta(delta - self._rounding))


def compose(mechanisms, d):
    """What several releases of one data set cost together, each by a mechanism of its own.

    Neighbours differ in one record, replaced by any other, and every release may see it. A query
    may depend on earlier answers. The mechanisms may not: their number, their noise and the
    sensitivities must be settled before the first answer is seen.

    Parameters
    ----------
    mechanisms : sequence of Mechanism
        One for each release: what is released three times with the same noise stands here three
        times.
    d : int or sequence of int
        Dimension of the answers, k(k+1)/2 for matrices of size k; one for all or one for each.

    Returns
    -------
    Composition
        Exact where all noise is Gaussian, otherwise never too small, and in ε no more than about a
        thousandth too large, for up to 100 000 releases.

    Raises
    ------
    ImportError
        Where not all noise is Gaussian and `spdlib[accounting]` is not installed.
    ValueError
        For no mechanism at all, what is none, or a dimension that is not the mechanism's.

    Examples
    --------
    >>> from spdlib import TangentGaussian
    >>> from spdlib.accounting import compose
    >>> mechanism = TangentGaussian(0.01, epsilon=1.0, delta=1e-6)
    >>> round(compose([mechanism, mechanism], d=36).epsilon(1e-6), 3)
    1.455
    """
    try:
        mechanisms = list(mechanisms)
    except TypeError:
        raise ValueError(f"mechanisms is {mechanisms!r}; accepted is a sequence of them") from None
    if not mechanisms:
        raise ValueError("mechanisms is []; accepted are one or more of them")
    try:
        dimensions = np.broadcast_to(d, len(mechanisms)).tolist()
    except ValueError:
        raise ValueError(f"d is {d!r}; accepted are an integer, or one for each of the "
                         f"{len(mechanisms)} mechanisms") from None
    mus, curves = [], []
    for i, (mechanism, dimension) in enumerate(zip(mechanisms, dimensions, strict=True)):
        integer(dimension, "d", 1, 5050)
        law = getattr(mechanism, "law", None)
        if hasattr(mechanism, "mu"):
            mus.append(mechanism.mu)
        elif law == "pure":
            curves.append((mechanism.loss, functools.partial(pure_delta, mechanism.loss)))
        elif callable(getattr(mechanism, "delta", None)):
            curve = functools.partial(mechanism.delta, d=dimension)
            same = mechanism.loss if law == "l2" else id(mechanism)  # noise that has one law
            curves.append(((law, same, dimension), curve))
        else:
            raise ValueError(f"mechanisms[{i}] is {mechanism!r}; accepted are mechanisms, such as "
                             "the mechanism_ of an estimator")
    return _joint(mus, curves)


def _joint(mus, curves):
    """The Composition of Gaussian noise, and of δ as functions of ε that have names."""
    mu = math.hypot(*mus) * (1 + 4 * EPS)  # more promises less
    if not curves:
        return Composition(mu)
    times = collections.Counter(name for name, _ in curves)
    curves = dict(curves)
    if mus:
        curves["gaussian"] = functools.partial(gaussian_delta, 1.0, sensitivity=mu)
        times["gaussian"] = 1
    rounding = ROUNDING * max(1, sum(times.values()) / 1000)
    return Composition(None, _losses(list(curves.values()), list(times.values())), rounding)


def _losses(curves, times):
    """The privacy loss of them all, for the δ of each as a function of ε, and how often it is."""
    try:
        from dp_accounting.pld import pld_pmf
    except ImportError as error:
        raise ImportError("noise that is not Gaussian is composed by dp-accounting: pip install "
                          "'spdlib[accounting]'") from error

    ends = [_end(curve, TAIL / sum(times)) for curve in curves]
    # A loss is moved by gap²/12, hence more points for more releases.
    gap = max(math.hypot(*np.sqrt(times) * ends) / (POINTS * sum(times) ** 0.25), FINEST)
    total, finite = None, 1.0  # the composed losses, and the probability that they are finite
    for curve, end, count in zip(curves, ends, times, strict=True):
        last = math.ceil(end / gap)
        grid = np.arange(last + 1) * gap
        above = np.array([curve(epsilon) for epsilon in grid.tolist()])
        finite *= (1 - above[-1]) ** count
        if finite < TAIL:  # of which dp-accounting would cut off the rest
            return _Lost()
        below = 1 - np.exp(-grid[1:]) * (1 - above[1:])
        losses = pld_pmf.create_pmf_pessimistic_connect_dots_fixed_gap(
            gap, -last, last, np.concatenate([below[::-1], above])).to_dense_pmf()
        losses = losses.self_compose(count) if count > 1 else losses
        total = total.compose(losses, 1e-15) if total else losses
    return total


class _Lost:
    """The privacy loss where it is as good as certain that it counts as infinite."""

    def get_delta_for_epsilon(self, epsilon):
        return 1.0

    def get_epsilon_for_delta(self, delta):
        return math.inf


def _end(curve, tail):
    """An ε, at most twice the smallest one, from which on δ is at most `tail`; or HIGHEST."""
    end = FINEST
    while end < HIGHEST and curve(end) > tail:
        end = min(2 * end, HIGHEST)
    return end


def _loss_of(value, name):
    """`value` as a float, if what is computed with it stays within float64, for every law."""
    return number(value, name, 1e-100, 5e4, "numbers from 1e-100 to 5e4")


class Cost(NamedTuple):
    """What a release costs: the law of its privacy loss.

    Attributes
    ----------
    law : {"gaussian", "l2", "pure"}
        Gaussian noise of parameter mu, noise of density exp(-‖x‖/s) on R^d, or a mechanism of which
        no more than the largest loss is known.
    loss : float
        mu, or the largest loss.
    d : int
        Dimension, for "l2"; else 0.
    """

    law: str
    loss: float
    d: int = 0

    @classmethod
    def of(cls, mechanism, d):
        """That of a mechanism that answers in R^d. ValueError where it does not say."""
        d = integer(d, "d", 1, 5050 if getattr(mechanism, "law", None) == "l2" else math.inf)
        if hasattr(mechanism, "mu"):
            return cls("gaussian", _loss_of(mechanism.mu, "mu"))
        if not hasattr(mechanism, "law"):
            raise ValueError(f"mechanism is {mechanism!r}; accepted are those of spdlib, such as "
                             "the mechanism_ of an estimator")
        law = choice(mechanism.law, "law", LAWS)
        return cls(law, _loss_of(mechanism.loss, "loss"), d if law == "l2" else 0)

    def delta(self, epsilon):
        """The δ at which the release is (ε, δ)-DP."""
        if self.law == "gaussian":
            return gaussian_delta(1.0, epsilon, self.loss)
        if self.law == "l2":
            return l2_delta(1.0, epsilon, self.d, self.loss)
        return pure_delta(self.loss, epsilon)


class Spent(NamedTuple):
    """A release in an account: what it costs, and whom."""

    cost: Cost
    group: str | int | None


class BudgetAccountant:
    """One account for all that is released about the same people, at most (ε, δ) together.

    It is an argument of `fit` or `release`: what is to be spent is written down before a record is
    looked at, or refused, and then nothing was spent. What ends before noise is drawn, however it
    ends, gives back what it had reserved; once noise is drawn nothing is given back. Threads may
    share the account.

    Whatever is done, one account never becomes two. A copy, a pickle and what a process has by
    `fork` refuse to spend and to tell; the account moves only in the open, by `hand_over` and
    `take_over`.

    Neighbours differ in one record, replaced by any other. Groups, named by public labels, are for
    people of whom nobody is in two: there a record is replaced by another one of its group, so that
    a person loses what was released about the own group and about all, and no more. The account
    promises the most that any group loses. Labels are not interpreted: 1, "1" and " 1" are three
    groups, each with the whole budget, and that one group has one label, of one type and one
    spelling, is the user's care. With class means of public labels the whole account is for
    neighbours within a class, which the user has to say beside the total.

    Queries may be chosen by what earlier releases have shown. So may scales of noise where all of
    it is Gaussian, or where δ is 0; else scales and kinds have to be settled beforehand.

    Parameters
    ----------
    epsilon, delta : float
        The budget: ε from 1e-6 to 1e3; δ from 1e-300 to 1/2, or 0, with which only pure mechanisms
        are accepted. Where not all noise is Gaussian, several releases need δ from 1e-10 on, or
        pure promises whose sum is at most ε.

    Examples
    --------
    >>> from spdlib import PrivateFrechetMean, random_spd
    >>> from spdlib.accounting import BudgetAccountant
    >>> account = BudgetAccountant(1.0, 1e-6)
    >>> private = PrivateFrechetMean(epsilon=0.6, delta=1e-6, radius=2.0)
    >>> private.fit(random_spd(400, 3, 1.0, rng=0), accountant=account).mean_.shape
    (3, 3)
    >>> account
    BudgetAccountant(1.0, 1e-06): 1 release, at most 0.6 spent
    >>> round(account.remaining(), 3)
    0.769
    """

    def __init__(self, epsilon, delta):
        epsilon = number(epsilon, "epsilon", FINEST, 1e3, "numbers from 1e-6 to 1e3")
        delta = number(delta, "delta", 1e-300, 0.5, "0 and numbers from 1e-300 to 1/2", also=0)
        self._open(epsilon, delta, [])

    @property
    def epsilon(self):
        """The ε of the budget."""
        return self._epsilon

    @property
    def delta(self):
        """The δ of the budget."""
        return self._delta

    @contextlib.contextmanager
    def spending(self, mechanism, d, group=None, *, refund=False):
        """Context in which the mechanism answers once; what that costs is written down on entry.

        Parameters
        ----------
        mechanism : Mechanism
            One that knows `mu`, or the `law` and the largest `loss`.
        d : int
            Dimension of the answer.
        group : str or int, optional
            Label of the people whom the answer is about; by default all.
        refund : bool
            Whether an exception in the context, any one, gives it back: for what comes before noise
            is drawn, such as `draw = mechanism.prepared(query)`. The draw itself, `draw(rng)`, then
            comes after the context. By default nothing is given back, and noise may be drawn in it.

        Raises
        ------
        ValueError
            Where the budget does not hold the release; where the account is closed.
        """
        spent = Spent(Cost.of(mechanism, d), group_label(group))
        try:
            with self._held():
                if not self._fits(spent):
                    who = "" if group is None else f"group {spent.group!r}: "
                    raise ValueError(
                        f"{who}mechanism is {mechanism!r}; accepted are releases that "
                        f"({self.epsilon}, {self.delta}) holds, of which epsilon "
                        f"{self._total(spent.group):.6g} is spent")
                self._spent.append(spent)
            yield
        except BaseException as error:  # an interrupt is no reason to keep what was not used
            if refund and not isinstance(error, GeneratorExit):  # of a context that was left
                with self._lock:  # this entry, if it is there, and no other of the same cost
                    self._spent[:] = [each for each in self._spent if each is not spent]
            raise

    def total(self):
        """The ε at which all releases so far are private, with the δ of the budget; rounded up.

        With groups it is the most that any of them has lost.
        """
        with self._held():
            return self._total()

    def remaining(self, delta=None, *, group=None):
        """The ε at which one more release would be accepted, one of Gaussian noise.

        Parameters
        ----------
        delta : float, optional
            That of this release, by default that of the budget; 0 is a pure one, of any law.
        group : str or int, optional
            Label of the people whom the release would be about; by default all.

        Returns
        -------
        float
            A tenth of a per cent below the largest at most; 0.0 where not even 1e-6 is left.
        """
        delta = self.delta if delta is None else number(
            delta, "delta", 1e-300, 0.5, "0 and numbers from 1e-300 to 1/2", also=0)
        group = group_label(group)

        def fits(epsilon):
            cost = Cost("gaussian", gdp_mu(epsilon, delta) * (1 + 4 * EPS)) if delta else \
                Cost("pure", epsilon)
            return self._fits(Spent(cost, group))

        with self._held():
            low, high = FINEST, 1e3
            if not fits(low):
                return 0.0
            if fits(self.epsilon):
                low = self.epsilon
                if not fits(above := min(low * (1 + NEAR), high)):
                    high = above
            while high > low * (1 + NEAR):
                middle = math.sqrt(low * high)
                low, high = (middle, high) if fits(middle) else (low, middle)
            return low

    def hand_over(self):
        """The account as a document, JSON; from now on this object refuses to spend.

        What is being released at the moment counts as spent. There is no other way to keep an
        account from one process to the next. Keep one copy of the document and destroy it when the
        account has been taken over: who takes over the same document in two processes has two
        accounts, and nothing here can notice.
        """
        with self._held():
            self._closed = "has been handed over"
            releases = [[*spent.cost, spent.group] for spent in self._spent]
            return json.dumps({"schema": SCHEMA, "version": VERSION, "epsilon": self.epsilon,
                               "delta": self.delta, "token": secrets.token_hex(16),
                               "releases": releases})

    @classmethod
    def take_over(cls, document):
        """The account of which `hand_over` made this document.

        ValueError for another document, and where this process has taken it over before.
        """
        account, token = _read(document)
        with _TAKING:
            if token in _TAKEN:
                raise ValueError("document has been taken over before; accepted is one that has "
                                 "not, of the latest hand_over()")
            _TAKEN.add(token)
        return account

    def __repr__(self):
        name = f"BudgetAccountant({self.epsilon!r}, {self.delta!r})"
        if why := self._why_closed():
            return f"{name}: {why}"
        with self._lock:
            count, total = len(self._spent), self._total()
        return f"{name}: {count} release{'s' * (count != 1)}, at most {total:.6g} spent"

    def __getstate__(self):
        return {"epsilon": self.epsilon, "delta": self.delta}

    def __setstate__(self, state):
        self._open(state["epsilon"], state["delta"], [])
        self._closed = "is a copy"

    def _open(self, epsilon, delta, spent):
        self._epsilon, self._delta, self._spent = epsilon, delta, spent
        self._lock, self._process, self._closed = threading.Lock(), os.getpid(), None

    def _why_closed(self):
        """What keeps this object from being the account; None if nothing does."""
        if self._process != os.getpid():  # by fork; before the lock, which may be held for ever
            return "is a copy of another process"
        return self._closed

    @contextlib.contextmanager
    def _held(self):
        """The lock of an account that is open. ValueError for one that is not."""
        if self._process != os.getpid():
            raise self._refusal()
        with self._lock:  # which no interrupt leaves locked, as acquire() and try: could
            if self._closed:
                raise self._refusal()
            yield

    def _refusal(self):
        return ValueError(f"accountant {self._why_closed()}; accepted is the one account, or what "
                          "BudgetAccountant.take_over makes of a document of its hand_over")

    def _histories(self, group=None, *more):
        """What the people of each group have lost, or of one, with some more; sorted, once each."""
        of = collections.defaultdict(list)
        for spent in (*self._spent, *more):
            of[spent.group].append(spent.cost)
        groups = set(of) if group is None else {group}
        common = of[None]
        return {tuple(sorted(of[g] + ([] if g is None else common))) for g in groups}

    def _fits(self, spent):
        histories = self._histories(spent.group, spent)
        return all(_holds(costs, self.epsilon, self.delta) for costs in histories)

    def _total(self, group=None):
        """The most that a group has lost, or what one has, at the δ of the budget."""
        return max((_loss(costs, self.epsilon, self.delta) for costs in self._histories(group)),
                   default=0.0)


def spending(accountant, mechanism, d, group=None):
    """The context in which an estimator does all that comes before it draws.

    What fails there is given back; without an account it does nothing. ValueError for an account or
    a label that is none.
    """
    group = group_label(group)
    if accountant is None:
        return contextlib.nullcontext()
    if not isinstance(accountant, BudgetAccountant):
        raise ValueError(f"accountant is {accountant!r}; accepted are a BudgetAccountant and None")
    return accountant.spending(mechanism, d, group, refund=True)


_TAKEN, _TAKING = set(), threading.Lock()  # tokens of documents, in this process


def group_label(group):
    """A label of a group as a str, an int or None."""
    if group is None:
        return None
    if writable(group):
        return str.__str__(group)  # an Enum's own str is another text
    whole = isinstance(group, numbers.Integral) and not isinstance(group, (bool, np.bool_))
    if whole and abs(int(group)) < 2**63:
        return int(group)
    raise ValueError(f"group is {group!r}; accepted are a str that UTF-8 can write, an integer "
                     "below 2**63 in size, or None for all")


def writable(text):
    """Whether it is a str that UTF-8 can write: one without half of a surrogate pair."""
    return isinstance(text, str) and not any(
        "\ud800" <= letter <= "\udfff" for letter in str.__str__(text))


def json_of(text):
    """What the text of a document holds. ValueError for no JSON, and for a name that stands twice.

    Of two values under one name one reader would take the first and another one the last.
    """
    def once(pairs):
        names = [name for name, _ in pairs]
        if twice := {name for name in names if names.count(name) > 1}:
            raise ValueError(f"{sorted(twice)} stands there twice")
        return dict(pairs)

    try:
        return json.loads(text, object_pairs_hook=once)
    except RecursionError:
        raise ValueError("it is nested too deeply") from None


def _pure(costs):
    """The sum of the largest losses, exact; infinite where one has none."""
    if any(cost.law == "gaussian" for cost in costs):
        return math.inf
    return sum(fractions.Fraction(cost.loss) for cost in costs)


@functools.lru_cache(4096)  # with groups: those of whom nothing new is released stay as they are
def _holds(costs, epsilon, delta):
    """Whether (ε, δ) holds all these costs."""
    if _pure(costs) <= epsilon:
        return True
    if delta == 0:
        return False
    if len(costs) == 1:
        return costs[0].delta(epsilon) <= delta
    return _composed(costs).delta(epsilon) <= delta


@functools.lru_cache(4096)
def _loss(costs, epsilon, delta):
    """The ε of these costs at δ, at most the `epsilon` that is known to hold them; rounded up."""
    if not costs:
        return 0.0
    least = min(math.nextafter(_pure(costs), math.inf), epsilon)
    rough = any(cost.law != "gaussian" for cost in costs)
    if delta == 0 or rough and delta < 1e-10 * max(1, len(costs) / 1000):
        return least
    return min(_composed(costs).epsilon(delta), least)


@functools.lru_cache(64)  # of 100 kB each, where not all noise is Gaussian
def _composed(costs):
    """The Composition of the costs, a tuple."""
    mus = [cost.loss for cost in costs if cost.law == "gaussian"]
    return _joint(mus, [(cost, cost.delta) for cost in costs if cost.law != "gaussian"])


def _read(document):
    """The account of a document, and its token. ValueError for one that is none."""
    try:
        content = json_of(document)
        version = content["version"]
        if set(content) != FIELDS:
            raise ValueError(f"fields {sorted(content)}")
        if (content["schema"], version) != (SCHEMA, VERSION) or type(version) is not int:
            raise ValueError(f"version {version!r} of {content['schema']!r}")
        token, releases = content["token"], content["releases"]
        if not writable(token) or not isinstance(releases, list):
            raise ValueError(f"token {token!r}, releases {releases!r}")
        spent = [Spent(Cost(choice(law, "law", LAWS), _loss_of(loss, "loss"),
                            integer(d, "d", int(law == "l2"), 5050)),
                       group_label(group)) for law, loss, d, group in releases]
        account = BudgetAccountant(content["epsilon"], content["delta"])
        account._spent.extend(spent)
        return account, token
    except (KeyError, TypeError, ValueError, RecursionError) as error:
        raise ValueError(f"document is no account ({error}); accepted is what hand_over has made, "
                         f"version {VERSION} of {SCHEMA!r}") from error
