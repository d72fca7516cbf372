"""Settings that were found by hand, with which the search begins or that it takes up on its way; by name of robot.

Every method is given them, as far as they are settings of its own. They are in the terms of the search: see there.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

Draw = dict[str, Any]
"""One setting: what was drawn, by name."""

BY_EFFECT: Draw = {
    **{"n": 128, "sigma": 0.01, "rate": 0.003, "decay": 1.0, "normalise": False, "elite": 0.5, "fade": 0.0125},
    **{"k": "linear:100:8", "memory": 0.9, "explore": 1.0, "rank_by": "effect"},
}
"""Settings that are good for HalfCheetah, with a threshold by effect."""

MORE_INPUTS: Draw = {
    **{"n": 128, "sigma": 0.02, "rate": 0.00265, "decay": 0.3, "normalise": True, "elite": 0.25, "fade": 0.025},
    **{"common_randomness": "generation", "step_cost": 0.75, "k": "linear:40:12", "memory": 0.98},
    "explore": "linear:1:0.2",
}
"""Settings that are good for Walker2d."""

SLOW: Draw = {"rate": 0.002, "memory": 0.99}
"""Changes of them that find more of the inputs at x20."""
WIDER: Draw = {"explore": "linear:1:0.35"}
"""Another, with a wider search to the end."""
LATE: Draw = {"explore": "cosine:1:0.2"}
"""Another, where the search becomes narrow later and then faster."""

SLOWER: Draw = {
    **{"n": 128, "sigma": 0.02, "rate": 0.0037, "decay": 0.3, "normalise": True, "elite": "linear:1:0.125"},
    **{"step_cost": 1.0, "memory": 0.9, "explore": "linear:1:0.2", "fade": 0.009},
}
"""Settings that are good for Hopper."""

LATER: dict[int, dict[str, Sequence[Draw]]] = {
    1: {
        "HalfCheetah": [{"k": "linear:24:10"}],
        "Hopper": [{"step_cost": 0.75}],
        "Walker2d": [{"k": "linear:40:8", "fade": 0.0125}],
    },
    2: {
        "HalfCheetah": [
            {
                **{"n": 256, "sigma": 0.04, "rate": 0.0065, "decay": 1.0, "normalise": True, "elite": 0.5},
                **{"k": "linear:20:9", "memory": 0.98, "explore": 0.5, "fade": 0.004},
            }
        ],
        "Hopper": [
            {
                **{"n": 128, "sigma": 0.02, "rate": 0.002, "decay": 0.3, "normalise": True, "elite": "linear:1:0.125"},
                **{"step_cost": 0.75, "k": 20, "memory": 0.9, "explore": "linear:1:0.2", "fade": 0.009},
            }
        ],
        "Walker2d": [{"k": "linear:40:8", "fade": 0.025}],
    },
    4: {
        "HalfCheetah": [
            {**BY_EFFECT, **more}
            for more in ({}, {"elite": "linear:1:0.125"}, {"rate": 0.0045}, {"memory": 0.98}, {"k": "linear:60:8"})
        ],
        "Hopper": [{**SLOWER, "k": k} for k in (12, "linear:24:10", "linear:12:8", 20)],
        "Walker2d": [
            {**MORE_INPUTS, **more}
            for more in (
                *({}, SLOW, {**SLOW, "k": "linear:40:11"}, {**SLOW, **LATE}, {"k": "linear:30:12"}),
                *({**SLOW, **LATE, "k": "linear:40:11"}, {**SLOW, "k": "linear:40:10"}),
                *({**SLOW, **WIDER, "k": "linear:40:10"}, {**WIDER, "rate": 0.003}),
                *({"k": "linear:40:10", "memory": 0.99}, {"decay": 0.1}),
                *({**WIDER, "rate": 0.003, "decay": 0.1, "k": "linear:40:10"}, {**WIDER, "step_cost": 1.0}),
                *({**SLOW, "k": "linear:60:12"}, {"rate": 0.0037}, {**SLOW, "explore": "linear:1:0.28"}),
            )
        ],
    },
}
"""What was found by hand, with ours, after earlier searches (`results/leads-later.txt`), by finer round and robot."""

OWN_LATER = {"ours": ("rank_by", "focus")}
"""What only some methods have, and was not searched but found by hand."""

START: dict[str, Draw] = {
    "HalfCheetah": {"n": 256, "sigma": 0.04, "rate": 0.0065, "decay": 0.3, "normalise": True, "elite": 0.5},
    "Hopper": {
        "n": 128,
        "sigma": 0.04,
        "rate": 0.0065,
        "decay": 0.1,
        "normalise": True,
        "elite": 0.5,
        "step_cost": 1.0,
    },
    "Walker2d": {
        **{"n": 128, "sigma": 0.02, "rate": 0.003, "decay": 1.0, "normalise": False, "elite": "linear:1:0.125"},
        "step_cost": 0.0,
    },
}
"""A setting that is known to learn, by robot."""

START_OWN: dict[str, Draw] = {
    "NES-L1": {"penalty": 0.3},
    "ours": {"k": "linear:6:36", "memory": 0.95, "explore": 0.5},
}
"""The rest of it, by method."""
