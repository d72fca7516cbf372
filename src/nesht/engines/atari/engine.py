"""The `atari` engine: games in ALE's native vector environment, whole screens through a small network.

A worker is a thread with some games: it lets the networks look at all of them, steps them all, and gives a finished
game to the next episode. Workers share a list of episodes and nothing else, so while one emulates another may be in the
networks. An episode depends on its key alone. Loading a cartridge is what makes ALE take a seed, and takes as long as
two hundred steps; a game that is only reset begins always the same, so the engine itself waits for as many steps as the
key says. Only sticky actions need ALE's own random numbers, and the seed.
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
        workers, cores = (threads, 1) if device == "cpu" else (2, max(1, threads // 2))
        games = max(1, -(-(slots or workers * (GAMES if device == "cpu" else ON_GPU)) // workers))
        self._workers = [_Worker(task, task.game, policy, games, cores, device) for _ in range(workers)]
        self._pool = ThreadPoolExecutor(workers, "nesht-atari")

    def run(self, episodes: Episodes) -> Outcomes:
        """Play all episodes."""
        outcomes = Outcomes.empty(len(episodes), 0)
        share, most = _Share(len(episodes)), -(-len(episodes) // len(self._workers))
        with threadpool_limits(1, "blas"):  # the workers are the threads; and a product's bits must not depend on them
            futures = [self._pool.submit(worker.run, episodes, share, outcomes, most) for worker in self._workers]
            try:
                for future in futures:
                    future.result()
            except BaseException:  # also Ctrl-C: nothing may go on behind our back
                share.stop()
                for future in futures:
                    future.exception()
                raise
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

    def __init__(self, task: Task, game: Game, policy: ConvNet, games: int, cores: int, device: str):
        self._task, self._game, self._policy, self._games, self._cores = task, game, policy, games, cores
        self._device = device
        self._env: Any = None
        self._networks: Networks | None = None

    def run(self, episodes: Episodes, share: _Share, outcomes: Outcomes, most: int) -> None:
        """Play episodes until there are no more; with `most` or fewer games, if this is the first time."""
        if self._env is None:
            self._games = min(self._games, most)
            self._env = self._game.make(self._games, self._cores, self._task.max_episode_steps)
            self._networks = make_networks(self._policy, self._games, self._device)
            self._env.reset()
        games = self._games
        playing = np.full(games, -1)
        waiting, steps, score = np.zeros(games, np.int64), np.zeros(games, np.int64), np.zeros(games)
        limit = self._task.max_episode_steps or np.inf
        over, screens = np.ones(games, bool), None
        while True:
            for i in np.flatnonzero(over):
                playing[i] = share.take()
                waiting[i], steps[i], score[i] = self._begin(episodes, int(i), int(playing[i])), 0, 0.0
            if (playing < 0).all() or share.stopped:
                return
            screens = self._reset(episodes, playing, over, screens)
            assert self._networks is not None
            actions = np.where(waiting > 0, 0, self._networks.act(screens))
            screens, rewards, ended, cut, _ = self._env.step(actions)
            counts = waiting == 0
            waiting -= ~counts
            steps += counts
            score += np.where(counts, rewards, 0)
            over = (playing >= 0) & (ended | cut | (steps >= limit))
            outcomes.fitness[playing[over]] = outcomes.score[playing[over]] = score[over]
            outcomes.steps[playing[over]] = steps[over]

    def _begin(self, episodes: Episodes, game: int, episode: int) -> int:
        """Load the network of an episode; returns how many steps to wait."""
        if episode < 0:
            return 0
        assert self._networks is not None
        parameters = episodes.parameters(episode)
        if self._policy.batch_norm:
            parameters = self._policy.normalised(parameters, reference_screens(self._game))
        self._networks.put(game, parameters)
        rng = keys.generator(episodes.seed(episode), keys.Stream.WAIT)
        return int(rng.integers(self._game.waits + 1))

    def _reset(self, episodes: Episodes, playing: np.ndarray, over: np.ndarray, screens: Any) -> np.ndarray:
        """Begin the games that are over, where there is an episode for them; returns all screens."""
        fresh = over & (playing >= 0)
        if not fresh.any():
            return np.asarray(screens)
        seeds = None
        if self._game.options.sticky:
            episode_seeds = [episodes.seed(int(i)) for i in playing[fresh]]
            seeds = np.array([keys.generator(seed, keys.Stream.RESET).integers(2**31) for seed in episode_seeds])
        screens, _ = self._env.reset(seed=seeds, options={"reset_mask": fresh})
        return np.asarray(screens)

    def close(self) -> None:
        """End the games."""
        if self._env is not None:
            self._env.close()
            self._env = None
