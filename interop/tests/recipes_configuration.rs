//! Output of `ssh -G`, compared with OpenSSH 9.2: lines that differ from the defaults, messages, exit status.
//! For every keyword with usual, odd and wrong values, conditions, included files, patterns and tokens.

use lh_interop::recipe::{Ends, RECIPE, Recipe};

/// Shell functions of the recipes here. `ask CONFIGURATION [OPTION…]` prints what a configuration (`%b` of
/// `printf`) does to `ssh -G h`, with `told` behind it: the lines that the defaults lack, the keywords that
/// only the defaults have (with `-`), messages and a status other than 0. OpenSSH's names of functions and
/// our names of keywords in front of a message about a token are left out, and so is what OpenSSH says while
/// it prints a configuration: that there will be no terminal, that the socket of another agent is not there,
/// debugging messages.
const ASK: &str = r#"
ask() {
    if on_purpose "$1${2:+ [${*:2}]}"; then return; fi
    printf '%b\n' "$1" >conf
    printf '== %s\n' "$1${2:+ [${*:2}]}" >>asked
    ssh -G -F conf "${@:2}" h >>asked 2>&1
    echo "rc $?" >>asked
}
told() {
    ssh -G -F /dev/null h >defaults 2>/dev/null
    tr -d '\r' <asked | sed -E -e '/^(percent_dollar_expand|percent_expand): failed$/d' \
        -e '/^Pseudo-terminal will not be|^Cannot forward agent socket path|^debug[123]: /d' \
        -e 's/^(vdollar_percent_expand|Hostname|IdentityAgent|[A-Za-z]+File): (unknown key|invalid format|tilde_expand|env|environment)/\2/' |
        awk 'NR == FNR { word = $1; is_default[$0]; if (!(word in set)) order[++words] = word; set[word]; next }
        /^== / { print; split("", seen); next }
        /^rc / {
            if ($2) print "status " $2
            else for (i = 1; i <= words; i++) if (!(order[i] in seen)) print "-" order[i]
            next
        }
        { seen[$1] }
        !($0 in is_default) { print }' defaults -
}
"#;

