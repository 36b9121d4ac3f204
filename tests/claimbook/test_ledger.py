"""The ledger: what is read from a book's recorded outputs, what is refused, and what adds up."""

import json

import pytest

from claimbook.claims import claim
from claimbook.ledger import (MIME, VERDICT, ClaimError, Row, counted_apart, ledger, paper_of,
                              recorded, rests_on, statements, summary, tally, worst)

PAPERS = (
    '[book]\npackage = "spdlib"\n'
    '[papers.TG]\ntitle = "Tangent Gaussian"\n'
    '[papers.SP]\ntitle = "This book"\nown = true\n'
)


def entry(id, **fields):
    """A table of claims.toml."""
    reading = {} if id.startswith("SP") else {"reading": "clear"}
    fields = {"where": "Sec. 1"} | reading | fields
    return f"[{id}]\n" + "".join(f"{key} = {json.dumps(value)}\n" for key, value in fields.items())


def box(id, text, **instead):
    """The box of a claim; `instead` has by role what takes the statement's place."""
    parts = [f":::{{{role}}} The {role} finding\n{other}\n:::" for role, other in instead.items()]
    head = f"::::{{claim}} {id} The title of {id}\n:kind: theorem\n"
    return "\n".join(["Some prose.", "", head, text, "", *parts, "::::", "", "More prose."])


def record(id, verdict="holds", evidence="exact", rejected=("half",)):
    survivor = next(role for role, word in VERDICT.items() if word == verdict)
    rejected = (*rejected, *(["printed"] if survivor not in ("printed", "stated") else []))
    return {
        "id": id,
        "stated": verdict,
        "verdict": verdict,
        "checks": [
            {
                "evidence": evidence,
                "summary": "1 number",
                "unnoticed": "a relative error below 1e-09",
                "survivor": survivor,
                "how": "equal",
                "says": {survivor: "it is 1"},
                "rejected": dict.fromkeys(rejected, "off"),
            }
        ],
    }


def write_chapter(book, stem, prose, outputs):
    """A chapter with a Markdown cell for each text and one code cell with all outputs."""
    stream = {"output_type": "stream", "name": "stdout", "text": "a table"}
    shown = [{"output_type": "display_data", "data": output} for output in outputs]
    cells = [{"cell_type": "markdown", "source": text} for text in prose]
    cells.append({"cell_type": "code", "source": "…", "outputs": [stream, *shown]})
    (book / f"{stem}.ipynb").write_text(json.dumps({"cells": cells}), encoding="utf-8")


@pytest.fixture
def make_book(tmp_path):
    """Writes a book: entries of claims.toml, then for each chapter statements and records."""

    def make(*entries, **chapters):
        (tmp_path / "claims.toml").write_text("\n".join([PAPERS, *entries]), encoding="utf-8")
        for stem, (stated, outputs) in chapters.items():
            prose = [box(*labelled) for labelled in stated.items()]
            write_chapter(
                tmp_path, stem.removeprefix("c"), prose, [{MIME: output} for output in outputs]
            )
        return tmp_path

    return make


def test_the_ledger_says_of_a_claim_what_was_displayed(make_book, tmp_path, monkeypatch):
    shown = []
    monkeypatch.setattr("IPython.display.display", lambda data, raw: shown.append(data))
    scope = {"domain": "n ≥ 1", "criterion": "tight: at most 1.25",
             "reading": "damaged copy", "harm": "use"}
    make_book(entry("SP-12", uses=["TG-16"], domain="n ≥ 2"), entry("TG-16", **scope))
    with claim("TG-16", "fails", 1) as c:
        c.equal(1.0, printed=2.0, corrected=1.0, rivals={"half": 0.5})
        c.reads(3.0, printed=(0, 1), measured=(2.5, 3.5), runs={"elsewhere": 7.0})
    with claim("SP-12", "holds", 1) as c:
        c.bound([1.0, 0.9], stated=1, rivals={"half": 0.5})
    wrong = box("TG-16", "It is $1$.", corrected="It is $2$.", measured="It is $3$.")
    write_chapter(tmp_path, "05_a", [wrong, box("SP-12", "Clipped.")], shown)
    rows = ledger(tmp_path)
    assert [row["id"] for row in rows] == ["SP-12", "TG-16"]  # the order of claims.toml
    assert rows[1] == {
        "id": "TG-16",
        "paper": "Tangent Gaussian",
        "where": "Sec. 1",
        "title": "The title of TG-16",
        "statement": "It is $1$.",
        "verdict": "fails",
        "harm": "use",
        "correction": "It is $2$.",
        "measured": "It is $3$.",
        "finding": "The measured finding",
        **scope,
        "evidence": [
            {"kind": "exact", "summary": "1 number"},
            {"kind": "experiment", "summary": "read 3"},
        ],
        "rivals": ["elsewhere", "half"],
        "uses": [],
        "chapter": "05_a",
        "anchor": "TG-16",
    }
    other = rows[0]
    assert (other["paper"], other["verdict"], other["uses"]) == ("This book", "holds", ["TG-16"])
    assert (other["domain"], other["criterion"]) == ("n ≥ 2", "")
    assert (other["reading"], other["harm"]) == ("", "")
    assert rests_on(rows) == {"SP-12": ["TG-16"], "TG-16": []}
    assert [list(row) for row in rows] == [list(Row.__annotations__)] * 2


