"""Exported policies act as ours do, in every format, and read nothing but the inputs that are used."""

from __future__ import annotations

import io
import json
import re
import subprocess
import sys
from collections.abc import Callable
from pathlib import Path
from typing import Any

import numpy as np
import pytest

from nesht.errors import UserError
from nesht.export import FORMATS, export_policy
from nesht.policies import ConvNet, Moments, Network, Normaliser, Policy
from nesht.policies.limits import Limits

INPUTS, OUTPUTS, ROWS = 40, 3, 10_000
SHAPES = [
    {"hidden": hidden, "sparse": sparse, "normalise": normalise, "discrete": discrete, "bias": bias}
    for hidden in ((), (16, 8))
    for sparse in (False, True)
    for normalise in (False, True)
    for discrete, bias in ((False, True), (True, True), (False, False))
]
LEARNERS = [
    {"hidden": (16, 8), "sparse": True, "normalise": True, "discrete": False, "bias": True, "relu": relu, "bend": bend}
    for relu in (False, True)
    for bend in (False, True)
]


def make(
    hidden: tuple[int, ...],
    sparse: bool,
    normalise: bool,
    discrete: bool,
    bias: bool,
    relu: bool = False,
    bend: bool | None = None,
) -> Policy:
    """Return a policy with random weights; if sparse, with eight inputs, and a third of the weights that read them.

    Actions are kept between limits if `bend` says how.
    """
    limits = None if bend is None else Limits((-1.0, -2.0, 0.0), (1.0, 0.5, 3.0), bend)
    network = Network(INPUTS, OUTPUTS, hidden, bias, discrete, relu, limits)
    rng = np.random.default_rng(0)
    parameters = rng.standard_normal(network.size) * (1 if limits is None else 0.4)
    if sparse:
        weights = network.input_weights(parameters[None])
        weights[:, :, 8:] = 0
        weights *= rng.random(weights.shape) < 1 / 3
        weights[:, 0, :8] = 1  # so that all eight are read
    moments = Moments(np.array(50.0), 3 * rng.standard_normal(INPUTS), 50 * rng.uniform(0.1, 4, INPUTS))
    names = [f"sensor {i}" for i in range(INPUTS)]
    return Policy(network, parameters, moments, normalise, names, {"env": "Plant-v0", "n_real": INPUTS})


def observations(policy: Policy) -> np.ndarray:
    """Return random observations, spread as in training, in single precision as a controller would have them."""
    normal = np.random.default_rng(1).standard_normal((ROWS, INPUTS))
    return (policy.moments.mean + policy.moments.std * normal).astype(np.float32)


def outputs(policy: Policy, seen: np.ndarray) -> np.ndarray:
    rows = Normaliser.of(policy.moments)(seen) if policy.normalise else seen.astype(float)
    assert isinstance(policy.network, Network)
    return policy.network.forward(np.broadcast_to(policy.parameters, (len(rows), policy.network.size)), rows)


def run_onnx(file: Path, inputs: np.ndarray) -> np.ndarray:
    import onnxruntime

    session = onnxruntime.InferenceSession(file, providers=["CPUExecutionProvider"])
    return np.asarray(session.run(["action"], {"observation": inputs})[0])


def run_npz(file: Path, inputs: np.ndarray) -> np.ndarray:
    data = np.load(file, allow_pickle=False)
    x = inputs.T.astype(float)
    for i in range(int(data["layers"])):
        between = (np.maximum(x, 0) if data["relu"] else np.tanh(x)) if i else x
        x = data[f"weight{i}"] @ between + data[f"bias{i}"][:, None]
    if "low" in data:
        low, high = data["low"][:, None], data["high"][:, None]
        x = low + (high - low) * (0.5 * np.tanh(x) + 0.5) if data["bend"] else np.clip(x, low, high)
    return np.asarray(np.argmax(x, axis=0) if data["discrete"] else x.T)


def run_torchscript(file: Path, inputs: np.ndarray) -> np.ndarray:
    import torch

    return np.asarray(torch.jit.load(file)(torch.from_numpy(inputs)))


PROGRAM = """
#include <stdio.h>
#include "policy.h"
int main(void) {
    float input[POLICY_INPUTS];
    while (fread(input, sizeof(float), POLICY_INPUTS, stdin) == POLICY_INPUTS) {
        CALL
        fwrite(action, sizeof(float), COUNT, stdout);
    }
    return 0;
}
"""
CALLS = {
    True: ("float action[1]; action[0] = (float)policy_act(input);", "1"),
    False: ("float action[POLICY_ACTIONS]; policy_act(input, action);", "POLICY_ACTIONS"),
}


