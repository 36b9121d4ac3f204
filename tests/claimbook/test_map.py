"""The map: a graph of the chapters that fits a screen, and a list of what each claim rests on."""

import itertools
import re
import types
import xml.etree.ElementTree as ET

import pytest
from conftest import ROOT
from docutils import nodes
from sphinx.errors import SphinxError

from claimbook.ledger import ledger
from claimbook.sphinx import chapter_graph as graph, claim_map
from claimbook.sphinx.boxes import heads
from claimbook.sphinx.claim_map import figure


def rows_of(**uses):
    """Rows of a ledger: a claim's name is its chapter and its number, its value what it uses."""
    return [{"id": id, "title": f"<{id}>", "verdict": "fails" if id == "a1" else "holds",
             "harm": "use", "chapter": id[0], "anchor": id, "uses": [*used]}
            for id, used in uses.items()]


def chapters_of(names, title="Title of"):
    return {name: graph.Chapter(i + 1, f"{title} {name}", f"{name}.html", i // 2)
            for i, name in enumerate(names)}


def drawn(names, **uses):
    """Lines of a graph, each as a word."""
    counts = graph.uses_between(rows_of(**uses))
    lines = graph.lines(counts, graph.order_of(counts, names))
    return {f"{line.top}{'<' if line.back else '>'}{line.bottom} {line.count}" for line in lines}


def texts_of(html):
    return " ".join(re.sub(r"<[^>]+>", " ", html).split())


def shown(rows, names, captions=("One & two", "Three")):
    by_id = {row["id"]: {"place": "P & Q, Sec. 1", "uses": row["uses"], "users": [
        other["id"] for other in rows if row["id"] in other["uses"]]} for row in rows}
    return figure(rows, chapters_of(names, "<Title>"), captions, by_id)


TINY = rows_of(a1=(), a2=["a1"], b1=["a1", "a2"], c1=["b1", "a1"], c2=["c1"])


def test_a_chapter_that_the_contents_leave_out_is_named():
    env = types.SimpleNamespace(tocs={"a": nodes.bullet_list()}, found_docs={"a"},
                                titles={"a": nodes.title(text="A")})
    app = types.SimpleNamespace(env=env, config=types.SimpleNamespace(root_doc="a"))
    with pytest.raises(SphinxError, match="_toc.yml has no '01_b'; accepted is"):
        claim_map.chapters_of(app, "map", [{"chapter": "01_b"}])


def test_a_line_counts_the_uses_of_one_chapter_in_another():
    assert drawn("abc", a1=(), b1=["a1"], b2=["a1", "b1"], c1=()) == {"a>b 2"}


def test_a_line_is_left_out_where_a_longer_way_leads_there():
    assert drawn("abc", a1=(), b1=["a1"], c1=["b1", "a1"]) == {"a>b 1", "b>c 1"}
    assert drawn("abcd", a1=(), b1=["a1"], c1=["a1"], d1=["b1", "c1", "a1"]) == {
        "a>b 1", "a>c 1", "b>d 1", "c>d 1"}


def test_a_chapter_stands_below_one_that_it_uses_wherever_it_is_read():
    assert drawn("ab", a1=["b1"], b1=()) == {"b>a 1"}


def test_of_chapters_that_use_each_other_the_first_stands_above_and_both_lines_are_drawn():
    assert drawn("ab", a1=(), a2=["b1"], b1=["a1"]) == {"a>b 1", "a<b 1"}
    assert drawn("abc", a1=["c1"], a2=(), b1=["a2"], c1=["b1"]) == {"a>b 1", "b>c 1", "a<c 1"}


def test_what_is_reached_is_reached_by_any_way_and_circles_end():
    assert graph.reach({"a": "b", "b": "ca", "c": ""}) == {
        "a": {*"abc"}, "b": {*"abc"}, "c": set()}


def test_items_are_settled_as_near_as_can_be_to_where_they_want_to_be_and_apart():
    assert graph.settled([100, 300], [50, 50]) == [100, 300]
    half = (50 + graph.GAP) / 2
    assert graph.settled([200, 200], [50, 50]) == [200 - half, 200 + half]  # their mean stays
    assert graph.settled([0, 999], [50, 50]) == [25, graph.WIDTH - 25]
    a, b = graph.settled([300, 100], [50, 0])
    assert b - a == 25 + graph.GAP


@pytest.mark.parametrize("title, texts", [
    ("Short", ["7 Short"]),
    ("SPD matrices under the log-Euclidean metric",
     ["7 SPD matrices under the", "log-Euclidean metric"]),
    ("A title of far more words than two lines can hold", None)])
def test_a_title_has_two_lines_at_most(title, texts):
    found = graph.words(graph.Chapter(7, title, ""))
    assert found == texts if texts else found[-1].endswith("…")
    assert len(found) <= 2 and max(map(len, found)) <= graph.LONGEST


def svg_of(book):
    rows = ledger(book)
    names = sorted({row["chapter"] for row in rows})
    return rows, names, ET.fromstring(graph.svg(rows, chapters_of(names)))


def boxes(svg):
    """The box of each chapter: a dict from its address to (left, top, right, bottom)."""
    found = {}
    for link in svg.iter("a"):
        x, y, wide, high = (float(link.find("rect").get(key))
                            for key in ("x", "y", "width", "height"))
        found[link.get("href")] = x, y, x + wide, y + high
    return found


def apart(one, other):
    return (one[2] < other[0] or other[2] < one[0] or one[3] < other[1] or other[3] < one[1])


@pytest.mark.slow
def test_each_chapter_of_this_book_is_a_link_and_they_fit_a_phone():
    rows, names, svg = svg_of(ROOT / "book")
    found = boxes(svg)
    assert [*found] == [f"{name}.html" for name in names]
    assert all(apart(one, other) for one, other in itertools.combinations(found.values(), 2))
    _, _, wide, high = map(float, svg.get("viewBox").split())
    assert wide <= 366 and high <= 640
    assert all(0 <= left and right <= wide for left, _, right, _ in found.values())
    assert "tabindex" not in ET.tostring(svg, encoding="unicode")


@pytest.mark.slow
def test_no_line_of_this_book_passes_through_a_chapter():
    _, _, svg = svg_of(ROOT / "book")
    paths = " ".join(path.get("d") for path in svg.iter("path"))
    upright = re.findall(r"(\S+) (\d+)V(\d+)", paths)
    assert upright
    for x, top, bottom in upright:
        passing = float(x), float(top), float(x), float(bottom)
        assert all(apart(passing, box) for box in boxes(svg).values())


@pytest.mark.parametrize("n", [1, 8, 40])
def test_chapters_that_use_nothing_fill_rows_and_lie_nowhere_on_each_other(n):
    names = [chr(ord("a") + i) for i in range(n)]
    rows = rows_of(**{f"{name}1": () for name in names})
    svg = ET.fromstring(graph.svg(rows, chapters_of(names)))
    found = boxes(svg)
    assert len(found) == n and float(svg.get("viewBox").split()[2]) <= graph.WIDTH + 4
    assert all(apart(one, other) for one, other in itertools.combinations(found.values(), 2))


def test_a_claim_shows_what_it_rests_on_and_what_rests_on_it_directly_and_not():
    _, line = re.findall(r'<details class="claim-line" id="map-b1".*?</details>',
                         shown(TINY, "abc"))[0].split("</summary>")
    assert texts_of(line) == (
        "P &amp; Q, Sec. 1 · chapter 2 · harm: use · ledger "
        "Rests directly on: a1 &lt;a1&gt; fails a2 &lt;a2&gt; "
        "Used directly by: c1 &lt;c1&gt; and through these: c2")
    links = re.findall(r'href="([^"]+)"', line)
    assert links == ["b.html#b1", "#ledger-b1", "#map-a1", "#map-a2", "#map-c1", "#map-c2"]


def test_the_list_says_in_words_what_the_graph_shows_and_what_it_leaves_out():
    heads = re.findall(r"<section><h2>(.*?)</h2><p>(.*?)</p>", shown(TINY, "abc"))
    assert [(texts_of(title), uses) for title, uses in heads] == [
        ("1 &lt;Title&gt; a", "Used by ch. 2 (2), 3 (1)"),
        ("2 &lt;Title&gt; b", "Uses ch. 1 (2) · Used by ch. 3 (1)"),
        ("3 &lt;Title&gt; c", "Uses ch. 1 (1), 2 (1)")]


def test_parts_are_named_by_their_chapters_and_nothing_is_where_there_are_none():
    assert "One &amp; two 1–2</span> <span" in shown(TINY, "abc")
    assert ">Three 3</span>" in shown(TINY, "abc")
    assert "<span style" not in shown(TINY, "abc", ["", ""])


def test_what_is_marked_up_in_a_title_is_escaped():
    text = shown(TINY, "abc")
    assert "<Title>" not in text and "<a1>" not in text and "P & Q" not in text


@pytest.mark.slow
def test_every_claim_of_this_book_has_a_line_and_the_map_is_the_same_each_time():
    book = ROOT / "book"
    rows = ledger(book)
    chapters = chapters_of(sorted({row["chapter"] for row in rows}))
    text = figure(rows, chapters, [""] * 99, heads(book))
    lines = re.findall(r'<details class="claim-line" id="map-([^"]+)"', text)
    assert sorted(lines) == sorted(row["id"] for row in rows)
    assert {*re.findall(r'"#map-([^"]+)"', text)} <= {row["id"] for row in rows}
    assert text == figure([*rows], dict(chapters), [""] * 99, heads(book))
