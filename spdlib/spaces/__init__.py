"""Spaces: the geometry of the data, and public balls in it."""

from .ball import Ball as Ball
from .base import Curved as Curved, Flat as Flat, Space as Space
from .flat import Euclidean as Euclidean, LogEuclidean as LogEuclidean, TangentSpace as TangentSpace
from .matrices import AffineInvariant as AffineInvariant
from .means import frechet_mean as frechet_mean
from .round import KendallPlanar as KendallPlanar, Sphere as Sphere
