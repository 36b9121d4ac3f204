"""The net: faults of the package under test, run through the claims that execute them.

The deliberate faults stand in breaks.toml. Each runs in every claim that would execute it, that is
in the excerpt of a chapter on which the claim depends, and net.json takes down which claims caught
it and how. What a claim executes is its footprint: the functions of the package that its excerpt
calls, directly or not, recorded beside the runs. A run carries a key, made of the fault, the
excerpt, the functions of its footprint, and what these name of all that stands outside of functions
in the modules that it imports; docstrings and comments do not count, and of this engine only its
version. So a claim may move to another chapter, and a chapter may change around it. Modules go by
their dotted names below the package. What is on record under its present key does not run again, so
a call that was killed is taken up where it ended. Nothing in the file depends on the time or the
machine.

Where a part of the package is compiled, faults in Python run without it, as footprints are taken.
Faults in its source run with a build of their own each, in their claim alone.
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
import subprocess
import sys
import tempfile
import threading
import time
import tomllib
from concurrent.futures import ProcessPoolExecutor, as_completed

import claimbook

from . import sources
from .book import Book, UsageError, code
from .excerpt import IMPORTS, excerpt
from .ledger import CLAIM, ID, ClaimError
from .run import cell_outcomes, execute

TRACER = pathlib.Path(__file__).parent / "_trace"  # its sitecustomize notes what is called
OWN = ("Inconclusive", "VerdictDiffers", "ClaimError")  # exceptions by which a claim catches
STANDING = re.compile(r"(?P<name>.+?): (?P<word>survives|undecided|rejected), ")


def read_breaks(book: Book) -> dict[str, dict]:
    """The list of deliberate faults: a dict from name to a dict."""
    if not book.package or sources.path_of(book.root, book.package) is None:
        raise UsageError(f"package is {book.package!r} in the table [book] of claims.toml; accepted"
                         f" is the name of the package under test, which stands in {book.root}")
    if not book.breaks.exists():
        raise UsageError(f"there is no {book.breaks}; accepted is a list of deliberate faults")
    return tomllib.loads(book.breaks.read_text(encoding="utf-8"))


def in_compiled(book, fault) -> bool:
    """Whether a fault stands in the source of what is compiled."""
    return fault["module"] == book.compiled.get("source")


def in_python(book) -> dict[str, str]:
    """The environment in which nothing of the package that is compiled runs."""
    return {book.compiled["switch"]: "0"} if book.compiled else {}


def short(book, module) -> str:
    """Name of a module below the package under test; the package's own is the package's."""
    return module.removeprefix(f"{book.package}.")


def dotted(book, module) -> str:
    """Full name of a module that goes by its short name."""
    return module if module == book.package else f"{book.package}.{module}"


def path_of(book, module) -> pathlib.Path:
    """The file of a module that goes by its short name."""
    if module == book.compiled.get("source"):
        return path_of(book, book.package).parent / module
    path = sources.path_of(book.root, dotted(book, module))
    if path is None:
        raise ValueError(f"module is {module!r}; accepted are the modules of {book.package}")
    return path


def broken_source(book: Book, name: str, fault: dict) -> str:
    """Text of the fault's module with the fault in it."""
    path = path_of(book, fault["module"])
    text = path.read_text(encoding="utf-8")
    if (count := text.count(fault["old"])) != 1:
        raise ValueError(
            f"old of {name!r} is {fault['old']!r}, {count} times in {path.relative_to(book.root)}; "
            "accepted is a text that stands there once")
    return text.replace(fault["old"], fault["new"])


def broken_copy(book: Book, name: str, fault: dict, folder: pathlib.Path) -> dict[str, str]:
    """Copy the package, with the fault, into `folder`; returns the environment that imports it."""
    source, package = broken_source(book, name, fault), path_of(book, book.package)
    if package.name == "__init__.py":
        package = package.parent
        ignored = shutil.ignore_patterns("__pycache__", book.compiled.get("built", ""))
        shutil.copytree(package, folder / package.relative_to(book.root), ignore=ignored)
    broken = folder / path_of(book, fault["module"]).relative_to(book.root)
    broken.write_text(source, encoding="utf-8")
    env = {"PYTHONPATH": str(folder), "PYTHONDONTWRITEBYTECODE": "1"}
    if not in_compiled(book, fault):
        return env | in_python(book)
    script = shutil.copy(book.root / book.compiled["script"], folder)
    subprocess.run([sys.executable, script, "-q", "build_ext", "--inplace"], cwd=folder, check=True,
                   capture_output=True)
    return env


@functools.cache
def homes(book: Book) -> dict[str, pathlib.Path]:
    """The chapters in which claims are tested: a dict from ids to paths, in the book's order."""
    return {
        test["id"]: chapter
        for chapter in book.chapters()
        for test in CLAIM.finditer(code(chapter))
    }


