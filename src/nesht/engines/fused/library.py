"""Warp itself: whether this machine can use it and where, its import without greetings, and loading kernels."""

from __future__ import annotations

import os
import sys
import threading
from collections.abc import Iterator
from contextlib import contextmanager
from functools import cache
from importlib.util import find_spec
from typing import Any

from nesht.errors import UserError

PATIENCE = 0.7
"""Seconds after which a kernel that is being loaded is reported as being compiled."""


def check_device(device: str) -> str:
    """Return "cpu" or "cuda" for what was asked for; raises UserError if this machine cannot do that."""
    if find_spec("warp") is None:
        raise UserError("the fused engine needs `pip install 'nesht[fused]'`; --engine batch works without it.")
    cuda = _why_no_cuda() if device != "cpu" else "not asked for"
    if device == "cuda" and cuda is not None:
        raise UserError(f"there is no CUDA device for --device cuda: {cuda}; --device cpu works anywhere.")
    return "cpu" if cuda is not None else "cuda"


def _why_no_cuda() -> str | None:
    """Return why no GPU can be used, or None if one can."""
    if find_spec("torch") is None:
        return "it needs `pip install 'nesht[fused,torch]'`"
    os.environ.setdefault("CUDA_DEVICE_MAX_CONNECTIONS", "32")  # queues to the GPU, read when it is first used
    import torch

    if not torch.backends.cuda.is_built():
        return "this torch was built without CUDA"
    if not torch.cuda.is_available():
        return "torch finds no GPU or no driver"
    return None if warp().is_cuda_available() else "Warp finds no driver that it can use"


@cache
def warp() -> Any:
    """Import Warp without its greetings."""
    import warp as wp

    with compiling:
        wp.config.log_level = wp.LOG_WARNING
        with _native_silence():
            wp.init()
    return wp


compiling = threading.RLock()
"""Held while kernels are built or compiled: Warp does neither in several threads at a time."""


@contextmanager
def _native_silence() -> Iterator[None]:
    """Keep a library from writing to standard error behind Python's back."""
    sys.stderr.flush()
    saved, nothing = os.dup(2), os.open(os.devnull, os.O_WRONLY)
    try:
        os.dup2(nothing, 2)
        yield
    finally:
        os.dup2(saved, 2)
        os.close(saved)
        os.close(nothing)


def load(kernel: Any, device: str, block: int | None = None) -> None:
    """Compile a kernel, or take it from the cache; says so if that takes a while."""
    wp = warp()
    said = "nesht: compiling kernels (once per robot and machine; a few seconds) ..."
    timer = threading.Timer(PATIENCE, lambda: print(said, file=sys.stderr, flush=True))
    timer.daemon = True
    timer.start()
    try:
        with compiling:
            wp.load_module(kernel.module, device=device, block_dim=block)
    finally:
        timer.cancel()
