//! Recipes for configurations with programs, homes and users that do not exist.

use lh_interop::recipe::{Ends, RECIPE, Recipe};

/// A program for known host keys that does not exist leaves the decision to the files; one that fails ends
/// the connection, for its lines may be what revokes a key.
///
/// Covers: ssh_config KnownHostsCommand
#[test]
fn known_hosts_commands_that_are_missing_or_fail() {
    Recipe {
        setup: r#"
mkdir /opt/k
program() { printf '%s\n' '#!/bin/sh' "$2" >/opt/k/$1; chmod ${3:-755} /opt/k/$1; }
program works 'grep ^server /home/me/.ssh/known_hosts'
program fails 'grep ^server /home/me/.ssh/known_hosts; exit 3'
program killed 'kill -9 $$'
program silent ''
program garbage 'head -c 300 /dev/zero; echo; echo a b c; echo server ssh-ed25519 AAAA'
program plain 'grep ^server /home/me/.ssh/known_hosts' 644
program open 'grep ^server /home/me/.ssh/known_hosts' 777
program bobs 'grep ^server /home/me/.ssh/known_hosts'
chown bob /opt/k/bobs
program order '[ $1 = ORDER ] && exit 3; grep ^server /home/me/.ssh/known_hosts'
program later '[ $1 = HOSTNAME ] && exit 3; grep ^server /home/me/.ssh/known_hosts'
printf '#!/no/such/interpreter\n' >/opt/k/wrong
chmod 755 /opt/k/wrong
mkdir /opt/k/directory
"#,
        client: r#"
ask() {
    echo "== $1 with $files"
    ssh -o "KnownHostsCommand=$1" -o UserKnownHostsFile=$files -o GlobalKnownHostsFile=none -o StrictHostKeyChecking=yes bob@server id -un 2>&1 |
        grep -v '^No ED25519 host key is known'
    echo "${PIPESTATUS[0]}"
}
for files in .ssh/known_hosts none; do
    for name in works fails killed silent garbage plain open bobs 'order %I' 'later %I' wrong directory nosuch works/x; do
        ask /opt/k/"$name"
    done
    ask works
    ask '~/works'
done
"#,
        ends: Ends::Client,
        sees: &[
            "== /opt/k/nosuch with .ssh/known_hosts\nCould not stat KnownHostsCommand-ORDER \"/opt/k/nosuch\": No such file or directory\nCould not stat KnownHostsCommand-HOSTNAME \"/opt/k/nosuch\": No such file or directory\nbob\n0\n",
            "KnownHostsCommand-ORDER execv \"/opt/k/plain\": Permission denied\nKnownHostsCommand-ORDER /opt/k/plain failed, status 127\nKnownHostsCommand failed\n255\n",
        ],
        ..RECIPE
    }
    .run();
}

/// Accounts of services have no home, or one that is read-only, or whose path is too long for a socket.
#[test]
fn agents_of_accounts_without_a_usable_home() {
    Recipe {
        setup: r#"
account homeless 2301 /nowhere
rm -r /nowhere
account service 2302
mount -t tmpfs -o ro,mode=755 none /home/service
"#,
        client: r#"
agent() { echo "== $1"; shift; env "$@" ssh-agent sh -c 'ssh-add -q ~me/.ssh/id_ed25519; ssh-add -l | cut -d" " -f1; echo $SSH_AUTH_SOCK' | sed 's/ssh-[A-Za-z0-9]*.agent.[0-9]*/socket/'; echo "${PIPESTATUS[0]}"; }
mkdir tmp
long=$(printf 'a%.0s' {1..120})
mkdir $long
agent missing HOME=/nowhere
agent file HOME=/etc/passwd
agent unwritable HOME=/proc
agent long HOME=$HOME/$long
agent elsewhere HOME=/nowhere TMPDIR=$HOME/tmp
agent nowhere HOME=/nowhere TMPDIR=/nowhere
ssh-agent -a /nowhere/x; echo $?
"#,
        look: r#"
service() { (cd / && setpriv --reuid $1 --regid $1 --clear-groups env -i PATH=/usr/bin:/bin ssh-agent sh -c 'ssh-add -l; dirname $SSH_AUTH_SOCK' | sed 's/ssh-[A-Za-z0-9]*/private/'); }
service 2301
service 2302
service 4711
ls -d /nowhere
"#,
        ends: Ends::Client,
        differs: &[("/home/me/tmp/socket", "/tmp/socket", "Debian's ssh-agent is set-gid and so never sees TMPDIR")],
        sees: &[
            "== missing\n256\n/tmp/socket\n0\n",
            "The agent has no identities.\n/tmp/private\nThe agent has no identities.\n/tmp/private\nThe agent has no identities.\n/tmp/private\n",
        ],
        ..RECIPE
    }
    .run();
}

