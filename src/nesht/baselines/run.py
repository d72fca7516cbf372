"""One run of a baseline: the same task, evaluation and run folder as an evolution strategy's.

config.toml         the task, the training options, the algorithm and its settings, and where it was computed
evaluations.csv     one row per evaluation
model.zip           the trained model, as stable-baselines3 saves it
policy.safetensors  what it has learnt, as a policy like any other (of screens there is none)
summary.json        the result, once the run is finished
"""

from __future__ import annotations

import csv
import time
import tomllib
import warnings
from collections.abc import Callable
from contextlib import closing
from dataclasses import asdict, dataclass, field, replace
from pathlib import Path
from typing import Any

import numpy as np
import tomli_w
from gymnasium.spaces import Box, Discrete

from nesht.baselines.changes import check_settings
from nesht.baselines.policy import moments_of, write_policy
from nesht.baselines.settings import Settings, make_model
from nesht.config import RECENT, TaskOptions, plain_task
from nesht.errors import UserError
from nesht.keys import check_seed
from nesht.policies.moments import Moments
from nesht.tasks.imperfect import RewardMask
from nesht.tasks.task import Task, make_task
from nesht.training.folder import CONFIG, EVALUATIONS, MODEL, RunFolder

COLUMNS = ("seed", "steps", "score", "seconds")
WHERE = ("device", "engine")
"""Options that say where a run is computed."""
ENGINES = ("auto", "gym", "fused")


