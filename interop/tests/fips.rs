//! Programs with AWS-LC's FIPS module: which algorithms they have, and that they work with OpenSSH's.
//! `cargo xtask fips` builds them and runs these tests; others skip them, because the module takes many
//! minutes to compile.

use std::fs::File;
use std::process::Stdio;

use lh_interop::{Inetd, Lab, Lhsshd, Ran, assert_same_tree, make_blob, make_tree, me, our, peers};

const KEX: &[&str] = &["ecdh-sha2-nistp256", "ecdh-sha2-nistp384", "ecdh-sha2-nistp521"];
const CIPHERS: &[&str] =
    &["aes128-ctr", "aes192-ctr", "aes256-ctr", "aes128-gcm@openssh.com", "aes256-gcm@openssh.com"];
const MACS: &[&str] =
    &["hmac-sha2-256", "hmac-sha2-512", "hmac-sha2-256-etm@openssh.com", "hmac-sha2-512-etm@openssh.com"];
/// Signature algorithms of plain keys.
const KEYS: &[&str] = &[
    "ssh-ed25519",
    "sk-ssh-ed25519@openssh.com",
    "ecdsa-sha2-nistp256",
    "ecdsa-sha2-nistp384",
    "ecdsa-sha2-nistp521",
    "sk-ecdsa-sha2-nistp256@openssh.com",
    "rsa-sha2-256",
    "rsa-sha2-512",
];

/// Algorithms of other builds, with the flags that ask a client for them.
const LEFT_OUT: &[(&str, &str)] = &[
    ("Ciphers", "chacha20-poly1305@openssh.com"),
    ("Ciphers", "aes256-cbc"),
    ("Ciphers", "3des-cbc"),
    ("MACs", "umac-128-etm@openssh.com"),
    ("MACs", "hmac-md5"),
    ("MACs", "hmac-sha1"),
    ("KexAlgorithms", "curve25519-sha256"),
    ("KexAlgorithms", "sntrup761x25519-sha512"),
    ("KexAlgorithms", "mlkem768x25519-sha256"),
    ("KexAlgorithms", "diffie-hellman-group14-sha256"),
    ("KexAlgorithms", "diffie-hellman-group-exchange-sha256"),
    ("HostKeyAlgorithms", "ssh-rsa"),
    ("HostKeyAlgorithms", "ssh-mldsa44-ed25519"),
    ("PubkeyAcceptedAlgorithms", "ssh-rsa"),
];

/// Runs `lhssh OPTIONS … cat` with a mebibyte as its input.
fn echo(lab: &Lab, client: &std::path::Path, port: u16, options: &[String]) -> Ran {
    if !lab.path("blob").exists() {
        make_blob(&lab.path("blob"), 1 << 20);
    }
    let mut args = Vec::new();
    for option in options {
        args.extend(["-o".to_owned(), option.clone()]);
    }
    args.extend(lab.client_options());
    args.extend(["-p".into(), port.to_string(), format!("{}@127.0.0.1", me()), "cat".into()]);
    lab.run_with(client, &args, Stdio::from(File::open(lab.path("blob")).unwrap()))
}

#[track_caller]
fn echoes(lab: &Lab, client: &std::path::Path, port: u16, options: &[String]) {
    let ran = echo(lab, client, port, options).ok(&format!("{options:?}"));
    assert!(ran.out == std::fs::read(lab.path("blob")).unwrap(), "{options:?}: the data differ");
}

/// Returns options for every approved algorithm of a connection, and for users' keys of every type.
fn choices(lab: &Lab) -> Vec<Vec<String>> {
    let mut choices: Vec<Vec<String>> = vec![Vec::new()];
    choices.extend(KEX.iter().map(|kex| vec![format!("KexAlgorithms={kex}"), "RekeyLimit=300K".to_owned()]));
    choices.extend(CIPHERS.iter().map(|cipher| vec![format!("Ciphers={cipher}")]));
    choices.extend(MACS.iter().map(|mac| vec!["Ciphers=aes256-ctr".to_owned(), format!("MACs={mac}")]));
    for key in ["ssh-ed25519", "ecdsa-sha2-nistp256", "rsa-sha2-256", "rsa-sha2-512"] {
        choices.push(vec![format!("HostKeyAlgorithms={key}")]);
    }
    for key in ["user_ed25519", "user_ecdsa", "user_rsa"] {
        choices.push(vec![format!("IdentityFile={}", lab.arg(key)), "IdentitiesOnly=yes".to_owned()]);
    }
    choices
}

#[test]
#[ignore = "needs programs with the FIPS module: cargo xtask fips"]
fn lists_have_approved_algorithms_only() {
    let lab = Lab::new();
    let listed = |query: &str| {
        let text = lab.run(&our("lhssh"), &["-Q", query]).ok(query).text();
        text.lines().map(str::to_owned).collect::<Vec<_>>()
    };
    assert_eq!(listed("kex"), KEX);
    assert_eq!(listed("cipher"), CIPHERS);
    assert_eq!(listed("cipher-auth"), &CIPHERS[3..]);
    assert_eq!(listed("mac"), MACS);
    assert_eq!(listed("sig"), KEYS);
    assert_eq!(listed("key-ca-sign"), KEYS);
    let version = lab.run(&our("lhssh"), &["-V"]).ok("-V");
    assert!(version.err.contains("AWS-LC FIPS module"), "{version:?}");
    // The defaults are the same lists.
    let defaults = lab.run(&our("lhssh"), &["-F", "none", "-G", "host"]).ok("-G").text();
    for (keyword, names) in [("kexalgorithms", KEX), ("ciphers", CIPHERS), ("macs", MACS)] {
        let line = defaults.lines().find_map(|line| line.strip_prefix(&format!("{keyword} "))).unwrap();
        let (mut line, mut names) = (line.split(',').collect::<Vec<_>>(), names.to_vec());
        line.sort_unstable();
        names.sort_unstable();
        assert_eq!(line, names, "{keyword}");
    }
}

