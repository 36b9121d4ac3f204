"""Exact draws from a density by rejection, from an envelope that is constant on boxes."""

import math

import numpy as np

from ..spaces.components import lengths

AT_ONCE = 32  # proposals of a round, at least


def sample_by_boxes(log_density, radius, dim, size, rng, least=AT_ONCE, looks=0.5):
    """Draws from a density on the ball about 0 in R^dim, shape `(size, dim)`, and the proposals.

    If `radius` has several entries, on the product of balls of these radii, of equal dimensions.
    `log_density(v, reach)` bounds the log density from above on what of the domain is within
    `reach` of its points `v` (in each of the balls, shape `(m, balls)`, if there are several), and
    is the log density itself where `reach` is 0. The draws are by rejection from an envelope that
    is constant on boxes. What is refused splits its box, along the ball in which it is longest, as
    long as no more than `looks` boxes were looked at for a proposal, of which there are at least
    `least` at a time. Every envelope on the way gives the same law to what is accepted, so the
    draws are exact and independent.
    """
    radii = np.atleast_1d(radius)
    d = dim // len(radii)
    cube = np.stack(np.meshgrid(*d * [(-0.5, 0.5)], indexing="ij"), axis=-1).reshape(-1, d)
    children = np.kron(np.eye(len(radii)), cube).reshape(len(radii), len(cube), dim)
    centers, halves = np.zeros((1, dim)), radii[None].astype(float)
    ceilings, boxes, proposals = _ceilings(log_density, centers, halves, radius), 1, 0
    draws = [np.empty((0, dim))]
    while (missing := size - sum(map(len, draws))) > 0:
        logs = ceilings + d * np.log(halves).sum(axis=-1)
        weights = np.cumsum(np.exp(logs - logs.max()))
        m = max(least, min(len(halves), 4 * missing))
        pick = np.searchsorted(weights, rng.random(m) * weights[-1], side="right")
        pick = np.minimum(pick, len(halves) - 1)
        v = centers[pick] + np.repeat(halves[pick], d, axis=1) * rng.uniform(-1, 1, (m, dim))
        inside = inside_balls(v, radius)
        short = np.full(m, math.inf)
        short[inside] = ceilings[pick[inside]] - log_density(v[inside], 0.0)
        accepted = rng.standard_exponential(m) > short
        draws.append(v[accepted][:missing])
        proposals += m
        refused, times = np.unique(pick[~accepted], return_counts=True)
        most = max((int(looks * proposals) - boxes) // len(cube), 1)
        split = refused[np.argsort(-times, kind="stable")][:most]
        boxes += len(cube) * len(split)
        longest = np.argmax(halves[split], axis=1)
        steps = np.repeat(halves[split], d, axis=1)[:, None] * children[longest]
        parts = (centers[split, None] + steps).reshape(-1, dim)
        shrunk = halves[split] / np.where(np.arange(len(radii)) == longest[:, None], 2, 1)
        widths = np.repeat(shrunk, len(cube), axis=0)
        touch = inside_balls(np.maximum(np.abs(parts) - np.repeat(widths, d, axis=1), 0), radius)
        parts, widths = parts[touch], widths[touch]
        centers = np.concatenate([np.delete(centers, split, axis=0), parts])
        halves = np.concatenate([np.delete(halves, split, axis=0), widths])
        tops = _ceilings(log_density, parts, widths, radius)
        ceilings = np.concatenate([np.delete(ceilings, split), tops])
    return np.concatenate(draws), proposals


def _ceilings(log_density, centers, halves, radius):
    """Upper bounds of the log density on what of the boxes is in the domain.

    That is, in each ball, no further from the point of the ball that is nearest to the box's centre
    than from the centre itself.
    """
    parts = _parts(centers, radius)
    norm = lengths(parts)
    nearest = parts * np.minimum(1, radius / np.maximum(norm, radius))[..., None]
    reach = halves * math.sqrt(parts.shape[-1])
    return log_density(nearest.reshape(centers.shape), reach if np.ndim(radius) else reach[:, 0])


def _parts(v, radius):
    """The vectors `v`, shape (m, dim), as m times one in each of the balls of these radii."""
    return v.reshape(len(v), np.size(radius), v.shape[-1] // np.size(radius))


def inside_balls(v, radius):
    """Which of the vectors `v` are in the ball, or the product of balls, about 0."""
    return (lengths(_parts(v, radius)) <= radius).all(axis=-1)
