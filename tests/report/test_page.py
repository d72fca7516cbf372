"""The report: complete, self-contained, and nothing in it but what the results say."""

from __future__ import annotations

import re
from pathlib import Path

import pytest

from nesht.errors import UserError
from nesht.experiments.catalogue import BETAS, EXPERIMENTS
from nesht.experiments.methods import REINFORCEMENT
from nesht.experiments.paper import TABLE
from nesht.experiments.runner import Results
from nesht.report.page import write_report

SEGMENTS = " ".join(["2.0", *["0.1"] * 10])


def made_up(folder: Path, name: str) -> Path:
    """Write results with made-up scores: ours 100 above NESHT, that 100 above NES-L1, and so on."""
    from nesht.experiments.design import Options

    place = {"NES": 1000, "NES-L1": 1100, "NESHT": 1200, "ours": 9000}
    results = Results(folder / f"{name}-tuned", [], [], [])
    for cell in EXPERIMENTS[name].cells(Options()):
        for seed in range(3):
            score = place.get(cell.labels["method"], 500) + 10 * seed
            run = {"seed": seed, "score": score, "steps": 10_000_000, "recovery": 0.8, "noise_leak": 0.25}
            results.runs.append({**cell.labels, **run, "digest": cell.digest(), "batch": 0})
            for step in (0, 5_000_000, 10_000_000):
                row = {
                    "seed": seed,
                    "steps": step,
                    "score": score * step / 1e7,
                    "noise_leak": 0.5,
                    "features_used": 20,
                    "real_features_used": 9,
                    "segments": SEGMENTS,
                }
                results.evaluations.append({**cell.labels, **row})
    about = {
        "command": f"nesht experiment {name}",
        "engine": ["fused on cuda"],
        "device": "a GPU",
        "date": "2026-01-01",
    }
    results.about.append({**about, "versions": {"nesht": "0.1.0"}})
    results.write()
    return results.folder


@pytest.mark.parametrize("name", EXPERIMENTS)
def test_every_experiment_has_a_part_with_its_figures_and_command(tmp_path: Path, name: str) -> None:
    folder = made_up(tmp_path, name)
    section = write_report([folder], tmp_path / "report.html", tmp_path / "figures")[0]
    page = (tmp_path / "report.html").read_text()
    assert f"nesht experiment {name}" in page
    figures = [part for part in section.parts if not isinstance(part, str)]
    assert page.count("<svg") == len(figures)
    assert (
        len(list((tmp_path / "figures").glob("*.png")))
        == len(list((tmp_path / "figures").glob("*.svg")))
        == len(figures)
    )


def test_the_page_needs_no_network_and_no_script(tmp_path: Path) -> None:
    write_report([made_up(tmp_path, "table1"), made_up(tmp_path, "heatmap")], tmp_path / "report.html")
    page = re.sub(r'xmlns(:\w+)?="[^"]*"', "", (tmp_path / "report.html").read_text())
    page = re.sub(r"<metadata>.*?</metadata>", "", page, flags=re.DOTALL)
    assert not re.findall(r'(?:src|href)="(?!#|data:)[^"]*"', page)
    assert "<script" not in page
    assert "viewport" in page


def test_the_table_counts_what_the_results_say(tmp_path: Path) -> None:
    section = write_report([made_up(tmp_path, "table1")], tmp_path / "report.html")[0]
    rows = len(TABLE)
    assert section.lead.count(f"{rows} of {rows}") == 4
    page = (tmp_path / "report.html").read_text()
    for numbers in TABLE.values():
        assert all(f"{number:g}" in page for number in numbers)


def test_the_ablation_names_the_best_beta(tmp_path: Path) -> None:
    results = Results.read(made_up(tmp_path, "ablation"))
    for row in results.runs:
        if row["method"] == "ours" and row["beta"]:
            row["score"] = 9000 - 1000 * abs(float(row["beta"]) - 0.6)
    results.write()
    (section,) = write_report([results.folder], tmp_path / "report.html")
    assert section.lead.count("0.6 on") == 3
    page = (tmp_path / "report.html").read_text()
    for beta in BETAS:
        assert f"<th>{beta}</th>" in page


def test_the_same_results_give_the_same_page(tmp_path: Path) -> None:
    folder = made_up(tmp_path, "ablation")
    write_report([folder], tmp_path / "a.html")
    write_report([folder], tmp_path / "b.html")
    assert (tmp_path / "a.html").read_bytes() == (tmp_path / "b.html").read_bytes()


def test_what_is_no_result_gets_a_sentence(tmp_path: Path) -> None:
    with pytest.raises(UserError, match="there is no folder"):
        write_report([tmp_path / "table1"], tmp_path / "report.html")
    (tmp_path / "table1").mkdir()
    with pytest.raises(UserError, match="no results of an experiment"):
        write_report([tmp_path / "table1"], tmp_path / "report.html")
    (tmp_path / "a file").touch()
    with pytest.raises(UserError, match="no results of an experiment"):
        write_report([tmp_path / "a file"], tmp_path / "report.html")


