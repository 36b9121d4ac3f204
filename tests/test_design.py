"""The order of the rooms of spdlib and of the modules in them, and how long these may be."""

import ast
import inspect
import io
import pathlib
import subprocess
import sys
import tokenize

import pytest

import spdlib
from spdlib.mechanisms import Mechanism
from spdlib.spaces import Curved, Flat, Space

# A room is a module, or a folder of modules: each imports only from those before it.
ROOMS = {
    "_checks": [],
    "_parallel": [],
    "_kernel": [],
    "spd": [],
    "calibration": [],
    "spaces": ["components", "functions", "means", "base", "matrices", "flat", "round", "ball"],
    "descriptors": [],
    "samplers": ["boxes", "chains", "radial"],
    "regression": [],
    "queries": ["sums", "mean", "classes", "curve", "passes"],
    "mechanisms": ["base", "gaussian", "l2", "laplace", "integers", "lattice", "densities",
                   "curves", "descent", "counted", "refined"],
    "accounting": ["composition", "fields", "account", "regions", "document"],
    "estimators": ["base", "mean", "classes", "count", "spread", "regression"],
    "planning": [],
    "audit": [],
    "datasets": [],
    "printed": [],
    "cli": [],
}
# The modules of a room, then its door, the `__init__` from which others take what is public.
ORDER = [place for room, modules in ROOMS.items()
         for place in (*(f"{room}.{module}" for module in modules), room)]
ENGINE = {"certify", "ledger", "show", "claims"}  # is to be a package of its own
FOLDER = pathlib.Path(spdlib.__file__).parent
PATHS = {
    ".".join(path.relative_to(FOLDER).with_suffix("").parts).removesuffix(".__init__"): path
    for path in sorted(FOLDER.rglob("*.py")) if path != FOLDER / "__init__.py"
}
MODULES = {name: path.read_text(encoding="utf-8") for name, path in PATHS.items()
           if name not in ENGINE}
BOOK = {"sympy", "flint", "IPython", "papermill", "sklearn", "skimage", "matplotlib"}
BOOK |= {"dask", "distributed", "dp_accounting", "opendp"}  # those of extras of their own
MOST_LINES = 400
# Their methods are one interface, with the same arguments in all of them, mostly arrays: `Space`,
# `Mechanism` and `Noise` say what they return, and a heir's maps are as short as the formulas.
INTERFACES = Curved, Flat, Mechanism


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
    """Modules of the package that a source imports, wherever it does, as they stand there."""
    return sorted(module for module in imports(source)[1] if module.startswith((".", "spdlib")))


def place(name, module):
    """The place in the order of what the module of this name imports; as it stands if it has none.

    In a room "." is the room itself, and ".." the package; outside of one "." is the package.
    """
    room = name.split(".")[0]
    above = {1: f"{room}.", 2: ""} if ROOMS[room] else {1: ""}
    path = module.lstrip(".")
    dots = len(module) - len(path)
    return above[dots] + path if dots in above else module


def out_of_order(name, source):
    """Imports of the package's own modules that the order of the design forbids."""
    allowed = {*ORDER[: ORDER.index(name)], *ENGINE}
    return [module for module in own(source) if place(name, module) not in allowed]


def taken(source):
    """Names with a leading underscore that a source takes from elsewhere; it may take its own.

    What an object is asked for by `self`, `cls` or `super()` is its own, too.
    """
    nodes = list(ast.walk(ast.parse(source)))
    made = {node.name for node in nodes if isinstance(node, (ast.FunctionDef, ast.ClassDef))}
    made |= {node.attr for node in nodes
             if isinstance(node, ast.Attribute) and isinstance(node.ctx, ast.Store)}
    made |= {node.id for node in nodes
             if isinstance(node, ast.Name) and isinstance(node.ctx, ast.Store)}

    def names():
        for node in nodes:
            if isinstance(node, ast.ImportFrom):
                yield from (alias.name for alias in node.names if alias.name not in ROOMS)
            elif (isinstance(node, ast.Attribute) and node.attr not in made
                    and ast.unparse(node.value) not in ("self", "cls", "super()")):
                yield node.attr

    return sorted({name for name in names() if name.startswith("_") and not name.endswith("__")})


