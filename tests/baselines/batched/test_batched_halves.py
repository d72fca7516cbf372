"""Products of halved numbers, on a GPU or as Triton interprets them, teach what whole ones do but for a few digits."""

from __future__ import annotations

import json
import os
import subprocess
import sys
from pathlib import Path
from typing import Any

import pytest
import torch
from lessons import ACTIONS, Given, learn_something, settings_of

from nesht.baselines.batched.draws import Purpose
from nesht.baselines.batched.learner import Shape
from nesht.baselines.batched.networks import Networks
from nesht.baselines.batched.place import Place, products_for
from nesht.baselines.batched.products import Whole
from nesht.baselines.batched.training import LEARNERS
from nesht.tasks.imperfect import Distractors
from nesht.tasks.task import Task

DEVICE = "cuda" if torch.cuda.is_available() else "cpu"
if DEVICE == "cpu":
    os.environ["TRITON_INTERPRET"] = "1"  # read when kernels are defined
pytest.importorskip("triton", reason="Triton is for Linux")

SCALE = 1024.0
"""What pulls within networks are multiplied with there."""
SEEN, HIDDEN, ROWS = 70, [90, 66], 140
"""Larger than a block of what is multiplied, and no multiple of one."""


@pytest.fixture
def memory_of_no_numbers(monkeypatch: pytest.MonkeyPatch) -> None:
    """What is not written is no number, and would be noticed wherever it is read."""
    new, like = torch.Tensor.new_empty, torch.empty_like
    monkeypatch.setattr(torch.Tensor, "new_empty", lambda *given, **how: new(*given, **how).fill_(torch.nan))
    monkeypatch.setattr(torch, "empty_like", lambda *given, **how: like(*given, **how).fill_(torch.nan))


def learner_of(name: str, products: torch.dtype) -> Any:
    place = Place(DEVICE, products=products)
    settings = settings_of(name, net_arch=HIDDEN, batch_size=ROWS)
    with place.work():
        return LEARNERS[name](Shape(SEEN, ACTIONS), settings, range(2), place)


def halved_and_whole(name: str) -> list[Any]:
    return [learner_of(name, products) for products in (torch.float16, torch.float32)]


def best(learner: Any, seen: torch.Tensor) -> torch.Tensor:
    with learner.place.work():
        return learner.best(seen.to(DEVICE)).cpu()


@pytest.mark.parametrize("name", LEARNERS)
def test_what_is_multiplied_is_what_is_learnt_but_for_its_last_digits(name: str) -> None:
    learner = learner_of(name, torch.float16)
    learn_something(learner, updates=1, rows=ROWS)
    with learner.place.work():
        if name == "anf-sac":
            sizes = [(SEEN + ACTIONS * (i > 0)) * HIDDEN[0] for i in range(3)]
            luck = {Purpose.GROWTH + i: list(torch.rand(2, size, device=DEVICE)) for i, size in enumerate(sizes)}
            learner.rewire(Given(luck))
        networks = [each for each in vars(learner).values() if isinstance(each, Networks)]
        assert len(networks) == (4 if name in ("td3", "ddpg") else 3)
        for each in networks:
            assert each.rounded.dtype == torch.float16
            assert torch.equal(each.rounded, each.numbers.to(torch.float16))


@pytest.mark.usefixtures("memory_of_no_numbers")
@pytest.mark.parametrize("name", LEARNERS)
def test_halved_products_teach_nearly_the_same(name: str) -> None:
    halved, whole = halved_and_whole(name)
    seen = torch.randn(2, 50, SEEN, generator=torch.Generator().manual_seed(1))
    before = best(whole, seen)
    for learner in (halved, whole):
        learn_something(learner, updates=3, rows=ROWS)
    torch.testing.assert_close(halved.critic_losses(), whole.critic_losses(), rtol=5e-3, atol=0)
    learnt = best(whole, seen)
    off = float((best(halved, seen) - learnt).norm() / (learnt - before).norm())
    assert off < 0.05, off


@pytest.mark.parametrize("rewards", [1e-5, 1e7])
@pytest.mark.parametrize("name", LEARNERS)
def test_halved_products_lose_no_small_gradient_and_survive_a_huge_one(name: str, rewards: float) -> None:
    gradients = []
    for learner in halved_and_whole(name):
        with learner.place.work():
            for networks in (learner.critic, learner.critic_target):  # say nothing: an error is a reward
                for part in networks.layers()[-2:]:
                    part.mul_(1e-3 * min(rewards, 1))
            learner.settle()
        learn_something(learner, updates=1, rewards=rewards, rows=ROWS)
        with learner.place.work():
            assert all(
                torch.isfinite(numbers).all()
                for networks in (learner.actor, learner.critic, learner.critic_target)
                for numbers in (networks.numbers, networks.rounded)
            )
            moments = learner.critic.layers(learner.critic_improver.moments[0])  # after one update, of the gradient
            gradients.append(torch.cat([moment.flatten() for moment in moments]).cpu())
        assert torch.isfinite(gradients[-1]).all()
    if rewards < 1:
        halved, whole = gradients
        assert float((halved - whole).norm() / whole.norm()) < 5e-3


