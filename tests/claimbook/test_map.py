"""The map shows every claim and all that it rests on, and is the same each time."""

import itertools
import re
import xml.etree.ElementTree as ET

import pytest
from conftest import ROOT

from claimbook.ledger import ledger
from claimbook.sphinx import claim_map

SVG = "{http://www.w3.org/2000/svg}"


@pytest.fixture(scope="module")
def rows():
    return ledger(ROOT / "book")


@pytest.fixture(scope="module")
def chapters(rows):
    return {row["chapter"]: (f"<{row['chapter']}>", f"{row['chapter']}.html") for row in rows}


@pytest.fixture(scope="module")
def drawn(rows, chapters):
    return ET.fromstring(claim_map.svg(rows, chapters))


def claims(drawn):
    return [link for link in drawn.iter(f"{SVG}a") if "id" in link.attrib]


def test_every_claim_is_a_node_that_leads_to_its_place_and_says_what_it_is(drawn, rows):
    shown = {link.get("id"): link for link in claims(drawn)}
    assert list(shown) == [f"map-{row['id']}" for row in rows]
    for row in rows:
        link = shown[f"map-{row['id']}"]
        assert link.get("href") == f"{row['chapter']}.html#{row['id']}"
        assert [text.text for text in link.iter(f"{SVG}text")] == [row["id"], row["title"]]
        assert f": {row['verdict']}" in link.find(f"{SVG}title").text


def test_every_use_is_an_edge_and_one_of_what_does_not_stand_is_told_apart(drawn, rows):
    verdict_of = {row["id"]: row["verdict"] for row in rows}
    edges = {(path.get("data-user"), path.get("data-used")): path.get("class")
             for path in drawn.iter(f"{SVG}path") if path.get("data-user")}
    assert sorted(edges) == sorted({(row["id"], used) for row in rows for used in row["uses"]})
    for (_, used), words in edges.items():
        assert ("unsound" in words) == (verdict_of[used] != "holds")


def test_the_verdict_is_told_by_the_outline_as_well_as_by_the_colour(drawn, rows):
    word = {f"map-{row['id']}": row["verdict"] for row in rows}
    outlines = {}
    for link in claims(drawn):
        path = re.sub(r"[\d.-]+", "", link.find(f"{SVG}path").get("d"))
        assert link.get("class") == f"claim {word[link.get('id')]}"
        outlines.setdefault(word[link.get("id")], set()).add(path)
    assert all(len(shapes) == 1 for shapes in outlines.values())
    assert len({*map(frozenset, outlines.values())}) >= len(outlines) - 1
    assert ".untested path { stroke: var(--untested); stroke-dasharray" in claim_map.STYLE
    assert ".fails path { stroke: var(--fails); fill: var(--fails)" in claim_map.STYLE


def test_no_claims_lie_on_each_other_and_each_stands_below_what_it_uses_in_its_chapter(rows):
    at, tops, height = claim_map.places(rows)
    ordered = sorted([*at.values(), *(top + claim_map.ROW / 2 for top in tops.values())])
    assert min(b - a for a, b in itertools.pairwise(ordered)) >= claim_map.ROW
    chapter = {row["id"]: row["chapter"] for row in rows}
    assert all(at[row["id"]] > at[used] for row in rows for used in row["uses"]
               if chapter[used] == row["chapter"])
    assert max(ordered) < height


def test_arcs_stay_in_their_part_of_the_map(drawn):
    for path in drawn.iter(f"{SVG}path"):
        if path.get("data-user"):
            start, reach = map(float, re.findall(r"[MC]([-\d.]+)", path.get("d")))
            assert 0 <= start - 0.75 * (start - reach) < start < claim_map.ARCS


def test_the_list_says_the_same(rows, chapters):
    text = "".join(claim_map.listed(rows, chapters))
    for row in rows:
        assert f'{row["chapter"]}.html#{row["id"]}">{row["id"]}</a>' in text
        for used in row["uses"]:
            line = next(part for part in text.split("<li>") if f">{row['id']}</a>" in part)
            assert f"{used} (" in line


def test_the_map_needs_no_other_file_and_no_script(rows, chapters):
    text = claim_map.svg(rows, chapters)
    assert "<script" not in text and "url(" not in text and "@import" not in text
    assert re.findall(r"https?://[^\"]*", text) == ["http://www.w3.org/2000/svg"]


def test_the_map_is_the_same_each_time_to_the_byte(rows, chapters):
    assert claim_map.svg(rows, chapters) == claim_map.svg([*rows], dict(chapters))
