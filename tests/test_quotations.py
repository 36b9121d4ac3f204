"""The boxes quote their papers, word by word, where the papers are.

SPDLIB_PAPERS names a folder with their texts, by the names that claims.toml has.
"""

import os

import pytest
from conftest import ROOT

from claimbook.guards.quoted import departures


def test_what_a_box_prints_is_what_the_paper_says():
    if not os.environ.get("SPDLIB_PAPERS"):
        pytest.skip("SPDLIB_PAPERS names no folder")
    found = departures(ROOT / "book", os.environ["SPDLIB_PAPERS"])
    assert not found, "\n".join(f"{id}: {told}" for id, where in found.items() for told in where)
