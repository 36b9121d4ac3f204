"""The document of a release: the same bits back, and nothing in it but the release knows the data.

What version 1 wrote is still read.
"""

import copy
import dataclasses
import importlib.metadata
import json
import math
import pathlib
import pickle
import sys
from fractions import Fraction

import numpy as np
import pytest
from tables import BALLS, POLE, in_ball

from spdlib import (Ball, PrivateClassMeans, PrivateFrechetMean, PrivateGeodesicRegression, Sphere,
                    TangentGaussian, random_spd)
from spdlib.accounting import BudgetAccountant, Release, compose, document
from spdlib.accounting.composition import Cost
from spdlib.accounting.document import installed
from spdlib.calibration import gaussian_epsilon
from spdlib.mechanisms import (CurveKNormGradient, DiscreteGaussian, DiscreteLaplace, GaussianNoise,
                               KNormGradient, L2Mechanism, NoisyDescent, RiemannianLaplace,
                               TruncatedCurveLoss, TruncatedLoss)
from spdlib.queries import FrechetMean
from spdlib.spaces import LogEuclidean

X = random_spd(60, 3, 1.0, rng=0)
OTHER = random_spd(60, 3, 4.0, rng=1) * 50  # far away, and nearly all of it outside the ball
BALL = Ball(1.0, np.eye(3))
SPHERE, SHAPES = Ball(0.3, POLE, Sphere(2)), BALLS["quadrilaterals"]
RNG = np.random.default_rng(0)
POINTS = [in_ball(SPHERE.of_radius(1.0), 30, RNG) for _ in range(2)]
SETTINGS = {
    "gaussian": ((X, OTHER), dict(epsilon=1, delta=1e-6, ball=BALL)),
    "l2": ((X, OTHER), dict(epsilon=0.1, delta=1e-9, ball=BALL, mechanism="l2",
                            on_invalid="center")),
    "laplace": ((X, OTHER), dict(epsilon=0.7, delta=0, ball=BALL, mechanism="laplace")),
    "a sphere": (POINTS, dict(epsilon=1.0, delta=0, ball=SPHERE, mechanism="k-norm gradient")),
    "a ball": (POINTS, dict(
        epsilon=1.0, delta=0, ball=SPHERE,
        mechanism=RiemannianLaplace.with_options(domain=SPHERE.of_radius(0.4)))),
    "shapes": ([in_ball(SHAPES.of_radius(1.0), 30, RNG) for _ in range(2)],
               dict(epsilon=1.0, delta=1e-6, ball=SHAPES, statistic="tangent")),
}
every_setting = pytest.mark.parametrize("name", SETTINGS)


def release(name, which=0, **options):
    data, parameters = SETTINGS[name]
    return PrivateFrechetMean(**parameters).fit(data[which], rng=7, **options).release_


@every_setting
def test_a_document_gives_back_the_same_bits(name):
    one = release(name, group="clinic ü")
    for again in (Release.from_json(one.to_json()), Release.from_dict(one.to_dict()),
                  Release.from_json(json.dumps(json.loads(one.to_json()), indent=None))):
        assert again == one
        for field in ("mean", "step", "log_mean", "center"):
            a, b = (getattr(each.ball if field == "center" else each, field)
                    for each in (again, one))
            assert a is b is None or a.dtype == b.dtype and a.tobytes() == b.tobytes()


def test_numbers_that_are_hard_to_write_come_back_too():
    hard = np.array([5e-324, -0.0, 0.1, 1 / 3, np.nextafter(1, 2), 1.7976931348623157e308])
    one = dataclasses.replace(release("gaussian"), step=hard)
    assert Release.from_json(one.to_json()).step.tobytes() == hard.tobytes()
    one = release("shapes")
    hard = np.array([-0.0, 0.0, 0.0, -0.0, -0.0, 1e-320, 1.0, -0.0]).view(complex)
    hard = dataclasses.replace(one, mean=hard)
    assert Release.from_json(hard.to_json()).mean.tobytes() == hard.mean.tobytes()


