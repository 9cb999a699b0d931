//! Recipes for accounts: unusual names and ids, expired passwords, homes that do not exist or that root may
//! not read, and root's account.

use lh_interop::recipe::{Ends, RECIPE, Recipe};

/// Names that directories hand out, and ids beyond 31 bits.
#[test]
fn account_names_with_signs_and_large_ids() {
    Recipe {
        setup: r#"
account ada@example.org 2400
account 'CORP\eve' 2401
account j.doe-smith_1 3000000000
account machine$ 2403
account x 4294967293
account 1234 2404
account UPPER 2405
"#,
        client: r#"
for who in ada@example.org 'CORP\eve' j.doe-smith_1 'machine$' x 1234 UPPER; do ssh -o BatchMode=yes -l "$who" server 'echo "$USER $LOGNAME $HOME"; id -u; id -un'; echo $?
echo w >f; scp -q -o User="$who" f server:; echo $?; done
ssh ada@example.org@server id -un
scp -q f ada@example.org@server:g; echo $?
ssh 'ssh://j.doe-smith_1@server:22' pwd
sftp -q -b - ada@example.org@server <<<'ls -1'
"#,
        look: "tree /home/x /home/ada*",
        sees: &["ada@example.org\n", "3000000000", "4294967293"],
        ..RECIPE
    }
    .run();
}

/// Accounts that are locked, expired, or whose password has to be changed.
///
/// Covers: accounts that have expired
#[test]
fn accounts_locked_expired_and_to_be_renewed() {
    Recipe {
        server: "PasswordAuthentication yes",
        tools: &["sshpass"],
        setup: r#"
: >/etc/motd
rm -f /etc/update-motd.d/*
for n in locked star expired old renew nopw; do account $n $((2410 + ${#n})) /home/$n; done
sed -i 's/^nopw:[0-9x]*:2414/nopw:x:2419/' /etc/passwd
sed -i 's/^locked:/locked:!/; s/^star:[^:]*:/star:*:/; s/^nopw:[^:]*:/nopw::/' /etc/shadow
sed -i 's/^\(expired:[^:]*\):.*/\1:19000:0:99999:7::1:/; s/^\(old:[^:]*\):.*/\1:10:0:30:7:::/; s/^\(renew:[^:]*\):.*/\1:0:0:99999:7:::/' /etc/shadow
"#,
        client: r#"
export SSHPASS='correct horse battery'
for who in locked star expired old renew nopw; do echo "== $who"; ssh -o BatchMode=yes $who@server id -un; echo $?
sshpass -e ssh -o PubkeyAuthentication=no -o NumberOfPasswordPrompts=1 $who@server id -un; echo $?; done 2>&1 | tr -d '\r' | sed 's/^Connection closed by.*port 22/closed/'
"#,
        pam: true,
        sees: &["== star\nstar\n0\n"],
        ends: Ends::Server,
        ..RECIPE
    }
    .run();
}

/// Passwords typed by `sshpass`, right and wrong, for ssh, scp, sftp and rsync.
#[test]
fn passwords_by_sshpass() {
    Recipe {
        tools: &["sshpass", "rsync"],
        config: "Host *\n  PubkeyAuthentication no\n",
        client: r#"
echo w >f
export SSHPASS='correct horse battery'
sshpass -e ssh bob@server id -un; echo $?
sshpass -e scp f bob@server:; echo $?
sshpass -e rsync f bob@server:g; echo $?
sshpass -e sftp bob@server <<<'ls -1'; echo $?
sshpass -p wrong ssh bob@server true; echo $?
sshpass -p wrong ssh nosuch@server true; echo $?
rm .ssh/known_hosts
sshpass -e ssh bob@server true; echo $?
"#,
        sees: &["bob\n0\n0\n0\n", "\n5\n"],
        pam: true,
        ..RECIPE
    }
    .run();
}

