"""The net is proved to catch: a claim's own exception catches each deliberate fault of spdlib.

On a push the first fault of each room runs, and each that is not on record as it stands;
`SPDLIB_WEEKLY=1` runs all.
"""

import ast
import json
import os
import shutil
import subprocess
import sys
import tomllib
from concurrent.futures import ThreadPoolExecutor

import pytest
from conftest import CHAPTERS, ROOT, Node

import claimbook
from claimbook import net, sources
from claimbook.book import Book, UsageError
from claimbook.excerpt import excerpt
from claimbook.ledger import MIME, read_claims, recorded
from claimbook.run import execute
from claimbook.sphinx import net_page

BOOK = Book.at(ROOT / "book")
BREAKS = net.read_breaks(BOOK)
TESTED = {record["id"]: chapter for chapter in CHAPTERS for record in recorded(chapter)}
RECORD = net.read_record(BOOK)
UNFINISHED = "`make breaks` has not been run to its end since the list of breaks changed"
FIRST = {fault["module"].partition(".")[0] if "." in fault["module"] else "": name
         for name, fault in reversed(BREAKS.items())}.values()  # of each folder, and of none
each_break = pytest.mark.parametrize("name", BREAKS)


def on_record(name):
    """Whether the record has a run of the fault in its claim, as both stand, that caught it."""
    claim = BREAKS[name]["claim"]
    run = RECORD.get(name, {}).get("runs", {}).get(claim, {})
    return "caught" in run and run["key"] == net.key(BOOK, BREAKS[name], claim)


@pytest.mark.slow
def test_a_break_is_a_change_of_a_text_that_stands_once():
    for name, fault in BREAKS.items():
        assert fault["old"] != fault["new"], name
        source = net.broken_source(BOOK, name, fault)
        assert net.in_compiled(BOOK, fault) or ast.parse(source), name


@pytest.mark.slow
def test_a_break_names_a_claim_that_executes_it():
    for name, fault in BREAKS.items():
        assert set(fault) == {"module", "old", "new", "claim"}, name
        assert fault["claim"] in net.reached(BOOK, fault), name


@pytest.mark.parametrize("old", ["def ", "no such text"])
def test_a_text_that_stands_twice_or_nowhere_is_refused_by_the_name_of_its_break(old):
    with pytest.raises(ValueError, match=f"'a fault' is {old!r}, \\d+ times in spdlib/spd.py; acc"):
        net.broken_source(BOOK, "a fault", {"module": "spd", "old": old, "new": ""})


@pytest.mark.slow
def test_the_copy_is_what_a_chapter_imports(tmp_path):
    fault = {"module": "spd", "old": "SYMMETRY = 1e-10", "new": "SYMMETRY = 1e-11"}
    environment = os.environ | net.broken_copy(BOOK, "a fault", fault, tmp_path)
    program = "import spdlib.spd as s; print(s.__file__, s.SYMMETRY)"
    done = subprocess.run([sys.executable, "-c", program], cwd=ROOT / "book", env=environment,
                          capture_output=True, text=True)
    assert done.stdout.split() == [str(tmp_path / "spdlib/spd.py"), "1e-11"], done.stderr


@pytest.mark.slow
def test_faults_in_python_run_on_the_twin_and_those_in_c_know_their_source(tmp_path, monkeypatch):
    compiled = [fault for fault in BREAKS.values() if net.in_compiled(BOOK, fault)]
    in_python = {"module": "spd", "old": "SYMMETRY = 1e-10", "new": "SYMMETRY = 1e-11"}
    assert len(compiled) == 4
    assert net.broken_copy(BOOK, "a fault", in_python, tmp_path)["SPDLIB_KERNEL"] == "0"
    assert not list(tmp_path.rglob("_fast*.so"))
    copy = Book.at(tmp_path / "book")
    shutil.copytree(BOOK.folder, copy.folder)
    for fault, moves in [*((fault, True) for fault in compiled), (in_python, False)]:
        before = net.key(copy, fault, "TG-07")
        source = tmp_path / "spdlib/_fast.c"
        source.write_text(source.read_text(encoding="utf-8") + "\n", encoding="utf-8")
        assert (net.key(copy, fault, "TG-07") != before) == moves


