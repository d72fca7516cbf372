"""The experiment `theory`: the paper's analysis beside measurements. Nothing here is a training run to be compared.

A results folder holds one CSV file for each of PARTS, and about.json with the command, the settings, the versions and
the seconds of each. Parts that are there are not measured again.
"""

from __future__ import annotations

import json
import sys
import time
from collections.abc import Callable, Iterator, Sequence
from contextlib import closing
from dataclasses import asdict, dataclass, replace
from pathlib import Path
from typing import Any

import numpy as np

from nesht.config import RuntimeOptions, TaskOptions
from nesht.engines import choose_device, choose_engine
from nesht.errors import UserError
from nesht.experiments.hopper import luck_on_hopper, variance_on_hopper
from nesht.experiments.runner import ABOUT, Row, machine, read_csv, to_csv
from nesht.storage import write_file
from nesht.tasks.task import make_task
from nesht.theory import Analysis, Steps, episode_spread, estimator_variance, example_1, follow, gradients, sparse
from nesht.training.folder import RunFolder


@dataclass(frozen=True)
class Settings:
    """How much is measured."""

    repeats: int = 200
    """Gradient estimates behind every measured variance."""
    hopper_repeats: int = 50
    """The same on Hopper."""
    generations: int = 3000
    """Of the runs that show the rate."""
    seeds: int = 5
    """Of those runs."""
    irrelevant: tuple[int, ...] = (0, 5, 15, 45, 95)
    """Irrelevant coordinates of Example 1."""
    example_generations: int = 400
    """Of the runs on Example 1."""
    example_seeds: int = 8
    """Of the runs on Example 1 that are reported."""
    steps: int = 400_000
    """Environment steps of every policy that is trained on Hopper."""
    policies: int = 8
    """Policies that are trained on the clean Hopper."""
    trained: int = 5
    """Policies that each method trains on noisy Hopper at every ratio."""
    ratios: tuple[int, ...] = (0, 1, 5, 10, 20, 40)
    """Noise inputs per real one."""
    members: int = 40
    """Perturbed policies around each, of 4 episodes."""


@dataclass(frozen=True)
class Measurements:
    """What is in a results folder."""

    parts: dict[str, list[Row]]
    about: list[Row]

    @classmethod
    def read(cls, folder: Path) -> Measurements:
        """Read a results folder."""
        if not (folder / ABOUT).exists():
            raise UserError(f"there are no results of an experiment in {folder}.")
        files = {name: folder / f"{name}.csv" for name in PARTS}
        parts = {name: read_csv(file.read_text()) for name, file in files.items() if file.exists()}
        return cls(parts, json.loads((folder / ABOUT).read_text()))


def measure(out: Path, command: str, runtime: RuntimeOptions, settings: Settings | None = None) -> None:
    """Measure every part that is not there, and write it down."""
    with closing(RunFolder(out)):
        _measure(out, command, runtime, settings or Settings())


def _measure(out: Path, command: str, runtime: RuntimeOptions, settings: Settings) -> None:
    about = json.loads((out / ABOUT).read_text()) if (out / ABOUT).exists() else []
    for name, part in PARTS.items():
        if (out / f"{name}.csv").exists():
            continue
        print(f"theory: measuring {name}", file=sys.stderr)
        start = time.monotonic()
        rows = list(part(settings, runtime))
        entry = {"command": command, "part": name, "engine": [_engine(name, runtime)], "settings": asdict(settings)}
        about = [other for other in about if other["part"] != name]
        about.append({**entry, "seconds": round(time.monotonic() - start), **machine()})
        write_file(out / f"{name}.csv", to_csv(rows).encode())
        write_file(out / ABOUT, (json.dumps(about, indent=1) + "\n").encode())


def steps_problem(d: int = 20) -> tuple[Steps, np.ndarray]:
    """Return a return with jumps whose first 4 of d coordinates matter, B = 1, C = 1, and a 4-sparse point."""
    top = np.where(np.arange(d) < 4, 1.0, 0.0)
    return Steps(top, noise=1.0, width=0.8), 0.4 * top


BASE = {"n": 32, "rollouts": 4, "sigma": 0.3, "d": 20}
SWEEPS: dict[str, Sequence[float]] = {
    "n": (4, 16, 64, 256),
    "rollouts": (1, 4, 16, 64),
    "sigma": (0.05, 0.1, 0.3, 1.0),
    "d": (5, 20, 80, 320),
}


def variance(settings: Settings, runtime: RuntimeOptions) -> Iterator[Row]:
    """Yield the measured variance of the gradient estimate beside the exact one and both bounds."""
    first = 0
    for name, values in SWEEPS.items():
        for value in values:
            at: dict[str, Any] = {**BASE, name: value}
            n, rollouts, sigma, d = (at[key] for key in BASE)
            problem, theta = steps_problem(d)
            estimates = gradients(problem.returns, theta, sigma, n, rollouts, settings.repeats, first)
            first += settings.repeats  # no two settings share luck
            found = estimator_variance(estimates)
            bias = np.linalg.norm(estimates.mean(axis=0) - problem.gradient(theta, sigma))
            analysis = Analysis(d, problem.height, problem.noise**2, sigma)
            yield {
                "problem": "steps",
                "varied": name,
                **at,
                "measured": _short(found.value),
                "error": _short(found.error),
                "exact": _short(float(problem.estimator_variance(theta, sigma, n, rollouts))),
                "corrected": _short(replace(analysis, corrected=True).variance_bound(n, rollouts)),
                "paper": _short(analysis.variance_bound(n, rollouts)),
                "bias": _short(float(bias)),
                "bias_error": _short((found.value / settings.repeats) ** 0.5),
            }
    yield from variance_on_hopper(settings.steps, settings.hopper_repeats, runtime)


