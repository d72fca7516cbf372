"""Many networks of one shape as one: every layer is a weight [networks, inputs, outputs] and a bias."""

from __future__ import annotations

import math
from collections.abc import Callable, Sequence
from itertools import pairwise
from typing import Any

import torch

Layers = list[torch.Tensor]
"""Weight [networks, inputs, outputs] and bias [networks, 1, outputs] of the first layer, then of the next, ..."""


def make_layers(sizes: Sequence[int], luck: Sequence[torch.Generator], device: torch.device) -> Layers:
    """Return new networks with layers of these sizes, one per generator, as torch's own linear layers begin."""
    layers = []
    for inputs, outputs in pairwise(sizes):
        for rows in (inputs, 1):
            numbers = torch.stack([torch.rand(rows, outputs, generator=each) for each in luck])
            layers.append(((2 * numbers - 1) / math.sqrt(inputs)).to(device).requires_grad_())
    return layers


def orthogonal_layers(
    sizes: Sequence[int], last: float, luck: Sequence[torch.Generator], device: torch.device
) -> Layers:
    """Return new networks as policies of stable-baselines3 begin: orthogonal weights, the last ones so large."""
    layers = []
    for i, (inputs, outputs) in enumerate(pairwise(sizes)):
        size = last if i == len(sizes) - 2 else math.sqrt(2)
        weights = [torch.nn.init.orthogonal_(torch.empty(outputs, inputs), size, generator=each).T for each in luck]
        layers.append(torch.stack(weights).to(device).requires_grad_())
        layers.append(torch.zeros(len(luck), 1, outputs, device=device).requires_grad_())
    return layers


def forward(
    layers: Layers, x: torch.Tensor, between: Callable[[torch.Tensor], torch.Tensor] = torch.relu_
) -> torch.Tensor:
    """Return the outputs [networks, rows, outputs] for inputs [networks, rows, inputs], with ReLU or other between."""
    for weight, bias in zip(layers[:-2:2], layers[1:-2:2], strict=True):
        x = between(torch.baddbmm(bias, x, weight))
    return torch.baddbmm(layers[-1], x, layers[-2])


def copy_layers(layers: Layers) -> Layers:
    """Return networks with the same numbers that nothing is learnt about: targets."""
    return [layer.detach().clone() for layer in layers]


class Improver:
    """Adam on all networks: they do not share numbers, so it does to each what it would do to it alone.

    Args:
        layers: the networks.
        settings: of the algorithm.
    """

    mask: torch.Tensor | None = None
    """1 where a weight of the first layer exists, 0 elsewhere."""

    def __init__(self, layers: Layers, settings: dict[str, Any]):
        fast = {"fused": True, "capturable": True} if layers[0].is_cuda else {}
        self.layers, rate = layers, settings["learning_rate"]
        self.adam = torch.optim.Adam(layers, lr=rate, weight_decay=settings.get("weight_decay", 0), **fast)
        self.adam._warned_capturable_if_run_uncaptured = True  # the first steps are not recorded, on purpose

    def step(self, loss: torch.Tensor) -> None:
        """Step down a loss, the sum of every network's own."""
        for layer, gradient in zip(self.layers, torch.autograd.grad(loss, self.layers), strict=True):
            layer.grad = gradient
        if self.mask is not None and self.layers[0].grad is not None:
            self.layers[0].grad *= self.mask  # what does not exist has no gradient, and so no moments
        self.adam.step()
        self.adam.zero_grad()

    def moments(self, layer: torch.Tensor) -> list[torch.Tensor]:
        """Return the moments of a layer, once there are any."""
        return [self.adam.state[layer][name] for name in ("exp_avg", "exp_avg_sq") if layer in self.adam.state]
