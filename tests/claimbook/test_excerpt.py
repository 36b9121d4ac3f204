"""A claim on its own: what an excerpt of a chapter keeps, and that the claim comes out the same.

The breaks run excerpts with a fault on a push; `SPDLIB_WEEKLY=1` runs those of all claims without.
"""

import ast
import os

import pytest
from conftest import CHAPTERS, ROOT, Node

from claimbook.excerpt import excerpt, flow
from claimbook.ledger import recorded
from claimbook.run import execute

TESTED = {record["id"]: chapter for chapter in CHAPTERS for record in recorded(chapter)}


light = pytest.mark.usefixtures("light_nbformat")


def notebook(*sources):
    return Node(cells=[Node(cell_type="code", source=each) for each in sources])


def plain(*sources):
    """The sources without what only their writing says."""
    return [ast.unparse(ast.parse(source)) for source in sources]


def kept(*sources):
    return plain(*(cell.source for cell in excerpt(notebook(*sources), "TG-01").cells))


TEST = 'with claim("TG-01", "holds", seed) as c:\n    c.equal(x, stated=1)'
OTHER = TEST.replace("TG-01", "TG-02")


@light
@pytest.mark.parametrize("lead", [
    "x = 1",
    "y = 1\nx = y",
    "x = 1\nx += 2",
    "x = {}\nx['a'] = 1",
    "x = {1: 1}\ndel x[1]",
    "x = []\nx.append(1)",
    "x = []\nx[0].items.add(1)",
    "x = {}\nx.setdefault(1, []).append(1)",
    "x = []\nfor x[0] in z: pass",
    "x = []\ndef y(z): x.append(z)\ny(1)",
    "x = []\ndef y(z): x.append(z)\nfor z in a: y(z)",
    "x = []\ndef y(z): x.append(z)\ndef z(): y(1)\nz()",
    "x = 1\nfor x in range(z): pass",
    "x = 1\nwhile z: x = 2",
    "x = 1\nif z: x = 2\nelse: z = 3",
    "x = 1\ntry: x = y\nexcept z: pass",
    "x = 1\nmatch z:\n    case 5: x = 2",
    "x = 1\nwith z:\n    x = y",
    "x = 1\nz and (x := 2)",
    "x = 1\nx: int",
    "y = 1\nfor i in z:\n    if i: y = i\n    x = y",
    "for y in range(3): x = y",
    "y = 1\nif z: y = 2\nelse: x = y",
    "with open(y) as x: z = x",
    "any((x := y) for y in z)",
    "y = 1\ndef f(a):\n    if (y := a): return y\nx = f(1) + y",
    "y = 1\nz = a and (y := 2)\nx = z, y",
    "y = 1\nfor y in z: pass\nelse: x = y",
    "x = [y for y in z]",
    "x = {y: z for y in z}",
    "y = 1\nx = sum(y for _ in z)",
    "y = 5\nz = [0 for y in a]\nx = z, y",
    "y = 1\n@y\ndef x(z=y): pass",
    "def x(y):\n    return y",
    "y = 1\ndef x():\n    return y",
    "def x():\n    return y\ny = 1",
    "def x():\n    return [y for _ in z]\ny = 1",
    "def y():\n    return z\nz = 5\nx = y()\nz = 7\ndef a():\n    return z\nx = x + a()",
    "x = lambda y: y + z\nz = 2",
    "with y:\n    z = 1\n    x = lambda: z\nz = 2",
    "with y as z: x = lambda: z\nz = 2",
    "y = 1\nclass x:\n    z = y",
    "y = 1\nclass x:\n    y = y",
    "import sympy as x",
    "import a.x\nimport a.y\nx = a.x",
    "from a import b, x",
    "import sympy as y\ny.oo = x = 1",
    "from a import b, c\nb.c = 200\nx = 1",
])
def test_an_excerpt_keeps_what_the_claim_depends_on(lead):
    assert kept(lead, OTHER, TEST, "x = 3") == plain(lead, TEST)


