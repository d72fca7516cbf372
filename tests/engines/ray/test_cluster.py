"""A cluster of real Ray nodes, some of which are lost on the way; `make cluster`."""

from __future__ import annotations

import json
import os
import random
import shutil
import signal
import subprocess
import sys
import threading
import time
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any

import pytest
import ray
import tomli_w
from real_nodes import Nodes
from strange_environments import Strange

import nesht
from nesht.config import Config, RuntimeOptions
from nesht.engines import make_engine
from nesht.engines.ray import crew as ray_crew
from nesht.engines.ray.cluster import versions
from nesht.engines.ray.engine import RayEngine
from nesht.errors import UserError
from nesht.experiments.cluster import _train
from nesht.experiments.design import Options, cell
from nesht.experiments.runner import run_experiment
from nesht.training.fleet import Fleet, advance
from nesht.training.setup import build

pytestmark = pytest.mark.cluster

SMALL: dict[str, Any] = {
    "env": "Hopper-v4",
    "noise_ratio": 2,
    "reward_keep": 0.3,
    "n": 128,
    "generations": 6,
    "eval_every": 2000,
    "eval_episodes": 2,
    "progress": False,
    "normalise": True,
    "checkpoint_seconds": 0.0,
}
ON_RAY = {"engine": "ray", "actor_engine": "batch"}


@pytest.fixture(scope="module")
def alone(tmp_path_factory: pytest.TempPathFactory) -> bytes:
    """The policy file of a run in one process."""
    return trained(tmp_path_factory.mktemp("alone") / "run", engine="batch", threads=1)


def trained(out: Path, **options: Any) -> bytes:
    nesht.train(out=out, **{**SMALL, **options})
    return (out / "policy.safetensors").read_bytes()


def in_generation(number: int, what: Callable[[], Any]) -> Callable[[Any], None]:
    """Return a callback that does something in the middle of a generation."""

    def callback(rows: Any) -> None:
        if rows[0]["generation"] == number - 1:
            threading.Timer(0.15, what).start()

    return callback


@pytest.mark.parametrize("actors", [1, 2, 4])
def test_any_number_of_actors_gives_the_bits_of_one_process(
    tmp_path: Path, nodes: Nodes, alone: bytes, actors: int
) -> None:
    for _ in range(2):
        nodes.add(cpus=2)
    assert trained(tmp_path / "run", address=nodes.address, actors=actors, **ON_RAY) == alone


def test_an_actor_and_then_a_whole_node_are_killed_in_mid_generation(
    tmp_path: Path, nodes: Nodes, alone: bytes, capfd: pytest.CaptureFixture[str]
) -> None:
    first, second = nodes.add(), nodes.add()
    actor, node = in_generation(2, lambda: nodes.kill_an_actor(first)), in_generation(4, lambda: nodes.kill(second))

    def both(rows: Any) -> None:
        actor(rows)
        node(rows)

    assert trained(tmp_path / "run", address=nodes.address, callback=both, **ON_RAY) == alone
    assert "pieces of work were lost with their actors and run again" in capfd.readouterr().err


def test_a_node_that_joins_is_used(tmp_path: Path, nodes: Nodes, alone: bytes) -> None:
    nodes.add(cpus=1)
    joined: list[Any] = []
    at_work: list[int] = []

    def callback(rows: Any) -> None:
        if rows[0]["generation"] == 1:
            joined.append(nodes.add(cpus=1))
        elif joined:
            time.sleep(1.5)  # longer than between two looks at the nodes
            at_work.append(len(nodes.workers(joined[0])))

    assert trained(tmp_path / "run", address=nodes.address, callback=callback, **ON_RAY) == alone
    assert max(at_work) == 1


