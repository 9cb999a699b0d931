//! Recipes for command lines of the clients: faulty keys, agents, scripts, shared connections, time-outs.

use lh_interop::recipe::{Ends, RECIPE, Recipe};

/// Private keys as people leave them: readable by others, encrypted, without or with another `.pub`, not a
/// key, a directory.
///
/// Covers: ssh -i; ssh_config IdentityFile; ssh_config BatchMode
#[test]
fn identity_files_with_mistakes() {
    Recipe {
        config: "Host *\n  User bob\n  IdentitiesOnly yes\n  BatchMode yes\n",
        client: r#"
k=.ssh/id_ed25519
cp $k open
chmod 644 open
cp $k alone
chmod 600 alone
cp $k other
ssh-keygen -q -t ed25519 -N '' -f fresh
cp fresh.pub other.pub
cp $k locked
ssh-keygen -q -p -N secret -f locked
mkdir dir
: >empty
echo words >text
cp $k.pub public.pub
tr -d '\n' <$k >oneline
sed 's/$/\r/' $k >dos
head -3 $k >cut
chmod 600 *
mv $k away
rm $k.pub
chmod 644 open public.pub
chmod 755 dir
cp alone unreadable
chmod 0 unreadable
for f in open alone other locked empty text oneline dos cut missing dir dir/none text/none public.pub fresh.pub unreadable /dev/null; do
    echo "== $f"
    ssh -i $f server id -un 2>&1; echo $?
done
for f in dir cut public.pub; do
    ssh -v -i $f server id -un 2>&1 |
        grep -e 'identity file' -e 'Will attempt' -e 'Trying private' -e Offering -e 'Load key' |
        sed 's,SHA256:.*,FP,'
done
scp -o PreferredAuthentications=publickey -i dir server:x y 2>&1
printf '#!/bin/sh\necho secret\n' >ask
chmod 700 ask
SSH_ASKPASS=./ask SSH_ASKPASS_REQUIRE=force ssh -o BatchMode=no -i locked server id -un; echo $?
printf '#!/bin/sh\necho wrong\n' >ask
SSH_ASKPASS=./ask SSH_ASKPASS_REQUIRE=force ssh -o BatchMode=no -o PreferredAuthentications=publickey -i locked server id -un
echo $?
eval $(ssh-agent) >/dev/null
ssh-add -q alone
ssh -i public.pub server id -un; echo $?
ssh-agent -k >/dev/null
"#,
        sees: &["WARNING: UNPROTECTED PRIVATE KEY FILE!", "== alone\nbob\n0\n"],
        differs: &[
            ("== other\nbob\n0\n", "== other\nbob@server: Permission denied (publickey,password).\n255\n", "the private key alone counts"),
            ("== dos\nbob\n0\n", "== dos\nLoad key \"dos\": error in libcrypto\nbob@server: Permission denied (publickey,password).\n255\n", "line ends of other systems are read"),
            ("invalid format", "error in libcrypto", "a library's name says nothing to users"),
        ],
        ends: Ends::Client,
        ..RECIPE
    }
    .run();
}

/// An agent through a day: keys that expire, that are confirmed by a program, the lock, lists and removals.
///
/// Covers: ssh-add -t; ssh-add -c; ssh-add -x; ssh-add -T; ssh-add -d
#[test]
fn agents_with_lifetimes_confirmation_and_lock() {
    Recipe {
        config: "Host *\n  User bob\n  IdentityFile none\n",
        client: r#"
ssh-add -l; echo $?
SSH_AUTH_SOCK=/gone ssh-add -l; echo $?
printf '#!/bin/sh\necho "$1" | head -1 >>asked\ncase "$1" in Allow*) exit $(cat verdict);; *) echo pass;; esac\n' >ask
chmod 700 ask
export SSH_ASKPASS=$HOME/ask SSH_ASKPASS_REQUIRE=force
eval $(ssh-agent) >/dev/null
ssh-add -l; echo $?
mkdir keys
cp .ssh/id_ed25519* keys
ssh-add; echo $?
ssh-add -l | cut -d' ' -f1,3-
ssh-add -d .ssh/id_ed25519; echo $?
ssh-add -d .ssh/id_ed25519; echo $?
ssh-add -c keys/id_ed25519
echo 0 >verdict
ssh server id -un; echo $?
echo 1 >verdict
ssh -o BatchMode=yes server id -un; echo $?
sed 's/SHA256.*/FP/' asked
ssh-add -D
ssh-add -t 600 keys/id_ed25519
ssh server id -un
ssh-add -t 2 keys/id_ed25519
eventually ! ssh-add -l
ssh-add -l; echo $?
ssh-add -q keys/id_ed25519
ssh-add -x </dev/null; echo $?
ssh-add -l; echo $?
ssh -o BatchMode=yes server id -un; echo $?
ssh-add -X; echo $?
ssh server id -un
ssh-add -T keys/id_ed25519.pub; echo $?
ssh-add -L | cut -d' ' -f1
ssh-add -l -E md5 | cut -c1-8
ssh-add nosuch; echo $?
ssh-add -d nosuch; echo $?
echo words >keys/text
chmod 600 keys/text
ssh-add keys/text; echo $?
chmod 644 keys/id_ed25519
ssh-add keys/id_ed25519; echo $?
ssh-add -t 1x keys/id_ed25519; echo $?
eval $(ssh-agent -k) >/dev/null
ssh-agent -k; echo $?
"#,
        sees: &["bob\n0\n"],
        differs: &[("invalid format", "error in libcrypto", "a library's name says nothing to users")],
        ends: Ends::Client,
        ..RECIPE
    }
    .run();
}

