"""The door of the compiled kernel, `_fast.c`, and its twin in NumPy, for where that is not built.

Functions of symmetric matrices. A record has the same bits alone, in any batch, at any place of it,
on any number of threads, and on every processor that runs the kernel; the twin gives the same up to
rounding. `SPDLIB_KERNEL=0` selects the twin; `baseline`, `avx2` and `avx512` say how wide the
kernel's vectors are to be, which changes no bit.
"""

import contextlib
import ctypes
import hashlib
import os
import pathlib
from importlib.machinery import EXTENSION_SUFFIXES

import numpy as np

from ._parallel import blockwise, one_blas_thread

FUNCTIONS = {"log": 0, "exp": 1, "power": 2, "identity": 3}
IN_NUMPY = {
    "log": lambda t, p: np.log(t),
    "exp": lambda t, p: np.exp(p * t),
    "power": lambda t, p: t**p,
    "identity": lambda t, p: t
}
FORMS = {"matrices": 0, "coordinates": 1, "values": 2}
LEVELS = ("baseline", "avx2", "avx512")
LARGEST_K = 64  # beyond it LAPACK is as fast
THREADED_FROM = 26  # the size from which LAPACK uses threads of BLAS
FINE, INPUT, HARD = 0, 1, 2  # a record's status
SOURCE = pathlib.Path(__file__).with_name("_fast.c")
BUILD = "`python setup.py build_ext --inplace` builds it"


class Request(ctypes.Structure):
    """`request` of `_fast.c`."""

    _fields_ = [(name, kind) for names, kind in (
        ("n k function form", ctypes.c_int64),
        ("p least", ctypes.c_double),
        ("X before after F ends status work", ctypes.c_void_p),
    ) for name in names.split()]


def load(file):
    """The library in this file; ImportError if it was built from another source than `_fast.c`."""
    library = ctypes.CDLL(str(file))
    built = (ctypes.c_char * 64).in_dll(library, "fast_digest").value.decode("ascii", "replace")
    source = hashlib.sha256(SOURCE.read_bytes()).hexdigest()
    if built != source:
        raise ImportError(f"{file} was built from another _fast.c ({built[:8]}) than is there now "
                          f"({source[:8]}); {BUILD} anew, SPDLIB_KERNEL=0 does without it")
    library.fast_workspace.argtypes = [ctypes.c_int64]
    library.fast_workspace.restype = ctypes.c_int64
    library.fast_spectral.argtypes = [ctypes.POINTER(Request), ctypes.c_int]
    return library


def _chosen():
    """The library and the level that `SPDLIB_KERNEL` asks for; no library for the twin."""
    asked = os.environ.get("SPDLIB_KERNEL", "")
    if asked not in ("", "0", *LEVELS):
        raise ImportError(f"SPDLIB_KERNEL is {asked!r}; accepted are 0, {', '.join(LEVELS)}")
    files = (SOURCE.with_name("_fast" + suffix) for suffix in EXTENSION_SUFFIXES)
    built = [file for file in files if file.exists()]
    if asked == "0" or not (built or asked):
        return None, 0
    if not built:
        raise ImportError(f"SPDLIB_KERNEL is {asked!r}, but there is no kernel; {BUILD}")
    library = load(built[0])
    level = LEVELS.index(asked) if asked else library.fast_level()
    if level > library.fast_level():
        raise ImportError(f"SPDLIB_KERNEL is {asked!r}, but this processor has no more than "
                          f"{LEVELS[library.fast_level()]}")
    return library, level


_LIBRARY, _LEVEL = _chosen()


def path():
    """What runs here: `compiled (avx2)`, or another of the levels, or `numpy`."""
    return f"compiled ({LEVELS[_LEVEL]})" if _LIBRARY else "numpy"


