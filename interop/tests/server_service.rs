//! `lhsshd` under a service manager: its notifications, its watchdog, passed sockets, and reloading.

use std::fs;
use std::io::{Read, Write};
use std::net::{TcpListener, TcpStream};
use std::os::fd::{AsRawFd, OwnedFd};
use std::os::unix::net::UnixDatagram;
use std::path::PathBuf;
use std::process::{Child, Command, Stdio};
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};
use std::sync::mpsc::{Receiver, channel};
use std::time::Duration;

use lh_interop::{Inetd, Lab, eventually, our, peers, uninterrupted};
use lh_sys::spawn::Program;

/// A server that is ended when dropped.
struct Server(Child);

impl Drop for Server {
    fn drop(&mut self) {
        let _ = self.0.kill();
        let _ = self.0.wait();
    }
}

/// A service manager's socket for notifications. A thread reads it all the time: the kernel holds ten of
/// them, and the server does not wait long for room.
struct Manager {
    notifications: Receiver<String>,
    path: PathBuf,
}

impl Manager {
    fn new(lab: &Lab) -> Self {
        let path = lab.path("notify");
        let socket = UnixDatagram::bind(&path).unwrap();
        let (sender, notifications) = channel();
        std::thread::spawn(move || {
            let mut buffer = [0; 4096];
            while let Ok(n) = uninterrupted(|| socket.recv(&mut buffer)) {
                let text = String::from_utf8(buffer[..n].to_vec()).unwrap();
                if sender.send(text).is_err() {
                    break;
                }
            }
        });
        Self { notifications, path }
    }

    /// The next notification that `wanted` accepts.
    fn hear(&self, wanted: impl Fn(&str) -> bool) -> String {
        loop {
            let text = self.notifications.recv_timeout(Duration::from_secs(60)).expect("a notification");
            if wanted(&text) {
                return text;
            }
        }
    }

    fn hear_state(&self, state: &str) -> String {
        self.hear(|text| text.lines().next() == Some(state))
    }
}

fn write_config(lab: &Lab, more: &str) {
    let text = format!(
        "HostKey {}\nListenAddress 127.0.0.1\nPidFile none\nAuthorizedKeysFile {}\nStrictModes no\n\
         PermitRootLogin yes\nPerSourcePenalties no\nLogLevel VERBOSE\n{more}",
        lab.arg("host_ed25519"),
        lab.arg("authorized_keys")
    );
    lab.write("conf", &text);
}

fn log(lab: &Lab) -> String {
    fs::read_to_string(lab.path("log")).unwrap_or_default()
}

/// The port that the status of a notification names.
fn port_in(notification: &str) -> u16 {
    let text = notification.split(" port ").nth(1).expect(notification);
    text.split(|c: char| !c.is_ascii_digit()).next().unwrap().parse().unwrap()
}

fn signal(lab: &Lab, signal: &str, pid: u32) {
    lab.run(&PathBuf::from("kill"), &[signal, &pid.to_string()]).ok("kill");
}

