"""Differentially private means and geodesics of symmetric positive definite (SPD) matrices, and on
other spaces.
"""

from ._kernel import kernel_path
from .accounting import BudgetAccountant, Release
from .estimators import (GeodesicRegression, PrivateClassMeans, PrivateFrechetMean,
                         PrivateGeodesicRegression, expected_curve_error, private_clipped_count,
                         private_spread)
from .mechanisms import (ClassicalGaussian, CurveKNormGradient, DiscreteGaussian, KNormGradient,
                         L2Mechanism, LatticeLaplace, NoisyDescent, RiemannianLaplace,
                         TangentGaussian, TruncatedCurveLoss, TruncatedLoss)
from .planning import expected_error, plan, records_needed
from .queries import FrechetMean, frechet_sensitivity
from .spaces import (AffineInvariant, Ball, Euclidean, KendallPlanar, LogEuclidean, Sphere,
                     TangentSpace, frechet_mean)
from .spd import distance_logeuclid, expm, invvecd, logm, mean_logeuclid, powm, random_spd, vecd

__all__ = [
    "AffineInvariant", "Ball", "BudgetAccountant", "ClassicalGaussian", "CurveKNormGradient",
    "DiscreteGaussian", "Euclidean", "FrechetMean", "GeodesicRegression", "KNormGradient",
    "KendallPlanar", "L2Mechanism", "LatticeLaplace", "LogEuclidean", "NoisyDescent",
    "PrivateClassMeans", "PrivateFrechetMean", "PrivateGeodesicRegression", "Release",
    "RiemannianLaplace", "Sphere", "TangentGaussian", "TangentSpace", "TruncatedCurveLoss",
    "TruncatedLoss", "distance_logeuclid", "expected_curve_error", "expected_error", "expm",
    "frechet_mean", "frechet_sensitivity", "invvecd", "kernel_path", "logm", "mean_logeuclid",
    "plan", "powm", "private_clipped_count", "private_spread", "random_spd", "records_needed",
    "vecd"
]
__version__ = "0.8.0"
