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


def make_noisy_vector(
    base: str,
    num_envs: int = 1,
    noise_ratio: float = 10.0,
    reward_keep: float = 0.1,
    max_episode_steps: int | None = None,
    **kwargs: Any,
) -> gymnasium.vector.VectorEnv[Any, Any, Any]:
    """Make many copies of it as one vector environment, on the fused kernel."""
    from nesht.engines.fused.vector import FusedVectorEnv

    return FusedVectorEnv(
        base,
        num_envs,
        noise_ratio=noise_ratio,
        reward_keep=reward_keep,
        max_episode_steps=max_episode_steps,
        **kwargs,
    )


def register() -> None:
    """Register `nesht/Noisy...` ids; called once when nesht is imported."""
    for base in NOISY:
        gymnasium.register(
            id=f"nesht/Noisy{base}",
            entry_point=make_noisy,
            vector_entry_point=make_noisy_vector,
            max_episode_steps=1000,
            kwargs={"base": base},
        )
