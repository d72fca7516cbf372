"""The `batch` engine: C MuJoCo through `mujoco.batch`, one batch of simulations per thread.

Every thread owns a set of *slots*, each a simulation with the parameters, random streams and running sums of the
episode in it. The loop is: fill free slots with waiting episodes, step all occupied slots, hand in what finished. A
finished slot takes the next waiting episode at once; when none waits, occupied slots are moved together so that every
array operation works on one contiguous block. Threads share nothing but the list of waiting episodes, so there is no
barrier between them, and since an episode is a pure function of its key, it does not matter which thread runs it.
"""

from __future__ import annotations

import threading
import time
from concurrent.futures import ThreadPoolExecutor

import mujoco
import numpy as np
from mujoco.batch import Batch, SimulationError

from nesht import keys
from nesht.engines.episodes import Engine, Episodes, Outcomes
from nesht.engines.workers import wait_for
from nesht.policies.network import Network
from nesht.tasks.locomotion import Locomotion
from nesht.tasks.quiet import quiet_mujoco
from nesht.tasks.task import Task

AHEAD = 16
"""Environment steps of distractor noise drawn at a time: long enough to leave the interpreter, short enough to stay
in the cache."""

SLOTS = 64
"""About how many simulations a thread steps at a time: enough to amortise Python, few enough to end together."""

BLOWN_UP = slice(mujoco.mjtWarning.mjWARN_BADQPOS.value, mujoco.mjtWarning.mjWARN_BADCTRL.value + 1)
"""The warnings that mean that a state or a control is not a sensible number any more."""


