"""Hundreds of runs from start to finished checkpoints: environments x noise ratios x methods x seeds, in one program.

    python benchmarks/fleet.py --seeds 0-19 --out results/fleet.json --runs runs/fleet

This measures time. The methods are the tuned preset with three sparsifiers, not each tuned by itself: for scores that
compare methods see `nesht experiment`.
"""

from __future__ import annotations

import argparse
import json
import time
from pathlib import Path
from typing import Any

import nesht
from machine import command, describe
from nesht.commands.runs import parse_seeds
from nesht.config import Config
from nesht.presets import preset

ENVS, RATIOS = ("HalfCheetah-v4", "Hopper-v4", "Walker2d-v4"), (5, 10, 20)
METHODS: dict[str, dict[str, Any]] = {
    "NES": {"sparsifier": "none", "unit": "weight", "memory": 0.0},
    "NESHT": {"unit": "weight", "memory": 0.0},
    "ours": {},
}


def main() -> None:
    """Train and report."""
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--seeds", default="0-19")
    parser.add_argument("--steps", type=int, default=10_000_000)
    parser.add_argument("--env", choices=ENVS, action="append")
    parser.add_argument("--device", default="auto")
    parser.add_argument("--runs", type=Path, default=Path("runs/fleet"))
    parser.add_argument("--out", type=Path)
    options = parser.parse_args()
    cells = [
        (env, ratio, method, seed)
        for env in options.env or ENVS
        for ratio in RATIOS
        for method in METHODS
        for seed in parse_seeds(options.seeds)
    ]
    configs = [
        Config()
        .change(
            **preset("tuned", env),
            **{"env": env, "noise_ratio": ratio, "reward_keep": 0.1, "steps": options.steps, "seed": seed},
            **{"engine": "fused", "device": options.device, "checkpoint_seconds": 60.0},
        )
        .change(**METHODS[method])
        for env, ratio, method, seed in cells
    ]
    outs = [options.runs / f"{env}-x{ratio}-{method}" / f"seed-{seed}" for env, ratio, method, seed in cells]
    start = time.perf_counter()
    results = nesht.train_many(configs, outs=outs, overwrite=True)
    seconds = time.perf_counter() - start
    steps = sum(result.steps for result in results)
    size = sum((out / "checkpoint.safetensors").stat().st_size for out in outs)
    print(f"{len(results)} runs, {steps:,} steps in {seconds:.1f} s: {steps / seconds:,.0f} steps/s, {size:,} bytes")
    table: dict[str, Any] = {}
    for (env, ratio, method, _), result in zip(cells, results, strict=True):
        cell = table.setdefault(f"{env} x{ratio} {method}", {"scores": [], "generations": [], "seconds": []})
        cell["scores"].append(round(result.score, 1))
        cell["generations"].append(result.generations)
        cell["seconds"].append(round(result.seconds, 1))
    for name, cell in table.items():
        n = len(cell["scores"])
        print(f"{name:32} mean score {sum(cell['scores']) / n:8.1f}, {sum(cell['generations']) / n:6.0f} generations")
    if options.out:
        report = {"command": command(), **describe()}
        report |= {"seconds": seconds, "steps": steps, "checkpoint bytes": size, "cells": table}
        options.out.parent.mkdir(parents=True, exist_ok=True)
        options.out.write_text(json.dumps(report, indent=1) + "\n")


if __name__ == "__main__":
    main()
