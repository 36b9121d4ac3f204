"""Differentially private Fréchet means: of symmetric positive definite (SPD) matrices, and on
other spaces.
"""

from .densities import KNormGradient, TruncatedLoss
from .frechet import FrechetMean, PrivateFrechetMean, frechet_mean, frechet_sensitivity
from .mechanisms import L2Mechanism, RiemannianLaplace, TangentGaussian
from .planning import expected_error, plan, records_needed
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

__version__ = "0.4.0"

__all__ = ["AffineInvariant", "Euclidean", "FrechetMean", "KNormGradient", "KendallPlanar",
           "L2Mechanism", "LogEuclidean", "PrivateFrechetMean", "RiemannianLaplace", "Sphere",
           "TangentGaussian", "TangentSpace", "TruncatedLoss", "ball_from_bounds",
           "distance_logeuclid", "expected_error", "expm", "frechet_mean", "frechet_sensitivity",
           "invvecd", "logm", "mean_logeuclid", "plan", "powm", "random_spd", "records_needed",
           "vecd"]
