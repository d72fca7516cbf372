#!/usr/bin/env bash
# Prepares a GPU machine without a network, which has Python, NumPy and torch with CUDA:
#   gpu_setup.sh PARTS TARGET && export PYTHONPATH=TARGET:src
# PARTS holds wheels of everything else that nesht needs (gpu_wheels.txt), and the parts of Warp that install.sh there puts
# together.
set -euo pipefail
parts=$(cd "$1" && pwd) target=$2
bash "$parts/install.sh" "$parts" "$target"
for wheel in "$parts"/*.whl; do
  name=$(basename "$wheel" | cut -d- -f1)
  case $name in mujoco_core | mujoco_warp) continue ;; esac
  python3 -c "import $name" 2>/dev/null || python3 -m pip install -q --no-index --no-deps --target "$target" "$wheel"
done
PYTHONPATH=$target:src python3 -c "import nesht; print('nesht', nesht.__version__)"
