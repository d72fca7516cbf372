"""Environments that go wrong on purpose; nodes import them from this folder."""

from __future__ import annotations

import os
import time
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import gymnasium


class _Strange(gymnasium.Wrapper[Any, Any, Any, Any]):
    def __init__(self, folder: Path, what: str):
        super().__init__(gymnasium.make("Pendulum-v1", max_episode_steps=5))
        self._folder, self._what = folder, what

    def reset(self, **options: Any) -> Any:
        if self._what == "slow":
            time.sleep(0.02)
        elif self._what == "crashes" or self._first():
            if self._what != "hangs once":
                os.abort()
            time.sleep(1000)
        return super().reset(**options)

    def _first(self) -> bool:
        try:
            (self._folder / self._what).touch(exist_ok=False)
        except FileExistsError:
            return False
        return True


@dataclass(frozen=True)
class Strange:
    """A factory of environments that are slow, hang once, crash once, or always crash."""

    folder: Path
    what: str

    def __call__(self) -> gymnasium.Env[Any, Any]:
        return _Strange(self.folder, self.what)
