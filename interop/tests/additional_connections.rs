//! Copies over several connections: joined by tickets with Longhaul's server, by further logins with other
//! servers.

use lh_interop::{Inetd, Lab, Lhsshd, Ran, assert_same_file, eventually, make_blob, me, our, peers};

/// Rate limit so low that every connection is open before the copy ends.
const RATE: &str = "60000";

fn copy(lab: &Lab, port: u16, flags: &[&str], from: &str, to: &str) -> Ran {
    let mut args = lab.client_options();
    args.extend(["-P", &port.to_string(), "-v", "-l", RATE].map(str::to_owned));
    args.extend(flags.iter().chain(&[from, to]).map(|&word| word.to_owned()));
    lab.run(&our("lhscp"), &args)
}

/// Runs a batch of `lhsftp` with the same rate limit.
fn batch(lab: &Lab, port: u16, flags: &[&str], script: &str) -> Ran {
    lab.write("batch", script);
    let mut args = lab.client_options();
    args.extend(["-P", &port.to_string(), "-v", "-l", RATE, "-b", "batch"].map(str::to_owned));
    args.extend(flags.iter().map(|&word| word.to_owned()));
    args.push(format!("{}@127.0.0.1", me()));
    lab.run(&our("lhsftp"), &args)
}

fn remote(path: &str) -> String {
    format!("{}@127.0.0.1:{path}", me())
}

/// Covers: scp -j; sshd_config LonghaulTickets; sshd_config MaxStartups; sshd_config PerSourceMaxStartups; wire ticket@longhaul
#[test]
fn joining_connections_need_no_login_or_startup_slot() {
    let lab = Lab::new();
    make_blob(&lab.path("big"), 40_000_001);
    // At most one unauthenticated connection at a time.
    let server = Lhsshd::start(&lab, "MaxStartups 1:100:1\nPerSourceMaxStartups 1\n");
    let up = copy(&lab, server.port, &["-j", "3"], "big", &remote(&lab.arg("up"))).ok("upload");
    assert_same_file(&lab.path("big"), &lab.path("up"));
    let down = copy(&lab, server.port, &["-j", "3"], &remote(&lab.arg("big")), "down").ok("download");
    assert_same_file(&lab.path("big"), &lab.path("down"));
    for ran in [up, down] {
        assert_eq!(
            ran.err.matches("an additional connection has joined the session").count(),
            2,
            "{}",
            ran.err
        );
    }
    let log = server.log();
    assert_eq!(log.matches("Accepted publickey for").count(), 2, "{log}");
    let joined: Vec<_> = log.lines().filter(|line| line.contains("Accepted ticket for")).collect();
    assert_eq!(joined.len(), 4, "{log}");
    assert!(joined.iter().all(|line| line.contains("ssh2: joined session of ")), "{log}");
    assert!(!log.contains("Exceeded MaxStartups") && !log.contains("drop connection"), "{log}");
}

/// Covers: sshd_config LonghaulTickets
#[test]
fn without_tickets_a_copy_uses_more_channels() {
    let lab = Lab::new();
    make_blob(&lab.path("big"), 30_000_001);
    let server = Lhsshd::start(&lab, "LonghaulTickets no\n");
    let ran = copy(&lab, server.port, &["-j", "3"], "big", &remote(&lab.arg("up"))).ok("upload");
    assert_same_file(&lab.path("big"), &lab.path("up"));
    assert!(!ran.err.contains("additional connection"), "{}", ran.err);
    let log = server.log();
    assert_eq!(log.matches("Connection from ").count(), 1, "{log}");
}

/// Covers: wire ticket@longhaul
#[test]
fn forced_commands_hold_for_joined_connections() {
    let lab = Lab::new();
    make_blob(&lab.path("big"), 40_000_001);
    let key = lab.read("user_ed25519.pub");
    let (ran_file, server_program) = (lab.arg("ran"), our("lhsftp-server"));
    let command = format!("echo $SSH_CONNECTION >> {ran_file}; exec {} -R", server_program.display());
    lab.write("authorized_keys", &format!("restrict,command=\"{command}\" {key}"));
    let server = Lhsshd::start(&lab, "");
    copy(&lab, server.port, &["-j", "3"], &remote(&lab.arg("big")), "down").ok("download");
    assert_same_file(&lab.path("big"), &lab.path("down"));
    let log = server.log();
    assert_eq!(log.matches("Accepted ticket for").count(), 2, "{log}");
    let ran = lab.read("ran");
    let ports: std::collections::BTreeSet<_> = ran.lines().map(|line| line.split(' ').nth(1)).collect();
    assert_eq!((ran.lines().count(), ports.len()), (3, 3), "each connection ran what is forced: {ran}");
    let refused = copy(&lab, server.port, &["-j", "3"], "big", &remote(&lab.arg("up")));
    assert_ne!(refused.code, 0);
    assert!(!lab.path("up").exists());
}

