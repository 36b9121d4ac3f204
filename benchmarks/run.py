"""Speed of spdlib beside that of its peers, in one run, as ratios.

`make bench` writes the tables of book/speed.md.
"""

import ast
import contextlib
import datetime
import dis
import importlib.util
import inspect
import json
import math
import os
import pathlib
import platform
import re
import sys
import tempfile
import timeit
import tracemalloc
from functools import partial
from importlib.metadata import version

import dask
import dask.array as da
import numpy as np
from distributed import Client, LocalCluster
from scipy.ndimage import convolve
from threadpoolctl import threadpool_limits

ROOT = pathlib.Path(__file__).resolve().parent.parent
sys.path.insert(0, str(ROOT))
np.trapz = np.trapezoid  # geomstats 2.8 imports the name, which NumPy 2.4 took away

import many_records  # noqa: E402
from geomstats.geometry.hypersphere import Hypersphere  # noqa: E402
from geomstats.geometry.pre_shape import PreShapeSpace  # noqa: E402
from geomstats.geometry.spd_matrices import (SPDAffineMetric, SPDLogEuclideanMetric,  # noqa: E402
                                             SPDMatrices)
from geomstats.learning.frechet_mean import FrechetMean as PeerMean  # noqa: E402
from geomstats.learning.geodesic_regression import GeodesicRegression as PeerFit  # noqa: E402
from pyriemann.geometry.distance import distance_riemann  # noqa: E402
from pyriemann.geometry.mean import mean_riemann  # noqa: E402
from pyriemann.geometry.mean import mean_logeuclid as peer_mean  # noqa: E402
from pyriemann.geometry.tangentspace import exp_map_riemann, log_map_riemann  # noqa: E402

from spdlib import kernel_path  # noqa: E402
from spdlib.descriptors import covariance_descriptors  # noqa: E402
from spdlib.estimators import GeodesicRegression, PrivateGeodesicRegression  # noqa: E402
from spdlib.mechanisms import CURVES, KNormGradient, RiemannianLaplace  # noqa: E402
from spdlib.queries import FrechetMean  # noqa: E402
from spdlib.samplers import ball_steps, laplace_steps, metropolis  # noqa: E402
from spdlib.spaces import AffineInvariant, Ball, KendallPlanar, Sphere  # noqa: E402
from spdlib.spd import invvecd, mean_logeuclid, random_spd  # noqa: E402

PAGE = ROOT / "book" / "speed.md"
MARKERS = "<!-- begin: written by make bench -->", "<!-- end: written by make bench -->"
SIZES = [(100_000, 2), (50_000, 3), *((20_000, k) for k in range(4, 12)),
         *((5000, k) for k in range(12, 17)), (2000, 22), (500, 30), (2000, 30), (200, 64)]
OPERATIONS = 9  # of floats that a logarithm takes, times k³: 4/3 + 4/3 + about 5 in QL, and 1
RUNS, CALLS = 5, 20
K, BURN_IN, TIMED = 30, 50_000, 200
SETS, RECORDS, TOLERANCE = 1000, 50, 1e-9
BATCH, CHAINS, STEPS = 10_000, 500, 400
CHAIN = 30_000
CURVE, NOISE = 0.6, 0.032  # length of a geodesic, and standard deviation of records about it
FITS, FEW = 1000, 5
MANY, CHUNK = 1_000_000, 2**15  # records on a cluster, and in a chunk
KEEPS = {  # of dask's own, a worker gives freed memory back at once and pays for it page by page
    "distributed.nanny.pre-spawn-environ": {
        "OMP_NUM_THREADS": 1, "MALLOC_TRIM_THRESHOLD_": 2**30, "MALLOC_MMAP_THRESHOLD_": 2**30},
}


def run_by_run(*functions):
    """Median seconds a call, shape (functions, RUNS).

    In each run every function is called `CALLS` times without a pause, then the next one. So what
    a call leaves behind, such as threads that spin in wait of more work, slows its own next one.
    """
    return np.array([[np.median(timeit.repeat(function, number=1, repeat=CALLS))
                      for function in functions] for _ in range(RUNS)]).T


