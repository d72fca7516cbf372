"""Bounds that actions are kept between."""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np


@dataclass(frozen=True)
class Limits:
    """Keeps what a network puts out between bounds, one pair per output."""

    low: tuple[float, ...]
    high: tuple[float, ...]
    bend: bool
    """Whether outputs are bent between the bounds by tanh, or cut off at them."""

    def __call__(self, outputs: np.ndarray) -> np.ndarray:
        """Return outputs [rows, outputs] between the bounds."""
        low, high = (np.asarray(bound, outputs.dtype) for bound in (self.low, self.high))
        if not self.bend:
            return np.clip(outputs, low, high)
        return low + (high - low) * (0.5 * np.tanh(outputs) + 0.5)
