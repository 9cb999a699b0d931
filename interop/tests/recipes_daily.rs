//! Recipes for daily work: unusual login shells, pipes, copies with every form of arguments, and programs
//! (such as container engines) that run commands on the server.

use lh_interop::recipe::{Ends, RECIPE, Recipe};

/// Accounts whose shells are not bash: words of commands, exit statuses, copies.
#[test]
fn login_shells_of_other_kinds() {
    Recipe {
        tools: &["zsh", "fish", "dash", "rsync"],
        setup: r#"
n=0
for s in zsh fish dash rbash; do n=$((n+1)); account u$s 280$n /home/u$s $(command -v $s); done
echo 'umask 027' >/home/udash/.profile
echo 'export IN_ZSH=yes' >/home/uzsh/.zshenv
"#,
        client: r#"
echo words >'a file'
for s in zsh fish dash rbash; do
    echo "== $s"
    ssh u$s@server 'echo "$HOME" a\ b "c  d"; exit 3'; echo $?
    ssh u$s@server 'kill -9 $$' 2>&1; echo $?
    ssh u$s@server 'cat; pwd' <<<in
    scp -q 'a file' u$s@server:; echo $?
    rsync 'a file' u$s@server:g; echo $?
    scp -O -q 'a file' u$s@server:'old name'; echo $?
    sftp -q -b - u$s@server <<<'ls -1'
    ssh -tt u$s@server 'tty >/dev/null && echo tty' </dev/null | tr -d '\r'
done
ssh uzsh@server 'echo $IN_ZSH'
"#,
        sees: &["== fish\n", "/home/uzsh a b c  d\n3\n", "yes\n"],
        ..RECIPE
    }
    .run();
}

/// A start-up file that prints breaks protocols on standard output; what users are told.
#[test]
fn start_files_that_print() {
    Recipe {
        tools: &["rsync"],
        setup: r#"
account noisy 2810
account quiet 2811
printf 'echo Welcome to noisy\n' >/home/noisy/.bashrc
printf 'echo to stderr >&2\n' >/home/quiet/.bashrc
chown noisy: /home/noisy/.bashrc
chown quiet: /home/quiet/.bashrc
"#,
        client: r#"
echo w >f
for u in noisy quiet; do
    echo "== $u"
    ssh $u@server true; echo $?
    scp -q f $u@server: 2>&1; echo $?
    scp -Oq f $u@server:g >/dev/null 2>&1; echo $?
    sftp -q -b - $u@server <<<'ls -1' 2>&1; echo $?
    rsync f $u@server:h 2>&1 | head -1
done
"#,
        sees: &["== noisy\nWelcome to noisy\n0\n", "== quiet\n"],
        // Our server's SFTP needs no shell, so such a file does not disturb it.
        differs: &[
            (
                "scp: The remote side printed text where SFTP was expected; it begins \"Welcome to noisy\"\n",
                "",
                "what was printed, in addition",
            ),
            (
                "The remote side printed text where SFTP was expected; it begins \"Welcome to noisy\"\n",
                "",
                "the same, in sftp",
            ),
        ],
        ends: Ends::Client,
        ..RECIPE
    }
    .run();
}

