"""What all runs have lived through: transitions without their distractors, which can be made again."""

from __future__ import annotations

from dataclasses import dataclass

import torch

from nesht.baselines.batched.draws import Draws, Eyes
from nesht.baselines.batched.place import Place


@dataclass(frozen=True)
class Batch:
    """Transitions, [runs, transitions, ...]."""

    seen: torch.Tensor
    """What goes into networks, [2, ...]: see `now` and `next`."""
    reward: torch.Tensor
    over: torch.Tensor
    """1 where there is no future: the episode ended, and not because of its time limit."""

    @property
    def now(self) -> torch.Tensor:
        """What was seen, then what was done."""
        return self.seen[0]

    @property
    def next(self) -> torch.Tensor:
        """What was seen next, where the episode ended its last observation; then room for what is done then."""
        return self.seen[1]


class Replay:
    """The last transitions of every run, on the device.

    An episode and the time in it name the distractors of a moment, so that a transition of a robot takes 116 to 176
    bytes however many distractors there are.

    Args:
        eyes: make observations.
        draws: choose batches; they also count the steps.
        actions: how many numbers an action has.
        size: how many transitions of a run are kept.
        place: where.
    """

    def __init__(self, eyes: Eyes, draws: Draws, actions: int, size: int, place: Place):
        self._place = place
        self._eyes, self._draws, self.size, self._runs = eyes, draws, size, len(draws.seeds)
        self._actions = actions
        device = draws.seeds.device
        self.numbers = torch.zeros((self._runs, size, 2 * eyes.real + actions + 2), device=device)
        """What was seen, seen next, done and earned, and whether it was over."""
        self.moments = torch.zeros((self._runs, size, 2), dtype=torch.int32, device=device)
        """The episode, and the time in it."""

    def add(
        self,
        seen: torch.Tensor,
        after: torch.Tensor,
        action: torch.Tensor,
        reward: torch.Tensor,
        over: torch.Tensor,
        moment: torch.Tensor,
    ) -> None:
        """Write down the transition of every run, in place of the oldest; observations are the real features."""
        given = (self._draws.step, seen, after, action, reward, over, moment)
        size = (self._runs, self.numbers.shape[2])
        self._place.launch(self._place.kernels.remember, size, *given, self.numbers, self.moments)

    def sample(self, count: int) -> Batch:
        """Return a batch of every run, drawn with replacement."""
        places, runs = self._draws.places(count, self.size), self._runs
        how, eyes = self._place.products, self._eyes
        wide = how.wide(eyes.all + self._actions)
        seen = self.numbers.new_empty((2, runs, count, wide), dtype=how.dtype)
        rest = self.numbers.new_empty((2, runs, count))
        given = (self._draws.seeds, places, self.numbers, self.moments, eyes.real, eyes.all, self._actions, how.most)
        self._place.launch(self._place.kernels.recall, (2, runs, count, max(eyes.blocks, 1)), *given, seen, rest)
        return Batch(seen, *rest)
