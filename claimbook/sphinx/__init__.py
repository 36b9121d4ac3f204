"""The Sphinx part: ledger, errata, net and map as pages, folded code, figures and numbers.

Each module is an extension by its dotted name, such as `claimbook.sphinx.ledger_page`. The pages
are recognised by their files' names, with a number before them or without: `ledger.md`.
"""

import pathlib
import re

from ..book import find_book


def folder_of(app) -> pathlib.Path:
    """The folder of the chapters in what Sphinx builds."""
    return find_book(app.srcdir).folder


def is_page(page: str, name: str) -> bool:
    """Whether a page is the one of this name."""
    return bool(re.fullmatch(rf"(.*/)?(\d+_)?{name}", page))


def pages_of(env, name: str) -> list[str]:
    """The pages of this name: one, or none."""
    return [page for page in sorted(env.found_docs) if is_page(page, name)]
