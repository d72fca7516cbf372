"""What the off-policy algorithms share: actors and critics of all runs, and targets that follow them."""

from __future__ import annotations

from abc import ABC, abstractmethod
from collections.abc import Sequence
from dataclasses import astuple, dataclass
from typing import Any

import torch

from nesht.baselines.batched.draws import Draws
from nesht.baselines.batched.networks import Improver, Networks, Trail
from nesht.baselines.batched.place import Place
from nesht.baselines.batched.replay import Batch


@dataclass(frozen=True)
class Shape:
    """How many numbers go into and out of the networks of a run."""

    seen: int
    actions: int


class Learner(ABC):
    """The networks of all runs, and how they learn.

    Critic c of run r is network c * runs + r of the critics. A loss is the sum of the runs' own, so that no run feels
    another. A pull is the derivative of a loss.

    Args:
        shape: of the observations and actions.
        settings: of the algorithm.
        seeds: of the runs; the numbers that networks begin with depend on them alone.
        place: where.
    """

    critics = 2
    """How many critics a run has."""
    outputs = 1
    """Numbers that an actor returns per number of an action."""
    critic_weight = 1.0
    """What the squared errors of critics are multiplied with."""
    policy_every = 1
    """Updates of the critics per update of the actor."""
    rewire_every = 0
    """Updates between two changes of what networks are connected to; 0 is never."""
    actor_improver: Improver

    def __init__(self, shape: Shape, settings: dict[str, Any], seeds: Sequence[int], place: Place):
        self.shape, self.runs, self.place = shape, len(seeds), place
        self.gamma, self.tau = settings["gamma"], settings["tau"]
        self.luck = [torch.Generator().manual_seed(seed) for seed in seeds]
        hidden, many = settings["net_arch"], self.luck * self.critics
        self.actor = Networks([shape.seen, *hidden, self.outputs * shape.actions], self.luck, place)
        self.critic = Networks([shape.seen + shape.actions, *hidden, 1], many, place)
        self.critic_target = self.critic.copied()
        self.critic_improver = Improver(self.critic, settings, self.critic_target)
        self._errors = torch.empty(0)

    @abstractmethod
    def explore(self, seen: torch.Tensor, draws: Draws) -> torch.Tensor:
        """Return actions in [-1, 1] to learn from, [runs, actions] for observations [runs, seen]."""

    @abstractmethod
    def best(self, seen: torch.Tensor) -> torch.Tensor:
        """Return the best actions known, [runs, rows, actions] for observations [runs, rows, seen]."""

    @abstractmethod
    def update(self, batch: Batch, draws: Draws, policy: bool) -> None:
        """Learn from a batch; the actor only where `policy` says so."""

    @abstractmethod
    def actor_losses(self) -> torch.Tensor | None:
        """Return the actors' losses in the last update that was not played from a graph, [runs], if they learnt."""

    def critic_losses(self) -> torch.Tensor:
        """Return the critics' losses in the last update that was not played from a graph, [runs]."""
        return self.critic_weight * self._errors.view(self.critics, self.runs, -1).square().mean(2).sum(0)

    def rewire(self, draws: Draws) -> None:  # noqa: B027
        """Change what the networks are connected to; those of most learners stay as they are."""

    def settle(self) -> None:
        """Take over numbers of the networks that were changed by others."""
        for each in vars(self).values():
            if isinstance(each, Networks):
                each.settle()

    def see(self, seen: torch.Tensor) -> torch.Tensor:
        """Return observations [runs, rows, seen] as they go into networks, with room for actions after them."""
        how = self.place.products
        out = seen.new_zeros((*seen.shape[:2], how.wide(sum(astuple(self.shape)))), dtype=how.dtype)
        out[..., : self.shape.seen].copy_(seen.clamp(-how.most, how.most))
        return out

    def do(self, seen: torch.Tensor, action: torch.Tensor) -> torch.Tensor:
        """Return what goes into critics: observations, followed by other actions than those that followed them."""
        seen[..., self.shape.seen :][..., : self.shape.actions].copy_(action)
        return seen

    def improve_critics(
        self, batch: Batch, future: torch.Tensor, weight: torch.Tensor, density: torch.Tensor, tau: float
    ) -> None:
        """Let the critics learn what a batch was worth, given what their targets say about the time after it.

        The entropy of what is done then counts with a weight [runs]; `density` [runs, rows] are the logarithms of the
        actions' densities.
        """
        trail = self.critic.forward(batch.now)
        said, rows = trail[-1], batch.reward.shape
        self._errors, pull = (torch.empty_like(said) for _ in range(2))
        scale = 2 * self.critic_weight / rows[1]
        given = (weight, density, batch.reward, batch.over, self.critics, self.gamma, scale)
        self.place.launch(self.place.kernels.judge, rows, said, future, *given, self._errors, pull)
        self.critic_improver.learn(trail, pull, tau)

    def pull_on_actions(self, trail: Trail, pull: torch.Tensor) -> torch.Tensor:
        """Return how a pull on what critics say pulls on actions, [networks, rows, actions]."""
        first = self.shape.seen
        return self.critic.pull_on_inputs(trail, pull, slice(first, first + self.shape.actions))
