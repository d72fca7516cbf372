"""A stranger's path: every line of a README section as it stands there, in a fresh clone and environment, timed.

    python benchmarks/stranger.py

PYTHON names the interpreter for `make`, as always.
"""

from __future__ import annotations

import json
import os
import re
import subprocess
import sys
import tempfile
import time
from pathlib import Path

import machine

ROOT = Path(__file__).parents[1]
SECTION = "## From nothing to a policy of your own"


def lines(readme: str) -> list[str]:
    """Return the shell lines of the section."""
    block = re.search(r"```\n(.*?)```", readme.split(SECTION)[1], re.DOTALL)
    assert block, f"README.md has no block in {SECTION}"
    return [found for line in block[1].splitlines() if (found := re.sub(r"\s+#\s.*", "", line).strip())]


def main() -> None:
    idle = machine.wait_until_quiet(60)
    with tempfile.TemporaryDirectory() as folder:
        clone = Path(folder) / "nesht"
        subprocess.run(["git", "clone", "-q", str(ROOT), str(clone)], check=True)
        todo = lines((clone / "README.md").read_text())
        environment = {name: value for name, value in os.environ.items() if name != "VIRTUAL_ENV"}
        shell = subprocess.Popen(["bash", "-e"], cwd=clone, env=environment, stdin=subprocess.PIPE, text=True)
        assert shell.stdin
        took: dict[str, float] = {}
        for number, line in enumerate(todo):
            print(f"$ {line}", flush=True)
            start, mark = time.monotonic(), Path(folder) / f"done-{number}"
            shell.stdin.write(f"{line}\ntouch {mark}\n")  # one shell for all, as a person has
            shell.stdin.flush()
            while not mark.exists():
                if shell.poll() is not None:
                    sys.exit(f"failed: {line}")
                time.sleep(0.05)
            took[line] = round(time.monotonic() - start, 1)
        shell.stdin.close()
        shell.wait()
    total = round(sum(took.values()), 1)
    out = ROOT / "results" / "stranger.json"
    about = {"command": machine.command(), **machine.describe(), "idle share at the start": round(idle, 2)}
    out.write_text(json.dumps({**about, "seconds": took, "total": total}, indent=1) + "\n")
    for line, seconds in took.items():
        print(f"{seconds:7.1f} s  {line}")
    print(f"{total:7.1f} s  altogether")


if __name__ == "__main__":
    main()
