"""Differentially private Fréchet means of symmetric positive definite (SPD) matrices."""

from .frechet import PrivateFrechetMean
from .mechanisms import TangentGaussian
from .spd import distance_logeuclid, expm, invvecd, logm, mean_logeuclid, vecd

__all__ = ["PrivateFrechetMean", "TangentGaussian", "distance_logeuclid", "expm", "invvecd", "logm", "mean_logeuclid", "vecd"]