/// Differences that are meant: patterns (of the shell) of the cases that are left out here, and why.
const ON_PURPOSE: &[(&str, &str)] = &[
    ("'Compression true' | 'Compression false'", "yes and no have the same other spellings in every keyword"),
    ("'ControlPersist YES'", "as yes in every keyword, in any case"),
    ("'FingerprintHash sha1'", "sha256 and md5, as the manual page of ssh says"),
    (
        "ForkAfterAuthentication' '[yt=Y]* | *'[-f]'",
        "the configuration is printed; that a command is missing counts when it would run",
    ),
    ("ForwardX11Trusted' '* | *'[-Y]'", "Debian's default is another than OpenSSH's"),
    (
        "'StreamLocalBindMask 0x10' | 'StreamLocalBindMask 1'[.x]*",
        "a mask that is read in part would open the socket",
    ),
    ("'StreamLocalBindMask 2\\nStream'*", "the first value wins, as for every keyword"),
    (
        "'RekeyLimit '[-+]1 | 'RekeyLimit 1.5' | 'RekeyLimit 1T' | 'RekeyLimit 9999'*",
        "sizes have no signs, fractions and terabytes",
    ),
    (
        "IPQoS' \"\"' | AddKeysToAgent' \"\"' | FingerprintHash' \"\"' | ForwardAgent' \"\"'",
        "the wording of an empty value",
    ),
    (
        "CanonicalizePermittedCNAMEs' '[%$:]* | *'CNAMEs a:b' | *'CNAMEs *.a:'*",
        "the mistake is shown as it is written; a rule without a source is a mistake; why a name is unknown is not told",
    ),
    ("*KnownHostsFile' NONE'", "printed as it is written; it means none"),
    ("*' ${'* | *' %' | *'Forward /${NOSUCH}'*", "the wording about an unfinished or unset variable"),
    ("'Hostname '*[' ;$-']*", "no name of a host has such characters, wherever it comes from"),
    ("LogVerbose' '*", "our places in the source have other names, and a line may have several"),
    ("PermitRemoteOpen' '*", "mistakes end with the same summary as those of other keywords"),
    (
        "'ProxyJump '*[' \"\\/-']* | 'ProxyJump '*'\\t'* | ProxyJump\\ \\'*",
        "one name, quoted or not; more words are a mistake",
    ),
    (
        "'RemoteCommand %z' | SecurityKeyProvider' '[nN][oO]*",
        "the wording of a token; a provider called none is none",
    ),
    (
        "SetEnv' A=%h' | User' '[%$]* | RevokedHostKeys' '*",
        "tokens and variables count there, and several files, as from OpenSSH 10 on",
    ),
    (
        "*' ,' | *' *'",
        "algorithms: patterns count in every list, and an empty list is a mistake of the line that has it",
    ),
    ("'CASignatureAlgorithms ssh-ed*'", "the same"),
    (
        "*' [-'[cLRDFJs]']' | *'[-J '* | *'[-MMM]' | *'[-N]' | *'[-W/a]'",
        "usage and its order of lines; the flags that -N and -W imply",
    ),
    ("*'Forward :80'*", "an empty address is printed as *, which it means"),
    (
        "'LocalForward '*' /'* | 'LocalForward a/b c/d' | *'[-L/a:/b]' | 'LocalForward /%h/s'*",
        "ssh prints a forward to a socket a second time, as a dynamic one",
    ),
    (
        "*Forward' 80 :90' | 'RemoteForward 80:a:90'",
        "a forward has a target; a line may have the form of the flag",
    ),
    (
        "Include' '*'%'* | 'Include locked'*",
        "tokens count there, as from OpenSSH 10 on; the wording of the summary",
    ),
    ("'Match host = h'*", "a condition is a word, = and a word"),
    (
        "'Match exec \"test %z\"'* | 'Match exec \"kill'*",
        "the wording of a mistake; a killed command has failed",
    ),
    (
        "*'Foo\\nfoo \"x' | '\"Port 7' | *'\\v' | '\\0Port 7' | AFSTokenPassing*",
        "lines that are no configuration",
    ),
];

/// A recipe whose user asks with [`ASK`], all but what is [`ON_PURPOSE`].
fn asked(client: &str) -> &'static str {
    let arms: String =
        ON_PURPOSE.iter().map(|(pattern, _)| format!("        {pattern}) return 0 ;;\n")).collect();
    let on_purpose = format!("on_purpose() {{\n    case $1 in\n{arms}    esac\n    return 1\n}}\n");
    Box::leak(format!("{on_purpose}{ASK}{client}told\n").into_boxed_str())
}

/// Every keyword of ssh_config(5) of OpenSSH 9.2 that takes one word of a few, with each of these words,
/// wrong ones and none.
///
/// Covers: ssh -G
#[test]
fn keywords_with_a_word_of_a_few() {
    Recipe {
        client: asked(
            r#"
while read -r keyword words; do
    for word in $words yes no true false none '""' '"yes' YES maybe 'yes yes' 'yes # c' '=yes' '%h' '-1' "'no'"; do
        ask "$keyword $word"
    done
    ask "$keyword"
    ask "$keyword yes\n$keyword no"
done <<'E'
AddKeysToAgent ask confirm 1h confirm:1h 'confirm 1h' 0 1x
AddressFamily any inet inet6
BatchMode
CanonicalizeFallbackLocal
CanonicalizeHostname always
CheckHostIP
ClearAllForwardings
Compression
ControlMaster auto ask autoask
ControlPersist 0 10m 1x
EnableEscapeCommandline
EnableSSHKeysign
EscapeChar ~ ^A ^ ab
ExitOnForwardFailure
FingerprintHash md5 sha256 sha1
ForkAfterAuthentication
ForwardAgent $X /a ~/a
ForwardX11
ForwardX11Trusted
GatewayPorts
HashKnownHosts
HostbasedAuthentication
IdentitiesOnly
KbdInteractiveAuthentication
LogLevel QUIET quiet FATAL ERROR INFO VERBOSE DEBUG DEBUG1 DEBUG2 DEBUG3 DEBUG4
NoHostAuthenticationForLocalhost
PasswordAuthentication
PermitLocalCommand
ProxyUseFdpass
PubkeyAuthentication unbound host-bound
RequestTTY auto force
SessionType default subsystem
StdinNull
StreamLocalBindUnlink
StrictHostKeyChecking ask accept-new off
SyslogFacility AUTH auth USER DAEMON LOCAL0 LOCAL7 LOCAL8
TCPKeepAlive
Tunnel point-to-point ethernet
UpdateHostKeys ask
VerifyHostKeyDNS ask
VisualHostKey
E
"#,
        ),
        sees: &["== BatchMode maybe\n"],
        differs: &[
            ("", "conf line 1: unsupported option \"\".\n", "ssh says twice that a value is empty"),
            ("", "serveraliveinterval 300\n", "Debian's ssh sets it with BatchMode"),
        ],
        ends: Ends::Client,
        ..RECIPE
    }
    .run();
}

