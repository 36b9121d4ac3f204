"""SPD matrices under the affine-invariant metric, and what all spaces of matrices share."""

import math
from functools import cache

import numpy as np
from numpy.polynomial.legendre import leggauss
from scipy.special import logsumexp

from .._checks import at, first, integer
from .._kernel import DIVIDES, spectral
from ..spd import (LOG_MAX, LOG_MIN, blocks, cholesky, congruent, expm, gram, inverse_triangular,
                   invvecd, log_congruent, positive_definite, product, relative_distance,
                   relative_log, upper, where_spd, widest_spread)
from .base import Curved
from .functions import log_sinhc

MOST_K = 4  # up to which size the volume is averaged over all directions


class Matrices:
    """What the spaces of k × k matrices share."""

    def __init__(self, k: int):
        self.k = integer(k, "k", 1)
        self.dim = self.k * (self.k + 1) // 2
        self.shape = (self.k, self.k)

    @property
    def origin(self):
        """The identity, shape `(k, k)`: an array of the caller's own, who may write into it."""
        return np.eye(self.k)

    def evened(self, X):
        """The matrices `X`, of which those of float32 numbers are symmetric if they nearly are.

        By at most 16 units of float32's rounding of the largest entry. In an array of float32 that
        one float64 record has widened, the others have float32 numbers all the same.
        """
        transpose = X.swapaxes(-2, -1)
        narrow = (X != transpose).any(axis=(-2, -1))
        if not narrow.any():
            return X
        narrow &= (X == X.astype(np.float32)).all(axis=(-2, -1))
        most = 16 * np.finfo(np.float32).eps * np.abs(X).max(axis=(-2, -1))
        narrow &= np.abs(X - transpose).max(axis=(-2, -1)) <= most
        return np.where(np.asarray(narrow)[..., None, None], X / 2 + transpose / 2, X)


def radius_held(space, M):
    """Radius up to which a ball of SPD matrices about `M` has only points that float64 holds.

    At the distance ρ the logarithm of an eigenvalue may be larger or smaller by ρ, and that of the
    ratio of two by √2 ρ.
    """
    logs = np.log(np.linalg.eigvalsh(M))
    rest = (widest_spread(space.k) - (logs[-1] - logs[0])) / math.sqrt(2)
    return float(min(rest, LOG_MAX - logs[-1], logs[0] - LOG_MIN)) - 1e-6  # more than rounding


