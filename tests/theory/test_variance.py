"""The paper's unbiasedness and variance lemmas, checked on the ordinary strategy code with stated false-alarm rates.

Every check below is of the form |estimate - truth| < 5.5 standard errors of a mean of hundreds of independent terms: a
normal deviate leaves that by chance with probability 4e-8. All seeds are fixed, so a check that passes always passes.
"""

from __future__ import annotations

import numpy as np
import pytest

from nesht.errors import UserError
from nesht.theory import Problem, Quadratic, Steps, episode_spread, estimator_variance, example_1, gradients, sparse

FAR = 5.5
TOP = np.array([1.0, -0.5, 0.0, 0.0, 0.0])
PROBLEMS: dict[str, Problem] = {
    "quadratic": Quadratic(TOP, spread=0.5, noise=0.4, curve=0.8, level=1.5),
    "steps": Steps(TOP, noise=2.0, width=0.7),
    "example 1": example_1(2, 3, spread=0.8),
}
THETA = np.array([0.3, 0.2, -0.4, 0.1, 0.5])
SIGMA = 0.4


@pytest.mark.parametrize("theta", [THETA, sparse(THETA, 2)], ids=["dense", "2-sparse"])
@pytest.mark.parametrize("name", PROBLEMS)
def test_the_estimate_is_unbiased_and_scatters_by_exactly_the_variance_we_derive(name: str, theta: np.ndarray) -> None:
    problem, n, rollouts = PROBLEMS[name], 8, 3
    estimates = gradients(problem.returns, theta, SIGMA, n, rollouts, repeats=600)
    error = estimates.std(axis=0, ddof=1) / len(estimates) ** 0.5
    assert (np.abs(estimates.mean(axis=0) - problem.gradient(theta, SIGMA)) < FAR * error).all()
    found, exact = estimator_variance(estimates), float(problem.estimator_variance(theta, SIGMA, n, rollouts))
    assert abs(found.value - exact) < FAR * found.error
    assert FAR * found.error < 0.5 * exact  # sharp enough to notice a factor 2


def test_luck_averages_out_over_members_and_not_only_over_rollouts() -> None:
    # Nearly all luck: C = 4 beside B = 1. The lemma's bound stays above C d / (N sigma^2) however many members there
    # are; what is measured is n times smaller.
    problem, n, rollouts = PROBLEMS["steps"], 24, 2
    found = estimator_variance(gradients(problem.returns, THETA, SIGMA, n, rollouts, repeats=300))
    as_printed = problem.noise**2 * problem.d / (rollouts * SIGMA**2)
    assert found.value + FAR * found.error < as_printed / 8


def test_for_equal_episodes_members_are_worth_more_than_rollouts() -> None:
    # Exactly: (signal - slope^2 sigma^2 + luck / N) / n, so n N = 32 members of one episode have the smaller error.
    problem = PROBLEMS["quadratic"]
    exact = [float(problem.estimator_variance(THETA, SIGMA, n, 32 // n)) for n in (2, 8, 32)]
    assert exact == sorted(exact, reverse=True)
    few, many = (
        estimator_variance(gradients(problem.returns, THETA, SIGMA, n, 32 // n, repeats=300, seed=n)) for n in (2, 32)
    )
    assert few.value - many.value > FAR * (few.error**2 + many.error**2) ** 0.5


def test_the_spread_of_returns_is_that_of_the_problem() -> None:
    # At members, E v(theta + sigma eps) = v(theta) + s^2 sigma^2 d, and the signal of a quadratic is
    # sigma^2 c^2 r^2 + sigma^4 c^2 d / 2: the variance of -c sigma r.eps - c sigma^2 |eps|^2 / 2.
    problem = Quadratic(TOP, spread=0.5, noise=0.4, curve=0.8, level=1.5)
    off = ((THETA - TOP) ** 2).sum()
    still = episode_spread(problem.returns, THETA, 0.0, members=400, rollouts=4)
    around = episode_spread(problem.returns, THETA, SIGMA, members=2000, rollouts=4)
    luck = 0.4**2 + 0.5**2 * off
    assert abs(still.variance.value - luck) < FAR * still.variance.error
    assert abs(around.variance.value - (luck + 0.5**2 * SIGMA**2 * 5)) < FAR * around.variance.error
    assert around.worst > around.variance.value
    signal = SIGMA**2 * 0.8**2 * off + SIGMA**4 * 0.8**2 * 5 / 2
    assert around.signal == pytest.approx(signal, rel=FAR * (3 / 2000) ** 0.5)  # its kurtosis is below 4
    assert abs(still.signal) < FAR * luck / 4 * (2 / 400) ** 0.5
    assert still.mean == pytest.approx(float(problem.value(THETA)), abs=FAR * (luck / 1600) ** 0.5)


def test_the_measured_variance_is_that_of_a_sample() -> None:
    found = estimator_variance(np.array([[0.0, 1.0], [2.0, 1.0], [4.0, 1.0]]))
    assert found.value == pytest.approx(4)  # (4 + 0 + 4) / (3 - 1)
    assert found.error == pytest.approx(np.std([6, 0, 6], ddof=1) / 3**0.5)
    assert (found.low, found.high) == pytest.approx((4 - 1.96 * found.error, 4 + 1.96 * found.error))


def test_the_bound_seen_is_the_largest_mean_return_of_a_member() -> None:
    flat = Quadratic(np.zeros(3), curve=0.0, level=-7.0)
    assert episode_spread(flat.returns, np.ones(3), 0.3, members=4, rollouts=2).bound == pytest.approx(7)


def test_perturbing_zeros_less_lowers_the_luck_of_the_members_of_a_sparse_policy() -> None:
    problem = example_1(2, 198)
    wide, narrow = (
        episode_spread(problem.returns, problem.top, 0.1, 300, 4, explore=explore).variance for explore in (1.0, 0.1)
    )
    assert abs(wide.value - 0.01 * 200) < FAR * wide.error
    assert abs(narrow.value - 0.01 * (2 + 198 * 0.01)) < FAR * narrow.error


@pytest.mark.parametrize(
    ("ask", "words"),
    [
        (lambda f: gradients(f, THETA, 0.0, 4), "sigma must be a positive number"),
        (lambda f: gradients(f, THETA, 0.1, 1), "must be at least 2, got 1"),
        (lambda f: gradients(f, THETA, 0.1, 4, rollouts=0), "rollouts must be a whole number"),
        (lambda f: gradients(f, THETA[None], 0.1, 4), "theta must be a vector"),
        (lambda f: estimator_variance(gradients(f, THETA, 0.1, 4, repeats=1)), "at least 2 repeats"),
        (lambda f: episode_spread(f, THETA, -0.1), "sigma must be 0 or more"),
        (lambda f: episode_spread(f, THETA, rollouts=1), "at least 2 rollouts"),
        (lambda f: episode_spread(f, THETA, 0.1, explore=0.0), "explore must lie in"),
    ],
)
def test_nonsense_gets_a_sentence(ask: object, words: str) -> None:
    assert callable(ask)
    with pytest.raises(UserError, match=words):
        ask(PROBLEMS["steps"].returns)
