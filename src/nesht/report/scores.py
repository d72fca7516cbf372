"""The part of a page that says how runs scored beside each other, whatever trained them."""

from __future__ import annotations

import json
import tomllib
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from html import escape
from pathlib import Path

import numpy as np

from nesht.config import RECENT
from nesht.experiments.statistics import mean, probability_of_improvement
from nesht.report.figure import read_scores
from nesht.report.plots import Figure, curves
from nesht.report.sections import Section, interval, table
from nesht.training.folder import CONFIG, SUMMARY


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

    @property
    def task(self) -> str:
        """What it learnt."""
        return f"{self.env} x{self.noise}"


def scores(groups: Mapping[str, Sequence[Path]]) -> Section:
    """Return how groups of runs scored, by their names; the first is compared with the others on the same task."""
    found = {name: [run for path in paths if (run := read_run(path))] for name, paths in groups.items()}
    rows, said, first = [], [], next(iter(found))
    cells = [(name, task) for name, each in found.items() for task in dict.fromkeys(run.task for run in each)]
    for name, task in cells:
        here, ours = ([run for run in found[each] if run.task == task] for each in (name, first))
        numbers, rivals = ([run.score for run in each] for each in (here, ours))
        score, steps = mean(numbers), sorted(int(run.steps[-1]) for run in here)
        begun = sum(not run.finished for run in here)
        count = f"{len(here)}, {begun} of them not finished" if begun else str(len(here))
        taken = " to ".join(f"{step:,}" for step in dict.fromkeys((steps[0], steps[-1])))
        compared = rivals and name != first
        chance = interval(probability_of_improvement(rivals, numbers), 2) if compared else ""
        rows.append([escape(name), escape(task), count, taken, interval(score), chance])
        said.append(f"{name} {score.value:z.0f}")
    head = ["", "task", "runs", "steps", "score", *([f"how often {escape(first)} scores more"] * (len(found) > 1))]
    about = f"<p>A score is the mean of a run's last {RECENT} evaluations; means over runs with 95 % intervals.</p>"
    lead = f"{'; '.join(said)}." if said else "No run was evaluated yet."
    shown = table(head, [row[: len(head)] for row in rows])
    return Section("Scores", lead, [shown, about, *_drawn(found)])


def read_run(folder: Path) -> Run | None:
    """Read a run folder; None if nothing was evaluated yet."""
    task = tomllib.loads((folder / CONFIG).read_text())["task"]
    steps, evaluated = read_scores(folder)
    if not len(steps):
        return None
    finished = (folder / SUMMARY).exists()
    score = json.loads((folder / SUMMARY).read_text())["score"] if finished else float(evaluated[-RECENT:].mean())
    return Run(task["env"], f"{task.get('noise_ratio', 0):g}", steps, evaluated, score, finished)


def _drawn(found: Mapping[str, Sequence[Run]]) -> list[Figure]:
    evaluations = [
        {"env": run.env, "noise": run.noise, "method": name, "seed": number, "steps": steps, "score": score}
        for name, each in found.items()
        for number, run in enumerate(each)
        for steps, score in zip(run.steps, run.scores, strict=True)
    ]
    words = "Score over training; bands are 95 % intervals over runs."
    return [curves(evaluations, "score", "curves", words)] if evaluations else []
