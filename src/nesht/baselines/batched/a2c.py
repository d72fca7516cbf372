"""A2C (Mnih et al., 2016), as stable-baselines3 has it: for all runs at a time.

loss = -advantage * log density + critic_weight * (worth - value)^2 - entropy_weight * entropy
g    = its gradient over a few steps, cut to a length of at most so much
s    = 0.99 s + 0.01 g^2                  RMSprop
w    = w - rate * g / (sqrt(s) + 1e-5)
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import torch

from nesht.baselines.batched.actor_critic import ActorCritic, Lived
from nesht.baselines.batched.draws import Draws
from nesht.baselines.batched.layers import Layers, flat, pieces
from nesht.baselines.batched.learner import Shape
from nesht.baselines.batched.place import Place

KEPT, EPSILON = 0.99, 1e-5
"""What stable-baselines3 gives RMSprop."""
TINY = 1e-6
"""What torch adds to a gradient's length before it cuts it."""


class A2C(ActorCritic):
    """Actors and critics of all runs, and how they learn.

    Args:
        shape: of the observations and actions.
        settings: of the algorithm.
        seeds: of the runs.
        place: where.
    """

    def __init__(self, shape: Shape, settings: dict[str, Any], seeds: Sequence[int], place: Place):
        super().__init__(shape, settings, seeds, place)
        self.squares, self._slope, self._root = (torch.zeros_like(flat(self.numbers)) for _ in range(3))
        """The running means of squared gradients, [runs, numbers], and room to work in."""

    @property
    def numbers(self) -> Layers:
        """All that is learnt."""
        return [*self.policy, *self.critic]

    def losses(self, lived: Lived) -> torch.Tensor:
        """Return the loss of every run, [runs]."""
        density = self.densities(self.mean(lived.seen), lived.action)
        error = lived.worth - self.values(lived.seen)
        spread = self.log_std.sum((1, 2))  # the entropy, but for a number that never changes
        gain = (lived.advantage * density).mean(1) + self.settings["ent_coef"] * spread
        return self.settings["vf_coef"] * error.square().mean(1) - gain

    def improve(self, lived: Lived, draws: Draws) -> None:
        """Learn from steps: one step of everything downhill."""
        gradients, slope, root = torch.autograd.grad(self.losses(lived).sum(), self.numbers), self._slope, self._root
        with torch.no_grad():
            torch.cat([each.flatten(1) for each in gradients], 1, out=slope)
            length = torch.linalg.vector_norm(slope, dim=1, keepdim=True)
            slope *= (self.settings["max_grad_norm"] / (length + TINY)).clamp(max=1)
            self.squares.mul_(KEPT).addcmul_(slope, slope, value=1 - KEPT)
            torch.sqrt(self.squares, out=root).add_(EPSILON)
            slope.div_(root)
            for part, numbers in pieces(self.numbers, slope):
                part.sub_(numbers, alpha=self.settings["learning_rate"])
