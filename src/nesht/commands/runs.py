"""`nesht train` and `nesht resume`."""

from __future__ import annotations

import math
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any, Literal

import tyro

from nesht.config import Config
from nesht.errors import UserError

MOST = 1_000_000
"""Seeds at a time, at most."""


@dataclass(frozen=True)
class Train:
    """Train a sparse policy: nesht train --env Hopper-v4 --noise-ratio 10 --beta 0.9 --out runs/hopper."""

    out: Path | None = None
    """The run folder (default: runs/ENV-xNOISE, made from the options)."""
    seeds: str | None = None
    """Train several runs together, one per seed: 0-19, or 0,3,5. Each gets a folder of its own inside --out."""
    overwrite: bool = False
    """Replace a run that is already in --out."""
    preset: Literal["tuned", "paper", "reference"] = "tuned"
    """Options to start from: tuned (whole features, memory), paper (the authors' trainer), reference (their code)."""
    config: Path | None = None
    """A TOML file with options, such as the config.toml of another run; it overrides the preset, flags override it."""
    options: Config = field(default_factory=Config)

    def execute(self) -> None:
        """Train and say what came out."""
        from nesht.training.api import train_fleet

        config = self.options
        seeds = parse_seeds(self.seeds) if self.seeds is not None else [config.training.seed]
        out = self.out or Path("runs") / slug(config)
        results = train_fleet(seeds, config=config, out=out, overwrite=self.overwrite)
        for result in results:
            print(_told(result))
        print(f"Look at it with: nesht inspect {out}")


@dataclass(frozen=True)
class Resume:
    """Go on with a run (or a fleet) that was stopped, or give a finished one a larger budget."""

    path: tyro.conf.Positional[Path]
    """The run folder."""
    steps: int | None = None
    """A larger budget in environment steps."""
    generations: int | None = None
    """A larger budget in generations."""
    seconds: float | None = None
    """A larger budget in wall time."""
    threads: int | None = None
    """Another number of threads; the result stays the same."""
    engine: Literal["auto", "fused", "batch", "gym", "ray"] | None = None
    """Another engine."""
    address: str | None = None
    """Another Ray cluster."""
    device: Literal["auto", "cpu", "cuda"] | None = None
    """Another device for the fused engine."""
    track: Literal["none", "tensorboard", "wandb", "mlflow"] | None = None
    """Another tracker, or none."""

    def execute(self) -> None:
        """Resume and say what came out."""
        from nesht.training.api import resume

        names = ("steps", "generations", "seconds", "threads", "engine", "device", "address", "track")
        changes = {name: getattr(self, name) for name in names if getattr(self, name) is not None}
        for result in resume(self.path, **changes):
            print(_told(result))


def parse_seeds(text: str) -> list[int]:
    """Read 0-19, or 0,3,5, or a mix of both."""
    seeds: list[int] = []
    try:
        for part in text.split(","):
            first, dash, last = part.partition("-")
            found = range(int(first), int(last) + 1) if dash else range(int(first), int(first) + 1)
            if not 0 < len(found) <= MOST:
                raise ValueError
            seeds += found
    except (ValueError, OverflowError):
        raise UserError(f"seeds are written 0-19 or 0,3,5, the smaller one first; got {text!r}.") from None
    if len(set(seeds)) < len(seeds):
        raise UserError(f"seeds must be given, each once; got {text!r}.")
    return seeds


def slug(config: Config) -> str:
    """Return a name for the folder of a task: Hopper-v4-x10."""
    task = config.sections()["task"]
    name = "".join(c if c.isalnum() or c in "-." else "-" for c in str(task["env"]))
    return f"{name or 'run'}-x{task['noise_ratio']:g}"


def _told(result: Any) -> str:
    lost = f", {result.diverged} episodes diverged" if result.diverged else ""
    if not math.isfinite(result.score):
        lost += "; no score, for weights or rewards are not finite: look at the environment, or try a smaller --lr"
    policy = result.policy
    real = f", {policy.used[: policy.n_real].sum()} of them real" if len(policy.feature_names) > policy.n_real else ""
    return (
        f"seed {result.seed}: score {result.score:.1f} after {result.steps:,} steps in {result.seconds:.0f} s; "
        f"{policy.used.sum()} of {len(policy.feature_names)} inputs used{real}{lost}"
    )
