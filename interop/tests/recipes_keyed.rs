//! Recipes for accounts: options of keys, files that a login runs and reads, lists of users, mistakes that
//! `sshd -t` reports.

use lh_interop::recipe::{Ends, RECIPE, Recipe};

/// Options of `authorized_keys` with dates, variables, addresses, and mistakes in them.
///
/// Covers: authorized_keys expiry-time; authorized_keys environment; authorized_keys from; authorized_keys restrict
#[test]
fn key_options_with_dates_variables_and_mistakes() {
    Recipe {
        server: "PermitUserEnvironment LANG,MY_*\nLogLevel VERBOSE",
        client: r#"
k=$(cut -d' ' -f1,2 .ssh/id_ed25519.pub)
IFS=$'\n'
for o in 'expiry-time="20990101"' 'expiry-time="20200101"' 'expiry-time="202001011200Z"' 'expiry-time="20990101Z"' 'expiry-time="tomorrow"' 'environment="MY_A=1",environment="MY_A=2",environment="OTHER=3",environment="LANG=x"' 'environment="MY A=1"' 'environment="MY_A"' 'from="10.0.0.0/8,127.*"' 'from="!127.0.0.1,*"' 'from="127.0.0.0/8"' 'from="127.0.0.1/8"' 'from="server.example.org"' 'from=""' 'restrict' 'restrict,pty' 'RESTRICT' 'no-pty' 'command="echo \"in quotes\" $MY_A"' 'command="one",command="two"' 'nonsense' 'command="open' 'no-pty no-X11-forwarding' 'tunnel="1"' 'permitopen="nonsense"' 'permitlisten="22"' 'no-touch-required' 'verify-required' 'principals="bob"' 'user-rc,agent-forwarding' '  no-pty' '# comment'; do
    echo "== $o"
    echo "$o $k" >list
    echo "$o" | grep -q '^ ' && echo "$o $k c" >list
    put list
    ssh -o BatchMode=yes -tt bob@server 'echo "$MY_A $LANG $OTHER"; tty >/dev/null && echo tty' 2>&1 </dev/null |
        tr -d '\r' | grep -v '^Connection to'; echo ${PIPESTATUS[0]}
done
"#,
        setup: r#"
printf '#!/bin/sh\ncat "$1" >/home/bob/.ssh/authorized_keys\n' >/usr/local/bin/put
chmod 755 /usr/local/bin/put
chmod 666 /home/bob/.ssh/authorized_keys
chmod 711 /home/bob /home/bob/.ssh
echo 'StrictModes no' >/etc/ssh/sshd_config.d/modes.conf
"#,
        look: "grep -o 'Authentication tried.*' /var/log/sshd.log",
        sees: &["== expiry-time=\"20990101\"\n"],
        ends: Ends::Server,
        ..RECIPE
    }
    .run();
}

