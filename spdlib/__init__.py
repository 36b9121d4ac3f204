"""Differentially private means and geodesics of symmetric positive definite (SPD) matrices, and on
other spaces.
"""

from .accounting import BudgetAccountant, Release
from .class_means import PrivateClassMeans
from .densities import KNormGradient, TruncatedLoss
from .discrete import DiscreteGaussian
from .frechet import FrechetMean, frechet_mean, frechet_sensitivity
from .mechanisms import L2Mechanism, RiemannianLaplace, TangentGaussian
from .planning import expected_error, plan, records_needed
from .private_mean import PrivateFrechetMean
from .private_regression import PrivateGeodesicRegression
from .regression import GeodesicRegression
from .spaces import (
                     AffineInvariant,
                     Euclidean,
                     KendallPlanar,
                     LogEuclidean,
                     Sphere,
                     TangentSpace,
)
from .spd import (
                  ball_from_bounds,
                  distance_logeuclid,
                  expm,
                  invvecd,
                  logm,
                  mean_logeuclid,
                  powm,
                  random_spd,
                  vecd,
)

__version__ = "0.7.0"

__all__ = ["AffineInvariant", "BudgetAccountant", "DiscreteGaussian", "Euclidean", "FrechetMean",
           "GeodesicRegression", "KNormGradient", "KendallPlanar", "L2Mechanism", "LogEuclidean",
           "PrivateClassMeans", "PrivateFrechetMean", "PrivateGeodesicRegression", "Release",
           "RiemannianLaplace", "Sphere", "TangentGaussian", "TangentSpace", "TruncatedLoss",
           "ball_from_bounds", "distance_logeuclid", "expected_error", "expm", "frechet_mean",
           "frechet_sensitivity", "invvecd", "logm", "mean_logeuclid", "plan", "powm", "random_spd",
           "records_needed", "vecd"]
