"""Runs beside each other: the scores that their folders hold, whatever trained them."""

from __future__ import annotations

import json
from pathlib import Path

import pytest

from nesht.cli import main
from nesht.report.scores import read_run, scores


def run(folder: Path, last: list[float], env: str = "Hopper-v4", finished: bool = True) -> Path:
    """Write the folder of a run with these scores, 1000 steps apart, of which the last ten count."""
    folder.mkdir(parents=True)
    (folder / "config.toml").write_text(f'algorithm = "td3"\n[task]\nenv = "{env}"\nnoise_ratio = 10.0\n')
    rows = [f"0,{1000 * i},{score}" for i, score in enumerate([7.0, *last], 1)]
    (folder / "evaluations.csv").write_text("\n".join(["seed,steps,score", *rows, ""]))
    if finished:
        (folder / "summary.json").write_text(json.dumps({"score": sum(last) / len(last)}))
    return folder


def test_groups_have_their_means_and_the_first_is_compared(tmp_path: Path) -> None:
    ours = [run(tmp_path / "ours" / f"seed-{i}", [100.0 + i] * 10) for i in range(3)]
    theirs = [run(tmp_path / "td3" / f"seed-{i}", [99.0 + 1.5 * i] * 10) for i in range(2)]
    section = scores({"ours": ours, "td3": theirs})
    assert section.lead == "ours 101; td3 100."
    page = str(section.parts[0])
    assert "how often ours scores more" in page
    assert f"<b>{5 / 6:.2f}</b>" in page  # of six pairs, 100 is below 100.5
    assert page.count("Hopper-v4 x10") == 2
    assert page.count("11,000") == 2


def test_one_group_is_compared_with_nothing(tmp_path: Path) -> None:
    page = str(scores({"ours": [run(tmp_path / "a", [5.0])]}).parts[0])
    assert "scores more" not in page
    assert "one run" in page


def test_other_tasks_are_rows_of_their_own_and_not_compared(tmp_path: Path) -> None:
    groups = {"a": [run(tmp_path / "a", [5.0])], "b": [run(tmp_path / "b", [6.0], "Walker2d-v4")]}
    page = str(scores(groups).parts[0])
    assert "Walker2d-v4 x10" in page
    assert "0.00" not in page


def test_a_run_that_is_not_finished_counts_with_what_it_has(tmp_path: Path) -> None:
    going = run(tmp_path / "a", [*range(20)], finished=False)
    found = read_run(going)
    assert found is not None
    assert found.score == 14.5  # 10 to 19
    assert "1 of them not finished" in str(scores({"a": [going]}).parts[0])
    (going / "evaluations.csv").write_text("seed,steps,score\n")
    assert read_run(going) is None
    assert scores({"a": [going]}).lead == "No run was evaluated yet."


def test_the_report_compares_a_rival_with_ours(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    task = ["--env", "Hopper-v4", "--noise-ratio", "1"]
    main(["train", *task, "--n", "8", "--generations", "2", "--eval-episodes", "1", "--out", str(tmp_path / "ours")])
    few = ["--steps", "60", "--eval-every", "30", "--eval-episodes", "1", "--processes", "1"]
    main(["baseline", "td3", *task, *few, "--settings", "buffer_size=100", "--out", str(tmp_path / "td3")])
    capsys.readouterr()
    out = tmp_path / "report.html"
    main(["report", str(tmp_path / "ours"), str(tmp_path / "td3"), "--out", str(out), "--figures", str(tmp_path)])
    said, page = capsys.readouterr().out, out.read_text()
    assert said.startswith("Scores: ")
    assert page.count("Which inputs") == 4  # two sections, and the links to them
    assert (tmp_path / "scores-curves.png").exists()
