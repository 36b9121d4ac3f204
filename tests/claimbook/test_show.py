"""Tables: what people see, what a terminal and nbval see, and what is refused."""

import pytest

from claimbook.show import aligned, claim_block, table


@pytest.fixture
def shown(monkeypatch):
    outputs = []
    monkeypatch.setattr("IPython.display.display", lambda data, raw: outputs.append(data))
    return outputs


def test_a_table_is_html_to_people_and_aligned_text_to_programs(shown):
    table(["k", "σ"], [[2, 0.123456], [10, "1.50"]], caption="Scales")
    assert shown[0]["text/plain"] == "Scales\nk   σ\n2   0.1235\n10  1.50"
    page = shown[0]["text/html"]
    assert page.startswith('<table class="numbers"><caption>Scales</caption>')
    assert page.count("<tr>") == 3 and '<td class="n">0.1235</td>' in page


def test_columns_of_numbers_are_set_flush_right_and_those_of_words_are_not(shown):
    table(["noise", "error"], [["ℓ2", "−1.5"], ["Laplace", "–"]])
    page = shown[0]["text/html"]
    assert "<td>ℓ2</td>" in page and '<td class="n">−1.5</td>' in page
    assert '<th scope="col" class="n">error</th>' in page


def test_a_column_without_a_name_has_no_empty_heading(shown):
    table(["", "k"], [["SPD", 2]])
    assert '<tr><td></td><th scope="col" class="n">k</th></tr>' in shown[0]["text/html"]


def test_what_html_would_take_for_markup_is_escaped(shown):
    table(["a < b"], [["<script>"]], caption="x & y")
    assert "<script>" not in shown[0]["text/html"] and "&lt;script&gt;" in shown[0]["text/html"]
    assert "a &lt; b" in shown[0]["text/html"] and "x &amp; y" in shown[0]["text/html"]
    assert "<script>" in shown[0]["text/plain"]


def test_an_index_stands_below_the_line_and_a_name_of_a_program_does_not(shown):
    table(["ε_p", "log_mean"], [["σ²χ²_d", "x_min"]], caption="‖X‖_F, rats_x")
    for text in ("ε<sub>p</sub>", "log_mean", "χ²<sub>d</sub>", "x<sub>min</sub>", "‖<sub>F</sub>",
                 "rats_x"):
        assert text in shown[0]["text/html"]


def test_a_row_of_another_length_is_refused(shown):
    with pytest.raises(ValueError, match=r"row is \['1'\]; accepted are rows of 2 entries"):
        table(["a", "b"], [[1]])
    assert not shown


def test_aligned_columns_are_as_wide_as_their_widest_entry():
    assert aligned([["a", "bb"], ["ccc", 1]]) == "a    bb\nccc  1"


def test_the_block_of_a_claim_is_one_line_and_the_checks_fold(shown):
    check = {"summary": "3 numbers", "unnoticed": "less", "survivor": "corrected", "how": "equal",
             "says": {"printed": "2 < x", "corrected": "3"}}
    checks = [check | {"evidence": "exact", "rejected": {"printed": "off by 1", "π": "off by 0.1"}},
              check | {"evidence": "search", "rejected": {"printed": "off by 1", "e": "0.9"}},
              check | {"evidence": "exact", "rejected": {"π": "off by 0.1"}}]
    claim_block({"id": "TG-16", "verdict": "corrected", "stated": "corrected", "checks": checks})
    page, text = shown[0]["text/html"], shown[0]["text/plain"]
    line = "the printed statement and 2 rivals rejected; exact, search"
    assert text.splitlines()[0] == f"TG-16 corrected: {line}"
    head, folded = page.split("<details>")
    assert line in head and "<table" not in head and folded.count("<table") == 3
    assert "2 &lt; x" in folded and "off by 0.1" in folded and "off by 0.1" in text


@pytest.mark.parametrize(("names", "line"), [
    (["measured"], "the measured one rejected"),
    (["corrected", "printed"], "the printed statement and the corrected one rejected")])
def test_the_line_names_each_statement_that_was_rejected(shown, names, line):
    check = {"summary": "3 numbers", "unnoticed": "less", "survivor": "1", "how": "equal",
             "says": dict.fromkeys([*names, "1"], "3"), "evidence": "exact",
             "rejected": dict.fromkeys(names, "off by 1")}
    claim_block({"id": "TG-16", "verdict": "holds", "stated": "holds", "checks": [check]})
    assert shown[0]["text/plain"].splitlines()[0] == f"TG-16 holds: {line}; exact"
