"""The command line: `nesht train`, `resume`, `eval`, `inspect`, `bench`. Thin; everything happens in the package."""

from __future__ import annotations

import argparse
import json
import os
import signal
import sys
from collections.abc import Sequence
from dataclasses import dataclass, field
from pathlib import Path
from typing import Annotated, Any, Literal, get_type_hints

import tyro

from nesht import __version__
from nesht.config import Config, RuntimeOptions, TaskOptions, check_kinds, read_options
from nesht.errors import UserError
from nesht.presets import PRESETS, preset


@dataclass(frozen=True)
class Train:
    """Train a sparse policy: nesht train --env Hopper-v4 --noise-ratio 10 --beta 0.9 --out runs/hopper."""

    out: Path | None = None
    """The run folder (default: runs/ENV-xNOISE, made from the options)."""
    seeds: str | None = None
    """Train several runs together, one per seed: 0-19, or 0,3,5. Each gets a folder of its own inside --out."""
    overwrite: bool = False
    """Replace a run that is already in --out."""
    preset: Literal["tuned", "paper"] = "tuned"
    """Options to start from: tuned (whole features with memory), or paper (the published trainer)."""
    config: Path | None = None
    """A TOML file with options, such as the config.toml of another run; it overrides the preset, flags override it."""
    options: Config = field(default_factory=Config)

    def execute(self) -> None:
        """Train and say what came out."""
        from nesht.training.api import train_fleet

        config = self.options
        seeds = parse_seeds(self.seeds) if self.seeds else [config.training.seed]
        out = self.out or Path("runs") / _slug(config)
        results = train_fleet(seeds, config=config, out=out, overwrite=self.overwrite)
        for result in results:
            print(_told(result))
        print(f"Look at it with: nesht inspect {out}")


@dataclass(frozen=True)
class Resume:
    """Go on with a run (or a fleet) that was stopped, or give a finished one a larger budget."""

    path: tyro.conf.Positional[Path]
    """The run folder."""
    steps: int | None = None
    """A larger budget in environment steps."""
    generations: int | None = None
    """A larger budget in generations."""
    seconds: float | None = None
    """A larger budget in wall time."""
    threads: int | None = None
    """Another number of threads; the result stays the same."""
    engine: Literal["auto", "fused", "batch", "gym"] | None = None
    """Another engine."""
    device: Literal["auto", "cpu", "cuda"] | None = None
    """Another device for the fused engine."""

    def execute(self) -> None:
        """Resume and say what came out."""
        from nesht.training.api import resume

        names = ("steps", "generations", "seconds", "threads", "engine", "device")
        changes = {name: getattr(self, name) for name in names if getattr(self, name) is not None}
        for result in resume(self.path, **changes):
            print(_told(result))


@dataclass(frozen=True)
class Eval:
    """Score a trained policy: every reward counts, distractors on, nothing perturbed."""

    path: tyro.conf.Positional[Path]
    """A run folder, the folder of a fleet, or a policy file."""
    episodes: int = 10
    """How many episodes."""
    seed: int = 0
    """The same seed gives the same episodes."""
    threads: int = 0
    """Threads; 0 is one per core."""
    engine: Literal["auto", "fused", "batch", "gym"] = "auto"
    """Where episodes run."""
    device: Literal["auto", "cpu", "cuda"] = "auto"
    """Where the fused engine runs."""
    json: bool = False
    """Print JSON instead of text."""

    def execute(self) -> None:
        """Evaluate every policy found."""
        import numpy as np

        from nesht.policies.saved import load_policy
        from nesht.training.evaluation import evaluate_policy

        rows = []
        for path in _policies(self.path):
            runtime = RuntimeOptions(self.engine, self.device, threads=self.threads)
            result = evaluate_policy(load_policy(path), self.episodes, self.seed, runtime)
            scores = result.scores[np.isfinite(result.scores)]
            rows.append(
                {
                    "run": str(path),
                    "episodes": self.episodes,
                    "mean": float(scores.mean()) if scores.size else None,
                    "std": float(scores.std()) if scores.size else None,
                    "min": float(scores.min()) if scores.size else None,
                    "max": float(scores.max()) if scores.size else None,
                    "mean_steps": float(result.steps.mean()),
                    "diverged": result.diverged,
                }
            )
        if self.json:
            print(json.dumps(rows, indent=2))
            return
        for row in rows:
            if row["mean"] is None:
                print(f"{row['run']}: all {row['episodes']} episodes diverged")
                continue
            print(
                f"{row['run']}: score {row['mean']:.1f} ± {row['std']:.1f} "
                f"(min {row['min']:.1f}, max {row['max']:.1f}) "
                f"over {row['episodes']} episodes of {row['mean_steps']:.0f} steps"
                + (f"; {row['diverged']} diverged" if row["diverged"] else "")
            )


