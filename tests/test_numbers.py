"""Guard: a number typed in prose is one that a cell of its chapter shows or computes with.

Looked at are decimals and percentages in the Markdown of a chapter and in the captions of its
figures, outside the statements of the papers. Each must be the rounding of a number that stands in
the recorded outputs or in the code. So a number that an edit, or a rerun with a change in spdlib,
has made stale is found, unless another number of the chapter happens to round to it.
"""

import json
import re

import pytest
from conftest import CHAPTERS, cells_of

from spdlib.ledger import DIRECTIVE, ID, OWN

NUMBER = r"\d+(?:\.\d+)?(?:[eE][+-]?\d+)?"
TYPED = re.compile(
    r"(?<![\w.\\/^{-])(\d+\.\d+)(?![\d.]*\w)(?:\s*(?:\\cdot|\\times|·|×)\s*10\^\{?(-?\d+)\}?)?"
    r"(\s*\\?%)?|(?<![\w.\\/])(\d+)\s*\\?%"
)
# what is no number of this book: code, links, citations, addresses, places in papers
SILENT = [
    r"```.*?```", r"`[^`]*`", r"\{(?:cite|prf|ref|eq|numref|doc)[^}]*\}`[^`]*`", r"\]\([^)]*\)",
    r"https?://\S+", r"<!--.*?-->", r"arXiv[: ]\d+\.\d+",
    r"(?:eq\.|Eq\.|Sec\.|Section|Th\.|Theorems?|Lemmas?|Cor\.|Corollary|Definition|Def\.|Table|"
    r"Fig\.|Figure|Example|Appendix|Prop\.|items?|Steps?|version|Python|NumPy|SciPy)[\s~]*"
    r"[A-Z]?\.?\d+(?:\.\d+)*",
]
# (chapter, number as typed): why no cell shows it
EXCEPTIONS = {}


def prose(cells):
    """The sentences of a chapter and the captions of its figures, without what others state."""
    texts = [cell["source"] for cell in cells if cell["cell_type"] == "markdown"]
    for cell in cells:
        figure = cell["metadata"].get("mystnb", {}).get("figure", {})
        texts.append(figure.get("caption", ""))
    text = "\n\n".join(texts)

    def stated_by_others(match):
        label = match["label"]
        return "" if ID.fullmatch(label) and not label.startswith(OWN) else match[0]

    text = DIRECTIVE.sub(stated_by_others, text)
    for pattern in SILENT:
        text = re.sub(pattern, " ", text, flags=re.S)
    return text


def typed(text):
    """The numbers in a text: (as typed, value, half a unit of the last digit) of each."""
    for match in TYPED.finditer(text):
        digits, exponent, percent, whole = match.groups()
        power = int(exponent or 0) - (2 if percent or whole else 0)
        number = digits or whole
        places = len(number.partition(".")[2])
        yield match[0].strip(), float(number) * 10.0**power, 0.5 * 10.0 ** (power - places)


def shown(cells):
    """All numbers that stand in the code and in the recorded outputs of a chapter: a set."""
    texts = []
    for cell in cells:
        if cell["cell_type"] != "code":
            continue
        texts.append(cell["source"])
        for output in cell["outputs"]:
            data = {kind: text for kind, text in output.get("data", {}).items()
                    if not kind.startswith("image/") and kind != "text/html"}
            texts.append(json.dumps([data, output.get("text", "")], ensure_ascii=False))
    text = re.sub(r"(?<=\d)_(?=\d)", "", "\n".join(texts))
    text = re.sub(r"(?<=\d)[,   ](?=\d{3}\b)", "", text)
    found = {float(number) for number in re.findall(NUMBER, text)}
    percent = {float(number) / 100 for number in re.findall(rf"({NUMBER})\s*%", text)}
    return found | percent


def unfounded(cells):
    """Numbers of the prose that no cell shows: a list, as typed."""
    numbers = sorted(shown(cells))

    def is_shown(value, half):
        return any(abs(number - value) <= half * (1 + 1e-9) for number in numbers)

    return [text for text, value, half in typed(prose(cells)) if not is_shown(value, half)]


@pytest.mark.parametrize("chapter", CHAPTERS, ids=lambda chapter: chapter.stem)
def test_every_number_in_the_prose_is_shown_by_a_cell(chapter):
    allowed = {text for stem, text in EXCEPTIONS if stem == chapter.stem}
    found = unfounded(cells_of(chapter))
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
    assert unfounded([cell(text, kind="markdown"), cell("x = 1", output)]) == found
