use super::testing::{key, policy};
use super::*;
use crate::testing::FakeUi;
use crate::ui::LogLevel;

#[test]
fn stored_key_is_known_the_next_time() {
    for hash in [false, true] {
        let directory = tempfile::tempdir().expect("directory");
        let policy = policy(directory.path(), hash);
        let mut ui = FakeUi::default();
        let mut log = Log::new(&mut ui, LogLevel::Info, false);
        let before = KnownFiles::read(&policy, &mut log).expect("read");
        assert_eq!(before.look_up(&policy, &key(1)), Verdict::New { other_names: vec![] });
        remember(&policy, &key(1), &mut log);
        let after = KnownFiles::read(&policy, &mut log).expect("read");
        assert!(matches!(after.look_up(&policy, &key(1)), Verdict::Known(place) if place.line == 1));
        assert!(matches!(after.look_up(&policy, &key(2)), Verdict::Changed(_)));
        assert_eq!(after.types(&policy), ["ssh-ed25519"]);
        assert_eq!(
            ui.messages,
            ["Warning: Permanently added '[h.example]:2222' (ED25519) to the list of known hosts."]
        );
    }
}

#[test]
fn a_host_known_without_its_port_is_known() {
    let directory = tempfile::tempdir().expect("directory");
    let policy = policy(directory.path(), false);
    let mut ui = FakeUi::default();
    let mut log = Log::new(&mut ui, LogLevel::Info, false);
    std::fs::write(directory.path().join("global"), format!("h.example {}\n", key(1).to_openssh_line("")))
        .expect("global file");
    let known = KnownFiles::read(&policy, &mut log).expect("read");
    assert!(matches!(known.look_up(&policy, &key(1)), Verdict::Known(_)));
    // Another key of the host without its port does not count as a changed key on this port.
    assert!(matches!(known.look_up(&policy, &key(2)), Verdict::New { .. }));
}

#[test]
fn a_key_revoked_in_one_file_is_revoked() {
    let directory = tempfile::tempdir().expect("directory");
    let policy = policy(directory.path(), false);
    let mut ui = FakeUi::default();
    let mut log = Log::new(&mut ui, LogLevel::Info, false);
    remember(&policy, &key(1), &mut log);
    let line = format!("@revoked * {}", key(1).to_openssh_line(""));
    std::fs::write(directory.path().join("global"), line).expect("global file");
    let known = KnownFiles::read(&policy, &mut log).expect("read");
    assert!(matches!(known.look_up(&policy, &key(1)), Verdict::Revoked(_)));
}

#[test]
fn a_broken_line_of_known_hosts_revokes_for_its_hosts() {
    let line = key(1).to_openssh_line("");
    let (start, end) = line.split_at(line.len() / 2);
    for (text, is_refused) in [
        (format!("@revoked h.example {start}\n{end}\n"), true),
        (format!("@revoked [h.example]:2222 {start}\n"), true),
        (format!("@revoked other.example {start}\n{end}\n"), false),
        (format!("# list\r@revoked other.example {line}\r"), true),
        (format!("h.example {start}\n"), false),
        (format!("@revoked x.example, h.example {line}\n"), true),
    ] {
        let directory = tempfile::tempdir().expect("directory");
        let policy = policy(directory.path(), false);
        let file = directory.path().join("global");
        std::fs::write(&file, format!("# first\n{text}")).expect("file");
        let mut ui = FakeUi::default();
        let mut log = Log::new(&mut ui, LogLevel::Debug1, false);
        let known = KnownFiles::read(&policy, &mut log).expect("read");
        let result = known.check_lines(&policy, &mut log);
        assert_eq!(result.is_err(), is_refused, "{text:?}");
        let named = format!("{}:2: parse error in hostkeys file", file.display());
        let is_named = ui.messages.iter().any(|message| message.contains(&named));
        assert_eq!(is_named, !text.starts_with("@revoked other"), "{text:?}: {:?}", ui.messages);
    }
}

#[test]
fn an_unknown_marker_is_about_the_hosts_of_its_pattern() {
    let line = key(1).to_openssh_line("");
    let directory = tempfile::tempdir().expect("directory");
    let policy = policy(directory.path(), false);
    let file = directory.path().join("global");
    let fault = "invalid marker in hostkeys file, which may mean @revoked, in a line for [h.example]:2222";
    for (text, is_refused) in [
        (format!("@Revoked other.example,*.lab {line}\n"), false),
        (format!("@Revoked * {line}\n"), true),
        (format!("@revoke [h.example]:2222 {line}\n"), true),
        (format!("@Revoked *.example {line}\n"), true),
        (format!("@revoked\u{a0}other.example {line}\n"), true),
    ] {
        let mut ui = FakeUi::default();
        let mut log = Log::new(&mut ui, LogLevel::Info, false);
        std::fs::write(&file, format!("# first\n{text}")).expect("file");
        let known = KnownFiles::read(&policy, &mut log).expect("read");
        assert_eq!(known.check_lines(&policy, &mut log).is_err(), is_refused, "{text}");
        let told = is_refused.then(|| format!("{}:2: {fault}", file.display()));
        assert_eq!(ui.messages, Vec::from_iter(told));
    }
}

