"""What the estimators share: parameters by name, how they show, what scikit-learn asks of them."""

import inspect

from ._checks import choice


class Estimator:
    """Parameters are set by `__init__` and nothing else; what `fit` learns ends in `_`."""

    def get_params(self, deep=True):
        """The parameters, a dict, as scikit-learn expects."""
        return {name: getattr(self, name) for name in inspect.signature(type(self)).parameters}

    def set_params(self, **parameters):
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
        parameters = inspect.signature(type(self)).parameters
        given = (f"{name}={value!r}" for name, value in self.get_params().items()
                 if repr(value) != repr(parameters[name].default))
        return f"{type(self).__name__}({', '.join(given)})"

    def _forget(self):
        """Remove what an earlier fit has left."""
        for name in [name for name in vars(self) if name.endswith("_")]:
            delattr(self, name)
