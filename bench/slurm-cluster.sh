#!/bin/bash
# Runs a command beside a one-node cluster of Debian's Slurm, which is started for it on this machine and stopped afterwards.
#
#   bench/slurm-cluster.sh COMMAND [ARGUMENT...]
#
# Needs root and the packages slurm-wlm and munge. It uses its own directory and ports, so a Slurm that already runs on this
# machine is not affected. `sbatch` and its relatives find it by SLURM_CONF. Exit status: that of the command; where it is not 0,
# the ends of the daemons' logs are shown.
set -eu

: "${1:?which command}"
work=$(mktemp -d)
chmod 755 "$work"
pids=()

stop() {
    for pid in "${pids[@]}"; do kill "$pid" 2>/dev/null || true; done
    for pid in "${pids[@]}"; do wait "$pid" 2>/dev/null || true; done
    rm -rf "$work"
}
trap stop EXIT

free_port() {
    python3 -c 'import socket; s = socket.socket(); s.bind(("127.0.0.1", 0)); print(s.getsockname()[1])'
}

# munge authenticates the senders of messages; this instance has its own key and socket.
mkdir -m 755 "$work/munge"
chown munge: "$work/munge"
dd if=/dev/urandom of="$work/munge/key" bs=1 count=1024 status=none
chown munge: "$work/munge/key"
chmod 400 "$work/munge/key"
setpriv --reuid=munge --regid=munge --clear-groups \
    munged --foreground --key-file="$work/munge/key" --socket="$work/munge/socket" --pid-file="$work/munge/pid" \
    --log-file="$work/munge/log" --seed-file="$work/munge/seed" >"$work/munged.out" 2>&1 &
pids+=($!)

host=$(hostname -s)
mkdir "$work/state" "$work/spool"
cat >"$work/slurm.conf" <<CONF
ClusterName=longhaul
SlurmctldHost=$host(127.0.0.1)
SlurmctldPort=$(free_port)
SlurmdPort=$(free_port)
AuthType=auth/munge
AuthInfo=socket=$work/munge/socket
CredType=cred/munge
SlurmUser=root
SlurmdUser=root
StateSaveLocation=$work/state
SlurmdSpoolDir=$work/spool
SlurmctldPidFile=$work/slurmctld.pid
SlurmdPidFile=$work/slurmd.pid
SlurmctldLogFile=$work/slurmctld.log
SlurmdLogFile=$work/slurmd.log
ProctrackType=proctrack/linuxproc
TaskPlugin=task/none
SchedulerType=sched/backfill
SelectType=select/cons_tres
SelectTypeParameters=CR_Core
ReturnToService=2
MpiDefault=none
NodeName=$host NodeAddr=127.0.0.1 CPUs=$(nproc) State=UNKNOWN
PartitionName=all Nodes=$host Default=YES MaxTime=10 State=UP OverSubscribe=FORCE:8
CONF
export SLURM_CONF=$work/slurm.conf

for _ in $(seq 100); do [ -S "$work/munge/socket" ] && break; sleep 0.1; done
slurmctld -D >"$work/slurmctld.out" 2>&1 &
pids+=($!)
slurmd -D -N "$host" >"$work/slurmd.out" 2>&1 &
pids+=($!)

for _ in $(seq 300); do
    sinfo -h -o %t 2>/dev/null | grep -qE '^(idle|mix|alloc)' && break
    sleep 0.1
done
status=0
"$@" || status=$?
if [ "$status" != 0 ]; then
    tail -n 20 "$work"/*.log >&2 || true
fi
exit "$status"