@pytest.mark.slow
@each_break
def test_a_break_is_caught_by_its_claim(name):
    if name not in FIRST and os.environ.get("SPDLIB_WEEKLY") != "1" and on_record(name):
        return
    claim = BREAKS[name]["claim"]
    found, _ = net.run(BOOK, name, BREAKS[name], [claim])
    assert list(found) == [claim] and list(found[claim]) == ["caught"], found
    run = RECORD.get(name, {}).get("runs", {}).get(claim, {})
    if found[claim]["caught"] != run.get("caught"):  # by chance, for want of a seed?
        alone = execute(excerpt(TESTED[claim], claim), book=ROOT / "book")
        assert net.outcome(alone, [claim]) == {claim: {}}, "or is the excerpt too small?"


def error_output(name, message):
    return Node(output_type="error", ename=name, evalue=message)


def executed(*errors):
    """A notebook of cells that ended as told: with (source, name, message), or without an error."""
    cells = []
    for source, *error in errors:
        cell = Node(cell_type="code", source=source, outputs=[])
        if error:
            name, message = error
            cell.outputs = [error_output(name, message)]
        cells.append(cell)
    return Node(cells=cells)


def test_a_claim_catches_only_by_an_exception_of_its_own_that_names_it():
    test = 'with claim("{}", "holds", seed) as c:'
    passed = executed((test.format("TG-06"),)).cells
    passed[0].outputs = [Node(output_type="display_data", data={
        MIME: {"id": "TG-06", "stated": "holds", "verdict": "holds", "checks": []}})]
    notebook = executed(
        ("x = 1",),
        (test.format("TG-01"), "VerdictDiffers", "TG-01: stated holds, computed corrected"),
        (test.format("TG-02"), "Inconclusive", "TG-02: exact leaves 0 candidates standing "
         "(printed: rejected, relative error 0.1; twice: rejected, relative error 0.6)"),
        (test.format("TG-03"), "ValueError", "X is not positive definite"),
        ("y = x", "NameError", "name 'x' is not defined"),
        (test.format("TG-04"), "NameError", "name 'y' is not defined"),
        (test.format("TG-03"), "Inconclusive", "TG-03: sample is empty or has a NaN"),
        (test.format("TG-05"),),
    )
    notebook.cells += passed
    assert net.outcome(notebook, [f"TG-0{i}" for i in range(1, 7)]) == {
        "TG-01": {"caught": "comes out as corrected"}, "TG-02": {"caught": "nothing left standing"},
        "TG-03": {"caught": "a NaN"}, "TG-04": {"untested": "NameError"},
        "TG-05": {"untested": "not reached"}, "TG-06": {},
    }


@pytest.mark.parametrize("message, words", [
    ("TG-05: law leaves 1 candidates standing (printed: rejected, 9.8 times the band; σ/2: "
     "survives, 0.3 times the band)", "σ/2 left standing"),
    ("TG-05: exact leaves 2 candidates standing (printed: undecided, relative error 1e-08; n − 1: "
     "rejected, relative error 0.01; r/n: survives, equal)", "printed, r/n left standing"),
    ("TG-05: two candidates are only 1e-05 apart, which takes 3e+11 draws", "candidates too close"),
    ("TG-05: nothing was checked", "inconclusive"),
])
def test_what_is_taken_down_has_no_number_that_another_processor_could_move(message, words):
    assert net.how(error_output("Inconclusive", message)) == words


@pytest.fixture
def recorder(tmp_path, monkeypatch):
    """A book with one break of this one, a record of its own, and the name of the break."""
    name = next(iter(BREAKS))
    book = Book(tmp_path, ROOT)
    entry = "\n".join(f"{part} = {json.dumps(text)}" for part, text in BREAKS[name].items())
    book.breaks.write_text(f"[{json.dumps(name, ensure_ascii=False)}]\n{entry}\n", encoding="utf-8")
    for path in [BOOK.folder / "claims.toml", *CHAPTERS]:
        shutil.copy(path, tmp_path)
    monkeypatch.setattr(net, "take_footprints", lambda book, pool: None)
    net.write_record(book, net.read_record(BOOK, "footprints"), {})
    monkeypatch.setattr(net, "ProcessPoolExecutor", lambda *options: ThreadPoolExecutor(1))
    return book, name


