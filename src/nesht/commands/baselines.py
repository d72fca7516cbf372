"""`nesht baseline`."""

from __future__ import annotations

import json
from dataclasses import dataclass, field
from pathlib import Path
from typing import Annotated, Literal

import tyro

from nesht.commands.runs import parse_seeds
from nesht.config import TaskOptions
from nesht.errors import UserError


@dataclass(frozen=True)
class Baseline:
    """Train a rival on the same task: nesht baseline td3 --env Hopper-v4 --noise-ratio 10 --seeds 0-4."""

    algorithm: tyro.conf.Positional[Literal["trpo", "ddpg", "td3", "anf-sac", "sac", "ppo", "a2c"]]
    """Which one."""
    task: TaskOptions = field(default_factory=TaskOptions)
    steps: int = 1_000_000
    """Environment steps."""
    seeds: Annotated[str, tyro.conf.arg(aliases=["--seed"])] = "0"
    """0-19, or 0,3,5; each gets a folder of its own inside --out."""
    eval_every: int | None = None
    """Environment steps between evaluations (default: a hundredth of the steps)."""
    eval_episodes: int = 10
    """Episodes per evaluation: every reward counts, best actions, steps are not counted."""
    settings: tuple[str, ...] = ()
    """Settings to change, each as name=value: learning_rate=3e-4 net_arch=[256,256]; `--settings help` lists them."""
    processes: int = 0
    """Processes at a time, each on one thread; 0 is one per core. On a GPU: sets of seeds at a time."""
    engine: Literal["auto", "gym", "fused"] = "auto"
    """gym: every run by itself, with stable-baselines3. fused: all seeds together. auto: together if on a GPU."""
    device: Literal["auto", "cpu", "cuda"] = "cpu"
    """Where the networks are trained."""
    out: Path | None = None
    """The folder (default: runs/ALGORITHM-ENV-xNOISE); finished runs in it are not run again."""
    overwrite: bool = False
    """Replace what is there."""

    def execute(self) -> None:
        """Train what is not finished and say what came out."""
        from nesht.baselines.changes import changed
        from nesht.baselines.many import train_baselines
        from nesht.baselines.run import BaselineConfig
        from nesht.training.folder import SUMMARY, algorithm_of, fleet_runs, is_run

        settings, seeds = changed(self.algorithm, list(self.settings), self.task.env), parse_seeds(self.seeds)
        out = self.out or Path("runs") / f"{self.algorithm}-{self.task.env}-x{self.task.noise_ratio:g}"
        if is_run(out):
            raise UserError(f"{out} already holds a single run; choose another --out.")
        if others := {algorithm_of(run) or "nesht train" for run in fleet_runs(out)} - {self.algorithm}:
            raise UserError(f"{out} already holds runs of {', '.join(sorted(others))}; choose another --out.")
        jobs = []
        for seed in seeds:
            config = BaselineConfig(
                self.algorithm,
                settings,
                self.task,
                self.steps,
                seed,
                self.eval_every,
                self.eval_episodes,
                self.device,
                self.engine,
            )
            jobs.append((config, out / f"seed-{seed}"))
        train_baselines(jobs, self.processes, overwrite=self.overwrite, claim=out)
        for config, place in jobs:
            summary = json.loads((place / SUMMARY).read_text())
            print(
                f"seed {config.seed}: score {summary['score']:.1f} after {summary['steps']:,} steps "
                f"in {summary['seconds']:.0f} s"
            )
        print(f"Look at it with: nesht report {out}")
