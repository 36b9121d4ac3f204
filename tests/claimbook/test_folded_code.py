"""The fold of a cell's code says what the code is of."""

import pytest

CLAIM = '<div class="claim claim-holds"><p><a href="#ledger-{0}">{0}</a> <strong>holds</strong></p>'
TABLE = '<table class="numbers"></table>'


@pytest.mark.slow  # imports MyST-NB
@pytest.mark.parametrize("source, outputs, figures, words", [
    ("x = 1", [CLAIM.format("SP-12")], [], "the code of the checks of SP-12"),
    ("x = 1", [CLAIM.format("A-1").replace("A-1", "TG-01"), TABLE, CLAIM.format("TG-02")], [],
     "the code of the checks of TG-01 and TG-02"),
    ("def f(): pass", [TABLE], ["fig"], "the code of Fig. 3.1"),
    ("x = 1", [CLAIM.format("SP-12")], ["fig", "other"],
     "the code of Fig. 3.1, Fig. 3.2 and the checks of SP-12"),
    ("def f(): pass", [TABLE], [], "the code of the table"),
    ("x = 1", [TABLE, TABLE], [], "the code of the tables"),
    ("def f(): pass\nclass A: pass\ng = 1", [], [], "the code of f and A"),
    ("\n".join(f"def {name}(): pass" for name in "abcdef"), [], [],
     "the code of a, b, c, d and others"),
    ("%matplotlib inline\nx = 1", [], ["unknown"], "the code"),
    ("import math\n\nx = 1", [], [], "the imports"),
    ("import math\n\nx = math.pi\nassert x > 3", [], [], "the code"),
    ("from math import pi\n\ndef f(): pass", [], [], "the code of f"),
])
def test_the_fold_of_code_says_what_it_is_of(source, outputs, figures, words):
    nodes = pytest.importorskip("docutils.nodes", reason="Sphinx is not installed")
    folded_code = pytest.importorskip("claimbook.sphinx.folded_code", reason="no MyST-NB")
    cell = nodes.container()
    for text in outputs:
        cell += nodes.raw("", text, format="html")
    for id in figures:
        cell += nodes.figure(ids=[id])
    numbers = {"fig": (3, 1), "other": (3, 2)}
    assert folded_code.code_of(source, cell, numbers) == words
    cell["classes"] = ["tag_parameters"]
    assert folded_code.code_of(source, cell, numbers) == "the parameters"
