//! Recipes for programs that call `ssh` under a name of their users' choice, with their own pipes, terminals
//! and environments.

use lh_interop::recipe::{Ends, RECIPE, Recipe};

/// For `setup`: `ssh` and its relatives of this world under other names, which callers may know no variant
/// of, and behind wrappers, one of them without a `#!` line. `called` lists how the wrappers were called.
const OTHER_NAMES: &str = r#"
mkdir /opt/names
for p in ssh scp sftp; do
    ln -s $(readlink -f /usr/bin/$p) /opt/names/lh$p
    ln -s $(readlink -f /usr/bin/$p) /opt/names/fast-$p
done
printf '#!/bin/sh\necho "$@" >>/tmp/called\nexec ssh "$@"\n' >/opt/names/wrapper
printf 'exec ssh "$@"\n' >/opt/names/plain
chmod 755 /opt/names/{wrapper,plain}
touch /tmp/called
chmod 666 /tmp/called
printf 'Port 2201\nListenAddress 127.0.0.1\nListenAddress ::1\nInclude /etc/ssh/sshd_config.d/*.conf\nSubsystem sftp /usr/lib/openssh/sftp-server\nAcceptEnv GIT_PROTOCOL\n' >/tmp/port
serve port "$(cat /tmp/port)"
listening 2201
"#;

/// git finds out what a program of another name takes, by `-G` where it has to, and passes ports and its
/// protocol's version.
#[test]
fn git_by_programs_of_other_names() {
    Recipe {
        tools: &["git"],
        setup: OTHER_NAMES,
        client: r#"
export GIT_AUTHOR_NAME=a GIT_AUTHOR_EMAIL=a@x GIT_COMMITTER_NAME=a GIT_COMMITTER_EMAIL=a@x PATH=$PATH:/opt/names
git config --global protocol.file.allow always
ssh bob@server 'for r in r s; do git init -q --bare -b main $r.git; git -C $r.git config uploadpack.allowFilter true; done'
url=ssh://bob@server:2201/home/bob
refs() { "$@" ls-remote $url/r.git 2>&1 | cut -f2; }
export GIT_TRACE_PACKET=
for r in s r; do
    git init -q -b main $r; seq 500 >$r/$r; git -C $r add .; git -C $r remote add origin $url/$r.git
    if [ $r = r ]; then GIT_SSH=lhssh git -C r submodule --quiet add ../s.git; fi
    git -C $r commit -qm $r; GIT_SSH=lhssh git -C $r push -q origin main; echo $?
done
for p in lhssh fast-ssh wrapper plain; do
    echo "== $p"
    GIT_SSH=$p refs git
    GIT_SSH_COMMAND="$p -o BatchMode=yes" refs git
    refs git -c core.sshCommand=/opt/names/$p
    for v in ssh simple; do echo $v; GIT_SSH=$p GIT_SSH_VARIANT=$v refs git; done
    GIT_SSH=$p GIT_TRACE_PACKET=1 git -c protocol.version=2 ls-remote $url/r.git 2>&1 | grep -c 'version 2$'
    GIT_SSH=$p git ls-remote "[bob@::1]:r.git" 2>&1 | cut -f2
done
sort -u /tmp/called | sed 's/ [^ ]*receive-pack.*//'
export GIT_SSH=/opt/names/lhssh
git clone -q --recurse-submodules --depth 1 --shallow-submodules $url/r.git deep 2>&1; ls deep deep/s
git clone -q --filter=blob:none --no-checkout $url/r.git part; git -C part cat-file -p main:r | tail -1
git -C deep fetch -q --unshallow; echo $?; git archive --remote=$url/r.git main r | tar t; GIT_SSH_COMMAND='lhssh -4' git -C part fetch -q -4; echo $?
"#,
        sees: &["== lhssh\nHEAD\nrefs/heads/main\nHEAD\nrefs/heads/main\nHEAD\nrefs/heads/main\nssh\n", "500\n"],
        ..RECIPE
    }
    .run();
}

