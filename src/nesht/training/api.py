"""Starting and resuming runs: options, seeds and folders in, results out."""

from __future__ import annotations

import sys
from collections.abc import Sequence
from dataclasses import fields
from pathlib import Path
from typing import Any

from nesht.config import OF_RESULTS, Config, RuntimeOptions, plain_task
from nesht.errors import UserError
from nesht.keys import check_seed
from nesht.presets import preset as preset_options
from nesht.storage import allow_open_files
from nesht.training.fleet import Fleet
from nesht.training.folder import METRICS, RunFolder, algorithm_of, find_runs, fleet_runs, is_run, read_config
from nesht.training.loop import Callback, Group, Run, RunResult, run_groups
from nesht.training.recorder import Recorder
from nesht.training.setup import DEFAULT_STEPS, Setup, build, kind, together
from nesht.training.trackers import Tracker, start_tracker

CHANGEABLE = {
    *("env", "steps", "generations", "seconds"),
    *({option.name for option in fields(RuntimeOptions)} - set(OF_RESULTS)),
}
"""What `resume` may change: where a run is computed, how long, and the function behind the name of its environment."""

FILES = len(METRICS) + 1
"""Files that are open for every run: what is recorded, and the lock of its folder."""


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
    seeds = [check_seed(seed) for seed in seeds]
    if not seeds or len(set(seeds)) != len(seeds):
        raise UserError(f"seeds must be given, each once, got {seeds}.")
    if config is None:
        env = options.get("env", "")
        config = Config().change(**preset_options(preset, env if isinstance(env, str) else "", options))
    config = config.change(**options)
    if out is not None:
        _check_kind(Path(out), len(seeds))
        _check_company(Path(out), seeds, config)
    outs = [Path(out)] if out and len(seeds) == 1 else [Path(out) / f"seed-{seed}" for seed in seeds] if out else None
    configs = [config.change(seed=seed) for seed in seeds]
    return train_many(configs, outs=outs, overwrite=overwrite, progress=progress, callback=callback)


def train_many(
    configs: Sequence[Config],
    *,
    outs: Sequence[str | Path] | None = None,
    overwrite: bool = False,
    pause: int | None = None,
    progress: bool = True,
    callback: Callback | None = None,
) -> list[RunResult]:
    """Train many runs of any settings in one program; every run gives the same bits as it would alone.

    Runs that differ only in numbers (seed, lr, sigma, beta, memory, penalty), in `normalise` or in `common_randomness`
    advance together; on a GPU, runs that differ in more run side by side.

    Args:
        configs: the options of every run.
        outs: the run folder of every run; without them nothing is written.
        overwrite: replace runs that are already there.
        pause: steps after which to stop every run for now; `resume` goes on.
        progress: show progress on standard error.
        callback: called after every generation of a group of runs with the records of its active runs; on a GPU from
            several threads.
    """
    if not configs:
        raise UserError("there are no runs to train.")
    configs = [config if _has_budget(config) else config.change(steps=DEFAULT_STEPS) for config in configs]
    setups = [build(config).pausing(pause) for config in configs]
    runs = _start_runs([Path(out) for out in outs] if outs else [], setups, overwrite)
    groups = _by_kind(setups)
    made = [_new_group([setups[i] for i in rows], [runs[i] for i in rows]) for rows in groups]
    return _in_order(groups, run_groups(made, progress, callback))


def _by_kind(setups: Sequence[Setup]) -> list[list[int]]:
    """Return which runs advance together."""
    groups: dict[str, list[int]] = {}
    for i, setup in enumerate(setups):
        groups.setdefault(kind(setup.config), []).append(i)
    return list(groups.values())


def _in_order(groups: list[list[int]], results: list[RunResult]) -> list[RunResult]:
    """Return the results of all groups, one after the other, in the order of the runs."""
    order = [i for rows in groups for i in rows]
    return [result for _, result in sorted(zip(order, results, strict=True), key=lambda pair: pair[0])]


def _has_budget(config: Config) -> bool:
    options = config.training
    return not (options.steps is options.generations is options.seconds is None)


def _new_group(setups: list[Setup], runs: list[Run]) -> Group:
    """Return the group of new runs of one kind."""
    setup = together(setups)
    return Group(setup, Fleet.new(setup, [run.seed for run in runs]), runs)