class BatchEngine(Engine):
    """Runs locomotion tasks on C MuJoCo; the reference for every faster engine."""

    def __init__(self, task: Task, policy: Network, threads: int = 1, slots: int | None = None):
        if task.locomotion is None:
            raise ValueError(f"the batch engine has no array form of {task.name}")
        self._n_features, self._threads, self._slots = policy.inputs, threads, slots
        model, most = task.locomotion.model(), -(-slots // threads) if slots else 2 * SLOTS
        self._workers = [_Worker(task, task.locomotion, model, policy, most) for _ in range(threads)]
        self._pool = ThreadPoolExecutor(threads, "nesht-batch")

    def run(self, episodes: Episodes) -> Outcomes:
        """Run all episodes on all threads."""
        waiting = _Waiting(len(episodes), self._width(len(episodes)))
        outcomes = Outcomes.empty(len(episodes), self._n_features)
        with quiet_mujoco():
            futures = [self._pool.submit(worker.run, episodes, waiting, outcomes) for worker in self._workers]
            wait_for(futures, waiting.stop)
        return outcomes

    def close(self) -> None:
        """Stop the threads."""
        self._pool.shutdown()

    @property
    def physics_seconds(self) -> float:
        """The time that all threads together have spent inside MuJoCo's step."""
        return sum(worker.physics_seconds for worker in self._workers)

    def _width(self, episodes: int) -> int:
        """Return how many slots each thread uses: such that episodes of equal length fill whole rounds."""
        if self._slots:
            return -(-self._slots // self._threads)
        share = max(1, -(-episodes // self._threads))
        rounds = max(1, round(share / SLOTS))
        return -(-share // rounds)


class _Waiting:
    """The episodes not yet started, handed out in order to whoever asks."""

    def __init__(self, count: int, width: int):
        self._lock = threading.Lock()
        self._next, self._count = 0, count
        self.width = width
        self.stopped = False

    def take(self, most: int) -> range:
        with self._lock:
            start = self._next
            self._next = min(self._count, start + most)
            return range(start, self._next)

    def stop(self) -> None:
        self.stopped = True
        self.take(self._count)


class _Worker:
    """One thread's slots. Slots 0..busy are occupied; a free slot's contents mean nothing."""

    def __init__(self, task: Task, body: Locomotion, model: mujoco.MjModel, policy: Network, slots: int):
        self.body, self.policy, self.mask, self.slots = body, policy, task.mask, slots
        self.model = model
        self.dt = model.opt.timestep * body.frame_skip
        self.limit = task.time_limit or body.time_limit
        self.n_real = task.n_real
        n = policy.inputs
        self.batch = Batch(model, nsim=slots, nthread=1)
        self.qpos, self.qvel, self.ctrl = (self.batch.bind(name) for name in ("qpos", "qvel", "ctrl"))
        self.ids = np.arange(slots, dtype=np.int32)
        self.episode = np.zeros(slots, np.int64)
        self.parameters = np.zeros((slots, policy.size))
        self.mean, self.scale = np.zeros((slots, n)), np.ones((slots, n))
        self.features, self.shift = np.zeros((slots, n)), np.zeros((slots, n))
        self.total, self.squares = np.zeros((slots, n)), np.zeros((slots, n))
        self.scratch = np.zeros((slots, n))
        self.noise = np.zeros((slots, AHEAD, n - self.n_real))
        self.streams: list[np.random.Generator | None] = [None] * slots
        self.kept = np.zeros((slots, self.limit), bool)
        self.fitness, self.score = np.zeros(slots), np.zeros(slots)
        self.steps = np.zeros(slots, np.int64)
        self.physics_seconds = 0.0

    def run(self, episodes: Episodes, waiting: _Waiting, outcomes: Outcomes) -> None:
        """Run waiting episodes until none is left; what overflows is counted as diverged, not warned about."""
        with np.errstate(all="ignore"):
            self._work(episodes, waiting, outcomes)

    def _work(self, episodes: Episodes, waiting: _Waiting, outcomes: Outcomes) -> None:
        busy, tick = 0, 0
        while not waiting.stopped:
            if busy < waiting.width:
                fresh = waiting.take(waiting.width - busy)
                if fresh:
                    self._start(episodes, fresh, busy, tick)
                    busy += len(fresh)
                elif busy == 0:
                    return
            if tick == AHEAD:
                tick = 0
                self._draw_noise(range(busy), tick)
            done, diverged = self._step(busy, tick, episodes.normaliser is not None)
            tick += 1
            if done.any():
                busy = self._hand_in(outcomes, busy, done, diverged)

    def _start(self, episodes: Episodes, fresh: range, first: int, tick: int) -> None:
        slots = range(first, first + len(fresh))
        ids = self.ids[first : slots.stop]
        self.batch.reset(ids, stage=mujoco.mjtStage.mjSTAGE_NONE.value)
        for slot, i in zip(slots, fresh, strict=True):
            seed = episodes.seed(i)
            self.qpos[slot], self.qvel[slot] = self.body.reset(self.model, keys.reset_generator(seed))
            self.parameters[slot] = episodes.parameters(i)
            self.streams[slot] = keys.generator(seed, keys.Stream.NOISE) if self.noise.size else None
            self.kept[slot] = self.mask.draw(self.mask.stream(seed), 0, self.limit)
            if episodes.normaliser is not None:
                row = episodes.normaliser.rows(int(episodes.run[i]))
                self.mean[slot], self.scale[slot] = row.mean, row.scale
            self.episode[slot] = i
        for array in (self.total, self.squares, self.fitness, self.score, self.steps):
            array[first : slots.stop] = 0
        self.batch.forward(ids)
        self._draw_noise(slots, tick)

    def _draw_noise(self, slots: range, tick: int) -> None:
        """Draw the noise of the steps from `tick` to the end of the block."""
        if self.noise.size and tick < AHEAD:
            for slot in slots:
                stream = self.streams[slot]
                assert stream is not None
                stream.standard_normal(out=self.noise[slot, tick:])

    def _step(self, busy: int, tick: int, normalise: bool) -> tuple[np.ndarray, np.ndarray]:
        """Advance all occupied slots by one environment step; returns which are done, and which of those diverged."""
        qpos, qvel, features = self.qpos[:busy], self.qvel[:busy], self.features[:busy]
        self.body.observe(qpos, qvel, features[:, : self.n_real])
        if self.noise.size:
            features[:, self.n_real :] = self.noise[:busy, tick]
        self._gather_moments(busy)
        seen = features
        if normalise:
            seen = np.subtract(features, self.mean[:busy], out=self.scratch[:busy])
            seen *= self.scale[:busy]
        action = self.policy.forward(self.parameters[:busy], seen)
        self.ctrl[:busy] = action
        before = qpos[:, 0].copy()
        self._advance(busy)
        up = self.body.healthy(qpos, qvel)
        reward = self.body.reward((qpos[:, 0] - before) / self.dt, action, up)
        steps = self.steps[:busy]
        self.score[:busy] += reward
        self.fitness[:busy] += np.where(self.kept[self.ids[:busy], steps], reward, 0.0)
        steps += 1
        # MuJoCo notices a state that blows up, warns and starts that simulation afresh: for us the episode is over.
        diverged = self.batch.warning[:busy, BLOWN_UP, 1].any(axis=1) | ~np.isfinite(reward)
        return ~up | (steps >= self.limit) | diverged, diverged

    def _gather_moments(self, busy: int) -> None:
        features, shift = self.features[:busy], self.shift[:busy]
        first = self.steps[:busy] == 0
        if first.any():
            shift[first] = features[first]
        difference = np.subtract(features, shift, out=self.scratch[:busy])
        self.total[:busy] += difference
        difference *= difference
        self.squares[:busy] += difference

    def _advance(self, busy: int) -> None:
        ids, start = None if busy == self.slots else self.ids[:busy], time.perf_counter()
        try:
            self.batch.step(ids, nstep=self.body.frame_skip)
        except SimulationError as error:  # these kept their state; the others were stepped
            self.qpos[error.ids] = np.nan
        self.physics_seconds += time.perf_counter() - start

    def _hand_in(self, outcomes: Outcomes, busy: int, done: np.ndarray, diverged: np.ndarray) -> int:
        """Store the outcomes of finished slots and move the occupied ones together; returns how many are left."""
        slots = np.flatnonzero(done)
        outcomes.finish(
            self.episode[slots],
            fitness=self.fitness[slots],
            score=self.score[slots],
            steps=self.steps[slots],
            diverged=diverged[slots],
            shift=self.shift[slots],
            total=self.total[slots],
            squares=self.squares[slots],
        )
        left = busy - len(slots)
        holes = slots[slots < left]
        movers = np.flatnonzero(~done[left:]) + left
        for array in (
            self.batch.state,
            self.batch.warning,
            self.episode,
            self.parameters,
            self.mean,
            self.scale,
            self.shift,
            self.total,
            self.squares,
            self.noise,
            self.kept,
            self.fitness,
            self.score,
            self.steps,
        ):
            array[holes] = array[movers]
        for hole, mover in zip(holes, movers, strict=True):
            self.streams[hole] = self.streams[mover]
        return left
