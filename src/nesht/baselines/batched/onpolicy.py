"""All runs of an on-policy algorithm: every run collects steps in an environment of its own, then learns from them."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import torch

from nesht.baselines.batched.draws import Draws, Eyes, Purpose
from nesht.baselines.batched.learner import Shape
from nesht.baselines.batched.place import Place
from nesht.baselines.batched.training import make_env, scaler
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
        self._place, runs, device = place, len(seeds), place.device
        self.env, self.draws = make_env(task, runs, place, masked=True), Draws(place, seeds)
        self._scale = scaler(self.env, device)
        self.eyes = Eyes(place, task.n_real, len(task.feature_names) - task.n_real)
        self.learner = TRPO(Shape(self.eyes.all, task.outputs), settings, seeds, place)
        self.moment = torch.zeros((runs, 2), dtype=torch.int32, device=device)
        self.diverged = torch.zeros(runs, dtype=torch.int32, device=device)
        self.updates = self._steps = 0
        self._real = torch.as_tensor(self.env.reset(seed=list(seeds))[0]).clone()
        self._seen = torch.zeros((runs, 2, self.eyes.all), device=device)
        """What every run sees now, scaled, and what it saw at the end of its last step."""
        self.learner.running.scale(self._look(), self._seen[:, :1])
        shapes = {"seen": (self.eyes.all,), "action": (task.outputs,), "density": (), "value": (), "reward": ()}
        self.kept = {
            name: torch.zeros((runs, self._count, *shape), device=device)
            for name, shape in {**shapes, "ended": ()}.items()
        }
        """The steps since the last update, [runs, steps, ...]."""
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

    def _look(self) -> torch.Tensor:
        """Return what the environments show now, [runs, 1, seen], after it was taken into the scale."""
        raw = self.eyes.see(self.draws.seeds, self._real, self.moment)
        self.learner.running.seen.add(raw)
        return raw[:, None]

    def _collect(self) -> None:
        """Act, and write down what came of it."""
        learner, kept, place, step = self.learner, self.kept, self._place, self.draws.step
        with torch.no_grad():
            mean = learner.mean(self._seen[:, :1])
            normal = self.draws.normal(Purpose.EXPLORATION, learner.shape.actions)
            bounded = torch.empty_like(normal)
            given = (step, mean, learner.log_std.detach(), normal, kept["action"], kept["density"], bounded)
            place.launch(place.kernels.draw_normal_actions, len(normal), *given)
            shown, reward, terminated, truncated, infos = self.env.step(self._scale(bounded))
            real, over, timed_out, blown_up, last, reward = map(
                torch.as_tensor, (shown, terminated, truncated, infos["diverged"], infos["final_obs"], reward)
            )
            last = self.eyes.see(self.draws.seeds, last, self.moment, later=1)
            now = (step, self._real, self.moment, self.diverged)
            place.launch(place.kernels.move_on, real.shape, real, over, timed_out, blown_up, *now)
            raw = self._look()
            learner.running.scale(last[:, None], self._seen[:, 1:])
            ended = over | timed_out
            came = (self._seen, learner.values(self._seen), learner.running.reward(reward, ended), over, ended)
            into = (kept["seen"], kept["value"], kept["reward"], kept["ended"])
            place.launch(place.kernels.write_down, last.shape, step, *came, self._gamma, *into)
            learner.running.scale(raw, self._seen[:, :1])

    def _learn(self) -> None:
        """Learn from the steps collected."""
        kept = self.kept
        with torch.no_grad():
            future = self.learner.values(self._seen[:, :1])
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
