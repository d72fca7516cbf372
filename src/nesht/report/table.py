"""The feature report as tables in the terminal."""

from __future__ import annotations

from rich.console import Console
from rich.markup import escape
from rich.table import Table

from nesht.experiments.statistics import Estimate
from nesht.report.features import FeatureReport
from nesht.report.importance import Importance
from nesht.report.stability import Stability

BAR, MOST = 20, 20
"""Width of the longest bar, and how many names to list at most."""


def print_features(
    title: str, report: FeatureReport, importance: Importance | None = None, console: Console | None = None
) -> None:
    """Print which inputs a policy uses, how strongly, what the score loses without them, and what can be unplugged."""
    console = console or Console()
    table = _table(title)
    table.add_column("input")
    if report.n_distractors:
        table.add_column("is")
    counted = ("connections",) if report.sparse_within and not importance else ()
    for name in ("share", "dropped", "shuffled") if importance else (*counted, "weight", "effect", "share"):
        table.add_column(name, justify="right", no_wrap=True)
    if not importance:
        table.add_column("")
    shown = report.used if importance else report.used[: 2 * MOST]  # what was measured is told
    for feature in shown:
        kind = [] if feature.real is None else [_kind(feature.real)]
        if importance:
            loss = importance.losses[feature.index]
            cells = [f"{feature.share:.1%}", with_interval(loss.dropped), with_interval(loss.shuffled)]
        else:
            bar = "█" * round(BAR * feature.share / max(f.share for f in report.used)) if feature.share else ""
            cells = [f"{feature.weight:.4f}", f"{feature.effect:.4f}", f"{feature.share:.1%}", bar]
            cells = [str(feature.connections), *cells] if counted else cells
        table.add_row(escape(feature.name), *kind, *cells)
    console.print(table)
    if rest := len(report.used) - len(shown):
        console.print(f"and {rest} more inputs, weaker (--json lists all)", highlight=False)
    console.print(f"\n{len(report.used)} of {report.n_features} inputs used.", highlight=False)
    if importance:
        console.print(explanation(importance), highlight=False)
    if report.n_distractors:
        precision = "-" if report.precision is None else f"{report.precision:.0%}"
        leak = "" if report.noise_leak is None else f", noise leak {report.noise_leak:.1%}"
        console.print(
            f"precision {precision} (inputs used that are real), recall {report.recall:.0%} (real inputs used){leak}",
            highlight=False,
        )
    if report.sparse_within and report.real_connections is not None:
        chance = report.n_real / report.n_features
        console.print(
            f"{report.real_connections:.0%} of the connections read real inputs (by chance {chance:.0%})",
            highlight=False,
        )
    if report.unplug:
        more = f" and {len(report.unplug) - MOST} more (--json lists all)" if len(report.unplug) > MOST else ""
        names = escape(", ".join(report.unplug[:MOST]))
        console.print(f"Can be unplugged: {names}{more}", highlight=False)


def print_stability(found: Stability, console: Console | None = None) -> None:
    """Print how often each input is chosen."""
    console = console or Console()
    table = _table(f"How often {found.runs} runs choose each input")
    table.add_column("input")
    noisy = any(choice.real is not None for choice in found.choices)
    if noisy:
        table.add_column("is")
    for name in ("runs", "mean share"):
        table.add_column(name, justify="right")
    table.add_column("")
    shown = found.choices[: 2 * MOST]
    for choice in shown:
        kind = [_kind(bool(choice.real))] if noisy else []
        bar = "█" * round(BAR * choice.runs / found.runs)
        table.add_row(escape(choice.name), *kind, f"{choice.runs} of {found.runs}", f"{choice.share:.1%}", bar)
    console.print(table)
    if rest := len(found.choices) - len(shown):
        console.print(f"and {rest} more inputs, chosen no more often (--json lists all)", highlight=False)
    if found.agreement is not None:
        console.print(f"agreement {found.agreement:.2f} (1: all the same, 0: as by chance)", highlight=False)


def with_interval(estimate: Estimate) -> str:
    """Return a number with its interval."""
    return f"{estimate.value:.1f} ({estimate.low:.1f} to {estimate.high:.1f})"


def explanation(importance: Importance) -> str:
    """Say what the losses are."""
    lost = f" {importance.diverged} episodes diverged and are left out." if importance.diverged else ""
    return (
        f"dropped, shuffled: how much of the score, {with_interval(importance.score)}, is lost when an input's weights "
        "are set to zero, and when its values come from other moments; means over "
        f"{importance.episodes} episodes with 95 % intervals.{lost}"
    )


def _table(title: str) -> Table:
    return Table(title=escape(title), title_justify="left", box=None, pad_edge=False, header_style="bold")


def _kind(real: bool) -> str:
    return "real" if real else "[red]noise[/red]"
