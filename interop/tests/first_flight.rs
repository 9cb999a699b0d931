//! Early data: a session's first messages are sent together with the login, if the server allows it. The
//! tests count the remaining flights, and check logins that fail or need more messages.

use lh_interop::{Flights, Inetd, Lab, Lhsshd, Ran, assert_same_tree, me, our, peers};

/// Runs one of our clients against `port`, with `options` before the lab's and `rest` after the port.
fn run(lab: &Lab, program: &str, port: u16, options: &[&str], rest: &[&str]) -> Ran {
    let mut args: Vec<String> =
        options.iter().flat_map(|&option| ["-o".to_owned(), option.to_owned()]).collect();
    args.extend(lab.client_options());
    args.extend(["-o".into(), "HostKeyAlias=same".into(), "-P".into(), port.to_string(), "-q".into()]);
    args.extend(rest.iter().map(|&word| word.to_owned()));
    lab.run(&our(program), &args)
}

fn host() -> String {
    format!("{}@127.0.0.1", me())
}

/// Makes the host known under an alias, because a relay has another port.
fn know(lab: &Lab) {
    let key = lab.read("host_ed25519.pub");
    lab.write("known_hosts", &format!("same {key}"));
}

/// Runs a session that lists a directory.
fn listing(lab: &Lab, port: u16, options: &[&str]) -> Ran {
    lab.write("batch", &format!("ls {}/f*\n", lab.arg("directory")));
    run(lab, "lhsftp", port, options, &["-b", &lab.arg("batch"), &host()])
}

fn directory(lab: &Lab) {
    std::fs::create_dir_all(lab.path("directory")).unwrap();
    for name in ["found", "further"] {
        std::fs::write(lab.path("directory").join(name), b"").unwrap();
    }
}

/// The flights: identification and KEXINIT; key exchange; login, channel, subsystem and first request; the
/// listing.
///
/// Covers: wire first-flight@longhaul; sshd_config ResumeGrace
#[test]
fn a_listing_takes_four_flights() {
    for config in ["ResumeGrace 0", "ResumeGrace 10m"] {
        let lab = Lab::new();
        let server = Lhsshd::start(&lab, config);
        know(&lab);
        directory(&lab);
        let flights = Flights::fewest(server.port, 4, |port| {
            let ran = listing(&lab, port, &[]).ok("lhsftp");
            assert!(ran.text().contains("found"), "{}", ran.text());
        });
        assert!(flights <= 4, "{config}: {flights}");
    }
}

/// Up into a new directory; down from a tree whose directories must be listed.
///
/// Covers: wire first-flight@longhaul; sshd_config ResumeGrace
#[test]
fn a_tree_takes_four_flights_up_and_five_down() {
    for config in ["ResumeGrace 0", "ResumeGrace 10m"] {
        tree_flights(config);
    }
}

fn tree_flights(config: &str) {
    let lab = Lab::new();
    let server = Lhsshd::start(&lab, config);
    know(&lab);
    let from = lab.path("from");
    for number in 0..60 {
        let directory = from.join((number % 6).to_string());
        std::fs::create_dir_all(&directory).unwrap();
        std::fs::write(directory.join(number.to_string()), [7; 500]).unwrap();
    }
    let mut number = 0;
    for (most, up) in [(4, true), (5, false)] {
        let flights = Flights::fewest(server.port, most, |port| {
            number += 1;
            let to = lab.path(&format!("to-{number}"));
            let (there, here) = (
                format!("{}:{}", host(), if up { &to } else { &from }.display()),
                if up { &from } else { &to },
            );
            let here = here.display().to_string();
            let words = if up { ["-r", &here, &there] } else { ["-r", &there, &here] };
            run(&lab, "lhscp", port, &[], &words).ok("lhscp");
            assert_same_tree(&from, &to);
        });
        assert!(flights <= most, "{config}, up {up}: {flights}");
    }
}

/// The login request before the early data fails, more than once; the data are sent again after the request
/// that succeeds.
#[test]
fn rejected_key_does_not_lose_early_data() {
    let lab = Lab::new();
    let server = Lhsshd::start(&lab, "");
    know(&lab);
    directory(&lab);
    let mut options = Vec::new();
    for name in ["wrong", "wronger"] {
        let file = lab.arg(name);
        lab.run(&our("lhssh-keygen"), &["-q", "-t", "ed25519", "-N", "", "-f", &file]).ok("lhssh-keygen");
        options.push(format!("IdentityFile={file}"));
    }
    let options: Vec<&str> = options.iter().map(String::as_str).collect();
    let ran = listing(&lab, server.port, &options).ok("lhsftp");
    assert!(ran.text().contains("found"), "{}", ran.text());
    // The server drops no more than announced, and lets no rejected client in.
    lab.write("authorized_keys", "");
    let ran = listing(&lab, server.port, &options);
    assert_eq!(ran.code, 255);
    assert_eq!(server.log().matches("Accepted publickey").count(), 1, "{}", server.log());
    assert!(!server.log().contains("unexpected message"), "{}", server.log());
}

