"""Do runs that are trained together learn like those of stable-baselines3? Same task, seeds and evaluations for both.

Writes the scores of all runs over their steps, their means, and how likely a run of one is better than one of the other
(0.5 if they are alike), with a 95 % interval. What is in `--runs` with the same settings is not trained again.

    python benchmarks/curves.py --algorithm trpo --seeds 0-5 --steps 100_000
"""

from __future__ import annotations

import argparse
import csv
import json
from pathlib import Path

from machine import command, describe
from nesht.baselines.batched import ALGORITHMS
from nesht.baselines.changes import changed
from nesht.baselines.many import train_baselines
from nesht.baselines.run import EVALUATIONS, BaselineConfig
from nesht.commands.runs import parse_seeds
from nesht.config import TaskOptions
from nesht.experiments.design import Cell
from nesht.experiments.statistics import mean, probability_of_improvement
from nesht.storage import write_file
from nesht.training.folder import SUMMARY

EVALUATED = 20
"""Evaluations per run."""


def main() -> None:
    """Train what is missing and write the comparison."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--algorithm", choices=ALGORITHMS, default="trpo")
    parser.add_argument("--env", default="Hopper-v4")
    parser.add_argument("--noise-ratio", type=float, default=5.0)
    parser.add_argument("--reward-keep", type=float, default=1.0)
    parser.add_argument("--steps", type=int, default=100_000)
    parser.add_argument("--seeds", default="0-5")
    parser.add_argument("--settings", nargs="*", default=[], help="name=value, as with nesht baseline")
    parser.add_argument(
        "--device", choices=("cpu", "cuda"), default="cpu", help="of the runs that are trained together"
    )
    parser.add_argument("--runs", type=Path, default=Path("runs/curves"))
    parser.add_argument("--out", type=Path, help="default: results/curves-ALGORITHM.json")
    given = parser.parse_args()
    task = TaskOptions(given.env, given.noise_ratio, given.reward_keep)
    settings = changed(given.algorithm, given.settings)
    plain = BaselineConfig(given.algorithm, settings, task, given.steps, 0, given.steps // EVALUATED, 5, "cpu")
    seeds = parse_seeds(given.seeds)
    place = given.runs / f"{given.algorithm}-{Cell({}, plain).digest()}"
    folders = {who: [place / who / f"seed-{seed}" for seed in seeds] for who in ("together", "alone")}
    how = {"together": plain.change(device=given.device, engine="fused"), "alone": plain.change(engine="gym")}
    for who, config in how.items():
        train_baselines([(config.change(seed=seed), out) for seed, out in zip(seeds, folders[who], strict=True)])
    scores = {who: [json.loads((out / SUMMARY).read_text())["score"] for out in outs] for who, outs in folders.items()}
    found = {
        "command": command(),
        **describe(),
        "algorithm": given.algorithm,
        "scores": {who: [round(score, 1) for score in each] for who, each in scores.items()},
        "mean": {who: vars(mean(each)) for who, each in scores.items()},
        "together_is_better": vars(probability_of_improvement(scores["together"], scores["alone"])),
        "curves": {who: [_curve(out) for out in outs] for who, outs in folders.items()},
    }
    out = given.out or Path(f"results/curves-{given.algorithm}.json")
    write_file(out, (json.dumps(found) + "\n").encode())
    for who, each in scores.items():
        print(f"{given.algorithm} {who}: {mean(each).value:.0f} ({mean(each).low:.0f} to {mean(each).high:.0f})")


def _curve(folder: Path) -> list[tuple[int, float]]:
    with open(folder / EVALUATIONS, newline="") as file:
        return [(int(row["steps"]), round(float(row["score"]), 1)) for row in csv.DictReader(file)]


if __name__ == "__main__":
    main()