@pytest.mark.slow
def test_a_recorder_that_was_killed_goes_on_where_it_ended(recorder, monkeypatch):
    (book, name), ran = recorder, []

    def run(book, name, fault, claims):
        if len(ran) == 2:
            raise KeyboardInterrupt
        ran.append(claims)
        return {claim: {"caught": "nothing left standing"} for claim in claims}, 1.0

    monkeypatch.setattr(net, "run", run)
    with pytest.raises(KeyboardInterrupt):
        net.main(book)
    before, again = sum(ran, []), []
    assert sorted(net.read_record(book)[name]["runs"]) == sorted(before)
    monkeypatch.setattr(net, "run", lambda book, name, fault, claims: (
        again.extend(claims) or {claim: {} for claim in claims}, 1.0))
    net.main(book)
    assert sorted(before + again) == sorted(net.reached(book, BREAKS[name]))
    runs = net.read_record(book)[name]["runs"]
    assert list(runs) == net.reached(book, BREAKS[name])
    assert {claim for claim, run in runs.items() if "caught" in run} == {*before}
    once = book.record.read_bytes()
    net.main(book)
    assert len(before + again) == len(runs) and book.record.read_bytes() == once


@pytest.mark.slow
def test_a_run_has_another_key_once_the_break_the_claim_a_module_or_the_engine_changes(
        monkeypatch):
    fault = next(iter(BREAKS.values()))
    first, *others = net.reached(BOOK, fault)
    before, (code, own, further) = net.key(BOOK, fault, first), net.content(BOOK, first)
    assert before == net.key(BOOK, fault, first)
    assert before not in {net.key(BOOK, fault, other) for other in others}
    assert before != net.key(BOOK, fault | {"new": "another"}, first)
    broken = net.dotted(BOOK, fault["module"])

    def again():
        net.called.cache_clear()
        return net.key(BOOK, fault, first)

    for content in (("another", own, further), (code, own - {broken}, further),
                    (code, own, further | {broken})):
        monkeypatch.setattr(net, "content", lambda book, claim, content=content: content)
        assert before != again()
    monkeypatch.setattr(net, "content", lambda book, claim: (code, own, further))
    assert before == again()
    monkeypatch.setattr(claimbook, "ENGINE", "another")
    assert before != again()
    net.called.cache_clear()


@pytest.mark.slow
def test_the_engine_counts_by_its_version_and_by_nothing_else():
    code, own, others = net.content(BOOK, "TG-07")
    assert "from claimbook import claim" in code and "claimbook" in sources.modules(ROOT, code)
    assert "spdlib.spd" in own and not others


def test_a_package_that_is_not_there_and_a_list_that_is_not_are_usage_errors(tmp_path):
    (tmp_path / "claims.toml").write_text("[papers.XX]\ntitle = 'X'\n")
    with pytest.raises(UsageError, match="package is '' in the table .book. of claims.toml"):
        net.main(Book.at(tmp_path))
    (tmp_path / "claims.toml").write_text("[book]\npackage = 'own'\n")
    (tmp_path / "own.py").touch()
    with pytest.raises(UsageError, match="there is no .*breaks.toml"):
        net.main(Book.at(tmp_path))
    (tmp_path / "breaks.toml").write_text(
        "[a]\nmodule = 'other'\nold = 'a'\nnew = 'b'\nclaim = 'XX-01'\n")
    with pytest.raises(ValueError, match="module is 'other'; accepted are the modules of own"):
        net.main(Book.at(tmp_path))


MODULE = '''
"""A module."""
from math import pi, tau as turn

LIMIT = 1
OTHER = turn


def one():
    """What it does."""
    return 1  # why


class Two:
    """A class."""

    size = 2

    @property
    def half(self):
        def inner():
            return LIMIT

        return inner()

    def whole(self):
        return 2
'''


