//! Odd spellings of values in `sshd_config`: what sshd refuses is refused here.

mod common;

use std::process::Command;

use common::{Home, lines};
use lh_config::{ConfigError, ServerConfig};

fn load(home: &Home, text: &str) -> Result<ServerConfig, ConfigError> {
    ServerConfig::load(Some(&home.write("sshd", text)), &[], &home.world)
}

/// Lines that sshd 9.2 refuses, with its message.
const REFUSED: &[(&str, &str)] = &[
    ("VersionAddendum a\rb", "Invalid VersionAddendum argument"),
    ("VersionAddendum \"a\r\"", "Invalid VersionAddendum argument"),
    ("RDomain blue", "setting RDomain not supported on this platform."),
    ("RDomain %D", "setting RDomain not supported on this platform."),
    ("PerSourceMaxStartups NONE", "PerSourceMaxStartups integer value invalid."),
    ("PerSourceMaxStartups None", "PerSourceMaxStartups integer value invalid."),
    ("LoginGraceTime none", "invalid time value."),
    ("PermitEmptyPasswords true", "unsupported option \"true\"."),
    ("PasswordAuthentication FALSE", "unsupported option \"FALSE\"."),
    ("TCPKeepAlive true", "unsupported option \"true\"."),
    ("PermitTunnel YES", "bad PermitTunnel argument YES"),
    ("PermitTunnel Ethernet", "bad PermitTunnel argument Ethernet"),
    ("MaxStartups 2147483648", "Invalid MaxStartups spec."),
    ("MaxStartups 10:30:4294967295", "Invalid MaxStartups spec."),
    ("RekeyLimit DEFAULT NONE", "Bad RekeyLimit number 'DEFAULT': Invalid argument"),
    ("RekeyLimit 1G NONE", "invalid time value."),
    ("ListenAddress 127.0.0.1:0", "bad port number"),
    ("Ciphers aes*", "Bad SSH2 cipher spec 'aes*'."),
    ("MACs +hmac-*", "Bad SSH2 MAC spec '+hmac-*'."),
    ("IPQoS 08", "Bad IPQoS value: 08"),
    ("Subsystem sftp \"\"", "Missing subsystem command."),
];

/// Lines that look odd and that sshd accepts.
const ACCEPTED: &[&str] = &[
    "VersionAddendum a\tb\r",
    "VersionAddendum NONE",
    "PerSourceMaxStartups none",
    "LoginGraceTime 0",
    "PermitEmptyPasswords YES",
    "MaxStartups 2147483647",
    "RekeyLimit default none",
    "PubkeyAcceptedAlgorithms ecdsa-*",
    "Ciphers -aes*",
    "IPQoS 010",
    "ListenAddress 127.0.0.1:1",
];

/// Covers: sshd_config RDomain
#[test]
fn values_that_sshd_refuses_are_errors() {
    let home = Home::new();
    for (line, expected) in REFUSED {
        let found = lines(load(&home, line), home.directory.path());
        assert_eq!(found.first().map(String::as_str), Some(&*format!("sshd line 1: {expected}")), "{line}");
    }
    for line in ACCEPTED {
        assert!(load(&home, line).is_ok(), "{line}");
    }
    let kex = lines(load(&home, "KexAlgorithms ^ecdh-*"), home.directory.path());
    assert_eq!(kex[1], "sshd line 1: Bad SSH2 KexAlgorithms '^ecdh-*'.");
    assert!(load(&home, "PerSourcePenalties max-sources4:2147483648").is_err());
    let dump = load(&home, "IPQoS 010\nRDomain none\n").expect("loads").dump(true, &|_| Vec::new());
    assert!(dump.contains("ipqos throughput throughput\n") && dump.contains("rdomain none\n"), "{dump}");
}

#[test]
fn sshd_decides_alike_about_spellings() {
    let name = "sshd_decides_alike_about_spellings";
    let home = Home::new();
    let Some([keygen, sshd]) = lh_testkit::peers(name, ["ssh-keygen", "sshd"]) else { return };
    let key = home.path("key");
    let made = Command::new(keygen).args(["-q", "-t", "ed25519", "-N", "", "-f"]).arg(&key).status();
    assert!(made.expect("ssh-keygen runs").success());
    let refused = REFUSED.iter().map(|(line, _)| (*line, false));
    for (line, accepted) in refused.chain(ACCEPTED.iter().map(|line| (*line, true))) {
        let path = home.write("theirs", line);
        let ran = Command::new(&sshd).args(["-t", "-f"]).arg(&path).arg("-h").arg(&key).output();
        let ran = ran.expect("sshd runs");
        let said = String::from_utf8_lossy(&ran.stderr);
        if said.contains("Missing privilege separation directory") {
            return lh_testkit::skip_unavailable(name, "this sshd cannot run without /run/sshd");
        }
        assert_eq!(ran.status.success(), accepted, "{line}: {said}");
    }
}
