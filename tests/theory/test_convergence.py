"""Distance to stationarity, and Algorithm 1 on problems whose gradient is known."""

from __future__ import annotations

import numpy as np
import pytest

from nesht import keys
from nesht.errors import UserError
from nesht.theory import Quadratic, Steps, distance_to_stationarity, example_1, follow, sparse


def by_directions(theta: np.ndarray, gradient: np.ndarray, k: int) -> float:
    """The distance from first principles.

    A vector v is a Frechet normal of the k-sparse vectors at theta if v.(x - theta) <= o(|x - theta|) for all k-sparse
    x. Moving one entry by +h or -h is such an x if it keeps theta k-sparse, so v is zero there; no other x asks for
    more, since every k-sparse x near theta moves only such entries. The subdifferential is -gradient + normals.
    """
    normal = [np.count_nonzero(theta + 1e-9 * e) > k for e in np.eye(len(theta))]
    return float(np.linalg.norm(gradient[~np.array(normal)]))


@pytest.mark.parametrize("nonzero", range(6))
@pytest.mark.parametrize("k", range(1, 6))
def test_the_distance_is_that_of_the_subdifferential(nonzero: int, k: int) -> None:
    rng = np.random.default_rng(nonzero)
    gradient, theta = rng.standard_normal(5), np.zeros(5)
    theta[rng.permutation(5)[:nonzero]] = rng.standard_normal(nonzero)
    if nonzero > k:
        with pytest.raises(UserError, match=f"at most k = {k} nonzero entries, got {nonzero}"):
            distance_to_stationarity(theta, gradient, k)
        return
    rows = np.tile(theta, (2, 1)), np.stack([gradient, 3 * gradient])
    expected = by_directions(theta, gradient, k)
    assert distance_to_stationarity(theta, gradient, k) == pytest.approx(expected)
    assert distance_to_stationarity(*rows, k) == pytest.approx([expected, 3 * expected])


@pytest.mark.parametrize("k", [None, 2])
def test_following_is_algorithm_1_written_out(k: int | None) -> None:
    problem = Quadratic(np.array([1.0, 0.5, 0.0, 0.0]), noise=0.2, curve=0.7, level=1.0)
    sigma, lr, n, rollouts, seed = 0.3, 0.05, 6, 3, 11
    path = follow(problem, np.zeros(4), sigma=sigma, lr=lr, n=n, rollouts=rollouts, generations=5, seeds=[seed], k=k)
    theta = np.zeros(4)
    for t in range(5):
        luck = keys.generator(keys.pack(seed, t), keys.Stream.NOISE).standard_normal((n, rollouts))
        total = np.zeros(4)
        for i in range(n):
            eps = keys.generator(keys.pack(seed, t, i), keys.Stream.PERTURBATION).standard_normal(4)
            for j in range(rollouts):
                total += (problem.value(theta + sigma * eps) + 0.2 * luck[i, j]) * eps
        theta = theta + lr / (n * rollouts * sigma) * total
        if k is not None:
            theta[np.argsort(-np.abs(theta))[k:]] = 0
        slope = problem.gradient(theta, sigma)
        distance = np.linalg.norm(slope[theta != 0])
        assert path.squares[t, 0] == pytest.approx(distance**2)
        assert path.error[t, 0] == pytest.approx(((theta - problem.top) ** 2).sum())
    assert path.theta[0] == pytest.approx(theta)
    assert path.mean_square()[2, 0] == pytest.approx(path.squares[:3, 0].mean())


@pytest.mark.parametrize("curve", [0.0, 0.5])
def test_the_distance_to_the_top_moves_as_the_exact_variance_says(curve: float) -> None:
    # One step of NES: E |theta' - top|^2 = (1 - lr curve)^2 r^2 + lr^2 variance. As printed (curve 0) Example 1 has no
    # signal and NES drifts away from top, the faster the more coordinates there are. 5.5 standard errors over 1500
    # independent runs: 4e-8.
    problem, sigma, lr, n = example_1(2, 10, spread=0.9, curve=curve), 0.2, 0.02, 4
    theta = np.full(12, 0.3)
    start = ((theta - problem.top) ** 2).sum()
    path = follow(problem, theta, sigma=sigma, lr=lr, n=n, generations=1, seeds=range(1500))
    drift = lr**2 * float(problem.estimator_variance(theta, sigma, n))
    expected = (1 - lr * curve) ** 2 * start + drift
    error = path.error[0].std(ddof=1) / 1500**0.5
    assert abs(path.error[0].mean() - expected) < 5.5 * error
    assert drift > 10 * error  # the drift is seen


def test_the_mean_square_falls_like_one_over_t() -> None:
    # Where the gradient vanishes fast enough, the sum of the squares stays put and its mean falls as 1 / T.
    problem = Quadratic(np.array([1.0, 1.0, 0.0, 0.0, 0.0, 0.0]))
    start = np.array([0.2, 0.2, 0.0, 0.0, 0.0, 0.0])
    means = follow(problem, start, sigma=0.1, lr=0.1, n=32, generations=240, seeds=range(2), k=2).mean_square()
    assert (means[239] / means[59] < 0.3).all()
    assert (means[239] / means[59] >= 0.25).all()  # a mean of nonnegative squares cannot fall faster


def test_a_point_can_be_stationary_and_useless() -> None:
    # All k weights on coordinates that do not matter: no gradient on them, so the theorem is content.
    problem = Steps(np.array([1.0, 1.0, 0.0, 0.0]), width=0.8)
    useless = np.array([0.0, 0.0, 0.5, -0.5])
    slope = problem.gradient(useless, 0.5)
    assert distance_to_stationarity(useless, slope, 2) == 0
    assert np.linalg.norm(slope) > 0.2
    assert problem.smoothed(useless, 0.5) < 0.4 * problem.smoothed(problem.top, 0.5)


def test_sparse_keeps_the_largest() -> None:
    rows = np.array([[1.0, -3.0, 2.0], [0.5, 0.1, -0.2]])
    assert (sparse(rows, 2) == [[0, -3, 2], [0.5, 0, -0.2]]).all()
    assert (sparse(rows[0], 1) == [0, -3, 0]).all()


@pytest.mark.parametrize(
    ("change", "words"),
    [
        ({"k": 5}, "between 1 and d = 4, got 5"),
        ({"k": 0}, "between 1 and d = 4, got 0"),
        ({"sigma": -1.0}, "sigma must be a positive number"),
        ({"lr": 0.0}, "lr .* must be a positive number"),
        ({"generations": 0}, "generations must be a whole number"),
        ({"rollouts": 0}, "rollouts must be a whole number"),
        ({"n": 1}, "must be at least 2"),
        ({"k": 2, "memory": 1.5}, r"memory must lie in \[0, 1\]"),
    ],
)
def test_nonsense_gets_a_sentence(change: dict[str, float], words: str) -> None:
    options = {"sigma": 0.1, "lr": 0.1, "n": 4, "generations": 1, "seeds": [0], **change}
    with pytest.raises(UserError, match=words):
        follow(example_1(2, 2), np.zeros(4), **options)  # type: ignore[arg-type]


def test_k_beyond_d_is_refused_everywhere() -> None:
    with pytest.raises(UserError, match="between 1 and d = 3, got 4"):
        sparse(np.ones(3), 4)
    with pytest.raises(UserError, match="between 1 and d = 3, got 4"):
        distance_to_stationarity(np.ones(3), np.ones(3), 4)
