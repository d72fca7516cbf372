"""Distractors and reward masks as anyone's agent sees them."""

from __future__ import annotations

import gymnasium
import numpy as np
import pytest

import nesht
from nesht.tasks.imperfect import Distractors, RewardMask


def pendulum(**mask: float) -> gymnasium.Env:
    return nesht.MaskReward(nesht.NoiseFeatures(gymnasium.make("Pendulum-v1"), ratio=4), **mask)


def play(env: gymnasium.Env, seed: int | None, steps: int = 200) -> tuple[np.ndarray, np.ndarray, np.ndarray]:
    observed, rewards, dense = [env.reset(seed=seed)[0]], [], []
    for _ in range(steps):
        observation, reward, _, _, info = env.step(np.zeros(1, np.float32))
        observed.append(observation)
        rewards.append(reward)
        dense.append(info["dense_reward"])
    return np.array(observed), np.array(rewards), np.array(dense)


def test_noise_is_appended_fresh_and_standard_normal() -> None:
    env = pendulum(keep=0.5)
    observed, _, _ = play(env, seed=0)
    assert observed.shape[1] == 3 + 12 == env.observation_space.shape[0]
    noise = observed[:, 3:]
    assert len(np.unique(noise)) == noise.size
    # 2412 draws: the mean's standard error is 0.0204, the variance's about 0.0288; five of each, p < 1e-6.
    assert abs(noise.mean()) < 5 * 0.0204
    assert abs(noise.var() - 1) < 5 * 0.0288


def test_mask_keeps_rewards_as_they_are_or_zeroes_them() -> None:
    _, rewards, dense = play(pendulum(keep=0.1), seed=0)
    kept = rewards != 0
    assert np.array_equal(rewards[kept], dense[kept])
    assert 5 < kept.sum() < 40  # 20 expected of 200, standard deviation 4.2


def test_every_nth_reward_is_kept() -> None:
    _, rewards, _ = play(pendulum(every=10), seed=0)
    assert np.array_equal(np.flatnonzero(rewards), np.arange(9, 200, 10))


def test_same_seed_same_episode_and_no_seed_goes_on() -> None:
    env = pendulum(keep=0.1)
    first, again, other = play(env, 3), play(env, 3), play(env, None)
    assert all(np.array_equal(a, b) for a, b in zip(first, again, strict=True))
    assert not np.array_equal(first[0][:, 3:], other[0][:, 3:])


@pytest.mark.parametrize("mask", [RewardMask(0.1), RewardMask(every=7), RewardMask()])
def test_drawing_a_block_equals_drawing_step_by_step(mask: RewardMask) -> None:
    block = mask.draw(mask.stream(5), 0, 300)
    stream = mask.stream(5)
    assert np.array_equal(block, [mask.draw(stream, t, 1)[0] for t in range(300)])


def test_blocks_of_noise_equal_single_steps() -> None:
    stream = Distractors.stream(5)
    steps = np.concatenate([stream.standard_normal(7) for _ in range(50)])
    assert np.array_equal(Distractors.stream(5).standard_normal((50, 7)).ravel(), steps)


@pytest.mark.parametrize("base", ["Hopper-v4", "Walker2d-v5", "HalfCheetah-v4"])
@pytest.mark.filterwarnings("ignore:.*out of date:DeprecationWarning")
def test_registered_ids_make_noisy_environments(base: str) -> None:
    env = gymnasium.make(f"nesht/Noisy{base}", noise_ratio=3)
    plain = gymnasium.make(base).observation_space.shape[0]
    assert env.observation_space.shape == (4 * plain,)
    observation, _ = env.reset(seed=0)
    assert observation.shape == (4 * plain,)
    assert env.spec is not None
    assert env.spec.max_episode_steps == 1000
    steps, done = 0, False
    while not done:
        _, _, terminated, truncated, info = env.step(env.action_space.sample())
        steps, done = steps + 1, terminated or truncated
        assert "dense_reward" in info
    assert steps <= 1000
