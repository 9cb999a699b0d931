//! File systems that stop answering: only the SFTP channel that uses them waits, not the rest of its
//! connection.

use std::io::{Read as _, Write as _};
use std::os::unix::ffi::OsStrExt as _;
use std::process::{Child, ChildStdin, ChildStdout, Command, Stdio};

use lh_interop::held_fs::HeldFs;
use lh_interop::process::below;
use lh_interop::sharing::SharingSetup;
use lh_interop::tunnel::{free_port, round_trip, sum_server};
use lh_interop::{eventually, our, skip_unavailable};
use rustix::event::{PollFd, PollFlags, Timespec, poll};

const CONTENT: &[u8] = b"what the file system holds";

/// A setup of our own client and server, and a file system that can be held.
fn setup(test: &str, config: &str) -> Option<(SharingSetup, HeldFs)> {
    let setup = SharingSetup::new(our("lhssh"), our("lhssh"), config);
    match HeldFs::mount(&setup.lab.path("held"), CONTENT) {
        Ok(held) => Some((setup, held)),
        Err(problem) => {
            skip_unavailable(test, &format!("no file system in user space can be mounted: {problem}"));
            None
        }
    }
}

/// SFTP by hand, over a master's connection.
struct Sftp {
    child: Child,
    input: ChildStdin,
    output: ChildStdout,
}

impl Sftp {
    fn start(setup: &SharingSetup) -> Self {
        let mut child = Command::new(&setup.client)
            .args(setup.args(&["-s", "@", "sftp"]))
            .env("HOME", setup.lab.path("home"))
            .stdin(Stdio::piped())
            .stdout(Stdio::piped())
            .spawn()
            .unwrap();
        let (input, output) = (child.stdin.take().unwrap(), child.stdout.take().unwrap());
        let mut sftp = Self { child, input, output };
        sftp.send(1, &3_u32.to_be_bytes());
        assert_eq!(sftp.heard()[0], 2, "VERSION");
        sftp
    }

    /// Opens the file for reading and writing; the handle.
    fn open(&mut self, held: &HeldFs) -> Vec<u8> {
        let path = string(held.file().as_os_str().as_bytes());
        self.send(3, &[&1_u32.to_be_bytes()[..], &path, &3_u32.to_be_bytes(), &[0; 4]].concat());
        let handle = self.heard();
        assert_eq!(handle[0], 102, "HANDLE: {handle:?}");
        handle[9..].to_vec()
    }

    /// Asks for the first bytes.
    fn ask(&mut self, id: u32, handle: &[u8]) {
        self.send(5, &[&id.to_be_bytes()[..], &string(handle), &[0; 8], &100_u32.to_be_bytes()].concat());
    }

    fn send(&mut self, kind: u8, body: &[u8]) {
        let length = u32::try_from(1 + body.len()).unwrap().to_be_bytes();
        self.input.write_all(&[&length[..], &[kind], body].concat()).unwrap();
    }

    fn heard(&mut self) -> Vec<u8> {
        let mut length = [0; 4];
        self.output.read_exact(&mut length).unwrap();
        let mut message = vec![0; u32::from_be_bytes(length) as usize];
        self.output.read_exact(&mut message).unwrap();
        message
    }

    fn is_silent(&self) -> bool {
        let mut fds = [PollFd::new(&self.output, PollFlags::IN)];
        poll(&mut fds, Some(&Timespec { tv_sec: 0, tv_nsec: 0 })) == Ok(0)
    }
}

impl Drop for Sftp {
    fn drop(&mut self) {
        let _ = self.child.kill();
        let _ = self.child.wait();
    }
}

fn string(bytes: &[u8]) -> Vec<u8> {
    [&u32::try_from(bytes.len()).unwrap().to_be_bytes()[..], bytes].concat()
}

