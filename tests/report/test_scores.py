"""Runs beside each other: the scores that their folders hold, whatever trained them."""

from __future__ import annotations

import json
import re
from pathlib import Path

import pytest

from nesht.cli import main
from nesht.report.scores import read_run, scores
from nesht.storage import DamagedFileError


def run(folder: Path, last: list[float], env: str = "Hopper-v4", finished: bool = True, more: str = "") -> Path:
    """Write the folder of a run with these scores, 1000 steps apart, of which the last ten count."""
    folder.mkdir(parents=True)
    (folder / "config.toml").write_text(f'algorithm = "td3"\n[task]\nenv = "{env}"\nnoise_ratio = 10.0\n{more}')
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


@pytest.mark.parametrize("other", [{"env": "Walker2d-v4"}, {"more": "max_episode_steps = 20\nreward_keep = 0.1\n"}])
def test_other_tasks_are_rows_of_their_own_and_not_compared(tmp_path: Path, other: dict[str, str]) -> None:
    groups = {"a": [run(tmp_path / "a", [5.0])], "b": [run(tmp_path / "b", [6.0], **other)]}  # type: ignore[arg-type]
    section = scores(groups)
    named = "Walker2d-v4 x10" if "env" in other else "Hopper-v4 x10, max_episode_steps 20, reward_keep 0.1"
    assert section.lead == f"a on Hopper-v4 x10 5; b on {named} 6."
    assert "0.00" not in str(section.parts[0])
    assert str(section.parts[0]).count("nothing to compare") == 1


@pytest.mark.parametrize(
    ("file", "text"),
    [("summary.json", '{"sc'), ("config.toml", "[tas"), ("config.toml", ""), ("config.toml", "[task]\nsteps = 3\n")],
)
def test_a_damaged_folder_is_named(tmp_path: Path, file: str, text: str) -> None:
    folder = run(tmp_path / "a", [5.0])
    (folder / file).write_text(text)
    with pytest.raises(DamagedFileError, match=re.escape(str(folder))):
        read_run(folder)


def test_runs_that_are_not_finished_count_where_no_others_do(tmp_path: Path) -> None:
    going = run(tmp_path / "a", [*range(20)], finished=False)
    found = read_run(going)
    assert found is not None
    assert found.score == 14.5  # 10 to 19
    assert "1, not finished" in str(scores({"a": [going]}).parts[0])
    section = scores({"a": [going, run(tmp_path / "b", [100.0])]})
    assert section.lead == "a 100."
    assert "1, without 1 that are not finished" in str(section.parts[0])


def test_what_is_half_written_or_no_number_is_left_out(tmp_path: Path) -> None:
    folder = run(tmp_path / "a", [5.0], finished=False)
    with (folder / "evaluations.csv").open("a") as file:
        file.write("0,3000,-")
    found = read_run(folder)
    assert found is not None
    assert found.steps.tolist() == [1000, 2000]
    (folder / "evaluations.csv").write_text("seed,steps,score\n")
    assert read_run(folder) is None
    assert scores({"a": [folder]}).lead == "No run was evaluated yet."
    other = run(tmp_path / "b", [5.0])
    (other / "summary.json").write_text('{"score": NaN}')
    assert read_run(other) is None


def test_odd_names_are_drawn(tmp_path: Path) -> None:
    section = scores({"a$_$b": [run(tmp_path / "a", [5.0])], "_c": [run(tmp_path / "c", [6.0])]})
    assert "a$_$b 5; _c 6" in section.lead
    assert len(section.parts) == 3


def test_the_report_compares_a_rival_with_ours(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    task = ["--env", "Hopper-v4", "--noise-ratio", "1"]
    main(["train", *task, "--n", "8", "--generations", "2", "--eval-episodes", "1", "--out", str(tmp_path / "ours")])
    few = ["--steps", "60", "--eval-every", "30", "--eval-episodes", "1", "--processes", "1"]
    main(
        [
            "baseline",
            "td3",
            *task,
            *few,
            "--settings",
            "buffer_size=100",
            "learning_starts=50",
            "--out",
            str(tmp_path / "td3"),
        ]
    )
    capsys.readouterr()
    out = tmp_path / "report.html"
    main(["report", str(tmp_path / "ours"), str(tmp_path / "td3"), "--out", str(out), "--figures", str(tmp_path)])
    said, page = capsys.readouterr().out, out.read_text()
    assert said.startswith("Scores: ")
    assert page.count("Which inputs") == 4  # two sections, and the links to them
    assert (tmp_path / "scores-curves.png").exists()
    (tmp_path / "td3" / "seed-0" / "policy.safetensors").unlink()
    again = [str(tmp_path / "td3"), str(tmp_path / "ours" / ".." / "td3")]
    main(["report", *again, "--out", str(out)])  # one group, without a policy
    assert "Which inputs" not in out.read_text()
    assert "scores more" not in out.read_text()


def test_a_finished_run_without_a_score_has_none_here_either(tmp_path: Path) -> None:
    lost = run(tmp_path / "a", [7.0] * 10)
    (lost / "summary.json").write_text(json.dumps({"score": None}))
    assert read_run(lost) is None
