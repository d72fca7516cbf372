"""Searching for settings by successive halving over a fleet: `nesht tune` and `nesht.tune`.

A folder of a search holds

    best.toml      the settings that won, for `nesht train --config`
    trials.csv     all settings, best first
    search.json    what was asked for, and every finished round: the same search goes on from here
    trials/        a folder per trial with a run folder per seed
"""

from __future__ import annotations

import csv
import io
import json
import math
import shutil
import sys
from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path
from statistics import fmean
from typing import Any

import numpy as np

from nesht.config import Config
from nesht.errors import UserError
from nesht.policies.saved import load_policy
from nesht.presets import preset as preset_options
from nesht.storage import write_file
from nesht.training.api import resume, train_many
from nesht.training.folder import holds_runs, is_run, read_scores
from nesht.training.setup import build
from nesht.tuning.draws import RANGES, draw, searched
from nesht.tuning.halving import Rung, afford, plan

BEST, TRIALS, SEARCH = "best.toml", "trials.csv", "search.json"
LAST = 0.25
"""A trial is judged by the evaluations in this last share of its steps so far."""


@dataclass(frozen=True)
class Trial:
    """One setting and how it did."""

    number: int
    config: Config
    rounds: int
    """How many rounds it was in."""
    steps: int
    """Environment steps of all its runs together."""
    score: float
    """Mean over its seeds of the last evaluations; NaN if there are none."""
    inputs: float
    """How many inputs its policies read, on average."""


@dataclass(frozen=True)
class TuneResult:
    """What a search found."""

    config: Config
    """The best settings, with the seed and the steps to train with."""
    trials: list[Trial]
    """All of them, best first."""
    steps: int
    """Environment steps that were spent."""
    folder: Path
    """Where all of it is."""


def tune(
    *,
    budget: int,
    out: str | Path,
    trials: int = 16,
    seeds: Sequence[int] = (1000, 1001),
    search: Sequence[str] = tuple(RANGES),
    preset: str = "tuned",
    config: Config | None = None,
    overwrite: bool = False,
    progress: bool = True,
    **options: Any,
) -> TuneResult:
    """Search for the sparsity, sigma and learning rate that suit an environment.

    Settings are drawn around the starting point and trained side by side; the better half of them goes on, twice as
    far, until two are left. A search that was stopped goes on when it is asked for again.

    Args:
        budget: environment steps of the whole search.
        out: the folder of the search.
        trials: how many settings to try; the first is the starting point itself.
        seeds: the seeds that every setting is tried with; leave out those you report results on.
        search: what to search: "sparsity" (beta or k), "sigma", "lr".
        preset: options to start from; not used with `config`.
        config: options to start from, instead of a preset.
        overwrite: begin anew where there is another search.
        progress: show progress on standard error.
        options: any option of `nesht.Config`, by name. `steps` is how long the found settings are to train, and what
            schedules go by; by default as far as the last round gets.
    """
    if config is None:
        env = options.get("env", "")
        config = Config().change(**preset_options(preset, env if isinstance(env, str) else "", options))
    config = config.change(**options)
    _check(config, budget, trials, seeds)
    rungs = plan(budget, trials, len(seeds), config.training.steps)
    config = config.change(steps=config.training.steps or rungs[-1].steps)
    setup = build(config)
    least = setup.strategy.n * config.strategy.rollouts
    if rungs[0].steps < least:
        needed = math.ceil(budget * least / max(1, rungs[0].steps))
        raise UserError(
            f"a budget of {budget:,} steps is too small for {trials} trials: a generation has {least:,} episodes, of a "
            f"step or more each. Give {needed:,} or (many times) more, fewer trials, or a smaller --n."
        )
    settings = draw(config, trials, min(setup.strategy.units.counts, default=1), search)
    names = searched(config, search)
    found = _Search(Path(out), settings, tuple(seeds), progress)
    place = {"seed": config.training.seed, "engine": setup.config.runtime.engine}
    asked = {**config.identity(), **place, "budget": budget, "trials": trials, "search": search, "seeds": seeds}
    found.begin(asked, overwrite)
    for number in range(len(found.rounds), len(rungs)):
        found.run(rungs[number:], budget)
        found.write(names)
    found.write(names)  # also if all rounds were there
    ranked = found.ranked()
    return TuneResult(ranked[0].config, ranked, found.spent, found.folder)


def _check(config: Config, budget: int, trials: int, seeds: Sequence[int]) -> None:
    if trials < 2:
        raise UserError(f"a search needs at least 2 trials, got {trials}.")
    if not seeds or len(set(seeds)) != len(seeds):
        raise UserError(f"seeds must be given, each once, got {list(seeds)}.")
    if budget <= 0:
        raise UserError(f"the budget in steps must be positive, got {budget}.")
    if config.training.generations is not None or config.training.seconds is not None:
        raise UserError("a search has a budget in steps; leave out generations and seconds.")


