"""What lies in `results/` is what the experiments ask for today, with the settings that the package has."""

from __future__ import annotations

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


@pytest.mark.parametrize("name", ["table1", "clean", "heatmap", "limits", "prune-once"])
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
