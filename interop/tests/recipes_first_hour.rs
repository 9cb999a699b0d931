//! Recipes for the first hour after a change from OpenSSH: mistakes in command lines, new `known_hosts`
//! files, the output of `-v`.

use lh_interop::recipe::{Ends, RECIPE, Recipe};
use lh_interop::{Lab, our};

/// Words and statuses of mistakes that each program finds by itself or leaves to its `ssh`. Where that `ssh`
/// ends at once, OpenSSH's `scp` and `sftp` end by whichever comes first, their write (141, or
/// `lost connection` and 1) or their read (255): they are asked until it was the read, as ours always ends.
///
/// Covers: ssh -c; ssh -m; scp -c; sftp -c; scp -X; ssh_config KexAlgorithms; ssh_config Ciphers
#[test]
fn mistakes_of_the_first_command_lines() {
    Recipe {
        config: "Host *\n  User bob\n",
        client: r#"
r() {
    echo "== $*"
    for _ in {1..100}; do
        said=$("$@" </dev/null 2>&1; echo "rc $?")
        case $said in *"rc 141"|*"lost connection"*) ;; *) break ;; esac
    done
    echo "$said"
}
exec 2>&1
echo x >x
r ssh -1 server true
r sftp -1 server
scp -1 x server: 2>&1 | sed 's/^scp: //'; echo ${PIPESTATUS[0]}
for c in foo aes128-ctr,foo; do
    r ssh -c $c server true
    r scp -c $c x server:
    r scp -c $c server:x .
    r sftp -q -c $c server
done
r ssh -m foo server true
r scp -o Ciphers=foo x server:
for k in foo +foo curve25519-sha256,foo,bar; do r ssh -o KexAlgorithms=$k server true; done
r ssh -o KexAlgorithms=-foo server id -un
r ssh -o MACs=foo server true
r scp -X foo x server:
scp -P 0 x server: 2>&1 | grep '[a-z]'
r scp x -h:y
r scp -- -h:y x
r scp x bob@-h:y
r scp x 'a;b@server:y'
r scp server:x 'server;a:y'
r scp x me@:y
r scp x @server:y
r scp x 'scp://server:x/y'
r scp x scp://
r sftp -q -- -h
r sftp -q 'a;b@server'
for d in '' bob@: sftp://server:x/y; do
    sftp $d 2>&1 | sed '/^usage/,$d'; echo ${PIPESTATUS[0]}
done
"#,
        look: "tree /home/bob | grep -v .ssh",
        sees: &[
            "rc 255\nSSH protocol v.1 is no longer supported\n255\n",
            "Unknown cipher type 'aes128-ctr,foo'\nscp: Connection closed\nrc 255\n",
            "Unsupported KEX algorithm \"foo\"\ncommand-line line 0: Bad SSH2 KexAlgorithms 'curve25519-sha256,foo,bar'.\n",
        ],
        ends: Ends::Client,
        ..RECIPE
    }
    .run();
}

/// A program that cannot be started is a connection that fails. OpenSSH's own status depends on whether its
/// write or its read comes first (141 or 255, 1 or 255).
///
/// Covers: scp -S; scp -D; sftp -S; sftp -D
#[test]
fn programs_that_cannot_be_started() {
    let lab = Lab::new();
    lab.write("x", "x");
    for (program, words, said) in [
        (
            "lhscp",
            &["-S", "/nosuch", "x", "h:"][..],
            "/nosuch: No such file or directory\nlhscp: Connection closed\n",
        ),
        (
            "lhscp",
            &["-D", "/nosuch", "h:x", "y"],
            "/nosuch: No such file or directory\nlhscp: Connection closed\n",
        ),
        ("lhsftp", &["-S", "/nosuch", "h"], "exec: /nosuch: No such file or directory\nConnection closed\n"),
        ("lhsftp", &["-D", "/nosuch"], "exec: /nosuch: No such file or directory\nConnection closed\n"),
    ] {
        let ran = lab.run(&our(program), &words.iter().map(|&word| word.to_owned()).collect::<Vec<_>>());
        assert_eq!((ran.code, ran.err.replace('\r', "").as_str()), (255, said), "{program} {words:?}");
    }
}

