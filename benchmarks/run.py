"""Speed of spdlib beside that of its peers, in one run, as ratios: `make bench`."""

import pathlib
import platform
import sys
import time
from importlib.metadata import version

import numpy as np

sys.path.insert(0, str(pathlib.Path(__file__).resolve().parent.parent))

from pyriemann.geometry.mean import mean_logeuclid as peer_mean  # noqa: E402

from spdlib.spd import mean_logeuclid, random_spd  # noqa: E402

SIZES = [(500, 30), (20_000, 11), (20_000, 9), (50_000, 3), (100_000, 2)]
ROUNDS = 7


def fastest(*functions):
    """Best time in seconds of each function; they take turns, so that a slow moment of the machine hits all."""
    times = [[] for _ in functions]
    for _ in range(ROUNDS):
        for function, list_ in zip(functions, times):
            start = time.perf_counter()
            function()
            list_.append(time.perf_counter() - start)
    return [min(list_) for list_ in times]


def main():
    print(f"{platform.processor() or platform.machine()}, numpy {version('numpy')}, pyriemann {version('pyriemann')}; best of {ROUNDS}")
    print("mean_logeuclid       µs a matrix        ratio to spdlib (above 1: spdlib is faster)")
    print("     n   k    spdlib  pyriemann    pyriemann   numpy eigh alone")
    for n, k in SIZES:
        X = random_spd(n, k, 1.0, rng=0)
        assert np.allclose(mean_logeuclid(X), peer_mean(X), rtol=1e-11, atol=1e-13)
        ours, peer, eigh = fastest(lambda: mean_logeuclid(X), lambda: peer_mean(X), lambda: np.linalg.eigh(X))
        print(f"{n:6} {k:3} {ours / n * 1e6:9.2f} {peer / n * 1e6:10.2f} {peer / ours:12.2f} {eigh / ours:18.2f}", flush=True)


if __name__ == "__main__":
    main()
