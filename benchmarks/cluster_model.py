"""What a generation would take on clusters that we do not have, from what single acts of the driver take here.

Episodes run on all cores at a time, and handing them out goes on beside them. Then all wait for the driver: theta goes
out to every node, the gradient is summed up (by actors, if it is big) and its parts come home, the update is made.
"""

from __future__ import annotations

import math
from typing import Any

from nesht.engines.ray.engine import BIG as SUMMED_BY_ACTORS
from nesht.engines.ray.engine import FILL, PARTS, SHARE

CORES = (500, 1440, 10_000)
BIG = 1_000_000
"""Parameters of the big policy."""
NETWORK = 1e9
"""Assumed bytes per second into and out of the driver's machine."""
PER_NODE = 32
"""Assumed cores of a node."""
STEPS = 1000
"""Assumed steps of an episode."""
MEMBERS = 8
"""Assumed members per core."""


def assumptions(per_core: float) -> dict[str, Any]:
    """Return what the model takes for granted; the speed of a core was measured."""
    return {
        "steps/s of a core": per_core,
        "steps of an episode": STEPS,
        "members per core": MEMBERS,
        "cores of a node": PER_NODE,
        "bytes/s of the driver's network": NETWORK,
    }


def model(costs: dict[str, Any], per_core: float, d: int) -> list[dict[str, Any]]:
    """Return what a generation of policies with d parameters would take, with actors of one thread and of a node."""
    return [_generation(costs, per_core, d, cores, threads) for cores in CORES for threads in (1, PER_NODE)]


def limit(costs: dict[str, Any], per_core: float, d: int, threads: int) -> int:
    """Return the number of cores from which on the driver takes longer than the episodes, in steps of a node."""
    cores = PER_NODE
    while (
        not _generation(costs, per_core, d, cores, threads)["the driver is the bottleneck"]
        and cores < 100 * PER_NODE**2
    ):
        cores += PER_NODE
    return cores


def _generation(costs: dict[str, Any], per_core: float, d: int, cores: int, threads: int) -> dict[str, Any]:
    actors, n = math.ceil(cores / threads), MEMBERS * cores
    episodes = MEMBERS * STEPS / per_core
    each = n / actors
    chunks = n / 2 ** int(math.log2(max(1.0, each / SHARE, min(each, FILL["batch"] * threads))))
    look = max(seconds / count for count, seconds in costs["seconds to look at n answers"].items())
    numbers = n // 2 * d
    big = numbers >= SUMMED_BY_ACTORS
    draws = numbers * costs["seconds per random number"] / (min(PARTS, actors) if big else 1)
    parts = {
        # A busy driver finds many answers at every look, so that looking at all of them costs each one its share.
        "handing out": chunks * (costs["seconds per chunk"] + 2 * look) + n * costs["seconds per episode"],
        "theta out": math.ceil(cores / PER_NODE) * 8 * d / NETWORK,
        "gradient": draws + (PARTS * d * (8 / NETWORK + costs["seconds per number added"]) if big else 0.0),
        "update": d * costs["seconds per number of an update"],
    }
    alone = sum(parts.values()) - parts["handing out"]
    return {
        "cores": cores,
        "threads per actor": threads,
        "n": n,
        "d": d,
        "seconds": {"episodes": round(episodes, 3), **{name: round(value, 4) for name, value in parts.items()}},
        "efficiency": round(episodes / (max(episodes, parts["handing out"]) + alone), 3),
        "largest part of the driver": max(parts, key=lambda name: parts[name]),
        "the driver is the bottleneck": bool(max(parts["handing out"], alone) > episodes),
    }
