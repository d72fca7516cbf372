"""Threads that share the episodes of an engine."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from concurrent.futures import Future
from typing import Any


def wait_for(futures: Sequence[Future[Any]], stop: Callable[[], None]) -> None:
    """Return when all are done; if one fails, or on Ctrl-C, `stop` the others: nothing goes on behind our back."""
    try:
        for future in futures:
            future.result()
    except BaseException:
        stop()
        for future in futures:
            future.exception()
        raise
