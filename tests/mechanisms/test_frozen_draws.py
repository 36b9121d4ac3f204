"""Draws for a given seed are those of version 0.1, which `frozen_draws.json` holds."""

import json
import pathlib

import numpy as np
import pytest

from spdlib import L2Mechanism, PrivateFrechetMean, RiemannianLaplace, TangentGaussian, random_spd

FROZEN = json.loads(pathlib.Path(__file__).with_name("frozen_draws.json").read_text())
MAKE = {
    "gaussian": lambda d: TangentGaussian(0.2, 0.5, 1e-5),
    "classical gaussian": lambda d: TangentGaussian(0.2, 0.5, 1e-5, "classical"),
    "l2": lambda d: L2Mechanism(0.2, 0.5, 1e-5, d),
    "laplace": lambda d: RiemannianLaplace(0.2, 0.5),
}


@pytest.mark.parametrize("frozen", FROZEN["perturb"],
                         ids=lambda row: f"{row['mechanism']}-{row['k']}")
def test_noise_is_what_it_was(frozen):
    k = frozen["k"]
    d = k * (k + 1) // 2
    drawn = MAKE[frozen["mechanism"]](d).perturb(np.arange(d) / 10, 100 + k)
    np.testing.assert_allclose(drawn, frozen["drawn"], rtol=1e-12)


@pytest.mark.parametrize("frozen", FROZEN["releases"],
                         ids=lambda row: f"{row['mechanism']}-{row['k']}-{row['centre']}")
def test_releases_inside_the_ball_are_what_they_were(frozen):
    k, mechanism = frozen["k"], frozen["mechanism"]
    center = np.diag(1 + np.arange(k) / 10) + 0.1 if frozen["centre"] else None
    private = PrivateFrechetMean(0.5, 0 if mechanism == "laplace" else 1e-5, 2.0, center, mechanism)
    released = private.fit(random_spd(400, k, 0.5, k), rng=200 + k).mean_
    largest = np.abs(frozen["mean"]).max()
    np.testing.assert_allclose(released, frozen["mean"], rtol=1e-12, atol=1e-12 * largest)
