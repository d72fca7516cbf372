"""The ray engine: its speed beside `batch`, what it sends, what the driver needs, and a model of large clusters.

    python benchmarks/cluster.py --out results/cluster.json

Speed is that of whole generations, engine by engine in turns; ratios are medians over them. Bytes are those of what is
really handed to Ray and comes back, once more counted by the kernel between node processes. The driver's time is the
processor time of its process. The model (`cluster_model.py`) knows these measurements and the assumptions it lists.
"""

from __future__ import annotations

import argparse
import json
import os
import pickle
import sys
import time
from collections.abc import Callable, Iterator
from contextlib import ExitStack, contextmanager
from pathlib import Path
from statistics import median
from typing import Any

import numpy as np
import ray
from ray.cluster_utils import Cluster

from cluster_model import BIG, CORES, PER_NODE, assumptions, limit, model
from machine import command, describe, wait_until_quiet
from nesht.config import Config, RuntimeOptions
from nesht.engines import Engine, cores, make_engine
from nesht.engines.ray import engine as ray_engine
from nesht.engines.ray.engine import RayEngine
from nesht.strategy.gradient import combine, in_pairs
from nesht.strategy.perturb import Population
from nesht.training.fleet import Fleet, advance
from nesht.training.setup import Setup, build


def setup_of(**options: Any) -> Setup:
    """Return the parts of a run that never ends."""
    usual = {"env": "Hopper-v4", "noise_ratio": 20, "reward_keep": 0.1, "engine": "batch", "eval_every": 10**9}
    return build(Config().change(**{**usual, "steps": 10**9, "normalise": True, **options}))


@contextmanager
def engine_of(setup: Setup, **options: Any) -> Iterator[Engine]:
    """Make an engine, and end it."""
    made = make_engine(setup.task, setup.policy, RuntimeOptions(**options))
    try:
        yield made
    finally:
        made.close()


def on_ray(actors: int, **options: Any) -> dict[str, Any]:
    """Return the options of the ray engine."""
    return {"engine": "ray", "actor_engine": "batch", "actors": actors, **options}


# Speed


def speed(setup: Setup, counts: list[int], rounds: int) -> dict[str, Any]:
    """Let all engines run the same generations in turns; the ratios are medians over generations."""
    usual, fleet = f"batch, {cores()} threads", Fleet.new(setup, [0])
    found: dict[str, list[float]] = {}
    with ExitStack() as stack:
        engines = {usual: stack.enter_context(engine_of(setup, engine="batch", threads=cores()))}
        engines |= {f"ray, {count} actors": stack.enter_context(engine_of(setup, **on_ray(count))) for count in counts}
        for engine in engines.values():
            advance(fleet, setup, engine)
        for _ in range(5):  # away from the first policies, which fall at once
            fleet, _ = advance(fleet, setup, engines[usual])
        for _ in range(rounds):
            ends = {}
            for name, engine in engines.items():
                began = time.perf_counter()
                ends[name], _ = advance(fleet, setup, engine)
                seconds = time.perf_counter() - began
                found.setdefault(name, []).append(float(ends[name].steps[0] - fleet.steps[0]) / seconds)
            assert len({end.state.theta.tobytes() for end in ends.values()}) == 1
            fleet = ends[usual]
    ratios = {count: np.array(found[f"ray, {count} actors"]) / found[usual] for count in counts}
    return {
        "n": setup.config.strategy.n,
        "steps/s": {name: round(median(values)) for name, values in found.items()},
        "raw": {name: [round(value) for value in values] for name, values in found.items()},
        "ray / batch": {str(count): round(float(np.median(values)), 3) for count, values in ratios.items()},
    }


# Bytes


def size(thing: Any) -> int:
    """Return the bytes of something as it travels; what is in the object store is counted where it is put."""
    if isinstance(thing, ray.ObjectRef):
        return 28
    buffers: list[pickle.PickleBuffer] = []
    return len(pickle.dumps(thing, 5, buffer_callback=buffers.append)) + sum(b.raw().nbytes for b in buffers)


