"""A tracked run: options, metrics, pictures and the policy arrive in the real tracker, and resuming goes on in it.

Nothing leaves the machine: Weights & Biases is offline, MLflow writes to a database in a folder of the test.
"""

from __future__ import annotations

import json
import struct
import time
from collections.abc import Iterator, Mapping, Sequence
from pathlib import Path
from typing import Any

import pytest

import nesht
from nesht.errors import UserError
from nesht.training import api, trackers
from nesht.training.trackers import NEEDS

OPTIONS: dict[str, Any] = {"env": "CartPole-v1", "n": 4, "generations": 3, "threads": 1, "eval_episodes": 1}
OPTIONS |= {"progress": False, "max_episode_steps": 20}


@pytest.fixture(autouse=True)
def _alone(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.chdir(tmp_path)
    for name, value in {
        "WANDB_MODE": "offline",
        "WANDB_ERROR_REPORTING": "false",
        "WANDB_SILENT": "true",
        "MLFLOW_TRACKING_URI": f"sqlite:///{tmp_path}/tracked.db",
        "MLFLOW_DISABLE_TELEMETRY": "true",
    }.items():
        monkeypatch.setenv(name, value)


def stopped_and_resumed(track: str, out: Path) -> nesht.RunResult:
    """Train a run that is stopped in its second generation, then resumed; returns its result."""

    def stop(rows: Sequence[Mapping[str, Any]]) -> None:
        if rows[0]["generation"] == 1:
            raise KeyboardInterrupt

    with pytest.raises(KeyboardInterrupt):
        nesht.train(out=out, track=track, callback=stop, **OPTIONS)
    if track == "wandb":
        time.sleep(1)  # it names folders by the second, and loses what goes into the second folder of one
    (result,) = nesht.resume(out, progress=False)
    return result


def test_tensorboard_has_it_all(tmp_path: Path) -> None:
    pytest.importorskip("tensorboardX")
    stopped_and_resumed("tensorboard", tmp_path / "run")
    first, second = sorted((tmp_path / "run" / "tensorboard").iterdir(), key=lambda file: file.stat().st_mtime_ns)
    assert b"CartPole-v1" in first.read_bytes()  # the options, once
    assert b"CartPole-v1" not in second.read_bytes()
    for events in (first, second):
        assert b"recent_score" in events.read_bytes()
    for words in (b"figure", b"PNG", b"policy.safetensors"):
        assert words in second.read_bytes()


def test_tensorboard_hides_what_an_overwritten_run_left(tmp_path: Path) -> None:
    proto = pytest.importorskip("tensorboardX.proto.event_pb2")
    for _ in range(2):
        nesht.train(out=tmp_path / "run", track="tensorboard", overwrite=True, **OPTIONS)
    newest = max((tmp_path / "run" / "tensorboard").iterdir(), key=lambda file: file.stat().st_mtime_ns)
    data, at, begun = newest.read_bytes(), 0, []
    while at < len(data):
        length = struct.unpack("<Q", data[at : at + 8])[0]
        event = proto.Event.FromString(data[at + 12 : at + 12 + length])
        if event.session_log.status == proto.SessionLog.START:
            begun.append(event.step)
        at += 16 + length
    assert set(begun) == {0}  # TensorBoard then hides all that came before from step 0 on


def offline_runs(folder: Path) -> Iterator[tuple[str, list[Any]]]:
    """Yield (id, records) of what Weights & Biases wrote: a LevelDB log after a header of 7 bytes."""
    from wandb.proto.wandb_internal_pb2 import Record

    for path in folder.glob("wandb/offline-run-*/*.wandb"):  # in no order
        data, at, whole, found = path.read_bytes(), 7, b"", []
        while at + 7 <= len(data):
            if (left := 32768 - at % 32768) < 7:  # what is too short for a head is empty
                at += left
                continue
            length, kind = struct.unpack("<HB", data[at + 4 : at + 7])
            whole, at = whole + data[at + 7 : at + 7 + length], at + 7 + length
            if kind in (1, 4):  # a whole record, or the last part of one
                found.append(Record.FromString(whole))
                whole = b""
        yield path.stem.removeprefix("run-"), found


def test_weights_and_biases_has_it_all_without_a_network(tmp_path: Path) -> None:
    pytest.importorskip("wandb")
    result = stopped_and_resumed("wandb", tmp_path / "run")
    deadline = time.monotonic() + 30
    while True:  # its service may write the end after we were told of it
        runs = list(offline_runs(tmp_path / "run"))
        ended = [bool(found) and found[-1].WhichOneof("record_type") == "exit" for _, found in runs]
        if all(ended) or time.monotonic() > deadline:
            break
        time.sleep(0.1)
    assert ended == [True, True]
    assert {run for run, _ in runs} == {json.loads((tmp_path / "run" / "tracker.json").read_text())["run"]}
    records = [record for _, found in runs for record in found]
    options = {item.key for record in records for item in record.run.config.update}
    assert options >= {"task", "strategy"}
    rows = [
        {item.key or item.nested_key[0]: json.loads(item.value_json) for item in record.history.item}
        for record in records
        if record.history.item
    ]
    scores = [(row["steps"], row["score"]) for row in rows if "score" in row]
    assert max(scores) == (result.steps, result.evaluations[-1]["score"])
    assert any("figure" in row for row in rows)
    (artifact,) = (record.artifact for record in records if record.artifact.type == "policy")
    assert {entry.path for entry in artifact.manifest.contents} == {"policy.safetensors", "config.toml"}


def test_mlflow_has_it_all(tmp_path: Path) -> None:
    mlflow = pytest.importorskip("mlflow")
    result = stopped_and_resumed("mlflow", tmp_path / "run")
    client = mlflow.MlflowClient()
    (experiment,) = (each for each in client.search_experiments() if each.name == "nesht")
    (run,) = client.search_runs([experiment.experiment_id])
    assert run.info.status == "FINISHED"
    assert run.info.run_name == "run"
    assert run.data.params["task.env"] == "CartPole-v1"
    last = client.get_metric_history(run.info.run_id, "score")[-1]
    assert (last.step, last.value) == (result.steps, result.evaluations[-1]["score"])
    assert {file.path for file in client.list_artifacts(run.info.run_id)} == {
        "policy.safetensors",
        "config.toml",
        "figures",
    }


def test_every_run_of_a_fleet_is_a_tracked_run(tmp_path: Path) -> None:
    mlflow = pytest.importorskip("mlflow")
    nesht.train_fleet([0, 1], out=tmp_path / "fleet", track="mlflow", **OPTIONS)
    client = mlflow.MlflowClient()
    experiment = client.get_experiment_by_name("nesht")
    runs = client.search_runs([experiment.experiment_id])
    assert {run.info.run_name for run in runs} == {"fleet seed-0", "fleet seed-1"}
    assert {run.data.params["training.seed"] for run in runs} == {"0", "1"}


@pytest.mark.parametrize("track", NEEDS)
def test_a_tracker_that_is_not_installed_is_refused_before_anything_happens(
    track: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(trackers, "find_spec", lambda package: None)
    with pytest.raises(UserError, match=rf"pip install 'nesht\[{track}\]'"):
        nesht.train(out=tmp_path / "run", track=track, **OPTIONS)
    assert not (tmp_path / "run").exists()


def test_a_tracker_that_cannot_start_costs_nothing(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    pytest.importorskip("mlflow")
    nesht.train(out=tmp_path / "run", **OPTIONS)
    before = {path.name: path.read_bytes() for path in (tmp_path / "run").iterdir()}
    monkeypatch.setenv("MLFLOW_TRACKING_URI", "nowhere://at/all")
    with pytest.raises(UserError, match="mlflow cannot track"):
        nesht.train(out=tmp_path / "run", track="mlflow", overwrite=True, **OPTIONS)
    assert {path.name: path.read_bytes() for path in (tmp_path / "run").iterdir()} == before


def test_a_tracker_that_fails_on_the_way_does_not_stop_a_run(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    class Broken:
        name = id = "tensorboard"

        def log(self, values: Mapping[str, float], steps: int) -> None:
            raise ConnectionError("the server is gone")

    monkeypatch.setattr(api, "start_tracker", lambda *_: Broken())
    tracked = nesht.train(out=tmp_path / "run", track="tensorboard", **OPTIONS)
    assert capsys.readouterr().err.count("no longer tracked (the server is gone)") == 1
    assert tracked.generations == OPTIONS["generations"]


def test_a_tracked_run_is_the_same_run(tmp_path: Path) -> None:
    pytest.importorskip("tensorboardX")
    plain = nesht.train(out=tmp_path / "plain", **OPTIONS)
    nesht.train(out=tmp_path / "tracked", track="tensorboard", **OPTIONS)
    policies = {(tmp_path / name / "policy.safetensors").read_bytes() for name in ("plain", "tracked")}
    assert len(policies) == 1
    assert plain.steps
