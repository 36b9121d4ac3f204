"""The check of the book: quick where nothing changed, and never stale where something did."""

import json
import shutil
import subprocess

import pytest
from conftest import ROOT, mostly_slow

from claimbook import build, net, sources
from claimbook.book import Book, UsageError
from claimbook.ledger import ledger

SOURCE = '''from claimbook import claim
from spdlib.calibration import sigma_analytic
with claim("TG-16", "{stated}", 0) as c:
    c.equal(1.0, printed=1.0, rivals={{"two": 2.0}})'''


@pytest.fixture
def book(tmp_path):
    """A small book of one chapter, beside copies of both packages."""
    (tmp_path / "book").mkdir()
    for package in "spdlib", "claimbook":
        shutil.copytree(ROOT / package, tmp_path / package)
    for name in ("claims.toml", "matplotlibrc"):
        shutil.copy(ROOT / "book" / name, tmp_path / "book" / name)
    write(tmp_path, SOURCE.format(stated="holds"))
    return Book.at(tmp_path / "book")


@pytest.fixture
def chapter(book):
    return book.folder / "01_toy.ipynb"


@pytest.fixture
def recorded(book, chapter):
    """The same with the chapter's outputs recorded."""
    build.record(book, chapter)
    return book


def write(root, source):
    cell = {"cell_type": "code", "id": "toy", "source": source, "metadata": {},
            "outputs": [], "execution_count": None}
    notebook = {"cells": [cell], "metadata": {}, "nbformat": 4, "nbformat_minor": 5}
    (root / "book/01_toy.ipynb").write_text(json.dumps(notebook), encoding="utf-8")


def add_comment(path):
    with open(path, "a", encoding="utf-8") as file:
        file.write("\n# changed\n")


@pytest.mark.slow
def test_a_chapter_that_passed_runs_again_only_when_it_changed(recorded, chapter, capsys):
    build.check(recorded)
    assert "checking 1 of 1" in capsys.readouterr().out
    build.check(recorded)
    assert "checking 0 of 1" in capsys.readouterr().out
    chapter.write_text(chapter.read_text(encoding="utf-8") + "\n", encoding="utf-8")
    build.check(recorded)
    assert "checking 1 of 1" in capsys.readouterr().out


@pytest.mark.slow
@pytest.mark.parametrize("name", mostly_slow(
    ["spdlib/calibration.py", "spdlib/__init__.py", "claimbook/claims.py", "claimbook/__init__.py",
     "claimbook/show.py", "book/matplotlibrc", "spdlib/_fast.c"],
    "spdlib/calibration.py", "claimbook/claims.py", "spdlib/_fast.c"))
def test_what_a_chapter_depends_on_changes_its_key(book, chapter, name):
    before = build.key(book, chapter)
    add_comment(book.root / name)
    assert build.key(book, chapter) != before


@pytest.mark.slow
@pytest.mark.parametrize("name", mostly_slow(
    ["spdlib/audit.py", "spdlib/cli.py", "claimbook/cli.py", "claimbook/net.py",
     "claimbook/sphinx/ledger_page.py", "book/claims.toml"], "spdlib/audit.py", "claimbook/net.py"))
def test_what_a_chapter_does_not_import_leaves_its_key(book, chapter, name):
    before = build.key(book, chapter)
    add_comment(book.root / name)
    assert build.key(book, chapter) == before


@pytest.mark.slow
def test_the_path_through_compiled_code_counts(book, chapter, monkeypatch):
    before = build.key(book, chapter)
    (book.root / "spdlib/_fast.any.so").write_bytes(b"another build")
    built = build.key(book, chapter)
    monkeypatch.setenv("SPDLIB_KERNEL", "0")
    assert len({before, built, build.key(book, chapter)}) == 3
    write(book.root, "import json")
    alone = build.key(book, chapter)
    (book.root / "spdlib/_fast.any.so").unlink()
    assert build.key(book, chapter) == alone