/// Every keyword that takes a number, a time, a size or a mask.
///
/// Covers: ssh -G
#[test]
fn keywords_with_a_number() {
    Recipe {
        client: asked(
            r#"
while read -r keyword values; do
    for value in $values 0 1 -1 +1 007 0x10 2147483647 2147483648 99999999999999999999 1.5 1x x none no '""' '"1' '1 2' ' 1 # c' '=1'; do
        ask "$keyword $value"
    done
    ask "$keyword"
    ask "$keyword 2\n$keyword 3"
done <<'E'
CanonicalizeMaxDots
ConnectionAttempts
ConnectTimeout 1m 1h30m 1h30 1d 1w 1M 60s 5s5s
ForwardX11Timeout 1m 1h30m 4w 1D
NumberOfPasswordPrompts
Port 22 65535 65536 ssh nosuch
RequiredRSASize 1024 2048
ServerAliveCountMax
ServerAliveInterval 1m 1h
StreamLocalBindMask 0177 0777 01000 888 77
RekeyLimit default 1K 16 15 1G 4G 1T 500M "'1G 1h'" "'default none'" "'default 1h'" "'1G none'" "'1G 1x'" "'default default'" "'1G 1h 1'"
TunnelDevice any any:any 1:2 1:any any:3 a:1 :1 1:
IPQoS lowdelay throughput reliability af11 af43 cs0 cs7 ef le none "'ef af11'" "'ef none'" "'lowdelay nosuch'" 0xb8 255 256 "'1 2 3'"
E
for value in '1G 1h' 'default none' 'default 1h' '1G none' '1G 1x' 'default default' '1G 1h 1'; do
    ask "RekeyLimit $value"
done
for value in 'ef af11' 'ef none' 'lowdelay nosuch' '0x10 0x20' '1 2 3' 'ef ""'; do
    ask "IPQoS $value"
done
"#,
        ),
        sees: &["== Port 65536\n"],
        ends: Ends::Client,
        ..RECIPE
    }
    .run();
}

