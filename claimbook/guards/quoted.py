"""Guard: what a box prints as a paper's words are the paper's words, and every cut is on record.

A box quotes. What is not the paper's stands in square brackets, "[…]" for a cut and "[It]" for
words of the book, and `cut` in `claims.toml` has for each bracket, in their order, the words that
stood there: none, `""`, where the book adds something, and `"…"` where the next passage stands in
another place. Formulas are not compared: words of one or two letters, names of functions and what
touches a symbol count as such, here and in the paper's text. Where the copy of a paper is damaged,
its table `damaged` in `claims.toml` has what it should read.
"""

import pathlib
import re

from ..ledger import APART, is_own, paper_of, read_claims, statements

FORMULA = re.compile(r"\$\$.*?\$\$|\$[^$]*\$|\\\w+(?:\{[^{}]*\})*", re.S)
ROLE = re.compile(r"\{[\w:]+\}`[^`]*`")
BRACKET = re.compile(r"\[[^\[\]]*\]")
NAMES = frozenset("""arccos arg argmin cos cosh cot det diag dist dom exp expm inf inj limsup log
logm max min mod sgn sin sinh spd sup tan tanh var vec vecd vech vol""".split())
WORD = re.compile(r"[^\W\d_]+(?:['’-][^\W\d_]+)*")
TOUCHING = ".,;:?!()\"'“”‘’`*–—-"
ELSEWHERE = "…"


def words(text: str) -> list[str]:
    """The words of a text that are no formula, in lower case and without the marks around them."""
    plain = ROLE.sub(" ", FORMULA.sub(" ", text)).replace("ﬁ", "fi").replace("ﬂ", "fl")
    found = (token.strip(TOUCHING) for token in re.split(r"[\s/]+|--|—|–", plain))
    return [
        part.lower() for token in found if WORD.fullmatch(token)
        for part in re.split("['’-]", token) if len(part) > 2 and part.lower() not in NAMES
    ]


def passages(statement: str, cuts: list[str]) -> list[list[str]]:
    """The words of each passage that a statement quotes, those that were cut in their place."""
    brackets = BRACKET.findall(FORMULA.sub(" ", statement))
    if len(brackets) != len(cuts):
        raise ValueError(f"cut has {len(cuts)} entries; accepted are {len(brackets)}, one for each "
                         f"bracket: {' '.join(brackets) or 'there is none'}")
    parts, found = BRACKET.split(FORMULA.sub(" ", statement)), [[]]
    for part, cut in zip(parts, [*cuts, ""], strict=True):
        found[-1] += words(part)
        if cut == ELSEWHERE:
            found.append([])
        else:
            found[-1] += words(cut)
    return [passage for passage in found if passage]


def unlike(passage: list[str], text: list[str]) -> str:
    """Where a passage departs from the text, in words; nothing if it stands there as a whole."""
    most, where = 0, 0
    for start in (i for i, word in enumerate(text) if word == passage[0]):
        there = text[start:start + len(passage)]
        same = next((k for k, word in enumerate(there) if word != passage[k]), len(there))
        if same > most:
            most, where = same, start
    if most == len(passage):
        return ""
    return (f"… {' '.join(passage[max(most - 6, 0):most])} | {' '.join(passage[most:most + 6])}; "
            f"the paper goes on: {' '.join(text[where + most:where + most + 6])}")


def departures(book, folder) -> dict[str, list[str]]:
    """For each claim of a paper where its box is not what the paper says: a dict of lists.

    `folder` has the files that `texts` of each paper in `claims.toml` names. A claim that its paper
    has in no words quotes nothing.
    """
    papers, claims = read_claims(book)
    said = {}
    for chapter in sorted(pathlib.Path(book).glob("[0-9]*.ipynb")):
        said |= statements(chapter)
    texts = {}
    for prefix, paper in papers.items():
        text = "\n".join(
            pathlib.Path(folder, name).read_text(encoding="utf-8")
            for name in paper.get("texts", ()))
        for damaged, right in paper.get("damaged", {}).items():
            if damaged not in text:
                raise ValueError(f"{prefix}: {damaged!r} is listed as damaged, but stands nowhere")
            text = text.replace(damaged, right)
        texts[prefix] = words(text)
    found = {}
    for id, entry in claims.items():
        if is_own(papers[paper_of(id)]) or entry["reading"] in APART[1:] or id not in said:
            continue
        try:
            quoted = passages(said[id], entry.get("cut", []))
        except ValueError as error:
            found[id] = [str(error)]
            continue
        found[id] = [where for passage in quoted if (where := unlike(passage, texts[paper_of(id)]))]
    return {id: where for id, where in found.items() if where}
