"""The network for screens: the same function as torch's layers, a member at a time."""

from __future__ import annotations

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from nesht.errors import UserError
from nesht.policies.convolution import ConvNet

torch = pytest.importorskip("torch")


def example(net: ConvNet, members: int) -> tuple[np.ndarray, np.ndarray]:
    rng = np.random.default_rng(members)
    parameters = np.stack([net.initial(seed) for seed in range(members)]) + 0.02 * rng.normal(size=(members, net.size))
    screens = rng.integers(0, 256, (members, net.frames, net.height, net.width)).astype(np.uint8)
    return parameters, screens


@given(st.integers(20, 70), st.integers(20, 70), st.integers(1, 4), st.integers(2, 18))
@settings(max_examples=15, deadline=None)
def test_it_is_what_torch_computes(height: int, width: int, frames: int, actions: int) -> None:
    net = ConvNet(height, width, frames, actions)
    parameters, screens = example(net, 2)
    ours = net.forward(net.weights(parameters), screens)
    for member in range(2):
        w1, b1, w2, b2, w3, b3 = (torch.tensor(block.of(parameters)[member]) for block in net.blocks)
        x = torch.tensor(screens[member : member + 1]).double() / 255
        x = torch.relu(torch.nn.functional.conv2d(x, w1, b1, stride=4))
        x = torch.relu(torch.nn.functional.conv2d(x, w2, b2, stride=2))
        np.testing.assert_allclose(ours[member], (x.flatten(1) @ w3.T + b3)[0], atol=2e-5)


def test_the_papers_sizes() -> None:
    net = ConvNet(110, 84, 4, 6)
    assert net.inputs == len(net.names) == 3456
    assert [block.shape for block in net.blocks] == [(16, 4, 8, 8), (16,), (32, 16, 4, 4), (32,), (6, 3456), (6,)]


def test_a_member_is_the_same_in_any_company() -> None:
    net = ConvNet(50, 42, 2, 4)
    parameters, screens = example(net, 7)
    together = net.forward(net.weights(parameters), screens)
    for member in range(7):
        alone = net.forward(net.weights(parameters[member : member + 1]), screens[member : member + 1])
        assert np.array_equal(alone[0], together[member])


def test_features_are_the_inputs_of_the_readout() -> None:
    net = ConvNet(40, 40, 1, 3)
    readout = net.blocks[4]
    (units,) = net.units("feature", "all").pools
    assert units.shape == (net.inputs, 3)
    assert np.array_equal(np.sort(units.ravel()), np.arange(readout.start, readout.stop))


def test_a_normalised_network_has_mean_0_and_variance_1_on_its_screens() -> None:
    net = ConvNet(60, 52, 2, 3, batch_norm=True)
    (parameters,), _ = example(net, 1)
    _, screens = example(net, 5)
    made = net.normalised(parameters, screens)
    w1, b1, w2, b2, *_ = (torch.tensor(block.of(made[None])[0]) for block in net.blocks)
    x = torch.tensor(screens).double() / 255
    biases = [torch.tensor(net.blocks[i].of(parameters[None])[0]) for i in (1, 3)]
    for weight, bias, own, stride in ((w1, b1, biases[0], 4), (w2, b2, biases[1], 2)):
        x = torch.nn.functional.conv2d(x, weight, bias, stride=stride)
        np.testing.assert_allclose(x.mean(dim=(0, 2, 3)), own, atol=1e-4)
        np.testing.assert_allclose(x.std(dim=(0, 2, 3), correction=0), 1, rtol=1e-4)
        x = torch.relu(x)
    readout = net.blocks[4]
    assert np.array_equal(made[readout.start :], parameters[readout.start :])


def test_a_screen_can_be_too_small() -> None:
    with pytest.raises(UserError, match="at least 20 x 20"):
        ConvNet(19, 84, 4, 6)
