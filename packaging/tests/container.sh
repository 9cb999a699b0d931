#!/bin/sh
# Tests the files of a container image without a container engine. Run by `cargo xtask dist --test` in namespaces of
# its own (mounts, processes, network). $1: the unpacked image; $2: an empty directory for volumes.
set -eu
export LC_ALL=C
root=$1
volumes=$2

fail() {
    echo "FAILED: $*" >&2
    cat "$volumes"/log* >&2 || true
    exit 1
}
step() { echo "--- $*"; }
wait_for() {
    what=$1; shift
    for _ in $(seq 300); do
        if "$@"; then return 0; fi
        sleep 0.1
    done
    fail "$what does not come"
}

# As a container engine does with --read-only --cap-drop ALL --security-opt no-new-privileges.
ordinary() {
    $exec setpriv --no-new-privs --bounding-set=-all,+setuid,+setgid,+sys_chroot \
        unshare --root "$root" --setgid 1000 --setuid 1000 "$@"
}
# As an engine does with root and three capabilities.
as_root() {
    $exec setpriv --no-new-privs --bounding-set=-all,+setuid,+setgid,+sys_chroot --inh-caps=-all unshare --root "$root" "$@"
}
# What starts a server in the background is replaced by it, so that its process id is known.
exec=
options="-i /keys/id -o BatchMode=yes -o StrictHostKeyChecking=accept-new -o UserKnownHostsFile=/keys/known_hosts"
status() { sed -n "s/^$2:[[:space:]]*//p" "/proc/$1/status"; }

ip link set lo up
mkdir "$volumes/keys" "$volumes/data"
chown 1000:1000 "$volumes/keys" "$volumes/data"
# What container engines mount.
printf '127.0.0.1 localhost server.hosts\n' > "$volumes/hosts"
printf 'nameserver 127.0.0.1\n' > "$volumes/resolv.conf"
cat "$root/etc/passwd" - > "$volumes/passwd" << 'END'
ada:x:2001:2001::/:/usr/lib/longhaul/lhsftp-server
bob:x:2002:2002::/:/usr/lib/longhaul/lhsftp-server
END
touch "$root/etc/hosts" "$root/etc/resolv.conf"
printf 'HostKey /keys/ssh_host_ed25519_key\nUsePAM yes\n' > "$root/etc/ssh/sshd_config"
mount --bind "$root" "$root"
mount -t proc proc "$root/proc"
mount -t tmpfs -o mode=755 dev "$root/dev"
for node in null:3 zero:5 full:7 random:8 urandom:9; do
    mknod -m 666 "$root/dev/${node%:*}" c 1 "${node#*:}"
done
for volume in keys data; do mount --bind "$volumes/$volume" "$root/$volume"; done
for file in hosts resolv.conf; do mount --bind "$volumes/$file" "$root/etc/$file"; done
mount -o remount,bind,ro "$root"
! touch "$root/etc/written" 2> /dev/null || fail "the root can be written"

step "keys are made in a volume"
ordinary /usr/bin/lhssh-keygen -q -t ed25519 -N '' -f /keys/ssh_host_ed25519_key
ordinary /usr/bin/lhssh-keygen -q -t ed25519 -N '' -f /keys/id
cp -p "$volumes/keys/id.pub" "$volumes/keys/authorized_keys"

step "PAM, which the image does not have"
# docs/pam.md shows what a static server says, and what another one does without the library.
said=$(as_root /usr/sbin/lhsshd -t -f /etc/ssh/sshd_config 2>&1) || true
if [ -e "$root/lib64/ld-linux-x86-64.so.2" ]; then
    expected="UsePAM: libpam.so.0: cannot open shared object file: No such file or directory"
else
    expected="/etc/ssh/sshd_config line 2: Unsupported option UsePAM"
fi
case $said in *"$expected"*) ;; *) fail "lhsshd -t says: $said" ;; esac

step "SFTP, as an ordinary user without capabilities, in a read-only root"
(exec=exec; ordinary /usr/sbin/lhsshd -D -e -f /etc/ssh/lhsshd_config 2> "$volumes/log.sftp") &
server=$!
wait_for "the server" grep -qs 'Server listening on 0.0.0.0 port 2222' "$volumes/log.sftp"
[ "$(status "$server" Uid)" = "$(printf '1000\t1000\t1000\t1000')" ] || fail "the server runs as another user"
[ "$(status "$server" CapPrm)" = 0000000000000000 ] || fail "the server has capabilities"
[ "$(status "$server" NoNewPrivs)" = 1 ] || fail "the server may gain privileges"
head -c 20000000 /dev/urandom > "$volumes/data/blob"
chown 1000:1000 "$volumes/data/blob"
printf 'put /data/blob /data/copy\nmkdir sub\nrename copy sub/copy\nget sub/copy /data/back\n' > "$volumes/data/batch"
ordinary /usr/bin/lhsftp $options -q -b /data/batch -P 2222 longhaul@server.hosts > "$volumes/log.client" 2>&1 \
    || fail "no SFTP"
