"""Reruns and the command line, on a tiny book."""

import copy
import csv
import json
import os
import pathlib
import shutil
import subprocess
import sys

import pytest
from conftest import Node

from claimbook import book as books, cli, run
from claimbook.ledger import MIME

PARAMETERS = '''k: int = 2  # matrix size
epsilon: float = 0.5  # privacy budget
kernel: str = "sobel"  # derivative
fast: bool = False  # fewer draws
sizes: list[int] = [2, 5]  # sizes to plot'''
VALIDATION = '''import os, sys
from claimbook import claim
if k < 1:
    raise ValueError(f"k is {k}; accepted are integers ≥ 1")
if k == 8:
    raise KeyError("eight")'''
DIES_AT_7 = "if k == 7:\n    os._exit(1)"
HOLDS = '''with claim("TG-01", "holds", 1) as c:
    c.equal(k, printed=k, rivals={"k + 1": k + 1})'''
DIFFERS_AT_5 = '''with claim("TG-02", "holds", 1) as c:
    c.reads(k, printed=(1, 3), measured=(4, 7))'''  # and inconclusive at 10
FAILS_AT_10 = '''with claim("TG-03", "holds", 1) as c:
    c.equal(1 / (k - 10), printed=1 / (k - 10), rivals={"0": 0})'''
LAST = '''with claim("TG-04", "holds", 1) as c:
    c.equal(1, printed=1, rivals={"0": 0})
print(os.getcwd(), sys.executable, os.environ.get("OMP_NUM_THREADS"), sep="\\n")'''


def code_cell(source, outputs=()):
    return Node(cell_type="code", metadata={}, source=source, outputs=[*outputs],
                execution_count=None)


def notebook(path):
    """The notebook at a path, as nbformat reads it."""
    import nbformat  # here, since it takes seconds

    return nbformat.read(path, 4)


of_the_grid = pytest.mark.xdist_group("grid")  # one worker, so that it runs once


@pytest.fixture(scope="module")
def book(tmp_path_factory):
    """A book of one chapter, recorded with one claim, TG-01, of three that are listed."""
    book = tmp_path_factory.mktemp("house") / "book"
    book.mkdir()
    statement = {"cell_type": "markdown", "metadata": {}, "source": "".join(
        f":::{{claim}} TG-0{i} A title\nAlso sprach Erdős.\n:::\n\n" for i in (1, 2, 3))}
    sources = PARAMETERS, VALIDATION, HOLDS, DIES_AT_7, DIFFERS_AT_5, FAILS_AT_10, LAST
    cells = [statement, *map(code_cell, sources)]
    cells[1]["metadata"]["tags"] = ["parameters"]
    record = {"id": "TG-01", "stated": "holds", "verdict": "holds", "checks": []}
    cells[3]["outputs"] = [
        {"output_type": "display_data", "data": {MIME: record}, "metadata": {}}]
    cells = [{"id": str(i)} | cell for i, cell in enumerate(cells)]
    metadata = {"kernelspec": {"name": "python3", "display_name": "Python 3", "language": "python"}}
    chapter = {"nbformat": 4, "nbformat_minor": 5, "metadata": metadata, "cells": cells}
    (book / "05_sensitivity.ipynb").write_text(json.dumps(chapter), encoding="utf-8")
    claims = '[papers.TG]\ntitle = "Tangent Gaussian"\n'
    claims += '[TG-01]\nwhere = "Sec. 1"\nreading = "clear"\n'
    for i in (2, 3):
        claims += f'[TG-0{i}]\nwhere = "Sec. {i}"\nuntested = "later"\nreading = "clear"\n'
        claims += 'chapter = "05_sensitivity"\n'
    (book / "claims.toml").write_text(claims)
    return book


@pytest.fixture
def inside(book, monkeypatch):
    monkeypatch.chdir(book.parent)


def contents(folder):
    return {path: path.read_bytes() for path in folder.rglob("*") if path.is_file()}


