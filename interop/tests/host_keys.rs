//! `lhssh` adds, checks and removes host keys, against OpenSSH's server and Longhaul's.

use std::os::unix::fs::PermissionsExt as _;
use std::process::Command;

use lh_interop::{Inetd, Lab, Lhsshd, Ran, is_root, me, our, peers, skip};

/// A client that looks for host keys in `known` alone.
struct Client<'a> {
    lab: &'a Lab,
    port: u16,
}

impl Client<'_> {
    fn args(&self, options: &[&str]) -> Vec<String> {
        let mut args = vec!["-F".to_owned(), "none".to_owned()];
        for option in options.iter().map(|option| (*option).to_owned()).chain([
            format!("UserKnownHostsFile={}", self.lab.arg("known")),
            "GlobalKnownHostsFile=/dev/null".to_owned(),
            format!("IdentityFile={}", self.lab.arg("user_ed25519")),
            "IdentitiesOnly=yes".to_owned(),
            "WarnWeakCrypto=no".to_owned(),
            "BatchMode=yes".to_owned(),
        ]) {
            args.extend(["-o".to_owned(), option]);
        }
        args.extend(["-p".to_owned(), self.port.to_string(), format!("{}@127.0.0.1", me())]);
        args
    }

    fn run(&self, options: &[&str], command: &str) -> Ran {
        let mut args = self.args(options);
        args.push(command.to_owned());
        self.lab.run(&our("lhssh"), &args)
    }

    /// Runs a command long enough for background exchanges to finish.
    fn linger(&self, options: &[&str]) -> Ran {
        self.run(options, "sleep 1").ok("lhssh")
    }

    fn name(&self) -> String {
        format!("[127.0.0.1]:{}", self.port)
    }

    /// Returns the known_hosts line for a key of the lab.
    fn line(&self, key: &str) -> String {
        let public = self.lab.read(&format!("{key}.pub"));
        let mut words = public.split_whitespace();
        let (kind, blob) = (words.next().unwrap_or_default(), words.next().unwrap_or_default());
        format!("{} {kind} {blob}\n", self.name())
    }

    fn known(&self) -> String {
        self.lab.read("known")
    }
}

/// The client has the server prove its other keys, learns them, and forgets a key that the server no longer
/// has.
fn learns_and_forgets(lab: &Lab, port: u16) {
    let client = Client { lab, port };
    lab.run(std::path::Path::new("ssh-keygen"), &["-q", "-t", "ed25519", "-N", "", "-f", &lab.arg("gone")])
        .ok("ssh-keygen");
    let before = client.line("host_ed25519") + &client.line("gone");
    lab.write("known", &before);
    let ran = client.linger(&[
        "UpdateHostKeys=yes",
        "LogLevel=VERBOSE",
        "HostKeyAlgorithms=ssh-ed25519,ecdsa-sha2-nistp256,rsa-sha2-512",
    ]);
    for key in ["host_ed25519", "host_rsa", "host_ecdsa"] {
        assert!(client.known().contains(&client.line(key)), "{key} in\n{}\n{}", client.known(), ran.err);
    }
    assert!(!client.known().contains(&client.line("gone")), "{}", client.known());
    assert_eq!(lab.read("known.old"), before, "the old file is kept");
    assert!(ran.err.contains("Learned new hostkey: RSA SHA256:"), "{}", ran.err);
    assert!(ran.err.contains("Deprecating obsolete hostkey: ED25519 SHA256:"), "{}", ran.err);
    let settled = client.known();
    client.linger(&["UpdateHostKeys=yes"]);
    assert_eq!(client.known(), settled, "there is nothing more to learn");
}

/// Covers: ssh_config UpdateHostKeys; wire hostkeys-00@openssh.com; wire hostkeys-prove-00@openssh.com
#[test]
fn additional_host_keys_are_learned_from_openssh() {
    let Some([sshd, _]) = peers("further_host_keys_openssh", ["sshd", "ssh-keygen"]) else { return };
    let lab = Lab::new();
    let server = Inetd::openssh(&lab, &sshd, "");
    learns_and_forgets(&lab, server.port);
}

/// Covers: ssh_config UpdateHostKeys; wire hostkeys-00@openssh.com; wire hostkeys-prove-00@openssh.com
#[test]
fn additional_host_keys_are_learned_from_our_server() {
    if peers("further_host_keys_ours", ["ssh-keygen"]).is_none() {
        return;
    }
    let lab = Lab::new();
    let server = Lhsshd::start(&lab, "");
    learns_and_forgets(&lab, server.port);
}

