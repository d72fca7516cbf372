"""Every shell line of the README and of the documentation is run, in order, page by page, in an empty folder.

A line is run as it is written, but for the numbers that make it long: `SMALLER` says which flags are added to the end
of a call of nesht, where the last one counts. What needs another machine or many minutes is only parsed, by the real
command line: `PARSED`. Lines that set up a machine are checked for what they name (`SETTING_UP`); `make stranger` and
`make dist` run them. Any other line fails the test.
"""

from __future__ import annotations

import os
import re
import shlex
import shutil
import subprocess
import sys
import tomllib
from pathlib import Path

import pytest

from nesht import cli

ROOT = Path(__file__).parents[1]
WHOLE = ("find-inputs.md", "own-data.md", "export.md")
"""Guides that tests/test_guides.py follows from end to end, as they are written."""
PAGES = [ROOT / "README.md", ROOT / "CONTRIBUTING.md"]
PAGES += sorted(page for page in (ROOT / "docs").rglob("*.md") if page.name not in WHOLE)
FENCE = re.compile(r"^```(\w*)[^\n]*\n(.*?)^```$", re.MULTILINE | re.DOTALL)
SHELL = ("", "bash", "console", "sh", "shell")

SMALLER = {
    "train": "--n 4 --generations 1 --eval-episodes 1 --threads 1 --max-episode-steps 20 --overwrite",
    "tune": "--n 4 --budget 1500 --trials 2 --seeds 1000 --eval-episodes 1 --threads 1 --max-episode-steps 20",
    "resume": "--threads 1",
    "eval": "--episodes 2 --threads 1",
    "inspect": "--importance 0",
    "export": "",
    "watch": "--steps 4",
    "bench": "--rounds 1 --threads 1",
    "baseline": "--steps 60 --eval-every 30 --eval-episodes 1 --processes 1 --max-episode-steps 20 --overwrite",
    "experiment": "--steps 100 --seeds 0 --noise 5 --method ours --threads 1",
    "report": "--importance 0",
    "theory": "",
}
"""What is added to a call, by command; a fleet also gets two seeds, and a robot C MuJoCo, which compiles nothing."""

PARSED = (
    (r"--device cuda", "needs a GPU"),
    (r"--engine ray|--address", "tests/engines/ray trains on real clusters"),
    (r"^nesht baseline .*(--engine fused|ALE/)", "tests/baselines/batched and tests/engines/atari train them"),
    (r"^nesht experiment atari", "games of many minutes; tests/engines/atari plays some"),
    (r"^nesht report results/atari", "the results of the line before"),
    (r"^nesht report .*--figures", "the line before it draws the same page"),
)
"""What is only parsed, and why."""

SETTING_UP = (
    r"git clone <this repository> && cd nesht",
    r"python3 -m venv \.venv",
    r"\. \.venv/bin/activate",
    r"ray up cluster\.yaml",
    r'--8<-- "examples/slurm\.sh"',
)


def lines(page: Path) -> list[str]:
    """Return the shell lines of a page, continued lines joined, without comments."""
    blocks = [block for language, block in FENCE.findall(page.read_text()) if language in SHELL]
    joined = "".join(blocks).replace("\\\n", " ").splitlines()
    return [line for line in (re.sub(r"(^|\s)#\s.*", "", line).strip() for line in joined) if line]


def smaller(words: list[str]) -> list[str]:
    """Return a call of nesht with smaller numbers."""
    command, added = words[0], shlex.split(SMALLER[words[0]])
    given = " ".join(words)
    if command in ("train", "baseline") and "--seeds" in words:
        added += ["--seeds", "0-1"]
    if command == "baseline" and words[1] in ("td3", "anf-sac"):
        added += ["--settings", "buffer_size=100", "learning_starts=50"]
    if (
        command in ("train", "tune", "experiment")
        and "--engine" not in words
        and re.search("Hopper|Walker|Cheetah", given)
    ):
        added += ["--engine", "batch"]
    if command == "train" and "--config" in words:
        added = [*added, "--engine", "auto"]
    return [*words, *added]


