//! Recipes for restrictions in servers and clients: refused chroots, key files, forwards, host keys, local
//! commands.

use lh_interop::recipe::{Ends, RECIPE, Recipe};

/// Chroots that an administrator got wrong, and what the log says about each.
///
/// Covers: sshd_config ChrootDirectory
#[test]
fn chroots_with_mistakes_are_refused_and_logged() {
    Recipe {
        server: r#"
Match User own
  ChrootDirectory %h
Match User grp
  ChrootDirectory /srv/grp
Match User miss
  ChrootDirectory /srv/missing
Match User file
  ChrootDirectory /srv/file
Match User rel
  ChrootDirectory relative
Match User par
  ChrootDirectory /srv/par/in
Match User id
  ChrootDirectory /srv/%U
  ForceCommand internal-sftp
Match User pct
  ChrootDirectory /srv/100%%
  ForceCommand internal-sftp
"#,
        setup: r#"
n=0
for u in own grp miss file rel par id pct; do n=$((n+1)); account $u 250$n; done
mkdir -p /srv/grp /srv/par/in /srv/2507 '/srv/100%'
chmod 775 /srv/grp
touch /srv/file
chown bob /srv/par
"#,
        client: r#"
for u in own grp miss file rel par id pct; do
    echo "== $u"
    sftp -q -b - $u@server <<<pwd 2>/dev/null; echo $?
done
ssh own@server id 2>/dev/null; echo $?
"#,
        look: "sed 's/^fatal: //' /var/log/sshd.log | grep -i 'chroot' | sort -u",
        sees: &[
            "== id\nsftp> pwd\nRemote working directory: /\n0\n",
            "chroot directory component \"/srv/par/\"",
            "chroot path does not begin at root",
        ],
        ends: Ends::Server,
        ..RECIPE
    }
    .run();
}

/// Several files of keys, tokens in their names, links, and files that others may write.
///
/// Covers: sshd_config AuthorizedKeysFile; sshd_config StrictModes
#[test]
fn authorized_keys_in_several_places() {
    Recipe {
        server: r#"
AuthorizedKeysFile .ssh/none /etc/ssh/keys/%u /etc/ssh/keys/uid-%U %h/my%%keys
Match User only
  AuthorizedKeysFile none
Match User abs
  AuthorizedKeysFile /etc/ssh/keys/"with space"
"#,
        setup: r#"
n=0
for u in a b c only abs bad dir link; do
    n=$((n+1))
    account $u 260$n
    rm /home/$u/.ssh/authorized_keys
done
mkdir -p /etc/ssh/keys/dir
cd /etc/ssh/keys
for f in a uid-2602 bad 'with space' '/home/c/my%keys' /home/only/.ssh/authorized_keys; do
    cp /world/authorized_keys "$f"
    chmod 644 "$f"
done
chmod 666 bad
ln -s a link
cd /
"#,
        client: r#"
for u in a b c only abs bad dir link bob; do
    echo "== $u"
    ssh -o BatchMode=yes $u@server id -un; echo $?
done 2>&1
"#,
        look: "grep -h 'refused: bad' /var/log/sshd.log",
        sees: &["== c\nc\n0\n", "== bob\nbob@server: Permission denied", "for file /etc/ssh/keys/bad"],
        ends: Ends::Server,
        ..RECIPE
    }
    .run();
}

