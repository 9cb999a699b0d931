//! Recipes for the client's side: configuration trees, names, host keys, shared connections, agents and
//! forwards.

use lh_interop::recipe::{Ends, RECIPE, Recipe};

/// A tree of included files with `Match`, tokens, and what the first value decides.
///
/// Covers: ssh_config Include; ssh_config Match
#[test]
fn include_tree_with_match_and_tokens() {
    Recipe {
        config: r#"
Include conf.d/*
Match host prod exec "test %p = 22"
  SetEnv A=exec
Match originalhost alias user bob
  SetEnv A=orig
Host *
  SetEnv A=star
  User me
"#,
        setup: r#"
mkdir -p /home/me/.ssh/conf.d
printf 'Host prod p?\n  HostName server\n  User bob\n' >/home/me/.ssh/conf.d/10
printf 'Host alias !x\n  HostName server\nHost nick\n  HostName server\n  HostKeyAlias inner\n' >/home/me/.ssh/conf.d/20
echo 'Include ~/.ssh/more' >/home/me/.ssh/conf.d/30
printf 'Host deep\n  HostName server\n  User bob\n' >/home/me/.ssh/more
chown -R me: /home/me
echo 'AcceptEnv A' >/etc/ssh/sshd_config.d/a.conf
"#,
        client: r#"
for h in prod p1 alias bob@alias nick deep server; do
    echo "== $h"
    ssh -o BatchMode=yes $h 'id -un; echo $A' 2>&1
    ssh -G $h 2>/dev/null | grep -i '^user \|^hostname \|^setenv \|^hostkeyalias ' | sort
done
ssh -F none -o User=bob server id -un
ssh -F /nonexistent server; echo $?
"#,
        sees: &["== deep\nbob\n"],
        ends: Ends::Client,
        ..RECIPE
    }
    .run();
}

/// Mistakes in the configuration file.
#[test]
fn mistakes_in_the_client_s_file() {
    Recipe {
        client: r#"
try() { printf "$1" >c; ssh -F c server true; echo $?; }
try 'Bogus yes\n'
try 'Port abc\n'
try 'Host\n'
try 'IgnoreUnknown B*\nBogus yes\nUser bob\n'
try 'Ciphers none-such\n'
try 'Match bogus\n'
try 'LocalForward 99999 x:1\n'
try 'Include nothing-there\nUser bob\n'
try 'StrictHostKeyChecking perhaps\n'
printf 'User bob\n' >.ssh/config
chmod 666 .ssh/config
ssh server true; echo $?
chmod 644 .ssh/config
chmod 644 .ssh/id_ed25519
ssh -o BatchMode=yes server true; echo $?
printf 'LogLevel QUIET\nBogus yes\nPort abc\n' >c
ssh -F c server true; echo $?
ssh -q -F c server true; echo quiet $?
ssh -o LogLevel=FATAL -F c server true; echo fatal $?
ssh -q -F nothing server true; echo $?
ssh -q -o Bogus=1 server true; echo $?
ssh -E log -F c server true; echo $?; cat log
ssh -E log2 -F c -o Port=abc server true; echo $?
scp -q -F c x server:; echo $?
echo pwd | sftp -q -F c server; echo $?
"#,
        sees: &["Bad configuration option: bogus", "UNPROTECTED PRIVATE KEY FILE", "quiet 255\nfatal 255\n"],
        ends: Ends::Client,
        ..RECIPE
    }
    .run();
}

/// A `known_hosts` file of 10,000 lines, with a changed, a revoked and a new host.
///
/// Covers: ssh_config StrictHostKeyChecking; ssh_config HashKnownHosts
#[test]
fn known_hosts_of_ten_thousand_lines() {
    Recipe {
        setup: r#"
k=$(cut -d' ' -f1,2 /world/host_ecdsa.pub)
for i in {1..10000}; do echo "h$i.example.net,10.0.$((i/250)).$((i%250)) $k"; done >/home/me/plain
{ cat /home/me/plain; echo "server $(cat /world/host_ed25519.pub)"; } >/home/me/.ssh/known_hosts
{
    cat /home/me/plain
    echo "inner $(cat /world/user_ed25519.pub)"
    echo "@revoked * $(cat /world/host_ed25519.pub)"
} >/home/me/other
chown -R me: /home/me
"#,
        client: r#"
ssh -o BatchMode=yes bob@server id -un; echo $?
ssh -o BatchMode=yes bob@bastion true 2>&1; echo $?
ssh -o StrictHostKeyChecking=accept-new bob@bastion true 2>&1 | sed 's/SHA.*//'
ssh bob@bastion id -un
wc -l <.ssh/known_hosts
ssh -o BatchMode=yes -o UserKnownHostsFile=other bob@inner true 2>&1 | sed 's/SHA256.*/SHA/'
ssh-keygen -F server -f .ssh/known_hosts | wc -l
ssh-keygen -R server -f .ssh/known_hosts 2>&1 | wc -l
ssh -o BatchMode=yes bob@server true; echo $?
ssh -o StrictHostKeyChecking=no -o UserKnownHostsFile=/dev/null bob@server id -un 2>&1 |
    sed 's/SHA.*//'
"#,
        sees: &["bob\n0\n", "Host key verification failed.", "Permanently added"],
        differs: &[("Offending ED25519 key in other:10002\n", "", "the line of a revoked key is told")],
        ends: Ends::Client,
        ..RECIPE
    }
    .run();
}