def heavy(source):
    """Imports at top level of what spdlib does not need to run."""
    light = {"numpy", "scipy"} | sys.stdlib_module_names
    return sorted(
        module for module in imports(source)[0] if module.split(".")[0] not in light | {""}
    )


def constants(source):
    """Names in capitals that a source gives a value, outside of functions."""
    statements = (node for node in ast.parse(source).body if isinstance(node, ast.Assign))
    names = (node for statement in statements for target in statement.targets
             for node in ast.walk(target) if isinstance(node, ast.Name))
    return {name.id for name in names if name.id.isupper()}


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


def public_functions(named):
    """What users of these names call, by name; of heirs of `INTERFACES` no more than `__init__`."""
    for name, each in named.items():
        if inspect.isfunction(each):
            yield name, each
        elif inspect.isclass(each):
            for part in dir(each):
                member = inspect.getattr_static(each, part)
                member = getattr(member, "fget", None) or getattr(member, "__func__", member)
                called = part == "__init__" or not (
                    part.startswith("_") or issubclass(each, INTERFACES))
                if called and inspect.isfunction(member):
                    yield f"{name}.{part}", member


def bare(named):
    """Arguments and returns without an annotation, of what users of these names call."""
    for name, function in public_functions(named):
        known = {*inspect.get_annotations(function)}
        asked = {*inspect.signature(function).parameters} - {"self", "cls"}
        asked |= set() if name.endswith(".__init__") else {"return"}
        yield from (f"{name}: {missing}" for missing in sorted(asked - known))


def test_what_users_call_says_the_types_of_its_arguments_and_of_what_it_returns():
    assert not [*bare({name: each for name, each in vars(spdlib).items() if name[0] != "_"})]


def test_the_interface_of_spaces_and_that_of_mechanisms_say_what_they_return():
    for each, silent in (Space, set()), (Mechanism, {"source"}):
        functions = {name: getattr(each, name) for name in vars(each) if name[0] != "_"}
        found = {name for name, function in functions.items()
                 if (inspect.isfunction(function) or inspect.ismethod(function))
                 and "return" not in inspect.get_annotations(function)}
        assert found == silent


class Silent:
    """One of which a little is said."""

    def __init__(self, x: float, y):
        self.x = x

    @classmethod
    def made(cls, X: int):
        return cls(X, X)

    @property
    def size(self):
        return self.x

    def _own(self, x):
        return x


def test_an_argument_or_a_return_of_which_nothing_is_said_is_seen():
    assert [*bare({"Silent": Silent, "place": place, "a module": ast})] == [
        "Silent.__init__: y", "Silent.made: return", "Silent.size: return",
        "place: module", "place: name", "place: return"]


def test_every_module_has_its_place_in_the_order_and_every_place_its_module():
    assert set(MODULES) == set(ORDER)


@pytest.mark.slow
def test_a_module_imports_only_from_those_before_it():
    wrong = {name: out_of_order(name, source) for name, source in MODULES.items()}
    assert wrong == dict.fromkeys(MODULES, []), wrong


@pytest.mark.slow
def test_no_module_takes_a_private_name_from_another():
    wrong = {name: taken(source) for name, source in MODULES.items()}
    assert wrong == dict.fromkeys(MODULES, []), wrong


def test_the_papers_formulas_owe_nothing_to_the_module_that_they_are_held_against():
    assert own(MODULES["printed"]) == []


@pytest.mark.parametrize("source, found", [
    ("from .spd import logm", [".spd"]),
    ("def f():\n    import spdlib", ["spdlib"]),
    ("from . import calibration", [".calibration"]),
    ("import numpy\nfrom scipy.stats import norm", []),
])
def test_an_import_of_the_package_is_seen_wherever_it_stands(source, found):
    assert own(source) == found


@pytest.mark.slow
def test_a_module_needs_only_numpy_and_scipy_to_be_imported():
    wrong = {name: heavy(source) for name, source in MODULES.items()}
    assert wrong == dict.fromkeys(MODULES, []), wrong


@pytest.mark.slow
def test_a_constant_of_one_name_means_one_thing():
    homes = {}
    for module, source in MODULES.items():
        for name in constants(source):
            homes.setdefault(name, []).append(module)
    assert {name: places for name, places in homes.items() if len(places) > 1} == {}


