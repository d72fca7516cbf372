"""A run cannot be lost: killed, interrupted, damaged, out of disk, or shared by two."""

from __future__ import annotations

import json
import os
import shutil
import signal
import subprocess
import sys
import time
from pathlib import Path
from typing import Any

import gymnasium
import pytest

import nesht
from nesht.errors import UserError
from nesht.training.folder import CHECKPOINT, PREVIOUS, RunFolder

OPTIONS: dict[str, Any] = {
    "env": "Hopper-v4",
    "engine": "batch",  # slow enough to be killed half way; the fused engine has its own such test
    "noise_ratio": 2,
    "n": 16,
    "generations": 30,
    "eval_every": 500,
    "eval_episodes": 2,
    "threads": 1,
    "checkpoint_seconds": 0.0,
    "optimiser": "adam",
    "lr": 0.003,
    "elite": 1.0,
    "explore": 1.0,
    "beta": "linear:0.5:0.9",
}
SCRIPT = """
import json, signal, sys, nesht
signal.signal(signal.SIGINT, signal.default_int_handler)  # ignored by what a shell runs in the background
nesht.train(out=sys.argv[1], progress=False, **json.loads(sys.argv[2]))
"""


@pytest.fixture(scope="module")
def whole(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """A run that nothing happened to."""
    out = tmp_path_factory.mktemp("runs") / "whole"
    nesht.train(out=out, progress=False, **OPTIONS)
    return out


def start(out: Path, **options: Any) -> subprocess.Popen[bytes]:
    arguments = [sys.executable, "-c", SCRIPT, str(out), json.dumps({**OPTIONS, **options})]
    return subprocess.Popen(arguments, stderr=subprocess.PIPE)


def wait_for(path: Path, lines: int) -> None:
    deadline = time.monotonic() + 60
    while not path.exists() or path.read_text().count("\n") < lines:
        assert time.monotonic() < deadline, f"{path} never had {lines} lines"
        time.sleep(0.005)


def without_clock(path: Path) -> list[dict[str, Any]]:
    rows = [json.loads(line) for line in path.read_text().splitlines()]
    return [{name: value for name, value in row.items() if name != "seconds"} for row in rows]


def assert_as_if_nothing_happened(out: Path, whole: Path) -> None:
    assert (out / "policy.safetensors").read_bytes() == (whole / "policy.safetensors").read_bytes()
    assert without_clock(out / "metrics.jsonl") == without_clock(whole / "metrics.jsonl")
    assert (out / "evaluations.csv").read_text() == (whole / "evaluations.csv").read_text()


@pytest.mark.parametrize(("lines", "delay"), [(0, 0.0), (2, 0.013), (5, 0.031), (7, 0.02)])
def test_killed_at_any_moment_and_resumed_ends_with_the_same_bits(
    tmp_path: Path, whole: Path, lines: int, delay: float
) -> None:
    out = tmp_path / "run"
    process = start(out)
    wait_for(out / "metrics.jsonl", lines)
    time.sleep(delay)
    process.send_signal(signal.SIGKILL)
    process.wait()
    assert not (out / "summary.json").exists()
    nesht.resume(out, progress=False, threads=2)
    assert_as_if_nothing_happened(out, whole)


def test_ctrl_c_saves_and_resume_goes_on(tmp_path: Path, whole: Path) -> None:
    out = tmp_path / "run"
    process = start(out, checkpoint_seconds=1000.0)
    wait_for(out / "metrics.jsonl", 4)
    process.send_signal(signal.SIGINT)
    process.wait(30)
    result = nesht.resume(out, progress=False)[0]
    assert 0 < result.history[0]["generation"] <= 30
    assert result.history[0]["generation"] >= 4
    assert_as_if_nothing_happened(out, whole)


def test_ctrl_c_while_workers_start_says_one_sentence(tmp_path: Path) -> None:
    script = SCRIPT.splitlines()[2] + "\nfrom nesht.cli import main; main()"
    options = ["--env", "CartPole-v1", "--engine", "gym", "--threads", "2", "--steps", "1000000", "--out"]
    arguments = [sys.executable, "-c", f"import signal\n{script}", "train", *options, str(tmp_path / "run")]
    process = subprocess.Popen(arguments, stderr=subprocess.PIPE, start_new_session=True)
    wait_for(tmp_path / "run" / "config.toml", 1)
    time.sleep(0.3)  # the workers are importing
    os.killpg(process.pid, signal.SIGINT)
    said = process.communicate(timeout=60)[1].decode()
    assert "Traceback" not in said
    assert "`nesht resume` goes on with what was trained" in said


def damaged(path: Path, how: str) -> None:
    content = bytearray(path.read_bytes())
    if how == "truncated":
        del content[len(content) // 2 :]
    elif how == "emptied":
        content.clear()
    elif how == "a bit in the numbers":
        content[-100] ^= 1
    elif how == "a bit in the header":
        content[200] ^= 1
    path.write_bytes(content)


@pytest.mark.parametrize("how", ["truncated", "emptied", "a bit in the numbers", "a bit in the header"])
def test_a_damaged_checkpoint_is_noticed_and_the_one_before_it_used(
    tmp_path: Path, whole: Path, how: str, capsys: pytest.CaptureFixture[str]
) -> None:
    out = tmp_path / "run"
    process = start(out)
    wait_for(out / "metrics.jsonl", 6)
    process.kill()
    process.wait()
    damaged(out / CHECKPOINT, how)
    nesht.resume(out, progress=False)
    assert "damaged" in capsys.readouterr().err
    assert_as_if_nothing_happened(out, whole)


def test_with_no_readable_checkpoint_left_resume_says_so(tmp_path: Path) -> None:
    nesht.train(out=tmp_path / "run", progress=False, **{**OPTIONS, "generations": 2})
    damaged(tmp_path / "run" / CHECKPOINT, "truncated")
    damaged(tmp_path / "run" / PREVIOUS, "truncated")
    with pytest.raises(UserError, match="no checkpoint that can be read"):
        nesht.resume(tmp_path / "run", progress=False)


def in_child(script: str, *arguments: object) -> subprocess.CompletedProcess[str]:
    """Run a script in a process of its own."""
    words = [sys.executable, "-c", script, *map(str, arguments)]
    return subprocess.run(words, capture_output=True, text=True, timeout=120, check=False)


FULL_DISK = """
import resource, sys, nesht.cli
# The system refuses to write files beyond this size: the same error path as a full disk.
resource.setrlimit(resource.RLIMIT_FSIZE, (500, 500))
nesht.cli.main(["resume", sys.argv[1], "--generations", "6"])
"""


def test_a_run_whose_checkpoints_are_gone_is_not_trained_anew(tmp_path: Path, whole: Path) -> None:
    out = Path(shutil.copytree(whole, tmp_path / "run"))
    for name in (CHECKPOINT, PREVIOUS):
        (out / name).unlink()
    before = {path: path.read_bytes() for path in out.iterdir()}
    with pytest.raises(UserError, match=r"checkpoints of .* are gone"):
        nesht.resume(out, progress=False)
    assert {path: path.read_bytes() for path in out.iterdir()} == before


def test_options_that_do_not_fit_the_checkpoint_are_noticed(tmp_path: Path, whole: Path) -> None:
    out = Path(shutil.copytree(whole, tmp_path / "run"))
    text = (out / "config.toml").read_text()
    (out / "config.toml").write_text(text.replace("noise_ratio = 2", "noise_ratio = 5"))
    with pytest.raises(UserError, match="does not fit the checkpoint"):
        nesht.resume(out, progress=False, generations=40)


def test_records_that_were_cut_lose_their_last_line_alone(
    tmp_path: Path, whole: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    out = Path(shutil.copytree(whole, tmp_path / "run"))
    lines = (out / "evaluations.csv").read_text().splitlines(keepends=True)
    (out / "evaluations.csv").write_text("".join(lines[:3])[:-5])
    nesht.resume(out, progress=False, generations=31)
    assert "has lost some of its rows" in capsys.readouterr().err
    again = (out / "evaluations.csv").read_text().splitlines(keepends=True)
    assert again[:2] == lines[:2]
    assert {line.count(",") for line in again} == {lines[0].count(",")}


def test_a_fleet_takes_in_no_runs_of_other_options(tmp_path: Path) -> None:
    few = {"env": "CartPole-v1", "n": 2, "max_episode_steps": 2, "threads": 1, "eval_episodes": 1, "progress": False}
    nesht.train_fleet([0, 1], out=tmp_path / "fleet", generations=1, **few)
    nesht.train_fleet([2, 3], out=tmp_path / "fleet", generations=1, **few)
    for overwrite in (False, True):
        with pytest.raises(UserError, match="holds runs with other options"):
            nesht.train_fleet([4, 5], out=tmp_path / "fleet", generations=2, overwrite=overwrite, **few)
    assert len(list((tmp_path / "fleet").iterdir())) == 4


def test_a_disk_that_is_full_is_one_sentence_and_damages_nothing(tmp_path: Path) -> None:
    out = tmp_path / "run"
    nesht.train(out=out, progress=False, **{**OPTIONS, "generations": 3, "beta": 0.5})
    before = {name: (out / name).read_bytes() for name in ("policy.safetensors", CHECKPOINT, PREVIOUS)}
    done = in_child(FULL_DISK, out)
    assert done.returncode == 1
    assert "What was saved before is intact" in done.stderr
    assert "Traceback" not in done.stderr
    assert {name: (out / name).read_bytes() for name in before} == before
    resumed = nesht.resume(out, progress=False, generations=6)[0]
    straight = nesht.train(progress=False, **{**OPTIONS, "generations": 6, "beta": 0.5})
    assert (resumed.policy.parameters == straight.policy.parameters).all()


READ_ONLY = """
import json, os, sys, nesht
options = json.loads(sys.argv[2])
nesht.train(progress=False, **{**options, "generations": 1})  # everything that is imported late is now imported
if os.geteuid() == 0:  # root may write anywhere
    os.seteuid(65534)
try:
    nesht.train(out=sys.argv[1], progress=False, **options)
except nesht.UserError as error:
    print(error)
"""


@pytest.mark.skipif(not hasattr(os, "seteuid"), reason="needs POSIX users")
def test_a_read_only_folder_is_refused_in_one_sentence(tmp_path: Path) -> None:
    locked = tmp_path / "locked"
    locked.mkdir(mode=0o555)
    for folder in (tmp_path, *tmp_path.parents):  # pytest's folders are its owner's alone
        if folder.stat().st_uid == os.geteuid() and folder != Path("/"):
            folder.chmod(folder.stat().st_mode | 0o055)
    done = in_child(READ_ONLY, locked / "run", json.dumps(OPTIONS))
    assert "cannot write to" in done.stdout, done.stderr
    assert list(locked.iterdir()) == []


def test_two_processes_on_one_folder_are_refused(tmp_path: Path, whole: Path) -> None:
    folder = RunFolder(whole)
    try:
        with pytest.raises(UserError, match="another process"):
            nesht.resume(whole, progress=False)
    finally:
        folder.close()


def test_an_existing_run_is_refused_and_left_alone(whole: Path) -> None:
    before = {path.name: path.read_bytes() for path in whole.iterdir()}
    with pytest.raises(UserError, match="already holds a run"):
        nesht.train(out=whole, progress=False, **OPTIONS)
    assert {path.name: path.read_bytes() for path in whole.iterdir()} == before


def test_overwrite_touches_only_the_files_of_a_run(tmp_path: Path) -> None:
    out = tmp_path / "run"
    nesht.train(out=out, progress=False, **{**OPTIONS, "generations": 2})
    (out / "notes.txt").write_text("mine")
    nesht.train(out=out, progress=False, overwrite=True, **{**OPTIONS, "generations": 1})
    assert (out / "notes.txt").read_text() == "mine"
    assert len((out / "metrics.jsonl").read_text().splitlines()) == 1


def test_a_fleet_is_resumed_together(tmp_path: Path) -> None:
    short, out = {**OPTIONS, "generations": 3, "beta": 0.5}, tmp_path / "fleet"
    nesht.train_fleet([0, 1], out=out, progress=False, **short)
    resumed = nesht.resume(out, progress=False, generations=6)
    straight = nesht.train_fleet([0, 1], progress=False, **{**short, "generations": 6})
    for ours, theirs in zip(resumed, straight, strict=True):
        assert (ours.policy.parameters == theirs.policy.parameters).all()


@pytest.mark.skipif(sys.platform == "win32", reason="there is no such limit")
def test_hundreds_of_runs_may_be_open_at_a_time(tmp_path: Path) -> None:
    limited = "import resource; most = resource.getrlimit(resource.RLIMIT_NOFILE)[1]\n"
    limited += "resource.setrlimit(resource.RLIMIT_NOFILE, (100, most))\n"
    limited += "import sys, nesht\n"
    limited += "nesht.train_fleet(range(60), env='CartPole-v1', n=2, generations=1, max_episode_steps=2, threads=1,\n"
    limited += "                  eval_episodes=1, out=sys.argv[1], progress=False)"
    subprocess.run([sys.executable, "-c", limited, str(tmp_path / "fleet")], check=True)
    assert len(list((tmp_path / "fleet").glob("seed-*/summary.json"))) == 60


def test_resuming_a_finished_run_changes_nothing(whole: Path) -> None:
    names = ("policy.safetensors", "evaluations.csv", "metrics.csv", "summary.json", "config.toml")
    before = {name: (whole / name).read_bytes() for name in names}
    result = nesht.resume(whole, progress=False)[0]
    assert result.history == []
    assert {name: (whole / name).read_bytes() for name in names} == before


def test_resuming_that_is_refused_changes_nothing(tmp_path: Path) -> None:
    out = tmp_path / "fleet"
    nesht.train_fleet([0, 1], out=out, progress=False, **{**OPTIONS, "generations": 1})
    nesht.resume(out / "seed-1", progress=False, generations=3)
    before = {path: path.read_bytes() for path in out.rglob("*") if path.is_file()}
    with pytest.raises(UserError, match="seed 1 has used 3 generations already"):
        nesht.resume(out, progress=False, generations=2)
    assert {path: path.read_bytes() for path in out.rglob("*") if path.is_file()} == before


def test_a_larger_budget_is_remembered_and_nothing_else_can_change(tmp_path: Path) -> None:
    out = tmp_path / "run"
    nesht.train(out=out, progress=False, **{**OPTIONS, "generations": 1})
    nesht.resume(out, progress=False, generations=3)
    assert nesht.resume(out, progress=False)[0].generations == 3
    for name, value in {"sigma": 0.1, "precision": "double", "noise": "drawn"}.items():
        with pytest.raises(UserError, match=f"{name} belongs to what a run is"):
            nesht.resume(out, progress=False, **{name: value})
    with pytest.raises(UserError, match="is a run on Hopper-v4, not on Hopper-v5"):
        nesht.resume(out, progress=False, env="Hopper-v5")


def test_a_factory_may_have_moved_but_a_run_keeps_its_environment(tmp_path: Path) -> None:
    def make() -> gymnasium.Env:
        return gymnasium.make("CartPole-v1", max_episode_steps=5)

    few = {"n": 2, "threads": 1, "eval_episodes": 1, "progress": False}
    nesht.train(env=make, generations=1, out=tmp_path / "run", **few)

    def moved() -> gymnasium.Env:
        return make()

    (result,) = nesht.resume(tmp_path / "run", generations=2, env=moved, progress=False)
    assert result.generations == 2
