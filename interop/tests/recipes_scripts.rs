//! Recipes for scripts and jobs: no terminal, no home, many keys, special characters in commands, flags in
//! unusual order.

use lh_interop::recipe::{Ends, RECIPE, Recipe};

/// Jobs of cron: no terminal, no `HOME`, a short `PATH`, closed descriptors.
#[test]
fn cron_jobs_without_home_and_terminal() {
    Recipe {
        tools: &["rsync"],
        config: "Host *\n  User bob\n  BatchMode yes\n",
        client: r#"
run() { env -i PATH=/usr/bin:/bin SHELL=/bin/sh "$@" </dev/null; echo "= $?"; }
cd /
run ssh server 'pwd; echo $TERM'
run scp -q /home/me/.ssh/known_hosts server:kh
run rsync -e ssh -a /home/me/.ssh/known_hosts server:kh2
LOGNAME=eve USER=eve run ssh server id -un
run env HOME=/tmp ssh server id -un
ls -A /tmp | grep -c ssh
run env HOME= ssh -o StrictHostKeyChecking=yes server id -un
run ssh-keygen -F server -l | cut -c1-9
run ssh-add -l
run sh -c 'ssh server true & wait; echo bg'
run ssh -n server cat
run ssh server cat <&-
run ssh server 'echo out; exit 9' >&-
"#,
        sees: &["/home/bob\n", "= 2\nbg\n= 0\n"],
        ..RECIPE
    }
    .run();
}

/// Each hop has its own user and key, while the agent has more keys than a server lets a client try.
///
/// Covers: ssh_config ProxyJump; ssh -J; ssh_config IdentitiesOnly; sshd_config MaxAuthTries
#[test]
fn jumps_with_own_keys_beside_a_full_agent() {
    Recipe {
        server: "MaxAuthTries 4\nPubkeyAuthOptions none",
        setup: r#"
account jump 2300
account deep 2301
cd /home/me/.ssh
for u in jump deep; do
    ssh-keygen -q -t ed25519 -N '' -f $u -C $u
    cp $u.pub /home/$u/.ssh/authorized_keys
done
for i in 1 2 3 4 5 6; do ssh-keygen -q -t ed25519 -N '' -f x$i -C x$i; done
chown -R me: .
cd /
"#,
        config: r#"
Host bastion
  User jump
  IdentityFile ~/.ssh/jump
  IdentitiesOnly yes
Host inner
  User deep
  IdentityFile ~/.ssh/deep
  IdentitiesOnly yes
  ProxyJump bastion
Host loose
  HostName inner
  User deep
  IdentityFile ~/.ssh/deep
  ProxyJump bastion
Host *
  BatchMode yes
"#,
        client: r#"
eval $(ssh-agent) >/dev/null
ssh-add -q .ssh/x[1-6] .ssh/jump .ssh/deep
for h in inner loose; do ssh $h id -un; echo $?; done
ssh bob@server true; echo $?
ssh -o IdentitiesOnly=yes -i .ssh/id_ed25519 bob@server id -un
ssh -J jump@bastion -i .ssh/deep -o IdentitiesOnly=yes deep@server id -un
scp -q .ssh/x1.pub inner:x; echo $?
sftp -q -b - inner <<<'ls -1'
ssh-add -q -D
ssh-add -q .ssh/deep
ssh loose id -un
ssh -o User=bob inner true; echo $?
ssh -o ProxyJump=jump@bastion,deep@inner -o IdentitiesOnly=yes bob@server id -un; echo $?
ssh -G inner 2>/dev/null | grep '^proxyjump\|^identityf\|^identitieso' | sort
ssh -J bastion -J server inner true; echo $?
ssh -o ProxyJump=bastion -J server inner true; echo $?
ssh -o ProxyCommand='nc %h %p' -J bastion inner id -un; echo $?
ssh -J ssh://jump@bastion:22 inner id -un
ssh -J '' inner id; echo $?
ssh -J a@b@c,,d inner id; echo $?
ssh -J none inner id -un
kill $SSH_AGENT_PID
"#,
        ends: Ends::Client,
        sees: &[
            "deep\n0\ndeep\n0\n255\nbob\n",
            "Only a single -J option is permitted",
            "Cannot specify -J with ProxyCommand\nInvalid -J argument\nInvalid -J argument\n",
        ],
        ..RECIPE
    }
    .run();
}

