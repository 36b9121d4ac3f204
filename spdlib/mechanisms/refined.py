"""A ball that is drawn closer, round by round, and the means in it: Gaussian noise throughout.

A public ball that is honest is mostly far too wide. So a small share of the budget finds a better
one. A round takes a noisy mean of the records clipped to the ball as it is, and makes it the new
centre; then it asks, in a binary search on a public geometric grid, with noisy numbers of the
records within, for the radius that holds a share of about nine in ten, and makes it the new radius.
The rest of the budget goes to the mean of the records clipped to the ball that was found. To draw a
ball closer by noisy means is CoinPress (Biswas, Dong, Kamath and Ullman 2020), to find a radius by
noisy quantiles adaptive clipping (Andrew, Thakkar, McMahan and Ramaswamy 2021).

All parts are Gaussian: a part of sensitivity D and noise sigma is mu_i-GDP with mu_i = D / sigma,
where the mu_i follow from public numbers and centres and radii from what earlier parts have shown.
Together they are mu-GDP with mu^2 the sum of the mu_i^2 (Dong, Roth and Su 2022, Corollary 2).

Discrete Gaussian noise is not mu-GDP by itself. But whatever earlier parts have shown, the law of a
part lies between e^-a_i and e^a_i times that of a part which is (`integers`); so does, with a the
sum of the a_i, the product of all of them. If the latter is (epsilon, delta)-DP, the former is
(epsilon + 2a, e^a delta)-DP, and a is still below 1e-500. Numbers of records are drawn as sums on a
grid so fine that their scale is about 2^40 of it, unless there are over a million records.
"""

import math
import numbers
from typing import NamedTuple

import numpy as np

from .._checks import EPS, integer, number
from ..calibration import gdp_mu
from ..queries import check_flat
from ..queries.passes import Passes
from ..spaces.ball import outside_ball, project_to_ball, shrink_to_center
from .base import Mechanism
from .counted import Counted
from .gaussian import TangentGaussian
from .integers import DiscreteGaussian

SHARES = {"centres": 0.06, "radii": 0.06, "means": 0.88}  # of mu², over all rounds
SPREAD, COUNT = 0.05, 0.02  # shares of what tells the spread, and how many are clipped, by default
ROUNDS, MOST_ROUNDS = 3, 8  # of "auto", and those that are accepted
WORTH = 1 / 3  # share of the ball by which the noise of a centre may be as long at most, for "auto"
QUANTILE = 0.9  # share of the records that a ball holds, where n does not speak for another
FINENESS = math.sqrt(2)  # quotient of neighbouring radii of the grid, about
SMALLEST = 1e-280  # radius of a Ball
SQUARED, LARGEST_SQUARED = 1e-150, 1e145  # radii of which the square is a float, and its noise


class Found(NamedTuple):
    """What an answer says of each class.

    `about` are steps from the public centre to the centres found, `steps` those from there to the
    means, and `counts` numbers of records by which sums were divided. `spread` is the mean squared
    distance of records from the mean, `clipped` how many are outside of the ball; NaN where they
    were not asked for.
    """

    about: np.ndarray
    radii: np.ndarray
    steps: np.ndarray
    counts: np.ndarray
    spread: np.ndarray
    clipped: np.ndarray


