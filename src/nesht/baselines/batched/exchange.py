"""The networks of one run under the names of stable-baselines3, to write and to read."""

from __future__ import annotations

import io
import zipfile
from collections.abc import Iterator

import torch

from nesht.baselines.batched.actor_critic import ActorCritic
from nesht.baselines.batched.anf import ANFSAC
from nesht.baselines.batched.layers import Layers
from nesht.baselines.batched.learner import Learner
from nesht.baselines.batched.sac import SAC
from nesht.baselines.batched.td3 import TD3

Named = Iterator[tuple[str, torch.Tensor]]
"""Names of stable-baselines3 and the numbers of one run in its shapes: views, so that writing to them changes it."""


def views(learner: Learner | ActorCritic, run: int) -> Named:
    """Yield all numbers of a policy of stable-baselines3."""
    if isinstance(learner, ActorCritic):
        yield "log_std", learner.log_std.detach()[run, 0]
        for layers, name, head in ((learner.actor, "policy", "action"), (learner.critic, "value", "value")):
            yield from _layers(layers[:-2], run, f"mlp_extractor.{name}_net")
            yield f"{head}_net.weight", layers[-2].detach()[run].T
            yield f"{head}_net.bias", layers[-1].detach()[run, 0]
        return
    yield from actor_views(learner, learner.actor.layers(), run, "actor")
    if isinstance(learner, TD3):
        yield from actor_views(learner, learner.actor_target.layers(), run, "actor_target")
    for name, networks in (("critic", learner.critic), ("critic_target", learner.critic_target)):
        yield from critic_views(learner, networks.layers(), run, name)
    if isinstance(learner, ANFSAC):
        yield "actor.latent_pi.0.mask", learner.actor_mask[run].T
        for name in ("critic", "critic_target"):
            for critic in range(learner.critics):
                yield f"{name}.qf{critic}.0.mask", learner.critic_mask[critic * learner.runs + run].T


def actor_views(learner: Learner, layers: Layers, run: int, name: str) -> Named:
    """Yield the numbers of an actor, or others in its shapes, like moments."""
    if not isinstance(learner, SAC):
        yield from _layers(layers, run, f"{name}.mu")
        return
    yield from _layers(layers[:-2], run, f"{name}.latent_pi")
    actions = learner.shape.actions
    for part, rows in (("mu", slice(actions)), ("log_std", slice(actions, None))):
        yield f"{name}.{part}.weight", layers[-2].detach()[run].T[rows]
        yield f"{name}.{part}.bias", layers[-1].detach()[run, 0][rows]


def critic_views(learner: Learner, layers: Layers, run: int, name: str) -> Named:
    """Yield the numbers of all critics, or others in their shapes."""
    for critic in range(learner.critics):
        yield from _layers(layers, critic * learner.runs + run, f"{name}.qf{critic}")


def _layers(layers: Layers, network: int, name: str) -> Named:
    for i in range(0, len(layers), 2):  # between them are the ReLUs
        yield f"{name}.{i}.weight", layers[i].detach()[network].T
        yield f"{name}.{i}.bias", layers[i + 1].detach()[network, 0]


def is_finite(learner: Learner | ActorCritic, run: int) -> bool:
    """Whether all numbers of a run's networks are."""
    return all(bool(view.isfinite().all()) for _, view in views(learner, run))


def pack_policy(learner: Learner | ActorCritic, run: int) -> bytes:
    """Return a file that `set_parameters(file, exact_match=False)` of stable-baselines3 reads."""
    weights, packed = io.BytesIO(), io.BytesIO()
    alone = {name: view.clone(memory_format=torch.contiguous_format).cpu() for name, view in views(learner, run)}
    torch.save(alone, weights)
    with zipfile.ZipFile(packed, "w") as file:
        file.writestr(zipfile.ZipInfo("policy.pth"), weights.getvalue())  # without the time: same bits, same file
    return packed.getvalue()
