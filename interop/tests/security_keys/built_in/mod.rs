//! The built-in provider (`internal`): libfido2 with emulated security keys. OpenSSH's programs use them the
//! same way.

mod authenticator;
mod cbor;
mod crypto;

use std::path::{Path, PathBuf};

use lh_interop::{Agent, Inetd, Lab, Lhsshd, Ran, our, peers, skip};

use super::token::{Token, compile};
use super::{KINDS, assert_in, keygens};
use authenticator::Authenticator;

/// Directories in which a linker finds libfido2.
const LIBRARIES: [&str; 4] =
    ["/usr/lib/x86_64-linux-gnu", "/usr/lib/aarch64-linux-gnu", "/usr/lib64", "/usr/lib"];

/// Returns the environment for a host with these security keys. Skips the test and returns `None` if
/// something is missing.
fn plug_in(test: &str, pins: &[Option<&str>]) -> Option<(Token, Vec<Authenticator>)> {
    let libraries = LIBRARIES.map(|directory| Path::new(directory).join("libfido2.so.1"));
    let Some(library) = libraries.iter().find(|path| path.exists()) else {
        skip(test, "not installed: libfido2-1");
        return None;
    };
    let lab = Lab::new();
    let preloaded = compile(test, &lab, "fido_devices", &library.display().to_string())?;
    let device = |(number, pin): (usize, &Option<&str>)| {
        Authenticator::start(&lab.path(&format!("key{number}")), *pin)
    };
    let devices: Vec<Authenticator> = pins.iter().enumerate().map(device).collect();
    let paths: Vec<_> = devices.iter().map(|device| device.path.display().to_string()).collect();
    let more =
        vec![format!("LD_PRELOAD={}", preloaded.display()), format!("LH_FIDO_DEVICES={}", paths.join(":"))];
    let token = Token { lab, provider: PathBuf::from("internal"), pin: None, more };
    token.answer("");
    Some((token, devices))
}

/// Tries to make a key.
fn try_to_make(token: &Token, keygen: &Path, kind: &str, options: &[&str]) -> Ran {
    let mut args = vec!["-q", "-t", kind, "-N", "", "-f", "never"];
    args.extend(options.iter().flat_map(|option| ["-O", option]));
    let ran = token.run(keygen, &args);
    assert!(ran.code == 0 || !token.lab.path("never").exists());
    ran
}

/// Covers: ssh-keygen -t; ssh_config SecurityKeyProvider
#[test]
fn fido_keys_need_no_provider_library() {
    let test = "fido_keys_need_no_provider_library";
    let Some([sshd, ssh, keygen]) = peers(test, ["sshd", "ssh", "ssh-keygen"]) else { return };
    let Some((token, devices)) = plug_in(test, &[None]) else { return };
    let theirs = Inetd::openssh(&token.lab, &sshd, "");
    let ours = Lhsshd::start(&token.lab, "");
    for (maker, keygen) in keygens(&keygen) {
        for kind in KINDS {
            let file = format!("{maker}-{kind}");
            // With and without a certificate of the device's maker.
            let attested = kind == KINDS[0];
            devices[0].state.lock().unwrap().attested = attested;
            token.make(&keygen, kind, &file, &[&format!("write-attestation={file}.attestation")]);
            let attestation = std::fs::read(token.lab.path(&format!("{file}.attestation"))).unwrap();
            let mut fields = lh_wire::Reader::new(&attestation);
            assert_eq!(fields.string().unwrap(), b"ssh-sk-attest-v01");
            assert_eq!(fields.string().unwrap().is_empty(), !attested, "the certificate");
            token.lab.write("authorized_keys", &token.lab.read(&format!("{file}.pub")));
            for client in [&our("lhssh"), &ssh] {
                for port in [theirs.port, ours.port] {
                    let what = format!("{file} with {} at {port}", client.display());
                    assert_in(&token.login(client, port, &file, &["BatchMode=yes"]), &what);
                }
            }
        }
        // A key without touch, which the server must allow.
        let file = format!("{maker}-untouched");
        token.make(&keygen, "ed25519-sk", &file, &["no-touch-required"]);
        let public = token.lab.read(&format!("{file}.pub"));
        token.lab.write("authorized_keys", &public);
        assert_eq!(token.login(&our("lhssh"), ours.port, &file, &["BatchMode=yes"]).code, 255);
        token.lab.write("authorized_keys", &format!("no-touch-required {public}"));
        for client in [&our("lhssh"), &ssh] {
            assert_in(&token.login(client, ours.port, &file, &["BatchMode=yes"]), &file);
        }
    }
    // An agent uses them too.
    let variables = token.environment();
    let variables: Vec<_> = variables.iter().filter_map(|word| word.split_once('=')).collect();
    let agent = Agent::start(&token.lab, &our("lhssh-agent"), "agent", &[], &variables);
    let socket = format!("SSH_AUTH_SOCK={}", agent.socket.display());
    token.run_env(&[&socket], &our("lhssh-add"), &["ours-ed25519-sk"]).ok("added");
    token.lab.write("authorized_keys", &token.lab.read("ours-ed25519-sk.pub"));
    let options = [&format!("IdentityAgent={}", agent.socket.display()), "IdentitiesOnly=no"];
    assert_in(&token.login(&our("lhssh"), theirs.port, "none", &options), "by the agent");
}