class AffineInvariant(Matrices, Curved):
    """SPD matrices under the affine-invariant metric tr(M⁻¹V M⁻¹W), points of shape `(..., k, k)`.

    Reimherr, Bharath and Soto (2021), Sec. 5.1. A step is `vecd` of L⁻¹V L⁻ᵀ, with M = L Lᵀ the
    Cholesky decomposition.

    Parameters
    ----------
    k : int
        Size of the matrices.

    Attributes
    ----------
    dim : int
        k(k+1)/2.
    curvature : (float, float)
        (-1/2, 0), and (0, 0) where k = 1.
    """

    homogeneous, injectivity_radius = True, math.inf
    held = radius_held

    def __init__(self, k: int):
        super().__init__(k)
        self.curvature = (-0.5, 0.0) if self.k > 1 else (0.0, 0.0)
        self.growth = math.sqrt(self.k * (self.k**2 - 1) / 12)
        self.block = blocks(k) if k < DIVIDES else (2**60, 1)  # large ones have their own

    def points(self, X, name="X"):
        """`X` as float64 SPD matrices; ValueError where one is none."""
        return positive_definite(self.shaped(X, name), name)

    def sound(self, X):
        return where_spd(self.shaped(X, "X"))

    def log_volume(self, v):
        """Logarithm of the volume that `exp` makes of the unit of volume at the vectors `v`.

        The product of sinh(t)/t over the pairs of eigenvalues of `invvecd(v)`, t half their
        difference.
        """
        spectrum, *_ = spectral(invvecd(self.vectors(v, "v")), "identity", form="values")
        i, j = np.triu_indices(self.k, 1)  # take: an order in memory in which sums are those alone
        gaps = spectrum.take(j, axis=-1) - spectrum.take(i, axis=-1)
        return log_sinhc(np.abs(gaps) / 2).sum(axis=-1)

    def volume_bound(self, rho):
        """What `log_volume` nowhere exceeds at this length, shape `(...)`.

        The volume is J = ∏ s(t_ij), s(t) = sinh(t)/t, t_ij = (λ_i - λ_j)/2, over the pairs i < j of
        the eigenvalues λ_1 ≥ … ≥ λ_k, with Σ λ_i² = ρ². Two bounds hold.

        1. J ≤ s(βρ/(k - 1))^(k - 1), β = √(k(k² - 1)/12). Write log s(t) = t - ψ(t). Log s is
           convex with a slope below 1, so ψ is concave and increasing, from ψ(0) = 0. The t_ij are
           sums of the gaps g_l = (λ_l - λ_(l+1))/2 ≥ 0, each of which is in l(k - l) of them. Where
           T = Σ t_ij = Σ l(k - l) g_l is given, Σ ψ(t_ij), concave in the gaps, is least at a
           vertex, where only one gap is not 0: there it is m ψ(T/m) with m = l(k - l) ≥ k - 1,
           which increases in m. So log J ≤ T - (k - 1) ψ(T/(k - 1)) = (k - 1) log s(T/(k - 1)). And
           T = Σ a_i λ_i ≤ ‖a‖ρ = βρ by Cauchy and Schwarz, with a = ((k - 1)/2, …, -(k - 1)/2). It
           grows as e^βρ, and J does so along a: no smaller β will do.
        2. J ≤ s(ρ/√(2(k - 1)))^(k(k - 1)/2), the better one for small ρ. Log s(√y) is concave,
           since s(√y) = ∏ (1 + y/(mπ)²), so Jensen's inequality holds for the mean of the
           k(k - 1)/2 values t_ij², which is at most ρ²/(2(k - 1)) since
           Σ t_ij² = (kρ² - (Σ λ_i)²)/4.

        With both, and with the lesser of both, the density of the length has a concave logarithm:
        it is (dim - 1 - m) log ρ + m log sinh(cρ) - rate ρ with m < dim.
        """
        if (last := self.k - 1) == 0:
            return np.zeros(np.shape(rho))
        small = self.k * last / 2 * log_sinhc(rho / math.sqrt(2 * last))
        return np.minimum(small, last * log_sinhc(self.growth * rho / last))

    def mean_volume(self, rho):
        """Logarithm of the mean volume over all directions, at this length, shape `(...)`.

        Right to nine digits for lengths up to 50. ValueError for k above 4, where the integral over
        all directions is out of reach.
        """
        spread, logs = _directions(integer(self.k, "k", 1, MOST_K))
        rho = np.asarray(rho)[..., None]
        volumes = sum((log_sinhc(rho * pair / 2) for pair in spread), 0 * rho)
        return logsumexp(volumes + logs, axis=-1)

    def jacobi(self, v):
        """What bends Jacobi fields along `v`.

        -(λ_i - λ_j)²/4 for a pair of eigenvalues of `invvecd(v)`, towards q_i q_jᵀ + q_j q_iᵀ.
        """
        spectrum, Q = np.linalg.eigh(invvecd(self.vectors(v, "v")))
        i, j = np.triu_indices(self.k, 1)
        bent = -(spectrum[..., j] - spectrum[..., i])**2 / 4
        axes = upper(congruent(Q[..., None, :, :], invvecd(np.eye(self.dim))))
        return np.concatenate([0 * spectrum, bent], axis=-1), axes.swapaxes(-2, -1)

    def alike(self, M):
        """The identity, from which all looks, in coordinates, as it does from `M`.

        X ↦ L⁻¹X L⁻ᵀ is an isometry and takes `M` there. Rounding does not grow there with the
        condition number of `M`.
        """
        return np.broadcast_to(self.origin, M.shape)

    def frame(self, M):
        """The orthonormal vectors of the frame at `M`, shape `(..., dim, k, k)`.

        They are the derivatives of `exp` by the coordinates of the step, at 0.
        """
        M = self.among(self.points(M, "M"))
        return congruent(cholesky(M), invvecd(np.eye(self.dim)))

    def chart(self, M, u, v):
        """Coordinates at `M` of the point to which `u` and then `v` lead, held by float64 or not.

        With A Aᵀ = exp U they are the logarithm of A exp(V) Aᵀ.
        """
        return upper(log_congruent(cholesky(expm(invvecd(u))), invvecd(v)))

    def _step(self, M, X):
        return relative_log(M, X)

    def _far(self, X, Y):
        return relative_distance(X, Y)

    def _end(self, M, v):
        with np.errstate(all="ignore"):  # what float64 does not hold, `reached` refuses
            X, *_ = spectral(invvecd(v), "exp", after=cholesky(M))
            return X

    def reached(self, X):
        X, sound = where_spd(X)
        if not sound.all():
            raise ValueError(f"step{at(first(~sound))} leads where float64 holds no SPD matrix; "
                             "accepted are shorter steps")
        return X

    def carried(self, M, v, w, there=None):
        half, *_ = spectral(invvecd(v), "exp", 0.5)
        half = product(cholesky(M), half)
        there = self.reached(gram(half) if there is None else there)
        turn = product(inverse_triangular(cholesky(there)), half)
        return upper(congruent(turn, invvecd(w)))


@cache
def _directions(k):
    """Differences of the eigenvalues of unit vectors, a row a pair, and logarithms of weights.

    Eigenvalues in increasing order are cos φ/√k each, plus sin φ times a unit vector whose gaps
    are a multiple of a point of the simplex; the density of directions has the factor
    ∏ (λ_j - λ_i) (Muirhead 1982, Theorem 3.2.17). Everything is analytic, hence Gauss's nodes.
    """
    if k == 1:
        return np.zeros((0, 1)), np.zeros(1)
    t, w = leggauss(24)
    t, w = (t + 1) / 2, w / 2
    phi, *cuts = (axis.ravel() for axis in np.meshgrid(*(k - 1) * [t], indexing="ij"))
    weight = np.prod(np.meshgrid(*(k - 1) * [w], indexing="ij"), axis=0).ravel()
    phi, gaps, rest = phi * math.pi / 2, [], np.ones_like(phi)
    for left, cut in zip(range(k - 2, 0, -1), cuts, strict=True):
        gaps.append(rest * cut)
        weight, rest = weight * (1 - cut)**(left - 1), rest * (1 - cut)
    levels = np.cumsum([0 * phi, *gaps, rest], axis=0)
    levels -= levels.mean(axis=0)
    length = np.linalg.norm(levels, axis=0)
    i, j = np.triu_indices(k, 1)
    spread = np.sin(phi) * (levels[j] - levels[i]) / length
    logs = np.log(weight) - (k - 1) * np.log(length) + (k - 2) * np.log(np.sin(phi))
    logs += np.log(spread).sum(axis=0)
    logs -= logsumexp(logs)
    return spread, logs
