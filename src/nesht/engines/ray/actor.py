"""What runs on a node: an actor with an engine of its own.

It gets theta once a generation and the names of episodes, makes the members again from their keys, and sends scalars.
"""

from __future__ import annotations

import sys
from dataclasses import replace
from typing import Any

import cloudpickle
import numpy as np

from nesht.engines import Engine, make_engine
from nesht.engines.episodes import Episodes, Outcomes
from nesht.engines.ray.cluster import difference, versions
from nesht.errors import UserError
from nesht.policies.moments import Normaliser
from nesht.strategy.gradient import combine, norms
from nesht.strategy.perturb import Population


class Player:
    """An engine on a node."""

    _engine: Engine

    def prepare(self, pickled: bytes, engine: str, expected: dict[str, str], search: list[str]) -> None:
        """Make the engine; raises UserError if this node cannot, or would give other bits."""
        if what := difference(versions(engine), expected):
            raise UserError(f"it has {what}; install the same versions everywhere")
        sys.path += [place for place in search if place not in sys.path]  # where the user's own environment may be
        try:
            task, policy, options = cloudpickle.loads(
                pickled
            )  # of our driver, and only now: its imports need that path
            if engine in ("gym", "atari"):
                task.make_base().close()
            self._engine = make_engine(task, policy, options)
        except ImportError as error:
            raise UserError(f"it cannot import what the run needs: {error}") from error

    def run(self, population: Population, normaliser: Normaliser | None, names: np.ndarray) -> Outcomes:
        """Run neighbouring episodes of one run, (run, member, luck, rollout) by column; returns one row of moments."""
        asked = Episodes(self._own(population), normaliser, *names.astype(np.int64))
        outcomes = self._engine.run(asked.part(np.arange(len(asked))))
        moments = outcomes.moments.total()
        row = replace(moments, count=moments.count[None], mean=moments.mean[None], m2=moments.m2[None])
        return replace(outcomes, moments=row)

    def combine(self, population: Population, run: int, weights: np.ndarray, start: int) -> np.ndarray:
        """Return the sum of a run's directions from `start` on, each times its weight, (1, d)."""
        one = self._own(population.rows(np.array([run])))
        if one.source is not None:
            return one.source.combine(one, weights[None])
        return np.asarray(combine(one, weights[None], start))

    def norms(self, population: Population, run: int, start: int, stop: int) -> np.ndarray:
        """Return the L1 norms of the members of a run that use some directions, (1, members)."""
        one = self._own(population.rows(np.array([run])))
        return one.source.norms(one) if one.source is not None else np.asarray(norms(one, start, stop))

    def directions(self, *which: Any) -> np.ndarray:
        """See `Source.directions`."""
        assert self._engine.source is not None
        return self._engine.source.directions(*which)

    def _own(self, population: Population) -> Population:
        return replace(population, source=self._engine.source)
