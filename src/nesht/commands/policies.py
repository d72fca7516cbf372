"""`nesht eval`, `nesht inspect`, `nesht watch` and `nesht bench`."""

from __future__ import annotations

import json
import sys
import tomllib
from dataclasses import dataclass
from pathlib import Path
from typing import Literal

import tyro

from nesht.config import RuntimeOptions, is_atari
from nesht.errors import UserError


@dataclass(frozen=True)
class Eval:
    """Score a trained policy: every reward counts, distractors on, nothing perturbed."""

    path: tyro.conf.Positional[Path]
    """A run folder, the folder of a fleet, or a policy file."""
    episodes: int = 10
    """How many episodes."""
    seed: int = 0
    """The same seed gives the same episodes."""
    threads: int = 0
    """Threads; 0 is one per core."""
    engine: Literal["auto", "fused", "batch", "gym", "atari"] = "auto"
    """Where episodes run."""
    device: Literal["auto", "cpu", "cuda"] = "auto"
    """Where the fused engine runs."""
    json: bool = False
    """Print JSON instead of text."""

    def execute(self) -> None:
        """Evaluate every policy found."""
        import numpy as np

        from nesht.policies.saved import load_policy
        from nesht.training.evaluation import evaluate_policy

        rows = []
        for path in find_policies(self.path):
            runtime = RuntimeOptions(self.engine, self.device, threads=self.threads)
            result = evaluate_policy(load_policy(path), self.episodes, self.seed, runtime)
            scores = result.scores[np.isfinite(result.scores)]
            rows.append(
                {
                    "run": str(path),
                    "episodes": self.episodes,
                    "mean": float(scores.mean()) if scores.size else None,
                    "std": float(scores.std()) if scores.size else None,
                    "min": float(scores.min()) if scores.size else None,
                    "max": float(scores.max()) if scores.size else None,
                    "mean_steps": float(result.steps.mean()),
                    "diverged": result.diverged,
                }
            )
        if self.json:
            print(json.dumps(rows, indent=2))
            return
        for row in rows:
            if row["mean"] is None:
                print(f"{row['run']}: all {row['episodes']} episodes diverged")
                continue
            print(
                f"{row['run']}: score {row['mean']:.1f} ± {row['std']:.1f} "
                f"(min {row['min']:.1f}, max {row['max']:.1f}) "
                f"over {row['episodes']} episodes of {row['mean_steps']:.0f} steps"
                + (f"; {row['diverged']} diverged" if row["diverged"] else "")
            )


@dataclass(frozen=True)
class Inspect:
    """Show which inputs policies use, how strongly, what the score loses without them, and which can be unplugged."""

    paths: tyro.conf.Positional[tuple[Path, ...]]
    """Run folders, folders of fleets, or policy files; of several, also how often each input is chosen."""
    importance: int = 0
    """Measure what the score loses without each input, over so many episodes (0: do not)."""
    threads: int = 0
    """Processes that measure; 0 is one per core."""
    json: bool = False
    """Print JSON instead of tables."""
    figure: Path | None = None
    """Also draw the learning curve and the inputs kept into this picture (needs nesht[plot])."""

    def execute(self) -> None:
        """Print the report of every policy found."""
        from nesht.policies.convolution import ConvNet
        from nesht.policies.saved import load_policy
        from nesht.report.features import feature_report
        from nesht.report.figure import draw_run
        from nesht.report.importance import measure_all
        from nesht.report.screen import print_screen, screen_report
        from nesht.report.stability import stability
        from nesht.report.table import print_features, print_stability
        from nesht.training.folder import check_target

        if not self.paths:
            raise UserError("which run? For example: nesht inspect runs/hopper")
        paths = [found for path in self.paths for found in find_policies(path)]
        if self.figure is not None:
            check_target(self.figure)
            if not all(path.is_dir() for path in paths):
                raise UserError("a figure needs a run folder with metrics, not only a policy file.")
        policies = {str(path): load_policy(path) for path in paths}
        screens = {path: screen_report(each) for path, each in policies.items() if isinstance(each.network, ConvNet)}
        features = {path: feature_report(each) for path, each in policies.items() if path not in screens}
        losses = measure_all(policies, self.importance, self.threads)
        choices = stability(list(policies.values()))
        if self.json:
            plain = {path: report.as_dict() for path, report in features.items()}
            lost = {path: {"importance": each.as_dict()} for path, each in losses.items()}
            told = {path: {**report, **lost.get(path, {})} for path, report in {**screens, **plain}.items()}
            print(json.dumps({"policies": told, "stability": choices.as_dict() if choices else None}, indent=2))
        else:
            for path, numbers in screens.items():
                print_screen(path, numbers)
            for path, report in features.items():
                print_features(path, report, losses.get(path))
            if choices is not None:
                print_stability(choices)
        if self.figure is not None:
            draw_run(paths, self.figure)
            print(f"figure: {self.figure}", file=sys.stderr)


