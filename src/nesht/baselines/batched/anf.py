"""ANF-SAC: what `nesht.baselines.anf` does to the input layers of one run, for all runs at a time."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import torch

from nesht.baselines.batched.draws import Draws, Purpose
from nesht.baselines.batched.learner import Shape
from nesht.baselines.batched.networks import Improver
from nesht.baselines.batched.sac import SAC


class ANFSAC(SAC):
    """SAC with sparse input layers that move what they connect to."""

    def __init__(self, shape: Shape, settings: dict[str, Any], seeds: Sequence[int], device: torch.device):
        super().__init__(shape, settings, seeds, device)
        self.rewire_every, self.drop = settings["topology_every"], settings["drop"]
        sparsity = settings["input_sparsity"]
        for improver, luck in ((self.actor_improver, self.luck), (self.critic_improver, self.luck * self.critics)):
            improver.mask = first_mask(improver.layers[0], sparsity, luck)
        with torch.no_grad():
            for layers, mask in ((self.actor, self.actor_mask), (self.critic, self.critic_mask)):
                layers[0] *= mask
            self.critic_target[0].copy_(self.critic[0])

    @property
    def actor_mask(self) -> torch.Tensor:
        """1 where a weight of an actor's input layer exists, 0 elsewhere."""
        assert self.actor_improver.mask is not None
        return self.actor_improver.mask

    @property
    def critic_mask(self) -> torch.Tensor:
        """The same of the critics."""
        assert self.critic_improver.mask is not None
        return self.critic_improver.mask

    def rewire(self, draws: Draws) -> None:
        """Move connections in all input layers; targets follow."""
        size = self.actor[0][0].numel()
        rewire(self.actor_improver, self.drop, draws.uniform(Purpose.GROWTH, size))
        size = self.critic[0][0].numel()
        luck = [draws.uniform(Purpose.GROWTH + 1 + critic, size) for critic in range(self.critics)]
        rewire(self.critic_improver, self.drop, torch.cat(luck))
        self.critic_target[0] *= self.critic_mask


def first_mask(weight: torch.Tensor, sparsity: float, luck: Sequence[torch.Generator]) -> torch.Tensor:
    """Return masks like weights [networks, inputs, outputs], with a share of ones at random places."""
    count = weight[0].numel()
    keep = max(1, round((1 - sparsity) * count))
    mask = torch.zeros((len(luck), count))
    for row, each in zip(mask, luck, strict=True):
        row[torch.randperm(count, generator=each)[:keep]] = 1
    return mask.view(weight.shape).to(weight.device)


def rewire(improver: Improver, drop: float, luck: torch.Tensor) -> None:
    """Drop a share of the weights, the smallest, and grow as many where there was none: where luck is smallest.

    `luck` [networks, weights] and the order among equal weights go through all inputs of the first output, then of the
    second, ..., as in the layers of torch.
    """
    weight, mask = improver.layers[0].detach(), improver.mask
    assert mask is not None
    flat = mask.transpose(1, 2).flatten(1) == 1
    active = int(flat[0].sum())  # of every network alike
    count = min(round(drop * active), flat.shape[1] - active)
    size = weight.transpose(1, 2).flatten(1).abs()
    smallest = torch.where(flat, size, torch.inf).argsort(dim=1, stable=True)[:, :count]
    luckiest = torch.where(flat, torch.inf, luck).argsort(dim=1, stable=True)[:, :count]
    turned = (len(mask), mask.shape[2], mask.shape[1])
    gone = torch.zeros_like(flat).scatter_(1, smallest, True).view(turned).transpose(1, 2)
    grown = torch.zeros_like(flat).scatter_(1, luckiest, True).view(turned).transpose(1, 2)
    for numbers in (weight, *improver.moments(improver.layers[0])):
        numbers.masked_fill_(gone, 0)
    mask.masked_fill_(gone, 0).masked_fill_(grown, 1)
