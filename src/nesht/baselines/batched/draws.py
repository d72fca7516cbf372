"""The random numbers of all runs: every run has its own, whatever runs are beside it."""

from __future__ import annotations

import math
from collections.abc import Sequence
from enum import IntEnum

import numpy as np
import torch

from nesht.baselines.batched.place import Place


class Purpose(IntEnum):
    """What numbers are drawn for; those of other purposes are others."""

    WARM_UP = 0
    EXPLORATION = 1
    ACTION_NOISE = 2
    BATCH = 3
    ACTION_NOW = 4
    ACTION_NEXT = 5
    GROWTH = 6
    """Of the actor's connections; the critics' follow."""
    CONJUGATE = 16
    """Where conjugate gradients begin."""
    ORDER = 17
    """In which order steps are learnt from."""


class Draws:
    """Numbers that depend on a run's seed, on how many steps were taken, and on the purpose: nothing else.

    Args:
        place: where.
        seeds: of the runs.
    """

    def __init__(self, place: Place, seeds: Sequence[int]):
        self._place, self.seeds = place, as_words(seeds, place.device)
        self.step = torch.zeros(1, dtype=torch.int32, device=place.device)
        """How many steps were taken; on the device, so that a graph that is played again sees it."""

    def normal(self, purpose: int, *shape: int) -> torch.Tensor:
        """Return standard normal numbers [runs, *shape]."""
        return self._fill(self._place.kernels.normals, purpose, shape)

    def uniform(self, purpose: int, *shape: int) -> torch.Tensor:
        """Return numbers [runs, *shape] in (0, 1)."""
        return self._fill(self._place.kernels.uniforms, purpose, shape)

    def places(self, count: int, most: int) -> torch.Tensor:
        """Return the places [runs, count] of a batch among the steps taken, of which the last `most` are kept."""
        out = torch.empty((len(self.seeds), count), dtype=torch.int64, device=self._place.device)
        rows = len(self.seeds) * math.ceil(count / 4)
        self._place.launch(self._place.kernels.places, rows, self.seeds, self.step, int(Purpose.BATCH), most, out)
        return out

    def _fill(self, kernel: object, purpose: int, shape: tuple[int, ...]) -> torch.Tensor:
        count = math.prod(shape)
        out = torch.empty((len(self.seeds), count), device=self._place.device)
        self._place.launch(kernel, len(out) * math.ceil(count / 4), self.seeds, self.step, int(purpose), out)
        return out.reshape(len(out), *shape)


class Eyes:
    """What environments show: real features, then the distractors of the moment, made from their keys.

    They are what `FusedVectorEnv` shows with the same seeds. As they can be made again they are never stored.

    Args:
        place: where.
        real: how many real features there are.
        distractors: how many distractors there are.
    """

    def __init__(self, place: Place, real: int, distractors: int):
        self._place, self.real, self.all = place, real, real + distractors
        self.blocks = math.ceil(distractors / 4)
        """Distractors are drawn four at a time."""

    def see(self, seeds: torch.Tensor, real: torch.Tensor, moment: torch.Tensor, later: int = 0) -> torch.Tensor:
        """Return observations [rows, all] from real features [rows, real], seen `later` than a moment.

        A moment is an episode and the time in it, [rows, 2]. As many rows follow each other for every seed.
        """
        rows = len(real)
        if not self.blocks:
            return real
        out = torch.empty((rows, self.all), device=self._place.device)
        given = (seeds, rows // len(seeds), moment, later, real)
        self._place.launch(self._place.kernels.observe, rows * self.blocks, *given, out)
        return out


def as_words(seeds: Sequence[int], device: torch.device) -> torch.Tensor:
    """Return seeds as a tensor with their 32 bits, which torch takes for signed numbers."""
    return torch.from_numpy(np.array(seeds, np.uint32).view(np.int32)).to(device)
