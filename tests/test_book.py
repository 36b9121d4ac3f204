"""Guards: what every chapter must keep to, and what the ledger says of them all."""

import base64
import json
import re
import struct

import pytest
from conftest import CHAPTERS, ROOT, cells_of
from pybtex.database import parse_file

from claimbook.guards.recorded import unclean
from claimbook.ledger import (ID, is_own, ledger, paper_of, read_claims, recorded, rests_on,
                              statements)

BOOK = ROOT / "book"
MOST_LINES = 40  # of a cell of code that is open on the page
MOST_FOLDED, MOST_ANSWER = 100, 20  # of a folded one, and of an exercise's answer
MOST_WORDS = 4500  # of a chapter, without formulas, targets of links and what is folded
TAGS = {"parameters", "hide-input", "hide-cell", "nbval-ignore-output"}
PAPERS, CLAIMS = read_claims(BOOK)
each_chapter = pytest.mark.parametrize("chapter", CHAPTERS, ids=lambda chapter: chapter.stem)


def code_cells(chapter):
    return [cell for cell in cells_of(chapter) if cell["cell_type"] == "code"]


@each_chapter
def test_is_recorded_in_one_clean_run(chapter):
    assert unclean(cells_of(chapter)) == []


@each_chapter
def test_has_only_known_tags(chapter):
    assert {tag for cell in cells_of(chapter) for tag in cell["metadata"].get("tags", ())} <= TAGS
    source = "".join(cell["source"] for cell in code_cells(chapter))
    assert "# NBVAL" not in source, "markers are given as tags"


@each_chapter
def test_validates_its_parameters_first(chapter):
    first, second, *others = code_cells(chapter)
    assert "parameters" in first["metadata"]["tags"] and "require(" in second["source"]
    assert not [cell for cell in others if "parameters" in cell["metadata"].get("tags", ())]
    lines = [line for line in first["source"].splitlines() if line.strip()]
    assert all(re.fullmatch(r"\w+: \w+ = [^=#]+  # [^=]+", line) for line in lines), lines
    names = {line.split(":")[0] for line in lines}
    # A parameter that is no number has its own test.
    refused = re.findall(r'ValueError\(f"(\w+) is ', second["source"])
    validated = {*re.findall(r"\b(\w+)=\(", second["source"]), *refused}
    assert names <= validated, "a parameter is not validated"


@each_chapter
def test_every_figure_has_caption_alt_text_and_a_printed_digest(chapter):
    for cell in code_cells(chapter):
        if any("image/png" in output.get("data", {}) for output in cell["outputs"]):
            shown = cell["metadata"]["mystnb"]
            assert shown["figure"]["caption"] and shown["image"]["alt"]
            assert shown["figure"]["name"].startswith("fig-")
            text = [output for output in cell["outputs"]
                    if output.get("name") == "stdout" or "text/html" in output.get("data", {})]
            assert text, "nbval does not compare images"


@each_chapter
def test_folds_the_code_of_its_checks_and_keeps_the_open_cells_short(chapter):
    for cell in code_cells(chapter):
        folded = "hide-input" in cell["metadata"].get("tags", ())
        assert folded or "claim(" not in cell["source"], cell["source"][:200]
        answer = "hide-cell" in cell["metadata"].get("tags", ())
        most = MOST_ANSWER if answer else MOST_FOLDED if folded else MOST_LINES
        assert cell["source"].count("\n") < most, cell["source"][:200]


FORMULAS_AND_FOLDED = re.compile(
    r"^(?P<fence>:{3,})\{dropdown\}.*?^(?P=fence)$|```.*?```|<!--.*?-->|\$\$.*?\$\$"
    r"|(?<!\\)\$[^$]*?(?<!\\)\$", re.S | re.M)
DIRECTIVES_AND_TARGETS = re.compile(r"^(?::{3,}|:\w).*$|\{[\w:]+\}`[^`]*`|(?<=\])\([^)]*\)", re.M)


def words_of(text):
    """The words of a cell that a reader sees with everything folded."""
    text = DIRECTIVES_AND_TARGETS.sub(" ", FORMULAS_AND_FOLDED.sub(" ", text))
    return re.findall(r"[^\W_][\w'’.,-]*", text)


@each_chapter
def test_is_not_too_long(chapter):
    prose = [cell["source"] for cell in cells_of(chapter) if cell["cell_type"] == "markdown"]
    chapter, *exercises = "\n\n".join(prose).split("\n## Exercises\n")
    assert len(words_of(chapter)) <= MOST_WORDS and len(exercises) <= 1


