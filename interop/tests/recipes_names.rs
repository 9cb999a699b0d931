//! Recipes for programs that find the client by its name: on the `PATH`, in a variable, in a configuration
//! file, behind `sudo`.

use lh_interop::recipe::{Ends, RECIPE, Recipe};

/// Both families under Longhaul's own names, in front of the `PATH`, as programs name them that do not want
/// to replace `ssh`.
const OWN_NAMES: &str = "for p in ssh scp sftp ssh-add ssh-agent ssh-keygen ssh-keyscan; do ln -s /usr/bin/$p /usr/local/bin/lh$p; done";

/// `ssh-copy-id` by each of its flags: dry, forced, by SFTP, with an own configuration, keys of an agent,
/// names with mistakes.
#[test]
fn ssh_copy_id_by_its_flags() {
    Recipe {
        tools: &["ssh-copy-id", "sshpass"],
        setup: "for n in 0 1 2 3 4; do account new$n 260$n; rm -r /home/new$n/.ssh; done",
        client: r##"
export SSHPASS='correct horse battery'
info() { sed -e 's/^.*\(INFO\|WARNING\|ERROR\): /\1: /' -e 's/copy-id\.[A-Za-z0-9]*/copy-id.X/g'; }
ssh-keygen -q -t ed25519 -N '' -C two -f .ssh/two
printf 'Host alias\n HostName server\n User new3\n' >cfg
copy() { echo "== $*"; sshpass -e ssh-copy-id "$@" 2>&1 | info; echo ${PIPESTATUS[0]}; }
copy -n -i .ssh/id_ed25519.pub new0@server
ssh -o BatchMode=yes new0@server true; echo $?
copy -f -i .ssh/id_ed25519 new0@server
copy -f -i .ssh/id_ed25519 new0@server
copy -i .ssh/id_ed25519 new0@server
ssh new0@server 'wc -l <.ssh/authorized_keys; printf "# no end" >>.ssh/authorized_keys'
copy -i .ssh/two -o 'User new0' -p 22 server
ssh new0@server 'cut -d" " -f1 .ssh/authorized_keys'
copy -s -i .ssh/id_ed25519 new1@server
copy -s -i .ssh/id_ed25519.pub new1@server
copy -s -f -i .ssh/two new1@server
ssh new1@server 'stat -c "%a %n" .ssh .ssh/*; wc -l <.ssh/authorized_keys'
eval $(ssh-agent) >/dev/null
ssh-add -q .ssh/id_ed25519 .ssh/two
copy new2@server
ssh new2@server 'wc -l <.ssh/authorized_keys'
copy new2@server
ssh-agent -k >/dev/null
unset SSH_AUTH_SOCK
copy -F cfg -i .ssh/two -o StrictHostKeyChecking=yes -o UserKnownHostsFile=~/.ssh/known_hosts alias
ssh -i .ssh/two new3@server id -un
copy -i .ssh/none new4@server
copy -i .ssh/two new4@nosuch.invalid
copy -i .ssh/two -o BadOption=1 new4@server
SSHPASS=wrong copy -i .ssh/two -o NumberOfPasswordPrompts=1 new4@server
copy -p 9 -i .ssh/two new4@server
ls -a .ssh
"##,
        pam: true,
        sees: &["Would have added the following key(s):", "Number of key(s) added: 2", "new3\n"],
        differs: &[
            ("\n..\nagent\n", "\n..\n", "agents have their sockets in ~/.ssh/agent, as OpenSSH's since 10.1"),
            (".ssh\": File exists\n", ".ssh\": Failure\n", "our server tells our client why"),
        ],
        ..RECIPE
    }
    .run();
}