#[test]
fn a_file_that_fails_may_revoke_any_key() {
    let directory = tempfile::tempdir().expect("directory");
    let mut policy = policy(directory.path(), false);
    let mut ui = FakeUi::default();
    let mut log = Log::new(&mut ui, LogLevel::Info, false);
    remember(&policy, &key(1), &mut log);
    let mut is_refused = |global: &str| {
        policy.global_files = vec![global.into()];
        let mut ui = FakeUi::default();
        let mut log = Log::new(&mut ui, LogLevel::Info, false);
        let mut known = KnownFiles::read(&policy, &mut log).expect("read");
        let is_refused = known.check_files(&policy, &mut log).is_err();
        assert!(
            is_refused
                || known.judge(&policy, &key(1), &mut log).is_ok_and(|is| matches!(is, Verdict::Known(_)))
        );
        (is_refused, ui.messages)
    };
    let directory_file = directory.path().join("ssh/known_hosts/x");
    for absent in
        ["/no/such/file", "/", &directory_file.display().to_string(), &format!("/{}", "x".repeat(300))]
    {
        assert_eq!(is_refused(absent), (false, vec![]), "{absent}");
    }
    // The first page of a process cannot be read.
    let why = "Cannot read hostkeys file /proc/self/mem: Input/output error. \
               It may revoke the key of [h.example]:2222.";
    assert_eq!(is_refused("/proc/self/mem"), (true, vec![why.to_owned()]));
    let large = directory.path().join("large");
    std::fs::File::create(&large).and_then(|file| file.set_len((64 << 20) + 1)).expect("file");
    assert!(is_refused(&large.display().to_string()).0);
}

#[test]
fn a_forbidden_file_is_no_obstacle_and_is_told() {
    let directory = tempfile::tempdir().expect("directory");
    let mut policy = policy(directory.path(), false);
    let mut ui = FakeUi::default();
    let mut log = Log::new(&mut ui, LogLevel::Info, false);
    remember(&policy, &key(1), &mut log);
    let global = policy.global_files[0].clone();
    let read = |path: &Path| match path == global {
        true => Err(io::Error::from_raw_os_error(Errno::ACCESS.raw_os_error())),
        false => KnownHosts::read(path),
    };
    let warning = format!(
        "Cannot read hostkeys file {}: Permission denied. Keys that it revokes are accepted.",
        global.display()
    );
    let question = format!(
        "hostkeys_find_by_key_hostfile: hostkeys_foreach failed for {}: Permission denied",
        global.display()
    );
    for (strict, known_key, told) in [
        (Strict::Ask, 1, &warning),
        (Strict::Yes, 1, &warning),
        (Strict::AcceptNew, 1, &warning),
        // OpenSSH has a line of its own before the question.
        (Strict::Ask, 2, &question),
    ] {
        policy.strict = strict;
        policy.name = if known_key == 1 { "[h.example]:2222" } else { "new.example" }.to_owned();
        policy.portless = None;
        let mut ui = FakeUi::default();
        let mut log = Log::new(&mut ui, LogLevel::Error, false);
        let mut known = KnownFiles::read_by(read, &policy, &mut log);
        known.check_files(&policy, &mut log).expect("no obstacle");
        let verdict = known.judge(&policy, &key(known_key), &mut log).expect("judged");
        assert_eq!(matches!(verdict, Verdict::Known(_)), known_key == 1, "{verdict:?}");
        assert_eq!(ui.messages, [told.as_str()]);
    }
}

#[test]
fn check_host_ip_looks_up_and_stores_the_address() {
    let directory = tempfile::tempdir().expect("directory");
    let mut policy = policy(directory.path(), false);
    policy.address = Some("192.0.2.1".to_owned());
    let mut ui = FakeUi::default();
    let mut log = Log::new(&mut ui, LogLevel::Info, false);
    let mut known = KnownFiles::read(&policy, &mut log).expect("read");
    assert_eq!(known.judge_address(&policy, &key(1), &mut log).expect("judged"), None);
    policy.checks.ip = true;
    let verdict = known.judge_address(&policy, &key(1), &mut log).expect("judged");
    assert!(matches!(verdict, Some(Verdict::New { .. })));
    remember(&policy, &key(1), &mut log);
    let text = std::fs::read_to_string(&policy.user_files[0]).expect("readable");
    assert!(text.starts_with("[h.example]:2222,192.0.2.1 ssh-ed25519 "), "{text}");
    let mut known = KnownFiles::read(&policy, &mut log).expect("read");
    let verdict = known.judge_address(&policy, &key(1), &mut log).expect("judged");
    assert!(matches!(verdict, Some(Verdict::Known(_))));
}

#[test]
fn key_under_another_name_is_reported() {
    let directory = tempfile::tempdir().expect("directory");
    let mut policy = policy(directory.path(), false);
    let mut ui = FakeUi::default();
    let mut log = Log::new(&mut ui, LogLevel::Info, false);
    remember(&policy, &key(1), &mut log);
    policy.name = "elsewhere".to_owned();
    let known = KnownFiles::read(&policy, &mut log).expect("read");
    let Verdict::New { other_names } = known.look_up(&policy, &key(1)) else {
        panic!("the host is not known")
    };
    assert_eq!(other_names[0].hosts, "[h.example]:2222");
}
