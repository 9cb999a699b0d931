//! Recipes for keys and accounts with one permitted use: wrappers for rsync, git, borg and scp, single
//! restrictions, jumps.

use lh_interop::recipe::{RECIPE, Recipe};

/// `rrsync` holds a backup key to one directory.
///
/// Covers: authorized_keys command (rrsync)
#[test]
fn rrsync_holds_a_key_to_a_directory() {
    Recipe {
        tools: &["rsync", "rrsync", "python3"],
        setup: "sed -i 's/^/restrict,command=\"rrsync -wo \\/srv\\/backup\" /' /home/bob/.ssh/authorized_keys\n\
                mkdir /srv/backup; chown bob: /srv/backup",
        client: r#"
mkdir d
echo a >d/a
chmod 640 d/a
ln -s a d/l
rsync -a --delete d/ bob@server:d/; echo $?
rsync -a bob@server:d/ back/ 2>/dev/null; echo $?
ssh bob@server id; echo $?
rsync -a d/ bob@server:/../etc/x/; echo $?
"#,
        look: "tree /srv/backup",
        sees: &["/srv/backup/d/a", "0\n"],
        ..RECIPE
    }
    .run();
}

/// The old `validate-rsync` script, which looks at `SSH_ORIGINAL_COMMAND`.
///
/// Covers: authorized_keys command (SSH_ORIGINAL_COMMAND)
#[test]
fn validate_rsync_looks_at_the_original_command() {
    Recipe {
        tools: &["rsync"],
        setup: r#"
cat >/usr/local/bin/validate-rsync <<'E'
#!/bin/sh
case "$SSH_ORIGINAL_COMMAND" in
*\&*|*\;*|*\|*) echo Rejected ;;
rsync\ --server*) $SSH_ORIGINAL_COMMAND ;;
*) echo Rejected; exit 1 ;;
esac
E
chmod 755 /usr/local/bin/validate-rsync
sed -i 's/^/command="\/usr\/local\/bin\/validate-rsync",no-pty,no-agent-forwarding,no-port-forwarding /' /home/bob/.ssh/authorized_keys
"#,
        client: r#"
mkdir d
seq 9999 >d/a
rsync -az d bob@server:; echo $?
rsync -a bob@server:d back; echo $?
ls back/d
ssh bob@server 'rm -rf /'; echo $?
ssh bob@server; echo $?
ssh bob@server 'rsync --server; id'; echo $?
ssh -W server:22 bob@server; echo $?
ssh -tt bob@server true >/dev/null; echo $?
"#,
        look: "tree /home/bob/d",
        sees: &["Rejected\n1\n"],
        ..RECIPE
    }
    .run();
}

/// `borg serve` with a path and append-only mode.
///
/// Covers: authorized_keys command (borg serve)
#[test]
fn borg_serve_is_all_a_key_may_do() {
    Recipe {
        tools: &["borg"],
        setup: r#"
mkdir /srv/borg
chown bob: /srv/borg
sed -i 's/^/command="borg serve --restrict-to-path \/srv\/borg --append-only",restrict /' /home/bob/.ssh/authorized_keys
"#,
        client: r#"
export BORG_PASSPHRASE=x BORG_RELOCATED_REPO_ACCESS_IS_OK=yes
mkdir d
seq 50000 >d/a
borg init -e repokey bob@server:/srv/borg/r 2>/dev/null; echo $?
borg create bob@server:/srv/borg/r::one d; echo $?
borg list --short bob@server:/srv/borg/r
mkdir x
cd x
borg extract bob@server:/srv/borg/r::one
cmp d/a ../d/a; echo $?
borg init -e none bob@server:/srv/other 2>&1 | grep -c 'not allowed\|Repository path not allowed'
ssh bob@server id </dev/null >/dev/null 2>&1; echo $?
"#,
        sees: &["0\n0\none\n0\n"],
        ..RECIPE
    }
    .run();
}

