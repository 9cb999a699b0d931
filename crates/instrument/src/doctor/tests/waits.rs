//! Causes that a person waits for, and those of ways that end before the server.

use super::super::diagnose::diagnose;
use super::super::facts::{Facts, Home, Idle, IdleEnd, JumpHost, Master, SharedRate, Shell};
use super::{first, good, sender, up};
use crate::connects::TurnedAway;
use crate::flow::{Direction, Flow};
use crate::probe::Reached;
use crate::shell::System;
use crate::stage::Stage;

#[test]
fn slow_stages_need_two_logins() {
    for (stage, cause) in [
        (Stage::Resolve, "resolve"),
        (Stage::HostKey, "host_key"),
        (Stage::Greeting, "greeting"),
        (Stage::User, "user_lookup"),
        (Stage::Agent, "agent"),
        (Stage::Kerberos, "kerberos"),
        (Stage::Credential, "login_approval"),
        (Stage::Approval, "login_approval"),
        (Stage::Session, "session_opening"),
    ] {
        let mut facts = good();
        for login in &mut facts.logins.timed {
            login.retain(|(each, _)| *each != stage);
            login.push((stage, 2.05));
        }
        let (found, title) = first(&facts);
        assert!(found == cause && (title.contains("2.0 s") || title.contains("1.9 s")), "{cause}: {title}");
        facts.logins.timed.truncate(1);
        assert_ne!(first(&facts).0, cause);
    }
}

#[test]
fn first_packet_that_passes_by_chance_hides_no_loss() {
    let mut facts = good();
    let login = |connect| vec![(Stage::Connect, connect), (Stage::KeyExchange, 0.2)];
    facts.logins.timed = vec![login(1.05), login(1.06), login(0.05)];
    let address = "192.0.2.1:22".parse().unwrap();
    let reached = |connect| Some(Reached { address, connect, refused: 0, tried: Vec::new() });
    facts.path.reached = reached(1.05);
    let (cause, title) = first(&facts);
    assert!(cause == "connect" && title.contains("1.0 s"), "{title}");
    // Half of them is no habit.
    facts.path.reached = reached(0.05);
    assert_ne!(first(&facts).0, "connect");
    facts.path.reached = reached(1.05);
    facts.logins.timed = vec![login(1.05), login(0.05)];
    assert_ne!(first(&facts).0, "connect");
}

#[test]
fn slow_session_of_pam_is_part_of_the_approval_of_lhsshd() {
    let mut facts = good();
    for login in &mut facts.logins.timed {
        login.retain(|(each, _)| *each != Stage::Approval);
        login.push((Stage::Approval, 2.05));
    }
    assert!(!first(&facts).1.contains("session modules"));
    facts.negotiated.server = "SSH-2.0-Longhaul_0.2.0".to_owned();
    let (cause, title) = first(&facts);
    assert!(
        cause == "login_approval" && title.contains("PAM's auth, account and session modules"),
        "{title}"
    );
}

#[test]
fn slow_reverse_lookup_explains_a_slow_login() {
    let mut facts = good();
    for login in &mut facts.logins.timed {
        login.push((Stage::User, 5.1));
    }
    facts.logins.reverse_lookup = Some(5.0);
    let (cause, title) = first(&facts);
    assert!(cause == "reverse_dns" && title.contains("5.0 s"), "{title}");
    // OpenSSH lengthens its refusal of the method none.
    facts.logins.reverse_lookup = Some(3.0);
    let (cause, title) = first(&facts);
    assert!(cause == "reverse_dns" && title.contains("waits 3.0 s"), "{title}");
    let found = diagnose(&facts).remove(0);
    assert!(found.gain.contains("logins 5.0 s faster"), "{found:?}");
    assert!(found.evidence.last().unwrap().contains("OpenSSH's own delay"), "{found:?}");
}

