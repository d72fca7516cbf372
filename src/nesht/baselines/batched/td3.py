"""TD3 (Fujimoto et al., 2018) and DDPG (Lillicrap et al., 2016), as stable-baselines3 has them."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import torch

from nesht.baselines.batched.draws import Draws, Purpose
from nesht.baselines.batched.learner import Learner, Shape
from nesht.baselines.batched.networks import Improver
from nesht.baselines.batched.place import Place
from nesht.baselines.batched.replay import Batch


class TD3(Learner):
    """Two critics of which the less hopeful counts, smoothed targets, and an actor that learns half as often."""

    policy_every = 2
    target_noise, target_clip = 0.2, 0.5
    """The noise on the target's actions, and its bound."""

    def __init__(self, shape: Shape, settings: dict[str, Any], seeds: Sequence[int], place: Place):
        super().__init__(shape, settings, seeds, place)
        self.actor_target = self.actor.copied()
        self.actor_improver = Improver(self.actor, settings, self.actor_target)
        rows = (self.runs, settings["batch_size"])
        self._no_weight, self._no_density = (torch.zeros(size, device=place.device) for size in (rows[:1], rows))
        self._up = torch.full((*rows, 1), -1 / rows[1], device=place.device)
        """The pull of a critic on the actor."""
        self._said: torch.Tensor | None = None

    def explore(self, seen: torch.Tensor, draws: Draws) -> torch.Tensor:
        """See `Learner.explore`; the noise on actions is added by others."""
        return self.best(seen[:, None])[:, 0]

    def best(self, seen: torch.Tensor) -> torch.Tensor:
        """See `Learner.best`."""
        return self._squash(self.actor.answer(self.see(seen)))

    def _squash(self, raw: torch.Tensor, noise: torch.Tensor | None = None) -> torch.Tensor:
        action = torch.empty_like(raw)
        scale = self.target_noise if noise is not None else 0.0
        given = (raw if noise is None else noise, scale, self.target_clip)
        self.place.launch(self.place.kernels.squash, raw.shape, raw, *given, action)
        return action

    def update(self, batch: Batch, draws: Draws, policy: bool) -> None:
        """See `Learner.update`."""
        raw = self.actor_target.answer(batch.next)
        noise = draws.normal(Purpose.ACTION_NEXT, *raw.shape[1:]) if self.target_noise else None
        future = self.critic_target.answer(self.do(batch.next, self._squash(raw, noise)))
        tau, self._said = self.tau if policy else 0.0, None
        self.improve_critics(batch, future, self._no_weight, self._no_density, tau)
        if not policy:
            return
        trail = self.actor.forward(batch.now)
        action = self._squash(trail[-1])
        judged = self.critic.forward(self.do(batch.now, action), self.runs)
        pull, self._said = self.pull_on_actions(judged, self._up), judged[-1]
        self.place.launch(self.place.kernels.pull_on_squashed, pull.shape, action, pull)
        self.actor_improver.learn(trail, pull, tau)

    def actor_losses(self) -> torch.Tensor | None:
        """See `Learner.actor_losses`."""
        return None if self._said is None else -self._said.mean((1, 2))


class DDPG(TD3):
    """One critic, nothing smoothed, nothing delayed."""

    critics = 1
    policy_every = 1
    target_noise = 0.0
