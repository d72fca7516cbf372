"""What a task says about itself, and what it refuses."""

from __future__ import annotations

import gymnasium
import numpy as np
import pytest

import nesht
from nesht.errors import UserError
from nesht.tasks.imperfect import Distractors
from nesht.tasks.task import Task


class Named(gymnasium.Env):
    """An environment of one's own: names its features, has an action space that starts at 5."""

    observation_space = gymnasium.spaces.Box(-1, 1, (3,))
    action_space = gymnasium.spaces.Discrete(2, start=5)
    feature_names = ("speed", "slope", "colour")

    def reset(self, *, seed: int | None = None, options: dict | None = None) -> tuple[np.ndarray, dict]:
        super().reset(seed=seed)
        return np.zeros(3, np.float32), {}

    def step(self, action: int) -> tuple[np.ndarray, float, bool, bool, dict]:
        assert self.action_space.contains(action)
        return self.np_random.uniform(-1, 1, 3).astype(np.float32), float(action), False, False, {}


def pictures() -> gymnasium.Env:
    env = Named()
    env.observation_space = gymnasium.spaces.Box(0, 255, (8, 8, 3), np.uint8)
    return env


def dictionaries() -> gymnasium.Env:
    env = Named()
    env.observation_space = gymnasium.spaces.Dict({"a": gymnasium.spaces.Box(0, 1, (2,))})
    return env


def no_environment() -> int:
    return 3


def test_features_are_named_real_ones_first() -> None:
    task = Task(Named, Distractors(1.5))
    assert task.feature_names == ["speed", "slope", "colour", "noise 0", "noise 1", "noise 2", "noise 3"]
    assert task.discrete
    assert task.outputs == 2


def test_a_factory_can_be_named_by_text() -> None:
    task = Task(f"{__name__}:Named", max_episode_steps=3)
    assert task.feature_names == ["speed", "slope", "colour"]
    env = task.make()
    env.reset(seed=0)
    assert [env.step(5)[3] for _ in range(3)] == [False, False, True]


@pytest.mark.parametrize(
    ("env", "words"),
    [
        ("Hoper-v4", "Did you mean Hopper-v4"),
        ("nowhere.to.be.found:thing", "cannot import"),
        (pictures, "Box observations of shape (8, 8, 3)"),
        (dictionaries, "Dict observations"),
        (no_environment, "not a gymnasium.Env"),
    ],
)
def test_what_cannot_be_trained_on_is_refused_in_one_sentence(env: object, words: str) -> None:
    with pytest.raises(UserError) as refusal:
        _ = Task(env).spaces  # type: ignore[arg-type]
    assert words in str(refusal.value)


class Liar(gymnasium.Env):
    """Returns fewer numbers than it promises."""

    observation_space, action_space = gymnasium.spaces.Box(-1, 1, (12,)), gymnasium.spaces.Box(-1, 1, (1,))

    def reset(self, **_: object) -> tuple[np.ndarray, dict]:
        return np.ones(1), {}


def test_observations_of_another_size_than_promised_are_refused() -> None:
    with pytest.raises(UserError, match=r"shape \(1,\).* promise \(12,\)"):
        nesht.train(env=Liar, n=2, generations=1, threads=1, progress=False)


@pytest.mark.parametrize("name", ["nope", "keys"])
def test_a_factory_that_is_none_is_named(name: str) -> None:
    with pytest.raises(UserError, match=f"nesht:{name} is no function"):
        nesht.train(env=f"nesht:{name}", generations=1, progress=False)


@pytest.mark.parametrize("rule", [{"keep": -3.0}, {"keep": 1.5}, {"every": -1}])
def test_a_mask_that_makes_no_sense_is_refused(rule: dict) -> None:
    with pytest.raises(UserError, match="reward_"):
        nesht.MaskReward(gymnasium.make("Hopper-v5"), **rule)
    with pytest.raises(UserError, match="noise_ratio"):
        nesht.NoiseFeatures(gymnasium.make("Hopper-v5"), ratio=-1.0)


@pytest.mark.parametrize("ratio", [-1.0, float("nan"), 1e9])
def test_noise_is_neither_negative_nor_endless(ratio: float) -> None:
    with pytest.raises(UserError, match="noise_ratio must be"):
        Task("Hopper-v4", Distractors(ratio))