#[test]
fn slow_line_of_a_start_up_file_is_named() {
    let mut facts = good();
    let slowest = Some(("sleep 3".to_owned(), Some(".bashrc line 7".to_owned()), 3.0));
    facts.shell =
        Some(Shell { interactive: vec![3.2, 3.2], command: vec![0.06], slowest, slowest_file: None });
    let (cause, title) = first(&facts);
    assert!(cause == "shell_startup" && title.contains("\"sleep 3\" in .bashrc line 7"), "{title}");
    facts.shell = Some(Shell {
        interactive: vec![2.2, 2.2],
        command: vec![2.1, 2.1],
        slowest: None,
        slowest_file: None,
    });
    assert_eq!(first(&facts).0, "command_start");
    // Many short lines of a file that the shell reads for commands, too.
    facts.shell.as_mut().unwrap().slowest_file = Some(("/home/u/.bashrc".to_owned(), 1.9));
    let (cause, title) = first(&facts);
    assert!(
        cause == "shell_startup" && title.ends_with("2.1 s: many lines of /home/u/.bashrc together."),
        "{title}"
    );
    assert!(diagnose(&facts)[0].change[0].contains("case $- in *i*)"), "{:?}", diagnose(&facts)[0]);
    // A forced command takes the rest.
    facts.shell.as_mut().unwrap().slowest_file = Some(("/home/u/.bashrc".to_owned(), 0.3));
    assert_eq!(first(&facts).0, "command_start");
}

#[test]
fn late_commands_are_named_without_a_terminal() {
    let mut facts = good();
    let shell = |command: &[f64]| Shell {
        interactive: Vec::new(),
        command: command.to_vec(),
        slowest: None,
        slowest_file: None,
    };
    facts.shell = Some(shell(&[2.2, 2.15, 2.3]));
    let (cause, title) = first(&facts);
    assert!(cause == "command_start" && title.contains("starts 2.1 s late"), "{title}");
    // One of them was quick, or there is only one.
    for command in [&[2.2, 0.1][..], &[2.2]] {
        facts.shell = Some(shell(command));
        assert_ne!(first(&facts).0, "command_start");
    }
}

#[test]
fn slow_home_is_told_from_slow_start_up_files_and_from_pam() {
    let mut facts = good();
    let home = Home {
        directory: "/home/u".to_owned(),
        file_system: Some("nfs, filer:/home".to_owned()),
        files: 3,
        seconds: 1.5,
        elsewhere: 0.002,
        keys_bytes: Some(400.0),
    };
    facts.logins.home = Some(home.clone());
    // The keys are read for the question about the key and for the signature; the shell reads two files.
    for login in &mut facts.logins.timed {
        login.extend([(Stage::Credential, 0.56)]);
    }
    facts.shell = Some(Shell {
        interactive: vec![1.15, 1.15],
        command: vec![0.6, 0.6],
        slowest: Some((". /home/u/.bashrc".to_owned(), None, 0.5)),
        slowest_file: None,
    });
    let found = diagnose(&facts);
    assert!(found[0].cause == "slow_home" && found[0].title.contains("500 ms to open a file"), "{found:?}");
    assert!(found[0].evidence.iter().any(|line| line.contains("nfs, filer:/home")), "{found:?}");
    // Names of the server are no commands.
    facts.logins.home.as_mut().unwrap().directory = "/home/u $(reboot)".to_owned();
    let change = &diagnose(&facts)[0].change[0];
    assert!(change.contains("time cat '/home/u $(reboot)/.profile';"), "{change}");
    let causes: Vec<_> = found.iter().map(|finding| finding.cause).collect();
    assert!(!causes.contains(&"login_approval") && !causes.contains(&"shell_startup"), "{causes:?}");
    // A line that takes longer than all of its files is one more cause.
    facts.shell.as_mut().unwrap().interactive = vec![4.2, 4.2];
    facts.shell.as_mut().unwrap().slowest =
        Some(("sleep 3".to_owned(), Some(".profile line 1".to_owned()), 3.0));
    assert_eq!(first(&facts).0, "shell_startup");
    // The server itself is slow: it is no fault of the home directory.
    facts.logins.home = Some(Home { elsewhere: 1.4, ..home });
    let causes: Vec<_> = diagnose(&facts).iter().map(|finding| finding.cause).collect();
    assert!(!causes.contains(&"slow_home") && causes.contains(&"login_approval"), "{causes:?}");
}