@pytest.fixture(scope="module")
def grid(book, tmp_path_factory):
    """A grid run by the installed command.

    PATH has no python, and another kernel called python3 comes first.
    """
    folder = tmp_path_factory.mktemp("elsewhere")
    other = folder / "jupyter" / "kernels" / "python3"
    other.mkdir(parents=True)
    kernel = {"argv": ["/bin/false"], "display_name": "Python 3", "language": "python"}
    (other / "kernel.json").write_text(json.dumps(kernel))
    before = contents(book)
    command = [pathlib.Path(sys.executable).parent / "python", "-m", "claimbook", "run", "5",
               "-p", "k=2,5,10,7,8", "-p", "epsilon=1", "--book", book, "-o", "out", "-j", "2"]
    environment = os.environ | {"PATH": "/nowhere", "JUPYTER_PATH": str(folder / "jupyter")}
    done = subprocess.run(command, cwd=folder, env=environment, capture_output=True, text=True)
    return done, folder / "out", before


def read_csv(path):
    with open(path, encoding="utf-8", newline="") as file:
        return list(csv.reader(file))


@of_the_grid
@pytest.mark.slow
def test_grid_collects_every_verdict_even_after_one_differs(grid):
    header, *rows = read_csv(grid[1] / "verdicts.csv")
    assert header == ["run", "k", "epsilon", "claim", "stated", "verdict", "message"]
    unlike = {("5", "TG-02"): "fails", ("10", "TG-02"): "inconclusive", ("10", "TG-03"): "error"}
    assert [row[:6] for row in rows[:12]] == [
        [run, k, "1.0", id, "holds", unlike.get((k, id), "holds")]
        for run, k in (("1", "2"), ("2", "5"), ("3", "10"))
        for id in ("TG-01", "TG-02", "TG-03", "TG-04")]
    differs, inconclusive, error = (row[-1] for row in rows[:12] if row[4] != row[5])
    assert differs == ""
    assert inconclusive.startswith(
        "Inconclusive: TG-02: experiment leaves 0 candidates standing (printed: rejected")
    assert error == "ZeroDivisionError: division by zero"


@of_the_grid
@pytest.mark.slow
def test_a_run_stops_where_its_validating_cell_fails(grid):
    assert read_csv(grid[1] / "verdicts.csv")[-1] == [
        "5", "8", "1.0", "", "", "error", "KeyError: 'eight'"]
    kept = notebook(grid[1] / "05_sensitivity.5.ipynb")
    executed = [cell.execution_count for cell in kept.cells if cell.cell_type == "code"]
    assert executed == [1, 2, 3, None, None, None, None, None]


@pytest.mark.slow
def test_a_wrong_value_is_refused_before_anything_runs(inside, tmp_path, monkeypatch, capsys):
    monkeypatch.setattr(run, "run_points", None)
    assert cli.main(["run", "5", "-p", "k=2,-1", "-o", str(tmp_path / "out")]) == 2
    assert capsys.readouterr().err == "claimbook: k is -1; accepted are integers ≥ 1\n"
    assert not (tmp_path / "out").exists()


@of_the_grid
@pytest.mark.slow
def test_a_kernel_that_dies_is_an_error(grid):
    holds, dies = (row for row in read_csv(grid[1] / "verdicts.csv") if row[1] == "7")
    assert holds[3:] == ["TG-01", "holds", "holds", ""]
    assert dies[3:] == ["", "", "error", "DeadKernelError: Kernel died"]


@of_the_grid
@pytest.mark.slow
def test_grid_shows_the_same_table_and_a_line_of_progress_a_run(grid):
    done, out, _ = grid
    assert done.returncode == 1
    lines = done.stdout.splitlines()
    table = [" ".join(row).split() for row in read_csv(out / "verdicts.csv")]
    assert [line.split() for line in lines] == table
    assert lines[0].index("claim") == lines[1].index("TG-01")
    assert lines[0].index("verdict") == lines[1].rindex("holds")
    progress = [line for line in done.stderr.splitlines() if " of 5 done, " in line]
    assert len(progress) == 5
    assert sum("run 2 k=5 epsilon=1.0: 3 as stated, 1 not" in line for line in progress) == 1


