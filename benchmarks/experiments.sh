#!/usr/bin/env bash
# All experiments on a GPU: experiments.sh [SECONDS [ENVIRONMENT...]]
# Results go to results/; what is there is not run again, so that a run that was stopped, by the clock or by hand, goes on
# with the same command. The search comes first: what it chooses is what the others use. They run beside each other: most
# of the time of each is the longest episode of every generation. With NVIDIA's MPS running, they share the GPU instead of
# taking turns.
set -uo pipefail
cd "$(dirname "$0")/.."
until=$((SECONDS + ${1:-86400}))
envs=${*:2}
envs=${envs:-HalfCheetah-v4 Hopper-v4 Walker2d-v4}
work=${WORK:-runs/experiments}
export CUDA_DEVICE_MAX_CONNECTIONS=8 # many queues of many processes are more than MPS has

go() {
  local left=$((until - SECONDS))
  ((left > 5)) || { echo "no time left for $*"; return 1; }
  echo "== nesht experiment $* ($left s left)"
  # A job in the background would ignore Ctrl-C, and the clock's.
  # shellcheck disable=SC2086 # environments are words
  env --default-signal=INT timeout -s INT "$left" python3 -m nesht experiment "$@" --env $envs --device cuda --work "$work" \
    2> >(grep -v '^ *[0-9]*%' >&2)
}

go tuning || exit 1
python3 - <<'P' || exit 1
import tomllib
from pathlib import Path
import tomli_w
used = Path("src/nesht/tuned.toml")
chosen = tomllib.loads(Path("results/tuning-tuned/chosen.toml").read_text())
used.write_text(tomli_w.dumps({**tomllib.loads(used.read_text()), **chosen}))
P
for name in table1 clean limits prune-once ablation; do go "$name" & done
go table1 --preset paper &
[[ $envs != *Hopper-v4* ]] || go heatmap &
failed=0
for job in $(jobs -p); do wait "$job" || failed=1; done
exit "$failed"
