"""A claim stands everywhere in its domain: chapters at random parameters keep their verdicts, and refuse wrong ones."""

import ast
import math
import random

import pytest
from conftest import CHAPTERS, cells_of


def domain(chapter):
    """The closed ranges that the chapter's `require` admits: a dict from parameter to (low, high)."""
    source = next(cell["source"] for cell in cells_of(chapter) if cell["cell_type"] == "code" and "require(" in cell["source"])
    call = next(node for node in ast.walk(ast.parse(source)) if isinstance(node, ast.Call) and getattr(node.func, "id", "") == "require")
    return {keyword.arg: tuple(eval(ast.unparse(bound)) for bound in keyword.value.elts[1:]) for keyword in call.keywords}


def draw(rng, low, high):
    """A value of the range; over several decades of a positive range, uniform in the logarithm."""
    if isinstance(low, int):
        return round(math.exp(rng.uniform(math.log(low), math.log(high)))) if 0 < low < high / 100 else rng.randint(low, high)
    return float(f"{math.exp(rng.uniform(math.log(low), math.log(high))) if 0 < low < high / 10 else rng.uniform(low, high):.4g}")


@pytest.mark.parametrize("draws", [1, 2, 3])
@pytest.mark.parametrize("chapter", CHAPTERS, ids=lambda chapter: chapter.stem)
def test_verdicts_stand_at_random_parameters(chapter, draws, run_chapter):
    rng = random.Random(f"{chapter.stem} {draws}")
    parameters = {name: min(max(draw(rng, low, high), low), high) for name, (low, high) in domain(chapter).items()}
    assert run_chapter(chapter, parameters) is None, parameters


@pytest.mark.parametrize("chapter", CHAPTERS, ids=lambda chapter: chapter.stem)
def test_a_wrong_parameter_is_refused_by_name(chapter, run_chapter):
    name, (low, high) = random.Random(chapter.stem).choice(sorted(domain(chapter).items()))
    for wrong in (low - 1, "seven"):
        kind, message = run_chapter(chapter, {name: wrong})
        assert kind == "ValueError" and message.startswith(f"{name} is "), message