@pytest.mark.parametrize("name", MODULES)
def test_a_module_stays_small(name):
    assert lines_of_code(MODULES[name]) <= MOST_LINES


@pytest.mark.slow
def test_the_modules_are_laid_out_by_the_formatter():
    done = subprocess.run([sys.executable, "-m", "yapf", "-d", "-p", "-r", "spdlib", "claimbook"],
                          cwd=FOLDER.parent, capture_output=True, text=True)
    assert not done.stdout and not done.returncode, f"make format mends it:\n{done.stdout}"


@pytest.mark.slow
def test_importing_spdlib_loads_nothing_of_the_book():
    code = "import sys, spdlib; print(*sys.modules)"
    loaded = subprocess.run(
        [sys.executable, "-c", code], capture_output=True, text=True, check=True
    ).stdout.split()
    assert "numpy" in loaded and not BOOK & set(loaded)


@pytest.mark.parametrize("name, source, found", [
    ("queries.mean", "from ..cli import main", ["..cli"]),
    ("queries.mean", "from ..mechanisms import TangentGaussian", ["..mechanisms"]),
    ("queries.mean", "from ..mechanisms.gaussian import TangentGaussian",
     ["..mechanisms.gaussian"]),
    ("queries.mean", "def f():\n    from .. import audit", ["..audit"]),
    ("queries.mean", "from .classes import ClassSums", [".classes"]),
    ("queries.mean", "from . import FrechetMean", [".FrechetMean"]),
    ("queries.mean", "from .mean import ends", [".mean"]),
    ("queries.mean", "from .spd import logm", [".spd"]),
    ("queries.mean", "import spdlib.spd", ["spdlib.spd"]),
    ("queries.mean", "from spdlib.spd import logm", ["spdlib.spd"]),
    ("queries.mean", "from ...spd import logm", ["...spd"]),
    ("queries.mean", "from ..spd import logm\nfrom ..spaces.ball import Ball\nimport numpy\n"
     "from .sums import ClippedSum\nfrom .. import calibration\nfrom ..spaces import Sphere", []),
    ("queries", "from .curve import CurveQuery", []),
    ("queries", "from .sampler import walk", [".sampler"]),
    ("spaces", "from ..samplers import boxes", ["..samplers"]),
    ("audit", "from .spaces import Ball\nfrom .spaces.ball import POLICIES", []),
    ("audit", "from ..spaces import Ball", ["..spaces"]),
    ("audit", "from .datasets import to_pixels", [".datasets"]),
])
def test_an_import_out_of_order_is_seen_wherever_it_stands(name, source, found):
    assert out_of_order(name, source) == found


@pytest.mark.parametrize("source, found", [
    ("from .spd import _compose", ["_compose"]),
    ("def f():\n    from ..spd import logm, _compose as compose", ["_compose"]),
    ("from . import spd\nspd._compose(X)", ["_compose"]),
    ("def f(query):\n    return query._sum", ["_sum"]),
    ("class A:\n    def f(self, other):\n        return other._sum", ["_sum"]),
    ("class A:\n    def f(self, other):\n        self._sum = 1\n        return other._sum", []),
    ("class A(B):\n    def f(self):\n        return super()._f(self._g, type(self).__name__)", []),
    ("from . import _checks\nfrom ._checks import EPS\nx = _f()", []),
])
def test_a_private_name_of_another_module_is_seen_wherever_it_is_taken(source, found):
    assert taken(source) == found


@pytest.mark.parametrize("source, found", [
    ("import sympy", ["sympy"]),
    ("try:\n    import flint\nexcept ImportError:\n    pass", ["flint"]),
    ("class A:\n    from IPython.display import display", ["IPython.display"]),
    ("def f():\n    import sympy", []),
    ("import math, numpy.linalg\nfrom scipy.stats import norm\nfrom .spd import logm", []),
])
def test_a_heavy_import_is_seen_at_top_level_only(source, found):
    assert heavy(source) == found


def test_blank_lines_comments_and_docstrings_are_no_code():
    source = (
        '"""Title.\n\nMore.\n"""\n\n# why\nx = [1,\n     2]  # both\n\n\n'
        'def f():\n    """Out.\n    """\n    return """a\n\n    b"""\n'
    )
    assert lines_of_code(source) == 6
