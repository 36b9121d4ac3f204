"""Sphinx hook: draws the map of all claims from the ledger, and from nothing else.

It is one SVG, which stands in its page and, as it is, in a file beside it: no script, no library,
no other file. Claims stand below each other, chapter by chapter, those that are used before those
that use them, and arcs on their left lead up to what they rest on. Shape, filling and colour say
the verdict. A list that opens below the map says the same in words.
"""

import html
import math
import pathlib
import re

from docutils import nodes

from ..ledger import UNTESTED, VERDICTS, ledger
from . import folder_of, is_page, pages_of

FILE, MARKER = "claims.svg", "<!-- map -->"  # the file stands beside the page
WORDS = [*VERDICTS, UNTESTED]
LEGEND, HEAD, ROW = 92, 44, 28  # heights: of the legend, of a chapter's heading, of a claim
ARCS, WIDE, HIGH = 150, 66, 22  # width of the arcs; size of a claim's shape
LETTER = 6.6  # width of a letter, or a little more
LIGHT = """--ink: #1f2933; --paper: #fff; --rule: #c9d1d9; --holds: #0068a8;
  --corrected: #8a5a00; --fails: #a3357a; --untested: #5b6570;"""
DARK = """--ink: #e6eaee; --paper: #14181e; --rule: #48525d; --holds: #74bdf2;
  --corrected: #f0b848; --fails: #f29ccb; --untested: #a9b4bf;"""
STYLE = f"""
.claim-map {{ {LIGHT} background: var(--paper); font: 13px system-ui, sans-serif; }}
@media (prefers-color-scheme: dark) {{ .claim-map {{ {DARK} }} }}
html[data-theme="light"] .claim-map {{ {LIGHT} }}
html[data-theme="dark"] .claim-map {{ {DARK} }}
html[data-theme] .claim-map {{ --paper: var(--pst-color-background); }}
.claim-map text {{ fill: var(--ink); }}
.claim-map .head {{ font-weight: 600; font-size: 14px; }}
.claim-map .rule {{ stroke: var(--rule); }}
.claim-map a {{ text-decoration: none; }}
.claim-map .claim path {{ stroke-width: 1.5; fill: var(--paper); }}
.claim-map .claim .id {{ text-anchor: middle; font-weight: 600; }}
.claim-map .holds path {{ stroke: var(--holds); }}
.claim-map .corrected path {{ stroke: var(--corrected); stroke-width: 2.5; }}
.claim-map .fails path {{ stroke: var(--fails); fill: var(--fails); }}
.claim-map .fails .id {{ fill: var(--paper); }}
.claim-map .untested path {{ stroke: var(--untested); stroke-dasharray: 3 3; }}
.claim-map .edge {{ fill: none; stroke: var(--ink); stroke-opacity: 0.3; }}
.claim-map .edge.unsound {{ stroke: var(--corrected); stroke-opacity: 0.6; stroke-dasharray: 6 3; }}
.claim-map .legend .edge {{ stroke-opacity: 1; }}
.claim-map a:is(:hover, :focus) text:not(.id) {{ text-decoration: underline; }}
"""


def levels(rows):
    """For each claim of a chapter the length of the longest way down to a claim of it."""
    by_id, found = {row["id"]: row for row in rows}, {}

    def level(id):
        if id not in found:
            below = (level(used) for used in by_id[id]["uses"] if used in by_id)
            found[id] = 1 + max(below, default=-1)
        return found[id]

    return {id: level(id) for id in by_id}


def places(rows):
    """Height of each claim, a dict from id; that of each chapter's top; and that of all."""
    at, tops, y = {}, {}, LEGEND
    for chapter in sorted({row["chapter"] for row in rows}):
        here = [row for row in rows if row["chapter"] == chapter]
        level = levels(here)
        tops[chapter], y = y, y + HEAD
        for row in sorted(here, key=lambda row: level[row["id"]]):
            at[row["id"]], y = y + ROW / 2, y + ROW
    return at, tops, y


def shape(verdict, x, y, wide=WIDE):
    """Outline of a claim about (x, y): rounded, pointed, with corners, or a dashed box."""
    w, h = wide / 2, HIGH / 2
    left, right, top, bottom = x - w, x + w, y - h, y + h
    if verdict == "holds":
        return (f"M{left + h:g} {top:g}H{right - h:g}A{h:g} {h:g} 0 0 1 {right - h:g} {bottom:g}"
                f"H{left + h:g}A{h:g} {h:g} 0 0 1 {left + h:g} {top:g}Z")
    if verdict == "corrected":
        return (f"M{left + 8:g} {top:g}H{right - 8:g}L{right:g} {y:g}L{right - 8:g} {bottom:g}"
                f"H{left + 8:g}L{left:g} {y:g}Z")
    return f"M{left:g} {top:g}H{right:g}V{bottom:g}H{left:g}Z"


def claim(row, y, address, text):
    """A claim as a link: its shape, and what it is about."""
    id, verdict, left = row["id"], row["verdict"], ARCS + WIDE / 2
    return (f'<a class="claim {verdict}" id="map-{id}" href="{html.escape(address)}" tabindex="-1">'
            f'<title>{html.escape(text)}</title><path d="{shape(verdict, left, y)}"/>'
            f'<text class="id" x="{left:g}" y="{y + 4.5:g}">{id}</text>'
            f'<text x="{ARCS + WIDE + 10}" y="{y + 4.5:g}">{html.escape(row["title"])}</text></a>')


