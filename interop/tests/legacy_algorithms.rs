//! Algorithms for old equipment: never offered by default, and usable with every peer once a configuration
//! names them.

use std::fs::File;
use std::process::Stdio;

use lh_interop::{Inetd, Lab, Lhsshd, TestUser, is_root, make_blob, me, our, peers, skip, skip_unavailable};

const CIPHERS: &[&str] = &["aes128-cbc", "aes192-cbc", "aes256-cbc", "3des-cbc"];
const MACS: &[&str] = &[
    "hmac-md5",
    "hmac-md5-96",
    "hmac-sha1-96",
    "hmac-md5-etm@openssh.com",
    "hmac-md5-96-etm@openssh.com",
    "hmac-sha1-96-etm@openssh.com",
];
const KEX: &[&str] =
    &["diffie-hellman-group1-sha1", "diffie-hellman-group14-sha1", "diffie-hellman-group-exchange-sha1"];

/// Returns every cipher with every MAC, then the other algorithms with one cipher.
fn choices() -> Vec<Vec<String>> {
    let mut choices = Vec::new();
    for cipher in CIPHERS {
        for mac in ["hmac-sha1", "umac-64-etm@openssh.com"] {
            choices.push(vec![format!("Ciphers={cipher}"), format!("MACs={mac}")]);
        }
    }
    choices.extend(MACS.iter().map(|mac| vec!["Ciphers=aes128-cbc".to_owned(), format!("MACs={mac}")]));
    choices.extend(KEX.iter().map(|kex| vec![format!("KexAlgorithms={kex}")]));
    choices.push(vec!["HostKeyAlgorithms=ssh-rsa".to_owned()]);
    choices
}

/// Returns configuration lines with which a server accepts all of them.
fn everything() -> String {
    format!(
        "Ciphers +{}\nMACs +{}\nKexAlgorithms +{}\nHostKeyAlgorithms +ssh-rsa\nPubkeyAcceptedAlgorithms +ssh-rsa\n\
         RekeyLimit 256K\n",
        CIPHERS.join(","),
        MACS.join(","),
        KEX.join(",")
    )
}

/// Sends 1 MiB through `cat` on the server, with rekeys from both sides on the way.
fn echo(lab: &Lab, client: &std::path::Path, port: u16, options: &[String]) {
    if !lab.path("blob").exists() {
        make_blob(&lab.path("blob"), 1 << 20);
    }
    let mut args = vec!["-o".to_owned(), "RekeyLimit=300K".to_owned()];
    for option in options {
        args.extend(["-o".to_owned(), option.clone()]);
    }
    args.extend(lab.client_options());
    args.extend(["-p".into(), port.to_string(), format!("{}@127.0.0.1", me()), "cat".into()]);
    let stdin = Stdio::from(File::open(lab.path("blob")).unwrap());
    let ran = lab.run_with(client, &args, stdin).ok(&format!("{options:?}"));
    assert!(ran.out == std::fs::read(lab.path("blob")).unwrap(), "{options:?}: the data differ");
}

/// Covers: ssh_config Ciphers; ssh_config MACs; ssh_config KexAlgorithms; ssh_config HostKeyAlgorithms
#[test]
fn our_client_with_openssh_s_server() {
    let Some([sshd]) = peers("legacy_sshd", ["sshd"]) else { return };
    let lab = Lab::new();
    let server = Inetd::openssh(&lab, &sshd, &everything());
    for options in choices() {
        echo(&lab, &our("lhssh"), server.port, &options);
    }
}

/// Covers: sshd_config Ciphers; sshd_config MACs; sshd_config KexAlgorithms; sshd_config HostKeyAlgorithms
#[test]
fn openssh_s_client_with_our_server() {
    let Some([ssh]) = peers("legacy_ssh", ["ssh"]) else { return };
    let lab = Lab::new();
    let server = Lhsshd::start(&lab, &everything());
    for options in choices() {
        echo(&lab, &ssh, server.port, &options);
    }
}

#[test]
fn our_client_with_our_server() {
    let lab = Lab::new();
    let server = Lhsshd::start(&lab, &everything());
    for options in choices() {
        echo(&lab, &our("lhssh"), server.port, &options);
    }
}

/// Covers: ssh_config PubkeyAcceptedAlgorithms; sshd_config PubkeyAcceptedAlgorithms
#[test]
fn sha1_user_signatures_need_both_configurations() {
    let lab = Lab::new();
    let ours = Lhsshd::start(&lab, &everything());
    let strict = Lhsshd::start(&lab, "");
    let log_in = |client: &std::path::Path, port: u16| {
        let mut args = vec!["-o".to_owned(), format!("IdentityFile={}", lab.arg("user_rsa"))];
        args.extend(["-o".to_owned(), "PubkeyAcceptedAlgorithms=ssh-rsa".to_owned()]);
        // The lab's options name another identity, which this list excludes.
        args.extend(lab.client_options());
        args.extend(["-p".into(), port.to_string(), format!("{}@127.0.0.1", me()), "echo in".into()]);
        lab.run(client, &args)
    };
    assert_eq!(log_in(&our("lhssh"), ours.port).ok("ours").text(), "in\n");
    assert!(ours.log().contains("Accepted publickey"), "{}", ours.log());
    assert_eq!(log_in(&our("lhssh"), strict.port).code, 255);
    if let Some([ssh, sshd]) = peers("sha1_signatures", ["ssh", "sshd"]) {
        let theirs = Inetd::openssh(&lab, &sshd, &everything());
        assert_eq!(log_in(&our("lhssh"), theirs.port).ok("their server").text(), "in\n");
        assert_eq!(log_in(&ssh, ours.port).ok("their client").text(), "in\n");
        assert_eq!(log_in(&ssh, strict.port).code, 255);
    }
}

