"""Record the net: `python book/net.py [BREAK …]` runs faults of spdlib through the chapters.

The deliberate faults stand in breaks.toml. Each runs in every chapter that tests a claim and would
execute it, and net.json takes down which claims caught it and how. What a chapter executes is its
footprint: the functions of spdlib that it calls, directly or not, recorded beside the runs. A run
carries a key, made of the fault, the code of the chapter, the functions of its footprint, and what
these name of all that stands outside of functions in the modules that it imports; docstrings and
comments do not count.
What is on record under its present key does not run again, so a call that was killed is taken up
where it ended. Nothing in the file depends on the time or the machine.
"""

import ast
import copy
import functools
import hashlib
import json
import multiprocessing
import os
import pathlib
import re
import shutil
import signal
import sys
import tempfile
import time
import tomllib
from concurrent.futures import ProcessPoolExecutor, as_completed

from build import chapters, code, modules

from spdlib.cli import cell_outcomes, execute
from spdlib.ledger import ID

ROOT = pathlib.Path(__file__).resolve().parent.parent
BREAKS, RECORD = ROOT / "book/breaks.toml", ROOT / "book/net.json"
TRACER = ROOT / "book/_trace"  # its sitecustomize notes which functions of spdlib are called
OWN = ("Inconclusive", "VerdictDiffers", "ClaimError")  # exceptions by which a claim catches
STANDING = re.compile(r"(?P<name>.+?): (?P<word>survives|undecided|rejected), ")


def read_breaks():
    """The list of deliberate faults: a dict from name to a dict."""
    return tomllib.loads(BREAKS.read_text(encoding="utf-8"))


def broken_source(name, fault):
    """Text of the fault's module with the fault in it."""
    text = (ROOT / f"spdlib/{fault['module']}.py").read_text(encoding="utf-8")
    if (count := text.count(fault["old"])) != 1:
        raise ValueError(
            f"old of {name!r} is {fault['old']!r}, {count} times in {fault['module']}.py; accepted "
            "is a text that stands there once"
        )
    return text.replace(fault["old"], fault["new"])


def broken_copy(name, fault, folder):
    """Copy spdlib, with the fault, into `folder`; returns the environment that imports the copy."""
    source, package = broken_source(name, fault), folder / "spdlib"
    shutil.copytree(ROOT / "spdlib", package, ignore=shutil.ignore_patterns("__pycache__"))
    (package / f"{fault['module']}.py").write_text(source, encoding="utf-8")
    return {"PYTHONPATH": str(folder), "PYTHONDONTWRITEBYTECODE": "1"}


@functools.cache
def content(chapter):
    """Code of a chapter, and the modules of spdlib to which its imports lead."""
    return code(chapter), modules(chapter)


@functools.cache
def parts(module):
    """A module's statements outside of functions, and its functions and methods by qualified name.

    These are triples: first line, last line, and text. A class keeps the names of its methods. No
    text has docstrings or comments.
    """
    tree = ast.parse((ROOT / f"spdlib/{module}.py").read_text(encoding="utf-8"))
    functions = {}

    def strip(node, path):
        if ast.get_docstring(node, clean=False) is not None:
            node.body[0] = ast.copy_location(ast.Pass(), node.body[0])
        inner = [child for child in node.body if hasattr(child, "name")]
        for child in inner:
            strip(child, [*path, child.name])
            if isinstance(child, ast.FunctionDef) and not isinstance(node, ast.FunctionDef):
                first = min([child.lineno] + [mark.lineno for mark in child.decorator_list])
                functions[".".join([*path, child.name])] = first, child.end_lineno, child
                node.body[node.body.index(child)] = ast.Expr(ast.Name(child.name))

    strip(tree, [])
    texts = {name: (first, last, ast.unparse(node))
             for name, (first, last, node) in functions.items()}
    return tree.body, texts


@functools.cache
def words(text):
    """The names that a text of code uses: a set."""
    nodes = list(ast.walk(ast.parse(text)))
    return ({node.id for node in nodes if isinstance(node, ast.Name)}
            | {node.attr for node in nodes if isinstance(node, ast.Attribute)})


