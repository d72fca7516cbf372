"""Declared experiments: every cell can be run, what is there is not run again, what was stopped goes on."""

from __future__ import annotations

import tomllib
from contextlib import closing
from pathlib import Path
from typing import Any

import pytest

from nesht.baselines.run import BaselineConfig
from nesht.cli import main
from nesht.errors import UserError
from nesht.experiments import tuning
from nesht.experiments.catalogue import EXPERIMENTS
from nesht.experiments.design import ENVS, Cell, Options, cell, rival
from nesht.experiments.methods import METHODS, REINFORCEMENT
from nesht.experiments.paper import COLUMNS, TABLE, best, published
from nesht.experiments.runner import Results, run_experiment
from nesht.report.page import write_report
from nesht.training import api
from nesht.training.folder import RunFolder
from nesht.training.setup import build

QUICK: dict[str, Any] = {"engine": "batch", "threads": 1, "n": 4, "max_episode_steps": 5, "eval_episodes": 1}


def quick_cells(steps: int = 60) -> list[Cell]:
    options = Options(("Hopper-v4",), steps, "tuned", QUICK)
    return [cell(options, "Hopper-v4", 2, method, {"n": 4}) for method in ("NES", "ours")]


@pytest.mark.parametrize("preset", ["tuned", "paper"])
@pytest.mark.parametrize("name", EXPERIMENTS)
def test_every_cell_can_be_built_and_no_two_are_the_same(name: str, preset: str) -> None:
    cells = EXPERIMENTS[name].cells(Options(preset=preset))
    assert len({each.name for each in cells}) == len(cells)
    for each in cells:
        if isinstance(each.config, BaselineConfig):
            assert each.config.steps == 1_000_000
            assert each.config.task.reward_keep == 0.1
            continue
        setup = build(each.config)
        assert setup.budget.steps == (3 if each.labels.get("change") == "three times the steps" else 1) * 10_000_000
        assert setup.task.mask.keep == 0.1 or name == "atari" or each.labels.get("change") == "every reward seen"


def test_the_table_has_all_methods_on_all_tasks_of_the_paper() -> None:
    cells = EXPERIMENTS["table1"].cells(Options())
    assert len(cells) == len(TABLE) * (len(METHODS) + len(REINFORCEMENT))
    assert all(published(c.labels["env"], c.labels["noise"], "NES") for c in cells)
    assert {c.labels["method"] for c in cells} == {*COLUMNS, "ours", "A2C"}


def test_the_papers_best_is_its_largest_number() -> None:
    for (env, noise), row in TABLE.items():
        method, number = best(f"{env}-v4", noise)
        assert number == max(row)
        assert row[COLUMNS.index(method)] == number


