#!/bin/sh
# Installs the packages of /packages in this system, uses them, and removes them. Run by `cargo xtask dist --test`
# in a new Debian system, in namespaces of its own. $1: whether the system has OpenSSH (with-openssh, bare).
set -eu
. /packages/common.sh
. /packages/debian.sh

step "the system before"
useradd --create-home --shell /bin/sh --password '*' ada
files > /tmp/before
[ "$(wc -l < /tmp/before)" -gt 1000 ] || fail "the list of files is too short"
keys_before=$(cat /etc/ssh/ssh_host_*_key 2> /dev/null | sha256sum)

step "install"
if [ "$1" = bare ]; then
    # Where the README looks for them.
    mkdir /packages/target
    ln -s .. /packages/target/dist
    page "apt install ./target/dist/longhaul_" README.md
    page "apt install ./target/dist/longhaul-server_" README.md
else
    page "apt install ./longhaul_"
fi
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

if [ "$1" = with-openssh ]; then
    step "the helper for host-based authentication"
    printf 'HostbasedAuthentication yes\nHostbasedUsesNameFromPacketOnly yes\n' > /etc/ssh/lhsshd_config.d/hostbased.conf
    echo 'EnableSSHKeysign yes' > /etc/ssh/ssh_config.d/hostbased.conf
    echo "127.0.0.1 localhost $(hostname)" | tr ' ' '\n' > /etc/ssh/shosts.equiv
    while read -r name; do echo "$name $(cat /etc/ssh/ssh_host_ed25519_key.pub)"; done < /etc/ssh/shosts.equiv \
        > /etc/ssh/ssh_known_hosts
    page "dpkg-statoverride"
fi
# Whether ada logs in by the host's key, which only a set-uid helper may use.
by_host_key() {
    as_ada "lhssh -F none -o BatchMode=yes -o PreferredAuthentications=hostbased -o HostbasedAuthentication=yes \
        -o StrictHostKeyChecking=accept-new -p 2222 127.0.0.1 id -un" > /tmp/said.log 2>&1 || return 1
    [ "$(tail -n 1 /tmp/said.log)" = ada ]
}

step "a session and a copy over port 2222"
as_ada "mkdir -m 700 .ssh; lhssh-keygen -q -t ed25519 -N '' -f .ssh/id_ed25519; cp .ssh/id_ed25519.pub .ssh/authorized_keys"
start_server
[ "$(as_ada "lhssh $options -p 2222 127.0.0.1 id -un")" = ada ] || { cat /tmp/lhsshd.log; fail "no session"; }
as_ada "head -c 20000000 /dev/urandom > blob && lhscp $options -q -P 2222 blob 127.0.0.1:copy && cmp blob copy" \
    || { cat /tmp/lhsshd.log; fail "no copy"; }
as_ada "echo 'get blob third' | lhsftp $options -q -b - -P 2222 127.0.0.1 && cmp blob third" > /dev/null || fail "no SFTP"
[ "$1" = bare ] || by_host_key || { cat /tmp/said.log /tmp/lhsshd.log; fail "no login by the host's key"; }
grep -q ':2222 ' /proc/net/tcp || grep -q ':08AE ' /proc/net/tcp || fail "another port"
! grep -q ':0016 ' /proc/net/tcp || fail "port 22 is taken"

step "fifty open sessions"
open_sessions 10

step "upgrade with open sessions"
make_next
echo '# changed by the administrator' >> /etc/ssh/lhsshd_config
old=$(stat -Lc %i /proc/$server/exe)
quietly apt install /tmp/next-longhaul.deb /tmp/next-longhaul-server.deb
wait_for_new_program
[ "$(stat -Lc %i /proc/$server/exe)" != "$old" ] || fail "the server is the old one"
restart_server
logs_in "after the upgrade"
grep -q 'changed by the administrator' /etc/ssh/lhsshd_config || fail "the configuration was replaced"

[ "$1" = bare ] || by_host_key || { cat /tmp/said.log; fail "the upgrade took the helper's right away"; }

step "downgrade"
quietly apt install --allow-downgrades /packages/longhaul_*.deb /packages/longhaul-server_*.deb
wait_for_new_program
logs_in "after the downgrade"

