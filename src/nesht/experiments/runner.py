"""Running an experiment: what is missing is trained, all of it in one program, and the raw results are written down.

A results folder holds, for one experiment:

    runs.csv             one row per run: labels, seed, score, what it cost, which inputs it kept
    evaluations.csv.gz   one row per evaluation of every run, where curves are kept
    about.json           for every batch of runs: the command, the versions, the engine and the device that made it

Runs that are in `runs.csv` with the same settings are not run again.
"""

from __future__ import annotations

import csv
import gzip
import io
import json
import platform
import shutil
import sys
import tomllib
import zlib
from collections.abc import Callable, Sequence
from contextlib import closing
from dataclasses import dataclass
from datetime import UTC, datetime
from importlib.metadata import PackageNotFoundError, version
from pathlib import Path
from typing import Any

from nesht import __version__
from nesht.baselines.many import check_run, train_baselines
from nesht.baselines.run import BaselineConfig
from nesht.config import Config
from nesht.errors import UserError
from nesht.experiments.design import Cell
from nesht.policies.saved import FILE as POLICY
from nesht.policies.saved import load_policy
from nesht.report.features import feature_report
from nesht.storage import DamagedFileError, write_file
from nesht.tasks.task import make_task
from nesht.training.api import resume, train_many
from nesht.training.folder import CONFIG, SUMMARY, RunFolder, is_run, may_go_on, read_config

Row = dict[str, Any]
RUNS, EVALUATIONS, ABOUT = "runs.csv", "evaluations.csv.gz", "about.json"
MEASURES = (
    "seed",
    "score",
    "steps",
    "generations",
    "seconds",
    "diverged",
    "used",
    "real_used",
    "recovery",
    "noise_leak",
)
KEYS = ("digest", "batch")
"""A row's settings, and the entry of about.json that made it."""
PACKAGES = ("numpy", "mujoco", "mujoco-core", "gymnasium", "torch", "stable-baselines3", "sb3-contrib", "warp-lang")
"""Those whose versions belong to a result."""


def _read_runs(content: bytes) -> list[Row]:
    text = content.decode()
    if "digest" not in text.partition("\n")[0].split(","):
        raise ValueError("it has other columns")
    rows = read_csv(text)
    if any(None in row.values() for row in rows):
        raise ValueError("a row was cut")
    return rows


def _read_evaluations(content: bytes) -> list[Row]:
    return read_csv(gzip.decompress(content).decode())


@dataclass
class Results:
    """The rows of an experiment, on disk."""

    folder: Path
    runs: list[Row]
    evaluations: list[Row]
    about: list[Row]

    @classmethod
    def read(cls, folder: Path) -> Results:
        """Read what is there; nothing is an experiment that has not begun."""
        found: list[Any] = []
        for name, read in ((RUNS, _read_runs), (EVALUATIONS, _read_evaluations), (ABOUT, json.loads)):
            file = folder / name
            try:
                found.append(read(file.read_bytes()) if file.exists() else [])
            except (ValueError, KeyError, TypeError, EOFError, zlib.error, gzip.BadGzipFile) as error:
                raise DamagedFileError(f"{file} is damaged ({error}).") from error
        return cls(folder, *found)

    def missing(self, cells: Sequence[Cell], seeds: Sequence[int]) -> list[tuple[Cell, int]]:
        """Return the runs of these cells and seeds that are not there, under these labels and with these settings."""
        there: dict[tuple[str, str], list[Row]] = {}
        for row in self.runs:
            there.setdefault((row["digest"], str(row["seed"])), []).append(row)

        def known(cell: Cell, seed: int) -> bool:
            rows = there.get((cell.digest(), str(seed)), [])
            return any(all(str(row.get(name, "")) == str(value) for name, value in cell.labels.items()) for row in rows)

        return [(cell, seed) for cell in cells for seed in seeds if not known(cell, seed)]

    def check(self, cells: Sequence[Cell]) -> None:
        """Raise UserError if a cell is there with other settings: a report would take them for the same."""
        there: dict[tuple[str, ...], set[str]] = {}
        names = sorted({name for cell in cells for name in cell.labels})
        for row in self.runs:
            there.setdefault(tuple(str(row.get(name, "")) for name in names), set()).add(row["digest"])
        for cell in cells:
            known = there.get(tuple(str(cell.labels.get(name, "")) for name in names), set())
            if known - {cell.digest()}:
                raise UserError(f"{self.folder} holds {cell.name} with other settings or steps; choose another --out.")

    def write(self) -> None:
        """Write all files, each all or nothing."""
        self.folder.mkdir(parents=True, exist_ok=True)
        write_file(self.folder / RUNS, to_csv(self.runs).encode())
        if self.evaluations:
            write_file(self.folder / EVALUATIONS, gzip.compress(to_csv(self.evaluations).encode(), mtime=0))
        write_file(self.folder / ABOUT, (json.dumps(self.about, indent=1) + "\n").encode())


