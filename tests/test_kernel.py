"""The compiled kernel: the same bits everywhere, as accurate as LAPACK, safe; and its twin."""

import ast
import ctypes
import functools
import hashlib
import math
import multiprocessing
import os
import shutil
import subprocess
import sys
from concurrent.futures import ThreadPoolExecutor

import mpmath
import numpy as np
import pytest
from conftest import CHAPTERS, ROOT

from spdlib import _kernel
from spdlib._kernel import FINE, HARD, INPUT, LEVELS, SOURCE, spectral

U = 2.0**-53
compiled = pytest.mark.skipif(_kernel._LIBRARY is None, reason="the kernel is not built")
compiler = pytest.mark.skipif(shutil.which("gcc") is None, reason="there is no gcc")
FLAGS = next(ast.literal_eval(node.value) for node in ast.parse(
    (ROOT / "setup.py").read_text()).body if isinstance(node, ast.Assign)
    and node.targets[0].id == "FLAGS")


def levels():
    return LEVELS[:1 + (_kernel._LIBRARY.fast_level() if _kernel._LIBRARY else 0)]


@pytest.fixture(params=[pytest.param(level, marks=compiled) for level in levels()])
def level(request, monkeypatch):
    monkeypatch.setattr(_kernel, "_LEVEL", LEVELS.index(request.param))


def symmetric(A):
    return (A + A.swapaxes(-2, -1)) / 2


def of_spectrum(spectrum, rng):
    n, k = spectrum.shape
    Q = np.linalg.qr(rng.standard_normal((n, k, k)))[0]
    return symmetric((Q * spectrum[:, None, :]) @ Q.swapaxes(1, 2))


def wishart(n, k, rng):
    G = rng.standard_normal((n, k, k + 2))
    return symmetric(G @ G.swapaxes(1, 2))


def graded(n, k, rng):
    return of_spectrum(10**(-rng.uniform(0, 14, (n, 1)) * np.linspace(0, 1, k)), rng)


def scaled(n, k, rng):
    D = 10.0**rng.uniform(-3, 0, (n, k))
    return symmetric(wishart(n, k, rng) * D[:, :, None] * D[:, None, :])


def clustered(n, k, rng):
    near = 1 + 10.0**rng.uniform(-16, -1, (n, 1)) * rng.random((n, k))
    return of_spectrum(np.where(rng.random((n, k)) < 0.5, near, rng.uniform(0.5, 3, (n, 1))), rng)


def diagonal(n, k, rng):
    return np.eye(k) * 10.0**rng.uniform(-6, 6, (n, 1, k))


def nearly_singular(n, k, rng):
    spectrum = rng.uniform(0.5, 2, (n, k))
    spectrum[:, 0] = 10.0**rng.uniform(-13, -11, n)
    return of_spectrum(spectrum, rng)


def huge(n, k, rng):
    return 1e300 * wishart(n, k, rng)


def tiny(n, k, rng):
    return 1e-300 * wishart(n, k, rng)


def far_below_one(n, k, rng):
    return 1e-170 * wishart(n, k, rng)


def blocks(n, k, rng):
    i, j = np.indices((k, k))
    return np.where((i + j) % 2, 0, wishart(n, k, rng))


KINDS = [wishart, graded, scaled, clustered, diagonal, nearly_singular, huge, tiny, far_below_one,
         blocks]


def mixture(n, k, rng):
    """Matrices of all kinds, in no order, and some that are none."""
    X = np.concatenate([kind(n, k, rng) for kind in KINDS])
    X = X[rng.permutation(len(X))]
    X[3::17, 0, 0], X[5::19, -1, -1], X[7::23] = np.nan, np.inf, -X[7::23]
    return X


def bits(results):
    """The bytes of each record's results."""
    return [b"".join(part.tobytes() for part in record) for record in zip(*results, strict=True)]


# the same bits

@pytest.mark.parametrize("k", [1, 2, 3, 4, 7, 12, 33])
def test_a_record_has_the_same_bits_alone_and_in_any_batch(k, level):
    rng = np.random.default_rng(k)
    X = mixture(8, k, rng)
    right = bits(spectral(X, "log", least=1e-15))
    assert [bits(spectral(x[None], "log", least=1e-15))[0] for x in X] == right
    for order in (slice(None, None, -1), slice(1, None), slice(0, 11), rng.permutation(len(X))):
        expected = [right[i] for i in np.arange(len(X))[order]]
        assert bits(spectral(X[order], "log", least=1e-15)) == expected