def run_c(file: Path, inputs: np.ndarray) -> np.ndarray:
    discrete = "int policy_act" in file.read_text()
    call, count = CALLS[discrete]
    source, program = file.with_name("main.c"), file.with_name("main")
    source.write_text(PROGRAM.replace("CALL", call).replace("COUNT", count))
    strict = ["-std=c99", "-O1", "-Wall", "-Wextra", "-Wpedantic", "-Wconversion", "-Werror"]
    subprocess.run(["cc", *strict, "-o", program, source, "-lm"], check=True)
    done = subprocess.run([program], input=np.ascontiguousarray(inputs).tobytes(), capture_output=True, check=True)
    action = np.frombuffer(done.stdout, np.float32).reshape(len(inputs), -1)
    return action[:, 0] if discrete else action


RUN: dict[str, Callable[[Path, np.ndarray], np.ndarray]] = {
    "onnx": run_onnx,
    "npz": run_npz,
    "c": run_c,
    "torchscript": run_torchscript,
}
assert RUN.keys() == FORMATS.keys()


def exported(policy: Policy, kind: str, folder: Path) -> tuple[Path, list[int]]:
    file = folder / f"policy{FORMATS[kind].suffix}"
    controller = export_policy(policy, kind, file)
    return file, controller.indices.tolist()


@pytest.mark.parametrize("kind", FORMATS)
@pytest.mark.parametrize("options", [*SHAPES, *LEARNERS], ids=lambda o: "-".join(str(value) for value in o.values()))
def test_an_exported_policy_acts_as_ours(tmp_path: Path, options: dict[str, Any], kind: str) -> None:
    policy = make(**options)
    seen = observations(policy)
    file, read = exported(policy, kind, tmp_path)
    assert read == (list(range(8)) if options["sparse"] else list(range(INPUTS)))
    found, expected = RUN[kind](file, seen[:, read]), policy(seen)
    assert found.shape == expected.shape
    raw = outputs(policy, seen)
    tolerance = 1e-5 * np.abs(raw).max() if FORMATS[kind].precision is np.float32 else 1e-13 * np.abs(raw).max()
    if policy.network.discrete:  # in single precision, outputs that are all but equal may change places
        best = np.sort(raw, axis=1)
        clear = best[:, -1] - best[:, -2] > tolerance
        assert clear.mean() > 0.99
        assert (found[clear] == expected[clear]).all()
    else:
        assert np.abs(found - expected).max() < tolerance


def facts_of(kind: str, file: Path) -> dict[str, Any]:
    """Return the facts that a file carries beside its weights."""
    if kind == "onnx":
        import onnx

        return json.loads({each.key: each.value for each in onnx.load(file).metadata_props}["nesht"])
    if kind == "torchscript":
        import torch

        extra = {"inputs.json": ""}
        torch.jit.load(io.BytesIO(file.read_bytes()), _extra_files=extra)
        return json.loads(extra["inputs.json"])
    data = np.load(file, allow_pickle=False)
    facts = json.loads(str(data["facts"]))
    assert [each["name"] for each in facts["inputs"]] == data["names"].tolist()
    assert [each["index"] for each in facts["inputs"]] == data["indices"].tolist()
    return facts


SPARSE = {"hidden": (), "sparse": True, "normalise": True, "discrete": False, "bias": True}


@pytest.mark.parametrize("kind", sorted(FORMATS.keys() - {"c"}))
def test_a_file_says_which_inputs_to_read(tmp_path: Path, kind: str) -> None:
    policy = make(**SPARSE)
    file, _ = exported(policy, kind, tmp_path)
    facts = facts_of(kind, file)
    assert facts["inputs"] == [{"name": f"sensor {i}", "index": i} for i in range(8)]
    assert (facts["env"], facts["features"], facts["outputs"]) == ("Plant-v0", INPUTS, OUTPUTS)


NASTY = ["angle */ int x;", "angle", "ängle", "1", "inputs", "", 'a"b\\', "angle\n#error", "/* angle"]


def test_the_header_names_its_inputs_whatever_they_are_called(tmp_path: Path) -> None:
    made = make(**SPARSE)
    names = [*NASTY, *made.feature_names[len(NASTY) :]]
    policy = Policy(made.network, made.parameters, made.moments, True, names, made.task)
    policy.network.input_weights(policy.parameters[None])[:, :, : len(NASTY)] = 1.0
    file, read = exported(policy, "c", tmp_path)
    seen = observations(policy)[:, read]
    assert run_c(file, seen).shape == (ROWS, OUTPUTS)  # it compiles, without a warning
    constants = re.findall(r"^    (POLICY_INPUT_\w*) = (\d+)", file.read_text(), re.MULTILINE)
    assert len({name for name, _ in constants}) == len(read)
    assert [int(place) for _, place in constants] == list(range(len(read)))


