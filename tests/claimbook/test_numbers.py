"""Guard: a number in the prose of this book is one that a cell shows, and stale ones are seen."""

import pytest
from conftest import CHAPTERS, ROOT, cells_of

from claimbook.guards.numbers import unfounded
from claimbook.ledger import is_own, read_claims

OWN = {prefix for prefix, paper in read_claims(ROOT / "book")[0].items() if is_own(paper)}
# (chapter, number as typed): why no cell shows it
EXCEPTIONS = {}


@pytest.mark.parametrize("chapter", CHAPTERS, ids=lambda chapter: chapter.stem)
def test_every_number_in_the_prose_is_shown_by_a_cell(chapter):
    allowed = {text for stem, text in EXCEPTIONS if stem == chapter.stem}
    found = unfounded(cells_of(chapter), OWN)
    assert [text for text in found if text not in allowed] == []
    assert allowed <= set(found), "an exception that nothing needs"


def cell(source, output=None, kind="code"):
    outputs = [] if output is None else [{"output_type": "stream", "text": output}]
    return {"cell_type": kind, "source": source, "metadata": {}, "outputs": outputs}


@pytest.mark.parametrize(
    "text, output, found",
    [
        ("It is 1.25 times as large.", "ratio 1.2482", []),
        ("It is 1.25 times as large.", "ratio 1.2562", ["1.25"]),
        ("It saves 71% of the error.", "0.7121", []),
        ("It saves 71% of the error.", "saved 71.4%", []),
        (r"It saves $71\,\%$ or 71\% of it.", "0.65", [r"71\%"]),
        (r"It is $1.3 \cdot 10^{-3}$ s.", "0.00131", []),
        (r"It is $1.3 \cdot 10^{-3}$ s.", "0.00141", [r"1.3 \cdot 10^{-3}"]),
        ("See Theorem 2.1, Sec. 6.2 and `x = 0.5`, {cite:p}`a2.5`.", "", []),
        (":::{claim} TG-16 A\n\nIt is 9.87.\n:::", "", []),
        (":::{claim} SP-04 A\n\nIt is 9.87.\n:::", "", ["9.87"]),
        ("::::{claim} TG-16 A\nIt is 9.87.\n:::{corrected} B\n6.54\n:::\n::::", "", ["6.54"]),
    ],
)
def test_a_number_is_told_from_what_the_cells_show(text, output, found):
    assert unfounded([cell(text, kind="markdown"), cell("x = 1", output)], OWN) == found
