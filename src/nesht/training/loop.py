"""The training loop: generations until the budget is spent, with records, checkpoints and progress along the way."""

from __future__ import annotations

import math
import sys
import threading
import time
from collections.abc import Callable, Sequence
from concurrent.futures import ThreadPoolExecutor
from contextlib import ExitStack
from dataclasses import dataclass, field, replace
from pathlib import Path
from typing import Any

import numpy as np

from nesht.engines import Engine
from nesht.errors import UserError
from nesht.policies.saved import FILE as POLICY_FILE
from nesht.policies.saved import Policy
from nesht.training.fleet import Fleet, advance, done, evaluate, paused
from nesht.training.folder import RunFolder
from nesht.training.progress import ProgressDisplay
from nesht.training.recorder import Record, Recorder, evaluation_records, records
from nesht.training.setup import Setup

AT_ONCE = 12
"""Groups that share a GPU at a time, at most: enough to fill it, few enough not to fight for Python's lock."""

TURN = 1e-4
"""Seconds after which a thread gives Python's lock to another; theirs are many short turns."""

Callback = Callable[[Sequence[Record]], Any]


@dataclass(frozen=True)
class RunResult:
    """A run that is finished, or that was told to pause."""

    seed: int
    score: float
    """Mean of the last 10 evaluations: every reward counted, distractors on, nothing perturbed; NaN if none of their
    episodes could be simulated, or if the weights are not finite any more."""
    steps: int
    generations: int
    seconds: float
    diverged: int
    """Training episodes whose simulation blew up."""
    policy: Policy
    folder: Path | None
    history: list[Record]
    """One record per generation of this session."""
    evaluations: list[Record]
    """One record per evaluation of this session."""


@dataclass
class Run:
    """One run of the fleet with its place on disk, if it has one."""

    seed: int
    folder: RunFolder | None
    recorder: Recorder | None
    history: list[Record] = field(default_factory=list)
    evaluations: list[Record] = field(default_factory=list)

    def record(self, row: Record) -> None:
        """Remember a generation."""
        self.history.append(row)
        if self.recorder is not None:
            self.recorder.write(row)

    def record_evaluation(self, row: Record) -> None:
        """Remember an evaluation."""
        self.evaluations.append(row)
        if self.recorder is not None:
            self.recorder.write_evaluation(row)

    def close(self) -> None:
        """Let go of the files."""
        if self.recorder is not None:
            self.recorder.close()
        if self.folder is not None:
            self.folder.close()


@dataclass(frozen=True)
class _Point:
    """A moment to go on from: the active runs, their state, and how long their metrics files were then.

    The loop moves from one point to the next in a single assignment, so that Ctrl-C never saves a half-made step.
    """

    setup: Setup
    fleet: Fleet
    runs: list[Run]
    lengths: list[dict[str, int]]

    @classmethod
    def now(cls, setup: Setup, fleet: Fleet, runs: list[Run]) -> _Point:
        """Return the point after everything about these runs has been recorded."""
        return cls(setup, fleet, runs, [run.recorder.lengths() if run.recorder else {} for run in runs])

    def select(self, rows: np.ndarray) -> _Point:
        """Return the point of some of the runs."""
        setup, fleet = self.setup.select(list(rows)), self.fleet.select(rows)
        return _Point(setup, fleet, [self.runs[row] for row in rows], [self.lengths[row] for row in rows])

    def save(self) -> None:
        """Write a checkpoint and the policy of every run that has a folder."""
        for i, (run, lengths) in enumerate(zip(self.runs, self.lengths, strict=True)):
            if run.folder is not None:
                alone = self.fleet.select([i])
                run.folder.save(alone, lengths)
                alone.policy(self.setup.select([i])).save(run.folder.path / POLICY_FILE)


@dataclass(frozen=True)
class Group:
    """Runs of one kind (see `setup.kind`) that advance together."""

    setup: Setup
    fleet: Fleet
    runs: list[Run]


def run_groups(groups: Sequence[Group], progress: bool, callback: Callback | None) -> list[RunResult]:
    """Train all groups and return the results of all runs, in order.

    On a GPU the groups run side by side, each on a stream of its own, so that none waits for another's long episodes;
    on the CPU, which one group fills, they run one after the other.
    """
    stop = threading.Event()
    display = ProgressDisplay(sum(len(group.runs) for group in groups)) if progress else None
    runtime = groups[0].setup.config.runtime
    at_once = min(len(groups), AT_ONCE) if runtime.device == "cuda" and runtime.engine != "ray" else 1
    with ExitStack() as stack:
        for group in groups:
            for run in group.runs:
                stack.callback(run.close)
        if display is not None:
            stack.enter_context(display)
        if len(groups) == 1:
            return run_generations(groups[0], display, callback, stop)
        stack.callback(sys.setswitchinterval, sys.getswitchinterval())
        sys.setswitchinterval(TURN)
        with ThreadPoolExecutor(at_once, "nesht-group") as pool:
            futures = [pool.submit(run_generations, group, display, callback, stop) for group in groups]
            try:
                return [result for future in futures for result in future.result()]
            except BaseException:  # also Ctrl-C: every group saves what it has
                stop.set()
                raise


