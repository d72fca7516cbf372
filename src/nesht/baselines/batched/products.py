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

    def layer(self, x: torch.Tensor, weight: torch.Tensor, outputs: int, last: bool) -> torch.Tensor:
        """Return what layers put out, [networks, rows, outputs]: rectified, but for the last."""
        x, inputs, count = x[..., : weight.shape[1] - 1], weight.shape[1] - 1, max(len(x), len(weight))
        x, weight = (each.repeat(count // len(each), 1, 1) for each in (x, weight))
        out = torch.baddbmm(weight[:, inputs:], x, weight[:, :inputs])
        return out if last else out.relu_()

    def back(self, pull: torch.Tensor, weight: torch.Tensor, x: torch.Tensor) -> torch.Tensor:
        """Return the pull on what went into layers, [networks, rows, inputs]; none where that was nothing."""
        return torch.bmm(pull, weight[:, :-1].transpose(1, 2)).mul_(x > 0)

    def back_to(self, pull: torch.Tensor, weight: torch.Tensor, inputs: slice) -> torch.Tensor:
        """Return the pull on some of the inputs, [networks, rows, inputs]."""
        return torch.bmm(pull, weight[:, inputs].transpose(1, 2))

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
