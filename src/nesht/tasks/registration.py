"""Registered Gymnasium ids of the noisy tasks: `gymnasium.make("nesht/NoisyHopper-v4", noise_ratio=20)`."""

from __future__ import annotations

from typing import Any

import gymnasium

NOISY = ("Hopper-v4", "Hopper-v5", "Walker2d-v4", "Walker2d-v5", "HalfCheetah-v4", "HalfCheetah-v5")


def make_noisy(
    base: str, noise_ratio: float = 10.0, reward_keep: float = 0.1, reward_every: int = 0, **kwargs: Any
) -> gymnasium.Env[Any, Any]:
    """Make a Gymnasium environment with distractor features and masked rewards around it."""
    from nesht.tasks.wrappers import MaskReward, NoiseFeatures

    # The outer id carries the time limit; the inner one must not end the episode first.
    env = gymnasium.make(base, max_episode_steps=-1, **kwargs)
    return MaskReward(NoiseFeatures(env, noise_ratio), reward_keep, reward_every)


def register() -> None:
    """Register `nesht/Noisy...` ids; called once when nesht is imported."""
    for base in NOISY:
        gymnasium.register(
            id=f"nesht/Noisy{base}",
            entry_point=make_noisy,
            max_episode_steps=1000,
            kwargs={"base": base},
        )
