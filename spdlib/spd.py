"""SPD matrices under the log-Euclidean metric: one eigen kernel, and the vector space that it opens.

Arrays of matrices have shape `(..., k, k)`, coordinates have shape `(..., d)` with `d = k(k+1)/2`. Everything is
computed in float64. A matrix counts as symmetric if it differs from its transpose by at most `SYMMETRY` times its
largest entry; the mean of the two is used. It counts as positive definite if its smallest computed eigenvalue exceeds
k 2⁻⁵² times the largest: below that it is rounding, and its sign an accident. Equation numbers are those of Utpala, Vepakomma and Miolane (2023).
"""

import contextlib
import functools
import itertools
import math
import os
from concurrent.futures import ThreadPoolExecutor

import numpy as np

SYMMETRY = 1e-10
EPS = np.finfo(float).eps
LOG_MAX = math.log(np.finfo(float).max)
LOG_MIN = math.log(np.finfo(float).tiny)
MANY = 512  # so many small matrices are decomposed faster all at once than one by one


def logm(X):
    """Matrix logarithm of SPD matrices, shape `(..., k, k)`. Raises ValueError where `X` is not SPD."""
    return _logm(X, "X")


def expm(S):
    """Matrix exponential of symmetric matrices, shape `(..., k, k)`, SPD.

    Raises ValueError where that is no SPD matrix of float64: where an eigenvalue of `S` is outside [-708.3, 709.7], or
    where those of one matrix spread so far, over about 33, that rounding may leave the smallest exponential negative.
    """
    return _spectral(np.exp, S, "S", _check_exponential)


def powm(X, a):
    """Real power `a` of SPD matrices, shape `(..., k, k)`."""
    return expm(float(a) * logm(X))


def vecd(S):
    """Coordinates of symmetric matrices, shape `(..., d)`: the diagonal, then √2 times the strict upper triangle by rows.

    The √2 makes it an isometry: `norm(vecd(S)) == norm(S, "fro")` (Lemma A.1, eq. 8).
    """
    S = _symmetric(S, "S")
    rows, columns = np.triu_indices(S.shape[-1], 1)
    return np.concatenate([np.diagonal(S, axis1=-2, axis2=-1), math.sqrt(2) * S[..., rows, columns]], axis=-1)


def invvecd(y):
    """Symmetric matrices with coordinates `y`, shape `(..., k, k)`; the inverse of `vecd`."""
    y = _finite(y, "y")
    k = matrix_size(y.shape[-1] if y.ndim else 0)
    rows, columns = np.triu_indices(k, 1)
    S = np.zeros(y.shape[:-1] + (k, k))
    S[..., range(k), range(k)] = y[..., :k]
    S[..., rows, columns] = S[..., columns, rows] = y[..., k:] / math.sqrt(2)
    return S


def matrix_size(d):
    """The `k` with `k(k+1)/2 == d`. Raises ValueError where there is none."""
    k = (math.isqrt(8 * d + 1) - 1) // 2
    if d < 1 or k * (k + 1) // 2 != d:
        raise ValueError(f"y has {d} coordinates; accepted are d = k(k+1)/2, that is 1, 3, 6, 10, …")
    return k


def oplus(X, Y):
    """Sum `Expm(Logm X + Logm Y)` of the vector space SPD(k) (Table 2), shape `(..., k, k)`."""
    return expm(logm(X) + _logm(Y, "Y"))


def ominus(X, Y):
    """Difference `Expm(Logm X − Logm Y)` (Table 2), shape `(..., k, k)`."""
    return expm(logm(X) - _logm(Y, "Y"))


def odot(a, X):
    """Multiple `Expm(a Logm X)` (Table 2), shape `(..., k, k)`; the scalars `a` have shape `(...)`."""
    return expm(np.asarray(a, float)[..., None, None] * logm(X))


def distance_logeuclid(X, Y):
    """Log-Euclidean distance `‖Logm X − Logm Y‖_F` (eq. 6), shape `(...)`."""
    return np.linalg.norm(logm(X) - _logm(Y, "Y"), axis=(-2, -1))


def mean_logeuclid(X):
    """Log-Euclidean Fréchet mean `Expm(mean(Logm X_i))` (Sec. 3) over the axis before the matrices, shape `(..., k, k)`."""
    L = logm(X)
    if L.ndim < 3 or L.shape[-3] == 0:
        raise ValueError(f"X has shape {L.shape}; a mean needs shape (..., n, k, k) with n ≥ 1")
    return expm(_sum(L) / L.shape[-3])


