"""The methods that are compared, and their settings in each preset."""

from __future__ import annotations

from typing import Any

from nesht.presets import PAPER, TUNED, tuned_for

METHODS: dict[str, dict[str, Any]] = {
    "NES": {"sparsifier": "none", "unit": "weight", "memory": 0.0},
    "NES-L1": {"sparsifier": "l1", "unit": "weight", "memory": 0.0, "penalty": 1.0},
    "NESHT": {"sparsifier": "hard", "unit": "weight", "memory": 0.0, "beta": 0.9},
    "ours": {"sparsifier": "hard", "unit": "feature", "memory": 0.95, "beta": 0.9},
}
"""What makes a method itself: vanilla NES, NES with an L1 penalty, the paper's rule, and whole features with memory."""


REINFORCEMENT = {"TRPO": "trpo", "DDPG": "ddpg", "TD3": "td3", "ANF-SAC": "anf-sac", "A2C": "a2c"}
"""The paper's other columns, and A2C, which it has for games alone; and their names in `nesht baseline`."""


def settings(preset: str, method: str, env: str) -> dict[str, Any]:
    """Return all settings of a method for an environment.

    `paper` is the authors' trainer for every method; `tuned` is what the search of `nesht experiment tuning` chose for
    this method and environment, one setting for all noise ratios.
    """
    if preset == "paper":
        return {**PAPER, **METHODS[method]}
    return {**TUNED, **METHODS[method], **tuned_for(env, method)}
