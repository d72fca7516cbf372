"""What the score loses without each input that a policy reads.

An input is taken away in two ways. *Dropped*: the weights that read it are set to zero. *Shuffled*: at every step its
value is replaced by one that it had at some other moment, drawn from episodes that were recorded before; so it still
looks like itself, and says nothing about the present. Every episode is run with and without the input, with the same
randomness otherwise, and the differences are averaged.
"""

from __future__ import annotations

import sys
import time
from collections.abc import Mapping
from dataclasses import asdict, dataclass
from functools import partial
from typing import Any

import gymnasium
import numpy as np

from nesht import keys
from nesht.engines import Episodes, check_threads, cores
from nesht.engines.gym import GymEngine
from nesht.errors import UserError
from nesht.experiments.statistics import Estimate, mean
from nesht.policies.moments import Normaliser
from nesht.policies.network import Network
from nesht.policies.saved import Policy
from nesht.strategy import Population
from nesht.tasks.task import Task, task_of

PAUSE = 5.0
"""Seconds between two lines of progress."""


@dataclass(frozen=True)
class Loss:
    """What the score loses without one input: a mean over episodes with its 95 % interval."""

    dropped: Estimate
    shuffled: Estimate


@dataclass(frozen=True)
class Importance:
    """What the score loses without each input."""

    episodes: int
    score: Estimate
    """With all inputs as they are."""
    losses: dict[int, Loss]
    """By the number of the input."""
    diverged: int
    """Episodes without an input in which the simulation blew up; they are left out."""

    def as_dict(self) -> dict[str, Any]:
        """Return plain values for JSON, which knows no infinity."""
        return asdict(self, dict_factory=_plain)


def _plain(items: list[tuple[Any, Any]]) -> dict[Any, Any]:
    return {name: None if isinstance(value, float) and not np.isfinite(value) else value for name, value in items}


def measure_all(policies: Mapping[str, Policy], episodes: int, threads: int) -> dict[str, Importance]:
    """Measure policies by their names, with progress; nothing if there are no episodes to measure over.

    Policies for screens have no single inputs and are left out, where there are others.
    """
    if plain := {name: policy for name, policy in policies.items() if isinstance(policy.network, Network)}:
        policies = plain
    found = {}
    for number, (name, policy) in enumerate(policies.items() if episodes else (), 1):
        print(f"{name} ({number} of {len(policies)})", file=sys.stderr, flush=True)
        found[name] = importance(policy, episodes, threads)
    return found


def importance(policy: Policy, episodes: int, threads: int = 0, progress: bool = True) -> Importance:
    """Measure what a policy's score loses without each input it reads, over episodes of the task it was trained on."""
    if episodes < 2:
        raise UserError(f"importance needs at least 2 episodes, for an interval; got {episodes}.")
    check_threads(threads)
    network = policy.network
    if not isinstance(network, Network):
        raise UserError("importance is about single inputs; a policy for screens has none.")
    task = task_of(policy.task)
    if task.feature_names != policy.feature_names:
        raise UserError(f"{task.name} has other features now than when this policy was trained.")
    read = [int(i) for i in np.flatnonzero(policy.used)]
    say = _Line(len(read)) if progress else None
    record = _record(policy, task, read, episodes)
    engine = GymEngine(Task(partial(_make, task, read, record)), network, threads or cores())
    run = partial(_scores, engine, policy, episodes)
    try:
        plain = run([(policy.parameters, 0)])[0]
        losses, diverged = {}, 0
        for number, i in enumerate(read, 1):
            without = policy.parameters.copy()
            network.input_weights(without[None])[:, :, i] = 0
            lost = plain - run([(without, 0), (policy.parameters, number)])
            losses[i] = Loss(_finite_mean(lost[0]), _finite_mean(lost[1]))
            diverged += int(np.isnan(lost).sum())
            if say is not None:
                say(number)
    finally:
        engine.close()
    return Importance(episodes, _finite_mean(plain), losses, diverged)


def _finite_mean(values: np.ndarray) -> Estimate:
    kept = values[np.isfinite(values)]
    return mean(kept.tolist()) if kept.size else Estimate(float("nan"), float("-inf"), float("inf"))


