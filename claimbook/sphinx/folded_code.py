"""Sphinx hook: the folded code of a cell stands below what it shows.

A reader sees a check's table, or a figure, and opens the code behind it with the line below.
"""

import html

from docutils import nodes
from myst_nb.sphinx_ import HideCodeCellNode


def put_below(app, doctree, page):
    """Move the folded code of each cell behind its outputs, and say what it is."""
    for fold in list(doctree.findall(HideCodeCellNode)):
        cell = fold.parent
        checks = any('class="claim' in raw.astext() for raw in cell.findall(nodes.raw))
        fold["prompt_show"] = "the check’s code" if checks else "the code"
        cell.remove(fold)
        cell.append(fold)


def visit(writer, fold):
    writer.body.append(
        f'<details class="code"><summary>{html.escape(fold["prompt_show"])}</summary>')


def depart(writer, fold):
    writer.body.append("</details>")


def setup(app):
    app.add_node(HideCodeCellNode, override=True, html=(visit, depart))
    app.connect("doctree-resolved", put_below)
    return {"parallel_read_safe": True, "parallel_write_safe": True}