/// A git server as gitolite makes one: all people log in as `git`, the key's option says who it is.
///
/// Covers: authorized_keys command (git); ssh_config IdentityFile
#[test]
fn git_server_tells_people_by_their_keys() {
    Recipe {
        tools: &["git"],
        config: r#"
Host git
  HostName server
  User git
Host git-ro
  HostName server
  User git
  IdentityFile ~/.ssh/ro
  IdentitiesOnly yes
"#,
        setup: r#"
account git 2100
ssh-keygen -q -t ed25519 -N '' -C ro -f /home/me/.ssh/ro
chown me: /home/me/.ssh/ro*
{ echo "restrict,command=\"/usr/local/bin/git-auth ada rw\" $(cat /world/user_ed25519.pub)"
echo "restrict,command=\"/usr/local/bin/git-auth eve ro\" $(cat /home/me/.ssh/ro.pub)"; } >/home/git/.ssh/authorized_keys
cat >/usr/local/bin/git-auth <<'E'
#!/bin/bash
case $SSH_ORIGINAL_COMMAND in
"git-upload-pack 'team/app.git'") ;;
"git-receive-pack 'team/app.git'") [ $2 = rw ] || { echo "DENIED: $1 may not write" >&2; exit 1; } ;;
'') echo "hello $1, this is git@server"; exit 0 ;;
*) echo "invalid: $SSH_ORIGINAL_COMMAND" >&2; exit 1 ;;
esac
exec git shell -c "$SSH_ORIGINAL_COMMAND"
E
chmod 755 /usr/local/bin/git-auth
git init -q --bare -b main /home/git/team/app.git
chown -R git: /home/git
"#,
        client: r#"
export GIT_AUTHOR_NAME=a GIT_AUTHOR_EMAIL=a@x GIT_COMMITTER_NAME=a GIT_COMMITTER_EMAIL=a@x GIT_AUTHOR_DATE='1700000000 +0000' GIT_COMMITTER_DATE='1700000000 +0000'
git init -q -b main w
cd w
seq 20000 >f
git add f
git commit -qm one
git push -q git:team/app.git main; echo $?
cd ..
git clone -q git-ro:team/app.git c; echo $?
cmp c/f w/f
cd c
git commit -q --allow-empty -m two
git push -q 2>&1; echo $?
git ls-remote git:other.git; echo $?
ssh git; echo $?
ssh git-ro info; echo $?
git archive --remote=git:team/app.git HEAD | tar t; echo $?
"#,
        sees: &["hello ada", "DENIED: eve"],
        ..RECIPE
    }
    .run();
}

/// `git-shell` as a login shell.
#[test]
fn git_shell_as_login_shell() {
    Recipe {
        tools: &["git", "git-shell"],
        setup: r#"
account git 2100 /home/git $(command -v git-shell)
git init -q --bare -b main /home/git/a.git
chown -R git: /home/git
"#,
        client: r#"
git clone -q git@server:a.git; echo $?
ssh git@server; echo $?
ssh git@server ls; echo $?
scp /etc/hostname git@server:; echo $?
printf 'pwd\n' | sftp git@server 2>/dev/null; echo $?
"#,
        sees: &["fatal: "],
        differs: &[(
            "scp: no SFTP server answered on server; where it has none, -O copies by scp's old protocol\n",
            "",
            "the way out is told",
        )],
        ..RECIPE
    }
    .run();
}

/// A wrapper that lets `scp -t` to one directory pass.
#[test]
fn scp_wrapper_for_one_directory() {
    Recipe {
        setup: r#"
cat >/usr/local/bin/only-scp <<'E'
#!/bin/bash
[[ $SSH_ORIGINAL_COMMAND =~ ^scp\ (-[pvrd]+\ )*-t\ (--\ )?/srv/in/?$ ]] || { echo 'only uploads' >&2; exit 7; }
exec $SSH_ORIGINAL_COMMAND
E
chmod 755 /usr/local/bin/only-scp
mkdir /srv/in
chown bob: /srv/in
sed -i 's/^/restrict,command="only-scp" /' /home/bob/.ssh/authorized_keys
"#,
        client: r#"
echo words >f
mkdir d
echo in >d/in
scp -O f bob@server:/srv/in/; echo $?
scp -Orp d bob@server:/srv/in; echo $?
scp -O f bob@server:/etc/; echo $?
scp -O bob@server:/srv/in/f g; echo $?
ssh bob@server id; echo $?
"#,
        look: "tree /srv/in",
        sees: &["only uploads\n"],
        ..RECIPE
    }
    .run();
}

