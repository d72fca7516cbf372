"""Many runs of baselines: together on a GPU, or in processes with one thread each; what is finished is skipped."""

from __future__ import annotations

import csv
import multiprocessing
import sys
import time
from collections.abc import Sequence
from functools import partial
from pathlib import Path
from typing import Any

from nesht.baselines.batched import why_not
from nesht.baselines.run import EVALUATIONS, SUMMARY, BaselineConfig, train_baseline
from nesht.baselines.settings import check, check_name
from nesht.engines import cores
from nesht.errors import UserError
from nesht.tasks.task import make_task

SETS = 4
"""Sets of runs that a GPU trains at a time where nothing else is said: small kernels of one leave room for others."""

PAUSE = 5.0
"""Seconds between two lines of progress."""


Job = tuple[BaselineConfig, Path]
"""A run and its folder."""


def train_baselines(jobs: Sequence[Job], processes: int = 0, progress: bool = True) -> None:
    """Train all runs that are not finished; an interrupted run begins again.

    Those that can be are trained together on the GPU, all seeds of a setting as one set; the others in processes.
    `processes` is how many sets or processes there are at a time; 0 is a few sets, and a process per core.
    """
    for config, _ in jobs:
        check_name(config.algorithm)
        _ = make_task(config.task).spaces  # a mistake is found here, before any process starts
    todo = [job for job in jobs if not (job[1] / SUMMARY).exists()]
    together = [job for job in todo if on_gpu(job[0])]
    alone = [job for job in todo if job not in together]
    for config, _ in alone:
        check(config.algorithm)
    if together:
        _train_together(together, processes or SETS, progress)
    if alone:
        _train_alone(alone, processes, progress)


def on_gpu(config: BaselineConfig) -> bool:
    """Whether a run is trained on the GPU, together with others."""
    if config.device == "cpu" or why_not(config) is not None:
        return False
    from nesht.engines.fused.device import check_device

    return check_device(config.device) == "cuda"


def _train_together(jobs: list[Job], at_a_time: int, progress: bool) -> None:
    """Train all seeds of a setting as one set, and some sets at a time."""
    from nesht.baselines.batched.run import RunSet

    sets: dict[str, list[Job]] = {}
    for job in jobs:
        sets.setdefault(repr(job[0].identity()), []).append(job)
    show = _Line([config.steps for config, _ in jobs])
    last: dict[str, tuple[int, float]] = {}

    def report(name: str, count: int, steps: int, score: float) -> None:
        last[name] = (count * steps, score)
        show(last)

    waiting = list(sets.items())
    training: list[RunSet] = []
    while waiting or training:
        while waiting and len(training) < at_a_time:
            name, each = waiting.pop(0)
            said = partial(report, name, len(each)) if progress else None
            training.append(RunSet([config for config, _ in each], [out for _, out in each], said))
        training = [each for each in training if each.advance()]


def _train_alone(todo: list[Job], processes: int, progress: bool) -> None:
    """Train every run by itself, with stable-baselines3."""
    if len(todo) == 1:
        config, out = todo[0]
        line = _Line([config.steps])
        train_baseline(config, out, (lambda steps, score: line({out: (steps, score)})) if progress else None)
        return
    context = multiprocessing.get_context("spawn")
    with context.Pool(min(len(todo), processes or cores()), maxtasksperchild=1) as pool:
        waiting = [pool.apply_async(_run, job) for job in todo]
        show = _Line([config.steps for config, _ in todo]) if progress else None
        while not all(each.ready() for each in waiting):
            time.sleep(0.2)
            if show is not None:
                show({out: last for _, out in todo if (last := _last(out)) is not None})
        failed = [error for each in waiting if (error := each.get()) is not None]
    if failed:
        raise UserError(f"{len(failed)} of {len(todo)} runs failed, the first because: {failed[0]}")


def _run(config: BaselineConfig, out: Path) -> str | None:
    """Train in a process of the pool; returns what went wrong."""
    try:
        train_baseline(config, out)
    except Exception as error:
        return f"{type(error).__name__}: {error}"
    return None


def _last(out: Path) -> tuple[int, float] | None:
    """Return (steps, score) of a run's last evaluation."""
    try:
        rows = list(csv.DictReader((out / EVALUATIONS).read_text().splitlines()))
        return int(rows[-1]["steps"]), float(rows[-1]["score"])
    except (OSError, IndexError, TypeError, ValueError):
        return None


class _Line:
    """Prints how far all runs are, at most every few seconds."""

    def __init__(self, steps: Sequence[int]):
        self._total, self._began, self._said, self._done = sum(steps), time.monotonic(), 0.0, 0

    def __call__(self, last: dict[Any, tuple[int, float]]) -> None:
        now = time.monotonic()
        done = min(self._total, sum(steps for steps, _ in last.values()))  # some take a few more steps than asked for
        if done in (0, self._done) or (now - self._said < PAUSE and done < self._total):
            return
        self._said, self._done = now, done
        rate = done / max(now - self._began, 1e-9)
        score = sum(score for _, score in last.values()) / len(last)
        left = time.strftime("%H:%M:%S", time.gmtime((self._total - done) / rate))
        text = f"{done / self._total:4.0%} · {done:,} steps · {rate:,.0f}/s · {left} left · mean score {score:.0f}"
        print(text, file=sys.stderr, flush=True)
