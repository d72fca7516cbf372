"""The running scale of observations and rewards of all runs, as `VecNormalize` of stable-baselines3 has it."""

from __future__ import annotations

import torch

from nesht.baselines.batched.place import Place

COUNT = 1e-4
"""With how many observations a scale begins, of mean 0 and variance 1."""


class Moments:
    """Running means and variances, [runs, numbers], in double precision."""

    def __init__(self, runs: int, numbers: int, place: Place):
        kind = {"dtype": torch.float64, "device": place.device}
        self._place, self.count = place, torch.full((1,), COUNT, **kind)
        self.mean, self.var = torch.zeros((runs, numbers), **kind), torch.ones((runs, numbers), **kind)

    def add(self, rows: torch.Tensor) -> None:
        """Take in one row of every run."""
        self._place.launch(self._place.kernels.take_in, rows.shape, rows, self.count, self.mean, self.var)
        self.count += 1


class RunningScale:
    """Scales observations and rewards by what was seen of them.

    Args:
        runs: how many there are.
        seen: numbers in an observation.
        gamma: the discount of the returns whose spread scales rewards.
        place: where.
    """

    def __init__(self, runs: int, seen: int, gamma: float, place: Place):
        self.seen, self._returns, self._gamma = Moments(runs, seen, place), Moments(runs, 1, place), gamma
        self._place, self._return = place, torch.zeros(runs, device=place.device)

    def scale(self, seen: torch.Tensor) -> torch.Tensor:
        """Return scaled observations [runs, rows, seen]."""
        out = torch.empty_like(seen)
        given = (seen, self.seen.mean, self.seen.var)
        self._place.launch(self._place.kernels.scale_seen, seen.shape, *given, out)
        return out

    def reward(self, reward: torch.Tensor, ended: torch.Tensor) -> torch.Tensor:
        """Take in a reward of every run, [runs], and return it scaled."""
        out, moments = torch.empty_like(reward), self._returns
        given = (reward, ended, self._gamma, moments.count, moments.mean, moments.var, self._return)
        self._place.launch(self._place.kernels.take_reward, len(reward), *given, out)
        moments.count += 1
        return out
