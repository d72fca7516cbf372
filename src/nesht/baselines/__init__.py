"""Rivals by other hands: reinforcement learning on the same tasks, with stable-baselines3 (the extra `baselines`)."""

from __future__ import annotations

from typing import Any

__all__ = ["ANFSAC"]


def __getattr__(name: str) -> Any:
    if name == "ANFSAC":  # stable-baselines3 is imported only where it is used
        from nesht.baselines.anf import ANFSAC

        return ANFSAC
    raise AttributeError(f"module {__name__!r} has no attribute {name!r}")
