//! Recipes for starting the client: in the background, through helpers, through chains of hosts, with
//! commands in the configuration.

use lh_interop::recipe::{Ends, RECIPE, Recipe};

/// `ssh -f` in scripts: with a command, with forwards that fail or not, with the configuration's word.
///
/// Covers: ssh -f; ssh_config ForkAfterAuthentication
#[test]
fn background_sessions_of_scripts() {
    Recipe {
        config: r#"
Host bg
  HostName server
  User bob
  ForkAfterAuthentication yes
  StdinNull yes
Host *
  User bob
"#,
        client: r#"
ssh-keygen -q -t ed25519 -N '' -f other
ssh -f server 'echo said; sleep 0.5; touch done1' >said; echo $?
ssh -f -L 7300:localhost:22 server sleep 600
l=$(pgrep -u me -f 7300:localhost)
ssh -p 7300 -o HostKeyAlias=server localhost id -un; echo $?
ssh -f server; echo $?
ssh -f -N -o ExitOnForwardFailure=yes -L 7300:x:1 server; echo $?
ssh -f -N -o ExitOnForwardFailure=yes -R 22:x:1 server; echo $?
kill $l
ssh -f nosuch.invalid true 2>/dev/null; echo $?
ssh -f -o BatchMode=yes -o IdentityFile=other -o IdentitiesOnly=yes server true; echo $?
ssh bg 'cat; echo in background' <boot 2>/dev/null
echo words >boot
ssh bg 'cat; touch done2' <boot; echo $?
while ssh server ! test -e done1 -a -e done2; do sleep 0.2; done
eventually test -s said
cat said
ssh -fN server; echo $?
pkill -u me -f fN
timeout 20 ssh -f server 'echo out; echo err >&2; exec >&- 2>&-; sleep 1' 2>&1 | sort
"#,
        sees: &["said\n", "Cannot fork into background without a command to execute."],
        ..RECIPE
    }
    .run();
}

/// A proxy command that hands over a connected socket, one that goes on to copy, and one that fails.
///
/// A command that ends at once is noticed by either client while it writes its banner or while it reads the
/// peer's: the words differ, and which it is depends on who was faster.
///
/// Covers: ssh_config ProxyUseFdpass; ssh_config ProxyCommand
#[test]
fn proxy_commands_that_pass_a_descriptor() {
    Recipe {
        tools: &["nc", "python3"],
        config: r#"
Host fd
  HostName server
  ProxyUseFdpass yes
  ProxyCommand nc -F %h %p
Host py
  HostName inner
  ProxyUseFdpass yes
  ProxyCommand /usr/bin/python3 pass.py %h %p
Host copy
  HostName server
  ProxyCommand nc %h %p
Host none
  HostName server
  ProxyUseFdpass yes
  ProxyCommand true
Host dead
  HostName server
  ProxyUseFdpass yes
  ProxyCommand nc -F %h 9
Host *
  User bob
"#,
        client: r#"
printf 'import socket, sys\ns = socket.create_connection((sys.argv[1], int(sys.argv[2])))\nsocket.send_fds(socket.socket(fileno=1), [b"\\0"], [s.fileno()])\n' >pass.py
head -c 400000 /dev/urandom >f
for h in fd py copy; do
    ssh $h 'id -un; cat' <<<in; echo $?
    scp -q f $h:; echo $?
    scp -q $h:f g
    cmp f g; echo $?
    sftp -q -b - $h <<<'ls -1'
done
for h in none dead; do
    timeout 30 ssh $h true 2>&1 | sed 's/UNKNOWN port 65535/server/'; echo ${PIPESTATUS[0]}
done
timeout 20 ssh -o ProxyCommand='exit 3' copy true 2>&1 |
    sed -e '/^kex_exchange_identification: /d' -e 's/^\(banner exchange: Connection to\|Connection closed by\) UNKNOWN .*/no peer/'
echo ${PIPESTATUS[0]}
timeout 20 ssh -o ProxyCommand=/no/such copy true 2>/dev/null; echo $?
"#,
        sees: &["bob\nin\n0\n0\n0\n", "proxy dialer did not pass back a connection\n255\n"],
        differs: &[("", "mm_receive_fd: recvmsg: expected received 1 got 0\n", "a function's name says nothing to users")],
        ends: Ends::Client,
        ..RECIPE
    }
    .run();
}

