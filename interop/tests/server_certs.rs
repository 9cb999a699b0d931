//! Certificates at `lhsshd`, issued by OpenSSH's ssh-keygen and used by OpenSSH's client: trusted
//! authorities, accounts, permissions, revocation.

use std::io::{Read, Write};
use std::ops::Deref;
use std::os::unix::net::{UnixListener, UnixStream};
use std::sync::Arc;
use std::sync::atomic::{AtomicU32, Ordering};

use lh_interop::{Lab, Lhsshd, Ran, is_root, me, peers, process, safe_directory, script};

/// A server, OpenSSH's programs, and three authorities: `ca`, `ca_rsa`, `other_ca`.
struct CertificateSetup(lh_interop::ServerSetup);

impl Deref for CertificateSetup {
    type Target = lh_interop::ServerSetup;
    fn deref(&self) -> &lh_interop::ServerSetup {
        &self.0
    }
}

impl CertificateSetup {
    fn new(test: &str, config: &str) -> Option<Self> {
        let [keygen] = peers(test, ["ssh-keygen"])?;
        let lab = Lab::new();
        for (name, kind) in [("ca", "ed25519"), ("ca_rsa", "rsa"), ("other_ca", "ecdsa")] {
            lab.run(&keygen, &["-q", "-t", kind, "-N", "", "-C", name, "-f", &lab.arg(name)])
                .ok("ssh-keygen");
        }
        // No plain key is accepted.
        lab.write("authorized_keys", "");
        lh_interop::ServerSetup::with_lab(test, lab, config).map(Self)
    }

    /// Certifies `user_ed25519` with these options of ssh-keygen; the client uses the certificate from then
    /// on.
    fn certify(&self, ca: &str, options: &[&str]) {
        self.certify_key(ca, options, "user_ed25519");
    }

    fn certify_key(&self, ca: &str, options: &[&str], key: &str) {
        let mut args = vec!["-q", "-s", ca, "-I", "the key's id", "-z", "77"];
        args.extend(options);
        let key = format!("{key}.pub");
        args.push(&key);
        self.lab.run(&self.keygen, &args).ok("certify");
    }

    fn ssh_with(&self, key: &str, command: &[&str]) -> Ran {
        self.ssh(&["-i", &self.lab.arg(key), "-o", "IdentityFile=none"], command)
    }
}

/// Covers: sshd_config TrustedUserCAKeys; wire *-cert-v01@openssh.com (users)
#[test]
fn authorities_of_the_server() {
    let Some(setup) = CertificateSetup::new("authorities", "TrustedUserCAKeys {lab}/cas") else { return };
    setup.lab.write("cas", &format!("# ours\n{}{}", setup.lab.read("ca.pub"), setup.lab.read("ca_rsa.pub")));
    let me = me();
    setup.certify("ca", &["-n", &format!("{me},somebody")]);
    assert_eq!(setup.ssh(&[], &["echo in"]).ok("certificate").text(), "in\n");
    setup.logged("Accepted certificate ID \"the key's id\" (serial 77) signed by ED25519 CA SHA256:");
    setup.logged(&format!("Accepted publickey for {me} from 127.0.0.1 port "));
    setup.logged(" ssh2: ED25519-CERT SHA256:");
    setup.logged(" ID the key's id (serial 77) CA ED25519 SHA256:");
    for (ca, key) in [("ca_rsa", "user_rsa"), ("ca", "user_ecdsa")] {
        setup.certify_key(ca, &["-n", &me], key);
        assert_eq!(setup.ssh_with(key, &["echo in"]).ok(key).text(), "in\n");
    }
    setup.certify("other_ca", &["-n", &me]);
    setup.refused("is not listed in");
    setup.certify("ca", &["-n", "somebody"]);
    setup.refused("Certificate invalid: name is not a listed principal");
    setup.certify("ca", &[]);
    setup.refused("Certificate lacks principal list");
    setup.certify("ca", &["-n", &me, "-V", "20200101:20200102"]);
    setup.refused("Certificate invalid: expired");
    setup.certify("ca", &["-n", &me, "-V", "20900101:20900102"]);
    setup.refused("Certificate invalid: not yet valid");
    setup.certify("ca", &["-n", &me, "-O", "critical:frobnicate@example.com"]);
    setup.refused("Certificate critical option \"frobnicate@example.com\" is not supported");
    setup.certify("ca", &["-n", &me, "-O", "extension:frobnicate@example.com"]);
    setup.ssh(&[], &["true"]).ok("an unknown extension");
}

