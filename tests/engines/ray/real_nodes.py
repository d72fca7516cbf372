"""Real Ray: node processes on this machine, which can be added, killed and looked into."""

from __future__ import annotations

import os
import signal
from collections.abc import Iterator
from contextlib import suppress
from pathlib import Path
from typing import Any

import ray
from ray.cluster_utils import Cluster

STORE = 80 * 2**20
"""Bytes of the object store of a node: Ray's least, nearly."""


class Nodes:
    """A cluster whose head does no work."""

    def __init__(self) -> None:
        small = {"object_store_memory": STORE, "include_dashboard": False}
        self._cluster = Cluster(initialize_head=True, head_node_args={"num_cpus": 0, **small})
        self.address = self._cluster.address

    def add(self, cpus: int = 2, **environment: str) -> Any:
        return self._cluster.add_node(num_cpus=cpus, object_store_memory=STORE, env_vars=environment)

    def raylet(self, node: Any) -> int:
        return int(node.all_processes["raylet"][0].process.pid)

    def kill(self, node: Any) -> None:
        """Take a node away at once, as a power cut would."""
        os.kill(self.raylet(node), signal.SIGKILL)
        for pid in self.workers(node):
            _kill(pid)

    def workers(self, node: Any) -> list[int]:
        """Return the actors on a node, by the names that Ray gives to processes."""
        return [
            pid for pid, parent, name in _processes() if parent == self.raylet(node) and name.startswith("ray::Player")
        ]

    def kill_an_actor(self, node: Any) -> bool:
        working = self.workers(node)
        if working:
            _kill(working[0])
        return bool(working)

    def close(self) -> None:
        ray.shutdown()
        self._cluster.shutdown()


def _kill(pid: int) -> None:
    with suppress(ProcessLookupError):
        os.kill(pid, signal.SIGKILL)


def _processes() -> Iterator[tuple[int, int, str]]:
    for folder in Path("/proc").iterdir():
        try:
            name = (folder / "cmdline").read_text()
            parent = int((folder / "stat").read_text().rsplit(")", 1)[1].split()[1])
        except (OSError, ValueError, IndexError):
            continue
        if folder.name.isdigit():
            yield int(folder.name), parent, name
