"""nesht itself, end to end: `nesht.resume` on a run folder, with its evaluations, records and checkpoints."""

from __future__ import annotations

import shutil
import tempfile
import time
from collections.abc import Sequence
from pathlib import Path

import nesht
from case import MEMBERS, NOISE_RATIO, REWARD_KEEP, SIGMA, THREADS, Case, Measurement
from nesht.training.recorder import Record


class StopAfter:
    """A callback that presses Ctrl-C after some generations: nesht then writes a checkpoint and lets go."""

    def __init__(self, generations: int):
        self.left, self.steps = generations, 0

    def __call__(self, rows: Sequence[Record]) -> None:
        self.left -= 1
        self.steps = int(rows[0]["steps"])
        if self.left == 0:
            raise KeyboardInterrupt


def warm_up(case: Case) -> None:
    """Begin a run of 10 million steps and stop it after the warm-up."""
    try:
        nesht.train(
            env=case.env,
            noise_ratio=NOISE_RATIO,
            reward_keep=REWARD_KEEP,
            n=MEMBERS,
            sigma=SIGMA,
            mirrored=True,
            steps=10_000_000,
            threads=THREADS,
            engine="batch",
            out=case.warm,
            progress=False,
            callback=StopAfter(case.warm_up),
        )
    except KeyboardInterrupt:
        return
    raise RuntimeError("the run ended before its warm-up")


def go_on(case: Case, generations: int, engine: str) -> Measurement:
    """Go on with a copy of the warm run; returns its training steps and the time of the whole call."""
    with tempfile.TemporaryDirectory(dir=case.folder) as folder:
        run = Path(folder) / "run"
        shutil.copytree(case.warm, run)
        stop = StopAfter(generations)
        cpu, start = time.process_time(), time.perf_counter()
        try:
            nesht.resume(run, progress=False, callback=stop, engine=engine, device="cpu")
        except KeyboardInterrupt:
            seconds = time.perf_counter() - start
            return Measurement(stop.steps - case.steps(), seconds, time.process_time() - cpu)
    raise RuntimeError("the run ended before the measurement")


def measure(case: Case) -> Measurement:
    """Time the generations after the warm-up; only training steps count, evaluation costs time and earns nothing."""
    return go_on(case, case.generations, "batch")


def measure_fused(case: Case) -> Measurement:
    """The same generations on the fused engine, ten times over, since they are so short."""
    go_on(case, 1, "fused")  # compiles what is not in Warp's cache yet
    rounds = [go_on(case, case.generations, "fused") for _ in range(10)]
    return Measurement(
        sum(each.steps for each in rounds),
        sum(each.seconds for each in rounds),
        sum(each.cpu_seconds or 0.0 for each in rounds),
    )
