"""The ledger: the record of a claim as a chapter displays it, its readers, and what adds them up.

A chapter's recorded outputs hold one `Record` for each `with claim(…)`, as JSON under the type
`MIME`. The ledger is made from these, from the boxes of the chapters and from `claims.toml`, and
from nothing else.
"""

import json
import pathlib
import re
import tomllib
from typing import TypedDict

ID = re.compile(r"[A-Z]{2,}-\d{2,}")
CLAIM = re.compile(rf"""\bclaim\(\s*["'](?P<id>{ID.pattern})["']\s*,\s*["'](?P<stated>\w+)["']""")
MIME = "application/vnd.claimbook.claim+json"
# The verdict that comes out where the candidate of a role survives, from best to worst.
VERDICT = {"printed": "holds", "stated": "holds", "corrected": "corrected", "measured": "fails"}
VERDICTS = [*dict.fromkeys(VERDICT.values())]
UNTESTED = "untested"
# How sure the text is that a claim is read from. Claims of the last two readings are counted apart
# from what the papers print: a text that can be read in two ways, and one that says it in no words.
APART = "two readings", "not in words"
READINGS = "clear", "preprint only", "damaged copy", "one figure described", *APART
HARMS = "none", "slip", "use", "privacy"  # what hangs on a claim, whatever its verdict
DIRECTIVE = re.compile(  # the box of a claim, up to what takes the place of what is printed
    r"^(?P<fence>:{3,}|`{3,})\{claim\} +(?P<label>\S+) +(?P<title>[^\n]+)\n(?::\w+:[^\n]*\n)*"
    r"(?P<body>.*?)(?=^(?P<rest>(?:(?::{3,}|`{3,})\{(?:corrected|measured)\}.*?)?)"
    r"^(?P=fence)\s*$)",
    re.M | re.S,
)
INSTEAD = re.compile(
    r"^(?P<fence>:{3,}|`{3,})\{(?P<role>corrected|measured)\} *(?P<title>[^\n]*)\n"
    r"(?P<body>.*?)^(?P=fence)\s*$",
    re.M | re.S,
)


class ClaimError(Exception):
    """A claim did not come out as the book states it."""


class Check(TypedDict):
    """One check of a claim.

    `says` has the words of each possible truth, `rejected` of each candidate that lost how clearly
    it did. A rival's name is what it says. `unnoticed` is what the check could not have seen.
    """

    evidence: str
    summary: str
    unnoticed: str
    survivor: str
    how: str
    says: dict[str, str]
    rejected: dict[str, str]


class Record(TypedDict):
    """One `with claim(…)` of a chapter: the verdict stated and the one computed."""

    id: str
    stated: str
    verdict: str
    checks: list[Check]


class Row(TypedDict):
    """One claim of the ledger, and one object of ledger.json, in the order of its keys."""

    id: str
    paper: str
    where: str
    title: str  # of the box: what the claim is about, in a phrase
    statement: str  # as printed
    verdict: str
    harm: str  # one of HARMS, or nothing where nobody has judged it
    correction: str  # of the directive `corrected` in the box
    measured: str  # of the directive `measured` in the box
    finding: str  # the title of one of these: what is wrong, in a sentence
    domain: str
    criterion: str
    reading: str  # one of READINGS, or nothing for a claim of the book's own
    evidence: list[dict[str, str]]  # `kind` and `summary` of each check
    rivals: list[str]
    uses: list[str]
    chapter: str
    anchor: str


def worst(roles) -> str:
    """The verdict that follows from the roles of all survivors."""
    return max((VERDICT[role] for role in roles), key=VERDICTS.index)


def paper_of(id: str) -> str:
    """The prefix of a claim's id, which names its paper."""
    return id.partition("-")[0]


def is_own(paper: dict) -> bool:
    """Whether a paper of `claims.toml` is none: its claims are the book's own."""
    return paper.get("own", False)


