"""How networks multiply: whole numbers (float32) with torch, anywhere. On tensor cores, see `halves`."""

from __future__ import annotations

import math
from collections.abc import Sequence
from typing import TYPE_CHECKING

import torch

if TYPE_CHECKING:
    from nesht.baselines.batched.networks import Improver, Networks, Trail


class Whole:
    """Products of float32, and what follows them.

    The matrix of a layer is its weights and, below them, its bias. What goes into a layer, [some, rows, inputs or
    more], may be that of several networks, or several of a network: it is used again and again, and so are matrices.
    """

    dtype, most = torch.float32, math.inf

    def columns(self, outputs: int) -> int:
        """Return how many columns the matrix of a hidden layer has."""
        return outputs

    def wide(self, numbers: int) -> int:
        """Return how long rows are that hold so many numbers."""
        return numbers

    def forward(self, x: torch.Tensor, weights: Sequence[torch.Tensor]) -> Trail:
        """Return the trail of inputs through networks: every layer is rectified, but for the last."""
        trail = [x]
        for weight in weights:
            x, inputs = trail[-1][..., : weight.shape[1] - 1], weight.shape[1] - 1
            count = max(len(x), len(weight))
            x, weight = (each.repeat(count // len(each), 1, 1) for each in (x, weight))  # noqa: PLW2901
            out = torch.baddbmm(weight[:, inputs:], x, weight[:, :inputs])
            trail.append(out if len(trail) == len(weights) else out.relu_())
        return trail

    def answer(self, x: torch.Tensor, weights: Sequence[torch.Tensor]) -> torch.Tensor:
        """Return what networks put out, [networks, rows, outputs]."""
        return self.forward(x, weights)[-1]

    def pulls(self, trail: Trail, pull: torch.Tensor, weights: Sequence[torch.Tensor]) -> list[torch.Tensor]:
        """Return how a pull on the outputs that a trail leads to pulls on what came out of every layer."""
        found = [pull]
        for weight, x in zip(weights[:0:-1], trail[-2:0:-1], strict=True):
            found.append(torch.bmm(found[-1], weight[:, :-1].transpose(1, 2)).mul_(x > 0))
        return found[::-1]

    def pull_on_inputs(
        self, trail: Trail, pull: torch.Tensor, weights: Sequence[torch.Tensor], inputs: slice
    ) -> torch.Tensor:
        """Return how it pulls on some inputs, [networks, rows, inputs]."""
        return torch.bmm(self.pulls(trail, pull, weights)[0], weights[0][:, inputs].transpose(1, 2))

    def learn(
        self, networks: Networks, trail: Trail, pulls: Sequence[torch.Tensor], improver: Improver, tau: float
    ) -> None:
        """Step down the gradient of what pulls so on what came out of every layer; the target follows."""
        for x, pull, gradient in zip(trail, pulls, networks.matrices(networks.gradient), strict=False):
            inputs = gradient.shape[1] - 1
            went = x[..., :inputs].repeat(len(pull) // len(x), 1, 1)
            torch.bmm(went.transpose(1, 2), pull, out=gradient[:, :inputs])
            torch.sum(pull, 1, keepdim=True, out=gradient[:, inputs:])
        improver.step(tau)