def resume(
    path: str | Path | Sequence[str | Path],
    *,
    pause: int | None = None,
    progress: bool = True,
    callback: Callback | None = None,
    **options: Any,
) -> list[RunResult]:
    """Go on with the run or the fleet in a folder; it ends with the same bits as if it had never stopped.

    Args:
        path: a run folder, the folder of a fleet, or several of them, which then go on in one program.
        pause: steps after which to stop every run for now.
        progress: show progress on standard error.
        callback: called after every generation with the records of all active runs.
        options: runtime options to change (`threads`, ...), a larger budget (`steps`, `generations`, `seconds`), or the
            factory `env` of a run whose environment cannot be found by name.
    """
    if fixed := set(options) - CHANGEABLE:
        raise UserError(f"{min(fixed)} belongs to what a run is and cannot be changed on the way; start a new run.")
    places = [path] if isinstance(path, (str, Path)) else path
    paths = [run for place in places for run in find_runs(Path(place))]
    if "engine" in options:  # another engine may not know the device or the cluster of the one before
        options = {"device": "auto", "address": None, **options}
    before = [read_config(folder) for folder in paths]
    configs = [config.change(**options) for config in before]
    for place, old, new in zip(paths, before, configs, strict=True):
        name, moved = plain_task(new.task)["env"], callable(new.task.env) and ":" in str(old.task.env)
        if name != old.task.env and not moved:
            raise UserError(f"{place} is a run on {old.task.env}, not on {name}; start a new run.")
    setups = [build(config).pausing(pause) for config in configs]
    groups = _by_kind(setups)
    runs: list[Run] = []
    made: list[Group] = []
    allow_open_files(FILES * len(paths))
    try:
        for rows in groups:
            setup, fleets = together([setups[i] for i in rows]), []
            for i in rows:
                config, folder = configs[i], RunFolder(paths[i])
                runs.append(Run(config.training.seed, folder, None))
                fleet, lengths, warning = folder.load(Fleet.new(setups[i], [config.training.seed]))
                fleets.append(fleet)
                _check_budget(fleet, options)
                if warning:
                    print(f"nesht: {warning}", file=sys.stderr)
                track = config.runtime.track
                tracker = start_tracker(track, paths[i], config, folder.tracked(track), int(fleet.steps[0]))
                runs[-1].recorder = Recorder(paths[i], lengths, tracker)
            made.append(Group(setup, Fleet.join(fleets), runs[-len(rows) :]))
        for i, run in zip((i for rows in groups for i in rows), runs, strict=True):
            if options and run.folder is not None:  # now that nothing was refused
                run.folder.remember(configs[i])
    except BaseException:
        for run in runs:
            run.close()
        raise
    return _in_order(groups, run_groups(made, progress, callback))


def _check_budget(fleet: Fleet, options: dict[str, Any]) -> None:
    """Refuse a new budget that the run has used up already."""
    spent = {"steps": fleet.steps[0], "generations": fleet.state.generation[0], "seconds": fleet.seconds[0]}
    for name, used in spent.items():
        if options.get(name) is not None and options[name] <= used:
            raise UserError(
                f"seed {fleet.state.seed[0]} has used {used:g} {name} already, more than {options[name]:g}."
            )


def _check_kind(out: Path, runs: int) -> None:
    """Refuse to put a single run into the folder of a fleet, or the other way round."""
    if fleet_runs(out) if runs == 1 else is_run(out):
        kind = "a fleet" if runs == 1 else "a single run"
        raise UserError(f"{out} already holds {kind}; choose another --out.")


def _check_company(out: Path, seeds: Sequence[int], config: Config) -> None:
    """Refuse to put runs beside those of other options into a fleet, whose runs are told as one."""
    config = config if _has_budget(config) else config.change(steps=DEFAULT_STEPS)
    for path in fleet_runs(out):
        if path.name in {f"seed-{seed}" for seed in seeds}:
            continue
        if rival := algorithm_of(path):
            raise UserError(f"{out} holds runs of {rival}; choose another --out.")
        mine, other = _flat(config), _flat(read_config(path))
        for name in (*mine, *other):
            if (here := mine.get(name)) != (there := other.get(name)):
                words = f"{path.name} has {name} {there}, not {here}"
                raise UserError(f"{out} holds runs with other options ({words}); choose another --out.")


def _flat(config: Config) -> dict[str, Any]:
    """Return what counts about a run, by option."""
    return {name: value for options in config.identity().values() for name, value in options.items()}


def _start_runs(paths: Sequence[Path], setups: list[Setup], overwrite: bool) -> list[Run]:
    """Claim all folders and start all trackers before anything there is replaced; no paths, no folders."""
    seeds = [setup.config.training.seed for setup in setups]
    if not paths:
        return [Run(seed, None, None) for seed in seeds]
    allow_open_files(FILES * len(paths))
    folders: list[RunFolder] = []
    trackers: list[Tracker | None] = []
    try:
        for path in paths:
            folders.append(RunFolder(path))
            if not overwrite:
                folders[-1].check_free()
        for path, setup in zip(paths, setups, strict=True):
            trackers.append(start_tracker(setup.config.runtime.track, path, setup.config))
        for folder, setup in zip(folders, setups, strict=True):
            folder.start(setup.config)
        recorders = [Recorder(path, tracker=tracker) for path, tracker in zip(paths, trackers, strict=True)]
    except BaseException:
        for tracker in trackers:
            if tracker is not None:
                tracker.close(finished=False)
        for folder in folders:
            folder.close()
        raise
    return [Run(*parts) for parts in zip(seeds, folders, recorders, strict=True)]