@compiled
@pytest.mark.parametrize("function", ["log", "exp", "power", "identity"])
@pytest.mark.parametrize("form", ["matrices", "coordinates", "values"])
@pytest.mark.parametrize("k", [2, 3, 5, 10])
def test_all_processors_give_the_same_bits(k, form, function, monkeypatch):
    rng = np.random.default_rng(k)
    X, found = mixture(20, k, rng), set()
    A, B = np.tril(rng.standard_normal((len(X), k, k))), np.tril(rng.standard_normal((k, k)))
    for one in range(len(levels())):
        monkeypatch.setattr(_kernel, "_LEVEL", one)
        found.add((*bits(spectral(X, function, -0.4, form=form)),
                   *bits(spectral(X, function, 0.7, form=form, before=A, after=B))))
    assert len(found) == 1


@pytest.mark.parametrize("k", [1, 2, 3, 6, 12, 30])
def test_a_matrix_for_all_is_like_one_for_each(k, level):
    rng = np.random.default_rng(k)
    X, (A, B) = wishart(9, k, rng), np.tril(rng.standard_normal((2, k, k)))
    right = bits(spectral(X, "log", before=A, after=B))
    assert bits(spectral(X, "log", before=np.tile(A, (9, 1, 1)), after=B[None])) == right
    assert [bits(spectral(x[None], "log", before=A, after=B[None]))[0] for x in X] == right
    moved = B @ A @ X @ A.T @ B.T
    np.testing.assert_allclose(spectral(X, "identity", before=A, after=B)[0], moved,
                               rtol=0, atol=1e-13 * np.abs(moved).max())


@pytest.mark.slow
@pytest.mark.parametrize("k", [3, 4, 5])
def test_zeros_keep_their_sign_in_any_batch(k, level):
    # a rotation by 0 would turn −0 into 0 in lanes that are ready
    X = blocks(2000, k, np.random.default_rng(k))
    alone = np.concatenate([spectral(x[None], "log")[0] for x in X])
    together = spectral(X, "log")[0]
    assert (np.signbit(together) & (together == 0)).any()
    assert together.tobytes() == alone.tobytes()


@pytest.mark.slow
@pytest.mark.parametrize("k", [9, 20])
def test_layout_and_threads_change_no_bit(k, level):
    X = mixture(200 if k == 9 else 40, k, np.random.default_rng(k))  # more than a block
    right = bits(spectral(X, "log"))
    assert bits(spectral(np.asfortranarray(X), "log")) == right
    assert bits(spectral(np.repeat(X, 2, axis=0)[::2], "log")) == right
    assert bits(spectral(X.astype(">f8"), "log")) == right
    assert bits(spectral(X, "log", threads=2)) == right
    with ThreadPoolExecutor(4) as pool:
        assert all(found == right for found in pool.map(
            lambda _: bits(spectral(X, "log", threads=2)), range(4)))
    X.flags.writeable = False
    assert bits(spectral(X, "log")) == right
    raw = np.empty(X.nbytes + 1, np.uint8)
    moved = raw[1:].view(float).reshape(X.shape)
    moved[...] = X
    assert bits(spectral(moved, "log")) == right


def _log_of_child(X, connection):
    connection.send_bytes(b"".join(bits(spectral(X, "log"))))


@compiled
@pytest.mark.filterwarnings("ignore::DeprecationWarning")
def test_a_forked_child_gives_the_same_bits():
    X = mixture(20, 5, np.random.default_rng(0))
    right = b"".join(bits(spectral(X, "log")))
    context = multiprocessing.get_context("fork")
    ours, theirs = context.Pipe()
    child = context.Process(target=_log_of_child, args=(X, theirs))
    child.start()
    assert ours.poll(20) and ours.recv_bytes() == right
    child.join()