/// Covers: wire hostkeys-prove-00@openssh.com
#[test]
fn openssh_learns_our_server_s_keys() {
    let Some([ssh]) = peers("openssh_learns_our_keys", ["ssh"]) else { return };
    let lab = Lab::new();
    let server = Lhsshd::start(&lab, "");
    let client = Client { lab: &lab, port: server.port };
    lab.write("known", &client.line("host_ed25519"));
    let mut args = client.args(&[
        "IgnoreUnknown=WarnWeakCrypto",
        "UpdateHostKeys=yes",
        "HostKeyAlgorithms=ssh-ed25519,ecdsa-sha2-nistp256,rsa-sha2-512",
    ]);
    args.push("sleep 1".to_owned());
    lab.run(&ssh, &args).ok("ssh");
    for key in ["host_rsa", "host_ecdsa"] {
        assert!(client.known().contains(&client.line(key)), "{key} in\n{}", client.known());
    }
}

#[test]
fn unverified_hosts_teach_no_further_keys() {
    let lab = Lab::new();
    let server = Lhsshd::start(&lab, "");
    let client = Client { lab: &lab, port: server.port };
    lab.write("known", "");
    client.linger(&[
        "UpdateHostKeys=yes",
        "StrictHostKeyChecking=accept-new",
        "HostKeyAlgorithms=ssh-ed25519",
    ]);
    assert_eq!(client.known(), client.line("host_ed25519"), "only the key that was shown");
    lab.write("known", &client.line("host_ed25519"));
    client.linger(&["UpdateHostKeys=no"]);
    client.linger(&["UpdateHostKeys=ask"]);
    assert_eq!(client.known(), client.line("host_ed25519"), "no user to confirm");
}

/// Covers: ssh_config KnownHostsCommand
#[test]
fn known_hosts_command_supplies_host_keys() {
    let lab = Lab::new();
    let server = Lhsshd::start(&lab, "");
    let client = Client { lab: &lab, port: server.port };
    lab.write("known", "");
    let script = |name: &str, text: &str| {
        lab.write(name, &format!("#!/bin/sh\n{text}"));
        std::fs::set_permissions(lab.path(name), std::fs::Permissions::from_mode(0o700)).unwrap();
        format!("KnownHostsCommand={} %I %H %t", lab.arg(name))
    };
    let log = lab.arg("asked");
    let good = script("good", &format!("echo $* >> {log}\necho '{}'", client.line("host_ecdsa").trim()));
    client.run(&[&good, "StrictHostKeyChecking=yes"], "true").ok("the command knows the key");
    let name = client.name();
    assert_eq!(
        lab.read("asked"),
        format!("ORDER {name} NONE\nHOSTNAME {name} ecdsa-sha2-nistp256\n"),
        "the type that is known is asked for first"
    );
    let bad = script("bad", &format!("echo '{}'", client.line("user_ed25519").trim()));
    let ran = client.run(&[&bad, "HostKeyAlgorithms=ssh-ed25519"], "true");
    assert_eq!(ran.code, 255);
    assert!(ran.err.contains("Offending ED25519 key in KnownHostsCommand-HOSTNAME:1"), "{}", ran.err);
    let fails = script("fails", "exit 3");
    let ran = client.run(&[&fails], "true");
    assert_eq!(
        (ran.code, ran.err.trim_end().ends_with("KnownHostsCommand failed")),
        (255, true),
        "{}",
        ran.err
    );
}

/// Covers: ssh_config HashKnownHosts
#[test]
fn learned_names_are_hashed_where_asked_for() {
    let lab = Lab::new();
    let server = Lhsshd::start(&lab, "");
    let client = Client { lab: &lab, port: server.port };
    lab.write("known", "");
    let options = ["HashKnownHosts=yes", "StrictHostKeyChecking=accept-new", "UpdateHostKeys=no"];
    client.run(&options, "true").ok("first use");
    assert!(client.known().starts_with("|1|"), "{}", client.known());
    client.run(&["StrictHostKeyChecking=yes"], "true").ok("known by its hash");
}

/// Covers: ssh_config RevokedHostKeys
#[test]
fn a_key_in_any_of_several_revocation_files_is_refused() {
    let lab = Lab::new();
    let server = Lhsshd::start(&lab, "");
    let client = Client { lab: &lab, port: server.port };
    lab.write("known", &client.line("host_ed25519"));
    lab.write("none", "# nothing\n");
    let files = |second: &str| format!("RevokedHostKeys={} {}", lab.arg("none"), lab.arg(second));
    client.run(&[&files("none"), "HostKeyAlgorithms=ssh-ed25519"], "true").ok("not revoked");
    let ran = client.run(&[&files("host_ed25519.pub"), "HostKeyAlgorithms=ssh-ed25519"], "true");
    assert_eq!(ran.code, 255);
    let revoked = format!("revoked by file {}", lab.arg("host_ed25519.pub"));
    assert!(ran.err.contains(&revoked), "{}", ran.err);
    if peers("a_revocation_list_of_openssh", ["ssh-keygen"]).is_some() {
        let args = ["-q", "-k", "-f", &lab.arg("krl"), &lab.arg("host_ed25519.pub")].map(str::to_owned);
        lab.run(std::path::Path::new("ssh-keygen"), &args).ok("ssh-keygen -k");
        let ran = client.run(&[&files("krl"), "HostKeyAlgorithms=ssh-ed25519"], "true");
        assert_eq!(ran.code, 255);
        assert!(ran.err.contains(&format!("revoked by file {}", lab.arg("krl"))), "{}", ran.err);
        lab.write("known", &client.line("host_ecdsa"));
        client.run(&[&files("krl"), "HostKeyAlgorithms=ecdsa-sha2-nistp256"], "true").ok("another key");
    }
}

