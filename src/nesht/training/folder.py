"""The run folder: who may write it, what is in it, and how a run is found there again.

    config.toml             every option of the run
    metrics.csv, .jsonl     one row per generation
    evaluations.csv         one row per evaluation
    checkpoint.safetensors  the whole state of the run, and checkpoint.previous.safetensors the one before
    policy.safetensors      the policy: weights, normaliser, task, feature names
    summary.json            the result, once the run is finished
    tracker.json            where a tracked run is found, and figure.png what its tracker shows
    model.zip               of a reinforcement learner, in place of metrics and checkpoints

A fleet is a folder of run folders, one per seed.
"""

from __future__ import annotations

import csv
import json
import tomllib
from contextlib import suppress
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any, Protocol

import numpy as np
from filelock import FileLock, Timeout

from nesht import __version__
from nesht.config import Config, read_options
from nesht.errors import UserError
from nesht.policies.saved import FILE as POLICY
from nesht.storage import DamagedFileError, pack_arrays, read_arrays, write_file
from nesht.training.fleet import Fleet

CONFIG, CHECKPOINT, PREVIOUS = "config.toml", "checkpoint.safetensors", "checkpoint.previous.safetensors"
EVALUATIONS = "evaluations.csv"
METRICS = ("metrics.csv", "metrics.jsonl", EVALUATIONS)
SUMMARY, LOCK = "summary.json", ".lock"
TRACKER, FIGURE, MODEL = "tracker.json", "figure.png", "model.zip"


class Options(Protocol):
    """What decides a run."""

    def to_toml(self) -> str:
        """Return the options as a file."""
        ...


@dataclass
class RunFolder:
    """One run's files, locked for as long as the object is open."""

    path: Path
    _lock: FileLock = field(init=False, repr=False)

    def __post_init__(self) -> None:
        try:
            self.path.mkdir(parents=True, exist_ok=True)
            self._lock = FileLock(self.path / LOCK)
            self._lock.acquire(timeout=0)
        except Timeout:
            raise UserError(f"another process is working in {self.path}; wait, or choose another --out.") from None
        except OSError as error:
            raise UserError(f"cannot write to {self.path}: {error.strerror}.") from error

    def close(self) -> None:
        """Let go of the folder."""
        self._lock.release()

    def check_free(self) -> None:
        """Refuse to begin a run where there is one."""
        if is_run(self.path):
            rival = algorithm_of(self.path)
            goes_on = f"`nesht resume {self.path}` goes on, " if rival is None else ""
            kind = "a run" if rival is None else f"a run of {rival}"
            raise UserError(f"{self.path} already holds {kind}: {goes_on}--overwrite replaces it.")

    def start(self, config: Options) -> None:
        """Begin a new run here; one that was here before is removed."""
        if is_run(self.path):
            for name in (CHECKPOINT, PREVIOUS, POLICY, SUMMARY, TRACKER, FIGURE, MODEL, *METRICS, CONFIG):
                (self.path / name).unlink(missing_ok=True)
        self.remember(config)

    def tracked(self, tracker: str) -> str | None:
        """Return what a tracker knows the run by; None if it does not know it."""
        try:
            found = json.loads((self.path / TRACKER).read_text())
            return str(found["run"]) if found["tracker"] == tracker else None
        except (OSError, ValueError, KeyError, TypeError):
            return None

    def remember(self, config: Options) -> None:
        """Write the options of the run; a result that came from other ones is no longer its result."""
        write_file(self.path / CONFIG, config.to_toml().encode())
        (self.path / SUMMARY).unlink(missing_ok=True)

    def save(self, run: Fleet, metrics: dict[str, int]) -> None:
        """Write a checkpoint of the run (a fleet of one) and keep the one before it.

        `metrics` is the length of each metrics file now: what a later death adds to them is cut off on resuming.
        """
        facts = {"version": __version__, "metrics": metrics}
        content = pack_arrays("checkpoint", run.arrays(), facts)
        write_file(self.path / CHECKPOINT, content, keep=self.path / PREVIOUS)

    def load(self, new: Fleet) -> tuple[Fleet, dict[str, int], str | None]:
        """Return (the run, the lengths of its metrics files, a warning) from the newest intact checkpoint.

        A run that died before its first checkpoint starts as the new run that is given.
        """
        if not any((self.path / name).exists() for name in (CHECKPOINT, PREVIOUS)):
            if not may_go_on(self.path):
                raise UserError(f"the checkpoints of {self.path} are gone; start again with --overwrite.")
            return new, dict.fromkeys(METRICS, 0), None
        warning: str | None = None
        for name in (CHECKPOINT, PREVIOUS):
            try:
                arrays, facts = read_arrays("checkpoint", self.path / name)
                run = Fleet.of(arrays, new)
            except FileNotFoundError:
                warning = warning or f"{self.path / name} is missing; going back to the checkpoint before it."
            except (DamagedFileError, ValueError) as error:
                warning = f"{error} Going back to the checkpoint before it."
            else:
                if run.state.theta.shape != new.state.theta.shape:
                    raise UserError(f"{CONFIG} in {self.path} does not fit the checkpoint: undo its changes.")
                if warning:  # or the next save would keep the damaged file in place of the good one
                    write_file(self.path / CHECKPOINT, (self.path / name).read_bytes())
                return run, facts["metrics"], warning
        raise UserError(f"{self.path} has no checkpoint that can be read; start again with --overwrite.")

    def summarise(self, summary: dict[str, Any]) -> None:
        """Write the result of a finished run."""
        write_file(self.path / SUMMARY, (json.dumps(summary, indent=2) + "\n").encode())


