"""What cannot work is said in a sentence, within seconds and before anything is simulated."""

from __future__ import annotations

import socket
import threading
import time
from importlib import util
from pathlib import Path
from typing import Any

import pytest

import nesht
from nesht.errors import UserError


def refuse(options: dict[str, Any], sentence: str) -> None:
    began = time.monotonic()
    with pytest.raises(UserError, match=sentence):
        nesht.train(env="Hopper-v4", generations=1, progress=False, **options)
    assert time.monotonic() - began < 30  # Ray itself would try for minutes


def free_port() -> int:
    with socket.socket() as line:
        line.bind(("127.0.0.1", 0))
        return int(line.getsockname()[1])


def test_a_wrong_address_is_one_sentence() -> None:
    for address in ("somewhere", "ray://127.0.0.1:10001", "127.0.0.1:99999"):
        refuse({"engine": "ray", "address": address}, "auto or HOST:PORT")
    refuse({"engine": "ray", "address": f"127.0.0.1:{free_port()}"}, "no Ray cluster answers")
    refuse({"engine": "ray", "address": "no-such-host.invalid:6379"}, "no Ray cluster answers")
    refuse({"engine": "batch", "address": "auto"}, "needs --engine ray")
    refuse({"engine": "batch", "actors": 2}, "need --engine ray")


def test_a_cluster_that_is_gone_is_one_sentence(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    (tmp_path / "ray").mkdir()
    (tmp_path / "ray" / "ray_current_cluster").write_text(f"127.0.0.1:{free_port()}")  # Ray's memory of the last one
    monkeypatch.setenv("RAY_TMPDIR", str(tmp_path))
    monkeypatch.delenv("RAY_ADDRESS", raising=False)
    refuse({"engine": "ray", "address": "auto"}, "no Ray is running on this machine")


def test_a_wrong_address_costs_nothing(tmp_path: Path) -> None:
    nesht.train(env="CartPole-v1", n=4, generations=1, engine="gym", threads=1, progress=False, out=tmp_path / "a")
    before = {path.name: path.read_bytes() for path in (tmp_path / "a").iterdir()}
    wrong = {"engine": "ray", "address": f"127.0.0.1:{free_port()}"}
    refuse({**wrong, "out": tmp_path / "a", "overwrite": True}, "no Ray cluster answers")
    refuse({**wrong, "out": tmp_path / "b"}, "no Ray cluster answers")
    with pytest.raises(UserError, match="no Ray cluster answers"):
        nesht.resume(tmp_path / "a", generations=2, **wrong)
    assert {path.name: path.read_bytes() for path in (tmp_path / "a").iterdir()} == before
    assert not (tmp_path / "b").exists()


def test_something_else_at_the_address_is_one_sentence() -> None:
    with socket.create_server(("127.0.0.1", 0)) as server:

        def answer() -> None:
            line, _ = server.accept()
            line.sendall(b"HTTP/1.1 400 Bad Request\r\n\r\n")
            line.close()

        threading.Thread(target=answer, daemon=True).start()
        address = f"127.0.0.1:{server.getsockname()[1]}"
        refuse({"engine": "ray", "address": address}, "is not Ray")


def test_without_the_extra_it_is_one_sentence(monkeypatch: pytest.MonkeyPatch) -> None:
    find = util.find_spec
    monkeypatch.setattr("nesht.engines.ray.cluster.find_spec", lambda name: None if name == "ray" else find(name))
    refuse({"engine": "ray"}, r"nesht\[ray\]")
