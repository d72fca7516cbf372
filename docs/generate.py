"""Writes the parts of the documentation that come from the code and from results/: `python docs/generate.py`.

A part stands between `<!-- generated: NAME -->` and `<!-- end -->` in its page; `make docs` writes all of them anew,
and a test notices when a page is behind.
"""

from __future__ import annotations

import ast
import csv
import dataclasses
import inspect
import json
import re
from collections.abc import Callable, Iterable, Sequence
from functools import partial
from pathlib import Path
from statistics import fmean
from typing import Any

from nesht import cli
from nesht.baselines.settings import SETTINGS
from nesht.config import Config
from nesht.experiments.methods import REINFORCEMENT
from nesht.experiments.paper import best, published
from nesht.experiments.runner import KEYS, MEASURES
from nesht.experiments.statistics import Estimate, mean, probability_of_improvement
from nesht.presets import PAPER, TUNED, TUNED_FOR
from nesht.report.claims import ahead, noise_read, task_scores, thresholding_helps
from nesht.report.sections import ORDER

DOCS = Path(__file__).parent
RESULTS = DOCS.parent / "results"
PART = re.compile(r"<!-- generated: ([\w-]+) -->\n.*?<!-- end -->", re.DOTALL)


def pages() -> dict[Path, str]:
    """Return every page with generated parts as it should be."""
    found = {}
    for page in (DOCS.parent / "README.md", *sorted(DOCS.rglob("*.md"))):
        text = page.read_text()
        if PART.search(text):
            found[page] = PART.sub(
                lambda match: f"<!-- generated: {match[1]} -->\n\n{_part(match[1])}\n<!-- end -->", text
            )
    return found


def _part(name: str) -> str:
    return flags(cli.COMMANDS[name]) if name in cli.COMMANDS else PARTS[name]()


# The presets


def both_presets() -> str:
    """Return what both presets set, side by side."""
    rows = [(f"`{name}`", _word(value), _word(PAPER[name])) for name, value in TUNED.items()]
    return _table(("option", "`tuned`", "`paper`"), rows)


def presets_for() -> str:
    """Return what `tuned` sets for some environments where that is not the usual."""
    usual = {**dataclasses.asdict(Config().strategy), **TUNED}
    rows = [
        (env, f"`{name}`", _word(value))
        for env, values in TUNED_FOR.items()
        for name, value in values.items()
        if value != usual[name]
    ]
    return _table(("environment", "option", "`tuned`"), rows)


def _word(value: Any) -> str:
    return str(value).lower() if isinstance(value, bool) else str(value)


# The command line


def flags(command: type) -> str:
    """Return the flags of a command as a table: name, default, help."""
    rows = []
    for option, words in _described(command).items():
        default = next(field.default for field in dataclasses.fields(command) if field.name == option)
        rows.append((f"`--{option.replace('_', '-')}`", _shown(default), words))
    return _table(("flag", "default", "meaning"), rows)


def _described(command: type) -> dict[str, str]:
    """Return the docstrings of a dataclass's fields, but for positional arguments."""
    (tree,) = ast.parse(inspect.getsource(command)).body
    assert isinstance(tree, ast.ClassDef)
    found = {}
    for line, after in zip(tree.body, tree.body[1:], strict=False):
        if not (isinstance(line, ast.AnnAssign) and isinstance(line.target, ast.Name) and isinstance(after, ast.Expr)):
            continue
        if "Positional" not in ast.unparse(line.annotation):
            found[line.target.id] = " ".join(str(ast.literal_eval(after.value)).split()).replace("|", r"\|")
    return found


def _shown(default: Any) -> str:
    if isinstance(default, bool):
        return "on" if default else "off"
    if default is dataclasses.MISSING:
        return "required"
    if isinstance(default, tuple):
        return " ".join(map(str, default))
    return "" if default is None else f"{default:_}" if isinstance(default, int) else str(default)


# Results


def experiments() -> str:
    """Return a table of scores for every folder of an experiment."""
    parts = []
    for path in sorted(RESULTS.glob("*/runs.csv")):
        rows = list(csv.DictReader(path.read_text().splitlines()))
        searched = "trial" in rows[0]
        hidden = (*MEASURES, *KEYS, "preset", *(("trial", "noise") if searched else ()))
        labels = [name for name in rows[0] if name not in hidden]
        groups: dict[tuple[str, ...], list[dict[str, str]]] = {}
        for row in rows:
            groups.setdefault(tuple(row[name] for name in labels), []).append(row)
        if searched:
            head = (*labels, "trials", "runs")
            table = [(*key, len({row["trial"] for row in group}), len(group)) for key, group in groups.items()]
        else:
            head = (*labels, "runs", "score: mean (lowest to highest)")
            table = [(*key, len(group), _scores(row["score"] for row in group)) for key, group in groups.items()]
        commands = {entry["command"] for entry in json.loads((path.parent / "about.json").read_text())}
        made = "\n".join(f"- `{command}`" for command in sorted(commands))
        parts.append(f"### {path.parent.name}\n\n{len(rows):,} runs, made by\n\n{made}\n\n{_table(head, table)}")
    return "\n".join(parts)