#[test]
fn keys_in_vain_are_told_from_a_slow_server() {
    let mut facts = good();
    let login = |seconds| vec![(Stage::Credential, seconds), (Stage::Session, 0.06)];
    facts.logins.offers = 11;
    facts.logins.timed = vec![login(0.55), login(0.56)];
    let (cause, title) = first(&facts);
    assert!(cause == "offered_keys" && title.starts_with("10 keys are offered"), "{title}");
    assert!(diagnose(&facts).iter().all(|found| found.cause != "login_approval"));
    // A server that needs a second for each of three keys.
    facts.logins.offers = 3;
    facts.logins.timed = vec![login(3.1), login(3.2)];
    let causes: Vec<_> = diagnose(&facts).iter().map(|found| found.cause).collect();
    assert!(causes.starts_with(&["offered_keys", "login_approval"]), "{causes:?}");
    facts.logins.offers = 1;
    assert_eq!(first(&facts).0, "login_approval");
    facts.logins.failure =
        Some("Received disconnect from h port 22:2: Too many authentication failures".to_owned());
    assert_eq!(first(&facts).0, "offered_keys");
}

#[test]
fn login_at_a_jump_host_is_no_slow_stage() {
    let mut facts = good();
    facts.path.is_proxied = true;
    let login = |seconds| vec![(Stage::Proxy, seconds), (Stage::KeyExchange, 0.2)];
    // Twelve round trips of 50 ms.
    facts.logins.timed = vec![login(0.6), login(0.7)];
    assert!(diagnose(&facts).iter().all(|found| found.cause != "proxy_start"));
    facts.logins.timed = vec![login(2.6), login(2.7)];
    let (cause, title) = first(&facts);
    assert!(cause == "proxy_start" && title.contains("2.0 s") | title.contains("2.1 s"), "{title}");
}

#[test]
fn late_sftp_is_told_from_late_commands() {
    let mut facts = good();
    facts.sftp.starts = vec![1.6, 1.7, 1.6];
    let (cause, title) = first(&facts);
    assert!(cause == "sftp_start" && title.contains("1.5 s"), "{title}");
    facts.shell = Some(Shell {
        interactive: vec![1.8, 1.8],
        command: vec![1.6, 1.6],
        slowest: None,
        slowest_file: None,
    });
    assert!(diagnose(&facts).iter().all(|found| found.cause != "sftp_start"));
    facts.sftp.starts = vec![1.6, 0.1];
    assert!(diagnose(&facts).iter().all(|found| found.cause != "sftp_start"));
}

#[test]
fn refused_connections_are_counted() {
    let mut facts = good();
    (facts.refusals.connections, facts.refusals.logins_made) = (3, 2);
    let (cause, title) = first(&facts);
    assert!(cause == "refused" && title.contains("3 of 5 connections"), "{title}");
    facts.logins.failure = Some("kex_exchange_identification: Connection closed by remote host".to_owned());
    let (cause, title) = first(&facts);
    assert!(cause == "refused" && title.contains("closes connections of this machine"), "{title}");
}

