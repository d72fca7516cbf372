"""The atari engine: ALE's own games to the byte, and the same bits however they are spread."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest

import nesht
from nesht import keys
from nesht.config import TaskOptions
from nesht.engines import Episodes
from nesht.errors import UserError
from nesht.policies.convolution import ConvNet
from nesht.policies.moments import Moments
from nesht.policies.saved import Policy
from nesht.strategy import Population
from nesht.tasks.task import Task, make_task
from nesht.training.evaluation import evaluate_policy

pytest.importorskip("ale_py")
pytest.importorskip("cv2")
from nesht.engines.atari.engine import AtariEngine
from nesht.engines.atari.screens import OnCpu, OnGpu

GAMES = ("Qbert", "Atlantis", "BattleZone", "NameThisGame")


def plain(name: str, options: TaskOptions) -> Any:
    """Make a game with Gymnasium's own wrappers."""
    import ale_py
    import gymnasium
    from gymnasium.wrappers import AtariPreprocessing, FrameStackObservation

    gymnasium.register_envs(ale_py)
    env = gymnasium.make(f"ALE/{name}-v5", frameskip=1, repeat_action_probability=0.0)
    size = (options.screen[1], options.screen[0])
    env = AtariPreprocessing(env, noop_max=0, frame_skip=options.frame_skip, screen_size=size)
    return FrameStackObservation(env, options.frame_stack, padding_type="zero")


def task_of(name: str, **options: Any) -> Task:
    return make_task(TaskOptions(f"ALE/{name}-v5", **options))


def some_episodes(net: ConvNet, count: int) -> Episodes:
    theta = np.stack([net.initial(seed) for seed in range(2)])
    population = Population(theta, np.full(2, 0.05), np.arange(2), np.arange(2), 4, True)
    number = np.arange(count)
    member = np.where(number < 2, keys.EVALUATION, number % 4)
    return Episodes(population, None, number % 2, member, member, number)


@pytest.mark.parametrize("name", GAMES)
@pytest.mark.parametrize("changes", [{}, {"screen": (84, 84), "frame_skip": 1, "frame_stack": 3}])
def test_screens_rewards_and_ends_are_those_of_a_plain_loop(name: str, changes: dict[str, Any]) -> None:
    task = task_of(name, **changes)
    assert task.game is not None
    env, native = plain(name, task.game.options), task.game.make(1, 1, None)
    rng, ended = np.random.default_rng(0), False
    screen, theirs = native.reset(seed=np.array([0]))[0], env.reset(seed=1)[0]
    assert np.array_equal(screen[0], theirs)
    for _ in range(400 if name == "Qbert" else 100):  # a game of Qbert is over before that
        action = int(rng.integers(task.outputs))
        theirs, reward, terminated, truncated, _ = env.step(action)
        screen, rewards, ends, cuts, _ = native.step(np.array([action]))
        assert np.array_equal(screen[0], theirs)
        assert (rewards[0], ends[0], cuts[0]) == (reward, terminated, truncated)
        if ended := terminated or truncated:
            break
    assert ended == (name == "Qbert" and not changes)


def test_an_episode_is_what_a_plain_loop_with_the_same_policy_plays() -> None:
    task = task_of("Qbert")
    net = task.screen_policy()
    episodes = some_episodes(net, 3)
    engine = AtariEngine(task, net, 1)
    outcomes = engine.run(episodes)
    engine.close()
    assert task.game is not None
    env = plain("Qbert", task.game.options)
    for i in range(3):
        policy = Policy(net, episodes.parameters(i), Moments.none(1, 0), False, [], {})
        screen, _ = env.reset()
        for _ in range(int(keys.generator(episodes.seed(i), keys.Stream.WAIT).integers(8))):
            screen = env.step(0)[0]
        score, steps, done = 0.0, 0, False
        while not done:
            screen, reward, terminated, truncated, _ = env.step(int(policy(screen)))
            score, steps, done = score + float(reward), steps + 1, terminated or truncated
        assert (outcomes.score[i], outcomes.steps[i]) == (score, steps)


