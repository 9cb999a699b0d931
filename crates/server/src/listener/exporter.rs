//! `PrometheusListen`: serves the counters over HTTP.
//!
//! This is the one exception to the listener's rule of reading nothing from the network, and it is kept
//! small. It parses only the first line of a request, up to a bound, and closes the connection after each
//! answer. It serves few clients at a time, never blocks on one, and drops slow ones, at once where another
//! client needs the place.

use std::fmt::Write as _;
use std::io::{self, ErrorKind, Read, Write};
use std::net::{SocketAddr, TcpListener, TcpStream};
use std::os::fd::{AsFd, BorrowedFd};
use std::time::{Duration, Instant};

use rustix::event::{PollFd, PollFlags};

use crate::counters::{Counters, ROWS};
use crate::hand_over::HandOver;
use crate::log::{Log, error, info};
use crate::penalties::Offence;

/// Largest number of connections at a time.
const MOST_CLIENTS: usize = 8;
/// Largest number of connections that are accepted before the listener does something else.
const MOST_ACCEPTED: usize = 16;
/// Largest size of a request with its headers, bytes.
const LONGEST_REQUEST: usize = 8 * 1024;
/// Longest time for a client's request and answer.
const TIMEOUT: Duration = Duration::from_secs(5);

/// Counters of the listener itself.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
pub(super) struct ListenerCounters {
    pub(super) accepted: u64,
    pub(super) throttled: u64,
    pub(super) penalised: u64,
    pub(super) logged_in: u64,
    pub(super) refused: u64,
    pub(super) invalid_user: u64,
    pub(super) timed_out: u64,
    pub(super) crashed: u64,
    pub(super) errors: u64,
    /// Sums of the counters that sessions have reported.
    pub(super) sessions: Counters,
}

impl ListenerCounters {
    /// Counts the end of a session.
    pub(super) const fn ended(&mut self, offence: Option<&Offence>, authenticated: bool) {
        match offence {
            Some(Offence::Crash) => self.crashed += 1,
            _ if authenticated => {}
            Some(Offence::AuthFail) => self.refused += 1,
            Some(Offence::InvalidUser) => self.invalid_user += 1,
            Some(Offence::GraceExceeded) => self.timed_out += 1,
            Some(Offence::NoAuth | Offence::Refused) | None => {}
        }
    }
}

/// Current numbers of sessions.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
pub(super) struct SessionGauges {
    pub(super) sessions: usize,
    pub(super) unauthenticated: usize,
}

struct Client {
    stream: TcpStream,
    request: Vec<u8>,
    answer: Vec<u8>,
    sent: usize,
    deadline: Instant,
}

/// The listening socket and its clients.
pub(super) struct Exporter {
    socket: TcpListener,
    clients: Vec<Client>,
    pub(super) seen: ListenerCounters,
}

impl Exporter {
    /// Starts to listen, where the configuration asks for it. If that fails, the server runs without: logins
    /// are more important.
    pub(super) fn start(hand_over: &HandOver, log: &Log) -> Option<Self> {
        let address = hand_over.config.prometheus_listen.value.0?;
        match Self::bind(address).and_then(|exporter| Ok((exporter.address()?, exporter))) {
            Ok((address, exporter)) => {
                info!(log, "Counters at http://{address}/metrics");
                Some(exporter)
            }
            Err(problem) => {
                error!(log, "PrometheusListen {address}: {problem}");
                None
            }
        }
    }

    /// Listens on `address`.
    ///
    /// # Errors
    /// The address is in use, or does not belong to this machine.
    pub(super) fn bind(address: SocketAddr) -> io::Result<Self> {
        let socket = TcpListener::bind(address)?;
        socket.set_nonblocking(true)?;
        Ok(Self { socket, clients: Vec::new(), seen: ListenerCounters::default() })
    }

    /// Returns the address of the listening socket.
    pub(super) fn address(&self) -> io::Result<SocketAddr> {
        self.socket.local_addr()
    }

