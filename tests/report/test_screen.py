"""What a read-out looks at, and episodes as pictures."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import gymnasium
import numpy as np
import pytest

import nesht
from nesht.errors import UserError
from nesht.policies.convolution import ConvNet
from nesht.policies.moments import Moments
from nesht.policies.network import Network
from nesht.policies.saved import Policy
from nesht.report.screen import saliency, screen_report
from nesht.report.watch import watch
from nesht.training.evaluation import evaluate_policy

PIL = pytest.importorskip("PIL.Image")


def policy_that_reads(keep: np.ndarray) -> Policy:
    """Return a policy for small screens whose read-out keeps some of its inputs, (filters, rows, columns)."""
    net = ConvNet(60, 60, 2, 3)
    parameters = net.initial(0)
    block = net.blocks[4]
    parameters[block.start : block.stop] *= np.tile(keep.ravel(), net.outputs)
    return Policy(net, parameters, Moments.none(1, 0), False, net.names, {"n_real": net.inputs})


def test_what_is_not_read_is_dark() -> None:
    last = ConvNet(60, 60, 2, 3).layers[1]
    keep = np.zeros((last.filters, last.rows, last.columns))
    keep[:, -1, :] = 1  # only the lowest row of places
    lit = saliency(policy_that_reads(keep))
    sees = 8 * (last.rows - 1)  # the first pixel that the lowest row sees
    assert lit.max() == 1
    assert not lit[:sees].any()
    assert lit[sees:56].all()
    report = screen_report(policy_that_reads(keep))
    assert report["kept"] == keep.sum()
    assert sum(map(sum, report["share_by_part"])) == pytest.approx(1)


def test_what_is_read_evenly_is_lit_evenly() -> None:
    policy = policy_that_reads(np.ones(ConvNet(60, 60, 2, 3).inputs))
    block = policy.network.blocks[4]
    policy.parameters[block.start : block.stop] = 1.0
    seen = saliency(policy)[:52, :52]
    np.testing.assert_allclose(seen, 1.0)


def test_a_game_is_watched_as_it_is_scored(tmp_path: Path) -> None:
    pytest.importorskip("ale_py")
    options = {"env": "ALE/Qbert-v5", "n": 2, "generations": 1, "max_episode_steps": 40, "eval_episodes": 1}
    policy = nesht.train(**options, threads=1, progress=False).policy
    score, steps = watch(policy, tmp_path / "q.gif", seed=3, every=10)
    scored = evaluate_policy(policy, 1, seed=3)
    assert (score, steps) == (scored.scores[0], scored.steps[0])
    assert PIL.open(tmp_path / "q.gif").n_frames == 4


def test_a_robot_is_watched_as_it_is_scored(tmp_path: Path) -> None:
    pytest.importorskip("OpenGL")
    policy = nesht.train(env="Hopper-v4", noise_ratio=1, n=2, generations=1, progress=False).policy
    try:
        score, steps = watch(policy, tmp_path / "h.gif")
    except UserError as error:
        pytest.skip(f"nothing can be drawn here: {error}")
    scored = evaluate_policy(policy, 1, runtime=nesht.Config().change(engine="batch", threads=1).runtime)
    assert steps == scored.steps[0]
    assert score == pytest.approx(scored.scores[0])


class Door(gymnasium.Env):
    """Three steps; the actions are numbered from 5, and 6 opens it. Counts how often it is drawn."""

    observation_space = gymnasium.spaces.Box(-1, 1, (2,))
    action_space = gymnasium.spaces.Discrete(2, start=5)
    steps, drawn = 0, 0

    def reset(self, **_: Any) -> tuple[np.ndarray, dict[str, Any]]:
        self.steps = 0
        return np.ones(2, np.float32), {}

    def step(self, action: Any) -> tuple[np.ndarray, float, bool, bool, dict[str, Any]]:
        self.steps += 1
        return np.ones(2, np.float32), {5: 1.0, 6: 10.0}[action], self.steps == 3, False, {}

    def render(self) -> np.ndarray:
        Door.drawn += 1
        return np.zeros((4, 4, 3), np.uint8)


@pytest.fixture
def opens() -> Policy:
    """A policy that opens the door at every step."""
    network = Network(2, 2, (), bias=False, discrete=True)
    task = {"env": f"{__name__}:Door", "n_real": 2}
    return Policy(network, np.array([0.0, 0, 1, 0]), Moments.none(1, 2), False, ["feature 0", "feature 1"], task)


def test_actions_are_counted_as_the_environment_counts_them(opens: Policy, tmp_path: Path) -> None:
    assert watch(opens, tmp_path / "door.gif") == (30, 3)
    assert evaluate_policy(opens, 1).scores[0] == 30


def test_only_what_is_shown_is_drawn_and_waiting_is_not_silent(
    opens: Policy, tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    monkeypatch.setattr("nesht.report.watch.PAUSE", 0.0)
    monkeypatch.setattr(Door, "drawn", 0)
    watch(opens, tmp_path / "door.gif", steps=100, every=2)
    assert Door.drawn == 2
    assert "step 2 of at most 100 · score 20" in capsys.readouterr().err


def test_a_picture_that_cannot_be_written_is_said_before_the_episode(opens: Policy, tmp_path: Path) -> None:
    (tmp_path / "file").touch()
    before = Door.drawn
    with pytest.raises(UserError, match="cannot write"):
        watch(opens, tmp_path / "file" / "door.gif")
    assert Door.drawn == before


def test_the_kind_of_picture_must_be_known(tmp_path: Path) -> None:
    policy = policy_that_reads(np.ones(ConvNet(60, 60, 2, 3).inputs))
    with pytest.raises(UserError, match=r"must end in \.gif"):
        watch(policy, tmp_path / "x.mp4")