/// Scripts handed to a shell: on standard input, as here-documents, at a terminal, with options behind the
/// host.
///
/// Covers: ssh -t; ssh -n; ssh -E; ssh -q
#[test]
fn scripts_and_options_in_every_order() {
    Recipe {
        config: "Host *\n  User bob\n",
        client: r#"
printf 'x=1\necho $x $0 $#\nread y\nwords for y\necho "got $y"\nexit 6\n' >script
ssh server <script; echo $?
ssh server bash -s -- a 'b c' <script; echo $?
ssh server 'bash -s' <<'A'; echo $?
for i in 1 2; do echo $i; done
false
A
ssh server cat <<A | tr a-z A-Z
from $USER
A
ssh -tt server <<'A' 2>/dev/null | tr -d '\r' | grep -c 'marker 3'
expr=3; echo marker $expr
exit
A
ssh server -p 22 -v id -un 2>/dev/null
ssh -p 22 server -l me id -un 2>/dev/null; echo $?
ssh server -- -x; echo $?
ssh -- server id -un
ssh server -n cat; echo $?
for h in server inner; do echo $h; done | while read h; do ssh -n $h 'cat; id -un'; done
for h in server inner; do echo $h; done | while read h; do ssh $h 'cat; id -un'; done
ssh -E log nosuch.invalid; echo $?
cat log
ssh -q nosuch.invalid; echo $?
ssh -o LogLevel=QUIET -p 9 server; echo $?
ssh -qq -p 9 server
ssh server ''; echo $?
ssh server ' '; echo $?
ssh server exit 300; echo $?
ssh server 'exec >&-; exec 2>&-; exit 2'; echo $?
ssh server "printf 'a\0b' | od -c | head -1"
ssh server "$(printf 'echo one\necho two')"
ssh server echo '$HOME' \; pwd
ssh server "echo '*' *"
ssh server 'trap "echo trapped" EXIT; exit 7'; echo $?
"#,
        sees: &["6\n"],
        ends: Ends::Each,
        ..RECIPE
    }
    .run();
}

