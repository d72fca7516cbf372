"""The kernel's random numbers: Philox as published, normal as promised, and each a function of its key alone."""

from __future__ import annotations

import math
from collections.abc import Iterator
from dataclasses import replace

import numpy as np
import pytest

from nesht.engines.fused.engine import FusedEngine
from nesht.engines.fused.library import load, warp
from nesht.policies.network import Network
from nesht.strategy import Population
from nesht.tasks.task import Task

KNOWN = {  # key and counter -> numbers, from the test vectors of Random123
    (0x00000000,) * 6: (0x6627E8D5, 0xE169C58D, 0xBC57AC4C, 0x9B00DBD8),
    (0xFFFFFFFF,) * 6: (0x408F276D, 0x41C83B0E, 0xA20BC7C6, 0x6D5451FD),
    (0xA4093822, 0x299F31D0, 0x243F6A88, 0x85A308D3, 0x13198A2E, 0x03707344): (
        0xD16CFE09,
        0x94FDCCEB,
        0x5001E420,
        0x24126EA1,
    ),
}


def test_philox_gives_the_published_numbers() -> None:
    from nesht.engines.fused.kernel.random import philox, word4

    wp = warp()

    @wp.kernel(name="philox_known_answers", module="unique", enable_backward=False)
    def run(asked: wp.array2d(dtype=wp.uint32), out: wp.array2d(dtype=wp.uint32)):
        i = wp.tid()
        counter = word4(asked[i, 2], asked[i, 3], asked[i, 4], asked[i, 5])
        numbers = philox(counter, asked[i, 0], asked[i, 1])
        for m in range(4):
            out[i, m] = numbers[m]

    load(run, "cpu")
    asked = wp.array(np.array(list(KNOWN), np.uint32), dtype=wp.uint32, device="cpu")
    out = wp.zeros((len(KNOWN), 4), dtype=wp.uint32, device="cpu")
    wp.launch(run, len(KNOWN), inputs=[asked, out], device="cpu")
    assert list(map(tuple, out.numpy().tolist())) == list(KNOWN.values())


@pytest.fixture(scope="module")
def engine() -> Iterator[FusedEngine]:
    task = Task("Hopper-v4")
    made = FusedEngine(task, Network(task.n_real, task.outputs), threads=2)
    yield made
    made.close()


def directions(
    engine: FusedEngine, seeds: list[int], generations: list[int], start: int, stop: int, d: int
) -> np.ndarray:
    return np.array(engine.directions(np.array(seeds), np.array(generations), start, stop, d), np.float64)


def test_directions_are_standard_normal(engine: FusedEngine) -> None:
    # A sample of a million: a test of Kolmogorov and Smirnov, and the tails, which it hardly sees. The seed is fixed;
    # were it not, each of these would fail once in 10 000 times.
    x = np.sort(directions(engine, [7], [3], 0, 10_000, 100).ravel())
    n = len(x)
    cdf = np.array([0.5 * math.erfc(-value / math.sqrt(2)) for value in x])
    distance = max((np.arange(1, n + 1) / n - cdf).max(), (cdf - np.arange(n) / n).max())
    assert distance < math.sqrt(-math.log(1e-4 / 2) / 2 / n)
    beyond = math.erfc(4 / math.sqrt(2))  # the share beyond 4 standard deviations on either side
    assert abs((np.abs(x) > 4).mean() - beyond) < 3.9 * math.sqrt(beyond / n)
    for power, mean in ((1, 0), (2, 1), (3, 0), (4, 3)):
        spread = math.sqrt(math.prod(range(1, 2 * power, 2)) - mean**2)  # of x^p: E x^2p = (2p - 1)!!
        assert abs((x**power).mean() - mean) < 3.9 * spread / math.sqrt(n)


@pytest.mark.parametrize("d", [1, 3, 4, 9])
def test_part_of_the_directions_is_part_of_them_all(engine: FusedEngine, d: int) -> None:
    whole = directions(engine, [5, 6, 2**32 - 1], [0, 9, 2**32 - 1], 0, 40, 12)
    assert np.array_equal(directions(engine, [6], [9], 13, 31, d), whole[1:2, 13:31, :d])
    assert np.array_equal(directions(engine, [2**32 - 1, 5], [2**32 - 1, 0], 39, 40, d), whole[[2, 0], 39:, :d])


def test_directions_differ_wherever_a_part_of_the_key_does(engine: FusedEngine) -> None:
    keys = [(seed, generation) for seed in (0, 1, 2**31) for generation in (0, 1, 2**31)]
    made = directions(engine, [seed for seed, _ in keys], [generation for _, generation in keys], 0, 100, 8)
    assert len(np.unique(made)) > made.size - 5  # in single precision two numbers may be the same by chance


@pytest.mark.parametrize("mirrored", [True, False])
@pytest.mark.parametrize("d", [3, 9])
def test_sums_and_norms_are_those_of_the_directions(engine: FusedEngine, d: int, mirrored: bool) -> None:
    rng = np.random.default_rng(d)
    theta, reach = rng.standard_normal((3, d)), rng.uniform(0.1, 1, (3, d))
    seeds, generations = np.array([5, 6, 2**32 - 1]), np.array([0, 9, 2**32 - 1])
    population = Population(theta, np.array([0.1, 0.5, 2.0]), seeds, generations, 40, mirrored, reach, source=engine)
    eps = population.directions(0, population.n_directions)
    weights = rng.standard_normal(eps.shape[:2])
    expected = (weights[:, :, None] * eps).sum(axis=1)
    np.testing.assert_allclose(engine.combine(population, weights), expected, rtol=1e-12, atol=1e-12)
    alone = replace(population, theta=theta[1:2], sigma=population.sigma[1:2], seed=seeds[1:2])
    alone = replace(alone, generation=generations[1:2], reach=reach[1:2])
    assert np.array_equal(engine.combine(alone, weights[1:2])[0], engine.combine(population, weights)[1])
    norms = np.abs(population.members()).sum(axis=2)
    np.testing.assert_allclose(engine.norms(population), norms, rtol=1e-5)  # members are made in single precision


def test_directions_are_uncorrelated(engine: FusedEngine) -> None:
    made = directions(engine, [0, 1], [0, 0], 0, 4096, 32)
    columns = np.concatenate([made[0], made[1], made[0, :, :8] ** 2], axis=1)  # within a run, between runs, and in size
    columns = (columns - columns.mean(axis=0)) / columns.std(axis=0)
    correlation = columns.T @ columns / len(columns)
    np.fill_diagonal(correlation, 0)
    # One of the 2556 pairs exceeds this once in 100 000 times.
    assert np.abs(correlation).max() < 6 / math.sqrt(len(columns))
    neighbours = (made[:, 1:] * made[:, :-1]).mean(axis=1)
    assert np.abs(neighbours).max() < 6 / math.sqrt(len(columns))
