"""Samplers: exact ones, and Metropolis chains, many at once."""

import numpy as np

from ._checks import generator, integer


def sample_laplace(shape, rng=None):
    """Draws with density proportional to exp(-‖x‖) on R^d, `shape = (..., d)`.

    A Gamma(d) radius times a uniform direction. `rng` is a `numpy.random.Generator` or a seed.
    ValueError where `d` is not at least 1.
    """
    *batch, d = shape
    d, rng = integer(d, "d, the last entry of shape,", 1), generator(rng)
    z = rng.standard_normal((*batch, d))
    z /= np.linalg.norm(z, axis=-1, keepdims=True)
    return z * rng.standard_gamma(d, (*batch, 1))


def metropolis(log_density, propose, x, steps, rng=None):
    """Chains of Metropolis from the states `x`, shape `(n, ...)`: last states and acceptance.

    `log_density(x)`, shape `(n,)`, is that of the target up to a constant; `propose(x, rng)` draws
    candidates from a *symmetric* proposal. Each chain is `steps` long; its acceptance, shape
    `(n,)`, is the share of candidates that it accepted. A rejected candidate leaves the chain where
    it is, and that counts as a step. `rng` is a `numpy.random.Generator` or a seed.
    """
    rng, steps = generator(rng), integer(steps, "steps", 0)
    x, log_p = np.array(x, float), log_density(x)
    accepted = np.zeros(len(x), int)
    for _ in range(steps):
        candidate = propose(x, rng)
        log_q = log_density(candidate)
        accept = rng.standard_exponential(len(x)) > log_p - log_q
        x[accept], log_p = candidate[accept], np.where(accept, log_q, log_p)
        accepted += accept
    return x, accepted / max(steps, 1)
