"""The reinforcement learners of table 1, and A2C, on a GPU, several processes at a time.

    python benchmarks/rivals.py OUT [--method ANF-SAC TD3] [--env Hopper-v4] [--noise 5 10] [--seconds 1600]
    python benchmarks/merge.py OUT/*/table1-tuned results/table1-tuned

Every method, environment and noise ratio is a process with a folder of its own under OUT, the longest first; seeds that
are finished, there or in the table already, are not run again. After each that ends, OUT/results.tgz holds the results
of all that did. With NVIDIA's MPS running, the processes share the GPU instead of taking turns; TRPO and A2C, whose
kernels are small, then run beside the others.

An interrupted process has lost its work. So, with a number of seconds, a few begin; once their pace is known, so many
more as can end in time at that pace, beside them or after them. When they cannot all end, the one that is furthest from
its end is given up, but for the last. It ends with a line of what is missing, and not with 0 if something failed.
"""

from __future__ import annotations

import argparse
import os
import re
import subprocess
import sys
import tarfile
import time
from collections.abc import Sequence
from dataclasses import dataclass, field
from pathlib import Path

from nesht.commands.runs import parse_seeds
from nesht.experiments.catalogue import EXPERIMENTS, RATIOS
from nesht.experiments.design import ENVS, Options
from nesht.experiments.methods import REINFORCEMENT
from nesht.experiments.runner import Results

ON_POLICY = ("TRPO", "A2C")
Unit = tuple[str, str, int]
FIRST = 4
"""How many begin before their pace is known."""
WINDOW, MARGIN = 60.0, 1.05
"""Seconds over which a pace is measured, and what is added to the time that is foreseen."""
STEPS = re.compile(r"([\d,]+) steps")


@dataclass
class Running:
    """A process, and how far it was at some times."""

    unit: Unit
    process: subprocess.Popen[bytes]
    log: Path
    total: int
    since: float
    marks: list[tuple[float, int]] = field(default_factory=list)

    def look(self, now: float) -> bool:
        """See how far it is; returns whether it has ended."""
        found = STEPS.findall(self.log.read_text(errors="replace")[-2000:]) if self.log.exists() else []
        done = int(found[-1].replace(",", "")) if found else 0
        if done > (self.marks[-1][1] if self.marks else 0):  # lines come late: only when one is new is its time known
            self.marks.append((now, done))
        if now - self.since < WINDOW:  # kernels are compiled, nothing is learnt yet
            self.marks = self.marks[-1:]
        return self.process.poll() is not None

    def left(self) -> int:
        """Return how many steps there are to go."""
        return self.total - (self.marks[-1][1] if self.marks else 0)

    def pace(self) -> float:
        """Return its steps per second lately, 0 if that cannot be said yet."""
        if len(self.marks) < 2:
            return 0.0
        last, done = self.marks[-1]
        before, then = next((mark for mark in reversed(self.marks) if mark[0] <= last - WINDOW), self.marks[0])
        return (done - then) / (last - before) if last - before >= WINDOW / 2 else 0.0


def pace_of(running: Sequence[Running]) -> float | None:
    """Return the steps per second of all of them, or None if that cannot be said yet."""
    paces = [each.pace() for each in running]
    return sum(paces) if paces and all(paces) else None


def waiting(out: Path, known: Path, given: argparse.Namespace) -> dict[Unit, list[int]]:
    """Return what is to be run, and with which seeds."""
    experiment, results = EXPERIMENTS["table1"], Results.read(known)
    wanted, found = parse_seeds(given.seeds or experiment.seeds), dict[Unit, list[int]]()
    for cell in experiment.cells(Options(steps=given.steps)):
        unit = cell.labels["method"], cell.labels["env"], cell.labels["noise"]
        if unit[0] in given.method and unit[1] in given.env and unit[2] in given.noise:
            missing = [seed for _, seed in results.missing([cell], wanted)]
            missing = [seed for _, seed in Results.read(place(out, unit)).missing([cell], missing)]
            found |= {unit: missing} if missing else {}
    return dict(sorted(found.items(), key=lambda each: (given.method.index(each[0][0]), -each[0][2])))


def place(out: Path, unit: Unit) -> Path:
    """Return the folder of a unit's results."""
    return out / named(unit) / "table1-tuned"


def named(unit: Unit) -> str:
    """Return the name of a unit."""
    return "-".join(map(str, unit))


