"""One picture of a run or a fleet: how the score grew, and which inputs were kept."""

from __future__ import annotations

from pathlib import Path
from typing import Any

from nesht.errors import UserError
from nesht.policies.convolution import ConvNet
from nesht.policies.saved import load_policy
from nesht.report.features import feature_report
from nesht.report.screen import draw_saliency
from nesht.training.folder import read_scores

REAL, NOISE, LINE = "#1b7f79", "#d1495b", "#1b3a57"


def draw_run(folders: list[Path], out: Path) -> None:
    """Draw learning curves (one line per run) beside the inputs that the first run's policy kept."""
    try:
        from matplotlib.figure import Figure  # not pyplot: a program that trains keeps its own figures
    except ImportError:
        raise UserError("pictures need `pip install 'nesht[plot]'`.") from None
    figure = Figure(figsize=(11, 4.6), layout="constrained")
    curve, bars = figure.subplots(1, 2, width_ratios=[1.5, 1])
    _draw_curves(curve, folders)
    policy = load_policy(folders[0])
    if isinstance(policy.network, ConvNet):
        draw_saliency(bars, policy)
    else:
        _draw_features(bars, folders[0])
    try:
        out.parent.mkdir(parents=True, exist_ok=True)
        figure.savefig(out, dpi=150)
    except (OSError, ValueError) as error:
        raise UserError(f"cannot write the picture {out}: {error}.") from error


def _draw_curves(axes: Any, folders: list[Path]) -> None:
    for folder in folders:
        steps, score = read_scores(folder)
        axes.plot(steps / 1e6, score, color=LINE, alpha=1 if len(folders) == 1 else 0.5, lw=1.8)
    task = load_policy(folders[0]).task
    noise = f" with {task['noise_ratio']:g} noise features per real one" if task["noise_ratio"] else ""
    runs = "" if len(folders) == 1 else f" ({len(folders)} seeds)"
    axes.set_title(f"{task['env']}{noise}{runs}", loc="left", fontsize=10)
    axes.set_xlabel("million environment steps")
    axes.set_ylabel("score (mean of an evaluation's episodes)")
    axes.grid(alpha=0.25)
    axes.spines[["top", "right"]].set_visible(False)


def _draw_features(axes: Any, folder: Path, most: int = 24) -> None:
    report = feature_report(load_policy(folder))
    shown = report.used[:most][::-1]
    colors = [NOISE if f.real is False else REAL for f in shown]
    axes.barh([f.name for f in shown], [f.share for f in shown], color=colors)
    more = f", strongest {most}" if len(report.used) > most else ""
    axes.set_title(f"inputs kept: {len(report.used)} of {report.n_features}{more}", loc="left", fontsize=10)
    axes.set_xlabel("share of the squared effect on the first layer")
    axes.tick_params(axis="y", labelsize=7)
    axes.spines[["top", "right"]].set_visible(False)
    if report.n_distractors:
        from matplotlib.patches import Patch

        handles = [Patch(color=REAL, label="real input"), Patch(color=NOISE, label="pure noise")]
        axes.legend(handles=handles, loc="lower right", frameon=False, fontsize=8)
