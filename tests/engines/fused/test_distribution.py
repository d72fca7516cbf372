"""Episodes of the fused engine have the same distribution as those of C MuJoCo, though other random numbers.

Two samples are compared by the largest difference of their distribution functions (Kolmogorov and Smirnov). Seeds are
fixed; were they not, each comparison would fail once in 10 000 times where the distributions are the same.
"""

from __future__ import annotations

import math

import numpy as np
import pytest

from nesht import keys
from nesht.config import RuntimeOptions
from nesht.engines import Episodes, Outcomes, make_engine
from nesht.policies.moments import Normaliser
from nesht.policies.network import Network
from nesht.strategy import Population
from nesht.tasks.imperfect import Distractors, RewardMask
from nesht.tasks.task import Task

POLICIES = 10
FALSE_ALARM = 1e-4
ENVS = ("Hopper-v4", "Walker2d-v4", "HalfCheetah-v4")


def assert_same_law(ours: np.ndarray, theirs: np.ndarray) -> None:
    n, m = len(ours), len(theirs)
    at = np.concatenate([ours, theirs])
    below = [np.searchsorted(np.sort(sample), at, side="right") / len(sample) for sample in (ours, theirs)]
    critical = math.sqrt(-math.log(FALSE_ALARM / 2) / 2) * math.sqrt((n + m) / (n * m))
    assert np.abs(below[0] - below[1]).max() < critical


def sample(
    env: str,
    engine: str,
    *,
    hidden: tuple[int, ...] = (),
    noise: str = "auto",
    noise_weight: float = 0.05,
    seed: int = 0,
    read: int | None = None,
    limit: int = 150,
    count: int = 80,
) -> tuple[Task, Outcomes]:
    """Run episodes of random policies, always the same ones; the seed is that of the episodes' luck.

    Policies read all distractors, or the first few. Features go through a normaliser that shifts and scales every one
    of them, distractors included.
    """
    task = Task(env, Distractors(2), RewardMask(keep=0.3), limit)
    policy = Network(len(task.feature_names), task.outputs, hidden)
    rng = np.random.default_rng(0)
    theta = 0.05 * rng.standard_normal((POLICIES, policy.size))
    noise_weights = policy.blocks[0].of(theta)[:, :, task.n_real :]
    noise_weights *= noise_weight / 0.05
    noise_weights[:, :, read:] *= 0 if read else 1
    shape = (POLICIES, policy.inputs)
    normaliser = Normaliser(rng.normal(size=shape), rng.uniform(0.3, 2, shape))
    seeds = np.full(POLICIES, seed)
    population = Population(theta, np.zeros(POLICIES), seeds, np.arange(POLICIES), 2, mirrored=True)
    row, luck = np.repeat(np.arange(POLICIES), count), np.tile(np.arange(count), POLICIES)
    episodes = Episodes(population, normaliser, row, np.full_like(row, keys.EVALUATION), luck, np.zeros_like(row))
    made = make_engine(task, policy, RuntimeOptions(engine, "cpu" if engine == "fused" else "auto", noise=noise))
    try:
        return task, made.run(episodes)
    finally:
        made.close()


@pytest.mark.parametrize(("env", "hidden"), [*((env, ()) for env in ENVS), ("Hopper-v4", (8,))])
def test_scores_fitness_and_lengths_have_the_law_of_c_mujoco(env: str, hidden: tuple[int, ...]) -> None:
    _, ours = sample(env, "fused", hidden=hidden)
    _, theirs = sample(env, "batch", hidden=hidden)
    assert not ours.diverged.any()
    for name in ("score", "fitness", "steps"):
        assert_same_law(getattr(ours, name), getattr(theirs, name))
    for name in ("mean", "m2"):
        features = zip(getattr(ours.moments, name).T, getattr(theirs.moments, name).T, strict=False)
        for our_feature, their_feature in features:
            assert_same_law(our_feature, their_feature)


def test_distractors_drawn_one_by_one_have_the_effect_of_their_marginal_law() -> None:
    task, marginal = sample("Hopper-v4", "fused", noise="marginal", noise_weight=1.0)
    _, drawn = sample("Hopper-v4", "fused", noise="drawn", noise_weight=1.0, seed=1)
    for name in ("score", "fitness", "steps"):
        assert_same_law(getattr(marginal, name), getattr(drawn, name))
    assert marginal.moments.mean.shape[1] == task.n_real
    assert drawn.moments.mean.shape[1] == 3 * task.n_real


@pytest.mark.parametrize("read", [1, 2, 22])  # one or two distractors cannot move three motors independently
def test_the_first_action_has_the_same_law_however_noise_is_made(read: int) -> None:
    # After one step under noise that shouts, the score is little else than the squared length of the action. Many
    # episodes that short cost nothing: the comparison sees noise that is a fifth too loud.
    one_step = {"noise_weight": 10.0, "limit": 1, "count": 2000, "read": read}
    _, marginal = sample("Hopper-v4", "fused", noise="marginal", **one_step)
    _, drawn = sample("Hopper-v4", "fused", noise="drawn", seed=1, **one_step)
    assert_same_law(marginal.score, drawn.score)
    _, louder = sample("Hopper-v4", "fused", noise="drawn", seed=1, **{**one_step, "noise_weight": 12.0})
    with pytest.raises(AssertionError):
        assert_same_law(marginal.score, louder.score)


def test_without_distractors_both_ways_compute_the_same_actions() -> None:
    quiet = {"noise_weight": 0.0, "limit": 5, "count": 10}
    _, marginal = sample("Hopper-v4", "fused", noise="marginal", **quiet)
    _, drawn = sample("Hopper-v4", "fused", noise="drawn", **quiet)
    assert len(np.unique(marginal.score)) == 100
    np.testing.assert_allclose(marginal.score, drawn.score, rtol=1e-4)  # single precision, summed in another order


@pytest.mark.parametrize("hidden", [(), (8,)])
def test_moments_of_drawn_distractors_are_those_of_standard_normals(hidden: tuple[int, ...]) -> None:
    task, outcomes = sample("Hopper-v4", "fused", noise="drawn", hidden=hidden)
    total = outcomes.moments.total()
    steps = outcomes.steps.sum()
    assert total.count == steps
    mean, variance = total.mean[task.n_real :], total.m2[task.n_real :] / steps
    assert len(mean) == 2 * task.n_real
    assert np.abs(mean).max() < 5 / math.sqrt(steps)  # five standard errors
    assert np.abs(variance - 1).max() < 5 * math.sqrt(2 / steps)
    assert len(np.unique(mean)) == len(mean)  # every distractor has numbers of its own
