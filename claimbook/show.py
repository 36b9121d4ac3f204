"""What a chapter shows: a table, and the block of a claim, to people and to programs alike.

People see HTML; nbval and a terminal see the same rows as plain text.
"""

import html
import re

from .ledger import MIME

COLUMNS = "candidate", "what it says", "margin", "survives"
STATEMENTS = {
    "printed": "the printed statement",
    "stated": "the statement",
    "corrected": "the corrected one",
    "measured": "the measured one",
}
# an index, as in ε_p or χ²_d; names of programs, as in log_mean, have none
INDEX = re.compile(r"((?:(?<![A-Za-z_])[A-Za-z]|[Α-Ωα-ω∇‖])²?)_(min|max|[A-Za-z]{1,2})\b")


def aligned(rows) -> str:
    """Rows of a table as lines with aligned columns."""
    texts = [[str(entry) for entry in row] for row in rows]
    widths = [max(map(len, column)) for column in zip(*texts, strict=True)]
    lines = [[entry.ljust(width) for entry, width in zip(row, widths, strict=True)]
             for row in texts]
    return "\n".join("  ".join(line).rstrip() for line in lines)


def table(header, rows, caption: str | None = None) -> None:
    """Show a table of numbers or words.

    Parameters
    ----------
    header : sequence of str
        One entry a column.
    rows : iterable of sequences
        Of the header's length. A float is shown with four significant digits, everything else as
        `str` has it; give a string where a number wants other digits.
    caption : str, optional

    Raises
    ------
    ValueError
        Where a row is not as long as the header.
    """
    from IPython.display import display

    rows = [[_words(entry) for entry in row] for row in rows]
    for row in rows:
        if len(row) != len(header):
            raise ValueError(f"row is {row}; accepted are rows of {len(header)} entries, one for "
                             f"each of {list(header)}")
    numeric = [all(_numeric(row[i]) for row in rows) for i in range(len(header))]
    marks = [' class="n"' if right else "" for right in numeric]
    text = aligned([header, *rows])
    display(
        {
            "text/html": _html_table("numbers", _typeset(caption or ""), header, rows, marks),
            "text/plain": f"{caption}\n{text}" if caption else text,
        },
        raw=True,
    )


def claim_block(record) -> None:
    """Show a `Record`: what came of it in one line, and folded a table for each check."""
    from IPython.display import display

    display({
        MIME: record,
        "text/html": claim_html(record),
        "text/plain": claim_text(record)
    }, raw=True)


def in_one_line(record) -> str:
    """What came of the checks: "the printed statement and 7 rivals rejected; proof, search"."""
    names = {name for check in record["checks"] for name in check["rejected"]}
    rejected = [words for name, words in STATEMENTS.items() if name in names]
    if count := len(names - set(STATEMENTS)):
        rejected.append(f"{count} rival{'s' * (count > 1)}")
    kinds = dict.fromkeys(check["evidence"] for check in record["checks"])
    *some, last = rejected
    every = f"{', '.join(some)} and {last}" if some else last
    return f"{every} rejected; {', '.join(kinds)}"


def claim_text(record) -> str:
    """The block of a claim as lines, with a row for each candidate of a check."""
    lines = [f"{record['id']} {record['verdict']}: {in_one_line(record)}"]
    for check in record["checks"]:
        body = aligned([COLUMNS, *_candidates(check)]).replace("\n", "\n    ")
        lines.append(f"  {check['evidence']}, {_summary(check)}\n    {body}")
    return "\n".join(lines)


def claim_html(record) -> str:
    """The same, with the checks folded.

    The link leads to the row of the ledger, on whatever page that stands: the book's build
    completes it.
    """
    id, verdict, tables = record["id"], record["verdict"], []
    for check in record["checks"]:
        title = f"<b>{check['evidence']}</b> {_typeset(_summary(check))}"
        tables.append(
            _html_table("check", title, COLUMNS, _candidates(check), [""] * 4, survivor=True))
    return (f'<div class="claim claim-{verdict}"><p><a href="#ledger-{id}">{id}</a> '
            f"<strong>{verdict}</strong>: {in_one_line(record)}</p><details><summary>the checks, "
            f"and what they would not notice</summary>{''.join(tables)}</details></div>")


def _summary(check):
    return f"{check['summary']}; would not notice {check['unnoticed']}"


def _candidates(check):
    """A row for each candidate of a check: what it is, what it says, its margin, yes or no."""
    margins = {check["survivor"]: check["how"]} | check["rejected"]
    ranks = {name: rank for rank, name in enumerate(STATEMENTS)}
    for name in sorted(margins, key=lambda name: ranks.get(name, len(ranks))):
        role, words = (name, check["says"][name]) if name in STATEMENTS else ("rival", name)
        yield role, words, margins[name], "yes" if name == check["survivor"] else "no"


def _html_table(kind, caption, header, rows, marks, survivor=False):
    """HTML of a table; with `survivor` the row that ends in yes is marked."""
    caption = f"<caption>{caption}</caption>" if caption else ""
    columns = zip(header, marks, strict=True)
    head = "".join(f'<th scope="col"{mark}>{_typeset(name)}</th>' if name else f"<td{mark}></td>"
                   for name, mark in columns)
    body = []
    for row in rows:
        entries = "".join(f"<td{mark}>{_typeset(entry)}</td>"
                          for entry, mark in zip(row, marks, strict=True))
        line = ' class="survivor"' if survivor and row[-1] == "yes" else ""
        body.append(f"<tr{line}>{entries}</tr>")
    return (f'<table class="{kind}">{caption}<thead><tr>{head}</tr></thead>'
            f"<tbody>{''.join(body)}</tbody></table>")


def _words(entry):
    """An entry of a table as it is shown."""
    return f"{entry:.4g}" if isinstance(entry, float) else str(entry)


def _numeric(text):
    """Whether a column with this entry is one of numbers, which are set flush right."""
    return not text.strip("–-") or text.lstrip("−-+<≥≤≈")[:1].isdigit()


def _typeset(text):
    """Text as HTML, in which an index stands below the line."""
    return INDEX.sub(r"\1<sub>\2</sub>", html.escape(text))
