"""SPD matrices under the log-Euclidean metric: one eigen kernel, the vector space that it opens.

Arrays of matrices have shape `(..., k, k)`, coordinates have shape `(..., d)` with `d = k(k+1)/2`.
Everything is computed in float64; the type that the matrices come in decides what of them is
rounding, with its unit `eps`. A matrix counts as symmetric if it differs from its transpose by at
most `SYMMETRY`, or 16 `eps` where that is more, times its largest entry; the mean of the two is
used. It counts as positive definite if its smallest computed eigenvalue exceeds k `eps` times the
largest: below that it is rounding, and its sign an accident. Equation numbers are those of Utpala,
Vepakomma and Miolane (2023).
"""

import functools
import itertools
import math

import numpy as np
from numpy.typing import ArrayLike
from scipy.linalg.lapack import dgejsv

from ._checks import (EPS, HUGE, Seed, array, at, finite, first, generator, integer, number, real,
                      rounding)
from ._kernel import INPUT, calm_blas, spectral
from ._parallel import CORES, squares

SYMMETRY = 1e-10
LARGEST = HUGE / 4  # entry of matrices whose coordinates have differences in float64
LOG_MAX = math.log(HUGE)
LOG_MIN = math.log(np.finfo(float).tiny)
WIDE = 1e-6  # ratio of eigenvalues below which the smaller of them lose digits
FAINT = 1e-100  # an eigenvalue whose square may underflow


def logm(X: ArrayLike) -> np.ndarray:
    """Matrix logarithm.

    Parameters
    ----------
    X : array of shape (..., k, k)
        SPD matrices.

    Returns
    -------
    array of shape (..., k, k)
        Symmetric matrices.

    Raises
    ------
    ValueError
        Where a matrix is not SPD: it is named by its index, with its smallest eigenvalue.

    Examples
    --------
    >>> logm([[2, 1], [1, 2]]).round(4)
    array([[0.5493, 0.5493],
           [0.5493, 0.5493]])
    """
    return log_of(X, "X")


def expm(S: ArrayLike) -> np.ndarray:
    """Matrix exponential, the inverse of `logm`.

    Parameters
    ----------
    S : array of shape (..., k, k)
        Symmetric matrices; differences from the transpose are measured against 1, too.

    Returns
    -------
    array of shape (..., k, k)
        SPD matrices.

    Raises
    ------
    ValueError
        Where float64 holds no such SPD matrix: where an eigenvalue of `S` is outside
        [-708.3, 709.7], or those of one matrix spread so far, over about 33, that rounding may
        leave the smallest exponential negative.
    """
    S, _ = _symmetric(S, "S", unit=1.0)
    E, _, low, high = spectral(S, "exp")
    _check_exponential(low, high, S.shape[-1], "S")
    return E


def powm(X: ArrayLike, a: float) -> np.ndarray:
    """Real power of SPD matrices.

    Parameters
    ----------
    X : array of shape (..., k, k)
        SPD matrices.
    a : float
        The exponent.

    Returns
    -------
    array of shape (..., k, k)
        SPD matrices.

    Raises
    ------
    ValueError
        Where a matrix is not SPD, or its power is none that float64 can hold as one.
    """
    a = number(a, "a", -HUGE, HUGE, "finite numbers")
    P, low, high = _of_spd("power", X, "X", a)
    ends = np.sort([a * np.log(low), a * np.log(high)], axis=0)
    _check_exponential(*ends, P.shape[-1], "a Logm X")
    return P


def vecd(S: ArrayLike) -> np.ndarray:
    """Coordinates of symmetric matrices (eq. 8).

    The diagonal comes first, then √2 times the strict upper triangle by rows. The √2 makes it an
    isometry: `norm(vecd(S)) == norm(S, "fro")` (Lemma A.1).

    Parameters
    ----------
    S : array of shape (..., k, k)
        Symmetric matrices.

    Returns
    -------
    array of shape (..., d)
        With d = k(k+1)/2.

    Raises
    ------
    ValueError
        Where a matrix is not symmetric, or has an entry so large that coordinates, or differences
        of them, would be infinite.

    Examples
    --------
    >>> vecd([[1, 4, 5], [4, 2, 6], [5, 6, 3]]) / [1, 1, 1, 2**0.5, 2**0.5, 2**0.5]
    array([1., 2., 3., 4., 5., 6.])

    pyRiemann's `upper` has the same numbers row by row: 1, 4, 5, 2, 6, 3, with the same √2 off the
    diagonal.
    """
    return upper(symmetric(S, "S"))


