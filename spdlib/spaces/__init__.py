"""Spaces: the geometry of the data, and public balls in it."""

from .ball import Ball as Ball
from .base import Curved as Curved
from .base import Flat as Flat
from .base import Space as Space
from .flat import Euclidean as Euclidean
from .flat import LogEuclidean as LogEuclidean
from .flat import TangentSpace as TangentSpace
from .matrices import AffineInvariant as AffineInvariant
from .means import frechet_mean as frechet_mean
from .round import KendallPlanar as KendallPlanar
from .round import Sphere as Sphere