@each_chapter
def test_every_candidate_says_in_words_what_it_states(chapter):
    for record in recorded(chapter):
        for check in record["checks"]:
            assert all(check["says"].values()), (record["id"], check["summary"])


@each_chapter
def test_no_figure_is_too_wide_for_a_phone(chapter):
    for cell in code_cells(chapter):
        for output in cell["outputs"]:
            if png := output.get("data", {}).get("image/png"):
                (width,) = struct.unpack(">I", base64.b64decode(png)[16:20])
                assert width <= 6.2 * 130, cell["metadata"]["mystnb"]["figure"]["name"]


@each_chapter
def test_opens_with_a_title_and_ends_with_what_was_shown(chapter):
    prose = [cell["source"] for cell in cells_of(chapter) if cell["cell_type"] == "markdown"]
    headings = re.findall(r"^(##? .*)", "\n\n".join(prose), re.M)
    assert prose[0].startswith("# ") and sum(each.startswith("# ") for each in headings) == 1
    assert headings[-1] == "## What was shown" or (
        headings[-2:] == ["## What was shown", "## Exercises"])


@each_chapter
def test_states_each_claim_that_it_tests_and_tests_each_that_it_states(chapter):
    stated = {label for label in statements(chapter) if ID.fullmatch(label)}
    untested = {id for id, entry in CLAIMS.items() if entry.get("chapter") == chapter.stem}
    assert stated == {record["id"] for record in recorded(chapter)} | untested


@each_chapter
def test_verdicts_stated_are_those_computed(chapter):
    source = "\n".join(cell["source"] for cell in code_cells(chapter))
    in_source = re.findall(r'claim\("([A-Z]+-\d+)", "(\w+)", seed\)', source)
    assert in_source == [(record["id"], record["verdict"]) for record in recorded(chapter)]


def test_every_claim_listed_is_known_and_is_in_the_ledger():
    assert [row["id"] for row in ledger(BOOK)] == list(CLAIMS) == sorted(CLAIMS)
    assert {paper_of(id) for id in CLAIMS} == set(PAPERS)
    allowed = {"title", "short", "own", "texts", "damaged"}
    assert all(set(paper) <= allowed for paper in PAPERS.values())


def test_entries_have_what_they_need_and_nothing_misspelt():
    for id, entry in CLAIMS.items():
        needed = {"where", "domain"} | (set() if is_own(PAPERS[paper_of(id)]) else {"reading"})
        allowed = needed | {"uses", "criterion", "harm", "cut"}
        allowed |= {"untested", "command", "chapter"}
        assert needed <= set(entry) <= allowed, id
        assert ("untested" in entry) == ("command" in entry) == ("chapter" in entry), id


def test_a_corrected_claim_states_its_correction():
    for row in ledger(BOOK):
        assert bool(row["correction"]) == (row["verdict"] == "corrected"), row["id"]


@pytest.mark.slow
def test_a_claim_that_fails_states_what_was_measured():
    for row in ledger(BOOK):
        assert bool(row["measured"]) == (row["verdict"] == "fails"), row["id"]


def test_every_claim_has_evidence_with_a_rival():
    for row in ledger(BOOK):
        assert row["verdict"] == "untested" or (row["evidence"] and row["rivals"]), row["id"]


@pytest.mark.slow
def test_uses_do_not_go_round():
    assert set(rests_on(ledger(BOOK))) == set(CLAIMS)


def test_labels_are_unique():
    labels = [label for chapter in CHAPTERS for label in statements(chapter)]
    assert len(labels) == len(set(labels))


@pytest.mark.slow  # for it asks for the site of today, which make test builds first
def test_the_site_shows_the_ledger_of_the_recorded_outputs():
    written = ROOT / "_build/html/ledger.json"
    if not written.exists():
        pytest.skip("no site has been built: make book")
    assert json.loads(written.read_text(encoding="utf-8")) == ledger(BOOK)


def test_the_bibliography_can_be_read_and_its_keys_are_unique():
    references = BOOK / "references.bib"
    keys = re.findall(r"^@\w+\{([^,]+),", references.read_text(encoding="utf-8"), re.M)
    assert list(parse_file(references).entries) == keys  # which raises where a key comes twice


def test_the_table_of_contents_lists_every_chapter():
    contents = (ROOT / "_toc.yml").read_text(encoding="utf-8")
    assert all(f"book/{chapter.name}" in contents for chapter in CHAPTERS)
