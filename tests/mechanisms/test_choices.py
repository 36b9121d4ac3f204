"""A mechanism by its name, by its class, or with options: what it is, and what is refused."""

import copy
import pickle
import re

import numpy as np
import pytest
import sklearn.base
from mechanism_table import CURVES, MEANS
from tables import POLE, SPD, in_ball

import spdlib
from spdlib import (Ball, CurveKNormGradient, FrechetMean, KNormGradient, NoisyDescent,
                    PrivateClassMeans, PrivateFrechetMean, PrivateGeodesicRegression,
                    RiemannianLaplace, Sphere, TangentGaussian, TruncatedCurveLoss, TruncatedLoss,
                    records_needed)
from spdlib.mechanisms import DiscreteLaplace, GaussianNoise, Mechanism, Noise

POLAR = Ball(0.5, POLE, Sphere(2))
CHOICES = {
    "no option": lambda: KNormGradient.with_options(),
    "another class": lambda: TangentGaussian.with_options(),
    "a number": lambda: TruncatedLoss.with_options(clip=0.1),
    "another number": lambda: TruncatedLoss.with_options(clip=0.2),
    "a ball": lambda: RiemannianLaplace.with_options(domain=Ball(0.5, POLE, Sphere(2))),
    "another ball": lambda: RiemannianLaplace.with_options(domain=Ball(0.6, POLE, Sphere(2))),
    "several": lambda: KNormGradient.with_options(
        clip=0.1, domain=Ball(1.0, SPD), approximate=True),
    "for curves": lambda: TruncatedCurveLoss.with_options(clip=0.1),
}
every_choice = pytest.mark.parametrize("make", CHOICES.values(), ids=CHOICES)
COPIES = {"deepcopy": copy.deepcopy, "copy": copy.copy,
          "pickle": lambda x: pickle.loads(pickle.dumps(x))}
RNG = np.random.default_rng(0)
X = in_ball(POLAR, 12, RNG)


# what it is

@every_choice
def test_two_of_equal_options_are_equal_and_stand_for_one_another_in_sets(make):
    assert make() == make() and hash(make()) == hash(make()) and len({make(), make()}) == 1


def test_two_of_another_class_or_other_options_are_not():
    made = [make() for make in CHOICES.values()]
    assert all((a == b) == (a is b) for a in made for b in made)
    assert len(set(made)) == len(made)
    assert made[0] != KNormGradient and made[0] != "k-norm gradient"


def test_the_order_of_options_does_not_matter():
    one = KNormGradient.with_options(clip=0.1, approximate=True)
    assert one == KNormGradient.with_options(approximate=True, clip=0.1)


@every_choice
def test_it_does_not_change(make):
    one = make()
    for name in "mechanism", "options", "clip":
        with pytest.raises(AttributeError):
            setattr(one, name, 0.3)
    for name in "mechanism", "options":
        with pytest.raises(AttributeError):
            delattr(one, name)
    with pytest.raises(TypeError):
        one.options[0] = "clip", 0.3
    assert one == make()


@pytest.mark.parametrize("way", COPIES)
@every_choice
def test_a_copy_is_equal(make, way):
    one, other = make(), COPIES[way](make())
    assert one == other and hash(one) == hash(other) and repr(one) == repr(other)


@every_choice
def test_its_representation_is_what_makes_it(make):
    assert eval(repr(make()), vars(spdlib)) == make()


@pytest.mark.parametrize("way", [*COPIES, "clone"])
@every_choice
def test_an_estimator_that_holds_one_has_an_equal_one_after_any_copy(make, way):
    for private in (PrivateFrechetMean(1.0, 0, POLAR, make()),
                    PrivateClassMeans(1.0, 0, POLAR, [0, 1], make()),
                    PrivateGeodesicRegression(1.0, 0, POLAR, 1.0, mechanism=make())):
        other = (COPIES | {"clone": sklearn.base.clone})[way](private)
        assert other.mechanism == make() and repr(other) == repr(private)
        assert repr(make()) in repr(private)
        assert private.get_params()["mechanism"] is private.mechanism
        private.set_params(mechanism="gaussian")
        assert private.mechanism == "gaussian" and other.mechanism == make()


def test_a_fitted_estimator_that_holds_one_is_copied_and_cloned():
    private = PrivateFrechetMean(1.0, 0, POLAR, TruncatedLoss.with_options(clip=0.1))
    private.fit(X, rng=0)
    for way in COPIES.values():
        assert np.array_equal(way(private).mean_, private.mean_)
    clone = sklearn.base.clone(private)
    assert not hasattr(clone, "mean_") and np.array_equal(clone.fit(X, rng=0).mean_, private.mean_)


