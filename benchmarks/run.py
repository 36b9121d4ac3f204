"""Speed of spdlib beside that of its peers, in one run, as ratios: `make bench` writes the tables of book/speed.md."""

import datetime
import math
import os
import pathlib
import platform
import re
import sys
import time
import tracemalloc
from concurrent.futures import ThreadPoolExecutor
from importlib.metadata import version

import numpy as np
from scipy.ndimage import convolve
from threadpoolctl import threadpool_limits

ROOT = pathlib.Path(__file__).resolve().parent.parent
sys.path.insert(0, str(ROOT))
np.trapz = np.trapezoid  # geomstats 2.8 imports the name, which NumPy 2.4 took away

from geomstats.geometry.spd_matrices import SPDLogEuclideanMetric, SPDMatrices  # noqa: E402
from pyriemann.geometry.mean import mean_logeuclid as peer_mean  # noqa: E402

from spdlib.descriptors import covariance_descriptors  # noqa: E402
from spdlib.mechanisms import RiemannianLaplace  # noqa: E402
from spdlib.sampling import metropolis  # noqa: E402
from spdlib.spd import invvecd, mean_logeuclid, random_spd  # noqa: E402

PAGE = ROOT / "book" / "speed.md"
MARKERS = "<!-- begin: written by make bench -->", "<!-- end: written by make bench -->"
SIZES = [(500, 30), (20_000, 11), (20_000, 9), (50_000, 3), (100_000, 2)]
ROUNDS = 7
PAUSE = 0.06  # seconds in which the threads of BLAS, which wait for work at full speed, go to sleep
K, BURN_IN, TIMED = 30, 50_000, 200


def fastest(*functions):
    """Best time in seconds of each function; they take turns, so that a slow moment of the machine hits all."""
    times = np.empty((ROUNDS, len(functions)))
    for row in times:
        for i, function in enumerate(functions):
            time.sleep(PAUSE)
            start = time.perf_counter()
            function()
            row[i] = time.perf_counter() - start
    return times.min(axis=0)


def split_eigh(X):
    """numpy's batched `eigh` on equal parts of the batch, one a core."""
    with threadpool_limits(1), ThreadPoolExecutor(os.cpu_count()) as threads:
        return list(threads.map(np.linalg.eigh, np.array_split(X, os.cpu_count())))


def means():
    """Rows of the table of means."""
    for n, k in SIZES:
        X = random_spd(n, k, 1.0, rng=0)
        ours, peer = mean_logeuclid(X), peer_mean(X)
        difference = np.linalg.norm(ours - peer) / np.linalg.norm(peer)
        assert difference < 1e-13, f"the means of {n} matrices of size {k} differ by {difference}"
        times = fastest(lambda: mean_logeuclid(X), lambda: peer_mean(X), lambda: split_eigh(X)) / n * 1e6
        ratios = f"**{times[1] / times[0]:.1f}**", f"{times[0] / times[2]:.2f}"
        yield f"{n:,}", k, *(f"{t:.2f}" for t in times), *ratios


def plain_descriptor(image):
    """The descriptor of one image as a reader would write it with SciPy, shape (k, k)."""
    image = image / 255
    channels = image[..., None] if image.ndim == 2 else image
    intensity = channels.mean(axis=-1)
    h, w = intensity.shape
    y, x = np.mgrid[0:1:h * 1j, 0:1:w * 1j]
    sobel, second = np.outer([1, 2, 1], [1, 0, -1]) / 4, np.outer([1, 4, 6, 4, 1], [1, 0, -2, 0, 1]) / 32
    I = [abs(convolve(intensity, kernel, mode="nearest")) for kernel in (sobel, sobel.T, second, second.T)]
    phi = [x, y, *np.moveaxis(channels, -1, 0), *I, np.hypot(I[0], I[1]), np.arctan2(I[0], I[1])]
    return np.cov(np.reshape(phi, (len(phi), -1)), bias=True) + 1e-6 * np.eye(len(phi))


def descriptors():
    """Rows of the table of descriptors."""
    for name, shape in ("grey", (20_000, 28, 28)), ("RGB", (20_000, 28, 28, 3)):
        images, few = np.random.default_rng(0).integers(0, 256, shape).astype(np.uint8), 500
        np.testing.assert_allclose(covariance_descriptors(images[:few]), [plain_descriptor(i) for i in images[:few]],
                                   rtol=0, atol=1e-12)
        ours, plain = fastest(lambda: covariance_descriptors(images),
                              lambda: [plain_descriptor(image) for image in images[:few]])
        tracemalloc.start()
        R = covariance_descriptors(images)
        beside = (tracemalloc.get_traced_memory()[1] - R.nbytes) / 2**20
        tracemalloc.stop()
        rates = len(images) / ours, few / plain
        yield (f"28 × 28, {name}", *(f"{rate:,.0f}" for rate in rates), f"**{rates[0] / rates[1]:.1f}**",
               f"{R.nbytes / len(images):,.0f}", f"{beside:.1f}")


def printed_chain(space, M, steps, rng):
    """Last state of the chain of Appendix B.1, ratio mended, scale 1, as a reader would write it with geomstats."""
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
        return metropolis(lambda x: -np.linalg.norm(x, axis=-1), lambda x, rng: x + rng.standard_normal(x.shape), start,
                          steps, rng)

    with threadpool_limits(1):  # two threads on one matrix of this size can cost the peer ten times the time
        ours, chain, peer = fastest(lambda: exact.release(M, rng), lambda: our_chain(BURN_IN // 10),
                                    lambda: printed_chain(space, M, TIMED, rng))
    chain, peer = 10 * chain, peer * BURN_IN / TIMED
    yield "exact sampler, `RiemannianLaplace.release`", f"{ours * 1e3:.2f} ms", "1"
    yield f"chain, `metropolis` on coordinates, {BURN_IN:,} steps", f"{chain:.1f} s", f"**{chain / ours:,.0f}**"
    yield f"chain, geomstats on matrices, {BURN_IN:,} steps", f"{peer:.1f} s", f"**{peer / ours:,.0f}**"


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
    packages = ", ".join(f"{name} {version(name.lower())}" for name in ("NumPy", "SciPy", "pyRiemann", "geomstats"))
    return (f"Measured on {datetime.date.today():%d %B %Y}: {found[1] if found else platform.machine()}, "
            f"{os.cpu_count()} cores, {memory:.0f} GiB; Python {platform.python_version()}, {packages}.")


def main():
    parts = [machine(),
             table("Log-Euclidean mean, µs a matrix",
                   ["n", "k", "spdlib", "pyRiemann", "`eigh`, split", "pyRiemann / spdlib", "spdlib / `eigh`, split"],
                   means()),
             table("Covariance descriptors, images a second",
                   ["images", "spdlib", "SciPy, one by one", "spdlib / SciPy", "result, bytes an image",
                    "other memory, MiB"], descriptors()),
             table(f"One Laplace release at k = {K}", ["way", "time", "of the exact sampler's"], laplace())]
    begin, end = MARKERS
    before, _, rest = PAGE.read_text(encoding="utf-8").partition(begin)
    _, _, after = rest.partition(end)
    PAGE.write_text(before + begin + "\n\n" + "\n\n".join(parts) + "\n\n" + end + after, encoding="utf-8")
    print(f"\n{parts[0]}\nwritten to {PAGE}")


if __name__ == "__main__":
    main()
