"""Where a book stands: its folder, what its chapters import, and what claims.toml says of it."""

import functools
import json
import pathlib
import tomllib
from dataclasses import dataclass


class UsageError(Exception):
    """A command cannot be carried out as it was given."""


@dataclass(frozen=True)
class Book:
    """A book: the `folder` of claims.toml and of the chapters, in the `root` of all its sources.

    The root is the folder itself, or the one above where the folder is called `book`.
    """

    folder: pathlib.Path
    root: pathlib.Path

    @classmethod
    def at(cls, folder) -> "Book":
        """The book in a folder."""
        folder = pathlib.Path(folder).resolve()
        return cls(folder, folder.parent if folder.name == "book" else folder)

    @property
    def build(self) -> pathlib.Path:
        """The folder of all that is built."""
        return self.root / "_build"

    @property
    def breaks(self) -> pathlib.Path:
        """The list of deliberate faults."""
        return self.folder / "breaks.toml"

    @property
    def record(self) -> pathlib.Path:
        """What is recorded of the faults."""
        return self.folder / "net.json"

    @functools.cached_property
    def settings(self) -> dict:
        """The table [book] of claims.toml."""
        text = (self.folder / "claims.toml").read_text(encoding="utf-8")
        return tomllib.loads(text).get("book", {})

    @property
    def package(self) -> str:
        """Name of the package under test; empty where the book names none."""
        return self.settings.get("package", "")

    @property
    def compiled(self) -> dict[str, str]:
        """What [book.compiled] says of compiled code in the package; empty where there is none.

        `source`, a file in the package's folder, and `built`, a pattern for what is made of it
        there; `script`, a file in the root whose `build_ext --inplace` makes it; and `switch`, a
        variable of the environment that chooses a path, and with "0" the one in Python.
        """
        return self.settings.get("compiled", {})

    def chapters(self, wanted=()) -> list[pathlib.Path]:
        """Paths of the chapters, all of them or those whose number or stem is wanted."""
        paths = sorted(self.folder.glob("[0-9]*.ipynb"))
        chosen = [path for path in paths if not wanted or names(path) & set(wanted)]
        if not chosen:
            raise UsageError(f"CHAPTER is {' '.join(wanted)!r}; accepted are the numbers and names "
                             f"of {', '.join(path.stem for path in paths) or 'no chapter at all'}")
        return chosen


def names(chapter) -> set[str]:
    """What a chapter may be called: its stem, and its number with or without the leading zero."""
    number = chapter.stem.partition("_")[0]
    return {chapter.stem, number, number.lstrip("0")}


def find_book(given=None) -> Book:
    """The book of claims.toml, in the folder `given` or else nearest upward from here."""
    here = pathlib.Path(given or ".").resolve()
    for folder in [here] if given else [here, *here.parents]:
        for place in folder, folder / "book":
            if (place / "claims.toml").is_file():
                return Book.at(place)
    where = "holds" if given else "and the folders above it hold"
    raise UsageError(f"{here} {where} neither claims.toml nor book/claims.toml; "
                     "--book DIR names the book's folder")


def code(chapter) -> str:
    """The code of a chapter, all cells of it, without lines that only IPython understands."""
    cells = json.loads(pathlib.Path(chapter).read_text(encoding="utf-8"))["cells"]
    text = "\n".join("".join(cell["source"]) for cell in cells if cell["cell_type"] == "code")
    return "\n".join(line for line in text.splitlines() if not line.startswith(("%", "!")))
