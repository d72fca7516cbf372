"""What the report says about the experiment `atari`: curves by beta, beside the scores that others published."""

from __future__ import annotations

from typing import Any

from nesht.experiments.paper import ATARI, ATARI_COLUMNS
from nesht.experiments.runner import Results, Row
from nesht.experiments.statistics import mean
from nesht.report.plots import drawn, over_steps, select, values
from nesht.report.sections import Section, interval, table

SHADES = ("#8a8f98", "#8fc1e3", "#2d6cc0", "#123a6b", "#1b8a6b", "#c08a2d")
DASHES = {"DQN": ":", "A3C": "--", "ES": "-.", "A2C": (0, (1, 4))}


def atari(results: Results) -> Section:
    """Return the scores by game and beta, and the learning curves."""
    runs = results.runs
    games, betas = (list(dict.fromkeys(row[key] for row in runs)) for key in ("env", "beta"))
    betas.sort(key=float)
    rows, better = [], 0
    for game in games:
        found = {beta: mean(scores) for beta in betas if (scores := values(select(runs, env=game, beta=beta), "score"))}
        dense, sparse = found.get("0"), [each for beta, each in found.items() if beta != "0"]
        better += dense is not None and any(each.value > dense.value for each in sparse)
        known = ATARI.get(_name(game), {})
        first = values([row for row in select(results.evaluations, env=game) if float(row["steps"]) == 0], "score")
        cells = [_number(round(sum(first) / len(first), 1)) if first else ""]
        cells += [interval(found[beta]) if beta in found else "" for beta in betas]
        rows.append([_name(game), *cells, *(_number(known.get(column)) for column in ATARI_COLUMNS)])
    head = ["game", "untrained", *(f"beta {beta}" for beta in betas)]
    head += [f"{column} (published)" for column in ATARI_COLUMNS]
    seeds = sorted({len(select(runs, env=game, beta=beta)) for game in games for beta in betas} - {0})
    many = " to ".join(dict.fromkeys(str(each) for each in (seeds[0], seeds[-1])))
    lead = (
        f"Raw scores without clipping, mean of the last 10 evaluations, {many} seed{'s' if seeds[-1] > 1 else ''}; "
        f"beta 0 is NES. Some sparse read-out scored above the dense one in {better} of {len(games)} games. Runs had "
        f"{_millions(runs)} million steps; those behind the published scores had fifty million or more."
    )

    def draw(panels: Any) -> None:
        for axes, game in zip(panels.ravel(), games, strict=False):
            for beta, colour in zip(betas, SHADES, strict=False):
                x, middle, low, high = over_steps(select(results.evaluations, env=game, beta=beta), "score")
                if len(x):
                    axes.plot(x / 1e6, middle, color=colour, lw=1.4, label=f"beta {beta}")
                    axes.fill_between(x / 1e6, low, high, color=colour, alpha=0.18, lw=0)
            top = axes.get_ylim()[1]
            for column, score in ATARI.get(_name(game), {}).items():
                if score < 3 * top:  # further away, a line would press the curves flat
                    axes.axhline(score, color="#c4452d", lw=0.9, ls=DASHES[column], label=f"{column}, {score:g}")
            axes.set(title=_name(game), xlabel="million steps")
            axes.legend(framealpha=0.85, edgecolor="none", fontsize=7)
        for axes in panels.ravel()[len(games) :]:
            axes.set_visible(False)

    caption = "Score over training, mean and 95 % interval over seeds; horizontal lines are published scores in reach."
    columns = min(2, len(games))
    figure = drawn("atari", caption, -(-len(games) // columns), columns, draw, 3.0)
    return Section("Atari: beta against none", lead, [table(head, rows), figure])


def _name(game: str) -> str:
    return game.removeprefix("ALE/").partition("-")[0]


def _millions(runs: list[Row]) -> str:
    """Return how long runs were, in millions of steps."""
    steps = sorted(values(runs, "steps"))
    ends = [f"{each / 1e6:.2g}" for each in (steps[0], steps[-1])]
    return " to ".join(dict.fromkeys(ends))


def _number(score: float | None) -> str:
    return "" if score is None else f"{score:g}"
