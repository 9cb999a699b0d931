use std::path::Path;

use lh_crypto::FingerprintHash;

use super::policy::known_name;
use super::warnings::spoofing;
use super::*;
use crate::testing::{FakeUi, key};
use crate::ui::LogLevel;

fn place() -> Place {
    Place {
        file: "/home/u/.ssh/known_hosts".into(),
        line: 3,
        key_type: "ssh-ed25519".to_owned(),
        hosts: "other.example".to_owned(),
    }
}

fn policy(strict: Strict) -> Policy {
    let directory = Path::new("/home/u/.ssh");
    Policy {
        strict,
        address: Some("[192.0.2.1]:2222".to_owned()),
        user_files: vec![directory.join("known_hosts")],
        ssh_directory: directory.to_owned(),
        global_files: vec![],
        revoked_files: vec![],
        ..crate::known::testing::policy(directory, false)
    }
}

fn new_host() -> Verdict {
    Verdict::New { other_names: vec![] }
}

fn run(verdict: &Verdict, strict: Strict, answers: &[&str]) -> (Result<Accepted, String>, FakeUi) {
    let mut ui = FakeUi::answering(answers);
    let result = decide(verdict, &key(), &policy(strict), &mut Log::new(&mut ui, LogLevel::Info, false));
    (result.map_err(|error| error.to_string()), ui)
}

#[test]
fn first_use_asks_in_the_words_scripts_expect() {
    let (result, ui) = run(&new_host(), Strict::Ask, &["yes"]);
    assert_eq!(result, Ok(Accepted { add: true, untrusted: false }));
    let fingerprint = key().fingerprint(FingerprintHash::Sha256);
    assert_eq!(
        ui.asked,
        [format!(
            "The authenticity of host '[h.example]:2222 ([192.0.2.1]:2222)' can't be established.\n\
             ED25519 key fingerprint is {fingerprint}.\n\
             This key is not known by any other names.\n\
             Are you sure you want to continue connecting (yes/no/[fingerprint])? "
        )]
    );
}

#[test]
fn only_yes_or_the_fingerprint_accepts_an_unknown_key() {
    let fingerprint = key().fingerprint(FingerprintHash::Sha256);
    assert!(run(&new_host(), Strict::Ask, &[&fingerprint]).0.is_ok());
    assert!(run(&new_host(), Strict::Ask, &["y", "sure", "YES"]).0.is_ok());
    for answers in [&["no"][..], &[""], &[], &["SHA256:wrong", "no"]] {
        assert_eq!(run(&new_host(), Strict::Ask, answers).0, Err(FAILED.to_owned()));
    }
}

#[test]
fn unknown_keys_are_refused_where_no_file_is_theirs() {
    for strict in [Strict::Yes, Strict::Ask, Strict::AcceptNew, Strict::Off] {
        let mut ui = FakeUi::answering(&["yes"]);
        let policy = Policy { user_files: vec![], ..policy(strict) };
        let result = decide(&new_host(), &key(), &policy, &mut Log::new(&mut ui, LogLevel::Info, false));
        assert_eq!(result.map_err(|error| error.to_string()), Err(FAILED.to_owned()), "{strict:?}");
        assert!(ui.asked.is_empty() && ui.messages.is_empty(), "{strict:?}");
    }
}

#[test]
fn strict_checking_decides_about_unknown_keys() {
    let (result, ui) = run(&new_host(), Strict::Yes, &["yes"]);
    assert_eq!(result, Err(FAILED.to_owned()));
    assert!(ui.asked.is_empty());
    assert_eq!(
        ui.messages,
        ["No ED25519 host key is known for [h.example]:2222 and you have requested strict checking."]
    );
    for strict in [Strict::AcceptNew, Strict::Off] {
        let (result, ui) = run(&new_host(), strict, &[]);
        assert_eq!(result, Ok(Accepted { add: true, untrusted: false }));
        assert!(ui.messages.is_empty());
    }
}

#[test]
fn a_changed_key_is_refused_unless_checking_is_off() {
    for strict in [Strict::Yes, Strict::Ask, Strict::AcceptNew] {
        let (result, ui) = run(&Verdict::Changed(place()), strict, &["yes"]);
        assert_eq!(result, Err(FAILED.to_owned()));
        let said = ui.messages.join("\n");
        assert!(said.contains("WARNING: REMOTE HOST IDENTIFICATION HAS CHANGED!"));
        assert!(said.contains("Offending ED25519 key in /home/u/.ssh/known_hosts:3"));
        assert!(
            said.ends_with(
                "Host key for [h.example]:2222 has changed and you have requested strict checking."
            )
        );
    }
    let (result, _) = run(&Verdict::Changed(place()), Strict::Off, &[]);
    assert_eq!(result, Ok(Accepted { add: false, untrusted: true }));
}

#[test]
fn a_revoked_key_is_refused() {
    for strict in [Strict::AcceptNew, Strict::Off] {
        let (result, ui) = run(&Verdict::Revoked(place()), strict, &["yes"]);
        assert_eq!(result, Err(FAILED.to_owned()));
        assert!(ui.messages[0].contains("REVOKED HOST KEY"));
    }
}

/// Covers: ssh_config CheckHostIP
#[test]
fn address_with_another_key_asks_or_refuses() {
    let at_address = |verdict: &Verdict, strict, answers: &[&str]| {
        let mut ui = FakeUi::answering(answers);
        let mut log = Log::new(&mut ui, LogLevel::Info, false);
        let result = decide_address(&place(), verdict, &key(), &policy(strict), &mut log);
        (result.map_err(|error| error.to_string()), ui)
    };
    assert_eq!(at_address(&Verdict::Known(place()), Strict::Yes, &[]).0, Ok(false));
    assert_eq!(at_address(&new_host(), Strict::Yes, &[]).0, Ok(true));
    let changed = Verdict::Changed(place());
    let (result, ui) = at_address(&changed, Strict::Ask, &["yes"]);
    assert_eq!(result, Ok(false));
    assert!(ui.asked[0].starts_with(
        "Warning: the ED25519 host key for '[h.example]:2222' differs from the key for the IP address '[192.0.2.1]:2222'\n"
    ));
    assert!(at_address(&changed, Strict::Ask, &["no"]).0.is_err());
    assert!(at_address(&changed, Strict::Yes, &[]).0.is_err());
    assert_eq!(at_address(&changed, Strict::Off, &[]).0, Ok(false));
    assert!(at_address(&Verdict::Revoked(place()), Strict::Off, &[]).0.is_err());
    let said = spoofing(&key(), &new_host(), &policy(Strict::Ask)).expect("a warning");
    assert!(said.contains("POSSIBLE DNS SPOOFING DETECTED") && said.contains("is unknown. This"), "{said}");
    assert_eq!(spoofing(&key(), &changed, &policy(Strict::Ask)), None);
}

#[test]
fn other_names_of_a_key_are_shown() {
    let verdict = Verdict::New { other_names: vec![place()] };
    let (_, ui) = run(&verdict, Strict::Ask, &["no"]);
    assert!(ui.asked[0].contains("\n    /home/u/.ssh/known_hosts:3: other.example\n"));
}

#[test]
fn port_is_part_of_the_name_unless_it_is_22() {
    assert_eq!(known_name("h", 22), "h");
    assert_eq!(known_name("h", 2200), "[h]:2200");
}
