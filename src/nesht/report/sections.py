"""What a report says about each experiment: sentences, tables and figures, all computed from the raw results."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass, field
from html import escape
from statistics import mode
from typing import Any

from nesht.experiments.methods import METHODS, REINFORCEMENT
from nesht.experiments.paper import ARS, COLUMNS, published
from nesht.experiments.runner import Results
from nesht.experiments.statistics import Estimate, interquartile_mean, mean, probability_of_improvement
from nesht.report.claims import across_tasks, against_the_paper, ahead, noise_read, task_scores, thresholding_helps
from nesht.report.plots import Figure, curves, heatmaps, lines, select, values, with_recovery

Row = dict[str, Any]
ORDER = tuple(reversed(METHODS))
"""Ours first."""
PRESETS = {"paper": "the authors' trainer", "tuned": "every method tuned"}
ALL = (*ORDER, *REINFORCEMENT)


@dataclass(frozen=True)
class Section:
    """A part of the page."""

    title: str
    lead: str
    parts: list[str | Figure] = field(default_factory=list)


def table(head: Sequence[str], rows: Sequence[Sequence[str]]) -> str:
    """Return an HTML table; cells may contain markup."""
    top = "".join(f"<th>{cell}</th>" for cell in head)
    body = "".join("<tr>" + "".join(f"<td>{cell}</td>" for cell in row) + "</tr>" for row in rows)
    return f'<div class="wide"><table><thead><tr>{top}</tr></thead><tbody>{body}</tbody></table></div>'


def interval(estimate: Estimate, digits: int = 0) -> str:
    """Return a number with its interval."""
    value, low, high = (f"{number:z.{digits}f}" for number in (estimate.value, estimate.low, estimate.high))
    span = "one run" if estimate.low == float("-inf") else f"{low} to {high}"
    return f"<b>{value}</b> <small>({span})</small>"


def tasks(runs: Sequence[Row]) -> list[tuple[str, str]]:
    """Return the (environment, noise ratio) pairs of an experiment, in order."""
    return sorted({(row["env"], row["noise"]) for row in runs}, key=lambda task: (task[0], float(task[1])))


def table1(results: Results) -> Section:
    """Return the table of scores, how sure it is, feature recovery, and learning curves."""
    runs, rows, chances, kept = results.runs, [], [], []
    whole = [method for method in ALL if task_scores(runs, method).keys() >= task_scores(runs, "ours").keys()]
    rivals = [method for method in ALL if method != "ours" and task_scores(runs, method)]
    shown = [method for method in ALL if method in COLUMNS or task_scores(runs, method)]
    known = [method for method in ALL if method in METHODS or values(select(runs, method=method), "noise_leak")]
    usual = mode(len(scores) for method in ALL for scores in task_scores(runs, method).values())
    for env, noise in tasks(runs):
        here = {method: values(select(runs, env=env, noise=noise, method=method), "score") for method in ALL}
        rows.append([_task(env, noise), *(_cell(here[m], published(env, float(noise), m), usual) for m in shown)])
        if here["ours"]:
            wins = [probability_of_improvement(here["ours"], here[m]) if here[m] else None for m in rivals]
            chances.append([_task(env, noise), *(interval(w, 2) if w else "" for w in wins)])
        kept.append([_task(env, noise), *(_selection(select(runs, env=env, noise=noise, method=m)) for m in known)])
    parts: list[str | Figure] = [
        table(["task", *shown], rows),
        f"<p>Mean of the last 10 evaluations over {usual} seeds where no other number is given, with a 95 % bootstrap "
        "interval; IQM is the mean of the middle half of them. Numbers marked as the paper's "
        "were read from its Table 1 and not measured here.</p>",
        "<h3>All tasks together</h3><p>Every score as a multiple of the best column of the paper's table on that task, "
        "averaged over tasks; seeds are drawn again within each task (stratified bootstrap).</p>",
        table(["", *whole], [["mean", *(interval(e, 2) if e else "" for e in across_tasks(runs, whole))]]),
        f"<h3>The paper's claims</h3><p>{thresholding_helps(runs)}</p>{against_the_paper(runs)}",
        *(
            ("<h3>How often does a run of ours beat one of theirs?</h3>", table(["task", *rivals], chances))
            * bool(chances)
        ),
        "<h3>Which inputs are kept</h3><p>Recovery: kept real inputs, out of as many as could be kept. Leak: share of "
        "the variance in the first layer that comes from noise (in a linear policy, in the action).</p>",
        table(["task", *known], kept),
        f"<p>{noise_read(runs)}</p>",
    ]
    drawn = (
        ("score", "curves", "Score over training; bands are 95 % intervals over seeds."),
        ("recovery", "recovery", "Real inputs kept, out of as many as could be, over training."),
        ("noise_leak", "leak", "Share of the action's variance that is noise, over training."),
    )
    evaluations = with_recovery(results.evaluations)
    parts += [curves(evaluations, *each) for each in drawn if values(evaluations, each[0])]
    presets = sorted({PRESETS.get(row.get("preset", ""), "") for row in runs} - {""})
    return Section(f"Table 1{', ' if presets else ''}{' and '.join(presets)}", ahead(runs), parts)


def _task(env: str, noise: str) -> str:
    return f"<span class=name>{env} x{noise}</span>"


def _cell(scores: list[float], theirs: float | None, usual: int) -> str:
    """Return the cell of a method: ours where it was run, the paper's number where there is one."""
    parts = [f'<span class="paper">paper {theirs:g}</span>'] if theirs is not None else []
    if scores:
        middle = f"<small>IQM {interquartile_mean(scores).value:z.0f}</small>"
        seeds = [f"<small>{len(scores)} seeds</small>"] if len(scores) != usual else []
        parts = [interval(mean(scores)), middle, *seeds, *parts]
    return "<br>".join(parts)


