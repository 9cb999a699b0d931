//! `lhssh-keyscan` compared with ssh-keyscan: it prints equal lines, and no server can make it hang.

use std::io::{Read as _, Write as _};
use std::net::TcpListener;
use std::time::Duration;

use lh_interop::tunnel::free_port;
use lh_interop::{Inetd, Lab, Lhsshd, Ran, find, our, peers};

fn scan(lab: &Lab, args: &[&str]) -> Ran {
    lab.run(&our("lhssh-keyscan"), args)
}

/// The lines in order, each once: there is a greeting for each type that is asked for, and OpenSSH before
/// 10.6 asks for one type less.
fn sorted(text: &str) -> Vec<String> {
    let mut lines: Vec<String> = text.replace('\r', "").lines().map(str::to_owned).collect();
    lines.sort();
    lines.dedup();
    lines
}

/// Covers: ssh-keyscan -p; ssh-keyscan -t; ssh-keyscan -q; ssh-keyscan -f; ssh-keyscan -D; ssh-keyscan -c; ssh-keyscan -4; ssh-keyscan -6
#[test]
fn lines_are_those_of_ssh_keyscan() {
    let Some([sshd, keyscan, keygen]) =
        peers("lines_are_those_of_ssh_keyscan", ["sshd", "ssh-keyscan", "ssh-keygen"])
    else {
        return;
    };
    let lab = Lab::new();
    for key in ["host_ed25519", "host_rsa"] {
        let args =
            ["-q", "-s", &lab.arg("user_rsa"), "-I", "id", "-h", "-n", "h", &lab.arg(&format!("{key}.pub"))];
        lab.run(&keygen, &args).ok("certificate");
    }
    let config: String = ["host_ed25519", "host_rsa"]
        .map(|key| format!("HostCertificate {}\n", lab.arg(&format!("{key}-cert.pub"))))
        .concat();
    let theirs = Inetd::openssh(&lab, &sshd, &config);
    // Scans look like attacks: they connect often and never log in.
    let ours = Lhsshd::start(&lab, "MaxStartups 100\nPerSourcePenalties no");
    lab.write("hosts", "127.0.0.1 Name,127.0.0.1  # a comment\n\nlocalhost\n");
    for port in [theirs.port_arg(), ours.port_arg()] {
        for args in [
            &["-4", "127.0.0.1"][..],
            &["-t", "ed25519,rsa", "-4", "localhost"],
            &["-f", "hosts", "-4"],
            &["-t", "rsa", "127.0.0.1"],
            &["-D", "127.0.0.1"],
        ] {
            let mut all = vec!["-p", &port];
            all.extend(args);
            let (expected, found) = (lab.run(&keyscan, &all), scan(&lab, &all));
            assert_eq!(sorted(&found.text()), sorted(&expected.text()), "{args:?}: {}", found.err);
            assert_eq!(sorted(&found.err), sorted(&expected.err), "{args:?}");
            assert_eq!(found.code, 0);
        }
    }
    let port = theirs.port_arg();
    let args = ["-c", "-t", "ed25519,rsa", "-p", &port, "127.0.0.1"];
    let (expected, found) = (lab.run(&keyscan, &args), scan(&lab, &args));
    assert_eq!(sorted(&found.text()), sorted(&expected.text()), "{}", found.err);
    assert_eq!(found.text().lines().count(), 2);
    // Not every ssh-keyscan has -q.
    let quiet = scan(&lab, &["-q", "-t", "rsa", "-p", &port, "127.0.0.1"]).ok("-q");
    assert_eq!((quiet.text().lines().count(), quiet.err.as_str()), (1, ""));
    assert_eq!(scan(&lab, &["-6", "-p", &port, "127.0.0.1"]).code, 1, "no IPv6 address");
}

/// Covers: ssh-keyscan -H; ssh-keyscan -O
#[test]
fn hashed_names_are_found_again() {
    let Some([keygen]) = peers("hashed_names_are_found_again", ["ssh-keygen"]) else { return };
    let lab = Lab::new();
    let server = Lhsshd::start(&lab, "PerSourcePenalties no");
    let port = server.port_arg();
    let hashed = scan(&lab, &["-H", "-q", "-p", &port, "127.0.0.1"]).ok("-H").text();
    assert!(hashed.lines().count() == 3 && hashed.lines().all(|line| line.starts_with("|1|")), "{hashed}");
    lab.write("hashed", &hashed);
    for program in [keygen, our("lhssh-keygen")] {
        let found = lab.run(&program, &["-F", &format!("[127.0.0.1]:{port}"), "-f", &lab.arg("hashed")]);
        assert_eq!(found.ok("-F").text().matches("found").count(), 3);
    }
    let dns = scan(&lab, &["-D", "-O", "hashalg=sha256", "-q", "-p", &port, "127.0.0.1"]).ok("-D").text();
    assert!(dns.lines().count() == 3 && dns.lines().all(|line| line.contains(" 2 ")), "{dns}");
    assert_eq!(scan(&lab, &["-D", "-O", "hashalg=md5", "127.0.0.1"]).code, 255);
}

