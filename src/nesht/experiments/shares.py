"""Training many runs in several processes: one Python cannot keep a GPU busy with short episodes."""

from __future__ import annotations

import multiprocessing
import signal
import sys
from collections.abc import Sequence
from dataclasses import dataclass
from importlib.util import find_spec
from pathlib import Path

from nesht.config import Config
from nesht.engines import cores
from nesht.errors import UserError
from nesht.training.api import resume, train_many
from nesht.training.setup import build, kind

MOST = 8
"""Processes at most, unless asked for more."""


@dataclass(frozen=True)
class Job:
    """A run that is to be trained in a folder, or to go on there."""

    config: Config
    place: Path
    begun: bool


def enough(config: Config) -> int:
    """Return how many processes keep the device of a run busy: a CPU is filled by one."""
    on_gpu = build(config).config.runtime.device == "cuda"
    return max(1, min(MOST, cores() // 2)) if on_gpu else 1


def train_jobs(jobs: Sequence[Job], processes: int, progress: bool) -> None:
    """Train all jobs, in `enough` processes if the number is 0; on Ctrl-C every process saves what it has."""
    if not jobs:
        return
    shares = split(jobs, processes or enough(jobs[0].config))
    if len(shares) == 1:
        _train(shares[0], progress)
        return
    if progress:
        print(f"in {len(shares)} processes, of which the first shows its share", file=sys.stderr)
    context = multiprocessing.get_context("spawn")
    workers = [
        context.Process(target=_work, args=(share, len(shares), progress and i == 0)) for i, share in enumerate(shares)
    ]
    try:
        for worker in workers:
            worker.start()
        for worker in workers:
            worker.join()
    except BaseException:  # also Ctrl-C
        for worker in workers:
            if worker.is_alive():
                worker.terminate()
        for worker in workers:
            worker.join()
        raise
    if any(worker.exitcode for worker in workers):
        raise UserError("a part of the runs failed (see above); the same command goes on with what is missing.")


def split(jobs: Sequence[Job], shares: int) -> list[list[Job]]:
    """Deal jobs out to at most so many shares of about the same size; what can advance together stays together."""
    kinds: dict[str, list[Job]] = {}
    for job in jobs:
        kinds.setdefault(kind(job.config), []).append(job)
    dealt: list[list[Job]] = [[] for _ in range(shares)]
    for group in sorted(kinds.values(), key=len, reverse=True):
        min(dealt, key=len).extend(group)
    return [share for share in dealt if share]


def _train(jobs: Sequence[Job], progress: bool) -> None:
    """Go on with what was interrupted, then train what is new."""
    begun, new = [job for job in jobs if job.begun], [job for job in jobs if not job.begun]
    if begun:
        resume([job.place for job in begun], progress=progress)
    if new:
        train_many([job.config for job in new], outs=[job.place for job in new], progress=progress)


def _work(jobs: Sequence[Job], processes: int, progress: bool) -> None:
    """Be one of the processes: a stop comes from the one that started them, once."""
    if find_spec("warp"):
        from nesht.engines.fused.device import Cuda

        Cuda.processes = processes
    signal.signal(signal.SIGINT, signal.SIG_IGN)
    signal.signal(signal.SIGTERM, signal.default_int_handler)
    try:
        _train(jobs, progress)
    except UserError as error:
        print(f"nesht: {error}", file=sys.stderr)
        sys.exit(2)
    except KeyboardInterrupt:
        sys.exit(130)
