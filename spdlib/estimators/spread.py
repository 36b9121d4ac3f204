"""The private spread: the mean squared distance of the records from a public point."""

import numpy as np
from numpy.typing import ArrayLike

from .._checks import Seed, choice, number
from ..accounting.account import Account, Group, spending
from ..calibration import gdp_mu
from ..mechanisms import DiscreteGaussian, TangentGaussian
from ..queries import FrechetMean
from ..queries.mean import checked_ball
from ..queries.passes import Asked, Passes
from ..spaces.ball import Ball
from .base import warn_of_delta

NOISE = {"gaussian": TangentGaussian, "discrete gaussian": DiscreteGaussian}


@np.errstate(all="ignore")
def private_spread(X: ArrayLike, ball: Ball, epsilon: float, delta: float, *,
                   mechanism: str = "gaussian", on_invalid: str = "raise", rng: Seed = None,
                   accountant: Account = None, group: Group = None) -> float:
    """Mean squared distance of the records from the ball's centre, with noise: (ε, δ)-DP.

    The centre is public: the centre of a public ball, or a mean that has been released. A record
    outside of the ball counts as one at its edge, so that one of n records, replaced by any other,
    moves the mean by radius²/n (claim SP-36). Beside a mean `PrivateFrechetMean(..., spread=True)`
    does the same with a share of its budget.

    Parameters
    ----------
    X : array or dask.array of shape (n, k, k), or (n, *space.shape)
    ball, on_invalid
        As of `PrivateFrechetMean`.
    epsilon, delta : float
        What it costs: ε from 1e-6 to 1e3, δ from 1e-300 to 1/2.
    mechanism : {"gaussian", "discrete gaussian"}
        As of `PrivateFrechetMean`.
    rng, accountant, group
        As of `PrivateFrechetMean.fit`.

    Returns
    -------
    float
        From 0 to radius², in squared units of the distance.

    Raises
    ------
    ValueError
        For an invalid parameter or record, or what the budget does not hold; nothing was drawn
        then.

    Examples
    --------
    >>> from spdlib import Ball, private_spread, random_spd
    >>> import numpy as np
    >>> covariances = random_spd(4000, 3, 0.5, rng=0)
    >>> 0 < private_spread(covariances, Ball(2.0, np.eye(3)), epsilon=1.0, delta=1e-6) < 4
    True
    """
    query = FrechetMean(X, checked_ball(ball).tangent(), on_invalid)
    number(query.radius, "radius", 1e-150, 1e150, "numbers from 1e-150 to 1e150 with a spread")
    centre, radii = np.zeros((1, query.space.dim)), np.array([query.radius])

    def total(grid=None):  # no record is looked at before
        return Passes(query).spread(centre, radii, centre).total(grid)

    asked = Asked(query.ball, query.n, 0.5, total)
    made = NOISE[choice(mechanism, "mechanism", NOISE)].with_mu(asked, gdp_mu(epsilon, delta))
    rng = made.source(rng)
    warn_of_delta(delta, query.n, stacklevel=4)
    with spending(accountant, made, 1, group):
        draw = made.prepared(asked)
    return float(np.clip(draw(rng)[0] / query.n, 0, 1)) * query.radius**2
