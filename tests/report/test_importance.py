"""What the score loses without an input: nothing if it is noise, and the right amount where that is known."""

from __future__ import annotations

import json
from typing import Any

import gymnasium
import numpy as np
import pytest

from nesht.config import RuntimeOptions
from nesht.errors import UserError
from nesht.policies import ConvNet, Moments, Network, Policy
from nesht.report.importance import importance
from nesht.training.evaluation import evaluate_policy

STEPS = 20


class Follow(gymnasium.Env[np.ndarray, Any]):
    """Input 0 is the target plus 3, input 1 noise, input 2 always 5; every step costs the squared distance to it."""

    observation_space = gymnasium.spaces.Box(-np.inf, np.inf, (3,), np.float64)
    action_space: gymnasium.Space[Any] = gymnasium.spaces.Box(-np.inf, np.inf, (1,), np.float64)

    def reset(
        self, *, seed: int | None = None, options: dict[str, Any] | None = None
    ) -> tuple[np.ndarray, dict[str, Any]]:
        super().reset(seed=seed)
        self.steps = 0
        return self.look(), {}

    def look(self) -> np.ndarray:
        self.target, noise = self.np_random.normal(size=2)
        return np.array([self.target + 3, noise, 5.0])

    def step(self, action: Any) -> tuple[np.ndarray, float, bool, bool, dict[str, Any]]:
        cost = float((action[0] - self.target) ** 2)
        self.steps += 1
        return self.look(), -cost, self.steps == STEPS, False, {}


class Guess(Follow):
    """The same with two actions, numbered from 7: is the target positive? Right guesses count 1."""

    action_space = gymnasium.spaces.Discrete(2, start=7)

    def step(self, action: Any) -> tuple[np.ndarray, float, bool, bool, dict[str, Any]]:
        right = (action == 8) == (self.target > 0)
        assert action in (7, 8)
        self.steps += 1
        return self.look(), float(right), self.steps == STEPS, False, {}


class Fragile(Follow):
    """Breaks as soon as the target is missed."""

    def step(self, action: Any) -> tuple[np.ndarray, float, bool, bool, dict[str, Any]]:
        seen, reward, *rest = super().step(action)
        return seen, reward if reward > -1e-3 else float("nan"), *rest


def policy(weights: list[list[float]], env: str = "Follow", normalise: bool = True) -> Policy:
    matrix = np.array(weights)
    network = Network(3, len(matrix), (), bias=False, discrete=env == "Guess")
    moments = Moments(np.array(1.0), np.array([3.0, 0.0, 5.0]), np.ones(3))
    task = {"env": f"{__name__}:{env}", "n_real": 3}
    return Policy(network, matrix.ravel(), moments, normalise, [f"feature {i}" for i in range(3)], task)


def test_losses_are_those_that_theory_says() -> None:
    found = importance(policy([[1.0, 0.0, 0.0]]), 400, threads=1, progress=False)
    assert found.losses.keys() == {0}
    assert found.score.value == pytest.approx(0, abs=1e-3)
    loss = found.losses[0]
    # Without it the action is 0, and the cost the target's variance; shuffled, the action is another such number.
    assert loss.dropped.low < STEPS < loss.dropped.high
    assert loss.shuffled.low < 2 * STEPS < loss.shuffled.high
    assert loss.shuffled.high - loss.shuffled.low < 4


def test_noise_costs_when_it_is_read_and_an_input_that_never_moves_can_be_shuffled_for_free() -> None:
    found = importance(policy([[1.0, 0.5, 1.0]]), 100, threads=1, progress=False)
    noise, constant = found.losses[1], found.losses[2]
    assert noise.dropped.high < 0  # less is lost without it
    assert noise.shuffled.low <= 0 <= noise.shuffled.high  # other noise is as bad
    assert constant.shuffled.value == pytest.approx(0, abs=1e-9)
    assert constant.dropped.value == pytest.approx(0, abs=1e-9)  # its normalised value is 0


def test_the_score_is_that_of_an_evaluation() -> None:
    for env, weights in (("Follow", [[0.5, 0.1, 0.0]]), ("Guess", [[0.0, 0.0, 0.0], [1.0, 0.1, 0.0]])):
        one = policy(weights, env)
        found = importance(one, 10, threads=1, progress=False)
        runtime = RuntimeOptions("gym", threads=1)
        assert found.score.value == pytest.approx(evaluate_policy(one, 10, 0, runtime).scores.mean(), rel=1e-12)


def test_discrete_actions_lose_what_guessing_costs() -> None:
    found = importance(policy([[0.0, 0.0, 0.0], [1.0, 0.0, 0.0]], "Guess"), 200, threads=1, progress=False)
    assert found.score.value == STEPS
    for loss in (found.losses[0].dropped, found.losses[0].shuffled):
        assert loss.low < STEPS / 2 < loss.high


def test_measuring_twice_gives_the_same_numbers_on_any_number_of_processes() -> None:
    one = policy([[1.0, 0.5, 0.0]])
    first, second = (importance(one, 6, threads=threads, progress=False) for threads in (1, 2))
    assert first == second


def test_an_input_that_nobody_can_do_without_leaves_no_number(capsys: pytest.CaptureFixture[str]) -> None:
    found = importance(policy([[1.0, 0.0, 0.0]], "Fragile"), 4, threads=1, progress=False)
    assert found.diverged == 8
    told = json.loads(json.dumps(found.as_dict(), allow_nan=False))
    assert told["losses"]["0"]["dropped"] == {"value": None, "low": None, "high": None}
    assert told["score"]["value"] == pytest.approx(0, abs=1e-3)


def test_progress_goes_to_standard_error(capsys: pytest.CaptureFixture[str]) -> None:
    importance(policy([[1.0, 0.5, 0.0]]), 2, threads=1)
    shown = capsys.readouterr()
    assert "2 of 2 inputs measured" in shown.err
    assert shown.out == ""


def test_what_cannot_be_measured_gets_a_sentence() -> None:
    with pytest.raises(UserError, match="at least 2 episodes"):
        importance(policy([[1.0, 0.0, 0.0]]), 1)
    net = ConvNet(28, 28, 4, 6)
    screens = Policy(net, net.initial(0), Moments.none(1, 0), False, net.names, {"env": "ALE/Qbert-v5", "n_real": 1})
    with pytest.raises(UserError, match="screens"):
        importance(screens, 5)
