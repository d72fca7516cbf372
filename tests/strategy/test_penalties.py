from __future__ import annotations

from collections.abc import Callable
from typing import Any

import numpy as np
import pytest

from nesht.strategy import (
    HardThreshold,
    L1Penalty,
    NoSparsity,
    Once,
    Population,
    Schedule,
    SoftThreshold,
    State,
    Strategy,
    Units,
)
from nesht.strategy.sparsify import Sparsifier

Maker = Callable[[Any], Any]
D, N = 7, 20
UNITS = Units.weights(D)
NOW = np.zeros(2)
THETA = np.random.default_rng(0).standard_normal((2, D))


def run(array: Maker, sparsifier: Sparsifier, f: Callable[[Any], Any], generations: int = 8, **options: Any) -> State:
    options = {"n": N, "k": 2, "shaping": "centered_rank", **options}
    strategy = Strategy(UNITS, **options, sparsifier=sparsifier)
    state = strategy.init(array(THETA), np.array([0, 1]))
    for _ in range(generations):
        population = strategy.ask(state, NOW)
        state, _ = strategy.tell(state, population, array(f(np.asarray(population.members()))), NOW)
    return state


def hill(members: np.ndarray) -> np.ndarray:
    return np.asarray(-((members - 1) ** 2).sum(axis=2))


def flat(members: np.ndarray) -> np.ndarray:
    return np.zeros(members.shape[:2])


@pytest.mark.parametrize("mirrored", [True, False])
def test_the_l1_penalty_is_that_of_every_perturbed_member(array: Maker, mirrored: bool) -> None:
    population = Population(array(THETA), array([0.1, 0.4]), np.array([1, 2]), np.array([3, 4]), N, mirrored)
    penalty = np.asarray(L1Penalty(0.3).penalty(population))
    for i_run in range(2):
        for i in range(N):
            naive = 0.3 * sum(abs(float(x)) for x in np.asarray(population.member(i_run, i)))
            assert penalty[i_run, i] == pytest.approx(naive, rel=1e-13)
    assert (penalty.std(axis=1) > 0.01).all()  # of theta alone it would be the same for all


@pytest.mark.parametrize("mirrored", [True, False])
def test_telling_with_a_penalty_is_telling_the_penalised_fitness(array: Maker, mirrored: bool) -> None:
    with_penalty = run(array, L1Penalty(0.7), hill, mirrored=mirrored, generations=1)

    def penalised(members: np.ndarray) -> np.ndarray:
        return np.asarray(hill(members) - 0.7 * np.abs(members).sum(axis=2))

    by_hand = run(array, NoSparsity(), penalised, mirrored=mirrored, generations=1)
    without = run(array, NoSparsity(), hill, mirrored=mirrored, generations=1)
    assert np.allclose(np.asarray(with_penalty.theta), np.asarray(by_hand.theta), rtol=1e-12)
    assert not np.allclose(np.asarray(with_penalty.theta), np.asarray(without.theta), rtol=1e-3)


@pytest.mark.parametrize("shaping", ["raw", "standardize", "centered_rank"])
def test_on_a_flat_function_only_the_penalty_ranks_and_the_norm_shrinks(array: Maker, shaping: str) -> None:
    options: dict[str, Any] = {"shaping": shaping, "lr": Schedule.parse(0.01), "generations": 20}
    shrunk = np.asarray(run(array, L1Penalty(1.0), flat, **options).theta)
    assert (np.abs(shrunk).sum(axis=1) < 0.9 * np.abs(THETA).sum(axis=1)).all()
    assert (np.asarray(run(array, NoSparsity(), flat, **options).theta) == THETA).all()


def test_a_penalty_cuts_nothing_to_zero(array: Maker) -> None:
    assert (np.asarray(run(array, L1Penalty(0.5), hill).theta) != 0).all()


@pytest.mark.parametrize("strength", [0.0, 0.5, 10.0])
def test_a_soft_threshold_moves_every_weight_towards_zero_and_stops_there(array: Maker, strength: float) -> None:
    lr = np.array([0.1, 1.0])
    policy, accumulator = SoftThreshold(strength).split(array(THETA), [np.array([1, 1])], array(lr))
    for i_run in range(2):
        for j in range(D):
            x = float(THETA[i_run, j])
            left = max(abs(x) - strength * lr[i_run], 0.0)
            assert float(policy[i_run, j]) == pytest.approx(left if x > 0 else -left, abs=1e-15)
    assert (np.asarray(policy) == np.asarray(accumulator)).all()


def test_a_soft_threshold_zeroes_what_the_fitness_does_not_defend(array: Maker) -> None:
    # Standardised, the slope along the first weight is 1/sigma = 50 and the noise along the others about 50/sqrt(10).
    options: dict[str, Any] = {"shaping": "standardize", "lr": Schedule.parse(0.01)}
    policy = np.asarray(run(array, SoftThreshold(25.0), lambda members: members[:, :, 0], 25, **options).theta)
    assert (policy[:, 0] > 3).all()
    assert (np.count_nonzero(policy[:, 1:], axis=1) < (D - 1) / 2).all()


def test_once_trains_dense_and_cuts_at_the_end_only(array: Maker) -> None:
    state, vanilla = run(array, Once(UNITS), hill), run(array, NoSparsity(), hill)
    assert (np.asarray(state.theta) == np.asarray(vanilla.theta)).all()
    assert (np.asarray(state.theta) != 0).all()
    done = Strategy(UNITS, k=2, sparsifier=Once(UNITS)).finish(state, NOW)
    for before, after in zip(np.asarray(state.theta), np.asarray(done.theta), strict=True):
        kept = np.sort(np.argsort(-np.abs(before), kind="stable")[:2])
        assert np.flatnonzero(after).tolist() == kept.tolist()
        assert (after[kept] == before[kept]).all()


@pytest.mark.parametrize(
    "sparsifier", [NoSparsity(), HardThreshold(UNITS), HardThreshold(UNITS, 0.9), L1Penalty(1.0), SoftThreshold(0.1)]
)
def test_all_but_once_end_with_the_policy_they_have(array: Maker, sparsifier: Sparsifier) -> None:
    state = run(array, sparsifier, hill, 3)
    done = Strategy(UNITS, k=2, sparsifier=sparsifier).finish(state, NOW)
    assert (np.asarray(done.theta) == np.asarray(state.theta)).all()


def test_none_never_cuts(array: Maker) -> None:
    strategy = Strategy(UNITS, k=1, beta=Schedule.parse(0.9), sparsifier=NoSparsity())
    start = strategy.init(array(THETA), np.array([0, 1]))
    assert (np.asarray(start.theta) == THETA).all()
    assert (np.asarray(strategy.finish(run(array, NoSparsity(), hill), NOW).theta) != 0).all()