@contextlib.contextmanager
def one_core():
    """Context in which this thread, and those that it starts, have one core."""
    all_cores = os.sched_getaffinity(0)
    os.sched_setaffinity(0, {min(all_cores)})
    try:
        with threadpool_limits(1):
            yield
    finally:
        os.sched_setaffinity(0, all_cores)


def rate_of_products():
    """Floating-point operations a second of BLAS on one core, multiplying matrices."""
    A = np.random.default_rng(0).standard_normal((1024, 1024))
    return 2 * len(A) ** 3 / min(timeit.repeat(lambda: A @ A, number=1, repeat=10))


def forms(X):
    """Arrays that the peer takes, by the name of their library: Torch's where it is installed."""
    try:
        import torch
    except ImportError:
        return {"NumPy": X}
    return {"NumPy": X, "Torch": torch.from_numpy(X)}


def means():
    """Rows of the table of means: medians of spdlib's time, and the peer's over it, run by run.

    The peer counts with the library with which it is faster.
    """
    with one_core():
        rate = rate_of_products()
    for n, k in SIZES:
        X = random_spd(n, k, 1.0, rng=0)
        ours, peer = mean_logeuclid(X), peer_mean(X)
        difference = np.linalg.norm(ours - peer) / np.linalg.norm(peer)
        assert difference < 1e-13, f"the means of {n} matrices of size {k} differ by {difference}"
        jobs = [partial(mean_logeuclid, X), *(partial(peer_mean, A) for A in forms(X).values())]
        with one_core():
            alone = run_by_run(*jobs) / n
        share, ours, ratios = OPERATIONS * k**3 / np.median(alone[0]) / rate, [], []
        for times in alone, run_by_run(*jobs) / n:
            fastest = 1 + int(np.median(times[1:], axis=1).argmin())
            each = ", ".join(f"{ratio:.1f}" for ratio in times[fastest] / times[0])
            ratios.append(f"**{each}** {[*forms(X)][fastest - 1]}")
            ours.append(f"{np.median(times[0]) * 1e6:.3g}")
        yield f"{n:,}", k, *ours, *ratios, f"{share:.0%}"


def plain_descriptor(image):
    """The descriptor of one image as a reader would write it with SciPy, shape (k, k)."""
    image = image / 255
    channels = image[..., None] if image.ndim == 2 else image
    intensity = channels.mean(axis=-1)
    h, w = intensity.shape
    y, x = np.mgrid[0:1:h * 1j, 0:1:w * 1j]
    sobel = np.outer([1, 2, 1], [1, 0, -1]) / 4
    second = np.outer([1, 4, 6, 4, 1], [1, 0, -2, 0, 1]) / 32
    I = [abs(convolve(intensity, kernel, mode="nearest"))
         for kernel in (sobel, sobel.T, second, second.T)]
    phi = [x, y, *np.moveaxis(channels, -1, 0), *I, np.hypot(I[0], I[1]), np.arctan2(I[0], I[1])]
    return np.cov(np.reshape(phi, (len(phi), -1)), bias=True) + 1e-6 * np.eye(len(phi))


def plain_descriptors(images):
    """The same for each of them, one after another."""
    return [plain_descriptor(image) for image in images]


def descriptors():
    """Rows of the table of descriptors."""
    for name, shape in ("grey", (20_000, 28, 28)), ("RGB", (20_000, 28, 28, 3)):
        images = np.random.default_rng(0).integers(0, 256, shape).astype(np.uint8)
        few = images[:500]
        np.testing.assert_allclose(covariance_descriptors(few), plain_descriptors(few),
                                   rtol=0, atol=1e-12)
        ours, plain = np.median(run_by_run(partial(covariance_descriptors, images),
                                           partial(plain_descriptors, few)), axis=1)
        tracemalloc.start()
        R = covariance_descriptors(images)
        beside = (tracemalloc.get_traced_memory()[1] - R.nbytes) / 2**20
        tracemalloc.stop()
        rates = len(images) / ours, len(few) / plain
        yield (f"28 × 28, {name}", *(f"{rate:,.0f}" for rate in rates),
               f"**{rates[0] / rates[1]:.1f}**", f"{R.nbytes / len(images):,.0f}", f"{beside:.1f}")