def table1() -> str:
    """Return the table of the paper with every method tuned, beside the best number that the paper prints."""
    rows = list(csv.DictReader((RESULTS / "table1-tuned" / "runs.csv").read_text().splitlines()))
    table = []
    for env, noise in sorted({(row["env"], int(row["noise"])) for row in rows}):
        here = [row for row in rows if (row["env"], int(row["noise"])) == (env, noise)]
        found = [mean([float(row["score"]) for row in here if row["method"] == method]) for method in ORDER]
        top = max(estimate.value for estimate in found)
        cells = [_estimate(estimate, estimate.value == top) for estimate in found]
        method, theirs = best(env, noise)
        table.append((f"{env.partition('-')[0]} x{noise}", *cells, f"{theirs:g} ({method})"))
    return _table(("", *ORDER, "best in the paper"), table)


def _estimate(found: Estimate, first: bool) -> str:
    return f"{'**' * first}{found.value:.0f}{'**' * first} ({found.low:.0f} to {found.high:.0f})"


def learners() -> str:
    """Return the scores of the reinforcement learners beside the paper's, and how many runs there are."""
    rows = list(csv.DictReader((RESULTS / "table1-tuned" / "runs.csv").read_text().splitlines()))
    scores = {method: task_scores(rows, method) for method in REINFORCEMENT}
    table, tasks = [], sorted(task_scores(rows, "ours"))
    for env, noise in tasks:
        cells = []
        for method, found in scores.items():
            theirs = published(env, noise, method)
            here = [_estimate(mean(found[env, noise]), False)] if (env, noise) in found else []
            cells.append("<br>".join([*here, *([f"paper {theirs:g}"] if theirs is not None else [])]))
        table.append((f"{env.partition('-')[0]} x{noise:g}", *cells))
    counts = []
    for method, found in scores.items():
        seeds = sorted({len(each) for each in found.values()})
        several = " to ".join(str(count) for count in dict.fromkeys((seeds[0], seeds[-1]))) if seeds else ""
        where = f"in {len(found)} of {len(tasks)} cells with {several} seeds" if found else "not run yet"
        counts.append(f"{method} {where}")
    return f"{_table(('', *scores), table)}\nHow much has run: {'; '.join(counts)}. {noise_read(rows)}\n"


def claims() -> str:
    """Return what the table says about ours and about the paper's claim, with both presets."""
    words = {"tuned": "Every method tuned", "paper": "The authors' trainer"}
    items = []
    for preset, name in words.items():
        runs = list(csv.DictReader((RESULTS / f"table1-{preset}" / "runs.csv").read_text().splitlines()))
        items.append(f"- **{name}.** {ahead(runs)} {thresholding_helps(runs)}\n")
    return "".join(items)


def rivals_learn() -> str:
    """Return the result of `make rivals`."""
    found = json.loads((RESULTS / "rivals-learn.json").read_text())
    rows = [
        (f"`{name}`", f"{found['steps'][name]:,}", ", ".join(f"{score:.0f}" for score in scores))
        for name, scores in found["scores"].items()
    ]
    head = ("algorithm", "steps", f"best score of a run ({found['solved']:g}: solved)")
    return f"`{found['command']}`, {found['env']}\n\n{_table(head, rows)}"


def rivals_speed(device: str) -> str:
    """Return how fast reinforcement learners train on a device."""
    found = json.loads((RESULTS / f"baselines-speed-{device}.json").read_text())
    rows = {name: found[name] for name in SETTINGS if name in found}
    columns = dict.fromkeys(column for row in rows.values() for column in row)
    table = [(f"`{name}`", *(f"{row[c]:,.0f}" if c in row else "" for c in columns)) for name, row in rows.items()]
    where = found.get("gpu") or f"a thread of {found['cpu']}"
    return f"`{found['command']}` on {where}, {found['date'][:10]}\n\n{_table(('', *columns), table)}"


def alike() -> str:
    """Return how runs that were trained together did beside those of stable-baselines3, all seeds of an algorithm."""
    scores: dict[str, dict[str, list[float]]] = {}
    for path in sorted(RESULTS.glob("curves-*.json")):
        found = json.loads(path.read_text())
        for who, each in found["scores"].items():
            scores.setdefault(found["algorithm"], {}).setdefault(who, []).extend(each)
    rows = [
        (
            f"`{name}`",
            len(each["alone"]),
            _estimate(mean(each["together"]), False),
            _estimate(mean(each["alone"]), False),
            _chance(probability_of_improvement(each["together"], each["alone"])),
        )
        for name, each in scores.items()
    ]
    return _table(("", "seeds", "together", "stable-baselines3", "how often the former is better"), rows)


