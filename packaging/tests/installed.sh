#!/bin/sh
# Installs the packages of /packages in this system, uses them, and removes them. Run by `cargo xtask dist --test`
# in a new Debian system, in namespaces of its own. $1: whether the system has OpenSSH (with-openssh, bare).
set -eu
export LC_ALL=C DEBIAN_FRONTEND=noninteractive

fail() { echo "FAILED: $*" >&2; exit 1; }
step() { echo "--- $*"; }

# All files with their contents, apart from what dpkg and the programs of users keep for themselves.
files() {
    find / -xdev \( -path /proc -o -path /sys -o -path /dev -o -path /tmp -o -path /packages -o -path /home \
        -o -path /root -o -path /var/lib/dpkg -o -path /var/log -o -path /var/cache -o -path /run \
        -o -path '/etc/*-' -o -path '/etc/.pwd.lock' \) -prune -o \
        \( -type f -printf '%m %U %G %p ' -exec sha256sum {} \; \) -o \( -type l -printf '%p -> %l\n' \) -o -printf '%m %p\n' \
        | sed 's/  .*//' | sort
}

server=
start_server() {
    . /etc/default/lhsshd
    # As lhsshd.service does.
    /usr/sbin/lhsshd -t -f /etc/ssh/lhsshd_config $LHSSHD_OPTIONS
    /usr/sbin/lhsshd -D -E /tmp/lhsshd.log -f /etc/ssh/lhsshd_config $LHSSHD_OPTIONS &
    server=$!
    wait_for "the server" grep -qs 'Server listening on 0.0.0.0 port 2222' /tmp/lhsshd.log
}
wait_for() {
    what=$1; shift
    for _ in $(seq 300); do
        if "$@"; then return 0; fi
        sleep 0.1
    done
    cat /tmp/lhsshd.log >&2 || true
    fail "$what does not come"
}
as_ada() { su ada -c "cd; $*"; }
options="-o StrictHostKeyChecking=accept-new -o BatchMode=yes"

step "the system before"
useradd --create-home --shell /bin/sh --password '*' ada
files > /tmp/before
[ "$(wc -l < /tmp/before)" -gt 1000 ] || fail "the list of files is too short"
keys_before=$(cat /etc/ssh/ssh_host_*_key 2> /dev/null | sha256sum)

step "install"
dpkg --install /packages/longhaul_*.deb /packages/longhaul-server_*.deb > /tmp/dpkg.log 2>&1 || { cat /tmp/dpkg.log; fail "dpkg"; }
ls /etc/ssh/ssh_host_ed25519_key > /dev/null || fail "no host key"
if [ "$1" = with-openssh ]; then
    [ "$keys_before" = "$(cat /etc/ssh/ssh_host_*_key | sha256sum)" ] || fail "host keys have changed"
    ssh -V 2>&1 | grep -q '^OpenSSH' || fail "ssh is not OpenSSH's"
    ! ssh -V 2>&1 | grep -q Longhaul || fail "ssh is ours"
    cmp -s /usr/sbin/sshd /usr/lib/longhaul/longhaul && fail "sshd is ours"
fi
[ "$(stat -c %U:%a /etc/ssh/lhsshd_config)" = root:644 ] || fail "permissions of the configuration"
getent passwd lhsshd > /dev/null || fail "no user lhsshd"
for name in lhssh lhscp lhsftp lhssh-keygen lhssh-agent lhssh-add lhssh-keyscan longhaul; do
    $name --help > /dev/null 2>&1 || fail "$name --help"
done

step "a session and a copy over port 2222"
as_ada "mkdir -m 700 .ssh; lhssh-keygen -q -t ed25519 -N '' -f .ssh/id_ed25519; cp .ssh/id_ed25519.pub .ssh/authorized_keys"
start_server
[ "$(as_ada "lhssh $options -p 2222 127.0.0.1 id -un")" = ada ] || { cat /tmp/lhsshd.log; fail "no session"; }
as_ada "head -c 20000000 /dev/urandom > blob && lhscp $options -q -P 2222 blob 127.0.0.1:copy && cmp blob copy" \
    || { cat /tmp/lhsshd.log; fail "no copy"; }
as_ada "echo 'get blob third' | lhsftp $options -q -b - -P 2222 127.0.0.1 && cmp blob third" > /dev/null || fail "no SFTP"
grep -q ':2222 ' /proc/net/tcp || grep -q ':08AE ' /proc/net/tcp || fail "another port"
! grep -q ':0016 ' /proc/net/tcp || fail "port 22 is taken"

