"""Differentially private Fréchet means of symmetric positive definite (SPD) matrices."""

from .frechet import PrivateFrechetMean
from .mechanisms import L2Mechanism, RiemannianLaplace, TangentGaussian
from .spd import distance_logeuclid, expm, invvecd, logm, mean_logeuclid, vecd

__all__ = ["L2Mechanism", "PrivateFrechetMean", "RiemannianLaplace", "TangentGaussian", "distance_logeuclid", "expm", "invvecd",
           "logm", "mean_logeuclid", "vecd"]
