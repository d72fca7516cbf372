from __future__ import annotations

from collections.abc import Callable
from dataclasses import replace
from typing import Any

import numpy as np
import pytest

from nesht.strategy import SGD, Adam, HardThreshold, NoSparsity, Schedule, State, Strategy, Units
from nesht.strategy.optimisers import Optimiser

Maker = Callable[[Any], Any]
D, K, RUNS = 12, 3, 2
NOW = np.zeros(RUNS)


def fitness(members: Any, generation: int) -> np.ndarray:
    """A quadratic with its top at a dense point that wanders, under heavy noise: what is kept has to change."""
    x = np.asarray(members)
    noise = np.random.default_rng(generation).standard_normal(x.shape[:2])
    top = np.roll(np.linspace(-1, 1, D), generation // 4)
    return np.asarray(-((x - top) ** 2).sum(axis=2) + noise)


def papers_rule(dense: np.ndarray, k: int) -> np.ndarray:
    """Keep the k entries of largest magnitude of every row and set the rest to exactly 0."""
    sparse = np.zeros_like(dense)
    for run, row in enumerate(dense):
        kept = np.argsort(-np.abs(row), kind="stable")[:k]
        sparse[run, kept] = row[kept]
    return sparse


@pytest.mark.parametrize("optimiser", [SGD(), SGD(0.9), Adam()])
@pytest.mark.parametrize("shaping", ["raw", "standardize", "centered_rank"])
def test_without_memory_the_update_is_the_papers_rule_to_the_bit(
    array: Maker, optimiser: Optimiser, shaping: str
) -> None:
    units = Units.weights(D)
    options: dict[str, Any] = {"n": 8, "k": K, "shaping": shaping, "optimiser": optimiser}
    ours = Strategy(units, **options, sparsifier=HardThreshold(units, memory=0.0))
    vanilla = Strategy(units, **options, sparsifier=NoSparsity())
    state = ours.init(array(np.zeros((RUNS, D))), np.array([0, 1]))
    paper = vanilla.init(array(np.zeros((RUNS, D))), np.array([0, 1]))
    supports = set()
    for generation in range(25):
        population = ours.ask(state, NOW)
        state, _ = ours.tell(state, population, array(fitness(population.members(), generation)), NOW)
        population = vanilla.ask(paper, NOW)
        paper, _ = vanilla.tell(paper, population, array(fitness(population.members(), generation)), NOW)
        cut = array(papers_rule(np.asarray(paper.theta), K))
        paper = replace(paper, theta=cut, dense=cut)
        assert (np.asarray(state.theta) == np.asarray(cut)).all()
        assert (np.asarray(state.dense) == np.asarray(cut)).all()
        assert (np.count_nonzero(np.asarray(state.theta), axis=1) == K).all()
        supports.add(tuple(np.flatnonzero(np.asarray(state.theta)[0])))
    assert len(supports) > 1  # the threshold had something to decide


def test_without_memory_the_whole_loop_is_algorithm_1() -> None:
    """Written again from the paper, with nothing of nesht but the random directions and the test function."""
    n, sigma, lr = 10, 0.5, 0.02
    units = Units.weights(D)
    strategy = Strategy(
        units, n, Schedule.parse(sigma), Schedule.parse(lr), k=K, mirrored=False, shaping="raw",
        sparsifier=HardThreshold(units),
    )  # fmt: skip
    state = strategy.init(np.zeros((1, D)), np.array([5]))
    theta = np.zeros(D)
    for generation in range(30):
        population = strategy.ask(state, np.zeros(1))
        eps = [population.direction(0, i) for i in range(n)]
        f = [fitness((theta + sigma * e)[None, None], 0)[0, 0] for e in eps]
        theta = theta + lr * sum(fi * e for fi, e in zip(f, eps, strict=True)) / (n * sigma)
        theta = papers_rule(theta[None], K)[0]
        told = np.array([[fitness(member[None, None], 0)[0, 0] for member in population.members()[0]]])
        state, _ = strategy.tell(state, population, told, np.zeros(1))
        assert np.allclose(state.theta[0], theta, rtol=1e-9, atol=1e-12), generation
    assert np.count_nonzero(theta) == K


def still(array: Maker, memory: float, dense: np.ndarray, units: Units, *, k: int, generations: int) -> list[State]:
    """Generations whose members are all equally good: no gradient, only the sparsifier acts."""
    strategy = Strategy(units, n=4, k=k, sparsifier=HardThreshold(units, memory))
    state = strategy.init(array(dense), np.arange(len(dense)))
    states = [state]
    for _ in range(generations):
        progress = np.zeros(len(dense))
        state, _ = strategy.tell(state, strategy.ask(state, progress), array(np.ones((len(dense), 4))), progress)
        states.append(state)
    return states


@pytest.mark.parametrize("memory", [0.0, 0.3, 0.95, 1.0])
@pytest.mark.parametrize("by_feature", [False, True])
def test_what_is_cut_fades_by_exactly_the_memory_each_generation(array: Maker, memory: float, by_feature: bool) -> None:
    units = Units(D, (np.arange(D).reshape(2, -1).T,)) if by_feature else Units.weights(D)
    dense = np.random.default_rng(3).standard_normal((RUNS, D))
    states = still(array, memory, dense, units, k=K, generations=25)
    kept = np.asarray(states[0].theta) != 0
    assert (kept.sum(axis=1) == K * (2 if by_feature else 1)).all()
    expected = dense
    for state in states:
        expected = np.where(kept, dense, memory * expected)
        assert (np.asarray(state.dense) == expected).all()
        assert (np.asarray(state.theta) == np.where(kept, dense, 0)).all()


def test_a_memory_of_one_never_forgets(array: Maker) -> None:
    dense = np.random.default_rng(4).standard_normal((RUNS, D))
    last = still(array, 1.0, dense, Units.weights(D), k=1, generations=60)[-1]
    assert (np.asarray(last.dense) == dense).all()
    assert (np.count_nonzero(np.asarray(last.theta), axis=1) == 1).all()


@pytest.mark.parametrize("weights_per_feature", [1, 2])
@pytest.mark.parametrize(("memory", "enters"), [(0.0, False), (0.8, False), (0.95, True), (1.0, True)])
def test_small_but_steady_evidence_enters_the_policy_only_with_enough_memory(
    array: Maker, weights_per_feature: int, memory: float, enters: bool
) -> None:
    """Feature 0 sits in the only place at 0.5; fitness rises along feature 1 alone, by 0.05 a generation after lr.

    Without memory feature 1 never has more than 0.05 when it is compared with 0.5. With memory m it has
    0.05 (1 + m + m^2 + ...), up to 0.05 / (1 - m): 0.25 for 0.8, which is not enough, and 1 for 0.95, which is.
    Sampling error is small beside that: 16 directions leave a quarter of a step per generation
    (half of one with two weights).
    """
    m = weights_per_feature
    units = Units(2 * m, (np.arange(2 * m).reshape(2, m),))
    theta = np.repeat([0.5, 0.0], m)[None]
    step, n = 0.05, 32
    strategy = Strategy(units, n, lr=Schedule.parse(step), k=1, shaping="raw", sparsifier=HardThreshold(units, memory))
    state = strategy.init(array(theta), np.array([7]))
    entered = []
    for _ in range(35):
        population = strategy.ask(state, np.zeros(1))
        members = np.asarray(population.members())
        state, _ = strategy.tell(state, population, array(members[:, :, m:].sum(axis=2)), np.zeros(1))
        policy = np.asarray(state.theta)[0]
        entered.append(bool(policy[m:].any()))
        assert policy[:m].any() != policy[m:].any()  # one feature, whole, at any time
    assert entered[-1] == enters
    assert any(entered) == enters
    assert not any(entered[:5])  # one generation alone is never enough