/// git and mosh with the client under another name: `GIT_SSH_COMMAND`, `core.sshCommand`, `gpg.ssh.program`,
/// `mosh --ssh`.
#[test]
fn git_and_mosh_by_another_name() {
    Recipe {
        tools: &["git", "mosh", "script", "rsync", "scp"],
        setup: OWN_NAMES,
        client: r#"
export GIT_AUTHOR_NAME=a GIT_AUTHOR_EMAIL=a@x GIT_COMMITTER_NAME=a GIT_COMMITTER_EMAIL=a@x GIT_AUTHOR_DATE='2026-01-01T00:00:00Z' GIT_COMMITTER_DATE='2026-01-01T00:00:00Z'
ssh bob@server git init -q --bare -b main r.git
git init -q -b main w
cd w
git remote add o bob@server:r.git
git remote add p ssh://bob@server:22/~/r.git
git config gpg.format ssh
git config gpg.ssh.program lhssh-keygen
git config user.signingkey ~/.ssh/id_ed25519.pub
git config gpg.ssh.allowedSignersFile ~/signers
echo "a@x $(cat ~/.ssh/id_ed25519.pub)" >~/signers
echo 1 >f
git add f
git commit -qS -m one; echo $?
git verify-commit HEAD
git tag -s -m t v1
git tag -v v1 2>&1 | tail -1
git log --show-signature -1 --format=%s
GIT_SSH_COMMAND=lhssh git push -q o main v1; echo $?
GIT_SSH_COMMAND='lhssh -4 -o BatchMode=yes' git ls-remote p; echo $?
GIT_SSH=lhssh git ls-remote p v1; echo $?
git config core.sshCommand 'lhssh -F none'
git fetch -q p; echo $?
git config ssh.variant ssh
GIT_SSH=lhssh git ls-remote p main
GIT_TRACE=1 git ls-remote -q p 2>&1 | grep -o 'run_command: .*lhssh.*upload-pack'
cd
head -c 90000 /dev/urandom >big
rsync -e lhssh big bob@server:big
RSYNC_RSH='lhssh -p 22' rsync bob@server:big b1
cmp big b1; echo $?
scp -S /usr/local/bin/lhssh -q big bob@server:b2; echo $?
sftp -q -S /usr/local/bin/lhssh bob@server <<<'ls -1'
eval $(lhssh-agent) >/dev/null
lhssh-add -q .ssh/id_ed25519
lhssh-add -l | wc -l
lhssh-agent -k | wc -l
for ip in local remote proxy; do
    timeout 100 script -qec "stty rows 24 cols 80; mosh --ssh='lhssh -4' -4 --predict=never --no-init --experimental-remote-ip=$ip --server='env LANG=C.UTF-8 mosh-server' bob@server -- sh -c 'id -un >>ran; echo MOSH-CO''NNECTED'" /dev/null </dev/null |
        grep -ao MOSH-CONNECTED | head -1
done
ssh bob@server cat ran
"#,
        sees: &["Good \"git\" signature for a@x", "MOSH-CONNECTED\nMOSH-CONNECTED\nMOSH-CONNECTED\nbob\nbob\nbob\n"],
        ..RECIPE
    }
    .run();
}

/// `sudo` with and without the caller's environment: whose files, whose agent, whose home.
#[test]
fn root_by_sudo_with_the_agent_of_another() {
    Recipe {
        tools: &["sudo"],
        setup: r#"
mkdir -p /etc/sudoers.d
printf 'Defaults !use_pty\nme ALL=(ALL) NOPASSWD:SETENV: ALL\n' >/etc/sudoers.d/me
chmod 440 /etc/sudoers.d/me
"#,
        client: r#"
eval $(ssh-agent) >/dev/null
ssh-add -q .ssh/id_ed25519
mv .ssh/id_ed25519 away
kh=$HOME/.ssh/known_hosts
for s in 'sudo -n' 'sudo -n -E' 'sudo -n -H -E' 'sudo -n --preserve-env=SSH_AUTH_SOCK' 'sudo -n -u bob -E' "sudo -n SSH_AUTH_SOCK=$SSH_AUTH_SOCK"; do
    echo "== ${s%%=/*}"
    $s ssh -o BatchMode=yes bob@server 'id -un'; echo $?
    $s ssh -o BatchMode=yes -o UserKnownHostsFile=$kh bob@server 'id -un'; echo $?
done 2>&1
sudo -n -E ssh -o BatchMode=yes -o UserKnownHostsFile=$kh server true; echo $?
sudo -n -E ssh -G server | grep '^user \|^userknown\|^identityfile' | head -3
sudo -n -E ssh-add -l | wc -l
sudo -n ssh-add -l; echo $?
echo w >f
sudo -n -E scp -q -o UserKnownHostsFile=$kh f bob@server:g; echo $?
sudo -n -E env SUDO_USER=nobody ssh -o StrictHostKeyChecking=accept-new -o UserKnownHostsFile=/root/kh bob@server id -un
sudo -n stat -c '%U %a' /root/kh
ls -A /root 2>&1
ssh-agent -k >/dev/null
"#,
        ends: Ends::Client,
        differs: &[("", "Pseudo-terminal will not be allocated because stdin is not a terminal.\n", "-G prints a configuration and asks for no terminal")],
        sees: &["bob\n0\n", "hostkeys_foreach failed for /home/me/.ssh/known_hosts: Permission denied", "== sudo -n -u bob -E\n"],
        ..RECIPE
    }
    .run();
}

