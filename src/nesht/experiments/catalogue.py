"""Every experiment by name."""

from __future__ import annotations

from typing import Any

from nesht.config import Config
from nesht.experiments.design import STEPS, Cell, Experiment, Options, cell, rival
from nesht.experiments.methods import METHODS, REINFORCEMENT
from nesht.presets import preset

RATIOS = (5, 10, 20)
BETAS = (0.0, 0.2, 0.4, 0.6, 0.8, 0.9, 0.95, 0.98)
MEMORIES = (0.0, 0.5, 0.8, 0.9, 0.95, 0.98, 1.0)


def table1(options: Options) -> list[Cell]:
    """Return every method on every environment at every noise ratio of the paper."""
    tasks = [(env, ratio) for env in options.envs for ratio in RATIOS]
    return [cell(options, *task, method) for task in tasks for method in METHODS] + [
        rival(options, *task, method) for task in tasks for method in REINFORCEMENT
    ]


def heatmap(options: Options) -> list[Cell]:
    """Return the methods of the paper's figure 1, and ours, on Hopper."""
    envs = [env for env in options.envs if env.startswith("Hopper")]
    return [cell(options, env, 10, method) for env in envs for method in ("NES", "NESHT", "ours")]


def ablation(options: Options) -> list[Cell]:
    """Return the sparsity, the memory and the unit, one changed at a time, at the largest noise ratio."""
    cells = []
    for env in options.envs:
        for method in ("NESHT", "ours"):
            cells += [cell(options, env, 20, method, {"beta": beta, "k": None}, beta=beta) for beta in BETAS]
        for unit in ("weight", "feature"):
            changes = [{"unit": unit, "memory": memory} for memory in MEMORIES]
            share = {"beta": 0.9, "k": None}  # the same share of weights and of features
            cells += [cell(options, env, 20, "ours", {**change, **share}, **change) for change in changes]
    return cells


def prune_once(options: Options) -> list[Cell]:
    """Return thresholding after every update against pruning once at the end, at equal k, for both units."""
    cells = []
    for env in options.envs:
        for ratio in RATIOS:
            for method in ("NESHT", "ours"):
                for when, sparsifier in (("every update", "hard"), ("once", "once")):
                    change = {"sparsifier": sparsifier}
                    cells.append(cell(options, env, ratio, method, change, threshold=when))
    return cells


def clean(options: Options) -> list[Cell]:
    """Return the methods with no noise at all, as the ceiling, and with more noise than the paper's.

    Without noise there is nothing to cut: the thresholds keep everything.
    """
    ceiling = [cell(options, env, 0, method, {"beta": 0.0, "k": None}) for env in options.envs for method in METHODS]
    beyond = [cell(options, env, ratio, "ours") for env in options.envs for ratio in (*RATIOS, 50, 100)]
    return ceiling + beyond


CHANGES: dict[str, dict[str, Any]] = {
    "as tuned": {},
    "every reward seen": {"reward_keep": 1.0},
    "survival bonus left in": {"step_cost": 0.0},
    "all directions count": {"elite": 1.0},
    "own luck for every member": {"common_randomness": "none"},
    "features as they are": {"normalise": False},
    "features normalised": {"normalise": True},
    "three times the steps": {"steps": 3 * STEPS},
}
"""What may hold ours back, or carries it."""


def limits(options: Options) -> list[Cell]:
    """Return ours without noise, nothing cut, with one thing changed at a time: what holds the evolution strategy back?

    Changes that change nothing about an environment's settings are left out. The last keeps few inputs all the same.
    """
    cells: list[Cell] = []
    for env in options.envs:
        dense = {"beta": 0.0, "k": None}
        plain = cell(options, env, 0, "ours", dense).config
        for name, change in CHANGES.items():
            more = {**change, "steps": 3 * options.steps} if "steps" in change else change
            made = cell(options, env, 0, "ours", {**dense, **more}, change=name)
            if not change or made.config != plain:
                cells.append(made)
        cells.append(cell(options, env, 0, "ours", change="as few inputs kept as with noise"))
    return cells


def cross_check(options: Options) -> list[Cell]:
    """Return ours on two engines: the fused kernel and C MuJoCo."""
    return [
        cell(options, env, 10, "ours", {"engine": engine, "device": "auto"}, engine=engine)
        for env in options.envs
        for engine in ("fused", "batch")
    ]


def atari(options: Options) -> list[Cell]:
    """Return the paper's network on games, its read-out cut by several betas; beta 0 cuts nothing."""
    cells = []
    for game in options.games:
        env = f"ALE/{game}-v5"
        for beta in options.betas:
            method = METHODS["NESHT"] if beta else METHODS["NES"]
            more = {**preset(options.preset, env), "scope": "readout.weight", **method, "beta": beta}
            config = Config().change(**more, env=env, steps=options.steps, **options.runtime)
            labels = {"env": env, "noise": 0, "method": "NESHT" if beta else "NES", "preset": options.preset}
            cells.append(Cell({**labels, "beta": f"{beta:g}"}, config))
    return cells


EXPERIMENTS = {
    each.name: each
    for each in (
        Experiment("table1", "How do the methods score on every noisy task of the paper?", table1),
        Experiment("heatmap", "Which inputs does each method put its weights on, and when?", heatmap, "0-4", True),
        Experiment("ablation", "What do the sparsity, the memory and the unit each contribute?", ablation, "0-9"),
        Experiment(
            "prune-once", "Is thresholding after every update needed, or is once at the end enough?", prune_once
        ),
        Experiment("limits", "What holds ours back when there is no noise?", limits, "0-9"),
        Experiment("cross-check", "Does C MuJoCo lead to the same scores as the fused engine?", cross_check, "0-4"),
        Experiment("atari", "Does a sparse read-out play better than a dense one?", atari, "0-2"),
        Experiment("clean", "How much of the score without noise survives, and how far does it go?", clean),
    )
}
