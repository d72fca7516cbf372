from __future__ import annotations

from collections.abc import Callable
from typing import Any

import numpy as np
import pytest

from nesht.strategy import Population
from nesht.strategy.gradient import CHUNK, combine, in_pairs, member_norms, nes_gradient, norms

Maker = Callable[[Any], Any]

# The test function: f(x) = level - curve/2 |x - top|^2. Smoothing it by N(0, sigma^2 I) only lowers it by a constant,
# so the gradient of the smoothed function at theta is exactly slope = curve (top - theta).
LEVEL, CURVE, SIGMA = 3.0, 0.8, 0.5
TOP = np.array([1.0, -2.0, 0.0, 0.5, 0.0, 0.3])
THETA = np.array([0.2, 0.1, -0.4, 0.5, 0.0, 1.0])
SLOPE = CURVE * (TOP - THETA)
D = len(TOP)


def quadratic(x: Any) -> Any:
    difference = np.asarray(x) - TOP
    return LEVEL - CURVE / 2 * (difference * difference).sum(axis=-1)


def variance_per_direction(mirrored: bool) -> np.ndarray:
    """The exact variance of what one direction contributes to each entry of the mean.

    Along eps, f = f0 + sigma u.eps - sigma^2 c/2 |eps|^2 with f0 = f(theta), u the slope and c the curve.
    Mirrored: (f+ - f-) eps/(2 sigma) = (u.eps) eps. With E[(u.eps)^2 eps_i^2] = |u|^2 + 2 u_i^2 its variance is
    |u|^2 + u_i^2.
    Not mirrored: f eps_i / sigma. The odd terms of f^2 eps_i^2 vanish; E|eps|^2 eps_i^2 = d + 2 and
    E|eps|^4 eps_i^2 = (d + 2)(d + 4) give the rest.
    """
    u2 = (SLOPE * SLOPE).sum()
    if mirrored:
        return np.asarray(u2 + SLOPE * SLOPE)
    f0 = float(quadratic(THETA))
    second = f0**2 / SIGMA**2 + u2 + 2 * SLOPE**2 + SIGMA**2 * CURVE**2 / 4 * (D + 2) * (D + 4) - f0 * CURVE * (D + 2)
    return np.asarray(second - SLOPE**2)


def gradients(array: Maker, runs: int, n: int, mirrored: bool, f: Callable[[Any], Any] = quadratic) -> np.ndarray:
    """Return the gradient estimates of independent runs with raw fitness, (runs, d)."""
    theta, sigma = array(np.tile(THETA, (runs, 1))), array(np.full(runs, SIGMA))
    population = Population(theta, sigma, np.arange(runs), np.zeros(runs, int), n, mirrored)
    fitness = array(np.asarray(f(population.members())))
    return np.asarray(nes_gradient(population, fitness))


@pytest.mark.parametrize("mirrored", [True, False])
def test_the_gradient_is_that_of_the_smoothed_function_within_its_sampling_error(array: Maker, mirrored: bool) -> None:
    # The mean of 3000 or 6000 independent directions is normal nearly; one of 6 entries leaves 5.5 standard errors
    # by chance with probability 2e-7.
    n = 6000
    estimate = gradients(array, 1, n, mirrored)[0]
    directions = n // 2 if mirrored else n
    error = np.sqrt(variance_per_direction(mirrored) / directions)
    assert (np.abs(estimate - SLOPE) < 5.5 * error).all()
    assert 5.5 * error.max() < np.abs(SLOPE).max() / 2  # sharp enough to notice a wrong factor 2


