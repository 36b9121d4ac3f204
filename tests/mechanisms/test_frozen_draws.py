"""Draws for a given seed are those of version 0.1, which `frozen_draws.json` holds."""

import json
import pathlib

import numpy as np
import pytest
from mechanism_table import MEANS, noise

from spdlib import Ball, PrivateFrechetMean, random_spd

FROZEN = json.loads(pathlib.Path(__file__).with_name("frozen_draws.json").read_text())


@pytest.mark.parametrize("frozen", FROZEN["perturb"],
                         ids=lambda row: f"{row['mechanism']}-{row['k']}")
def test_noise_is_what_it_was(frozen):
    k = frozen["k"]
    d = k * (k + 1) // 2
    drawn = noise(frozen["mechanism"], d=d).perturb(np.arange(d) / 10, 100 + k)
    np.testing.assert_allclose(drawn, frozen["drawn"], rtol=1e-12)


@pytest.mark.parametrize("frozen", FROZEN["releases"],
                         ids=lambda row: f"{row['mechanism']}-{row['k']}-{row['centre']}")
def test_releases_inside_the_ball_are_what_they_were(frozen):
    k, mechanism = frozen["k"], frozen["mechanism"]
    center = np.diag(1 + np.arange(k) / 10) + 0.1 if frozen["centre"] else np.eye(k)
    private = PrivateFrechetMean(0.5, MEANS[mechanism].delta(1e-5), Ball(2.0, center), mechanism)
    released = private.fit(random_spd(400, k, 0.5, k), rng=200 + k).mean_
    largest = np.abs(frozen["mean"]).max()
    np.testing.assert_allclose(released, frozen["mean"], rtol=1e-12, atol=1e-12 * largest)