#[test]
fn limits_of_new_connections_are_named_with_their_number() {
    let mut facts = good();
    let address = "10.0.0.2:22".parse().unwrap();
    facts.path.reached = Some(Reached { address, connect: 0.05, refused: 0, tried: Vec::new() });
    facts.refusals.logins_made = 4;
    let words = "connect to host 10.0.0.2 port 22: Connection timed out".to_owned();
    let turned_away = TurnedAway { words, failed: 3, made: 4, seconds: 9.0, late: 2, is_repeated: true };
    facts.refusals.turned_away = Some(turned_away);
    facts.idle_session = Some(Idle { seconds: 9.0, end: IdleEnd::Answered });
    let (cause, title) = first(&facts);
    assert!(cause == "refused" && title.contains("not answered after 4 logins in 9.0 s"), "{title}");
    // Transfers that broke off for this have no other cause.
    facts.throughput.broken = Some("ssh: connect to host 10.0.0.2 port 22: Connection timed out".to_owned());
    assert!(diagnose(&facts).iter().all(|found| found.cause != "broken_off"));
    // A server that has ended closes what was open.
    let end = IdleEnd::Closed("Connection reset by peer".to_owned());
    facts.idle_session = Some(Idle { seconds: 9.0, end });
    let found = diagnose(&facts);
    assert!(found.iter().all(|found| found.cause != "refused"), "{found:?}");
    assert!(found.iter().any(|found| found.cause == "broken_off"), "{found:?}");
}

#[test]
fn an_outage_is_no_limit_of_new_connections() {
    let mut facts = good();
    let address = "10.0.0.2:22".parse().unwrap();
    facts.path.reached = Some(Reached { address, connect: 0.05, refused: 0, tried: Vec::new() });
    facts.refusals.logins_made = 4;
    facts.idle_session = Some(Idle { seconds: 9.0, end: IdleEnd::Answered });
    let refused = "ssh: connect to host 10.0.0.2 port 22: Connection refused".to_owned();
    let many = TurnedAway { words: refused, failed: 2, made: 4, is_repeated: true, ..TurnedAway::default() };
    let silent = TurnedAway { words: many.words.replace("refused", "timed out"), ..many.clone() };
    let causes = |facts: &mut Facts, turned_away: TurnedAway| {
        facts.throughput.broken = Some(turned_away.words.clone());
        facts.refusals.turned_away = Some(turned_away);
        diagnose(facts).into_iter().map(|found| found.cause).collect::<Vec<_>>()
    };
    for limit in [&many, &silent] {
        let found = causes(&mut facts, limit.clone());
        assert!(found.contains(&"refused") && !found.contains(&"broken_off"), "{found:?}");
        // One failure.
        let found = causes(&mut facts, TurnedAway { failed: 1, ..limit.clone() });
        assert!(!found.contains(&"refused") && found.contains(&"broken_off"), "{found:?}");
    }
    // All of them at a time, a transfer that stood still meanwhile, and nothing that works after it.
    let at_a_time = TurnedAway { is_repeated: false, ..silent.clone() };
    assert!(!causes(&mut facts, at_a_time).contains(&"refused"));
    up(&mut facts).pauses.longest = 1.5;
    assert!(!causes(&mut facts, silent.clone()).contains(&"refused"));
    up(&mut facts).pauses.longest = 0.0;
    facts.idle_session = None;
    assert!(!causes(&mut facts, silent).contains(&"refused"));
}

#[test]
fn limit_of_sessions_comes_before_a_full_path() {
    let mut facts = good();
    facts.refusals.session = Some("open failed".to_owned());
    let (cause, title) = first(&facts);
    assert!(cause == "session_limit" && title.contains("MaxSessions"), "{title}");
}

#[test]
fn middlebox_is_not_taken_for_a_full_send_buffer() {
    let mut facts = good();
    let address = "10.0.0.2:22".parse().unwrap();
    facts.path.reached = Some(Reached { address, connect: 0.001, refused: 0, tried: Vec::new() });
    facts.path.pings = vec![0.08; 20];
    up(&mut facts).tcp.least_rtt = Some(0.001);
    sender(&mut facts).send_buffer = Some(0.9);
    facts.throughput.up.together = Some(40e6);
    assert!((facts.round_trip() - 0.08).abs() < 1e-9);
    let causes: Vec<_> = diagnose(&facts).iter().map(|found| found.cause).collect();
    assert!(causes.contains(&"middlebox") && !causes.contains(&"send_buffer"), "{causes:?}");
    // A few slow answers are no long round trip.
    facts.path.pings[7] = 0.002;
    assert!(diagnose(&facts).iter().all(|found| found.cause != "middlebox"));
}

