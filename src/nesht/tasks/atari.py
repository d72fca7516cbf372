"""Atari games: names, screens and the native vector environment that plays them."""

from __future__ import annotations

import re
from dataclasses import dataclass
from functools import cache
from importlib.util import find_spec
from typing import Any

import gymnasium
import numpy as np

from nesht import keys
from nesht.config import TaskOptions
from nesht.errors import UserError, near_matches

FRAMES = 108_000
"""Frames after which a game ends: half an hour of play."""


@dataclass(frozen=True)
class Game:
    """A game and how it is shown and played."""

    rom: str
    """Its name in ALE: "name_this_game"."""
    options: TaskOptions

    @property
    def outputs(self) -> int:
        """How many actions it has."""
        return _actions(self.rom)

    @property
    def waits(self) -> int:
        """The most steps that an episode waits before it begins."""
        return self.options.noop_max // self.options.frame_skip

    def make(self, games: int, threads: int, steps: int | None, television: bool = False) -> Any:
        """Return ALE's vector environment; `steps` ends a game early. Rewards are raw.

        On a `television` it looks as it was meant to: in colour, full size, one frame at a time.

        No game waits by itself: an engine waits, by the key, so that a game need not be loaded afresh to be seeded.
        """
        from ale_py.vector_env import AtariVectorEnv

        options = self.options
        frames = FRAMES if steps is None else (steps + self.waits) * options.frame_skip
        return AtariVectorEnv(
            self.rom,
            games,
            num_threads=threads,
            max_num_frames_per_episode=frames,
            repeat_action_probability=options.sticky,
            img_height=210 if television else options.screen[0],
            img_width=160 if television else options.screen[1],
            grayscale=not television,
            stack_num=1 if television else options.frame_stack,
            frameskip=options.frame_skip,
            noop_max=0,
            episodic_life=options.life_ends,
            reward_clipping=False,
            use_fire_reset=False,
        )

    def environment(self, steps: int | None, render_mode: str | None) -> gymnasium.Env[Any, Any]:
        """Return one game with Gymnasium's wrappers: the same screens, for everyone else's agents."""
        import ale_py
        from gymnasium.wrappers import AtariPreprocessing, FrameStackObservation, TimeLimit

        gymnasium.register_envs(ale_py)
        options = self.options
        env = gymnasium.make(
            str(options.env), frameskip=1, repeat_action_probability=options.sticky, render_mode=render_mode
        )
        env = AtariPreprocessing(
            env,
            noop_max=options.noop_max,
            frame_skip=options.frame_skip,
            screen_size=(options.screen[1], options.screen[0]),
            terminal_on_life_loss=options.life_ends,
        )
        env = FrameStackObservation(env, options.frame_stack, padding_type="zero")
        return TimeLimit(env, steps) if steps is not None else env


def find_game(options: TaskOptions) -> Game:
    """Return the game of an env like `ALE/NameThisGame-v5`; raises UserError with one sentence about what is wrong."""
    if find_spec("ale_py") is None:
        raise UserError("Atari games need `pip install 'nesht[atari]'`.")
    known, env = _roms(), str(options.env)
    match = re.fullmatch(r"ALE/(\w+)-v5", env)
    if match is None or match[1] not in known:
        wanted = match[1] if match else env.removeprefix("ALE/").partition("-")[0]
        raise UserError(f"there is no game {env!r}.{near_matches(wanted, known)} Names look like ALE/Qbert-v5.")
    rules = [
        (len(options.screen) == 2, f"screen is a height and a width, got {options.screen}."),
        (options.frame_skip >= 1, f"frame_skip must be at least 1, got {options.frame_skip}."),
        (options.frame_stack >= 1, f"frame_stack must be at least 1, got {options.frame_stack}."),
        (options.noop_max >= 0, f"noop_max must be 0 or more, got {options.noop_max}."),
        (0 <= options.sticky < 1, f"sticky is a probability in [0, 1), got {options.sticky}."),
        (
            options.noise_ratio == 0,
            "a game has no features to which distractors could be added; leave out noise_ratio.",
        ),
        (
            options.reward_keep == 1 and options.reward_every == 0,
            "rewards of games cannot be masked; leave out reward_keep and reward_every.",
        ),
    ]
    for fine, sentence in rules:
        if not fine:
            raise UserError(sentence)
    return Game(known[match[1]], options)


@cache
def reference_screens(game: Game, screens: int = 128, apart: int = 8) -> np.ndarray:
    """Return screens of random play, always the same: what virtual batch normalisation goes by."""
    env = game.make(1, 1, None)
    seen, _ = env.reset()
    rng = keys.generator(0, keys.Stream.RESET)
    found = []
    for step in range(screens * apart):
        seen, _, _, _, _ = env.step(rng.integers(game.outputs, size=1))
        if step % apart == 0:
            found.append(seen[0].copy())
    env.close()
    return np.stack(found)


@cache
def _roms() -> dict[str, str]:
    """Return the names of all games whose cartridge is there, as Gymnasium spells them, and as ALE does."""
    from ale_py import roms

    return {"".join(part.title() for part in rom.split("_")): rom for rom in roms.get_all_rom_ids()}


@cache
def _actions(rom: str) -> int:
    from ale_py import ALEInterface, LoggerMode, roms

    ALEInterface.setLoggerMode(LoggerMode.Error)
    path = roms.get_rom_path(rom)
    if path is None:
        raise UserError(f"the cartridge of {rom} is missing; `pip install --force-reinstall ale-py` brings it back.")
    ale = ALEInterface()
    ale.loadROM(path)
    return len(ale.getMinimalActionSet())
