from __future__ import annotations

import subprocess
import sys
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from safetensors.numpy import save_file

from nesht.errors import UserError
from nesht.policies import Moments, Network, Policy, load_policy
from nesht.policies.limits import Limits
from nesht.storage import pack_arrays, read_arrays

BENT, CUT = (Limits((-1.0, -2.0, 0.0), (1.0, 0.5, 3.0), bend) for bend in (True, False))
NAMES = ["height", "angle", "velocité", "noise 1", "noise 2"]


def make(
    hidden: tuple[int, ...] = (),
    bias: bool = True,
    discrete: bool = False,
    normalise: bool = True,
    relu: bool = False,
    limits: Limits | None = None,
) -> Policy:
    network = Network(5, 3, hidden, bias, discrete, relu, limits)
    rng = np.random.default_rng(0)
    parameters = rng.standard_normal(network.size)
    network.input_weights(parameters[None])[:, :, 3] = 0
    moments = Moments(np.array(50.0), rng.standard_normal(5), rng.uniform(1, 100, 5))
    return Policy(network, parameters, moments, normalise, NAMES, {"env": "Hopper-v4", "noise_ratio": 0.5, "n_real": 3})


OBSERVATIONS = np.random.default_rng(1).standard_normal((9, 5))
variants = pytest.mark.parametrize(
    "options",
    [
        {},
        {"hidden": (4, 6)},
        {"hidden": (4, 6), "relu": True, "limits": BENT},
        {"limits": CUT},
        {"bias": False},
        {"discrete": True},
        {"normalise": False},
    ],
    ids=lambda options: "-".join(options) or "plain",
)


@variants
def test_a_policy_comes_back_from_its_file_as_it_was(tmp_path: Path, options: dict[str, Any]) -> None:
    policy = make(**options)
    policy.save(tmp_path / "p.safetensors")
    loaded = load_policy(tmp_path / "p.safetensors")
    assert loaded.network == policy.network
    assert (loaded.parameters == policy.parameters).all()
    for name in ("count", "mean", "m2", "std"):
        assert getattr(loaded.moments, name).shape == getattr(policy.moments, name).shape
        assert (getattr(loaded.moments, name) == getattr(policy.moments, name)).all()
    assert (loaded.normalise, loaded.feature_names, loaded.task) == (policy.normalise, NAMES, policy.task)
    assert (loaded(OBSERVATIONS) == policy(OBSERVATIONS)).all()


def test_saving_twice_gives_the_same_bytes_and_leaves_nothing_else(tmp_path: Path) -> None:
    make().save(tmp_path / "a")
    make().save(tmp_path / "b")
    load_policy(tmp_path / "a").save(tmp_path / "c")
    first, *others = ((tmp_path / name).read_bytes() for name in "abc")
    assert all(other == first for other in others)
    assert sorted(path.name for path in tmp_path.iterdir()) == ["a", "b", "c"]


def test_saving_over_a_policy_replaces_it(tmp_path: Path) -> None:
    make().save(tmp_path / "p")
    make(hidden=(2,)).save(tmp_path / "p")
    assert load_policy(tmp_path / "p").network.hidden == (2,)


def test_a_run_folder_stands_for_the_policy_in_it(tmp_path: Path) -> None:
    make().save(tmp_path / "policy.safetensors")
    assert (load_policy(str(tmp_path)).parameters == make().parameters).all()


def test_an_action_is_the_network_on_the_normalised_observation() -> None:
    policy = make()
    std = np.sqrt(policy.moments.m2 / policy.moments.count)
    normal = (OBSERVATIONS - policy.moments.mean) / std
    matrix, bias = policy.parameters[:15].reshape(3, 5), policy.parameters[15:]
    assert np.allclose(policy(OBSERVATIONS), normal @ matrix.T + bias, rtol=1e-6)
    plain = make(normalise=False)
    assert np.allclose(plain(OBSERVATIONS), OBSERVATIONS @ matrix.T + bias, rtol=1e-12)


