"""Noise of the Gaussian mechanism and what it buys: sigma, (epsilon, delta) and mu, each rounded to the safe side.

A query of sensitivity Delta under noise N(0, sigma^2 I) has mu = Delta / sigma, and is (epsilon, delta)-DP exactly when

    delta  >=  Phi(mu/2 - epsilon/mu) - e^epsilon Phi(-mu/2 - epsilon/mu)

(Balle and Wang 2018, Theorem 8; the paper's Theorem 2.2 with the sign inside the second Phi repaired). With
x = epsilon/mu - mu/2, y = x + mu and Mills' ratio R(t) = Phi(-t)/phi(t), the two terms are phi(x) R(x) and phi(x) R(y),
because y^2 - x^2 = 2 epsilon. So the right side is phi(x) (R(x) - R(y)): no power of e is left to overflow or cancel.
"""

import math
import numbers

import numpy as np
from scipy.optimize import brentq
from scipy.special import erfcx

TINY, HUGE = math.ulp(0.0), float(np.finfo(float).max)

# SLACK goes on top of every log delta that is used: more than ten times what rounding can take from it. In units of
# u = 2^-53, with x <= 39, y <= 60 and R good to 10 u (130 u at -9, where nothing cancels): -x^2/2 loses 2e3 u;
# 1 - t R(t) > 1/(3 + t^2) loses 2e4 u where it is integrated, else R(x) - R(y) > R(x)/42 loses 8e2 u; x may be off
# by (x + y) u, which R(y) (3 + y^2) < 61 makes 6e3 u; mu and sigma may be off by 6 u, which 3 + y^2 makes 2e4 u. With
# 3e-12 for the place in x where brentq stops, the sum is below 9e-12.
SLACK = 1e-10

_NODES, _WEIGHTS = np.polynomial.legendre.leggauss(8)
_NODES, _WEIGHTS = (1 + _NODES) / 2, _WEIGHTS / 2


def _checked(name, value, low, high, accepted, also=None):
    """The value as a float, if it is a real number in [low, high] or equals `also`; else ValueError."""
    try:
        real = isinstance(value, numbers.Real) and not isinstance(value, bool)
        number = float(value) if real else math.nan  # before comparing: np.float32 would round low and high
    except OverflowError:  # an int beyond the floats
        number = math.inf
    if not (low <= number <= high or number == also):
        raise ValueError(f"{name}: got {value!r}; accepted: {accepted}")
    return number


def _positive(name, value):
    return _checked(name, value, TINY, HUGE, "a finite number above 0")


def _epsilon(value):
    return _checked("epsilon", value, 1e-6, 1e3, "a number from 1e-6 to 1e3")


def _delta(value):
    return _checked("delta", value, 1e-300, 0.5, "a number from 1e-300 to 1/2")


def _mills(t):
    """Mills' ratio R(t) = Phi(-t)/phi(t), the shape of t."""
    return math.sqrt(math.pi / 2) * erfcx(math.sqrt(0.5) * t)


def _log_delta(x, mu):
    """log of phi(x) (R(x) - R(x + mu)) to within SLACK, for x in [-9, 39] and mu >= -2x, mu > 0.

    R' = t R - 1, so R(x) - R(y) is the integral of 1 - t R(t). For mu < 1 the difference would cancel and the integral
    is taken by eight Gauss-Legendre nodes. The integrand is the integral of s e^(-ts - s^2/2) over s > 0, so its 16th
    derivative is positive and falls with t, and the error term of the rule is below 3e-15 of the value at x >= -1/2.
    """
    if mu < 1:
        t = x + mu * _NODES
        log_drop = math.log(mu) + math.log(_WEIGHTS @ (1 - t * _mills(t)))
    else:
        log_drop = math.log(_mills(x) - _mills(x + mu))
    return log_drop - x * x / 2 - math.log(2 * math.pi) / 2


def _mu(sensitivity, sigma):
    """sensitivity / sigma rounded up (more mu is less privacy); it may be infinite, never 0."""
    return math.nextafter(_positive("sensitivity", sensitivity) / _positive("sigma", sigma), math.inf)


def _scale(sensitivity, factor):
    """sensitivity * factor rounded up."""
    sigma = math.nextafter(sensitivity * factor, math.inf)
    if sigma == math.inf:
        raise ValueError(f"sensitivity: got {sensitivity!r}; accepted: below {HUGE / factor:.4g}, for a finite sigma")
    return sigma


