"""The way the paper's published code works, written anew: joblib, and a new environment and module for every episode.

Kind to the peer: the environment checker is off, and the worker processes are up and warm before the clock starts.
"""

from __future__ import annotations

import copy
import time
from collections.abc import Callable
from typing import Any

import torch
from joblib import Parallel, delayed
from joblib.externals.loky import get_reusable_executor
from torch import nn

from case import SIGMA, THREADS, Case, Measurement, make_env


def perturbed(policy: nn.Module, direction: torch.Tensor, sign: float) -> nn.Module:
    """Return a copy of the policy with perturbed weights."""
    member = copy.deepcopy(policy)
    nn.utils.vector_to_parameters(
        nn.utils.parameters_to_vector(member.parameters()) + sign * SIGMA * direction, member.parameters()
    )
    return member


def rollout(env_name: str, policy: nn.Module) -> tuple[float, int]:
    """Run one episode; returns its reward and its steps."""
    env = make_env(env_name)
    observation, _ = env.reset()
    total, steps, done = 0.0, 0, False
    with torch.no_grad():
        while not done:
            action = policy(torch.as_tensor(observation, dtype=torch.float32)).numpy()
            observation, reward, terminated, truncated, _ = env.step(action)
            total, steps, done = total + reward, steps + 1, terminated or truncated
    env.close()
    return total, steps


def generation(case: Case, policy: nn.Module, optimiser: torch.optim.Optimizer, parallel: Callable[..., Any]) -> int:
    """Run one generation of NES with centred ranks and Adam; returns its steps."""
    n, size = case.peer_members, nn.utils.parameters_to_vector(policy.parameters()).numel()
    directions = torch.randn(n // 2, size).repeat_interleave(2, dim=0)
    signs = torch.tensor([1.0, -1.0]).repeat(n // 2)
    members = [perturbed(policy, direction, float(sign)) for direction, sign in zip(directions, signs, strict=True)]
    rewards, steps = zip(*parallel(delayed(rollout)(case.env, member) for member in members), strict=True)
    ranks = torch.tensor(rewards).argsort().argsort() / (n - 1) - 0.5
    gradient = (ranks * signs) @ directions / (n * SIGMA)
    optimiser.zero_grad()
    at = 0
    for parameter in policy.parameters():
        parameter.grad = -gradient[at : at + parameter.numel()].view_as(parameter)
        at += parameter.numel()
    optimiser.step()
    return sum(steps)


def measure(case: Case) -> Measurement:
    """Time whole generations until the time is up."""
    env = make_env(case.env)
    policy = nn.Linear(env.observation_space.shape[0], env.action_space.shape[0]).requires_grad_(False)
    parameters = torch.as_tensor(case.raw_parameters(), dtype=torch.float32)
    nn.utils.vector_to_parameters(parameters, policy.parameters())
    optimiser = torch.optim.Adam(policy.parameters(), lr=1e-3)
    with Parallel(n_jobs=THREADS) as parallel:
        parallel(delayed(rollout)(case.env, policy) for _ in range(2 * THREADS))  # starts the processes
        steps, generations, start = 0, 0, time.perf_counter()
        while time.perf_counter() - start < case.seconds:
            steps += generation(case, policy, optimiser, parallel)
            generations += 1
        seconds = time.perf_counter() - start
    get_reusable_executor().shutdown()  # or its processes linger for minutes
    return Measurement(steps, seconds, note=f"{steps / generations / case.peer_members:.0f} steps per episode")
