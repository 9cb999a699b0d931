//! Recipes for the client's side: configuration trees, names, host keys, shared connections, agents and forwards.

use lh_interop::recipe::{Ends, RECIPE, Recipe};

/// A tree of included files with `Match`, tokens, and what the first value decides.
///
/// Covers: ssh_config Include; ssh_config Match
#[test]
fn include_tree_with_match_and_tokens() {
    Recipe {
        config: "Include conf.d/*\nMatch host prod exec \"test %p = 22\"\n  SetEnv A=exec\nMatch originalhost alias user bob\n  SetEnv A=orig\nHost *\n  SetEnv A=star\n  User me\n",
        setup: "mkdir -p /home/me/.ssh/conf.d; printf 'Host prod p?\\n  HostName server\\n  User bob\\n' >/home/me/.ssh/conf.d/10; printf 'Host alias !x\\n  HostName server\\nHost nick\\n  HostName server\\n  HostKeyAlias inner\\n' >/home/me/.ssh/conf.d/20; echo 'Include ~/.ssh/more' >/home/me/.ssh/conf.d/30\n\
                printf 'Host deep\\n  HostName server\\n  User bob\\n' >/home/me/.ssh/more; chown -R me: /home/me; echo 'AcceptEnv A' >/etc/ssh/sshd_config.d/a.conf",
        client: "for h in prod p1 alias bob@alias nick deep server; do echo \"== $h\"; ssh -o BatchMode=yes $h 'id -un; echo $A' 2>&1; ssh -G $h 2>/dev/null | grep -i '^user \\|^hostname \\|^setenv \\|^hostkeyalias ' | sort; done; ssh -F none -o User=bob server id -un; ssh -F /nonexistent server; echo $?",
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
        client: "try() { printf \"$1\" >c; ssh -F c server true; echo $?; }; try 'Bogus yes\\n'; try 'Port abc\\n'; try 'Host\\n'; try 'IgnoreUnknown B*\\nBogus yes\\nUser bob\\n'; try 'Ciphers none-such\\n'\n\
                 try 'Match bogus\\n'; try 'LocalForward 99999 x:1\\n'; try 'Include nothing-there\\nUser bob\\n'; try 'StrictHostKeyChecking perhaps\\n'; printf 'User bob\\n' >.ssh/config; chmod 666 .ssh/config; ssh server true; echo $?; chmod 644 .ssh/config; chmod 644 .ssh/id_ed25519; ssh -o BatchMode=yes server true; echo $?",
        sees: &["Bad configuration option: bogus", "UNPROTECTED PRIVATE KEY FILE"],
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
        setup: "k=$(cut -d' ' -f1,2 /world/host_ecdsa.pub); for i in {1..10000}; do echo \"h$i.example.net,10.0.$((i/250)).$((i%250)) $k\"; done >/home/me/plain\n\
                { cat /home/me/plain; echo \"server $(cat /world/host_ed25519.pub)\"; } >/home/me/.ssh/known_hosts\n\
                { cat /home/me/plain; echo \"inner $(cat /world/user_ed25519.pub)\"; echo \"@revoked * $(cat /world/host_ed25519.pub)\"; } >/home/me/other; chown -R me: /home/me",
        client: "ssh -o BatchMode=yes bob@server id -un; echo $?; ssh -o BatchMode=yes bob@bastion true 2>&1; echo $?; ssh -o StrictHostKeyChecking=accept-new bob@bastion true 2>&1 | sed 's/SHA.*//'; ssh bob@bastion id -un; wc -l <.ssh/known_hosts\n\
                 ssh -o BatchMode=yes -o UserKnownHostsFile=other bob@inner true 2>&1 | sed 's/SHA256.*/SHA/'; ssh-keygen -F server -f .ssh/known_hosts | wc -l; ssh-keygen -R server -f .ssh/known_hosts 2>&1 | wc -l; ssh -o BatchMode=yes bob@server true; echo $?; ssh -o StrictHostKeyChecking=no -o UserKnownHostsFile=/dev/null bob@server id -un 2>&1 | sed 's/SHA.*//'",
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
        setup: "ssh-keygen -q -t ed25519 -N '' -f /etc/ssh/hostca; cp /etc/ssh/ssh_host_ed25519_key.pub /etc/ssh/host.pub; ssh-keygen -q -s /etc/ssh/hostca -h -I h -n server.example.org,server /etc/ssh/host.pub\n\
                echo \"@cert-authority *.example.org,server,inner $(cat /etc/ssh/hostca.pub)\" >/home/me/.ssh/known_hosts",
        client: "for h in server.example.org server inner bastion; do ssh -o BatchMode=yes bob@$h id -un 2>&1 | sed 's/SHA256.*/SHA/'; echo ${PIPESTATUS[0]}; done; wc -l <.ssh/known_hosts",
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
        config: "Host server\n  User bob\n  ControlMaster auto\n  ControlPath ~/.ssh/%C\n  ControlPersist 30\n",
        client: "ssh server true; for n in {1..50}; do ssh server \"echo $n; exit $((n%3))\" </dev/null & done | sort -n | md5sum; wait; for n in {1..3}; do ssh server \"exit $n\"; echo $?; done; echo w >f; scp -q f server:; sftp -q -b - server <<<'ls -1'\n\
                 ssh -O check server 2>&1 | sed 's/pid=[0-9]*/pid/'; ssh server 'echo err >&2; cat' <<<in; ssh -O forward -L 4001:localhost:22 server; ssh -p 4001 -o HostKeyAlias=server -o ControlPath=none bob@localhost id -un; ssh -O exit server; sleep 0.3; ssh -O check server >/dev/null 2>&1; echo $?",
        look: "sleep 0.5; grep -c Accepted /var/log/sshd.log",
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
        setup: "mkdir /srv/web; echo page >/srv/web/p; (cd /srv/web; setsid python3 -m http.server 8000 >/dev/null 2>&1 &); listening 8000",
        client: "ssh -f -N -o ExitOnForwardFailure=yes -L 5001:localhost:8000 -L ~/s:localhost:8000 -R 5002:localhost:8000 -R '*:5003:localhost:8000' -D 5004 -R 5005 bob@server; echo $?\n\
                 for u in 'http://localhost:5001/p' '--unix-socket s http://x/p' 'http://localhost:5002/p' 'http://127.0.0.2:5003/p' '--socks5-hostname localhost:5004 http://server:8000/p' '--socks5 localhost:5005 http://127.0.0.1:8000/p' 'http://127.0.0.2:5002/p'; do curl -s --max-time 10 $u; echo $?; done\n\
                 ssh -o ExitOnForwardFailure=yes -L 5001:x:1 bob@server true; echo $?; ssh -o ExitOnForwardFailure=yes -R 5002:x:1 bob@server true; echo $?; ssh -R 5002:x:1 bob@server true; echo $?; ssh -L 80:x:1 bob@server true; echo $?",
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
        config: "CanonicalizeHostname yes\nCanonicalDomains nowhere.invalid example.org\nCanonicalizeMaxDots 0\nMatch canonical host *.example.org\n  User bob\nHost *\n  BatchMode yes\n",
        setup: "echo '127.0.0.2 bastion.example.org.' >>/etc/hosts; echo '127.0.0.3 inner.example.org.' >>/etc/hosts",
        client: "for h in bastion inner server.example.org; do ssh $h id -un 2>/dev/null; ssh -G $h 2>/dev/null | grep '^hostname\\|^user ' | sort; done; ssh -o CanonicalizeFallbackLocal=no nothere true 2>/dev/null; echo $?",
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
        setup: "ip addr add fe80::99/64 dev lo nodad; ip addr add fd00::5/64 dev lo nodad; echo 'fd00::5 six' >>/etc/hosts",
        config: "Host *\n  StrictHostKeyChecking no\n  UserKnownHostsFile /dev/null\n  LogLevel ERROR\n",
        client: "c='echo ${SSH_CONNECTION#* }'; for h in ::1 fd00::5 fe80::99%lo six; do ssh bob@$h \"$c\" | cut -d' ' -f2- | sed 's/%lo//'; done; echo w >f; scp -q f 'bob@[fd00::5]:'; echo $?; scp -q f 'bob@[fe80::99%lo]:g'; echo $?; sftp -q -b - 'bob@[fd00::5]' <<<'ls -1'\n\
                 ssh -4 bob@fd00::5 true; echo $?; ssh -6 bob@127.0.0.1 true; echo $?",
        sees: &["fd00::5 22", "fe80::99 22"],
        ..RECIPE
    }
    .run();
}

/// An `authorized_keys` of 5,000 keys, the right one last, and a client with many keys.
#[test]
fn huge_authorized_keys_and_many_identities() {
    Recipe {
        setup: "k=$(cut -d' ' -f2 /world/host_ed25519.pub); p=/home/bob/.ssh/authorized_keys; for i in {1..5000}; do echo \"restrict,command=\\\"x $i\\\" ssh-ed25519 $k user$i@host\"; done >$p; printf '\\n# end\\nnot a key\\n' >>$p; cat /world/authorized_keys >>$p\n\
                for i in {1..8}; do ssh-keygen -q -t ed25519 -N '' -f /home/me/k$i; done; chown -R me: /home/me",
        client: "ssh -o BatchMode=yes bob@server id -un; echo $?; i=''; for n in {1..8}; do i=\"$i -i k$n\"; done; ssh -o BatchMode=yes $i bob@server id -un 2>&1 | sed 's/port 22:2/N/'; echo ${PIPESTATUS[0]}; ssh -o BatchMode=yes -o IdentitiesOnly=yes -i k1 bob@server true; echo $?",
        sees: &["bob\n0\n", "Too many authentication failures"],
        ..RECIPE
    }
    .run();
}
