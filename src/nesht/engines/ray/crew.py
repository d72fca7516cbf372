"""The actors of a run: placed on every node with room, given work as they become free, replaced when they are lost.

A piece of work is a pure function of what it is given: one that was lost with its actor, or takes too long, is given to
another. A result counts once, in the place of its piece.
"""

from __future__ import annotations

import sys
import time
from collections import Counter, deque
from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any

from nesht.engines.ray.actor import Player
from nesht.errors import UserError

TRIES = 5
"""How often a piece of work may be lost, and how many actors in a row may fail to start on a node."""

ROOM = 60.0
"""Seconds to wait for a first actor to be placed, or for a node to come back when none is left."""

LOOK = 1.0
"""Seconds between two looks at which nodes there are."""

Job = tuple[str, tuple[Any, ...]]
"""A method of `Player`, and what to call it with."""


@dataclass(frozen=True)
class Needs:
    """What every actor needs."""

    cpus: int
    gpus: int
    prepare: tuple[Any, ...]
    """What `Player.prepare` is called with."""


@dataclass(eq=False)
class _Hand:
    """An actor and what it does."""

    actor: Any
    node: str
    place: str
    """The address of the node, for people."""
    job: int | None
    """The number of the job it has; None while it prepares or is free."""
    since: float


class Crew:
    """Actors that share out work.

    Args:
        needs: what every actor needs.
        most: how many actors there may be; 0 is as many as fit.
        seconds: how long a piece of work may take.
    """

    def __init__(self, needs: Needs, most: int, seconds: float):
        import ray

        self._ray, self._needs, self._most, self._seconds = ray, needs, most, seconds
        self._remote = ray.remote(num_cpus=needs.cpus, num_gpus=needs.gpus)(Player)
        self._free: list[_Hand] = []
        self._waits: dict[Any, _Hand] = {}
        """Actors that prepare or work, by what they will answer."""
        self._failed: Counter[str] = Counter()
        self._looked = 0.0
        self.lost = 0
        """Pieces of work that were lost and given to another actor."""
        self._start()

    def __len__(self) -> int:
        """How many actors there are, ready or not."""
        return len(self._free) + len(self._waits)

    def _start(self) -> None:
        """Hire, and wait until all are ready that can be placed soon; what is wrong with any of them is an error."""
        if not self._hire():
            needs = f"{self._needs.cpus} CPUs" + (f" and {self._needs.gpus} GPU" if self._needs.gpus else "")
            raise UserError(f"no node of the Ray cluster has room for an actor with {needs}; `ray status` shows them.")
        deadline = time.monotonic() + ROOM
        while not self._free or (self._waits and time.monotonic() < deadline):
            if not self._hire():
                time.sleep(LOOK)
                continue
            for hand, _, error in self._answers(LOOK):
                if error is not None and (self._failed[hand.node] >= TRIES or not self._may_pass(error)):
                    self.close()
                    raise UserError(f"node {hand.place} cannot take part: {_short(error)}") from error
            if not self._free and time.monotonic() > deadline:
                self.close()
                raise UserError(f"no actor was ready within {ROOM:.0f} s; is the Ray cluster full? `ray status` says.")

    def _may_pass(self, error: Exception) -> bool:
        """Whether an actor that did not start may do so if it is tried again."""
        return isinstance(error, self._ray.exceptions.RayError) and "No module named" not in str(error)

    def do(self, jobs: Sequence[Job]) -> list[Any]:
        """Return the results of all jobs, in order."""
        results: list[Any] = [None] * len(jobs)
        waiting, left, tries = deque(range(len(jobs))), len(jobs), Counter[int]()
        self._hire()
        try:
            while left:
                while waiting and self._free:
                    self._give(waiting.popleft(), jobs)
                if not self._waits:
                    self._wait_for_nodes()
                for hand, result, error in self._answers(LOOK):
                    job = hand.job
                    if job is None:  # it is new, or replaces one that was lost
                        if error is not None and not self._may_pass(error):
                            self._failed[hand.node] = TRIES
                            print(f"nesht: node {hand.place} is left out: {_short(error)}", file=sys.stderr)
                    elif error is None:
                        results[job], left, hand.job = result, left - 1, None
                    elif isinstance(error, self._ray.exceptions.RayError):
                        waiting.appendleft(job)
                        self.lost, tries[job] = self.lost + 1, tries[job] + 1
                        if tries[job] >= TRIES:
                            raise UserError(
                                f"the same episodes were lost {TRIES} times, last on node {hand.place}: "
                                f"{_short(error)} Does the environment crash, or take longer than --chunk-seconds?"
                            ) from error
                        self._hire(now=True)
                    else:
                        raise error
        except BaseException:  # also Ctrl-C: what is under way is of no use to anyone
            for hand in self._waits.values():
                self._ray.kill(hand.actor)
            self._waits.clear()
            raise
        return results

    def close(self) -> None:
        """End all actors."""
        for hand in (*self._free, *self._waits.values()):
            self._ray.kill(hand.actor)
        self._free.clear()
        self._waits.clear()

    def _give(self, job: int, jobs: Sequence[Job]) -> None:
        method, arguments = jobs[job]
        hand = self._free.pop()
        hand.job, hand.since = job, time.monotonic()
        self._waits[getattr(hand.actor, method).remote(*arguments)] = hand

    def _answers(self, seconds: float) -> list[tuple[_Hand, Any, Exception | None]]:
        """Wait until somebody answers, or is lost, or the time is over: (who, the result, what went wrong)."""
        ray, found = self._ray, []
        refs = list(self._waits)
        if ray.wait(refs, num_returns=1, timeout=seconds)[0]:
            for ref in ray.wait(refs, num_returns=len(refs), timeout=0)[0]:
                hand = self._waits.pop(ref)
                try:
                    result = ray.get(ref)
                except ray.exceptions.RayError as wrong:
                    # An error of the engine or of the environment is told as it is; all else means that it was lost.
                    cause = getattr(wrong, "cause", None)
                    found.append(self._gone(hand, cause if isinstance(cause, Exception) else wrong))
                else:
                    self._free.append(hand)
                    self._failed.pop(hand.node, None)
                    found.append((hand, result, None))
        for ref in [ref for ref, hand in self._waits.items() if time.monotonic() - hand.since > self._limit(hand)]:
            hand = self._waits.pop(ref)
            late = ray.exceptions.GetTimeoutError(f"no answer within {self._limit(hand):g} s.")
            found.append(self._gone(hand, late))
        return found

    def _limit(self, hand: _Hand) -> float:
        """Return how many seconds an actor may take; to be placed and prepare may take longer than a chunk."""
        return self._seconds if hand.job is not None else max(self._seconds, 2 * ROOM)

    def _gone(self, hand: _Hand, error: Exception) -> tuple[_Hand, Any, Exception | None]:
        """End an actor that failed."""
        full = isinstance(error, self._ray.exceptions.GetTimeoutError)  # of another's work, most likely
        self._failed[hand.node] += hand.job is None and not full
        self._ray.kill(hand.actor)
        return hand, None, error

    def _hire(self, now: bool = False) -> int:
        """Start actors on nodes that have room, unless that was done just now; returns how many there are."""
        if not now and time.monotonic() - self._looked < LOOK:
            return len(self)
        from ray.util.scheduling_strategies import NodeAffinitySchedulingStrategy

        self._looked = time.monotonic()
        there = Counter(hand.node for hand in (*self._free, *self._waits.values()))
        for node in self._ray.nodes():
            name, has = node["NodeID"], node["Resources"]
            if not node["Alive"] or self._failed[name] >= TRIES:
                continue
            room = int(has.get("CPU", 0) // self._needs.cpus)
            if self._needs.gpus:
                room = min(room, int(has.get("GPU", 0) // self._needs.gpus))
            for _ in range(room - there[name]):
                if self._most and len(self) >= self._most:
                    return len(self)
                where = NodeAffinitySchedulingStrategy(name, soft=False)
                actor = self._remote.options(scheduling_strategy=where).remote()
                hand = _Hand(actor, name, node["NodeManagerAddress"], None, time.monotonic())
                self._waits[actor.prepare.remote(*self._needs.prepare)] = hand
        return len(self)

    def _wait_for_nodes(self) -> None:
        """Wait until there is a node with room; raises UserError if none comes."""
        deadline = time.monotonic() + ROOM
        while not self._hire(now=True):
            if time.monotonic() > deadline:
                raise UserError("no node of the Ray cluster is left to work on.")
            time.sleep(LOOK)


def _short(error: Exception) -> str:
    text = " ".join(str(error).split())
    return text if len(text) < 400 else f"{text[:200]} ... {text[-200:]}"
