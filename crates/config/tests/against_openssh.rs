//! Compares how our loaders and the system's `ssh -G` and `sshd -T` read configurations.
//!
//! Tests are skipped, with a message, if those programs are missing. The comparison leaves out lines that
//! differ by design between OpenSSH versions, distributions and us (algorithm lists, keywords that the
//! installed version lacks).

mod common;

use std::collections::BTreeSet;
use std::process::Command;

use common::Home;
use lh_config::ServerConfig;
use lh_config::client::{Request, UserFile};
use lh_testkit::dumps::{LISTS, by_keyword};

/// Further keywords, besides [`LISTS`], whose values are not comparable.
const APART: &[&str] = &[
    // Defaults that follow the version or the distribution.
    "gssapikexalgorithms",
    "gssapiauthentication",
    "forwardx11trusted",
    "xauthlocation",
    "hashknownhosts",
    "sendenv",
    "usepam",
    "pidfile",
    "securitykeyprovider",
    "hostkey",
    // The order of the wildcard addresses varies.
    "listenaddress",
];

/// Compares the lines that both dumps have; `set` keywords must be in both.
fn compare(ours: &str, theirs: &str, text: &str) {
    let (ours, theirs) = (by_keyword(ours), by_keyword(theirs));
    let written: BTreeSet<String> =
        text.lines().filter_map(|line| line.split_whitespace().next()).map(str::to_ascii_lowercase).collect();
    for (keyword, values) in &theirs {
        // A keyword that is neither in the file nor in our dump: the distribution added it.
        if (APART.contains(&keyword.as_str())
            || LISTS.contains(&keyword.as_str())
            || !ours.contains_key(keyword))
            && !written.contains(keyword)
        {
            continue;
        }
        let default_of_version = ["ipqos", "identityfile", "pubkeyauthoptions"].contains(&keyword.as_str())
            && !written.contains(keyword);
        if !default_of_version {
            assert_eq!(ours.get(keyword), Some(values), "{keyword} in\n{text}");
        }
    }
    for keyword in written.iter().filter(|keyword| !theirs.contains_key(*keyword)) {
        assert_eq!(ours.get(keyword), None, "{keyword} in\n{text}");
    }
}

#[test]
fn ssh_g_agrees() {
    let Some([ssh]) = lh_testkit::peers("ssh_g_agrees", ["ssh"]) else { return };
    let home = Home::new();
    for text in [
        "",
        "Hostname %h.Example\nUser bob\nPort 2222\nCompression yes\nServerAliveInterval 1m\nConnectTimeout 90\n",
        "Host other\nPort 1\nHost ho* !hos?\nPort 2\nHost h?s* # comment\nPort 3\nUser \"a b\"\n",
        "ProxyJump a@b:33,c\nProxyCommand nc\n",
        "ProxyCommand nc %h %p # x\nProxyJump a\n",
        "ProxyCommand none\nProxyJump none\nControlPath none\n",
        "IdentityFile ~/id-%h\nIdentityFile /b\nIdentityFile /b\nCertificateFile /c\nIdentitiesOnly yes\nIdentityAgent none\n",
        "LocalForward 80 [::1]:90\nLocalForward 1.2.3.4:80 x:90\nLocalForward *:80 x:90\nLocalForward /a/b /c/d\nLocalForward a/b c/d\n\
         LocalForward ./e x:90\n\
         RemoteForward 80\nRemoteForward 0:1 a:2\n",
        "DynamicForward 99\nDynamicForward localhost:1080\nExitOnForwardFailure yes\nGatewayPorts yes\n",
        "SetEnv X=1 Y=\"a b\"\nSetEnv Z=2\nRequestTTY force\nSessionType none\nStdinNull yes\n",
        "RekeyLimit 1G 1h\nEscapeChar ^A\nIPQoS ef 0x10\nAddKeysToAgent confirm\nControlPersist 10m\nForwardAgent yes\n",
        "AddKeysToAgent 1h\nControlPersist yes\nIPQoS none\nRekeyLimit 0 0\nConnectTimeout none\nTunnelDevice any:3\n\
         StrictHostKeyChecking off\nTunnel ethernet\nCanonicalDomains none\n",
        "AddKeysToAgent ask\nIPQoS 12\nRekeyLimit 1M\nEscapeChar none\nTunnelDevice 1\nLogLevel DEBUG\n",
        "StreamLocalBindMask 0077\nStrictHostKeyChecking accept-new\nPubkeyAuthentication no\nFingerprintHash md5\n\
         UpdateHostKeys no\nPreferredAuthentications password,publickey\nNumberOfPasswordPrompts 1\n",
        "LocalCommand echo %h # x\nPermitLocalCommand yes\nKnownHostsCommand /bin/x %h\nRevokedHostKeys /r\n",
        "HostKeyAlias hka\nGlobalKnownHostsFile /g1 /g2\nLogVerbose a\nPermitRemoteOpen a:1 b:*\n",
        "CanonicalizeMaxDots 3\nVerifyHostKeyDNS ask\nSyslogFacility AUTH\n",
        "ClearAllForwardings yes\nLocalForward 1 a:2\nHostKeyAlgorithms ssh-ed25519\nCiphers aes128-ctr\n",
        "Match host=host user=root,alice\nPort 5\nMatch all\nUser z\n",
        "Match host h* all\nPort 5\nMatch host x all\nUser y\nMatch user root all\nCompression yes\nMatch canonical all\nUser z\n",
        "Match final all\nUser fin\n",
        "Port +22\nSetEnv A= =y\nLocalForward +81 x:+90\n",
        "Port \"  022\"\n",
        "Match final\nUser fin\nMatch canonical\nUser can\n",
        "Match originalhost HOST\nPort 5\nMatch !host x exec true\nPort 6\n",
        "Port=44\n  User = bob\n\t\"Compression\" yes\nProtocol 2\nTCPKeepAlive no\nKeepAlive yes\n",
        "IgnoreUnknown Foo*\nFooBar 1\nChallengeResponseAuthentication no\nVisualHostKey yes\nCheckHostIP yes\n",
    ] {
        let path = home.write("config", text);
        let theirs = Command::new(&ssh)
            .args(["-F".as_ref(), path.as_os_str()])
            .args(["-T", "-l", "me", "-G", "host"])
            .output()
            .expect("ssh runs");
        assert!(theirs.status.success(), "{text}\n{}", String::from_utf8_lossy(&theirs.stderr));
        let mut request = Request { user_file: UserFile::Named(path), ..home.request("host") };
        // ssh uses the real user and home, we use fake ones.
        request.command_line = vec![
            lh_config::client::CommandLine::Flag("User", vec!["me".to_owned()]),
            flag("RequestTTY", "no"),
        ];
        let mut config = home.load(&request).expect("loads");
        config.user_known_hosts_file.value.0.clear();
        let ours = config.dump(&|_| Vec::new());
        let theirs: String = String::from_utf8_lossy(&theirs.stdout)
            .lines()
            .filter(|line| !line.starts_with("userknownhostsfile"))
            .map(|line| format!("{line}\n"))
            .collect();
        compare(&ours, &theirs, text);
    }
}

