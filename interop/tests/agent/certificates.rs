//! Certificates: user certificates in clients and agents, and host certificates in `known_hosts`.

use lh_interop::{Agent, Inetd, Lab, Ran, me, our, peers};

use super::using::login;

fn keygen(lab: &Lab, args: &[&str]) {
    let program = lh_interop::find("ssh-keygen").unwrap_or_default();
    lab.run(&program, args).ok("ssh-keygen");
}

fn authority(lab: &Lab) {
    keygen(lab, &["-q", "-t", "ed25519", "-N", "", "-C", "ca", "-f", &lab.arg("ca")]);
}

fn is_in(ran: &Ran) -> bool {
    ran.code == 0 && ran.text() == "in\n"
}

/// Covers: ssh_config CertificateFile; ssh_config IdentityFile; ssh-add -k; ssh-add -C; ssh-add -N; ssh-add -d
#[test]
fn users_log_in_with_certificates() {
    let Some([sshd, ssh_agent, _]) =
        peers("users_log_in_with_certificates", ["sshd", "ssh-agent", "ssh-keygen"])
    else {
        return;
    };
    let lab = Lab::new();
    authority(&lab);
    // Only certificates are accepted: no key is authorised by itself.
    lab.write("authorized_keys", "");
    let trust = format!("TrustedUserCAKeys {}", lab.arg("ca.pub"));
    let server = Inetd::openssh(&lab, &sshd, &trust);
    let user = me();
    let none = format!("IdentityFile={}", lab.arg("none"));
    for key in ["user_ed25519", "user_rsa", "user_ecdsa"] {
        let identity = format!("IdentityFile={}", lab.arg(key));
        let plain = lab
            .run(&our("lhssh"), &login(&lab, server.port, &user, &[&identity, "BatchMode=yes"], "echo in"));
        assert_eq!(plain.code, 255, "{key} is not authorised");
        keygen(
            &lab,
            &[
                "-q",
                "-s",
                &lab.arg("ca"),
                "-I",
                key,
                "-n",
                &user,
                "-V",
                "-1m:+1h",
                &lab.arg(&format!("{key}.pub")),
            ],
        );
        // The certificate is beside the key.
        let args = login(&lab, server.port, &user, &[&identity, "BatchMode=yes"], "echo in");
        let ran = lab.run(&our("lhssh"), &args);
        assert!(is_in(&ran), "{key}: {}", ran.err);
        // The certificate is named and in another place.
        std::fs::rename(lab.path(&format!("{key}-cert.pub")), lab.path("elsewhere.pub")).unwrap();
        let file = format!("CertificateFile={}", lab.arg("elsewhere.pub"));
        let args = login(&lab, server.port, &user, &[&identity, &file, "BatchMode=yes"], "echo in");
        let ran = lab.run(&our("lhssh"), &args);
        assert!(is_in(&ran), "{key}: {}", ran.err);
        std::fs::rename(lab.path("elsewhere.pub"), lab.path(&format!("{key}-cert.pub"))).unwrap();
    }
    for (index, program) in [ssh_agent, our("lhssh-agent")].iter().enumerate() {
        let agent = Agent::start(&lab, program, &format!("agent{index}"), &[], &[]);
        for key in ["user_ed25519", "user_rsa", "user_ecdsa"] {
            let certificate = lab.arg(&format!("{key}-cert.pub"));
            let added = agent.run(&lab, &our("lhssh-add"), &[lab.arg(key)]).ok("added");
            assert!(
                added.err.contains(&format!("Certificate added: {certificate} ({key})")),
                "{}",
                added.err
            );
            // The certificate expires, so the agent must forget it shortly afterwards.
            assert!(added.err.contains("Lifetime set to "), "{}", added.err);
            let args = login(&lab, server.port, &user, &[&none, "BatchMode=yes"], "echo in");
            let ran = agent.run(&lab, &our("lhssh"), &args);
            assert!(is_in(&ran), "{key}: {}", ran.err);
            // The key is in the agent, the certificate in a file.
            agent.run(&lab, &our("lhssh-add"), &["-q", "-d", "-C", &lab.arg(key)]).ok("certificate removed");
            let file = format!("CertificateFile={certificate}");
            let args = login(&lab, server.port, &user, &[&none, &file, "BatchMode=yes"], "echo in");
            let ran = agent.run(&lab, &our("lhssh"), &args);
            assert!(is_in(&ran), "{key}: {}", ran.err);
            agent.run(&lab, &our("lhssh-add"), &["-q", "-d", "-k", &lab.arg(key)]).ok("key removed");
            assert_eq!(agent.run(&lab, &our("lhssh-add"), &["-l"]).code, 1);
        }
        let unlimited = agent.run(&lab, &our("lhssh-add"), &["-N", "-C", &lab.arg("user_rsa")]).ok("added");
        assert!(
            !unlimited.err.contains("Lifetime") && !unlimited.err.contains("Identity added"),
            "{}",
            unlimited.err
        );
        let list = agent.run(&lab, &our("lhssh-add"), &["-l"]).ok("listed").text();
        assert!(list.contains("(RSA-CERT)") && list.lines().count() == 1, "{list}");
    }
}

