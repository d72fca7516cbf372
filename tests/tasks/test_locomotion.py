"""Step-for-step parity of the array tasks with Gymnasium, to the bit."""

from __future__ import annotations

import warnings

import gymnasium
import numpy as np
import pytest
from mujoco.batch import Batch

from nesht import keys
from nesht.tasks.locomotion import LOCOMOTION
from nesht.tasks.quiet import quiet_mujoco


def make(env_id: str) -> gymnasium.Env:
    with quiet_mujoco(), warnings.catch_warnings():
        warnings.simplefilter("ignore", DeprecationWarning)
        return gymnasium.make(env_id)


@pytest.mark.parametrize("env_id", LOCOMOTION)
def test_whole_episodes_equal_gymnasium_to_the_bit(env_id: str) -> None:
    body, env = LOCOMOTION[env_id], make(env_id)
    model = body.model()
    batch = Batch(model, nsim=1, nthread=1)
    qpos, qvel, ctrl = batch.bind("qpos"), batch.bind("qvel"), batch.bind("ctrl")
    dt = model.opt.timestep * body.frame_skip
    observed = np.empty((1, model.nq - 1 + model.nv))
    total, ends = 0, set()
    # Actions beyond the control range too: MuJoCo clamps them, the control cost does not.
    for episode, scale in enumerate((0.02, 0.3, 1.0, 3.0)):
        seed = keys.pack(7, episode)
        rng = np.random.default_rng(episode)
        theirs, _ = env.reset(seed=seed)
        batch.reset(stage=0)
        qpos[0], qvel[0] = body.reset(model, keys.reset_generator(seed))
        batch.forward()
        for step in range(1, 1001):
            body.observe(qpos, qvel, observed)
            assert np.array_equal(observed[0], theirs)
            action = scale * rng.standard_normal((1, model.nu))
            theirs, reward, terminated, truncated, _ = env.step(action[0])
            ctrl[:] = action
            before = qpos[:, 0].copy()
            batch.step(nstep=body.frame_skip)
            up = body.healthy(qpos, qvel)
            assert body.reward((qpos[:, 0] - before) / dt, action, up)[0] == reward
            assert terminated == (not up[0])
            assert truncated == (step == body.time_limit)
            total += 1
            if terminated or truncated:
                ends.add("fell" if terminated else "time")
                break
    assert total > 100
    assert ends == ({"fell"} if body.falls else {"time"})


@pytest.mark.parametrize("env_id", LOCOMOTION)
def test_features_have_one_name_each(env_id: str) -> None:
    names = LOCOMOTION[env_id].feature_names()
    assert len(set(names)) == len(names) == make(env_id).observation_space.shape[0]


def test_v5_pays_no_bonus_on_the_step_that_falls() -> None:
    fallen, action = np.array([False]), np.zeros((1, 3))
    velocity = np.zeros(1)
    assert LOCOMOTION["Hopper-v4"].reward(velocity, action, fallen)[0] == 1
    assert LOCOMOTION["Hopper-v5"].reward(velocity, action, fallen)[0] == 0
