//! Delays of a fifth of a second, and signatures by an agent.

use super::super::diagnose::diagnose;
use super::super::facts::{Facts, Logins, Sftp, Shell};
use super::{first, good};
use crate::stage::Stage;

/// Logins over 50 ms whose stages take this much longer than their round trips.
fn logins(all: &[&[(Stage, f64)]]) -> Facts {
    let login = |late: &&[(Stage, f64)]| {
        let stages = [Stage::Greeting, Stage::KeyExchange, Stage::Approval, Stage::Session, Stage::Command];
        let took = |stage: Stage| {
            let late = late.iter().find(|(each, _)| *each == stage).map_or(0.01, |(_, seconds)| *seconds);
            (stage, stage.round_trips() * 0.05 + late)
        };
        stages.map(took).to_vec()
    };
    let timed = all.iter().map(login).collect();
    Facts { logins: Logins { timed, ..Logins::default() }, ..good() }
}

fn is_named(facts: &Facts, cause: &str) -> bool {
    diagnose(facts).iter().any(|found| found.cause == cause)
}

#[test]
fn short_delay_of_each_login_is_named() {
    let late = |seconds: f64| [(Stage::Approval, seconds)];
    let [a, b, c, d] = [0.25, 0.27, 0.3, 0.24].map(late);
    let facts = logins(&[&a, &b, &c, &d]);
    let (cause, title) = first(&facts);
    assert!(cause == "login_approval" && title.ends_with(": 240 ms."), "{title}");
    // Three logins are too few; one that was quick is enough.
    assert!(!is_named(&logins(&[&a, &b, &c]), "login_approval"));
    assert!(!is_named(&logins(&[&a, &b, &c, &late(0.05)]), "login_approval"));
}

#[test]
fn packets_that_wait_for_an_acknowledgement_are_no_delay() {
    // Over 150 ms, as OpenSSH's server was seen to answer.
    let mut facts = good();
    (facts.path.pings, facts.throughput.up.flow.as_mut().unwrap().tcp.least_rtt) = (vec![0.15], Some(0.15));
    facts.throughput.down.flow = None;
    let login = vec![(Stage::KeyExchange, 0.46), (Stage::Approval, 0.345), (Stage::Session, 0.35)];
    facts.logins.timed = vec![login; 4];
    facts.shell = None;
    assert_eq!(first(&facts).0, "path");
}

#[test]
fn busy_machine_is_no_short_delay() {
    // It delays all stages of the server.
    let stages = [Stage::Greeting, Stage::KeyExchange, Stage::Approval, Stage::Session, Stage::Command];
    let busy = stages.map(|stage| (stage, 0.2));
    let facts = logins(&[&busy, &busy, &busy, &busy]);
    let found = diagnose(&facts);
    assert_eq!(found[0].cause, "path", "{found:?}");
}

#[test]
fn short_line_of_a_start_up_file_is_named() {
    let shell = |took: [f64; 4], slowest: Option<f64>| {
        let slowest = slowest.map(|took| ("sleep 0.2".to_owned(), Some(".bashrc line 3".to_owned()), took));
        Facts {
            shell: Some(Shell {
                interactive: took.to_vec(),
                command: vec![0.06; 4],
                slowest,
                slowest_file: None,
            }),
            ..good()
        }
    };
    let (cause, title) = first(&shell([0.33, 0.34, 0.36, 0.35], Some(0.2)));
    assert!(cause == "shell_startup" && title.contains("take 230 ms: \"sleep 0.2\""), "{title}");
    // No line takes most of it, or some starts were quick.
    assert_eq!(first(&shell([0.33, 0.34, 0.36, 0.35], Some(0.05))).0, "path");
    assert_eq!(first(&shell([0.33, 0.34, 0.36, 0.15], Some(0.2))).0, "path");
}

#[test]
fn short_delay_of_each_command_is_named() {
    let starts = |command: [f64; 4], interactive: f64| Facts {
        shell: Some(Shell {
            interactive: vec![interactive; 4],
            command: command.to_vec(),
            slowest: None,
            slowest_file: None,
        }),
        ..good()
    };
    assert_eq!(first(&starts([0.3, 0.31, 0.32, 0.3], 0.36)).0, "command_start");
    assert_eq!(first(&starts([0.06, 0.31, 0.32, 0.3], 0.36)).0, "path");
    let starts =
        |starts: &[f64]| Facts { sftp: Sftp { starts: starts.to_vec(), ..Sftp::default() }, ..good() };
    let (cause, title) = first(&starts(&[0.35, 0.36, 0.36, 0.34]));
    assert!(cause == "sftp_start" && title.contains("240 ms"), "{title}");
    assert_eq!(first(&starts(&[0.35, 0.36])).0, "path");
}

#[test]
fn large_key_of_a_file_is_no_fault_of_the_server() {
    let late = [(Stage::Approval, 1.15)];
    let mut facts = logins(&[&late, &late, &late]);
    facts.logins.key_work = Some(1.0);
    let (cause, title) = first(&facts);
    assert!(cause == "key_file" && title.contains("needs 1.0 s for the user's key"), "{title}");
    assert!(!is_named(&facts, "login_approval"));
    // What a small key needs has no part in it.
    facts.logins.key_work = Some(0.004);
    assert_eq!(first(&facts).0, "login_approval");
    // Nor has a key in a server that greets late.
    let late = [(Stage::Greeting, 1.15)];
    let mut facts = logins(&[&late, &late, &late]);
    facts.logins.key_work = Some(1.0);
    assert_eq!(first(&facts).0, "greeting");
}

#[test]
fn agent_that_signs_late_is_no_fault_of_the_server() {
    let late = [(Stage::Approval, 1.55)];
    let mut facts = logins(&[&late, &late, &late]);
    facts.logins.agent_signing = Some(1.5);
    let (cause, title) = first(&facts);
    assert_eq!(
        (cause, title.as_str()),
        ("agent", "This machine's authentication agent is slow to sign: 1.5 s.")
    );
    assert!(!is_named(&facts, "login_approval"));
    // The server needs as long.
    let late = [(Stage::Approval, 3.05)];
    facts.logins.timed = logins(&[&late, &late, &late]).logins.timed;
    let causes: Vec<_> = diagnose(&facts).iter().map(|found| found.cause).collect();
    assert!(
        causes.starts_with(&["agent", "login_approval"]) || causes.starts_with(&["login_approval", "agent"]),
        "{causes:?}"
    );
    // A quick agent has no part in it.
    facts.logins.agent_signing = Some(0.002);
    assert!(!is_named(&facts, "agent") && is_named(&facts, "login_approval"));
}
