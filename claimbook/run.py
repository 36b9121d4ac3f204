"""Reruns: a chapter at other parameters, at every point of a grid, on processes or a cluster."""

import contextlib
import copy
import csv
import importlib.util
import itertools
import json
import multiprocessing
import os
import pathlib
import signal
import sys
from concurrent.futures import ProcessPoolExecutor, as_completed

from .book import Book, UsageError
from .ledger import CLAIM, ID, MIME
from .show import aligned

BOOLS = {"true": True, "false": False}
SCALARS = {"int": int, "float": float, "str": str, "bool": lambda text: BOOLS[text.lower()]}
LISTS = {
    "list": {int, float, str, bool},
    "list[int]": {int},
    "list[float]": {int, float},
    "list[str]": {str},
}
NEEDED = "ipykernel", "nbclient", "nbformat", "papermill"


def rerun(book: Book, name: str, settings=(), output: pathlib.Path | None = None,
          jobs: int | None = None, scheduler: str | None = None) -> bool:
    """Run a chapter at every point of the grid that `settings` span, and print all verdicts.

    Returns whether all came out as stated. The executed notebooks and `verdicts.csv` are kept in
    the folder `output`.
    """
    require_packages([*NEEDED, *(["distributed"] if scheduler else [])])
    chapter, output = find_chapter(book, name), output and output.resolve()
    with accepting("CHAPTER", name, "a notebook that can be read"):
        grid = read_grid(chapter, settings)
    if jobs is not None and (jobs < 1 or scheduler):
        raise UsageError(f"JOBS is {jobs}; accepted are integers ≥ 1, and none with a "
                         "scheduler, which knows its workers")
    points = [dict(zip(grid, values, strict=True)) for values in itertools.product(*grid.values())]
    for point in points:
        if message := refusal(chapter, point, book.folder):
            raise UsageError(message)
    if output and output.is_relative_to(book.folder):
        raise UsageError(f"OUTDIR is {str(output)!r}; accepted is a folder outside the book "
                         f"{str(book.folder)!r}")
    with workers(scheduler, min(jobs or os.cpu_count(), len(points))) as pool:
        if output:
            with accepting("OUTDIR", output, "a folder that can be written"):
                output.mkdir(parents=True, exist_ok=True)
                open(output / "verdicts.csv", "a", encoding="utf-8").close()
        outcomes = run_points(chapter, book.folder, points, output, pool)
    table = [["run", *grid, "claim", "stated", "verdict", "message"]]
    for number, point in enumerate(points, 1):
        table += [[number, *point.values(), *row] for row in outcomes[number]]
    print(aligned(table))
    if output:
        with open(output / "verdicts.csv", "w", encoding="utf-8", newline="") as file:
            csv.writer(file).writerows(table)
    return all(map(as_stated, itertools.chain(*outcomes.values())))


def require_packages(names) -> None:
    """Raise UsageError where a package is missing that only books need."""
    if missing := [name for name in names if importlib.util.find_spec(name) is None]:
        raise UsageError("books need more packages, those of the extra [book] (missing: "
                         f"{', '.join(missing)})")


@contextlib.contextmanager
def accepting(name: str, value, accepted: str):
    """A usage error in place of that of a file that cannot be read or written."""
    try:
        yield
    except (OSError, ValueError) as error:  # of text, JSON and TOML they are ValueErrors
        reason = getattr(error, "strerror", None) or str(error).splitlines()[0]
        message = f"{name} is {str(value)!r}; accepted is {accepted}: {reason}"
        raise UsageError(message) from None


def find_chapter(book: Book, name: str) -> pathlib.Path:
    """The chapter that a path, a stem or a number names."""
    if name.isdecimal():
        paths = book.folder.glob(f"{int(name):02}_*.ipynb")
    else:
        paths = [pathlib.Path(name), book.folder / f"{name}.ipynb"]
    found = [path.resolve() for path in paths if path.suffix == ".ipynb" and path.is_file()]
    if len(found) != 1:
        stems = ", ".join(sorted(path.stem for path in book.folder.glob("[0-9]*.ipynb")))
        raise UsageError(f"CHAPTER is {name!r}; accepted are a path, the number or the name "
                         f"of one of: {stems}")
    return found[0]


