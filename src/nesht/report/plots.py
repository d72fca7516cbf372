"""Figures of the experiments, drawn from raw results: each as SVG for the page, and as SVG and PNG files."""

from __future__ import annotations

import io
from collections.abc import Callable, Iterable, Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np

from nesht.errors import UserError
from nesht.experiments.statistics import mean, mean_curves
from nesht.tasks.locomotion import LOCOMOTION

Row = dict[str, Any]
COLOURS = {"NES": "#8a8f98", "NES-L1": "#c08a2d", "NESHT": "#2d6cc0", "ours": "#1b8a6b"}
COLOURS |= {"TRPO": "#b05c9c", "DDPG": "#7a5cc0", "TD3": "#c4452d", "ANF-SAC": "#5c7a1b", "A2C": "#2b9aa8"}
POINTS = 40
"""Points of a learning curve."""


@dataclass(frozen=True)
class Figure:
    """A picture with a name for its files and a sentence that says what it shows."""

    name: str
    caption: str
    svg: str
    png: bytes


def drawn(name: str, caption: str, rows: int, columns: int, draw: Callable[[Any], None], height: float = 2.6) -> Figure:
    """Make a figure of rows x columns panels and let `draw` fill them, (rows, columns)."""
    try:
        import matplotlib as mpl
        from matplotlib.figure import Figure as Canvas
    except ImportError:
        raise UserError("a report needs `pip install 'nesht[plot]'`.") from None
    style: dict[str, Any] = {"font.size": 9, "axes.spines.top": False, "axes.spines.right": False, "axes.grid": True}
    style |= {"grid.alpha": 0.25, "svg.fonttype": "path", "svg.hashsalt": name, "axes.titlesize": 9}
    with mpl.rc_context(style):
        canvas = Canvas(figsize=(9.5, 0.6 + height * rows), layout="constrained")
        draw(canvas.subplots(rows, columns, squeeze=False))
        svg, png = io.StringIO(), io.BytesIO()
        canvas.savefig(svg, format="svg", metadata={"Date": None})
        canvas.savefig(png, format="png", dpi=140)
    text = svg.getvalue()
    return Figure(name, caption, text[text.index("<svg") :], png.getvalue())


def select(rows: Iterable[Row], **labels: Any) -> list[Row]:
    """Return the rows with these labels."""
    return [row for row in rows if all(str(row.get(name, "")) == str(value) for name, value in labels.items())]


def values(rows: Iterable[Row], name: str) -> list[float]:
    """Return the numbers of a column, without empty ones."""
    return [float(row[name]) for row in rows if row.get(name) not in ("", None)]


def with_recovery(evaluations: Iterable[Row]) -> list[Row]:
    """Return evaluations with `recovery`: kept real inputs out of as many as could be kept."""
    reals = {env: len(body.feature_names()) for env, body in LOCOMOTION.items()}
    rows = []
    for row in evaluations:
        most = min(int(row.get("features_used") or 0), reals.get(row["env"], 0))
        rows.append({**row, "recovery": int(row["real_features_used"]) / most if most else ""})
    return rows


def over_steps(evaluations: Sequence[Row], name: str) -> tuple[np.ndarray, np.ndarray, np.ndarray, np.ndarray]:
    """Return (steps, mean, low, high) of a measure over training: runs are read off at equal steps, then averaged."""
    runs: dict[str, list[tuple[float, float]]] = {}
    for row in evaluations:
        if row.get(name) not in ("", None):
            runs.setdefault(row["seed"], []).append((float(row["steps"]), float(row[name])))
    if not runs:
        return (np.array([]),) * 4
    steps = np.linspace(0, min(max(step for step, _ in run) for run in runs.values()), POINTS)
    return steps, *mean_curves(np.array([np.interp(steps, *np.array(sorted(run)).T) for run in runs.values()]))


def band(
    axes: Any, method: str, x: np.ndarray, middle: np.ndarray, low: np.ndarray, high: np.ndarray, *, colour: str = "C0"
) -> None:
    """Draw a curve with its interval, in the colour of the method if it has one."""
    colour, name = COLOURS.get(method, colour), method.replace("$", r"\$")  # which would begin a formula
    name = f" {name}" if name.startswith("_") else name  # which would hide it
    axes.plot(x, middle, color=colour, label=name, lw=1.4)
    axes.fill_between(x, low, high, color=colour, alpha=0.18, lw=0)


