#!/usr/bin/env bash
# Starts rivals.py in the background on a GPU machine without a network:
#   rivals.sh PARTS OUT [options of rivals.py]
# PARTS is what gpu_setup.sh takes. What runs is a copy of this tree in OUT, so that the tree may change meanwhile.
# OUT/said is what rivals.py says; take OUT/results.tgz home every now and then, the machine may be gone before the end.
set -euo pipefail
parts=$(realpath "$1") out=$(realpath -m "$2")
shift 2
mkdir -p "$out/tree"
cp -r src benchmarks results pyproject.toml "$out/tree"
cd "$out/tree"
bash benchmarks/gpu_setup.sh "$parts" "$out/packages"
export PYTHONPATH=$out/packages:$out/tree/src PYTHONUNBUFFERED=1
nvidia-cuda-mps-control -d || echo "no MPS: processes take turns"
setsid nohup python3 benchmarks/rivals.py "$out" "$@" > "$out/said" 2>&1 < /dev/null &
