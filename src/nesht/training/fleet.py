"""The training state of a fleet of runs, and one generation of it. A run is a fleet of one."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass, fields, is_dataclass, replace
from typing import Any, TypeVar

import numpy as np

from nesht import keys
from nesht.config import RECENT
from nesht.engines import Engine, Episodes, Outcomes
from nesht.policies.convolution import ConvNet
from nesht.policies.moments import Moments, Normaliser
from nesht.policies.network import Network
from nesht.policies.saved import Policy
from nesht.strategy import Population, State, Told
from nesht.tasks.atari import reference_screens
from nesht.training.setup import Setup

T = TypeVar("T")


@dataclass(frozen=True)
class Fleet:
    """Everything that training remembers; every array has one row per run."""

    state: State
    moments: Moments
    steps: np.ndarray
    episodes: np.ndarray
    diverged: np.ndarray
    seconds: np.ndarray
    evaluated: np.ndarray
    """The steps at the last evaluation; -1 before the first."""
    recent: np.ndarray
    """(runs, RECENT): the last evaluations, newest last, NaN where there were not as many."""

    def __len__(self) -> int:
        return len(self.steps)

    @classmethod
    def new(cls, setup: Setup, seeds: Sequence[int]) -> Fleet:
        """Return runs that have not started."""
        runs, policy = len(seeds), setup.policy
        theta = np.stack([policy.initial(seed) for seed in seeds])
        count = np.zeros(runs, np.int64)
        return cls(
            setup.strategy.init(theta, np.array(seeds, np.int64)),
            Moments.none(runs, policy.inputs),
            count,
            count,
            count,
            np.zeros(runs),
            count - 1,
            np.full((runs, RECENT), np.nan),
        )

    def select(self, rows: np.ndarray | Sequence[int]) -> Fleet:
        """Return some of the runs."""
        index = np.asarray(rows, np.int64)
        return _map(lambda array: array[index], self)

    @staticmethod
    def join(fleets: Sequence[Fleet]) -> Fleet:
        """Return several fleets as one."""
        return _map(lambda *arrays: np.concatenate(arrays), *fleets)

    def arrays(self) -> dict[str, np.ndarray]:
        """Return all arrays by name, for a checkpoint."""
        return dict(_named(self))

    @classmethod
    def of(cls, arrays: dict[str, np.ndarray], like: Fleet) -> Fleet:
        """Return the fleet that has these arrays, shaped like another one."""
        if set(arrays) != set(like.arrays()):
            raise ValueError("these are not the arrays of a run")
        return _rebuild(like, arrays, "")

    @property
    def score(self) -> np.ndarray:
        """The mean of each run's last evaluations, NaN before the first."""
        known = ~np.isnan(self.recent)
        total = np.where(known, self.recent, 0).sum(axis=1)
        return np.divide(total, known.sum(axis=1), out=np.full(len(self), np.nan), where=known.any(axis=1))

    def policy(self, setup: Setup) -> Policy:
        """Return the policy that training would end with now; of a fleet of one."""
        final = setup.strategy.finish(self.state, progress(self, setup), _spread(self.moments, setup))
        moments = Moments(self.moments.count[0], self.moments.mean[0], self.moments.m2[0])
        task = {**setup.config.sections()["task"], "n_real": setup.task.n_real}
        shape, parameters = setup.policy, final.theta[0]
        if isinstance(shape, ConvNet) and shape.batch_norm:
            assert setup.task.game is not None
            parameters = shape.normalised(parameters, reference_screens(setup.task.game))
            shape = replace(shape, batch_norm=False)
        return Policy(shape, parameters, moments, _normalises(setup, 0), setup.task.feature_names, task)


def progress(fleet: Fleet, setup: Setup) -> np.ndarray:
    """Return how far each run is, in [0, 1]: by its budget in steps, or else in generations (never by the clock)."""
    if setup.budget.steps is not None:
        return np.minimum(fleet.steps / setup.budget.steps, 1.0)
    if setup.budget.generations is not None:
        return np.minimum(fleet.state.generation / setup.budget.generations, 1.0)
    return np.zeros(len(fleet))


def paused(fleet: Fleet, setup: Setup) -> np.ndarray:
    """Return which runs have come to where they should stop for now."""
    pause = setup.budget.pause
    return fleet.steps >= pause if pause is not None else np.zeros(len(fleet), bool)


