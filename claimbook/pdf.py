"""One PDF of a whole book, which Chromium prints from the pages of its site.

They are printed one after the other, since each begins with the number behind the last one's; then
a title and contents, which need these numbers. At last the links between pages become jumps.
"""

import html
import io
import json
import pathlib
import re
import string
import time
import urllib.parse
from dataclasses import dataclass, field

from . import build
from .book import Book
from .browser import Browser, chromium
from .ledger import tally
from .new import staged
from .run import require_packages
from .sphinx.printing import STYLE

PAPER = pathlib.Path(__file__).parent / "paper"


@dataclass
class Page:
    """A page of the site, with its part of the book, and what it is once it is printed."""

    path: pathlib.Path
    part: str
    headings: list = field(default_factory=list)  # (level, words, id)
    pdf: bytes = b""


def main(book: Book) -> None:
    """Build the site where it is not fresh, and print it."""
    require_packages(["jupyter_book", "pypdf"])
    program = chromium()  # before the site is built
    build.site(book)
    config, pages = described(book)
    print(f"printing {len(pages)} pages of the site", flush=True)
    with Browser(program) as browser:
        before = 0
        for page in pages:
            start = time.monotonic()
            count = print_page(browser, page, before)
            before += count
            print(f"  {page.path.stem:24} {count:3} pages{time.monotonic() - start:6.1f} s",
                  flush=True)
        volume = Volume()
        for page in pages:
            volume.add(page.path, page.pdf)
        volume.put_first(browser.printed(front(book, config, pages, volume)))
    volume.link()
    volume.outline(pages)
    name = "-".join(re.findall(r"\w+", config["title"].lower()))
    path = book.build / f"{name or 'book'}.pdf"
    count = volume.write(path, config)
    print(f"{count} pages, {path.stat().st_size / 1e6:.1f} MB: {path}")


def described(book) -> tuple[dict, list[Page]]:
    """Title and author of the book, and its pages in order, as its two configurations have them."""
    import yaml
    from sphinx_external_toc.parsing import FileItem, parse_toc_yaml

    folder = staged(book)
    config = yaml.safe_load((folder / "_config.yml").read_text(encoding="utf-8")) or {}
    contents = parse_toc_yaml(folder / "_toc.yml")

    def below(name, part):
        path = book.build / "html" / re.sub(r"\.(md|ipynb|rst)$", "", name)
        yield Page(path.with_name(f"{path.name}.html"), part)
        for tree in contents[name].subtrees:
            for item in tree.items:
                if isinstance(item, FileItem):
                    yield from below(str(item), tree.caption or part)

    known = {name: str(config.get(name) or "") for name in ("title", "author")}
    return known, list(below(contents.root.docname, ""))


def print_page(browser, page, before) -> int:
    """Print a page of the site, whose first number is the one behind `before`; count its pages.

    OSError where a formula or a figure did not come.
    """
    import pypdf

    browser.visit(page.path.as_uri())
    script = (PAPER / "prepare.js").read_text(encoding="utf-8")
    shown = browser.run(script, STYLE.read_text(encoding="utf-8"), before)
    if shown["missing"]:
        raise OSError(f"{page.path.name} is without {len(shown['missing'])} of its formulas and "
                      f"figures, first of all {shown['missing'][0][:80]!r}")
    page.headings = shown["headings"]
    page.pdf = browser.printed()
    return len(pypdf.PdfReader(io.BytesIO(page.pdf)).pages)


def front(book, config, pages, volume) -> str:
    """HTML of the title and of the contents, whose links lead to the pages of the site."""
    rows = json.loads((book.build / "html/ledger.json").read_text(encoding="utf-8"))
    built = time.localtime((book.build / "html/ledger.json").stat().st_mtime)
    lines = [f"{len(rows)} claims: {tally(rows)}", time.strftime("%d %B %Y", built).lstrip("0")]
    contents, part = [], ""
    for page in pages:
        if page.part != part:
            part = page.part
            contents.append(f"<h3>{html.escape(part)}</h3>" if part else "")
        for level, words, id in page.headings:
            number = volume.place(page.path, id)[0] + 1
            contents.append(f'<a class="level{level}" href="{page.path.as_uri()}#{id}">'
                            f"{html.escape(words)}<i></i>{number}</a>")
    text = string.Template((PAPER / "front.html").read_text(encoding="utf-8"))
    return text.substitute(title=html.escape(config["title"]), author=html.escape(config["author"]),
                           lines="".join(f"<p>{html.escape(line)}</p>" for line in lines),
                           contents="\n".join(contents))


