"""The check of the book: quick where nothing changed, and never stale where something did."""

import importlib.util
import json
import shutil
import subprocess

import pytest
from conftest import ROOT, mostly_slow

SOURCE = '''from spdlib.calibration import sigma_analytic
from spdlib.claims import claim
with claim("TG-16", "{stated}", 0) as c:
    c.equal(1.0, printed=1.0, rivals={{"two": 2.0}})'''


@pytest.fixture
def build(tmp_path, monkeypatch):
    """The build module, at work on a small book of one chapter."""
    spec = importlib.util.spec_from_file_location("build", ROOT / "book/build.py")
    module = importlib.util.module_from_spec(spec)
    spec.loader.exec_module(module)
    (tmp_path / "book").mkdir()
    shutil.copytree(ROOT / "spdlib", tmp_path / "spdlib")
    for name in ("claims.toml", "matplotlibrc"):
        shutil.copy(ROOT / "book" / name, tmp_path / "book" / name)
    monkeypatch.setattr(module, "ROOT", tmp_path)
    monkeypatch.setattr(module, "BUILD", tmp_path / "_build")
    write(tmp_path, SOURCE.format(stated="holds"))
    return module


@pytest.fixture
def recorded(build):
    """The same with the chapter's outputs recorded."""
    build.record(build.ROOT / "book/01_toy.ipynb")
    return build


def write(root, source):
    cell = {"cell_type": "code", "id": "toy", "source": source, "metadata": {},
            "outputs": [], "execution_count": None}
    notebook = {"cells": [cell], "metadata": {}, "nbformat": 4, "nbformat_minor": 5}
    (root / "book/01_toy.ipynb").write_text(json.dumps(notebook), encoding="utf-8")


def add_comment(path):
    with open(path, "a", encoding="utf-8") as file:
        file.write("\n# changed\n")


@pytest.mark.slow
def test_a_chapter_that_passed_runs_again_only_when_it_changed(recorded, capsys):
    recorded.check()
    assert "checking 1 of 1" in capsys.readouterr().out
    recorded.check()
    assert "checking 0 of 1" in capsys.readouterr().out
    chapter = recorded.ROOT / "book/01_toy.ipynb"
    chapter.write_text(chapter.read_text(encoding="utf-8") + "\n", encoding="utf-8")
    recorded.check()
    assert "checking 1 of 1" in capsys.readouterr().out


@pytest.mark.parametrize("name", mostly_slow(
    ["spdlib/calibration.py", "spdlib/claims.py", "spdlib/__init__.py", "book/matplotlibrc"],
    "spdlib/calibration.py",
))
def test_what_a_chapter_depends_on_changes_its_key(build, name):
    chapter = build.ROOT / "book/01_toy.ipynb"
    before = build.key(chapter)
    add_comment(build.ROOT / name)
    assert build.key(chapter) != before


@pytest.mark.parametrize("name", mostly_slow(
    ["spdlib/audit.py", "spdlib/cli.py", "book/claims.toml"], "spdlib/audit.py"))
def test_what_a_chapter_does_not_import_leaves_its_key(build, name):
    chapter = build.ROOT / "book/01_toy.ipynb"
    before = build.key(chapter)
    add_comment(build.ROOT / name)
    assert build.key(chapter) == before


@pytest.mark.slow
def test_a_module_that_is_imported_by_one_that_is_imported_counts(build):
    chapter = build.ROOT / "book/01_toy.ipynb"
    (build.ROOT / "spdlib/far.py").write_text("far = 1\n", encoding="utf-8")
    (build.ROOT / "spdlib/near.py").write_text(
        "def late():\n    from .far import far\n", encoding="utf-8"
    )
    write(build.ROOT, "from spdlib.near import late")
    before = build.key(chapter)
    add_comment(build.ROOT / "spdlib/far.py")
    assert build.key(chapter) != before


