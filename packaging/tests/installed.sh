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

step "fifty open sessions"
# Clients of root's, sessions of ada's: their process ids are those of the clients.
load=/tmp/load
mkdir $load
chmod 777 $load
as="-i /home/ada/.ssh/id_ed25519 -o UserKnownHostsFile=/home/ada/.ssh/known_hosts $options"
# Sends lines until the test ends, and keeps what it has sent.
lines() {
    count=0
    while [ ! -e $load/end ]; do
        echo "line $count"
        count=$((count + 1))
        sleep 0.5
    done
    echo end
}
# NAME STATUS COMMAND…: a session that gets lines and returns them.
session() {
    name=$1 expected=$2; shift 2
    { lines | tee $load/$name.sent | { code=0; "$@" > $load/$name.got || code=$?; echo $code > $load/$name.code; }; } &
    echo "$! $name $expected" >> $load/sessions
    wait_for "the session $name" grep -qs "line 0" $load/$name.got
}
head -c 4000000 /home/ada/blob > $load/blob
for n in 1 2 3 4 5 6 7 8 9 10; do
    session command-$n 0 lhssh $as -p 2222 ada@127.0.0.1 cat
    session second-command-$n 0 lhssh $as -p 2222 ada@127.0.0.1 'while read -r line; do echo "$line"; done'
    session terminal-$n 5 lhssh -tt $as -p 2222 ada@127.0.0.1 \
        'stty -echo -onlcr; while read -r line; do echo "$line"; if [ "$line" = end ]; then exit 5; fi; done'
    # Through a forwarded connection of another session.
    session jump-$n 0 lhssh $as -o "ProxyCommand=lhssh $as -p 2222 -W 127.0.0.1:2222 ada@127.0.0.1" ada@127.0.0.1 cat
    # A copy of eight seconds, stopped in its middle.
    mkdir $load/copy-$n
    chmod 777 $load/copy-$n
    lhscp $as -q -l 4000 -P 2222 $load/blob ada@127.0.0.1:$load/copy-$n/blob &
    copy=$!
    echo "$copy copy-$n 0" >> $load/sessions
    wait_for "the copy $n" sh -c "find $load/copy-$n -type f -size +0 | grep -q ."
    kill -STOP $copy
    [ ! -e $load/copy-$n/blob ] || fail "the copy $n was too fast"
done
[ "$(wc -l < $load/sessions)" = 50 ] || fail "not fifty sessions"

step "upgrade with open sessions"
for package in longhaul longhaul-server longhaul-openssh-names; do
    rm -rf /tmp/unpacked
    dpkg-deb --raw-extract /packages/${package}_*.deb /tmp/unpacked
    sed -i -e '/^Version:/s/$/+next/' -e "s/(= \([^)]*\))/(= \1+next)/" /tmp/unpacked/DEBIAN/control
    dpkg-deb --root-owner-group -Znone --build /tmp/unpacked /tmp/next-$package.deb > /dev/null
done
echo '# changed by the administrator' >> /etc/ssh/lhsshd_config
old=$(stat -Lc %i /proc/$server/exe)
dpkg --install /tmp/next-longhaul.deb /tmp/next-longhaul-server.deb > /tmp/dpkg.log 2>&1 || { cat /tmp/dpkg.log; fail "upgrade"; }
# Without systemd, the package reloads a listener that was started by hand.
wait_for "the new program" sh -c '[ "$(grep -c "Server listening on 0.0.0.0 port 2222" /tmp/lhsshd.log)" -ge 2 ]'
[ "$(stat -Lc %i /proc/$server/exe)" != "$old" ] || fail "the server is the old one"
# What `systemctl restart` does.
kill "$server"
wait "$server" || true
mv /tmp/lhsshd.log /tmp/lhsshd.first.log
start_server
[ "$(as_ada "lhssh $options -p 2222 127.0.0.1 id -un")" = ada ] || fail "no session after the upgrade"
grep -q 'changed by the administrator' /etc/ssh/lhsshd_config || fail "the configuration was replaced"