/// With two required methods, early data have no effect before both have succeeded.
///
/// Covers: sshd_config AuthenticationMethods
#[test]
fn early_data_waits_for_both_methods() {
    let lab = Lab::new();
    let server = Lhsshd::start(&lab, "AuthenticationMethods publickey,publickey");
    know(&lab);
    directory(&lab);
    let second = format!("IdentityFile={}", lab.arg("user_ecdsa"));
    let ran = listing(&lab, server.port, &[&second]).ok("lhsftp");
    assert!(ran.text().contains("found"), "{}", ran.text());
    assert!(
        server.log().contains("Partial publickey") || server.log().contains("artial"),
        "{}",
        server.log()
    );
}

/// The server may refuse the channel that early data announced.
///
/// Covers: sshd_config MaxSessions
#[test]
fn refused_first_channel_is_reported() {
    let lab = Lab::new();
    let server = Lhsshd::start(&lab, "MaxSessions 0");
    know(&lab);
    directory(&lab);
    let ran = listing(&lab, server.port, &[]);
    assert_eq!(ran.code, 255);
    assert!(ran.err.contains("open failed"), "{}", ran.err);
    assert!(!server.log().contains("nonexistent channel"), "{}", server.log());
    let there = format!("{}:{}", host(), lab.arg("directory"));
    let ran = run(&lab, "lhscp", server.port, &[], &["-r", &there, &lab.arg("to")]);
    assert_eq!(ran.code, 255);
    assert!(ran.err.contains("open failed"), "{}", ran.err);
}

/// Early data after the request for a missing subsystem reach no program.
///
/// Covers: sshd_config Subsystem
#[test]
fn missing_subsystem_is_reported() {
    let lab = Lab::new();
    let server = Lhsshd::start(&lab, "Subsystem sftp /nonexistent/program");
    know(&lab);
    directory(&lab);
    assert_eq!(listing(&lab, server.port, &[]).code, 255);
    let none = Lhsshd::start(&lab, "Subsystem sftp none\nForceCommand true");
    assert_eq!(listing(&lab, none.port, &[]).code, 255);
}

/// Cases without early data: compression that begins at an unknown point, plain text after the login, and
/// other programs' subsystems.
///
/// Covers: ssh_config Compression; ssh_config NoneSwitch; sshd_config Subsystem
#[test]
fn compression_none_and_other_subsystems_work() {
    let lab = Lab::new();
    directory(&lab);
    let check = |config: &str, options: &[&str]| {
        let server = Lhsshd::start(&lab, config);
        know(&lab);
        let ran = listing(&lab, server.port, options).ok("lhsftp");
        assert!(ran.text().contains("found"), "{config}: {}", ran.text());
        server
    };
    check("", &["Compression=yes"]);
    let plain = check("NoneEnabled yes", &["NoneEnabled=yes", "NoneSwitch=yes"]);
    assert!(plain.log().contains("WARNING: not encrypted"), "{}", plain.log());
    check("HPNDisabled yes", &[]);
    if let Some(theirs) = ["/usr/lib/openssh/sftp-server", "/usr/libexec/sftp-server"]
        .into_iter()
        .find(|path| std::path::Path::new(path).is_file())
    {
        check(&format!("Subsystem sftp {theirs}"), &[]);
    }
}

/// A host whose key is not known yet gets no early data before the login; nor do servers of others, which get
/// each message in turn.
///
/// Covers: ssh_config StrictHostKeyChecking
#[test]
fn unknown_hosts_get_no_early_data() {
    let test = "unknown_hosts_get_no_early_data";
    let lab = Lab::new();
    let server = Lhsshd::start(&lab, "");
    directory(&lab);
    let key = lab.read("user_ed25519.pub");
    lab.write("known_hosts", &format!("same {key}"));
    // A count is never too low, so four flights would prove early data.
    let flights = Flights::to(server.port);
    let ran = listing(&lab, flights.port, &["StrictHostKeyChecking=no"]).ok("lhsftp");
    assert!(ran.text().contains("found"), "{}", ran.text());
    assert!(flights.count() > 4);
    let Some([sshd]) = peers(test, ["sshd"]) else { return };
    let theirs = Inetd::openssh(&lab, &sshd, "");
    know(&lab);
    let flights = Flights::to(theirs.port);
    let ran = listing(&lab, flights.port, &[]).ok("lhsftp");
    assert!(ran.text().contains("found"), "{}", ran.text());
    assert!(flights.count() > 6);
}