/// Keys and certificates that options refuse: which lines the log has at each level.
///
/// Covers: sshd_config LogLevel; sshd_config TrustedUserCAKeys; sshd_config AuthorizedPrincipalsFile; authorized_keys cert-authority
#[test]
fn refused_keys_and_certificates_are_logged_as_by_sshd() {
    Recipe {
        server: r#"
Port 22
Port 2201
Port 2202
Port 2203
Match LocalPort 2201
  LogLevel ERROR
Match LocalPort 2202
  LogLevel VERBOSE
Match LocalPort 2203
  LogLevel DEBUG1
Match User t_*
  TrustedUserCAKeys /etc/ca.pub
Match User t_from,t_none,t_bad,t_force,t_first
  AuthorizedPrincipalsFile /srv/principals/%u
Match User algorithm
  PubkeyAcceptedAlgorithms ecdsa-sha2-nistp256
Match User revoked
  RevokedKeys /srv/plain.pub
"#,
        setup: r#"
ssh-keygen -q -t ed25519 -N '' -f /etc/ca
ca=$(cut -d' ' -f1,2 /etc/ca.pub)
k=$(cut -d' ' -f1,2 /home/me/.ssh/id_ed25519.pub)
id=2100
mkdir /srv/principals
cp /home/me/.ssh/id_ed25519.pub /srv/plain.pub
user() { id=$((id + 1)); account $1 $id; printf "$2" >/home/$1/.ssh/authorized_keys; }
user from "from=\"10.0.0.1\" $k\n"
user expired "expiry-time=\"20200101\" $k\n"
user odd "nonsense $k\n"
user named "principals=\"a\" $k\n"
user second "from=\"10.0.0.1\" $k\n$k\n"
user algorithm "$k\n"
user revoked "$k\n"
for u in c_address c_name c_late c_critical c_force c_ok; do
    user $u "cert-authority,command=\"/bin/date\" $ca\n"
done
user c_from "cert-authority,from=\"10.0.0.1\" $ca\n"
user c_principals "cert-authority,principals=\"zoe\" $ca\n"
user c_expired "cert-authority,expiry-time=\"20200101\" $ca\n"
for u in t_address t_name t_late t_critical t_from t_none t_bad t_force t_first; do user $u ''; done
cd /srv/principals
echo 'from="10.0.0.1" all' >t_from
echo zoe >t_none
echo 'nonsense all' >t_bad
echo 'command="/bin/date" all' >t_force
printf 'from="10.0.0.1" all\nall\n' >t_first
cd /
sign() {
    name=$1
    shift
    cp /srv/plain.pub /srv/$name.pub
    ssh-keygen -q -s /etc/ca -I $name "$@" /srv/$name.pub
}
all=all,c_address,c_late,c_critical,c_force,c_ok,c_from,c_principals,c_expired,t_address,t_late,t_critical
sign ok -n $all
sign address -n $all -O source-address=10.9.9.9/32
sign name -n other
sign late -n $all -V 20200101:20200102
sign critical -n $all -O critical:foo@bar=x
sign force -n $all -O force-command=/bin/true
chmod 644 /srv/*.pub
"#,
        client: r#"
for p in 22 2201 2202 2203; do
    for u in from expired odd named second algorithm revoked; do
        ssh -p $p -o BatchMode=yes $u@server true 2>/dev/null
        echo "$p $u $?"
    done
    for u in c_address c_name c_late c_critical c_force c_ok c_from c_principals c_expired t_address t_name t_late t_critical t_from t_none t_bad t_force t_first; do
        c=${u#?_}
        [ -e /srv/$c-cert.pub ] || c=ok
        ssh -p $p -o BatchMode=yes -o CertificateFile=/srv/$c-cert.pub $u@server true 2>/dev/null >&2
        echo "$p $u $?"
    done
done
"#,
        look: r#"
sed -E 's/ port [0-9]+/ port N/g; s/SHA256:[^ ]*/FP/g' /var/log/sshd.log |
    grep -E '^(Connection from|Refused|Certificate|Invalid cert|forced command|Authentication key|userauth|/[^ ]+:|cert: Auth|principals: Auth|Accepted|debug1: [^ ]+: (matching|entry expired|bad |principals on)|debug1: trying authorized principals)'
"#,
        sees: &["Refused by key options\n", "Refused by certificate principals options\n", "debug1: /home/expired/.ssh/authorized_keys:1: entry expired at 2020-01-01T00:00:00\n"],
        ends: Ends::Server,
        ..RECIPE
    }
    .run();
}