step "downgrade"
dpkg --install /packages/longhaul_*.deb /packages/longhaul-server_*.deb > /tmp/dpkg.log 2>&1 || { cat /tmp/dpkg.log; fail "downgrade"; }
wait_for "the new server" sh -c '[ "$(grep -c "Server listening on 0.0.0.0 port 2222" /tmp/lhsshd.log)" -ge 2 ]'
[ "$(as_ada "lhssh $options -p 2222 127.0.0.1 id -un")" = ada ] || fail "no session after the downgrade"

step "a stale file with the process id of another of our programs"
cp /run/lhsshd.pid /tmp/lhsshd.pid
lhssh-agent -D -a /tmp/agent > /dev/null &
agent=$!
wait_for "the agent" test -S /tmp/agent
# Signals for a process that is stopped stay pending, so none can be missed.
kill -STOP "$agent"
wait_for "the stopped agent" grep -q '^State:.T' /proc/$agent/status
echo "$agent" > /run/lhsshd.pid
DPKG_MAINTSCRIPT_PACKAGE=longhaul-server /var/lib/dpkg/info/longhaul-server.postinst configure 1 || fail "postinst"
/var/lib/dpkg/info/longhaul-server.prerm remove || fail "prerm"
grep -q '^ShdPnd:.0*$' /proc/$agent/status || fail "the agent got a signal"
kill -CONT "$agent"
kill "$agent"
wait "$agent" || true
rm -f /tmp/agent
cp /tmp/lhsshd.pid /run/lhsshd.pid

step "all sessions are still there"
while read -r pid name expected; do
    kill -0 "$pid" 2> /dev/null || fail "the session $name has ended"
    [ ! -s $load/$name.got ] || wc -l < $load/$name.got > $load/$name.before
done < $load/sessions
still_moving() {
    for file in $load/*.before; do
        now=$(wc -l < "${file%.before}.got")
        [ "$now" -gt "$(cat "$file")" ] || return 1
    done
}
wait_for "a line from each session" still_moving
touch $load/end
while read -r pid name expected; do
    case $name in copy-*) kill -CONT "$pid" ;; esac
done < $load/sessions
while read -r pid name expected; do
    case $name in
    copy-*)
        wait "$pid" || fail "$name"
        cmp $load/blob $load/$name/blob || fail "$name has other contents"
        ;;
    *)
        wait "$pid" || true
        [ "$(cat $load/$name.code)" = "$expected" ] || fail "$name ended with $(cat $load/$name.code)"
        # What was sent before a terminal had its settings comes twice.
        case $name in terminal-*) tr -d '\r' < $load/$name.got | awk '!seen[$0]++' > $load/got && mv $load/got $load/$name.got ;; esac
        cmp $load/$name.sent $load/$name.got || fail "$name lost something"
        ;;
    esac
done < $load/sessions
rm -r $load

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
dpkg --remove longhaul-server longhaul > /tmp/dpkg.log 2>&1 || { cat /tmp/dpkg.log; fail "remove"; }
# Without systemd, the package stops a listener that was started by hand.
wait_for "the end of the server" sh -c "! grep -q . /proc/$server/cmdline 2> /dev/null"
wait "$server" || true
server=
[ ! -e /usr/sbin/lhsshd ] || fail "lhsshd is still there"
grep -q 'changed by the administrator' /etc/ssh/lhsshd_config || fail "removing took the configuration away"
dpkg --purge longhaul-server longhaul > /tmp/dpkg.log 2>&1 || { cat /tmp/dpkg.log; fail "purge"; }
files > /tmp/after
diff /tmp/before /tmp/after || fail "the packages have left something"
[ "$keys_before" = "$(cat /etc/ssh/ssh_host_*_key 2> /dev/null | sha256sum)" ] || fail "host keys are not as before"
echo "passed: $1"