@contextmanager
def counted(engine: RayEngine) -> Iterator[dict[str, int]]:
    """Count what goes out and comes back while the block runs."""
    found, do, put = {"jobs": 0, "results": 0, "shared": 0, "chunks": 0}, engine.crew.do, ray.put

    def counting_do(jobs: Any) -> Any:
        results = do(jobs)
        found["jobs"] += sum(size(argument) for _, arguments in jobs for argument in arguments)
        found["results"] += sum(size(result) for result in results)
        found["chunks"] += len(jobs)
        return results

    def counting_put(value: Any) -> Any:
        found["shared"] += size(value)
        return put(value)

    engine.crew.do, ray.put = counting_do, counting_put  # type: ignore[method-assign]
    try:
        yield found
    finally:
        engine.crew.do, ray.put = do, put  # type: ignore[method-assign]


def loopback() -> int:
    """Return the bytes that went through the loopback device since the machine started."""
    for line in Path("/proc/net/dev").read_text().splitlines():
        name, _, rest = line.partition(":")
        if name.strip() == "lo":
            return int(rest.split()[0])
    return 0


def traffic(populations: list[int]) -> list[dict[str, Any]]:
    """Return what two actors get and send per generation, for populations of several sizes."""
    rows = []
    for n in populations:
        setup = setup_of(n=n, max_episode_steps=3)
        with engine_of(setup, **on_ray(2)) as engine:
            assert isinstance(engine, RayEngine)
            fleet, _ = advance(Fleet.new(setup, [0]), setup, engine)
            idle = _per_second(lambda: time.sleep(2.0))
            generations, before, began = 5, loopback(), time.perf_counter()
            with counted(engine) as found:
                for _ in range(generations):
                    fleet, _ = advance(fleet, setup, engine)
            kernel = (loopback() - before - idle * (time.perf_counter() - began)) / generations
        per = {name: value / generations for name, value in found.items()}
        indices, scalars = 16 * n, 25 * n
        rows.append(
            {
                "n": n,
                "d": setup.policy.size,
                "features": setup.policy.inputs,
                "chunks": per["chunks"],
                "bytes per actor": {
                    "theta and normaliser": round(per["shared"]),
                    "names of episodes": round(per["jobs"] / 2),
                    "results": round(per["results"] / 2),
                    "of these, indices and scalars": round((indices + scalars) / 2),
                    "all else": round(per["shared"] + (per["jobs"] + per["results"] - indices - scalars) / 2),
                },
                "bytes per generation by the kernel": round(kernel),
            }
        )
    return rows


def _per_second(what: Callable[[], Any]) -> float:
    before, began = loopback(), time.perf_counter()
    what()
    return (loopback() - before) / (time.perf_counter() - began)


# The driver


def driver_times() -> dict[str, Any]:
    """Return the driver's processor time per generation against n and d, and per thing that it does."""
    found = []
    for n, hidden in ((256, ()), (1024, ()), (4096, ()), (1024, (64,)), (1024, (512,))):
        setup = setup_of(n=n, max_episode_steps=1, hidden=hidden)
        with engine_of(setup, **on_ray(2)) as engine:
            fleet, _ = advance(Fleet.new(setup, [0]), setup, engine)
            began, generations = time.process_time(), 5
            for _ in range(generations):
                fleet, _ = advance(fleet, setup, engine)
            seconds = (time.process_time() - began) / generations
        found.append({"n": n, "d": setup.policy.size, "driver seconds": round(seconds, 4)})
    return {"per generation": found, **unit_costs()}


def unit_costs() -> dict[str, Any]:
    """Return the seconds of the driver's single acts, from which the model is made."""
    setup, chunks = setup_of(n=2048, max_episode_steps=1), {}
    with engine_of(setup, **on_ray(2)) as engine:
        assert isinstance(engine, RayEngine)
        fleet = Fleet.new(setup, [0])
        for share in (8, 256):
            ray_engine.SHARE, engine._fill = share, 1
            advance(fleet, setup, engine)
            with counted(engine) as counts:
                began = time.process_time()
                advance(fleet, setup, engine)
                seconds = time.process_time() - began
            chunks[counts["chunks"]] = seconds
        ray_engine.SHARE = 8
        (few, quick), (many, slow) = sorted(chunks.items())
        waits = {count: _wait_cost(engine, count) for count in CORES}
    d = 100_000
    population = Population(np.zeros((1, d)), np.ones(1), np.zeros(1, int), np.zeros(1, int), 128, True)
    draw = _seconds(lambda: combine(population, np.ones((1, 64)))) / (64 * d)
    parts = [np.ones((1, BIG)) for _ in range(8)]
    return {
        "seconds per chunk": (slow - quick) / (many - few),
        "seconds per episode": max(0.0, quick - few * (slow - quick) / (many - few)) / setup.config.strategy.n,
        "seconds to look at n answers": waits,
        "seconds per random number": draw,
        "seconds per number added": _seconds(lambda: in_pairs(parts)) / (7 * BIG),
        "seconds per number of an update": _update_cost(d),
    }