def read_grid(chapter, settings) -> dict[str, list]:
    """Values of every parameter that `settings` ("name=value,value") name: name to list."""
    import papermill

    inspected = papermill.inspect_notebook(chapter)
    declared = {name: list(parameter.values()) for name, parameter in inspected.items()}
    grid = {}
    try:
        for setting in settings:
            name, equals, text = setting.partition("=")
            if not equals:
                raise UsageError(f"-p is {setting!r}; accepted is NAME=VALUES")
            if name in grid:
                raise UsageError(f"{name} is given again, as {text!r}; accepted is once, "
                                 "with commas between values")
            if name not in declared:
                raise UsageError(f"{name} (given as {text!r}) is no parameter; "
                                 f"accepted are {', '.join(declared)}")
            grid[name] = read_values(name, declared[name][1], text)
    except UsageError as error:
        listing = aligned([["name", "type", "default", "help"], *declared.values()])
        raise UsageError(f"{error}\n\nparameters of {chapter.stem}\n{listing}") from None
    return grid


def read_values(name: str, kind: str, text: str) -> list:
    """Values of the declared type `kind`, between which there are commas: a list."""
    if kind not in SCALARS | LISTS:
        raise UsageError(f"{name} is declared as {kind}; "
                         f"accepted are the types {', '.join(SCALARS | LISTS)}")
    try:
        if kind in SCALARS:
            return [SCALARS[kind](value) for value in text.split(",")]
        values = json.loads(f"[{text}]")
        lists = [value for value in values if isinstance(value, list)]
        if values == lists != [] and all({*map(type, value)} <= LISTS[kind] for value in lists):
            return values
    except (ValueError, KeyError):
        pass
    form = f"{kind} as JSON, such as [2, 5]" if kind in LISTS else kind
    form = "true or false" if kind == "bool" else form
    raise UsageError(f"{name} is {text!r}; accepted is {form}, "
                     "or several of these with commas between them")


def refusal(chapter, parameters: dict, book) -> str | None:
    """What the chapter's validating cell, run here, says against the parameters; None if nothing.

    Only a ValueError is a refusal. Anything else that goes wrong in the cell shows in the run.
    """
    import nbformat

    cells = [cell for cell in nbformat.read(chapter, 4).cells if cell.cell_type == "code"]
    first = parameters_cell(cells)
    if first is None:
        return None
    variables = {}
    with contextlib.chdir(book):
        try:
            exec(cells[first].source, variables)
            variables |= parameters
            exec(cells[first + 1].source, variables)
        except ValueError as error:
            return str(error)
        except Exception:
            pass
    return None


@contextlib.contextmanager
def workers(scheduler: str | None, jobs: int):
    """An executor: so many processes, or the workers of the dask scheduler at an address."""
    if scheduler is None:
        pool = ProcessPoolExecutor(
            jobs,
            multiprocessing.get_context("spawn"),
            # so that Ctrl-C ends a run at once
            signal.signal,
            (signal.SIGINT, signal.SIG_DFL))
        try:
            yield pool
        finally:
            pool.shutdown(cancel_futures=True)
        return
    from distributed import Client

    with accepting("ADDRESS", scheduler, "that of a dask scheduler which answers"):
        client = Client(scheduler)
    with client:  # on leaving it cancels what has not run
        yield client.get_executor(pure=False)


def run_points(chapter, book, points, output, pool) -> dict[int, list]:
    """Outcomes of the chapter at each point, by the number of the run; a line of progress each.

    The executed notebooks are kept in the folder `output`.
    """
    import nbformat

    outcomes, runs = {}, {}
    for number, point in enumerate(points, 1):
        runs[pool.submit(execute, chapter, point, book=book, run_on=True)] = number
    for done in as_completed(runs):
        number, executed = runs[done], done.result()
        if output:
            nbformat.write(executed, output / f"{chapter.stem}.{number}.ipynb")
        outcomes[number] = [
            row for cell in executed.cells if cell.cell_type == "code"
            for row in cell_outcomes(cell)
        ]
        settings = "".join(f" {name}={value}" for name, value in points[number - 1].items())
        good = sum(map(as_stated, outcomes[number]))
        print(
            f"{len(outcomes)} of {len(points)} done, run {number}{settings}: "
            f"{good} as stated, {len(outcomes[number]) - good} not", file=sys.stderr, flush=True)
    return outcomes


