#!/bin/sh
# Boots the Debian system in the directory $1 with systemd, in namespaces of its own, runs $2 of its /packages
# as a service, and prints what it prints. Exits with status 77 if this machine permits no control groups or
# namespaces of its own, and with another one if anything fails after that. Run by `cargo xtask dist --test`
# as root.
set -eu
root=$1
script=$2
hierarchies=
for directory in /sys/fs/cgroup /sys/fs/cgroup/unified /sys/fs/cgroup/systemd; do
    if [ -e $directory/cgroup.procs ]; then hierarchies="$hierarchies $directory"; fi
done
group=longhaul-test-$$
cleanup() {
    for directory in $hierarchies; do
        # systemd has made more below.
        find "$directory/$group" -depth -type d -exec rmdir {} \; 2> /dev/null || true
    done
}
trap cleanup EXIT

cat > "$root/etc/systemd/system/longhaul-test.service" << END
[Unit]
After=multi-user.target
Wants=multi-user.target
SuccessAction=exit-force
FailureAction=exit-force
[Service]
Type=oneshot
ExecStart=/bin/sh /packages/$script
StandardOutput=append:/packages/output
StandardError=append:/packages/output
END
# Its presence also shows that the service has started; that of `permitted`, that this machine permits the
# boot.
rm -f "$root/packages/output" "$root/packages/permitted"
(
    for directory in $hierarchies; do
        mkdir "$directory/$group" && sh -c 'echo $PPID' > "$directory/$group/cgroup.procs" || exit 0
    done
    timeout --kill-after=5 1800 unshare --cgroup --mount --pid --net --uts --ipc --fork --kill-child sh -euc '
        cd "$0"
        touch packages/permitted
        ip link set lo up
        mount --bind . "$0"
        cd "$0"
        mount -t proc proc proc
        mount -t sysfs -o ro sysfs sys
        mount -t tmpfs -o mode=755 run run
        mount -t tmpfs -o mode=755 dev dev
        mkdir dev/pts dev/shm
        mount -t devpts -o newinstance,ptmxmode=0666 devpts dev/pts
        ln -s pts/ptmx dev/ptmx
        ln -s /proc/self/fd dev/fd
        for node in null:3 zero:5 full:7 random:8 urandom:9; do
            mknod -m 666 "dev/${node%:*}" c 1 "${node#*:}"
        done
        mknod -m 666 dev/tty c 5 0
        refused() {
            rm packages/permitted
            exit 1
        }
        if [ -e /sys/fs/cgroup/cgroup.procs ]; then
            mount -t cgroup2 cgroup2 sys/fs/cgroup || refused
        else
            mount -t tmpfs -o mode=755 cgroup sys/fs/cgroup
            mkdir sys/fs/cgroup/unified sys/fs/cgroup/systemd
            mount -t cgroup2 cgroup2 sys/fs/cgroup/unified || refused
            mount -t cgroup -o none,name=systemd cgroup sys/fs/cgroup/systemd || refused
        fi
        mkdir -p old
        pivot_root . old
        umount -l /old
        rmdir /old
        exec env -i container=longhaul PATH=/usr/sbin:/usr/bin:/sbin:/bin \
            /lib/systemd/systemd --unit=longhaul-test.service --log-target=journal --show-status=0
    ' "$root"
) > "$root/packages/boot.log" 2>&1 || true
if [ ! -e "$root/packages/output" ]; then
    cat "$root/packages/boot.log"
    if [ ! -e "$root/packages/permitted" ]; then exit 77; fi
    echo "systemd ended before $script began"
    exit 1
fi
cat "$root/packages/output"
grep -q '^passed: ' "$root/packages/output"