fn flag(keyword: &'static str, value: &str) -> lh_config::client::CommandLine {
    lh_config::client::CommandLine::Flag(keyword, vec![value.to_owned()])
}

#[test]
fn sshd_t_agrees() {
    let home = Home::new();
    let key = home.path("key");
    let Some([keygen, sshd]) = lh_testkit::peers("sshd_t_agrees", ["ssh-keygen", "sshd"]) else { return };
    let made = Command::new(keygen).args(["-q", "-t", "ed25519", "-N", "", "-f"]).arg(&key).status();
    assert!(made.expect("ssh-keygen runs").success());
    for text in [
        "",
        "Port 22\nPort 2222\nAddressFamily inet\nListenAddress 127.0.0.1\nListenAddress 127.0.0.1:99\n",
        "PermitRootLogin yes\nMaxAuthTries 3\nMaxSessions 5\nMaxStartups 5:50:60\nLoginGraceTime 1m\nStrictModes no\n",
        "PasswordAuthentication no\nKbdInteractiveAuthentication no\nPubkeyAuthentication yes\nPermitEmptyPasswords yes\n",
        "Subsystem sftp internal-sftp -f AUTH -l INFO\nSubsystem other /bin/x a b\nAcceptEnv LANG LC_*\nSetEnv A=1\n",
        "AllowUsers a b@c\nAllowUsers d\nDenyUsers e\nAllowGroups f\nDenyGroups g h\n",
        "ClientAliveInterval 30\nClientAliveCountMax 2\nTCPKeepAlive no\nCompression no\nRekeyLimit 1G 1h\nUseDNS yes\n",
        "AllowTcpForwarding local\nAllowStreamLocalForwarding no\nGatewayPorts clientspecified\nX11Forwarding yes\n\
         PermitOpen a:1 b:*\nPermitListen 8080 localhost:1\nPermitTunnel point-to-point\n",
        "AuthorizedKeysFile .ssh/a /etc/k/%u\nAuthorizedKeysCommand /bin/true %u\nAuthorizedKeysCommandUser nobody\n",
        "AuthenticationMethods publickey,password publickey,keyboard-interactive:pam\nBanner /etc/issue\n",
        "ForceCommand ls -l # x\nChrootDirectory /x/%u\nVersionAddendum hello there\nPermitUserEnvironment LANG,LC_*\n",
        "PerSourceMaxStartups 5\nPerSourceNetBlockSize 24:64\nFingerprintHash md5\nLogLevel VERBOSE\nSyslogFacility LOCAL3\n",
        "TrustedUserCAKeys /ca\nIPQoS af21 cs1\nStreamLocalBindMask 077\nExposeAuthInfo yes\n",
        "IgnoreRhosts shosts-only\nPubkeyAuthOptions touch-required\nRequiredRSASize 2048\nPrintMotd no\n",
        "ChallengeResponseAuthentication no\nMatch User nobody\nMaxAuthTries 1\nMatch all\nX11Forwarding yes\n",
    ] {
        let path = home.write("sshd", text);
        let theirs = Command::new(&sshd)
            .arg("-T")
            .args(["-f".as_ref(), path.as_os_str()])
            .args(["-h".as_ref(), key.as_os_str()])
            .output()
            .expect("sshd runs");
        if String::from_utf8_lossy(&theirs.stderr).contains("Missing privilege separation directory") {
            return lh_testkit::skip_unavailable("sshd_t_agrees", "this sshd cannot run without /run/sshd");
        }
        assert!(theirs.status.success(), "{text}\n{}", String::from_utf8_lossy(&theirs.stderr));
        let config = ServerConfig::load(Some(&path), &[], &home.world).expect("loads");
        let config = config.for_connection(&Default::default()).expect("applies");
        let mut text = text.to_owned();
        if text.contains("ListenAddress") {
            text = text.replace("ListenAddress", "#");
        }
        let text = text.split("Match").next().unwrap_or_default();
        compare(&config.dump(true, &|_| Vec::new()), &String::from_utf8_lossy(&theirs.stdout), text);
    }
}
