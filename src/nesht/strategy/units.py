"""What hard thresholding keeps or drops: units (single weights, or whole input features) in pools.

A *unit* is a set of parameters that live or die together; a *pool* is a set of equally large units that compete with
each other for k places. Parameters in no pool are never cut. The usual cases are one pool of d single weights (the
paper) and one pool of input features, each with all the weights that read it (ours).
"""

from __future__ import annotations

from dataclasses import dataclass
from functools import cached_property

import numpy as np
from array_api_compat import array_namespace, device

from nesht.strategy.perturb import Array


@dataclass(frozen=True)
class Units:
    """A partition of parameter positions 0..size into pools of units and the rest."""

    size: int
    """How many parameters there are."""
    pools: tuple[np.ndarray, ...]
    """One integer matrix (units, parameters per unit) of parameter positions per pool."""

    @classmethod
    def weights(cls, size: int) -> Units:
        """Every parameter its own unit, all in one pool: the paper's rule."""
        return cls(size, (np.arange(size)[:, None],))

    @property
    def counts(self) -> tuple[int, ...]:
        """How many units each pool has."""
        return tuple(len(pool) for pool in self.pools)

    @cached_property
    def _order(self) -> tuple[np.ndarray, np.ndarray]:
        """Positions pool by pool, then the rest; and the inverse of that permutation."""
        pooled = np.concatenate([pool.ravel() for pool in self.pools]) if self.pools else np.arange(0)
        rest = np.setdiff1d(np.arange(self.size), pooled)
        order = np.concatenate([pooled, rest]).astype(np.int64)
        if len(order) != self.size:
            raise ValueError("a parameter lies in two units")
        return order, np.argsort(order)

    def strength(self, theta: Array) -> list[Array]:
        """Return the Euclidean norm of every unit, (runs, units) for each pool."""
        xp = array_namespace(theta)
        norms = []
        for pool in self.pools:
            index = xp.asarray(pool.ravel(), device=device(theta))
            values = xp.reshape(xp.take(theta, index, axis=1), (theta.shape[0], *pool.shape))
            one = pool.shape[1] == 1  # |x| exactly: a square and a root could merge two different magnitudes
            norms.append(xp.abs(values[:, :, 0]) if one else xp.sqrt(xp.sum(values * values, axis=2)))
        return norms

    def expand(self, given: list[Array], like: Array) -> Array:
        """Give all parameters, (runs, size), what is given for their unit, (runs, units) per pool; the rest gets 1."""
        xp = array_namespace(like)
        runs = like.shape[0]
        parts = [
            xp.reshape(xp.broadcast_to(each[:, :, None], (runs, *pool.shape)), (runs, -1))
            for each, pool in zip(given, self.pools, strict=True)
        ]
        order, inverse = self._order
        rest = len(order) - sum(pool.size for pool in self.pools)
        parts.append(xp.ones((runs, rest), dtype=given[0].dtype if given else xp.bool, device=device(like)))
        return xp.take(xp.concat(parts, axis=1), xp.asarray(inverse, device=device(like)), axis=1)


def largest(strength: Array, k: Array) -> Array:
    """Mark exactly the k largest entries of each row, ties broken by index; `k` is (runs,)."""
    xp = array_namespace(strength)
    order = xp.argsort(-strength, axis=1, stable=True)
    rank = xp.argsort(order, axis=1, stable=True)
    return rank < xp.asarray(k, device=device(strength))[:, None]
