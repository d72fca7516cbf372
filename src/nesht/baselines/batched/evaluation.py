"""Scores of all runs' best actions, on episodes of their own, all at a time; every reward counts."""

from __future__ import annotations

from collections.abc import Generator, Sequence
from typing import Protocol

import numpy as np
import torch

from nesht.baselines.batched.draws import Eyes, as_words
from nesht.baselines.batched.place import Place
from nesht.baselines.batched.training import make_env, scaler
from nesht.tasks.task import Task

LOOK = 20
"""Steps between two looks at whether episodes are still running: a look waits for the GPU."""


class Actors(Protocol):
    """What is evaluated: the policies of all runs."""

    runs: int

    def best(self, seen: torch.Tensor) -> torch.Tensor:
        """Return the best actions known, [runs, rows, actions] for observations [runs, rows, seen]."""
        ...


class Evaluation:
    """Episodes that nothing is learnt from.

    Args:
        task: what the runs learn.
        learner: their networks.
        eyes: make observations.
        episodes: per evaluation and run.
        place: where.
    """

    def __init__(self, task: Task, learner: Actors, eyes: Eyes, episodes: int, place: Place):
        self._learner, self._eyes, self._episodes, count = learner, eyes, episodes, learner.runs * episodes
        self._env, device = make_env(task, count, place, masked=False), place.device
        self._scale, self._limit = scaler(self._env, device), task.time_limit or 0
        self._seeds = torch.zeros(count, dtype=torch.int32, device=device)
        self._moment = torch.zeros((count, 2), dtype=torch.int32, device=device)
        self._real, self._total = torch.zeros((count, eyes.real), device=device), torch.zeros(count, device=device)
        self._running = torch.zeros(count, dtype=torch.bool, device=device)
        self._step = place.record(self._advance)

    def scores(self, seeds: Sequence[Sequence[int]]) -> Generator[None, None, np.ndarray]:
        """Return the mean score of every run over episodes with these seeds, [runs][episodes], in several goes."""
        flat = [int(seed) for row in seeds for seed in row]
        self._seeds.copy_(as_words(flat, self._seeds.device))
        self._real.copy_(torch.as_tensor(self._env.reset(seed=flat)[0]))
        for zeroed in (self._moment, self._total):
            zeroed.zero_()
        self._running.fill_(True)
        for step in range(self._limit):
            if step % LOOK == 0:
                yield
                if not bool(self._running.any()):
                    break
            self._step()
        return self._total.view(-1, self._episodes).double().mean(1).cpu().numpy()

    def _advance(self) -> None:
        seen = self._eyes.see(self._seeds, self._real, self._moment)
        action = self._learner.best(seen.view(self._learner.runs, self._episodes, -1)).flatten(0, 1)
        real, _, terminated, truncated, infos = self._env.step(self._scale(action))
        self._total += torch.as_tensor(infos["dense_reward"]).nan_to_num(0.0, 0.0, 0.0) * self._running
        self._running &= ~(torch.as_tensor(terminated) | torch.as_tensor(truncated))
        self._real.copy_(torch.as_tensor(real))
        self._moment[:, 1] += 1

    def close(self) -> None:
        """Free the environments."""
        self._env.close()