/// `ssh://`, `scp://` and `sftp://` with ports, escapes, addresses, and users that have an `@`.
///
/// Covers: ssh -J (a user with an escape)
#[test]
fn addresses_with_escapes_ports_and_signs() {
    const IPV6: &str = "OpenSSH 9.2 takes no IPv6 address in a URI";
    Recipe {
        setup: r#"
account a@b 2600
printf 'Port 2201\nListenAddress 127.0.0.1\nListenAddress ::1\nSubsystem sftp /usr/lib/openssh/sftp-server\nInclude /etc/ssh/sshd_config.d/*.conf\n' >/tmp/port
serve port "$(cat /tmp/port)"
listening 2201
"#,
        client: r#"
r() { echo "== $*"; timeout 20 "$@" </dev/null 2>&1 | sed '/^usage/,$d'; echo "${PIPESTATUS[0]}"; }
echo words >f
for u in ssh://a%40b@server ssh://a%40b@server:2201 a@b@server ssh://bob@[::1]:2201 bob@::1 ssh://bob@server:2201/ ssh://bob@server/path \
    ssh://bob:pw@server ssh://bob@server:0 ssh://bob@server:99999 ssh://bob@server:x ssh:// ssh://@server ssh://%zz@server ssh://b%6fb@server; do
    r ssh -o BatchMode=yes "$u" id -un
done
r ssh -l bob ssh://a%40b@server:2201 id -un
r ssh -p 22 ssh://bob@server:2201 'echo ${SSH_CONNECTION##* }'
r ssh -J 'ssh://bob@server:2201,ssh://a%40b@server:2201' ssh://bob@inner id -un
r ssh -J 'ssh://a%40b@server:2201/' bob@inner id -un
for u in scp://a%40b@server/x scp://a%40b@server:2201/x a@b@server:x scp://bob@[::1]:2201/x bob@[::1]:x scp://bob@server:2201//tmp/x scp://bob@server:2201/d%20e scp://bob@server:x/y; do
    r scp -q f "$u"
    r scp -q "$u" back
done
r scp -3 -q scp://bob@server:2201/x scp://a%40b@server:2201/y
for u in sftp://a%40b@server:2201 a@b@server sftp://bob@[::1]:2201 sftp://bob@server/.ssh sftp://bob@server:99999 sftp://; do
    echo "== $u"; echo pwd | timeout 20 sftp -q -b - "$u" 2>&1 | sed '/^usage/,$d'; echo "${PIPESTATUS[1]}"
done
r sftp -q sftp://a%40b@server:2201/x back
cat back
"#,
        look: "find /home/bob /home/a@b /tmp -type f ! -path '*.ssh*' | LC_ALL=C sort",
        sees: &["== ssh -o BatchMode=yes ssh://a%40b@server:2201 id -un\na@b\n0\n"],
        differs: &[
            ("== ssh -o BatchMode=yes ssh://bob@[::1]:2201 id -un\nbob\n0\n", "== ssh -o BatchMode=yes ssh://bob@[::1]:2201 id -un\n255\n", IPV6),
            ("f scp://bob@[::1]:2201/x\n0\n", "f scp://bob@[::1]:2201/x\nscp://bob@[::1]:2201/x: invalid uri\n1\n", IPV6),
            ("scp://bob@[::1]:2201/x back\n0\n", "scp://bob@[::1]:2201/x back\nscp://bob@[::1]:2201/x: invalid uri\n1\n", IPV6),
            ("== sftp://bob@[::1]:2201\nsftp> pwd\nRemote working directory: /home/bob\n0\n", "== sftp://bob@[::1]:2201\n1\n", IPV6),
        ],
        ends: Ends::Client,
        ..RECIPE
    }
    .run();
}