@pytest.mark.parametrize("mirrored", [True, False])
def test_raw_gradients_are_unbiased_and_vary_as_much_as_the_theory_says(mirrored: bool) -> None:
    # 400 runs of 16 members: a small population must not bias the mean. Entries beyond 5.5 standard errors: 2e-7. The
    # sample variance of 400 has a relative standard error of sqrt((kurtosis - 1) / 400) < 0.15 for a kurtosis below 10,
    # so 0.75 is 5 of them.
    runs, n = 400, 16
    estimates = gradients(np.array, runs, n, mirrored)
    variance = variance_per_direction(mirrored) / (n // 2 if mirrored else n)
    assert (np.abs(estimates.mean(axis=0) - SLOPE) < 5.5 * np.sqrt(variance / runs)).all()
    assert (np.abs(estimates.var(axis=0) / variance - 1) < 0.75).all()


def test_mirroring_lowers_the_variance_on_a_linear_function_with_an_offset() -> None:
    # With f = b + u.(x - theta) the variances of an entry are (|u|^2 + u_i^2) / (n/2) mirrored and
    # (b^2/sigma^2 + |u|^2 + u_i^2) / n not mirrored: here 5 to 14 times as much.
    def linear(x: Any) -> Any:
        return 5.0 + (np.asarray(x) - THETA) @ SLOPE

    mirrored, not_mirrored = (gradients(np.array, 200, 16, way, linear).var(axis=0) for way in (True, False))
    assert (mirrored < not_mirrored / 2).all()


def test_with_mirroring_a_constant_added_to_the_fitness_changes_nothing(array: Maker) -> None:
    plain = gradients(array, 3, 32, True)
    assert np.allclose(plain, gradients(array, 3, 32, True, lambda x: quadratic(x) + 100), atol=1e-11)


@pytest.mark.parametrize("n", [2, 2 * CHUNK - 2, 2 * CHUNK, 2 * CHUNK + 2, 5 * CHUNK + 6])
@pytest.mark.parametrize("mirrored", [True, False])
def test_the_sum_by_chunks_is_the_naive_sum_over_members(array: Maker, n: int, mirrored: bool) -> None:
    rng = np.random.default_rng(n)
    theta, sigma, weights = rng.standard_normal((2, 7)), np.array([0.1, 0.7]), rng.standard_normal((2, n))
    population = Population(array(theta), array(sigma), np.array([4, 5]), np.array([0, 9]), n, mirrored)
    members = np.asarray(population.members())
    gradient = np.asarray(nes_gradient(population, array(weights)))
    for run in range(2):
        naive = np.zeros(7)
        for i in range(n):
            naive += weights[run, i] * (members[run, i] - theta[run]) / sigma[run]
        assert np.allclose(gradient[run], naive / (n * sigma[run]), rtol=1e-11, atol=1e-11)


@pytest.mark.parametrize("power", [0, 1, 2, 3, 7])
@pytest.mark.parametrize("n", [2, 2 * CHUNK + 2, 26 * CHUNK, 27 * CHUNK + 6])
@pytest.mark.parametrize("mirrored", [True, False])
def test_sums_of_whole_stretches_add_up_to_the_same_bits(array: Maker, n: int, mirrored: bool, power: int) -> None:
    rng = np.random.default_rng(n)
    population = Population(
        array(rng.standard_normal((2, 5))), array([0.1, 0.7]), np.array([4, 5]), np.array([0, 9]), n, mirrored
    )
    count, step = population.n_directions, CHUNK * 2**power
    weights = array(rng.standard_normal((2, count)))
    cuts = [(start, min(start + step, count)) for start in range(0, count, step)]
    parts = [combine(population, weights[:, a:b], a) for a, b in cuts]
    assert np.array_equal(np.asarray(in_pairs(parts)), np.asarray(combine(population, weights)))
    sizes = np.concatenate([np.asarray(norms(population, a, b)) for a, b in cuts], axis=1)
    assert np.array_equal(sizes, np.asarray(member_norms(population)))


@pytest.mark.parametrize("d", [1, 2, 5, 131])
@pytest.mark.parametrize("n", [2, 40, 74])
@pytest.mark.parametrize("mirrored", [True, False])
def test_the_gradient_of_a_run_has_the_same_bits_in_any_fleet(array: Maker, d: int, n: int, mirrored: bool) -> None:
    rng = np.random.default_rng(d)
    theta, weights = rng.standard_normal((5, d)), rng.standard_normal((5, n))

    def gradient(rows: slice) -> np.ndarray:
        seed, generation = np.arange(5)[rows], np.zeros(5, int)[rows]
        population = Population(array(theta[rows]), array(np.full(5, 0.3)[rows]), seed, generation, n, mirrored)
        return np.asarray(nes_gradient(population, array(weights[rows])))

    together = gradient(slice(0, 5))
    assert (gradient(slice(0, 1)) == together[:1]).all()
    assert (gradient(slice(3, 4)) == together[3:4]).all()
    assert (gradient(slice(1, 4)) == together[1:4]).all()


@pytest.mark.parametrize("n", [2, 2 * CHUNK, 2 * CHUNK + 6])
@pytest.mark.parametrize("mirrored", [True, False])
@pytest.mark.parametrize("explore", [None, 0.25])
def test_the_norms_are_those_of_every_member_in_order(
    array: Maker, n: int, mirrored: bool, explore: float | None
) -> None:
    theta = np.random.default_rng(n).standard_normal((2, 3))
    reach = None if explore is None else array([[1.0, explore, 1.0], [explore, 1.0, 1.0]])
    population = Population(array(theta), array([0.1, 0.7]), np.array([1, 2]), np.array([3, 4]), n, mirrored, reach)
    norms = np.abs(np.asarray(population.members())).sum(axis=2)
    np.testing.assert_allclose(np.asarray(member_norms(population)), norms, rtol=1e-13)
