//! Recipes for incomplete environments: without `/proc`, `/dev/pts`, free disk space, descriptors, or a
//! writable root.

use lh_interop::recipe::{Ends, RECIPE, Recipe};

/// What is tried everywhere: a command, a copy, a terminal.
const TRIES: &str = "ssh bob@server 'id -un; cat' <<<in; echo $?; head -c 200000 /dev/zero >z; scp -q z bob@server:; echo $?; scp -q bob@server:z back; cmp z back; echo $?; \
    sftp -q -b - bob@server <<<'ls -1'; echo $?; ssh -tt bob@server 'test -t 0 && echo tty; exit 3' </dev/null 2>/dev/null | tr -d '\\r'; echo ${PIPESTATUS[0]}";

/// A server without `/dev/pts`: commands and copies work, terminals are refused.
#[test]
fn server_without_terminals() {
    Recipe { setup: "umount /dev/pts; rm /dev/ptmx", client: TRIES, sees: &["bob\nin\n0\n0\n0\n"], ..RECIPE }
        .run();
}

/// A read-only root file system with a writable home.
#[test]
fn server_on_a_read_only_root() {
    Recipe {
        setup: r#"
# The test reads the servers' logs there.
mount -t tmpfs tmpfs /var/log
for place in /tmp /var/tmp /dev/shm /run /etc/ssh /root /srv /; do mount -o remount,ro $place; done
"#,
        client: TRIES,
        look: "for place in / /usr/ /etc/ /var/lib/ /etc/ssh/ /run/ /tmp/; do touch ${place}x; done",
        sees: &[
            "bob\nin\n0\n0\n0\n",
            "touch: cannot touch '/x': Read-only file system\n",
            "touch: cannot touch '/etc/x': Read-only file system\n",
            "touch: cannot touch '/run/x': Read-only file system\n",
        ],
        ..RECIPE
    }
    .run();
}

/// A disk for logs and temporary files that is full.
#[test]
fn server_with_full_disks() {
    Recipe {
        setup: r#"
for d in /tmp /var/tmp /run; do mount -o remount,size=4k $d; done
dd if=/dev/zero of=/tmp/fill bs=4k count=1 2>/dev/null || true
"#,
        client: TRIES,
        sees: &["bob\nin\n0\n0\n0\n"],
        ..RECIPE
    }
    .run();
}

/// A full home at the client: known_hosts and downloads cannot be written. The file is larger than what waits
/// on the way, so that the command at the server still runs when writing fails here.
#[test]
fn client_with_a_full_home() {
    Recipe {
        setup: r#"
mkdir /srv/h
mount -t tmpfs -o size=64k,mode=755 h /srv/h
cp -a /home/me/. /srv/h
mount --bind /srv/h /home/me
chown me: /home/me
truncate -s 100M /home/bob/big
"#,
        client: r#"
scp -q bob@server:big .; echo $?
rm -f big .big*
dd if=/dev/zero of=fill bs=4k 2>/dev/null
ssh bob@server id -un; echo $?
ssh bob@server cat big >out 2>/dev/null; echo $?
"#,
        sees: &["bob\n0\n"],
        ends: Ends::Client,
        ..RECIPE
    }
    .run();
}

/// Closed standard descriptors, as some schedulers start programs.
#[test]
fn closed_standard_descriptors() {
    Recipe {
        client: r#"
ssh bob@server 'echo out' <&-; echo $?
ssh bob@server 'echo out >f1; exit 3' >&-; echo $?
ssh bob@server 'echo err >&2; exit 4' 2>&-; echo $?
ssh bob@server 'exit 5' <&- >&- 2>&-; echo $?
echo w >f
scp -q f bob@server:g <&- >&- 2>&-; echo $?
nohup ssh -n bob@server echo hup 2>/dev/null
setsid -w ssh bob@server echo sid
"#,
        look: "tree /home/bob/f1 /home/bob/g",
        sees: &["hup\nsid\n"],
        ..RECIPE
    }
    .run();
}

/// A restrictive umask, an odd locale, no HOME, no TERM, a working directory that is gone.
#[test]
fn odd_surroundings_of_the_client() {
    Recipe {
        client: r#"
umask 077
env -u HOME ssh bob@server id -un; echo $?
HOME=/nonexistent ssh bob@server id -un; echo $?
LANG=de_DE.UTF-8 LC_ALL=xx ssh bob@server 'echo $LC_ALL'
env -u TERM ssh -tt bob@server 'echo "<$TERM>"' </dev/null 2>/dev/null | tr -d '\r'
mkdir d
cd d
rmdir ../d
ssh bob@server id -un; echo $?
env -i /usr/bin/ssh bob@server 'id -un'
PATH= /usr/bin/ssh -o ProxyCommand='/bin/true' bob@server true 2>/dev/null; echo $?
"#,
        sees: &["bob\n0\nbob\n0\n"],
        ends: Ends::Client,
        ..RECIPE
    }
    .run();
}