@pytest.mark.slow
def test_a_chapter_that_reads_the_ledger_depends_on_the_claims_and_on_every_chapter(build):
    chapter = build.ROOT / "book/01_toy.ipynb"
    (build.ROOT / "spdlib/ledger.py").touch()
    write(build.ROOT, "from spdlib.ledger import ledger")
    keys = [build.key(chapter)]
    add_comment(build.ROOT / "book/claims.toml")
    keys.append(build.key(chapter))
    shutil.copy(chapter, build.ROOT / "book/02_other.ipynb")
    keys.append(build.key(chapter))
    assert len(set(keys)) == 3


@pytest.mark.parametrize("source, found", [
    ("import spdlib", {"__init__"}),
    ("import numpy, spdlib.spd as s", {"spd"}),
    ("from spdlib import logm, audit", {"__init__", "audit"}),
    ("from spdlib.spd import logm", {"spd"}),
    ("def f():\n    from . import audit", {"audit"}),
    ("from .spd import logm", {"spd"}),
    ("from numpy import spdlib\nimport numpy.spdlib", set()),
])
def test_imports_are_found_in_every_form(build, source, found):
    assert build.imports(source) == found


def test_a_change_of_versions_changes_every_key(build, monkeypatch):
    chapter = build.ROOT / "book/01_toy.ipynb"
    before = build.key(chapter)
    monkeypatch.setattr(build.importlib.metadata, "distributions", lambda: [])
    assert build.key(chapter) != before


@pytest.mark.slow
def test_recording_twice_changes_nothing(recorded):
    chapter = recorded.ROOT / "book/01_toy.ipynb"
    before = chapter.read_bytes()
    recorded.record(chapter)
    assert chapter.read_bytes() == before


@pytest.mark.slow
def test_a_chapter_that_fails_is_not_recorded(build):
    chapter = build.ROOT / "book/01_toy.ipynb"
    write(build.ROOT, SOURCE.format(stated="fails"))
    before = chapter.read_bytes()
    with pytest.raises(SystemExit, match="VerdictDiffers: TG-16: stated fails, computed holds"):
        build.record(chapter)
    assert chapter.read_bytes() == before


@pytest.mark.slow
def test_the_check_names_the_claim_that_does_not_come_out_as_stated(build, capsys):
    write(build.ROOT, SOURCE.format(stated="fails"))
    with pytest.raises(SystemExit):
        build.check()
    assert "VerdictDiffers: TG-16: stated fails, computed holds" in capsys.readouterr().out
    with pytest.raises(SystemExit):  # and it gets no stamp
        build.check()


@pytest.mark.slow
def test_the_check_fails_where_an_output_differs_from_the_recorded_one(recorded, capsys):
    path = recorded.ROOT / "book/01_toy.ipynb"
    text = path.read_text(encoding="utf-8")
    path.write_text(text.replace("TG-16 holds", "TG-16 held"), encoding="utf-8")
    with pytest.raises(SystemExit):
        recorded.check()
    assert "an output differs from the recorded one" in capsys.readouterr().out


@pytest.mark.slow
def test_a_site_that_is_fresh_is_not_built_again(build, monkeypatch, capsys):
    runs = []

    def jupyter_book(command, **options):
        runs.append(command)
        (build.BUILD / "html").mkdir(parents=True)
        (build.BUILD / "html/ledger.json").write_text("[]", encoding="utf-8")
        return subprocess.CompletedProcess(command, 0, "", "")

    monkeypatch.setattr(build.subprocess, "run", jupyter_book)
    for name in ("_config.yml", "_toc.yml"):
        shutil.copy(ROOT / name, build.ROOT / name)
    build.site()
    build.site()
    assert len(runs) == 1
    for number, name in enumerate(("_toc.yml", "book/01_toy.ipynb", "spdlib/audit.py"), 2):
        add_comment(build.ROOT / name)
        build.site()
        assert len(runs) == number, name
