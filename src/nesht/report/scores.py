"""The part of a page that says how runs scored beside each other, whatever trained them."""

from __future__ import annotations

import json
import tomllib
from collections.abc import Mapping, Sequence
from dataclasses import asdict, dataclass
from html import escape
from pathlib import Path

import numpy as np

from nesht.config import RECENT, TaskOptions
from nesht.experiments.statistics import mean, probability_of_improvement
from nesht.report.plots import Figure, curves
from nesht.report.sections import Section, interval, table
from nesht.storage import DamagedFileError
from nesht.training.folder import CONFIG, SUMMARY, read_scores


@dataclass(frozen=True)
class Run:
    """What the folder of a run, of an evolution strategy or of another learner, says about how it went."""

    env: str
    noise: str
    steps: np.ndarray
    """Of its evaluations."""
    scores: np.ndarray
    """Of its evaluations."""
    score: float
    finished: bool
    learner: str
    special: str
    """Options of the task that are not the usual ones."""

    @property
    def task(self) -> str:
        """What it learnt."""
        return ", ".join(part for part in (f"{self.env} x{self.noise}", self.special) if part)


Groups = dict[tuple[str, str], list[Run]]
"""Runs by the name of their group and their task."""


def scores(groups: Mapping[str, Sequence[Path]]) -> Section:
    """Return how groups of runs scored, by their names; the first is compared with the others on the same task.

    Runs that are not finished are left out where others are.
    """
    found: Groups = {}
    for name, paths in groups.items():
        for run in (run for path in paths if (run := read_run(path))):
            found.setdefault((name, run.task), []).append(run)
    counted = {key: [run for run in each if run.finished] or each for key, each in found.items()}
    first, several, rows, said = next(iter(groups)), len({task for _, task in found}) > 1, [], []
    for (name, task), here in counted.items():
        numbers, rivals = ([run.score for run in counted.get((each, task), [])] for each in (name, first))
        score, steps = mean(numbers), sorted(int(run.steps[-1]) for run in here)
        taken = " to ".join(f"{step:,}" for step in dict.fromkeys((steps[0], steps[-1])))
        compared = rivals and name != first
        chance = interval(probability_of_improvement(rivals, numbers), 2) if compared else ""
        chance = chance or ("" if name == first else "nothing to compare")
        learner = ", ".join(sorted({run.learner for run in here}))
        count = _count(here, len(found[name, task]) - len(here))
        rows.append([escape(name), escape(learner), escape(task), count, taken, interval(score), chance])
        going = "" if all(run.finished for run in here) else " (not finished)"
        said.append(f"{name} {f'on {task} ' if several else ''}{score.value:z.0f}{going}")
    head = [
        "",
        "learner",
        "task",
        "runs",
        "steps",
        "score",
        *([f"how often {escape(first)} scores more"] * (len(groups) > 1)),
    ]
    shown = table(head, [row[: len(head)] for row in rows])
    about = f"<p>A score is the mean of a run's last {RECENT} evaluations; means over runs with 95 % intervals.</p>"
    lead = f"{'; '.join(said)}." if said else "No run was evaluated yet."
    return Section("Scores", lead, [shown, about, *_drawn(counted)])


def read_run(folder: Path) -> Run | None:
    """Read a run folder; None if nothing was evaluated yet, or the score is no number."""
    try:
        config = tomllib.loads((folder / CONFIG).read_text())
        task, finished = config["task"], (folder / SUMMARY).exists()
        score = json.loads((folder / SUMMARY).read_text())["score"] if finished else None
        env = task["env"]
    except (ValueError, KeyError, TypeError) as error:
        raise DamagedFileError(f"{CONFIG} or {SUMMARY} in {folder} is damaged ({error}).") from error
    if finished and score is None:
        return None
    usual, (steps, evaluated) = asdict(TaskOptions()), read_scores(folder)
    if not len(steps):
        return None
    score = float(evaluated[-RECENT:].mean()) if score is None else score
    if not np.isfinite(score):
        return None
    special = {name: value for name, value in task.items() if name not in ("env", "noise_ratio")}
    more = [f"{name} {value}" for name, value in special.items() if value != _listed(usual.get(name))]
    noise, learner = f"{task.get('noise_ratio', 0):g}", config.get("algorithm", "nesht")
    return Run(env, noise, steps, evaluated, score, finished, learner, ", ".join(more))


def _listed(value: object) -> object:
    """Return a value as it comes back from a file."""
    return list(value) if isinstance(value, tuple) else value


def _count(here: Sequence[Run], left_out: int) -> str:
    going = sum(not run.finished for run in here)
    if going:
        return f"{len(here)}, not finished"
    return f"{len(here)}, without {left_out} that are not finished" if left_out else str(len(here))


def _drawn(found: Groups) -> list[Figure]:
    evaluations = [
        {
            "env": ", ".join(part for part in (run.env, run.special) if part),
            "noise": run.noise,
            "method": name,
            "seed": number,
            "steps": steps,
            "score": score,
        }
        for (name, _), each in found.items()
        for number, run in enumerate(each)
        for steps, score in zip(run.steps, run.scores, strict=True)
    ]
    words = "Score over training; bands are 95 % intervals over runs."
    return [curves(evaluations, "score", "curves", words)] if evaluations else []
