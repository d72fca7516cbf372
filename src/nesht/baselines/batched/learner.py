"""What the off-policy algorithms share: actors and critics of all runs, and targets that follow them."""

from __future__ import annotations

from abc import ABC, abstractmethod
from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any

import torch

from nesht.baselines.batched.draws import Draws
from nesht.baselines.batched.networks import Improver, Layers, copy_layers, forward, make_layers
from nesht.baselines.batched.place import spare
from nesht.baselines.batched.replay import Batch


@dataclass(frozen=True)
class Shape:
    """How many numbers go into and out of the networks of a run."""

    seen: int
    actions: int


Losses = tuple[torch.Tensor, torch.Tensor | None]
"""Of the critics and, where it was improved, of the actor, [runs]."""


class Learner(ABC):
    """The networks of all runs, and how they learn.

    Critic c of run r is network c * runs + r of the critics. A loss is the sum of the runs' own, so that no run feels
    another.

    Args:
        shape: of the observations and actions.
        settings: of the algorithm.
        seeds: of the runs; the numbers that networks begin with depend on them alone.
        device: where.
    """

    critics = 2
    """How many critics a run has."""
    outputs = 1
    """Numbers that an actor returns per number of an action."""
    critic_weight = 1.0
    """What the squared errors of critics are multiplied with."""
    policy_every = 1
    """Updates of the critics per update of the actor."""
    rewire_every = 0
    """Updates between two changes of what networks are connected to; 0 is never."""

    def __init__(self, shape: Shape, settings: dict[str, Any], seeds: Sequence[int], device: torch.device):
        self.shape, self.settings, self.runs = shape, settings, len(seeds)
        self.gamma, self.tau = settings["gamma"], settings["tau"]
        self.luck = [torch.Generator().manual_seed(seed) for seed in seeds]
        hidden = settings["net_arch"]
        self.actor = make_layers([shape.seen, *hidden, self.outputs * shape.actions], self.luck, device)
        self.critic = make_layers([shape.seen + shape.actions, *hidden, 1], self.luck * self.critics, device)
        self.critic_target = copy_layers(self.critic)
        self.actor_improver, self.critic_improver = (Improver(layers, settings) for layers in (self.actor, self.critic))

    @abstractmethod
    def explore(self, seen: torch.Tensor, draws: Draws) -> torch.Tensor:
        """Return actions in [-1, 1] to learn from, [runs, actions] for observations [runs, seen]."""

    @abstractmethod
    def best(self, seen: torch.Tensor) -> torch.Tensor:
        """Return the best actions known, [runs, rows, actions] for observations [runs, rows, seen]."""

    @abstractmethod
    def update(self, batch: Batch, draws: Draws, policy: bool) -> Losses:
        """Learn from a batch; the actor only where `policy` says so."""

    def rewire(self, draws: Draws) -> None:  # noqa: B027
        """Change what the networks are connected to; those of most learners stay as they are."""

    def values(self, critic: Layers, seen: torch.Tensor, action: torch.Tensor) -> torch.Tensor:
        """Return what critics think, [critics, runs, rows]; `critic` may be the first ones of all runs alone."""
        count, width = len(critic[0]) // self.runs, seen.shape[2] + action.shape[2]
        wide = torch.cat([seen, action, action.new_zeros(*action.shape[:2], spare(width))], 2)
        if count > 1:
            wide = wide.repeat(count, 1, 1)
        return forward(critic, wide[..., :width]).view(count, self.runs, -1)

    def improve_critics(self, batch: Batch, future: torch.Tensor) -> torch.Tensor:
        """Let the critics learn what a batch was worth, given what the future is worth; returns their losses."""
        target = batch.reward + (1 - batch.over) * self.gamma * future
        errors = self.values(self.critic, batch.seen, batch.action) - target
        losses = errors.square().mean(2).sum(0)
        self.critic_improver.step(self.critic_weight * losses.sum())
        return self.critic_weight * losses.detach()

    def follow(self, targets: Layers, layers: Layers) -> None:
        """Let targets come nearer to their networks."""
        torch._foreach_lerp_(targets, [layer.detach() for layer in layers], self.tau)