def read_claims(book) -> tuple[dict[str, dict], dict[str, dict]]:
    """Papers and claims of `claims.toml`: a pair of dicts. `book` is the folder of the chapters."""
    table = tomllib.loads((pathlib.Path(book) / "claims.toml").read_text(encoding="utf-8"))
    table.pop("book", None)  # settings, which are no claim
    papers = table.pop("papers", {})
    for id, entry in table.items():
        if not ID.fullmatch(id) or paper_of(id) not in papers:
            raise ClaimError(f"{id} is listed in claims.toml; accepted are ids such as XX-01, with "
                             f"the prefix of a paper: {', '.join(papers) or 'there is none'}")
        _sound(id, entry, is_own(papers[paper_of(id)]))
    return papers, table


def _sound(id, entry, own):
    """Raise ClaimError unless the words of an entry are those that are accepted."""
    if own and "reading" in entry:
        raise ClaimError(f"{id}: reading is {entry['reading']!r}; accepted is none, since a claim "
                         "of the book's own is read from no paper")
    if not own and entry.get("reading") not in READINGS:
        raise ClaimError(f"{id}: reading is {entry.get('reading')!r}; accepted are {READINGS}")
    if entry.get("harm", "none") not in HARMS:
        raise ClaimError(f"{id}: harm is {entry['harm']!r}; accepted are {HARMS}")


def records_in(outputs) -> list[Record]:
    """Records among the outputs of one cell: a list of `Record`."""
    bundles = (output.get("data", {}) for output in outputs)
    return [data[MIME] for data in bundles if MIME in data]


def recorded(chapter) -> list[Record]:
    """Records of the claims in a chapter's outputs, in their order: a list of `Record`."""
    cells = json.loads(pathlib.Path(chapter).read_text(encoding="utf-8"))["cells"]
    return [record for cell in cells for record in records_in(cell.get("outputs", ()))]


def directives(chapter) -> list[tuple[str, str, str]]:
    """What the boxes of a chapter state, in their order: a list of (label, title, text).

    The label is the claim's id for what is printed, and `ID-corrected` or `ID-measured` for what
    takes its place.
    """
    cells = json.loads(pathlib.Path(chapter).read_text(encoding="utf-8"))["cells"]
    texts = ("".join(cell["source"]) for cell in cells if cell["cell_type"] == "markdown")
    found = []
    for box in DIRECTIVE.finditer("\n\n".join(texts)):
        found.append((box["label"], box["title"].strip(), box["body"].strip()))
        found += [(f"{box['label']}-{inner['role']}", inner["title"].strip(), inner["body"].strip())
                  for inner in INSTEAD.finditer(box["rest"])]
    return found


def statements(chapter) -> dict[str, str]:
    """What the boxes of a chapter state: a dict from label to text."""
    return {label: text for label, _, text in directives(chapter)}


def ledger(book) -> list[Row]:
    """The ledger, made from the recorded outputs: a list of `Row`, one a claim of `claims.toml`."""
    papers, claims = read_claims(book)
    texts, found = {}, {}
    for chapter in sorted(pathlib.Path(book).glob("[0-9]*.ipynb")):
        texts[chapter.stem] = {label: parts for label, *parts in directives(chapter)}
        for record in recorded(chapter):
            found.setdefault(record["id"], {}).setdefault(chapter.stem, []).append(record)
    if unknown := set(found) - set(claims):
        raise ClaimError(f"{sorted(unknown)}: tested in a chapter, but not listed in claims.toml")
    return [_row(id, entry, papers, found.get(id, {}), texts) for id, entry in claims.items()]


