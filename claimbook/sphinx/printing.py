"""Sphinx hook: each page carries the style that it has on paper, and in the PDF of the book."""

from pathlib import Path

STATIC = Path(__file__).parent / "static"
STYLE = STATIC / "print.css"


def setup(app):
    app.connect("builder-inited", lambda app: app.config.html_static_path.append(str(STATIC)))
    app.add_css_file(STYLE.name, priority=850)  # after the theme's and the book's own
    return {"version": "1", "parallel_read_safe": True, "parallel_write_safe": True}
