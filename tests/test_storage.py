"""Files that survive a death at any moment of being written."""

from __future__ import annotations

import os
from pathlib import Path

import pytest

from nesht import storage


class DeathError(BaseException):
    """Stands for a process that ends here."""


@pytest.mark.parametrize("survived", [0, 1, 2])
def test_whenever_the_writer_dies_there_is_a_whole_file_under_the_name(
    tmp_path: Path, survived: int, monkeypatch: pytest.MonkeyPatch
) -> None:
    path, kept = tmp_path / "file", tmp_path / "kept"
    for content in (b"first", b"second"):
        storage.write_file(path, content, keep=kept)
    renames, rename = [], os.replace

    def dying_rename(source: Path, target: Path) -> None:
        if len(renames) == survived:
            raise DeathError
        renames.append(target)
        rename(source, target)

    monkeypatch.setattr(os, "replace", dying_rename)
    if survived < 2:
        with pytest.raises(DeathError):
            storage.write_file(path, b"third", keep=kept)
    else:
        storage.write_file(path, b"third", keep=kept)
    assert path.read_bytes() == (b"third" if survived == 2 else b"second")
    assert kept.read_bytes() == (b"first" if survived == 0 else b"second")
