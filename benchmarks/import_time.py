"""How long `import nesht` takes, beside NumPy and Gymnasium, which it needs: medians over fresh processes, in turn.

    python benchmarks/import_time.py

Processor seconds hardly depend on what else the machine does; wall seconds do.
"""

from __future__ import annotations

import json
import os
import subprocess
import sys
import time
from pathlib import Path
from statistics import median

import machine

WAYS = {
    "python alone": "",
    "import numpy": "import numpy",
    "import gymnasium": "import gymnasium",
    "import nesht": "import nesht",
    "nesht.load_policy": "import nesht; nesht.load_policy",
    "nesht.train": "import nesht; nesht.train",
}
ROUNDS = 9


def measure(code: str) -> tuple[float, float]:
    """Return (wall seconds, processor seconds) of a process that runs the code."""
    wall, before = time.perf_counter(), os.times()
    subprocess.run([sys.executable, "-c", code], check=True)
    after = os.times()
    spent = after.children_user + after.children_system - before.children_user - before.children_system
    return time.perf_counter() - wall, spent


def main() -> None:
    idle = machine.wait_until_quiet(60)
    rounds = [{name: measure(code) for name, code in WAYS.items()} for _ in range(ROUNDS)]
    found = {
        name: {
            "wall seconds": round(median(each[name][0] for each in rounds), 3),
            "processor seconds": round(median(each[name][1] for each in rounds), 3),
        }
        for name in WAYS
    }
    out = Path(__file__).parents[1] / "results" / "import-time.json"
    about = {"command": machine.command(), **machine.describe(), "idle share at the start": round(idle, 2)}
    out.write_text(json.dumps({**about, "medians": found, "rounds": rounds}, indent=1) + "\n")
    for name, each in found.items():
        print(f"{each['processor seconds']:.2f} s of processor, {each['wall seconds']:.2f} s of wall  {name}")


if __name__ == "__main__":
    main()
