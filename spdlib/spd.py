"""SPD matrices under the log-Euclidean metric: one eigen kernel, and the vector space that it opens.

Arrays of matrices have shape `(..., k, k)`, coordinates have shape `(..., d)` with `d = k(k+1)/2`. Everything is
computed in float64. A matrix counts as symmetric if it differs from its transpose by at most `SYMMETRY` times its
largest entry; the mean of the two is used. It counts as positive definite if its smallest computed eigenvalue exceeds
k 2⁻⁵² times the largest: below that it is rounding, and its sign an accident. Equation numbers are those of Utpala, Vepakomma and Miolane (2023).
"""

import math

import numpy as np

SYMMETRY = 1e-10
EPS = np.finfo(float).eps
LOG_MAX = math.log(np.finfo(float).max)
LOG_MIN = math.log(np.finfo(float).tiny)


def logm(X):
    """Matrix logarithm of SPD matrices, shape `(..., k, k)`. Raises ValueError where `X` is not SPD."""
    return _logm(X, "X")


def expm(S):
    """Matrix exponential of symmetric matrices, shape `(..., k, k)`, SPD.

    Raises ValueError where that is no SPD matrix of float64: where an eigenvalue of `S` is outside [-708.3, 709.7], or
    where those of one matrix spread so far, over about 33, that rounding may leave the smallest exponential negative.
    """
    eigenvalues, V = _eigh(S, "S")
    low, high = eigenvalues[..., 0], eigenvalues[..., -1]
    k = eigenvalues.shape[-1]
    widest = -math.log(4 * k * EPS) if k > 1 else math.inf
    if (bad := (high > LOG_MAX) | (low < LOG_MIN) | (high - low > widest)).any():
        index = _first(bad)
        raise ValueError(f"S{_at(index)} has eigenvalues from {low[index]:.6g} to {high[index]:.6g}; float64 holds its "
                         f"exponential as an SPD matrix within [{LOG_MIN:.1f}, {LOG_MAX:.1f}], spread over at most {widest:.1f}")
    return _compose(np.exp(eigenvalues), V)


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
    return expm(L.mean(axis=-3))


def random_spd(n, k, r, rng):
    """Random SPD matrices as in Sec. 6.1, shape `(n, k, k)`: eigenvalues uniform in `[exp(-r), exp(r)]`, Haar eigenvectors.

    They lie within log-Euclidean distance `√k r` of the identity. `rng` is a `numpy.random.Generator` or a seed.
    """
    rng = np.random.default_rng(rng)
    Q = np.linalg.qr(rng.standard_normal((n, k, k)))[0]  # Haar but for the signs of its columns, which cancel below
    return _compose(rng.uniform(math.exp(-r), math.exp(r), (n, k)), Q)


def _logm(X, name):
    eigenvalues, V = _eigh(X, name, positive=True)
    return _compose(np.log(eigenvalues), V)


def _eigh(A, name, positive=False):
    """Eigenvalues in ascending order and eigenvectors of a batch; the one place where matrices are decomposed."""
    eigenvalues, V = np.linalg.eigh(_symmetric(A, name))
    floor = eigenvalues.shape[-1] * EPS * np.maximum(eigenvalues[..., -1], 0)
    if positive and (bad := eigenvalues[..., 0] <= floor).any():
        index = _first(bad)
        raise ValueError(f"{name}{_at(index)} is not positive definite: its smallest eigenvalue is "
                         f"{eigenvalues[index][0]:.6g}; it must exceed {floor[index]:.6g}, the rounding of the largest")
    return eigenvalues, V


def _compose(eigenvalues, V):
    """`V diag(eigenvalues) Vᵀ`, symmetric to the last bit."""
    A = (V * eigenvalues[..., None, :]) @ V.swapaxes(-2, -1)
    return A / 2 + A.swapaxes(-2, -1) / 2  # the sum of the two could overflow


def _symmetric(A, name):
    """`A` as a float64 batch of symmetric matrices; ValueError where it is none."""
    A = _finite(A, name)
    if A.ndim < 2 or A.shape[-1] != A.shape[-2] or A.shape[-1] == 0:
        raise ValueError(f"{name} has shape {A.shape}; accepted is (..., k, k) with k ≥ 1")
    asymmetry = np.abs(A - A.swapaxes(-2, -1)).max(axis=(-2, -1))
    if (bad := asymmetry > SYMMETRY * np.abs(A).max(axis=(-2, -1))).any():
        index = _first(bad)
        raise ValueError(f"{name}{_at(index)} is not symmetric: it differs from its transpose by {asymmetry[index]:.6g}; "
                         f"accepted is {SYMMETRY:g} times its largest entry")
    return A / 2 + A.swapaxes(-2, -1) / 2


def _finite(A, name):
    A = np.asarray(A)
    if A.dtype.kind not in "iuf":
        raise ValueError(f"{name} has dtype {A.dtype}; accepted are real numbers")
    A = A.astype(float)
    if not np.isfinite(A).all():
        index = _first(~np.isfinite(A))
        raise ValueError(f"{name}{_at(index)} is {A[index]}; accepted are finite numbers")
    return A


def _first(bad):
    """Index of the first true entry."""
    return tuple(int(i) for i in np.unravel_index(np.argmax(bad), bad.shape))


def _at(index):
    return f"[{', '.join(map(str, index))}]" if index else ""
