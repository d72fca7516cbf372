"""What a run leaves behind, generation by generation: CSV and JSON lines always, a tracker if asked for."""

from __future__ import annotations

import csv
import json
import math
import os
import sys
from collections.abc import Callable
from pathlib import Path
from typing import Any, TextIO

import numpy as np

from nesht.policies.saved import FILE as POLICY
from nesht.storage import write_file
from nesht.training.fleet import Fleet, Generation
from nesht.training.folder import CONFIG, FIGURE, METRICS, TRACKER
from nesht.training.setup import Setup
from nesht.training.trackers import Tracker

Record = dict[str, Any]
"""One generation of one run: names of metrics to numbers, None where there is no value."""

COLUMNS = (
    "seed",
    "generation",
    "steps",
    "episodes",
    "seconds",
    "recent_score",
    "fitness_mean",
    "fitness_max",
    "gradient_norm",
    "weight_norm",
    "sigma",
    "lr",
    "nonzeros",
    "features_used",
    "real_features_used",
    "real_share",
    "not_finite",
    "diverged",
)


EVALUATION_COLUMNS = (
    "seed",
    "generation",
    "steps",
    "score",
    "features_used",
    "real_features_used",
    "noise_leak",
    "segments",
)


def records(before: Fleet, after: Fleet, what: Generation, setup: Setup) -> list[Record]:
    """Return what one generation did, one record per run.

    Fitness is that of the generation's members, everything about weights is of the policy after its update.
    `real_share` is the share of nonzero input weights that read real features, where there are any others.
    """
    theta = after.state.theta
    nonzero = setup.policy.input_weights(theta) != 0
    used = nonzero.any(axis=1)
    on_real, on_all = nonzero[:, :, : setup.task.n_real].sum(axis=(1, 2)), nonzero.sum(axis=(1, 2))
    noisy = setup.task.n_real < setup.policy.inputs
    finite = np.isfinite(what.fitness)
    any_finite, nan = finite.any(axis=1), np.full(len(after), math.nan)
    total = np.where(finite, what.fitness, 0).sum(axis=1)
    columns = (
        after.state.seed,
        before.state.generation,
        after.steps,
        after.episodes,
        after.seconds,
        after.score,
        np.divide(total, finite.sum(axis=1), out=nan.copy(), where=any_finite),
        np.where(finite, what.fitness, -math.inf).max(axis=1),
        what.told.gradient_norm,
        np.sqrt((theta * theta).sum(axis=1)),
        what.told.sigma,
        what.told.lr,
        (theta != 0).sum(axis=1),
        used.sum(axis=1),
        used[:, : setup.task.n_real].sum(axis=1),
        np.divide(on_real, on_all, out=nan.copy(), where=(on_all > 0) & noisy),
        what.told.not_finite,
        after.diverged,
    )
    return [
        {name: _number(value) for name, value in zip(COLUMNS, row, strict=True)}
        for row in zip(*(np.asarray(column).tolist() for column in columns), strict=True)
    ]


def evaluation_records(fleet: Fleet, scores: np.ndarray, setup: Setup) -> dict[int, Record]:
    """Return the records of an evaluation of the policies as they are now, by run, where there is a score.

    `noise_leak` is the distractors' share in the variance of the first layer; `segments` are the L1 norms of the
    weights that read the real inputs, then of those that read each further stretch of as many distractors.
    """
    runs, n_real = np.flatnonzero(~np.isnan(scores)), setup.task.n_real
    weights = setup.policy.input_weights(fleet.state.theta[runs])
    normalises = np.array([setup.of(int(run)).config.policy.normalise for run in runs], bool)
    spread = np.where(normalises[:, None], 1.0, fleet.moments.std[runs] ** 2)
    effect = (weights**2).sum(axis=1) * spread
    total, used = effect.sum(axis=1), (weights != 0).any(axis=1)
    leak = np.full(len(runs), math.nan)
    if n_real < setup.policy.inputs:
        np.divide(effect[:, n_real:].sum(axis=1), total, out=leak, where=total > 0)
    norms = np.add.reduceat(np.abs(weights).sum(axis=1), np.arange(0, setup.policy.inputs, n_real), axis=1)
    columns = (
        fleet.state.seed[runs],
        fleet.state.generation[runs],
        fleet.steps[runs],
        scores[runs],
        used.sum(axis=1),
        used[:, :n_real].sum(axis=1),
        leak,
    )
    found = {}
    for run, row, norm in zip(runs, zip(*(column.tolist() for column in columns), strict=True), norms, strict=True):
        record = {name: _number(value) for name, value in zip(EVALUATION_COLUMNS, row, strict=False)}
        found[int(run)] = {**record, "segments": " ".join(f"{value:.4g}" for value in norm)}
    return found


