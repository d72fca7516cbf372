"""Every option of a run, once: the fields here are the Python arguments, the config file's keys and the CLI's flags."""

from __future__ import annotations

import dataclasses
import tomllib
from collections.abc import Callable, Mapping
from dataclasses import dataclass, field, fields
from pathlib import Path
from types import UnionType
from typing import Any, Literal, Union, get_args, get_origin, get_type_hints

import tomli_w

from nesht.errors import UserError, near_matches

RECENT = 10
"""A run's score is the mean of so many last evaluations."""


@dataclass(frozen=True)
class TaskOptions:
    """What is simulated."""

    env: str | Callable[[], Any] = ""
    """Gymnasium id, or module:function naming a factory of your own."""
    noise_ratio: float = 0.0
    """Distractor features of pure noise per real feature (the paper: 5, 10, 20)."""
    reward_keep: float = 1.0
    """Probability with which training sees a step's reward (the paper: 0.1); scores always count every reward."""
    reward_every: int = 0
    """Let training see only every n-th reward instead (0: off)."""
    max_episode_steps: int | None = None
    """End an episode after this many steps (default: the environment's own limit)."""
    screen: tuple[int, ...] = (110, 84)
    """Atari: height and width of the grey screen that the policy sees."""
    frame_skip: int = 4
    """Atari: frames per step; the action is held, the reward summed up."""
    frame_stack: int = 4
    """Atari: how many screens, one per step, the policy sees at a time."""
    noop_max: int = 30
    """Atari: a game begins after up to this many frames of doing nothing, in whole steps, drawn by the key."""
    sticky: float = 0.0
    """Atari: probability with which the last action is repeated instead of the one chosen."""
    life_ends: bool = False
    """Atari: end an episode with the first life that is lost."""


@dataclass(frozen=True)
class PolicyOptions:
    """The shape of the policy."""

    hidden: tuple[int, ...] = ()
    """Widths of the hidden layers; none is a linear policy."""
    bias: bool = True
    """Whether layers have a bias."""
    normalise: bool = False
    """Give features zero mean and unit variance, by running moments, before the policy sees them."""
    virtual_batch_norm: bool = False
    """Atari: normalise both convolutions of every member by what they give on a fixed batch of screens."""


@dataclass(frozen=True)
class StrategyOptions:
    """The evolution strategy and what it cuts."""

    n: int = 256
    """Members per generation."""
    rollouts: int = 1
    """Episodes per member."""
    sigma: float | str = 0.02
    """Standard deviation of the perturbations; a number or kind:start:end (linear, exponential, cosine)."""
    lr: float | str = 0.0032
    """Learning rate; a number or kind:start:end."""
    optimiser: Literal["sgd", "adam"] = "sgd"
    """How the gradient becomes a step."""
    momentum: float = 0.0
    """Momentum of sgd."""
    weight_decay: float = 0.0
    """Parameters shrink by the factor 1 - lr * weight_decay per update."""
    mirrored: bool = True
    """Try perturbations in pairs of opposite sign."""
    shaping: Literal["raw", "standardize", "centered_rank"] = "standardize"
    """How fitness becomes weights."""
    elite: float | str = 1.0
    """Share of the directions that count, those with the best member, in (0, 1]; a number or kind:start:end."""
    explore: float | str = 1.0
    """How far weights that are zero are perturbed, as a share of sigma, in (0, 1]; a number or kind:start:end."""
    focus: int = 0
    """Perturb those of them further whose unit is nearly kept: by its strength over that of the weakest one kept, to
    this power, where that is more than `explore`; 0 is no such thing."""
    step_cost: float | str = 0.0
    """Subtracted from training's reward for every step: 1 cancels a survival bonus of 1; a number or kind:start:end."""
    common_randomness: Literal["none", "pair", "generation"] = "none"
    """Which members meet the same episode randomness (start, distractors, reward mask): none, mirrored pairs, all."""
    sparsifier: Literal["hard", "once", "l1", "soft", "none"] = "hard"
    """What is cut: hard threshold after every update, once at the end, L1 penalty, soft threshold, nothing."""
    beta: float | str = 0.9
    """Fraction of the units a threshold sets to zero, in [0, 1); a number or kind:start:end."""
    k: int | str | None = None
    """Number of units a threshold keeps (all, if there are fewer); overrides beta; a number or kind:start:end."""
    unit: Literal["weight", "feature"] = "feature"
    """What a threshold keeps or drops: single weights (the paper) or whole input features."""
    memory: float = 0.95
    """How much of what is cut survives to the next generation; 0 is the paper's rule."""
    rank_by: Literal["weight", "effect"] = "weight"
    """What a threshold keeps: the largest weights, or those with the largest effect, weight times what the input varies
    by (the same where features are normalised)."""
    scope: str = "all"
    """Which weights a threshold may cut: all, weights (no biases), per-layer, or block names separated by commas."""
    penalty: float = 0.0
    """Strength of the L1 penalty or of the soft threshold."""


