"""Estimators: they release a mean, several means, a count or a curve, and say the promise."""

from .classes import PrivateClassMeans as PrivateClassMeans
from .count import private_clipped_count as private_clipped_count
from .mean import PrivateFrechetMean as PrivateFrechetMean
from .regression import (CurveError as CurveError, GeodesicRegression as GeodesicRegression,
                         PrivateGeodesicRegression as PrivateGeodesicRegression,
                         expected_curve_error as expected_curve_error)
from .spread import private_spread as private_spread
