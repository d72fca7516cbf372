"""Which blocks of what is multiplied are fastest on this GPU? Times the kernels of `baselines/batched/halves.py`.

    python benchmarks/blocks.py --runs 80
    python benchmarks/blocks.py --runs 80 --env Hopper-v4 --noise-ratio 5 --batch 100 --hidden 256 256

Kernels of the critics of a set of runs, in microseconds, each played many times from a graph: forward through networks
(with and without what their hidden layers put out), back to those layers or to actions, and a step of all layers
(without and with a target that follows). Kernels are compiled by several processes first. The best of each are what
`TALL`, `UNITS` and `LEARN` there should say; with as many runs as keep the whole card busy, as several sets do.
"""

from __future__ import annotations

import argparse
import json
import subprocess
import sys
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import torch

from machine import command, describe
from nesht.baselines.batched import halves
from nesht.baselines.batched.learner import Shape
from nesht.baselines.batched.place import Place
from nesht.baselines.batched.td3 import TD3
from nesht.baselines.changes import changed
from nesht.engines.fused.library import check_device
from nesht.tasks.imperfect import Distractors
from nesht.tasks.task import Task

THROUGH = [(128, 64, 3), (128, 64, 2), (128, 32, 3), (128, 32, 2), (64, 64, 2), (64, 32, 3), (64, 32, 2)]
"""Rows that go through networks, units of the first hidden layer at a time, and stages of their pipeline."""
STEPS = [(64, 64, 32, 4, 3), (64, 64, 32, 4, 4), (64, 64, 64, 4, 3), (64, 64, 128, 4, 2)]
"""Rows, columns and summed rows of a block, warps, and stages."""
COMPILERS, TIMES, ROUNDS = 12, 8, 7


def time_it(place: Place, function: Callable[[], Any]) -> float:
    """Return the microseconds that a function's kernels take: the median of some rounds of a graph."""
    for _ in range(2):
        function()
    graph = torch.cuda.CUDAGraph()
    with torch.cuda.graph(graph, stream=place.stream):
        for _ in range(TIMES):
            function()
    graph.replay()
    took = []
    for _ in range(ROUNDS):
        start, end = (torch.cuda.Event(enable_timing=True) for _ in range(2))
        start.record()
        graph.replay()
        end.record()
        torch.cuda.synchronize()
        took.append(1e3 * start.elapsed_time(end) / TIMES)
    return sorted(took)[ROUNDS // 2]


def measurements(given: argparse.Namespace, place: Place) -> Iterator[tuple[str, dict[str, int], Callable[[], Any]]]:
    """Yield what is timed, with which settings, and how; the settings count while it runs."""
    task = Task(given.env, Distractors(given.noise_ratio))
    settings = {**changed("td3", []), "net_arch": given.hidden, "batch_size": given.batch}
    learner = TD3(Shape(len(task.feature_names), task.outputs), settings, range(given.runs), place)
    seen = learner.see(torch.randn(given.runs, given.batch, learner.shape.seen, device=place.device))
    critic, improver = learner.critic, learner.critic_improver
    trail = critic.forward(seen)
    pull, features = torch.full_like(trail[-1], 1e-3), learner.shape.seen
    pulls, how = critic.pulls(trail, pull), place.products
    ways: dict[str, Callable[[], Any]] = {
        "forward": lambda: critic.forward(seen),
        "answer": lambda: critic.answer(seen),
        "back": lambda: critic.pulls(trail, pull),
        "back to actions": lambda: critic.pull_on_inputs(trail, pull, slice(features, features + task.outputs)),
    }
    how._shared = sys.maxsize  # what has no room fails, instead of being made smaller
    for rows, units, stages in THROUGH:
        halves.TALL, halves.UNITS = rows, ((units, stages),)
        for name, way in ways.items():
            yield name, {"rows": rows, "units": units, "stages": stages}, way
    for sizes in STEPS:
        halves.LEARN.update(zip(("BI", "BN", "BK", "num_warps", "num_stages"), sizes, strict=True))
        for name, tau in (("learn", 0.0), ("learn, target follows", learner.tau)):
            yield name, dict(halves.LEARN), lambda tau=tau: how.learn(critic, trail, pulls, improver, tau)


def main() -> None:
    """Measure and report."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--env", default="HalfCheetah-v4")
    parser.add_argument("--noise-ratio", type=float, default=20.0)
    parser.add_argument("--runs", type=int, default=20)
    parser.add_argument("--batch", type=int, default=256)
    parser.add_argument("--hidden", type=int, nargs="+", default=[400, 300])
    parser.add_argument("--out", type=Path, default=Path("results/blocks-cuda.json"))
    parser.add_argument("--compile", type=int, help=argparse.SUPPRESS)  # only every so-manieth, and do not time it
    given = parser.parse_args()
    check_device("cuda")
    if given.compile is None:
        again = [sys.executable, __file__, *sys.argv[1:], "--compile"]
        for each in [subprocess.Popen([*again, str(i)]) for i in range(COMPILERS)]:
            each.wait()
    place, found = Place("cuda", products=torch.float16), []
    with place.work():
        for i, (name, blocks, function) in enumerate(measurements(given, place)):
            if given.compile not in (None, i % COMPILERS):
                continue
            try:
                if given.compile is not None:
                    function()
                    continue
                found.append({"kernel": name, **blocks, "us": round(time_it(place, function), 1)})
            except Exception as error:  # more than the GPU has
                print(name, blocks, str(error).splitlines()[0], flush=True)
    if given.compile is not None:
        return
    names = dict.fromkeys(each["kernel"] for each in found)
    best = {name: sorted((e for e in found if e["kernel"] == name), key=lambda e: e["us"]) for name in names}
    for rows in best.values():
        print(*(json.dumps(row) for row in rows[:4]), sep="\n")
    report = {"command": command(), **describe(), "gpu": torch.cuda.get_device_name(), "kernels": found}
    given.out.write_text(json.dumps(report, indent=1) + "\n")


if __name__ == "__main__":
    main()
