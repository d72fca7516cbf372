"""Settings that a user changes: read from text, and checked before anything is trained."""

from __future__ import annotations

import ast
import inspect
from collections.abc import Callable
from importlib.util import find_spec
from typing import Any

from nesht.baselines.settings import Settings, algorithm, settings_for
from nesht.errors import UserError, near_matches

OURS = ("policy", "env", "seed", "device", "policy_kwargs", "tensorboard_log", "_init_setup_model", "options")
"""Arguments of an algorithm that are not for users."""
OTHERS = ("use_sde", "sde_sample_freq", "replay_buffer_class", "replay_buffer_kwargs")
"""Those that make another kind of policy or memory, which could not be written down."""


def _at_least_one(value: Any) -> bool:
    return isinstance(value, int) and value >= 1


RULES: dict[str, tuple[tuple[str, ...], Callable[[Any], bool]]] = {
    "a whole number of at least 1": (
        (
            *("batch_size", "buffer_size", "n_envs", "n_steps", "n_epochs", "cg_max_steps", "n_critic_updates"),
            *("sub_sampling_factor", "topology_every"),
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
        value, more = _read(text), [] if key in settings else _arguments(name)
        if not equals or key not in (*settings, *more):
            known = ", ".join(f"{known}={value}".replace(" ", "") for known, value in settings.items())
            hint = near_matches(key, [*settings, *more]) if equals else ""
            raise UserError(
                f"--settings takes name=value with a setting of {name}; got {change!r}.{hint} It has {known}."
            )
        if key not in settings:
            settings[key] = value
        elif isinstance(settings[key], int) and isinstance(value, float) and value.is_integer():
            settings[key] = int(value)  # 1e5
        elif _is_like(settings[key], value) or (key == "ent_coef" and str(value).startswith("auto")):
            settings[key] = value
        else:
            raise UserError(f"{key} must be like {settings[key]!r}, got {text!r}.")
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
    if isinstance(known, float) and type(value) is int:
        return True
    if isinstance(known, str):
        return isinstance(value, int | float) and not isinstance(value, bool)  # ent_coef
    return type(value) is type(known)


def _arguments(name: str) -> list[str]:
    """Return the arguments of an algorithm, if it is installed."""
    if find_spec("stable_baselines3") is None or find_spec("sb3_contrib") is None:
        return []
    kinds = map(algorithm, ("anf-sac", "sac") if name == "anf-sac" else (name,))
    found = [each for kind in kinds for each in inspect.signature(kind).parameters]
    return [each for each in found if each not in (*OURS, *OTHERS)]