/// Every keyword that takes names, paths, commands or lists of them, with quotes, tokens, variables and
/// comments.
///
/// Covers: ssh -G
#[test]
fn keywords_with_texts() {
    Recipe {
        client: asked(
            r##"
export VAR=var
while read -r keyword values; do
    for value in $values a /a ~/a ~nosuch/a none NONE '""' "''" '"a' "'a" 'a"b' '"a b"' "'a b'" 'a\\ b' 'a b' 'a # c' 'a "# c" d' '=a' '= a' '%%' '%h' '%p' '%r' '%d' '%C' '%z' '${VAR}' '${NOSUCH}' '${' '$VAR' a,b ,a 'a, b' '*' '!a' '-a' '@a' 'a;b' 'a\tb'; do
        ask "$keyword $value"
    done
    ask "$keyword"
    ask "$keyword a\n$keyword b"
done <<'E'
BindAddress 127.0.0.1
BindInterface lo
CanonicalDomains a.example b.example. none,a
CanonicalizePermittedCNAMEs a:b *.a:*.b,c a: :b
CertificateFile
ControlPath
GlobalKnownHostsFile
HostKeyAlias
Hostname %h.example H.EXAMPLE
IdentityAgent SSH_AUTH_SOCK $SSH_AUTH_SOCK
IdentityFile
IgnoreUnknown
KbdInteractiveDevices
KnownHostsCommand /bin/x
LocalCommand
LogVerbose kex.c:*:1000,*:kex_exchange_identification():*
PermitRemoteOpen any a:1 a:b *:* a:*
PKCS11Provider
PreferredAuthentications publickey password,publickey nosuch
ProxyCommand nc
ProxyJump a@b:33 a,b ssh://a:1 ssh://u@a [::1]:22 u@[::1] a:0 a:x @
RemoteCommand
RevokedHostKeys
SecurityKeyProvider internal
SendEnv LANG LC_* -LC_*
SetEnv A=b A= =b A=%h
User
UserKnownHostsFile
XAuthLocation
E
"##,
        ),
        sees: &["unknown key %z\n"],
        ends: Ends::Client,
        ..RECIPE
    }
    .run();
}

/// Lists of algorithms: exact ones, edits of the defaults that are wrong, and old names of the keywords.
///
/// Covers: ssh -G
#[test]
fn keywords_with_algorithms() {
    Recipe {
        client: asked(
            r#"
while read -r keyword values; do
    for value in $values nosuch a,b +nosuch -nosuch ^nosuch '""' + - ^ , '*' 'a b' none; do
        ask "$keyword $value"
    done
    ask "$keyword"
done <<'E'
Ciphers aes128-ctr aes128-ctr,aes256-ctr aes128-ctr,nosuch AES128-CTR +aes128-ctr,nosuch
MACs hmac-sha2-256 hmac-sha2-256,hmac-sha2-512 hmac-sha2-256,
KexAlgorithms curve25519-sha256 curve25519-sha256,ecdh-sha2-nistp256 ^nosuch,curve25519-sha256
HostKeyAlgorithms ssh-ed25519 ssh-ed25519,rsa-sha2-512 ssh-ed* ecdsa-*
HostbasedAcceptedAlgorithms ssh-ed25519 ssh-ed*
HostbasedKeyTypes ssh-ed25519
PubkeyAcceptedAlgorithms ssh-ed25519 ssh-ed* ssh-ed25519,nosuch
PubkeyAcceptedKeyTypes ssh-ed25519
CASignatureAlgorithms ssh-ed25519 rsa-sha2-512 ssh-ed*
Cipher 3des
E
for flag in '-c aes128-ctr' '-c nosuch' '-c +nosuch' '-c' '-m hmac-sha2-256' '-m nosuch' '-oCiphers=nosuch' '-oMACs=' '-oKexAlgorithms=x'; do
    ask 'Port 1' $flag
done
"#,
        ),
        sees: &["Bad SSH2 cipher spec 'nosuch'"],
        ends: Ends::Client,
        ..RECIPE
    }
    .run();
}

