//! Requesting the peer's metrics, in HPN-SSH's wire format.
//!
//! The request is a global one without fields. The success carries a string with a [`binn`] object of
//! `kernel_version` and the kernel's fields as `tcpi_…`. HPN-SSH reads by name, and the version determines
//! the names it expects. So the version sent is never newer than the fields present. Between Longhaul ends
//! the object also has SSH's own metrics, as `ssh_…` (docs/metrics.md).

use crate::binn::{self, BinnError, Value};
use crate::{Sample, ThreadTime};

/// The request's name.
pub const REQUEST: &str = "stack-metrics@hpnssh.org";

/// Name of the congestion control in the answer of a Longhaul server.
const CONGESTION_CONTROL: &str = "ssh_congestion_control";
/// Name of the threads in that answer: text with a line `ID MICROSECONDS NAME` for each.
const THREADS: &str = "ssh_threads";

/// Encodes the answer. `version` is the version of the kernel's fields (`TcpInfo::version`); `ours`: the peer
/// is Longhaul.
pub fn answer(sample: &Sample, version: (u8, u8), ours: bool) -> Vec<u8> {
    let code = u64::from(version.0) << 16 | u64::from(version.1) << 8;
    let named = |prefix: &str, values: &[(&'static str, u64)]| -> Vec<(String, Value)> {
        values.iter().map(|(name, value)| (format!("{prefix}{name}"), Value::Number(*value))).collect()
    };
    let mut entries = vec![("kernel_version".to_owned(), Value::Number(code))];
    entries.extend(named("tcpi_", &sample.tcp));
    if ours {
        entries.extend(named("ssh_", &sample.ssh));
        let congestion_control = sample.congestion_control.clone().map(Value::Text);
        entries.extend(congestion_control.map(|name| (CONGESTION_CONTROL.to_owned(), name)));
        let line = |thread: &ThreadTime| format!("{} {} {}\n", thread.id, thread.cpu_micros, thread.name);
        let lines: String = sample.threads.iter().map(line).collect();
        if !lines.is_empty() {
            entries.push((THREADS.to_owned(), Value::Text(lines)));
        }
    }
    binn::encode(entries.iter().map(|(name, value)| (name.as_str(), value)))
}

/// Decodes an answer; unknown names are skipped.
///
/// # Errors
/// It is not an object of named values.
pub fn read_answer(bytes: &[u8]) -> Result<Sample, BinnError> {
    let mut sample = Sample::default();
    for (name, value) in binn::decode(bytes)? {
        match value {
            Value::Text(text) if name == CONGESTION_CONTROL => sample.take_congestion_control(&text),
            Value::Text(text) if name == THREADS => {
                for line in text.lines() {
                    let mut parts = line.splitn(3, ' ');
                    let (id, micros) = (parts.next(), parts.next());
                    let id = id.and_then(|id| id.parse().ok());
                    let micros = micros.and_then(|micros| micros.parse().ok());
                    if let (Some(id), Some(micros), Some(name)) = (id, micros, parts.next()) {
                        sample.take_thread(id, name, micros);
                    }
                }
            }
            Value::Text(_) => {}
            Value::Number(number) => {
                if let Some(name) = name.strip_prefix("tcpi_") {
                    sample.take(true, name, number);
                } else if let Some(name) = name.strip_prefix("ssh_") {
                    sample.take(false, name, number);
                }
            }
        }
    }
    Ok(sample)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn hpn_peer_gets_kernel_fields_only() {
        let sample = Sample {
            tcp: vec![("rtt", 50_000), ("snd_cwnd", 10)],
            ssh: vec![("rekeys", 2)],
            congestion_control: Some("bbr".to_owned()),
            threads: vec![
                ThreadTime { id: 7, name: "main a b".to_owned(), cpu_micros: 1 << 40 },
                ThreadTime { id: 8, name: "packets".to_owned(), cpu_micros: 0 },
            ],
        };
        let for_hpn = answer(&sample, (4, 19), false);
        assert_eq!(
            binn::decode(&for_hpn).unwrap(),
            [
                ("kernel_version".to_owned(), Value::Number(0x04_13_00)),
                ("tcpi_rtt".to_owned(), Value::Number(50_000)),
                ("tcpi_snd_cwnd".to_owned(), Value::Number(10))
            ]
        );
        assert_eq!(read_answer(&answer(&sample, (4, 19), true)).unwrap(), sample);
        let escape = Value::Text("\u{1b}[2J".to_owned());
        let numbers = [5, 7, 9].map(Value::Number);
        let names = ["tcpi_rtt", "tcpi_colour", "else"];
        let lines = Value::Text("7\n7 x packets\n-7 5 packets\n8 5 \u{1b}[2J\n\n".to_owned());
        let odd = names.into_iter().zip(&numbers).chain([(CONGESTION_CONTROL, &escape), (THREADS, &lines)]);
        let threads = vec![ThreadTime { id: 8, name: "?[2J".to_owned(), cpu_micros: 5 }];
        let expected = Sample { tcp: vec![("rtt", 5)], threads, ..Sample::default() };
        assert_eq!(read_answer(&binn::encode(odd)).unwrap(), expected);
    }
}