def curves(evaluations: Sequence[Row], measure: str, name: str, caption: str) -> Figure:
    """Draw a measure over training: a panel per environment and noise ratio, a curve per method."""
    groups: dict[tuple[str, str, str], list[Row]] = {}
    for row in evaluations:
        groups.setdefault((row["env"], str(row["noise"]), row["method"]), []).append(row)
    envs, noises, methods = (list(dict.fromkeys(label)) for label in zip(*groups, strict=True))
    envs, noises = sorted(envs), sorted(noises, key=float)

    def draw(panels: Any) -> None:
        for i, env in enumerate(envs):
            for j, noise in enumerate(noises):
                axes = panels[i, j]
                axes.set_visible((env, noise) in {label[:2] for label in groups})
                for number, method in enumerate(methods):
                    x, *rest = over_steps(groups.get((env, noise, method), []), measure)
                    if len(x):
                        band(axes, method, x / 1e6, *rest, colour=f"C{number}")
                axes.set_title(f"{env}, x{noise} noise", loc="left")
                if i == len(envs) - 1:
                    axes.set_xlabel("million environment steps")
        named = [axes.get_legend_handles_labels() for axes in panels.flat]
        what = {label: line for lines, labels in named for line, label in zip(lines, labels, strict=True)}
        place = {"loc": "outside upper left", "ncols": len(what), "frameon": False}
        panels[0, 0].figure.legend(list(what.values()), list(what), **place)

    return drawn(name, caption, len(envs), len(noises), draw, 2.2)


def heatmaps(evaluations: Sequence[Row], name: str, caption: str) -> Figure:
    """Draw the weight norm of every stretch of inputs against training, a panel per method (its first seed)."""
    methods = list(dict.fromkeys(row["method"] for row in evaluations))

    def draw(panels: Any) -> None:
        for axes, method in zip(panels[0], methods, strict=True):
            rows = select(evaluations, method=method)
            rows = select(rows, seed=rows[0]["seed"])
            norms = np.array([[float(part) for part in row["segments"].split()] for row in rows]).T
            steps = values(rows, "steps")
            axes.grid(visible=False)
            shade = axes.pcolormesh(
                np.array(steps) / 1e6, np.arange(len(norms)), norms, cmap="viridis", shading="nearest"
            )
            axes.set(title=f"{method}, seed {rows[0]['seed']}", xlabel="million environment steps")
            axes.set_yticks(range(len(norms)), ["real", *(f"noise {i}" for i in range(1, len(norms)))])
            axes.figure.colorbar(shade, ax=axes, shrink=0.8)

    return drawn(name, caption, 1, len(methods), draw, 3.2)


def lines(
    runs: Sequence[Row], x: str, split: str, name: str, caption: str, *, of: Sequence[str], x_label: str
) -> Figure:
    """Draw the score against a label x, a panel per environment, a line per value of the label `split`."""
    envs = sorted({row["env"] for row in runs})

    def draw(panels: Any) -> None:
        for axes, env in zip(panels[0], envs, strict=True):
            for each in of:
                rows = [row for row in select(runs, env=env, **{split: each}) if row.get(x) not in ("", None)]
                places = sorted({float(row[x]) for row in rows})
                found = [mean(values([row for row in rows if float(row[x]) == place], "score")) for place in places]
                middle = np.array([e.value for e in found])
                low, high = (np.array([getattr(e, part) for e in found]) for part in ("low", "high"))
                if places:
                    finite = np.isfinite(low)
                    band(
                        axes,
                        each,
                        np.array(places),
                        middle,
                        np.where(finite, low, middle),
                        np.where(finite, high, middle),
                    )
            axes.set(title=env, xlabel=x_label)
        panels[0, 0].set_ylabel("score")
        panels[0, 0].legend(frameon=False)

    return drawn(name, caption, 1, len(envs), draw)
