//! Recipes for streams and surroundings that callers give their `ssh`: halves that close, descriptors that
//! are shared, closed or full, environments of schedulers, programs without a `#!` line.

use lh_interop::recipe::{Ends, RECIPE, Recipe};

/// A stream of requests over standard input and output, as `docker -H ssh://` has it: either end closes its
/// half first, while the other one still sends.
#[test]
fn streams_whose_halves_close_one_by_one() {
    Recipe {
        tools: &["python3"],
        setup: r#"
cat >/usr/local/bin/dial-stdio <<'E'
#!/usr/bin/python3
import os, sys, hashlib
how = sys.argv[1]
if how == 'echo':
    while data := os.read(0, 65536): os.write(1, data)
elif how == 'late':
    seen = hashlib.md5()
    while data := os.read(0, 65536): seen.update(data)
    sys.stdout.write(seen.hexdigest() + '\n' + 'x' * 3000000)
elif how == 'first':
    os.write(1, b'answer'); os.close(1)
    seen = 0
    while data := os.read(0, 65536): seen += len(data)
    os.write(2, b'got %d\n' % seen)
    os._exit(5)
elif how == 'deaf':
    os.close(0); sys.stdout.write('y' * 3000000)
sys.stdout.flush(); os._exit(5)
E
chmod 755 /usr/local/bin/dial-stdio
"#,
        client: r#"
cat >dial.py <<'E'
import os, socket, subprocess, sys, threading
def start(how, pair):
    words = ['ssh', '-o', 'BatchMode=yes', 'bob@server', 'dial-stdio', how]
    if not pair:
        p = subprocess.Popen(words, stdin=subprocess.PIPE, stdout=subprocess.PIPE)
        return p, p.stdin.fileno(), p.stdout.fileno(), p.stdin.close
    ours, theirs = socket.socketpair()
    p = subprocess.Popen(words, stdin=theirs, stdout=theirs); theirs.close(); p.ours = ours
    return p, ours.fileno(), ours.fileno(), lambda: ours.shutdown(socket.SHUT_WR)
def read(fd):
    got = b''
    try:
        while data := os.read(fd, 65536): got += data
    except ConnectionError: got += b'reset'
    return got
for pair in False, True:
    for how in 'echo', 'late', 'first', 'deaf':
        p, to, back, half = start(how, pair)
        data, got = bytes(range(256)) * 8000, []
        if how == 'first': got.append(os.read(back, 100))
        reader = threading.Thread(target=lambda: got.append(read(back))); reader.start()
        try:
            view = memoryview(data)
            while view: view = view[os.write(to, view):]
        except (BrokenPipeError, ConnectionError):
            if how != 'deaf': print('broken')
        try: half()
        except OSError: pass
        status = p.wait(60)
        reader.join(20)
        got = b''.join(got)
        print(pair, how, status, len(got), got == data, got[:32] if how in ('late', 'first') else '', flush=True)
E
timeout 100 /usr/bin/python3 dial.py 2>&1; echo $?
"#,
        sees: &["False echo 5 2048000 True", "False first 5 6 False b'answer'", "got 2048000\n"],
        ..RECIPE
    }
    .run();
}

/// Descriptors that a caller shares with its `ssh`: whether they come back blocking, and with how much
/// unread.
#[test]
fn descriptors_shared_with_the_caller() {
    Recipe {
        tools: &["python3"],
        client: r#"
cat >flags.py <<'E'
import fcntl, os, pty, socket, subprocess
def flags(fds): return ' '.join('nonblocking' if fcntl.fcntl(fd, fcntl.F_GETFL) & os.O_NONBLOCK else 'blocking' for fd in fds)
def kinds():
    master, slave = pty.openpty(); yield 'terminal', slave, slave, slave, (master,)
    a, b = os.pipe(); c, d = os.pipe(); e, f = os.pipe(); yield 'pipes', a, d, f, (b, c, e)
    x, y = socket.socketpair(); yield 'socket', x.fileno(), x.fileno(), x.fileno(), (y.fileno(), x, y)
    m = open('file', 'w+b'); yield 'file', m.fileno(), m.fileno(), m.fileno(), (m,)
for set_first in False, True:
    for how in (['-tt', 'true'], ['-n', 'true'], ['-T', 'sleep 60']) if not set_first else (['-T', 'true'], ['-T', 'sleep 60']):
        for name, i, o, e, keep in kinds():
            for fd in {i, o, e}: os.set_blocking(fd, not set_first)
            p = subprocess.Popen(['ssh', how[0], '-o', 'BatchMode=yes', 'bob@server', how[1]], stdin=i, stdout=o, stderr=e, start_new_session=True)
            if how[1] != 'true':
                os.system('eventually pgrep -u bob -x sleep')
                p.terminate()
            status = p.wait(30)
            if how[1] != 'true': os.system('ssh bob@server pkill -x sleep')
            print(set_first, *how, name, status, flags((i, o, e)), flush=True)
            if name == 'pipes':
                for fd in (i, o, e) + keep: os.close(fd)
E
timeout 100 /usr/bin/python3 flags.py; echo $?
"#,
        ends: Ends::Client,
        sees: &["False -n true terminal 0 blocking blocking blocking\n"],
        ..RECIPE
    }
    .run();
}