@pytest.mark.usefixtures("memory_of_no_numbers")
@pytest.mark.parametrize(
    ("seen", "hidden", "rows"),
    [
        (1, [1, 1], 1),
        (61, [70, 64], 17),
        (130, [33, 257], 40),
        (253, [64, 256], 3),
        (320, [32, 300], 130),
        (509, [96, 512], 65),
        (500, [16, 500], 200),
    ],
)
def test_networks_of_all_sizes_that_fit_are_multiplied_right(seen: int, hidden: list[int], rows: int) -> None:
    luck, acted = torch.Generator().manual_seed(0), slice(seen, seen + ACTIONS)
    x, pull = torch.randn(2, rows, seen + ACTIONS, generator=luck), torch.randn(2, rows, 2, generator=luck) / rows
    place = Place(DEVICE, products=torch.float16)
    with place.work():
        networks = Networks([acted.stop, *hidden, 2], [torch.Generator().manual_seed(seed) for seed in range(2)], place)
        wide = torch.zeros(2, rows, place.products.wide(acted.stop), dtype=place.products.dtype, device=DEVICE)
        wide[..., : acted.stop] = x
        trail, answer = networks.forward(wide), networks.answer(wide)
        inner = networks.pulls(trail, pull.to(DEVICE))[:-1]
        on_inputs = networks.pull_on_inputs(trail, pull.to(DEVICE), acted)
    whole, weights, sizes = Whole(), networks.layers(networks.rounded), (acted.stop, *hidden, 2)
    matrices = [torch.cat(pair, 1).float().cpu() for pair in zip(weights[::2], weights[1::2], strict=True)]
    trail = [each[..., :size].float().cpu() for each, size in zip(trail, sizes, strict=True)]
    wanted = whole.forward(trail[0], matrices)
    pairs = {f"layer {i}": pair for i, pair in enumerate(zip(trail, wanted, strict=True))}
    pairs["answer"] = answer.cpu(), wanted[-1]
    inner = [each[..., :size].float().cpu() / SCALE for each, size in zip(inner, hidden, strict=True)]
    pairs |= {
        f"pull on layer {i + 1}": pair
        for i, pair in enumerate(zip(inner, whole.pulls(trail, pull, matrices), strict=False))
    }
    pairs["on inputs"] = on_inputs.cpu(), whole.pull_on_inputs(trail, pull, matrices, acted)
    for title, (is_, should_be) in pairs.items():
        assert float((is_ - should_be).norm()) <= 2e-3 * float(should_be.norm()), title


def test_what_does_not_fit_is_multiplied_whole(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(torch.cuda, "get_device_capability", lambda: (9, 0))

    def products(algorithm: str, hidden: list[int], ratio: float = 10, device: str = "cuda") -> torch.dtype:
        return products_for(algorithm, {"net_arch": hidden}, Task("Hopper-v4", Distractors(ratio)), device)

    assert products("td3", [400, 300]) == torch.float16
    assert products("td3", [400, 300], device="cpu") == torch.float32
    assert products("td3", [400, 300], ratio=50) == torch.float32
    assert {products("sac", hidden) for hidden in ([], [64], [64, 64, 64], [16, 600])} == {torch.float32}
    assert products("trpo", [64, 64]) == torch.float32


@pytest.mark.parametrize(
    ("name", "seen", "capability", "shared"), [("td3", 357, 90, 232_448), ("anf-sac", 187, 86, 101_376)]
)
def test_kernels_compile_for_gpus_and_find_room_there(name: str, seen: int, capability: int, shared: int) -> None:
    how = {name: value for name, value in os.environ.items() if name != "TRITON_INTERPRET"}
    script = [sys.executable, Path(__file__).parent / "compile_kernels.py", name, seen, capability, shared]
    done = subprocess.run([*map(str, script)], env=how, stdout=subprocess.PIPE, check=True, text=True)
    compiled = json.loads(done.stdout.splitlines()[-1])
    assert {each["kernel"] for each in compiled} == {"forward", "back", "learn"}
    assert max(each["shared"] for each in compiled) <= shared
