"""The one way of records up: what a record contributes depends on that record alone, to the last
bit, in every space, by every way in, in every layout, beside every neighbour.
"""

import itertools
import math
import warnings
from fractions import Fraction
from functools import partial

import numpy as np
import pytest
from conftest import mostly_slow

from spdlib import (NoisyDescent, PrivateClassMeans, PrivateFrechetMean, PrivateGeodesicRegression,
                    private_clipped_count)
from spdlib.queries import ClassSums, CurveQuery, FrechetMean, RunningMean
from spdlib.queries.passes import Passes
from spdlib.queries.sums import ClippedSum
from spdlib.spaces import (AffineInvariant, Ball, Euclidean, KendallPlanar, LogEuclidean, Sphere,
                           TangentSpace)
from spdlib.spaces.ball import clip_to_ball, finest_grid

N = 23  # hard records
UNIT = Ball(1.0, np.eye(2))


def directions(rng, d):
    """Unit vectors at the cut locus of their first, ordinary ones, and some of borderline length.

    Record 0 is the centre.
    """
    X = rng.standard_normal((N, d + 1))
    X /= np.linalg.norm(X, axis=1, keepdims=True)
    center = X[0].copy()
    close = 10.0 ** rng.uniform(-18, -12, (12, 1))
    X[1:13] = -center + close * rng.standard_normal((12, d + 1))
    X[1:13] *= 1 + rng.uniform(-5e-7, 5e-7, (12, 1))
    X[13:16] *= math.sqrt(1 + 2e-6) * (1 + 4e-16 * rng.uniform(-1, 1, (3, 1)))
    return X


def shapes(rng, m):
    """Landmarks at the cut locus of the first, ordinary ones, minute, huge and coincident ones."""
    X = rng.standard_normal((N, m)) + 1j * rng.standard_normal((N, m))
    center = X[0] - X[0].mean()
    center /= np.linalg.norm(center)
    far = X[1:13] - X[1:13].mean(axis=1, keepdims=True)
    far -= (far @ center.conj())[:, None] * center
    X[1:13] = far + 1e-17 * 10.0 ** rng.uniform(-1, 1, (12, 1)) * center
    X[13] *= 1e-307
    X[14] *= 1e300
    X[15:17] = 1 + 1e-6 * X[15:17]
    return X


def matrices(rng, k):
    """SPD matrices of all conditions, some borderline ones among them."""
    Q = np.linalg.qr(rng.standard_normal((N, k, k)))[0]
    X = (Q * 10 ** rng.uniform(-3, 3, (N, 1, k))) @ Q.swapaxes(1, 2)
    X = X / 2 + X.swapaxes(1, 2) / 2
    X[0] = X[0] + np.eye(k)
    X[1] = np.ones((k, k)) + 1e-15 * np.diag(np.arange(k) + 1)
    X[2] = np.eye(k) + (k - 1) * np.finfo(float).eps * np.ones((k, k))
    X[3] *= 1e-310
    X[4] = 1e306 * np.eye(k)
    X[5] = 5e-324 * np.eye(k)
    X[6, 0, -1] *= 1 + 1e-10  # of borderline symmetry
    X[7] = np.diag(10.0 ** np.linspace(-160, 120, k))
    X[8] = np.ones((k, k)) + k * np.finfo(float).eps * np.eye(k)
    X[9] = -X[9]
    above = np.triu_indices(k, 1)
    X[10:12] = 2 * np.eye(k), np.eye(k) + 1
    X[10][above] = -0.0  # symmetric but for the sign of a zero
    X[11][above] *= 1 + 2.0 ** -23  # but for a rounding of float32
    return X


CURVED = {f"S{d}": (Sphere(d), directions, d) for d in (1, 2, 5, 40)}
CURVED |= {f"shapes of {m}": (KendallPlanar(m), shapes, m) for m in (3, 5, 40)}
CURVED |= {f"affine-invariant {k}": (AffineInvariant(k), matrices, k) for k in (1, 2, 3, 5)}
DATA = {name: make(np.random.default_rng(0), size)
        for name, (_, make, size) in CURVED.items()}
SPACES = {name: (space, DATA[name]) for name, (space, _, _) in CURVED.items()}
SPACES |= {f"chart of {name}": (TangentSpace(space, X[0]), X)
           for name, (space, X) in SPACES.items()}
