"""The papers' own formulas, as printed and, where they err, as corrected: candidates of a check.

Nothing here comes from the rest of the package, and no formula is rearranged for the sake of
extreme arguments, so that a fault of the package cannot hide behind the same fault of its
reference. TG is Utpala, Vepakomma and Miolane (2023), RL is Reimherr, Bharath and Soto (2021), GR
is Kulkarni and Soto's paper on geodesic regression. The letters are theirs: matrices of size k,
coordinates in R^d with d = k(k+1)/2, n records in a ball of radius r, noise of scale sigma, and mu
for sensitivity / sigma; for a regression tau_m is the radius of the ball, and no residual is longer
than tau. Arguments are numbers or arrays, where a line does not ask for numbers.
"""

import math

import numpy as np
from scipy.optimize import brentq
from scipy.special import gammaln, ndtr


def sigma_classical(sensitivity, epsilon, delta):
    """Noise scale Δ√(2 ln(1.25/δ))/ε (TG, Th. 2.1)."""
    return sensitivity * np.sqrt(2 * np.log(1.25 / delta)) / epsilon


def delta_printed(mu, epsilon):
    """Left side of the analytic condition, the same argument in both Φ (TG, Th. 2.2; preprint)."""
    x = mu / 2 - epsilon / mu
    return ndtr(x) - np.exp(epsilon) * ndtr(x)


def delta_corrected(mu, epsilon):
    """Left side of the analytic condition, Φ(μ/2 − ε/μ) − e^ε Φ(−μ/2 − ε/μ) (TG, Th. 2.2)."""
    return ndtr(mu / 2 - epsilon / mu) - np.exp(epsilon) * ndtr(-mu / 2 - epsilon / mu)


def sigma_analytic(sensitivity, epsilon, delta):
    """Noise scale at which `delta_corrected` is δ (TG, Th. 2.2): numbers, ε ≤ 100, δ ≥ 1e-12."""

    def excess(log_mu):
        return delta_corrected(math.exp(log_mu), epsilon) - delta

    return sensitivity / math.exp(brentq(excess, math.log(1e-6), math.log(1e3), xtol=1e-15))


def tail_bound_printed(t, sigma):
    """Bound (σ/π) exp(−t²/2σ²) on the probability that a N(0, σ²) exceeds t > 0 (TG, A.3)."""
    return sigma / np.pi * np.exp(-((t / sigma)**2) / 2)


def tail_bound_corrected(t, sigma):
    """The same bound with t√(2π) in the place of π (TG, A.3)."""
    return sigma / (t * np.sqrt(2 * np.pi)) * np.exp(-((t / sigma)**2) / 2)


def curvature_factor(r, kappa):
    """h(r, κ) = 2r√κ cot(2r√κ) for a number κ > 0, else 1 (RL, Th. 2)."""
    if kappa <= 0:
        return 1.0
    x = 2 * r * math.sqrt(kappa)
    return x / np.tan(x)


def sensitivity(r, n, kappa=0):
    """Sensitivity 2r(2 − h)/(n h) of a Fréchet mean (RL, Th. 2); 2r/n if flat (TG, Th. 3)."""
    h = curvature_factor(r, kappa)
    return 2 * r * (2 - h) / (n * h)


def extrinsic_sensitivity_printed(r, n):
    """Sensitivity 2(e^r − 1)/n of the mean in Frobenius distance (TG, Sec. 6.1)."""
    return 2 * (np.exp(r) - 1) / n


def extrinsic_sensitivity_corrected(r, n):
    """A bound on the same, 2e^r(1 − e^(−r/n)) (TG, Sec. 6.1)."""
    return 2 * np.exp(r) * (1 - np.exp(-r / n))


def extrinsic_sensitivity_attained(r, n):
    """What antipodal records reach of the same, e^r(1 − e^(−2r/n)) (TG, Sec. 6.1)."""
    return np.exp(r) * (1 - np.exp(-2 * r / n))


def utility_printed(d, n, r, epsilon, delta):
    """E ρ² = 4r² ln(1.25/δ) d/(n²ε²) of the classical tangent Gaussian (TG, Th. 4)."""
    return 4 * r**2 * np.log(1.25 / delta) * d / (n**2 * epsilon**2)


def utility_corrected(d, n, r, epsilon, delta):
    """E ρ² = 8r² ln(1.25/δ) d/(n²ε²) of the same (TG, A.4)."""
    return 8 * r**2 * np.log(1.25 / delta) * d / (n**2 * epsilon**2)


