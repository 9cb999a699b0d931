#!/bin/sh
# Installs the .deb packages of /packages in this system, where systemd runs, and follows docs/install.md, docs/server.md and
# docs/beside-sshd.md: the service, its socket, the agent, upgrades, OpenSSH's server replaced and taken back, removal.
# Run by boot_systemd.sh.
set -eu
. /packages/common.sh
. /packages/debian.sh

fail() {
    systemctl status --no-pager --lines 0 lhsshd.service >&2 || true
    journalctl --quiet --no-pager --lines 40 >&2 || true
    echo "FAILED: $*" >&2
    exit 1
}
main_process() { systemctl show --property MainPID --value lhsshd.service; }
is_active() { systemctl --quiet is-active "$1"; }
is_another_than() { [ "$(main_process)" != "$1" ] && [ "$(main_process)" != 0 ]; }

step "the system before"
echo '127.0.0.1 localhost' > /etc/hosts
useradd --create-home --shell /bin/sh --password '*' ada
files > /tmp/before

step "install"
page "apt install ./longhaul_" beside-sshd.md
page "systemctl status lhsshd" > /tmp/status
grep -q 'Status: "Listening on .* port 2222' /tmp/status || { cat /tmp/status; fail "no status"; }
as_ada "mkdir -m 700 .ssh; lhssh-keygen -q -t ed25519 -N '' -f .ssh/id_ed25519; cp .ssh/id_ed25519.pub .ssh/authorized_keys"
as_ada "printf 'StrictHostKeyChecking accept-new\nBatchMode yes\n' > .ssh/config"
logs_in "after the installation"
as_ada "head -c 20000000 /dev/urandom > blob && lhscp $options -q -P 2222 blob 127.0.0.1:copy && cmp blob copy" || fail "no copy"

step "fields of the journal"
journalctl --quiet --unit lhsshd --output verbose > /tmp/journal
for field in USER=ada REMOTE_ADDR=127.0.0.1 SESSION= FINGERPRINT=SHA256:; do
    grep -q "^ *$field" /tmp/journal || { cat /tmp/journal; fail "no $field in the journal"; }
done
# With values of this journal in the place of those of the page.
for field in FINGERPRINT SESSION; do
    value=$(sed -n "s/^ *$field=//p" /tmp/journal | head -n 1)
    case $field in
    FINGERPRINT) command=$(line_of "journalctl -t lhsshd FINGERPRINT=" server.md) ;;
    SESSION) command=$(line_of "journalctl -t lhsshd SESSION=" server.md) ;;
    esac
    ${command%%=*}="$value" > /tmp/said.log
    grep -q "Accepted publickey for ada" /tmp/said.log || { cat /tmp/said.log; fail "$command"; }
done

step "reload and restart with open sessions"
open_sessions 2
server=$(main_process)
page "systemctl reload lhsshd"
[ "$(main_process)" = "$server" ] || fail "a reload has started another process"
logs_in "after a reload"
echo 'Nonsense yes' > /etc/ssh/lhsshd_config.d/wrong.conf
systemctl reload lhsshd || true
rm /etc/ssh/lhsshd_config.d/wrong.conf
[ "$(main_process)" = "$server" ] || fail "a wrong configuration has ended the server"
logs_in "after a reload with a wrong configuration"
page "systemctl restart lhsshd"
is_another_than "$server" || fail "a restart has started no process"
logs_in "after a restart"

step "upgrade with open sessions"
make_next
server=$(main_process)
program=$(stat -Lc %i "/proc/$server/exe")
quietly apt install /tmp/next-longhaul.deb /tmp/next-longhaul-server.deb
[ "$(stat -Lc %i "/proc/$(main_process)/exe")" != "$program" ] || fail "the server is the old one"
logs_in "after the upgrade"

step "upgrade to a version that refuses the configuration"
server=$(main_process)
echo 'RDomain x' > /etc/ssh/lhsshd_config.d/wrong.conf
dpkg --install /tmp/next-longhaul-server.deb > /tmp/said.log 2>&1 || { cat /tmp/said.log; fail "the upgrade"; }
grep -q "wrong.conf" /tmp/said.log && grep -q "not restarted" /tmp/said.log || { cat /tmp/said.log; fail "nothing names the line"; }
[ "$(main_process)" = "$server" ] || fail "the server does not go on"
logs_in "with the server of before the upgrade"
rm /etc/ssh/lhsshd_config.d/wrong.conf

