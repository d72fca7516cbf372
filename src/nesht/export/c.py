"""C: one header for a microcontroller, in single precision; no allocation, no library but the compiler's own."""

from __future__ import annotations

import json
import re
from collections.abc import Iterable, Sequence
from dataclasses import replace
from textwrap import fill, indent

import numpy as np

from nesht import __version__
from nesht.errors import UserError
from nesht.export.controller import Controller, Layer
from nesht.policies.limits import Limits

WIDTH = 100


def to_c(controller: Controller, name: str) -> bytes:
    """Return a header whose names all begin with a name: NAME_act takes the inputs and gives the action."""
    if controller.screen is not None:
        raise UserError("a policy for screens is not written as C; use --format onnx or torchscript.")
    name = re.sub(r"\W", "_", name, flags=re.ASCII)
    name = f"policy_{name}" if not name[:1].isalpha() else name
    single = [Layer(layer.weight.astype(np.float32), layer.bias.astype(np.float32)) for layer in controller.layers]
    controller = replace(controller, layers=single)
    parts = [
        _opening(controller, name),
        f"#ifndef {name.upper()}_H\n#define {name.upper()}_H\n",
        "#include <math.h>\n#include <stdint.h>\n" if _bends(controller) else "#include <stdint.h>\n",
        _enumeration(controller, name),
        *(_arrays(layer, f"{name}_", number) for number, layer in enumerate(controller.layers)),
        *(_limits(controller.limits, f"{name}_") if controller.limits is not None else ()),
        _function(controller, name),
        "#endif\n",
    ]
    return "\n".join(parts).encode()


def _opening(controller: Controller, name: str) -> str:
    """Return the comment that says what this is and how it is called."""
    upper = name.upper()
    first = _constants(controller.names, f"{upper}_INPUT_")[0]
    lines = [
        f"/* A policy for {_quoted(controller.env)}; reads {len(controller.names)} of {controller.features} inputs.",
        f"Written by nesht {__version__}.",
        "",
        f"    float input[{upper}_INPUTS];",
        f"    input[{first}] = ...;",
    ]
    if controller.discrete:
        lines += [
            f"    int action = {name}_act(input);",
            "",
            f"The action is a number from 0 to {controller.outputs - 1}.",
        ]
    else:
        lines += [
            f"    float action[{upper}_ACTIONS];",
            f"    {name}_act(input, action);",
            "",
            "Actions are not clipped: do that as the environment of the training did."
            if controller.limits is None
            else "Actions are within the bounds of the environment's.",
        ]
    end = "Inputs are as the sensors give them: the normaliser, if there was one, is in the weights. */\n"
    return "\n".join([*lines, end])


def _enumeration(controller: Controller, name: str) -> str:
    upper = name.upper()
    constants = _constants(controller.names, f"{upper}_INPUT_")
    lines = [
        f"    {constant} = {place}, /* {_quoted(text)}, index {index} in training */"
        for place, (constant, text, index) in enumerate(
            zip(constants, controller.names, controller.indices, strict=True)
        )
    ]
    sizes = f"    {upper}_INPUTS = {len(constants)},\n    {upper}_ACTIONS = {controller.outputs}"
    return "\n".join(["/* The inputs, in order. */", "enum {", *lines, sizes, "};\n"])


def _constants(names: Sequence[str], prefix: str) -> list[str]:
    """Return a name for C for every input, no two alike."""
    found: list[str] = []
    for name in names:
        word = prefix + re.sub(r"\W+", "_", name, flags=re.ASCII).strip("_").upper()
        while word in found:
            word += "_"
        found.append(word)
    return found


def _quoted(text: str) -> str:
    """Return a text that cannot end or begin a comment."""
    return json.dumps(text).replace("*/", "* /").replace("/*", "/ *")


def _sparse(layer: Layer) -> tuple[str, str] | None:
    """Return the types of (columns, row starts) if it takes less room to store only what is not zero."""
    nonzeros = int(np.count_nonzero(layer.weight))
    columns, starts = _unsigned(layer.weight.shape[1] - 1), _unsigned(nonzeros)
    room = nonzeros * (32 + columns) + (len(layer.weight) + 1) * starts
    smaller = nonzeros > 0 and room < 32 * layer.weight.size
    return (f"uint{columns}_t", f"uint{starts}_t") if smaller else None