cmp "$volumes/data/blob" "$volumes/data/sub/copy" || fail "another file was stored"
cmp "$volumes/data/blob" "$volumes/data/back" || fail "another file came back"
mkdir "$volumes/data/many"
for n in $(seq 300); do echo "$n" > "$volumes/data/many/$n"; done
ordinary /usr/bin/lhscp $options -q -r -P 2222 /data/many longhaul@localhost:/data/again > "$volumes/log.client" 2>&1 \
    || fail "no copy of a tree"
diff -r "$volumes/data/many" "$volumes/data/again" || fail "another tree"
# Several hosts are asked at the same time, by threads.
[ "$(ordinary /usr/bin/lhssh-keyscan -t ed25519 -p 2222 server.hosts localhost 127.0.0.1 2> /dev/null | wc -l)" = 3 ] \
    || fail "lhssh-keyscan does not find three keys"
! ordinary /usr/bin/lhssh $options -p 2222 longhaul@localhost true 2> "$volumes/log.client" || fail "commands are run"
! ordinary /usr/bin/lhssh $options -p 2222 root@localhost true 2> "$volumes/log.client" || fail "root logs in"

if command -v python3 > /dev/null; then
    step "names by DNS"
    python3 -c '
import socket
server = socket.socket(socket.AF_INET, socket.SOCK_DGRAM)
server.bind(("127.0.0.1", 53))
print("ready", flush=True)
while True:
    query, peer = server.recvfrom(512)
    end = query.index(b"\0", 12) + 5
    is_a = query[end - 3] == 1
    answer = b"\xc0\x0c\0\1\0\1\0\0\0\x3c\0\4\x7f\0\0\1" if is_a else b""
    server.sendto(query[:2] + b"\x81\x80\0\1\0" + bytes([is_a]) + b"\0\0\0\0" + query[12:end] + answer, peer)
' > "$volumes/log.dns" 2>&1 &
    dns=$!
    wait_for "the name server" grep -qs ready "$volumes/log.dns"
    printf 'ls\n' > "$volumes/data/batch"
    ordinary /usr/bin/lhsftp $options -q -b /data/batch -P 2222 longhaul@server.example > "$volumes/log.client" 2>&1 \
        || fail "no name by DNS"
    kill "$dns"
fi

step "a jump host"
(exec=exec; ordinary /usr/sbin/lhsshd -D -e -p 2223 -f /etc/ssh/jump_config 2> "$volumes/log.jump") &
jump=$!
wait_for "the jump host" grep -qs 'Server listening on 0.0.0.0 port 2223' "$volumes/log.jump"
# The same options for both connections.
printf 'Host *\nIdentityFile /keys/id\nBatchMode yes\nStrictHostKeyChecking accept-new\nUserKnownHostsFile %s\n' \
    /keys/known_hosts > "$volumes/keys/config"
printf 'ls\n' > "$volumes/data/batch"
ordinary /usr/bin/lhsftp -F /keys/config -q -b /data/batch -J longhaul@localhost:2223 -P 2222 longhaul@127.0.0.1 \
    > "$volumes/log.client" 2>&1 || fail "no connection through the jump host"
! ordinary /usr/bin/lhsftp -F /keys/config -q -b /data/batch -P 2223 longhaul@localhost \
    > "$volumes/log.client" 2>&1 || fail "the jump host gives sessions"
kill "$jump" "$server"
wait "$jump" || true
wait "$server" || true

step "several users, each in a directory of its own"
mount --bind "$volumes/passwd" "$root/etc/passwd"
chown 0:0 "$volumes/data" "$volumes/keys/ssh_host_ed25519_key"
mkdir "$volumes/keys/authorized_keys.d"
for user in ada:2001 bob:2002; do
    name=${user%:*}
    mkdir -p "$volumes/data/$name/files"
    chown "${user#*:}:${user#*:}" "$volumes/data/$name/files"
    chmod 700 "$volumes/data/$name/files"
    cp "$volumes/keys/id.pub" "$volumes/keys/authorized_keys.d/$name"
done
chown 0:0 "$volumes/keys"
chmod 755 "$volumes/keys"
(exec=exec; as_root /usr/sbin/lhsshd -D -e -f /etc/ssh/users_config 2> "$volumes/log.users") &
server=$!
wait_for "the server" grep -qs 'Server listening on 0.0.0.0 port 2222' "$volumes/log.users"
printf 'put /data/blob ours\nls -l /files\n' > "$volumes/keys/batch"
for name in ada bob; do
    ordinary /usr/bin/lhsftp -F /keys/config -q -b /keys/batch -P 2222 "$name@localhost" \
        > "$volumes/log.client" 2>&1 || fail "no SFTP for $name"
    cmp "$volumes/data/blob" "$volumes/data/$name/files/ours" || fail "another file for $name"
done
[ "$(stat -c %u:%g "$volumes/data/bob/files/ours")" = 2002:2002 ] || fail "the file belongs to another user"
printf 'get /etc/passwd /keys/stolen\n' > "$volumes/keys/batch"
! ordinary /usr/bin/lhsftp -F /keys/config -q -b /keys/batch -P 2222 ada@localhost > "$volumes/log.client" 2>&1 \
    || fail "a user reads files of the image"
kill "$server"
wait "$server" || true
echo "passed: container"
