from __future__ import annotations

import numpy as np
import pytest

from nesht.errors import UserError
from nesht.policies import Network
from nesht.strategy import hard_threshold

MLP = Network(3, 2, (4,))  # layer0.weight 0-11, layer0.bias 12-15, layer1.weight 16-23, layer1.bias 24-25


def positions(network: Network, unit: str, scope: str) -> list[list[list[int]]]:
    return [pool.tolist() for pool in network.units(unit, scope).pools]


def singles(*stretches: tuple[int, int]) -> list[list[int]]:
    return [[i] for start, stop in stretches for i in range(start, stop)]


@pytest.mark.parametrize(
    ("scope", "pools"),
    [
        ("all", [singles((0, 26))]),
        ("weights", [singles((0, 12), (16, 24))]),
        ("per-layer", [singles((0, 12)), singles((16, 24))]),
        ("layer1.weight", [singles((16, 24))]),
        ("layer0.bias", [singles((12, 16))]),
        ("layer1.bias,layer0.weight", [singles((24, 26), (0, 12))]),
    ],
)
def test_single_weights_compete_within_their_scope(scope: str, pools: list[list[list[int]]]) -> None:
    assert positions(MLP, "weight", scope) == pools
    assert MLP.units("weight", scope).size == 26


@pytest.mark.parametrize("scope", ["all", "layer0.weight"])
@pytest.mark.parametrize("network", [MLP, Network(3, 4), Network(3, 4, bias=False)])
def test_a_feature_is_a_unit_with_all_the_weights_that_read_it(network: Network, scope: str) -> None:
    assert positions(network, "feature", scope) == [[[0, 3, 6, 9], [1, 4, 7, 10], [2, 5, 8, 11]]]


def test_cutting_features_unplugs_inputs_and_nothing_else() -> None:
    theta = np.random.default_rng(0).standard_normal((1, MLP.size))
    cut = hard_threshold(theta, [np.array([1])], MLP.units("feature", "all"))
    used = (MLP.input_weights(cut)[0] != 0).any(axis=0)
    assert used.sum() == 1
    assert used.argmax() == np.linalg.norm(MLP.input_weights(theta)[0], axis=0).argmax()
    assert (cut[:, 12:] == theta[:, 12:]).all()


def test_cutting_weights_leaves_biases_alone() -> None:
    theta = np.full((1, MLP.size), 1.0)
    theta[:, 12:16] = theta[:, 24:] = 0.001
    cut = hard_threshold(theta, [np.array([5])], MLP.units("weight", "weights"))
    assert np.count_nonzero(cut) == 5 + 6
    assert (cut[:, 12:16] == 0.001).all()


def test_without_biases_all_and_weights_are_the_same_scope() -> None:
    network = Network(3, 2, (4,), bias=False)
    assert positions(network, "weight", "all") == positions(network, "weight", "weights")


@pytest.mark.parametrize(
    ("unit", "scope", "word"),
    [
        ("column", "all", "unit .*column"),
        ("", "all", "unit"),
        ("feature", "weights", "scope"),
        ("feature", "per-layer", "scope"),
        ("feature", "layer1.weight", "scope"),
        ("weight", "layer2.weight", "scope.*layer2.weight.*layer0.weight, layer0.bias, layer1.weight"),
        ("weight", "layer0", "scope.*layer0"),
        ("weight", "", "scope"),
        ("weight", "all,layer0.weight", "scope"),
        ("weight", "layer0.weight,nothing", "scope.*nothing"),
        ("weight", "layer0.weight,layer0.weight", "scope.*layer0.weight"),
    ],
)
def test_a_bad_unit_or_scope_is_refused_with_one_sentence(unit: str, scope: str, word: str) -> None:
    with pytest.raises(UserError, match=word) as caught:
        MLP.units(unit, scope)
    assert str(caught.value).endswith(".")