/// Covers: ssh-keygen -O; authorized_keys verify-required
#[test]
fn fido_pins_are_asked_for_and_checked() {
    let test = "fido_pins_are_asked_for_and_checked";
    let Some([sshd, ssh, keygen]) = peers(test, ["sshd", "ssh", "ssh-keygen"]) else { return };
    let Some((token, devices)) = plug_in(test, &[Some("1234")]) else { return };
    let theirs = Inetd::openssh(&token.lab, &sshd, "");
    let ours = Lhsshd::start(&token.lab, "");
    for (maker, keygen) in keygens(&keygen) {
        token.answer("1234");
        let file = format!("{maker}-pin");
        token.make(&keygen, "ed25519-sk", &file, &["verify-required"]);
        assert_eq!(token.asked(), "Enter PIN for authenticator: \n", "{maker}");
        let public = token.lab.read(&format!("{file}.pub"));
        token.lab.write("authorized_keys", &format!("verify-required {public}"));
        for client in [&our("lhssh"), &ssh] {
            for port in [theirs.port, ours.port] {
                assert_in(&token.login(client, port, &file, &[]), &file);
                let asked = token.asked();
                assert_eq!(asked, format!("Enter PIN for ED25519-SK key {}: \n", token.lab.arg(&file)));
            }
        }
        token.answer("4321");
        let refused = token.login(&our("lhssh"), ours.port, &file, &[]);
        assert_eq!((refused.code, token.asked().lines().count()), (255, 1), "{}", refused.err);
        let refused = try_to_make(&token, &our("lhssh-keygen"), "ed25519-sk", &["verify-required"]);
        assert!(refused.err.contains("PIN incorrect\n"), "{}", refused.err);
        token.asked();
        assert_eq!(refused.code, 255);
        // The third wrong PIN blocks the device until it is plugged in again.
        let refused = try_to_make(&token, &our("lhssh-keygen"), "ed25519-sk", &["verify-required"]);
        assert!(refused.err.contains("unplug the security key and plug it in again"), "{}", refused.err);
        token.asked();
        devices[0].state.lock().unwrap().plug_in_again();
    }
}

/// Covers: ssh-keygen -K; ssh-add -K
#[test]
fn resident_fido_keys_are_read_from_devices() {
    let test = "resident_fido_keys_are_read_from_devices";
    let Some([ssh, keygen]) = peers(test, ["ssh", "ssh-keygen"]) else { return };
    let Some((token, _devices)) = plug_in(test, &[Some("1234")]) else { return };
    token.answer("1234");
    // OpenSSH 9.2 fails on a device that reports an empty list as an error.
    let none = token.run(&our("lhssh-keygen"), &["-K", "-N", ""]).ok("nothing there");
    assert_eq!(none.err, "No keys to download\n");
    token.make(&our("lhssh-keygen"), "ed25519-sk", "one", &["resident"]);
    token.make(&keygen, "ecdsa-sk", "two", &["resident", "user=me", "application=ssh:work"]);
    token.make(&our("lhssh-keygen"), "ecdsa-sk", "three", &["resident", "verify-required", "user=pin"]);
    let mut found = Vec::new();
    for (maker, keygen) in keygens(&keygen) {
        std::fs::create_dir(token.lab.path(maker)).unwrap();
        let line = format!("cd {maker} && exec {} -q -K -N ''", keygen.display());
        token.run(Path::new("sh"), &["-c", &line]).ok("-K");
        let names = ["id_ed25519_sk_rk", "id_ecdsa_sk_rk_work_me", "id_ecdsa_sk_rk_pin"];
        found.push(names.map(|name| token.lab.read(&format!("{maker}/{name}.pub"))));
    }
    assert_eq!(found[0], found[1]);
    let blob = |line: &str| line.split(' ').nth(1).map(str::to_owned);
    for (name, public) in ["one", "two", "three"].into_iter().zip(&found[0]) {
        assert_eq!(blob(public), blob(&token.lab.read(&format!("{name}.pub"))), "{name}");
    }
    // Downloaded keys log in; the requirement of a PIN is kept.
    let server = Lhsshd::start(&token.lab, "");
    token.lab.write("authorized_keys", &found[0].concat());
    token.asked();
    for client in [&our("lhssh"), &ssh] {
        for (name, prompts) in [("id_ed25519_sk_rk", 0), ("id_ecdsa_sk_rk_pin", 1)] {
            assert_in(&token.login(client, server.port, &format!("ours/{name}"), &[]), name);
            assert_eq!(token.asked().lines().count(), prompts, "{name}");
        }
    }
    let agent = Agent::ours(&token.lab, "agent", &[]);
    let socket = format!("SSH_AUTH_SOCK={}", agent.socket.display());
    let said = token.run_env(&[&socket], &our("lhssh-add"), &["-K"]).ok("-K");
    assert_eq!(said.err.matches("Resident identity added: ").count(), 3, "{}", said.err);
    // A second key with the names of another is made only if the user agrees to lose the first.
    for (_, keygen) in keygens(&keygen) {
        let refused = token.run(&keygen, &["-t", "ed25519-sk", "-O", "resident", "-N", "", "-f", "never"]);
        assert_eq!(refused.code, 255);
        // The name of the empty user id differs: OpenSSH 9.2 says 'null'.
        let (said, exists) = (refused.text(), "A resident key scoped to 'ssh:' with ");
        assert!(said.contains(exists) && said.contains(" already exists.\n"), "{said} {}", refused.err);
    }
}

