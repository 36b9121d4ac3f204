"""Draws the graph of a book's chapters as SVG, from the rows of the ledger.

An arrow leads from a chapter to one whose claims use its claims. Chapters stand in rows, each below
those that it uses, unless uses go in a circle; a line that passes a row has a free place there.
The places are found by sweeps, in which each row moves as close to its neighbours as it can.
"""

import collections
import html
import itertools
import math
import textwrap
from statistics import fmean
from typing import NamedTuple

WIDTH, HIGH, PITCH, GAP = 354, 36, 52, 4  # of the graph, a chapter, from row to row, between two
LETTER, SHORT, LONGEST = 6.4, 16, 24  # width of a letter; fewest and most letters of a line
SPREAD, HEAD = 16, 3.5  # between the ends of two lines at a chapter; half the width of a head
SWEEPS = 24


class Chapter(NamedTuple):
    """A chapter: its number, its title, its address, and the number of its part."""

    number: int
    title: str
    address: str
    part: int = 0


class Line(NamedTuple):
    """A line from one chapter down to another; its arrow leads up where `back` is true."""

    top: str
    bottom: str
    count: int
    back: bool = False


def uses_between(rows):
    """Count the uses of claims of one chapter by those of another: a dict from (used, user)."""
    home = {row["id"]: row["chapter"] for row in rows}
    pairs = ((home[used], row["chapter"]) for row in rows for used in row["uses"])
    return collections.Counter(pair for pair in pairs if pair[0] != pair[1])


def reach(links):
    """Find all that each node leads to, directly or not: a dict of sets."""
    found = {}
    for node in links:
        seen, todo = set(), [*links[node]]
        while todo:
            if (here := todo.pop()) not in seen:
                seen.add(here)
                todo += links[here]
        found[node] = seen
    return found


def order_of(counts, chapters):
    """Order chapters by use, and as they are read where that leaves a choice or goes in a circle.
    """
    left, order = [*chapters], []
    while left:
        free = (name for name in left if not any((used, name) in counts for used in left))
        order.append(next(free, left[0]))
        left.remove(order[-1])
    return order


def lines(counts, order):
    """Choose the lines: a list. One is left out where a longer way leads there as well."""
    place = {name: i for i, name in enumerate(order)}
    on = {a: [b for b in order if (a, b) in counts and place[a] < place[b]] for a in order}
    beyond = reach(on)
    kept = [(a, b) for a in on for b in on[a] if not any(b in beyond[c] for c in on[a])]
    back = [pair for pair in counts if place[pair[0]] > place[pair[1]]]
    return [Line(a, b, counts[a, b])
            for a, b in kept] + [Line(b, a, counts[a, b], True) for a, b in back]


def words(chapter):
    """Set a chapter's number and title in one line or in two that are as short as can be."""
    text = f"{chapter.number} {chapter.title}"
    widths = (width for width in range(SHORT, LONGEST) if len(textwrap.wrap(text, width)) < 3)
    return textwrap.wrap(text, next(widths, LONGEST), max_lines=2, placeholder="…")


def rows_of(widths, lines):
    """Give each chapter the first row below its lines' tops that has room: a dict of numbers."""
    row, filled = {}, collections.Counter()
    for name, width in widths.items():
        y = max((row[line.top] + 1 for line in lines if line.bottom == name), default=0)
        while filled[y] and filled[y] + width > WIDTH:
            y += 1
        row[name], filled[y] = y, filled[y] + width + GAP
    return row


def settled(wanted, widths):
    """Middles of items side by side, closest to those wanted in least squares: a list."""
    *starts, end = itertools.accumulate((width + GAP for width in widths), initial=0)
    blocks = []  # the moves wanted by items that touch; a block moves by their mean
    for want, width, start in zip(wanted, widths, starts, strict=True):
        blocks.append([want - width / 2 - start])
        while len(blocks) > 1 and fmean(blocks[-2]) > fmean(blocks[-1]):
            blocks[-2:] = [blocks[-2] + blocks[-1]]
    moves = [
        min(max(fmean(block), 0), max(WIDTH + GAP - end, 0)) for block in blocks for _ in block
    ]
    return [
        move + start + width / 2 for move, start, width in zip(moves, starts, widths, strict=True)
    ]


