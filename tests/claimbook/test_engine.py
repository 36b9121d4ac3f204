"""The engine stands alone: what it imports, how long its modules are, and when its version moves.
"""

import ast
import hashlib
import pathlib
import subprocess
import sys

import pytest
from conftest import ROOT
from test_design import MOST_LINES, heavy, imports, lines_of_code

import claimbook

FOLDER = pathlib.Path(claimbook.__file__).parent
MODULES = {
    str(path.relative_to(FOLDER)): path.read_text(encoding="utf-8")
    for path in sorted(FOLDER.rglob("*.py")) if "templates" not in path.parts
}
MOST_CHECKS = 60  # lines of `_checks`, which are copied from spdlib
# What decides a verdict. Where it changes in what it decides, ENGINE changes, too, and then this.
DECIDES = "claims.py", "certify.py"
DIGEST = {"1": "f809c14acf8cd487"}


def test_the_engine_imports_nothing_of_what_it_tests():
    for name, source in MODULES.items():
        assert not [each for each in imports(source)[1] if each.split(".")[0] == "spdlib"], name
        assert "spdlib" not in source, name


@pytest.mark.slow
def test_the_engine_works_where_there_is_no_spdlib(tmp_path):
    program = """
import sys
sys.modules["spdlib"] = None  # an import of it raises
import claimbook, claimbook.cli
from claimbook import claim, require
require(k=(2, 1, 10))
with claim("XX-01", "holds", 1) as c:
    c.equal(1.0, printed=1.0, rivals={"two": 2.0})
    c.law(lambda rng, size: rng.random(size), printed=lambda x: x, rivals={"x²": lambda x: x**2})
for name in ("book", "build", "excerpt", "net", "new", "run", "sources", "guards.candidates",
             "guards.numbers", "guards.recorded", "sphinx.ledger_page", "sphinx.net_page",
             "sphinx.claim_map", "sphinx.folded_code", "sphinx.chapter_numbers",
             "sphinx.figure_outputs"):
    __import__(f"claimbook.{name}")
assert [name for name, module in sys.modules.items() if name.startswith("spdlib") and module] == []
"""
    done = subprocess.run([sys.executable, "-c", program], cwd=ROOT, capture_output=True, text=True)
    assert done.returncode == 0, done.stderr
    assert "'id': 'XX-01', 'stated': 'holds', 'verdict': 'holds'" in done.stdout


@pytest.mark.slow
def test_importing_the_engine_loads_nothing_but_numpy():
    program = "import sys, claimbook, claimbook.cli; print(*sys.modules)"
    done = subprocess.run([sys.executable, "-c", program], cwd=ROOT, capture_output=True, text=True)
    loaded = {name.split(".")[0] for name in done.stdout.split()}
    assert "numpy" in loaded
    assert not {"scipy", "sympy", "flint", "IPython", "nbformat", "papermill", "sphinx"} & loaded


@pytest.mark.slow
def test_what_only_books_need_is_imported_where_it_is_used():
    for name, source in MODULES.items():
        found = set(heavy(source)) - {"claimbook", "claimbook.ledger"}
        known = ("docutils", "myst_nb", "sphinx") if name.startswith("sphinx/") else ()
        assert all(module.startswith(known) for module in found), name
        assert "scipy" not in " ".join(imports(source)[0]), name


@pytest.mark.slow
def test_a_module_of_the_engine_stays_small():
    for name, source in MODULES.items():
        assert lines_of_code(source) <= MOST_LINES, name
    assert MODULES["_checks.py"].count("\n") <= MOST_CHECKS


def test_the_version_of_the_engine_moves_with_what_it_decides():
    found = hashlib.sha256()
    for name in DECIDES:
        tree = ast.parse(MODULES[name])
        for node in ast.walk(tree):
            if isinstance(node, (ast.Module, ast.ClassDef, ast.FunctionDef)):
                if ast.get_docstring(node) is not None:
                    node.body = node.body[1:] or [ast.Pass()]
        found.update(ast.unparse(tree).encode())
    assert DIGEST.get(claimbook.ENGINE) == found.hexdigest()[:16], (
        "claims or certify have changed: where they decide otherwise than before, ENGINE gets a "
        "new value; then write the digest down")
