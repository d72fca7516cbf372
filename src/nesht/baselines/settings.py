"""The algorithms and their settings: those of rl-baselines3-zoo for MuJoCo, and of the ANF paper for ANF-SAC.

Every network has two hidden layers and an output layer. `normalise` is not an argument of an algorithm: it says that
observations and rewards go through stable-baselines3's running normaliser in training.
"""

from __future__ import annotations

from importlib import import_module
from importlib.util import find_spec
from typing import Any

from nesht.config import is_atari
from nesht.errors import UserError, near_matches

Settings = dict[str, Any]

OFF_POLICY: Settings = {
    "buffer_size": 1_000_000,
    "gamma": 0.99,
    "tau": 0.005,
    "train_freq": 1,
    "gradient_steps": 1,
    "normalise": False,
}
"""What the off-policy algorithms share: one update per step."""

DETERMINISTIC: Settings = {
    **OFF_POLICY,
    "learning_rate": 1e-3,
    "learning_starts": 10_000,
    "batch_size": 256,
    "action_noise": 0.1,
    "net_arch": [400, 300],
}

SETTINGS: dict[str, Settings] = {
    "td3": DETERMINISTIC,
    "ddpg": DETERMINISTIC,
    "sac": {
        **OFF_POLICY,
        "learning_rate": 3e-4,
        "learning_starts": 10_000,
        "batch_size": 256,
        "ent_coef": "auto",
        "net_arch": [256, 256],
    },
    "anf-sac": {
        **OFF_POLICY,
        "learning_rate": 1e-3,
        "learning_starts": 25_000,
        "batch_size": 100,
        "ent_coef": 0.2,
        "net_arch": [256, 256],
        "weight_decay": 2e-4,
        "input_sparsity": 0.8,
        "topology_every": 1000,
        "drop": 0.05,
    },
    "trpo": {
        "learning_rate": 1e-3,
        "n_steps": 1024,
        "batch_size": 128,
        "gamma": 0.99,
        "gae_lambda": 0.95,
        "cg_max_steps": 25,
        "cg_damping": 0.1,
        "n_critic_updates": 20,
        "sub_sampling_factor": 1,
        "net_arch": [64, 64],
        "normalise": True,
    },
    "ppo": {
        "learning_rate": 3e-4,
        "n_steps": 2048,
        "batch_size": 64,
        "n_epochs": 10,
        "gamma": 0.99,
        "gae_lambda": 0.95,
        "net_arch": [64, 64],
        "normalise": True,
    },
    "a2c": {
        "learning_rate": 7e-4,
        "n_steps": 8,
        "gamma": 0.99,
        "gae_lambda": 0.9,
        "ent_coef": 0.0,
        "vf_coef": 0.5,
        "max_grad_norm": 0.5,
        "net_arch": [64, 64],
        "normalise": True,
    },
}
"""By the name on the command line."""

GAMES: dict[str, Settings] = {
    "a2c": {
        "n_envs": 16,
        "learning_rate": 7e-4,
        "n_steps": 5,
        "gamma": 0.99,
        "gae_lambda": 1.0,
        "ent_coef": 0.01,
        "vf_coef": 0.25,
        "net_arch": [],
        "normalise": False,
    },
    "ppo": {
        "n_envs": 8,
        "learning_rate": 2.5e-4,
        "n_steps": 128,
        "batch_size": 256,
        "n_epochs": 4,
        "gamma": 0.99,
        "gae_lambda": 0.95,
        "clip_range": 0.1,
        "ent_coef": 0.01,
        "vf_coef": 0.5,
        "net_arch": [],
        "normalise": False,
    },
}
"""Those for Atari games, with stable-baselines3's own network for screens; several games are played at once."""


def settings_for(name: str, env: Any) -> Settings:
    """Return the settings of an algorithm on an environment."""
    if not is_atari(env):
        return SETTINGS[name]
    if name not in GAMES:
        raise UserError(f"{name} cannot play games; use one of {', '.join(GAMES)}.")
    return GAMES[name]


WHERE = {
    "td3": "stable_baselines3:TD3",
    "ddpg": "stable_baselines3:DDPG",
    "sac": "stable_baselines3:SAC",
    "ppo": "stable_baselines3:PPO",
    "a2c": "stable_baselines3:A2C",
    "trpo": "sb3_contrib:TRPO",
    "anf-sac": "nesht.baselines.anf:ANFSAC",
}


CONTINUOUS = ("td3", "ddpg", "sac", "anf-sac")
"""Those that cannot choose among discrete actions."""


def check_name(name: str) -> None:
    """Raise UserError unless there is an algorithm of that name."""
    if name not in SETTINGS:
        raise UserError(f"unknown baseline {name!r}.{near_matches(name, SETTINGS)} Use one of {', '.join(SETTINGS)}.")


def check(name: str, device: str) -> None:
    """Raise UserError unless an algorithm of that name can be used here, on that device, with stable-baselines3."""
    check_name(name)
    if any(find_spec(package) is None for package in ("stable_baselines3", "sb3_contrib")):
        raise UserError("baselines need `pip install 'nesht[baselines]'`.")
    if device == "cuda":  # it would take the CPU without a word
        import torch

        if not torch.cuda.is_available():
            raise UserError("there is no CUDA device for --device cuda: torch finds none; --device cpu works anywhere.")


def algorithm(name: str) -> Any:
    """Return the class of an algorithm."""
    module, _, attribute = WHERE[name].partition(":")
    return getattr(import_module(module), attribute)


def make_model(name: str, env: Any, settings: Settings, seed: int, device: str) -> Any:
    """Make the algorithm; `env` is a stable-baselines3 vector environment."""
    import numpy as np
    from stable_baselines3.common.noise import NormalActionNoise

    options = {key: value for key, value in settings.items() if key not in ("normalise", "n_envs")}
    policy: dict[str, Any] = {"net_arch": options.pop("net_arch")}
    if "weight_decay" in options:
        policy["optimizer_kwargs"] = {"weight_decay": options.pop("weight_decay")}
    if "action_noise" in options:
        width = options.pop("action_noise") * np.ones(env.action_space.shape)
        options["action_noise"] = NormalActionNoise(np.zeros_like(width), width)
    network = "CnnPolicy" if len(env.observation_space.shape) == 3 else "MlpPolicy"
    return algorithm(name)(network, env, policy_kwargs=policy, seed=seed, device=device, **options)