def begin(unit: Unit, seeds: list[int], given: argparse.Namespace, now: float) -> Running:
    """Start a process."""
    method, env, ratio = unit
    folder = place(given.out, unit)
    folder.parent.mkdir(parents=True, exist_ok=True)
    command = [sys.executable, "-m", "nesht", "experiment", "table1", "--method", method, "--env", env]
    command += ["--noise", str(ratio), "--seeds", ",".join(map(str, seeds)), "--steps", str(given.steps)]
    command += [
        "--device",
        given.device,
        "--engine",
        "fused",
        "--out",
        str(folder),
        "--work",
        str(folder.parent / "work"),
    ]
    shared = {  # many queues of many processes are more than MPS has; 1 is less than 0
        "CUDA_DEVICE_MAX_CONNECTIONS": "4",
        "CUDA_MPS_CLIENT_PRIORITY": "0" if method in ON_POLICY else "1",
        "OMP_NUM_THREADS": "1",
    }
    with (folder.parent / "log").open("wb") as log:
        process = subprocess.Popen(command, env={**os.environ, **shared}, stdout=log, stderr=subprocess.STDOUT)
    return Running(unit, process, folder.parent / "log", len(seeds) * given.steps // 10, now)


def pack(out: Path) -> None:
    """Put the results of all that ended into one file."""
    with tarfile.open(out / "results.new", "w:gz") as file:
        for folder in sorted(out.glob("*/table1-tuned")):
            file.add(folder, folder.relative_to(out))
    (out / "results.new").rename(out / "results.tgz")


class Queue:
    """Units that run some at a time."""

    def __init__(self, units: dict[Unit, list[int]], given: argparse.Namespace, at_once: int):
        self._units, self._given, self._at_once = units, given, at_once
        self._running, self._full = list[Running](), False
        self.lost: list[str] = []
        """What failed, or was given up."""
        self._pace: float | None = None

    def turn(self, now: float) -> bool:
        """See what ended, give up what cannot, begin what can; returns whether anything runs."""
        for each in [each for each in self._running if each.look(now)]:
            took = f"after {now - each.since:.0f} s, {now:.0f} s in all"
            print(*each.unit, f"exit {each.process.returncode} {took}", flush=True)
            if each.process.returncode:
                self.lost.append(f"{named(each.unit)} (exit {each.process.returncode}: {each.log})")
            self._forget(each)
            pack(self._given.out)
        left, pace = self._given.seconds - now, pace_of(self._running)
        self._pace = pace or self._pace
        if pace is not None and self._needed() > left and len(self._running) > 1:
            last = max(self._running, key=Running.left)
            print(*last.unit, f"given up: all need {self._needed():.0f} s, and there are {left:.0f}", flush=True)
            last.process.terminate()
            last.process.wait()
            self.lost.append(f"{named(last.unit)} (given up)")
            self._forget(last)
            self._full = True
        most = self._at_once if self._pace else min(FIRST, self._at_once)
        while self._units and not self._full and len(self._running) < most:
            unit, seeds = next(iter(self._units.items()))
            if self._needed(len(seeds) * self._given.steps // 10) > left:
                break
            self._running.append(begin(unit, self._units.pop(unit), self._given, now))
        return bool(self._running)

    def _needed(self, more: int = 0) -> float:
        """Return the seconds until all have ended, and so many more steps, at the last pace that is known."""
        return MARGIN * (sum(each.left() for each in self._running) + more) / self._pace if self._pace else 0.0

    def _forget(self, gone: Running) -> None:
        """Go on without one; the paces of the others are measured anew."""
        self._running.remove(gone)
        for each in self._running:
            each.marks = each.marks[-1:]

    def rest(self) -> list[Unit]:
        """Return what was not begun."""
        return list(self._units)


def main() -> None:
    """Run what is missing."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("out", type=Path)
    parser.add_argument("--known", type=Path, default=Path("results/table1-tuned"), help="results that are there")
    parser.add_argument("--method", nargs="+", choices=list(REINFORCEMENT), default=list(REINFORCEMENT))
    parser.add_argument("--env", nargs="+", choices=ENVS, default=ENVS)
    parser.add_argument("--noise", nargs="+", type=int, choices=RATIOS, default=RATIOS)
    parser.add_argument("--seeds", help="default: all of the table")
    parser.add_argument(
        "--steps", type=int, default=Options().steps, help="a tenth of it are a learner's, as in the table"
    )
    parser.add_argument("--device", choices=("cuda", "cpu"), default="cuda", help="cpu: to try this out")
    parser.add_argument("--at-once", type=int, default=8, metavar="N", help="at the most")
    parser.add_argument("--beside", type=int, default=3, metavar="N", help="of TRPO and A2C, beside the others")
    parser.add_argument("--seconds", type=float, default=float("inf"), help="how long there is time")
    given = parser.parse_args()
    units = waiting(given.out, given.known, given)
    queues = [
        Queue({unit: units[unit] for unit in units if (unit[0] in ON_POLICY) == small}, given, at_once)
        for small, at_once in ((True, given.beside), (False, given.at_once))
    ]
    start = time.monotonic()
    while sum(queue.turn(time.monotonic() - start) for queue in queues):
        time.sleep(0.5)
    lost = [each for queue in queues for each in queue.lost]
    rest = [named(unit) for queue in queues for unit in queue.rest()]
    print(f"finished but for {', '.join(lost + rest)}" if lost or rest else "all finished", flush=True)
    sys.exit(bool(lost))


if __name__ == "__main__":
    main()
