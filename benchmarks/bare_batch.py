"""The limit: the episodes of the measured generations once more, with nothing but `mujoco.batch` stepping them.

`record` runs nesht with an engine that also writes down every start state and every control. `measure` plays them back:
no observation, no noise, no policy, no reward, no learning. The playback must end every episode in the recorded state,
to the bit, so it is the same physics.
"""

from __future__ import annotations

import time
from dataclasses import dataclass
from pathlib import Path
from unittest import mock

import mujoco
import numpy as np
from mujoco.batch import Batch

from case import THREADS, Case, Measurement
from nesht import keys
from nesht.engines import batch as engine
from nesht.engines.episodes import Episodes, Outcomes
from nesht.tasks.locomotion import LOCOMOTION
from nesht_way import go_on

SLOTS = 128
"""How many simulations to step at a time."""


@dataclass
class Tape:
    """The training episodes of one generation."""

    qpos: np.ndarray
    qvel: np.ndarray
    control: np.ndarray
    """(episodes, steps, nu), padded."""
    length: np.ndarray
    end: np.ndarray
    """(episodes, nq): the positions at the end of each episode."""

    @classmethod
    def blank(cls, episodes: int, steps: int, model: mujoco.MjModel) -> Tape:
        """Return room for a generation."""
        return cls(
            np.zeros((episodes, model.nq)),
            np.zeros((episodes, model.nv)),
            np.zeros((episodes, steps, model.nu)),
            np.zeros(episodes, np.int64),
            np.zeros((episodes, model.nq)),
        )

    @classmethod
    def load(cls, path: Path) -> Tape:
        """Read a tape."""
        with np.load(path) as arrays:
            return cls(**arrays)

    def save(self, path: Path, training: int) -> None:
        """Write the first episodes, which are those of training."""
        np.savez(path, **{name: array[:training] for name, array in vars(self).items()})


def record(case: Case) -> None:
    """Run the measured generations and write a tape of each."""
    tapes: dict[int, Tape] = {}

    class RecordingWorker(engine._Worker):
        def run(self, episodes: Episodes, waiting: engine._Waiting, outcomes: Outcomes) -> None:
            blank = Tape.blank(len(episodes), self.limit, self.model)
            self.tape = tapes.setdefault(int(episodes.population.generation[0]), blank)
            training[0] = int((episodes.member != keys.EVALUATION).sum())
            super().run(episodes, waiting, outcomes)

        def _step(self, busy: int, tick: int, normalise: bool) -> tuple[np.ndarray, np.ndarray]:
            tape, episode, at = self.tape, self.episode[:busy].copy(), self.steps[:busy].copy()
            first = at == 0
            tape.qpos[episode[first]], tape.qvel[episode[first]] = self.qpos[:busy][first], self.qvel[:busy][first]
            ended = super()._step(busy, tick, normalise)
            tape.control[episode, at] = self.ctrl[:busy]
            tape.length[episode] = at + 1
            tape.end[episode] = self.qpos[:busy]
            return ended

    training = [0]
    with mock.patch.object(engine, "_Worker", RecordingWorker):
        go_on(case, case.generations, "batch")
    for path, generation in zip(case.tapes, sorted(tapes), strict=True):
        tapes[generation].save(path, training[0])


def measure(case: Case) -> Measurement:
    """Play back all measured generations, one after the other as in training."""
    body = LOCOMOTION[case.env]
    model = body.model()
    tapes = [Tape.load(path) for path in case.tapes]
    batch = Batch(model, nsim=SLOTS, nthread=THREADS)
    cpu, start = time.process_time(), time.perf_counter()
    for tape in tapes:
        play(batch, tape, body.frame_skip)
    seconds = time.perf_counter() - start
    return Measurement(int(sum(tape.length.sum() for tape in tapes)), seconds, time.process_time() - cpu)


def play(batch: Batch, tape: Tape, frame_skip: int) -> None:
    """Step all episodes of a tape to their ends; a finished simulation takes the next episode at once."""
    slots, (episodes, steps, nu) = batch.nsim, tape.control.shape
    controls, ids = tape.control.reshape(-1, nu), np.arange(slots, dtype=np.int32)
    qpos, qvel, ctrl = (batch.bind(name) for name in ("qpos", "qvel", "ctrl"))
    row, last = np.zeros(slots, np.int64), np.zeros(slots, np.int64)  # of the controls: the next, and the end
    end = np.zeros_like(tape.end)
    busy = started = 0
    while True:
        fresh = min(slots - busy, episodes - started)
        if fresh:
            new, which = slice(busy, busy + fresh), slice(started, started + fresh)
            batch.reset(ids[new], stage=mujoco.mjtStage.mjSTAGE_NONE.value)
            qpos[new], qvel[new] = tape.qpos[which], tape.qvel[which]
            batch.forward(ids[new])
            row[new] = np.arange(started, started + fresh) * steps
            last[new] = row[new] + tape.length[which]
            busy, started = busy + fresh, started + fresh
        if not busy:
            break
        active = None if busy == slots else ids[:busy]
        now, target = row[:busy], ctrl[:busy]
        for _ in range(int((last[:busy] - now).min())):  # until the next episode ends
            target[:] = controls[now]
            batch.step(active, nstep=frame_skip)
            now += 1
        done = now == last[:busy]
        end[(row[:busy][done] - 1) // steps] = qpos[:busy][done]
        kept = np.flatnonzero(~done)
        for array in (batch.state, row, last):
            array[: len(kept)] = array[kept]
        busy = len(kept)
    if not np.array_equal(end, tape.end):
        raise RuntimeError("the playback left the recorded episodes")
