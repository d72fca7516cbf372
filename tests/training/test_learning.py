"""It learns: short, seeded runs that must pass a threshold (longer ones: `make learns`)."""

from __future__ import annotations

import json
import math
from pathlib import Path
from typing import Any

import gymnasium
import numpy as np
import pytest
from gymnasium.spaces import Box

import nesht
from nesht.errors import UserError
from nesht.training.recorder import COLUMNS

PENDULUM: dict[str, Any] = {
    "env": "InvertedPendulum-v5",
    "noise_ratio": 10,
    "n": 32,
    "lr": 0.005,
    "sigma": 0.05,
    "generations": 15,
    "max_episode_steps": 100,
    "engine": "gym",
    "threads": 1,
    "progress": False,
}


def test_a_pole_is_balanced_among_noise_and_the_real_inputs_are_found() -> None:
    fleet = nesht.train_fleet([0, 1], **PENDULUM)
    for run in fleet:
        assert run.evaluations[0]["score"] < 40  # a policy of zeros soon drops the pole
        assert run.evaluations[-1]["score"] > 80  # of 100
    kept = np.mean([run.policy.used[:4].sum() / run.policy.used.sum() for run in fleet])
    assert kept > 2 * 4 / 44  # twice what chance would give


@pytest.mark.parametrize("sparsifier", ["hard", "once", "l1", "soft", "none"])
def test_every_sparsifier_trains_and_leaves_what_it_promises(sparsifier: str) -> None:
    penalty = {"l1": 0.01, "soft": 5.0}.get(sparsifier, 0.0)
    options = {**PENDULUM, "generations": 2, "n": 8, "sparsifier": sparsifier, "penalty": penalty, "bias": False}
    run = nesht.train(**options)
    nonzero = int(np.count_nonzero(run.policy.parameters))
    assert set(run.history[0]) == set(COLUMNS)
    assert nonzero == {"hard": 4, "once": 4}.get(sparsifier, nonzero)
    assert (run.history[-1]["nonzeros"] == 44) == (sparsifier in ("once", "l1", "none"))
    scores = [row["score"] for row in run.evaluations]
    assert run.score == pytest.approx(scores[-1] if sparsifier == "once" else np.mean(scores))  # of what is saved
    assert run.evaluations[-1]["features_used"] == run.policy.used.sum()


def test_rollouts_are_averaged_and_counted() -> None:
    run = nesht.train(**{**PENDULUM, "generations": 1, "n": 4, "rollouts": 3, "max_episode_steps": 5})
    assert run.history[0]["episodes"] == 12
    assert run.steps == 12 * 5


def test_evaluation_counts_every_reward_and_no_steps() -> None:
    run = nesht.train(**{**PENDULUM, "generations": 1, "reward_keep": 1e-9, "max_episode_steps": 3})
    assert run.history[0]["fitness_max"] == 0  # training saw no reward at all
    assert [row["score"] for row in run.evaluations] == [3, 3]
    assert run.steps == 32 * 3


def test_the_wall_clock_is_a_budget_too() -> None:
    run = nesht.train(**{**PENDULUM, "generations": None, "seconds": 0.01, "n": 4})
    assert run.generations == 1


def test_a_step_cost_cancels_a_survival_bonus() -> None:
    # CartPole pays 1 per step and nothing else: without its bonus there is nothing left to learn from.
    options = {"env": "CartPole-v1", "n": 8, "generations": 3, "sigma": 0.5, "lr": 0.1, "progress": False, "threads": 1}
    free, cancelled = (nesht.train(**options, step_cost=cost) for cost in (0.0, 1.0))
    assert np.any(free.policy.parameters != 0)
    assert np.all(cancelled.policy.parameters == 0)
    assert all(row["fitness_max"] == 0 for row in cancelled.history)
    assert cancelled.score > 0  # scores still count every reward


def test_a_step_cost_counts_only_the_share_of_rewards_that_training_sees() -> None:
    options = {"env": "Hopper-v4", "reward_every": 5, "n": 8, "generations": 1, "engine": "batch", "progress": False}
    plain, cost = (nesht.train(**options, step_cost=cost).history[0] for cost in (0.0, 2.0))
    mean_steps = plain["steps"] / plain["episodes"]
    assert plain["fitness_mean"] - cost["fitness_mean"] == pytest.approx(2.0 * mean_steps / 5)


class Falls(gymnasium.Env[np.ndarray, np.ndarray]):
    """Every reward is no number."""

    observation_space, action_space = Box(-1, 1, (2,)), Box(-1, 1, (1,))

    def reset(self, **_: Any) -> tuple[np.ndarray, dict[str, Any]]:
        return np.ones(2), {}

    def step(self, action: np.ndarray) -> tuple[np.ndarray, float, bool, bool, dict[str, Any]]:
        return np.ones(2), math.nan, True, False, {}


def test_a_run_without_a_score_says_so_in_its_summary(tmp_path: Path) -> None:
    run = nesht.train(env=Falls, n=2, generations=1, threads=1, progress=False, out=tmp_path / "run")
    assert math.isnan(run.score)
    assert json.loads((tmp_path / "run" / "summary.json").read_text())["score"] is None


@pytest.mark.parametrize("seed", [1.7, -1, 2**32, "3"])
def test_seeds_are_whole_numbers(seed: Any) -> None:
    with pytest.raises(UserError, match="a seed must be"):
        nesht.train(**PENDULUM, seed=seed)
