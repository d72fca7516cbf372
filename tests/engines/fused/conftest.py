"""What C MuJoCo makes of a state, for comparison with the fused kernel."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass

import mujoco
import numpy as np
import pytest


@dataclass(frozen=True)
class Steps:
    """Where steps of MuJoCo lead, and what was met on the way, in all evaluations of the dynamics within them."""

    qpos: np.ndarray
    qvel: np.ndarray
    on_floor: np.ndarray
    """Contacts with the floor."""
    on_itself: np.ndarray
    """Contacts between moving parts."""
    at_limits: np.ndarray
    """Joints at their limits."""
    in_two_places: np.ndarray
    """Whether two capsules met in two places: parallel ones, for which the kernel makes one contact."""
    out_of_plane: np.ndarray
    """Whether two parts rubbed out of the plane: capsules whose axes cross."""


def take_steps(
    model: mujoco.MjModel, qpos: np.ndarray, qvel: np.ndarray, ctrl: np.ndarray, physics_steps: int = 1
) -> Steps:
    """Take physics steps from many states, solved to MuJoCo's own optimum."""
    model.opt.tolerance, model.opt.ls_tolerance, model.opt.iterations = 0.0, 1e-12, 40
    steps = Steps(qpos.copy(), qvel.copy(), *np.zeros((5, len(qpos)), int))
    planes = set(np.flatnonzero(model.geom_type == mujoco.mjtGeom.mjGEOM_PLANE).tolist())
    data, now = mujoco.MjData(model), 0

    def look(_: mujoco.MjModel, data: mujoco.MjData) -> None:
        """Take notes; MuJoCo asks for controls once per evaluation, Runge-Kutta's stages included."""
        steps.at_limits[now] += data.nl
        if data.ncon:
            contact = data.contact
            pairs = [tuple(pair) for pair in contact.geom.tolist() if planes.isdisjoint(pair)]
            steps.on_floor[now] += data.ncon - len(pairs)
            steps.on_itself[now] += len(pairs)
            steps.in_two_places[now] |= len(set(pairs)) < len(pairs)
            if pairs:
                steps.out_of_plane[now] |= np.any((np.abs(contact.frame[:, 1]) > 0.5) & (contact.dim > 1))

    mujoco.set_mjcb_control(look)
    try:
        for now in range(len(qpos)):
            mujoco.mj_resetData(model, data)
            data.qpos[:], data.qvel[:], data.ctrl[:] = qpos[now], qvel[now], ctrl[now]
            mujoco.mj_step(model, data, physics_steps)
            steps.qpos[now], steps.qvel[now] = data.qpos, data.qvel
    finally:
        mujoco.set_mjcb_control(None)
    return steps


@pytest.fixture(scope="session")
def mujoco_steps() -> Callable[..., Steps]:
    return take_steps
