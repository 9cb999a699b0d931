//! `lhsshd` in the background, as init scripts start it.

use std::fs;
use std::path::Path;
use std::process::{Command, Stdio};

use lh_interop::{Inetd, Lab, eventually, our, peers};

/// A server in the background, ended when dropped.
struct Daemon {
    pid: String,
}

impl Drop for Daemon {
    fn drop(&mut self) {
        let _ = Command::new("kill").arg(&self.pid).status();
    }
}

const LISTENING: &str = "Server listening on 127.0.0.1 port ";

/// Covers: sshd_config PidFile; sshd -E (SIGHUP in the background); sshd -f
#[test]
fn a_server_in_the_background_keeps_its_process_id() {
    let Some([ssh, prlimit]) = peers("background", ["ssh", "prlimit"]) else { return };
    let lab = Lab::new();
    // The server leaves the directory that it is started in, and reads the same files when it is reloaded.
    lab.write(
        "conf",
        &format!(
            "HostKey host_ed25519\nListenAddress 127.0.0.1\nPidFile pid\nAuthorizedKeysFile {}\nStrictModes no\n\
             PermitRootLogin yes\n",
            lab.arg("authorized_keys")
        ),
    );
    let log = || fs::read_to_string(lab.path("log")).unwrap_or_default();
    let started = Command::new(prlimit)
        .arg("--core=4096:")
        .arg(our("lhsshd"))
        .args(["-p", "0", "-f", "conf", "-E", "log"])
        .current_dir(lab.path("."))
        .stdin(Stdio::null())
        .stdout(Stdio::null())
        .status()
        .unwrap();
    assert!(started.success(), "{}", log());
    let pid = || fs::read_to_string(lab.path("pid")).unwrap_or_default().trim().to_owned();
    eventually("the pid file is there", || !pid().is_empty());
    let daemon = Daemon { pid: pid() };
    for restarts in 1..3 {
        lab.run(Path::new("kill"), &["-HUP", &daemon.pid]).ok("kill");
        eventually("it listens again", || {
            log().matches(LISTENING).count() == 1 + restarts && !pid().is_empty()
        });
        assert_eq!(pid(), daemon.pid);
        let directory = fs::read_link(format!("/proc/{}/cwd", daemon.pid)).unwrap();
        assert_eq!(directory, Path::new("/"));
    }
    // Sessions get the resource limits and the OOM score of the server's first start.
    let text = log();
    let port = text.rsplit(LISTENING).next().unwrap().split('.').next().unwrap();
    lab.know(port.parse().unwrap());
    let mut args = lab.client_options();
    args.extend(
        ["-p", port, "127.0.0.1", "cat /proc/self/limits /proc/self/oom_score_adj"].map(str::to_owned),
    );
    let limits = lab.run(&ssh, &args).ok("ssh").text();
    let core = limits.lines().find_map(|line| line.strip_prefix("Max core file size")).unwrap();
    assert_eq!(core.split_whitespace().next(), Some("4096"), "{limits}");
    let ours = fs::read_to_string("/proc/self/oom_score_adj").unwrap();
    assert_eq!(limits.lines().last(), Some(ours.trim()));
}

/// Covers: sshd -t; sshd_config ListenAddress (not an address)
#[test]
fn invalid_listen_address_fails_the_configuration_test() {
    let lab = Lab::new();
    let check = |address: &str| {
        let option = format!("ListenAddress {address}");
        lab.run(&our("lhsshd"), &["-t", "-f", "none", "-h", &lab.arg("host_ed25519"), "-o", &option])
    };
    let ran = check("1.2.3.4.5");
    assert_eq!(ran.code, 255);
    assert!(ran.err.starts_with("bad addr or host: 1.2.3.4.5 ("), "{}", ran.err);
    for good in ["127.0.0.1", "[::1]:2222", "0.0.0.0:22"] {
        check(good).ok(good);
    }
}

