#!/usr/bin/env bash
# The reinforcement learners of table 1 on a GPU, several processes at a time: rivals.sh OUT [AT_ONCE [METHOD...]]
# Every method, environment and noise ratio is one process, with a folder of its own under OUT; those that are finished go
# into the table with: python benchmarks/merge.py OUT/*/table1-tuned results/table1-tuned
# With NVIDIA's MPS running, the processes share the GPU instead of taking turns.
set -uo pipefail
out=$1 at_once=${2:-3} methods=${*:3}
export out CUDA_DEVICE_MAX_CONNECTIONS=4 # many queues of many processes are more than MPS has
for method in ${methods:-ANF-SAC DDPG TRPO TD3}; do
  for env in Hopper-v4 HalfCheetah-v4 Walker2d-v4; do
    for noise in 5 10 20; do echo "$method $env $noise"; done
  done
done | xargs -P "$at_once" -L 1 bash -c '
  folder=$out/$0-$1-$2
  mkdir -p "$folder"
  python3 -m nesht experiment table1 --method "$0" --env "$1" --noise "$2" --device cuda --out "$folder/table1-tuned" \
    --work "$folder/work" > "$folder/log" 2>&1
  echo "$0 $1 x$2: exit $?, $SECONDS s"'
