"""The README and its companions keep their word: their Python runs, what they name is there."""

import base64
import inspect
import io
import math
import pydoc
import re

import numpy as np
import pytest
from conftest import ROOT, cells_of
from PIL import Image

import spdlib
from claimbook.ledger import ledger, summary
from spdlib.cli import main

README, CONTRIBUTING, CHANGELOG = (
    (ROOT / f"{name}.md").read_text(encoding="utf-8")
    for name in ("README", "CONTRIBUTING", "CHANGELOG")
)


def run(text):
    """What the Python of a text makes, by name, one block after the other."""
    names = {}
    for source in re.findall(r"```python\n(.*?)```", text, re.S):
        exec(source, names)
    return names


def test_its_python_runs_and_prints_what_it_says(capsys):
    run(README)
    said = re.search(r"```text\n(.*?)```", README, re.S)[1]
    assert capsys.readouterr().out.startswith(said)


def test_the_space_and_the_mechanism_that_contributing_writes_by_hand_keep_their_word(capsys):
    names = run(CONTRIBUTING)
    assert "CoordinateLaplace(sensitivity=0.01" in capsys.readouterr().out
    plane, center = names["HyperbolicPlane"](), names["ball"].center
    v, w = np.random.default_rng(0).standard_normal((2, 40, 2))
    ends = plane.exp(center, v)
    np.testing.assert_allclose(plane.log(center, ends), v, atol=1e-12)
    np.testing.assert_allclose(plane.transport(center, v, v), -plane.log(ends, center), atol=1e-12)
    carried = plane.transport(center, v, w)
    np.testing.assert_allclose(np.linalg.norm(carried, axis=1), np.linalg.norm(w, axis=1))
    mechanism = names["release"].mechanism_
    assert math.sqrt(2) * mechanism.sensitivity / mechanism.scale <= mechanism.loss


@pytest.mark.slow
def test_its_commands_run(capsys, tmp_path, monkeypatch):
    plan, release = re.findall(r"^spdlib (.*?)(?: > .*)?$", README, re.M)
    assert main(plan.split()) == 0
    assert "errs least" in capsys.readouterr().out
    pytest.importorskip("opendp")
    monkeypatch.chdir(tmp_path)
    np.save(release.split()[1], spdlib.random_spd(2000, 3, 0.2, rng=0))
    assert main(release.split()) == 0
    assert "0.95" in spdlib.Release.from_json(capsys.readouterr().out).regions


def test_its_counts_are_those_of_the_ledger():
    assert summary(ledger(ROOT / "book")) in README


def test_its_make_targets_exist():
    targets = set(re.findall(r"^([a-z]+):", (ROOT / "Makefile").read_text(encoding="utf-8"), re.M))
    for text in README, CONTRIBUTING:
        commands = " ".join(re.findall(r"`+[^`]*`+", text))
        assert set(re.findall(r"\bmake ([a-z]+)\b", commands)) <= targets


def test_one_version_stands_everywhere():
    version = re.search(r"^## (\d\S+)", CHANGELOG, re.M)[1]
    assert version == spdlib.__version__
    citation = (ROOT / "CITATION.cff").read_text(encoding="utf-8")
    assert re.search(r"^version: (\S+)$", citation, re.M)[1] == version
    how_to_cite = (ROOT / "book/bibliography.md").read_text(encoding="utf-8")
    assert {*re.findall(r"\b\d+\.\d+\.\d+\b", how_to_cite)} == {version}


def test_its_files_exist():
    named = re.findall(r"\bbook/[\w./]+\.\w+", README)
    named += re.findall(r"\]\(([\w./]+)\)", README + CONTRIBUTING)
    assert named and all((ROOT / path).exists() for path in named)


def test_the_page_of_the_api_has_every_public_name_once():
    page = (ROOT / "book/api.md").read_text(encoding="utf-8")
    rooms, documented = page.split("currentmodule:: "), []
    for room in rooms[1:]:
        room, names = room.split("\n", 1)
        for name in re.findall(r"^\.\. auto(?:class|function):: ([\w.]+)$", names, re.M):
            documented.append(name if name.startswith("spdlib.") else f"{room}.{name}")
    for path in documented:
        assert pydoc.locate(path) is not None, path
    public = {f"spdlib.{name}" for name, value in vars(spdlib).items()
              if not name.startswith("_") and not inspect.ismodule(value)}
    assert public <= set(documented) and len(documented) == len(set(documented))
    named = re.findall(r"`(spdlib\.\w+)`", rooms[0])
    assert len(named) == len(set(named)) and all(map(pydoc.locate, named))


def on_white(png):
    """Pixels of a picture without a ground, as they look on white paper."""
    image = Image.open(io.BytesIO(png)).convert("RGBA")
    return Image.alpha_composite(Image.new("RGBA", image.size, "white"), image).convert("RGB")


def test_its_picture_is_the_figure_of_the_chapter_on_white():
    """Where it is not, the picture is written anew by `on_white(figure).save(path)`."""
    (cell,) = (cell for cell in cells_of(ROOT / "book/08_release.ipynb")
               if "fig-release" in str(cell["metadata"]))
    outputs = [output.get("data", {}) for output in cell["outputs"]]
    (figure,) = (data["image/png"] for data in outputs if "image/png" in data)
    picture = (ROOT / "book/_static/readme.png").read_bytes()
    assert on_white(picture).tobytes() == on_white(base64.b64decode(figure)).tobytes()