    /// Adds the descriptors to poll.
    pub(super) fn interests<'a>(&'a self, out: &mut Vec<PollFd<'a>>) {
        out.push(PollFd::from_borrowed_fd(self.socket.as_fd(), PollFlags::IN));
        for client in &self.clients {
            let what = if client.answer.is_empty() { PollFlags::IN } else { PollFlags::OUT };
            out.push(PollFd::from_borrowed_fd(fd(&client.stream), what));
        }
    }

    /// Returns the time at which the next client is too slow.
    pub(super) fn deadline(&self) -> Option<Instant> {
        self.clients.iter().map(|client| client.deadline).min()
    }

    /// Serves the clients that are ready, and drops late ones. At the limit of clients, a new one takes the
    /// place of the oldest one without a complete request: idle connections must not keep readers out.
    pub(super) fn serve(&mut self, present: SessionGauges, now: Instant) {
        let seen = self.seen;
        self.clients.retain_mut(|client| client.deadline > now && client.advance(&seen, present));
        for _ in 0..MOST_ACCEPTED {
            let Ok((stream, _)) = self.socket.accept() else { break };
            if stream.set_nonblocking(true).is_err() {
                continue;
            }
            let (request, answer) = (Vec::new(), Vec::new());
            let mut client = Client { stream, request, answer, sent: 0, deadline: now + TIMEOUT };
            // Most requests have arrived with the connection, and need no place.
            if client.advance(&seen, present) {
                self.make_place();
                self.clients.push(client);
            }
        }
    }

    /// Closes a connection if there are as many as there may be.
    fn make_place(&mut self) {
        if self.clients.len() >= MOST_CLIENTS {
            // Clients are in the order in which they came.
            let idle = self.clients.iter().position(|client| client.answer.is_empty());
            self.clients.remove(idle.unwrap_or(0));
        }
    }
}

fn fd(stream: &TcpStream) -> BorrowedFd<'_> {
    stream.as_fd()
}

impl Client {
    /// Reads and writes without blocking; returns false when the client's connection should be closed.
    fn advance(&mut self, seen: &ListenerCounters, present: SessionGauges) -> bool {
        while self.answer.is_empty() {
            let mut buffer = [0; 1024];
            match self.stream.read(&mut buffer) {
                Ok(0) => return false,
                Ok(n) => self.request.extend_from_slice(buffer.get(..n).unwrap_or_default()),
                Err(error) => return waits(&error),
            }
            let whole = self.request.windows(4).any(|end| end == b"\r\n\r\n");
            if whole || self.request.len() > LONGEST_REQUEST {
                self.answer = answer(&self.request, whole, seen, present);
            }
        }
        while let Some(rest) = self.answer.get(self.sent..).filter(|rest| !rest.is_empty()) {
            match self.stream.write(rest) {
                Ok(n) => self.sent += n,
                Err(error) => return waits(&error),
            }
        }
        false
    }
}

fn waits(error: &io::Error) -> bool {
    matches!(error.kind(), ErrorKind::WouldBlock | ErrorKind::Interrupted)
}

/// Returns the HTTP answer to a request.
fn answer(request: &[u8], whole: bool, seen: &ListenerCounters, present: SessionGauges) -> Vec<u8> {
    let line = request.split(|byte| *byte == b'\r').next().unwrap_or_default();
    let mut words = line.split(|byte| *byte == b' ');
    let (method, target) = (words.next().unwrap_or_default(), words.next().unwrap_or_default());
    let path = target.split(|byte| *byte == b'?').next().unwrap_or_default();
    let (status, kind, body) = match (whole, method, path) {
        (false, ..) => ("431 Request Header Fields Too Large", "text/plain", "too long\n".to_owned()),
        (true, b"GET" | b"HEAD", b"/metrics") => {
            ("200 OK", "text/plain; version=0.0.4; charset=utf-8", exposition(seen, present))
        }
        (true, b"GET" | b"HEAD", _) => ("404 Not Found", "text/plain", "see /metrics\n".to_owned()),
        _ => ("405 Method Not Allowed", "text/plain", "GET only\n".to_owned()),
    };
    let length = body.len();
    let head = format!(
        "HTTP/1.1 {status}\r\nContent-Type: {kind}\r\nContent-Length: {length}\r\nConnection: close\r\n\r\n"
    );
    let mut answer = head.into_bytes();
    if method != b"HEAD" {
        answer.extend_from_slice(body.as_bytes());
    }
    answer
}

