"""The greenhouse of own_environment.py run by an exported policy, with NumPy alone.

nesht export runs/greenhouse --format npz
echo "0.8 -0.2 0.1" | python examples/greenhouse_controller.py runs/greenhouse/policy.npz
"""

from __future__ import annotations

import sys
from collections.abc import Mapping
from pathlib import Path

import numpy as np


class Controller:
    """Turns the readings of a few sensors into an action."""

    def __init__(self, file: str | Path):
        data = np.load(file)
        self.sensors = data["names"].tolist()
        """The sensors to read, in order."""
        self._layers = [(data[f"weight{i}"], data[f"bias{i}"]) for i in range(int(data["layers"]))]

    def __call__(self, readings: Mapping[str, float]) -> np.ndarray:
        """Return the action for the readings of (at least) the sensors that it needs."""
        x = np.array([readings[name] for name in self.sensors])
        for number, (weight, bias) in enumerate(self._layers):
            x = weight @ (np.tanh(x) if number else x) + bias
        return x


def main() -> None:
    """Print an action for every line of readings on standard input."""
    controller = Controller(sys.argv[1])
    for line in sys.stdin:
        readings = dict(zip(controller.sensors, map(float, line.split()), strict=True))
        print(*(f"{value:.4f}" for value in controller(readings)))


if __name__ == "__main__":
    main()
