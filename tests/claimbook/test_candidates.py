"""Guard: no check of this book holds spdlib against itself, and the guard sees planted ones."""

import pytest
from conftest import CHAPTERS, ROOT
from test_design import ORDER

from claimbook.book import code
from claimbook.guards.candidates import TRUTHS, Rules, refused

RULES = Rules(ROOT, "spdlib", tuple(ORDER), free=frozenset({"printed"}),
              data=("random_spd", "load_"), round_trips=frozenset({"calibration"}))

# (chapter, claim, number of the check within it): the reason why it may
EXCEPTIONS = {
    ("01_spd", "TG-02", 2): "the triangle inequality holds distances against distances",
    ("29_rounding", "SP-11", 1): "ε and δ are asked for at any scale; balls say where they are",
    ("06_utility", "TG-17", 6): "releases of moved records are held against moved releases",
    ("07_which_noise", "SP-08", 13): "where two δ cross; the certificate of this claim holds them",
    ("07_which_noise", "SP-08", 14): "the same thresholds",
    ("07_which_noise", "SP-08", 15): "the same thresholds",
    ("07_which_noise", "SP-08", 16): "the same thresholds",
    ("15_descriptors", "SP-02", 8): "the same descriptors, clipped and not; clipping is tested",
    ("31_slips", "TG-28", 1): "the step compares norms of one feature vector",
    ("31_slips", "TG-28", 2): "the step compares norms of one feature vector",
}


@pytest.mark.slow
@pytest.mark.parametrize("chapter", CHAPTERS, ids=lambda chapter: chapter.stem)
def test_no_check_holds_spdlib_against_itself(chapter):
    allowed = {(id, check) for stem, id, check in EXCEPTIONS if stem == chapter.stem}
    found = refused(code(chapter), RULES)
    assert {check: reason for check, reason in found.items() if check not in allowed} == {}
    assert allowed <= set(found), "an exception that nothing needs"


HEAD = """
from spdlib.calibration import gaussian_delta, sigma_analytic
from claimbook import claim
from spdlib.mechanisms import TangentGaussian
from spdlib.spd import logm, random_spd, vecd
from spdlib.printed import sigma_classical
"""


def reasons(lines, check="c.equal(value, printed=truth)"):
    """Why a check after these lines is refused: a list."""
    return list(
        refused(f'{HEAD}\n{lines}\nwith claim("TG-16", "holds", 1) as c:\n    {check}',
                RULES).values()
    )


PLANTED = "calibration computes the value and a possible truth"


@pytest.mark.parametrize(
    "lines",
    [
        "value = gaussian_delta(1, 1)\ntruth = gaussian_delta(2, 1)",
        "value = truth = 0\nvalue += gaussian_delta(1, 1)\ntruth += gaussian_delta(1, 1)",
        "def value():\n    return gaussian_delta(1, 1)\n\ntruth = 2 * value()",
        "def inner(x):\n    return gaussian_delta(x, 1)\n\n"
        "def truth(x):\n    y = inner(x)\n    return y\n\nvalue = inner(1)",
        "value = truth = [gaussian_delta(x, 1) for x in (1, 2)]",
        "value = {x: gaussian_delta(x, 1) for x in (1, 2)}\ntruth = [y for y in value.values()]",
        "value, truth = [], []\nfor x in (1, 2):\n    y = gaussian_delta(x, 1)\n"
        "    value.append(y)\n    truth.append(y)",
        "truth = 0\nfor x in (1, 2):\n    truth, value = value, gaussian_delta(x, 1)",
        "value = gaussian_delta(1, 1)\ntruth = {}\ntruth['a'] = value",
        "value = truth = lambda x: gaussian_delta(x, 1)",
        "apply = lambda f, x: f(x)\nvalue = truth = apply(gaussian_delta, 1)",
        "value = truth = (lambda x=gaussian_delta(1, 1): x)()",
        "def value(*x, **y):\n    return x\n\ntruth = value(gaussian_delta(1, 1))\nvalue = truth",
        "if True:\n    value = truth = gaussian_delta(1, 1)\nelse:\n    pass",
        "from spdlib import calibration\nvalue = truth = calibration.gaussian_delta(1, 1)",
        "import spdlib.calibration as own\nvalue = truth = own.gaussian_delta(1, 1)",
    ],
)
def test_a_truth_that_the_module_under_test_computes_is_seen_through(lines):
    assert reasons(lines) == [PLANTED]


@pytest.mark.parametrize("role", sorted(TRUTHS))
def test_every_possible_truth_is_looked_at_and_no_rival(role):
    value = "value = gaussian_delta(1, 1)"
    assert reasons(value, f"c.equal(value, {role}=2 * value)") == [PLANTED]
    assert reasons(value, f"c.equal(value, **dict({role}=2 * value))") == [PLANTED]
    assert reasons(value, f"c.equal(value, {role}=1, rivals={{'twice': 2 * value}})") == []


def test_what_an_object_of_a_module_does_is_of_that_module():
    made = "mechanism = TangentGaussian(1, 1, 1e-6)\nvalue = mechanism.sigma"
    assert reasons(made + "\ntruth = mechanism.perturb(0)") != []
    assert reasons(made + "\ntruth = 1.0") == []


@pytest.mark.parametrize(
    "lines",
    [
        "value = vecd(logm(TangentGaussian(1, 1, 1e-6).release(1)))\ntruth = vecd(logm(1))",
        "value = logm(random_spd(1, 2))\ntruth = random_spd(1, 2)",
        "value = gaussian_delta(1, 1)\ntruth = sigma_classical(1, 1, 1e-6)",
        "value = gaussian_delta(1, 1)\ntruth = [1] * len(value) + [0] * value.size",
        "def truth(vecd):\n    return vecd\n\nvalue, truth = vecd(1), truth(1)",
        "value, truth = gaussian_delta(1, 1), 2.0",
    ],
)
def test_coordinates_data_printed_formulas_and_counts_are_free(lines):
    assert reasons(lines) == []


@pytest.mark.parametrize(
    "lines",
    [
        "value = gaussian_delta(sigma_analytic(1, 1, 1e-6), 1)",
        "scale = [sigma_analytic(1, x, 1e-6) for x in (1, 2)]\n"
        "value = [gaussian_delta(s, 1) for s in scale]",
        "def back(eps):\n    s = sigma_analytic(1, eps, 1)\n    return gaussian_delta(s, eps)\n\n"
        "value = back(1)",
    ],
)
def test_a_round_trip_through_the_calibration_is_seen(lines):
    assert reasons(lines + "\ntruth = 1e-6") == ["the value has calibration fed back"]


def test_two_answers_of_the_calibration_side_by_side_are_no_round_trip():
    value = "value = gaussian_delta(1, 1) * sigma_analytic(1, 1, 1e-6)"
    assert reasons(value + "\ntruth = 1.0") == []


def test_a_check_in_a_loop_is_counted_once_and_numbers_go_on_through_the_chapter():
    block = 'with claim("TG-16", "holds", 1) as c:\n    for x in (1, 2):\n        {}\n'
    bad, good = "c.equal(logm(x), printed=logm(x))", "c.equal(logm(x), printed=x)"
    assert list(refused(HEAD + block.format(good) + block.format(bad), RULES)) == [("TG-16", 2)]
