"""SPD matrices under the log-Euclidean metric: one eigen kernel, the vector space that it opens.

Arrays of matrices have shape `(..., k, k)`, coordinates have shape `(..., d)` with `d = k(k+1)/2`.
Everything is computed in float64; the type that the matrices come in decides what of them is
rounding, with its unit `eps`. A matrix counts as symmetric if it differs from its transpose by at
most `SYMMETRY`, or 16 `eps` where that is more, times its largest entry; the mean of the two is
used. It counts as positive definite if its smallest computed eigenvalue exceeds k `eps` times the
largest: below that it is rounding, and its sign an accident. Equation numbers are those of Utpala,
Vepakomma and Miolane (2023).
"""

import contextlib
import functools
import itertools
import math

import numpy as np
from numpy.typing import ArrayLike
from scipy.linalg.lapack import dgejsv

from ._checks import (EPS, HUGE, Seed, array, at, finite, first, generator, integer, number, real,
                      rounding)
from ._parallel import CORES, blockwise, one_blas_thread, squares

SYMMETRY = 1e-10
LARGEST = HUGE / 4  # entry of matrices whose coordinates have differences in float64
LOG_MAX = math.log(HUGE)
LOG_MIN = math.log(np.finfo(float).tiny)
FEW = 10  # so many small matrices are rotated faster in arrays than one by one, in Python's floats
WIDE = 1e-6  # ratio of eigenvalues below which the smaller of them lose digits
FAINT = 1e-100  # an eigenvalue whose square may underflow
DIVIDES = 26  # the size from which LAPACK divides and conquers, on threads of BLAS


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
    return _logm(X, "X")


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
    E, low, high = _spectral(np.exp, S)
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
    P, low, high = _of_spd(lambda eigenvalues: eigenvalues**a, X, "X")
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


def where_spd(X):
    """`X` as float64 SPD matrices, and which of them are such, shape `(...)`; no logarithm.

    Each is asked by itself. A determinant that is large beside the trace tells at once; else a
    matrix is decomposed, as for `logm`.
    """
    A, sound, eps = where_symmetric(X)
    k, sound = A.shape[-1], np.array(sound)
    with np.errstate(over="ignore"):  # of an infinite one nothing is sure
        trace = np.einsum("...ii->...", A)
    sure = (_least_eigenvalue(A, trace) > max(1e-10, 4 * k * eps) * trace) & (trace > 0)
    if (unsure := sound & ~sure).any():
        _, low, high = _spectral(np.log, A[unsure])
        sound[unsure] = low > _floor(high, k, eps)
    return A, sound


def where_logm(X):
    """Logarithms of the matrices of `X` that `logm` takes for SPD, and which these are."""
    A, sound, eps = where_symmetric(X)
    logs, low, high = _spectral(np.log, A)
    return logs, sound & (low > _floor(high, A.shape[-1], eps))


def is_spd(X):
    """Which matrices `logm` takes for SPD, booleans of shape `(...)`."""
    return where_logm(X)[1]


def where_symmetric(A, name="X", unit=0.0):
    """`A` as float64 symmetric matrices, which of them are sound, and their unit of rounding.

    What is asymmetric is measured against the largest entry, or against `unit` where that is more.
    """
    A = array(A, name)
    eps, A = rounding(A), real(A, name)
    if A.ndim < 2 or A.shape[-1] != A.shape[-2] or A.shape[-1] == 0:
        raise ValueError(f"{name} has shape {A.shape}; accepted is (..., k, k) with k ≥ 1")
    with np.errstate(over="ignore", invalid="ignore"):  # a sum of huge ones may be infinite
        if np.isfinite(A.sum()) and (A == A.swapaxes(-2, -1)).all():
            return A, np.ones(A.shape[:-2], bool), eps
    bounded = np.isfinite(A).all(axis=(-2, -1), keepdims=True)
    A = np.where(bounded, A, 0)
    transpose = A.swapaxes(-2, -1)
    mean = np.where(A == transpose, A, A / 2 + transpose / 2)  # halves of equal ones can underflow
    asymmetry, most = _asymmetry(A, eps, unit)
    sound = bounded[..., 0, 0] & (asymmetry <= most)
    return np.where(sound[..., None, None], mean, 0), sound, eps


def positive_definite(X, name):
    """`X` as float64 SPD matrices, for callers that need no logarithm; ValueError as of `logm`."""
    A, sound = where_spd(array(X, name))
    if not sound.all():
        _logm(X, name)  # says what is wrong with the first
    return A


def _least_eigenvalue(A, trace):
    """A bound below the smallest eigenvalues of matrices that are positive definite, else ≤ 0.

    The others are at most trace/(k - 1) in their geometric mean.
    """
    k = A.shape[-1]
    with np.errstate(all="ignore"):  # NaN, which is no bound
        if k == 2:
            return A[..., 0, 0] * (A[..., 1, 1] / trace) - A[..., 0, 1] * (A[..., 0, 1] / trace)
        try:
            pivots = np.diagonal(np.linalg.cholesky(A), axis1=-2, axis2=-1)
        except np.linalg.LinAlgError:
            return 0 * trace
        return pivots[..., 0]**2 * (pivots[..., 1:]**2 / (trace[..., None] / (k - 1))).prod(axis=-1)


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
        L = np.linalg.qr(_spectral(lambda low: np.sqrt(np.maximum(low, 0)), A)[0])[1].T
        return L * np.where(np.diagonal(L) < 0, -1, 1)


