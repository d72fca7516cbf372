"""Weights & Biases: online where the user is logged in, or with WANDB_MODE=offline into the run folder.

The project is WANDB_PROJECT, or nesht. Records that a resumed run makes again have the values they had before, so
that nothing has to be taken back.
"""

from __future__ import annotations

import os
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Any

import wandb

from nesht.config import Config
from nesht.training.trackers import title


class WeightsAndBiases:
    """A run of Weights & Biases."""

    name = "wandb"

    def __init__(self, run: Any):
        self.id: str = run.id
        self._run = run
        run.define_metric("steps")
        run.define_metric("*", step_metric="steps")

    def log(self, values: Mapping[str, float], steps: int) -> None:
        """Add a row to the run's history."""
        self._run.log({"steps": steps, **values})

    def keep(self, files: Sequence[Path]) -> None:
        """Show the pictures; keep the other files as one artifact of the type policy."""
        artifact = wandb.Artifact(f"policy-{self.id}", type="policy")
        for file in files:
            if file.suffix == ".png":
                self._run.log({file.stem: wandb.Image(str(file))})
            else:
                artifact.add_file(str(file))
        self._run.log_artifact(artifact)

    def close(self, finished: bool) -> None:
        """End the run here; one that was stopped counts as such until it is resumed."""
        self._run.finish(exit_code=0 if finished else 130)


def start(folder: Path, config: Config, run: str | None, steps: int) -> WeightsAndBiases:
    """Begin a run, or go on with the one of that id; runs in one folder are a group."""
    found = wandb.init(
        project=os.environ.get("WANDB_PROJECT", "nesht"),
        name=title(folder),
        group=folder.parent.name,
        id=run,
        resume="allow",
        reinit="create_new",
        dir=str(folder),
        config=config.sections(),
        settings=wandb.Settings(console="off"),
    )
    return WeightsAndBiases(found)
