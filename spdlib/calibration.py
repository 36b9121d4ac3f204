"""Scales of noise and what they buy: sigma, (epsilon, delta) and mu, each rounded to the safe side.

A query of sensitivity Delta under noise N(0, sigma^2 I) has mu = Delta / sigma, and is (epsilon,
delta)-DP exactly when

    delta  >=  Phi(mu/2 - epsilon/mu) - e^epsilon Phi(-mu/2 - epsilon/mu)

(Balle and Wang 2018, Theorem 8; the paper's Theorem 2.2 with the sign inside the second Phi
repaired). With x = epsilon/mu - mu/2, y = x + mu and Mills' ratio R(t) = Phi(-t)/phi(t), the two
terms are phi(x) R(x) and phi(x) R(y), because y^2 - x^2 = 2 epsilon. So the right side is phi(x)
(R(x) - R(y)): no power of e is left to overflow or cancel.

Under noise of density exp(-|x|/s) on R^d, the "l2 mechanism" (Joseph, Kulesza and Yu 2025), the
worst shift is as long as Delta. With alpha = Delta/2s the privacy loss is then 2 alpha cos(phi),
bounded, and phi on [0, pi] has the density

    w(phi) = e^(alpha cos(phi)) sin(phi)^(d-2) (sin(phi)^2 + r) / z,
    r = (d-1) K_(v+1)(alpha) / (alpha K_v(alpha)),

where v = d/2 - 1 and z = sqrt(pi) (2/alpha)^v Gamma(v + 1/2) (d-1) / (alpha^2 K_v(alpha)): elliptic
coordinates about the two foci, and the Wronskian of I_v and K_v. So delta is the integral of w (1 -
e^(epsilon - 2 alpha cos(phi))) over the phi where that is positive. For d = 1 it is 1 -
e^(epsilon/2 - alpha).
"""

import math

import numpy as np
from scipy.optimize import brentq
from scipy.special import erfcx, kve

from ._checks import HUGE, TINY, integer, number, positive

# SLACK goes on top of every log delta that is used: more than ten times what rounding can take from
# it. In units of u = 2^-53, with x <= 39, y <= 60 and R good to 10 u (130 u at -9, where nothing
# cancels): -x^2/2 loses 2e3 u; 1 - t R(t) > 1/(3 + t^2) loses 2e4 u where it is integrated, else
# R(x) - R(y) > R(x)/42 loses 8e2 u; x may be off by (x + y) u, which R(y) (3 + y^2) < 61 makes 6e3
# u; mu and sigma may be off by 6 u, which 3 + y^2 makes 2e4 u. With 3e-12 for the place in x where
# brentq stops, the sum is below 9e-12.
SLACK = 1e-10

_NODES, _WEIGHTS = np.polynomial.legendre.leggauss(8)
_NODES, _WEIGHTS = (1 + _NODES) / 2, _WEIGHTS / 2
_L2_NODES, _L2_WEIGHTS = np.polynomial.legendre.leggauss(20)


def _epsilon(value):
    return number(value, "epsilon", 1e-6, 1e3, "numbers from 1e-6 to 1e3")


def _delta(value):
    accepted = "numbers from 1e-300 to 1/2"
    if np.ndim(value) == 0 and value == 0:
        accepted += '; 0, a pure promise, is that of Laplace noise (mechanism="laplace")'
    return number(value, "delta", 1e-300, 0.5, accepted)


def _dimension(value):
    return integer(value, "d", 1, 5050)  # k = 100


def _mills(t):
    """Mills' ratio R(t) = Phi(-t)/phi(t), the shape of t."""
    return math.sqrt(math.pi / 2) * erfcx(math.sqrt(0.5) * t)


def _log_delta(x, mu):
    """log of phi(x) (R(x) - R(x + mu)) to within SLACK, for x in [-9, 39] and mu >= -2x, mu > 0.

    R' = t R - 1, so R(x) - R(y) is the integral of 1 - t R(t). For mu < 1 the difference would
    cancel and the integral is taken by eight Gauss-Legendre nodes. The integrand is the integral of
    s e^(-ts - s^2/2) over s > 0, so its 16th derivative is positive and falls with t, and the error
    term of the rule is below 3e-15 of the value at x >= -1/2.
    """
    if mu < 1:
        t = x + mu * _NODES
        log_drop = math.log(mu) + math.log(_WEIGHTS @ (1 - t * _mills(t)))
    else:
        log_drop = math.log(_mills(x) - _mills(x + mu))
    return log_drop - x * x / 2 - math.log(2 * math.pi) / 2