@pytest.mark.parametrize("sticky", [0.0, 0.25])
def test_the_same_bits_at_any_number_of_threads_and_slots(sticky: float) -> None:
    task = task_of("Qbert", max_episode_steps=60, sticky=sticky)
    net = task.screen_policy()
    episodes = some_episodes(net, 7)
    seen = []
    for threads, slots in ((1, 1), (1, 3), (2, 4), (2, None)):
        engine = AtariEngine(task, net, threads, slots=slots)
        for _ in range(2):  # what was played before changes nothing
            outcomes = engine.run(episodes)
            seen.append((outcomes.score.tolist(), outcomes.steps.tolist()))
        engine.close()
    assert all(each == seen[0] for each in seen)
    assert len(set(map(tuple, zip(*seen[0], strict=True)))) > 1


def test_the_networks_of_a_gpu_are_the_same_function() -> None:
    pytest.importorskip("torch")
    net = ConvNet(60, 52, 4, 6)
    rng = np.random.default_rng(0)
    screens = rng.integers(0, 256, (3, 4, 60, 52)).astype(np.uint8)
    ours, theirs = OnCpu(net, 3), OnGpu(net, 3, "cpu")
    for game in range(3):
        for networks in (ours, theirs):
            networks.put(game, net.initial(game))
    wanted = net.forward(ours._weights, screens)
    np.testing.assert_allclose(theirs._forward(screens).numpy(), wanted, rtol=1e-4, atol=1e-5)
    active = np.arange(3)
    assert np.array_equal(theirs.act(screens, active), ours.act(screens, active))
    assert ours.act(screens, active[1:])[1:].tolist() == ours.act(screens, active)[1:].tolist()


def test_a_short_run_is_trained_saved_and_evaluated(tmp_path: Any) -> None:
    options = {
        "env": "ALE/Qbert-v5",
        "n": 4,
        "generations": 2,
        "max_episode_steps": 20,
        "eval_episodes": 2,
        "beta": 0.9,
    }
    result = nesht.train(**options, threads=1, out=tmp_path / "run", progress=False)
    again = nesht.train(**options, threads=2, progress=False)
    assert np.array_equal(result.policy.parameters, again.policy.parameters)
    loaded = nesht.load_policy(tmp_path / "run")
    assert np.array_equal(loaded.parameters, result.policy.parameters)
    assert loaded.used.sum() == round(0.1 * 3456)
    assert loaded(np.zeros((4, 110, 84), np.uint8)).shape == ()
    assert evaluate_policy(loaded, episodes=2).scores.shape == (2,)


def test_with_virtual_batch_norm_the_saved_policy_plays_what_was_scored() -> None:
    options = {"env": "ALE/Qbert-v5", "n": 2, "generations": 1, "max_episode_steps": 30, "eval_episodes": 1}
    result = nesht.train(**options, virtual_batch_norm=True, threads=1, progress=False)
    network = result.policy.network
    assert isinstance(network, ConvNet)
    assert not network.batch_norm
    plain = nesht.train(**options, virtual_batch_norm=False, threads=1, progress=False).policy
    assert not np.array_equal(plain.parameters[:100], result.policy.parameters[:100])
    assert evaluate_policy(result.policy, episodes=1).scores.shape == (1,)


@pytest.mark.parametrize(
    ("options", "sentence"),
    [
        ({"env": "ALE/Qbart-v5"}, "there is no game 'ALE/Qbart-v5'.*Qbert"),
        ({"env": "ALE/qbert"}, "Names look like ALE/Qbert-v5"),
        ({"env": "ALE/Qbert-v5", "screen": (10, 10)}, "at least 20 x 20"),
        ({"env": "ALE/Qbert-v5", "screen": (84,)}, "a height and a width"),
        ({"env": "ALE/Qbert-v5", "noise_ratio": 5}, "no features"),
        ({"env": "ALE/Qbert-v5", "reward_keep": 0.1}, "cannot be masked"),
        ({"env": "ALE/Qbert-v5", "hidden": (8,)}, "always the same network"),
        ({"env": "ALE/Qbert-v5", "engine": "batch"}, "use --engine atari"),
        ({"env": "Hopper-v4", "virtual_batch_norm": True}, "is for Atari games"),
        ({"env": "Hopper-v4", "engine": "atari"}, "cannot run Hopper-v4"),
        ({"env": "Hopper-v4", "preset": "reference"}, "plays Atari games only"),
    ],
)
def test_what_cannot_be_played_is_said(options: dict[str, Any], sentence: str) -> None:
    with pytest.raises(UserError, match=sentence):
        nesht.train(**options, generations=1, progress=False)