/// Settings of programs that name another `ssh` and another port.
#[test]
fn settings_that_name_another_program() {
    Recipe {
        tools: &["rsync", "borg", "restic", "unison", "svn", "svnadmin", "hg", "cvs"],
        setup: OTHER_NAMES,
        client: r#"
export PATH=$PATH:/opt/names RESTIC_PASSWORD=x BORG_PASSPHRASE=x BORG_UNKNOWN_UNENCRYPTED_REPO_ACCESS_IS_OK=yes BORG_BASE_DIR=$HOME/borg
mkdir d; seq 3000 >d/a
ssh bob@server "printf '[m]\npath=/home/bob/rsh\nuse chroot=no\n' >rsyncd.conf"
for p in lhssh; do
    echo "== $p"
    RSYNC_RSH="$p -p 2201" rsync -a d/ bob@server:rsh/; echo $?
    rsync -a --rsh="$p -p 2201 -o 'BatchMode yes'" d/ bob@server:rsh/; echo $?
    RSYNC_CONNECT_PROG="$p -p 2201 bob@%H rsync --server --daemon --config=/home/bob/rsyncd.conf ." rsync -r rsync://server/m/ | awk '{print $1, $2, $NF}'; echo $?
    BORG_RSH="$p -p 2201" borg init -e none bob@server:borg-$p 2>&1; BORG_RSH="$p -p 2201" borg create bob@server:borg-$p::one d; borg list --rsh "$p -p 2201" --short bob@server:borg-$p; echo $?
    restic -q -r sftp:x:restic-$p -o sftp.command="$p -p 2201 bob@server -s sftp" init; restic -q -r sftp:x:restic-$p -o sftp.command="$p -p 2201 bob@server -s sftp" backup d; echo $?
    ssh bob@server "rm -rf .unison"; mkdir u; unison u ssh://bob@server/rsh -sshcmd /opt/names/$p -sshargs '-p 2201' -batch -auto -silent >/dev/null 2>&1; echo $?; ls u; rm -r u .unison
    ssh bob@server "svnadmin create svn-$p; hg init hg-$p"
    SVN_SSH="$p -p 2201" svn -q mkdir -m m svn+ssh://bob@server/home/bob/svn-$p/t; echo $?
    svn ls --config-option config:tunnels:fast="$p -p 2201" svn+fast://bob@server/home/bob/svn-$p; hg -q clone --config ui.ssh="$p" ssh://bob@server:2201/hg-$p h; echo $?; rm -r h
    CVS_RSH=/opt/names/$p cvs -Q -d :ext:bob@server:/home/bob/cvs-$p init; echo $?
    scp -q -S /opt/names/$p -P 2201 d/a bob@server:copied; echo $?; echo 'ls -1 copied' | sftp -q -b - -S /opt/names/$p -P 2201 bob@server; echo $?
done 2>&1 | grep -v '^$\|^IMPORTANT\|^Use "borg\|^By default\|borg key\|borg config\|space\|tmp_dir\|^repos'
"#,
        sees: &["== lhssh\n0\n0\n"],
        ends: Ends::Client,
        ..RECIPE
    }
    .run();
}

/// Hosts that are reached in parallel, by other programs' names for `ssh` and with options of their own.
#[test]
fn parallel_shells_with_another_program() {
    Recipe {
        tools: &["parallel", "pdsh", "clush", "nodeset"],
        setup: OTHER_NAMES,
        client: r#"
export PATH=$PATH:/opt/names
mkdir .parallel
touch .parallel/will-cite
parallel -k --ssh lhssh -S 'bob@server,bob@inner' 'echo {}; exit {}' ::: 0 1 </dev/null; echo $?
PARALLEL_SSH='fast-ssh -p 2201' parallel -k -S bob@server 'echo {} ${SSH_CONNECTION##* }' ::: a </dev/null; echo $?
parallel -k -S '2/lhssh -p 2201 bob@server' 'echo {} ${SSH_CONNECTION##* }' ::: b </dev/null; echo $?
parallel --ssh plain -k -S bob@server --pipe -N2 --block 1k 'tr a-z A-Z' < <(printf 'a\nb\nc\n'); echo $?
PDSH_SSH_ARGS='-2 -a -x -p 2201 -l%u %h' pdsh -R ssh -l bob -w server,localhost 'id -un' 2>&1 | sort
PDSH_SSH_ARGS_APPEND='-q -o BatchMode=yes' pdsh -R ssh -l bob -w server 'id -un; kill -9 $$' 2>&1; echo $?
pdsh -R ssh -l bob -w server,nosuch.invalid -f 1 true 2>&1 | sort; echo $?
clush -l bob -w server -o '-p 2201' 'echo ${SSH_CONNECTION##* }'; echo $?
printf 'one\n' | clush -l bob -w server,inner -b 'cat; exit 3' 2>&1; echo $?
printf '[Main]\nssh_path: lhssh\nssh_options: -p 2201\n' >clush.conf
clush --conf=clush.conf -l bob -w server 'echo ${SSH_CONNECTION##* }'; echo $?
"#,
        sees: &["0\n1\n1\n", "server: bob\n"],
        ..RECIPE
    }
    .run();
}

