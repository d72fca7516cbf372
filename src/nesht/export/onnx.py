"""ONNX, in single precision, made of a handful of operators that every runtime has; needs no torch."""

from __future__ import annotations

from typing import Any

import numpy as np

from nesht.errors import UserError
from nesht.export.controller import Controller

OPSET, IR = 17, 8
"""Of 2022: old enough for the runtimes that are on devices."""


def to_onnx(controller: Controller) -> bytes:
    """Return a model with one input, a batch of observations, and one output, `action`."""
    try:
        import onnx
        from onnx import TensorProto, helper, numpy_helper
    except ImportError:
        raise UserError("exporting to ONNX needs `pip install 'nesht[onnx]'`.") from None
    nodes: list[Any] = []
    constants: list[Any] = []
    screen = controller.screen is not None
    source = "observation"

    def add(operator: str, *inputs: str, **attributes: object) -> str:
        made = f"{operator.lower()}{len(nodes)}"
        nodes.append(helper.make_node(operator, inputs, [made], **attributes))
        return made

    def constant(name: str, values: np.ndarray) -> str:
        constants.append(numpy_helper.from_array(values.astype(np.float32), name))
        return name

    if screen:
        source = add("Cast", source, to=TensorProto.FLOAT)
    for number, layer in enumerate(controller.layers):
        if number:
            source = add("Relu" if controller.relu else "Tanh", source)
        names = f"weight{number}", f"bias{number}"
        for name, values in zip(names, (layer.weight, layer.bias), strict=True):
            constant(name, values)
        if layer.stride:
            source = add("Conv", source, *names, strides=[layer.stride] * 2)
        else:
            flat = add("Flatten", source) if screen else source
            source = add("Gemm", flat, *names, transB=1)
    if (limits := controller.limits) is not None:
        low, high = np.array(limits.low), np.array(limits.high)
        if limits.bend:
            reach = add("Mul", add("Tanh", source), constant("reach", (high - low) / 2))
            source = add("Add", reach, constant("middle", (high + low) / 2))
        else:
            source = add("Min", add("Max", source, constant("low", low)), constant("high", high))
    if controller.discrete:
        source = add("ArgMax", source, axis=1, keepdims=0)
    nodes[-1].output[0] = "action"

    shape = ["batch", *(controller.screen or [len(controller.names)])]
    observed = helper.make_tensor_value_info("observation", TensorProto.UINT8 if screen else TensorProto.FLOAT, shape)
    acted = (
        helper.make_tensor_value_info("action", TensorProto.INT64, ["batch"])
        if controller.discrete
        else helper.make_tensor_value_info("action", TensorProto.FLOAT, ["batch", controller.outputs])
    )
    graph = helper.make_graph(nodes, "policy", [observed], [acted], constants)
    opset = helper.make_opsetid("", OPSET)
    model = helper.make_model(graph, opset_imports=[opset], ir_version=IR, producer_name="nesht")
    helper.set_model_props(model, {"nesht": controller.facts()})
    onnx.checker.check_model(model, full_check=True)
    return bytes(model.SerializeToString(deterministic=True))