def example_variance(settings: Settings, runtime: RuntimeOptions) -> Iterator[Row]:
    """Yield the variance of an episode in Example 1 for dense and sparse policies, in closed form and measured."""
    sigma, k, seed = 0.1, 5, 0
    for irrelevant in settings.irrelevant:
        problem = example_1(k, irrelevant)
        dense = np.random.default_rng(irrelevant).uniform(-1, 1, problem.d)
        aligned = np.where(problem.top != 0, dense, 0.0)
        for kind, theta in (("dense", dense), ("thresholded", sparse(dense, k)), ("right support", aligned)):
            for place, width in (("policy", 0.0), ("members", sigma)):
                seed += 1  # no two rows share luck
                found = episode_spread(problem.returns, theta, width, 200, 8, seed).variance
                exact = float(problem.episode_variance(theta)) + problem.spread**2 * width**2 * problem.d
                row = {"irrelevant": irrelevant, "theta": kind, "at": place, "exact": _short(exact)}
                yield {**row, "measured": _short(found.value), "error": _short(found.error)}


def convergence(settings: Settings, runtime: RuntimeOptions) -> Iterator[Row]:
    """Yield the mean squared distance to stationarity of the theorem's algorithm against T, and its bound."""
    sigma, n, k = 0.8, 32, 4
    top = np.where(np.arange(10) < k, 1.0, 0.0)
    problem = Steps(top, noise=0.1, width=0.8)
    places = np.unique(np.geomspace(1, settings.generations, 40).round().astype(int))
    for start, theta in (("right support", 0.2 * top), ("zero", 0 * top)):
        for name in ("paper", "corrected"):
            analysis = Analysis(problem.d, 1.0, 0.01, sigma, corrected=name == "corrected")
            options = {"sigma": sigma, "lr": analysis.step, "n": n, "generations": settings.generations, "k": k}
            path = follow(problem, theta, seeds=range(settings.seeds), **options)  # type: ignore[arg-type]
            means, right = path.mean_square(), (path.theta[:, :k] != 0).sum(axis=1)
            for seed in range(settings.seeds):
                for t in places:
                    yield {
                        "start": start,
                        "step": name,
                        "seed": seed,
                        "generations": t,
                        "mean_square": _short(means[t - 1, seed]),
                        "bound": _short(analysis.distance_bound(int(t), n) ** 2),
                        "right_at_end": right[seed],
                        "value_at_end": _short(float(problem.smoothed(path.theta[seed], sigma))),
                    }


METHODS: dict[str, dict[str, Any]] = {"NES": {}, "NESHT": {"k": 5}, "with memory": {"k": 5, "memory": 0.95}}
RATES = (0.1, 0.2, 0.4, 0.8, 1.6)
"""Step sizes that every method may choose from, in units of n sigma^2 / (s^2 d), beyond which luck feeds on itself."""


def example(settings: Settings, runtime: RuntimeOptions) -> Iterator[Row]:
    """Yield how near NES and NESHT come to the top of Example 1 (with a curve), each with its best step size.

    The step size is chosen on two seeds that are not reported.
    """
    sigma, n = 0.1, 32

    def left(irrelevant: int, method: str, rate: float, seeds: range) -> tuple[np.ndarray, np.ndarray]:
        problem = example_1(5, irrelevant, curve=1.0)
        lr = rate * n * sigma**2 / problem.d
        options = {"sigma": sigma, "lr": lr, "n": n, "generations": settings.example_generations, **METHODS[method]}
        with np.errstate(all="ignore"):  # a step that is too long blows up
            path = follow(problem, np.zeros(problem.d), seeds=seeds, **options)
        last = path.error[-max(1, len(path.error) // 20) :].mean(axis=0) / 5
        return np.where(np.isfinite(last), last, np.inf), (path.theta[:, :5] != 0).sum(axis=1)

    for irrelevant in settings.irrelevant:
        for method in METHODS:
            tried = {rate: left(irrelevant, method, rate, range(1000, 1002))[0].mean() for rate in RATES}
            best = min(tried, key=lambda rate: tried[rate])
            errors, right = left(irrelevant, method, best, range(settings.example_seeds))
            for seed, (error, kept) in enumerate(zip(errors, right, strict=True)):
                row = {"irrelevant": irrelevant, "method": method, "rate": best, "seed": seed}
                yield {**row, "error": _short(float(error)), "right": kept}


def hopper(settings: Settings, runtime: RuntimeOptions) -> Iterator[Row]:
    """Yield how much the returns of single policies scatter on Hopper, dense and sparse, as noise inputs grow."""
    yield from luck_on_hopper(
        settings.steps, settings.policies, settings.trained, settings.ratios, settings.members, runtime
    )


PARTS: dict[str, Callable[[Settings, RuntimeOptions], Iterator[Row]]] = {
    "variance": variance,
    "example-variance": example_variance,
    "hopper": hopper,
    "convergence": convergence,
    "example": example,
}


def _engine(part: str, runtime: RuntimeOptions) -> str:
    """Return what computes a part, and where."""
    if part not in ("variance", "hopper"):
        return "NumPy on cpu"
    engine = choose_engine(runtime.engine, make_task(TaskOptions("Hopper-v4")))
    return f"{engine} on {choose_device(engine, runtime.device)}"


def _short(value: float) -> float:
    return float(f"{value:.5g}")
