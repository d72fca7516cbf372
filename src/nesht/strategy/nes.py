"""Natural evolution strategies with hard thresholding: Algorithm 1 of the NESHT paper (Gao et al., IJCAI 2024).

    ask:   eps_i ~ N(0, I), members theta + sigma eps_i
    tell:  g     = 1/(n sigma) sum_i shaped(f_i) eps_i        the NES gradient
           dense = dense + lr * optimiser(g)                  the update
           theta = the k strongest units of dense             the hard threshold

Every array has a leading run axis: one run is a fleet of one, and twenty seeds train together by the same lines. Runs
never mix; a run gives the same bits alone and in a fleet.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, field, replace
from typing import Any

import numpy as np
from array_api_compat import array_namespace, device, to_device

from nesht.errors import UserError
from nesht.strategy.gradient import nes_gradient
from nesht.strategy.optimisers import SGD, Optimiser
from nesht.strategy.perturb import Array, Population
from nesht.strategy.schedules import PerRun, Schedule
from nesht.strategy.shaping import SHAPINGS, elite
from nesht.strategy.sparsify import NoSparsity, Sparsifier, nearness, per_run
from nesht.strategy.units import Units


@dataclass(frozen=True)
class State:
    """All that a strategy remembers of its runs between generations."""

    theta: Array
    """(runs, d): the policy."""
    dense: Array
    """(runs, d): the accumulator that updates go into; the same as theta unless the sparsifier has a memory."""
    first: Array
    """(runs, d): the optimiser's first moment."""
    second: Array
    """(runs, d): the optimiser's second moment."""
    seed: np.ndarray
    """(runs,): the seed of each run."""
    generation: np.ndarray
    """(runs,): how many updates each run has had."""


@dataclass(frozen=True)
class Told:
    """What one update did, for the record; all (runs,)."""

    gradient_norm: Array
    not_finite: np.ndarray
    sigma: np.ndarray
    lr: np.ndarray


