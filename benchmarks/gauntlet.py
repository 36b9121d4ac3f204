"""Releases of spdlib as it is imported, for two neighbouring data sets: one program a fault.

`second_auditor.py` runs this with a broken copy of spdlib, once for each fault of the gauntlet that
shows in single releases. The data sets are those that should show it best:

    python benchmarks/gauntlet.py FAULT OUT.npz
"""

import random
import sys

import numpy as np

from spdlib import AffineInvariant, Ball, FrechetMean, LogEuclidean, Sphere, private_clipped_count
from spdlib.audit import replay
from spdlib.mechanisms import (CurveKNormGradient, DiscreteGaussian, DiscreteLaplace, KNormGradient,
                               NoisyDescent, TangentGaussian, TruncatedCurveLoss, TruncatedLoss)
from spdlib.queries import ClassSums, CurveQuery, RunningMean

EPSILON, DELTA, SIZE = 1.0, 0.1, 200_000
LINE, GLOBE, CIRCLE, MATRICES = LogEuclidean(1), Sphere(2), Sphere(1), AffineInvariant(2)


def steps(space, others, far, bad=0):
    """Two studies: one person at the ends of a diameter, twice as far as the ball, and the others.

    The others are at the steps `others` along the same axis; so many more are no points.
    """
    axis, center = np.eye(space.dim)[0], np.eye(*space.shape[:1]) if len(space.shape) > 1 else \
        np.eye(space.shape[0])[-1]
    for end in (far, -far):
        records = space.exp(center, np.outer([end, *others], axis))
        yield np.concatenate([records, np.full((bad, *space.shape), np.nan)]), center


def means(make, space=LINE, others=(0.0, 0.0), radius=1.0, bad=0):
    """Answers of a mechanism to both studies, and the furthest that a replay sees them apart."""
    queries = [FrechetMean(X, Ball(radius, center, space), "center")
               for X, center in steps(space, others, 2 * radius, bad)]
    return answers(make, queries)


def answers(make, queries):
    rng = np.random.default_rng(0)
    noise = make(queries[0])
    seeded = isinstance(noise, TangentGaussian)
    moved = replay(lambda query, seed: (make(query).answer(query, seed), make(query).sensitivity),
                   queries) if seeded else np.nan
    if isinstance(noise, DiscreteGaussian):
        rng = None
    delta = DELTA if noise.law == "gaussian" else 0.0
    return [noise.answer(query, rng, SIZE) for query in queries], moved, delta


def curves(make, others=4, bad=0):
    """The same for curves on the circle; the records are at the middle of the range."""
    x, queries = np.full(1 + others + bad, 0.5), []
    for X, center in steps(CIRCLE, others * [0.0], 0.45, bad):
        domain = Ball(0.5, center, CIRCLE)
        queries.append(CurveQuery(x, X, domain, 0.5, on_invalid="center"))
    return answers(make, queries)


def gaussian(query):
    return TangentGaussian.of(query, EPSILON, DELTA)


def truncated(query):
    return TruncatedLoss(EPSILON, query.ball, query.radius / 2)


def k_norm(query):
    return KNormGradient.of(query, EPSILON, clip=query.radius / 2)


def unclipped(query):
    return KNormGradient.of(query, EPSILON)


def truncated_curve(query):
    return TruncatedCurveLoss.of(query, EPSILON, clip=0.1)


def k_norm_curve(query):
    return CurveKNormGradient.of(query, EPSILON, clip=0.1)


def descent(query):
    return NoisyDescent.of(query, EPSILON, DELTA, clip=0.2)


def batches(parts):
    """A mean of two people who come in so many batches, the opponent first."""
    queries = []
    for X, center in steps(LINE, [0.0], 2.0):
        query = RunningMean(2, Ball(1.0, center, LINE))
        for part in parts(X):
            query.add(part)
        queries.append(query)
    return answers(gaussian, queries)


def in_chunks(X):
    import dask.array as da

    return [da.from_array(X, chunks=(1, 1, 1))]


def classes(size):
    """Sums of two classes; of so many people in the first one moves to the second."""
    X, ball = np.ones((size, 1, 1)), Ball(1.0, np.eye(1), LINE)
    queries = [ClassSums(X, [label] + (size - 1) * [0], [0, 1], ball) for label in (0, 1)]
    return answers(gaussian, queries)


def drawn_counts():
    """Noisy counts of 10 and of 11 people."""
    source, noise = random.Random(0), DiscreteLaplace(EPSILON)
    return [np.array([[count + noise.draw(source)] for _ in range(SIZE)], float)
            for count in (10, 11)], np.nan, 0.0


def whole_counts():
    """Counts of 127 and of 128 people outside of the ball, of 200; fewer, since each is a call."""
    numbers = np.random.default_rng(0).integers(2**62, size=SIZE // 10).tolist()
    studies = [np.exp(2.0 * (np.arange(200) < count))[:, None, None] for count in (127, 128)]
    ball = Ball(1.0, np.eye(1), LINE)
    return [np.array([[private_clipped_count(X, ball, EPSILON, rng=number)]
                      for number in numbers], float) for X in studies], np.nan, 0.0


HALF = [0.0, 0.9] * 10  # half of the others at each place: a rounded mean is on an edge
PROGRAMS = {
    "a rounded mean subtracted from all records": lambda: means(gaussian, others=HALF[1:] + [1.0]),
    "a rounded mean subtracted from steps": lambda: means(
        truncated, GLOBE, [0.25] * 5, 0.3),
    "a rounded mean subtracted from the records of a curve": lambda: curves(truncated_curve),
    "a count in which 0 comes twice as often": drawn_counts,
    "boxes drawn without their volumes": lambda: means(truncated, GLOBE, [0.0] * 20, 0.3),
    "noise that point and velocity share": lambda: curves(descent),
    "a descent of one step more than is paid for": lambda: curves(descent),
    "integer noise in 32 bits": lambda: means(
        lambda query: DiscreteGaussian.of(query, EPSILON, DELTA)),
    "sizes of classes in 8 bits": lambda: classes(128),
    "a count in 8 bits": whole_counts,
    "steps clipped, raw ones used": lambda: means(gaussian, GLOBE, [0.0] * 2, 0.3),
    "residuals clipped, raw ones added up": lambda: means(k_norm, GLOBE, [0.3] * 4, 0.3),
    "truncated loss that truncates at twice the distance": lambda: means(
        truncated, GLOBE, [0.0] * 4, 0.3),
    "gradients of a curve clipped, raw ones added up": lambda: curves(k_norm_curve),
    "gradients of a descent clipped, raw ones added up": lambda: curves(descent),
    "the lower bound of the Hessian for both ends": lambda: means(
        unclipped, MATRICES, [0.0] * 4, 1.0),
    "a bad record counted as another one": lambda: curves(truncated_curve, 2, 3),
    "earlier batches counted twice": lambda: batches(lambda X: [X[:1], X[1:]]),
    "merged batches counted twice": lambda: batches(in_chunks),
    "the first record of a descent counted twice": lambda: curves(descent),
}


if __name__ == "__main__":
    fault, path = sys.argv[1:]
    pair, moved, delta = PROGRAMS[fault]()
    np.savez(path, pair=np.stack(pair), moved=moved, delta=delta)
