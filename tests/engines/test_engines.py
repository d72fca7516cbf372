"""Engines agree with each other and with themselves, to the bit."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import replace

import numpy as np
import pytest

from nesht.config import RuntimeOptions
from nesht.engines import Episodes, Outcomes, make_engine
from nesht.policies.moments import Normaliser
from nesht.tasks.imperfect import RewardMask
from nesht.tasks.locomotion import LOCOMOTION


def assert_same(ours: Outcomes, theirs: Outcomes) -> None:
    for name in ("fitness", "score", "steps", "diverged"):
        assert np.array_equal(getattr(ours, name), getattr(theirs, name), equal_nan=True), name
    for name in ("count", "mean", "m2"):
        assert np.array_equal(getattr(ours.moments, name), getattr(theirs.moments, name)), name


def run(engine: str, setting: tuple, threads: int = 1, slots: int | None = None) -> Outcomes:
    task, policy, episodes = setting
    made = make_engine(task, policy, RuntimeOptions(engine, threads=threads, slots=slots))
    try:
        return made.run(episodes)
    finally:
        made.close()


@pytest.mark.parametrize(("threads", "slots"), [(1, 1), (2, None), (2, 8), (4, 256), (3, 7)])
def test_any_number_of_threads_and_slots_gives_the_same_bits(
    episodes: Callable, threads: int, slots: int | None
) -> None:
    setting = episodes("Hopper-v4", n=40)
    assert_same(run("batch", setting, threads, slots), run("batch", setting))


@pytest.mark.parametrize("env", LOCOMOTION)
@pytest.mark.parametrize("hidden", [(), (8,)])
def test_batch_and_gym_give_the_same_bits(episodes: Callable, env: str, hidden: tuple[int, ...]) -> None:
    task, policy, asked = episodes(env, n=6, limit=300, hidden=hidden)
    rng = np.random.default_rng(0)
    shape = (1, policy.inputs)
    asked = replace(asked, normaliser=Normaliser(rng.normal(size=shape), rng.uniform(0.5, 2, shape)))
    setting = (task, policy, asked)
    assert_same(run("batch", setting, threads=2), run("gym", setting))


def test_gym_in_several_processes_gives_the_same_bits(episodes: Callable) -> None:
    setting = episodes("Pendulum-v1", n=10, limit=40, mask=RewardMask(every=3))
    assert_same(run("gym", setting, threads=2), run("gym", setting))


def test_discrete_actions_work(episodes: Callable) -> None:
    outcomes = run("gym", episodes("CartPole-v1", n=8, sigma=1.0))
    assert (outcomes.steps > 5).all()
    assert np.array_equal(outcomes.score, outcomes.steps)  # CartPole pays 1 per step
    assert (outcomes.fitness < outcomes.score).all()  # and the mask hides most of it


def test_an_episode_depends_on_nothing_but_itself(episodes: Callable) -> None:
    task, policy, asked = episodes("Walker2d-v4", n=12, runs=2)
    whole = run("batch", (task, policy, asked), threads=2)
    some = np.array([20, 3, 11])
    part = Episodes(asked.population, None, asked.run[some], asked.member[some], asked.luck[some], asked.rollout[some])
    alone = run("batch", (task, policy, part))
    assert np.array_equal(alone.score, whole.score[some])
    assert np.array_equal(alone.moments.mean, whole.moments.mean[some])


def test_moments_are_those_of_the_features(episodes: Callable) -> None:
    task, policy, asked = episodes("Pendulum-v1", n=2, limit=30)
    outcomes = run("gym", (task, policy, asked))
    env = task.make()
    seen = [env.reset(seed=asked.seed(0))[0]]
    for _ in range(29):
        action = policy.act(asked.parameters(0)[None], np.asarray(seen[-1], np.float64)[None])[0]
        seen.append(env.step(action)[0])
    np.testing.assert_allclose(outcomes.moments.mean[0], np.mean(seen, axis=0), rtol=1e-9, atol=1e-12)
    np.testing.assert_allclose(outcomes.moments.m2[0], 30 * np.var(seen, axis=0), rtol=1e-9, atol=1e-12)


@pytest.mark.parametrize("engine", ["batch", "gym"])
def test_a_simulation_that_diverges_costs_only_its_own_episode(episodes: Callable, engine: str) -> None:
    task, policy, asked = episodes("HalfCheetah-v4", n=6, limit=20)
    healthy = run(engine, (task, policy, asked))
    theta = np.repeat(asked.population.theta, 2, axis=0)
    theta[1] = np.nan  # this run's controls are not numbers
    sigma, seed, generation = (np.repeat(x, 2) for x in (asked.population.sigma, [0], [3]))
    population = replace(asked.population, theta=theta, sigma=sigma, seed=seed, generation=generation)
    sick = replace(asked, population=population, run=np.where(np.arange(6) == 2, 1, 0))
    outcomes = run(engine, (task, policy, sick))
    assert outcomes.diverged.tolist() == [False, False, True, False, False, False]
    assert np.isnan(outcomes.fitness[2])
    assert np.isnan(outcomes.score[2])
    assert outcomes.moments.count[2] == 0
    others = [0, 1, 3, 4, 5]
    assert np.array_equal(outcomes.score[others], healthy.score[others])


def test_both_engines_call_the_same_episodes_diverged(episodes: Callable) -> None:
    setting = episodes("HalfCheetah-v4", n=8, limit=30, sigma=1e200)
    ours, theirs = run("batch", setting, threads=2), run("gym", setting)
    assert ours.diverged.any()
    assert_same(ours, theirs)


@pytest.mark.parametrize("engine", ["batch", "gym"])
def test_no_episodes_is_no_work(episodes: Callable, engine: str) -> None:
    task, policy, asked = episodes("Hopper-v4")
    none = np.arange(0)
    assert len(run(engine, (task, policy, Episodes(asked.population, None, none, none, none, none))).score) == 0


def test_ctrl_c_stops_the_threads(episodes: Callable) -> None:
    task, policy, asked = episodes("HalfCheetah-v4", n=64)

    class Interrupted(Exception):
        pass

    class Exploding(Episodes):
        def parameters(self, i: int) -> np.ndarray:
            if i == 40:
                raise Interrupted
            return super().parameters(i)

    bomb = Exploding(asked.population, None, asked.run, asked.member, asked.luck, asked.rollout)
    engine = make_engine(task, policy, RuntimeOptions("batch", threads=2, slots=8))
    with pytest.raises(Interrupted):
        engine.run(bomb)
    assert np.isfinite(engine.run(asked).score).all()  # and the engine can be used again