@every_setting
def test_two_data_sets_with_the_same_noise_differ_in_the_release_only(name):
    one, other = (release(name, which).to_dict() for which in (0, 1))
    assert {field for field in one if one[field] != other[field]} == (
        {"mean", "step"} | ({"log_mean"} & set(one)))


def test_the_fields_say_what_was_promised_and_by_what():
    private = PrivateFrechetMean(1, 1e-6, BALL, shrink=True).fit(X, group=4)
    one, ball = private.release_, private.release_.ball
    assert one.estimator == "PrivateFrechetMean"
    assert (one.epsilon, one.delta, one.n, one.ball.radius, one.group) == (1.0, 1e-6, 60, 1.0, 4)
    assert one.mean.tolist() == private.mean_.tolist()
    assert one.log_mean.tolist() == private.log_mean_.tolist()
    assert one.noise["sigma"] == private.mechanism_.sigma
    assert one.step.tolist() == one.log_mean.tolist() and ball.center.tolist() == np.eye(3).tolist()
    assert one.mu == private.mechanism_.mu
    assert 0 <= Fraction(one.rho) / (Fraction(one.mu) ** 2 / 2) - 1 < 1e-15
    assert one.shrink is True and one.seeded is False
    assert ball.space == repr(LogEuclidean(3)) and one.privacy == private.privacy_
    assert ball.private is False and one.shares is one.spread is one.count is None
    assert one.largest_share == 1 / 60
    assert {"spdlib", "numpy", "scipy", "python"} <= set(one.versions)
    pure = release("laplace")
    assert pure.mu is pure.rho is None and "scale" in pure.noise
    assert release("a ball").noise["domain"] == 0.4


@pytest.mark.parametrize("metadata", [None, "", "Metadata-Version: 2.1\nName: scipy\n"])
def test_a_package_that_does_not_say_its_version_is_left_out(metadata, monkeypatch, tmp_path):
    folder = tmp_path / "scipy-1.0.dist-info"
    folder.mkdir()
    if metadata is not None:
        (folder / "METADATA").write_text(metadata)
    monkeypatch.setattr(sys, "path", [str(tmp_path)])
    versions = installed.__wrapped__()
    assert "scipy" not in versions and {"spdlib", "python"} <= set(versions)


@pytest.mark.parametrize("error", [FileNotFoundError, KeyError])  # Pythons differ in it
def test_a_package_whose_version_cannot_be_read_is_left_out(error, monkeypatch):
    class Broken:
        @property
        def version(self):
            raise error("Version")

    monkeypatch.setattr(importlib.metadata, "distributions", lambda name: [Broken()])
    assert set(installed.__wrapped__()) == {"spdlib", "python"}


@every_setting
def test_the_document_says_what_the_estimator_was_told(name):
    one, told = release(name), PrivateFrechetMean(**SETTINGS[name][1]).get_params()
    for field in "statistic", "on_invalid", "epsilon", "delta", "shrink":
        assert getattr(one, field) == told[field]
    assert one.mechanism == ("laplace" if name == "a ball" else told["mechanism"])
    told = told["ball"].tangent() if name == "shapes" else told["ball"]
    assert (one.ball.radius, one.ball.space) == (told.radius, repr(told.space))
    assert one.ball.center.tobytes() == told.center.tobytes()
    assert one.seeded is True