/// A server beside the system's, which includes the system's file: its `ListenAddress` lines with ports must
/// not make it take the ports of `sshd`. Without the keyword the rule is sshd's, and the packaged file sets
/// it.
///
/// Covers: sshd_config PortForAllAddresses; sshd -p; sshd -T
#[test]
fn ports_of_the_command_line_for_every_address() {
    let lab = Lab::new();
    lab.write(
        "system",
        "Port 22\nListenAddress 127.0.0.1:22\nListenAddress 127.0.0.1:24\nListenAddress ::1\n",
    );
    let include = format!("Include {}\n", lab.arg("system"));
    lab.write("plain", &include);
    lab.write("beside", &format!("PortForAllAddresses yes\n{include}"));
    let packaged = Path::new(env!("CARGO_MANIFEST_DIR")).join("../packaging/config/lhsshd_config");
    let packaged = fs::read_to_string(packaged).unwrap().replace("/etc/ssh/sshd_config", &lab.arg("system"));
    lab.write("packaged", &packaged);
    let addresses = |file: &str, ports: &[&str]| {
        let mut words =
            vec!["-T".to_owned(), "-f".to_owned(), lab.arg(file), "-h".to_owned(), lab.arg("host_ed25519")];
        words.extend(ports.iter().map(|port| format!("-p{port}")));
        let ran = lab.run(&our("lhsshd"), &words);
        assert_eq!(ran.code, 0, "{}", ran.err);
        let text = ran.text();
        text.lines()
            .filter_map(|line| line.strip_prefix("listenaddress "))
            .map(str::to_owned)
            .collect::<Vec<_>>()
    };
    let own = ["127.0.0.1:22", "127.0.0.1:24", "[::1]:2222"];
    assert_eq!(addresses("plain", &["2222"]), own);
    assert_eq!(addresses("beside", &[]), ["127.0.0.1:22", "127.0.0.1:24", "[::1]:22"]);
    for file in ["beside", "packaged"] {
        assert_eq!(addresses(file, &["2222"]), ["127.0.0.1:2222", "[::1]:2222"], "{file}");
    }
    let two = ["127.0.0.1:2222", "127.0.0.1:2223", "[::1]:2222", "[::1]:2223"];
    assert_eq!(addresses("beside", &["2222", "2223"]), two);
}

/// A caller that waits for the end of a pipe must not wait for the server, and sessions must not see the
/// files of the shell that started it.
///
/// Covers: sshd -i; sshd -f (inherited descriptors)
#[test]
fn inherited_descriptors_are_closed() {
    let Some([ssh, bash]) = peers("inherited_descriptors_are_closed", ["ssh", "bash"]) else { return };
    let lab = Lab::new();
    lab.write("stray", "");
    let conf = format!(
        "HostKey {}\nListenAddress 127.0.0.1\nPidFile {}\nAuthorizedKeysFile {}\nStrictModes no\n\
         PermitRootLogin yes\n",
        lab.arg("host_ed25519"),
        lab.arg("pid"),
        lab.arg("authorized_keys")
    );
    lab.write("conf", &conf);
    let (program, stray) = (our("lhsshd"), lab.arg("stray"));
    // The configuration comes through a descriptor too.
    let start = |flags: &str| {
        format!("exec 3>{stray} 77>{stray}; exec {} {flags} -f <(cat {})", program.display(), lab.arg("conf"))
    };
    // Processes of other users cannot be looked at, and have nothing of this test's open.
    let look = |port: &str| {
        let mut args = lab.client_options();
        let command = "ls -l /proc/[0-9]*/fd 2>/dev/null";
        args.extend(["-p", port, "127.0.0.1", command].map(str::to_owned));
        let open = lab.run(&ssh, &args).text();
        assert!(open.contains("socket:"), "{open}");
        assert!(!open.contains(&stray), "{open}");
    };
    let inetd = Inetd::start(&lab, &bash, &["-c".to_owned(), start("-i -e")]);
    look(&inetd.port_arg());
    let started = Command::new(bash)
        .args(["-c", &start(&format!("-p 0 -E {}", lab.arg("log")))])
        .stdin(Stdio::null())
        .stdout(Stdio::null())
        .status()
        .unwrap();
    let log = || fs::read_to_string(lab.path("log")).unwrap_or_default();
    assert!(started.success(), "{}", log());
    eventually("it listens", || log().contains(LISTENING));
    let pid = || fs::read_to_string(lab.path("pid")).unwrap_or_default();
    eventually("it has written its process id", || pid().ends_with('\n'));
    let _daemon = Daemon { pid: pid().trim().to_owned() };
    let text = log();
    let port = text.rsplit(LISTENING).next().unwrap().split('.').next().unwrap();
    lab.know(port.parse().unwrap());
    look(port);
}