@pytest.mark.parametrize("power", [-900, -64, -1, 1, 63, 900])
def test_powers_of_two_pass_through_exactly(power, level):
    X = wishart(50, 5, np.random.default_rng(0))
    for found, right in zip(spectral(np.ldexp(X, power), "identity"), spectral(X, "identity"),
                            strict=True):
        np.testing.assert_array_equal(
            found, right if right.dtype == np.uint8 else np.ldexp(right, power))


# accuracy

@compiled
@pytest.mark.slow
@pytest.mark.parametrize("kind", KINDS)
@pytest.mark.parametrize("k", [2, 3, 5, 9, 16, 30, 64])
def test_backward_errors_are_at_most_twice_those_of_lapack(k, kind):
    rng, worst = np.random.default_rng(k), np.zeros((2, 2))
    for _ in range(10 if k < 20 or os.environ.get("SPDLIB_WEEKLY") else 1):
        X = kind(1000, k, rng)
        X = np.ldexp(X, -np.frexp(np.abs(X).max(axis=(1, 2)))[1][:, None, None])
        spectrum, V = np.linalg.eigh(X)
        theirs = [symmetric((V * spectrum[:, None, :]) @ V.swapaxes(1, 2)), V @ V.swapaxes(1, 2)]
        ours = [spectral(X, "identity")[0], spectral(X, "exp", 0.0)[0]]
        norm = np.linalg.norm(X, axis=(1, 2))
        for i, found in enumerate((ours, theirs)):
            worst[i] = np.maximum(worst[i], [
                (np.linalg.norm(found[0] - X, axis=(1, 2)) / norm).max(),
                np.linalg.norm(found[1] - np.eye(k), axis=(1, 2)).max()])
    assert worst[0, 0] <= 2 * worst[1, 0], worst / U
    assert worst[0, 1] <= 2.5 * worst[1, 1], worst / U  # of VVᵀ − I; at 64 LAPACK divides instead


@functools.cache  # once for all levels
def logarithm(matrix):
    """The logarithm of a matrix, given by its bytes, to all digits, and its condition."""
    x = np.frombuffer(matrix)
    with mpmath.workdps(60):
        spectrum, Q = mpmath.eigsy(mpmath.matrix(x.reshape(math.isqrt(len(x)), -1).tolist()))
        spectrum = list(spectrum)
        logs = [mpmath.log(value) for value in spectrum]
        kappa = float(max(spectrum) / min(spectrum)) + float(max(map(abs, logs)))
        return np.array((Q * mpmath.diag(logs) * Q.T).tolist(), float), kappa


@pytest.mark.parametrize("kind", KINDS)
@pytest.mark.parametrize("k", [2, 3, pytest.param(8, marks=pytest.mark.slow)])
def test_logarithms_are_as_right_as_their_condition_admits(k, kind, level):
    X = kind(6, k, np.random.default_rng(k))
    for x, found, status in zip(X, *spectral(X, "log")[:2], strict=True):
        if status == FINE:
            right, kappa = logarithm(x.tobytes())
            np.testing.assert_allclose(found, right, rtol=0, atol=4 * kappa * k * U)


@pytest.mark.parametrize("k", [2, 3, 4, 7])
def test_rows_that_differ_in_scale_cost_no_digits(k, level):
    # at these conditions, up to 1e12, LAPACK loses all digits but four
    rng = np.random.default_rng(k)
    D = 10.0**rng.uniform(-6, 0, (20, k))
    G = rng.standard_normal((20, k, 3 * k))
    X = symmetric(G @ G.swapaxes(1, 2) / k * D[:, :, None] * D[:, None, :])
    values = np.sort(spectral(X, "log", form="values")[0])
    with mpmath.workdps(60):
        exactly = [sorted(map(mpmath.log, mpmath.eigsy(mpmath.matrix(x.tolist()),
                                                       eigvals_only=True))) for x in X]
    assert np.abs(values - np.array(exactly, float)).max() < 1e-8


@pytest.mark.slow
@pytest.mark.parametrize("k", [2, 3, 6])
@pytest.mark.parametrize("spread", [1e-3, 1e-9])
def test_close_to_a_multiple_of_the_identity_logarithms_are_right_to_all_digits(spread, k, level):
    X = np.eye(k) + spread * symmetric(np.random.default_rng(k).standard_normal((20, k, k)))
    for x, found in zip(X, spectral(X, "log")[0], strict=True):
        right, _ = logarithm(x.tobytes())
        np.testing.assert_allclose(found, right, rtol=0, atol=16 * k * U * np.abs(right).max())