# three ways to say the same

def ways(name, row, radius):
    """All ways to name a mechanism; only with options, where it is not made without them."""
    return [row.choice(radius), *([] if row.options else [name, row.kind]), row.choice(radius)]


@pytest.mark.parametrize("name", [name for name, row in MEANS.items() if not row.kind.exact])
def test_a_name_a_class_and_a_choice_release_the_same_mean_at_one_seed(name):
    row = MEANS[name]
    fits = [PrivateFrechetMean(0.9, row.delta(1e-6), POLAR, way).fit(X, rng=3)
            for way in ways(name, row, POLAR.radius)]
    for fitted in fits[1:]:
        assert np.array_equal(fitted.mean_, fits[0].mean_)
        assert fitted.release_ == fits[0].release_ and fits[0].release_.mechanism == name
        assert repr(fitted.mechanism_) == repr(fits[0].mechanism_)


def test_exact_noise_is_named_in_three_ways_too():
    pytest.importorskip("opendp")
    row, ball = MEANS["discrete gaussian"], Ball(1.0, SPD)
    fits = [PrivateFrechetMean(0.9, 1e-6, ball, way).fit(in_ball(ball, 5, RNG))
            for way in ways("discrete gaussian", row, 1.0)]
    assert len({repr(fitted.mechanism_) for fitted in fits}) == 1
    assert all(type(fitted.mechanism_) is row.kind for fitted in fits)


@pytest.mark.parametrize("name", CURVES)
def test_a_name_a_class_and_a_choice_release_the_same_curve_at_one_seed(name):
    row, x = CURVES[name], np.linspace(0, 1, len(X))
    fits = [PrivateGeodesicRegression(0.9, row.delta(1e-6), POLAR, 0.5, mechanism=way)
            .fit(x, X, rng=3) for way in ways(name, row, POLAR.radius)]
    assert len({(fitted.point_.tobytes(), fitted.velocity_.tobytes(), fitted.privacy_)
                for fitted in fits}) == 1


@pytest.mark.parametrize("name", ["gaussian", "classical gaussian"])
def test_a_name_a_class_and_a_choice_release_the_same_class_means_at_one_seed(name):
    ball, row = Ball(1.0, SPD), MEANS[name]
    matrices = in_ball(ball, 12, np.random.default_rng(1))
    fits = [PrivateClassMeans(0.9, 1e-6, ball, [0, 1], way).fit(matrices, [0, 1] * 6, rng=3)
            for way in ways(name, row, 1.0)]
    assert len({fitted.means_.tobytes() + fitted.counts_.tobytes() for fitted in fits}) == 1


@pytest.mark.parametrize("name", ["gaussian", "classical gaussian", "l2", "laplace"])
def test_a_name_a_class_and_a_choice_need_as_many_records(name):
    row = MEANS[name]
    needed = [records_needed(Ball(1.0, np.eye(2)), 0.9, row.delta(1e-6), 0.05, way)
              for way in ways(name, row, 1.0)]
    assert len(set(needed)) == 1


def test_an_equal_choice_takes_the_next_batch_and_another_does_not():
    ball = Ball(1.0, SPD)
    private = PrivateFrechetMean(1.0, 0, ball, n=4)
    domain = RiemannianLaplace.with_options(domain=ball.of_radius(2.0))
    private.set_params(mechanism=domain).partial_fit(in_ball(ball, 2, RNG))
    private.set_params(mechanism=copy.deepcopy(domain)).partial_fit(in_ball(ball, 2, RNG))
    for other in (RiemannianLaplace.with_options(domain=ball.of_radius(3.0)), "laplace"):
        with pytest.raises(ValueError, match="mechanism is .*; accepted until the release is Riem"):
            private.set_params(mechanism=other).release(rng=0)
    private.set_params(mechanism=domain).release(rng=0)
    assert private.mechanism_.domain == ball.of_radius(2.0)


# what options do

def test_options_reach_the_mechanism_and_the_document_has_their_numbers():
    wide = POLAR.of_radius(0.8)
    for mechanism, public in (
            (KNormGradient.with_options(clip=0.2, domain=wide), {"clip": 0.2, "domain": 0.8}),
            (KNormGradient, {"clip": 1.0, "domain": 0.5}),
            (TruncatedLoss.with_options(clip=0.2, domain=wide), {"clip": 0.2, "domain": 0.8}),
            (RiemannianLaplace.with_options(domain=wide), {"domain": 0.8}),
            (RiemannianLaplace, {})):
        fitted = PrivateFrechetMean(1.0, 0, POLAR, mechanism).fit(X, rng=0)
        noise = fitted.release_.noise
        assert {name: noise[name] for name in noise if name in ("clip", "domain")} == public
        domain = getattr(fitted.mechanism_, "domain", None)
        assert domain is None or domain == POLAR.of_radius(public["domain"])
    x = np.linspace(0, 1, len(X))
    for kind, delta in ((TruncatedCurveLoss, 0), (CurveKNormGradient, 0), (NoisyDescent, 1e-6)):
        private = PrivateGeodesicRegression(1.0, delta, POLAR, 0.5,
                                            mechanism=kind.with_options(clip=0.2))
        assert private.fit(x, X, rng=0).mechanism_.clip == 0.2


