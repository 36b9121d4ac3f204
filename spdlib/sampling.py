"""Samplers: exact ones, and Metropolis chains, many at once."""

import numpy as np


def sample_laplace(shape, rng=None):
    """Draws with density proportional to exp(-‖x‖) on R^d, `shape = (..., d)`: a Gamma(d) radius times a uniform direction.

    `rng` is a `numpy.random.Generator` or a seed.
    """
    rng = np.random.default_rng(rng)
    z = rng.standard_normal(shape)
    z /= np.linalg.norm(z, axis=-1, keepdims=True)
    return z * rng.standard_gamma(shape[-1], (*shape[:-1], 1))


def metropolis(log_density, propose, x, steps, rng=None):
    """Chains of Metropolis, each `steps` long, from the states `x`, shape `(n, ...)`: the last states and the acceptance.

    `log_density(x)`, shape `(n,)`, is that of the target up to a constant; `propose(x, rng)` draws candidates from a
    *symmetric* proposal. The acceptance, shape `(n,)`, is the share of candidates that each chain accepted. A rejected
    candidate leaves the chain where it is, and that counts as a step. `rng` is a `numpy.random.Generator` or a seed.
    """
    rng = np.random.default_rng(rng)
    x, log_p = np.array(x, float), log_density(x)
    accepted = np.zeros(len(x), int)
    for _ in range(steps):
        candidate = propose(x, rng)
        log_q = log_density(candidate)
        accept = rng.standard_exponential(len(x)) > log_p - log_q
        x[accept], log_p = candidate[accept], np.where(accept, log_q, log_p)
        accepted += accept
    return x, accepted / max(steps, 1)