def _mu(sensitivity, sigma, name="sigma"):
    """sensitivity / sigma rounded up (more mu is less privacy); it may be infinite, never 0."""
    return math.nextafter(positive(sensitivity, "sensitivity") / positive(sigma, name), math.inf)


def _rounded_up(sensitivity, factor):
    """sensitivity * factor, the scale of a noise, rounded up."""
    scale = math.nextafter(sensitivity * factor, math.inf)
    if scale == math.inf:
        raise ValueError(f"sensitivity is {sensitivity!r}; accepted are numbers below "
                         f"{HUGE / factor:.4g}, for a finite scale of the noise")
    return scale


def sigma_classical(sensitivity, epsilon, delta):
    """sigma = Delta sqrt(2 ln(1.25/delta)) / epsilon, in the sensitivity's unit, rounded up.

    The paper's Theorem 2.1 (Dwork and Roth 2014, Theorem A.1), stated for epsilon in (0, 1) only.
    ValueError for epsilon outside [1e-6, 1), delta outside [1e-300, 1/2], a sensitivity that is not
    finite and positive, a sigma that overflows.
    """
    sensitivity, delta = positive(sensitivity, "sensitivity"), _delta(delta)
    epsilon = number(epsilon, "epsilon", 1e-6, math.nextafter(1, 0),
                     "numbers from 1e-6 to below 1, where Theorem 2.1 is stated")
    factor = math.sqrt(2 * math.log(1.25 / delta)) / epsilon
    return _rounded_up(sensitivity, factor * (1 + 1e-15))  # rounding is below 6e-16


def sigma_analytic(sensitivity, epsilon, delta):
    """The smallest sigma that gives (epsilon, delta)-DP, in the sensitivity's unit, rounded up.

    The paper's Theorem 2.2 as repaired (Balle and Wang 2018, Theorem 8). Less than 1e-9 of itself
    above the exact value. ValueError for epsilon outside [1e-6, 1e3], delta outside [1e-300, 1/2],
    a sensitivity that is not finite and positive, a sigma that overflows.
    """
    return _rounded_up(positive(sensitivity, "sensitivity"), 1 / gdp_mu(epsilon, delta))


def laplace_scale(sensitivity, epsilon):
    """The scale sensitivity/epsilon of noise with density exp(-|x|/scale), rounded up: epsilon-DP.

    In the unit of the sensitivity; for a flat space, where the constant of the density is the same
    everywhere. ValueError for epsilon outside [1e-6, 1e3], a sensitivity that is not finite and
    positive, a scale that overflows.
    """
    return _rounded_up(positive(sensitivity, "sensitivity"), 1 / _epsilon(epsilon) * (1 + 1e-15))


def gdp_mu(epsilon, delta):
    """The largest mu for which mu-GDP implies (epsilon, delta)-DP, a float, rounded down.

    Dong, Roth and Su 2022, Corollary 1; the Gaussian mechanism is mu-GDP with mu = sensitivity /
    sigma. Less than 1e-9 of itself below the exact value. ValueError for epsilon outside [1e-6,
    1e3] or delta outside [1e-300, 1/2].

    The root is sought in x, where mu = y - x and y = sqrt(x^2 + 2 epsilon). At x = 39, delta <=
    Phi(-39) < 1e-300. At x = -1, mu >= 2 and delta >= Phi(1) - Phi(-1) > 1/2. Between them log
    delta falls; it moves at least 0.85 times as fast as log mu, so that 2 SLACK cost mu less than
    2.4e-10.
    """
    epsilon, delta = _epsilon(epsilon), _delta(delta)
    target = math.log(delta) - 2 * SLACK  # twice: the inverses keep below what was asked

    def mu(x):
        y = math.hypot(x, math.sqrt(2 * epsilon))
        return y - x if x < 0 else 2 * epsilon / (y + x)

    return mu(brentq(lambda x: _log_delta(x, mu(x)) - target, -1.0, 39.0, xtol=1e-15))