/// Host certificates: one line for all hosts of a domain.
///
/// Covers: sshd_config HostCertificate
#[test]
fn host_certificates_for_a_domain() {
    Recipe {
        server: "HostCertificate /etc/ssh/host-cert.pub",
        setup: r#"
ssh-keygen -q -t ed25519 -N '' -f /etc/ssh/hostca
cp /etc/ssh/ssh_host_ed25519_key.pub /etc/ssh/host.pub
ssh-keygen -q -s /etc/ssh/hostca -h -I h -n server.example.org,server /etc/ssh/host.pub
echo "@cert-authority *.example.org,server,inner $(cat /etc/ssh/hostca.pub)" >/home/me/.ssh/known_hosts
"#,
        client: r#"
for h in server.example.org server inner bastion; do
    ssh -o BatchMode=yes bob@$h id -un 2>&1 | sed 's/SHA256.*/SHA/'; echo ${PIPESTATUS[0]}
done
wc -l <.ssh/known_hosts
"#,
        sees: &["bob\n0\nbob\n0\n"],
        ..RECIPE
    }
    .run();
}

/// One connection for fifty commands, copies and a forward.
///
/// Covers: ssh_config ControlMaster; ssh_config ControlPersist; ssh -O check
#[test]
fn control_master_auto_serves_fifty_commands() {
    Recipe {
        server: "MaxSessions 100",
        config: "Host server\n  User bob\n  ControlMaster auto\n  ControlPath ~/.ssh/%C\n  ControlPersist 600\n",
        client: r#"
ssh server true
for n in {1..50}; do ssh server "echo $n; exit $((n%3))" </dev/null & done | sort -n | md5sum
wait
for n in {1..3}; do ssh server "exit $n"; echo $?; done
echo w >f
scp -q f server:
sftp -q -b - server <<<'ls -1'
ssh -O check server 2>&1 | sed 's/pid=[0-9]*/pid/'
ssh server 'echo err >&2; cat' <<<in
ssh -O forward -L 4001:localhost:22 server
ssh -p 4001 -o HostKeyAlias=server -o ControlPath=none bob@localhost id -un
ssh -O exit server
eventually ! sh -c 'test -S .ssh/????????????????????????????????????????'
ssh -O check server >/dev/null 2>&1; echo $?
"#,
        look: "grep -c Accepted /var/log/sshd.log",
        sees: &["1\n2\n3\n", "Master running (pid)", "Exit request sent."],
        ..RECIPE
    }
    .run();
}

/// Forwards as people keep them: local, remote, dynamic, sockets, busy ports.
///
/// Covers: ssh -L; ssh -R; ssh_config ExitOnForwardFailure; sshd_config GatewayPorts
#[test]
fn forwards_of_a_working_day() {
    Recipe {
        server: "GatewayPorts clientspecified",
        tools: &["curl", "python3"],
        setup: r#"
mkdir /srv/web
echo page >/srv/web/p
(cd /srv/web; setsid python3 -m http.server 8000 >/dev/null 2>&1 &)
listening 8000
"#,
        client: r#"
ssh -f -N -o ExitOnForwardFailure=yes -L 5001:localhost:8000 -L ~/s:localhost:8000 -R 5002:localhost:8000 -R '*:5003:localhost:8000' -D 5004 -R 5005 bob@server
echo $?
for u in 'http://localhost:5001/p' '--unix-socket s http://x/p' 'http://localhost:5002/p' 'http://127.0.0.2:5003/p' '--socks5-hostname localhost:5004 http://server:8000/p' '--socks5 localhost:5005 http://127.0.0.1:8000/p' 'http://127.0.0.2:5002/p'; do
    curl -s --max-time 60 $u; echo $?
done
ssh -o ExitOnForwardFailure=yes -L 5001:x:1 bob@server true; echo $?
ssh -o ExitOnForwardFailure=yes -R 5002:x:1 bob@server true; echo $?
ssh -R 5002:x:1 bob@server true; echo $?
ssh -L 80:x:1 bob@server true; echo $?
"#,
        sees: &["page\n0\npage\n0\npage\n0\npage\n0\npage\n0\npage\n0\n7\n"],
        ..RECIPE
    }
    .run();
}

