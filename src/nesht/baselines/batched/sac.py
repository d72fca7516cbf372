"""SAC (Haarnoja et al., 2018), as stable-baselines3 has it, with a learnt or a fixed weight of the entropy."""

from __future__ import annotations

import math
from collections.abc import Sequence
from typing import Any

import torch

from nesht.baselines.batched.draws import Draws, Purpose
from nesht.baselines.batched.learner import Learner, Losses, Shape
from nesht.baselines.batched.networks import Improver, forward
from nesht.baselines.batched.replay import Batch

LOG_STD = (-20.0, 2.0)
"""Bounds of the logarithm of an action's standard deviation."""
EPSILON = 1e-6
"""Keeps the logarithm of a squashed action's density finite."""


class SAC(Learner):
    """Actors that draw their actions, squashed into [-1, 1], and are paid for being unpredictable."""

    outputs = 2
    critic_weight = 0.5

    def __init__(self, shape: Shape, settings: dict[str, Any], seeds: Sequence[int], device: torch.device):
        super().__init__(shape, settings, seeds, device)
        weight = settings.get("ent_coef", "auto")
        learnt = isinstance(weight, str)
        start = float(weight.partition("_")[2] or 1.0) if learnt else float(weight)
        self.log_weight = torch.full((self.runs, 1), start, device=device).log()
        """The logarithm of the entropy's weight."""
        self.weight_improver: Improver | None = None
        if learnt:
            only_rate = {"learning_rate": settings["learning_rate"]}
            self.weight_improver = Improver([self.log_weight.requires_grad_()], only_rate)

    def explore(self, seen: torch.Tensor, draws: Draws) -> torch.Tensor:
        """See `Learner.explore`."""
        with torch.no_grad():
            normal = draws.normal(Purpose.EXPLORATION, 1, self.shape.actions)
            return self.act(seen[:, None], normal)[0][:, 0]

    def best(self, seen: torch.Tensor) -> torch.Tensor:
        """See `Learner.best`."""
        with torch.no_grad():
            return forward(self.actor, seen)[..., : self.shape.actions].tanh()

    def act(self, seen: torch.Tensor, normal: torch.Tensor) -> tuple[torch.Tensor, torch.Tensor]:
        """Return actions [runs, rows, actions] made of normal numbers, and the logarithms of their densities."""
        mean, log_std = forward(self.actor, seen).split(self.shape.actions, 2)
        log_std = log_std.clamp(*LOG_STD)
        action = (mean + log_std.exp() * normal).tanh()
        density = -0.5 * normal.square() - log_std - 0.5 * math.log(2 * math.pi)
        return action, (density - (1 - action.square() + EPSILON).log()).sum(2)

    def update(self, batch: Batch, draws: Draws, policy: bool) -> Losses:
        """See `Learner.update`."""
        shape = batch.action.shape[1:]
        action, density = self.act(batch.seen, draws.normal(Purpose.ACTION_NOW, *shape))
        weight = self.log_weight.detach().exp()
        if self.weight_improver is not None:
            surplus = (density.detach() - self.shape.actions).mean(1, keepdim=True)
            self.weight_improver.step(-(self.log_weight * surplus).sum())
        with torch.no_grad():
            next_action, next_density = self.act(batch.after, draws.normal(Purpose.ACTION_NEXT, *shape))
            worst = self.values(self.critic_target, batch.after, next_action).amin(0)
        loss = self.improve_critics(batch, worst - weight * next_density)
        losses = (weight * density - self.values(self.critic, batch.seen, action).amin(0)).mean(1)
        self.actor_improver.step(losses.sum())
        self.follow(self.critic_target, self.critic)
        return loss, losses.detach()