def bound(statement):
    """The names that a statement outside of functions binds: a set; empty for what only acts."""
    if isinstance(statement, (ast.Import, ast.ImportFrom)):
        return {(alias.asname or alias.name).partition(".")[0] for alias in statement.names}
    if isinstance(statement, ast.ClassDef):
        return {statement.name}
    if isinstance(statement, (ast.Assign, ast.AnnAssign)):
        return {node.id for node in ast.walk(statement)
                if isinstance(node, ast.Name) and isinstance(node.ctx, ast.Store)}
    return set()


def needed(statement, names):
    """Text of what a statement outside of functions is to code that has these names.

    Of an import that are the names it binds, of a class what it says and those of its methods that
    are named, or could be called without that; where it binds none of the names, it is empty.
    """
    function = isinstance(statement, ast.Expr) and isinstance(statement.value, ast.Name)
    own = bound(statement)
    if function or isinstance(statement, ast.Pass) or own and own.isdisjoint(names):
        return ""
    statement = copy.copy(statement)
    if isinstance(statement, (ast.Import, ast.ImportFrom)):
        statement.names = [alias for alias in statement.names if bound(ast.Import([alias])) & names]
    if isinstance(statement, ast.ClassDef):
        statement.body = [part for part in statement.body
                          if not (isinstance(part, ast.Expr) and isinstance(part.value, ast.Name))
                          or part.value.id in names or part.value.id.startswith("__")]
    return ast.unparse(statement)


@functools.cache
def taken(text):
    """What a text imports of spdlib: pairs of a module and a name, None for the module itself."""
    found = set()
    for node in ast.walk(ast.parse(text)):
        if isinstance(node, ast.ImportFrom) and (node.level or node.module.startswith("spdlib")):
            module = (node.module or "").removeprefix("spdlib").removeprefix(".")
            found |= {(module or alias.name, alias.name if module else None)
                      for alias in node.names}
    return found


def stands_in(fault):
    """The functions of the broken module in which the fault stands; None for outside of them."""
    text = (ROOT / f"spdlib/{fault['module']}.py").read_text(encoding="utf-8")
    start = text.index(fault["old"])
    lead = len(fault["old"]) - len(fault["old"].lstrip())
    lines = range(text.count("\n", 0, start + lead) + 1,
                  text.count("\n", 0, start + len(fault["old"].rstrip())) + 2)
    _, functions = parts(fault["module"])
    spans = {name: range(first, last + 1) for name, (first, last, _) in functions.items()}
    places = [next((name for name, span in spans.items() if line in span), None) for line in lines]
    return set(places)


def digest(*parts):
    return hashlib.sha256("\0".join(parts).encode()).hexdigest()[:16]


def called(chapter, footprint):
    """What the outputs of a chapter depend on: its code, what it calls, and what these name.

    None where a function of the footprint is no longer there.
    """
    cells, imported = content(chapter)
    texts = {module: [] for module in sorted(imported)}
    for module in texts:
        for name in footprint.get(module, ()):
            if name not in parts(module)[1]:
                return None
            texts[module].append(parts(module)[1][name][2])
    named, outside, before = {module: set() for module in texts}, {}, None
    while outside != before:  # what is named may name more
        before = outside
        for module, found in [("", [cells]), *texts.items()]:
            found = found + before.get(module, [])
            names = set().union(*map(words, found))
            named.setdefault(module, set()).update(names)
            for source, name in set().union(*map(taken, found)):
                where = source if source in texts else "__init__"
                if where in named:
                    named[where] |= {name or source} if name or where != source else names
        outside = {module: [text for statement in parts(module)[0]
                            if (text := needed(statement, named[module]))] for module in texts}
    return [cells, *(f"{module} {text}" for module in texts
                     for text in texts[module] + outside[module])]


def key(fault, chapter):
    """Digest of what a run depends on: the fault, and what the chapter calls."""
    footprint = read_record("footprints").get(topic(chapter), {}).get("functions", {})
    return digest(fault["module"], fault["old"], fault["new"], *called(chapter, footprint) or ())


