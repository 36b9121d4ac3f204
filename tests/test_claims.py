"""The engine: what each verb accepts, rejects and refuses to decide, its level and power, and the ledger."""

import contextlib
import inspect
import json
import re
from fractions import Fraction

import flint
import mpmath
import nbformat
import numpy as np
import pytest
import sympy
from scipy.stats import binom, kstest, norm
from sympy import Rational

import spdlib.claims
from spdlib.claims import (CHUNK, MIME, ClaimError, Inconclusive, VerdictDiffers, claim, ledger, recorded, require,
                           rests_on, statements)

a, b = sympy.symbols("a b", positive=True)
x, y = sympy.symbols("x y", real=True)
n = sympy.Symbol("n", integer=True, positive=True)

# verb: the value it is given, a true candidate, and two false ones
CONTESTS = {
    "identity": ((a + b)**2, a**2 + 2*a*b + b**2, a**2 + b**2, a**2 + a*b + b**2),
    "enclosure": ([(-1, 1), (0, 2)],
                  lambda u, v: u*u + v*v - u*v + 0.125, lambda u, v: u - v, lambda u, v: u*u + v - 3),
    "equal": ([1.0, 2.0, 3.0], np.array([1.0, 2.0, 3.0]) * (1 + 1e-12), [1.0, 2.0, 3.1], [3.0, 2.0, 1.0]),
    "law": (lambda rng, size: rng.standard_normal(size), norm.cdf, norm(0.2).cdf, norm(0, 1.2).cdf),
    "share": (lambda rng, size: rng.random(size) < 0.3, 0.3, 0.4, (0.0, 0.2)),
    "bound": ([-5.0, 0.5, 1.0], 1.0, 0.5, [1.0, 0.4, 2.0]),
    "reads": ([9.0, 10.0], (8, 12), (9.5, 12), (4, 6)),
}
EVIDENCE = {"identity": "proof", "enclosure": "certificate", "equal": "exact", "law": "monte-carlo",
            "share": "monte-carlo", "bound": "search", "reads": "experiment"}
NAN = {"identity": sympy.nan, "equal": np.nan, "law": lambda t: t * np.nan, "share": np.nan, "bound": np.nan,
       "reads": (np.nan, 12)}
every_verb = pytest.mark.parametrize("verb", CONTESTS)


@pytest.fixture(autouse=True)
def shown(monkeypatch):
    """The outputs that the engine displays, as a notebook would store them."""
    outputs = []
    monkeypatch.setattr("IPython.display.display", lambda data, raw: outputs.append(json.loads(json.dumps(data))))
    return outputs


def contest(verb, stated="holds", id="TG-16", seed=1, value=None, **candidates):
    """Put candidates for the verb's value (or the value given) to one check of one claim."""
    with claim(id, stated, seed) as c:
        getattr(c, verb)(CONTESTS[verb][0] if value is None else value, **candidates)


def records(shown):
    return [output[MIME] for output in shown]


# verdicts

@every_verb
@pytest.mark.parametrize("role, verdict", spdlib.claims.VERDICT.items())
def test_the_role_of_the_survivor_is_the_verdict(shown, verb, role, verdict):
    _, true, false, other = CONTESTS[verb]
    contest(verb, verdict, **{"printed": false, role: true}, rivals={"other": other})
    (record,) = records(shown)
    (check,) = record["checks"]
    assert (record["id"], record["stated"], record["verdict"]) == ("TG-16", verdict, verdict)
    assert (check["evidence"], check["survivor"]) == (EVIDENCE[verb], role)
    assert set(check["rejected"]) == {"printed", "other"} - {role}


@every_verb
@pytest.mark.parametrize("role, verdict", spdlib.claims.VERDICT.items())
def test_a_verdict_other_than_the_stated_one_is_shown_and_raises(shown, verb, role, verdict):
    _, true, false, other = CONTESTS[verb]
    for stated in {"holds", "corrected", "fails"} - {verdict}:
        with pytest.raises(VerdictDiffers, match=f"TG-16: stated {stated}, computed {verdict}"):
            contest(verb, stated, **{"printed": false, role: true}, rivals={"other": other})
        assert records(shown)[-1]["verdict"] == verdict


@every_verb
def test_where_no_candidate_survives_there_is_no_verdict(shown, verb):
    _, _, false, other = CONTESTS[verb]
    with pytest.raises(Inconclusive, match="TG-16: .* leaves 0 candidates standing"):
        contest(verb, printed=false, rivals={"other": other})
    assert not shown