@pytest.mark.slow
@light
@pytest.mark.parametrize("before, lead", [
    ("y = 1\nx = y\ny = 2", "y = 1\nx = y"),
    ("x = 1\nx = 2", "x = 2"),
    ("x = 1\nprint(x)", "x = 1"),
    ("y = 1\nx = [y for y in z]", "x = [y for y in z]"),
    ("y = 1\nx = [y for _ in z]\ny = 2", "y = 1\nx = [y for _ in z]"),
    ("y = 1\nx = sum(y for _ in z)\ny = 2", "y = 1\nx = sum(y for _ in z)"),
    ("y = 1\nfor y in range(3): x = y", "for y in range(3): x = y"),
    ("y = 1\ndef x(y):\n    return y", "def x(y):\n    return y"),
    ("y = 1\ny = 2\ndef x():\n    return y", "y = 2\ndef x():\n    return y"),
    ("y = 1\ndef z():\n    return y\nx = 1", "x = 1"),
    ("def x(): pass\nx()", "def x(): pass"),
    ("x = lambda y: y + z\ny = 1\nz = 2", "x = lambda y: y + z\nz = 2"),
    ("import sympy as x\nx.Matrix([1])", "import sympy as x"),
    ("from a import b, c\nb.d()\nx = 1", "x = 1"),
    ("x = 1\ny = 'claim(\"TG-02\", \"holds\"), TG-01'", "x = 1"),
])
def test_an_excerpt_keeps_nothing_else(before, lead):
    assert kept(before, OTHER, TEST, "x = 3") == plain(lead, TEST)


@light
def test_an_excerpt_keeps_every_test_of_its_claim_and_no_other_claim_but_what_it_binds():
    other = OTHER + "\n    x = 1"
    assert kept(other, TEST, "y = 1", OTHER, TEST) == plain(other, TEST, TEST)
    assert kept("seed = 1; y = 1\n" + TEST + "\ny = 2") == plain("seed = 1\n" + TEST)


@light
def test_what_tests_two_claims_is_in_the_excerpts_of_both():
    both = "if z:\n  " + OTHER.replace("\n", "\n  ") + "\n  " + TEST.replace("\n", "\n  ")
    assert kept(both, "y = 1") == plain(both)


@light
def test_an_excerpt_leaves_the_chapter_as_it_was():
    chapter = notebook("x, y = 1, 2", "y = 3", TEST)
    chapter.cells.insert(1, Node(cell_type="markdown", source="x = *words*"))
    before = [cell.source for cell in chapter.cells]
    assert len(excerpt(chapter, "TG-01").cells) == 2
    assert [cell.source for cell in chapter.cells] == before
    with pytest.raises(ValueError, match="claim is 'TG-09'; accepted are the claims"):
        excerpt(chapter, "TG-09")


def test_what_stands_in_a_block_is_read_from_before_it_unless_the_block_binds_it_first():
    block = "with a as b:\n    c = b + d\n    e[c].f = g\n    for h in c:\n        i = h"
    reads, binds = {"a", "d", "e", "g"}, {"b", "c", "h", "i"}
    assert flow(ast.parse(block).body[0], set(), {}) == (reads, binds, {"e"}, set())
    block = "with a as b:\n    b.c(lambda d: (b, d, e))\n    e = 1"
    assert flow(ast.parse(block).body[0], set(), {}) == ({"a"}, {"b", "e"}, set(), {"b", "e"})


@pytest.mark.slow
@pytest.mark.parametrize("claim", TESTED if os.environ.get("SPDLIB_WEEKLY") == "1" else [])
def test_a_claim_comes_out_as_stated_on_its_own(claim):
    executed = execute(excerpt(TESTED[claim], claim), book=ROOT / "book")
    outputs = [output for cell in executed.cells for output in cell.outputs]
    assert [out.evalue for out in outputs if out.output_type == "error"] == []