def check_target(out: Path) -> None:
    """Raise UserError if something is to be written over a file of a run."""
    own = (CONFIG, CHECKPOINT, PREVIOUS, POLICY, SUMMARY, TRACKER, MODEL, LOCK, *METRICS)
    if out.name in own and is_run(out.parent):
        raise UserError(f"{out} belongs to the run; choose another --out.")


def is_run(path: Path) -> bool:
    """Whether a folder holds a run, finished or not."""
    return (path / CONFIG).exists()


def may_go_on(path: Path) -> bool:
    """Whether a run can be resumed, finished or not: checkpoints are written before a policy or a summary."""
    checkpoints, later = ((path / name for name in names) for names in ((CHECKPOINT, PREVIOUS), (POLICY, SUMMARY)))
    return any(file.exists() for file in checkpoints) or not any(file.exists() for file in later)


def algorithm_of(path: Path) -> str | None:
    """Return which reinforcement learner's run a folder holds; None if it is an evolution strategy's."""
    try:
        return tomllib.loads((path / CONFIG).read_text()).get("algorithm")
    except ValueError as error:
        raise DamagedFileError(f"{CONFIG} in {path} is damaged ({error}); remove what is there.") from error


def holds_runs(path: Path) -> bool:
    """Whether a folder holds a run, or those of a fleet."""
    return is_run(path) or bool(fleet_runs(path))


def find_runs(path: Path) -> list[Path]:
    """Return the run folders at a path: the folder itself, or those of a fleet, by seed."""
    if is_run(path):
        return [path]
    if not (runs := fleet_runs(path)):
        raise UserError(f"there is no run at {path}.")
    return runs


def fleet_runs(path: Path) -> list[Path]:
    """Return the run folders `seed-0`, `seed-1`, ... inside a folder, by seed."""
    found = {folder: folder.name.removeprefix("seed-") for folder in path.glob("seed-*") if is_run(folder)}
    return sorted((folder for folder, seed in found.items() if seed.isdigit()), key=lambda folder: int(found[folder]))


def read_scores(folder: Path) -> tuple[np.ndarray, np.ndarray]:
    """Return (steps, score) of every evaluation of a run, of an evolution strategy or another learner."""
    file = folder / EVALUATIONS
    lines = file.read_text(errors="replace").splitlines() if file.exists() else []
    rows = []
    for row in csv.DictReader(lines):
        with suppress(TypeError, ValueError):  # the last may be half written
            rows.append((float(row["steps"]), float(row["score"])))
    steps, score = zip(*rows, strict=True) if rows else ((), ())
    return np.array(steps), np.array(score)


def read_config(path: Path) -> Config:
    """Return the options of the run in a folder."""
    return Config().change(**read_options(path / CONFIG))
