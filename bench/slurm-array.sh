#!/bin/bash
# Runs a script as a job array of Debian's Slurm, on a cluster of this machine that lives as long (bench/slurm-cluster.sh).
#
#   bench/slurm-array.sh TASKS SCRIPT
#
# Exit status: 0 when every task exited with 0; the output of failed tasks is shown.
set -eu

tasks=${1:?how many tasks} script=$(realpath "${2:?which script}")
if [ "${3:-}" != inside ]; then
    exec "$(dirname "$0")/slurm-cluster.sh" "$0" "$tasks" "$script" inside
fi
work=$(mktemp -d)
trap 'rm -rf "$work"' EXIT
chmod 755 "$work"
if ! sbatch --wait --array="1-$tasks" --overcommit --output="$work/task-%a.out" "$script" >"$work/sbatch.out" 2>&1; then
    echo "the job array failed:" >&2
    tail -n 20 "$work"/sbatch.out "$work"/task-*.out >&2 || true
    exit 1
fi
cat "$work"/task-*.out