def symmetric(S, name):
    """`S` as float64 symmetric matrices of which `vecd` makes coordinates; ValueError else."""
    S, _ = _symmetric(S, name)
    if (index := first(np.abs(S) > LARGEST)) is not None:
        raise ValueError(f"{name}{at(index)} is {S[index]:.6g}; accepted are entries up to "
                         f"{LARGEST:.6g}, whose coordinates have differences in float64")
    return S


def upper(S):
    """`vecd` of matrices that are known to be symmetric."""
    k = S.shape[-1]
    rows, columns, factors = _entries(k)
    return S.reshape(S.shape[:-2] + (k * k,)).take(rows * k + columns, axis=-1) * factors


def invvecd(y: ArrayLike) -> np.ndarray:
    """Symmetric matrices with given coordinates, the inverse of `vecd`.

    Parameters
    ----------
    y : array of shape (..., d)
        With d = k(k+1)/2.

    Returns
    -------
    array of shape (..., k, k)
        Symmetric to the last bit.

    Raises
    ------
    ValueError
        For coordinates that are not finite, or a d that is not k(k+1)/2.
    """
    y = finite(y, "y")
    d = y.shape[-1] if y.ndim else 0
    k = (math.isqrt(8 * d + 1) - 1) // 2
    if d < 1 or k * (k + 1) // 2 != d:
        raise ValueError(f"y has {d} coordinates; accepted are k(k+1)/2, that is 1, 3, 6, 10, …")
    rows, columns, factors = _entries(k)
    S = np.empty(y.shape[:-1] + (k, k))
    S[..., rows, columns] = S[..., columns, rows] = y / factors
    return S


@functools.cache
def _entries(k):
    """Rows and columns of the entries of which coordinates are made, and their factors."""
    rows, columns = np.append(np.diag_indices(k), np.triu_indices(k, 1), axis=1)
    return rows, columns, np.where(rows == columns, 1, math.sqrt(2))


def log_of(X, name, form="matrices"):
    """`logm` of a caller's `name`, or `vecd` of it with the form "coordinates"."""
    return _of_spd("log", X, name, form=form)[0]


def where_log(X, form="matrices"):
    """What `log_of` makes of those matrices of `X` that it takes for SPD, and which these are."""
    F, low, _, sound, floor = _of_any("log", X, "X", form=form)
    return F, sound & (low > floor)


def where_spd(X):
    """`X` as float64 SPD matrices, and which of them are such, shape `(...)`; no logarithm."""
    A, sound, eps = where_symmetric(X)
    _, _, low, high = spectral(A, "log", form="values")  # so that it asks as `logm` does
    return A, sound & (low > _floor(high, A.shape[-1], eps))


def is_spd(X):
    """Which matrices `logm` takes for SPD, booleans of shape `(...)`."""
    return where_spd(X)[1]


def where_symmetric(A, name="X", unit=0.0):
    """`A` as float64 symmetric matrices, which of them are sound, and their unit of rounding.

    What is asymmetric is measured against the largest entry, or against `unit` where that is more.
    """
    A, eps = _matrices(A, name)
    with np.errstate(over="ignore", invalid="ignore"):  # a sum of huge ones may be infinite
        if np.isfinite(A.sum()) and (A == A.swapaxes(-2, -1)).all():
            return A, np.ones(A.shape[:-2], bool), eps
    return *_evened(A, eps, unit), eps


def _matrices(A, name):
    """`A` as float64 matrices, and the unit of rounding of what they were."""
    A = array(A, name)
    eps, A = rounding(A), real(A, name)
    if A.ndim < 2 or A.shape[-1] != A.shape[-2] or A.shape[-1] == 0:
        raise ValueError(f"{name} has shape {A.shape}; accepted is (..., k, k) with k ≥ 1")
    return A, eps


def _evened(A, eps, unit=0.0):
    """Matrices made symmetric to the last bit, 0 where they are not sound, and which are."""
    bounded = np.isfinite(A).all(axis=(-2, -1), keepdims=True)
    A = np.where(bounded, A, 0)
    transpose = A.swapaxes(-2, -1)
    mean = np.where(A == transpose, A, A / 2 + transpose / 2)  # halves of equal ones can underflow
    asymmetry, most = _asymmetry(A, eps, unit)
    sound = bounded[..., 0, 0] & (asymmetry <= most)
    return np.where(sound[..., None, None], mean, 0), sound


