//! FIDO security keys, emulated by a library. Longhaul's programs and OpenSSH's generate, list and use them,
//! each with keys that the other made.

mod agents;
mod built_in;
mod token;

use std::path::{Path, PathBuf};

use lh_interop::{Inetd, Lhsshd, Ran, our, peers};

use token::Token;

const KINDS: [&str; 2] = ["ed25519-sk", "ecdsa-sk"];
const THEIR_HELPER: &str = "/usr/lib/openssh/ssh-sk-helper";

#[track_caller]
fn assert_in(ran: &Ran, what: &str) {
    assert_eq!((ran.code, ran.text().as_str()), (0, "in\n"), "{what}: {}", ran.err);
}

fn keygens(theirs: &Path) -> [(&'static str, PathBuf); 2] {
    [("ours", our("lhssh-keygen")), ("theirs", theirs.to_owned())]
}

/// Covers: ssh-keygen -t; ssh-keygen -w; ssh_config SecurityKeyProvider; wire sk-ssh-ed25519@openssh.com; wire sk-ecdsa-sha2-nistp256@openssh.com
#[test]
fn fido_keys_work_with_both_programs() {
    let Some([sshd, ssh, keygen]) = peers("fido_keys_work_with_both_programs", ["sshd", "ssh", "ssh-keygen"])
    else {
        return;
    };
    let Some(token) = Token::new("fido_keys_work_with_both_programs") else { return };
    let theirs = Inetd::openssh(&token.lab, &sshd, "");
    let ours = Lhsshd::start(&token.lab, "");
    for (maker, keygen) in keygens(&keygen) {
        for kind in KINDS {
            let file = format!("{maker}-{kind}");
            let said = token.make(&keygen, kind, &file, &[]).text();
            assert!(said.contains("You may need to touch your authenticator to authorize key generation.\n"));
            token.lab.write("authorized_keys", &token.lab.read(&format!("{file}.pub")));
            for client in [&our("lhssh"), &ssh] {
                for port in [theirs.port, ours.port] {
                    let what = format!("{file} with {} at {port}", client.display());
                    assert_in(&token.login(client, port, &file, &["BatchMode=yes"]), &what);
                }
            }
        }
    }
    // The library's path may come from an environment variable; a missing library only causes a message.
    let from_environment = ["SecurityKeyProvider=$SSH_SK_PROVIDER"];
    token.lab.write("authorized_keys", &token.lab.read("ours-ed25519-sk.pub"));
    assert_in(&token.login(&our("lhssh"), ours.port, "ours-ed25519-sk", &from_environment), "by name");
    let missing = token.login(&our("lhssh"), ours.port, "ours-ed25519-sk", &["SecurityKeyProvider=/none.so"]);
    assert_eq!(missing.code, 255);
    for said in ["Provider \"/none.so\" dlopen failed", "signing failed for ED25519-SK", "invalid format"] {
        assert!(missing.err.contains(said), "{}", missing.err);
    }
}

/// Covers: ssh-keygen -O; authorized_keys verify-required; authorized_keys no-touch-required
#[test]
fn fido_touch_and_pin_follow_the_key_options() {
    let Some([ssh, keygen]) = peers("fido_touch_and_pin_follow_the_key_options", ["ssh", "ssh-keygen"])
    else {
        return;
    };
    let Some(mut token) = Token::new("fido_touch_and_pin_follow_the_key_options") else { return };
    token.pin = Some("1234");
    let server = Lhsshd::start(&token.lab, "");
    for (maker, keygen) in keygens(&keygen) {
        token.answer("1234");
        let file = format!("{maker}-pin");
        token.make(&keygen, "ed25519-sk", &file, &["verify-required"]);
        assert_eq!(token.asked(), "Enter PIN for authenticator: \n");
        let public = token.lab.read(&format!("{file}.pub"));
        token.lab.write("authorized_keys", &format!("verify-required {public}"));
        for client in [&our("lhssh"), &ssh] {
            assert_in(&token.login(client, server.port, &file, &[]), &file);
            let asked = token.asked();
            assert_eq!(asked, format!("Enter PIN for ED25519-SK key {}: \n", token.lab.arg(&file)));
        }
        // A wrong PIN is prompted for once.
        token.answer("4321");
        let refused = token.login(&our("lhssh"), server.port, &file, &[]);
        assert_eq!((refused.code, token.asked().lines().count()), (255, 1), "{}", refused.err);

        // The requirement of a PIN can be taken from the key, and given back.
        for (option, prompts) in [("no-verify-required", 0), ("verify-required", 1)] {
            token.answer("1234");
            let change = ["-p", "-q", "-P", "", "-N", "", "-O", option, "-f", &file];
            token.run(&our("lhssh-keygen"), &change).ok("-p -O");
            token.lab.write("authorized_keys", &public);
            token.asked();
            assert_in(&token.login(&our("lhssh"), server.port, &file, &[]), option);
            assert_eq!(token.asked().lines().count(), prompts, "{option}");
        }

        // A key without touch, which the server must allow.
        let file = format!("{maker}-untouched");
        token.make(&keygen, "ecdsa-sk", &file, &["no-touch-required"]);
        let public = token.lab.read(&format!("{file}.pub"));
        token.lab.write("authorized_keys", &public);
        assert_eq!(token.login(&our("lhssh"), server.port, &file, &["BatchMode=yes"]).code, 255);
        token.lab.write("authorized_keys", &format!("no-touch-required {public}"));
        for client in [&our("lhssh"), &ssh] {
            assert_in(&token.login(client, server.port, &file, &["BatchMode=yes"]), &file);
        }
    }
    // The client gives up after three wrong PINs.
    token.answer("4321");
    token.asked();
    for (_, keygen) in keygens(&keygen) {
        let args = ["-t", "ed25519-sk", "-O", "verify-required", "-N", "", "-f", "never"];
        let refused = token.run(&keygen, &args);
        assert_eq!((refused.code, token.asked().lines().count()), (255, 2), "{}", refused.err);
        assert!(refused.err.ends_with("PIN incorrect\nToo many incorrect PINs\n"), "{}", refused.err);
        assert!(!token.lab.path("never").exists());
    }
}

/// Covers: ssh-keygen -O
#[test]
fn fido_application_and_attestation_follow_the_flags() {
    let Some([keygen]) = peers("fido_application_and_attestation_follow_the_flags", ["ssh-keygen"]) else {
        return;
    };
    let Some(token) = Token::new("fido_application_and_attestation_follow_the_flags") else {
        return;
    };
    token.lab.write("challenge", "a challenge of another party");
    let mut attestations = Vec::new();
    for (maker, keygen) in keygens(&keygen) {
        let (file, attestation) = (format!("{maker}-work"), format!("{maker}-attestation"));
        let said = token.make(
            &keygen,
            "ed25519-sk",
            &file,
            &["application=ssh:work", "challenge=challenge", &format!("write-attestation={attestation}")],
        );
        let saved = format!("Your FIDO attestation certificate has been saved in {attestation}\n");
        assert!(said.text().ends_with(&saved), "{}", said.text());
        attestations.push(std::fs::read(token.lab.path(&attestation)).unwrap());
        for (option, error) in [
            ("application=web", "FIDO application string must begin with \"ssh:\"\n"),
            ("colour=red", "Option \"colour=red\" is unsupported for FIDO authenticator enrollment\n"),
            (
                "challenge=none",
                "Unable to load FIDO enrollment challenge \"none\": No such file or directory\n",
            ),
        ] {
            let refused =
                token.run(&keygen, &["-q", "-t", "ed25519-sk", "-O", option, "-N", "", "-f", "never"]);
            assert_eq!((refused.code, refused.err.as_str()), (255, error), "{maker}");
        }
    }
    assert_eq!(attestations[0], attestations[1]);
    let public = token.lab.read("ours-work.pub");
    let key = lh_crypto::PublicKey::from_openssh_line(public.trim()).unwrap().0;
    assert!(key.blob().ends_with(b"\0\0\0\x08ssh:work"));
}

/// Covers: ssh-keygen -K
#[test]
fn resident_fido_keys_are_downloaded() {
    let Some([keygen]) = peers("resident_fido_keys_are_downloaded", ["ssh-keygen"]) else { return };
    let Some(mut token) = Token::new("resident_fido_keys_are_downloaded") else { return };
    token.pin = Some("1234");
    token.answer("1234");
    for (_, keygen) in keygens(&keygen) {
        let none = token.run(&keygen, &["-K", "-N", ""]).ok("nothing there");
        assert_eq!(none.err, "No keys to download\n");
    }
    token.make(&our("lhssh-keygen"), "ed25519-sk", "one", &["resident"]);
    token.make(&keygen, "ecdsa-sk", "two", &["resident", "user=me", "application=ssh:work"]);
    let mut found = Vec::new();
    for (maker, keygen) in keygens(&keygen) {
        std::fs::create_dir(token.lab.path(maker)).unwrap();
        let line = format!("cd {maker} && exec {} -K -N ''", keygen.display());
        let said = token.run(Path::new("sh"), &["-c", &line]).ok("-K");
        let mut lines: Vec<_> = said.text().lines().map(str::to_owned).collect();
        lines.sort();
        let mut files: Vec<_> = std::fs::read_dir(token.lab.path(maker))
            .unwrap()
            .flatten()
            .map(|entry| entry.file_name().into_string().unwrap())
            .collect();
        files.sort();
        let publics: Vec<_> = files
            .iter()
            .filter(|name| name.ends_with(".pub"))
            .map(|name| token.lab.read(&format!("{maker}/{name}")))
            .collect();
        found.push((lines, files, publics));
    }
    assert_eq!(found[0], found[1]);
    assert_eq!(
        found[0].1,
        ["id_ecdsa_sk_rk_work_me", "id_ecdsa_sk_rk_work_me.pub", "id_ed25519_sk_rk", "id_ed25519_sk_rk.pub"]
    );
    let blob = |line: &str| line.split(' ').nth(1).map(str::to_owned);
    assert_eq!(blob(&found[0].2[1]), blob(&token.lab.read("one.pub")));
    // The downloaded key works like the one it was made with.
    let server = Lhsshd::start(&token.lab, "");
    token.lab.write("authorized_keys", &token.lab.read("one.pub"));
    assert_in(&token.login(&our("lhssh"), server.port, "ours/id_ed25519_sk_rk", &[]), "listed");
    // The requirement of a PIN is kept.
    let made = ["resident", "verify-required", "application=ssh:pin"];
    token.make(&our("lhssh-keygen"), "ed25519-sk", "three", &made);
    std::fs::create_dir(token.lab.path("verified")).unwrap();
    let line = format!("cd verified && exec {} -K -N ''", our("lhssh-keygen").display());
    token.run(Path::new("sh"), &["-c", &line]).ok("-K");
    token.lab.write("authorized_keys", &token.lab.read("three.pub"));
    token.asked();
    assert_in(&token.login(&our("lhssh"), server.port, "verified/id_ed25519_sk_rk_pin", &[]), "with a PIN");
    assert_eq!(token.asked().lines().count(), 1);
    // A second resident key for one application is made only if the user agrees to lose the first.
    let again = ["-t", "ed25519-sk", "-O", "resident", "-N", "", "-f", "again"];
    let refused = token.run(&our("lhssh-keygen"), &again);
    assert_eq!(refused.code, 255);
    assert!(refused.text().contains("A resident key scoped to 'ssh:' with null user id already exists.\n"));
    assert!(!token.lab.path("again").exists());
}

/// Covers: wire ssh-sk-helper
#[test]
fn sk_helpers_are_interchangeable() {
    let Some([ssh, keygen]) = peers("sk_helpers_are_interchangeable", ["ssh", "ssh-keygen"]) else {
        return;
    };
    let Some(mut token) = Token::new("sk_helpers_are_interchangeable") else { return };
    token.pin = Some("1234");
    token.answer("1234");
    let server = Lhsshd::start(&token.lab, "");
    for (name, keygen, client, helper) in [
        ("ours", our("lhssh-keygen"), our("lhssh"), PathBuf::from(THEIR_HELPER)),
        ("theirs", keygen, ssh, our("lhssh-sk-helper")),
    ] {
        let helper = format!("SSH_SK_HELPER={}", helper.display());
        for kind in KINDS {
            let file = format!("{name}-{kind}");
            let user = format!("user={file}");
            let args = ["-q", "-t", kind, "-N", "", "-O", "resident", "-O", &user, "-f", &file];
            token.run_env(&[&helper], &keygen, &args).ok("enrolled");
            token.lab.write("authorized_keys", &token.lab.read(&format!("{file}.pub")));
            let client = client.display().to_string();
            let line = [helper.as_str(), &client];
            let ran = token.login(Path::new("env"), server.port, &file, &[]);
            assert_ne!(ran.code, 0, "env takes no such flags");
            let wrapper = format!("exec env {} {} \"$@\"", line[0], line[1]);
            lh_interop::script(&token.lab.path("client"), &wrapper);
            assert_in(&token.login(&token.lab.path("client"), server.port, &file, &[]), &file);
        }
        let directory = format!("{name}-listed");
        std::fs::create_dir(token.lab.path(&directory)).unwrap();
        let line = format!("cd {directory} && exec {} -q -K -N ''", keygen.display());
        token.run_env(&[&helper], Path::new("sh"), &["-c", &line]).ok("listed");
        assert!(token.lab.path(&format!("{directory}/id_ecdsa_sk_rk_{name}-ecdsa-sk.pub")).exists());
    }
}

/// A crash of the library only ends the helper, and its output is discarded.
///
/// Covers: ssh-keygen -w
#[test]
fn a_faulty_fido_library_only_ends_the_helper() {
    let Some(token) = Token::new("a_faulty_fido_library_only_ends_the_helper") else { return };
    let keygen = our("lhssh-keygen");
    let args = ["-q", "-t", "ed25519-sk", "-O", "application=ssh:crash", "-N", "", "-f", "never"];
    let crashed = token.run(&keygen, &args);
    assert_eq!(
        (crashed.code, crashed.err.as_str()),
        (255, "Key enrollment failed: agent refused operation\n")
    );
    assert!(!token.lab.path("never").exists());
    token.make(&keygen, "ed25519-sk", "noisy", &["application=ssh:noise"]);
    assert!(token.lab.read("noisy.pub").starts_with("sk-ssh-ed25519@openssh.com "));
    let library = "/lib/x86_64-linux-gnu/libc.so.6";
    let args = ["-q", "-t", "ed25519-sk", "-w", library, "-N", "", "-f", "never"];
    let refused = token.run(&keygen, &args);
    assert_eq!(refused.code, 255);
    assert!(refused.err.contains("dlsym(sk_api_version) failed"), "{}", refused.err);
    assert!(refused.err.ends_with("Key enrollment failed: invalid format\n"), "{}", refused.err);
}

/// Covers: ssh-keygen -p; ssh-keygen -c; ssh-keygen -y; ssh-keygen -Y; ssh-keygen -s
#[test]
fn fido_key_files_and_signatures_interoperate() {
    let Some([keygen]) = peers("fido_key_files_and_signatures_interoperate", ["ssh-keygen"]) else {
        return;
    };
    let Some(token) = Token::new("fido_key_files_and_signatures_interoperate") else { return };
    let server = Lhsshd::start(&token.lab, &format!("TrustedUserCAKeys {}", token.lab.arg("key.pub")));
    let ours = our("lhssh-keygen");
    token.make(&ours, "ecdsa-sk", "key", &[]);
    token.run(&ours, &["-p", "-N", "secret", "-f", "key"]).ok("-p");
    token.run(&keygen, &["-p", "-P", "secret", "-N", "other", "-f", "key"]).ok("theirs opens it");
    token.run(&ours, &["-c", "-P", "other", "-C", "new words", "-f", "key"]).ok("-c");
    assert!(token.lab.read("key.pub").ends_with(" new words\n"));
    assert_eq!(
        token.run(&ours, &["-y", "-P", "other", "-f", "key"]).ok("-y").text(),
        token.lab.read("key.pub")
    );
    token.lab.write("authorized_keys", &token.lab.read("key.pub"));
    token.answer("other");
    assert_in(&token.login(&our("lhssh"), server.port, "key", &[]), "with a passphrase");
    // Signatures of files, checked by the other's program.
    token.lab.write("data", "data");
    token.lab.write("allowed", &format!("me {}", token.lab.read("key.pub")));
    for (signer, checker) in [(&ours, &keygen), (&keygen, &ours)] {
        let _ = std::fs::remove_file(token.lab.path("data.sig"));
        token.run(signer, &["-Y", "sign", "-f", "key", "-n", "file", "data"]).ok("sign");
        let line = format!("exec {} -Y verify -f allowed -I me -n file -s data.sig <data", checker.display());
        let checked = token.run(Path::new("sh"), &["-c", &line]).ok("verify");
        assert!(checked.text().starts_with("Good \"file\" signature for me with ECDSA-SK key"));
    }
    // An authority in hardware.
    token.lab.write("authorized_keys", "");
    token.run(&ours, &["-q", "-s", "key", "-I", "id", "-n", &lh_interop::me(), "user_ed25519.pub"]).ok("-s");
    assert_in(&token.login(&our("lhssh"), server.port, "user_ed25519", &["BatchMode=yes"]), "certified");
}
