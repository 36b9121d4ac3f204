"""Check, record and build the book: `python book/build.py check | accept [CHAPTER …] | site`.

One execution is the check: strict nbval over the chapters, which compares every output with the
recorded one. A chapter that passed gets a stamp, keyed on all that its outputs depend on, and runs
again only when one of these changes. The site has such a stamp as well.
"""

import ast
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
    chosen = [path for path in paths if not wanted or names(path) & set(wanted)]
    return chosen or sys.exit(
        f"no chapter {' '.join(wanted)}; there are {' '.join(path.stem for path in paths)}"
    )


def names(path):
    """What a chapter may be called: its stem, and its number with or without the leading zero."""
    return {path.stem, path.stem[:2], path.stem[:2].lstrip("0")}


def imports(source):
    """Modules of spdlib that a source imports, wherever the import stands: a set of names."""
    found = set()
    for node in ast.walk(ast.parse(source)):
        if isinstance(node, ast.Import):
            paths = [alias.name for alias in node.names]
        elif isinstance(node, ast.ImportFrom):
            parts = ["spdlib"] if node.level else []
            parent = ".".join(parts + ([node.module] if node.module else []))
            paths = [f"{parent}.{alias.name}" for alias in node.names]
        else:
            continue
        for package, *rest in (path.split(".") for path in paths):
            if package == "spdlib":
                module = rest[0] if rest else ""
                is_module = (ROOT / f"spdlib/{module}.py").is_file()
                found.add(module if is_module else "__init__")
    return found


def code(chapter):
    """The code of a chapter, all cells of it."""
    cells = json.loads(chapter.read_text(encoding="utf-8"))["cells"]
    return "\n".join("".join(cell["source"]) for cell in cells if cell["cell_type"] == "code")


def modules(chapter):
    """Modules of spdlib that a chapter's own imports lead to, over any number of steps: a set."""
    reached, ahead = set(), imports(code(chapter))
    while ahead:
        module = ahead.pop()
        reached.add(module)
        source = (ROOT / f"spdlib/{module}.py").read_text(encoding="utf-8")
        ahead |= imports(source) - reached
    return reached


def key(chapter):
    """Digest of all that a chapter's outputs depend on.

    These are the chapter, the modules that it imports, the plot style, the interpreter and the
    installed versions. Every import runs spdlib/__init__.py, so its text counts for all chapters;
    what it imports counts for those that take names from it. A chapter that reads the ledger
    depends on claims.toml and on every chapter.
    """
    reached = modules(chapter) | {"__init__"}
    files = [chapter, ROOT / "book/matplotlibrc"]
    files += [ROOT / f"spdlib/{module}.py" for module in sorted(reached)]
    if "ledger" in imports(code(chapter)):
        files += [ROOT / "book/claims.toml", *chapters()]
    return digest(files)


def digest(files):
    """Digest of files, with their paths, of the interpreter and of the installed versions."""
    versions = sorted(f"{d.name}=={d.version}" for d in importlib.metadata.distributions())
    parts = [sys.version, *versions]
    for path in files:
        content = hashlib.sha256(path.read_bytes()).hexdigest()
        parts.append(f"{path.relative_to(ROOT)} {content}")
    return hashlib.sha256("\n".join(parts).encode()).hexdigest()