def positive_definite(X, name):
    """`X` as float64 SPD matrices, for callers that need no logarithm; ValueError as of `logm`."""
    A, sound = where_spd(array(X, name))
    if not sound.all():
        log_of(X, name)  # says what is wrong with the first
    return A


def cholesky(A):
    """Lower triangular L with L Lᵀ = A, for SPD matrices as `positive_definite` returns them."""
    if A.shape[-1] == 2:
        p = np.sqrt(A[..., 0, 0])
        q = A[..., 1, 0] / p
        r = np.sqrt(np.maximum(A[..., 1, 1] - q**2, EPS * A[..., 1, 1]))  # below it is rounding
        return _stored([[p, np.zeros_like(p)], [q, r]])
    try:
        return np.linalg.cholesky(A)
    except np.linalg.LinAlgError:  # of one that is almost singular: L Lᵀ = RᵀR, R from √A = QR
        if A.ndim > 2:  # no matrix decides over another
            return np.array([cholesky(B) for B in A.reshape(-1, *A.shape[-2:])]).reshape(A.shape)
        eigenvalues, V = np.linalg.eigh(A)
        L = np.linalg.qr(_compose(np.sqrt(np.maximum(eigenvalues, 0)), V))[1].T
        return L * np.where(np.diagonal(L) < 0, -1, 1)


def congruent(A, X):
    """A X Aᵀ, symmetric to the last bit."""
    return _by_transpose(product(A, X), A)


def gram(A):
    """A Aᵀ, symmetric to the last bit."""
    return _by_transpose(A, A)


def product(A, B):
    """A B; of small matrices entry by entry, with loops over the batch."""
    K = range(A.shape[-1])
    if len(K) > 3:
        return A @ B
    return _stored([[_dot(A[..., i, :], B[..., :, j]) for j in K] for i in K])


def _stored(rows):
    """A batch of matrices, by rows of entries, stored so that loops run over the batch."""
    return np.moveaxis(np.array(rows), (0, 1), (-2, -1))


def _by_transpose(B, A):
    """B Aᵀ, of which it is known that it is symmetric."""
    K = range(A.shape[-1])
    if len(K) > 3:
        C = B @ A.swapaxes(-2, -1)
        return C / 2 + C.swapaxes(-2, -1) / 2  # halves, since sums could overflow
    C = np.empty(np.broadcast_shapes(A.shape, B.shape))
    for i, j in itertools.combinations_with_replacement(K, 2):
        C[..., i, j] = C[..., j, i] = _dot(B[..., i, :], A[..., j, :])
    return C


def _dot(x, y):
    """Inner products of vectors of two or three entries, or one."""
    first, *others = (x[..., p] * y[..., p] for p in range(x.shape[-1]))
    return sum(others, first)  # from 0 on, it would turn -0 into 0


def inverse_triangular(L):
    """Inverses of lower triangular matrices."""
    if L.shape[-1] != 2:
        return np.linalg.inv(L)
    p, r = 1 / L[..., 0, 0], 1 / L[..., 1, 1]
    return _stored([[p, np.zeros_like(p)], [-L[..., 1, 0] * p * r, r]])


def relative_log(M, X):
    """`vecd` of log L⁻¹X L⁻ᵀ with M = L Lᵀ, for SPD matrices as `positive_definite` has them."""
    y, beyond = _seen_from(M, X, "coordinates")
    if beyond.any():
        y[beyond] = upper(_log_of_far(M, X, beyond))
    return y


def relative_distance(M, X):
    """Norms of these logarithms, for which the eigenvalues alone are enough."""
    logs, beyond = _seen_from(M, X, "values")
    distance = np.asarray(np.sqrt(squares(logs)))
    if beyond.any():
        distance[beyond] = np.linalg.norm(_log_of_far(M, X, beyond), axis=(-2, -1))
    return distance[()]


@np.errstate(all="ignore")
def _seen_from(M, X, form):
    """The logarithms, and where eigenvalues lie so far apart that the small ones are rounding."""
    with calm_blas(M.shape[-1]):
        A = inverse_triangular(cholesky(M))
        logs, _, low, high = spectral(X, "log", form=form, before=A)
    return logs, ~(low > np.maximum(WIDE * high, FAINT))


