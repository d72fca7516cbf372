from __future__ import annotations

import math
from itertools import pairwise

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from nesht.policies import Network

modest = settings(deadline=None, max_examples=30)
width = st.integers(1, 5)
networks = st.builds(Network, width, width, st.lists(width, max_size=3).map(tuple), st.booleans(), st.booleans())
SHAPES = [(), (8,), (32, 16)]


def members(network: Network, count: int, seed: int = 0) -> tuple[np.ndarray, np.ndarray]:
    """Return random parameters and features of some members."""
    rng = np.random.default_rng(seed)
    return rng.standard_normal((count, network.size)), rng.standard_normal((count, network.inputs))


def naive(network: Network, parameters: np.ndarray, features: np.ndarray) -> list[float]:
    """Evaluate one member with plain numbers, reading the parameters one after the other."""
    numbers = iter(parameters.tolist())
    x: list[float] = features.tolist()
    widths = [*network.hidden, network.outputs]
    for layer, fan_out in enumerate(widths):
        x = [sum(next(numbers) * value for value in x) for _ in range(fan_out)]
        if network.bias:
            x = [value + next(numbers) for value in x]
        if layer < len(widths) - 1:
            x = [math.tanh(value) for value in x]
    assert next(numbers, None) is None
    return x


@modest
@given(networks)
def test_blocks_tile_the_parameter_vector(network: Network) -> None:
    at = 0
    for block in network.blocks:
        assert block.start == at
        assert block.stop - block.start == math.prod(block.shape)
        at = block.stop
    assert at == network.size
    assert len({block.name for block in network.blocks}) == len(network.blocks)
    assert len(network.blocks) == (len(network.hidden) + 1) * (1 + network.bias)


def test_blocks_are_named_and_shaped_as_in_torch() -> None:
    blocks = {block.name: block.shape for block in Network(5, 2, (4,)).blocks}
    assert blocks == {"layer0.weight": (4, 5), "layer0.bias": (4,), "layer1.weight": (2, 4), "layer1.bias": (2,)}
    assert [block.name for block in Network(5, 2, bias=False).blocks] == ["layer0.weight"]


@modest
@given(networks, st.integers(0, 99))
def test_a_block_is_a_view_of_its_stretch(network: Network, seed: int) -> None:
    parameters, _ = members(network, 3, seed)
    for block in network.blocks:
        view = block.of(parameters)
        assert view.shape == (3, *block.shape)
        assert (view.reshape(3, -1) == parameters[:, block.start : block.stop]).all()


@modest
@given(networks, st.integers(1, 4), st.integers(0, 99))
def test_the_forward_pass_is_that_of_each_member_by_itself(network: Network, count: int, seed: int) -> None:
    parameters, features = members(network, count, seed)
    outputs = network.forward(parameters, features)
    assert outputs.shape == (count, network.outputs)
    for i in range(count):
        assert outputs[i].tolist() == pytest.approx(naive(network, parameters[i], features[i]), rel=1e-12, abs=1e-12)


@pytest.mark.parametrize("hidden", SHAPES)
@pytest.mark.parametrize("bias", [True, False])
def test_the_forward_pass_agrees_with_torch(hidden: tuple[int, ...], bias: bool) -> None:
    torch = pytest.importorskip("torch")
    network = Network(11, 3, hidden, bias)
    widths = (11, *hidden, 3)
    layers = [torch.nn.Linear(a, b, bias, dtype=torch.float64) for a, b in pairwise(widths)]
    modules = [module for layer in layers for module in (torch.nn.Tanh(), layer)][1:]
    model = torch.nn.Sequential(*modules)
    flat = torch.cat([parameter.detach().ravel() for parameter in model.parameters()]).numpy()
    _, features = members(network, 9)
    theirs = model(torch.as_tensor(features)).detach().numpy()
    assert np.allclose(network.forward(np.tile(flat, (9, 1)), features), theirs, rtol=1e-12, atol=1e-14)


