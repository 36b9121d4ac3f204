"""Sphinx hook: fills the page of the net from its data: net.json, the gauntlet, and the ledger.

Its links to claims are led to the ledger's page as those of the claims' blocks are.
"""

import html
import json
import re
import textwrap
import tomllib

from ..ledger import UNTESTED, ledger
from . import folder_of, is_page, pages_of

AUDITORS = {"audit": "audit", "replay": "replay", "second": "DP-Auditorium"}
PURE = {"proof", "certificate"}  # evidence that takes nothing from the package under test


def catches(entry):
    """The claims that catch a break, by the words that say how: a dict from words to ids."""
    found = {}
    for id, run in entry["runs"].items():
        if "caught" in run:
            found.setdefault(run["caught"], []).append(id)
    return {words: sorted(ids) for words, ids in sorted(found.items())}


def anchor(name):
    """Id of the block of a break."""
    return "-".join(["break", *re.findall(r"\w+", name.lower())])


def links(ids):
    return ", ".join(f'<a href="#ledger-{id}">{id}</a>' for id in ids)


def block(name, entry):
    """A break: its name, what stands there and what it becomes, which claims catch it and how."""
    lines = []
    for tag, sign, text in ("del", "−", entry["old"]), ("ins", "+", entry["new"]):
        body = html.escape(textwrap.dedent(text).strip()) or "<i>nothing</i>"
        lines.append(f'<{tag}><span aria-hidden="true">{sign} </span>{body}</{tag}>')
    caught = [
        f"<li>{html.escape(words)}: {links(ids)}</li>" for words, ids in catches(entry).items()
    ]
    return f"""
<div class="fault" id="{anchor(name)}">
<p><b>{html.escape(name)}</b></p>
<pre>{"".join(lines)}</pre>
<ul>{"".join(caught)}</ul>
</div>
"""


def by_module(record):
    """All breaks, with a heading for each module."""
    for module in dict.fromkeys(entry["module"] for entry in record.values()):
        yield f"\n### {module}\n"
        for name, entry in record.items():
            if entry["module"] == module:
                yield block(name, entry)


def by_claim(record, rows):
    """For each claim that catches a break, all the breaks that it catches."""
    for row in rows:
        names = [
            name for name, entry in record.items() if row["id"] in sum(catches(entry).values(), [])
        ]
        if names:
            marks = (f'<a href="#{anchor(name)}">{html.escape(name)}</a>' for name in names)
            yield f"<li>{links([row['id']])}: {'; '.join(marks)}</li>"


def loose(record, rows):
    """The claims that catch none: those of pure algebra, then the others."""
    caught = {id for entry in record.values() for ids in catches(entry).values() for id in ids}
    free = [row for row in rows if row["id"] not in caught and row["verdict"] != UNTESTED]
    pure = [row["id"] for row in free if {check["kind"] for check in row["evidence"]} <= PURE]
    others = [row["id"] for row in free if row["id"] not in pure]
    for title, ids in ("Symbols and ball arithmetic alone", pure), ("All others", others):
        yield f"<li>{title} ({len(ids)}): {links(ids)}</li>"


def totals(record, rows):
    caught = {id for entry in record.values() for ids in catches(entry).values() for id in ids}
    tested = [row for row in rows if row["verdict"] != UNTESTED]
    return (f"There are {len(record)} faults, and {len(caught)} of the {len(tested)} claims that "
            "are tested catch at least one.")


def rows_of(cells, tag="td"):
    return "<tr>" + "".join(f"<{tag}>{cell}</{tag}>" for cell in cells) + "</tr>"


def table_of(head, bodies):
    """A table that scrolls sideways where it is too wide; each body is a list of rows."""
    bodies = "".join(f"<tbody>{''.join(rows)}</tbody>" for rows in bodies)
    return (f'<div class="gauntlet"><table class="table"><thead>{rows_of(head, "th")}</thead>'
            f"{bodies}</table></div>")


def mark(name):
    return f'<a href="#{anchor(name)}">{html.escape(name)}</a>'


def gauntlet_table(gauntlet, breaks):
    """Each kind of bug: where it is planted, as which fault, and the claim that has to catch it."""
    bodies = [[
        f'<tr><th colspan="3" scope="rowgroup">{html.escape(entry["kind"])}</th></tr>',
        *(rows_of([place, mark(name), links([breaks[name]["claim"]])])
          for place, name in entry["faults"])
    ] for entry in gauntlet["kinds"]]
    return table_of(["where", "fault", "claim"], bodies)


def auditors_table(gauntlet):
    """What the auditors said of releases with the faults."""
    rows = [
        rows_of([mark(name), *(said[by] for by in AUDITORS)])
        for name, said in gauntlet["asked"].items()
    ]
    return table_of(["fault", *AUDITORS.values()], [rows])


def fill(app, page, source):
    """Replace the markers of the page."""
    if not is_page(page, "net"):
        return
    book = folder_of(app)
    record = json.loads((book / "net.json").read_text(encoding="utf-8"))["breaks"]
    rows = ledger(book)
    parts = {
        "totals": totals(record, rows),
        "breaks": "\n".join(by_module(record)),
        "claims": f'<ul class="catches">{"".join(by_claim(record, rows))}</ul>',
        "loose": f'<ul class="catches">{"".join(loose(record, rows))}</ul>',
    }
    if (book / "gauntlet.toml").exists():  # kinds of bugs that others have had
        gauntlet, breaks = (tomllib.loads((book / f"{name}.toml").read_text(encoding="utf-8"))
                            for name in ("gauntlet", "breaks"))
        parts["gauntlet"] = gauntlet_table(gauntlet, breaks)
        parts["auditors"] = auditors_table(gauntlet)
    for marker, text in parts.items():
        source[0] = source[0].replace(f"<!-- {marker} -->", text)


def net_page(app, env, *changes):
    """The page is always out of date, since it depends on every chapter."""
    return pages_of(env, "net")


def setup(app):
    app.connect("env-get-outdated", net_page)
    app.connect("source-read", fill)
    return {"parallel_read_safe": True, "parallel_write_safe": True}