def arc(user, used, at, sound):
    """A line from a claim to one that it uses; the longer, the further to the left."""
    far = math.log(1 + abs(at[user] - at[used]) / ROW) / math.log(1 + max(at.values()) / ROW)
    word, y = "edge" if sound else "edge unsound", (at[user], at[used])
    bulge = ARCS - 4 - far * 4 / 3 * (ARCS - 10)  # a curve goes three quarters of the way there
    return (f'<path class="{word}" data-user="{user}" data-used="{used}" d="M{ARCS - 4} {y[0]:g}'
            f'C{bulge:.1f} {y[0]:g} {bulge:.1f} {y[1]:g} {ARCS - 4} {y[1]:g}"/>')


def touching(rows):
    """Style by which the lines of a claim stand out while it is pointed at."""
    for id in (row["id"] for row in rows):
        yield (f'.claim-map:has(#map-{id}:is(:hover,:focus)) .edge:is([data-user="{id}"],'
               f'[data-used="{id}"]){{stroke-opacity:1;stroke-width:2.5}}')


def legend():
    """What shapes and lines mean."""
    for i, word in enumerate(WORDS):
        x = 48 + 94 * i
        yield (f'<g class="claim {word}"><path d="{shape(word, x, 20, 84)}"/>'
               f'<text class="id" x="{x}" y="24.5">{word}</text></g>')
    for y, word, text in (
        (50, "edge", "rests on the one above"),
        (72, "edge unsound", "rests on one that does not stand as printed"),
    ):
        yield f'<path class="{word}" d="M6 {y}H66"/><text x="76" y="{y + 4.5}">{text}</text>'


def spoken(row, verdict_of):
    """A claim in words: its id, what it is about, its verdict, what it rests on."""
    uses = ", ".join(f"{used} ({verdict_of[used]})" for used in row["uses"])
    return f"{row['id']}, {row['title']}: {row['verdict']}" + (f"; rests on {uses}" if uses else "")


def svg(rows, chapters):
    """The map; `chapters` has for each chapter its title and its address."""
    at, tops, height = places(rows)
    verdict_of = {row["id"]: row["verdict"] for row in rows}
    width = math.ceil(ARCS + WIDE + 20 + LETTER * max(len(row["title"]) for row in rows))
    heads = []
    for chapter, top in tops.items():
        title, address = map(html.escape, chapters[chapter])
        heads.append(f'<path class="rule" d="M{ARCS} {top + 4}H{width}"/>'
                     f'<a href="{address}" tabindex="-1">'
                     f'<text class="head" x="{ARCS}" y="{top + 28}">{title}</text></a>')
    arcs = [
        arc(row["id"], used, at, verdict_of[used] == "holds") for row in rows
        for used in row["uses"]
    ]
    claims = [
        claim(row, at[row["id"]], f"{chapters[row['chapter']][1]}#{row['anchor']}",
              spoken(row, verdict_of)) for row in rows
    ]
    return "\n".join([
        f'<svg class="claim-map" xmlns="http://www.w3.org/2000/svg" role="img" width="{width}"'
        f' height="{height}" viewBox="0 0 {width} {height}">',
        f"<title>All {len(rows)} claims, and what each rests on</title>", "<style>", STYLE,
        *touching(rows), "</style>", '<g class="legend">', *legend(), "</g>", *heads, *arcs,
        *claims, "</svg>"
    ])


def listed(rows, chapters):
    """The same in words, for those who do not see the map."""
    verdict_of = {row["id"]: row["verdict"] for row in rows}
    for chapter in sorted({row["chapter"] for row in rows}):
        title, address = chapters[chapter]
        yield f'<p><a href="{html.escape(address)}">{html.escape(title)}</a></p><ul>'
        for row in rows:
            if row["chapter"] == chapter:
                place = html.escape(f"{address}#{row['anchor']}")
                text = html.escape(spoken(row, verdict_of).removeprefix(row["id"]))
                yield f'<li><a href="{place}">{row["id"]}</a>{text}.</li>'
        yield "</ul>"


def figure(rows, chapters):
    """HTML of the map and of the list."""
    return f"""<figure class="map"><div class="wide">{svg(rows, chapters)}</div>
<figcaption>The map as <a href="{FILE}">a file</a>, which needs nothing else;
in the folder of these pages its links work.</figcaption>
<details><summary>the same as a list</summary>
{"".join(listed(rows, chapters))}</details></figure>"""


def chapters_of(app, map_page):
    """For each chapter its number and title, and its address from the page of the map."""
    found = {}
    for page in sorted(app.env.found_docs):
        if match := re.fullmatch(r"(?:.*/)?((\d+)_\w+)", page):
            title = f"{int(match[2])}. {app.env.titles[page].astext()}"
            found[match[1]] = title, app.builder.get_relative_uri(map_page, page)
    return found


def draw(app, doctree, page):
    """Put the map at its marker."""
    if is_page(page, "map"):
        for node in list(doctree.findall(nodes.raw)):
            if node.astext().strip() == MARKER:
                text = figure(ledger(folder_of(app)), chapters_of(app, page))
                node.replace_self(nodes.raw("", text, format="html"))


def write(app, error):
    """Write the map as a file."""
    for page in [] if error else pages_of(app.env, "map"):
        text = svg(ledger(folder_of(app)), chapters_of(app, page))
        (pathlib.Path(app.outdir, page).parent / FILE).write_text(text, encoding="utf-8")


def map_page(app, env, *changes):
    """The page is always out of date, since it depends on every chapter."""
    return pages_of(env, "map")


def setup(app):
    app.connect("env-get-outdated", map_page)
    app.connect("doctree-resolved", draw)
    app.connect("build-finished", write)
    return {"parallel_read_safe": True, "parallel_write_safe": True}