for _k in (1, 2, 3, 5, 9, 30):
    SPACES[f"log-Euclidean {_k}"] = LogEuclidean(_k), matrices(np.random.default_rng(_k), _k)
for _k in (1, 2, 5):
    SPACES[f"Euclidean {_k}"] = Euclidean(_k), matrices(np.random.default_rng(_k), _k)
BALLS = {name: (Ball(1.0, X[0], space), X) for name, (space, X) in SPACES.items()}
FLAT = {name: (ball, X) for name, (ball, X) in BALLS.items() if ball.space.flat}
FAST = ("S2", "chart of S5", "chart of shapes of 40", "log-Euclidean 3", "chart of affine-"
        "invariant 2")


def every(balls):
    return pytest.mark.parametrize("name", mostly_slow(list(balls), *FAST))


def layouts(X, folder):
    """The same numbers in memory in other ways."""
    last = X.ndim - 1
    yield "C", X.copy()
    yield "Fortran", np.asfortranarray(X)
    yield "transposed", np.ascontiguousarray(X.T).T
    yield "moved axis", np.moveaxis(np.ascontiguousarray(np.moveaxis(X, 0, -1)), -1, 0)
    yield "strided", np.repeat(np.repeat(X, 3, axis=0), 2, axis=last)[::3, ..., ::2]
    yield "columns of a wider one", np.pad(X, [(0, 0), *last * [(1, 2)]])[
        (slice(None), *last * (slice(1, -2),))]
    yield "reversed records", X[::-1].copy()[::-1]
    yield "reversed components", X[..., ::-1].copy()[..., ::-1]
    fixed = X.copy(order="F")
    fixed.flags.writeable = False
    yield "read-only", fixed
    stored = np.lib.format.open_memmap(folder / "X.npy", "w+", X.dtype, X.shape, True)
    stored[...] = X
    yield "memory-mapped", stored
    yield "objects", X.astype(object)
    yield "a list of records", list(np.asfortranarray(X))
    yield "nested lists", X.tolist()
    yield "no mask", np.ma.masked_array(X, False)
    yield "of the other byte order", X.astype(X.dtype.newbyteorder())
    apart = np.ndarray(X.shape, X.dtype, bytearray(X.nbytes + 3), offset=3)
    apart[...] = X
    yield "unaligned", apart


def replaced(X, i, by):
    """The records, of which one is another now."""
    X = np.ma.masked_array(X.copy(), np.zeros(X.shape, bool)) if by == "masked" else X.copy()
    X[i] = {"masked": np.ma.masked, "NaN": math.nan, "inf": math.inf, "-inf": -math.inf, "zero": 0,
            "too long": 2 * X[0], "denormal": 5e-324, "asymmetric": np.arange(X[0].size).reshape(
                X[0].shape), "another": X[-1]}[by]
    return X


OTHERS = ("NaN", "inf", "-inf", "zero", "too long", "denormal", "masked", "asymmetric", "another")


def alone(ball, X):
    """The step to each record, computed with nothing beside it, and whether it is a point."""
    found = [ball.seen(X[i:i + 1], "center") for i in range(len(X))]
    return np.concatenate([steps for steps, _ in found]), np.array([sound[0] for _, sound in found])


def sums(ball, X, weights=None):
    """The exact sum of the clipped steps, each of which is found alone, as fractions."""
    each = np.ones(len(X)) if weights is None else weights
    grid = finest_grid(ball.radius, len(X))
    steps = [clip_to_ball(step[None], ball.radius, grid, np.array([[weight]]))[0]
             for step, weight in zip(alone(ball, X)[0], each, strict=True)]
    return [sum(map(Fraction, column)) for column in np.array(steps).T.tolist()]


def bits(A):
    return np.ascontiguousarray(A).tobytes()


def as_fractions(total):
    return [Fraction(entry) for entry in total.tolist()]


@every(BALLS)
def test_a_step_has_the_same_bits_alone_in_any_batch_and_in_any_layout(name, tmp_path):
    ball, X = BALLS[name]
    expected, sound = alone(ball, X)
    assert not expected[~sound].any() and np.isfinite(expected).all()
    for layout, Y in layouts(X, tmp_path):
        query = FrechetMean(Y, ball, "center")
        assert bits(query.bare_steps()) == bits(expected), layout
    rng = np.random.default_rng(0)
    for m in (1, 2, 3, 7, 16):
        some = rng.permutation(N)[:m]
        steps, here = ball.seen(X[some], "center")
        assert bits(steps) == bits(expected[some]) and np.array_equal(here, sound[some])
    many = rng.integers(N, size=3000)  # more than a block
    assert bits(ball.seen(X[many], "center")[0]) == bits(expected[many])