/// Forwards in all their forms, in files and as flags.
///
/// Covers: ssh -G; ssh -L; ssh -R; ssh -D; ssh -W; ssh -w
#[test]
fn keywords_with_forwards() {
    Recipe {
        client: asked(
            r#"
long=$(printf 'x%.0s' {1..120})
host=$(printf 'h%.0s' {1..1030})
for value in '80 a:90' '80 [::1]:90' '1.2.3.4:80 x:90' '*:80 x:90' ':80 x:90' '[::1]:80 x:90' '::1:80 x:90' '/a/b /c/d' 'a/b c/d' './e x:90' '80 /c' \
    '80' '80 a' '80 a:' '80 :90' '80 a:0' '0 a:90' '-1 a:90' '65536 a:90' 'a:90' '80:a:90' '80 a:90 b' '80 "a:90"' 'ssh a:http' '80 a:nosuch' \
    '[a]:80 [b]:90' '[a:80 b:90' '80 a\\:b:90' '/%h/s /%n/t' '/${HOME}/s x:1' '/${NOSUCH}/s x:1' '/%z x:1' '""' '80 ""' "/$long x:1" "80 /$long" "80 $host:1" \
    "$host:80 a:1" '/a\\:b x:1' 'none' '%p x:1' "/$long /$long"; do
    ask "LocalForward $value"
    ask "RemoteForward $value"
done
for value in 80 0 -1 65536 a:80 :80 '*:80' '[::1]:80' '::1:80' /a "/$long" a '80 90' ssh '""' '80 # c' 127.0.0.1:+80 "$host:80"; do
    ask "DynamicForward $value"
    ask "RemoteForward $value"
done
ask 'LocalForward 80 a:1\nLocalForward 80 a:1\nLocalForward 80 b:1\nDynamicForward 1\nDynamicForward 1\nRemoteForward 1 a:1\nRemoteForward 1 a:1'
ask 'ClearAllForwardings yes\nLocalForward 80 a:1'
ask 'LocalForward /s/%h-%p-%r-%C x:1\nRemoteForward /s/%h-%p /t/%n\nPort 7\nUser z'
for flag in -L80:a:1 '-L 80:a:1' -L80 -L80:a -L/a:/b "-L/$long:/b" "-L80:/$long" "-R/$long:a:1" "-R80:/$long" -R80 -R0 -R/a -Rx:80:a:1 -D80 -D0 -Da:80 -D/a \
    -Wa:1 -Wa '-Wa:b' -W[::1]:1 -W/a -w1 -wany -w1:any -wx -w1:2:3 -L80:a:0 -L0:a:1 -L[::1]:80:[::2]:1 -L1:2:3:4:5 -L -R '-D ' "-L$host:80:a:1"; do
    ask 'Port 1' $flag
done
for option in 'LocalForward=80 a:1' LocalForward=80:a:1 'RemoteForward=80' 'DynamicForward=[::1]:80' "LocalForward=/$long x:1" 'LocalForward=80'; do
    ask 'Port 1' -o "$option"
done
"#,
        ),
        sees: &["Bad local forwarding specification"],
        ends: Ends::Client,
        ..RECIPE
    }
    .run();
}