#[test]
fn relay_in_front_of_the_server_is_no_buffer_of_this_machine() {
    // Recorded over 40 ms, with a program beside the server that passes on 2 MB/s for each connection.
    let mut facts = good();
    facts.path.pings = vec![0.0402; 10];
    facts.systems.here = System::from_pairs(&[("tcp_rmem", "4096 131072 8000000")]);
    up(&mut facts).rate = 1.8e6;
    facts.throughput.up.together = Some(7.2e6);
    let down = facts.throughput.down.flow.as_mut().unwrap();
    down.rate = 1.9e6;
    facts.throughput.down.together = Some(7.7e6);
    let sender = down.tcp.sender.as_mut().unwrap();
    (sender.receive_window, sender.window, sender.loaded_rtt) = (Some(0.99), Some(74_400.0), Some(0.0009));
    let found = diagnose(&facts);
    assert!(found.iter().all(|finding| finding.cause == "middlebox"), "{found:?}");
    assert!(
        found[0].title.contains("relays its connections, and moves 1.9 MB/s for each on downloads"),
        "{found:?}"
    );
    // The same window of a connection that reaches this machine is a buffer.
    facts.throughput.down.flow.as_mut().unwrap().tcp.sender.as_mut().unwrap().loaded_rtt = Some(0.041);
    assert_eq!(first(&facts).0, "receive_buffer");
}

#[test]
fn way_that_limits_is_told_by_the_jump_host_alone() {
    let mut facts = good();
    facts.path.is_proxied = true;
    let leg = |rate| Some(Flow { rate, ..facts.throughput.up.flow.clone().unwrap() });
    let jump_host = |rate| {
        let (pings, there) = (vec![0.01], facts.systems.there.clone());
        let name = "j".to_owned();
        Some(JumpHost {
            name,
            pings,
            there,
            up: leg(rate),
            down: leg(rate),
            up_through: 10e6,
            down_through: 10e6,
        })
    };
    let [behind, before, unclear] = [60e6, 11e6, 13.5e6].map(jump_host);
    facts.jump_host = behind;
    let (cause, title) = first(&facts);
    assert!(cause == "jump_host" && title.contains("from the jump host j to the server"), "{title}");
    facts.jump_host = before;
    let found = diagnose(&facts);
    assert!(
        found.iter().all(|found| found.title.starts_with("The way to the jump host j limits")),
        "{found:?}"
    );
    assert!(found[0].evidence.iter().any(|line| line.contains("10 ms to j, 40 ms from there")), "{found:?}");
    // Where segments are lost on the way to it, two rates that differ tell nothing.
    facts.jump_host = jump_host(60e6);
    for flow in facts.jump_host.iter_mut().flat_map(|found| [&mut found.up, &mut found.down]) {
        flow.as_mut().unwrap().tcp.sender.as_mut().unwrap().resent = 60.0;
    }
    assert!(diagnose(&facts).iter().all(|found| found.cause == "path"));
    facts.jump_host = unclear;
    assert!(diagnose(&facts).iter().all(|found| found.cause == "path"));
}