def test_records_are_read_in_order_and_other_outputs_passed_over(make_book):
    outputs = [record("TG-16"), record("TG-17", "fails")]
    book = make_book(c05_a=({}, outputs))
    assert recorded(book / "05_a.ipynb") == outputs


def test_statements_are_read_whatever_the_fence_and_nothing_else(make_book):
    nested = "A\n:::{note}\ninside\n:::\n\nB"
    text = "\n".join(
        [
            f"::::{{claim}} TG-01 One\n:kind: theorem\n:class: big\n\n{nested}\n::::",
            "```{claim} TG-02 Two\n:kind: lemma\nTwo.\n```",
            ":::{note}\nno claim\n:::",
            ":::{prf:lemma} Four\n:label: TG-04\nno claim\n:::",
            "`````{claim} TG-05 Five\nFive.\n```{measured} Six\n6\n```\n`````",
        ]
    )
    write_chapter(make_book(), "01_a", [text, box("TG-03", "Three.", corrected="3")], [])
    assert statements(make_book() / "01_a.ipynb") == {
        "TG-01": nested,
        "TG-02": "Two.",
        "TG-05": "Five.",
        "TG-05-measured": "6",
        "TG-03": "Three.",
        "TG-03-corrected": "3",
    }


@pytest.mark.parametrize(
    "verdicts, worst",
    [
        (["holds", "corrected"], "corrected"),
        (["fails", "corrected", "holds"], "fails"),
        (["holds", "holds"], "holds"),
    ],
)
def test_the_verdict_of_several_records_is_the_worst(make_book, verdicts, worst):
    records = [record("TG-16", verdict) for verdict in verdicts]
    book = make_book(entry("TG-16"), c05_a=({"TG-16": "S"}, records))
    (row,) = ledger(book)
    assert row["verdict"] == worst and len(row["evidence"]) == len(verdicts)


def test_an_untested_claim_is_listed_as_such(make_book):
    listed = entry("TG-29", untested="The set is not public.", chapter="16_images")
    book = make_book(listed, c16_images=({"TG-29": "S"}, []))
    (row,) = ledger(book)
    assert (row["verdict"], row["evidence"]) == ("untested", [])
    assert (row["chapter"], row["statement"]) == ("16_images", "S")


def test_possible_truths_are_not_counted_as_rivals(make_book):
    output = record("TG-16", "corrected", rejected=["printed", "measured", "half", "double"])
    (row,) = ledger(make_book(entry("TG-16"), c05_a=({"TG-16": "S"}, [output])))
    assert row["rivals"] == ["double", "half"]


def test_a_harm_that_is_none_of_the_known_is_refused(make_book):
    book = make_book(entry("TG-16", harm="grave"), c05_a=TESTED)
    with pytest.raises(ClaimError, match="TG-16: harm is 'grave'; accepted are "):
        ledger(book)


TESTED = ({"TG-16": "S"}, [record("TG-16")])


@pytest.mark.parametrize(
    "entries, chapters, message",
    [
        (
            [entry("TG-16")],
            {"c05_a": TESTED, "c06_b": TESTED},
            r"TG-16: tested in more than one .*\['05_a', '06_b'\]",
        ),
        (
            [entry("TG-16"), entry("TG-17")],
            {"c05_a": TESTED},
            "TG-17: neither tested in a chapter nor listed as untested",
        ),
        (
            [entry("TG-16", untested="No data.", chapter="05_a")],
            {"c05_a": TESTED},
            "TG-16: tested, but listed as untested",
        ),
        ([], {"c05_a": TESTED}, r"\['TG-16'\]: tested in a chapter, but not listed"),
        (
            [entry("TG-16")],
            {"c05_a": ({"TG-17": "S"}, [record("TG-16")])},
            "TG-16: no statement; .* 05_a",
        ),
        ([entry("TG-16", untested="No data.", chapter="09_z")], {}, "TG-16: no statement; .* 09_z"),
    ],
)
def test_a_book_whose_claims_do_not_add_up_has_no_ledger(make_book, entries, chapters, message):
    with pytest.raises(ClaimError, match=message):
        ledger(make_book(*entries, **chapters))


def test_the_tally_counts_each_verdict_that_there_is():
    verdicts = ["holds", "holds", "fails", "untested", "corrected", "corrected"]
    rows = [{"verdict": verdict} for verdict in verdicts]
    assert tally(rows) == "2 hold, 2 corrected, 1 fails, 1 untested"
    assert tally(rows[1:2]) == "1 holds" and tally([]) == ""


def with_readings(**verdicts):
    """Rows of these readings, spelt with underscores, one for each verdict; `own` has none."""
    return [{"reading": "" if kind == "own" else kind.replace("_", " "), "verdict": verdict}
            for kind, words in verdicts.items() for verdict in words.split()]