MADE = {  # a mechanism of each kind, and what is public of it
    "gaussian": (lambda: TangentGaussian(0.1, 1.0, 1e-6), ["sensitivity", "sigma", "mu"]),
    "l2": (lambda: L2Mechanism(0.1, 1.0, 1e-6, 6), ["sensitivity", "scale", "d"]),
    "laplace": (lambda: RiemannianLaplace(0.1, 1.0), ["sensitivity", "scale"]),
    "laplace in a ball": (lambda: RiemannianLaplace(0.1, 1.0, Sphere(2), SPHERE),
                          ["sensitivity", "scale", "domain"]),
    "integers": (lambda: DiscreteGaussian(1.0, 60, 1.0, 1e-6),
                 ["radius", "n", "divisor", "grid", "scale", "mu", "rho", "sensitivity", "sigma"]),
    "k-norm gradient": (lambda: KNormGradient(0.1, 1.0, SPHERE, 0.5),
                        ["sensitivity", "scale", "domain", "clip"]),
    "truncated loss": (lambda: TruncatedLoss(1.0, SPHERE, 0.5), ["scale", "domain", "clip"]),
    "truncated loss of curves": (lambda: TruncatedCurveLoss(1.0, 0.5), ["scale", "clip"]),
    "k-norm gradient of curves": (lambda: CurveKNormGradient(0.1, 1.0, 0.5),
                                  ["sensitivity", "scale", "clip"]),
    "noisy descent": (lambda: NoisyDescent(1.0, 1e-6, 60, 0.1, 0.5),
                      ["n", "clip", "steps", "sensitivity", "sigma", "mu"]),
    "count": (lambda: DiscreteLaplace(1.0), ["scale"]),
}
SECRET = 0.7269531


class Doubled(GaussianNoise):
    """Normal noise of twice the scale of "gaussian"."""

    name, public = "doubled", ("sensitivity", "sigma", "mu")

    def __init__(self, sensitivity, epsilon, delta):
        one = TangentGaussian(sensitivity, epsilon, delta)
        self.sensitivity, self.sigma, self.mu = sensitivity, 2 * one.sigma, one.mu / 2

    @classmethod
    def of(cls, query, epsilon, delta):
        return cls(query.chart_sensitivity, epsilon, delta)


@pytest.mark.parametrize("mechanism", [Doubled, Doubled.with_options()])
def test_a_mechanism_by_hand_is_paid_for_composed_and_written_down_like_any_other(mechanism):
    account = BudgetAccountant(1.0, 1e-6)
    private = PrivateFrechetMean(1.0, 1e-6, BALL, mechanism).fit(X, accountant=account)
    one, noise = private.release_, TangentGaussian(2 / 60, 1.0, 1e-6)
    assert one.mechanism == "doubled" and one.mu == pytest.approx(noise.mu / 2, rel=1e-9)
    assert one.noise == {"sensitivity": private.mechanism_.sensitivity, "mu": one.mu,
                         "sigma": pytest.approx(2 * noise.sigma, rel=1e-9)}
    assert Release.from_json(one.to_json()) == one
    half, two = (gaussian_epsilon(1, 1e-6, root * noise.mu / 2) for root in (1, math.sqrt(2)))
    assert account.total() == pytest.approx(half, rel=1e-6)
    private.fit(X, accountant=account)
    together = compose([private.mechanism_] * 2, 6)
    assert account.total() == pytest.approx(two, rel=1e-6)
    assert together.mu == pytest.approx(math.sqrt(2) * one.mu, rel=1e-12)
    assert together.epsilon(1e-6) == pytest.approx(two, rel=1e-6)


@pytest.mark.parametrize("name", ["", None, 3, "\ud800"])
def test_a_mechanism_whose_name_no_document_can_hold_is_refused_before_it_draws(name):
    nameless, account = type("Nameless", (Doubled,), {"name": name}), BudgetAccountant(1.0, 1e-6)
    private = PrivateFrechetMean(1.0, 1e-6, BALL, nameless)
    for release_ in (lambda: private.fit(X, accountant=account),
                     lambda: private.set_params(n=60).partial_fit(X)):
        with pytest.raises(ValueError, match="^name is .*; accepted is a str that UTF-8 can write"):
            release_()
    assert account.total() == 0


