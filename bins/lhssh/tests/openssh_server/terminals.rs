//! Sessions in a terminal: its size and modes, and the escapes.

use std::fs;
use std::io::{Read as _, Write as _};
use std::process::Child;

use super::{OpenSshSetup, lhssh};

/// A session in a terminal of its own.
struct Terminal {
    child: Child,
    master: fs::File,
    pty: lh_sys::pty::Pty,
    seen: String,
}

impl Terminal {
    fn start(setup: &OpenSshSetup, more: &[&str]) -> Self {
        let pty = lh_sys::pty::Pty::allocate().expect("a pseudo terminal");
        pty.resize(lh_sys::termios::Winsize { ws_row: 33, ws_col: 99, ws_xpixel: 0, ws_ypixel: 0 }).unwrap();
        let slave = || pty.open_slave().unwrap();
        let mut program = lh_sys::spawn::Program::new(lhssh());
        for arg in setup.args(more) {
            program = program.arg(arg);
        }
        let env = [
            ("HOME", setup.lab.arg("home")),
            ("TERM", "vt220".to_owned()),
            ("PATH", "/usr/bin:/bin".to_owned()),
        ];
        let env = env.into_iter().map(|(name, value)| (name.into(), value.into())).collect();
        let child =
            program.env(env).stdio(slave(), slave(), slave()).controlling_terminal().spawn().expect("lhssh");
        let master = fs::File::from(pty.try_clone_master().unwrap());
        lh_sys::fd::set_nonblocking(&master, false).unwrap();
        Self { child, master, pty, seen: String::new() }
    }

    fn type_in(&mut self, text: &str) {
        self.master.write_all(text.as_bytes()).unwrap();
    }

    /// Reads until `text` appears after the last match.
    fn expect(&mut self, text: &str) {
        let mut buffer = [0; 1024];
        let mut got = std::mem::take(&mut self.seen);
        loop {
            if let Some(at) = got.find(text) {
                self.seen = got[at + text.len()..].to_owned();
                return;
            }
            // On a pty, the end of the other side reads as an error.
            let n = self.master.read(&mut buffer).unwrap_or(0);
            assert!(n > 0, "{text:?} did not come, but {got:?}");
            got.push_str(&String::from_utf8_lossy(&buffer[..n]));
        }
    }

    fn status(mut self) -> i32 {
        self.child.wait().unwrap().code().unwrap_or(-1)
    }

    fn is_raw(&self) -> bool {
        let slave = self.pty.open_slave().unwrap();
        !rustix::termios::tcgetattr(&slave).unwrap().local_modes.contains(rustix::termios::LocalModes::ICANON)
    }
}

/// Covers: ssh -t
#[test]
fn terminal_size_and_mode_are_carried_over() {
    let Some(setup) = OpenSshSetup::new("lhssh_terminal", "") else { return };
    let mut terminal = Terminal::start(
        &setup,
        &[
            "-t",
            "there",
            "echo up; stty size; echo $TERM; until stty size | grep '40 120'; do sleep 0.1; done; read x; exit 5",
        ],
    );
    terminal.expect("up\r\n33 99\r\nvt220\r\n");
    assert!(terminal.is_raw());
    let size = lh_sys::termios::Winsize { ws_row: 40, ws_col: 120, ws_xpixel: 0, ws_ypixel: 0 };
    terminal.pty.resize(size).unwrap();
    // The size change is ordered before later input only once the signal has been handled.
    terminal.expect("40 120\r\n");
    terminal.type_in("\r");
    terminal.expect("Connection to 127.0.0.1 closed.");
    assert!(!terminal.is_raw(), "the terminal must be restored");
    assert_eq!(terminal.status(), 5);
}

#[test]
fn escapes_work_at_the_start_of_a_line() {
    let Some(setup) = OpenSshSetup::new("lhssh_escapes", "") else { return };
    let mut terminal = Terminal::start(&setup, &["-t", "there", "echo up; cat"]);
    terminal.expect("up\r\n");
    terminal.type_in("~?");
    terminal.expect("Supported escape sequences:\r\n");
    terminal.type_in("a~.\r");
    terminal.expect("a~.\r\na~.\r\n");
    terminal.type_in("~R~~x\r");
    terminal.expect("~x\r\n~x\r\n");
    terminal.type_in("~#");
    terminal.expect("The following connections are open:\r\n");
    terminal.type_in("~.");
    terminal.expect("~.\r\n");
    terminal.expect("Connection to 127.0.0.1 closed.");
    assert!(!terminal.is_raw());
    assert_eq!(terminal.status(), 255);

    let mut terminal =
        Terminal::start(&setup, &["-e", "none", "-t", "there", "echo up; read x; echo got:$x"]);
    terminal.expect("up\r\n");
    terminal.type_in("~.\r");
    terminal.expect("got:~.\r\n");
    assert_eq!(terminal.status(), 0);
}

/// Covers: ssh -t
#[test]
fn terminals_are_requested_only_when_usable() {
    let Some(setup) = OpenSshSetup::new("lhssh_no_terminal", "") else { return };
    let ran = setup.run(&["-t", "there", "tty"]);
    assert_eq!(ran.err, "Pseudo-terminal will not be allocated because stdin is not a terminal.\r\n");
    assert!(ran.text().contains("not a tty"), "{}", ran.text());
    let ran = setup.run(&["-tt", "there", "tty; exit 4"]);
    assert!(ran.text().starts_with("/dev/"), "{}", ran.text());
    assert_eq!(ran.code, 4);
}
