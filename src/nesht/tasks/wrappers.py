"""Distractor features and reward masking as Gymnasium wrappers, so that anyone's agent can train on the same tasks."""

from __future__ import annotations

from typing import Any

import gymnasium
import numpy as np
from gymnasium.spaces import Box

from nesht import keys
from nesht.tasks.imperfect import Distractors, RewardMask, noisy_names, plain_names


class NoiseFeatures(gymnasium.Wrapper[np.ndarray, Any, np.ndarray, Any], gymnasium.utils.RecordConstructorArgs):
    """Append `ratio` times as many N(0, 1) features as the environment has, fresh every step.

    Examples:
        >>> env = NoiseFeatures(gymnasium.make("Hopper-v4"), ratio=10)
        >>> env.observation_space.shape
        (121,)
    """

    def __init__(self, env: gymnasium.Env[np.ndarray, Any], ratio: float = 10.0):
        gymnasium.utils.RecordConstructorArgs.__init__(self, ratio=ratio)
        super().__init__(env)
        space = env.observation_space
        assert isinstance(space, Box), "NoiseFeatures needs a flat Box observation"
        assert len(space.shape) == 1, "NoiseFeatures needs a flat Box observation"
        self.n_noise = Distractors(ratio).count(space.shape[0])
        wide = np.full(self.n_noise, np.inf)
        self.observation_space = Box(
            np.concatenate([space.low, -wide]), np.concatenate([space.high, wide]), dtype=np.float64
        )
        real = env.get_wrapper_attr("feature_names") if env.has_wrapper_attr("feature_names") else None
        self.feature_names = noisy_names(list(real or plain_names(space.shape[0])), self.n_noise)
        self._stream: np.random.Generator | None = None

    def reset(
        self, *, seed: int | None = None, options: dict[str, Any] | None = None
    ) -> tuple[np.ndarray, dict[str, Any]]:
        """Reset the environment; a seed also restarts the noise."""
        observation, info = self.env.reset(seed=seed, options=options)
        if seed is not None or self._stream is None:
            self._stream = Distractors.stream(keys.entropy() if seed is None else seed)
        return self._noisy(observation), info

    def step(self, action: Any) -> tuple[np.ndarray, Any, bool, bool, dict[str, Any]]:
        """Step the environment and append fresh noise."""
        observation, reward, terminated, truncated, info = self.env.step(action)
        return self._noisy(observation), reward, terminated, truncated, info

    def _noisy(self, observation: np.ndarray) -> np.ndarray:
        assert self._stream is not None
        return np.concatenate([observation, self._stream.standard_normal(self.n_noise)])


class MaskReward(gymnasium.Wrapper[np.ndarray, Any, np.ndarray, Any], gymnasium.utils.RecordConstructorArgs):
    """Hide most rewards: each is kept with probability `keep`, or only every `every`-th is; the rest become 0.

    The true reward is in `info["dense_reward"]`, for evaluation.
    """

    def __init__(self, env: gymnasium.Env[np.ndarray, Any], keep: float = 0.1, every: int = 0):
        gymnasium.utils.RecordConstructorArgs.__init__(self, keep=keep, every=every)
        super().__init__(env)
        self.mask = RewardMask(keep, every)
        self._stream: np.random.Generator | None = None
        self._t = 0

    def reset(
        self, *, seed: int | None = None, options: dict[str, Any] | None = None
    ) -> tuple[np.ndarray, dict[str, Any]]:
        """Reset the environment; a seed also restarts the mask."""
        if seed is not None or self._stream is None:
            self._stream = RewardMask.stream(keys.entropy() if seed is None else seed)
        self._t = 0
        return self.env.reset(seed=seed, options=options)

    def step(self, action: Any) -> tuple[np.ndarray, float, bool, bool, dict[str, Any]]:
        """Step the environment and mask its reward."""
        assert self._stream is not None, "call reset first"
        observation, reward, terminated, truncated, info = self.env.step(action)
        kept = bool(self.mask.draw(self._stream, self._t, 1)[0])
        self._t += 1
        info = {**info, "dense_reward": float(reward)}
        return observation, float(reward) if kept else 0.0, terminated, truncated, info
