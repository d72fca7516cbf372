"""Counter-based random streams: the only place where a generator of what a run sees is made.

An episode is a pure function of (task, policy parameters, key), and a key is (seed, generation, member, rollout).
The four numbers are packed, without loss, into one 128-bit integer, the *episode seed*. That integer is

- the key of a Philox generator (Salmon et al., 2011), whose counter starts at another place for each purpose, so that
  the perturbations, the distractor noise and the reward mask of one episode never overlap; and
- what a Gymnasium environment gets as `reset(seed=...)`, so that any environment starts the same way on any engine.

Nothing here depends on what was drawn before: any stream can be made again, anywhere, at any time.
"""

from __future__ import annotations

from contextlib import suppress
from enum import IntEnum
from operator import index
from typing import Any

import numpy as np

from nesht.errors import UserError

WORD = 2**32
"""Each of the four parts of a key lies in [0, WORD)."""

EVALUATION = WORD - 1
"""The member number of an evaluation episode: the policy itself, without perturbation."""

AFTER_TRAINING = WORD - 1
"""The generation number of episodes that belong to no training run (`nesht eval`)."""


class Stream(IntEnum):
    """What a stream is used for; each purpose has a disjoint range of the counter."""

    PERTURBATION = 0
    NOISE = 1
    MASK = 2
    PARAMETERS = 3
    RESET = 4
    WAIT = 5
    SETTINGS = 6


def pack(seed: int, generation: int = 0, member: int = 0, rollout: int = 0) -> int:
    """Pack a key into the 128-bit episode seed that stands for it; no two keys share one."""
    key = 0
    for part in map(int, (seed, generation, member, rollout)):
        if not 0 <= part < WORD:
            raise ValueError(f"every part of a key lies in [0, 2**32), got {part}")
        key = key << 32 | part
    return key


def check_seed(seed: Any) -> int:
    """Return a seed that a user gave as a plain number; raises UserError if it is none."""
    with suppress(TypeError):
        if 0 <= (number := index(seed)) < WORD:
            return number
    raise UserError(f"a seed must be a whole number in [0, 2**32), got {seed!r}.")


def unpack(key: int) -> tuple[int, int, int, int]:
    """Return the (seed, generation, member, rollout) that `pack` made an episode seed of."""
    seed, generation, member, rollout = (key >> shift & WORD - 1 for shift in (96, 64, 32, 0))
    return seed, generation, member, rollout


def generator(key: int, stream: Stream) -> np.random.Generator:
    """Return the generator of one stream of a key (any integer; only its lowest 128 bits count)."""
    return np.random.Generator(np.random.Philox(key=key % 2**128, counter=int(stream) << 192))


def reset_generator(key: int) -> np.random.Generator:
    """Return the generator that `reset(seed=key)` gives a Gymnasium environment: resets then agree to the bit."""
    return np.random.Generator(np.random.PCG64(np.random.SeedSequence(key)))


def entropy() -> int:
    """Return fresh 128-bit entropy from the operating system, for environments that are reset without a seed."""
    fresh = np.random.SeedSequence().entropy
    assert isinstance(fresh, int)
    return fresh
