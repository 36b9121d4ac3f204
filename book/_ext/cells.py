"""Sphinx hook: how a cell is shown. Its figure is the image alone, and folded code stands below.

A reader sees a check's table, or a figure, and opens the code behind it with the line below.
"""

import contextlib
import html

import myst_nb.sphinx_
from docutils import nodes
from myst_nb.core.render import create_figure_context
from myst_nb.sphinx_ import HideCodeCellNode


@contextlib.contextmanager
def figure_of_an_image(renderer, options, line):
    """In the place of myst-nb's context, which makes a figure, with the same name and caption, of
    every output of a cell: here only of an image, so that a table may stand under it."""
    here, output = renderer.current_node, nodes.container()
    with renderer.current_node_context(output):
        yield
    if any(output.findall(nodes.image)):
        with create_figure_context(renderer, options, line):
            renderer.current_node.extend(output.children)
    else:
        here.extend(output.children)


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
    myst_nb.sphinx_.create_figure_context = figure_of_an_image
    app.add_node(HideCodeCellNode, override=True, html=(visit, depart))
    app.connect("doctree-resolved", put_below)
    return {"parallel_read_safe": True, "parallel_write_safe": True}