/// Files that a login runs and reads: `/etc/ssh/sshrc`, `~/.ssh/rc`, `~/.ssh/environment`, with output and
/// mistakes.
///
/// Covers: sshd_config PermitUserRC; sshd_config PermitUserEnvironment
#[test]
fn files_that_a_login_runs_and_reads() {
    Recipe {
        server: "PermitUserEnvironment yes\nMatch User ann\n  PermitUserRC no",
        setup: r#"
account ann 2003
for u in bob ann; do
    printf 'A=1\n# B=2\n\n C=3\nD=x y\nPATH=/usr/bin:/bin:/opt\nHOME=/else\n' >/home/$u/.ssh/environment
    echo 'echo "rc of $USER: $SSH_ORIGINAL_COMMAND $A"; cat; echo err >&2; exit 9' >/home/$u/.ssh/rc
    chown $u: /home/$u/.ssh/*
done
echo 'echo "system rc"' >/etc/ssh/sshrc
"#,
        client: r#"
for u in bob ann; do
    echo "== $u"
    ssh $u@server 'echo "$A $B $C $D $E $HOME $PATH"; cat' <<<in; echo $?
    ssh -tt $u@server 'id -un' </dev/null 2>/dev/null | tr -d '\r'
done
ssh bob@server 'rm .ssh/rc'
ssh bob@server 'rm /home/bob/.ssh/rc; echo done'
ssh bob@server true; echo $?
ssh ann@server true
"#,
        sees: &["== bob\n"],
        ends: Ends::Server,
        ..RECIPE
    }
    .run();
}

/// Bad lines of `~/.ssh/environment`: which sessions are told, in which words, and what counts of the rest.
///
/// Covers: sshd_config PermitUserEnvironment
#[test]
fn bad_lines_of_a_user_s_environment_file() {
    Recipe {
        server: "PermitUserEnvironment A*,B\nSubsystem part /usr/bin/printenv A",
        setup: r#"
printf 'A=1\n\n \tbad line\nB=\377\nC\000=1\n# c\nworse' >/home/bob/.ssh/environment
chown bob: /home/bob/.ssh/environment
"#,
        client: r#"
for t in -T -tt; do
    echo "== $t"
    ssh $t bob@server 'echo "$A $B" | od -c; tty >/dev/null && echo tty; exit 3' </dev/null 2>told |
        tr -d '\r'; echo "${PIPESTATUS[0]}"
    sort told | grep -v Connection
done
ssh bob@server -s part </dev/null; echo $?
echo ls | sftp -q -b - bob@server
ssh bob@server 'yes X=1 | head -1001 >.ssh/environment'
ssh bob@server 'echo runs'; echo $?
ssh bob@server -s part </dev/null; echo $?
"#,
        look: "grep -o 'Too many lines.*' /var/log/sshd.log",
        sees: &["Bad line 3 in /home/bob/.ssh/environment\n"],
        ends: Ends::Server,
        ..RECIPE
    }
    .run();
}

/// Lists of people with hosts, groups of several kinds, and a login that every list has something to say
/// about.
///
/// Covers: sshd_config AllowUsers; sshd_config DenyGroups; sshd_config DenyUsers
#[test]
fn people_listed_with_hosts_and_groups() {
    Recipe {
        server: r#"
LogLevel VERBOSE
Match LocalPort 22
  AllowUsers bob@127.0.0.1 ann@127.0.0.0/30 c* !carl root@10.0.0.0/8
  DenyGroups wheel no*
Match Address 127.0.0.2
  DenyUsers *@127.0.0.2
"#,
        setup: r#"
account ann 2003
account carl 2004
account chris 2005
account cora 2006
account dora 2007
group wheel 3001 chris
group nobodies 3002 cora
printf '#!/bin/sh\nexit 0\n' >/usr/local/bin/sh1
chmod 755 /usr/local/bin/sh1
account eve 2008 /home/eve /usr/sbin/nologin
account cut 2009 /home/cut /nosuch
account cal 2010 /home/cal /usr/local/bin/sh1
"#,
        client: r#"
for a in 127.0.0.1 127.0.0.2 127.0.0.9; do
    for u in bob ann carl chris cora dora eve cut cal nosuch root; do
        ssh -o BatchMode=yes -b $a $u@127.0.0.1 'id -un' 2>/dev/null
        echo "$u from $a: $?"
    done
done
"#,
        look: r#"
sed -E 's/port [0-9]+/port N/g; s/SHA256:[^ ]*/FP/' /var/log/sshd.log |
    grep 'not allowed\|Invalid\|Accepted key\|Accepted pub'
"#,
        sees: &["bob from 127.0.0.1: 0\n"],
        ends: Ends::Server,
        ..RECIPE
    }
    .run();
}

