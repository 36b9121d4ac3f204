"""Noise in integers for a count: its law, its promise, and what it costs beside others."""

import math
import random
from fractions import Fraction

import numpy as np
import pytest

from spdlib import BudgetAccountant, TangentGaussian
from spdlib.accounting import compose
from spdlib.mechanisms import DiscreteLaplace


@pytest.mark.slow
@pytest.mark.parametrize("epsilon", [0.3, 1.0, 2.5])
def test_the_noise_of_a_count_has_the_law_of_which_the_promise_is_proved(epsilon):
    m, q, source = 40_000, math.exp(-epsilon), random.Random(0)
    mechanism = DiscreteLaplace(epsilon)
    draws = np.array([mechanism.draw(source) for _ in range(m)])

    def cdf(z):
        return np.where(z < 0, q ** -np.minimum(z, 0.0) / (1 + q), 1 - q ** (z + 1.0) / (1 + q))

    z = np.arange(-60, 61)
    band = math.sqrt(math.log(2 / 1e-6) / (2 * m))
    found = np.searchsorted(np.sort(draws), z, side="right") / m
    assert np.abs(found - cdf(z)).max() < band
    assert np.abs(found - np.where(z < 0, cdf(z), cdf(z) * (1 + q) / (1 + 2 * q))).max() > band


def test_the_scale_of_a_count_is_rounded_to_the_safe_side():
    for epsilon in (1e-6, 0.1, 1 / 3, 1.0, 7.7, 1e3, *np.linspace(0.2, 0.9, 50)):
        mechanism = DiscreteLaplace(epsilon)
        assert 1 / Fraction(mechanism.scale) <= mechanism.loss <= epsilon  # exact, no 53 bits


def test_two_counts_cost_what_their_laws_say():
    a, b = 0.3, 0.5
    size = np.arange(-400, 401)
    laws = []
    for epsilon in (a, b):
        p = np.exp(-epsilon * np.abs(size))
        laws.append((p / p.sum(), np.exp(-epsilon * np.abs(size - 1)) / p.sum()))
    together = compose([DiscreteLaplace(a), DiscreteLaplace(b)], 1)
    for epsilon in (0.1, 0.4, 0.7):
        exact = sum(np.maximum(np.multiply.outer(*(law[i] for law in laws)) - math.exp(epsilon)
                    * np.multiply.outer(*(law[1 - i] for law in laws)), 0).sum() for i in (0, 1))
        assert exact / 2 <= together.delta(epsilon) * (1 + 1e-9) <= exact / 2 + 2e-3


def test_counts_and_means_share_an_account():
    account = BudgetAccountant(1.0, 1e-6)
    for mechanism in DiscreteLaplace(0.2), TangentGaussian(1.0, 0.5, 1e-6):
        with account.spending(mechanism, 1):
            pass
    assert 0.5 < account.total() < 0.7