@pytest.mark.parametrize("hidden", SHAPES)
@pytest.mark.parametrize(("inputs", "outputs"), [(1, 1), (5, 1), (121, 3), (357, 6), (9000, 2)])
def test_a_member_has_the_same_bits_in_any_batch(inputs: int, outputs: int, hidden: tuple[int, ...]) -> None:
    network = Network(inputs, outputs, hidden if inputs < 1000 else ())
    parameters, features = members(network, 64)
    whole = network.forward(parameters, features)
    for start, stop in [(0, 1), (63, 64), (0, 7), (20, 27), (31, 64)]:
        assert (network.forward(parameters[start:stop], features[start:stop]) == whole[start:stop]).all()
    order = np.random.default_rng(1).permutation(64)
    assert (network.forward(parameters[order], features[order]) == whole[order]).all()


@pytest.mark.parametrize("hidden", SHAPES)
def test_one_parameter_vector_for_many_gives_the_same_bits_as_copies_of_it(hidden: tuple[int, ...]) -> None:
    network = Network(121, 3, hidden)
    parameters, features = members(network, 40)
    shared = np.broadcast_to(parameters[0], parameters.shape)
    assert (network.forward(shared, features) == network.forward(shared.copy(), features)).all()


@modest
@given(networks)
def test_the_forward_pass_leaves_its_inputs_alone(network: Network) -> None:
    parameters, features = members(network, 3)
    before = parameters.copy(), features.copy()
    network.forward(parameters, features)
    assert (parameters == before[0]).all()
    assert (features == before[1]).all()


def test_continuous_actions_are_the_outputs_as_they_are() -> None:
    network = Network(3, 2, bias=False)
    parameters = np.full((1, 6), 100.0)
    assert network.act(parameters, np.ones((1, 3))).tolist() == [[300.0, 300.0]]


def test_a_discrete_action_is_the_index_of_the_largest_output() -> None:
    network = Network(7, 4, (5,), discrete=True)
    parameters, features = members(network, 50)
    actions = network.act(parameters, features)
    assert actions.shape == (50,)
    assert np.issubdtype(actions.dtype, np.integer)
    for action, outputs in zip(actions, network.forward(parameters, features), strict=True):
        assert outputs[action] == max(outputs)
    assert network.act(np.zeros((1, network.size)), np.ones((1, 7))).tolist() == [0]  # a tie goes to the first


@pytest.mark.parametrize("bias", [True, False])
def test_a_linear_policy_starts_at_zero(bias: bool) -> None:
    assert not Network(11, 3, bias=bias).initial(0).any()


def test_an_mlp_starts_with_scaled_random_weights_and_zero_biases() -> None:
    network = Network(400, 3, (200, 100))
    start = network.initial(5)
    assert (start == network.initial(5)).all()
    assert (start != network.initial(6)).any()
    for block in network.blocks:
        values = block.of(start[None])[0]
        if block.name.endswith("bias"):
            assert not values.any()
        else:
            # A standard deviation of 1/sqrt(inputs); its estimate from N numbers is off by 1/sqrt(2N), six of which
            # are exceeded with probability 2e-9.
            ratio = values.std() * math.sqrt(block.shape[1])
            assert abs(ratio - 1) < 6 / math.sqrt(2 * values.size)


def test_the_input_weights_are_those_that_read_the_features() -> None:
    network = Network(4, 2, (3,))
    parameters, features = members(network, 2)
    silenced = parameters.copy()
    network.input_weights(silenced)[:, :, 1] = 0  # a view: unplug feature 1
    assert network.input_weights(parameters).shape == (2, 3, 4)
    changed = features.copy()
    changed[:, 1] += 5
    assert (network.forward(silenced, features) == network.forward(silenced, changed)).all()
    assert (network.forward(parameters, features) != network.forward(parameters, changed)).all()
