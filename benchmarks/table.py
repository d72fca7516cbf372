"""From measurements to a table with verdicts."""

from __future__ import annotations

from statistics import median
from typing import Any

from rich.console import Console
from rich.table import Table

TARGETS = {"bare mujoco.batch": 0.85, "evotorch GymNE": 4.0, "evotorch, raw features": 4.0, "published way": 3.0}
"""How many times as fast as each of the others nesht must be."""

Row = dict[str, Any]


def summarise(rows: list[Row]) -> list[Row]:
    """Return one row per environment and contestant: rates, and the ratio of nesht's rate to it round by round."""
    summary = []
    for env, way in dict.fromkeys((row["env"], row["way"]) for row in rows):
        ours, theirs = _by_round(rows, env, "nesht"), _by_round(rows, env, way)
        line: Row = {"env": env, "way": way, "steps_per_second": _spread([row["rate"] for row in theirs.values()])}
        if way != "nesht":
            ratio = _spread([ours[number]["rate"] / row["rate"] for number, row in theirs.items()])
            line["nesht_ratio"] = ratio
        if way in TARGETS:
            line |= {"target": TARGETS[way], "met": ratio["median"] >= TARGETS[way]}
        if way == "bare mujoco.batch":
            line["nesht_ratio_per_cpu_second"] = _spread(
                [_per_cpu(ours[number]) / _per_cpu(row) for number, row in theirs.items()]
            )
        summary.append(line)
    return summary


def print_table(summary: list[Row]) -> None:
    """Print the summary."""
    table = Table(title="Training speed, 2 threads (median over rounds, lowest to highest)")
    for name in ("environment", "contestant", "steps/s", "", "nesht is", "", "target", "verdict"):
        table.add_column(name, justify="left" if name in ("environment", "contestant", "verdict") else "right")
    for line in summary:
        rate, ratio = line["steps_per_second"], line.get("nesht_ratio")
        cells = [line["env"], line["way"], f"{rate['median']:,.0f}", f"{rate['min']:,.0f} to {rate['max']:,.0f}"]
        if ratio is not None:
            cells += [f"{ratio['median']:.2f}x", f"{ratio['min']:.2f} to {ratio['max']:.2f}"]
        if "target" in line:
            cells += [f">= {line['target']:g}x", "[green]met[/]" if line["met"] else "[red]MISSED[/]"]
        table.add_row(*cells)
    Console(width=None if Console().is_terminal else 120).print(table)


def _by_round(rows: list[Row], env: str, way: str) -> dict[int, Row]:
    return {row["round"]: row for row in rows if row["env"] == env and row["way"] == way}


def _per_cpu(row: Row) -> float:
    return float(row["steps"] / row["cpu_seconds"])


def _spread(values: list[float]) -> dict[str, float]:
    return {"median": median(values), "min": min(values), "max": max(values)}