def execute(notebook, parameters: dict | None = None, *, book, env=None, run_on: bool = False):
    """The notebook (a path or a node), executed in the folder `book`: a new node.

    The kernel is this interpreter's, and it imports what stands in the book's root before what is
    installed. The run stops at the first error, which stands among the outputs of its cell, as does
    the death of the kernel. With `run_on` it runs on after errors, except up to the validating
    cell. `env` is added to the environment of the kernel; its PYTHONPATH comes first.
    """
    import nbclient
    import nbformat
    from jupyter_client import AsyncKernelManager
    from jupyter_client.kernelspec import KernelSpecManager
    from nbclient.exceptions import CellExecutionError, DeadKernelError

    if not isinstance(notebook, nbformat.NotebookNode):
        notebook = nbformat.read(notebook, as_version=4)
    notebook = copy.deepcopy(notebook)
    if run_on:
        run_on_after_validation(notebook)
    if parameters:
        notebook = with_parameters(notebook, parameters)
    for cell in notebook.cells:
        if cell.cell_type == "code":
            cell.outputs, cell.execution_count = [], None

    started = []
    kernel = AsyncKernelManager(
        kernel_name="python3",
        kernel_spec_manager=KernelSpecManager(kernel_dirs=[]),  # this interpreter, no other python3
        transport_encryption="auto",  # without it, every kernel warns on stderr
    )
    client = nbclient.NotebookClient(
        notebook,
        kernel,
        timeout=None,
        record_timing=False,
        coalesce_streams=True,
        resources={"metadata": {
            "path": str(book)
        }},
        on_cell_start=lambda cell, cell_index: started.append(cell),
    )
    try:
        client.execute(env=environment(book, env), cleanup_kc=True)
    except CellExecutionError:
        pass  # the outputs say more
    except DeadKernelError as error:
        death = nbformat.v4.new_output("error", ename="DeadKernelError", evalue=str(error),
                                       traceback=[])
        started[-1].outputs.append(death)
    return notebook


def environment(book, env=None) -> dict[str, str]:
    """The environment in which chapters run: one thread, and the book's root on the path.

    Nobody is warned of what a chapter tries on purpose; pages would show it, with a path.
    """
    paths = [(env or {}).get("PYTHONPATH"), str(Book.at(book).root), os.environ.get("PYTHONPATH")]
    own = {"OMP_NUM_THREADS": "1", "PYTHONWARNINGS": "ignore::UserWarning"} | (env or {})
    return os.environ | own | {"PYTHONPATH": os.pathsep.join(filter(None, paths))}


def with_parameters(notebook, parameters):
    """The notebook with a cell after that of the parameters, as papermill puts it in."""
    from papermill.iorw import load_notebook_node
    from papermill.parameterize import parameterize_notebook

    return parameterize_notebook(load_notebook_node(notebook), parameters, kernel_name="python3",
                                 language="python")


def parameters_cell(cells) -> int | None:
    """The place of the cell of parameters among code cells; the validating one comes next."""
    for place, cell in enumerate(cells):
        if "parameters" in cell.metadata.get("tags", []):
            return place
    return None


def run_on_after_validation(notebook) -> None:
    """Let the notebook run on after errors, except up to its validating cell."""
    cells = [cell for cell in notebook.cells if cell.cell_type == "code"]
    first = parameters_cell(cells)
    for cell in cells if first is None else cells[first + 2:]:
        cell.metadata.setdefault("tags", []).append("raises-exception")


def cell_outcomes(cell) -> list[tuple[str, str, str, str]]:
    """Outcomes of an executed cell: a list of (claim, stated, verdict, message)."""
    records = [output.data[MIME] for output in cell.outputs if MIME in output.get("data", {})]
    rows = [(record["id"], record["stated"], record["verdict"], "") for record in records]
    error = next((output for output in cell.outputs if output.output_type == "error"), None)
    if error is None:
        return rows
    reached = {row[0] for row in rows}
    unlike = {row[0] for row in rows if not as_stated(row)}
    found = CLAIM.finditer(cell.source)
    unreached = {match["id"]: match["stated"] for match in found if match["id"] not in reached}
    named = ID.match(error.evalue) if error.ename in ("Inconclusive", "VerdictDiffers") else None
    id = named[0] if named else next(iter(unreached), "")
    if error.ename != "VerdictDiffers" or id not in unlike:
        verdict = "inconclusive" if error.ename == "Inconclusive" else "error"
        message = f"{error.ename}: {error.evalue}".splitlines()[0]
        rows.append((id, unreached.pop(id, ""), verdict, message))
    return rows + [(id, stated, "error", "not reached") for id, stated in unreached.items()]


def as_stated(row) -> bool:
    """Whether the verdict of an outcome (claim, stated, verdict, message) is the stated one."""
    return row[1] == row[2]