def printed_chain(space, M, steps, rng):
    """Last state of the chain of Appendix B.1, ratio mended, scale 1, as written with geomstats."""
    log, dist, d = space.metric.diffeo, space.metric.dist, K * (K + 1) // 2
    X, rho = M, 0.0
    for _ in range(steps):
        candidate = log.inverse(log(X) + invvecd(rng.standard_normal(d)))
        rho_candidate = dist(M, candidate)
        if rng.random() < math.exp(min(0.0, rho - rho_candidate)):
            X, rho = candidate, rho_candidate
    return X


def laplace():
    """Rows of the table of one Laplace release."""
    rng, M, d = np.random.default_rng(0), random_spd(1, K, 1.0, 0)[0], K * (K + 1) // 2
    exact, start = RiemannianLaplace(0.02, 1.0), rng.standard_normal((1, d))
    space = SPDMatrices(K, equip=False)
    space.equip_with_metric(SPDLogEuclideanMetric)

    def our_chain(steps):
        return metropolis(lambda x: -np.linalg.norm(x, axis=-1),
                          lambda x, rng: x + rng.standard_normal(x.shape), start, steps, rng)

    jobs = (partial(exact.release, M, rng), partial(our_chain, BURN_IN // 10),
            partial(printed_chain, space, M, TIMED, rng))
    with threadpool_limits(1):  # two threads on one such matrix can cost the peer ten times as much
        ours, chain, peer = np.median(run_by_run(*jobs), axis=1)
    chain, peer = 10 * chain, peer * BURN_IN / TIMED
    steps = f"{BURN_IN:,} steps"
    yield "exact sampler, `RiemannianLaplace.release`", f"{ours * 1e3:.2f} ms", "1"
    yield (f"chain, `metropolis` on coordinates, {steps}", f"{chain:.1f} s",
           f"**{chain / ours:,.0f}**")
    yield f"chain, geomstats on matrices, {steps}", f"{peer:.1f} s", f"**{peer / ours:,.0f}**"


def affine_invariant(k, n):
    """The space, points, and the three maps of the peers, by name."""
    space, (M, *X) = AffineInvariant(k), random_spd(n + 1, k, 1.0, rng=0)
    peer, X = SPDMatrices(k, equip=False), np.array(X)
    peer.equip_with_metric(SPDAffineMetric)
    at_all = np.broadcast_to(M, X.shape)
    return space, M, X, {
        "geomstats": (lambda: peer.metric.log(X, M), lambda V: peer.metric.exp(V, M),
                      lambda: peer.metric.dist(X, M)),
        "pyRiemann": (lambda: log_map_riemann(X, M, C12=True),
                      lambda V: exp_map_riemann(V, M, Cm12=True),
                      lambda: distance_riemann(X, at_all)),
    }


def sphere(d, n):
    """The same for the sphere."""
    space, peer = Sphere(d), Hypersphere(d).metric
    X = np.random.default_rng(0).standard_normal((n + 1, d + 1))
    M, *X = X / np.linalg.norm(X, axis=-1, keepdims=True)
    X = np.array(X)
    return space, M, X, {"geomstats": (
        lambda: peer.log(X, M), lambda V: peer.exp(V, M), lambda: peer.dist(X, M))}


def shapes(landmarks, n):
    """The same for shapes, for which the peer takes pairs of reals, centred and of length 1."""
    space, peer = KendallPlanar(landmarks), PreShapeSpace(landmarks, 2)
    peer.equip_with_group_action("rotations")
    peer.equip_with_quotient()
    metric = peer.quotient.metric
    pairs = peer.projection(np.random.default_rng(0).standard_normal((n + 1, landmarks, 2)))
    M, *X = pairs[..., 0] + 1j * pairs[..., 1]

    def complex_log():
        V = metric.log(pairs[1:], pairs[0])
        return V[..., 0] + 1j * V[..., 1]

    def complex_exp(V):
        Y = metric.exp(np.stack([V.real, V.imag], axis=-1), pairs[0])
        return Y[..., 0] + 1j * Y[..., 1]

    return space, M, np.array(X), {"geomstats": (
        complex_log, complex_exp, lambda: metric.dist(pairs[1:], pairs[0]))}


def spaces():
    """Rows of the table of curved spaces, from one point to many."""
    cases = {"SPD(2)": affine_invariant(2, 10_000), "SPD(3)": affine_invariant(3, 10_000),
             "SPD(10)": affine_invariant(10, 2000), "S²": sphere(2, 10_000),
             "S¹⁰": sphere(10, 10_000), "shapes of 5": shapes(5, 10_000),
             "shapes of 20": shapes(20, 2000)}
    for name, (space, M, X, peers) in cases.items():
        v = space.log(M, X)
        V = np.tensordot(v, space.frame(M), axes=1)
        ours = {"log": partial(space.log, M, X), "exp": partial(space.exp, M, v),
                "dist": partial(space.dist, M, X)}
        for log, exp, dist in peers.values():
            np.testing.assert_allclose(log(), V, rtol=0, atol=1e-9)
            np.testing.assert_allclose(dist(), space.dist(M, X), rtol=0, atol=1e-9)
            assert space.dist(exp(V), X).max() < 1e-6  # the peer's own rounding
        for i, (what, job) in enumerate(ours.items()):
            jobs = [partial(maps[i], V) if what == "exp" else maps[i] for maps in peers.values()]
            times = run_by_run(job, *jobs) / len(X) * 1e6
            middle = dict(zip(["spdlib", *peers], np.median(times, axis=1), strict=True))
            ratios = ", ".join(f"{ratio:.2f}" for ratio in times[1:].min(axis=0) / times[0])
            yield (name, what, f"{middle['spdlib']:.3f}", f"{middle['geomstats']:.3f}",
                   f"{middle['pyRiemann']:.3f}" if "pyRiemann" in peers else "", f"**{ratios}**")


def frechet_means():
    """Rows of the table of Fréchet means: many small data sets at once, or one after another."""
    X = random_spd(SETS * RECORDS, 2, 1.0, rng=0).reshape(SETS, RECORDS, 2, 2)
    space, center, some, few = AffineInvariant(2), np.eye(2), X[:SETS // 20], X[:SETS // 50]
    peer = SPDMatrices(2, equip=False)
    peer.equip_with_metric(SPDAffineMetric)
    estimator = PeerMean(peer)
    estimator.set(epsilon=TOLERANCE**2, max_iter=100)  # it squares the gradient

    def ours():
        return space.exp(center, space.mean(center, space.log(center, X), TOLERANCE))

    def pyriemann():
        return [mean_riemann(x, tol=TOLERANCE) for x in some]

    def geomstats():
        return [estimator.fit(x).estimate_ for x in few]

    np.testing.assert_allclose(pyriemann(), ours()[:len(some)], rtol=0, atol=1e-7)
    np.testing.assert_allclose(geomstats(), ours()[:len(few)], rtol=0, atol=1e-7)
    times = run_by_run(ours, pyriemann, geomstats) * [[1], [20], [50]]
    for name, time in zip(("spdlib, in one call", "pyRiemann, in a loop", "geomstats, in a loop"),
                          times, strict=True):
        ratios = ", ".join(f"{ratio:.0f}" for ratio in time / times[0])
        yield name, f"{np.median(time):.3f} s", f"**{ratios}**"


def effective_sample_size(chains):
    """So many independent draws have a mean as precise as that of the chains, `(steps, n, ...)`.

    An array `(...)`, by the autocorrelations of the split chains, summed in pairs while these are
    positive and made to decrease (Vehtari et al. 2021, Sec. 3.2, without ranks; Geyer 1992). At
    most S log10(S) for S draws in all.
    """
    length = len(chains) // 2
    halves = np.concatenate([chains[:length], chains[-length:]], axis=1)
    within = halves.var(axis=0, ddof=1).mean(axis=0)
    both = within * (length - 1) / length + halves.mean(axis=0).var(axis=0, ddof=1)
    spectrum = np.abs(np.fft.rfft(halves - halves.mean(axis=0), 2 * length, axis=0)) ** 2
    covariance = np.fft.irfft(spectrum, 2 * length, axis=0)[:length].mean(axis=1) / length
    rho = 1 - (within - covariance) / both
    rho[0] = 1.0
    pairs = rho[:length // 2 * 2].reshape(-1, 2, *rho.shape[1:]).sum(axis=1)
    ended = np.logical_or.accumulate(pairs < 0, axis=0)
    pairs = np.minimum.accumulate(np.where(ended, 0, pairs), axis=0)
    size = length * halves.shape[1]
    return size / np.maximum(2 * pairs.sum(axis=0) - 1, 1 / math.log10(size))


def geodesic_walk(space, scale, M, rng):
    """Seconds for one effective draw by the walk of Reimherr et al., A.5, and its acceptance.

    It counts rejections, as it has to, and starts where it should end: no burn-in is paid for.
    """
    states = []

    def propose(X, rng):
        z = rng.standard_normal((len(X), space.dim + 1))
        return space.exp(X, scale * (z / np.linalg.norm(z, axis=-1, keepdims=True))[:, :-1])

    start = space.exp(M, laplace_steps(space, scale, CHAINS, rng))
    begin = timeit.default_timer()
    acceptance = metropolis(lambda X: -space.dist(M, X) / scale, propose, start, STEPS, rng,
                            lambda X: states.append(X.copy()))[1]
    seconds = timeit.default_timer() - begin
    return seconds / effective_sample_size(space.dist(M, np.array(states))), acceptance.mean()


def curved_laplace():
    """Rows of the table of Laplace draws on curved spaces."""
    rng = np.random.default_rng(0)
    for space, scale, M in ((Sphere(2), 0.2, np.array([0.0, 0.0, 1.0])),
                            (AffineInvariant(2), 0.4, np.eye(2)),
                            (AffineInvariant(3), 0.4, np.eye(3))):
        with threadpool_limits(1):
            exact = np.median(run_by_run(partial(laplace_steps, space, scale, BATCH, rng)))
            chain, acceptance = geodesic_walk(space, scale, M, rng)
        exact /= BATCH
        yield (f"`{space!r}`", scale, f"{exact * 1e6:.2f}", f"{chain * 1e6:,.0f}",
               f"{acceptance:.2f}", f"**{chain / exact:,.0f}**")


def sphere_walk(X, scale):
    """The chain of Sec. 2.4.2 on S² with t = 1/2: the norm of the gradient and the proposal."""
    def gradient(y):
        cosine = X @ y
        across = X - cosine[:, None] * y
        sine = np.sqrt((across**2).sum(axis=1))
        weight = np.arctan2(sine, cosine) / np.maximum(sine, 1e-300)
        return math.sqrt((((weight @ across) / len(X)) ** 2).sum())

    def propose(y, rng):
        z = rng.standard_normal(3)
        z *= scale / 2 / math.sqrt(z @ z)
        z -= (z @ y) * y
        length = math.sqrt(z @ z)
        return math.cos(length) * y + math.sin(length) / length * z

    return gradient, propose


def spd_walk(X, scale):
    """The chain of Sec. 2.3.2 on SPD(2) with t = 1, the longest steps that it allows."""
    def roots(y):
        values, vectors = np.linalg.eigh(y)
        return (vectors * np.sqrt(values)) @ vectors.T, (vectors / np.sqrt(values)) @ vectors.T

    def gradient(y):
        back = roots(y)[1]
        values, vectors = np.linalg.eigh(back @ X @ back)
        logs = (vectors * np.log(values)[:, None]) @ vectors.transpose(0, 2, 1)
        return math.sqrt((logs.mean(axis=0) ** 2).sum())

    def propose(y, rng):
        a, b, c = scale * (rng.random(3) - 0.5)
        there, back = roots(y)
        values, vectors = np.linalg.eigh(back @ np.array([[a, b], [b, c]]) @ back)
        return there @ ((vectors * np.exp(values)) @ vectors.T) @ there

    return gradient, propose


def printed_seconds(gradient, propose, y, scale, rng):
    """Seconds for one effective draw by a chain as printed, which proposes until one is accepted.

    It starts where it should end, so no burn-in is paid for.
    """
    seen, norm = [], gradient(y)
    begin = timeit.default_timer()
    for _ in range(CHAIN):
        while True:
            candidate = propose(y, rng)
            norm_candidate = gradient(candidate)
            if rng.random() < math.exp(min(0.0, (norm - norm_candidate) / scale)):
                break
        y, norm = candidate, norm_candidate
        seen.append(np.append(y, norm))
    seconds = timeit.default_timer() - begin
    return seconds / effective_sample_size(np.array(seen)[:, None]).min()


def k_norm_gradient():
    """Rows of the table of K-norm gradient draws, of mechanisms of one scale."""
    rng, pole = np.random.default_rng(0), np.array([0.0, 0.0, 1.0])
    for space, center, radius, walk in ((Sphere(2), pole, math.pi / 8, sphere_walk),
                                        (AffineInvariant(2), np.eye(2), 1.5, spd_walk)):
        X = space.exp(center, ball_steps(space, radius, RECORDS, rng))
        query = FrechetMean(X, Ball(radius, center, space))
        mechanism = KNormGradient.of(query, 1.0)
        chain = walk(query.points, mechanism.scale)
        mean = space.exp(center, query.step)
        with threadpool_limits(1):
            exact = np.median(run_by_run(partial(mechanism.answer, query, rng, BATCH))) / BATCH
            one = np.median(run_by_run(partial(mechanism.answer, query, rng)))
            printed = printed_seconds(*chain, mean, mechanism.scale, rng)
        yield (f"`{space!r}`", f"{one * 1e3:.1f}", f"{exact * 1e6:.1f}", f"{printed * 1e6:,.0f}",
               f"**{printed / exact:,.0f}**")


def curve_records(n, sets=1):
    """x, and records about a geodesic of S² that begins at the pole, shape (sets, n, 3)."""
    x = np.linspace(0, 1, n)
    Y = np.stack([np.sin(CURVE * x), 0 * x, np.cos(CURVE * x)], axis=-1)
    Y = Y + NOISE * np.random.default_rng(0).standard_normal((sets, n, 3))
    return x, Y / np.linalg.norm(Y, axis=-1, keepdims=True)


def geodesic_fits():
    """Rows of the table of geodesic regression: one fit, and many."""
    n, space, sphere = 100, Sphere(2), Hypersphere(2)
    x, Y = curve_records(n, FITS)

    def peer(initialization, sets):
        np.random.seed(0)  # which its start is drawn from
        fit = PeerFit(sphere, method="extrinsic", initialization=initialization)
        return [(fit.fit(x, y), fit.predict(x))[1] for y in sets]

    ours = GeodesicRegression(space)
    jobs = {"spdlib, one by one": (lambda: [ours.fit(x, y) for y in Y[:FEW]], FEW),
            "spdlib, in one call": (lambda: ours.fit(x, Y), FITS),
            "geomstats, extrinsic, as it comes": (lambda: peer("random", Y[:FEW]), FEW),
            "geomstats, from the Fréchet mean": (lambda: peer("frechet", Y[:FEW]), FEW)}
    least = ours.fit(x, Y).energy_
    for start in ("random", "frechet"):
        found = (space.dist(peer(start, Y[:FEW]), Y[:FEW])**2).mean(axis=1) / 2
        assert np.abs(found / least[:FEW] - 1).max() < 1e-9, "the energies differ"
    times = np.array([[np.median(timeit.repeat(job, number=1, repeat=3)) / sets
                       for job, sets in jobs.values()] for _ in range(RUNS)]).T
    for name, time in zip(jobs, times, strict=True):
        ratios = ", ".join(f"{ratio:.3g}" for ratio in time / times[0])
        yield name, f"{np.median(time) * 1e3:.3g} ms", f"**{ratios}**"


def read_by(code):
    """Names that a piece of compiled code reads and does not bind in a function."""
    for step in dis.get_instructions(code):
        if step.opname in ("LOAD_NAME", "LOAD_GLOBAL"):
            yield step.argval
    for inner in code.co_consts:
        if inspect.iscode(inner):
            yield from read_by(inner)


def taken(chapter, name):
    """What a chapter calls `name`, with what it needs of the chapter's first cells and no more."""
    cells = json.loads((ROOT / "book" / chapter).read_text(encoding="utf-8"))["cells"]
    source = "\n".join("".join(cell["source"]) for cell in cells if cell["cell_type"] == "code")
    binds, needed = {}, []
    for statement in ast.parse(source).body:
        code = compile(ast.Module([statement], []), chapter, "exec")
        for step in dis.get_instructions(code):
            if step.opname == "STORE_NAME":
                binds.setdefault(step.argval, (statement.lineno, code))

    def need(name):
        if name in binds and binds[name] not in needed:
            needed.append(binds[name])
            for used in read_by(binds[name][1]):
                need(used)

    need(name)
    made = {}
    for _, code in sorted(needed, key=lambda pair: pair[0]):
        exec(code, made)
    return made[name]


def private_curves():
    """Rows of the table of private geodesic regression on S²."""
    run = taken("28_regression_figures.ipynb", "run_on_sphere")

    def figure():
        rng = np.random.default_rng(0)
        return [next(run(rng, n, 0.001)) for n in (20, 50, 100)]

    def release(n, mechanism):
        x, Y = curve_records(n)
        domain, mechanism = Ball(0.5, [0, 0, 1], Sphere(2)), CURVES[mechanism]
        private = PrivateGeodesicRegression(1.0, 0, domain, 1.0,
                                            mechanism=mechanism.with_options(clip=0.1))
        return partial(private.fit, x, Y[0])

    jobs = {"Fig. 1 of the paper: all budgets, n = 20, 50, 100": figure}
    jobs |= {f"{mechanism}, one exact release, n = {n:,}": release(n, mechanism)
             for mechanism in ("truncated loss", "k-norm gradient") for n in (100, 1000)}
    for name, job in jobs.items():
        times = timeit.repeat(job, number=1, repeat=RUNS)
        yield name, f"{np.median(times):.2f} s", f"{max(times):.2f} s"


def from_file(path, n, k):
    """The records of a file as a dask array, of which each worker reads its own chunks."""
    def read(block_info=None):
        (start, stop), *_ = block_info[None]["array-location"]
        return np.memmap(path, float, "r", shape=(n, k, k))[start:stop]

    sizes = np.diff([*range(0, n, CHUNK), n]).tolist()
    return da.map_blocks(read, chunks=(tuple(sizes), (k,), (k,)), meta=np.empty((0, k, k)))


def on_a_cluster(k=9):
    """Rows of the table of the exact sum of many records of a file: one machine, and a cluster."""
    ball = Ball.from_bounds(0.1, 10.0, k)
    with tempfile.TemporaryDirectory() as folder:
        path = pathlib.Path(folder, "records")
        X = np.memmap(path, float, "w+", shape=(MANY, k, k))
        for start in range(0, MANY, BATCH):
            X[start:start + BATCH] = random_spd(BATCH, k, 1.0, rng=start)
        local = {"host": "127.0.0.1", "dashboard_address": "127.0.0.1:0"}
        with (dask.config.set(KEEPS), LocalCluster(n_workers=2, threads_per_worker=1, **local)
              as cluster, Client(cluster)):
            jobs = [FrechetMean(records, ball).total
                    for records in (X, from_file(path, MANY, k))]
            assert np.array_equal(*(job() for job in jobs)), "the bits of the sums differ"
            times = np.array([[timeit.timeit(job, number=1) for job in jobs]
                              for _ in range(RUNS)]).T
    for way, time in zip(("threads of one process", "Dask, two processes"), times, strict=True):
        ratios = ", ".join(f"{ratio:.2f}" for ratio in time / times[0])
        yield way, f"{np.median(time):.2f} s", f"{MANY / np.median(time):,.0f}", f"**{ratios}**"


def table(caption, header, rows):
    """A Markdown table; each row is shown as soon as it is measured."""
    print(f"\n{caption}\n" + " | ".join(header), flush=True)
    lines = [f"**{caption}**\n", f"| {' | '.join(header)} |", "|---|" + "---:|" * (len(header) - 1)]
    for row in rows:
        print(" | ".join(map(str, row)).replace("**", ""), flush=True)
        lines.append(f"| {' | '.join(map(str, row))} |")
    return "\n".join(lines)


def machine():
    """What was measured on, in a sentence."""
    info = pathlib.Path("/proc/cpuinfo")
    found = re.search(r"model name\s*: (.*)", info.read_text()) if info.exists() else None
    memory = os.sysconf("SC_PAGE_SIZE") * os.sysconf("SC_PHYS_PAGES") / 2**30
    packages = ", ".join(f"{name} {version(name.lower())}"
                         for name in ("NumPy", "SciPy", "pyRiemann", "geomstats", "Torch")
                         if importlib.util.find_spec(name.lower()))
    processor = found[1] if found else platform.machine()
    return (f"Measured on {datetime.date.today():%d %B %Y}: {processor}, {os.cpu_count()} cores, "
            f"{memory:.0f} GiB; Python {platform.python_version()}, {packages}; spdlib's kernel: "
            f"{kernel_path()}.")


def main():
    parts = [machine(),
             table("Log-Euclidean mean, µs a matrix",
                   ["n", "k", "spdlib, one core", "all cores",
                    f"pyRiemann / spdlib, one core, in each of {RUNS} runs", "all cores",
                    "of the rate of products"],
                   means()),
             table("Covariance descriptors, images a second",
                   ["images", "spdlib", "SciPy, one by one", "spdlib / SciPy",
                    "result, bytes an image", "other memory, MiB"], descriptors()),
             table(f"One Laplace release at k = {K}",
                   ["way", "time", "of the exact sampler's"], laplace()),
             table("From one point of a curved space to many, µs a point",
                   ["space", "map", "spdlib", "geomstats", "pyRiemann",
                    f"fastest peer / spdlib, in each of {RUNS} runs"], spaces()),
             table(f"Fréchet means of {SETS:,} sets of {RECORDS} matrices of size 2, to a gradient "
                   "of 10⁻⁹", ["way", "time", f"of spdlib's, in each of {RUNS} runs"],
                   frechet_means()),
             table(f"Laplace on curved spaces, {BATCH:,} draws at once, µs a draw",
                   ["space", "scale", "exact, `laplace_steps`", "walk, one effective draw",
                    "its acceptance", "walk / exact"], curved_laplace()),
             table(f"K-norm gradient, n = {RECORDS} records, ε = 1",
                   ["space", "one release, ms", f"exact, {BATCH:,} at once, µs a draw",
                    "printed chain, µs an effective draw", "chain / exact"], k_norm_gradient()),
             table("A geodesic through 100 records on S², to the same energy",
                   ["way", "one fit", f"of spdlib's one by one, in each of {RUNS} runs"],
                   geodesic_fits()),
             table(f"Private geodesic regression on S², ε = 1, {RUNS} runs",
                   ["what", "median", "longest"], private_curves()),
             table("A release of many records of a file", many_records.HEADER,
                   many_records.rows()),
             table(f"The exact sum of {MANY:,} matrices of size 9, from a file",
                   ["way", "time", "records a second", f"of the threads', in each of {RUNS} runs"],
                   on_a_cluster())]
    begin, end = MARKERS
    before, _, rest = PAGE.read_text(encoding="utf-8").partition(begin)
    _, _, after = rest.partition(end)
    PAGE.write_text("\n\n".join([before + begin, *parts, end + after]), encoding="utf-8")
    print(f"\n{parts[0]}\nwritten to {PAGE}")


if __name__ == "__main__":
    main()
