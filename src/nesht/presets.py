"""Sets of options to start from: `paper`, the authors' trainer; `reference`, their code for games; `tuned`, ours.

A preset chooses how to train, never what to train on: the environment, its noise and its budget are the user's.
"""

from __future__ import annotations

import tomllib
from collections.abc import Collection
from pathlib import Path
from typing import Any

from nesht.config import is_atari
from nesht.errors import UserError, near_matches

PAPER: dict[str, Any] = {
    "n": 128,
    "sigma": 0.02,
    "lr": 0.01,
    "optimiser": "adam",
    "shaping": "centered_rank",
    "mirrored": False,
    "normalise": False,
    "beta": 0.9,
    "unit": "weight",
    "memory": 0.0,
}
"""Gao et al. (2024): i.i.d. Gaussian directions, centred ranks, Adam, single weights, no memory."""

TUNED: dict[str, Any] = {
    "n": 256,
    "sigma": 0.02,
    "lr": 0.0032,
    "optimiser": "sgd",
    "shaping": "standardize",
    "mirrored": True,
    "normalise": True,
    "beta": 0.9,
    "unit": "feature",
    "memory": 0.95,
}
"""Whole features with memory, plain SGD on standardised fitness."""

_CHOSEN: dict[str, dict[str, dict[str, Any]]] = tomllib.loads((Path(__file__).parent / "tuned.toml").read_text())

TUNED_FOR: dict[str, dict[str, Any]] = {env: methods["ours"] for env, methods in _CHOSEN.items() if "ours" in methods}
"""Where an environment wants something else, by the name before its version."""

SCREENS: dict[str, Any] = {
    "n": 32,
    "sigma": 0.05,
    "lr": 0.003,
    "optimiser": "adam",
    "shaping": "centered_rank",
    "mirrored": True,
    "normalise": False,
    "virtual_batch_norm": True,
    "beta": 0.5,
    "unit": "feature",
    "memory": 0.95,
}
"""For Atari games: the paper's trainer with mirrored sampling, whole read-out inputs and virtual batch normalisation;
and, for budgets of a million steps or so, few members with wide perturbations, as trials with seed 1000 on Qbert and
Atlantis suggest (`results/leads-atari.csv`)."""

REFERENCE: dict[str, Any] = {**PAPER, "scope": "readout.weight", "screen": (84, 84), "frame_skip": 1}
"""The authors' published code, which plays Atari games on smaller screens and skips no frame."""

PRESETS = ("tuned", "paper", "reference")


def tuned_for(env: str, method: str = "ours") -> dict[str, Any]:
    """Return what the search chose for an environment and a method, beyond the tuned preset; nothing if it has not."""
    return dict(_CHOSEN.get(env.partition("-")[0], {}).get(method, {}))


def preset(name: str, env: str, given: Collection[str] = ()) -> dict[str, Any]:
    """Return the options of a preset for an environment, for someone who gives some options himself.

    A number of inputs to keep would override the share that he gives: then it is left out.
    """
    if name == "reference" and not is_atari(env):
        raise UserError("the preset reference is the published code, which plays Atari games only; use --preset paper.")
    if name in ("paper", "reference"):
        readout = {"scope": "readout.weight"} if is_atari(env) else {}
        return dict(REFERENCE) if name == "reference" else {**PAPER, **readout}
    if name == "tuned":
        found = dict(SCREENS) if is_atari(env) else {**TUNED, **tuned_for(env)}
        return {key: value for key, value in found.items() if key != "k" or "beta" not in given}
    raise UserError(f"unknown preset {name!r}.{near_matches(name, PRESETS)} Use one of {', '.join(PRESETS)}.")