def _log_of_far(M, X, beyond):
    """The logarithms, where the eigenvalues lie `beyond` what float64 tells, in a list.

    Their roots, singular values, lie half as far apart. Powers of two are taken out beforehand.
    """
    M, X = (np.broadcast_to(A, beyond.shape + A.shape[-2:])[beyond] for A in (M, X))
    scales = [np.frexp(A.max(axis=(-2, -1)))[1] for A in (M, X)]
    M, X = (np.ldexp(A, -scale[:, None, None]) for A, scale in zip((M, X), scales, strict=True))
    with calm_blas(M.shape[-1]):
        U, roots, _ = np.linalg.svd(inverse_triangular(cholesky(M)) @ cholesky(X))
        logs = 2 * np.log(np.maximum(roots, EPS * roots.max(axis=-1, keepdims=True)))
        return _compose(logs + math.log(2) * (scales[1] - scales[0])[:, None], U)


def log_congruent(A, S):
    """Logarithms of A exp(S) Aᵀ for symmetric matrices `S`, held by float64 or not.

    By the singular values of A Q exp(Λ/2), S = Q Λ Qᵀ, and where these are far apart by Jacobi's
    method, which finds the small ones to as many digits. Where they are further apart than floats,
    gaps are narrowed beforehand to what parts them as well, and widened again.
    """
    spectrum, Q = np.linalg.eigh(S)
    wide = spectrum[..., -1:] - spectrum[..., :1] > 1400
    gaps = np.diff(spectrum, prepend=spectrum[..., :1])
    spare = np.maximum(gaps - 1400 / max(A.shape[-1] - 1, 1), 0)
    spare = np.where(wide, np.cumsum(spare, axis=-1), 0)
    spectrum -= spare
    top = spectrum[..., -1:]
    columns = A @ Q * np.exp((spectrum - top) / 2)[..., None, :]
    U, roots, _ = np.linalg.svd(columns)
    for i in map(tuple, np.argwhere(roots[..., 0] > 1e4 * roots[..., -1])):
        roots[i], U[i], _, scale, _, _ = dgejsv(columns[i], joba=0, jobv=3, jobr=0)
        roots[i] *= scale[0] / scale[1]
    return _compose(top + 2 * np.log(roots) + spare[..., ::-1], U)


def oplus(X, Y):
    """Sum `Expm(Logm X + Logm Y)` of the vector space SPD(k) (Table 2)."""
    return expm(logm(X) + log_of(Y, "Y"))


def ominus(X, Y):
    """Difference `Expm(Logm X − Logm Y)` (Table 2)."""
    return expm(logm(X) - log_of(Y, "Y"))


def odot(a, X):
    """Multiple `Expm(a Logm X)` (Table 2); the scalars `a` have shape `(...)`."""
    return expm(finite(a, "a")[..., None, None] * logm(X))


def distance_logeuclid(X: ArrayLike, Y: ArrayLike) -> np.ndarray:
    """Log-Euclidean distance `‖Logm X − Logm Y‖_F` (eq. 6).

    Parameters
    ----------
    X, Y : arrays of shape (..., k, k)
        SPD matrices.

    Returns
    -------
    array of shape (...)

    Raises
    ------
    ValueError
        Where a matrix is not SPD.
    """
    return np.linalg.norm(logm(X) - log_of(Y, "Y"), axis=(-2, -1))


def mean_logeuclid(X: ArrayLike) -> np.ndarray:
    """Log-Euclidean Fréchet mean `Expm(mean(Logm X_i))` (Sec. 3).

    Parameters
    ----------
    X : array of shape (..., n, k, k)
        SPD matrices, n ≥ 1; the mean is taken over the axis before the matrices.

    Returns
    -------
    array of shape (..., k, k)
        The means, as they are: nothing here is private.

    Raises
    ------
    ValueError
        Where a matrix is not SPD, or there is none.
    """
    X = array(X, "X")
    if X.ndim < 3 or X.shape[-3] == 0:
        raise ValueError(f"X has shape {X.shape}; accepted is (..., n, k, k) with n ≥ 1")
    L = logm(X)
    return expm(_sum(L) / L.shape[-3])


def random_spd(n: int, k: int, r: float, rng: Seed) -> np.ndarray:
    """Random SPD matrices as in Sec. 6.1.

    Their eigenvalues are uniform in `[exp(-r), exp(r)]`, their eigenvectors those of a Haar
    rotation, so they lie within log-Euclidean distance `√k r` of the identity.

    Parameters
    ----------
    n, k : int
        Number and size of the matrices.
    r : float
        At least 0.
    rng : Generator, int or None

    Returns
    -------
    array of shape (n, k, k)

    Raises
    ------
    ValueError
        For an argument that is out of its range.
    """
    n, k, rng = integer(n, "n", 0), integer(k, "k", 1), generator(rng)
    r = number(r, "r", 0, LOG_MAX, f"numbers from 0 to {LOG_MAX:.1f}")
    Q = np.linalg.qr(rng.standard_normal((n, k, k)))[0]  # Haar, but for signs that cancel below
    return _compose(rng.uniform(math.exp(-r), math.exp(r), (n, k)), Q)


