"""The machine the numbers come from, and whether it is busy with something else."""

from __future__ import annotations

import datetime
import os
import platform
import sys
import time
from importlib.metadata import PackageNotFoundError, version
from pathlib import Path
from typing import Any

PACKAGES = (
    "numpy",
    "mujoco",
    "gymnasium",
    "ale-py",
    "torch",
    "stable-baselines3",
    "evotorch",
    "ray",
    "joblib",
    "warp-lang",
)


def command() -> str:
    """Return the command that runs, without the folders of this machine."""
    return " ".join(["python", f"benchmarks/{Path(sys.argv[0]).name}", *(_plain(word) for word in sys.argv[1:])])


def _plain(word: str) -> str:
    return Path(word).name if word.startswith("/") else word


def describe() -> dict[str, Any]:
    """Return the date, the processor and the versions."""
    import nesht

    versions = {"python": platform.python_version(), "nesht": nesht.__version__}
    for package in PACKAGES:
        try:
            versions[package] = version(package)
        except PackageNotFoundError:
            continue
    now = datetime.datetime.now(datetime.UTC).isoformat(timespec="seconds")
    return {"date": now, "cpu": _cpu(), "cores": os.cpu_count(), "versions": versions}


def wait_until_quiet(patience: float, enough: float = 0.95) -> float:
    """Wait until the machine idles, but no longer than `patience` seconds; returns the idle share last seen."""
    deadline = time.monotonic() + patience
    while True:
        before = _clocks()
        time.sleep(1.0)
        spent = [after - earlier for after, earlier in zip(_clocks(), before, strict=True)]
        idle = (spent[3] + spent[4]) / max(1, sum(spent))
        if not any(spent) or idle >= enough or time.monotonic() > deadline:
            return idle


def steal_clock() -> float:
    """Return the processor seconds that the host has taken from this virtual machine since it started."""
    clocks = _clocks()
    return clocks[7] / os.sysconf("SC_CLK_TCK")


def _clocks() -> list[int]:
    """Return the ticks all processors have spent: user, nice, system, idle, waiting, interrupts (two), stolen."""
    try:
        return [int(ticks) for ticks in Path("/proc/stat").read_text().split("\n", 1)[0].split()[1:9]]
    except FileNotFoundError:  # not Linux
        return [0] * 8


def _cpu() -> str:
    try:
        lines = Path("/proc/cpuinfo").read_text().splitlines()
    except FileNotFoundError:
        return platform.processor()
    return next((line.split(":")[1].strip() for line in lines if line.startswith("model name")), platform.machine())
