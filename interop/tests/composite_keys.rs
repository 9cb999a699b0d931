//! `ssh-mldsa44-ed25519` in every use of keys: generated, listed, used for logins, certified, held by agents,
//! offered by hosts and added to `known_hosts`. OpenSSH has the type since 10.6. If an older version is
//! installed, `lh_crypto`'s test with the draft's own signature proves the encoding.

use lh_interop::{Agent, Lab, Lhsshd, Ran, me, our};

const NAME: &str = "ssh-mldsa44-ed25519";
const CERTIFIED: &str = "ssh-mldsa44-ed25519-cert";

/// A server with a composite host key, and a composite key that may log in.
struct CompositeKeySetup {
    lab: Lab,
    server: Lhsshd,
}

impl CompositeKeySetup {
    fn new(more: &str) -> Self {
        let lab = Lab::new();
        for key in ["host_composite", "composite", "ca"] {
            make(&lab, key);
        }
        lab.write("authorized_keys", &lab.read("composite.pub"));
        let config = format!(
            "HostKey {host}\nCASignatureAlgorithms +{NAME}\n{more}",
            host = lab.arg("host_composite"),
            more = more.replace("{lab}", &lab.dir().to_string_lossy()),
        );
        let server = Lhsshd::start(&lab, &config);
        lab.write("known_hosts", &format!("[127.0.0.1]:{} {}", server.port, lab.read("host_composite.pub")));
        Self { lab, server }
    }

    fn args(&self, options: &[&str]) -> Vec<String> {
        let mut args = Vec::new();
        for option in options {
            args.extend(["-o".to_owned(), (*option).to_owned()]);
        }
        // The host also has a key that clients prefer.
        for option in
            [format!("HostKeyAlgorithms={NAME}"), format!("IdentityFile={}", self.lab.arg("composite"))]
        {
            args.extend(["-o".to_owned(), option]);
        }
        args.extend(self.lab.client_options());
        args.extend(["-p".to_owned(), self.server.port_arg(), format!("{}@127.0.0.1", me())]);
        args.push("echo in".to_owned());
        args
    }

    fn ssh(&self, options: &[&str]) -> Ran {
        self.lab.run(&our("lhssh"), &self.args(options))
    }
}

fn make(lab: &Lab, name: &str) {
    keygen(lab, &["-q", "-t", "mldsa44-ed25519", "-N", "", "-C", name, "-f", name]);
}

fn keygen(lab: &Lab, args: &[&str]) -> String {
    lab.run(&our("lhssh-keygen"), args).ok("lhssh-keygen").text()
}

#[track_caller]
fn assert_in(ran: &Ran) {
    assert_eq!((ran.code, ran.text().as_str()), (0, "in\n"), "{}", ran.err);
}

/// Covers: ssh-keygen -t; wire ssh-mldsa44-ed25519; ssh_config HostKeyAlgorithms; sshd_config HostKeyAlgorithms
#[test]
fn composite_key_logs_in_to_a_composite_host_key() {
    let setup = CompositeKeySetup::new("");
    assert_in(&setup.ssh(&[]));
    let said = setup.ssh(&["LogLevel=DEBUG1"]);
    assert!(said.err.contains(&format!("host key algorithm: {NAME}")), "{}", said.err);
    assert!(setup.server.log().contains(" ssh2: MLDSA44-ED25519 SHA256:"), "{}", setup.server.log());
    let other_host_key = setup.ssh(&["HostKeyAlgorithms=ssh-ed25519", "StrictHostKeyChecking=no"]);
    assert_in(&other_host_key);
    let refused = setup.ssh(&["PubkeyAcceptedAlgorithms=ssh-ed25519"]);
    assert_eq!(refused.code, 255, "{}", refused.err);
    // A host that shows another key of the type is rejected.
    make(&setup.lab, "other");
    let known = format!("[127.0.0.1]:{} {}", setup.server.port, setup.lab.read("other.pub"));
    setup.lab.write("known_hosts", &known);
    let changed = setup.ssh(&[]);
    assert_eq!(changed.code, 255);
    assert!(changed.err.contains("REMOTE HOST IDENTIFICATION HAS CHANGED"), "{}", changed.err);
}