@dataclass(frozen=True)
class Watch:
    """Write an animated picture of an episode: nesht watch runs/hopper --out hopper.gif."""

    path: tyro.conf.Positional[Path]
    """A run folder or a policy file."""
    out: Path = Path("episode.gif")
    """The picture: .gif, .webp or .png."""
    seed: int = 0
    """The same seed gives the same episode: the first one of `nesht eval`."""
    steps: int = 1000
    """Stop after this many steps."""
    every: int = 2
    """Show every so many-th step."""

    def execute(self) -> None:
        """Write the picture and say what happened."""
        from nesht.policies.saved import load_policy
        from nesht.report.watch import watch

        policy = load_policy(find_policy(self.path, "watch"))
        score, steps = watch(policy, self.out, self.seed, self.steps, self.every)
        print(f"score {score:.1f} in {steps} steps; written to {self.out}")


@dataclass(frozen=True)
class Bench:
    """Measure this machine: training steps per second on every engine that can run here."""

    env: str = "HalfCheetah-v4"
    """Hopper-v4, Walker2d-v4 or HalfCheetah-v4 (or v5)."""
    noise_ratio: float = 10.0
    """Distractor features per real feature."""
    threads: int = 0
    """Threads; 0 is one per core."""
    rounds: int = 3
    """How many times to measure; the median is shown."""

    def execute(self) -> None:
        """Measure and print a table."""
        from nesht.report.bench import bench

        bench(self.env, self.noise_ratio, self.threads, self.rounds)


def find_policies(path: Path) -> list[Path]:
    """Return the policy file given, or the run folders that hold one; says which of them do not."""
    from nesht.policies.saved import FILE
    from nesht.training.folder import find_runs

    if path.is_file():
        return [path]
    runs = find_runs(path)
    found = [run for run in runs if (run / FILE).exists()]
    lacking = [f"{run} has no policy {_why(run)}." for run in runs if run not in found]
    if not found:
        raise UserError(lacking[0])
    print(*lacking, sep="\n", end="\n" * bool(lacking), file=sys.stderr)
    return found


def find_policy(path: Path, purpose: str) -> Path:
    """Return the only policy at a path; `purpose` is what to do with one of them, if there are several."""
    found = find_policies(path)
    if len(found) > 1:
        raise UserError(f"{path} holds {len(found)} runs; {purpose} one of them, for example {found[0]}.")
    return found[0]


def _why(run: Path) -> str:
    from nesht.training.folder import CHECKPOINT, CONFIG, SUMMARY

    if (run / CHECKPOINT).exists():
        return f"any more; `nesht resume {run}` writes it again"
    if not (run / SUMMARY).exists():
        return "yet: it is not finished"
    if is_atari(tomllib.loads((run / CONFIG).read_text())["task"]["env"]):
        return "for nesht: what has learnt a game is in model.zip, for stable-baselines3"
    return "for nesht: it was trained by an older version (--overwrite trains it again)"