@pytest.fixture
def module(tmp_path):
    """Makes a book whose package is a package of that one module, `inner.module`, for each text."""
    (tmp_path / "own/inner").mkdir(parents=True)
    (tmp_path / "own/__init__.py").touch()
    (tmp_path / "own/inner/__init__.py").write_text("from .module import one\n", encoding="utf-8")
    (tmp_path / "book").mkdir()
    (tmp_path / "book/claims.toml").write_text("[book]\npackage = 'own'\n", encoding="utf-8")

    def write(text):
        (tmp_path / "own/inner/module.py").write_text(text, encoding="utf-8")
        net.parts.cache_clear()
        return Book.at(tmp_path / "book")

    yield write
    net.parts.cache_clear()


@pytest.mark.parametrize("lead", ["from own.inner.module import Two, pi",
                                  "from own.inner import module\nmodule.Two, module.pi",
                                  "import own.inner.module as m\nm.Two, m.pi"])
def test_what_a_claim_depends_on_is_what_it_calls_and_what_that_names(module, monkeypatch, lead):
    code = f"{lead}\nTwo().half, pi"
    monkeypatch.setattr(net, "content", lambda book, claim: (code, {"own.inner.module"}, set()))

    def called(text):
        net.called.cache_clear()
        return net.called(module(text), "TG-01", frozenset({("inner.module", "Two.half")}))

    before = called(MODULE)
    for same in (("What it does.", "Other words."), ("  # why", ""), ("A class.", "Words."),
                 ("return 1  #", "return 3  #"), ("OTHER = turn", "OTHER = 3"),
                 (", tau as turn", ""), ("return 2", "return 4"), ("def whole", "def part"),
                 ("def one", "def two")):
        assert called(MODULE.replace(*same)) == before
    for other in (("LIMIT = 1", "LIMIT = 2"), ("size = 2", "size = 3"), ("@property", "@cache"),
                  ("return LIMIT", "return 2"), ("import pi", "import e as pi"),
                  ("from math", "from cmath"), ("class Two", "class Two(int)"),
                  ("def whole", "def half2(self): pass\n\n    def __getattr__"),
                  ('LIMIT = 1', 'LIMIT = 1\nprint("acts")')):
        assert called(MODULE.replace(*other)) != before
    assert called(MODULE.replace("def half", "def third")) is None


def test_a_name_is_followed_through_packages_to_the_module_in_which_it_stands(module):
    text = "LIMIT = {}\nOTHER = 1\n\n\ndef one():\n    return LIMIT\n"

    def outside(limit, other=1):
        root = module(text.format(limit).replace("OTHER = 1", f"OTHER = {other}")).root
        code = "from own.inner import one"
        own = {"own.inner", "own.inner.module"}
        return net.named_outside(root, code, {name: ["def one():\n    return LIMIT"]
                                              if name == "own.inner.module" else []
                                              for name in own})

    assert outside(1)["own.inner"] == ["from .module import one"]
    assert outside(1)["own.inner.module"] == ["LIMIT = 1"] == outside(1, 2)["own.inner.module"]
    assert outside(2)["own.inner.module"] == ["LIMIT = 2"]


def test_modules_that_are_not_under_test_count_as_they_stand(module, tmp_path, light_nbformat):
    book = module(MODULE)
    (tmp_path / "tools.py").write_text("x = 1\n")
    source = ("import tools, json\nfrom own.inner.module import one, Two\ny = 1\n"
              'with claim("TG-01", "holds", seed) as c:\n    c.equal(tools.x, stated=one())')
    chapter = {"cells": [{"cell_type": "code", "source": source}]}
    (tmp_path / "book/01_a.ipynb").write_text(json.dumps(chapter), encoding="utf-8")
    code, own, others = net.content(book, "TG-01")
    assert own == {"own.inner.module"} and others == {"tools"}
    assert code.splitlines()[:2] == ["import tools", "from own.inner.module import one"]
    assert "y = 1" not in code
    before = net.called(book, "TG-01", frozenset({("inner.module", "one")}))
    (tmp_path / "tools.py").write_text("x = 2\n")
    net.called.cache_clear()
    assert before != net.called(book, "TG-01", frozenset({("inner.module", "one")}))


