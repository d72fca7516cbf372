"""FusedVectorEnv: a Gymnasium vector environment whose copies know nothing of each other."""

from __future__ import annotations

import math
from typing import Any

import numpy as np
import pytest
from gymnasium.vector import AutoresetMode

from nesht.engines.fused.vector import FusedVectorEnv
from nesht.errors import UserError
from nesht.tasks.locomotion import LOCOMOTION


def make(num_envs: int = 4, env: str = "Hopper-v4", **options: Any) -> FusedVectorEnv:
    return FusedVectorEnv(env, num_envs, device="cpu", **{"threads": 1, **options})


def play(
    vector: FusedVectorEnv, steps: int, seed: int | list[int] = 0, copies: int = 64
) -> list[tuple[np.ndarray, ...]]:
    """Act at random; returns all that was seen, of every step. The actions of copy i do not depend on their number."""
    actions = np.random.default_rng(0).uniform(-1, 1, (steps, copies, *vector.single_action_space.shape))
    seen: list[tuple[np.ndarray, ...]] = [(vector.reset(seed=seed)[0].copy(),)]
    for action in actions:
        observation, reward, terminated, truncated, infos = vector.step(action[: vector.num_envs])
        parts = (observation, reward, terminated, truncated, infos["final_obs"], infos["dense_reward"])
        seen.append(tuple(part.copy() for part in parts))
    vector.close()
    return seen


def assert_same(ours: list[tuple[np.ndarray, ...]], theirs: list[tuple[np.ndarray, ...]]) -> None:
    for our_step, their_step in zip(ours, theirs, strict=True):
        for ours_part, theirs_part in zip(our_step, their_step, strict=True):
            assert np.array_equal(ours_part, theirs_part[: len(ours_part)])


@pytest.mark.parametrize(("env", "real", "motors"), [("Hopper-v4", 11, 3), ("HalfCheetah-v4", 17, 6)])
def test_shapes_spaces_and_infos_are_those_that_are_promised(env: str, real: int, motors: int) -> None:
    vector = make(5, env, noise_ratio=2)
    assert vector.metadata["autoreset_mode"] == AutoresetMode.SAME_STEP
    assert vector.single_observation_space.shape == (3 * real,)
    assert vector.observation_space.shape == (5, 3 * real)
    assert vector.single_action_space.shape == (motors,)
    assert vector.action_space.shape == (5, motors)
    observation, infos = vector.reset(seed=0)
    assert observation in vector.observation_space
    assert infos == {}
    observation, reward, terminated, truncated, infos = vector.step(vector.action_space.sample())
    assert observation in vector.observation_space
    assert {array.shape for array in (reward, terminated, truncated)} == {(5,)}
    assert terminated.dtype == truncated.dtype == bool
    assert set(infos) == {"final_obs", "_final_obs", "dense_reward", "diverged"}
    assert infos["final_obs"].shape == observation.shape
    vector.close()


def test_the_same_seed_gives_the_same_bits_on_any_number_of_threads() -> None:
    options: dict[str, Any] = {"noise_ratio": 1, "reward_keep": 0.5, "max_episode_steps": 40}
    usual = play(make(33, **options), 60, seed=7)
    for threads in (2, 3):
        assert_same(play(make(33, threads=threads, **options), 60, seed=7), usual)
    other = play(make(33, **options), 1, seed=8)
    assert not np.array_equal(other[0][0], usual[0][0])


def test_a_copy_does_not_depend_on_how_many_there_are() -> None:
    options: dict[str, Any] = {"noise_ratio": 1, "reward_keep": 0.5, "max_episode_steps": 40}
    assert_same(play(make(3, **options), 60), play(make(50, **options), 60))
    first, second = play(make(2, **options), 0)[0][0]
    assert (first != second).all()


def test_with_a_list_of_seeds_a_copy_is_as_if_it_were_alone() -> None:
    options: dict[str, Any] = {"noise_ratio": 1, "reward_keep": 0.5, "max_episode_steps": 40}
    many = play(make(3, **options), 60, seed=[8, 5, 9])
    alone = play(make(1, **options), 60, seed=[8])
    assert_same(alone, many)
    other = make(2, **options)
    assert np.array_equal(other.reset(seed=[9, 5])[0], many[0][0][[2, 1]])
    other.close()