/// Comments of any encoding, and options, which have no meaning in this file: as in sshd, the authority of a
/// line with options is not trusted.
///
/// Covers: sshd_config TrustedUserCAKeys (options)
#[test]
fn options_before_an_authority_do_not_vanish() {
    let Some(setup) = CertificateSetup::new("authority_options", "TrustedUserCAKeys {lab}/cas") else {
        return;
    };
    setup.certify("ca", &["-n", &me()]);
    let ca = setup.lab.read("ca.pub");
    for options in ["from=\"192.0.2.0/24\"", "cert-authority", "restrict,command=\"false\""] {
        setup.lab.write("cas", &format!("{}{options} {ca}", setup.lab.read("other_ca.pub")));
        setup.refused("cas:2: a line with options does not count in TrustedUserCAKeys");
        setup.refused("is not listed in");
    }
    // A line that is no key ends the search: the authority above it is trusted, and one below it is not.
    let other = setup.lab.read("other_ca.pub");
    setup.lab.write("cas", &format!("{other}no key\n{ca}"));
    setup.refused("cas:2: a line that is no public key does not count in TrustedUserCAKeys");
    setup.lab.write("cas", &format!("{ca}no key\n{other}"));
    assert_eq!(setup.ssh(&[], &["echo in"]).ok("above").text(), "in\n");
    let mut cas = b"# Zertifizierungsstelle f\xfcr alle\n".to_vec();
    cas.extend(ca.as_bytes());
    std::fs::write(setup.lab.path("cas"), cas).unwrap();
    assert_eq!(setup.ssh(&[], &["echo in"]).ok("certificate").text(), "in\n");
}

/// Covers: sshd_config PermitTTY; wire certificate options force-command, source-address, permit-*
#[test]
fn certificate_options_limit_sessions() {
    let Some(setup) = CertificateSetup::new("certificate_options", "TrustedUserCAKeys {lab}/ca.pub") else {
        return;
    };
    let me = me();
    setup.certify("ca", &["-n", &me, "-O", "force-command=echo forced $SSH_ORIGINAL_COMMAND"]);
    assert_eq!(setup.ssh(&[], &["id"]).ok("forced").text(), "forced id\n");
    setup.certify("ca", &["-n", &me, "-O", "source-address=127.0.0.0/8,::1/128"]);
    setup.ssh(&[], &["true"]).ok("source");
    setup.certify("ca", &["-n", &me, "-O", "source-address=192.0.2.0/24"]);
    setup.refused("Refused by certificate options");
    setup.logged("with valid certificate but not from a permitted source address (127.0.0.1).");
    setup.certify("ca", &["-n", &me]);
    assert!(setup.ssh(&["-tt"], &["tty"]).ok("pty").text().contains("/dev/pts/"));
    setup.certify("ca", &["-n", &me, "-O", "clear"]);
    let ran = setup.ssh(&["-tt"], &["tty"]);
    assert!(ran.err.contains("PTY allocation request failed"), "{}", ran.err);
    let port = setup.server.port_arg();
    let ran = setup.ssh(&["-W", &format!("127.0.0.1:{port}")], &[]);
    assert!(ran.err.contains("administratively prohibited"), "{}", ran.err);
}