def trace(chapter):
    """The footprint of a chapter: a dict from modules to the names of functions that it calls."""
    with tempfile.TemporaryDirectory() as folder:
        notes = pathlib.Path(folder, "notes")
        paths = os.pathsep.join([str(TRACER), *filter(None, [os.environ.get("PYTHONPATH")])])
        env = {"PYTHONPATH": paths, "SPDLIB_FOOTPRINT": str(notes), "PYTHONDONTWRITEBYTECODE": "1"}
        executed = execute(chapter, book=ROOT / "book", env=env)
        if errors := outcome(executed):
            raise RuntimeError(f"{chapter.stem} does not run without a fault: {errors}")
        lines = set(notes.read_text(encoding="utf-8").splitlines())
    footprint = {}
    for module, name in sorted(line.split(" ") for line in lines):
        if module in content(chapter)[1] and name in parts(module)[1]:
            footprint.setdefault(module, []).append(name)
    return footprint


def traced(chapter):
    """Whether the footprint on record is that of the chapter as it stands."""
    known = read_record("footprints").get(topic(chapter))
    texts = known and called(chapter, known["functions"])
    return texts is not None and digest(*texts) == known["key"]


def run(name, fault, notebook, run_on=True):
    """Run a chapter, or an excerpt of one, with the fault: its outcome, and its seconds.

    With `run_on` it runs on after errors, else the first one ends it.
    """
    start = time.monotonic()
    with tempfile.TemporaryDirectory() as folder:
        env = broken_copy(name, fault, pathlib.Path(folder))
        executed = execute(notebook, book=ROOT / "book", env=env, run_on=run_on)
    return outcome(executed), time.monotonic() - start


def outcome(executed):
    """What an executed chapter says of a fault: a dict of what is not empty among these.

    `caught`: the claims that caught it, by an exception of their own, and how. `untested`: other
    claims that an error kept from being tested, and its kind. `errors`: kinds of all other errors.
    """
    caught, untested, errors = {}, {}, set()
    for cell in executed.cells:
        error = next((out for out in cell.get("outputs", ()) if out.output_type == "error"), None)
        if error is None:
            continue
        own = ID.match(error.evalue) if error.ename in OWN else None
        if own:
            caught.setdefault(own[0], how(error))
        else:
            errors.add(error.ename)
        for id, _, verdict, _ in cell_outcomes(cell):
            if id and verdict == "error":
                untested.setdefault(id, error.ename)
    untested = {id: kind for id, kind in sorted(untested.items()) if id not in caught}
    parts = {"caught": dict(sorted(caught.items())), "untested": untested, "errors": sorted(errors)}
    return {part: content for part, content in parts.items() if content}


def how(error):
    """What an exception of a claim says, without numbers, which another processor could move."""
    message = error.evalue
    if error.ename == "VerdictDiffers":
        return message.rpartition(", ")[2].replace("computed", "comes out as")
    if " candidates standing (" in message:
        items = message.partition(" candidates standing (")[2].split("; ")
        found = [STANDING.match(item) for item in items]
        standing = [m["name"] for m in found if m and m["word"] != "rejected"]
        return f"{', '.join(standing) or 'nothing'} left standing"
    if "NaN" in message:
        return "a NaN"
    return "candidates too close" if " apart, " in message else "inconclusive"


def claiming():
    """The chapters that test a claim: their paths."""
    return [chapter for chapter in chapters() if "with claim(" in content(chapter)[0]]


def reached(fault):
    """The chapters that test a claim and execute the fault, by their footprints: their paths."""
    module, places = fault["module"], stands_in(fault)

    def executes(chapter):
        footprint = read_record("footprints").get(topic(chapter), {}).get("functions", {})
        return None in places or not places.isdisjoint(footprint.get(module, ()))

    return [chapter for chapter in claiming()
            if module in content(chapter)[1] and executes(chapter)]


def topic(chapter):
    """Name of a chapter without its number, which may change."""
    return chapter.stem.partition("_")[2]