/// What TRAMP sends to a shell at a terminal before it is ready: it waits for prompts, sets the terminal, and
/// puts files by base64.
#[test]
fn tramp_s_first_words() {
    Recipe {
        tools: &["expect", "base64"],
        client: r##"
cat >tramp <<'E'
set timeout 30
log_user 0
proc fail {what} { puts "no $what"; exit 1 }
proc prompt {} { global expect_out; expect -re "///prompt#\\$ " {} timeout { fail prompt } eof { fail end } }
proc ask {line} { global expect_out; send "$line\r"; prompt; puts [string trim [string map {\r {} "///prompt#$ " {}} $expect_out(buffer)]] }
spawn env TERM=dumb ssh -q -l bob -o ControlMaster=auto -o ControlPath=tramp.%C -o ControlPersist=no -e none server
expect -re {[#$>] *$} {} timeout { fail shell }
send "exec env TERM='dumb' INSIDE_EMACS='29.1,tramp:2.6.0' ENV='' HISTFILE=~/.tramp_history PROMPT_COMMAND='' PS1='///prompt#\\$ ' PS2='' PS3='' /bin/sh -i\r"
prompt
send "stty -inlcr -onlcr -echo kill '^U' erase '^H'\r"
prompt
ask "echo foo"
ask {(cd / ; pwd) && echo "tramp_exit_status $?"}
ask "stty -a | grep -o -e '-onlcr' -e '-echo ' -e 'kill = ^U' -e 'erase = ^H'"
ask "stty tostop; (set -o | grep history) >/dev/null; echo \$TERM"
set data [exec head -c 6000 /dev/zero | tr "\\0" "\\351" | base64]
send "base64 -d >uploaded <<'EOF-TRAMP'\r"
foreach line [split $data "\n"] { send "$line\r" }
ask "EOF-TRAMP"
ask "md5sum <uploaded; wc -c <uploaded"
ask "(ls -lnd uploaded | cut -c1-10; echo tramp_exit_status \$?)"
ask "base64 <uploaded | tail -1"
send "sleep 60\r"
exec eventually pgrep -u bob -x sleep
send "\003"
prompt
send "exit\r"
expect eof
puts [lindex [wait] 3]
E
timeout 60 expect tramp; echo $?
"##,
        sees: &["foo\n/\ntramp_exit_status 0\n", "6000\n"],
        ..RECIPE
    }
    .run();
}

/// vim reads, changes and writes files, and lists a directory, by `scp` and `sftp`.
#[test]
fn vim_edits_files_at_addresses() {
    Recipe {
        tools: &["vim", "/usr/share/vim/vim90/plugin/netrwPlugin.vim"],
        setup: r#"
mkdir /home/bob/d
printf 'one\ntwo\n' >/home/bob/d/f
echo z >'/home/bob/d/g h'
chown -R bob: /home/bob/d
"#,
        client: r#"
edit() { timeout 30 vim -Nes -u NONE -i NONE --cmd 'runtime plugin/netrwPlugin.vim' "$@" </dev/null >/dev/null 2>&1; echo "= $?"; }
for s in scp sftp; do
    rm -f here
    edit -c "silent e $s://bob@server/d/f" -c "%s/two/$s/" -c 'silent w' -c 'w! here' -c 'qa!'
    cat here
    edit -c "silent e $s://bob@server:22//home/bob/d/f" -c "normal Goend" -c 'silent w' -c 'qa!'
    ssh bob@server cat d/f
done
edit -c 'silent e scp://bob@server/d/' -c 'w! listed' -c 'qa!'
grep -v '^"' listed | grep -o 'f$\|g h$'
"#,
        sees: &["= 0\none\nscp\n"],
        ends: Ends::Client,
        ..RECIPE
    }
    .run();
}

/// Shells that terminals and editors send along: `-t` with a script, at a terminal and without one.
#[test]
fn shells_sent_along_by_terminals_and_editors() {
    Recipe {
        tools: &["script", "expect"],
        client: r#"
# script types an end of file, whose echo comes at any time.
shown() { tr -d '\r\000' | sed 's/\^@//g'; }
boot='exec sh -c "cd /; printf \"%s\\n\" \"kit: \$0 \$(pwd) \$(tty | cut -c1-8) \$TERM\"; exec \"\$SHELL\" -c \"id -un; exit 7\""'
for t in -t -tt -T; do
    timeout 30 script -qec "stty rows 33 cols 77; ssh $t bob@server '$boot'" /dev/null </dev/null | shown; echo "${PIPESTATUS[0]}"
    timeout 30 ssh $t bob@server "$boot" </dev/null 2>/dev/null | tr -d '\r'; echo "${PIPESTATUS[0]}"
done
timeout 30 script -qec "stty rows 33 cols 77; ssh -t bob@server stty size; stty size; stty -a | grep -o ' -\\?icanon\\| -\\?echo '" /dev/null </dev/null | shown
echo 'echo from the pipe; tty' | timeout 30 ssh -T bob@server sh -s -- a b; echo $?
echo 'echo "$1 $2"' | timeout 30 ssh bob@server 'sh -s -- a b'; echo $?
cat >keys <<'E'
set timeout 20
log_user 0
spawn ssh -t bob@server {stty -echo; printf "ready\n"; read x; echo "got $x"; read y; stty size; printf "sleeps\n"; exec sleep 100}
expect ready
send "a\tb\r"
expect "got a\tb"
stty rows 20 columns 70 < $spawn_out(slave,name)
send "line\r"
expect "20 70" { puts resized } timeout { puts "old size" }
expect sleeps
send "\003"
expect eof
puts [lindex [wait] 3]
E
timeout 60 expect keys
"#,
        sees: &["kit: sh / /dev/pts xterm\nbob\n7\n", "33 77", "resized\n255\n"],
        ..RECIPE
    }
    .run();
}

/// What git shows where the private key of a signature is missing, unreadable or of others.
#[test]
fn signatures_without_a_private_key() {
    Recipe {
        client: r#"
ssh-keygen -q -t ecdsa -N '' -f ec -C ec
cp ec.pub lonely.pub
cp ec.pub open; chmod 644 open
cp ec.pub public; chmod 600 public
cp ec unread; cp ec.pub unread.pub; chmod 0 unread
cp ec.pub other.pub; cp .ssh/id_ed25519 other
ssh-keygen -q -t ed25519 -N secret -f locked -C locked
echo data >f
sign() { for key; do echo "== $key"; rm -f f.sig; ssh-keygen -Y sign -n file -f $key f </dev/null; echo $?; done; }
{
    sign lonely.pub lonely open public unread unread.pub other.pub nosuch /dev/null locked
    eval $(ssh-agent) >/dev/null
    sign lonely.pub public other.pub
    ssh-add -q ec
    sign lonely.pub public other.pub
    ssh-agent -k >/dev/null
} 2>&1
"#,
        sees: &["No private key found for public key \"lonely.pub\"\n255\n", "No private key found for \"public\"\n"],
        ends: Ends::Client,
        ..RECIPE
    }
    .run();
}

/// Words of `sshd -C` that are wrong are told before anything else is looked at: `sshd` answers users, who
/// may not read the host keys, too.
#[test]
fn mistakes_in_connections_to_test() {
    Recipe {
        client: r#"
for words in 'user' user=bob,host foo bob user=bob,foo=a lport=x; do
    for mode in -T '-p 2299'; do /usr/sbin/sshd $mode -C $words; echo $?; done
done 2>&1
/usr/sbin/sshd -C user=bob 2>&1; echo $?
"#,
        sees: &["Invalid test mode specification user\n1\n", "provided without test mode (-T)\n255\n"],
        ends: Ends::Server,
        ..RECIPE
    }
    .run();
}
