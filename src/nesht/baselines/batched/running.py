"""The running scale of observations and rewards of all runs, as `VecNormalize` of stable-baselines3 has it."""

from __future__ import annotations

import torch

EPSILON, CLIP = 1e-8, 10.0
COUNT = 1e-4
"""With how many observations a scale begins, of mean 0 and variance 1."""


class Moments:
    """Running means and variances, [runs, numbers], in double precision."""

    def __init__(self, runs: int, numbers: int, device: torch.device):
        self.count = torch.full((1,), COUNT, dtype=torch.float64, device=device)
        self.mean = torch.zeros((runs, numbers), dtype=torch.float64, device=device)
        self.var = torch.ones((runs, numbers), dtype=torch.float64, device=device)

    def add(self, rows: torch.Tensor) -> None:
        """Take in one row of every run."""
        total, off = self.count + 1, rows - self.mean
        self.mean += off / total
        self.var.copy_((self.var * self.count + off.square() * self.count / total) / total)
        self.count.copy_(total)

    @property
    def std(self) -> torch.Tensor:
        """The standard deviations."""
        return (self.var + EPSILON).sqrt()


class RunningScale:
    """Scales observations and rewards by what was seen of them.

    Args:
        runs: how many there are.
        seen: numbers in an observation.
        gamma: the discount of the returns whose spread scales rewards.
        device: where.
    """

    def __init__(self, runs: int, seen: int, gamma: float, device: torch.device):
        self.seen, self._returns, self._gamma = Moments(runs, seen, device), Moments(runs, 1, device), gamma
        self._return = torch.zeros((runs, 1), dtype=torch.float64, device=device)

    def scale(self, seen: torch.Tensor) -> torch.Tensor:
        """Return scaled observations [runs, rows, seen]."""
        scaled = (seen - self.seen.mean[:, None]) / self.seen.std[:, None]
        return scaled.clamp(-CLIP, CLIP).float()

    def reward(self, reward: torch.Tensor, ended: torch.Tensor) -> torch.Tensor:
        """Take in a reward of every run, [runs], and return it scaled."""
        self._return.mul_(self._gamma).add_(reward[:, None])
        self._returns.add(self._return)
        scaled = (reward[:, None] / self._returns.std).clamp(-CLIP, CLIP).float()[:, 0]
        self._return.masked_fill_(ended[:, None], 0)
        return scaled