@every_verb
@pytest.mark.parametrize("rivals, roles", [(["same"], ["printed"]), ([], ["printed", "corrected"])])
def test_candidates_that_coincide_are_inconclusive(shown, verb, rivals, roles):
    _, true, false, _ = CONTESTS[verb]
    with pytest.raises(Inconclusive, match="2 candidates standing|only 0 apart"):
        contest(verb, **dict.fromkeys(roles, true), rivals=dict.fromkeys(rivals, true) | {"false": false})
    assert not shown


@every_verb
def test_a_rival_that_survives_is_inconclusive(shown, verb):
    _, true, false, _ = CONTESTS[verb]
    with pytest.raises(Inconclusive, match="the rival: survives"):
        contest(verb, printed=false, rivals={"the rival": true})
    assert not shown


@every_verb
def test_one_candidate_is_no_contest(verb):
    with pytest.raises(Inconclusive, match="a single candidate is no contest"):
        contest(verb, printed=CONTESTS[verb][1])


@pytest.mark.parametrize("verb", NAN)
@pytest.mark.parametrize("late", [False, True])
def test_a_candidate_with_a_nan_is_inconclusive(verb, late):
    _, true, false, _ = CONTESTS[verb]
    rivals = {"false": false, "nan": NAN[verb]} if late else {"nan": NAN[verb], "false": false}
    with pytest.raises(Inconclusive):
        contest(verb, printed=true, rivals=rivals)


@pytest.mark.parametrize("verb, value", [
    ("equal", [1.0, np.nan, 3.0]), ("equal", [1.0, np.inf, 3.0]), ("bound", [0.1, np.nan, 0.5]), ("reads", [9, np.nan]),
    ("law", lambda rng, size: np.full(size, np.nan)),
])
def test_a_value_that_is_not_finite_is_inconclusive(verb, value):
    _, true, false, _ = CONTESTS[verb]
    with np.errstate(invalid="ignore"), pytest.raises(Inconclusive):
        contest(verb, value=value, printed=true, rivals={"false": false})


@pytest.mark.parametrize("verb, true, false", [("equal", 1, 2), ("bound", 1, 2), ("reads", (0, 1), (1, 2))])
def test_no_values_at_all_are_inconclusive(verb, true, false):
    with pytest.raises(Inconclusive, match="is empty or has a NaN"):
        contest(verb, value=[], printed=true, rivals={"false": false})


def test_the_verdict_of_several_checks_is_the_worst(shown):
    with claim("TG-16", "fails", 1) as c:
        c.equal(1, printed=1, rivals={"2": 2})
        c.equal(1, printed=2, measured=1)
        c.equal(1, printed=2, corrected=1)
    assert records(shown)[0]["verdict"] == "fails"


def test_a_claim_without_a_check_is_inconclusive():
    with pytest.raises(Inconclusive, match="nothing was checked"), claim("TG-16", "holds", 1):
        pass


def test_an_error_in_a_claim_passes_through_and_nothing_is_shown(shown):
    with pytest.raises(KeyError), claim("TG-16", "holds", 1) as c:
        c.equal(1, printed=1, rivals={"2": 2})
        raise KeyError
    assert not shown


@pytest.mark.parametrize("arguments, message", [
    (("TG-1", "holds", 1), "id is 'TG-1'"), (("XX-01", "holds", 1), "id is 'XX-01'"),
    (("TG-16", "true", 1), "stated is 'true'"),
])
def test_an_unknown_id_or_verdict_is_refused(arguments, message):
    with pytest.raises(ValueError, match=message):
        claim(*arguments)


def test_a_rival_named_like_a_possible_truth_is_refused():
    with pytest.raises(ValueError, match="a rival is called 'measured'"):
        contest("equal", printed=1, rivals={"measured": 2})


def test_the_block_links_to_the_ledger_and_escapes_names(shown):
    contest("equal", value=1, printed=1, rivals={"<script> & co": 2})
    page, text = shown[0]["text/html"], shown[0]["text/plain"]
    assert "18_ledger.html#ledger-TG-16" in page and "claim-holds" in page
    assert "&lt;script&gt; &amp; co" in page and "<script" not in page
    assert text.startswith("TG-16 holds") and "<script> & co" in text


# proof

