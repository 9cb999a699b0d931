//! Recipes for the log level: which lines of a failure `ssh`, `scp` and `sftp` show at each level.

use lh_interop::recipe::{Ends, RECIPE, Recipe};

/// Connections that fail at each of their stages, at each level that hides something. The lines that name the
/// peer (`Connection closed by …`) are of level INFO; the one about a session's end is never hidden.
///
/// Covers: ssh -q; ssh_config LogLevel
#[test]
fn failed_connections_at_each_log_level() {
    Recipe {
        tools: &["python3"],
        setup: r#"
cat >/srv/odd.py <<'E'
import socket, struct, threading
def packet(payload):
    padding = 16 - (5 + len(payload)) % 8
    return struct.pack('>IB', len(payload) + padding + 1, padding) + payload + bytes(padding)
def strings(*texts):
    return b''.join(struct.pack('>I', len(text)) + text for text in texts)
HELLO = b'SSH-2.0-odd\r\n'
KEXINIT = packet(b'\x14' + bytes(16) + strings(b'none-such', b'ssh-ed25519', *[b'aes128-ctr'] * 2,
    *[b'hmac-sha2-256'] * 2, *[b'none'] * 2, b'', b'') + bytes(5))
DISCONNECT = packet(b'\x01' + struct.pack('>I', 2) + strings(b'go away', b''))
SAY = {7501: b'', 7502: b'go away\r\n', 7503: HELLO, 7504: HELLO + KEXINIT, 7505: HELLO + DISCONNECT,
    7506: b'SSH-1.5-old\r\n', 7507: b'x' * 9000}
# These close the connection; the others wait for the client to do so.
CLOSES = [7501, 7502, 7503]
def read_all(client, pause):
    client.settimeout(pause)
    try:
        while client.recv(10000):
            pass
    except OSError:
        pass
def serve(listener, port):
    while True:
        client = listener.accept()[0]
        # What the client sends is read before the end: it would see a reset otherwise.
        read_all(client, 0.3)
        client.sendall(SAY[port])
        read_all(client, 0.3 if port in CLOSES else 30)
        client.close()
for port in SAY:
    listener = socket.create_server(('127.0.0.1', port))
    threading.Thread(target=serve, args=(listener, port)).start()
# The backlog is full, so that the kernel does not answer; the other one accepts and says nothing.
full = socket.create_server(('127.0.0.1', 7509), backlog=0)
waiting = [socket.socket() for _ in range(4)]
for each in waiting:
    each.setblocking(False)
    each.connect_ex(('127.0.0.1', 7509))
mute = socket.create_server(('127.0.0.1', 7510), backlog=100)
E
(setsid python3 /srv/odd.py >/dev/null 2>&1 &)
for p in 750{1..7} 7509 7510; do listening $p; done
"#,
        client: r#"
shown() { echo "== $*"; timeout 60 "$@" 2>&1 </dev/null; echo $?; }
ssh-keygen -q -t ed25519 -N '' -f other
echo "server $(cut -d' ' -f1,2 other.pub)" >wrong
: >empty
for level in INFO ERROR FATAL QUIET; do
    set -- ssh -o LogLevel=$level
    for p in 750{1..7} 9; do shown "$@" -p $p server true | sed 's/port [0-9]*$/port N/'; done
    for p in 7509 7510; do shown "$@" -o ConnectTimeout=1 -p $p server true; done
    shown "$@" -o UserKnownHostsFile=wrong server true | sed "s/SHA256:[^ ]*/SHA256:X/; s/[\"']//g"
    shown "$@" -o UserKnownHostsFile=empty -o StrictHostKeyChecking=yes server true
    shown "$@" -o UserKnownHostsFile=empty -o BatchMode=yes server true
    shown "$@" -o "ProxyCommand=sh -c 'read line'" server true
    shown "$@" -o PubkeyAuthentication=no -o BatchMode=yes bob@server true
    shown "$@" none.invalid true
    shown "$@" bob@server 'sleep 1; kill -9 $PPID; sleep 1'
    shown "$@" -o ServerAliveInterval=1 -o ServerAliveCountMax=1 bob@server \
        'p=$PPID; (sleep 4; kill -CONT $p) >/dev/null 2>&1 & kill -STOP $p'
    shown "$@" -s bob@server none
done
for p in 7501 7503 7504 9; do
    for flags in -q '-q -o LogLevel=ERROR' '-o LogLevel=ERROR -q'; do shown ssh $flags -p $p server true; done
done
"#,
        sees: &[
            "Unable to negotiate with ",
            "Received disconnect from ",
            "Timeout, server server not responding.",
        ],
        ends: Ends::Client,
        ..RECIPE
    }
    .run();
}

