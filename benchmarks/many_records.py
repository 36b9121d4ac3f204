"""Many records from a file: the time of a release beside that of the logarithms alone, and memory.

Each measurement is made in a fresh process: `many_records.py PATH N K DTYPE WAY` prints the seconds
and the MiB that it took besides the pages of the file.
"""

import pathlib
import subprocess
import sys
import tempfile
import threading
import time

import numpy as np

ROOT = pathlib.Path(__file__).resolve().parent.parent
sys.path.insert(0, str(ROOT))

from spdlib import Ball, PrivateFrechetMean, random_spd  # noqa: E402
from spdlib.spd import logm  # noqa: E402

FILES = [(10_000_000, 3, "float64"), (10_000_000, 3, "float32"), (1_000_000, 9, "float64")]
BLOCK, RUNS = 2**14, 3
HEADER = ["records", "type", "way", "seconds", "records a second",
          f"`logm` alone / this, in each of {RUNS} runs", "memory besides the file, MiB"]


def logarithms(X):
    for start in range(0, len(X), BLOCK):
        logm(X[start:start + BLOCK])


def private(X):
    ball = Ball.from_bounds(0.5, 2.0, X.shape[1])  # some are outside
    return PrivateFrechetMean(1.0, 1e-6, ball, n=len(X))


def in_one_fit(X):
    private(X).fit(X)


def in_batches(X):
    estimator = private(X)
    for start in range(0, len(X), 100_000):
        estimator.partial_fit(X[start:start + 100_000])
    estimator.release()


WAYS = {"`logm` alone, in blocks": logarithms, "`fit`": in_one_fit,
        "`partial_fit`, batches of 100,000, and `release`": in_batches}


def own_memory():
    """MiB of this process that belong to no file."""
    status = pathlib.Path("/proc/self/status").read_text()
    return int(status.partition("RssAnon:")[2].split()[0]) / 2**10


def measure(path, n, k, dtype, way):
    X = np.memmap(path, dtype, "r", shape=(int(n), int(k), int(k)))
    WAYS[way](X[:BLOCK])
    before, peak, over = own_memory(), [0.0], threading.Event()

    def watch():
        while not over.wait(0.005):
            peak[0] = max(peak[0], own_memory())

    watcher = threading.Thread(target=watch)
    watcher.start()
    begin = time.perf_counter()
    WAYS[way](X)
    seconds = time.perf_counter() - begin
    over.set()
    watcher.join()
    print(seconds, peak[0] - before)


def rows():
    """Rows of the table of many records."""
    for n, k, dtype in FILES:
        with tempfile.NamedTemporaryFile() as file:
            for start in range(0, n, n // 10):
                random_spd(n // 10, k, 1.0, rng=start).astype(dtype).tofile(file)
            file.flush()
            yield from _rows(n, k, dtype, file.name)


def _rows(n, k, dtype, path):
    found = {way: [] for way in WAYS}
    for _ in range(RUNS):
        for way, results in found.items():
            run = subprocess.run([sys.executable, __file__, path, str(n), str(k), dtype, way],
                                 check=True, capture_output=True, text=True)
            results.append([float(number) for number in run.stdout.split()])
    alone = np.array(found[next(iter(WAYS))])[:, 0]
    for way, results in found.items():
        seconds, memory = np.array(results).T
        ratios = ", ".join(f"{ratio:.2f}" for ratio in alone / seconds)
        yield (f"{n:,} of {k} × {k}", dtype, way, f"{np.median(seconds):.1f}",
               f"{n / np.median(seconds):,.0f}", f"**{ratios}**", f"{memory.max():.0f}")


if __name__ == "__main__":
    measure(*sys.argv[1:])
