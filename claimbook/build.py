"""Check, record and build a book.

One execution is the check: strict nbval over the chapters, which compares every output with the
recorded one. A chapter that passed gets a stamp, keyed on all that its outputs depend on, and runs
again only when one of these changes. The site has such a stamp as well.
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

from . import sources
from .book import Book, code
from .guards.recorded import unclean
from .ledger import read_claims, tally
from .new import staged
from .run import environment, execute, require_packages

ENGINE = pathlib.Path(__file__).parent
CORES = os.cpu_count()


def key(book: Book, chapter) -> str:
    """Digest of all that a chapter's outputs depend on.

    These are the chapter, the modules in the book's root that it imports, the engine's and those
    under test among them, compiled code of the package under test and which path is chosen there,
    the plot style, the interpreter and the installed versions. An import
    runs the packages above a module, so their own texts count; what these import counts for
    chapters that take names from them. A chapter that reads the ledger depends on claims.toml and
    on every chapter.
    """
    reached = sources.modules(book.root, code(chapter))
    reached |= {package for module in reached for package in sources.above(module)}
    files = [sources.path_of(book.root, module) for module in sorted(reached)]
    files = [chapter, book.folder / "matplotlibrc", *filter(None, files)]
    if book.compiled and book.package in reached:
        folder = sources.path_of(book.root, book.package).parent
        files += [folder / book.compiled["source"], *sorted(folder.glob(book.compiled["built"]))]
    if reads_the_ledger(code(chapter)):
        files += [book.folder / "claims.toml", *book.chapters()]
    return digest(book, filter(pathlib.Path.exists, files))


def reads_the_ledger(source) -> bool:
    """Whether a chapter's code imports the ledger, wherever the engine is installed."""
    return any(f"{module}.{name}".startswith(f"{__package__}.ledger")
               for level, module, name in sources.statements(source) if not level)


def digest(book, files) -> str:
    """Digest of files, with their paths, of the interpreter and of the installed versions."""
    versions = sorted(f"{d.name}=={d.version}" for d in importlib.metadata.distributions())
    parts = [sys.version, *versions, os.environ.get(book.compiled.get("switch", ""), "")]
    for path in files:
        content = hashlib.sha256(path.read_bytes()).hexdigest()
        parts.append(f"{within(book, path)} {content}")
    return hashlib.sha256("\n".join(parts).encode()).hexdigest()


def within(book, path) -> str:
    """A file's path below the book's root; its name alone where it stands elsewhere."""
    return str(path.relative_to(book.root) if path.is_relative_to(book.root) else path.name)


def in_parallel(book, job, paths):
    """Results of `job(path)`, one process a core; a line of progress for each as it ends."""
    quiet = {"OPENBLAS_NUM_THREADS": "1", "PYTHONDONTWRITEBYTECODE": "1"}
    env = environment(book.folder, quiet)

    def run(path):
        start = time.monotonic()
        done = subprocess.run(job(path), cwd=book.root, env=env, capture_output=True, text=True)
        word = "failed" if done.returncode else "ok"
        print(f"  {path.stem:24} {word:7}{time.monotonic() - start:6.1f} s", flush=True)
        return path, done

    with concurrent.futures.ThreadPoolExecutor(CORES) as pool:
        return list(pool.map(run, paths))


def check(book: Book) -> None:
    """Run the chapters that have no stamp; exit with the list of what failed.

    ClaimError for an entry of claims.toml that is none, before anything runs. A chapter whose
    outputs were not recorded fails: there was nothing to compare.
    """
    require_packages(["nbval"])
    read_claims(book.folder)
    stamps = book.build / "stamps"
    stamps.mkdir(parents=True, exist_ok=True)
    keys = {path: key(book, path) for path in book.chapters()}
    todo = [path for path in keys if not has_stamp(book, path.stem, keys[path])]
    print(
        f"checking {len(todo)} of {len(keys)} chapters; the others have not changed since "
        "they passed", flush=True)
    # the font cache's first message would fail a cell
    subprocess.run([sys.executable, "-c", "import matplotlib.font_manager"], capture_output=True)
    nbval = [
        sys.executable, "-m", "pytest", "--disable-plugin-autoload", "-p", "nbval.plugin",
        "--nbval", "--nbval-current-env", "--color=no", "-p", "no:cacheprovider"
    ]
    largest_first = sorted(todo, key=lambda path: -path.stat().st_size)
    failed = False
    for path, done in in_parallel(book, lambda path: [*nbval, str(path)], largest_first):
        unrecorded = unclean(json.loads(path.read_text(encoding="utf-8"))["cells"])
        if done.returncode == 0 and not unrecorded:
            set_stamp(book, path.stem, keys[path])
            continue
        failed = True
        if done.returncode == 0:
            print(f"\n{path.stem}: {unrecorded[0]}; claimbook accept records it")
            continue
        report = stamps / f"{path.stem}.log"
        text = re.sub(r"\x1b\[[\d;]*m", "", done.stdout + done.stderr)  # without colours
        report.write_text(text, encoding="utf-8")
        errors = re.findall(r"\b(?:VerdictDiffers|Inconclusive|ClaimError): [A-Z]{2,}-.*", text)
        reasons = ["an output differs from the recorded one"]
        if errors:
            reasons = ["claims that do not come out as stated:", *dict.fromkeys(errors)]
        reasons.append(f"whole report: {report.relative_to(book.root)}")
        print(f"\n{path.stem}: " + "\n  ".join(reasons))
    if failed:
        sys.exit("the check failed; nothing was built")