def gaussian_delta(sigma, epsilon, sensitivity=1.0):
    """The smallest delta of the Gaussian mechanism at epsilon, a float in (0, 1], rounded up.

    The paper's Theorem 2.2 as repaired (Balle and Wang 2018, Theorem 8). Less than 2e-10 of itself,
    or 1e-323, above the exact value, and never 0: at least the smallest positive float. Sigma is in
    the unit of the sensitivity. ValueError for an epsilon neither 0 nor in [1e-6, 1e3], a sigma or
    sensitivity that is not finite and positive.
    """
    mu = _mu(sensitivity, sigma)
    epsilon = number(epsilon, "epsilon", 1e-6, 1e3, "0 and numbers from 1e-6 to 1e3", also=0)
    # Above 39 delta is below TINY, and at 39 too; below -9 it is 1 to within 3e-19, and SLACK takes
    # it to 1.
    x = min(max(epsilon / mu - mu / 2, -9.0), 39.0)
    return min(math.nextafter(math.exp(_log_delta(x, mu) + SLACK), math.inf), 1.0)


def gaussian_epsilon(sigma, delta, sensitivity=1.0):
    """The smallest epsilon >= 0 of the Gaussian mechanism at delta, a float, rounded up.

    The inverse of `gaussian_delta`. Less than 1e-9 (epsilon + mu) above the exact value, with mu =
    sensitivity / sigma. Sigma is in the unit of the sensitivity. ValueError for delta outside
    [1e-300, 1/2], a sigma or sensitivity that is not finite and positive, a mu that is not below
    1e154.
    """
    mu, target = _mu(sensitivity, sigma), math.log(_delta(delta))
    mu = number(mu, "sensitivity / sigma", TINY, 1e154, "numbers below 1e154, for a finite epsilon")

    def excess(x):
        return _log_delta(x, mu) + SLACK - target

    # epsilon = 0, or if mu > 2 a place where delta > 1/2; at 39 delta < 1e-300, as in gdp_mu
    low = max(-mu / 2, -1.0)
    if excess(low) <= 0:
        return 0.0
    x = brentq(excess, low, 39.0, xtol=1e-15)
    return mu * (x + mu / 2) * (1 + 1e-15)  # more than three roundings, which SLACK may not cover


def l2_delta(scale, epsilon, d, sensitivity=1.0):
    """The smallest delta of noise with density exp(-|x|/scale) on R^d, in [0, 1], rounded up.

    0 where sensitivity/scale <= epsilon: there the mechanism is epsilon-DP. The scale is in the
    unit of the sensitivity. Less than 1e-9 of itself above the value at a sensitivity that is 2^-51
    larger. ValueError for an epsilon neither 0 nor in [1e-6, 1e3], a d outside 1 to 5050, a scale
    or sensitivity that is not finite and positive, a sensitivity/scale beyond 1e5.
    """
    loss = _mu(sensitivity, scale, "scale")
    loss = number(loss, "sensitivity / scale", TINY, 1e5, "numbers up to 1e5")
    epsilon = number(epsilon, "epsilon", 1e-6, 1e3, "0 and numbers from 1e-6 to 1e3", also=0)
    d = _dimension(d)
    if loss <= epsilon:
        return 0.0
    log_delta = _log_l2_delta(loss - epsilon, epsilon, d) + SLACK
    return min(math.nextafter(math.exp(log_delta), math.inf), 1.0)


def l2_scale(sensitivity, epsilon, delta, d):
    """The smallest s for which noise of density exp(-|x|/s) on R^d is (epsilon, delta)-DP.

    In the unit of the sensitivity, rounded up, less than 1e-9 of itself above the exact value, and
    never above sensitivity/epsilon, the scale of pure epsilon-DP, by more than rounding. ValueError
    for epsilon outside [1e-6, 1e3], delta outside [1e-300, 1/2], a d outside 1 to 5050, a
    sensitivity that is not finite and positive, a scale that overflows.
    """
    sensitivity, epsilon = positive(sensitivity, "sensitivity"), _epsilon(epsilon)
    delta, d = _delta(delta), _dimension(d)
    target = math.log(delta) - 2 * SLACK  # twice, so that l2_delta keeps below what was asked
    highest = math.log(40 + 4 * (epsilon + d))  # there delta > 1/2, at the lowest delta < 1e-300
    log_excess = brentq(lambda w: _log_l2_delta(math.exp(w), epsilon, d) - target, -700.0, highest,
                        xtol=1e-14)
    excess = math.exp(log_excess) * (1 - 1e-12)  # of the loss over epsilon; 1e-12 covers brentq
    return _rounded_up(sensitivity, 1 / (epsilon + excess) * (1 + 1e-15))


