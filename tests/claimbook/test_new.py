"""A book of one's own: four files that check themselves, catch their fault and become a site."""

import json
import re
import shutil

import pytest
from conftest import ROOT, cells_of

from claimbook import cli, new
from claimbook.book import Book, code
from claimbook.guards.candidates import Rules, refused
from claimbook.guards.numbers import unfounded
from claimbook.guards.recorded import unclean
from claimbook.ledger import ledger

PAGE = (ROOT / "book/own_book.md").read_text(encoding="utf-8")


@pytest.fixture(scope="module")
def own(tmp_path_factory):
    """The folder as `claimbook new` writes it."""
    folder = tmp_path_factory.mktemp("desk") / "own"
    assert cli.main(["new", str(folder)]) == 0
    return folder


def names(folder):
    return sorted(path.name for path in folder.iterdir())


def test_four_files_are_written_and_the_ledger_is_there(own):
    assert len(names(own)) == 4
    rows = ledger(own)
    assert [(row["id"], row["verdict"]) for row in rows] == [
        ("PK-01", "holds"), ("PK-02", "corrected")]
    assert rows[1]["correction"] and rows[1]["harm"] == "use"


def test_the_chapter_is_short_and_keeps_to_all_that_is_asked_of_chapters(own):
    cells = cells_of(own / "01_half_life.ipynb")
    assert sum(cell["source"].count("\n") + 1 for cell in cells) < 100
    assert unclean(cells) == [] == unfounded(cells)
    rules = Rules(own, "kinetics", ("kinetics",))
    assert refused(code(own / "01_half_life.ipynb"), rules) == {}


def test_a_folder_with_something_in_it_is_left_alone(own, tmp_path, capsys):
    before = {path: path.read_bytes() for path in own.iterdir()}
    assert cli.main(["new", str(own)]) == 2
    assert "accepted is one that is new or empty" in capsys.readouterr().err
    assert before == {path: path.read_bytes() for path in own.iterdir()}
    (tmp_path / "empty").mkdir()
    assert cli.main(["new", str(tmp_path / "empty")]) == 0
    assert names(tmp_path / "empty") == names(own)


def test_the_site_is_staged_beside_what_the_book_has_itself(own, tmp_path):
    shutil.copytree(own, tmp_path / "own")
    book = Book.at(tmp_path / "own")
    folder = new.staged(book)
    assert folder == tmp_path / "own/_build/source" and not (folder / "net.md").exists()
    contents = (folder / "_toc.yml").read_text(encoding="utf-8")
    assert "root: 01_half_life.ipynb" in contents and "- file: ledger.md" in contents
    book.record.write_text("{}")
    (book.folder / "ledger.md").write_text("# Mine\n")
    (book.root / "_config.yml").write_text("title: mine\n")
    folder = new.staged(book)
    assert (folder / "net.md").exists()
    assert (folder / "ledger.md").read_text() == "# Mine\n"
    assert (folder / "_config.yml").read_text() == "title: mine\n"
    (book.root / "_toc.yml").touch()
    assert new.staged(book) == book.root


@pytest.mark.slow
def test_the_book_checks_itself_catches_its_fault_and_becomes_a_site(own, tmp_path, monkeypatch,
                                                                   capsys):
    shutil.copytree(own, tmp_path / "own")
    monkeypatch.chdir(tmp_path / "own")
    assert cli.main(["check"]) == 0 and "checking 1 of 1" in capsys.readouterr().out
    assert cli.main(["net"]) == 0
    record = json.loads((tmp_path / "own/net.json").read_text(encoding="utf-8"))
    runs = record["breaks"]["ln 2 forgotten"]["runs"]
    assert {claim: run["caught"] for claim, run in runs.items()} == {
        "PK-01": "V/CL left standing", "PK-02": "nothing left standing"}
    calls = [entry["calls"] for entry in record["footprints"].values()]
    assert calls == [{"kinetics": "half_life level"}, {"kinetics": "half_life level"}]
    assert cli.main(["site"]) == 0
    html = tmp_path / "own/_build/html"
    rows = json.loads((html / "ledger.json").read_text(encoding="utf-8"))
    assert [row["verdict"] for row in rows] == ["holds", "corrected"]
    assert 'id="ledger-PK-02"' in (html / "ledger.html").read_text(encoding="utf-8")
    assert 'id="erratum-PK-02"' in (html / "errata.html").read_text(encoding="utf-8")
    assert "ln 2 forgotten" in (html / "net.html").read_text(encoding="utf-8")
    assert names(tmp_path / "own") == sorted([*names(own), "_build", "net.json"])
    kinetics = tmp_path / "own/kinetics.py"
    kinetics.write_text(kinetics.read_text().replace("math.log(2) * volume", "volume"))
    with pytest.raises(SystemExit, match="the check failed"):
        cli.main(["check"])
    assert "Inconclusive: PK-01: exact leaves 1 candidates" in capsys.readouterr().out


def test_the_page_that_walks_through_it_tells_what_is_there(own):
    text = re.sub(r"\s+", " ", PAGE)
    for name in names(own):
        assert f"`{name}`" in PAGE, name
    for command in "new", "check", "net", "site", "accept":
        assert f"claimbook {command}" in text
    for block in re.findall(r"```(?:toml|python)\n(.*?)```", PAGE, re.S):
        files = "\n".join([*(path.read_text(encoding="utf-8") for path in own.glob("*.[tp]*")),
                           code(own / "01_half_life.ipynb")])
        assert block.strip() in files, block
