"""From measurements to a table with verdicts."""

from __future__ import annotations

from statistics import median
from typing import Any

from rich.console import Console
from rich.table import Table

OURS = ("nesht, batch", "nesht, fused")
TARGETS = {"evotorch GymNE": 4.0, "evotorch, raw features": 4.0, "published way": 3.0}
"""How many times as fast as each of the others nesht must be."""
BARE, BARE_TARGET = "bare mujoco.batch", 0.85
"""How much of the bare physics the batch engine, which runs on it, must reach."""

Row = dict[str, Any]


def summarise(rows: list[Row]) -> list[Row]:
    """Return one row per environment and contestant: rates, and the ratio of nesht's rates to it round by round."""
    summary = []
    for env, way in dict.fromkeys((row["env"], row["way"]) for row in rows):
        theirs = _by_round(rows, env, way)
        line: Row = {"env": env, "way": way, "steps_per_second": _spread([row["rate"] for row in theirs.values()])}
        for engine in OURS if way not in OURS else ():
            ours = _by_round(rows, env, engine)
            if ours and not (way == BARE and engine != OURS[0]):
                ratio = _spread([ours[number]["rate"] / row["rate"] for number, row in theirs.items()])
                target = TARGETS.get(way, BARE_TARGET)
                line[engine] = {**ratio, "target": target, "met": ratio["median"] >= target}
        if way == BARE:
            ours = _by_round(rows, env, OURS[0])
            line["per_cpu_second"] = _spread([_per_cpu(ours[number]) / _per_cpu(row) for number, row in theirs.items()])
        summary.append(line)
    return summary


def print_table(summary: list[Row]) -> None:
    """Print the summary."""
    table = Table(title="Training speed, 2 threads (median over rounds, lowest to highest)")
    for name in ("environment", "contestant", "steps/s", "", *(f"{engine} is" for engine in OURS), "target"):
        table.add_column(name, justify="left" if name in ("environment", "contestant") else "right")
    for line in summary:
        rate = line["steps_per_second"]
        cells = [line["env"], line["way"], f"{rate['median']:,.0f}", f"{rate['min']:,.0f} to {rate['max']:,.0f}"]
        target = ""
        for engine in OURS:
            cells.append(_verdict(line[engine]) if engine in line else "")
            target = f">= {line[engine]['target']:g}x" if engine in line else target
        table.add_row(*cells, target)
    Console(width=None if Console().is_terminal else 140).print(table)


def _verdict(ratio: Row) -> str:
    colour = "green" if ratio["met"] else "red"
    words = "met" if ratio["met"] else "MISSED"
    return f"{ratio['median']:.2f}x ({ratio['min']:.2f} to {ratio['max']:.2f}) [{colour}]{words}[/]"


def _by_round(rows: list[Row], env: str, way: str) -> dict[int, Row]:
    return {row["round"]: row for row in rows if row["env"] == env and row["way"] == way}


def _per_cpu(row: Row) -> float:
    return float(row["steps"] / row["cpu_seconds"])


def _spread(values: list[float]) -> dict[str, float]:
    return {"median": median(values), "min": min(values), "max": max(values)}
