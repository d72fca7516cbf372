"""All runs of an on-policy algorithm: every run collects steps in an environment of its own, then learns from them."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import torch

from nesht.baselines.batched.draws import Draws, Eyes, Purpose
from nesht.baselines.batched.learner import Shape
from nesht.baselines.batched.place import Place
from nesht.baselines.batched.training import finite, make_env, scaler
from nesht.baselines.batched.trpo import TRPO
from nesht.tasks.task import Task


class OnPolicyTraining:
    """Networks, environments and the steps since the last update of all runs; has the face of `Training`.

    Args:
        settings: of TRPO.
        task: what all runs learn.
        seeds: one per run.
        place: where.
    """

    def __init__(self, settings: dict[str, Any], task: Task, seeds: Sequence[int], place: Place):
        self._gamma, self._trace, self._count = settings["gamma"], settings["gae_lambda"], settings["n_steps"]
        runs, device = len(seeds), place.device
        self.env, self.draws = make_env(task, runs, place, masked=True), Draws(place, seeds)
        self._scale = scaler(self.env, device)
        self.eyes = Eyes(place, task.n_real, len(task.feature_names) - task.n_real)
        self.learner = TRPO(Shape(self.eyes.all, task.outputs), settings, seeds, place)
        self.moment = torch.zeros((runs, 2), dtype=torch.int32, device=device)
        self.diverged = torch.zeros(runs, dtype=torch.int32, device=device)
        self.updates = self._steps = 0
        real = torch.as_tensor(self.env.reset(seed=list(seeds))[0])
        self._seen = torch.zeros((runs, self.eyes.all), device=device)
        """What every run sees now, scaled."""
        self._look(real)
        shapes = {"seen": (self.eyes.all,), "action": (task.outputs,), "density": (), "value": (), "reward": ()}
        self.kept = {
            name: torch.zeros((runs, self._count, *shape), device=device)
            for name, shape in {**shapes, "ended": ()}.items()
        }
        """The steps since the last update, [runs, steps, ...]."""
        self._at = torch.zeros(1, dtype=torch.int64, device=device)
        self._programs = place.record(self._collect), place.record(self._learn)

    def whole(self, steps: int) -> int:
        """Return how many steps are taken when so many are asked for: an update needs all of its own."""
        return -(-steps // self._count) * self._count

    def step(self) -> None:
        """Take one step of every run."""
        collect, learn = self._programs
        collect()
        self._steps += 1
        if self._steps % self._count == 0:
            self.updates += 1
            learn()

    def _look(self, real: torch.Tensor) -> None:
        """See what the environments show now, and take it into the scale."""
        raw = self.eyes.see(self.draws.seeds, real, self.moment)
        self.learner.running.seen.add(raw)
        self._seen.copy_(self.learner.running.scale(raw[:, None])[:, 0])

    def _collect(self) -> None:
        """Act, and write down what came of it."""
        learner = self.learner
        with torch.no_grad():
            seen = self._seen[:, None].clone()
            mean = learner.mean(seen)
            normal = self.draws.normal(Purpose.EXPLORATION, 1, learner.shape.actions)
            action = mean + learner.log_std.exp() * normal
            parts = {"seen": seen, "action": action, "density": learner.densities(mean, action)}
            parts["value"] = learner.values(seen)
            real, reward, terminated, truncated, infos = self.env.step(self._scale(action[:, 0].clamp(-1, 1)))
            over, timed_out = torch.as_tensor(terminated), torch.as_tensor(truncated)
            ended = over | timed_out
            last = self.eyes.see(self.draws.seeds, finite(infos["final_obs"]), self.moment, later=1)
            self.moment[:, 0] += ended
            self.moment[:, 1].add_(1).masked_fill_(ended, 0)
            self._look(torch.as_tensor(real))
            future = learner.values(learner.running.scale(last[:, None]))[:, 0]
            scaled = learner.running.reward(finite(reward), ended)
            parts["reward"] = (scaled + self._gamma * future * (timed_out & ~over))[:, None]
            parts["ended"] = ended[:, None].float()
            for name, numbers in parts.items():
                self.kept[name].index_copy_(1, self._at, numbers)
            self._at.add_(1).remainder_(self._count)
            self.diverged += torch.as_tensor(infos["diverged"])
            self.draws.step += 1

    def _learn(self) -> None:
        """Learn from the steps collected."""
        kept = self.kept
        with torch.no_grad():
            future = self.learner.values(self._seen[:, None])
            advantage = advantages(kept["reward"], kept["value"], kept["ended"], future, self._gamma, self._trace)
        self.learner.improve_actors(kept["seen"], kept["action"], kept["density"], advantage, self.draws)
        self.learner.improve_critics(kept["seen"], advantage + kept["value"], self.draws)

    def close(self) -> None:
        """Free the environments."""
        self.env.close()


def advantages(
    reward: torch.Tensor,
    value: torch.Tensor,
    ended: torch.Tensor,
    future: torch.Tensor,
    gamma: float,
    trace: float,
) -> torch.Tensor:
    """Return how much better than expected steps were, [runs, steps] (GAE, Schulman et al., 2016)."""
    after = torch.cat([value[:, 1:], future], 1)
    going = 1 - ended
    surprise, weight = reward + gamma * after * going - value, gamma * trace * going
    columns, total = [], torch.zeros_like(future[:, 0])
    for step in reversed(range(reward.shape[1])):
        total = surprise[:, step] + weight[:, step] * total
        columns.append(total)
    return torch.stack(columns[::-1], 1)