@pytest.mark.parametrize("name", MADE)
def test_every_mechanism_says_its_name_its_law_its_loss_and_whether_it_is_exact(name):
    mechanism = MADE[name][0]()
    assert isinstance(mechanism.name, str) and isinstance(mechanism.exact, bool)
    assert Cost.of(mechanism, 6)[:2] == (mechanism.law, mechanism.loss)
    assert mechanism.law != "gaussian" or mechanism.loss == mechanism.mu


def message(function):
    """The words with which it is refused."""
    with pytest.raises((TypeError, ValueError)) as refusal:
        function()
    return str(refusal.value)


@pytest.mark.parametrize("heir", [False, True])
@pytest.mark.parametrize("name", MADE)
def test_nothing_is_shown_of_a_mechanism_but_what_its_class_lists(name, heir):
    make, public = MADE[name]
    mechanism = make()
    if heir:
        mechanism.__class__ = type("Heir", (type(mechanism),), {"mean": SECRET})
    for planted in "norm", "_norm", "rho", "true_mean", "distance":
        if planted not in public:
            setattr(mechanism, planted, SECRET)
    mechanism.records, mechanism.public = np.full(3, SECRET), ("norm", "records")
    query, private = FrechetMean(X, BALL), PrivateFrechetMean(1.0, 1e-6, BALL).fit(X, rng=7)
    one = document(private, query, mechanism, group=None, seeded=False, ball=BALL,
                   mean=private.mean_, step=np.zeros(6), statistic="frechet", largest_share=1 / 60,
                   shrink=False)
    assert list(one.noise) == public
    poor, account = BudgetAccountant(0.01, 1e-6), BudgetAccountant(9.0, 1e-3)
    account.spending(mechanism, 6).__enter__()
    texts = [repr(mechanism), one.to_json(), repr(one), repr(account), account.hand_over(),
             message(lambda: poor.spending(mechanism, 6).__enter__()),
             message(lambda: compose([mechanism], 0))]
    if hasattr(mechanism, "answer"):
        small, wide = BALL.of_radius(0.9), SPHERE.of_radius(1.9)
        texts.append(message(lambda: mechanism.answer(FrechetMean(X[:1], small), "seed")))
        texts.append(message(lambda: mechanism.prepared(FrechetMean(X[:1], wide))))
    assert not any(str(SECRET)[2:] in text for text in texts)


@pytest.mark.slow
def test_an_estimator_shows_and_keeps_nothing_of_the_data_but_the_release():
    x, Y = np.linspace(0, 1, 30), POINTS[0]
    batches = PrivateFrechetMean(1.0, 1e-6, BALL, n=60).partial_fit(X[:7]).partial_fit(X[7:])
    fitted = [
        (PrivateFrechetMean(1.0, 1e-6, BALL).fit(X), X),
        (batches.release(), X),
        (PrivateFrechetMean(1.0, 0, SPHERE, "k-norm gradient").fit(Y), Y),
        (PrivateClassMeans(1.0, 1e-6, BALL, [0, 1]).fit(X, np.arange(60) % 2), X),
        (PrivateGeodesicRegression(1.0, 1e-6, SPHERE, 1.0).fit(x, Y), Y),
    ]
    for private, records in fitted:
        assert {name for name in vars(private) if not name.endswith("_")} == set(
            private.get_params())
        held = pickle.dumps(private)
        numbers = records[np.abs(records) < 0.99]
        assert not any(number.tobytes() in held for number in numbers)
        assert not any(repr(float(number))[:8] in repr(private) for number in numbers)


def test_a_sum_that_is_not_released_leaves_the_estimator_in_no_way():
    private = PrivateFrechetMean(1.0, 1e-6, BALL, n=90).partial_fit(X)
    assert repr(private) == f"PrivateFrechetMean(epsilon=1.0, delta=1e-06, ball={BALL!r}, n=90)"
    for leave in copy.copy, copy.deepcopy, pickle.dumps:
        assert "not private" in message(lambda leave=leave: leave(private))


