use super::*;
use crate::hostkey::Strict;
use crate::testing::FakeUi;
use lh_crypto::{KeyType, PrivateKey};

fn private() -> PrivateKey {
    PrivateKey::generate(KeyType::Ed25519, None).expect("a key")
}

fn policy(directory: &std::path::Path) -> Policy {
    Policy {
        strict: Strict::Ask,
        name: "[h]:2222".to_owned(),
        portless: None,
        principal: "h".to_owned(),
        ca_algorithms: vec![],
        address: Some("[192.0.2.1]:2222".to_owned()),
        user_files: vec![directory.join("known")],
        ssh_directory: directory.to_path_buf(),
        global_files: vec![],
        revoked_files: vec![],
        ..crate::known::testing::policy(directory, false)
    }
}

fn line(hosts: &str, key: &PublicKey) -> String {
    format!("{hosts} {}\n", key.to_openssh_line("").trim_end())
}

#[test]
fn new_keys_are_added_and_old_ones_removed() {
    let directory = tempfile::tempdir().expect("a directory");
    let policy = policy(directory.path());
    let (current, old, fresh) = (private(), private(), private());
    let (current, old, fresh) = (current.public(), old.public(), fresh.public());
    let text = format!(
        "# mine\n{}{}{}",
        line("[h]:2222", current),
        line("other", private().public()),
        line("[h]:2222", old)
    );
    std::fs::write(&policy.user_files[0], &text).expect("written");
    let plan = survey(&policy, &[current.clone(), fresh.clone()]).expect("something to do");
    assert_eq!((&plan.new[..], &plan.old[..]), (&[fresh.clone()][..], &[old.clone()][..]));
    write(&policy, &plan).expect("written");
    let after = std::fs::read_to_string(&policy.user_files[0]).expect("readable");
    let expected = text.replace(&line("[h]:2222", old), "") + &line("[h]:2222", fresh);
    assert_eq!(after, expected);
    assert!(survey(&policy, &[current.clone(), fresh.clone()]).is_err_and(|why| why == NoChange::NothingNew));
}

#[test]
fn hand_arranged_files_and_unknown_servers_change_nothing() {
    let directory = tempfile::tempdir().expect("a directory");
    let policy = policy(directory.path());
    let (current, fresh) = (private(), private());
    let (current, fresh) = (current.public(), fresh.public());
    let keys = [current.clone(), fresh.clone()];
    let why = |text: String| {
        std::fs::write(&policy.user_files[0], text).expect("written");
        survey(&policy, &keys).err()
    };
    assert_eq!(why(line("[h]:2222", current)), None);
    for hosts in ["[h]:*", "[h]:2222,alias", "@revoked [h]:2222", "@cert-authority *"] {
        let why = why(line("[h]:2222", current) + &line(hosts, fresh));
        assert_eq!(why, Some(NoChange::ByHand), "{hosts}");
    }
    let elsewhere = line("[h]:2222", current) + &line("other", fresh);
    assert_eq!(why(elsewhere), Some(NoChange::OtherName));
    assert_eq!(why(line("[h]:2222", private().public())), Some(NoChange::NoneKnown));
    assert!(survey(&policy, &[]).is_err_and(|why| why == NoChange::NoKeys));
}

#[test]
fn only_signatures_of_this_session_and_key_are_proof() {
    let (one, two) = (private(), private());
    let sign = |key: &PrivateKey, session: &[u8]| {
        let mut signed = Vec::new();
        for part in [PROVE.as_bytes(), session, key.public().blob()] {
            signed.put_string(part);
        }
        key.sign("ssh-ed25519", &signed).expect("signs")
    };
    let answer = |signatures: &[Vec<u8>]| {
        let mut out = Vec::new();
        signatures.iter().for_each(|signature| out.put_string(signature));
        out
    };
    let keys = [one.public().clone(), two.public().clone()];
    let mut ui = FakeUi::default();
    let mut log = Log::new(&mut ui, LogLevel::Quiet, false);
    let mut good = |fields: &[u8]| proven(&keys, fields, b"session", &mut log);
    let (first, second) = (sign(&one, b"session"), sign(&two, b"session"));
    assert!(good(&answer(&[first.clone(), second.clone()])));
    assert!(!good(&answer(&[second.clone(), first.clone()])), "in the wrong order");
    assert!(!good(&answer(std::slice::from_ref(&first))), "one is missing");
    assert!(!good(&answer(&[first.clone(), second.clone(), second])), "one too many");
    assert!(!good(&answer(&[first, sign(&two, b"another")])), "of another session");
    assert!(!good(b"\0\0"));
}

#[test]
fn user_may_refuse_the_update() {
    let directory = tempfile::tempdir().expect("a directory");
    let policy = policy(directory.path());
    let (current, fresh) = (private(), private());
    let text = line("[h]:2222", current.public());
    for (answers, changes) in
        [(&["what", "yes"][..], true), (&["no"], false), (&["a", "b", "c"], false), (&[], false)]
    {
        std::fs::write(&policy.user_files[0], &text).expect("written");
        let update = HostKeyUpdate::new(policy.clone(), true, vec![]);
        let plan = Plan { new: vec![fresh.public().clone()], old: vec![] };
        let mut ui = FakeUi::default();
        let mut answers = answers.iter().map(|answer| (*answer).to_owned());
        update.change(&plan, &mut Log::new(&mut ui, LogLevel::Info, false), &mut |_| answers.next());
        let after = std::fs::read_to_string(&policy.user_files[0]).expect("readable");
        assert_eq!(after != text, changes);
        assert_eq!(ui.messages[0], "The server has updated its host keys.");
        assert!(ui.messages[2].starts_with("Learned new hostkey: ED25519 SHA256:"), "{:?}", ui.messages);
    }
}
