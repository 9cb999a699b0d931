//! What users at a terminal see while the connection of their session is away, and how they end it
//! (`Resume`).

use std::sync::Arc;
use std::sync::atomic::{AtomicBool, AtomicUsize, Ordering};

use lh_interop::cuts::{Break, Cuts};
use lh_interop::tunnel::free_port;
use lh_interop::{Lab, Lhsshd, Terminal, eventually, me, our};
use rustix::process::{Pid, Signal, kill_process};

/// Number of files in the directory that is listed: the listing is longer than [`CUT`].
const FILES: usize = 2000;

/// Bytes after which the first connection breaks: after the login.
const CUT: u64 = 40_000;

/// Returns the name of one of the files: a long one.
fn name(number: usize) -> String {
    format!("file-{number:0100}")
}

/// A server, and a relay whose first connection breaks, and that leads nowhere then, until it is open.
struct OutageSetup {
    lab: Lab,
    _server: Lhsshd,
    cuts: Cuts,
    is_open: Arc<AtomicBool>,
    /// Connections after the first one.
    attempts: Arc<AtomicUsize>,
}

impl OutageSetup {
    fn new() -> Self {
        Self::with_break(Break::Reset)
    }

    fn with_break(how: Break) -> Self {
        let lab = Lab::new();
        let server = Lhsshd::start(&lab, "ResumeGrace 10m\n");
        let (is_open, attempts) = (Arc::new(AtomicBool::new(false)), Arc::new(AtomicUsize::new(0)));
        let (open, count) = (Arc::clone(&is_open), Arc::clone(&attempts));
        let (port, nowhere) = (server.port, free_port());
        let later = std::iter::from_fn(move || {
            count.fetch_add(1, Ordering::AcqRel);
            Some(if open.load(Ordering::Acquire) { port } else { nowhere })
        });
        let cuts = Cuts::to_each(std::iter::once(port).chain(later), vec![(CUT, how)]);
        lab.know(cuts.port);
        let many = lab.path("many");
        std::fs::create_dir(&many).unwrap();
        for number in 0..FILES {
            std::fs::write(many.join(name(number)), "").unwrap();
        }
        Self { lab, _server: server, cuts, is_open, attempts }
    }

    /// Starts a program on a terminal, from a shell that shows its status and the modes of the terminal.
    fn start(&self, program: &str, words: &[&str]) -> Terminal {
        let script = "trap : INT HUP; \
             sh -c 'echo $$ > pid.new; mv pid.new pid; exec \"$@\"' sh \"$@\"; \
             echo \"status $?\"; stty -a | tr '\\n' ' '; echo over";
        let mut args = vec!["-c".to_owned(), script.to_owned(), "sh".to_owned()];
        args.push(our(program).to_string_lossy().into_owned());
        args.extend(self.lab.client_options());
        args.extend([if program == "lhssh" { "-p" } else { "-P" }.to_owned(), self.cuts.port.to_string()]);
        args.extend(words.iter().map(|&word| word.to_owned()));
        Terminal::start("/bin/sh".as_ref(), &args, self.lab.dir(), &self.lab.path("home"))
    }

    /// Starts `lhsftp`, waits for its prompt and types `keys`.
    fn prompt(&self, keys: &str) -> Terminal {
        let to = format!("{}@127.0.0.1:{}", me(), self.lab.arg("many"));
        let mut terminal = self.start("lhsftp", &[&to]);
        terminal.expect("sftp> ");
        terminal.send(keys);
        terminal
    }

    fn signal(&self, signal: Signal) {
        let pid: i32 = std::fs::read_to_string(self.lab.path("pid")).unwrap().trim().parse().unwrap();
        kill_process(Pid::from_raw(pid).unwrap(), signal).unwrap();
    }
}

/// Waits for the end of the program, with this status, and checks that the terminal is as it was.
#[track_caller]
fn ends(mut terminal: Terminal, status: u8) {
    terminal.expect(&format!("status {status}\r\n"));
    let modes = terminal.expect("over\r\n");
    for mode in ["icanon", "isig", "echo"] {
        assert!(modes.contains(&format!(" {mode} ")), "{mode}: {modes}");
    }
}

/// During a command and during a completion, for which the terminal has other modes.
///
/// Covers: ssh_config Resume
#[test]
fn a_user_ends_sftp_that_is_away() {
    for keys in ["ls\r", "ls f\t"] {
        let setup = OutageSetup::new();
        let mut terminal = setup.prompt(keys);
        terminal.expect("connection lost; reconnecting for ");
        terminal.expect(", ^C ends it");
        terminal.send("\u{3}");
        ends(terminal, 130);
    }
}

/// Covers: ssh_config Resume
#[test]
fn a_signal_ends_sftp_that_is_away() {
    for signal in [Signal::TERM, Signal::HUP] {
        let setup = OutageSetup::new();
        let mut terminal = setup.prompt("ls\r");
        terminal.expect("connection lost; reconnecting for ");
        setup.signal(signal);
        ends(terminal, 128 + signal.as_raw() as u8);
    }
}