class Recorder:
    """Appends a run's records to the files in its folder, and shows them to its tracker."""

    def __init__(self, folder: Path, lengths: dict[str, int] | None = None, tracker: Tracker | None = None):
        """Start new files, or go on with files cut to the given lengths."""
        self._folder, self._tracker, self._finished = folder, tracker, False
        self._files: dict[str, TextIO] = {}
        for name in METRICS:
            path = folder / name
            if lengths is not None and path.exists():
                _cut(path, lengths.get(name, 0))
            self._files[name] = open(path, "w" if lengths is None else "a", newline="")  # noqa: SIM115
        rows, self._lines, evaluations = self._files.values()
        self._csv, self._evaluations = csv.DictWriter(rows, COLUMNS), csv.DictWriter(evaluations, EVALUATION_COLUMNS)
        for file, writer in ((rows, self._csv), (evaluations, self._evaluations)):
            if file.tell() == 0:
                writer.writeheader()
        if tracker is not None:
            write_file(folder / TRACKER, json.dumps({"tracker": tracker.name, "run": tracker.id}).encode())

    def write(self, record: Record) -> None:
        """Append the record of a generation."""
        self._csv.writerow(record)
        self._lines.write(json.dumps(record) + "\n")
        self._show(record)

    def write_evaluation(self, record: Record) -> None:
        """Append the record of an evaluation."""
        self._evaluations.writerow(record)
        self._show(record)

    def lengths(self) -> dict[str, int]:
        """Bring everything to the files and return the length of each in bytes."""
        for file in self._files.values():
            file.flush()
        return {name: file.tell() for name, file in self._files.items()}

    def finish(self) -> None:
        """Give the tracker what a finished run leaves: its policy, its options and a picture of it."""
        self._finished = True
        self._track(self._keep)

    def close(self) -> None:
        """Close the files."""
        for file in self._files.values():
            file.close()
        self._track(lambda tracker: tracker.close(self._finished))

    def _show(self, record: Record) -> None:
        left_out = ("seed", "steps", "generation", "segments")
        values = {name: value for name, value in record.items() if value is not None and name not in left_out}
        self._track(lambda tracker: tracker.log(values, record["steps"]))

    def _keep(self, tracker: Tracker) -> None:
        from nesht.report.figure import draw_run  # needs matplotlib, which comes with every tracker's extra

        draw_run([self._folder], self._folder / FIGURE)
        tracker.keep([self._folder / name for name in (POLICY, CONFIG, FIGURE)])

    def _track(self, action: Callable[[Tracker], None]) -> None:
        """Do something with the tracker, if there is one; if it fails, the run goes on without it."""
        if self._tracker is None:
            return
        try:
            action(self._tracker)
        except Exception as error:
            self._tracker = None
            words = " ".join(str(error).split())
            print(f"nesht: {self._folder} is no longer tracked ({words}); the run itself goes on.", file=sys.stderr)


def _cut(path: Path, length: int) -> None:
    """Cut a file to a length; where it has lost some of that, to its last whole line, and say so."""
    if (size := path.stat().st_size) < length:
        print(f"nesht: {path} has lost some of its rows; the others stay.", file=sys.stderr)
        length = path.read_bytes().rfind(b"\n") + 1
    os.truncate(path, min(length, size))


def _number(value: float) -> float | None:
    return value if math.isfinite(value) else None
