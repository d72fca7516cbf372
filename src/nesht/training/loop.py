"""The training loop: generations until the budget is spent, with records, checkpoints and progress along the way."""

from __future__ import annotations

import sys
import time
from collections.abc import Callable, Sequence
from contextlib import ExitStack, nullcontext
from dataclasses import dataclass, field, fields, replace
from pathlib import Path
from typing import Any

import numpy as np

from nesht.config import Config, RuntimeOptions
from nesht.engines import Engine
from nesht.errors import UserError
from nesht.policies.saved import FILE as POLICY_FILE
from nesht.policies.saved import Policy
from nesht.presets import preset as preset_options
from nesht.training.fleet import Fleet, advance, done, evaluate
from nesht.training.folder import RunFolder, find_runs, fleet_runs, is_run, read_config
from nesht.training.progress import ProgressDisplay
from nesht.training.recorder import Record, Recorder, evaluation_record, records
from nesht.training.setup import DEFAULT_STEPS, Setup, build

Callback = Callable[[Sequence[Record]], Any]

CHANGEABLE = {"env", "steps", "generations", "seconds", *(option.name for option in fields(RuntimeOptions))}
"""What `resume` may change: where a run is computed, how long, and the function behind the name of its environment."""


@dataclass(frozen=True)
class RunResult:
    """A finished run."""

    seed: int
    score: float
    """Mean of the last 10 evaluations: every reward counted, distractors on, nothing perturbed."""
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
class _Run:
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


def train(*, out: str | Path | None = None, config: Config | None = None, **options: Any) -> RunResult:
    """Train one policy.

    Args:
        out: the run folder; without one nothing is written.
        config: options to start from, instead of a preset.
        options: `preset`, `overwrite`, `progress` and `callback` as in `train_fleet`, and any option of `nesht.Config`,
            by name.

    Examples:
        >>> result = nesht.train(env="Hopper-v4", noise_ratio=10, beta=0.9, steps=1_000_000, out="runs/hopper")
        >>> result.score, result.policy.used
    """
    seed = options.pop("seed", (config or Config()).training.seed)
    return train_fleet([seed], out=out, config=config, **options)[0]


def train_fleet(
    seeds: Sequence[int],
    *,
    preset: str = "tuned",
    out: str | Path | None = None,
    overwrite: bool = False,
    progress: bool = True,
    callback: Callback | None = None,
    config: Config | None = None,
    **options: Any,
) -> list[RunResult]:
    """Train one policy per seed, all together; every run gives the same bits as it would alone.

    Args:
        seeds: the seeds, each once.
        preset: options to start from, "tuned" or "paper"; not used with `config`.
        out: with one seed the run folder, with several the folder of their run folders (`seed-0`, ...).
        overwrite: replace runs that are already there.
        progress: show progress on standard error.
        callback: called after every generation with the records of all active runs.
        config: options to start from, instead of a preset.
        options: any option of `nesht.Config`, by name; they override the preset or the config.
    """
    seeds = [int(seed) for seed in seeds]
    if not seeds or len(set(seeds)) != len(seeds):
        raise UserError(f"seeds must be given, each once, got {seeds}.")
    if config is None:
        env = options.get("env", "")
        config = Config().change(**preset_options(preset, env if isinstance(env, str) else ""))
    config = config.change(**options)
    if config.training.steps is config.training.generations is config.training.seconds is None:
        config = config.change(steps=DEFAULT_STEPS)
    setups = [build(config.change(seed=seed)) for seed in seeds]
    folders = _start_folders(Path(out), setups, overwrite) if out is not None else [None] * len(seeds)
    runs = [
        _Run(seed, folder, Recorder(folder.path, tensorboard=config.runtime.tensorboard) if folder else None)
        for seed, folder in zip(seeds, folders, strict=True)
    ]
    return _train(Fleet.new(setups[0], seeds), setups[0], runs, progress, callback)


def resume(
    path: str | Path, *, progress: bool = True, callback: Callback | None = None, **options: Any
) -> list[RunResult]:
    """Go on with the run or the fleet in a folder; it ends with the same bits as if it had never stopped.

    Args:
        path: a run folder, or the folder of a fleet.
        progress: show progress on standard error.
        callback: called after every generation with the records of all active runs.
        options: runtime options to change (`threads`, ...), a larger budget (`steps`, `generations`, `seconds`), or the
            factory `env` of a run whose environment cannot be found by name.
    """
    if fixed := set(options) - CHANGEABLE:
        raise UserError(f"{min(fixed)} belongs to what a run is and cannot be changed on the way; start a new run.")
    paths = find_runs(Path(path))
    configs = [read_config(folder).change(**options) for folder in paths]
    if any(config.change(seed=0) != configs[0].change(seed=0) for config in configs):
        raise UserError(f"the runs in {path} have different options; resume them one at a time.")
    setup = build(configs[0])
    runs, fleets = [], []
    for folder_path, config in zip(paths, configs, strict=True):
        folder = RunFolder(folder_path)
        fleet, lengths, warning = folder.load(Fleet.new(setup, [config.training.seed]))
        _check_budget(fleet, setup, options)
        if warning:
            print(f"nesht: {warning}", file=sys.stderr)
        if options:
            folder.remember(config)
        recorder = Recorder(folder_path, lengths, config.runtime.tensorboard)
        runs.append(_Run(config.training.seed, folder, recorder))
        fleets.append(fleet)
    return _train(Fleet.join(fleets), setup, runs, progress, callback)


