"""The fused engine on whatever device there is: does it compute what MuJoCo computes, and how fast is it?

    python benchmarks/fused.py --device cuda --out results/fused-cuda.json

Builds the kernels, measures the error of one environment step against C MuJoCo, trains a policy per environment, times
its perturbed episodes and a fleet of runs from end to end, and prints a short table beside the `batch` engine.
"""

from __future__ import annotations

import argparse
import json
import os
import subprocess
import time
from pathlib import Path
from typing import Any

import mujoco
import numpy as np
from rich.console import Console
from rich.table import Table

import nesht
from machine import command, describe
from nesht.config import Config, RuntimeOptions
from nesht.engines import Episodes, cores, make_engine
from nesht.engines.fused.engine import FusedEngine
from nesht.engines.fused.library import check_device, warp
from nesht.engines.fused.vector import FusedVectorEnv
from nesht.policies.moments import Moments, Normaliser
from nesht.policies.network import Network
from nesht.presets import preset
from nesht.strategy import Population
from nesht.tasks.imperfect import Distractors, RewardMask
from nesht.tasks.locomotion import LOCOMOTION
from nesht.tasks.quiet import quiet_mujoco
from nesht.tasks.task import Task

ENVS = ("HalfCheetah-v4", "Hopper-v4", "Walker2d-v4")
RATIO, SIGMA, SEED = 10.0, 0.02, 1000
ERRORS = 4096
"""States in which one step is compared with MuJoCo."""


def states(env: str, count: int, rng: np.random.Generator) -> tuple[np.ndarray, np.ndarray]:
    """Return states that a robot meets under random actions of many strengths, contacts and limits included."""
    vector = FusedVectorEnv(env, count, device="cpu" if check_device("auto") == "cpu" else "cuda")
    vector.reset(seed=SEED)
    strength = rng.uniform(0, 2, (count, 1))
    for _ in range(40):
        vector.step(strength * rng.standard_normal(vector.action_space.shape))
    qpos, qvel = vector.state
    vector.close()
    lift = rng.uniform(-0.3, 0.1, count) * (rng.random(count) < 0.5)  # some deep in the floor, some in the air
    qpos[:, 1] += lift
    return qpos.astype(np.float64), qvel.astype(np.float64)


def one_step_error(env: str, device: str, precision: str) -> dict[str, float]:
    """Compare one environment step with C MuJoCo; returns quantiles of the largest error of each state's velocities.

    Errors are relative to 1 + the largest velocity of the state.
    """
    rng, body = np.random.default_rng(0), LOCOMOTION[env]
    model = body.model()
    qpos, qvel = states(env, ERRORS, rng)
    actions = rng.uniform(-1.5, 1.5, (ERRORS, model.nu))
    model.opt.tolerance, model.opt.ls_tolerance, model.opt.iterations = 0.0, 1e-12, 200  # MuJoCo's own optimum
    data, truth = mujoco.MjData(model), np.empty_like(qvel)
    with quiet_mujoco():
        for i in range(ERRORS):
            mujoco.mj_resetData(model, data)
            data.qpos[:], data.qvel[:], data.ctrl[:] = qpos[i], qvel[i], actions[i]
            mujoco.mj_step(model, data, body.frame_skip)
            truth[i] = data.qvel
    vector = FusedVectorEnv(env, ERRORS, device=device, precision=precision, max_episode_steps=10)
    vector.reset(seed=0)
    vector.state = (qpos, qvel)
    _, _, _, _, infos = vector.step(actions)
    final = np.asarray(infos["final_obs"].cpu() if device == "cuda" else infos["final_obs"], np.float64)
    vector.close()
    seen, expected = final[:, model.nq - 1 :], truth
    if body.velocity_clip is not None:
        expected = np.clip(truth, -body.velocity_clip, body.velocity_clip)
    error = np.abs(seen - expected).max(1) / (1 + np.abs(truth).max(1))
    return {name: float(np.quantile(error, q)) for name, q in (("median", 0.5), ("99 %", 0.99), ("max", 1.0))}


def trained(env: str, runtime: dict[str, Any], steps: int) -> Any:
    """Train a policy whose perturbed episodes are then timed."""
    options = {
        **preset("tuned", env),
        "env": env,
        "noise_ratio": RATIO,
        "reward_keep": 0.1,
        "steps": steps,
        "seed": SEED,
    }
    return nesht.train(config=Config().change(**options, **runtime), progress=False)


