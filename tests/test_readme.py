"""The README keeps its word: its Python runs, and what it names is there."""

import re

from conftest import ROOT

README = (ROOT / "README.md").read_text(encoding="utf-8")


def blocks(language):
    return re.findall(rf"```{language}\n(.*?)```", README, re.S)


def test_its_python_runs_and_releases_a_mean(capsys):
    for source in blocks("python"):
        exec(source, {})
    assert "differentially private" in capsys.readouterr().out


def test_its_make_targets_exist():
    targets = set(re.findall(r"^([a-z]+):", (ROOT / "Makefile").read_text(encoding="utf-8"), re.M))
    assert set(re.findall(r"\bmake ([a-z]+)\b", README)) <= targets


def test_its_files_exist():
    named = re.findall(r"\bbook/[\w./]+\.\w+", README)
    assert named and all((ROOT / path).exists() for path in named)
