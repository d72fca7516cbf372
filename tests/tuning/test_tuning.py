"""`nesht tune`: what is drawn, what a round costs, and that a search keeps its word and is not lost."""

from __future__ import annotations

import csv
import shutil
from collections.abc import Callable, Mapping, Sequence
from itertools import pairwise
from pathlib import Path
from typing import Any

import gymnasium
import pytest
from hypothesis import given
from hypothesis import strategies as st

import nesht
from nesht.cli import main
from nesht.config import Config, read_options
from nesht.errors import UserError
from nesht.strategy import Schedule
from nesht.training.folder import SUMMARY
from nesht.tuning import search
from nesht.tuning.draws import RANGES, draw, searched
from nesht.tuning.halving import Rung, afford, cost, plan

SMALL: dict[str, Any] = {"env": "CartPole-v1", "n": 4, "max_episode_steps": 20, "threads": 1, "eval_episodes": 1}
SMALL |= {"progress": False, "trials": 4, "seeds": (1000, 1001)}
BUDGET = 4000


# What is drawn


@pytest.mark.parametrize(
    "change", [{"beta": 0.9}, {"k": 5}, {"k": "linear:6:20"}, {"beta": 0.0}, {"lr": "cosine:1:0.1"}]
)
def test_draws_lie_in_the_declared_ranges_and_begin_with_the_start(change: dict[str, Any]) -> None:
    start, units = Config().change(**change), 30
    first, *others = draw(start, 40, units)
    assert first == start
    assert draw(start, 40, units) == [first, *others]
    assert draw(start.change(seed=1), 40, units)[1:] != [each.change(seed=1) for each in others]

    def ends(config: Config, name: str) -> Schedule:
        return Schedule.parse(getattr(config.strategy, name))

    for config in others:
        sigma, lr = ends(config, "sigma").start / 0.02, ends(config, "lr").start / ends(start, "lr").start
        assert RANGES["sigma"][0] * 0.99 <= sigma <= RANGES["sigma"][1] * 1.01
        assert RANGES["lr"][0] * 0.98 <= lr / sigma <= RANGES["lr"][1] * 1.02
        assert ends(config, "lr").end / ends(config, "lr").start == pytest.approx(
            ends(start, "lr").end / ends(start, "lr").start, rel=0.01
        )
        if start.strategy.k is not None:
            assert min(ends(config, "k").start, ends(config, "k").end) >= 1
            assert max(ends(config, "k").start, ends(config, "k").end) <= units
        else:
            assert 0 <= ends(config, "beta").start < 1
    kept = {config.strategy.beta if config.strategy.k is None else config.strategy.k for config in others}
    assert len(kept) > 10


def test_draws_are_spread_over_a_range() -> None:
    sigmas = sorted(float(config.strategy.sigma) for config in draw(Config(), 17, 100)[1:])
    low, high = (0.02 * factor for factor in RANGES["sigma"])
    for i, sigma in enumerate(sigmas):  # one in every sixteenth of the range
        assert 0.99 * low * (high / low) ** (i / 16) <= sigma <= 1.01 * low * (high / low) ** ((i + 1) / 16)


@pytest.mark.parametrize(
    ("names", "options"), [(("sparsity",), ["beta"]), (("lr",), ["lr"]), (("sigma",), ["sigma", "lr"])]
)
def test_only_what_is_searched_changes(names: tuple[str, ...], options: list[str]) -> None:
    start = Config()
    assert searched(start, names) == options
    for config in draw(start, 8, 50, names):
        assert config == start.change(**{name: getattr(config.strategy, name) for name in options})


def test_a_penalty_is_a_sparsity_too() -> None:
    start = Config().change(sparsifier="l1", penalty=0.1)
    assert searched(start, ("sparsity",)) == ["penalty"]
    assert len({config.strategy.penalty for config in draw(start, 8, 50)}) == 8
    assert searched(Config().change(sparsifier="none")) == ["sigma", "lr"]


# What it costs