@of_the_grid
@pytest.mark.slow
def test_runs_use_this_interpreter_in_the_book_with_one_thread(grid, book):
    kept = sorted(grid[1].glob("*.ipynb"))
    assert [path.name for path in kept] == [f"05_sensitivity.{i}.ipynb" for i in (1, 2, 3, 4, 5)]
    for path in kept[:3]:
        printed = notebook(path).cells[-1].outputs[-1].text.split()
        assert printed[::2] == [str(book), "1"]
        assert pathlib.Path(printed[1]).parent == pathlib.Path(sys.executable).parent


@of_the_grid
@pytest.mark.slow
def test_nothing_is_written_into_the_book(grid, book):
    assert contents(book) == grid[2]


@pytest.mark.xdist_group("cluster")
@pytest.mark.slow
def test_a_grid_runs_on_a_cluster_and_its_outputs_come_back(
        book, cluster, tmp_path, monkeypatch, capsys):
    monkeypatch.chdir(book)
    assert cli.main(["run", "5", "-p", "k=2,7", "-o", str(tmp_path / "out"),
                     "--scheduler", cluster.scheduler_address]) == 1
    printed = capsys.readouterr()
    _, *rows = read_csv(tmp_path / "out" / "verdicts.csv")
    assert rows == [["1", "2", f"TG-0{i}", *["holds"] * 2, ""] for i in (1, 2, 3, 4)] + [
        ["2", "7", "TG-01", "holds", "holds", ""],
        ["2", "7", "", "", "error", "DeadKernelError: Kernel died"]]
    assert len(printed.out.splitlines()) == 7 and "run 1 k=2: 4 as stated, 0 not" in printed.err
    kept = [notebook(tmp_path / f"out/05_sensitivity.{i}.ipynb") for i in (1, 2)]
    assert kept[0].cells[-1].outputs[-1].text.split()[::2] == [str(book), "1"]
    assert not kept[1].cells[-1].outputs


@pytest.mark.slow
def test_exit_code_is_0_where_all_is_as_stated(book, monkeypatch, capsys):
    monkeypatch.chdir(book)
    assert cli.main(["run", "05_sensitivity"]) == 0
    rows = capsys.readouterr().out.splitlines()
    assert rows == ["run  claim  stated  verdict  message",
                    *(f"1    TG-0{i}  holds   holds" for i in (1, 2, 3, 4))]


@pytest.mark.slow
def test_plain_papermill_works_too(inside, book, tmp_path):
    command = [sys.executable, "-m", "papermill", "--cwd", "book", "-p", "k", "3",
               "book/05_sensitivity.ipynb", tmp_path / "out.ipynb"]
    done = subprocess.run(command, capture_output=True, text=True)
    assert done.returncode == 0, done.stderr
    cells = notebook(tmp_path / "out.ipynb").cells[1:]
    records = [row for cell in cells for row in run.cell_outcomes(cell)]
    assert [row[2] for row in records] == ["holds"] * 4


@pytest.mark.slow
def test_an_execution_stops_at_the_first_error_and_keeps_no_old_output(book):
    executed = run.execute(book / "05_sensitivity.ipynb", {"k": 5}, book=book)
    code = [cell for cell in executed.cells if cell.cell_type == "code"]
    assert [cell.execution_count for cell in code] == [1, 2, 3, 4, 5, 6, None, None]
    assert run.cell_outcomes(code[5]) == [("TG-02", "holds", "fails", "")]
    assert not code[6].outputs and not code[7].outputs


@pytest.mark.slow
def test_an_execution_has_an_environment_of_its_own_and_leaves_the_notebook_as_it_was(book):
    chapter = notebook(book / "05_sensitivity.ipynb")
    chapter.cells[2].source += "\nprint(os.environ['COLOUR'])"
    before = copy.deepcopy(chapter)
    executed = run.execute(chapter, book=book, env={"COLOUR": "green"})
    assert executed.cells[2].outputs[0].text == "green\n" and chapter == before


