"""The part of a page that says which inputs trained policies read."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from html import escape

from nesht.policies.convolution import ConvNet
from nesht.policies.saved import Policy
from nesht.report.features import feature_report
from nesht.report.importance import Importance
from nesht.report.plots import Figure
from nesht.report.sections import Section, interval, table
from nesht.report.stability import Stability, stability
from nesht.report.table import explanation

MOST = 40
"""Rows of a table that are seen at once."""


def inputs(name: str, policies: Mapping[str, Policy], losses: Mapping[str, Importance]) -> Section:
    """Return which inputs the policies of a group of runs read, by the runs' names, and how often each is chosen."""
    title, parts = f"Which inputs {name} uses", list[str | Figure]()
    if any(isinstance(policy.network, ConvNet) for policy in policies.values()):
        return Section(title, f"It looks at screens; nesht inspect {name} --figure FILE draws where.")
    lead = ""
    if found := stability(list(policies.values())):
        lead, counted = _choices(found)
        parts.append(counted)
    for run, policy in policies.items():
        rows = _rows(run, policy, losses.get(run))
        parts.append(rows if len(policies) == 1 else f"<details><summary>{escape(run)}</summary>{rows}</details>")
    return Section(title, lead, parts)


def _choices(found: Stability) -> tuple[str, str]:
    """Return a sentence and a table about what several runs choose."""
    always = [choice.name for choice in found.choices if choice.runs == found.runs]
    agreement = (
        "" if found.agreement is None else f" Agreement {found.agreement:.2f} (1: all the same, 0: as by chance)."
    )
    lead = f"Inputs chosen by all {found.runs} runs: {len(always)}; by any: {len(found.choices)}.{agreement}"
    rows = [
        [escape(choice.name), _kind(choice.real), f"{choice.runs} of {found.runs}", f"{choice.share:.1%}"]
        for choice in found.choices
    ]
    return lead, _folded(["input", "is", "chosen by", "mean share of the effect"], rows)


def _rows(name: str, policy: Policy, lost: Importance | None) -> str:
    report = feature_report(policy)
    head = ["input", "is", "weight", "effect", "share", *(("dropped", "shuffled") if lost else ())]
    rows = []
    for feature in report.used:
        numbers = [f"{feature.weight:.4f}", f"{feature.effect:.4f}", f"{feature.share:.1%}"]
        if lost:
            loss = lost.losses[feature.index]
            numbers += [interval(loss.dropped, 1), interval(loss.shuffled, 1)]
        rows.append([escape(feature.name), _kind(feature.real), *numbers])
    told = f"<p>{escape(explanation(lost))}</p>" if lost else ""
    unplug = f"<p>Can be unplugged: {escape(', '.join(report.unplug))}.</p>" if report.unplug else ""
    used = f"<p>{escape(name)}: {len(report.used)} of {report.n_features} inputs used, strongest first.</p>"
    return f"{used}{_folded(head, rows)}{told}{unplug}"


def _folded(head: Sequence[str], rows: Sequence[Sequence[str]]) -> str:
    """Return a table of which only the first rows are seen at once."""
    if len(rows) <= MOST:
        return table(head, rows)
    rest = table(head, rows[MOST:])
    return f"{table(head, rows[:MOST])}<details><summary>{len(rows) - MOST} more</summary>{rest}</details>"


def _kind(real: bool | None) -> str:
    return "" if real is None else "real" if real else "noise"
