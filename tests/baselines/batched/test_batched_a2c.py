"""A2C of many runs at a time is that of stable-baselines3: losses, and the step of actors and critics."""

from __future__ import annotations

import numpy as np
import pytest
import torch
from lessons import ACTIONS, SEEN, Nothing, as_lived, lived, read_policy
from stable_baselines3.common.vec_env import DummyVecEnv

from nesht.baselines.batched.a2c import A2C
from nesht.baselines.batched.exchange import views
from nesht.baselines.batched.learner import Shape
from nesht.baselines.batched.place import Place
from nesht.baselines.changes import changed
from nesht.baselines.settings import make_model

RUNS, UPDATES = 3, 4
CPU = Place("cpu")


@pytest.mark.parametrize("change", ["ent_coef=0.1", "max_grad_norm=0.01", "max_grad_norm=100.0"])
def test_an_update_is_that_of_stable_baselines3(change: str) -> None:
    settings = changed("a2c", ["net_arch=[16,8]", change])
    learner = A2C(Shape(SEEN, ACTIONS), settings, range(50, 50 + RUNS), CPU)
    models = [make_model("a2c", DummyVecEnv([Nothing]), settings, seed, "cpu") for seed in range(RUNS)]
    luck, said = np.random.default_rng(0), dict[str, float]()
    for run, model in enumerate(models):
        with torch.no_grad():
            model.policy.log_std += 0.1 * run
        model._logger = type("Heard", (), {"record": lambda _, name, value, **__: said.update({name: value})})()
        read_policy(learner, run, model.policy.state_dict())
    for _ in range(UPDATES):
        before = [view.clone() for _, view in views(learner, 0)]
        buffers = [lived(model, luck) for model in models]
        steps = as_lived(buffers)
        losses = learner.losses(steps).tolist()
        learner.improve(steps, None)  # type: ignore[arg-type]  # it draws nothing
        for run, (model, buffer) in enumerate(zip(models, buffers, strict=True)):
            model.rollout_buffer = buffer
            model.train()
            constant = ACTIONS * 0.5 * (1 + np.log(2 * np.pi))  # of the entropy
            theirs = said["train/policy_loss"] + settings["vf_coef"] * said["train/value_loss"]
            theirs += settings["ent_coef"] * (said["train/entropy_loss"] + constant)
            assert losses[run] == pytest.approx(theirs, rel=1e-4, abs=1e-5)
            for name, view in views(learner, run):
                expected = model.policy.state_dict()[name]
                torch.testing.assert_close(view, expected, rtol=1e-3, atol=1e-5, msg=lambda m, n=name: f"{n}: {m}")
        assert any(not torch.equal(old, new) for old, (_, new) in zip(before, views(learner, 0), strict=True))