step "what fails is started again"
server=$(main_process)
kill -KILL "$server"
wait_for "another server" is_another_than "$server"
wait_for "the service" is_active lhsshd.service
logs_in "after the server was killed"
mkdir -p /run/systemd/system/lhsshd.service.d
# On a busy machine a good server can miss the time as well: the starts after that must have no limit.
printf '[Unit]\nStartLimitIntervalSec=0\n[Service]\nWatchdogSec=2\n' > /run/systemd/system/lhsshd.service.d/watchdog.conf
systemctl daemon-reload
systemctl restart lhsshd
server=$(main_process)
kill -STOP "$server"
wait_for "another server after one that hangs" is_another_than "$server"
rm -r /run/systemd/system/lhsshd.service.d
systemctl daemon-reload
systemctl reset-failed lhsshd.service || true
systemctl restart lhsshd
logs_in "after the server has hung"

step "socket activation"
# systemd permits five starts in ten seconds, and a fast machine has used them up above.
systemctl reset-failed lhsshd.service
page "systemctl disable --now lhsshd.service && systemctl enable --now lhsshd.socket"
! is_active lhsshd.service || fail "the service runs without a connection"
logs_in "by the socket"
is_active lhsshd.service || fail "the connection has not started the service"
systemctl restart lhsshd
logs_in "by the socket after a restart"
quietly systemctl disable --now lhsshd.socket lhsshd.service
page "systemctl enable --now lhsshd"
logs_in "after the service was enabled again"

step "the unit of the page about the server"
quietly systemctl disable --now lhsshd.service
ln -s /usr/sbin/lhsshd /usr/local/sbin/lhsshd
sed -n '/^cat > .*\/lhsshd\.service/,/^END/p' /packages/pages/server.md | sh -eu
page "systemctl daemon-reload" server.md
page "systemctl enable --now lhsshd" server.md
tr '\0' ' ' < "/proc/$(main_process)/cmdline" | grep -q '^/usr/local/sbin/lhsshd -D -p 2222 ' || fail "another unit runs"
logs_in "of the page's unit"
server=$(main_process)
systemctl reload lhsshd
[ "$(main_process)" = "$server" ] || fail "a reload of the page's unit has started another process"
logs_in "of the page's unit after a reload"
quietly systemctl disable --now lhsshd.service
rm /etc/systemd/system/lhsshd.service /usr/local/sbin/lhsshd
systemctl daemon-reload
systemctl reset-failed lhsshd.service || true
quietly systemctl enable --now lhsshd.service

step "all sessions are still there"
end_sessions

step "the agent, as a service of a user"
loginctl enable-linger ada
export XDG_RUNTIME_DIR="/run/user/$(id -u ada)"
wait_for "the user's manager" test -S "$XDG_RUNTIME_DIR/systemd/private"
line_of "systemctl --user enable" > /tmp/agent
line_of "export SSH_AUTH_SOCK" >> /tmp/agent
su ada -c "$(cat /tmp/agent); lhssh-add -q ~/.ssh/id_ed25519 && lhssh-add -l" > /tmp/keys || fail "no agent"
grep -q ED25519 /tmp/keys || fail "no key in the agent"
loginctl disable-linger ada
wait_for "the end of the user's manager" test ! -e "$XDG_RUNTIME_DIR"

step "in the place of OpenSSH's server, and back"
is_active ssh.service || fail "OpenSSH's server does not run any more"
# The page's command asks for a shell.
line_of "lhssh localhost" beside-sshd.md > /tmp/login
on_port_22() { [ "$(echo 'id -un' | as_ada "$(cat /tmp/login)" | tail -n 1)" = ada ] || fail "no session with $1"; }
page "systemctl disable --now ssh.service" beside-sshd.md
page "sed -i" beside-sshd.md
page "systemctl restart lhsshd" beside-sshd.md
on_port_22 lhsshd
page "systemctl disable --now lhsshd.service" beside-sshd.md
page "systemctl enable --now ssh.service" beside-sshd.md
on_port_22 sshd

step "remove and purge"
page "apt remove longhaul-server"
! is_active lhsshd.service || fail "the service runs"
page "apt purge longhaul-server longhaul longhaul-openssh-names"
files > /tmp/after
diff /tmp/before /tmp/after || fail "the packages have left something"
echo "passed: systemd"