@dataclass(frozen=True)
class Inspect:
    """Show which inputs a policy uses, how strongly, and which can be unplugged."""

    path: tyro.conf.Positional[Path]
    """A run folder, the folder of a fleet, or a policy file."""
    json: bool = False
    """Print JSON instead of a table."""
    figure: Path | None = None
    """Also draw the learning curve and the inputs kept into this picture (needs nesht[plot])."""

    def execute(self) -> None:
        """Print the report of every policy found."""
        from nesht.policies.saved import load_policy
        from nesht.report.features import feature_report
        from nesht.report.figure import draw_run
        from nesht.report.table import print_features

        paths = _policies(self.path)
        reports = {str(path): feature_report(load_policy(path)) for path in paths}
        if self.json:
            print(json.dumps({path: report.as_dict() for path, report in reports.items()}, indent=2))
        else:
            for path, report in reports.items():
                print_features(path, report)
        if self.figure is not None:
            if not all(path.is_dir() for path in paths):
                raise UserError("a figure needs a run folder with metrics, not only a policy file.")
            draw_run(paths, self.figure)
            print(f"figure: {self.figure}", file=sys.stderr)


@dataclass(frozen=True)
class Bench:
    """Measure this machine: training steps per second on every engine that can run here."""

    env: str = "HalfCheetah-v4"
    """Hopper-v4, Walker2d-v4 or HalfCheetah-v4 (or v5)."""
    noise_ratio: float = 10.0
    """Distractor features per real feature."""
    threads: int = 0
    """Threads; 0 is one per core."""
    rounds: int = 3
    """How many times to measure; the median is shown."""

    def execute(self) -> None:
        """Measure and print a table."""
        from nesht.report.bench import bench

        bench(self.env, self.noise_ratio, self.threads, self.rounds)


@dataclass(frozen=True)
class Experiment:
    """Run one of the paper's experiments, or what is missing of it: nesht experiment table1 --seeds 0-1."""

    name: tyro.conf.Positional[
        Literal["table1", "heatmap", "ablation", "prune-once", "clean", "limits", "cross-check", "tuning"]
    ]
    """Which one."""
    seeds: str | None = None
    """0-19, or 0,3,5 (default: the experiment's own, 20 for most)."""
    steps: int = 10_000_000
    """Environment steps of every run."""
    env: tuple[str, ...] = ()
    """Only these environments (default: HalfCheetah-v4, Hopper-v4 and Walker2d-v4)."""
    noise: tuple[int, ...] = ()
    """Only these noise ratios (default: all that the experiment asks for)."""
    method: tuple[Literal["NES", "NES-L1", "NESHT", "ours"], ...] = ()
    """Only these methods (default: all that the experiment compares)."""
    preset: Literal["tuned", "paper"] = "tuned"
    """Settings of the methods: the authors' trainer, or what the search chose for each of them."""
    engine: Literal["auto", "fused", "batch"] = "auto"
    """Where episodes run."""
    device: Literal["auto", "cpu", "cuda"] = "auto"
    """Where the fused engine runs."""
    threads: int = 0
    """Threads; 0 is one per core."""
    out: Path | None = None
    """The folder of the results (default: results/NAME-PRESET); runs that are in it are not run again."""
    work: Path = Path("runs/experiments")
    """Where the run folders go."""

    def execute(self) -> None:
        """Run what is missing, and say what is there."""
        from nesht.experiments.catalogue import EXPERIMENTS
        from nesht.experiments.design import ENVS, Options
        from nesht.experiments.runner import run_experiment
        from nesht.experiments.tuning import tune

        runtime = {"engine": self.engine, "device": self.device, "threads": self.threads, "checkpoint_seconds": 60.0}
        options = Options(self.env or ENVS, self.steps, self.preset, runtime)
        out = self.out or Path("results") / f"{self.name}-{self.preset}"
        work, command = self.work / out.name, _command()
        if self.name == "tuning":
            tune(options, out, work, command)
        else:
            experiment = EXPERIMENTS[self.name]
            seeds = parse_seeds(self.seeds or experiment.seeds)
            cells = [
                cell
                for cell in experiment.cells(options)
                if (not self.noise or cell.labels["noise"] in self.noise)
                and (not self.method or cell.labels["method"] in self.method)
            ]
            if not cells:
                raise UserError(f"{self.name} has no cell with that environment, noise and method.")
            results = run_experiment(cells, seeds, out, work, command, experiment.segments)
            print(f"{experiment.question} {len(results.runs)} runs in {out}")
        print(f"Look at it with: nesht report {out}")


@dataclass(frozen=True)
class Report:
    """Turn results into one self-contained page: nesht report results/table1-tuned --out report.html."""

    paths: tyro.conf.Positional[tuple[Path, ...]]
    """Folders of results; each becomes a part of the page."""
    out: Path = Path("report.html")
    """The page."""
    figures: Path | None = None
    """Also write the figures as SVG and PNG files into this folder."""

    def execute(self) -> None:
        """Write the page and say the main findings."""
        from importlib.util import find_spec

        missing = [name for name in ("scipy", "matplotlib") if find_spec(name) is None]
        if missing:
            raise UserError("a report needs `pip install 'nesht[report]'`.")
        if not self.paths:
            raise UserError("which results? For example: nesht report results/table1-tuned")
        from nesht.report.page import write_report

        for section in write_report(self.paths, self.out, self.figures):
            print(f"{section.title}: {section.lead}" if section.lead else section.title)
        print(f"written to {self.out}")