def test_without_a_seed_every_reset_is_another() -> None:
    vector = make(2)
    assert (vector.reset()[0].copy() != vector.reset()[0]).all()
    assert (vector.reset(seed=[3, 4])[0].copy() != vector.reset(seed=[4, 3])[0]).all()
    vector.close()


def test_a_copy_that_falls_starts_anew_in_the_same_step() -> None:
    vector = make(64)
    vector.reset(seed=0)
    body, real = LOCOMOTION["Hopper-v4"], 11
    fallen = np.zeros(64, int)
    for _ in range(60):
        observation, _, terminated, truncated, infos = vector.step(np.full((64, 3), 1.0))
        qpos, qvel = vector.state
        final = infos["final_obs"]
        np.testing.assert_array_equal(infos["_final_obs"], terminated)
        assert not truncated.any()
        up = (final[:, 0] > body.z_range[0]) & (np.abs(final[:, 1]) < body.angle_range[1])
        np.testing.assert_array_equal(up, ~terminated)
        # Where one ended the new episode's first state is seen, elsewhere the state is the final one.
        assert (np.abs(qvel[terminated]) <= body.reset_noise).all()
        np.testing.assert_array_equal(observation[~terminated], final[~terminated])
        assert (observation[terminated] != final[terminated]).any(axis=1).all()
        np.testing.assert_array_equal(observation[:, :5], qpos[:, 1:])
        np.testing.assert_array_equal(observation[:, 5:real], np.clip(qvel, -10, 10))
        fallen += terminated
    assert (fallen >= 2).all()  # so that episodes after the first are among these
    vector.close()


def test_an_episode_that_reaches_its_limit_is_truncated_not_terminated() -> None:
    vector = make(8, "HalfCheetah-v4", max_episode_steps=5)
    first = vector.reset(seed=0)[0].copy()
    starts = [first]
    for step in range(1, 16):
        observation, _, terminated, truncated, infos = vector.step(np.zeros((8, 6)))
        assert not terminated.any()
        assert truncated.all() == truncated.any() == (step % 5 == 0)
        np.testing.assert_array_equal(infos["_final_obs"], truncated)
        if step % 5 == 0:
            starts.append(observation.copy())
    assert len(np.unique(np.array(starts)[:, :, 0])) == 4 * 8  # every episode of every copy starts elsewhere
    vector.close()


def test_the_state_can_be_set_and_the_simulation_goes_on_from_it() -> None:
    vector = make(2, "HalfCheetah-v4")
    vector.reset(seed=0)
    qpos, qvel = vector.state
    after = vector.step(np.full((2, 6), 0.5))[0].copy()
    vector.reset(seed=1)
    vector.state = (qpos.copy(), qvel.copy())
    np.testing.assert_array_equal(vector.step(np.full((2, 6), 0.5))[0], after)
    vector.close()


def test_what_was_seen_stays_as_it_was() -> None:
    vector = make(2)
    first = vector.reset(seed=0)[0]
    before = first.copy()
    second, reward, *_ = vector.step(np.zeros((2, 3)))
    kept = (second.copy(), reward.copy())
    vector.step(np.ones((2, 3)))
    vector.close()
    np.testing.assert_array_equal(first, before)
    np.testing.assert_array_equal(second, kept[0])
    np.testing.assert_array_equal(reward, kept[1])


def test_a_state_that_was_set_belongs_to_the_caller() -> None:
    vector = make(2)
    vector.reset(seed=0)
    state = vector.state  # in the kernel's precision
    before = state[0].copy()
    vector.state = state
    vector.step(np.zeros((2, 3)))
    vector.close()
    np.testing.assert_array_equal(state[0], before)


@pytest.mark.parametrize("shape", [(2, 4), (3, 3)])
def test_actions_of_another_shape_are_refused(shape: tuple[int, int]) -> None:
    vector = make(2)
    vector.reset(seed=0)
    try:
        with pytest.raises(UserError):
            vector.step(np.zeros(shape))
    finally:
        vector.close()


