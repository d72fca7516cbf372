"""Closed forms of the built-in problems against sums over fine grids, finite differences and limits."""

from __future__ import annotations

import math

import numpy as np
import pytest

from nesht.errors import UserError
from nesht.strategy import Population
from nesht.theory import Problem, Quadratic, Steps, example_1

SIGMA = 0.4
PROBLEMS = {
    "quadratic": Quadratic(np.array([1.0, -0.5]), spread=0.7, noise=0.3, curve=0.8, level=2.0),
    "steps": Steps(np.array([1.0, -0.5]), spread=0.7, noise=0.3, width=0.6, height=3.0),
    "one step": Steps(np.array([1.0, 0.0]), width=0.6),
    "example 1": example_1(1, 1, spread=0.5),
}
THETA = np.array([0.3, 0.2])

# A grid over both coordinates of eps: the expectation over N(0, I) as a sum. Its error at a jump is below one cell.
AXIS = np.linspace(-7, 7, 1401)
WEIGHT = np.exp(-0.5 * AXIS**2) / math.sqrt(2 * math.pi) * (AXIS[1] - AXIS[0])
EPS = np.stack(np.meshgrid(AXIS, AXIS, indexing="ij"), axis=-1)
SQUARE = (EPS**2).sum(axis=-1)


def expectation(values: np.ndarray) -> np.ndarray:
    return np.einsum("i,j,ij...->...", WEIGHT, WEIGHT, values)


@pytest.mark.parametrize("name", PROBLEMS)
def test_the_closed_forms_are_the_integrals(name: str) -> None:
    problem = PROBLEMS[name]
    near = 1e-2 if isinstance(problem, Steps) else 1e-9  # a jump lies somewhere within its cell
    members, slope = THETA + SIGMA * EPS, problem.gradient(THETA, SIGMA)
    value, luck = problem.value(members), problem.episode_variance(members)
    assert problem.smoothed(THETA, SIGMA) == pytest.approx(expectation(value), abs=near)
    assert slope == pytest.approx(expectation(value[..., None] * EPS) / SIGMA, abs=2 * near)
    assert problem.signal(THETA, SIGMA) == pytest.approx(expectation(value**2 * SQUARE), rel=near, abs=1e-9)
    assert problem.luck(THETA, SIGMA) == pytest.approx(expectation(luck * SQUARE), rel=1e-6, abs=1e-9)
    # one member and one rollout: the share of the member without luck, around the gradient, and its luck
    off = ((value[..., None] * EPS / SIGMA - slope) ** 2).sum(axis=-1)
    exact = expectation(off + luck * SQUARE / SIGMA**2)
    assert problem.estimator_variance(THETA, SIGMA, 1) == pytest.approx(exact, rel=near)
    assert problem.estimator_variance(THETA, SIGMA, 6) == pytest.approx(exact / 6, rel=near)


@pytest.mark.parametrize("name", PROBLEMS)
def test_the_gradient_is_the_slope_of_the_smoothed_return(name: str) -> None:
    problem, h = PROBLEMS[name], 1e-5
    slope = [
        (problem.smoothed(THETA + h * e, SIGMA) - problem.smoothed(THETA - h * e, SIGMA)) / (2 * h) for e in np.eye(2)
    ]
    assert problem.gradient(THETA, SIGMA) == pytest.approx(slope, abs=1e-8)


@pytest.mark.parametrize("name", PROBLEMS)
def test_without_smoothing_the_smoothed_return_is_the_return(name: str) -> None:
    assert PROBLEMS[name].smoothed(THETA, 1e-6) == pytest.approx(PROBLEMS[name].value(THETA), abs=1e-9)


def test_functions_of_many_vectors_are_those_of_each() -> None:
    rows = np.random.default_rng(0).standard_normal((3, 4, 2))
    for problem in PROBLEMS.values():
        for of in (problem.value, problem.episode_variance):
            assert of(rows)[2, 1] == pytest.approx(of(rows[2, 1]))
        for smooth in (problem.smoothed, problem.gradient, problem.signal, problem.luck):
            assert smooth(rows, SIGMA)[2, 1] == pytest.approx(smooth(rows[2, 1], SIGMA))