def done(fleet: Fleet, setup: Setup) -> np.ndarray:
    """Return which runs have used up their budget."""
    budget, over = setup.budget, np.zeros(len(fleet), bool)
    for used, limit in (
        (fleet.steps, budget.steps),
        (fleet.state.generation, budget.generations),
        (fleet.seconds, budget.seconds),
    ):
        if limit is not None:
            over |= used >= limit
    return over


@dataclass(frozen=True)
class Generation:
    """What one generation did, for the record; every array has one row per run."""

    told: Told
    fitness: np.ndarray
    """(runs, n)."""
    score: np.ndarray
    """(runs,): the evaluation of the policy at the start of the generation, NaN where none was due."""


def advance(fleet: Fleet, setup: Setup, engine: Engine) -> tuple[Fleet, Generation]:
    """Run one generation of every run: ask, run episodes, tell."""
    strategy, spent = setup.strategy, progress(fleet, setup)
    population = _ask(fleet.state, fleet, setup, engine, spent)
    due = (fleet.evaluated < 0) | (fleet.steps - fleet.evaluated >= setup.eval_every)
    trained, evaluated = _training_episodes(setup, population), _evaluation_episodes(setup, due)
    outcomes = engine.run(_together(fleet, setup, population, trained, evaluated))
    n_trained = len(trained[0])

    shape = (len(fleet), strategy.n, setup.config.strategy.rollouts)
    cost = np.array([setup.of(run).step_cost.at(spent[run]) for run in range(len(fleet))])[:, None, None]
    steps = outcomes.steps[:n_trained].reshape(shape)
    fitness = _finite_mean(outcomes.fitness[:n_trained].reshape(shape) - cost * setup.task.mask.share * steps)
    moments = _merged(fleet.moments, outcomes, shape)
    state, told = strategy.tell(fleet.state, population, fitness, spent, _spread(moments, setup))
    score = _scores(outcomes, n_trained, evaluated[0], len(fleet))
    after = replace(
        fleet,
        state=state,
        moments=moments,
        steps=fleet.steps + steps.sum(axis=(1, 2)),
        episodes=fleet.episodes + strategy.n * shape[2],
        diverged=fleet.diverged + outcomes.diverged[:n_trained].reshape(len(fleet), -1).sum(axis=1),
        evaluated=np.where(due, fleet.steps, fleet.evaluated),
        recent=_remember(fleet.recent, score),
    )
    return after, Generation(told, fitness, score)


def evaluate(fleet: Fleet, setup: Setup, engine: Engine) -> tuple[Fleet, State, np.ndarray]:
    """Evaluate the policy that every run ends with, unless that was done before.

    Returns the fleet that remembers the scores, what was evaluated, and the scores, NaN where there was nothing to do.
    """
    spent = progress(fleet, setup)
    final = setup.strategy.finish(fleet.state, spent, _spread(fleet.moments, setup))
    population = _ask(final, fleet, setup, engine, spent)
    episodes = _evaluation_episodes(setup, fleet.evaluated != fleet.steps)
    outcomes = engine.run(_together(fleet, setup, population, episodes))
    score = _scores(outcomes, 0, episodes[0], len(fleet))
    other = np.any(final.theta != fleet.state.theta, axis=1)  # evaluations before this one were of another policy
    recent = np.where((other & ~np.isnan(score))[:, None], np.nan, fleet.recent)
    return replace(fleet, evaluated=fleet.steps, recent=_remember(recent, score)), final, score


def _ask(state: State, fleet: Fleet, setup: Setup, engine: Engine, spent: np.ndarray) -> Population:
    """Return the members to evaluate, with the engine's directions."""
    return replace(setup.strategy.ask(state, spent, _spread(fleet.moments, setup)), source=engine.source)


_Names = tuple[np.ndarray, np.ndarray, np.ndarray, np.ndarray]
"""(run, member, luck, rollout) of a list of episodes."""


def _training_episodes(setup: Setup, population: Population) -> _Names:
    run, member, rollout = (
        part.ravel()
        for part in np.meshgrid(
            np.arange(len(population.seed)),
            np.arange(population.n),
            np.arange(setup.config.strategy.rollouts),
            indexing="ij",
        )
    )
    shares = {"none": 1, "pair": 2, "generation": population.n}
    runs = range(len(population.seed))
    sharing = np.array([shares[setup.of(each).config.strategy.common_randomness] for each in runs])
    return run, member, member // sharing[run], rollout


