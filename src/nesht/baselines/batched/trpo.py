"""TRPO (Schulman et al., 2015), as sb3-contrib has it: for all runs at a time.

    g = gradient of the surrogate objective, H = Hessian of the divergence from the old policy
    x = H^-1 g                              conjugate gradients
    step = sqrt(2 target_kl / x'Hx) x       shortened until the divergence is small and the objective better

No run feels another: a sum over runs has the gradient and the Hessian of each, beside each other.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import Any

import torch

from nesht.baselines.batched.actor_critic import ActorCritic, Lived
from nesht.baselines.batched.curvature import Curvature
from nesht.baselines.batched.draws import Draws, Purpose
from nesht.baselines.batched.layers import flat, write
from nesht.baselines.batched.learner import Shape
from nesht.baselines.batched.place import Place

TARGET_KL = 0.01
"""How far a step may lead from the old policy."""
SHRINK, TRIES = 0.8, 10
"""A step that leads too far is tried again so much shorter, so many times."""
ENOUGH = 1e-10
"""Conjugate gradients end where the squared residual is smaller."""
START = 1e-4
"""Conjugate gradients begin at random numbers of this size."""
ADAM_EPSILON = 1e-5
"""What policies of stable-baselines3 give Adam."""


class TRPO(ActorCritic):
    """Actors and critics of all runs, and how they learn.

    Args:
        shape: of the observations and actions.
        settings: of the algorithm.
        seeds: of the runs.
        place: where.
    """

    def __init__(self, shape: Shape, settings: dict[str, Any], seeds: Sequence[int], place: Place):
        super().__init__(shape, settings, seeds, place)
        self._on_gpu = place.on_gpu
        fast = {"fused": True, "capturable": place.on_gpu}
        self.adam = torch.optim.Adam(self.critic, lr=settings["learning_rate"], eps=ADAM_EPSILON, **fast)
        self.adam._warned_capturable_if_run_uncaptured = True  # the first steps are not recorded, on purpose

    def improve(self, lived: Lived, draws: Draws) -> None:
        """Learn from steps: a long step of the policies, then many short ones of the critics."""
        self.improve_actors(lived, draws)
        self.improve_critics(lived.seen, lived.worth, draws)

    def improve_actors(self, lived: Lived, draws: Draws) -> torch.Tensor:
        """Step the policies uphill; returns where a step was found, [runs]."""
        off = lived.advantage - lived.advantage.mean(1, keepdim=True)
        advantage = off / (lived.advantage.std(1, keepdim=True) + 1e-8)
        with torch.no_grad():
            old_mean, old_log_std = self.mean(lived.seen), self.log_std.clone()

        def judged() -> tuple[torch.Tensor, torch.Tensor]:
            """Return the objective and the divergence, [runs]."""
            mean = self.mean(lived.seen)
            objective = (advantage * (self.densities(mean, lived.action) - lived.density).exp()).mean(1)
            ratio, shift = 2 * (self.log_std - old_log_std), (mean - old_mean) / old_log_std.exp()
            return objective, (0.5 * (ratio.exp() + shift.square() - 1 - ratio)).mean((1, 2))

        objective, _ = judged()
        uphill = flat(torch.autograd.grad(objective.sum(), self.policy))

        with torch.no_grad():
            curvature = Curvature(self.actor, self.log_std, lived.seen)

            def curved(vector: torch.Tensor) -> torch.Tensor:
                return curvature.times(vector) + self.settings["cg_damping"] * vector

            start = START * draws.normal(Purpose.CONJUGATE, uphill.shape[1])
            direction = solve(curved, uphill, start, self.settings["cg_max_steps"])
            length = (2 * TARGET_KL / (direction * curved(direction)).sum(1, keepdim=True)).sqrt()
            return self._search(length * direction, judged, objective)

    def _search(
        self,
        step: torch.Tensor,
        judged: Callable[[], tuple[torch.Tensor, torch.Tensor]],
        before: torch.Tensor,
    ) -> torch.Tensor:
        """Go the longest part of a step that is allowed and pays; returns where there is one, [runs]."""
        origin = flat(self.policy).clone()
        chosen, found = origin, torch.zeros_like(before, dtype=torch.bool)
        for attempt in range(TRIES):
            there = origin + SHRINK**attempt * step
            write(self.policy, there)
            objective, divergence = judged()
            fine = (divergence < TARGET_KL) & (objective > before)
            chosen = torch.where((fine & ~found)[:, None], there, chosen)
            found = found | fine
            if not self._on_gpu and found.all():  # a graph that is played cannot end early
                break
        write(self.policy, chosen)
        return found

    def improve_critics(self, seen: torch.Tensor, worth: torch.Tensor, draws: Draws) -> None:
        """Let the critics learn what observations were worth, in several goes through all of them."""
        count, goes = worth.shape[1], self.settings["n_critic_updates"]
        order = draws.uniform(Purpose.ORDER, goes, count).argsort(2)
        order += count * torch.arange(self.runs, device=order.device)[:, None, None]  # among the steps of all runs
        every_seen, every_worth = seen.flatten(0, 1), worth.flatten()
        for go in range(goes):
            for rows in order[:, go].split(self.settings["batch_size"], 1):
                errors = self.values(every_seen[rows]) - every_worth[rows]
                gradients = torch.autograd.grad(errors.square().mean(1).sum(), self.critic)
                for layer, gradient in zip(self.critic, gradients, strict=True):
                    layer.grad = gradient
                self.adam.step()
        self.adam.zero_grad()


def solve(
    times: Callable[[torch.Tensor], torch.Tensor], goal: torch.Tensor, start: torch.Tensor, steps: int
) -> torch.Tensor:
    """Return x with `times(x)` nearly goal, [runs, numbers], by conjugate gradients; a run that is there waits."""
    x = start
    residual = goal - times(x)
    size = residual.square().sum(1, keepdim=True)
    way, going = residual, size >= ENOUGH
    for _ in range(steps):
        ahead = times(way)
        share = torch.where(going, size / (way * ahead).sum(1, keepdim=True), 0)
        x, residual = x + share * way, residual - share * ahead
        before, size = size, residual.square().sum(1, keepdim=True)
        going = going & (size >= ENOUGH)
        way = torch.where(going, residual + size / before * way, 0)
    return x