def _command() -> str:
    """Return the command line that runs, without the folders of this machine."""
    return " ".join(["nesht", *(Path(word).name if word.startswith("/") else word for word in sys.argv[1:])])


def main(arguments: Sequence[str] | None = None) -> None:
    """Run the command line; a mistake of the user gets one sentence and exit code 2."""
    arguments = list(sys.argv[1:] if arguments is None else arguments)
    if arguments == ["--version"]:
        print(f"nesht {__version__}")
        return
    sys.path.append(os.getcwd())  # so that --env module:function finds a module in the current folder
    signal.signal(signal.SIGTERM, signal.default_int_handler)  # what a cluster sends before it kills: stop like Ctrl-C
    try:
        _parse(arguments).execute()
    except UserError as error:
        _end(str(error), 2)
    except OSError as error:
        _end(f"{error.strerror or error}: {error.filename or 'while writing'}. What was saved before is intact.", 1)
    except KeyboardInterrupt:
        saved = arguments[0] in ("train", "resume")
        _end("stopped; what was trained is saved, and `nesht resume` goes on from there." if saved else "stopped.", 130)


def parse_seeds(text: str) -> list[int]:
    """Read 0-19, or 0,3,5, or a mix of both."""
    seeds: list[int] = []
    try:
        for part in text.split(","):
            first, dash, last = part.partition("-")
            seeds += range(int(first), int(last) + 1) if dash else [int(first)]
    except ValueError:
        raise UserError(f"seeds are written 0-19 or 0,3,5; got {text!r}.") from None
    return seeds


def _parse(arguments: list[str]) -> Any:
    commands: Any = Annotated[
        Annotated[Train, tyro.conf.subcommand("train", default=Train(options=_starting_point(arguments)))]
        | Annotated[Resume, tyro.conf.subcommand("resume")]
        | Annotated[Eval, tyro.conf.subcommand("eval")]
        | Annotated[Inspect, tyro.conf.subcommand("inspect")]
        | Annotated[Bench, tyro.conf.subcommand("bench")]
        | Annotated[Experiment, tyro.conf.subcommand("experiment")]
        | Annotated[Report, tyro.conf.subcommand("report")],
        None,
    ]
    markers = (tyro.conf.OmitArgPrefixes, tyro.conf.OmitSubcommandPrefixes)
    return tyro.cli(commands, args=arguments, prog="nesht", config=markers, registry=_registry())


def _starting_point(arguments: list[str]) -> Config:
    """Return the options that `train` starts from: the defaults, then the preset, then the config file."""
    if not arguments or arguments[0] != "train":
        return Config()
    peek = argparse.ArgumentParser(add_help=False, allow_abbrev=False)
    for flag in ("--preset", "--env", "--config"):
        peek.add_argument(flag)
    given, _ = peek.parse_known_args([argument for argument in arguments if argument not in ("-h", "--help")])
    options = read_options(Path(given.config)) if given.config else {}
    env = given.env or options.get("env", "")
    config = Config().change(**{**preset(given.preset or PRESETS[0], env), **options})
    check_kinds(config)
    return config


def _registry() -> tyro.constructors.ConstructorRegistry:
    """Teach tyro that an environment is text on the command line, though Python also takes a function."""
    registry = tyro.constructors.ConstructorRegistry()
    kind = get_type_hints(TaskOptions)["env"]

    @registry.primitive_rule
    def environment(info: Any) -> Any:
        if info.type != kind:
            return None
        return tyro.constructors.PrimitiveConstructorSpec(
            nargs=1,
            metavar="ID",
            instance_from_str=lambda words: words[0],
            is_instance=lambda value: isinstance(value, str),
            str_from_instance=lambda value: [value],
        )

    return registry


def _policies(path: Path) -> list[Path]:
    """Return the policy file given, or the run folders that hold one."""
    from nesht.training.folder import find_runs

    return [path] if path.is_file() else find_runs(path)


def _slug(config: Config) -> str:
    task = config.sections()["task"]
    name = "".join(c if c.isalnum() or c in "-." else "-" for c in str(task["env"]))
    return f"{name or 'run'}-x{task['noise_ratio']:g}"


def _told(result: Any) -> str:
    lost = f", {result.diverged} episodes diverged" if result.diverged else ""
    policy = result.policy
    real = f", {policy.used[: policy.n_real].sum()} of them real" if len(policy.feature_names) > policy.n_real else ""
    return (
        f"seed {result.seed}: score {result.score:.1f} after {result.steps:,} steps in {result.seconds:.0f} s; "
        f"{policy.used.sum()} of {len(policy.feature_names)} inputs used{real}{lost}"
    )


def _end(sentence: str, code: int) -> None:
    print(f"nesht: {sentence}", file=sys.stderr)
    sys.exit(code)
