"""Arguments of earlier versions are refused, and the refusal shows the call of today."""

import inspect
import re

import numpy as np
import pytest

import spdlib
from spdlib import (Ball, FrechetMean, PrivateClassMeans, PrivateFrechetMean,
                    PrivateGeodesicRegression, private_clipped_count, random_spd)
from spdlib.audit import adversaries

X, BALL = random_spd(12, 2, 0.3, 0), Ball(1.0, np.eye(2))
MEAN, CLASSES, CURVE = PrivateFrechetMean, PrivateClassMeans, PrivateGeodesicRegression
OLD = {"radius": 1.0, "center": np.eye(2), "space": spdlib.LogEuclidean(2)}
REFUSED = [
    *[(kind, name, value, f"{ball}=Ball(radius, center, space)")
      for kind, ball in ((MEAN, "ball"), (CLASSES, "ball"), (CURVE, "domain"))
      for name, value in OLD.items()],
    (MEAN, "clip", 0.1, "mechanism=TruncatedLoss.with_options(clip=...)"),
    (MEAN, "domain", 2.0, "mechanism=RiemannianLaplace.with_options(domain=Ball(...))"),
    (MEAN, "approximate", True, "mechanism=KNormGradient.with_options(approximate=True)"),
    (CURVE, "clip", 0.1, "mechanism=TruncatedCurveLoss.with_options(clip=...)"),
    (CURVE, "approximate", True,
     "mechanism=CurveKNormGradient.with_options(clip=..., approximate=True)"),
]


@pytest.mark.parametrize("kind, name, value, shown", REFUSED,
                         ids=[f"{kind.__name__}-{name}" for kind, name, *_ in REFUSED])
def test_an_old_argument_is_refused_with_what_stands_in_its_place(kind, name, value, shown):
    call = f"{kind.__name__}({', '.join(kind(1.0, 0).get_params())})"
    for given in (value, None):  # the old default, too: nobody shall think that it counts
        words = f"{name} is {given!r}; accepted in its place is {shown}: {call}"
        with pytest.raises(ValueError, match=f"^{re.escape(words)}$"):
            kind(1.0, 0, **{name: given})
        with pytest.raises(ValueError, match=f"^{re.escape(words)}$"):
            kind(1.0, 0).set_params(**{name: given})


FITS = {
    MEAN: lambda **made: MEAN(**{"epsilon": 1.0, "delta": 1e-6, "ball": BALL} | made).fit(X),
    CLASSES: lambda **made: CLASSES(
        **{"epsilon": 1.0, "delta": 1e-6, "classes": [0, 1]} | made).fit(X, [0, 1] * 6),
    CURVE: lambda **made: CURVE(
        **{"epsilon": 1.0, "delta": 1e-6, "domain": BALL, "speed": 0.5} | made)
    .fit(np.linspace(0, 1, 12), X),
}


@pytest.mark.parametrize("kind, shown", sorted({(kind.__name__, shown)
                                                for kind, *_, shown in REFUSED}))
def test_what_is_shown_is_accepted(kind, shown):
    """With numbers in the places of the dots."""
    written = shown.replace("clip=...", "clip=0.3").replace("Ball(...)", "Ball(2.0, center)")
    made = eval(f"dict({written})", vars(spdlib) | OLD)
    if "mechanism" in made:
        made["delta"] = 0
    FITS[getattr(spdlib, kind)](**made)


@pytest.mark.parametrize("call, name", [
    (lambda: MEAN(1.0, 1e-6, 2.0).fit(X), "ball"),
    (lambda: MEAN(1.0, 1e-6, 2.0, np.eye(2), "l2").fit(X), "ball"),
    (lambda: MEAN(1.0, 1e-6, 2.0, n=12).partial_fit(X), "ball"),
    (lambda: MEAN(1.0, 1e-6).fit(X), "ball"),
    (lambda: MEAN(1.0, 1e-6, 2.0, statistic="tangent").fit(X), "ball"),
    (lambda: CLASSES(1.0, 1e-6, 2.0, [0]).fit(X, [0] * 12), "ball"),
    (lambda: CURVE(1.0, 1e-6, 0.5, 1.0).fit(np.arange(12), X), "domain"),
    (lambda: CURVE(1.0, 1e-6, 0.5, 1.0, np.eye(2)).fit(np.arange(12), X), "domain"),
    (lambda: spdlib.expected_curve_error(CURVE(1.0, 1e-6, 0.5, 1.0), 12), "domain"),
    (lambda: private_clipped_count(X, np.eye(2), 1.0), "ball"),
    (lambda: FrechetMean(X, None, 1.0), "ball"),
    (lambda: adversaries(X, None, 1.0), "ball"),
])
def test_in_the_place_of_the_old_radius_or_centre_a_ball_is_asked_for(call, name):
    words = (rf"(?s)^{name} is .*; accepted is a Ball, such as Ball\(radius, center, space\) or "
             r"Ball.from_bounds\(low, high, k\)$")
    with pytest.raises(ValueError, match=words):
        call()


@pytest.mark.parametrize("kind", [MEAN, CLASSES, CURVE])
def test_an_argument_that_there_never_was_is_refused_with_those_that_there_are(kind):
    names = [*kind(1.0, 0).get_params()]
    words = f"{kind.__name__} has no argument 'sigma'; accepted are {names}"
    with pytest.raises(TypeError, match=re.escape(words)):
        kind(1.0, 0, sigma=1.0)
    parameters = inspect.signature(kind).parameters.values()
    assert names == [each.name for each in parameters if each.kind != each.VAR_KEYWORD]
    with pytest.raises(ValueError, match="parameter is 'sigma'; accepted are "):
        kind(1.0, 0).set_params(sigma=1.0)


def test_a_ball_in_the_place_of_delta_is_named():
    with pytest.raises(ValueError, match=r"delta is Ball\(1.0.*; accepted is a number, and then"):
        PrivateFrechetMean(1.0, Ball(1.0, np.eye(2))).fit(np.ones((5, 2, 2)))