/// Every restriction of a key, one by one.
///
/// Covers: authorized_keys permitopen; authorized_keys permitlisten; authorized_keys no-port-forwarding; authorized_keys from
#[test]
fn keys_with_single_restrictions() {
    Recipe {
        setup: r#"
key=$(cat /home/bob/.ssh/authorized_keys | head -1)
n=0
for o in 'no-pty' 'no-port-forwarding' 'permitopen="server:22"' 'permitopen="*:23"' 'from="127.0.0.2"' 'from="!127.0.0.1,*"' 'from="server.example.org"' 'expiry-time="20200101"' 'expiry-time="20990101"' 'restrict,pty' 'environment="A=b"' 'command="echo forced",permitopen="server:22"' 'bogus' 'No-Pty'; do
account k$n $((2200+n)); echo "$o $key" >/home/k$n/.ssh/authorized_keys; n=$((n+1)); done
"#,
        config: "Host *\n  PreferredAuthentications publickey\n",
        client: r#"
for n in {0..13}; do echo "== k$n"; ssh k$n@server 'echo in $A'; echo $?; ssh -tt k$n@server true | tr -d '\r'; echo ${PIPESTATUS[0]}
ssh -W server:22 k$n@server </dev/null | head -c 4; echo " ${PIPESTATUS[0]}"; done 2>&1 | grep -v '^Connection to server closed'
"#,
        sees: &["PTY allocation request failed", "forced\n", "administratively prohibited", "SSH-"],
        ..RECIPE
    }
    .run();
}

/// An account for jumps alone: no shell, no command, forwards to one place.
///
/// Covers: sshd_config PermitOpen; ssh -J; ssh_config ProxyJump
#[test]
fn jump_only_account_on_a_bastion() {
    Recipe {
        server: r#"
Match User jump
  PermitOpen inner:22
  ForceCommand /usr/sbin/nologin
  PermitTTY no
  X11Forwarding no
  AllowAgentForwarding no
"#,
        setup: "account jump 2300",
        config: r#"
Host inner
  User bob
  ProxyJump jump@bastion
Host wrong
  HostName server
  ProxyJump jump@bastion
"#,
        client: r#"
ssh inner 'echo ${SSH_CONNECTION%% *}; id -un'; echo $?
ssh jump@bastion; echo $?
ssh jump@bastion id; echo $?
ssh wrong id 2>&1 | sed 's/port [0-9]*/port N/'; echo ${PIPESTATUS[0]}
echo words >f
scp f inner:; echo $?
echo 'get f g' | sftp -b - inner
cat g
ssh -J jump@bastion,bob@inner bob@server id -un; echo $?
scp -J jump@bastion f bob@inner:f2; echo $?
sftp -q -J jump@bastion bob@inner <<<ls
"#,
        sees: &["127.0.0.1\nbob\n0\n", "This account is currently not available."],
        ..RECIPE
    }
    .run();
}

/// The old way through a bastion: `ProxyCommand ssh -W`, nested, with tokens.
///
/// Covers: ssh_config ProxyCommand; ssh -W; token %h
#[test]
fn bastion_by_nested_proxy_commands() {
    Recipe {
        config: r#"
Host bastion
  User bob
Host inner
  User bob
  ProxyCommand ssh -q -W %h:%p bastion
Host deep
  HostName server
  User bob
ProxyCommand ssh -q inner exec bash -c '"exec 3<>/dev/tcp/%h/%p; cat <&3 & cat >&3"'
"#,
        client: r#"
ssh inner id -un; echo $?
ssh deep 'id -un; cat' <<<hi; echo $?
head -c 300000 /dev/urandom >f
scp -q f inner:
ssh inner cat f | cmp - f; echo $?
"#,
        sees: &["bob\n0\nbob\nhi\n0\n0\n"],
        ..RECIPE
    }
    .run();
}

