"""What learners are given to learn from in these tests."""

from __future__ import annotations

from typing import Any

import gymnasium
import numpy as np
import torch
from gymnasium.spaces import Box
from stable_baselines3.common.buffers import RolloutBuffer

from nesht.baselines.batched.actor_critic import Lived
from nesht.baselines.batched.draws import Purpose
from nesht.baselines.batched.exchange import views
from nesht.baselines.batched.learner import Learner
from nesht.baselines.batched.replay import Batch
from nesht.baselines.changes import changed

SEEN, ACTIONS, ROWS, STEPS = 9, 3, 32, 64
SMALL = ["net_arch=[24,16]", "buffer_size=100", f"batch_size={ROWS}"]


class Given:
    """Numbers that were drawn before."""

    def __init__(self, numbers: dict[int, list[torch.Tensor]]):
        self._numbers = numbers

    def normal(self, purpose: int, *shape: int) -> torch.Tensor:
        return torch.stack(self._numbers[purpose])

    uniform = normal


def settings_of(name: str, **more: Any) -> dict[str, Any]:
    """Return the settings of an algorithm with small networks."""
    sparse = ["topology_every=2", "drop=0.2"] if name == "anf-sac" else []
    return {**changed(name, SMALL + sparse), **more}


def read_policy(learner: Any, run: int, state: dict[str, torch.Tensor]) -> None:
    """Give a run of a learner the networks of a policy of stable-baselines3."""
    for name, view in views(learner, run):
        view.copy_(state[name])
    if isinstance(learner, Learner):
        learner.settle()


def batch_for(learner: Learner, seen: Any, action: Any, reward: Any, after: Any, over: Any) -> Batch:
    """Return transitions as a memory would."""
    return Batch(torch.stack([learner.do(learner.see(seen), action), learner.see(after)]), reward, over)


def learn_something(learner: Any, updates: int = 3, rewards: float = 1.0, rows: int = ROWS) -> None:
    """Let a learner learn from random batches."""
    luck = torch.Generator().manual_seed(0)
    device, seen = learner.place.device, learner.shape.seen

    def numbers(*shape: int) -> torch.Tensor:
        return torch.randn(learner.runs, rows, *shape, generator=luck).to(device)

    with learner.place.work():
        for _ in range(updates):
            earned = rewards * numbers()
            over = torch.zeros(learner.runs, rows, device=device)
            batch = batch_for(learner, numbers(seen), numbers(ACTIONS).tanh(), earned, numbers(seen), over)
            drawn = {key: list(numbers(ACTIONS)) for key in (Purpose.ACTION_NOW, Purpose.ACTION_NEXT)}
            learner.update(batch, Given(drawn), policy=True)


class Nothing(gymnasium.Env[np.ndarray, np.ndarray]):
    """Only its spaces count."""

    observation_space = Box(-np.inf, np.inf, (SEEN,), np.float32)
    action_space = Box(-1, 1, (ACTIONS,), np.float32)


def lived(model: Any, luck: np.random.Generator) -> RolloutBuffer:
    """Return a full buffer of steps that the model might have taken."""
    buffer = RolloutBuffer(STEPS, model.observation_space, model.action_space, "cpu", 0.95, 0.99)
    seen = torch.from_numpy(luck.standard_normal((STEPS, SEEN)).astype(np.float32))
    for row in seen:
        with torch.no_grad():
            action, value, density = model.policy(row[None])
        reward, start = luck.standard_normal(1), np.array([luck.random() < 0.1])
        buffer.add(row[None].numpy(), action.numpy(), reward, start, value, density)
    buffer.compute_returns_and_advantage(torch.tensor([0.3]), np.array([False]))
    return buffer


def as_lived(buffers: list[RolloutBuffer]) -> Lived:
    """Return what is in the buffers of all runs."""
    names = ("observations", "actions", "log_probs", "advantages", "returns")
    return Lived(*(torch.from_numpy(np.stack([getattr(buffer, name)[:, 0] for buffer in buffers])) for name in names))
