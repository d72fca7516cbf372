"""How often inputs are chosen over runs."""

from __future__ import annotations

import json

import numpy as np
import pytest

from nesht.policies import Moments, Network, Policy
from nesht.report.stability import stability

INPUTS = 20


def choosing(*inputs: int, names: str = "sensor", n_real: int = INPUTS) -> Policy:
    weights = np.zeros((2, INPUTS))
    weights[:, inputs] = 1.0
    moments = Moments(np.asarray(10.0), np.zeros(INPUTS), np.full(INPUTS, 10.0))
    feature_names = [f"{names} {i}" for i in range(INPUTS)]
    network = Network(INPUTS, 2, bias=False)
    return Policy(network, weights.ravel(), moments, False, feature_names, {"env": "none", "n_real": n_real})


def test_inputs_are_counted_the_most_frequent_first() -> None:
    found = stability([choosing(1, 2), choosing(2, 3), choosing(2)])
    assert found is not None
    assert [(choice.index, choice.runs) for choice in found.choices] == [(2, 3), (1, 1), (3, 1)]
    assert found.choices[0].share == pytest.approx((1 / 2 + 1 / 2 + 1) / 3)
    assert sum(choice.share for choice in found.choices) == pytest.approx(1)
    json.dumps(found.as_dict())


def test_agreement_is_one_if_all_runs_choose_the_same() -> None:
    found = stability([choosing(1, 2)] * 3)
    assert found is not None
    assert found.agreement == 1


def test_agreement_is_zero_on_average_if_runs_choose_at_random() -> None:
    rng = np.random.default_rng(0)
    found = []
    for _ in range(300):
        runs = stability([choosing(*rng.choice(INPUTS, 5, replace=False)) for _ in range(4)])
        assert runs is not None
        assert runs.agreement is not None
        found.append(runs.agreement)
    assert abs(np.mean(found)) < 4 * np.std(found) / len(found) ** 0.5


def test_agreement_says_nothing_where_there_is_nothing_to_choose() -> None:
    for inputs in ((), tuple(range(INPUTS))):
        found = stability([choosing(*inputs)] * 2)
        assert found is not None
        assert found.agreement is None


def test_only_runs_with_the_same_inputs_are_compared() -> None:
    assert stability([choosing(1)]) is None
    assert stability([choosing(1), choosing(1, names="other")]) is None
    assert stability([choosing(1), choosing(1, n_real=3)]) is None
