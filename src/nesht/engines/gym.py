"""The `gym` engine: any Gymnasium environment with vector observations, one episode at a time per worker.

With more than one worker the episodes run in separate processes, since most environments are Python and Python runs on
one core. The work goes out in small chunks, so a worker with long episodes does not hold the others up.
"""

from __future__ import annotations

import multiprocessing
import os
import signal
from collections.abc import Iterator
from concurrent.futures import ProcessPoolExecutor
from concurrent.futures.process import BrokenProcessPool
from contextlib import contextmanager
from typing import Any

import cloudpickle
import gymnasium
import numpy as np

from nesht.engines.episodes import Engine, Episodes, Outcomes
from nesht.errors import UserError
from nesht.policies.network import Network
from nesht.tasks.quiet import quiet_mujoco
from nesht.tasks.task import Task

CHUNK = 4
"""Episodes sent to a worker at a time."""


class GymEngine(Engine):
    """Runs any task through the ordinary Gymnasium interface, in this process or in several."""

    def __init__(self, task: Task, policy: Network, threads: int = 1):
        self._task, self._policy = task, policy
        self._pool: ProcessPoolExecutor | None = None
        self._player: _Player | None = None
        if threads > 1:
            self._pool = ProcessPoolExecutor(
                threads,
                # Not fork: a forked child inherits locks that this process's threads may hold.
                mp_context=multiprocessing.get_context("spawn"),
                initializer=_start_worker,
                initargs=(cloudpickle.dumps((task, policy)),),
            )

    def run(self, episodes: Episodes) -> Outcomes:
        """Run all episodes."""
        if self._pool is None:
            self._player = self._player or _Player(self._task, self._policy)
            return self._player.run(episodes)
        outcomes = Outcomes.empty(len(episodes), self._policy.inputs)
        chunks = [np.arange(i, min(i + CHUNK, len(episodes))) for i in range(0, len(episodes), CHUNK)]
        try:
            with _ctrl_c_is_ours():  # processes start as work comes in
                futures = [self._pool.submit(_run_chunk, episodes.part(chunk)) for chunk in chunks]
            for chunk, future in zip(chunks, futures, strict=True):
                outcomes.put(chunk, future.result())
        except BrokenProcessPool as error:
            raise UserError(
                "a worker process of the gym engine died: the environment crashed, or it cannot be made in a new "
                "process (a script needs `if __name__ == '__main__':` around its work); --threads 1 uses none."
            ) from error
        return outcomes

    def close(self) -> None:
        """Close environments and processes."""
        if self._player is not None:
            self._player.env.close()
        if self._pool is not None:
            self._pool.shutdown(wait=False, cancel_futures=True)


class _Player:
    """One environment and the loop that plays episodes in it."""

    def __init__(self, task: Task, policy: Network):
        self.policy, self.task, self.env = policy, task, task.make()

    def run(self, episodes: Episodes) -> Outcomes:
        outcomes = Outcomes.empty(len(episodes), self.policy.inputs)
        with quiet_mujoco(), np.errstate(all="ignore"):  # what overflows is counted as diverged
            for i in range(len(episodes)):
                self._play(episodes, i, outcomes)
        return outcomes

    def _play(self, episodes: Episodes, i: int, outcomes: Outcomes) -> None:
        parameters = np.array(episodes.parameters(i))[None]
        normaliser = episodes.normaliser.rows(episodes.run[i : i + 1]) if episodes.normaliser else None
        observation, _ = self.env.reset(seed=episodes.seed(i))
        if np.shape(observation) != (self.policy.inputs,):
            raise UserError(
                f"{self.task.name} returns observations of shape {np.shape(observation)}; its observation_space and "
                f"distractors promise ({self.policy.inputs},)."
            )
        shift = np.array(observation, dtype=np.float64)
        total, squares = np.zeros_like(shift), np.zeros_like(shift)
        fitness, score, steps = 0.0, 0.0, 0
        done = diverged = False
        while not done:
            features = np.asarray(observation, dtype=np.float64)
            difference = features - shift
            total += difference
            squares += difference * difference
            seen = features[None] if normaliser is None else normaliser(features[None])
            action = self.policy.act(parameters, seen)[0]
            observation, reward, terminated, truncated, info = self.env.step(self.task.native(action))
            fitness += float(reward)
            score += float(info.get("dense_reward", reward))
            steps += 1
            diverged = not np.isfinite(score) or not np.isfinite(observation).all() or _blown_up(self.env)
            done = terminated or truncated or diverged
        outcomes.finish(
            i,
            fitness=fitness,
            score=score,
            steps=steps,
            diverged=diverged,
            shift=shift,
            total=total,
            squares=squares,
        )


def _blown_up(env: gymnasium.Env[Any, Any]) -> bool:
    """Whether this is a MuJoCo environment whose state blew up: MuJoCo then starts it afresh behind our back."""
    data = getattr(env.unwrapped, "data", None)
    warnings = getattr(data, "warning", None)
    return warnings is not None and any(warnings[kind].number for kind in range(3, 7))


@contextmanager
def _ctrl_c_is_ours() -> Iterator[None]:
    """Let processes that start meanwhile never hear Ctrl-C, from their first moment on; this one hears it after."""
    before = signal.pthread_sigmask(signal.SIG_BLOCK, {signal.SIGINT})
    try:
        yield
    finally:
        signal.pthread_sigmask(signal.SIG_SETMASK, before)


_player: _Player | None = None
"""The player of this worker process; stays None in the main process."""


def _start_worker(pickled: bytes) -> None:
    global _player  # noqa: PLW0603
    os.environ.setdefault("OMP_NUM_THREADS", "1")
    task, policy = cloudpickle.loads(pickled)
    _player = _Player(task, policy)


def _run_chunk(episodes: Episodes) -> Outcomes:
    assert _player is not None
    return _player.run(episodes)
