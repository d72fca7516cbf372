"""Files that cannot be half written and that notice when they were damaged.

Arrays are stored as safetensors, everything else as JSON in the file's metadata, with a SHA-256 digest of both. A file
is written under a temporary name, flushed to the disk and renamed, so that a reader sees the old file or the new one
and nothing in between. Nothing is ever unpickled.
"""

from __future__ import annotations

import hashlib
import json
import os
from collections.abc import Mapping
from contextlib import suppress
from pathlib import Path
from typing import Any

import numpy as np
from safetensors import SafetensorError, safe_open
from safetensors.numpy import save

from nesht.errors import UserError

ENTRY = "nesht"
"""The one entry of a file's metadata."""


class DamagedFileError(UserError):
    """A file that is there but cannot be trusted."""


def allow_open_files(count: int) -> None:
    """Let this process have so many files open, beside a few hundred others, as far as the machine allows it."""
    with suppress(ImportError, ValueError, OSError):  # there is no such limit on Windows, and some cannot be moved
        import resource

        now, most = resource.getrlimit(resource.RLIMIT_NOFILE)
        wanted = count + 512 if most == resource.RLIM_INFINITY else min(count + 512, most)
        if now != resource.RLIM_INFINITY and now < wanted:
            resource.setrlimit(resource.RLIMIT_NOFILE, (wanted, most))


def write_file(path: Path, content: bytes, keep: Path | None = None) -> None:
    """Replace a file by new content, all or nothing; raises OSError and leaves the old file if that fails.

    With `keep`, the old content is copied there just before the new one takes its place: at every moment there is an
    intact file under the name, whenever the process dies.
    """
    temporary = path.with_name(f".{path.name}.writing")
    try:
        with open(temporary, "wb") as file:
            file.write(content)
            file.flush()
            os.fsync(file.fileno())
        if keep is not None and path.exists():
            write_file(keep, path.read_bytes())
        os.replace(temporary, path)
    except BaseException:
        temporary.unlink(missing_ok=True)
        raise
    _flush_folder(path.parent)


def pack_arrays(kind: str, arrays: Mapping[str, np.ndarray], facts: Mapping[str, Any]) -> bytes:
    """Return the bytes of a file of a kind (say "policy") with arrays and JSON-able facts: same input, same bytes."""
    ordered = {name: np.asarray(arrays[name], order="C") for name in sorted(arrays)}
    text = json.dumps(facts, sort_keys=True)
    about = {"kind": kind, "facts": text, "digest": _digest(kind, ordered, text)}
    # One entry only: safetensors writes several in no particular order.
    return bytes(save(ordered, {ENTRY: json.dumps(about)}))


def read_arrays(kind: str, path: Path) -> tuple[dict[str, np.ndarray], dict[str, Any]]:
    """Read a file made by `pack_arrays`; raises DamagedFileError if it is another kind of file or not intact."""
    try:
        with safe_open(path, "numpy") as file:
            about = json.loads((file.metadata() or {}).get(ENTRY, "{}"))
            arrays = {name: file.get_tensor(name) for name in file.keys()}  # noqa: SIM118 (not a dict)
    except FileNotFoundError:
        raise
    except (SafetensorError, OSError, ValueError) as error:
        raise DamagedFileError(f"{path} is not a nesht {kind} file or is damaged ({error}).") from error
    if not isinstance(about, dict) or about.get("kind") != kind:
        raise DamagedFileError(f"{path} is not a nesht {kind} file.")
    if about.get("digest") != _digest(kind, arrays, about.get("facts", "")):
        raise DamagedFileError(f"{path} is damaged: its content does not match its digest.")
    return arrays, json.loads(about["facts"])


def _digest(kind: str, arrays: Mapping[str, np.ndarray], facts: str) -> str:
    digest = hashlib.sha256(f"{kind}\n{facts}".encode())
    for name in sorted(arrays):
        array = arrays[name]
        digest.update(f"\n{name} {array.dtype.str} {array.shape}\n".encode())
        digest.update(np.ascontiguousarray(array).tobytes())
    return digest.hexdigest()


def _flush_folder(folder: Path) -> None:
    """Make a rename survive a power cut; not every system can open a folder."""
    try:
        handle = os.open(folder, os.O_RDONLY)
    except OSError:
        return
    try:
        os.fsync(handle)
    finally:
        os.close(handle)
