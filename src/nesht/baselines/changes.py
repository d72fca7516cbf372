"""Settings that a user changes: read from text, and checked before anything is trained."""

from __future__ import annotations

import ast
import inspect
import math
from collections.abc import Callable
from importlib.util import find_spec
from typing import Any

from nesht.baselines.settings import Settings, algorithm, settings_for
from nesht.errors import UserError, near_matches

OURS = ("policy", "env", "seed", "device", "policy_kwargs", "tensorboard_log", "_init_setup_model", "options")
"""Arguments of an algorithm that are not for users."""
OTHERS = (
    *("use_sde", "sde_sample_freq", "replay_buffer_class", "replay_buffer_kwargs"),
    *("rollout_buffer_class", "rollout_buffer_kwargs", "optimize_memory_usage"),
)
"""Those that make another kind of policy or memory, which could not be written down."""
LEARN_ENTROPY = ("sac", "anf-sac")
"""Those that can find the weight of the entropy themselves."""


def _at_least_one(value: Any) -> bool:
    return type(value) is int and value >= 1


RULES: dict[str, tuple[tuple[str, ...], Callable[[Any], bool]]] = {
    "a whole number of at least 1": (
        (
            *("batch_size", "buffer_size", "n_envs", "n_steps", "n_epochs", "cg_max_steps", "n_critic_updates"),
            *("sub_sampling_factor", "topology_every", "train_freq", "policy_delay"),
        ),
        _at_least_one,
    ),
    "more than 0": (("learning_rate", "clip_range", "max_grad_norm"), lambda value: value > 0),
    "0 or more": (("learning_starts", "action_noise", "weight_decay", "cg_damping"), lambda value: value >= 0),
    "from 0 to 1": (("gamma", "tau", "gae_lambda", "input_sparsity", "drop"), lambda value: 0 <= value <= 1),
    "a list of numbers of units": (("net_arch",), lambda value: all(map(_at_least_one, value))),
    "0 or more, or auto": (("ent_coef",), lambda value: isinstance(value, str) or value >= 0),
}
"""What settings must be."""


def check_settings(settings: Settings) -> None:
    """Raise UserError if a setting makes no sense."""
    for words, (names, fine) in RULES.items():
        for name in names:
            if name in settings and not _keeps(fine, settings[name]):
                raise UserError(f"{name} must be {words}, got {settings[name]!r}.")
    if "input_sparsity" in settings and not settings.get("net_arch"):
        raise UserError("net_arch of anf-sac needs a layer: the first one is sparse.")


def _keeps(rule: Callable[[Any], bool], value: Any) -> bool:
    try:
        return bool(rule(value))
    except TypeError:  # text, say
        return False


def changed(name: str, changes: list[str], env: Any = "") -> Settings:
    """Return the settings of an algorithm on an environment with some changed, each written `name=value`.

    Other arguments of the algorithm, as stable-baselines3 has it, can be set as well.
    """
    settings = dict(settings_for(name, env))
    for change in changes:
        key, equals, text = change.partition("=")
        more = {} if key in settings else _arguments(name)
        known = {**more, **settings}
        if not equals or key not in known:
            hint = near_matches(key, known) if equals else ""
            has = ", ".join(f"{each}={value}".replace(" ", "") for each, value in settings.items())
            others = ", ".join(each for each in more if each not in settings)
            also = f" Of stable-baselines3 also: {others}." if others else ""
            raise UserError(
                f"--settings takes name=value with a setting of {name}; got {change!r}.{hint} It has {has}.{also}"
            )
        value = _read(text)
        if type(known[key]) is int and isinstance(value, float) and value.is_integer():
            value = int(value)  # 1e5
        learnt = key == "ent_coef" and name in LEARN_ENTROPY and str(value).startswith("auto")
        if not (learnt or _is_like(known[key], value)):
            raise UserError(f"{key} must be like {known[key]!r}, got {text!r}.")
        settings[key] = value
    check_settings(settings)
    return settings


def _read(text: str) -> Any:
    if text.lower() in ("true", "false"):
        return text.lower() == "true"
    try:
        value = ast.literal_eval(text)
    except (SyntaxError, ValueError):
        return text
    return list(value) if isinstance(value, tuple) else value


def _is_like(known: Any, value: Any) -> bool:
    """Whether a value may stand in another's place; where that is none or text, a number may."""
    if isinstance(value, float) and not math.isfinite(value):
        return False
    if known is None or isinstance(known, str | float):
        return type(value) in (int, float)
    return type(value) is type(known)


def _arguments(name: str) -> dict[str, Any]:
    """Return the other arguments of an algorithm with their usual values, if it is installed."""
    if find_spec("stable_baselines3") is None or find_spec("sb3_contrib") is None:
        return {}
    kinds = map(algorithm, ("anf-sac", "sac") if name == "anf-sac" else (name,))
    found = {each.name: each.default for kind in kinds for each in inspect.signature(kind).parameters.values()}
    return {each: value for each, value in found.items() if each not in (*OURS, *OTHERS)}
