"""Sphinx hook: the folded code of a cell stands below what it shows, and says what it is for.

A reader sees a check's table, or a figure, and opens the code behind it with the line below. A
cell with the tag `hide-cell` is the answer of an exercise: it folds whole, code and output.
"""

import ast
import html
import re

from docutils import nodes
from myst_nb.sphinx_ import HideCodeCellNode

CLAIM = re.compile(r'<div class="claim .*?href="#ledger-([A-Z]+-\d+)"', re.S)


def put_below(app, doctree, page):
    """Move the folded code of each cell behind its outputs, and say what it is."""
    numbers = app.env.toc_fignumbers.get(page, {}).get("figure", {})
    for fold in list(doctree.findall(HideCodeCellNode)):
        cell = fold.parent
        if cell is None:  # MyST-NB gives the fold of a whole cell none
            fold["prompt_show"] = "the answer"
            continue
        cell.remove(fold)
        fold["prompt_show"] = code_of(fold.astext(), cell, numbers)
        cell.append(fold)


def code_of(source, cell, numbers):
    """What the code of a cell is for: "the code of Fig. 3.1", or the names that it defines.

    `numbers` are those of the page's figures, by id. The cells that begin a chapter hold "the
    parameters" and "the imports".
    """
    if "tag_parameters" in cell["classes"]:
        return "the parameters"
    shown = [raw.astext() for raw in cell.findall(nodes.raw)]
    figures = [
        numbers[id] for figure in cell.findall(nodes.figure) for id in figure["ids"]
        if id in numbers
    ]
    parts = [f"Fig. {'.'.join(map(str, number))}" for number in figures]
    if claims := dict.fromkeys(id for text in shown for id in CLAIM.findall(text)):
        parts.append(f"the checks of {listed(claims)}")
    if not parts and (count := sum(text.count('<table class="numbers"') for text in shown)):
        parts = ["the table" if count == 1 else "the tables"]
    if parts := parts or defined(source):
        return f"the code of {listed(parts)}"
    return "the imports" if imports(source) else "the code"


def statements(source):
    """The statements of a cell; none of what is no Python."""
    try:
        return ast.parse(source).body
    except SyntaxError:
        return []


def imports(source):
    """Whether at least half of what a cell does is to import."""
    body = statements(source)
    return 0 < len(body) <= 2 * sum(isinstance(node, (ast.Import, ast.ImportFrom)) for node in body)


def defined(source):
    """The functions and classes that a cell defines, at most four of them."""
    body = statements(source)
    names = [node.name for node in body if isinstance(node, (ast.FunctionDef, ast.ClassDef))]
    return names if len(names) < 5 else [*names[:4], "others"]


def listed(words):
    """Words in a row: "a, b and c"."""
    *some, last = words
    return f"{', '.join(some)} and {last}" if some else last


def visit(writer, fold):
    kind = "code" if fold.parent else "answer"
    writer.body.append(
        f'<details class="{kind}"><summary>{html.escape(fold["prompt_show"])}</summary>')


def depart(writer, fold):
    writer.body.append("</details>")


def setup(app):
    app.add_node(HideCodeCellNode, override=True, html=(visit, depart))
    app.connect("doctree-resolved", put_below)
    return {"parallel_read_safe": True, "parallel_write_safe": True}