def sigma_classical(sensitivity, epsilon, delta):
    """sigma = Delta sqrt(2 ln(1.25/delta)) / epsilon, a float in the unit of the sensitivity, rounded up.

    The paper's Theorem 2.1 (Dwork and Roth 2014, Theorem A.1), stated for epsilon in (0, 1) only. ValueError for
    epsilon outside [1e-6, 1), delta outside [1e-300, 1/2], a sensitivity that is not finite and positive, a sigma that
    overflows.
    """
    sensitivity, delta = _positive("sensitivity", sensitivity), _delta(delta)
    epsilon = _checked("epsilon", epsilon, 1e-6, math.nextafter(1, 0), "1e-6 to below 1, where Theorem 2.1 is stated")
    return _scale(sensitivity, math.sqrt(2 * math.log(1.25 / delta)) / epsilon * (1 + 1e-15))  # rounding: below 6e-16


def sigma_analytic(sensitivity, epsilon, delta):
    """The smallest sigma that gives (epsilon, delta)-DP, a float in the unit of the sensitivity, rounded up.

    The paper's Theorem 2.2 as repaired (Balle and Wang 2018, Theorem 8). Less than 1e-9 of itself above the exact
    value. ValueError for epsilon outside [1e-6, 1e3], delta outside [1e-300, 1/2], a sensitivity that is not finite and
    positive, a sigma that overflows.
    """
    return _scale(_positive("sensitivity", sensitivity), 1 / gdp_mu(epsilon, delta))


def gdp_mu(epsilon, delta):
    """The largest mu for which mu-GDP implies (epsilon, delta)-DP, a float, rounded down.

    Dong, Roth and Su 2022, Corollary 1; the Gaussian mechanism is mu-GDP with mu = sensitivity / sigma. Less than
    1e-9 of itself below the exact value. ValueError for epsilon outside [1e-6, 1e3] or delta outside [1e-300, 1/2].

    The root is sought in x, where mu = y - x and y = sqrt(x^2 + 2 epsilon). At x = 39, delta <= Phi(-39) < 1e-300. At
    x = -1, mu >= 2 and delta >= Phi(1) - Phi(-1) > 1/2. Between them log delta falls; it moves at least 0.85 times as
    fast as log mu, so that 2 SLACK cost mu less than 2.4e-10.
    """
    epsilon, delta = _epsilon(epsilon), _delta(delta)
    target = math.log(delta) - 2 * SLACK  # twice, so that gaussian_delta and gaussian_epsilon keep below what was asked

    def mu(x):
        y = math.hypot(x, math.sqrt(2 * epsilon))
        return y - x if x < 0 else 2 * epsilon / (y + x)

    return mu(brentq(lambda x: _log_delta(x, mu(x)) - target, -1.0, 39.0, xtol=1e-15))


def gaussian_delta(sigma, epsilon, sensitivity=1.0):
    """The smallest delta of the Gaussian mechanism at epsilon, a float in (0, 1], rounded up.

    The paper's Theorem 2.2 as repaired (Balle and Wang 2018, Theorem 8). Less than 2e-10 of itself, or 1e-323, above
    the exact value, and never 0: at least the smallest positive float. Sigma is in the unit of the sensitivity.
    ValueError for an epsilon neither 0 nor in [1e-6, 1e3], a sigma or sensitivity that is not finite and positive.
    """
    mu = _mu(sensitivity, sigma)
    epsilon = _checked("epsilon", epsilon, 1e-6, 1e3, "0 or a number from 1e-6 to 1e3", also=0)
    # Above 39 delta is below TINY, and at 39 too; below -9 it is 1 to within 3e-19, and SLACK takes it to 1.
    x = min(max(epsilon / mu - mu / 2, -9.0), 39.0)
    return min(math.nextafter(math.exp(_log_delta(x, mu) + SLACK), math.inf), 1.0)


def gaussian_epsilon(sigma, delta, sensitivity=1.0):
    """The smallest epsilon >= 0 of the Gaussian mechanism at delta, a float, rounded up.

    The inverse of `gaussian_delta`. Less than 1e-9 (epsilon + mu) above the exact value, with mu = sensitivity / sigma.
    Sigma is in the unit of the sensitivity. ValueError for delta outside [1e-300, 1/2], a sigma or sensitivity that is
    not finite and positive, a mu that is not below 1e154.
    """
    mu, target = _mu(sensitivity, sigma), math.log(_delta(delta))
    mu = _checked("sensitivity / sigma", mu, TINY, 1e154, "below 1e154, for a finite epsilon")

    def excess(x):
        return _log_delta(x, mu) + SLACK - target

    low = max(-mu / 2, -1.0)  # epsilon = 0, or if mu > 2 a place where delta > 1/2; at 39 delta < 1e-300, as in gdp_mu
    if excess(low) <= 0:
        return 0.0
    x = brentq(excess, low, 39.0, xtol=1e-15)
    return mu * (x + mu / 2) * (1 + 1e-15)  # three roundings are below 1e-15; at a large mu SLACK is below them
