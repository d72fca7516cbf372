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
    finite = np.where(np.isfinite(what.fitness), what.fitness, np.nan)
    rows = []
    for i in range(len(after)):
        fit = finite[i][~np.isnan(finite[i])]
        values = (
            after.state.seed[i],
            before.state.generation[i],
            after.steps[i],
            after.episodes[i],
            after.seconds[i],
            after.score[i],
            fit.mean() if fit.size else math.nan,
            fit.max() if fit.size else math.nan,
            what.told.gradient_norm[i],
            np.linalg.norm(theta[i]),
            what.told.sigma[i],
            what.told.lr[i],
            np.count_nonzero(theta[i]),
            used[i].sum(),
            used[i, : setup.task.n_real].sum(),
            on_real[i] / on_all[i] if on_all[i] and noisy else math.nan,
            what.told.not_finite[i],
            after.diverged[i],
        )
        rows.append({name: _number(value) for name, value in zip(COLUMNS, values, strict=True)})
    return rows


def evaluation_record(fleet: Fleet, run: int, score: float, setup: Setup) -> Record:
    """Return the record of an evaluation of a run's policy as it is now.

    `noise_leak` is the distractors' share in the variance of the first layer; `segments` are the L1 norms of the
    weights that read the real inputs, then of those that read each further stretch of as many distractors.
    """
    weights, n_real = setup.policy.input_weights(fleet.state.theta[run : run + 1])[0], setup.task.n_real
    used = (weights != 0).any(axis=0)
    spread = 1.0 if setup.of(run).config.policy.normalise else fleet.moments.std[run] ** 2
    effect = (weights**2).sum(axis=0) * spread
    noisy, total = n_real < setup.policy.inputs, effect.sum()
    norms = np.add.reduceat(np.abs(weights).sum(axis=0), np.arange(0, setup.policy.inputs, n_real))
    values = (
        fleet.state.seed[run],
        fleet.state.generation[run],
        fleet.steps[run],
        score,
        used.sum(),
        used[:n_real].sum(),
        effect[n_real:].sum() / total if noisy and total else math.nan,
    )
    record = {name: _number(value) for name, value in zip(EVALUATION_COLUMNS, values, strict=False)}
    return {**record, "segments": " ".join(f"{norm:.4g}" for norm in norms)}


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


def _number(value: Any) -> int | float | None:
    plain = value.item() if hasattr(value, "item") else value
    return None if isinstance(plain, float) and not math.isfinite(plain) else plain


def _tensorboard(folder: Path) -> Any:
    from tensorboardX import SummaryWriter  # an extra; `setup.build` has checked that it is there

    return SummaryWriter(str(folder / "tensorboard"))
