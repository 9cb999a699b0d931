//! Recipes for messages that scripts and users search for: the server's restrictions in the output of `-v`,
//! and refused tokens.

use lh_interop::recipe::{Ends, RECIPE, Recipe};

/// `-v` shows what the server says of an accepted key: which options it has, and where its line stands. A
/// client that signs at once gets the lines once, one that asks first whether the key will do gets them
/// twice.
#[test]
fn options_of_keys_shown_by_verbose_clients() {
    Recipe {
        server: "PermitUserEnvironment yes",
        setup: r#"
n=0
while read -r o; do n=$((n+1)); account k$n 270$n; { echo '# options'; echo "$o $(cat /world/authorized_keys)" | sed 's/^ //'; } >/home/k$n/.ssh/authorized_keys; done <<'E'

command="echo forced"
from="127.0.0.1"
no-pty
restrict
restrict,pty
environment="A=b"
permitopen="x:1",permitlisten="22"
tunnel="3"
expiry-time="20380101"
E
"#,
        client: r#"
for n in {1..10}; do
    echo "== $n"
    ssh -v -tt k$n@server true </dev/null 2>err >/dev/null; echo $?
    grep -a '^debug1: Remote: ' err | tr -d '\r' | awk '!seen[$0]++'
    ssh -o LogLevel=VERBOSE k$n@server true 2>&1 | grep -c Remote
done
"#,
        differs: &[("agent-forwarding expires", "agent-forwardingexpires", "a blank that sshd 9.2 leaves out")],
        sees: &["debug1: Remote: /home/k4/.ssh/authorized_keys:2: key options: agent-forwarding port-forwarding user-rc x11-forwarding\n"],
        ..RECIPE
    }
    .run();
}

/// Copies with `-v` show it too, over SFTP and over the old protocol.
///
/// Covers: scp -v; sftp -v
#[test]
fn options_of_keys_shown_by_verbose_copies() {
    Recipe {
        setup: r#"
account copier 2710
{
    echo '# options'
    echo "no-pty $(cat /world/authorized_keys)"
} >/home/copier/.ssh/authorized_keys
"#,
        client: r#"
echo text >f
shown() { grep -a '^debug1: Remote: ' err | tr -d '\r' | awk '!seen[$0]++'; }
for c in 'scp -v f copier@server:g' 'scp -O -v f copier@server:h' 'scp -v copier@server:g i' 'sftp -v -b /dev/null copier@server' 'scp f copier@server:j'; do
    echo "== $c"
    $c </dev/null 2>err >/dev/null; echo $?
    shown
done
"#,
        sees: &["== sftp -v -b /dev/null copier@server\n0\ndebug1: Remote: /home/copier/.ssh/authorized_keys:2: key options: agent-forwarding port-forwarding user-rc x11-forwarding\n"],
        ..RECIPE
    }
    .run();
}

/// Tokens that a keyword does not take, and percent signs at an end. OpenSSH names its
/// functions, ours the keyword and the line.
#[test]
fn tokens_that_keywords_do_not_take() {
    Recipe {
        client: r#"
words() {
    tr -d '\r' |
        sed -E -e 's/^[A-Za-z_]+(:|-ORDER) (unknown key|invalid format)/\2/' -e '/^percent_(dollar_)?expand: failed$/d' -e '/^KnownHostsCommand failed$/d' -e '/^c line 1: Bad Match/d' -e '/^c: terminating/d'
}
for k in 'ProxyCommand=/bin/echo' LocalCommand=echo RemoteCommand=echo KnownHostsCommand=/bin/echo ControlPath= IdentityFile= CertificateFile= IdentityAgent= UserKnownHostsFile= HostName= LocalForward=/tmp/x RemoteForward=/tmp/x; do
    for t in %z %T %f %n%; do
        v=${k#*=}
        c=true
        case $k in RemoteC*) c=;; esac
        echo "== ${k%%=*} $t"
        case $k in *=/tmp/x) a="$k$t localhost:1";; *=) a=$k$t;; *) a="$k $t";; esac
        timeout 20 ssh -o BatchMode=yes -o PermitLocalCommand=yes -o "$a" bob@server $c </dev/null 2>&1 |
            words; echo ${PIPESTATUS[0]}
    done
done
for m in 'exec "echo %z"' 'exec "true %T"'; do
    printf 'Match %s\n  User bob\n' "$m" >c
    ssh -F c server true 2>&1 | words; echo ${PIPESTATUS[0]}
done
"#,
        ends: Ends::Client,
        sees: &["unknown key %z"],
        ..RECIPE
    }
    .run();
}

/// Titles of the server's processes, by which administrators find whose session one serves. The process that
/// keeps PAM's session open is ours alone.
#[test]
fn server_processes_are_found_by_their_titles() {
    Recipe {
        client: r#"
titles() { ps axo user,comm,args | sed -E -n '/ sshd: (.*@|.*\[priv\])|-session: .*(@|\[priv\])/s/(lh)?sshd(-session)?/sshd/gp' | tr -s ' ' | grep -v sed; }
all="$(declare -f titles); titles; tty; ps -o comm= -p \$PPID | sed -E 's/(lh)?sshd(-session)?/sshd/'"
ssh bob@server "$all" </dev/null
ssh -tt bob@server "$all" </dev/null
sftp -q -b - bob@server <<<'!eventually pgrep -f "sshd(-session)?: bob@notty" && pgrep -c -u bob sshd'
ssh -fMN -S c bob@server
ssh -S c bob@server 'pgrep -cxf "(lh)?sshd(-session)?: bob@notty *"'
ssh -S c -O exit x
"#,
        sees: &["root sshd sshd: bob [priv]\nbob sshd sshd: bob@pts/0\n/dev/pts/0\nsshd\n"],
        ends: Ends::Server,
        ..RECIPE
    }
    .run();
}

/// `-v` beside `-G` tells which blocks of the configuration apply, and `-vvv` why others do not. Ours
/// shows a criterion's pattern, OpenSSH the text that it looks at.
///
/// Covers: ssh -G
#[test]
fn verbose_configuration_tells_which_blocks_apply() {
    Recipe {
        config: r#"
Include conf.d/*.conf
Include nothing/*
Match host server exec "test -f yes"
  User bob
Match user bob !host server
  Port 23
Host *.example.org !inner.example.org
  Port 22
"#,
        client: r#"
touch yes
mkdir .ssh/conf.d
printf '%s\n' 'Host x' 'Port 24' >.ssh/conf.d/a.conf
for host in server server.example.org inner.example.org; do
    for flag in -v -vvv; do
        echo "== $flag $host"
        ssh -G $flag $host 2>&1 >/dev/null | grep -a '^debug' |
            grep -aE 'Reading|Applying|Skipping|matched|checking match|match (not )?found|Executing' |
            tr -d '\r' | sed -E -e "s/[\"']//g" -e '/^debug3/s/(matched !?[a-z]+) .*/\1/'
    done
done
for words in 'ssh://server:6 -p 5' '-p 5 ssh://server:6' 'ssh://bob@server:6 -l me -o Port=7'; do
    ssh -G $words 2>/dev/null | grep -E '^(user|port) '
done
"#,
        sees: &["port 6\n", "include ~/.ssh/nothing/* matched no files\n"],
        ends: Ends::Client,
        ..RECIPE
    }
    .run();
}