/// `sftp` and `scp` hide with `-q` what `ssh` hides: a refused subsystem, and why there is no connection.
/// OpenSSH's `sftp` may say `Connection closed.` behind `Connection closed`, when it hears of its child's end
/// in time.
///
/// Covers: scp -q; sftp -q; sftp -s
#[test]
fn failed_copies_at_each_log_level() {
    Recipe {
        client: r#"
shown() {
    echo "== $*"
    for round in {1..100}; do
        said=$(timeout 60 "$@" 2>&1 </dev/null)
        rc=$?
        # OpenSSH's programs may end by SIGPIPE when their ssh has ended before.
        if [ $rc != 141 ]; then break; fi
    done
    echo "$said" | sed '/Connection closed\./d; /^$/d'
    echo $rc
}
echo x >f
for flags in '' -q '-o LogLevel=ERROR' '-o LogLevel=FATAL' '-o LogLevel=QUIET'; do
    shown sftp $flags -s none bob@server
    shown sftp $flags -b /dev/null -s none bob@server
    shown sftp $flags -P 9 bob@server
    shown scp $flags -P 9 f bob@server:
    shown scp $flags -P 9 bob@server:f g
    shown scp $flags -P 23 f bob@server:
    shown scp $flags -P 23 bob@server:f g
    shown scp $flags -3 -P 23 bob@server:f bob@server:g
done
"#,
        setup: r#"
grep -v '^Subsystem' /etc/ssh/sshd_config >/etc/ssh/without
serve without "$(cat /etc/ssh/without; echo Port 23)"
listening 23
"#,
        sees: &["subsystem request failed on channel 0"],
        differs: &[(
            "scp: no SFTP server answered on server; where it has none, -O copies by scp's old protocol\n",
            "",
            "what to do",
        )],
        ends: Ends::Client,
        ..RECIPE
    }
    .run();
}

/// A jump host is connected to by its own configuration: neither `-q` nor `LogLevel` of the destination hides
/// why it cannot be reached. OpenSSH adds lines about the destination's connection, which its other process
/// closes.
///
/// Covers: ssh -J; ssh -q; ssh_config LogLevel
#[test]
fn failed_jump_hosts_at_each_log_level() {
    Recipe {
        config: "Host silent\n HostName server\n Port 9\n LogLevel QUIET\nHost *\n BatchMode yes\n",
        client: r#"
shown() {
    echo "== $*"
    timeout 60 "$@" 2>&1 </dev/null |
        grep -Ev '^(kex_exchange_identification|banner exchange|Connection (closed|reset) by UNKNOWN)'
    echo ${PIPESTATUS[0]}
}
for flags in '' -q '-o LogLevel=ERROR' '-o LogLevel=FATAL' '-o LogLevel=QUIET'; do
    for hop in server:9 bob@server:9 none.invalid carl@server silent; do
        shown ssh $flags -J $hop bob@inner true
    done
    shown ssh $flags -J bob@server bob@inner id -un
    shown ssh $flags -J bob@server -p 9 bob@inner true
    shown ssh $flags -J bob@server,server:9 bob@inner true
    shown scp $flags -J server:9 f bob@inner:
done
"#,
        sees: &["ssh: connect to host server port 9: Connection refused\n", "bob\n0\n"],
        ends: Ends::Client,
        ..RECIPE
    }
    .run();
}

/// What `sftp` shows of commands with `-q`, `-N` and in batches.
///
/// Covers: sftp -q; sftp -N; sftp -b
#[test]
fn sftp_commands_at_each_verbosity() {
    Recipe {
        client: r#"
mkdir -p t/sub
echo x >t/f
echo y >t/sub/g
cat >b <<'E'
-put t/f here
-put t/f
-get here back
-get nosuch
-reput t/f here
-put -r t up
-get -r up down
-ls -l nosuch
-cd nosuch
-mkdir made
-mkdir made
-rm made
-rmdir made
-chmod 600 here
-rename here there
-progress
-pwd
-lpwd
-!echo local
-put nosuch
-rm up/sub/g
-nonsense
E
sed 's/^-//' b >i
for flags in '' -q '-q -N' -N '-b b' '-q -b b' '-b b -N'; do
    echo "== $flags"
    { sftp $flags bob@server <i 2>&1; echo $?; } | sort
    rm -rf back f down; ssh bob@server 'rm -rf here there f up made'
done
"#,
        sees: &["Connected to server.\n"],
        ends: Ends::Client,
        ..RECIPE
    }
    .run();
}

/// Mistakes on the command line are shown, and there is no log file yet; those in configuration files are
/// logged there.
///
/// Covers: ssh -E; ssh -O
#[test]
fn log_file_is_opened_after_the_command_line() {
    Recipe {
        client: r#"
logged() { rm -f log; echo "== $*"; ssh "$@" 2>&1 </dev/null; echo $?; [ ! -e log ] || { echo '-- log'; cat log; }; }
echo 'Nonsense 1' >wrong
for mistake in '-o Port=abc' '-p abc' '-o Nonsense=1' '-c none-such' '-L none' '-O none' '-F none-such'; do
    logged -E log $mistake server true
done
logged -E log -F wrong server true
logged -E log -p 9 server true
logged -E none/log server true
logged -E none/log -o Port=abc server true
logged -E none/log -E log -p 9 server true
logged -E log -f server
"#,
        sees: &["-- log\nssh: connect to host server port 9: Connection refused\n"],
        ends: Ends::Client,
        ..RECIPE
    }
    .run();
}

/// A log of `-E` may name hosts, users and keys: only its owner can read it, where it is new.
///
/// Covers: ssh -E
#[test]
fn new_log_files_are_private() {
    Recipe {
        client: r#"
umask 022
touch old
for log in new old; do
    ssh -v -E $log bob@server true; echo $?
    grep -c ^Authenticated $log
    stat -c %a $log
done
"#,
        ends: Ends::Client,
        sees: &["0\n1\n600\n0\n1\n644\n"],
        ..RECIPE
    }
    .run();
}
