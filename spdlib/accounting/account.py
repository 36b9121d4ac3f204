"""One account for all that is released about the same people."""

import collections
import contextlib
import functools
import json
import math
import os
import secrets
import threading
from collections.abc import Iterator
from fractions import Fraction
from typing import Any, NamedTuple, Self

from .._checks import EPS, integer
from ..calibration import gdp_mu
from . import fields
from .composition import FINEST, Cost, composed

SHORTFALL = 1e-3  # share by which `remaining` may be below the largest epsilon there is
ACCOUNT, ACCOUNT_VERSION = "spdlib.account", 1  # of the document that hands an account over
FIELDS = "epsilon", "delta", "token", "releases"  # that it has

Group = str | int | None  # public label of the people whom a release is about; None for all


class Spent(NamedTuple):
    """A release in an account: what it costs, and whom."""

    cost: Cost
    group: Group


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
    >>> from spdlib import Ball, PrivateFrechetMean, random_spd
    >>> from spdlib.accounting import BudgetAccountant
    >>> account = BudgetAccountant(1.0, 1e-6)
    >>> ball = Ball.from_bounds(0.3, 3.0, k=3)
    >>> private = PrivateFrechetMean(epsilon=0.6, delta=1e-6, ball=ball)
    >>> private.fit(random_spd(400, 3, 1.0, rng=0), accountant=account).mean_.shape
    (3, 3)
    >>> account
    BudgetAccountant(1.0, 1e-06): 1 release, at most 0.6 spent
    >>> round(account.remaining(), 3)
    0.769
    """

    def __init__(self, epsilon: float, delta: float):
        self._epsilon = fields.epsilon(epsilon, "epsilon")
        self._delta = fields.delta(delta, "delta")
        self._spent, self._closed = [], None
        self._lock, self._process = threading.Lock(), os.getpid()

    @property
    def epsilon(self) -> float:
        """The ε of the budget."""
        return self._epsilon

    @property
    def delta(self) -> float:
        """The δ of the budget."""
        return self._delta

    @contextlib.contextmanager
    def spending(self, mechanism: Any, d: int, group: Group = None, *,
                 refund: bool = False) -> Iterator[None]:
        """Context in which the mechanism answers once; what that costs is written down on entry.

        Parameters
        ----------
        mechanism : Mechanism
            One that knows the `law` and the largest value of its `loss`, or mu of Gaussian noise.
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
            with self._guard():
                self._check_open()
                if not self._fits(spent):
                    who = "" if group is None else f"group {spent.group!r}: "
                    raise ValueError(
                        f"{who}mechanism is {mechanism.name!r}; accepted are releases that "
                        f"({self.epsilon}, {self.delta}) holds, of which epsilon "
                        f"{self._total(spent.group):.6g} is spent"
                        f"{self._words_left(spent.group)}")
                self._spent.append(spent)
            yield
        except BaseException as error:  # an interrupt is no reason to keep what was not used
            if refund and not isinstance(error, GeneratorExit):  # of a context that was left
                with self._lock:  # this entry, if it is there, and no other of the same cost
                    self._spent[:] = [each for each in self._spent if each is not spent]
            raise

    def total(self) -> float:
        """The ε at which all releases so far are private, with the δ of the budget; rounded up.

        With groups it is the most that any of them has lost.
        """
        with self._guard():
            self._check_open()
            return self._total()

    def remaining(self, delta: float | None = None, *, group: Group = None) -> float:
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
        delta = self.delta if delta is None else fields.delta(delta, "delta")
        group = group_label(group)
        with self._guard():
            self._check_open()
            return self._left(delta, group)

    def hand_over(self) -> str:
        """The account as a document, JSON; from now on this object refuses to spend.

        What is being released at the moment counts as spent. There is no other way to keep an
        account from one process to the next. Keep one copy of the document and destroy it when the
        account has been taken over: who takes over the same document in two processes has two
        accounts, and nothing here can notice.
        """
        with self._guard():
            self._check_open()
            self._closed = "has been handed over"
            releases = [[*spent.cost, spent.group] for spent in self._spent]
            return json.dumps(
                dict(schema=ACCOUNT, version=ACCOUNT_VERSION, epsilon=self.epsilon,
                     delta=self.delta, token=secrets.token_hex(16), releases=releases))

    @classmethod
    def take_over(cls, document: str) -> Self:
        """The account of which `hand_over` made this document.

        ValueError for another document, and where this process has taken it over before.
        """
        try:
            _, content = fields.headed(fields.json_of(document), ACCOUNT, ACCOUNT_VERSION)
            fields.named(content, "document", FIELDS, FIELDS)
            account = cls(content["epsilon"], content["delta"])
            token, listed = fields.text(content["token"], "token"), content["releases"]
            if not isinstance(listed, list):
                raise ValueError(f"releases is {listed!r}; accepted is a list")
            for law, loss, d, group in listed:
                account._spent.append(Spent(Cost.checked(law, loss, d), group_label(group)))
        except (TypeError, ValueError, RecursionError) as error:
            raise ValueError(f"document is no account ({error}); accepted is what hand_over has "
                             f"made, version {ACCOUNT_VERSION} of {ACCOUNT!r}") from error
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
        self.__init__(**state)
        self._closed = "is a copy"

    def _why_closed(self):
        """What keeps this object from being the account; None if nothing does."""
        return "is a copy of another process" if self._process != os.getpid() else self._closed

    def _guard(self):
        """The lock itself: an interrupt could leave it held in a context written in Python.

        It is asked for again, within it, whether the account is open.
        """
        self._check_open()  # not by a fork, after which it may be held for ever
        return self._lock

    def _check_open(self):
        """ValueError for an account that is not open."""
        if why := self._why_closed():
            raise ValueError(f"accountant {why}; accepted is the one account, or what "
                             "BudgetAccountant.take_over makes of a document of its hand_over")

    def _histories(self, group=None, *more):
        """What the people of each group have lost, or of one, with some more; sorted, once each."""
        of = collections.defaultdict(list)
        for spent in (*self._spent, *more):
            of[spent.group].append(spent.cost)
        groups = set(of) if group is None else {group}
        common = of[None]
        return {tuple(sorted(of[g] + ([] if g is None else common))) for g in groups}

    def _words_left(self, group):
        """What remains, in words, where that is known at once."""
        if any(spent.cost.law != ("gaussian" if self.delta else "pure") for spent in self._spent):
            return ""
        kind = "of Gaussian noise" if self.delta else "of a pure promise"
        return f" and {self._left(self.delta, group):.3g} remains, for a release {kind}"

    def _left(self, delta, group):
        """What `remaining` returns, for one who has the lock."""

        def fits(epsilon):
            cost = Cost("gaussian", gdp_mu(epsilon, delta) * (1 + 4 * EPS)) if delta else \
                Cost("pure", epsilon)
            return self._fits(Spent(cost, group))

        low, high = FINEST, 1e3
        if not fits(low):
            return 0.0
        if fits(self.epsilon):
            low = self.epsilon
            if not fits(min(low * (1 + SHORTFALL), high)):
                return low
        while high > low * (1 + SHORTFALL):
            middle = math.sqrt(low * high)
            low, high = (middle, high) if fits(middle) else (low, middle)
        return low

    def _fits(self, spent):
        histories = self._histories(spent.group, spent)
        return all(_holds(costs, self.epsilon, self.delta) for costs in histories)

    def _total(self, group=None):
        """The most that a group has lost, or what one has, at the δ of the budget."""
        return max((_loss(costs, self.epsilon, self.delta) for costs in self._histories(group)),
                   default=0.0)


