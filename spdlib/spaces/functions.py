"""Functions of curvature: entire ones, for which no sign of it is special, and two logarithms."""

import math

import numpy as np


def cosine(c):
    """cos √c, and cosh √-c where c < 0: how a Jacobi field goes on that starts at rest."""
    root = np.sqrt(np.abs(c))
    return np.cosh(root, out=np.asarray(np.cos(root)), where=np.less(c, 0))


def sinc(c):
    """sin √c / √c, and sinh √-c / √-c where c < 0: the one that starts at 0 with unit speed."""
    root = np.sqrt(np.abs(c))
    sine = np.sinh(root, out=np.asarray(np.sin(root)), where=np.less(c, 0))
    return np.divide(sine, root, out=np.ones(np.shape(c)), where=root > 0)


def log_sinc(t):
    """log|sin(t)/t|, at multiples of π that of the rounding of sin."""
    return np.log(np.abs(np.sinc(np.asarray(t) / math.pi)))


def log_sinhc(t):
    """log(sinh(t)/t) for t ≥ 0, where neither overflows."""
    t = np.asarray(t)
    positive = np.where(t > 0, t, 1)
    return np.where(t > 0, t + np.log(-np.expm1(-2 * positive) / (2 * positive)), 0)
