"""The audit stays below what is promised, shows broken mechanisms, and is as sure as it says."""

import math

import numpy as np
import pytest

from spdlib.audit import audit
from spdlib.mechanisms import L2Mechanism, RiemannianLaplace, TangentGaussian
from spdlib.spaces import Euclidean
from spdlib.spd import invvecd, vecd

D, SIZE, SURE = 3, 40_000, 1 - 1e-6
SHIFT = np.eye(D)[0]
PROMISES = {
    "tangent Gaussian": (TangentGaussian, (1.0, 0.1)),
    "l2": (lambda *promise: L2Mechanism(*promise, D), (1.0, 0.1)),
    "Laplace": (RiemannianLaplace, (1.0,)),
    "extrinsic": (TangentGaussian, (1.0, 0.1)),
}


def loss_order(x):
    """Increasing in the log-likelihood ratio, for noise of which only the length counts."""
    return np.linalg.norm(x - SHIFT, axis=1) - np.linalg.norm(x, axis=1)


@pytest.mark.parametrize("score", [None, loss_order], ids=["learnt", "likelihood"])
@pytest.mark.parametrize("name", PROMISES)
def test_it_stays_below_the_promise_and_exceeds_it_for_noise_of_half_the_scale(name, score):
    make, promise = PROMISES[name]
    rng, epsilon, delta = np.random.default_rng(1), promise[0], sum(promise[1:])

    def sample(mechanism, centre):
        if name == "extrinsic":  # noise on the matrix itself
            return vecd(mechanism.release(invvecd(centre), rng, SIZE, Euclidean(2)))
        return mechanism.perturb(centre, rng, SIZE)

    def shown(sensitivity):
        mechanism = make(sensitivity, *promise)
        releases, neighbours = sample(mechanism, 0 * SHIFT), sample(mechanism, SHIFT)
        return audit(releases, neighbours, delta, SURE, score)

    assert 0.4 * epsilon < shown(1.0) <= epsilon < shown(0.5)


@pytest.mark.slow
def test_a_share_of_bounds_as_large_as_stated_is_true():
    rng, epsilon = np.random.default_rng(2), math.log(3)
    # randomised response: the best event shows ε exactly
    answers = rng.random((2000, 200, 1)) < 0.75, rng.random((2000, 200, 1)) < 0.25
    bounds = [audit(a.astype(int), b.astype(int), 0, 0.8, score=lambda x: x[:, 0])
              for a, b in zip(*answers, strict=True)]
    assert np.mean(np.array(bounds) > epsilon) < 0.2


def test_equal_laws_show_nothing():
    x = np.random.default_rng(3).standard_normal((2, 4000, 2))
    assert audit(x[0], x[1], 0, SURE) == 0


def test_an_event_that_only_one_data_set_produces_shows_what_the_sample_can():
    epsilon = audit(np.ones((1000, 1)), np.zeros((1000, 1)), 0)
    assert 4 < epsilon < math.log(500)


@pytest.mark.parametrize("arguments, message", [
    ({"delta": 1}, "delta is 1; accepted"), ({"delta": math.nan}, "delta is nan"),
    ({"delta": "x"}, "delta is 'x'; accepted"),
    ({"confidence": 1}, "confidence is 1; accepted"), ({"confidence": True}, "confidence is True"),
    ({"releases": np.zeros((8, 3))}, r"shapes \(8, 3\) and \(8, 2\)"),
    ({"releases": np.full((8, 2), np.nan)}, r"releases\[0, 0\] is nan"),
    ({"releases": np.ones((8, 2), bool)}, "releases is an array of dtype bool"),
    ({"score": lambda x: x},
     r"score returns shape \(4, 2\) for releases of shape \(4, 2\); accepted is \(4,\)"),
    ({"score": lambda x: np.full(len(x), np.nan)}, r"score\[0\] is nan"),
    ({"releases": np.zeros((3, 2)), "neighbours": np.zeros((3, 2))}, "m ≥ 4"),
])
def test_bad_input_is_named(arguments, message):
    good = {"releases": np.zeros((8, 2)), "neighbours": np.zeros((8, 2)), "delta": 0.1}
    with pytest.raises(ValueError, match=message):
        audit(**good | arguments)
