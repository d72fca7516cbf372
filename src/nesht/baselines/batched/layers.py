"""Many networks of one shape as lists of layers; through those of on-policy learners, torch finds gradients."""

from __future__ import annotations

import math
from collections.abc import Iterator, Sequence
from itertools import pairwise

import torch

Layers = list[torch.Tensor]
"""Weight [networks, inputs, outputs] and bias [networks, 1, outputs] of the first layer, then of the next, ..."""


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


def forward(layers: Layers, x: torch.Tensor) -> torch.Tensor:
    """Return the outputs [networks, rows, outputs] for inputs [networks, rows, inputs], with tanh between layers."""
    for weight, bias in zip(layers[:-2:2], layers[1:-2:2], strict=True):
        x = torch.baddbmm(bias, x, weight).tanh()
    return torch.baddbmm(layers[-1], x, layers[-2])


def flat(parts: Sequence[torch.Tensor]) -> torch.Tensor:
    """Return all numbers of every run in a row, [runs, numbers]."""
    return torch.cat([part.flatten(1) for part in parts], 1)


def pieces(parts: Layers, rows: torch.Tensor) -> Iterator[tuple[torch.Tensor, torch.Tensor]]:
    """Yield every part with its numbers in such rows."""
    for part, numbers in zip(parts, rows.split([part[0].numel() for part in parts], 1), strict=True):
        yield part, numbers.view(part.shape)


def write(parts: Layers, rows: torch.Tensor) -> None:
    """Write such rows back."""
    for part, numbers in pieces(parts, rows):
        part.copy_(numbers)