@every(BALLS)
@pytest.mark.parametrize("by", mostly_slow(OTHERS, "NaN", "masked"))
def test_no_record_moves_a_bit_of_the_step_to_another(name, by, tmp_path):
    ball, X = BALLS[name]
    expected = alone(ball, X)[0]
    for i in (0, 5, N - 2):
        Y = replaced(X, i, by)
        others = np.arange(N) != i
        kept = layouts(Y, tmp_path) if by != "masked" else [("masked", Y), ("F", Y.copy("F"))]
        for layout, Z in kept:
            steps = FrechetMean(Z, ball, "center").bare_steps()
            assert bits(steps[others]) == bits(expected[others]), layout
    only = np.full_like(X[:4], np.nan)  # no point but one
    only[2] = X[3]
    steps, _ = ball.seen(only, "center")
    assert bits(steps[2]) == bits(expected[3])


@pytest.mark.slow
@every(FLAT)
def test_every_way_in_adds_up_the_steps_that_records_have_alone(name, tmp_path):
    ball, X = FLAT[name]
    sound = alone(ball, X)[1]
    bad = replaced(X, 4, "NaN")
    labels, weights = np.arange(N) % 2, 2.0 ** -(np.arange(N) % 3)
    of_all, weighted = sums(ball, bad), sums(ball, bad, weights)
    by_class = [total for label in (0, 1) for total in sums(
        ball, np.where((labels == label).reshape(-1, *(X.ndim - 1) * (1,)), bad, np.nan))]
    steps, points = alone(ball, bad)
    outside = int(((np.linalg.norm(steps, axis=1) > 1) | ~points).sum())
    for layout, Y in layouts(bad, tmp_path):
        assert as_fractions(FrechetMean(Y, ball, "center").total()) == of_all, layout
        assert as_fractions(FrechetMean(Y, ball, "center", weights).total()) == weighted, layout
        running, one_by_one = (RunningMean(N, ball, "center") for _ in range(2))
        for batch in (Y[:1], Y[1:9], Y[9:]):
            running.add(batch)
        for i in range(N):
            one_by_one.add(Y[i:i + 1])
        assert as_fractions(running.total()) == as_fractions(one_by_one.total()) == of_all, layout
        classes = ClassSums(Y, labels, [0, 1], ball, "center").total()
        assert as_fractions(classes[:2 * ball.space.dim]) == by_class, layout
        count = private_clipped_count(Y, ball, 1e3, on_invalid="center", rng=0)
        assert count == outside, layout
    assert not sound.all() or outside > 0


@every(BALLS)
def test_a_regression_sees_the_steps_that_records_have_alone(name, tmp_path):
    ball, X = BALLS[name]
    bad, x = replaced(X, 4, "NaN"), np.linspace(0, 1, N)
    expected, sound = alone(ball, bad)
    sound[7] = False  # whose x is none
    expected[7] = 0
    for layout, Y in layouts(bad, tmp_path):
        for _, t in layouts(np.where(np.arange(N) == 7, np.inf, x)[:, None], tmp_path):
            t = [row[0] for row in t] if isinstance(t, list) else t[:, 0]
            query = CurveQuery(t, Y, ball.of_radius(0.1), 0.1, (0, 1), "center")
            assert bits(query.steps) == bits(expected), layout
            assert bits(query.times) == bits(np.where(sound, x - 0.5, 0)), layout
            if layout != "C":
                break


def passes(query, ball):
    """What two passes say: sums and numbers about centres that lie off that of the ball."""
    about = np.outer([0.25, -0.5], np.ones(ball.space.dim)) / ball.space.dim
    asked, radii = Passes(query), np.array([0.7, 1.5])[:len(Passes(query).counts)]
    about = about[:len(radii)]
    return asked.sums(about, radii).total(), asked.near(about, radii).total(), about, radii


