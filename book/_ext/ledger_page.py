"""Sphinx hook: fills the ledger's page from the recorded outputs and nothing else, leads the links
of the claims to it, and writes ledger.json.

The ledger's page is the one whose file is called NUMBER_ledger; its name stands nowhere else.
"""

import collections
import html
import json
import pathlib
import re

from docutils import nodes

from spdlib.ledger import UNTESTED, VERDICTS, ledger, read_claims, rests_on, tally

PAGE = re.compile(r"(.*/)?\d+_ledger")
LABEL = re.compile(
    r"^\(\S+\)=\n|^:(?:label|name):.*\n|(?<=\$\$) *\([\w:-]+\)$|\\label\{[^}]*\}", re.M
)
LINK = 'href="#ledger-'  # what the engine writes, which does not know the page
READ = {
    "clear": "clear in the published text",
    "preprint only": "printed in the preprint only",
    "damaged": "damaged in the copy of the paper at hand; the chapter says how it is read",
}


def without_labels(text):
    """The text of a statement that stands elsewhere as well: a label may stand once in a book."""
    return LABEL.sub("", text)


def totals(rows, papers):
    """A line for each paper: how many of its claims the book has reached, and how they came out."""
    for prefix, paper in papers.items():
        reached = [row for row in rows if row["id"].startswith(prefix)]
        words = f"{len(reached)} of {paper['claims']} claims reached"
        if reached:
            words += f": {tally(reached)}"
        yield f"- **{prefix}**, {paper['title']}. {words}."


def folded(title, text):
    """Raw HTML that opens at a click."""
    return f"<details><summary>{title}</summary>{text}</details>"


def scope(row):
    """What the claim covers: its domain, its criterion, and how surely its text is read."""
    parts = {
        "Domain": row["domain"],
        "Criterion": row["criterion"],
        "Text": READ.get(row["reading"], ""),
    }
    lines = [f"<p><b>{name}</b>: {html.escape(text)}</p>" for name, text in parts.items() if text]
    return folded("Domain and criterion" if row["criterion"] else "Domain", "".join(lines))


def checks(row):
    """Every check of the claim, equal ones once, and the rivals."""
    texts = (f"{check['kind']}: {check['summary']}" for check in row["evidence"])
    counts = collections.Counter(texts)
    items = [
        f"<li>{html.escape(text)}{f', {count} times' if count > 1 else ''}</li>"
        for text, count in counts.items()
    ]
    rivals = html.escape("; ".join(row["rivals"]))
    return folded("Checks and rivals", f"<ul>{''.join(items)}</ul>Rejected: {rivals}")


def notes(row, claim, shaky, verdicts):
    """Sentences below a statement: why it is untested, what takes its place, what it rests on."""
    if UNTESTED in claim:
        yield f"Untested: {claim[UNTESTED]}; whoever has it runs `{claim['command']}`."
    if row["correction"]:
        yield f"Corrected: {{prf:ref}}`{row['id']}-corrected`."
    if row["measured"]:
        yield f"Measured: {{prf:ref}}`{row['id']}-measured`."
    if row["reading"] not in ("", "clear"):
        yield f"The text is {READ[row['reading']]}."
    uses = []
    for used in dict.fromkeys([*row["uses"], *shaky]):
        verdict = f" (**{verdicts[used]}**)" if used in shaky else ""
        uses.append(f'<a href="#ledger-{used}">{used}</a>{verdict}')
    if uses:
        yield f"Rests on {', '.join(uses)}."


def table_row(row, claim, shaky, verdicts):
    """A claim as a row: raw HTML around MyST. `shaky` are those it rests on that do not hold."""
    id, verdict = row["id"], row["verdict"]
    kinds = list(dict.fromkeys(check["kind"] for check in row["evidence"]))
    traits = f'data-paper="{id[:2]}" data-verdict="{verdict}" data-evidence="{" ".join(kinds)}"'
    colour = f"verdict verdict-{verdict}"
    folds = scope(row) + (checks(row) if row["evidence"] else "")
    return f"""
<tr id="ledger-{id}" {traits}><td>

**{id}**<br>{row["where"]}<br>{{prf:ref}}`{id}`

</td><td>

{without_labels(row["statement"])}

{" ".join(notes(row, claim, shaky, verdicts))}

{folds}</td><td><span class="{colour}">{verdict}</span><br>{"<br>".join(kinds)}</td></tr>
"""


def erratum(row):
    """A claim that does not hold as printed: as printed, what takes its place, and where."""
    return f"""
### {row["id"]}: {row["where"]}

<div class="erratum erratum-{row["verdict"]}">

**As printed** ({row["paper"]})

{without_labels(row["statement"])}

**{row["verdict"].capitalize()}**

{without_labels(row["correction"] or row["measured"])}

Shown at {{prf:ref}}`{row["id"]}`.

</div>
"""


def fill(app, page, source):
    """Replace the markers of the ledger's page."""
    if not PAGE.fullmatch(page):
        return
    book = pathlib.Path(app.srcdir) / "book"
    rows, (papers, claims) = ledger(book), read_claims(book)
    shaky, verdicts = rests_on(rows), {row["id"]: row["verdict"] for row in rows}
    wrong = [row for row in rows if row["verdict"] in VERDICTS[1:]]
    parts = {
        "totals": totals(rows, papers),
        "rows": [table_row(row, claims[row["id"]], shaky[row["id"]], verdicts) for row in rows],
        "errata": map(erratum, wrong),
    }
    for marker, lines in parts.items():
        source[0] = source[0].replace(f"<!-- {marker} -->", "\n".join(lines))


def ledger_pages(app, env, *changes):
    """The ledger's page is always out of date, since it depends on every chapter."""
    return [page for page in env.found_docs if PAGE.fullmatch(page)]


def lead_links(app, doctree, page):
    """Lead the links of the claims' blocks to the ledger's page."""
    if PAGE.fullmatch(page):
        return
    for node in doctree.findall(nodes.raw):
        if LINK in node.astext():
            (target,) = ledger_pages(app, app.env)
            address = app.builder.get_relative_uri(page, target)
            text = node.astext().replace(LINK, f'href="{address}#ledger-')
            node.replace_self(nodes.raw("", text, format=node["format"]))


def write(app, error):
    """Write ledger.json beside the site's pages."""
    if not error:
        rows = ledger(pathlib.Path(app.srcdir) / "book")
        text = json.dumps(rows, indent=1, ensure_ascii=False)
        (pathlib.Path(app.outdir) / "ledger.json").write_text(text, encoding="utf-8")


def setup(app):
    app.connect("env-get-outdated", ledger_pages)
    app.connect("source-read", fill)
    app.connect("doctree-resolved", lead_links)
    app.connect("build-finished", write)
    return {"parallel_read_safe": True, "parallel_write_safe": True}
