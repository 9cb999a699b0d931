//! Recipes from the answers to everyday "how do I …" questions: files named at once on `sftp`'s command line,
//! programs that print keys, masters whose socket has no place, forwards that cannot be opened.

use lh_interop::recipe::{Ends, RECIPE, Recipe};

/// `sftp host:path` with patterns, directories, flags and names that are not there. Names with spaces and
/// quotes, which OpenSSH takes apart, are tried by other tests.
#[test]
fn files_named_on_sftp_s_command_line() {
    Recipe {
        setup: r#"
mkdir -p /home/bob/d/sub; cd /home/bob/d
echo a >a.txt; echo b >b.txt; echo s >'star*'; echo x >sub/x; ln -s a.txt link; chmod 640 b.txt
chown -R bob:bob /home/bob
"#,
        client: r#"
mkdir w; cd w
t() { echo "--- $*"; sftp "$@" </dev/null 2>&1 | LC_ALL=C sort; echo "= ${PIPESTATUS[0]}"; ls -Rb; rm -rf -- *; }
t 'bob@server:d/*.txt'
t 'bob@server:d/*.txt' .
t 'bob@server:d/[ab].txt' .
t 'bob@server:d/star*'
t 'bob@server:d/star\*'
t 'bob@server:d/nope*' .
t 'bob@server:d/nope'
t 'bob@server:d/s*' .
t 'bob@server:d/s*' nodir
t -r 'bob@server:d/s*' .
t 'bob@server:d/{a,b}.txt'
t 'bob@server:d/link'
t -p 'bob@server:d/?.txt' .
t 'bob@server:d/sub/'
t 'sftp://bob@server/d/%61.txt' new
t 'bob@server:~/d/a.txt'
"#,
        ends: Ends::Client,
        sees: &["Fetching /home/bob/d/a.txt to ./a.txt\nFetching /home/bob/d/b.txt to ./b.txt\n= 0\n"],
        ..RECIPE
    }
    .run();
}

