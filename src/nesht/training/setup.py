"""From options to the parts of a run; everything that can be wrong with them is found here, before any simulation."""

from __future__ import annotations

import math
from collections.abc import Callable, Sequence
from dataclasses import dataclass, replace
from typing import Any

import numpy as np

from nesht.config import Config, check_kinds
from nesht.engines import Engine, check_threads, choose_device, choose_engine, make_engine
from nesht.errors import UserError
from nesht.keys import check_seed
from nesht.policies.network import Network
from nesht.policies.shape import Shape
from nesht.strategy import (
    OPTIMISERS,
    HardThreshold,
    L1Penalty,
    NoSparsity,
    Once,
    Schedule,
    SoftThreshold,
    Strategy,
    Units,
)
from nesht.strategy.nes import together as together_strategies
from nesht.strategy.sparsify import Sparsifier
from nesht.tasks.task import Task, make_task
from nesht.training.trackers import check_tracker

DEFAULT_STEPS = 1_000_000


@dataclass(frozen=True)
class Budget:
    """When a run ends; the first limit that is reached counts."""

    steps: int | None
    generations: int | None
    seconds: float | None
    pause: int | None = None
    """Steps after which to stop for now: schedules go by the whole budget, and the run is not finished."""


@dataclass(frozen=True)
class Setup:
    """The parts of a run."""

    config: Config
    task: Task
    policy: Shape
    strategy: Strategy
    budget: Budget
    eval_every: int
    step_cost: Schedule
    parts: tuple[Setup, ...] = ()
    """The setups of the runs, where they are not all the same (see `together`)."""

    def engine(self) -> Engine:
        """Make the engine that the options ask for."""
        return make_engine(self.task, self.policy, self.config.runtime)

    def pausing(self, steps: int | None) -> Setup:
        """Return the same, but to be stopped for now after so many steps."""
        return replace(self, budget=replace(self.budget, pause=steps))

    def of(self, run: int) -> Setup:
        """Return the setup of one run."""
        return self.parts[run] if self.parts else self

    def select(self, rows: Sequence[int]) -> Setup:
        """Return the setup of some of the runs."""
        return together([self.parts[row] for row in rows]) if self.parts and len(rows) else self


def kind(config: Config) -> str:
    """Return what is the same for all runs that can advance together.

    They may differ in their numbers (a memory, penalty or decay of zero is no number: it is another rule), in whether
    features are normalised and in what randomness members share.
    """
    free: dict[str, Any] = {
        "seed": 0,
        "lr": 1.0,
        "sigma": 1.0,
        "beta": 0.0,
        "step_cost": 0.0,
        "elite": 1.0,
        "explore": 1.0,
        "focus": 0,
    }
    free |= {"normalise": False, "common_randomness": "none", "k": None if config.strategy.k is None else 1}
    signs = {name: float(getattr(config.strategy, name) > 0) for name in ("memory", "penalty", "weight_decay")}
    return repr(config.change(**free, **signs))


def together(setups: Sequence[Setup]) -> Setup:
    """Return the setup of a fleet whose run i has setups[i]; all of one kind."""
    strategies = [setup.strategy for setup in setups]
    first = setups[0]
    if all(setup.config.change(seed=0) == first.config.change(seed=0) for setup in setups):
        return first
    return replace(first, strategy=together_strategies(strategies), parts=tuple(setups))