def test_the_names_in_a_header_begin_with_the_name_of_the_file(tmp_path: Path) -> None:
    policy = make(**SPARSE)
    for file, name in (("left-leg.h", "left_leg"), ("2nd.h", "policy_2nd")):
        export_policy(policy, "c", tmp_path / file)
        text = (tmp_path / file).read_text()
        assert f"void {name}_act(" in text
        assert f"#ifndef {name.upper()}_H" in text


def test_zeros_are_stored_only_where_that_is_smaller(tmp_path: Path) -> None:
    sizes = {}
    for sparse in (False, True):
        policy = make(**{**SPARSE, "sparse": sparse, "hidden": (16,)})
        export_policy(policy, "c", tmp_path / "policy.h")
        text = (tmp_path / "policy.h").read_text()
        sizes[sparse] = int(re.findall(r"policy_weight0\[(\d+)\]", text)[0])
        assert ("policy_column0" in text) == sparse
        assert "policy_column1" not in text
    assert sizes[False] == 16 * INPUTS
    assert sizes[True] == np.count_nonzero(policy.input_weights) < 16 * 8


@pytest.mark.parametrize("kind", sorted(FORMATS.keys() - {"torchscript"}))  # torch numbers the modules it traces
def test_the_same_policy_gives_the_same_file(tmp_path: Path, kind: str) -> None:
    first, second = (exported(make(**SPARSE), kind, tmp_path)[0].read_bytes() for _ in range(2))
    assert first == second


def screens() -> tuple[Policy, np.ndarray]:
    network = ConvNet(28, 28, 4, 6)
    parameters = network.initial(3)
    rng = np.random.default_rng(0)
    network.input_weights(parameters[None])[:, :, rng.random(network.inputs) < 0.9] = 0
    moments = Moments(np.array(0.0), np.zeros(network.inputs), np.zeros(network.inputs))
    policy = Policy(network, parameters, moments, False, network.names, {"env": "ALE/Qbert-v5", "n_real": 1})
    return policy, rng.integers(0, 256, (500, 4, 28, 28), dtype=np.uint8)


@pytest.mark.parametrize("kind", ["onnx", "torchscript"])
def test_a_policy_for_screens_acts_as_ours(tmp_path: Path, kind: str) -> None:
    policy, seen = screens()
    found = RUN[kind](exported(policy, kind, tmp_path)[0], seen)
    network = policy.network
    assert isinstance(network, ConvNet)
    weights = network.weights(policy.parameters[None])
    raw = np.concatenate([network.forward(weights, screen[None]) for screen in seen])
    best = np.sort(raw, axis=1)
    clear = best[:, -1] - best[:, -2] > 1e-4 * np.abs(raw).max()
    assert clear.mean() > 0.9
    assert (found[clear] == policy(seen)[clear]).all()
    assert len(set(found.tolist())) > 1
    assert facts_of(kind, tmp_path / f"policy{FORMATS[kind].suffix}")["screen"] == [4, 28, 28]


@pytest.mark.parametrize("kind", ["npz", "c"])
def test_a_policy_for_screens_is_refused_where_it_makes_no_sense(tmp_path: Path, kind: str) -> None:
    with pytest.raises(UserError, match="use --format onnx or torchscript"):
        exported(screens()[0], kind, tmp_path)
    assert not list(tmp_path.iterdir())


@pytest.mark.parametrize(
    ("change", "words"), [(0.0, "reads no input"), (np.nan, "not finite"), (1e39, "single precision")]
)
def test_a_policy_that_cannot_be_exported_gets_a_sentence(tmp_path: Path, change: float, words: str) -> None:
    made = make(**{**SPARSE, "normalise": False})
    parameters = np.full_like(made.parameters, change)
    policy = Policy(made.network, parameters, made.moments, False, made.feature_names, made.task)
    with pytest.raises(UserError, match=words):
        export_policy(policy, "npz", tmp_path / "policy.npz")


@pytest.mark.parametrize(("kind", "package"), [("onnx", "onnx"), ("torchscript", "torch")])
def test_a_missing_package_gets_a_sentence(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, kind: str, package: str
) -> None:
    monkeypatch.setitem(sys.modules, package, None)
    with pytest.raises(UserError, match=rf"pip install 'nesht\[{package}\]'"):
        exported(make(**SPARSE), kind, tmp_path)
    assert not list(tmp_path.iterdir())


def test_an_unknown_format_and_a_folder_are_refused(tmp_path: Path) -> None:
    with pytest.raises(UserError, match="use one of onnx, npz, c, torchscript"):
        export_policy(make(**SPARSE), "pickle", tmp_path / "policy.pickle")
    with pytest.raises(UserError, match="is a folder"):
        export_policy(make(**SPARSE), "npz", tmp_path)
