"""Sphinx hook: pages that a phone shows at once.

Nothing that a first look does not need holds a page up. All style sheets become one, without the
rules that no page uses; scripts wait until the page stands; formulas are set as they come near the
window (maths.js); figures load as they do, and keep their place until then.
"""

import html
import pathlib
import re
import struct

from sphinx.builders.html._assets import _CascadingStyleSheet, _JavaScript
from sphinx.errors import ExtensionError

THEME = ["_static/basic.css", "_static/styles/pydata-sphinx-theme.css"]  # before all others
MEASURE = ',"complete"===document.readyState?I():window.addEventListener("load",I)'
FONT = "fontawesome.js"  # 1.5 MB for a dozen icons; icons.css has these
FRONT = """<!doctype html>
<html lang="{language}">
<meta charset="utf-8">
<meta name="viewport" content="width=device-width, initial-scale=1">
<title>{title}</title>
<link rel="icon" href="data:,">
<meta http-equiv="refresh" content="0; url={first}">
<a href="{first}">{title}</a>
</html>
"""
FIGURE = re.compile(r'<img (?=[^>]*src="[^"]*_images/([^"/]+\.png)")')
FORMULA = re.compile(r'(<span class="math[^"]*")>(?=\\\((.*?)\\\)</span>)', re.S)
MARKED = re.compile(r'(<span class="math[^>]*>\\\([^<]*\\\)</span>[.,;:!?)’”-]+)')
STYLED = (r"\\(?:math\w+|operatorname|text\w*|left|right|[td]?frac|[bB]igg?[lr]?"
          r"|hat|bar|tilde)\b\*?|\\[,;! ]")
SPACED = r"[=+-]|\\(?:le|ge|leq|geq|approx|sim|in|to|cdot|times|subset|mid|neq)\b"
INCH = 96  # CSS pixels; type of 11 points in a figure is then as large as on the page


def size(png):
    """Width and height of a figure in CSS pixels, by the resolution that its file states."""
    head = png.read_bytes()[:400]
    width, height = struct.unpack(">2I", head[16:24])
    start = head.find(b"pHYs") + 4
    per_metre = struct.unpack(">I", head[start : start + 4])[0] if start > 3 else INCH / 0.0254
    scale = INCH / (per_metre * 0.0254)
    return round(width * scale), round(height * scale)


def wanted(script):
    """All but what would run before the script that it adds to; nothing reads what it sets."""
    return not script.attributes.get("body", "").startswith("DOCUMENTATION_OPTIONS.")


def waiting(script):
    """The script as one that waits for the page; what stands in the page itself cannot."""
    if not script.filename:
        return script
    attributes = script.attributes | {"defer": "defer"}
    return _JavaScript(script.filename, priority=script.priority, **attributes)


def room(formula):
    """About the width of a formula in ems, so that the text need not move when it is set."""
    tex = re.sub(r"&\w+;", "=", formula)
    spaces = len(re.findall(SPACED, tex))
    tex = re.sub(r"\\[a-zA-Z]+|\\.", "x", re.sub(STYLED, "", tex))
    raised = "".join(re.findall(r"[_^]\s*(\{[^{}]*\}|\w)", tex))
    signs, small = len(re.findall(r"[^\s{}_^&]", tex)), len(re.findall(r"\w", raised))
    return 0.65 * (signs + spaces) - 0.2 * small


def lighten(app, page, template, context, doctree):
    """One style sheet, scripts that wait, figures that load when they are near."""
    sheets = sorted(context["css_files"], key=lambda sheet: sheet.priority)
    app.builder.sheets = [sheet.filename for sheet in sheets]
    context["css_files"] = [_CascadingStyleSheet("_static/site.css")]
    if doctree is not None:  # the indexes and the search are left as they are
        context["script_files"] = [*map(waiting, filter(wanted, context["script_files"]))]

    paths = {name: path for path, name in app.builder.images.items()}

    def figure(match):
        width, height = size(pathlib.Path(app.srcdir, paths[match[1]]))
        return f'<img loading="lazy" width="{width}" height="{height}" '

    if "body" in context:
        body = FIGURE.sub(figure, context["body"])
        body = FORMULA.sub(
            lambda match: f'{match[1]} style="--room: {room(match[2]):.1f}em">', body)
        # no line begins with the full stop that ends a formula
        context["body"] = MARKED.sub(r'<span class="marked">\1</span>', body)


def used(rules, words):
    """The style rules of which some page or some script has every class and every id."""

    def needed(rule):
        selectors = re.sub(r"\[[^]]*\]", "", rule[1])
        while "(" in selectors:  # what stands in :not(…) need not be there
            selectors = re.sub(r"\([^()]*\)", "", selectors)
        names = [{*re.findall(r"[.#]([\w-]+)", selector)} for selector in selectors.split(",")]
        return rule[0] if any(wanted <= words for wanted in names) else ""

    rules = re.sub(r"([^{}@;]+)\{[^{}]*\}", needed, rules)
    return re.sub(r"@media[^{}]*\{\s*\}", "", rules)


def patch(script):
    """Take from the theme's script what lays out the whole page at once, at the start and after
    each formula: it measures every box of code. book.js does so for those near the window."""
    text = script.read_text(encoding="utf-8")
    if text.count(MEASURE) != 1:
        raise ExtensionError(f"{script.name} is without {MEASURE!r}; accepted is one such call")
    text = text.replace(MEASURE, "")
    text = re.sub(r"//# sourceMappingURL=.*", "", text)  # the map no longer fits
    script.write_text(text, encoding="utf-8")


def finish(app, error):
    """Write site.css, and an index.html that leads to the first page."""
    if error:
        return
    out, static = pathlib.Path(app.outdir), pathlib.Path(app.outdir, "_static")
    patch(static / "scripts/pydata-sphinx-theme.js")
    scripts = [path for path in static.rglob("*.js") if not {"mathjax", FONT} & {*path.parts}]
    words = set()
    for path in [*out.rglob("*.html"), *scripts]:
        words.update(re.findall(r"[\w-]+", path.read_text(encoding="utf-8")))
    sheets = [*THEME, *app.builder.sheets]
    rules = "\n".join((out / sheet).read_text(encoding="utf-8") for sheet in sheets)
    notices = re.findall(r"/\*!.*?\*/", rules, re.S)
    rules = re.sub(r"/\*.*?\*/|@(?:charset|import)[^;]*;|@font-face\s*\{[^}]*\}", "", rules,
                   flags=re.S)
    text = "\n".join([*notices, used(rules, words)])
    (static / "site.css").write_text(text, encoding="utf-8")

    (out / "index.html").write_text(FRONT.format(
        language=app.config.language, title=html.escape(app.config.html_title),
        first=html.escape(app.builder.get_target_uri(app.config.root_doc))), encoding="utf-8")


def setup(app):
    app.config.mathjax_path = "maths.js"
    app.connect("html-page-context", lighten, priority=900)  # after the theme
    app.connect("build-finished", finish, priority=900)  # after all others
    return {"parallel_read_safe": True, "parallel_write_safe": False}