/// Canonical names, as companies with search domains use them.
///
/// Covers: ssh_config CanonicalizeHostname; ssh_config CanonicalDomains
#[test]
fn canonical_names_by_search_domains() {
    Recipe {
        config: r#"
CanonicalizeHostname yes
CanonicalDomains nowhere.invalid example.org
CanonicalizeMaxDots 0
Match canonical host *.example.org
  User bob
Host *
  BatchMode yes
"#,
        setup: r#"
echo '127.0.0.2 bastion.example.org.' >>/etc/hosts
echo '127.0.0.3 inner.example.org.' >>/etc/hosts
"#,
        client: r#"
for h in bastion inner server.example.org; do
    ssh $h id -un 2>/dev/null
    ssh -G $h 2>/dev/null | grep '^hostname\|^user ' | sort
done
ssh -o CanonicalizeFallbackLocal=no nothere true 2>/dev/null; echo $?
"#,
        sees: &["hostname bastion.example.org\nuser bob"],
        ends: Ends::Client,
        ..RECIPE
    }
    .run();
}

/// IPv6: addresses with scopes, brackets, families.
#[test]
fn ipv6_addresses_and_scopes() {
    Recipe {
        setup: r#"
ip addr add fe80::99/64 dev lo nodad
ip addr add fd00::5/64 dev lo nodad
echo 'fd00::5 six' >>/etc/hosts
"#,
        config: "Host *\n  StrictHostKeyChecking no\n  UserKnownHostsFile /dev/null\n  LogLevel ERROR\n",
        client: r#"
c='echo ${SSH_CONNECTION#* }'
for h in ::1 fd00::5 fe80::99%lo six; do
    ssh bob@$h "$c" | cut -d' ' -f2-
    ssh bob@$h 'echo ${SSH_CLIENT%% *}'
done
echo w >f
scp -q f 'bob@[fd00::5]:'; echo $?
scp -q f 'bob@[fe80::99%lo]:g'; echo $?
sftp -q -b - 'bob@[fd00::5]' <<<'ls -1'
ssh -4 bob@fd00::5 true; echo $?
ssh -6 bob@127.0.0.1 true; echo $?
"#,
        sees: &["fd00::5 22", "fe80::99%lo 22\nfe80::99%lo\n"],
        ..RECIPE
    }
    .run();
}

/// An `authorized_keys` of 20,000 keys, the right one last, and a client with many keys.
#[test]
fn huge_authorized_keys_and_many_identities() {
    Recipe {
        // As OpenSSH before 10.6: each query about a key that would not do is a failure.
        server: "PubkeyAuthOptions none",
        setup: r#"
k=$(cut -d' ' -f2 /world/host_ed25519.pub)
p=/home/bob/.ssh/authorized_keys
for i in {1..20000}; do echo "restrict,command=\"x $i\" ssh-ed25519 $k user$i@host"; done >$p
printf '\n# end\nnot a key\n' >>$p
cat /world/authorized_keys >>$p
for i in {1..8}; do ssh-keygen -q -t ed25519 -N '' -f /home/me/k$i; done
chown -R me: /home/me
"#,
        client: r#"
ssh -o BatchMode=yes bob@server id -un; echo $?
i=''
for n in {1..8}; do i="$i -i k$n"; done
ssh -o BatchMode=yes $i bob@server id -un 2>&1 | sed 's/port 22:2/N/'; echo ${PIPESTATUS[0]}
ssh -o BatchMode=yes -o IdentitiesOnly=yes -i k1 bob@server true; echo $?
"#,
        sees: &["bob\n0\n", "Too many authentication failures"],
        ..RECIPE
    }
    .run();
}

/// Answers DNS for `example.org` on 127.0.0.1: SSHFP for every host, with the mark of checked answers (AD)
/// for some.
const RESOLVER: &str = r#"
cat >/srv/dns.py <<'E'
import socket, struct, subprocess, sys
keys = {}
for kind in 'ed25519', 'ecdsa', 'rsa':
    for line in subprocess.run(['ssh-keygen', '-r', 'x', '-f', f'/etc/ssh/ssh_host_{kind}_key.pub'], capture_output=True, text=True).stdout.splitlines():
        algorithm, digest, data = line.split()[3:6]
        keys.setdefault('all', []).append(bytes([int(algorithm), int(digest)]) + bytes.fromhex(data))