/// Where a new `known_hosts` file may be: `~/.ssh` is made, other directories are not.
///
/// Covers: ssh_config UserKnownHostsFile; ssh_config StrictHostKeyChecking
#[test]
fn directories_and_modes_of_new_known_hosts() {
    Recipe {
        client: r#"
exec 2>&1
r() {
    echo "== $*"
    ssh -F none -i k/id_ed25519 -o StrictHostKeyChecking=accept-new "$@" bob@server id -un; echo $?
    ls -l .ssh | cut -d' ' -f1,3,4
}
cp -r .ssh k
rm -r .ssh
r
rm -r .ssh
: >.ssh
r
rm .ssh
chmod 500 .
r
chmod 700 .
r -o UserKnownHostsFile=.ssh/kh
r -o UserKnownHostsFile='~/.ssh/sub/kh'
r -o UserKnownHostsFile='~/.sshx/kh'
r -o UserKnownHostsFile=/nosuch/kh
umask 077
r -o UserKnownHostsFile='~/.ssh/a ~/.ssh/b'
ls -ld .ssh | cut -c1-10
ls -A
"#,
        sees: &[
            "Could not create directory '/home/me/.ssh' (Permission denied).\nFailed to add the host to the list of known hosts",
            "-rw-r--r-- me me\n",
        ],
        ends: Ends::Client,
        ..RECIPE
    }
    .run();
}

/// `/etc/nologin` outside of a chroot does not close it, the one inside does.
///
/// Covers: sshd_config ChrootDirectory (/etc/nologin)
#[test]
fn nologin_counts_inside_of_a_chroot() {
    Recipe {
        server: "UsePAM no\nMatch User jailed\n ChrootDirectory /srv/jail\n",
        setup: r#"
mkdir -p /srv/jail/bin
cp /bin/bash /srv/jail/bin
account jailed 2100
ldd /bin/bash | grep -o '/[^ ]*' |
    while read l; do mkdir -p /srv/jail$(dirname $l); cp $l /srv/jail$l; done
echo outside >/etc/nologin
mkdir -p /srv/jail/etc
echo inside >/srv/jail/etc/nologin
chmod 777 /srv/jail/etc
"#,
        client: r#"
for u in bob jailed; do ssh -o BatchMode=yes $u@server 'echo hi'; echo $?; done
mv /srv/jail/etc/nologin /srv/jail/etc/off
for u in bob jailed; do ssh -o BatchMode=yes $u@server 'echo hi'; echo $?; done
"#,
        ends: Ends::Server,
        sees: &["254\n254\n254\nhi\n0\n"],
        ..RECIPE
    }
    .run();
}

/// What `realpath` and `expand-path` answer for paths through files, missing names and users who do not
/// exist.
///
/// Covers: wire expand-path@openssh.com
#[test]
fn paths_that_sftp_clients_ask_for() {
    Recipe {
        tools: &["python3"],
        setup: r#"
mkdir -p /home/bob/d/e
echo x >/home/bob/f
ln -s f /home/bob/l
ln -s nowhere /home/bob/dangling
ln -s d /home/bob/ld
chown -R bob: /home/bob
mkdir -m 700 /srv/closed
"#,
        client: r#"cat >ask.py <<'E'
import struct, subprocess
ssh = subprocess.Popen(['ssh', '-s', 'bob@server', 'sftp'], stdin=subprocess.PIPE, stdout=subprocess.PIPE)
text = lambda s: struct.pack('>I', len(s)) + s
def ask(kind, body):
    ssh.stdin.write(struct.pack('>IB', len(body) + 1, kind) + body)
    ssh.stdin.flush()
    return ssh.stdout.read(struct.unpack('>I', ssh.stdout.read(4))[0])
def show(path, got):
    length = struct.unpack('>I', got[9:13])[0]
    print(path, got[0], struct.unpack('>I', got[5:9])[0], got[13:13 + length])
ask(1, struct.pack('>I', 3))
for path in [b'.', b'', b'f/..', b'f/.', b'f/', b'f/x', b'l/..', b'f/../d', b'f/../none', b'd/..', b'd/e/../..', b'none', b'none/..', b'none/x', b'd/none', b'dangling', b'dangling/..', b'ld/..', b'ld/e', b'~', b'/..', b'/srv/closed/in']:
    show(path, ask(16, struct.pack('>I', 7) + text(path)))
for path in [b'~', b'~/x', b'~bob/x', b'~none', b'~none/x', b'~root', b'x', b'~/../..']:
    show(path, ask(200, struct.pack('>I', 7) + text(b'expand-path@openssh.com') + text(path)))
E
python3 ask.py"#,
        ends: Ends::Server,
        sees: &["b'f/..' 104 1 b'/home/bob'\n", "b'~none' 101 2 b'no such user'\n"],
        ..RECIPE
    }
    .run();
}