class Refined(Mechanism):
    """Means of clipped records in balls that are found privately: (ε, δ)-DP, for any ε.

    An answer, of shape `(classes, 2 dim + 4)`, is read by `found`; a mean has one class. Means lie
    in their balls.

    Parameters
    ----------
    base : class of a Mechanism
        `TangentGaussian` or `DiscreteGaussian`, for all parts.
    query : FrechetMean or ClassSums
        Of which no more than public numbers are looked at.
    epsilon, delta : float
        The promise.
    rounds : int
        From 0 on, which leaves the ball as it is.
    shrink : bool
        Whether means are drawn towards the centres found before they are projected.
    spread, count : float
        Shares of the budget for the spread and for the number of clipped records; 0 for none.

    Attributes
    ----------
    mu, rho : float
        Of all parts together.
    shares : dict of str to float
        Of μ², what centres, radii, means, the spread and the count have.
    reach : float
        Length of the noise of a centre, about, in units of the radius before it.
    least : float
        The least radius that a round may find, in the same units.
    halvings : int
        Numbers of records that are asked for in a round.
    quantile : float
        The share of the records that the radius of a round is to hold.
    """

    public = ("mu", "rho", "rounds", "halvings", "least", "quantile")
    law, in_chart = "gaussian", True
    reach = least = quantile = None
    halvings = 0

    def __init__(self, base, query, epsilon, delta, rounds, shrink=False, spread=0.0, count=0.0):
        self.base, self.name, self.exact, self.source = base, base.name, base.exact, base.source
        self.n, self.d, self.mu = query.n, query.space.dim, gdp_mu(epsilon, delta)
        self.rho = math.nextafter(self.mu**2 / 2, math.inf)
        self.rounds, self.shrink = rounds, shrink
        kept = SHARES if rounds else {"means": 1.0}
        self.shares = {part: share * (1 - spread - count) for part, share in kept.items()}
        told = {"spread": spread, "count": count}
        self.shares |= {part: share for part, share in told.items() if share}
        if rounds:
            self._foresee(query)

    def _foresee(self, query):
        """How rounds go on, from public numbers."""
        private = getattr(query, "labels", "public") == "private"
        each, root = self.n / len(getattr(query, "classes", [0])), math.sqrt(self.d)
        self.reach = 2 * root / (self._part("centres") * each)
        self.least = min(max(self.reach, EPS), 0.5)
        self.halvings = math.ceil(math.log2(math.log(1 / self.least) / math.log(FINENESS)))
        near = math.sqrt(1 + private) / self._part("radii")  # standard deviations of numbers
        lost = max(math.hypot(near, 2 / self._part("centres") * private), root / self.mu)
        self.quantile = max(min(QUANTILE, 1 - 2 * lost / each), 1 - 4 * lost / each, 0.5)

    @property
    def loss(self):
        """The parameter of Gaussian differential privacy."""
        return self.mu

    @property
    def worth(self) -> bool:
        """Whether a centre is found well enough for a ball to be drawn closer."""
        return self.reach is None or self.reach <= WORTH

    def _part(self, part):
        """The μ of each part of a kind, which have a share together; 1e-12 is for rounding."""
        times = {"centres": self.rounds, "radii": self.rounds * self.halvings}.get(part, 1)
        return self.mu * math.sqrt(self.shares[part] / times) * (1 - 1e-12)

    def sigma(self, radii, counts):
        """Standard deviations of the noise of means in balls of these radii, by classes."""
        return 2 / self._part("means") * np.asarray(radii) / np.maximum(counts, 1)

    def foreseen(self, radius: float, spread: float) -> float:
        """The radius of the last ball, about, from the public one and a guess of the spread.

        The guess is the root mean squared distance of the records from their mean, about which they
        are taken to be normal; it is not read off the data.
        """
        from scipy.stats import chi

        reach = chi.ppf(self.quantile, self.d) if self.rounds else 0.0
        for _ in range(self.rounds):
            noise = 2 * radius / (self._part("centres") * self.n)
            held = math.hypot(spread / math.sqrt(self.d), noise) * reach
            held /= self.least**(0.5**(self.halvings + 1))  # half a step of the grid
            radius = min(max(held, self.least * radius), radius)
        return radius

    def noises(self, radius):
        """What is public of the noise of a mean of all records, and of the spread, by part."""
        moves = {"means": 2 * float(radius) / self.n}
        if "spread" in self.shares:
            moves["spread"] = float(radius)**2 / self.n
        if "count" in self.shares:
            moves["count"] = 1.0
        return {
            part: {
                "sensitivity": moved,
                "sigma": moved / self._part(part),
                "mu": self._part(part)
            }
            for part, moved in moves.items()
        }

    def found(self, answer) -> Found:
        """What an answer says."""
        about, steps = answer[:, :self.d], answer[:, self.d:2 * self.d]
        return Found(
            about, steps=steps,
            **dict(
                zip(("radii", "counts", "spread", "clipped"), answer[:, 2 * self.d:].T,
                    strict=True)))

    def _prepared(self, query):
        passes = Passes(query)
        classes = len(passes.counts)
        about, radii = np.zeros((classes, self.d)), np.full(classes, query.radius)
        first = self._noisy(passes.sums(about, radii), "centres" if self.rounds else "means")
        passes.on_invalid = "center"  # every record has been looked at

        def answers(rng, shape):
            each = [self._answer(passes, first, rng) for _ in range(math.prod(shape))]
            return np.array(each).reshape(*shape, len(passes.counts), 2 * self.d + 4)

        return answers

    def _noisy(self, asked, part):
        """What draws an answer to the question, of which the records are looked at now."""
        return self.base.with_mu(asked, self._part(part)).prepared(asked)

    def _answer(self, passes, first, rng):
        ball = passes.query.ball
        classes = len(passes.counts)
        about, radii = np.zeros((classes, self.d)), np.full(classes, ball.radius)

        ahead = [first]  # what has been asked before anything is drawn

        def noisy(asked, part):
            return self._noisy(asked, part)(rng)

        def means(part):
            draw = ahead.pop() if ahead else self._noisy(passes.sums(about, radii), part)
            return passes.means(draw(rng), radii)

        for _ in range(self.rounds):
            steps, counts = means("centres")
            about = project_to_ball(about + _each(project_to_ball, steps, radii), ball.radius)
            about = np.stack([_to_centre(ball, each) for each in about])
            ratio, low, high = self.least**2**-self.halvings, 0 * counts, 2.0**self.halvings
            for _ in range(self.halvings):  # a radius of ratio**low holds enough, one of high not
                middle = (low + high) / 2
                near = noisy(passes.near(about, radii * ratio**middle), "radii")
                enough = near >= self.quantile * counts
                low, high = np.where(enough, middle, low), np.where(enough, high, middle)
            least = SQUARED if "spread" in self.shares else SMALLEST
            radii = np.maximum(radii * ratio**low, least)
        steps, counts = means("means")
        if self.shrink:
            steps = _each(shrink_to_center, steps, self.sigma(radii, counts))
        steps = _each(project_to_ball, steps, radii)
        whole = about + steps  # in a chart points that far out would come round
        steps = np.where(
            outside_ball(whole, _reach(ball.space))[:, None],
            project_to_ball(whole, _reach(ball.space)) - about, steps)
        spread = clipped = np.full(classes, np.nan)
        if "spread" in self.shares:
            told = noisy(passes.spread(about, radii, steps), "spread")
            spread = np.clip(told / np.maximum(counts, 1), 0, 1) * radii**2
        if "count" in self.shares:
            near = noisy(passes.near(about, radii, sound=True), "count")
            clipped = np.clip(np.rint(self.n - near), 0, self.n)
        return np.column_stack([about, steps, radii, counts, spread, clipped])


