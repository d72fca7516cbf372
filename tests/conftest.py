"""Small tasks and episodes that several test folders use."""

from __future__ import annotations

from collections.abc import Callable

import numpy as np
import pytest

from nesht.engines import Episodes
from nesht.policies.network import Network
from nesht.strategy import Population
from nesht.tasks.imperfect import Distractors, RewardMask
from nesht.tasks.task import Task


def make_episodes(
    env: str = "Hopper-v4",
    *,
    n: int = 16,
    runs: int = 1,
    sigma: float = 0.2,
    ratio: float = 2,
    limit: int | None = None,
    hidden: tuple[int, ...] = (),
    mask: RewardMask | None = None,
) -> tuple[Task, Network, Episodes]:
    """Return a task, a policy and the episodes of one generation of random members."""
    task = Task(env, Distractors(ratio), mask or RewardMask(keep=0.3), limit)
    policy = Network(len(task.feature_names), task.outputs, hidden, discrete=task.discrete)
    rng = np.random.default_rng(1)
    theta = 0.1 * rng.standard_normal((runs, policy.size))
    population = Population(theta, np.full(runs, sigma), np.arange(runs), np.full(runs, 3), n, mirrored=True)
    run, member = np.repeat(np.arange(runs), n), np.tile(np.arange(n), runs)
    return task, policy, Episodes(population, None, run, member, member, np.zeros_like(run))


@pytest.fixture
def episodes() -> Callable[..., tuple[Task, Network, Episodes]]:
    return make_episodes
