"""The figure of what checking found: for each paper a bar of its claims, by verdict.

It is drawn as SVG in the page, in the colours of the verdicts, which book.css tells apart by their
filling as well. A table that opens below it says the same to those who cannot see it.
"""

import html

from ..ledger import UNTESTED, VERDICTS, paper_of, tally

WIDTH, HEIGHT = 340, 44  # of the figure, and of the bar of one paper with its name
LEAST = 10  # of a part of a bar, so that its number fits
WORDS = [*VERDICTS, UNTESTED]
LEGEND = dict(zip(WORDS, (0, 72, 166, 226), strict=True))
STRIPES = """<defs><pattern id="stripes" width="6" height="6" patternUnits="userSpaceOnUse"
patternTransform="rotate(45)"><path d="M1 0V6" class="stripe"/></pattern></defs>"""


def counts(rows, papers):
    """For each paper how many of its claims came out how: a dict of dicts."""
    found = {prefix: dict.fromkeys(WORDS, 0) for prefix in papers}
    for row in rows:
        found[paper_of(row["id"])][row["verdict"]] += 1
    return {prefix: numbers for prefix, numbers in found.items() if any(numbers.values())}


def box(word, x, y, width, height):
    return f'<rect class="{word}" x="{x:g}" y="{y:g}" width="{width:g}" height="{height:g}"/>'


def bars(found, papers, address):
    """A bar for each paper; each of its parts leads to the claims it stands for."""
    unit = (WIDTH - 2 * LEAST) / max(sum(numbers.values()) for numbers in found.values())
    for i, (prefix, numbers) in enumerate(found.items()):
        top, x = 28 + i * HEIGHT, 0
        name = html.escape(papers[prefix]["title"].rsplit(", ", 1)[-1])
        yield f'<text y="{top + 10}"><tspan class="id">{prefix}</tspan> {name}</text>'
        for word, number in numbers.items():
            if number:
                width = max(number * unit, LEAST)
                yield (f'<a href="{link(address, prefix, word)}" tabindex="-1">'
                       f"<title>{prefix}: {number} {word}</title>"
                       f"{box(word, x + 0.5, top + 16, width - 1, 18)}"
                       f'<text class="number {word}" x="{x + width / 2:g}" y="{top + 29}">'
                       f"{number}</text></a>")
                x += width


def link(address, prefix, word):
    """Address of the ledger with a filter."""
    return f"{address}?paper={prefix}&amp;verdict={word}"


def table(found, papers, address):
    head = "".join(f'<th scope="col" class="n">{word}</th>' for word in WORDS)
    body = []
    for prefix, numbers in found.items():
        entries = "".join(f'<td class="n"><a href="{link(address, prefix, word)}">{number}</a></td>'
                          if number else '<td class="n">0</td>' for word, number in numbers.items())
        title = html.escape(papers[prefix]["title"])
        body.append(f'<tr><th scope="row">{prefix}: {title}</th>{entries}</tr>')
    return (f'<table class="numbers"><thead><tr><th scope="col">paper</th>{head}</tr></thead>'
            f"<tbody>{''.join(body)}</tbody></table>")


def figure(rows, papers, address):
    """HTML of the figure; `address` is that of the ledger."""
    found = counts(rows, papers)
    legend = "".join(f'{box(word, x + 0.5, 3, 12, 12)}<text x="{x + 18}" y="13">{word}</text>'
                     for word, x in LEGEND.items())
    height = 28 + len(found) * HEIGHT
    return f"""<figure class="verdicts">
<svg role="group" viewBox="0 0 {WIDTH} {height}"><title>Claims by paper and verdict</title>
{STRIPES}{legend}{"".join(bars(found, papers, address))}</svg>
<figcaption>{len(rows)} claims: {tally(rows)}.</figcaption>
<details><summary>the same as a table</summary>
<div class="wide">{table(found, papers, address)}</div></details></figure>"""