def build(config: Config) -> Setup:
    """Check all options and make the parts; raises UserError with one sentence about the first thing wrong."""
    check_kinds(config)
    _check_ranges(config)
    task = make_task(config.task)
    engine = choose_engine(config.runtime.engine, task)
    config = config.change(engine=engine, device=choose_device(engine, config.runtime.device))
    if engine == "ray":
        from nesht.engines.ray.cluster import check_cluster

        check_cluster(config.runtime.address)
        config = config.change(actor_engine=choose_engine(config.runtime.actor_engine, task))
    options = config.policy
    policy: Shape
    if task.game is not None:
        if options.hidden or options.normalise or not options.bias:
            raise UserError("the policy of a game is always the same network; leave out hidden, normalise and bias.")
        if config.strategy.rank_by == "effect":
            raise UserError("rank_by effect is for policies that read features; that of a game has rank_by weight.")
        policy = task.screen_policy(options.virtual_batch_norm)
    elif options.virtual_batch_norm:
        raise UserError("virtual_batch_norm is for Atari games; features have normalise.")
    else:
        policy = Network(len(task.feature_names), task.outputs, options.hidden, options.bias, task.discrete)
    budget = _budget(config)
    every = config.training.eval_every or max(1, (budget.steps or 0) // 100)
    cost = Schedule.parse(config.strategy.step_cost, "step_cost")
    if not np.isfinite([cost.start, cost.end]).all():
        raise UserError(f"step_cost must be a number, got {config.strategy.step_cost}.")
    return Setup(config, task, policy, _strategy(config, policy), budget, every, cost)


def _strategy(config: Config, policy: Shape) -> Strategy:
    options = config.strategy
    units = policy.units(options.unit, options.scope)
    sparsifiers: dict[str, Callable[[], Sparsifier]] = {
        "hard": lambda: HardThreshold(units, options.memory),
        "once": lambda: Once(units),
        "l1": lambda: L1Penalty(options.penalty),
        "soft": lambda: SoftThreshold(options.penalty),
        "none": NoSparsity,
    }
    cuts = options.sparsifier in ("hard", "once")
    return Strategy(
        units=units if cuts else Units.weights(policy.size),
        n=options.n,
        sigma=options.sigma,
        lr=options.lr,
        beta=options.beta if cuts else 0.0,
        k=options.k if cuts else None,
        mirrored=options.mirrored,
        shaping=options.shaping,
        elite=options.elite,
        explore=options.explore,
        focus=options.focus,
        optimiser=OPTIMISERS[options.optimiser](**({"momentum": options.momentum} if options.momentum else {})),
        weight_decay=options.weight_decay,
        sparsifier=sparsifiers[options.sparsifier](),
    )


def _budget(config: Config) -> Budget:
    options = config.training
    limits = (options.steps, options.generations, options.seconds)
    for name, limit in zip(("steps", "generations", "seconds"), limits, strict=True):
        if limit is not None and not (limit > 0 and math.isfinite(limit)):
            raise UserError(f"the budget in {name} must be positive, got {limit}.")
    if limits == (None, None, None):
        return Budget(DEFAULT_STEPS, None, None)
    if options.steps is None and options.generations is None:
        for name in ("lr", "sigma", "beta", "k", "explore", "elite", "step_cost"):
            value = getattr(config.strategy, name)
            if value is not None and not Schedule.parse(value, name).is_constant:
                raise UserError(
                    f"{name} = {value} is a schedule and needs a budget in steps or generations (progress in wall time "
                    f"is not repeatable); give one, or a constant {name}."
                )
    return Budget(*limits)


def _check_ranges(config: Config) -> None:
    strategy, training, runtime = config.strategy, config.training, config.runtime
    rules: list[tuple[bool, str]] = [
        (all(width >= 1 for width in config.policy.hidden), f"hidden layers need a width, got {config.policy.hidden}."),
        (strategy.rollouts >= 1, f"rollouts must be at least 1, got {strategy.rollouts}."),
        (0 <= strategy.memory <= 1, f"memory must lie in [0, 1], got {strategy.memory}."),
        (0 <= strategy.momentum < 1, f"momentum must lie in [0, 1), got {strategy.momentum}."),
        (
            strategy.momentum == 0 or strategy.optimiser == "sgd",
            "momentum belongs to the optimiser sgd; adam has its own.",
        ),
        (strategy.focus >= 0, f"focus must be 0 or more, got {strategy.focus}."),
        (0 <= strategy.weight_decay < math.inf, f"weight_decay must be 0 or more, got {strategy.weight_decay}."),
        (0 <= strategy.penalty < math.inf, f"penalty must be 0 or more, got {strategy.penalty}."),
        (
            (strategy.penalty > 0) == (strategy.sparsifier in ("l1", "soft")),
            f"penalty is the strength of the sparsifiers l1 and soft (which need one); got sparsifier "
            f"{strategy.sparsifier} with penalty {strategy.penalty}.",
        ),
        (
            strategy.common_randomness != "pair" or strategy.mirrored,
            "common_randomness 'pair' needs mirrored sampling; without it there are no pairs.",
        ),
        (
            runtime.noise != "marginal" or not config.policy.hidden,
            "--noise marginal is exact for linear policies only; with hidden layers use --noise drawn.",
        ),
        (training.eval_episodes >= 1, f"eval_episodes must be at least 1, got {training.eval_episodes}."),
        (training.eval_every is None or training.eval_every >= 1, "eval_every must be at least 1 step."),
        (runtime.slots is None or runtime.slots >= 1, f"slots must be at least 1, got {runtime.slots}."),
        (runtime.actors >= 0, f"actors must be 0 (as many as there is room for) or more, got {runtime.actors}."),
        (runtime.chunk_seconds > 0, f"chunk_seconds must be positive, got {runtime.chunk_seconds}."),
        (
            runtime.address is None or runtime.engine == "ray",
            "--address is that of a Ray cluster and needs --engine ray.",
        ),
        (runtime.actors == 0 or runtime.engine == "ray", "--actors are those of a Ray cluster and need --engine ray."),
        (runtime.checkpoint_seconds >= 0, "checkpoint_seconds must be 0 or more."),
    ]
    check_tracker(runtime.track)
    check_seed(training.seed)
    check_threads(runtime.threads)
    for fine, sentence in rules:
        if not fine:
            raise UserError(sentence)
