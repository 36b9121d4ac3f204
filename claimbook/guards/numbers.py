"""Guard: a number typed in prose is one that a cell of its chapter shows or computes with.

Looked at are decimals and percentages in the Markdown of a chapter and in the captions of its
figures, outside the statements of the papers. Each must be the rounding of a number that stands in
the recorded outputs or in the code. So a number that an edit, or a rerun with a change in the
package under test, has made stale is found, unless another number of the chapter happens to round
to it.
"""

import json
import re

from ..ledger import DIRECTIVE, ID, paper_of

NUMBER = r"\d+(?:\.\d+)?(?:[eE][+-]?\d+)?"
TYPED = re.compile(
    r"(?<![\w.\\/^{-])(\d+\.\d+)(?![\d.]*\w)(?:\s*(?:\\cdot|\\times|·|×)\s*10\^\{?(-?\d+)\}?)?"
    r"(\s*\\?%)?|(?<![\w.\\/])(\d+)\s*\\?%")
# what is no number of this book: code, links, citations, addresses, places in papers
SILENT = [
    r"```.*?```",
    r"`[^`]*`",
    r"\{(?:cite|prf|claim|ref|eq|numref|doc)[^}]*\}`[^`]*`",
    r"\]\([^)]*\)",
    r"https?://\S+",
    r"<!--.*?-->",
    r"arXiv[: ]\d+\.\d+",
    r"(?:eq\.|Eq\.|Sec\.|Section|Th\.|Theorems?|Lemmas?|Cor\.|Corollary|Assumptions?|Definition|"
    r"Def\.|Table|Fig\.|Figure|Example|Appendix|Prop\.|items?|Steps?|version|Python|NumPy|SciPy)"
    r"[\s~]*"
    r"[A-Z]?\.?\d+(?:\.\d+)*",
]


def prose(cells, own=()) -> str:
    """The sentences of a chapter and the captions of its figures, without what others state.

    `own` are the prefixes of what the book itself states.
    """
    texts = [cell["source"] for cell in cells if cell["cell_type"] == "markdown"]
    for cell in cells:
        figure = cell["metadata"].get("mystnb", {}).get("figure", {})
        texts.append(figure.get("caption", ""))
    text = "\n\n".join(texts)

    def stated_by_others(match):
        label = match["label"]
        return "" if ID.fullmatch(label) and paper_of(label) not in own else match[0]

    text = DIRECTIVE.sub(stated_by_others, text)
    for pattern in SILENT:
        text = re.sub(pattern, " ", text, flags=re.S)
    return text


def typed(text: str):
    """The numbers in a text: (as typed, value, half a unit of the last digit) of each."""
    for match in TYPED.finditer(text):
        digits, exponent, percent, whole = match.groups()
        power = int(exponent or 0) - (2 if percent or whole else 0)
        number = digits or whole
        places = len(number.partition(".")[2])
        yield match[0].strip(), float(number) * 10.0**power, 0.5 * 10.0**(power - places)


def shown(cells) -> set[float]:
    """All numbers that stand in the code and in the recorded outputs of a chapter: a set."""
    texts = []
    for cell in cells:
        if cell["cell_type"] != "code":
            continue
        texts.append(cell["source"])
        for output in cell["outputs"]:
            data = {
                kind: text
                for kind, text in output.get("data", {}).items()
                if not kind.startswith("image/") and kind != "text/html"
            }
            texts.append(json.dumps([data, output.get("text", "")], ensure_ascii=False))
    text = re.sub(r"(?<=\d)_(?=\d)", "", "\n".join(texts))
    text = re.sub(r"(?<=\d)[,   ](?=\d{3}\b)", "", text)
    found = {float(number) for number in re.findall(NUMBER, text)}
    percent = {float(number) / 100 for number in re.findall(rf"({NUMBER})\s*%", text)}
    return found | percent


def unfounded(cells, own=()) -> list[str]:
    """Numbers of the prose that no cell shows, as typed; `own` is as in `prose`."""
    numbers = sorted(shown(cells))

    def is_shown(value, half):
        return any(abs(number - value) <= half * (1 + 1e-9) for number in numbers)

    return [text for text, value, half in typed(prose(cells, own)) if not is_shown(value, half)]