/// A name server for one name, in its own network namespace.
const NAME_SERVER: &str = r#"
import socket, struct, sys
record, authentic = bytes.fromhex(sys.argv[1]), sys.argv[2] == "secure"
sock = socket.socket(socket.AF_INET, socket.SOCK_DGRAM)
sock.bind(("127.0.0.1", 53))
print("ready", flush=True)
while True:
    data, peer = sock.recvfrom(4096)
    end = data.index(b"\0", 12) + 5
    kind = struct.unpack(">H", data[end - 4:end - 2])[0]
    answers = [record] if kind == 44 else []
    flags = 0x8180 | (0x20 if authentic else 0)
    reply = data[:2] + struct.pack(">HHHHH", flags, 1, len(answers), 0, 0) + data[12:end]
    for answer in answers:
        reply += b"\xc0\x0c" + struct.pack(">HHIH", 44, 1, 60, len(answer)) + answer
    sock.sendto(reply, peer)
"#;

/// Covers: ssh_config VerifyHostKeyDNS
#[test]
fn dns_fingerprints_count_only_if_secure() {
    if peers("fingerprints_in_dns", ["unshare", "python3"]).is_none() {
        return;
    }
    let lab = Lab::new();
    let allowed =
        is_root() && Command::new("unshare").args(["-n", "-m", "true"]).status().is_ok_and(|s| s.success());
    if !allowed {
        return skip("fingerprints_in_dns", "no name spaces without root");
    }
    lab.write("dns.py", NAME_SERVER);
    lab.write(
        "server.conf",
        &format!(
            "HostKey {}\nAuthorizedKeysFile {}\nStrictModes no\nPermitRootLogin yes\nPidFile none\n",
            lab.arg("host_ed25519"),
            lab.arg("authorized_keys")
        ),
    );
    let public = lab.read("host_ed25519.pub");
    let blob = public.split_whitespace().nth(1).unwrap_or_default();
    let digest = lab.sh(&format!("echo {blob} | base64 -d | sha256sum")).ok("sha256sum").text();
    let digest = digest.split_whitespace().next().unwrap_or_default().to_owned();
    let run = |record: &str, trust: &str, answer: &str, options: &str| {
        lab.write("resolv.conf", &format!("nameserver 127.0.0.1\noptions {answer}\n"));
        let client = our("lhssh");
        let server = our("lhsshd");
        let line = format!(
            "unshare -n -m bash -c 'ip link set lo up; mount --bind {resolv} /etc/resolv.conf; \
             coproc python3 {dns} {record} {trust}; read -u ${{COPROC[0]}}; \
             {client} -F none -o UserKnownHostsFile=/dev/null -o GlobalKnownHostsFile=/dev/null -o BatchMode=yes \
             -o IdentityFile={key} -o IdentitiesOnly=yes {options} \
             -o \"ProxyCommand={server} -i -f {conf}\" {me}@host.example true; status=$?; kill $COPROC_PID; exit $status'",
            resolv = lab.arg("resolv.conf"),
            dns = lab.arg("dns.py"),
            client = client.display(),
            server = server.display(),
            key = lab.arg("user_ed25519"),
            conf = lab.arg("server.conf"),
            me = me(),
        );
        lab.sh(&line)
    };
    let good = format!("0402{digest}");
    let strict = "-o StrictHostKeyChecking=yes";
    let yes = format!("{strict} -o VerifyHostKeyDNS=yes");
    run(&good, "secure", "trust-ad", &yes).ok("a secure fingerprint is enough");
    let ran = run(&good, "secure", "timeout:1", &yes);
    assert_eq!(ran.code, 255, "the name server is not trusted: {}", ran.err);
    assert!(ran.err.contains("you have requested strict checking"), "{}", ran.err);
    assert_eq!(run(&good, "insecure", "trust-ad", &yes).code, 255);
    let ask = format!("{strict} -o VerifyHostKeyDNS=ask");
    assert_eq!(run(&good, "secure", "trust-ad", &ask).code, 255, "only told");
    let bad = good.replace(&digest[..4], "0000");
    let ran = run(&bad, "secure", "trust-ad", &yes);
    assert_eq!(ran.code, 255);
    assert!(ran.err.contains("Update the SSHFP RR in DNS with the new host key"), "{}", ran.err);
}