def run_experiment(
    cells: Sequence[Cell],
    seeds: Sequence[int],
    out: Path,
    work: Path,
    command: str,
    *,
    curves: bool = True,
    segments: bool = False,
    progress: bool = True,
    address: str | None = None,
    processes: int = 0,
    only: Callable[[Cell, int], bool] = lambda cell, seed: True,
) -> Results:
    """Train what is missing of all cells and seeds, and write it down; also after Ctrl-C, with what is finished.

    Of them, `only` some may be wanted. Without `curves`, a run leaves one row and nothing about its evaluations. With
    `segments`, these keep the weights of every stretch of inputs. With an `address`, every run is a task of that Ray
    cluster. Of reinforcement learners, so many processes or sets are trained at a time (see `train_baselines`).
    """

    def left(results: Results) -> list[tuple[Cell, int]]:
        return [run for run in results.missing(cells, seeds) if only(*run)]

    results = Results.read(out)
    missing = left(results)
    for cell in {cell.digest(): cell for cell, _ in missing}.values():
        if isinstance(cell.config, BaselineConfig):
            check_run(cell.config)
    for task in {repr(cell.config.task): cell.config.task for cell, _ in missing}.values():
        _ = make_task(task).spaces  # a mistake is found here, before anything is said or done
    total = sum(only(cell, seed) for cell in cells for seed in seeds)
    print(f"{total - len(missing)} of {total} runs are there; {len(missing)} to go", file=sys.stderr)
    if not missing:
        return results
    with closing(RunFolder(out)):  # so that nobody else adds rows to those that are read here
        results = Results.read(out)
        missing = left(results)
        places: dict[tuple[str, int], Path] = {}
        for cell, seed in missing:  # cells with other labels may be the same setting, which is run once
            places.setdefault((cell.digest(), seed), work / cell.name / f"seed-{seed}")
        try:
            _train(missing, places, progress, address, processes)
        finally:
            _collect(results, missing, places, command, curves, segments)
    return results


def _train(
    missing: list[tuple[Cell, int]],
    places: dict[tuple[str, int], Path],
    progress: bool,
    address: str | None,
    processes: int,
) -> None:
    """Go on with runs that were interrupted, then train the new ones."""
    new: dict[Path, Config] = {}
    begun: dict[Path, None] = {}
    rivals: dict[Path, BaselineConfig] = {}
    for cell, seed in missing:
        place = places[cell.digest(), seed]
        if isinstance(cell.config, BaselineConfig):
            rivals[place] = cell.config.change(seed=seed)
            if (place / CONFIG).exists() and not rivals[place].made(place):
                shutil.rmtree(place)  # left by other settings
            continue
        if is_run(place) and Cell(cell.labels, read_config(place)).digest() != cell.digest():  # left by other settings
            shutil.rmtree(place)
        if is_run(place) and not may_go_on(place):
            shutil.rmtree(place)
        if not is_run(place):
            new[place] = cell.config.change(seed=seed)
        elif not (place / SUMMARY).exists():
            begun[place] = None
    if address is not None:
        from nesht.experiments.cluster import Job, train_on_cluster

        jobs: list[Job] = [(read_config(place), place) for place in begun]
        jobs += [(config, place) for place, config in new.items()]
        jobs += [(config, place) for place, config in rivals.items()]
        if jobs:
            train_on_cluster(jobs, address, progress)
        return
    if begun:
        resume(list(begun), progress=progress)
    if new:
        train_many(list(new.values()), outs=list(new), progress=progress)
    if rivals:
        train_baselines([(config, place) for place, config in rivals.items()], processes, progress)


