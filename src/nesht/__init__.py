"""nesht: sparse policies by evolution strategies with hard thresholding.

The public names below are loaded when they are first used, so that `import nesht` is quick and a program that only
loads a policy never loads training code. Importing nesht also registers the noisy tasks with Gymnasium.
"""

from __future__ import annotations

import importlib
from typing import TYPE_CHECKING, Any

from nesht.errors import UserError
from nesht.tasks.registration import register as _register

__version__ = "0.1.0"

if TYPE_CHECKING:
    from nesht.config import Config
    from nesht.export import export_policy
    from nesht.policies.saved import Policy, load_policy
    from nesht.strategy import Strategy, maximize
    from nesht.tasks.wrappers import MaskReward, NoiseFeatures
    from nesht.training.api import resume, train, train_fleet, train_many
    from nesht.training.loop import RunResult
    from nesht.tuning.search import TuneResult, tune

_HOME = {
    "Config": "nesht.config",
    "MaskReward": "nesht.tasks.wrappers",
    "NoiseFeatures": "nesht.tasks.wrappers",
    "Policy": "nesht.policies.saved",
    "RunResult": "nesht.training.loop",
    "Strategy": "nesht.strategy",
    "TuneResult": "nesht.tuning.search",
    "export_policy": "nesht.export",
    "load_policy": "nesht.policies.saved",
    "maximize": "nesht.strategy",
    "resume": "nesht.training.api",
    "train": "nesht.training.api",
    "train_fleet": "nesht.training.api",
    "train_many": "nesht.training.api",
    "tune": "nesht.tuning.search",
}

_ROOMS = ("baselines", "theory")
"""Parts with public names of their own."""

__all__ = [
    "Config",
    "MaskReward",
    "NoiseFeatures",
    "Policy",
    "RunResult",
    "Strategy",
    "TuneResult",
    "UserError",
    "export_policy",
    "load_policy",
    "maximize",
    "resume",
    "train",
    "train_fleet",
    "train_many",
    "tune",
]


def __getattr__(name: str) -> Any:
    if name in _ROOMS:
        return importlib.import_module(f"nesht.{name}")
    if name not in _HOME:
        raise AttributeError(f"module 'nesht' has no attribute {name!r}")
    return getattr(importlib.import_module(_HOME[name]), name)


def __dir__() -> list[str]:
    return sorted(__all__)


_register()
