#!/bin/bash
# A Ray cluster inside a Slurm allocation, and a command of nesht on it. From the folder of your runs:
#
#   sbatch --nodes 8 examples/slurm.sh train --engine ray --env Hopper-v4 --noise-ratio 10 --out runs/hopper
#   sbatch --nodes 8 examples/slurm.sh resume runs/hopper
#   sbatch --nodes 8 examples/slurm.sh experiment table1
#
# Activate the environment that has nesht[ray] before sbatch, or in here. Shortly before the time is over Slurm sends a
# signal; nesht then saves, and `resume` goes on in another allocation, of any size.
#SBATCH --job-name=nesht
#SBATCH --nodes=4
#SBATCH --ntasks-per-node=1
#SBATCH --cpus-per-task=32
#SBATCH --time=12:00:00
#SBATCH --signal=B:TERM@120
set -eu

mapfile -t nodes < <(scontrol show hostnames "$SLURM_JOB_NODELIST")
ip=$(hostname --ip-address | awk '{print $1}')            # this script runs on the first node
port=$((20000 + SLURM_JOB_ID % 20000))                    # two jobs may share a node
export RAY_AUTH_MODE=token                                # nobody else on the network may use this cluster
RAY_AUTH_TOKEN=$(python -c 'import secrets; print(secrets.token_hex(32))')
export RAY_AUTH_TOKEN
ray=(ray start --block --num-cpus "$SLURM_CPUS_PER_TASK" --disable-usage-stats)

driver=
trap '[ -z "$driver" ] || kill -TERM "$driver"' TERM      # nesht saves what it has
trap 'kill $(jobs -p) 2> /dev/null || true; wait' EXIT    # and all of Ray ends with it

"${ray[@]}" --head --node-ip-address "$ip" --port "$port" --include-dashboard false > /dev/null &
for _ in {1..60}; do
    ray health-check --address "$ip:$port" 2> /dev/null && break
    sleep 1
done
for node in "${nodes[@]:1}"; do
    srun --overlap --nodes=1 --ntasks=1 --nodelist "$node" "${ray[@]}" --address "$ip:$port" > /dev/null &
done

nesht "$@" --address "$ip:$port" &                        # nodes that come up later join on their own
driver=$!
code=0
wait "$driver" || code=$?
if kill -0 "$driver" 2> /dev/null; then                   # the signal ended the waiting, not the driver
    code=0
    wait "$driver" || code=$?
fi
exit "$code"