/// A host that refuses, one that stays silent, one that sends garbage, one that closes, and an unknown name:
/// the working host among them is found.
///
/// Covers: ssh-keyscan -T; ssh-keyscan -v
#[test]
fn broken_servers_stop_nothing() {
    let lab = Lab::new();
    let server = Lhsshd::start(&lab, "PerSourcePenalties no");
    // All listen on one port of different addresses.
    let at = |ip: &str| TcpListener::bind((ip, server.port)).unwrap();
    let silent = at("127.0.0.2");
    let (nonsense, hangup) = (at("127.0.0.3"), at("127.0.0.4"));
    std::thread::spawn(move || {
        for mut socket in nonsense.incoming().flatten() {
            let _ = socket.write_all(&[b'x'; 5000]);
            let _ = socket.write_all(b"\nSSH-2.0-nonsense\r\n\xff\xff\xff\xff");
            let _ = socket.read(&mut [0; 100]);
        }
    });
    // A tarpit, such as endlessh: lines before the identification without end.
    let tarpit = at("127.0.0.6");
    std::thread::spawn(move || {
        for mut socket in tarpit.incoming().flatten() {
            while socket.write_all(b"wait\r\n").is_ok() {
                std::thread::sleep(Duration::from_millis(50));
            }
        }
    });
    std::thread::spawn(move || hangup.incoming().flatten().for_each(drop));
    let port = server.port_arg();
    lab.write(
        "hosts",
        "127.0.0.5\n127.0.0.2\n127.0.0.3\n127.0.0.4\n127.0.0.6\nno-such-host.invalid\n127.0.0.1\n",
    );
    let ran = scan(&lab, &["-T", "1", "-f", "hosts", "-p", &port]);
    assert_eq!(ran.code, 0, "{}", ran.err);
    assert_eq!(ran.text().lines().count(), 3, "{}", ran.text());
    // Which message appears depends on whether our first line was on its way.
    let hung_up =
        ["127.0.0.4: Connection closed by remote host", "read (127.0.0.4): Connection reset by peer"];
    assert!(hung_up.iter().any(|line| ran.err.contains(line)), "{}", ran.err);
    assert!(ran.err.contains("getaddrinfo no-such-host.invalid: "), "{}", ran.err);
    assert!(ran.err.contains(&format!("# 127.0.0.1:{port} SSH-2.0-Longhaul")), "{}", ran.err);
    // Nothing found is a failure.
    let none = scan(&lab, &["-T", "1", "-t", "ed25519", "-p", &port, "127.0.0.2", "127.0.0.5"]);
    assert_eq!((none.code, none.text().as_str(), none.err.as_str()), (1, "", ""));
    let verbose = scan(&lab, &["-v", "-t", "ed25519", "-p", &port, "127.0.0.5"]);
    assert!(verbose.err.contains("connect (`127.0.0.5'): Connection refused"), "{}", verbose.err);
    drop(silent);
    // A range is scanned address by address.
    let range = scan(&lab, &["-T", "1", "-q", "-t", "ed25519", "-p", &port, "127.0.0.0/29"]);
    assert_eq!(range.text().lines().count(), 1, "{}", range.text());
}

/// Covers: ssh-keyscan -4; ssh-keyscan -6; ssh-keyscan (errors)
#[test]
fn hosts_without_a_server_get_openssh_s_messages() {
    let Some([keyscan]) = peers("hosts_without_a_server", ["ssh-keyscan"]) else { return };
    let lab = Lab::new();
    let port = free_port().to_string();
    for host in [&["-4", "::1"][..], &["-6", "127.0.0.1"], &["127.0.0.1"], &["no-such-host.invalid"]] {
        let all = [&["-t", "ed25519", "-p", &port], host].concat();
        let (expected, found) = (lab.run(&keyscan, &all), scan(&lab, &all));
        assert_eq!(
            (found.code, found.text(), found.err),
            (1, expected.text(), expected.err.replace('\r', "")),
            "{host:?}"
        );
    }
}

/// Covers: ssh-keyscan (usage)
#[test]
fn keyscan_reports_usage_mistakes() {
    let lab = Lab::new();
    assert_eq!(scan(&lab, &[]).code, 1);
    let bad = scan(&lab, &["-t", "rot13", "127.0.0.1"]);
    assert_eq!((bad.code, bad.err.trim()), (255, "Unknown key type \"rot13\""));
    assert_eq!(scan(&lab, &["-f", "missing"]).code, 255);
    let _ = find("ssh-keyscan");
}