def test_matrices_are_compared_entry_by_entry(shown):
    M = sympy.Matrix([[a, b], [b, a]])
    contest("identity", value=M**2, printed=sympy.Matrix([[a**2 + b**2, 2*a*b], [2*a*b, a**2 + b**2]]), rivals={"M": M})
    with pytest.raises(ValueError, match=r"shapes \(2, 2\) and \(1, 2\) differ"):
        contest("identity", value=M, printed=M, rivals={"row": M[0, :]})


def test_sums_over_a_general_index_are_proved():
    i, v = sympy.Symbol("i", integer=True), sympy.IndexedBase("v")
    total = sympy.Sum(v[i], (i, 1, n))
    doubled = sympy.Sum(v[i] + v[i], (i, 1, n))
    contest("identity", value=doubled, printed=2*total, rivals={"one": total, "v_1": total + v[1]})


def test_a_root_is_positive_whatever_its_argument():
    contest("identity", "corrected", value=sympy.sqrt(x**2), printed=x, corrected=abs(x), rivals={"-x": -x})


@pytest.mark.parametrize("value, candidate", [(a / 2, 0.5 * a), (0.5 * a, a / 2), (0.5 * a, 0.5 * a), (a**2, a**2.0)])
def test_a_proof_refuses_floating_point_numbers(value, candidate):
    with pytest.raises(ValueError, match="printed contains a floating-point number"):
        contest("identity", value=value, printed=candidate, rivals={"b": b})


@pytest.mark.parametrize("value, false", [
    (sympy.exp(sympy.pi * sympy.sqrt(163)), sympy.Integer(262537412640768744)),  # Ramanujan: they differ by 7.5e-13
    (a, sympy.zoo), (a, a * sympy.I), (a, a + sympy.EulerGamma), (a, sympy.expint(3, a)),
])
def test_what_is_neither_proved_nor_refuted_is_inconclusive(value, false):
    with pytest.raises(Inconclusive, match="false: undecided, neither proved nor refuted"):
        contest("identity", value=value, printed=value, rivals={"false": false})


@pytest.mark.parametrize("difference", [
    lambda x, y: (x + y)**2 - x**2 - y**2, lambda a, b: a / b - b / a, lambda n: n * (n + 1) / 2 - n**2,
    lambda x, y, n: x**3 / (1 + y**2) - x / n,
])
def test_the_witness_of_a_rejection_is_real(shown, difference):
    symbols = {name: globals()[name] for name in inspect.signature(difference).parameters}
    expression = difference(**symbols)
    for seed in range(10):
        contest("identity", seed=seed, value=expression, printed=expression, rivals={"0": sympy.Integer(0)})
        words = records(shown)[-1]["checks"][0]["rejected"]["0"]
        value, at = re.fullmatch(r"differs by (\S+) at (.+)", words).groups()
        point = {name: Fraction(number) for name, number in (part.split(" = ") for part in at.split(", "))}
        assert all(point[name] > 0 for name, symbol in symbols.items() if symbol.is_positive)
        assert difference(**point) != 0
        assert float(difference(**point)) == pytest.approx(float(value), rel=0.06)  # two digits are shown


def test_a_pole_is_no_witness(shown):
    poles = 1 / sympy.prod(n - j for j in range(1, 11))
    for seed in range(10):
        contest("identity", seed=seed, value=poles, printed=poles, rivals={"twice": 2*poles})
        assert int(re.search(r" at n = (\d+)", str(records(shown)[-1]))[1]) > 10


@pytest.mark.parametrize("assumptions, holds", [
    ({"negative": True}, lambda m: m < 0), ({"positive": True}, lambda m: m > 0),
    ({"nonnegative": True}, lambda m: m >= 0), ({"odd": True}, lambda m: m % 2 == 1),
    ({"integer": True, "nonpositive": True}, lambda m: m <= 0 and m == int(m)),
    ({"integer": False}, lambda m: m != int(m)),
])
def test_a_witness_has_the_properties_of_its_symbols(shown, assumptions, holds):
    m = sympy.Symbol("m", **assumptions)
    for seed in range(10):
        contest("identity", seed=seed, value=m, printed=m, rivals={"2m": 2*m + Rational(1, 3)})
        assert holds(Fraction(re.search(r" at m = ([-\d/]+)", str(records(shown)[-1]))[1]))