def test_diagonal_matrices_come_back_as_they_are(level):
    X = diagonal(500, 5, np.random.default_rng(0))
    np.testing.assert_array_equal(spectral(X, "identity")[0], X)


def test_zeros_of_either_sign_are_one_number(level):
    X = blocks(50, 5, np.random.default_rng(0))
    signed = np.where(X == 0, np.where(np.random.default_rng(1).random(X.shape) < 0.5, -0.0, 0), X)
    assert bits(spectral(signed, "log")) == bits(spectral(X, "log"))


@pytest.mark.parametrize("function, p, most", [
    ("log", 1, 0.51), ("exp", 1, 1.1), ("exp", 0.5, 1.1), ("power", 0.5, 1.1), ("power", -1, 1.1),
    ("power", 2, 1.1), ("power", 0.3, 1.1), ("power", -7.7, 1.5), ("power", 100.3, 1.5)])
def test_elementary_functions_are_right_to_a_unit_in_the_last_place(function, p, most, level):
    rng = np.random.default_rng(0)
    if function == "exp":
        x = np.concatenate([rng.uniform(-700, 700, 300), rng.uniform(-1, 1, 200), [0, 1, -1]]) / p
    else:
        x = np.concatenate([2.0**(rng.uniform(-900, 900, 300) / max(abs(p), 1)),
                            rng.uniform(0.5, 2, 200), np.sqrt(0.5) + U * np.arange(-4, 4),
                            1 + 10.0**rng.uniform(-16, -1, 100), [1, 1 - U, 1 + 2 * U]])
    values, status, _, _ = spectral(x[:, None, None], function, p, form="values")
    with mpmath.workdps(40):
        exactly = {"log": mpmath.log, "exp": lambda t: mpmath.exp(p * t),
                   "power": lambda t: t**mpmath.mpf(p)}[function]
        for t, value, s in zip(x.tolist(), values[:, 0].tolist(), status, strict=True):
            right = exactly(mpmath.mpf(t))
            assert s == FINE and abs(value - right) <= most * np.spacing(abs(float(right)))


# the twin, and what is not fine

@compiled
@pytest.mark.parametrize("function", ["log", "exp", "power", "identity"])
@pytest.mark.parametrize("k", [1, 2, 3, 6, 17])
def test_the_twin_gives_the_same_up_to_rounding(k, function, monkeypatch):
    rng = np.random.default_rng(k)
    X, (A, B) = mixture(10, k, rng), np.eye(k) + np.tril(rng.uniform(-0.5, 0.5, (2, k, k))) / k
    X = X[(np.abs(X) < 1e6).all(axis=(1, 2)) & (np.abs(X).max(axis=(1, 2)) > 1e-6)]
    requests = [{"form": form, "before": before, "after": after}
                for form in ("matrices", "coordinates", "values")
                for before, after in ((None, None), (A, None), (A, B))]
    ours = [spectral(X, function, 0.3, least=1e-6, **request) for request in requests]
    monkeypatch.setattr(_kernel, "_LIBRARY", None)
    for request, (F, status, low, high) in zip(requests, ours, strict=True):
        twin, their_status, *ends = spectral(X, function, 0.3, **request)
        np.testing.assert_array_equal(status == INPUT, their_status == INPUT)
        fine = status == FINE
        assert fine.mean() > 0.3 and (their_status != FINE).all()
        if request["form"] == "values":
            F, twin = np.sort(F), np.sort(twin)
        largest = np.maximum(np.abs(low), np.abs(high))
        errors = np.abs(np.subtract([low, high], ends))
        assert (errors <= 1e-14 * k * largest)[:, status != INPUT].all()
        for one, other in zip(F[fine], twin[fine], strict=True):
            error = np.abs(one - other).max()
            assert error <= 1e-8 * np.abs(other).max() + 1e-8 * (function == "log")


