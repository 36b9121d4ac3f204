"""The net is proved to catch: each deliberate fault of spdlib turns a chapter red, by a claim's own exception.

`SPDLIB_BREAKS=all` runs every fault against every chapter and writes who caught it to `_build/breaks.csv`.
"""

import csv
import os
import shutil
import subprocess
import sys

import pytest
from conftest import CHAPTERS, ROOT

# name: (module, what stands there, what the fault makes of it, chapter that catches it, claim that catches it)
BREAKS = {
    "√2 dropped from vecd": ("spd", "math.sqrt(2) * S[..., rows, columns]", "S[..., rows, columns]", "01", "TG-05"),
    "logarithm to the base 2": ("spd", "_compose(np.log(eigenvalues), V)", "_compose(np.log2(eigenvalues), V)", "01", "TG-01"),
    "⊖ is ⊕": ("spd", 'expm(logm(X) - _logm(Y, "Y"))', 'expm(logm(X) + _logm(Y, "Y"))', "01", "TG-01"),
    "√2 dropped from invvecd": ("spd", "= y[..., k:] / math.sqrt(2)", "= y[..., k:]", "02", "TG-10"),
    "⊕ is a congruence": ("spd", 'expm(logm(X) + _logm(Y, "Y"))', "powm(X, 0.5) @ Y @ powm(X, 0.5)", "02", "TG-07"),
    "mean over n − 1": ("spd", "expm(L.mean(axis=-3))", "expm(L.sum(axis=-3) / max(L.shape[-3] - 1, 1))", "01", "TG-03"),
    "σ halved": ("mechanisms", "return self.sigma *", "return self.sigma / 2 *", "06", "TG-17"),
    "σ 10% small": ("mechanisms", "return self.sigma *", "return self.sigma * 0.9 *", "06", "TG-17"),
    "uniform noise": ("mechanisms", ".standard_normal(shape)", ".uniform(-3**0.5, 3**0.5, shape)", "06", "TG-17"),
    "σ without its 2": ("calibration", "math.sqrt(2 * math.log(1.25 / delta))", "math.sqrt(math.log(1.25 / delta))", "06", "TG-17"),
    "δ without its second term": ("calibration", "math.log(_mills(x) - _mills(x + mu))", "math.log(_mills(x))", "03", "TG-11"),
    "n − 1 for n in the sensitivity": ("frechet", "return 2 * radius / n *", "return 2 * radius / (n - 1) *", "05", "TG-16"),
    "r for 2r in the sensitivity": ("frechet", "return 2 * radius / n *", "return radius / n *", "05", "TG-16"),
    "the sensitivity of twice the records": ("frechet", "frechet_sensitivity(n, self.radius)", "frechet_sensitivity(2 * n, self.radius)", "06", "TG-17"),
    "the centre forgotten": ("frechet", "clip_to_ball(log_X - center,", "clip_to_ball(log_X,", "05", "TG-16"),
    "no clipping": ("frechet", "y = np.where(outside, ", "y = np.where(False, ", "05", "TG-16"),
    "+η dropped": ("descriptors", " + eta * np.eye(k)", "", "09", "TG-25"),
    "one kernel entry changed": ("descriptors", "SOBEL = np.array([1, 2, 1])", "SOBEL = np.array([1, 2, 0])", "09", "TG-27"),
    "second derivatives not divided": ("descriptors", "np.array([1, 4, 6, 4, 1]) / 32", "np.array([1, 4, 6, 4, 1]) / 16", "09", "TG-27"),
}
CLAIM_ERRORS = {"Inconclusive", "VerdictDiffers", "ClaimError"}


@pytest.fixture
def broken(tmp_path):
    """Folder with a copy of spdlib that has one fault."""

    def copy(module, old, new):
        shutil.copytree(ROOT / "spdlib", tmp_path / "lib" / "spdlib")
        path = tmp_path / "lib" / "spdlib" / f"{module}.py"
        text = path.read_text(encoding="utf-8")
        assert text.count(old) == 1, f"{module}.py has {old!r} {text.count(old)} times"
        path.write_text(text.replace(old, new), encoding="utf-8")
        return tmp_path / "lib"

    return copy


def by_number(number):
    return next(chapter for chapter in CHAPTERS if chapter.name.startswith(number))


def test_the_copy_is_what_a_chapter_imports(broken):
    library = broken("spd", "SYMMETRY = 1e-10", "SYMMETRY = 1e-11")
    program = "import spdlib.spd as s; print(s.SYMMETRY)"
    environment = os.environ | {"PYTHONPATH": str(library)}
    done = subprocess.run([sys.executable, "-c", program], cwd=library, env=environment, capture_output=True, text=True)
    assert done.stdout.strip() == "1e-11", done.stderr


@pytest.mark.parametrize("name", BREAKS)
def test_a_break_is_caught_by_the_claim(name, broken, run_chapter):
    *fault, number, claim = BREAKS[name]
    error = run_chapter(by_number(number), library=broken(*fault))
    assert error is not None, f"chapter {number} passes although: {name}"
    assert error[0] in CLAIM_ERRORS and error[1].startswith(claim), error


@pytest.mark.skipif(os.environ.get("SPDLIB_BREAKS") != "all", reason="the full matrix runs weekly: SPDLIB_BREAKS=all")
@pytest.mark.parametrize("name", BREAKS)
def test_the_matrix_of_breaks_and_chapters(name, broken, run_chapter):
    library = broken(*BREAKS[name][:3])
    errors = {chapter.stem: run_chapter(chapter, library=library) for chapter in CHAPTERS}
    (ROOT / "_build").mkdir(exist_ok=True)
    with open(ROOT / "_build/breaks.csv", "a", newline="", encoding="utf-8") as file:
        csv.writer(file).writerows([name, stem, *(error or ("not caught", ""))] for stem, error in errors.items())
    assert errors[by_number(BREAKS[name][3]).stem] is not None