Account = BudgetAccountant | None  # what releases take; without one nothing is written down


def spending(accountant: Account, mechanism: Any, d: int,
             group: Group = None) -> contextlib.AbstractContextManager[None]:
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


def group_label(group: Group) -> Group:
    """A label of a group as a str, an int or None."""
    if group is None:
        return None
    if fields.writable(group):
        return str.__str__(group)  # an Enum's own str is another text
    with contextlib.suppress(ValueError):
        whole = integer(group, "group",
                        -math.inf)  # a plain int: one of a class compares as it likes
        return integer(whole, "group", 1 - 2**63, 2**63 - 1)
    raise ValueError(f"group is {group!r}; accepted are a str that UTF-8 can write, an integer "
                     "below 2**63 in size, or None for all")


def _pure(costs):
    """The sum of the largest losses, exact; infinite where one has none."""
    return sum(math.inf if cost.law == "gaussian" else Fraction(cost.loss) for cost in costs)


@functools.lru_cache(4096)  # with groups: those of whom nothing new is released stay as they are
def _holds(costs, epsilon, delta):
    """Whether (ε, δ) holds all these costs."""
    if (pure := _pure(costs) <= epsilon) or delta == 0:
        return pure
    together = costs[0] if len(costs) == 1 else _composed(costs)
    return together.delta(epsilon) <= delta


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


_composed = functools.lru_cache(64)(composed)  # of 100 kB each, where not all noise is Gaussian
