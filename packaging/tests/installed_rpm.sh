#!/bin/sh
# Installs the .rpm packages of /packages in this system with rpm, uses, upgrades, downgrades and removes them, as
# installed.sh does with the .deb packages. Run by `cargo xtask dist --test` in a new Debian system that has rpm, in
# namespaces of its own. /packages/next has the packages with a newer version.
set -eu
. /packages/common.sh

# rpm knows none of Debian's packages, so no dependency is met.
install() { quietly rpm --install --nodeps "$@"; }
upgrade() { quietly rpm --upgrade --nodeps "$@"; }
erase() { quietly rpm --erase --nodeps "$@"; }
old="$(echo /packages/longhaul-[0-9]*.rpm) $(echo /packages/longhaul-server-*.rpm)"
next="$(echo /packages/next/longhaul-[0-9]*.rpm) $(echo /packages/next/longhaul-server-*.rpm)"

step "the system before"
# What Red Hat's systems have.
mkdir -p /usr/share/licenses /usr/lib/sysusers.d /usr/lib/systemd/user
for kind in auth account password session; do echo "$kind required pam_unix.so"; done > /etc/pam.d/password-auth
useradd --create-home --shell /bin/sh --password '*' ada
files > /tmp/before

step "install"
install $old
rpm --verify --nodeps longhaul longhaul-server || fail "other files than those of the packages"
ls /etc/ssh/ssh_host_ed25519_key > /dev/null || fail "no host key"
getent passwd lhsshd > /dev/null || fail "no user lhsshd"
keys=$(cat /etc/ssh/ssh_host_*_key | sha256sum)

step "a session and a copy over port 2222"
as_ada "mkdir -m 700 .ssh; lhssh-keygen -q -t ed25519 -N '' -f .ssh/id_ed25519; cp .ssh/id_ed25519.pub .ssh/authorized_keys"
start_server
logs_in "after the installation"
as_ada "head -c 20000000 /dev/urandom > blob && lhscp $options -q -P 2222 blob 127.0.0.1:copy && cmp blob copy" \
    || { cat /tmp/lhsshd.log; fail "no copy"; }

step "upgrade with open sessions"
open_sessions 2
echo '# changed by the administrator' >> /etc/ssh/lhsshd_config
program=$(stat -Lc %i /proc/$server/exe)
upgrade $next
wait_for_new_program
[ "$(stat -Lc %i /proc/$server/exe)" != "$program" ] || fail "the server is the old one"
restart_server
logs_in "after the upgrade"
grep -q 'changed by the administrator' /etc/ssh/lhsshd_config || fail "the configuration was replaced"
[ "$keys" = "$(cat /etc/ssh/ssh_host_*_key | sha256sum)" ] || fail "the host keys are others"

step "downgrade"
upgrade --oldpackage $old
wait_for_new_program
logs_in "after the downgrade"

step "a stale file with the process id of another of our programs"
with_stale_process_id upgrade --replacepkgs $old

step "all sessions are still there"
end_sessions

step "OpenSSH's names, taken and given back"
# What the administrator has put there stays.
echo mine > /usr/local/bin/scp
install /packages/longhaul-openssh-names-*.rpm
for name in ssh sftp ssh-keygen ssh-agent ssh-add ssh-keyscan; do
    [ "$(readlink -f "$(command -v $name)")" = /usr/lib/longhaul/longhaul ] || fail "$name is not ours"
done
[ "$(as_ada "ssh $options -p 2222 127.0.0.1 id -un")" = ada ] || fail "no session of ssh"
upgrade $next /packages/next/longhaul-openssh-names-*.rpm
wait_for_new_program
[ "$(readlink -f /usr/local/bin/ssh)" = /usr/lib/longhaul/longhaul ] || fail "ssh is not ours after the upgrade"
erase longhaul-openssh-names
[ "$(ls /usr/local/bin)" = scp ] || fail "names are not given back"
[ "$(cat /usr/local/bin/scp)" = mine ] || fail "the administrator's scp is gone"
rm /usr/local/bin/scp

step "remove"
erase longhaul-server longhaul
# Without systemd, the package stops a listener that was started by hand.
wait_for_end "$server"
wait "$server" || true
server=
[ ! -e /usr/sbin/lhsshd ] || fail "lhsshd is still there"
grep -q 'changed by the administrator' /etc/ssh/lhsshd_config.rpmsave || fail "the configuration is gone"
rm /etc/ssh/lhsshd_config.rpmsave

step "with systemd and SELinux"
# Programs that write down what they are asked to do. The scripts of packages have a /tmp of their own (rpm 4.20).
mkdir -p /run/systemd/system
for name in systemctl semanage restorecon; do
    printf '#!/bin/sh\necho "${0##*/} $*" >> /run/asked\n' > /usr/bin/$name
    chmod 755 /usr/bin/$name
done
asked() {
    diff - /run/asked || fail "the scripts ask systemd and SELinux for something else"
    rm /run/asked
}
labels="-t bin_t /usr/lib/longhaul(/.*)?"
install $old
asked << END
semanage fcontext -a $labels
restorecon -R /usr/lib/longhaul
systemctl daemon-reload
systemctl preset lhsshd.service
END
upgrade $next
asked << END
semanage fcontext -a $labels
restorecon -R /usr/lib/longhaul
systemctl daemon-reload
systemctl daemon-reload
systemctl try-restart lhsshd.service
END
erase longhaul-server longhaul
asked << END
systemctl --no-reload disable --now lhsshd.service lhsshd.socket
systemctl daemon-reload
semanage fcontext -d $labels
END
rm -r /usr/bin/systemctl /usr/bin/semanage /usr/bin/restorecon /run/systemd

step "what is left: the user, and the host keys that the package has made"
[ "$keys" = "$(cat /etc/ssh/ssh_host_*_key | sha256sum)" ] || fail "the host keys are others"
rm -r /etc/ssh
userdel lhsshd
files > /tmp/after
diff /tmp/before /tmp/after || fail "the packages have left something"
echo "passed: rpm"
