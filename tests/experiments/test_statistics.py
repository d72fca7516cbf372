"""Statistics over seeds: right on average, honest about few runs."""

from __future__ import annotations

import numpy as np
import pytest

from nesht.experiments.statistics import (
    interquartile_mean,
    mean,
    probability_of_improvement,
    stratified_mean,
)


def test_intervals_hold_the_truth_about_as_often_as_they_say() -> None:
    rng, held = np.random.default_rng(0), 0
    for _ in range(200):
        found = mean(list(rng.normal(10, 3, 20)))
        held += found.low <= 10 <= found.high
    # 95 % promised; a percentile bootstrap of 20 numbers gives about 92 %. Below 175 of 200 has a chance of 0.3 %.
    assert 175 <= held <= 199


def test_one_wild_run_moves_the_interquartile_mean_less_than_the_mean() -> None:
    scores = [float(score) for score in range(20)]
    wild = [*scores[:-1], 1000.0]
    assert abs(interquartile_mean(wild).value - interquartile_mean(scores).value) < 1e-9
    assert mean(wild).value - mean(scores).value > 40


def test_groups_count_alike_whatever_their_scale_and_size() -> None:
    assert stratified_mean([[1.0, 1.0], [3.0, 3.0, 3.0, 3.0]]).value == pytest.approx(2.0)


@pytest.mark.parametrize(
    ("ours", "theirs", "chance"),
    [([3, 4], [1, 2], 1.0), ([1, 2], [3, 4], 0.0), ([1, 2], [1, 2], 0.5), ([2, 2], [2, 2], 0.5)],
)
def test_probability_of_improvement_counts_pairs(ours: list[float], theirs: list[float], chance: float) -> None:
    assert probability_of_improvement(ours, theirs).value == pytest.approx(chance)


def test_a_single_run_claims_nothing() -> None:
    one = mean([5.0])
    assert one.value == 5.0
    assert (one.low, one.high) == (-np.inf, np.inf)
    assert not one.above(mean([1.0, 1.1]))
