"""Private counts: how many records are outside the public ball."""

import random

import numpy as np
from numpy.typing import ArrayLike

from .._checks import Seed, generator
from ..accounting.account import Account, Group, spending
from ..mechanisms import DiscreteLaplace
from ..queries import FrechetMean
from ..spaces.ball import Ball


@np.errstate(all="ignore")  # a warning, where a square is no float, would speak of the data
def private_clipped_count(X: ArrayLike, ball: Ball, epsilon: float, *, on_invalid: str = "raise",
                          rng: Seed = None, accountant: Account = None, group: Group = None) -> int:
    """How many records are outside the public ball or are no points, with noise, at a price of ε.

    How many records a mean clips is a fact about the data and is not published; this count, ε-DP
    where one of n records is replaced by any other, may be published. The noise is an integer,
    drawn exactly from the system's entropy; its standard deviation is about √2/ε.

    Parameters
    ----------
    X : array of shape (n, k, k), or (n, *space.shape)
    ball, on_invalid
        As of `PrivateFrechetMean`.
    epsilon : float
        What it costs, from 1e-6 to 1e3.
    rng, accountant, group
        As of `PrivateFrechetMean.fit`.

    Returns
    -------
    int
        From 0 to n.

    Raises
    ------
    ValueError
        For an invalid parameter or record, or what the budget does not hold; nothing was drawn
        then.

    Examples
    --------
    >>> from spdlib import Ball, private_clipped_count, random_spd
    >>> import numpy as np
    >>> covariances = random_spd(400, 3, 1.0, rng=0)
    >>> private_clipped_count(covariances, Ball(0.5, np.eye(3)), epsilon=1.0) > 300
    True
    """
    query = FrechetMean(X, ball, on_invalid)
    mechanism, rng = DiscreteLaplace(epsilon), None if rng is None else generator(rng)
    with spending(accountant, mechanism, 1, group):
        count = query.outside()
    source = random.SystemRandom() if rng is None else random.Random(rng.bytes(32))
    return min(max(count + mechanism.draw(source), 0), query.n)
