"""Sphinx hook: fills the markers of the ledger's page from the recorded outputs at each build, and writes ledger.json."""

import collections
import html
import json
import pathlib
import re

from spdlib.claims import ledger, read_claims, rests_on

PAGE = "book/18_ledger"
LABEL = re.compile(r"^\(\S+\)=\n|^:(?:label|name):.*\n|(?<=\$\$) *\([\w:-]+\)$|\\label\{[^}]*\}", re.M)  # each may stand once in a book
TALLY = {"holds": "hold", "corrected": "corrected", "fails": "fail", "untested": "untested"}


def totals(rows, papers):
    """A line for each paper: how many of its claims the book has reached, and with what verdicts."""
    for prefix, paper in papers.items():
        verdicts = [row["verdict"] for row in rows if row["id"].startswith(prefix)]
        tally = ", ".join(f"{verdicts.count(word)} {plural}" for word, plural in TALLY.items() if word in verdicts)
        yield f"- **{prefix}**, {paper['title']}. {len(verdicts)} of {paper['claims']} claims reached{': ' * bool(tally)}{tally}."


def table_row(row, claim, shaky, verdicts):
    """A claim as a row: raw HTML around MyST, which the blank lines separate. `shaky` is what it rests on that does not hold."""
    kinds = " ".join(dict.fromkeys(check["kind"] for check in row["evidence"]))
    links = [f'<a href="#ledger-{used}">{used}</a>' + f" (**{verdicts[used]}**)" * (used in shaky) for used in dict.fromkeys([*row["uses"], *shaky])]
    checks = collections.Counter(f"{check['kind']}: {html.escape(check['summary'])}" for check in row["evidence"])
    items = "".join(f"<li>{text}{f', {count} times' * (count > 1)}</li>" for text, count in checks.items())
    notes = [f"Untested: {claim['untested'].rstrip('.')}. Whoever has it runs `{claim['command']}`."] if "untested" in claim else []
    notes += [f"Corrected: {{prf:ref}}`{row['id']}-corrected`."] if row["correction"] else []
    notes += [f"Rests on {', '.join(links)}."] if links else []
    fold = f"<details><summary>Checks and rivals</summary><ul>{items}</ul>Rejected: {html.escape('; '.join(row['rivals']))}</details>"
    return f"""
<tr id="ledger-{row['id']}" data-paper="{row['id'][:2]}" data-verdict="{row['verdict']}" data-evidence="{kinds}"><td>

**{row['id']}**<br>{row['where']}<br>{{prf:ref}}`{row['id']}`

</td><td>

{LABEL.sub('', row['statement'])}

{' '.join(notes)}

{fold * bool(checks)}</td><td><span class="verdict verdict-{row['verdict']}">{row['verdict']}</span></td><td>{kinds.replace(' ', '<br>')}</td></tr>
"""


def erratum(row):
    """A claim that does not hold as printed: the printed statement, the correction or what was measured, and where."""
    read = "; ".join(f"{check['kind']}, {check['summary']}" for check in row["evidence"])
    truth = LABEL.sub("", row["correction"]) or f"No small correction reaches it; what the chapter measured: {read}."
    return (f"### {row['id']}: {row['where']}\n\n<div class=\"erratum erratum-{row['verdict']}\">\n\n**As printed** ({row['paper']})\n\n"
            f"{LABEL.sub('', row['statement'])}\n\n**{row['verdict'].capitalize()}**\n\n{truth}\n\nShown at {{prf:ref}}`{row['id']}`.\n\n</div>\n")


def fill(app, page, source):
    """Replace the markers of the ledger's page."""
    if page == PAGE:
        book = pathlib.Path(app.srcdir) / "book"
        rows, (papers, claims) = ledger(book), read_claims(book)
        shaky, verdicts = rests_on(rows), {row["id"]: row["verdict"] for row in rows}
        parts = {"totals": totals(rows, papers), "errata": [erratum(row) for row in rows if row["verdict"] in ("corrected", "fails")],
                 "rows": [table_row(row, claims[row["id"]], shaky[row["id"]], verdicts) for row in rows]}
        for marker, lines in parts.items():
            source[0] = source[0].replace(f"<!-- {marker} -->", "\n".join(lines))


def write(app, error):
    """Write ledger.json beside the site's pages."""
    if not error:
        text = json.dumps(ledger(pathlib.Path(app.srcdir) / "book"), indent=1, ensure_ascii=False)
        (pathlib.Path(app.outdir) / "ledger.json").write_text(text, encoding="utf-8")


def setup(app):
    app.connect("env-get-outdated", lambda *_: [PAGE])
    app.connect("source-read", fill)
    app.connect("build-finished", write)
    return {"parallel_read_safe": True, "parallel_write_safe": True}
