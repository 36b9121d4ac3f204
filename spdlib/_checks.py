"""The one door for values: what comes in is converted to float64 or refused, in one wording.

Every error says `NAME is VALUE; accepted are WHAT`. What is returned is a plain float, int or
float64 array, so that no rounding of a narrower type, no mask and no imaginary part goes further
than this.
"""

import contextlib
import decimal
import math
import numbers
import re
from collections.abc import Sequence

import numpy as np

TINY, HUGE = math.ulp(0.0), float(np.finfo(float).max)
EPS = math.ulp(1.0)
Seed = np.random.Generator | int | Sequence[int] | None  # what `generator` takes
SHORTEST, LONGEST = 1e-100, 1e100  # lengths whose squares and quotients are floats


def number(value, name, low, high, accepted, also=None):
    """`value` as a float, if it is a real number in [low, high] or equals `also`."""
    try:
        real_number = isinstance(value, numbers.Real) and not isinstance(value, bool)
        converted = float(value) if real_number else math.nan
    except OverflowError:  # an int beyond the floats
        converted = math.inf
    if not (low <= converted <= high or converted == also):
        raise ValueError(f"{name} is {value!r}; accepted are {accepted}")
    if converted != value:  # rounded to nearest, it might promise more than was asked
        raise ValueError(f"{name} is {value!r}; accepted are numbers that float64 holds exactly, "
                         f"such as float({name})")
    return converted


def positive(value, name):
    """`value` as a finite float above 0."""
    return number(value, name, TINY, HUGE, "finite numbers above 0")


def size(value, name, also=None):
    """`value` as a length whose square and quotients are floats."""
    return number(value, name, SHORTEST, LONGEST, f"numbers from {SHORTEST:g} to {LONGEST:g}", also)


def integer(value, name, low, high=math.inf):
    """`value` as an int in [low, high]."""
    whole = isinstance(value, numbers.Integral) and not isinstance(value, bool)
    if not whole or not low <= value <= high:
        span = f"≥ {low}" if high == math.inf else f"from {low} to {high}"
        raise ValueError(f"{name} is {value!r}; accepted are integers {span}")
    return int(value)


def choice(value, name, accepted):
    """`value`, if it is one of the names in `accepted`."""
    if not isinstance(value, str) or value not in accepted:
        raise ValueError(f"{name} is {value!r}; accepted are {sorted(accepted)}")
    return value


def flag(value, name):
    """`value` as a bool, if it is one."""
    if not isinstance(value, (bool, np.bool_)):
        raise ValueError(f"{name} is {value!r}; accepted are True and False")
    return bool(value)


def generator(rng):
    """The Generator that `rng` is or seeds; of None, one that is seeded by the system's entropy."""
    try:
        if isinstance(rng, bool) or np.size(rng) == 0:
            raise TypeError
        return np.random.default_rng(rng)
    except (TypeError, ValueError) as error:
        raise ValueError(
            f"rng is {rng!r}; accepted are a numpy.random.Generator, a seed (an integer ≥ 0 or "
            "several of them), or None for the system's entropy") from error


def array(value, name):
    """`value` as an array of real numbers in the type that it has."""
    A = as_array(value, name, "accepted are real numbers")
    if A.dtype.kind not in "iuf":
        raise ValueError(f"{name} is an array of dtype {A.dtype}; accepted are real numbers")
    for part in _parts(value):
        if rounding(part) != rounding(A):  # one record's type would decide what is sound in others
            raise ValueError(f"{name} is made of arrays of dtypes {part.dtype} and {A.dtype}; "
                             "accepted are those of one precision")
    return A


def as_array(value, name, accepted):
    """`value` as an array, of whatever, without masked entries."""
    unmasked(value, name)
    try:
        return np.asarray(value)
    except ValueError as error:
        raise ValueError(f"{name} is no array ({error}); {accepted}") from error


def rounding(A):
    """Unit of rounding of the type in which an array comes; what it holds may be no finer."""
    return max(float(np.finfo(A.dtype).eps), EPS) if A.dtype.kind == "f" else EPS


def unmasked(value, name):
    """`value`, if it is no array with masked entries and has none in it."""
    if any(np.ma.is_masked(part) for part in _parts(value)):
        raise ValueError(f"{name} is an array with masked entries; accepted are arrays without")
    return value


def _parts(value):
    """What has a type of number of its own in a sequence of sequences, as arrays; or itself."""
    if _is_array(value):
        yield np.asanyarray(value)
    elif _is_sequence(value):
        for part in value:
            yield from _parts(part)


