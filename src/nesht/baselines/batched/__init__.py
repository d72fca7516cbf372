"""Many runs of an off-policy algorithm as one program: all networks in one set of tensors, on the CPU or a GPU.

Nothing here needs stable-baselines3; only `nesht.baselines.batched.run` and what is below it import torch.
"""

from __future__ import annotations

from importlib.util import find_spec

from nesht.baselines.run import BaselineConfig
from nesht.tasks.locomotion import LOCOMOTION

ALGORITHMS = ("td3", "ddpg", "sac", "anf-sac")


def why_not(config: BaselineConfig) -> str | None:
    """Return why a run cannot be trained so, or None if it can."""
    settings = config.settings
    rules = [
        (config.algorithm in ALGORITHMS, f"{config.algorithm} is not one of {', '.join(ALGORITHMS)}"),
        (config.task.env in LOCOMOTION, f"the fused engine does not know {config.task.env}"),
        (find_spec("warp") is not None and find_spec("torch") is not None, "it needs nesht[fused,torch]"),
        (
            settings.get("train_freq") == settings.get("gradient_steps") == 1 and not settings.get("normalise"),
            "train_freq and gradient_steps must be 1, and normalise False",
        ),
        (settings.get("learning_starts", 0) >= 1, "learning_starts must be at least 1"),
    ]
    return next((sentence for fine, sentence in rules if not fine), None)
