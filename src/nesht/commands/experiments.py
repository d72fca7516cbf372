"""`nesht experiment` and `nesht report`."""

from __future__ import annotations

import sys
from dataclasses import dataclass
from pathlib import Path
from typing import Any, Literal

import tyro

from nesht.commands.runs import parse_seeds
from nesht.errors import UserError

NOT_READ: dict[str, tuple[str, ...]] = {
    "theory": ("seeds", "steps", "env", "games", "betas", "noise", "method", "preset", "work", "address"),
    "tuning": ("seeds", "games", "betas", "noise", "method"),
    "cross-check": ("games", "betas", "engine", "device"),
    "atari": ("env",),
}
"""Options that are nothing to an experiment; those of games are nothing to most."""


@dataclass(frozen=True)
class Experiment:
    """Run one of the paper's experiments, or what is missing of it: nesht experiment table1 --seeds 0-1."""

    name: tyro.conf.Positional[
        Literal[
            "table1", "heatmap", "ablation", "prune-once", "clean", "limits", "cross-check", "tuning", "atari", "theory"
        ]
    ]
    """Which one."""
    seeds: str | None = None
    """0-19, or 0,3,5 (default: the experiment's own, 20 for most)."""
    steps: int = 10_000_000
    """Environment steps of every run; reinforcement learners take a tenth of them."""
    env: tuple[str, ...] = ()
    """Only these environments (default: HalfCheetah-v4, Hopper-v4 and Walker2d-v4)."""
    games: str = "Qbert,Atlantis,BattleZone,NameThisGame"
    """The games of `atari`."""
    betas: str = "0,.5,.9,.95"
    """The shares of its read-out that `atari` cuts; 0 is NES."""
    noise: tuple[int, ...] = ()
    """Only these noise ratios (default: all that the experiment asks for)."""
    method: tuple[Literal["NES", "NES-L1", "NESHT", "ours", "TRPO", "DDPG", "TD3", "ANF-SAC", "A2C"], ...] = ()
    """Only these methods (default: all evolution strategies that the experiment compares)."""
    preset: Literal["tuned", "paper"] = "tuned"
    """Settings of the methods: the authors' trainer, or what the search chose for each of them."""
    engine: Literal["auto", "fused", "batch"] = "auto"
    """Where episodes run. Learners train all seeds together on fused, each by itself on batch."""
    device: Literal["auto", "cpu", "cuda"] = "auto"
    """Where the fused engine runs, and learners train."""
    threads: int = 0
    """Threads, or processes of learners on a CPU (sets of them on a GPU); 0 is one per core (a few sets)."""
    address: str | None = None
    """Run every run as a task of this Ray cluster, auto or HOST:PORT, with --threads CPUs (0: one), or a GPU."""
    out: Path | None = None
    """The folder of the results (default: results/NAME-PRESET); runs that are in it are not run again."""
    work: Path = Path("runs/experiments")
    """Where the run folders go."""

    def execute(self) -> None:
        """Run what is missing, and say what is there."""
        plain = Experiment(self.name)
        for name in NOT_READ.get(self.name, ("games", "betas")):
            if getattr(self, name) != getattr(plain, name):
                raise UserError(f"--{name} does not apply to {self.name}.")
        if self.name == "theory":
            self._theory()
            return
        from nesht.experiments.catalogue import EXPERIMENTS
        from nesht.experiments.design import ENVS, Options
        from nesht.experiments.methods import METHODS
        from nesht.experiments.runner import Results, run_experiment
        from nesht.experiments.tuning import tune

        runtime = {"engine": self.engine, "device": self.device, "threads": self.threads, "checkpoint_seconds": 60.0}
        options = Options(self.env or ENVS, self.steps, self.preset, runtime, self.games.split(","), self._betas())
        out = self.out or Path("results") / f"{self.name}-{self.preset}"
        work, command = self.work / out.name, _command(self.name)
        if self.name == "tuning":
            tune(options, out, work, command, self.address)
        else:
            experiment = EXPERIMENTS[self.name]
            seeds = parse_seeds(self.seeds or experiment.seeds)
            cells = [
                cell
                for cell in experiment.cells(options)
                if (not self.noise or cell.labels["noise"] in self.noise)
                and cell.labels["method"] in (self.method or METHODS)
            ]
            if not cells:
                raise UserError(f"{self.name} has no cell with that environment, noise and method.")
            Results.read(out).check(cells)
            how: dict[str, Any] = {"address": self.address, "processes": self.threads}
            results = run_experiment(cells, seeds, out, work, command, segments=experiment.segments, **how)
            print(f"{experiment.question} {len(results.runs)} runs in {out}")
        print(f"Look at it with: nesht report {out}")

    def _betas(self) -> list[float]:
        try:
            return [float(beta) for beta in self.betas.split(",")]
        except ValueError:
            raise UserError(f"betas are written 0,.5,.9; got {self.betas!r}.") from None

    def _theory(self) -> None:
        """Measure what the paper's analysis is about; it has settings of its own."""
        from nesht.config import RuntimeOptions
        from nesht.experiments.theory import measure

        out = self.out or Path("results/theory")
        measure(out, _command(self.name), RuntimeOptions(self.engine, self.device, threads=self.threads))
        print(f"Look at it with: nesht report {out}")


@dataclass(frozen=True)
class Report:
    """Turn results into one self-contained page: nesht report results/table1-tuned --out report.html."""

    paths: tyro.conf.Positional[tuple[Path, ...]]
    """Folders of results, each a part of the page; run folders and fleets, also of rivals, are compared."""
    out: Path = Path("report.html")
    """The page."""
    figures: Path | None = None
    """Also write the figures as SVG and PNG files into this folder."""
    importance: int = 0
    """Measure what the score of every run loses without each input, over so many episodes (0: do not)."""
    threads: int = 0
    """Processes that measure; 0 is one per core."""

    def execute(self) -> None:
        """Write the page and say the main findings."""
        from importlib.util import find_spec

        if find_spec("matplotlib") is None:
            raise UserError("a report needs `pip install 'nesht[plot]'`.")
        if not self.paths:
            raise UserError("which results? For example: nesht report results/table1-tuned")
        from nesht.policies.saved import FILE, load_policy
        from nesht.report.importance import measure_all
        from nesht.report.inputs import inputs
        from nesht.report.page import write_report
        from nesht.report.scores import scores
        from nesht.training.folder import check_target, find_runs, holds_runs

        check_target(self.out)
        given = {path.resolve(): path for path in self.paths if holds_runs(path)}
        groups = {str(path): find_runs(path) for path in given.values()}
        about = [("scores", scores(groups))] if groups else []
        policies = {str(run): load_policy(run) for runs in groups.values() for run in runs if (run / FILE).exists()}
        lost = measure_all(policies, self.importance, self.threads)
        for number, (name, runs) in enumerate(groups.items()):
            if of_group := {str(run): policies[str(run)] for run in runs if str(run) in policies}:
                about.append((f"inputs-{number}", inputs(name, of_group, lost)))
        results = [path for path in self.paths if not holds_runs(path)]
        for section in write_report(results, self.out, self.figures, about):
            print(f"{section.title}: {section.lead}" if section.lead else section.title)
        print(f"written to {self.out}")


def _command(name: str) -> str:
    """Return the command line that runs, without the folders of this machine."""
    if sys.argv[1:2] != ["experiment"]:
        return f"nesht experiment {name} (called from Python)"
    words = list(sys.argv[2:])
    words.remove(name)  # the name may come after the options
    return " ".join(["nesht", "experiment", name, *(Path(w).name if w.startswith("/") else w for w in words)])
