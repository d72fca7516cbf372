"""An environment of your own: a greenhouse with sixty sensors, of which three matter.

A heater and a misting valve must hold the greenhouse at its set point. Three sensors tell what is needed: how far the
temperature and the humidity are off, and how strong the sun is. The other 57 sit on neighbouring machines and say
nothing about the greenhouse. Training may wire up three sensors, and has to find out which.

    python examples/own_environment.py
"""

from __future__ import annotations

from typing import Any

import gymnasium
import numpy as np

import nesht

SENSORS = 60
USEFUL = {17: "temperature error", 31: "humidity error", 44: "sunshine"}
"""Where the useful sensors are among the sixty."""


class Greenhouse(gymnasium.Env[np.ndarray, np.ndarray]):
    """Every step costs the squared errors of temperature and humidity, and a little for the energy used."""

    observation_space = gymnasium.spaces.Box(-np.inf, np.inf, (SENSORS,), np.float64)
    action_space = gymnasium.spaces.Box(-2.0, 2.0, (2,), np.float64)
    feature_names = tuple(USEFUL.get(i, f"machine {i}") for i in range(SENSORS))
    """nesht prints these names instead of `feature 0`, `feature 1`, ..."""

    def reset(
        self, *, seed: int | None = None, options: dict[str, Any] | None = None
    ) -> tuple[np.ndarray, dict[str, Any]]:
        """Start with random errors; all randomness comes from `self.np_random`, which the seed determines."""
        super().reset(seed=seed)
        self.temperature, self.humidity, self.sunshine = self.np_random.normal(size=3)
        return self._sensors(), {}

    def step(self, action: np.ndarray) -> tuple[np.ndarray, float, bool, bool, dict[str, Any]]:
        """Heat or cool, mist or dry; nesht passes actions on as they are, so they are clipped here."""
        heat, mist = np.clip(action, -2.0, 2.0)
        self.temperature = 0.9 * self.temperature + heat + self.sunshine
        self.humidity = 0.9 * self.humidity + mist + 0.3 * self.np_random.normal()
        self.sunshine = 0.8 * self.sunshine + 0.3 * self.np_random.normal()
        cost = self.temperature**2 + self.humidity**2 + 0.1 * (heat**2 + mist**2)
        return self._sensors(), -float(cost), False, False, {}

    def _sensors(self) -> np.ndarray:
        readings = self.np_random.normal(size=SENSORS)
        readings[list(USEFUL)] = self.temperature, self.humidity, self.sunshine
        return readings


def make() -> gymnasium.Env[np.ndarray, np.ndarray]:
    """Make the environment: this function is what nesht is given."""
    return Greenhouse()


def main() -> None:
    """Train with at most three sensors, then say which ones were kept."""
    result = nesht.train(
        env=make,
        max_episode_steps=25,  # the greenhouse has no end of its own
        k=3,
        n=32,
        sigma=0.1,
        lr=0.015,
        generations=60,
        eval_every=4000,
        threads=1,  # 0 uses every core
        progress=False,
    )
    before, after = result.evaluations[0]["score"], result.evaluations[-1]["score"]
    print(f"score before training {before:.1f}, after {after:.1f} ({result.steps} steps)")
    used = [name for name, is_used in zip(result.policy.feature_names, result.policy.used, strict=True) if is_used]
    print("sensors kept: " + ", ".join(used))


if __name__ == "__main__":
    main()
