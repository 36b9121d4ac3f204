"""A book as one PDF: title, contents with numbers that are right, bookmarks, jumps, no code."""

import io
import re
import shutil
import types

import pytest
from conftest import ROOT

from claimbook import browser, cli, new, pdf
from claimbook.book import Book, UsageError

CHAPTERS = ["Opening", "How long a drug stays"]
TOC = """format: jb-book
root: 00_opening.md
parts:
  - caption: A part
    chapters:
      - file: 01_half_life.ipynb
        sections: [{file: more/detail.md}]
      - url: https://example.org
  - caption: Verdicts
    chapters: [{file: ledger.md}, {file: errata.md}]
"""
OPENING = """# Opening

Of {claim}`PK-02`, and of [the ledger](ledger.md); not of
<a href="genindex.html">the index</a>; and of <https://example.org>.

```{dropdown} A fold
What was folded.
```
"""


@pytest.fixture
def own(tmp_path):
    """A book with an opening, a chapter in a part, a section of that, ledger and errata."""
    folder = tmp_path / "own"
    new.write(folder)
    (folder / "more").mkdir()
    (folder / "00_opening.md").write_text(OPENING, encoding="utf-8")
    (folder / "more/detail.md").write_text("# A detail\n\nIt is $x^2$.\n", encoding="utf-8")
    (folder / "_toc.yml").write_text(TOC, encoding="utf-8")
    for name in "ledger.md", "errata.md":
        shutil.copy(new.TEMPLATES / "site" / name, folder)
    config = (new.TEMPLATES / "site/_config.yml").read_text(encoding="utf-8")
    config = config.replace("title: A book of verified claims", "title: 'Drugs: a test'")
    config = config.replace('author: ""', "author: A. Writer")
    config = config.replace("only_build_toc_files: true", "only_build_toc_files: true\n"
                            "exclude_patterns: [_build]")
    (folder / "_config.yml").write_text(config, encoding="utf-8")
    shutil.copytree(new.TEMPLATES / "site/_static", folder / "_static")
    return folder


def marks(reader, items, depth=0):
    """Bookmarks as (depth, words, page)."""
    for item in items:
        if isinstance(item, list):
            yield from marks(reader, item, depth + 1)
        else:
            yield depth, item.title, reader.get_destination_page_number(item)


def jumps(reader, number):
    """The pages that links of a page jump to, and the addresses that others lead to."""
    notes = [note.get_object() for note in reader.pages[number].get("/Annots", ())]
    pages = {page.indirect_reference.idnum: i for i, page in enumerate(reader.pages)}
    places = [pages[note["/Dest"][0].indirect_reference.idnum] for note in notes if "/Dest" in note]
    return places, [note["/A"]["/URI"] for note in notes if "/A" in note]


@pytest.mark.slow
def test_a_book_becomes_a_pdf_with_title_contents_bookmarks_and_jumps(own, capsys):
    pypdf = pytest.importorskip("pypdf", reason="pypdf is not installed")
    try:
        pdf.chromium()
    except UsageError as error:
        pytest.skip(str(error))
    assert cli.main(["pdf", "--book", str(own)]) == 0
    assert re.search(r"01_half_life +\d+ pages", capsys.readouterr().out)
    reader = pypdf.PdfReader(own / "_build/drugs-a-test.pdf")
    text = [page.extract_text() for page in reader.pages]
    assert (reader.metadata.title, reader.metadata.author) == ("Drugs: a test", "A. Writer")
    assert "Drugs: a test" in text[0] and "2 claims: 1 holds, 1 corrected" in text[0]

    found = [*marks(reader, reader.outline)]
    names = [words for _, words, _ in found]
    depth = {words: depth for depth, words, _ in found}
    assert (depth["Opening"], depth["A part"], depth["Verdicts"]) == (0, 0, 0)
    assert depth["A detail"] == depth["The ledger"] == depth["Errata"] == 1
    assert max(depth.values()) == 2  # sections of a chapter
    front = reader.page_labels.index("1")
    assert reader.page_labels[:front] == ["i", "ii"][:front]
    contents = re.sub(r"\s+", " ", " ".join(text[1:front]))
    places = jumps(reader, 1)[0]
    for (_, words, page), place in zip(
            [mark for mark in found if mark[1] not in ("A part", "Verdicts")], places, strict=True):
        assert place == page and words in re.sub(r"\s+", " ", text[page])
        assert f"{words} {page + 1 - front}" in contents
        assert re.search(rf"^{page + 1 - front}$", text[page], re.M)  # the number on the page

    opening = found[names.index("Opening")][2]
    places, addresses = jumps(reader, opening)
    assert set(addresses) == {"https://example.org/"}
    assert found[names.index("The ledger")][2] in places
    (box,) = [page for page in places if "After five half-lives" in text[page]]
    assert "PK-02" in text[box] and box != found[names.index("Errata")][2]
    whole = "\n".join(text)
    assert "What was folded." in whole and "from claimbook import" not in whole
    for _, words, page in found[names.index("The ledger"):]:
        assert box in jumps(reader, page)[0], words  # a line of ledger and errata leads to the box


