"""What the estimators share: parameters by name, how they are shown, when they shrink."""

import functools
import inspect
import math
import warnings
from typing import Any, Self

from .._checks import choice, flag
from ..accounting import fields, in_words, spending
from ..accounting.document import installed
from ..mechanisms import Noise
from ..mechanisms.refined import Refined
from ..queries import ClassSums
from ..spaces.ball import FoundBall


class Estimator:
    """Parameters are set by `__init__` and nothing else; what `fit` learns ends in `_`.

    `MOVED` says what replaces the arguments of earlier versions.
    """

    SUPERVISED = False  # whether `fit` cannot do without `y`
    MOVED = dict.fromkeys(("radius", "center", "space"), "ball=Ball(radius, center, space)")

    def get_params(self, deep: bool = True) -> dict:
        """The parameters, a dict, as scikit-learn expects."""
        return {name: getattr(self, name) for name in self._parameters()}

    def set_params(self, **parameters: Any) -> Self:
        """Set parameters by name; returns itself. ValueError for an unknown name.

        A parameter of an earlier version is refused, with the call that replaces it.
        """
        for name, value in parameters.items():
            if name in self.MOVED:
                self._refuse({name: value})
            setattr(self, choice(name, "parameter", self.get_params()), value)
        return self

    def __sklearn_tags__(self):
        """What scikit-learn asks of an estimator that it shows or checks."""
        from sklearn.utils import InputTags, Tags, TargetTags

        return Tags(estimator_type=None, target_tags=TargetTags(required=self.SUPERVISED),
                    input_tags=InputTags(two_d_array=False, three_d_array=True))

    def __repr__(self):
        parameters = self._parameters()
        given = (f"{name}={value!r}" for name, value in self.get_params().items()
                 if repr(value) != repr(parameters[name].default))
        return f"{type(self).__name__}({', '.join(given)})"

    @classmethod
    def _parameters(cls):
        parameters = inspect.signature(cls).parameters
        return {name: each for name, each in parameters.items() if each.kind != each.VAR_KEYWORD}

    def _refuse(self, moved):
        """ValueError for arguments of earlier versions, with the call that replaces them."""
        for name, value in moved.items():
            if name not in self.MOVED:
                raise TypeError(f"{type(self).__name__} has no argument {name!r}; accepted are "
                                f"{[*self._parameters()]}")
            raise ValueError(f"{name} is {value!r}; accepted in its place is {self.MOVED[name]}: "
                             f"{type(self).__name__}({', '.join(self._parameters())})")

    def _forget(self):
        """Remove what an earlier fit has left."""
        for name in [name for name in vars(self) if name.endswith("_")]:
            delattr(self, name)

    def _promise(self, words, mechanism, query, seeded):
        """Say what has made the release, and what it promises to whom: that is in the `words`."""
        if isinstance(getattr(query, "domain", None) or query.ball, FoundBall):
            words += "; another release has found that ball, at a price that comes on top"
        promise = f"({self.epsilon}, {self.delta})-differentially private{words}"
        if getattr(self, "shrink", False):
            promise += "; shrunk towards the centre of the ball, which costs no privacy"
        self.mechanism_ = mechanism
        self.privacy_ = in_words(promise, mechanism, query, seeded)


def named(mechanism):
    """The mechanism, if a document can hold its name; ValueError for another one."""
    fields.text(mechanism.name, "name")
    return mechanism


def paid(delta, mechanism, query, dim, rng, accountant, group):
    """What draws an answer of `dim` coordinates, once it is paid for.

    All that can be refused is refused here: nothing may be refused once it draws.
    """
    rng = mechanism.source(rng)
    warn_of_delta(delta, query.n)
    _warn_of_noise(mechanism, query)
    installed()  # which could fail
    with spending(accountant, mechanism, dim, group):
        draw = mechanism.prepared(query)
    pending = [functools.partial(draw, rng)]  # nothing keeps it once it has drawn
    return lambda: pending.pop()()


def warn_of_delta(delta, n, stacklevel=5):
    """Warn, by public numbers and before anything is spent, of a promise that is hardly one."""
    if delta * n >= 1:
        warnings.warn(
            f"delta is {delta!r} with n = {n} records; choose it far below 1/n, since publishing "
            "one record in n, unaltered, already satisfies delta = 1/n", stacklevel=stacklevel)


def _warn_of_noise(mechanism, query):
    """Warn in the same way of noise as long as the ball, the public one or one that is found."""
    if not isinstance(mechanism, (Noise, Refined)) or isinstance(query, ClassSums):
        return
    root = math.sqrt(query.space.dim)
    if isinstance(mechanism, Refined):
        length = root * float(mechanism.sigma(query.radius, query.n))
    else:
        length = root * getattr(mechanism, "sigma", root * getattr(mechanism, "scale", 0))
    if length >= query.radius:
        warnings.warn(
            f"the noise is {length:.3g} long, on average, and the radius of the ball "
            f"{query.radius:.3g}, so that the release says little of the records; take more of "
            "them, a smaller ball, a larger epsilon, or fewer coordinates", stacklevel=5)


def check_shrinks(shrink, query, mechanism):
    """ValueError for a release that is to be shrunk towards the centre where that may not help."""
    if flag(shrink, "shrink") and mechanism.law != "gaussian":
        raise ValueError(f"shrink is True; accepted is False with {mechanism.name!r}, whose noise "
                         "is not Gaussian")
    if shrink and not (query.space.flat and query.space.dim >= 3):
        raise ValueError(f"shrink is True; accepted is False on {query.space!r}, since only in "
                         "flat spaces of 3 dimensions and more is it known to be better")
