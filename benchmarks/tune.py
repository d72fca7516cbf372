"""Is `nesht tune` worth its budget? What it finds against where it started, on seeds that it has not seen.

python benchmarks/tune.py
"""

from __future__ import annotations

import argparse
import json
import sys
import time
from pathlib import Path
from typing import Any

import machine
import nesht

sys.path.append(str(Path(__file__).parents[1] / "examples"))

CASES: dict[str, tuple[int, dict[str, Any]]] = {
    "greenhouse": (1_000_000, {"env": "own_environment:make", "max_episode_steps": 25, "n": 32}),
    "CartPole-v1 x10": (2_000_000, {"env": "CartPole-v1", "noise_ratio": 10, "n": 32}),
    "Hopper-v4 x10": (10_000_000, {"env": "Hopper-v4", "noise_ratio": 10, "preset": "paper"}),
    "HalfCheetah-v4 x10": (20_000_000, {"env": "HalfCheetah-v4", "noise_ratio": 10, "n": 64}),
}
"""The budget of each search and what it starts from."""


def measure(name: str, seeds: list[int], runs: Path) -> dict[str, Any]:
    """Search, then train from the start and from what was found, for the same steps with the same fresh seeds."""
    budget, options = CASES[name]
    start = time.monotonic()
    found = nesht.tune(budget=budget, out=runs / name.replace(" ", "-"), **options)
    seconds = time.monotonic() - start
    steps = found.config.training.steps
    before = [run.score for run in nesht.train_fleet(seeds, steps=steps, **options)]
    after = [run.score for run in nesht.train_fleet(seeds, config=found.config)]
    names = ("beta", "k", "sigma", "lr")
    return {
        "start": options,
        "budget": budget,
        "spent": found.steps,
        "seconds": round(seconds, 1),
        "found": {option: getattr(found.config.strategy, option) for option in names},
        "steps of a run": steps,
        "scores from the start": before,
        "scores from what was found": after,
    }


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--runs", type=Path, default=Path("runs/tune"))
    parser.add_argument("--out", type=Path, default=Path("results/tune.json"))
    given = parser.parse_args()
    found = {name: measure(name, list(range(5)), given.runs) for name in CASES}
    about = {"command": machine.command(), **machine.describe(), "seeds": list(range(5))}
    given.out.write_text(json.dumps({**about, "cases": found}, indent=1) + "\n")
    for name, case in found.items():
        before, after = (sum(case[key]) / 5 for key in ("scores from the start", "scores from what was found"))
        print(f"{name}: {before:.1f} -> {after:.1f} ({case['seconds']} s of search)")


if __name__ == "__main__":
    main()
