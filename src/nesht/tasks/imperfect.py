"""What makes the tasks hard: distractor features and missing rewards, as rules shared by engines and wrappers.

Both are drawn from streams of the episode seed, one number after the other, so that an engine that draws a block of
steps ahead and a wrapper that draws step by step see the same numbers.
"""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np

from nesht import keys
from nesht.errors import UserError

MOST = 100_000
"""Distractors per real feature, at most."""


@dataclass(frozen=True)
class Distractors:
    """Features of pure N(0, 1) noise, fresh every step, appended after the real ones."""

    ratio: float = 0.0
    """How many per real feature: 10 turns 11 features into 121."""

    def __post_init__(self) -> None:
        if not 0 <= self.ratio <= MOST:
            raise UserError(f"noise_ratio must be 0 or more, {MOST:,} at most; got {self.ratio}.")

    def count(self, real: int) -> int:
        """How many distractors an environment with `real` features gets."""
        return round(self.ratio * real)

    @staticmethod
    def stream(episode_seed: int) -> np.random.Generator:
        """Return the stream that an episode's distractors come from."""
        return keys.generator(episode_seed, keys.Stream.NOISE)


def plain_names(count: int) -> list[str]:
    """Name the features of an environment that does not name them itself."""
    return [f"feature {i}" for i in range(count)]


def noisy_names(real: list[str], distractors: int) -> list[str]:
    """Return the names of all features: the real ones, then the distractors."""
    return real + [f"noise {i}" for i in range(distractors)]


@dataclass(frozen=True)
class RewardMask:
    """Which steps' rewards the learner gets to see; the others count as 0."""

    keep: float = 1.0
    """Keep each step's reward with this probability, independently."""
    every: int = 0
    """Keep only the reward of every n-th step instead (0: off)."""

    def __post_init__(self) -> None:
        if not 0 < self.keep <= 1:
            raise UserError(f"reward_keep is a probability in (0, 1], got {self.keep}.")
        if self.every < 0:
            raise UserError(f"reward_every must be 0 (off) or more, got {self.every}.")

    @property
    def keeps_all(self) -> bool:
        """Whether nothing is masked."""
        return self.keep >= 1.0 and self.every <= 1

    @property
    def share(self) -> float:
        """The expected share of steps whose reward is kept."""
        return 1 / self.every if self.every > 1 else self.keep

    @staticmethod
    def stream(episode_seed: int) -> np.random.Generator:
        """Return the stream that an episode's mask comes from."""
        return keys.generator(episode_seed, keys.Stream.MASK)

    def draw(self, stream: np.random.Generator, start: int, steps: int) -> np.ndarray:
        """Return whether the rewards of steps start..start+steps of an episode are kept."""
        if self.every > 1:
            return (np.arange(start, start + steps) + 1) % self.every == 0
        if self.keep >= 1.0:
            return np.ones(steps, dtype=bool)
        return stream.random(steps) < self.keep
