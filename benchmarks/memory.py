"""Peak memory of one generation of 4096 members: HalfCheetah-v4, x20 distractors, 2 threads.

    python benchmarks/memory.py --out results/memory.json

Episodes are cut to 50 steps, which changes no array but the reward mask (one byte per step and simulation in flight).
"""

from __future__ import annotations

import argparse
import json
import resource
import subprocess
import sys
from pathlib import Path

TARGET_MB = 1000
OPTIONS = {
    "env": "HalfCheetah-v4",
    "noise_ratio": 20,
    "reward_keep": 0.1,
    "n": 4096,
    "generations": 1,
    "threads": 2,
    "max_episode_steps": 50,
}


def train() -> None:
    """Run the generation and print the peak of this process, in MB."""
    import nesht

    nesht.train(**OPTIONS, progress=False)
    print(resource.getrusage(resource.RUSAGE_SELF).ru_maxrss * 1024 / 1e6)  # Linux counts it in KiB


def main() -> None:
    """Measure in a fresh process, which inherits nothing from this one, and report."""
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--out", type=Path, default=Path("results/memory.json"), help="where to write the number")
    options = parser.parse_args()
    child = subprocess.run(
        [sys.executable, "-c", "import memory; memory.train()"],
        cwd=Path(__file__).parent,
        stdout=subprocess.PIPE,
        text=True,
        check=True,
    )
    from machine import describe

    peak, met = float(child.stdout.split()[-1]), float(child.stdout.split()[-1]) < TARGET_MB
    print(f"peak resident memory {peak:.0f} MB, target below {TARGET_MB} MB: {'met' if met else 'MISSED'}")
    report = {
        "command": " ".join(["python benchmarks/memory.py", *sys.argv[1:]]),
        **describe(),
        "options": OPTIONS,
        "peak_mb": peak,
        "met": met,
    }
    options.out.parent.mkdir(parents=True, exist_ok=True)
    options.out.write_text(json.dumps(report, indent=1) + "\n")


if __name__ == "__main__":
    main()
