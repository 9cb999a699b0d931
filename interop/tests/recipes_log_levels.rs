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
# The first ones close the connection; the others wait for the client to do so.
READS = {7501: 0, 7502: 0, 7503: 1}
def serve(listener, port):
    while True:
        client = listener.accept()[0]
        try:
            # What the client sends is read before the end: it would see a reset otherwise.
            client.recv(1000)
            client.sendall(SAY[port])
            left = READS.get(port, 100)
            while left > 0 and client.recv(10000):
                left -= 1
        except OSError:
            pass
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
    shown "$@" -o UserKnownHostsFile=wrong server true | sed 's/SHA256:[^ ]*/SHA256:X/'
    shown "$@" -o UserKnownHostsFile=empty -o StrictHostKeyChecking=yes server true
    shown "$@" -o UserKnownHostsFile=empty -o BatchMode=yes server true
    shown "$@" -o ProxyCommand=false server true
    shown "$@" -o PubkeyAuthentication=no -o BatchMode=yes bob@server true
    shown "$@" none.invalid true
    shown "$@" bob@server 'kill -9 $PPID; sleep 1'
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
shown() { echo "== $*"; timeout 60 "$@" 2>&1 </dev/null | sed '/Connection closed\./d'; echo ${PIPESTATUS[0]}; }
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
        ends: Ends::Client,
        ..RECIPE
    }
    .run();
}
