"""How fast do the rivals train: many runs as one program, beside stable-baselines3, one run at a time?

    python benchmarks/baselines.py --device cuda
    python benchmarks/baselines.py --device cpu --quick

Counts environment steps, summed over runs, with the updates that belong to them (one each, but for trpo and a2c);
evaluations are left out. Where stable-baselines3 is not installed, a run at a time is the batched trainer with one run.
"""

from __future__ import annotations

import argparse
import json
import time
from collections.abc import Callable
from importlib.util import find_spec
from pathlib import Path
from typing import Any

import torch
from rich.console import Console
from rich.table import Table

from machine import command, describe
from nesht.baselines.batched import ALGORITHMS, OFF_POLICY
from nesht.baselines.batched.onpolicy import OnPolicyTraining
from nesht.baselines.batched.place import Place, products_for
from nesht.baselines.batched.training import Training
from nesht.baselines.changes import changed
from nesht.baselines.settings import make_model
from nesht.engines.fused.library import check_device
from nesht.tasks.imperfect import Distractors, RewardMask
from nesht.tasks.task import Task

WARM = 200
"""Steps before time is taken, at least: a few without updates, kernels, graphs."""
UPDATES = 4
"""Updates of an on-policy algorithm before that: a graph is recorded at the last of them."""


def rate(advance: Callable[[], object], steps: int, seconds: float) -> float:
    """Return run-steps per second of something that takes so many, over some seconds."""
    synchronise = torch.cuda.synchronize if torch.cuda.is_available() else lambda: None
    synchronise()
    start, done = time.perf_counter(), 0
    while time.perf_counter() - start < seconds:
        advance()
        synchronise()
        done += steps
    return done / (time.perf_counter() - start)


def at_a_time(settings: dict[str, Any]) -> int:
    """Return how many steps are timed together: what an on-policy algorithm learns from at a time, or a few."""
    return int(settings.get("n_steps", 20))


def time_batched(name: str, task: Task, settings: dict[str, Any], place: str, graphs: bool, **how: Any) -> float:
    """Time sets of runs that take turns."""
    runs, steps, sets = how["runs"], at_a_time(settings), []
    kind = Training if name in OFF_POLICY else OnPolicyTraining
    for number in range(how["sets"]):
        where = Place(place, graphs, products_for(name, settings, task, place))
        with where.work():
            seeds = range(1000 + number * runs, 1000 + (number + 1) * runs)
            sets.append((where, kind(name, settings, task, seeds, where)))

    def advance() -> None:
        for _ in range(steps):
            for where, training in sets:
                with where.work():
                    training.step()

    for _ in range(-(-max(WARM, UPDATES * steps) // steps)):
        advance()
    found = rate(advance, steps * runs * len(sets), how["seconds"])
    for _, training in sets:
        training.close()
    return found


def time_alone(name: str, task: Task, settings: dict[str, Any], device: str, seconds: float) -> float:
    """Time one run of stable-baselines3."""
    from stable_baselines3.common.vec_env import DummyVecEnv, VecNormalize

    from nesht.baselines.run import _single

    env = DummyVecEnv([lambda: _single(task)])
    if settings["normalise"]:
        env = VecNormalize(env, gamma=settings["gamma"])
    model, steps = make_model(name, env, settings, 1000, device), at_a_time(settings)
    model.learn(-(-WARM // steps) * steps)
    found = rate(lambda: model.learn(steps, reset_num_timesteps=False), steps, seconds)
    env.close()
    return found


def main() -> None:
    """Measure and report."""
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--device", choices=("auto", "cpu", "cuda"), default="auto")
    parser.add_argument("--env", default="HalfCheetah-v4")
    parser.add_argument("--noise-ratio", type=float, default=10.0)
    parser.add_argument("--algorithm", choices=ALGORITHMS, action="append", help="default: all")
    parser.add_argument("--runs", type=int, help="in a set (default: 20, of off-policy algorithms on a CPU 4)")
    parser.add_argument("--sets", type=int, help="that take turns, timed as well (default: 4 on a GPU, none on a CPU)")
    parser.add_argument("--seconds", type=float, default=10.0, help="per measurement")
    parser.add_argument("--quick", action="store_true", help="one second per measurement")
    parser.add_argument("--no-graphs", action="store_true", help="launch kernel by kernel, to see what graphs are for")
    parser.add_argument("--out", type=Path, help="default: results/baselines-speed-DEVICE.json")
    given = parser.parse_args()
    device = check_device(given.device)
    gpu, seconds = device == "cuda", 1.0 if given.quick else given.seconds
    most = given.sets or (4 if gpu else 1)
    torch.set_num_threads(1)
    task = Task(given.env, Distractors(given.noise_ratio), RewardMask(0.1))
    report: dict[str, Any] = {"command": command(), **describe(), "env": given.env, "noise": given.noise_ratio}
    if gpu:
        report["gpu"] = torch.cuda.get_device_name()
    for name in given.algorithm or ALGORITHMS:
        fewer = ["learning_starts=100", f"buffer_size={1_000_000 if gpu else 20_000}"]
        settings = changed(name, fewer if name in OFF_POLICY else [])
        runs = given.runs or (20 if gpu or name not in OFF_POLICY else 4)
        row = {}
        if find_spec("stable_baselines3") is not None:
            row["stable-baselines3"] = time_alone(name, task, settings, device, seconds)
        for sets, each in dict.fromkeys([(1, 1), (1, runs), (most, runs)]):
            how = {"runs": each, "sets": sets, "seconds": seconds}
            row[f"{sets} x {each}"] = time_batched(name, task, settings, device, not given.no_graphs, **how)
        report[name] = row
        print(name, json.dumps(report[name]), flush=True)
    show(report)
    out = given.out or Path("results") / f"baselines-speed-{device}.json"
    out.parent.mkdir(parents=True, exist_ok=True)
    out.write_text(json.dumps(report, indent=1) + "\n")


def show(report: dict[str, Any]) -> None:
    """Print the table."""
    where = report.get("gpu", report["cpu"])
    rows = {name: report[name] for name in ALGORITHMS if name in report}
    table = Table(title=f"run-steps/s, sets x runs at a time, {report['env']} x{report['noise']:g} on {where}")
    columns = dict.fromkeys(column for row in rows.values() for column in row)
    for column in ("algorithm", *columns):
        table.add_column(column, justify="right")
    for name, row in rows.items():
        table.add_row(name, *(f"{row[column]:,.0f}" if column in row else "" for column in columns))
    Console().print(table)


if __name__ == "__main__":
    main()