/// A chroot for a shell with the few files that it takes, and no devices but two.
#[test]
fn chroot_with_a_shell_inside() {
    Recipe {
        server: "Match User bob\n  ChrootDirectory /srv/jail",
        setup: r#"
mkdir -p /srv/jail/{bin,lib64,dev,home/bob,usr}
for p in bash cat ls id; do
    cp /bin/$p /srv/jail/bin
    ldd /bin/$p | grep -o '/[^ ]*' |
        while read l; do mkdir -p /srv/jail/$(dirname $l); cp -n $l /srv/jail$l; done
done
mknod -m 666 /srv/jail/dev/null c 1 3
mknod -m 666 /srv/jail/dev/tty c 5 0
chown bob: /srv/jail/home/bob
"#,
        client: r#"
ssh bob@server 'pwd; ls /; id -u; cat' <<<in; echo $?
ssh bob@server 'echo x >f; exit 3'; echo $?
scp -O /etc/hostname bob@server:; echo $?
"#,
        look: "tree /srv/jail/home",
        sees: &["/home/bob\nbin\n"],
        ..RECIPE
    }
    .run();
}

/// A server and a client without `/proc`.
#[test]
fn server_and_client_without_proc() {
    Recipe { setup: "start_server; umount -l /proc", client: TRIES, sees: &["bob\nin\n0\n0\n0\n"], ..RECIPE }
        .run();
}

/// A server with few descriptors, as some containers and service managers start it.
#[test]
fn server_with_few_descriptors() {
    Recipe {
        setup: "ulimit -n 24; start_server",
        client: TRIES,
        sees: &["bob\nin\n0\n0\n0\n"],
        ends: Ends::Server,
        ..RECIPE
    }
    .run();
}

/// `ForwardAgent` with a path that is missing, and with one that has an agent.
///
/// Covers: ssh_config ForwardAgent
#[test]
fn agent_forwarding_by_path() {
    Recipe {
        client: r#"
eval $(ssh-agent) >/dev/null
ssh-add -q .ssh/id_ed25519
ssh -o ForwardAgent=/missing/%h bob@server true; echo $?
for a in $SSH_AUTH_SOCK yes no; do
    echo "== $a" | sed 's,== .*agent.*,== sock,'
    ssh -o ForwardAgent="$a" bob@server 'test -n "$SSH_AUTH_SOCK" && ssh-add -l | wc -l' 2>&1
    echo $?
done
ssh-agent -k >/dev/null
ssh -A bob@server true; echo $?
SSH_AUTH_SOCK=/gone ssh -A bob@server 'echo ran'; echo $?
"#,
        sees: &["Cannot forward agent socket path \"/missing/server\": No such file or directory\n"],
        ends: Ends::Client,
        ..RECIPE
    }
    .run();
}

/// What service managers see of `ssh -N` and its relatives when they end them.
#[test]
fn sessions_ended_by_signals() {
    Recipe {
        client: r#"
# What goes through a forward shows that the client is in its loop.
runs() { eventually bash -c 'head -c 4 </dev/tcp/127.0.0.1/7600 | grep -q SSH-'; }
for s in TERM HUP; do
    for o in '-N bob@server' 'bob@server sleep 60'; do
        ssh -L 7600:localhost:22 $o &
        p=$!
        runs
        kill -$s $p
        wait $p
        echo "$s $o: $?"
    done
done
ssh -N -L 7600:localhost:22 -o LogLevel=VERBOSE bob@server 2>err &
p=$!
runs
kill $p
wait $p; echo $?
grep signal err
"#,
        sees: &["TERM -N bob@server: 0\n", "TERM bob@server sleep 60: 255\n"],
        ends: Ends::Client,
        ..RECIPE
    }
    .run();
}

/// What the server's log says about the end of connections.
#[test]
fn log_lines_about_ends() {
    Recipe {
        client: r#"
ssh bob@server true
ssh bob@server 'kill -9 $PPID' 2>/dev/null
ssh -o BatchMode=yes -o PubkeyAuthentication=no bob@server true 2>/dev/null
ssh-keyscan -t ed25519 server 2>/dev/null | wc -l
echo get f | sftp -q bob@server 2>/dev/null >&2
"#,
        look: r#"
sessions_ended
sed -E 's/port [0-9]+/port N/; s/SHA256:.*//' /var/log/sshd.log |
    grep 'Received disconnect\|Disconnected from\|Accepted\|Connection closed by' | sort
"#,
        ends: Ends::Server,
        sees: &["Received disconnect from 127.0.0.1 port N:11: disconnected by user"],
        ..RECIPE
    }
    .run();
}