@functools.cache
def content(book, claim):
    """Code of a claim; modules of the package to which its imports lead; the other ones there.

    The engine is neither: of it, its version counts.
    """
    cells = excerpt(homes(book)[claim], claim).cells
    source = without_loose_imports("\n".join(cell.source for cell in cells))
    reached = sources.modules(book.root, source)

    def within(package):
        return {each for each in reached if each == package or each.startswith(f"{package}.")}

    own = within(book.package)
    return source, own, reached - own - within(__package__)


@functools.cache
def parts(root, module):
    """A module's statements outside of functions, and its functions and methods by qualified name.

    These are triples: first line, last line, and text. A class keeps the names of its methods. No
    text has docstrings or comments.
    """
    tree = ast.parse(sources.text_of(root, module))
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
    texts = {
        name: (first, last, ast.unparse(node))
        for name, (first, last, node) in functions.items()
    }
    return tree.body, texts


@functools.cache
def words(text):
    """The names that a text of code uses: a set."""
    nodes = list(ast.walk(ast.parse(text)))
    names = {node.id for node in nodes if isinstance(node, ast.Name)}
    return names | {node.attr for node in nodes if isinstance(node, ast.Attribute)}


def without_loose_imports(text):
    """A text of code without the imports at its top level of names that it does not use."""
    tree, names = ast.parse(text), words(text)
    parts = [narrowed(part, names) if isinstance(part, IMPORTS) else part for part in tree.body]
    tree.body = [part for part in parts if part]
    return ast.unparse(tree)


def narrowed(statement, names):
    """The part of an import that binds some of the names; None where it binds none."""
    statement = copy.copy(statement)
    statement.names = [alias for alias in statement.names if bound(ast.Import([alias])) & names]
    return statement if statement.names else None


def bound(statement):
    """The names that a statement outside of functions binds: a set; empty for what only acts."""
    if isinstance(statement, IMPORTS):
        return {(alias.asname or alias.name).partition(".")[0] for alias in statement.names}
    if isinstance(statement, ast.ClassDef):
        return {statement.name}
    if isinstance(statement, (ast.Assign, ast.AnnAssign)):
        return {
            node.id
            for node in ast.walk(statement)
            if isinstance(node, ast.Name) and isinstance(node.ctx, ast.Store)
        }
    return set()


def needed(statement, names):
    """The part of a statement outside of functions that matters to code with these names: text.

    An import keeps the names that are used. A class keeps its own statements and those methods that
    are named or have underscores, which Python calls by itself. A statement that binds none of the
    names is left out.
    """
    function = isinstance(statement, ast.Expr) and isinstance(statement.value, ast.Name)
    own = bound(statement)
    if function or isinstance(statement, ast.Pass) or own and own.isdisjoint(names):
        return ""
    if isinstance(statement, IMPORTS):
        statement = narrowed(statement, names)
    if isinstance(statement, ast.ClassDef):
        statement = copy.copy(statement)
        statement.body = [
            part for part in statement.body
            if not (isinstance(part, ast.Expr) and isinstance(part.value, ast.Name))
            or part.value.id in names or part.value.id.startswith("__")
        ]
    return ast.unparse(statement)


def stands_in(book: Book, fault: dict) -> set[str | None]:
    """The functions of the broken module in which the fault stands; None for outside of them."""
    text = path_of(book, fault["module"]).read_text(encoding="utf-8")
    start = text.index(fault["old"])
    lead = len(fault["old"]) - len(fault["old"].lstrip())
    lines = range(
        text.count("\n", 0, start + lead) + 1,
        text.count("\n", 0, start + len(fault["old"].rstrip())) + 2)
    _, functions = parts(book.root, dotted(book, fault["module"]))
    spans = {name: range(first, last + 1) for name, (first, last, _) in functions.items()}
    places = [next((name for name, span in spans.items() if line in span), None) for line in lines]
    return set(places)


def digest(*parts) -> str:
    return hashlib.sha256("\0".join(parts).encode()).hexdigest()[:16]


@functools.cache
def called(book: Book, claim, functions: frozenset) -> list[str] | None:
    """What comes out of a claim depends on: its code, what it calls, and what these name.

    `functions` are those of its footprint, pairs of a module and a name. Modules that are not under
    test count as they stand. None where a function is no longer there.
    """
    cells, own, others = content(book, claim)
    texts = {module: [] for module in sorted(own)}
    for module in texts:
        for home, name in sorted(functions):
            if home == short(book, module):
                if name not in parts(book.root, module)[1]:
                    return None
                texts[module].append(parts(book.root, module)[1][name][2])
    outside = named_outside(book.root, cells, texts)
    return [
        claimbook.ENGINE, cells,
        *(f"{module} {sources.text_of(book.root, module)}" for module in sorted(others)),
        *(f"{short(book, module)} {text}" for module in texts
          for text in texts[module] + outside[module])
    ]