#[test]
#[ignore = "needs programs with the FIPS module: cargo xtask fips"]
fn left_out_algorithms_are_unknown() {
    let lab = Lab::new();
    lab.write("sshd.conf", &format!("HostKey {}\n", lab.arg("host_ed25519")));
    lab.run(&our("lhsshd"), &["-t", "-f", &lab.arg("sshd.conf")]).ok("without such a keyword");
    for (keyword, name) in LEFT_OUT {
        let option = format!("{keyword}={name}");
        let ran = lab.run(&our("lhssh"), &["-F", "none", "-o", &option, "-G", "host"]);
        assert!(ran.code == 255 && ran.err.contains(name), "{option}: {ran:?}");
        lab.write("sshd.conf", &format!("HostKey {}\n{keyword} {name}\n", lab.arg("host_ed25519")));
        let ran = lab.run(&our("lhsshd"), &["-t", "-f", &lab.arg("sshd.conf")]);
        assert!(ran.code != 0 && ran.err.contains(name), "{option}: {ran:?}");
    }
    let ran = lab.run(&our("lhssh"), &["-F", "none", "-c", "chacha20-poly1305@openssh.com", "host"]);
    assert!(ran.code == 255 && ran.err.contains("Unknown cipher type"), "{ran:?}");
    let small = ["-q", "-t", "rsa", "-b", "1024", "-N", "", "-f", &lab.arg("small")];
    assert_ne!(lab.run(&our("lhssh-keygen"), &small).code, 0);
    for flags in [["-t", "ed25519"], ["-t", "ecdsa"], ["-t", "rsa"]] {
        let file = lab.arg(flags[1]);
        let args = [&flags[..], &["-q", "-N", "secret", "-f", &file]].concat();
        lab.run(&our("lhssh-keygen"), &args).ok(flags[1]);
    }
    // As packages make host keys.
    std::fs::create_dir_all(lab.path("first/etc/ssh")).unwrap();
    lab.run(&our("lhssh-keygen"), &["-A", "-f", &lab.arg("first")]).ok("-A");
    assert_eq!(std::fs::read_dir(lab.path("first/etc/ssh")).unwrap().count(), 6);
}

#[test]
#[ignore = "needs programs with the FIPS module: cargo xtask fips"]
fn our_client_with_openssh_s_server() {
    let Some([sshd]) = peers("fips_sshd", ["sshd"]) else { return };
    let lab = Lab::new();
    let server = Inetd::openssh(&lab, &sshd, "");
    for options in choices(&lab) {
        echoes(&lab, &our("lhssh"), server.port, &options);
    }
    make_tree(&lab.path("tree"), 40);
    copies(&lab, server.port);
    // A server that has nothing in common with us is refused in the usual words.
    let modern = Inetd::openssh(&lab, &sshd, "KexAlgorithms curve25519-sha256\n");
    let ran = echo(&lab, &our("lhssh"), modern.port, &[]);
    assert!(ran.code == 255, "{ran:?}");
    let said = &ran.err;
    assert!(said.contains("no matching key exchange method found"), "{said}");
}

#[test]
#[ignore = "needs programs with the FIPS module: cargo xtask fips"]
fn openssh_s_client_with_our_server() {
    let Some([ssh]) = peers("fips_ssh", ["ssh"]) else { return };
    let lab = Lab::new();
    let server = Lhsshd::start(&lab, "");
    for options in choices(&lab) {
        echoes(&lab, &ssh, server.port, &options);
    }
    for option in ["KexAlgorithms=curve25519-sha256", "Ciphers=chacha20-poly1305@openssh.com"] {
        let ran = echo(&lab, &ssh, server.port, &[option.to_owned()]);
        let said = &ran.err;
        assert!(ran.code == 255 && said.contains("no matching"), "{option}: {said}");
    }
}

#[test]
#[ignore = "needs programs with the FIPS module: cargo xtask fips"]
fn our_client_with_our_server() {
    let lab = Lab::new();
    let server = Lhsshd::start(&lab, "");
    for options in choices(&lab) {
        echoes(&lab, &our("lhssh"), server.port, &options);
    }
    make_tree(&lab.path("tree"), 40);
    copies(&lab, server.port);
}

/// Copies a tree to the server and back.
fn copies(lab: &Lab, port: u16) {
    let copy = |from: &str, to: &str| {
        let mut args = vec!["-r".to_owned()];
        args.extend(lab.client_options());
        args.extend(["-P".to_owned(), port.to_string(), from.to_owned(), to.to_owned()]);
        lab.run(&our("lhscp"), &args).ok("lhscp");
    };
    let far = |name: &str| format!("{}@127.0.0.1:{}", me(), lab.arg(name));
    let (up, down) = (format!("up-{port}"), format!("down-{port}"));
    copy(&lab.arg("tree"), &far(&up));
    copy(&far(&up), &lab.arg(&down));
    assert_same_tree(&lab.path("tree"), &lab.path(&down));
}
