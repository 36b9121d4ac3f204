"""Check, record and build the book: `python book/build.py check | accept [CHAPTER …] | site`.

One execution is the check: strict nbval over the chapters, which compares every output with the recorded one. A chapter
that passed gets a stamp, keyed on all that its outputs depend on, and runs again only when one of these changes.
"""

import concurrent.futures
import hashlib
import importlib.metadata
import json
import os
import pathlib
import re
import shutil
import subprocess
import sys
import time

ROOT = pathlib.Path(__file__).resolve().parent.parent
BUILD = ROOT / "_build"
CORES = os.cpu_count()


def chapters(wanted=()):
    """Paths of the chapters, all of them or those whose number or stem is wanted."""
    paths = sorted((ROOT / "book").glob("[0-9]*.ipynb"))
    chosen = [path for path in paths if not wanted or {path.stem, path.stem[:2], path.stem[:2].lstrip("0")} & set(wanted)]
    return chosen or sys.exit(f"no chapter {' '.join(wanted)}; there are {' '.join(path.stem for path in paths)}")


def key(chapter):
    """Digest of all that a chapter's outputs depend on: chapter, spdlib, claims, plot style, interpreter, installed versions."""
    files = [chapter, ROOT / "book/claims.toml", ROOT / "book/matplotlibrc", *sorted((ROOT / "spdlib").glob("*.py"))]
    versions = sorted(f"{d.name}=={d.version}" for d in importlib.metadata.distributions())
    parts = [sys.version.encode(), "\n".join(versions).encode(), *(path.read_bytes() for path in files)]
    return hashlib.sha256(b"\0".join(hashlib.sha256(part).digest() for part in parts)).hexdigest()


def in_parallel(job, paths):
    """Results of `job(path)`, one process a core; a line of progress for each as it ends."""
    environment = os.environ | {"OMP_NUM_THREADS": "1", "OPENBLAS_NUM_THREADS": "1", "PYTHONDONTWRITEBYTECODE": "1"}

    def run(path):
        start = time.monotonic()
        done = subprocess.run(job(path), cwd=ROOT, env=environment, capture_output=True, text=True)
        word = "failed" if done.returncode else "ok"
        print(f"  {path.stem:24} {word:7}{time.monotonic() - start:6.1f} s", flush=True)
        return path, done

    with concurrent.futures.ThreadPoolExecutor(CORES) as pool:
        return list(pool.map(run, paths))


def check():
    """Run the chapters that have no stamp; exit with the list of what failed."""
    stamps = BUILD / "stamps"
    stamps.mkdir(parents=True, exist_ok=True)
    keys = {path: key(path) for path in chapters()}
    stamp = {path: stamps / f"{path.stem}.txt" for path in keys}
    todo = [path for path in keys if not (stamp[path].exists() and stamp[path].read_text() == keys[path])]
    print(f"checking {len(todo)} of {len(keys)} chapters; the others have not changed since they passed", flush=True)
    subprocess.run([sys.executable, "-c", "import matplotlib.font_manager"], check=True)  # its first message would fail a cell
    nbval = [sys.executable, "-m", "pytest", "--nbval", "--nbval-current-env", "-p", "no:xdist", "-p", "no:randomly", "--color=no"]
    failed = False
    for path, done in in_parallel(lambda path: [*nbval, str(path)], sorted(todo, key=lambda path: -path.stat().st_size)):
        if done.returncode == 0:
            stamp[path].write_text(keys[path])
            continue
        failed = True
        report = stamps / f"{path.stem}.log"
        report.write_text(re.sub(r"\x1b\[[\d;]*m", "", done.stdout + done.stderr))  # without the kernel's colours
        claims = dict.fromkeys(re.findall(r"\b(?:VerdictDiffers|Inconclusive|ClaimError): [A-Z]{2}-.*", report.read_text()))
        print(f"\n{path.stem}: " + ("\n  ".join(["claims that do not come out as stated:", *claims]) if claims
              else "an output differs from the recorded one") + f"\n  whole report: {report.relative_to(ROOT)}")
    if failed:
        sys.exit("the check failed; nothing was built")


def accept(wanted):
    """Run chapters and record their outputs, without timestamps; a chapter that fails is not recorded."""
    results = in_parallel(lambda path: [sys.executable, __file__, "record", str(path)], chapters(wanted))
    failures = [f"{path.stem}:\n{done.stderr[-3000:]}" for path, done in results if done.returncode]
    if failures:
        sys.exit("\n".join(failures))


def record(path):
    """Run one chapter and write its outputs into it."""
    import nbclient
    import nbformat

    notebook = nbformat.read(path, 4)
    nbclient.NotebookClient(notebook, timeout=600, record_timing=False, coalesce_streams=True, kernel_name="python3",
                            resources={"metadata": {"path": str(ROOT / "book")}}).execute()
    notebook.metadata = {"kernelspec": {"display_name": "Python 3", "language": "python", "name": "python3"},
                         "language_info": {"name": "python"}}
    for cell in notebook.cells:
        cell.metadata.pop("execution", None)
    nbformat.write(notebook, path)


def site():
    """Build the site from the recorded outputs, the ledger within it; any warning is an error."""
    print("building the site", flush=True)
    shutil.rmtree(BUILD / "html", ignore_errors=True)  # no page of a chapter that is gone
    jupyter_book = [sys.executable, "-c", "from jupyter_book.cli.main import main; main()", "build"]
    done = subprocess.run([*jupyter_book, "--all", "-n", "-W", "--keep-going", "."], cwd=ROOT, capture_output=True, text=True)
    if done.returncode:
        sys.exit(done.stdout[-2000:] + done.stderr[-6000:])
    rows = json.loads((BUILD / "html/ledger.json").read_text(encoding="utf-8"))
    count = {word: sum(row["verdict"] == word for row in rows) for word in ("holds", "corrected", "fails", "untested")}
    print(f"{len(rows)} claims: {count['holds']} hold, {count['corrected']} corrected, {count['fails']} fail, {count['untested']} untested")
    print(f"the book: {BUILD / 'html/index.html'}")


if __name__ == "__main__":
    command, *arguments = sys.argv[1:] or ["help"]
    if command in ("check", "site") and not arguments:
        {"check": check, "site": site}[command]()
    elif command == "accept":
        accept(arguments)
    elif command == "record":
        record(*arguments)
    else:
        sys.exit(__doc__)
