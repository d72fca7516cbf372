"""SAC (Haarnoja et al., 2018), as stable-baselines3 has it, with a learnt or a fixed weight of the entropy."""

from __future__ import annotations

import math
from collections.abc import Sequence
from typing import Any

import torch

from nesht.baselines.batched.draws import Draws, Purpose
from nesht.baselines.batched.learner import Learner, Shape
from nesht.baselines.batched.networks import Improver, Numbers
from nesht.baselines.batched.place import Place
from nesht.baselines.batched.replay import Batch


class SAC(Learner):
    """Actors that draw their actions, squashed into [-1, 1], and are paid for being unpredictable."""

    outputs = 2
    critic_weight = 0.5

    def __init__(self, shape: Shape, settings: dict[str, Any], seeds: Sequence[int], place: Place):
        super().__init__(shape, settings, seeds, place)
        self.actor_improver = Improver(self.actor, settings)
        weight = settings.get("ent_coef", "auto")
        learnt = isinstance(weight, str)
        start = float(weight.partition("_")[2] or 1.0) if learnt else float(weight)
        self.log_weight = Numbers(
            torch.full((self.runs,), math.log(start) if start else -math.inf, device=place.device), place
        )
        """The logarithm of the entropy's weight, of every run."""
        only_rate = {"learning_rate": settings["learning_rate"]}
        self.weight_improver = Improver(self.log_weight, only_rate) if learnt else None
        self._last: tuple[torch.Tensor, ...] = ()

    def explore(self, seen: torch.Tensor, draws: Draws) -> torch.Tensor:
        """See `Learner.explore`."""
        normal = draws.normal(Purpose.EXPLORATION, 1, self.shape.actions)
        return self._draw(self.actor.answer(self.see(seen[:, None])), normal)[0][:, 0]

    def best(self, seen: torch.Tensor) -> torch.Tensor:
        """See `Learner.best`."""
        return self.actor.answer(self.see(seen))[..., : self.shape.actions].tanh()

    def _draw(self, raw: torch.Tensor, normal: torch.Tensor) -> tuple[torch.Tensor, torch.Tensor]:
        """Return actions [runs, rows, actions] made of normal numbers, and the logarithms of their densities."""
        action, density = torch.empty_like(normal), normal.new_empty(normal.shape[:2])
        self.place.launch(self.place.kernels.draw_actions, density.shape, raw, normal, action, density)
        return action, density

    def update(self, batch: Batch, draws: Draws, policy: bool) -> None:
        """See `Learner.update`."""
        rows = batch.reward.shape[1]
        both = self.actor.forward(batch.seen.flatten(0, 1))
        trail = [each[: self.runs] for each in both]
        normals = [draws.normal(each, rows, self.shape.actions) for each in (Purpose.ACTION_NOW, Purpose.ACTION_NEXT)]
        action, density = self._draw(trail[-1], normals[0])
        weight = self.log_weight.numbers.exp()
        if self.weight_improver is not None:
            torch.sub(self.shape.actions, density.mean(1), out=self.log_weight.gradient)
            self.weight_improver.step()
        next_action, next_density = self._draw(both[-1][self.runs :], normals[1])
        future = self.critic_target.answer(self.do(batch.next, next_action))
        self.improve_critics(batch, future, weight, next_density, self.tau)
        judged = self.critic.forward(self.do(batch.now, action))
        self._last, choice = (weight, density, judged[-1]), torch.empty_like(judged[-1])
        self.place.launch(self.place.kernels.choose, density.shape, judged[-1], self.critics, choice)
        on_action, pull = self.pull_on_actions(judged, choice), torch.empty_like(trail[-1])
        given = (normals[0], action, weight, self.critics, on_action)
        self.place.launch(self.place.kernels.pull_on_drawn, density.shape, trail[-1], *given, pull)
        self.actor_improver.learn(trail, pull)

    def actor_losses(self) -> torch.Tensor | None:
        """See `Learner.actor_losses`."""
        weight, density, said = self._last
        return (weight[:, None] * density - said.view(self.critics, self.runs, -1).amin(0)).mean(1)