@every(FLAT)
def test_a_pass_adds_up_what_records_have_alone_and_a_bad_one_is_the_centre_found(name, tmp_path):
    ball, X = FLAT[name]
    bad = replaced(X, 4, "NaN")
    steps, sound = alone(ball, bad)
    labels = np.arange(N) % 2
    *_, about, radii = passes(ClassSums(bad, labels, [0, 1], ball, "center"), ball)
    off = np.where(sound[:, None], (steps - about[labels]) / radii[labels, None], 0)
    near = [sum(np.linalg.norm(off[labels == i], axis=1) <= 1) for i in (0, 1)]
    clipped = np.concatenate([clip_to_ball(each[None], 1.0, finest_grid(1.0, N)) for each in off])
    by_class = [sum(map(Fraction, column)) for i in (0, 1)
                for column in clipped[labels == i].T.tolist()]
    for layout, Y in layouts(bad, tmp_path):
        total, numbers, *_ = passes(ClassSums(Y, labels, [0, 1], ball, "center"), ball)
        assert as_fractions(total) == [*by_class, 12, 11] and numbers.tolist() == near, layout
    masked = replaced(X, 4, "masked")
    total, numbers, *_ = passes(ClassSums(masked, labels, [0, 1], ball, "center"), ball)
    assert as_fractions(total) == [*by_class, 12, 11] and numbers.tolist() == near


@pytest.mark.slow
@every(FLAT)
def test_a_pass_over_chunks_says_what_one_over_memory_says(name):
    da = pytest.importorskip("dask.array", reason="dask is not installed")
    dask = pytest.importorskip("dask")
    ball, X = FLAT[name]
    bad = replaced(X, 4, "NaN")
    expected = passes(FrechetMean(bad, ball, "center"), ball)
    with dask.config.set(scheduler="threads"), np.errstate(all="raise"):
        for m in (1, 7, N):
            chunks = da.from_array(bad, chunks=(m, *X.shape[1:]), asarray=False)
            for told, wanted in zip(passes(FrechetMean(chunks, ball, "center"), ball), expected,
                                    strict=True):
                assert bits(told) == bits(wanted)
            labels = np.arange(N) % 2
            by_chunks, by_memory = (ClassSums(Y, labels, [0, 1], ball, "center").total()
                                    for Y in (chunks, bad))
            assert bits(by_chunks) == bits(by_memory)


@pytest.mark.slow
@every(FLAT)
def test_chunks_of_any_layout_add_up_to_the_same_sum(name, tmp_path):
    da = pytest.importorskip("dask.array", reason="dask is not installed")
    dask = pytest.importorskip("dask")
    ball, X = FLAT[name]
    expected = sums(ball, replaced(X, 4, "NaN"))
    masked = replaced(X, 4, "masked")
    kinds = [Y for layout, Y in layouts(replaced(X, 4, "NaN"), tmp_path)
             if layout in ("C", "Fortran", "reversed components", "memory-mapped")]
    with dask.config.set(scheduler="threads"), np.errstate(all="raise"):
        for Y, m in itertools.product([*kinds, masked, masked.copy("F")], (1, 7, N)):
            chunks = da.from_array(Y, chunks=(m, *X.shape[1:]), asarray=False)
            assert as_fractions(FrechetMean(chunks, ball, "center").total()) == expected


@every({name: entry for name, entry in SPACES.items() if "chart" not in name})
def test_a_distance_has_the_same_bits_alone_in_any_batch_and_in_any_layout(name, tmp_path):
    space, X = SPACES[name]
    X = X[space.contains(X)]
    expected = np.concatenate([space.dist(X[0], X[i:i + 1]) for i in range(len(X))])
    for layout, Y in layouts(X, tmp_path):
        if layout not in ("objects", "a list of records", "nested lists"):
            assert bits(space.dist(X[0], Y)) == bits(expected), layout
    for m in (1, 2, 3, 7):
        some = np.random.default_rng(m).permutation(len(X))[:m]
        assert bits(space.dist(X[0], X[some])) == bits(expected[some])


