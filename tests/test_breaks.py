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
    "logarithm to the base 2": ("spd", "_spectral(np.log, X,", "_spectral(np.log2, X,", "01", "TG-01"),
    "⊖ is ⊕": ("spd", 'expm(logm(X) - _logm(Y, "Y"))', 'expm(logm(X) + _logm(Y, "Y"))', "01", "TG-01"),
    "√2 dropped from invvecd": ("spd", "= y[..., k:] / math.sqrt(2)", "= y[..., k:]", "02", "TG-10"),
    "⊕ is a congruence": ("spd", 'expm(logm(X) + _logm(Y, "Y"))', "powm(X, 0.5) @ Y @ powm(X, 0.5)", "02", "TG-07"),
    "mean over n − 1": ("spd", "expm(_sum(L) / L.shape[-3])", "expm(_sum(L) / max(L.shape[-3] - 1, 1))", "01", "TG-03"),
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
    "one kernel entry changed": ("descriptors", "SOBEL = (1, 2, 1)", "SOBEL = (1, 2, 0)", "09", "TG-27"),
    "second derivatives not divided": ("descriptors", "(1, 0, -2, 0, 1), 32", "(1, 0, -2, 0, 1), 16", "09", "TG-27"),
    "eigenvalues up to the square": ("spd", "rng.uniform(math.exp(-r), math.exp(r), (n, k))", "rng.uniform(math.exp(-2 * r), math.exp(2 * r), (n, k))", "08", "TG-20"),
    "no slack against rounding": ("calibration", "SLACK = 1e-10", "SLACK = 0.0", "04", "SP-11"),
    "sine to the power d − 1": ("calibration", "(d - 2) * np.log(sine) + np.log(sine**2 + r)", "(d - 1) * np.log(sine) + np.log(sine**2 + r)", "07", "SP-08"),
    "Δ/2 in the ℓ2 scale": ("calibration", "return _scale(sensitivity, 1 / (epsilon + excess)", "return _scale(sensitivity / 2, 1 / (epsilon + excess)", "04", "SP-11"),
    "Gamma(d − 1) for the radius": ("sampling", "rng.standard_gamma(shape[-1],", "rng.standard_gamma(shape[-1] - 1,", "07", "SP-01"),
    "a direction of any length": ("sampling", "    z /= np.linalg.norm(z, axis=-1, keepdims=True)\n", "", "07", "SP-01"),
    "acceptance ratio upside down": ("sampling", "> log_p - log_q", "> log_q - log_p", "07", "TG-36"),
    "Laplace with half its scale": ("mechanisms", "1 / _epsilon(epsilon) * (1 + 1e-15)", "0.5 / _epsilon(epsilon) * (1 + 1e-15)", "08", "TG-19"),
    "extrinsic noise on the logarithm": ("mechanisms", "return invvecd(self.perturb(vecd(M), rng))", "return expm(invvecd(self.perturb(vecd(logm(M)), rng)))", "08", "TG-24"),
    "μ halved": ("mechanisms", "math.nextafter(sensitivity / self.sigma, math.inf)", "sensitivity / self.sigma / 2", "10", "SP-06"),
    "one draw for the whole batch": ("mechanisms", "self._noise(y.shape,", "self._noise(y.shape[-1:],", "10", "SP-13"),
    "clipping without its margin": ("frechet", "limit = radius * (1 - (d + 8) * EPS)", "limit = radius", "05", "SP-12"),
    "records not cut to the grid": ("frechet", "return np.trunc(y / grid) * grid", "return y", "05", "SP-12"),
    "rounding of the mean not covered": ("frechet", "return 2 * radius / n * (1 + 2 * n * EPS)", "return 2 * radius / n", "05", "SP-12"),
    "the spectrum's whole width for the radius": ("descriptors", "((high - low) / 2 + slack)", "(high - low + slack)", "09", "SP-02"),
    "the ball about I": ("descriptors", "math.sqrt(eta) * math.sqrt(L) * np.eye(len(a))", "np.eye(len(a))", "09", "SP-03"),
    "arctan bounded by 1": ("descriptors", "math.sqrt(2), math.pi / 2]", "math.sqrt(2), 1]", "09", "TG-29"),
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
