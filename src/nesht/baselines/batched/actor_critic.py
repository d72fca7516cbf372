"""What the on-policy algorithms share: actors and critics of all runs, and the scales of what they are shown.

No run feels another: a sum over runs has the gradient of each, beside each other.
"""

from __future__ import annotations

import math
from abc import ABC, abstractmethod
from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any

import torch

from nesht.baselines.batched.draws import Draws
from nesht.baselines.batched.layers import Layers, forward, orthogonal_layers
from nesht.baselines.batched.learner import Shape
from nesht.baselines.batched.place import Place
from nesht.baselines.batched.running import RunningScale


@dataclass(frozen=True)
class Lived:
    """Steps to learn from, [runs, steps, ...]."""

    seen: torch.Tensor
    """Before each step, scaled."""
    action: torch.Tensor
    density: torch.Tensor
    """The logarithm of that of the action, when it was done."""
    advantage: torch.Tensor
    """How much better than expected it was."""
    worth: torch.Tensor
    """What the critics should have said."""


class ActorCritic(ABC):
    """Actors and critics of all runs, tanh layers each, and how they learn.

    Args:
        shape: of the observations and actions.
        settings: of the algorithm.
        seeds: of the runs; the numbers that networks begin with depend on them alone.
        place: where.
    """

    def __init__(self, shape: Shape, settings: dict[str, Any], seeds: Sequence[int], place: Place):
        self.shape, self.settings, self.runs, device = shape, settings, len(seeds), place.device
        luck = [torch.Generator().manual_seed(seed) for seed in seeds]
        hidden = settings["net_arch"]
        self.actor = orthogonal_layers([shape.seen, *hidden, shape.actions], 0.01, luck, device)
        self.critic = orthogonal_layers([shape.seen, *hidden, 1], 1.0, luck, device)
        self.log_std = torch.zeros((self.runs, 1, shape.actions), device=device).requires_grad_()
        self.running = RunningScale(self.runs, shape.seen, settings["gamma"], place)

    @property
    def policy(self) -> Layers:
        """The numbers of the policies."""
        return [*self.actor, self.log_std]

    def mean(self, seen: torch.Tensor) -> torch.Tensor:
        """Return the means of actions, [runs, rows, actions], for scaled observations."""
        return forward(self.actor, seen)

    def best(self, seen: torch.Tensor) -> torch.Tensor:
        """Return the best actions known in [-1, 1], [runs, rows, actions], for observations [runs, rows, seen]."""
        with torch.no_grad():
            return self.mean(self.running.scale(seen)).clamp(-1, 1)

    def values(self, seen: torch.Tensor) -> torch.Tensor:
        """Return what scaled observations are worth, [runs, rows]."""
        return forward(self.critic, seen)[..., 0]

    def densities(self, mean: torch.Tensor, action: torch.Tensor) -> torch.Tensor:
        """Return the logarithms of the densities of actions, [runs, rows]."""
        normal = (action - mean) / self.log_std.exp()
        return (-0.5 * normal.square() - self.log_std - 0.5 * math.log(2 * math.pi)).sum(2)

    @abstractmethod
    def improve(self, lived: Lived, draws: Draws) -> None:
        """Learn from steps."""
