"""Sphinx hook: puts the planner on the pages with a line `<!-- planner -->`.

Its table is the one that a chapter recorded under the type `TABLE`; what the reader moves is
computed from it in the browser, by planner.js, without a server. A page without a script shows the
figure that stands below the planner.
"""

import json
import pathlib

from docutils import nodes

TABLE = "application/vnd.spdlib.planner+json"
MARKER = "<!-- planner -->"


def recorded_table(book):
    """The table, from the outputs of the one chapter that recorded it."""
    chapters = (json.loads(path.read_text(encoding="utf-8")) for path in book.glob("[0-9]*.ipynb"))
    outputs = (output.get("data", {}) for chapter in chapters for cell in chapter["cells"]
               for output in cell.get("outputs", ()))
    (table,) = (data[TABLE] for data in outputs if TABLE in data)
    return table


def place(app, doctree, page):
    """Put an empty planner in the marker's place; the script fills it."""
    for node in doctree.findall(nodes.raw):
        if node.astext().strip() == MARKER:
            node.replace_self(nodes.raw("", '<div class="planner" hidden></div>', format="html"))
            doctree["planner"] = True


def scripts(app, page, template, context, doctree):
    """The scripts of a page that has a planner; a page can load them from the file system."""
    if doctree is None or not doctree.get("planner"):
        return
    table = json.dumps(recorded_table(pathlib.Path(app.srcdir) / "book"))
    target = pathlib.Path(app.outdir) / "_static/planner-table.js"
    target.parent.mkdir(parents=True, exist_ok=True)
    target.write_text(f"window.plannerTable = {table};\n", encoding="utf-8")
    for name in ("planner-table.js", "planner.js"):
        app.add_js_file(name, loading_method="defer")


def setup(app):
    app.connect("doctree-resolved", place)
    app.connect("html-page-context", scripts)
    return {"parallel_read_safe": True, "parallel_write_safe": True}
