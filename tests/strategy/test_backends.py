from __future__ import annotations

from collections.abc import Callable
from typing import Any

import numpy as np
import pytest

from nesht.strategy import (
    SGD,
    SHAPINGS,
    Adam,
    HardThreshold,
    L1Penalty,
    NoSparsity,
    Once,
    Schedule,
    SoftThreshold,
    State,
    Strategy,
    Units,
)
from nesht.strategy.optimisers import Optimiser
from nesht.strategy.sparsify import Sparsifier

RUNS, D, N, GENERATIONS = 2, 8, 6, 20
WEIGHTS = Units.weights(D)
FEATURES = Units(D, (np.arange(6).reshape(2, 3).T,))  # three inputs with two weights each; two biases in no pool
LAYERS = Units(D, (np.arange(3)[:, None], np.arange(3, 7)[:, None]))
START = np.random.default_rng(0).standard_normal((RUNS, D))

CHOICES: dict[str, tuple[Units, Sparsifier]] = {
    "hard": (WEIGHTS, HardThreshold(WEIGHTS)),
    "hard, features with memory": (FEATURES, HardThreshold(FEATURES, 0.9)),
    "hard, per layer with memory": (LAYERS, HardThreshold(LAYERS, 0.5)),
    "once": (WEIGHTS, Once(WEIGHTS)),
    "l1": (WEIGHTS, L1Penalty(0.1)),
    "soft": (WEIGHTS, SoftThreshold(0.1)),
    "none": (WEIGHTS, NoSparsity()),
}


def fitness(members: np.ndarray, generation: int) -> np.ndarray:
    """A smooth hill; in one generation a member is a broken one, in another all are equal."""
    value = -((members - 0.5) ** 2).sum(axis=2) + np.sin(3 * members[:, :, 0])
    if generation == 3:
        value[0, 2] = np.nan
    return np.zeros_like(value) if generation == 7 else np.asarray(value)


def train(strategy: Strategy, array: Callable[[Any], Any]) -> tuple[list[State], list[np.ndarray]]:
    state = strategy.init(array(START), np.array([0, 1]))
    states, norms = [state], []
    for generation in range(GENERATIONS):
        progress = np.array([generation, generation / 2]) / GENERATIONS
        population = strategy.ask(state, progress)
        told_fitness = array(fitness(np.asarray(population.members()), generation))
        state, told = strategy.tell(state, population, told_fitness, progress)
        states.append(state)
        norms.append(np.asarray(told.gradient_norm))
        assert told.not_finite.tolist() == [generation == 3, 0]
    states.append(strategy.finish(state, np.ones(RUNS)))
    return states, norms


@pytest.mark.parametrize("sparsifier", CHOICES)
@pytest.mark.parametrize("shaping", SHAPINGS)
@pytest.mark.parametrize("optimiser", [SGD(), SGD(0.9), Adam()], ids=["sgd", "momentum", "adam"])
def test_numpy_and_torch_give_the_same_numbers(sparsifier: str, shaping: str, optimiser: Optimiser) -> None:
    torch = pytest.importorskip("torch")
    units, chosen = CHOICES[sparsifier]
    strategy = Strategy(
        units,
        n=N,
        sigma=Schedule.parse("linear:0.2:0.1"),
        lr=Schedule.parse("cosine:0.02:0.01"),
        beta=Schedule.parse("linear:0.3:0.7"),
        shaping=shaping,
        optimiser=optimiser,
        weight_decay=0.1,
        sparsifier=chosen,
    )
    ours, norms = train(strategy, np.array)
    theirs, their_norms = train(strategy, lambda values: torch.as_tensor(np.array(values)))
    assert np.allclose(norms, their_norms, rtol=1e-12, atol=1e-12)
    for mine, other in zip(ours, theirs, strict=True):
        for name in ("theta", "dense", "first", "second"):
            expected, found = getattr(mine, name), getattr(other, name)
            assert isinstance(found, torch.Tensor)
            assert found.dtype == torch.float64
            assert np.allclose(expected, np.asarray(found), rtol=1e-12, atol=1e-12), name
        assert (np.count_nonzero(mine.theta, axis=1) == np.count_nonzero(np.asarray(other.theta), axis=1)).all()
    assert not np.allclose(ours[-2].theta, START, atol=1e-3)  # something was trained