def _sum(L):
    """Sum over the axis before the matrices: √n sums of √n terms round less than one of n."""
    n = L.shape[-3]
    root = math.isqrt(n)
    square = L[..., :root**2, :, :].reshape(L.shape[:-3] + (root, root) + L.shape[-2:])
    return square.sum(axis=-4).sum(axis=-3) + L[..., root**2:, :, :].sum(axis=-3)


def _of_spd(function, X, name, p=1.0, form="matrices"):
    """`spectral` of SPD matrices, and their ends of the spectrum; ValueError where one is none."""
    F, low, high, sound, floor = _of_any(function, X, name, p, form)
    if not sound.all():
        _symmetric(X, name)  # says what is wrong with the first
    if (index := first(~(low > floor))) is not None:
        raise ValueError(f"{name}{at(index)} is not positive definite: its smallest eigenvalue is "
                         f"{low[index]:.6g}; accepted are those above {floor[index]:.6g}, the "
                         "rounding of the largest. A shrinkage estimate, (1 − a) X + a tr(X)/k I "
                         "with 0 < a < 1, is positive definite")
    return F, low, high


def _of_any(function, X, name, p=1.0, form="matrices"):
    """`spectral` of any matrices, the ends of their spectra, which are symmetric, and `_floor`.

    Most are symmetric to the last bit, as the kernel sees on its way.
    """
    A, eps = _matrices(X, name)
    F, status, low, high = spectral(A, function, p, form=form)
    sound = np.ones(status.shape, bool)
    if (rest := status == INPUT).any():
        S, sound[rest] = _evened(A[rest], eps)
        F[rest], _, low[rest], high[rest] = spectral(S, function, p, form=form)
    return F, low, high, sound, _floor(high, A.shape[-1], eps)


def _floor(high, k, eps):
    """What the smallest eigenvalue must exceed, to be more than the rounding of the largest."""
    return k * eps * np.maximum(high, 0)


def _check_exponential(low, high, k, name):
    """Refuse logarithms whose exponential is no SPD matrix of float64."""
    widest = widest_spread(k)
    sound = (high <= LOG_MAX) & (low >= LOG_MIN) & (high - low <= widest)
    if (index := first(~sound)) is not None:
        raise ValueError(
            f"{name}{at(index)} has eigenvalues from {low[index]:.6g} to {high[index]:.6g}; "
            f"accepted are those from {LOG_MIN:.1f} to {LOG_MAX:.1f}, spread over at most "
            f"{widest:.1f}: float64 holds their exponential as an SPD matrix")


def widest_spread(k):
    """How far the eigenvalues of a symmetric matrix may spread, if its exponential is to be SPD."""
    return -math.log(4 * k * EPS) if k > 1 else math.inf


def blocks(k):
    """Number of matrices in a block, which stays in the cache, and number of threads."""
    return max(2**17 // k**2, 1), CORES


def _compose(eigenvalues, V):
    """`V diag(eigenvalues) Vᵀ`, symmetric to the last bit."""
    return _by_transpose(V * eigenvalues[..., None, :], V)


def _symmetric(A, name, unit=0.0):
    """`A` as float64 symmetric matrices, and their unit of rounding; ValueError for others."""
    S, sound, eps = where_symmetric(A, name, unit)
    if (index := first(~sound)) is None:
        return S, eps
    asymmetry, most = _asymmetry(finite(A, name)[index], eps, unit)
    raise ValueError(f"{name}{at(index)} is not symmetric: it differs from its transpose by "
                     f"{asymmetry:.6g}; accepted are differences up to {most:.6g}. If that is "
                     f"rounding, ({name} + {name}ᵀ)/2 is symmetric")


def _asymmetry(A, eps, unit):
    """By how much matrices differ from their transposes, and by how much symmetric ones may."""
    with np.errstate(over="ignore"):  # huge entries may differ by infinity
        asymmetry = np.abs(A - A.swapaxes(-2, -1)).max(axis=(-2, -1))
    return asymmetry, max(SYMMETRY, 16 * eps) * np.maximum(np.abs(A).max(axis=(-2, -1)), unit)