/// Streams through pipes: archives, early ends at either side, scripts on standard input, loops that share
/// it.
#[test]
fn streams_through_pipes() {
    Recipe {
        config: "Host *\n  User bob\n",
        client: r#"
mkdir -p t/d
head -c 3000000 /dev/urandom >t/d/big
echo w >t/w
ln -s w t/l
tar -C t -cf - . | ssh server 'mkdir t && tar -C t -xf -'
echo ${PIPESTATUS[*]}
ssh server tar -C t -czf - . | tar -tzf - | sort
ssh server cat t/d/big | cmp - t/d/big; echo $?
yes | ssh server head -1; echo ${PIPESTATUS[1]}
dd if=t/d/big bs=64k status=none | ssh server 'dd of=copy bs=64k status=none; wc -c <copy'
ssh server 'bash -s one "two words"' <<<'printf "%s\n" "$@"; exit 7'; echo $?
printf 'a\nb\nc\n' | while read line; do echo "$line $(ssh -n server hostname)"; done
printf 'a\nb\nc\n' | while read line; do echo "$line $(ssh server cat | tr '\n' ,)"; done
ssh server 'cat >&2; echo out' </etc/hostname 2>err
cat err
ssh server 'exec >&-; sleep 0.2; exit 4'; echo $?
ssh server '(sleep 0.3; echo late) & echo now'
ssh server 'nohup sleep 5 >/dev/null 2>&1 </dev/null & echo started'
cat t/d/big | ssh server 'head -c 10 >/dev/null; exit 9'; echo ${PIPESTATUS[1]}
ssh server 'printf "\000\377\r\n"' | od -An -tx1
ssh server 'cat /dev/zero | head -c 5000000' | wc -c
ssh server 'kill -TERM $$'; echo $?
ssh server nosuchcommand; echo $?
"#,
        sees: &["0 0\n", "one\ntwo words\n7\n", "a b,c,\n", " 00 ff 0d 0a\n", "5000000\n"],
        ..RECIPE
    }
    .run();
}

