"""Starting and resuming runs: options, seeds and folders in, results out."""

from __future__ import annotations

import sys
from collections.abc import Sequence
from dataclasses import fields
from pathlib import Path
from typing import Any

from nesht.config import Config, RuntimeOptions
from nesht.errors import UserError
from nesht.presets import preset as preset_options
from nesht.training.fleet import Fleet
from nesht.training.folder import RunFolder, find_runs, fleet_runs, is_run, read_config
from nesht.training.loop import Callback, Run, RunResult, run_generations
from nesht.training.recorder import Recorder
from nesht.training.setup import DEFAULT_STEPS, Setup, build

CHANGEABLE = {"env", "steps", "generations", "seconds", *(option.name for option in fields(RuntimeOptions))}
"""What `resume` may change: where a run is computed, how long, and the function behind the name of its environment."""


def train(*, out: str | Path | None = None, config: Config | None = None, **options: Any) -> RunResult:
    """Train one policy.

    Args:
        out: the run folder; without one nothing is written.
        config: options to start from, instead of a preset.
        options: `preset`, `overwrite`, `progress` and `callback` as in `train_fleet`, and any option of `nesht.Config`,
            by name.

    Examples:
        >>> result = nesht.train(env="Hopper-v4", noise_ratio=10, beta=0.9, steps=1_000_000, out="runs/hopper")
        >>> result.score, result.policy.used
    """
    seed = options.pop("seed", (config or Config()).training.seed)
    return train_fleet([seed], out=out, config=config, **options)[0]


def train_fleet(
    seeds: Sequence[int],
    *,
    preset: str = "tuned",
    out: str | Path | None = None,
    overwrite: bool = False,
    progress: bool = True,
    callback: Callback | None = None,
    config: Config | None = None,
    **options: Any,
) -> list[RunResult]:
    """Train one policy per seed, all together; every run gives the same bits as it would alone.

    Args:
        seeds: the seeds, each once.
        preset: options to start from, "tuned" or "paper"; not used with `config`.
        out: with one seed the run folder, with several the folder of their run folders (`seed-0`, ...).
        overwrite: replace runs that are already there.
        progress: show progress on standard error.
        callback: called after every generation with the records of all active runs.
        config: options to start from, instead of a preset.
        options: any option of `nesht.Config`, by name; they override the preset or the config.
    """
    seeds = [int(seed) for seed in seeds]
    if not seeds or len(set(seeds)) != len(seeds):
        raise UserError(f"seeds must be given, each once, got {seeds}.")
    if config is None:
        env = options.get("env", "")
        config = Config().change(**preset_options(preset, env if isinstance(env, str) else ""))
    config = config.change(**options)
    if config.training.steps is config.training.generations is config.training.seconds is None:
        config = config.change(steps=DEFAULT_STEPS)
    setups = [build(config.change(seed=seed)) for seed in seeds]
    folders = _start_folders(Path(out), setups, overwrite) if out is not None else [None] * len(seeds)
    runs = [
        Run(seed, folder, Recorder(folder.path, tensorboard=config.runtime.tensorboard) if folder else None)
        for seed, folder in zip(seeds, folders, strict=True)
    ]
    return run_generations(Fleet.new(setups[0], seeds), setups[0], runs, progress, callback)


def resume(
    path: str | Path, *, progress: bool = True, callback: Callback | None = None, **options: Any
) -> list[RunResult]:
    """Go on with the run or the fleet in a folder; it ends with the same bits as if it had never stopped.

    Args:
        path: a run folder, or the folder of a fleet.
        progress: show progress on standard error.
        callback: called after every generation with the records of all active runs.
        options: runtime options to change (`threads`, ...), a larger budget (`steps`, `generations`, `seconds`), or the
            factory `env` of a run whose environment cannot be found by name.
    """
    if fixed := set(options) - CHANGEABLE:
        raise UserError(f"{min(fixed)} belongs to what a run is and cannot be changed on the way; start a new run.")
    paths = find_runs(Path(path))
    if "engine" in options:  # another engine may not know the device of the one before
        options = {"device": "auto", **options}
    configs = [read_config(folder).change(**options) for folder in paths]
    if any(config.change(seed=0) != configs[0].change(seed=0) for config in configs):
        raise UserError(f"the runs in {path} have different options; resume them one at a time.")
    setup = build(configs[0])
    runs: list[Run] = []
    fleets: list[Fleet] = []
    try:
        for folder_path, config in zip(paths, configs, strict=True):
            folder = RunFolder(folder_path)
            runs.append(Run(config.training.seed, folder, None))
            fleet, lengths, warning = folder.load(Fleet.new(setup, [config.training.seed]))
            fleets.append(fleet)
            _check_budget(fleet, options)
            if warning:
                print(f"nesht: {warning}", file=sys.stderr)
            if options:
                folder.remember(config)
            runs[-1].recorder = Recorder(folder_path, lengths, config.runtime.tensorboard)
    except BaseException:
        for run in runs:
            run.close()
        raise
    return run_generations(Fleet.join(fleets), setup, runs, progress, callback)


def _check_budget(fleet: Fleet, options: dict[str, Any]) -> None:
    """Refuse a new budget that the run has used up already."""
    spent = {"steps": fleet.steps[0], "generations": fleet.state.generation[0], "seconds": fleet.seconds[0]}
    for name, used in spent.items():
        if options.get(name) is not None and options[name] <= used:
            raise UserError(
                f"seed {fleet.state.seed[0]} has used {used:g} {name} already, more than {options[name]:g}."
            )


def _start_folders(out: Path, setups: list[Setup], overwrite: bool) -> list[RunFolder | None]:
    """Open and claim all folders before anything is simulated."""
    paths = [out] if len(setups) == 1 else [out / f"seed-{setup.config.training.seed}" for setup in setups]
    if fleet_runs(out) if len(setups) == 1 else is_run(out):
        kind = "a fleet" if len(setups) == 1 else "a single run"
        raise UserError(f"{out} already holds {kind}; choose another --out.")
    folders: list[RunFolder | None] = []
    try:
        for path, setup in zip(paths, setups, strict=True):
            folder = RunFolder(path)
            folders.append(folder)
            folder.start(setup.config, overwrite)
    except BaseException:
        for opened in folders:
            if opened is not None:
                opened.close()
        raise
    return folders
