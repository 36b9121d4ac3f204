"""A claim stands everywhere in its domain: chapters keep their verdicts at random parameters.

On a push an eighth of the chapters is run again, once each; which eighth changes with the package
and the chapters. `SPDLIB_WEEKLY=1` runs all of them, three times.
"""

import ast
import functools
import hashlib
import math
import os
import random

import pytest
from conftest import CHAPTERS, ROOT, cells_of

from claimbook.run import refusal

WEEKLY = os.environ.get("SPDLIB_WEEKLY") == "1"
DRAWS, SHARE = ([1, 2, 3], 1) if WEEKLY else ([1], 8)
SOURCES = b"".join(path.read_bytes() for path in [*sorted(ROOT.glob("spdlib/**/*.py")), *CHAPTERS])
FIRST = int(hashlib.sha256(SOURCES).hexdigest(), 16) % SHARE
each_chapter = pytest.mark.parametrize("chapter", CHAPTERS, ids=lambda chapter: chapter.stem)


def domain(chapter):
    """The closed ranges that the chapter's `require` admits: parameter to (low, high)."""
    sources = [cell["source"] for cell in cells_of(chapter) if cell["cell_type"] == "code"]
    tree = ast.parse(next(source for source in sources if "require(" in source))
    calls = [node for node in ast.walk(tree) if isinstance(node, ast.Call)]
    call = next(node for node in calls if getattr(node.func, "id", "") == "require")
    return {
        keyword.arg: tuple(eval(ast.unparse(bound)) for bound in keyword.value.elts[1:])
        for keyword in call.keywords
    }


def draw(rng, low, high):
    """A value of the range; over several decades of a positive range, uniform in the logarithm."""
    whole = isinstance(low, int)
    if 0 < low < high / (100 if whole else 10):
        value = math.exp(rng.uniform(math.log(low), math.log(high)))
        value = round(value) if whole else value
    else:
        value = rng.randint(low, high) if whole else rng.uniform(low, high)
    return min(max(value if whole else float(f"{value:.4g}"), low), high)


@pytest.mark.slow
@pytest.mark.parametrize("draws", DRAWS)
@pytest.mark.parametrize("chapter", CHAPTERS[FIRST::SHARE], ids=lambda chapter: chapter.stem)
def test_verdicts_stand_at_random_parameters(chapter, draws, run_chapter):
    rng = random.Random(f"{chapter.stem} {draws}")
    parameters = {name: draw(rng, low, high) for name, (low, high) in domain(chapter).items()}
    assert run_chapter(chapter, parameters) is None, parameters


@pytest.mark.slow
@each_chapter
def test_a_wrong_parameter_is_refused_by_name(chapter, monkeypatch):
    import nbformat  # here, since it takes seconds

    # a chapter is read and validated once
    monkeypatch.setattr(nbformat, "read", functools.cache(nbformat.read))
    for name, (low, high) in domain(chapter).items():
        for wrong in (low - 1, high + 1, math.nan, "seven"):
            message = refusal(chapter, {name: wrong}, ROOT / "book")
            assert message is not None and message.startswith(f"{name} is "), message