def _seconds(what: Callable[[], Any]) -> float:
    times = []
    for _ in range(3):
        began = time.perf_counter()
        what()
        times.append(time.perf_counter() - began)
    return median(times)


def _wait_cost(engine: RayEngine, count: int) -> float:
    """Return the seconds of one look at who has answered, with as many actors: `ray.wait` over so many references."""
    refs = [ray.put(0)]

    @ray.remote(num_cpus=0)
    class Sleeper:
        def sleep(self) -> None:
            time.sleep(60)

    sleeper = Sleeper.remote()
    refs += [sleeper.sleep.remote() for _ in range(count - 1)]
    seconds = _seconds(lambda: ray.wait(refs, num_returns=1, timeout=0))
    ray.kill(sleeper)
    return seconds


def _update_cost(d: int) -> float:
    setup = setup_of(n=4, unit="weight", hidden=(d // 234,))
    fleet, strategy = Fleet.new(setup, [0]), setup.strategy
    population = strategy.ask(fleet.state, np.zeros(1))
    fitness = np.arange(4.0)[None]
    whole = _seconds(lambda: strategy.tell(fleet.state, population, fitness, np.zeros(1)))
    gradient = _seconds(lambda: combine(population, np.ones((1, 2))))
    return max(0.0, whole - gradient) / setup.policy.size


def main() -> None:
    """Measure and print."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--rounds", type=int, default=5)
    parser.add_argument("--members", type=int, default=256)
    parser.add_argument("--patience", type=float, default=60.0, help="seconds to wait for a quiet machine")
    parser.add_argument("--out", type=Path)
    options = parser.parse_args()
    idle = wait_until_quiet(options.patience)
    # Ray's workers would give way to all else on a busy machine.
    os.environ["RAY_worker_niceness"] = "0"  # noqa: SIM112
    small = {"object_store_memory": 200 * 2**20, "include_dashboard": False}
    cluster = Cluster(initialize_head=True, head_node_args={"num_cpus": 0, **small})
    for _ in range(2):
        cluster.add_node(num_cpus=1 + cores(), object_store_memory=200 * 2**20)
    ray.init(address=cluster.address, log_to_driver=False, logging_level="error")
    rates = {}
    for env in ("Hopper-v4", "HalfCheetah-v4"):
        setup = setup_of(env=env, n=options.members, max_episode_steps=100)
        rates[env] = speed(setup, [1, cores()], options.rounds)
        print(env, rates[env]["ray / batch"], file=sys.stderr, flush=True)
    sent = traffic([512, 2048, 8192])
    print("traffic is counted", file=sys.stderr, flush=True)
    costs = driver_times()
    per_core = rates["HalfCheetah-v4"]["steps/s"]["ray, 1 actors"]
    small_d = setup_of(env="HalfCheetah-v4").policy.size
    result = {
        "command": command(),
        **describe(),
        "idle before": round(idle, 2),
        "niceness": os.nice(0),
        "speed": rates,
        "traffic": sent,
        "driver": costs,
        "model": {
            "assumptions": assumptions(per_core),
            "linear policy": model(costs, per_core, small_d),
            "big policy": model(costs, per_core, BIG),
            "cores from which on the driver is the bottleneck": {
                f"{kind}, {threads} threads per actor": limit(costs, per_core, d, threads)
                for kind, d in (("linear policy", small_d), ("big policy", BIG))
                for threads in (1, PER_NODE)
            },
        },
    }
    print(json.dumps(result, indent=1))
    if options.out:
        options.out.write_text(json.dumps(result, indent=1) + "\n")
    ray.shutdown()
    cluster.shutdown()


if __name__ == "__main__":
    main()