wrong = [key[:2] + bytes(len(key) - 2) for key in keys['all']]
old = [key for key in keys['all'] if key[1] == 1]
# Per name: fingerprints, and whether the resolver has checked them.
zone = {'server': (keys['all'], True), 'bastion': (wrong, True), 'inner': ([], True), 'open': (keys['all'], False), 'bad': (wrong, False), 'sha1': (old, True), 'fails': (None, False)}
s = socket.socket(socket.AF_INET, socket.SOCK_DGRAM)
s.bind(('127.0.0.1', 53))
open('/run/dns', 'w')
while True:
    data, peer = s.recvfrom(4096)
    at, labels = 12, []
    while data[at]:
        labels.append(data[at + 1:at + 1 + data[at]].decode().lower()); at += 1 + data[at]
    question = data[12:at + 5]
    kind, = struct.unpack('>H', data[at + 1:at + 3])
    prints, checked = zone.get(labels[0], (None, False)) if labels[1:] == ['example', 'org'] else (None, False)
    code = 2 if labels[0] == 'fails' else 0 if prints is not None else 3
    records = prints if kind == 44 and prints else []
    flags = 0x8180 | code | (0x20 if checked else 0)
    answer = data[:2] + struct.pack('>HHHHH', flags, 1, len(records), 0, 0) + question
    for record in records:
        answer += b'\xc0\x0c' + struct.pack('>HHIH', 44, 1, 60, len(record)) + record
    s.sendto(answer, peer)
E
(setsid python3 /srv/dns.py >/srv/dns.log 2>&1 &)
eventually test -e /run/dns
for n in open bad sha1 fails; do echo "127.0.0.1 $n.example.org" >>/etc/hosts; done
rm -f /home/me/.ssh/known_hosts
"#;

/// Fingerprints in DNS: right, wrong, missing, unchecked, of SHA-1 alone, and a resolver that fails.
///
/// Covers: ssh_config VerifyHostKeyDNS
#[test]
fn host_key_fingerprints_in_dns() {
    const NAMES: &str = "server bastion inner open bad sha1 fails";
    let client = format!(
        "try() {{ for h in {NAMES}; do echo \"== $h\"; ssh -o StrictHostKeyChecking=$2 -o VerifyHostKeyDNS=$1 bob@$h.example.org id -un 2>&1 | sed 's/SHA256:.*/SHA/'; echo ${{PIPESTATUS[0]}}; done; wc -l .ssh/known_hosts 2>/dev/null; rm -f .ssh/known_hosts; }}; for how in 'yes yes' 'ask yes' 'yes accept-new' 'no yes' 'yes no'; do echo \"#### $how\"; try $how; done"
    );
    let checked = format!("{RESOLVER}printf 'nameserver 127.0.0.1\\noptions trust-ad\\n' >/etc/resolv.conf");
    let unchecked = format!("{RESOLVER}printf 'nameserver 127.0.0.1\\n' >/etc/resolv.conf");
    let first = "#### yes yes\n== server\nbob\n0\n";
    let refused = "#### yes yes\n== server\nNo ED25519 host key is known for server.example.org";
    for (setup, sees) in [(checked, [first]), (unchecked, [refused])] {
        Recipe {
            tools: &["python3"],
            setup: setup.leak(),
            client: client.clone().leak(),
            sees: sees.to_vec().leak(),
            ends: Ends::Client,
            ..RECIPE
        }
        .run();
    }
}

