"""Metropolis chains, many at once, and how well they have mixed."""

import math

import numpy as np

from .._checks import at, finite, first, generator, integer
from .boxes import inside_balls

TUNING = 40  # rounds to tune
LENGTHS = [2**i for i in range(9, 16)]  # steps of the runs, one after the other
MIXED = 1.05  # largest split-R̂ of chains whose last states are taken: 20 relaxation times or so


def sample_by_chains(log_density, x, radius, rng):
    """Last states of Metropolis chains in the ball about 0 from the states `x`, shape `(m, dim)`.

    If `radius` has several entries, in the product of balls of these radii. Each run is twice as
    long as the one before, until the chains have mixed; ValueError where they have not after
    the last of `LENGTHS`.
    """

    def inside(v):
        log_p = np.full(len(v), -math.inf)
        near = inside_balls(v.reshape(len(v), np.size(radius), -1), radius)
        log_p[near] = log_density(v[near])
        return log_p

    def propose(x, rng):
        return x + width * rng.standard_normal(x.shape)

    width = np.repeat(radius, x.shape[-1] // np.size(radius))
    for _ in range(TUNING):
        x, acceptance = metropolis(inside, propose, x, 20, rng)
        width = width * math.exp(2 * (acceptance.mean() - 0.25))
    for steps in LENGTHS:
        states = []
        x, _ = metropolis(inside, propose, x, steps, rng, lambda x, to=states: to.append(x.copy()))
        if (rhat := split_rhat(np.stack(states)).max()) <= MIXED:
            return x
    raise ValueError(f"the chains have a split-R̂ of {rhat:.3f} after {steps} steps; accepted "
                     f"is {MIXED}")


def metropolis(log_density, propose, x, steps, rng=None, watch=None):
    """Chains of Metropolis from the states `x`, shape `(n, ...)`: last states and acceptance.

    `log_density(x)`, shape `(n,)`, is that of the target up to a constant; `propose(x, rng)` draws
    candidates from a *symmetric* proposal. Each chain is `steps` long; its acceptance, shape
    `(n,)`, is the share of candidates that it accepted. A rejected candidate leaves the chain where
    it is, and that counts as a step. `rng` is a `numpy.random.Generator` or a seed. `watch(x)`
    is called with the states after each step, which the next one overwrites.
    """
    rng, steps = generator(rng), integer(steps, "steps", 0)
    x = np.array(x, complex if np.iscomplexobj(x) else float)
    log_p = log_density(x)
    accepted = np.zeros(len(x), int)
    for _ in range(steps):
        candidate = propose(x, rng)
        log_q = log_density(candidate)
        accept = rng.standard_exponential(len(x)) > log_p - log_q
        x[accept], log_p = candidate[accept], np.where(accept, log_q, log_p)
        accepted += accept
        if watch is not None:
            watch(x)
    return x, accepted / max(steps, 1)


def split_rhat(chains):
    """The potential scale reduction R̂ of chains, shape `(steps, n, ...)`: an array `(...)`.

    Each chain is split into halves (Gelman et al. 2013, Sec. 11.4; without the ranks of Vehtari
    et al. 2021). It is near 1 where the halves agree, and infinite where they stay apart and none
    moves. ValueError for fewer than 4 steps, or where all values are one and the same.
    """
    chains = finite(chains, "chains")
    if chains.ndim < 2 or len(chains) < 4 or chains.shape[1] < 1:
        raise ValueError(f"chains has shape {chains.shape}; accepted is (steps, n, ...) with at "
                         "least 4 steps of at least one chain")
    constant = (chains == chains[0, 0]).all(axis=(0, 1))
    if constant.any():
        index = 0, 0, *first(constant)
        raise ValueError(f"chains{at(index)} is {chains[index]}, and all values that follow it are "
                         "the same; accepted are chains that move")
    chains = np.ldexp(chains, -np.frexp(np.abs(chains).max(axis=(0, 1)))[1])  # squares are floats
    half = len(chains) // 2
    halves = np.concatenate([chains[:half], chains[-half:]], axis=1)
    length, within = len(halves), halves.var(axis=0, ddof=1).mean(axis=0)
    both = within * (length - 1) / length + halves.mean(axis=0).var(axis=0, ddof=1)
    return np.sqrt(np.divide(both, within, where=within > 0, out=np.full_like(both, math.inf)))[()]