def _to_centre(ball, step):
    """The step, or the part of it after which the point, read back, can be the centre of a ball.

    Of a matrix that borders on singular the smallest eigenvalue may be read back as a smaller one.
    """
    space, step = ball.space, ball.space.within_reach(ball.center, step)
    while step.any():
        try:
            space.exp(space.exp(ball.center, step), 0 * step)
            break
        except ValueError:
            step = 0.99 * step
    return step


def _reach(space):
    """Up to where steps tell points apart: in a chart, to where that covers its space once."""
    reach = getattr(space, "space", space).injectivity_radius
    return min(reach * (1 - 1e-9), 1e280)


def _each(function, steps, sizes):
    """A function of a step and a number, for each class."""
    return np.stack([function(*pair) for pair in zip(steps, sizes, strict=True)])


def refined(choice, query, epsilon, delta, refine=None, shrink=False, spread=None, count=None):
    """The mechanism that draws the ball closer, or tells the spread or the count; None for none.

    `choice` is that of the noise. ValueError for what cannot be had together.
    """
    named = isinstance(refine, str) and refine == "auto"
    whole = isinstance(refine, numbers.Integral) and not isinstance(refine, bool)
    if not (refine is None or named or whole):
        raise ValueError(f"refine is {refine!r}; accepted are None, 'auto' and rounds from 1 to "
                         f"{MOST_ROUNDS}")
    rounds = 0
    if refine is not None:
        rounds = ROUNDS if named else integer(refine, "refine", 1, MOST_ROUNDS)
    told = {}
    for name, value, default in ("spread", spread, SPREAD), ("count", count, COUNT):
        if value is not None and value is not False:
            value = default if value is True else value
            told[name] = number(value, name, 1e-6, 0.4, "None, True, and shares from 1e-6 to 0.4")
    if "spread" in told:
        number(query.radius, "radius", SQUARED, LARGEST_SQUARED,
               f"numbers from {SQUARED:g} to {LARGEST_SQUARED:g} with spread")
    if not (rounds or told):
        return None
    use, base = "refine" if rounds else next(iter(told)), choice.mechanism
    if base.pure and [*told] == ["count"] and not rounds:
        return Counted(choice, query, epsilon, delta, told["count"])
    if base not in (TangentGaussian, DiscreteGaussian):
        pure = ", and those whose promise is pure" if use == "count" else ""
        raise ValueError(f"mechanism is {base.name!r}; accepted with {use} are 'gaussian' and "
                         f"'discrete gaussian', whose noise adds up{pure}")
    if query.weights is not None:
        raise ValueError(f"weights are given with {use}; accepted is None")
    check_flat(query.space, f" with {use}")
    choice.of(query, epsilon, delta)  # refuses what is to be refused
    made = Refined(base, query, epsilon, delta, rounds, shrink, **told)
    if named and not made.worth:
        made = Refined(base, query, epsilon, delta, 0, shrink, **told) if told else None
    return made
