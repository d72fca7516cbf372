"""What is measured: one environment with everything that all contestants share."""

from __future__ import annotations

import json
from dataclasses import dataclass
from pathlib import Path

import numpy as np

NOISE_RATIO = 10
REWARD_KEEP = 0.1
MEMBERS = 256
SIGMA = 0.02
THREADS = 2


@dataclass(frozen=True)
class Case:
    """One environment, the run that is measured on it, and for how long."""

    env: str
    folder: Path
    """Where this case keeps its files."""
    warm_up: int
    """Generations trained before anything is measured, so that episodes are those of a policy that does something."""
    generations: int
    """Generations in one measurement of nesht and of the bare physics."""
    seconds: float
    """About how long one measurement of a peer takes."""

    @property
    def warm(self) -> Path:
        """The run folder as it is after the warm-up."""
        return self.folder / "warm"

    @property
    def tapes(self) -> list[Path]:
        """The recorded episodes, one file per measured generation."""
        return [self.folder / f"tape-{i}.npz" for i in range(self.generations)]

    def steps(self) -> int:
        """Return the training steps of the warm-up."""
        last = (self.warm / "metrics.jsonl").read_text().splitlines()[-1]
        return int(json.loads(last)["steps"])

    def plain_policy(self) -> tuple[np.ndarray, np.ndarray]:
        """Return (weight, bias) of the warm policy on raw features: its normaliser is folded into the weights.

        The peers start from it, so that their episodes are about as long as nesht's.
        """
        from nesht import load_policy

        policy = load_policy(self.warm / "policy.safetensors")
        features = policy.network.inputs
        bias = policy(np.zeros(features))
        weight = np.stack([policy(row) - bias for row in np.eye(features)], axis=1)
        return weight, bias


@dataclass(frozen=True)
class Measurement:
    """Environment steps, and how long they took."""

    steps: int
    seconds: float
    cpu_seconds: float | None = None
    """Processor time of all threads, where all the work is done in one process."""
    note: str = ""

    @property
    def rate(self) -> float:
        """Steps per second."""
        return self.steps / self.seconds
