"""What a search tries: settings drawn around a starting point, from declared ranges."""

from __future__ import annotations

import math
from collections.abc import Callable, Sequence
from typing import Any

from nesht import keys
from nesht.config import Config
from nesht.errors import UserError, near_matches
from nesht.strategy import Schedule

RANGES = {"sparsity": (1 / 4, 4.0), "sigma": (1 / 4, 8.0), "lr": (1 / 4, 4.0)}
"""By which factors a setting is multiplied, at least and at most; small factors are as likely as large ones.

The sparsity is what a threshold keeps (k, or 1 - beta), or a penalty. The learning rate moves with sigma: what matters
is the length of a step against the width of the search. Sigma goes further up, because the presets are made for
robots and small problems like wider searches.
"""


def draw(start: Config, trials: int, units: int, search: Sequence[str] = tuple(RANGES)) -> list[Config]:
    """Return the settings of all trials: the starting point itself, then drawn ones, spread evenly over the ranges.

    `units` is how many there are to keep or drop. The draws follow the seed of the starting point.
    """
    for name in search:
        if name not in RANGES:
            raise UserError(f"there is no range of {name!r} to search.{near_matches(name, RANGES)}")
    rng = keys.generator(keys.pack(start.training.seed), keys.Stream.SETTINGS)
    drawn: list[dict[str, float]] = [{} for _ in range(trials - 1)]
    for name, (low, most) in RANGES.items():  # all of them, so that a draw does not depend on what else is searched
        high = max(1.0, min(most, _room(start, units))) if name == "sparsity" else most
        for settings, place in zip(drawn, rng.permutation(len(drawn)) + rng.random(len(drawn)), strict=True):
            settings[name] = low * (high / low) ** (place / len(drawn)) if name in search else 1.0
    return [start, *(_applied(start, settings, units) for settings in drawn)]


def searched(start: Config, search: Sequence[str] = tuple(RANGES)) -> list[str]:
    """Return the options that a search changes."""
    names = {"sparsity": _sparsity(start), "sigma": "sigma", "lr": "lr"}
    moves = {*search, "lr"} if "sigma" in search else set(search)
    return [option for name, option in names.items() if option is not None and name in moves]


def _sparsity(start: Config) -> str | None:
    """Return the option that says how sparse a policy gets, if one does."""
    options = start.strategy
    if options.sparsifier in ("hard", "once"):
        return "beta" if options.k is None else "k"
    return "penalty" if options.sparsifier in ("l1", "soft") else None


def _room(start: Config, units: int) -> float:
    """Return by how much the number of kept units can grow."""
    name, options = _sparsity(start), start.strategy
    if name == "k":
        assert options.k is not None
        return units / max(_ends(options.k))
    return 1 / max(1 - end for end in _ends(options.beta)) if name == "beta" else math.inf


def _ends(value: float | str) -> tuple[float, float]:
    schedule = Schedule.parse(value)
    return schedule.start, schedule.end


def _applied(start: Config, factors: dict[str, float], units: int) -> Config:
    options, name = start.strategy, _sparsity(start)
    of_lr, of_sparsity = factors["sigma"] * factors["lr"], factors["sparsity"]
    changes: dict[str, Any] = {
        "sigma": _changed(options.sigma, lambda sigma: _short(sigma * factors["sigma"])),
        "lr": _changed(options.lr, lambda lr: _short(lr * of_lr)),
    }
    if name == "k":
        assert options.k is not None
        changes["k"] = _changed(options.k, lambda k: min(units, max(1, round(k * of_sparsity))))
    elif name == "beta":
        changes["beta"] = _changed(options.beta, lambda beta: _short(max(0.0, 1 - _short((1 - beta) * of_sparsity))))
    elif name == "penalty":
        changes["penalty"] = _short(options.penalty * of_sparsity)
    return start.change(**changes)


def _changed(value: float | str, change: Callable[[float], float]) -> float | str:
    """Change a number, or both ends of a schedule."""
    schedule = Schedule.parse(value)
    if schedule.is_constant:
        return change(schedule.start)
    return f"{schedule.kind}:{change(schedule.start)}:{change(schedule.end)}"


def _short(number: float) -> float:
    """Return a number of three digits: nobody needs more of a setting."""
    return float(f"{number:.3g}")
