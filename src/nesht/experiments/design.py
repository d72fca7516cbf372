"""What an experiment is: a question, and a declared list of cells, each a setting that is run with many seeds."""

from __future__ import annotations

import hashlib
from collections.abc import Callable, Sequence
from dataclasses import dataclass, field
from typing import Any

from nesht.baselines.run import BaselineConfig
from nesht.baselines.settings import SETTINGS
from nesht.config import Config, TaskOptions
from nesht.experiments.methods import REINFORCEMENT, settings

ENVS = ("HalfCheetah-v4", "Hopper-v4", "Walker2d-v4")
STEPS = 10_000_000
REWARD_KEEP = 0.1


@dataclass(frozen=True)
class Cell:
    """One setting and the labels it is reported under."""

    labels: dict[str, Any]
    config: Config | BaselineConfig

    @property
    def name(self) -> str:
        """The labels as one word, for folders."""
        return "-".join(
            f"{key}={value}" if key not in ("env", "method") else str(value) for key, value in self.labels.items()
        )

    def digest(self) -> str:
        """Return a short text that changes with anything that may change a result (not with where it is computed)."""
        where = self.labels.get("engine")  # only in experiments that ask about it
        return hashlib.sha256(repr((self.config.identity(), where)).encode()).hexdigest()[:12]


@dataclass(frozen=True)
class Options:
    """What a user may choose about an experiment."""

    envs: Sequence[str] = ENVS
    steps: int = STEPS
    preset: str = "tuned"
    runtime: dict[str, Any] = field(default_factory=dict)
    games: Sequence[str] = ("Qbert", "Atlantis", "BattleZone", "NameThisGame")
    betas: Sequence[float] = (0.0, 0.5, 0.9, 0.95)
    """Of the experiment with games."""


@dataclass(frozen=True)
class Experiment:
    """A question and the cells that answer it."""

    name: str
    question: str
    cells: Callable[[Options], list[Cell]]
    seeds: str = "0-19"
    """The seeds it is meant to be run with."""
    segments: bool = False
    """Whether the weights of every stretch of inputs are kept at every evaluation."""


def rival(options: Options, env: str, ratio: float, method: str) -> Cell:
    """Return the cell of a reinforcement learner on a noisy task; it gets a tenth of the steps, as in the paper."""
    name = REINFORCEMENT[method]
    task = TaskOptions(env, float(ratio), REWARD_KEEP)
    device, engine = options.runtime.get("device", "auto"), options.runtime.get("engine", "auto")
    if engine == "batch":  # one at a time, with stable-baselines3, whose small networks are fastest on a CPU
        engine, device = "gym", "cpu" if device == "auto" else device
    steps = max(1, options.steps // 10)
    config = BaselineConfig(name, SETTINGS[name], task, steps, device=device, engine=engine)
    return Cell({"env": env, "noise": ratio, "method": method, "preset": options.preset}, config)


def cell(
    options: Options, env: str, ratio: float, method: str, more: dict[str, Any] | None = None, **labels: Any
) -> Cell:
    """Return the cell of a method on a noisy task; `more` overrides the method's settings."""
    task = {"env": env, "noise_ratio": float(ratio), "reward_keep": REWARD_KEEP, "steps": options.steps}
    config = Config().change(**{**settings(options.preset, method, env), **task, **options.runtime, **(more or {})})
    return Cell({"env": env, "noise": ratio, "method": method, "preset": options.preset, **labels}, config)
