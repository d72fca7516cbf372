"""Environment steps per second: nesht, the physics alone, evotorch, and the published way, side by side in one run.

    pip install -e . -r benchmarks/requirements.txt
    python benchmarks/speed.py --rounds 3 --out results/speed.json

The contestants take turns, round after round, each time in a fresh process, because the speed of a shared machine
changes from minute to minute: what counts is the median over rounds of the ratios within a round. Every round measures
the same work: the generations of a run of nesht (x10 distractors, rewards kept with probability 0.1, linear policy with
bias, 256 mirrored members, sigma 0.02) that come after its warm-up. Evaluations, records and checkpoints are nesht's to
pay for; only training steps count. The peers start from the policy of the warm-up, with the normaliser folded in.
"""

from __future__ import annotations

import argparse
import importlib
import json
import sys
import tempfile
from concurrent.futures import ProcessPoolExecutor
from dataclasses import asdict
from multiprocessing import get_context
from pathlib import Path
from typing import Any

import nesht_way
from case import MEMBERS, NOISE_RATIO, REWARD_KEEP, SIGMA, THREADS, Case, Measurement
from machine import command, describe, steal_clock, wait_until_quiet
from table import print_table, summarise

CASES = {
    "Hopper-v4": {"warm_up": 14, "generations": 4, "seconds": 8.0, "peer_members": 256},
    "HalfCheetah-v4": {"warm_up": 2, "generations": 1, "seconds": 8.0, "peer_members": 64},
}
"""Hopper after 14 generations falls after 150 to 200 steps; HalfCheetah always runs 1000."""

WAYS = {
    "nesht, batch": ("nesht_way", "measure"),
    "bare mujoco.batch": ("bare_batch", "measure"),
    "nesht, fused": ("nesht_way", "measure_fused"),
    "evotorch GymNE": ("evotorch_way", "measure"),
    "evotorch, raw features": ("evotorch_way", "measure_raw"),
    "published way": ("published_way", "measure"),
}
"""The contestants and what measures them."""


def in_fresh_process(module: str, function: str, case: Case) -> Any:
    """Call a function of a module in a process of its own."""
    with ProcessPoolExecutor(1, mp_context=get_context("spawn")) as pool:
        return pool.submit(_call, module, function, case).result()


def _call(module: str, function: str, case: Case) -> Any:
    return getattr(importlib.import_module(module), function)(case)


def main() -> None:
    """Measure and report."""
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--env", choices=CASES, action="append", help="only this environment (may be given twice)")
    parser.add_argument("--rounds", type=int, default=3, help="how often every contestant is measured")
    parser.add_argument("--skip-peers", action="store_true", help="only nesht and the bare physics")
    parser.add_argument("--patience", type=float, default=30.0, help="seconds to wait for other work to end, each time")
    parser.add_argument("--out", type=Path, default=Path("results/speed.json"), help="where to write the numbers")
    options = parser.parse_args()
    ways = list(WAYS)[: 3 if options.skip_peers else None]
    report: dict[str, Any] = {
        "command": command(),
        **describe(),
        "threads": THREADS,
        "settings": {"noise_ratio": NOISE_RATIO, "reward_keep": REWARD_KEEP, "n": MEMBERS, "sigma": SIGMA, **CASES},
        "measurements": [],
    }
    with tempfile.TemporaryDirectory() as folder:
        cases = [prepare(env, Path(folder)) for env in options.env or CASES]
        for number in range(options.rounds):
            for case in cases:
                order = ways if number % 2 == 0 else ways[::-1]
                report["measurements"] += [turn(case, way, number, options.patience) for way in order]
            report["summary"] = summarise(report["measurements"])
            options.out.parent.mkdir(parents=True, exist_ok=True)
            options.out.write_text(json.dumps(report, indent=1) + "\n")  # every round: a long run may be cut short
    print_table(report["summary"])
    print(f"written to {options.out}")


def prepare(env: str, folder: Path) -> Case:
    """Train the warm-up and record the episodes that will be measured."""
    case = Case(env, folder / env, **CASES[env])
    print(f"{env}: training {case.warm_up} generations, recording {case.generations}", file=sys.stderr)
    nesht_way.warm_up(case)
    in_fresh_process("bare_batch", "record", case)
    return case


def turn(case: Case, way: str, number: int, patience: float) -> dict[str, Any]:
    """Measure one contestant once."""
    idle, stolen = wait_until_quiet(patience), steal_clock()
    measured: Measurement = in_fresh_process(*WAYS[way], case)
    row = {"env": case.env, "round": number, "way": way, "rate": measured.rate, **asdict(measured)}
    row |= {"idle_before": idle, "stolen_seconds": steal_clock() - stolen}
    print(f"{case.env} round {number}: {way} {measured.rate:,.0f} steps/s {measured.note}", file=sys.stderr)
    return row


if __name__ == "__main__":
    main()