def _evaluation_episodes(setup: Setup, due: np.ndarray) -> _Names:
    episodes = setup.config.training.eval_episodes
    run = np.repeat(np.flatnonzero(due), episodes)
    member = np.full(len(run), keys.EVALUATION)
    return run, member, member, np.tile(np.arange(episodes), int(due.sum()))


def _together(fleet: Fleet, setup: Setup, population: Population, *parts: _Names) -> Episodes:
    which = _normalising(setup, len(fleet))
    normaliser = Normaliser.of(fleet.moments).only(which) if which.any() else None
    run, member, luck, rollout = (np.concatenate(columns) for columns in zip(*parts, strict=True))
    return Episodes(population, normaliser, run, member, luck, rollout)


def _normalising(setup: Setup, runs: int) -> np.ndarray:
    """Return which runs normalise their features."""
    return np.array([_normalises(setup, run) for run in range(runs)])


def _normalises(setup: Setup, run: int) -> bool:
    return setup.of(run).config.policy.normalise


def _spread(moments: Moments, setup: Setup) -> np.ndarray | None:
    """Return how much what each parameter reads varies, (runs, d), if that is to count; all the same if normalised."""
    if setup.config.strategy.rank_by == "weight":
        return None
    assert isinstance(setup.policy, Network)
    which = _normalising(setup, len(moments.count))
    return setup.policy.spread(np.where(which[:, None], 1.0, moments.std))


def _finite_mean(fitness: np.ndarray) -> np.ndarray:
    """Return the mean over rollouts; one that diverged costs itself, and the member only if none is left."""
    fine = np.isfinite(fitness)
    total = np.where(fine, fitness, 0).sum(axis=2)
    return np.divide(total, fine.sum(axis=2), out=np.full(total.shape, np.nan), where=fine.any(axis=2))


def _scores(outcomes: Outcomes, start: int, run: np.ndarray, runs: int) -> np.ndarray:
    """Return the mean score of each run's evaluation episodes, NaN without any."""
    return np.array([mean_score(outcomes.score[start:][run == each]) for each in range(runs)])


def mean_score(score: np.ndarray) -> float:
    """Return the mean over evaluation episodes; one that diverged counts as the worst of the others."""
    fine = np.isfinite(score)
    return float(np.where(fine, score, score[fine].min()).mean()) if fine.any() else np.nan


def _merged(moments: Moments, outcomes: Outcomes, shape: tuple[int, int, int]) -> Moments:
    runs, per_run = shape[0], -(-shape[1] * shape[2] // outcomes.grain)
    seen = _map(lambda rows: rows[: runs * per_run].reshape(runs, per_run, *rows.shape[1:]), outcomes.moments).total()
    return moments.merge(seen.with_standard_normals(moments.mean.shape[1] - seen.mean.shape[1]))


def _remember(recent: np.ndarray, score: np.ndarray) -> np.ndarray:
    newer = np.concatenate([recent[:, 1:], score[:, None]], axis=1)
    return np.where(np.isnan(score)[:, None], recent, newer)


def _map(function: Callable[..., Any], first: T, *others: T) -> T:
    """Apply a function to the corresponding arrays of nested dataclasses."""
    values = {}
    for field in fields(first):  # type: ignore[arg-type]
        parts = [getattr(each, field.name) for each in (first, *others)]
        values[field.name] = _map(function, *parts) if is_dataclass(parts[0]) else function(*parts)
    return type(first)(**values)


def _named(tree: Any, prefix: str = "") -> list[tuple[str, np.ndarray]]:
    named: list[tuple[str, np.ndarray]] = []
    for field in fields(tree):
        value, name = getattr(tree, field.name), prefix + field.name
        named += _named(value, f"{name}.") if is_dataclass(value) else [(name, value)]
    return named


def _rebuild(like: T, arrays: dict[str, np.ndarray], prefix: str) -> T:
    values = {}
    for field in fields(like):  # type: ignore[arg-type]
        value, name = getattr(like, field.name), prefix + field.name
        values[field.name] = _rebuild(value, arrays, f"{name}.") if is_dataclass(value) else arrays[name]
    return type(like)(**values)