/// `~user` in the places that take paths, of users that exist and of one that does not.
///
/// Covers: ssh -i; scp -i; sftp -i; ssh_config Include; ssh_config GlobalKnownHostsFile; ssh_config CertificateFile
#[test]
fn tildes_with_and_without_users() {
    Recipe {
        setup: "echo 'User bob' >/home/bob/part; chmod 644 /home/bob/part; mv /home/me/.ssh/id_ed25519 /home/me/key; cp /home/me/.ssh/known_hosts /home/bob/known; chmod 644 /home/bob/known",
        client: r#"
run() { echo "== $*"; "$@" 2>&1 </dev/null | sed 's/^[A-Za-z]*: tilde_expand/tilde_expand/'; echo "${PIPESTATUS[0]}"; }
o='-o PasswordAuthentication=no -o PubkeyAuthentication=yes'
for path in '~me/key' '~/key' '~nobody/key' '~me/nothere' '~root/x' '~nosuchuser/key' '~nosuchuser'; do
    run ssh $o -i "$path" bob@server id -un
    run ssh $o -o "IdentityFile=$path" bob@server id -un
    run ssh $o -i key -o "CertificateFile=$path" bob@server id -un
    run scp $o -i "$path" .ssh/id_ed25519.pub bob@server:
    run sftp $o -b /dev/null -i "$path" bob@server
    run ssh -F "$path" bob@server id -un
done
for path in '~bob/part' '~bob/nothere' '~nosuchuser/part' '~nosuchuser'; do
    printf 'Include %s\nIdentityFile ~/key\nPasswordAuthentication no\n' "$path" >c
    run ssh -F c server id -un
    printf 'Host server\n Include "%s" ~bob/part\nIdentityFile ~/key\nPasswordAuthentication no\n' "$path" >c
    run ssh -F c server id -un
done
for path in '~bob/known' '~nosuchuser/known' '~me/.ssh/known_hosts'; do
    run ssh -i key -o UserKnownHostsFile=none -o StrictHostKeyChecking=yes -o "GlobalKnownHostsFile=$path" bob@server id -un
done
"#,
        ends: Ends::Client,
        sees: &[
            "== ssh -o PasswordAuthentication=no -o PubkeyAuthentication=yes -i ~me/key bob@server id -un\nbob\n0\n",
            "Warning: Identity file /home/me/nothere not accessible: No such file or directory.\n",
            "-i ~nosuchuser/key bob@server id -un\ntilde_expand: No such user nosuchuser\n255\n",
            "GlobalKnownHostsFile=~bob/known bob@server id -un\nbob\n0\n",
        ],
        ..RECIPE
    }
    .run();
}

/// The order in which keys of files and of the agent are offered, security keys among them: theirs have no
/// rank of their own, but a word in `-v`. A security key's private file is text that any program can write.
#[test]
fn security_keys_are_offered_in_their_place() {
    Recipe {
        setup: r#"
python3 - <<'E'
import base64, os, struct
def field(b): return struct.pack('>I', len(b)) + b
def write(name, kind, public):
    blob = field(kind) + public
    private = blob + b'\1' + field(b'handle') + field(b'')
    private = b'\7\7\7\7' * 2 + private + field(name.encode())
    private += bytes(range(1, 1 + -len(private) % 8))
    text = b'openssh-key-v1\0' + field(b'none') * 2 + field(b'') + struct.pack('>I', 1) + field(blob) + field(private)
    with open('/home/me/.ssh/' + name, 'w') as file:
        file.write('-----BEGIN OPENSSH PRIVATE KEY-----\n' + base64.encodebytes(text).decode() + '-----END OPENSSH PRIVATE KEY-----\n')
    with open('/home/me/.ssh/' + name + '.pub', 'w') as file:
        file.write('%s %s %s\n' % (kind.decode(), base64.b64encode(blob).decode(), name))
for name in 'id_ed25519_sk', 'other':
    write(name, b'sk-ssh-ed25519@openssh.com', field(os.urandom(32)) + field(b'ssh:'))
E
chown me: /home/me/.ssh/*
chmod 600 /home/me/.ssh/{id_ed25519_sk,other}
"#,
        client: r#"
ssh-keygen -q -t ecdsa -N '' -C in-the-agent -f agents
ssh-keygen -q -t rsa -N '' -C x -f .ssh/id_rsa
show() {
    echo "== $*"
    ssh -v -o PasswordAuthentication=no "$@" nobody@server true 2>&1 </dev/null | tr -d '\r' |
        sed -n 's/SHA256:[^ ]*/FP/; /id_xmss\|id_dsa\|id_mldsa/d; /Will attempt\|Offering/p'
}
show
show -i .ssh/other -i .ssh/id_ed25519
show -o IdentitiesOnly=yes -i .ssh/id_ed25519 -i .ssh/other
eval "$(ssh-agent)" >/dev/null
ssh-add -q agents
show
show -i .ssh/other
ssh-agent -k >/dev/null
"#,
        ends: Ends::Client,
        sees: &[
            "debug1: Will attempt key: /home/me/.ssh/id_ed25519 ED25519 FP\ndebug1: Will attempt key: /home/me/.ssh/id_ed25519_sk ED25519-SK FP authenticator\n",
            "debug1: Will attempt key: in-the-agent ECDSA FP agent\ndebug1: Will attempt key: .ssh/other ED25519-SK FP explicit authenticator\n",
        ],
        ..RECIPE
    }
    .run();
}