/// Loops over lists of hosts, whose lines an `ssh` inside may eat.
///
/// Covers: ssh -n; ssh -f
#[test]
fn loops_over_lists_of_hosts() {
    Recipe {
        client: r#"
printf 'first\nsecond\nthird\n' >lines
{ ssh bob@server true; cat; } <lines; echo "= $?"
{ ssh -n bob@server true; cat; } <lines; echo "= $?"
{ ssh bob@server 'read x; echo "took $x"'; cat; } <lines; echo "= $?"
printf 'server\ninner\nbastion\n' >hosts
while read h; do ssh bob@$h 'echo one'; done <hosts; echo "= $?"
while read h; do ssh -n bob@$h 'cat; echo two'; done <hosts; echo "= $?"
while read h; do ssh bob@$h 'cat; echo three' </dev/null; done <hosts; echo "= $?"
while read h; do ssh -f bob@$h "sleep 0.2; touch here-$h"; done <hosts; echo "= $?"
for h in server inner bastion; do eventually ssh bob@server test -e here-$h; done
while read -u 9 h; do ssh bob@$h 'cat' <<<"$h"; done 9<hosts
xargs -I{} ssh bob@{} 'echo four; cat' <hosts; echo "= $?"
xargs -P3 -I{} -a hosts ssh bob@{} 'cat >/dev/null; exit 254' 2>&1 </dev/null | sort; echo "= ${PIPESTATUS[0]}"
xargs -I{} -a hosts ssh bob@{} 'echo five; exit 255' 2>&1; echo "= $?"
find . -name 'h*' -exec ssh bob@server 'cat; echo six' \; <lines
seq 3 | while read n; do ssh bob@server sh <<<"echo seven $n"; done
"#,
        sees: &["= 0\nfirst\nsecond\nthird\n= 0\n"],
        ..RECIPE
    }
    .run();
}

/// Streams that are closed, full or not read, for a moment or for good.
#[test]
fn streams_that_are_closed_full_or_slow() {
    Recipe {
        client: r#"
t() { timeout 20 "$@"; }
t ssh bob@server 'echo out; cat' <&-; echo "= $?"
t ssh bob@server 'echo gone; exit 3' >&-; echo "= $?"
t ssh bob@server 'echo gone >&2; exit 4' 2>&-; echo "= $?"
t ssh bob@server 'cat; exit 5' <&- >&- 2>&-; echo "= $?"
t ssh bob@server 'echo full; exit 6' >/dev/full; echo "= $?"
t ssh bob@server 'echo full >&2; exit 7' 2>/dev/full; echo "= $?"
t ssh bob@server 'seq 1000000; exit 8' | head -1; echo "= ${PIPESTATUS[0]}"
mkfifo slow
# The readers begin when the writer has filled the pipe and all windows.
{ read -r line <&8; sleep 0.5; wc -c; } 8<slow <slow >counted &
t ssh bob@server 'echo begin >&2; head -c 500000 /dev/zero >&2; echo done; exit 10' 2>slow; echo "= $?"
wait
cat counted
{ sleep 0.5; md5sum; } <slow >counted &
t ssh bob@server 'echo quick >&2; head -c 500000 /dev/zero; exit 11' >slow; echo "= $?"
wait
cat counted
t ssh bob@server 'exec >&- 2>&-; sleep 0.3; exit 12'; echo "= $?"
t ssh bob@server 'exec 0<&-; sleep 0.2; echo in; exit 14' </dev/zero; echo "= $?"
yes | t ssh bob@server 'head -c 10 | wc -c; exit 15'; echo "= ${PIPESTATUS[*]}"
echo w >f
t scp -q f bob@server:g <&- >&- 2>&-; echo "= $?"
t sftp -q -b - bob@server <&- 2>&1; echo "= $?"
t sftp -q bob@server:g back >&- 2>&-; echo "= $?"
"#,
        sees: &["out\n= 0\n= 3\n= 4\n= 5\n"],
        ends: Ends::Client,
        ..RECIPE
    }
    .run();
}

