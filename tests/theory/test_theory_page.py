"""docs/theory.md keeps its word: its tables are the committed results, its output is the command's."""

from __future__ import annotations

import csv
import re
from pathlib import Path

import pytest

from nesht.cli import main
from nesht.experiments.statistics import mean

ROOT = Path(__file__).parents[2]
PAGE = (ROOT / "docs" / "theory.md").read_text()


def rows(part: str, **labels: str) -> list[dict[str, str]]:
    with open(ROOT / "results" / "theory" / f"{part}.csv", newline="") as file:
        return [row for row in csv.DictReader(file) if all(row[name] == value for name, value in labels.items())]


def cell(numbers: list[dict[str, str]], column: str, digits: int) -> str:
    found = mean([float(row[column]) for row in numbers])
    return f"{found.value:.{digits}f} ({found.low:.{digits}f} to {found.high:.{digits}f})"


def test_the_tables_are_the_results() -> None:
    for ratio in ("0", "5", "10", "20"):
        cells = [
            cell(rows("hopper", design="grafted", noise=ratio, theta=theta, at=at), "variance", 0)
            for at in ("policy", "members")
            for theta in ("dense, weak", "sparse")
        ]
        assert f"| x{ratio} | {' | '.join(cells)} |" in PAGE
    for irrelevant in ("0", "5", "15", "45", "95"):
        methods = ("NES", "NESHT", "with memory")
        cells = [cell(rows("example", irrelevant=irrelevant, method=each), "error", 3) for each in methods]
        assert f"| {irrelevant} | {' | '.join(cells)} |" in PAGE


def test_the_numbers_in_the_text_are_the_results() -> None:
    text = " ".join(PAGE.split())
    for method, at in (("NES", "policy"), ("NESHT", "policy"), ("NES", "members"), ("NESHT", "members")):
        assert cell(rows("hopper", design="trained", noise="20", theta=method, at=at), "variance", 0) in text
    steps = rows("variance", problem="steps")
    inside = [abs(float(row["measured"]) - float(row["exact"])) <= 1.96 * float(row["error"]) for row in steps]
    assert f"{sum(inside)} of {len(inside)} measured variances agree" in text
    narrow = rows("hopper", design="grafted", noise="20", theta="sparse", at="narrow members")
    assert f"{mean([float(row['variance']) for row in narrow]).value:.0f} instead of 12144" in text


def test_the_output_is_what_the_command_prints(capsys: pytest.CaptureFixture[str]) -> None:
    command, output = re.findall(r"```bash\nnesht (theory .*?)\n```\n\n```text\n(.*?)```", PAGE, re.DOTALL)[0]
    main(command.split())
    assert capsys.readouterr().out == output