def named_outside(root, cells, texts):
    """What stands outside of functions and is named, by a chapter or by what it calls.

    `texts` has for each module the functions that are called. A dict from modules to texts.
    """
    named, outside, before = {module: set() for module in texts}, {}, None
    while outside != before:  # what is named may name more
        before = outside
        for module, found in [("", [cells]), *texts.items()]:
            found = found + before.get(module, [])
            used = set().union(*map(words, found))
            if module:
                named[module] |= used
            package = module and sources.package_of(root, module)
            for source, name in set().union(*(sources.taken(root, text, package)
                                              for text in found)):
                if source in named:
                    named[source] |= {name} if name else used
        outside = {
            module: [
                text for statement in parts(root, module)[0]
                if (text := needed(statement, named[module]))
            ]
            for module in texts
        }
    return outside


def footprint(book: Book, claim) -> frozenset[tuple[str, str]] | None:
    """The functions that a claim calls, as recorded: pairs of a module and a name."""
    entry = read_record(book, "footprints").get(claim)
    return entry and frozenset(
        (module, name) for module, names in entry["calls"].items() for name in names.split())


def key(book: Book, fault: dict, claim) -> str:
    """Digest of what a run depends on: the fault, and what the claim calls."""
    source = broken_source(book, "", fault) if in_compiled(book, fault) else ""
    return digest(fault["module"], fault["old"], fault["new"], source,
                  *called(book, claim,
                          footprint(book, claim) or frozenset()) or ())


def trace(book: Book, claim) -> frozenset[tuple[str, str]]:
    """The footprint of a claim: the functions that it calls, pairs of a module and a name."""
    package = path_of(book, book.package)
    home = package.parent if package.name == "__init__.py" else package
    with tempfile.TemporaryDirectory() as folder:
        notes = pathlib.Path(folder, "notes")
        env = {
            "PYTHONPATH": str(TRACER),
            "PYTHONDONTWRITEBYTECODE": "1",
            "CLAIMBOOK_FOOTPRINT": str(notes),
            "CLAIMBOOK_PACKAGE": str(home)
        } | in_python(book)
        executed = execute(excerpt(homes(book)[claim], claim), book=book.folder, env=env)
        if said := outcome(executed, [claim])[claim]:
            raise ClaimError(f"{claim} does not stand on its own without a fault: {said}")
        lines = set(notes.read_text(encoding="utf-8").splitlines())
    own = {short(book, module): module for module in content(book, claim)[1]}
    calls = {tuple(line.split(" ")) for line in lines}
    return frozenset((module, name) for module, name in calls
                     if module in own and name in parts(book.root, own[module])[1])


def traced(book: Book, claim) -> bool:
    """Whether the footprint on record is that of the claim as it stands."""
    known = footprint(book, claim)
    texts = None if known is None else called(book, claim, known)
    return texts is not None and digest(*texts) == read_record(book, "footprints")[claim]["key"]


def run(book: Book, name: str, fault: dict, claims) -> tuple[dict[str, dict], float]:
    """Run claims of one chapter, what they depend on, with the fault: outcomes, and seconds."""
    start = time.monotonic()
    notebook = excerpt(homes(book)[claims[0]], *claims)
    for cell in notebook.cells:
        cell.metadata["tags"] = ["raises-exception"]  # so that it runs on
    with tempfile.TemporaryDirectory() as folder:
        env = broken_copy(book, name, fault, pathlib.Path(folder))
        executed = execute(notebook, book=book.folder, env=env)
    return outcome(executed, claims), time.monotonic() - start


def outcome(executed, claims) -> dict[str, dict[str, str]]:
    """What became of each of the claims: a dict from ids to dicts, empty where it stands.

    `caught`: it raised an exception of its own, and how. `untested`: another error kept it from
    being tested, and its kind.
    """
    found = {}
    for cell in executed.cells:
        error = next((out for out in cell.get("outputs", ()) if out.output_type == "error"), None)
        for id, _, verdict, _ in cell_outcomes(cell):
            found.setdefault(id, {})
            if verdict == "error":
                found[id].setdefault("untested", error.ename)
        if error and error.ename in OWN and (own := ID.match(error.evalue)):
            found.setdefault(own[0], {})["caught"] = how(error)
    for said in found.values():
        if "caught" in said:
            said.pop("untested", None)
    return {id: found.get(id, {"untested": "not reached"}) for id in claims}


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


def reached(book: Book, fault: dict) -> list[str]:
    """The claims that execute the fault, by their footprints: ids in the book's order."""
    if in_compiled(book, fault):
        return [fault["claim"]]
    module, places = fault["module"], stands_in(book, fault)

    def executes(claim):
        names = {name for home, name in footprint(book, claim) or () if home == module}
        return None in places or not places.isdisjoint(names)

    return [
        claim for claim in homes(book)
        if dotted(book, module) in content(book, claim)[1] and executes(claim)
    ]


