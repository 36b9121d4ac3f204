"""The door of the compiled kernel, `_fast.c`, and its twin in NumPy, for where that is not built.

Functions of symmetric matrices. A record has the same bits alone, in any batch, at any place of it,
on any number of threads, and, where it is not hard, on every processor that runs the kernel; the
twin gives the same up to rounding. `SPDLIB_KERNEL=0` selects the twin; `baseline`, `avx2` and
`avx512` say how wide the kernel's vectors are to be, which changes no bit.
"""

import contextlib
import ctypes
import hashlib
import os
import pathlib
from importlib.machinery import EXTENSION_SUFFIXES

import numpy as np

from ._checks import EPS
from ._parallel import CORES, blockwise, one_blas_thread

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
DIVIDES = 26  # the size from which LAPACK divides and conquers, on threads of BLAS
FINE, INPUT, HARD = 0, 1, 2  # a record's status
SOURCE = pathlib.Path(__file__).with_name("_fast.c")
BUILD = "`python setup.py build_ext --inplace` builds it"


class Request(ctypes.Structure):
    """`request` of `_fast.c`."""

    _fields_ = [(name, kind) for names, kind in (
        ("n k function form before_step after_step", ctypes.c_int64),
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


def kernel_path() -> str:
    """What computes functions of matrices here: "compiled (avx2)", or another level, or "numpy".

    Levels are those of the processor, and change no bit; "baseline" is what all of its kind have.
    "numpy" runs where there was no compiler, or the environment's `SPDLIB_KERNEL` is 0.
    """
    return f"compiled ({LEVELS[_LEVEL]})" if _LIBRARY else "numpy"


def spectral(X, function, p=1.0, *, form="matrices", before=None, after=None, least=None,
             threads=None):
    """B f(A X Aᵀ) Bᵀ for symmetric matrices, whose eigenvalues λ become f(λ).

    Parameters
    ----------
    X : array of shape (..., k, k)
        Read as float64 in C order.
    function : {"log", "exp", "power", "identity"}
        f(λ) is log λ, exp(p λ), λ^p or λ.
    p : float
    form : {"matrices", "coordinates", "values"}
        What is made: matrices, their `vecd`, or f(λ) alone, in any order and without B.
    before, after : arrays of shape (..., k, k), optional
        A and B, lower triangular, one for all or one for each.
    least : float, optional
        Where SPD matrices, the arguments of `log` and `power` and the results of `exp` and `power`,
        have a smallest eigenvalue of at most `least` times the largest, they are hard: they border
        on what is none. Without it 8 k units of rounding.
    threads : int, optional
        One a core without it.

    Returns
    -------
    F : array of shape (..., k, k), (..., k(k+1)/2) or (..., k)
        NaN where X is INPUT; what has no function value is NaN or infinite, in silence.
    status : array of shape (...)
        INPUT where X is not finite or not symmetric to the last bit; FINE; or HARD, which LAPACK
        computed: eigenvalues beyond `least`, or close to what float64 does not hold, or not found,
        and on the twin and beyond `LARGEST_K` all.
    low, high : arrays of shape (...)
        The smallest and the largest eigenvalue of A X Aᵀ; NaN where X is INPUT.
    """
    shapes = [np.shape(C) for C in (X, before, after) if C is not None]
    batch, k = np.broadcast_shapes(*(shape[:-2] for shape in shapes)), (0, *shapes[0])[-1]
    if k == 0 or any(shape[-2:] != (k, k) for shape in shapes):
        raise ValueError(f"shapes are {shapes}; accepted are (..., k, k) with k ≥ 1")

    def each(C):
        return np.ascontiguousarray(np.broadcast_to(C, (*batch, k, k)), float).reshape(-1, k, k)

    X = each(X)
    A, B = (C if C is None else each(C) if np.ndim(C) > 2 else np.ascontiguousarray(C, float)
            for C in (before, after))
    n, least = len(X), 8 * k * EPS if least is None else least
    tail = {"matrices": (k, k), "coordinates": (k * (k + 1) // 2,), "values": (k,)}[form]
    F, ends, status = np.empty((n, *tail)), np.empty((n, 2)), np.empty(n, np.uint8)
    size, threads = block_size(k), threads or CORES

    def own(C, these):
        return C if C is None or C.ndim == 2 else C[these]

    def compiled(block):
        part, work = X[block], np.empty(_LIBRARY.fast_workspace(k), np.uint8)
        steps = (k * k * (C is not None and C.ndim > 2) for C in (A, B))
        arrays = part, own(A, block), own(B, block), F[block], ends[block], status[block], work
        request = Request(len(part), k, FUNCTIONS[function], FORMS[form], *steps, p, least,
                          *(None if C is None else C.ctypes.data for C in arrays))
        if refused := _LIBRARY.fast_spectral(request, _LEVEL):
            raise AssertionError(f"the kernel refuses a request ({refused})")

    def by_lapack(block):
        these = hard[block]
        F[these], ends[these] = _by_lapack(X[these], function, p, form, own(A, these),
                                           own(B, these))

    if _LIBRARY and k <= LARGEST_K:
        blockwise(compiled, n, size, threads)
    else:
        sound = (X == X.swapaxes(1, 2)) & np.isfinite(X)
        status[:] = np.where(sound.all(axis=(1, 2)), HARD, INPUT)
    if len(hard := np.flatnonzero(status == HARD)):
        with calm_blas(k):
            blockwise(by_lapack, len(hard), size, threads)
    F[status == INPUT], ends[status == INPUT] = np.nan, np.nan
    low, high = ends.T
    return F.reshape(batch + tail), *(part.reshape(batch) for part in (status, low, high))


def block_size(k):
    """Number of matrices that a thread takes at once: whole groups of lanes, a fraction of a ms."""
    return 16 * int(2500 / k**2.5 + 1)


def calm_blas(k):
    """Context in which BLAS starts no threads.

    Once awake, even for one small matrix, they go on spinning and slow the call that comes next;
    and of large matrices their number changes the last bits.
    """
    return one_blas_thread() if k >= DIVIDES else contextlib.nullcontext()


def _by_lapack(X, function, p, form, A, B):
    """The twin: the results and the ends of the spectra, by LAPACK."""
    eigenvalues, V = _decomposed(X if A is None else A @ X @ A.swapaxes(-2, -1))
    F = IN_NUMPY[function](eigenvalues, p)
    if form != "values":
        V = V if B is None else B @ V
        if function == "exp":  # of halves, which float64 holds where the result is held
            V = V * np.exp(p * eigenvalues / 2)[:, None, :]
        product = (V if function == "exp" else V * F[:, None, :]) @ V.swapaxes(1, 2)
        F = product / 2 + product.swapaxes(1, 2) / 2
    if form == "coordinates":
        i, j = np.triu_indices(X.shape[-1], 1)
        F = np.concatenate([F.diagonal(axis1=1, axis2=2), F[:, i, j] * 2**0.5], axis=1)
    return F, np.stack([eigenvalues.min(axis=1), eigenvalues.max(axis=1)], axis=1)


def _decomposed(A):
    """Eigenvalues and eigenvectors of a block; NaN for a matrix on which LAPACK gives up.

    That happens once in thousands where entries lie hundreds of powers of ten apart. The others are
    decomposed one by one then, to the same bits, so that no matrix decides over another.
    """
    try:
        return np.linalg.eigh(A)
    except np.linalg.LinAlgError:
        if len(A) == 1:
            return np.full(A.shape[:-1], np.nan), np.full(A.shape, np.nan)
        eigenvalues, V = zip(*(_decomposed(one[None]) for one in A), strict=True)
        return np.concatenate(eigenvalues), np.concatenate(V)
