"""How long `import nesht` takes, beside NumPy and Gymnasium, which it needs: the median of fresh processes, in turn.

python benchmarks/import_time.py
"""

from __future__ import annotations

import json
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
ROUNDS = 15


def main() -> None:
    idle = machine.wait_until_quiet(60)
    seconds: dict[str, list[float]] = {name: [] for name in WAYS}
    for _ in range(ROUNDS):
        for name, code in WAYS.items():
            start = time.perf_counter()
            subprocess.run([sys.executable, "-c", code], check=True)
            seconds[name].append(time.perf_counter() - start)
    start = median(seconds["python alone"])
    found = {name: round(median(values) - start, 3) for name, values in seconds.items() if name != "python alone"}
    out = Path(__file__).parents[1] / "results" / "import-time.json"
    about = {"command": machine.command(), **machine.describe(), "idle share at the start": round(idle, 2)}
    extra = {"python alone": round(start, 3), "seconds beyond python alone": found, "raw": seconds}
    out.write_text(json.dumps({**about, **extra}, indent=1) + "\n")
    for name, value in found.items():
        print(f"{value * 1000:6.0f} ms  {name}")


if __name__ == "__main__":
    main()