/// dropbear's server has `ssh-rsa` and, built as Debian builds it, `diffie-hellman-group14-sha1` and
/// `hmac-sha1`.
#[test]
fn our_client_with_dropbear_s_server() {
    let Some([dropbear, convert]) = peers("legacy_dropbear", ["dropbear", "dropbearconvert"]) else { return };
    if !is_root() {
        return skip(
            "legacy_dropbear",
            "needs root: dropbear reads authorized_keys from the home of the user",
        );
    }
    let lab = Lab::new();
    let user = TestUser::new(&lab);
    let server = Inetd::dropbear(&lab, &dropbear, &convert, &[]);
    let log_in = |options: &[&str]| {
        let mut args: Vec<String> = Vec::new();
        for option in options {
            args.extend(["-o".to_owned(), (*option).to_owned()]);
        }
        args.extend(lab.client_options());
        args.extend(["-p".into(), server.port_arg(), format!("{}@127.0.0.1", user.name), "echo in".into()]);
        lab.run(&our("lhssh"), &args)
    };
    let sha1 = ["HostKeyAlgorithms=ssh-rsa", "Ciphers=aes128-ctr", "MACs=hmac-sha1"];
    assert_eq!(log_in(&sha1).ok("ssh-rsa host key").text(), "in\n");
    let identity = format!("IdentityFile={}", lab.arg("user_rsa"));
    let signed = log_in(&[&identity, "PubkeyAcceptedAlgorithms=ssh-rsa"]);
    assert_eq!(signed.ok("ssh-rsa signature").text(), "in\n");
    // Some builds lack the algorithm; dropbear then reports it, which is no fault of ours.
    for option in ["KexAlgorithms=diffie-hellman-group14-sha1", "Ciphers=aes128-cbc", "Ciphers=3des-cbc"] {
        let ran = log_in(&[option, "MACs=hmac-sha1"]);
        if ran.code == 255 && ran.err.contains("Unable to negotiate with ") {
            skip_unavailable(option, "this dropbear lacks it");
        } else {
            assert_eq!(ran.ok(option).text(), "in\n");
        }
    }
}

#[test]
fn legacy_algorithms_are_not_offered_by_default() {
    let lab = Lab::new();
    let server = Lhsshd::start(&lab, "");
    for (option, what) in [
        ("Ciphers=aes128-cbc", "cipher"),
        ("Ciphers=3des-cbc", "cipher"),
        ("KexAlgorithms=diffie-hellman-group1-sha1", "key exchange method"),
        ("KexAlgorithms=diffie-hellman-group14-sha1", "key exchange method"),
        ("HostKeyAlgorithms=ssh-rsa", "host key type"),
    ] {
        let mut args = vec!["-o".to_owned(), option.to_owned()];
        args.extend(lab.client_options());
        args.extend(["-p".into(), server.port_arg(), format!("{}@127.0.0.1", me()), "true".into()]);
        let ran = lab.run(&our("lhssh"), &args);
        assert_eq!(ran.code, 255, "{option}");
        let words = format!("no matching {what} found. Their offer: ");
        assert!(
            ran.err.contains("Unable to negotiate with ") && ran.err.contains(&words),
            "{option}: {}",
            ran.err
        );
    }
    let options = ["-o", "Ciphers=aes128-ctr", "-o", "MACs=hmac-md5"];
    let mut args: Vec<String> = options.map(str::to_owned).to_vec();
    args.extend(lab.client_options());
    args.extend(["-p".into(), server.port_arg(), format!("{}@127.0.0.1", me()), "true".into()]);
    let ran = lab.run(&our("lhssh"), &args);
    assert!(ran.code == 255 && ran.err.contains("no matching MAC found"), "{}", ran.err);
}

/// Covers: ssh -Q
#[test]
fn queries_list_what_openssh_lists() {
    let Some([ssh]) = peers("queries", ["ssh"]) else { return };
    let lab = Lab::new();
    for query in [
        "cipher",
        "cipher-auth",
        "mac",
        "kex",
        "key",
        "key-sig",
        "sig",
        "key-cert",
        "key-plain",
        "compression",
    ] {
        let theirs = lab.run(&ssh, &["-Q", query]).ok(query).text();
        let ours = lab.run(&our("lhssh"), &["-Q", query]).ok(query).text();
        // OpenSSH 10 dropped DSA; webauthn signature names are left out.
        let theirs: Vec<&str> =
            theirs.lines().filter(|name| !name.contains("-dss") && !name.starts_with("webauthn-")).collect();
        let common: Vec<&str> = ours.lines().filter(|name| theirs.contains(name)).collect();
        assert_eq!(common, theirs, "{query}");
    }
}