def function_of(function, A):
    """`function` of symmetric matrices, their smallest and largest eigenvalues.

    As the eigen kernel has it; that of 2 × 2 matrices is a multiple of the matrix and of I.
    """
    if A.shape[-1] != 2:
        return _spectral(function, A)
    with np.errstate(all="ignore"):  # what has no function value is the caller's to refuse
        first, second, off = A[..., 0, 0] / 2, A[..., 1, 1] / 2, A[..., 0, 1]
        mean, half = first + second, first - second
        radius = np.sqrt(half * half + off * off)
        low, high = mean - radius, mean + radius
        below, above = function(low) / 2, function(high) / 2
        slope = (above - below) / np.maximum(radius, FAINT)
        mean, half, off = above + below, slope * half, slope * off
        return _stored([[mean + half, off], [off, mean - half]]), low, high


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
    """Logarithms of L⁻¹X L⁻ᵀ with M = L Lᵀ, for SPD matrices as `positive_definite` has them."""
    with _calm_blas(M.shape[-1]):
        S, low, high = function_of(np.log, _seen_from(M, X))
        beyond = ~(low > np.maximum(WIDE * high, FAINT))
        if beyond.any():
            S[beyond] = _log_of_far(M, X, beyond)
    return S


def relative_distance(M, X):
    """Norms of these logarithms, for which the eigenvalues alone are enough."""
    if M.shape[-1] <= 3:  # where the vectors cost nothing
        v = upper(relative_log(M, X))
        return np.sqrt(squares(v))
    W = _seen_from(M, X)
    spectrum = eigenvalues(np.where(np.isfinite(W), W, 0))
    beyond = ~(spectrum.min(axis=-1) > np.maximum(WIDE * spectrum.max(axis=-1), FAINT))
    with np.errstate(invalid="ignore", divide="ignore"):
        distance = np.asarray(np.linalg.norm(np.log(spectrum), axis=-1))
    if beyond.any():
        distance[beyond] = np.linalg.norm(_log_of_far(M, X, beyond), axis=(-2, -1))
    return distance[()]


def _seen_from(M, X):
    """L⁻¹X L⁻ᵀ with M = L Lᵀ; what float64 does not hold is infinite or NaN.

    Above the diagonal, where LAPACK does not look, a large one may be off by its rounding.
    """
    with np.errstate(all="ignore"):
        A = inverse_triangular(cholesky(M))
        if A.shape[-1] == 3:
            return congruent(A, X)
        if A.shape[-1] != 2:
            return A @ X @ A.swapaxes(-2, -1)
        p, q, r, off = A[..., 0, 0], A[..., 1, 0], A[..., 1, 1], X[..., 0, 1]
        below = q * X[..., 0, 0] + r * off
        last = q * below + r * (q * off + r * X[..., 1, 1])
        return _stored([[p * p * X[..., 0, 0], p * below], [p * below, last]])


def _log_of_far(M, X, beyond):
    """The logarithms, where the eigenvalues lie `beyond` what float64 tells, in a list.

    Their roots, singular values, lie half as far apart. Powers of two are taken out beforehand.
    """
    M, X = (np.broadcast_to(A, beyond.shape + A.shape[-2:])[beyond] for A in (M, X))
    scales = [np.frexp(A.max(axis=(-2, -1)))[1] for A in (M, X)]
    M, X = (np.ldexp(A, -scale[:, None, None]) for A, scale in zip((M, X), scales, strict=True))
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


def eigenvalues(A):
    """Eigenvalues of symmetric matrices, shape `(..., k)`, in any order; no vectors."""
    k = A.shape[-1]
    if k == 2:
        _, low, high = function_of(np.positive, A)
        return np.stack([low, high], axis=-1)
    if k == 3:
        return _eigh(A.reshape(-1, 3, 3))[0].reshape(A.shape[:-1])
    with _calm_blas(k):
        return np.linalg.eigvalsh(A)


def oplus(X, Y):
    """Sum `Expm(Logm X + Logm Y)` of the vector space SPD(k) (Table 2)."""
    return expm(logm(X) + _logm(Y, "Y"))


def ominus(X, Y):
    """Difference `Expm(Logm X − Logm Y)` (Table 2)."""
    return expm(logm(X) - _logm(Y, "Y"))


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
    return np.linalg.norm(logm(X) - _logm(Y, "Y"), axis=(-2, -1))


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


def _logm(X, name):
    return _of_spd(np.log, X, name)[0]


