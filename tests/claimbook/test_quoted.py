"""The guard of quotations: what it takes for a paper's words, and what it refuses."""

import pytest
from test_ledger import PAPERS, box, entry, write_chapter

from claimbook.guards.quoted import departures, passages, unlike, words

PAPER = """
**Theorem 1.** *Let $f$ be a summary with global sensitivity $\\Delta$ . Then, for complete and
simply-connected spaces, the mechanism is private.* The proof is short. In Section 5 we find that
dierent spaces dier.
"""


@pytest.mark.parametrize("text, found", [
    ("Let $f$ be a *summary*", "let summary"),
    (r"a map $$x \mapsto y$$ of spaces", "map spaces"),
    ("with \\kappa_h and \\text{inj}, finite", "with and finite"),
    ("simply-connected, the author's", "simply connected the author"),
    ("see {claim}`TG-16` for n_k and log-normal laws", "see for and normal laws"),
    ("an efﬁcient one/two; $a$-values", "efficient one two values"),
])
def test_formulas_short_words_and_marks_are_no_words(text, found):
    assert words(text) == found.split()


def quoted(statement, *cuts):
    return [unlike(passage, words(PAPER)) for passage in passages(statement, list(cuts))]


@pytest.mark.parametrize("statement, cuts", [
    ("Let $f$ be a summary with global sensitivity $\\Delta$.", ()),
    ("Then, for complete […] spaces, the mechanism is private.", ["and simply-connected"]),
    ("Then [on a ball], for complete and simply-connected spaces", [""]),
    ("Let $f$ be a summary […] The proof is short.", ["…"]),
    ("The proof is short. [There] we find", ["In Section 5"]),
])
def test_what_the_paper_says_is_found(statement, cuts):
    assert not any(quoted(statement, *cuts))


@pytest.mark.parametrize("statement, cuts, where", [
    ("Then the mechanism is private.", (), "… then | the mechanism private; the paper"),
    ("Then, for […] spaces, the mechanism", ["simply-connected"], "… then for | simply connected"),
    ("Let $f$ be a statistic", (), "… let | statistic; the paper goes on: summary with"),
    ("Nothing of the kind is said.", (), "…  | nothing the kind said; the paper goes on: "),
    ("Let $f$ be a summary […] The proof is long.", ["…"], "… the proof | long; the paper"),
])
def test_what_it_does_not_say_is_told_with_what_it_says(statement, cuts, where):
    (told,) = filter(None, quoted(statement, *cuts))
    assert told.startswith(where)


def test_every_bracket_has_its_cut():
    with pytest.raises(ValueError, match="cut has 1 entries; accepted are 2, one for each bracket"):
        passages("Then […] the [private] mechanism, of degree $[0, 1]$", ["for spaces"])


def test_a_book_is_asked_for_what_its_papers_print(tmp_path):
    paper = '[papers.TG]\ntitle = "T"\ntexts = ["tg.txt"]\n[papers.TG.damaged]\n'
    (tmp_path / "claims.toml").write_text("\n".join([
        PAPERS.replace('[papers.TG]\ntitle = "Tangent Gaussian"\n',
                       paper + '"dierent" = "different"\n'),
        entry("TG-01", cut=["global"]), entry("TG-02"), entry("TG-03", reading="not in words"),
        entry("SP-01")]), encoding="utf-8")
    write_chapter(tmp_path, "01_a", [
        box("TG-01", "a summary with […] sensitivity"), box("TG-03", "What no paper says."),
        box("TG-02", "that different spaces are alike"), box("SP-01", "Our own.")], [])
    (tmp_path / "tg.txt").write_text(PAPER, encoding="utf-8")
    assert departures(tmp_path, tmp_path) == {
        "TG-02": ["… that different spaces | are alike; the paper goes on: dier"]}


def test_what_is_listed_as_damaged_has_to_stand_there(tmp_path):
    paper = '[papers.TG]\ntexts = ["tg.txt"]\n[papers.TG.damaged]\n"efect" = "effect"\n'
    (tmp_path / "claims.toml").write_text(paper, encoding="utf-8")
    (tmp_path / "tg.txt").write_text(PAPER, encoding="utf-8")
    with pytest.raises(ValueError, match="TG: 'efect' is listed as damaged, but stands nowhere"):
        departures(tmp_path, tmp_path)
