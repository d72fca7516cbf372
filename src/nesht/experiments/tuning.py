"""The search that chooses the settings of the preset `tuned`: the same for every method, on held-out seeds.

For every method and environment, TRIALS settings are drawn at random from declared ranges (the same for all methods,
and one or two of their own: the penalty of NES-L1, sparsity and memory of ours) and run at the smallest and the largest
noise ratio of the paper with FIRST seeds each. The FINALISTS with the best mean score run again with other seeds at all
ratios; the best of them is chosen. No seed below 1000 is touched.
"""

from __future__ import annotations

from collections.abc import Sequence
from itertools import product
from pathlib import Path
from statistics import fmean
from typing import Any

import numpy as np
import tomli_w

from nesht.experiments.design import Cell, Options, cell
from nesht.experiments.methods import METHODS
from nesht.experiments.runner import Results, run_experiment

TRIALS, FINALISTS = 24, 4
FIRST, SECOND = (1000, 1001), (1010, 1011, 1012, 1013)
SCREEN, FINAL = (5, 20), (5, 10, 20)


def draw(env: str, method: str, trial: int) -> dict[str, Any]:
    """Return the settings of a trial: a pure function of its name.

    Trials go through all combinations of the yes-or-no choices in turn; numbers are random.
    """
    rng = np.random.default_rng([ord(letter) for letter in f"{env} {method} {trial}"])
    n, normalise, common = list(product((64, 256), (True, False), ("none", "generation")))[trial % 8]
    sigma = float(rng.choice([0.01, 0.02, 0.04, 0.08]))
    # What matters is the length of a step against the width of the search: lr / (sigma sqrt(n)) for plain SGD.
    rate = float(np.exp(rng.uniform(np.log(0.003), np.log(0.015)))) * sigma * n**0.5
    end = float(rng.choice([1.0, 0.3, 0.1]))
    chosen = {
        "n": n,
        "sigma": sigma,
        "lr": _plain(rate) if end == 1 else f"linear:{_plain(rate)}:{_plain(rate * end)}",
        "normalise": normalise,
        "common_randomness": common,
        "step_cost": float(rng.choice([0.0, 0.7, 1.0])),  # the survival bonus of Hopper and Walker2d is 1
    }
    if method == "NES-L1":
        chosen["penalty"] = _plain(float(np.exp(rng.uniform(np.log(0.03), np.log(30)))))
    if method == "ours":
        chosen |= {"beta": float(rng.choice([0.8, 0.9, 0.95])), "memory": float(rng.choice([0.8, 0.9, 0.95, 0.98]))}
    return chosen


def _plain(number: float) -> float:
    return float(f"{number:.2g}")


def trial_cell(options: Options, env: str, method: str, trial: int, ratio: int) -> Cell:
    """Return the cell of a trial at a noise ratio."""
    more = {**METHODS[method], **draw(env, method, trial)}
    return cell(options, env, ratio, method, more, trial=trial)


def screen(options: Options, methods: Sequence[str]) -> list[Cell]:
    """Return the cells of the first round."""
    return [
        trial_cell(options, env, method, trial, ratio)
        for env in options.envs
        for method in methods
        for trial in range(TRIALS)
        for ratio in SCREEN
    ]


def ranked(results: Results, env: str, method: str, seeds: Sequence[int]) -> list[tuple[float, int]]:
    """Return (mean score over noise ratios and seeds, trial), best first, over the runs with these seeds."""
    scores: dict[int, dict[str, list[float]]] = {}
    for row in results.runs:
        if row["env"] == env and row["method"] == method and int(row["seed"]) in seeds:
            trial = scores.setdefault(int(row["trial"]), {})
            trial.setdefault(str(row["noise"]), []).append(float(row["score"] or "-inf"))
    means = [(fmean(fmean(of_ratio) for of_ratio in trial.values()), number) for number, trial in scores.items()]
    return sorted(means, reverse=True)


def tune(options: Options, out: Path, work: Path, command: str, methods: Sequence[str] = tuple(METHODS)) -> None:
    """Run both rounds and write what was chosen to `chosen.toml`."""
    results = run_experiment(screen(options, methods), FIRST, out, work, command)
    finalists = {
        (env, method): [trial for _, trial in ranked(results, env, method, FIRST)[:FINALISTS]]
        for env in options.envs
        for method in methods
    }
    cells = [
        trial_cell(options, env, method, trial, ratio)
        for (env, method), trials in finalists.items()
        for trial in trials
        for ratio in FINAL
    ]
    results = run_experiment(cells, SECOND, out, work, command)
    (out / "chosen.toml").write_text(tomli_w.dumps(choose(results, options.envs, methods)))


def choose(results: Results, envs: Sequence[str], methods: Sequence[str]) -> dict[str, dict[str, Any]]:
    """Return the settings of the best finalist of every environment and method."""
    chosen: dict[str, dict[str, Any]] = {}
    for env in envs:
        for method in methods:
            best = ranked(results, env, method, SECOND)
            if best:
                found = {**METHODS[method], **draw(env, method, best[0][1])}
                chosen.setdefault(env.partition("-")[0], {})[method] = found
    return chosen