step "upgrade with an open session"
rm -f /tmp/to /tmp/from
mkfifo /tmp/to
chmod 666 /tmp/to
as_ada "lhssh $options -p 2222 127.0.0.1 'echo up; cat' < /tmp/to > from" &
client=$!
exec 9> /tmp/to
wait_for "the session" grep -q up /home/ada/from
for package in longhaul longhaul-server longhaul-openssh-names; do
    rm -rf /tmp/unpacked
    dpkg-deb --raw-extract /packages/${package}_*.deb /tmp/unpacked
    sed -i -e '/^Version:/s/$/+next/' -e "s/(= \([^)]*\))/(= \1+next)/" /tmp/unpacked/DEBIAN/control
    dpkg-deb --root-owner-group -Znone --build /tmp/unpacked /tmp/next-$package.deb > /dev/null
done
echo '# changed by the administrator' >> /etc/ssh/lhsshd_config
dpkg --install /tmp/next-longhaul.deb /tmp/next-longhaul-server.deb > /tmp/dpkg.log 2>&1 || { cat /tmp/dpkg.log; fail "upgrade"; }
kill -HUP "$server"
wait_for "the new server" sh -c '[ "$(grep -c "Server listening on 0.0.0.0 port 2222" /tmp/lhsshd.log)" -ge 2 ]'
[ "$(as_ada "lhssh $options -p 2222 127.0.0.1 id -un")" = ada ] || fail "no session after the upgrade"
echo "still here" >&9
exec 9>&-
wait "$client" || fail "the session has ended with an error"
grep -q "still here" /home/ada/from || fail "the session was lost"
grep -q 'changed by the administrator' /etc/ssh/lhsshd_config || fail "the configuration was replaced"

step "downgrade"
dpkg --install /packages/longhaul_*.deb /packages/longhaul-server_*.deb > /tmp/dpkg.log 2>&1 || { cat /tmp/dpkg.log; fail "downgrade"; }
[ "$(as_ada "lhssh $options -p 2222 127.0.0.1 id -un")" = ada ] || fail "no session after the downgrade"

step "OpenSSH's names, taken and given back"
theirs=$(command -v ssh > /dev/null && ssh -V 2>&1 || echo none)
dpkg --install /packages/longhaul-openssh-names_*.deb > /tmp/dpkg.log 2>&1 || { cat /tmp/dpkg.log; fail "names"; }
for name in ssh scp sftp ssh-keygen ssh-agent ssh-add ssh-keyscan; do
    [ "$(readlink -f /usr/bin/$name)" = /usr/lib/longhaul/longhaul ] || fail "$name is not ours"
done
ssh -V 2>&1 | grep -q 'OpenSSH_.*Longhaul' || fail "ssh -V"
[ "$(as_ada "ssh $options -p 2222 127.0.0.1 id -un")" = ada ] || fail "no session of ssh"
as_ada "scp $options -q -P 2222 blob 127.0.0.1:fourth && cmp blob fourth" || fail "no copy of scp"
if [ "$1" = with-openssh ]; then
    [ "$(ssh.openssh -V 2>&1)" = "$theirs" ] || fail "ssh.openssh"
    [ "$(as_ada "ssh.openssh $options -p 2222 127.0.0.1 id -un")" = ada ] || fail "no session of OpenSSH's ssh"
fi
dpkg --install /tmp/next-longhaul.deb /tmp/next-longhaul-server.deb /tmp/next-longhaul-openssh-names.deb > /tmp/dpkg.log 2>&1 \
    || { cat /tmp/dpkg.log; fail "upgrade of the names"; }
[ "$(readlink -f /usr/bin/ssh)" = /usr/lib/longhaul/longhaul ] || fail "ssh is not ours after the upgrade"
dpkg --purge longhaul-openssh-names > /tmp/dpkg.log 2>&1 || { cat /tmp/dpkg.log; fail "removing the names"; }
hash -r
[ "$(command -v ssh > /dev/null && ssh -V 2>&1 || echo none)" = "$theirs" ] || fail "ssh was not given back"

step "remove and purge"
kill "$server"
wait "$server" || true
server=
dpkg --remove longhaul-server longhaul > /tmp/dpkg.log 2>&1 || { cat /tmp/dpkg.log; fail "remove"; }
[ ! -e /usr/sbin/lhsshd ] || fail "lhsshd is still there"
grep -q 'changed by the administrator' /etc/ssh/lhsshd_config || fail "removing took the configuration away"
dpkg --purge longhaul-server longhaul > /tmp/dpkg.log 2>&1 || { cat /tmp/dpkg.log; fail "purge"; }
files > /tmp/after
diff /tmp/before /tmp/after || fail "the packages have left something"
[ "$keys_before" = "$(cat /etc/ssh/ssh_host_*_key 2> /dev/null | sha256sum)" ] || fail "host keys are not as before"
echo "passed: $1"
