"""Do the rivals learn where nothing is hidden? A pole to balance, no noise, every reward; 950 is solved (Gymnasium).

    python benchmarks/rivals_learn.py [--algorithm td3 ppo] [--seeds 0-2]

Every algorithm has the settings that it has for the robots. What is in `--runs` with the same settings is not trained
again. Ends with 1 if the mean over seeds of an algorithm's best three evaluations in a row is below 950.
"""

from __future__ import annotations

import argparse
import csv
import json
import sys
from pathlib import Path

import gymnasium
import numpy as np

from machine import command, describe
from nesht.baselines.changes import changed
from nesht.baselines.many import train_baselines
from nesht.baselines.run import EVALUATIONS, BaselineConfig
from nesht.commands.runs import parse_seeds
from nesht.config import TaskOptions
from nesht.experiments.design import Cell
from nesht.storage import write_file

ENV = "InvertedPendulum-v4"
STEPS = {
    "trpo": 100_000,
    "ddpg": 25_000,
    "td3": 35_000,
    "sac": 25_000,
    "anf-sac": 60_000,  # it begins to learn after 25,000
    "ppo": 100_000,
    "a2c": 200_000,
}
EVALUATED, IN_A_ROW = 25, 3
"""Evaluations per run, and how many of them in a row make its score."""


def best_stretch(folder: Path) -> float:
    """Return the best mean of a few evaluations in a row."""
    with open(folder / EVALUATIONS, newline="") as file:
        scores = [float(row["score"]) for row in csv.DictReader(file)]
    return max(float(np.mean(scores[i : i + IN_A_ROW])) for i in range(len(scores) - IN_A_ROW + 1))


def main() -> None:
    """Train what is missing and say what came out."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--algorithm", nargs="+", choices=list(STEPS), default=list(STEPS))
    parser.add_argument("--seeds", default="0")
    parser.add_argument("--runs", type=Path, default=Path("runs/rivals-learn"))
    parser.add_argument("--out", type=Path, default=Path("results/rivals-learn.json"))
    given = parser.parse_args()
    solved = gymnasium.spec(ENV).reward_threshold
    assert solved is not None
    jobs: dict[str, list[tuple[BaselineConfig, Path]]] = {}
    for name in given.algorithm:
        steps = STEPS[name]
        plain = BaselineConfig(
            name, changed(name, []), TaskOptions(ENV), steps, eval_every=steps // EVALUATED, device="cpu"
        )
        place = given.runs / f"{name}-{Cell({}, plain).digest()}"
        jobs[name] = [(plain.change(seed=seed), place / f"seed-{seed}") for seed in parse_seeds(given.seeds)]
    train_baselines([job for each in jobs.values() for job in each])
    scores = {name: [best_stretch(out) for _, out in each] for name, each in jobs.items()}
    found = {"command": command(), **describe(), "env": ENV, "solved": solved, "steps": STEPS, "scores": scores}
    write_file(given.out, (json.dumps(found, indent=1) + "\n").encode())
    for name, each in scores.items():
        print(f"{name} after at most {STEPS[name]:,} steps: {', '.join(f'{score:.0f}' for score in each)}")
    if behind := [name for name, each in scores.items() if np.mean(each) < solved]:
        sys.exit(f"below {solved:g}: {', '.join(behind)}")


if __name__ == "__main__":
    main()
