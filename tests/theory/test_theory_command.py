"""`nesht theory` as a person uses it."""

from __future__ import annotations

import json
from pathlib import Path

import pytest

import nesht
from nesht.cli import main

HOPPER = "--d 366 --bound 1000 --variance 50 --sigma 0.1"


def said(words: str, capsys: pytest.CaptureFixture[str]) -> str:
    main(["theory", *words.split()])
    return capsys.readouterr().out


def test_the_plan_is_printed_and_called_loose(capsys: pytest.CaptureFixture[str]) -> None:
    text = said(f"{HOPPER} --epsilon 1", capsys)
    for words in ("2.04e+33", "2.04e+22", "6.81e-09", "none is above 7,979", "age of the universe"):
        assert words in text
    assert "Astronomically loose" in text
    assert max(map(len, text.splitlines())) <= 120


def test_a_plan_that_can_be_run_is_not_called_loose(capsys: pytest.CaptureFixture[str]) -> None:
    text = said("--d 2 --bound 1 --variance 0 --sigma 1 --epsilon 0.7", capsys)
    assert "loose" not in text
    assert "seconds at a million episodes a second" in text


def test_what_a_budget_guarantees_and_when_that_is_nothing(capsys: pytest.CaptureFixture[str]) -> None:
    text = said(f"{HOPPER} --budget 1_000_000", capsys)
    assert "62,735" in text
    assert text.count("says nothing here") == 2
    text = said("--d 2 --bound 1 --variance 0 --sigma 1 --budget 10_000_000_000_000", capsys)
    assert "says nothing here" not in text
    assert "without any training" in said("--d 2 --bound 1 --variance 0 --sigma 1 --epsilon 0.9", capsys)


def test_which_of_n_and_rollouts_to_raise(capsys: pytest.CaptureFixture[str]) -> None:
    text = said("--d 10 --bound 1 --variance 50 --sigma 1 --n 256 --rollouts 4", capsys)
    assert "Raise n rather than N" in text
    assert "would have you raise N" in text
    assert "1,024 and 1" in text
    assert "would have you raise N" not in said(f"{HOPPER} --n 256", capsys)


def test_json_has_the_same_numbers(capsys: pytest.CaptureFixture[str]) -> None:
    facts = json.loads(said(f"{HOPPER} --epsilon 1 --budget 1000 --n 8 --json", capsys))
    assert facts["paper"]["plan"]["episodes"] == pytest.approx(2.04e33, rel=1e-3)
    assert facts["corrected"]["plan"]["rollouts"] == 1
    assert facts["paper"]["variance_bound"] > facts["corrected"]["variance_bound"]
    assert facts["paper"]["guaranteed"] > facts["corrected"]["guaranteed"]


def test_the_numbers_of_a_policy_are_measured(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    options = {"env": "CartPole-v1", "n": 4, "generations": 1, "engine": "gym", "threads": 1}
    nesht.train(**options, out=tmp_path / "run", progress=False)
    facts = json.loads(said(f"--policy {tmp_path}/run --sigma 0.1 --epsilon 1 --json", capsys))["paper"]
    assert facts["d"] == nesht.load_policy(tmp_path / "run").network.size
    assert 5 < facts["bound"] <= 500
    assert facts["variance"] > 0
    assert "measured around the policy" in said(f"--policy {tmp_path}/run --sigma 0.1 --n 8", capsys)
    given = json.loads(said(f"--policy {tmp_path}/run --sigma 0.1 --epsilon 1 --bound 500 --json", capsys))["paper"]
    assert given["bound"] == 500


@pytest.mark.parametrize(
    ("words", "answer"),
    [
        (f"{HOPPER}", "--epsilon, --budget or --n"),
        (f"{HOPPER} --epsilon 0", "epsilon"),
        (f"{HOPPER} --epsilon 1 --c 0.5", "strictly between 0 and 1/2"),
        (f"{HOPPER} --n 0", "members per generation"),
        (f"{HOPPER} --budget 0", "budget"),
        ("--d 366 --bound 1000 --variance 50 --sigma 0 --epsilon 1", "sigma"),
        ("--d 0 --bound 1000 --variance 50 --sigma 1 --epsilon 1", "d (the number of parameters)"),
        ("--d 9 --bound -1 --variance 50 --sigma 1 --epsilon 1", "bound"),
        ("--d 9 --bound 1 --variance -50 --sigma 1 --epsilon 1", "variance"),
        ("--d 9 --bound 1 --sigma 1 --epsilon 1", "needs --d, --bound and --variance"),
        ("--policy nowhere --sigma 1 --epsilon 1", "nowhere"),
    ],
)
def test_nonsense_gets_one_sentence_and_exit_code_2(
    words: str, answer: str, capsys: pytest.CaptureFixture[str]
) -> None:
    with pytest.raises(SystemExit) as end:
        main(["theory", *words.split()])
    shown = capsys.readouterr()
    assert end.value.code == 2
    assert answer in shown.err
    assert shown.err.count("\n") == 1
    assert shown.out == ""
