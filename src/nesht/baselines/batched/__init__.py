"""Many runs of an algorithm as one program: all networks in one set of tensors, on the CPU or a GPU.

Nothing here needs stable-baselines3; only `nesht.baselines.batched.run` and what is below it import torch.
"""

from __future__ import annotations

from importlib.util import find_spec

from nesht.baselines.run import BaselineConfig
from nesht.baselines.settings import SETTINGS
from nesht.tasks.locomotion import LOCOMOTION

OFF_POLICY = ("td3", "ddpg", "sac", "anf-sac")
ALGORITHMS = (*OFF_POLICY, "trpo", "a2c")


def why_not(config: BaselineConfig) -> str | None:
    """Return why a run cannot be trained so, or None if it can."""
    settings = config.settings
    off_policy = config.algorithm in OFF_POLICY
    strange = [name for name in settings if name not in SETTINGS[config.algorithm]]
    lacking = [name for name in SETTINGS[config.algorithm] if name not in settings]
    rules = [
        (config.algorithm in ALGORITHMS, f"{config.algorithm} is not one of {', '.join(ALGORITHMS)}"),
        (config.task.env in LOCOMOTION, f"the fused engine does not know {config.task.env}"),
        (not lacking, f"its settings lack {', '.join(lacking)}"),
        (not strange, f"it has no {', '.join(strange)}"),
        (find_spec("warp") is not None and find_spec("torch") is not None, "it needs nesht[fused,torch]"),
        (
            not off_policy
            or (settings.get("train_freq") == settings.get("gradient_steps") == 1 and not settings.get("normalise")),
            "train_freq and gradient_steps must be 1, and normalise False",
        ),
        (not off_policy or settings.get("learning_starts", 0) >= 1, "learning_starts must be at least 1"),
        (
            off_policy or (settings.get("sub_sampling_factor", 1) == 1 and settings.get("normalise")),
            "sub_sampling_factor must be 1, and normalise True",
        ),
    ]
    return next((sentence for fine, sentence in rules if not fine), None)