def _scores(engine: GymEngine, policy: Policy, episodes: int, variants: list[tuple[np.ndarray, int]]) -> np.ndarray:
    """Return the scores, (variants, episodes), of variants (parameters, which input to shuffle, counted from 1)."""
    count = len(variants)
    generation = np.array([keys.AFTER_TRAINING - which for _, which in variants])
    theta = np.array([parameters for parameters, _ in variants])
    population = Population(theta, np.zeros(count), np.zeros(count, np.int64), generation, 0, False)
    normaliser = None
    if policy.normalise:
        one = Normaliser.of(policy.moments)
        normaliser = Normaliser(np.tile(one.mean, (count, 1)), np.tile(one.scale, (count, 1)))
    run = np.repeat(np.arange(count), episodes)
    member = np.full(len(run), keys.EVALUATION)
    rollout = np.tile(np.arange(episodes), count)
    outcomes = engine.run(Episodes(population, normaliser, run, member, member, rollout))
    return outcomes.score.reshape(count, episodes)


class Shuffled(gymnasium.Wrapper[np.ndarray, Any, np.ndarray, Any]):
    """Replaces one input by values that it had at other moments.

    Which one is told by the generation in the key of the episode: `AFTER_TRAINING` is none, the number before it the
    first, and so on. The rest of the episode is that of the key with `AFTER_TRAINING`.
    """

    def __init__(self, env: gymnasium.Env[np.ndarray, Any], read: list[int], record: np.ndarray):
        super().__init__(env)
        self._read, self._record = read, record
        self._which = 0
        self._stream = keys.generator(0, keys.Stream.NOISE)

    def reset(
        self, *, seed: int | None = None, options: dict[str, Any] | None = None
    ) -> tuple[np.ndarray, dict[str, Any]]:
        """Start the episode that the key names."""
        assert seed is not None
        first, generation, member, rollout = keys.unpack(seed)
        self._which = keys.AFTER_TRAINING - generation
        self._stream = keys.generator(seed, keys.Stream.NOISE)
        plain = keys.pack(first, keys.AFTER_TRAINING, member, rollout)
        observation, info = self.env.reset(seed=plain, options=options)
        return self._shuffled(observation), info

    def step(self, action: Any) -> tuple[np.ndarray, Any, bool, bool, dict[str, Any]]:
        """Step the environment."""
        observation, reward, terminated, truncated, info = self.env.step(action)
        return self._shuffled(observation), reward, terminated, truncated, info

    def _shuffled(self, observation: np.ndarray) -> np.ndarray:
        if not self._which:
            return observation
        changed = np.array(observation, dtype=np.float64)
        moment = self._stream.integers(len(self._record))
        changed[self._read[self._which - 1]] = self._record[moment, self._which - 1]
        return changed


def _make(task: Task, read: list[int], record: np.ndarray) -> gymnasium.Env[Any, Any]:
    return Shuffled(task.make(), read, record)


def _record(policy: Policy, task: Task, read: list[int], episodes: int) -> np.ndarray:
    """Return what the policy reads at every step of some episodes, (steps, inputs read)."""
    env, rows = task.make(), []
    try:
        for rollout in range(episodes):
            seen, _ = env.reset(seed=keys.pack(0, keys.AFTER_TRAINING, keys.EVALUATION, rollout))
            done = False
            while not done:
                rows.append(np.asarray(seen, dtype=np.float64)[read])
                seen, _, terminated, truncated, _ = env.step(task.native(policy(seen)))
                done = bool(terminated or truncated or not np.isfinite(seen).all())
    finally:
        env.close()
    return np.array(rows)


class _Line:
    """Prints how many inputs are measured, at most every few seconds."""

    def __init__(self, total: int):
        self._total = total
        self._began = self._said = time.monotonic()

    def __call__(self, done: int) -> None:
        now = time.monotonic()
        if now - self._said < PAUSE and done < self._total:
            return
        self._said = now
        left = (now - self._began) / done * (self._total - done)
        print(f"{done} of {self._total} inputs measured, {left:.0f} s left", file=sys.stderr, flush=True)