@pytest.mark.slow
@pytest.mark.parametrize("near, far, source", [
    ("spdlib/near.py", "spdlib/far.py", "from .far import far"),
    ("spdlib/room/near.py", "spdlib/far.py", "from ..far import far"),
    ("spdlib/room/near.py", "spdlib/room/far.py", "from . import far"),
    ("spdlib/room/near.py", "spdlib/other/far.py", "from ..other.far import far"),
    ("spdlib/room/near.py", "tools/far.py", "from tools import far"),
    ("spdlib/room/near.py", "spdlib/other/__init__.py", "from ..other import far"),
    ("spdlib/room/__init__.py", "spdlib/room/far.py", "from .far import far"),
])
def test_a_module_that_is_imported_by_one_that_is_imported_counts(book, chapter, near, far, source):
    for path in near, far:
        folder = (book.root / path).parent
        folder.mkdir(exist_ok=True)
        (folder / "__init__.py").touch()
    (book.root / far).write_text("far = 1\n", encoding="utf-8")
    (book.root / near).write_text(f"def late():\n    {source}\n", encoding="utf-8")
    module = near.removesuffix(".py").removesuffix("/__init__").replace("/", ".")
    write(book.root, f"from {module} import late")
    before = build.key(book, chapter)
    add_comment(book.root / far)
    assert build.key(book, chapter) != before


@pytest.mark.slow
def test_the_packages_above_a_module_count_by_their_own_text_alone(book, chapter):
    for package in "spdlib/room", "tools":
        (book.root / package).mkdir()
    (book.root / "spdlib/room/__init__.py").write_text("import tools\n")
    (book.root / "tools/__init__.py").touch()
    (book.root / "spdlib/room/near.py").write_text("late = 1\n")
    write(book.root, "from spdlib.room.near import late")
    before = build.key(book, chapter)
    add_comment(book.root / "tools/__init__.py")
    assert build.key(book, chapter) == before
    add_comment(book.root / "spdlib/room/__init__.py")
    assert build.key(book, chapter) != before


@pytest.mark.slow
def test_a_chapter_that_reads_the_ledger_depends_on_the_claims_and_on_every_chapter(book, chapter):
    write(book.root, "from claimbook.ledger import ledger")
    keys = [build.key(book, chapter)]
    add_comment(book.folder / "claims.toml")
    keys.append(build.key(book, chapter))
    shutil.copy(chapter, book.folder / "02_other.ipynb")
    keys.append(build.key(book, chapter))
    assert len(set(keys)) == 3


@pytest.mark.parametrize("source, reads", [
    ("import claimbook.ledger", True), ("from claimbook import ledger", True),
    ("from claimbook.ledger import tally", True), ("from claimbook import claim", False)])
def test_who_reads_the_ledger_is_seen_in_every_form(source, reads):
    assert build.reads_the_ledger(source) == reads


@pytest.mark.parametrize("source, package, found", [
    ("import spdlib", "", {("spdlib", None)}),
    ("import numpy, spdlib.spd as s", "", {("spdlib.spd", None)}),
    ("from spdlib import logm, audit", "", {("spdlib", "logm"), ("spdlib.audit", None)}),
    ("from spdlib.spd import logm", "", {("spdlib.spd", "logm")}),
    ("from claimbook.sphinx import verdicts", "", {("claimbook.sphinx.verdicts", None)}),
    ("def f():\n    from . import audit", "spdlib", {("spdlib.audit", None)}),
    ("from .spd import logm", "spdlib", {("spdlib.spd", "logm")}),
    ("from .. import ledger", "claimbook.sphinx", {("claimbook.ledger", None)}),
    ("from ..ledger import ID", "claimbook.sphinx", {("claimbook.ledger", "ID")}),
    ("from . import is_page", "claimbook.sphinx", {("claimbook.sphinx", "is_page")}),
    ("from spdlib.spd import *", "", {("spdlib.spd", None)}),
    ("from numpy import spdlib\nimport numpy.spdlib", "", set()),
])
def test_imports_are_found_in_every_form(source, package, found):
    assert sources.taken(ROOT, source, package) == found


@pytest.mark.parametrize("module, name, home", [
    ("spdlib", "PrivateFrechetMean", "spdlib.estimators.mean"), ("spdlib", "spd", "spdlib.spd"),
    ("spdlib.spd", "logm", "spdlib.spd"), ("claimbook", "claim", "claimbook.claims"),
    ("numpy", "pi", "numpy")])
def test_the_module_in_which_an_imported_name_stands_is_found(module, name, home):
    assert sources.home(ROOT, module, name) == home


@pytest.mark.slow
def test_a_change_of_versions_changes_every_key(book, chapter, monkeypatch):
    before = build.key(book, chapter)
    monkeypatch.setattr(build.importlib.metadata, "distributions", lambda: [])
    assert build.key(book, chapter) != before


