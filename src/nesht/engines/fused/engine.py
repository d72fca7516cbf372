"""The `fused` engine: episodes in a compiled kernel, thousands at a time.

It gives the same bits for an episode whatever else is in flight on the device. Against C MuJoCo it agrees to rounding
in every step and in distribution over episodes: its random numbers come from the same keys, by another generator.
"""

from __future__ import annotations

import hashlib
import time
from functools import cache
from typing import Any

import numpy as np

from nesht import keys
from nesht.engines.episodes import Engine, Episodes, Outcomes
from nesht.engines.fused.device import Cpu, Cuda, Device
from nesht.engines.fused.library import compiling, load, warp
from nesht.engines.fused.planar import PlanarModel
from nesht.engines.fused.reading import read_planar
from nesht.errors import UserError
from nesht.policies.network import Network
from nesht.strategy.perturb import Population, Source
from nesht.tasks.locomotion import Locomotion
from nesht.tasks.task import Task


class FusedEngine(Engine):
    """Runs locomotion tasks whose robots are planar.

    Args:
        task: what to simulate.
        policy: a linear policy or an MLP.
        threads: on a CPU, how many threads.
        device: "cpu" or "cuda".
        precision: "single", or "double" to compare with C MuJoCo.
        noise: "marginal" lets the distractors of a linear policy enter through their exact joint effect on the
            actions, "drawn" draws every one of them; auto chooses the first where it can.
    """

    def __init__(
        self,
        task: Task,
        policy: Network,
        threads: int = 1,
        device: str = "cpu",
        precision: str = "single",
        noise: str = "auto",
    ):
        if task.locomotion is None:
            raise ValueError(f"the fused engine has no kernel for {task.name}")
        self._wp = warp()
        self._task, self._policy, self._body = task, policy, task.locomotion
        self.source: Source = self
        self._device: Device = Cuda() if device == "cuda" else Cpu(threads)
        self._real = {"single": self._wp.float32, "double": self._wp.float64}[precision]
        self._linear = noise != "drawn" and not policy.hidden
        on_gpu = device == "cuda"
        with compiling:  # MuJoCo's compiler, too, is not made for several threads
            robot = read_planar(task.locomotion.model())
            self._episodes = episode_kernel(robot, self._body, precision, None if self._linear else policy, on_gpu)
            self._members = member_kernels(precision, len(robot.motors))
            from nesht.engines.fused.kernel.episode import BLOCK

            load(self._episodes, device, BLOCK if on_gpu else None)
            for kernel in vars(self._members).values():
                load(kernel, device)
        self._n_real, self._block = task.n_real, BLOCK
        self.seconds = dict.fromkeys(("policies", "episodes", "outcomes"), 0.0)
        """Time spent on asking for policies, on making them and running episodes, and on bringing outcomes home."""
        self.work: Any = None
        """The environment steps that each thread took in the last call of `run`, on the device."""

    def run(self, episodes: Episodes) -> Outcomes:
        """Run all episodes."""
        wp, device, count = self._wp, self._device, len(episodes)
        n_seen = self._n_real if self._linear else self._policy.inputs
        outcomes = Outcomes.empty(count, n_seen)
        if count == 0:
            return outcomes
        population, began = episodes.population, time.perf_counter()
        seed, generation = self._names(population.seed, population.generation)
        who = device.put(np.stack([episodes.run, *_signed(episodes)]), wp.int32)
        lot = device.put(np.stack([episodes.luck, episodes.rollout]).astype(np.uint32), wp.uint32)
        mean, scale = self._normaliser(episodes)
        policy = self._policies(population, [who[i] for i in range(3)], seed, generation, mean, scale)
        result = device.zeros((count, 4), self._real)
        shift, total, squares = (device.zeros((count, n_seen), self._real) for _ in range(3))
        mask, limit = self._task.mask, self._task.time_limit or self._body.time_limit
        distractors = self._policy.inputs - self._n_real

        def inputs(counter: Any, stop: int, work: Any) -> list[Any]:
            rules = [limit, distractors, mask.keep, mask.every]
            episode = [who[0], seed, generation, lot[0], lot[1], counter, stop]
            return [policy, mean, scale, *episode, *rules, result, shift, total, squares, work]

        began = self._clock("policies", began)
        self.work = device.consume(self._episodes, count, self._block, inputs)
        device.wait()
        began = self._clock("episodes", began)
        fitness, score, steps, diverged = device.get(result).T.astype(np.float64)
        outcomes.finish(
            np.arange(count),
            fitness=fitness,
            score=score,
            steps=steps.astype(np.int64),
            diverged=diverged > 0,
            shift=device.get(shift).astype(np.float64),
            total=device.get(total).astype(np.float64),
            squares=device.get(squares).astype(np.float64),
        )
        self._clock("outcomes", began)
        return outcomes

    def _clock(self, part: str, began: float) -> float:
        """Book the time since `began` on a part; returns the time now."""
        now = time.perf_counter()
        self.seconds[part] += now - began
        return now

    def _normaliser(self, episodes: Episodes) -> tuple[Any, Any]:
        """Return the mean and scale of every run on the device."""
        shape = (len(episodes.population.seed), self._policy.inputs)
        normaliser = episodes.normaliser
        mean, scale = (normaliser.mean, normaliser.scale) if normaliser else (np.zeros(shape), np.ones(shape))
        return self._device.put(mean, self._real), self._device.put(scale, self._real)

    def _policies(
        self, population: Population, who: list[Any], seed: Any, generation: Any, mean: Any, scale: Any
    ) -> Any:
        """Make the policies of all episodes on the device for the kernel; `who` is their run, number and sign."""
        device, run, count = self._device, who[0], who[0].shape[0]
        theta, width = device.put(population.theta, self._real), device.put(population.width, self._real)
        members = device.zeros((count, self._policy.size), self._real)
        common = [theta, width, seed, generation, *who]
        rows = count * -(-self._policy.size // 4)
        if rows >= 2**31:
            raise UserError(f"{count} policies of {self._policy.size} weights are too many at a time; use a smaller n.")
        device.spread(self._members.members, rows, lambda first: [*common, first, members])
        if not self._linear:
            return members
        motors, features = self._policy.outputs, self._policy.inputs
        folded = device.zeros((count, (self._n_real + 1) * motors + motors * (motors + 1) // 2), self._real)
        shape = [features, self._n_real, int(self._policy.bias)]
        device.spread(self._members.fold, count, lambda first: [members, mean, scale, run, first, *shape, folded])
        return folded

    def directions(self, seed: np.ndarray, generation: np.ndarray, start: int, stop: int, d: int) -> np.ndarray:
        """See `Source.directions`."""
        device, shape = self._device, (len(seed), stop - start, d)
        out = device.zeros(shape, self._real)
        names = self._names(seed, generation)
        rows = shape[0] * shape[1] * -(-d // 4)
        device.spread(self._members.directions, rows, lambda first: [*names, start, first, out])
        return device.get(out)

    def combine(self, population: Population, weights: np.ndarray) -> np.ndarray:
        """See `Source.combine`."""
        wp, device, shape = self._wp, self._device, population.theta.shape
        out, given = device.zeros(shape, wp.float64), device.put(weights, wp.float64)
        names = self._names(population.seed, population.generation)
        rows = shape[0] * -(-shape[1] // 4)
        device.spread(self._members.combine, rows, lambda first: [*names, given, first, out])
        return device.get(out)

    def norms(self, population: Population) -> np.ndarray:
        """See `Source.norms`."""
        wp, device, runs = self._wp, self._device, len(population.seed)
        sides = 2 if population.mirrored else 1
        out = device.zeros((runs, population.n_directions, sides), wp.float64)
        names = self._names(population.seed, population.generation)
        theta, width = device.put(population.theta, self._real), device.put(population.width, self._real)
        rows = runs * population.n_directions
        device.spread(self._members.norms, rows, lambda first: [*names, theta, width, first, out])
        return device.get(out).reshape(runs, -1)

    def _names(self, seed: np.ndarray, generation: np.ndarray) -> list[Any]:
        return [self._device.put(np.asarray(x, np.uint32), self._wp.uint32) for x in (seed, generation)]

    def close(self) -> None:
        """Free the device."""
        self._device.close()


def _signed(episodes: Episodes) -> tuple[np.ndarray, np.ndarray]:
    """Return the direction of every episode's member, and its sign: 0 for the policy itself."""
    member = np.asarray(episodes.member, np.int64)
    own = member == keys.EVALUATION
    if not episodes.population.mirrored:
        return np.where(own, 0, member), np.where(own, 0, 1)
    return np.where(own, 0, member // 2), np.where(own, 0, 1 - 2 * (member % 2))


@cache
def episode_kernel(
    robot: PlanarModel, body: Locomotion, precision: str, network: Network | None, fast_math: bool
) -> Any:
    """Return the kernel for a robot and task, with a network, or with linear policies whose noise is marginal."""
    from nesht.engines.fused.kernel.episode import build_episodes, build_linear, build_network
    from nesht.engines.fused.kernel.integrators import build_physics
    from nesht.engines.fused.kernel.shapes import Shapes
    from nesht.engines.fused.kernel.task import build_task

    shapes = Shapes(robot, precision)
    task = build_task(shapes, body, build_physics(shapes).physics_step)
    policy = build_linear(shapes, task) if network is None else build_network(shapes, task, network)
    name = f"episodes_{fingerprint(robot, body, precision, network, fast_math)}"
    return build_episodes(shapes, task, policy, name, fast_math)


@cache
def member_kernels(precision: str, motors: int) -> Any:
    """Return the kernels that make perturbations and members."""
    from nesht.engines.fused.kernel.members import build_all

    return build_all(precision, motors)


def fingerprint(*parts: Any) -> str:
    """Return a short text that differs wherever one of the parts does: it names a kernel in Warp's cache."""
    return hashlib.sha256(repr(parts).encode()).hexdigest()[:16]
