"""Sphinx hook: fills the pages of the ledger and of the errata from the recorded outputs and
nothing else, draws the verdicts, leads the links to claims, and writes ledger.json.

The pages are those whose files are called ledger and errata, with or without a number.
"""

import collections
import html
import itertools
import json
import pathlib
import re

from docutils import nodes

from ..ledger import HARMS, UNTESTED, VERDICTS, ledger, paper_of, read_claims, rests_on, summary
from . import folder_of, is_page, pages_of, verdicts
from .boxes import SOURCE

PAGES = "ledger", "errata"
MARKERS = "<!-- verdicts -->", "<!-- printed -->"
LABEL = re.compile(r"^\(\S+\)=\n|^:(?:label|name):.*\n|(?<=\$\$) *\([\w:-]+\)$|\\label\{[^}]*\}",
                   re.M)
LINKS = 'href="#ledger-', 'href="#erratum-'  # what is written by those who do not know the page
READ = {
    "clear": "clear in the published text",
    "preprint only": "printed in the preprint only",
    "damaged copy": "damaged in the copy of the paper at hand; the chapter says how it is read",
    "one figure described": "a sentence on one figure, and no law",
    "two readings": "open to two readings; the chapter puts both to the test",
    "not in words": "as claimed of the paper, which says it in no words",
}
HARM = {
    "none": "nothing hangs on it",
    "slip": "a slip; what follows from it stands",
    "use": "a figure, an error or a time is misjudged",
    "privacy": "a promise of privacy hangs on it",
}


def without_labels(text):
    """The text of a statement that stands elsewhere as well: a label may stand once in a book."""
    return LABEL.sub("", text)


def scope(row):
    """What the claim covers: domain and criterion, how surely it is read, and what harm it does."""
    parts = {
        "Domain": row["domain"],
        "Criterion": row["criterion"],
        "Text": READ.get(row["reading"], ""),
        "Harm": HARM.get(row["harm"], ""),
    }
    return "".join(f"<p><b>{name}</b>: {html.escape(text)}.</p>" for name, text in parts.items()
                   if text)


def checks(row):
    """Every check of the claim, equal ones once, and the rivals; they open at a click."""
    if not row["evidence"]:
        return ""
    texts = (f"{check['kind']}: {check['summary']}" for check in row["evidence"])
    counts = collections.Counter(texts)
    items = [
        f"<li>{html.escape(text)}{f', {count} times' if count > 1 else ''}</li>"
        for text, count in counts.items()
    ]
    rivals = html.escape("; ".join(row["rivals"]))
    return ("<details><summary>checks and rivals</summary>"
            f"<ul>{''.join(items)}</ul><p>Rejected: {rivals}.</p></details>")


def notes(row, claim, shaky, verdict_of):
    """Sentences below a statement: where it stands, why it is untested, what it rests on."""
    yield f"The chapter has it as {{prf:ref}}`{row['id']}`."
    if UNTESTED in claim:
        yield f"Untested: {claim[UNTESTED]}; whoever has it runs `{claim['command']}`."
    if row["verdict"] in VERDICTS[1:]:
        yield (f'What is wrong, and what takes its place, is in <a href="#erratum-{row["id"]}">'
               "the errata</a>.")
    uses = []
    for used in dict.fromkeys([*row["uses"], *shaky]):
        verdict = f" (**{verdict_of[used]}**)" if used in shaky else ""
        uses.append(f'<a href="#ledger-{used}">{used}</a>{verdict}')
    if uses:
        yield f"Rests on {', '.join(uses)}."


def line(row, claim, shaky, verdict_of):
    """A claim as a line that opens: raw HTML around MyST.

    `shaky` are those claims it rests on that do not hold.
    """
    id, verdict, paper = row["id"], row["verdict"], paper_of(row["id"])
    kinds = list(dict.fromkeys(check["kind"] for check in row["evidence"]))
    traits = f'data-paper="{paper}" data-verdict="{verdict}" data-evidence="{" ".join(kinds)}"'
    return f"""
<details class="claim-line" id="ledger-{id}" {traits}><summary>
<span class="id">{id}</span>
<span class="phrase">{html.escape(row["title"])}</span>
<span class="place">{html.escape(row["where"])}</span>
<span><span class="verdict verdict-{verdict}">{verdict}</span></span>
<span class="kinds">{", ".join(kinds)}</span></summary>

{without_labels(row["statement"])}

{" ".join(notes(row, claim, shaky, verdict_of))}

{scope(row)}{checks(row)}</details>
"""