/// The same wrappers, set by the server's configuration for all keys of an account.
///
/// Covers: sshd_config ForceCommand (rrsync, borg serve, git, scp)
#[test]
fn wrappers_of_the_server_s_configuration() {
    Recipe {
        tools: &["rsync", "rrsync", "python3", "borg", "git"],
        server: r#"
Match User mirror
  ForceCommand rrsync -wo /srv/mirror
Match User vault
  ForceCommand borg serve --restrict-to-path /srv/vault --append-only
Match User git
  ForceCommand /usr/local/bin/only-git
Match User drop
  ForceCommand only-scp
"#,
        setup: r#"
n=2500
for name in mirror vault drop git; do
    account $name $((n++))
    install -d -o $name /srv/$name
done
cat >/usr/local/bin/only-git <<'E'
#!/bin/bash
case $SSH_ORIGINAL_COMMAND in
"git-upload-pack 'app.git'"|"git-receive-pack 'app.git'") exec git shell -c "$SSH_ORIGINAL_COMMAND" ;;
*) echo "git only, not '$SSH_ORIGINAL_COMMAND'" >&2; exit 5 ;;
esac
E
cat >/usr/local/bin/only-scp <<'E'
#!/bin/bash
[[ $SSH_ORIGINAL_COMMAND =~ ^scp\ (-[pvrd]+\ )*-t\ (--\ )?/srv/drop/?$ ]] || { echo 'only uploads' >&2; exit 7; }
exec $SSH_ORIGINAL_COMMAND
E
chmod 755 /usr/local/bin/only-*
git init -q --bare -b main /home/git/app.git
chown -R git: /home/git
"#,
        client: r#"
mkdir d
seq 9999 >d/a
chmod 640 d/a
echo == rsync
rsync -a --delete d/ mirror@server:d/; echo $?
rsync -a mirror@server:d/ back/ 2>/dev/null; echo $?
ssh mirror@server id; echo $?
sftp -b - mirror@server <<<ls 2>/dev/null; echo $?
echo == borg
export BORG_RELOCATED_REPO_ACCESS_IS_OK=yes BORG_UNKNOWN_UNENCRYPTED_REPO_ACCESS_IS_OK=yes
borg init -e none vault@server:/srv/vault/r 2>/dev/null; echo $?
borg create vault@server:/srv/vault/r::one d; echo $?
borg list --short vault@server:/srv/vault/r
borg init -e none vault@server:/srv/other 2>&1 | grep -c 'not allowed'
ssh vault@server id </dev/null >/dev/null 2>&1; echo $?
echo == git
export GIT_AUTHOR_NAME=a GIT_AUTHOR_EMAIL=a@x GIT_COMMITTER_NAME=a GIT_COMMITTER_EMAIL=a@x
git init -q -b main w
cd w
cp ../d/a .
git add a
git commit -qm one
git push -q git@server:app.git main; echo $?
git clone -q git@server:app.git ../c; echo $?
cmp a ../c/a; echo $?
git ls-remote git@server:other.git; echo $?
ssh git@server; echo $?
cd ..
echo == scp
scp -Op d/a drop@server:/srv/drop/; echo $?
scp -O d/a drop@server:/tmp/; echo $?
scp d/a drop@server:/srv/drop/b; echo $?
ssh -tt drop@server </dev/null | tr -d '\r'; echo ${PIPESTATUS[0]}
"#,
        look: "tree /srv/mirror /srv/drop",
        sees: &["/srv/mirror/d/a\n", "one\n", "git only, not ''\n", "only uploads\n"],
        differs: &[(
            "scp: no SFTP server answered on server; where it has none, -O copies by scp's old protocol\n",
            "",
            "the way out is told",
        )],
        ..RECIPE
    }
    .run();
}