def test_results_are_written_and_not_computed_again(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    cells = quick_cells()
    first = run_experiment(cells, [0, 1], tmp_path / "out", tmp_path / "work", "test", progress=False)
    assert len(first.runs) == 4
    assert {row["method"] for row in first.evaluations} == {"NES", "ours"}
    assert first.about[0]["command"] == "test"

    def refuse(*_: object, **__: object) -> None:
        raise AssertionError("nothing was missing")

    monkeypatch.setattr("nesht.experiments.runner.train_many", refuse)
    again = run_experiment(cells, [0, 1], tmp_path / "out", tmp_path / "elsewhere", "test", progress=False)
    assert [dict(row, batch=0) for row in again.runs] == [
        {k: str(v) for k, v in row.items()} | {"batch": 0} for row in first.runs
    ]


def test_results_have_one_process_at_a_time(tmp_path: Path) -> None:
    with closing(RunFolder(tmp_path / "out")), pytest.raises(UserError, match="another process"):
        run_experiment(quick_cells(), [0], tmp_path / "out", tmp_path / "work", "test", progress=False)
    assert not (tmp_path / "work").exists()


@pytest.mark.parametrize(
    "command", ["tuning --method ours", "tuning --seeds 0", "table1 --games Pong", "atari --env Hopper-v4"]
)
def test_options_that_an_experiment_does_not_read_are_refused(
    command: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    monkeypatch.chdir(tmp_path)
    with pytest.raises(SystemExit):
        main(["experiment", *command.split()])
    assert "does not apply" in capsys.readouterr().err
    assert not list(tmp_path.iterdir())


def test_a_run_that_lost_its_checkpoints_is_run_again(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    cells, out, work = quick_cells(), tmp_path / "out", tmp_path / "work"
    run_experiment(cells, [0], tmp_path / "first", work, "test", progress=False)
    (place,) = work.glob("*ours*/seed-0")
    for name in ("checkpoint.safetensors", "checkpoint.previous.safetensors", "summary.json"):
        (place / name).unlink(missing_ok=True)
    results = run_experiment(cells, [0], out, work, "test", progress=False)
    assert len(results.runs) == 2


def test_results_of_other_settings_are_not_mixed(tmp_path: Path) -> None:
    run_experiment(quick_cells(), [0, 1], tmp_path / "out", tmp_path / "work", "test", progress=False)
    there = Results.read(tmp_path / "out")
    there.check(quick_cells())
    with pytest.raises(UserError, match="with other settings or steps"):
        there.check(quick_cells(80))


def test_a_mistake_is_said_before_anything_else(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    cells = [*quick_cells(), cell(Options(("Hoper-v4",), 60, "paper", QUICK), "Hoper-v4", 2, "NES")]
    with pytest.raises(UserError, match="Did you mean Hopper-v4"):
        run_experiment(cells, [0], tmp_path / "out", tmp_path / "work", "test")
    assert capsys.readouterr() == ("", "")
    assert not list(tmp_path.iterdir())


def test_a_setting_under_two_names_is_run_once_and_reported_twice(tmp_path: Path) -> None:
    one = quick_cells()[1]
    cells = [Cell({**one.labels, "memory": 0.9}, one.config), Cell({**one.labels, "beta": 0.9}, one.config)]
    results = run_experiment(cells, [0], tmp_path / "out", tmp_path / "work", "a", progress=False)
    assert len(list((tmp_path / "work").rglob("summary.json"))) == 1
    assert [row.get("memory") for row in results.runs] == [0.9, None]
    assert results.runs[0]["score"] == results.runs[1]["score"]
    again = run_experiment(cells, [0], tmp_path / "out", tmp_path / "elsewhere", "a", progress=False)
    assert len(again.runs) == 2


def test_threads_are_processes_of_learners(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    asked = []
    monkeypatch.setattr("nesht.experiments.runner.train_baselines", lambda jobs, processes, _: asked.append(processes))
    for more in ([], ["--threads", "3"]):
        main(["experiment", "table1", "--method", "TD3", "--seeds", "0", *more, "--out", str(tmp_path / "out")])
    assert asked == [0, 3]


def test_reinforcement_learners_leave_the_same_rows(tmp_path: Path) -> None:
    one = rival(Options(steps=900), "Hopper-v4", 2, "TD3")
    small = {**one.config.settings, "learning_starts": 40, "buffer_size": 100, "batch_size": 4, "net_arch": [4, 4]}
    cells = [Cell(one.labels, one.config.change(settings=small, eval_episodes=1, eval_every=45)), quick_cells()[0]]
    results = run_experiment(cells, [0, 1], tmp_path / "out", tmp_path / "work", "a", progress=False)
    assert [row["method"] for row in results.runs] == ["TD3", "TD3", "NES", "NES"]
    assert {row["steps"] for row in results.runs[:2]} == {90}
    assert all(0 < row["noise_leak"] < 1 and "used" not in row for row in results.runs[:2])
    assert results.about[0]["engine"] == ["batch on cpu", "stable-baselines3 on cpu"]
    assert not Results.read(tmp_path / "out").missing(cells, [0, 1])
    (tmp_path / "out" / "runs.csv").unlink()  # lost before it was written, in folders that do not name their trainer
    for config in (tmp_path / "work").rglob("TD3*/**/config.toml"):
        config.write_text(config.read_text().replace('engine = "gym"\n', ""))
    results = run_experiment(cells, [0, 1], tmp_path / "out", tmp_path / "work", "a", progress=False)
    assert [row["method"] for row in results.runs] == ["TD3", "TD3", "NES", "NES"]
    assert results.about[-1]["engine"] == ["batch on cpu", "stable-baselines3 on cpu"]
    longer = [Cell(one.labels, cells[0].config.change(steps=120))]
    more = run_experiment(longer, [0], tmp_path / "out", tmp_path / "work", "b", progress=False)
    assert int(more.runs[-1]["steps"]) == 120  # the shorter run in the same folder does not pass for it
    write_report([(tmp_path / "out").rename(tmp_path / "table1-tuned")], tmp_path / "report.html")


def test_another_budget_or_setting_is_another_run(tmp_path: Path) -> None:
    run_experiment(quick_cells(), [0], tmp_path / "out", tmp_path / "work", "a", progress=False)
    more = run_experiment(quick_cells(steps=120), [0], tmp_path / "out", tmp_path / "work", "b", progress=False)
    assert len(more.runs) == 4
    assert [entry["command"] for entry in more.about] == ["a", "b"]


def test_where_a_run_is_computed_is_not_part_of_what_it_is() -> None:
    one, two = quick_cells()[1], quick_cells()[1]
    two = Cell(two.labels, two.config.change(threads=4, slots=8, seed=9))
    assert one.digest() == two.digest()
    assert one.digest() != Cell(one.labels, one.config.change(beta=0.5)).digest()


def test_what_was_interrupted_goes_on_to_the_same_end(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    whole = run_experiment(quick_cells(), [0], tmp_path / "whole", tmp_path / "w1", "a", progress=False)

    def stop_early(configs: Any, **options: Any) -> None:
        seen = []

        def callback(rows: Any) -> None:
            seen.append(rows)
            if len(seen) == 2:
                raise KeyboardInterrupt

        api.train_many(configs, callback=callback, **options)

    monkeypatch.setattr("nesht.experiments.runner.train_many", stop_early)
    with pytest.raises(KeyboardInterrupt):
        run_experiment(quick_cells(), [0], tmp_path / "out", tmp_path / "w2", "a", progress=False)
    monkeypatch.setattr("nesht.experiments.runner.train_many", api.train_many)
    after = run_experiment(quick_cells(), [0], tmp_path / "out", tmp_path / "w2", "b", progress=False)
    measures = ("method", "score", "steps", "recovery", "noise_leak")
    assert [[str(row[m]) for m in measures] for row in after.runs] == [
        [str(row[m]) for m in measures] for row in whole.runs
    ]


def test_every_method_is_searched_alike_on_held_out_seeds() -> None:
    seeds = [*tuning.FIRST, *tuning.MORE, *tuning.SECOND]
    assert min(seeds) >= 1000
    assert len(set(seeds)) == len(seeds)
    trials = {(env, method): tuning.first_draws(env, method) for env in ENVS for method in METHODS}
    assert {len(draws) for draws in trials.values()} == {tuning.DRAWN}
    for (env, method), draws in trials.items():
        for number in range(1, tuning.ROUNDS + tuning.FINER_ROUNDS + 1):
            more = tuning.children(env, method, number, draws[: tuning.PARENTS], draws)
            assert len(more) == tuning.CHILDREN
            draws.extend(more)
        drawn = more[tuning.PARENTS :]  # after what was found by hand
        assert all(any(child.get(name) in tuning.FINER[name] for name in tuning.FINER) for child in drawn)
    for draws in trials.values():
        assert all(draws.count(draw) == 1 for draw in draws)
    which = {pair: list(range(len(draws))) for pair, draws in trials.items()}
    for each in tuning.cells(Options(), trials, which, tuning.SCREEN):
        build(each.config)


def test_the_search_chooses_the_best_finalist() -> None:
    rows = [
        {"env": "Hopper-v4", "method": "NES", "trial": trial, "noise": noise, "seed": seed, "score": score}
        for trial, score in ((3, 10.0), (5, 30.0), (7, 50.0))
        for noise in (5, 20)
        for seed in tuning.SECOND
    ]
    draws = tuning.first_draws("Hopper-v4", "NES")
    chosen = tuning.chosen(Results(Path(), rows, [], []), {("Hopper-v4", "NES"): draws}, {("Hopper-v4", "NES"): [3, 5]})
    assert chosen["Hopper"]["NES"] == tuning.options_of("NES", draws[5])


def test_ours_is_chosen_among_those_that_find_their_inputs_at_every_ratio() -> None:
    rows = [
        {"env": "Hopper-v4", "method": "ours", "trial": trial, "noise": noise, "seed": seed, "score": score}
        | {"recovery": found if noise == 20 else 1.0}
        for trial, score, found in ((3, 10.0, 1.0), (5, 30.0, 0.85), (7, 50.0, 0.82))
        for noise in (5, 20)
        for seed in tuning.SECOND
    ]
    draws = tuning.first_draws("Hopper-v4", "ours")
    for finalists, number in (([3, 5, 7], 5), ([7], 7)):
        pair = ("Hopper-v4", "ours")
        chosen = tuning.chosen(Results(Path(), rows, [], []), {pair: draws}, {pair: finalists})
        assert chosen["Hopper"]["ours"] == tuning.options_of("ours", draws[number])


def test_a_child_differs_from_a_parent_in_few_settings() -> None:
    parent = tuning.first_draws("Hopper-v4", "ours")[0]
    for child in (
        each for number in (1, 3) for each in tuning.children("Hopper-v4", "ours", number, [parent], [parent])
    ):
        assert 1 <= sum(child[name] != parent.get(name) for name in child) <= tuning.CHANGES


def test_what_was_found_by_hand_is_given_to_every_method() -> None:
    for finer, leads in tuning.LATER.items():
        number = tuning.ROUNDS + finer
        for env in ENVS:
            for method in METHODS:
                parents = tuning.first_draws(env, method)[:2]
                made = tuning.children(env, method, number, parents, parents)
                known = {*parents[0], "fade", *(tuning.OWN_LATER.get(method, ()))}
                for lead in leads[env[:-3]]:
                    found = {name: value for name, value in lead.items() if name in known}
                    assert all({**parent, **found} in [*made, *parents] for parent in parents)


def test_the_whole_search_runs_and_goes_on_where_it_was(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    for name, value in {"DRAWN": 3, "CHILDREN": 2, "PARENTS": 2, "LIKELY": 2, "FINALISTS": 1}.items():
        monkeypatch.setattr(tuning, name, value)
    monkeypatch.setattr(tuning, "MORE", (1002,))
    monkeypatch.setattr(tuning, "SECOND", (1010,))
    options = Options(("Hopper-v4",), 10, "tuned", {**QUICK, "eval_every": 1_000_000})
    monkeypatch.setitem(tuning.COMMON, "n", (4,))
    tuning.tune(options, tmp_path / "out", tmp_path / "work", "a")
    found = (tmp_path / "out" / "chosen.toml").read_text()
    assert set(tomllib.loads(found)["Hopper"]) == set(METHODS)
    assert not (tmp_path / "out" / "evaluations.csv.gz").exists()  # a search keeps one row per run
    (tmp_path / "out" / "chosen.toml").unlink()
    results = Results.read(tmp_path / "out")  # of an earlier search may be there, where settings had other numbers
    results.runs += [
        {**row, "trial": 1 - int(row["trial"]), "score": 1e9} for row in results.runs if row["trial"] < "2"
    ]
    results.write()
    tuning.tune(options, tmp_path / "out", tmp_path / "work", "b")
    assert (tmp_path / "out" / "chosen.toml").read_text() == found
    assert {entry["command"] for entry in Results.read(tmp_path / "out").about} == {"a"}


def test_finalists_whose_patience_ended_run_again_to_the_end_and_count_so(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    small = {"DRAWN": 2, "ROUNDS": 0, "FINER_ROUNDS": 0, "LIKELY": 2, "FINALISTS": 1, "PATIENCE": 1}
    for name, value in {**small, "MORE": (1002,), "SECOND": (1010, 1011)}.items():
        monkeypatch.setattr(tuning, name, value)
    monkeypatch.setitem(tuning.FALLING, "n", (4,))
    monkeypatch.setattr(tuning, "START", {"Hopper": {**tuning.START["Hopper"], "n": 4}})
    options = Options(("Hopper-v4",), 200, "tuned", {**QUICK, "eval_every": 1_000_000})
    judged: list[Results] = []
    choose = tuning.chosen
    monkeypatch.setattr(tuning, "chosen", lambda results, *rest: judged.append(results) or choose(results, *rest))
    for _ in range(2):
        tuning.tune(options, tmp_path / "out", tmp_path / "work", "a")
    rows = [row for row in Results.read(tmp_path / "out").runs if int(row["seed"]) in tuning.SECOND]
    cut = [row for row in rows if int(row["steps"]) < options.steps]
    whole = [row for row in rows if row.get("whole") == "yes"]
    names = ("method", "trial", "noise", "seed")
    assert cut
    assert all(int(row["generations"]) == 1 for row in cut)
    assert sorted([row[name] for name in names] for row in whole) == sorted(
        [row[name] for name in names] for row in cut
    )
    assert all(int(row["steps"]) >= options.steps for row in whole)
    for results in judged:  # the second time nothing had to be run
        counted = [row for row in results.runs if int(row["seed"]) in tuning.SECOND]
        assert len(counted) == len(cut)
        assert all(int(row["steps"]) >= options.steps for row in counted)


def test_results_that_are_there_are_still_those_of_todays_settings() -> None:
    """A new option must not make all results look as if they came from other settings."""
    results = Results.read(Path(__file__).parents[2] / "results" / "tuning-tuned")
    pairs = [(env, "NES") for env in ENVS]
    trials = {pair: tuning.first_draws(*pair) for pair in pairs}
    cells = tuning.cells(Options(), trials, {pair: list(range(tuning.DRAWN)) for pair in pairs}, tuning.SCREEN)
    assert results.missing(cells, tuning.FIRST) == []
