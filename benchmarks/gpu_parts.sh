#!/usr/bin/env bash
# Makes what a GPU machine without a network needs (see gpu_setup.sh), as two folders that can be carried one at a time:
#   gpu_parts.sh DIR [PRESET]
# Put the files of DIR/a and DIR/b into one folder there: that is PARTS. Warp's library is packed tightly, which takes five
# minutes; with PRESET 3 (of xz; usually 9) one, for a third more megabytes. For Python 3.12 on x86-64 Linux.
set -euo pipefail
dir=$1 preset=${2:-9} here=$(cd "$(dirname "$0")" && pwd)
warp=${WARP:-1.19.0} mujoco=${MUJOCO:-4.0.0}
work=$(mktemp -d)
trap 'rm -rf "$work"' EXIT
fetch() {
  python3 -m pip download -q --no-deps --python-version 3.12 --only-binary=:all: --platform manylinux_2_28_x86_64 \
    --platform manylinux_2_27_x86_64 --platform manylinux_2_17_x86_64 --platform manylinux2014_x86_64 -d "$1" "${@:2}"
}
mkdir -p "$dir/a" "$dir/b"
fetch "$work" "warp-lang==$warp"
fetch "$dir/a" -r "$here/gpu_wheels.txt" pytest pluggy iniconfig packaging hypothesis sortedcontainers attrs
fetch "$dir/b" "mujoco-core==$mujoco" absl-py etils fsspec importlib_resources zipp typing_extensions
python3 - "$work" "$dir" "$preset" <<'PY'
import lzma, sys, zipfile
from pathlib import Path

work, out, preset = Path(sys.argv[1]), Path(sys.argv[2]), int(sys.argv[3])
wheel = zipfile.ZipFile(next(work.glob("warp_lang-*.whl")))
skip = ("warp/tests/", "warp/examples/", "warp/bin/")  # of bin, warp-clang.so serves CPUs alone
with zipfile.ZipFile(out / "b/warp_slim.zip", "w", zipfile.ZIP_DEFLATED) as slim:
    for name in wheel.namelist():
        if not name.startswith(skip):
            slim.writestr(name, wheel.read(name))
filters = [{"id": lzma.FILTER_X86}, {"id": lzma.FILTER_LZMA2, "preset": preset, "dict_size": 256 << 20}]
packed = lzma.compress(wheel.read("warp/bin/warp.so"), filters=filters)
half = (len(packed) + 1) // 2
for i, part in enumerate("ab"):
    (out / part / f"warp.so.xz.{i}").write_bytes(packed[i * half : (i + 1) * half])
PY
du -sh "$dir/a" "$dir/b"
