"""The check of the book: quick where nothing changed, and never stale where something did."""

import importlib.util
import shutil

import nbformat
import pytest
from conftest import ROOT

SOURCE = '''from spdlib.claims import claim
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
    module.record(tmp_path / "book/01_toy.ipynb")
    return module


def write(root, source):
    notebook = nbformat.v4.new_notebook(cells=[nbformat.v4.new_code_cell(source, id="toy")])
    nbformat.write(notebook, root / "book/01_toy.ipynb")


def test_a_chapter_that_passed_runs_again_only_when_something_it_depends_on_changed(build, capsys):
    build.check()
    assert "checking 1 of 1" in capsys.readouterr().out
    build.check()
    assert "checking 0 of 1" in capsys.readouterr().out
    for name in ("spdlib/spd.py", "book/claims.toml", "book/matplotlibrc"):
        with open(build.ROOT / name, "a", encoding="utf-8") as file:
            file.write("\n# changed\n")
        build.check()
        assert "checking 1 of 1" in capsys.readouterr().out, name


def test_a_change_of_versions_changes_every_key(build, monkeypatch):
    chapter = build.ROOT / "book/01_toy.ipynb"
    before = build.key(chapter)
    monkeypatch.setattr(build.importlib.metadata, "distributions", lambda: [])
    assert build.key(chapter) != before


def test_recording_twice_changes_nothing(build):
    chapter = build.ROOT / "book/01_toy.ipynb"
    before = chapter.read_bytes()
    build.record(chapter)
    assert chapter.read_bytes() == before


def test_the_check_names_the_claim_that_does_not_come_out_as_stated(build, capsys):
    write(build.ROOT, SOURCE.format(stated="fails"))
    with pytest.raises(SystemExit):
        build.check()
    assert "VerdictDiffers: TG-16: stated fails, computed holds" in capsys.readouterr().out
    with pytest.raises(SystemExit):  # and it gets no stamp
        build.check()


def test_the_check_fails_where_an_output_differs_from_the_recorded_one(build, capsys):
    path = build.ROOT / "book/01_toy.ipynb"
    path.write_text(path.read_text(encoding="utf-8").replace("TG-16 holds", "TG-16 held"), encoding="utf-8")
    with pytest.raises(SystemExit):
        build.check()
    assert "an output differs from the recorded one" in capsys.readouterr().out
