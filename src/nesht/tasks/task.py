"""A task: an environment with its distractors, reward mask and time limit, described before anything is simulated."""

from __future__ import annotations

import importlib
import warnings
from collections.abc import Callable
from dataclasses import dataclass, field, fields
from functools import cache, cached_property
from typing import Any

import gymnasium
import numpy as np
from gymnasium.spaces import Box, Discrete

from nesht.config import TaskOptions, is_atari
from nesht.errors import UserError, near_matches
from nesht.policies.convolution import ConvNet
from nesht.tasks.atari import Game, find_game
from nesht.tasks.imperfect import Distractors, RewardMask, noisy_names, plain_names
from nesht.tasks.locomotion import LOCOMOTION, Locomotion
from nesht.tasks.quiet import quiet_mujoco
from nesht.tasks.wrappers import MaskReward, NoiseFeatures

Factory = Callable[[], gymnasium.Env[Any, Any]]


@dataclass(frozen=True)
class Task:
    """What is simulated; everything an engine needs to know to run an episode of it."""

    env: str | Factory
    """A Gymnasium id, `module:function` naming a factory, or (from Python) the factory itself."""
    distractors: Distractors = field(default_factory=Distractors)
    """Noise features appended to the observation."""
    mask: RewardMask = field(default_factory=RewardMask)
    """Which rewards training gets to see."""
    max_episode_steps: int | None = None
    """Ends an episode after this many steps; None is the environment's own limit."""
    game: Game | None = None
    """The Atari game it is, if it is one."""

    @property
    def name(self) -> str:
        """The environment as text: what a config or a policy file stores."""
        if isinstance(self.env, str):
            return self.env
        return f"{self.env.__module__}:{getattr(self.env, '__qualname__', type(self.env).__name__)}"

    @cached_property
    def locomotion(self) -> Locomotion | None:
        """The array form of the environment, where it has one."""
        return LOCOMOTION.get(self.env) if isinstance(self.env, str) else None

    @property
    def time_limit(self) -> int | None:
        """Steps in a full episode, where that is known."""
        own = self.locomotion.time_limit if self.locomotion else None
        return self.max_episode_steps or own

    @cached_property
    def spaces(self) -> tuple[list[str], int, Discrete | None]:
        """(names of the real features, outputs of a policy, the action space if it is discrete)."""
        if self.locomotion is not None:
            return _locomotion_spaces(self.locomotion)
        if self.game is not None:
            return self.screen_policy().names, self.game.outputs, Discrete(self.game.outputs)
        env = self.make_base()
        try:
            return _check_spaces(self.name, env)
        finally:
            env.close()

    @property
    def n_real(self) -> int:
        """How many features the environment itself gives."""
        return len(self.spaces[0])

    @cached_property
    def feature_names(self) -> list[str]:
        """All features, real ones first."""
        return noisy_names(self.spaces[0], self.distractors.count(self.n_real))

    @property
    def outputs(self) -> int:
        """How many numbers a policy returns."""
        return self.spaces[1]

    @property
    def discrete(self) -> bool:
        """Whether an action is the index of the largest output."""
        return self.spaces[2] is not None

    def native(self, action: Any) -> Any:
        """Return a policy's action as the environment takes it: discrete ones may be counted from another number."""
        space = self.spaces[2]
        return action if space is None else int(action) + int(space.start)

    def screen_policy(self, batch_norm: bool = False) -> ConvNet:
        """Return the policy for a game's screens."""
        assert self.game is not None
        height, width = self.game.options.screen
        return ConvNet(height, width, self.game.options.frame_stack, self.game.outputs, batch_norm)

    def make_base(self, render_mode: str | None = None) -> gymnasium.Env[Any, Any]:
        """Make the environment with its time limit, without distractors or mask."""
        if self.game is not None:
            return self.game.environment(self.max_episode_steps, render_mode)
        if not isinstance(self.env, str):
            env = self.env()
        elif (factory := _imported(self.env)) is not None:
            env = factory()
        else:
            return _make(self.env, self.max_episode_steps, render_mode)
        if not isinstance(env, gymnasium.Env):
            raise UserError(f"{self.name} returned {type(env).__name__}, not a gymnasium.Env.")
        return gymnasium.wrappers.TimeLimit(env, self.max_episode_steps) if self.max_episode_steps else env

    def make(self, render_mode: str | None = None) -> gymnasium.Env[Any, Any]:
        """Make the whole task as a Gymnasium environment (how a factory's environment renders is its own affair)."""
        env = self.make_base(render_mode)
        if self.distractors.count(self.n_real):
            env = NoiseFeatures(env, self.distractors.ratio)
        return env if self.mask.keeps_all else MaskReward(env, self.mask.keep, self.mask.every)


