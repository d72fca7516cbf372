"""Do learners learn as well with halved products, as on a GPU, as with whole ones? Many runs of both, on a CPU.

    python benchmarks/halved.py --algorithm td3 --seeds 0-39

A CPU has no products of float16: what is multiplied is rounded to it, as `baselines/batched/halves.py` does, and then
multiplied as float32. The same small networks as in `curves.py`. Writes the scores of all runs, at the end and over all
evaluations, with 95 % intervals, and how likely a run with halved products is better than one without (0.5: alike).
"""

from __future__ import annotations

import argparse
import json
import multiprocessing
from collections.abc import Sequence
from pathlib import Path

import torch

from curves import EVALUATED
from machine import command, describe
from nesht.baselines.batched import OFF_POLICY
from nesht.baselines.batched.halves import MOST, SCALE
from nesht.baselines.batched.networks import Improver, Networks, Trail
from nesht.baselines.batched.products import Whole
from nesht.baselines.batched.run import RunSet
from nesht.baselines.changes import changed
from nesht.baselines.run import BaselineConfig
from nesht.commands.runs import parse_seeds
from nesht.config import RECENT, TaskOptions
from nesht.experiments.statistics import mean, probability_of_improvement
from nesht.training.folder import read_scores

SMALL = ["net_arch=[64,64]", "batch_size=64", "learning_starts=1000"]


def _round(numbers: torch.Tensor, scale: float = 1.0) -> torch.Tensor:
    return (numbers * scale).clamp_(-MOST, MOST).half().float().div_(scale)


class Rounded(Whole):
    """Products of float32 of numbers that were rounded to float16."""

    def forward(self, x: torch.Tensor, weights: Sequence[torch.Tensor]) -> Trail:
        """See `Whole.forward`."""
        trail, x = [_round(x)], _round(x)
        for i, weight in enumerate(map(_round, weights)):
            *_, x = super().forward(x, [weight])
            x = x if i == len(weights) - 1 else _round(x.relu_())
            trail.append(x)
        return trail

    def pulls(self, trail: Trail, pull: torch.Tensor, weights: Sequence[torch.Tensor]) -> list[torch.Tensor]:
        """See `Whole.pulls`."""
        found = [_round(pull, SCALE)]
        for weight, x in zip(weights[:0:-1], trail[-2:0:-1], strict=True):
            back = torch.bmm(found[-1], _round(weight[:, :-1]).transpose(1, 2))
            found.append(_round(back.mul_(x > 0), SCALE))
        return found[::-1]

    def pull_on_inputs(
        self, trail: Trail, pull: torch.Tensor, weights: Sequence[torch.Tensor], inputs: slice
    ) -> torch.Tensor:
        """See `Whole.pull_on_inputs`."""
        return torch.bmm(self.pulls(trail, pull, weights)[0], _round(weights[0][:, inputs]).transpose(1, 2))

    def learn(
        self, networks: Networks, trail: Trail, pulls: Sequence[torch.Tensor], improver: Improver, tau: float
    ) -> None:
        """See `Whole.learn`."""
        super().learn(networks, trail, [*pulls[:-1], _round(pulls[-1], SCALE)], improver, tau)


def train(configs: list[BaselineConfig], outs: list[Path], halved: bool) -> None:
    """Train a set of runs."""
    runs = RunSet(configs, outs)
    if halved:
        runs._place.products = Rounded()
    while runs.advance():
        pass


def main() -> None:
    """Train both kinds beside each other, each as a set; compare and write down."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--algorithm", choices=OFF_POLICY, default="td3")
    parser.add_argument("--env", default="Hopper-v4")
    parser.add_argument("--noise-ratio", type=float, default=5.0)
    parser.add_argument("--steps", type=int, default=20_000)
    parser.add_argument("--seeds", default="0-39")
    parser.add_argument("--runs", type=Path, default=Path("runs/halved"))
    parser.add_argument("--out", type=Path, help="default: results/halved-ALGORITHM.json")
    given = parser.parse_args()
    settings, task = changed(given.algorithm, SMALL), TaskOptions(given.env, given.noise_ratio)
    seeds, every = parse_seeds(given.seeds), given.steps // EVALUATED
    configs = [BaselineConfig(given.algorithm, settings, task, given.steps, seed, every, 5, "cpu") for seed in seeds]
    outs = {who: [given.runs / given.algorithm / who / f"seed-{s}" for s in seeds] for who in ("halved", "whole")}
    context = multiprocessing.get_context("spawn")
    with context.Pool(2, maxtasksperchild=1) as pool:
        waiting = [pool.apply_async(train, (configs, folders, who == "halved")) for who, folders in outs.items()]
        for each in waiting:
            each.get()
    evaluated = {who: [read_scores(out)[1] for out in folders] for who, folders in outs.items()}
    told = {"command": command(), **describe(), "algorithm": given.algorithm}
    for name, first in (("at the end", -RECENT), ("over all evaluations", 0)):
        scores = {who: [float(run[first:].mean()) for run in runs] for who, runs in evaluated.items()}
        told[name] = {
            "scores": {who: [round(score, 1) for score in each] for who, each in scores.items()},
            "mean": {who: vars(mean(each)) for who, each in scores.items()},
            "halved_is_better": vars(probability_of_improvement(scores["halved"], scores["whole"])),
        }
        print(name, {who: vars(mean(each)) for who, each in scores.items()}, told[name]["halved_is_better"])
    out = given.out or Path(f"results/halved-{given.algorithm}.json")
    out.write_text(json.dumps(told, indent=1) + "\n")


if __name__ == "__main__":
    main()
