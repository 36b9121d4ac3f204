"""What the estimators share: parameters by name, how they show, when they shrink."""

import inspect

from .._checks import choice, flag


class Estimator:
    """Parameters are set by `__init__` and nothing else; what `fit` learns ends in `_`.

    `MOVED` has for arguments of earlier versions what stands in their place.
    """

    MOVED = dict.fromkeys(("radius", "center", "space"), "ball=Ball(radius, center, space)")

    def get_params(self, deep: bool = True) -> dict:
        """The parameters, a dict, as scikit-learn expects."""
        return {name: getattr(self, name) for name in self._parameters()}

    def set_params(self, **parameters) -> "Estimator":
        """Set parameters by name; returns itself. ValueError for an unknown name."""
        for name, value in parameters.items():
            setattr(self, choice(name, "parameter", self.get_params()), value)
        return self

    def __sklearn_tags__(self):
        """What scikit-learn asks of an estimator that it shows or checks."""
        from sklearn.utils import InputTags, Tags, TargetTags

        return Tags(estimator_type=None, target_tags=TargetTags(required=False),
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
        """ValueError for arguments of earlier versions, with the call of today."""
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


def shrinks(shrink, query, mechanism):
    """Whether a release is shrunk towards the centre. ValueError where that may not help."""
    if flag(shrink, "shrink") and mechanism.law != "gaussian":
        raise ValueError(f"shrink is True; accepted is False with {mechanism.name!r}, whose noise "
                         "is not Gaussian")
    if shrink and not (query.space.flat and query.space.dim >= 3):
        raise ValueError(f"shrink is True; accepted is False on {query.space!r}, since only in "
                         "flat spaces of 3 dimensions and more is it known to be better")
    return shrink
