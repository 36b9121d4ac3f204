"""Mechanisms: noise of a calibrated scale, and what a promise says of it."""

from typing import Literal

from .base import (Choice as Choice, GaussianNoise as GaussianNoise, Mechanism as Mechanism,
                   Noise as Noise, chosen as chosen, public_of as public_of)
from .curves import (CurveKNormGradient as CurveKNormGradient,
                     TruncatedCurveLoss as TruncatedCurveLoss)
from .densities import KNormGradient as KNormGradient, TruncatedLoss as TruncatedLoss
from .descent import NoisyDescent as NoisyDescent
from .gaussian import ClassicalGaussian as ClassicalGaussian, TangentGaussian as TangentGaussian
from .integers import DiscreteGaussian as DiscreteGaussian, DiscreteLaplace as DiscreteLaplace
from .l2 import L2Mechanism as L2Mechanism
from .laplace import RiemannianLaplace as RiemannianLaplace
from .lattice import LatticeLaplace as LatticeLaplace

# Names by which estimators know them, which editors complete: for means, and for curves.
MeanName = Literal["gaussian", "classical gaussian", "l2", "laplace", "discrete gaussian",
                   "discrete laplace", "k-norm gradient", "truncated loss"]
CurveName = Literal["truncated loss", "k-norm gradient", "noisy descent"]


def _by_name(*classes):
    return {each.name: each for each in classes}


MEANS = _by_name(TangentGaussian, ClassicalGaussian, L2Mechanism, RiemannianLaplace,
                 DiscreteGaussian, LatticeLaplace, KNormGradient, TruncatedLoss)
CURVES = _by_name(TruncatedCurveLoss, CurveKNormGradient, NoisyDescent)