#[test]
fn other_measurements_name_the_cause_of_a_slow_stage() {
    let slow = |stage: Stage| {
        let mut facts = good();
        for login in &mut facts.logins.timed {
            login.retain(|(each, _)| *each != stage);
            login.push((stage, 2.05));
        }
        facts
    };
    let mut facts = slow(Stage::User);
    (facts.logins.reverse_lookup, facts.logins.user_lookup) = (Some(0.1), Some(1.9));
    let (cause, title) = first(&facts);
    assert!(cause == "user_lookup" && title.contains("name service"), "{title}");
    facts.logins.reverse_lookup = Some(1.9);
    assert_eq!(first(&facts).0, "reverse_dns");
    let mut facts = slow(Stage::Approval);
    let home = Home {
        directory: "/home/u".to_owned(),
        file_system: None,
        files: 3,
        seconds: 0.001,
        elsewhere: 0.001,
        keys_bytes: Some(30e6),
    };
    facts.logins.home = Some(home.clone());
    let (cause, title) = first(&facts);
    assert!(cause == "authorized_keys" && title.contains("30.0 MB"), "{title}");
    facts.logins.home = Some(Home { keys_bytes: Some(3000.0), ..home });
    assert_eq!(first(&facts).0, "login_approval");
    let mut facts = slow(Stage::Connect);
    let address = "10.0.0.2:22".parse().unwrap();
    let dead = "2001:db8::7".parse().unwrap();
    facts.path.reached = Some(Reached { address, connect: 0.05, refused: 0, tried: vec![(dead, 1.9)] });
    let found = diagnose(&facts);
    assert!(found[0].title.contains("2001:db8::7 of the host does not answer"), "{:?}", found[0]);
    assert!(found[0].change[0].starts_with("AddressFamily inet "), "{:?}", found[0]);
    // It was refused at once.
    facts.path.reached = Some(Reached { address, connect: 0.05, refused: 0, tried: vec![(dead, 0.05)] });
    assert!(first(&facts).1.contains("TCP's handshake"), "{:?}", first(&facts));
}

#[test]
fn agent_that_hangs_is_no_fault_of_the_server() {
    let mut facts = good();
    facts.logins.failure = Some("the login was not complete in time".to_owned());
    assert_eq!(first(&facts).0, "no_login");
    facts.logins.silent_agent = Some("/run/user/7/agent".to_owned());
    let found = diagnose(&facts);
    assert_eq!((found.len(), found[0].cause), (1, "agent"), "{found:?}");
    assert!(found[0].evidence[0].starts_with("/run/user/7/agent takes"), "{found:?}");
}

#[test]
fn shared_connection_that_is_slower_is_named() {
    let mut facts = good();
    let rates = |up: f64| {
        let of = |direction, through| SharedRate { direction, through, alone: 10e6 };
        vec![of(Direction::Up, up), of(Direction::Down, 9e6)]
    };
    let master = Master { socket: "/run/m".to_owned(), is_silent: false, rates: rates(1e6) };
    facts.master = Some(master.clone());
    let found = diagnose(&facts);
    assert!(found[0].cause == "control_master" && found[0].gain.starts_with("10.0 times"), "{found:?}");
    assert!(found[0].title.contains("/run/m) moves 1.0 MB/s on uploads"), "{found:?}");
    assert_eq!(found.iter().filter(|finding| finding.cause == "control_master").count(), 1);
    facts.master = Some(Master { rates: rates(8e6), ..master.clone() });
    assert_eq!(first(&facts).0, "path");
    facts.master = Some(Master { is_silent: true, rates: Vec::new(), ..master });
    let (cause, title) = first(&facts);
    assert!(cause == "control_master" && title.contains("does not answer (/run/m)"), "{title}");
}

#[test]
fn idle_sessions_that_do_not_survive_are_named() {
    let mut facts = good();
    let mut of = |end: IdleEnd| {
        facts.idle_session = Some(Idle { seconds: 21.0, end });
        first(&facts)
    };
    assert_eq!(of(IdleEnd::Answered).0, "path");
    let (cause, title) = of(IdleEnd::Forgotten);
    assert!(cause == "idle_timeout" && title.contains("idle for 21.0 s, or less"), "{title}");
    let (cause, title) = of(IdleEnd::Closed("Connection to h closed by remote host.".to_owned()));
    assert!(cause == "idle_timeout" && title.contains("is closed after 21.0 s"), "{title}");
    assert!(diagnose(&facts)[0].change[0].starts_with("ServerAliveInterval 7 "), "{:?}", diagnose(&facts)[0]);
}