/// Covers: sshd_config AuthorizedKeysFile; authorized_keys cert-authority; authorized_keys principals; authorized_keys expiry-time
#[test]
fn authorities_of_the_user() {
    let Some(setup) = CertificateSetup::new("user_authorities", "") else { return };
    let (me, ca) = (me(), setup.lab.read("ca.pub"));
    let line = |options: &str| setup.lab.write("authorized_keys", &format!("{options} {ca}"));
    line("cert-authority");
    setup.certify("ca", &["-n", &me]);
    assert_eq!(setup.ssh(&[], &["echo in"]).ok("cert-authority").text(), "in\n");
    setup.logged("Accepted certificate ID \"the key's id\" (serial 77) signed by CA ED25519 SHA256:");
    setup.logged("/authorized_keys:1");
    // Without the option the line is a plain key's, and the authority's key logs no user in.
    line("no-pty");
    setup.refused("Failed publickey");
    line(r#"cert-authority,principals="admin,operator""#);
    setup.refused("Certificate does not contain an authorized principal");
    setup.certify("ca", &["-n", "operator"]);
    setup.ssh(&[], &["true"]).ok("principals=");
    line(r#"cert-authority,principals="operator",command="echo line""#);
    assert_eq!(setup.ssh(&[], &["id"]).ok("command=").text(), "line\n");
    setup.certify("ca", &["-n", "operator", "-O", "force-command=echo certificate"]);
    setup.refused("forced command options do not match");
    for command in ["true", "echo certificate", "echo \\\"certificate\\\""] {
        line(&format!("cert-authority,principals=\"operator\",command=\"{command}\""));
        let forced = format!("force-command={}", command.replace('\\', ""));
        setup.certify("ca", &["-n", "operator", "-O", &forced]);
        let expected = if command == "true" { "" } else { "certificate\n" };
        assert_eq!(setup.ssh(&[], &["id"]).ok("the same command").text(), expected);
    }
    line(r#"cert-authority,principals="operator",expiry-time="20200101""#);
    setup.refused("entry expired at 2020-01-01T00:00:00");
    line(r#"cert-authority,principals="operator",from="10.9.8.7""#);
    setup.refused("correct key but not from a permitted host");
}

/// Covers: sshd_config AuthorizedPrincipalsFile; token sshd %u; token sshd %h
#[test]
fn principals_in_a_file() {
    let config = "TrustedUserCAKeys {lab}/ca.pub\nAuthorizedPrincipalsFile {lab}/principals.%u";
    let Some(setup) = CertificateSetup::new("principals_file", config) else { return };
    let me = me();
    let file = format!("principals.{me}");
    setup.certify("ca", &["-n", &me]);
    setup.refused("Certificate does not contain an authorized principal");
    setup.lab.write(&file, "# who may\n\noperator\nno-pty,command=\"echo by file\" admin # with less\n");
    setup.refused("Certificate does not contain an authorized principal");
    setup.certify("ca", &["-n", "operator"]);
    assert_eq!(setup.ssh(&[], &["echo in"]).ok("principal").text(), "in\n");
    setup.certify("ca", &["-n", "admin"]);
    assert_eq!(setup.ssh(&[], &["id"]).ok("options").text(), "by file\n");
    let ran = setup.ssh(&["-tt"], &["id"]);
    assert!(ran.err.contains("PTY allocation request failed"), "{}", ran.err);
    setup.lab.write(&file, "cert-authority operator\n");
    setup.certify("ca", &["-n", "operator"]);
    setup.refused("cert-authority flag invalid here");
}

/// Covers: sshd_config AuthorizedPrincipalsFile; token sshd %u
#[test]
fn principals_in_several_files() {
    let config = "TrustedUserCAKeys {lab}/ca.pub\nAuthorizedPrincipalsFile {lab}/roles/%u/*.[lL]ist";
    let Some(setup) = CertificateSetup::new("principals_files", config) else { return };
    let me = me();
    std::fs::create_dir_all(setup.lab.path(&format!("roles/{me}"))).unwrap();
    let write = |name: &str, text: &str| setup.lab.write(&format!("roles/{me}/{name}"), text);
    setup.certify("ca", &["-n", "operator"]);
    setup.refused("Certificate does not contain an authorized principal");
    write("a.list", "admin\n");
    write("b.other", "operator\n");
    write(".hidden.list", "operator\n");
    setup.refused("Certificate does not contain an authorized principal");
    write("z.List", "no-pty operator\n");
    assert_eq!(setup.ssh(&[], &["echo in"]).ok("the last file").text(), "in\n");
    setup.logged(&format!(
        "trying authorized principals file {}",
        setup.lab.arg(&format!("roles/{me}/z.List"))
    ));
    setup.certify("ca", &["-n", "admin"]);
    setup.ssh(&[], &["true"]).ok("the first file");
}

/// Covers: sshd_config AuthorizedPrincipalsCommand; sshd_config AuthorizedPrincipalsCommandUser; token sshd %i; token sshd %s; token sshd %F; token sshd %T; token sshd %K
#[test]
fn principals_from_a_command() {
    if !is_root() {
        return lh_interop::skip("principals_command", "the program must be root's");
    }
    let directory = safe_directory();
    let program = directory.path().join("principals");
    let config = format!(
        "TrustedUserCAKeys {{lab}}/ca.pub\nAuthorizedPrincipalsCommand {} %u %i %s %t %T %F %f %K %k\n\
         AuthorizedPrincipalsCommandUser nobody",
        program.display()
    );
    script(&program, "exit 0");
    let Some(setup) = CertificateSetup::new("principals_command", &config) else { return };
    let me = me();
    setup.certify("ca", &["-n", "operator"]);
    setup.refused("Certificate does not contain an authorized principal");
    let ca = setup.lab.read("ca.pub").split_whitespace().nth(1).unwrap().to_owned();
    let fingerprint = setup.lab.run(&setup.keygen, &["-l", "-f", "ca.pub"]).ok("ssh-keygen").text();
    let fingerprint = fingerprint.split_whitespace().nth(1).unwrap().to_owned();
    script(
        &program,
        &format!(
            "test $# = 9 -a \"$1\" = {me} -a \"$2\" = \"the key's id\" -a $3 = 77 || exit 1\n\
             test $4 = ssh-ed25519-cert-v01@openssh.com -a $5 = ssh-ed25519 -a $6 = {fingerprint} -a $8 = {ca} || exit 2\n\
             test \"$(id -un)\" = nobody || exit 3\necho operator"
        ),
    );
    assert_eq!(setup.ssh(&[], &["echo in"]).ok("command").text(), "in\n");
    script(&program, "echo operator; exit 1");
    setup.refused("failed, status 1");
}

/// Covers: sshd_config CASignatureAlgorithms; sshd_config PubkeyAcceptedAlgorithms
#[test]
fn kinds_of_signatures() {
    let config = "TrustedUserCAKeys {lab}/cas\nCASignatureAlgorithms ssh-ed25519,rsa-sha2-512\n\
                  PubkeyAcceptedAlgorithms ssh-ed25519-cert-v01@openssh.com,ecdsa*";
    let Some(setup) = CertificateSetup::new("kinds_of_signatures", config) else { return };
    let me = me();
    let cas = ["ca.pub", "ca_rsa.pub", "other_ca.pub"].map(|name| setup.lab.read(name)).concat();
    setup.lab.write("cas", &cas);
    setup.certify("ca_rsa", &["-n", &me, "-t", "rsa-sha2-512"]);
    setup.ssh(&[], &["true"]).ok("rsa-sha2-512");
    setup.certify("ca_rsa", &["-n", &me, "-t", "rsa-sha2-256"]);
    setup.refused("certificate signature algorithm rsa-sha2-256");
    setup.certify("other_ca", &["-n", &me]);
    setup.refused("certificate signature algorithm ecdsa-sha2-nistp256");
    setup.certify_key("ca", &["-n", &me], "user_rsa");
    let ran = setup.ssh_with("user_rsa", &["true"]);
    assert_eq!(ran.code, 255, "{}", ran.err);
}

/// Covers: sshd_config RevokedKeys; ssh-keygen -k (read by sshd)
#[test]
fn revoked_keys_and_lists() {
    let config = "TrustedUserCAKeys {lab}/ca.pub\nRevokedKeys {lab}/revoked {lab}/more";
    let Some(setup) = CertificateSetup::new("revoked", config) else { return };
    let me = me();
    let (lab, keygen) = (&setup.lab, &setup.keygen);
    let nothing = || {
        lab.write("revoked", "# nobody\n");
        lab.write("more", "");
    };
    nothing();
    setup.certify("ca", &["-n", &me]);
    setup.ssh(&[], &["true"]).ok("an empty list");
    // The key, then its certificate's authority, then the certificate, in plain files.
    for public in ["user_ed25519.pub", "ca.pub"] {
        lab.write("more", &lab.read(public));
        setup.refused("revoked by file");
        nothing();
    }
    for (what, options) in [
        ("serial: 77\n", &["-s", "ca.pub"][..]),
        ("serial: 70-80\n", &["-s", "ca.pub"]),
        ("id: the key's id\n", &["-s", "ca.pub"]),
        ("hash: SHA256:{fp}\n", &[]),
    ] {
        let fingerprint = lab.run(keygen, &["-l", "-f", "user_ed25519.pub"]).ok("ssh-keygen").text();
        let fingerprint =
            fingerprint.split_whitespace().nth(1).unwrap().trim_start_matches("SHA256:").to_owned();
        lab.write("spec", &what.replace("{fp}", &fingerprint));
        let mut args = vec!["-q", "-k", "-f", "krl"];
        args.extend(options);
        args.push("spec");
        lab.run(keygen, &args).ok("ssh-keygen -k");
        std::fs::copy(lab.path("krl"), lab.path("revoked")).unwrap();
        setup.refused("revoked by file");
        nothing();
    }
    lab.run(keygen, &["-q", "-k", "-f", "krl", "user_rsa.pub"]).ok("ssh-keygen -k");
    std::fs::copy(lab.path("krl"), lab.path("revoked")).unwrap();
    setup.ssh(&[], &["true"]).ok("another key revoked");
    // An unreadable file revokes every key.
    std::fs::remove_file(lab.path("more")).unwrap();
    setup.refused("Error checking authentication key");
    lab.write("more", "SSHKRL\n");
    std::fs::write(lab.path("more"), b"SSHKRL\n\0\0\0").unwrap();
    setup.refused("Error checking authentication key");
}

/// Covers: sshd_config HostCertificate; sshd -c; wire *-cert-v01@openssh.com (hosts)
#[test]
fn hosts_with_certificates() {
    let Some([ssh, keygen]) = peers("host_certificates", ["ssh", "ssh-keygen"]) else { return };
    let lab = Lab::new();
    lab.run(&keygen, &["-q", "-t", "ed25519", "-N", "", "-f", &lab.arg("ca")]).ok("ssh-keygen");
    for key in ["host_ed25519", "host_rsa"] {
        let public = format!("{key}.pub");
        lab.run(&keygen, &["-q", "-h", "-s", "ca", "-I", key, "-n", "127.0.0.1", &public]).ok("certify");
    }
    let config = format!(
        "HostCertificate {}\nHostCertificate {}",
        lab.arg("host_ed25519-cert.pub"),
        lab.arg("host_rsa-cert.pub")
    );
    let server = Lhsshd::start(&lab, &config);
    let ca = lab.read("ca.pub");
    lab.write("cas", &format!("@cert-authority [127.0.0.1]:{} {ca}", server.port));
    for algorithm in [
        "ssh-ed25519-cert-v01@openssh.com",
        "rsa-sha2-512-cert-v01@openssh.com",
        "rsa-sha2-256-cert-v01@openssh.com",
    ] {
        let mut args = lab.client_options();
        for arg in &mut args {
            if arg.starts_with("UserKnownHostsFile=") {
                *arg = format!("UserKnownHostsFile={}", lab.arg("cas"));
            }
        }
        args.extend(["-o".into(), format!("HostKeyAlgorithms={algorithm}"), "-v".into()]);
        // Rekeying signs with the certified key too.
        args.extend(["-o".into(), "RekeyLimit=100K".into(), "-p".into(), server.port_arg()]);
        args.extend([format!("{}@127.0.0.1", me()), "head -c 1000000 /dev/zero | wc -c; echo in".into()]);
        let ran = lab.run(&ssh, &args).ok(algorithm);
        assert_eq!(ran.text(), "1000000\nin\n");
        assert!(ran.err.contains(&format!("host key algorithm: {algorithm}")), "{}", ran.err);
    }
    // A client that knows the plain key gets the plain key.
    let mut args = lab.client_options();
    args.extend(["-p".into(), server.port_arg(), format!("{}@127.0.0.1", me()), "echo in".into()]);
    assert_eq!(lab.run(&ssh, &args).ok("plain").text(), "in\n");
}

/// Covers: sshd_config HostKeyAgent
#[test]
fn host_keys_in_an_agent() {
    let Some([ssh, agent, add]) = peers("host_key_agent", ["ssh", "ssh-agent", "ssh-add"]) else { return };
    let lab = Lab::new();
    let socket = lab.arg("agent");
    let mut child = std::process::Command::new(agent)
        .args(["-D", "-a", &socket])
        .stdout(std::process::Stdio::null())
        .spawn()
        .unwrap();
    lh_interop::eventually("the agent listens", || lab.path("agent").exists());
    let loaded = lab.sh(&format!("SSH_AUTH_SOCK={socket} {} host_ed25519 host_rsa", add.display()));
    loaded.ok("ssh-add");
    // Only the public halves are on the disk.
    for key in ["host_ed25519", "host_rsa"] {
        std::fs::remove_file(lab.path(key)).unwrap();
    }
    let server = Lhsshd::start(&lab, &format!("HostKeyAgent {socket}"));
    for algorithm in ["ssh-ed25519", "rsa-sha2-512", "rsa-sha2-256", "ecdsa-sha2-nistp256"] {
        let mut args = vec!["-o".to_owned(), format!("HostKeyAlgorithms={algorithm}"), "-o".into()];
        args.push("RekeyLimit=100K".into());
        args.extend(lab.client_options());
        args.extend(["-p".into(), server.port_arg(), format!("{}@127.0.0.1", me())]);
        args.push("head -c 1000000 /dev/zero | wc -c".into());
        assert_eq!(lab.run(&ssh, &args).ok(algorithm).text(), "1000000\n");
    }
    child.kill().unwrap();
    child.wait().unwrap();
}

/// Covers: sshd_config HostKeyAgent
#[test]
fn stopped_server_still_hears_its_host_key_agent() {
    let test = "stopped_server_still_hears_its_host_key_agent";
    let Some([ssh, agent, add]) = peers(test, ["ssh", "ssh-agent", "ssh-add"]) else { return };
    let lab = Lab::new();
    let (socket, relayed) = (lab.path("agent"), lab.path("relayed"));
    let mut child = std::process::Command::new(agent)
        .args(["-D", "-a"])
        .arg(&socket)
        .stdout(std::process::Stdio::null())
        .spawn()
        .unwrap();
    lh_interop::eventually("the agent listens", || socket.exists());
    lab.sh(&format!("SSH_AUTH_SOCK={} {} host_ed25519", socket.display(), add.display())).ok("ssh-add");
    std::fs::remove_file(lab.path("host_ed25519")).unwrap();

    // A relay that stops and continues the server while the server waits for an answer.
    let listener = UnixListener::bind(&relayed).unwrap();
    let pid = Arc::new(AtomicU32::new(0));
    let stopped = Arc::new(AtomicU32::new(0));
    std::thread::spawn({
        let (pid, stopped) = (Arc::clone(&pid), Arc::clone(&stopped));
        move || {
            for client in listener.incoming().flatten() {
                let agent = UnixStream::connect(&socket).unwrap();
                while let Ok(request) = agent_message(&client) {
                    (&agent).write_all(&request).unwrap();
                    let answer = agent_message(&agent).unwrap();
                    let server = pid.load(Ordering::Acquire);
                    if server != 0 {
                        process::stop_and_continue(&process::family(server));
                        stopped.fetch_add(1, Ordering::Release);
                    }
                    if (&client).write_all(&answer).is_err() {
                        break;
                    }
                }
            }
        }
    });
    let server = Lhsshd::start(&lab, &format!("HostKeyAgent {}", relayed.display()));
    pid.store(server.pid(), Ordering::Release);
    let mut args = lab.client_options();
    args.extend(["-o".into(), "HostKeyAlgorithms=ssh-ed25519".into(), "-p".into(), server.port_arg()]);
    args.extend([format!("{}@127.0.0.1", me()), "echo in".into()]);
    let ran = lab.run(&ssh, &args);
    assert_eq!(ran.text(), "in\n", "{}\n{}", ran.err, server.log());
    assert!(stopped.load(Ordering::Acquire) > 0, "the server asked the agent");
    child.kill().unwrap();
    child.wait().unwrap();
}

/// Reads one message of the agent protocol, with its length.
fn agent_message(mut stream: &UnixStream) -> std::io::Result<Vec<u8>> {
    let mut message = vec![0; 4];
    stream.read_exact(&mut message)?;
    let length = u32::from_be_bytes([message[0], message[1], message[2], message[3]]);
    message.resize(4 + length as usize, 0);
    stream.read_exact(&mut message[4..])?;
    Ok(message)
}