@given(st.integers(10_000, 10**9), st.integers(2, 100), st.integers(1, 5))
def test_a_plan_costs_its_budget(budget: int, trials: int, seeds: int) -> None:
    rungs = plan(budget, trials, seeds)
    assert rungs[0].trials == trials
    assert rungs[-1].trials == 2
    for one, two in pairwise(rungs):
        assert two.trials == (one.trials + 1) // 2
        assert abs(two.steps - 2 * one.steps) <= 1
    spent = seeds * cost(rungs, 0)
    assert budget - seeds * trials * len(rungs) <= spent <= budget


@given(st.integers(10_000, 10**6), st.floats(0, 2), st.floats(0, 2))
def test_what_earlier_rounds_overspent_is_missing_later(budget: int, there: float, left: float) -> None:
    rungs = plan(budget, 16, 1)
    start, rest = there * rungs[0].steps, left * budget
    reached = afford(rungs[1:], start, rest)
    assert start - 1 <= reached <= max(start, rungs[1].steps)
    assert rungs[1].trials * (reached - start) <= rest + 1


def test_no_run_gets_further_than_it_will_train() -> None:
    assert plan(10**9, 4, 1, longest=1000) == [Rung(4, 500), Rung(2, 1000)]


# A run that pauses


def test_a_run_that_paused_ends_with_the_same_policy(tmp_path: Path) -> None:
    config = (
        nesht.Config()
        .change(env="CartPole-v1", n=4, max_episode_steps=20, threads=1, steps=600, lr="linear:0.1:0.001", sigma=0.1)
        .change(eval_every=250)
    )  # not where it pauses
    (whole,) = nesht.train_many([config], outs=[tmp_path / "whole"], progress=False)
    (half,) = nesht.train_many([config], outs=[tmp_path / "half"], pause=300, progress=False)
    assert 300 <= half.steps < whole.steps
    assert not (tmp_path / "half" / SUMMARY).exists()
    (again,) = nesht.resume(tmp_path / "half", pause=400, progress=False)
    (rest,) = nesht.resume(tmp_path / "half", progress=False)
    assert half.steps < again.steps < rest.steps
    assert rest.policy.parameters.tolist() == whole.policy.parameters.tolist()
    assert rest.score == whole.score
    assert (tmp_path / "half" / SUMMARY).exists()
    one, other = ((tmp_path / name / "evaluations.csv").read_text() for name in ("half", "whole"))
    assert one == other


# A search


@pytest.fixture(scope="module")
def whole(tmp_path_factory: pytest.TempPathFactory) -> nesht.TuneResult:
    """A search that nothing happened to."""
    return nesht.tune(budget=BUDGET, out=tmp_path_factory.mktemp("tune") / "whole", **SMALL)


def table(folder: Path) -> list[dict[str, str]]:
    return list(csv.DictReader((folder / "trials.csv").read_text().splitlines()))


def test_a_search_leaves_a_config_and_a_table(whole: nesht.TuneResult) -> None:
    rows = table(whole.folder)
    assert sorted(int(row["trial"]) for row in rows) == [0, 1, 2, 3]
    assert [int(row["rounds"]) for row in rows] == [2, 2, 1, 1]
    final = [float(row["score"]) for row in rows[:2]]
    assert final == sorted(final, reverse=True)
    assert sum(int(row["steps"]) for row in rows) == whole.steps
    most = 4 * 20  # a generation of each run may go beyond the budget
    assert BUDGET / 2 < whole.steps <= BUDGET + 4 * 2 * most
    best = Config().change(**read_options(whole.folder / "best.toml"))
    assert best.sections() == whole.config.sections()
    assert str(best.strategy.beta) == rows[0]["beta"]
    assert whole.trials[0].config == whole.config


def test_the_config_trains(whole: nesht.TuneResult, tmp_path: Path) -> None:
    main(["train", "--config", str(whole.folder / "best.toml"), "--steps", "100", "--out", str(tmp_path / "run")])
    assert (tmp_path / "run" / SUMMARY).exists()


