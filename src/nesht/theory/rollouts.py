"""Returns of a task and a policy for the measurements of `variance`, by any engine."""

from __future__ import annotations

from types import TracebackType

import numpy as np

from nesht import keys
from nesht.config import RuntimeOptions
from nesht.engines import Episodes, make_engine
from nesht.policies.moments import Normaliser
from nesht.policies.saved import Policy
from nesht.policies.shape import Shape
from nesht.strategy import Population
from nesht.strategy.shaping import worst_if_not_finite
from nesht.tasks.task import Task, task_of
from nesht.theory.variance import Spread, episode_spread


class TaskReturns:
    """The returns of a policy's members on a task, as training sees them: `with TaskReturns(task, policy) as returns`.

    Pass its `source` along to the measurements, so that they speak of the directions that the engine uses.
    """

    def __init__(
        self, task: Task, policy: Shape, runtime: RuntimeOptions | None = None, normaliser: Normaliser | None = None
    ):
        self._engine, self._normaliser = make_engine(task, policy, runtime or RuntimeOptions()), normaliser
        self.source = self._engine.source

    def __call__(self, population: Population, rollouts: int) -> np.ndarray:
        """Return what every episode came to, (runs, n, rollouts); one that diverged counts as the worst of its run."""
        runs = len(population.seed)
        shape = (runs, population.n, rollouts)
        run, member, rollout = (part.ravel() for part in np.indices(shape))
        policy = np.where(population.sigma[run] > 0, member, keys.EVALUATION)
        rows = None
        if self._normaliser is not None:
            rows = Normaliser(*(np.tile(part, (runs, 1)) for part in (self._normaliser.mean, self._normaliser.scale)))
        outcomes = self._engine.run(Episodes(population, rows, run, policy, member, rollout))
        return np.asarray(worst_if_not_finite(outcomes.fitness.reshape(runs, -1))).reshape(shape)

    def __enter__(self) -> TaskReturns:
        return self

    def __exit__(self, kind: type[BaseException] | None, error: BaseException | None, at: TracebackType | None) -> None:
        self._engine.close()


def policy_spread(
    policy: Policy,
    sigma: float = 0.0,
    members: int = 64,
    rollouts: int = 4,
    seed: int = 0,
    runtime: RuntimeOptions | None = None,
) -> Spread:
    """Return how returns scatter around a saved policy on its task, as training sees them: estimates of B and C."""
    task = task_of(policy.task)
    normaliser = Normaliser.of(policy.moments) if policy.normalise else None
    with TaskReturns(task, policy.network, runtime, normaliser) as returns:
        return episode_spread(returns, policy.parameters, sigma, members, rollouts, seed, returns.source)
