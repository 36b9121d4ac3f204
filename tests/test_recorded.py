"""What chapters record of data that the book cannot ship, measured anew where the data are.

SPDLIB_DATA names a folder with the sets, whole or in part, as `spdlib.datasets.load_images` reads
them, and with the gestures. A set that is not there, or is another part of its set, is skipped.
"""

import hashlib
import os
import pathlib

import numpy as np
import pytest
from conftest import ROOT

from claimbook.book import code
from claimbook.guards.recorded import written_out
from claimbook.run import execute
from spdlib import printed
from spdlib.datasets import load_images
from spdlib.descriptors import covariance_descriptors
from spdlib.spd import logm

EXACT_BITS = ROOT / "book/10_exact_bits.ipynb"
GROUPS = ROOT / "book/12_groups.ipynb"
DESCRIPTORS = ROOT / "book/15_descriptors.ipynb"
ETA = 1e-6


RECORDED = written_out(code(DESCRIPTORS), "RECORDED")


@pytest.mark.parametrize("name", RECORDED)
def test_bounds_over_norms_are_those_of_the_images(name):
    if not os.environ.get("SPDLIB_DATA"):
        pytest.skip("SPDLIB_DATA names no folder")
    try:
        images, _ = load_images(name, os.environ["SPDLIB_DATA"])
    except FileNotFoundError as missing:
        pytest.skip(str(missing))
    count, digest, over_largest, over_median = RECORDED[name]
    if hashlib.sha256(images.tobytes()).hexdigest()[:16] != digest:
        pytest.skip(f"these are {len(images)} other images of {name}")
    parts = np.array_split(images, len(images) // 4000 + 1)
    norms = np.concatenate([
        np.linalg.norm(logm(covariance_descriptors(part, ETA)), axis=(1, 2)) for part in parts
    ])
    bound = printed.descriptor_radius(1 if images.ndim == 3 else 3, ETA)
    assert len(images) == count
    ratios = bound / norms.max(), bound / np.median(norms)
    assert ratios == pytest.approx((over_largest, over_median), abs=5e-5)


@pytest.mark.slow
def test_the_accuracies_are_those_of_the_gestures():
    folder = os.environ.get("SPDLIB_DATA", "")
    if not pathlib.Path(folder, "emg_cov8.npz").is_file():
        pytest.skip("SPDLIB_DATA names no folder with emg_cov8.npz")
    notebook = execute(GROUPS, {"data_folder": folder}, book=ROOT / "book")
    outputs = [output for cell in notebook.cells for output in cell.get("outputs", ())]
    text = "\n".join(output.get("data", {}).get("text/plain", "") for output in outputs)
    for name, *accuracies in written_out(code(GROUPS), "RECORDED"):
        line = next(line for line in text.splitlines()
                    if line.startswith(name.removesuffix(", recorded")))
        assert line.split()[-len(accuracies):] == list(map(str, accuracies))


def test_what_the_second_auditor_printed_has_its_programs_and_the_verdicts_of_its_numbers():
    script = (ROOT / "benchmarks/second_auditor.py").read_text(encoding="utf-8")
    rows = written_out(code(EXACT_BITS), "ASKED")
    programs = [[name, word] for word in ("sound", "faulty")
                for name in written_out(script, word.upper())]
    assert [row[:2] for row in rows] == programs
    words = {True: "refuses", False: "passes"}
    for _, kind, epsilon, ours, delta, theirs in rows:
        assert (ours, theirs) == (words[float(epsilon) > 1], words[float(delta) > 0.1])
        assert ("refuses" in (ours, theirs)) == (kind == "faulty")