/// `Host` lines: patterns, lists, negation, quotes, and which value wins.
///
/// Covers: ssh -G; ssh_config Host
#[test]
fn host_lines() {
    Recipe {
        client: asked(
            r#"
for patterns in h H '*' '?' '??' 'h*' '*h*' '!h' '!h *' '* !h' '!x *' 'x !y' 'x,h' 'h,x' 'h x' 'x h' '"h"' '"x h"' '""' '"h' "'h'" '!' '!!h' 'h # c' '# c' 'x # h' '=h' '[h]' '!H *' 'H*' '\\h' 'h.' '-h' '!x'; do
    ask "Host $patterns\n Port 7\n User u"
done
ask 'Host'
ask 'Host=h\n Port=7'
ask 'host h\nport 7\nHOST *\nPORT 8\nUSER u'
ask 'Port 7\nHost x\nPort 8\nHost h\nPort 9\nUser u'
ask 'Host x\nNosuch 1'
ask 'Host x\nPort bad'
ask 'Host x\nIgnoreUnknown Nosuch\nNosuch 1'
ask 'IgnoreUnknown No*,Foo\nNosuch 1\nFoo\nfoo "x'
ask 'IgnoreUnknown !Nosuch,No*\nNosuch 1'
ask 'Nosuch 1\nOther 2\nPort x'
ask '"Port" 7\n"User "u'
ask '"Port 7'
ask ' \t Port\t7\t\n\fUser u\n\v'
ask 'Port 7\r\nUser u\r'
ask 'Port= 7\nUser = "a b" \nLogLevel =\tDEBUG'
ask 'Port == 7'
ask '#Port 7\n # x\n\n;'
ask 'Port 7#8'
ask 'Port 7 #8'
ask 'User a#b\nLocalCommand a # b\nProxyCommand c # d\nRemoteCommand e#f # g'
ask '\0Port 7'
ask '\xef\xbb\xbfPort 7'
ask 'Us\xc3\xa9r 1'
ask "$(printf 'User %.0s' {1..1})$(printf 'x%.0s' {1..2000})"
ask 'Protocol 2\nCipher x\nFallBackToRsh x\nUseRoaming no\nUsePrivilegedPort no'
ask 'AFSTokenPassing no\nKerberosAuthentication no\nRSAAuthentication no\nCompressionLevel 6\nRhostsRSAAuthentication no'
ask 'ChallengeResponseAuthentication no\nSKeyAuthentication yes\nDSAAuthentication no\nKeepAlive no\nGlobalKnownHostsFile2 /a\nUserKnownHostsFile2 /b'
ask 'SmartcardDevice x\nGSSAPIAuthentication yes\nGSSAPIDelegateCredentials yes\nHostbasedKeyTypes ssh-ed25519'
for options in '-p 7' '-p 0' '-p x' '-p 65536' '-l u' '-p 7 -p 8' '-l a -l b' '-o Port=7 -p 8' '-p 8 -o Port=7' '-oUser=a' '-oNosuch=1' '-oPort' '-oPort=' '-o' '-oHost=x' '-oMatch=all' '-oInclude=x' \
    '-4' '-6' '-46' '-A' '-a' '-Aa' '-C' '-f' '-g' '-K' '-k' '-N' '-n' '-q' '-qq' '-s' '-T' '-t' '-tt' '-tT' '-X' '-x' '-Y' '-y' '-e ^A' '-e none' '-e x' '-e xy' '-e ^' '-i /nosuch' '-I /nosuch' \
    '-J a' '-J a,b' '-J none' '-J' '-M' '-MM' '-MMM' '-S p' '-S none' '-S ~/%h' '-b 1.2.3.4' '-B lo' '-O check' '-Q x' '-E /dev/null' '-F' '-oSendEnv=A -oSendEnv=B' '-oIdentityFile=a -oIdentityFile=a' '-1' '-2'; do
    ask 'User cu\nPort 99\nForwardAgent yes' $options
done
"#,
        ),
        sees: &["Bad configuration option: nosuch"],
        ends: Ends::Client,
        ..RECIPE
    }
    .run();
}

