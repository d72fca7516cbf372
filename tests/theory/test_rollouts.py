"""Measurements on a task and a policy: the directions are the engine's, and noise without weights is no luck."""

from __future__ import annotations

from dataclasses import replace
from pathlib import Path

import numpy as np
import pytest

import nesht
from nesht.config import RuntimeOptions, TaskOptions
from nesht.policies.moments import Normaliser
from nesht.policies.network import Network
from nesht.strategy import Population
from nesht.strategy.gradient import nes_gradient
from nesht.tasks.task import make_task
from nesht.theory import episode_spread, gradients
from nesht.theory.rollouts import TaskReturns, policy_spread


def returns_on(ratio: float, engine: str = "batch", steps: int = 20) -> TaskReturns:
    task = make_task(TaskOptions("Hopper-v4", ratio, max_episode_steps=steps))
    runtime = RuntimeOptions(engine=engine, device="auto" if engine == "batch" else "cpu", threads=1)  # type: ignore[arg-type]
    return TaskReturns(task, Network(len(task.feature_names), task.outputs), runtime)


def policy(ratio: int, on_noise: float) -> np.ndarray:
    rng = np.random.default_rng(0)
    real, extra = 0.1 * rng.standard_normal((3, 11)), on_noise * rng.standard_normal((3, 11 * ratio))
    return np.concatenate([np.concatenate([real, extra], axis=1).ravel(), np.zeros(3)])


def test_inputs_without_weights_bring_no_luck_and_inputs_with_weights_do() -> None:
    found = {}
    for name, ratio, on_noise in (("clean", 0, 0.0), ("sparse", 8, 0.0), ("dense", 8, 0.3)):
        with returns_on(ratio) as returns:
            found[name] = episode_spread(returns, policy(ratio, on_noise), members=8, rollouts=4)
    assert found["sparse"].variance.value == pytest.approx(found["clean"].variance.value, rel=1e-6)
    assert found["sparse"].mean == pytest.approx(found["clean"].mean, rel=1e-9)
    assert found["dense"].variance.low > 10 * found["sparse"].variance.high


def test_perturbations_bring_the_luck_back_to_a_sparse_policy() -> None:
    with returns_on(8) as returns:
        theta = policy(8, 0.0)
        at, around, narrow = (
            episode_spread(returns, theta, sigma, 24, 4, explore=explore)
            for sigma, explore in ((0.0, 1.0), (0.1, 1.0), (0.1, 0.05))
        )
    assert around.variance.low > 3 * at.variance.high
    assert narrow.variance.high < around.variance.low
    assert around.signal > 0


@pytest.mark.parametrize("engine", ["batch", "fused"])
def test_the_gradient_is_made_of_the_directions_that_the_engine_tried(engine: str) -> None:
    if engine == "fused":
        pytest.importorskip("warp")
    with returns_on(2, engine) as returns:
        theta = policy(2, 0.1)
        estimates = gradients(returns, theta, 0.1, 4, 2, repeats=2, seed=7, source=returns.source)
        runs = np.tile(theta, (2, 1)), np.full(2, 0.1), np.array([7, 8]), np.zeros(2, int)
        population = Population(*runs, 4, False, None, returns.source)
        fitness = returns(population, 2).mean(axis=2)
        naive = [sum(fitness[r, i] * population.direction(r, i) for i in range(4)) / (4 * 0.1) for r in range(2)]
        moved = [theta + 0.1 * population.direction(r, 3) for r in range(2)]
        single = np.full(2, 0.0), np.array([7, 8]), np.zeros(2, int)
        alone = returns(Population(np.array(moved), *single, 4, False, None, returns.source), 2)
        others = nes_gradient(Population(*runs, 4, False), fitness)  # the directions of `keys`
    assert np.allclose(estimates, naive, rtol=1e-5, atol=1e-3)
    assert np.allclose(alone[:, 3].mean(axis=1), fitness[:, 3], rtol=2e-3)  # member 3, run as a policy of its own
    assert np.allclose(estimates, others) == (engine == "batch")


def folded(policy: nesht.Policy) -> nesht.Policy:
    """The same linear policy with its normaliser written into its weights."""
    scaled = Normaliser.of(policy.moments)
    weights, bias = policy.parameters[:-3].reshape(3, -1), policy.parameters[-3:]
    parameters = np.concatenate([(weights * scaled.scale).ravel(), bias - weights @ (scaled.scale * scaled.mean)])
    return replace(policy, parameters=parameters, normalise=False)


def test_the_spread_around_a_saved_policy_is_measured_on_its_own_task(tmp_path: Path) -> None:
    options = {"env": "Hopper-v4", "noise_ratio": 2, "max_episode_steps": 15, "n": 8, "generations": 2}
    nesht.train(**options, normalise=True, engine="batch", threads=1, out=tmp_path / "run", progress=False)
    saved = nesht.load_policy(tmp_path / "run")
    runtime = RuntimeOptions(engine="batch", threads=1)
    still = policy_spread(saved, 0.0, members=4, rollouts=4, runtime=runtime)
    wide = policy_spread(saved, 0.5, members=16, rollouts=4, runtime=runtime)
    assert 0 < still.mean < 60
    assert still.mean == pytest.approx(policy_spread(folded(saved), 0.0, 4, 4, runtime=runtime).mean, rel=1e-6)
    assert wide.variance.value > still.variance.value
    assert wide.bound >= wide.mean