def ways(ball):
    """Functions of records: what each estimator releases of them, at one seed."""
    about = ball.of_radius(0.5), "gaussian", "center"

    def mean(Y, weights=None, **options):
        fitted = PrivateFrechetMean(1.0, 1e-6, *about, **options).fit(
            Y, sample_weight=weights, rng=0)
        return bits(fitted.mean_)

    def in_parts(Y):
        running = PrivateFrechetMean(1.0, 1e-6, *about, n=N)
        return bits(running.partial_fit(Y[:3]).partial_fit(Y[3:]).release(rng=0).mean_)

    def refined(Y):
        fitted = PrivateFrechetMean(1.0, 1e-6, *about, refine=2).fit(Y, rng=0)
        return bits(fitted.mean_), bits(fitted.ball_.center)

    def of_classes(Y):
        return bits(PrivateClassMeans(1.0, 1e-6, about[0], [0, 1], *about[1:]).fit(
            Y, [0, 1] * 11 + [None], rng=0).means_)

    if not ball.space.flat:
        return mean, partial(mean, statistic="tangent")
    return mean, partial(mean, weights=np.arange(N) + 1.0), in_parts, refined, of_classes


@pytest.mark.slow
@every(BALLS)
def test_the_state_of_errors_and_the_layout_of_the_caller_change_no_release(name, tmp_path):
    """Each layout in one way in each space; from space to space the ways move on by one."""
    ball, X = BALLS[name]
    bad, all_ways, raised = replaced(X, 4, "NaN"), ways(ball), []
    expected = [way(bad) for way in all_ways]
    alike = [each for each in BALLS if BALLS[each][0].space.flat == ball.space.flat]
    turn = itertools.islice(itertools.cycle(zip(all_ways, expected, strict=True)),
                            alike.index(name), None)
    with np.errstate(all="call", call=lambda *told: raised.append(told)), \
            warnings.catch_warnings():
        warnings.simplefilter("error")
        warnings.simplefilter("default", UserWarning)  # of public parameters
        for (layout, Y), (way, right) in zip(layouts(bad, tmp_path), turn, strict=False):
            assert way(Y) == right, layout
    assert not raised
    with np.errstate(all="raise"):
        assert [way(bad) for way in all_ways] == expected
        curve = PrivateGeodesicRegression(
            1.0, 1e-6, ball.of_radius(0.1), 0.1, mechanism=NoisyDescent.with_options(clip=0.5),
            on_invalid="center")
        curve.fit(np.linspace(0, 1, N), bad, rng=0)


def test_a_record_that_is_none_is_named_where_it_is_not_replaced():
    X = np.tile(np.eye(2), (5, 1, 1))
    for by, words in [("NaN", r"X\[3, 0, 0\] is nan"), ("zero", r"X\[3\] is not positive definite"),
                      ("masked", r"X\[3, 0, 0\] is nan"),
                      ("asymmetric", r"X\[3\] is not symmetric")]:
        with pytest.raises(ValueError, match=words):
            PrivateFrechetMean(1.0, 1e-6, UNIT).fit(replaced(X, 3, by))


@pytest.mark.parametrize("entry", [None, "1.0", "a", True, 1j, [1.0], object, 10**400,
                                   np.ma.masked], ids=lambda entry: str(entry)[:8])
def test_an_object_that_is_no_number_makes_a_bad_record_and_turns_no_other(entry):
    X = np.tile(np.diag([1.0, 2.0]), (5, 1, 1))
    Y = X.astype(object)
    Y[3, 0, 1] = entry
    steps, sound = UNIT.seen(FrechetMean(Y, UNIT)._X, "center")
    assert sound.tolist() == [True, True, True, False, True] and not steps[3].any()
    assert bits(steps[:3]) == bits(UNIT.seen(X[:3])[0])
    if not isinstance(entry, list):  # which makes a record of another shape
        query = FrechetMean(Y.tolist(), UNIT, "center")
        assert bits(query.bare_steps()) == bits(steps)


@pytest.mark.filterwarnings("error")
@pytest.mark.parametrize("entry", [3 + 5j, np.complex128(3 + 5j), np.str_("3"), np.True_,
                                   np.datetime64(3, "s")], ids=str)
def test_what_is_half_a_number_is_none(entry):
    X = np.tile(np.eye(2), (3, 1, 1)).astype(object)
    X[1, 0, 0] = entry
    for Y in (X, X.tolist()):
        query = FrechetMean(Y, UNIT, "center")
        assert not query.bare_steps().any() and np.isnan(query._X[1, 0, 0])