def gaussian_mean_distance(d, sigma):
    """E ρ of the tangent Gaussian, the mean √2 σ Γ((d+1)/2)/Γ(d/2) of σχ_d (TG, Th. 4)."""
    return sigma * np.sqrt(2) * np.exp(gammaln((d + 1) / 2) - gammaln(d / 2))


def laplace_mean_square(d, sigma):
    """E ρ² = d(d+1)σ² of the Riemannian Laplace law on flat R^d (TG, Table 1: O(k⁴))."""
    return d * (d + 1) * sigma**2


def laplace_rate_homogeneous(sensitivity, epsilon):
    """Rate Δ/ε where the normalising constant does not depend on the footpoint (RL, Th. 1)."""
    return sensitivity / epsilon


def acceptance_printed(step, candidate):
    """Acceptance ratio by the length of the step and the candidate's ρ/σ to the mean (TG, B.1)."""
    return np.exp(step - candidate)


def acceptance_corrected(current, candidate):
    """Acceptance ratio by ρ/σ of the current point and the candidate to the mean (TG, B.1)."""
    return np.exp(current - candidate)


def synthetic_radius(k, r=0.25):
    """Radius √k r of the ball about I that holds the synthetic matrices (TG, Sec. 6.1)."""
    return np.sqrt(k) * r


def synthetic_sensitivity(k):
    """Sensitivity √k/1000 at n = 500 and r = 1/4 (TG, Sec. 6.1)."""
    return np.sqrt(k) / 1000


def log_norm_bound(k, low, high):
    """Bound √k max{|ln ℓ|, |ln L|} on ‖Logm X‖_F, for eigenvalues in [ℓ, L] (TG, Lemma A.5)."""
    return np.sqrt(k) * np.maximum(np.abs(np.log(low)), np.abs(np.log(high)))


def descriptor_norm_bound(channels, eta):
    """Bound on ‖R_η‖₂: 12 + η for 1 channel, 14 + η for 3 (TG, Lemma A.6)."""
    return channels + 11 + eta


def descriptor_radius(channels, eta):
    """Bound on ‖Logm R_η‖_F with 14 + η for 1 channel, 16 + η for 3 (TG, Th. 5)."""
    return log_norm_bound(channels + 8, eta, channels + 13 + eta)


def descriptor_radius_appendix(channels, eta):
    """Bound on ‖Logm R_η‖_F with 12 + η for 1 channel, 14 + η for 3 (TG, Th. A.7)."""
    return log_norm_bound(channels + 8, eta, descriptor_norm_bound(channels, eta))


def jacobi_cosine(s, kappa):
    """C_κ(s), which J(0) = 1 and J'(0) = 0 become at curvature κ, a number (GR, eq. 15)."""
    root = math.sqrt(abs(kappa))
    return np.cos(root * s) if kappa > 0 else np.cosh(root * s)


def jacobi_sine(s, kappa):
    """S_κ(s), which J(0) = 0 and J'(0) = 1 become at curvature κ, a number (GR, eq. 40)."""
    if kappa == 0:
        return s
    root = math.sqrt(abs(kappa))
    return (np.sin(root * s) if kappa > 0 else np.sinh(root * s)) / root


def curve_length(tau_m, tau):
    """Bound 2(τ_m + τ) on the reach ρ of the fitted geodesic (GR, App. C)."""
    return 2 * (tau_m + tau)


def curve_sensitivity_point(tau, n, kappa_low=0, tau_m=0):
    """Bound (2τ/n) cosh(2√−κ(τ_m + τ)) on Δ_p, 2τ/n for a number κ ≥ 0 (GR, Th. 3.3)."""
    return 2 * tau / n * np.cosh(2 * math.sqrt(max(-kappa_low, 0)) * (tau_m + tau))


def curve_sensitivity_velocity_printed(tau, n, kappa_low=0):
    """Bound (2τ/n) sinh(√−κ τ)/√−κ on Δ_v, 2τ/n for a number κ ≥ 0 (GR, statement of Th. D.1)."""
    if kappa_low >= 0:
        return 2 * tau / n
    root = math.sqrt(-kappa_low)
    return 2 * tau / n * np.sinh(root * tau) / root


def curve_sensitivity_velocity(tau, n, kappa_low=0, tau_m=0):
    """Bound (τ/n) sinh(2√−κ(τ_m + τ))/(√−κ(τ_m + τ)) on Δ_v, else 2τ/n (GR, eq. 20 and 44)."""
    if kappa_low >= 0:
        return 2 * tau / n
    half = math.sqrt(-kappa_low) * (tau_m + tau)
    return tau / n * np.sinh(2 * half) / half
