"""Ball arithmetic: a point at which an expression is certainly not 0, a box where it is positive.

A ball (`flint.arb`) is a midpoint with a radius that certainly holds the value, whatever was
rounded on the way.
"""

import collections
import math

# The functions that sympy and flint have in common under one name, besides Abs and powers.
FUNCTIONS = {"exp", "log", "sin", "cos", "tan", "atan", "sinh", "cosh", "tanh"}
FUNCTIONS |= {"erf", "erfc", "gamma"}
MOST_POINTS = 12


def witness(difference, rng) -> str | None:
    """A rational point, in words, at which the expression is certified not to be 0; or None."""
    import sympy

    for _ in range(MOST_POINTS):
        integers = sorted((s for s in difference.free_symbols if s.is_integer), key=str)
        whole = {s: _point(s, rng) for s in integers}
        expression = difference.subs(whole).doit()  # sums have definite ends now
        indexed = expression.atoms(sympy.Indexed)
        labels = {entry.base.label for entry in indexed}
        others = sorted(indexed | (expression.free_symbols - labels), key=str)
        point = whole | {s: _point(s, rng) for s in others}
        expression = expression.subs(point)
        try:
            value = ball(expression)
        except (ValueError, ZeroDivisionError, TypeError, AttributeError, IndexError):
            continue
        if not value.contains(0):  # false for a ball of NaN, which contains everything
            words = f"{float(value.mid()):.2g}"
            if 0 < len(point) <= 4:
                at = ", ".join(f"{_written(symbol)} = {point[symbol]}" for symbol in point)
                return f"{words} at {at}"
            return f"{words} at a rational point" if point else words
    return None


def _written(symbol):
    """A symbol in letters, Greek ones too: "ε" for "varepsilon"."""
    from sympy.printing.pretty.pretty_symbology import pretty_symbol

    return pretty_symbol(str(symbol).removeprefix("var"))


def _point(symbol, rng):
    """A rational number that has the symbol's properties."""
    import sympy

    for _ in range(1000):
        value = sympy.Rational(int(rng.integers(-20, 20)), 1 if symbol.is_integer else 7)
        properties = symbol.assumptions0.items()
        if all(getattr(value, f"is_{property}") is has for property, has in properties):
            return value
    raise ValueError(f"{symbol} is assumed to be {symbol.assumptions0}; "
                     "accepted is what some rational number n/7 from -3 to 3 can be")


def ball(expression):
    """Ball (`flint.arb`) that certainly holds the value of a constant sympy expression."""
    import flint
    import sympy

    if expression.is_Rational:
        return flint.arb(flint.fmpq(int(expression.p), int(expression.q)))
    if expression is sympy.pi:
        return flint.arb.pi()
    if expression is sympy.E:
        return flint.arb(1).exp()
    balls = [ball(a) for a in expression.args]
    if expression.is_Add:
        return sum(balls, flint.arb(0))
    if expression.is_Mul:
        return math.prod(balls, start=flint.arb(1))
    if expression.is_Pow:
        base, exponent = balls
        if expression.exp is sympy.S.Half:
            return base.sqrt()
        return base**int(expression.exp) if expression.exp.is_Integer else base**exponent
    name = expression.func.__name__
    if name == "Abs":
        return abs(balls[0])
    if name not in FUNCTIONS:
        raise ValueError(f"expression is a {name}; accepted are {sorted(FUNCTIONS)}")
    return getattr(balls[0], name)()


def bisect(margin, box, most_boxes: int) -> tuple[bool | None, int]:
    """Whether the margin is positive on the whole box (None: undecided), and how many boxes."""
    import flint

    todo = collections.deque([[(flint.arb(low), flint.arb(high)) for low, high in box]])
    count = 0
    while todo:
        if count == most_boxes:
            return None, count
        sides = todo.popleft()  # breadth first: a zero in one corner hides nothing elsewhere
        count += 1
        if margin(*(low.union(high) for low, high in sides)) > 0:
            continue
        middles = [((low + high) / 2).mid() for low, high in sides]
        if margin(*middles) <= 0:
            return False, count
        widths = [float((high - low).mid()) for low, high in sides]
        widest = widths.index(max(widths))
        (low, high), middle = sides[widest], middles[widest]
        for half in (low, middle), (middle, high):
            todo.append([*sides[:widest], half, *sides[widest + 1:]])
    return True, count
