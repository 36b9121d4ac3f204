"""The door for values: a parameter is a real number, or an integer, in its range, or refused.

Every error says `NAME is VALUE; accepted are WHAT`.
"""

import math
import numbers


def number(value, name: str, low: float, high: float) -> float:
    """`value` as a float, if it is a real number in [low, high]."""
    try:
        real = isinstance(value, numbers.Real) and not isinstance(value, bool)
        converted = float(value) if real else math.nan
    except OverflowError:  # an int beyond the floats
        converted = math.inf
    if not low <= converted <= high:
        raise ValueError(f"{name} is {value!r}; accepted are numbers from {low} to {high}")
    return converted


def integer(value, name: str, low: int, high: float = math.inf) -> int:
    """`value` as an int in [low, high]."""
    whole = isinstance(value, numbers.Integral) and not isinstance(value, bool)
    if not whole or not low <= value <= high:
        span = f"≥ {low}" if high == math.inf else f"from {low} to {high}"
        raise ValueError(f"{name} is {value!r}; accepted are integers {span}")
    return int(value)


def among(value, name: str, accepted) -> str:
    """`value`, if it is one of the words in `accepted`."""
    if value not in accepted:
        raise ValueError(f"{name} is {value!r}; accepted are {', '.join(map(repr, accepted))}")
    return value