def run_generations(
    group: Group, display: ProgressDisplay | None, callback: Callback | None, stop: threading.Event
) -> list[RunResult]:
    """Run generations until every run is done; on Ctrl-C, if told to stop, or if the engine gives up, save first."""
    setup, runs = group.setup, group.runs
    results: dict[int, RunResult] = {}
    with ExitStack() as stack:
        engine = setup.engine()
        stack.callback(engine.close)
        point = _Point.now(setup, group.fleet, runs)
        point.save()
        saved = time.monotonic()
        try:
            while True:
                if stop.is_set():
                    raise KeyboardInterrupt
                point, finished = _finish(point, engine)
                results |= finished
                if not point.runs:
                    break
                point, rows = _generation(point, engine)
                if display is not None:
                    display({id(run): row for run, row in zip(point.runs, rows, strict=True)}, setup.budget)
                if callback is not None:
                    callback(rows)
                if time.monotonic() - saved >= setup.config.runtime.checkpoint_seconds:
                    point.save()
                    saved = time.monotonic()
        except (KeyboardInterrupt, UserError):  # the second if a cluster is lost on the way
            point.save()
            raise
    return [results[id(run)] for run in runs]


def _generation(point: _Point, engine: Engine) -> tuple[_Point, list[Record]]:
    """Run one generation of all active runs and record it."""
    setup, fleet, start = point.setup, point.fleet, time.monotonic()
    after, what = advance(fleet, setup, engine)
    after = replace(after, seconds=fleet.seconds + (time.monotonic() - start))
    _record_evaluations(point, what.score)
    rows = records(fleet, after, what, setup)
    for run, row in zip(point.runs, rows, strict=True):
        run.record(row)
    return _Point.now(setup, after, point.runs), rows


def _finish(point: _Point, engine: Engine) -> tuple[_Point, dict[int, RunResult]]:
    """Evaluate and save the runs that end or pause here; returns the others, and the results by the run's identity.

    A run that pauses is saved as it was before that evaluation, which it would not have had without a pause.
    """
    finished = done(point.fleet, point.setup)
    over = finished | paused(point.fleet, point.setup)
    if not over.any():
        return point, {}
    ended, finished = point.select(np.flatnonzero(over)), finished[over]
    fleet, state, scores = evaluate(ended.fleet, ended.setup, engine)
    _record_evaluations(replace(ended, fleet=replace(fleet, state=state)), scores)
    _Point.now(ended.setup, fleet, ended.runs).select(np.flatnonzero(finished)).save()
    ended.select(np.flatnonzero(~finished)).save()
    results = {id(run): _result(fleet.select([i]), ended.setup.select([i]), run) for i, run in enumerate(ended.runs)}
    return point.select(np.flatnonzero(~over)), results


def _record_evaluations(point: _Point, scores: np.ndarray) -> None:
    if not np.isnan(scores).all():
        for i, record in evaluation_records(point.fleet, scores, point.setup).items():
            point.runs[i].record_evaluation(record)


def _result(fleet: Fleet, setup: Setup, run: Run) -> RunResult:
    policy = fleet.policy(setup)
    lost = not np.isfinite(policy.parameters).all()
    result = RunResult(
        seed=run.seed,
        score=math.nan if lost else float(fleet.score[0]),  # else that of policies before it
        steps=int(fleet.steps[0]),
        generations=int(fleet.state.generation[0]),
        seconds=float(fleet.seconds[0]),
        diverged=int(fleet.diverged[0]),
        policy=policy,
        folder=run.folder.path if run.folder else None,
        history=run.history,
        evaluations=run.evaluations,
    )
    if run.folder is not None and run.recorder is not None and done(fleet, setup)[0]:
        names = ("seed", "score", "steps", "generations", "seconds", "diverged")
        summary = {name: getattr(result, name) for name in names}
        run.folder.summarise({**summary, "score": result.score if math.isfinite(result.score) else None})
        run.recorder.finish()
    return result
