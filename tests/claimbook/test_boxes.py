"""The box of a claim: one for each, whole, in its chapter; what it shows, and what it refuses."""

import json
import os
import re
import subprocess
import sys

import pytest
from conftest import CHAPTERS, ROOT, cells_of

from claimbook.ledger import ID, MIME, UNTESTED, directives, ledger, read_claims, recorded
from claimbook.sphinx.boxes import head

INSTEAD = {"corrected": "corrected", "fails": "measured"}  # what a box has besides, by verdict


of_the_house = pytest.mark.xdist_group("boxes")  # one worker, so that it is built once


def faults_of(book):
    """What is wrong with the boxes of a book: a list of sentences."""
    claims, chapters = read_claims(book)[1], sorted(book.glob("[0-9]*.ipynb"))
    labels = labels_in(book)
    for id in sorted({*claims, *(label for label in labels if ID.fullmatch(label))}):
        if labels.count(id) != (id in claims):
            yield f"{id} has {labels.count(id)} boxes"
    for chapter in chapters:
        tested = {record["id"] for record in recorded(chapter)}
        tested |= {id for id, entry in claims.items() if entry.get("chapter") == chapter.stem}
        for label, _, _ in directives(chapter):
            if ID.fullmatch(label) and label not in tested:
                yield f"{label} has a box in {chapter.stem}, which does not test it"


def halves_of(rows, labels):
    """What is missing in the boxes, or too much: a list of sentences."""
    for row in rows:
        found = [label[6:] for label in labels if label.startswith(f"{row['id']}-")]
        expected = [INSTEAD[row["verdict"]]] if row["verdict"] in INSTEAD else []
        if found != expected:
            yield f"{row['id']} {row['verdict']} and has {found}"


def labels_in(book):
    chapters = sorted(book.glob("[0-9]*.ipynb"))
    return [label for chapter in chapters for label, _, _ in directives(chapter)]


@pytest.mark.slow
def test_every_claim_has_one_box_in_the_chapter_that_tests_it():
    assert [*faults_of(ROOT / "book")] == []


def test_what_does_not_stand_has_in_its_box_what_takes_its_place_and_nothing_else_has():
    assert [*halves_of(ledger(ROOT / "book"), labels_in(ROOT / "book"))] == []


@pytest.mark.parametrize("chapter", CHAPTERS, ids=lambda chapter: chapter.stem)
def test_no_claim_is_stated_or_linked_as_if_it_were_no_claim(chapter):
    prose = "\n".join(cell["source"] for cell in cells_of(chapter)
                      if cell["cell_type"] == "markdown")
    assert not re.findall(rf"(?:^:label: |{{prf:ref}}`){ID.pattern}[^`\n]*", prose, re.M)


def box(id, text="S", kind="theorem", **instead):
    inner = "".join(f"\n:::{{{role}}} A finding\n{text}\n:::\n" for role, text in instead.items())
    return f"::::{{claim}} {id} Title of {id}\n:kind: {kind}\n\n{text}\n{inner}::::\n\n"


def write(book, stem, prose, **verdicts):
    """A chapter with its prose, and a record of each claim that it tests."""
    outputs = [{"output_type": "display_data", "metadata": {}, "data": {
        MIME: {"id": id.replace("_", "-"), "verdict": verdict, "checks": []}}}
        for id, verdict in verdicts.items()]
    cells = [
        {"cell_type": "markdown", "id": "a", "metadata": {}, "source": f"# Chapter {stem}"},
        {"cell_type": "markdown", "id": "b", "metadata": {}, "source": prose},
        {"cell_type": "code", "id": "c", "metadata": {}, "source": "1", "execution_count": 1,
         "outputs": outputs}]
    kernel = {"kernelspec": {"name": "python3", "display_name": "Python 3", "language": "python"}}
    notebook = {"cells": cells, "metadata": kernel, "nbformat": 4, "nbformat_minor": 5}
    (book / f"{stem}.ipynb").write_text(json.dumps(notebook), encoding="utf-8")


def write_claims(book, **entries):
    """Writes claims.toml; an entry's name is an id with an underscore, its value more fields."""
    papers = ('[papers.TG]\ntitle = "Tangent"\nshort = "Utpala 2023"\n'
              '[papers.RL]\ntitle = "Laplace"\n'
              '[papers.SP]\ntitle = "own"\nown = true\n')
    for id, fields in entries.items():
        reading = {} if id.startswith("SP") else {"reading": "clear"}
        fields = {"where": "Sec. 1"} | reading | fields
        lines = "".join(f"{key} = {json.dumps(value)}\n" for key, value in fields.items())
        papers += f"[{id.replace('_', '-')}]\n{lines}"
    (book / "claims.toml").write_text(papers, encoding="utf-8")


