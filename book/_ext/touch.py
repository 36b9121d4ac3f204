"""Sphinx hook: puts figures to touch on the pages with a line such as `<!-- planner -->`.

What the reader moves is computed in the browser, without a server: by touch.js, which all of them
share, and by the scripts of each. The planner's table is the one that a chapter recorded under the
type `TABLE`. A page without a script shows the figure that stands beside.
"""

import json
import pathlib
import re

from docutils import nodes

TABLE = "application/vnd.spdlib.planner+json"
SCRIPTS = {
    "planner": ["planner-table.js", "planner.js"],
    "odds": ["touch-odds.js"],
    "loss": ["touch-loss.js"],
    "leap": ["touch-means.js", "touch-leap.js"],
}
MARKER = re.compile(f"<!-- ({'|'.join(SCRIPTS)}) -->")


def recorded_table(book):
    """The table, from the outputs of the one chapter that recorded it."""
    chapters = (json.loads(path.read_text(encoding="utf-8")) for path in book.glob("[0-9]*.ipynb"))
    outputs = (output.get("data", {}) for chapter in chapters for cell in chapter["cells"]
               for output in cell.get("outputs", ()))
    (table,) = (data[TABLE] for data in outputs if TABLE in data)
    return table


def place(app, doctree, page):
    """Put an empty box in the marker's place; the script fills it."""
    for node in doctree.findall(nodes.raw):
        if found := MARKER.fullmatch(node.astext().strip()):
            name = found[1]
            kind = "planner" if name == "planner" else "touch"
            box = f'<div class="{kind}" data-figure="{name}" hidden></div>'
            node.replace_self(nodes.raw("", box, format="html"))
            doctree["touch"] = [*doctree.get("touch", []), name]


def scripts(app, page, template, context, doctree):
    """The scripts of a page that has such figures; it can load them from the file system."""
    names = [*dict.fromkeys(doctree.get("touch", []))] if doctree is not None else []
    if "planner" in names:
        table = json.dumps(recorded_table(pathlib.Path(app.srcdir) / "book"))
        target = pathlib.Path(app.outdir) / "_static/planner-table.js"
        target.parent.mkdir(parents=True, exist_ok=True)
        target.write_text(f"window.plannerTable = {table};\n", encoding="utf-8")
    for script in [*(["touch.js"] if names else []), *(s for n in names for s in SCRIPTS[n])]:
        app.add_js_file(script, loading_method="defer")


def setup(app):
    app.connect("doctree-resolved", place)
    app.connect("html-page-context", scripts)
    return {"parallel_read_safe": True, "parallel_write_safe": True}