@pytest.mark.slow
@pytest.mark.parametrize("settings, message", [
    (["eta=1"], "eta (given as '1') is no parameter; accepted are k, epsilon, kernel, fast, sizes"),
    (["k=seven"], "k is 'seven'; accepted is int"),
    (["k=2,,5"], "k is '2,,5'; accepted is int"),
    (["k=2.5"], "k is '2.5'; accepted is int"),
    (["epsilon=0.5,big"], "epsilon is '0.5,big'; accepted is float"),
    (["fast=maybe"], "fast is 'maybe'; accepted is true or false"),
    (["sizes=2,5"], "sizes is '2,5'; accepted is list[int] as JSON, such as [2, 5]"),
    (["sizes=[2.5]"], "sizes is '[2.5]'; accepted is list[int] as JSON, such as [2, 5]"),
    (["k=2", "k=5"], "k is given again, as '5'"),
    (["k"], "-p is 'k'; accepted is NAME=VALUES"),
])
def test_wrong_settings_stop_before_anything_runs(inside, capsys, monkeypatch, settings, message):
    monkeypatch.setattr(run, "run_points", None)
    assert cli.main(["run", "5", *(word for setting in settings for word in ("-p", setting))]) == 2
    error = capsys.readouterr().err
    assert message in error
    assert "epsilon  float      0.5      privacy budget" in error


@pytest.mark.parametrize("kind, text, values", [
    ("int", "2,5,10", [2, 5, 10]), ("float", "1e-6,2", [1e-6, 2.0]), ("str", "a,b", ["a", "b"]),
    ("bool", "true,False", [True, False]), ("list[int]", "[2, 5],[7]", [[2, 5], [7]]),
    ("list[float]", "[1, 0.5]", [[1, 0.5]]),
])
def test_values_are_read_as_their_declared_type(kind, text, values):
    assert run.read_values("name", kind, text) == values


@pytest.mark.parametrize("arguments, message", [
    (["run", "7"],
     "CHAPTER is '7'; accepted are a path, the number or the name of one of: 05_sensitivity"),
    (["run", "05_other"], "CHAPTER is '05_other'"),
    (["run", "book/05.ipynb"], "CHAPTER is 'book/05.ipynb'"),
    pytest.param(["run", "5", "-j", "0"], "JOBS is 0; accepted are integers ≥ 1",
                 marks=pytest.mark.slow),
    pytest.param(
        ["run", "5", "-j", "2", "--scheduler", "tcp://127.0.0.1:1"],
        "JOBS is 2; accepted are integers ≥ 1, and none with a scheduler, which knows its workers",
        marks=pytest.mark.slow),
    pytest.param(["run", "5", "--scheduler", "nowhere://"],
                 "ADDRESS is 'nowhere://'; accepted is that of a", marks=pytest.mark.slow),
    pytest.param(["run", "5", "-o", "book/out"], "accepted is a folder outside the book",
                 marks=pytest.mark.slow),
    (["run", "5", "--book", "/"], "/ holds neither claims.toml nor book/claims.toml"),
])
def test_wrong_arguments_are_usage_errors(inside, capsys, arguments, message):
    assert cli.main(arguments) == 2
    assert message in capsys.readouterr().err


@pytest.mark.parametrize("output, reason", [
    ("missing/ledger.json", "No such file or directory"), (".", "Is a directory"),
])
def test_a_ledger_that_cannot_be_written_is_a_usage_error(inside, capsys, output, reason):
    assert cli.main(["ledger", "-o", output]) == 2
    assert capsys.readouterr().err == (
        f"claimbook: FILE is {output!r}; accepted is a file that can be written: {reason}\n")


