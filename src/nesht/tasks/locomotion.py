"""Hopper, Walker2d and HalfCheetah as pure array functions of MuJoCo states, many states at a time.

They are Gymnasium's environments, v4 and v5, to the bit: the same models, resets, observations, rewards and ends
(`tests/tasks/test_locomotion.py` steps both side by side). Being functions of arrays they can serve thousands of
simulations in one call, which is what the fast engines need.
"""

from __future__ import annotations

from dataclasses import dataclass, replace
from pathlib import Path

import gymnasium
import mujoco
import numpy as np

from nesht.tasks.quiet import quiet_mujoco

INFINITE = float("inf")


@dataclass(frozen=True)
class Locomotion:
    """The constants of one environment; every method takes arrays with a leading simulation axis."""

    xml: str
    """File name of the model among Gymnasium's assets."""
    frame_skip: int
    """Physics steps per environment step."""
    reset_noise: float
    """Scale of the random initial state."""
    control_cost: float
    """Weight of the squared action in the reward."""
    gaussian_velocity: bool = False
    """Whether the initial velocity is Gaussian instead of uniform."""
    velocity_clip: float | None = None
    """Observed velocities are clipped to plus or minus this."""
    healthy_reward: float = 0.0
    """Bonus per step for staying up."""
    z_range: tuple[float, float] = (-INFINITE, INFINITE)
    """The height of the torso must lie strictly inside, or the episode ends."""
    angle_range: tuple[float, float] = (-INFINITE, INFINITE)
    """The same for its angle."""
    state_bound: float = INFINITE
    """The same for every other position (from the angle on) and velocity."""
    bonus_on_fall: bool = True
    """Whether the last step, on which the robot falls, still earns the bonus (v4 yes, v5 no)."""
    time_limit: int = 1000
    """Environment steps in a full episode."""

    def model(self) -> mujoco.MjModel:
        """Compile the MuJoCo model."""
        assets = Path(gymnasium.__file__).parent / "envs" / "mujoco" / "assets"
        with quiet_mujoco():  # the models use an attribute that new versions of MuJoCo call deprecated
            return mujoco.MjModel.from_xml_path(str(assets / self.xml))

    @property
    def falls(self) -> bool:
        """Whether an episode can end before its time limit."""
        return self.z_range[0] > -INFINITE

    def reset(self, model: mujoco.MjModel, rng: np.random.Generator) -> tuple[np.ndarray, np.ndarray]:
        """Draw the initial (qpos, qvel) of one episode, with the same draws as Gymnasium."""
        scale = self.reset_noise
        qpos = model.qpos0 + rng.uniform(low=-scale, high=scale, size=model.nq)
        if self.gaussian_velocity:
            return qpos, scale * rng.standard_normal(model.nv)
        return qpos, rng.uniform(low=-scale, high=scale, size=model.nv)

    def observe(self, qpos: np.ndarray, qvel: np.ndarray, out: np.ndarray) -> None:
        """Write the observations (all positions but the first, then velocities) into `out`."""
        n = qpos.shape[1] - 1
        out[:, :n] = qpos[:, 1:]
        if self.velocity_clip is None:
            out[:, n:] = qvel
        else:
            np.clip(qvel, -self.velocity_clip, self.velocity_clip, out=out[:, n:])

    def healthy(self, qpos: np.ndarray, qvel: np.ndarray) -> np.ndarray:
        """Return whether each robot is still up."""
        if not self.falls:
            return np.ones(len(qpos), bool)
        z, angle = qpos[:, 1], qpos[:, 2]
        up = (self.z_range[0] < z) & (z < self.z_range[1])
        up &= (self.angle_range[0] < angle) & (angle < self.angle_range[1])
        if self.state_bound < INFINITE:
            up &= (np.abs(qpos[:, 2:]) < self.state_bound).all(axis=1)
            up &= (np.abs(qvel) < self.state_bound).all(axis=1)
        return up

    def reward(self, velocity: np.ndarray, action: np.ndarray, healthy: np.ndarray) -> np.ndarray:
        """Return the dense reward of one step from the mean forward velocity over it."""
        reward = velocity
        if self.healthy_reward:
            reward = reward + (self.healthy_reward if self.bonus_on_fall else healthy * self.healthy_reward)
        return reward - self.control_cost * np.add.reduce(np.square(action), axis=1)

    def feature_names(self) -> list[str]:
        """Name the observations after the model's joints."""
        model = self.model()
        joints = [model.joint(i).name for i in range(model.njnt)]
        return [f"position {joint}" for joint in joints[1:]] + [f"velocity {joint}" for joint in joints]


_HOPPER = Locomotion(
    xml="hopper.xml",
    frame_skip=4,
    reset_noise=5e-3,
    control_cost=1e-3,
    velocity_clip=10.0,
    healthy_reward=1.0,
    z_range=(0.7, INFINITE),
    angle_range=(-0.2, 0.2),
    state_bound=100.0,
)
_WALKER = replace(_HOPPER, xml="walker2d.xml", z_range=(0.8, 2.0), angle_range=(-1.0, 1.0), state_bound=INFINITE)
_CHEETAH = Locomotion(xml="half_cheetah.xml", frame_skip=5, reset_noise=0.1, control_cost=0.1, gaussian_velocity=True)

LOCOMOTION: dict[str, Locomotion] = {
    "Hopper-v4": _HOPPER,
    "Hopper-v5": replace(_HOPPER, bonus_on_fall=False),
    "Walker2d-v4": _WALKER,
    "Walker2d-v5": replace(_WALKER, xml="walker2d_v5.xml", bonus_on_fall=False),
    "HalfCheetah-v4": _CHEETAH,
    "HalfCheetah-v5": _CHEETAH,
}
"""The environments that the fast engines can run, by Gymnasium id."""
