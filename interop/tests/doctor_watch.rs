//! `longhaul doctor --watch`: a live view of other programs' connections.

use std::io::{BufRead as _, BufReader};
use std::process::{Child, ChildStdout, Command, Stdio};

use lh_interop::{Lab, Lhsshd, Terminal, eventually, find, is_root, our, skip};

/// A download that goes on, with its metrics in `m.local` and `m.remote`.
struct Download {
    lab: Lab,
    client: Child,
    server: Lhsshd,
}

impl Download {
    fn start() -> Self {
        let lab = Lab::new();
        let server = Lhsshd::start(&lab, "");
        let mut command = Command::new(our("lhssh"));
        command.args(lab.client_options()).args(["-p", &server.port_arg()]);
        command.args(["-o", "Metrics=yes", "-o", &format!("MetricsPath={}", lab.arg("m"))]);
        command.args(["-o", "MetricsInterval=1"]);
        // Slow, so that the rest of the machine is not slowed down.
        command.args(["127.0.0.1", "while head -c 1000000 /dev/zero; do sleep 0.1; done"]);
        let client = command.stdin(Stdio::null()).stdout(Stdio::null()).stderr(Stdio::null());
        let client = client.spawn().unwrap();
        Self { lab, client, server }
    }

    fn pid(&self) -> String {
        self.client.id().to_string()
    }

    fn end(&mut self) {
        let _ = self.client.kill();
        let _ = self.client.wait();
    }
}

impl Drop for Download {
    fn drop(&mut self) {
        self.end();
    }
}

/// A view in lines.
struct View(Child, BufReader<ChildStdout>);

impl View {
    fn start(args: &[&str]) -> Self {
        let mut command = Command::new(our("longhaul"));
        command.args(["doctor", "--watch"]).args(args);
        let mut child = command.stdin(Stdio::null()).stdout(Stdio::piped()).spawn().unwrap();
        let out = BufReader::new(child.stdout.take().unwrap());
        Self(child, out)
    }

    /// The next line that has all these words.
    #[track_caller]
    fn line_with(&mut self, words: &[&str]) -> String {
        let mut all = String::new();
        for _ in 0..60 {
            let mut line = String::new();
            self.1.read_line(&mut line).unwrap();
            if words.iter().all(|word| line.contains(word)) {
                return line;
            }
            assert!(!line.is_empty(), "the view has ended: {all}");
            all.push_str(&line);
        }
        panic!("no line with {words:?}: {all}");
    }
}

impl Drop for View {
    fn drop(&mut self) {
        let _ = self.0.kill();
        let _ = self.0.wait();
    }
}

/// Covers: longhaul --watch
#[test]
fn watch_follows_a_file_of_metrics() {
    let download = Download::start();
    eventually("samples", || download.lab.path("m.local").exists());
    let mut view = View::start(&[&download.lab.arg("m")]);
    let line = view.line_with(&["down ", "MB/s", "round trip"]);
    assert!(
        line.contains("SSH-2.0-Longhaul") && line.contains("SSH window here") && line.contains(" | "),
        "{line}"
    );
}

#[test]
fn watch_ends_with_the_process_it_shows() {
    let mut download = Download::start();
    if !is_root() {
        return skip("watch_ends_with_the_process_it_shows", "looking into another process needs root");
    }
    let mut view = View::start(&[&download.pid()]);
    let line = view.line_with(&["down ", "MB/s"]);
    assert!(line.contains(&format!("127.0.0.1:{}", download.server.port)), "{line}");
    download.end();
    assert!(view.0.wait().unwrap().success());
    let gone = download.lab.run(&our("longhaul"), &["doctor", "--watch", &download.pid()]);
    assert!(gone.code == 255 && gone.err.contains("No such process"), "{}", gone.err);
}

#[test]
fn watch_finds_connections_to_a_host() {
    if find("ss").is_none() {
        return skip("watch_finds_connections_to_a_host", "no ss");
    }
    let mut download = Download::start();
    let port = download.server.port_arg();
    let mut view = View::start(&["-F", "none", "-P", &port, "127.0.0.1"]);
    let line = view.line_with(&["down ", "MB/s", "arrived and not read"]);
    assert!(line.contains(&format!("to 127.0.0.1:{port}")), "{line}");
    download.end();
    view.line_with(&["no connection to 127.0.0.1 port"]);
}

#[test]
fn watch_leaves_the_terminal_as_it_was() {
    let download = Download::start();
    eventually("samples", || download.lab.path("m.local").exists());
    let lab = &download.lab;
    let modes = "stty -g";
    let script = format!(
        "{modes} >before; '{}' doctor --watch m; echo status=$?; {modes} >after",
        our("longhaul").display()
    );
    let mut terminal = Terminal::start(&find("sh").unwrap(), &["-c", &script], lab.dir(), lab.dir());
    terminal.expect("\x1b[?1049h");
    terminal.expect("MB/s");
    // Redrawn for the new size: no line is wider.
    terminal.resize(24, 50);
    // What was drawn before, and what was drawn while it changed, passes.
    for _ in 0..2 {
        terminal.expect("\x1b[H");
    }
    terminal.expect("\x1b[H");
    let drawn = terminal.expect("\x1b[J");
    let drawn = drawn.replace("\x1b[K", "").replace("\x1b[J", "");
    assert!(drawn.lines().all(|line| line.trim_end().chars().count() < 50), "{drawn}");
    terminal.send("q");
    terminal.expect("\x1b[?25h\x1b[?1049l");
    terminal.expect("status=0");
    assert_eq!(terminal.wait(), 0);
    assert_eq!(lab.read("before"), lab.read("after"));
}

#[test]
fn watch_ends_with_an_interrupt() {
    let download = Download::start();
    eventually("samples", || download.lab.path("m.local").exists());
    let lab = &download.lab;
    let mut terminal =
        Terminal::start(&our("longhaul"), &["doctor", "--watch", "m.remote"], lab.dir(), lab.dir());
    terminal.expect("MB/s");
    terminal.send("\x03");
    terminal.expect("\x1b[?1049l");
    assert_eq!(terminal.wait(), 130);
    let bad = |args: &[&str]| lab.run(&our("longhaul"), &[&["doctor", "--watch"], args].concat()).code;
    assert_eq!((bad(&[]), bad(&["--json", "m"]), bad(&["./no/file"])), (2, 2, 255));
}
