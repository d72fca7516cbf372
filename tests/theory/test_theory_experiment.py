"""The experiment `theory`, small: every part is measured once, written down, and shown by the report."""

from __future__ import annotations

import csv
import json
import re
from pathlib import Path

import pytest

from nesht.cli import main
from nesht.config import RuntimeOptions
from nesht.errors import UserError
from nesht.experiments import theory
from nesht.report.page import write_report

SMALL = theory.Settings(
    repeats=20,
    hopper_repeats=2,
    generations=9,
    seeds=2,
    irrelevant=(0, 3),
    example_generations=9,
    example_seeds=2,
    steps=300,
    policies=2,
    trained=2,
    ratios=(0, 5),
    members=3,
)


@pytest.fixture(scope="module")
def folder(tmp_path_factory: pytest.TempPathFactory) -> Path:
    out = tmp_path_factory.mktemp("results") / "theory"
    theory.measure(out, "nesht experiment theory", RuntimeOptions(engine="fused", device="cpu", threads=2), SMALL)
    return out


def rows(folder: Path, part: str) -> list[dict[str, str]]:
    return list(csv.DictReader((folder / f"{part}.csv").read_text().splitlines()))


def test_every_part_is_there_with_the_command_and_settings_that_made_it(folder: Path) -> None:
    about = json.loads((folder / "about.json").read_text())
    assert [entry["part"] for entry in about] == list(theory.PARTS)
    assert {entry["command"] for entry in about} == {"nesht experiment theory"}
    assert about[0]["settings"]["repeats"] == 20
    assert about[0]["engine"] == ["fused on cpu"]


def test_the_rows_are_complete(folder: Path) -> None:
    variance = rows(folder, "variance")
    assert len(variance) == sum(map(len, theory.SWEEPS.values())) + 2
    for row in variance:
        if row["problem"] == "steps":  # 20 repeats of a bound that holds; on Hopper B is only estimated
            assert float(row["measured"]) < float(row["corrected"]) + 5.5 * float(row["error"])
        assert float(row["corrected"]) <= float(row["paper"])
    places = {(row["design"], row["theta"], row["noise"], row["at"]) for row in rows(folder, "hopper")}
    assert ("grafted", "sparse", "5", "narrow members") in places
    assert ("grafted", "dense, weak", "5", "policy") in places
    assert ("trained", "NESHT", "5", "members") in places
    assert {row["method"] for row in rows(folder, "example")} == set(theory.METHODS)
    assert {row["start"] for row in rows(folder, "convergence")} == {"right support", "zero"}


def test_what_is_there_is_not_measured_again(folder: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    def refuse(*_: object) -> None:
        raise AssertionError("nothing was missing")

    for name in theory.PARTS:
        monkeypatch.setitem(theory.PARTS, name, refuse)
    theory.measure(folder, "again", RuntimeOptions(engine="fused", device="cpu", threads=2), SMALL)


def test_the_report_shows_every_part(folder: Path, tmp_path: Path) -> None:
    section = write_report([folder], tmp_path / "report.html", tmp_path / "figures")[0]
    page = (tmp_path / "report.html").read_text()
    names = {path.stem for path in (tmp_path / "figures").glob("*.png")}
    figures = ("variance", "hopper-grafted", "hopper-trained", "convergence", "example")
    assert names == {f"theory-{name}" for name in figures}
    assert page.count("<svg") == len(names)
    assert "nesht experiment theory" in page
    assert "on fused on cpu" in page
    assert re.search(r"From 0 to 5 noise inputs .* goes from \d+ to [\d,]+ at dense policies", section.lead)


def test_a_folder_without_results_and_options_that_do_not_apply_get_a_sentence(
    tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    (tmp_path / "theory").mkdir()
    with pytest.raises(UserError, match="no results of an experiment"):
        write_report([tmp_path / "theory"], tmp_path / "report.html")
    for words in ("--steps 9", "--env Hopper-v4", "--preset paper", "--seeds 0-3"):
        with pytest.raises(SystemExit) as end:
            main(["experiment", "theory", *words.split(), "--out", str(tmp_path / "out")])
        assert end.value.code == 2
        assert "does not apply" in capsys.readouterr().err
    assert not (tmp_path / "out").exists()


@pytest.mark.parametrize("more", [[], ["--json"]])
def test_numbers_that_cannot_be_computed_with_are_refused(more: list[str], capsys: pytest.CaptureFixture[str]) -> None:
    numbers = ["--sigma", "1e-300", "--d", "10", "--bound", "1e300", "--variance", "1", "--epsilon", "1e-300"]
    with pytest.raises(SystemExit):
        main(["theory", *numbers, *more])
    assert "cannot be computed" in capsys.readouterr().err