/// Mistakes in `sshd_config`, one by one, and what `sshd -t` says about each: administrators and tools read
/// it before a reload.
///
/// Covers: sshd -t; sshd -T; sshd -C; sshd -o
#[test]
fn mistakes_that_the_test_of_the_server_s_file_tells() {
    Recipe {
        setup: r#"
cd /tmp
while IFS= read -r l; do echo "== $l"; printf '%b\n' "$l" >c; r=0; /usr/sbin/sshd -t -f c || r=$?; echo $r; done >/srv/told 2>&1 <<'E'
Port 0x16
Port 70000
Port
PermitRootLogin maybe
Nonsense yes
PermitRootLogin yes no
UseDNS
MaxAuthTries x
MaxAuthTries -1
ListenAddress
ListenAddress 1.2.3.4:x
ListenAddress [::1
Subsystem sftp
Subsystem sftp a\\nSubsystem sftp b
Match
Match User
Match Nonsense x
Match User bob\\nPort 22
Match User bob\\n  Nonsense
Match Address 1.2.3.4/99
Ciphers none-such
Ciphers +none-such
Ciphers -aes128-ctr
MACs
KexAlgorithms x,y
HostKeyAlgorithms ssh-foo
HostKey /nosuch
AuthorizedKeysCommand relative
AuthorizedKeysCommand /bin/true
ForceCommand
ChrootDirectory relative
LoginGraceTime 1x
ClientAliveInterval 99999999999
MaxStartups 1:2
MaxStartups 5:50:1
AuthenticationMethods nonsense
AuthenticationMethods publickey,
AuthenticationMethods any publickey
Include
Include /nosuch/*.conf
Banner none
SetEnv X
SetEnv X=1 X=2
AcceptEnv =
PermitOpen x
PermitListen x:y
IPQoS x
RekeyLimit x
RekeyLimit 1G 1h x
LogLevel LOUD
SyslogFacility X
TrustedUserCAKeys /nosuch
AllowUsers
UsePAM "yes
Protocol 2
UsePrivilegeSeparation yes
KeyRegenerationInterval 3600
RSAAuthentication yes
Compression maybe
XAuthLocation relative
VersionAddendum a b
PidFile
StreamLocalBindMask 999
AllowTcpForwarding perhaps
Port 22 # words
Port=22
\tPort\t=\t22
port 22\r
E
cd /
"#,
        client: "cat /srv/told",
        look: r#"
/usr/sbin/sshd -T -C user=bob,host=x,addr=1.2.3.4 | grep -c .  | sed 's/.*/lines/'
/usr/sbin/sshd -T -C nonsense=1; echo $?
/usr/sbin/sshd -T -C user= | grep -c . | sed 's/^[1-9].*/lines/'
for o in Nonsense=1 Port 'Port 1 2' 'Banner "x' Port=x 'Match User bob' 'Include /nosuch' 'AuthorizedKeysCommand /bin/true' 'Ciphers x' 'ListenAddress 1.2.3.4.5'; do
    echo "-o $o"
    /usr/sbin/sshd -t -o "$o"; echo $?
done
/usr/sbin/sshd -t -p x; echo $?
/usr/sbin/sshd -t -g x; echo $?
for f in -t -T -D; do /usr/sbin/sshd $f -f /nosuch; echo $?; done
/usr/sbin/sshd -t extra; echo $?
printf 'HostKey /nosuch\n' >/tmp/none
/usr/sbin/sshd -t -f /tmp/none 2>/dev/null; echo $?
/usr/sbin/sshd -D -f /tmp/none 2>/dev/null; echo $?
printf 'PasswordAuthentication no\nAuthenticationMethods publickey,password\n' >/tmp/none
/usr/sbin/sshd -t -f /tmp/none; echo $?
/usr/sbin/sshd -h /nosuch -t; echo $?
/usr/sbin/sshd -t -q; echo $?
cd /tmp
/usr/sbin/sshd -t -f c; echo $?
"#,
        sees: &["== Nonsense yes\n"],
        differs: &[
            ("host key \"/nosuch\": No such file or directory", "host key: /nosuch", "says why"),
        ],
        ends: Ends::Server,
        ..RECIPE
    }
    .run();
}

/// `su` on a session's terminal with a typed password, sizes and names of terminals, and jobs that a
/// terminal's end takes along.
///
/// Covers: wire pty-req; ssh -t; sshd_config PermitTTY
#[test]
fn su_on_a_session_s_terminal() {
    Recipe {
        tools: &["expect", "su"],
        setup: "account ann 2003",
        config: "Host *\n  User bob\n",
        client: r#"
cat >ex <<'E'
set timeout 60
log_user 0
spawn ssh -t server {su - ann -c 'id -un; tty | cut -c1-9; exit 5'}
expect assword:
send "correct horse battery\r"
expect eof
puts $expect_out(buffer)
puts [lindex [wait] 3]
spawn ssh -t server {su - ann -c id}
expect assword:
send "wrong\r"
expect eof
puts $expect_out(buffer)
puts [lindex [wait] 3]
spawn ssh -t server {stty size; until stty size | grep -x '33 99'; do sleep 0.1; done; read x; stty -a | grep -o 'intr = ..'; exit 3}
expect "0 0"
stty rows 33 columns 99 <$spawn_out(slave,name)
expect "33 99"
send "\r"
expect eof
puts $expect_out(buffer)
puts [lindex [wait] 3]
spawn ssh -t server {echo begun; sleep 30; echo late}
expect begun
send "\003"
expect eof
puts $expect_out(buffer)
puts [lindex [wait] 3]
E
expect ex | tr -d '\r'
ssh server 'su - ann -c id' </dev/null 2>&1; echo $?
ssh -tt server 'nohup sleep 3 >/dev/null 2>&1 & echo started' </dev/null 2>/dev/null | tr -d '\r'
ssh server 'sleep 3 >/dev/null 2>&1 </dev/null & echo started'
ssh server 'setsid sh -c "sleep 1; echo w >late" </dev/null >/dev/null 2>&1 &'; echo $?
ssh server 'eventually test -s late; cat late'
"#,
        sees: &["ann\n/dev/pts/\n"],
        ends: Ends::Each,
        pam: true,
        ..RECIPE
    }
    .run();
}