def test_results_are_known_under_any_name(tmp_path: Path) -> None:
    folder = made_up(tmp_path, "table1")
    write_report([folder], tmp_path / "a.html")
    folder.rename(tmp_path / "other")
    (section,) = write_report([tmp_path / "other"], tmp_path / "b.html")
    assert section.title in (tmp_path / "a.html").read_text()


@pytest.mark.parametrize("name", ["runs.csv", "about.json", "evaluations.csv.gz"])
@pytest.mark.parametrize("content", [b"\xff\xfe", b"{", b"seed,score\n1,"])
def test_damaged_results_are_named(name: str, content: bytes, tmp_path: Path) -> None:
    folder = made_up(tmp_path, "table1")
    (folder / name).write_bytes(content)
    with pytest.raises(UserError, match=f"{name} is damaged"):
        write_report([folder], tmp_path / "a.html")


def test_the_papers_claims_are_counted(tmp_path: Path) -> None:
    write_report([made_up(tmp_path, "table1")], tmp_path / "report.html")
    page = (tmp_path / "report.html").read_text()
    assert "<th>A2C</th>" in page
    assert "ahead of NES in 9 of 9 rows (intervals apart in 9, and apart the other way round in 0)" in page
    # NES scores 1000 to 1020 in the made-up results; every number of the paper for it is smaller
    assert "NES: the paper&#x27;s number is below ours" in page or "NES: the paper's number is below ours" in page
    assert "HalfCheetah-v4 x5 (1010 against 819.2)" in page


def test_learners_that_ran_on_some_tasks_are_counted_on_these(tmp_path: Path) -> None:
    results = Results.read(made_up(tmp_path, "table1"))
    results.runs = [row for row in results.runs if row["method"] not in REINFORCEMENT or row["env"] == "Hopper-v4"]
    for row in results.runs:
        row["score"] = 9999 if (row["method"], row["noise"]) == ("TD3", "20") else row["score"]
    results.write()
    (section,) = write_report([results.folder], tmp_path / "report.html")
    assert f"above our own runs of {', '.join(REINFORCEMENT)} in 2 of 3, with intervals apart in 2" in section.lead
    page = (tmp_path / "report.html").read_text()
    assert "TD3: the paper's number is" in page
    together = page.partition("All tasks together")[2].partition("</table>")[0]
    assert "<th>NES</th>" in together
    assert "<th>TD3</th>" not in together


def test_the_noise_in_a_learner_is_told_and_no_inputs_that_it_kept(tmp_path: Path) -> None:
    results = Results.read(made_up(tmp_path, "table1"))
    for row in results.runs:
        row["noise_leak"] = (
            0.87 if row["method"] == "TD3" else "" if row["method"] in REINFORCEMENT else row["noise_leak"]
        )
        row["recovery"] = "" if row["method"] in REINFORCEMENT else row["recovery"]
    results.write()
    write_report([results.folder], tmp_path / "report.html")
    kept = (tmp_path / "report.html").read_text().partition("Which inputs are kept")[2].partition("</table>")[0]
    assert "<th>TD3</th>" in kept
    assert "<th>DDPG</th>" not in kept
    assert "<td>leak 87%</td>" in kept
    page = (tmp_path / "report.html").read_text()
    everywhere = "on HalfCheetah, Hopper, Walker2d"
    assert f"TD3 {everywhere} 87% at x5, 87% at x10, 87% at x20; ours {everywhere} 25% at x5" in page
    assert "Of the inputs it is 83% at x5, 91% at x10, 95% at x20." in page


def test_nothing_is_said_about_methods_that_did_not_run(tmp_path: Path) -> None:
    results = Results.read(made_up(tmp_path, "table1"))
    results.runs = [row for row in results.runs if row["method"] in ("TD3", "ours")]
    results.evaluations = [row for row in results.evaluations if row["method"] in ("TD3", "ours")]
    results.write()
    (section,) = write_report([results.folder], tmp_path / "report.html")
    assert "evolution strategies" not in section.lead
    assert "above our own runs of TD3 in 9 of 9" in section.lead
    page = (tmp_path / "report.html").read_text()
    assert "NESHT is ahead" not in page
    assert "<th>A2C</th>" not in page  # the paper has no number for it
    assert "<th>DDPG</th>" in page
    results.runs = [row for row in results.runs if row["method"] == "TD3"]
    results.write()
    (section,) = write_report([results.folder], tmp_path / "report.html")
    assert section.lead == ""


def test_scores_over_all_tasks_are_multiples_of_the_papers_best() -> None:
    from nesht.report.claims import across_tasks

    runs = [
        {"env": f"{env}-v4", "noise": noise, "method": "ours", "score": 2 * max(row), "seed": seed}
        for (env, noise), row in TABLE.items()
        for seed in range(2)
    ]
    ours, none = across_tasks(runs, ["ours", "NES"])
    assert ours is not None
    assert ours.value == pytest.approx(2)
    assert none is None