/// Covers: sshd (service manager: readiness, reload, watchdog, stopping)
#[test]
fn service_manager_hears_states_and_reloads() {
    let Some([ssh]) = peers("service_manager_hears_states_and_reloads", ["ssh"]) else { return };
    let lab = Lab::new();
    write_config(&lab, "");
    let manager = Manager::new(&lab);
    let child = Command::new(our("lhsshd"))
        .args(["-D", "-p", "0", "-f", &lab.arg("conf"), "-E", &lab.arg("log")])
        .env("NOTIFY_SOCKET", &manager.path)
        .env("WATCHDOG_USEC", "400000")
        .stdin(Stdio::null())
        .spawn()
        .unwrap();
    let server = Server(child);
    let pid = server.0.id();
    let ready = manager.hear_state("READY=1");
    assert!(ready.contains(&format!("\nMAINPID={pid}\nSTATUS=Listening on 127.0.0.1 port ")), "{ready}");
    manager.hear_state("WATCHDOG=1");
    manager.hear_state("WATCHDOG=1");

    // A session that lasts longer than what follows. Its process does not know the manager.
    let port = port_in(&ready);
    lab.know(port);
    let mut args = lab.client_options();
    let port = port.to_string();
    let command = "tr '\\0' '\\n' </proc/$PPID/environ; echo ready; cat";
    args.extend(["-p", &port, "127.0.0.1", command].map(str::to_owned));
    let session = Command::new(&ssh).args(&args).stdin(Stdio::piped()).stdout(Stdio::piped()).spawn();
    let mut session = session.unwrap();
    let (mut input, mut output) = (session.stdin.take().unwrap(), session.stdout.take().unwrap());
    let mut seen = String::new();
    while !seen.ends_with("ready\n") {
        let mut byte = [0; 1];
        assert_eq!(output.read(&mut byte).unwrap(), 1, "{seen}");
        seen.push(byte[0].into());
    }
    for name in ["NOTIFY_SOCKET", "WATCHDOG_USEC", "LISTEN_"] {
        assert!(!seen.contains(name), "{seen}");
    }

    // Clients that connect while the program is started again are not refused.
    let ended = Arc::new(AtomicBool::new(false));
    let connecting = {
        let (ended, port) = (Arc::clone(&ended), port_in(&ready));
        std::thread::spawn(move || {
            let mut refused = 0;
            while !ended.load(Ordering::Relaxed) {
                refused += u32::from(TcpStream::connect(("127.0.0.1", port)).is_err());
                std::thread::sleep(Duration::from_millis(5));
            }
            refused
        })
    };
    signal(&lab, "-HUP", pid);
    let reloading = manager.hear_state("RELOADING=1");
    let stamp = reloading.lines().find_map(|line| line.strip_prefix("MONOTONIC_USEC=")).unwrap();
    let stamp: u64 = stamp.parse().unwrap();
    assert!(stamp > 0 && stamp <= lh_sys::service::monotonic_usec(), "{reloading}");
    let again = manager.hear_state("READY=1");
    assert_eq!(again, ready);
    ended.store(true, Ordering::Relaxed);
    assert_eq!(connecting.join().unwrap(), 0, "connections were refused");
    manager.hear_state("WATCHDOG=1");

    // A configuration that cannot be used: the old one stays, and the manager reads why.
    write_config(&lab, "NoSuchKeyword yes\n");
    signal(&lab, "-HUP", pid);
    manager.hear_state("RELOADING=1");
    let kept = manager.hear_state("READY=1");
    assert!(kept.contains(" with the old configuration: ") && kept.contains("NoSuchKeyword"), "{kept}");
    assert_eq!(kept.lines().count(), 2, "{kept}");
    assert!(log(&lab).contains("continuing with the old configuration"), "{}", log(&lab));
    let port = port_in(&ready).to_string();
    lab.know(port.parse().unwrap());
    let mut args = lab.client_options();
    args.extend(["-p", &port, "127.0.0.1", "echo served"].map(str::to_owned));
    assert_eq!(lab.run(&ssh, &args).ok("ssh").text(), "served\n");

    input.write_all(b"still here").unwrap();
    drop(input);
    let mut rest = String::new();
    output.read_to_string(&mut rest).unwrap();
    assert_eq!(rest, "still here");
    assert!(session.wait().unwrap().success());
    signal(&lab, "-TERM", pid);
    manager.hear_state("STOPPING=1");
}

/// Covers: sshd (socket activation)
#[test]
fn passed_sockets_are_listened_on_and_survive_a_reload() {
    let Some([ssh, bash]) = peers("passed_sockets", ["ssh", "bash"]) else { return };
    let lab = Lab::new();
    // No socket of its own: the port is not to be bound.
    write_config(&lab, "Port 9\n");
    let manager = Manager::new(&lab);
    let listeners = [TcpListener::bind("127.0.0.1:0").unwrap(), TcpListener::bind("127.0.0.1:0").unwrap()];
    let ports = listeners.each_ref().map(|listener| listener.local_addr().unwrap().port());
    let fds = listeners.map(|listener| high(OwnedFd::from(listener)));
    let numbers = fds.each_ref().map(AsRawFd::as_raw_fd);
    let script = format!(
        "exec 3<&{0} 4<&{1} {0}<&- {1}<&-; export LISTEN_FDS=2 LISTEN_FDNAMES=one:two LISTEN_PID=$$ \
         NOTIFY_SOCKET={2}; exec {3} -D -f {4} -E {5}",
        numbers[0],
        numbers[1],
        manager.path.display(),
        our("lhsshd").display(),
        lab.arg("conf"),
        lab.arg("log")
    );
    let mut program = Program::new(bash).arg("-c").arg(script);
    for fd in fds {
        program = program.keep(fd);
    }
    let server = Server(program.spawn().unwrap());
    let pid = server.0.id();
    let serves = |port: u16| {
        lab.know(port);
        let mut args = lab.client_options();
        let command = "ls -l /proc/$PPID/fd | grep -c socket >/dev/null; echo served";
        args.extend(["-p", &port.to_string(), "127.0.0.1", command].map(str::to_owned));
        assert_eq!(lab.run(&ssh, &args).ok("ssh").text(), "served\n");
    };
    for _ in 0..2 {
        let ready = manager.hear_state("READY=1");
        let status = format!("Listening on 127.0.0.1 port {}, 127.0.0.1 port {}", ports[0], ports[1]);
        assert!(ready.contains(&status), "{ready}");
        ports.iter().copied().for_each(serves);
        // Accepted by the socket's queue, even while the program is started again.
        let waiting = TcpStream::connect(("127.0.0.1", ports[1])).unwrap();
        signal(&lab, "-HUP", pid);
        manager.hear_state("RELOADING=1");
        drop(waiting);
    }
    manager.hear_state("READY=1");
    ports.iter().copied().for_each(serves);
    assert!(log(&lab).contains("Socket two was passed by the service manager."), "{}", log(&lab));
}

