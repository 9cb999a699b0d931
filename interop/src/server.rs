//! SSH servers that run for one test.

use std::io::{BufRead as _, BufReader};
use std::net::{TcpListener, TcpStream};
use std::os::fd::OwnedFd;
use std::path::Path;
use std::process::{Child, Command, Stdio};
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};
use std::thread::JoinHandle;

use rustix::process::Signal;

use crate::{Lab, eventually, our, process};

/// Our server, on a port that the kernel chose.
pub struct Lhsshd {
    child: Child,
    /// Port of 127.0.0.1 on which it listens.
    pub port: u16,
    log: std::path::PathBuf,
}

impl Lhsshd {
    /// Starts `lhsshd` with the lab's host keys, `authorized_keys` and these additional configuration lines.
    pub fn start(lab: &Lab, config: &str) -> Self {
        Self::start_with(lab, config, &[])
    }

    /// Like [`start`](Self::start), with additional environment variables.
    pub fn start_with(lab: &Lab, config: &str, environment: &[(&str, &str)]) -> Self {
        Self::start_program(&our("lhsshd"), lab, config, environment)
    }

    /// Like [`start`](Self::start), on a port from [`free_port`](crate::tunnel::free_port): for servers that
    /// are restarted.
    pub fn start_on(lab: &Lab, port: u16) -> Self {
        Self::launch(&our("lhsshd"), lab, "", &[], port)
    }

    /// Like [`start_with`](Self::start_with), with another `lhsshd`.
    pub fn start_program(program: &Path, lab: &Lab, config: &str, environment: &[(&str, &str)]) -> Self {
        Self::launch(program, lab, config, environment, 0)
    }

    fn launch(program: &Path, lab: &Lab, config: &str, environment: &[(&str, &str)], port: u16) -> Self {
        let name = format!("lhsshd-{}", unique());
        let mut text = String::from(config);
        for key in ["host_ed25519", "host_rsa", "host_ecdsa"] {
            text.push_str(&format!("\nHostKey {}", lab.arg(key)));
        }
        text.push_str(&format!(
            "\nListenAddress 127.0.0.1\nPidFile none\nLogLevel DEBUG1\nAuthorizedKeysFile {}\n\
             PermitRootLogin yes\nStrictModes no\nPerSourcePenalties no\n",
            lab.arg("authorized_keys")
        ));
        // A second Subsystem line with an existing name is an error.
        if !config.contains("Subsystem sftp ") {
            text.push_str("Subsystem sftp internal-sftp\n");
        }
        lab.write(&format!("{name}.conf"), &text);
        let log = lab.path(&format!("{name}.log"));
        let mut child = Command::new(program)
            .args(["-D", "-p", &port.to_string(), "-f", &lab.arg(&format!("{name}.conf")), "-E"])
            .arg(&log)
            .envs(environment.iter().copied())
            .stdin(Stdio::null())
            .stdout(Stdio::null())
            .stderr(Stdio::null())
            .spawn()
            .unwrap();
        let port = wait_for_port(&mut child, &log);
        lab.know(port);
        Self { child, port, log }
    }

    /// The port as text for command lines.
    pub fn port_arg(&self) -> String {
        self.port.to_string()
    }

    /// Returns the server's log.
    pub fn log(&self) -> String {
        std::fs::read_to_string(&self.log).unwrap_or_default()
    }

    /// Number of resumptions of sessions in the log.
    pub fn resumptions(&self) -> usize {
        self.log().matches(" resumed from ").count()
    }

    /// Waits until the log has at least this many resumptions of sessions. A resumed session carries data
    /// before its monitor writes that line.
    #[track_caller]
    pub fn await_resumptions(&self, least: usize) {
        eventually("the resumptions are logged", || self.resumptions() >= least);
    }

    /// Path of the server's log, for threads that outlive the test's server value.
    pub fn log_path(&self) -> &Path {
        &self.log
    }

    /// The listener's process id.
    pub fn pid(&self) -> u32 {
        self.child.id()
    }

    /// Kills the listener and all its sessions, as a machine does that fails. They are stopped first: a
    /// session whose monitor is gone would still tell its client that it ends.
    pub fn kill_with_sessions(self) {
        let family = process::family(self.pid());
        process::stop(&family);
        process::signal(&family, Signal::KILL);
    }
}

impl Drop for Lhsshd {
    fn drop(&mut self) {
        let _ = self.child.kill();
        let _ = self.child.wait();
        if std::thread::panicking() {
            eprintln!("--- server log\n{}", self.log());
        }
    }
}

fn unique() -> usize {
    static NEXT: std::sync::atomic::AtomicUsize = std::sync::atomic::AtomicUsize::new(0);
    NEXT.fetch_add(1, Ordering::Relaxed)
}