@dataclass(frozen=True)
class Strategy:
    """NES with its choices made; holds no state. See `nesht.maximize` for a complete loop around it."""

    units: Units
    """What may be cut."""
    n: int = 256
    """Members per generation."""
    sigma: Schedule | PerRun | float | str = 0.02
    """Standard deviation of the perturbations."""
    lr: Schedule | PerRun | float | str = 0.01
    """Learning rate."""
    beta: Schedule | PerRun | float | str = 0.0
    """Fraction of the units of every pool that is cut."""
    k: Schedule | PerRun | int | str | None = None
    """How many units of every pool are kept, or all if there are fewer; overrides beta."""
    mirrored: bool = True
    """Draw perturbations in pairs of opposite sign."""
    shaping: str = "standardize"
    """A key of `SHAPINGS`."""
    explore: Schedule | PerRun | float | str = 1.0
    """How far parameters that are zero are perturbed, as a share of sigma."""
    focus: int | np.ndarray = 0
    """Perturb those further whose unit is nearly kept: by its strength over that of the weakest one kept, to this
    power, where that is more than `explore`; 0 is no such thing. One, or one per run."""
    elite: Schedule | PerRun | float | str = 1.0
    """Share of the directions that count, those with the best member."""
    optimiser: Optimiser = field(default_factory=SGD)
    """How the gradient becomes a step."""
    weight_decay: float | np.ndarray = 0.0
    """Decoupled weight decay: parameters shrink by the factor 1 - lr * weight_decay per update; one, or one per run."""
    sparsifier: Sparsifier = field(default_factory=NoSparsity)
    """What is cut after every update."""

    def __post_init__(self) -> None:
        if self.n < 2:
            raise UserError(f"n (the population size) must be at least 2, got {self.n}.")
        if self.mirrored and self.n % 2:
            raise UserError(f"mirrored sampling needs an even n, got {self.n}; use {self.n + 1} or no mirroring.")
        if self.shaping not in SHAPINGS:
            raise UserError(f"unknown shaping {self.shaping!r}; use one of {', '.join(SHAPINGS)}.")
        for name in ("sigma", "lr"):
            schedule = self._schedule(name)
            if isinstance(schedule, PerRun):  # made of strategies that were checked one by one
                return
            if not (min(schedule.start, schedule.end) > 0 and np.isfinite([schedule.start, schedule.end]).all()):
                raise UserError(f"{name} must stay positive, got {schedule.start} to {schedule.end}.")
        for name in ("elite", "explore"):
            share = self._schedule(name)
            assert isinstance(share, Schedule)
            if not (0 < share.start <= 1 and 0 < share.end <= 1):
                raise UserError(f"{name} must lie in (0, 1], got {getattr(self, name)}.")
        beta = self._schedule("beta")
        assert isinstance(beta, Schedule)
        if not (0 <= beta.start < 1 and 0 <= beta.end < 1):
            raise UserError(
                f"beta is the fraction of weights set to zero and must lie in [0, 1), got {beta.start}"
                + ("." if beta.is_constant else f" to {beta.end}.")
            )
        if not np.all((np.asarray(self.weight_decay) >= 0) & (np.asarray(self.weight_decay) < np.inf)):
            raise UserError(f"weight_decay must be 0 or more, got {self.weight_decay}.")
        if self.k is not None:
            k = self._schedule("k")
            assert isinstance(k, Schedule)
            if not (1 <= k.start < np.inf and 1 <= k.end < np.inf):
                raise UserError(f"k is how many units are kept and must be at least 1, got {self.k}.")

    def init(self, theta: Array, seed: np.ndarray) -> State:
        """Return the state of new runs that start at theta, (runs, d), cut to k units as the algorithm demands."""
        xp = array_namespace(theta)
        if tuple(theta.shape) != (len(seed), self.units.size) or not xp.isdtype(theta.dtype, "real floating"):
            shape = (len(seed), self.units.size)
            raise ValueError(
                f"theta must be floats of shape (runs, d) = {shape}, got {theta.dtype} {tuple(theta.shape)}"
            )
        zeros, start = xp.zeros_like(theta), np.zeros(len(seed))
        rate = self._like(theta, self._schedule("lr").at(start))
        theta, dense = self.sparsifier.split(theta, self.kept(start), rate)
        return State(theta, dense, zeros, zeros, np.asarray(seed), np.zeros(len(seed), np.int64))

    def ask(self, state: State, progress: np.ndarray, spread: np.ndarray | None = None) -> Population:
        """Return the members to evaluate; progress, (runs,) in [0, 1], is how much of the budget is spent.

        With a `spread`, (runs, d), the strength of units counts every parameter times that, as in `tell`.
        """
        xp = array_namespace(state.theta)
        sigma = self._like(state.theta, self._schedule("sigma").at(progress))
        explore, reach = self._schedule("explore").at(progress), None
        if np.any(explore != 1):
            share = self._like(state.theta, explore)[:, None]
            if np.any(self.focus):
                share = xp.maximum(share, self._promise(state, progress, self._maybe_like(state.theta, spread)))
            reach = xp.where(state.theta != 0, xp.ones_like(state.theta), share)
        return Population(state.theta, sigma, state.seed, state.generation, self.n, self.mirrored, reach)

    def _promise(self, state: State, progress: np.ndarray, spread: Array | None) -> Array:
        """Return how near every parameter is to being kept, to the power of the focus; 0 without one. (runs, d)."""
        xp = array_namespace(state.theta)
        near = nearness(state.dense, self.kept(progress), self.units, spread)
        power = self._like(near, np.broadcast_to(self.focus, len(state.seed)))[:, None]
        promise = xp.where(power > 0, near, xp.zeros_like(near))
        for count in range(1, int(np.max(self.focus))):  # not near**power, whose last bits depend on the run's company
            promise = xp.where(power > count, promise * near, promise)
        return promise

    def tell(
        self,
        state: State,
        population: Population,
        fitness: Array,
        progress: np.ndarray,
        spread: np.ndarray | None = None,
    ) -> tuple[State, Told]:
        """Return the state after one update by the members' fitness, (runs, n), higher is better.

        With a `spread`, (runs, d), the threshold takes every parameter times that: how much what it reads varies.
        """
        if tuple(fitness.shape) != (len(state.seed), self.n):
            raise ValueError(f"fitness must be (runs, n) = {(len(state.seed), self.n)}, got {tuple(fitness.shape)}")
        xp = array_namespace(state.theta)
        lr = self._schedule("lr").at(progress)
        rate = self._like(state.theta, lr)
        penalised = fitness - self.sparsifier.penalty(population)
        weights = SHAPINGS[self.shaping](penalised)
        share = self._schedule("elite").at(progress)
        if np.any(share != 1):
            weights = weights * elite(penalised, share, self.mirrored)
        gradient = nes_gradient(population, weights)
        t = xp.asarray(state.generation + 1, device=device(state.theta))
        step, first, second = self.optimiser.step(gradient, state.first, state.second, t)
        dense = state.dense + rate[:, None] * step
        if np.any(self.weight_decay):
            dense = dense - per_run(self.weight_decay, dense) * rate[:, None] * state.dense
        theta, dense = self.sparsifier.split(dense, self.kept(progress), rate, self._maybe_like(dense, spread))
        told = Told(
            gradient_norm=xp.sqrt(xp.sum(gradient * gradient, axis=1)),
            not_finite=np.asarray(to_device(xp.sum(xp.astype(~xp.isfinite(fitness), xp.int64), axis=1), "cpu")),
            sigma=self._schedule("sigma").at(progress),
            lr=lr,
        )
        return State(theta, dense, first, second, state.seed, state.generation + 1), told

    def finish(self, state: State, progress: np.ndarray, spread: np.ndarray | None = None) -> State:
        """Return the state at the end of training (only `Once` changes it)."""
        spread = self._maybe_like(state.theta, spread)
        return replace(state, theta=self.sparsifier.finish(state.theta, self.kept(progress), spread))

    def kept(self, progress: np.ndarray) -> list[np.ndarray]:
        """Return how many units are kept at each progress, one (runs,) array per pool."""
        if self.k is not None:
            wanted = np.rint(self._schedule("k").at(progress)).astype(np.int64)
            return [np.minimum(wanted, count) for count in self.units.counts]
        share = 1 - self._schedule("beta").at(progress)
        return [np.maximum(1, np.rint(share * count)).astype(np.int64) for count in self.units.counts]

    def _schedule(self, name: str) -> Schedule | PerRun:
        value = getattr(self, name)
        return value if isinstance(value, (Schedule, PerRun)) else Schedule.parse(value, name)

    def _maybe_like(self, theta: Array, values: np.ndarray | None) -> Array | None:
        return None if values is None else self._like(theta, values)

    @staticmethod
    def _like(theta: Array, values: np.ndarray) -> Array:
        return array_namespace(theta).asarray(values, dtype=theta.dtype, device=device(theta))


def together(strategies: Sequence[Strategy]) -> Strategy:
    """Return one strategy for a fleet whose run i follows strategies[i].

    They may differ in schedules and numbers, in weight decay and focus, and in the memory or strength of their
    sparsifiers; in nothing else.
    """
    first = strategies[0]
    numbers: dict[str, Any] = {
        name: PerRun(tuple(Schedule.parse(getattr(one, name), name) for one in strategies))
        for name in ("sigma", "lr", "beta", "explore", "elite")
    }
    if first.k is not None:
        numbers["k"] = PerRun(tuple(Schedule.parse(one.k, "k") for one in strategies))  # type: ignore[arg-type]
    numbers |= {name: np.array([getattr(one, name) for one in strategies]) for name in ("weight_decay", "focus")}
    sparsifier = first.sparsifier
    for name in ("memory", "strength"):
        if hasattr(sparsifier, name):
            values = np.array([getattr(one.sparsifier, name) for one in strategies])
            sparsifier = replace(sparsifier, **{name: values})  # type: ignore[type-var]
    return replace(first, **numbers, sparsifier=sparsifier)