def _check_budget(fleet: Fleet, setup: Setup, options: dict[str, Any]) -> None:
    """Refuse a new budget that the run has used up already."""
    spent = {"steps": fleet.steps[0], "generations": fleet.state.generation[0], "seconds": fleet.seconds[0]}
    for name, used in spent.items():
        if options.get(name) is not None and options[name] <= used:
            raise UserError(
                f"seed {fleet.state.seed[0]} has used {used:g} {name} already, more than {options[name]:g}."
            )


def _start_folders(out: Path, setups: list[Setup], overwrite: bool) -> list[RunFolder | None]:
    """Open and claim all folders before anything is simulated."""
    paths = [out] if len(setups) == 1 else [out / f"seed-{setup.config.training.seed}" for setup in setups]
    if fleet_runs(out) if len(setups) == 1 else is_run(out):
        kind = "a fleet" if len(setups) == 1 else "a single run"
        raise UserError(f"{out} already holds {kind}; choose another --out.")
    folders: list[RunFolder | None] = []
    try:
        for path, setup in zip(paths, setups, strict=True):
            folder = RunFolder(path)
            folders.append(folder)
            folder.start(setup.config, overwrite)
    except BaseException:
        for opened in folders:
            if opened is not None:
                opened.close()
        raise
    return folders


@dataclass(frozen=True)
class _Point:
    """A moment to go on from: the active runs, their state, and how long their metrics files were then.

    The loop moves from one point to the next in a single assignment, so that Ctrl-C never saves a half-made step.
    """

    fleet: Fleet
    runs: list[_Run]
    lengths: list[dict[str, int]]

    @classmethod
    def now(cls, fleet: Fleet, runs: list[_Run]) -> _Point:
        """Return the point after everything about these runs has been recorded."""
        return cls(fleet, runs, [run.recorder.lengths() if run.recorder else {} for run in runs])

    def save(self, setup: Setup) -> None:
        """Write a checkpoint and the policy of every run that has a folder."""
        for i, (run, lengths) in enumerate(zip(self.runs, self.lengths, strict=True)):
            if run.folder is not None:
                run.folder.save(self.fleet.select([i]), lengths)
                self.fleet.policy(i, setup).save(run.folder.path / POLICY_FILE)


def _train(fleet: Fleet, setup: Setup, runs: list[_Run], progress: bool, callback: Callback | None) -> list[RunResult]:
    """Run generations until every run is done; on Ctrl-C save what there is, then let it through."""
    results: dict[int, RunResult] = {}
    with ExitStack() as stack:
        for run in runs:
            stack.callback(_close, run)
        engine = setup.engine()
        stack.callback(engine.close)
        display = stack.enter_context(ProgressDisplay(setup.budget, len(runs)) if progress else nullcontext())
        point = _Point.now(fleet, runs)
        point.save(setup)
        saved = time.monotonic()
        try:
            while True:
                point, finished = _finish(point, setup, engine)
                results |= finished
                if not point.runs:
                    break
                point, rows = _generation(point, setup, engine)
                for report in (display, callback):
                    if report is not None:
                        report(rows)
                if time.monotonic() - saved >= setup.config.runtime.checkpoint_seconds:
                    point.save(setup)
                    saved = time.monotonic()
        except KeyboardInterrupt:
            point.save(setup)
            raise
    return [results[run.seed] for run in runs]


def _generation(point: _Point, setup: Setup, engine: Engine) -> tuple[_Point, list[Record]]:
    """Run one generation of all active runs and record it."""
    fleet, start = point.fleet, time.monotonic()
    after, what = advance(fleet, setup, engine)
    after = replace(after, seconds=fleet.seconds + (time.monotonic() - start))
    _record_evaluations(fleet, what.score, point.runs)
    rows = records(fleet, after, what, setup)
    for run, row in zip(point.runs, rows, strict=True):
        run.record(row)
    return _Point.now(after, point.runs), rows


def _finish(point: _Point, setup: Setup, engine: Engine) -> tuple[_Point, dict[int, RunResult]]:
    """Evaluate and save the runs whose budget is spent; returns the others, and the results."""
    over = done(point.fleet, setup)
    if not over.any():
        return point, {}
    finished, scores = evaluate(point.fleet.select(np.flatnonzero(over)), setup, engine)
    ended = [run for run, is_over in zip(point.runs, over, strict=True) if is_over]
    others = [run for run, is_over in zip(point.runs, over, strict=True) if not is_over]
    _record_evaluations(finished, scores, ended)
    _Point.now(finished, ended).save(setup)
    results = {run.seed: _result(finished, i, setup, run) for i, run in enumerate(ended)}
    return _Point.now(point.fleet.select(np.flatnonzero(~over)), others), results


def _record_evaluations(fleet: Fleet, scores: np.ndarray, runs: list[_Run]) -> None:
    for i, run in enumerate(runs):
        if not np.isnan(scores[i]):
            run.record_evaluation(evaluation_record(fleet, i, scores[i]))


def _result(fleet: Fleet, i: int, setup: Setup, run: _Run) -> RunResult:
    result = RunResult(
        seed=run.seed,
        score=float(fleet.score[i]),
        steps=int(fleet.steps[i]),
        generations=int(fleet.state.generation[i]),
        seconds=float(fleet.seconds[i]),
        diverged=int(fleet.diverged[i]),
        policy=fleet.policy(i, setup),
        folder=run.folder.path if run.folder else None,
        history=run.history,
        evaluations=run.evaluations,
    )
    if run.folder is not None:
        run.folder.summarise(
            {name: getattr(result, name) for name in ("seed", "score", "steps", "generations", "seconds", "diverged")}
        )
    return result


def _close(run: _Run) -> None:
    if run.recorder is not None:
        run.recorder.close()
    if run.folder is not None:
        run.folder.close()