class Volume:
    """The PDF that is put together; its pages are counted from 0, without those of the front."""

    def __init__(self):
        import pypdf

        self._writer, self._front = pypdf.PdfWriter(), 0
        self._places, self._printed = {}, []

    def add(self, path, pdf):
        """Add what was printed of a page of the site, and keep the places in it."""
        import pypdf

        reader = pypdf.PdfReader(io.BytesIO(pdf))
        before = len(self._printed)
        self._places[path, ""] = before, float(reader.pages[0].mediabox.top)
        for name, place in reader.named_destinations.items():
            number = before + reader.get_destination_page_number(place)
            self._places[path, name.removeprefix("/")] = number, float(place.top)
        for sheet in reader.pages:
            self._writer.add_page(sheet)
            self._printed.append(path)

    def put_first(self, pdf):
        """Put what was printed of title and contents before all."""
        import pypdf

        for sheet in pypdf.PdfReader(io.BytesIO(pdf)).pages:
            self._writer.insert_page(sheet, self._front)
            self._printed.insert(self._front, None)
            self._front += 1

    def place(self, path, id=""):
        """Page and height of an id on a page of the site; its beginning where the id is unknown."""
        return self._places.get((path, id)) or self._places.get((path, ""))

    def link(self):
        """Make jumps of the links to what is printed; those to other files of the site go."""
        from pypdf.generic import ArrayObject, FloatObject, NameObject, NullObject

        for sheet, path in zip(self._writer.pages, self._printed, strict=True):
            kept = ArrayObject()
            for mark in sheet.get("/Annots", ()):
                note = mark.get_object()
                place, is_own = self._target(note, path)
                if place:
                    page = self._writer.pages[self._front + place[0]].indirect_reference
                    note.pop("/A", None)
                    height = FloatObject(place[1])
                    note[NameObject("/Dest")] = ArrayObject(
                        [page, NameObject("/XYZ"),
                         NullObject(), height,
                         NullObject()])
                if place or not is_own:
                    kept.append(mark)
            sheet[NameObject("/Annots")] = kept

    def _target(self, note, path):
        """The place where a link leads, None where it is not printed; whether it is of the site."""
        if "/Dest" in note:
            return self.place(path, str(note["/Dest"]).removeprefix("/")), True
        address = urllib.parse.urlsplit(str(note.get("/A", {}).get("/URI", "")))
        there = pathlib.Path(urllib.parse.unquote(address.path))
        return self.place(there, urllib.parse.unquote(address.fragment)), address.scheme == "file"

    def outline(self, pages):
        """Bookmarks: parts, chapters, sections."""
        from pypdf.generic import Fit

        part, above = "", {}
        for page in pages:
            if page.part != part:
                part = page.part
                first = self._front + self.place(page.path)[0]
                above = {0: self._mark(part, first, bold=True)} if part else {}
            for level, words, id in page.headings:
                number, top = self.place(page.path, id)
                parent = next((above[i] for i in range(level - 1, -1, -1) if i in above), None)
                above[level] = self._mark(words, self._front + number, parent=parent,
                                          fit=Fit.xyz(top=top), is_open=False)

    def _mark(self, words, number, **options):
        return self._writer.add_outline_item(title=words, page_number=number, **options)

    def write(self, path, config) -> int:
        """Write the file, and return its number of pages."""
        writer = self._writer
        writer.add_metadata({f"/{name.title()}": words for name, words in config.items()})
        writer.page_mode = "/UseOutlines"
        writer.set_page_label(0, self._front - 1, style="/r")
        writer.set_page_label(self._front, len(self._printed) - 1, style="/D", start=1)
        writer.write(path)
        return len(self._printed)
