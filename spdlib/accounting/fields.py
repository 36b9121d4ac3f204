"""How documents are written and read: as JSON, and strictly.

A document is a dataclass of which every field has a reader, a function of a value and its name that
returns what it stands for or raises a ValueError. What is missing, unknown or there twice is
refused.
"""

import contextlib
import dataclasses
import functools
import json
from collections.abc import Callable, Collection
from typing import Any

import numpy as np

from .._checks import TINY, number

Reader = Callable[[Any, str], Any]


def must(reader: Reader, **default) -> Any:
    """A field without which there is no document."""
    return dataclasses.field(metadata={"read": reader}, **default)


may = functools.partial(must, default=None)  # a field that may be missing, and is None then


class Document:
    """What all documents share. Arrays are copies that nobody can write to; so are those of a copy.

    Two of them are equal if they are written alike.
    """

    def __post_init__(self):
        for name, value in vars(self).items():
            if isinstance(value, np.ndarray):
                vars(self)[name] = np.array(value)
                vars(self)[name].flags.writeable = False

    def __setstate__(self, state):  # of a copy or a pickle, whose arrays are new
        vars(self).update(state)
        self.__post_init__()

    def __eq__(self, other):
        return isinstance(other, type(self)) and json.dumps(plain(self)) == json.dumps(plain(other))


def plain(value: Any) -> Any:
    """A value as JSON knows it: of an array, nested lists; of a document, the fields that it has.

    An array of complex numbers is a dict of two, "real" and "imag".
    """
    if isinstance(value, np.ndarray):
        parts = {"real": value.real.tolist(), "imag": value.imag.tolist()}
        return parts if value.dtype.kind == "c" else value.tolist()
    if isinstance(value, Document):
        present = {field.name: getattr(value, field.name) for field in dataclasses.fields(value)}
        value = {name: each for name, each in present.items() if each is not None}
    if isinstance(value, dict):
        return {name: plain(each) for name, each in value.items()}
    return [plain(each) for each in value] if isinstance(value, tuple) else value


def json_of(text: str) -> Any:
    """What the text of a document holds. ValueError for no JSON, and for a name that stands twice.

    Of two values under one name one reader would take the first and another one the last.
    """

    def once(pairs):
        names = [name for name, _ in pairs]
        if twice := {name for name in names if names.count(name) > 1}:
            raise ValueError(f"{sorted(twice)} stands there twice")
        return dict(pairs)

    try:
        return json.loads(text, object_pairs_hook=once)
    except RecursionError:
        raise ValueError("it is nested too deeply") from None


def headed(content: Any, schema: str, *versions: int) -> tuple[int, dict]:
    """The version of a document and its fields. ValueError for another schema or version."""
    content = dict(named(content, "document"))
    found, version = content.pop("schema", None), content.pop("version", None)
    if found != schema or type(version) is not int or version not in versions:
        raise ValueError(f"document has the schema {found!r}, version {version!r}; accepted is "
                         f"{schema!r}, version {' or '.join(map(str, versions))}")
    return version, content


def named(content: Any, name: str, needed: Collection[str] = (),
          known: Collection[str] | None = None) -> dict:
    """`content`, if it is a dict that has the needed names, and only those that are known."""
    if not isinstance(content, dict):
        raise ValueError(f"{name} is {content!r}; accepted is a dict")
    if missing := sorted(set(needed) - set(content)):
        raise ValueError(f"{name} lacks {missing}; accepted is one with all fields")
    if unknown := sorted(set(content) - set(content if known is None else known), key=str):
        raise ValueError(f"{name} has {unknown}; accepted are no other fields than {(*known,)}")
    return content


def read(kind: type, content: Any, name: str = "document") -> Any:
    """The document of this kind that a dict holds. ValueError where it holds none."""
    known = {field.name: field for field in dataclasses.fields(kind)}
    needed = [key for key, field in known.items() if field.default is dataclasses.MISSING]
    named(content, name, needed, known)
    return kind(**{key: known[key].metadata["read"](each, key) for key, each in content.items()})


epsilon = functools.partial(number, low=1e-6, high=1e3, accepted="numbers from 1e-6 to 1e3")
delta = functools.partial(number, low=1e-300, high=0.5, also=0,
                          accepted="0 and numbers from 1e-300 to 1/2")
finite = functools.partial(number, low=-1e308, high=1e308, accepted="finite numbers")
size = functools.partial(number, low=0, high=1e308, accepted="finite numbers from 0 on")
share = functools.partial(number, low=TINY, high=1, accepted="numbers above 0 up to 1")


def writable(text: Any) -> bool:
    """Whether it is a str that UTF-8 can write: one without half of a surrogate pair."""
    return isinstance(text, str) and not any("\ud800" <= letter <= "\udfff"
                                             for letter in str.__str__(text))


def text(value: str, name: str) -> str:
    """`value`, if it is a str that UTF-8 can write, and not empty."""
    if not writable(value) or not value:
        raise ValueError(f"{name} is {value!r}; accepted is a str that UTF-8 can write, not empty")
    return value


def dict_of(reader: Reader) -> Reader:
    """A reader of a dict from texts to what `reader` reads."""
    return lambda value, name: {
        text(key, name): reader(each, f"{name}[{key!r}]")
        for key, each in named(value, name).items()
    }


def array(value: list, name: str) -> np.ndarray:
    """The array that was listed; every entry a finite real number."""
    with contextlib.suppress(OverflowError, TypeError, ValueError):
        listed = np.array(value, dtype=object)  # no bool and no str becomes a number
        made, kinds = listed.astype(float), {*map(type, listed.ravel())}
        if isinstance(value, list) and kinds <= {int, float} and np.isfinite(made).all():
            if (made == listed).all():
                return made
    raise ValueError(f"{name} is {value!r}; accepted are nested lists of finite numbers")


def point(value: list | dict, name: str) -> np.ndarray:
    """The array that was listed, or one of complex numbers in two parts."""
    if not isinstance(value, dict) or set(value) != {"real", "imag"}:
        return array(value, name)
    real, imag = array(value["real"], name), array(value["imag"], name)
    if real.shape != imag.shape:
        raise ValueError(f"{name} has parts of shapes {real.shape} and {imag.shape}; accepted are "
                         "two of one shape")
    return np.stack([real, imag], axis=-1).view(complex)[..., 0]
