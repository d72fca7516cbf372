"""Which engine runs and where, how a run moves between engines, and that a run on `fused` cannot be lost."""

from __future__ import annotations

import json
import signal
import subprocess
import sys
import time
import tomllib
from importlib.util import find_spec
from pathlib import Path
from typing import Any

import pytest

import nesht
from nesht.engines import choose_device, choose_engine
from nesht.errors import UserError
from nesht.tasks.task import Task

OPTIONS: dict[str, Any] = {
    "env": "Hopper-v4",
    "engine": "fused",
    "device": "cpu",
    "noise_ratio": 2,
    "n": 16,
    "eval_every": 500,
    "eval_episodes": 2,
    "threads": 1,
    "checkpoint_seconds": 0.0,
}


def train(**options: Any) -> nesht.RunResult:
    return nesht.train(progress=False, **{**OPTIONS, **options})


def without(monkeypatch: pytest.MonkeyPatch, package: str, *modules: str) -> None:
    """Let a package look as if it were not installed."""
    for module in modules:
        monkeypatch.setattr(f"{module}.find_spec", lambda name: None if name == package else find_spec(name))


def test_auto_is_fused_where_warp_is_installed_and_batch_where_not(monkeypatch: pytest.MonkeyPatch) -> None:
    assert choose_engine("auto", Task("Hopper-v4")) == "fused"
    assert choose_engine("auto", Task("Pendulum-v1")) == "gym"
    without(monkeypatch, "warp", "nesht.engines")
    assert choose_engine("auto", Task("Hopper-v4")) == "batch"
    assert choose_engine("auto", Task("Pendulum-v1")) == "gym"


def test_fused_without_warp_says_what_to_install(monkeypatch: pytest.MonkeyPatch) -> None:
    without(monkeypatch, "warp", "nesht.engines", "nesht.engines.fused.library")
    with pytest.raises(UserError, match=r"needs `pip install 'nesht\[fused\]'`; --engine batch works without it"):
        train(generations=1)


def test_cuda_without_a_gpu_is_refused_in_one_sentence(monkeypatch: pytest.MonkeyPatch) -> None:
    torch = pytest.importorskip("torch")
    if torch.cuda.is_available():
        pytest.skip("there is a GPU")
    with pytest.raises(
        UserError, match=r"^there is no CUDA device for --device cuda: .*; --device cpu works anywhere\.$"
    ):
        train(device="cuda", generations=1)
    assert choose_device("fused", "auto") == "cpu"
    without(monkeypatch, "torch", "nesht.engines.fused.library")
    with pytest.raises(UserError, match=r"it needs `pip install 'nesht\[fused,torch\]'`"):
        train(device="cuda", generations=1)


@pytest.mark.parametrize(
    ("options", "sentence"),
    [
        ({"engine": "batch", "device": "cuda"}, "the batch engine runs on the CPU; --device cuda needs --engine fused"),
        ({"env": "Pendulum-v1"}, "the fused engine cannot run Pendulum-v1; use --engine gym"),
        ({"noise": "marginal", "hidden": (8,)}, "--noise marginal is exact for linear policies only; .*--noise drawn"),
        ({"engine": "fuzed"}, "engine must be one of auto, fused, batch, gym, atari, ray, got 'fuzed'"),
        ({"device": "gpu"}, "device must be one of auto, cpu, cuda, got 'gpu'"),
        ({"precision": "half"}, "precision must be one of single, double, got 'half'"),
    ],
)
def test_what_cannot_run_is_refused_before_anything_is_written(
    tmp_path: Path, options: dict[str, Any], sentence: str
) -> None:
    with pytest.raises(UserError, match=sentence):
        train(out=tmp_path / "run", generations=1, **options)
    assert not (tmp_path / "run").exists()


def test_the_config_of_a_run_says_where_it_was_computed(tmp_path: Path) -> None:
    if choose_device("fused", "auto") != "cpu":
        pytest.skip("there is a GPU")
    train(out=tmp_path / "run", engine="auto", device="auto", generations=1)
    runtime = tomllib.loads((tmp_path / "run" / "config.toml").read_text())["runtime"]
    assert (runtime["engine"], runtime["device"]) == ("fused", "cpu")


@pytest.mark.parametrize("options", [{}, {"hidden": (8,)}, {"normalise": True}, {"noise": "drawn", "normalise": True}])
@pytest.mark.parametrize(("first", "second"), [("fused", "batch"), ("batch", "fused")])
def test_a_run_moves_from_one_engine_to_the_other(
    tmp_path: Path, first: str, second: str, options: dict[str, Any]
) -> None:
    out = tmp_path / "run"
    device = "cpu" if first == "fused" else "auto"
    before = train(out=out, engine=first, device=device, generations=4, **options)
    after = nesht.resume(out, progress=False, engine=second, generations=6)[0]
    assert after.generations == 6
    assert after.steps > before.steps
    assert (after.policy.parameters != before.policy.parameters).any()
    assert [row["generation"] for row in after.history] == [4, 5]
    runtime = tomllib.loads((out / "config.toml").read_text())["runtime"]
    assert runtime["engine"] == second
    assert len((out / "metrics.jsonl").read_text().splitlines()) == 6


SCRIPT = "import json, sys, nesht; nesht.train(out=sys.argv[1], progress=False, **json.loads(sys.argv[2]))"
LONG = {**OPTIONS, "generations": 300, "normalise": True, "optimiser": "adam", "beta": "linear:0.5:0.9"}


@pytest.fixture(scope="module")
def whole(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """A run that nothing happened to."""
    out = tmp_path_factory.mktemp("runs") / "whole"
    train(out=out, **LONG)
    return out


def wait_for(path: Path, lines: int) -> None:
    deadline = time.monotonic() + 60
    while not path.exists() or path.read_text().count("\n") < lines:
        assert time.monotonic() < deadline, f"{path} never had {lines} lines"
        time.sleep(0.001)


@pytest.mark.parametrize("lines", [1, 12])
def test_killed_and_resumed_ends_with_the_same_bits(tmp_path: Path, whole: Path, lines: int) -> None:
    out = tmp_path / "run"
    process = subprocess.Popen([sys.executable, "-c", SCRIPT, str(out), json.dumps(LONG)], stderr=subprocess.PIPE)
    wait_for(out / "metrics.jsonl", lines)
    process.send_signal(signal.SIGKILL)
    process.communicate()
    assert not (out / "summary.json").exists()  # it was killed on the way
    nesht.resume(out, progress=False, threads=2)
    assert (out / "policy.safetensors").read_bytes() == (whole / "policy.safetensors").read_bytes()
    assert (out / "evaluations.csv").read_text() == (whole / "evaluations.csv").read_text()
