"""What is measured: one environment with everything that all contestants share."""

from __future__ import annotations

import json
import warnings
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import gymnasium
import numpy as np

import nesht
from nesht.tasks.quiet import quiet_mujoco

NOISE_RATIO = 10
REWARD_KEEP = 0.1
MEMBERS = 256
SIGMA = 0.02
THREADS = 2


def make_env(name: str) -> Any:
    """Make the noisy environment for the peers; without the checker, which would cost them time."""
    with quiet_mujoco(), warnings.catch_warnings():
        warnings.simplefilter("ignore", DeprecationWarning)  # v4 is what the paper's numbers are about
        env = gymnasium.make(name, disable_env_checker=True)
    return nesht.MaskReward(nesht.NoiseFeatures(env, NOISE_RATIO), REWARD_KEEP)


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
    """How long a peer is measured, at least; it finishes the generation it is in."""
    peer_members: int
    """Members of a peer's generation. Where all episodes are equally long, fewer members give the same speed sooner."""

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

    def parameters(self) -> np.ndarray:
        """Return the parameters of the warm policy: weights (outputs, features), then biases; for normalised features.

        The peers start from it, so that their episodes are about as long as nesht's.
        """
        return self._policy().parameters

    def raw_parameters(self) -> np.ndarray:
        """Return the parameters of the same policy on raw features: its normaliser is folded into the weights."""
        policy = self._policy()
        bias = policy(np.zeros(policy.network.inputs))
        return np.concatenate([(policy(np.eye(policy.network.inputs)) - bias).T.ravel(), bias])

    def typical_features(self, count: int) -> np.ndarray:
        """Return (count, features) with the mean and the deviation that the warm run has seen."""
        moments = self._policy().moments
        rng = np.random.default_rng(0)
        return moments.mean + moments.std * rng.standard_normal((count, len(moments.mean)))

    def _policy(self) -> nesht.Policy:
        return nesht.load_policy(self.warm)


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