/// Duplicates a descriptor to a number that a script does not use.
fn high(fd: OwnedFd) -> OwnedFd {
    rustix::io::fcntl_dupfd_cloexec(fd, 60).unwrap()
}

/// Covers: sshd (socket activation: sockets that are not its own)
#[test]
fn unusable_passed_sockets_are_refused() {
    let Some([bash]) = peers("unusable_passed_sockets_are_refused", ["bash"]) else { return };
    let lab = Lab::new();
    write_config(&lab, "");
    let (connected, _other) = UnixDatagram::pair().unwrap();
    let connected = OwnedFd::from(connected);
    let run = |pid: &str| {
        let fd = high(connected.try_clone().unwrap());
        let number = fd.as_raw_fd();
        let script = format!(
            "exec 3<&{number} {number}<&-; export LISTEN_FDS=1 LISTEN_FDNAMES=odd LISTEN_PID={pid}; \
             exec {} -D -p 0 -f {} -E {}",
            our("lhsshd").display(),
            lab.arg("conf"),
            lab.arg("log")
        );
        Server(Program::new(&bash).arg("-c").arg(script).keep(fd).spawn().unwrap())
    };
    let mut refused = run("$$");
    assert_eq!(refused.0.wait().unwrap().code(), Some(255));
    assert!(log(&lab).contains("Passed socket \"odd\" accepts no network connections"), "{}", log(&lab));
    // Passed to another process: the server listens by itself.
    let _server = run("1");
    eventually("it listens", || log(&lab).contains("Server listening on 127.0.0.1 port "));
}

/// One field of an entry in the journal's own protocol.
fn field<'a>(entry: &'a str, name: &str) -> Option<&'a str> {
    entry.lines().find_map(|line| line.strip_prefix(name)?.strip_prefix('='))
}

