"""Many runs of baselines: together on a GPU, or in processes of one thread each; what is finished is skipped."""

from __future__ import annotations

import multiprocessing
import os
import signal
import sys
import threading
import time
import traceback
from collections.abc import Sequence
from contextlib import closing, nullcontext
from functools import partial
from multiprocessing.connection import Connection
from multiprocessing.context import SpawnProcess
from pathlib import Path
from typing import Any

from nesht.baselines.batched import why_not
from nesht.baselines.run import BaselineConfig, Report, check_actions, train_baseline
from nesht.baselines.settings import CONTINUOUS, check, check_name
from nesht.engines import cores
from nesht.errors import UserError
from nesht.tasks.task import make_task
from nesht.training.folder import EVALUATIONS, SUMMARY, RunFolder, is_run, read_scores
from nesht.training.progress import clock

SETS = 4
"""Sets of runs that a GPU trains at a time where nothing else is said: small kernels of one leave room for others."""

PAUSE = 5.0
"""Seconds between two lines of progress."""


Job = tuple[BaselineConfig, Path]
"""A run and its folder."""

Failure = tuple[type[Exception], str]
"""What a process, or a set of runs, failed with."""


def train_baselines(
    jobs: Sequence[Job],
    processes: int = 0,
    progress: bool = True,
    overwrite: bool = False,
    claim: Path | None = None,
) -> None:
    """Train all runs that are not finished, or with `overwrite` all; an interrupted run begins again.

    Those that can be are trained together on the GPU, all seeds of a setting as one set; the others in processes, each
    by itself or, where the fused engine was asked for, with others. `processes` is how many sets or processes there are
    at a time; 0 is a few sets, and a process per core. Meanwhile no other process may `claim` the same folder.
    """
    if processes < 0:
        raise UserError(f"processes must be 0 (as many as suit the machine) or more, got {processes}.")
    _check(jobs, overwrite)
    with closing(RunFolder(claim)) if claim else nullcontext():
        _train(_to_do(jobs, overwrite), len(jobs), processes, progress)