def halved() -> str:
    """Return how runs with halved products did beside those with whole ones."""
    rows = []
    for path in sorted(RESULTS.glob("halved-*.json")):
        found = json.loads(path.read_text())
        for when in ("at the end", "over all evaluations"):
            scores = found[when]["scores"]
            means = [_estimate(mean(scores[who]), False) for who in ("halved", "whole")]
            chance = _chance(probability_of_improvement(scores["halved"], scores["whole"]))
            rows.append((f"`{found['algorithm']}`, {when}", len(scores["halved"]), *means, chance))
    return _table(("", "seeds", "halved", "whole", "how often the former is better"), rows)


def _chance(found: Estimate) -> str:
    return f"{found.value:.2f} ({found.low:.2f} to {found.high:.2f})"


def tuning() -> str:
    """Return what `nesht tune` was worth."""
    path = RESULTS / "tune.json"
    found = json.loads(path.read_text())
    rows = [
        (
            name,
            f"{case['spent']:,}",
            case["seconds"],
            f"{case['steps of a run']:,}",
            _scores(case["scores from the start"]),
            _scores(case["scores from what was found"]),
        )
        for name, case in found["cases"].items()
    ]
    head = (
        "task",
        "steps of the search",
        "seconds",
        "steps of a run",
        "score from the start",
        "score from what was found",
    )
    return f"`{found['command']}`, seeds {found['seeds'][0]} to {found['seeds'][-1]}\n\n{_table(head, rows)}"


def fleet() -> str:
    """Return the scores of the fleet on a GPU."""
    found = json.loads((RESULTS / "fleet-cuda.json").read_text())
    rows = [(name, len(cell["scores"]), _scores(cell["scores"])) for name, cell in found["cells"].items()]
    about = f"`{found['command']}`: {found['steps']:,} steps in {found['seconds']:.0f} seconds"
    return f"{about}\n\n{_table(('task and method', 'runs', 'score: mean (lowest to highest)'), rows)}"


def speed() -> str:
    """Return the training speed beside others."""
    found = json.loads((RESULTS / "speed.json").read_text())
    rows = [
        (row["env"], row["way"], f"{row['steps_per_second']['median']:,.0f}")
        for row in found["summary"]
        if "steps_per_second" in row
    ]
    about = f"`{found['command']}` on {found['cores']} cores ({found['cpu']}), {found['threads']} threads"
    return f"{about}\n\n{_table(('task', 'way', 'steps per second, median'), rows)}"


def stranger() -> str:
    """Return how long the README's path takes, line by line."""
    found = json.loads((RESULTS / "stranger.json").read_text())
    rows = [(f"`{line}`", seconds) for line, seconds in found["seconds"].items()]
    return f"{_made(found)}\n\n{_table(('line of the README', 'seconds'), [*rows, ('altogether', found['total'])])}"


def imports() -> str:
    """Return how long an import takes."""
    found = json.loads((RESULTS / "import-time.json").read_text())
    rows = [(f"`{name}`", *each.values()) for name, each in found["medians"].items()]
    return f"{_made(found)}\n\n{_table(('', 'wall seconds', 'processor seconds'), rows)}"


def _made(found: dict[str, Any]) -> str:
    idle = f"{found['idle share at the start']:.0%}"
    return f"`{found['command']}` on {found['cores']} cores ({found['cpu']}), {idle} of which were idle when it began"


def measurements() -> str:
    """Return every file of a measurement with the command that made it."""
    rows = []
    for path in sorted(RESULTS.glob("*.json")):
        found = json.loads(path.read_text())
        where = found.get("gpu") or f"{found['cpu']}, {found['cores']} cores"
        rows.append((f"`results/{path.name}`", f"`{found['command']}`", found["date"][:10], where))
    return _table(("file", "command", "date", "machine"), rows)


PARTS: dict[str, Callable[[], str]] = {
    "table1": table1,
    "claims": claims,
    "learners": learners,
    "experiments": experiments,
    "rivals-learn": rivals_learn,
    "rivals-speed-cuda": partial(rivals_speed, "cuda"),
    "rivals-speed-cpu": partial(rivals_speed, "cpu"),
    "alike": alike,
    "halved": halved,
    "tuning": tuning,
    "fleet": fleet,
    "speed": speed,
    "stranger": stranger,
    "imports": imports,
    "measurements": measurements,
    "presets": both_presets,
    "presets-for": presets_for,
}


def _scores(scores: Iterable[Any]) -> str:
    known = [float(score) for score in scores if score not in ("", None)]
    return f"{fmean(known):z.0f} ({min(known):z.0f} to {max(known):z.0f})" if known else "none"


def _table(head: Sequence[str], rows: Iterable[Sequence[Any]]) -> str:
    lines = [head, ["---"] * len(head), *rows]
    return "".join(f"| {' | '.join(map(str, line))} |\n" for line in lines)


def main() -> None:
    """Write what has changed."""
    for page, text in pages().items():
        if page.read_text() != text:
            page.write_text(text)
            print(f"wrote {page.relative_to(DOCS.parent)}")


if __name__ == "__main__":
    main()