def _row(id, entry, papers, found, texts):
    """Row of one claim; `found` are its records and `texts` what boxes state, by chapter."""
    if len(found) > 1:
        raise ClaimError(f"{id}: tested in more than one chapter: {sorted(found)}")
    if found and UNTESTED in entry:
        raise ClaimError(f"{id}: tested, but listed as untested")
    if not found and UNTESTED not in entry:
        raise ClaimError(f"{id}: neither tested in a chapter nor listed as untested")
    chapter, records = next(iter(found.items()), (entry.get("chapter"), []))
    here = texts.get(chapter, {})
    if id not in here:
        raise ClaimError(f"{id}: no statement; there is no box of it in {chapter}")
    title, statement = here[id]
    corrected_title, correction = here.get(f"{id}-corrected", ("", ""))
    measured_title, measured = here.get(f"{id}-measured", ("", ""))
    checks = [check for record in records for check in record["checks"]]
    paper = papers[paper_of(id)]
    if checks:
        _put_to_the_test(id, is_own(paper), checks)
    return Row(
        id=id,
        paper=paper["title"],
        where=entry["where"],
        title=title,
        statement=statement,
        verdict=max((r["verdict"] for r in records), key=VERDICTS.index, default=UNTESTED),
        harm=entry.get("harm", ""),
        correction=correction,
        measured=measured,
        finding=measured_title or corrected_title,
        domain=entry.get("domain", ""),
        criterion=entry.get("criterion", ""),
        reading=entry.get("reading", ""),
        evidence=[{
            "kind": check["evidence"],
            "summary": check["summary"]
        } for check in checks],
        rivals=sorted({name
                       for check in checks
                       for name in check["rejected"]} - set(VERDICT)),
        uses=entry.get("uses", []),
        chapter=chapter,
        anchor=id,
    )


def _put_to_the_test(id, own, checks):
    """Raise ClaimError unless the checks have the candidate that the claim is about.

    A paper's claim has what is `printed` in one check at least; one of the book's own, nowhere.
    """
    printed = any("printed" in (check["survivor"], *check["rejected"]) for check in checks)
    if own and printed:
        raise ClaimError(f"{id}: a check has a candidate that is 'printed'; accepted is 'stated', "
                         "since the claim is the book's own")
    if not own and not printed:
        raise ClaimError(f"{id}: no check has a candidate that is 'printed'; accepted is at least "
                         "one, since the claim is a paper's")


def counted_apart(rows) -> dict[str, list[Row]]:
    """The papers' claims by how they are counted: `printed`, and each of APART; the rest is own."""
    found = {"printed": [row for row in rows if row["reading"] and row["reading"] not in APART]}
    return found | {kind: [row for row in rows if row["reading"] == kind] for kind in APART}


def counts(rows) -> dict[str, int]:
    """How many claims came out how, by verdict."""
    verdicts = [row["verdict"] for row in rows]
    return {verdict: verdicts.count(verdict) for verdict in [*VERDICTS, UNTESTED]}


def tally(rows) -> str:
    """How many claims came out how, in words: "55 hold, 12 corrected, 1 fails, 2 untested"."""
    plural = {"holds": "hold", "fails": "fail"}
    return ", ".join(f"{count} {verdict if count == 1 else plural.get(verdict, verdict)}"
                     for verdict, count in counts(rows).items() if count)


def summary(rows) -> str:
    """Of all that the papers print, how much came out how, and what is counted apart."""
    kinds = counted_apart(rows)
    printed = kinds.pop("printed")
    holds, corrected, fails, untested = counts(printed).values()
    sentences = [
        f"Of the {len(printed)} claims that the papers print, {holds} hold as printed, "
        f"{corrected} had to be corrected, {fails} fail, and {untested} could not be "
        "tested."
    ]
    words = {
        "two readings": "Counted apart, since the text can be read in two ways",
        "not in words": "Counted apart, as claimed of the papers and not in their words"
    }
    sentences += [f"{words[kind]}: {tally(apart)}." for kind, apart in kinds.items() if apart]
    return " ".join(sentences)


def rests_on(rows) -> dict[str, list[str]]:
    """For each claim the claims it uses, directly or not, that do not hold: a dict.

    Raises ClaimError where uses go round in a circle.
    """
    by_id = {row["id"]: row for row in rows}
    if unknown := {used for row in rows for used in row["uses"]} - set(by_id):
        raise ClaimError(f"{sorted(unknown)}: used by a claim, but not listed in claims.toml")
    seen = {}

    def below(id, path):
        if id in path:
            circle = " → ".join([*path[path.index(id):], id])
            raise ClaimError(f"{id}: its uses go round in a circle: {circle}")
        if id not in seen:
            seen[id] = set().union(*({used} | below(used, [*path, id])
                                     for used in by_id[id]["uses"]))
        return seen[id]

    return {
        id: sorted(used for used in below(id, []) if by_id[used]["verdict"] != "holds")
        for id in by_id
    }