def test_the_best_policy_of_a_problem_is_its_top() -> None:
    rng = np.random.default_rng(0)
    for problem in PROBLEMS.values():
        around = problem.top + rng.standard_normal((200, 2))
        assert (problem.value(problem.top) >= problem.value(around)).all()


def returns_of(problem: Problem, theta: np.ndarray, episodes: int) -> np.ndarray:
    still = Population(theta[None], np.zeros(1), np.array([3]), np.array([0]), 2, False)
    return problem.returns(still, episodes)[0].ravel()


@pytest.mark.parametrize("spread", [0.5, 2.0])
@pytest.mark.parametrize("irrelevant", [0, 30])
def test_the_variance_in_example_1_is_the_square_of_s_times_the_distance(spread: float, irrelevant: int) -> None:
    # x.(theta - top) is normal, so the sample variance of m episodes has a relative standard error of sqrt(2 / m);
    # 5 of them are left by chance with probability 6e-7. With covariance s I, as printed, it would be twice off.
    problem, episodes = example_1(3, irrelevant, spread), 10_000
    theta = np.random.default_rng(1).uniform(-1, 1, problem.d)
    found = returns_of(problem, theta, episodes)
    exact = spread**2 * ((theta - problem.top) ** 2).sum()
    error = math.sqrt(2 / (2 * episodes))
    assert problem.episode_variance(theta) == pytest.approx(exact)
    assert abs(found.var(ddof=1) / exact - 1) < 5 * error
    assert abs(found.mean()) < 5 * math.sqrt(exact / (2 * episodes))
    assert 5 * error < 0.2


def test_example_1_as_printed_has_nothing_to_learn_and_with_a_curve_has() -> None:
    theta = np.array([0.5, 0.5, -0.5])
    printed, curved = example_1(2, 1), example_1(2, 1, curve=1.0)
    assert printed.value(theta) == printed.value(printed.top) == 0
    assert (printed.gradient(theta, 0.1) == 0).all()
    assert curved.gradient(theta, 0.1) == pytest.approx(curved.top - theta)
    assert curved.episode_variance(theta) == printed.episode_variance(theta)


def test_returns_are_a_function_of_the_key_alone() -> None:
    problem = PROBLEMS["quadratic"]
    theta, sigma = np.tile(THETA, (3, 1)), np.full(3, SIGMA)
    fleet = Population(theta, sigma, np.array([5, 6, 5]), np.array([0, 0, 1]), 4, False)
    alone = Population(theta[:1], sigma[:1], np.array([6]), np.array([0]), 4, False)
    found = problem.returns(fleet, 2)
    assert (found[1] == problem.returns(alone, 2)[0]).all()
    assert len(np.unique(found)) == found.size  # other seeds, generations, members and rollouts: other luck


@pytest.mark.parametrize(
    ("make", "words"),
    [
        (lambda: example_1(0, 3), "relevant must be a whole number"),
        (lambda: example_1(2, -1), "irrelevant must be a whole number, 0 or more"),
        (lambda: example_1(2, 1, spread=-1.0), "spread is a standard deviation"),
        (lambda: example_1(2, 1, curve=-1.0), "curve must be 0 or more"),
        (lambda: Quadratic(np.zeros((2, 2))), "top must be a vector"),
        (lambda: Quadratic(np.array([np.nan])), "top must be a vector of finite numbers"),
        (lambda: Steps(np.zeros(3)), "nothing is relevant"),
        (lambda: Steps(np.ones(3), width=0.0), "width must be a positive number"),
        (lambda: PROBLEMS["steps"].estimator_variance(THETA, 0.0, 4), "sigma must be a positive number"),
        (lambda: PROBLEMS["steps"].estimator_variance(THETA, 0.1, 0), "members per generation"),
    ],
)
def test_nonsense_gets_a_sentence(make: object, words: str) -> None:
    assert callable(make)
    with pytest.raises(UserError, match=words):
        make()
