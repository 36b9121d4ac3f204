"""The command `spdlib`: what `plan` and `release` print, and what they refuse before that."""

import io

import numpy as np
import pytest

from spdlib import (AffineInvariant, Ball, KendallPlanar, PrivateFrechetMean, Release, Sphere,
                    mean_logeuclid, plan, random_spd, records_needed)
from spdlib.cli import main

BALL = Ball(2.0, np.eye(3))
PLAN = {"-k": 3, "-n": 400, "--radius": 2, "--epsilon": 0.5, "--delta": 1e-6}


def planned(capsys, **changes):
    """Exit code, output and errors of `spdlib plan` at PLAN with changes; None leaves out."""
    settings = PLAN | {("-" if len(name) == 1 else "--") + name: x for name, x in changes.items()}
    arguments = [str(x) for pair in settings.items() if pair[1] is not None for x in pair]
    code = main(["plan", *arguments])
    return code, *capsys.readouterr()


@pytest.mark.slow
def test_a_plan_shows_every_mechanism_and_which_errs_least(capsys):
    code, out, err = planned(capsys, error=0.05)
    assert (code, err) == (0, "")
    for row in plan(BALL, 400, 0.5, 1e-6):
        line = next(line for line in out.splitlines() if line.startswith(row.mechanism + "  "))
        shown = line.removeprefix(row.mechanism).split()
        assert shown == ["–" if x is None else f"{x:.4g}" for x in row[1:]]
        assert ("–" in shown) == (row.mechanism in ("l2", "laplace"))
        assert f"{row.mechanism} {records_needed(BALL, 0.5, row.delta, 0.05, row.mechanism)}" \
            in out.splitlines()[-1]
    assert "At (0.5, 1e-06) bare l2 noise errs least; laplace errs 1.03 times as much, and" in out
    assert "in the ball as it is: gaussian" in out and "--spread GUESS" in out
    assert "“discrete gaussian”, for a release that leaves, errs as gaussian up to" in out


def test_a_plan_of_a_pure_promise_names_what_errs_least(capsys):
    sphere = {"space": "sphere", "k": 2, "radius": 0.3, "error": None}
    code, out, err = planned(capsys, delta=0, **sphere)
    assert (code, err) == (0, "") and "At (0.5, 0) bare laplace noise errs least." in out
    code, out, err = planned(capsys, delta=1e-9, **sphere)
    assert "bare laplace noise errs least, and promises more: δ = 0." in out


def test_a_plan_warns_of_a_delta_that_is_none(capsys):
    code, out, err = planned(capsys, delta=0.01)
    assert code == 0 and err.startswith("spdlib: delta is 0.01 with n = 400 records; choose it")


@pytest.mark.slow
def test_a_plan_takes_bounds_on_the_eigenvalues_in_place_of_a_radius(capsys):
    code, out, _ = planned(capsys, radius=None, low=0.1, high=10)
    assert code == 0 and "radius 3.988 about 1·I" in out
    assert planned(capsys, radius=Ball.from_bounds(0.1, 10, 3).radius)[1].splitlines()[1:] \
        == out.splitlines()[1:]


@pytest.mark.slow
def test_a_plan_says_from_which_number_on_refining_pays(capsys):
    code, out, _ = planned(capsys, radius=12, n=2000, epsilon=1.0, spread=0.7)
    assert code == 0 and "it pays from 440 records on." in out
    row = plan(BALL.of_radius(12.0), 2000, 1.0, 1e-6, (), 0.7)[0]
    assert f'refine="auto" foresees a mean error of {row.bare:.4g};' in out


@pytest.mark.slow
@pytest.mark.parametrize("name, space, center", [
    ("sphere", Sphere(2), [0, 0, 1]), ("affine-invariant", AffineInvariant(2), 3 * np.eye(2)),
    ("shapes", KendallPlanar(5), KendallPlanar(5).points([1, 2j, -1, 3 - 1j, -2j - 2]))])
def test_a_plan_knows_every_space_and_the_tangent_mean(capsys, name, space, center):
    ball, k = Ball(0.3, center, space), 5 if name == "shapes" else 2
    X = np.broadcast_to(center, (60, *np.shape(center)))
    asked = {"k": k, "n": 60, "radius": 0.3, "space": name, "epsilon": 1, "delta": 1e-5}
    out = planned(capsys, **asked)[1]
    for row in plan(ball, 60, 1.0, 1e-5):
        assert f"{row.bare:.4g}" in out and row.worst is None
        made = PrivateFrechetMean(1.0, row.delta, ball, row.mechanism).fit(X).mechanism_
        if row.mechanism != "laplace" or made.domain is None:
            assert row.scale == pytest.approx(getattr(made, "sigma", None) or made.scale)
    main(["plan", *(str(x) for pair in asked.items()
                    for x in ("-" * (1 + (len(pair[0]) > 1)) + pair[0], pair[1])), "--tangent"])
    out = capsys.readouterr().out
    for row in plan(ball.tangent(), 60, 1.0, 1e-5):
        assert f"{row.bare:.4g}" in out and f"{row.worst:.4g}" in out
        made = PrivateFrechetMean(1.0, row.delta, ball, row.mechanism, statistic="tangent")
        made = made.fit(X).mechanism_
        assert row.scale == pytest.approx(getattr(made, "sigma", None) or made.scale)


