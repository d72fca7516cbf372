"""The `atari` engine: games in ALE's native vector environment, whole screens through a small network.

A worker is a thread with some games: it lets the networks look at all of them, steps them side by side, and gives a
finished game to the next episode. Workers share a list of episodes and nothing else, so while one emulates another may
be in the networks. Each game is a vector environment of one: a game without an episode then costs nothing, which counts
when the last episodes of a generation are long.

An episode depends on its key alone. Loading a cartridge is what makes ALE take a seed, and takes as long as many
steps; a game that is only reset begins always the same, so the engine itself waits for as many steps as the key says.
Only sticky actions need ALE's own random numbers, and the seed.
"""

from __future__ import annotations

import threading
from collections.abc import Iterator
from concurrent.futures import ThreadPoolExecutor
from typing import Any

import numpy as np
from threadpoolctl import threadpool_limits

from nesht import keys
from nesht.engines.atari.screens import Networks, make_networks
from nesht.engines.episodes import Engine, Episodes, Outcomes
from nesht.engines.workers import wait_for
from nesht.policies.convolution import ConvNet
from nesht.tasks.atari import Game, reference_screens
from nesht.tasks.task import Task

GAMES = 8
"""Games of a worker on the CPU: enough to share the cost of a call, few enough to end together."""
ON_GPU = 64
"""Games of a worker whose networks are on a GPU."""


class AtariEngine(Engine):
    """Plays Atari games.

    Args:
        task: the game.
        policy: the shape of the networks.
        threads: how many cores.
        device: where the networks are, "cpu" or "cuda".
        slots: games in flight over all workers; None chooses.
    """

    def __init__(self, task: Task, policy: ConvNet, threads: int = 1, device: str = "cpu", slots: int | None = None):
        assert task.game is not None
        # On a GPU two workers take turns: one half of the games is emulated while the other is in the networks.
        workers = threads if device == "cpu" else 2
        games = max(1, -(-(slots or workers * (GAMES if device == "cpu" else ON_GPU)) // workers))
        self._workers = [_Worker(task, task.game, policy, games, device) for _ in range(workers)]
        self._pool = ThreadPoolExecutor(workers, "nesht-atari")

    def run(self, episodes: Episodes) -> Outcomes:
        """Play all episodes."""
        outcomes = Outcomes.empty(len(episodes), 0)
        share = _Share(len(episodes))
        with threadpool_limits(1, "blas"):  # the workers are the threads; and a product's bits must not depend on them
            futures = [self._pool.submit(worker.run, episodes, share, outcomes) for worker in self._workers]
            wait_for(futures, share.stop)
        return outcomes

    def close(self) -> None:
        """End the threads and the games."""
        self._pool.shutdown()
        for worker in self._workers:
            worker.close()


class _Share:
    """The numbers of the episodes that nobody has begun."""

    def __init__(self, count: int):
        self._next: Iterator[int] = iter(range(count))
        self.stopped = False
        self._lock = threading.Lock()

    def take(self) -> int:
        """Return the next one, or -1."""
        with self._lock:
            return next(self._next, -1)

    def stop(self) -> None:
        """Let nobody begin another, nor go on with one."""
        with self._lock:
            self._next, self.stopped = iter(()), True


class _Worker:
    """Some games and the thread that plays them."""

    def __init__(self, task: Task, game: Game, policy: ConvNet, games: int, device: str):
        self._task, self._game, self._policy, self._games, self._device = task, game, policy, games, device
        self._envs: list[Any] = []
        self._networks: Networks | None = None

    def run(self, episodes: Episodes, share: _Share, outcomes: Outcomes) -> None:
        """Play episodes until there are no more."""
        if self._networks is None:
            self._networks = make_networks(self._policy, self._games, self._device)
        options, games = self._game.options, self._games
        playing = np.full(games, -1)
        waiting, steps, score = np.zeros(games, np.int64), np.zeros(games, np.int64), np.zeros(games)
        screens = np.zeros((games, options.frame_stack, *options.screen), np.uint8)
        over = np.ones(games, bool)
        while not share.stopped:
            for i in np.flatnonzero(over):
                if (episode := share.take()) >= 0:
                    screens[i], waiting[i] = self._begin(episodes, int(i), episode)
                playing[i], steps[i], score[i] = episode, 0, 0.0
            active = np.flatnonzero(playing >= 0)
            if not len(active):
                return
            actions = np.where(waiting > 0, 0, self._networks.act(screens, active))
            for i in active:  # all games are emulated side by side, each by a thread of its own
                self._envs[i].send(actions[i : i + 1])
            over = np.zeros(games, bool)
            for i in active:
                screen, reward, ended, cut, _ = self._envs[i].recv()
                screens[i] = screen[0]
                if waiting[i]:
                    waiting[i] -= 1
                else:
                    steps[i], score[i] = steps[i] + 1, score[i] + reward[0]
                over[i] = ended[0] or cut[0] or steps[i] == self._task.max_episode_steps
            done = playing[over]
            outcomes.fitness[done] = outcomes.score[done] = score[over]
            outcomes.steps[done] = steps[over]

    def _begin(self, episodes: Episodes, game: int, episode: int) -> tuple[np.ndarray, int]:
        """Begin an episode in a game; returns its screens and how many steps to wait."""
        assert self._networks is not None
        parameters, seed = episodes.parameters(episode), episodes.seed(episode)
        if self._policy.batch_norm:
            parameters = self._policy.normalised(parameters, reference_screens(self._game))
        self._networks.put(game, parameters)
        while len(self._envs) <= game:
            self._envs.append(self._game.make(1, 1, self._task.max_episode_steps))
        seeds = None
        if self._game.options.sticky:
            seeds = np.array([keys.generator(seed, keys.Stream.RESET).integers(2**31)])
        screens, _ = self._envs[game].reset(seed=seeds)
        return screens[0], int(keys.generator(seed, keys.Stream.WAIT).integers(self._game.waits + 1))

    def close(self) -> None:
        """End the games."""
        for env in self._envs:
            env.close()
        self._envs = []