def random_spd(n, k, r, rng):
    """Random SPD matrices as in Sec. 6.1, shape `(n, k, k)`: eigenvalues uniform in `[exp(-r), exp(r)]`, Haar eigenvectors.

    They lie within log-Euclidean distance `√k r` of the identity. `rng` is a `numpy.random.Generator` or a seed.
    """
    rng = np.random.default_rng(rng)
    Q = np.linalg.qr(rng.standard_normal((n, k, k)))[0]  # Haar but for the signs of its columns, which cancel below
    return _compose(rng.uniform(math.exp(-r), math.exp(r), (n, k)), Q)


def _sum(L):
    """Sum over the axis before the matrices, shape `(..., k, k)`: √n sums of √n terms round less than one sum of n."""
    n, root = L.shape[-3], math.isqrt(L.shape[-3])
    square = L[..., :root**2, :, :].reshape(L.shape[:-3] + (root, root) + L.shape[-2:])
    return square.sum(axis=-4).sum(axis=-3) + L[..., root**2:, :, :].sum(axis=-3)


def _logm(X, name):
    return _spectral(np.log, X, name, _check_positive)


def _check_positive(low, high, k, name):
    floor = k * EPS * np.maximum(high, 0)
    if (bad := low <= floor).any():
        index = _first(bad)
        raise ValueError(f"{name}{_at(index)} is not positive definite: its smallest eigenvalue is "
                         f"{low[index]:.6g}; it must exceed {floor[index]:.6g}, the rounding of the largest")


def _check_exponential(low, high, k, name):
    widest = -math.log(4 * k * EPS) if k > 1 else math.inf
    if (bad := (high > LOG_MAX) | (low < LOG_MIN) | (high - low > widest)).any():
        index = _first(bad)
        raise ValueError(f"{name}{_at(index)} has eigenvalues from {low[index]:.6g} to {high[index]:.6g}; float64 holds its "
                         f"exponential as an SPD matrix within [{LOG_MIN:.1f}, {LOG_MAX:.1f}], spread over at most {widest:.1f}")


def _spectral(function, A, name, check):
    """`V diag(function(λ)) Vᵀ` of a batch; `check` refuses what has none, by its smallest and largest eigenvalue."""
    A = _symmetric(A, name)
    k, batch = A.shape[-1], A.shape[:-2]
    A = A.reshape(-1, k, k)
    result, (low, high) = np.empty(A.shape), np.empty((2, len(A)))

    def compute(block):
        with np.errstate(all="ignore"):  # what has no function value is refused below
            eigenvalues, V = _eigh(A[block])
            low[block], high[block] = eigenvalues.min(axis=-1), eigenvalues.max(axis=-1)
            result[block] = _compose(function(eigenvalues), V)

    size, threads = _block(k)
    with _one_blas_thread() if k > 25 and len(A) > size else contextlib.nullcontext():  # from 26 LAPACK divides and conquers
        _blockwise(compute, len(A), size, threads)
    check(low.reshape(batch), high.reshape(batch), k, name)
    return result.reshape(batch + (k, k))