/// A host with a certificate, and the known_hosts entry of its authority.
struct Host<'a> {
    lab: &'a Lab,
    server: Inetd,
}

impl Host<'_> {
    fn connect(&self, known: &str, more: &[&str]) -> Ran {
        self.lab.write("known", known);
        let file = format!("UserKnownHostsFile={}", self.lab.arg("known"));
        let identity = format!("IdentityFile={}", self.lab.arg("user_ed25519"));
        let mut options = vec![file.as_str(), identity.as_str(), "BatchMode=yes"];
        options.extend(more);
        self.lab.run(&our("lhssh"), &login(self.lab, self.server.port, &me(), &options, "echo in"))
    }

    /// Checks that the connection is refused; returns standard error.
    fn refused(&self, known: &str, more: &[&str]) -> String {
        let ran = self.connect(known, more);
        assert_eq!(ran.code, 255, "{}", ran.err);
        assert!(ran.err.contains("Host key verification failed."), "{}", ran.err);
        ran.err
    }
}

fn host<'a>(lab: &'a Lab, sshd: &std::path::Path, key: &str, sign: &[&str]) -> Host<'a> {
    let public = lab.arg(&format!("{key}.pub"));
    let mut args = vec!["-q", "-s", sign[0], "-I", "host-id", "-h"];
    args.extend(&sign[1..]);
    args.push(&public);
    keygen(lab, &args);
    let config = format!("HostCertificate {}", lab.arg(&format!("{key}-cert.pub")));
    Host { lab, server: Inetd::openssh(lab, sshd, &config) }
}

/// Covers: ssh_config HostKeyAlgorithms; ssh_config CASignatureAlgorithms; ssh_config RevokedHostKeys; file known_hosts @cert-authority; file known_hosts @revoked
#[test]
fn hosts_are_believed_by_their_certificates() {
    let Some([sshd, _]) = peers("hosts_are_believed_by_their_certificates", ["sshd", "ssh-keygen"]) else {
        return;
    };
    let lab = Lab::new();
    authority(&lab);
    keygen(&lab, &["-q", "-t", "ed25519", "-N", "", "-f", &lab.arg("other_ca")]);
    let (ca, ca_file) = (lab.read("ca.pub"), lab.arg("ca"));
    let trust = format!("@cert-authority 127.0.0.1 {ca}");
    for key in ["host_ed25519", "host_rsa", "host_ecdsa"] {
        let there = host(&lab, &sshd, key, &[&ca_file, "-n", "127.0.0.1"]);
        let port = there.server.port;
        // Known for the address on all ports, for this port, or by pattern.
        for name in ["127.0.0.1".to_owned(), format!("[127.0.0.1]:{port}"), "127.0.*,!10.*".to_owned()] {
            let ran = there.connect(&format!("@cert-authority {name} {ca}"), &[]);
            assert!(is_in(&ran), "{key} {name}: {}", ran.err);
        }
        // The key itself is known: then the certificate's authority does not matter.
        let plain = format!("[127.0.0.1]:{port} {}", lab.read(&format!("{key}.pub")));
        assert!(is_in(&there.connect(&plain, &[])), "{key}");
        // No authority, an authority for other hosts, another authority.
        there.refused("", &[]);
        there.refused(&format!("@cert-authority *.example {ca}"), &[]);
        there.refused(&format!("@cert-authority * {}", lab.read("other_ca.pub")), &[]);
        // Revoked: the authority, the key, either in a file.
        let err = there.refused(&format!("{trust}@revoked * {ca}"), &[]);
        assert!(err.contains("REVOKED HOST KEY"), "{err}");
        there.refused(&format!("{trust}@revoked * {}", lab.read(&format!("{key}.pub"))), &[]);
        for revoked in ["ca.pub".to_owned(), format!("{key}.pub")] {
            let option = format!("RevokedHostKeys={}", lab.arg(&revoked));
            let err = there.refused(&trust, &[&option]);
            assert!(err.contains("revoked by file"), "{err}");
        }
        // The authority's signature algorithm is not accepted.
        let err = there.refused(&trust, &["CASignatureAlgorithms=rsa-sha2-512"]);
        assert!(err.contains("Certificate signed with disallowed algorithm"), "{err}");
    }
    let elsewhere = host(&lab, &sshd, "host_ed25519", &[&ca_file, "-n", "elsewhere.example"]);
    let err = elsewhere.refused(&trust, &[]);
    assert!(err.contains("Certificate invalid: name is not a listed principal"), "{err}");
    assert!(is_in(
        &elsewhere
            .connect(&format!("@cert-authority elsewhere.example {ca}"), &["HostKeyAlias=elsewhere.example"])
    ));
    let expired =
        host(&lab, &sshd, "host_ed25519", &[&ca_file, "-n", "127.0.0.1", "-V", "20200101:20210101"]);
    let err = expired.refused(&trust, &[]);
    assert!(err.contains("Certificate invalid: expired"), "{err}");
}