/// Waits for the log line `Server listening on … port N.`, the only announcement of the port.
fn wait_for_port(child: &mut Child, log: &Path) -> u16 {
    for _ in 0..3000 {
        if let Ok(file) = std::fs::File::open(log) {
            for line in BufReader::new(file).lines().map_while(Result::ok) {
                if let Some((_, rest)) = line.split_once("Server listening on 127.0.0.1 port ")
                    && let Ok(port) = rest.trim_end_matches('.').trim().parse()
                {
                    return port;
                }
            }
        }
        if let Ok(Some(status)) = child.try_wait() {
            panic!("lhsshd ended with {status}:\n{}", std::fs::read_to_string(log).unwrap_or_default());
        }
        std::thread::sleep(std::time::Duration::from_millis(20));
    }
    panic!("lhsshd logged no port:\n{}", std::fs::read_to_string(log).unwrap_or_default());
}

/// A server in inetd mode, one process per connection, behind a listener of ours.
pub struct Inetd {
    /// Port of 127.0.0.1 on which it listens.
    pub port: u16,
    stop: Arc<AtomicBool>,
    thread: Option<JoinHandle<()>>,
    log: std::path::PathBuf,
}

impl Inetd {
    /// Starts the system's `sshd -i` with the lab's keys and these additional configuration lines.
    pub fn openssh(lab: &Lab, sshd: &Path, config: &str) -> Self {
        let _ = std::fs::create_dir_all("/run/sshd");
        let name = format!("sshd-{}.conf", unique());
        let mut text = String::from(config);
        for key in ["host_ed25519", "host_rsa", "host_ecdsa"] {
            text.push_str(&format!("\nHostKey {}", lab.arg(key)));
        }
        text.push_str(&format!(
            "\nAuthorizedKeysFile {}\nPermitRootLogin yes\nStrictModes no\nUsePAM no\nPidFile none\nLogLevel VERBOSE\n\
             Subsystem sftp internal-sftp\n",
            lab.arg("authorized_keys")
        ));
        lab.write(&name, &text);
        Self::start(lab, sshd, &["-i".into(), "-e".into(), "-f".into(), lab.arg(&name)])
    }

    /// Starts dropbear in inetd mode with keys converted from the lab's.
    pub fn dropbear(lab: &Lab, dropbear: &Path, dropbearconvert: &Path, extra: &[&str]) -> Self {
        let mut args = vec!["-i".to_owned()];
        for key in ["host_ed25519", "host_rsa", "host_ecdsa"] {
            let ours = lab.arg(key);
            let theirs = lab.arg(&format!("{key}.dropbear"));
            // dropbearconvert reads both PEM and OpenSSH's own format since 2020.
            lab.run(dropbearconvert, &["openssh", "dropbear", &ours, &theirs]).ok("dropbearconvert");
            args.extend(["-r".to_owned(), theirs]);
        }
        args.extend(extra.iter().map(|&arg| arg.to_owned()));
        Self::start(lab, dropbear, &args)
    }

    /// Starts any program that uses the connection as its standard input and output.
    pub fn start(lab: &Lab, program: &Path, args: &[String]) -> Self {
        let listener = TcpListener::bind(("127.0.0.1", 0)).unwrap();
        let port = listener.local_addr().unwrap().port();
        let stop = Arc::new(AtomicBool::new(false));
        let log = lab.path(&format!("inetd-{}.log", unique()));
        let thread = {
            let (stop, log, program, args) =
                (Arc::clone(&stop), log.clone(), program.to_path_buf(), args.to_vec());
            let home = lab.path("home");
            std::thread::spawn(move || serve(&listener, &stop, &log, &program, &args, &home))
        };
        lab.know(port);
        Self { port, stop, thread: Some(thread), log }
    }

    /// The port as text for command lines.
    pub fn port_arg(&self) -> String {
        self.port.to_string()
    }

    /// Returns the standard error of the server's processes.
    pub fn log(&self) -> String {
        std::fs::read_to_string(&self.log).unwrap_or_default()
    }
}

impl Drop for Inetd {
    fn drop(&mut self) {
        self.stop.store(true, Ordering::Relaxed);
        // Wakes the listener.
        let _ = TcpStream::connect(("127.0.0.1", self.port));
        if let Some(thread) = self.thread.take() {
            let _ = thread.join();
        }
        if std::thread::panicking() {
            eprintln!("--- server log\n{}", self.log());
        }
    }
}

fn serve(
    listener: &TcpListener,
    stop: &AtomicBool,
    log: &Path,
    program: &Path,
    args: &[String],
    home: &Path,
) {
    let mut children: Vec<Child> = Vec::new();
    while let Ok((stream, _)) = listener.accept() {
        if stop.load(Ordering::Relaxed) {
            break;
        }
        let _ = stream.set_nodelay(true);
        let stderr = std::fs::OpenOptions::new().create(true).append(true).open(log);
        let (Ok(stdin), Ok(stderr)) = (stream.try_clone(), stderr) else { continue };
        let child = Command::new(program)
            .args(args)
            .env("HOME", home)
            .stdin(Stdio::from(OwnedFd::from(stdin)))
            .stdout(Stdio::from(OwnedFd::from(stream)))
            .stderr(Stdio::from(stderr))
            .spawn();
        children.extend(child);
        children.retain_mut(|child| matches!(child.try_wait(), Ok(None)));
    }
    for child in &mut children {
        let _ = child.kill();
        let _ = child.wait();
    }
}
