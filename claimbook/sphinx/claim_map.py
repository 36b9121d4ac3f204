"""Sphinx hook: fills the page of the map from the ledger, and from nothing else.

It puts the graph of the chapters beside a list, or above it on a phone. Each claim is a line of the
list, which opens to what the claim rests on and to what rests on it. claim_map.js searches the
list; without a script it is complete, and the search is hidden.
"""

import html
import itertools
import pathlib
import re

from docutils import nodes
from sphinx import addnodes
from sphinx.errors import SphinxError

from ..ledger import ledger
from . import folder_of, is_page, pages_of
from .boxes import heads
from .chapter_graph import Chapter, reach, svg, uses_between

MARKER, STATIC = "<!-- map -->", pathlib.Path(__file__).parent / "static"
CAPTION = """An arrow leads from a chapter to one whose claims use its claims; the number counts
these uses. It is left out where a longer way leads there as well; the list has all of them."""
FORM = """<form class="map-search pst-js-only">
<label for="map-query">Find a claim: its id, words of its title, or its verdict</label>
<input id="map-query" type="search" autocomplete="off" spellcheck="false"> <output></output>
</form>"""


def verdict(row):
    return f'<span class="verdict verdict-{row["verdict"]}">{row["verdict"]}</span>'


def link(row, title=""):
    """Link to the line of a claim; the verdict follows unless the claim holds."""
    text = f'<a href="#map-{row["id"]}">{row["id"]}</a> {html.escape(title)}'.rstrip()
    return text if row["verdict"] == "holds" else f"{text} {verdict(row)}"


def related(words, direct, others):
    """Show the claims on one side of a claim: first its neighbours, then those behind them."""
    items = "".join(f"<li>{link(row, row['title'])}</li>" for row in direct)
    behind = f"<p>and through these: {', '.join(map(link, others))}</p>" if others else ""
    return f"<p>{words}:</p><ul>{items}</ul>{behind}" if direct else ""


def line(row, facts, sides):
    """Show a claim as a line that opens; a side is (words, neighbours, those behind them)."""
    harm = [f"harm: {row['harm']}"] if row["harm"] else []
    facts = [*facts, *harm, f'<a href="#ledger-{row["id"]}">ledger</a>']
    return (f'<details class="claim-line" id="map-{row["id"]}" data-verdict="{row["verdict"]}">'
            f'<summary><span class="id">{row["id"]}</span> <span class="phrase">'
            f'{html.escape(row["title"])}</span> <span>{verdict(row)}</span></summary>'
            f"<p>{' · '.join(facts)}</p>{''.join(itertools.starmap(related, sides))}</details>")


def lines(rows, chapters, heads):
    """Show each claim as a line: a dict from its id."""
    by_id = {row["id"]: row for row in rows}
    ways = []
    for words, key in ("Rests directly on", "uses"), ("Used directly by", "users"):
        links = {id: heads[id][key] for id in by_id}
        ways.append((words, links, reach(links)))
    found = {}
    for id, row in by_id.items():
        chapter = chapters[row["chapter"]]
        place = f"{html.escape(chapter.address)}#{row['anchor']}"
        facts = html.escape(heads[id]["place"]), f'<a href="{place}">chapter {chapter.number}</a>'
        sides = [(words, [by_id[other] for other in dict.fromkeys(links[id])],
                  [by_id[other] for other in by_id if other in behind[id] - {*links[id]}])
                 for words, links, behind in ways]
        found[id] = line(row, facts, sides)
    return found


def listed(rows, chapters, heads):
    """List the lines of all claims, those of each chapter below a heading."""
    counts, shown = uses_between(rows), lines(rows, chapters, heads)
    for name, chapter in chapters.items():
        uses = [(chapters[a].number, n) for (a, b), n in counts.items() if b == name]
        users = [(chapters[b].number, n) for (a, b), n in counts.items() if a == name]
        said = [
            f"{word} ch. {', '.join(f'{number} ({n})' for number, n in sorted(pairs))}"
            for word, pairs in (("Uses", uses), ("Used by", users)) if pairs
        ]
        yield (f'<section><h2><a href="{html.escape(chapter.address)}">{chapter.number} '
               f"{html.escape(chapter.title)}</a></h2><p>{' · '.join(said) or 'On its own'}</p>")
        yield from (shown[row["id"]] for row in rows if row["chapter"] == name)
        yield "</section>"


def legend(chapters, captions):
    """Name the parts of the book by their tints and by the numbers of their chapters."""
    for part, alike in itertools.groupby(chapters.values(), lambda chapter: chapter.part):
        first, *_, last = [chapter.number for chapter in alike] * 2
        numbers = first if first == last else f"{first}–{last}"
        if captions[part]:
            yield f'<span style="--part: {part}">{html.escape(captions[part])} {numbers}</span>'


def figure(rows, chapters, captions, heads):
    """HTML of the graph, of the search and of the list."""
    return f"""<div class="claim-map"><figure>{svg(rows, chapters)}
<figcaption>{" ".join(legend(chapters, captions))}<p>{CAPTION}</p></figcaption></figure>
<div>{FORM}<div class="map-claims">{"".join(listed(rows, chapters, heads))}</div></div></div>"""


def chapters_of(app, map_page, rows):
    """Find the chapters with claims, a dict of `Chapter`, and the captions of the book's parts.

    SphinxError where the table of contents leaves one out.
    """
    caption, found, captions, named = {}, {}, [], {row["chapter"] for row in rows}
    for contents in app.env.tocs[app.config.root_doc].findall(addnodes.toctree):
        caption |= dict.fromkeys(contents["includefiles"], contents.get("caption") or "")
    for page in sorted(app.env.found_docs):
        match = re.fullmatch(r"(?:.*/)?((\d+)[^/]*)", page)
        if match and match[1] in named:
            if (part := caption.get(page, "")) not in captions:
                captions.append(part)
            found[match[1]] = Chapter(int(match[2]), app.env.titles[page].astext(),
                                      app.builder.get_relative_uri(map_page, page),
                                      captions.index(part))
    if missing := sorted(named - {*found}):
        raise SphinxError(f"_toc.yml has no {missing[0]!r}; accepted is a table of contents with "
                          "every chapter that has claims")
    return found, captions


def draw(app, doctree, name):
    """Put the map at its marker."""
    if is_page(name, "map"):
        book = folder_of(app)
        rows = ledger(book)
        for node in list(doctree.findall(nodes.raw)):
            if node.astext().strip() == MARKER:
                text = figure(rows, *chapters_of(app, name, rows), heads(book))
                node.replace_self(nodes.raw("", text, format="html"))


def search(app, name, template, context, doctree):
    """Load the script where the map is, and nowhere else."""
    if 'class="claim-map"' in context.get("body", ""):
        app.add_js_file("claim_map.js", loading_method="defer")


def map_page(app, env, *changes):
    """The page is always out of date, since it depends on every chapter."""
    return pages_of(env, "map")


def setup(app):
    app.connect("builder-inited", lambda app: app.config.html_static_path.append(str(STATIC)))
    app.add_css_file("claim_map.css")
    app.connect("env-get-outdated", map_page)
    app.connect("doctree-resolved", draw)
    app.connect("html-page-context", search)
    return {"parallel_read_safe": True, "parallel_write_safe": True}