/// Without a terminal, a home, a path or a session of one's own, as cron, at, nohup, setsid and service
/// managers start programs.
#[test]
fn environments_of_schedulers() {
    Recipe {
        tools: &["nohup", "setsid", "nc"],
        client: r#"
r() { echo "== $*"; timeout 20 "$@"; echo "= $?"; }
bare() { r env -i "$@"; }
bare /usr/bin/ssh bob@server 'id -un; env | grep -c LANG' </dev/null
bare PATH=/nowhere /usr/bin/ssh -o ProxyCommand='/usr/bin/nc %h %p' bob@server id -un </dev/null
bare PATH= /usr/bin/ssh -J bob@bastion bob@server id -un </dev/null
bare SHELL=/nowhere /usr/bin/ssh -o ProxyCommand='/usr/bin/nc %h %p' bob@server id -un </dev/null
bare SHELL=/bin/false /usr/bin/ssh -o PermitLocalCommand=yes -o LocalCommand='echo local' bob@server id -un </dev/null
bare SHELL=/nowhere /usr/bin/ssh -o PermitLocalCommand=yes -o LocalCommand='echo local' bob@server id -un </dev/null
bare HOME=relative /usr/bin/ssh bob@server id -un </dev/null
bare TERM= /usr/bin/ssh -tt bob@server 'echo "<$TERM>"' </dev/null 2>/dev/null
bare LC_ALL=nonsense /usr/bin/ssh bob@server 'echo "<$LC_ALL>"' </dev/null
bare /usr/bin/scp -q /etc/hostname bob@server:h </dev/null
bare /usr/bin/sftp -q -b /dev/stdin bob@server <<<'ls -1 h'
bare /usr/bin/ssh-keygen -F server -l </dev/null | sed 's/SHA256.*//'
bare /usr/bin/ssh-keyscan -t ed25519 server 2>/dev/null </dev/null | sed 's/AAAA.*//'
r nohup ssh bob@server 'echo hup; cat' </dev/null 2>&1
r nohup ssh -n bob@server 'trap "" HUP; echo n' 2>&1
r setsid -w ssh bob@server 'echo session' </dev/null
r setsid -w ssh -t bob@server 'tty' </dev/null
(umask 777; r ssh -o UserKnownHostsFile=./made -o StrictHostKeyChecking=accept-new bob@server id -un </dev/null; stat -c %a made)
(ulimit -n 12; r ssh bob@server id -un </dev/null)
(ulimit -f 0; trap '' XFSZ; r ssh bob@server 'echo large' </dev/null | cat)
(ulimit -c 0 -t 5 -s 1024; r ssh bob@server id -un </dev/null)
(exec -a -ssh /usr/bin/ssh bob@server 'echo dash') </dev/null; echo "= $?"
(exec -a '' /usr/bin/ssh bob@server 'echo empty') </dev/null; echo "= $?"
(cd /proc/self; r ssh bob@server id -un </dev/null)
(trap '' PIPE; ssh bob@server 'seq 1000000' 2>/dev/null | head -1; echo "= ${PIPESTATUS[0]}")
(trap '' CHLD TERM INT; r ssh -o ProxyCommand='nc %h %p' bob@server id -un </dev/null)
nice -n 19 ssh bob@server nice </dev/null
"#,
        sees: &["== nohup ssh bob@server echo hup; cat\n"],
        differs: &[(
            "",
            "kex_exchange_identification: Connection closed by remote host\nConnection closed by UNKNOWN port 65535\n",
            "the shell's line says what is wrong",
        )],
        ends: Ends::Client,
        ..RECIPE
    }
    .run();
}

