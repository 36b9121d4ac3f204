"""Guard: what was not recorded in one clean run is seen, and what is written down is read out."""

import pytest

from claimbook.guards.recorded import unclean, written_out


def cell(count, *outputs, **metadata):
    return {"cell_type": "code", "execution_count": count, "outputs": [*outputs],
            "metadata": metadata}


TEXT = {"cell_type": "markdown", "metadata": {}}
STDOUT = {"output_type": "stream", "name": "stdout", "text": "x"}


@pytest.mark.parametrize("cells, found", [
    ([cell(1, STDOUT), TEXT, cell(2)], []),
    ([cell(1), cell(None)], ["the cells were not executed once each, in their order"]),
    ([cell(2), cell(3)], ["the cells were not executed once each, in their order"]),
    ([cell(1, {"output_type": "error"})], ["an error is recorded"]),
    ([cell(1, STDOUT | {"name": "stderr"})], ["something on stderr is recorded"]),
    ([cell(1, execution={"shell.execute_reply": "now"})], ["timestamps are recorded"]),
])
def test_a_chapter_that_was_not_recorded_in_one_clean_run_is_seen(cells, found):
    assert unclean(cells) == found


def test_what_a_source_binds_to_a_name_is_read_out():
    assert written_out("a = 1\nif a:\n    b = {'c': [2, 3]}", "b") == {"c": [2, 3]}
    with pytest.raises(ValueError, match="name is 'c'; accepted is one to which the source binds"):
        written_out("a = 1", "c")