/// Homes that are missing, not the account's, or closed to it.
#[test]
fn homes_missing_closed_and_foreign() {
    Recipe {
        server: "AuthorizedKeysFile /etc/ssh/keys/%u .ssh/authorized_keys",
        setup: r#"
mkdir /etc/ssh/keys
account gone 2420
rm -r /home/gone
account closed 2421
chmod 0 /home/closed
chown root: /home/closed
account file 2422
rm -r /home/file
echo >/home/file
account root2 2423 /
for n in gone closed file root2; do cp /world/authorized_keys /etc/ssh/keys/$n; done
chmod 644 /etc/ssh/keys/*
"#,
        client: r#"
for who in gone closed file root2; do
    ssh $who@server 'pwd; echo $HOME'; echo $?
    echo w >f
    scp -q f $who@server:; echo $?
    echo pwd | sftp -q -b - $who@server; echo $?
done
"#,
        sees: &["Could not chdir to home directory /home/gone: No such file or directory"],
        ..RECIPE
    }
    .run();
}

/// A home on a file system whose root is squashed: only the account itself may read it.
#[test]
fn home_that_root_may_not_read() {
    Recipe {
        tools: &["sshfs"],
        server: "AuthorizedKeysFile /etc/ssh/keys/%u",
        setup: r#"
mkdir /etc/ssh/keys
cp /world/authorized_keys /etc/ssh/keys/bob
chmod 644 /etc/ssh/keys/bob
mkdir -p /srv/export
cp -r /home/bob/. /srv/export
chown -R bob: /srv/export
chmod 700 /srv/export/.ssh
chmod 666 /dev/fuse
printf '#!/bin/sh\nexec /usr/lib/openssh/sftp-server\n' >/usr/local/bin/direct
chmod 755 /usr/local/bin/direct
setpriv --reuid bob --regid bob --clear-groups sshfs -o ssh_command=/usr/local/bin/direct x:/srv/export /home/bob
! ls /home/bob 2>/dev/null
"#,
        client: r#"
ssh bob@server 'id -un; pwd; echo w >f; ls'; echo $?
echo w >g
scp -q g bob@server:; echo $?
echo ls -1 | sftp -q -b - bob@server
ssh -tt bob@server 'ls' | tr -d '\r'
ssh -A bob@server true
ssh -X bob@server true 2>/dev/null; echo $?
"#,
        sees: &["bob\n/home/bob\nf\n0\n"],
        ..RECIPE
    }
    .run();
}

/// root by key, by a forced command, and not at all.
///
/// Covers: sshd_config PermitRootLogin
#[test]
fn root_by_key_by_command_and_not_at_all() {
    Recipe {
        server: r#"
Port 22
Port 2201
Port 2202
PermitRootLogin prohibit-password
Match LocalPort 2201
  PermitRootLogin forced-commands-only
Match LocalPort 2202
  PermitRootLogin no
"#,
        setup: r#"
mkdir -p /root/.ssh
{
    cat /world/user_ed25519.pub
    echo "command=\"echo forced\" $(cat /world/user_ecdsa.pub)"
} >/root/.ssh/authorized_keys
cp /world/user_ecdsa /home/me/second
chown me: /home/me/second
chmod 700 /root/.ssh
"#,
        client: r#"
for p in 22 2201 2202; do
    ssh -o BatchMode=yes -p $p root@server id -un 2>/dev/null; echo $?
    ssh -o BatchMode=yes -o IdentitiesOnly=yes -i second -p $p root@server id -un; echo $?
done
"#,
        sees: &["root\n0\nforced\n0\n"],
        ends: Ends::Server,
        ..RECIPE
    }
    .run();
}

/// Cloud images: a drop-in that is read first, an account that tells people to use another one.
///
/// Covers: sshd_config Include (drop-ins)
#[test]
fn cloud_image_drop_ins() {
    Recipe {
        server: "PermitRootLogin yes\n",
        setup: r#"
sed -i '/^PermitRootLogin/d' /etc/ssh/sshd_config
echo 'PasswordAuthentication yes' >>/etc/ssh/sshd_config
echo 'PasswordAuthentication no' >/etc/ssh/sshd_config.d/60-cloudimg-settings.conf
printf 'PasswordAuthentication yes\nAllowUsers nobody\n' >/etc/ssh/sshd_config.d/notread.conf.off
printf 'Match User bob\n  SetEnv IN=dropin\n' >/etc/ssh/sshd_config.d/10-bob.conf
account ubuntu 1000
mkdir -p /root/.ssh
echo "no-port-forwarding,no-agent-forwarding,no-X11-forwarding,command=\"echo 'Please login as the user \\\"ubuntu\\\" rather than the user \\\"root\\\".';echo;sleep 1;exit 142\" $(cat /world/user_ed25519.pub)" >/root/.ssh/authorized_keys
chmod 700 /root/.ssh
"#,
        client: r#"
ssh root@server id; echo $?
ssh ubuntu@server id -un; echo $?
ssh bob@server 'echo $IN'
ssh -o BatchMode=yes -o PubkeyAuthentication=no bob@server true; echo $?
scp -O /etc/hostname root@server:; echo $?
"#,
        sees: &["Please login as the user \"ubuntu\" rather than the user \"root\".", "142", "dropin"],
        ..RECIPE
    }
    .run();
}

/// The messages of a login: banner, message of the day, `.hushlogin`, `/etc/nologin`.
///
/// Covers: sshd_config Banner; sshd_config PrintMotd
#[test]
fn banners_messages_and_nologin() {
    Recipe {
        server: "Banner /etc/issue.net\nPrintLastLog no",
        setup: r#"
printf 'Authorised people only.\n' >/etc/issue.net
printf 'Be kind.\n' >/etc/motd
rm -f /run/motd.dynamic
chmod -x /etc/update-motd.d/* 2>/dev/null || true
account quiet 2430
touch /home/quiet/.hushlogin
"#,
        client: r#"
ssh bob@server true
ssh -q bob@server true
ssh -T bob@server <<<'echo in'
ssh quiet@server <<<'echo quiet'
echo words >f
scp -q f bob@server:
sftp -q -b - bob@server <<<'ls -1'
"#,
        look: r#"
echo 'Down until noon.' >/etc/nologin
setpriv --reuid me --regid me --init-groups env HOME=/home/me ssh bob@server id; echo $?
"#,
        pam: true,
        sees: &["Authorised people only.", "Down until noon."],
        ..RECIPE
    }
    .run();
}

/// A shell inside a chroot that has no devices: the terminal is made outside of it.
///
/// Covers: sshd_config ChrootDirectory (a terminal without /dev/pts inside)
#[test]
fn terminal_in_a_chroot_without_devices() {
    Recipe {
        server: "PrintMotd yes\nMatch User bob,quiet\n  ChrootDirectory /srv/jail",
        setup: r#"
mkdir -p /srv/jail/home/bob /srv/jail/etc
for f in /bin/bash /usr/bin/{stty,tty,id,ls,test}; do
    for l in $f $(ldd $f | grep -o '/[^ ]*'); do install -D $l /srv/jail$l; done
done
echo 'Be kind.' >/etc/motd
echo 'Inside.' >/srv/jail/etc/motd
account quiet 2430
touch /home/quiet/.hushlogin
chown bob: /srv/jail/home/bob
"#,
        client: r#"
ssh -tt bob@server 'test -t 0 && echo tty; stty size; tty; echo ${SSH_TTY:+set}; pwd; ls /; exit 3' </dev/null |
    tr -d '\r'; echo ${PIPESTATUS[0]}
for u in bob quiet; do
    printf 'PS1= PROMPT_COMMAND=\nstty -echo\necho in\nexit 4\n' | ssh -tt $u@server 2>&1 |
        tr -d '\r' | grep -x 'Be kind.\|Inside.\|in'; echo ${PIPESTATUS[1]}
done
ssh bob@server 'test -t 0 || echo none; id -u'; echo $?
"#,
        look: r#"
echo 'Down until noon.' >/etc/nologin
setpriv --reuid me --regid me --init-groups env HOME=/home/me ssh bob@server id; echo $?
rm /etc/nologin
"#,
        sees: &["tty\n", "set\n", "\n3\n", "Inside.\nin\n4\n"],
        ..RECIPE
    }
    .run();
}

/// What a session finds in its environment.
///
/// Covers: sshd_config AcceptEnv; sshd_config SetEnv; sshd_config PermitUserEnvironment; ssh_config SendEnv; ssh_config SetEnv
#[test]
fn environments_of_sessions() {
    Recipe {
        server: "PermitUserEnvironment LANG,FROM_*\nSetEnv A=server B=\"two words\"\nAcceptEnv C D_*",
        config: "Host *\n  SendEnv C D_? E -LC_ALL\n  SetEnv D_X=\"set by client\" F=no\n",
        setup: r#"
printf 'FROM_FILE=yes\nEVIL=1\n# c\nLANG=xx\n' >/home/bob/.ssh/environment
chown bob: /home/bob/.ssh/environment
echo 'PAMVAR=pam' >>/etc/environment
echo 'echo rc >>~/rc.log' >/home/bob/.ssh/rc
chown bob: /home/bob/.ssh/rc
"#,
        client: r#"
export C=c D_1=d1 E=e LANG=C.UTF-8 LC_TIME=de LC_ALL=C
ssh bob@server 'env | grep -v "^SSH_C\|^SHLVL\|^_\|^XDG" | sort; umask; ulimit -n; cat rc.log'
ssh -tt bob@server 'echo $TERM; tty; echo $SSH_TTY; stty size' </dev/null | tr -d '\r'
"#,
        sees: &["A=server\nB=two words\nC=c\nD_1=d1\nD_X=set by client\nFROM_FILE=yes"],
        ..RECIPE
    }
    .run();
}

/// Exit statuses and signals, as scripts count on them.
#[test]
fn exit_statuses_and_signals() {
    Recipe {
        client: r#"
for c in 'exit 0' 'exit 1' 'exit 255' 'exit 300' 'kill -9 $$' 'kill -TERM $$' nosuchcommand './' 'false | true' '(exit 7)'; do
    ssh bob@server "$c"; echo $?
done
ssh bob@server 'echo out; echo err >&2; exit 4' 2>/dev/null; echo $?
ssh bob@server 'cat; exit 5' </dev/null; echo $?
ssh -n bob@server cat; echo $?
ssh bob@server 'exec 0<&- 1>&- 2>&-; sleep 0.2; exit 6'; echo $?
ssh nosuch.invalid true 2>/dev/null; echo $?
ssh -p 9 bob@server true; echo $?
ssh -tt bob@server 'kill -INT $$' </dev/null; echo $?
seq 9 | ssh bob@server 'cat; exit 3'; echo $?
ssh bob@server 'sleep 0.3 & echo bg'
ssh -f bob@server 'sleep 0.2; echo forked' >forked
eventually test -s forked
cat forked
"#,
        sees: &["connect to host server port 9: Connection refused"],
        ..RECIPE
    }
    .run();
}

/// What PAM's modules say at a login that they permit, also to users who run a command or copy a file, and a
/// banner that is not in UTF-8.
#[test]
fn warnings_of_pam_before_the_session() {
    Recipe {
        server: "Match User bob\n  Banner /etc/ssh/banner\n",
        tools: &["sshpass"],
        setup: r#"
: >/etc/motd
rm -f /etc/update-motd.d/*
account soon 2420
sed -i "s/^\(soon:[^:]*\):.*/\1:$(($(date +%s) / 86400 - 88)):0:90:7:::/" /etc/shadow
printf 'Gr\374\337e \303\244\001\t%%s\nno newline' >/etc/ssh/banner
mkdir -p /root/.ssh
cp /world/authorized_keys /root/.ssh/
chmod 700 /root /root/.ssh
"#,
        client: r#"
{
    ssh soon@server id -un; echo $?
    ssh -tt soon@server id -un; echo $?
    ssh -q soon@server id -un; echo $?
    ssh -T soon@server <<<'exit 3'; echo $?
    scp -q .ssh/known_hosts soon@server:; echo $?
    sftp -q -b- soon@server <<<pwd; echo $?
    SSHPASS='correct horse battery' sshpass -e ssh -o PubkeyAuthentication=no soon@server id -un; echo $?
    ssh bob@server id -un
    ssh root@server 'echo down for works >/etc/nologin'
    ssh root@server id -un; echo $?
    ssh bob@server id -un; echo $?
} 2>&1
"#,
        sees: &["will expire in 2 days.\nsoon\n0\n", "Gr\\374\\337e ä", "down for works\n\nroot\n"],
        pam: true,
        ..RECIPE
    }
    .run();
}