def places(widths, lines):
    """Place chapters, and lines where they pass a row: a dict of (x, row), and one of ways."""
    row = rows_of(widths, lines)
    ways = {
        line: [
            line.top, *((line, y) for y in range(row[line.top] + 1, row[line.bottom])), line.bottom
        ]
        for line in lines
    }
    row |= {item: item[1] for way in ways.values() for item in way[1:-1]}
    rows = [[item for item in row if row[item] == y] for y in range(max(row.values()) + 1)]
    steps = [step for way in ways.values() for step in itertools.pairwise(way)]
    x = {item: WIDTH * (i + 0.5) / len(items) for items in rows for i, item in enumerate(items)}

    def wanted(item, sweep):
        above, below = [a for a, b in steps if b == item], [b for a, b in steps if a == item]
        near = [above, below, above + below, above + below][sweep % 4] or [item]
        return fmean([x[other] for other in near])

    def cost():
        crossed = sum((x[a] - x[c]) * (x[b] - x[d]) < 0
                      for (a, b), (c, d) in itertools.combinations(steps, 2) if row[a] == row[c])
        return crossed, sum((x[a] - x[b])**2 for a, b in steps)

    found = []
    for sweep in range(SWEEPS):
        for items in rows[::-1] if sweep % 2 else rows:
            want = {item: wanted(item, sweep) for item in items}
            items.sort(key=want.__getitem__)
            middles = settled([want[item] for item in items],
                              [widths.get(item, 0) for item in items])
            x |= zip(items, middles, strict=True)
        found.append((cost(), {item: (x[item], row[item]) for item in row}))
    return min(found, key=lambda each: each[0])[1], ways


def ends(widths, at, ways):
    """Spread the ends of lines along the edges of chapters: a dict from (line, 0 or 1) to x."""
    found = {}
    for name, (end, beside) in itertools.product(widths, [(0, 1), (1, -2)]):
        here = sorted((at[way[beside]][0], line) for line, way in ways.items() if line[end] == name)
        step = min(SPREAD, (widths[name] - SPREAD) / max(len(here) - 1, 1))
        for i, (_, line) in enumerate(here):
            found[line, end] = at[name][0] + step * (i - (len(here) - 1) / 2)
    return found


def arrow(line, way, at, end):
    """Draw a line, upright where it passes a row, with its head and its count."""
    x, y = start = end[line, 0], at[line.top][1] * PITCH + HIGH
    path = f"M{x:.1f} {y}"
    for item in way[1:]:
        if item != way[1]:
            y += HIGH
            path += f"V{y}"
        there, far = end[line, 1] if item == line.bottom else at[item][0], y + PITCH - HIGH
        middle = (y + far) / 2
        path += f"C{x:.1f} {middle:g} {there:.1f} {middle:g} {there:.1f} {far}"
        x, y = there, far
    (x, y), away = (start, 2 * HEAD) if line.back else ((x, y), -2 * HEAD)
    path += f"M{x - HEAD:.1f} {y + away:g}L{x:.1f} {y}L{x + HEAD:.1f} {y + away:g}"
    count = f'x="{x + HEAD + 2:.1f}" y="{y + (12 if line.back else -4)}">{line.count}'
    return (f'<path d="{path}" stroke-width="{1 + math.log2(line.count) / 3:.1f}"/>'
            f'<text class="count" {count}</text>')


def node(chapter, x, y, width, claims):
    """Draw a chapter as a link, in the tint of its part."""
    texts = words(chapter)
    base = y + HIGH / 2 + 12 - 7.5 * len(texts)
    spans = "".join(f'<tspan x="{x:.1f}" y="{base + 15 * i:g}">{html.escape(text)}</tspan>'
                    for i, text in enumerate(texts))
    title = html.escape(f"{chapter.number} {chapter.title}: {claims} claim{'s' * (claims > 1)}")
    return (f'<a href="{html.escape(chapter.address)}" style="--part: {chapter.part}">'
            f'<title>{title}</title><rect x="{x - width / 2:.1f}" y="{y}" width="{width:.1f}" '
            f'height="{HIGH}" rx="6"/><text>{spans}</text></a>')


def svg(rows, chapters):
    """Draw the graph; `chapters` has a `Chapter` for each name, in the order of reading."""
    counts = uses_between(rows)
    claims = collections.Counter(row["chapter"] for row in rows)
    order = order_of(counts, chapters)
    widths = {name: 12 + LETTER * max(map(len, words(chapters[name]))) for name in order}
    at, ways = places(widths, lines(counts, order))
    end = ends(widths, at, ways)
    arrows = [arrow(line, way, at, end) for line, way in ways.items()]
    nodes = [
        node(chapter, at[name][0], at[name][1] * PITCH, widths[name], claims[name])
        for name, chapter in chapters.items()
    ]
    wide = max([WIDTH, *(x + widths.get(item, 0) / 2 for item, (x, _) in at.items())]) + 4
    high = max(y for _, y in at.values()) * PITCH + HIGH + 4
    return "\n".join([
        f'<svg role="group" aria-label="Graph of the chapters" '
        f'viewBox="-2 -2 {wide:.0f} {high}">', *arrows, *nodes, "</svg>"
    ])