/// `Match` lines: every condition alone, negated, in lists, together, with wrong words; in both passes.
///
/// Covers: ssh -G; ssh_config Match
#[test]
fn match_lines() {
    Recipe {
        config: "Host via-config\n  Port 5\n",
        client: asked(
            r#"
export VAR=var
for conditions in all '!all' canonical '!canonical' final '!final' 'canonical all' 'all canonical' 'final all' 'all final' 'host h' 'host=h' 'host = h' 'host x' '!host h' '!host x' '! host x' 'host h,x' 'host "h"' 'host "x,h"' \
    'host *,!h' 'host !h' 'host !x' 'host !x,*' 'host' 'host ""' 'host all' 'host h all' 'all host h' 'originalhost h' 'originalhost H' '!originalhost h' 'originalhost H*' 'user me' 'user root' '!user root' 'user m*,!me' \
    'localuser me' 'localuser root' '!localuser root' 'localuser m*' 'exec true' 'exec false' '!exec true' '!exec false' 'exec "test %h = h"' 'exec "test %n = h && test %p = 22"' 'exec "test %r = me && test %u = me"' 'exec "exit 3"' \
    'exec nosuch-command' 'exec ""' 'exec' 'exec "echo out; echo err >&2"' 'exec "test %z"' 'exec "test ${VAR} = var"' 'exec true exec false' 'host h exec true user me' 'host x exec "echo ran >&2"' 'exec "test -t 0"' 'exec ~/no' \
    'nosuch x' 'nosuch' 'host h nosuch' 'HOST h' 'Host h User me' 'all all' 'final canonical' 'host h final' '!final host h' 'canonical host h' 'all # c' '# c' 'host h # c' '"host" h' 'host "h' 'user "me" localuser "me"' \
    'host=h user=me' 'host h,' 'host ,h' 'host h x' 'address 1.2.3.4' 'group x' 'exec "test $PPID != 0"' 'exec "exec sh -c true"' 'exec "kill -9 $$"' 'exec "test %k = h"' 'exec "test %i = 2001"' 'exec "test %L = server"' 'exec "test %d = /home/me"'; do
    ask "Match $conditions\n Port 7\n User u"
done
ask 'Match'
ask 'Match all\nPort 7\nMatch all\nPort 8\nUser u'
ask 'Match host h\nPort 7\nHost x\nUser u\nMatch !host x\nBatchMode yes'
ask 'Hostname real\nMatch host real\nPort 7\nMatch host h\nPort 8\nMatch originalhost h\nUser u'
ask 'Match host real\nPort 7\nMatch originalhost h\nHostname real\nMatch final host real\nUser u'
ask 'Match final\nPort 7\nMatch !final\nPort 8'
ask 'Match final host h\nPort 7\nHost *\nPort 8'
ask 'Match final all\nHostname other\nPort 7'
ask 'Match canonical\nPort 7\nMatch final\nUser u'
ask 'Match user u\nPort 7\nMatch all\nUser u\nMatch user u\nBatchMode yes'
ask 'Match user u\nPort 7' -l u
ask 'Match user u\nPort 7' -oUser=u
ask 'Match exec "test %p = 7"\nUser u' -p 7
ask 'Match exec "test %p = 7"\nUser u\nMatch all\nPort 7'
ask 'CanonicalizeHostname yes\nCanonicalDomains example.org\nMatch canonical\nPort 7\nMatch final\nUser u'
ask 'CanonicalizeHostname yes\nCanonicalDomains invalid\nCanonicalizeFallbackLocal no'
ask 'CanonicalizeHostname always\nHostname server.example.org\nCanonicalDomains example.org\nMatch canonical host server.example.org\nPort 7'
ask 'Hostname server\nCanonicalizeHostname yes\nCanonicalDomains example.org\nMatch canonical host server.example.org\nPort 7\nHost server.example.org\nUser u'
ask 'Hostname server\nCanonicalizeHostname yes\nCanonicalDomains invalid example.org\nCanonicalizePermittedCNAMEs *:*\nMatch final host server.example.org\nPort 7'
ask 'Hostname server\nCanonicalizeHostname yes\nCanonicalDomains example.org\nCanonicalizeMaxDots 0\nProxyJump j\nMatch canonical\nPort 7'
ask 'Hostname server.\nCanonicalizeHostname yes\nCanonicalDomains example.org\nMatch canonical\nPort 7'
ask 'CanonicalizeHostname yes\nCanonicalDomains none\nMatch canonical\nPort 7'
"#,
        ),
        sees: &["Bad Match condition"],
        differs: &[
            ("", "serveraliveinterval 300\n", "Debian's ssh sets it with BatchMode"),
            (
                "",
                "ssh: Could not resolve hostname h.example.org.: Temporary failure in name resolution\n",
                "names are completed one after the other; that there is none is told at the end",
            ),
            (
                "",
                "ssh: Could not resolve hostname h.invalid.: Temporary failure in name resolution\n",
                "the same",
            ),
        ],
        ends: Ends::Client,
        ..RECIPE
    }
    .run();
}

