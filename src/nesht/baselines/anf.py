"""Automatic noise filtering for SAC (Grooten et al., 2023): sparse input layers that move what they connect to.

The input layers of the actor and of both critics (whose inputs are observations and actions) have a fixed share of the
weights. From time to time the smallest of them are dropped, and as many new ones grow, at zero, at random places that
were empty: weights that read noise stay small and are dropped, so that connections gather on inputs that matter.
"""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any

import torch
from stable_baselines3 import SAC
from stable_baselines3.sac.policies import SACPolicy
from torch import nn


class SparseLinear(nn.Linear):
    """A linear layer of which only the weights under a mask exist; the others are exactly zero, and stay so.

    A weight off the mask is zero, gets no gradient, and so has no moments: optimisers leave it where it is.
    """

    mask: torch.Tensor
    """Like the weights: 1 where there is one, 0 elsewhere. Saved with them."""

    def __init__(self, inputs: int, outputs: int, sparsity: float):
        super().__init__(inputs, outputs)
        count = self.weight.numel()
        keep = max(1, round((1 - sparsity) * count))
        mask = torch.zeros(count)
        mask[torch.randperm(count)[:keep]] = 1
        self.register_buffer("mask", mask.reshape(self.weight.shape))
        with torch.no_grad():
            self.weight.mul_(self.mask)
        self.weight.register_hook(lambda gradient: gradient * self.mask)

    def rewire(self, drop: float, optimiser: torch.optim.Optimizer) -> None:
        """Drop a share of the weights, the smallest, and grow as many at random where there was none."""
        mask, weight = self.mask.reshape(-1), self.weight.detach().reshape(-1)
        active, empty = torch.nonzero(mask)[:, 0], torch.nonzero(mask == 0)[:, 0]
        count = min(round(drop * len(active)), len(empty))
        gone = active[torch.argsort(weight[active].abs(), stable=True)[:count]]
        grown = empty[torch.randperm(len(empty), device=empty.device)[:count]]
        mask[gone], mask[grown] = 0, 1
        weight[gone] = 0
        for moment in optimiser.state.get(self.weight, {}).values():
            if isinstance(moment, torch.Tensor) and moment.shape == self.weight.shape:
                moment.reshape(-1)[gone] = 0


class ANFPolicy(SACPolicy):
    """SAC's networks with sparse input layers."""

    def __init__(self, *args: Any, input_sparsity: float = 0.8, **kwargs: Any):
        self._sparsity = input_sparsity
        super().__init__(*args, **kwargs)

    def make_actor(self, *args: Any, **kwargs: Any) -> Any:
        """Make the actor; before it gets its optimiser."""
        actor = super().make_actor(*args, **kwargs)
        self._sparsify(actor.latent_pi)
        return actor

    def make_critic(self, *args: Any, **kwargs: Any) -> Any:
        """Make a critic, online or target."""
        critic = super().make_critic(*args, **kwargs)
        for network in critic.q_networks:
            self._sparsify(network)
        return critic

    def _sparsify(self, network: nn.Sequential) -> None:
        first = network[0]
        assert isinstance(first, nn.Linear)
        network[0] = SparseLinear(first.in_features, first.out_features, self._sparsity).to(self.device)

    def _get_constructor_parameters(self) -> dict[str, Any]:
        return {**super()._get_constructor_parameters(), "input_sparsity": self._sparsity}


class ANFSAC(SAC):
    """SAC with automatic noise filtering; saved, loaded and called back like any algorithm of stable-baselines3.

    Args:
        policy: "MlpPolicy".
        env: see `stable_baselines3.SAC`.
        input_sparsity: the share of the input layers' weights that does not exist.
        topology_every: updates between two changes of what the input layers connect to.
        drop: the share of the weights that each change moves.
        options: any option of `stable_baselines3.SAC`.
    """

    policy_aliases = {"MlpPolicy": ANFPolicy}  # noqa: RUF012

    def __init__(
        self,
        policy: str | type[ANFPolicy],
        env: Any,
        *,
        input_sparsity: float = 0.8,
        topology_every: int = 1000,
        drop: float = 0.05,
        policy_kwargs: dict[str, Any] | None = None,
        **options: Any,
    ):
        self.input_sparsity, self.topology_every, self.drop = input_sparsity, topology_every, drop
        kwargs = {**(policy_kwargs or {}), "input_sparsity": input_sparsity}
        super().__init__(policy, env, policy_kwargs=kwargs, **options)

    def train(self, gradient_steps: int, batch_size: int = 64) -> None:
        """Update the networks, and change what they connect to when it is time."""
        for _ in range(gradient_steps):
            super().train(1, batch_size)
            if self._n_updates % self.topology_every == 0:
                self.rewire()

    def rewire(self) -> None:
        """Move connections in all input layers; targets follow."""
        for layer, optimiser in self.sparse_layers():
            layer.rewire(self.drop, optimiser)
        for online, target in zip(self.critic.q_networks, self.critic_target.q_networks, strict=True):
            with torch.no_grad():
                target[0].mask.copy_(online[0].mask)
                target[0].weight.mul_(target[0].mask)

    def sparse_layers(self) -> Iterator[tuple[SparseLinear, torch.optim.Optimizer]]:
        """Yield the input layers with the optimisers of their weights: the actor's, then the critics'."""
        yield self.actor.latent_pi[0], self.actor.optimizer
        for network in self.critic.q_networks:
            yield network[0], self.critic.optimizer