def test_a_mask_is_seen_behind_an_array_like():
    class Like:
        def __array__(self, dtype=None, copy=None):
            return np.ma.masked_array(2.0 * np.eye(2), [[True, False], [False, False]])

    query = FrechetMean([Like(), 2 * np.eye(2)], UNIT, "center")
    assert query.bare_steps().any(axis=1).tolist() == [False, True]


# what an attack found in a state before this one

def at_the_cut_locus(d, layout):
    """The centre and 200 steps' worth of records near its antipode, the first the centre or NaN.

    They are those whose step another order of addition turns round.
    """
    rng = np.random.default_rng(0)
    center = rng.standard_normal(d + 1)
    center /= np.linalg.norm(center)
    X = -center + 1e-16 * 10.0 ** rng.uniform(-2, 3, (2000, 1)) * rng.standard_normal((2000, d + 1))
    X *= 1 + rng.uniform(-5e-7, 5e-7, (2000, 1))
    X[0] = center
    return center, [layout(X), layout(replaced(X, 0, "NaN"))]


LAYOUTS = {"C": np.ascontiguousarray, "Fortran": np.asfortranarray,
           "moved axis": lambda X: np.moveaxis(np.moveaxis(X, 0, -1).copy(), -1, 0),
           "columns": lambda X: np.pad(X, [(0, 0), (2, 3)])[:, 2:-3]}


@pytest.mark.parametrize("layout", LAYOUTS)
@pytest.mark.parametrize("d", [2, 3, 6])
def test_a_bad_record_on_a_sphere_leaves_the_mean_where_the_centre_does(d, layout):
    center, studies = at_the_cut_locus(d, LAYOUTS[layout])
    ball = Ball(3.0, center, Sphere(d)).tangent()
    first, second = (FrechetMean(X, ball, "center") for X in studies)
    assert bits(first.step) == bits(second.step)
    counts = [private_clipped_count(X, ball, 1e3, on_invalid="center", rng=0) for X in studies]
    assert counts[1] == counts[0] + 1  # the bad record itself
    means = [PrivateClassMeans(1.0, 1e-6, ball, [0, 1], on_invalid="center").fit(
        X, [0] * len(X), rng=0).means_ for X in studies]
    assert bits(means[0]) == bits(means[1])


@pytest.mark.slow
def test_a_shape_that_is_the_only_one_in_its_batch_has_the_step_that_it_has_beside_another():
    m, n, rng = 40, 4000, np.random.default_rng(2)
    space = KendallPlanar(m)
    center = space.points(rng.standard_normal(m) + 1j * rng.standard_normal(m))
    X = rng.standard_normal((n, m)) + 1j * rng.standard_normal((n, m))
    X -= X.mean(axis=1, keepdims=True)
    X -= (X @ center.conj())[:, None] * center
    X /= np.linalg.norm(X, axis=1, keepdims=True)
    X += center * 1e-17 * 10.0 ** rng.uniform(-1, 1, (n, 1))
    chart = TangentSpace(space, center)
    ball = Ball(1.5, center, chart)
    together = ball.seen(X)[0]
    for j in range(0, n, 20):
        lone = np.stack([X[j], np.full(m, np.nan)])
        assert bits(ball.seen(lone, "center")[0][0]) == bits(together[j])
        assert bits(chart.log(center, X[j])) == bits(together[j])
    one, each = (RunningMean(n, ball) for _ in range(2))
    one.add(X)
    for j in range(0, n, 7):
        each.add(X[j:j + 7])
    assert bits(one.total()) == bits(each.total())


@pytest.mark.parametrize("order", ["C", "F"])
def test_a_record_of_borderline_length_is_none_or_one_whatever_its_layout(order):
    rng, d = np.random.default_rng(0), 5
    X = rng.standard_normal((4000, d + 1))
    X *= math.sqrt(1 + 2e-6) / np.linalg.norm(X, axis=1, keepdims=True)
    sound = Sphere(d).contains(X)
    assert 0 < sound.sum() < len(X)
    assert np.array_equal(Sphere(d).contains(np.array(X, order=order)), sound)
    ball = Ball(1.0, np.eye(d + 1)[0], Sphere(d))
    fit = PrivateFrechetMean(1.0, 1e-6, ball, on_invalid="center", statistic="tangent").fit
    fit(np.array(X, order=order), rng=0)