/// Covers: ssh-keygen -s; ssh-keygen -L; wire ssh-mldsa44-ed25519-cert; sshd_config CASignatureAlgorithms; sshd_config HostCertificate
#[test]
fn composite_key_certifies_users_and_hosts() {
    let setup = CompositeKeySetup::new(
        "TrustedUserCAKeys {lab}/ca.pub\nHostCertificate {lab}/host_composite-cert.pub\n",
    );
    let lab = &setup.lab;
    keygen(lab, &["-q", "-s", "ca", "-I", "user", "-n", &me(), "composite.pub"]);
    keygen(lab, &["-q", "-s", "ca", "-I", "host", "-h", "-n", "127.0.0.1", "host_composite.pub"]);
    let shown = keygen(lab, &["-L", "-f", "composite-cert.pub"]);
    assert!(shown.contains(&format!("Type: {CERTIFIED} user certificate")), "{shown}");
    assert!(shown.contains("Public key: MLDSA44-ED25519-CERT SHA256:"), "{shown}");
    assert!(shown.contains(&format!("(using {NAME})")), "{shown}");
    // The user's certificate: the plain key alone is not accepted.
    lab.write("authorized_keys", "");
    assert_in(&setup.ssh(&[]));
    assert!(setup.server.log().contains("signed by MLDSA44-ED25519 CA SHA256:"), "{}", setup.server.log());
    // The host's certificate, which the server reads when it starts.
    lab.write("authorized_keys", &lab.read("composite.pub"));
    let setup = CompositeKeySetup { server: restart(&setup), lab: setup.lab };
    let known = format!("@cert-authority [127.0.0.1]:* {}", setup.lab.read("ca.pub"));
    setup.lab.write("known_hosts", &known);
    let algorithms = format!("HostKeyAlgorithms={CERTIFIED}");
    let authorities = format!("CASignatureAlgorithms={NAME}");
    assert_in(&setup.ssh(&[&algorithms, &authorities]));
    let refused = setup.ssh(&[&algorithms]);
    assert_eq!(
        refused.code, 255,
        "an authority's algorithm that is not named does not count: {}",
        refused.err
    );
}

fn restart(setup: &CompositeKeySetup) -> Lhsshd {
    let config =
        format!("HostKey {host}\nHostCertificate {host}-cert.pub\n", host = setup.lab.arg("host_composite"),);
    Lhsshd::start(&setup.lab, &config)
}

/// Covers: ssh-add -l; ssh-add -L; wire SSH_AGENTC_ADD_IDENTITY
#[test]
fn agent_holds_composite_key_and_certificate() {
    let setup = CompositeKeySetup::new("TrustedUserCAKeys {lab}/ca.pub\n");
    let lab = &setup.lab;
    let agent = Agent::ours(lab, "agent", &[]);
    // A key whose file is gone.
    agent.run(lab, &our("lhssh-add"), &["-q", &lab.arg("composite")]).ok("lhssh-add");
    let listed = agent.run(lab, &our("lhssh-add"), &["-l"]).text();
    assert!(listed.ends_with(" composite (MLDSA44-ED25519)\n"), "{listed}");
    assert_eq!(agent.run(lab, &our("lhssh-add"), &["-L"]).text(), lab.read("composite.pub"));
    std::fs::rename(lab.path("composite"), lab.path("away")).unwrap();
    assert_in(&agent.run(lab, &our("lhssh"), &setup.args(&[])));
    // A certificate, which the agent gets together with the key.
    agent.run(lab, &our("lhssh-add"), &["-q", "-D"]).ok("lhssh-add");
    keygen(lab, &["-q", "-s", "ca", "-I", "user", "-n", &me(), "composite.pub"]);
    std::fs::rename(lab.path("away"), lab.path("composite")).unwrap();
    agent.run(lab, &our("lhssh-add"), &["-q", &lab.arg("composite")]).ok("lhssh-add");
    let listed = agent.run(lab, &our("lhssh-add"), &["-l"]).text();
    assert!(listed.ends_with(" composite (MLDSA44-ED25519-CERT)\n"), "{listed}");
    lab.write("authorized_keys", "");
    std::fs::remove_file(lab.path("composite")).unwrap();
    assert_in(&agent.run(lab, &our("lhssh"), &setup.args(&["IdentityFile=none", "IdentitiesOnly=no"])));
}