def test_a_symbol_that_no_number_stands_for_is_refused():
    m = sympy.Symbol("m", imaginary=True)
    with pytest.raises(ValueError, match="m is assumed to be .*; no rational number"):
        contest("identity", value=m, printed=m, rivals={"2m": 2*m})


@pytest.mark.parametrize("expression", [
    Rational(-22, 7), sympy.pi, sympy.E, sympy.exp(Rational(-3, 2)), sympy.log(Rational(3, 7)),
    sympy.sqrt(2) + sympy.sqrt(3), sympy.erf(Rational(1, 3)),
    sympy.erf(sympy.sqrt(sympy.pi / 5)) * sympy.exp(-sympy.pi**2) / sympy.log(10),
    Rational(2, 3)**Rational(1, 3), sympy.pi**-3, sympy.sqrt(2)**sympy.sqrt(3), abs(sympy.log(2) - sympy.pi),
    sympy.exp(sympy.sqrt(sympy.log(5) + sympy.erf(2))) - sympy.cos(1) * sympy.gamma(Rational(1, 3)), sympy.erfc(3),
])
def test_a_ball_holds_the_value_and_little_else(expression):
    ball = spdlib.claims._ball(expression)
    with mpmath.workdps(60):
        value = sympy.N(expression, 60)._to_mpmath(200)
        middle, radius = (mpmath.ldexp(*map(int, part.man_exp())) for part in (ball.mid(), ball.rad()))
        assert abs(value - middle) <= radius <= 1e-12 * abs(value)


# certificate

@pytest.mark.parametrize("margin", [lambda t: (t - flint.arb(1) / 3)**2 + 1e-6, lambda t: t + 2.0**-60])
def test_a_margin_that_is_positive_everywhere_is_certified(margin):
    contest("enclosure", value=[(0, 1)], printed=margin, rivals={"t - 2": lambda t: t - 2})


@pytest.mark.parametrize("margin", [lambda t: (t - flint.arb(1) / 3)**2 - 1e-6, lambda t: t * 0, lambda t: t - 1e-6])
def test_a_margin_that_is_somewhere_not_positive_is_rejected(margin):
    contest("enclosure", "corrected", value=[(0, 1)], printed=margin, corrected=lambda t: t + 1)


@pytest.mark.parametrize("margin", [lambda t: t, lambda t: (t - flint.arb(1) / 3)**2, lambda t: t * flint.arb("nan")])
def test_a_margin_that_the_boxes_do_not_decide_is_inconclusive(margin):
    with pytest.raises(Inconclusive, match="printed: undecided, undecided after 100 boxes"):
        contest("enclosure", value=[(0, 1)], printed=margin, rivals={"t - 2": lambda t: t - 2}, most_boxes=100)


def test_a_zero_in_one_corner_does_not_hide_what_is_negative_elsewhere():
    contest("enclosure", value=[(-1, 1), (0, 2)], most_boxes=2000,
            printed=lambda u, v: u*u + v + 1, rivals={"u² + v - 1/2": lambda u, v: u*u + v - 0.5})


# numbers

@pytest.mark.parametrize("verb, value, candidate", [
    ("equal", [1e3, 1.0], [1e3, 1 + 1e-5]), ("equal", 1.0, 1 + 1e-8), ("bound", [0.1, 1 + 1e-8], 1.0),
])
def test_an_error_between_rounding_and_difference_is_undecided(verb, value, candidate):
    with pytest.raises(Inconclusive, match="printed: undecided"):
        contest(verb, value=value, printed=candidate, rivals={"half": 0.5})


def test_zeros_are_equal():
    contest("equal", value=np.zeros(3), printed=0, rivals={"1": 1})


@pytest.mark.parametrize("bound", [0, -1, [1, 0], np.inf])
def test_a_bound_that_is_not_positive_is_refused(bound):
    with pytest.raises(ValueError, match="printed is a bound of .*; accepted are finite bounds > 0"):
        contest("bound", value=[0.5, 0.5], printed=bound, rivals={"0.1": 0.1})


def test_complex_numbers_are_refused():
    with pytest.raises(ValueError, match="has dtype complex128; accepted are real numbers"):
        contest("equal", value=np.array([1 + 1j]), printed=np.array([1.0]), rivals={"2": 2.0})


# Monte Carlo

def calls(verb, **candidates):
    """Sizes that the engine asks of the sampler, and what became of the check."""
    sizes = []

    def sampler(rng, size):
        sizes.append(size)
        return CONTESTS[verb][0](rng, size)

    try:
        contest(verb, value=sampler, **candidates)
    except Inconclusive as error:
        return sizes, str(error)
    return sizes, None