/// A shared connection told what to do, a stale socket in its place, one that is not a socket, and paths that
/// are too long.
///
/// Covers: ssh -O; ssh -S; ssh_config ControlPath; token %C
#[test]
fn shared_connections_told_what_to_do() {
    Recipe {
        tools: &["python3"],
        config: "Host *\n  User bob\n  ControlPath ~/.ssh/c-%C\n",
        client: r#"
ssh -O check server 2>&1 | sed 's/c-[0-9a-f]*/C/'
ssh -O exit server 2>/dev/null; echo $?
ssh -MNf server; echo $?
ssh -O check server 2>&1 | sed 's/=[0-9]*/=P/'
ssh -O forward -L 7300:localhost:22 server; echo $?
ssh -p 7300 -S none -o HostKeyAlias=server localhost id -un
ssh -O forward -L 7300:localhost:22 server; echo $?
ssh -O forward -R 0:localhost:22 server | wc -l
ssh -O cancel -L 7300:localhost:22 server; echo $?
ssh -O cancel -L 7300:localhost:22 server; echo $?
ssh -p 7300 -S none localhost true; echo $?
ssh -O forward -D 7301 server; echo $?
ssh -O cancel -D 7301 server; echo $?
ssh -O forward server; echo $?
ssh -O nonsense server 2>&1 | head -1
ssh server 'touch /tmp/on; eventually test -e /tmp/off; echo late; exit 4' &
late=$!
eventually test -e /tmp/on
ssh -O stop server 2>&1
ssh -S none server touch /tmp/off
wait $late; echo $?
eventually ! sh -c 'ls .ssh/c-*'
ssh -O check server 2>/dev/null; echo $?
python3 -c 'import socket; s = socket.socket(socket.AF_UNIX); s.bind("stale")'
ssh -S stale server id -un; echo $?
ssh -M -S stale -o ControlPersist=no server id -un; echo $?
: >file
ssh -S file server id -un; echo $?
ssh -M -S file server id -un; echo $?
echo == nodir
ssh -M -S nodir/c server id -un 2>/dev/null; echo $?
l=$(printf 'x%.0s' {1..120})
ssh -M -S $l server id -un 2>/dev/null; echo $?
ssh -S none -M server id -un
ssh -MNf -S m server
ssh -M -S m server id -un; echo $?
ssh -o ControlMaster=auto -S m server id -un
scp -q -o ControlPath=m .ssh/id_ed25519.pub server:k; echo $?
sftp -q -o ControlPath=m -b - server <<<'ls -1'
ssh -S m -O exit server
ls m 2>&1
for level in QUIET FATAL; do
    ssh -MNf -S $level server
    ssh -S $level -o LogLevel=$level -O exit server 2>&1 | tr -d '\r' | sed "s/^/$level: /"
done
"#,
        sees: &["Exit request sent.", "late\n4\n", "FATAL: Exit request sent.\n"],
        ends: Ends::Each,
        ..RECIPE
    }
    .run();
}

/// Servers that say nothing, the wrong thing, or hang up, with time-outs and several attempts. OpenSSH's
/// `sftp` may say `Connection closed.` behind `Connection closed`, when it hears of its child's end in time.
///
/// Covers: ssh_config ConnectTimeout; ssh_config ConnectionAttempts
#[test]
fn servers_that_are_none_and_time_outs() {
    Recipe {
        tools: &["python3"],
        setup: r#"
cat >/srv/odd.py <<'E'
import socketserver, time
SAY = {7401: b'', 7402: b'HTTP/1.0 400 Bad\r\n\r\n', 7404: b'Go away\r\nreally\r\n', 7406: None, 7410: b'SSH-1.5-old\n', 7411: b'SSH-3.0-new\r\n', 7412: b'SSH-2.0\r\n', 7413: b'SSH-x.y-z\r\n', 7414: b'x' * 9000, 7415: bytes(range(256)), 7416: b'\x16\x03\x01\0\n', 7417: b'hello\n' * 1100, 7418: b'SSH-2.0-a\0b\r\n', 7419: b'SSH-\n'}
class H(socketserver.BaseRequestHandler):
    def handle(self):
        say = SAY[self.server.server_address[1]]
        if say is None:
            return
        self.request.sendall(say)
        if say:
            self.request.recv(1000)
        else:
            time.sleep(20)
import threading
for p in SAY:
    s = socketserver.ThreadingTCPServer(('127.0.0.1', p), H)
    threading.Thread(target=s.serve_forever).start()
E
(setsid python3 /srv/odd.py >/dev/null 2>&1 &)
for p in 7401 7402 7404 7406 741{0..9}; do listening $p; done
"#,
        client: r#"
ask() {
    for _ in {1..100}; do
        said=$("$@" 2>&1)
        rc=$?
        case "$rc $said" in 141*|*"lost connection"*) ;; *) break ;; esac
    done
    [ -z "$said" ] || echo "$said"
    echo $rc
}
for p in 7410 7411 7412 7413 7414 7415 7416 7417 7418 7419; do
    echo "== $p"
    timeout 60 ssh -p $p server true 2>&1; echo $?
done
ask scp -P 7410 server:x y
ssh -o ConnectTimeout=1 -p 7401 server true; echo $?
for p in 7402 7404 7406; do
    echo "== $p"
    timeout 60 ssh -p $p server true 2>&1 | sed 's/port [0-9]*$/port N/'; echo ${PIPESTATUS[0]}
done
ssh -o ConnectionAttempts=3 -o ConnectTimeout=2 -p 9 server true; echo $?
ask scp -o ConnectTimeout=1 -P 7401 f server:
echo w >f
ask scp -o ConnectTimeout=1 -P 7401 f server:
ask sftp -o ConnectTimeout=1 -P 7401 server | sed '/Connection closed\./d'
ssh -o ConnectTimeout=1 -J server:7401 inner true 2>&1 | grep -vc '^Killed by signal'
ssh -o ConnectTimeout=0 bob@server id -un; echo $?
ssh -o ConnectTimeout=none bob@server id -un; echo $?
ssh -o ConnectTimeout=-1 bob@server id -un; echo $?
"#,
        sees: &["Connection timed out during banner exchange"],
        ends: Ends::Client,
        ..RECIPE
    }
    .run();
}