/// Terminals inside terminals, empty and odd terminal types, and flags against options.
///
/// Covers: ssh -t; ssh -T; ssh_config RequestTTY
#[test]
fn nested_terminals_and_odd_terminal_types() {
    Recipe {
        setup: r#"
cp /home/me/.ssh/id_ed25519 /home/me/.ssh/known_hosts /home/bob/.ssh/
chown bob: /home/bob/.ssh/*
"#,
        client: r#"
ssh -tt bob@server 'ssh -tt inner tty >/dev/null && echo yes' </dev/null
ssh -t bob@server 'ssh -T inner tty' </dev/null
ssh -tt bob@server 'ssh -tt inner exit 5' </dev/null; echo $?
ssh -tt bob@server 'stty -a | head -1; echo $SSH_TTY | cut -c1-8' </dev/null
TERM= ssh -tt bob@server 'env | grep ^TERM; true' </dev/null
TERM='weird term' ssh -tt bob@server 'env | grep ^TERM' </dev/null
for o in '-tt -o RequestTTY=no' '-o RequestTTY=no -tt' '-tt -T' '-T -tt' '-T -o RequestTTY=force' '-o RequestTTY=force -T' '-o RequestTTY=force'; do
    echo "== $o"
    ssh $o bob@server 'tty >/dev/null && echo yes' </dev/null; echo $?
done
"#,
        sees: &["yes\n", "TERM=weird term\n", "== -tt -o RequestTTY=no\nyes\n0\n"],
        ..RECIPE
    }
    .run();
}

/// Passwords from an askpass program, in every setting of its variables.
#[test]
fn askpass_programs_answer_by_their_variables() {
    Recipe {
        config: "Host *\n  User bob\n  NumberOfPasswordPrompts 1\n  PubkeyAuthentication no\n",
        client: r#"
printf '#!/bin/sh\necho correct horse battery; echo "$@ [$SSH_ASKPASS_PROMPT]" >>asked\n' >ask
chmod +x ask
export SSH_ASKPASS=$PWD/ask
try() { env "$@" setsid -w ssh server id -un; echo "= $?"; }
try SSH_ASKPASS_REQUIRE=force
try SSH_ASKPASS_REQUIRE=prefer
try SSH_ASKPASS_REQUIRE=never
try DISPLAY=:0
try DISPLAY=
try DISPLAY=:0 SSH_ASKPASS_REQUIRE=never
try SSH_ASKPASS=/bin/false SSH_ASKPASS_REQUIRE=force
try SSH_ASKPASS=$PWD/nothere SSH_ASKPASS_REQUIRE=force
try SSH_ASKPASS=/etc SSH_ASKPASS_REQUIRE=force
cat asked
"#,
        ends: Ends::Client,
        sees: &["bob\n= 0\n", "ssh_askpass: exec(/home/me/nothere): No such file or directory"],
        pam: true,
        ..RECIPE
    }
    .run();
}

/// Batches of `sftp`: commands whose failure counts or not, echo, comments, quotes, line ends.
#[test]
fn sftp_batches_with_prefixes_and_mistakes() {
    Recipe {
        setup: r#"
mkdir /home/bob/d
echo x >/home/bob/d/x
chown -R bob: /home/bob/d
echo no >/home/bob/secret
chmod 600 /home/bob/secret
"#,
        client: r#"
b() { printf '%s\n' "$@" | sftp -b - bob@server; echo "= $?"; }
echo a >a
echo 'b c' >'b c'
b '-rm none' 'ls -1' '-cd nowhere' pwd '@put a' '-@get none' 'put "b c" q' 'ls -1 d' 'rm nothere' ls
b '# comment' '  ' '-mkdir d' '-rmdir d' '-get secret' '-chmod 600 none' '-ln none other' '-rename none other' '-lcd /nonexistent' lpwd '!echo local $PWD' '-!false' 'ls -1 d'
b progress version -bogus bogus ls
b 'put none*'
b '-put none*' '-get none*' 'get d/* .' 'ls -1 /none*'
b 'chmod 999 a'
b 'chmod a'
b '-ls "unterminated' 'ls -1 d'
b 'ls -z'
b 'copy d/x d/y' 'cp d/x d/z' 'ls -1 d' 'lumask 999'
b 'lumask 77' 'get d/x lu' '!stat -c %a lu' exit ls
b 'mkdir a/b/c'
b 'put a /nonexistent/dir/'
b 'reget d/x a' 'reput a d/x' '!cat a'
sftp -b nothere bob@server; echo $?
sftp -b /dev/null bob@server; echo $?
sftp -b - bob@server </dev/null; echo $?
printf 'ls -1 d' | sftp -q -b - bob@server
printf 'ls -1 d\r\n' | sftp -q -b - bob@server; echo $?
"#,
        sees: &["sftp> rm nothere\n= 1\n", "Shell exited with status 1"],
        differs: &[
            ("mkdir \"/home/bob/d\": File exists", "mkdir \"/home/bob/d\": Failure", "our server says why, and our client shows it"),
            ("rmdir \"/home/bob/d\": Directory not empty", "rmdir \"/home/bob/d\": Failure", "the same"),
        ],
        ..RECIPE
    }
    .run();
}

/// Words that begin with dashes, bytes that are no UTF-8, empty words, and command lines of 128 KiB.
#[test]
fn command_words_bytes_and_sizes() {
    Recipe {
        client: r#"
ssh bob@server -- -x; echo $?
ssh bob@server -- echo -x -- y
ssh -- bob@server echo a
ssh bob@server -p 22 -- echo -p 3
ssh -p 22 bob@server -o BatchMode=yes echo z
ssh bob@server echo 'a  b' '' c
ssh bob@server '  '; echo $?
ssh bob@server ' echo lead'
ssh bob@server true -v; echo $?
ssh bob@server sh -c 'echo inner; echo outer'
ssh bob@server "echo $(printf '\303\244\377\001')" | od -c
ssh bob@server "$(printf 'printf "\\377" ; echo \351')" | od -c
printf 'a\0b\377' | ssh bob@server od -c
ssh bob@server 'printf "a\0b\377"' | od -c
for n in 100000 130000; do ssh bob@server "echo $(head -c $n /dev/zero | tr '\0' x)" | wc -c; done
ssh bob@server 'exec 1>&-; echo x' 2>/dev/null; echo $?
ssh bob@server nosuchcommand; echo $?
ssh bob@server /etc; echo $?
ssh bob@server 'umask; ulimit -c; pwd; echo $0; shopt login_shell'
ssh -s bob@server nosuch; echo $?
ssh bob@server 'seq 100000' | tail -1
ssh bob@server 'dd if=/dev/zero bs=1M count=4 2>/dev/null' | wc -c
"#,
        sees: &["-x -- y\na\n", "100001\n130001\n", "4194304\n"],
        ..RECIPE
    }
    .run();
}

/// Destinations as scripts put them together, and ports, users and addresses that are none.
///
/// Covers: ssh -p; ssh -l; ssh_config User
#[test]
fn destinations_as_scripts_write_them() {
    Recipe {
        client: r#"
try() { ssh -o BatchMode=yes "$@" id -un; echo "= $?"; }
try ssh://bob@server
try ssh://bob@server:22
try ssh://bob@server:22/
try bob@server:
try -p 0 bob@server
try -p 99999 bob@server
try -p ssh bob@server
try -o User=bob eve@server
try -l bob eve@server
try 'bob@server;id'
try -- -x
try 'bad host'
try -b 127.0.0.9 bob@server
try -b 10.9.9.9 bob@server 2>/dev/null
try -b nosuch.invalid bob@server 2>/dev/null
try -B lo bob@server
try -B nosuch bob@server 2>/dev/null
for q in lowdelay throughput 'af21 cs1' none 0x20 bogus; do try -o "IPQoS=$q" bob@server; done
for e in '^[' '^' none; do try -e "$e" bob@server; done
try -o EscapeChar=ab bob@server
try -o SetEnv=bad bob@server
try -o CanonicalizeHostname=perhaps bob@server
try -o CanonicalDomains=.bad bob@server
for k in CanonicalDomains CanonicalizePermittedCNAMEs UserKnownHostsFile GlobalKnownHostsFile; do
    try -o "$k=none a:b" bob@server
done
"#,
        ends: Ends::Client,
        sees: &["bob\n= 0\nbob\n= 0\n", "argument must appear alone."],
        ..RECIPE
    }
    .run();
}

/// Keys that come into the agent by their use, other agents, and what the agent answers to mistakes.
///
/// Covers: ssh_config AddKeysToAgent; ssh_config IdentityAgent; ssh_config ForwardAgent
#[test]
fn keys_added_to_agents_by_use() {
    Recipe {
        config: r#"
Host add
  AddKeysToAgent yes
Host addt
  AddKeysToAgent 1m
  IdentityFile ~/.ssh/pp
Host noagent
  IdentityAgent none
Host var
  IdentityAgent $MYSOCK
Host sock
  IdentityAgent SSH_AUTH_SOCK
Host bad
  IdentityAgent /nonexistent
Host *
  HostName server
  User bob
"#,
        setup: r#"
ssh-keygen -q -t ed25519 -N pass -f /home/me/.ssh/pp
cat /home/me/.ssh/pp.pub >>/home/bob/.ssh/authorized_keys
chown me: /home/me/.ssh/pp*
mv /home/me/.ssh/id_ed25519 /home/me/key
"#,
        client: r#"
eval $(ssh-agent) >/dev/null
export MYSOCK=$SSH_AUTH_SOCK
printf '#!/bin/sh\necho pass\n' >ask
chmod +x ask
export SSH_ASKPASS=$PWD/ask SSH_ASKPASS_REQUIRE=force
ssh -i key add id -un
ssh-add -l | cut -d' ' -f1,3-
ssh addt id -un
ssh-add -l | wc -l
ssh-add -D 2>&1
for h in noagent var sock bad; do
    echo "== $h"
    ssh-add -q key
    ssh -o BatchMode=yes $h id -un; echo $?
done
ssh -A sock 'ssh-add -l | cut -d" " -f1,3-; echo $?'
ssh -a sock 'ssh-add -l'; echo $?
ssh-add -x <<<x
ssh-add -X
ssh-add -l >/dev/null; echo $?
ssh-add -d key.none; echo $?
ssh-add key.none; echo $?
ssh-add -t 0x key; echo $?
ssh-add -T .ssh/pp.pub; echo $?
ssh-add -L | cut -d' ' -f1
ssh-agent -k >/dev/null
"#,
        sees: &["All identities removed.\n== noagent\n255\n== var\nbob\n0\n"],
        ..RECIPE
    }
    .run();
}
