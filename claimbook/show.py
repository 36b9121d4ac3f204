"""What a chapter shows: a table, and the block of a claim, to people and to programs alike.

People see HTML; nbval and a terminal see the same rows as plain text.
"""

import html

from .ledger import MIME, VERDICT

COLUMNS = "candidate", "what it says", "margin", "survives"


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
            "text/html": _html_table("numbers", html.escape(caption or ""), header, rows, marks),
            "text/plain": f"{caption}\n{text}" if caption else text,
        },
        raw=True,
    )


def claim_block(record) -> None:
    """Show a `Record`: a table for each check, with a row for each candidate.

    The link leads to the row of the ledger, on whatever page that stands: the book's build
    completes it.
    """
    from IPython.display import display

    id, verdict = record["id"], record["verdict"]
    lines, tables = [f"{id} {verdict}"], []
    for check in record["checks"]:
        rows = [*map(list, _candidates(check))]
        body = aligned([COLUMNS, *rows]).replace("\n", "\n    ")
        summary = f"{check['summary']}; would not notice {check['unnoticed']}"
        lines.append(f"  {check['evidence']}, {summary}\n    {body}")
        title = f"<b>{check['evidence']}</b> {html.escape(summary)}"
        tables.append(_html_table("check", title, COLUMNS, rows, [""] * 4, survivor=True))
    block = (f'<div class="claim claim-{verdict}"><p><a href="#ledger-{id}">{id}</a> '
             f"<strong>{verdict}</strong></p>{''.join(tables)}</div>")
    display({MIME: record, "text/html": block, "text/plain": "\n".join(lines)}, raw=True)


def _candidates(check):
    """A row for each candidate of a check: what it is, what it says, its margin, yes or no."""
    margins = {check["survivor"]: check["how"]} | check["rejected"]
    ranks = {name: rank for rank, name in enumerate(VERDICT)}
    for name in sorted(margins, key=lambda name: ranks.get(name, len(ranks))):
        role, words = (name, check["says"][name]) if name in VERDICT else ("rival", name)
        yield role, words, margins[name], "yes" if name == check["survivor"] else "no"


def _html_table(kind, caption, header, rows, marks, survivor=False):
    """HTML of a table; with `survivor` the row that ends in yes is marked."""
    caption = f"<caption>{caption}</caption>" if caption else ""
    columns = zip(header, marks, strict=True)
    head = "".join(f'<th scope="col"{mark}>{html.escape(name)}</th>' for name, mark in columns)
    body = []
    for row in rows:
        entries = "".join(f"<td{mark}>{html.escape(entry)}</td>"
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