def _block(k):
    """Number of matrices in a block, which stays in the cache with what is computed from it, and number of threads.

    On matrices of size 2 or 3 threads would spend their time in waiting for the lock of the interpreter.
    """
    return (2**14, 1) if k <= 3 else (max(2**15 // k**2, 1), os.cpu_count())


def _blockwise(function, n, size, threads):
    """Call `function(block)` for the slices of this size that make up `range(n)`, on so many threads."""
    starts = iter(range(0, n, size))  # shared by the threads; their number leaves blocks and roundings as they are

    def work(_):
        for start in starts:
            function(slice(start, start + size))

    if n <= size or threads == 1:
        return work(0)
    with ThreadPoolExecutor(threads - 1) as pool:
        others = pool.map(work, range(threads - 1))
        work(0)
    list(others)  # so that their exceptions are raised here


def _one_blas_thread():
    """Context in which BLAS starts no threads of its own, which would fight with ours; it needs threadpoolctl."""
    controller = _blas()
    return controller.limit(limits=1, user_api="blas") if controller else contextlib.nullcontext()


@functools.cache
def _blas():
    try:
        from threadpoolctl import ThreadpoolController
    except ImportError:
        return None
    return ThreadpoolController()


def _eigh(A):
    """Eigenvalues, in any order, and eigenvectors of a block; the one place where matrices are decomposed."""
    return _jacobi(A) if A.shape[-1] in (2, 3) and len(A) >= MANY else np.linalg.eigh(A)


@np.errstate(all="ignore")  # a rotation by no angle may divide by 0
def _jacobi(A):
    """Eigenvalues and eigenvectors of many 2×2 or 3×3 matrices: each Jacobi rotation is one of all of them at once.

    Arrays are stored entry by entry, so that the loops run over the matrices. What four sweeps leave, `eigh` does.
    """
    k = A.shape[-1]
    a = np.array(np.moveaxis(A, 0, -1), order="C")
    V = np.zeros_like(a)  # V[p] holds the eigenvectors p
    V[range(k), range(k)] = 1
    for p, q in [(0, 1)] if k == 2 else 4 * [(0, 1), (0, 2), (1, 2)]:
        cotangent = (a[q, q] / 2 - a[p, p] / 2) / a[p, q]  # of twice the angle; where it overflows, there is no turn
        t = np.copysign(1 / (np.abs(cotangent) + np.sqrt(1 + cotangent**2)), cotangent)
        t[a[p, q] == 0] = 0
        c = 1 / np.sqrt(1 + t**2)
        s = c * t
        a[p, p] -= t * a[p, q]
        a[q, q] += t * a[p, q]
        a[p, q] = 0
        for r in {0, 1, 2}.difference([p, q]) if k == 3 else ():
            _turn(a[min(p, r), max(p, r)], a[min(q, r), max(q, r)], c, s)
        _turn(V[p], V[q], c, s)
    eigenvalues, V = a[range(k), range(k)].T, V.transpose(2, 1, 0)
    rest = np.abs(a[np.triu_indices(k, 1)]).max(axis=0) > EPS * np.abs(eigenvalues).min(axis=1)
    if rest.any():
        eigenvalues[rest], V[rest] = np.linalg.eigh(A[rest])
    return eigenvalues, V


def _turn(x, y, c, s):
    """Turn the pairs (x, y) in place: to c x - s y and s x + c y."""
    turned = s * x
    x *= c
    x -= s * y
    y *= c
    y += turned


def _compose(eigenvalues, V):
    """`V diag(eigenvalues) Vᵀ`, symmetric to the last bit."""
    k = V.shape[-1]
    if k <= 3:  # entry by entry, as `_jacobi` stores them
        A = np.empty(V.shape)
        for i, j in itertools.combinations_with_replacement(range(k), 2):
            A[..., i, j] = A[..., j, i] = sum(eigenvalues[..., p] * V[..., i, p] * V[..., j, p] for p in range(k))
        return A
    half = (V * (eigenvalues / 2)[..., None, :]) @ V.swapaxes(-2, -1)  # halved first: the sum of two could overflow
    return half + half.swapaxes(-2, -1)


def _symmetric(A, name):
    """`A` as a float64 batch of symmetric matrices; ValueError where it is none."""
    A = _real(A, name)
    if A.ndim < 2 or A.shape[-1] != A.shape[-2] or A.shape[-1] == 0:
        raise ValueError(f"{name} has shape {A.shape}; accepted is (..., k, k) with k ≥ 1")
    if _exactly_symmetric(A):
        return A
    _finite(A, name)
    asymmetry = np.abs(A - A.swapaxes(-2, -1)).max(axis=(-2, -1))
    if (bad := asymmetry > SYMMETRY * np.abs(A).max(axis=(-2, -1))).any():
        index = _first(bad)
        raise ValueError(f"{name}{_at(index)} is not symmetric: it differs from its transpose by {asymmetry[index]:.6g}; "
                         f"accepted is {SYMMETRY:g} times its largest entry")
    return A / 2 + A.swapaxes(-2, -1) / 2


def _exactly_symmetric(A):
    """Whether all matrices of a batch are symmetric to the last bit and finite; huge entries may pass for infinite."""
    A = A.reshape((-1,) + A.shape[-2:])
    size, _ = _block(A.shape[-1])
    blocks = (A[start:start + size] for start in range(0, len(A), size))
    with np.errstate(over="ignore", invalid="ignore"):
        return all(np.isfinite(block.sum()) and (block == block.swapaxes(1, 2)).all() for block in blocks)


def _real(A, name):
    A = np.asarray(A)
    if A.dtype.kind not in "iuf":
        raise ValueError(f"{name} has dtype {A.dtype}; accepted are real numbers")
    return A.astype(float, copy=False)


def _finite(A, name):
    A = _real(A, name)
    if not np.isfinite(A).all():
        index = _first(~np.isfinite(A))
        raise ValueError(f"{name}{_at(index)} is {A[index]}; accepted are finite numbers")
    return A


def _first(bad):
    """Index of the first true entry."""
    return tuple(int(i) for i in np.unravel_index(np.argmax(bad), bad.shape))


def _at(index):
    return f"[{', '.join(map(str, index))}]" if index else ""
