from __future__ import annotations

import math
from collections.abc import Callable
from typing import Any

import numpy as np
import pytest

from nesht.strategy import Population

Maker = Callable[[Any], Any]
SEEDS, GENERATIONS = np.array([3, 3, 7]), np.array([0, 5, 5])


def fleet(array: Maker, n: int, mirrored: bool, d: int = 5, dtype: type = np.float64) -> Population:
    rng = np.random.default_rng(1)
    theta: np.ndarray = rng.standard_normal((3, d)).astype(dtype)
    return Population(array(theta), array(np.array([0.1, 0.02, 2.0], dtype)), SEEDS, GENERATIONS, n, mirrored)


def alone(population: Population, run: int) -> Population:
    one = slice(run, run + 1)
    seed, generation = population.seed[one], population.generation[one]
    return Population(population.theta[one], population.sigma[one], seed, generation, population.n, population.mirrored)


@pytest.mark.parametrize(("start", "stop"), [(0, 6), (2, 3), (1, 5)])
def test_a_direction_has_the_same_bits_alone_and_among_others(array: Maker, start: int, stop: int) -> None:
    population = fleet(array, 12, mirrored=True)
    together = np.asarray(population.directions(start, stop))
    assert together.shape == (3, stop - start, 5)
    for run in range(3):
        for number in range(start, stop):
            assert (together[run, number - start] == population.direction(run, number)).all()


@pytest.mark.parametrize("mirrored", [True, False])
def test_a_member_has_the_same_bits_alone_and_among_others(array: Maker, mirrored: bool) -> None:
    population = fleet(array, 8, mirrored)
    members = np.asarray(population.members())
    assert members.shape == (3, 8, 5)
    for run in range(3):
        for i in reversed(range(8)):
            assert (members[run, i] == np.asarray(population.member(run, i))).all()


@pytest.mark.parametrize("mirrored", [True, False])
def test_a_run_has_the_same_bits_alone_and_in_a_fleet(array: Maker, mirrored: bool) -> None:
    population = fleet(array, 8, mirrored)
    for run in range(3):
        assert (np.asarray(alone(population, run).members())[0] == np.asarray(population.members())[run]).all()


def test_mirrored_members_lie_symmetrically_around_theta(array: Maker) -> None:
    population = fleet(array, 10, mirrored=True)
    theta, members = np.asarray(population.theta)[:, None], np.asarray(population.members())
    assert np.allclose(members[:, 0::2] - theta, theta - members[:, 1::2], rtol=0, atol=1e-15)
    step = np.asarray(population.sigma)[:, None, None] * np.asarray(population.directions(0, 5))
    assert (members[:, 0::2] == theta + step).all()
    assert (members[:, 1::2] == theta - step).all()


def test_members_that_are_not_mirrored_each_have_a_direction_of_their_own(array: Maker) -> None:
    population = fleet(array, 10, mirrored=False)
    step = np.asarray(population.sigma)[:, None, None] * np.asarray(population.directions(0, 10))
    assert (np.asarray(population.members()) == np.asarray(population.theta)[:, None] + step).all()
    assert len(np.unique(step[0], axis=0)) == 10


def test_directions_follow_the_type_of_theta(array: Maker) -> None:
    population = fleet(array, 4, mirrored=True, dtype=np.float32)
    single = np.asarray(population.directions(0, 2))
    assert single.dtype == np.asarray(population.members()).dtype == np.float32
    assert (single[1, 1] == population.direction(1, 1).astype(np.float32)).all()


def many(d: int, directions: int) -> np.ndarray:
    """Directions of runs that differ in the seed only, in the generation only, and in the number only."""
    seed, generation = np.array([0, 1, 2, 0, 0]), np.array([0, 0, 0, 1, 2])
    population = Population(np.zeros((5, d)), np.ones(5), seed, generation, directions, False)
    return np.asarray(population.directions(0, directions)).reshape(-1, d)


def test_directions_are_standard_normal() -> None:
    # Dvoretzky-Kiefer-Wolfowitz: the empirical distribution leaves a band of this width with probability <= 1e-6.
    values = np.sort(many(500, 40).ravel())
    band = math.sqrt(math.log(2 / 1e-6) / (2 * len(values)))
    exact = np.array([0.5 + 0.5 * math.erf(value / math.sqrt(2)) for value in values])
    empirical = np.arange(len(values)) / len(values)
    assert np.abs(empirical - exact).max() < band
    assert band < 0.01  # the test is sharp enough to notice 3 % too wide a distribution


def test_directions_are_independent_of_each_other() -> None:
    # The correlation of two independent directions times sqrt(d) is N(0, 1) nearly: beyond 6 has probability 2e-9 for
    # each of the 19900 pairs, so this fails by chance with probability 4e-5.
    d = 2000
    directions = many(d, 40)
    correlation = directions @ directions.T / math.sqrt(d)
    assert np.abs(correlation[~np.eye(len(directions), dtype=bool)]).max() < 6