def test_a_law_on_a_ball_that_is_not_harmless_lives_on_that_ball():
    """It may live on a wider one, that is named, or on the whole space, if one makes it so."""
    ball = POLAR.of_radius(1.2)  # of a sphere: harmless up to π/3
    assert not ball.harmless and POLAR.harmless
    options = {ball: {}, ball.of_radius(2.0): {"domain": ball.of_radius(2.0)}}
    for domain, named in options.items():
        private = PrivateFrechetMean(20.0, 0, ball, RiemannianLaplace.with_options(**named))
        mechanism = private.fit(X, rng=0).mechanism_
        assert (mechanism.domain, mechanism.rate) == (domain, "2Δ/ε")
        assert ball.space.dist(ball.center, private.mean_) <= domain.radius
    query = FrechetMean(X, ball)
    whole = RiemannianLaplace(query.sensitivity, 1.0, ball.space)
    assert whole.rate == "Δ/ε" and np.linalg.norm(whole.answer(query, 0, 500), axis=1).max() > 2
    assert PrivateFrechetMean(20.0, 0, POLAR, "laplace").fit(X, rng=0).mechanism_.domain is None


@pytest.mark.slow
def test_chains_answer_only_where_they_are_asked_for_and_the_promise_says_so():
    ball = Ball(0.05, np.eye(3), spdlib.AffineInvariant(3))
    matrices = in_ball(ball, 3, np.random.default_rng(0))
    words = "query has dimension 6; accepted are those up to 4.*unless approximate=True"
    with pytest.raises(ValueError, match=words):
        PrivateFrechetMean(1e3, 0, ball, TruncatedLoss.with_options(clip=0.05)).fit(matrices)
    private = PrivateFrechetMean(1e3, 0, ball,
                                 TruncatedLoss.with_options(clip=0.05, approximate=True))
    assert private.fit(matrices, rng=0).privacy_.startswith("not proved to be private")
    assert not hasattr(private, "release_")


# what is refused

OPTIONS = {kind: [] for kind in (row.kind for row in (*MEANS.values(), *CURVES.values()))} | {
    RiemannianLaplace: ["domain"], NoisyDescent: ["clip"],
    **dict.fromkeys((KNormGradient, TruncatedLoss), ["clip", "domain", "approximate"]),
    **dict.fromkeys((CurveKNormGradient, TruncatedCurveLoss), ["clip", "approximate"])}


@pytest.mark.parametrize("kind", OPTIONS, ids=lambda kind: kind.__name__)
def test_an_option_that_a_mechanism_does_not_have_is_refused_by_name(kind):
    known = OPTIONS[kind]
    assert dict(kind.with_options(**dict.fromkeys(known)).options) == dict.fromkeys(known)
    for name in {"radius", "query", "epsilon", "delta", "clip", "domain"}.difference(known):
        words = f"{name} is 0.1; accepted with {kind.name!r} are the options {known}"
        with pytest.raises(ValueError, match=f"^{re.escape(words)}$"):
            kind.with_options(**{name: 0.1})


@pytest.mark.parametrize("mechanism, words", [
    (TruncatedLoss, "clip is None; accepted with 'truncated loss' are numbers above 0, as of "
                    r"TruncatedLoss.with_options\(clip=...\)"),
    (TruncatedLoss.with_options(clip=-1.0), "clip is -1.0; accepted are finite numbers above 0"),
    (KNormGradient.with_options(clip="far"), "clip is 'far'; accepted are finite numbers above 0"),
    (KNormGradient.with_options(approximate="yes"), "approximate is 'yes'; accepted are True and"),
    (KNormGradient.with_options(domain=0.8), "domain is 0.8; accepted is a Ball of Sphere"),
    (RiemannianLaplace.with_options(domain=0.8), "domain is 0.8; accepted is a Ball of Sphere"),
    (RiemannianLaplace.with_options(domain=POLAR.of_radius(0.4)), "query lies up to .* from the "
     "centre of the domain; accepted is up to 0.4, its radius"),
])
def test_an_option_that_is_none_is_refused_when_the_mechanism_is_made(mechanism, words):
    with pytest.raises(ValueError, match=f"^{words}"):
        PrivateFrechetMean(1.0, 0, POLAR, mechanism).fit(X, rng=0)