def _of_spd(function, X, name):
    """`_spectral` of SPD matrices; ValueError where one is none."""
    A, eps = _symmetric(X, name)
    F, low, high = _spectral(function, A)
    floor = _floor(high, A.shape[-1], eps)
    if (index := first(~(low > floor))) is not None:
        raise ValueError(f"{name}{at(index)} is not positive definite: its smallest eigenvalue is "
                         f"{low[index]:.6g}; accepted are those above {floor[index]:.6g}, the "
                         "rounding of the largest. A shrinkage estimate, (1 − a) X + a tr(X)/k I "
                         "with 0 < a < 1, is positive definite")
    return F, low, high


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


def _spectral(function, A):
    """`V diag(function(λ)) Vᵀ` of symmetric matrices, their smallest and largest eigenvalues."""
    k, batch = A.shape[-1], A.shape[:-2]
    A = A.reshape(-1, k, k)
    result, (low, high) = np.empty(A.shape), np.empty((2, len(A)))

    def compute(block):  # in silence: what has no function value is refused by the caller
        eigenvalues, V = _eigh(A[block])
        low[block], high[block] = eigenvalues.min(axis=-1), eigenvalues.max(axis=-1)
        result[block] = _compose(function(eigenvalues), V)

    size, threads = blocks(k)
    with _calm_blas(k):
        blockwise(compute, len(A), size, threads)
    return result.reshape(batch + (k, k)), low.reshape(batch), high.reshape(batch)


def _calm_blas(k):
    """Context in which BLAS starts no threads.

    Once awake, even for one small matrix, they go on spinning and slow the call that comes next;
    and of large matrices their number changes the last bits.
    """
    return one_blas_thread() if k >= DIVIDES else contextlib.nullcontext()


def blocks(k):
    """Number of matrices in a block, which stays in the cache, and number of threads.

    On matrices of size 2 or 3 threads would spend their time waiting for the interpreter's lock.
    """
    return (2**14, 1) if k <= 3 else (max(2**15 // k**2, 1), CORES)


def _eigh(A):
    """Eigenvalues, in any order, and eigenvectors of a block; all decompositions are made here.

    A matrix has the same bits alone and in any batch.
    """
    return _jacobi(A) if A.shape[-1] in (2, 3) else _lapack(A)


def _lapack(A):
    """Eigenvalues and eigenvectors of a block; NaN for a matrix on which LAPACK gives up.

    That happens once in thousands where entries lie hundreds of powers of ten apart. The others are
    decomposed one by one then, to the same bits, so that no matrix decides over another.
    """
    try:
        return np.linalg.eigh(A)
    except np.linalg.LinAlgError:
        if len(A) == 1:
            return np.full(A.shape[:-1], np.nan), np.full(A.shape, np.nan)
        eigenvalues, V = zip(*(_lapack(one[None]) for one in A), strict=True)
        return np.concatenate(eigenvalues), np.concatenate(V)


@np.errstate(all="ignore")  # what overflows is refused by the caller
def _jacobi(A):
    """Eigenvalues and eigenvectors of 2×2 or 3×3 matrices, by Jacobi rotations.

    Many are turned at once, in arrays stored entry by entry, so that the loops run over the
    matrices. Every operation rounds correctly, so that makes no difference to a matrix. What four
    sweeps leave, `eigh` does.
    """
    if 0 < len(A) < FEW:
        found = [_rotate(one, math.sqrt, math.copysign) for one in A.tolist()]
        eigenvalues, V, left = map(np.array, zip(*found, strict=True))
    else:
        found = _rotate(np.array(np.moveaxis(A, 0, -1), order="C"), np.sqrt, np.copysign)
        eigenvalues, V, left = (np.moveaxis(np.array(part), -1, 0) for part in found)
    V, rest = V.swapaxes(1, 2), left > EPS * np.abs(eigenvalues).min(axis=1)
    if rest.any():
        eigenvalues[rest], V[rest] = _lapack(A[rest])
    return eigenvalues, V


def _rotate(a, sqrt, copysign):
    """Diagonal, rotation and largest other entry that rotations leave; entries may be arrays."""
    k, a = len(a), list(map(list, a))
    V = [[float(i == j) for j in range(k)] for i in range(k)]  # V[p] holds the eigenvectors p
    for p, q in [(0, 1)] if k == 2 else 4 * [(0, 1), (0, 2), (1, 2)]:
        none = a[p][q] == 0
        cot = (a[q][q] / 2 - a[p][p] / 2) / (a[p][q] + none)  # of twice the angle
        t = copysign((1 - none) / (abs(cot) + sqrt(1 + cot * cot)), cot) + 0.0  # not -0
        c = 1 / sqrt(1 + t * t)
        s, shift = c * t, t * a[p][q]
        a[p][p], a[q][q], a[p][q] = a[p][p] - shift, a[q][q] + shift, 0.0
        if k == 3:
            r = 3 - p - q
            (i, j), (m, n) = sorted([p, r]), sorted([q, r])
            a[i][j], a[m][n] = c * a[i][j] - s * a[m][n], s * a[i][j] + c * a[m][n]
        for r, (x, y) in enumerate(zip(V[p], V[q], strict=True)):
            V[p][r], V[q][r] = c * x - s * y, s * x + c * y
    left = 0 * c if k == 2 else abs(a[0][1]) + abs(a[0][2])  # the last pair is at 0
    return [a[p][p] for p in range(k)], V, left


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
