"""What `benchmarks/rivals.py` begins, and when: with a clock and processes that are made up."""

from __future__ import annotations

import argparse
import importlib.util
import math
import sys
from pathlib import Path
from typing import Any

import pytest

ROOT = Path(__file__).parents[2]
TOTAL, CARD = 20_000_000, 100_000.0
UNITS = {("TD3", "Hopper-v4", ratio): list(range(20)) for ratio in range(9)}


@pytest.fixture
def rivals(monkeypatch: pytest.MonkeyPatch) -> Any:
    spec = importlib.util.spec_from_file_location("rivals", ROOT / "benchmarks" / "rivals.py")
    assert spec is not None
    assert spec.loader is not None
    module = importlib.util.module_from_spec(spec)
    monkeypatch.setitem(sys.modules, "rivals", module)
    spec.loader.exec_module(module)
    monkeypatch.setattr(module, "pack", lambda out: None)
    return module


class Process:
    """One that says every hundredth of its steps how far it is."""

    def __init__(self, log: Path):
        self.log, self.done, self.returncode = log, 0.0, None

    def work(self, steps: float) -> None:
        before, self.done = self.done, self.done + steps
        if int(100 * self.done / TOTAL) > int(100 * before / TOTAL):
            self.log.write_text(f"{int(100 * self.done / TOTAL) * TOTAL // 100:,} steps · 1/s")
        if self.done >= TOTAL:
            self.returncode = 0

    def poll(self) -> int | None:
        return self.returncode

    wait = poll

    def terminate(self) -> None:
        self.returncode = -15


def play(rivals: Any, folder: Path, seconds: float, start_up: float, monkeypatch: pytest.MonkeyPatch) -> Any:
    """Return (the queue when all has ended, when that was, all processes); they share the card."""
    begun: list[tuple[float, Process]] = []

    def begin(unit: Any, seeds: list[int], given: Any, now: float) -> Any:
        begun.append((now, Process(folder / rivals.named(unit))))
        return rivals.Running(unit, begun[-1][1], begun[-1][1].log, TOTAL, now)

    monkeypatch.setattr(rivals, "begin", begin)
    given = argparse.Namespace(out=folder, seconds=seconds, steps=10_000_000)
    queue, now = rivals.Queue(dict(UNITS), given, 8), 0.0
    while queue.turn(now):
        busy = [each for since, each in begun if each.returncode is None and now - since > start_up]
        for each in busy:
            each.work(0.5 * CARD / len(busy))
        now += 0.5
    return queue, now, [each for _, each in begun]


@pytest.mark.parametrize("start_up", [5, 20, 40])
def test_what_begins_ends_in_time(
    rivals: Any, tmp_path: Path, start_up: float, monkeypatch: pytest.MonkeyPatch
) -> None:
    queue, end, begun = play(rivals, tmp_path, 1600, start_up, monkeypatch)
    assert end <= 1600
    assert [each.returncode for each in begun] == [0] * len(begun)
    assert len(begun) >= 6  # 160 million steps are 8 of them, if all were foreseen
    assert len(begun) + len(queue.rest()) == len(UNITS)
    assert queue.lost == []


def test_everything_runs_if_there_is_time(rivals: Any, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    queue, end, begun = play(rivals, tmp_path, math.inf, 40, monkeypatch)
    assert [each.returncode for each in begun] == [0] * len(UNITS)
    assert end < 1.2 * len(UNITS) * TOTAL / CARD
    assert (queue.rest(), queue.lost) == ([], [])


def test_what_cannot_end_is_given_up_for_the_others_and_said(
    rivals: Any, tmp_path: Path, capsys: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch
) -> None:
    queue, end, begun = play(rivals, tmp_path, 700, 20, monkeypatch)
    assert end <= 700
    assert sorted(each.returncode for each in begun) == [-15, 0, 0, 0]
    assert queue.lost == ["TD3-Hopper-v4-0 (given up)"]
    assert "given up: all need" in capsys.readouterr().out


def test_what_fails_is_said(rivals: Any, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(Process, "work", lambda self, steps: setattr(self, "returncode", 2))
    queue, _, _ = play(rivals, tmp_path, 1600, 20, monkeypatch)
    assert len(queue.lost) == len(UNITS)
    assert "exit 2" in queue.lost[0]