@pytest.mark.parametrize("prose, other, found", [
    (box("TG-01"), "none", []),
    ("none", "none", ["TG-01 has 0 boxes"]),
    (box("TG-01") * 2, "none", ["TG-01 has 2 boxes"]),
    (box("TG-01") + box("TG-02"), "none",
     ["TG-02 has 1 boxes", "TG-02 has a box in 01_a, which does not test it"]),
    ("none", box("TG-01"), ["TG-01 has a box in 02_b, which does not test it"]),
])
def test_the_guard_of_boxes_sees_what_is_wrong(tmp_path, prose, other, found):
    write_claims(tmp_path, TG_01={})
    write(tmp_path, "01_a", prose, TG_01="holds")
    write(tmp_path, "02_b", other)
    assert [*faults_of(tmp_path)] == found


@pytest.mark.parametrize("verdict, instead, complete", [
    ("holds", [], True), ("holds", ["corrected"], False), (UNTESTED, [], True),
    ("corrected", ["corrected"], True), ("corrected", [], False),
    ("corrected", ["measured"], False),
    ("fails", ["measured"], True), ("fails", ["corrected"], False),
    ("fails", ["corrected", "measured"], False),
])
def test_the_guard_of_halves_sees_what_is_missing_or_too_much(verdict, instead, complete):
    labels = ["TG-01", *(f"TG-01-{role}" for role in instead), "TG-02-corrected"]
    assert ([*halves_of([{"id": "TG-01", "verdict": verdict}], labels)] == []) == complete


@pytest.mark.parametrize("verdict, label", [
    ("holds", "As printed, in two readings"),
    (UNTESTED, "As printed, in two readings – not tested"),
    ("corrected", "As printed, in two readings – does not hold in one of them")])
def test_of_two_readings_one_may_hold(verdict, label):
    row = {"where": "Sec. 1", "reading": "two readings", "verdict": verdict, "harm": ""}
    assert head(row, {"title": "A paper"})["label"] == label


def write_house(folder):
    """A book of two chapters, with a claim of each kind in the first."""
    book = folder / "book"
    book.mkdir()
    fields = {
        "TG_01": {"harm": "none"}, "TG_02": {"harm": "privacy"}, "TG_03": {"harm": "none"},
        "TG_04": {"reading": "not in words"}, "TG_05": {"reading": "two readings"},
        "RL_01": {UNTESTED: "no data", "command": "run", "chapter": "01_a"},
        "SP_01": {"uses": ["TG-01", "TG-02"]}, "SP_02": {"uses": ["RL-01"]}}
    write_claims(book, **fields)
    prose = [box("TG-01"), box("TG-02", corrected="It is $2$."), box("TG-03", measured="It is 3."),
             box("TG-04", kind="remark"), box("TG-05"), box("RL-01"), box("SP-01")]
    verdicts = {"TG_01": "holds", "TG_02": "corrected", "TG_03": "fails", "TG_04": "holds",
                "TG_05": "holds", "SP_01": "holds"}
    write(book, "01_a", "".join(prose), **verdicts)
    write(book, "02_b", "{claim}`TG-02`, {claim}`TG-03-measured`, {claim}`this <TG-02-corrected>`, "
          "{prf:ref}`TG-04`\n\n" + box("SP-02"), SP_02="holds")
    (folder / "index.md").write_text(
        "# Book\n\n```{toctree}\n:numbered:\n\nbook/01_a\nbook/02_b\n```\n", encoding="utf-8")
    (folder / "conf.py").write_text(
        'extensions = ["myst_nb", "sphinx_proof", "claimbook.sphinx.boxes"]\n'
        'nb_execution_mode = "off"\nmyst_enable_extensions = ["colon_fence", "dollarmath"]\n'
        'prf_realtyp_to_countertyp = {"remark": "theorem"}\nhtml_theme = "basic"\n'
        'suppress_warnings = ["mystnb.unknown_mime_type"]\n'
        'exclude_patterns = ["out", "jupyter_execute"]\n',
        encoding="utf-8")
    return folder


def build(house):
    """Builds a book: the pages that were read, and the warnings."""
    command = [sys.executable, "-m", "sphinx", "-n", "--no-color", ".", "out"]
    done = subprocess.run(command, cwd=house, capture_output=True, text=True,
                          env=os.environ | {"PYTHONPATH": str(ROOT)})
    read = re.findall(r"reading sources\.\.\. \[ *\d+%\] (\S+)", done.stdout)
    return sorted(read), done.stderr


def page(house, name):
    return (house / f"out/book/{name}.html").read_text(encoding="utf-8")


@pytest.fixture(scope="module")
def built(tmp_path_factory):
    """The book, what its first build said, and its two pages as they were then."""
    house = write_house(tmp_path_factory.mktemp("boxes"))
    return house, build(house), page(house, "01_a"), page(house, "02_b")


def words(html):
    return " ".join(re.sub(r"<[^>]+>", "", html).split())


