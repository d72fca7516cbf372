"""What a run leaves behind, generation by generation: CSV and JSON lines always, TensorBoard if asked for."""

from __future__ import annotations

import csv
import json
import math
import os
from pathlib import Path
from typing import Any, TextIO

import numpy as np

from nesht.training.fleet import Fleet, Generation
from nesht.training.folder import METRICS
from nesht.training.setup import Setup

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
    """Appends a run's records to the files in its folder."""

    def __init__(self, folder: Path, lengths: dict[str, int] | None = None, tensorboard: bool = False):
        """Start new files, or go on with files cut to the given lengths."""
        self._files: dict[str, TextIO] = {}
        for name in METRICS:
            path = folder / name
            if lengths is not None and path.exists():
                os.truncate(path, min(lengths.get(name, 0), path.stat().st_size))
            self._files[name] = open(path, "w" if lengths is None else "a", newline="")  # noqa: SIM115
        rows, self._lines, evaluations = self._files.values()
        self._csv, self._evaluations = csv.DictWriter(rows, COLUMNS), csv.DictWriter(evaluations, EVALUATION_COLUMNS)
        for file, writer in ((rows, self._csv), (evaluations, self._evaluations)):
            if file.tell() == 0:
                writer.writeheader()
        self._board = _tensorboard(folder) if tensorboard else None

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

    def close(self) -> None:
        """Close the files."""
        for file in self._files.values():
            file.close()
        if self._board is not None:
            self._board.close()

    def _show(self, record: Record) -> None:
        if self._board is not None:
            for name, value in record.items():
                if value is not None and name not in ("seed", "steps", "generation", "segments"):
                    self._board.add_scalar(name, value, record["steps"])


def _number(value: float) -> float | None:
    return value if math.isfinite(value) else None


def _tensorboard(folder: Path) -> Any:
    from tensorboardX import SummaryWriter  # an extra; `setup.build` has checked that it is there

    return SummaryWriter(str(folder / "tensorboard"))