@pytest.mark.parametrize("record", [
    np.diag([1e-310, 1e-310]), [[5e-324, 0], [0, 5e-324]], [[1, 1e-320], [2e-320, 1]],
    np.full((2, 2), np.nan), [[1, 1e-200], [1e-200, 1]], np.diag([1e300, 1e300])],
    ids=lambda record: str(np.ravel(record)[0]) + str(np.ravel(record)[1]))
def test_no_state_of_errors_of_the_caller_ends_a_fit(record):
    X = np.tile(np.eye(2), (30, 1, 1))
    X[0] = record
    with np.errstate(all="raise"):
        PrivateFrechetMean(1.0, 1e-6, UNIT, on_invalid="center").fit(X)


class Hostile:
    """What raises whenever it is looked at."""

    def __array__(self, dtype=None, copy=None):
        raise RuntimeError("no")

    def __float__(self):
        raise RuntimeError("no")


@pytest.mark.parametrize("record", [
    None, {}, "a", [], [[1.0]], [[1.0, 0.0], [0.0]], 3.0, Hostile(), [[Hostile(), 0], [0, 1]],
    np.zeros((3, 3)), np.eye(2, dtype=bool), np.full((2, 2), np.datetime64(0, "s"))],
    ids=lambda record: type(record).__name__ + str(np.shape(record) if isinstance(
        record, np.ndarray) else ""))
def test_no_record_of_a_list_ends_a_fit_where_bad_ones_count_as_the_centre(record):
    X = list(np.tile(2 * np.eye(2), (5, 1, 1)))
    X[3] = record
    steps = FrechetMean(X, UNIT, "center").bare_steps()
    assert steps.any(axis=1).tolist() == [True, True, True, False, True]
    curve = CurveQuery([0.0, 1.0, record, 0.5, 0.2], X, UNIT, 1.0, (0, 1), "center")
    assert curve.steps.any(axis=1)[[0, 1, 3, 4]].tolist() == [True, True, False, True]
    assert np.isfinite(curve.times).all()


def test_a_batch_that_is_interrupted_is_in_the_sum_or_not(monkeypatch):
    """Tried again, it may not count twice."""
    X = np.tile(2 * np.eye(2), (6, 1, 1))

    add = ClippedSum.add

    def interrupted(sum, X, weights=None):
        add(sum, X, weights)
        raise KeyboardInterrupt

    private = PrivateFrechetMean(1.0, 1e-6, UNIT, n=20).partial_fit(X[:3])
    with monkeypatch.context() as patched, pytest.raises(KeyboardInterrupt):
        patched.setattr(ClippedSum, "add", interrupted)
        private.partial_fit(X[3:])
    assert private._running[0]._sum.count == 3
    assert private.partial_fit(X[3:])._running[0]._sum.count == 6


@pytest.mark.parametrize("kind", [complex, bool, "U5", "S3", "M8[s]"])
def test_a_mask_does_not_decide_whether_a_type_is_refused(kind):
    X = np.ma.array(np.zeros((5, 2, 2), kind), mask=np.zeros((5, 2, 2), bool))
    for masked in (False, True):
        X.mask[0] = masked
        with pytest.raises(ValueError, match="X is an array of dtype .*; accepted are real"):
            FrechetMean(X, Ball(1.0, np.eye(2)), on_invalid="center")


def test_a_number_that_is_too_small_for_a_float_ends_no_batch():
    ball = Ball(0.5, [1, 0, 0, 0], KendallPlanar(4)).tangent()
    X = np.ones((2, 4), np.clongdouble) * [1, -1, 0, 0]
    X[1, 0] = np.longdouble(1e-320) / 3
    with np.errstate(all="raise"):
        query = RunningMean(2, ball, on_invalid="center").add(X)
    assert np.isfinite(query.total()).all()


def test_a_lone_record_of_many_numbers_is_added_up_as_in_a_batch():
    y = np.random.default_rng(0).standard_normal((4, 8300))
    grid = finest_grid(1.0, 4)
    alone = np.concatenate([clip_to_ball(row[None], 1.0, grid) for row in y])
    assert (alone == clip_to_ball(y, 1.0, grid)).all()
    space, X = Sphere(8299), y / np.linalg.norm(y, axis=1, keepdims=True)
    alone = np.concatenate([space.sound(x[None])[0] for x in X])
    assert (alone == space.sound(X)[0]).all()