/// Copies by every spelling that scripts have: between two hosts, by URI, with globs, blanks, homes, and
/// mistakes.
#[test]
fn copies_by_every_spelling() {
    Recipe {
        setup: r#"
account eve 2820
cp /home/me/.ssh/id_ed25519 /home/me/.ssh/known_hosts /home/bob/.ssh/
chown bob: /home/bob/.ssh/*
"#,
        config: "Host *\n  BatchMode yes\n",
        client: r#"
mkdir -p d/s
for i in 1 2 3; do echo $i >d/f$i; done
echo s >d/s/in
echo w >'a b'
echo q >"q'u"
chmod 640 d/f1
touch -d 2020-02-02T02:02:02Z d/f2
t() { echo "== $*"; scp "$@" 2>&1 </dev/null; echo $?; }
t -3 d/f1 bob@server:one
t -3 bob@server:one eve@inner:two
t -r bob@server:.ssh/authorized_keys eve@inner:
t -R bob@server:one eve@inner:three
t scp://bob@server/one got
t scp://bob@server:22/one scp://eve@inner:22/uri
t 'a b' "q'u" bob@server:
t 'bob@server:a b' back
t 'bob@server:*' d/s
ls d/s
t -r d bob@server:
t -r d bob@server:
t -r d/ bob@server:new
t -r d/. bob@server:new2
t -p d/f1 d/f2 bob@server:kept/
t -p d/f1 d/f2 bob@server:
t d bob@server:
t nosuch bob@server:
t bob@server:nosuch .
t d/f1 bob@server:nodir/f
t d/f1 d/f2 bob@server:one
t 'bob@server:no*' .
t d/f1 bob@server:'~/home1'
t d/f1 bob@server:'~eve/x'
t bob@server:'~/home1' here
t d/f1 bob@server:/root/
t 'bob@server:{one,a b}' d/s
t -l 80000 d/f3 bob@server:slow
t -q d/f1 nosuchhost.invalid:
t d/f1 d/f2
t -P 22 -C -c aes128-ctr bob@server:one c
t bob@server:d .
t -r bob@server:d/s/../s up
t d/f1 bob@server:
t d/f1 :x
ls :x
t ./d/f1 bob@server:./dot/../dotted
"#,
        look: r#"
cd /home/bob
tree . | grep -v 'ssh\|local\|kept $'
cd /home/eve
tree . | grep -v 'ssh\|local'
stat -c %a /home/bob/f1
stat -c '%a %Y' /home/bob/kept/f2
ls /home/me
"#,
        sees: &[
            "== -3 bob@server:one eve@inner:two\n0\n",
            "== nosuch bob@server:\nscp: stat local \"nosuch\": No such file or directory\n255\n",
        ],
        differs: &[
            (
                "scp: stat local \"nosuch\": No such file or directory\n1\n",
                "scp: stat local \"nosuch\": No such file or directory\n255\n",
                "255 is kept for connections; docs/copying.md has all statuses",
            ),
            (
                "scp: remote mkdir \"one\": Failure\n1\n",
                "scp: remote mkdir \"one\": Failure\n255\n",
                "the same",
            ),
            (
                "scp: remote mkdir \"one\": File exists\n1\n",
                "scp: remote mkdir \"one\": Failure\n255\n",
                "our server says why",
            ),
            ("scp: download d: not", "scp: download d/: not", "the name as it was given"),
        ],
        ..RECIPE
    }
    .run();
}

/// Programs that reach a server's engine by a command: Docker's and libvirt's way to a socket, rsync's daemon
/// over ssh.
#[test]
fn engines_reached_by_commands() {
    Recipe {
        tools: &["nc.openbsd", "rsync", "python3"],
        setup: r#"
printf '#!/bin/sh\n[ "$1 $2" = "system dial-stdio" ] && exec nc -N -U /run/engine\n' >/usr/local/bin/docker
chmod 755 /usr/local/bin/docker
mkdir /srv/mod
echo in >/srv/mod/in
printf 'use chroot = no\n[mod]\npath = /srv/mod\n' >/home/bob/rsyncd.conf
chown bob: /home/bob/rsyncd.conf
cat >/root/engine <<'E'
import socket,os
s=socket.socket(socket.AF_UNIX); s.bind('/run/engine'); os.chmod('/run/engine',0o666); s.listen(9); open('/run/ready','w')
while 1:
 c,_=s.accept(); c.sendall(b'got '+c.recv(99)); c.close()
E
python3 /root/engine &
until [ -e /run/ready ]; do sleep 0.05; done
"#,
        client: r#"
echo GET | timeout 60 ssh -o ConnectTimeout=30 -T -- bob@server docker system dial-stdio; echo $?
echo PING | timeout 60 ssh -T -e none -- bob@server sh -c "'nc -N -U /run/engine'"; echo $?
ssh -N -L "$HOME/sock:/run/engine" bob@server </dev/null &
forward=$!
eventually test -S sock
echo FORWARD | timeout 60 nc -N -U sock
kill $forward
wait 2>/dev/null
timeout 60 rsync -e 'ssh -l bob' server::mod/ | tr -s ' ' | cut -d' ' -f1,2,5; echo $?
timeout 60 rsync -e 'ssh -l bob' server::mod/in got
cat got
timeout 60 ssh -o ProxyCommand='ssh -T bob@server nc -N %h 22' bob@inner id -un
"#,
        sees: &["got GET\n0\n", "got PING\n0\n", "got FORWARD\n", "bob\n"],
        ..RECIPE
    }
    .run();
}

/// `expect` scripts that look for the words of questions and type passwords.
#[test]
fn questions_answered_by_expect() {
    Recipe {
        tools: &["expect"],
        client: r#"
cat >pw <<'E'
set timeout 60
log_user 0
spawn -noecho ssh -o PubkeyAuthentication=no -o PreferredAuthentications=password bob@server {id -un; exit 5}
expect {*assword: }
puts [string map {\r {} \n {}} $expect_out(buffer)]
send "wrong\r"
expect {*again.*assword: }
send "correct horse battery\r"
expect bob
expect eof
puts "status [lindex [wait] 3]"
spawn -noecho ssh -o UserKnownHostsFile=/dev/null -o GlobalKnownHostsFile=/dev/null bob@server {id -un}
expect {*(yes/no/\[fingerprint\])? }
send "maybe\r"
expect {*Please type 'yes', 'no' or the fingerprint: }
puts asked
send "no\r"
expect {*Host key verification failed.}
expect eof
puts "status [lindex [wait] 3]"
E
expect pw; echo $?
"#,
        sees: &["bob@server's password: ", "status 5\nasked\nstatus 255\n"],
        ..RECIPE
    }
    .run();
}
