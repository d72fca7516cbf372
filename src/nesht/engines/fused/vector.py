"""Thousands of noisy locomotion environments as one Gymnasium vector environment, stepped by the fused kernel."""

from __future__ import annotations

from collections.abc import Sequence
from functools import cache
from typing import Any, ClassVar

import gymnasium
import numpy as np
from gymnasium.spaces import Box
from gymnasium.vector import AutoresetMode
from gymnasium.vector.utils import batch_space

from nesht import keys
from nesht.engines import cores
from nesht.engines.fused.device import BLOCK, Cpu, Cuda, Device
from nesht.engines.fused.engine import fingerprint
from nesht.engines.fused.library import check_device, compiling, load, warp
from nesht.engines.fused.planar import PlanarModel
from nesht.engines.fused.reading import read_planar
from nesht.errors import UserError, near_matches
from nesht.tasks.imperfect import Distractors, RewardMask
from nesht.tasks.locomotion import LOCOMOTION, Locomotion

FEW = 1024
"""Up to so many copies, each has a block of its own on a GPU: those of one block wait for each other at every turn."""


class FusedVectorEnv(gymnasium.vector.VectorEnv):
    """Many copies of a planar locomotion environment, with distractors and masked rewards.

    A copy that ends starts a new episode in the same step (`AutoresetMode.SAME_STEP`); `infos["final_obs"]` holds what
    every copy saw at the end of the step before that, `infos["dense_reward"]` the rewards before the mask,
    `infos["diverged"]` whose simulation blew up. On the CPU arrays are NumPy's; on CUDA they are torch tensors that
    stay on the GPU and are overwritten by the next step.

    Args:
        env: Hopper-v4, Walker2d-v4, HalfCheetah-v4, or v5.
        num_envs: how many copies.
        noise_ratio: distractors per real feature.
        reward_keep: keep each reward with this probability.
        reward_every: keep every n-th reward instead.
        max_episode_steps: end an episode after this many steps (default: the environment's own limit).
        device: "cpu", "cuda", or "auto".
        threads: on the CPU; 0 is one per core.
        precision: "single", or "double" to compare with C MuJoCo.
    """

    metadata: ClassVar[dict[str, Any]] = {"autoreset_mode": AutoresetMode.SAME_STEP}

    def __init__(
        self,
        env: str,
        num_envs: int = 1,
        *,
        noise_ratio: float = 0.0,
        reward_keep: float = 1.0,
        reward_every: int = 0,
        max_episode_steps: int | None = None,
        device: str = "auto",
        threads: int = 0,
        precision: str = "single",
    ):
        if env not in LOCOMOTION:
            raise UserError(f"no fused environment {env!r}.{near_matches(env, LOCOMOTION)}")
        if num_envs < 1:
            raise UserError(f"num_envs must be at least 1, got {num_envs}.")
        body = LOCOMOTION[env]
        where = check_device(device)
        self._wp, model = warp(), body.model()
        self._real = {"single": self._wp.float32, "double": self._wp.float64}[precision]
        self._device: Device = Cuda() if where == "cuda" else Cpu(threads or cores())
        self._limit = max_episode_steps or body.time_limit
        self._mask = RewardMask(reward_keep, reward_every)
        self._block = 1 if num_envs <= FEW else BLOCK
        with compiling:
            self._start, self._advance = step_kernels(read_planar(model), body, precision, where == "cuda")
            for kernel in (self._start, self._advance):
                load(kernel, where, self._block if where == "cuda" else None)
        real = 2 * model.nq - 1
        seen = real + Distractors(noise_ratio).count(real)
        low, high = model.actuator_ctrlrange.T
        kind = self._wp.dtype_to_numpy(self._real)
        self.num_envs = num_envs
        self.single_observation_space = Box(-np.inf, np.inf, (seen,), kind)
        self.single_action_space = Box(low.astype(np.float32), high.astype(np.float32))
        self.observation_space = batch_space(self.single_observation_space, num_envs)
        self.action_space = batch_space(self.single_action_space, num_envs)
        wp, zeros = self._wp, self._device.zeros
        self._qpos, self._qvel, self._guess = (zeros((num_envs, n), self._real) for n in (model.nq, model.nv, model.nv))
        self._time, self._episode = zeros((num_envs,), wp.int32), self._device.put(np.zeros(num_envs), wp.uint32)
        self._reward, self._ended = zeros((num_envs, 2), self._real), zeros((num_envs, 3), wp.bool)
        self._final, self._seen = zeros((num_envs, seen), self._real), zeros((num_envs, seen), self._real)
        self._seeds, self._member = (self._device.put(np.zeros(num_envs), wp.uint32) for _ in range(2))
        self._action: Any = None

    def reset(
        self, *, seed: int | Sequence[int | None] | None = None, options: dict[str, Any] | None = None
    ) -> tuple[Any, dict[str, Any]]:
        """Begin a new episode everywhere; without a seed, other ones than before.

        One seed is for all copies, which differ by their places; of a list, every copy gets the one that it would get
        if it were alone.
        """
        wp, n = self._wp, self.num_envs
        alone = isinstance(seed, Sequence)
        given = list(seed) if isinstance(seed, Sequence) else [keys.entropy() % keys.WORD if seed is None else seed] * n
        seeds = [keys.entropy() % keys.WORD if each is None else int(each) for each in given]
        if len(seeds) != n or not all(0 <= each < keys.WORD for each in seeds):
            raise UserError(f"seeds must be one number, or {n} of them, in [0, 2**32), got {seed}.")
        device, names = self._device, [self._seeds, self._member, self._episode]
        device.meet()
        for array, values in zip(names, (seeds, np.zeros(n) if alone else np.arange(n), np.zeros(n)), strict=True):
            device.copy(device.put(values, wp.uint32), array)  # arrays stay where they are: graphs may know them
        device.copy(device.zeros((n,), wp.int32), self._time)
        device.copy(device.zeros(self._guess.shape, self._real), self._guess)
        state = [self._qpos, self._qvel, self._seen]
        device.spread(self._start, n, lambda first: [*names, first, *state], self._block)
        device.meet()
        return self._out(self._seen), {}

    def _out(self, array: Any) -> Any:
        """Return an array for the caller: on the CPU his own, on CUDA a view that the next step overwrites."""
        native = self._device.native(array)
        return native.copy() if isinstance(native, np.ndarray) else native

    def step(self, actions: Any) -> tuple[Any, Any, Any, Any, dict[str, Any]]:
        """Step all copies; see the class about what ends."""
        self.step_async(actions)
        return self.step_wait()

    def step_async(self, actions: Any) -> None:
        """Begin a step; on CUDA, what the caller launches until `step_wait` runs beside it."""
        device = self._device
        device.meet()  # the actions may still be under way
        shape = tuple(actions.shape) if hasattr(actions, "shape") else np.shape(actions)
        if shape != self.action_space.shape:
            raise UserError(f"actions must have the shape {self.action_space.shape}, got {shape}.")
        self._action = device.put(actions, self._real)
        rules = [self._limit, self._mask.keep, self._mask.every]
        state = [self._qpos, self._qvel, self._guess, self._time, self._reward, self._ended, self._final, self._seen]
        names = [self._seeds, self._member, self._episode]
        given = [*rules, self._action, *state]
        device.spread(self._advance, self.num_envs, lambda first: [*names, first, *given], self._block)

    def step_wait(self) -> tuple[Any, Any, Any, Any, dict[str, Any]]:
        """End the step that was begun; returns what `step` returns."""
        self._device.meet()
        reward, ended = self._out(self._reward), self._out(self._ended)
        infos = {
            "final_obs": self._out(self._final),
            "_final_obs": ended[:, 0] | ended[:, 1],
            "dense_reward": reward[:, 1],
            "diverged": ended[:, 2],
        }
        return self._out(self._seen), reward[:, 0], ended[:, 0], ended[:, 1], infos

    @property
    def state(self) -> tuple[np.ndarray, np.ndarray]:
        """Positions and velocities of all copies."""
        return self._device.get(self._qpos).copy(), self._device.get(self._qvel).copy()

    @state.setter
    def state(self, state: tuple[np.ndarray, np.ndarray]) -> None:
        if any(np.shape(new) != old.shape for new, old in zip(state, (self._qpos, self._qvel), strict=True)):
            raise UserError(f"positions and velocities must have the shapes {self._qpos.shape}, {self._qvel.shape}.")
        self._qpos, self._qvel = (self._device.put(np.array(part), self._real) for part in state)

    def close_extras(self, **kwargs: Any) -> None:
        """Free the device."""
        self._device.close()


@cache
def step_kernels(robot: PlanarModel, body: Locomotion, precision: str, fast_math: bool) -> tuple[Any, Any]:
    """Return the kernels that start and advance environments."""
    from nesht.engines.fused.kernel.integrators import build_physics
    from nesht.engines.fused.kernel.shapes import Shapes
    from nesht.engines.fused.kernel.step import build_steps
    from nesht.engines.fused.kernel.task import build_task

    shapes = Shapes(robot, precision)
    task = build_task(shapes, body, build_physics(shapes).physics_step)
    return build_steps(shapes, task, fingerprint(robot, body, precision, fast_math), fast_math)