PRINTED = with_readings(clear="holds holds corrected", damaged_copy="fails untested untested",
                        one_figure_described="untested")
SENTENCE = ("Of the 7 claims that the papers print, 2 hold as printed, 1 had to be corrected, 1 "
            "fail, and 3 could not be tested.")


def test_the_summary_counts_what_is_printed_and_nothing_of_the_books_own():
    assert summary([*PRINTED, *with_readings(own="holds fails")]) == summary(PRINTED) == SENTENCE


def test_what_is_no_sentence_of_the_papers_is_counted_apart():
    twice, silent = with_readings(two_readings="fails"), with_readings(not_in_words="holds holds")
    assert counted_apart([*PRINTED, *twice, *silent, *with_readings(own="holds")]) == {
        "printed": PRINTED, "two readings": twice, "not in words": silent}
    assert summary([*PRINTED, *twice, *silent]) == (
        f"{SENTENCE} Counted apart, since the text can be read in two ways: 1 fails. "
        "Counted apart, as claimed of the papers and not in their words: 2 hold.")


@pytest.mark.parametrize("listed, message", [
    (entry("TG-16", reading="damaged"), "TG-16: reading is 'damaged'; accepted are .'clear'"),
    (entry("TG-16").replace('reading = "clear"', ""), "TG-16: reading is None; accepted are"),
    (entry("SP-16", reading="clear"), "SP-16: reading is 'clear'; accepted is none, since"),
    (entry("TG-16", harm="grave"), "TG-16: harm is 'grave'; accepted are .'none', 'slip', 'use'"),
    (entry("ZZ-01"), "ZZ-01 is listed .* accepted are ids such as XX-01, with .* TG, SP"),
    (entry("TG-1"), "TG-1 is listed in claims.toml; accepted are ids"),
    (entry("tg-16"), "tg-16 is listed in claims.toml; accepted are ids"),
])
def test_an_entry_with_another_word_or_of_no_paper_is_refused(make_book, listed, message):
    with pytest.raises(ClaimError, match=message):
        ledger(make_book(listed))


@pytest.mark.parametrize("id, paper", [("TG-16", "TG"), ("LONG-16", "LONG"), ("TG-116", "TG")])
def test_the_paper_of_a_claim_is_the_prefix_of_its_id_whatever_its_length(id, paper):
    assert paper_of(id) == paper


@pytest.mark.parametrize("id, survivor, rejected, message", [
    ("TG-16", "stated", ["half"], "TG-16: no check has a candidate that is 'printed'; accepted is"),
    ("SP-16", "printed", ["half"], "SP-16: a check has a candidate that is 'printed'; accepted is"),
    ("SP-16", "corrected", ["printed"], "SP-16: a check has a candidate that is 'printed'"),
])
def test_a_papers_claim_is_printed_somewhere_and_one_of_the_books_own_nowhere(
        make_book, id, survivor, rejected, message):
    output = record(id, VERDICT[survivor])
    output["checks"][0] |= {"survivor": survivor, "rejected": dict.fromkeys(rejected, "off")}
    with pytest.raises(ClaimError, match=message):
        ledger(make_book(entry(id), c05_a=({id: "S"}, [output])))


def test_one_check_that_puts_the_printed_statement_to_the_test_is_enough(make_book):
    output, stated = record("TG-16"), record("TG-16")
    stated["checks"][0]["survivor"] = "stated"
    output["checks"] += stated["checks"]
    (row,) = ledger(make_book(entry("TG-16"), c05_a=({"TG-16": "S"}, [output])))
    assert row["verdict"] == "holds" and len(row["evidence"]) == 2


@pytest.mark.parametrize(
    "roles, verdict",
    [
        (["printed"], "holds"),
        (["stated", "printed"], "holds"),
        (["corrected", "stated"], "corrected"),
        (["printed", "measured", "corrected"], "fails"),
    ],
)
def test_the_worst_of_the_survivors_is_the_verdict(roles, verdict):
    assert worst(roles) == verdict


def rows(uses, **verdicts):
    return [
        {"id": id, "uses": used, "verdict": verdicts.get(id, "holds")} for id, used in uses.items()
    ]


def test_a_claim_rests_on_all_that_it_uses_directly_or_not():
    uses = {"A": ["B", "C"], "B": ["D"], "C": ["D"], "D": ["E"], "E": [], "F": []}
    below = rests_on(rows(uses, D="fails", C="corrected", E="untested"))
    assert below == {
        "A": ["C", "D", "E"],
        "B": ["D", "E"],
        "C": ["D", "E"],
        "D": ["E"],
        "E": [],
        "F": [],
    }


@pytest.mark.parametrize(
    "uses, message",
    [
        ({"A": ["A"]}, "go round in a circle: A → A"),
        ({"A": ["B"], "B": ["C"], "C": ["B"]}, "in a circle: B → C → B"),
        ({"A": ["B", "Z"], "B": []}, r"\['Z'\]: used by a claim, but not listed"),
    ],
)
def test_uses_that_go_round_or_nowhere_are_refused(uses, message):
    with pytest.raises(ClaimError, match=message):
        rests_on(rows(uses))
