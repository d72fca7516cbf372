#!/usr/bin/env bash
# All experiments, one after the other, on a GPU: experiments.sh [SECONDS [ENVIRONMENT...]]
# Results go to results/; what is there is not run again, so that a run that was stopped, by the clock or by hand, goes on
# with the same command. The search comes first: what it chooses is what the others use.
set -uo pipefail
cd "$(dirname "$0")/.."
until=$((SECONDS + ${1:-86400}))
envs=${*:2}
envs=${envs:-HalfCheetah-v4 Hopper-v4 Walker2d-v4}
work=${WORK:-runs/experiments}

go() {
  local left=$((until - SECONDS))
  ((left > 5)) || { echo "no time left for $*"; return 1; }
  echo "== nesht experiment $* ($left s left)"
  # shellcheck disable=SC2086 # environments are words
  timeout -s INT "$left" python3 -m nesht experiment "$@" --env $envs --device cuda --work "$work" \
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
go table1 && go clean && go limits && go prune-once && go ablation && go table1 --preset paper
[[ $envs != *Hopper-v4* ]] || go heatmap
