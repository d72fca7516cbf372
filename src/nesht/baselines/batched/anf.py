"""ANF-SAC: what `nesht.baselines.anf` does to the input layers of one run, for all runs at a time."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import torch

from nesht.baselines.batched.draws import Draws, Purpose
from nesht.baselines.batched.learner import Shape
from nesht.baselines.batched.networks import Improver, Networks
from nesht.baselines.batched.place import Place
from nesht.baselines.batched.sac import SAC


class ANFSAC(SAC):
    """SAC with sparse input layers that move what they connect to."""

    def __init__(self, shape: Shape, settings: dict[str, Any], seeds: Sequence[int], place: Place):
        super().__init__(shape, settings, seeds, place)
        self.rewire_every, self.drop = settings["topology_every"], settings["drop"]
        for networks, improver, luck in (
            (self.actor, self.actor_improver, self.luck),
            (self.critic, self.critic_improver, self.luck * self.critics),
        ):
            weight = networks.layers()[0]
            _, inputs, outputs = weight.shape
            improver.mask = torch.ones(networks.weights[0].shape, device=weight.device)
            improver.mask[:, :inputs, :outputs] = first_mask(weight, settings["input_sparsity"], luck)
            weight *= improver.mask[:, :inputs, :outputs]
        self.critic_target.numbers.copy_(self.critic.numbers)
        self.settle()

    @property
    def actor_mask(self) -> torch.Tensor:
        """1 where a weight of an actor's input layer exists, 0 elsewhere."""
        return _mask_of(self.actor, self.actor_improver)

    @property
    def critic_mask(self) -> torch.Tensor:
        """The same of the critics."""
        return _mask_of(self.critic, self.critic_improver)

    def rewire(self, draws: Draws) -> None:
        """Move connections in all input layers; targets follow."""
        luck = draws.uniform(Purpose.GROWTH, self.actor_mask[0].numel())
        rewire(self.actor, self.actor_improver, self.actor_mask, self.drop, luck)
        size = self.critic_mask[0].numel()
        luck = torch.cat([draws.uniform(Purpose.GROWTH + 1 + critic, size) for critic in range(self.critics)])
        rewire(self.critic, self.critic_improver, self.critic_mask, self.drop, luck)
        self.critic_target.layers()[0].mul_(self.critic_mask)
        self.settle()


def _mask_of(networks: Networks, improver: Improver) -> torch.Tensor:
    assert improver.mask is not None
    _, inputs, outputs = networks.layers()[0].shape
    return improver.mask[:, :inputs, :outputs]


def first_mask(weight: torch.Tensor, sparsity: float, luck: Sequence[torch.Generator]) -> torch.Tensor:
    """Return masks like weights [networks, inputs, outputs], with a share of ones at random places."""
    count = weight[0].numel()
    keep = max(1, round((1 - sparsity) * count))
    mask = torch.zeros((len(luck), count))
    for row, each in zip(mask, luck, strict=True):
        row[torch.randperm(count, generator=each)[:keep]] = 1
    return mask.view(weight.shape).to(weight.device)


def rewire(networks: Networks, improver: Improver, mask: torch.Tensor, drop: float, luck: torch.Tensor) -> None:
    """Drop a share of the weights, the smallest, and grow as many where there was none: where luck is smallest.

    `luck` [networks, weights] and the order among equal weights go through all inputs of the first output, then of the
    second, ..., as in the layers of torch.
    """
    weight, *moments = (networks.layers(numbers)[0] for numbers in (networks.numbers, *improver.moments))
    flat = mask.transpose(1, 2).flatten(1) == 1
    active = int(flat[0].sum())  # of every network alike
    count = min(round(drop * active), flat.shape[1] - active)
    size = weight.transpose(1, 2).flatten(1).abs()
    smallest = torch.where(flat, size, torch.inf).argsort(dim=1, stable=True)[:, :count]
    luckiest = torch.where(flat, torch.inf, luck).argsort(dim=1, stable=True)[:, :count]
    turned = (len(mask), mask.shape[2], mask.shape[1])
    gone = torch.zeros_like(flat).scatter_(1, smallest, True).view(turned).transpose(1, 2)
    grown = torch.zeros_like(flat).scatter_(1, luckiest, True).view(turned).transpose(1, 2)
    for numbers in (weight, *moments):
        numbers.masked_fill_(gone, 0)
    mask.masked_fill_(gone, 0).masked_fill_(grown, 1)
