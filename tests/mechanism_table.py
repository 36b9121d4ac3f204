"""The mechanisms that estimators know by name: classes, and the options that tests need."""

from types import SimpleNamespace
from typing import NamedTuple

from spdlib import (ClassicalGaussian, CurveKNormGradient, DiscreteGaussian, KNormGradient,
                    L2Mechanism, LatticeLaplace, NoisyDescent, RiemannianLaplace, TangentGaussian,
                    TruncatedCurveLoss, TruncatedLoss)
from spdlib.mechanisms import Choice, Noise


class Row(NamedTuple):
    """A class, and options without which it is not made: lengths, in radii of the ball."""

    kind: type
    options: dict = {}

    def choice(self, radius=1.0) -> Choice:
        """The mechanism with these options, for records in a ball of this radius."""
        return self.kind.with_options(
            **{name: share * radius for name, share in self.options.items()})

    def delta(self, delta):
        """The δ of a promise: this one, or 0 where the mechanism is pure."""
        return 0 if self.kind.pure else delta


MEANS = {
    "gaussian": Row(TangentGaussian),
    "classical gaussian": Row(ClassicalGaussian),
    "l2": Row(L2Mechanism),
    "laplace": Row(RiemannianLaplace),
    "discrete gaussian": Row(DiscreteGaussian),
    "discrete laplace": Row(LatticeLaplace),
    "k-norm gradient": Row(KNormGradient),
    "truncated loss": Row(TruncatedLoss, {"clip": 1.0}),
}
CURVES = {
    "truncated loss": Row(TruncatedCurveLoss, {"clip": 0.3}),
    "k-norm gradient": Row(CurveKNormGradient, {"clip": 0.3}),
    "noisy descent": Row(NoisyDescent),
}
DENSITIES = [name for name, row in MEANS.items() if row.kind.each]
NOISES = [name for name, row in MEANS.items()  # in real numbers, that is added to coordinates
          if issubclass(row.kind, Noise) and not row.kind.exact]


def noise(name, sensitivity=0.2, epsilon=0.5, delta=1e-5, d=6):
    """Noise of this name for answers in R^d of this sensitivity."""
    query = SimpleNamespace(sensitivity=sensitivity, chart_sensitivity=sensitivity,
                            space=SimpleNamespace(dim=d, flat=True))
    row = MEANS[name]
    return row.kind.of(query, epsilon, row.delta(delta))