/// Chains of `-W` by hand, by tokens and by `-J`, for sessions, copies and plain sockets.
///
/// Covers: ssh -W; ssh -J; token %h; token %p; token %r
#[test]
fn stdio_forwards_in_chains() {
    Recipe {
        config: r#"
Host one
  HostName bastion
Host two
  HostName inner
  ProxyCommand ssh -W %h:%p one
Host three
  HostName server
  ProxyCommand ssh -W [%h]:%p %r@two
Host four
  HostName ::1
  ProxyCommand ssh -W '[%h]:%p' three
Host *
  User bob
"#,
        tools: &["python3"],
        setup: r#"
cat >/srv/echo.py <<'E'
import socketserver
class H(socketserver.StreamRequestHandler):
    def handle(self):
        n = len(self.rfile.read())
        self.wfile.write(b'%d bytes\n' % n)
socketserver.ThreadingTCPServer(('127.0.0.1', 7400), H).serve_forever()
E
(setsid python3 /srv/echo.py >/dev/null 2>&1 &)
listening 7400
"#,
        client: r#"
head -c 300000 /dev/urandom >f
for h in two three four; do ssh $h 'id -un; cat; exit 3' <<<$h; echo $?; done
scp -q f four:
scp -q four:f g
cmp f g; echo $?
ssh -J one,two,three bob@server 'cat | wc -c' <f; echo $?
for h in one four; do ssh -W localhost:7400 $h <f; echo $?; done
ssh -W localhost:9 three; echo $?
ssh -W localhost:7400 -W localhost:22 one </dev/null; echo $?
ssh -W nonsense one; echo $?
ssh -W localhost:7400 one id; echo $?
ssh -J one,nosuch.invalid server 2>&1 | grep -c '^ssh: .*nosuch.invalid\|nosuch.invalid.*closed'
ssh -J none server id -un
ssh -J one -o ProxyCommand=none server id -un; echo $?
ssh -N -W localhost:7400 one <f; echo $?
"#,
        sees: &["bob\ntwo\n3\nbob\nthree\n3\nbob\nfour\n3\n0\n300000\n0\n300000 bytes\n0\n300000 bytes\n0\n"],
        ..RECIPE
    }
    .run();
}

/// Hosts whose alias means a command at a terminal: `RemoteCommand` with `RequestTTY`, and what tools do with
/// them.
///
/// Covers: ssh_config RemoteCommand; ssh_config RequestTTY; ssh_config StdinNull; ssh_config SessionType
#[test]
fn aliases_that_run_a_command_at_a_terminal() {
    Recipe {
        tools: &["rsync", "git"],
        config: r#"
Host menu
  HostName server
  RequestTTY force
  RemoteCommand test -t 0 && echo "%n for %r on %h: $TERM"; exit 4
Host plain
  HostName server
  RemoteCommand cat
Host quiet
  HostName server
  StdinNull yes
  RemoteCommand cat; echo end
Host nothing
  HostName server
  SessionType none
Host sub
  HostName server
  SessionType subsystem
  RemoteCommand hello there
Host *
  User bob
"#,
        server: "Subsystem hello echo hello",
        client: r#"
ssh menu 2>&1 | tr -d '\r' | grep -v '^Connection'; echo ${PIPESTATUS[0]}
ssh menu id; echo $?
ssh -T menu 2>/dev/null; echo $?
ssh plain <<<words; echo $?
ssh quiet <<<words; echo $?
ssh -o RemoteCommand=none plain id -un; echo $?
timeout 2 ssh nothing; echo $?
ssh -o SessionType=subsystem -o RemoteCommand=none server hello; echo $?
ssh sub 2>/dev/null; echo $?
echo w >f
scp -q f menu:; echo $?
scp -Oq f plain:g; echo $?
sftp -q -b - menu <<<'ls -1'; echo $?
rsync f plain:h 2>/dev/null && echo copied
GIT_SSH_COMMAND='ssh -o RemoteCommand=none' git ls-remote plain:none 2>&1 | head -1
ssh -G menu | grep '^remotecommand\|^requesttty'
"#,
        differs: &[
            ("sftp> ls -1\nf\ng\n0\n", "255\n", "sftp's command stands above the alias's, as scp's does"),
            ("", "Connection closed\n", "the same"),
        ],
        sees: &["menu for bob on server: xterm\n4\n", "Cannot execute command-line and remote command."],
        ..RECIPE
    }
    .run();
}