/// What may be forwarded and listened on, by list and by kind, with empty addresses, sockets and their modes.
///
/// Covers: sshd_config PermitOpen; sshd_config PermitListen; sshd_config AllowTcpForwarding; sshd_config DisableForwarding
#[test]
fn forwards_by_lists_and_kinds() {
    Recipe {
        server: r#"
GatewayPorts clientspecified
Match User po
  PermitOpen localhost:7001 127.0.0.1:* [::1]:22
  PermitListen 7100 127.0.0.2:7101 *:7102
Match User no
  PermitOpen none
  PermitListen none
Match User off
  AllowTcpForwarding remote
  AllowStreamLocalForwarding local
Match User dis
  DisableForwarding yes
"#,
        setup: "n=0; for u in po no off dis; do n=$((n+1)); account $u 270$n; done",
        client: r#"
for u in po no off dis; do
    echo "== $u"
    for t in localhost:7001 127.0.0.1:22 [::1]:22 server:22; do
        echo "-W $t"
        ssh -o BatchMode=yes -W $t $u@server </dev/null 2>&1 | head -c 7; echo
    done
    for r in 7100 127.0.0.1:7100 :7100 127.0.0.2:7101 7101 localhost:7102 '*:7102' 7103 /tmp/s-$u; do
        echo "-R $r"
        eventually ! grep ':1B[BC][CDEF0-9] [0-9A-F:]* 0A' /proc/net/tcp /proc/net/tcp6
        ssh -o ExitOnForwardFailure=yes -R "$r:localhost:22" $u@server 'echo ok' 2>&1
    done
done
u=po
ssh -N -f -L /tmp/l2-$u:localhost:22 -o StreamLocalBindMask=0111 $u@server
stat -c %a /tmp/l2-$u
ssh -L /tmp/l2-$u:localhost:22 -o ExitOnForwardFailure=yes $u@server true; echo $?
ssh -L /tmp/l2-$u:localhost:22 -o StreamLocalBindUnlink=yes -o ExitOnForwardFailure=yes $u@server true
echo $?
pkill -u me -f l2-$u
ssh -f -N -L :7201:127.0.0.1:22 po@server
ssh -o HostKeyAlias=server -p 7201 bob@127.0.0.3 id -un
pkill -u me -f :7201
"#,
        sees: &[
            "-R :7100\nok\n",
            "666\n255\n0\nbob\n",
            "unix_listener: cannot bind to path /tmp/l2-po: Address already in use\nCould not",
        ],
        ..RECIPE
    }
    .run();
}

/// Commands of the client after the login, and one that knows the host's keys.
///
/// Covers: ssh_config LocalCommand; ssh_config PermitLocalCommand; ssh_config KnownHostsCommand
#[test]
fn local_commands_and_commands_for_host_keys() {
    Recipe {
        config: r#"
Host lc
  HostName server
  PermitLocalCommand yes
  LocalCommand echo "%%|%d|%h|%i|%k|%L|%n|%p|%r|%T|%u"
Host fails
  HostName server
  PermitLocalCommand yes
  LocalCommand echo failing; exit 3
Host kh
  HostName server
  GlobalKnownHostsFile none
  UserKnownHostsFile none
  KnownHostsCommand /home/me/khc %I %t %H %u
Host khb
  HostName server
  UserKnownHostsFile none
  KnownHostsCommand /bin/false %H
Host khn
  HostName server
  KnownHostsCommand none
Host *
  User bob
  BatchMode yes
"#,
        client: r#"
printf '#!/bin/sh\necho "$1 $2 $3 $4" >>/home/me/called\necho "$3 $(cut -d" " -f1,2 /world/host_ed25519.pub)"\n' >khc
chmod 755 khc
for h in lc fails kh khb khn; do echo "== $h"; ssh $h id -un; echo $?; done
cat called
ssh -o LocalCommand='echo not' server true
ssh -o PermitLocalCommand=yes -o LocalCommand='cat; echo read' server cat <<<in
ssh -o PermitLocalCommand=yes -o LocalCommand='echo %z' server echo remote 2>/dev/null; echo $?
scp -q -o PermitLocalCommand=yes -o LocalCommand='echo lc >&2' .ssh/known_hosts server:k; echo $?
"#,
        ends: Ends::Client,
        sees: &["== fails\nfailing\nbob\n0\n", "KnownHostsCommand-ORDER /bin/false server failed, status 1\nKnownHostsCommand failed\n"],
        ..RECIPE
    }
    .run();
}