@pytest.mark.parametrize("changes, message", [
    ({"k": 101}, "k is 101; accepted are integers from 1 to 100"),
    ({"n": 0}, "n is 0; accepted are integers ≥ 1"),
    ({"radius": -1}, "radius is -1.0; accepted are numbers from 1e-280"),
    ({"epsilon": 0}, "epsilon is 0.0; accepted are numbers from 1e-6"),
    ({"delta": 0.7}, "delta is 0.7; accepted are numbers from 1e-300 to 1/2"),
    pytest.param({"error": 0}, "wanted is 0.0; accepted are finite numbers above 0",
                 marks=pytest.mark.slow),
    pytest.param({"error": 1e-320}, "wanted is 1e-320; accepted are numbers from",
                 marks=pytest.mark.slow),
    ({"radius": None}, "--radius is None, --low None, --high None; accepted is either"),
    ({"low": 1, "high": 2}, "--radius is 2.0, --low 1.0, --high 2.0; accepted is either"),
    ({"radius": None, "low": 1}, "--radius is None, --low 1.0, --high None; accepted is either"),
    ({"radius": None, "low": 2, "high": 1}, "high is 1.0; accepted are finite numbers from"),
])
def test_a_plan_that_is_none_is_refused_before_anything_is_printed(changes, message, capsys):
    code, out, err = planned(capsys, **changes)
    assert code == 2 and out == "" and err.startswith(f"spdlib: {message}")


RELEASE = {"--low": 1e-3, "--high": 1e6, "--epsilon": 1000, "--delta": 1e-6}


def released(capsys, path, **changes):
    """Exit code, output and errors of `spdlib release` of a file at RELEASE with changes."""
    settings = RELEASE | {f"--{name.replace('_', '-')}": x for name, x in changes.items()}
    code = main(["release", str(path), *(str(x) for pair in settings.items() for x in pair)])
    return code, *capsys.readouterr()


@pytest.mark.parametrize("mechanism", ["gaussian", "discrete gaussian"])
def test_a_file_of_matrices_becomes_a_document_with_a_region(mechanism, capsys, tmp_path):
    if mechanism != "gaussian":
        pytest.importorskip("opendp")
    X = 40 * random_spd(800, 3, 0.2, rng=0)
    np.save(tmp_path / "X.npy", X)
    given = {} if mechanism != "gaussian" else {"mechanism": mechanism}
    code, out, err = released(capsys, tmp_path / "X.npy", level=0.9, **given)
    document = Release.from_json(out)
    assert (code, err) == (0, "") and document.mechanism == mechanism and not document.seeded
    assert (document.n, document.epsilon, document.delta) == (800, 1000.0, 1e-6)
    assert document.ball.private and document.ball.radius < 2 and document.count < 400
    assert document.regions == {"0.9": document.region(0.9)} and document.region(0.9) < 0.05
    np.testing.assert_allclose(document.mean, mean_logeuclid(X), rtol=0.05, atol=2)


def test_a_bad_matrix_in_a_file_counts_as_the_centre_where_that_is_asked_for(capsys, tmp_path):
    X = np.concatenate([40 * random_spd(400, 2, 0.2, rng=0), -np.ones((1, 2, 2))])
    np.save(tmp_path / "X.npy", X)
    told = {"mechanism": "gaussian"}
    code, out, err = released(capsys, tmp_path / "X.npy", **told)
    assert code == 2 and out == "" and err.startswith("spdlib: X[400] is not positive definite")
    code, out, _ = released(capsys, tmp_path / "X.npy", on_invalid="center", **told)
    assert code == 0 and Release.from_json(out).n == 401


@pytest.mark.parametrize("content, changes, message", [
    (np.ones((5, 3)), {}, "'X.npy' has an array of shape (5, 3); accepted is (n, k, k)"),
    (np.ones(()), {}, "'X.npy' has an array of shape (); accepted is (n, k, k)"),
    (b"1 2 3", {}, "file is 'X.npy' (EOF"),
    (b"\x93NUMPY\x01\x00\x0a\x00{'descr':((", {}, "file is 'X.npy' ("),
    (np.ones((5, 2, 2)), {"level": 1}, "level is 1.0; accepted are numbers from 0.5 to 0.9999"),
    (np.ones((5, 2, 2)), {"low": -1}, "low is -1.0; accepted are finite numbers"),
    (np.ones((5, 2, 2)), {"epsilon": 0, "mechanism": "gaussian"},
     "epsilon is 0.0; accepted are numbers from 1e-6"),
    (None, {}, "[Errno 2]"),
])
def test_a_release_that_is_none_is_refused_before_anything_is_drawn(content, changes, message,
                                                                    capsys, tmp_path, monkeypatch):
    monkeypatch.chdir(tmp_path)
    if isinstance(content, bytes):
        (tmp_path / "X.npy").write_bytes(content)
    elif content is not None:
        np.save("X.npy", content)
    monkeypatch.setattr(PrivateFrechetMean, "_release", pytest.fail)
    code, out, err = released(capsys, "X.npy", **changes)
    assert code == 2 and out == "" and err.startswith(f"spdlib: {message}")


def test_where_nothing_can_be_printed_nothing_is_drawn_or_it_is_said_that_it_was(
        capsys, tmp_path, monkeypatch):
    np.save(tmp_path / "X.npy", random_spd(50, 2, 0.2, rng=0))
    with monkeypatch.context() as patch:
        patch.setattr("sys.stdout", None)
        patch.setattr(PrivateFrechetMean, "_release", pytest.fail)
        code, _, err = released(capsys, tmp_path / "X.npy", mechanism="gaussian")
    assert code == 2 and "standard output is closed" in err

    class Full(io.StringIO):
        def flush(self):
            raise OSError("no space left")

    with monkeypatch.context() as patch:
        patch.setattr("sys.stdout", Full())
        code, _, err = released(capsys, tmp_path / "X.npy", mechanism="gaussian")
    assert code == 2 and "no space left; the mean was drawn" in err