/// Files of the client that others may write, and programs in the place of `ssh` for copies.
///
/// Covers: ssh -F; scp -S; sftp -S; sftp -D; scp -F
#[test]
fn configuration_files_of_others_and_wrapped_programs() {
    Recipe {
        tools: &["rsync", "git"],
        config: "Host *\n  User bob\n",
        client: r#"
chmod 666 .ssh/config
ssh server id -un; echo $?
scp .ssh/config server:; echo $?
ssh -F .ssh/config server id -un; echo $?
chmod 600 .ssh/config
ssh -F none bob@server id -un; echo $?
ssh -F nosuch server true; echo $?
ssh -F /dev/null bob@server id -un; echo $?
printf '#!/bin/sh\necho "$#" >>calls\nexec ssh "$@"\n' >wrap
chmod 700 wrap
echo w >f
scp -q -S ./wrap f server:g; echo $?
grep -c . calls
sftp -q -S ./wrap -b - server <<<'get g h'; echo $?
cat h
grep -c . calls
rsync -e ./wrap f server:i; echo $?
GIT_SSH=./wrap git ls-remote server:none 2>&1 | head -1
sftp -q -b - -D /usr/lib/openssh/sftp-server <<<'ls -1 f'; echo $?
cat >alias <<'A'
Host far
  HostName server
  User bob
A
scp -q -F alias f far:j; echo $?
sftp -q -F alias far:j k; echo $?
cat k
scp -q -o User=bob -o HostName=server -F none f other:l; echo $?
scp -q -l 8000 -c aes128-ctr -i .ssh/id_ed25519 -C f server:m; echo $?
ssh server 'cat g i j l m'
"#,
        sees: &["Bad owner or permissions on /home/me/.ssh/config"],
        ends: Ends::Client,
        ..RECIPE
    }
    .run();
}

/// Copies between two servers and of trees with names that shells, globs and old protocols stumble over.
///
/// Covers: scp -3; scp -r; scp -O
#[test]
fn trees_with_odd_names_between_servers() {
    Recipe {
        config: "Host *\n  User bob\n",
        client: r#"
mkdir -p t/{-dash,'two words','[x]','st*r',ünï,'quo"te'\''s','back\slash'} t/$'new\nline' t/empty
for d in t/*; do echo "$d" >"$d/ f?"; done
: >t/.hidden
mkdir -- -r
echo d >./-r/-f
rm -r t/empty/*
sum() { find . -printf '%y %P\n' | LC_ALL=C sort | md5sum; }
s=$(cd t; sum)
for o in '' -O; do
    echo "== $o"
    scp -q $o -r t server:up$o; echo $?
    [ "$(ssh server "$(declare -f sum); cd up$o; sum")" = "$s" ]; echo $?
    scp -q $o -r server:up$o down$o; echo $?
    [ "$(cd down$o; sum)" = "$s" ]; echo $?
    scp -q -3 $o -r server:up$o inner:three$o; echo $?
    [ "$(ssh server "$(declare -f sum); cd three$o; sum")" = "$s" ]; echo $?
    scp -q $o -r -- -r server:dash$o; echo $?
    scp -q $o -r ./-r server:dash2$o; echo $?
    scp -q $o 'server:up'$o'/st\*r/*' .; echo $?
    rm -f ' f?'
    scp -q $o "server:up$o/[[]x]/*" .; echo $?
    cat ' f?'
    rm -f ' f?'
    scp -q $o "server:up$o/two words/ f?" .; echo $?
    rm -f ' f?'
    scp $o server:nosuch .; echo $?
    scp $o 'server:no*' .; echo $?
    scp $o -r server:up$o/.hidden server:dash$o/-f .; echo $?
    ls -A .hidden ./-f
    scp $o t server:; echo $?
done 2>&1
scp a:b server:; echo $?
echo c >a:b
scp -q ./a:b server:; echo $?
scp -q -3 server:a:b inner:c; echo $?
ssh server 'cat a:b c; ls'
"#,
        sees: &["== -O\n"],
        differs: &[(
            "== -O\n0\n",
            "== -O\nt/new\\^Jline: No such file or directory\n1\n",
            "its old protocol looks for the name that it shows",
        )],
        ends: Ends::Each,
        ..RECIPE
    }
    .run();
}
