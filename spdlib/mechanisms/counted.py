"""A pure release and, beside it, how many records were clipped: two parts of one ε.

The answer of a pure mechanism at (1 - share) ε and a noisy number at share ε are together ε-DP,
since the probabilities of a pair of answers multiply. The number is an integer with discrete
Laplace noise; one record, replaced by any other, moves it by 1 at most.
"""

import math
import random

import numpy as np

from .._checks import number
from .base import Mechanism, public_of
from .integers import DiscreteLaplace


class Counted(Mechanism):
    """A pure mechanism's answer, with the number of records outside of the ball behind it: ε-DP.

    Parameters
    ----------
    choice : Choice
        Of a pure mechanism.
    query : FrechetMean
        In memory, and without weights; no more than public numbers are looked at.
    epsilon, delta : float
        The promise; `delta` has to be 0.
    share : float
        Of ε, for the number.

    Attributes
    ----------
    base : Mechanism
        What answers the query.
    shares : dict of str to float
        Of ε, what the answer and the number have.

    Raises
    ------
    ValueError
        For a promise that is none. The query is refused when the answer is prepared.
    """

    public, pure = ("loss",), True

    def __init__(self, choice, query, epsilon, delta, share):
        least = f"shares of epsilon, {epsilon!r}, that leave each part 1e-6 or more"
        number(epsilon * min(share, 1 - share), "count times epsilon", 1.01e-6, math.inf, least)
        self.base = base = choice.of(query, (1 - share) * epsilon, delta)
        self.counter = DiscreteLaplace((share - 1e-15) * epsilon)  # 1e-15 is for rounding
        self.name, self.exact, self.source = base.name, base.exact, base.source
        self.each, self.in_chart = base.each, base.in_chart
        self.loss = math.nextafter(base.loss + self.counter.loss, math.inf)
        self.shares = {"means": 1 - share, "count": share}

    @property
    def noises(self):
        """What is public of the noise, by part."""
        parts = {"means": self.base, "count": self.counter}
        return {
            part: {
                name: float(value)
                for name, value in public_of(mechanism).items()
            }
            for part, mechanism in parts.items()
        }

    def is_proved(self, query):
        return self.base.is_proved(query)

    def _prepared(self, query):
        draw = self.base.prepared(query)
        clipped = query.outside()

        def answers(rng, shape):
            source = random.SystemRandom() if rng is None else random.Random(rng.bytes(32))
            told = [clipped + self.counter.draw(source) for _ in range(math.prod(shape))]
            told = np.clip(np.reshape(told, shape), 0, query.n)
            return np.concatenate([draw(rng, shape), told[..., None]], axis=-1)

        return answers