def read_record(part="breaks"):
    """What has been recorded: a dict from the name of a break to its fault and its runs.

    Or, with "footprints", one from the topic of a chapter to what it calls, and the key of that.
    """
    return parsed(RECORD, RECORD.stat().st_mtime_ns)[part] if RECORD.exists() else {}


@functools.lru_cache(1)
def parsed(path, changed):
    """The content of a file, as it is since it was changed last."""
    return json.loads(path.read_text(encoding="utf-8"))


def write_record(footprints, breaks):
    """Write both parts of the record."""
    record = {"footprints": footprints, "breaks": breaks}
    text = json.dumps(record, indent=1, ensure_ascii=False) + "\n"
    unfinished = RECORD.with_suffix(".tmp")
    unfinished.write_text(text, encoding="utf-8")
    unfinished.replace(RECORD)  # whole at every moment, whenever this is killed


def recorded_runs(breaks, reach, runs):
    """The part of the record that has the runs, in the order of the list and of the chapters."""
    record = {}
    for name, fault in breaks.items():
        order = [topic(chapter) for chapter in reach[name]]
        known = {stem: runs[name, stem] for stem in order if (name, stem) in runs}
        record[name] = {part: fault[part] for part in ("module", "old", "new")} | {"runs": known}
    return record


def take_footprints(pool):
    """Trace the chapters that have changed since they were traced last."""
    footprints = {topic(chapter): read_record("footprints").get(topic(chapter))
                  for chapter in claiming()}
    jobs = {pool.submit(trace, chapter): chapter for chapter in claiming() if not traced(chapter)}
    for job in as_completed(jobs):
        chapter, functions = jobs[job], job.result()
        entry = {"key": digest(*called(chapter, functions)), "functions": functions}
        footprints[topic(chapter)] = entry
        known = {stem: footprint for stem, footprint in footprints.items() if footprint}
        write_record(known, read_record())
        count = sum(map(len, functions.values()))
        print(f"{chapter.stem} calls {count} functions of spdlib", flush=True)


def main(names=()):
    """Run what is not on record under its present key; a line of progress for each run."""
    breaks = read_breaks()
    if unknown := set(names) - set(breaks):
        sys.exit(f"BREAK is {unknown.pop()!r}; accepted are the names in {BREAKS.name}")
    for name, fault in breaks.items():
        broken_source(name, fault)
    pool = ProcessPoolExecutor(os.cpu_count(), multiprocessing.get_context("spawn"),
                               signal.signal, (signal.SIGINT, signal.SIG_DFL))
    try:
        take_footprints(pool)
        recorded = read_record()
        runs = {(name, stem): run
                for name in recorded for stem, run in recorded[name]["runs"].items()}
        reach = {name: reached(fault) for name, fault in breaks.items()}
        keys = {(name, chapter): key(breaks[name], chapter)
                for name in names or breaks for chapter in reach[name]}
        todo = [(name, chapter) for (name, chapter), present in keys.items()
                if runs.get((name, topic(chapter)), {}).get("key") != present]
        print(f"{len(todo)} of {len(keys)} runs; the others are on record", flush=True)
        footprints = read_record("footprints")
        write_record(footprints, recorded_runs(breaks, reach, runs))
        start = time.monotonic()
        jobs = {pool.submit(run, name, breaks[name], chapter): (name, chapter)
                for name, chapter in todo}
        for done, job in enumerate(as_completed(jobs), 1):
            name, chapter = jobs[job]
            found, seconds = job.result()
            runs[name, topic(chapter)] = {"key": keys[name, chapter]} | found
            write_record(footprints, recorded_runs(breaks, reach, runs))
            left = (time.monotonic() - start) / done * (len(todo) - done) / 60
            caught = ", ".join(found.get("caught", ())) or "no claim"
            print(f"{done:4} of {len(todo)}  {seconds:4.0f} s, {left:4.0f} min left  "
                  f"{name} in {chapter.stem}: {caught}", flush=True)
    finally:
        pool.shutdown(cancel_futures=True)


if __name__ == "__main__":
    main(sys.argv[1:])