/// Files that include others: patterns, ~, tokens, depth, blocks that do not apply, modes and kinds of files.
///
/// Covers: ssh -G; ssh_config Include
#[test]
fn include_lines() {
    Recipe {
        setup: "mkdir /srv/inc\necho 'Port 71' >/srv/inc/a.conf\necho 'User inc' >/srv/inc/b.conf\n\
                echo 'Include ~/x' >/etc/ssh/ssh_config.d/tilde.conf\n",
        client: asked(
            r#"
export VAR=/srv/inc
mkdir -p .ssh/d .ssh/e
echo 'Port 7' >.ssh/d/1
echo 'User u\nPort 8' | sed 's/\\n/\n/' >.ssh/d/2
echo 'Nosuch 1' >.ssh/e/bad
echo 'Include loop' >.ssh/loop
echo 'Host x' >.ssh/host-x
printf 'Match host h\nPort 9\nHost z\nPort 10\n' >.ssh/blocks
printf 'Port 11' >.ssh/noend
: >.ssh/empty
echo 'Port 12' >.ssh/locked
chmod 0 .ssh/locked
echo 'Port 13' >.ssh/open
chmod 666 .ssh/open
echo 'Port 14' >'.ssh/a b'
echo 'Port 15' >.ssh/inc-h
ln -s d/1 .ssh/link
ln -s nowhere .ssh/dangling
for words in d/1 d/2 'd/*' 'd/2 d/1' 'd/[12]' 'd/?' 'd/nosuch' 'd/nosuch*' nosuch /srv/inc/a.conf '/srv/inc/*.conf' '~/.ssh/d/1' '~me/.ssh/d/1' '~nosuch/x' '~' e/bad 'e/*' loop host-x blocks noend empty locked open '"a b"' 'a\\ b' \
    'a b' link dangling d '""' '"d/1' 'd/1 # c' '# c' 'd/{1,2}' '${VAR}/a.conf' '${NOSUCH}/a' '$VAR/a.conf' inc-%h inc-%n '%d/.ssh/d/1' '%z' '../.ssh/d/1' './d/1' /dev/null '=d/1' 'd/1 nosuch d/2' 'd//1' '*'/1 '.ssh/d/1'; do
    ask "Include $words\nBatchMode yes"
done
ask 'Include'
ask 'Host h\nInclude d/*\nBatchMode yes'
ask 'Host x\nInclude d/*\nHost h\nBatchMode yes'
ask 'Host x\nInclude e/bad'
ask 'Host h\nInclude host-x\nPort 20'
ask 'Include host-x\nPort 20'
ask 'Host x\nInclude blocks\nPort 20'
ask 'Include blocks\nPort 20\nUser u'
ask 'Match host h\nInclude d/2'
ask 'Match final\nInclude d/2'
ask 'Match !host h\nInclude e/bad'
echo 'Include 3/*' >.ssh/deep
mkdir .ssh/3
for i in {1..20}; do echo "Include n$((i + 1))" >.ssh/n$i; done
echo 'Port 30' >.ssh/n17
for i in 1 2 3 15; do ask "Include n$i"; done
echo 'Include d/1' >.ssh/config
echo "== default" >>asked
ssh -G h >>asked 2>&1; echo "rc $?" >>asked
chmod 622 .ssh/config
echo "== default, writable" >>asked
ssh -G h >>asked 2>&1; echo "rc $?" >>asked
chmod 600 .ssh/config
echo 'Include open' >.ssh/config
echo "== default, includes writable" >>asked
ssh -G h >>asked 2>&1; echo "rc $?" >>asked
echo 'Include /srv/inc/a.conf' >.ssh/config
echo "== default, includes another's" >>asked
ssh -G h >>asked 2>&1; echo "rc $?" >>asked
for file in /nosuch .ssh /srv .ssh/locked .ssh/open none NONE '' /dev/null .ssh/noend; do
    echo "== -F $file" >>asked
    ssh -F "$file" -G h >>asked 2>&1; echo "rc $?" >>asked
done
"#,
        ),
        sees: &["== Include d/1\\nBatchMode yes\nport 7\n"],
        differs: &[("", "serveraliveinterval 300\n", "Debian's ssh sets it with BatchMode")],
        ends: Ends::Client,
        ..RECIPE
    }
    .run();
}