/// The surroundings of programs that print keys and principals; scripts there call what an administrator has
/// put into /usr/local/bin.
///
/// Covers: sshd_config AuthorizedKeysCommand; sshd_config AuthorizedPrincipalsCommand
#[test]
fn key_programs_find_the_administrator_s_own() {
    Recipe {
        server: "\
AuthorizedKeysCommand /usr/local/bin/keys %u
AuthorizedKeysCommandUser nobody",
        setup: r#"
printf '#!/bin/sh\ncat /tmp/certified.pub\n' >/usr/local/bin/lookup-keys
printf '#!/bin/sh\nenv | sort >/tmp/env.keys; umask >>/tmp/env.keys; pwd >>/tmp/env.keys; lookup-keys "$@"\n' >/usr/local/bin/keys
printf '#!/bin/sh\nenv | sort >/tmp/env.principals; echo "$1"\n' >/usr/local/bin/principals
chmod 755 /usr/local/bin/*
rm /home/bob/.ssh/authorized_keys
ssh-keygen -q -t ed25519 -N '' -f /etc/ssh/ca
cp /home/me/.ssh/id_ed25519.pub /tmp/certified.pub
ssh-keygen -q -s /etc/ssh/ca -I me -n bob /tmp/certified.pub
serve certificates "Port 2200
AuthorizedPrincipalsCommand /usr/local/bin/principals %u
AuthorizedPrincipalsCommandUser nobody
TrustedUserCAKeys /etc/ssh/ca.pub"
"#,
        client: r#"
ssh bob@server echo by key; echo $?; cat /tmp/env.keys
ssh -p 2200 -o CertificateFile=/tmp/certified-cert.pub bob@server echo by certificate; echo $?; cat /tmp/env.principals
"#,
        ends: Ends::Server,
        sees: &["by key\n0\n", "PATH=/usr/local/bin:/usr/bin:/bin:/usr/games\n", "by certificate\n0\n"],
        ..RECIPE
    }
    .run();
}

/// Masters that cannot listen, so that a script which is to stop them later could not.
///
/// Covers: ssh -M; ssh -S; ssh_config ControlMaster
#[test]
fn masters_whose_socket_has_no_place() {
    Recipe {
        client: r#"
t() { echo "--- $*"; "$@" </dev/null 2>&1 | sed 's/\(bind to path [^ ]*\)\.[A-Za-z0-9]\{16\}:/\1:/'; echo "= ${PIPESTATUS[0]}"; }
t ssh -M -S /nope/m bob@server echo no
t ssh -f -N -M -S /nope/m bob@server
t ssh -O exit -S /nope/m bob@server
t ssh -o ControlMaster=yes -o ControlPath=/root/m bob@server echo no
t ssh -o ControlMaster=no -o ControlPath=/nope/m bob@server echo goes on
t ssh -o ControlMaster=yes -o ControlPath=none bob@server echo goes on
t ssh -o ControlMaster=auto -o ControlPath=/nope/m bob@server echo automatic
"#,
        ends: Ends::Client,
        sees: &["unix_listener: cannot bind to path /nope/m: No such file or directory\n= 255\n"],
        differs: &[("automatic\n= 0\n", "= 255\n", "a session that may be the master goes on without being it")],
        ..RECIPE
    }
    .run();
}

/// What a user reads when the server opens no channel: forwards that are forbidden, refused or lead nowhere,
/// sessions beyond `MaxSessions` of a shared connection, and X11 without `xauth` at either end.
///
/// Covers: ssh -W; ssh -J; ssh_config XAuthLocation; sshd_config XAuthLocation; sshd_config MaxSessions
#[test]
fn channels_that_cannot_be_opened() {
    Recipe {
        setup: r#"
serve strict "Port 2200
PidFile /run/sshd-strict.pid
AllowTcpForwarding no
X11Forwarding yes
XAuthLocation /nope/xauth
MaxSessions 1"
touch /home/bob/.Xauthority; chown bob: /home/bob/.Xauthority
"#,
        client: r#"
t() { echo "--- $*"; "$@" </dev/null 2>&1; echo "= $?"; }
t ssh -W inner:22 -p 2200 bob@server
t ssh -W inner:9 bob@server
t ssh -J bob@server:2200 bob@inner true
t ssh -J bob@server -p 9 bob@inner true
for port in 22 2200; do
    ssh -f -N -M -S m -p $port -L 9001:inner:9 -L 9002:/nope/s -E log.$port bob@server
    for local in 9001 9002 9001; do nc -d -w 5 127.0.0.1 $local; echo $?; done
    t ssh -S m bob@server echo first
    t ssh -S m -O exit bob@server
    eventually ! test -e m
    sed 's/channel [0-9]*/channel N/' log.$port
done
ssh -f -N -M -S m -p 2200 bob@server
ssh -S m bob@server sleep 60 &
eventually pgrep -u bob -x sleep
t ssh -o BatchMode=yes -S m -p 2200 bob@server echo second
t ssh -S m -W inner:22 bob@server
ssh bob@server pkill -x sleep; wait
t ssh -S m -O exit bob@server
export DISPLAY=:5
t ssh -Y -o XAuthLocation=/nope bob@server 'echo ${DISPLAY%.*}'
t ssh -Y -p 2200 bob@server true
t ssh -x bob@server 'echo "[$DISPLAY]"'
"#,
        sees: &[
            "channel 0: open failed: administratively prohibited: open failed\nstdio forwarding failed\n= 255\n",
            "channel 0: open failed: connect failed: Connection refused\n",
            "session request failed: Session open refused by peer\nsecond\n",
            "Warning: No xauth data; using fake authentication data for X11 forwarding.\n",
            "X11 forwarding request failed on channel 0\n= 0\n",
        ],
        differs: &[
            (" by peer: connect failed: open failed\n", " by peer\n", "our master says why, too"),
            (" by peer: administratively prohibited: open failed\n", " by peer\n", "the same for stdio forwards"),
            ("failed: No such file or directory\n", "failed: open failed\n", "our server says why of sockets, too"),
        ],
        ..RECIPE
    }
    .run();
}

/// A client that is stopped in the middle of data ends its `ProxyCommand` before it closes the pipes to it,
/// so that `socat` does not write "Broken pipe" below what a script prints.
///
/// Covers: ssh_config ProxyCommand
#[test]
fn proxy_commands_end_before_their_pipes() {
    Recipe {
        tools: &["socat"],
        config: "Host through\n  HostKeyAlias server\n  User bob\n  ProxyCommand socat - TCP:server:22\n",
        client: r#"
for signal in TERM HUP TERM HUP TERM HUP TERM HUP; do
    ssh through 'exec cat /dev/zero' 2>err >/dev/null & pid=$!
    eventually pgrep -u bob -x cat
    kill -$signal $pid; wait $pid; echo $signal $?
    eventually ! pgrep -u me -x socat; eventually ! pgrep -u bob -x cat
    grep socat err
done
"#,
        ends: Ends::Client,
        sees: &["TERM 255\nHUP 255\n"],
        ..RECIPE
    }
    .run();
}