@pytest.mark.parametrize("kind", [RiemannianLaplace, KNormGradient, TruncatedLoss])
@pytest.mark.parametrize("ball, domain", [
    (POLAR, Ball(1.5, [0, 0.6, 0.8], Sphere(2))), (Ball(1.0, SPD), Ball(3.0, 2 * SPD)),
], ids=["a sphere", "a flat space"])
def test_a_domain_about_another_centre_is_refused_since_documents_show_its_radius_alone(
        kind, ball, domain):
    private = PrivateFrechetMean(9.0, 0, ball, kind.with_options(domain=domain))
    with pytest.raises(ValueError, match="^domain is .*; accepted is a ball about the centre of"):
        private.fit(in_ball(ball, 9, RNG), rng=0)


@pytest.mark.parametrize("kind, words", [
    (TruncatedCurveLoss, r"clip is None; .* as of TruncatedCurveLoss.with_options\(clip=...\)"),
    (CurveKNormGradient, r"clip is None; .* as of CurveKNormGradient.with_options\(clip=...\)"),
    (TruncatedCurveLoss.with_options(clip=0), "clip is 0; accepted are numbers from 1e-100"),
    (CurveKNormGradient.with_options(clip=1.0, approximate=1), "approximate is 1; accepted are"),
])
def test_an_option_for_curves_that_is_none_is_refused_when_the_mechanism_is_made(kind, words):
    private = PrivateGeodesicRegression(1.0, 0, POLAR, 0.5, mechanism=kind)
    with pytest.raises(ValueError, match=f"^{words}"):
        private.fit(np.linspace(0, 1, len(X)), X, rng=0)


NAMES = ["classical gaussian", "discrete gaussian", "discrete laplace", "gaussian",
         "k-norm gradient", "l2", "laplace", "truncated loss"]
NONE = {"another name": "gaussia", "a number": 3, "an array": np.eye(3), "another class": int,
        "one that is made": TangentGaussian(1.0, 1.0, 1e-6), "a class of its own kind":
        type(TangentGaussian.with_options())}
UNMADE = Mechanism, Noise, GaussianNoise, DiscreteLaplace  # not for a query


@pytest.mark.parametrize("mechanism", [*NONE.values(), *UNMADE], ids=[*NONE, *map(repr, UNMADE)])
def test_what_is_no_mechanism_is_refused_with_what_is_accepted(mechanism):
    words = rf"are {re.escape(str(NAMES))}, a class of a mechanism for means, and one with_options"
    words = f"(?s)^mechanism is .*; accepted (is a class that defines `of`|{words})$"
    for refused in (lambda: PrivateFrechetMean(1.0, 1e-6, POLAR, mechanism).fit(X, rng=0),
                    lambda: PrivateClassMeans(1.0, 1e-6, POLAR.tangent(), [0], mechanism)
                    .fit(X, [0] * len(X), rng=0),
                    lambda: records_needed(Ball(1.0, np.eye(2)), 1.0, 1e-6, 0.1, mechanism)):
        with pytest.raises(ValueError, match=words):
            refused()


@pytest.mark.parametrize("kind", UNMADE)
def test_a_class_that_is_not_made_for_queries_takes_no_options(kind):
    with pytest.raises(ValueError, match=f"^mechanism is {kind!r}; accepted is a class that def"):
        kind.with_options()


@pytest.mark.parametrize("name", CURVES)
def test_a_mechanism_for_curves_is_refused_for_means(name):
    row = CURVES[name]
    for mechanism in (row.kind, row.choice(), *([name] if name not in MEANS else [])):
        for private in (PrivateFrechetMean(1.0, 0, POLAR, mechanism),
                        PrivateClassMeans(1.0, 0, POLAR.tangent(), [0], mechanism)):
            arguments = [X] if isinstance(private, PrivateFrechetMean) else [X, [0] * len(X)]
            with pytest.raises(ValueError, match="^mechanism is .* of a mechanism for means"):
                private.fit(*arguments, rng=0)


@pytest.mark.parametrize("name", MEANS)
def test_a_mechanism_for_means_is_refused_for_curves(name):
    row = MEANS[name]
    for mechanism in (row.kind, row.choice(), *([name] if name not in CURVES else [])):
        private = PrivateGeodesicRegression(1.0, 0, POLAR, 0.5, mechanism=mechanism)
        with pytest.raises(ValueError, match="^mechanism is .* of a mechanism for curves"):
            private.fit(np.linspace(0, 1, len(X)), X, rng=0)