def erratum(row):
    """A claim that does not stand as printed: in a sentence; then, at a click, in full."""
    verdict = row["verdict"]
    word = {"corrected": "Corrected", "fails": "Measured"}[verdict]
    return f"""
<details class="erratum erratum-{verdict}" id="erratum-{row["id"]}"><summary>
<span class="id">{row["id"]}</span>
<span class="phrase">{html.escape(row["finding"] or row["title"])}</span>
<span><span class="verdict verdict-{verdict}">{verdict}</span></span></summary>

**{SOURCE.get(row["reading"], "As printed")}** ({row["where"]})

{without_labels(row["statement"])}

**{word}**

{without_labels(row["measured"] or row["correction"])}

Shown at {{prf:ref}}`{row["id"]}`, with <a href="#ledger-{row["id"]}">its line in the ledger</a>.

</details>
"""


def errata(rows, papers):
    """What does not stand as printed, by paper and harm, the most harmful first."""

    def order(row):
        return (-HARMS.index(row["harm"] or "none"), -VERDICTS.index(row["verdict"]), row["id"])

    for prefix, paper in papers.items():
        wrong = [
            row for row in rows if paper_of(row["id"]) == prefix and row["verdict"] in VERDICTS[1:]
        ]
        if wrong:
            yield f"\n## {paper['title']}\n"
        for harm, alike in itertools.groupby(sorted(wrong, key=order), lambda row: row["harm"]):
            if harm:
                yield f"\n### {HARM[harm][0].upper()}{HARM[harm][1:]}\n"
            yield from map(erratum, alike)


def fill(app, page, source):
    """Replace the markers of the two pages."""
    if not any(is_page(page, name) for name in PAGES):
        return
    book = folder_of(app)
    rows, (papers, claims) = ledger(book), read_claims(book)
    shaky, verdict_of = rests_on(rows), {row["id"]: row["verdict"] for row in rows}
    options = [f"<option>{prefix}</option>" for prefix in papers]
    lines = [line(row, claims[row["id"]], shaky[row["id"]], verdict_of) for row in rows]
    parts = {"rows": lines, "errata": errata(rows, papers), "papers": options}
    for marker, lines in parts.items():
        source[0] = source[0].replace(f"<!-- {marker} -->", "\n".join(lines))


def pages(app, env, *changes):
    """The two pages are always out of date, since they depend on every chapter."""
    return [page for name in PAGES for page in pages_of(env, name)]


def lead(app, doctree, page):
    """Lead links to claims to the two pages, and put the verdicts, in two ways, at markers."""
    found = [next(iter(pages_of(app.env, name)), None) for name in PAGES]
    address = [target and app.builder.get_relative_uri(page, target) for target in found]
    for node in list(doctree.findall(nodes.raw)):
        text = node.astext()
        if text.strip() in MARKERS:
            book = folder_of(app)
            rows, (papers, _) = ledger(book), read_claims(book)
            drawn = (verdicts.figure(rows, papers, address[0]
                                     or ""), f"<p><b>{summary(rows)}</b></p>")
            text = drawn[MARKERS.index(text.strip())]
        for link, target, there in zip(LINKS, found, address, strict=True):
            if target and page != target:
                text = text.replace(link, link.replace("#", f"{there}#"))
        if text != node.astext():
            node.replace_self(nodes.raw("", text, format=node["format"]))


def write(app, error):
    """Write ledger.json beside the site's pages."""
    if not error:
        rows = ledger(folder_of(app))
        text = json.dumps(rows, indent=1, ensure_ascii=False)
        (pathlib.Path(app.outdir) / "ledger.json").write_text(text, encoding="utf-8")


def setup(app):
    app.connect("env-get-outdated", pages)
    app.connect("source-read", fill)
    app.connect("doctree-resolved", lead)
    app.connect("build-finished", write)
    return {"parallel_read_safe": True, "parallel_write_safe": True}
