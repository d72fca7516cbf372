"""Joining a Ray cluster, or starting one on this machine; what is wrong is found in seconds and said in a sentence."""

from __future__ import annotations

import hashlib
import os
import platform
import signal
import socket
import threading
from functools import cache
from importlib.metadata import PackageNotFoundError, version
from importlib.util import find_spec
from pathlib import Path
from typing import Any

import nesht
from nesht.errors import UserError

PATIENCE = 5.0
"""Seconds within which the head of a cluster must answer."""

PACKAGES = {"fused": ("warp-lang",), "atari": ("ale-py", "opencv-python-headless")}
"""What the results of an engine depend on, besides what all of them depend on."""


NONE_HERE = (
    "no Ray is running on this machine to join; start one with `ray start --head`, give --address HOST:PORT, or leave "
    "out --address to use this machine alone."
)


def check_cluster(address: str | None) -> None:
    """Raise UserError unless Ray is installed and, where an address is given, something like Ray answers there."""
    if find_spec("ray") is None:
        raise UserError("a cluster needs `pip install 'nesht[ray]'`, here and on every node.")
    if address is None:
        return
    if (named := _named(address)) != "auto":
        _check_address(named)
    elif (last := _last_cluster()) is not None:
        try:
            _check_address(last)
        except UserError as error:
            raise UserError(NONE_HERE) from error


def _named(address: str) -> str:
    return os.environ.get("RAY_ADDRESS", "auto") if address == "auto" else address


def connect(address: str | None, cpus: int) -> bool:
    """Join the cluster at an address, or start Ray on this machine with at least as many CPUs.

    Returns whether it did; a process that is part of a cluster already stays there.
    """
    check_cluster(address)
    os.environ.setdefault("RAY_ACCEL_ENV_VAR_OVERRIDE_ON_ZERO", "0")  # what Ray will do anyway, without its warning
    import ray

    if ray.is_initialized():
        return False
    where: dict[str, Any] = {"address": "local", "num_cpus": cpus, "include_dashboard": False}
    if address is not None:
        where = {"address": _named(address)}
    before = signal.getsignal(signal.SIGTERM)
    try:
        ray.init(**where, log_to_driver=False, logging_level="error", namespace="nesht")
    except ConnectionError as error:
        raise UserError(NONE_HERE) from error
    except (RuntimeError, ValueError, ray.exceptions.RayError) as error:  # other versions of Ray, or another token
        raise UserError(f"cannot join the Ray cluster at {where['address']}: {_first_lines(error)}") from error
    finally:
        if threading.current_thread() is threading.main_thread():
            signal.signal(signal.SIGTERM, before)  # Ray's own would end the process without saving
    return True


def _check_address(address: str) -> None:
    """Raise UserError unless something that may be Ray answers: Ray itself would try for minutes."""
    host, _, port = address.rpartition(":")
    if not (host and port.isdigit() and int(port) < 2**16 and "/" not in host):
        raise UserError(f"the address of a Ray cluster is auto or HOST:PORT, such as 10.0.0.1:6379; got {address!r}.")
    try:
        with socket.create_connection((host, int(port)), PATIENCE) as line:
            line.settimeout(PATIENCE)
            line.sendall(b"PRI * HTTP/2.0\r\n\r\nSM\r\n\r\n" + bytes([0, 0, 0, 4, 0, 0, 0, 0, 0]))
            speaks = line.recv(9)[3:4] == bytes([4])  # HTTP/2, which Ray speaks, begins with a frame of settings
    except OSError as error:
        why = error.strerror or error
        raise UserError(f"no Ray cluster answers at {address} ({why}); is its head running there?") from error
    if not speaks:
        raise UserError(f"what answers at {address} is not Ray; the port of a head is 6379 unless it was changed.")


def _last_cluster() -> str | None:
    """Return the address that Ray remembers in a file for the last cluster of this machine, which may be gone."""
    file = Path(os.environ.get("RAY_TMPDIR", "/tmp")) / "ray" / "ray_current_cluster"
    return file.read_text().strip() or None if file.exists() else None


def _first_lines(error: Exception) -> str:
    return " ".join(str(error).split())[:400]


def versions(engine: str) -> dict[str, str]:
    """Return what the bits of a result may depend on: the software that an engine uses, and the kind of machine."""
    found = {"python": ".".join(platform.python_version_tuple()[:2]), "machine": platform.machine()}
    found["nesht"] = f"{nesht.__version__} ({_fingerprint()})"
    for name in ("numpy", "mujoco", "gymnasium", *PACKAGES.get(engine, ())):
        try:
            found[name] = version(name)
        except PackageNotFoundError:
            found[name] = "nothing"
    return found


@cache
def _fingerprint() -> str:
    """Return a short text that differs wherever the code of nesht does."""
    files = sorted(Path(nesht.__file__).parent.rglob("*.py"))
    return hashlib.sha256(b"".join(file.read_bytes() for file in files)).hexdigest()[:8]


def difference(theirs: dict[str, str], ours: dict[str, str]) -> str | None:
    """Return in words in what versions differ, or None."""
    found = [f"{name} {theirs.get(name)} and not {ours[name]}" for name in ours if theirs.get(name) != ours[name]]
    return ", ".join(found) or None