/// Covers: ssh-keygen -O
#[test]
fn fido_device_is_named_or_touched() {
    let test = "fido_device_is_named_or_touched";
    let Some((token, devices)) = plug_in(test, &[None, None]) else { return };
    let keygen = our("lhssh-keygen");
    let server = Lhsshd::start(&token.lab, "");
    let touch = |touched: [bool; 2]| {
        for (device, touched) in devices.iter().zip(touched) {
            device.state.lock().unwrap().touched = touched;
        }
    };
    touch([false, true]);
    let said = token.make(&keygen, "ed25519-sk", "touched", &[]);
    assert!(
        said.err.contains("several security keys are plugged in: touch the one to use\n"),
        "{}",
        said.err
    );
    touch([true, false]);
    let device = format!("device={}", devices[0].path.display());
    let said = token.make(&keygen, "ed25519-sk", "named", &[&device]);
    assert!(!said.err.contains("several"), "{}", said.err);
    // A login finds the device that has the key.
    touch([true, true]);
    for file in ["touched", "named"] {
        token.lab.write("authorized_keys", &token.lab.read(&format!("{file}.pub")));
        let login = token.login(&our("lhssh"), server.port, file, &["BatchMode=yes"]);
        assert_in(&login, file);
        assert!(!login.err.contains("several"), "{}", login.err);
    }
    touch([true, false]);
    token.lab.write("authorized_keys", &token.lab.read("touched.pub"));
    let refused = token.login(&our("lhssh"), server.port, "touched", &["BatchMode=yes"]);
    assert_eq!(refused.code, 255);
    assert!(refused.err.contains("the security key was not touched in time"), "{}", refused.err);
}

/// Covers: ssh-keygen -w
#[test]
fn fido_failures_say_what_to_do() {
    let test = "fido_failures_say_what_to_do";
    let Some((mut token, devices)) = plug_in(test, &[None]) else { return };
    let keygen = our("lhssh-keygen");
    let expect = |token: &Token, options: &[&str], said: [&str; 2]| {
        let refused = try_to_make(token, &keygen, "ed25519-sk", options);
        assert_eq!(refused.code, 255, "{}", refused.err);
        assert!(said.iter().all(|said| refused.err.contains(said)), "{}", refused.err);
    };
    expect(
        &token,
        &["verify-required"],
        ["has no PIN: set one first", "Key enrollment failed: requested feature not supported\n"],
    );
    expect(
        &token,
        &["device=/nonexistent"],
        ["/nonexistent: No such file or directory", "Key enrollment failed: device not found\n"],
    );
    let long = format!("user={}", "u".repeat(32));
    expect(
        &token,
        &["resident", &long],
        ["longer than 31 bytes", "Key enrollment failed: invalid argument\n"],
    );
    devices[0].state.lock().unwrap().ed25519 = false;
    expect(
        &token,
        &[],
        ["does not support this key type", "Key enrollment failed: requested feature not supported\n"],
    );
    devices[0].state.lock().unwrap().touched = false;
    let refused = try_to_make(&token, &keygen, "ecdsa-sk", &[]);
    assert!(refused.err.contains("not touched in time"), "{}", refused.err);
    // No device.
    token.more[1] = "LH_FIDO_DEVICES=".to_owned();
    expect(&token, &[], ["Key enrollment failed: device not found\n", ""]);
    let refused = token.run(&keygen, &["-K", "-N", ""]);
    assert!(refused.err.ends_with("Unable to load resident keys: device not found\n"), "{}", refused.err);
    // No library.
    token.more.push("LH_FIDO_ABSENT=1".to_owned());
    expect(
        &token,
        &[],
        ["internal security key support not enabled: libfido2", "Key enrollment failed: invalid format\n"],
    );
    let refused = try_to_make(&token, &keygen, "ed25519-sk", &[]);
    assert!(refused.err.contains("install libfido2"), "{}", refused.err);
}