step "a stale file with the process id of another of our programs"
run_scripts() {
    DPKG_MAINTSCRIPT_PACKAGE=longhaul-server /var/lib/dpkg/info/longhaul-server.postinst configure 1 \
        && /var/lib/dpkg/info/longhaul-server.prerm remove
}
with_stale_process_id run_scripts

step "all sessions are still there"
end_sessions

step "without systemd, by hand"
kill "$server"
wait "$server" || true
begun_by_hand() {
    wait_for "the process id" test -s /run/lhsshd.pid
    server=$(cat /run/lhsshd.pid)
    logs_in "with a server that was started by hand"
}
reloaded_by_hand() {
    logs_in "after a reload by hand"
    [ "$(cat /run/lhsshd.pid)" = "$server" ] || fail "a reload has started another process"
}
page ". /etc/default/lhsshd; lhsshd -f"
begun_by_hand
page 'kill -HUP "$(cat'
reloaded_by_hand
page 'kill "$(cat'
wait_for_end "$server"
page "lhsshd -t -f" beside-sshd.md
page "lhsshd -T -p 2222 -f /etc/ssh/lhsshd_config  " beside-sshd.md | grep -q '^port 2222' || fail "another port"
page "lhsshd -T -p 2222 -f /etc/ssh/lhsshd_config |" beside-sshd.md | grep -q ':2222$' || fail "no address to listen on"
page "lhsshd -p 2222 -f" beside-sshd.md
begun_by_hand
page 'kill -HUP "$(cat' beside-sshd.md
reloaded_by_hand
page 'kill "$(cat' beside-sshd.md
wait_for_end "$server"
rm /tmp/lhsshd.log
start_server

step "OpenSSH's names, taken and given back"
theirs=$(command -v ssh > /dev/null && ssh -V 2>&1 || echo none)
page "apt install ./longhaul-openssh-names_"
for name in ssh scp sftp ssh-keygen ssh-agent ssh-add ssh-keyscan; do
    [ "$(readlink -f /usr/bin/$name)" = /usr/lib/longhaul/longhaul ] || fail "$name is not ours"
done
page "ssh -V" | grep -q 'OpenSSH_.*Longhaul' || fail "ssh -V"
[ "$(as_ada "ssh $options -p 2222 127.0.0.1 id -un")" = ada ] || fail "no session of ssh"
as_ada "scp $options -q -P 2222 blob 127.0.0.1:fourth && cmp blob fourth" || fail "no copy of scp"
if [ "$1" = with-openssh ]; then
    [ "$(page "ssh.openssh -V")" = "$theirs" ] || fail "ssh.openssh"
    [ "$(as_ada "ssh.openssh $options -p 2222 127.0.0.1 id -un")" = ada ] || fail "no session of OpenSSH's ssh"
fi
quietly apt install /tmp/next-longhaul.deb /tmp/next-longhaul-server.deb /tmp/next-longhaul-openssh-names.deb
[ "$(readlink -f /usr/bin/ssh)" = /usr/lib/longhaul/longhaul ] || fail "ssh is not ours after the upgrade"
quietly apt purge longhaul-openssh-names
hash -r
[ "$(command -v ssh > /dev/null && ssh -V 2>&1 || echo none)" = "$theirs" ] || fail "ssh was not given back"

step "remove and purge"
if [ "$1" = with-openssh ]; then
    dpkg-statoverride --remove /usr/lib/longhaul/lhssh-keysign
    rm /etc/ssh/lhsshd_config.d/hostbased.conf /etc/ssh/ssh_config.d/hostbased.conf /etc/ssh/shosts.equiv /etc/ssh/ssh_known_hosts
fi
page "apt remove longhaul-server"
# Without systemd, the package stops a listener that was started by hand.
wait_for_end "$server"
wait "$server" || true
server=
[ ! -e /usr/sbin/lhsshd ] || fail "lhsshd is still there"
grep -q 'changed by the administrator' /etc/ssh/lhsshd_config || fail "removing took the configuration away"
page "apt purge longhaul-server longhaul longhaul-openssh-names"
files > /tmp/after
diff /tmp/before /tmp/after || fail "the packages have left something"
[ "$keys_before" = "$(cat /etc/ssh/ssh_host_*_key 2> /dev/null | sha256sum)" ] || fail "host keys are not as before"
echo "passed: $1"