def test_the_share_of_the_heaviest_record_is_named():
    weights = np.linspace(1, 3, 60)
    one = PrivateFrechetMean(1.0, 1e-6, BALL).fit(X, sample_weight=weights).release_
    assert one.largest_share == pytest.approx(3 / weights.sum())


def test_a_release_of_batches_has_a_document_too():
    private = PrivateFrechetMean(1.0, 1e-6, BALL, n=80)
    assert private.partial_fit(X).release(group="a", fewer=True).release_.n == 80


def test_a_release_cannot_be_altered():
    one = release("gaussian")
    with pytest.raises(dataclasses.FrozenInstanceError):
        one.epsilon = 0.1
    with pytest.raises(ValueError, match="read-only"):
        one.mean[0, 0] = 0
    with pytest.raises(dataclasses.FrozenInstanceError):
        one.ball.radius = 0.1
    with pytest.raises(ValueError, match="read-only"):
        one.ball.center[0, 0] = 0


@pytest.mark.parametrize("again", [copy.copy, copy.deepcopy,
                                   lambda one: pickle.loads(pickle.dumps(one))])
def test_nor_can_a_copy(again):
    one = release("shapes")
    other = again(one)
    assert other == one
    for array in other.mean, other.step, other.ball.center:
        assert not array.flags.writeable
    with pytest.raises(dataclasses.FrozenInstanceError):
        other.epsilon = 0.1


@pytest.mark.parametrize("dtype", [int, np.float32, np.longdouble])
def test_a_centre_of_another_type_comes_back_as_the_same_document(dtype):
    private = PrivateFrechetMean(1.0, 1e-6, Ball(1.0, np.eye(3, dtype=dtype))).fit(X)
    one = private.release_
    again = Release.from_json(one.to_json())
    assert again == one and again.ball.center.dtype == one.ball.center.dtype == float


def test_a_name_that_stands_twice_in_a_document_is_refused():
    text = release("gaussian").to_json()
    twice = text.replace('"epsilon": 1.0', '"epsilon": 0.1, "epsilon": 1.0')
    with pytest.raises(ValueError, match=r"^document is no JSON \(\['epsilon'\] stands there"):
        Release.from_json(twice)


def test_the_promise_says_of_which_noise_it_is_proved_and_against_whom_it_is_none():
    reals, seed = "; proved of draws in real numbers, not of the last bits of floats", \
        "; not private against anyone who knows the seed"
    private = PrivateFrechetMean(1, 1e-6, BALL)
    bare = private.fit(X).privacy_
    assert bare.endswith("the ball of radius 1.0 are public" + reals)
    assert private.fit(X, rng=0).privacy_ == bare + seed
    private.set_params(n=60).partial_fit(X)
    assert private.release(rng=0).release_.privacy == bare + seed
    pytest.importorskip("opendp")
    exact = private.set_params(mechanism="discrete gaussian").fit(X)
    assert exact.release_.privacy == exact.privacy_ == bare.removesuffix(reals)


@pytest.mark.slow
def test_what_a_chain_has_drawn_gets_no_document():
    ball = Ball(0.5, np.eye(6)[0], Sphere(5))
    chain = TruncatedLoss.with_options(clip=0.5, approximate=True)
    private = PrivateFrechetMean(5.0, 0, ball, chain)
    private.fit(in_ball(ball, 30, np.random.default_rng(0)), rng=0)
    assert private.privacy_.startswith("not proved") and not hasattr(private, "release_")


