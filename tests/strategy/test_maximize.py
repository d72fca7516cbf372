from __future__ import annotations

from typing import Any

import numpy as np
import pytest

from nesht import maximize
from nesht.errors import UserError

D = 40
TRUE = np.zeros(D)
TRUE[[3, 11, 12, 30]] = 1.0, -1.5, 0.8, 2.0


def hill(x: np.ndarray) -> float:
    return -float(((x - TRUE) ** 2).sum())


def bowl(x: np.ndarray) -> float:
    return -float(x @ x)


@pytest.mark.parametrize("memory", [0.0, 0.9])
def test_the_support_of_a_sparse_optimum_is_found(memory: float) -> None:
    result = maximize(hill, np.zeros(D), k=4, memory=memory, n=32, lr="cosine:0.1:0.01", generations=120)
    assert result.support.tolist() == [3, 11, 12, 30]
    assert np.allclose(result.x, TRUE, atol=0.1)
    assert result.fun == hill(result.x)


def test_the_support_is_found_under_noise() -> None:
    rng = np.random.default_rng(0)
    result = maximize(lambda x: hill(x) + 0.5 * rng.standard_normal(), np.zeros(D), k=4)
    assert result.support.tolist() == [3, 11, 12, 30]


def test_a_function_that_is_sometimes_nan_can_be_maximised() -> None:
    result = maximize(lambda x: np.nan if x[0] > 0.3 else hill(x), np.zeros(D), k=4, n=32, generations=120)
    assert result.support.tolist() == [3, 11, 12, 30]


def test_groups_are_kept_or_dropped_whole_and_the_right_ones_found() -> None:
    groups = np.arange(D) % 10  # scattered: group 3 is 3, 13, 23, 33
    top = np.where(np.isin(groups, [3, 7]), 0.7, 0.0)
    top[[0, 1]] = 0.4  # of some use too, but alone in their groups
    result = maximize(lambda x: -float(((x - top) ** 2).sum()), np.zeros(D), k=2, groups=groups, n=32, generations=150)
    assert result.support.tolist() == np.flatnonzero(np.isin(groups, [3, 7])).tolist()


def test_without_k_nothing_is_cut() -> None:
    result = maximize(bowl, np.ones(5), generations=5)
    assert result.support.tolist() == [0, 1, 2, 3, 4]


def test_at_most_k_entries_are_ever_nonzero_and_x0_is_not_touched() -> None:
    start = np.arange(1.0, 9.0)
    seen: list[int] = []
    maximize(bowl, start, k=3, n=8, generations=10, callback=lambda _, x, __: seen.append(int(np.count_nonzero(x))))
    assert seen == [3] * 10
    assert (start == np.arange(1.0, 9.0)).all()


def test_the_numbers_it_reports_are_those_of_the_calls() -> None:
    calls: list[float] = []

    def counted(x: np.ndarray) -> float:
        calls.append(bowl(x))
        return calls[-1]

    result = maximize(counted, np.ones(3), n=6, generations=4)
    assert (result.nfev, result.nit) == (len(calls), 4)
    assert len(calls) == 4 * 6 + 1
    assert np.allclose(result.history, np.reshape(calls[:-1], (4, 6)).mean(axis=1))
    assert result.fun == calls[-1]


def test_the_callback_sees_every_generation_and_can_stop() -> None:
    seen: list[tuple[int, float]] = []

    def stop_at_third(generation: int, x: np.ndarray, mean: float) -> bool:
        seen.append((generation, mean))
        x[:] = 99  # its own copy
        return generation == 2

    result = maximize(bowl, np.ones(3), n=6, generations=50, callback=stop_at_third)
    assert [generation for generation, _ in seen] == [0, 1, 2]
    assert [mean for _, mean in seen] == result.history.tolist()
    assert result.nit == 3
    assert (np.abs(result.x) < 2).all()


def test_the_same_seed_gives_the_same_result_and_another_seed_another() -> None:
    a, b, c = (maximize(hill, np.zeros(D), k=4, n=8, generations=5, seed=seed) for seed in (1, 1, 2))
    assert (a.x == b.x).all()
    assert a.history.tolist() == b.history.tolist()
    assert (a.x != c.x).any()


@pytest.mark.parametrize(
    ("options", "word"),
    [
        ({"k": 0}, "k "),
        ({"k": 4}, "k .* 3"),
        ({"k": -1}, "k "),
        ({"x0": np.zeros((2, 3))}, "x0"),
        ({"x0": np.zeros(0)}, "x0"),
        ({"x0": 3.0}, "x0"),
        ({"x0": [1.0, np.nan, 0.0]}, "x0"),
        ({"groups": np.zeros(2, int)}, "groups"),
        ({"groups": np.array([0, 0, 1])}, "groups"),
        ({"groups": np.array([0, 0, 0]), "k": 2}, "k .* 1"),
        ({"n": 7}, "n"),
        ({"n": 0}, "n"),
        ({"memory": 1.5}, "memory"),
        ({"memory": -0.1}, "memory"),
        ({"generations": 0}, "generations"),
        ({"sigma": 0}, "sigma"),
        ({"sigma": "often"}, "sigma"),
        ({"lr": "linear:1"}, "lr"),
        ({"shaping": "rank"}, "rank"),
        ({"seed": -1}, "seed"),
        ({"seed": 2**32}, "seed"),
    ],
)
def test_bad_input_is_refused_before_the_first_call(options: dict[str, Any], word: str) -> None:
    def never(x: np.ndarray) -> float:
        raise AssertionError("f was called")

    with pytest.raises(UserError, match=word):
        maximize(never, **{"x0": np.ones(3), **options})
