"""Put results that were made in several places together: merge.py FROM... INTO, all folders of one experiment.

    python benchmarks/merge.py elsewhere/table1-tuned results/table1-tuned

A run that is there twice, under the same labels and with the same seed, is taken from the last folder that has it (INTO
counts as the first): so results with other settings replace those before. Batches without a run are forgotten.
"""

from __future__ import annotations

import argparse
import json
from pathlib import Path
from typing import Any

from nesht.experiments.runner import KEYS, MEASURES, Results, Row

NOT_LABELS = {*MEASURES, *KEYS, "generation", "features_used", "real_features_used", "segments"}


def key(row: Row) -> tuple[Any, ...]:
    """Return what a run is known by."""
    labels = sorted((name, str(value)) for name, value in row.items() if name not in NOT_LABELS and value != "")
    return str(row["seed"]), *labels


def merge(folders: list[Path], into: Path) -> Results:
    """Return all runs of all folders, as the results of one."""
    found = [Results.read(folder) for folder in (into, *folders)]
    runs: dict[tuple[Any, ...], tuple[int, Row]] = {}
    for number, results in enumerate(found):
        for row in results.runs:
            runs[key(row)] = number, row
    curves: dict[tuple[Any, ...], list[Row]] = {}
    for number, results in enumerate(found):
        for row in results.evaluations:
            curves.setdefault((number, row["digest"], key(row)), []).append(row)
    merged = Results(into, [], [], [])
    places: dict[str, int] = {}
    for name, (number, row) in runs.items():
        batch = found[number].about[int(row["batch"])]
        place = places.setdefault(json.dumps(batch, sort_keys=True), len(places))
        if place == len(merged.about):
            merged.about.append(batch)
        merged.runs.append({**row, "batch": place})
        merged.evaluations += curves.get((number, row["digest"], name), [])
    return merged


def main() -> None:
    """Merge and say what there is."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("folders", type=Path, nargs="+", metavar="FROM")
    parser.add_argument("into", type=Path, metavar="INTO")
    options = parser.parse_args()
    before = len(Results.read(options.into).runs)
    merged = merge(options.folders, options.into)
    merged.write()
    print(f"{options.into}: {before} runs before, {len(merged.runs)} now")


if __name__ == "__main__":
    main()
