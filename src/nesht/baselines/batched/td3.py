"""TD3 (Fujimoto et al., 2018) and DDPG (Lillicrap et al., 2016), as stable-baselines3 has them."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import torch

from nesht.baselines.batched.draws import Draws, Purpose
from nesht.baselines.batched.learner import Learner, Losses, Shape
from nesht.baselines.batched.networks import copy_layers, forward
from nesht.baselines.batched.replay import Batch


class TD3(Learner):
    """Two critics of which the less hopeful counts, smoothed targets, and an actor that learns half as often."""

    policy_every = 2
    target_noise, target_clip = 0.2, 0.5
    """The noise on the target's actions, and its bound."""

    def __init__(self, shape: Shape, settings: dict[str, Any], seeds: Sequence[int], device: torch.device):
        super().__init__(shape, settings, seeds, device)
        self.actor_target = copy_layers(self.actor)

    def explore(self, seen: torch.Tensor, draws: Draws) -> torch.Tensor:
        """See `Learner.explore`; the noise on actions is added by others."""
        return self.best(seen[:, None])[:, 0]

    def best(self, seen: torch.Tensor) -> torch.Tensor:
        """See `Learner.best`."""
        with torch.no_grad():
            return forward(self.actor, seen).tanh()

    def update(self, batch: Batch, draws: Draws, policy: bool) -> Losses:
        """See `Learner.update`."""
        with torch.no_grad():
            action = forward(self.actor_target, batch.after).tanh()
            if self.target_clip:
                noise = self.target_noise * draws.normal(Purpose.ACTION_NEXT, *action.shape[1:])
                action = (action + noise.clamp(-self.target_clip, self.target_clip)).clamp(-1, 1)
            future = self.values(self.critic_target, batch.after, action).amin(0)
        loss = self.improve_critics(batch, future)
        if not policy:
            return loss, None
        first = [layer[: self.runs] for layer in self.critic]
        losses = -self.values(first, batch.seen, forward(self.actor, batch.seen).tanh())[0].mean(1)
        self.actor_improver.step(losses.sum())
        self.follow(self.critic_target, self.critic)
        self.follow(self.actor_target, self.actor)
        return loss, losses.detach()


class DDPG(TD3):
    """One critic, nothing smoothed, nothing delayed."""

    critics = 1
    policy_every = 1
    target_noise, target_clip = 0.0, 0.0