@dataclass(frozen=True)
class TrainingOptions:
    """How long to train and how to evaluate."""

    seed: int = 0
    """The same seed gives the same bits, on any number of threads."""
    steps: int | None = None
    """Budget in environment steps (default: 1 million, if no other budget is given)."""
    generations: int | None = None
    """Budget in generations."""
    seconds: float | None = None
    """Budget in wall time; where a run ends then depends on the machine."""
    eval_every: int | None = None
    """Environment steps between evaluations (default: a hundredth of the step budget, else every generation)."""
    eval_episodes: int = 10
    """Episodes per evaluation: every reward counts, nothing is perturbed, steps are not counted."""


@dataclass(frozen=True)
class RuntimeOptions:
    """Where and how the run is computed.

    Threads, slots and checkpoints never change a run's result. `batch` and `gym` agree to the bit; `fused` agrees with
    them in distribution, and with itself to the bit on one kind of device.
    """

    engine: Literal["auto", "fused", "batch", "gym", "atari", "ray"] = "auto"
    """Where episodes run: fused (compiled kernel), batch (C MuJoCo), gym (any Gymnasium environment), atari (ALE), or
    ray (a cluster of one of these)."""
    device: Literal["auto", "cpu", "cuda"] = "auto"
    """Where the fused engine runs, and the networks of the atari engine; auto takes a GPU for fused if there is one."""
    precision: Literal["single", "double"] = "single"
    """Of the fused engine's numbers; double is for comparisons with C MuJoCo."""
    noise: Literal["auto", "marginal", "drawn"] = "auto"
    """How fused makes distractors: each one drawn, or by their exact joint effect on the actions (linear policies)."""
    threads: int = 0
    """Threads (fused on the CPU, batch) or processes (gym); 0 is one per core. With ray: of every actor, 0 is one."""
    slots: int | None = None
    """Simulations in flight, over all threads (batch, atari; default: chosen)."""
    address: str | None = None
    """Ray: the cluster, auto (the one this machine belongs to) or HOST:PORT (default: Ray on this machine alone)."""
    actor_engine: Literal["auto", "fused", "batch", "gym", "atari"] = "auto"
    """Ray: the engine of every actor; with --device cuda each has a GPU."""
    actors: int = 0
    """Ray: how many actors; 0 is as many as the cluster has room for."""
    chunk_seconds: float = 600.0
    """Ray: a chunk of episodes that takes longer counts as lost, and another actor runs it."""
    checkpoint_seconds: float = 15.0
    """Least time between two checkpoints."""
    track: Literal["none", "tensorboard", "wandb", "mlflow"] = "none"
    """Where a run is tracked beside its folder: TensorBoard, Weights & Biases, MLflow (each an extra of its name)."""


@dataclass(frozen=True)
class Config:
    """All options of a run, by section."""

    task: TaskOptions = field(default_factory=TaskOptions)
    policy: PolicyOptions = field(default_factory=PolicyOptions)
    strategy: StrategyOptions = field(default_factory=StrategyOptions)
    training: TrainingOptions = field(default_factory=TrainingOptions)
    runtime: RuntimeOptions = field(default_factory=RuntimeOptions)

    def change(self, **options: Any) -> Config:
        """Return a copy with some options changed, each named by itself: `config.change(beta=0.8, seed=3)`."""
        changes: dict[str, dict[str, Any]] = {}
        for name, value in options.items():
            if name not in SECTION_OF:
                raise UserError(f"unknown option {name!r}.{near_matches(name, SECTION_OF)}")
            changes.setdefault(SECTION_OF[name], {})[name] = tuple(value) if isinstance(value, list) else value
        return dataclasses.replace(
            self, **{name: dataclasses.replace(getattr(self, name), **values) for name, values in changes.items()}
        )

    def sections(self) -> dict[str, dict[str, Any]]:
        """Return the options as plain values, by section, without those that are None; the env as text."""
        plain = {f.name: _plain(getattr(self, f.name)) for f in fields(self)}
        if not is_atari(self.task.env):
            del plain["policy"]["virtual_batch_norm"]
        return {**plain, "task": plain_task(self.task)}

    def identity(self) -> dict[str, Any]:
        """Return all that may change a result, but for the seed: not where it is computed."""
        sections = self.change(seed=0).sections()
        for name in NEWER:
            if getattr(self.strategy, name) == getattr(StrategyOptions, name):
                del sections["strategy"][name]
        return {**sections, "runtime": {name: sections["runtime"][name] for name in OF_RESULTS}}

    def to_toml(self) -> str:
        """Return the options as a config file."""
        return tomli_w.dumps(self.sections())


