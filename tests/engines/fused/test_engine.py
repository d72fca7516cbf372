"""The fused engine: the same bits in any company, the right members and masks, and divergence that is counted."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import replace
from typing import Any

import numpy as np
import pytest

from nesht import keys
from nesht.config import RuntimeOptions
from nesht.engines import Episodes, Outcomes, make_engine
from nesht.policies.moments import Normaliser
from nesht.strategy import Population
from nesht.tasks.imperfect import RewardMask


def run(setting: tuple, threads: int = 1, **options: Any) -> Outcomes:
    task, policy, episodes = setting
    engine = make_engine(task, policy, RuntimeOptions("fused", "cpu", threads=threads, **options))
    try:
        return engine.run(episodes)
    finally:
        engine.close()


def chosen(asked: Episodes, which: np.ndarray) -> Episodes:
    """Return some of the episodes, in another order."""
    return replace(asked, **{name: getattr(asked, name)[which] for name in ("run", "member", "luck", "rollout")})


def assert_same(ours: Outcomes, theirs: Outcomes, which: np.ndarray | slice = slice(None)) -> None:
    """All of ours are those of theirs, to the bit."""
    for name in ("fitness", "score", "steps", "diverged"):
        assert np.array_equal(getattr(ours, name), getattr(theirs, name)[which], equal_nan=True), name
    for name in ("count", "mean", "m2"):
        assert np.array_equal(getattr(ours.moments, name), getattr(theirs.moments, name)[which]), name


@pytest.mark.parametrize("hidden", [(), (8,)])
def test_an_episode_is_the_same_alone_or_among_others_in_any_order_on_any_threads(
    episodes: Callable, hidden: tuple[int, ...]
) -> None:
    task, policy, asked = episodes("Hopper-v4", n=24, runs=2, hidden=hidden, limit=200)
    shape = (2, policy.inputs)
    rng = np.random.default_rng(0)
    asked = replace(asked, normaliser=Normaliser(rng.normal(size=shape), rng.uniform(0.5, 2, shape)))
    whole = run((task, policy, asked))
    assert len(np.unique(whole.score)) == 48  # no two of them are the same episode
    for threads in (2, 3):
        assert_same(run((task, policy, asked), threads), whole)
    for which in (rng.permutation(48), np.array([47, 3, 11]), np.array([20]), np.array([5, 5])):
        assert_same(run((task, policy, chosen(asked, which)), threads=2), whole, which)


def test_an_episode_depends_on_all_of_its_key(episodes: Callable) -> None:
    task, policy, asked = episodes("Hopper-v4", n=4, sigma=0.0, limit=30)
    zeros = np.zeros(4, np.int64)
    luck = replace(asked, member=zeros, luck=np.array([0, 0, 1, 0]), rollout=np.array([0, 0, 0, 1]))
    first, again, other_luck, other_rollout = run((task, policy, luck)).score
    assert first == again
    later = replace(luck, population=replace(asked.population, generation=np.array([4])))
    seeded = replace(luck, population=replace(asked.population, seed=np.array([1])))
    others = [run((task, policy, other)).score[0] for other in (later, seeded)]
    assert len({first, other_luck, other_rollout, *others}) == 5


@pytest.mark.parametrize("mirrored", [True, False])
def test_the_members_that_run_are_those_that_the_strategy_sees(episodes: Callable, mirrored: bool) -> None:
    task, policy, asked = episodes("Hopper-v4", n=6, sigma=0.3, limit=10, mask=RewardMask())
    engine = make_engine(task, policy, RuntimeOptions("fused", "cpu", threads=1))
    population = replace(asked.population, mirrored=mirrored, source=engine)
    ran = engine.run(replace(asked, population=population))
    # The same parameters, each as the policy of a run of its own; the key of the episodes stays.
    theta = population.members()[0]
    runs = Population(theta, np.zeros(6), np.zeros(6, int), np.full(6, 3), 6, mirrored)
    own = Episodes(runs, None, np.arange(6), np.full(6, keys.EVALUATION), asked.luck, asked.rollout)
    expected = engine.run(own)
    engine.close()
    assert np.ptp(expected.score) > 0.1
    np.testing.assert_allclose(ran.score, expected.score, rtol=1e-4)  # sums of single precision, in another order


def test_an_evaluation_runs_the_policy_itself(episodes: Callable) -> None:
    task, policy, asked = episodes("Walker2d-v4", n=8, sigma=0.5, limit=100)
    still = replace(asked, population=replace(asked.population, sigma=np.zeros(1)))
    evaluation = replace(asked, member=np.full(8, keys.EVALUATION))
    assert_same(run((task, policy, evaluation)), run((task, policy, still)))


@pytest.mark.parametrize("hidden", [(), (8,)])
def test_a_simulation_that_diverges_costs_only_its_own_episode(episodes: Callable, hidden: tuple[int, ...]) -> None:
    task, policy, asked = episodes("Hopper-v4", n=6, limit=20, hidden=hidden)
    healthy = run((task, policy, asked))
    theta = np.repeat(asked.population.theta, 2, axis=0)
    theta[1] = np.nan
    twice = {name: np.repeat(getattr(asked.population, name), 2) for name in ("sigma", "seed", "generation")}
    sick = replace(asked, population=replace(asked.population, theta=theta, **twice), run=np.array([0, 0, 1, 0, 0, 0]))
    outcomes = run((task, policy, sick), threads=2)
    assert outcomes.diverged.tolist() == [False, False, True, False, False, False]
    assert outcomes.steps[2] == 1
    assert np.isnan(outcomes.fitness[2])
    assert np.isnan(outcomes.score[2])
    assert outcomes.moments.count[2] == 0
    assert not outcomes.moments.mean[2].any()
    others = np.array([0, 1, 3, 4, 5])
    assert_same(run((task, policy, chosen(sick, others))), healthy, others)
    assert np.array_equal(outcomes.score[others], healthy.score[others])


def standing(episodes: Callable, limit: int, mask: RewardMask, n: int = 4) -> tuple:
    """Hoppers that do nothing: every step earns about 1, and none falls in the first steps."""
    task, policy, asked = episodes("Hopper-v4", n=n, sigma=0.0, ratio=0, limit=limit, mask=mask)
    return task, policy, replace(asked, population=replace(asked.population, theta=np.zeros((1, policy.size))))


def test_every_third_reward_is_the_third_the_sixth_and_so_on(episodes: Callable) -> None:
    totals = [run(standing(episodes, limit, RewardMask())).score for limit in range(1, 9)]
    rewards = np.diff(totals, axis=0, prepend=0)
    masked = run(standing(episodes, 8, RewardMask(every=3)))
    np.testing.assert_allclose(masked.fitness, rewards[2] + rewards[5], rtol=1e-5)
    assert np.array_equal(masked.score, totals[-1])


def test_a_mask_that_keeps_three_tenths_lets_three_tenths_through(episodes: Callable) -> None:
    outcomes = run(standing(episodes, 40, RewardMask(keep=0.3), n=1000))
    kept = outcomes.fitness / outcomes.score
    assert (outcomes.steps == 40).all()
    error = (0.3 * 0.7 / 40) ** 0.5  # of the share in one episode, rewards being alike
    assert abs(kept.mean() - 0.3) < 4 * error / len(kept) ** 0.5
    assert 0.8 < kept.std() / error < 1.25  # each episode has a mask of its own, step by step


def test_an_unmasked_fitness_is_the_score(episodes: Callable) -> None:
    outcomes = run(episodes("HalfCheetah-v4", n=8, limit=50, mask=RewardMask()))
    assert np.array_equal(outcomes.fitness, outcomes.score)
    assert (outcomes.steps == 50).all()


def test_no_episodes_is_no_work(episodes: Callable) -> None:
    task, policy, asked = episodes("Hopper-v4")
    assert len(run((task, policy, chosen(asked, np.arange(0)))).score) == 0