SIXTH = """
[papers.ZZ]
title = "An invented paper"

[ZZ-01]
where = "Sec. 1"
reading = "clear"
domain = "everywhere"
untested = "it is invented"
command = "none"
chapter = "99_invented"
"""


@pytest.mark.slow
def test_a_new_paper_makes_no_run_of_the_net_stale_and_no_chapter_run_again(tmp_path):
    shutil.copytree(ROOT / "book", tmp_path / "book")
    for package in "spdlib", "claimbook":
        (tmp_path / package).symlink_to(ROOT / package)
    book = Book.at(tmp_path / "book")
    faults = list(net.read_breaks(book).values())[::40]
    chapters, claims = book.chapters(), list(net.homes(book))[::10]

    def keys():
        for each in net.homes, net.content:
            each.cache_clear()
        book = Book.at(tmp_path / "book")
        runs = [net.key(book, fault, claim) for fault in faults for claim in claims]
        return [build.key(book, each) for each in chapters], runs

    before = keys()
    with open(book.folder / "claims.toml", "a", encoding="utf-8") as file:
        file.write(SIXTH)
    statement = ":::{claim} ZZ-01 Invented\n:kind: theorem\n\nIt is $1$.\n:::"
    cell = {"cell_type": "markdown", "metadata": {}, "source": statement}
    (book.folder / "99_invented.ipynb").write_text(json.dumps({"cells": [cell]}))
    assert keys() == before
    assert ledger(book.folder)[-1]["paper"] == "An invented paper"


@pytest.mark.slow
def test_recording_twice_changes_nothing(recorded, chapter):
    before = chapter.read_bytes()
    build.record(recorded, chapter)
    assert chapter.read_bytes() == before


@pytest.mark.slow
def test_a_chapter_that_fails_is_not_recorded(book, chapter):
    write(book.root, SOURCE.format(stated="fails"))
    before = chapter.read_bytes()
    with pytest.raises(SystemExit, match="VerdictDiffers: TG-16: stated fails, computed holds"):
        build.record(book, chapter)
    assert chapter.read_bytes() == before


@pytest.mark.slow
def test_the_check_names_the_claim_that_does_not_come_out_as_stated(book, capsys):
    write(book.root, SOURCE.format(stated="fails"))
    with pytest.raises(SystemExit):
        build.check(book)
    assert "VerdictDiffers: TG-16: stated fails, computed holds" in capsys.readouterr().out
    with pytest.raises(SystemExit):  # and it gets no stamp
        build.check(book)


@pytest.mark.slow
def test_the_check_fails_where_an_output_differs_from_the_recorded_one(recorded, chapter, capsys):
    text = chapter.read_text(encoding="utf-8")
    chapter.write_text(text.replace("TG-16 holds", "TG-16 held"), encoding="utf-8")
    with pytest.raises(SystemExit):
        build.check(recorded)
    assert "an output differs from the recorded one" in capsys.readouterr().out


@pytest.mark.slow
def test_the_check_fails_where_no_output_is_recorded(book, capsys):
    with pytest.raises(SystemExit):
        build.check(book)
    assert "the cells were not executed once each" in capsys.readouterr().out


def test_a_chapter_that_is_not_there_is_a_usage_error(book):
    assert book.chapters(["1"]) == book.chapters(["01_toy"]) == book.chapters()
    with pytest.raises(UsageError, match="CHAPTER is '7'; accepted are .* 01_toy"):
        book.chapters(["7"])


@pytest.mark.slow
def test_a_site_that_is_fresh_is_not_built_again(book, monkeypatch):
    runs = []

    def jupyter_book(command, **options):
        runs.append(command)
        (book.build / "html").mkdir(parents=True)
        (book.build / "html/ledger.json").write_text("[]", encoding="utf-8")
        return subprocess.CompletedProcess(command, 0, "", "")

    monkeypatch.setattr(build.subprocess, "run", jupyter_book)
    for name in ("_config.yml", "_toc.yml"):
        shutil.copy(ROOT / name, book.root / name)
    build.site(book)
    build.site(book)
    assert len(runs) == 1
    for number, name in enumerate(("_toc.yml", "book/01_toy.ipynb", "spdlib/audit.py"), 2):
        add_comment(book.root / name)
        build.site(book)
        assert len(runs) == number, name