/// The terminal has other modes while a line is edited.
///
/// Covers: lhsftp -q (signals)
#[test]
fn a_signal_at_the_sftp_prompt_restores_the_terminal() {
    let setup = OutageSetup::new();
    let mut terminal = setup.prompt("pw");
    terminal.expect("pw");
    setup.signal(Signal::TERM);
    ends(terminal, 143);
}

/// The command goes on when the connection is back, and the line is erased.
///
/// Covers: ssh_config Resume
#[test]
fn a_listing_appears_when_the_connection_is_back() {
    let setup = OutageSetup::new();
    let mut terminal = setup.prompt("ls -1\r");
    terminal.expect("connection lost; reconnecting for ");
    setup.is_open.store(true, Ordering::Release);
    terminal.expect(&format!("{}\r\n", name(FILES - 1)));
    terminal.expect("sftp> ");
    let screen = terminal.screen();
    let (_, behind) = screen.rsplit_once("ends it\u{1b}8").unwrap();
    assert!(behind.starts_with(&format!("\u{1b}[J{}\r\n", name(0))), "{:?}", behind.get(..200));
    terminal.send("bye\r");
    ends(terminal, 0);
}

/// Covers: ssh_config Resume; lhsftp -b
#[test]
fn batches_say_nothing_of_a_lost_connection() {
    let setup = OutageSetup::new();
    setup.lab.write("batch", &format!("ls {}\n", setup.lab.arg("many")));
    let to = format!("{}@127.0.0.1", me());
    let mut terminal = setup.start("lhsftp", &["-b", &setup.lab.arg("batch"), &to]);
    eventually("attempts to reach the host", || setup.attempts.load(Ordering::Acquire) > 4);
    setup.is_open.store(true, Ordering::Release);
    let screen = terminal.expect("status 0\r\n");
    assert!(!screen.contains("connection lost"), "{screen}");
}

/// Without a terminal at the server, where keys are echoed here.
///
/// Covers: ssh_config Resume; ssh -T
#[test]
fn a_command_that_is_away_says_so_on_a_terminal() {
    for is_back in [true, false] {
        let setup = OutageSetup::new();
        let command = format!("ls {}; echo all of $((40+2))", setup.lab.arg("many"));
        let mut terminal = setup.start("lhssh", &["-T", &format!("{}@127.0.0.1", me()), &command]);
        terminal.expect("connection lost; reconnecting for ");
        terminal.expect(", ^C ends it");
        if is_back {
            setup.is_open.store(true, Ordering::Release);
            terminal.expect("all of 42");
            ends(terminal, 0);
        } else {
            terminal.send("\u{3}");
            ends(terminal, 255);
        }
    }
}

/// The line is written over the screen of a program such as an editor, which hears of another size of its
/// terminal and draws the screen again. It is the same size in the end.
///
/// Covers: ssh_config Resume; ssh -t
#[test]
fn a_program_draws_its_screen_again_after_an_outage() {
    let setup = OutageSetup::new();
    let many = setup.lab.arg("many");
    let draw = "echo drawn with $(stty size) $((40+2))";
    let command = format!("trap '{draw}' WINCH; {draw}; ls {many}; while sleep 0.1; do :; done");
    let mut terminal = setup.start("lhssh", &["-tt", &format!("{}@127.0.0.1", me()), &command]);
    let first = terminal.expect(" 42\r\n");
    terminal.expect("connection lost; reconnecting for ");
    setup.is_open.store(true, Ordering::Release);
    terminal.expect(&name(FILES - 1));
    terminal.expect("drawn with ");
    let again = terminal.expect(" 42\r\n");
    assert!(first.ends_with(&again), "{first:?} {again:?}");
    terminal.send("\r~.");
    ends(terminal, 255);
}

/// The path is silent: attempts begin within seconds, and no keepalive ends the connection for an hour.
///
/// Covers: ssh_config Resume
#[test]
fn a_silent_connection_is_reported_on_a_terminal() {
    let setup = OutageSetup::with_break(Break::Silence);
    let command = format!("ls {}; echo all of $((40+2))", setup.lab.arg("many"));
    let alive = "ServerAliveInterval=3600";
    let mut terminal = setup.start("lhssh", &["-o", alive, "-T", &format!("{}@127.0.0.1", me()), &command]);
    terminal.expect("connection lost; reconnecting for ");
    terminal.expect(", ^C ends it");
    setup.is_open.store(true, Ordering::Release);
    terminal.expect("all of 42");
    ends(terminal, 0);
}

/// Once the line is there, no other connection is made to tell the server that the session ends.
///
/// Covers: ssh_config Resume
#[test]
fn a_user_does_not_wait_for_a_silent_host() {
    let setup = OutageSetup::with_break(Break::Silence);
    let command = format!("ls {}; sleep 600", setup.lab.arg("many"));
    let options = ["-v", "-o", "ServerAliveInterval=3600", "-T"];
    let host = format!("{}@127.0.0.1", me());
    let mut terminal = setup.start("lhssh", &[&options[..], &[&host, &command]].concat());
    terminal.expect(", ^C ends it");
    terminal.send("\u{3}");
    let text = terminal.expect("status 255\r\n");
    assert!(!text.contains("connecting again to end the session"), "{text}");
}
