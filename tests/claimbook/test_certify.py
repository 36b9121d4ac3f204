"""Ball arithmetic: a ball holds its value, and a witness and a bisection say what they found."""

import re

import flint
import mpmath
import numpy as np
import pytest
import sympy
from sympy import Rational

from claimbook.certify import ball, bisect, witness

x = sympy.Symbol("x", real=True)


@pytest.mark.parametrize(
    "expression",
    [
        Rational(-22, 7),
        sympy.pi,
        sympy.E,
        sympy.exp(Rational(-3, 2)),
        sympy.log(Rational(3, 7)),
        sympy.sqrt(2) + sympy.sqrt(3),
        sympy.erf(Rational(1, 3)),
        sympy.erf(sympy.sqrt(sympy.pi / 5)) * sympy.exp(-(sympy.pi**2)) / sympy.log(10),
        Rational(2, 3) ** Rational(1, 3),
        sympy.pi**-3,
        sympy.sqrt(2) ** sympy.sqrt(3),
        abs(sympy.log(2) - sympy.pi),
        sympy.erfc(3),
        sympy.exp(sympy.sqrt(sympy.log(5) + sympy.erf(2)))
        - sympy.cos(1) * sympy.gamma(Rational(1, 3)),
    ],
)
def test_a_ball_holds_the_value_and_little_else(expression):
    found = ball(expression)
    with mpmath.workdps(60):
        value = sympy.N(expression, 60)._to_mpmath(200)
        parts = (map(int, part.man_exp()) for part in (found.mid(), found.rad()))
        middle, radius = (mpmath.ldexp(*part) for part in parts)
        assert abs(value - middle) <= radius <= 1e-12 * abs(value)


def test_what_flint_does_not_have_is_refused_by_name():
    with pytest.raises(ValueError, match="expression is a zeta; accepted are .*'exp'"):
        ball(sympy.zeta(3))


def test_there_is_no_witness_against_what_is_0():
    rng = np.random.default_rng(0)
    assert witness((x + 1) ** 2 - x**2 - 2 * x - 1, rng) is None
    assert witness(sympy.sin(x) ** 2 + sympy.cos(x) ** 2 - 1, rng) is None


@pytest.mark.parametrize(
    "expression, words",
    [
        (sympy.Rational(1, 3), r"0\.33"),
        (x**2 + 1, r"\S+ at x = -?\d+(/7)?"),
        (1 + sum(s**2 for s in sympy.symbols("a:5", real=True)), r"\S+ at a rational point"),
    ],
)
def test_a_witness_says_by_how_much_and_where(expression, words):
    assert sympy.sympify(expression) != 0
    found = witness(expression, np.random.default_rng(1))
    assert re.fullmatch(words, found)


def test_a_bisection_says_what_it_took():
    assert bisect(lambda t: t + 1, [(0, 1)], 10) == (True, 1)
    assert bisect(lambda t: t - 2, [(0, 1)], 10) == (False, 1)
    assert bisect(lambda t: t, [(0, 1)], 10) == (None, 10)
    decided, boxes = bisect(lambda t: (t - flint.arb(1) / 3) ** 2 + 1e-3, [(0, 1)], 1000)
    assert decided and 1 < boxes < 1000