def test_pages_stand_in_the_order_of_the_contents_with_their_parts(own):
    config, pages = pdf.described(Book.at(own))
    assert config == {"title": "Drugs: a test", "author": "A. Writer"}
    html = own / "_build/html"
    assert [(page.path.relative_to(html).as_posix(), page.part) for page in pages] == [
        ("00_opening.html", ""), ("01_half_life.html", "A part"), ("more/detail.html", "A part"),
        ("ledger.html", "Verdicts"), ("errata.html", "Verdicts")]


@pytest.mark.parametrize("own, words", [
    ("", "no Chromium is installed; a PDF is printed by chromium, "),
    ("/nowhere/chrome", "CHROMIUM is '/nowhere/chrome', which is no program"),
])
def test_without_a_browser_it_is_refused_before_anything_is_built(own, words, monkeypatch, capsys):
    monkeypatch.setenv("CHROMIUM", own)
    monkeypatch.setattr(browser.shutil, "which", lambda name: None)
    monkeypatch.setattr(pdf.build, "site", lambda book: pytest.fail("the site was built"))
    assert cli.main(["pdf", "--book", str(ROOT / "book")]) == 2
    assert words in capsys.readouterr().err


def test_a_page_whose_formulas_did_not_come_is_not_printed(tmp_path):
    shown = {"missing": [r"\(x^2\)"], "headings": []}
    blind = types.SimpleNamespace(visit=lambda address: None, run=lambda *_: shown)
    with pytest.raises(OSError, match=r"a.html is without 1 of its formulas .*x\^2"):
        pdf.print_page(blind, pdf.Page(tmp_path / "a.html", ""), 0)


def test_a_link_jumps_to_its_place_or_to_its_page_and_is_gone_where_nothing_is_printed(tmp_path):
    pypdf = pytest.importorskip("pypdf", reason="pypdf is not installed")
    from pypdf.annotations import Link

    def printed(*addresses):
        writer = pypdf.PdfWriter()
        writer.add_blank_page(200, 300)
        writer.add_blank_page(200, 300)
        writer.add_named_destination("end", 1)
        for address in addresses:
            writer.add_annotation(0, Link(rect=(0, 0, 9, 9), url=address))
        file = io.BytesIO()
        writer.write(file)
        return file.getvalue()

    one, two, other = (tmp_path / name for name in ("one.html", "two.html", "other.html"))
    volume = pdf.Volume()
    volume.add(one, printed(f"{two.as_uri()}#end", f"{two.as_uri()}#gone", other.as_uri(),
                            "https://example.org/"))
    volume.add(two, printed())
    volume.put_first(printed(one.as_uri()))
    volume.link()
    volume.outline([pdf.Page(one, "P", [(1, "One", "one"), (2, "End", "end")]), pdf.Page(two, "P")])
    volume.write(tmp_path / "book.pdf", {"title": "T", "author": ""})
    reader = pypdf.PdfReader(tmp_path / "book.pdf")
    assert jumps(reader, 0) == ([2], [])
    assert jumps(reader, 2) == ([5, 4], ["https://example.org/"])
    assert [*marks(reader, reader.outline)] == [(0, "P", 2), (1, "One", 2), (2, "End", 3)]
    assert reader.page_labels == ["i", "ii", "1", "2", "3", "4"]