@pytest.mark.parametrize("verb, true, near, pilot", [
    ("law", norm.cdf, norm(1e-4).cdf, [2000]), ("law", norm.cdf, norm.cdf, [2000]), ("share", 0.3, 0.3001, []),
    ("share", 0.3, 0.3, []), ("share", 0.3, (0.2, 0.4), []), ("share", (0.2, 0.3), (0.3, 0.4), []),
])
def test_a_contest_that_takes_too_many_draws_stops_before_sampling(verb, true, near, pilot):
    sizes, error = calls(verb, printed=true, rivals={"near": near})
    assert sizes == pilot and "apart, which takes" in error


def test_rivals_may_be_close_to_each_other():
    assert calls("share", printed=0.3, rivals={"0.5": 0.5, "0.5001": 0.5001})[1] is None


def test_draws_come_in_chunks_and_are_as_many_as_the_level_and_the_distance_ask():
    (pilot, *sizes), _ = calls("law", printed=norm.cdf, rivals={"shifted": norm(0.05).cdf})
    distance = 2 * norm.cdf(0.025) - 1
    wanted = 2 * np.log(2 / spdlib.claims.ALPHA) / distance**2
    assert pilot == 2000 and max(sizes) == CHUNK < sum(sizes)
    assert wanted <= sum(sizes) <= 1.1 * wanted


def test_a_law_is_held_against_the_largest_distance_on_either_side_of_a_step(monkeypatch, shown):
    monkeypatch.setattr(spdlib.claims, "ALPHA", LARGE)
    for seed in range(20):
        drawn = []
        value = CONTESTS["law"][0]
        candidates = {"printed": norm.cdf, "rivals": {"far": norm(3).cdf}}
        with contextlib.suppress(Inconclusive):
            contest("law", seed=seed, value=lambda rng, size: drawn.append(value(rng, size)) or drawn[-1], **candidates)
            ratio = kstest(drawn[-1], norm.cdf).statistic / np.sqrt(np.log(2 / LARGE) / (2 * len(drawn[-1])))
            assert records(shown)[-1]["checks"][0]["how"] == f"{ratio:.2g} times the band"


@pytest.mark.parametrize("verb", ["law", "share"])
def test_a_sample_of_the_wrong_shape_is_refused(verb):
    _, true, false, _ = CONTESTS[verb]
    with pytest.raises(ValueError, match="the sample has shape"):
        contest(verb, value=lambda rng, size: rng.random((size, 1)) < 0.3, printed=true, rivals={"false": false})


def test_an_event_that_is_not_boolean_is_refused():
    with pytest.raises(ValueError, match="the event has dtype float64; accepted are booleans"):
        contest("share", value=lambda rng, size: np.full(size, 0.3), printed=0.3, rivals={"0.4": 0.4})


LARGE, REPEATS = 0.2, 200
LAWS = {"printed": 0.0, "corrected": 0.35, "measured": -0.4, "rivals": 0.8}  # means of normal laws
SHARES = {"printed": 0.5, "corrected": 0.65, "measured": 0.3, "rivals": 0.85}


def survivors(verb, truth, shown):
    """How often each possible truth survives alone, in repeats with other seeds; under None, how often nothing does."""
    counts = dict.fromkeys(["printed", "corrected", "measured", None], 0)
    if verb == "law":
        candidates = {role: norm(mean).cdf for role, mean in LAWS.items()}
    else:
        candidates = dict(SHARES)
    candidates["rivals"] = {"rival": candidates["rivals"]}

    def value(rng, size):
        return truth + rng.standard_normal(size) if verb == "law" else rng.random(size) < truth

    for seed in range(REPEATS):
        try:
            contest(verb, seed=seed, value=value, **candidates)
        except Inconclusive:
            counts[None] += 1
        except VerdictDiffers:
            counts[shown[-1][MIME]["checks"][0]["survivor"]] += 1
        else:
            counts["printed"] += 1
    return counts


def plausible(hits):
    """Whether so many hits are compatible with a probability of at least 1 - LARGE, at the level 1e-6."""
    return binom.cdf(hits, REPEATS, 1 - LARGE) > 1e-6