/// Files of the client from other systems, local commands with every token, proxy commands that fail, and
/// names in braces.
///
/// Covers: ssh_config LocalCommand; ssh_config ProxyCommand; ssh_config Include; ssh -W
#[test]
fn files_commands_and_braces_of_an_afternoon() {
    Recipe {
        tools: &["nc"],
        config: "Host *\n  User bob\n",
        setup: "echo 1 >/home/bob/a1; echo 2 >/home/bob/a2; mkdir /home/bob/w; chown -R bob: /home/bob",
        client: r#"
exec 2>&1
r() { echo "== $*"; "$@" </dev/null; echo "rc $?"; }
printf 'Host win\r\n  HostName server\r\n  User bob\r\n  SetEnv LC_A="x y"\r\n' >crlf
r ssh -F crlf win 'echo $LC_A; id -un'
printf 'Host win\n  HostName=server\n  User = bob\n  Port "22"\n  IdentityFile "~/.ssh/id_ed25519"  # comment\n' >eq
r ssh -F eq win id -un
mkdir .ssh/conf.d
printf 'Host i1\n HostName server\n' >.ssh/conf.d/1.conf
printf 'Include conf.d/*.conf none*\nHost *\n User bob\n' >inc
r ssh -F inc i1 id -un
r ssh -o PermitLocalCommand=yes -o 'LocalCommand=echo %n %h %p %r %u %L %l %d %% %T; exit 3' server id -un
r ssh -o 'LocalCommand=echo no' server id -un
r scp -o PermitLocalCommand=yes -o 'LocalCommand=echo no' server:a1 got
r ssh -o ProxyCommand='nc %h %p' server id -un
r ssh -o ProxyCommand='ssh -W %h:%p bastion' inner id -un
r ssh -o ProxyCommand=none server id -un
ssh -W server:22 bastion </dev/null | head -c 4; echo
mkdir g
r scp -q 'server:{a1,a2}' g
r scp -q 'server:a*' g
ls g
r scp -O -q 'server:{a1,a2}' g
r scp -q 'server:nosuch*' g
r scp -3 'server:a*' inner:w
r bash -c 'tar cf - g | ssh server "tar xf - -C w && find w | sort"'
"#,
        ends: Ends::Client,
        sees: &["x y\nbob\nrc 0\n", "w/g/a2\nrc 0\n"],
        ..RECIPE
    }
    .run();
}

/// An account whose home does not exist (`useradd -M`): copies and commands work, with files that are named.
#[test]
fn account_without_a_home_at_the_client() {
    Recipe {
        setup: r"
sed -i 's,^\(me:.*\):/home/me:,\1:/home/none:,' /etc/passwd
",
        client: r#"
k=/home/me/.ssh/id_ed25519
echo data >f
ssh bob@server id -un; echo $?
for check in accept-new no; do ssh -i $k -o StrictHostKeyChecking=$check bob@server id -un; echo $?; done
ssh -i $k -o UserKnownHostsFile=/tmp/known -o StrictHostKeyChecking=accept-new bob@server id -un; echo $?
known="-i $k -o UserKnownHostsFile=/tmp/known"
scp $known f bob@server:; echo $?
scp -r $known bob@server:f /tmp/down; echo $?; cat /tmp/down
echo 'put f g' | sftp $known -b - bob@server; echo $?
ssh-keygen -q -t ed25519 -N ''; echo $?
for task in '-F server' '-R server' -H; do ssh-keygen $task; echo $?; done
eval "$(ssh-agent -s)" >/dev/null
ssh-add; echo $?
ssh-add $k; ssh -A -o UserKnownHostsFile=/tmp/known bob@server 'ssh-add -l | wc -l'
ssh-agent -k >/dev/null
ssh $known -M -S ~/none/m -fN bob@server 2>&1 | sed 's/m[.][^:]*:/m:/'
ssh -G server 2>/dev/null | grep -i userknown
"#,
        look: "ls -A /home",
        sees: &["Could not create directory '/home/none/.ssh'", "bob\n0\n0\n0\ndata\n"],
        ends: Ends::Client,
        ..RECIPE
    }
    .run();
}