def pure_delta(loss, epsilon):
    """The largest delta at epsilon of what is loss-DP, in [0, 1], rounded up: no law is looked at.

    It is that of randomized response, (e^loss - e^epsilon) / (1 + e^loss), from which any such
    mechanism can be made by processing alone (Kairouz, Oh and Viswanath 2015). ValueError for an
    epsilon neither 0 nor in [1e-6, 1e3], a loss that is not finite and positive.
    """
    loss = positive(loss, "loss")
    epsilon = number(epsilon, "epsilon", 1e-6, 1e3, "0 and numbers from 1e-6 to 1e3", also=0)
    if loss <= epsilon:
        return 0.0
    return min(-math.expm1(epsilon - loss) / (1 + math.exp(-loss)) * (1 + 1e-15), 1.0)


def _log_l2_delta(excess, epsilon, d):
    """log delta where sensitivity/s = epsilon + excess, not below the exact value less SLACK."""
    if d == 1:
        return math.log(-math.expm1(-excess / 2))
    alpha = (epsilon + excess) / 2
    log_K, ratio = _bessel_K(d, alpha)
    r = (d - 1) / alpha * ratio
    end = 2 * math.asin(math.sqrt(excess / (4 * alpha)))  # here the loss is epsilon; end <= pi/2
    h = end / 2 / (16 + int(d + alpha) // 8)  # half the width of a panel
    middle = np.arange(h, end, 2 * h)[:, None]
    phi = middle + h * _L2_NODES
    sine = np.sin(phi)
    over = 4 * alpha * np.sin((end - phi) / 2) * np.sin((end + phi) / 2)  # loss - epsilon
    log_f = (d - 2) * np.log(sine) + np.log(sine**2 + r)
    log_f -= 2 * alpha * np.sin(phi / 2)**2  # without e^alpha, as z is
    log_f += np.log(-np.expm1(-over))
    top = log_f.max()
    integral = h * (np.exp(log_f - top) @ _L2_WEIGHTS).sum()
    integral += _l2_error(middle, h, end, alpha, d, r, top)
    log_z = math.log(math.pi) / 2 + math.log((d - 1) / alpha**2) - log_K
    return math.log(integral) + top - log_z


def _l2_error(middle, h, end, alpha, d, r, top):
    """Bound on the error of the quadrature, all panels together, in units of e^top.

    With n + 1 nodes on [-1, 1] it is at most (64/15) M rho^(-2n-2) / (1 - rho^-2), M the largest
    modulus on the Bernstein ellipse of rho (Trefethen 2019, Theorem 19.3). Here n = 19 and rho = 4,
    so the ellipse lies in a rectangle, where |sin(x + iy)|^2 = sin(x)^2 + sinh(y)^2,
    Re cos(x + iy) = cos(x) cosh(y), |sin(z)| <= |z| cosh(y) and |1 - e^-t| <= |t| max(1, e^-Re(t)).
    """
    low, high, y = middle - 2.125 * h, middle + 2.125 * h, 1.875 * h
    largest_cos = np.cos(np.maximum(low, 0)) * math.cosh(y)
    smallest_cos = np.cos(high) * np.where(high < math.pi / 2, 1, math.cosh(y))
    sine = np.sin(np.minimum(high, math.pi / 2))**2 + math.sinh(y)**2
    over = alpha * (np.maximum(end - low, high - end) + y) * (end + high + y) * math.cosh(y)
    log_M = (d - 2) / 2 * np.log(sine) + np.log(sine + r) + alpha * (largest_cos - 1) + np.log(over)
    log_M += np.maximum(2 * alpha * (math.cos(end) - smallest_cos), 0)
    return 64 / 15 / (1 - 4.0**-2) * 4.0**-40 * h * np.exp(log_M - top).sum()


def _bessel_K(d, alpha):
    """log of e^alpha K_v(alpha) (alpha/2)^v / Gamma(v + 1/2), and K_(v+1)(alpha) / K_v(alpha).

    Here v = d/2 - 1. By the recurrence in v, from 0 or 1/2 on. All its terms are positive, and each
    step adds O(1/v) to the logarithm.
    """
    v = d % 2 / 2
    log_K = math.log(kve(v, alpha) * (alpha / 2)**v / math.gamma(v + 1 / 2))
    ratio = kve(v + 1, alpha) / kve(v, alpha)
    while v < d / 2 - 1:
        log_K += math.log(ratio * alpha / (2 * v + 1))
        v += 1
        ratio = 2 * v / alpha + 1 / ratio
    return log_K, ratio