BAD = [
    ({"schema": "other"}, "document has the schema 'other', version 2; accepted is"),
    ({"version": 3}, "document has the schema 'spdlib.release', version 3; accepted is .* 1 or 2"),
    ({"clipped": 3}, r"document has \['clipped'\]; accepted are no other fields"),
    ({"mean": [[1.0, math.nan], [0.0, 1.0]]}, "mean is .*; accepted are nested lists of finite"),
    ({"step": [1.0, math.inf]}, "step is .*; accepted are nested lists"),
    ({"mean": [[1.0], [0.0, 1.0]]}, "mean is"), ({"mean": "1"}, "mean is '1'"),
    ({"mean": [["1"]]}, "mean is"), ({"mean": None}, "mean is None"),
    ({"mean": {"real": [1.0], "imag": [1.0, 2.0]}}, "mean has parts of shapes"),
    ({"mean": [[1.0]]}, r"mean has shape \(1, 1\); accepted is \(3, 3\)"),
    ({"epsilon": math.nan}, "epsilon is nan; accepted are numbers from 1e-6"),
    ({"delta": "1e-6"}, "delta is '1e-6'"), ({"mu": math.inf}, "mu is inf"),
    ({"noise": {"sigma": None}}, r"noise\['sigma'\] is None"), ({"noise": 3}, "noise is 3"),
    ({"n": 0}, "n is 0"), ({"n": 60.0}, "n is 60.0"), ({"privacy": None}, "privacy is None"),
    ({"shrink": 0}, "shrink is 0"), ({"group": 1.5}, "group is 1.5"),
    ({"versions": {"numpy": 2}}, r"versions\['numpy'\] is 2"),
    ({"version": True}, "document has the schema 'spdlib.release', version True"),
    ({"version": 1.0}, "document has the schema 'spdlib.release', version 1.0"),
    ({"step": [10**400] * 6}, "step is .*; accepted are nested lists"),
    ({"step": [True] * 6}, "step is .*; accepted are nested lists"),
    ({"step": [2**53 + 1] * 6}, "step is .*; accepted are nested lists"),
    ({"step": [[1.0] * 6]}, r"step has shape \(1, 6\); accepted is \(dim,\)"),
    ({"step": {"real": [1.0] * 6, "imag": [0.0] * 6}}, "step is .*; accepted are nested lists"),
    ({"log_mean": [1.0] * 5}, r"log_mean has shape \(5,\); accepted is \(6,\), that of step"),
    ({"epsilon": 2e3}, "epsilon is 2000.0"), ({"epsilon": 10**400}, "epsilon is 1000"),
    ({"delta": 0.7}, "delta is 0.7; accepted are 0 and numbers from 1e-300 to 1/2"),
    ({"delta": -1e-6}, "delta is -1e-06"), ({"mu": 0}, "mu is 0"), ({"rho": -1.0}, "rho is -1.0"),
    ({"radius": 1.0}, r"document has \['radius'\]; accepted are no other fields"),
    ({"ball": None}, "ball is None; accepted is a dict"), ({"ball": []}, r"ball is \[\]"),
    ({"mu": None}, "mu is None"), ({"log_mean": None}, "log_mean is None"),
    ({"estimator": 1}, "estimator is 1"), ({"spread": -1.0}, "spread is -1.0"),
    ({"count": -1}, "count is -1"), ({"count": 1.0}, "count is 1.0"), ({"bias": "0"}, "bias is"),
    ({"shares": {"mean": 1.1}}, r"shares\['mean'\] is 1.1; accepted are numbers above 0 up to 1"),
    ({"regions": {"0.95": 0}}, r"regions\['0.95'\] is 0"),
    ({"noises": {"spread": 1.0}}, r"noises\['spread'\] is 1.0; accepted is a dict"),
    ({"means": [[[1.0]]]}, r"document lacks \['counts', 'labels', 'steps'\]"),
    ({"point": [[1.0]]}, r"document lacks \['speed', 'velocity', 'x_range'\]"),
    ({"labels": []}, r"labels is \[\]"), ({"labels": [1, 1]}, r"labels is \[1, 1\]"),
    ({"labels": [[1]]}, "labels is"), ({"labels": [math.nan]}, "labels is"),
    ({"labels": ["\ud800"]}, "labels is"), ({"labels": "ab"}, "labels is 'ab'"),
    ({"largest_share": 0}, "largest_share is 0; accepted are numbers above 0 up to 1"),
    ({"largest_share": 1.1}, "largest_share is 1.1"), ({"on_invalid": "skip"}, "on_invalid is"),
    ({"adjacency": "none"}, "adjacency is 'none'"), ({"group": 2**63}, "group is 9223"),
    ({"group": "\ud800"}, "group is"), ({"privacy": "\ud800"}, "privacy is .*UTF-8"),
    ({"mechanism": ""}, "mechanism is ''; accepted is a str that UTF-8 can write, not empty"),
    ({"noise": {"": 1.0}}, "noise is ''"), ({"versions": {"numpy": ""}}, r"versions\['numpy'\] is"),
]