def _collect(
    results: Results,
    missing: list[tuple[Cell, int]],
    places: dict[tuple[str, int], Path],
    command: str,
    curves: bool,
    segments: bool,
) -> None:
    batch, engines = len(results.about), set()
    for cell, seed in missing:
        place = places[cell.digest(), seed]
        if not (place / SUMMARY).exists():
            continue
        engines.add(_engine(cell, place))
        keys = {"digest": cell.digest(), "batch": batch}
        results.runs.append({**cell.labels, **_measures(cell, place), **keys})
        for row in read_csv((place / "evaluations.csv").read_text()) if curves else ():
            if not segments:
                row.pop("segments", None)
            results.evaluations.append({**cell.labels, **row, "digest": cell.digest()})
    if engines:
        results.about.append({"command": command, "engine": sorted(engines), **machine()})
        results.write()


def _engine(cell: Cell, place: Path) -> str:
    """Return what computed a run, and where."""
    if isinstance(cell.config, BaselineConfig):
        there = tomllib.loads((place / CONFIG).read_text())
        engine = there.get("engine", "fused" if there["device"] == "cuda" else "gym")  # older folders do not say
        return f"{'batched trainer' if engine == 'fused' else 'stable-baselines3'} on {there['device']}"
    runtime = read_config(place).runtime
    return f"{runtime.engine} on {runtime.device}"


def _measures(cell: Cell, place: Path) -> Row:
    """Return what a finished run came to; which inputs were kept is no question about a learner that keeps all."""
    summary = json.loads((place / SUMMARY).read_text())
    found = {name: _short(summary[name]) for name in ("seed", "score", "steps", "generations", "seconds", "diverged")}
    if not (place / POLICY).exists():
        return found
    policy = load_policy(place)
    report = feature_report(policy)
    leak = _short(report.noise_leak) if report.noise_leak is not None else ""
    if isinstance(cell.config, BaselineConfig):
        return {**found, "noise_leak": leak}
    used, real = len(report.used), sum(feature.index < policy.n_real for feature in report.used)
    most = min(used, policy.n_real)
    return {
        **found,
        "used": used,
        "real_used": real,
        "recovery": _short(real / most) if most else "",
        "noise_leak": leak,
    }


def machine() -> Row:
    """Return what about this machine and its software belongs to a result."""
    packages = {"nesht": __version__, "python": platform.python_version()}
    for name in PACKAGES:
        try:
            packages[name] = version(name)
        except PackageNotFoundError:
            continue
    try:
        import torch

        device = torch.cuda.get_device_name() if torch.cuda.is_available() else "cpu"
    except ImportError:
        device = "cpu"
    return {"date": datetime.now(UTC).isoformat(timespec="seconds"), "device": device, "versions": packages}


def _short(value: float) -> float:
    return round(value, 4) if isinstance(value, float) else value


def read_csv(text: str) -> list[Row]:
    """Return the rows of a CSV file; all values are text."""
    return list(csv.DictReader(io.StringIO(text)))


def to_csv(rows: list[Row]) -> str:
    """Return rows as CSV; labels that some rows lack are empty there."""
    names = list(dict.fromkeys(name for row in rows for name in row))
    last = [name for name in (*MEASURES, "generation", *KEYS) if name in names]
    order = [name for name in names if name not in last] + last
    text = io.StringIO()
    writer = csv.DictWriter(text, order, restval="", lineterminator="\n")
    writer.writeheader()
    writer.writerows(rows)
    return text.getvalue()
