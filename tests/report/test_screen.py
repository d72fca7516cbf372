"""What a read-out looks at, and episodes as pictures."""

from __future__ import annotations

from pathlib import Path

import numpy as np
import pytest

import nesht
from nesht.errors import UserError
from nesht.policies.convolution import ConvNet
from nesht.policies.moments import Moments
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


def test_the_kind_of_picture_must_be_known(tmp_path: Path) -> None:
    policy = policy_that_reads(np.ones(ConvNet(60, 60, 2, 3).inputs))
    with pytest.raises(UserError, match=r"must end in \.gif"):
        watch(policy, tmp_path / "x.mp4")