/// Returns the counters in Prometheus's text format.
fn exposition(seen: &ListenerCounters, present: SessionGauges) -> String {
    let mut out = String::with_capacity(4096);
    let mut last = "";
    let mut row = |name: &'static str, kind: &str, labels: &str, help: &str, value: u64| {
        if name != last {
            last = name;
            let _ = writeln!(out, "# HELP lhsshd_{name} {help}\n# TYPE lhsshd_{name} {kind}");
        }
        let _ = writeln!(out, "lhsshd_{name}{labels} {value}");
    };
    let version = concat!("{version=\"", env!("CARGO_PKG_VERSION"), "\"}");
    row("build_info", "gauge", version, "Always 1.", 1);
    row("sessions", "gauge", "", "Connections that are open.", present.sessions as u64);
    let text = "Connections that are open and have not logged in.";
    row("unauthenticated_sessions", "gauge", "", text, present.unauthenticated as u64);
    row("connections_total", "counter", "", "Connections that were accepted.", seen.accepted);
    let text = "Connections that were turned away.";
    for (why, value) in [("startups", seen.throttled), ("penalty", seen.penalised)] {
        row("refused_connections_total", "counter", &format!("{{reason=\"{why}\"}}"), text, value);
    }
    let text = "How logins went.";
    for (result, value) in [
        ("success", seen.logged_in),
        ("failure", seen.refused),
        ("invalid_user", seen.invalid_user),
        ("timeout", seen.timed_out),
    ] {
        row("authentications_total", "counter", &format!("{{result=\"{result}\"}}"), text, value);
    }
    row("session_crashes_total", "counter", "", "Session processes that crashed.", seen.crashed);
    let text = "Connections for which no session process could be started.";
    row("errors_total", "counter", "", text, seen.errors);
    for ((name, labels, help), value) in seen.sessions.rows() {
        row(name, "counter", labels, help, value);
    }
    debug_assert_eq!(ROWS.len(), seen.sessions.rows().count());
    out
}

/// Counts an event, where `PrometheusListen` is set.
pub(super) fn count(exporter: &mut Option<Exporter>, what: impl FnOnce(&mut ListenerCounters)) {
    if let Some(exporter) = exporter {
        what(&mut exporter.seen);
    }
}