/// Covers: ssh-keyscan -t; ssh_config UpdateHostKeys; ssh -Q; ssh-keygen -F
#[test]
fn composite_host_key_is_scanned_and_learned() {
    let setup = CompositeKeySetup::new("");
    let lab = &setup.lab;
    let port = setup.server.port_arg();
    for kind in ["mldsa44-ed25519", NAME] {
        let scanned =
            lab.run(&our("lhssh-keyscan"), &["-p", &port, "-t", kind, "127.0.0.1"]).ok("scan").text();
        let key = lab.read("host_composite.pub");
        let blob = key.split(' ').nth(1).unwrap();
        assert_eq!(scanned, format!("[127.0.0.1]:{port} {NAME} {blob}\n"));
        lab.write("scanned", &scanned);
    }
    let found = keygen(lab, &["-F", &format!("[127.0.0.1]:{port}"), "-l", "-f", "scanned"]);
    assert!(found.contains(" MLDSA44-ED25519 SHA256:"), "{found}");
    // A client that knows another key of the host learns this one if it accepts the type.
    lab.write("known_hosts", "");
    lab.know(setup.server.port);
    let learn = ["UpdateHostKeys=yes", &format!("HostKeyAlgorithms=ssh-ed25519,{NAME}")];
    let mut args = setup.args(&learn);
    args.pop();
    args.push("sleep 1".to_owned());
    lab.run(&our("lhssh"), &args).ok("lhssh");
    assert!(lab.read("known_hosts").contains(NAME), "{}", lab.read("known_hosts"));
    for (query, names) in [("key-plain", vec![NAME]), ("key-cert", vec![CERTIFIED]), ("sig", vec![NAME])] {
        let listed = lab.run(&our("lhssh"), &["-Q", query]).ok("-Q").text();
        assert!(names.iter().all(|name| listed.lines().any(|line| line == *name)), "{query}: {listed}");
    }
    let dumped = lab.run(&our("lhssh"), &["-G", "-F", "none", "host"]).ok("-G").text();
    let line = |keyword: &str| dumped.lines().find(|line| line.starts_with(keyword)).unwrap_or_default();
    for keyword in ["hostkeyalgorithms ", "pubkeyacceptedalgorithms ", "hostbasedacceptedalgorithms "] {
        assert!(line(keyword).ends_with(&format!(",{NAME}")), "{dumped}");
        assert!(line(keyword).contains(&format!(",{CERTIFIED},")), "{dumped}");
    }
    assert!(!line("casignaturealgorithms ").contains(NAME), "{dumped}");
    assert!(dumped.contains("identityfile ~/.ssh/id_mldsa44_ed25519\n"), "{dumped}");
}

/// Covers: ssh-keygen -Y
#[test]
fn composite_key_signs_files() {
    let lab = Lab::new();
    make(&lab, "composite");
    lab.write("data", "data");
    keygen(&lab, &["-Y", "sign", "-f", "composite", "-n", "file", "data"]);
    lab.write("allowed", &format!("me {}", lab.read("composite.pub")));
    let verify = |data: &str| {
        lab.sh(&format!(
            "{} -Y verify -f allowed -I me -n file -s data.sig < {data}",
            our("lhssh-keygen").display()
        ))
    };
    assert!(
        verify("data")
            .ok("verify")
            .text()
            .starts_with("Good \"file\" signature for me with MLDSA44-ED25519 key")
    );
    assert_ne!(verify("allowed").code, 0);
}
