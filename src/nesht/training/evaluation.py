"""Evaluating a finished policy: the original reward, distractors on, nothing perturbed."""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np

from nesht import keys
from nesht.config import RuntimeOptions
from nesht.engines import Episodes, check_threads, make_engine
from nesht.errors import UserError
from nesht.policies.moments import Moments, Normaliser
from nesht.policies.saved import Policy
from nesht.strategy import Population
from nesht.tasks.task import task_of


@dataclass(frozen=True)
class Evaluation:
    """The scores of a policy's evaluation episodes."""

    scores: np.ndarray
    steps: np.ndarray
    diverged: int


def evaluate_policy(
    policy: Policy, episodes: int = 10, seed: int = 0, runtime: RuntimeOptions | None = None
) -> Evaluation:
    """Run a policy on the task it was trained on; the same seed gives the same episodes."""
    if episodes < 1:
        raise UserError(f"episodes must be at least 1, got {episodes}.")
    runtime, seed = runtime or RuntimeOptions(), keys.check_seed(seed)
    check_threads(runtime.threads)
    task = task_of(policy.task)
    if task.feature_names != policy.feature_names:
        raise UserError(f"{task.name} has other features now than when this policy was trained.")
    moments = Moments(*(array[None] for array in (policy.moments.count, policy.moments.mean, policy.moments.m2)))
    run = np.zeros(episodes, np.int64)
    member = np.full(episodes, keys.EVALUATION)
    population = Population(
        policy.parameters[None], np.zeros(1), np.array([seed]), np.array([keys.AFTER_TRAINING]), 0, False
    )
    normaliser = Normaliser.of(moments) if policy.normalise else None
    made = make_engine(task, policy.network, runtime)
    try:
        outcomes = made.run(Episodes(population, normaliser, run, member, member, np.arange(episodes)))
    finally:
        made.close()
    return Evaluation(outcomes.score, outcomes.steps, int(outcomes.diverged.sum()))