/// Covers: sshd (log lines with fields in the journal)
#[test]
fn journal_entries_name_user_address_and_key() {
    let test = "journal_entries_name_user_address_and_key";
    let Some([ssh, keygen, unshare]) = peers(test, ["ssh", "ssh-keygen", "unshare"]) else { return };
    if !lh_interop::is_root() {
        return lh_interop::skip(test, "a journal in the server's own view of /run needs root");
    }
    let lab = Lab::new();
    write_config(&lab, "PasswordAuthentication no\nSyslogFacility LOCAL3\n");
    fs::create_dir_all(lab.path("run/systemd/journal")).unwrap();
    let journal = UnixDatagram::bind(lab.path("run/systemd/journal/socket")).unwrap();
    journal.set_read_timeout(Some(Duration::from_secs(60))).unwrap();
    // Standard error is a socket that the variable names.
    let (stderr, _reader) = UnixDatagram::pair().unwrap();
    let stderr = OwnedFd::from(stderr);
    let stat = rustix::fs::fstat(&stderr).unwrap();
    let child = Command::new(unshare)
        .args(["--mount", "sh", "-ec", "mount --bind \"$0\" /run; exec \"$@\"", &lab.arg("run")])
        .arg(our("lhsshd"))
        .args(["-D", "-p", "0", "-f", &lab.arg("conf")])
        .env("JOURNAL_STREAM", format!("{}:{}", stat.st_dev, stat.st_ino))
        .stdin(Stdio::null())
        .stderr(stderr)
        .spawn()
        .unwrap();
    let _server = Server(child);
    let mut buffer = vec![0; 65536];
    let mut hear = |wanted: &str| loop {
        let n = uninterrupted(|| journal.recv(&mut buffer)).expect("an entry");
        let entry = String::from_utf8(buffer[..n].to_vec()).unwrap();
        if field(&entry, "MESSAGE").is_some_and(|line| line.starts_with(wanted)) {
            return entry;
        }
    };
    let listening = hear("Server listening on 127.0.0.1 port ");
    assert_eq!(field(&listening, "SYSLOG_IDENTIFIER"), Some("lhsshd"), "{listening}");
    assert_eq!(field(&listening, "SYSLOG_FACILITY"), Some("19"), "{listening}");
    assert_eq!(field(&listening, "USER"), None, "{listening}");
    let port = port_in(&listening).to_string();
    lab.know(port.parse().unwrap());
    let mut args = lab.client_options();
    args.extend(["-p", &port, "127.0.0.1", "true"].map(str::to_owned));
    lab.run(&ssh, &args).ok("ssh");
    let shown = lab.run(&keygen, &["-lf", &lab.arg("user_ed25519.pub")]).ok("ssh-keygen").text();
    let key = shown.split(' ').nth(1).unwrap();
    let connection = hear("Connection from 127.0.0.1 port ");
    let session = field(&connection, "SESSION").expect(&connection).to_owned();
    assert_eq!(field(&connection, "REMOTE_ADDR"), Some("127.0.0.1"), "{connection}");
    let me = lh_interop::me();
    // The monitor's line, and one of the user session process.
    for wanted in ["Accepted publickey for ", "Starting session: command for "] {
        let entry = hear(wanted);
        assert_eq!(field(&entry, "PRIORITY"), Some("6"), "{entry}");
        assert_eq!(field(&entry, "USER"), Some(me.as_str()), "{entry}");
        assert_eq!(field(&entry, "REMOTE_ADDR"), Some("127.0.0.1"), "{entry}");
        assert_eq!(field(&entry, "FINGERPRINT"), Some(key), "{entry}");
        assert_eq!(field(&entry, "SESSION"), Some(session.as_str()), "{entry}");
    }
    // Another connection, whose user does not exist: another session, and no key that counts.
    let mut args = lab.client_options();
    args.extend(["-p", &port, "nosuch@127.0.0.1", "true"].map(str::to_owned));
    assert_eq!(lab.run(&ssh, &args).code, 255);
    let entry = hear("Invalid user nosuch ");
    assert_eq!(field(&entry, "USER"), Some("nosuch"), "{entry}");
    assert_eq!(field(&entry, "FINGERPRINT"), None, "{entry}");
    assert_ne!(field(&entry, "SESSION"), Some(session.as_str()), "{entry}");
    let entry = hear("Connection closed by invalid user nosuch ");
    assert_eq!(field(&entry, "USER"), Some("nosuch"), "{entry}");
    assert_eq!(field(&entry, "FINGERPRINT"), None, "{entry}");
}

/// With `Accept=yes` the connection is standard input, and passed once more.
///
/// Covers: sshd -i (a connection that the service manager passes)
#[test]
fn accepted_connection_is_not_kept_twice() {
    let Some([ssh, bash]) = peers("accepted_connection_is_not_kept_twice", ["ssh", "bash"]) else { return };
    let lab = Lab::new();
    write_config(&lab, "");
    let sockets = |passed: &str| {
        let script = format!("{passed} exec {} -i -e -f {}", our("lhsshd").display(), lab.arg("conf"));
        let server = Inetd::start(&lab, &bash, &["-c".to_owned(), script]);
        let mut args = lab.client_options();
        // How often the socket is open that is open most often. Others may come from tests beside this one.
        let command = "ls -l /proc/$PPID/fd | grep -o socket:.* | sort | uniq -c | sort -rn | sed -n '1s/socket.*//p'; \
                       tr '\\0' '\\n' </proc/$PPID/environ | grep ^LISTEN";
        args.extend(["-p", &server.port_arg(), "127.0.0.1", command].map(str::to_owned));
        let ran = lab.run(&ssh, &args);
        assert!(ran.err.is_empty() || !ran.err.contains("rror"), "{} {}", ran.err, server.log());
        ran.text()
    };
    let passed = sockets("exec 3<&0; export LISTEN_FDS=1 LISTEN_FDNAMES=connection LISTEN_PID=$$;");
    assert_eq!(passed.lines().count(), 1, "{passed}");
    assert_eq!(passed, sockets(""));
}