/// Programs without a `#!` line: some callers have a shell run them, others refuse them. And commands of
/// `Match exec` that a signal ends.
///
/// Covers: ssh_config KnownHostsCommand; sshd_config AuthorizedKeysCommand; ssh_config Match (exec that is killed)
#[test]
fn programs_without_an_interpreter() {
    Recipe {
        server: "PasswordAuthentication yes\nMatch User eve\n  AuthorizedKeysCommand /opt/plain/keys\n  AuthorizedKeysCommandUser root\n  AuthorizedKeysFile none\n",
        setup: r#"
mkdir /opt/plain
echo 'grep ^server /home/me/.ssh/known_hosts' >/opt/plain/known
echo 'cat /home/bob/.ssh/authorized_keys' >/opt/plain/keys
echo 'echo correct horse battery' >/opt/plain/ask
echo 'exec ssh "$@"' >/opt/plain/ssh
echo 'echo "shell $*"' >/opt/plain/shell
chmod 755 /opt/plain/*
account eve 2610
account plain 2611 /home/plain /opt/plain/shell
touch /home/plain/.hushlogin
cp /opt/plain/shell /opt/plain/closed
chmod 644 /opt/plain/closed
account closed 2613 /home/closed /opt/plain/closed
"#,
        client: r#"
r() { echo "== $*"; timeout 20 "$@" </dev/null 2>&1; echo "= $?"; }
r ssh -o KnownHostsCommand=/opt/plain/known -o UserKnownHostsFile=none bob@server id -un
r ssh -o BatchMode=yes eve@server id -un 2>&1
export SSH_ASKPASS=/opt/plain/ask SSH_ASKPASS_REQUIRE=force
r ssh -o PubkeyAuthentication=no eve@server id -un
unset SSH_ASKPASS SSH_ASKPASS_REQUIRE
echo w >f
r scp -q -S /opt/plain/ssh f bob@server:g
r sftp -q -S /opt/plain/ssh bob@server:g back
r ssh -o ProxyCommand='/opt/plain/ssh -W %h:%p bob@bastion' bob@server id -un
r ssh -o PermitLocalCommand=yes -o LocalCommand='/opt/plain/shell l' bob@server id -un
r ssh-agent /opt/plain/shell a
r ssh bob@server '/opt/plain/shell r'
for u in plain closed; do
    r ssh $u@server id -un
    r ssh -T $u@server
done
for c in 'kill -9 $$' 'kill $$' 'exit 3' 'nosuchprogram' '/opt/plain/shell' '/etc'; do
    printf 'Match host server exec "%s"\n  User bob\nHost *\n  User nosuch\n' "$c" >conf
    r ssh -F conf -o BatchMode=yes server id -un
    SHELL=/nowhere r ssh -F conf -G server
    SHELL=/etc r ssh -F conf -G server
done
"#,
        look: "grep -o 'AuthorizedKeysCommand.*' /var/log/sshd.log | sort -u",
        sees: &[
            "KnownHostsCommand-ORDER execv \"/opt/plain/known\": Exec format error",
            "command 'kill -9 $$' exited abnormally\nconf line 1: match exec 'kill -9 $$' error\n= 255\n",
        ],
        differs: &[
            ("", "Permission denied, please try again.\n", "OpenSSH sends empty passwords where it can ask no one"),
            (
                "AuthorizedKeysCommand /opt/plain/keys: Exec format error",
                "AuthorizedKeysCommand /opt/plain/keys eve failed, status 127",
                "our server's log says why",
            ),
        ],
        pam: true,
        ..RECIPE
    }
    .run();
}

/// Programs that open their standard streams by name (`bash /dev/stdin`), which a socket refuses, and fish,
/// which takes a socket for a directory.
#[test]
fn streams_opened_by_their_names() {
    Recipe {
        tools: &["fish"],
        setup: r#"
for n in 0:stdin 1:stdout 2:stderr; do ln -s /proc/self/fd/${n%:*} /dev/${n#*:}; done
account fin 2612 /home/fin /usr/bin/fish
touch /home/fin/.hushlogin
"#,
        client: r#"
ssh bob@server 'cat /dev/stdin' <<<a; echo $?
ssh bob@server 'bash /dev/stdin x y' <<<'echo $*; exit 3'; echo $?
ssh bob@server 'cp /dev/stdin f && wc -c <f; wc -c </dev/stdin' <.ssh/known_hosts; echo $?
ssh bob@server 'tar cf /dev/stdout .ssh/authorized_keys; echo done >/dev/stderr' | tar tf -; echo ${PIPESTATUS[@]}
ssh bob@server 'stat -Lc "%F %a" /dev/stdin /dev/stdout /dev/stderr'
ssh -T fin@server <<<'echo from fish; exit 4'; echo $?
head -c 3000000 /dev/zero | ssh bob@server 'sleep 0.2; head -c 2 | wc -c; exec <&-; echo closed'; echo $?
yes | head -c 9000000 | ssh bob@server cat | cmp - <(yes | head -c 9000000); echo $?
"#,
        sees: &["x y\n3\n", "from fish\n4\n", "fifo 600\nfifo 600\nfifo 600\n"],
        ends: Ends::Server,
        ..RECIPE
    }
    .run();
}
