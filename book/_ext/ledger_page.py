"""Sphinx hook: fills the ledger's page from the recorded outputs and nothing else, and writes ledger.json."""

import collections
import html
import json
import pathlib
import re

from spdlib.claims import ledger, read_claims, rests_on

PAGE = "book/18_ledger"
TALLY = {"holds": "hold", "corrected": "corrected", "fails": "fail", "untested": "untested"}
LABEL = re.compile(r"^\(\S+\)=\n|^:(?:label|name):.*\n|(?<=\$\$) *\([\w:-]+\)$|\\label\{[^}]*\}", re.M)


def without_labels(text):
    """The text of a statement that stands elsewhere as well: a label may stand once in a book."""
    return LABEL.sub("", text)


def totals(rows, papers):
    """A line for each paper: how many of its claims the book has reached, and with what verdicts."""
    for prefix, paper in papers.items():
        verdicts = [row["verdict"] for row in rows if row["id"].startswith(prefix)]
        tally = ", ".join(f"{verdicts.count(word)} {plural}" for word, plural in TALLY.items() if word in verdicts)
        reached = f"{len(verdicts)} of {paper['claims']} claims reached"
        yield f"- **{prefix}**, {paper['title']}. {reached}{': ' * bool(tally)}{tally}."


def table_row(row, claim, shaky, verdicts):
    """A claim as a row: raw HTML around MyST. `shaky` are the claims that it rests on and that do not hold."""
    id, verdict = row["id"], row["verdict"]
    kinds = list(dict.fromkeys(check["kind"] for check in row["evidence"]))
    checks = collections.Counter(f"{check['kind']}: {html.escape(check['summary'])}" for check in row["evidence"])
    items = "".join(f"<li>{text}{f', {count} times' * (count > 1)}</li>" for text, count in checks.items())
    rivals = html.escape("; ".join(row["rivals"]))
    fold = f"<details><summary>Checks and rivals</summary><ul>{items}</ul>Rejected: {rivals}</details>"
    uses = [f'<a href="#ledger-{used}">{used}</a>{f" (**{verdicts[used]}**)" * (used in shaky)}'
            for used in dict.fromkeys([*row["uses"], *shaky])]
    notes = [f"Untested: {claim['untested']}; whoever has it runs `{claim['command']}`."] if "untested" in claim else []
    notes += [f"Corrected: {{prf:ref}}`{id}-corrected`."] if row["correction"] else []
    notes += [f"Rests on {', '.join(uses)}."] if uses else []
    return f"""
<tr id="ledger-{id}" data-paper="{id[:2]}" data-verdict="{verdict}" data-evidence="{' '.join(kinds)}"><td>

**{id}**<br>{row['where']}<br>{{prf:ref}}`{id}`

</td><td>

{without_labels(row['statement'])}

{' '.join(notes)}

{fold * bool(checks)}</td><td><span class="verdict verdict-{verdict}">{verdict}</span><br>{'<br>'.join(kinds)}</td></tr>
"""


def erratum(row):
    """A claim that does not hold as printed: the printed statement, the correction or what was measured, and where."""
    measured = "; ".join(f"{check['kind']}, {check['summary']}" for check in row["evidence"])
    return f"""
### {row['id']}: {row['where']}

<div class="erratum erratum-{row['verdict']}">

**As printed** ({row['paper']})

{without_labels(row['statement'])}

**{row['verdict'].capitalize()}**

{without_labels(row['correction']) or f'No small correction reaches it; what the chapter measured: {measured}.'}

Shown at {{prf:ref}}`{row['id']}`.

</div>
"""


def fill(app, page, source):
    """Replace the markers of the ledger's page."""
    if page == PAGE:
        book = pathlib.Path(app.srcdir) / "book"
        rows, (papers, claims) = ledger(book), read_claims(book)
        shaky, verdicts = rests_on(rows), {row["id"]: row["verdict"] for row in rows}
        parts = {"totals": totals(rows, papers),
                 "rows": [table_row(row, claims[row["id"]], shaky[row["id"]], verdicts) for row in rows],
                 "errata": [erratum(row) for row in rows if row["verdict"] in ("corrected", "fails")]}
        for marker, lines in parts.items():
            source[0] = source[0].replace(f"<!-- {marker} -->", "\n".join(lines))


def write(app, error):
    """Write ledger.json beside the site's pages."""
    if not error:
        text = json.dumps(ledger(pathlib.Path(app.srcdir) / "book"), indent=1, ensure_ascii=False)
        (pathlib.Path(app.outdir) / "ledger.json").write_text(text, encoding="utf-8")


def setup(app):
    app.connect("env-get-outdated", lambda *_: [PAGE])  # it depends on every chapter
    app.connect("source-read", fill)
    app.connect("build-finished", write)
    return {"parallel_read_safe": True, "parallel_write_safe": True}
