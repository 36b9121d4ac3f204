"""What the tests of the book share: where it stands, how a chapter is run, the browser and
the site, and what runs first.
"""

import functools
import json
import pathlib
import shutil
import subprocess
import sys
import types

import numpy as np
import pytest

from claimbook.run import execute

ROOT = pathlib.Path(__file__).resolve().parent.parent
CHAPTERS = sorted((ROOT / "book").glob("[0-9]*.ipynb"))

CHROMIUM = ["--no-sandbox", "--disable-gpu", "--no-first-run", "--disable-background-networking",
            "--disable-component-update", "--disable-sync",
            "--host-resolver-rules=MAP * ~NOTFOUND, EXCLUDE 127.0.0.1"]


@functools.cache
def cells_of(chapter):
    """Cells of a notebook, their source joined: a list of dicts, which nobody changes."""
    cells = json.loads(pathlib.Path(chapter).read_text(encoding="utf-8"))["cells"]
    return [cell | {"source": "".join(cell["source"])} for cell in cells]


def mostly_slow(cases, *fast):
    """Cases of a parametrised test, of which `make quick` runs one of those named, the suite all.

    A case that is a tuple is the arguments of a test of several.
    """
    return [case if case in fast else
            pytest.param(*case if isinstance(case, tuple) else (case,), marks=pytest.mark.slow)
            for case in cases]


class Node(dict):
    """A part of a notebook, as nbformat gives it, whose import takes seconds."""

    __setattr__ = dict.__setitem__

    def __getattr__(self, name):
        if name.startswith("__"):  # so that it can be copied
            raise AttributeError(name)
        return self[name]


@pytest.fixture
def light_nbformat(monkeypatch):
    """In place of nbformat what reads notebooks as they stand in the file, and looks at nothing."""

    def read(path, as_version):
        return json.loads(pathlib.Path(path).read_text(encoding="utf-8"), object_hook=Node)

    light = types.SimpleNamespace(NotebookNode=Node, read=read)
    monkeypatch.setitem(sys.modules, "nbformat", light)


NODES, WEIGHTS = np.polynomial.legendre.leggauss(40)


def pieces(ends):
    """Nodes and weights of Gauss and Legendre on many short pieces between the ends."""
    cuts = np.interp(np.arange(8 * len(ends) - 7) / 8, range(len(ends)), ends)
    half = np.diff(cuts)[:, None] / 2
    return ((cuts[:-1, None] + half) + half * NODES).ravel(), (half * WEIGHTS).ravel()


@pytest.fixture
def run_chapter():
    """Run a chapter up to its first error: (name, message) of that error, or None."""

    def run(chapter, parameters=None, library=ROOT):
        environment = {"PYTHONPATH": str(library), "PYTHONDONTWRITEBYTECODE": "1"}
        executed = execute(chapter, parameters, book=ROOT / "book", env=environment)
        for cell in executed.cells:
            for output in cell.get("outputs", ()):
                if output.output_type == "error":
                    return output.ename, output.evalue
        return None

    return run


@pytest.fixture(scope="session")
def cluster():
    """A cluster of two processes on this machine."""
    distributed = pytest.importorskip("distributed", reason="dask is not installed")
    with distributed.LocalCluster(n_workers=2, threads_per_worker=1, host="127.0.0.1",
                                  dashboard_address="127.0.0.1:0", silence_logs="ERROR") as cluster:
        yield cluster


@pytest.fixture(scope="session")
def browser():
    """A browser that is cut off from all other hosts; one serves all tests of a worker."""
    reason = "Playwright is not installed"
    playwright = pytest.importorskip("playwright.sync_api", reason=reason)
    with playwright.sync_playwright() as engine:
        found = map(shutil.which, ("chromium", "chromium-browser", "google-chrome"))
        installed = next(filter(None, found), None)
        try:
            browser = engine.chromium.launch(executable_path=installed, args=CHROMIUM)
        except playwright.Error as error:
            pytest.skip(f"no browser is installed: {str(error).splitlines()[0]}")
        yield browser
        browser.close()


@pytest.fixture(scope="session")
def site(browser):
    """Path of the site, which is built unless it is fresh."""
    command = [sys.executable, "-m", "claimbook", "site"]
    done = subprocess.run(command, cwd=ROOT, capture_output=True, text=True)
    assert done.returncode == 0, done.stderr
    return ROOT / "_build/html"


def pytest_addoption(parser):
    parser.addoption("--one-of-each", action="store_true",
                     help="run one case of each test that is not slow, and no other")


def pytest_collection_modifyitems(config, items):
    """Slow tests go first, those of the largest chapters before all, so that none is left over."""
    if config.getoption("--one-of-each"):
        fast = (item for item in reversed(items) if item.get_closest_marker("slow") is None)
        kept = {item.nodeid.partition("[")[0]: item for item in fast}  # the first of its cases
        left_out = [item for item in items if item is not kept.get(item.nodeid.partition("[")[0])]
        config.hook.pytest_deselected(items=left_out)
        items[:] = reversed(kept.values())

    def place(item):
        if item.get_closest_marker("slow") is None:
            return 0
        parameters = item.callspec.params if hasattr(item, "callspec") else {}
        return -1 - (parameters["chapter"].stat().st_size if "chapter" in parameters else 0)

    items.sort(key=place)
