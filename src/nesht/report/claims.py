"""What a table of results says about the paper's claims, computed from it."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

from nesht.experiments.methods import METHODS, REINFORCEMENT
from nesht.experiments.paper import COLUMNS, best, published
from nesht.experiments.statistics import Estimate, mean, stratified_mean
from nesht.report.plots import select, values

Row = dict[str, Any]

WHY = {
    "paper": "The trainer is the authors' as far as they describe it; what they leave open (the start, how often and "
    "how long policies are evaluated, the version of the environments, whether noise is drawn at every step) is ours.",
    "tuned": "Every method has settings that a search chose for it, instead of the authors' one setting for all: plain "
    "SGD on standardised fitness and mirrored sampling instead of Adam on ranks, and shared randomness, normalised "
    "features, weight decay or no survival bonus in training where that helped the method.",
}
"""Why our numbers differ from the paper's, by preset."""

WHY_LEARNERS = (
    "The reinforcement learners have the settings of rl-baselines3-zoo, ANF-SAC those of its authors; the paper does "
    "not say which it used, and our noise enters as observations, for ANF-SAC too, not inside its networks. On "
    "HalfCheetah the paper's ANF-SAC failed after an impressive performance; ours moves only if it sees every reward. "
    "Where policies of TRPO and A2C were kept they read noise as strongly as anything, and about half of their actions "
    "or more lie at the bounds; without the weights that read noise their mean scores are higher. TRPO's observations "
    "and rewards are scaled; on Hopper one run without that was still far above the paper's."
)
"""Why the reinforcement learners' do."""


def task_scores(runs: Sequence[Row], method: str) -> dict[tuple[str, float], list[float]]:
    """Return the scores of a method by task, (environment, noise ratio)."""
    tasks: dict[tuple[str, float], list[float]] = {}
    for row in select(runs, method=method):
        tasks.setdefault((row["env"], float(row["noise"])), []).extend(values([row], "score"))
    return {task: scores for task, scores in tasks.items() if scores}


def across_tasks(runs: Sequence[Row], methods: Sequence[str]) -> list[Estimate | None]:
    """Return the mean over tasks of each method's score, as a multiple of the paper's best column."""
    found: list[Estimate | None] = []
    for method in methods:
        tasks = {task: scores for task, scores in task_scores(runs, method).items() if published(*task, "NES")}
        shares = [[score / best(*task)[1] for score in scores] for task, scores in tasks.items()]
        found.append(stratified_mean(shares) if shares else None)
    return found


def ahead(runs: Sequence[Row]) -> str:
    """Return where ours is above the paper's table and above the other methods that were run, as a sentence."""
    ours, strategies = task_scores(runs, "ours"), [method for method in METHODS if method != "ours"]
    if not ours:
        return ""
    beats = sum(mean(scores).value > best(*task)[1] for task, scores in ours.items())
    said = f"Ours is above the best column of the paper's table in {beats} of {len(ours)} rows"
    total, beats, apart = _against(runs, strategies)
    if total:
        said += f", above our own runs of the other evolution strategies in {beats} of {total}, "
        said += f"with intervals that do not overlap in {apart} of {total}"
    learners = [method for method in REINFORCEMENT if task_scores(runs, method)]
    total, beats, apart = _against(runs, learners)
    if total:
        cells = {method: len(task_scores(runs, method).keys() & ours.keys()) for method in learners}
        named = [f"{each}{f' ({ran} rows)' if ran < total else ''}" for each, ran in cells.items()]
        said += f"; above our own runs of {', '.join(named)} in {beats} of {total}, with intervals apart in {apart}"
    return f"{said}."


def _against(runs: Sequence[Row], rivals: Sequence[str]) -> tuple[int, int, int]:
    """Return on how many tasks ours and a rival ran, where it is above all rivals there, and where clearly."""
    ours, others, total, beats, apart = task_scores(runs, "ours"), [task_scores(runs, r) for r in rivals], 0, 0, 0
    for task, scores in ours.items():
        here, there = mean(scores), [mean(each[task]) for each in others if task in each]
        total += bool(there)
        beats += bool(there) and all(here.value > rival.value for rival in there)
        apart += bool(there) and all(here.above(rival) for rival in there)
    return total, beats, apart


def thresholding_helps(runs: Sequence[Row]) -> str:
    """Return whether the paper's rule beats vanilla NES and NES-L1 under the same tuning, as a sentence."""
    rule, sentences = task_scores(runs, "NESHT"), []
    for rival in ("NES", "NES-L1"):
        theirs = task_scores(runs, rival)
        both = [(mean(rule[task]), mean(theirs[task])) for task in rule if task in theirs]
        if not both:
            continue
        higher = sum(a.value > b.value for a, b in both)
        apart, against = sum(a.above(b) for a, b in both), sum(b.above(a) for a, b in both)
        sentences.append(
            f"of {rival} in {higher} of {len(both)} rows (intervals apart in {apart}, and apart the other way "
            f"round in {against})"
        )
    if not sentences:
        return ""
    return "The paper reports its rule, NESHT, above every rival ES in all rows. Here NESHT is ahead " + (
        " and ".join(sentences) + "."
    )


def noise_read(runs: Sequence[Row]) -> str:
    """Return how much of what learners read is noise, beside ours and the share of inputs that are, as a sentence."""
    ratios = sorted({float(row["noise"]) for row in runs})
    found: dict[str, str] = {}
    for method in (*REINFORCEMENT, "ours"):
        known = [row for row in select(runs, method=method) if values([row], "noise_leak")]
        envs = ", ".join(sorted({row["env"].partition("-")[0] for row in known}))
        leaks = {ratio: values(select(known, noise=f"{ratio:g}"), "noise_leak") for ratio in ratios}
        parts = [f"{sum(leak) / len(leak):.0%} at x{ratio:g}" for ratio, leak in leaks.items() if leak]
        if parts:
            found[method] = f"{method} on {envs} {', '.join(parts)}"
    if not found.keys() & REINFORCEMENT.keys():
        return ""
    inputs = ", ".join(f"{ratio / (1 + ratio):.0%} at x{ratio:g}" for ratio in ratios)
    of = f"Of the inputs it is {inputs}."
    return (
        f"Noise is so much of what moves the first layer, where policies were kept: {'; '.join(found.values())}. {of}"
    )


def against_the_paper(runs: Sequence[Row]) -> str:
    """Return how each method's scores compare with the paper's for it, and why they differ, as HTML."""
    items = []
    for method in (m for m in (*METHODS, *REINFORCEMENT) if m in COLUMNS):
        above, below, within = [], [], 0
        for (env, noise), scores in task_scores(runs, method).items():
            theirs, ours = published(env, noise, method), mean(scores)
            if theirs is None:
                continue
            name = f"{env} x{noise:g} ({ours.value:.0f} against {theirs:g})"
            if ours.low > theirs:
                above.append(name)
            elif ours.high < theirs:
                below.append(name)
            else:
                within += 1
        parts = [f"within our interval in {within}"] if within else []
        parts += [f"below ours: {', '.join(above)}"] if above else []
        parts += [f"above ours: {', '.join(below)}"] if below else []
        if parts:
            items.append(f"<li>{method}: the paper's number is {'; '.join(parts)}.</li>")
    presets = dict.fromkeys(row.get("preset", "") for row in runs)
    reasons = [WHY[preset] for preset in presets if preset in WHY]
    reasons += [WHY_LEARNERS] if any(row["method"] in REINFORCEMENT for row in runs) else []
    return f"<ul>{''.join(items)}</ul><p>Why: {' '.join(reasons)}</p>" if items else ""
