"""Sparsifiers: what happens to the parameters after an update so that only few inputs stay in use.

`HardThreshold` is the heart of this library. The paper's rule keeps the k largest weights after every update and sets
the rest to zero; a weight that is cut loses all the evidence gathered for it and has to be rediscovered from nothing in
a single generation. Three dials repair that:

- **unit**: score a whole input feature by the norm of all its weights, and keep or drop it whole (see `units`);
- **memory**: keep a dense accumulator beside the policy. Updates go into the accumulator, the policy is its thresholded
  copy, and what is cut shrinks by the factor `memory` each generation instead of vanishing. Evidence for a feature can
  then add up over generations before the feature enters the policy;
- **spread**: where inputs come as they are, a weight of 1 on one that hardly moves does less than a weight of 0.1 on
  one that swings by 20. Told how much each parameter's input varies, the threshold keeps what moves the actions most.

`memory = 0` with single weights and no spread is the paper's Algorithm 1, to the bit.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import Protocol

import numpy as np
from array_api_compat import array_namespace, device

from nesht.errors import UserError
from nesht.strategy.gradient import member_norms
from nesht.strategy.perturb import Array, Population
from nesht.strategy.units import Units, largest


class Sparsifier(Protocol):
    """Decides what the policy keeps. All arrays carry a leading run axis."""

    def penalty(self, population: Population) -> Array | float:
        """Return what is subtracted from the members' fitness, (runs, n)."""
        ...

    def split(self, dense: Array, k: list[Array], lr: Array, spread: Array | None = None) -> tuple[Array, Array]:
        """Return (policy, accumulator) from the accumulator after an update; k has one (runs,) array per pool.

        `spread` is how much what each parameter reads varies, (runs, d), where that counts.
        """
        ...

    def finish(self, theta: Array, k: list[Array], spread: Array | None = None) -> Array:
        """Return the policy at the end of training."""
        ...


@dataclass(frozen=True)
class NoSparsity:
    """Vanilla NES: nothing is ever cut."""

    def penalty(self, population: Population) -> Array | float:
        """See `Sparsifier.penalty`."""
        return 0.0

    def split(self, dense: Array, k: list[Array], lr: Array, spread: Array | None = None) -> tuple[Array, Array]:
        """See `Sparsifier.split`."""
        return dense, dense

    def finish(self, theta: Array, k: list[Array], spread: Array | None = None) -> Array:
        """See `Sparsifier.finish`."""
        return theta


@dataclass(frozen=True)
class HardThreshold(NoSparsity):
    """Keep exactly the k strongest units after every update."""

    units: Units
    memory: float | np.ndarray = 0.0
    """One number, or one per run."""

    def __post_init__(self) -> None:
        if not np.all((np.asarray(self.memory) >= 0) & (np.asarray(self.memory) <= 1)):
            raise UserError(f"memory must lie in [0, 1], got {self.memory}.")

    def split(self, dense: Array, k: list[Array], lr: Array, spread: Array | None = None) -> tuple[Array, Array]:
        """The policy is the k strongest units of the accumulator; what is cut fades by `memory`."""
        xp = array_namespace(dense)
        keep = strongest(dense, k, self.units, spread)
        theta = xp.where(keep, dense, xp.zeros_like(dense))
        faded = xp.where(keep, dense, per_run(self.memory, dense) * dense) if np.all(self.memory) else theta
        return theta, faded


@dataclass(frozen=True)
class Once(NoSparsity):
    """Train dense, threshold once at the end: the paper's negative control."""

    units: Units

    def finish(self, theta: Array, k: list[Array], spread: Array | None = None) -> Array:
        """Keep the k strongest units of the trained parameters."""
        return hard_threshold(theta, k, self.units, spread)


@dataclass(frozen=True)
class L1Penalty(NoSparsity):
    """NES-L1: subtract `strength` times the L1 norm of each *perturbed* member from its fitness.

    The norm of theta alone would be the same for every member and cancel in any shaping.
    """

    strength: float | np.ndarray
    """One number, or one per run."""

    def penalty(self, population: Population) -> Array | float:
        """See `Sparsifier.penalty`."""
        return per_run(self.strength, population.theta) * member_norms(population)


@dataclass(frozen=True)
class SoftThreshold(NoSparsity):
    """The proximal step of an L1 penalty: every weight moves towards zero by `lr * strength` and stops there."""

    strength: float | np.ndarray
    """One number, or one per run."""

    def split(self, dense: Array, k: list[Array], lr: Array, spread: Array | None = None) -> tuple[Array, Array]:
        """Shrink every parameter towards zero."""
        xp = array_namespace(dense)
        shrunk = xp.abs(dense) - per_run(self.strength, dense) * lr[:, None]
        theta = xp.sign(dense) * xp.where(shrunk > 0, shrunk, xp.zeros_like(shrunk))
        return theta, theta


def per_run(value: float | np.ndarray, like: Array) -> Array | float:
    """Return a number as it is, or one number per run as a column beside (runs, d) arrays like the given one."""
    if isinstance(value, np.ndarray):
        return array_namespace(like).asarray(value, dtype=like.dtype, device=device(like))[:, None]
    return value


def strongest(theta: Array, k: list[Array], units: Units, spread: Array | None = None) -> Array:
    """Mark the parameters of exactly the k strongest units of every pool, (runs, d) booleans.

    The strength of a unit is the norm of its parameters, each times its spread if that is given.
    """
    strength = units.strength(theta if spread is None else theta * spread)
    marked = [largest(norm, wanted) for norm, wanted in zip(strength, k, strict=True)]
    return units.expand(marked, like=theta)


def nearness(dense: Array, k: list[Array], units: Units, spread: Array | None = None) -> Array:
    """Return how near every parameter is to being kept, (runs, d) in [0, 1].

    That is the strength of its unit over that of the k-th strongest, and 1 where it is one of those.
    """
    xp = array_namespace(dense)
    near = []
    for strength, wanted in zip(units.strength(dense if spread is None else dense * spread), k, strict=True):
        last = xp.asarray(wanted, device=device(dense))[:, None] - 1
        weakest = xp.take_along_axis(xp.sort(strength, axis=1, descending=True), last, axis=1)
        below = strength < weakest  # which is then more than zero
        near.append(xp.where(below, strength / xp.where(below, weakest, 1.0), xp.ones_like(strength)))
    return units.expand(near, like=dense)


def hard_threshold(theta: Array, k: list[Array], units: Units, spread: Array | None = None) -> Array:
    """Return the nearest point to theta with at most k nonzero units: all but the strongest become exactly 0.

    Distances count every parameter times its spread, if that is given.
    """
    xp = array_namespace(theta)
    return xp.where(strongest(theta, k, units, spread), theta, xp.zeros_like(theta))