def test_masked_rewards_are_zero_and_dense_ones_are_in_the_infos() -> None:
    kept = [(reward, dense) for _, reward, *_, dense in play(make(64, "HalfCheetah-v4", reward_keep=0.3), 50)[1:]]
    reward, dense = (np.array(part) for part in zip(*kept, strict=True))
    assert (dense != 0).all()
    seen = reward != 0
    np.testing.assert_array_equal(reward, np.where(seen, dense, 0))
    error = math.sqrt(0.3 * 0.7 / seen.size)
    assert abs(seen.mean() - 0.3) < 4 * error
    assert (seen.any(axis=0) & ~seen.all(axis=0)).all()  # every copy and every step has luck of its own
    assert (seen.any(axis=1) & ~seen.all(axis=1)).all()


def test_every_third_reward_is_seen_counted_from_the_start_of_each_episode() -> None:
    steps = play(make(8, "HalfCheetah-v4", reward_every=3, max_episode_steps=7), 21)[1:]
    seen = [bool(reward.all()) for _, reward, *_ in steps]
    assert [bool(reward.any()) for _, reward, *_ in steps] == seen
    assert seen == [step % 7 in (3, 6) for step in range(1, 22)]


def test_distractors_are_fresh_standard_normals() -> None:
    steps = play(make(64, "HalfCheetah-v4", noise_ratio=3, max_episode_steps=20), 60)
    noise = np.array([step[0] for step in steps])[:, :, 17:].astype(np.float64)
    assert noise.shape[2] == 51
    n = noise.size
    assert abs(noise.mean()) < 4 / math.sqrt(n)
    assert abs(noise.var() - 1) < 4 * math.sqrt(2 / n)
    assert len(np.unique(noise)) > 0.99 * n  # nothing is drawn twice, neither over copies nor over steps nor episodes
    assert abs((noise[1:] * noise[:-1]).mean()) < 4 / math.sqrt(n)


@pytest.mark.parametrize("env", ["Hopper-v4", "Walker2d-v4", "HalfCheetah-v4"])
def test_episodes_start_where_gymnasiums_do(env: str) -> None:
    body = LOCOMOTION[env]
    vector = make(20_000, env)
    vector.reset(seed=0)
    qpos, qvel = (part.astype(np.float64) for part in vector.state)
    vector.close()
    offset = qpos - body.model().qpos0
    scale, count = body.reset_noise, len(qpos)
    assert_uniform(offset / scale)
    if body.gaussian_velocity:
        assert np.abs(qvel.mean(axis=0)).max() < 5 * scale / math.sqrt(count)
        assert np.abs(qvel.std(axis=0) / scale - 1).max() < 5 / math.sqrt(2 * count)
        beyond = (np.abs(qvel) > 2 * scale).mean(axis=0)
        assert np.abs(beyond - 0.0455).max() < 5 * math.sqrt(0.0455 / count)
    else:
        assert_uniform(qvel / scale)
    columns = np.hstack([offset, qvel, offset**2, qvel**2])
    columns = (columns - columns.mean(axis=0)) / columns.std(axis=0)
    correlation = columns.T @ columns / count
    np.fill_diagonal(correlation, 0)
    assert np.abs(correlation).max() < 6 / math.sqrt(count)


def assert_uniform(samples: np.ndarray) -> None:
    """Every column is uniform in [-1, 1]: Kolmogorov's and Smirnov's test, which errs once in 10 000 columns."""
    n = len(samples)
    assert np.abs(samples).max() <= 1 + 1e-4  # single precision, beside positions around 1
    expected = (np.sort(samples, axis=0) + 1) / 2
    distance = np.abs(expected - (np.arange(n)[:, None] + 0.5) / n).max()
    assert distance < math.sqrt(-math.log(1e-4 / 2) / 2 / n)


def test_mistakes_are_explained() -> None:
    with pytest.raises(UserError, match=r"no fused environment 'Hoper-v4'. Did you mean Hopper-v"):
        FusedVectorEnv("Hoper-v4", device="cpu")
    with pytest.raises(UserError, match="num_envs must be at least 1, got 0"):
        FusedVectorEnv("Hopper-v4", 0, device="cpu")