def test_hidden_units_may_be_rectified_and_actions_kept_between_limits() -> None:
    rectified, plain = make(hidden=(4,), relu=True), make(hidden=(4,))
    assert (rectified(OBSERVATIONS) != plain(OBSERVATIONS)).any()
    first, bias, last, end = (block.of(plain.parameters[None])[0] for block in plain.network.blocks)
    raw = Policy(rectified.network, plain.parameters, plain.moments, False, NAMES, plain.task)
    np.testing.assert_allclose(raw(np.ones(5)), last @ np.maximum(first @ np.ones(5) + bias, 0) + end)
    free, low, high = 10 * make(normalise=False)(OBSERVATIONS), np.array(BENT.low), np.array(BENT.high)
    np.testing.assert_allclose(BENT(free), (low + high) / 2 + (high - low) / 2 * np.tanh(free), atol=1e-12)
    assert ((CUT(free) == free) | (CUT(free) == low) | (CUT(free) == high)).all()
    assert (CUT(free) != free).any()


@variants
@pytest.mark.parametrize("order", ["C", "F"])
def test_a_batch_gives_the_same_bits_as_its_observations_one_by_one(options: dict[str, Any], order: Any) -> None:
    policy = make(**options)
    batch = policy(np.array(OBSERVATIONS, order=order))
    assert batch.shape == ((9,) if policy.network.discrete else (9, 3))
    for observation, action in zip(OBSERVATIONS, batch, strict=True):
        assert policy(observation).shape == action.shape
        assert (policy(observation) == action).all()


def test_observations_of_other_types_are_taken_as_numbers() -> None:
    policy = make()
    assert (policy(np.arange(1, 6)) == policy(np.arange(1.0, 6.0))).all()
    single = OBSERVATIONS.astype(np.float32)
    assert (policy(single) == policy(single.astype(np.float64))).all()


@pytest.mark.parametrize("shape", [(), (4,), (6,), (5, 4), (9, 6), (2, 3, 5)])
def test_an_observation_of_the_wrong_shape_is_refused_with_the_right_one(shape: tuple[int, ...]) -> None:
    with pytest.raises(ValueError, match="5 features"):
        make()(np.zeros(shape))


def test_a_policy_knows_which_features_it_uses() -> None:
    policy = make(hidden=(4,))
    assert policy.used.tolist() == [True, True, True, False, True]
    assert policy.input_weights.shape == (4, 5)
    assert policy.n_real == 3
    moved = OBSERVATIONS.copy()
    moved[:, 3] += 10
    assert (policy(moved) == policy(OBSERVATIONS)).all()


@pytest.fixture(scope="module")
def content(tmp_path_factory: pytest.TempPathFactory) -> bytes:
    path = tmp_path_factory.mktemp("intact") / "p"
    make().save(path)
    return path.read_bytes()


def refused(folder: Path, damaged: bytes) -> str:
    (folder / "damaged").write_bytes(damaged)
    with pytest.raises(UserError, match=r"damaged|not a nesht policy") as caught:
        load_policy(folder / "damaged")
    return str(caught.value)


@settings(deadline=None, max_examples=200)
@given(st.data())
def test_a_file_with_one_flipped_bit_is_refused(
    tmp_path_factory: pytest.TempPathFactory, content: bytes, data: st.DataObject
) -> None:
    at, bit = data.draw(st.integers(0, len(content) - 1)), data.draw(st.integers(0, 7))
    damaged = bytearray(content)
    damaged[at] ^= 1 << bit
    refused(tmp_path_factory.getbasetemp(), bytes(damaged))


def test_a_truncated_or_longer_file_is_refused(tmp_path: Path, content: bytes) -> None:
    for length in {0, 1, 7, 8, 9, 100, *range(0, len(content), 97), len(content) - 1}:
        refused(tmp_path, content[:length])
    refused(tmp_path, content + b"\0")


@pytest.mark.parametrize("text", [b"", b"hello\n", b'{"a": 1}' * 100, b"\x80\x04\x95 pickle", bytes(1000)])
def test_a_file_of_something_else_is_refused(tmp_path: Path, text: bytes) -> None:
    assert "not a nesht policy" in refused(tmp_path, text)


@pytest.mark.parametrize(
    "metadata",
    [
        None,
        {"format": "pt"},
        {"kind": "policy"},
        *({"nesht": text} for text in ("", "policy", "[]", "{}", '{"kind": "policy"}', '{"kind": "checkpoint"}')),
    ],
)
def test_a_safetensors_file_that_is_no_policy_is_refused(tmp_path: Path, metadata: dict[str, str] | None) -> None:
    save_file({"parameters": np.zeros(3)}, tmp_path / "other", metadata)
    with pytest.raises(UserError, match=r"not a nesht policy|damaged"):
        load_policy(tmp_path / "other")


