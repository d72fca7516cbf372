#!/usr/bin/env bash
# All experiments, one after the other, on a GPU: experiments.sh [SECONDS]
# Results go to results/; what is there is not run again, so that a run that was stopped, by the clock or by hand, goes on
# with the same command. The search comes first: what it chooses is what the others use.
set -uo pipefail
cd "$(dirname "$0")/.."
until=$((SECONDS + ${1:-86400}))
work=${WORK:-runs/experiments}

go() {
  local left=$((until - SECONDS))
  ((left > 5)) || { echo "no time left for $*"; return 1; }
  echo "== nesht experiment $* ($left s left)"
  timeout -s INT "$left" python3 -m nesht experiment "$@" --device cuda --work "$work" 2> >(grep -v '^ *[0-9]*%' >&2)
}

go tuning || exit 1
cp results/tuning-tuned/chosen.toml src/nesht/tuned.toml
go table1 && go heatmap && go clean && go table1 --preset paper && go limits && go prune-once && go ablation
