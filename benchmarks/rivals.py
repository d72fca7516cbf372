"""The reinforcement learners of table 1, and A2C, on a GPU, several processes at a time.

    python benchmarks/rivals.py OUT [--method ANF-SAC TD3] [--env Hopper-v4] [--noise 5 10] [--seeds 0-4] [--at-once 4]
    python benchmarks/merge.py OUT/*/table1-tuned results/table1-tuned

Every method, environment and noise ratio is a process with a folder of its own under OUT, the longest first; seeds that
are finished, there or in the table already, are not run again. With a number of seconds, none is begun that would take
longer than is left, judged by those of its method before it: what is interrupted is lost. After one was killed, none is
begun. With NVIDIA's MPS running, the processes share the GPU instead of taking turns, and TRPO and A2C, whose kernels
are small, go first.
"""

from __future__ import annotations

import argparse
import os
import subprocess
import sys
import time
from pathlib import Path

from nesht.commands.runs import parse_seeds
from nesht.experiments.catalogue import EXPERIMENTS, RATIOS
from nesht.experiments.design import ENVS, Options
from nesht.experiments.methods import REINFORCEMENT
from nesht.experiments.runner import Results

SHORTER = 0.85
"""What a process may take, of the time that the shortest one of its method before it took."""
ON_POLICY = ("TRPO", "A2C")
Unit = tuple[str, str, int]


def waiting(out: Path, known: Path, given: argparse.Namespace) -> dict[Unit, str]:
    """Return what is to be run, and with which seeds."""
    experiment, results = EXPERIMENTS["table1"], Results.read(known)
    wanted, found, methods = parse_seeds(given.seeds or experiment.seeds), dict[Unit, str](), given.method
    for cell in experiment.cells(Options()):
        unit = cell.labels["method"], cell.labels["env"], cell.labels["noise"]
        if unit[0] in methods and unit[1] in given.env and unit[2] in given.noise:
            missing = [seed for _, seed in results.missing([cell], wanted)]
            missing = [seed for _, seed in Results.read(place(out, unit)).missing([cell], missing)]
            found |= {unit: ",".join(map(str, missing))} if missing else {}
    return dict(sorted(found.items(), key=lambda each: (methods.index(each[0][0]), -each[0][2])))


def place(out: Path, unit: Unit) -> Path:
    """Return the folder of a unit's results."""
    return out / "-".join(map(str, unit)) / "table1-tuned"


def begin(out: Path, unit: Unit, seeds: str) -> subprocess.Popen[bytes]:
    """Start a process."""
    method, env, ratio = unit
    folder = place(out, unit)
    folder.parent.mkdir(parents=True, exist_ok=True)
    command = [sys.executable, "-m", "nesht", "experiment", "table1", "--method", method, "--env", env]
    command += ["--noise", str(ratio), "--seeds", seeds, "--device", "cuda"]
    command += ["--out", str(folder), "--work", str(folder.parent / "work")]
    shared = {  # many queues of many processes are more than MPS has; 1 is less than 0
        "CUDA_DEVICE_MAX_CONNECTIONS": "4",
        "CUDA_MPS_CLIENT_PRIORITY": "0" if method in ON_POLICY else "1",
        "OMP_NUM_THREADS": "1",
    }
    with (folder.parent / "log").open("wb") as log:
        return subprocess.Popen(command, env={**os.environ, **shared}, stdout=log, stderr=subprocess.STDOUT)


def expected(unit: Unit, took: dict[str, list[float]]) -> float:
    """Return how many seconds a process takes at least, judged by those of its method, or else by the longest."""
    longest = max((seconds for each in took.values() for seconds in each), default=0.0)
    return SHORTER * min(took.get(unit[0], [longest]))


def main() -> None:
    """Run what is missing."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("out", type=Path)
    parser.add_argument("--known", type=Path, default=Path("results/table1-tuned"), help="results that are there")
    parser.add_argument("--method", nargs="+", choices=list(REINFORCEMENT), default=list(REINFORCEMENT))
    parser.add_argument("--env", nargs="+", choices=ENVS, default=ENVS)
    parser.add_argument("--noise", nargs="+", type=int, choices=RATIOS, default=RATIOS)
    parser.add_argument("--seeds", help="default: all of the table")
    parser.add_argument("--at-once", type=int, default=4, metavar="N")
    parser.add_argument("--seconds", type=float, default=float("inf"), help="how long there is time")
    given = parser.parse_args()
    units = waiting(given.out, given.known, given)
    start, took = time.monotonic(), dict[str, list[float]]()
    killed = False
    running: dict[subprocess.Popen[bytes], tuple[Unit, float]] = {}
    while True:
        now = time.monotonic() - start
        for process, (unit, since) in list(running.items()):
            if process.poll() is not None:
                if process.returncode == 0:
                    took.setdefault(unit[0], []).append(now - since)
                print(*unit, f"exit {process.returncode} after {now - since:.0f} s, {now:.0f} s in all", flush=True)
                del running[process]
                killed = killed or process.returncode < 0
        fitting = [unit for unit in units if not killed and now + expected(unit, took) <= given.seconds]
        for unit in fitting[: given.at_once - len(running)]:
            running[begin(given.out, unit, units.pop(unit))] = unit, now
        if not running:
            break
        time.sleep(0.5)
    print("not begun:" if units else "all ended", *("-".join(map(str, unit)) for unit in units), flush=True)


if __name__ == "__main__":
    main()
