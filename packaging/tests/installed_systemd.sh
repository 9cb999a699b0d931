#!/bin/sh
# Installs the .deb packages of /packages in this system, where systemd runs, and follows docs/install.md and
# docs/beside-sshd.md: the service, its socket, the agent, upgrades, OpenSSH's server replaced and taken back, removal.
# Run by boot_systemd.sh.
set -eu
. /packages/common.sh
. /packages/debian.sh

main_process() { systemctl show --property MainPID --value lhsshd.service; }
is_active() { systemctl --quiet is-active "$1"; }
is_another_than() { [ "$(main_process)" != "$1" ] && [ "$(main_process)" != 0 ]; }

step "the system before"
echo '127.0.0.1 localhost' > /etc/hosts
useradd --create-home --shell /bin/sh --password '*' ada
files > /tmp/before

step "install"
page "apt install ./longhaul_"
page "systemctl status lhsshd" > /tmp/status
grep -q 'Status: "Listening on .* port 2222' /tmp/status || { cat /tmp/status; fail "no status"; }
as_ada "mkdir -m 700 .ssh; lhssh-keygen -q -t ed25519 -N '' -f .ssh/id_ed25519; cp .ssh/id_ed25519.pub .ssh/authorized_keys"
logs_in "after the installation"
as_ada "head -c 20000000 /dev/urandom > blob && lhscp $options -q -P 2222 blob 127.0.0.1:copy && cmp blob copy" || fail "no copy"

step "fields of the journal"
journalctl --quiet --unit lhsshd --output verbose > /tmp/journal
for field in USER=ada REMOTE_ADDR=127.0.0.1 SESSION= FINGERPRINT=SHA256:; do
    grep -q "^ *$field" /tmp/journal || { cat /tmp/journal; fail "no $field in the journal"; }
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

step "what fails is started again"
server=$(main_process)
kill -KILL "$server"
wait_for "another server" is_another_than "$server"
wait_for "the service" is_active lhsshd.service
logs_in "after the server was killed"
mkdir -p /run/systemd/system/lhsshd.service.d
printf '[Service]\nWatchdogSec=1\n' > /run/systemd/system/lhsshd.service.d/watchdog.conf
systemctl daemon-reload
systemctl restart lhsshd
server=$(main_process)
kill -STOP "$server"
wait_for "another server after one that hangs" is_another_than "$server"
rm -r /run/systemd/system/lhsshd.service.d
systemctl daemon-reload
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
quietly systemctl enable --now lhsshd.service

step "all sessions are still there"
end_sessions

step "the agent, as a service of a user"
loginctl enable-linger ada
export XDG_RUNTIME_DIR="/run/user/$(id -u ada)"
wait_for "the user's manager" test -S "$XDG_RUNTIME_DIR/systemd/private"
grep '^systemctl --user\|^export SSH_AUTH_SOCK' /packages/pages/install.md > /tmp/agent
[ "$(wc -l < /tmp/agent)" = 2 ] || fail "docs/install.md says something else about the agent"
su ada -c "$(cat /tmp/agent); lhssh-add -q ~/.ssh/id_ed25519 && lhssh-add -l" > /tmp/keys || fail "no agent"
grep -q ED25519 /tmp/keys || fail "no key in the agent"
loginctl disable-linger ada
wait_for "the end of the user's manager" test ! -e "$XDG_RUNTIME_DIR"

step "in the place of OpenSSH's server, and back"
is_active ssh.service || fail "OpenSSH's server does not run any more"
on_port_22() { [ "$(as_ada "lhssh $options localhost id -un")" = ada ] || fail "no session with $1"; }
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
