//! All functions of paramiko's client, which many Python programs use, against Longhaul's server.

use std::path::Path;

use lh_interop::{Agent, Lab, Lhsshd, TestUser, is_root, me, our, peers, skip};

/// Every algorithm, key type, login method, terminal, forward, and method of its SFTP client.
///
/// Covers: sshd_config Ciphers; sshd_config MACs; sshd_config KexAlgorithms; sshd_config PubkeyAcceptedAlgorithms; sshd_config TrustedUserCAKeys; sshd_config Banner; sshd_config AcceptEnv; sshd_config MaxSessions
#[test]
fn paramiko_client_works_with_our_server() {
    let python = Path::new("/usr/bin/python3");
    let lab = Lab::new();
    if lab.run(python, &["-W", "ignore", "-c", "import paramiko"]).code != 0 {
        return skip("paramiko", "Debian's python3-paramiko is not installed");
    }
    let Some([keygen]) = peers("paramiko", ["ssh-keygen"]) else { return };
    let certify = [
        &["-q", "-t", "ed25519", "-N", "", "-f", "ca"][..],
        &["-q", "-t", "ed25519", "-N", "", "-f", "certified"],
        &["-q", "-s", "ca", "-I", "test", "-n", &me(), "certified.pub"],
    ];
    for words in certify {
        lab.run(&keygen, words).ok("ssh-keygen");
    }
    lab.write("banner", "Be welcome\n");
    let config = format!(
        "Ciphers +aes128-cbc,aes192-cbc,aes256-cbc,3des-cbc\nMACs +hmac-md5,hmac-md5-96,hmac-sha1-96\n\
         KexAlgorithms +diffie-hellman-group16-sha512,diffie-hellman-group-exchange-sha256,diffie-hellman-group14-sha256,\
         diffie-hellman-group-exchange-sha1,diffie-hellman-group14-sha1,diffie-hellman-group1-sha1\n\
         HostKeyAlgorithms +ssh-rsa\nPubkeyAcceptedAlgorithms +ssh-rsa\nTrustedUserCAKeys {}\nBanner {}\n\
         AcceptEnv FROM_TEST\nKbdInteractiveAuthentication yes\nMaxAuthTries 10\n",
        lab.arg("ca.pub"),
        lab.arg("banner")
    );
    let server = Lhsshd::start(&lab, &config);
    let agent = Agent::ours(&lab, "agent", &[]);
    let keys = ["user_ed25519", "user_rsa", "user_ecdsa"].map(|name| lab.arg(name));
    agent.run(&lab, &our("lhssh-add"), &keys).ok("added");
    let typist = is_root().then(|| TestUser::new(&lab));
    let (name, password) = typist.as_ref().map_or(("-", "-"), |user| (&*user.name, user.password));
    let script = Path::new(env!("CARGO_MANIFEST_DIR")).join("peers/paramiko_wide.py");
    let words =
        ["-W", "ignore", &script.to_string_lossy(), &server.port_arg(), &me(), &lab.arg(""), name, password];
    let ran = agent.run(&lab, python, &words).ok("paramiko");
    assert!(ran.text().ends_with("done\n"), "{}", ran.text());
}
