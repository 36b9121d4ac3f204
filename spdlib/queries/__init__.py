"""Queries: what is asked of records, clipped to a public ball, and how far one record moves it."""

from .classes import ClassSums as ClassSums
from .curve import CurveQuery as CurveQuery
from .mean import (FrechetMean as FrechetMean, Mean as Mean, RunningMean as RunningMean,
                   check_flat as check_flat, frechet_sensitivity as frechet_sensitivity)