/// Answers a request. Only one for the counters gets them.
#[cfg(fuzzing)]
pub(super) fn fuzz(request: &[u8]) {
    let is_whole = request.windows(4).any(|end| end == b"\r\n\r\n");
    let answer = answer(request, is_whole, &ListenerCounters::default(), SessionGauges::default());
    assert!(answer.starts_with(b"HTTP/1.1 "));
    let has_counters = answer.windows(7).any(|part| part == b"lhsshd_");
    assert!(!has_counters || request.starts_with(b"GET /metrics"), "counters for another request");
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::counters::Counter;

    fn ask(exporter: &mut Exporter, request: &[u8]) -> String {
        ask_at(exporter, request, Instant::now())
    }

    /// Asks while it is `now` for the exporter.
    fn ask_at(exporter: &mut Exporter, request: &[u8], now: Instant) -> String {
        let mut stream = TcpStream::connect(exporter.address().unwrap()).unwrap();
        stream.write_all(request).unwrap();
        stream.set_read_timeout(Some(Duration::from_millis(10))).unwrap();
        let mut got = Vec::new();
        let present = SessionGauges { sessions: 3, unauthenticated: 1 };
        for _ in 0..1000 {
            exporter.serve(present, now);
            match stream.read_to_end(&mut got) {
                Ok(_) => return String::from_utf8(got).unwrap(),
                // The server did not read the rest of an overlong request, so it closed with a reset.
                Err(error) if error.kind() == ErrorKind::ConnectionReset => {
                    return String::from_utf8(got).unwrap();
                }
                Err(_) => {}
            }
        }
        panic!("no answer");
    }

    #[test]
    fn requests_get_the_counters_and_nothing_else() {
        let mut exporter = Exporter::bind(([127, 0, 0, 1], 0).into()).unwrap();
        exporter.seen.accepted = 7;
        exporter.seen.sessions.add(Counter::UploadBytes, 1000);
        let text = ask(&mut exporter, b"GET /metrics?x HTTP/1.1\r\nHost: x\r\n\r\n");
        assert!(text.starts_with("HTTP/1.1 200 OK\r\n"), "{text}");
        for line in [
            "lhsshd_connections_total 7",
            "lhsshd_sessions 3",
            "lhsshd_file_bytes_total{direction=\"upload\"} 1000",
            "lhsshd_authentications_total{result=\"success\"} 0",
        ] {
            assert!(text.lines().any(|known| known == line), "{line} in {text}");
        }
        assert_eq!(text.matches("# TYPE lhsshd_files_total counter").count(), 1);
        let (head, body) = text.split_once("\r\n\r\n").unwrap();
        assert!(head.contains(&format!("Content-Length: {}", body.len())));
        assert!(ask(&mut exporter, b"GET / HTTP/1.0\r\n\r\n").starts_with("HTTP/1.1 404"));
        assert!(ask(&mut exporter, b"POST /metrics HTTP/1.0\r\n\r\n").starts_with("HTTP/1.1 405"));
        assert!(!ask(&mut exporter, b"HEAD /metrics HTTP/1.0\r\n\r\n").contains("lhsshd_"));
        let long = [&b"GET /metrics HTTP/1.1\r\nX: "[..], &[b'x'; LONGEST_REQUEST + 1000]].concat();
        let text = ask(&mut exporter, &long);
        assert!(text.is_empty() || text.starts_with("HTTP/1.1 431"), "{text}");
        assert!(exporter.clients.is_empty());
    }

    #[test]
    fn idle_clients_keep_no_reader_out() {
        let mut exporter = Exporter::bind(([127, 0, 0, 1], 0).into()).unwrap();
        let address = exporter.address().unwrap();
        let now = Instant::now();
        let mut connect = || {
            let stream = TcpStream::connect(address).unwrap();
            exporter.serve(SessionGauges::default(), now);
            stream
        };
        let mut idle: Vec<_> = (0..MOST_CLIENTS).map(|_| connect()).collect();
        // The reader's request comes later, so that it needs a place.
        let mut reader = connect();
        // Only the oldest has lost its place.
        idle[0].set_read_timeout(Some(crate::testing::LATE)).unwrap();
        assert_eq!(idle.remove(0).read(&mut [0]).unwrap(), 0);
        for other in &idle {
            other.set_nonblocking(true).unwrap();
            assert_eq!((&*other).read(&mut [0]).unwrap_err().kind(), ErrorKind::WouldBlock);
        }
        for part in [&b"GET /metrics HTTP/1.1\r\n"[..], b"Host: x\r\n\r\n"] {
            reader.write_all(part).unwrap();
            exporter.serve(SessionGauges::default(), now);
        }
        reader.set_read_timeout(Some(Duration::from_millis(10))).unwrap();
        let mut got = Vec::new();
        let answered = (0..1000).any(|_| {
            exporter.serve(SessionGauges::default(), now);
            reader.read_to_end(&mut got).is_ok()
        });
        assert!(answered && got.starts_with(b"HTTP/1.1 200 OK\r\n"));
        assert_eq!(exporter.clients.len(), MOST_CLIENTS - 1);
        // One whose request comes at once needs no place.
        assert!(ask_at(&mut exporter, b"GET / HTTP/1.0\r\n\r\n", now).starts_with("HTTP/1.1 404"));
    }

    #[test]
    fn slow_clients_are_dropped() {
        let mut exporter = Exporter::bind(([127, 0, 0, 1], 0).into()).unwrap();
        let address = exporter.address().unwrap();
        let now = Instant::now();
        let idle: Vec<_> = (0..MOST_CLIENTS + 3).map(|_| TcpStream::connect(address).unwrap()).collect();
        exporter.serve(SessionGauges::default(), now);
        assert_eq!(exporter.clients.len(), MOST_CLIENTS);
        assert_eq!(exporter.deadline(), Some(now + TIMEOUT));
        exporter.serve(SessionGauges::default(), now + TIMEOUT);
        assert!(exporter.clients.is_empty());
        drop(idle);
    }
}