def has_stamp(book, name, key) -> bool:
    """Whether what is called `name` passed, or was built, under this key."""
    stamp = book.build / f"stamps/{name}.txt"
    return stamp.exists() and stamp.read_text() == key


def set_stamp(book, name, key):
    (book.build / "stamps").mkdir(parents=True, exist_ok=True)
    (book.build / f"stamps/{name}.txt").write_text(key)


def accept(book: Book, wanted=()) -> None:
    """Run chapters and record their outputs; a chapter that fails is not recorded."""
    require_packages(["nbclient"])
    job = [sys.executable, "-m", __package__, "record", "--book", str(book.folder)]
    results = in_parallel(book, lambda path: [*job, str(path)], book.chapters(wanted))
    failures = [f"{path.stem}:\n{done.stderr[-3000:]}" for path, done in results if done.returncode]
    if failures:
        sys.exit("\n".join(failures))


def record(book: Book, path) -> None:
    """Run one chapter and write its outputs into it, without timestamps."""
    import nbformat

    notebook = execute(path, book=book.folder)
    for cell in notebook.cells:
        cell.metadata.pop("execution", None)
        for output in cell.get("outputs", ()):
            if output.output_type == "error":
                sys.exit("\n".join([*output.traceback, f"{output.ename}: {output.evalue}"]))
    notebook.metadata = {
        "kernelspec": {
            "display_name": "Python 3",
            "language": "python",
            "name": "python3"
        },
        "language_info": {
            "name": "python"
        },
    }
    nbformat.write(notebook, path)


def site(book: Book) -> None:
    """Build the site from the recorded outputs, the ledger within it; any warning is an error."""
    require_packages(["jupyter_book"])
    now = digest(book, site_files(book))
    html = book.build / "html"
    if has_stamp(book, "site", now) and (html / "ledger.json").exists():
        print("the site has not changed since it was built")
    else:
        print("building the site", flush=True)
        (book.build / "stamps/site.txt").unlink(missing_ok=True)
        shutil.rmtree(html, ignore_errors=True)  # no page of a chapter that is gone
        command = [
            sys.executable, "-c", "from jupyter_book.cli.main import main; main()", "build",
            "--all", "-n", "-W", "--keep-going", "--path-output",
            str(book.root),
            str(staged(book))
        ]
        done = subprocess.run(command, cwd=book.root, env=environment(book.folder),
                              capture_output=True, text=True)
        if done.returncode:
            sys.exit(done.stdout[-2000:] + done.stderr[-6000:])
        set_stamp(book, "site", now)
    rows = json.loads((html / "ledger.json").read_text(encoding="utf-8"))
    print(f"{len(rows)} claims: {tally(rows)}")
    print(f"the book: {html / 'index.html'}")


def site_files(book) -> list[pathlib.Path]:
    """What the site is made of: the book, its configuration, the engine, and what it documents."""
    package = sources.path_of(book.root, book.package) if book.package else None
    folders = [book.folder, ENGINE]
    folders += [package.parent] if package and package.name == "__init__.py" else []

    def counts(part):
        return part not in ("__pycache__", "_build") and not part.startswith(".")

    files = [
        path for folder in folders for path in sorted(folder.rglob("*"))
        if path.is_file() and all(map(counts,
                                      path.relative_to(folder).parts))
    ]
    more = [book.root / name for name in ("_config.yml", "_toc.yml")] + [package]
    return [*dict.fromkeys(files + [path for path in more if path and path.exists()])]
