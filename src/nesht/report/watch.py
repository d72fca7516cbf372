"""An episode as moving pictures: the first one that `nesht eval` scores with the same seed."""

from __future__ import annotations

import io
import os
import sys
import time
from collections.abc import Callable, Iterator
from functools import partial
from pathlib import Path

import numpy as np

from nesht import keys
from nesht.errors import UserError
from nesht.policies.saved import Policy
from nesht.storage import write_file
from nesht.tasks.atari import Game
from nesht.tasks.task import Task, task_of

KINDS = (".gif", ".webp", ".png")
SIZE = 320
"""Height of a picture."""

PAUSE = 5.0
"""Seconds between two lines of progress."""

Moment = tuple[Callable[[], np.ndarray], float]
"""What draws an environment as it is after a step, and the step's reward."""


def watch(policy: Policy, out: Path, seed: int = 0, steps: int = 1000, every: int = 2) -> tuple[float, int]:
    """Write an animated picture of an episode, with every so many-th step in it; returns the score and the steps."""
    try:
        from PIL import Image
    except ImportError:
        raise UserError("moving pictures need `pip install 'nesht[plot]'`.") from None
    if out.suffix not in KINDS:
        raise UserError(f"--out must end in {', '.join(KINDS)}, got {out.name}.")
    if steps < 1 or every < 1:
        raise UserError("steps and every must be at least 1.")
    seed = keys.check_seed(seed)
    try:
        out.parent.mkdir(parents=True, exist_ok=True)  # what cannot be written is said before the episode, if possible
    except OSError as error:
        raise UserError(f"cannot write {out}: {error}.") from error
    pictures, score, count, said = [], 0.0, 0, time.monotonic()
    for draw, reward in _episode(policy, seed):
        if count % every == 0:
            picture = Image.fromarray(draw())
            pictures.append(picture.resize((SIZE * picture.width // picture.height, SIZE)))
        score, count = score + reward, count + 1
        if time.monotonic() - said > PAUSE:
            said = time.monotonic()
            print(f"step {count} of at most {steps} · score {score:.0f}", file=sys.stderr, flush=True)
        if count == steps:
            break
    try:
        shown, kind = io.BytesIO(), out.suffix[1:]
        duration = round(1000 * every / 30)
        pictures[0].save(shown, kind, save_all=True, append_images=pictures[1:], duration=duration, loop=0)
        write_file(out, shown.getvalue())
    except OSError as error:
        raise UserError(f"cannot write {out}: {error}.") from error
    return score, count


def last_screen(policy: Policy, steps: int = 100) -> np.ndarray:
    """Return the newest of the screens that a policy for games sees at some step of an episode, (height, width)."""
    task = task_of(policy.task)
    assert task.game is not None
    env = task.game.make(1, 1, None)
    screens, _ = env.reset()
    for _ in range(steps):
        screens, _, ended, cut, _ = env.step(policy(screens))
        if ended[0] or cut[0]:
            break
    env.close()
    return np.asarray(screens[0, -1])


def _episode(policy: Policy, seed: int) -> Iterator[Moment]:
    """Yield what draws the environment after each step, and its reward."""
    task = task_of(policy.task)
    key = keys.pack(seed, keys.AFTER_TRAINING, keys.EVALUATION, 0)
    return _game(policy, task, task.game, key) if task.game is not None else _environment(policy, task, key)


def _environment(policy: Policy, task: Task, key: int) -> Iterator[Moment]:
    if "DISPLAY" not in os.environ:
        os.environ.setdefault("MUJOCO_GL", "egl")
    env = task.make(render_mode="rgb_array")
    try:
        seen, _ = env.reset(seed=key)
        done = False
        while not done:
            seen, reward, terminated, truncated, info = env.step(task.native(policy(seen)))
            done = bool(terminated or truncated)
            yield partial(_rendered, env, task), float(info.get("dense_reward", reward))
    finally:
        env.close()


def _rendered(env: object, task: Task) -> np.ndarray:
    """Return a picture of an environment; what may go wrong depends on the machine."""
    try:
        pixels = env.render()  # type: ignore[attr-defined]
    except Exception as error:
        said = " ".join(str(error).split())
        words = f"{said}; MUJOCO_GL=egl or osmesa may help" if said else f"it raised {type(error).__name__}"
        raise UserError(f"{task.name} cannot be drawn here: {words}.") from error
    if not isinstance(pixels, np.ndarray):
        raise UserError(f"{task.name} draws nothing; its factory must make it with render_mode='rgb_array'.")
    return pixels


def _game(policy: Policy, task: Task, game: Game, key: int) -> Iterator[Moment]:
    """Play the same game twice, side by side: grey and small for the policy, and as it is on a television."""
    env, shown = game.make(1, 1, task.max_episode_steps), game.make(1, 1, task.max_episode_steps, television=True)
    seeds = np.array([keys.generator(key, keys.Stream.RESET).integers(2**31)]) if game.options.sticky else None
    try:
        screens, _ = env.reset(seed=seeds)
        shown.reset(seed=seeds)
        wait = int(keys.generator(key, keys.Stream.WAIT).integers(game.waits + 1))
        done, count = False, 0
        while not done and count < (task.max_episode_steps or np.inf) + wait:
            action = policy(screens) if count >= wait else np.zeros(1, np.int64)
            screens, rewards, ended, cut, _ = env.step(action)
            pixels = shown.step(action)[0][0, -1]
            done, count = bool(ended[0] or cut[0]), count + 1
            if count > wait:
                yield partial(np.asarray, pixels), float(rewards[0])
    finally:
        env.close()
        shown.close()