def perturbed(policy: Any, count: int) -> Episodes:
    """Return the first generation of members around a policy, as many as asked for."""
    population = Population(policy.parameters[None], np.array([SIGMA]), np.array([SEED]), np.array([7]), count, True)
    moments = Moments(*(array[None] for array in (policy.moments.count, policy.moments.mean, policy.moments.m2)))
    member = np.arange(count)
    return Episodes(
        population,
        Normaliser.of(moments) if policy.normalise else None,
        np.zeros(count, np.int64),
        member,
        member,
        np.zeros(count, np.int64),
    )


def task_of(env: str) -> Task:
    return Task(env, Distractors(RATIO), RewardMask(0.1))


def time_episodes(engine: FusedEngine, episodes: Episodes, rounds: int = 3) -> dict[str, float]:
    """Time the perturbed episodes; returns the best of some rounds (the first also loads kernels)."""
    engine.run(episodes)
    best: dict[str, float] = {}
    for _ in range(rounds):
        engine.seconds = dict.fromkeys(engine.seconds, 0.0)
        outcomes = engine.run(episodes)
        steps, kernel = int(outcomes.steps.sum()), engine.seconds["episodes"]
        work = engine._device.get(engine.work)
        work = work[work > 0]
        found = {
            "episodes": len(episodes),
            "kernel steps/s": steps / kernel,
            "run steps/s": steps / sum(engine.seconds.values()),
            "mean steps": steps / len(episodes),
            "threads busy": float(work.sum() / (len(work) * work.max())),
            **{f"seconds {part}": seconds for part, seconds in engine.seconds.items()},
        }
        if found["kernel steps/s"] > best.get("kernel steps/s", 0):
            best = found
    return best


def time_batch(env: str, policy: Any, seconds: float) -> float:
    """Return the steps/s of the batch engine on the same members."""
    engine = make_engine(task_of(env), policy.network, RuntimeOptions("batch"))
    count, start, steps = 16 * cores(), time.perf_counter(), 0
    while time.perf_counter() - start < seconds:
        steps += int(engine.run(perturbed(policy, count)).steps.sum())
    rate = steps / (time.perf_counter() - start)
    engine.close()
    return rate


def time_training(env: str, engine: str, device: str, seeds: int, steps: int) -> float:
    """Return the steps/s of a fleet from start to end, evaluations not counted as steps."""
    options = {**preset("tuned", env), "env": env, "noise_ratio": RATIO, "reward_keep": 0.1, "steps": steps}
    config = Config().change(**options, engine=engine, device=device)
    start = time.perf_counter()
    results = nesht.train_fleet(range(SEED, SEED + seeds), config=config, progress=False)
    return sum(result.steps for result in results) / (time.perf_counter() - start)


def resources() -> list[str]:
    """Return registers and local memory of the compiled episode kernels, as the CUDA tools tell."""
    found = []
    for cubin in sorted(Path(str(warp().config.kernel_cache_dir)).glob("*episodes_*/*.cubin")):
        tool = ["cuobjdump", "-res-usage", str(cubin)]
        done = subprocess.run(tool, capture_output=True, text=True, check=False)
        found += [line.strip() for line in (done.stdout + done.stderr).splitlines() if "REG" in line]
    return found


def scaling(env: str, policy: Any, device: str, most: int) -> list[dict[str, float]]:
    """Time the kernel against the number of episodes in flight."""
    engine = FusedEngine(task_of(env), policy.network, cores(), device)
    rows, count = [], 256
    while count <= most:
        rows.append(time_episodes(engine, perturbed(policy, count), rounds=2))
        count *= 4
    engine.close()
    return rows


def sizes(env: str, device: str, count: int) -> list[dict[str, float]]:
    """Time the kernel against the size of the policy: a linear one, and MLPs, every distractor drawn."""
    rows = []
    for hidden in ((), (8,), (32,), (64, 64)):
        task = task_of(env)
        network = Network(len(task.feature_names), task.outputs, hidden)
        engine = FusedEngine(task, network, cores(), device, noise="drawn")
        parameters = 0.1 * network.initial(0)
        population = Population(parameters[None], np.array([SIGMA]), np.array([SEED]), np.array([7]), count, True)
        member = np.arange(count)
        zeros = np.zeros(count, np.int64)
        row = time_episodes(engine, Episodes(population, None, zeros, member, member, zeros), rounds=1)
        rows.append({"parameters": network.size, **row})
        engine.close()
    return rows