def _published(number: float | None) -> str:
    return f'<span class="paper">{number:g}</span>' if number is not None else ""


def _selection(rows: Sequence[Row]) -> str:
    recovery, leak = values(rows, "recovery"), values(rows, "noise_leak")
    parts = [f"recovery {sum(recovery) / len(recovery):.2f}"] if recovery else []
    return "<br>".join([*parts, *([f"leak {sum(leak) / len(leak):.0%}"] if leak else [])])


def heatmap(results: Results) -> Section:
    """Return the heatmaps of weight norms."""
    caption = "L1 norm of the weights on every stretch of 11 inputs; only the first stretch is real."
    return Section("Which inputs get the weights", "", [heatmaps(results.evaluations, "heatmap", caption)])


def ablation(results: Results) -> Section:
    """Return the score against sparsity, and against memory for both units."""
    beta = [row for row in results.runs if row.get("beta") not in ("", None)]
    memory = [row for row in results.runs if row.get("memory") not in ("", None)]
    lead, parts = "", list[str | Figure]()
    if beta:
        sweep = lines(beta, "beta", "method", "beta", "Score against beta.", of=("NESHT", "ours"), x_label="beta")
        lead, counted = _betas(beta)
        parts += [sweep, counted]
    if memory:
        text = "Score against memory, for single weights and whole features."
        parts.append(lines(memory, "memory", "unit", "memory", text, of=("weight", "feature"), x_label="memory"))
    return Section("What each dial contributes", lead, parts)


def _betas(runs: Sequence[Row]) -> tuple[str, str]:
    """Return the best beta of ours on every task, as a sentence, and a table of the scores at every beta."""
    betas = sorted({row["beta"] for row in runs}, key=float)
    rows, best_of = [], []
    for env, noise in tasks(runs):
        for method in dict.fromkeys(row["method"] for row in runs):
            here = select(runs, env=env, noise=noise, method=method)
            scores = {beta: found for beta in betas if (found := values(select(here, beta=beta), "score"))}
            rows.append(
                [f"{_task(env, noise)} {method}", *(interval(mean(scores[b])) if b in scores else "" for b in betas)]
            )
            if method == "ours" and scores:
                best_of.append(f"{max(scores, key=lambda b: mean(scores[b]).value)} on {env} x{noise}")
    lead = f"The best beta of ours is {', '.join(best_of)}." if best_of else ""
    return lead, table(["score by beta", *betas], rows)