def test_a_fault_stands_in_the_functions_that_its_lines_belong_to(module):
    book = module(MODULE)
    for old, places in (("return 1  # why", {"one"}), ("            return LIMIT", {"Two.half"}),
                        ("@property", {"Two.half"}), ("LIMIT = 1", {None}), ("size = 2", {None}),
                        ("\n    return 1  # why\n", {"one"}),
                        ("return 1  # why\n\n\nclass Two", {"one", None})):
        assert net.stands_in(book, {"module": "inner.module", "old": old}) == places


def test_the_copy_of_a_package_has_the_fault_in_the_module_that_it_names(module, tmp_path):
    fault = {"module": "inner.module", "old": "LIMIT = 1", "new": "LIMIT = 2"}
    net.broken_copy(module(MODULE), "a fault", fault, tmp_path / "copy")
    copied = (tmp_path / "copy/own/inner/module.py").read_text(encoding="utf-8")
    assert copied == MODULE.replace("LIMIT = 1", "LIMIT = 2")
    assert (tmp_path / "copy/own/inner/__init__.py").exists()


def test_the_tracer_names_modules_of_packages_and_a_package_of_one_file(module, tmp_path):
    module(MODULE)
    (tmp_path / "single.py").write_text("def f():\n    pass\n\n\nf()\n")
    (tmp_path / "own/__init__.py").write_text("def top():\n    pass\n\n\ntop()\n")
    programs = {"own": "from own.inner.module import Two; Two().half", "single.py": "import single"}
    for package, program in programs.items():
        notes = tmp_path / f"{package}.notes"
        environment = os.environ | {
            "CLAIMBOOK_FOOTPRINT": str(notes), "CLAIMBOOK_PACKAGE": str(tmp_path / package),
            "PYTHONPATH": os.pathsep.join([str(net.TRACER), str(tmp_path)])}
        subprocess.run([sys.executable, "-c", program], env=environment, check=True)
    lines = (tmp_path / "own.notes").read_text(encoding="utf-8").splitlines()
    assert {"own top", "inner.module Two.half"} <= set(lines)
    assert "inner.module one" not in lines and not any(line.startswith("single") for line in lines)
    assert "single f" in (tmp_path / "single.py.notes").read_text(encoding="utf-8").splitlines()


@pytest.mark.slow
def test_the_tracer_notes_what_is_called_and_nothing_else(tmp_path):
    notes = tmp_path / "notes"
    program = ("import threading, spdlib.spd as s; s.logm([[1.0]]); "
               "t = threading.Thread(target=s.vecd, args=([[1.0]],)); t.start(); t.join()")
    environment = os.environ | {
        "CLAIMBOOK_FOOTPRINT": str(notes), "CLAIMBOOK_PACKAGE": str(ROOT / "spdlib"),
        "PYTHONPATH": os.pathsep.join([str(net.TRACER), str(ROOT)])}
    subprocess.run([sys.executable, "-c", program], env=environment, check=True)
    lines = notes.read_text(encoding="utf-8").splitlines()
    assert {"spd logm", "spd vecd", "_checks array"} <= set(lines) and "spd expm" not in lines


def test_the_record_has_the_breaks_of_the_list_and_no_others():
    texts = {name: {part: entry[part] for part in ("module", "old", "new")}
             for name, entry in RECORD.items()}
    listed = {name: {part: fault[part] for part in ("module", "old", "new")}
              for name, fault in BREAKS.items()}
    assert list(texts) == list(listed) and texts == listed, UNFINISHED


def test_the_record_says_that_each_break_is_caught_by_its_claim():
    runs = {name: RECORD[name]["runs"].get(fault["claim"], {}) for name, fault in BREAKS.items()}
    assert [name for name, run in runs.items() if "caught" not in run] == [], UNFINISHED


@pytest.mark.slow
def test_the_record_has_the_footprints_of_the_claims_as_they_stand():
    assert [claim for claim in net.homes(BOOK) if not net.traced(BOOK, claim)] == [], UNFINISHED


