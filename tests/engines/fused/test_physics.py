"""One environment step of the fused kernel is one environment step of C MuJoCo."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import mujoco
import numpy as np
import pytest

from nesht.engines.fused.vector import FusedVectorEnv
from nesht.tasks.locomotion import LOCOMOTION

COUNT = 2000
"""States per environment."""


def hard_states(model: mujoco.MjModel) -> tuple[np.ndarray, np.ndarray, np.ndarray]:
    """Return actions and states that a robot would rather not meet: in the floor, beyond limits, folded up, fast."""
    rng = np.random.default_rng(0)
    qpos = model.qpos0 + rng.normal(size=(COUNT, model.nq)) * [1, 0.3, 0.6, *[0.8] * (model.nq - 3)]
    limited = np.flatnonzero(model.jnt_limited)
    low, high = model.jnt_range[limited].T
    shape = (COUNT, len(limited))
    inside, around = rng.uniform(low, high, shape), rng.choice([low, high], COUNT) + rng.uniform(-0.1, 0.1, shape)
    qpos[:, limited] = np.where(rng.random(shape) < 0.5, inside, around)
    data, floor = mujoco.MjData(model), model.geom("floor").id
    for row in qpos[::2]:  # half of them lie or stand: their lowest part is near the floor
        data.qpos[:] = row
        mujoco.mj_kinematics(model, data)
        row[1] += rng.uniform(-0.1, 0.2) - np.delete(data.geom_xpos[:, 2], floor).min()
    qvel = rng.normal(size=(COUNT, model.nv)) * rng.choice([0.1, 1, 5], (COUNT, 1))
    return qpos, qvel, rng.uniform(-1.5, 1.5, (COUNT, model.nu))  # actions beyond what the motors can do, too


def compare(env: str, precision: str, mujoco_steps: Callable[..., Any]) -> tuple[Any, np.ndarray, dict[str, Any]]:
    """Return MuJoCo's steps, the kernel's error in each, and all that is said about them."""
    body = LOCOMOTION[env]
    model = body.model()
    qpos, qvel, actions = hard_states(model)
    truth = mujoco_steps(model, qpos, qvel, actions, body.frame_skip)
    vector = FusedVectorEnv(env, COUNT, device="cpu", precision=precision, max_episode_steps=10)
    try:
        vector.reset(seed=0)
        vector.state = (qpos.copy(), qvel.copy())
        _, reward, terminated, truncated, infos = vector.step(actions)
    finally:
        vector.close()
    seen = np.empty(infos["final_obs"].shape)
    body.observe(truth.qpos, truth.qvel, out=seen)
    error = np.abs(infos["final_obs"] - seen).max(axis=1) / (1 + np.abs(truth.qvel).max(axis=1))
    moved = truth.qpos[:, 0] - qpos[:, 0]
    ended = {"terminated": terminated, "truncated": truncated}
    return truth, error, {**infos, **ended, "reward": reward, "moved": moved, "actions": actions}


@pytest.mark.parametrize("env", LOCOMOTION)
def test_in_double_precision_a_step_is_mujocos(mujoco_steps: Callable, env: str) -> None:
    truth, error, said = compare(env, "double", mujoco_steps)
    assert (truth.on_floor > 0).mean() > 0.4  # the sample is as hard as it claims to be
    assert (truth.at_limits > 0).mean() > 0.4
    assert "Hopper" not in env or (truth.on_itself > 0).sum() > 200
    usual = truth.in_two_places == 0
    assert usual.mean() > 0.99
    assert error[usual].max() <= 1e-10

    body = LOCOMOTION[env]
    healthy = body.healthy(truth.qpos, truth.qvel)
    assert healthy.any()
    assert not body.falls or not healthy.all()
    assert np.array_equal(said["terminated"], ~healthy)
    assert not said["truncated"].any()
    assert not said["diverged"].any()
    velocity = said["moved"] / (body.model().opt.timestep * body.frame_skip)
    reward = body.reward(velocity, said["actions"], healthy)
    np.testing.assert_allclose(said["dense_reward"][usual], reward[usual], rtol=1e-9, atol=1e-9)
    assert np.array_equal(said["reward"], said["dense_reward"])  # no mask was asked for


@pytest.mark.parametrize("env", ["Hopper-v4", "Walker2d-v4", "HalfCheetah-v4"])
def test_in_single_precision_a_step_is_close_to_mujocos(mujoco_steps: Callable, env: str) -> None:
    _, error, said = compare(env, "single", mujoco_steps)
    assert np.quantile(error, 0.99) < 1e-3
    assert not said["diverged"].any()