/// What the server's log says about guesses, line by line: programs that shut out addresses count them.
///
/// Covers: sshd_config MaxAuthTries; sshd_config LogLevel
#[test]
fn log_lines_about_guesses() {
    Recipe {
        server: "MaxAuthTries 4\nPubkeyAuthOptions none\nKbdInteractiveAuthentication yes",
        setup: r#"
sed -i 's/pam_unix.so.*/& nodelay/' /etc/pam.d/common-auth
serve plain "$(printf 'Port 2201\nListenAddress 127.0.0.1\nUsePAM no\nKbdInteractiveAuthentication no\nInclude /etc/ssh/sshd_config.d/*.conf\nLogLevel VERBOSE\nPubkeyAuthOptions none\nMaxAuthTries 4')"
cd /home/me
for i in 1 2 3 4 5; do ssh-keygen -q -t ed25519 -N '' -f k$i; done
printf '#!/bin/sh\necho wrong\n' >ask
chmod 755 ask
chown me: k? ask
cd /
"#,
        config: "Host *\n  NumberOfPasswordPrompts 8\n  HostKeyAlias server\n",
        client: r#"
export SSH_ASKPASS=~/ask SSH_ASKPASS_REQUIRE=force
for p in 22 2201; do
    for u in nosuch bob; do
        for m in none publickey password keyboard-interactive; do
            ssh -p $p -o PreferredAuthentications=$m -o IdentitiesOnly=yes -i k1 $u@127.0.0.1 true
        done
        ssh -p $p -o PreferredAuthentications=publickey,password -o IdentitiesOnly=yes -i k1 -i k2 $u@127.0.0.1 true
        ssh -p $p -o PreferredAuthentications=publickey -o IdentitiesOnly=yes -i k1 -i k2 -i k3 -i k4 -i k5 $u@127.0.0.1 true
    done
done 2>/dev/null
ssh -p 2201 bob@127.0.0.1 true 2>/dev/null
"#,
        look: r#"
sessions_ended
for f in sshd sshd-plain; do
    echo "== $f"
    sed -E 's/port [0-9]+/port N/g; s/SHA256:.*/FP/; s/^(error|fatal): //' /var/log/$f.log |
        grep 'authentic\|Authentic\|Failed\|Postponed\|Invalid\|Accepted pub'
done
"#,
        pam: true,
        ends: Ends::Server,
        sees: &[
            "PAM: Authentication failure for illegal user nosuch from",
            "Failed password for invalid user nosuch from",
            "maximum authentication attempts exceeded for bob from 127.0.0.1 port N ssh2 [preauth]",
            "Failed publickey for bob from 127.0.0.1 port N ssh2: ED25519 FP",
        ],
        ..RECIPE
    }
    .run();
}

/// `SendEnv`, `SetEnv` and `AcceptEnv` with patterns and exceptions, and `TERM` for the terminal alone.
///
/// Covers: ssh_config SendEnv; ssh_config SetEnv; sshd_config AcceptEnv; sshd_config SetEnv
#[test]
fn variables_by_patterns_exceptions_and_terminals() {
    Recipe {
        server: "AcceptEnv A* B? -x\nAcceptEnv C_[12]\nSetEnv FROM=server A1=server\n",
        config: r#"
Host s1
  SendEnv A* -AX B?
  SetEnv A1=set Z=no C_1=one
Host s2
  SendEnv *
Host s3
  SetEnv A9="two words"
  SetEnv A6=second
Host s4
  SendEnv A2 A3
  SendEnv -A2
Host s5
  SendEnv LC_* LANG
Host *
  HostName server
  User bob
"#,
        client: r#"export A1=1 A2=2 AX=x B=0 B1=1 BB1=2 C_1=1 C_2=2 C_12=12 'A_SP=a b' A_NL=$'x\ny' A_EMPTY= LC_X=y LANGUAGE=z
see() { ssh "$@" 'env | grep -E "^(A|B|C_|Z|FROM|LC_|LANG)|^y$" | LC_ALL=C sort'; }
for h in s1 s2 s3 s4 s5; do echo "== $h"; see $h; done; echo == options; see -o SendEnv=A2 -o SetEnv=A3=three s1
see -o SetEnv='A3=a A4=b' -o SetEnv=A5=c s4; see -o 'SendEnv=-*' s1; see -o SetEnv='A3="q q"' s4; see -o SetEnv=A3=a=b s4
see -F none -l bob server; ssh -o SendEnv=A_SP s4 'echo "$A_SP"'; ssh -o SendEnv= s4 true; echo $?; ssh -o SetEnv==x s4 echo in
ssh -MNfS c s4; for type in foo ''; do for s in c none; do TERM=vt100 ssh -tt -S $s -o SetEnv=TERM=$type s4 'echo $TERM' </dev/null; done; done
ssh -S c -O exit s4"#,
        sees: &["== s3\nA1=server\nA9=two words\n", "foo\nfoo\nvt100\nvt100\n"],
        ..RECIPE
    }
    .run();
}
