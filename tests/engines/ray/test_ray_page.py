"""The numbers on the page about the ray engine are those that were measured, and they keep the engine's promises."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import pytest

ROOT = Path(__file__).parents[3]


@pytest.fixture(scope="module")
def page() -> str:
    return (ROOT / "docs" / "engines" / "ray.md").read_text()


@pytest.fixture(scope="module")
def found() -> dict[str, Any]:
    return dict(json.loads((ROOT / "results" / "cluster.json").read_text()))


def test_speed(page: str, found: dict[str, Any]) -> None:
    for env, speed in found["speed"].items():
        one, *_, all_cores = speed["ray / batch"].values()
        assert f"| {env} | {one:.2f} | {all_cores:.2f} |" in page
        assert all_cores >= 0.9


def test_bytes(page: str, found: dict[str, Any]) -> None:
    rows = found["traffic"]
    for row in rows:
        parts = row["bytes per actor"]
        numbers = [parts["theta and normaliser"], parts["names of episodes"], parts["results"], parts["all else"]]
        assert f"| {row['n']} | " + " | ".join(f"{number / 1000:.1f}" for number in numbers) + " |" in page
    least, most = (rows[i]["bytes per actor"]["all else"] for i in (0, -1))
    assert rows[-1]["n"] == 16 * rows[0]["n"]
    assert most < 1.1 * least  # beyond indices and scalars nothing grows with n


def test_the_drivers_time(page: str, found: dict[str, Any]) -> None:
    for row in found["driver"]["per generation"]:
        assert f"| {row['n']} | {row['d']} | {1000 * row['driver seconds']:.0f} |" in page


@pytest.mark.parametrize("kind", ["linear policy", "big policy"])
def test_the_model(page: str, found: dict[str, Any], kind: str) -> None:
    for row in found["model"][kind]:
        seconds = row["seconds"]
        times = (seconds[name] for name in ("episodes", "handing out", "theta out", "gradient", "update"))
        told = " | ".join(f"{each:.2f}" for each in times)
        begin = f"| {row['cores']} | {row['threads per actor']} | {row['d']} "
        assert f"{begin}| {told} | {row['efficiency']:.2f} |" in page


def test_where_the_driver_becomes_the_bottleneck(page: str, found: dict[str, Any]) -> None:
    limits = found["model"]["cores from which on the driver is the bottleneck"]
    one, node, *big = limits.values()
    assert f"from {one} cores on with actors of one thread, and from {node} on with an actor per node" in page
    assert set(big) == {found["model"]["assumptions"]["cores of a node"]}  # the least that was asked about
    assert f"{found['model']['assumptions']['steps/s of a core']:,} steps/s" in page