/// Covers: scp -j; scp -B
#[test]
fn copies_log_in_again_when_sshd_limits_channels() {
    let Some([sshd]) = peers("further logins to OpenSSH's sshd", ["sshd"]) else { return };
    let lab = Lab::new();
    make_blob(&lab.path("big"), 50_000_001);
    let server = Inetd::openssh(&lab, &sshd, "MaxSessions 2\n");
    for (from, to) in
        [("big".to_owned(), remote(&lab.arg("up"))), (remote(&lab.arg("big")), "down".to_owned())]
    {
        let ran = copy(&lab, server.port, &["-j", "4"], &from, &to).ok("copy");
        assert!(ran.err.contains("an additional connection for"), "{}", ran.err);
    }
    for copied in ["up", "down"] {
        assert_same_file(&lab.path("big"), &lab.path(copied));
    }
    let log = server.log();
    assert!(log.matches("Accepted publickey").count() >= 4, "{log}");
}

/// Covers: sftp -j; wire ticket@longhaul
#[test]
fn sftp_copies_over_joined_connections_and_continues() {
    let lab = Lab::new();
    make_blob(&lab.path("big"), 40_000_001);
    lab.write("small", "a few words\n");
    let server = Lhsshd::start(&lab, "MaxStartups 1:100:1\nPerSourceMaxStartups 1\n");
    let (up, home) = (lab.arg("up"), lab.arg("home"));
    let script =
        format!("put big {up}\nls -l {up}\nget {up} down\nput small {home}/small\nls -l {home}/small\n");
    let ran = batch(&lab, server.port, &["-j", "3"], &script).ok("a batch");
    for copy in ["up", "down"] {
        assert_same_file(&lab.path("big"), &lab.path(copy));
    }
    assert_same_file(&lab.path("small"), &lab.path("home/small"));
    assert!(ran.text().contains("40000001"), "{}", ran.text());
    // Two connections for each large copy.
    assert_eq!(ran.err.matches("an additional connection has joined the session").count(), 4, "{}", ran.err);
    let log = server.log();
    assert_eq!(log.matches("Accepted publickey for").count(), 1, "{log}");
    assert_eq!(log.matches("Accepted ticket for").count(), 4, "{log}");
    let alone = batch(&lab, server.port, &["-j", "1"], &script).ok("over one");
    assert!(!alone.err.contains("additional connection"), "{}", alone.err);
}

/// Covers: sftp -j; sftp -s
#[test]
fn sftp_uses_more_channels_of_sshd_for_each_copy() {
    let Some([sshd]) = peers("striping of lhsftp with OpenSSH's sshd", ["sshd"]) else { return };
    let lab = Lab::new();
    make_blob(&lab.path("big"), 30_000_001);
    let server = Inetd::openssh(&lab, &sshd, "");
    let (up, again) = (lab.arg("up"), lab.arg("again"));
    let script = format!("put big {up}\nls {up}\nput big {again}\nget {again} down\nls {up}\nput big {up}\n");
    let command = "/usr/lib/openssh/sftp-server";
    // However the first channel starts the SFTP server, additional channels start it the same way.
    for (flags, started) in
        [(&["-j", "4"][..], "subsystem 'sftp'"), (&["-j", "4", "-s", command], "command for")]
    {
        if flags.contains(&command) && !std::path::Path::new(command).exists() {
            continue;
        }
        let before = server.log().matches(started).count();
        let ran = batch(&lab, server.port, flags, &script).ok("a batch");
        for copy in ["up", "again", "down"] {
            assert_same_file(&lab.path("big"), &lab.path(copy));
            std::fs::remove_file(lab.path(copy)).unwrap();
        }
        assert_eq!(ran.err.matches("loading over 4 channels").count(), 4, "{}", ran.err);
        let log = server.log();
        assert_eq!(log.matches(started).count() - before, 1 + 4 * 3, "{log}");
    }
}

/// Covers: scp -j; scp --retries
#[test]
fn losing_the_first_connection_ends_the_copy() {
    let lab = Lab::new();
    make_blob(&lab.path("big"), 60_000_001);
    let server = Lhsshd::start(&lab, "");
    let copying = std::thread::scope(|scope| {
        let target = remote(&lab.arg("up"));
        let (lab, port) = (&lab, server.port);
        let copying = scope.spawn(move || copy(lab, port, &["-j", "3", "--retries", "0"], "big", &target));
        eventually("both have joined", || server.log().matches("joined session of ").count() == 2);
        let log = server.log();
        let of = log.split("joined session of ").nth(1).unwrap_or_default();
        // The user session process of the first connection.
        let pid = of.split(|c: char| !c.is_ascii_digit()).next().and_then(|pid| pid.parse().ok());
        let pid = pid.and_then(rustix::process::Pid::from_raw).unwrap();
        rustix::process::kill_process(pid, rustix::process::Signal::KILL).unwrap();
        copying.join().unwrap()
    });
    assert_eq!(copying.code, 255, "{}", copying.err);
    copy(&lab, server.port, &["-j", "3"], "big", &remote(&lab.arg("up"))).ok("once more");
    assert_same_file(&lab.path("big"), &lab.path("up"));
}
