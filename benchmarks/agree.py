"""Do the `fused` and `batch` engines tell the same story? Whole episodes of trained policies, and learning curves.

    python benchmarks/agree.py --out results/agree.json

For every environment, a policy trained on `fused` runs a thousand full episodes on each engine (two-sample
Kolmogorov-Smirnov tests on score and length: with 6 tests at 0.1 % each, a false alarm somewhere has a chance of at
most 0.6 %), and runs of several seeds are trained on both (their scores' 95 % intervals should overlap).
"""

from __future__ import annotations

import argparse
import json
import math
from dataclasses import replace
from pathlib import Path
from typing import Any

import numpy as np

import nesht
from fused import ENVS, RATIO, perturbed, task_of
from machine import command, describe
from nesht import keys
from nesht.config import Config, RuntimeOptions
from nesht.engines import make_engine
from nesht.presets import preset

ALARM = 1e-3
STUDENT = {2: 12.71, 3: 4.303, 4: 3.182, 5: 2.776, 6: 2.571}
"""Student's t for a 95 % interval of the mean of that many numbers."""


def config(env: str, engine: str, steps: int) -> Config:
    task = {"env": env, "noise_ratio": RATIO, "reward_keep": 0.1}
    return Config().change(**preset("tuned", env), **task, steps=steps, engine=engine, device="auto")


def whole_episodes(policy: Any, env: str, engine: str, count: int) -> tuple[np.ndarray, np.ndarray]:
    """Return the scores and lengths of full episodes of the policy itself."""
    asked = perturbed(policy, count)
    own = np.full(count, keys.EVALUATION)
    asked = replace(asked, member=own, luck=own, rollout=np.arange(count))
    made = make_engine(task_of(env), policy.network, RuntimeOptions(engine))
    outcomes = made.run(asked)
    made.close()
    return outcomes.score, outcomes.steps


def kolmogorov_smirnov(a: np.ndarray, b: np.ndarray) -> tuple[float, float]:
    """Return the two-sample statistic and the value that it exceeds by chance with probability ALARM."""
    both = np.sort(np.concatenate([a, b]))
    below = [np.searchsorted(np.sort(x), both, side="right") / len(x) for x in (a, b)]
    limit = math.sqrt(-math.log(ALARM / 2) / 2 * (len(a) + len(b)) / (len(a) * len(b)))
    return float(np.abs(below[0] - below[1]).max()), limit


def interval(scores: list[float]) -> tuple[float, float, float]:
    """Return the mean and its 95 % interval."""
    mean, half = float(np.mean(scores)), STUDENT[len(scores)] * float(np.std(scores, ddof=1)) / math.sqrt(len(scores))
    return mean, mean - half, mean + half


def main() -> None:
    """Compare and report."""
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--episodes", type=int, default=1000)
    parser.add_argument("--steps", type=int, default=600_000, help="of the learning curves")
    parser.add_argument("--seeds", type=int, default=4, choices=STUDENT)
    parser.add_argument("--out", type=Path, default=Path("results/agree.json"))
    options = parser.parse_args()
    report: dict[str, Any] = {"command": command(), **describe()}
    for env in ENVS:
        policy = nesht.train(config=config(env, "fused", 3_000_000), seed=1000, progress=False).policy
        seen = {engine: whole_episodes(policy, env, engine, options.episodes) for engine in ("fused", "batch")}
        row: dict[str, Any] = {"episodes": options.episodes}
        for i, what in enumerate(("score", "length")):
            statistic, limit = kolmogorov_smirnov(seen["fused"][i], seen["batch"][i])
            means = {f"mean {engine}": float(seen[engine][i].mean()) for engine in seen}
            row[what] = {**means, "statistic": statistic, "limit": limit, "agree": statistic < limit}
        print(env, json.dumps(row), flush=True)
        row["curves"] = {}
        for engine in ("fused", "batch"):
            seeds = range(2000, 2000 + options.seeds)
            runs = nesht.train_fleet(seeds, config=config(env, engine, options.steps), progress=False)
            curves = [[(e["steps"], round(e["score"], 1)) for e in run.evaluations] for run in runs]
            mean, low, high = interval([run.score for run in runs])
            row["curves"][engine] = {"mean": mean, "low": low, "high": high, "runs": curves}
            print(f"{env} {engine}: {mean:.0f} ({low:.0f} to {high:.0f})", flush=True)
        ours, theirs = row["curves"]["fused"], row["curves"]["batch"]
        row["curves"]["agree"] = ours["low"] <= theirs["high"] and theirs["low"] <= ours["high"]
        report[env] = row
        options.out.write_text(json.dumps(report) + "\n")


if __name__ == "__main__":
    main()