def in_parallel(job, paths):
    """Results of `job(path)`, one process a core; a line of progress for each as it ends."""
    quiet = {"OMP_NUM_THREADS": "1", "OPENBLAS_NUM_THREADS": "1", "PYTHONDONTWRITEBYTECODE": "1"}
    environment = os.environ | quiet

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
    todo = [path for path in keys if not has_stamp(path.stem, keys[path])]
    print(f"checking {len(todo)} of {len(keys)} chapters; the others have not changed since "
          "they passed", flush=True)
    # the font cache's first message would fail a cell
    subprocess.run([sys.executable, "-c", "import matplotlib.font_manager"], check=True)
    nbval = [sys.executable, "-m", "pytest", "--nbval", "--nbval-current-env", "--color=no",
             "-p", "no:xdist", "-p", "no:randomly"]
    largest_first = sorted(todo, key=lambda path: -path.stat().st_size)
    failed = False
    for path, done in in_parallel(lambda path: [*nbval, str(path)], largest_first):
        if done.returncode == 0:
            set_stamp(path.stem, keys[path])
            continue
        failed = True
        report = stamps / f"{path.stem}.log"
        text = re.sub(r"\x1b\[[\d;]*m", "", done.stdout + done.stderr)  # without colours
        report.write_text(text, encoding="utf-8")
        errors = re.findall(r"\b(?:VerdictDiffers|Inconclusive|ClaimError): [A-Z]{2}-.*", text)
        reasons = ["an output differs from the recorded one"]
        if errors:
            reasons = ["claims that do not come out as stated:", *dict.fromkeys(errors)]
        reasons.append(f"whole report: {report.relative_to(ROOT)}")
        print(f"\n{path.stem}: " + "\n  ".join(reasons))
    if failed:
        sys.exit("the check failed; nothing was built")


def has_stamp(name, key):
    """Whether what is called `name` passed, or was built, under this key."""
    stamp = BUILD / f"stamps/{name}.txt"
    return stamp.exists() and stamp.read_text() == key


def set_stamp(name, key):
    (BUILD / "stamps").mkdir(parents=True, exist_ok=True)
    (BUILD / f"stamps/{name}.txt").write_text(key)


def accept(wanted):
    """Run chapters and record their outputs; a chapter that fails is not recorded."""
    job = [sys.executable, __file__, "record"]
    results = in_parallel(lambda path: [*job, str(path)], chapters(wanted))
    failures = [f"{path.stem}:\n{done.stderr[-3000:]}" for path, done in results if done.returncode]
    if failures:
        sys.exit("\n".join(failures))


def record(path):
    """Run one chapter and write its outputs into it, without timestamps."""
    import nbformat

    from spdlib.cli import execute

    notebook = execute(path, book=ROOT / "book")
    for cell in notebook.cells:
        cell.metadata.pop("execution", None)
        for output in cell.get("outputs", ()):
            if output.output_type == "error":
                sys.exit("\n".join([*output.traceback, f"{output.ename}: {output.evalue}"]))
    notebook.metadata = {
        "kernelspec": {"display_name": "Python 3", "language": "python", "name": "python3"},
        "language_info": {"name": "python"},
    }
    nbformat.write(notebook, path)


def site():
    """Build the site from the recorded outputs, the ledger within it; any warning is an error."""
    from spdlib.ledger import tally

    sources = [path for path in sorted((ROOT / "book").rglob("*"))
               if path.is_file() and not {"__pycache__", ".ipynb_checkpoints"} & {*path.parts}]
    sources += [ROOT / "_config.yml", ROOT / "_toc.yml", *sorted((ROOT / "spdlib").glob("*.py"))]
    sources += sorted((ROOT / "claimbook").rglob("*.py"))
    now = digest(sources)
    if has_stamp("site", now) and (BUILD / "html/ledger.json").exists():
        print("the site has not changed since it was built")
    else:
        print("building the site", flush=True)
        (BUILD / "stamps/site.txt").unlink(missing_ok=True)
        shutil.rmtree(BUILD / "html", ignore_errors=True)  # no page of a chapter that is gone
        command = [sys.executable, "-c", "from jupyter_book.cli.main import main; main()", "build",
                   "--all", "-n", "-W", "--keep-going", "."]
        done = subprocess.run(command, cwd=ROOT, capture_output=True, text=True)
        if done.returncode:
            sys.exit(done.stdout[-2000:] + done.stderr[-6000:])
        set_stamp("site", now)
    rows = json.loads((BUILD / "html/ledger.json").read_text(encoding="utf-8"))
    print(f"{len(rows)} claims: {tally(rows)}")
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
