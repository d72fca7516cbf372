"""The feature report as a table in the terminal."""

from __future__ import annotations

from rich.console import Console
from rich.table import Table

from nesht.report.features import FeatureReport

BAR, MOST = 20, 20
"""Width of the longest bar, and how many names to list at most."""


def print_features(title: str, report: FeatureReport, console: Console | None = None) -> None:
    """Print which inputs a policy uses, how strongly, and which can be unplugged."""
    console = console or Console()
    table = Table(title=title, title_justify="left", box=None, pad_edge=False, header_style="bold")
    table.add_column("input")
    if report.n_distractors:
        table.add_column("is")
    for name in ("weight", "effect", "share"):
        table.add_column(name, justify="right")
    table.add_column("")
    for feature in report.used:
        kind = [] if feature.real is None else ["real" if feature.real else "[red]noise[/red]"]
        bar = "█" * round(BAR * feature.share / max(f.share for f in report.used)) if feature.share else ""
        numbers = (f"{feature.weight:.4f}", f"{feature.effect:.4f}", f"{feature.share:.1%}", bar)
        table.add_row(feature.name, *kind, *numbers)
    console.print(table)
    console.print(f"\n{len(report.used)} of {report.n_features} inputs used.", highlight=False)
    if report.n_distractors:
        precision = "-" if report.precision is None else f"{report.precision:.0%}"
        leak = "" if report.noise_leak is None else f", noise leak {report.noise_leak:.1%}"
        console.print(
            f"precision {precision} (inputs used that are real), recall {report.recall:.0%} (real inputs used){leak}",
            highlight=False,
        )
    if report.unplug:
        more = f" and {len(report.unplug) - MOST} more (--json lists all)" if len(report.unplug) > MOST else ""
        console.print(f"Can be unplugged: {', '.join(report.unplug[:MOST])}{more}", highlight=False)