@dataclass(frozen=True)
class BaselineConfig:
    """All that decides a baseline's run."""

    algorithm: str
    settings: Settings
    task: TaskOptions = field(default_factory=TaskOptions)
    steps: int = 1_000_000
    seed: int = 0
    eval_every: int | None = None
    eval_episodes: int = 10
    device: str = "auto"
    engine: str = "auto"
    """gym (every run by itself, with stable-baselines3), fused (runs trained together), or what suits the device."""

    def change(self, **options: Any) -> BaselineConfig:
        """Return a copy with some options changed."""
        return replace(self, **options)

    @property
    def evaluate_every(self) -> int:
        """Steps between two evaluations; the first one is after one step, the last one at the end."""
        return max(1, self.steps // 100) if self.eval_every is None else self.eval_every

    def evaluation_seeds(self, steps: int) -> list[int]:
        """Return the seeds of the episodes of an evaluation after so many steps."""
        return [int(seed) for seed in np.random.SeedSequence([self.seed, steps]).generate_state(self.eval_episodes)]

    def check(self) -> None:
        """Raise UserError if the numbers make no sense."""
        if self.steps < 1 or self.eval_episodes < 1 or self.evaluate_every < 1:
            raise UserError("steps, eval_episodes and eval_every must be at least 1.")
        if self.engine not in ENGINES:
            raise UserError(f"engine must be {', '.join(ENGINES[:-1])} or {ENGINES[-1]}, got {self.engine!r}.")
        check_seed(self.seed)
        check_settings(self.settings)

    def identity(self) -> dict[str, Any]:
        """Return all that may change a result, but for the seed: not where it is computed."""
        return {name: value for name, value in self._plain().items() if name not in ("seed", *WHERE)}

    def made(self, folder: Path) -> bool:
        """Whether the run of a folder, finished or not, is the one of these options, wherever it was computed."""
        if not (folder / CONFIG).exists():
            return False
        try:
            there, wanted = tomllib.loads((folder / CONFIG).read_text()), tomllib.loads(self.to_toml())
        except ValueError:  # damaged
            return False
        return all(there.get(name) == wanted.get(name) for name in {*there, *wanted}.difference(WHERE))

    def to_toml(self) -> str:
        """Return the options as a file."""
        return tomli_w.dumps(_without_none(self._plain()))

    def _plain(self) -> dict[str, Any]:
        return {**asdict(self), "task": plain_task(self.task)}


def _without_none(plain: dict[str, Any]) -> dict[str, Any]:
    """Return nested options without those that are None, which TOML cannot say."""
    nested = {name: _without_none(value) if isinstance(value, dict) else value for name, value in plain.items()}
    return {name: value for name, value in nested.items() if value is not None}


Report = Callable[[int, float], None]
"""Called with (steps, score) after every evaluation."""


def train_baseline(config: BaselineConfig, out: Path, report: Report | None = None) -> dict[str, Any]:
    """Train, evaluate along the way, and write the run folder; returns the summary."""
    import torch
    from stable_baselines3.common.utils import get_device

    config.check()
    config = config.change(engine="gym", device=str(get_device(config.device)))
    torch.set_num_threads(1)
    task = make_task(config.task)
    check_actions(task)
    with closing(Diary(config, out)) as diary:
        return _train(config, task, diary, out, report)


def _train(config: BaselineConfig, task: Task, diary: Diary, out: Path, report: Report | None) -> dict[str, Any]:
    from stable_baselines3.common.vec_env import DummyVecEnv, VecNormalize

    plain = replace(task, mask=RewardMask())  # every reward counts in an evaluation
    env: Any = DummyVecEnv([lambda: _single(task)] * config.settings.get("n_envs", 1))
    if config.settings["normalise"]:
        env = VecNormalize(env, gamma=config.settings["gamma"])
    model = make_model(config.algorithm, env, config.settings, config.seed, config.device)
    watch = _watcher(config, plain, diary, report)
    model.learn(config.steps, callback=watch)
    watch.evaluate()
    model.save(out / MODEL)
    if task.game is None:
        numbers = {name: each.cpu().numpy() for name, each in model.policy.state_dict().items()}
        write_policy(config, task, env.action_space, numbers, _seen(model), out)
    env.close()
    watch.close()
    return diary.finish(int(model.num_timesteps), int(model._n_updates))


class Diary:
    """Writes down how a run goes and what came out, but for its model; no other process may work in its folder.

    Args:
        config: of the run.
        out: its folder; what a run has left there is removed.
    """

    def __init__(self, config: BaselineConfig, out: Path):
        self._config, self._began, self._folder = config, time.monotonic(), RunFolder(out)
        self._scores: list[float] = []
        self._folder.start(config)
        self._file = open(out / EVALUATIONS, "w", newline="")  # noqa: SIM115
        self._rows = csv.DictWriter(self._file, COLUMNS)
        self._rows.writeheader()

    def add(self, steps: int, score: float) -> None:
        """Write down an evaluation."""
        self._scores.append(score)
        seconds = round(time.monotonic() - self._began, 1)
        self._rows.writerow({"seed": self._config.seed, "steps": steps, "score": score, "seconds": seconds})
        self._file.flush()

    @property
    def score(self) -> float:
        """The mean of the last evaluations."""
        return float(np.mean(self._scores[-RECENT:]))

    def finish(self, steps: int, updates: int, diverged: int = 0) -> dict[str, Any]:
        """Write down that the run is finished; returns the summary."""
        summary = {
            "seed": self._config.seed,
            "score": self.score,
            "steps": steps,
            "generations": updates,
            "seconds": time.monotonic() - self._began,
            "diverged": diverged,
        }
        self._folder.summarise(summary)
        return summary

    def close(self) -> None:
        """Let go of the folder."""
        self._file.close()
        self._folder.close()


def _seen(model: Any) -> Moments:
    """Return the moments of the observations in training, as far as the model still knows them."""
    if (normaliser := model.get_vec_normalize_env()) is not None:
        known = normaliser.obs_rms
        return Moments(np.array(float(known.count)), known.mean, known.var * known.count)
    buffer = getattr(model, "replay_buffer", None) or model.rollout_buffer
    rows = buffer.observations[: buffer.size()]
    return moments_of(rows.reshape(-1, rows.shape[-1]))


def check_actions(task: Task) -> None:
    """Raise UserError if a task's actions are not what rivals can learn."""
    _ = task.spaces  # known from here on
    if task.locomotion is not None or task.discrete:
        return
    with closing(task.make_base()) as env:
        actions = env.action_space
    if isinstance(actions, Box) and not np.isfinite([actions.low, actions.high]).all():
        raise UserError(
            f"the actions of {task.name} have no bounds, which rivals need: give their space a finite low and high."
        )


def _single(task: Task) -> Any:
    """Make a task's environment as stable-baselines3 takes it: discrete actions are counted from 0 there.

    Observations have single precision, as replay buffers hold a million of them.
    """
    from gymnasium.wrappers import DtypeObservation, TransformAction

    if task.game is not None:  # screens stay bytes
        return task.make()
    with warnings.catch_warnings():  # of single precision, and of newer environments
        warnings.simplefilter("ignore")
        env = DtypeObservation(task.make(), np.float32)
    actions = env.action_space
    return TransformAction(env, task.native, Discrete(actions.n)) if isinstance(actions, Discrete) else env


def _watcher(config: BaselineConfig, task: Task, diary: Diary, report: Report | None) -> Any:
    """Return the callback that evaluates every now and then."""
    from stable_baselines3.common.callbacks import BaseCallback

    class Watch(BaseCallback):
        """Evaluates the policy on episodes of their own, all at a time."""

        def __init__(self) -> None:
            super().__init__()
            self._next, self._last = 0, -1
            self._envs = [_single(task) for _ in range(config.eval_episodes)]

        def _on_step(self) -> bool:
            if self.num_timesteps >= self._next:
                self.evaluate()
                self._next += config.evaluate_every
            return True

        def evaluate(self) -> None:
            """Evaluate and write it down, unless that was just done."""
            if self._last == self.num_timesteps:
                return
            self._last = self.num_timesteps
            score = float(episode_scores(self.model, self._envs, config.evaluation_seeds(self._last)).mean())
            diary.add(self._last, score)
            if not np.isfinite(score):
                raise UserError(
                    f"seed {config.seed}: the score after {self._last:,} steps is no number: rewards, observations or "
                    "networks are not finite any more. Look at the environment, or try a smaller learning_rate."
                )
            if report is not None:
                report(self._last, score)

        def close(self) -> None:
            """Free the environments."""
            for env in self._envs:
                env.close()

    return Watch()


def episode_scores(model: Any, envs: list[Any], seeds: list[int]) -> np.ndarray:
    """Run an episode in every environment with the model's best actions; returns the sums of rewards."""
    normaliser = model.get_vec_normalize_env()
    seen = np.stack([env.reset(seed=seed)[0] for env, seed in zip(envs, seeds, strict=True)])
    total, running = np.zeros(len(envs)), np.ones(len(envs), bool)
    while running.any():
        given = normaliser.normalize_obs(seen) if normaliser is not None else seen
        actions, _ = model.predict(given, deterministic=True)
        for i in np.flatnonzero(running):
            seen[i], reward, terminated, truncated, _ = envs[i].step(actions[i])
            total[i] += reward
            running[i] = not (terminated or truncated)
    return total
