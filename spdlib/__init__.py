"""Differentially private means and geodesics of symmetric positive definite (SPD) matrices, and on
other spaces.
"""

from .accounting import BudgetAccountant as BudgetAccountant
from .accounting import Release as Release
from .estimators import PrivateClassMeans as PrivateClassMeans
from .estimators import PrivateFrechetMean as PrivateFrechetMean
from .estimators import PrivateGeodesicRegression as PrivateGeodesicRegression
from .estimators import expected_curve_error as expected_curve_error
from .estimators import private_clipped_count as private_clipped_count
from .mechanisms import ClassicalGaussian as ClassicalGaussian
from .mechanisms import CurveKNormGradient as CurveKNormGradient
from .mechanisms import DiscreteGaussian as DiscreteGaussian
from .mechanisms import KNormGradient as KNormGradient
from .mechanisms import L2Mechanism as L2Mechanism
from .mechanisms import NoisyDescent as NoisyDescent
from .mechanisms import RiemannianLaplace as RiemannianLaplace
from .mechanisms import TangentGaussian as TangentGaussian
from .mechanisms import TruncatedCurveLoss as TruncatedCurveLoss
from .mechanisms import TruncatedLoss as TruncatedLoss
from .planning import expected_error as expected_error
from .planning import plan as plan
from .planning import records_needed as records_needed
from .queries import FrechetMean as FrechetMean
from .queries import frechet_sensitivity as frechet_sensitivity
from .regression import GeodesicRegression as GeodesicRegression
from .spaces import AffineInvariant as AffineInvariant
from .spaces import Ball as Ball
from .spaces import Euclidean as Euclidean
from .spaces import KendallPlanar as KendallPlanar
from .spaces import LogEuclidean as LogEuclidean
from .spaces import Sphere as Sphere
from .spaces import TangentSpace as TangentSpace
from .spaces import frechet_mean as frechet_mean
from .spd import distance_logeuclid as distance_logeuclid
from .spd import expm as expm
from .spd import invvecd as invvecd
from .spd import logm as logm
from .spd import mean_logeuclid as mean_logeuclid
from .spd import powm as powm
from .spd import random_spd as random_spd
from .spd import vecd as vecd

__version__ = "0.8.0"
