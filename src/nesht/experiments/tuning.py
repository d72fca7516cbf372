"""The search that chooses the settings of the preset `tuned`: the same for every method, on held-out seeds.

For every method and environment, on its own:

1. DRAWN settings are drawn at random from declared ranges (the same for all methods, and a few of their own: the
   penalty of NES-L1; sparsity, memory and width of search of ours) and run with the FIRST seeds at the smallest and the
   largest noise ratio of the paper. One of them is not drawn: the START of the environment, which was found by hand
   (with ours: `results/leads.csv`) and is given to every method.
2. ROUNDS times, CHILDREN more are made, each from one of the PARENTS best so far by drawing CHANGES of its settings
   again, and run in the same way.
3. FINER_ROUNDS times more, where one of those changes is to one of the FINER values. Some of them begin with the
   PARENTS changed by what later trials by hand found for the environment (LATER), given to every method.
4. The LIKELY best so far run with MORE seeds at the same ratios: two seeds tell little where some runs fail.
5. The FINALISTS with the best mean score up to here run with the SECOND seeds at all ratios; those of their runs that
   end for want of PATIENCE run again to the end of their steps, as those of the tables do. The best is chosen.

One setting is chosen for all noise ratios. No seed below 1000 is touched.

Ours has to say which inputs matter, and is chosen for that too: where it finds less than RECOVERY of them (SURE in
the finer rounds, ENOUGH after them), its score counts for as much less, and a finalist that finds less than ENOUGH at
one of the noise ratios is not chosen while there is another. That can only cost it score in a comparison with the
others, which owe no such answer.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import replace
from pathlib import Path
from statistics import fmean
from typing import Any

import numpy as np
import tomli_w

from nesht.experiments.design import Cell, Options, cell
from nesht.experiments.leads import LATER, OWN_LATER, START, START_OWN, Draw
from nesht.experiments.methods import METHODS
from nesht.experiments.runner import Results, Row, run_experiment
from nesht.tasks.locomotion import LOCOMOTION

DRAWN, ROUNDS, FINER_ROUNDS, CHILDREN, PARENTS, CHANGES, LIKELY, FINALISTS = 32, 2, 5, 16, 4, 2, 12, 6
FIRST, MORE, SECOND = (1000, 1001), (1002, 1003, 1004, 1005), tuple(range(1010, 1020))
SCREEN, FINAL = (5, 20), (5, 10, 20)

RECOVERY, SURE, ENOUGH = 0.8, 0.9, 0.85
"""The share of real inputs, among as many as could be kept, that ours has to find for its score to count in full: in
the first rounds, in the finer ones, and in the choice among the best, where many seeds need less of a margin."""

PATIENCE = 400
"""Generations after which a trial ends, whatever is left of its steps: a robot that always falls at once would need
thousands."""

COMMON: dict[str, Sequence[Any]] = {
    "n": (64, 128, 256),
    "sigma": (0.01, 0.02, 0.04),
    "rate": (0.002, 0.003, 0.0045, 0.0065, 0.01),
    "decay": (1.0, 0.3, 0.1),
    "normalise": (True, False),
    "common_randomness": ("none", "generation"),
    "elite": (1.0, 0.5, 0.25, "linear:1:0.125"),
}
"""The ranges of every method.

What matters of a learning rate is the length of a step against the width of the search: `rate` is lr / (sigma sqrt(n))
for plain SGD at the start, `decay` its end as a share of that.
"""

OWN: dict[str, dict[str, Sequence[Any]]] = {
    "NES-L1": {"penalty": (0.03, 0.1, 0.3, 1.0, 3.0, 10.0, 30.0)},
    "ours": {
        "k": (20, 12, "linear:6:20", 8, "linear:6:36", "linear:20:8"),
        "memory": (0.9, 0.95, 0.98),
        "explore": (1.0, 0.5, "linear:1:0.2"),
    },
}
"""The ranges of single methods."""

FALLING: dict[str, Sequence[Any]] = {"n": (128, 256), "step_cost": (0.0, 0.5, 1.0)}
"""The ranges for robots that can fall, and are paid 1 for every step on which they have not.

