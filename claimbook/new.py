"""Books of one's own: the four files of a first one, and the site of one without a configuration.
"""

import pathlib
import shutil

from .book import Book, UsageError

TEMPLATES = pathlib.Path(__file__).parent / "templates"
DATA = "*.toml", "*.json", "*.bib", "*.md", "[0-9]*.ipynb"  # what of a folder is in its site


def write(folder) -> None:
    """Write the smallest book of verified claims into a folder, which is new or empty."""
    folder = pathlib.Path(folder)
    if folder.exists() and (not folder.is_dir() or any(folder.iterdir())):
        raise UsageError(f"FOLDER is {str(folder)!r}; accepted is one that is new or empty")
    shutil.copytree(TEMPLATES / "book", folder, dirs_exist_ok=True,
                    ignore=shutil.ignore_patterns("__pycache__"))
    print(*sorted(str(path) for path in folder.iterdir()), sep="\n")
    print(f"next: cd {folder}; claimbook check; claimbook net; claimbook site")


def staged(book: Book) -> pathlib.Path:
    """The folder from which the site is built: the root, where both of its own files are there.

    Else one in `_build`, with a copy of the book and with pages for its ledger, errata, map and,
    where faults are on record, net. What the book has itself takes the place of what is made.
    """
    own = [path for path in (book.root / "_config.yml", book.root / "_toc.yml") if path.exists()]
    if len(own) == 2:
        return book.root
    folder = book.build / "source"
    shutil.rmtree(folder, ignore_errors=True)
    shutil.copytree(TEMPLATES / "site", folder)
    if not book.record.exists():
        (folder / "net.md").unlink()
    for path in [*own, *(path for kind in DATA for path in sorted(book.folder.glob(kind)))]:
        shutil.copy(path, folder / path.name)
    if not (folder / "_toc.yml").exists():
        (folder / "_toc.yml").write_text(contents(book, folder), encoding="utf-8")
    return folder


def contents(book: Book, folder) -> str:
    """A table of contents: the chapters, then the other pages of the folder, as YAML."""
    first, *others = [chapter.name for chapter in book.chapters()]
    others += sorted(path.name for path in pathlib.Path(folder).glob("*.md"))
    lines = ["format: jb-book", f"root: {first}", "chapters:"]
    return "\n".join([*lines, *(f"- file: {other}" for other in others)]) + "\n"