def test_with_no_node_left_it_ends_with_a_sentence_and_goes_on_later(
    tmp_path: Path, nodes: Nodes, alone: bytes, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(ray_crew, "ROOM", 5.0)
    only, out = nodes.add(), tmp_path / "run"
    with pytest.raises(UserError, match="no node of the Ray cluster is left"):
        trained(out, address=nodes.address, callback=in_generation(3, lambda: nodes.kill(only)), **ON_RAY)
    monkeypatch.undo()
    nodes.add()
    nesht.resume(out, progress=False)
    assert (out / "policy.safetensors").read_bytes() == alone


def test_a_chunk_that_hangs_is_run_elsewhere(tmp_path: Path, nodes: Nodes) -> None:
    nodes.add()
    options = {"env": Strange(tmp_path, "hangs once"), "max_episode_steps": 5, "n": 16, "generations": 2}
    began = time.monotonic()
    ours = trained(tmp_path / "ray", address=nodes.address, engine="ray", chunk_seconds=10.0, **options)
    assert (tmp_path / "hangs once").exists()
    assert 10 < time.monotonic() - began < 60
    assert trained(tmp_path / "alone", engine="gym", threads=1, **options) == ours


def test_an_environment_that_always_crashes_ends_the_run_and_what_was_trained_is_saved(
    tmp_path: Path, nodes: Nodes
) -> None:
    nodes.add()
    with pytest.raises(UserError, match="the same episodes were lost 5 times"):
        trained(tmp_path / "run", address=nodes.address, engine="ray", env=Strange(tmp_path, "crashes"))
    assert (tmp_path / "run" / "checkpoint.safetensors").exists()


def test_games_give_the_same_bits(tmp_path: Path, nodes: Nodes) -> None:
    nodes.add()
    options: dict[str, Any] = {"env": "ALE/Qbert-v5", "max_episode_steps": 8, "noise_ratio": 0, "reward_keep": 1.0}
    options |= {"n": 4, "normalise": False, "generations": 2}
    ours = trained(tmp_path / "ray", address=nodes.address, engine="ray", **options)
    assert ours == trained(tmp_path / "alone", engine="atari", threads=1, **options)


# Nodes that cannot take part


def fake_package(folder: Path, name: str, version: str) -> None:
    """Make Python believe, where the folder is on its path, that another version of a package is installed."""
    info = folder / f"{name}-{version}.dist-info"
    info.mkdir(parents=True)
    (info / "METADATA").write_text(f"Metadata-Version: 2.1\nName: {name}\nVersion: {version}\n")


def refused(nodes: Nodes, sentence: str) -> None:
    began = time.monotonic()
    with pytest.raises(UserError, match=sentence):
        nesht.train(**SMALL, **ON_RAY, address=nodes.address)
    assert time.monotonic() - began < 30


def test_a_node_with_another_version_is_refused(tmp_path: Path, nodes: Nodes) -> None:
    fake_package(tmp_path, "numpy", "1.26.0")
    nodes.add()
    nodes.add(PYTHONPATH=str(tmp_path))
    refused(nodes, r"node \S+ cannot take part: it has numpy 1.26.0 and not \S+; install the same versions")


def test_a_node_with_other_code_is_refused(tmp_path: Path, nodes: Nodes) -> None:
    package = Path(nesht.__file__).parent
    shutil.copytree(package, tmp_path / "nesht")
    (tmp_path / "nesht" / "keys.py").write_text((package / "keys.py").read_text() + "# changed\n")
    nodes.add(PYTHONPATH=str(tmp_path))
    refused(nodes, r"it has nesht \S+ \(\w+\) and not")


def test_a_node_without_nesht_is_refused(tmp_path: Path, nodes: Nodes) -> None:
    (tmp_path / "nesht.py").write_text("raise ModuleNotFoundError(\"No module named 'nesht'\")\n")
    nodes.add(PYTHONPATH=str(tmp_path))
    refused(nodes, "No module named 'nesht'")


def test_a_bad_node_that_joins_a_good_run_is_left_out(
    tmp_path: Path, nodes: Nodes, alone: bytes, capfd: pytest.CaptureFixture[str]
) -> None:
    fake_package(tmp_path / "other", "numpy", "1.26.0")
    nodes.add(cpus=1)

    def callback(rows: Any) -> None:
        if rows[0]["generation"] == 1:
            nodes.add(PYTHONPATH=str(tmp_path / "other"))
        time.sleep(1.5)

    assert trained(tmp_path / "run", address=nodes.address, callback=callback, **ON_RAY) == alone
    assert "is left out: it has numpy 1.26.0" in capfd.readouterr().err


# The driver


SCRIPT = "import json, sys, nesht; nesht.train(out=sys.argv[1], **json.loads(sys.argv[2]))"


@pytest.mark.parametrize("how", [signal.SIGKILL, signal.SIGINT])
def test_a_driver_that_is_killed_goes_on_from_its_checkpoint(
    tmp_path: Path, nodes: Nodes, alone: bytes, how: signal.Signals
) -> None:
    node, out = nodes.add(), tmp_path / "run"
    options = json.dumps({**SMALL, **ON_RAY, "address": nodes.address})
    driver = subprocess.Popen([sys.executable, "-c", SCRIPT, str(out), options], stderr=subprocess.DEVNULL)
    while not (out / "metrics.jsonl").exists() or (out / "metrics.jsonl").read_text().count("\n") < 2:
        assert driver.poll() is None
        time.sleep(0.01)
    driver.send_signal(how)
    driver.wait(60)
    assert not (out / "summary.json").exists()
    deadline = time.monotonic() + 30
    while nodes.workers(node):  # actors end with their driver
        assert time.monotonic() < deadline
        time.sleep(0.1)
    nesht.resume(out, progress=False)
    assert (out / "policy.safetensors").read_bytes() == alone


# A long run


@contextmanager
def engine(options: RuntimeOptions) -> Iterator[tuple[Any, RayEngine]]:
    plain = {name: value for name, value in SMALL.items() if name not in ("progress", "generations")}
    setup = build(Config().change(**{**plain, "n": 16, "max_episode_steps": 40, "steps": 10**9}))
    made = make_engine(setup.task, setup.policy, options)
    assert isinstance(made, RayEngine)
    try:
        yield setup, made
    finally:
        made.close()


def memory(pid: int) -> float:
    """Return the resident memory of a process in MiB, 0 if it is gone."""
    try:
        pages = int(Path(f"/proc/{pid}/statm").read_text().split()[1])
    except (OSError, IndexError):
        return 0.0
    return pages * os.sysconf("SC_PAGE_SIZE") / 2**20


def stored() -> float:
    """Return the bytes in all object stores, once Ray's count of them has settled."""
    time.sleep(1.5)
    total, free = ray.cluster_resources(), ray.available_resources()
    return float(total["object_store_memory"] - free["object_store_memory"])


def test_a_hundred_generations_with_random_kills_lose_nothing_and_leak_nothing(nodes: Nodes) -> None:
    lucky = random.Random(0)
    up = [nodes.add(), nodes.add()]
    ray.init(address=nodes.address, log_to_driver=False, logging_level="error")
    driver, actors, objects = [], [], {}
    with engine(RuntimeOptions("ray", actor_engine="batch")) as (setup, made):
        fleet = Fleet.new(setup, [0])
        for generation in range(100):
            if lucky.random() < 0.2:
                threading.Timer(0.02, nodes.kill_an_actor, [lucky.choice(up)]).start()
            if generation in (30, 60):
                threading.Timer(0.02, nodes.kill, [up.pop(0)]).start()
                up.append(nodes.add())
            fleet, _ = advance(fleet, setup, made)
            driver.append(memory(os.getpid()))
            actors.append(max((memory(pid) for node in up for pid in nodes.workers(node)), default=0.0))
            if generation in (20, 99):
                objects[generation] = stored()
        lost = made.crew.lost
    local = build(setup.config.change(engine="batch", threads=1))
    alone, expected = local.engine(), Fleet.new(local, [0])
    for _ in range(100):
        expected, _ = advance(expected, local, alone)
    alone.close()
    for name, array in expected.arrays().items():
        if name != "seconds":
            assert fleet.arrays()[name].tobytes() == array.tobytes(), name
    assert lost >= 3  # or nothing was shown
    assert driver[-1] - driver[20] < 20  # MiB
    assert max(actors[50:]) - max(actors[:50]) < 20
    assert objects[99] <= objects[20] + 2**16  # the thetas of all generations would be more
    assert stored() < 2**16


# Experiments


def test_the_runs_of_an_experiment_are_tasks_that_go_on_where_a_node_was_lost(tmp_path: Path, nodes: Nodes) -> None:
    first = nodes.add(cpus=1)
    nodes.add(cpus=1)
    quick = {"engine": "batch", "n": 16, "max_episode_steps": 40, "eval_episodes": 1, "checkpoint_seconds": 0.0}
    made = cell(Options(("Hopper-v4",), 20_000, "tuned", quick), "Hopper-v4", 2, "ours", {"n": 16})

    def kill_when_begun() -> None:
        while not list((tmp_path / "work").rglob("checkpoint.safetensors")):
            time.sleep(0.05)
        nodes.kill(first)

    threading.Thread(target=kill_when_begun, daemon=True).start()
    ours = run_experiment(
        [made], [0, 1, 2], tmp_path / "out", tmp_path / "work", "t", progress=False, address=nodes.address
    )
    alone = run_experiment([made], [0, 1, 2], tmp_path / "out-alone", tmp_path / "work-alone", "t", progress=False)
    free = ("seconds",)
    assert [{**row, **dict.fromkeys(free)} for row in sorted(ours.runs, key=lambda row: row["seed"])] == [
        {**row, **dict.fromkeys(free)} for row in alone.runs
    ]


def test_nodes_that_do_not_share_the_folders_are_one_sentence(tmp_path: Path, nodes: Nodes) -> None:
    nodes.add(cpus=1)
    made = cell(Options(("Hopper-v4",), 100, "tuned", {"engine": "batch"}), "Hopper-v4", 2, "ours")
    gone = tmp_path / "gone"
    ray.init(address=nodes.address, log_to_driver=False, logging_level="error")
    task = ray.remote(_train).remote([(made.config, gone)], versions(""), sys.path)
    with pytest.raises(UserError, match="does not see the folder"):
        ray.get(task)


# Slurm


def test_the_slurm_script_starts_a_cluster_and_ends_it(tmp_path: Path, alone: bytes) -> None:
    script = Path(__file__).parents[3] / "examples" / "slurm.sh"
    stand_ins = {  # for Slurm's own commands: both nodes are this machine
        "scontrol": "printf 'here\\nthere\\n'",
        "srun": 'while [ "${1#--}" != "$1" ]; do [ "$1" = --nodelist ] && shift; shift; done; exec "$@"',
    }
    for name, line in stand_ins.items():
        (tmp_path / name).write_text(f"#!/bin/bash\n{line}\n")
        (tmp_path / name).chmod(0o755)
    out = tmp_path / "run"
    plain = {name: value for name, value in SMALL.items() if name != "progress"}
    (tmp_path / "options.toml").write_text(tomli_w.dumps({**plain, **ON_RAY, "actors": 3}))
    environment = {
        **os.environ,
        "PATH": f"{tmp_path}:{Path(sys.executable).parent}:{os.environ['PATH']}",
        "SLURM_JOB_NODELIST": "here,there",
        "SLURM_JOB_ID": str(random.randrange(20000)),
        "SLURM_CPUS_PER_TASK": "2",
    }
    words = ["bash", str(script), "train", "--config", str(tmp_path / "options.toml"), "--out", str(out)]
    done = subprocess.run(words, env=environment, capture_output=True, text=True, timeout=120, check=False)
    assert done.returncode == 0, done.stderr
    assert (out / "policy.safetensors").read_bytes() == alone
