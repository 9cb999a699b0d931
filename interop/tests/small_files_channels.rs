//! Thousands of small files to OpenSSH's server, which runs an SFTP server for each channel.

use std::fs;

use lh_interop::{Inetd, Lab, Ran, assert_same_tree, eventually, me, our, peers};
use lh_testkit::leftovers;

const FILES: usize = 3_000;

fn make_files(lab: &Lab) {
    for n in 0..FILES {
        let directory = lab.path("from").join(format!("d{}", n % 13));
        fs::create_dir_all(&directory).unwrap();
        let content: Vec<u8> = (0..(n * 37) % 9_000).map(|at| (at * 31 + n) as u8).collect();
        fs::write(directory.join(format!("f{n}")), content).unwrap();
    }
}

fn copy(lab: &Lab, port: u16, flags: &[&str]) -> Ran {
    let _ = fs::remove_dir_all(lab.path("to"));
    let mut args = lab.client_options();
    args.extend(["-P", &port.to_string(), "-v", "-r"].map(str::to_owned));
    args.extend(flags.iter().map(|&flag| flag.to_owned()));
    args.extend([lab.arg("from"), format!("{}@127.0.0.1:{}", me(), lab.arg("to"))]);
    lab.run(&our("lhscp"), &args)
}

fn is_whole(lab: &Lab) {
    assert_same_tree(&lab.path("from"), &lab.path("to"));
    assert!(leftovers(&lab.path("to")).is_empty());
}

/// Covers: scp -r; scp -j
#[test]
fn small_files_go_up_over_three_channels_of_openssh() {
    let Some([sshd]) = peers("small files to OpenSSH's sshd", ["sshd"]) else { return };
    let lab = Lab::new();
    make_files(&lab);
    for (flags, servers) in [(&[][..], 3), (&["-p"], 3), (&["-j", "1"], 1)] {
        let server = Inetd::openssh(&lab, &sshd, "");
        let ran = copy(&lab, server.port, flags).ok("a copy");
        let told = ran.err.contains("uploading over 3 channels: the server has a process for each");
        assert_eq!(told, servers == 3, "{}", ran.err);
        let log = server.log();
        assert_eq!(log.matches("Starting session: subsystem 'sftp'").count(), servers, "{flags:?} {log}");
        assert_eq!(log.matches("Accepted publickey").count(), 1, "{log}");
        is_whole(&lab);
    }
    for config in ["MaxSessions 2\n", "MaxSessions 1\n"] {
        let server = Inetd::openssh(&lab, &sshd, config);
        copy(&lab, server.port, &[]).ok("a copy");
        is_whole(&lab);
    }
}

/// Covers: scp -r
#[test]
fn a_killed_sftp_server_of_several_loses_nothing() {
    let Some([sshd, sftp_server]) =
        peers("small files to OpenSSH's sshd", ["sshd", "/usr/lib/openssh/sftp-server"])
    else {
        return;
    };
    let lab = Lab::new();
    make_files(&lab);
    let key = lab.read("user_ed25519.pub");
    let (pids, sftp_server) = (lab.arg("pids"), sftp_server.display().to_string());
    lab.write("authorized_keys", &format!("command=\"echo $$ >> {pids}; exec {sftp_server}\" {key}"));
    let server = Inetd::openssh(&lab, &sshd, "");
    for victim in [1, 2] {
        lab.write("pids", "");
        let ran = std::thread::scope(|scope| {
            let copying = scope.spawn(|| copy(&lab, server.port, &[]));
            eventually("three SFTP servers run", || lab.read("pids").lines().count() == 3);
            // The copy may be over by then: what it leaves has to be right in any case.
            let pid = lab.read("pids").lines().nth(victim).and_then(|pid| pid.parse().ok());
            let pid = pid.and_then(rustix::process::Pid::from_raw).unwrap();
            let _ = rustix::process::kill_process(pid, rustix::process::Signal::KILL);
            copying.join().unwrap()
        });
        ran.ok("a copy");
        is_whole(&lab);
    }
}

/// The other sessions that the server permits are for those who share the connection.
///
/// Covers: scp -r; ssh_config ControlPath
#[test]
fn copies_through_a_master_take_one_session() {
    let Some([sshd]) = peers("small files through a master to OpenSSH's sshd", ["sshd"]) else { return };
    let lab = Lab::new();
    make_files(&lab);
    let server = Inetd::openssh(&lab, &sshd, "");
    let shared = ["-o".to_owned(), format!("ControlPath={}", lab.arg("master"))];
    let port = server.port.to_string();
    let mut args = lab.client_options();
    args.extend(shared.clone());
    args.extend(["-o", "ControlMaster=yes", "-o", "ControlPersist=yes", "-p", &port].map(str::to_owned));
    args.extend([format!("{}@127.0.0.1", me()), "true".to_owned()]);
    lab.run(&our("lhssh"), &args).ok("a master");
    let before = server.log().matches("Starting session: ").count();
    let flags: Vec<&str> = shared.iter().map(String::as_str).collect();
    let ran = copy(&lab, server.port, &flags).ok("a copy");
    assert!(!ran.err.contains("channels"), "{}", ran.err);
    is_whole(&lab);
    assert_eq!(server.log().matches("Starting session: ").count() - before, 1, "{}", server.log());
    let mut args = lab.client_options();
    args.extend(shared);
    args.extend(["-p", &port, "-O", "exit"].map(str::to_owned));
    args.push(format!("{}@127.0.0.1", me()));
    lab.run(&our("lhssh"), &args).ok("the end of the master");
}