@pytest.mark.parametrize("change, message", BAD)
def test_a_document_that_is_none_is_refused_by_the_name_of_its_field(change, message):
    content = release("gaussian").to_dict() | change
    with pytest.raises(ValueError, match=f"^{message}"):
        Release.from_dict(content)
    with pytest.raises(ValueError, match=f"^{message}"):
        Release.from_json(json.dumps(content))


@pytest.mark.slow
def test_a_document_without_a_field_is_refused_and_so_is_what_is_no_json():
    content = release("gaussian").to_dict()
    for name in set(content) - {"schema", "version"}:
        part = {key: value for key, value in content.items() if key != name}
        if name in ("log_mean", "mu", "rho", "group"):  # which not every release has
            assert getattr(Release.from_dict(part), name) is None
            continue
        with pytest.raises(ValueError, match=rf"^document lacks \['{name}'\]"):
            Release.from_dict(part)
    for text in "{", None, "\ud800", "[" * 100_000, '{"epsilon": ' * 900:
        with pytest.raises(ValueError, match="^document is (no|nested too)"):
            Release.from_json(text)
    deep = []
    for _ in range(100_000):
        deep = [deep]
    for change in {"schema": deep}, {"mean": deep}, {"n": deep}:
        with pytest.raises(ValueError, match="^document is nested too deeply"):
            Release.from_dict(content | change)
    with pytest.raises(ValueError, match=r"^document is \[\]; accepted is a dict"):
        Release.from_json("[]")


PLAIN = release("gaussian").to_dict()["ball"]


@pytest.mark.parametrize("change, message", [
    ({"radius": 0}, "radius is 0; accepted are numbers from 1e-280"), ({"space": 3}, "space is 3"),
    ({"private": 1}, "private is 1; accepted are True and False"), ({"center": None}, "center is"),
    ({"center": [[1.0]]}, r"mean has shape \(3, 3\); accepted is \(1, 1\), that of the centre"),
    ({"domain": 1.0}, r"ball has \['domain'\]; accepted are no other fields"),
])
def test_a_ball_that_is_none_is_refused_by_the_name_of_its_field(change, message):
    content = release("gaussian").to_dict() | {"ball": PLAIN | change}
    with pytest.raises(ValueError, match=f"^{message}"):
        Release.from_dict(content)
    for name in PLAIN:
        part = {key: value for key, value in PLAIN.items() if key != name}
        with pytest.raises(ValueError, match=rf"^ball lacks \['{name}'\]"):
            Release.from_dict(content | {"ball": part})


BARE = {name: value for name, value in release("gaussian").to_dict().items()
        if name not in ("mean", "step", "log_mean", "statistic", "largest_share")}
POINT = np.eye(3).tolist()
CLASSES = {"means": [POINT] * 2, "steps": [[0.0] * 6] * 2, "labels": ["a", "b"],
           "counts": [9.5, -0.5]}
CURVE = {"point": POINT, "velocity": [0.0] * 6, "x_range": [0.0, 1.0], "speed": 1.0}


