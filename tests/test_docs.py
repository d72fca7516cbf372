"""The documentation keeps its word: blocks run, examples print what they promise, names and tables are the code's.

A ```python block runs here if the line before it is `<!-- runnable -->`. The runnable blocks of a page share their
names and run in order, in an empty folder that holds one finished run, `runs/hopper`.
"""

from __future__ import annotations

import ast
import dataclasses
import inspect
import json
import os
import re
import shutil
import subprocess
import sys
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import numpy as np
import pytest

import nesht
from nesht import cli, config, presets

ROOT = Path(__file__).parents[1]
PAGES = sorted((ROOT / "docs").rglob("*.md"))
TEXTS = [*PAGES, *(page for page in [ROOT / "README.md"] if page.exists())]
FENCE = re.compile(r"^```(\w*)[^\n]*\n(.*?)^```$", re.MULTILINE | re.DOTALL)
RUNNABLE = re.compile(r"<!-- runnable -->\n```python\n(.*?)^```$", re.MULTILINE | re.DOTALL)
SECTIONS = [type(getattr(config.Config(), section.name)) for section in dataclasses.fields(config.Config)]


def name_of(page: Path) -> str:
    return str(page.relative_to(ROOT))


# Code blocks


@pytest.fixture(scope="module")
def hopper(tmp_path_factory: pytest.TempPathFactory) -> Path:
    out = tmp_path_factory.mktemp("docs") / "hopper"
    nesht.train(
        env="Hopper-v4", noise_ratio=10, n=8, generations=1, eval_episodes=1, threads=1, out=out, progress=False
    )
    return out