def spectral(X, function, p=1.0, *, form="matrices", least=0.0, before=None, after=None, threads=1):
    """B f(A X Aᵀ) Bᵀ for symmetric matrices: f(λ) is log λ, exp(p λ), λ^p or λ.

    Parameters
    ----------
    X : array of shape (n, k, k)
        Read as float64 in C order.
    function : {"log", "exp", "power", "identity"}
    p : float
    form : {"matrices", "coordinates", "values"}
        What is made: matrices, their `vecd`, or f(λ) alone, in any order and without B.
    least : float
        Where SPD matrices, the arguments of `log` and `power` and the results of `exp` and `power`,
        have a smallest eigenvalue of at most `least` times the largest, they are hard.
    before, after : arrays of shape (k, k), optional
        A and B, the same for all.
    threads : int

    Returns
    -------
    F : array of shape (n, k, k), (n, k(k+1)/2) or (n, k)
        Finite where the record is fine.
    status : array of shape (n,)
        FINE; INPUT, where X is not finite or not symmetric to the last bit; else HARD, where the
        verdict, or the result, is for LAPACK: eigenvalues beyond `least`, or close to what float64
        does not hold, or not found.
    low, high : arrays of shape (n,)
        The smallest and the largest eigenvalue of A X Aᵀ; they mean nothing where X is INPUT.
    """
    X = np.ascontiguousarray(X, float)
    n, k = X.shape[0], X.shape[-1]
    A, B = (None if C is None else np.require(C, float, "CA") for C in (before, after))
    if X.shape != (n, k, k) or k == 0 or any(C is not None and C.shape != (k, k) for C in (A, B)):
        shapes = [C.shape for C in (X, A, B) if C is not None]
        raise ValueError(f"shapes are {shapes}; accepted are (n, k, k) and (k, k) with k ≥ 1")
    tail = {"matrices": (k, k), "coordinates": (k * (k + 1) // 2,), "values": (k,)}[form]
    F, ends, status = np.empty((n, *tail)), np.empty((n, 2)), np.empty(n, np.uint8)
    compute = _compiled if _LIBRARY and k <= LARGEST_K else _by_numpy

    def work(block):
        results = F[block], ends[block], status[block]
        compute(X[block], function, float(p), form, float(least), A, B, *results)

    with one_blas_thread(
    ) if compute is _by_numpy and k >= THREADED_FROM else contextlib.nullcontext():
        blockwise(work, n, 16 * int(1e4 / k**2.5 + 1), threads)  # whole groups, 0.4 ms of work
    return F, status, ends[:, 0], ends[:, 1]


def _compiled(X, function, p, form, least, A, B, F, ends, status):
    n, k = X.shape[:2]
    work = np.empty(_LIBRARY.fast_workspace(k), np.uint8)
    places = (None if C is None else C.ctypes.data for C in (X, A, B, F, ends, status, work))
    request = Request(n, k, FUNCTIONS[function], FORMS[form], p, least, *places)
    if refused := _LIBRARY.fast_spectral(request, _LEVEL):
        raise AssertionError(f"the kernel refuses a request ({refused})")


def _by_numpy(X, function, p, form, least, A, B, F, ends, status):
    """The twin: the same with LAPACK's decomposition."""
    k = X.shape[-1]
    with np.errstate(all="ignore"):
        sound = ((X == X.swapaxes(1, 2)) & np.isfinite(X)).all(axis=(1, 2))
        W = X if A is None else A @ X @ A.T
        fine = sound & np.isfinite(W).all(axis=(1, 2))
        eigenvalues, V = _decomposed(np.where(fine[:, None, None], W, 0))
        ends[:, 0], ends[:, 1] = eigenvalues.min(axis=1), eigenvalues.max(axis=1)
        fine &= np.isfinite(ends).all(axis=1)
        if function in ("log", "power"):
            fine &= (ends[:, 0] > 0) & (ends[:, 0] > max(least, 2.0**-1000) * ends[:, 1])
        values = IN_NUMPY[function](eigenvalues, p)
        if function in ("exp", "power"):
            low, high = values.min(axis=1), values.max(axis=1)
            fine &= (low > np.maximum(least * high, 2.0**-1020)) & (high < 2.0**1020)
        if form == "values":
            F[...] = values
        else:
            V = V if B is None else B @ V
            half = (V * (values / 2)[:, None, :]) @ V.swapaxes(1, 2)
            S = half + half.swapaxes(1, 2)
            i, j = np.triu_indices(k, 1)
            F[...] = S if form == "matrices" else np.concatenate(
                [S[:, range(k), range(k)], S[:, i, j] * 2**0.5], axis=1)
            fine &= np.isfinite(S).all(axis=(1, 2))
    F[~fine] = np.nan
    status[...] = np.where(sound, np.where(fine, FINE, HARD), INPUT)


def _decomposed(A):
    """Eigenvalues and vectors; NaN for a matrix on which LAPACK gives up, and no other."""
    try:
        return np.linalg.eigh(A)
    except np.linalg.LinAlgError:
        if len(A) == 1:
            return np.full(A.shape[:-1], np.nan), np.full(A.shape, np.nan)
        values, V = zip(*(_decomposed(one[None]) for one in A), strict=True)
        return np.concatenate(values), np.concatenate(V)
