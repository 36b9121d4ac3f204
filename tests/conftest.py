"""What the tests of the book share: where it stands, and how a chapter is run elsewhere."""

import json
import os
import pathlib
import subprocess
import sys

import pytest

ROOT = pathlib.Path(__file__).resolve().parent.parent
CHAPTERS = sorted((ROOT / "book").glob("[0-9]*.ipynb"))


def cells_of(chapter):
    """Cells of a notebook, their source joined: a list of dicts."""
    cells = json.loads(pathlib.Path(chapter).read_text(encoding="utf-8"))["cells"]
    return [cell | {"source": "".join(cell["source"])} for cell in cells]


@pytest.fixture
def run_chapter(tmp_path):
    """Run a chapter with papermill, which stops at the first error: (name, message) of that error, or None."""

    def run(chapter, parameters=None, library=ROOT):
        output = tmp_path / "executed.ipynb"
        options = [word for name, value in (parameters or {}).items() for word in ("-p", name, str(value))]
        environment = os.environ | {"PYTHONPATH": str(library), "OMP_NUM_THREADS": "1", "PYTHONDONTWRITEBYTECODE": "1"}
        done = subprocess.run([sys.executable, "-m", "papermill", "--cwd", ROOT / "book", chapter, output, "--no-progress-bar", *options],
                              env=environment, capture_output=True, text=True)
        errors = [(out["ename"], out["evalue"]) for cell in cells_of(output) if cell["cell_type"] == "code"
                  for out in cell["outputs"] if out["output_type"] == "error"]
        assert bool(errors) == bool(done.returncode), done.stderr
        return errors[0] if errors else None

    return run
