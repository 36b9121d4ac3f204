"""Record the net: `python book/net.py [BREAK …]` runs faults of spdlib through the chapters.

The deliberate faults stand in breaks.toml. Each runs in every chapter that tests a claim and whose
imports lead to the broken module, and net.json takes down which claims caught it and how. A run
carries a key, made of the fault, the code of the chapter and the modules that this imports. What is
on record under its present key does not run again, so a call that was killed is taken up where it
ended. Nothing in the file depends on the time or the machine.
"""

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


def key(fault, chapter):
    """Digest of what a run depends on: the fault, the chapter's code, the modules it imports."""
    cells, imported = content(chapter)
    parts = [fault["module"], fault["old"], fault["new"], cells]
    for module in sorted(imported):
        parts.append((ROOT / f"spdlib/{module}.py").read_text(encoding="utf-8"))
    return hashlib.sha256("\0".join(parts).encode()).hexdigest()[:16]


def run(name, fault, chapter, until=None):
    """Run a chapter with the fault: its outcome, and its seconds.

    It runs on after errors, or else until a claim, where the first error ends it.
    """
    start = time.monotonic()
    with tempfile.TemporaryDirectory() as folder:
        env = broken_copy(name, fault, pathlib.Path(folder))
        book, run_on = ROOT / "book", until is None
        executed = execute(chapter, book=book, env=env, run_on=run_on, until=until)
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


def reached(fault):
    """The chapters that test a claim and whose imports lead to the broken module: their paths."""
    return [chapter for chapter in chapters()
            if "with claim(" in content(chapter)[0] and fault["module"] in content(chapter)[1]]


def topic(chapter):
    """Name of a chapter without its number, which may change."""
    return chapter.stem.partition("_")[2]


def read_record():
    """What has been recorded: a dict from the name of a break to its fault and its runs."""
    return json.loads(RECORD.read_text(encoding="utf-8")) if RECORD.exists() else {}


def write_record(breaks, runs):
    """Write what is known of the breaks on the list, in its order and that of the chapters."""
    record = {}
    for name, fault in breaks.items():
        order = [topic(chapter) for chapter in reached(fault)]
        known = {stem: runs[name, stem] for stem in order if (name, stem) in runs}
        record[name] = {part: fault[part] for part in ("module", "old", "new")} | {"runs": known}
    text = json.dumps(record, indent=1, ensure_ascii=False) + "\n"
    unfinished = RECORD.with_suffix(".tmp")
    unfinished.write_text(text, encoding="utf-8")
    unfinished.replace(RECORD)  # whole at every moment, whenever this is killed


def main(names=()):
    """Run what is not on record under its present key; a line of progress for each run."""
    breaks = read_breaks()
    if unknown := set(names) - set(breaks):
        sys.exit(f"BREAK is {unknown.pop()!r}; accepted are the names in {BREAKS.name}")
    for name, fault in breaks.items():
        broken_source(name, fault)
    recorded = read_record()
    runs = {(name, stem): run for name in recorded for stem, run in recorded[name]["runs"].items()}
    keys = {(name, chapter): key(breaks[name], chapter)
            for name in names or breaks for chapter in reached(breaks[name])}
    todo = [(name, chapter) for (name, chapter), present in keys.items()
            if runs.get((name, topic(chapter)), {}).get("key") != present]
    print(f"{len(todo)} of {len(keys)} runs; the others are on record", flush=True)
    write_record(breaks, runs)
    start = time.monotonic()
    pool = ProcessPoolExecutor(os.cpu_count(), multiprocessing.get_context("spawn"),
                               signal.signal, (signal.SIGINT, signal.SIG_DFL))
    try:
        jobs = {pool.submit(run, name, breaks[name], chapter): (name, chapter)
                for name, chapter in todo}
        for done, job in enumerate(as_completed(jobs), 1):
            name, chapter = jobs[job]
            found, seconds = job.result()
            runs[name, topic(chapter)] = {"key": keys[name, chapter]} | found
            write_record(breaks, runs)
            left = (time.monotonic() - start) / done * (len(todo) - done) / 60
            caught = ", ".join(found.get("caught", ())) or "no claim"
            print(f"{done:4} of {len(todo)}  {seconds:4.0f} s, {left:4.0f} min left  "
                  f"{name} in {chapter.stem}: {caught}", flush=True)
    finally:
        pool.shutdown(cancel_futures=True)


if __name__ == "__main__":
    main(sys.argv[1:])
