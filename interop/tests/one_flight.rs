//! Logins that save one round trip: the client signs before the server has listed its methods. The tests
//! check which servers allow it, and that the results are the usual ones.

use lh_interop::{Inetd, Lab, Lhsshd, Ran, me, our, peers};

/// Runs `echo in` with these options before those of the lab.
fn log_in(lab: &Lab, port: u16, options: &[&str]) -> Ran {
    let mut args: Vec<String> =
        options.iter().flat_map(|&option| ["-o".to_owned(), option.to_owned()]).collect();
    args.push("-v".to_owned());
    args.extend(lab.client_options());
    args.extend(["-p".into(), port.to_string(), format!("{}@127.0.0.1", me()), "echo in".into()]);
    lab.run(&our("lhssh"), &args)
}

/// Returns whether the client signed before the server had listed its methods.
fn went_ahead(ran: &Ran) -> bool {
    let at = |text: &str| ran.err.find(text).unwrap_or_else(|| panic!("{text}: {}", ran.err));
    at("Offering public key: ") < at("Authentications that can continue: ")
}

#[track_caller]
fn is_in(ran: Ran) -> Ran {
    let ran = ran.ok("lhssh");
    assert_eq!(ran.text(), "in\n");
    ran
}

/// Covers: ssh_config IdentityFile; wire userauth
#[test]
fn a_named_key_signs_before_the_list_of_methods() {
    let test = "a_named_key_signs_before_the_list_of_methods";
    let lab = Lab::new();
    let ours = Lhsshd::start(&lab, "");
    assert!(went_ahead(&is_in(log_in(&lab, ours.port, &[]))));
    let others = peers(test, ["sshd", "dropbear", "dropbearconvert"]);
    let Some([sshd, dropbear, dropbearconvert]) = others else { return };
    let theirs = Inetd::openssh(&lab, &sshd, "");
    assert!(went_ahead(&is_in(log_in(&lab, theirs.port, &[]))));
    // Other servers are not known to allow it.
    std::fs::create_dir_all(lab.path("home/.ssh")).unwrap();
    std::fs::copy(lab.path("authorized_keys"), lab.path("home/.ssh/authorized_keys")).unwrap();
    let other = Inetd::dropbear(&lab, &dropbear, &dropbearconvert, &[]);
    let ran = log_in(&lab, other.port, &[]);
    assert!(!went_ahead(&ran), "{}", ran.err);
}

/// A server with a low limit of failures counts no more of them than before.
///
/// Covers: sshd_config MaxAuthTries
#[test]
fn early_signatures_add_no_login_failures() {
    let test = "early_signatures_add_no_login_failures";
    let lab = Lab::new();
    let wrong = lab.arg("wrong");
    let keygen = ["-q", "-t", "ed25519", "-N", "", "-f", &wrong];
    lab.run(&our("lhssh-keygen"), &keygen).ok("lhssh-keygen");
    let identity = format!("IdentityFile={wrong}");
    let check = |port: u16| {
        // The wrong key is one failure, the right one none; the query for the methods was never counted.
        let ran = is_in(log_in(&lab, port, &[&identity]));
        assert!(went_ahead(&ran), "{}", ran.err);
    };
    check(Lhsshd::start(&lab, "MaxAuthTries 2\nPubkeyAuthOptions none").port);
    let Some([sshd]) = peers(test, ["sshd"]) else { return };
    check(Inetd::openssh(&lab, &sshd, "MaxAuthTries 2\nPubkeyAuthOptions none").port);
}

/// A default key is offered only when the server accepts keys: a server that only takes passwords would count
/// it as a failure.
///
/// Covers: sshd_config PubkeyAuthentication
#[test]
fn default_keys_wait_for_the_list_of_methods() {
    let test = "default_keys_wait_for_the_list_of_methods";
    let lab = Lab::new();
    std::fs::create_dir_all(lab.path("home/.ssh")).unwrap();
    std::fs::copy(lab.path("user_ed25519"), lab.path("home/.ssh/id_ed25519")).unwrap();
    let run = |port: u16| {
        let mut args = vec!["-v".to_owned(), "-F".into(), "none".into()];
        for option in [format!("UserKnownHostsFile={}", lab.arg("known_hosts")), "BatchMode=yes".to_owned()] {
            args.extend(["-o".to_owned(), option]);
        }
        args.extend(["-p".into(), port.to_string(), format!("{}@127.0.0.1", me()), "echo in".into()]);
        lab.run(&our("lhssh"), &args)
    };
    let check = |port: u16| {
        let ran = run(port);
        assert_eq!(ran.code, 255);
        assert!(ran.err.contains("Authentications that can continue: "), "{}", ran.err);
        assert!(!ran.err.contains("Signing with key"), "{}", ran.err);
    };
    check(Lhsshd::start(&lab, "PubkeyAuthentication no\nPasswordAuthentication yes").port);
    let Some([sshd]) = peers(test, ["sshd"]) else { return };
    check(Inetd::openssh(&lab, &sshd, "PubkeyAuthentication no\nPasswordAuthentication yes").port);
}