@pytest.mark.slow
@pytest.mark.parametrize("output, reason", [
    ("file", "File exists"), ("file/out", "Not a directory"), ("taken", "Is a directory"),
])
def test_a_folder_that_cannot_be_written_is_a_usage_error(
        inside, tmp_path, monkeypatch, capsys, output, reason):
    monkeypatch.setattr(run, "run_points", None)
    (tmp_path / "file").touch()
    (tmp_path / "taken" / "verdicts.csv").mkdir(parents=True)
    assert cli.main(["run", "5", "-o", str(tmp_path / output)]) == 2
    error = capsys.readouterr().err
    assert error.startswith("claimbook: OUTDIR is ") and error.endswith(f"written: {reason}\n")


@pytest.mark.slow
@pytest.mark.parametrize("content", ["", "no JSON", '{"cells": ['])
def test_a_chapter_that_is_no_notebook_is_a_usage_error(inside, tmp_path, capsys, content):
    chapter = tmp_path / "chapter.ipynb"
    chapter.write_text(content, encoding="utf-8")
    assert cli.main(["run", str(chapter)]) == 2
    assert f"CHAPTER is {str(chapter)!r}; accepted is a notebook" in capsys.readouterr().err


@pytest.mark.parametrize("name, content", [
    ("claims.toml", b"= 1"), ("05_sensitivity.ipynb", b"{"), ("05_sensitivity.ipynb", b"\xff"),
])
def test_a_ledger_whose_book_cannot_be_read_is_a_usage_error(
        book, tmp_path, capsys, name, content):
    shutil.copytree(book, tmp_path / "book")
    (tmp_path / "book" / name).write_bytes(content)
    assert cli.main(["ledger", "--book", str(tmp_path)]) == 2
    assert "can be read: " in capsys.readouterr().err


def test_packages_that_are_missing_are_named(inside, monkeypatch, capsys):
    monkeypatch.setitem(sys.modules, "papermill", None)
    assert cli.main(["run", "5"]) == 2
    assert capsys.readouterr().err == (
        "claimbook: books need more packages, those of the extra [book] (missing: papermill)\n")


def test_outside_a_book_it_has_to_be_named(book, tmp_path, monkeypatch, capsys):
    monkeypatch.chdir(tmp_path)
    assert cli.main(["ledger"]) == 2
    assert "--book DIR" in capsys.readouterr().err
    assert cli.main(["ledger", "--book", str(book.parent)]) == 0


def test_the_nearest_book_upward_is_taken(book, monkeypatch):
    below = book / "figures" / "deep"
    below.mkdir(parents=True)
    for folder in below, book, book.parent:
        monkeypatch.chdir(folder)
        assert books.find_book() == books.Book(book, book.parent)


@pytest.mark.parametrize("ename, evalue", [
    ("NameError", "name 'k' is not defined"),
    ("VerdictDiffers", "TG-01: stated holds, computed fails"),
    ("ClaimError", "TG-02"),
])
def test_a_failing_cell_names_the_claims_that_it_does_not_reach(ename, evalue):
    error = Node(output_type="error", ename=ename, evalue=f"{evalue}\nand more", traceback=[])
    cell = code_cell(HOLDS + "\n" + DIFFERS_AT_5, [error])
    assert run.cell_outcomes(cell) == [("TG-01", "holds", "error", f"{ename}: {evalue}"),
                                       ("TG-02", "holds", "error", "not reached")]


def test_ledger_is_written_with_its_totals(inside, tmp_path, capsys):
    assert cli.main(["ledger"]) == 0
    printed = capsys.readouterr()
    assert printed.err == "1 holds, 2 untested\n"
    assert "Erdős" in printed.out and printed.out.startswith('[\n {\n  "id": "TG-01"')
    assert cli.main(["ledger", "-o", str(tmp_path / "ledger.json")]) == 0
    assert (tmp_path / "ledger.json").read_text(encoding="utf-8") == printed.out
    assert [row["verdict"] for row in json.loads(printed.out)] == ["holds", "untested", "untested"]