def test_coordinates_are_those_of_vecd():
    from spdlib.spd import vecd
    X = wishart(20, 6, np.random.default_rng(0))
    F, y = (spectral(X, "log", form=form)[0] for form in ("matrices", "coordinates"))
    np.testing.assert_array_equal(F, F.swapaxes(1, 2))
    np.testing.assert_array_equal(y, vecd(F))


@compiled
def test_what_is_not_fine_is_said():
    eye = np.eye(3)

    def status(x, function, p=1.0, **request):
        return spectral(np.array([eye, x, eye]), function, p, **request)[1].tolist()

    for value in (np.nan, np.inf, -np.inf):
        for place in ((0, 0), (2, 1), (0, 2)):
            x = eye.copy()
            x[place] = value
            assert status(x, "log") == [FINE, INPUT, FINE]
    assert status(eye + np.triu(1e-16 * np.ones((3, 3)), 1), "log") == [FINE, INPUT, FINE]
    for x in (0 * eye, -eye, np.diag([1, 1, -1e-20]), np.diag([1, 1e-16, 1])):
        for function in ("log", "power"):
            assert status(x, function, least=1e-15) == [FINE, HARD, FINE]
    assert status(np.diag([1, 1e-310, 1]), "log") == [FINE, HARD, FINE]
    for x in (0 * eye, -eye, 1e-20 * eye):
        assert status(x, "exp") == [FINE, FINE, FINE]
    for x in (709 * eye, -708 * eye, 1e300 * eye, np.diag([0, 20, 40])):
        assert status(x, "exp", least=1e-15) == [FINE, HARD, FINE]
    assert status(1e3 * eye, "power", 200.0) == [FINE, HARD, FINE]
    turned = 1.5e308 * eye[[0, 2, 1]]  # times √2 it is infinite
    assert status(1e300 * eye, "log", before=1e10 * eye) == [FINE, HARD, FINE]
    assert status(1e300 * eye, "identity", after=1e10 * eye) == [FINE, HARD, FINE]
    for form, expected in ("matrices", FINE), ("coordinates", HARD):
        assert status(turned, "identity", form=form) == [FINE, expected, FINE]


def test_sizes_that_the_kernel_refuses_go_to_lapack(monkeypatch):
    X = wishart(3, 65, np.random.default_rng(0))
    F, status, _, _ = spectral(X, "identity")
    np.testing.assert_allclose(F, X, atol=1e-11)
    assert (status == HARD).all()
    assert spectral(np.empty((0, 4, 4)), "log")[0].shape == (0, 4, 4)
    for X in (np.empty((2, 0, 0)), np.empty((2, 3, 4)), np.empty(3), np.float64(1)):
        with pytest.raises(ValueError, match="accepted are"):
            spectral(X, "log")
    with pytest.raises(ValueError, match="accepted are"):
        spectral(np.empty((2, 3, 3)), "log", before=np.eye(2))


def on_the_twin(*arguments):
    run = subprocess.run([sys.executable, "-m", "pytest", "-n", "0", *arguments], cwd=ROOT,
                         env=os.environ | {"SPDLIB_KERNEL": "0", "OPENBLAS_NUM_THREADS": "1"},
                         capture_output=True, text=True)
    assert run.returncode == 0, run.stdout[-3000:] + run.stderr[-3000:]


@compiled
@pytest.mark.slow
@pytest.mark.parametrize("tests", ["test_spd.py", "spaces", "queries", "estimators"])
def test_what_the_kernel_serves_passes_its_tests_on_the_twin(tests):
    on_the_twin("-m", "not slow", f"tests/{tests}")


@compiled
@pytest.mark.slow
@pytest.mark.parametrize("chapter", [chapter for chapter in CHAPTERS if chapter.stem in (
    "01_spd", "05_sensitivity", "17_curvature")], ids=lambda chapter: chapter.stem)
def test_chapters_have_the_same_outputs_on_the_twin(chapter):
    on_the_twin("--nbval", "--nbval-current-env", str(chapter))


# the library

