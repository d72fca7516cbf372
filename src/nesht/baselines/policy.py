"""What a reinforcement learner has learnt, as a policy like any other: to be scored, inspected and exported."""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from pathlib import Path
from typing import TYPE_CHECKING, Any

import numpy as np
from gymnasium.spaces import Box, Space

from nesht.config import plain_task
from nesht.policies.limits import Limits
from nesht.policies.moments import Moments
from nesht.policies.network import Network
from nesht.policies.saved import FILE, Policy
from nesht.tasks.task import Task

if TYPE_CHECKING:
    from nesht.baselines.run import BaselineConfig

DETERMINISTIC, SOFT, ON_POLICY = (
    ("actor.mu",),
    ("actor.latent_pi", "actor.mu"),
    ("mlp_extractor.policy_net", "action_net"),
)
LAYERS = {
    **dict.fromkeys(("td3", "ddpg"), DETERMINISTIC),
    **dict.fromkeys(("sac", "anf-sac"), SOFT),
    **dict.fromkeys(("trpo", "ppo", "a2c"), ON_POLICY),
}
"""Where the layers from observations to actions are among those of stable-baselines3."""
RECTIFIED = (DETERMINISTIC, SOFT)
"""These have rectified units and bend actions into their bounds; the others bend units and cut actions off."""
ROWS = 65_536
"""Observations that are counted at a time."""


def write_policy(
    config: BaselineConfig,
    task: Task,
    actions: Space[Any],
    numbers: Mapping[str, np.ndarray],
    seen: Moments,
    out: Path,
) -> None:
    """Write the policy of a trained run into its folder; no environment is made for that, so that none can fail.

    Args:
        config: of the run.
        task: what it learnt, known from training.
        actions: those of its environment.
        numbers: of its networks, under the names of stable-baselines3.
        seen: the moments of the observations in training.
        out: its folder.
    """
    layers = list(_layers(config.algorithm, numbers))
    rectified, hidden = LAYERS[config.algorithm] in RECTIFIED, tuple(len(bias) for _, bias in layers[:-1])
    limits = _limits(actions, rectified) if isinstance(actions, Box) else None
    network = Network(len(task.feature_names), task.outputs, hidden, True, task.discrete, rectified, limits)
    parameters = np.concatenate([part.ravel() for layer in layers for part in layer]).astype(np.float64)
    about = {**plain_task(config.task), "n_real": task.n_real}
    Policy(network, parameters, seen, config.settings["normalise"], task.feature_names, about).save(out / FILE)


def _layers(algorithm: str, numbers: Mapping[str, np.ndarray]) -> Iterator[tuple[np.ndarray, np.ndarray]]:
    """Yield (weights, biases) of every layer, in order."""
    for place in LAYERS[algorithm]:
        names = [name.removesuffix(".weight") for name in numbers if name.startswith(place) and name.endswith("weight")]
        for name in names:  # between them are what bends them, without numbers
            yield numbers[f"{name}.weight"], numbers[f"{name}.bias"]


def _limits(actions: Box, bend: bool) -> Limits:
    low, high = (tuple(side.astype(float).tolist()) for side in (actions.low, actions.high))
    return Limits(low, high, bend)


def moments_of(rows: np.ndarray) -> Moments:
    """Return the moments of observations [rows, features]."""
    parts = []
    for start in range(0, len(rows), ROWS):
        part = rows[start : start + ROWS].astype(np.float64)
        mean = part.mean(axis=0)
        parts.append(Moments(np.array([float(len(part))]), mean[None], np.square(part - mean).sum(axis=0)[None]))
    return Moments.joined(parts).total()