class _Search:
    """A search in its folder."""

    def __init__(self, folder: Path, settings: list[Config], seeds: tuple[int, ...], progress: bool):
        self.folder, self._settings, self._seeds, self._progress = folder, settings, seeds, progress
        self.rounds: list[dict[str, dict[str, float]]] = []
        self._asked: dict[str, Any] = {}

    def begin(self, asked: dict[str, Any], overwrite: bool) -> None:
        """Start anew, or go on with the same search; another one is refused or replaced."""
        self._asked = json.loads(json.dumps(asked))
        path = self.folder / SEARCH
        if holds_runs(self.folder):
            raise UserError(f"{self.folder} holds runs; choose another --out.")
        if path.exists() and not overwrite:
            try:
                known = json.loads(path.read_text())
                same, self.rounds = known["asked"] == self._asked, known["rounds"]
            except (ValueError, KeyError, TypeError):
                raise UserError(f"{path} is damaged; --overwrite begins anew.") from None
            if not same:
                raise UserError(f"{self.folder} holds another search; choose another --out, or --overwrite it.")
            return
        if (self.folder / "trials").exists():
            if not overwrite:
                raise UserError(f"{self.folder} holds trials but no {SEARCH}; choose another --out, or --overwrite it.")
            shutil.rmtree(self.folder / "trials")
        for name in (BEST, TRIALS):
            (self.folder / name).unlink(missing_ok=True)
        self.folder.mkdir(parents=True, exist_ok=True)
        self._save()

    @property
    def spent(self) -> int:
        """Environment steps of all runs so far, as of the last finished round."""
        return sum(trial.steps for trial in self.ranked()) if self.rounds else 0

    def ranked(self) -> list[Trial]:
        """Return all trials, best first: by the rounds they were in, then by their score there, then by number."""
        found = []
        for number, config in enumerate(self._settings):
            rounds = [each[str(number)] for each in self.rounds if str(number) in each]
            if rounds:
                facts = rounds[-1]
                score = math.nan if facts["score"] is None else facts["score"]
                found.append(Trial(number, config, len(rounds), int(facts["steps"]), score, facts["inputs"]))
        return sorted(found, key=lambda trial: (-trial.rounds, math.inf if math.isnan(trial.score) else -trial.score))

    def run(self, rungs: Sequence[Rung], budget: int) -> None:
        """Run the first of some rounds, with the best trials so far, and remember what came out."""
        rung, before = rungs[0], self.ranked()
        numbers = [trial.number for trial in before[: rung.trials]] or list(range(rung.trials))
        there = fmean(trial.steps for trial in before[: rung.trials]) / len(self._seeds) if before else 0.0
        pause = afford(rungs, there, (budget - self.spent) / len(self._seeds))
        if self._progress:
            words = f"{len(numbers)} settings (seeds {', '.join(map(str, self._seeds))}) up to {pause:,} steps"
            print(f"round {len(self.rounds) + 1}, {len(rungs) - 1} to come: {words}", file=sys.stderr)
        self._train(numbers, pause)
        self.rounds.append({str(number): self._measured(number) for number in numbers})
        self._save()

    def _train(self, numbers: Sequence[int], pause: int) -> None:
        places = {self._place(number, seed): (number, seed) for number in numbers for seed in self._seeds}
        old = [place for place in places if is_run(place)]
        new = [place for place in places if place not in old]
        if new:
            configs = [self._settings[places[place][0]].change(seed=places[place][1]) for place in new]
            train_many(configs, outs=new, pause=pause, progress=self._progress)
        if old:
            start = self._settings[0]
            factory: dict[str, Any] = {} if isinstance(start.task.env, str) else {"env": start.task.env}
            resume(old, pause=pause, progress=self._progress, threads=start.runtime.threads, **factory)

    def _measured(self, number: int) -> dict[str, Any]:
        scores, steps, inputs, lost = [], 0, [], False
        for seed in self._seeds:
            place = self._place(number, seed)
            at, score = read_scores(place)
            if len(at):
                scores.append(float(score[at >= (1 - LAST) * at[-1]].mean()))
                steps += int(at[-1])
            policy = load_policy(place)
            inputs.append(int(policy.used.sum()))
            lost = lost or not np.isfinite(policy.parameters).all()  # its evaluations are of what it was before
        whole = not lost and len(scores) == len(self._seeds) and all(map(math.isfinite, scores))
        return {"score": fmean(scores) if whole else None, "steps": steps, "inputs": fmean(inputs)}

    def _place(self, number: int, seed: int) -> Path:
        return self.folder / "trials" / f"trial-{number}" / f"seed-{seed}"

    def _save(self) -> None:
        text = json.dumps({"asked": self._asked, "rounds": self.rounds}, indent=1)
        write_file(self.folder / SEARCH, text.encode())

    def write(self, names: Sequence[str]) -> None:
        """Write the best settings and the table of all."""
        ranked = self.ranked()
        best, seeds = ranked[0], ", ".join(map(str, self._seeds))
        about = f"# nesht tune: trial {best.number}, score {best.score:.1f} with the seeds {seeds}\n\n"
        write_file(self.folder / BEST, (about + best.config.to_toml()).encode())
        table = io.StringIO()
        rows = csv.writer(table, lineterminator="\n")
        rows.writerow(["trial", "rounds", "steps", "score", "inputs", *names])
        for trial in ranked:
            facts = (trial.number, trial.rounds, trial.steps, f"{trial.score:.6g}", f"{trial.inputs:g}")
            rows.writerow([*facts, *(getattr(trial.config.strategy, name) for name in names)])
        write_file(self.folder / TRIALS, table.getvalue().encode())
