"""What all runs have lived through: transitions without their distractors, which can be made again."""

from __future__ import annotations

from dataclasses import dataclass

import torch

from nesht.baselines.batched.draws import Draws, Eyes


@dataclass(frozen=True)
class Batch:
    """Transitions, [runs, transitions, ...]."""

    seen: torch.Tensor
    action: torch.Tensor
    reward: torch.Tensor
    after: torch.Tensor
    """What was seen next; where the episode ended, its last observation."""
    over: torch.Tensor
    """1 where there is no future: the episode ended, and not because of its time limit."""


class Replay:
    """The last transitions of every run, on the device.

    An episode and the time in it name the distractors of a moment, so that a transition of a robot takes 116 to 176
    bytes however many distractors there are.

    Args:
        eyes: make observations.
        draws: choose batches; they also count the steps.
        actions: how many numbers an action has.
        size: how many transitions of a run are kept.
    """

    def __init__(self, eyes: Eyes, draws: Draws, actions: int, size: int):
        self._eyes, self._draws, self.size = eyes, draws, size
        device, self._runs = draws.seeds.device, len(draws.seeds)
        self.seen, self.after = (torch.zeros((self._runs, size, eyes.real), device=device) for _ in range(2))
        self.action = torch.zeros((self._runs, size, actions), device=device)
        self.reward, self.over = (torch.zeros((self._runs, size), device=device) for _ in range(2))
        self.episode, self.time = (torch.zeros((self._runs, size), dtype=torch.int32, device=device) for _ in range(2))
        self._first = torch.arange(self._runs, device=device)[:, None] * size

    def add(
        self,
        seen: torch.Tensor,
        action: torch.Tensor,
        reward: torch.Tensor,
        after: torch.Tensor,
        over: torch.Tensor,
        episode: torch.Tensor,
        time: torch.Tensor,
    ) -> None:
        """Write down the transition of every run, in place of the oldest; observations are the real features."""
        place = (self._draws.step % self.size).long()
        parts = (self.seen, self.action, self.reward, self.after, self.over, self.episode, self.time)
        for kept, new in zip(parts, (seen, action, reward, after, over, episode, time), strict=True):
            kept.index_copy_(1, place, new.to(kept.dtype)[:, None])

    def sample(self, count: int) -> Batch:
        """Return a batch of every run, drawn with replacement."""
        places = (self._draws.places(count, self.size) + self._first).reshape(-1)
        seen, after, action, reward, over, episode, time = (
            part.flatten(0, 1).index_select(0, places)
            for part in (self.seen, self.after, self.action, self.reward, self.over, self.episode, self.time)
        )
        seeds, shape = self._draws.seeds, (self._runs, count, -1)
        now = self._eyes.see(seeds, seen, episode, time)
        later = self._eyes.see(seeds, after, episode, time, later=1)
        reward, over = reward.view(shape[:2]), over.view(shape[:2])
        return Batch(now.view(shape), action.view(shape), reward, later.view(shape), over)