@pytest.mark.parametrize("verb, truths", [("law", LAWS), ("share", SHARES)])
@pytest.mark.parametrize("role", ["printed", "corrected", "measured"])
def test_whichever_truth_is_true_survives_alone_with_probability_1_minus_alpha(monkeypatch, shown, verb, truths, role):
    monkeypatch.setattr(spdlib.claims, "ALPHA", LARGE)
    hits = survivors(verb, truths[role], shown)[role]
    assert plausible(hits) and hits < REPEATS  # a level that is never used up would be no level


@pytest.mark.parametrize("verb, truths", [("law", LAWS), ("share", SHARES)])
def test_a_true_rival_gives_no_verdict_with_probability_1_minus_alpha(monkeypatch, shown, verb, truths):
    monkeypatch.setattr(spdlib.claims, "ALPHA", LARGE)
    assert plausible(survivors(verb, truths["rivals"], shown)[None])


@pytest.mark.parametrize("verb, truth", [("law", 2.0), ("share", 0.05)])
def test_a_truth_that_is_not_listed_gives_no_verdict(monkeypatch, shown, verb, truth):
    monkeypatch.setattr(spdlib.claims, "ALPHA", LARGE)
    assert survivors(verb, truth, shown)[None] == REPEATS


@pytest.mark.parametrize("verb", ["law", "share"])
def test_an_eighth_of_the_draws_would_not_have_the_power(monkeypatch, shown, verb):
    monkeypatch.setattr(spdlib.claims, "ALPHA", LARGE)
    draws = claim._draws
    monkeypatch.setattr(claim, "_draws", lambda *arguments: draws(*arguments) // 8)
    assert not plausible(survivors(verb, {"law": LAWS, "share": SHARES}[verb]["printed"], shown)["printed"])


# seeds

def draws(seed=1, id="TG-16", before=0, after=0, own=0, other=False):
    """Everything that the sampler of one check draws, with other checks, claims and draws around it."""
    drawn = []

    def sampler(rng, size):
        drawn.append(rng.standard_normal(size))
        return drawn[-1]

    if other:
        contest("law", id="TG-01", printed=norm.cdf, rivals={"shifted": norm(0.2).cdf})
    with claim(id, "holds", seed) as c:
        c.rng.random(own)
        for _ in range(before):
            c.equal(1, printed=1, rivals={"2": 2})
        c.law(sampler, printed=norm.cdf, rivals={"shifted": norm(0.3).cdf})
        for _ in range(after):
            c.law(CONTESTS["law"][0], printed=norm.cdf, rivals={"shifted": norm(0.2).cdf})
    return np.concatenate(drawn)


@pytest.mark.parametrize("around", [{}, {"after": 1}, {"own": 5}, {"other": True}], ids=str)
def test_what_stands_around_a_check_moves_none_of_its_draws(around):
    assert np.array_equal(draws(), draws(**around))


@pytest.mark.parametrize("change", [{"seed": 2}, {"id": "TG-17"}, {"before": 1}], ids=str)
def test_seed_claim_and_number_of_the_check_give_other_draws(change):
    assert not np.isin(draws(), draws(**change)).any()


@every_verb
def test_the_same_seed_gives_the_same_record(shown, verb):
    _, true, false, other = CONTESTS[verb]
    for _ in range(2):
        contest(verb, printed=true, rivals={"false": false, "other": other})
    assert shown[0] == shown[1]


def test_the_generator_of_a_claim_is_apart_from_those_of_its_checks():
    with claim("TG-16", "holds", 1) as c:
        assert not np.isin(draws(), c.rng.standard_normal(5000)).any()
        c.equal(1, printed=1, rivals={"2": 2})


# parameters of a chapter

def test_parameters_within_their_ranges_are_accepted():
    require(k=(3, 1, 10), epsilon=(0.5, 1e-6, 1e3), radius=(1, 0.5, 2.0))


@pytest.mark.parametrize("value, low, high, kind", [
    (0, 1, 10, "integers"), (11, 1, 10, "integers"), (2.0, 1, 10, "integers"), (True, 1, 10, "integers"),
    ("3", 1, 10, "integers"),
    (float("nan"), 0.0, 1.0, "numbers"), (2.0, 0.0, 1.0, "numbers"), (None, 0.0, 1.0, "numbers"),
])
def test_a_parameter_outside_its_range_is_refused_by_name(value, low, high, kind):
    message = re.escape(f"k is {value!r}; accepted are {kind} from {low} to {high}")
    with pytest.raises(ValueError, match=message):
        require(k=(value, low, high))


# the ledger

PAPERS = '[papers.TG]\ntitle = "Tangent Gaussian"\nclaims = 48\n[papers.SP]\ntitle = "This book"\nclaims = 13\n'


def entry(id, **fields):
    """A table of claims.toml."""
    fields = {"where": "Sec. 1"} | fields
    return f"[{id}]\n" + "".join(f"{key} = {json.dumps(value)}\n" for key, value in fields.items())


def theorem(label, text):
    return f"Some prose.\n\n:::{{prf:theorem}} A title\n:label: {label}\n\n{text}\n:::\n\nMore prose."


def record(id, verdict="holds", evidence="exact", rejected=("half",)):
    survivor = next(role for role, word in spdlib.claims.VERDICT.items() if word == verdict)
    return {"id": id, "stated": verdict, "verdict": verdict,
            "checks": [{"evidence": evidence, "summary": "1 numbers", "survivor": survivor, "how": "equal",
                        "rejected": dict.fromkeys(rejected, "off")}]}


def write_chapter(book, stem, prose, outputs):
    """A chapter with one Markdown cell per text and one code cell with all outputs (MIME bundles)."""
    new = nbformat.v4
    cells = [new.new_markdown_cell(text) for text in prose]
    stream = new.new_output("stream", name="stdout", text="a table")
    shown = [new.new_output("display_data", data=output) for output in outputs]
    cells.append(new.new_code_cell("…", outputs=[stream, *shown]))
    nbformat.write(new.new_notebook(cells=cells), book / f"{stem}.ipynb")


@pytest.fixture
def make_book(tmp_path):
    """A function that writes a book: entries of claims.toml, then per chapter its theorems and its records."""
    def make(*entries, **chapters):
        (tmp_path / "claims.toml").write_text("\n".join([PAPERS, *entries]), encoding="utf-8")
        for stem, (theorems, outputs) in chapters.items():
            prose = [theorem(*labelled) for labelled in theorems.items()]
            write_chapter(tmp_path, stem.removeprefix("c"), prose, [{MIME: output} for output in outputs])
        return tmp_path
    return make


def test_the_ledger_says_of_a_claim_what_was_displayed(make_book, tmp_path, shown):
    make_book(entry("SP-12", uses=["TG-16"], domain="n ≥ 1"), entry("TG-16"))
    with claim("TG-16", "corrected", 1) as c:
        c.equal(1.0, printed=2.0, corrected=1.0, rivals={"half": 0.5})
        c.share(lambda rng, size: rng.random(size) < 0.3, printed=0.5, corrected=0.3, rivals={"none": 0.0})
    contest("bound", id="SP-12", printed=1, rivals={"half": 0.5})
    prose = {"TG-16": "It is $1$.", "TG-16-corrected": "It is $2$.", "SP-12": "Clipped."}
    write_chapter(tmp_path, "05_sensitivity", [theorem(*labelled) for labelled in prose.items()], shown)
    rows = ledger(tmp_path)
    assert [row["id"] for row in rows] == ["SP-12", "TG-16"]  # the order of claims.toml
    summary = rows[1]["evidence"][1].pop("summary")
    assert "draws, Clopper–Pearson" in summary
    assert rows[1] == {
        "id": "TG-16", "paper": "Tangent Gaussian", "where": "Sec. 1", "statement": "It is $1$.",
        "verdict": "corrected", "correction": "It is $2$.",
        "evidence": [{"kind": "exact", "summary": "1 numbers"}, {"kind": "monte-carlo"}],
        "rivals": ["half", "none"], "uses": [], "chapter": "05_sensitivity", "anchor": "TG-16",
    }
    assert (rows[0]["paper"], rows[0]["verdict"], rows[0]["uses"]) == ("This book", "holds", ["TG-16"])
    assert rests_on(rows) == {"SP-12": ["TG-16"], "TG-16": []}


def test_records_are_read_in_order_and_other_outputs_passed_over(make_book):
    outputs = [record("TG-16"), record("TG-17", "fails")]
    book = make_book(c05_a=({}, outputs))
    assert recorded(book / "05_a.ipynb") == outputs


def test_statements_are_read_whatever_the_fence(make_book):
    text = "\n".join(["::::{prf:theorem} One\n:label: TG-01\n:class: big\n\nA\n:::{note}\ninside\n:::\n\nB\n::::",
                      "```{prf:lemma}\n:label: TG-02\nTwo.\n```", ":::{note}\nno theorem\n:::"])
    write_chapter(make_book(), "01_a", [text, theorem("TG-03", "Three.")], [])
    assert statements(make_book() / "01_a.ipynb") == {
        "TG-01": "A\n:::{note}\ninside\n:::\n\nB", "TG-02": "Two.", "TG-03": "Three."}


def test_the_label_of_a_statement_may_follow_another_option(make_book):
    write_chapter(make_book(), "01_a", [":::{prf:theorem}\n:class: big\n:label: TG-01\n\nOne.\n:::"], [])
    assert statements(make_book() / "01_a.ipynb") == {"TG-01": "One."}


@pytest.mark.parametrize("verdicts, worst", [
    (["holds", "corrected"], "corrected"), (["fails", "corrected", "holds"], "fails"), (["holds", "holds"], "holds"),
])
def test_the_verdict_of_several_records_is_the_worst(make_book, verdicts, worst):
    book = make_book(entry("TG-16"), c05_a=({"TG-16": "S"}, [record("TG-16", verdict) for verdict in verdicts]))
    (row,) = ledger(book)
    assert row["verdict"] == worst and len(row["evidence"]) == len(verdicts)


def test_an_untested_claim_is_listed_as_such(make_book):
    listed = entry("TG-29", untested="The set is not public.", chapter="10_images")
    book = make_book(listed, c10_images=({"TG-29": "S"}, []))
    (row,) = ledger(book)
    assert (row["verdict"], row["evidence"], row["chapter"], row["statement"]) == ("untested", [], "10_images", "S")


def test_possible_truths_are_not_counted_as_rivals(make_book):
    output = record("TG-16", "corrected", rejected=["printed", "measured", "half", "double"])
    assert ledger(make_book(entry("TG-16"), c05_a=({"TG-16": "S"}, [output])))[0]["rivals"] == ["double", "half"]


TESTED = ({"TG-16": "S"}, [record("TG-16")])


@pytest.mark.parametrize("entries, chapters, message", [
    ([entry("TG-16")], {"c05_a": TESTED, "c06_b": TESTED}, r"TG-16: tested in more than one .*\['05_a', '06_b'\]"),
    ([entry("TG-16"), entry("TG-17")], {"c05_a": TESTED}, "TG-17: neither tested in a chapter nor listed as untested"),
    ([], {"c05_a": TESTED}, r"\['TG-16'\]: tested in a chapter, but not listed"),
    ([entry("TG-16")], {"c05_a": ({"TG-17": "S"}, [record("TG-16")])}, "TG-16: no statement; .* 05_a"),
])
def test_a_book_whose_claims_do_not_add_up_has_no_ledger(make_book, entries, chapters, message):
    with pytest.raises(ClaimError, match=message):
        ledger(make_book(*entries, **chapters))


def rows(uses, **verdicts):
    return [{"id": id, "uses": used, "verdict": verdicts.get(id, "holds")} for id, used in uses.items()]


def test_a_claim_rests_on_all_that_it_uses_directly_or_not():
    uses = {"A": ["B", "C"], "B": ["D"], "C": ["D"], "D": ["E"], "E": [], "F": []}
    below = rests_on(rows(uses, D="fails", C="corrected", E="untested"))
    assert below == {"A": ["C", "D", "E"], "B": ["D", "E"], "C": ["D", "E"], "D": ["E"], "E": [], "F": []}


@pytest.mark.parametrize("uses, message", [
    ({"A": ["A"]}, "go round in a circle: A → A"), ({"A": ["B"], "B": ["C"], "C": ["B"]}, "in a circle: B → C → B"),
    ({"A": ["B", "Z"], "B": []}, r"\['Z'\]: used by a claim, but not listed"),
])
def test_uses_that_go_round_or_nowhere_are_refused(uses, message):
    with pytest.raises(ClaimError, match=message):
        rests_on(rows(uses))


@pytest.mark.parametrize("verb, value", [("share", lambda rng, size: rng.random(size) < 0.5), ("reads", 9.0)])
def test_an_interval_the_wrong_way_round_is_refused(verb, value):
    with pytest.raises(ValueError, match="printed is the interval 0.9 to 0.1"):
        contest(verb, value=value, printed=(0.9, 0.1), rivals={"low": (0.0, 0.01)})