def main() -> None:
    """Measure and report."""
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--device", choices=("auto", "cpu", "cuda"), default="auto")
    parser.add_argument("--env", choices=ENVS, action="append")
    parser.add_argument("--episodes", type=int, help="in flight (default: 33 000 on a GPU, 256 on a CPU)")
    parser.add_argument("--steps", type=int, help="to train (default: 10 million on a GPU, 1 million on a CPU)")
    parser.add_argument("--seeds", type=int, help="runs in a fleet (default: 20 on a GPU, 1 on a CPU)")
    parser.add_argument("--scaling", action="store_true", help="also against episodes in flight and policy size")
    parser.add_argument("--skip", default="", help="parts to leave out, separated by commas: errors, batch, training")
    parser.add_argument("--out", type=Path)
    options = parser.parse_args()
    device = check_device(options.device)
    gpu = device == "cuda"
    warp().config.cuda_output = "cubin"
    count, steps, seeds = (
        given or (large if gpu else small)
        for given, large, small in (
            (options.episodes, 33_792, 256),
            (options.steps, 10_000_000, 1_000_000),
            (options.seeds, 20, 1),
        )
    )
    report: dict[str, Any] = {"command": command(), **describe()}
    if gpu:
        import torch

        report["gpu"] = torch.cuda.get_device_name()
    for env in options.env or ENVS:
        row: dict[str, Any] = {}
        start = time.perf_counter()
        network = Network(len(task_of(env).feature_names), task_of(env).outputs)
        FusedEngine(task_of(env), network, cores(), device).close()
        row["seconds to build"] = time.perf_counter() - start
        if "errors" not in options.skip:
            row["error double"], row["error single"] = (one_step_error(env, device, p) for p in ("double", "single"))
        result = trained(env, {"engine": "fused", "device": device}, steps)
        row["score trained"] = result.score
        engine = FusedEngine(task_of(env), result.policy.network, cores(), device)
        row |= time_episodes(engine, perturbed(result.policy, count))
        engine.close()
        if "training" not in options.skip:
            row["training steps/s"] = time_training(env, "fused", device, seeds, steps)
        if "batch" not in options.skip:
            row["batch steps/s"] = time_batch(env, result.policy, 5.0)
            if not gpu:
                row["batch training steps/s"] = time_training(env, "batch", "cpu", seeds, steps // 5)
        if options.scaling:
            row["scaling"] = scaling(env, result.policy, device, 262_144 if gpu else 1024)
            row["sizes"] = sizes(env, device, 16_384 if gpu else 64)
        report[env] = row
        print(env, json.dumps({k: v for k, v in row.items() if k not in ("scaling", "sizes")}), flush=True)
        if options.out:
            options.out.parent.mkdir(parents=True, exist_ok=True)
            options.out.write_text(json.dumps(report, indent=1) + "\n")
    if gpu:
        report["resources"] = resources()
    show(report)
    if options.out:
        options.out.write_text(json.dumps(report, indent=1) + "\n")


def show(report: dict[str, Any]) -> None:
    """Print the table."""
    table = Table(title=f"fused engine on {report.get('gpu', report['cpu'])}, x{RATIO:g} noise")
    columns = ("kernel steps/s", "run steps/s", "training steps/s", "batch steps/s", "batch training steps/s")
    for name in ("environment", *columns, "threads busy", "error single (99 %)"):
        table.add_column(name, justify="right")
    for env in ENVS:
        if env in report:
            row = report[env]
            cells = [f"{row[name]:,.0f}" if name in row else "" for name in columns]
            error = f"{row['error single']['99 %']:.1e}" if "error single" in row else ""
            table.add_row(env, *cells, f"{row['threads busy']:.0%}", error)
    Console(width=140).print(table)
    for line in report.get("resources", []):
        print(line)
    print(f"{os.cpu_count()} cores")


if __name__ == "__main__":
    main()
