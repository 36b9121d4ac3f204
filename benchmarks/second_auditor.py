"""A second auditor: DP-Auditorium, of Google's differential-privacy library, on our releases.

It is on no package index and wants TensorFlow, so it runs from a clone, in an environment of its
own, and is given arrays and nothing else. This prints the table of chapter 10 and, below it, the
verdicts on the gauntlet's faults (`gauntlet.py`), which book/gauntlet.toml records. Last digits
vary, since noise in integers has no seed. After `make book`:

    .venv/bin/python benchmarks/second_auditor.py draw /tmp/releases.npz
    git clone https://github.com/google/differential-privacy /tmp/clone
    git -C /tmp/clone checkout b5b0286
    python3 -m venv .venv/auditor
    .venv/auditor/bin/python -m pip install tensorflow-cpu==2.21.0
    .venv/auditor/bin/python benchmarks/second_auditor.py ask /tmp/releases.npz /tmp/clone
"""

import os
import pathlib
import subprocess
import sys
import tempfile
import types

import numpy as np

EPSILON, DELTA, SURE, SIZE = 1.0, 0.1, 1e-6, 200_000
SOUND = "Gaussian", "ℓ2", "Laplace", "discrete Gaussian"
FAULTY = "no clipping", "σ/2", "4/5 of σ", "9/10 of σ", "mean over n − 1"


def draw(path):
    """Releases for two studies, one of three people at opposite ends of the ball, and our audit."""
    from unittest.mock import patch

    from spdlib import Ball, FrechetMean, expm, invvecd
    from spdlib.audit import audit
    from spdlib.calibration import sigma_analytic
    from spdlib.mechanisms import MEANS, TangentGaussian
    from spdlib.spaces.ball import project_to_ball

    kinds = {"ℓ2": "l2", "Laplace": "laplace", "discrete Gaussian": "discrete gaussian"}
    ball = Ball(1.0, np.eye(2))
    one = np.outer([0, 0, 3], [0, 0, 1])  # a person outside of the ball, and two in its centre
    studies = [expm(invvecd(sign * one)) for sign in (1, -1)]

    def scaled(share):
        return patch.object(TangentGaussian, "calibrated", staticmethod(
            lambda *promise: share * sigma_analytic(*promise)))

    faults = {
        "no clipping": patch("spdlib.queries.sums.clip_to_ball",
                             lambda y, radius, grid=None, weights=1.0: y * weights),
        "σ/2": scaled(1 / 2), "4/5 of σ": scaled(4 / 5), "9/10 of σ": scaled(9 / 10),
        "mean over n − 1": patch.object(FrechetMean, "divisor", property(lambda self: self.n - 1)),
    }

    def released(records, name, rng):
        query, kind = FrechetMean(records, ball), MEANS[kinds.get(name, "gaussian")]
        mechanism = kind.of(query, EPSILON, 0 if kind.pure else DELTA)
        rng = None if name == "discrete Gaussian" else rng
        return project_to_ball(mechanism.answer(query, rng, SIZE), 1.0)

    drawn, rng = {}, np.random.default_rng(0)
    for name in SOUND:
        drawn[name] = [released(records, name, rng) for records in studies]
    for name in FAULTY:
        with faults[name]:
            drawn[name] = [released(records, name, rng) for records in studies]
    asked = {name: (pair, DELTA, np.nan) for name, pair in drawn.items()} | dict(gauntlet_pairs())
    names = np.array(list(asked))
    deltas, moved = np.transpose([[delta, ratio] for _, delta, ratio in asked.values()])
    bounds = [audit(*pair, delta, 1 - SURE) for pair, delta, _ in asked.values()]
    np.savez(path, names=names, bounds=bounds, deltas=deltas, moved=moved,
             **{f"pair{i}": np.stack(pair) for i, (pair, _, _) in enumerate(asked.values())})


def gauntlet_pairs(faults=None):
    """Releases of each program of the gauntlet, sound and then with its fault, by name.

    With them its δ, and the furthest that a replay sees two of them apart.
    """
    from gauntlet import PROGRAMS

    from claimbook import net
    from claimbook.book import find_book

    book = find_book(pathlib.Path(__file__).resolve().parent.parent)
    breaks = net.read_breaks(book)
    for fault in faults or PROGRAMS:
        for word in "sound", "faulty":
            with tempfile.TemporaryDirectory() as folder:
                broken = net.broken_copy(book, fault, breaks[fault], pathlib.Path(folder))
                env = os.environ | (broken if word == "faulty" else {})
                made = pathlib.Path(folder, "made.npz")
                program = [sys.executable, pathlib.Path(__file__).with_name("gauntlet.py")]
                subprocess.run([*program, fault, made], env=env, check=True)
                with np.load(made) as file:
                    yield f"{fault}, {word}", (file["pair"], float(file["delta"]),
                                               float(file["moved"]))


def ask(path, clone):
    """The table: what our audit and the hockey-stick tester of the clone show of each program."""
    os.environ |= {"TF_CPP_MIN_LOG_LEVEL": "3", "CUDA_VISIBLE_DEVICES": "-1"}
    for name in "dp_auditorium", "dp_auditorium.configs", "dp_auditorium.testers":
        package = types.ModuleType(name)  # without its __init__, which asks for much more
        package.__path__ = [str(pathlib.Path(clone, "python/dp_auditorium",
                                             name.replace(".", "/")))]
        sys.modules[name] = package
    import tensorflow

    tensorflow.keras.utils.disable_interactive_logging()
    from dp_auditorium.configs import privacy_property, property_tester_config
    from dp_auditorium.testers import hockey_stick_tester as tester

    def lower_bound(first, second, delta):
        """The largest δ at ε that is sure, and whether it refutes the promise."""
        tensorflow.keras.utils.set_random_seed(0)
        config = property_tester_config.HockeyStickPropertyTesterConfig(
            training_config=tester.make_default_hs_training_config(),
            approximate_dp=privacy_property.ApproximateDp(epsilon=EPSILON, delta=delta),
            evaluation_batch_size=len(first) // 2)
        asked = tester.HockeyStickPropertyTester(
            config=config, base_model=tester.make_default_hs_base_model())
        bound = asked.estimate_lower_bound(first, second, SURE / 2)  # of the two orders, together
        return bound, asked.reject_property(bound)

    words = {True: "refuses", False: "passes"}
    print("program", "", "audit: ε ≥", "audit", "replay", "DP-Auditorium: δ ≥", "DP-Auditorium",
          sep=" | ")
    with np.load(path) as file:
        told = zip(file["names"], file["bounds"], file["deltas"], file["moved"], strict=True)
        for i, (name, shown, promised, moved) in enumerate(told):
            pair = file[f"pair{i}"].astype(np.float32)
            delta, refused = max(lower_bound(*pair, promised), lower_bound(*pair[::-1], promised))
            replayed = "not asked" if np.isnan(moved) else words[bool(moved > 1 + 1e-9)]
            sound = name in SOUND or name.endswith(", sound")
            print(name, "sound" if sound else "faulty", f"{shown:.2f}",
                  words[bool(shown > EPSILON)], replayed, f"{delta:.3f}", words[bool(refused)],
                  sep=" | ", flush=True)


if __name__ == "__main__":
    command, *arguments = sys.argv[1:] or ["help"]
    if (command, len(arguments)) not in (("draw", 1), ("ask", 2)):
        sys.exit(__doc__)
    {"draw": draw, "ask": ask}[command](*arguments)
