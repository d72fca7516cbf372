"""The feature report: what is used, how strongly, what can be unplugged."""

from __future__ import annotations

import json
from pathlib import Path

import numpy as np
import pytest

from nesht.policies.moments import Moments
from nesht.policies.network import Network
from nesht.policies.saved import Policy
from nesht.report.features import feature_report


def policy(weights: np.ndarray, std: np.ndarray, n_real: int, normalise: bool = False) -> Policy:
    outputs, inputs = weights.shape
    names = [f"sensor {i}" for i in range(n_real)] + [f"noise {i}" for i in range(inputs - n_real)]
    moments = Moments(np.asarray(10.0), np.zeros(inputs), 10 * std**2)
    network = Network(inputs, outputs, bias=False)
    return Policy(network, weights.ravel(), moments, normalise, names, {"env": "none", "n_real": n_real})


WEIGHTS = np.array([[3.0, 0.0, 0.0, 1.0, 0.0], [4.0, 0.0, 2.0, 0.0, 0.0]])
STD = np.array([1.0, 1.0, 10.0, 2.0, 1.0])


def test_effects_are_weights_times_spread_strongest_first() -> None:
    report = feature_report(policy(WEIGHTS, STD, n_real=3))
    assert [feature.index for feature in report.used] == [2, 0, 3]
    np.testing.assert_allclose([feature.effect for feature in report.used], [20, 5, 2])
    assert sum(feature.share for feature in report.used) == pytest.approx(1)


def test_a_normaliser_already_took_the_spread_out() -> None:
    report = feature_report(policy(WEIGHTS, STD, n_real=3, normalise=True))
    assert [feature.index for feature in report.used] == [0, 2, 3]
    np.testing.assert_allclose([feature.effect for feature in report.used], [5, 2, 1])


def test_precision_recall_leak_and_what_can_be_unplugged() -> None:
    report = feature_report(policy(WEIGHTS, STD, n_real=3))
    assert report.precision == pytest.approx(2 / 3)
    assert report.recall == pytest.approx(2 / 3)
    assert report.noise_leak == pytest.approx(4 / (400 + 25 + 4))
    assert report.unplug == ["sensor 1"]


def test_without_distractors_nobody_knows_what_is_real() -> None:
    report = feature_report(policy(WEIGHTS, STD, n_real=5))
    assert report.precision is None
    assert report.recall is None
    assert all(feature.real is None for feature in report.used)
    assert report.unplug == ["sensor 1", "sensor 4"]


def test_a_policy_of_zeros_uses_nothing(tmp_path: Path) -> None:
    report = feature_report(policy(np.zeros((2, 5)), STD, n_real=3))
    assert report.used == []
    assert report.precision is None
    assert report.recall == 0
    json.dumps(report.as_dict())