/// Sessions in tmux whose agent has gone: the variable names a socket that is not there, or one that nothing
/// answers.
#[test]
fn sessions_with_an_agent_that_has_gone() {
    Recipe {
        tools: &["tmux", "python3"],
        config: "Host *\n  User bob\n",
        client: r#"
eval $(ssh-agent) >/dev/null
ssh-add -q .ssh/id_ed25519
tmux new-session -d -s work
ssh-agent -k >/dev/null
cat >t <<'E'
ssh -o BatchMode=yes server id -un; echo $?; ssh -A -o BatchMode=yes server 'ssh-add -l 2>&1; echo $?'; ssh-add -l; echo $?; ssh-add -D; echo $?; ssh-add -L; echo $?; ssh -o IdentityAgent=none server id -un; ssh -o AddKeysToAgent=yes server true; echo $?; ssh-keygen -Y sign -f ~/.ssh/id_ed25519.pub -n file t; echo $?
E
tmux send-keys -t work '(. ./t) >out 2>&1; tmux wait-for -S done' Enter
tmux wait-for done
tmux kill-server
sed 's,/tmp/ssh-[^ ]*,SOCK,' out
unset SSH_AUTH_SOCK
/usr/bin/python3 -c 'import socket; s = socket.socket(socket.AF_UNIX); s.bind("dead")'
rm -f t.sig
SSH_AUTH_SOCK=$PWD/dead
export SSH_AUTH_SOCK
(. ./t) 2>&1
rm -f t.sig
SSH_AUTH_SOCK=$PWD/t
(. ./t) 2>&1
rm -f t.sig
SSH_AUTH_SOCK=
(. ./t) 2>&1
"#,
        ends: Ends::Client,
        sees: &["bob\n0\n", "Could not open a connection to your authentication agent."],
        ..RECIPE
    }
    .run();
}

/// Connections through socat and nc: by standard streams, by a socket in the file system, by SOCKS proxies.
///
/// Our sftp ends without waiting for the server's end of the channel, of which socat then complains.
#[test]
fn proxy_commands_by_socat_and_nc() {
    Recipe {
        tools: &["socat", "nc"],
        setup: r#"
(setsid socat UNIX-LISTEN:/srv/gate,fork,mode=666 TCP:127.0.0.1:22 >/dev/null 2>&1 &)
eventually test -S /srv/gate
"#,
        config: r#"
Host tcp
  ProxyCommand socat - TCP:server:%p
Host retry
  ProxyCommand socat STDIO TCP4:%h:%p,retry=2,interval=0.1,nodelay
Host gate
  ProxyCommand socat - UNIX-CONNECT:/srv/gate
Host ncgate
  ProxyCommand nc -U /srv/gate
Host socks
  ProxyCommand nc -x 127.0.0.1:7501 -X 5 server %p
Host socks4
  ProxyCommand socat - SOCKS4A:127.0.0.1:server:%p,socksport=7501
Host refused
  ProxyCommand socat - TCP:server:9 2>/dev/null
Host bastion
  ProxyCommand none
Host *
  HostKeyAlias server
  User bob
"#,
        client: r#"
ssh -f -N -D 7501 bastion
head -c 300000 /dev/urandom >f
for h in tcp gate ncgate socks socks4; do
    echo "== $h"
    ssh $h 'id -un; cat; exit 3' <<<$h; echo $?
    scp -q f $h:; echo $?
    scp -q $h:f g
    cmp f g; echo $?
    sftp -q -b - $h <<<'ls -1' 2>/dev/null
    ssh $h 'echo ${SSH_CONNECTION% 22} | wc -w'
done
ssh -o HostName=server retry id -un
timeout 20 ssh refused true 2>/dev/null; echo $?
ssh -J tcp,server inner id -un
ssh -W localhost:22 gate </dev/null 2>/dev/null | head -c 4; echo
ssh -o ControlMaster=auto -o ControlPath=~/c -o ControlPersist=60 gate id -un
ssh -S ~/c gate id -un
ssh -S ~/c -O check gate 2>&1 | sed 's/[0-9]*).*//'
ssh -S ~/c -O exit gate; echo $?
ssh -o ProxyCommand='socat - TCP:server:22' -o ServerAliveInterval=1 tcp 'sleep 2.5; echo alive'
pkill -u me -f 7501
"#,
        ends: Ends::Client,
        sees: &["== socks4\nbob\nsocks4\n3\n0\n0\n", "alive\n"],
        ..RECIPE
    }
    .run();
}