def test_a_library_of_another_source_is_refused(tmp_path, monkeypatch):
    if _kernel._LIBRARY is None:
        pytest.skip("the kernel is not built")
    other = tmp_path / "_fast.c"
    other.write_bytes(SOURCE.read_bytes() + b"\n")
    monkeypatch.setattr(_kernel, "SOURCE", other)
    with pytest.raises(ImportError, match="was built from another _fast.c"):
        _kernel.load(_kernel._LIBRARY._name)


@pytest.mark.slow
@pytest.mark.parametrize("asked", ["", "0", "one", *levels()])
def test_the_environment_says_which_path_runs(asked):
    code = "from spdlib import _kernel; print(_kernel.kernel_path())"
    run = subprocess.run([sys.executable, "-c", code], env=os.environ | {"SPDLIB_KERNEL": asked},
                         cwd=ROOT, capture_output=True, text=True)
    if asked == "one" or (asked in LEVELS and _kernel._LIBRARY is None):
        assert "ImportError: SPDLIB_KERNEL is" in run.stderr
    else:
        twin = asked == "0" or _kernel._LIBRARY is None
        here = "numpy" if twin else f"compiled ({asked or levels()[-1]})"
        assert run.stdout.strip() == here


def built(target, *flags, source=SOURCE, shared=True):
    """The path of what gcc makes of the source with these flags after those of the build."""
    digest = hashlib.sha256(SOURCE.read_bytes()).hexdigest()
    subprocess.run(["gcc", *FLAGS, *(["-fPIC", "-shared"] if shared else []), *flags,
                    f'-DSOURCE_DIGEST="{digest}"', str(source), "-o", str(target)], check=True)
    return target


@compiled
@compiler
@pytest.mark.slow
def test_the_bits_are_those_of_any_build_without_contraction(tmp_path, monkeypatch):
    X = mixture(30, 6, np.random.default_rng(0))
    right = bits(spectral(X, "log"))
    processors = [f"-march=x86-64{version}" for version in ("", "-v3", "-v4")][:len(levels())]
    builds = [(processors[-1], "-O1"), ("-O2", "-fno-tree-vectorize")]
    if os.environ.get("SPDLIB_WEEKLY"):
        builds += [(flag, "-O1") for flag in processors[:-1]] + [("-O2",)]
    for i, flags in enumerate(builds):
        monkeypatch.setattr(_kernel, "_LIBRARY", _kernel.load(built(tmp_path / f"{i}.so", *flags)))
        for level in range(len(levels())):
            monkeypatch.setattr(_kernel, "_LEVEL", level)
            assert bits(spectral(X, "log")) == right, (flags, level)
    if len(levels()) > 1:  # where contracted, they are not: the test would notice
        contracted = built(tmp_path / "fma.so", "-march=x86-64-v3", "-ffp-contract=fast")
        monkeypatch.setattr(_kernel, "_LIBRARY", _kernel.load(contracted))
        monkeypatch.setattr(_kernel, "_LEVEL", 0)
        assert bits(spectral(X, "log")) != right


@compiler
@pytest.mark.slow
def test_the_driver_is_sound_under_the_sanitizers(tmp_path):
    driver = built(tmp_path / "driver", "-O1", "-g", "-std=gnu99", "-Werror", "-Wall",
                   "-fsanitize=address,undefined", "-fno-sanitize-recover=all",
                   source=ROOT / "tests" / "kernel_driver.c", shared=False)
    run = subprocess.run([driver], capture_output=True, text=True)
    assert run.returncode == 0 and run.stdout.startswith("sound"), run.stdout + run.stderr
    _, hard, _, digest = run.stdout.split()
    assert int(hard) > 30
    # of GCC 12 and Clang 14 at every level of x86-64, and of GCC 12 for ARM (in qemu-aarch64)
    assert digest == "47a620280709d095"


@compiler
def test_fast_maths_is_refused(tmp_path):
    with pytest.raises(subprocess.CalledProcessError):
        built(tmp_path / "fast.so", "-ffast-math", "-fsyntax-only")


def test_the_door_knows_the_request_of_the_source():
    source = SOURCE.read_text(encoding="utf-8")
    assert "int64_t n, k, function, form, before_step, after_step;\n    double p, least;" in source
    assert ctypes.sizeof(_kernel.Request) == 6 * 8 + 2 * 8 + 7 * ctypes.sizeof(ctypes.c_void_p)
