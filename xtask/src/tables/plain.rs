//! TCP without SSH: netcat and iperf3 on loopback.

use std::net::TcpListener;
use std::process::{Child, Command, Stdio};
use std::time::{Duration, Instant};

use lh_interop::find;

/// Time limit of one transfer.
const LIMIT: Duration = Duration::from_secs(30);

/// Returns program and MB/s of one transfer, for each program that is installed and works.
pub(super) fn round(bytes: u64) -> Vec<(&'static str, f64)> {
    let mut all = Vec::new();
    all.extend(netcat(bytes).map(|rate| ("netcat", rate)));
    all.extend(iperf().map(|rate| ("iperf3", rate)));
    all
}

fn free_port() -> Option<String> {
    let listener = TcpListener::bind("127.0.0.1:0").ok()?;
    Some(listener.local_addr().ok()?.port().to_string())
}

/// A child that is ended when this value is dropped.
struct Ends(Child);

impl Ends {
    /// True if it ended successfully within the limit.
    fn ended(&mut self) -> bool {
        let begun = Instant::now();
        while begun.elapsed() < LIMIT {
            match self.0.try_wait() {
                Ok(Some(status)) => return status.success(),
                Ok(None) => std::thread::sleep(Duration::from_millis(2)),
                Err(_) => return false,
            }
        }
        false
    }
}

impl Drop for Ends {
    fn drop(&mut self) {
        let _ = self.0.kill();
        let _ = self.0.wait();
    }
}

/// Waits until a port listens, without connecting to it: netcat accepts only one connection.
fn listens(port: &str) -> bool {
    let wanted = format!(":{:04X} 00000000:0000 0A", port.parse::<u16>().unwrap_or(0));
    let begun = Instant::now();
    while begun.elapsed() < Duration::from_secs(5) {
        let table = std::fs::read_to_string("/proc/net/tcp").unwrap_or_default();
        if table.contains(&wanted) {
            return true;
        }
        std::thread::sleep(Duration::from_millis(5));
    }
    false
}

fn netcat(bytes: u64) -> Option<f64> {
    let (nc, port) = (find("nc")?, free_port()?);
    // OpenBSD's netcat expects -l ADDRESS PORT, the traditional one -l -s ADDRESS -p PORT.
    let help = Command::new(&nc).arg("-h").stdin(Stdio::null()).output().ok()?;
    let is_openbsd = String::from_utf8_lossy(&[help.stdout, help.stderr].concat()).contains("OpenBSD");
    let (listen, end): (&[&str], &str) =
        if is_openbsd { (&["-l", "127.0.0.1"], "-N") } else { (&["-l", "-s", "127.0.0.1", "-p"], "-q0") };
    let mut server = Command::new(&nc);
    server.args(listen).arg(&port).stdin(Stdio::null()).stdout(Stdio::null()).stderr(Stdio::null());
    let mut server = Ends(server.spawn().ok()?);
    if !listens(&port) {
        return None;
    }
    let mut client = Command::new("sh");
    client.args(["-c", "head -c \"$1\" /dev/zero | exec \"$2\" \"$3\" 127.0.0.1 \"$4\"", "sh"]);
    client.arg(bytes.to_string()).arg(&nc).args([end, &port]);
    client.stdin(Stdio::null()).stdout(Stdio::null()).stderr(Stdio::null());
    let begun = Instant::now();
    let mut client = Ends(client.spawn().ok()?);
    (client.ended() && server.ended()).then(|| bytes as f64 / 1e6 / begun.elapsed().as_secs_f64())
}

fn iperf() -> Option<f64> {
    let (iperf, port) = (find("iperf3")?, free_port()?);
    let mut server = Command::new(&iperf);
    server.args(["-s", "-1", "-B", "127.0.0.1", "-p", &port]).stdin(Stdio::null()).stdout(Stdio::null());
    let _server = Ends(server.spawn().ok()?);
    if !listens(&port) {
        return None;
    }
    let mut client = Command::new(&iperf);
    client.args(["-c", "127.0.0.1", "-p", &port, "-t", "1", "-f", "k"]).stdin(Stdio::null());
    received(&String::from_utf8_lossy(&client.output().ok()?.stdout))
}

/// The receiver's rate in iperf3's report with `-f k`, MB/s.
fn received(text: &str) -> Option<f64> {
    let line = text.lines().find(|line| line.ends_with("receiver"))?;
    let words: Vec<&str> = line.split_whitespace().collect();
    let at = words.iter().position(|word| *word == "Kbits/sec")?;
    Some(words.get(at.checked_sub(1)?)?.parse::<f64>().ok()? / 8000.0)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn netcat_moves_all_bytes_where_it_is_installed() {
        if find("nc").is_some() {
            assert!(netcat(1 << 20).is_some_and(|rate| rate > 0.0));
        }
        assert_eq!(received("[  5] 0.00-1.00 sec 9 MBytes 8000000 Kbits/sec receiver"), Some(1000.0));
        assert_eq!(received("iperf3: error"), None);
    }
}
