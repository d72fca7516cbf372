"""All runs, step by step: every run acts in an environment of its own and learns once per step."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import Any

import torch

from nesht.baselines.batched.anf import ANFSAC
from nesht.baselines.batched.draws import Draws, Eyes, Purpose
from nesht.baselines.batched.learner import Learner, Shape
from nesht.baselines.batched.place import Place
from nesht.baselines.batched.replay import Replay
from nesht.baselines.batched.sac import SAC
from nesht.baselines.batched.td3 import DDPG, TD3
from nesht.baselines.policy import moments_of
from nesht.engines.fused.vector import FusedVectorEnv
from nesht.policies.moments import Moments
from nesht.tasks.imperfect import RewardMask
from nesht.tasks.task import Task

LEARNERS: dict[str, type[Learner]] = {"td3": TD3, "ddpg": DDPG, "sac": SAC, "anf-sac": ANFSAC}


def make_env(task: Task, copies: int, place: Place, masked: bool) -> FusedVectorEnv:
    """Make copies of a task's environment without its distractors, which `Eyes` add; `masked` as training sees it."""
    assert isinstance(task.env, str)
    mask = task.mask if masked else RewardMask()
    return FusedVectorEnv(
        task.env,
        copies,
        reward_keep=mask.keep,
        reward_every=mask.every,
        max_episode_steps=task.max_episode_steps,
        device=place.device.type,
        threads=1,
    )


def scaler(env: FusedVectorEnv, device: torch.device) -> Callable[[torch.Tensor], torch.Tensor]:
    """Return what turns actions in [-1, 1] into those that an environment wants."""
    space: Any = env.single_action_space
    middle, half = (
        torch.as_tensor(each / 2, device=device) for each in (space.high + space.low, space.high - space.low)
    )
    return lambda action: torch.addcmul(middle, action, half)


class Training:
    """Networks, environments and memories of all runs.

    A step is an action, and beside each other the environment's step and an update. The update's batch is therefore
    drawn from the steps before this one, where stable-baselines3 would have the newest one among a million.

    Args:
        algorithm: td3, ddpg, sac or anf-sac.
        settings: of the algorithm.
        task: what all runs learn.
        seeds: one per run.
        place: where.
    """

    def __init__(self, algorithm: str, settings: dict[str, Any], task: Task, seeds: Sequence[int], place: Place):
        self._settings, self._place, runs, device = settings, place, len(seeds), place.device
        self.env, self.draws = make_env(task, runs, place, masked=True), Draws(place, seeds)
        self._scale = scaler(self.env, device)
        self.eyes = Eyes(place, task.n_real, len(task.feature_names) - task.n_real)
        self.learner = LEARNERS[algorithm](Shape(self.eyes.all, task.outputs), settings, seeds, place)
        self.replay = Replay(self.eyes, self.draws, task.outputs, settings["buffer_size"], place)
        self.real = torch.as_tensor(self.env.reset(seed=list(seeds))[0]).clone()
        """The real features that every run sees now."""
        self.moment = torch.zeros((runs, 2), dtype=torch.int32, device=device)
        """Which episode a run is in, and how many steps into it."""
        self.diverged = torch.zeros(runs, dtype=torch.int32, device=device)
        """Episodes whose simulation blew up."""
        self.steps = self.updates = 0
        self._programs: dict[str, Callable[[], None]] = {
            "warm up": place.record(lambda: self._step(update=False, policy=False)),
            "critics": place.record(lambda: self._step(update=True, policy=False)),
            "all": place.record(lambda: self._step(update=True, policy=True)),
        }

    def whole(self, steps: int) -> int:
        """Return how many steps are taken when so many are asked for."""
        return steps

    def step(self) -> None:
        """Take one step of every run."""
        self.steps += 1
        if self.steps <= self._settings["learning_starts"]:
            self._programs["warm up"]()
            return
        self.updates += 1
        self._programs["all" if self.updates % self.learner.policy_every == 0 else "critics"]()
        if self.learner.rewire_every and self.updates % self.learner.rewire_every == 0:
            self.learner.rewire(self.draws)

    def _step(self, update: bool, policy: bool) -> None:
        """Act, step the environments beside an update of the networks, and write it down."""
        action = self._action(random=not update)
        self.env.step_async(self._scale(action))
        if update:
            self.learner.update(self.replay.sample(self._settings["batch_size"]), self.draws, policy)
        seen, reward, terminated, truncated, infos = self.env.step_wait()
        shown = (seen, terminated, truncated, infos["diverged"], infos["final_obs"], reward)
        seen, over, timed_out, blown_up, last, reward = map(torch.as_tensor, shown)
        self.replay.add(self.real, last, action, reward, over, self.moment)
        now = (self.draws.step, self.real, self.moment, self.diverged)
        self._place.launch(self._place.kernels.move_on, self.real.shape, seen, over, timed_out, blown_up, *now)

    def _action(self, random: bool) -> torch.Tensor:
        """Return actions in [-1, 1], [runs, actions]."""
        count = self.learner.shape.actions
        if random:
            action = 2 * self.draws.uniform(Purpose.WARM_UP, count) - 1
        else:
            seen = self.eyes.see(self.draws.seeds, self.real, self.moment)
            action = self.learner.explore(seen, self.draws)
        if "action_noise" in self._settings:
            noise = self.draws.normal(Purpose.ACTION_NOISE, count)
            action = action.add(noise, alpha=self._settings["action_noise"]).clamp_(-1, 1)
        return action

    def seen(self, run: int) -> Moments:
        """Return the moments of the observations that a run remembers."""
        memory, eyes = self.replay.numbers[run, : self.steps, : self.eyes.real], self.eyes
        return moments_of(memory.cpu().numpy()).with_standard_normals(eyes.all - eyes.real)

    def close(self) -> None:
        """Free the environments."""
        self.env.close()
