"""Draw docs/images/fused-scaling.png from the numbers that `fused.py --scaling` wrote.

python benchmarks/draw_fused.py results/fused-scaling-cuda.json
"""

from __future__ import annotations

import json
import sys
from pathlib import Path

import matplotlib as mpl
import matplotlib.pyplot as plt

from fused import ENVS

PICTURE = Path(__file__).parents[1] / "docs" / "images" / "fused-scaling.png"


def main() -> None:
    """Draw both panels."""
    report = json.loads(Path(sys.argv[1]).read_text())
    mpl.rcParams |= {"font.size": 10, "axes.spines.top": False, "axes.spines.right": False, "axes.grid": True}
    mpl.rcParams |= {"grid.alpha": 0.3, "axes.axisbelow": True}
    figure, (flight, size) = plt.subplots(1, 2, figsize=(10, 4), constrained_layout=True, sharey=True)
    for env, marker in zip(ENVS, "os^", strict=True):
        rows = report[env]["scaling"]
        flight.plot([r["episodes"] for r in rows], [r["kernel steps/s"] for r in rows], marker=marker, label=env)
        rows = report[env]["sizes"]
        size.plot([r["parameters"] for r in rows], [r["kernel steps/s"] for r in rows], marker=marker, label=env)
    flight.set(xscale="log", yscale="log", xlabel="episodes in flight", ylabel="environment steps per second")
    flight.set_title("Linear policy, 10 noise inputs per real one", loc="left", fontsize=10)
    size.set(xscale="log", xlabel="parameters of the policy")
    size.set_title("Linear, 8, 32, 64 x 64 hidden units, every noise input drawn", loc="left", fontsize=10)
    flight.legend(frameon=False)
    figure.suptitle(f"Fused engine on one {report['gpu']}", x=0.01, ha="left", fontsize=11)
    figure.savefig(PICTURE, dpi=130)
    print(PICTURE)


if __name__ == "__main__":
    main()