@pytest.mark.parametrize("released", [
    CLASSES, CURVE, {"spread": 0.0}, {"count": 3}, {"count": 0, "group": 4},
    CLASSES | {"labels": [0, 2.5], "shares": {"ball": 0.1, "means": 0.9}},
    {"spread": 0.3, "regions": {"0.95": 0.2}, "bias": 0.0, "shares": {"mean": 0.9, "spread": 0.1},
     "noises": {"spread": {"sigma": 0.1}}, "ball": PLAIN | {"private": True}},
])
def test_other_releases_come_back_as_they_were(released):
    one = Release.from_dict(BARE | released)
    assert one.to_dict() == BARE | released and one.mean is None
    assert Release.from_json(one.to_json()) == pickle.loads(pickle.dumps(one)) == one
    assert one != release("gaussian")


@pytest.mark.parametrize("released, message", [
    ({}, r"document has no release; accepted is one with some of \['mean', 'means', 'point', "),
    ({"regions": {"0.95": 0.2}}, "document has no release"),
    (CLASSES | {"means": [POINT] * 3}, r"means has shape \(3, 3, 3\); accepted is \(2, 3, 3\)"),
    (CLASSES | {"counts": [1.0]}, r"counts has shape \(1,\); accepted is \(2,\), one for each"),
    (CURVE | {"point": [[1.0]]}, r"point has shape \(1, 1\); accepted is \(3, 3\), that of the"),
    (CURVE | {"velocity": [[0.0]]}, r"velocity has shape \(1, 1\); accepted is \(dim,\)"),
    (CURVE | {"x_range": [0.0]}, r"x_range has shape \(1,\); accepted is \(2,\), two ends"),
])
def test_other_releases_that_do_not_fit_themselves_are_refused(released, message):
    with pytest.raises(ValueError, match=f"^{message}"):
        Release.from_dict(BARE | released)


FIRST = {name: (pathlib.Path(__file__).parent / f"data/release_v1_{name}.json").read_text()
         for name in ("matrices", "shapes")}


@pytest.mark.parametrize("name", FIRST)
def test_a_document_of_version_1_is_read_to_the_same_bits(name):
    text, one = json.loads(FIRST[name]), Release.from_json(FIRST[name])
    now = one.to_dict()
    ball = {field: text.pop(field) for field in ("radius", "center", "space")} | {"private": False}
    assert now.pop("estimator") == "PrivateFrechetMean" and now.pop("ball") == ball
    assert now | {"version": 1} == {key: each for key, each in text.items() if each is not None}
    assert Release.from_json(one.to_json()) == one
    assert not one.mean.flags.writeable and one.mean.dtype.kind == {"matrices": "f", "shapes": "c"}[
        name]


def test_what_somebody_hangs_on_a_release_does_not_leave_with_it():
    one = release("gaussian")
    for each in one, one.ball, pickle.loads(pickle.dumps(one)):
        vars(each)["norm"] = SECRET
        assert str(SECRET)[2:] not in one.to_json() + repr(each)


def test_a_document_of_version_1_has_its_own_fields_and_no_others():
    content = json.loads(FIRST["matrices"])
    for name in set(content) - {"schema", "version"}:
        part = {key: value for key, value in content.items() if key != name}
        with pytest.raises(ValueError, match=rf"^document lacks \['{name}'\]"):
            Release.from_dict(part)
    for change in {"spread": 1.0}, {"estimator": "PrivateClassMeans"}:
        with pytest.raises(ValueError, match="^document has .*; accepted are no other fields"):
            Release.from_dict(content | change)
    for change, message in [({"radius": 0}, "radius is 0"), ({"mean": None}, "mean is None"),
                            ({"center": [[1.0]]}, "mean has shape"), ({"mu": "1"}, "mu is '1'")]:
        with pytest.raises(ValueError, match=f"^{message}"):
            Release.from_dict(content | change)
    assert content == json.loads(FIRST["matrices"])  # which reading has left as it was