def _train(todo: list[Job], count: int, processes: int, progress: bool) -> None:
    """Train runs, of so many of which the others are finished."""
    if progress and len(todo) < count:
        print(f"{count - len(todo)} of {count} runs are there; {len(todo)} to go", file=sys.stderr)
    sets: dict[tuple[str, str], list[Job]] = {}
    alone: list[list[Job]] = []
    for job in todo:
        if is_batched(job[0]):
            sets.setdefault((where(job[0]), repr(job[0].identity())), []).append(job)
        else:
            alone.append([job])
    on_gpu, on_cpu = ([each for (place, _), each in sets.items() if place == name] for name in ("cuda", "cpu"))
    failed = _take_turns(on_gpu, processes or SETS, progress) if on_gpu else []
    processes = processes or cores()
    parts = -(-processes // len(on_cpu)) if on_cpu else 1
    if groups := [each[part::parts] for each in on_cpu for part in range(min(parts, len(each)))] + alone:
        failed += _in_processes(groups, processes, progress)
    if failed:
        kind, words = failed[0]
        total = len(on_gpu) + len(groups)
        first = f"{len(failed)} of {total} sets or processes failed, the first because: " if total > 1 else ""
        raise kind(f"{first}{words}")


def check_run(config: BaselineConfig) -> None:
    """Raise UserError if a run makes no sense, whatever there is to compute it."""
    check_name(config.algorithm)
    config.check()
    if config.steps <= (first := config.settings.get("learning_starts", 0)):
        raise UserError(
            f"{config.algorithm} would learn nothing in {config.steps:,} steps: in the first {first:,} it only looks "
            "around. Give it more steps (in an experiment, learners take a tenth of --steps), or "
            "--settings learning_starts=100."
        )


def _check(jobs: Sequence[Job], overwrite: bool) -> None:
    """Raise UserError about the first mistake: before any process starts, and before anything is replaced."""
    for config, out in jobs:
        check_run(config)
        if is_run(out) and not overwrite and not config.made(out):
            raise UserError(f"{out} holds a run with other options; choose another --out, or --overwrite it.")
    for (name, _), task in {(config.algorithm, repr(config.task)): config.task for config, _ in jobs}.items():
        check_actions(made := make_task(task))
        if made.discrete and name in CONTINUOUS:
            raise UserError(f"{name} needs continuous actions, which {task.env} has not: use trpo, ppo or a2c.")
    for config, _ in _to_do(jobs, overwrite):
        if not is_batched(config):
            check(config.algorithm, config.device)


def _to_do(jobs: Sequence[Job], overwrite: bool) -> list[Job]:
    return [job for job in jobs if overwrite or not (job[1] / SUMMARY).exists()]


def is_batched(config: BaselineConfig) -> bool:
    """Whether a run is trained together with others; raises UserError if it should be and cannot."""
    reason = why_not(config)
    if config.engine == "fused" and reason is not None:
        raise UserError(
            f"--engine fused cannot train this: {reason}. stable-baselines3 can: --engine gym, in experiments batch."
        )
    if config.engine == "auto":
        return config.device != "cpu" and reason is None and where(config) == "cuda"
    return config.engine == "fused"


def where(config: BaselineConfig) -> str:
    """Return the device of a run that is trained together with others."""
    from nesht.engines.fused.library import check_device

    return check_device(config.device)


def _take_turns(waiting: list[list[Job]], at_a_time: int, progress: bool) -> list[Failure]:
    """Train some sets at a time, in turns; returns why sets failed, if some did."""
    from nesht.baselines.batched.run import RunSet

    show = _Line([config.steps for jobs in waiting for config, _ in jobs])
    last: dict[Path, tuple[int, float]] = {}

    def report(name: Path, count: int, steps: int, score: float) -> None:
        last[name] = (count * steps, score)
        show(last)

    training, failed = list[RunSet](), list[Failure]()
    while waiting or training:
        while waiting and len(training) < at_a_time:
            jobs, *waiting = waiting
            said = partial(report, jobs[0][1], len(jobs)) if progress else None
            try:
                training.append(RunSet([config for config, _ in jobs], [out for _, out in jobs], said))
            except UserError as error:
                failed.append((UserError, str(error)))
        for each in list(training):
            try:
                if each.advance():
                    continue
            except UserError as error:  # of this set alone
                failed.append((UserError, str(error)))
            training.remove(each)
    return failed


def _in_processes(groups: list[list[Job]], processes: int, progress: bool) -> list[Failure]:
    """Train every group in a process of its own, with one thread; returns why processes failed, if some did."""
    jobs = [job for group in groups for job in group]
    show = _Line([config.steps for config, _ in jobs]) if progress else None
    if len(groups) == 1:
        try:
            _run(groups[0], (lambda steps, score: show({None: (len(jobs) * steps, score)})) if show else None)
        except UserError as error:
            return [(UserError, str(error))]
        return []
    context, began = multiprocessing.get_context("spawn"), time.time()
    waiting, running, failed = list(groups), list[tuple[SpawnProcess, Connection]](), list[Failure]()
    try:
        while waiting or running:
            while waiting and len(running) < processes:
                said, say = context.Pipe(duplex=False)
                process = context.Process(target=_try, args=(waiting.pop(0), say))
                process.start()
                say.close()
                running.append((process, said))
            time.sleep(0.2)
            for each in [each for each in running if not each[0].is_alive()]:
                running.remove(each)
                failed += _failure(*each)
            if show is not None:
                show({out: last for _, out in jobs if (last := _last(out, began)) is not None})
    finally:
        for process, _ in running:
            process.terminate()
            process.join()
    return failed


def _failure(process: SpawnProcess, said: Connection) -> list[Failure]:
    """Return why a process that has ended failed, if it did."""
    try:
        return [said.recv()]
    except EOFError:  # nothing was said
        if process.exitcode == 0:
            return []
    words = f"it was ended from outside ({process.exitcode}), perhaps for want of memory: try fewer --processes."
    return [(UserError, words)]


def _follow_parent() -> None:
    """Leave Ctrl-C to the process that began this one, and end when it does, however that came about."""
    signal.signal(signal.SIGINT, signal.SIG_IGN)
    parent = multiprocessing.parent_process()
    assert parent is not None

    def follow() -> None:
        parent.join()
        os._exit(1)

    threading.Thread(target=follow, daemon=True).start()


def _run(group: list[Job], report: Report | None = None) -> None:
    """Train a group, which is one run where it cannot be trained together with others."""
    config, out = group[0]
    if is_batched(config):
        from nesht.baselines.batched.run import train_batched

        train_batched([config for config, _ in group], [out for _, out in group], report)
    else:
        train_baseline(config, out, report)


def _try(group: list[Job], say: Connection) -> None:
    """Train in a process of its own; says what went wrong: a mistake of the user's, or another, and where."""
    _follow_parent()
    try:
        _run(group)
    except UserError as error:
        say.send((UserError, str(error)))
    except Exception:
        say.send((RuntimeError, traceback.format_exc()))


def _last(out: Path, began: float) -> tuple[int, float] | None:
    """Return (steps, score) of a run's last evaluation, if it was written since then."""
    try:
        if (out / EVALUATIONS).stat().st_mtime < began:
            return None
    except OSError:
        return None
    steps, scores = read_scores(out)
    return (int(steps[-1]), float(scores[-1])) if len(steps) else None


class _Line:
    """Prints how far all runs are, at most every few seconds."""

    def __init__(self, steps: Sequence[int]):
        self._total, self._began, self._said = sum(steps), time.monotonic(), 0.0
        self._done = len(steps)  # runs are evaluated after their first step, which says nothing about their speed

    def __call__(self, last: dict[Any, tuple[int, float]]) -> None:
        now = time.monotonic()
        done = min(self._total, sum(steps for steps, _ in last.values()))  # some take a few more steps than asked for
        if done <= self._done or (now - self._said < PAUSE and done < self._total):
            return
        self._said, self._done = now, done
        rate = done / max(now - self._began, 1e-9)
        score = sum(score for _, score in last.values()) / len(last)
        left = clock((self._total - done) / rate)
        text = f"{done / self._total:4.0%} · {done:,} steps · {rate:,.0f}/s · {left} left · mean score {score:.0f}"
        print(text, file=sys.stderr, flush=True)
