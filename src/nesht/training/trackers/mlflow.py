"""MLflow: a server or a local database, whichever MLFLOW_TRACKING_URI names (MLflow's own default without it).

The experiment is MLFLOW_EXPERIMENT_NAME, or nesht. Records that a resumed run makes again have the values they had
before, so that nothing has to be taken back.
"""

from __future__ import annotations

import os
import time
from collections.abc import Mapping, Sequence
from pathlib import Path

from mlflow import MlflowClient
from mlflow.entities import Metric, Param

from nesht.config import Config
from nesht.training.trackers import title

SECONDS, MOST = 5.0, 500
"""Metrics are sent together: after this time, or when there are this many (a server takes 1000)."""

PATIENCE = {"MLFLOW_HTTP_REQUEST_MAX_RETRIES": "1", "MLFLOW_HTTP_REQUEST_TIMEOUT": "10"}
"""How long a server may take, unless the user says otherwise; by default MLflow tries for minutes."""


class MLflow:
    """A run of MLflow, by its id alone: nothing here is the program's active run."""

    name = "mlflow"

    def __init__(self, client: MlflowClient, run: str):
        self.id = run
        self._client, self._waiting, self._sent = client, list[Metric](), time.monotonic()

    def log(self, values: Mapping[str, float], steps: int) -> None:
        """Add values; they are sent in batches."""
        now = int(time.time() * 1000)
        self._waiting += [Metric(name, float(value), now, steps) for name, value in values.items()]
        if len(self._waiting) >= MOST or time.monotonic() - self._sent >= SECONDS:
            self._send()

    def keep(self, files: Sequence[Path]) -> None:
        """Keep all files as artifacts, pictures in a folder of their own."""
        for file in files:
            self._client.log_artifact(self.id, str(file), "figures" if file.suffix == ".png" else None)

    def close(self, finished: bool) -> None:
        """Send what is left and set the state of the run."""
        self._send()
        self._client.set_terminated(self.id, "FINISHED" if finished else "KILLED")

    def _send(self) -> None:
        waiting, self._waiting, self._sent = self._waiting, [], time.monotonic()
        self._client.log_batch(self.id, metrics=waiting)


def start(folder: Path, config: Config, run: str | None, steps: int) -> MLflow:
    """Begin a run, or go on with the one of that id."""
    for name, value in PATIENCE.items():
        os.environ.setdefault(name, value)
    client = MlflowClient()
    if run is not None:
        client.update_run(run, "RUNNING")
        return MLflow(client, run)
    name = os.environ.get("MLFLOW_EXPERIMENT_NAME", "nesht")
    found = client.get_experiment_by_name(name)
    experiment = found.experiment_id if found else client.create_experiment(name)
    new = client.create_run(experiment, run_name=title(folder))
    options = {f"{s}.{o}": str(value) for s, values in config.sections().items() for o, value in values.items()}
    client.log_batch(new.info.run_id, params=[Param(name, value) for name, value in options.items()])
    return MLflow(client, new.info.run_id)
