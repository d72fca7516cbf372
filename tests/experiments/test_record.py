"""What lies in `results/` is what the experiments ask for today, with the settings that the package has."""

from __future__ import annotations

import runpy
import shutil
import tomllib
from pathlib import Path
from typing import Any

import pytest

from nesht.commands.runs import parse_seeds
from nesht.experiments import runner, tuning
from nesht.experiments.catalogue import EXPERIMENTS
from nesht.experiments.design import Options
from nesht.experiments.methods import METHODS
from nesht.experiments.runner import Results

ROOT = Path(__file__).parents[2]
RESULTS = ROOT / "results"


@pytest.mark.parametrize("name", ["table1", "clean", "heatmap", "limits", "prune-once", "ablation"])
def test_every_run_of_an_experiment_is_there_with_the_settings_of_today(name: str) -> None:
    experiment = EXPERIMENTS[name]
    cells = [cell for cell in experiment.cells(Options()) if cell.labels["method"] in METHODS]
    missing = Results.read(RESULTS / f"{name}-tuned").missing(cells, parse_seeds(experiment.seeds))
    assert not missing, {cell.name for cell, _ in missing}


def test_the_search_as_it_is_now_chooses_what_the_package_uses(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    def train(missing: list[Any], *_: Any) -> None:
        assert not missing, missing[0]

    monkeypatch.setattr(runner, "_train", train)
    shutil.copytree(RESULTS / "tuning-tuned", tmp_path / "record")
    (tmp_path / "record" / "chosen.toml").unlink()
    tuning.tune(Options(), tmp_path / "record", tmp_path / "work", "")
    chosen = tomllib.loads((tmp_path / "record" / "chosen.toml").read_text())
    assert chosen == tomllib.loads((ROOT / "src/nesht/tuned.toml").read_text())


def test_merged_results_are_those_of_the_last_folder_with_the_curves_and_the_batch_of_each_run(tmp_path: Path) -> None:
    def made(name: str, *runs: tuple[str, int, float, str]) -> Path:
        rows = [{"env": "E", "method": m, "seed": s, "score": x, "digest": d, "batch": 0} for m, s, x, d in runs]
        curves = [{"env": "E", "method": m, "seed": s, "score": x / 2, "steps": 1, "digest": d} for m, s, x, d in runs]
        Results(tmp_path / name, rows, curves, [{"command": name}]).write()
        return tmp_path / name

    into = made("into", ("NES", 0, 1.0, "a"), ("NES", 1, 2.0, "a"), ("ours", 0, 3.0, "b"))
    other = made("other", ("ours", 0, 5.0, "c"), ("ours", 1, 6.0, "c"))
    runpy.run_path(str(ROOT / "benchmarks/merge.py"))["merge"]([other], into).write()
    merged = Results.read(into)
    runs = {(row["method"], row["seed"]): row for row in merged.runs}
    commands = {name: merged.about[int(row["batch"])]["command"] for name, row in runs.items()}
    assert {name: row["score"] for name, row in runs.items()} == {
        ("NES", "0"): "1.0",
        ("NES", "1"): "2.0",
        ("ours", "0"): "5.0",
        ("ours", "1"): "6.0",
    }
    assert commands == {name: "other" if name[0] == "ours" else "into" for name in runs}
    assert sorted(row["score"] for row in merged.evaluations) == ["0.5", "1.0", "2.5", "3.0"]
