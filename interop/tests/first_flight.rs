//! What a session says first goes out with the login, where the server bears it: how many flights are left,
//! and what comes of it when something else happens than expected.

use lh_interop::{Flights, Inetd, Lab, Lhsshd, Ran, assert_same_tree, me, our, peers};

/// Runs one of our clients against `port`, with these options before those of the lab and this behind the
/// port.
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

/// A relay has another port: the host is known by a name of its own.
fn know(lab: &Lab) {
    let key = lab.read("host_ed25519.pub");
    lab.write("known_hosts", &format!("same {key}"));
}

/// A session that lists a folder.
fn listing(lab: &Lab, port: u16, options: &[&str]) -> Ran {
    lab.write("batch", &format!("ls {}/f*\n", lab.arg("folder")));
    run(lab, "lhsftp", port, options, &["-b", &lab.arg("batch"), &host()])
}

fn folder(lab: &Lab) {
    std::fs::create_dir_all(lab.path("folder")).unwrap();
    for name in ["found", "further"] {
        std::fs::write(lab.path("folder").join(name), b"").unwrap();
    }
}

/// Identification and KEXINIT; key exchange; login, channel, subsystem and the first question; the listing.
///
/// Covers: wire first-flight@longhaul
#[test]
fn a_listing_takes_four_flights() {
    let lab = Lab::new();
    let server = Lhsshd::start(&lab, "");
    know(&lab);
    folder(&lab);
    let flights = Flights::fewest(server.port, 4, |port| {
        let ran = listing(&lab, port, &[]).ok("lhsftp");
        assert!(ran.text().contains("found"), "{}", ran.text());
    });
    assert!(flights <= 4, "{flights}");
}

/// Into a folder that is not there yet; and from one whose folders have to be listed.
///
/// Covers: wire first-flight@longhaul
#[test]
fn a_tree_takes_four_flights_up_and_five_down() {
    let lab = Lab::new();
    let server = Lhsshd::start(&lab, "");
    know(&lab);
    let from = lab.path("from");
    for number in 0..60 {
        let folder = from.join((number % 6).to_string());
        std::fs::create_dir_all(&folder).unwrap();
        std::fs::write(folder.join(number.to_string()), [7; 500]).unwrap();
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
        assert!(flights <= most, "up {up}: {flights}");
    }
}

/// The request in front of the first words fails, more than once; they are said again behind the one that
/// does not.
#[test]
fn a_key_that_is_not_taken_costs_the_first_words_nothing() {
    let lab = Lab::new();
    let server = Lhsshd::start(&lab, "");
    know(&lab);
    folder(&lab);
    let mut options = Vec::new();
    for name in ["wrong", "wronger"] {
        let file = lab.arg(name);
        lab.run(&our("lhssh-keygen"), &["-q", "-t", "ed25519", "-N", "", "-f", &file]).ok("lhssh-keygen");
        options.push(format!("IdentityFile={file}"));
    }
    let options: Vec<&str> = options.iter().map(String::as_str).collect();
    let ran = listing(&lab, server.port, &options).ok("lhsftp");
    assert!(ran.text().contains("found"), "{}", ran.text());
    // No more is dropped than was promised, and nobody gets in by it.
    lab.write("authorized_keys", "");
    let ran = listing(&lab, server.port, &options);
    assert_eq!(ran.code, 255);
    assert_eq!(server.log().matches("Accepted publickey").count(), 1, "{}", server.log());
    assert!(!server.log().contains("unexpected message"), "{}", server.log());
}

/// Who has two things to prove says nothing early that counts before both are proven.
///
/// Covers: sshd_config AuthenticationMethods
#[test]
fn a_second_key_is_asked_for_before_anything_is_done() {
    let lab = Lab::new();
    let server = Lhsshd::start(&lab, "AuthenticationMethods publickey,publickey");
    know(&lab);
    folder(&lab);
    let second = format!("IdentityFile={}", lab.arg("user_ecdsa"));
    let ran = listing(&lab, server.port, &[&second]).ok("lhsftp");
    assert!(ran.text().contains("found"), "{}", ran.text());
    assert!(
        server.log().contains("Partial publickey") || server.log().contains("artial"),
        "{}",
        server.log()
    );
}

/// The server need not open what it was promised to be asked for.
///
/// Covers: sshd_config MaxSessions
#[test]
fn a_first_channel_that_is_refused_is_told_as_ever() {
    let lab = Lab::new();
    let server = Lhsshd::start(&lab, "MaxSessions 0");
    know(&lab);
    folder(&lab);
    let ran = listing(&lab, server.port, &[]);
    assert_eq!(ran.code, 255);
    assert!(ran.err.contains("open failed"), "{}", ran.err);
    assert!(!server.log().contains("nonexistent channel"), "{}", server.log());
    let there = format!("{}:{}", host(), lab.arg("folder"));
    let ran = run(&lab, "lhscp", server.port, &[], &["-r", &there, &lab.arg("to")]);
    assert_eq!(ran.code, 255);
    assert!(ran.err.contains("open failed"), "{}", ran.err);
}

/// No subsystem answers: what stands behind the request for it is for nobody.
///
/// Covers: sshd_config Subsystem
#[test]
fn a_subsystem_that_is_not_there_is_told_as_ever() {
    let lab = Lab::new();
    let server = Lhsshd::start(&lab, "Subsystem sftp /nonexistent/program");
    know(&lab);
    folder(&lab);
    assert_eq!(listing(&lab, server.port, &[]).code, 255);
    let none = Lhsshd::start(&lab, "Subsystem sftp none\nForceCommand true");
    assert_eq!(listing(&lab, none.port, &[]).code, 255);
}

/// Where it cannot be told where compression begins, where plain text follows the login, and with other
/// programs' subsystems.
///
/// Covers: ssh_config Compression; ssh_config NoneSwitch; sshd_config Subsystem
#[test]
fn what_else_happens_between_login_and_session_happens_as_ever() {
    let lab = Lab::new();
    folder(&lab);
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

/// A host that may be another one hears nothing before somebody is in; and other people's servers get
/// everything one by one.
///
/// Covers: ssh_config StrictHostKeyChecking
#[test]
fn nothing_is_said_early_to_strangers() {
    let test = "nothing_is_said_early_to_strangers";
    let lab = Lab::new();
    let server = Lhsshd::start(&lab, "");
    folder(&lab);
    let key = lab.read("user_ed25519.pub");
    lab.write("known_hosts", &format!("same {key}"));
    // A count is never too small: these cannot be four.
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