def run(line: str, monkeypatch: pytest.MonkeyPatch) -> None:
    """Run a line, or as much of it as can be run here; raises if it does not work."""
    if there := re.fullmatch(r"sbatch .*examples/slurm\.sh (.*)|ray exec cluster\.yaml 'nesht (.*)'", line):
        line = f"nesht {there[1] or there[2]}"  # the same command, on another machine
    if made := re.fullmatch(r"make ([\w-]+)", line):
        done = subprocess.run(["make", "-n", made[1]], cwd=ROOT, capture_output=True, text=True, check=False)
        assert done.returncode == 0, done.stderr
    elif line.startswith("pip install"):
        extras = tomllib.loads((ROOT / "pyproject.toml").read_text())["project"]["optional-dependencies"]
        assert set(re.findall(r"[\w-]+", re.search(r"\[(.*)\]", line)[1])) <= set(extras), line  # type: ignore[index]
    elif line.startswith("echo "):
        programs = f"{Path(sys.executable).parent}{os.pathsep}{os.environ['PATH']}"
        subprocess.run(["bash", "-euo", "pipefail", "-c", line], check=True, env={**os.environ, "PATH": programs})
    elif any(re.fullmatch(pattern, line) for pattern in SETTING_UP):
        pass
    else:
        words = shlex.split(line)
        while "=" in words[0]:
            name, _, value = words.pop(0).partition("=")
            monkeypatch.setenv(name, value)
            if name == "PYTHONPATH":
                monkeypatch.syspath_prepend(value)
        assert words.pop(0) == "nesht", f"no rule for the line: {line}"
        if any(re.search(pattern, line) for pattern, _ in PARSED):
            assert type(cli._parse(words)) is cli.COMMANDS[words[0]]
        else:
            cli.main(smaller(words))


@pytest.fixture(scope="module")
def place(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """A folder where a reader may have got to: examples, a run and a fleet of a Hopper, and a rival."""
    folder = tmp_path_factory.mktemp("reader")
    shutil.copytree(ROOT / "examples", folder / "examples")
    before = os.getcwd()
    os.chdir(folder)
    hopper = "train --env Hopper-v4 --noise-ratio 2 --engine batch"
    cli.main([*hopper.split(), *shlex.split(SMALLER["train"]), "--out", "runs/hopper"])
    cli.main([*hopper.split(), *shlex.split(SMALLER["train"]), "--out", "runs/hopper-fleet", "--seeds", "0-1"])
    cli.main(smaller(shlex.split("baseline td3 --env Hopper-v4 --noise-ratio 2 --out runs/td3")))
    os.chdir(before)
    return folder


@pytest.mark.parametrize("page", [page for page in PAGES if lines(page)], ids=lambda page: str(page.relative_to(ROOT)))
def test_every_shell_line_works(page: Path, place: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.chdir(place)
    for name, value in {"MUJOCO_GL": "egl", "WANDB_SILENT": "true", "MLFLOW_DISABLE_TELEMETRY": "true"}.items():
        monkeypatch.setenv(name, value)
    for line in lines(page):
        try:
            run(line, monkeypatch)
        except SystemExit as end:
            pytest.fail(f"{line}: ends with exit code {end.code}")


def test_what_is_only_parsed_is_really_there() -> None:
    every = [line for page in PAGES for line in lines(page)]
    for pattern, _ in PARSED:
        assert any(re.search(pattern, line) for line in every), f"no line has {pattern} any more"
    with pytest.raises(SystemExit):
        cli._parse(["baseline", "td4", "--env", "Hopper-v4"])


def test_a_line_that_does_not_work_fails(place: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.chdir(place)
    for line in (
        "make nothing",
        "nesht train --enw Hopper-v4",
        "nesht eval runs/nowhere",
        "pip install 'nesht[pizza]'",
        "ls",
    ):
        with pytest.raises((AssertionError, SystemExit)):
            run(line, monkeypatch)