@pytest.mark.parametrize("page", [page for page in TEXTS if RUNNABLE.search(page.read_text())], ids=name_of)
def test_runnable_blocks_run(page: Path, hopper: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    shutil.copytree(hopper, tmp_path / "runs" / "hopper")
    monkeypatch.chdir(tmp_path)
    names: dict[str, Any] = {"__name__": "docs"}
    for number, block in enumerate(RUNNABLE.findall(page.read_text()), start=1):
        exec(compile(block, f"{name_of(page)}, runnable block {number}", "exec"), names)


@pytest.mark.parametrize("page", TEXTS, ids=name_of)
def test_python_blocks_are_python(page: Path) -> None:
    for language, block in FENCE.findall(page.read_text()):
        if language == "python" and "--8<--" not in block:
            ast.parse(block, name_of(page))


# Examples


def printed_by(example: str, seconds: float) -> str:
    environment = {**os.environ, "OPENBLAS_NUM_THREADS": "1"}  # the examples are small; more threads only wait
    done = subprocess.run(
        [sys.executable, str(ROOT / "examples" / example)],
        capture_output=True,
        text=True,
        timeout=seconds,
        check=False,
        env=environment,
    )
    assert done.returncode == 0, done.stderr
    return done.stdout


def test_own_environment_finds_the_sensors_that_matter() -> None:
    printed = printed_by("own_environment.py", seconds=60)
    before, after = map(float, re.findall(r"(?:before training|after) (-?[\d.]+)", printed))
    assert after > before / 10  # both are costs, below zero
    kept = printed.split("sensors kept: ")[1].strip()
    assert set(kept.split(", ")) == {"temperature error", "humidity error", "sunshine"}


def test_black_box_finds_the_support() -> None:
    printed = printed_by("black_box.py", seconds=60)
    found, relevant = re.findall(r"knobs (?:found|relevant): +(\[.*\])", printed)
    assert found == relevant
    values = re.findall(r"= ([-+.\d]+) \(best ([-+.\d]+)\)", printed)
    assert len(values) == 5
    assert np.allclose(*np.array(values, float).T, atol=0.15)


def test_ask_tell_finds_the_columns() -> None:
    printed = printed_by("ask_tell.py", seconds=60)
    assert re.findall(r"columns kept (.*)", printed) == ["[3, 14, 15, 92]"] * 2
    assert min(map(float, re.findall(r"accuracy ([\d.]+)", printed))) > 0.95


# Commands and flags


def flags(*classes: type) -> set[str]:
    """Return the flags that tyro makes of dataclasses."""
    found = {"--help"}
    for each in classes:
        for option in dataclasses.fields(each):
            name = option.name.replace("_", "-")
            found.add(f"--{name}")
            if option.type == "bool":
                found.add(f"--no-{name}")
    return found


FLAGS = {name: flags(each) for name, each in cli.COMMANDS.items()}
for each in ("train", "tune"):
    FLAGS[each] = (FLAGS[each] | flags(*SECTIONS)) - {"--options"}
FLAGS["baseline"] = (FLAGS["baseline"] | flags(config.TaskOptions)) - {"--task", "--algorithm"}


def code(text: str) -> Iterator[str]:
    """Yield the lines of shell code in a text, continued lines joined, and its inline code."""
    for language, block in FENCE.findall(text):
        if language in ("", "bash", "console", "sh", "shell", "text"):
            yield from block.replace("\\\n", " ").splitlines()
    yield from re.findall(r"`([^`\n]+)`", FENCE.sub("", text))


def calls(text: str) -> Iterator[tuple[str, list[str]]]:
    """Yield (command, flags) of every call of nesht in a text."""
    for line in code(text):
        if match := re.match(r"(?:\$ )?(?:\w+=\S+ )*(?:\S*/)?nesht ([\w-]+)(.*)", line.strip()):
            command, rest = match.groups()
            yield command, re.findall(r"(?<!\S)--[\w-]+", rest)


@pytest.mark.parametrize("page", TEXTS, ids=name_of)
def test_commands_and_flags_exist(page: Path) -> None:
    text = page.read_text()
    for command, given in calls(text):
        if command.startswith("--"):
            continue
        assert command in cli.COMMANDS, f"nesht {command}"
        assert set(given) <= FLAGS[command], f"nesht {command} has no {set(given) - FLAGS[command]}"
    alone = {found.group() for line in code(text) if (found := re.match(r"--[a-z][\w-]*", line))}
    known = set().union(*FLAGS.values())
    assert alone <= known, f"no command of nesht has {alone - known}"


def test_the_calls_in_a_text_are_found() -> None:
    text = (
        "Run `nesht eval runs/a --episodes 3`:\n\n```bash\nPYTHONPATH=. nesht train --env A-v0 \\\n  --no-bias\n```\n"
    )
    assert sorted(calls(text)) == [("eval", ["--episodes"]), ("train", ["--env", "--no-bias"])]


def test_every_command_and_flag_of_its_own_is_documented() -> None:
    text = (ROOT / "docs" / "cli.md").read_text()
    for name, each in cli.COMMANDS.items():
        assert f"## nesht {name}" in text
        for option in dataclasses.fields(each):
            if option.name not in ("path", "paths", "name", "options", "algorithm", "task"):
                assert f"--{option.name.replace('_', '-')}" in text, f"docs/cli.md: nesht {name} --{option.name}"


# Options, presets, files


def described(each: type) -> set[str]:
    """Return the fields of a class that a docstring follows."""
    (tree,) = ast.parse(inspect.getsource(each)).body
    assert isinstance(tree, ast.ClassDef)
    found = set()
    for line, after in zip(tree.body, tree.body[1:], strict=False):
        follows = isinstance(after, ast.Expr) and isinstance(after.value, ast.Constant)
        if isinstance(line, ast.AnnAssign) and isinstance(line.target, ast.Name) and follows:
            found.add(line.target.id)
    return found


@pytest.mark.parametrize("section", SECTIONS, ids=lambda each: each.__name__)
def test_every_option_has_a_docstring_and_is_in_the_reference(section: type) -> None:
    assert section.__doc__
    assert described(section) == {option.name for option in dataclasses.fields(section)}
    assert f"::: nesht.config.{section.__name__}\n" in (ROOT / "docs" / "options.md").read_text()


def shown(value: Any) -> str:
    return str(value).lower() if isinstance(value, bool) else str(value)


def test_the_presets_are_those_of_the_code() -> None:
    text = (ROOT / "docs" / "algorithms" / "nesht.md").read_text().split("## Presets")[1].split("\n## ")[0]
    both = {name: (shown(presets.TUNED[name]), shown(presets.PAPER[name])) for name in presets.TUNED}
    assert presets.TUNED.keys() == presets.PAPER.keys()
    assert {name: (tuned, paper) for name, tuned, paper in re.findall(r"\| `(\w+)` \| (\S+) \| (\S+) \|", text)} == both
    usual = {**dataclasses.asdict(config.Config().strategy), **presets.TUNED}
    special = {
        (env, name, shown(value))
        for env, values in presets.TUNED_FOR.items()
        for name, value in values.items()
        if value != usual[name]
    }
    assert set(re.findall(r"^\| ([A-Z]\w+) \| `(\w+)` \| ([\w.:]+) \|$", text, re.MULTILINE)) == special


def test_every_file_and_column_of_a_run_is_documented(hopper: Path) -> None:
    text = (ROOT / "docs" / "run-folder.md").read_text()
    for file in hopper.iterdir():
        assert f"`{file.name}`" in text, file.name
    for name in ("metrics.csv", "evaluations.csv"):
        for column in (hopper / name).read_text().splitlines()[0].split(","):
            assert f"`{column}`" in text, f"{name}: {column}"


def test_public_names_are_documented() -> None:
    text = (ROOT / "docs" / "python.md").read_text()
    for name in nesht.__all__:
        assert re.search(rf"^::: nesht\.[\w.]+\.{name}$", text, re.MULTILINE), name


def test_the_speed_of_games_is_what_was_measured() -> None:
    page = (ROOT / "docs" / "engines" / "atari.md").read_text()
    found = json.loads((ROOT / "results" / "atari-speed.json").read_text())
    rows = [re.findall(r"\| ([\d.]+) \| ([\d.]+) \|$", line) for line in page.splitlines()]
    told = [[float(number) for number in row[0]] for row in rows if row]
    names = ("engine / emulation alone", "engine / published way", "the same in frames, with its settings")
    for numbers, name in zip(told, names, strict=True):
        measured = [found[game][name] for game in ("Qbert", "BattleZone")]
        assert numbers == pytest.approx(measured, abs=0.05), name
