"""The command line as a person uses it: what it says, what it refuses, how it exits."""

from __future__ import annotations

import json
import shutil
import subprocess
import sys
from pathlib import Path

import pytest

import nesht
from nesht.cli import main
from nesht.commands.runs import parse_seeds
from nesht.presets import TUNED_FOR
from nesht.strategy.schedules import Schedule

QUICK = ["--env", "Hopper-v4", "--noise-ratio", "2", "--n", "8", "--generations", "2", "--eval-episodes", "2"]


@pytest.fixture(scope="module")
def run(tmp_path_factory: pytest.TempPathFactory) -> Path:
    out = tmp_path_factory.mktemp("runs") / "hopper"
    main(["train", *QUICK, "--steps", "10_000_000", "--seed", "4", "--out", str(out)])
    return out


def test_a_run_folder_holds_everything(run: Path) -> None:
    names = {path.name for path in run.iterdir()}
    assert names >= {
        "config.toml",
        "metrics.csv",
        "metrics.jsonl",
        "evaluations.csv",
        "checkpoint.safetensors",
        "policy.safetensors",
        "summary.json",
    }
    assert json.loads((run / "summary.json").read_text())["seed"] == 4


def test_progress_is_plain_lines_when_not_a_terminal(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    main(["train", *QUICK, "--out", str(tmp_path / "run")])
    shown = capsys.readouterr()
    assert "\x1b" not in shown.err
    for word in ("100%", "steps", "/s", "score", "nonzeros", "on real inputs"):
        assert word in shown.err
    assert "seed 0: score" in shown.out


def test_eval_and_inspect_speak_text_and_json(run: Path, capsys: pytest.CaptureFixture[str]) -> None:
    main(["eval", str(run), "--episodes", "3", "--threads", "1"])
    assert "over 3 episodes" in capsys.readouterr().out
    main(["eval", str(run), "--episodes", "3", "--threads", "2", "--json"])
    (row,) = json.loads(capsys.readouterr().out)
    assert row["min"] <= row["mean"] <= row["max"]
    main(["inspect", str(run)])
    text = capsys.readouterr().out
    assert "inputs used" in text
    assert "precision" in text
    main(["inspect", str(run / "policy.safetensors"), "--json"])
    told = json.loads(capsys.readouterr().out)
    assert told["stability"] is None
    (report,) = told["policies"].values()
    assert report["n_real"] == 11
    assert report["n_distractors"] == 22
    assert len(report["used"]) == Schedule.parse(TUNED_FOR["Hopper"]["k"]).start  # hardly any of the budget is spent


@pytest.fixture(scope="module")
def cart(tmp_path_factory: pytest.TempPathFactory) -> Path:
    out = tmp_path_factory.mktemp("runs") / "cart"
    options = ["--noise-ratio", "1", "--k", "3", "--n", "8", "--generations", "2", "--threads", "1"]
    main(["train", "--env", "CartPole-v1", *options, "--out", str(out)])
    return out


def test_inspect_measures_what_the_score_loses(cart: Path, capsys: pytest.CaptureFixture[str]) -> None:
    options = [str(cart), "--importance", "2", "--threads", "1"]
    main(["inspect", *options, "--json"])
    (report,) = json.loads(capsys.readouterr().out)["policies"].values()
    losses = report["importance"]["losses"]
    assert {int(number) for number in losses} == {feature["index"] for feature in report["used"]}
    assert all(loss[way].keys() == {"value", "low", "high"} for loss in losses.values() for way in loss)
    main(["inspect", *options])
    text = capsys.readouterr().out
    assert "dropped" in text
    assert "2 episodes" in " ".join(text.split())


def test_a_page_about_runs(cart: Path, tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    for seed in range(2):
        shutil.copytree(cart, tmp_path / f"seed-{seed}")
    main(["report", str(tmp_path), "--out", str(tmp_path / "a.html"), "--importance", "2", "--threads", "1"])
    page = (tmp_path / "a.html").read_text()
    assert "2 of 2" in page  # runs that chose an input
    assert "shuffled" in page
    policy = nesht.load_policy(cart)
    for name, used in zip(policy.feature_names, policy.used, strict=True):
        assert (f"<td>{name}</td>" in page) == used
    assert "chosen by all 2 runs" in capsys.readouterr().out


def test_export_says_what_to_read_and_where_it_wrote(
    run: Path, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    used = nesht.load_policy(run).used
    for form, suffix in (("onnx", ".onnx"), ("npz", ".npz"), ("c", ".h"), ("torchscript", ".pt")):
        main(["export", str(run), "--format", form])
        main(["export", str(run / "policy.safetensors"), "--format", form, "--out", str(tmp_path / f"a{suffix}")])
        shown = capsys.readouterr().out
        assert shown.count(f"{used.sum()} of {len(used)} inputs to read") == 2
        assert shown.count(f"{used[11:].sum()} of them are noise") == 2
        assert (run / f"policy{suffix}").exists()
        assert (tmp_path / f"a{suffix}").exists()
        (run / f"policy{suffix}").unlink()


def test_a_damaged_policy_is_not_exported(run: Path, tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    content = bytearray((run / "policy.safetensors").read_bytes())
    content[-1] ^= 1
    (tmp_path / "policy.safetensors").write_bytes(content)
    with pytest.raises(SystemExit) as stopped:
        main(["export", str(tmp_path / "policy.safetensors"), "--format", "npz"])
    assert stopped.value.code == 2
    assert "is damaged" in capsys.readouterr().err
    assert [file.name for file in tmp_path.iterdir()] == ["policy.safetensors"]


@pytest.mark.parametrize("command", ["export --format npz", "watch --out a.gif"])
def test_a_fleet_is_not_taken_for_one_policy(
    run: Path, command: str, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    for seed in range(2):
        shutil.copytree(run, tmp_path / f"seed-{seed}")
    verb, *options = command.split()
    with pytest.raises(SystemExit):
        main([verb, str(tmp_path), *options])
    assert f"holds 2 runs; {verb} one of them, for example {tmp_path / 'seed-0'}" in capsys.readouterr().err


@pytest.mark.parametrize("command", ["export --format c", "report"])
@pytest.mark.parametrize("name", ["config.toml", "checkpoint.safetensors", "metrics.csv", "summary.json"])
def test_nothing_is_written_over_the_files_of_a_run(
    run: Path, command: str, name: str, capsys: pytest.CaptureFixture[str]
) -> None:
    before = (run / name).read_bytes()
    with pytest.raises(SystemExit):
        main([*command.split(), str(run), "--out", str(run / name)])
    assert "belongs to the run" in capsys.readouterr().err
    assert (run / name).read_bytes() == before


def test_a_policy_that_is_gone_comes_back(run: Path, tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    out = Path(shutil.copytree(run, tmp_path / "run"))
    (out / "policy.safetensors").unlink()
    with pytest.raises(SystemExit):
        main(["eval", str(out)])
    assert f"nesht resume {out}" in capsys.readouterr().err
    main(["resume", str(out)])
    assert (out / "policy.safetensors").exists()


def test_a_reader_that_has_seen_enough_ends_a_command_quietly(run: Path) -> None:
    command = f"{sys.executable} -m nesht inspect --json {run} | true"
    done = subprocess.run(command, shell=True, capture_output=True, text=True, check=False)
    assert done.stderr == ""


@pytest.mark.parametrize(
    ("options", "sentence"),
    [
        (["--seed", "-1"], "a seed must be"),
        (["--seed", "4294967296"], "a seed must be"),
        (["--threads", "-3"], "threads must be"),
    ],
)
def test_numbers_that_make_no_sense_are_refused_by_eval_too(
    run: Path, options: list[str], sentence: str, capsys: pytest.CaptureFixture[str]
) -> None:
    with pytest.raises(SystemExit):
        main(["eval", str(run), *options])
    assert sentence in capsys.readouterr().err


def test_a_config_file_names_all_that_a_preset_could_change(run: Path, tmp_path: Path) -> None:
    options = [
        "--env",
        "HalfCheetah-v4",
        "--generations",
        "1",
        "--n",
        "4",
        "--threads",
        "1",
        "--max-episode-steps",
        "5",
    ]
    first, again = tmp_path / "first", tmp_path / "again"
    main(["train", *options, "--rank-by", "weight", "--out", str(first)])
    main(["train", "--config", str(first / "config.toml"), "--out", str(again)])
    assert (first / "config.toml").read_text() == (again / "config.toml").read_text()


def test_resume_extends_a_finished_run(run: Path, capsys: pytest.CaptureFixture[str]) -> None:
    main(["resume", str(run), "--generations", "3", "--threads", "2"])
    assert "seed 4: score" in capsys.readouterr().out
    assert json.loads((run / "summary.json").read_text())["generations"] == 3


def test_a_config_file_is_overridden_by_flags_and_overrides_the_preset(tmp_path: Path) -> None:
    config = tmp_path / "c.toml"
    config.write_text('[task]\nenv = "Hopper-v4"\n[strategy]\nlr = 0.5\nn = 6\n[training]\ngenerations = 1\n')
    main(["train", "--config", str(config), "--preset", "paper", "--n", "4", "--out", str(tmp_path / "run")])
    kept = (tmp_path / "run" / "config.toml").read_text()
    for line in ('env = "Hopper-v4"', "lr = 0.5", "n = 4", 'optimiser = "adam"', "mirrored = false"):
        assert f"\n{line}\n" in kept


def test_several_seeds_make_a_fleet(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    main(["train", *QUICK, "--seeds", "0-1,5", "--out", str(tmp_path)])
    assert {path.name for path in tmp_path.iterdir()} == {"seed-0", "seed-1", "seed-5"}
    main(["inspect", str(tmp_path), "--figure", str(tmp_path / "fleet.png"), "--json"])
    told = json.loads(capsys.readouterr().out.split("nesht inspect", 1)[1].split("\n", 1)[1])
    assert len(told["policies"]) == told["stability"]["runs"] == 3
    assert (tmp_path / "fleet.png").read_bytes().startswith(b"\x89PNG")


BAD = {
    "--env Hoper-v4": "Did you mean Hopper-v4",
    "--env Hopper-v4 --beta 1": "[0, 1)",
    "--env Hopper-v4 --beta -0.1": "[0, 1)",
    "--env Hopper-v4 --beta linear:0:1": "[0, 1)",
    "--env Hopper-v4 --beta often": "must be a number or kind:start:end",
    "--env Hopper-v4 --k 0": "at least 1",
    "--env Hopper-v4 --k linear:3": "kind:start:end",
    "--env Hopper-v4 --n 7": "even n",
    "--env Hopper-v4 --n 0": "at least 2",
    "--env Hopper-v4 --steps 0": "must be positive",
    "--env Hopper-v4 --generations -1": "must be positive",
    "--env Hopper-v4 --seconds nan": "must be positive",
    "--env Hopper-v4 --seconds 9 --lr linear:1:0.1": "needs a budget in steps",
    "--env Hopper-v4 --sigma 0": "sigma must stay positive",
    "--env Hopper-v4 --lr nan": "lr must stay positive",
    "--env Hopper-v4 --memory 2": "memory must lie in [0, 1]",
    "--env Hopper-v4 --noise-ratio -1": "noise_ratio must be 0 or more",
    "--env Hopper-v4 --reward-keep 0": "reward_keep",
    "--env Hopper-v4 --reward-keep 0.1 --reward-every 10": "give one of them",
    "--env Hopper-v4 --sparsifier l1": "penalty",
    "--env Hopper-v4 --scope layer9.weight --unit weight": "no block",
    "--env Hopper-v4 --seed -1": "seed",
    "--env Hopper-v4 --seeds 3-x": "seeds are written",
    "--env Hopper-v4 --seeds 1,1": "each once",
    "--env Blackjack-v1": "Tuple observations",
    "--env Pendulum-v1 --engine batch": "use --engine gym",
    "--config nowhere.toml": "no config file",
    "": "which environment",
}


@pytest.mark.parametrize("words", BAD)
def test_bad_input_gets_one_sentence_and_exit_code_2(
    words: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    monkeypatch.chdir(tmp_path)
    with pytest.raises(SystemExit) as end:
        main(["train", *words.split(), "--out", "run"])
    shown = capsys.readouterr()
    assert end.value.code == 2
    assert BAD[words] in shown.err
    assert shown.err.count("\n") == 1
    assert shown.out == ""
    assert list(tmp_path.iterdir()) == []  # before anything was made


@pytest.mark.parametrize(
    ("content", "words"),
    [
        ('env = "Hopper-v4"\nbeat = 0.9\n', "unknown key 'beat'. Did you mean beta"),
        ("[strateg]\nbeta = 0.9\n", "unknown section [strateg]. Did you mean strategy"),
        ("[task]\nbeta = 0.9\n", "unknown key 'beta'"),
        ('env = "Hopper-v4"\nn = "many"\n', "n must be a whole number, got 'many'"),
        ('env = "Hopper-v4"\noptimiser = "lion"\n', "optimiser must be one of sgd, adam"),
        ("n = = 3\n", "cannot read the config file"),
    ],
)
def test_a_bad_config_file_is_refused(
    content: str, words: str, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    (tmp_path / "c.toml").write_text(content)
    with pytest.raises(SystemExit) as end:
        main(["train", "--config", str(tmp_path / "c.toml"), "--out", str(tmp_path / "run")])
    assert end.value.code == 2
    assert words in capsys.readouterr().err


@pytest.mark.parametrize("command", ["eval", "inspect", "resume"])
def test_what_is_no_run_is_refused(command: str, tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    (tmp_path / "notes.txt").write_text("not a policy")
    for path in (tmp_path, tmp_path / "nowhere", tmp_path / "notes.txt"):
        with pytest.raises(SystemExit) as end:
            main([command, str(path)])
        assert end.value.code == 2
        assert capsys.readouterr().err.count("\n") == 1


def test_unknown_flags_exit_with_2_too() -> None:
    with pytest.raises(SystemExit) as end:
        main(["train", "--enw", "Hopper-v4"])
    assert end.value.code == 2


def test_seeds_are_ranges_and_lists() -> None:
    assert parse_seeds("0-3,7,9-10") == [0, 1, 2, 3, 7, 9, 10]


@pytest.mark.parametrize(("words", "k"), [("", "linear:6:20"), ("--beta 0.5", None), ("--beta=0.5 --k 3", 3)])
def test_a_share_that_is_given_counts_more_than_a_number_of_the_preset(
    words: str, k: object, monkeypatch: pytest.MonkeyPatch
) -> None:
    from nesht import cli, presets

    monkeypatch.setitem(presets._CHOSEN, "Hopper", {"ours": {"k": "linear:6:20"}})
    made = cli._parse(["train", "--env", "Hopper-v4", "--steps", "9", *words.split()])
    assert made.options.strategy.k == k


def test_a_policy_is_not_exported_over_itself(cart: Path) -> None:
    before = (cart / "policy.safetensors").read_bytes()
    with pytest.raises(SystemExit):
        main(["export", str(cart), "--format", "npz", "--out", str(cart / "policy.safetensors")])
    assert (cart / "policy.safetensors").read_bytes() == before