@pytest.mark.slow
def test_the_record_has_a_run_for_each_claim_that_executes_the_fault():
    for name, entry in RECORD.items():
        assert list(entry["runs"]) == net.reached(BOOK, BREAKS[name]), f"{name}: {UNFINISHED}"


def test_every_claim_on_record_is_known():
    _, claims = read_claims(ROOT / "book")
    assert {claim for entry in RECORD.values() for claim in entry["runs"]} <= set(claims)


def test_the_page_leads_from_each_break_to_its_claims_and_from_each_claim_to_its_breaks():
    words = "n < 2 left standing"
    fault = {"module": "spd", "old": "x < y", "new": ""}
    record = {"a fault": fault | {"runs": {"TG-02": {"caught": words}, "TG-01": {"caught": words}}},
              "another": fault | {"runs": {"TG-03": {"untested": "NameError"}}}}
    kinds = {"TG-01": "exact", "TG-02": "search", "TG-03": "exact", "TG-04": "proof"}
    rows = [{"id": id, "verdict": "holds", "evidence": [{"kind": kind}]}
            for id, kind in kinds.items()]
    first, second = (net_page.block(name, entry) for name, entry in record.items())
    to = '<a href="#ledger-{0}">{0}</a>'.format
    assert f"<li>n &lt; 2 left standing: {to('TG-01')}, {to('TG-02')}</li>" in first
    assert 'id="break-a-fault"' in first and "x &lt; y" in first and "<i>nothing</i>" in first
    assert "TG-03" not in second
    back = '<a href="#break-a-fault">a fault</a>'
    assert [*net_page.by_claim(record, rows)] == [f"<li>{to('TG-01')}: {back}</li>",
                                                  f"<li>{to('TG-02')}: {back}</li>"]
    pure, others = net_page.loose(record, rows)
    assert pure.endswith(f"(1): {to('TG-04')}</li>") and others.endswith(f"(1): {to('TG-03')}</li>")


def test_no_two_breaks_have_one_place_on_the_page():
    assert len({net_page.anchor(name) for name in BREAKS}) == len(BREAKS)


GAUNTLET = tomllib.loads((ROOT / "book/gauntlet.toml").read_text(encoding="utf-8"))


def test_each_of_the_ten_kinds_of_the_gauntlet_has_faults_of_the_list():
    kinds = {entry["kind"]: entry["faults"] for entry in GAUNTLET["kinds"]}
    assert len(kinds) == 10 and all(kinds.values())
    names = [name for faults in kinds.values() for _, name in faults]
    assert len(names) == len(set(names)) and set(names) <= set(BREAKS)


def test_the_auditors_were_asked_about_the_programs_of_the_gauntlet():
    programs = code_dict(ROOT / "benchmarks/gauntlet.py", "PROGRAMS")
    assert [*GAUNTLET["asked"]] == programs and set(programs) <= set(BREAKS)
    for name, said in GAUNTLET["asked"].items():
        assert list(said) == list(net_page.AUDITORS), name
        assert {said["audit"], said["second"]} <= {"refuses", "passes"}, name
        assert said["replay"] in ("refuses", "passes", "not asked"), name


def code_dict(path, name):
    """The keys of a dict that a script assigns to a name."""
    parts = ast.parse(path.read_text(encoding="utf-8")).body
    value = next(part.value for part in parts
                 if isinstance(part, ast.Assign) and getattr(part.targets[0], "id", "") == name)
    return [key.value for key in value.keys]


def test_the_page_of_the_net_has_both_tables_of_the_gauntlet():
    page = (ROOT / "book/net.md").read_text(encoding="utf-8")
    assert page.count("<!-- gauntlet -->") == page.count("<!-- auditors -->") == 1
    kinds = net_page.gauntlet_table(GAUNTLET, BREAKS)
    asked = net_page.auditors_table(GAUNTLET)
    for entry in GAUNTLET["kinds"]:
        assert entry["kind"] in kinds
        for _, name in entry["faults"]:
            assert f'#{net_page.anchor(name)}"' in kinds and BREAKS[name]["claim"] in kinds
    assert all(net_page.mark(name) in asked for name in GAUNTLET["asked"])
    assert asked.count("<tr>") == len(GAUNTLET["asked"]) + 1
