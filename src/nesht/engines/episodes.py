"""What passes between training and an engine: episodes asked for, outcomes given back."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Protocol

import numpy as np

from nesht import keys
from nesht.policies.moments import Moments, Normaliser
from nesht.strategy.perturb import Population, Source


@dataclass(frozen=True)
class Episodes:
    """A list of episodes, each named by its key; parameters are made from the population when an episode starts."""

    population: Population
    """The members (NumPy arrays)."""
    normaliser: Normaliser | None
    """One row per run of the population, or None if features go to the policy as they are."""
    run: np.ndarray
    """(episodes,): the row of the population an episode belongs to."""
    member: np.ndarray
    """(episodes,): the member it tries, or `keys.EVALUATION` for the run's policy itself."""
    luck: np.ndarray
    """(episodes,): the member number in the episode's key; members with the same number meet the same randomness."""
    rollout: np.ndarray
    """(episodes,): which of the member's rollouts it is."""

    def __len__(self) -> int:
        return len(self.run)

    def part(self, index: np.ndarray) -> Episodes:
        """Return some of the episodes, with only the rows of the population that they need."""
        runs, local = np.unique(self.run[index], return_inverse=True)
        normaliser = self.normaliser.rows(runs) if self.normaliser else None
        names = (self.member[index], self.luck[index], self.rollout[index])
        return Episodes(self.population.rows(runs), normaliser, local, *names)

    def seed(self, i: int) -> int:
        """Return the episode seed of episode i."""
        run = self.run[i]
        return keys.pack(self.population.seed[run], self.population.generation[run], self.luck[i], self.rollout[i])

    def parameters(self, i: int) -> np.ndarray:
        """Return the policy parameters of episode i, (d,)."""
        run, member = self.run[i], self.member[i]
        if member == keys.EVALUATION:
            return np.asarray(self.population.theta[run])
        return np.asarray(self.population.member(run, int(member)))


@dataclass(frozen=True)
class Outcomes:
    """What happened in each episode, in the order they were asked for."""

    fitness: np.ndarray
    """(episodes,): the sum of the rewards that the mask let through; NaN if the episode diverged."""
    score: np.ndarray
    """(episodes,): the sum of all rewards; NaN if the episode diverged."""
    steps: np.ndarray
    """(episodes,): environment steps taken."""
    diverged: np.ndarray
    """(episodes,): whether the simulation blew up."""
    moments: Moments
    """Of the features the policy saw, one row per `grain` episodes; an episode that diverged counts as no data.

    There may be fewer columns than features: what is missing at the end are distractors that were not drawn one by one.
    """
    grain: int = 1
    """A power of two: how many neighbours share a row of moments, of one run and all or none of them evaluations."""

    @classmethod
    def empty(cls, episodes: int, features: int) -> Outcomes:
        """Return room for the outcomes of a number of episodes."""
        return cls(
            np.full(episodes, np.nan),
            np.full(episodes, np.nan),
            np.zeros(episodes, np.int64),
            np.zeros(episodes, bool),
            Moments.none(episodes, features),
        )

    def put(self, index: np.ndarray, other: Outcomes) -> None:
        """Store the outcomes of some of the episodes."""
        for name in ("fitness", "score", "steps", "diverged"):
            getattr(self, name)[index] = getattr(other, name)
        for name in ("count", "mean", "m2"):
            getattr(self.moments, name)[index] = getattr(other.moments, name)

    def finish(
        self,
        index: np.ndarray | int,
        *,
        fitness: np.ndarray | float,
        score: np.ndarray | float,
        steps: np.ndarray | int,
        diverged: np.ndarray | bool,
        shift: np.ndarray,
        total: np.ndarray,
        squares: np.ndarray,
    ) -> None:
        """Store finished episodes; total and squares are sums over steps of (features - shift) and of its square.

        The shift is the episode's first observation: sums of differences keep their digits where features are large.
        """
        bad = np.asarray(diverged)
        good = ~bad[..., None]
        self.fitness[index] = np.where(bad, np.nan, fitness)
        self.score[index] = np.where(bad, np.nan, score)
        self.steps[index] = steps
        self.diverged[index] = bad
        count = np.asarray(steps, dtype=np.float64)
        offset = total / count[..., None]
        self.moments.count[index] = np.where(bad, 0, count)
        self.moments.mean[index] = np.where(good, shift + offset, 0)
        self.moments.m2[index] = np.where(good, squares - total * offset, 0)


class Engine(Protocol):
    """Runs episodes. The same episodes give the same outcomes, to the bit, however they are spread over workers."""

    source: Source | None = None
    """Where perturbations come from; None is `keys`."""

    def run(self, episodes: Episodes) -> Outcomes:
        """Run all episodes and return their outcomes."""
        ...

    def close(self) -> None:
        """Free what the engine holds."""
        ...
