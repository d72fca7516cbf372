"""All runs of an on-policy algorithm: every run collects steps in an environment of its own, then learns from them."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import torch

from nesht.baselines.batched.a2c import A2C
from nesht.baselines.batched.actor_critic import ActorCritic, Lived
from nesht.baselines.batched.draws import Draws, Eyes, Purpose
from nesht.baselines.batched.learner import Shape
from nesht.baselines.batched.place import Place
from nesht.baselines.batched.training import make_env, scaler
from nesht.baselines.batched.trpo import TRPO
from nesht.policies.moments import Moments
from nesht.tasks.task import Task

LEARNERS: dict[str, type[ActorCritic]] = {"trpo": TRPO, "a2c": A2C}


class OnPolicyTraining:
    """Networks, environments and the steps since the last update of all runs; has the face of `Training`.

    Args:
        algorithm: trpo or a2c.
        settings: of the algorithm.
        task: what all runs learn.
        seeds: one per run.
        place: where.
    """

    def __init__(self, algorithm: str, settings: dict[str, Any], task: Task, seeds: Sequence[int], place: Place):
        self._gamma, self._trace, self._count = settings["gamma"], settings["gae_lambda"], settings["n_steps"]
        self._place, runs, device = place, len(seeds), place.device
        self.env, self.draws = make_env(task, runs, place, masked=True), Draws(place, seeds)
        self._scale = scaler(self.env, device)
        self.eyes = Eyes(place, task.n_real, len(task.feature_names) - task.n_real)
        self.learner = LEARNERS[algorithm](Shape(self.eyes.all, task.outputs), settings, seeds, place)
        self.moment = torch.zeros((runs, 2), dtype=torch.int32, device=device)
        self.diverged = torch.zeros(runs, dtype=torch.int32, device=device)
        self.updates = self._steps = 0
        self._real = torch.as_tensor(self.env.reset(seed=list(seeds))[0]).clone()
        raw = self.eyes.see(self.draws.seeds, self._real, self.moment)
        self.learner.running.seen.add(raw)
        self._seen = self.learner.running.scale(raw[:, None])
        """What every run sees now, scaled, [runs, 1, seen]."""
        wide, flat = dict.fromkeys(("seen", "after"), (self.eyes.all,)), ("density", "reward", "ended", "cut")
        shapes: dict[str, tuple[int, ...]] = {**wide, "action": (task.outputs,), **dict.fromkeys(flat, ())}
        self.kept = {name: torch.zeros((runs, self._count, *shape), device=device) for name, shape in shapes.items()}
        """The steps since the last update, [runs, steps, ...]: what was seen before and after each, scaled, what was
        done and how likely, what was earned, whether the episode ended, and whether its time limit cut it off."""
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

    def _collect(self) -> None:
        """Act, and write down what came of it."""
        learner, kept, place, step = self.learner, self.kept, self._place, self.draws.step
        with torch.no_grad():
            mean = learner.mean(self._seen)
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
            raw = self.eyes.see(self.draws.seeds, self._real, self.moment)
            ended, scale = over | timed_out, learner.running.seen
            came = (raw, last, learner.running.reward(reward, ended), over, ended, scale.count, scale.mean, scale.var)
            into = (kept["seen"], kept["after"], kept["reward"], kept["ended"], kept["cut"])
            place.launch(place.kernels.write_down, raw.shape, step, *came, self._seen, *into)
            scale.count += 1

    def worth(self) -> tuple[torch.Tensor, torch.Tensor]:
        """Return what critics think of the steps' beginnings, and what steps earned, [runs, steps].

        A step that a time limit cut off also earns what was still to come. The critics do not change while steps are
        collected, so that all are asked at once.
        """
        kept = self.kept
        with torch.no_grad():
            beyond = kept["cut"] * self.learner.values(kept["after"])
            return self.learner.values(kept["seen"]), kept["reward"] + self._gamma * beyond

    def _learn(self) -> None:
        """Learn from the steps collected."""
        kept, (value, reward) = self.kept, self.worth()
        with torch.no_grad():
            future = self.learner.values(self._seen)
            advantage = advantages(reward, value, kept["ended"], future, self._gamma, self._trace)
        lived = Lived(kept["seen"], kept["action"], kept["density"], advantage, advantage + value)
        self.learner.improve(lived, self.draws)

    def seen(self, run: int) -> Moments:
        """Return the moments of all observations of a run."""
        scale = self.learner.running.seen
        count, mean, var = (each.cpu().numpy() for each in (scale.count[0], scale.mean[run], scale.var[run]))
        return Moments(count, mean, var * count)

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
