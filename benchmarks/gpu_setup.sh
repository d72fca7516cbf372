#!/usr/bin/env bash
# Prepares a GPU machine without a network, which has Python, NumPy and torch with CUDA, within seconds:
#   gpu_setup.sh PARTS TARGET && export PYTHONPATH=TARGET:src
# PARTS is made by gpu_parts.sh: wheels of all that nesht needs beside them, and Warp in parts: its library
# packed as warp.so.xz.0 and .1, and all else of its wheel as warp_slim.zip. What is there already is not unpacked.
set -euo pipefail
parts=$(cd "$1" && pwd) target=$2
mkdir -p "$target"
python3 - "$parts" "$target" <<'PY'
import lzma, sys, zipfile
from concurrent.futures import ThreadPoolExecutor
from importlib.metadata import distributions
from pathlib import Path

parts, target = map(Path, sys.argv[1:])
library, there = target / "warp/bin/warp.so", {each.name.lower().replace("-", "_") for each in distributions()}


def unpack(wheel: Path) -> None:
    if wheel.name.split("-")[0].lower() not in there:
        zipfile.ZipFile(wheel).extractall(target)


def unpack_warp() -> None:
    zipfile.ZipFile(parts / "warp_slim.zip").extractall(target)
    library.parent.mkdir(parents=True, exist_ok=True)
    library.write_bytes(lzma.decompress(b"".join((parts / f"warp.so.xz.{i}").read_bytes() for i in range(2))))


with ThreadPoolExecutor(8) as pool:
    jobs = [pool.submit(unpack_warp), *(pool.submit(unpack, wheel) for wheel in sorted(parts.glob("*.whl")))]
    for job in jobs:
        job.result()
PY
PYTHONPATH=$target:src python3 -c "import mujoco, warp, nesht; print('nesht', nesht.__version__, 'mujoco', mujoco.__version__, 'warp', warp.__version__)"
