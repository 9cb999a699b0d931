//! Large files over several channels of one login.

use lh_interop::{Inetd, Lab, Lhsshd, Ran, assert_same_file, make_blob, me, our, peers};

fn upload(lab: &Lab, port: u16, flags: &[&str], to: &str) -> Ran {
    let mut args = lab.client_options();
    let target = format!("{}@127.0.0.1:{to}", me());
    args.extend(["-P", &port.to_string()].map(str::to_owned));
    args.extend(flags.iter().chain(&["big", &target]).map(|&word| word.to_owned()));
    lab.run(&our("lhscp"), &args)
}

/// Covers: scp -j; sshd_config MaxSessions
#[test]
fn uploads_to_openssh_use_all_permitted_channels() {
    let Some([sshd]) = peers("striping with OpenSSH's sshd", ["sshd"]) else { return };
    let lab = Lab::new();
    make_blob(&lab.path("big"), 50_000_001);
    for (config, channels) in [("", "4"), ("", "30"), ("MaxSessions 3\n", "8"), ("MaxSessions 1\n", "2")] {
        let server = Inetd::openssh(&lab, &sshd, config);
        // Over an existing file, longer than the source.
        make_blob(&lab.path("copy"), 60_000_000);
        let ran = upload(&lab, server.port, &["-v", "-j", channels], &lab.arg("copy")).ok(config);
        assert!(ran.err.contains(&format!("uploading over {channels} channels")), "{}", ran.err);
        assert_same_file(&lab.path("big"), &lab.path("copy"));
        let allowed: usize = if config.is_empty() {
            10
        } else {
            config.trim().chars().last().unwrap() as usize - '0' as usize
        };
        // If one connection has too few channels, another login may add some before the copy ends.
        let wanted: usize = channels.parse().unwrap();
        let log = server.log();
        let sessions = log.matches("Starting session: subsystem 'sftp'").count();
        assert!((allowed.min(wanted)..=wanted).contains(&sessions), "{config}: {sessions}\n{log}");
        if wanted <= allowed {
            assert_eq!(log.matches("Accepted publickey").count(), 1, "{log}");
        }
    }
}

/// Covers: scp -j
#[test]
fn our_server_gets_channels_and_the_connection_is_reused() {
    let lab = Lab::new();
    make_blob(&lab.path("big"), 30_000_000);
    make_blob(&lab.path("other"), 20_000_000);
    let server = Lhsshd::start(&lab, "");
    upload(&lab, server.port, &["-j", "3", "other"], &lab.arg("home")).ok("two files");
    assert_same_file(&lab.path("big"), &lab.path("home/big"));
    assert_same_file(&lab.path("other"), &lab.path("home/other"));
    let mistaken = upload(&lab, server.port, &["-j", "0"], "copy");
    assert_eq!(mistaken.code, 1);
    assert!(mistaken.err.contains("invalid number of channels \"0\""), "{}", mistaken.err);
}

/// Covers: scp -j; sshd_config MaxSessions
#[test]
fn downloads_from_openssh_use_all_permitted_channels() {
    let Some([sshd]) = peers("striping with OpenSSH's sshd", ["sshd"]) else { return };
    let lab = Lab::new();
    make_blob(&lab.path("big"), 120_000_001);
    for (config, channels) in [("", "4"), ("MaxSessions 3\n", "3")] {
        let server = Inetd::openssh(&lab, &sshd, config);
        let _ = std::fs::remove_file(lab.path("copy"));
        let mut args = lab.client_options();
        let from = format!("{}@127.0.0.1:{}", me(), lab.arg("big"));
        args.extend(["-P", &server.port.to_string(), "-v", "-j", channels, &from].map(str::to_owned));
        args.push(lab.arg("copy"));
        let ran = lab.run(&our("lhscp"), &args).ok(config);
        assert!(ran.err.contains(&format!("downloading over {channels} channels")), "{}", ran.err);
        assert_same_file(&lab.path("big"), &lab.path("copy"));
        let log = server.log();
        let sessions = log.matches("Starting session: subsystem 'sftp'").count();
        assert_eq!(sessions, channels.parse::<usize>().unwrap(), "{config}: {log}");
    }
}