def make_task(options: TaskOptions) -> Task:
    """Make the task that options describe; raises UserError with one sentence about the first thing wrong."""
    rules = [
        (
            bool(options.env),
            "which environment? For example --env Hopper-v4, or --env module:function for your own.",
        ),
        (
            options.reward_keep == 1 or options.reward_every <= 1,
            "reward_keep and reward_every are two ways to mask rewards; give one of them.",
        ),
        (
            options.max_episode_steps is None or options.max_episode_steps >= 1,
            f"max_episode_steps must be at least 1, got {options.max_episode_steps}.",
        ),
    ]
    for fine, sentence in rules:
        if not fine:
            raise UserError(sentence)
    mask = RewardMask(options.reward_keep, options.reward_every)
    game = find_game(options) if is_atari(options.env) else None
    return Task(options.env, Distractors(options.noise_ratio), mask, options.max_episode_steps, game)


def task_of(plain: dict[str, Any]) -> Task:
    """Make the task that a policy file describes, among other things."""
    known = {option.name for option in fields(TaskOptions)}
    return make_task(TaskOptions(**{name: value for name, value in plain.items() if name in known}))


@cache
def _locomotion_spaces(body: Locomotion) -> tuple[list[str], int, Discrete | None]:
    """Return `Task.spaces` of a robot; reading its model takes a while, and a thousand runs may need it."""
    return body.feature_names(), body.model().nu, None


def _imported(name: str) -> Factory | None:
    """Return the callable that `module:function` names; None for a Gymnasium id, also one written `module:Id-v0`."""
    module, colon, attribute = name.partition(":")
    if not colon:
        return None
    if "<" in name or module == "__main__":
        raise UserError(f"the environment {name} cannot be found by its name; pass the function itself: env=make_env.")
    try:
        found: Any = importlib.import_module(module)
    except ImportError as error:
        raise UserError(f"cannot import {module!r} for the environment {name!r}: {error}.") from error
    for part in attribute.split("."):
        found = getattr(found, part, None)
    if found is None and any(attribute in (known, known.rpartition("-v")[0]) for known in gymnasium.registry):
        return None
    if not callable(found):
        has = "nothing" if found is None else "something else"
        raise UserError(f"{name} is no function: {module} has {has} of that name.")
    return found


def _make(name: str, max_episode_steps: int | None, render_mode: str | None) -> gymnasium.Env[Any, Any]:
    try:
        with quiet_mujoco(), warnings.catch_warnings():
            # Gymnasium calls v4 out of date; it is what the paper's numbers are about.
            warnings.filterwarnings("ignore", message=".*is out of date", category=DeprecationWarning)
            looks = {} if render_mode is None else {"render_mode": render_mode}
            return gymnasium.make(name, max_episode_steps=max_episode_steps, disable_env_checker=True, **looks)
    except gymnasium.error.UnregisteredEnv as error:
        hint = near_matches(name, gymnasium.registry)
        raise UserError(f"unknown environment {name!r}.{hint} `--env module:function` names a factory.") from error
    except (gymnasium.error.Error, ImportError) as error:
        raise UserError(f"cannot make the environment {name!r}: {error}") from error


def _check_spaces(name: str, env: gymnasium.Env[Any, Any]) -> tuple[list[str], int, Discrete | None]:
    observed, acted = env.observation_space, env.action_space
    if not isinstance(observed, Box) or len(observed.shape) != 1:
        shape = f" of shape {observed.shape}" if isinstance(observed, Box) else ""
        raise UserError(
            f"{name} has {type(observed).__name__} observations{shape}; nesht needs a flat vector "
            "(wrap it in gymnasium.wrappers.FlattenObservation and pass the factory)."
        )
    names = env.get_wrapper_attr("feature_names") if env.has_wrapper_attr("feature_names") else None
    features = list(names) if names is not None else plain_names(observed.shape[0])
    if len(features) != observed.shape[0]:
        raise UserError(f"{name} names {len(features)} features but observes {observed.shape[0]}.")
    if isinstance(acted, Discrete):
        return features, int(acted.n), acted
    if isinstance(acted, Box) and len(acted.shape) == 1 and np.issubdtype(acted.dtype, np.floating):
        return features, acted.shape[0], None
    raise UserError(f"{name} has {acted} actions; nesht needs Discrete actions or a flat Box of floats.")
