"""The order of the modules of spdlib, what they import, and how long they may be."""

import ast
import io
import pathlib
import subprocess
import sys
import tokenize

import pytest

import spdlib

ORDER = [
    "_checks",
    "_estimator",
    "_parallel",
    "_components",
    "_functions",
    "spd",
    "_descent",
    "calibration",
    "descriptors",
    "datasets",
    "printed",
    "spaces",
    "clipping",
    "cluster",
    "sampling",
    "mechanisms",
    "densities",
    "frechet",
    "discrete",
    "accounting",
    "release",
    "private_mean",
    "class_means",
    "regression",
    "curve_densities",
    "private_regression",
    "planning",
    "audit",
    "certify",
    "ledger",
    "show",
    "claims",
    "cli",
]
MODULES = {
    path.stem: path.read_text(encoding="utf-8")
    for path in sorted(pathlib.Path(spdlib.__file__).parent.glob("*.py"))
    if path.stem != "__init__"
}
BOOK = {"sympy", "flint", "IPython", "papermill", "sklearn", "skimage", "matplotlib"}
BOOK |= {"dask", "distributed", "dp_accounting", "opendp"}  # those of extras of their own
MOST_LINES = 400


def imports(source):
    """Modules that a source imports, relative ones with their dots: at top level, and all."""

    def found(nodes):
        for node in nodes:
            if isinstance(node, ast.Import):
                yield from (alias.name for alias in node.names)
            elif isinstance(node, ast.ImportFrom) and node.module is None:
                yield from ("." * node.level + alias.name for alias in node.names)
            elif isinstance(node, ast.ImportFrom):
                yield "." * node.level + node.module

    def outside_functions(node):
        for child in ast.iter_child_nodes(node):
            if not isinstance(child, (ast.FunctionDef, ast.AsyncFunctionDef, ast.Lambda)):
                yield child
                yield from outside_functions(child)

    tree = ast.parse(source)
    return set(found(outside_functions(tree))), set(found(ast.walk(tree)))


def own(source):
    """Modules of the package that a source imports, wherever it does."""
    return sorted(module for module in imports(source)[1] if module.startswith((".", "spdlib")))


def out_of_order(name, source):
    """Imports of the package's own modules that the order of the design forbids."""
    allowed = {"." + module for module in ORDER[: ORDER.index(name)]}
    return [module for module in own(source) if module not in allowed]


def heavy(source):
    """Imports at top level of what spdlib does not need to run."""
    light = {"numpy", "scipy"} | sys.stdlib_module_names
    return sorted(
        module for module in imports(source)[0] if module.split(".")[0] not in light | {""}
    )


def lines_of_code(source):
    """Number of lines without blank lines, comments and docstrings."""
    silent = {
        tokenize.COMMENT,
        tokenize.NL,
        tokenize.NEWLINE,
        tokenize.INDENT,
        tokenize.DEDENT,
        tokenize.ENDMARKER,
    }
    code = {
        line
        for token in tokenize.generate_tokens(io.StringIO(source).readline)
        if token.type not in silent
        for line in range(token.start[0], token.end[0] + 1)
    }
    for node in ast.walk(ast.parse(source)):
        documented = isinstance(
            node, (ast.Module, ast.ClassDef, ast.FunctionDef, ast.AsyncFunctionDef)
        )
        if documented and ast.get_docstring(node) is not None:
            code -= set(range(node.body[0].lineno, node.body[0].end_lineno + 1))
    return len(code)


def test_every_module_has_its_place_in_the_order():
    assert set(MODULES) <= set(ORDER)


def test_a_module_imports_only_from_those_before_it():
    wrong = {name: out_of_order(name, source) for name, source in MODULES.items()}
    assert wrong == dict.fromkeys(MODULES, []), wrong


def test_the_papers_formulas_owe_nothing_to_the_module_that_they_are_held_against():
    assert own(MODULES["printed"]) == []


@pytest.mark.parametrize(
    "source, found",
    [
        ("from .spd import logm", [".spd"]),
        ("def f():\n    import spdlib", ["spdlib"]),
        ("from . import calibration", [".calibration"]),
        ("import numpy\nfrom scipy.stats import norm", []),
    ],
)
def test_an_import_of_the_package_is_seen_wherever_it_stands(source, found):
    assert own(source) == found


def test_a_module_needs_only_numpy_and_scipy_to_be_imported():
    wrong = {name: heavy(source) for name, source in MODULES.items()}
    assert wrong == dict.fromkeys(MODULES, []), wrong


def test_a_module_stays_small():
    for name, source in MODULES.items():
        assert lines_of_code(source) <= MOST_LINES, name


@pytest.mark.slow
def test_importing_spdlib_loads_nothing_of_the_book():
    code = "import sys, spdlib; print(*sys.modules)"
    loaded = subprocess.run(
        [sys.executable, "-c", code], capture_output=True, text=True, check=True
    ).stdout.split()
    assert "numpy" in loaded and not BOOK & set(loaded)


@pytest.mark.parametrize(
    "source, found",
    [
        ("from .cli import main", [".cli"]),
        ("from .frechet import clip_to_ball", [".frechet"]),
        ("def f():\n    from . import audit", [".audit"]),
        ("import spdlib.spd", ["spdlib.spd"]),
        ("from spdlib.spd import logm", ["spdlib.spd"]),
        ("from ..spd import logm", ["..spd"]),
        ("from .spd import logm\nfrom . import calibration\nimport numpy", []),
    ],
)
def test_an_import_out_of_order_is_seen_wherever_it_stands(source, found):
    assert out_of_order("frechet", source) == found


@pytest.mark.parametrize(
    "source, found",
    [
        ("import sympy", ["sympy"]),
        ("try:\n    import flint\nexcept ImportError:\n    pass", ["flint"]),
        ("class A:\n    from IPython.display import display", ["IPython.display"]),
        ("def f():\n    import sympy", []),
        ("import math, numpy.linalg\nfrom scipy.stats import norm\nfrom .spd import logm", []),
    ],
)
def test_a_heavy_import_is_seen_at_top_level_only(source, found):
    assert heavy(source) == found


def test_blank_lines_comments_and_docstrings_are_no_code():
    source = (
        '"""Title.\n\nMore.\n"""\n\n# why\nx = [1,\n     2]  # both\n\n\n'
        'def f():\n    """Out.\n    """\n    return """a\n\n    b"""\n'
    )
    assert lines_of_code(source) == 6