def _unsigned(largest: int) -> int:
    """Return the bits of the smallest unsigned type that holds a number."""
    return next(bits for bits in (8, 16, 32) if largest < 2**bits)


def _arrays(layer: Layer, prefix: str, number: int) -> str:
    weight, found = layer.weight, []
    if (types := _sparse(layer)) is None:
        found.append(_array("float", f"{prefix}weight{number}", weight.ravel()))
    else:
        rows, columns = np.nonzero(weight)
        starts = np.searchsorted(rows, np.arange(len(weight) + 1))
        found.append(_array("float", f"{prefix}weight{number}", weight[rows, columns]))
        found.append(_array(types[0], f"{prefix}column{number}", columns))
        found.append(_array(types[1], f"{prefix}start{number}", starts))
    return "\n".join([*found, _array("float", f"{prefix}bias{number}", layer.bias), ""])


def _bends(controller: Controller) -> bool:
    """Whether a tanh is needed."""
    limits = controller.limits
    return (len(controller.layers) > 1 and not controller.relu) or (limits is not None and limits.bend)


def _limits(limits: Limits, prefix: str) -> list[str]:
    sides = {"low": limits.low, "high": limits.high}
    return [_array("float", f"{prefix}{name}", np.array(side, np.float32)) + "\n" for name, side in sides.items()]


def _array(kind: str, name: str, values: Iterable[np.floating | np.integer]) -> str:
    end = "f" if kind == "float" else ""
    words = [f"{value!s}{end}" for value in values]  # str: as few digits as single precision needs
    body = indent(fill(", ".join(words), WIDTH, break_on_hyphens=False), "    ")
    return f"static const {kind} {name}[{len(words)}] = {{\n{body}\n}};"


def _function(controller: Controller, name: str) -> str:
    result, arguments = ("int", "") if controller.discrete else ("void", ", float *action")
    lines = [f"static inline {result} {name}_act(const float *input{arguments}) {{"]
    source, last = "input", len(controller.layers) - 1
    for number, layer in enumerate(controller.layers):
        target = "action" if number == last and not controller.discrete else f"x{number}"
        if target != "action":
            lines.append(f"    float {target}[{len(layer.bias)}];")
        between = "sum > 0.0f ? sum : 0.0f" if controller.relu else "tanhf(sum)"
        lines += _layer(layer, name, number, source, target, between if number < last else "sum")
        source = target
    if controller.limits is not None:
        lines += _limited(controller, name, source)
    if controller.discrete:
        lines += [
            "    int best = 0;",
            f"    for (int i = 1; i < {controller.outputs}; ++i) {{",
            f"        if ({source}[i] > {source}[best]) best = i;",
            "    }",
            "    return best;",
        ]
    return "\n".join([*lines, "}\n"])


def _layer(layer: Layer, name: str, number: int, source: str, target: str, out: str) -> list[str]:
    rows, columns = layer.weight.shape
    weight, start = f"{name}_weight{number}", f"{name}_start{number}"
    loop, at = (
        (f"for (int j = 0; j < {columns}; ++j)", f"{weight}[i * {columns} + j] * {source}[j]")
        if _sparse(layer) is None
        else (
            f"for (uint32_t j = {start}[i]; j < {start}[i + 1]; ++j)",
            f"{weight}[j] * {source}[{name}_column{number}[j]]",
        )
    )
    return [
        f"    for (int i = 0; i < {rows}; ++i) {{",
        f"        float sum = {name}_bias{number}[i];",
        f"        {loop} sum += {at};",
        f"        {target}[i] = {out};",
        "    }",
    ]


def _limited(controller: Controller, name: str, what: str) -> list[str]:
    assert controller.limits is not None
    x, low, high = f"{what}[i]", f"{name}_low[i]", f"{name}_high[i]"
    bent = f"{low} + ({high} - {low}) * (0.5f * tanhf({x}) + 0.5f)"
    cut = f"{x} < {low} ? {low} : {x} > {high} ? {high} : {x}"
    out = bent if controller.limits.bend else cut
    return [f"    for (int i = 0; i < {controller.outputs}; ++i) {what}[i] = {out};"]
