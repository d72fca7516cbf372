"""What the report says about the experiment `theory`: the paper's analysis beside what was measured."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import numpy as np

from nesht.experiments.statistics import mean
from nesht.experiments.theory import Measurements
from nesht.report.plots import Figure, drawn, select, values
from nesht.report.sections import Section, interval, table

Row = dict[str, Any]
GREY, BLUE, GREEN, RED = "#8a8f98", "#2d6cc0", "#1b8a6b", "#c4452d"
THETAS = {"dense, strong": RED, "dense, weak": "#c08a2d", "sparse": GREEN, "NES": GREY, "NESHT": BLUE, "ours": GREEN}
RULES = {"NES": GREY, "NESHT": BLUE, "with memory": GREEN}


def theory(found: Measurements) -> Section:
    """Return the part of the page about the analysis."""
    makers = {
        "variance": _variance,
        "hopper": _hopper,
        "convergence": _convergence,
        "example": _example,
        "example-variance": _example_variance,
    }
    parts: list[str | Figure] = []
    for name, make in makers.items():
        if name in found.parts:
            parts += make(found.parts[name])
    return Section("The analysis, measured", _lead(found), parts)


def _lead(found: Measurements) -> str:
    rows = select(found.parts.get("hopper", []), design="grafted")
    if not rows:
        return ""
    ratios = sorted({float(row["noise"]) for row in rows})

    def grows(kind: str, place: str) -> str:
        ends = (select(rows, theta=kind, at=place, noise=f"{ratio:g}") for ratio in (ratios[0], ratios[-1]))
        return " to ".join(f"{mean(values(end, 'variance')).value:,.0f}" for end in ends)

    return (
        f"From {ratios[0]:g} to {ratios[-1]:g} noise inputs per real one, the variance C of a return on Hopper goes "
        f"from {grows('dense, weak', 'policy')} at dense policies and from {grows('sparse', 'policy')} at the same "
        "policies without weights on noise. At the perturbed members around them, which are all that a gradient "
        f"estimate sees, it goes from {grows('dense, weak', 'members')} and from {grows('sparse', 'members')}."
    )


def _variance(rows: list[Row]) -> list[str | Figure]:
    names = {"n": "n, members", "rollouts": "N, rollouts of each", "sigma": "sigma", "d": "d, parameters"}
    steps = select(rows, problem="steps")

    def draw(panels: Any) -> None:
        for axes, (name, label) in zip(panels[0], names.items(), strict=True):
            here = select(steps, varied=name)
            x, measured, error = (np.array(values(here, column)) for column in (name, "measured", "error"))
            for column, colour, style, words in (
                ("paper", RED, "--", "bound as printed"),
                ("corrected", "#c08a2d", "--", "corrected bound"),
                ("exact", GREY, "-", "exact"),
            ):
                axes.plot(x, values(here, column), style, color=colour, lw=1.3, label=words)
            axes.errorbar(x, measured, 1.96 * error, fmt="o", ms=4, color=GREEN, label="measured")
            axes.set(xscale="log", yscale="log", xlabel=label)
        panels[0, 0].set_ylabel("E |g - gradient|$^2$")
        panels[0, 0].legend(frameon=False, fontsize=7)

    base = select(steps, varied="n")[0]
    caption = (
        "Mean squared error of the gradient estimate on a return with jumps (B = 1, C = 1), varied one at a time from "
        f"n = 32, N = {base['rollouts']}, sigma = {base['sigma']}, d = {base['d']}; 95 % intervals."
    )
    exact, measured, error = (np.array(values(steps, column)) for column in ("exact", "measured", "error"))
    inside = int((np.abs(measured - exact) <= 1.96 * error).sum())
    bias = np.array(values(steps, "bias")) / np.array(values(steps, "bias_error"))
    words = (
        f"<p>The measured variance agrees with the exact one in {inside} of {len(exact)} settings (95 % intervals); "
        f"the mean estimate lies {bias.min():.2f} to {bias.max():.2f} standard errors from the gradient. Where C / N "
        "dominates, the printed bound does not fall with n: its C / N should be C / (n N).</p>"
    )
    hopper = [
        [
            row["n"],
            row["rollouts"],
            *(f"{float(row[name]):.3g}" for name in ("measured", "error", "corrected", "paper")),
        ]
        for row in select(rows, problem="Hopper x10")
    ]
    head = ["n", "N", "measured", "standard error", "corrected bound", "bound as printed"]
    text = "<p>The same on Hopper with 10 noise inputs per real one, with B and C as measured around the policy:</p>"
    return [words, drawn("variance", caption, 1, 4, draw), text, table(head, hopper)]


def _curve(axes: Any, rows: Sequence[Row], x: str, y: str, colour: str, label: str, style: str = "-") -> None:
    """Draw the mean over rows with the same x, with its interval."""
    places = sorted({float(row[x]) for row in rows})
    found = [mean([float(row[y]) for row in rows if float(row[x]) == place]) for place in places]
    axes.plot(places, [each.value for each in found], style, marker="o", ms=3, lw=1.4, color=colour, label=label)
    if all(np.isfinite(each.low) for each in found):
        axes.fill_between(
            places, [each.low for each in found], [each.high for each in found], color=colour, alpha=0.18, lw=0
        )


LOOKS = (
    ("policy", "variance", "C at the policy itself"),
    ("members", "variance", "C at its perturbed members"),
    ("members", "share", "luck's share of members' differences"),
)
"""Where, which column, and the title of a panel."""


def _hopper(rows: list[Row]) -> list[str | Figure]:
    rows = [{**row, "share": _share(float(row["variance"]), float(row["signal"]))} for row in rows]
    designs = {name: select(rows, design=name) for name in ("grafted", "trained")}
    kinds = {"grafted": ("dense, strong", "dense, weak", "sparse"), "trained": ("NES", "NESHT", "ours")}
    captions = {
        "grafted": "Grafted: policies trained without noise get weights on noise inputs, none (sparse), as large as "
        "one perturbation (weak) or as their own (strong). Mean over policies, 95 % intervals. Where noise makes the "
        "robot fall at once, C falls again, and so does the return.",
        "trained": "Trained: every method's own policies after the same short training on the noisy task.",
    }
    parts: list[str | Figure] = []
    for name, here in designs.items():

        def draw(panels: Any, here: list[Row] = here, name: str = name) -> None:
            for axes, (place, column, title) in zip(panels[0], LOOKS, strict=True):
                for kind in kinds[name]:
                    _curve(axes, select(here, theta=kind, at=place), "noise", column, THETAS[kind], kind)
                narrow = select(here, theta="sparse", at="narrow members")
                if place == "members" and narrow:
                    _curve(axes, narrow, "noise", column, BLUE, "sparse, zeros perturbed\na quarter as far", "--")
                axes.set(title=title, xlabel="noise inputs per real input")
                if column == "variance":
                    axes.set_yscale("log")
            for axes in panels[0, :2]:
                axes.legend(frameon=False, fontsize=7)

        if here:
            parts += [drawn(f"hopper-{name}", captions[name], 1, 3, draw), _table(here, kinds[name])]
    return parts


def _share(luck: float, signal: float) -> float:
    """Return how much of the differences between the fitness of members, one episode each, is luck."""
    return luck / (luck + max(signal, 0.0)) if luck else 0.0


def _table(rows: Sequence[Row], kinds: Sequence[str]) -> str:
    places = ("policy", "members")
    head = ["noise", *(f"{kind}: at the {place}" for place in places for kind in kinds)]
    body = []
    for ratio in sorted({float(row["noise"]) for row in rows}):
        here = select(rows, noise=f"{ratio:g}")
        cells = [mean(values(select(here, theta=kind, at=place), "variance")) for place in places for kind in kinds]
        body.append([f"x{ratio:g}", *(interval(cell) for cell in cells)])
    return table(head, body)


STARTS = {"right support": "on the right support", "zero": "at zero"}


def _convergence(rows: list[Row]) -> list[str | Figure]:
    steps = ("paper", "corrected")
    words = {"paper": "step as printed", "corrected": "corrected step"}

    def draw(panels: Any) -> None:
        for axes, start in zip(panels[0], ("right support", "zero"), strict=True):
            for name, colour in zip(steps, (RED, GREEN), strict=True):
                here = select(rows, start=start, step=name)
                _curve(axes, here, "generations", "mean_square", colour, words[name])
                one = select(here, seed=here[0]["seed"])
                x, bound = (values(one, column) for column in ("generations", "bound"))
                axes.plot(x, bound, "--", color=colour, lw=1, label="its bound")
            axes.set(xscale="log", yscale="log", xlabel="T, generations", title=f"started {STARTS[start]}")
        panels[0, 0].set_ylabel("mean squared distance to stationarity")
        panels[0, 0].legend(frameon=False, fontsize=7)

    caption = "Mean over the first T iterates of the squared distance to stationarity, NESHT on a return with jumps."
    body = []
    for start in ("right support", "zero"):
        for name in steps:
            here = select(rows, start=start, step=name)
            last = max(values(here, "generations"))
            end = [row for row in here if float(row["generations"]) == last]
            numbers = [mean(values(end, column)) for column in ("mean_square", "right_at_end", "value_at_end")]
            cells = [interval(number, digits) for number, digits in zip(numbers, (4, 1, 2), strict=True)]
            body.append([STARTS[start], words[name], f"{_slope(here):.2f}", *cells, f"{values(end, 'bound')[0]:.3g}"])
    head = ["started", "step size", "slope of the end", "mean square", "right of 4 kept", "smoothed return", "bound"]
    text = (
        "<p>The theorem says that the mean square falls like 1 / T (slope -1) down to what the variance leaves. A "
        "point with k nonzero weights counts as stationary when the gradient on these vanishes, whatever it is on the "
        "others, which is not the same as a good policy: compare how many relevant weights are kept.</p>"
    )
    return [text, drawn("convergence", caption, 1, 2, draw), table(head, body)]


def _slope(rows: Sequence[Row]) -> float:
    """Return the slope of the mean square over the last third of the generations, on log axes."""
    last = max(values(rows, "generations"))
    end = sorted({float(row["generations"]) for row in rows if float(row["generations"]) >= last / 3})
    means = [np.mean([float(row["mean_square"]) for row in rows if float(row["generations"]) == t]) for t in end]
    return float(np.polyfit(np.log(end), np.log(means), 1)[0])


def _example(rows: list[Row]) -> list[str | Figure]:
    def draw(panels: Any) -> None:
        for axes, (column, title) in zip(
            panels[0],
            (("error", "squared distance left, 1 at the start"), ("right", "relevant coordinates kept, of 5")),
            strict=True,
        ):
            for method, colour in RULES.items():
                _curve(axes, select(rows, method=method), "irrelevant", column, colour, method)
            axes.set(title=title, xlabel="irrelevant coordinates")
        panels[0, 0].set_yscale("log")
        panels[0, 0].legend(frameon=False)

    caption = (
        "Example 1 with 5 relevant coordinates and a curve of 1 (as printed it has nothing to learn), as many episodes "
        "for all, each with the best of five step sizes; 95 % intervals over seeds."
    )
    return [drawn("example", caption, 1, 2, draw)]


def _example_variance(rows: list[Row]) -> list[str | Figure]:
    head = ["irrelevant", "theta", "at", "closed form", "measured"]
    body = [
        [
            row["irrelevant"],
            row["theta"],
            row["at"],
            row["exact"],
            f"{float(row['measured']):.4g} <small>± {1.96 * float(row['error']):.2g}</small>",
        ]
        for row in rows
    ]
    text = "<p>The variance of an episode in Example 1, dense and 5-sparse policies in [-1, 1]:</p>"
    return [text, table(head, body)]