A smaller n would make thousands of generations of their short first episodes.
"""

FINER: dict[str, Sequence[Any]] = {
    "rate": (0.0025, 0.0037, 0.0055, 0.008),
    "step_cost": (0.25, 0.75),
    "penalty": (0.17, 0.55, 1.7, 5.5, 17.0),
    "k": ("linear:12:8", "linear:16:10", 10, "linear:24:10", "linear:40:8"),
    "fade": (0.003, 0.006, 0.0125, 0.025),
}
"""Values beside those of the ranges, for the last rounds; `fade` is the share of every weight that a generation at the
start takes away (nothing, where it is not drawn)."""


def ranges(env: str, method: str) -> dict[str, Sequence[Any]]:
    """Return what is searched for a method on an environment."""
    body = LOCOMOTION.get(env)
    return {**COMMON, **(FALLING if body is not None and body.falls else {}), **OWN.get(method, {})}


def options_of(method: str, drawn: Draw) -> dict[str, Any]:
    """Return the options of `nesht train` that a drawn setting stands for."""
    chosen = {name: value for name, value in drawn.items() if name not in ("rate", "decay", "fade")}
    start = drawn["rate"] * drawn["sigma"] * drawn["n"] ** 0.5
    first, last = (float(f"{lr:.2g}") for lr in (start, start * drawn["decay"]))
    chosen["lr"] = first if first == last else f"linear:{first}:{last}"
    chosen["weight_decay"] = float(f"{drawn.get('fade', 0.0) / first:.2g}")  # said even if 0: the preset may have one
    return {**METHODS[method], **chosen}


def _more(method: str, drawn: Draw, whole: bool) -> dict[str, Any]:
    """Return the options of a trial; some are said even if they were not drawn: the preset may have others."""
    return {
        "rank_by": "weight",
        "focus": 0,
        **options_of(method, drawn),
        **({} if whole else {"generations": PATIENCE}),
    }


def first_draws(env: str, method: str) -> list[Draw]:
    """Return the settings of the first round."""
    rng = _generator(env, method, 0)
    body = env.partition("-")[0]
    common = {"common_randomness": "generation", **START.get(body, {}), **START_OWN.get(method, {})}
    found: list[Draw] = [common] if body in START else []
    while len(found) < DRAWN:
        found += _new({name: _pick(rng, values) for name, values in ranges(env, method).items()}, found)
    return found


def children(env: str, method: str, number: int, parents: Sequence[Draw], known: Sequence[Draw]) -> list[Draw]:
    """Return the settings of a later round: parents with a few settings drawn again, none of them known."""
    rng, choices = _generator(env, method, number), ranges(env, method)
    fits = {*choices, "fade", *OWN_LATER.get(method, ())}
    finer = {name: values for name, values in FINER.items() if name in fits}
    made: list[Draw] = []
    for lead in LATER.get(number - ROUNDS, {}).get(env.partition("-")[0], ()):
        later = {name: value for name, value in lead.items() if name in fits}
        for parent in parents:
            made += _new({**parent, **later}, [*known, *made])
    made = made[:CHILDREN]
    for attempt in range(100 * CHILDREN):
        if len(made) == CHILDREN:
            break
        again = {str(name): choices[name] for name in rng.choice(list(choices), CHANGES, replace=False)}
        changes = {name: _pick(rng, values) for name, values in again.items()}
        if number > ROUNDS:
            changes.popitem()
            name = str(rng.choice(list(finer)))
            changes[name] = _pick(rng, finer[name])
        made += _new({**parents[attempt % len(parents)], **changes}, [*known, *made])
    return made


def _generator(*names: Any) -> np.random.Generator:
    return np.random.default_rng([ord(letter) for letter in " ".join(map(str, names))])


def _pick(rng: np.random.Generator, values: Sequence[Any]) -> Any:
    return values[int(rng.integers(len(values)))]


def _new(draw: Draw, known: Sequence[Draw]) -> list[Draw]:
    return [] if draw in known else [draw]


Trials = dict[tuple[str, str], list[Draw]]
"""All settings tried so far, by environment and method; the number of a trial is its place."""

Which = dict[tuple[str, str], list[int]]
"""Some of them, by their numbers."""


def cells(options: Options, trials: Trials, which: Which, ratios: Sequence[int], whole: bool = False) -> list[Cell]:
    """Return the cells of some trials at some noise ratios; `whole` is without an end to patience, and labelled so."""
    more = {"whole": "yes"} if whole else {}
    return [
        cell(options, env, ratio, method, _more(method, trials[env, method][trial], whole), trial=trial, **more)
        for (env, method), numbers in which.items()
        for trial in numbers
        for ratio in ratios
    ]


def runs_of(results: Results, env: str, method: str, seeds: Sequence[int]) -> dict[int, dict[str, list[Row]]]:
    """Return the runs with these seeds, by trial and noise ratio."""
    rows: dict[int, dict[str, list[Row]]] = {}
    for row in results.runs:
        if row["env"] == env and row["method"] == method and int(row["seed"]) in seeds:
            rows.setdefault(int(row["trial"]), {}).setdefault(str(row["noise"]), []).append(row)
    return rows


def found(runs: Sequence[Row]) -> float:
    """Return the share of real inputs that runs find, in the mean."""
    return fmean(float(row["recovery"] or 0) for row in runs)


def ranked(results: Results, env: str, method: str, seeds: Sequence[int], recovery: float) -> list[tuple[float, int]]:
    """Return (merit, trial), best first, over the runs with these seeds.

    The merit is the mean over noise ratios and seeds of the score; of ours, what counts of it (see above).
    """

    def merit(runs: list[Row]) -> float:
        score = fmean(float(row["score"] or "-inf") for row in runs)
        return score if method != "ours" or score < 0 else score * min(1.0, found(runs) / recovery)

    trials = runs_of(results, env, method, seeds)
    means = [(fmean(map(merit, by_ratio.values())), number) for number, by_ratio in trials.items()]
    return sorted(means, reverse=True)


def _run(labels: Row, seed: Any) -> tuple[str, ...]:
    """Return what tells a run of the search from its others."""
    return (*(str(labels[name]) for name in ("env", "method", "trial", "noise")), str(seed))


def tune(options: Options, out: Path, work: Path, command: str, address: str | None = None) -> None:
    """Run all rounds and write what was chosen to `chosen.toml`; what is in `out` is not run again."""
    pairs = [(env, method) for env in options.envs for method in METHODS]

    asked: set[tuple[str, str]] = set()

    def run(which: Which, ratios: Sequence[int], seeds: Sequence[int], again: Sequence[Row] = ()) -> Results:
        """Run some trials, or of them those runs `again` that were cut, whole and in their place.

        Returns the results of this search up to here, whatever else is in the folder.
        """
        made = cells(options, trials, which, ratios, whole=bool(again))
        asked.update((each.digest(), str(each.labels["trial"])) for each in made)
        cut = {_run(row, row["seed"]) for row in again}
        more: dict[str, Any] = {"only": lambda cell, seed: _run(cell.labels, seed) in cut} if again else {}
        results = run_experiment(made, seeds, out, work, command, curves=False, address=address, **more)
        own = [row for row in results.runs if (row["digest"], str(row["trial"])) in asked]
        return replace(results, runs=[row for row in own if row.get("whole") or _run(row, row["seed"]) not in cut])

    trials: Trials = {pair: first_draws(*pair) for pair in pairs}
    results = run({pair: list(range(DRAWN)) for pair in pairs}, SCREEN, FIRST)
    for number in range(1, ROUNDS + FINER_ROUNDS + 1):
        recovery = RECOVERY if number <= ROUNDS else SURE
        which: Which = {}
        for pair in pairs:
            known = trials[pair]
            parents = [known[trial] for _, trial in ranked(results, *pair, FIRST, recovery)[:PARENTS]]
            trials[pair] = known + children(*pair, number, parents, known)
            which[pair] = list(range(len(known), len(trials[pair])))
        results = run(which, SCREEN, FIRST)
    likely: Which = {pair: [trial for _, trial in ranked(results, *pair, FIRST, SURE)[:LIKELY]] for pair in pairs}
    results = run(likely, SCREEN, MORE)
    both = (*FIRST, *MORE)
    order = {
        pair: [trial for _, trial in ranked(results, *pair, both, ENOUGH) if trial in likely[pair]] for pair in pairs
    }
    finalists = {pair: numbers[:FINALISTS] for pair, numbers in order.items()}
    results = run(finalists, FINAL, SECOND)
    cut = [row for row in results.runs if int(row["seed"]) in SECOND and int(row["steps"]) < options.steps]
    results = run(finalists, FINAL, SECOND, cut) if cut else results
    (out / "chosen.toml").write_text(tomli_w.dumps(chosen(results, trials, finalists)))


def chosen(results: Results, trials: Trials, finalists: dict[tuple[str, str], list[int]]) -> dict[str, dict[str, Any]]:
    """Return the options of the best finalist of every environment and method."""
    best: dict[str, dict[str, Any]] = {}
    for (env, method), numbers in finalists.items():
        order = [trial for _, trial in ranked(results, env, method, SECOND, ENOUGH) if trial in numbers]
        if method == "ours":
            runs = runs_of(results, env, method, SECOND)
            short = [trial for trial in order if min(map(found, runs[trial].values())) < ENOUGH]
            order = [trial for trial in order if trial not in short] + short
        best.setdefault(env.partition("-")[0], {})[method] = options_of(method, trials[env, method][order[0]])
    return dict(sorted(best.items()))