def _is_array(value):
    """Whether it is an array or a buffer, and so has one type of number."""
    with contextlib.suppress(TypeError):
        return hasattr(value, "__array__") or memoryview(value) is not None
    return False


def real(value, name):
    """`value` as a float64 array in C order: in another one, sums and functions have other bits."""
    with np.errstate(all="ignore"):  # what is no float becomes infinite, 0 or NaN
        return array(value, name).astype(float, order="C", copy=False)


def records(value, name, read=array, shape=None):
    """`value` as an array of records; what is masked or no number is NaN.

    An array of numbers stays as it is. In a sequence and in an array of objects each record is read
    by itself, as float64, so that none can change how another one is read. Those of a sequence have
    one shape; where it is given, another one makes a record of NaN. `read` knows the types of
    numbers.
    """
    listed, number = _is_sequence(value), complex if read is complex_array else float
    A = value if listed else np.asanyarray(value)
    if not listed and A.dtype.kind != "O":
        read(np.empty(0, A.dtype), name)  # a type that is refused is so whatever is masked
    with np.errstate(all="ignore"):
        if listed and shape is not None:
            A = np.stack([_record(part, name, number, shape) for part in value])
        elif listed or A.dtype.kind == "O" or np.ma.is_masked(A):
            A = _numbers(A, name, number)
    return read(np.ma.getdata(A), name)


def _record(value, name, number, shape):
    """A record of a sequence, or NaN where it has another shape or is none."""
    with contextlib.suppress(Exception):  # whatever an object says of itself
        if (A := _numbers(value, name, number)).shape == shape:
            return A
    return np.full(shape, np.nan, number)


def _numbers(value, name, number):
    """`value` as floats or complex numbers, NaN where there is none."""
    if _is_sequence(value):
        parts = [_numbers(part, name, number) for part in value]
        if len(shapes := {part.shape for part in parts}) > 1:
            raise ValueError(f"{name} is no array (it has parts of shapes {sorted(shapes)}); "
                             "accepted are records of one shape")
        return np.stack(parts)
    A = np.asanyarray(value)
    data, missing = np.ma.getdata(A), np.ma.getmaskarray(A)
    if data.dtype.kind == "O":
        data = np.vectorize(_converted, otypes=[number])(data, number)
    elif data.dtype.kind not in ("iufc" if number is complex else "iuf"):
        return np.full(data.shape, np.nan, number)
    return np.where(missing, number(math.nan), data.astype(number))


def _converted(entry, number):
    """An entry of an array of objects as a float or a complex; NaN where it is no number."""
    kinds = numbers.Complex if number is complex else (numbers.Real, decimal.Decimal)
    try:
        sound = isinstance(entry, kinds) and not isinstance(entry, (bool, np.bool_))
        return number(entry) if sound else math.nan
    except Exception:  # whatever an object says of itself
        return math.nan


def _is_sequence(value):
    """Whether it is a sequence that is no array, no text, and not empty."""
    listed = isinstance(value, Sequence) and not isinstance(value, str) and not _is_array(value)
    return listed and len(value) > 0


def finite(value, name, read=real):
    """`value` as a float64 array without NaN or infinity, or as the one that `read` makes."""
    A = read(value, name)
    if (index := first(~np.isfinite(A))) is not None:
        raise ValueError(f"{name}{at(index)} is {A[index]}; accepted are finite numbers")
    return A


def complex_array(value, name):
    """`value` as a complex array in C order."""
    A = np.asarray(unmasked(value, name))
    if A.dtype.kind not in "iufc":
        raise ValueError(f"{name} is an array of dtype {A.dtype}; accepted are complex numbers")
    with np.errstate(all="ignore"):
        return A.astype(complex, order="C", copy=False)


def of_numbers(kind):
    """What reads an array of numbers of this kind, float or complex."""
    return complex_array if kind is complex else array


def is_lazy(value):
    """Whether an array is one of dask, of which nobody asks for all at once."""
    return type(value).__module__.startswith("dask.array")


def first(bad):
    """Index of the first true entry, a tuple of ints, or None."""
    return tuple(map(int, np.unravel_index(bad.argmax(), bad.shape))) if bad.any() else None


def at(index):
    """The index as it stands behind a name: `[1, 0]`, or nothing for a single value."""
    return f"[{', '.join(map(str, index))}]" if index else ""


def renumbered(error, name, start):
    """The error of a part of `name` that begins at `start`, with the index in the whole."""
    return ValueError(
        re.sub(rf"^{name}\[(\d+)", lambda found: f"{name}[{int(found[1]) + start}", str(error)))