def read_record(book: Book, part="breaks") -> dict:
    """What has been recorded: a dict from the name of a break to its fault and its runs.

    Or, with "footprints", one from the id of a claim to what it calls, and the key of that.
    """
    path = book.record
    return parsed(path, path.stat().st_mtime_ns)[part] if path.exists() else {}


@functools.lru_cache(1)
def parsed(path, changed):
    """The content of a file, as it is since it was changed last."""
    return json.loads(path.read_text(encoding="utf-8"))


def write_record(book: Book, footprints: dict, breaks: dict) -> None:
    """Write both parts of the record."""
    record = {"footprints": footprints, "breaks": breaks}
    text = json.dumps(record, indent=1, ensure_ascii=False) + "\n"
    unfinished = book.record.with_suffix(".tmp")
    unfinished.write_text(text, encoding="utf-8")
    unfinished.replace(book.record)  # whole at every moment, whenever this is killed


def recorded_runs(breaks, reach, runs):
    """The part of the record that has the runs, in the order of the list and of the claims."""
    return {
        name: {
            part: fault[part]
            for part in ("module", "old", "new")
        } | {
            "runs": {
                claim: runs[name, claim]
                for claim in reach[name] if (name, claim) in runs
            }
        }
        for name, fault in breaks.items()
    }


def take_footprints(book, pool):
    """Trace the claims that have changed since they were traced last."""
    known = read_record(book, "footprints")
    entries = {claim: known[claim] for claim in homes(book) if claim in known}
    jobs = {
        pool.submit(trace, book, claim): claim
        for claim in homes(book) if not traced(book, claim)
    }
    for done, job in enumerate(as_completed(jobs), 1):
        claim, functions, calls = jobs[job], job.result(), {}
        for module, name in sorted(functions):
            calls[module] = " ".join(filter(None, [calls.get(module), name]))
        entries[claim] = {"key": digest(*called(book, claim, functions)), "calls": calls}
        write_record(book, {claim: entries[claim]
                            for claim in homes(book) if claim in entries}, read_record(book))
        print(
            f"{done:4} of {len(jobs)}  {claim} calls {len(functions)} functions of "
            f"{book.package}", flush=True)


def main(book: Book, names=()) -> None:
    """Run what is not on record under its present key; a line of progress for each run."""
    breaks = read_breaks(book)
    if unknown := set(names) - set(breaks):
        raise UsageError(f"BREAK is {unknown.pop()!r}; accepted are the names in "
                         f"{book.breaks.name}")
    for name, fault in breaks.items():
        broken_source(book, name, fault)
    if threading.current_thread() is threading.main_thread():  # so that the workers end as well
        signal.signal(signal.SIGTERM, lambda *_: sys.exit(128 + signal.SIGTERM))
    pool = ProcessPoolExecutor(os.cpu_count(), multiprocessing.get_context("spawn"), signal.signal,
                               (signal.SIGINT, signal.SIG_DFL))
    try:
        take_footprints(book, pool)
        runs = {
            (name, claim): run
            for name, entry in read_record(book).items()
            for claim, run in entry["runs"].items()
        }
        reach = {name: reached(book, fault) for name, fault in breaks.items()}
        keys = {
            (name, claim): key(book, breaks[name], claim)
            for name in names or breaks
            for claim in reach[name]
        }
        todo = {}
        for (name, claim), present in keys.items():
            if runs.get((name, claim), {}).get("key") != present:
                todo.setdefault((name, homes(book)[claim]), []).append(claim)
        count = sum(map(len, todo.values()))
        print(f"{count} of {len(keys)} runs of claims; the others are on record", flush=True)
        footprints = read_record(book, "footprints")
        write_record(book, footprints, recorded_runs(breaks, reach, runs))
        start = time.monotonic()
        jobs = {
            pool.submit(run, book, name, breaks[name], claims): (name, chapter)
            for (name, chapter), claims in todo.items()
        }
        for done, job in enumerate(as_completed(jobs), 1):
            name, chapter = jobs[job]
            found, seconds = job.result()
            for claim, said in found.items():
                runs[name, claim] = {"key": keys[name, claim]} | said
            write_record(book, footprints, recorded_runs(breaks, reach, runs))
            left = (time.monotonic() - start) / done * (len(jobs) - done) / 60
            caught = ", ".join(claim for claim, said in found.items() if "caught" in said)
            print(
                f"{done:4} of {len(jobs)}  {seconds:4.0f} s, {left:4.0f} min left  "
                f"{name} in {chapter.stem}: {caught or 'no claim'}", flush=True)
    finally:
        pool.shutdown(cancel_futures=True)