/// Included files in four levels with `Match` and `Host` in each: which lines count where, on both sides, and
/// a loop.
///
/// Covers: ssh_config Include; ssh_config Match; sshd_config Include; sshd_config Match
#[test]
fn include_levels_with_match_in_each() {
    Recipe {
        config: r#"
Host far
  Include l1
Include always
Match host server
  Include l1
  SetEnv Z=top
Host *
  User bob
"#,
        server: "AcceptEnv Z L\nMatch User bob\n  Include /etc/ssh/inc/*.conf\nMatch all",
        setup: r#"
cd /home/me/.ssh
printf 'SetEnv L=one\nMatch user eve\n  Port 9\nMatch host *er\n  Include l2\nHost nomatch\n  Port 8\n' >l1
printf 'HostKeyAlias inner\nInclude l3 missing*\nHost never\n  Port 7\n' >l2
printf 'Match exec "test %%h = server" !host x\n  Compression yes\n  Include l4\n' >l3
printf 'LogLevel ERROR\nMatch all\n  ServerAliveInterval 17\n' >l4
printf 'Host far\n  HostName server\nMatch originalhost near\n  HostName server\n' >always
printf 'Include loop\n' >loop
chown -R me: .
cd /
mkdir /etc/ssh/inc
printf 'SetEnv IN=a\nInclude /etc/ssh/inc/deep\n' >/etc/ssh/inc/a.conf
printf 'Match Address 127.0.0.1\n  Banner /etc/b\nMatch Address 10.0.0.0/8\n  Banner /etc/c\n' >/etc/ssh/inc/deep
echo banner >/etc/b
echo other >/etc/c
printf 'X11Forwarding no\nAllowTcpForwarding no\n' >/etc/ssh/inc/b.conf
"#,
        client: r#"
for h in far near server bastion never; do
    echo "== $h"
    ssh -o BatchMode=yes $h 'echo $L $Z $IN' 2>&1
    ssh -G $h 2>/dev/null |
        grep -i '^user \|^hostname \|^port \|^setenv \|^hostkeyalias \|^compression \|^loglevel \|^serveralivei' |
        sort
done
ssh -F .ssh/loop server true 2>&1 | sort -u
ssh -W localhost:22 server </dev/null; echo $?
"#,
        look: r#"
for u in bob me; do
    for a in 127.0.0.1 10.1.1.1; do
        sshd -T -C user=$u,addr=$a,host=x,laddr=127.0.0.1,lport=22 |
            grep '^banner\|^setenv\|^x11forw\|^allowtcp' | sort
    done
done
"#,
        sees: &["== server\n", "banner"],
        ..RECIPE
    }
    .run();
}

/// A hashed `known_hosts` of 10,000 lines: found, changed, added to, searched and cut.
///
/// Covers: ssh_config HashKnownHosts
#[test]
fn known_hosts_of_ten_thousand_hashed_lines() {
    Recipe {
        server: "Port 22\nPort 2222",
        tools: &["python3"],
        setup: r#"
cat >/srv/h.py <<'E'
import base64, hashlib, hmac, sys
key = ' '.join(open('/world/host_ecdsa.pub').read().split()[:2])
right = ' '.join(open('/world/host_ed25519.pub').read().split()[:2])
wrong = ' '.join(open('/world/user_ed25519.pub').read().split()[:2])
def line(name, key):
    salt = hashlib.sha1(name.encode()).digest()
    b = lambda x: base64.b64encode(x).decode()
    return '|1|%s|%s %s' % (b(salt), b(hmac.new(salt, name.encode(), 'sha1').digest()), key)
for i in range(10000): print(line('h%d.example.net' % i, key))
print(line('server', right)); print(line('127.0.0.1', right)); print(line('inner', wrong)); print(line('[server]:2222', right))
E
python3 /srv/h.py >/home/me/.ssh/known_hosts
chown me: /home/me/.ssh/known_hosts
"#,
        config: "Host *\n  HashKnownHosts yes\n  User bob\n  UpdateHostKeys no\n",
        client: r#"
ssh -o BatchMode=yes server id -un; echo $?
ssh -o BatchMode=yes -p 2222 server id -un; echo $?
ssh -o BatchMode=yes inner true 2>&1 | sed 's/SHA256.*/SHA/'
ssh -o BatchMode=yes bastion true 2>&1
ssh -o StrictHostKeyChecking=accept-new bastion id -un 2>&1 | sed 's/SHA.*//'
ssh -o BatchMode=yes bastion id -un
cut -c1-3 .ssh/known_hosts | sort | uniq -c
ssh-keygen -F h9999.example.net | tail -1 | md5sum
ssh-keygen -F '[server]:2222' | head -1
ssh-keygen -F nothere; echo $?
ssh-keygen -R inner 2>&1 | sed 's/:.*//'
wc -l <.ssh/known_hosts
ssh -o BatchMode=yes inner true; echo $?
scp -q -o BatchMode=yes .ssh/id_ed25519.pub server:k; echo $?
"#,
        sees: &["bob\n0\nbob\n0\n", "Host key verification failed.", "Permanently added"],
        differs: &[(
            "-f '/home/me/.ssh/known_hosts' -R 'inner'",
            "-f \"/home/me/.ssh/known_hosts\" -R \"inner\"",
            "OpenSSH quotes so from 9.6 on",
        )],
        ends: Ends::Client,
        ..RECIPE
    }
    .run();
}