PARTS = ("parameters", "feature_count", "feature_mean", "feature_m2")
FACTS = ("inputs", "outputs", "hidden", "bias", "discrete", "normalise", "feature_names", "task")


def rewritten(folder: Path, arrays: dict[str, Any], facts: dict[str, Any]) -> str:
    """Write a policy file with other content and a digest that fits it; return the sentence that refuses it."""
    make(hidden=(4,)).save(folder / "intact")
    old_arrays, old_facts = read_arrays("policy", folder / "intact")
    kept = {name: value for name, value in {**old_arrays, **arrays}.items() if value is not None}
    told = {name: value for name, value in {**old_facts, **facts}.items() if value is not None}
    (folder / "other").write_bytes(pack_arrays("policy", kept, told))
    with pytest.raises(UserError, match="not a whole nesht policy") as caught:
        load_policy(folder / "other")
    return str(caught.value)


@pytest.mark.parametrize("name", PARTS)
def test_a_policy_without_one_of_its_arrays_is_refused_by_name(tmp_path: Path, name: str) -> None:
    assert name in rewritten(tmp_path, {name: None}, {})


@pytest.mark.parametrize("name", FACTS)
def test_a_policy_without_one_of_its_facts_is_refused_by_name(tmp_path: Path, name: str) -> None:
    assert name in rewritten(tmp_path, {}, {name: None})


def test_limits_that_do_not_fit_the_outputs_are_refused(tmp_path: Path) -> None:
    assert "3 outputs" in rewritten(tmp_path, {}, {"limits": {"low": [0.0], "high": [1.0], "bend": True}})
    assert "bend" in rewritten(tmp_path, {}, {"limits": {"low": [0.0] * 3, "high": [1.0] * 3}})


def test_parameters_without_a_block_are_refused_and_all_blocks_named(tmp_path: Path) -> None:
    whole = make(hidden=(4,))
    for block in whole.network.blocks:
        rest = np.delete(whole.parameters, np.arange(block.start, block.stop))
        sentence = rewritten(tmp_path, {"parameters": rest}, {})
        assert f"{block.name} {' x '.join(map(str, block.shape))}" in sentence
        assert f"need {whole.network.size} numbers" in sentence


@pytest.mark.parametrize(
    ("arrays", "facts", "words"),
    [
        ({"parameters": np.zeros((2, 20))}, {}, "(2, 20)"),
        ({"feature_mean": np.zeros(4)}, {}, "feature_mean"),
        ({"feature_m2": np.zeros((5, 1))}, {}, "feature_m2"),
        ({"feature_count": np.zeros(1)}, {}, "feature_count"),
        ({}, {"inputs": 6}, "need 43 numbers"),
        ({}, {"hidden": "four"}, "is not a whole"),
        ({}, {"feature_names": NAMES[:4]}, "names 4 inputs but has 5"),
        ({}, {"task": {"env": "Hopper-v4", "n_real": 6}}, "6 of them real"),
        ({}, {"task": {"env": "Hopper-v4"}}, "n_real"),
    ],
)
def test_a_policy_whose_parts_do_not_fit_is_refused(
    tmp_path: Path, arrays: dict[str, Any], facts: dict[str, Any], words: str
) -> None:
    assert words in rewritten(tmp_path, arrays, facts)


def test_a_missing_file_and_a_folder_without_a_policy_are_refused(tmp_path: Path) -> None:
    for path in (tmp_path / "nowhere", tmp_path):
        with pytest.raises(UserError, match="no policy"):
            load_policy(path)


def test_loading_and_using_a_policy_loads_no_training_code(tmp_path: Path) -> None:
    make().save(tmp_path / "p")
    program = (
        "import sys, nesht\n"
        "print(*nesht.load_policy(sys.argv[1])([1, 2, 3, 4, 5]))\n"
        "rooms = ('nesht.training', 'nesht.engines', 'nesht.strategy', 'nesht.cli')\n"
        "print(*[name for name in sys.modules if name.startswith(rooms)])\n"
        "print('torch' in sys.modules, 'mujoco' in sys.modules)\n"
    )
    command = [sys.executable, "-c", program, str(tmp_path / "p")]
    done = subprocess.run(command, capture_output=True, text=True, check=True)
    action, training, heavy = done.stdout.splitlines()
    assert action.split() == [str(value) for value in make()(np.arange(1.0, 6.0))]
    assert training == ""
    assert heavy == "False False"
