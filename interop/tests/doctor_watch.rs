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

/// The rate behind this word of a line, bytes/s.
#[track_caller]
fn rate(line: &str, direction: &str) -> f64 {
    let words: Vec<&str> = line.split_whitespace().collect();
    let at =
        words.iter().position(|word| *word == direction).unwrap_or_else(|| panic!("no {direction}: {line}"));
    let factor = match words[at + 2] {
        "B/s" => 1.0,
        "kB/s" => 1e3,
        "MB/s" => 1e6,
        "GB/s" => 1e9,
        other => panic!("no rate: {other}: {line}"),
    };
    words[at + 1].parse::<f64>().unwrap() * factor
}

/// What a download that is slow on purpose can have in a second, bytes/s.
const MOST: f64 = 25e6;

/// A sample of an end with these bytes received and sent.
fn sample(at: u64, received: u64, sent: u64, tcp: &serde_json::Value) -> String {
    let ssh = serde_json::json!({
        "bytes_in": received, "bytes_out": sent, "queued": 1500, "send_credit": 2_097_152, "receive_window": 4_194_304,
    });
    format!("{}\n", serde_json::json!({ "run": "1", "seconds": at, "ssh": ssh, "tcp": tcp }))
}

/// Files of metrics whose figures are known: the view has them, and says which end waits.
#[test]
fn watch_shows_the_figures_of_the_samples() {
    let lab = Lab::new();
    let about = |side: &str| {
        let about = serde_json::json!({
            "longhaul_metrics": 1, "run": "1", "side": side, "start": "2026-01-01T00:00:00Z", "host": "far.example",
            "peer": "SSH-2.0-x", "cipher": "aes128-gcm@openssh.com",
        });
        format!("{about}\n")
    };
    // The receiver, and a sender that waits for the receiver's window for nine tenths of the time.
    let here = serde_json::json!({
        "rtt": 20_000, "min_rtt": 10_000, "snd_cwnd": 10, "snd_mss": 1448, "unacked": 2, "snd_wnd": 65_000,
        "total_retrans": 3,
    });
    let there = |at: u64| {
        serde_json::json!({
            "rtt": 21_000, "min_rtt": 10_000, "snd_cwnd": 100, "snd_mss": 1448, "unacked": 60, "snd_wnd": 131_072,
            "total_retrans": 0, "busy_time": at * 1_000_000, "rwnd_limited": at * 900_000, "data_segs_out": at * 3500,
            "segs_out": at * 3500, "bytes_acked": at * 5_000_000,
        })
    };
    let both = |range: std::ops::Range<u64>, moved: fn(u64) -> u64| {
        let local: String = range.clone().map(|at| sample(at, moved(at), 100 * at, &here)).collect();
        let remote: String = range.map(|at| sample(at, 100 * at, moved(at), &there(at))).collect();
        (local, remote)
    };
    let (local, remote) = both(0..12, |at| at * 5_000_000);
    lab.write("m.local", &format!("{}{local}", about("local")));
    lab.write("m.remote", &format!("{}{remote}", about("remote")));
    let mut view = View::start(&[&lab.arg("m")]);
    let line = view.line_with(&["far.example"]);
    assert_eq!((rate(&line, "down"), rate(&line, "up")), (5e6, 100.0), "{line}");
    for words in [
        "SSH-2.0-x  aes128-gcm@openssh.com",
        "round trip 20.0 ms (least 10.0)",
        "congestion window 14.5 kB",
        "in flight 2.9 kB",
        "peer's window 65.0 kB",
        "sent again 0",
        "SSH output waiting 1.5 kB",
        "SSH window of the peer 2.1 MB",
        "SSH window here 4.2 MB",
    ] {
        assert!(line.contains(words), "{words}: {line}");
    }
    let waits = line.split_once(" | ").map(|(_, waits)| waits.trim()).expect("who waits");
    assert!(waits.contains("client") && waits.contains("window"), "{waits}");
    // The files grow, and nothing moves any more.
    let (local, remote) = both(12..40, |_| 55_000_000);
    for (name, more) in [("m.local", local), ("m.remote", remote)] {
        lab.write(name, &format!("{}{more}", lab.read(name)));
    }
    let line = view.line_with(&["| nothing moves"]);
    assert_eq!(rate(&line, "down"), 0.0, "{line}");
}

/// A program that is stopped leaves what arrives in its receive queue.
#[test]
fn watch_names_a_program_that_does_not_read() {
    const TEST: &str = "watch_names_a_program_that_does_not_read";
    if find("ss").is_none() {
        return skip(TEST, "no ss");
    }
    let download = Download::start();
    let port = download.server.port_arg();
    let mut view = View::start(&["-F", "none", "-P", &port, "127.0.0.1"]);
    view.line_with(&["down ", "MB/s"]);
    let pid = rustix::process::Pid::from_child(&download.client);
    rustix::process::kill_process(pid, rustix::process::Signal::STOP).unwrap();
    view.line_with(&["| the other end waits for the program here, which has not read"]);
    rustix::process::kill_process(pid, rustix::process::Signal::CONT).unwrap();
    view.line_with(&["down ", "MB/s", "| this end waits for the other one"]);
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
    assert!(rate(&line, "down") <= MOST, "{line}");
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
    assert!(rate(&line, "down") <= MOST, "{line}");
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