/// Host keys that are learnt, renewed, looked up by alias and by address, and files that cannot be written.
///
/// Covers: ssh_config UpdateHostKeys; ssh_config HostKeyAlias; ssh_config CheckHostIP; ssh_config RequiredRSASize
#[test]
fn host_keys_learnt_and_looked_up() {
    Recipe {
        config: r#"
Host *
  HashKnownHosts no
  UserKnownHostsFile ~/.ssh/k
  GlobalKnownHostsFile none
  BatchMode yes
  User bob
"#,
        client: r#"
k() { cut -d' ' -f1,2 .ssh/k | sort; }
key() { echo "$2 $(cut -d' ' -f1,2 /world/$1.pub)"; }
key host_ed25519 server >.ssh/k
ssh server true
k
key user_ed25519 server >>.ssh/k
ssh -o UpdateHostKeys=yes server true
k
key host_ed25519 other >.ssh/k
ssh -o HostKeyAlias=other -o UpdateHostKeys=yes server true
k
ssh -o HostKeyAlias=nothere server true; echo $?
ssh -o HostKeyAlias=new -o StrictHostKeyChecking=no -o UpdateHostKeys=no server true
k
ssh -o CheckHostIP=yes -o StrictHostKeyChecking=accept-new -o UpdateHostKeys=no bastion true
k
ssh -o HostKeyAlgorithms=rsa-sha2-512 -o HostKeyAlias=other server true; echo $?
ssh -o RequiredRSASize=4096 -o HostKeyAlgorithms=rsa-sha2-512 -o HostKeyAlias=other server true
echo $?
ln -s /proc/nothere .ssh/unwritable
ssh -o UserKnownHostsFile=.ssh/unwritable -o StrictHostKeyChecking=accept-new inner true; echo $?
ssh -o NoHostAuthenticationForLocalhost=yes localhost id -un
ssh -o VisualHostKey=yes -o HostKeyAlias=other server true; echo $?
key user_ed25519 wrong >.ssh/w
ssh -o FingerprintHash=md5 -o HostKeyAlias=wrong -o UserKnownHostsFile=.ssh/w inner true; echo $?
"#,
        differs: &[("-f '.ssh/w' -R 'wrong'", "-f \".ssh/w\" -R \"wrong\"", "OpenSSH quotes so from 9.6 on")],
        ends: Ends::Client,
        sees: &[
            "Permanently added 'bastion' (ED25519)",
            "Failed to add the host to the list of known hosts (",
            "REMOTE HOST IDENTIFICATION HAS CHANGED",
        ],
        ..RECIPE
    }
    .run();
}

/// A host's address is learnt with its name, and refused where another key is known for it; a loopback
/// address is not.
///
/// Covers: ssh_config CheckHostIP
#[test]
fn addresses_of_hosts_are_checked_too() {
    Recipe {
        setup: "ip addr add 10.5.0.1/32 dev lo; echo '10.5.0.1 far' >>/etc/hosts",
        config: r#"
Host *
  CheckHostIP yes
  HashKnownHosts no
  UpdateHostKeys no
  UserKnownHostsFile ~/.ssh/k
  GlobalKnownHostsFile none
  BatchMode yes
  User bob
"#,
        client: r#"
k() { cut -d' ' -f1,2 .ssh/k; rm -f .ssh/k; }
key() { echo "$2 $(cut -d' ' -f1,2 /world/$1.pub)"; }
for h in far bastion 10.5.0.1; do ssh -o StrictHostKeyChecking=accept-new $h id -un; k; done
key host_ed25519 far >.ssh/k
ssh -o StrictHostKeyChecking=yes far true
k
for s in yes no accept-new; do
    { key host_ed25519 far; key user_ed25519 10.5.0.1; } >.ssh/k
    ssh -o StrictHostKeyChecking=$s far id -un; echo $?
    k
done
key host_ed25519 far >.ssh/k
ssh -o CheckHostIP=no far true
k
"#,
        ends: Ends::Client,
        sees: &[
            "bob\nfar,10.5.0.1 ssh-ed25519\nbob\nbastion ssh-ed25519\n",
            "differs from the key for the IP address '10.5.0.1'",
        ],
        ..RECIPE
    }
    .run();
}

/// Identities beyond what the server allows, ones that are missing, and keys that are too small.
///
/// Covers: sshd_config MaxAuthTries; sshd_config RequiredRSASize
#[test]
fn identities_beyond_the_allowed_attempts() {
    Recipe {
        server: "MaxAuthTries 3\nPubkeyAuthOptions none\nRequiredRSASize 2048",
        setup: r#"
cd /home/me/.ssh
ssh-keygen -q -t rsa -b 1024 -N '' -f small
cat small.pub >>/home/bob/.ssh/authorized_keys
for i in 1 2 3 4 5 6; do ssh-keygen -q -t ed25519 -N '' -f /home/me/k$i; done
chown -R me: /home/me
cd /
"#,
        config: "Host *\n  BatchMode yes\n",
        client: r#"
eval $(ssh-agent) >/dev/null
ssh-add -q k1 k2 k3 k4
try() { ssh "$@" bob@server id -un 2>&1; echo "= $?"; }
try
try -o IdentitiesOnly=yes -i .ssh/id_ed25519
try -i .ssh/id_ed25519
ssh-add -q -D
try -o IdentitiesOnly=yes -i k1 -i k2
try -o IdentitiesOnly=yes -i k1 -i k2 -i .ssh/id_ed25519
try -o IdentitiesOnly=yes -i .ssh/small
try -i nothere
try -o IdentityAgent=none -o IdentityFile=none
kill $SSH_AGENT_PID
"#,
        sees: &["Too many authentication failures", "bob\n= 0\n"],
        ..RECIPE
    }
    .run();
}