@of_the_house
@pytest.mark.slow
def test_a_box_says_whose_claim_it_is_and_what_came_of_it(built):
    _, (read, warnings), html, _ = built
    assert read == ["book/01_a", "book/02_b", "index"] and warnings == ""
    boxes = {id: classes for classes, id in re.findall(
        r'<div class="(proof [^"]*)" id="([A-Z]{2}-\d\d)">', html)}
    assert {id: re.search(r"claim-box-(\w+)", classes)[1] for id, classes in boxes.items()} == {
        "TG-01": "holds", "TG-02": "corrected", "TG-03": "fails", "TG-04": "holds",
        "TG-05": "holds", "RL-01": "untested", "SP-01": "holds"}
    heads = [words(head) for head in re.findall(r'<p class="claim-head">(.*?)</p>', html)]
    assert heads == [
        "Utpala 2023, Sec. 1 · TG-01 · holds",
        "Utpala 2023, Sec. 1 · TG-02 · corrected · harm: privacy",
        "Utpala 2023, Sec. 1 · TG-03 · fails · harm: none",
        "Utpala 2023, Sec. 1 · TG-04 · holds",
        "Utpala 2023, Sec. 1 · TG-05 · holds",
        "Laplace, Sec. 1 · RL-01 · untested",
        "A claim of this book · SP-01 · holds"]
    labels = [words(text) for text in re.findall(r'<p class="claim-label">(.*?)</p>', html)]
    assert labels == [
        "As printed", "As printed – does not hold", "Corrected – A finding",
        "As printed – does not hold", "Measured – A finding", "As claimed of the paper",
        "As printed, in two readings", "As printed – not tested"]


@of_the_house
@pytest.mark.slow
def test_boxes_are_numbered_and_linked_and_keep_their_anchors(built):
    _, _, html, other = built
    numbers = [words(text) for text in re.findall(r'<p class="admonition-title">(.*?)</p>', html)]
    assert numbers[0] == "Theorem 1.1 (Title of TG-01)"
    assert numbers[3] == "Remark 1.4 (Title of TG-04)"
    places = [html.index(f'id="{anchor}"') for anchor in ("TG-02", "TG-02-corrected", "TG-03")]
    assert places == sorted(places)
    links = re.findall(r'href="01_a.html#(TG[^"]+)"(?: title="(.*?)")?>(.*?)</a>', other)
    assert [(anchor, title, words(text)) for anchor, title, text in links] == [
        ("TG-02", "Title of TG-02", "TG-02"),
        ("TG-03-measured", "A finding", "TG-03 as measured"),
        ("TG-02-corrected", "A finding", "this"),
        ("TG-04", "", "Remark 1.4")]


@of_the_house
@pytest.mark.slow
def test_a_box_links_what_its_claim_uses_and_what_uses_it_where_there_is_any(built):
    _, _, html, _ = built
    lines = re.findall(r'<p class="claim-links">(.*?)</p>', html)
    assert [*map(words, lines)] == [
        "Used by SP-01", "Used by SP-01", "Used by SP-02", "Uses TG-01, TG-02"]
    assert re.findall(r'href="(.*?)" title="(.*?)"', "".join(lines[2:])) == [
        ("02_b.html#SP-02", "Title of SP-02"), ("#TG-01", "Title of TG-01"),
        ("#TG-02", "Title of TG-02")]


@of_the_house
@pytest.mark.slow
def test_a_page_is_outdated_when_its_claims_change_or_those_that_use_them(built):
    house = built[0]
    assert build(house)[0] == []
    claims = house / "book/claims.toml"
    text = claims.read_text(encoding="utf-8")
    claims.write_text(text.replace("privacy", "slip"), encoding="utf-8")
    assert build(house)[0] == ["book/01_a"]
    assert "harm: slip" in words(page(house, "01_a"))
    claims.write_text(text.replace('uses = ["RL-01"]', ""), encoding="utf-8")
    assert build(house)[0] == ["book/01_a", "book/02_b"]
    assert "Used by SP-02" not in words(page(house, "01_a"))


@pytest.mark.slow
def test_what_is_no_box_is_refused_with_what_would_be(tmp_path):
    house = write_house(tmp_path)
    write(house / "book", "02_b", "\n\n".join([
        box("TG-09"), box("TG-01", kind="thm"), "::::{claim} TG-02 T\nno kind\n::::",
        ":::{corrected} Stray\ntext\n:::", "{claim}`TG-77`", "::::{claim} TG-03\n::::",
        "::::{claim} TG-04 T\n:kind: lemma\n\nS\n\n:::{measured} F\n1\n:::\n\nbehind\n::::",
        box("SP-02")]), SP_02="holds")
    warnings = build(house)[1]
    for message in (
        "claim is TG-09; accepted are those listed in claims.toml",
        "kind is thm; accepted are axiom, theorem,",
        "kind of TG-02 is missing; accepted are axiom, theorem,",
        "corrected is outside of a box; accepted is the box of a claim",
        "'claim' reference target not found: TG-77",
        "2 argument(s) required, 1 supplied",
        "text of TG-04 is behind what takes its place; accepted is none",
    ):
        assert message in warnings, warnings
