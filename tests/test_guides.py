"""The guides run: every shell line and every Python block of them, in order, as a reader would run them."""

from __future__ import annotations

import os
import re
import shutil
import subprocess
import sys
from pathlib import Path
from typing import Any

import numpy as np
import pytest

ROOT = Path(__file__).parents[1]
GUIDES = [ROOT / "docs" / "guides" / f"{name}.md" for name in ("find-inputs", "own-data", "export")]
FENCE = re.compile(r"^```(\w+)\n(.*?)^```$", re.MULTILINE | re.DOTALL)
SHOWN = ("text", "c")
"""Blocks to look at, not to run."""


def follow(guide: Path, folder: Path) -> str:
    """Do all that a guide says in a folder with the repository's examples; return what its shell lines printed."""
    shutil.copytree(ROOT / "examples", folder / "examples", ignore=shutil.ignore_patterns("__pycache__"))
    programs = f"{Path(sys.executable).parent}{os.pathsep}{os.environ['PATH']}"
    # The examples are small; more threads of a BLAS only wait.
    environment = {**os.environ, "PATH": programs, "OPENBLAS_NUM_THREADS": "1", "PYTHONPATH": "examples"}
    printed, names = "", dict[str, Any](__name__="guide")
    for language, block in FENCE.findall(guide.read_text()):
        if language == "bash":
            done = subprocess.run(
                ["bash", "-euo", "pipefail", "-c", block],
                cwd=folder,
                env=environment,
                capture_output=True,
                text=True,
                check=False,
                timeout=120,
            )
            assert done.returncode == 0, f"{block}\n{done.stderr}"
            printed += done.stdout
        elif language == "python":
            if "--8<--" not in block:
                exec(compile(block, str(guide), "exec"), names)
        else:
            assert language in SHOWN, f"{guide.name}: is {language} run, or shown?"
    return printed


@pytest.fixture
def workshop(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    monkeypatch.chdir(tmp_path)
    monkeypatch.syspath_prepend(str(tmp_path / "examples"))
    for name in ("own_environment", "greenhouse_controller"):
        monkeypatch.delitem(sys.modules, name, raising=False)
    return tmp_path


def test_every_guide_is_followed() -> None:
    assert {guide.stem for guide in GUIDES} == {"find-inputs", "own-data", "export"}


def test_inputs_are_found_and_controllers_agree(workshop: Path, capsys: pytest.CaptureFixture[str]) -> None:
    printed = follow(ROOT / "docs" / "guides" / "find-inputs.md", workshop)
    useful = ["temperature error", "humidity error", "sunshine"]
    assert sorted(re.findall(r"^(\S.*?) +3 of 3", printed, re.MULTILINE)) == sorted(useful)
    assert "3 of 60 inputs to read" in printed
    six, three = (float(re.findall(rf"runs/{name}: score (\S+)", printed)[0]) for name in ("six/seed-0", "greenhouse"))
    assert three > six
    in_numpy, in_c = re.findall(r"^(-?[\d.]+ -?[\d.]+)$", printed, re.MULTILINE)
    assert np.allclose(*(np.array(line.split(), float) for line in (in_numpy, in_c)), atol=2e-4)
    score = float(re.findall(r"score (\S+) with", capsys.readouterr().out)[0])
    assert score > 3 * three  # both are costs, below zero; this is one episode
    assert all(name in (workshop / "inputs.html").read_text() for name in useful)


def test_the_controller_needs_no_nesht(workshop: Path) -> None:
    program = "import sys; sys.path.insert(0, sys.argv[1]); import greenhouse_controller; print('nesht' in sys.modules)"
    command = [sys.executable, "-c", program, str(ROOT / "examples")]
    assert subprocess.run(command, capture_output=True, text=True, check=True).stdout == "False\n"


def test_the_scorecard_is_found(workshop: Path, capsys: pytest.CaptureFixture[str]) -> None:
    printed = follow(ROOT / "docs" / "guides" / "own-data.md", workshop)
    assert re.findall(r"^  column (\d+): ", printed, re.MULTILINE) == ["12", "47", "88", "131"]
    assert "[ 6  7 22 23]" in capsys.readouterr().out.splitlines()


def test_every_format_is_used(workshop: Path) -> None:
    printed = follow(ROOT / "docs" / "guides" / "export.md", workshop)
    for file in ("runs/hopper/policy.onnx", "runs/hopper/policy.npz", "hopper.h", "runs/hopper/policy.pt"):
        assert f"written to {file}" in printed
        assert (workshop / file).exists()