def prune_once(results: Results) -> Section:
    """Return thresholding every update beside pruning once."""
    rows: list[list[str]] = []
    wins: dict[str, list[bool]] = {row["method"]: [] for row in results.runs}
    for env, noise, method in ((*task, method) for task in tasks(results.runs) for method in wins):
        here = select(results.runs, env=env, noise=noise, method=method)
        every, once = (values(select(here, threshold=when), "score") for when in ("every update", "once"))
        if every and once:
            wins[method].append(mean(every).value > mean(once).value)
            rows.append([f"{env} x{noise} {method}", interval(mean(every)), interval(mean(once))])
    counts = " and ".join(f"with {method} in {sum(won)} of {len(won)} cells" for method, won in wins.items() if won)
    lead = f"Thresholding after every update scores higher than pruning once at the end {counts}."
    return Section("Every update, or once?", lead, [table(["cell", "every update", "once at the end"], rows)])


def clean(results: Results) -> Section:
    """Return what survives of the score without noise."""
    rows = []
    for env in sorted({row["env"] for row in results.runs}):
        for noise in sorted({float(row["noise"]) for row in select(results.runs, env=env)}):
            cells = [values(select(results.runs, env=env, noise=f"{noise:g}", method=m), "score") for m in METHODS]
            rows.append([f"{env} x{noise:g}", *(interval(mean(scores)) if scores else "" for scores in cells)])
    ours = select(results.runs, method="ours")
    parts: list[str | Figure] = [table(["task", *METHODS], rows)]
    if ours:
        text = "Score of ours against noise inputs per real one."
        parts.append(lines(ours, "noise", "method", "clean", text, of=("ours",), x_label="noise inputs per real input"))
    return Section("Without noise, and with much more", "", parts)


def limits(results: Results) -> Section:
    """Return what each change does to the score without noise."""
    changes = list(dict.fromkeys(row["change"] for row in results.runs))
    envs = sorted({row["env"] for row in results.runs})
    rows = []
    for change in changes:
        cells = [values(select(results.runs, env=env, change=change), "score") for env in envs]
        rows.append([change, *(interval(mean(scores)) if scores else "" for scores in cells)])
    rows.append(["ARS, every reward seen (published)", *(_published(ARS.get(env.partition("-")[0])) for env in envs)])
    text = "<p>Ours on the clean tasks, nothing cut, one thing changed at a time.</p>"
    return Section("What holds the evolution strategy back", "", [text, table(["change", *envs], rows)])


def cross_check(results: Results) -> Section:
    """Return the scores of two engines side by side."""
    rows, agree = [], 0
    for env, noise in tasks(results.runs):
        here = select(results.runs, env=env, noise=noise)
        fused, batch = (values(select(here, engine=engine), "score") for engine in ("fused", "batch"))
        if fused and batch:
            a, b = mean(fused), mean(batch)
            agree += not (a.above(b) or b.above(a))
            seeds = f"{len(fused)}, {len(batch)}"
            rows.append([_task(env, noise), interval(a), interval(b), seeds])
    lead = f"The intervals of the two engines overlap in {agree} of {len(rows)} tasks."
    return Section("Two engines", lead, [table(["task", "fused", "batch (C MuJoCo)", "seeds"], rows)])


def tuning(results: Results) -> Section:
    """Return the best trials of the search."""
    rows = []
    for env, method in dict.fromkeys((row["env"], row["method"]) for row in results.runs):
        here = select(results.runs, env=env, method=method)
        trials = {row["trial"] for row in here}
        top = max(trials, key=lambda trial: mean(values(select(here, trial=trial), "score")).value)
        scores = values(select(here, trial=top), "score")
        rows.append([env, method, str(len(trials)), str(len(here)), escape(top), f"{sum(scores) / len(scores):.0f}"])
    head = ["environment", "method", "trials", "runs", "best trial", "its mean score"]
    return Section("The search behind the tuned settings", "Held-out seeds only.", [table(head, rows)])


SECTIONS: dict[str, Callable[[Results], Section]] = {
    "table1": table1,
    "heatmap": heatmap,
    "ablation": ablation,
    "prune-once": prune_once,
    "clean": clean,
    "limits": limits,
    "cross-check": cross_check,
    "tuning": tuning,
}