OF_RESULTS = ("precision", "noise")
"""Options of where a run is computed that change its result."""

NEWER = ("rank_by", "focus")
"""Options of a strategy that do not count where they change nothing: results from before they existed are the same."""

ATARI = ("screen", "frame_skip", "frame_stack", "noop_max", "sticky", "life_ends")
"""The options of a task that only Atari games have."""


def is_atari(env: Any) -> bool:
    """Whether an environment is named like one of ALE's: `ALE/Qbert-v5`."""
    return isinstance(env, str) and env.startswith("ALE/")


def plain_task(task: TaskOptions) -> dict[str, Any]:
    """Return the options of a task as plain values, without those that say nothing; the env as text."""
    plain, env = _plain(task), task.env
    if not isinstance(env, str):
        plain["env"] = f"{env.__module__}:{getattr(env, '__qualname__', type(env).__name__)}"
    return {name: value for name, value in plain.items() if name not in ATARI or is_atari(env)}


SECTION_OF = {
    option.name: section.name
    for section in fields(Config)
    for option in fields(section.default_factory)  # type: ignore[arg-type]
}
"""The section that each option belongs to."""


def read_options(path: Path) -> dict[str, Any]:
    """Read a config file: the options in it, without their sections."""
    try:
        content = tomllib.loads(path.read_text())
    except FileNotFoundError:
        raise UserError(f"there is no config file {path}.") from None
    except (OSError, tomllib.TOMLDecodeError, UnicodeDecodeError) as error:
        raise UserError(f"cannot read the config file {path}: {error}.") from error
    if isinstance(name := content.get("algorithm"), str):
        raise UserError(f"{path} is that of a reinforcement learner: train it (again) with nesht baseline {name}.")
    options: dict[str, Any] = {}
    sections = {f.name for f in fields(Config)}
    for name, value in content.items():
        inner = value if isinstance(value, Mapping) else {name: value}
        if isinstance(value, Mapping) and name not in sections:
            raise UserError(f"{path}: unknown section [{name}].{near_matches(name, sections)}")
        for key, setting in inner.items():
            if key not in SECTION_OF or (inner is value and SECTION_OF[key] != name):
                raise UserError(f"{path}: unknown key {key!r}.{near_matches(key, SECTION_OF)}")
            options[key] = setting
    return options


_HINTS = {section.name: get_type_hints(section.default_factory) for section in fields(Config)}


def check_kinds(config: Config) -> None:
    """Check every option against its annotation; raises UserError for the first that does not fit."""
    for section in fields(config):
        options = getattr(config, section.name)
        hints = _HINTS[section.name]
        for option in fields(options):
            value, hint = getattr(options, option.name), hints[option.name]
            if not _fits(value, hint):
                raise UserError(f"{option.name} must be {_words(hint)}, got {value!r}.")


def _fits(value: Any, hint: Any) -> bool:
    origin = get_origin(hint)
    if origin in (Union, UnionType):
        return any(_fits(value, one) for one in get_args(hint))
    if origin is Literal:
        return value in get_args(hint)
    if origin is tuple:
        return isinstance(value, tuple) and all(_fits(item, get_args(hint)[0]) for item in value)
    if origin is not None:
        return callable(value)
    if hint in (int, float):
        return isinstance(value, (int, hint)) and not isinstance(value, bool)
    return isinstance(value, hint)


def _words(hint: Any) -> str:
    origin = get_origin(hint)
    if origin in (Union, UnionType):
        return " or ".join(_words(one) for one in get_args(hint) if one is not type(None))
    if origin is Literal:
        return "one of " + ", ".join(map(str, get_args(hint)))
    if origin is tuple:
        return "a list of whole numbers"
    names = {int: "a whole number", float: "a number", bool: "true or false", str: "text"}
    return names.get(hint, "a function")


def _plain(options: Any) -> dict[str, Any]:
    values = {f.name: getattr(options, f.name) for f in fields(options)}
    return {k: list(v) if isinstance(v, tuple) else v for k, v in values.items() if v is not None}
