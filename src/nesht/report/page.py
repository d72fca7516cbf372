"""One self-contained HTML page about experiments and runs: no scripts, nothing from other hosts, legible in print."""

from __future__ import annotations

from collections.abc import Sequence
from html import escape
from pathlib import Path

from nesht.errors import UserError
from nesht.experiments.catalogue import EXPERIMENTS
from nesht.experiments.design import STEPS
from nesht.experiments.methods import REINFORCEMENT
from nesht.experiments.runner import Results
from nesht.experiments.theory import Measurements
from nesht.report.atari import atari
from nesht.report.plots import Figure
from nesht.report.sections import SECTIONS as MUJOCO
from nesht.report.sections import Section
from nesht.report.theory import theory
from nesht.storage import write_file

SECTIONS = {**MUJOCO, "atari": atari}
assert set(EXPERIMENTS) <= set(SECTIONS)
THEORY = "theory"
"""The experiment that has no training runs."""

STYLE = """
:root { color-scheme: light dark; --ink: #1b2430; --soft: #66707c; --line: #d8dde3; --paper: #fff; --mark: #1b8a6b; }
@media (prefers-color-scheme: dark) { :root { --ink: #e6eaef; --soft: #9aa4b0; --line: #37414d; --paper: #161b22; } }
body { font: 16px/1.55 system-ui, sans-serif; color: var(--ink); background: var(--paper); margin: 0 auto;
  max-width: 72rem; padding: 1.2rem; }
h1 { font-size: 1.6rem; } h2 { border-top: 1px solid var(--line); padding-top: 1.2rem; margin-top: 2.4rem; }
nav a { margin-right: 1rem; } a { color: var(--mark); }
.wide { overflow-x: auto; } table { border-collapse: collapse; font-size: .86rem; margin: .6rem 0; }
th, td { text-align: left; vertical-align: top; padding: .35rem .5rem; border-bottom: 1px solid var(--line); }
th, td small, td .paper, .name { white-space: nowrap; } small, .paper, figcaption { color: var(--soft); }
figure { margin: 1.2rem 0; background: #fff; color: #1b2430; padding: .4rem; border-radius: 6px; }
figure svg { width: 100%; height: auto; } figcaption { font-size: .86rem; color: #66707c; }
.warning { border-left: 4px solid #c4452d; padding: .4rem .8rem;
  background: color-mix(in srgb, #c4452d 12%, transparent); }
code { background: color-mix(in srgb, var(--line) 45%, transparent); padding: .1rem .3rem; border-radius: 4px;
  overflow-wrap: anywhere; }
@media print { body { max-width: none; } figure, table { break-inside: avoid; } nav { display: none; } }
"""


def write_report(
    folders: Sequence[Path], out: Path, figures: Path | None = None, more: Sequence[tuple[str, Section]] = ()
) -> list[Section]:
    """Write the page about results folders, the table first, and its figures into a folder if one is given.

    Further sections, with names, stand behind those of the folders.
    """
    order = [*SECTIONS, THEORY]
    parts = sorted(
        ((folder, *_section(folder)) for folder in folders), key=lambda part: order.index(_experiment(part[0]))
    )
    named: list[tuple[str, Section, Results | None]] = [
        (folder.name, section, results) for folder, section, results in parts
    ]
    named += [(name, section, None) for name, section in more]
    body = "".join(_html(*part) for part in named)
    links = "".join(f'<a href="#{escape(name)}">{escape(section.title)}</a>' for name, section, _ in named)
    page = (
        '<!doctype html><html lang="en"><head><meta charset="utf-8">'
        '<meta name="viewport" content="width=device-width, initial-scale=1">'
        f"<title>nesht: report</title><style>{STYLE}</style></head>"
        f"<body><h1>nesht: report</h1><nav>{links}</nav>{body}</body></html>\n"
    )
    out.parent.mkdir(parents=True, exist_ok=True)
    write_file(out, page.encode())
    if figures is not None:
        figures.mkdir(parents=True, exist_ok=True)
        for name, section, _ in named:
            for figure in (part for part in section.parts if isinstance(part, Figure)):
                write_file(figures / f"{name}-{figure.name}.svg", figure.svg.encode())
                write_file(figures / f"{name}-{figure.name}.png", figure.png)
    return [section for _, section, _ in named]


def _section(folder: Path) -> tuple[Section, Results]:
    if _experiment(folder) == THEORY:
        found = Measurements.read(folder)
        return theory(found), Results(folder, [], [], found.about)
    results = Results.read(folder)
    if not results.runs:
        raise UserError(f"there are no results of an experiment in {folder}.")
    return SECTIONS[_experiment(folder)](results), results


def _experiment(folder: Path) -> str:
    """Return the experiment that a folder holds, by its name."""
    if not folder.exists():
        raise UserError(f"there is no folder {folder}.")
    made = " ".join(entry["command"] for entry in Results.read(folder).about)
    for name in (*SECTIONS, THEORY):
        if folder.name.startswith(name) or f"nesht experiment {name} " in f"{made} ":
            return name
    raise UserError(f"there are no results of an experiment in {folder}.")


def _html(anchor: str, section: Section, results: Results | None) -> str:
    warning, origin = (_warning(results), _origin(results)) if results is not None else ("", "")
    parts = "".join(_figure(part) if isinstance(part, Figure) else part for part in section.parts)
    head = f'<h2 id="{escape(anchor)}">{escape(section.title)}</h2>'
    return f"{head}{warning}<p>{escape(section.lead)}</p>{parts}{origin}"


def _origin(results: Results) -> str:
    """Return how many runs there are, and the commands that made them."""
    made = "".join(
        f"<li><code>{escape(entry['command'])}</code> on {escape(', '.join(entry['engine']))} "
        f"({escape(entry['device'])}), {escape(entry['date'][:10])}, nesht {escape(entry['versions']['nesht'])}</li>"
        for entry in results.about
    )
    steps = sorted({int(row["steps"]) for row in results.runs})
    size = f"{len(results.runs)} runs of {steps[0]:,} to {steps[-1]:,} environment steps." if steps else ""
    return f"<p><small>{size} Made by:</small></p><ul><small>{made}</small></ul>"


def _warning(results: Results) -> str:
    """Return a sentence if runs are shorter than those of the paper."""
    short = [
        row for row in results.runs if int(row["steps"]) < (STEPS // 10 if row["method"] in REINFORCEMENT else STEPS)
    ]
    if not short:
        return ""
    least = min(int(row["steps"]) for row in short)
    words = f"Short runs: some have only {least:,} steps, fewer than in the paper. Do not read them as its table."
    return f'<p class="warning">{words}</p>'


def _figure(figure: Figure) -> str:
    caption = escape(figure.caption)
    return f'<figure role="img" aria-label="{caption}">{figure.svg}<figcaption>{caption}</figcaption></figure>'