@pytest.mark.parametrize(("stage", "name"), [(1, "train_many"), (2, "resume")])
def test_a_search_that_was_stopped_goes_on_to_the_same_end(
    stage: int, name: str, whole: nesht.TuneResult, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    real: Callable[..., Any] = getattr(search, name)
    seen: list[int] = []

    def stop(rows: Sequence[Mapping[str, Any]]) -> None:
        seen.append(len(rows))
        if len(seen) == 2:
            raise KeyboardInterrupt

    monkeypatch.setattr(search, name, lambda *values, **options: real(*values, callback=stop, **options))
    with pytest.raises(KeyboardInterrupt):
        nesht.tune(budget=BUDGET, out=tmp_path, **SMALL)
    monkeypatch.undo()
    assert (tmp_path / "best.toml").exists() == (stage == 2)
    again = nesht.tune(budget=BUDGET, out=tmp_path, **SMALL)
    assert table(again.folder) == table(whole.folder)
    assert nesht.tune(budget=BUDGET, out=tmp_path, **SMALL).trials == again.trials  # nothing is left to do


def test_a_search_may_go_on_with_other_threads_and_notices_damage(whole: nesht.TuneResult, tmp_path: Path) -> None:
    shutil.copytree(whole.folder, tmp_path / "copy")
    again = nesht.tune(budget=BUDGET, out=tmp_path / "copy", **{**SMALL, "threads": 2})
    assert [trial.number for trial in again.trials] == [trial.number for trial in whole.trials]
    (tmp_path / "copy" / "best.toml").unlink()
    nesht.tune(budget=BUDGET, out=tmp_path / "copy", **SMALL)
    assert (tmp_path / "copy" / "best.toml").read_bytes() == (whole.folder / "best.toml").read_bytes()
    (tmp_path / "copy" / "search.json").write_text('{"asked": ')
    with pytest.raises(UserError, match="is damaged"):
        nesht.tune(budget=BUDGET, out=tmp_path / "copy", **SMALL)
    (tmp_path / "copy" / "search.json").unlink()
    with pytest.raises(UserError, match="holds trials but no"):
        nesht.tune(budget=BUDGET, out=tmp_path / "copy", **SMALL)


def test_another_search_in_the_same_folder_is_refused_and_the_first_is_intact(
    whole: nesht.TuneResult, capsys: pytest.CaptureFixture[str]
) -> None:
    before = table(whole.folder)
    with pytest.raises(UserError, match="holds another search"):
        nesht.tune(budget=BUDGET + 1, out=whole.folder, **SMALL)
    assert table(whole.folder) == before


def test_the_command_searches_on_an_environment_of_ones_own(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    monkeypatch.chdir(tmp_path)
    (tmp_path / "my_envs.py").write_text(
        "import gymnasium\n\n\ndef make():\n    return gymnasium.make('CartPole-v1', max_episode_steps=20)\n"
    )
    words = "tune --env my_envs:make --n 4 --threads 1 --eval-episodes 1 --trials 3 --budget 1500 --search sparsity"
    main([*words.split(), "--seeds", "1000", "--noise-ratio", "2"])
    shown = capsys.readouterr()
    assert "round 1, 1 to come: 3 settings (seeds 1000)" in shown.err
    assert "nesht train --config runs/tune-my-envs-make-x2/best.toml" in shown.out
    rows = table(tmp_path / "runs" / "tune-my-envs-make-x2")
    assert set(rows[0]) == {"trial", "rounds", "steps", "score", "inputs", "beta"}


def test_a_function_is_an_environment_too(tmp_path: Path) -> None:
    options = {**SMALL, "env": lambda: gymnasium.make("CartPole-v1"), "trials": 3, "seeds": (1000,)}
    assert len(nesht.tune(budget=1500, out=tmp_path, **options).trials) == 3


@pytest.mark.parametrize(
    ("change", "words"),
    [
        ({"trials": 1}, "at least 2 trials"),
        ({"seeds": (1, 1)}, "each once"),
        ({"budget": 0}, "must be positive"),
        ({"budget": 10}, "too small for 4 trials"),
        ({"generations": 3}, "leave out generations"),
        ({"search": ("sigmas",)}, "Did you mean sigma"),
        ({"env": "CartPol-v1"}, "Did you mean CartPole"),
    ],
)
def test_bad_wishes_are_refused_before_anything_happens(change: dict[str, Any], words: str, tmp_path: Path) -> None:
    with pytest.raises(UserError, match=words):
        nesht.tune(**{"budget": BUDGET, "out": tmp_path / "search", **SMALL, **change})
    assert not (tmp_path / "search").exists()
