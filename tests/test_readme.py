"""The README and its companions keep their word: their Python runs, what they name is there."""

import base64
import json
import re

from conftest import ROOT

import spdlib
from claimbook.ledger import ledger, summary
from spdlib.cli import main

README, CONTRIBUTING, CHANGELOG = (
    (ROOT / f"{name}.md").read_text(encoding="utf-8")
    for name in ("README", "CONTRIBUTING", "CHANGELOG")
)


def blocks(language):
    return re.findall(rf"```{language}\n(.*?)```", README, re.S)


def test_its_python_runs_and_releases_a_mean(capsys):
    names = {}
    for source in blocks("python"):
        exec(source, names)
    assert "differentially private" in capsys.readouterr().out


def test_its_plan_runs(capsys):
    command = re.search(r"^\.venv/bin/spdlib (plan .*)$", README, re.M)[1]
    assert main(command.split()) == 0
    assert "errs least" in capsys.readouterr().out


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


def test_its_files_exist():
    named = re.findall(r"\bbook/[\w./]+\.\w+", README)
    assert named and all((ROOT / path).exists() for path in named)


def test_its_picture_is_the_figure_of_the_chapter_it_names():
    chapter = json.loads((ROOT / "book/18_release.ipynb").read_text(encoding="utf-8"))
    outputs = [output for cell in chapter["cells"] for output in cell.get("outputs", ())]
    shown = [output["data"] for output in outputs if "image/png" in output.get("data", {})]
    figures = [base64.b64decode(data["image/png"]) for data in shown]
    assert (ROOT / "book/_static/readme.png").read_bytes() in figures
