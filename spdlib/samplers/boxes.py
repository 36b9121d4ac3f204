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
    balls, d = len(radii), dim // len(radii)
    cube = np.stack(np.meshgrid(*d * [(-0.5, 0.5)], indexing="ij"), axis=-1).reshape(-1, 1, d)
    children = np.eye(balls)[:, None, :, None] * cube
    centers, halves = np.zeros((1, balls, d)), radii[None].astype(float)
    ceilings, boxes, proposals = _ceilings(log_density, centers, halves, radius), 1, 0
    draws = [np.empty((0, dim))]
    while (missing := size - sum(map(len, draws))) > 0:
        logs = ceilings + d * np.log(halves).sum(axis=-1)
        weights = np.cumsum(np.exp(logs - logs.max()))
        m = max(least, min(len(halves), 4 * missing))
        pick = np.searchsorted(weights, rng.random(m) * weights[-1], side="right")
        v = centers[pick] + halves[pick, :, None] * rng.uniform(-1, 1, (m, balls, d))
        inside, v = inside_balls(v, radius), v.reshape(m, dim)
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
        parts = centers[split, None] + halves[split, None, :, None] * children[longest]
        parts = parts.reshape(-1, balls, d)
        widths = np.repeat(halves[split] / (1 + np.eye(balls)[longest]), len(cube), axis=0)
        touch = inside_balls(np.maximum(np.abs(parts) - widths[..., None], 0), radius)
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
    m, balls, d = centers.shape
    nearest = centers * np.minimum(1, radius / np.maximum(lengths(centers), radius))[..., None]
    reach = halves * math.sqrt(d)
    return log_density(nearest.reshape(m, balls * d), reach if np.ndim(radius) else reach[:, 0])


def inside_balls(v, radius):
    """Which of the vectors `v`, shape (m, balls, d), are in the product of balls about 0."""
    return (lengths(v) <= radius).all(axis=-1)
