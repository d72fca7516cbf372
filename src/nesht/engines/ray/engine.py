"""The `ray` engine: episodes, and the sums of big gradients, shared out over the actors of a cluster.

Theta goes out once a generation through Ray's object store; episodes are named by their indices, and scalars come back.
Chunks are as many neighbouring episodes as one power of two says: then what their moments add up to does not depend on
the size of the chunks either (see `Moments.total`), and it can be chosen by how many actors there are.
"""

from __future__ import annotations

import sys
from collections.abc import Iterator
from dataclasses import replace
from itertools import pairwise
from typing import Any

import cloudpickle
import numpy as np

from nesht import keys
from nesht.config import RuntimeOptions
from nesht.engines.episodes import Engine, Episodes, Outcomes
from nesht.engines.ray.cluster import connect, versions
from nesht.engines.ray.crew import Crew, Job, Needs
from nesht.policies.moments import Moments
from nesht.policies.shape import Shape
from nesht.strategy.gradient import CHUNK, combine, in_pairs, norms
from nesht.strategy.perturb import Population, Source
from nesht.tasks.task import Task

SHARE = 8
"""Chunks per actor and generation, if there are enough episodes: then all end together, nearly."""

FILL = {"batch": 32, "fused": 32, "atari": 8, "gym": 1}
"""Episodes per thread of an actor that keep its engine busy: the least in a chunk, if every actor gets one."""

FILL_GPU = 2**14
"""The same of a GPU."""

BIG = 2**22
"""Random numbers behind a gradient from which on actors sum it up; this process makes fewer in the twentieth of a
second."""

PARTS = 64
"""Partial sums of a gradient that travel, at most, however many directions or actors there are."""


class RayEngine(Engine):
    """Runs any task in actors, each with an engine of its own.

    Args:
        task: what to simulate.
        policy: the shape of the policy.
        options: `address`, `actors`, `chunk_seconds`; `actor_engine` and all other options are for the actors' engines.
        cores: how many cores this machine has.
    """

    def __init__(self, task: Task, policy: Shape, options: RuntimeOptions, cores: int):
        inner, cpus = options.actor_engine, options.threads or 1
        self._connected = connect(options.address, max(cores, options.actors * cpus))
        given = replace(options, engine=inner, threads=cpus)
        pickled = cloudpickle.dumps((task, policy, given))
        needs = Needs(cpus, int(options.device == "cuda"), (pickled, inner, versions(inner), sys.path))
        try:
            self.crew = Crew(needs, options.actors, options.chunk_seconds)
        except BaseException:
            self._disconnect()
            raise
        self.source: Source = self
        self._own_directions = inner == "fused"
        self._fill = FILL_GPU if options.device == "cuda" else FILL[inner] * cpus
        self._sent: tuple[Population | None, Any] = (None, None)

    def run(self, episodes: Episodes) -> Outcomes:
        """Run all episodes on all actors."""
        import ray

        if not len(episodes):
            return Outcomes.empty(0, 0)
        grain = self._grain(len(episodes))
        columns = (episodes.run, episodes.member, episodes.luck, episodes.rollout)
        names = np.stack(columns).astype(np.uint32)
        shared = (self._send(episodes.population), ray.put(episodes.normaliser))
        jobs: list[Job] = [("run", (*shared, names[:, a:b])) for a, b in stretches(episodes, grain)]
        parts: list[Outcomes] = self.crew.do(jobs)
        plain = {
            name: np.concatenate([getattr(part, name) for part in parts])
            for name in ("fitness", "score", "steps", "diverged")
        }
        return Outcomes(**plain, moments=Moments.joined([part.moments for part in parts]), grain=grain)

    def _grain(self, episodes: int) -> int:
        """Return how many episodes make a chunk."""
        each = episodes / max(1, len(self.crew))
        return 2 ** int(np.log2(max(1.0, each / SHARE, min(each, self._fill))))

    def combine(self, population: Population, weights: np.ndarray) -> np.ndarray:
        """See `Source.combine`."""
        if self._small(population):
            return np.asarray(combine(replace(population, source=None), weights))
        sent, cuts = self._send(population), self._cuts(population)
        runs = range(len(population.seed))
        parts = self.crew.do([("combine", (sent, run, weights[run, a:b], a)) for run in runs for a, b in cuts])
        count = len(cuts)
        return np.concatenate([in_pairs(parts[run * count : (run + 1) * count]) for run in runs])

    def norms(self, population: Population) -> np.ndarray:
        """See `Source.norms`."""
        if self._small(population):
            return np.asarray(norms(replace(population, source=None), 0, population.n_directions))
        sent, cuts = self._send(population), self._cuts(population)
        runs = len(population.seed)
        parts = self.crew.do([("norms", (sent, run, a, b)) for run in range(runs) for a, b in cuts])
        return np.concatenate(parts, axis=1).reshape(runs, -1)

    def directions(self, seed: np.ndarray, generation: np.ndarray, start: int, stop: int, d: int) -> np.ndarray:
        """See `Source.directions`."""
        if self._own_directions:
            return np.asarray(self.crew.do([("directions", (seed, generation, start, stop, d))])[0])
        runs = len(seed)
        plain = Population(np.zeros((runs, d)), np.ones(runs), seed, generation, stop, False)
        return np.asarray(plain.directions(start, stop))

    def close(self) -> None:
        """End the actors, and leave the cluster."""
        if self.crew.lost:
            print(f"nesht: {self.crew.lost} pieces of work were lost with their actors and run again", file=sys.stderr)
        self._sent = (None, None)
        self.crew.close()
        self._disconnect()

    def _disconnect(self) -> None:
        if self._connected:
            import ray

            ray.shutdown()

    def _send(self, population: Population) -> Any:
        """Put the population into the object store, unless it is there; the one before may go."""
        import ray

        if self._sent[0] is not population:
            self._sent = (population, ray.put(replace(population, source=None)))
        return self._sent[1]

    def _small(self, population: Population) -> bool:
        numbers = len(population.seed) * population.n_directions * population.theta.shape[1]
        return not self._own_directions and numbers < BIG

    def _cuts(self, population: Population) -> list[tuple[int, int]]:
        """Return (start, stop) of the directions of every partial sum."""
        count, step = population.n_directions, CHUNK
        while -(-count // step) > (1 if self._own_directions else PARTS):
            step *= 2
        return [(start, min(start + step, count)) for start in range(0, count, step)]


def stretches(episodes: Episodes, grain: int) -> Iterator[tuple[int, int]]:
    """Yield (start, stop) of chunks of `grain` neighbours, of one run and all or none of them evaluations."""
    kind = 2 * episodes.run.astype(np.int64) + (episodes.member == keys.EVALUATION)
    edges = [0, *(np.flatnonzero(np.diff(kind)) + 1), len(episodes)]
    for first, last in pairwise(edges):
        for start in range(first, last, grain):
            yield int(start), int(min(start + grain, last))