/// What must go on while files hang: a command, a forward, and keepalives.
fn all_else_works(setup: &SharingSetup) {
    let ran = setup.run_mux_client(&["@", "echo alive"]);
    assert_eq!(ran.ok("a shell").text(), "alive\n");
    let (local, server) = (free_port(), sum_server());
    let to = format!("127.0.0.1:{local}:127.0.0.1:{server}");
    setup.run_mux_client(&["-O", "forward", "-L", &to, "@"]).ok("forward");
    round_trip(local, 3_000_000);
    let keepalives = || setup.server.log().matches("keepalive@openssh.com").count();
    let before = keepalives();
    eventually("the server answers two more keepalives", || keepalives() >= before + 2);
    // Answers, or the master would be gone.
    setup.run_mux_client(&["-O", "check", "@"]).ok("check");
}

const ALIVE: [&str; 4] = ["-o", "ServerAliveInterval=1", "-o", "ServerAliveCountMax=30"];

/// Covers: sshd_config Subsystem
#[test]
fn a_hung_file_stops_nothing_but_its_own_channel() {
    let Some((setup, held)) = setup("hung_files", "LogLevel DEBUG") else { return };
    let _master = setup.start_master(&ALIVE);
    let mut sftp = Sftp::start(&setup);
    let handle = sftp.open(&held);
    held.hold();
    sftp.ask(7, &handle);
    sftp.ask(8, &handle);
    eventually("the read waits for the file system", || held.waiting() > 0);
    all_else_works(&setup);
    // Another SFTP channel, with files elsewhere and with the same one.
    let other = Sftp::start(&setup);
    drop(other);
    assert!(held.waiting() > 0 && sftp.is_silent(), "the read was to wait all the time");
    held.release();
    for id in [7_u32, 8] {
        let data = sftp.heard();
        assert_eq!((data[0], &data[1..5], &data[9..]), (103, &id.to_be_bytes()[..], CONTENT));
    }
    assert_eq!(setup.logins(), 1);
}

#[test]
fn a_write_that_hangs_is_carried_out_later() {
    let Some((setup, held)) = setup("hung_write", "") else { return };
    let _master = setup.start_master(&[]);
    let mut sftp = Sftp::start(&setup);
    let handle = sftp.open(&held);
    held.hold();
    let write = |id: u32, at: u64, data: &[u8]| {
        [&id.to_be_bytes()[..], &string(&handle), &at.to_be_bytes(), &string(data)].concat()
    };
    let (first, second) = (write(1, 0, b"WHAT"), write(2, 2, b"en"));
    sftp.send(6, &first);
    sftp.send(6, &second);
    eventually("the write waits for the file system", || held.waiting() > 0);
    assert_eq!(setup.run_mux_client(&["@", "echo alive"]).ok("a shell").text(), "alive\n");
    held.release();
    for id in [1_u32, 2] {
        let status = sftp.heard();
        assert_eq!((status[0], &status[1..5], &status[5..9]), (101, &id.to_be_bytes()[..], &[0; 4][..]));
    }
    assert_eq!(held.content(), b"WHen the file system holds"[..]);
}

#[test]
fn closing_a_hung_file_stops_nothing_else() {
    let Some((setup, held)) = setup("hung_close", "LogLevel DEBUG") else { return };
    let _master = setup.start_master(&ALIVE);
    let mut sftp = Sftp::start(&setup);
    sftp.open(&held);
    held.hold();
    // The client goes, and the server closes the file.
    drop(sftp);
    eventually("the close waits for the file system", || held.waiting() > 0);
    all_else_works(&setup);
}

#[test]
fn a_session_with_a_hung_file_ends_with_its_connection() {
    // With `ResumeGrace` it would wait for the client.
    let Some((setup, held)) = setup("hung_end", "ResumeGrace 0\n") else { return };
    let mut master = setup.start_master(&[]);
    let mut sftp = Sftp::start(&setup);
    let handle = sftp.open(&held);
    held.hold();
    sftp.ask(1, &handle);
    eventually("the read waits for the file system", || held.waiting() > 0);
    assert!(!below(setup.server.pid()).is_empty());
    master.0.kill().unwrap();
    eventually("no process of the session is left", || below(setup.server.pid()).is_empty());
    assert!(held.waiting() > 0, "the file system was not to answer");
    // And the server serves others.
    std::fs::remove_file(setup.socket()).unwrap();
    let _master = setup.start_master(&[]);
    assert_eq!(setup.run_mux_client(&["@", "echo alive"]).ok("a shell").text(), "alive\n");
}
