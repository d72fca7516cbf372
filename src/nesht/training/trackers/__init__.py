"""Experiment trackers: a run as TensorBoard, Weights & Biases or MLflow shows it; each an extra, each one small file.

A tracker gets the options of a run when it starts, its metrics by environment step as they come, and at the end the
policy, the config file and a picture of the run. A run that is resumed goes on in the tracked run that it began.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from importlib import import_module
from importlib.util import find_spec
from pathlib import Path
from typing import Protocol

from nesht.config import Config
from nesht.errors import UserError

NEEDS = {"tensorboard": "tensorboardX", "wandb": "wandb", "mlflow": "mlflow"}
"""The trackers, and the package that each needs beside matplotlib."""


class Tracker(Protocol):
    """One run, as a tracker sees it."""

    name: str
    """What it is called in `--track`."""
    id: str
    """What the tracker knows the run by, to find it again on resuming."""

    def log(self, values: Mapping[str, float], steps: int) -> None:
        """Add the values of some metrics after so many environment steps."""

    def keep(self, files: Sequence[Path]) -> None:
        """Keep files of a finished run; those that end in .png are pictures to show."""

    def close(self, finished: bool) -> None:
        """Say that nothing more comes: the run is finished, or was stopped on the way."""


def title(folder: Path) -> str:
    """Return what to call the run of a folder; a run of a fleet is named after both."""
    return f"{folder.parent.name} {folder.name}" if folder.name.startswith("seed-") else folder.name


def check_tracker(name: str) -> None:
    """Refuse a tracker whose extra is not installed."""
    if name != "none" and not all(find_spec(package) for package in (NEEDS[name], "matplotlib")):
        raise UserError(f"--track {name} needs `pip install 'nesht[{name}]'`.")


def start_tracker(name: str, folder: Path, config: Config, run: str | None = None, steps: int = 0) -> Tracker | None:
    """Begin to track a run, or go on with the tracked run of that id from a number of steps; None for no tracker."""
    if name == "none":
        return None
    module = import_module(f"nesht.training.trackers.{name}")
    try:
        tracker: Tracker = module.start(folder, config, run, steps)
    except Exception as error:  # a tracker's own errors: no login, no server, no network
        words = " ".join(str(error).split()) or type(error).__name__
        raise UserError(f"{name} cannot track {folder}: {words.rstrip('.')}. --track none does without it.") from error
    return tracker
